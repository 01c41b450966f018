/*
 * cuda_host.c - functions of the program that CUDA is to call on the CPU: cudaLaunchHostFunc,
 * cudaStreamAddCallback, host nodes of graphs. Records which function was handed to which stream or
 * graph, by which call.
 *
 * CUPTI (before 13.1) does not say when such a function ran. To find out, we would have to replace
 * the program's function with one of ours. CUPTI does not allow that in the arguments that a
 * callback sees, and the calls themselves cannot be interposed in programs that link the runtime
 * statically. So the arguments are only read.
 */
#include <string.h>

#include "inject/cuda.h"
#include "ring/cuda_record.h"
#include "inject/stack.h"

enum what { NOTHING = 0, INTO_STREAM, INTO_GRAPH };

static const struct {
	const char *name;
	uint8_t what;
} calls[] = {
	{"cudaLaunchHostFunc", INTO_STREAM},  {"cudaStreamAddCallback", INTO_STREAM},
	{"cudaGraphAddHostNode", INTO_GRAPH}, {"cuLaunchHostFunc", INTO_STREAM},
	{"cuStreamAddCallback", INTO_STREAM}, {"cuGraphAddHostNode", INTO_GRAPH},
};

static uint8_t what_of[2][WS_CUDA_CBIDS]; /* runtime, driver */
static uint8_t per_thread[2][WS_CUDA_CBIDS / 8];

/* A name followed by nothing but _ptsz and the version of the runtime (_v10000): a _v2 may have
 * other arguments. */
static bool is_name_of_call(const char *name, const char *call)
{
	size_t n = strlen(call);

	if (strncmp(name, call, n))
		return false;
	name += n;
	if (!strncmp(name, "_ptsz", 5))
		name += 5;
	return !*name || (!strncmp(name, "_v", 2) && strlen(name) >= 6);
}

void ws_cuda_find_host_calls(int driver, uint32_t cbid, const char *name)
{
	if (cbid >= WS_CUDA_CBIDS)
		return;
	for (size_t i = 0; i < WS_COUNT(calls); i++) {
		if (!is_name_of_call(name, calls[i].name))
			continue;
		what_of[driver][cbid] = calls[i].what;
		if (strstr(name, "_ptsz"))
			per_thread[driver][cbid / 8] |= (uint8_t)(1 << cbid % 8);
	}
}

bool ws_cuda_wants_host_call(int driver, uint32_t cbid)
{
	return cbid < WS_CUDA_CBIDS && what_of[driver][cbid];
}

/* Read the function and its target from the call's arguments; false when there are none. The
 * arguments are words, in the order of the declaration. */
static bool read_arguments(int driver, uint32_t cbid, const struct cupti_callback *callback,
			   struct ws_rec_cuda_host *record)
{
	const uint64_t *p = callback->params;

	if (what_of[driver][cbid] == INTO_STREAM) {
		bool of_thread = per_thread[driver][cbid / 8] >> cbid % 8 & 1;

		record->function = p[1];
		if (!ws_cupti.GetStreamIdEx ||
		    ws_cupti.GetStreamIdEx(callback->context, (void *)(uintptr_t)p[0], of_thread,
					   &record->stream))
			record->stream = UINT32_MAX;
	} else {
		void *const *node = (void *const *)(uintptr_t)p[0];
		const uint64_t *function =
			(const uint64_t *)(uintptr_t)p[4]; /* the argument it is called with */

		if (!node || !function)
			return false;
		record->function = *function;
		if (p[1] && ws_cupti.GetGraphId &&
		    ws_cupti.GetGraphId((void *)(uintptr_t)p[1], &record->graph))
			record->graph = 0;
		if (*node && ws_cupti.GetGraphNodeId &&
		    ws_cupti.GetGraphNodeId(*node, &record->node))
			record->node = 0;
	}
	return record->function != 0;
}

static void write_host(int driver, uint32_t cbid, const struct cupti_callback *callback)
{
	struct ws_rec_cuda_host host = {.stream = UINT32_MAX, .correlation = callback->correlation},
				*record;
	uint32_t context = 0;
	struct ws_thread *thread;

	if (!read_arguments(driver, cbid, callback, &host))
		return;
	if (ws_cupti.GetContextId && callback->context &&
	    ws_cupti.GetContextId(callback->context, &context))
		context = 0;
	thread = ws_rt_enter();
	if (!thread)
		return;
	ws_rt_write_maps(thread);
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_CUDA);
	if (record) {
		*record = host;
		record->rec = ws_rec_head(WS_REC_CUDA_HOST, sizeof(*record), 0, context);
		record->time = ws_read_raw_ns();
		ws_rt_commit(thread, record, sizeof(*record));
	}
	ws_rt_leave(thread);
}

void ws_cuda_record_host_call(int driver, uint32_t cbid, const struct cupti_callback *callback)
{
	struct ws_cuda_open *open = &ws_cuda_open;

	if (callback->site == CUPTI_SITE_ENTER) {
		open->hosts++;
		return;
	}
	/* A driver call inside a runtime call implements that call, with a function of the
	 * runtime's own. */
	if (!open->hosts || --open->hosts || !ws_rt_is_collecting() || !callback->params ||
	    (callback->result && *(const int *)callback->result))
		return;
	write_host(driver, cbid, callback);
}
