/*
 * profile.h - where time went, by call stack: one tree of costs from samples, waits, Python samples
 * or work on GPUs.
 *
 * `report`, the summary of samples and the exports of flame graphs are made from it. Costs have a
 * count (samples, waits, kernels), a weight that shares are computed from, and nanoseconds where
 * these are known:
 *
 * - on-cpu: CPU samples (struct ws_samples says which). Weight: the time that a sample stands for;
 *   for a named counter, what it has counted. Time: as the recorder found it by context switches
 *   (record/perf_time.c), never a number of samples; none where a counter is named.
 * - off-cpu: waits (query/states.h), by the call stack recorded with the call, if any, then
 *   "[reason: function path]". Runnable time has the reason "run queue".
 * - python: Python stacks that were read from outside the process, whatever the thread did then.
 * - gpu: kernels, copies, sets and graphs, below the ranges around the call that launched them.
 */
#ifndef WS_QUERY_PROFILE_H
#define WS_QUERY_PROFILE_H

#include "query/calltree.h"
#include "query/fold.h"
#include "query/states.h"

/*
 * Which CPU samples count. Without a name, these are the samples of the first event that was
 * recorded, which paces the samples, and all those taken by a clock: threads of Python are sampled
 * by clocks of their own, others by the event. They are weighed by the time that they stand for,
 * where that is known; samples of a named counter by what it has counted.
 */
struct ws_samples {
	uint32_t event;	    /* 0: no event was recorded, all samples count */
	bool clocks;	    /* clock samples count whatever their event */
	bool by_time;	    /* weights are nanoseconds */
	bool counted;	    /* a counter was named: its count is shown, and no time */
	const char *weight; /* the event's name */
};
/* Returns 0, or -1 with a message when no event is called `name` (NULL: the default choice). */
int ws_samples_choose(const struct ws_report *report, const char *name, struct ws_samples *samples,
		      struct ws_err *err);

static inline bool ws_samples_wanted(const struct ws_samples *samples, uint64_t event,
				     uint64_t flags)
{
	return !samples->event || !event || event == samples->event ||
	       (samples->clocks && flags & WS_SAMPLE_CLOCK);
}

enum ws_profile_kind { WS_PROFILE_ON_CPU, WS_PROFILE_OFF_CPU, WS_PROFILE_PYTHON, WS_PROFILE_GPU };

struct ws_profile_request {
	enum ws_profile_kind kind;
	uint64_t time_min, time_max; /* session clock: samples within it, waits cut to it, work that
					touches it */
	bool by_process, by_thread;  /* levels of nodes above the stacks, in this order */
	enum ws_unit unit;
	enum ws_frames frames;
	const char *process, *thread; /* only this one: a number or a name; NULL for all. GPU work
					 has no thread */
	const char *module; /* only stacks whose innermost function is in it: a path or the name at
			       its end; NULL for all */
	const char *event;  /* name of a perf event; NULL for the first */
	const struct ws_fold *fold; /* names of ranges and kernels to fold; or NULL */
	bool ordered; /* samples only: also keep each thread's steps in order of time */
};

/* A run of consecutive samples of a thread in one node. */
struct ws_profile_step {
	uint32_t thread, node;
	struct ws_cost cost;
};

struct ws_profile {
	struct ws_stacks *stacks;
	struct ws_calltree tree;
	uint32_t roots; /* levels of nodes that are processes or threads */
	struct ws_cost total;
	bool timed;	    /* ns is known for all costs */
	const char *weight; /* unit of weights: "nanoseconds", or the event's name */
	uint64_t damaged;
	uint64_t truncated;	  /* samples whose stack is incomplete */
	struct ws_cost no_python; /* waits without Python frames, where only Python is wanted */
	struct ws_profile_step *steps; /* when ordered: by thread, then by time */
	size_t step_count;
};

/*
 * Numbers of nodes and units differ from run to run because workers share the work, so callers
 * order what they show by cost and name. Returns 0, or -1 with a message: there is no such process,
 * thread, module or event. With nothing recorded, total.count is 0. Free with ws_profile_free in
 * any case.
 */
int ws_profile_make(const struct ws_report *report, const struct ws_names_by_id *who,
		    const struct ws_profile_request *request, struct ws_profile *profile,
		    struct ws_err *err);
void ws_profile_free(struct ws_profile *profile);

/* Whether the profile is empty. Time without any sample adds to no count. */
static inline bool ws_profile_empty(const struct ws_profile *profile)
{
	return ws_cost_is_none(&profile->total);
}

#endif
