/*
 * kernel.h - what the parts of the kernel hook share; private to inject/.
 *
 * The hook is loaded by the driver (CUDA_INJECTION64_PATH) into programs whose kernels are to be
 * measured. It is called back when a kernel is launched, decides whether that launch is wanted, and
 * if so runs the kernel once for each pass that its metrics need, each time on the same memory
 * contents, before it lets the program's own launch proceed. CUPTI only counts: saving and
 * restoring memory and the state of the caches are done here, because CUPTI's own replay leaves the
 * memory that it copied in the level-2 cache.
 *
 * kernel.c           starts and stops; callbacks; which launches there are
 * kernel_direct.c    or calls are seen without CUPTI
 * kernel_filter.c    which of them are wanted
 * kernel_nvtx.c      NVTX ranges around a launch, and filters by them
 * kernel_name.c      names of functions as people write them
 * kernel_driver.c    the driver's functions
 * kernel_copy.c      copies of launches
 * kernel_memory.c    what memory there is that a kernel may write
 * kernel_globals.c   variables of modules among it
 * kernel_save.c      saves it, finds what a kernel changed, restores that
 * kernel_cache.c     has the driver empty the level-2 cache
 * kernel_counters.c  CUPTI's range profiler
 * kernel_turns.c     measuring and the calls of other threads take turns
 * kernel_measure.c   one launch, pass by pass
 * kernel_shared.c    how the driver divides the cache for a kernel
 * kernel_batch.c     several launches, pass by pass
 * kernel_versions.c  memory before each of them
 * kernel_runs.c      one pass in each run of the program
 * kernel_ranges.c    ranges of the program as units
 * kernel_graph.c     nodes of graphs
 * kernel_repeat.c    ranges that are repeated within one run
 * kernel_calls.c     their calls
 * kernel_record.c    the records of what was measured
 * kernel_links.c     how the GPU is linked to others
 * kernel_keep.c      the counters themselves, in files
 * kernel_source.h    what single instructions do, and the code that they belong to
 *
 * Unlike the other hooks this one allocates: it runs inside calls of the driver, which also
 * allocate, and only while a kernel is being measured.
 */
#ifndef WS_KERNEL_H
#define WS_KERNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/choose.h"
#include "inject/cuda.h"
#include "inject/rt.h"
#include "ring/cupti_profiler_abi.h"
#include "ring/kernel_record.h"
#include "schema/kernel_image.h"
#include "schema/kernel_sampled.h"
#include "schema/schema.h"

typedef uint64_t ws_device_address;

/* ---- kernel_driver.c ---- */

/* X(needed, member, function, arguments); all return a CUresult. */
#define WS_KERNEL_DRIVER(X)                                                                        \
	X(1, synchronize, cuCtxSynchronize, (void))                                                \
	X(1, get_device, cuCtxGetDevice, (int *device))                                            \
	X(0, get_context, cuCtxGetCurrent, (void **context))                                       \
	X(0, push_context, cuCtxPushCurrent_v2, (void *context))                                   \
	X(0, pop_context, cuCtxPopCurrent_v2, (void **context))                                    \
	X(1, wait_stream, cuStreamSynchronize, (void *stream))                                     \
	X(1, is_capturing, cuStreamIsCapturing, (void *stream, int *status))                       \
	X(1, exchange_mode, cuThreadExchangeStreamCaptureMode, (int *mode))                        \
	X(1, allocate, cuMemAlloc_v2, (ws_device_address * out, size_t bytes))                     \
	X(1, release, cuMemFree_v2, (ws_device_address address))                                   \
	X(1, get_free, cuMemGetInfo_v2, (size_t * free, size_t * total))                           \
	X(1, get_range, cuMemGetAddressRange_v2,                                                   \
	  (ws_device_address * base, size_t * bytes, ws_device_address address))                   \
	X(1, copy, cuMemcpyDtoDAsync_v2,                                                           \
	  (ws_device_address to, ws_device_address from, size_t bytes, void *stream))              \
	X(1, copy_to_host, cuMemcpyDtoHAsync_v2,                                                   \
	  (void *to, ws_device_address from, size_t bytes, void *stream))                          \
	X(1, copy_from_host, cuMemcpyHtoDAsync_v2,                                                 \
	  (ws_device_address to, const void *from, size_t bytes, void *stream))                    \
	X(1, set, cuMemsetD8Async,                                                                 \
	  (ws_device_address at, unsigned char value, size_t bytes, void *stream))                 \
	X(0, set_16, cuMemsetD16Async,                                                             \
	  (ws_device_address at, unsigned short value, size_t count, void *stream))                \
	X(0, set_32, cuMemsetD32Async,                                                             \
	  (ws_device_address at, unsigned value, size_t count, void *stream))                      \
	X(0, create_event, cuEventCreate, (void **event, unsigned flags))                          \
	X(0, destroy_event, cuEventDestroy_v2, (void *event))                                      \
	X(0, record_event, cuEventRecord, (void *event, void *stream))                             \
	X(0, await_event, cuStreamWaitEvent, (void *stream, void *event, unsigned flags))          \
	X(0, wait_event, cuEventSynchronize, (void *event))                                        \
	X(1, load_module, cuModuleLoadData, (void **module, const void *image))                    \
	X(1, unload_module, cuModuleUnload, (void *module))                                        \
	X(1, get_function, cuModuleGetFunction, (void **function, void *module, const char *name)) \
	X(1, get_attribute, cuFuncGetAttribute, (int *value, int which, void *function))           \
	X(0, load_function, cuFuncLoad, (void *function))                                          \
	X(0, get_kernel_function, cuKernelGetFunction, (void **function, void *kernel))            \
	X(0, get_module, cuFuncGetModule, (void **module, void *function))                         \
	X(0, get_global, cuModuleGetGlobal_v2,                                                     \
	  (ws_device_address * address, size_t * bytes, void *module, const char *name))           \
	X(0, get_parameter, cuFuncGetParamInfo,                                                    \
	  (void *function, size_t index, size_t *offset, size_t *bytes))                           \
	X(1, device_attribute, cuDeviceGetAttribute, (int *value, int which, int device))          \
	X(1, device_name, cuDeviceGetName, (char *name, int bytes, int device))                    \
	X(0, device_memory, cuDeviceTotalMem_v2, (size_t * bytes, int device))                     \
	X(0, device_uuid, cuDeviceGetUuid_v2, (unsigned char uuid[16], int device))                \
	X(0, device_bus, cuDeviceGetPCIBusId, (char *text, int bytes, int device))                 \
	X(1, launch, cuLaunchKernel,                                                               \
	  (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,        \
	   unsigned bz, unsigned shared, void *stream, void **arguments, void **extra))            \
	X(0, launch_ptsz, cuLaunchKernel_ptsz,                                                     \
	  (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,        \
	   unsigned bz, unsigned shared, void *stream, void **arguments, void **extra))            \
	X(0, launch_ex, cuLaunchKernelEx,                                                          \
	  (const void *config, void *function, void **arguments, void **extra))                    \
	X(0, launch_ex_ptsz, cuLaunchKernelEx_ptsz,                                                \
	  (const void *config, void *function, void **arguments, void **extra))                    \
	X(0, launch_cooperative, cuLaunchCooperativeKernel,                                        \
	  (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,        \
	   unsigned bz, unsigned shared, void *stream, void **arguments))                          \
	X(0, launch_cooperative_ptsz, cuLaunchCooperativeKernel_ptsz,                              \
	  (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,        \
	   unsigned bz, unsigned shared, void *stream, void **arguments))                          \
	X(0, name_function, cuFuncGetName, (const char **name, void *function))                    \
	X(0, name_kernel, cuKernelGetName, (const char **name, void *kernel))                      \
	X(0, list_nodes, cuGraphGetNodes, (void *graph, void **nodes, size_t *count))              \
	X(0, list_edges, cuGraphGetEdges, (void *graph, void **from, void **to, size_t *count))    \
	X(0, list_edges_v2, cuGraphGetEdges_v2,                                                    \
	  (void *graph, void **from, void **to, void *data, size_t *count))                        \
	X(0, type_node, cuGraphNodeGetType, (void *node, int *type))                               \
	X(0, read_kernel_node, cuGraphKernelNodeGetParams_v2, (void *node, void *params))          \
	X(0, read_node_attribute, cuGraphKernelNodeGetAttribute,                                   \
	  (void *node, int which, void *value))                                                    \
	X(0, read_set_node, cuGraphMemsetNodeGetParams, (void *node, void *params))                \
	X(0, read_copy_node, cuGraphMemcpyNodeGetParams, (void *node, void *params))               \
	X(0, read_child, cuGraphChildGraphNodeGetGraph, (void *node, void **graph))                \
	X(0, copy_3d, cuMemcpy3DAsync_v2, (const void *params, void *stream))                      \
	X(0, set_2d_8, cuMemsetD2D8Async,                                                          \
	  (ws_device_address at, size_t pitch, unsigned char value, size_t width, size_t height,   \
	   void *stream))                                                                          \
	X(0, set_2d_16, cuMemsetD2D16Async,                                                        \
	  (ws_device_address at, size_t pitch, unsigned short value, size_t width, size_t height,  \
	   void *stream))                                                                          \
	X(0, set_2d_32, cuMemsetD2D32Async,                                                        \
	  (ws_device_address at, size_t pitch, unsigned value, size_t width, size_t height,        \
	   void *stream))                                                                          \
	X(0, launch_graph, cuGraphLaunch, (void *graph, void *stream))                             \
	X(0, launch_graph_ptsz, cuGraphLaunch_ptsz, (void *graph, void *stream))

struct ws_kernel_driver {
#define X(needed, member, function, arguments) int(*member) arguments;
	WS_KERNEL_DRIVER(X)
#undef X
};
extern struct ws_kernel_driver ws_kernel_driver;
/* False where the driver lacks what is needed. */
bool ws_kernel_bind_driver(void);
/* CUfunction_attribute or CUdevice_attribute; 0 where there is none. */
uint32_t ws_kernel_function_attribute(void *function, int which);
uint32_t ws_kernel_device_attribute(int device, int which);

struct ws_kernel_launch;

/* ---- settings ---- */

struct ws_kernel_settings {
#define X(member, name) const char *member;
	WS_KERNEL_SETTINGS(X)
#undef X
};
extern struct ws_kernel_settings ws_kernel_settings;

void ws_kernel_report(int severity, const char *format, ...) WS_PRINTF(2, 3);

/* While this thread does the hook's work, its calls are not the program's. Returns what was so
 * before. */
bool ws_kernel_set_inside(bool inside);
bool ws_kernel_is_inside(void);
/* Whether copies of memory are kept while the program goes on. */
bool ws_kernel_keeps_memory(void);
/* Whether further launches may be put off beside those that are. */
bool ws_kernel_awaits_more(void);
/* A launch or a range has been measured: end measuring if it was the last one. */
void ws_kernel_finish_unit(void);
/* For cuThreadExchangeStreamCaptureMode: calls that another thread's capture forbids are allowed.
 */
enum { WS_KERNEL_RELAXED = 2 };

/* A lock of our own: a thread that waits sleeps. */
void ws_kernel_lock(_Atomic uint32_t *lock);
void ws_kernel_unlock(_Atomic uint32_t *lock);

/* ---- kernel.c, kernel_direct.c: calls of the program ---- */

enum {
	CALL_LAUNCH = 1,
	CALL_MEMORY = 2,
	CALL_PROFILER_START = 3,
	CALL_PROFILER_STOP = 4,
	CALL_WORK = 5,
	CALL_END = 6,	/* what a launch that was put off needs goes away */
	CALL_SHARE = 7, /* memory that cannot be brought back is made */
	CALL_OTHER = 8, /* of interest only in a range that is recorded */
	CALL_WAIT = 9,	/* waits for the GPU */
	CALL_GRAPH = 10 /* makes or changes an executable graph */
};
/* Of CALL_END: whose attribute it sets. */
enum { NO_ATTRIBUTE, OF_FUNCTION, OF_KERNEL };

/* Why a call is of interest. */
struct ws_kernel_subject {
	uint8_t what, detail; /* what: 0 for a call of no interest */
	bool per_thread;
};
/* Of a call of the driver's or the runtime's, by its name. */
struct ws_kernel_subject ws_kernel_find_subject(bool runtime, const char *name);
void ws_kernel_handle_call(const struct ws_kernel_subject *subject,
			   const struct cupti_callback *callback);
/* Leave CUPTI altogether, outside its callbacks: false if it cannot be left. */
bool ws_kernel_leave_cupti(void);
/* Have it tell of modules again. */
bool ws_kernel_join_cupti(void);
void ws_kernel_ignore_modules(void);

/* Whether calls are seen without CUPTI (--launches driver in the settings, and possible here). */
bool ws_kernel_is_direct(void);
void ws_kernel_prepare_direct(void);
void ws_kernel_begin_direct(void);
/* The program goes on until the next batch, or undisturbed. */
void ws_kernel_rest(void);
void ws_kernel_end_direct(void);
/* CUPTI's callbacks tell the context of a launch. */
void ws_kernel_find_context(struct ws_kernel_launch *launch);
/* The driver's own function, where one was found that stands before it. */
void *ws_kernel_strip(void *function);

/* ---- a launch ---- */

/* CUlaunchConfig and CUlaunchAttribute */
struct ws_launch_attribute {
	uint32_t id, pad;
	union {
		uint32_t cluster[3];
		int32_t cooperative;
		char room[64];
	} value;
};
struct ws_launch_config {
	uint32_t grid[3], block[3], shared;
	void *stream;
	const struct ws_launch_attribute *attributes;
	uint32_t attribute_count;
};
enum { WS_LAUNCH_COOPERATIVE = 2, WS_LAUNCH_CLUSTER = 4, WS_LAUNCH_ATTRIBUTES_MOST = 64 };

struct ws_launch_params { /* of cuLaunchKernel, cuLaunchCooperativeKernel */
	void *function;
	uint32_t grid[3], block[3], shared;
	void *stream, **arguments, **extra;
};
struct ws_launch_ex_params {
	const struct ws_launch_config *config;
	void *function, **arguments, **extra;
};
struct ws_launch_graph_params {
	void *graph, *stream;
};

enum ws_kernel_call {
	WS_KERNEL_NO_CALL,
	WS_KERNEL_LAUNCH,
	WS_KERNEL_LAUNCH_EX,
	WS_KERNEL_LAUNCH_COOPERATIVE,
	WS_KERNEL_LAUNCH_GRAPH,
	WS_KERNEL_RANGE /* all that the program launches in a range */
};

struct ws_kernel_launch {
	enum ws_kernel_call call;
	bool per_thread; /* the default stream is the thread's own */
	bool cooperative;
	const void *params; /* of the driver's call */
	void *function;	    /* or the graph */
	void *stream, *context;
	void **arguments, **extra;
	uint32_t grid[3], block[3], cluster[3], shared;
	uint32_t context_uid, stream_id, correlation, device;
	const char *symbol; /* "" of a graph and of a range */
	const char *range;  /* of a range: its name */
	/* Of a launch that is measured later: the NVTX ranges that were open, and the thread. */
	const char *nvtx;
	uint32_t thread;
	void *owned; /* by a copy */
	void *graph; /* of a node of an executable graph; its node */
	uint64_t graph_node;
	uint64_t number, instance;
};

/* The number of a launch that is about to be made. */
uint64_t ws_kernel_count_launch(void);
/* Measure a node of a graph, or write why it cannot be. */
void ws_kernel_measure_node(struct ws_kernel_launch *launch, const char *why);

/* Fill it in from CUPTI's callback. */
void ws_kernel_read_launch(struct ws_kernel_launch *launch, enum ws_kernel_call call,
			   bool per_thread, const struct cupti_callback *callback);
/* Copy a launch with its arguments. False when it cannot be made again later. */
bool ws_kernel_copy_launch(struct ws_kernel_launch *copy, const struct ws_kernel_launch *launch);
void ws_kernel_free_launch(struct ws_kernel_launch *copy);
/* Launch the same kernel once more. Returns the driver's result. */
int ws_kernel_launch_again(const struct ws_kernel_launch *launch);

/* ---- kernel_name.c ---- */

enum { WS_KERNEL_NAME_ROOM = 4096 };
/* The name with its arguments, and the function's own name; cut where they are too long. */
void ws_kernel_demangle(const char *mangled, char *out, size_t room);
void ws_kernel_short_name(const char *demangled, char *out, size_t room);

/* ---- kernel_filter.c ---- */

/* What is known about a function; the first fields are read without a lock. */
struct ws_kernel_function {
	_Atomic(void *) handle;
	const char *_Atomic symbol; /* CUPTI's, to notice that the handle was used again */
	bool wanted;		    /* by its name */
	_Atomic uint64_t launches;
	_Atomic uint32_t seen; /* in which state of the program's modules */
};

/* -1 with a diagnostic when a setting makes no sense. */
int ws_kernel_prepare_filters(void);
/* The symbol of a function, without CUPTI: asked for once, until modules are unloaded. */
const char *ws_kernel_find_name(void *handle);
void ws_kernel_forget_names(void);
/* The function's entry; NULL when there are too many functions. */
struct ws_kernel_function *ws_kernel_find_function(void *handle, const char *symbol);
/* Whether this launch is to be measured; counts it. */
bool ws_kernel_wants_launch(struct ws_kernel_launch *launch,
			    const struct ws_kernel_function *function);
/* The same for a range as a unit. */
bool ws_kernel_wants_range(const struct ws_kernel_launch *range);
/* Whether no further launch will be measured. */
bool ws_kernel_is_done(void);
/* A launch has been measured: whether that was the last one. */
bool ws_kernel_finish_launch(void);
/* The program ends: say so if nothing was chosen. */
void ws_kernel_say_nothing_chosen(void);
extern _Atomic bool ws_kernel_active; /* between cudaProfilerStart and Stop, or always */

/* ---- kernel_nvtx.c ---- */

/* -1 with a diagnostic when a filter makes no sense. */
int ws_kernel_prepare_ranges(void);
/* Whether the ranges that this thread has open match --nvtx-include and do not match
 * --nvtx-exclude. */
bool ws_kernel_wants_ranges(void);
/* Whether --nvtx-include names a range that this thread has pushed, or that any thread has started;
 * its name. */
bool ws_kernel_is_in_pushed_range(char *name, size_t room);
bool ws_kernel_is_in_started_range(char *name, size_t room);
/* Write them as domain@range/range..., outermost first, without a domain for the default one. */
void ws_kernel_name_ranges(char *out, size_t room);

/* ---- kernel_memory.c, kernel_globals.c ---- */

enum ws_kernel_memory_kind { WS_KERNEL_DEVICE_MEMORY, WS_KERNEL_HOST_MEMORY };
struct ws_kernel_memory {
	ws_device_address base;
	uint64_t bytes;
	enum ws_kernel_memory_kind kind;
	int device;
	bool pointed; /* an argument of the launch points to it */
	bool managed;
};
struct ws_kernel_memories {
	struct ws_kernel_memory *entries;
	size_t count, capacity;
	bool incomplete; /* there was no memory to note some */
};

/* Calls that allocate or free, by their names; 0 for other calls. Whether one frees. */
bool ws_kernel_frees_memory(int call);
/* How much a call allocates on the device; 0 when it does not. */
uint64_t ws_kernel_read_size(int call, const struct cupti_callback *callback);
/* Whether the program has memory of another device, or memory that the host writes to as well. */
bool ws_kernel_shares_memory(int device);
int ws_kernel_find_memory_call(const char *name);
/* Such a call has returned. */
void ws_kernel_note_memory_call(int call, const struct cupti_callback *callback);
void ws_kernel_note_module(const struct cupti_module *module);
/* Whether this thread is loading the hook's own kernels. */
bool ws_kernel_loads_own_code(void);
/* Add the variables of the function's module. */
void ws_kernel_add_globals(struct ws_kernel_memories *memories, void *function);
/* What the launch may write; false when there is no memory for the list. Free `entries`. */
bool ws_kernel_list_memory(const struct ws_kernel_launch *launch,
			   struct ws_kernel_memories *memories);
/* Whether the address is in memory that the program has allocated. */
bool ws_kernel_knows_memory(ws_device_address address);
/* Whether it is there on a device. */
bool ws_kernel_is_device_memory(ws_device_address address);
bool ws_kernel_add_memory(struct ws_kernel_memories *memories,
			  const struct ws_kernel_memory *memory);

/* ---- kernel_save.c ---- */

struct ws_kernel_saved;
/* Save what the launch may write. NULL with a reason in *why. */
struct ws_kernel_saved *ws_kernel_save(const struct ws_kernel_launch *launch, const char **why);
/* Only prepare for flushing the caches. */
struct ws_kernel_saved *ws_kernel_save_nothing(const struct ws_kernel_launch *launch,
					       const char **why);
/* Find what has changed since, in addition to what was found before. False with a reason. */
bool ws_kernel_find_changes(struct ws_kernel_saved *saved, const char **why);
/* Restore everything that was found to have changed. */
bool ws_kernel_restore(struct ws_kernel_saved *saved, const char **why);
void ws_kernel_free_saved(struct ws_kernel_saved *saved);
/* Fill the level-2 cache with data that no kernel uses, and have the driver empty it, if it does;
 * with --cache-control all, empty the caches of instructions as well. */
bool ws_kernel_flush_caches(struct ws_kernel_saved *saved, const char **why);

/* Whether the caches are emptied by a run of the kernel, restoring and ws_kernel_empty_caches, as
 * Nsight Compute does: addresses that the kernel uses have just been translated then. Other memory
 * is read instead where the driver does not empty the cache; for a kernel that takes long
 * (`duration` in ns, 0: not known) that makes no difference, and costs less. */
bool ws_kernel_empties_caches(const struct ws_kernel_saved *saved, uint64_t duration);
/* Have the driver empty the caches: a launch less than ws_kernel_flush_caches. */
void ws_kernel_empty_caches(const struct ws_kernel_saved *saved);
/* Read memory in the order of its addresses: what is in the level-2 cache then is what Nsight
 * Compute leaves there when it saves it. Frees the list. Or all that is saved. */
void ws_kernel_copy_all_in_vain(const struct ws_kernel_saved *saved,
				struct ws_kernel_memories *memories);
void ws_kernel_save_in_vain(const struct ws_kernel_saved *saved);
void ws_kernel_set_flush_stream(struct ws_kernel_saved *saved, void *stream);
/* Launch the comparison of pieces with their copies; the driver's result. */
int ws_kernel_compare_pieces(void **arguments, unsigned pieces, void *stream);

/* ---- kernel_versions.c ---- */

struct ws_kernel_versions;
/* Pieces that a kernel writes. Free `pieces`. */
struct ws_kernel_writes {
	uint32_t *pieces;
	size_t count;
};
/* For the launches of a context; NULL when there is no memory. */
struct ws_kernel_versions *ws_kernel_make_versions(const struct ws_kernel_launch *launch);
/* Keep memory as it is before the launch, when nothing runs. False when it cannot be kept: then the
 * moments before are still there. */
bool ws_kernel_keep_version(struct ws_kernel_versions *versions,
			    const struct ws_kernel_launch *launch);
/* Keep what the launch may write and was not known at the first moment, as it is now. False when
 * that is impossible. */
bool ws_kernel_extend_version(struct ws_kernel_versions *versions,
			      const struct ws_kernel_launch *launch);
/* Keep memory as it is now, to which it returns. */
bool ws_kernel_keep_end(struct ws_kernel_versions *versions);
/* Choose the moment before the launch of that number: 0, or the one after the last chosen. */
void ws_kernel_choose_version(struct ws_kernel_versions *versions, size_t number);
size_t ws_kernel_count_versions(const struct ws_kernel_versions *versions);
/* Bring memory to the chosen moment. */
bool ws_kernel_restore_version(struct ws_kernel_versions *versions, void *stream);
/* Memory is no longer that of the chosen moment here. */
void ws_kernel_mark_written(struct ws_kernel_versions *versions,
			    const struct ws_kernel_writes *writes);
/* Add what differs from the chosen moment. */
bool ws_kernel_find_writes(struct ws_kernel_versions *versions, struct ws_kernel_writes *writes);
/* Bring memory to the last moment; what fails is said. */
void ws_kernel_return_to_end(struct ws_kernel_versions *versions);
bool ws_kernel_flush_versions(struct ws_kernel_versions *versions,
			      const struct ws_kernel_launch *launch, const char **why);
bool ws_kernel_empties_versions(const struct ws_kernel_versions *versions, uint64_t duration);
void ws_kernel_empty_versions(const struct ws_kernel_versions *versions);
/* As ws_kernel_save_in_vain. */
void ws_kernel_save_versions_in_vain(const struct ws_kernel_versions *versions);
void ws_kernel_free_versions(struct ws_kernel_versions *versions);

/* ---- kernel_batch.c ---- */

/* Put a launch that is about to be made off, to be measured together with others. False when it
 * must be measured now. */
bool ws_kernel_put_off(struct ws_kernel_launch *launch);
/* Measure what was put off. */
void ws_kernel_measure_batch(void);
/* A call that takes away what a launch needs is about to be made, or the program ends. */
void ws_kernel_hurry_batch(void);
/* Calls before which that must happen, by their names. */
bool ws_kernel_ends_batch(const char *name);
/* Calls that make memory which cannot be brought back (arrays, memory of other processes): from
 * then on, no launch is put off. */
bool ws_kernel_forbids_batches(const char *name);
void ws_kernel_forbid_batches(void);
bool ws_kernel_forbids_waiting(void);
/* The program is about to allocate so many bytes: copies must not be in its way. */
void ws_kernel_make_room(uint64_t bytes);
/* Measure what has waited for longer, in ns: the program may be killed. When it waits for the GPU,
 * the time to do so is better than when it launches. */
#define WS_KERNEL_RUNNING_MOST UINT64_C(3000000000)
#define WS_KERNEL_WAITING_MOST UINT64_C(250000000)
void ws_kernel_hurry_old_batch(uint64_t age);

/* ---- kernel_counters.c ---- */

/* The state for measuring in one context; kept for the next launch in it. */
struct ws_kernel_counters;
/* NULL with a reason in *why, which includes a remedy. */
struct ws_kernel_counters *ws_kernel_get_counters(void *context, int device, const char **why);
/* The same without taking the GPU's counters yet. */
struct ws_kernel_counters *ws_kernel_find_counters(void *context, int device, const char **why);
/* It has been tried in vain. */
bool ws_kernel_lacks_counters(const void *context);
/* How the passes of a launch or a range are made. */
struct ws_kernel_passes {
	bool own_range;	      /* the range is ours: of a graph, or of the program's calls */
	bool other_runs;      /* other runs of the program make the other passes */
	const uint8_t *image; /* what the passes before have counted; NULL: nothing */
	size_t pass;	      /* which comes next, as ws_kernel_next_pass said */
	size_t ranges;	      /* in each pass; 0: one */
};
/* Around the passes: CUPTI's result. `more` is false after the last pass. */
int ws_kernel_begin_passes(struct ws_kernel_counters *counters,
			   const struct ws_kernel_passes *passes);
int ws_kernel_begin_pass(struct ws_kernel_counters *counters);
int ws_kernel_end_pass(struct ws_kernel_counters *counters, bool *more);
/* Bring what was counted into the image. */
int ws_kernel_decode(struct ws_kernel_counters *counters);
const uint8_t *ws_kernel_get_image(const struct ws_kernel_counters *counters, size_t *bytes);
/* Which pass comes next. */
size_t ws_kernel_next_pass(const struct ws_kernel_counters *counters);
/* The values of an image with all passes, in the order of ws_kernel_metric_names; NULL when CUPTI
 * refuses. */
const double *ws_kernel_evaluate(struct ws_kernel_counters *counters, const uint8_t *image,
				 size_t range);
/* How many ranges an image of the counters' size holds; the bytes of one with so many. */
size_t ws_kernel_count_ranges(const struct ws_kernel_counters *counters);
size_t ws_kernel_image_bytes(const struct ws_kernel_counters *counters, size_t ranges);
size_t ws_kernel_metric_names(const struct ws_kernel_counters *counters, const char *const **names,
			      const char *const **units);
const char *ws_kernel_chip(int device);
size_t ws_kernel_pass_count(const struct ws_kernel_counters *counters);
/* The text for a failed CUPTI call, with a remedy. */
const char *ws_kernel_explain(int result);
/* Release the GPU's counters for something else that needs them, and take them again: 0 or
 * failure. Nothing happens if they are released, or taken, already. */
int ws_kernel_pause_counters(struct ws_kernel_counters *counters);
int ws_kernel_resume_counters(struct ws_kernel_counters *counters);
/* CUPTI was left: its profiler has to be initialised again. */
void ws_kernel_forget_profiler(void);
/* The unit of a metric, by a host object of CUPTI; lives as long as the process. */
const char *ws_kernel_read_unit(void *host, const char *metric);
/* Nothing more will be measured: release the counters. */
void ws_kernel_release_counters(void);

/* ---- kernel_links.c ---- */

/* With a section about NVLinks: write how the device is linked to others as metrics of the
 * result, which has this number. */
void ws_kernel_write_links(struct ws_thread *thread, uint32_t result, uint32_t device);

/* ---- kernel_source.c, kernel_pm.c, kernel_cubin.c ---- */

/* A metric is to be sampled over the time of each kernel. The name must live on. */
void ws_kernel_add_sampled(const char *name);

/* Whether launches are looked into, in passes of their own; a graph as a whole is not. */
bool ws_kernel_looks_into(const struct ws_kernel_launch *launch);
/* Passes that look into a kernel, in the order in which they are made; while that is so, the range
 * profiler must not be enabled. */
enum { WS_KERNEL_LOOKS = 3 };
/* Whether a pass was asked for and has not failed before. */
bool ws_kernel_wants_look(size_t pass);
/* Nsight Compute samples units before it counts anything, and looks at instructions after that:
 * whether a look is the first of its passes, and whether a pass of counters is. */
bool ws_kernel_is_first_look(size_t pass);
bool ws_kernel_counts_first(const struct ws_kernel_launch *launch);
/* The program goes on, in this context, with functions that may be looked into later; something is
 * to be counted; nothing more will be looked into. */
void ws_kernel_watch_functions(void *context);
void ws_kernel_ignore_functions(void);
/* What was found in a launch. */
struct ws_kernel_details;
/* Around one run of the kernel, which takes about `duration` ns. False, after a diagnostic, when
 * CUPTI refuses. What is found is added to *details, which may be NULL at first. */
bool ws_kernel_begin_look(const struct ws_kernel_launch *launch, size_t pass, uint64_t duration,
			  struct ws_kernel_details **details);
void ws_kernel_end_look(const struct ws_kernel_launch *launch, size_t pass);
/* Write what was found of the launch, whose result has this number, and free it. NULL is allowed.
 */
void ws_kernel_write_details(struct ws_thread *thread, uint32_t result,
			     struct ws_kernel_details *details);
/* A module has been loaded: keep its code for the recorder. */
void ws_kernel_keep_cubin(const struct cupti_module *module);

/* ---- kernel_turns.c ---- */

/* Around each call that puts work on the GPU; waits while another thread measures. */
void ws_kernel_begin_call(void);
void ws_kernel_end_call(void);
/* Within such a call: until it ends, no other such call is made. False when calls in progress do
 * not end. */
bool ws_kernel_begin_measuring(void);
/* Nothing more will be measured: calls no longer wait. */
void ws_kernel_end_turns(void);

/* ---- kernel_measure.c, kernel_record.c ---- */

/* Write values of a result in one record; where the ring has no room, they are counted as lost. */
void ws_kernel_write_values(struct ws_thread *thread, uint32_t result,
			    const struct ws_kernel_value *values, size_t count);
/* What came of a launch. */
struct ws_kernel_outcome {
	uint64_t start, duration; /* session ns; ns */
	uint32_t passes;
	const char *error; /* NULL: its counters were measured */
	const struct ws_kernel_counters *counters;
	const double *values;
	struct ws_kernel_details *details; /* freed when the result is written */
};
void ws_kernel_measure(struct ws_kernel_launch *launch);
/* Go on until the next launch is measured. */
void ws_kernel_leave_counters(struct ws_kernel_counters *counters, void *context);
/* Why the kernel cannot be measured one by one; NULL when it can. */
const char *ws_kernel_find_refusal(const struct ws_kernel_launch *launch);
bool ws_kernel_flushes_caches(void);
/* What a pass launches for each kernel: one that prepares the caches, and the kernel. */
enum { WS_KERNEL_RANGES = 2 };
/* Launch it again and wait for it. */
bool ws_kernel_runs(const struct ws_kernel_launch *launch);
enum { WS_KERNEL_PASSES_MOST = 1024 };
void ws_kernel_take_values(struct ws_kernel_counters *counters, const uint8_t *image, size_t range,
			   struct ws_kernel_outcome *outcome);
/* Look into a launch in one pass, while its memory and the caches are ready; whether it ran. Counts
 * the pass. */
bool ws_kernel_look(const struct ws_kernel_launch *launch, size_t pass,
		    struct ws_kernel_outcome *outcome);
void ws_kernel_write_result(const struct ws_kernel_launch *launch,
			    const struct ws_kernel_outcome *outcome);

/* ---- kernel_cache.c ---- */

/* Have the driver write back what the level-2 cache of a device holds, and forget it. False where
 * the driver does not. */
bool ws_kernel_empty_cache(int device);
bool ws_kernel_can_empty_cache(int device);

/* ---- kernel_shared.c ---- */

/* Whether it is worth running the kernel once more to find its shared memory out. */
bool ws_kernel_lacks_shared(const struct ws_kernel_launch *launch);
/* Run it for that, as ws_kernel_runs. */
bool ws_kernel_run_for_shared(const struct ws_kernel_launch *launch);
/* Bytes of shared memory on a multiprocessor while it runs; 0: not known. */
uint32_t ws_kernel_find_shared(const struct ws_kernel_launch *launch);
/* Whether CUPTI gives its records to us, and not to somebody else in the program (torch.profiler)
 * who has asked for them since. */
bool ws_kernel_owns_records(void);
/* CUPTI was left, and joined again: it is told of us again. */
void ws_kernel_renew_records(void);

/* ---- kernel_keep.c ---- */

bool ws_kernel_keeps_images(void);
/* Keep an image with the launches that its ranges belong to, if that is wanted. */
void ws_kernel_keep_image(const uint8_t *image, size_t bytes, uint32_t device,
			  const struct ws_kernel_image_entry *entries, size_t count);
/* The same for an image of one launch, which is this range of it. */
void ws_kernel_keep_one(const struct ws_kernel_counters *counters,
			const struct ws_kernel_launch *launch, const uint8_t *image, size_t range);

/* ---- kernel_runs.c, kernel_ranges.c: several runs of the program ---- */

/* -1 with a diagnostic when the folder cannot be used. */
int ws_kernel_prepare_runs(void);
/* Whether each run of the program makes one pass. */
bool ws_kernel_has_runs(void);
/* Count one pass of a launch that is about to be made, or of a range that begins; one at a time in
 * the process. False when it is not counted. */
bool ws_kernel_begin_unit(const struct ws_kernel_launch *launch);
/* It has been made, or the range ends. */
void ws_kernel_end_unit(void);
/* Whether ranges are measured instead of kernels. */
bool ws_kernel_measures_ranges(void);
void ws_kernel_prepare_units(void);
/* ---- kernel_graph.c ---- */

/* Whether graphs are measured node by node. */
bool ws_kernel_follows_graphs(void);
/* Add the variables that the kernels of an executable graph may write. */
void ws_kernel_add_graph_globals(struct ws_kernel_memories *memories, const void *exec);
/* Calls that make or change executable graphs, by their names; 0 for others. */
int ws_kernel_find_graph_call(const char *name);
void ws_kernel_note_graph_call(int call, const struct cupti_callback *callback);
/* A graph is about to be launched: measure its nodes. False when it has to be measured as a whole.
 */
bool ws_kernel_measure_graph(const struct ws_kernel_launch *whole);

/* ---- kernel_repeat.c, kernel_calls.c: ranges that are repeated within one run ---- */

bool ws_kernel_repeats_ranges(void);
/* Keep memory and record calls from now on. False, after its result, when that is impossible. */
bool ws_kernel_begin_recording(const struct ws_kernel_launch *unit);
/* The range ends: repeat it. */
void ws_kernel_end_recording(void);
bool ws_kernel_is_recording(void);
/* A call is about to be made, or has returned; `launch` is NULL if it launches nothing. */
void ws_kernel_record_call(const struct ws_kernel_launch *launch,
			   const struct cupti_callback *callback);

/* The calls of a range. Free them. */
struct ws_kernel_calls;
struct ws_kernel_calls *ws_kernel_make_calls(void);
/* Add a call that has returned. NULL, or why it cannot be repeated. */
const char *ws_kernel_add_call(struct ws_kernel_calls *calls,
			       const struct cupti_callback *callback);
const char *ws_kernel_add_launch(struct ws_kernel_calls *calls,
				 const struct ws_kernel_launch *launch, const char *name);
size_t ws_kernel_count_calls(const struct ws_kernel_calls *calls);
/* Make them again and wait for them. */
bool ws_kernel_repeat_calls(const struct ws_kernel_calls *calls);
void ws_kernel_free_calls(struct ws_kernel_calls *calls);
/* Whether the driver has the functions for it. */
bool ws_kernel_can_repeat_calls(void);
/* Whether a call of this name need not be seen while a range is recorded. */
bool ws_kernel_may_ignore_call(const char *name);

/* A launch, cudaProfilerStart or Stop, by which a range may begin or end. */
void ws_kernel_note_launch(const struct cupti_callback *callback);
void ws_kernel_note_profiler(bool start);

#endif
