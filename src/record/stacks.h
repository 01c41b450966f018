/*
 * stacks.h - call stacks as rows: modules, mappings, frames and stacks get numbers and are written
 * once each.
 *
 * One for each report. Equal frames get equal numbers, and equal chains too, for as long as the
 * memory of what was seen lasts (it is bounded: after some millions of stacks it begins again).
 * Frames are kept for symbols, which come at the end: see symbols/symbolise.h.
 */
#ifndef WS_RECORD_STACKS_H
#define WS_RECORD_STACKS_H

#include "record/sink.h"
#include "symbols/unwind.h"

struct ws_stackset;

/* The stacks of a report, made when first asked for; freed with the sink. */
struct ws_stackset *ws_stackset_of(struct ws_sink *sink);
void ws_stackset_free(struct ws_stackset *st);

/*
 * Number of a frame, of which kind, method, module and address count. `name` and `file` are for
 * frames that recording itself can name, else NULL.
 */
uint32_t ws_stackset_frame(struct ws_stackset *st, const struct ws_unwound_frame *place,
			   const char *name, const char *file);
/* Number of a frame of Python; line 0: not known. */
uint32_t ws_stackset_python_frame(struct ws_stackset *st, int32_t line, const char *name,
				  const char *file);
/* The frame of time of which no sample was taken. */
uint32_t ws_stackset_unsampled(struct ws_stackset *st);
/* Number of the stack that calls `frame` from stack `parent`; 0 for none. */
uint32_t ws_stackset_push(struct ws_stackset *st, uint32_t parent, uint32_t frame);
/*
 * Frames from the innermost outwards: *leaf gets the innermost frame, the result is the stack of
 * its callers (0 for none). With leaf NULL the result is the stack with the innermost on it.
 */
uint32_t ws_stackset_places(struct ws_stackset *st, const struct ws_unwound_frame *caller, size_t n,
			    uint32_t *leaf);

/* Have the mappings of process row `process` written as they end, once a frame was found in them.
 * Cheap when it was said before. */
void ws_stackset_bind(struct ws_stackset *st, struct ws_maps_process *maps, uint32_t process);
/* For ws_maps_tell_live: write the row of a mapping, or of the module that it is of. */
void ws_stackset_add_mapping(void *ctx, const struct ws_mapping *mapping);
void ws_stackset_add_module(void *ctx, const struct ws_mapping *mapping);

/* Frames so far; frame number i is from 1. */
uint32_t ws_stackset_frames(const struct ws_stackset *st);
struct ws_stackset_frame {
	struct ws_module *module;
	uint64_t address;
	uint8_t kind;
};
const struct ws_stackset_frame *ws_stackset_frame_at(const struct ws_stackset *st, uint32_t i);

#endif
