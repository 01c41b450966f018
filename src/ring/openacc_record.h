/*
 * openacc_record.h - what the OpenACC hook writes for an event: one record when it is over. Moments
 * have equal times. Texts are handles, 0 for none.
 */
#ifndef WS_RING_OPENACC_RECORD_H
#define WS_RING_OPENACC_RECORD_H

#include "ring/record.h"

struct ws_rec_openacc {
	struct ws_rec rec; /* small: acc_event_t of its start; value: line in the source */
	uint64_t start, end;
	uint64_t bytes, gangs, workers, vector_length; /* of data; of a launch */
	int64_t queue;				       /* asynchronous queue; negative: none */
	uint32_t construct;			       /* acc_construct_t that caused it */
	uint32_t implicit; /* not 0: implicit, no directive asks for it */
	uint32_t device_type, device;
	uint32_t file, function;
	uint32_t item; /* variable of data, or kernel of a launch */
	uint32_t reserved;
};

#endif
