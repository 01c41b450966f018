/* commands.c - see commands.h. Requests are untrusted, but their senders are the user. */
#include "control/commands.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/ticks.h"
#include "text/json_write.h"

void ws_commands_init(struct ws_commands *commands, struct ws_mailbox *mailbox, const char *program)
{
	*commands = (struct ws_commands){.mailbox = mailbox, .program = ws_strdup(program)};
	pthread_mutex_init(&commands->lock, NULL);
	pthread_cond_init(&commands->changed, NULL);
}

void ws_commands_free(struct ws_commands *commands)
{
	pthread_cond_destroy(&commands->changed);
	pthread_mutex_destroy(&commands->lock);
	ws_text_free(&commands->ending);
	for (size_t i = 0; i < commands->named_count; i++)
		free(commands->named[i]);
	free(commands->named);
	free(commands->program);
	free(commands->follow_up.export_to);
}

void ws_commands_note_follow_up(struct ws_commands *commands, const struct ws_message *message)
{
	const char *types = ws_message_text(message, "export");

	pthread_mutex_lock(&commands->lock);
	free(commands->follow_up.export_to);
	commands->follow_up = (struct ws_follow_up){
		.stats = ws_message_flag(message, "stats"),
		.overwrite = ws_message_flag(message, "overwrite"),
		.no_findings = ws_message_flag(message, "no_findings"),
	};
	if (types)
		commands->follow_up.export_to = ws_strdup(types);
	pthread_mutex_unlock(&commands->lock);
}

bool ws_commands_has_named(struct ws_commands *commands, const char *report)
{
	bool named = false;

	pthread_mutex_lock(&commands->lock);
	for (size_t i = 0; i < commands->named_count && !named; i++)
		named = !strcmp(commands->named[i], report);
	pthread_mutex_unlock(&commands->lock);
	return named;
}

static void note_named(struct ws_commands *commands, const char *report)
{
	if (!*report || ws_commands_has_named(commands, report))
		return;
	pthread_mutex_lock(&commands->lock);
	ws_grow(commands->named, commands->named_cap, commands->named_count + 1);
	commands->named[commands->named_count++] = ws_strdup(report);
	pthread_mutex_unlock(&commands->lock);
}

static void put_follow_up(struct ws_commands *commands, struct ws_text *answer)
{
	pthread_mutex_lock(&commands->lock);
	ws_message_put_flag(answer, "stats", commands->follow_up.stats);
	ws_message_put_flag(answer, "overwrite", commands->follow_up.overwrite);
	ws_message_put_flag(answer, "no_findings", commands->follow_up.no_findings);
	if (commands->follow_up.export_to)
		ws_put_json_string(answer, "export", commands->follow_up.export_to);
	pthread_mutex_unlock(&commands->lock);
}

int ws_commands_read_start(const struct ws_message *message, struct ws_plan *plan,
			   struct ws_control_request *request, struct ws_err *err)
{
	const char *capture = ws_message_text(message, "capture"),
		   *range_end = ws_message_text(message, "range_end"),
		   *steps = ws_message_text(message, "steps");
	int64_t duration = ws_message_number(message, "duration", 0);

	*plan = (struct ws_plan){.capture = WS_CAPTURE_USER, .interactive = true};
	if (capture && ws_plan_read_capture(capture, &plan->capture, err))
		return -1;
	if (plan->capture == WS_CAPTURE_NONE)
		plan->capture = WS_CAPTURE_USER;
	if (steps && ws_plan_read_steps(steps, plan, err))
		return -1;
	if (range_end && ws_plan_read_range_end(range_end, plan, err))
		return -1;
	if (duration < 0)
		return ws_fail(err, "a duration cannot be negative");
	plan->duration = (uint64_t)duration;
	*request = (struct ws_control_request){
		.kind = WS_CONTROL_START,
		.plan = plan,
		.range = ws_message_text(message, "range"),
		.domain = ws_message_text(message, "domain"),
		.output = ws_message_text(message, "output"),
		.overwrite = ws_message_flag(message, "overwrite"),
	};
	return 0;
}

/* ---- answers ---- */

static void put_refusal(struct ws_text *answer, const char *why)
{
	ws_message_put_flag(answer, "done", false);
	ws_put_json_string(answer, "message", why);
}

static bool put_reply(struct ws_text *answer, const struct ws_control_reply *reply)
{
	ws_message_put_flag(answer, "done", reply->done);
	ws_put_json_string(answer, "message", reply->message);
	ws_put_json_string(answer, "report", reply->report);
	return reply->done;
}

static void start_collection(struct ws_commands *commands, const struct ws_message *message,
			     struct ws_text *answer)
{
	struct ws_control_request request;
	struct ws_control_reply reply;
	struct ws_plan plan;
	struct ws_err err;

	if (ws_commands_read_start(message, &plan, &request, &err)) {
		put_refusal(answer, err.msg);
		return;
	}
	ws_mailbox_request(commands->mailbox, &request, &reply);
	if (put_reply(answer, &reply))
		ws_commands_note_follow_up(commands, message);
}

static void stop_collection(struct ws_commands *commands, const struct ws_message *message,
			    struct ws_text *answer)
{
	struct ws_control_request request = {
		.kind = WS_CONTROL_STOP,
		.asked = (uint64_t)ws_message_number(message, "asked", 0),
	};
	struct ws_control_reply reply;

	ws_mailbox_request(commands->mailbox, &request, &reply);
	if (!put_reply(answer, &reply))
		return;
	put_follow_up(commands, answer);
	note_named(commands, reply.report);
}

static void cancel_collection(struct ws_commands *commands, const struct ws_message *message,
			      struct ws_text *answer)
{
	struct ws_control_request request = {.kind = WS_CONTROL_CANCEL};
	struct ws_control_reply reply;

	(void)message;
	ws_mailbox_request(commands->mailbox, &request, &reply);
	put_reply(answer, &reply);
}

static void take_snapshot(struct ws_commands *commands, const struct ws_message *message,
			  struct ws_text *answer)
{
	struct ws_control_request request = {.kind = WS_CONTROL_SNAPSHOT,
					     .output = ws_message_text(message, "output"),
					     .overwrite = ws_message_flag(message, "overwrite")};
	struct ws_control_reply reply;

	ws_mailbox_request(commands->mailbox, &request, &reply);
	if (put_reply(answer, &reply))
		note_named(commands, reply.report);
}

static void shut_down(struct ws_commands *commands, const struct ws_message *message,
		      struct ws_text *answer)
{
	struct ws_control_request request = {.kind = WS_CONTROL_SHUTDOWN};
	struct ws_control_reply reply;

	request.signal = (int)ws_message_number(message, "signal", 0);
	ws_mailbox_request(commands->mailbox, &request, &reply);
	if (!put_reply(answer, &reply))
		return;
	put_follow_up(commands, answer);
	note_named(commands, reply.report);
}

static void put_status(struct ws_commands *commands, const struct ws_message *message,
		       struct ws_text *answer)
{
	struct ws_control_status status;
	uint64_t now = ws_read_raw_ns();

	(void)message;
	ws_mailbox_status(commands->mailbox, &status);
	ws_message_put_flag(answer, "done", true);
	ws_put_json_int(answer, "recorder", getpid());
	ws_put_json_string(answer, "program", commands->program);
	ws_put_json_string(answer, "state", ws_machine_state_name(status.state));
	ws_put_json_string(answer, "capture", ws_plan_capture_name(status.capture));
	ws_put_json_int(answer, "target", status.target);
	ws_message_put_flag(answer, "target_ended", status.target_ended);
	ws_put_json_int(answer, "collections", status.collections);
	ws_put_json_int(answer, "age", (int64_t)(now - ws_or(status.started, now)));
	ws_put_json_int(answer, "collecting", (int64_t)(now - ws_or(status.began, now)));
	ws_put_json_int(answer, "events", (int64_t)status.events);
	ws_put_json_int(answer, "lost", (int64_t)status.lost);
	ws_put_json_int(answer, "snapshots", status.snapshots);
	ws_put_json_int(answer, "kept_bytes", (int64_t)status.kept_bytes);
	ws_put_json_int(answer, "kept", (int64_t)status.kept_ns);
	ws_put_json_string(answer, "report", status.report);
	if (commands->range)
		ws_put_json_string(answer, "nvtx_capture", commands->range);
	if (commands->key)
		ws_put_json_string(answer, "hotkey_capture", commands->key);
}

/* ---- ranks ---- */

static void note_joined(struct ws_commands *commands)
{
	pthread_mutex_lock(&commands->lock);
	commands->joined++;
	pthread_cond_broadcast(&commands->changed);
	pthread_mutex_unlock(&commands->lock);
}

static void join_rank(struct ws_commands *commands, const struct ws_message *message,
		      struct ws_text *answer)
{
	struct ws_control_hooks *hooks = ws_calloc(1, sizeof(*hooks));
	struct ws_control_request request = {.kind = WS_CONTROL_JOIN, .hooks = hooks};
	struct ws_control_reply reply;
	int64_t pid = ws_message_number(message, "pid", 0);

	if (pid < 0 || pid > INT32_MAX) {
		put_refusal(answer, "that is no process");
		free(hooks);
		return;
	}
	request.pid = (int)pid;
	request.starter = (int)ws_message_number(message, "starter", 0);
	ws_mailbox_request(commands->mailbox, &request, &reply);
	if (put_reply(answer, &reply)) {
		ws_put_json_string(answer, "arena", hooks->arena);
		ws_put_json_string(answer, "preload", hooks->preload);
		ws_put_json_string(answer, "nvtx", hooks->nvtx);
		ws_put_json_string(answer, "cuda", hooks->cuda);
		if (pid)
			note_joined(commands);
	}
	free(hooks);
}

/* Only the first request gets the message. */
static void await_end(struct ws_commands *commands, struct ws_text *answer)
{
	unsigned joined;

	pthread_mutex_lock(&commands->lock);
	joined = commands->joined;
	while (!commands->over && commands->joined == joined)
		pthread_cond_wait(&commands->changed, &commands->lock);
	ws_message_put_flag(answer, "over", commands->over);
	if (commands->over && commands->ending.len) {
		ws_text_puts(answer, ",");
		ws_text_add(answer, commands->ending.text, commands->ending.len);
		ws_text_free(&commands->ending);
	}
	pthread_mutex_unlock(&commands->lock);
}

static void leave_rank(struct ws_commands *commands, const struct ws_message *message,
		       struct ws_text *answer)
{
	struct ws_control_request request = {
		.kind = WS_CONTROL_LEAVE, .starter = (int)ws_message_number(message, "starter", 0)};
	struct ws_control_reply reply;

	if (!commands->gathers) {
		put_refusal(answer, "no rank can join this session, or leave it");
		return;
	}
	ws_mailbox_request(commands->mailbox, &request, &reply);
	ws_message_put_flag(answer, "done", true);
	if (reply.last || !reply.done) /* not done: a signal has already ended the session */
		await_end(commands, answer);
}

void ws_commands_end(struct ws_commands *commands, const char *text, char *const *reports,
		     size_t report_count)
{
	pthread_mutex_lock(&commands->lock);
	commands->over = true;
	ws_put_json_string(&commands->ending, "text", text);
	ws_message_put_list(&commands->ending, "reports", (const char *const *)reports,
			    report_count);
	pthread_cond_broadcast(&commands->changed);
	pthread_mutex_unlock(&commands->lock);
}

static const struct {
	const char *word;
	void (*answer)(struct ws_commands *commands, const struct ws_message *message,
		       struct ws_text *answer);
} words[] = {{"start", start_collection}, {"stop", stop_collection}, {"cancel", cancel_collection},
	     {"snapshot", take_snapshot}, {"shutdown", shut_down},   {"status", put_status},
	     {"join", join_rank},	  {"leave", leave_rank}};

void ws_commands_answer(void *ctx, const struct ws_message *message, struct ws_text *answer)
{
	const char *word = ws_text_or(ws_message_text(message, "do"), "");

	for (size_t i = 0; i < WS_COUNT(words); i++)
		if (!strcmp(word, words[i].word)) {
			words[i].answer(ctx, message, answer);
			return;
		}
	put_refusal(answer, "the recorder of this session does not know that command: it is of "
			    "another version");
}
