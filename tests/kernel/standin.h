/*
 * standin.h - a stand-in for the CUDA driver and CUPTI for what the kernel hook does, on machines
 * without a GPU: memory of the device is memory of the process, kernels are functions of the test's
 * program that run at once. STANDIN_FAULT in the environment makes it fail in a chosen way:
 *
 *   permission   counters are for administrators
 *   busy         another tool has the counters
 *   thirdpass    the third pass does not begin
 *   nomemory     the device has no memory left but what the program has allocated
 *   old          CUPTI has no range profiler
 *   taken        another tool has subscribed
 *   nosampling   program counters cannot be sampled
 *   slow         a kernel of the program takes so long that it is run no more often than necessary
 *   unattributed samples of program counters belong to no known function
 *   nocache      the driver does not empty the level-2 cache
 *   largecache   the level-2 cache holds all memory of the program and a copy of it
 *   kineto       the program has asked CUPTI for records itself
 *   silent       CUPTI looks at no call: what the hook itself costs can be measured
 *   versions     cuGetProcAddress gives another cuLaunchKernel than the symbol
 *
 * STANDIN_END names a file that says when CUPTI was left. STANDIN_SAMPLES names a file of samples
 * of program counters (standin_samples.h), STANDIN_AWAIT one that must be there before counters
 * are measured, STANDIN_BUS the PCI device that stands for the GPU.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <stddef.h>
#include <stdint.h>

#define STANDIN_EXPORT __attribute__((visibility("default")))

struct standin_kernel {
	const char *symbol;
	void (*run)(void **arguments);
	const size_t *sizes; /* of the arguments, ended by 0 */
};

enum { STANDIN_PASSES = 4 };

/* What the program under test calls; each launch is a call of the driver with callbacks. */
STANDIN_EXPORT int cuInit(unsigned flags);
STANDIN_EXPORT int cuMemAlloc_v2(uint64_t *out, size_t bytes);
STANDIN_EXPORT int cuMemFree_v2(uint64_t address);
/* An address without memory behind it, as allocations in a graph that is captured have. */
STANDIN_EXPORT int standin_allocate_nothing(void);
STANDIN_EXPORT int cuMemAllocHost_v2(void **out, size_t bytes);
STANDIN_EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz,
				  unsigned bx, unsigned by, unsigned bz, unsigned shared,
				  void *stream, void **arguments, void **extra);
/* A graph is a list of kernels without arguments, ended by NULL. */
STANDIN_EXPORT int cuGraphLaunch(void *graph, void *stream);
/* The executable graph is the list itself. A kernel called (set) is a node that sets memory, one
 * called (host) calls the host. */
STANDIN_EXPORT int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
/* What the node (set) sets. */
STANDIN_EXPORT extern uint64_t standin_set_at;
STANDIN_EXPORT extern unsigned standin_set_value;
STANDIN_EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream);
STANDIN_EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream);
STANDIN_EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream);
STANDIN_EXPORT int cuMemsetD32Async(uint64_t at, unsigned value, size_t count, void *stream);
STANDIN_EXPORT int cuStreamSynchronize(void *stream);
/* Attribute n of a function is 10 n, and stays so. */
STANDIN_EXPORT int cuFuncSetAttribute(void *function, int which, int value);
/* An event holds how often it was recorded. */
STANDIN_EXPORT int cuEventCreate(void **event, unsigned flags);
STANDIN_EXPORT int cuEventRecord(void *event, void *stream);
STANDIN_EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
/* Of the launches, the functions that allocate and those that copy. */
STANDIN_EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version,
				       uint64_t flags, int *found);
STANDIN_EXPORT int cuModuleUnload(void *module);
STANDIN_EXPORT int cuProfilerStart(void);
STANDIN_EXPORT int cuProfilerStop(void);
/* The stream of that number is being captured: what is launched into it does not run. */
STANDIN_EXPORT void standin_capture(void *stream);
/* A module with the variable `counter`, whose memory is `bytes` at `address`. */
STANDIN_EXPORT void standin_global(void *address, size_t bytes);

/* Load the cubin in this file, of at most 64 KiB. */
STANDIN_EXPORT void standin_load(const char *path);

/* Between the two: CUPTI's part of a call. */
struct standin_call {
	uint32_t cbid;
	const char *name;
	const void *params;
	const char *symbol;
};
STANDIN_EXPORT extern void (*standin_callback)(int site, const struct standin_call *call);
/* A kernel of the program, or else one of the hook's, runs. */
STANDIN_EXPORT extern void (*standin_launched)(int program);
STANDIN_EXPORT extern void (*standin_module)(const char *cubin, size_t bytes);
STANDIN_EXPORT extern unsigned standin_passes; /* that CUPTI has begun */
STANDIN_EXPORT extern unsigned standin_used;   /* how often its profiler was initialised */
STANDIN_EXPORT extern unsigned standin_told;   /* launches that it told of */
STANDIN_EXPORT extern unsigned standin_runs;   /* kernels of the program that have run */
STANDIN_EXPORT int standin_fault(const char *name);
/* Add a line to the file that STANDIN_CACHE names. */
STANDIN_EXPORT void standin_note_step(const char *word);

enum {
	CBID_LAUNCH = 307,
	CBID_LAUNCH_GRAPH = 514,
	CBID_ALLOCATE = 243,
	CBID_FREE = 245,
	CBID_ALLOCATE_HOST = 244,
	CBID_PROFILER_START = 308,
	CBID_PROFILER_STOP = 309,
	CBID_COPY = 400,
	CBID_SEND = 401,
	CBID_FETCH = 402,
	CBID_SET = 403,
	CBID_WAIT = 404,
	CBID_EVENT_CREATE = 405,
	CBID_EVENT_RECORD = 406,
	CBID_EVENT_AWAIT = 407,
	CBID_INSTANTIATE = 408,
	CBID_LAUNCH_EX = 409,
	CBID_SET_ATTRIBUTE = 410,
	CBID_DEVICE_NAME = 411
};

#endif
