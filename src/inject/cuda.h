/*
 * cuda.h - what the parts of the CUDA hook share; private to inject/.
 *
 * cuda.c           starts and stops: InitializeInjection, the flushing thread, and the process exit
 * cuda_find.c      finds a libcupti that fits the driver and opens it
 * cuda_api.c       which API calls are traced
 * cuda_calls.c     which of them matter
 * cuda_old.c       records of them if CUPTI cannot choose among them
 * cuda_buffers.c   gives CUPTI buffers and turns what comes back into ring records
 * cuda_resource.c  callbacks: modules, graphs, cudaDeviceReset, cudaProfilerStop
 * cuda_sync.c      callbacks: waits
 * cuda_host.c      callbacks: functions that CUDA calls on the CPU
 * cuda_stack.c     callbacks: stacks of calls
 * cuda_late.c      CUPTI in a program that runs already
 * cuda_device.c    what the driver says about the devices
 * cuda_names.c     the numbers of things that the program names through NVTX
 * cuda_inner.c     serves a profiler inside the program: comes between it and libcupti
 * cuda_dlsym.c     the same for a profiler that looks functions up by name
 */
#ifndef WS_CUDA_H
#define WS_CUDA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring/cupti_abi.h"
#include "inject/rt.h"

/* What is used of libcupti. X(needed, name, arguments); all return a CUptiResult. */
#define WS_CUPTI_FUNCTIONS(X)                                                                     \
	X(1, GetVersion, (uint32_t * version))                                                    \
	X(0, GetResultString, (int result, const char **text))                                    \
	X(1, GetCallbackName, (uint32_t domain, uint32_t cbid, const char **name))                \
	X(1, ActivityRegisterCallbacks, (cupti_request_fn request, cupti_complete_fn complete))   \
	X(1, ActivityEnable, (uint32_t kind))                                                     \
	X(0, ActivityEnableAndDump, (uint32_t kind))                                              \
	X(1, ActivityDisable, (uint32_t kind))                                                    \
	X(1, ActivityFlushAll, (uint32_t flags))                                                  \
	X(1, ActivityGetNextRecord, (uint8_t * buffer, size_t valid, void **record))              \
	X(1, ActivityGetNumDroppedRecords, (void *context, uint32_t stream, size_t *dropped))     \
	X(1, ActivitySetAttribute, (uint32_t attribute, size_t * size, void *value))              \
	X(0, ActivityRegisterTimestampCallback, (cupti_clock_fn fn))                              \
	X(0, SetThreadIdType, (uint32_t type))                                                    \
	X(0, ActivityEnableRuntimeApi, (uint32_t cbid, uint8_t enable))                           \
	X(0, ActivityEnableDriverApi, (uint32_t cbid, uint8_t enable))                            \
	X(0, ActivityEnableAllSyncRecords, (uint8_t enable))                                      \
	X(0, ActivityEnableCudaEventDeviceTimestamps, (uint8_t enable))                           \
	X(0, ActivityConfigureUnifiedMemoryCounter,                                               \
	  (struct cupti_um_config * config, uint32_t count))                                      \
	X(1, Subscribe, (void **subscriber, cupti_callback_fn fn, void *data))                    \
	X(0, Subscribe_v2,                                                                        \
	  (void **subscriber, cupti_callback_fn fn, void *data,                                   \
	   struct cupti_subscriber_params *params))                                               \
	X(1, Unsubscribe, (void *subscriber))                                                     \
	X(1, EnableCallback, (uint32_t enable, void *subscriber, uint32_t domain, uint32_t cbid)) \
	X(0, EnableDomain, (uint32_t enable, void *subscriber, uint32_t domain))                  \
	X(0, EnableAllDomains, (uint32_t enable, void *subscriber))                               \
	X(0, Finalize, (void))                                                                    \
	X(0, GetGraphId, (void *graph, uint32_t *id))                                             \
	X(0, GetGraphExecId, (void *exec, uint32_t *id))                                          \
	X(0, GetGraphNodeId, (void *node, uint64_t *id))                                          \
	X(0, GetDeviceId, (void *context, uint32_t *id))                                          \
	X(0, GetContextId, (void *context, uint32_t *id))                                         \
	X(0, GetStreamIdEx, (void *context, void *stream, uint8_t per_thread, uint32_t *id))

struct ws_cupti {
#define X(needed, name, args) int(*name) args;
	WS_CUPTI_FUNCTIONS(X)
#undef X
	void *lib;
	uint32_t version, driver;
	char path[512];
};

extern struct ws_cupti ws_cupti;

enum ws_cuda_state { WS_CUDA_IDLE, WS_CUDA_STARTING, WS_CUDA_ON, WS_CUDA_REFUSED };
extern _Atomic int ws_cuda_state;

/* Start tracing if this process belongs to a session that wants it and this has not been tried yet.
 * Returns whether tracing is on. */
bool ws_cuda_start(void);
/* The parts of that: find and subscribe to CUPTI and have it record; false after a diagnostic. */
bool ws_cuda_set_up(void);
void ws_cuda_flush_at_exit(void);
bool ws_cuda_start_thread(void *(*fn)(void *));
/* What the flushing thread does: name itself, flush until the session or the process ends. */
void ws_cuda_become_own_thread(void);
void ws_cuda_keep_flushing(void);

/* ---- cuda_late.c ---- */

/* Whether the flushing thread, which was started in a running process, has to end. */
bool ws_cuda_must_leave(void);
/* Turn CUPTI off for good, and give it back. */
void ws_cuda_tear_down(void);
/* Forget what belonged to a session that has ended, before another one begins. */
void ws_cuda_forget_session(void);
void ws_cuda_forget_apis(void);
void ws_cuda_forget_buffers(void);
void ws_cuda_forget_stack_calls(void);
void ws_cuda_forget_launches(void);
/* False in a forked child of a process in which CUPTI was used. */
bool ws_cuda_belongs_to_process(void);

/* True in a forked child of the process that started tracing, which must leave CUPTI alone. */
bool ws_cuda_reset_after_fork(void);
/* Make the flushing thread do a forced flush and wait at most `ms` for it; false when it did not
 * finish in time. */
bool ws_cuda_flush(uint32_t ms);
/* Thread that flushes; its own calls are not recorded. */
uint32_t ws_cuda_is_own_thread(void);

void ws_cuda_report(int severity, const char *a, const char *b, const char *c);
/* CUPTI's name for an error. */
const char *ws_cuda_report_error(int result);

/* A function of the libcupti that is mapped, whether or not we use it; NULL when there is none. */
void *ws_cuda_find_real(const char *name);
/* Fill ws_cupti; false after a diagnostic. */
bool ws_cuda_find_cupti(void);

/* Whether a call of the runtime or driver is traced unless the user says otherwise. `name` is
 * spelled like CUPTI's callback names. */
bool ws_cuda_is_call_recorded(int driver, const char *name);
/* Enable or disable the calls that are traced. */
void ws_cuda_enable_apis(bool on);
/* Whether this call is one that we trace. */
bool ws_cuda_is_api_wanted(uint32_t kind, uint32_t cbid);
/* Tell the recorder the names of the calls. */
void ws_cuda_write_api_names(void);
enum { WS_CUDA_CBIDS = 2048 }; /* callback ids are below */
/* All calls are requested as a whole (--cuda-trace-all-apis). */
extern bool ws_cuda_api_coarse;
/* From now on contexts may exist, so calls are turned on in a different way. */
void ws_cuda_expect_contexts(void);
/* CUPTI cannot select individual calls (before 12.5), so we record calls from callbacks. */
extern bool ws_cuda_api_by_callback;
void ws_cuda_start_old_calls(void);
void ws_cuda_record_old_call(int driver, uint32_t cbid, const struct cupti_callback *callback);

/* CUPTI's callbacks. */
void ws_cuda_request_buffer(uint8_t **buffer, size_t *size, size_t *max_records);
void ws_cuda_complete_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			     size_t valid);

/* Note what CUPTI has begun to record by now in buffers that it is still filling, and whether any
 * of that work has not ended. Both are called on the flushing thread. */
void ws_cuda_note_work(void);
bool ws_cuda_has_unfinished_work(void);
/* ---- cuda_steps.c ---- */

/* Whether the callback of this name is a call that launches. */
void ws_cuda_find_launch_call(int driver, uint32_t cbid, const char *name);
/* Count launches from now on, if steps can be recognised by launches. */
bool ws_cuda_watch_launches(void);
/* Whether launches are still counted; whether this call launches; whether both hold. */
bool ws_cuda_watches_launches(void);
bool ws_cuda_is_launch(int driver, uint32_t cbid);
bool ws_cuda_counts_launch(int driver, uint32_t cbid);
void ws_cuda_count_launch(const struct cupti_callback *callback);
/* Turn CUPTI on although no collection has begun. */
extern _Atomic bool ws_cuda_early;
void ws_cuda_switch_early(void);

/* Turn the callbacks for launches on or off. */
void ws_cuda_switch_launch_callbacks(bool on);
/* Subscribe; false after a diagnostic. Then, once the traced calls have been chosen, enable the
 * callbacks that are always wanted: those for objects as they are created, and those for the few
 * calls after which records would be lost.
 */
bool ws_cuda_subscribe(void);
void ws_cuda_enable_callbacks(void);
void ws_cuda_disable_callbacks(void);
/* Whether calls of that name must be intercepted, because they begin and end collections or look up
 * functions that do; and the function that then replaces `theirs` and calls it. */
bool ws_cuda_stands_before(const char *name);
void *ws_cuda_stand_before(const char *name, void *theirs);
/* The callbacks that are wanted only while something is collected. */
void ws_cuda_switch_callbacks(bool on);

/* Whether the callback of this name is a wait that we record. */
void ws_cuda_find_sync_call(int driver, uint32_t cbid, const char *name);
bool ws_cuda_wants_sync_call(int driver, uint32_t cbid);
void ws_cuda_record_sync_call(int driver, uint32_t cbid, const struct cupti_callback *callback);

/*
 * What is open on a thread: the outermost call that waits and the outermost call whose stack may be
 * copied. It takes only 16 bytes, because initial-exec thread-local memory is scarce: the second
 * start is in units of 1,024 ns, modulo 2^32, and the start of calls recorded from callbacks is in
 * struct ws_thread.
 */
struct ws_cuda_open {
	uint64_t wait_start;
	uint32_t stack_start;
	/* How deep; the last: calls that hand over a function. Of the collection `round`: one that
	 * ended within a call has left it open. */
	unsigned calls : 4, waits : 4, stacks : 4, hosts : 4, round : 16;
};
_Static_assert(sizeof(struct ws_cuda_open) == 16, "see above");
extern __thread struct ws_cuda_open ws_cuda_open
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The same for calls that hand CUDA a function to call. */
void ws_cuda_find_host_calls(int driver, uint32_t cbid, const char *name);
bool ws_cuda_wants_host_call(int driver, uint32_t cbid);
void ws_cuda_record_host_call(int driver, uint32_t cbid, const struct cupti_callback *callback);

/* The same for calls whose stacks are asked for; ws_cuda_write_api_names must have been called
 * before anything is asked. */
void ws_cuda_find_stack_call(int driver, uint32_t cbid, const char *name);
bool ws_cuda_wants_stack(int driver, uint32_t cbid);
void ws_cuda_record_stack(int driver, uint32_t cbid, const struct cupti_callback *callback);

/* Tell the recorder the names of kernels in buffers that CUPTI is still filling, so that they
 * survive a kill. On the flushing thread. */
void ws_cuda_scan_buffers(void);
/* Wait, at most `ms`, while completed buffers are being walked. */
void ws_cuda_settle_buffers(uint32_t ms);

/* A context or stream was created, or is about to be destroyed. */
void ws_cuda_note_resource(uint32_t cbid, const struct cupti_resource *res);
/* For ws_rt_cuda_numbers. */
void ws_cuda_find_name_functions(uint32_t type, uint64_t handle, struct ws_cuda_numbers *out);

/* Tell the recorder about the devices. On the flushing thread, once the driver is initialised. */
void ws_cuda_devices(void);
/* A context has been made: from now on the driver can be asked about devices. */
extern _Atomic bool ws_cuda_context_seen;

/* ---- the profiler inside (cuda_inner.c) ---- */

extern _Atomic bool ws_inner_there; /* it has registered callbacks */
/* Copy what the inner profiler wants from a completed buffer. Called before our own walk of it. */
void ws_inner_give_record(uint8_t *buffer, size_t valid);
/* Whether all records of a kind come only because the inner profiler wants them. */
bool ws_inner_is_only_reader(uint32_t kind);
/* Whether we want this API call, which may be reported only because the inner profiler asked for a
 * whole domain. */
bool ws_inner_wants_broad(uint32_t kind);
/* Whether the inner profiler wants this callback. */
bool ws_inner_wants_callback(uint32_t domain, uint32_t cbid);
/* Pass on a callback that the inner profiler subscribed to. */
void ws_inner_call_back(uint32_t domain, uint32_t cbid, const void *info);
/* Whether we trace the kind now. Kept by cuda.c. */
bool ws_cuda_is_kind_on(uint32_t kind);
/* Whether we want the callback. Kept by cuda_resource.c. */
bool ws_cuda_enable_callback(uint32_t domain, uint32_t cbid);
extern void *ws_cuda_subscriber;
/* Our replacement for the libcupti function of this name; NULL when there is none. */
void *ws_inner_find_function(const char *name);
/* The C library's dlsym, so that our own look-ups find libcupti's functions and not our
 * replacements. */
void *ws_cuda_find_symbol(void *handle, const char *name);

#endif
