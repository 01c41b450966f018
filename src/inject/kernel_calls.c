/*
 * kernel_calls.c - the calls that put work on the GPU in a range, recorded when they have returned,
 * to be made again in the same order. What the range copies from the host is kept; what it copies
 * to the host goes into memory of our own when it is repeated. Its events are replaced by events of
 * our own, so that the program's keep their times. Where the program waits, so do we: a later call
 * may depend on that.
 */
#include <stdio.h>
#include <stdlib.h>

#include "inject/kernel.h"

enum operation {
	LAUNCH,
	COPY,
	COPY_ANY,
	SEND,
	FETCH,
	SET,
	RECORD,
	AWAIT,
	WAIT,
	WAIT_EVENT,
	WAIT_ALL
};
enum { CALLS_MOST = 1 << 16, DISABLE_TIMING = 2, PER_THREAD_STREAM = 2 };
#define HOST_BYTES_MOST (UINT64_C(256) << 20)

/* The names that can be repeated, without _ptsz and _ptds. `stream`: where in the parameters, in
 * words; 0 of a call that has none and returns when its work is done. */
static const struct known_call {
	const char *name;
	enum operation operation;
	uint8_t stream, width; /* bytes of a value that is set */
} known[] = {
	{"cuMemcpyDtoDAsync_v2", COPY, 3, 0},	 {"cuMemcpyDtoD_v2", COPY, 0, 0},
	{"cuMemcpyAsync", COPY_ANY, 3, 0},	 {"cuMemcpy", COPY_ANY, 0, 0},
	{"cuMemcpyHtoDAsync_v2", SEND, 3, 0},	 {"cuMemcpyHtoD_v2", SEND, 0, 0},
	{"cuMemcpyDtoHAsync_v2", FETCH, 3, 0},	 {"cuMemcpyDtoH_v2", FETCH, 0, 0},
	{"cuMemsetD8Async", SET, 3, 1},		 {"cuMemsetD16Async", SET, 3, 2},
	{"cuMemsetD32Async", SET, 3, 4},	 {"cuMemsetD8_v2", SET, 0, 1},
	{"cuMemsetD16_v2", SET, 0, 2},		 {"cuMemsetD32_v2", SET, 0, 4},
	{"cuEventRecord", RECORD, 1, 0},	 {"cuEventRecordWithFlags", RECORD, 1, 0},
	{"cuStreamWaitEvent", AWAIT, 0, 0},	 {"cuStreamSynchronize", WAIT, 0, 0},
	{"cuStreamQuery", WAIT, 0, 0},		 {"cuEventSynchronize", WAIT_EVENT, 0, 0},
	{"cuEventQuery", WAIT_EVENT, 0, 0},	 {"cuCtxSynchronize", WAIT_ALL, 0, 0},
	{"cuCtxSynchronize_v2", WAIT_ALL, 0, 0},
};

/* How the names of calls begin that change nothing which a repetition needs. */
static const char *const harmless[] = {
	"cuInit",
	"cuGet",
	"cuDriverGet",
	"cuDeviceGet",
	"cuDeviceCan",
	"cuDevicePrimaryCtxG",
	"cuDevicePrimaryCtxRetain",
	"cuCtxGet",
	"cuCtxSetCurrent",
	"cuCtxPush",
	"cuCtxPop",
	"cuFuncGet",
	"cuFuncLoad",
	"cuFuncIsLoaded",
	"cuFuncSet",
	"cuKernelGet",
	"cuKernelSet",
	"cuLibraryGet",
	"cuLibraryLoad",
	"cuModuleGet",
	"cuModuleLoad",
	"cuOccupancy",
	"cuPointerGet",
	"cuMemGetInfo",
	"cuMemGetAddress",
	"cuMemGetAcc",
	"cuMemGetAllocation",
	"cuMemHostGet",
	"cuMemPoolGet",
	"cuStreamGet",
	"cuStreamIsCapturing",
	"cuStreamCreate",
	"cuEventCreate",
	"cuEventDestroy",
	"cuEventElapsed",
	"cuThreadExchange",
	"cuProfiler",
	"cuTensorMapEncode",
	"cuGraphGet",
	"cuGraphExecGet",
	"cuGraphCreate",
};

struct call {
	enum operation operation;
	bool waits; /* it returns when its work is done */
	uint8_t width;
	uint32_t value;
	uint64_t to, from, bytes; /* of SET: `bytes` values */
	void *stream, *event;	  /* event: ours */
	char *host;
	struct ws_kernel_launch launch;
};

struct event {
	void *program, *own;
};

struct ws_kernel_calls {
	struct call *calls;
	size_t count, room;
	struct event *events;
	size_t event_count, event_room;
	uint64_t host_bytes;
	char why[192];
};

/* Parameters of 64 bits each; shorter ones are padded. */
typedef uint64_t parameters[4];

static size_t measure_name(const char *name)
{
	size_t n = strlen(name);

	if (n > 5 && (!strcmp(name + n - 5, "_ptsz") || !strcmp(name + n - 5, "_ptds")))
		return n - 5;
	return n;
}

static const struct known_call *find_call(const char *name)
{
	size_t n = measure_name(name);

	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (strlen(known[i].name) == n && !strncmp(known[i].name, name, n))
			return &known[i];
	return NULL;
}

bool ws_kernel_may_ignore_call(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(harmless); i++)
		if (!strncmp(name, harmless[i], strlen(harmless[i])))
			return true;
	return false;
}

struct ws_kernel_calls *ws_kernel_make_calls(void)
{
	return calloc(1, sizeof(struct ws_kernel_calls));
}

size_t ws_kernel_count_calls(const struct ws_kernel_calls *calls)
{
	return calls->count;
}

/* ---- recording ---- */

static const char *refuse(struct ws_kernel_calls *calls, const char *name, const char *why)
{
	snprintf(calls->why, sizeof(calls->why), "%s %s", name, why);
	return calls->why;
}

static struct call *add_call(struct ws_kernel_calls *calls)
{
	if (calls->count == CALLS_MOST)
		return NULL;
	if (calls->count == calls->room) {
		size_t more = 2 * calls->room + 64;
		struct call *grown = realloc(calls->calls, more * sizeof(*grown));

		if (!grown)
			return NULL;
		calls->calls = grown;
		calls->room = more;
	}
	memset(&calls->calls[calls->count], 0, sizeof(*calls->calls));
	return &calls->calls[calls->count++];
}

static void *find_event(const struct ws_kernel_calls *calls, void *program)
{
	for (size_t i = calls->event_count; i-- > 0;)
		if (calls->events[i].program == program)
			return calls->events[i].own;
	return NULL;
}

static void *add_event(struct ws_kernel_calls *calls, void *program)
{
	void *own = find_event(calls, program);

	if (own)
		return own;
	if (calls->event_count == calls->event_room) {
		size_t more = 2 * calls->event_room + 16;
		struct event *grown = realloc(calls->events, more * sizeof(*grown));

		if (!grown)
			return NULL;
		calls->events = grown;
		calls->event_room = more;
	}
	if (!ws_kernel_driver.create_event || ws_kernel_driver.create_event(&own, DISABLE_TIMING))
		return NULL;
	calls->events[calls->event_count++] = (struct event){program, own};
	return own;
}

/* Between any two addresses: which way it goes is seen from what the program has allocated. */
static enum operation find_direction(const struct call *call)
{
	bool to = ws_kernel_is_device_memory(call->to),
	     from = ws_kernel_is_device_memory(call->from);

	if (to && from)
		return COPY;
	if (to)
		return SEND;
	return from ? FETCH : COPY_ANY;
}

static bool keep_source(struct ws_kernel_calls *calls, struct call *call)
{
	for (size_t i = 0; i < calls->count; i++) {
		const struct call *other = &calls->calls[i];

		/* It may not have arrived there yet. */
		if (other->operation == FETCH && !other->waits &&
		    call->from < other->to + other->bytes && other->to < call->from + call->bytes)
			return false;
	}
	calls->host_bytes += call->bytes;
	if (calls->host_bytes > HOST_BYTES_MOST || !(call->host = malloc(call->bytes + 1)))
		return false;
	memcpy(call->host, (const void *)(uintptr_t)call->from, call->bytes);
	return true;
}

static const char *fill_copy(struct ws_kernel_calls *calls, struct call *call,
			     const uint64_t *params, const char *name)
{
	call->to = params[0];
	call->from = params[1];
	call->bytes = params[2];
	if (call->operation == COPY_ANY)
		call->operation = find_direction(call);
	if (call->operation == COPY_ANY)
		return refuse(calls, name, "copies between addresses that are not known");
	if (call->operation == SEND && !keep_source(calls, call))
		return refuse(calls, name, "copies from the host what cannot be kept");
	if (call->operation == FETCH) {
		/* The host goes on while memory that is not pinned is written. */
		call->waits |= !ws_kernel_knows_memory(call->to);
		calls->host_bytes += call->bytes;
		if (calls->host_bytes > HOST_BYTES_MOST || !(call->host = malloc(call->bytes + 1)))
			return refuse(calls, name, "copies too much to the host");
	}
	return NULL;
}

static const char *fill_event(struct ws_kernel_calls *calls, struct call *call,
			      const uint64_t *params, const char *name)
{
	void *event = (void *)(uintptr_t)params[call->operation == AWAIT];

	if (call->operation == AWAIT)
		call->stream = (void *)(uintptr_t)params[0];
	if (call->operation == RECORD)
		call->event = add_event(calls, event);
	else
		call->event = find_event(calls, event);
	if (call->operation == RECORD && !call->event)
		return refuse(calls, name, "cannot be repeated: the driver has no events left");
	if (!call->event) /* of work before the range, which is done */
		calls->count--;
	return NULL;
}

static const char *fill_call(struct ws_kernel_calls *calls, struct call *call,
			     const struct known_call *how, const struct cupti_callback *callback)
{
	const uint64_t *params = callback->params;

	call->operation = how->operation;
	call->width = how->width;
	call->waits = !how->stream && how->operation <= SET;
	if (how->stream)
		call->stream = (void *)(uintptr_t)params[how->stream];
	else if (how->operation == WAIT)
		call->stream = (void *)(uintptr_t)params[0];
	switch (how->operation) {
	case COPY:
	case COPY_ANY:
	case SEND:
	case FETCH:
		return fill_copy(calls, call, params, callback->function);
	case RECORD:
	case AWAIT:
	case WAIT_EVENT:
		return fill_event(calls, call, params, callback->function);
	case SET:
		call->to = params[0];
		memcpy(&call->value, &params[1], how->width);
		call->bytes = params[2];
		return NULL;
	default:
		return NULL;
	}
}

const char *ws_kernel_add_call(struct ws_kernel_calls *calls, const struct cupti_callback *callback)
{
	const struct known_call *how = find_call(callback->function);
	const char *name = callback->function, *why;
	struct call *call;

	if (!how)
		return ws_kernel_may_ignore_call(name) ? NULL
						       : refuse(calls, name, "is not repeated");
	call = add_call(calls);
	if (!call)
		return refuse(calls, name, "is one call too many");
	why = fill_call(calls, call, how, callback);
	if (!call->stream && name[measure_name(name)])
		call->stream = (void *)(uintptr_t)PER_THREAD_STREAM;
	return why;
}

const char *ws_kernel_add_launch(struct ws_kernel_calls *calls,
				 const struct ws_kernel_launch *launch, const char *name)
{
	struct call *call = add_call(calls);

	if (!call)
		return refuse(calls, name, "is one call too many");
	call->operation = LAUNCH;
	if (ws_kernel_copy_launch(&call->launch, launch))
		return NULL;
	calls->count--;
	return refuse(calls, name, "has arguments or attributes that cannot be kept");
}

void ws_kernel_free_calls(struct ws_kernel_calls *calls)
{
	for (size_t i = 0; i < calls->count; i++) {
		if (calls->calls[i].operation == LAUNCH)
			ws_kernel_free_launch(&calls->calls[i].launch);
		free(calls->calls[i].host);
	}
	for (size_t i = 0; i < calls->event_count && ws_kernel_driver.destroy_event; i++)
		ws_kernel_driver.destroy_event(calls->events[i].own);
	free(calls->calls);
	free(calls->events);
	free(calls);
}

/* ---- making them again ---- */

static int set_memory(const struct call *call)
{
	switch (call->width) {
	case 1:
		return ws_kernel_driver.set(call->to, (unsigned char)call->value, call->bytes,
					    call->stream);
	case 2:
		return ws_kernel_driver.set_16(call->to, (unsigned short)call->value, call->bytes,
					       call->stream);
	default:
		return ws_kernel_driver.set_32(call->to, call->value, call->bytes, call->stream);
	}
}

static int make_call(const struct call *call)
{
	switch (call->operation) {
	case LAUNCH:
		return ws_kernel_launch_again(&call->launch);
	case COPY:
		return ws_kernel_driver.copy(call->to, call->from, call->bytes, call->stream);
	case SEND:
		return ws_kernel_driver.copy_from_host(call->to, call->host, call->bytes,
						       call->stream);
	case FETCH:
		return ws_kernel_driver.copy_to_host(call->host, call->from, call->bytes,
						     call->stream);
	case SET:
		return set_memory(call);
	case RECORD:
		return ws_kernel_driver.record_event(call->event, call->stream);
	case AWAIT:
		return ws_kernel_driver.await_event(call->stream, call->event, 0);
	case WAIT:
		return ws_kernel_driver.wait_stream(call->stream);
	case WAIT_EVENT:
		return ws_kernel_driver.wait_event(call->event);
	default:
		return ws_kernel_driver.synchronize();
	}
}

bool ws_kernel_repeat_calls(const struct ws_kernel_calls *calls)
{
	for (size_t i = 0; i < calls->count; i++) {
		const struct call *call = &calls->calls[i];

		if (make_call(call) || (call->waits && ws_kernel_driver.wait_stream(call->stream)))
			return false;
	}
	return !ws_kernel_driver.synchronize();
}

bool ws_kernel_can_repeat_calls(void)
{
	return ws_kernel_driver.create_event && ws_kernel_driver.destroy_event &&
	       ws_kernel_driver.record_event && ws_kernel_driver.await_event &&
	       ws_kernel_driver.wait_event && ws_kernel_driver.set_16 && ws_kernel_driver.set_32;
}
