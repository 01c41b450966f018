/* top_attach.c - see top_attach.h. */
#include "cli/top_attach.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/cleanup.h"
#include "base/compiler.h"
#include "base/mem.h"

static _Noreturn void run_recorder(const char *pid, const char *report, int messages)
{
	char *const argv[] = {"warpsight", "profile",	   "--attach", (char *)pid,
			      "-o",	   (char *)report, "--quiet",  "--resolve-symbols=false",
			      NULL};
	int nothing = open("/dev/null", O_RDWR);

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	setpgid(0, 0); /* the terminal's interrupts are ours */
	dup2(nothing, 0);
	dup2(nothing, 1);
	dup2(messages, 2);
	execv("/proc/self/exe", argv);
	_exit(127);
}

/* Its messages without our name before them, in one line. */
static void read_messages(const struct ws_top_recording *recording, struct ws_err *err)
{
	static const char name[] = "warpsight: ";
	char text[sizeof(err->msg)];
	ssize_t n = read(recording->messages, text, sizeof(text) - 1);

	text[ws_max(n, (ssize_t)0)] = 0;
	text[strcspn(text, "\n")] = 0;
	if (!*text)
		ws_fail(err, "the process could not be recorded");
	else if (!strncmp(text, name, strlen(name)))
		ws_fail(err, "%s", text + strlen(name));
	else
		ws_fail(err, "%s", text);
}

/* The report is there once its journal is: then it can be followed. */
static int wait_for_report(struct ws_top_recording *recording, struct ws_err *err)
{
	char *journal = ws_format("%s.journal", recording->report);
	struct timespec pause = {0, 10000000};
	int status, rc = 0;

	while (access(journal, F_OK)) {
		if (waitpid(recording->recorder, &status, WNOHANG)) {
			recording->recorder = 0;
			read_messages(recording, err);
			rc = -1;
			break;
		}
		nanosleep(&pause, NULL);
	}
	free(journal);
	return rc;
}

int ws_top_begin_recording(struct ws_top_recording *recording, int64_t pid, struct ws_err *err)
{
	char number[24];
	int messages[2];

	*recording = (struct ws_top_recording){.messages = -1, .litter = {-1, -1, -1}};
	recording->folder =
		ws_format("%s/warpsight-top-XXXXXX", ws_text_or(getenv("TMPDIR"), "/tmp"));
	if (!mkdtemp(recording->folder)) {
		ws_fail_errno(err, "cannot make a folder %s", recording->folder);
		free(recording->folder);
		recording->folder = NULL;
		return -1;
	}
	recording->report = ws_format("%s/top.wsrep", recording->folder);
	recording->litter[0] = ws_cleanup_add_path(recording->folder, true);
	recording->litter[1] = ws_cleanup_add_path(recording->report, false);
	if (pipe2(messages, O_CLOEXEC))
		return ws_fail_errno(err, "cannot make a pipe");
	recording->messages = messages[0];
	snprintf(number, sizeof(number), "%lld", (long long)pid);
	recording->recorder = fork();
	if (!recording->recorder)
		run_recorder(number, recording->report, messages[1]);
	close(messages[1]);
	if (recording->recorder < 0) {
		recording->recorder = 0;
		return ws_fail_errno(err, "cannot start a recorder");
	}
	recording->litter[2] = ws_cleanup_add_program(recording->recorder);
	return wait_for_report(recording, err);
}

void ws_top_end_recording(struct ws_top_recording *recording)
{
	if (recording->recorder) {
		kill(recording->recorder, SIGTERM);
		while (waitpid(recording->recorder, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (!recording->folder)
		return;
	for (size_t i = 0; i < WS_COUNT(recording->litter); i++)
		ws_cleanup_forget(recording->litter[i]);
	if (recording->messages >= 0)
		close(recording->messages);
	if (recording->report)
		unlink(recording->report);
	rmdir(recording->folder);
	free(recording->report);
	free(recording->folder);
	*recording = (struct ws_top_recording){0};
}
