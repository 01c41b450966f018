/*
 * nccl_record.h - what the profiler plug-in for NCCL writes for an event: one record when it is
 * over.
 */
#ifndef WS_RING_NCCL_RECORD_H
#define WS_RING_NCCL_RECORD_H

#include "ring/record.h"

/* In what a step of a proxy spends its time. */
enum ws_nccl_wait {
	WS_NCCL_WAIT_GPU,     /* for the kernel to provide or to consume the data */
	WS_NCCL_WAIT_PEER,    /* for the peer to be ready for it */
	WS_NCCL_WAIT_NETWORK, /* for it to be sent or received */
	WS_NCCL_WAIT_FLUSH,   /* for received data to be in the GPU's memory */
	WS_NCCL_WAITS,
	WS_NCCL_WAIT_NONE = WS_NCCL_WAITS
};

enum ws_nccl_flag {
	WS_NCCL_IS_SEND = 1,
	WS_NCCL_KNOWS_BYTES = 2,
	WS_NCCL_KNOWS_RANK = 4,
	WS_NCCL_KNOWS_SEQUENCE = 8,
	WS_NCCL_KNOWS_PEER = 16,
	WS_NCCL_KNOWS_CHANNEL = 32
};

struct ws_rec_nccl {
	struct ws_rec rec; /* small: number of the event (schema/nccl.h); value: enum ws_nccl_flag
			    */
	uint64_t start, end;
	uint64_t number, parent, operation; /* of events; 0: none */
	uint64_t communicator, sequence, count, bytes;
	uint64_t gpu_start, gpu_end;   /* ns since 1970; 0: not known */
	uint64_t waits[WS_NCCL_WAITS]; /* ticks */
	/* Strings. */
	uint32_t function, type, algorithm, protocol, communicator_name;
	int32_t rank, peer, steps, chunk, state;
	uint32_t ranks, nodes; /* 0: not known */
	uint8_t channel, channels, warps, network, reserved[4];
};
_Static_assert(sizeof(struct ws_rec_nccl) % 8 == 0, "records are made of words");

#endif
