/*
 * stacks.h - translates the numbers of frames and stacks to functions, for every view of call
 * stacks.
 *
 * A frame is a place in code as recorded. The symboliser gives it one or more functions: the one
 * that the machine code belongs to and those inlined into it, each with a source line. A *function*
 * here is what views count by: a name in a module (for Python, in a source file), numbered from 1.
 * Frames without a name count as "[module]", one function a module, so that a stripped library is
 * one line and not ten thousand; frames without a module count as "[unknown]".
 *
 * Everything is resolved when the tables are read; afterwards everything but
 * ws_stacks_add_made_function is read-only and safe from many threads. Ids come from the file: an
 * id that it does not define reads as unknown, and a chain of callers that loops ends where the
 * loop closes.
 */
#ifndef WS_QUERY_STACKS_H
#define WS_QUERY_STACKS_H

#include "query/query.h"

struct ws_module_info {
	const char *path, *name; /* name: the part of the path after the last slash */
	const char *build_id;
	uint32_t text; /* string of the path */
	uint64_t size;
	uint8_t kind, flags; /* enum ws_module_kind, ws_module_flags */
};

struct ws_function {
	const char *name; /* any bytes, as all strings of a report */
	size_t len;
	uint32_t module; /* id for ws_stacks_get_module, 0 for none */
	uint32_t text;	 /* string of its name; 0 for one that is made up: no name, or
			  * ws_stacks_add_made_function
			  */
	uint32_t file;	 /* string of its source file, 0 when not known */
	uint8_t kind;	 /* enum ws_frame_kind; 0 for one of ws_stacks_add_made_function */
	bool unresolved; /* stands for addresses without a name */
};

struct ws_place {		       /* a function and line of a frame */
	uint32_t function, file, line; /* string id; 0 when not known */
};

struct ws_frame_info {
	uint64_t address;
	uint32_t module;
	uint32_t first, count; /* its places, at least one: innermost inlined function first */
	uint8_t kind, method;
};

struct ws_stacks;

/* Read modules, frames, symbols and stacks. *damaged counts blocks that could not be read. Never
 * NULL. */
struct ws_stacks *ws_stacks_open(const struct ws_report *report, uint64_t *damaged);
void ws_stacks_close(struct ws_stacks *stacks); /* NULL is fine */

uint32_t ws_stacks_count_functions(const struct ws_stacks *stacks); /* highest number */
const struct ws_function *ws_stacks_get_function(const struct ws_stacks *stacks, uint32_t number);
const struct ws_module_info *ws_stacks_get_module(const struct ws_stacks *stacks,
						  uint32_t id); /* never NULL */
/* The source of a function's code: the path of its module, for Python of its source file; "" when
 * neither is known. */
const char *ws_stacks_get_origin(const struct ws_stacks *stacks,
				 const struct ws_function *function);
/* Never NULL: id 0 and unknown ids give a frame with the place "[unknown]". */
const struct ws_frame_info *ws_stacks_get_frame(const struct ws_stacks *stacks, uint32_t id);
const struct ws_place *ws_stacks_get_places(const struct ws_stacks *stacks,
					    const struct ws_frame_info *frame_info);

/* The frame of a row of `stack` and the id of its caller's row (0 past the outermost). Unknown ids
 * have frame 0. */
uint32_t ws_stacks_step_out(const struct ws_stacks *stacks, uint32_t stack, uint32_t *caller);
uint32_t ws_stacks_highest_id(const struct ws_stacks *stacks); /* highest id of a stack */
uint32_t ws_stacks_highest_frame(const struct ws_stacks *stacks);

/*
 * Writes the frames of a stack to `out` (at most `most`), innermost first: `frame` (0 for none),
 * then the rows from `stack` outwards. Returns how many.
 */
size_t ws_stacks_list_frames(const struct ws_stacks *stacks, uint32_t frame, uint32_t stack,
			     uint32_t *out, size_t most);
enum {
	WS_STACKS_DEEPEST = 4096
}; /* the most frames of a stack; deeper ones are cut at the outermost end */

/*
 * The number of a function that has no code: a thread, a reason to wait, a kernel, an NVTX range.
 * Equal names give equal numbers; the text is copied. Not thread-safe.
 */
uint32_t ws_stacks_add_made_function(struct ws_stacks *stacks, const char *name, size_t len);

#endif
