/*
 * standin.h - a stand-in for the CUDA driver and CUPTI, for machines without a GPU.
 *
 * libcuda.so.1 (standin_cuda.c) loads the injection as the driver does and has a few calls for
 * "work"; libcupti.so.13 (standin_cupti.c) records them in CUPTI's layouts, or replays records
 * taken from a real GPU. STANDIN_FAULT in the environment makes it fail in a chosen way:
 *
 *   version12       records and version of CUPTI 12.4, no choice of single calls
 *   toonew          a version newer than the driver
 *   taken           another subscriber is there
 *   refuse          subscribing fails
 *   hang            flushing never returns
 *   notimes         kernels without timestamps
 *   unordered       records in reverse order
 *   dropped         42 records are reported as dropped
 *   older           a version older than CUDA 12
 *   nojit, nosets   recording of run-time compilation, or of memory sets, is refused
 *   nomanaged       so is that of unified memory
 *   future          records are longer than those known, and some are of a kind that is not
 *   contextgone     a context is destroyed while CUPTI flushes
 *   unfinished      the last record of each buffer stays incomplete, so that the buffer is not
 * handed over
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <stdint.h>

#define STANDIN_EXPORT __attribute__((visibility("default")))

/* Calls of the driver's stand-in that programs under test make. Each is an API call with a callback
 * name. */
STANDIN_EXPORT int cuInit(unsigned flags);
STANDIN_EXPORT int cuDriverGetVersion(int *version);
STANDIN_EXPORT int standin_launch(const char *kernel, int stream, int graph); /* cudaLaunchKernel */
STANDIN_EXPORT int standin_launch_untraced(
	const char *kernel, int stream); /* cuLaunchKernel inside of cudaFuncGetAttributes */
STANDIN_EXPORT int standin_launch_driver(const char *kernel, int stream); /* cuLaunchKernel */
STANDIN_EXPORT int standin_copy(int kind, uint64_t bytes, int stream);	  /* cudaMemcpyAsync */
STANDIN_EXPORT int standin_set(uint64_t bytes, int stream);		  /* cudaMemsetAsync */
STANDIN_EXPORT int standin_query(int stream); /* cudaStreamQuery: not traced by default */
STANDIN_EXPORT int standin_wait(int stream);  /* cudaStreamSynchronize */
STANDIN_EXPORT int standin_event(uint64_t event, int stream);	   /* cudaEventRecord */
STANDIN_EXPORT int standin_wait_event(uint64_t event, int stream); /* cudaStreamWaitEvent */
STANDIN_EXPORT int standin_allocate(uint64_t address, uint64_t bytes,
				    int freed); /* cudaMalloc, cudaFree */
STANDIN_EXPORT int standin_fail(void);		/* cudaMalloc that returns 2 */
STANDIN_EXPORT int standin_reset(void);		/* cudaDeviceReset */
STANDIN_EXPORT int standin_graph_launch(const char *kernel, int nodes); /* cudaGraphLaunch */
STANDIN_EXPORT int standin_host(void (*fn)(void *), int stream);	/* cudaLaunchHostFunc */
STANDIN_EXPORT int standin_host_node(void (*fn)(void *));		/* cuGraphAddHostNode */
STANDIN_EXPORT void standin_run(
	void (*fn)(void *)); /* on a thread of the driver's, which holds CUPTI's lock meanwhile */
STANDIN_EXPORT int standin_unified(
	uint64_t pc); /* records of unified memory: a fault at that instruction, and traffic */
STANDIN_EXPORT void standin_correlation(uint32_t next); /* what the next call has */
STANDIN_EXPORT int standin_graph(void);			/* cudaGraphInstantiate with two nodes */
STANDIN_EXPORT int standin_stream(int stream, int priority); /* cudaStreamCreateWithPriority */
/* As a program that has the runtime linked in calls them: cudaProfilerStart, cudaProfilerStop. */
STANDIN_EXPORT int standin_profiler(int on);
STANDIN_EXPORT int cudaProfilerStart(void); /* the same by their symbols */
STANDIN_EXPORT int cudaProfilerStop(void);
/* Has cuProfilerStart and cuProfilerStop, which have no symbols. */
STANDIN_EXPORT int cuGetProcAddress_v2(const char *name, void **entry, int version, uint64_t flags,
				       int *status);
/* Kernels run so many ns after their launch, which returns at once. */
STANDIN_EXPORT void standin_delay(uint64_t ns);
/* Record what there is already of a kind: devices, contexts, streams. */
STANDIN_EXPORT void standin_dump(uint32_t kind);
/* How many calls CUPTI would record now, and at how many it would call back. */
STANDIN_EXPORT void standin_count(int *records, int *callbacks);
STANDIN_EXPORT int standin_replay(const char *file); /* records from a file, see standin_cupti.c */

/* Between the two stand-ins: libcupti's part of a call, set when it is loaded. */
struct standin_hooks {
	void (*call)(int domain, uint32_t cbid, const char *name, uint64_t start, uint64_t end,
		     uint32_t correlation, int result);
	void (*enter)(int domain, uint32_t cbid, const char *name, uint32_t correlation);
	void (*record)(const void *record, uint32_t bytes);
	void (*resource)(uint32_t cbid, void *context, void *descriptor);
	void (*params)(const void *params); /* of the thread's next call */
	void (*symbol)(const char *name);   /* of the kernel that the thread launches next */
	uint64_t (*now)(void);
	int (*replay)(const char *file);
	void (*run)(void (*fn)(void *));
	void (*count)(int *records, int *callbacks);
	int (*subscribed)(void);
	int (*whole_graphs)(void); /* graphs are recorded as a whole */
};
STANDIN_EXPORT extern struct standin_hooks standin_hooks;
STANDIN_EXPORT int standin_fault(const char *name);

/* Callback ids of the stand-in's calls: runtime, driver. */
enum {
	RT_LAUNCH = 211,
	RT_MEMCPY_ASYNC = 41,
	RT_MEMSET_ASYNC = 51,
	RT_QUERY = 132,
	RT_SYNC = 131,
	RT_MALLOC = 20,
	RT_FREE = 22,
	RT_RESET = 164,
	RT_INSTANTIATE = 443,
	RT_STREAM = 202,
	RT_PROFILER_START = 171,
	RT_PROFILER_STOP = 172,
	RT_EVENT = 135,
	RT_WAIT_EVENT = 147,
	RT_FUNC_ATTRIBUTES = 15,
	RT_GRAPH_LAUNCH = 311,
	RT_HOST = 325,
	DR_HOST = 527,
	DR_HOST_NODE = 530,
	DR_LAUNCH = 307,
	DR_PROFILER_START = 308,
	DR_PROFILER_STOP = 309,
	DR_INIT = 1
};

#endif
