/*
 * cuda_names.c - the numbers of devices, contexts and streams that the program names through NVTX.
 *
 * A program names a stream by its handle; CUPTI's records number streams. The two are matched when
 * the stream is created, because a handle given with a name may belong to a stream that no longer
 * exists, and the driver must not be asked about such a stream. All contexts share the handles of
 * the default streams, so for those the current context decides.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "inject/bind.h"
#include "inject/cuda.h"
#include "schema/schema.h"

/* A program may make any number of streams: look-ups stay within PROBES places, and a stream that
 * finds no place there gets no number. */
enum { KNOWN = 4096, PROBES = 64, GONE = 3, LAST_DEFAULT = 2 };

static struct known {
	_Atomic uint64_t handle; /* 0 free, GONE was used */
	struct ws_cuda_numbers numbers;
} known[KNOWN];

static struct known *find_name_slot(uint64_t handle)
{
	uint32_t at = (uint32_t)(handle * UINT64_C(0x9e3779b97f4a7c15) >> 52);

	for (uint32_t i = 0; i < PROBES; i++) {
		struct known *known_k = &known[(at + i) % KNOWN];
		uint64_t there = atomic_load_explicit(&known_k->handle, memory_order_acquire);

		if (there == handle)
			return known_k;
		if (!there)
			return NULL;
	}
	return NULL;
}

static void remember_name(uint64_t handle, struct ws_cuda_numbers numbers)
{
	uint32_t at = (uint32_t)(handle * UINT64_C(0x9e3779b97f4a7c15) >> 52);

	for (uint32_t i = 0; i < PROBES; i++) {
		struct known *known_k = &known[(at + i) % KNOWN];
		uint64_t there = atomic_load_explicit(&known_k->handle, memory_order_relaxed);

		if ((there == 0 || there == GONE) &&
		    atomic_compare_exchange_strong(&known_k->handle, &there, UINT64_MAX)) {
			known_k->numbers = numbers;
			atomic_store_explicit(&known_k->handle, handle, memory_order_release);
			return;
		}
	}
}

static void forget_name(uint64_t handle)
{
	struct known *known = find_name_slot(handle);

	if (known)
		atomic_store_explicit(&known->handle, GONE, memory_order_release);
}

static struct ws_cuda_numbers read_context_numbers(void *context)
{
	struct ws_cuda_numbers numbers = WS_CUDA_NO_NUMBERS;
	uint32_t id;

	if (context && ws_cupti.GetContextId && !ws_cupti.GetContextId(context, &id))
		numbers.context = id;
	if (context && ws_cupti.GetDeviceId && !ws_cupti.GetDeviceId(context, &id))
		numbers.device = id;
	return numbers;
}

static struct ws_cuda_numbers read_stream_numbers(void *context, void *stream)
{
	struct ws_cuda_numbers numbers = read_context_numbers(context);
	uint32_t id;

	if (context && ws_cupti.GetStreamIdEx && !ws_cupti.GetStreamIdEx(context, stream, 0, &id))
		numbers.stream = id;
	return numbers;
}

void ws_cuda_note_resource(uint32_t cbid, const struct cupti_resource *res)
{
	switch (cbid) {
	case CUPTI_RESOURCE_CONTEXT_CREATED:
		remember_name((uint64_t)(uintptr_t)res->context,
			      read_context_numbers(res->context));
		break;
	case CUPTI_RESOURCE_CONTEXT_DESTROY_STARTING:
		forget_name((uint64_t)(uintptr_t)res->context);
		break;
	case CUPTI_RESOURCE_STREAM_CREATED:
		if ((uint64_t)(uintptr_t)res->handle > LAST_DEFAULT)
			remember_name((uint64_t)(uintptr_t)res->handle,
				      read_stream_numbers(res->context, res->handle));
		break;
	default:
		forget_name((uint64_t)(uintptr_t)res->handle);
	}
}

static void *read_current_context(void)
{
	void *(*open_lib)(const char *, int) = ws_find_symbol("dlopen");
	void *lib = open_lib ? open_lib("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL,
	     *context = NULL;
	int (*current)(void **) = lib ? ws_cuda_find_symbol(lib, "cuCtxGetCurrent") : NULL;

	return current && !current(&context) ? context : NULL;
}

void ws_cuda_find_name_functions(uint32_t type, uint64_t handle, struct ws_cuda_numbers *out)
{
	bool stream = type == WS_NVTX_CU_STREAM || type == WS_NVTX_RT_STREAM;
	const struct known *known =
		stream || type == WS_NVTX_CU_CONTEXT ? find_name_slot(handle) : NULL;

	if (ws_cuda_reset_after_fork())
		return;
	if (type == WS_NVTX_CU_DEVICE || type == WS_NVTX_RT_DEVICE)
		out->device = (uint32_t)handle;
	else if (known && handle > GONE)
		*out = known->numbers;
	else if (stream && handle <= LAST_DEFAULT)
		*out = read_stream_numbers(read_current_context(), (void *)(uintptr_t)handle);
}
