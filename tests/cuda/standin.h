/*
 * standin.h - a stand-in for the CUDA driver and CUPTI, for machines without a GPU.
 *
 * libcuda.so.1 (standin_cuda.c) loads the injection as the driver does and has a few calls for "work"; libcupti.so.13
 * (standin_cupti.c) records them in CUPTI's layouts, or replays records taken from a real GPU. STANDIN_FAULT in the environment
 * makes it fail in a chosen way:
 *
 *   version12       records and version of CUPTI 12.4, no choice of single calls
 *   toonew          a version newer than the driver
 *   taken           another subscriber is there
 *   refuse          subscribing fails
 *   hang            flushing never returns
 *   notimes         kernels without timestamps
 *   unordered       records in reverse order
 *   dropped         42 records are reported as dropped
 *   unfinished      the last record of each buffer stays incomplete, so that the buffer is not handed over
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <stdint.h>

#define STANDIN_EXPORT __attribute__((visibility("default")))

/* Calls of the driver's stand-in that programs under test make. Each is an API call with a callback name. */
STANDIN_EXPORT int cuInit(unsigned flags);
STANDIN_EXPORT int cuDriverGetVersion(int *version);
STANDIN_EXPORT int standin_launch(const char *kernel, int stream, int graph);	  /* cudaLaunchKernel */
STANDIN_EXPORT int standin_launch_driver(const char *kernel, int stream);	  /* cuLaunchKernel */
STANDIN_EXPORT int standin_copy(int kind, uint64_t bytes, int stream);		  /* cudaMemcpyAsync */
STANDIN_EXPORT int standin_set(uint64_t bytes, int stream);			  /* cudaMemsetAsync */
STANDIN_EXPORT int standin_query(int stream);					  /* cudaStreamQuery: not traced by default */
STANDIN_EXPORT int standin_wait(int stream);					  /* cudaStreamSynchronize */
STANDIN_EXPORT int standin_event(uint64_t event, int stream);			  /* cudaEventRecord */
STANDIN_EXPORT int standin_wait_event(uint64_t event, int stream);		  /* cudaStreamWaitEvent */
STANDIN_EXPORT int standin_allocate(uint64_t address, uint64_t bytes, int freed); /* cudaMalloc, cudaFree */
STANDIN_EXPORT int standin_fail(void);						  /* cudaMalloc that returns 2 */
STANDIN_EXPORT int standin_reset(void);						  /* cudaDeviceReset */
STANDIN_EXPORT int standin_graph(void);						  /* cudaGraphInstantiate with two nodes */
STANDIN_EXPORT int standin_stream(int stream, int priority);			  /* cudaStreamCreateWithPriority */
STANDIN_EXPORT int standin_replay(const char *file);				  /* records from a file, see standin_cupti.c */

/* Between the two stand-ins: libcupti's part of a call, set when it is loaded. */
struct standin_hooks {
	void (*call)(int domain, uint32_t cbid, const char *name, uint64_t start, uint64_t end, uint32_t correlation, int result);
	void (*enter)(int domain, uint32_t cbid, const char *name, uint32_t correlation);
	void (*record)(const void *record, uint32_t bytes);
	void (*resource)(uint32_t cbid, void *context, void *descriptor);
	void (*params)(const void *params); /* of the thread's next call */
	uint64_t (*now)(void);
	int (*replay)(const char *file);
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
	RT_PROFILER_STOP = 172,
	RT_EVENT = 135,
	RT_WAIT_EVENT = 147,
	DR_LAUNCH = 307,
	DR_INIT = 1
};

#endif
