/* launch.h - starting the target so that it runs as if alone: same terminal, same process group,
 * same streams, default signals. */
#ifndef WS_RECORD_LAUNCH_H
#define WS_RECORD_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "record/record.h"

struct ws_launch {
	pid_t pid;
	int go;	    /* write end: if it is closed without a message, the child ends */
	int failed; /* read end: errno of a failed exec, or end of file when it succeeded */
};

/*
 * Fork the child; it waits for ws_launch_go. `envp` is its whole environment; `out` and `err`, when
 * not -1, become its standard output and error.
 */
int ws_launch_prepare(struct ws_launch *launch, const struct ws_record_opts *options, char **envp,
		      int out, int err, struct ws_err *err_e);
/* Let the child exec. 0, or the errno of the exec. */
int ws_launch_go(struct ws_launch *launch);
/* Have the child end without running anything. */
void ws_launch_cancel(struct ws_launch *launch);

/*
 * Make the target's environment: inherited or not, additions, the session's variables. `nvtx` and
 * `cuda` are the libraries to inject, "" for none. With an empty `preload` it contains nothing of
 * ours; where the target's loader could not load ours, no LD_PRELOAD. The caller frees it with the
 * next function.
 */
char **ws_launch_environment(const struct ws_record_opts *options, const char *session,
			     const char *preload, const char *nvtx, const char *cuda);
/* Whether the user of --run-as can read the libraries in `preload` and the arena `session`. */
bool ws_launch_can_read_hooks(const struct ws_record_opts *options, const char *preload,
			      const char *session);
/* Which profiler plug-in NCCL loads. The user's own value stays. */
#define WS_NCCL_PLUGIN_VARIABLE "NCCL_PROFILER_PLUGIN"
/* Whether this value of CUDA_INJECTION64_PATH is another tool's; if so, it stays. */
bool ws_launch_foreign_cuda(const char *value);
void ws_launch_environment_free(char **env);
/* Explain the errno of a failed exec of `name`; the text is valid until the next call. *status gets
 * the exit status to use. */
const char *ws_launch_explain(const char *name, char **envp, int *status, int error);
/* The file that `name` would run, searched in PATH of `envp`; NULL when there is none. Owned by the
 * caller. */
char *ws_launch_find(const char *name, char **envp);

#endif
