/* session.h - sessions as the commands name them and speak to them. */
#ifndef WS_CLI_SESSION_H
#define WS_CLI_SESSION_H

#include "base/err.h"
#include "control/message.h"

/* The name that --session-new or --session gives, with %q{VAR}, %h and %% expanded. Owned by the
 * caller; NULL with a message. `option` is named there. */
char *ws_expand_session(const char *given, const char *option, struct ws_err *err);
/*
 * The session that a command means: `given` (a name, or an ID of `sessions list`), else
 * [default], else the only one. Owned by the caller. NULL with a message, which is "" where no
 * session is given and there is none.
 */
char *ws_find_session(const char *given, struct ws_err *err);
/* Ask a session to do `word`; `more` are further members or NULL. 0 when it was done, else -1 with
 * a message. Free `answer` in any case. */
int ws_command_session(const char *session, const char *word, const struct ws_text *more,
		       struct ws_message *answer, struct ws_err *err);
/* Nanoseconds as H:MM:SS or MM:SS. */
void ws_format_age(char *out, size_t size, int64_t ns);
/* Print a name as a terminal can show it. */
void ws_print_terminal(const char *text);
struct ws_record_options;
struct ws_record_opts;
/*
 * Record `opts` in a session that other commands find by its name. `start` says what is to be done
 * with the report of the first collection (commands.h). Prints messages and returns the exit
 * status.
 */
int ws_record_in_session(const struct ws_record_options *options, struct ws_record_opts *opts,
			 const char *session, const struct ws_message *start);
/* Absolute template of a report's name, for a recorder that runs in another folder; `output` may be
 * NULL for the default. Owned by the caller; NULL with a message. */
char *ws_absolute_template(const char *output, struct ws_err *err);

#endif
