/*
 * kernel.c - see kernel.h: the hook starts when the driver loads it, subscribes to CUPTI's
 * callbacks for launches, calls that allocate memory, modules and cudaProfilerStart (or learns of
 * these calls from kernel_direct.c), and passes the wanted launches to kernel_measure.c. Once the
 * last of them has been measured, the callbacks are turned off.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "base/gpu_tools.h"
#include "inject/bind.h"
#include "inject/kernel.h"
#include "schema/schema.h"

extern char **environ;

struct ws_cupti ws_cupti;
struct ws_kernel_settings ws_kernel_settings;

static struct ws_kernel_subject calls[2][WS_CUDA_CBIDS]; /* of the driver's domain, the runtime's */

static const uint32_t domains[] = {CUPTI_DOMAIN_DRIVER, CUPTI_DOMAIN_RUNTIME};

static const struct {
	const char *name;
	enum ws_kernel_call call;
	bool per_thread;
} launch_calls[] = {
	{"cuLaunchKernel", WS_KERNEL_LAUNCH, false},
	{"cuLaunchKernel_ptsz", WS_KERNEL_LAUNCH, true},
	{"cuLaunchKernelEx", WS_KERNEL_LAUNCH_EX, false},
	{"cuLaunchKernelEx_ptsz", WS_KERNEL_LAUNCH_EX, true},
	{"cuLaunchCooperativeKernel", WS_KERNEL_LAUNCH_COOPERATIVE, false},
	{"cuLaunchCooperativeKernel_ptsz", WS_KERNEL_LAUNCH_COOPERATIVE, true},
	{"cuGraphLaunch", WS_KERNEL_LAUNCH_GRAPH, false},
	{"cuGraphLaunch_ptsz", WS_KERNEL_LAUNCH_GRAPH, true},
};

static void *subscriber;
static uint32_t parting_call; /* at whose end CUPTI is left while nobody makes a call */
/* Nodes of a graph are made by the hook: what follows the last unit has to wait for the last. */
static bool in_graph, ended_in_graph;
static long starting_process;
static _Atomic uint64_t launches;
/* This thread is measuring: its launches and allocations are not the program's. */
static __thread bool inside __attribute__((tls_model("initial-exec")));
/* This thread leaves CUPTI. */
static __thread bool parting __attribute__((tls_model("initial-exec")));
/* The launch that this thread is making is counted as it is made. */
static __thread bool counting __attribute__((tls_model("initial-exec")));

/* ---- what the parts share ---- */

void ws_kernel_report(int severity, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	ws_rt_write_diagnostic(severity, "kernel", text);
}

/* For cuda_find.c. */
void ws_cuda_report(int severity, const char *a, const char *b, const char *c)
{
	ws_kernel_report(severity, "%s%s%s", a, b, c);
}

const char *ws_cuda_report_error(int result)
{
	const char *text = NULL;

	if (!ws_cupti.GetResultString || ws_cupti.GetResultString(result, &text) || !text)
		return "an error without a name";
	return text;
}

void *ws_cuda_find_symbol(void *handle, const char *name)
{
	return ws_find_symbol_in(handle, name);
}

bool ws_kernel_set_inside(bool now)
{
	bool was = inside;

	inside = now;
	return was;
}

bool ws_kernel_is_inside(void)
{
	return inside;
}

void ws_kernel_lock(_Atomic uint32_t *lock)
{
	uint32_t was = 0;

	if (atomic_compare_exchange_strong(lock, &was, 1))
		return;
	while (atomic_exchange(lock, 2))
		ws_raw_syscall(SYS_futex, (long)lock, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2, 0, 0, 0);
}

void ws_kernel_unlock(_Atomic uint32_t *lock)
{
	if (atomic_exchange(lock, 0) == 2)
		ws_raw_syscall(SYS_futex, (long)lock, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, 0,
			       0, 0);
}

/* ---- callbacks ---- */

static void find_place(struct ws_kernel_launch *launch)
{
	if (ws_kernel_is_direct())
		ws_kernel_find_context(launch);
	if (!ws_cupti.GetDeviceId || ws_cupti.GetDeviceId(launch->context, &launch->device))
		launch->device = 0;
	if (ws_cupti.GetStreamIdEx)
		ws_cupti.GetStreamIdEx(launch->context, launch->stream, launch->per_thread,
				       &launch->stream_id);
}

/* Nothing runs during a capture: captured work runs when its graph is launched. If the query fails,
 * a capture is in progress that forbids it. */
static bool is_captured(const struct ws_kernel_launch *launch)
{
	static _Atomic bool said;
	int status = 0;

	if (!ws_kernel_driver.is_capturing(launch->stream, &status) && !status)
		return false;
	if (!ws_kernel_follows_graphs() && !atomic_exchange(&said, true))
		ws_kernel_report(WS_INFO,
				 "Kernels that were captured into CUDA graphs are not measured one "
				 "by one; each launch of a graph is measured as one, where no name "
				 "is asked for.");
	return true;
}

static _Atomic bool leaves; /* CUPTI, at the end of the next call */

/* As long as anything is enabled, CUPTI looks at every launch. */
static void disable_calls(void)
{
	for (int runtime = 0; runtime < 2; runtime++)
		for (uint32_t cbid = 0; cbid < WS_CUDA_CBIDS; cbid++)
			if (calls[runtime][cbid].what)
				ws_cupti.EnableCallback(0, subscriber, domains[runtime], cbid);
	ws_cupti.EnableCallback(0, subscriber, CUPTI_DOMAIN_RESOURCE, CUPTI_RESOURCE_MODULE_LOADED);
}

/*
 * The last launch has been measured: the program goes on undisturbed. Once the range profiler was
 * enabled, CUPTI delays each launch by half a microsecond, unless it is left altogether, which it
 * permits at the end of a call. A program that uses CUPTI itself needs it further.
 */
static void end_measuring(void)
{
	atomic_store(&ws_nvtx_changed, NULL);
	ws_kernel_release_counters();
	ws_kernel_end_turns();
	if (ws_kernel_is_direct())
		ws_kernel_end_direct();
	else if (ws_cupti.Finalize && ws_kernel_owns_records())
		atomic_store(&leaves, true);
	else
		disable_calls();
	if (*ws_kernel_settings.kill)
		ws_raw_syscall(SYS_kill, ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0), SIGTERM, 0,
			       0, 0, 0);
}

void ws_kernel_finish_unit(void)
{
	if (!ws_kernel_finish_launch())
		return;
	if (in_graph)
		ended_in_graph = true;
	else
		end_measuring();
}

bool ws_kernel_awaits_more(void)
{
	return in_graph || !ws_kernel_is_done();
}

/* Measure it now, or count one pass of it while the program makes it. */
static void measure(struct ws_kernel_launch *launch)
{
	int mode = WS_KERNEL_RELAXED;

	ws_kernel_driver.exchange_mode(&mode);
	if (!ws_kernel_has_runs()) {
		ws_kernel_watch_functions(launch->context);
		if (!ws_kernel_begin_measuring() || !ws_kernel_put_off(launch)) {
			ws_kernel_measure(launch);
			ws_kernel_finish_unit();
		}
		ws_kernel_driver.exchange_mode(&mode);
		return;
	}
	counting = ws_kernel_begin_measuring() && ws_kernel_begin_unit(launch);
	ws_kernel_driver.exchange_mode(&mode);
	if (!counting)
		ws_kernel_finish_unit();
}

uint64_t ws_kernel_count_launch(void)
{
	return atomic_fetch_add(&launches, 1);
}

void ws_kernel_measure_node(struct ws_kernel_launch *launch, const char *why)
{
	struct ws_kernel_outcome outcome = {.start = ws_read_raw_ns(), .error = why};

	if (!why) {
		measure(launch);
		return;
	}
	ws_kernel_write_result(launch, &outcome);
	ws_kernel_finish_unit();
}

/* False when the graph has to be measured as a whole. */
static bool measure_graph(struct ws_kernel_launch *launch)
{
	bool measured;

	if (is_captured(launch))
		return true;
	find_place(launch);
	inside = in_graph = true;
	measured = ws_kernel_measure_graph(launch);
	in_graph = false;
	if (ws_kernel_is_done())
		ws_kernel_measure_batch();
	if (ended_in_graph)
		end_measuring();
	inside = ended_in_graph = false;
	return measured;
}

/* The launch that was counted has been made. */
static void end_counting(void)
{
	int mode = WS_KERNEL_RELAXED;

	inside = true;
	counting = false;
	ws_kernel_driver.exchange_mode(&mode);
	ws_kernel_end_unit();
	ws_kernel_driver.exchange_mode(&mode);
	ws_kernel_finish_unit();
	inside = false;
}

static void handle_launch(enum ws_kernel_call call, bool per_thread,
			  const struct cupti_callback *callback)
{
	bool by_nodes = call == WS_KERNEL_LAUNCH_GRAPH && ws_kernel_follows_graphs();
	uint64_t number = by_nodes ? 0 : ws_kernel_count_launch();
	struct ws_kernel_function *function;
	struct ws_kernel_launch launch;
	void *handle;

	ws_kernel_hurry_old_batch(WS_KERNEL_RUNNING_MOST);
	if (ws_kernel_is_done() || !atomic_load_explicit(&ws_kernel_active, memory_order_relaxed))
		return;
	if (ws_kernel_measures_ranges()) {
		ws_kernel_note_launch(callback);
		return;
	}
	ws_kernel_read_launch(&launch, call, per_thread, callback);
	if (by_nodes && measure_graph(&launch))
		return;
	if (by_nodes)
		number = ws_kernel_count_launch();
	handle = launch.function;
	function = handle ? ws_kernel_find_function(handle, callback->symbol) : NULL;
	if (!function)
		return;
	launch.number = number;
	launch.instance = atomic_fetch_add(&function->launches, 1);
	if (function->wanted && is_captured(&launch))
		return;
	if (function->wanted)
		find_place(&launch);
	if (!ws_kernel_wants_launch(&launch, function))
		return;
	inside = true;
	measure(&launch);
	inside = false;
}

static void handle_work(bool enter)
{
	if (enter) {
		ws_kernel_begin_call();
		return;
	}
	if (counting)
		end_counting();
	ws_kernel_end_call();
}

static void handle_memory(int call, bool enter, const struct cupti_callback *callback)
{
	if (!enter)
		ws_kernel_note_memory_call(call, callback);
	else if (ws_kernel_frees_memory(call))
		ws_kernel_hurry_batch();
	else
		ws_kernel_make_room(ws_kernel_read_size(call, callback));
}

static void handle_profiler(bool start)
{
	if (!strcmp(ws_kernel_settings.from_start, "off"))
		atomic_store(&ws_kernel_active, start);
	if (ws_kernel_measures_ranges())
		ws_kernel_note_profiler(start);
}

/* Some libraries set an attribute of a function before each launch, always to the same value. */
static bool sets_what_is_set(uint8_t of, const struct cupti_callback *callback)
{
	const struct {
		void *function;
		int which, value;
	} *function = callback->params;
	const struct {
		int which, value;
		void *kernel;
	} *kernel = callback->params;
	bool was, same = false;

	if (of == NO_ATTRIBUTE)
		return false;
	was = ws_kernel_set_inside(true);
	if (of == OF_FUNCTION)
		same = ws_kernel_function_attribute(function->function, function->which) ==
		       (uint32_t)function->value;
	else
		same = ws_kernel_function_attribute(kernel->kernel, kernel->which) ==
		       (uint32_t)kernel->value;
	ws_kernel_set_inside(was);
	return same;
}

void ws_kernel_handle_call(const struct ws_kernel_subject *subject,
			   const struct cupti_callback *callback)
{
	bool enter = callback->site == CUPTI_SITE_ENTER;

	switch (subject->what) {
	case CALL_LAUNCH:
		handle_work(enter);
		if (enter)
			handle_launch((enum ws_kernel_call)subject->detail, subject->per_thread,
				      callback);
		break;
	case CALL_WORK:
		handle_work(enter);
		break;
	case CALL_END:
	case CALL_SHARE:
		if (enter && !sets_what_is_set(subject->detail, callback))
			ws_kernel_hurry_batch();
		if (subject->what == CALL_SHARE)
			ws_kernel_forbid_batches();
		break;
	case CALL_WAIT:
		if (enter)
			ws_kernel_hurry_old_batch(WS_KERNEL_WAITING_MOST);
		break;
	case CALL_MEMORY:
		handle_memory(subject->detail, enter, callback);
		break;
	case CALL_GRAPH:
		ws_kernel_note_graph_call(subject->detail, callback);
		break;
	case CALL_PROFILER_START:
	case CALL_PROFILER_STOP:
		if (!enter)
			handle_profiler(subject->what == CALL_PROFILER_START);
		break;
	default:
		break;
	}
}

static void record_call(uint32_t cbid, const struct cupti_callback *callback)
{
	struct ws_kernel_launch launch;

	if (!ws_kernel_is_recording())
		return;
	if (calls[0][cbid].what != CALL_LAUNCH) {
		ws_kernel_record_call(NULL, callback);
		return;
	}
	ws_kernel_read_launch(&launch, (enum ws_kernel_call)calls[0][cbid].detail,
			      calls[0][cbid].per_thread, callback);
	find_place(&launch);
	ws_kernel_record_call(&launch, callback);
}

/* A call is recorded before what follows from its end, and after what follows from its beginning.
 */
static void handle_call(bool runtime, uint32_t cbid, const struct cupti_callback *callback)
{
	bool enter = callback->site == CUPTI_SITE_ENTER;

	if (cbid >= WS_CUDA_CBIDS)
		return;
	if (!enter && !runtime)
		record_call(cbid, callback);
	ws_kernel_handle_call(&calls[runtime][cbid], callback);
	if (enter && !runtime)
		record_call(cbid, callback);
}

/* CUDA loads code when it is used for the first time: perhaps because the hook uses it. */
static void handle_module(const struct cupti_resource *resource)
{
	if (ws_kernel_loads_own_code() ||
	    atomic_load_explicit(&ws_rt->arena->closed, memory_order_relaxed))
		return;
	ws_kernel_note_module(resource->descriptor);
	ws_kernel_keep_cubin(resource->descriptor);
}

static void leave(uint32_t domain, const struct cupti_callback *callback)
{
	if (domain != CUPTI_DOMAIN_DRIVER || callback->site == CUPTI_SITE_ENTER ||
	    !atomic_exchange(&leaves, false))
		return;
	disable_calls();
	ws_cupti.Finalize();
}

static void handle_callback(void *data, uint32_t domain, uint32_t cbid, const void *info)
{
	(void)data;
	if (domain == CUPTI_DOMAIN_RESOURCE && cbid == CUPTI_RESOURCE_MODULE_LOADED) {
		handle_module(info);
		return;
	}
	if (parting) {
		if (domain == CUPTI_DOMAIN_DRIVER && cbid == parting_call &&
		    ((const struct cupti_callback *)info)->site != CUPTI_SITE_ENTER) {
			parting = false;
			ws_cupti.Finalize();
		}
		return;
	}
	if (inside)
		return;
	if (atomic_load_explicit(&ws_rt->arena->closed, memory_order_relaxed)) {
		ws_kernel_end_call();
		return;
	}
	if (atomic_load_explicit(&leaves, memory_order_relaxed))
		leave(domain, info);
	else if (domain == CUPTI_DOMAIN_DRIVER || domain == CUPTI_DOMAIN_RUNTIME)
		handle_call(domain == CUPTI_DOMAIN_RUNTIME, cbid, info);
}

/* ---- starting ---- */

static bool needs_profiler_calls(void)
{
	return !strcmp(ws_kernel_settings.from_start, "off") || ws_kernel_measures_ranges();
}

struct ws_kernel_subject ws_kernel_find_subject(bool runtime, const char *name)
{
	int memory = runtime ? 0 : ws_kernel_find_memory_call(name);
	struct ws_kernel_subject subject = {0};

	for (size_t i = 0; !runtime && i < WS_COUNT(launch_calls); i++)
		if (!strcmp(launch_calls[i].name, name)) {
			subject.what = CALL_LAUNCH;
			subject.detail = (uint8_t)launch_calls[i].call;
			subject.per_thread = launch_calls[i].per_thread;
		}
	if (memory) {
		subject.what = CALL_MEMORY;
		subject.detail = (uint8_t)memory;
	}
	if (!runtime && *ws_kernel_settings.batch && strstr(name, "Synchronize"))
		subject.what = CALL_WAIT;
	if (!runtime && ws_kernel_keeps_memory() && ws_kernel_ends_batch(name)) {
		subject.what = CALL_END;
		subject.detail = NO_ATTRIBUTE;
		if (!strcmp(name, "cuFuncSetAttribute"))
			subject.detail = OF_FUNCTION;
		else if (!strcmp(name, "cuKernelSetAttribute"))
			subject.detail = OF_KERNEL;
	}
	if (!runtime && ws_kernel_keeps_memory() && ws_kernel_forbids_batches(name))
		subject.what = CALL_SHARE;
	if (!runtime &&
	    (!strncmp(name, "cuMemcpy", 8) || !strncmp(name, "cuMemset", 8) ||
	     !strncmp(name, "cuStreamWriteValue", 18) || !strncmp(name, "cuStreamBatchMemOp", 18)))
		subject.what = CALL_WORK;
	if (needs_profiler_calls() && strstr(name, "ProfilerStart"))
		subject.what = CALL_PROFILER_START;
	else if (needs_profiler_calls() && strstr(name, "ProfilerStop"))
		subject.what = CALL_PROFILER_STOP;
	if (!subject.what && !runtime && ws_kernel_find_graph_call(name)) {
		subject.what = CALL_GRAPH;
		subject.detail = (uint8_t)ws_kernel_find_graph_call(name);
	}
	if (!subject.what && !runtime && ws_kernel_repeats_ranges() &&
	    !ws_kernel_may_ignore_call(name))
		subject.what = CALL_OTHER;
	return subject;
}

/* Callback ids by names, as the present CUPTI spells them. Where calls are seen without CUPTI, it
 * tells of modules only. */
static void enable_calls(void)
{
	for (int runtime = 0; runtime < 2; runtime++)
		for (uint32_t cbid = 1; cbid < WS_CUDA_CBIDS; cbid++) {
			const char *name = NULL;

			if (ws_cupti.GetCallbackName(domains[runtime], cbid, &name) || !name)
				continue;
			if (!runtime && !strcmp(name, "cuDeviceGetName"))
				parting_call = cbid;
			if (ws_kernel_is_direct())
				continue;
			calls[runtime][cbid] = ws_kernel_find_subject(runtime, name);
			if (calls[runtime][cbid].what)
				ws_cupti.EnableCallback(1, subscriber, domains[runtime], cbid);
		}
	ws_cupti.EnableCallback(1, subscriber, CUPTI_DOMAIN_RESOURCE, CUPTI_RESOURCE_MODULE_LOADED);
}

static int subscribe(char *other, size_t room)
{
	struct cupti_subscriber_params params = {sizeof(params), "warpsight kernel", other, room};
	int rc = CUPTI_ERR_NOT_SUPPORTED;

	if (ws_cupti.Subscribe_v2)
		rc = ws_cupti.Subscribe_v2(&subscriber, handle_callback, NULL, &params);
	if (rc == CUPTI_ERR_NOT_SUPPORTED || rc == CUPTI_ERR_INVALID_PARAMETER)
		rc = ws_cupti.Subscribe(&subscriber, handle_callback, NULL);
	return rc;
}

/*
 * CUPTI permits to be left at the end of a call only, and breaks down if it is subscribed to again
 * before that call has returned. So a call is made for the purpose.
 */
bool ws_kernel_leave_cupti(void)
{
	char name[64];

	if (!ws_cupti.Finalize || !parting_call)
		return false;
	ws_cupti.EnableCallback(0, subscriber, CUPTI_DOMAIN_RESOURCE, CUPTI_RESOURCE_MODULE_LOADED);
	ws_cupti.EnableCallback(1, subscriber, CUPTI_DOMAIN_DRIVER, parting_call);
	parting = true;
	ws_kernel_driver.device_name(name, sizeof(name), 0);
	if (!parting)
		return true;
	parting = false;
	ws_cupti.EnableCallback(0, subscriber, CUPTI_DOMAIN_DRIVER, parting_call);
	return false;
}

bool ws_kernel_join_cupti(void)
{
	char other[128];

	return !subscribe(other, sizeof(other)) &&
	       !ws_cupti.EnableCallback(1, subscriber, CUPTI_DOMAIN_RESOURCE,
					CUPTI_RESOURCE_MODULE_LOADED);
}

void ws_kernel_ignore_modules(void)
{
	ws_cupti.EnableCallback(0, subscriber, CUPTI_DOMAIN_RESOURCE, CUPTI_RESOURCE_MODULE_LOADED);
}

static void read_settings(void)
{
	static const struct {
		const char *name;
		size_t offset;
	} names[] = {
#define X(member, name) {name, offsetof(struct ws_kernel_settings, member)},
		WS_KERNEL_SETTINGS(X)
#undef X
	};
	const char *text = ws_rt->arena->text + ws_rt->arena->text_kernel;
	const char *end = ws_rt->arena->text + WS_ARENA_TEXT;

	for (size_t i = 0; i < WS_COUNT(names); i++)
		*(const char **)((char *)&ws_kernel_settings + names[i].offset) = "";
	for (; text < end && *text; text += strlen(text) + 1)
		for (size_t i = 0; i < WS_COUNT(names); i++) {
			size_t n = strlen(names[i].name);

			if (!strncmp(text, names[i].name, n) && text[n] == '=')
				*(const char **)((char *)&ws_kernel_settings + names[i].offset) =
					text + n + 1;
		}
}

bool ws_kernel_keeps_memory(void)
{
	return *ws_kernel_settings.batch || ws_kernel_repeats_ranges();
}

/* With --target-processes application-only: the program that warpsight started. */
static bool is_wanted_process(void)
{
	return !*ws_kernel_settings.only_application ||
	       ws_raw_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0) == ws_rt->arena->recorder_pid;
}

/* Of several runs of the program the first one says it. A forked child has no CUDA. */
static void say_nothing_chosen(void)
{
	if (starting_process == ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0) &&
	    !atomic_load(&ws_rt->arena->closed) && !strtoull(ws_kernel_settings.run, NULL, 10))
		ws_kernel_say_nothing_chosen();
}

static void start(void)
{
	const char *tool = ws_find_gpu_tool(environ);
	char other[128] = "";
	int rc;

	read_settings();
	if (!is_wanted_process())
		return;
	if (tool) {
		ws_kernel_report(WS_WARNING,
				 "Kernels are not measured: %s has CUDA for itself. Run the "
				 "program without it.",
				 tool);
		return;
	}
	if (!ws_kernel_bind_driver() || !ws_cuda_find_cupti() || ws_kernel_prepare_filters() ||
	    ws_kernel_prepare_runs())
		return;
	ws_kernel_prepare_direct();
	rc = subscribe(other, sizeof(other));
	other[sizeof(other) - 1] = 0;
	if (rc == CUPTI_ERR_MULTIPLE_SUBSCRIBERS)
		ws_kernel_report(WS_WARNING,
				 "Kernels are not measured: another tool profiles or debugs this "
				 "program already: %s. Run it without that tool.",
				 *other ? other
					: "a debugger, a profiler, or a library that "
					  "traces CUDA");
	else if (rc)
		ws_kernel_report(WS_WARNING, "Kernels are not measured: CUPTI refuses: %s.",
				 ws_cuda_report_error(rc));
	else {
		enable_calls();
		ws_kernel_begin_direct();
		ws_kernel_prepare_units();
		starting_process = ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
		atexit(say_nothing_chosen);
		if (ws_find_symbol("MPI_Init")) /* network cards may write to device memory */
			ws_kernel_forbid_batches();
	}
}

/* The driver calls this while it initialises. Any return value but 1 would make CUDA fail in the
 * program. */
WS_EXPORT int InitializeInjection(void);
WS_EXPORT int InitializeInjection(void)
{
	static _Atomic bool started;

	ws_rt_init();
	if (ws_rt->arena && ws_rt->features & WS_FEATURE_KERNEL &&
	    !atomic_load(&ws_rt->arena->closed) && !atomic_exchange(&started, true))
		start();
	return 1;
}
