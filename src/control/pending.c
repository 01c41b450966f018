/* pending.c - see pending.h. */
#include "control/pending.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/ticks.h"
#include "control/client.h"
#include "control/server.h"
#include "text/json_write.h"

struct pending {
	struct ws_server *server;
	const struct ws_text *request; /* members */
	uint64_t since;		       /* session ns */
	atomic_flag taken;
};

static void end_soon(void)
{
	kill(getpid(), SIGTERM);
}

static void refuse_request(struct ws_text *answer, const char *why)
{
	ws_message_put_flag(answer, "done", false);
	ws_put_json_string(answer, "message", why);
}

/* The name is released before the answer is sent, because the `launch` that takes over makes a
 * session of that name. */
static void end_session(struct pending *pending, struct ws_text *answer)
{
	if (atomic_flag_test_and_set(&pending->taken)) {
		refuse_request(answer, "the session is ending");
		return;
	}
	ws_server_hide(pending->server);
	ws_message_put_flag(answer, "done", true);
	ws_put_json_string(answer, "message", "");
	ws_put_json_string(answer, "report", "");
	end_soon();
}

static void put_status(const struct pending *pending, struct ws_text *answer)
{
	ws_message_put_flag(answer, "done", true);
	ws_put_json_int(answer, "recorder", getpid());
	ws_put_json_string(answer, "program", "");
	ws_put_json_string(answer, "state", "waiting for launch");
	ws_put_json_int(answer, "age", (int64_t)(ws_read_raw_ns() - pending->since));
}

static void answer_request(void *ctx, const struct ws_message *request, struct ws_text *answer)
{
	struct pending *pending = ctx;
	const char *word = ws_text_or(ws_message_text(request, "do"), "");

	if (!strcmp(word, "take")) {
		end_session(pending, answer);
		if (pending->request->len) {
			ws_text_puts(answer, ",");
			ws_text_add(answer, pending->request->text, pending->request->len);
		}
	} else if (!strcmp(word, "status")) {
		put_status(pending, answer);
	} else if (!strcmp(word, "cancel") || !strcmp(word, "shutdown")) {
		end_session(pending, answer);
	} else if (!strcmp(word, "start")) {
		refuse_request(answer,
			       "a collection has been asked for already and waits for 'warpsight "
			       "launch': cancel it first");
	} else {
		refuse_request(
			answer,
			"nothing has been launched in this session yet, so there is nothing "
			"to stop: 'warpsight launch' runs a program in it, 'warpsight cancel' "
			"forgets the start");
	}
}

/* Descriptors of the terminal and of the starting process are not kept open. */
static void detach_process(int keep)
{
	int null = open("/dev/null", O_RDWR);

	setsid();
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	for (int fd = 3; fd < 1024; fd++)
		if (fd != keep)
			close(fd);
	prctl(PR_SET_NAME, "warpsight-start");
}

static _Noreturn void keep_request(const char *name, const struct ws_text *request, int ready)
{
	struct pending pending = {.request = request, .since = ws_read_raw_ns()};
	struct ws_err err = {""};
	sigset_t ends;
	int sig;

	atomic_flag_clear(&pending.taken);
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	detach_process(ready);
	if (ws_server_start(&pending.server, name, answer_request, &pending, &err)) {
		(void)!write(ready, err.msg, strlen(err.msg));
		_exit(1);
	}
	close(ready);
	sigwait(&ends, &sig);
	ws_server_end(pending.server);
	_exit(0);
}

int ws_pending_start(const char *name, const struct ws_text *request, struct ws_err *err)
{
	char said[sizeof(err->msg)] = "";
	int ready[2];
	ssize_t n;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC))
		return ws_fail_errno(err, "cannot make a pipe");
	pid = fork();
	if (!pid)
		keep_request(name, request, ready[1]);
	close(ready[1]);
	if (pid < 0) {
		close(ready[0]);
		return ws_fail_errno(err, "cannot start the session's process");
	}
	while ((n = read(ready[0], said, sizeof(said) - 1)) < 0 && errno == EINTR)
		;
	close(ready[0]);
	if (n)
		return ws_fail(err, "%s", said);
	return 0;
}

int ws_pending_take(const char *name, struct ws_message *kept, struct ws_err *err)
{
	struct ws_text request = {0};
	int rc;

	ws_put_json_string(&request, "do", "take");
	rc = ws_session_ask(name, &request, kept, err);
	ws_text_free(&request);
	if (!rc && !ws_message_flag(kept, "done"))
		rc = 1;
	return rc;
}
