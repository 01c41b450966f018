/*
 * work.h - what ran on each GPU, in order of start and by class: the basis of every computation of
 * busy and idle time.
 *
 * A GPU is identified by its UUID, whichever process used it under whatever number; where the
 * report does not describe it, by process and number. Classes: communication is a kernel whose name
 * begins with "nccl" or includes ncclKernel or ncclDevKernel, or one that the collective table
 * names; memory is a copy or a memset; everything else is computation, whole CUDA graphs included.
 */
#ifndef WS_QUERY_WORK_H
#define WS_QUERY_WORK_H

#include "base/choose.h"
#include "query/intervals.h"
#include "query/query.h"

enum ws_work_class { WS_WORK_COMPUTE, WS_WORK_COMM, WS_WORK_MEMORY };

struct ws_work_op {
	uint64_t start, end;
	uint32_t process, correlation, stream;
	/* There are millions: 32 bytes each. */
	uint32_t name : 29; /* string: of a kernel; 0 for others */
	uint32_t class : 2; /* enum ws_work_class */
	uint32_t set : 1;   /* a memset */
};

struct ws_work_gpu {
	uint64_t process, device; /* of the first process that used it */
	uint32_t uuid;		  /* key of its text, 0 when not known */
	struct ws_work_op *op;
	size_t count, cap;
};

struct ws_work {
	struct ws_work_gpu *gpu;
	size_t gpus, gpu_cap;
	uint64_t damaged; /* blocks */
	uint64_t unended,
		backwards; /* left out: rows without times; rows that end before they start */
};

/* All work that touches the window, not cut to it. Free with ws_work_free in any case; 0, or -1
 * with a message. */
int ws_work_load(const struct ws_report *report, uint64_t time_min, uint64_t time_max,
		 struct ws_work *work, struct ws_err *err);
void ws_work_free(struct ws_work *work);

/* Whether this is the name of a kernel that communicates. */
bool ws_is_communication_kernel(const char *name);

/* The time that work took by class; work must come in order of start. Zero it before use. */
struct ws_work_times {
	struct ws_cover compute, comm, memory, work /* compute or comm */, busy;
	uint64_t first, last, ops;
};

static inline void ws_work_times_add(struct ws_work_times *times, unsigned class, uint64_t start,
				     uint64_t end)
{
	if (!times->ops++ || start < times->first)
		times->first = start;
	times->last = ws_max(end, times->last);
	if (class == WS_WORK_COMPUTE)
		ws_cover_add(&times->compute, start, end);
	else if (class == WS_WORK_COMM)
		ws_cover_add(&times->comm, start, end);
	else
		ws_cover_add(&times->memory, start, end);
	if (class != WS_WORK_MEMORY)
		ws_cover_add(&times->work, start, end);
	ws_cover_add(&times->busy, start, end);
}

/* Time of communication that no computation hides, and of copies and memsets that neither hides. */
static inline uint64_t ws_work_measure_exposed_comm(const struct ws_work_times *times)
{
	return times->work.length - times->compute.length;
}
static inline uint64_t ws_work_measure_exposed_memory(const struct ws_work_times *times)
{
	return times->busy.length - times->work.length;
}

#endif
