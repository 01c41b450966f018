/*
 * ompt_abi.h - OMPT, the interface of OpenMP's runtimes for tools, as far as it is used: declared
 * here, so that no runtime is needed to build. tests/openmp compares it with omp-tools.h.
 */
#ifndef WS_OMPT_ABI_H
#define WS_OMPT_ABI_H

#include <stddef.h>
#include <stdint.h>

union ws_ompt_data { /* a word that a runtime keeps for the tool */
	uint64_t value;
	void *pointer;
};

enum { WS_OMPT_BEGIN = 1, WS_OMPT_END = 2, WS_OMPT_BEGIN_END = 3 };

enum ws_ompt_callback {
	WS_OMPT_THREAD_BEGIN = 1,
	WS_OMPT_THREAD_END = 2,
	WS_OMPT_PARALLEL_BEGIN = 3,
	WS_OMPT_PARALLEL_END = 4,
	WS_OMPT_TASK_CREATE = 5,
	WS_OMPT_TASK_SCHEDULE = 6,
	WS_OMPT_IMPLICIT_TASK = 7,
	WS_OMPT_SYNC_REGION_WAIT = 16,
	WS_OMPT_MUTEX_RELEASED = 17,
	WS_OMPT_WORK = 20,
	WS_OMPT_MASKED = 21,
	WS_OMPT_SYNC_REGION = 23,
	WS_OMPT_LOCK_INIT = 24,
	WS_OMPT_LOCK_DESTROY = 25,
	WS_OMPT_MUTEX_ACQUIRE = 26,
	WS_OMPT_MUTEX_ACQUIRED = 27,
	WS_OMPT_FLUSH = 29,
	WS_OMPT_CANCEL = 30,
	WS_OMPT_REDUCTION = 31,
	WS_OMPT_DISPATCH = 32,
	WS_OMPT_TARGET_EMI = 33,
	WS_OMPT_TARGET_DATA_OP_EMI = 34,
	WS_OMPT_TARGET_SUBMIT_EMI = 35,
};

/* What happened to a task that a thread leaves. */
enum ws_ompt_task_status {
	WS_OMPT_TASK_COMPLETE = 1,
	WS_OMPT_TASK_YIELD = 2,
	WS_OMPT_TASK_CANCEL = 3,
	WS_OMPT_TASK_DETACH = 4,
	WS_OMPT_TASK_EARLY_FULFILL = 5,
	WS_OMPT_TASK_LATE_FULFILL = 6,
	WS_OMPT_TASK_SWITCH = 7,
};

typedef void (*ws_ompt_function)(void);
typedef ws_ompt_function (*ws_ompt_lookup)(const char *name);
typedef int (*ws_ompt_set_callback)(int which, ws_ompt_function callback);

struct ws_ompt_start_tool_result {
	int (*initialize)(ws_ompt_lookup lookup, int initial_device, union ws_ompt_data *tool);
	void (*finalize)(union ws_ompt_data *tool);
	union ws_ompt_data tool;
};

#endif
