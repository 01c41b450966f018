/*
 * activity.h - what a recording that is under way shows now: how busy GPUs are, which kernels and
 * ranges ended, how long threads ran, what they waited for, and what was lost.
 *
 * Each look reads only the rows that have come since the one before (store/follow.h) and sums them
 * up; nothing of earlier looks is kept but names. Events are counted when their rows arrive, which
 * is after they have ended; open ones are not known.
 */
#ifndef WS_QUERY_ACTIVITY_H
#define WS_QUERY_ACTIVITY_H

#include "store/follow.h"

struct ws_activity;

/* Kernels, ranges or calls of one name that ended. */
struct ws_activity_item {
	const char *name; /* as the program chose it: escape it before printing it on a terminal */
	uint64_t count, total, longest; /* durations in nanoseconds */
};

struct ws_activity_thread {
	uint32_t pid, tid;
	const char *name, *process; /* "" where not known */
	uint64_t cpu;		    /* nanoseconds on a core */
	uint64_t waited;	    /* nanoseconds in calls that waited and have ended */
	const char *call;	    /* the call that it waited in longest; "" for none */
	uint64_t ranges;	    /* NVTX ranges and marks that it ended */
};

struct ws_activity_gpu {
	uint32_t device; /* as the process numbers GPUs */
	const char *name;
	double busy; /* share of the time in which it did anything, 0 to 1 */
	uint64_t kernels, copies, bytes;
};

struct ws_activity_list {
	struct ws_activity_item *items; /* by falling total */
	size_t count, cap;
	uint64_t names; /* how many different ones there were, kept or not */
};

/* One look. Everything in it is valid until the next one. */
struct ws_activity_look {
	enum ws_follow_state state;
	double seconds;	       /* since the look before */
	uint64_t events;       /* rows that arrived */
	uint64_t recording_ns; /* since the collection began; 0 when it has not begun */
	bool collecting;
	uint64_t file_size;
	struct ws_activity_gpu *gpus;
	size_t gpu_count;
	struct ws_activity_list kernels, ranges, calls;
	struct ws_activity_thread *threads; /* by falling time on a core, then in calls */
	size_t thread_count;
	bool knows_cpu;			  /* scheduling or samples are recorded */
	uint64_t cpu;			  /* of all threads */
	uint64_t lost;			  /* events, since the recording began */
	const char *lost_what, *lost_why; /* of the latest of them */
	uint64_t warnings;
	const char *warning; /* the latest; NULL for none */
	const char *command; /* that is recorded, where known; else "" */
};

/* NULL with a message when `path` is no report that can be followed. */
struct ws_activity *ws_activity_open(const char *path, struct ws_err *err);
/*
 * Look: `look` is zeroed before the first time. The first look includes all processes, threads and
 * losses in the report, but only events since ws_activity_open. False with a message when the
 * report cannot be read any more.
 */
bool ws_activity_look(struct ws_activity *activity, struct ws_activity_look *look,
		      struct ws_err *err);
/* Free what a look holds, after the last one. */
void ws_activity_free_look(struct ws_activity_look *look);
void ws_activity_close(struct ws_activity *activity); /* NULL is fine */

#endif
