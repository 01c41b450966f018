/*
 * from_cuda.h - the state that the conversion of CUDA's records keeps for a process; private to
 * from_cuda*.c.
 *
 * from_cuda.c the hook's records: batches, names, devices; buffers of dead processes
 * from_cuda_work.c work on the GPU: kernels, copies, memory sets, graphs from_cuda_other.c calls,
 * waits, events, memory, overhead, contexts, streams, modules
 */
#ifndef WS_FROM_CUDA_H
#define WS_FROM_CUDA_H

#include "base/choose.h"
#include "base/map.h"
#include "ring/cuda_record.h"
#include "ring/cupti_abi.h"
#include "nccl/nccl.h"
#include "record/convert.h"
#include "gpu/occupancy.h"

enum {
	WS_CUDA_DEVICES = 64,
	WS_CUDA_MEM_KINDS = 8,
	WS_CUDA_MEMORY_MOST = 1 << 18 /* rows that wait */
};

struct ws_cuda_device {
	bool seen, described, written; /* whether CUPTI's record came; the driver's answers came;
					  its row is written */
	struct ws_row_cuda_device row;
	struct ws_sm sm;
	/* below 0 when memory is freed that was allocated before the recording */
	int64_t in_use[WS_CUDA_MEM_KINDS];
};

struct ws_cuda_names { /* of a kernel, in the report's dictionary */
	uint32_t demangled, name, mangled;
	struct ws_nccl_kernel_name nccl;
};

struct ws_cuda_shape { /* a cached answer about occupancy */
	uint64_t key[2];
	struct ws_occupancy occupancy;
};

/* Calls of a process in the collection that began at `from` (session ns), by their correlations.
 */
struct ws_cuda_launches {
	uint64_t from;
	uint32_t before;     /* the last call before the collection; 0, here and below: none */
	uint32_t last;	     /* the collection's last call */
	uint32_t highest;    /* the last of all */
	struct ws_map after; /* calls that began after its end, as keys */
};

struct ws_cuda_proc {
	uint32_t version; /* of CUPTI */
	struct ws_cuda_call {
		uint32_t name, handle;
		bool launches; /* it launches kernels */
	} * api[2];	       /* by callback id: runtime, driver */
	size_t api_cap[2];
	struct ws_map pointers;	    /* of texts in the target -> handle */
	struct ws_map kernel_names; /* handle -> index + 1 in names */
	struct ws_cuda_names *names;
	size_t names_n, names_cap;
	struct ws_cuda_device device[WS_CUDA_DEVICES];
	struct ws_map contexts; /* id -> device << 32 | parent, bit 63: green */
	struct ws_map context_sms;
	struct ws_map streams;	   /* context << 32 | stream -> priority */
	struct ws_map allocations; /* address -> bytes */
	struct ws_row_cuda_memory
		*memory; /* allocations and frees that wait for earlier ones of other threads */
	size_t memory_n, memory_cap;
	uint64_t memory_first;	     /* time of the earliest */
	struct ws_map event_numbers; /* handle of an event -> its number */
	struct ws_map events; /* correlation of the call that recorded an event -> its number; only
				 while times of events are collected */
	struct ws_row_cuda_memory *live; /* what is allocated now */
	size_t live_n, live_cap;
	struct ws_map live_index; /* address -> place in `live` */
	struct ws_cuda_launches launches;
	struct ws_cuda_kept *late; /* work that began after the collection's end */
	size_t late_n, late_cap;
	struct ws_map errors; /* failed calls that have been reported: cbid and result */
	uint16_t sizes[CUPTI_KIND_COUNT]; /* of records, as seen, in 8-byte words */
	uint32_t last_tid, last_thread;
	uint32_t overhead_names[16];
	struct ws_cuda_shape shapes[256];
};

/* One record being converted. */
struct ws_cuda_record {
	struct ws_cuda_proc *p;
	uint64_t time; /* when it was received */
	uint32_t size;
	bool unfinished;
	bool again; /* it has waited for the call that launched it */
};

/* A record that waits until all calls are known; the bytes are ours. */
struct ws_cuda_kept {
	struct ws_cuda_record source;
	void *record;
};

/* Whether this version of CUPTI wrote `field`. */
#define WS_CUDA_HAS(c, r, field) \
	((size_t)((const char *)&(r)->field - (const char *)(r)) + sizeof((r)->field) <= (c)->size)

/* A field, or `fallback` where this version of CUPTI did not write it. */
#define WS_CUDA_FIELD(c, r, field, fallback) (WS_CUDA_HAS(c, r, field) ? (r)->field : (fallback))

/* The end of something that began at `start`; none when CUPTI wrote none. */
static inline uint64_t ws_end_or_none(uint64_t end, uint64_t start)
{
	return end >= start ? end : WS_NO_TIME;
}

typedef void ws_cuda_convert(struct ws_stream *stream, const struct ws_cuda_record *source,
			     const void *record);
ws_cuda_convert ws_cuda_kernel, ws_cuda_memcpy, ws_cuda_memcpy_peer, ws_cuda_memset,
	ws_cuda_graph_trace, ws_cuda_um, ws_cuda_api, ws_cuda_sync, ws_cuda_event, ws_cuda_stream,
	ws_cuda_context, ws_cuda_device_record, ws_cuda_overhead, ws_cuda_memory, ws_cuda_pool,
	ws_cuda_jit;

/* A text of a record, as a string of the report; 0 when it is not known. */
uint32_t ws_cuda_intern(struct ws_stream *stream, struct ws_cuda_proc *process, const char *field);
struct ws_cuda_proc *ws_cuda_proc(struct ws_stream *stream);
/* String id of a text field of a record: a handle, or a pointer that was named before; 0 when not
 * known. */
uint32_t ws_cuda_text(struct ws_stream *stream, struct ws_cuda_proc *process, const char *field,
		      const char **bytes, size_t *len);
/* Whether a time is later than now: no event has it. */
bool ws_cuda_is_future(const struct ws_stream *stream, uint64_t time);
/* Whether a span is inside what is collected. */
bool ws_cuda_wanted(struct ws_stream *stream, uint64_t start, uint64_t end);
/* The thread of the process that had this id at that time. */
uint32_t ws_cuda_thread(struct ws_stream *stream, struct ws_cuda_proc *process, uint32_t tid,
			uint64_t time);
/* Keep a value for the process, unless there are so many that they must be fake. */
void ws_cuda_keep(struct ws_map *map, uint64_t key, uint64_t value);
/* Find the device of a context, and the context that rows name: a green context belongs to
 * another. */
void ws_cuda_place(const struct ws_cuda_proc *process, uint32_t context, uint32_t *base,
		   uint32_t *green);
/* Write the rows of allocations and frees up to `until` (session ns), with how much was in use
 * after each. */
void ws_cuda_settle_memory(struct ws_stream *stream, struct ws_cuda_proc *process, uint64_t until);
/* When work ran, session ns, and the call that launched it; 0: none. */
struct ws_cuda_span {
	uint64_t start, end;
	uint32_t correlation;
};
/*
 * Whether work on a GPU belongs to the collection: it does if the call that launched it does. Work
 * that began after the end is LATE until all calls are known; where none is known, times decide.
 */
enum ws_cuda_belongs { WS_CUDA_OUTSIDE, WS_CUDA_INSIDE, WS_CUDA_LATE };
enum ws_cuda_belongs ws_cuda_belongs(struct ws_stream *stream, const struct ws_cuda_record *record,
				     struct ws_cuda_span span);
/* Whether a call belongs to the collection; it is noted for the work that it launched. */
bool ws_cuda_wants_call(struct ws_stream *stream, struct ws_cuda_proc *process,
			const struct cupti_api *api);
/* Keep a late record until ws_cuda_settle_late. */
void ws_cuda_keep_late(const struct ws_cuda_record *source, const void *record);
/* All calls are known: write the rows of late records that belong to the collection. */
void ws_cuda_settle_late(struct ws_stream *stream, struct ws_cuda_proc *process);
/* Rows for all that is allocated, in a report that begins. */
void ws_cuda_tell_live(const struct ws_proc *owner, const struct ws_cuda_proc *process);
/* Write the rows of devices that were not written because the driver's answers never came. */
void ws_cuda_write_devices(struct ws_stream *stream, struct ws_cuda_proc *process, bool all);

/* CUPTI numbers the kinds of memory from 1, with 0 for unknown; the known export format from 0,
 * with 7 for unknown. */
static inline uint32_t ws_get_cuda_memory_kind(uint32_t kind)
{
	return kind && kind < 8 ? kind - 1 : 7;
}

static inline uint32_t ws_cuda_or_null(uint32_t v)
{
	return ws_or(v, WS_NO_U32);
}

#endif
