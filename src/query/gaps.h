/*
 * gaps.h - when a resource was idle: a GPU, a stream, a CPU thread, or all cores.
 *
 * A gap lies between two pieces of work: time before the first or after the last is not a gap. With
 * a window, the first and the last are those within it.
 */
#ifndef WS_QUERY_GAPS_H
#define WS_QUERY_GAPS_H

#include "query/intervals.h"
#include "query/states.h"

enum ws_resource {
	WS_RESOURCE_GPU,    /* no kernel, copy, set or graph ran on it */
	WS_RESOURCE_STREAM, /* the same for one stream */
	WS_RESOURCE_THREAD, /* the thread did not run */
	WS_RESOURCE_CPU,    /* none of the recorded threads ran */
};

struct ws_gaps_request {
	enum ws_resource resource;
	uint32_t gpu;	   /* only this device number; WS_NO_U32 for all; applies to streams too */
	uint32_t stream;   /* only this stream; WS_NO_U32 for all */
	uint32_t thread;   /* thread id (of the operating system) */
	uint64_t shortest; /* shorter gaps do not count, nanoseconds */
	uint64_t time_min, time_max;
};

struct ws_gap_list {
	char *name;	  /* "GPU 0", "GPU 0 stream 7", "thread main (123)", "all cores" */
	uint64_t process; /* of a GPU or stream, or 0 */
	struct ws_spans gaps;
	uint64_t total;	   /* sum of their lengths */
	uint64_t from, to; /* the time in which gaps were searched for */
};

struct ws_gaps {
	struct ws_gap_list *gap_lists;
	size_t count;
	uint64_t damaged;
};

/*
 * Find gaps; resources without any keep their empty list. `states` is needed for threads and cores.
 * Returns 0, or -1 with a message: there is no such resource in the report. Free with ws_gaps_free
 * in any case.
 */
int ws_gaps_find(const struct ws_report *report, const struct ws_names_by_id *who,
		 const struct ws_states *states, const struct ws_gaps_request *request,
		 struct ws_gaps *out, struct ws_err *err);
void ws_gaps_free(struct ws_gaps *gaps);

/*
 * How much (ns) of [start, end) lies in gaps. *at is where the search begins: 0 at first, then the
 * value that the previous call left, as long as spans come in order of start. *pieces is increased
 * by the number of gaps that overlap (NULL: not wanted).
 */
uint64_t ws_gaps_measure_overlap(const struct ws_gap_list *gap_list, uint64_t start, uint64_t end,
				 size_t *at, uint64_t *pieces);

#endif
