/*
 * stack_sums.h - the samples of a program summed up by something that their stacks show: which
 * function a cache called, which line a coroutine has come to.
 */
#ifndef WS_ANALYZE_STACK_SUMS_H
#define WS_ANALYZE_STACK_SUMS_H

#include "analyze/model.h"

struct ws_stack_sum {
	uint64_t key;
	uint64_t ns, samples;
	uint64_t late_ns;    /* of it, in the last third of the window */
	struct ws_span span; /* from the first sample to the last */
};

struct ws_stack_sums {
	struct ws_stack_sum *sums; /* by time, most first */
	size_t count, cap;
	uint64_t ns, late_ns; /* of all samples, also those that count for no key */
};

/* What the frames of a stack, innermost first, count for; 0 for nothing. Equal stacks are read
 * once. */
typedef uint64_t ws_stack_reader(const struct ws_model *model, const uint32_t *frames, size_t count,
				 void *context);

/* The samples in the window of one thread, or (0) of the explained process and those that it and
 * its children started. Free with ws_stack_sums_free. */
void ws_stack_sums_make(const struct ws_model *model, uint32_t thread, ws_stack_reader *read,
			void *context, struct ws_stack_sums *sums);
void ws_stack_sums_free(struct ws_stack_sums *sums);
/* The number of a frame's innermost function. */
uint32_t ws_get_frame_function(const struct ws_model *model, uint32_t frame);
/* Whether a frame is of a function of this name, or of one into which it was inlined. */
bool ws_is_frame_of(const struct ws_model *model, uint32_t frame, const char *name);

#endif
