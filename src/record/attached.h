/*
 * attached.h - the target of a session that attaches to a process, instead of starting a program
 * (launch.h).
 */
#ifndef WS_RECORD_ATTACHED_H
#define WS_RECORD_ATTACHED_H

#include "record/attach.h"
#include "record/record.h"
#include "record/sink.h"

struct ws_attached {
	struct ws_attach_target target;
	bool loaded;	       /* the hooks are loaded into it */
	const char *no_python; /* why stacks have no Python frames; NULL: they have them */
};

/* Look at the process of options->attach; -1 with a message when it cannot be recorded. */
int ws_attached_begin(struct ws_attached *attached, const struct ws_record_opts *options,
		      struct ws_err *err);
/* The process's environment, as it was when its program began; NULL-terminated, free it with
 * ws_launch_environment_free. Empty when it may not be read. */
char **ws_attached_environment(const struct ws_attached *attached);
/*
 * Load the hooks in `libraries` (paths separated by ':'), and `cuda_library` if the process uses
 * CUDA, and have them join the session. What cannot be seen, and why, goes to `sink`; the recording
 * goes on either way.
 */
void ws_attached_load(struct ws_attached *attached, const struct ws_record_opts *options,
		      const char *libraries, const char *cuda_library, const char *session,
		      struct ws_sink *sink);
/* The collection is over: take the hooks out of the process's way. */
void ws_attached_unload(struct ws_attached *attached, const char *libraries, struct ws_sink *sink);
void ws_attached_end(struct ws_attached *attached);

/* The program and arguments of a process, NULL-terminated, in one piece of memory for the caller to
 * free. When they cannot be read, a single word says so. */
char **ws_attached_command(int pid);

#endif
