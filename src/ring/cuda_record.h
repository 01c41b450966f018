/*
 * cuda_record.h - what the CUDA hook writes into rings.
 *
 * CUPTI's records are copied unchanged, many at a time. The recorder, which has the time for it,
 * casts them according to the version of CUPTI that made them. In the target only what the recorder
 * could not know is filled in: `kind` receives the record's size, and pointers to texts become
 * handles.
 */
#ifndef WS_RING_CUDA_RECORD_H
#define WS_RING_CUDA_RECORD_H

#include "ring/record.h"

/* Bits of a record's `kind` in a batch: the kind, its size in 8-byte words, CUPTI's mark of a
 * record that is not finished. */
#define WS_CUPTI_KIND(k) ((k)&0xffu)
#define WS_CUPTI_SIZE(k) (8u * ((k) >> 8 & 0x7ffu))
#define WS_CUPTI_MADE(kind, bytes) ((uint32_t)(kind) | (uint32_t)(bytes) / 8u << 8)
#define WS_CUPTI_UNFINISHED 0x80000000u

/* In a batch, pointers to texts are replaced by handles with this bit, which no user address has.
 */
#define WS_CUPTI_HANDLE (UINT64_C(1) << 63)

#define WS_CUDA_BATCH_BYTES (WS_REC_MAX_BYTES - 64u)

struct ws_rec_cuda_batch {
	struct ws_rec rec; /* long form when it must be */
	uint64_t time;	   /* session ns when it was received */
	char bytes[];
};

enum ws_cuda_name {
	WS_CUDA_NAME_POINTER = 0,
	WS_CUDA_NAME_RUNTIME = 1,
	WS_CUDA_NAME_DRIVER = 2,
	WS_CUDA_NAME_SIZE = 3
};
struct ws_rec_cuda_name {
	struct ws_rec rec; /* small: enum ws_cuda_name; value: handle, or bytes */
	uint64_t key; /* the pointer, the callback id, or the kind of record that has this size */
};

struct ws_rec_cuda_device { /* what CUPTI's record of the device does not contain */
	struct ws_rec rec;  /* value: device number */
	uint32_t bus, chip; /* handles */
	uint32_t integrated, shared_block_optin, shared_reserved, regs_granularity;
	uint64_t reserved;
};

enum ws_cuda_resource {
	WS_CUDA_MODULE_LOADED = 1,
	WS_CUDA_MODULE_UNLOADED = 2,
	WS_CUDA_GRAPH_CREATED = 3,
	WS_CUDA_GRAPH_CLONED = 4,
	WS_CUDA_GRAPH_EXEC = 5,
	WS_CUDA_NODE_CREATED = 6,
	WS_CUDA_NODE_CLONED = 7,
};
struct ws_rec_cuda_resource {
	struct ws_rec rec;  /* small: enum ws_cuda_resource; value: context, or type of the node */
	uint64_t time;	    /* session ns */
	uint64_t id, other; /* module and its bytes; node and the one it was cloned from; executable
			       graph */
	uint32_t tid, graph, original_graph;
	uint32_t for_debugger; /* of a module: 1 when compiled without optimisation (nvcc -G) */
};

#define WS_CUDA_EVENT_RECORD 5 /* not a CUpti_ActivitySynchronizationType: an event is recorded */
struct ws_rec_cuda_sync {
	struct ws_rec
		rec; /* small: CUpti_ActivitySynchronizationType, or the above; value: context */
	uint64_t start, end;	      /* session ns */
	uint64_t event;		      /* its handle, 0 for none */
	uint32_t correlation, stream; /* stream UINT32_MAX: none */
	uint32_t recorded_by; /* correlation of the call that recorded the event; 0 for none */
	int32_t result;
};

struct ws_rec_cuda_host {	      /* a function that CUDA is to call */
	struct ws_rec rec;	      /* value: context */
	uint64_t time;		      /* session ns */
	uint64_t function, node;      /* its address; node of a graph, 0 for none */
	uint32_t correlation, stream; /* stream UINT32_MAX: none */
	uint32_t graph, reserved;     /* 0 for none */
};

struct ws_rec_cuda_seen {
	struct ws_rec rec;	/* value: handle of libcupti's path */
	uint32_t cupti, driver; /* versions */
};

#endif
