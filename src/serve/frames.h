/*
 * frames.h - code: functions and source lines of frames, and stacks, from the tables module, frame, symbol and stack.
 *
 * Read once, kept in arrays by id. A frame that has no symbol is called by its module and address.
 */
#ifndef WS_SERVE_FRAMES_H
#define WS_SERVE_FRAMES_H

#include "query/query.h"

struct ws_frames;

struct ws_frames *ws_frames_open(const struct ws_report *r);
void ws_frames_close(struct ws_frames *f);

/* Function of a frame; ids that are not there are "[unknown]". Lives as long as `f` and the report. Thread-safe. */
const char *ws_code_name(struct ws_frames *f, uint32_t frame, size_t *len);
/* A WS_NAME of the same text, equal for frames of one function. */
uint32_t ws_code_key(struct ws_frames *f, uint32_t frame);
/* Source file (a string id, 0 for unknown) and line. */
uint32_t ws_code_line(struct ws_frames *f, uint32_t frame, uint32_t *line);
/* Path of the module (a string id), or 0. */
uint32_t ws_code_module(struct ws_frames *f, uint32_t frame);
uint8_t ws_code_kind(struct ws_frames *f, uint32_t frame);

/* A row of `stack`: its frame, and the row of the caller, 0 for none; always ends, however damaged the table is. */
uint32_t ws_code_stack_frame(struct ws_frames *f, uint32_t stack);
uint32_t ws_code_stack_parent(struct ws_frames *f, uint32_t stack);

#endif
