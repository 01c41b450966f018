/*
 * gpu_work.h - what the reports on GPU time share: the work with the calls that launched it, and
 * the names of GPUs, ranks and steps.
 */
#ifndef WS_STATS_GPU_WORK_H
#define WS_STATS_GPU_WORK_H

#include "base/map.h"
#include "base/choose.h"
#include "query/doubles.h"
#include "query/steps.h"
#include "query/work.h"
#include "stats/cuda.h"
#include "stats/launch.h"

struct ws_gpu_work {
	struct ws_stats *stats;
	struct ws_work work;
	struct ws_cuda_devices *devices;
	struct ws_map ranks; /* process: rank + 1 */
	bool ranked;
	/* Times of work are in units of 1/parts ns since `origin` on the session clock; so is the
	 * window. At first `parts` is 1 and `origin` 0. */
	uint64_t parts, origin, time_min, time_max;
};

/* Returns 0, or -1 with a message; call ws_gpu_work_close in either case. Rows that are left out
 * are counted in `stats`. */
int ws_gpu_work_open(struct ws_stats *stats, struct ws_gpu_work *work, struct ws_err *err);
void ws_gpu_work_close(struct ws_gpu_work *work);
/*
 * Round the times of work as tools do that keep a trace's microseconds in doubles, if that changes
 * any of them: see query/doubles.h. From then on times are in parts of a nanosecond; the caller
 * converts those of steps with ws_convert_gpu_work_time.
 */
void ws_convert_gpu_work_to_doubles(struct ws_gpu_work *work);
uint64_t ws_convert_gpu_work_time(const struct ws_gpu_work *work, uint64_t time);
/* The cell of a difference between such times. */
static inline struct ws_cell ws_make_gpu_length_cell(const struct ws_gpu_work *work,
						     uint64_t length)
{
	if (work->parts == 1)
		return ws_cell_int((int64_t)length);
	return ws_cell_real((long double)length / work->parts);
}

/* "NVIDIA H200 (0)" */
void ws_put_gpu_name(const struct ws_gpu_work *work, const struct ws_work_gpu *gpu,
		     struct ws_text *text);
/* "rank 3", or "pid 4242" for a process without a rank. */
void ws_put_gpu_process_name(const struct ws_gpu_work *work, uint32_t process,
			     struct ws_text *text);

/* Steps, as parts of a report. */
struct ws_gpu_steps {
	struct ws_steps steps;
	uint64_t *latest; /* by step: the latest end among it and the steps of its process before */
	struct ws_gpu_step_place {
		size_t first, last;
		bool known;
	} * places; /* by process: which of its steps may hold the next work */
	uint32_t processes;
};

/* `name` names the ranges to use as steps and ends at a colon; or NULL. See ws_steps_load. Returns
 * 0, or -1 with a message; call ws_gpu_steps_close in either case. */
int ws_gpu_steps_open(struct ws_stats *stats, const char *name, struct ws_gpu_steps *steps,
		      struct ws_err *err);
void ws_gpu_steps_close(struct ws_gpu_steps *steps);
/* Start over: from here on, starts given to ws_find_gpu_steps ascend in each process. */
void ws_restart_gpu_steps(struct ws_gpu_steps *steps);
/* Sets the range *first to *last - 1 of steps of the process that may hold times from `start` on,
 * in order of start. */
void ws_find_gpu_steps(struct ws_gpu_steps *steps, uint32_t process, uint64_t start, size_t *first,
		       size_t *last);
/* Append "step 3", after the rank if there are ranks. */
void ws_put_gpu_step_name(const struct ws_gpu_work *work, const struct ws_step *step,
			  struct ws_text *text);

/* Cut an operation to the requested window; false when nothing is left. */
static inline bool ws_cut_gpu_work(const struct ws_gpu_work *work, const struct ws_work_op *op,
				   uint64_t *start, uint64_t *end)
{
	*start = ws_max(op->start, work->time_min);
	*end = ws_min(op->end, work->time_max);
	return *end >= *start;
}

#endif
