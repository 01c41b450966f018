/* sample_record.h - a CPU sample taken by a signal; its stack (stack_record.h) comes directly
 * before it, with the same time. */
#ifndef WS_RING_SAMPLE_RECORD_H
#define WS_RING_SAMPLE_RECORD_H

#include "ring/record.h"

#define WS_SAMPLE_LEFT \
	1u /* in rec.small: not a sample, but the CPU time left over at the thread's end */

struct ws_rec_sample {
	struct ws_rec rec; /* value: core, or WS_NO_U32 */
	uint64_t time;	   /* ticks */
	uint64_t weight;   /* nanoseconds of CPU time that it stands for */
	uint64_t ip;
};

#endif
