/*
 * output_file.h - a file that appears under its name only when it is complete.
 *
 * It is written under a temporary name in the same directory and renamed by ws_commit_output. Any
 * failure removes it, so that nobody mistakes a partial export for a whole one. An existing file is
 * never replaced unless `overwrite` says so.
 */
#ifndef WS_TEXT_OUTPUT_FILE_H
#define WS_TEXT_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

struct ws_output_file {
	FILE *file;	 /* what to write to; NULL when the caller opens `temporary` by itself */
	char *path;	 /* final name; NULL for standard output */
	char *temporary; /* name until it is complete */
	bool overwrite;
	bool folder; /* `temporary` is a folder */
	int litter;  /* of cleanup.h, once `temporary` is there */
};

/*
 * Start writing `path` ("-" is standard output) with permission bits `mode` (less the umask).
 * Returns 0, or -1 with a message that names the file.
 */
int ws_open_output_file(struct ws_output_file *outfile, const char *path, mode_t mode,
			bool overwrite, struct ws_err *err);
/* The same for adding to an existing file: `temporary` starts as a copy of it, and replaces it in
 * the end. */
int ws_open_output_copy(struct ws_output_file *outfile, const char *path, mode_t mode,
			struct ws_err *err);
/*
 * The same for a folder of files: `temporary` is an empty folder (mode 0700) and `file` is NULL.
 * With `overwrite` a folder is replaced if it holds nothing but files (a mistyped name must not
 * remove a tree); with `append` `temporary` starts with links to its files.
 */
int ws_open_output_folder(struct ws_output_file *outfile, const char *path, bool overwrite,
			  bool append, struct ws_err *err);
/* From here on, what is written to `file` is compressed with gzip. Returns 0, or -1 with a
 * message. */
int ws_compress_output(struct ws_output_file *outfile, struct ws_err *err);
/*
 * Flush, check and rename. Returns 0; -1 with a message, and nothing left behind, when anything
 * could not be written; WS_OUTPUT_PIPE_CLOSED without a message when standard output is a pipe
 * whose reader went away, which is not worth reporting.
 */
enum {
	WS_OUTPUT_PIPE_CLOSED = -2,
	WS_EXIT_PIPE_CLOSED = 128 + 13 /* what SIGPIPE would have made of it */
};
int ws_commit_output(struct ws_output_file *outfile, struct ws_err *err);
/* Whether standard output takes no more, which was reported where it was worth it: what would be
 * written to it next is left out, so that one failure has one message. */
bool ws_is_output_over(void);
/* The errno of a write to standard output that failed some time ago, when its errno is lost: EPIPE
 * when nobody reads any more. 0 when the cause is gone. Writes a newline behind what is lost. */
int ws_find_output_error(void);
/*
 * From here on, the first Ctrl-C (or SIGTERM, SIGHUP) is only noted, so that the temporary file can
 * be removed: long writers call ws_is_interrupted now and then and give up; at the end
 * ws_end_if_interrupted ends the program as the signal would have.
 */
void ws_watch_interrupts(void);
bool ws_is_interrupted(void);
void ws_end_if_interrupted(void);
/* Remove what was written. */
void ws_abort_output(struct ws_output_file *outfile);

#endif
