/*
 * cuda_sync.c - waits: of the CPU for streams, contexts and events, and of streams for events.
 *
 * CUPTI has activity kinds for them and for the recording of events, but with either enabled every
 * call of the runtime takes 100 to 200 ns longer, including cudaGetLastError and the like, which
 * programs call thousands of times per step: that is more than all other tracing together costs
 * (measured on an H200, CUPTI 13.0). Callbacks at the few calls that wait or record cost nothing
 * elsewhere, so our records come from there.
 *
 * To determine which recording of an event a wait is for, we keep, by the event's handle, the
 * correlation of the call that recorded it last.
 */
#include <string.h>

#include "inject/cuda.h"
#include "ring/cuda_record.h"

/* CUpti_ActivitySynchronizationType, and what does not wait. */
enum what {
	NOTHING = 0,
	WAIT_EVENT = 1,
	STREAM_WAIT_EVENT = 2,
	WAIT_STREAM = 3,
	WAIT_CONTEXT = 4,
	RECORD_EVENT = WS_CUDA_EVENT_RECORD
};

static const struct {
	const char *name;
	uint8_t what;
} calls[] = {
	{"cudaStreamSynchronize", WAIT_STREAM},
	{"cudaDeviceSynchronize", WAIT_CONTEXT},
	{"cudaThreadSynchronize", WAIT_CONTEXT},
	{"cudaEventSynchronize", WAIT_EVENT},
	{"cudaStreamWaitEvent", STREAM_WAIT_EVENT},
	{"cudaEventRecord", RECORD_EVENT},
	{"cuStreamSynchronize", WAIT_STREAM},
	{"cuCtxSynchronize", WAIT_CONTEXT},
	{"cuEventSynchronize", WAIT_EVENT},
	{"cuStreamWaitEvent", STREAM_WAIT_EVENT},
	{"cuEventRecord", RECORD_EVENT},
};

enum { CBIDS = 2048, HANDLES = 4096 };
static uint8_t what_of[2][CBIDS];	 /* runtime, driver */
static uint8_t per_thread[2][CBIDS / 8]; /* variants whose null stream is the thread's */

/* Correlation of the last recording of an event, by the event's handle. A collision overwrites an
 * older event's entry; both words are written without a lock. */
static struct {
	_Atomic uint64_t handle;
	_Atomic uint32_t correlation;
} recorded[HANDLES];

__thread struct ws_cuda_open ws_cuda_open
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

void ws_cuda_find_sync_call(int driver, uint32_t cbid, const char *name)
{
	bool events = ws_rt->arena->cuda.flags & WS_CUDA_EVENTS;

	if (cbid >= CBIDS)
		return;
	for (size_t i = 0; i < WS_COUNT(calls); i++) {
		if (strncmp(name, calls[i].name, strlen(calls[i].name)) ||
		    (calls[i].what == RECORD_EVENT && !events))
			continue;
		what_of[driver][cbid] = calls[i].what;
		if (strstr(name, "_ptsz"))
			per_thread[driver][cbid / 8] |= (uint8_t)(1 << cbid % 8);
	}
}

bool ws_cuda_wants_sync_call(int driver, uint32_t cbid)
{
	return cbid < CBIDS && what_of[driver][cbid];
}

static size_t find_handle_slot(uint64_t handle)
{
	return handle * UINT64_C(0x9e3779b97f4a7c15) >> 52;
}

static void remember_handle(uint64_t handle, uint32_t correlation)
{
	size_t i = find_handle_slot(handle);

	atomic_store_explicit(&recorded[i].correlation, correlation, memory_order_relaxed);
	atomic_store_explicit(&recorded[i].handle, handle, memory_order_release);
}

static uint32_t recall_handle(uint64_t handle)
{
	size_t i = find_handle_slot(handle);

	return handle && atomic_load_explicit(&recorded[i].handle, memory_order_acquire) == handle
		       ? atomic_load_explicit(&recorded[i].correlation, memory_order_relaxed)
		       : 0;
}

static uint32_t read_stream_id(const struct cupti_callback *callback, void *stream, bool of_thread)
{
	uint32_t id = 0;

	if (ws_cupti.GetStreamIdEx &&
	    !ws_cupti.GetStreamIdEx(callback->context, stream, of_thread, &id))
		return id;
	return UINT32_MAX;
}

static void write_call(int driver, uint32_t cbid, const struct cupti_callback *callback,
		       enum what what, uint64_t end)
{
	const uint64_t *params =
		callback->params; /* handles in the order of the call's arguments */
	uint32_t stream = UINT32_MAX, context = 0, recorded_by = 0;
	struct ws_rec_cuda_sync *record;
	struct ws_thread *thread;
	uint64_t event = 0;

	if (what == WAIT_EVENT || what == STREAM_WAIT_EVENT || what == RECORD_EVENT)
		event = params[what == STREAM_WAIT_EVENT];
	if (what == WAIT_STREAM || what == STREAM_WAIT_EVENT || what == RECORD_EVENT)
		stream = read_stream_id(callback, (void *)(uintptr_t)params[what == RECORD_EVENT],
					per_thread[driver][cbid / 8] >> cbid % 8 & 1);
	if (what == RECORD_EVENT)
		remember_handle(event, callback->correlation);
	else
		recorded_by = recall_handle(event);
	if (ws_cupti.GetContextId && callback->context)
		ws_cupti.GetContextId(callback->context, &context);
	thread = ws_rt_enter();
	if (!thread)
		return;
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_CUDA);
	if (record) {
		*record = (struct ws_rec_cuda_sync){
			.rec = ws_rec_head(WS_REC_CUDA_SYNC, sizeof(*record), (uint16_t)what,
					   context),
			.start = ws_cuda_open.wait_start,
			.end = end,
			.event = event,
			.correlation = callback->correlation,
			.stream = stream,
			.recorded_by = recorded_by,
			.result = callback->result ? *(const int *)callback->result : 0};
		ws_rt_commit(thread, record, sizeof(*record));
	}
	ws_rt_leave(thread);
}

void ws_cuda_record_sync_call(int driver, uint32_t cbid, const struct cupti_callback *callback)
{
	enum what what = what_of[driver][cbid];

	if (callback->site == CUPTI_SITE_ENTER) {
		if (!ws_cuda_open.waits++)
			ws_cuda_open.wait_start = ws_read_raw_ns();
		return;
	}
	/* A driver call inside a runtime call is part of that call's implementation. */
	if (!ws_cuda_open.waits || --ws_cuda_open.waits || !ws_rt_is_collecting() ||
	    (!callback->params && what != WAIT_CONTEXT))
		return;
	write_call(driver, cbid, callback, what, ws_read_raw_ns());
}
