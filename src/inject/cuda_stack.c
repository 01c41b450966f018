/*
 * cuda_stack.c - the stacks of CUDA calls (--cudabacktrace): sets callbacks at the calls of the
 * requested classes and copies the stack when a call lasted long enough.
 *
 * The call itself is recorded by CUPTI; its correlation ties the two together. A driver call inside
 * a runtime call is part of that call's implementation.
 */
#include <string.h>

#include "inject/cuda.h"
#include "inject/stack.h"
#include "inject/traced.h"

enum { CBIDS = 2048 };
static uint8_t class_of[2][CBIDS]; /* runtime, driver: enum ws_cuda_calls + 1; 0: not of a requested
				      class */

static enum ws_cuda_calls classify_call(const char *name)
{
	static const char *const kernel[] = {"Launch", NULL},
				 *const sync[] = {"Synchronize", "StreamWait", "WaitEvent",
						  "WaitExternal", NULL},
				 *const memory[] = {
					 "Memcpy",	   "Memset", "Malloc",	  "Free",
					 "MemAlloc",	   "Mem",    "HostAlloc", "HostRegister",
					 "HostUnregister", "Array",  NULL};
	static const char *const *const lists[] = {kernel, sync, memory};
	static const enum ws_cuda_calls classes[] = {WS_CALLS_KERNEL, WS_CALLS_SYNC,
						     WS_CALLS_MEMORY};

	for (unsigned l = 0; l < WS_COUNT(lists); l++)
		for (const char *const *w = lists[l]; *w; w++)
			if (strstr(name, *w))
				return classes[l];
	return WS_CALLS_OTHER;
}

void ws_cuda_find_stack_call(int driver, uint32_t cbid, const char *name)
{
	enum ws_cuda_calls calls = classify_call(name);

	if (cbid < CBIDS && ws_rt->arena->stacks.cuda_threshold[calls] != UINT64_MAX)
		class_of[driver][cbid] = (uint8_t)(calls + 1);
}

void ws_cuda_forget_stack_calls(void)
{
	memset(class_of, 0, sizeof(class_of));
}

bool ws_cuda_wants_stack(int driver, uint32_t cbid)
{
	return cbid < CBIDS && class_of[driver][cbid] &&
	       ws_cuda_is_api_wanted(driver ? CUPTI_KIND_DRIVER : CUPTI_KIND_RUNTIME, cbid);
}

void ws_cuda_record_stack(int driver, uint32_t cbid, const struct cupti_callback *callback)
{
	const struct ws_stack_settings *settings = &ws_rt->arena->stacks;
	struct ws_cuda_open *open = &ws_cuda_open;
	uint32_t now = (uint32_t)(ws_read_raw_ns() >> 10);
	struct ws_thread *thread;

	if (callback->site == CUPTI_SITE_ENTER) {
		if (!open->stacks++)
			open->stack_start = now;
		return;
	}
	if (!open->stacks || --open->stacks || !ws_rt_is_collecting() ||
	    (uint64_t)(now - open->stack_start) << 10 <
		    settings->cuda_threshold[class_of[driver][cbid] - 1])
		return;
	if (ws_stack_hook && ws_stack_hook(callback->correlation, settings->cuda_bytes))
		return;
	thread = ws_rt_enter();
	if (!thread)
		return;
	ws_rt_write_stack(thread, WS_STACK_OF_CUDA, callback->correlation, settings->cuda_bytes);
	ws_rt_leave(thread);
}
