/*
 * convert.h - from ring records to rows: the drain hands each record to the converter of its kind
 * (from_nvtx.c, from_osrt.c, from_process.c...).
 *
 * A converter is `void ws_convert_<fn>(struct ws_stream *s, const struct ws_rec *r)`, named in
 * WS_RECORD_KINDS. Records come from shared memory that a broken or hostile target may have
 * overwritten. A converter gets a copy of them that no longer changes. The drain has checked that
 * the record's size lies within the chunk. A converter checks that the size suits the kind, and
 * uses handles only through the functions below, which check them.
 */
#ifndef WS_CONVERT_H
#define WS_CONVERT_H

#include "base/compiler.h"
#include "record/clock.h"
#include "ring/record.h"
#include "ring/ring.h"
#include "store/store.h"

/* The span being collected, session ns, both ends included: events outside it make no rows. Before
 * the first collection everything is inside, since hooks then record only what must be known. */
struct ws_window {
	uint64_t from, to;
};

struct ws_sink; /* one report being written, and what is known about its strings */
struct ws_proc; /* one process image */

/* One ring being drained. */
struct ws_stream {
	struct ws_clock *clock;
	struct ws_sink *sink;
	struct ws_writer *writer;
	struct ws_proc *proc;
	const struct ws_window *window;		/* the drain's */
	uint32_t process;			/* id in the process table */
	uint32_t thread;			/* id in the thread table */
	struct ws_stage *stage[WS_TABLE_COUNT]; /* for ws_writer_row */
	/* the ranges and calls that its thread has open; NULL at the end of a process */
	const struct ws_ring *ring;
	uint32_t tid;
	bool late;     /* its records refer to those of other rings, and are converted after them */
	uint64_t base; /* base of the ticks in short records of the current chunk */
	/* the bunch of calls of a library that was read while it was open: its start in ticks, how
	 * many of its calls have rows, and when the last of these ended */
	uint64_t bunch_start, bunch_until;
	uint32_t bunch_calls;
	void *domain_state[9]; /* per-ring state of converters; owned by them, see
				  ws_convert_*_stream_end */
};

/* Session time (ns) of ticks. Exact: clock readings lie on both sides of everything that is
 * drained. */
static inline uint64_t ws_stream_time(struct ws_stream *stream, uint64_t ticks)
{
	return ws_clock_ns(stream->clock, ticks);
}

/* Whether an event that lasted from start to end (session ns) belongs to the collection. */
static inline bool ws_stream_wants(const struct ws_stream *stream, uint64_t start, uint64_t end)
{
	return ws_likely(end >= stream->window->from && start <= stream->window->to);
}

/* Report string id of a string handle of this process; 0 for handle 0 or an invalid one. */
uint32_t ws_stream_string(struct ws_stream *stream, uint32_t handle);
/*
 * A copy of the bytes behind a handle, with a NUL, for converters that must look at them; NULL for
 * an invalid handle. Valid until the call after the next.
 */
const char *ws_stream_string_bytes(struct ws_stream *stream, uint32_t handle, size_t *len);

/* Report string id of a local text of this ring; 0 when unknown. With `last`, the text is
 * forgotten. */
uint32_t ws_stream_text(struct ws_stream *stream, uint32_t number, bool last);

/* Hold the passing texts that rows of this process may still refer to (ws_writer_hold_string). */
void ws_nvtx_hold_strings(struct ws_proc *process, struct ws_writer *writer);

/* Id in the report's dictionary of bytes that the converter made itself. */
uint32_t ws_stream_intern(struct ws_stream *stream, const void *bytes, size_t len);

/* Thread id (of the thread table) of another thread of the same process, by tid. Makes its row when
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
	WS_SLOT_NCCL = 5,
	WS_SLOT_LIBRARY = 6,
	WS_SLOT_OPENMP = 7,
	WS_SLOT_KERNEL = 8,
	WS_SLOT_NCCL_CHANNELS = 9,
	WS_SLOTS = 10
};

/* Write a diagnostic row; the same text about the same process is written once. */
void ws_stream_diagnostic(struct ws_stream *stream, enum ws_severity severity, const char *source,
			  const char *fmt, ...) WS_PRINTF(4, 5);

#define X(kind, fn) void ws_convert_##fn(struct ws_stream *s, const struct ws_rec *r);
WS_RECORD_KINDS(X)
#undef X

/* One row, with end null, for each call that was open when a ring ended without its thread having
 * ended it, or when the recording ended. In from_osrt.c. */
void ws_convert_osrt_open(struct ws_stream *stream);
/* The same for calls of traced libraries; in from_library.c. */
void ws_convert_library_open(struct ws_stream *stream);
/* One row, with end null and the flag LEFT_OPEN, for each range that was open when a ring or the
 * collection ended. In from_nvtx.c. */
void ws_convert_open(struct ws_stream *stream, const struct ws_open *open);
/* Free what from_nvtx.c keeps in domain_state, after the last record of a ring has been converted.
 * Call it after ws_convert_open. */
void ws_convert_nvtx_stream_end(struct ws_stream *stream);
/* The same for from_python.c. */
void ws_convert_python_stream_end(struct ws_stream *stream);
/* The same for from_stack.c. */
void ws_convert_stack_stream_end(struct ws_stream *stream);
/* Write the rows that still wait for a partner (start/end ranges) when their process has ended. In
 * from_nvtx.c. */
void ws_convert_nvtx_process_end(struct ws_stream *stream);
/* A collection has ended while the process goes on: write rows for start/end ranges that were open
 * then. The ranges stay known, since a later collection may see them end. */
void ws_convert_nvtx_window_end(struct ws_stream *stream);
/* When a process has ended, make rows of what CUPTI had written into its buffers and free the
 * buffers. In from_cuda.c. */
void ws_convert_cuda_process_end(struct ws_stream *stream);

#endif
