/*
 * standin.c - a runtime of OpenMP and of OpenACC in little: it looks for the tool as those do, and
 * tells it of events in known numbers. For machines without such runtimes, and for what they do not
 * do on a machine without accelerators.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inject/ompt_abi.h"
#include "inject/openacc_abi.h"

static ws_ompt_function callbacks[64];

#define CALL(which, types, ...)                                         \
	do {                                                            \
		if (callbacks[which])                                   \
			((void(*) types)callbacks[which])(__VA_ARGS__); \
	} while (0)
#define DATA union ws_ompt_data *

static int set_callback(int which, ws_ompt_function callback)
{
	callbacks[which] = callback;
	return 5;
}

static ws_ompt_function look_up(const char *name)
{
	return strcmp(name, "ompt_set_callback") ? NULL : (ws_ompt_function)set_callback;
}

static void tell_sync(int endpoint, DATA parallel, DATA task)
{
	CALL(WS_OMPT_SYNC_REGION, (int, int, DATA, DATA, const void *), 2, endpoint, parallel, task,
	     (const void *)tell_sync);
}

static void tell_implicit(int endpoint, DATA parallel, DATA task)
{
	CALL(WS_OMPT_IMPLICIT_TASK, (int, DATA, DATA, unsigned, unsigned, int), endpoint, parallel,
	     task, 2, 1, 2);
}

/* A worker that learns of the region's end only after it. */
static union ws_ompt_data region;
static pthread_barrier_t barrier;

static void *work(void *arg)
{
	union ws_ompt_data task = {0}, thread = {0};

	CALL(WS_OMPT_THREAD_BEGIN, (int, DATA), 2, &thread);
	tell_implicit(WS_OMPT_BEGIN, &region, &task);
	tell_sync(WS_OMPT_BEGIN, &region, &task);
	pthread_barrier_wait(&barrier); /* the region has ended */
	pthread_barrier_wait(&barrier);
	tell_sync(WS_OMPT_END, NULL, &task);
	tell_implicit(WS_OMPT_END, NULL, &task);
	CALL(WS_OMPT_THREAD_END, (DATA), &thread);
	return arg;
}

static void tell_region(DATA initial)
{
	pthread_t worker;

	CALL(WS_OMPT_PARALLEL_BEGIN, (DATA, const void *, DATA, unsigned, int, const void *),
	     initial, NULL, &region, 2, 0, (const void *)tell_region);
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&worker, NULL, work, NULL);
	pthread_barrier_wait(&barrier);
	CALL(WS_OMPT_PARALLEL_END, (DATA, DATA, int, const void *), &region, initial, 0,
	     (const void *)tell_region);
	pthread_barrier_wait(&barrier);
	pthread_join(worker, NULL);
}

static void tell_tasks(DATA initial)
{
	union ws_ompt_data task[3] = {{0}};

	for (int i = 0; i < 3; i++) {
		CALL(WS_OMPT_TASK_CREATE, (DATA, const void *, DATA, int, int, const void *),
		     initial, NULL, &task[i], 4, 0, NULL);
		CALL(WS_OMPT_TASK_SCHEDULE, (DATA, int, DATA), initial, WS_OMPT_TASK_SWITCH,
		     &task[i]);
		CALL(WS_OMPT_TASK_SCHEDULE, (DATA, int, DATA), &task[i], WS_OMPT_TASK_COMPLETE,
		     initial);
	}
}

/* Two locks that are not released in the order in which they were taken. */
static void tell_locks(void)
{
	static const uint64_t locks[] = {0x100, 0x200};

	for (int i = 0; i < 2; i++) {
		CALL(WS_OMPT_MUTEX_ACQUIRE, (int, unsigned, unsigned, uint64_t, const void *), 1, 0,
		     0, locks[i], NULL);
		CALL(WS_OMPT_MUTEX_ACQUIRED, (int, uint64_t, const void *), 1, locks[i], NULL);
	}
	for (int i = 0; i < 2; i++)
		CALL(WS_OMPT_MUTEX_RELEASED, (int, uint64_t, const void *), 1, locks[i], NULL);
}

static void tell_target(DATA initial)
{
	union ws_ompt_data target = {0};
	uint64_t operation = 0;

	for (int endpoint = WS_OMPT_BEGIN; endpoint <= WS_OMPT_END; endpoint++) {
		CALL(WS_OMPT_TARGET_EMI, (int, int, int, DATA, DATA, DATA, const void *), 1,
		     endpoint, 3, initial, NULL, &target, NULL);
		if (endpoint == WS_OMPT_END)
			break;
		for (int at = WS_OMPT_BEGIN; at <= WS_OMPT_END; at++)
			CALL(WS_OMPT_TARGET_DATA_OP_EMI,
			     (int, DATA, DATA, uint64_t *, int, void *, int, void *, int, size_t,
			      const void *),
			     at, NULL, &target, &operation, 2, NULL, 0, NULL, 3, 4096, NULL);
	}
}

/* More than a thread keeps open, none of which ends: later events must not suffer. */
static void tell_endless(DATA initial)
{
	for (int i = 0; i < 200; i++)
		CALL(WS_OMPT_MASKED, (int, DATA, DATA, const void *), WS_OMPT_BEGIN, &region,
		     initial, NULL);
}

static int run_openmp(void)
{
	struct ws_ompt_start_tool_result *(*start)(unsigned, const char *) =
		(struct ws_ompt_start_tool_result * (*)(unsigned, const char *))
			dlsym(RTLD_DEFAULT, "ompt_start_tool");
	struct ws_ompt_start_tool_result *tool = start ? start(201611, "stand-in") : NULL;
	union ws_ompt_data initial = {0}, thread = {0};

	if (!tool || !tool->initialize(look_up, 0, &tool->tool)) {
		puts("no tool");
		return 0;
	}
	CALL(WS_OMPT_THREAD_BEGIN, (int, DATA), 1, &thread);
	tell_endless(&initial);
	tell_region(&initial);
	tell_tasks(&initial);
	tell_locks();
	tell_target(&initial);
	CALL(WS_OMPT_THREAD_END, (DATA), &thread);
	tool->finalize(&tool->tool);
	puts("told");
	return 0;
}

/* ---- OpenACC ---- */

static ws_acc_callback *registered[32];

static void add_callback(int event, ws_acc_callback *callback, int how)
{
	if (!how)
		registered[event] = callback;
}

static void tell_event(int type, struct ws_acc_event_info event)
{
	struct ws_acc_prof_info prof = {.event_type = type,
					.valid_bytes = sizeof(prof),
					.version = 201711,
					.device_type = 4,
					.device_number = 1,
					.async_queue = 7,
					.src_file = "/src/solve.c",
					.func_name = "solve",
					.line_no = 24};

	event.event_type = type;
	event.valid_bytes = sizeof(event);
	if (registered[type])
		registered[type](&prof, &event, NULL);
}

static int run_openacc(void)
{
	const char *name = getenv("ACC_PROFLIB");
	void *library = name ? dlopen(name, RTLD_LAZY) : NULL;
	void (*reg)(ws_acc_register *, ws_acc_register *, ws_acc_lookup *) =
		library ? dlsym(library, "acc_register_library") : NULL;

	if (!reg) {
		puts("no library");
		return 0;
	}
	reg(add_callback, add_callback, NULL);
	reg(add_callback, add_callback, NULL);
	for (int i = 0; i < 3; i++) {
		tell_event(16, (struct ws_acc_event_info){0});
		tell_event(20,
			   (struct ws_acc_event_info){.data = {.var_name = "x", .bytes = 4000}});
		tell_event(21,
			   (struct ws_acc_event_info){.data = {.var_name = "x", .bytes = 4000}});
		tell_event(18, (struct ws_acc_event_info){.launch = {"solve_24", 8, 1, 128}});
		tell_event(19, (struct ws_acc_event_info){.launch = {"solve_24", 8, 1, 128}});
		tell_event(17, (struct ws_acc_event_info){0});
	}
	tell_event(25, (struct ws_acc_event_info){0}); /* an end without a start */
	puts("told");
	return 0;
}

int main(int argc, char **argv)
{
	return argc == 2 && !strcmp(argv[1], "openacc") ? run_openacc() : run_openmp();
}
