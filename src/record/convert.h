/*
 * convert.h - from ring records to rows: what the drain hands to the converter of each kind
 * (from_nvtx.c, from_osrt.c, from_process.c).
 *
 * A converter is `void ws_convert_<fn>(struct ws_stream *s, const struct ws_rec *r)`, named in
 * WS_RECORD_KINDS. Records come from shared memory that a broken or hostile target may have
 * scribbled over. A converter gets a copy of them that no longer changes. The drain has checked
 * that the record's size lies within the chunk; a converter checks that the size suits the kind,
 * and takes handles only through the functions below, which check them.
 */
#ifndef WS_CONVERT_H
#define WS_CONVERT_H

#include "record/clock.h"
#include "ring/record.h"
#include "ring/ring.h"
#include "store/store.h"

struct ws_sink; /* one report being written, and what is known about its strings */
struct ws_proc; /* one process image */

/* One ring being drained. */
struct ws_stream {
	struct ws_clock *clock;
	struct ws_sink *sink;
	struct ws_writer *writer;
	struct ws_proc *proc;
	uint32_t process;			/* id in the process table */
	uint32_t thread;			/* id in the thread table */
	struct ws_stage *stage[WS_TABLE_COUNT]; /* for ws_writer_row */
	const struct ws_ring *ring; /* what its thread has open; NULL at the end of a process */
	uint32_t tid;
	bool late;     /* its records refer to those of other rings, and are converted after them */
	uint64_t base; /* ticks that short records of the chunk being converted count from */
	void *domain_state[5]; /* per-ring state of converters; owned by them, see
				  ws_convert_*_stream_end */
};

/* Session time (ns) of ticks; exact between clock readings, which surround everything being
 * drained. */
static inline uint64_t ws_stream_time(struct ws_stream *stream, uint64_t ticks)
{
	return ws_clock_ns(stream->clock, ticks);
}

/* Report string id of a string handle of this process; 0 for handle 0 or one that does not check
 * out. */
uint32_t ws_stream_string(struct ws_stream *stream, uint32_t handle);
/*
 * A copy of the bytes behind a handle and of a NUL, for converters that must look at them; NULL
 * when it does not check out. Good until the call after the next.
 */
const char *ws_stream_string_bytes(struct ws_stream *stream, uint32_t handle, size_t *len);

/* Report string id of a local text of this ring; it is forgotten when `last` is set. 0 when
 * unknown. */
uint32_t ws_stream_text(struct ws_stream *stream, uint32_t number, bool last);

/* Id in the report's dictionary of bytes that the converter made itself. */
uint32_t ws_stream_intern(struct ws_stream *stream, const void *bytes, size_t len);

/* Thread id (of the thread table) of another thread of the same process, by tid; makes its row when
 * it has none yet. */
uint32_t ws_stream_thread(struct ws_stream *stream, uint32_t tid);

/* Per-process state of a converter: a slot that starts NULL. Freed by the function it registers. */
void **ws_proc_slot(struct ws_proc *process, int domain, void (*free_fn)(void *));
enum {
	WS_SLOT_NVTX = 0,
	WS_SLOT_OSRT = 1,
	WS_SLOT_CUDA = 2,
	WS_SLOT_STACK = 3,
	WS_SLOT_PYTHON = 4,
	WS_SLOTS = 5
};

/* A diagnostic row; the same text about the same process is said once. */
void ws_stream_diagnostic(struct ws_stream *stream, enum ws_severity severity, const char *source,
			  const char *fmt, ...) WS_PRINTF(4, 5);

#define X(kind, fn) void ws_convert_##fn(struct ws_stream *s, const struct ws_rec *r);
WS_RECORD_KINDS(X)
#undef X

/* Calls found open when a ring ends without its thread having said so, or the recording does: one
 * row each, end null. In from_osrt.c. */
void ws_convert_osrt_open(struct ws_stream *stream);
/* Ranges found open when a ring ends or the collection does: one row each, end null, flag
 * LEFT_OPEN. In from_nvtx.c. */
void ws_convert_open(struct ws_stream *stream, const struct ws_open *open);
/* The last record of a ring has been converted: frees what from_nvtx.c keeps in domain_state. Call
 * it after ws_convert_open. */
void ws_convert_nvtx_stream_end(struct ws_stream *stream);
/* The same for what from_python.c keeps. */
void ws_convert_python_stream_end(struct ws_stream *stream);
/* The last record of a ring has been converted: frees what from_stack.c keeps. */
void ws_convert_stack_stream_end(struct ws_stream *stream);
/* A process has ended: rows still waiting for a partner (start/end ranges) are written. In
 * from_nvtx.c. */
void ws_convert_nvtx_process_end(struct ws_stream *stream);
/* A process has ended: what CUPTI had written into its buffers becomes rows, and the buffers are
 * free again. In from_cuda.c. */
void ws_convert_cuda_process_end(struct ws_stream *stream);

#endif
