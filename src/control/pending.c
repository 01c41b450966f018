/* pending.c - see pending.h. */
#include "control/pending.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/ticks.h"
#include "control/background.h"
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

struct wanted {
	const char *name;
	const struct ws_text *request;
};

static void keep_request(void *ctx, int ready)
{
	const struct wanted *wanted = ctx;
	struct pending pending = {.request = wanted->request, .since = ws_read_raw_ns()};
	struct ws_err err = {""};
	sigset_t ends;
	int sig;

	atomic_flag_clear(&pending.taken);
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	ready = ws_background_detach(ready, "warpsight-start");
	if (ws_server_start(&pending.server, wanted->name, answer_request, &pending, &err)) {
		ws_background_ready(ready, err.msg);
		_exit(1);
	}
	ws_background_ready(ready, NULL);
	sigwait(&ends, &sig);
	ws_server_end(pending.server);
	_exit(0);
}

int ws_pending_start(const char *name, const struct ws_text *request, struct ws_err *err)
{
	struct wanted wanted = {name, request};
	char said[sizeof(err->msg)];

	if (ws_background_start(keep_request, &wanted, said, sizeof(said), err))
		return -1;
	return *said ? ws_fail(err, "%s", said) : 0;
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
