/*
 * input.h - the bytes of a file to import, plain or gzip, from the beginning to the end.
 *
 * A gzip file is decompressed by a thread of its own, some megabytes ahead of the reader. Members
 * that follow one another are one text, as in gzip(1); the checksum and the length of each are
 * checked when its end is reached. WS_INPUT_MOST_BYTES bounds what comes out,
 * so that a small file that unpacks to an endless one ends in a message; nothing of it is kept, so
 * memory is bounded anyway.
 */
#ifndef WS_TEXT_INPUT_H
#define WS_TEXT_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Most bytes that a compressed file may unpack to. */
#define WS_INPUT_MOST_BYTES (UINT64_C(256) << 30)

struct ws_input;

/* Open a regular file for reading. NULL with a message that names it. */
struct ws_input *ws_open_input(const char *path, struct ws_err *err);
/*
 * Up to `n` bytes into `out`; 0 at the end. A compressed file that is cut off or damaged ends where
 * it breaks: ws_explain_broken_input then says why.
 */
size_t ws_read_input(struct ws_input *source, void *out, size_t n);
/* Why reading ended before the end of the file, or NULL. Lives as long as the source. */
const char *ws_explain_broken_input(struct ws_input *source);
/* Read a compressed file to its end, for a reader that has all it needs: the checksum and the
 * length that tell whether that was what the file's writer wrote stand there. Returns why the file
 * is broken, or NULL; a file that is not compressed is not read. */
const char *ws_check_input_rest(struct ws_input *source);
/* How many bytes of the file on disk have been read, and how many there are: for showing progress.
 */
uint64_t ws_count_input_read(const struct ws_input *source);
uint64_t ws_find_input_size(const struct ws_input *source);
/* Ends the thread and frees the source. NULL is accepted. */
void ws_close_input(struct ws_input *source);

#endif
