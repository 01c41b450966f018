/*
 * openmp_record.h - what the OpenMP hook writes for an event: one record when it is over. Moments
 * have equal times.
 */
#ifndef WS_RING_OPENMP_RECORD_H
#define WS_RING_OPENMP_RECORD_H

#include "ring/record.h"

struct ws_rec_openmp {
	struct ws_rec rec; /* small: enum ws_openmp_kind; value: OMPT's number of what it is */
	uint64_t start, end;
	uint64_t parallel, task; /* numbers of the region and the task; 0: none */
	uint64_t other;		 /* see the column of the table openmp */
	uint64_t code;		 /* return address of the call into the runtime; 0: not known */
	uint64_t region;	 /* the same for the region that it is in */
};

#endif
