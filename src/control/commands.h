/*
 * commands.h - how the recorder of a session answers start, stop, cancel, snapshot, shutdown and
 * status.
 *
 * A request is {"do": WORD, ...}. `start` may hold output, overwrite, capture, steps, range,
 * domain, range_end, duration (ns), stats, no_findings and export; `snapshot` output and overwrite;
 * `shutdown` a signal. The answer holds done, message and report; the answer to `stop` also says
 * what to do with the report (stats, export, overwrite).
 *
 * Ranks of a host that share a recorder (--per-node) send `join`. Without a pid, the answer says
 * what their program needs in its environment (arena, preload, nvtx, cuda); with a pid and the
 * rank's own (starter), the recorder follows that process. They send `leave` (starter) when it has
 * ended. `leave` is answered at once, except for the last rank: its answer comes when the session
 * is over (over, text, reports) or another rank has joined.
 */
#ifndef WS_CONTROL_COMMANDS_H
#define WS_CONTROL_COMMANDS_H

#include <pthread.h>

#include "control/mailbox.h"
#include "control/message.h"

/* What to do with the report of the collection that was started last. */
struct ws_follow_up {
	bool stats, overwrite, no_findings;
	char *export_to; /* types, or NULL */
};

struct ws_commands {
	struct ws_mailbox *mailbox;
	char *program;		 /* what the session runs, for people */
	const char *range, *key; /* of starts that name none; NULL: none */
	pthread_mutex_t lock;
	struct ws_follow_up follow_up;
	bool gathers; /* ranks may join, and ws_commands_end will be called */
	pthread_cond_t changed;
	unsigned joined;
	bool over;
	struct ws_text ending; /* members of the answer; only the first request gets them */
	char **named;	       /* reports that were named in an answer to a command */
	size_t named_count, named_cap;
};

/* `program` is copied. */
void ws_commands_init(struct ws_commands *commands, struct ws_mailbox *mailbox,
		      const char *program);
void ws_commands_free(struct ws_commands *commands);
/* The handler for ws_server_start; its context is `commands`. */
void ws_commands_answer(void *commands, const struct ws_message *request, struct ws_text *answer);

/* Whether a `stop` or `shutdown` was answered with this report's name. Its sender then prints the
 * name. */
bool ws_commands_has_named(struct ws_commands *commands, const char *report);

/* The session is over: wake the requests that wait for its end. `text` is the recorder's
 * message. */
void ws_commands_end(struct ws_commands *commands, const char *text, char *const *reports,
		     size_t report_count);

/* Read the request of a `start`: its plan and what belongs to it. Texts belong to the message. -1
 * with a message. */
int ws_commands_read_start(const struct ws_message *message, struct ws_plan *plan,
			   struct ws_control_request *request, struct ws_err *err);
/* Remember what a `start` wants done with its report. */
void ws_commands_note_follow_up(struct ws_commands *commands, const struct ws_message *message);

#endif
