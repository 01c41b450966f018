/*
 * per_node.c - see per_node.h.
 *
 * Every rank is started with the same command. The first on a host starts a recorder, a process of
 * its own that belongs to no rank: in a session of its own, without a descriptor of theirs, so that
 * neither the signals that a launcher sends nor its wait for the end of a rank's output concern it.
 * Each rank then joins: it asks the recorder what its program needs in its environment, forks,
 * has the child followed and lets it execute the program. When that has ended, the rank's process
 * ends with its status; the last one first waits for the report, because schedulers kill what is
 * left of a job when its last rank has ended.
 *
 * Ranks and their recorder speak through the socket of a session (control/), which is named after
 * the job.
 */
#include "cli/per_node.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/choose.h"
#include "cli/session.h"
#include "cli/text.h"
#include "control/background.h"
#include "control/client.h"
#include "control/commands.h"
#include "control/folder.h"
#include "control/server.h"
#include "record/launch.h"
#include "record/process_stat.h"
#include "record/ranks.h"
#include "record/signals.h"
#include "text/json_write.h"

enum {
	MOST_TRIES = 600, /* of 0.1 s, while another session of the name ends */
	MOST_SAID = 32 << 10,
};

/* ---- the session's name ---- */

/* When the process that started us began, in ticks since the machine did. */
static unsigned long long read_parent_start(void)
{
	char line[WS_PROCESS_STAT];
	const char *after = ws_read_process_stat(getppid(), line);
	unsigned long long start = 0;

	if (!after || sscanf(after,
			     ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
			     "%*d %*d %*d %llu",
			     &start) != 1)
		return 0;
	return start;
}

/*
 * A key that the ranks of one job on this host share: the number that a launcher gives to each of
 * its runs, where there is one, else the process that has started them. (A scheduler's number of
 * the job is not enough: a job may run several launchers at once.)
 */
static char *name_session(const struct ws_record_options *options, struct ws_err *err)
{
	static const char *const numbers[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
					      "SLURM_STEP_ID",	"FLUX_JOB_ID",
					      "PALS_APID",	"JSM_NAMESPACE",
					      "MASTER_PORT"};
	struct ws_text text = {0};
	struct stat namespace;
	bool numbered = false;
	char *name;

	if (options->session_new)
		return ws_expand_session(options->session_new, "session-new", err);
	for (size_t i = 0; i < WS_COUNT(numbers); i++) {
		const char *value = getenv(numbers[i]);

		numbered |= value && *value;
		ws_text_printf(&text, "%s\n", ws_text_or(value, ""));
	}
	ws_text_printf(&text, "%s\n", ws_text_or(getenv("SLURM_JOB_ID"), ""));
	/* A recorder knows processes by the numbers of its own namespace. */
	if (!stat("/proc/self/ns/pid", &namespace))
		ws_text_printf(&text, "%ju\n", (uintmax_t) namespace.st_ino);
	if (!numbered)
		ws_text_printf(&text, "%d %llu", (int)getppid(), read_parent_start());
	name = ws_format("node-%016" PRIx64, (uint64_t)XXH3_64bits(text.text, text.len));
	ws_text_free(&text);
	return name;
}

/* ---- the recorder ---- */

/* A launcher may have bound the rank that starts the recorder to one core, which it would share. */
static void unbind(void)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	sched_setaffinity(0, sizeof(all), &all);
}

/* Leave the rank. What is said goes into memory: *said is its descriptor. Returns as
 * ws_background_detach does. */
static int leave_rank(int ready, int *said)
{
	ready = ws_background_detach(ready, "warpsight-node");
	*said = memfd_create("warpsight-said", MFD_CLOEXEC);
	if (*said >= 0)
		dup2(*said, STDERR_FILENO);
	unbind();
	return ready;
}

/* What was written into the memory; owned by the caller. */
static char *read_said(int fd)
{
	struct stat status;
	char *text = ws_calloc(1, MOST_SAID + 1);

	if (!fstat(fd, &status) && S_ISREG(status.st_mode))
		(void)!pread(fd, text, MOST_SAID, 0);
	return text;
}

/* The ranks may have been started in another folder. */
static void make_absolute(char **path)
{
	char *folder = **path == '/' ? NULL : getcwd(NULL, 0);
	char *absolute;

	if (!folder)
		return;
	absolute = ws_format("%s/%s", folder, *path);
	free(folder);
	free(*path);
	*path = absolute;
}

/* The ranks that wait hear what became of it. */
static void tell_end(struct ws_commands *commands, struct ws_record_result *result, int said)
{
	char *text;

	if (result->lost)
		ws_warn("%llu rows could not be written", (unsigned long long)result->lost);
	for (size_t i = 0; i < result->report_count; i++)
		make_absolute(&result->reports[i]);
	text = read_said(said);
	ws_commands_end(commands, text, result->reports, result->report_count);
	free(text);
}

struct node {
	struct ws_record_opts *opts;
	const char *session;
};

static void run_recorder(void *ctx, int ready)
{
	const struct node *node = ctx;
	struct ws_record_result result = {0};
	struct ws_mailbox *mailbox = ws_mailbox_new();
	struct ws_server *server = NULL;
	struct ws_commands commands;
	struct ws_err err = {""};
	int said;

	ready = leave_rank(ready, &said);
	ws_commands_init(&commands, mailbox, node->opts->argv[0]);
	commands.gathers = true;
	node->opts->mailbox = mailbox;
	if (ws_server_start(&server, node->session, ws_commands_answer, &commands, &err)) {
		ws_background_ready(ready, err.msg);
		_exit(1);
	}
	ws_background_ready(ready, NULL);
	if (ws_record(node->opts, &result, &err) && result.started)
		ws_say("%s", err.msg);
	ws_server_hide(server);
	ws_mailbox_close(mailbox, *err.msg ? err.msg : "the session is ending");
	tell_end(&commands, &result, said);
	ws_server_end(server);
	_exit(0);
}

/* Start it detached from this process. 0 when it listens, or another rank was faster; -1 with a
 * message. */
static int start_recorder(struct ws_record_opts *opts, const char *session, struct ws_err *err)
{
	struct node node = {opts, session};
	char said[sizeof(err->msg)];

	if (ws_background_start(run_recorder, &node, said, sizeof(said), err))
		return -1;
	if (*said && !ws_session_exists(session))
		return ws_fail(err, "%s", said);
	return 0;
}

/* ---- a rank ---- */

struct rank {
	const struct ws_record_options *options;
	struct ws_record_opts *opts;
	char *session;
	struct ws_launch launch;
	char **env;
};

/* Ask the recorder; -1 with a message. */
static int ask(const struct rank *rank, const char *word, int pid, struct ws_message *answer,
	       struct ws_err *err)
{
	struct ws_text more = {0};
	int rc;

	ws_put_json_int(&more, "starter", getpid());
	if (pid)
		ws_put_json_int(&more, "pid", pid);
	rc = ws_command_session(rank->session, word, &more, answer, err);
	ws_text_free(&more);
	return rc;
}

/* Fork the program's process and have it followed. */
static int join(struct rank *rank, const struct ws_message *hooks, struct ws_err *err)
{
	struct ws_message answer = {0};
	int rc;

	ws_launch_environment_free(rank->env);
	rank->env =
		ws_launch_environment(rank->opts, ws_text_or(ws_message_text(hooks, "arena"), ""),
				      ws_text_or(ws_message_text(hooks, "preload"), ""),
				      ws_text_or(ws_message_text(hooks, "nvtx"), ""),
				      ws_text_or(ws_message_text(hooks, "cuda"), ""));
	if (ws_launch_prepare(&rank->launch, rank->opts, rank->env, -1, -1, err))
		return -1;
	rc = ask(rank, "join", rank->launch.pid, &answer, err);
	ws_message_free(&answer);
	if (rc) {
		ws_launch_cancel(&rank->launch);
		waitpid(rank->launch.pid, NULL, 0);
	}
	return rc;
}

/* Whether the failure is temporary: the recorder is just ending, so that the next try starts
 * another, or too many ranks contact it at once. */
static bool is_passing(const struct ws_err *err)
{
	static const char *const words[] = {"session is ending", "did not answer",
					    "there is no session", "too many commands"};

	for (size_t i = 0; i < WS_COUNT(words); i++)
		if (strstr(err->msg, words[i]))
			return true;
	return false;
}

/* One try: 0, or -1 with a message. */
static int try_to_join(struct rank *rank, struct ws_err *err)
{
	struct ws_message hooks = {0};
	int rc;

	if (!ws_session_exists(rank->session) && start_recorder(rank->opts, rank->session, err))
		return -1;
	rc = ask(rank, "join", 0, &hooks, err);
	if (!rc)
		rc = join(rank, &hooks, err);
	ws_message_free(&hooks);
	return rc;
}

/* Join the host's recorder, which is started where there is none. */
static int join_recorder(struct rank *rank, struct ws_err *err)
{
	const struct timespec pause = {0, 100000000};

	for (int tries = 0; try_to_join(rank, err); tries++) {
		if (tries == MOST_TRIES || !is_passing(err))
			return -1;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* Whether the program has ended; where it has stopped, this process stops with it, so that the
 * shell sees it. */
static bool has_ended(pid_t pid)
{
	siginfo_t info = {0};

	if (!waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG) && info.si_pid == pid &&
	    info.si_status != SIGSTOP)
		kill(getpid(), SIGSTOP);
	info.si_pid = 0;
	return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid == pid;
}

/* Signals sent to this process are the program's. Returns its status as a shell would give it. */
static int follow_program(pid_t pid)
{
	sigset_t all, old;
	int status = 0, sig;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	while (!has_ended(pid)) {
		while ((sig = ws_signals_pending()))
			kill(pid, sig);
		sigsuspend(&old);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Print what the recorder has said, and do with the reports what was asked for. */
static void show_end(const struct rank *rank, const struct ws_message *answer)
{
	const char *text = ws_text_or(ws_message_text(answer, "text"), ""), *report;
	size_t at = 0;

	fputs(text, stderr);
	while ((report = ws_message_next(answer, "reports", &at))) {
		char *path = ws_strdup(report);

		if (!rank->options->quiet)
			ws_say("Generated: %s", path);
		ws_follow_up_report(rank->options, path);
		free(path);
	}
}

/* The last rank to end gets its answer when the report is there. */
static void leave(const struct rank *rank)
{
	struct ws_message answer = {0};
	struct ws_err err;

	if (ask(rank, "leave", 0, &answer, &err))
		ws_warn("%s: the host's recorder has ended early; 'warpsight recover' closes what "
			"it has left",
			err.msg);
	else if (ws_message_flag(&answer, "over"))
		show_end(rank, &answer);
	ws_message_free(&answer);
}

static int run_rank(struct rank *rank)
{
	struct ws_err err = {""};
	int status, error;

	if (join_recorder(rank, &err)) {
		ws_say("%s", err.msg);
		return WS_EXIT_FAIL;
	}
	error = ws_launch_go(&rank->launch);
	status = follow_program(rank->launch.pid);
	if (error) {
		const char *name = rank->opts->argv[0];
		const char *why = ws_launch_explain(name, rank->env, &status, error);

		ws_say("cannot run %s: %s", *name ? name : "''", why);
	}
	leave(rank);
	return status;
}

int ws_record_per_node(const struct ws_record_options *options, struct ws_record_opts *record_opts)
{
	struct ws_variables variables = ws_copy_variables(environ);
	struct rank rank = {.options = options, .opts = record_opts};
	struct ws_rank found;
	struct ws_err err;
	int status = WS_EXIT_USAGE;

	record_opts->gather = true;
	if (ws_read_rank(variables, &found))
		record_opts->gather_expected = found.local_world;
	free((char *)variables.text);
	rank.session = name_session(options, &err);
	if (!rank.session) {
		ws_say("profile: %s", err.msg);
		return status;
	}
	ws_signals_install();
	status = run_rank(&rank);
	ws_signals_restore();
	ws_launch_environment_free(rank.env);
	free(rank.session);
	return status;
}
