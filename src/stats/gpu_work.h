/*
 * gpu_work.h - what the reports about time on GPUs share: work with the launches behind it, and
 * what to call the parts of it.
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
	/* Times of work are ns on the session clock, or parts of a nanosecond from `origin` on; the
	 * window is likewise. */
	uint64_t parts, origin, time_min, time_max;
};

/* 0, or -1 with a message; ws_gpu_work_close in any case. What cannot be counted goes into `s`. */
int ws_gpu_work_open(struct ws_stats *stats, struct ws_gpu_work *work, struct ws_err *err);
void ws_gpu_work_close(struct ws_gpu_work *work);
/*
 * Put the times of work where tools have them that keep a trace's microseconds in doubles, where
 * that changes any: see query/doubles.h. From then on they are in parts of a nanosecond; what steps
 * say must be put there too.
 */
void ws_gpu_work_in_doubles(struct ws_gpu_work *work);
uint64_t ws_gpu_work_moment(const struct ws_gpu_work *work, uint64_t time);
/* A length of such times. */
static inline struct ws_cell ws_gpu_work_length(const struct ws_gpu_work *work, uint64_t length)
{
	return work->parts == 1 ? ws_cell_int((int64_t)length)
				: ws_cell_real((long double)length / work->parts);
}

/* "NVIDIA H200 (0)" */
void ws_gpu_work_name(const struct ws_gpu_work *work, const struct ws_work_gpu *gpu,
		      struct ws_text *text);
/* "rank 3", or "pid 4242" of a process without one. */
void ws_gpu_work_process(const struct ws_gpu_work *work, uint32_t process, struct ws_text *text);

/* Steps, as parts of a report. */
struct ws_gpu_steps {
	struct ws_steps steps;
	uint64_t *latest; /* by step: the latest end of it and those before it in its process */
	struct ws_gpu_step_place {
		size_t first, last;
		bool known;
	} * places; /* of each process: where in its steps the walk is */
	uint32_t processes;
};

/* `name` up to a colon, or NULL, as for ws_steps_load. 0, or -1 with a message; ws_gpu_steps_close
 * in any case. */
int ws_gpu_steps_open(struct ws_stats *stats, const char *name, struct ws_gpu_steps *steps,
		      struct ws_err *err);
void ws_gpu_steps_close(struct ws_gpu_steps *steps);
/* Begin a walk: starts go up from here on, for each process. */
void ws_gpu_steps_begin(struct ws_gpu_steps *steps);
/* Steps *first to *last - 1 of the process may hold time from `start` on; they are in order of
 * start. */
void ws_gpu_steps_from(struct ws_gpu_steps *steps, uint32_t process, uint64_t start, size_t *first,
		       size_t *last);
/* "step 3", with its rank before it where there are ranks. */
void ws_gpu_steps_name(const struct ws_gpu_work *work, const struct ws_step *step,
		       struct ws_text *text);

/* An operation cut to the window that was asked for; false when nothing is left. */
static inline bool ws_gpu_work_cut(const struct ws_gpu_work *work, const struct ws_work_op *op,
				   uint64_t *start, uint64_t *end)
{
	*start = ws_max(op->start, work->time_min);
	*end = ws_min(op->end, work->time_max);
	return *end >= *start;
}

#endif
