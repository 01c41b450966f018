/*
 * launches.h - how far the CPU runs ahead of the GPU, and kernels so short that launching them
 * costs more.
 *
 * A launch is outstanding from the beginning of its call until its work begins to run; the depth of
 * a stream's queue is the number of outstanding launches. Where it is 0, the GPU has nothing to do
 * next: the CPU is late.
 */
#ifndef WS_ANALYZE_LAUNCHES_H
#define WS_ANALYZE_LAUNCHES_H

#include "analyze/model.h"

/* Depths are counted in bands: 0, 1, 2 to 9, 10 to 99, 100 to 1023, 1024 and more (the driver's
 * queue is full: the next launch waits). */
enum { WS_QUEUE_BANDS = 6 };
extern const uint64_t ws_queue_bands[WS_QUEUE_BANDS]; /* the lowest depth of each band */

struct ws_queue {
	uint32_t gpu;	  /* number in model->work.gpu */
	uint32_t process; /* id */
	uint32_t stream;
	uint64_t launches; /* launches whose work began in the part */
	uint64_t most;	   /* most outstanding at once */
	uint64_t depth_ns; /* integral of the depth over time: divided by the part, its mean */
	uint64_t lead_ns;  /* sum of the times from the return of the call to the work */
	uint64_t ns[WS_QUEUE_BANDS]; /* time spent in each band; they add up to the part */
};

/* Kernels of one name that took less than WS_SHORT_KERNEL_NS (facts.h). */
struct ws_short_kernel {
	uint32_t name; /* string */
	uint64_t count;
	uint64_t kernel_ns, launch_ns; /* time that they took, and that their calls took */
};

struct ws_launches {
	uint64_t from, to;	 /* the part of the window that was looked at */
	struct ws_queue *queues; /* by launches, most first */
	size_t queue_count, queue_cap;
	struct ws_short_kernel *kernels; /* by launch_ns, most first */
	size_t kernel_count, kernel_cap;
	struct ws_short_kernel all_short; /* sum of their times */
	uint64_t all_kernels;		  /* number of kernels that a recorded call launched */
};

/* The most pieces of GPU work that are examined: of longer windows, only the first part is. */
enum { WS_LAUNCHES_WORK = 200000 };

/* Count them for the model's process. Free with ws_launches_free. */
void ws_launches_count(const struct ws_model *model, struct ws_launches *launches);
void ws_launches_free(struct ws_launches *launches);

/*
 * The part of a model's window that has at most `most` pieces of GPU work: all of it, or as many of
 * the first steps as fit, at least one; without steps a half, a quarter... Returns where it ends;
 * `steps` gets the number of steps in it, 0 without steps.
 */
uint64_t ws_model_choose_part(const struct ws_model *model, size_t most, size_t *steps);

#endif
