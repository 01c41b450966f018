/*
 * openmp.c - the OpenMP trace: a tool as OMPT defines them. A runtime that has OMPT (LLVM's,
 * Intel's, AMD's, NVIDIA's) looks for ompt_start_tool when it begins, finds the one here because
 * this library is preloaded, and calls back at the events that the tool has asked for.
 *
 * A thread keeps what it has begun in a list of its own and writes one record when that is over. A
 * record needs no lock: numbers of regions and tasks are made of the thread's number and a count of
 * its own.
 *
 * A worker learns that a region is over only when the next one begins, so its barrier and its task
 * seem to last until then. The primary thread therefore notes when each region ended.
 *
 * GNU's libgomp has no interface for tools. If a process has loaded it, a diagnostic says so.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "inject/mapped_file.h"
#include "inject/ompt_abi.h"
#include "inject/rt.h"
#include "ring/openmp_record.h"
#include "schema/openmp.h"
#include "schema/schema.h"

enum { MOST_OPEN = 64, REGIONS_KEPT = 1024 };

struct open_scope { /* what a thread has begun */
	uint64_t start, parallel, task, other, code;
	uint32_t what;
	uint8_t kind; /* enum ws_openmp_kind */
};

/* What a thread keeps, in a page of its own: thread-local memory is scarce. */
struct tool_thread {
	uint32_t generation; /* of the process (ws_rt.generation) that it belongs to */
	uint32_t opened;
	struct open_scope open[MOST_OPEN];
};
_Static_assert(sizeof(struct tool_thread) <= WS_SMALLEST_PAGE, "a page is enough");

/* What all threads know about a region: where the program began it, and when it ended (0: not yet).
 */
struct region {
	_Atomic uint64_t parallel, code, end;
};

static __thread struct {
	struct tool_thread *kept;
	uint32_t number, count; /* number of the thread; count of what it has numbered */
} self __attribute__((tls_model("initial-exec")));
static struct region regions[REGIONS_KEPT];
static _Atomic uint32_t threads;
static bool started; /* a runtime has started with this tool */

/* ---- numbers ---- */

static WS_NOINLINE struct tool_thread *make_tool_thread(void)
{
	struct tool_thread *thread = self.kept;

	if (!thread) {
		long at = ws_raw_syscall(SYS_mmap, 0, sizeof(*thread), PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (at <= 0)
			return NULL;
		thread = self.kept = (struct tool_thread *)at;
	}
	thread->generation = ws_rt->generation;
	thread->opened = 0;
	return thread;
}

/* The calling thread's state; a forked child gets one without what its parent had open. NULL when
 * there is no memory. */
static struct tool_thread *find_tool_thread(void)
{
	if (ws_likely(self.kept && self.kept->generation == ws_rt->generation))
		return self.kept;
	return make_tool_thread();
}

static uint32_t get_thread_number(void)
{
	if (ws_unlikely(!self.number))
		self.number = atomic_fetch_add(&threads, 1) + 1;
	return self.number;
}

/* A number for a region or a task: never 0. Explicit tasks have odd ones. */
static uint64_t make_number(bool is_explicit)
{
	return (uint64_t)get_thread_number() << 33 | (uint64_t)++self.count << 1 | is_explicit;
}

static uint64_t read_number(const union ws_ompt_data *data)
{
	if (!data)
		return 0;
	return data->value;
}

static bool is_explicit_task(const union ws_ompt_data *data)
{
	return data && data->value & 1;
}

/* ---- regions ---- */

static struct region *find_region(uint64_t parallel)
{
	return &regions[((parallel >> 1) + (parallel >> 33) * 31) % REGIONS_KEPT];
}

static void note_region(uint64_t parallel, uint64_t code, uint64_t end)
{
	struct region *region = find_region(parallel);

	atomic_store_explicit(&region->parallel, 0, memory_order_release);
	atomic_store_explicit(&region->code, code, memory_order_release);
	atomic_store_explicit(&region->end, end, memory_order_release);
	atomic_store_explicit(&region->parallel, parallel, memory_order_release);
}

/* Copy what is known about the region; false if another has taken its place. */
static bool read_region(uint64_t parallel, uint64_t *code, uint64_t *end)
{
	struct region *region = find_region(parallel);

	*code = *end = 0;
	if (!parallel || atomic_load_explicit(&region->parallel, memory_order_acquire) != parallel)
		return false;
	*code = atomic_load_explicit(&region->code, memory_order_acquire);
	*end = atomic_load_explicit(&region->end, memory_order_acquire);
	return atomic_load_explicit(&region->parallel, memory_order_acquire) == parallel;
}

/* ---- records ---- */

static void write_scope(const struct open_scope *scope, uint64_t end)
{
	struct ws_rec_openmp *record;
	uint64_t region, region_end;
	struct ws_thread *thread;

	if (!ws_rt_is_collecting())
		return;
	if (!read_region(scope->parallel, &region, &region_end))
		region = region_end = 0;
	/* A worker learns of its region's end only when it is woken again. */
	if (scope->kind != WS_OPENMP_PARALLEL && region_end >= scope->start && region_end < end)
		end = region_end;
	thread = ws_rt_enter();
	if (!thread)
		return;
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_OTHER);
	if (record) {
		record->rec = ws_rec_head(WS_REC_OPENMP, sizeof(*record), scope->kind, scope->what);
		record->start = scope->start;
		record->end = end;
		record->parallel = scope->parallel;
		record->task = scope->task;
		record->other = scope->other;
		record->code = scope->code;
		record->region = region;
		ws_rt_commit(thread, record, sizeof(*record));
	}
	ws_rt_leave(thread);
}

static void write_moment(struct open_scope scope)
{
	if (!ws_rt_is_collecting())
		return;
	scope.start = ws_rt_read_ticks();
	write_scope(&scope, scope.start);
}

/* ---- what a thread has begun ---- */

static void remove_scope(struct tool_thread *thread, struct open_scope *scope)
{
	thread->opened--;
	memmove(scope, scope + 1, (size_t)((char *)&thread->open[thread->opened] - (char *)scope));
}

/* Scopes that never end (of tasks that continued elsewhere) are dropped when there is no space for
 * a new one: the oldest of the commonest kind goes first. */
static void make_room(struct tool_thread *thread)
{
	uint8_t counts[WS_OPENMP_KINDS] = {0}, most = thread->open[0].kind;
	struct open_scope *oldest = thread->open;

	for (uint32_t i = 0; i < thread->opened; i++)
		if (++counts[thread->open[i].kind] > counts[most])
			most = thread->open[i].kind;
	while (oldest->kind != most)
		oldest++;
	remove_scope(thread, oldest);
}

static void begin_scope(struct open_scope scope)
{
	struct tool_thread *thread = find_tool_thread();

	if (!thread)
		return;
	if (ws_unlikely(thread->opened == MOST_OPEN))
		make_room(thread);
	scope.start = ws_rt_read_ticks();
	thread->open[thread->opened++] = scope;
}

/* The innermost open scope of a kind; `other` and `task` must match if they are not 0. NULL for
 * none. */
static struct open_scope *find_scope(enum ws_openmp_kind kind, uint64_t task, uint64_t other)
{
	struct tool_thread *thread = find_tool_thread();

	for (uint32_t i = thread ? thread->opened : 0; i; i--) {
		struct open_scope *scope = &thread->open[i - 1];

		if (scope->kind == kind && (!task || scope->task == task) &&
		    (!other || scope->other == other))
			return scope;
	}
	return NULL;
}

static void end_scope(struct open_scope *scope)
{
	struct tool_thread *thread = self.kept;
	struct open_scope ended;
	uint64_t end;

	if (!scope)
		return;
	end = ws_rt_read_ticks();
	ended = *scope;
	remove_scope(thread, scope);
	if (ended.kind == WS_OPENMP_PARALLEL)
		note_region(ended.parallel, ended.code, end);
	write_scope(&ended, end);
}

static uint64_t get_address(const void *code)
{
	return (uint64_t)(uintptr_t)code;
}

/* For most events the same callback reports the begin and the end. */
static void follow_scope(int endpoint, struct open_scope scope)
{
	if (endpoint == WS_OMPT_BEGIN)
		begin_scope(scope);
	else if (endpoint == WS_OMPT_END)
		end_scope(find_scope((enum ws_openmp_kind)scope.kind, 0, 0));
	else if (endpoint == WS_OMPT_BEGIN_END)
		write_moment(scope);
}

/* ---- the callbacks ---- */

static void see_thread_begin(int type, union ws_ompt_data *data)
{
	data->value = get_thread_number();
	begin_scope((struct open_scope){
		.kind = WS_OPENMP_THREAD, .what = (uint32_t)type, .other = data->value});
}

static void see_thread_end(union ws_ompt_data *data)
{
	struct tool_thread *thread = self.kept;

	(void)data;
	end_scope(find_scope(WS_OPENMP_THREAD, 0, 0));
	self.kept = NULL;
	if (thread)
		ws_raw_syscall(SYS_munmap, (long)thread, sizeof(*thread), 0, 0, 0, 0);
}

static void see_parallel_begin(union ws_ompt_data *task, const void *frame,
			       union ws_ompt_data *parallel, unsigned requested, int flags,
			       const void *code)
{
	(void)frame;
	parallel->value = make_number(false);
	note_region(parallel->value, get_address(code), 0);
	begin_scope((struct open_scope){.kind = WS_OPENMP_PARALLEL,
					.what = (uint32_t)flags,
					.parallel = parallel->value,
					.task = read_number(task),
					.other = requested,
					.code = get_address(code)});
}

static void see_parallel_end(union ws_ompt_data *parallel, union ws_ompt_data *task, int flags,
			     const void *code)
{
	struct tool_thread *thread = find_tool_thread();

	(void)task, (void)flags, (void)code;
	for (uint32_t i = thread ? thread->opened : 0; i; i--)
		if (thread->open[i - 1].kind == WS_OPENMP_PARALLEL &&
		    thread->open[i - 1].parallel == read_number(parallel)) {
			end_scope(&thread->open[i - 1]);
			return;
		}
}

static void see_implicit_task(int endpoint, union ws_ompt_data *parallel, union ws_ompt_data *task,
			      unsigned size, unsigned index, int flags)
{
	if (endpoint == WS_OMPT_BEGIN) {
		task->value = make_number(false);
		if (flags & WS_OPENMP_TASK_INITIAL && parallel && !parallel->value)
			parallel->value = make_number(false);
		begin_scope((struct open_scope){.kind = WS_OPENMP_TASK,
						.what = (uint32_t)flags,
						.parallel = read_number(parallel),
						.task = task->value,
						.other = (uint64_t)size << 32 | index});
	} else if (task) {
		end_scope(find_scope(WS_OPENMP_TASK, task->value, 0));
	}
}

static void see_task_create(union ws_ompt_data *task, const void *frame,
			    union ws_ompt_data *created, int flags, int dependences,
			    const void *code)
{
	(void)frame, (void)dependences;
	if (!(flags & WS_OPENMP_TASK_EXPLICIT)) {
		created->value = make_number(false);
		return;
	}
	created->value = make_number(true);
	write_moment((struct open_scope){.kind = WS_OPENMP_TASK_CREATE,
					 .what = (uint32_t)flags,
					 .task = read_number(task),
					 .other = created->value,
					 .code = get_address(code)});
}

/* A task that waits for others continues around them while its thread runs them. */
static void see_task_schedule(union ws_ompt_data *prior, int status, union ws_ompt_data *next)
{
	write_moment((struct open_scope){.kind = WS_OPENMP_TASK_SCHEDULE,
					 .what = (uint32_t)status,
					 .task = read_number(prior),
					 .other = read_number(next)});
	if (status == WS_OMPT_TASK_EARLY_FULFILL || status == WS_OMPT_TASK_LATE_FULFILL)
		return;
	if (is_explicit_task(prior) && status != WS_OMPT_TASK_SWITCH &&
	    status != WS_OMPT_TASK_YIELD)
		end_scope(find_scope(WS_OPENMP_TASK, prior->value, 0));
	if (is_explicit_task(next) && !find_scope(WS_OPENMP_TASK, next->value, 0))
		begin_scope((struct open_scope){.kind = WS_OPENMP_TASK,
						.what = WS_OPENMP_TASK_EXPLICIT,
						.task = next->value});
}

static void see_work(int type, int endpoint, union ws_ompt_data *parallel, union ws_ompt_data *task,
		     uint64_t count, const void *code)
{
	follow_scope(endpoint, (struct open_scope){.kind = WS_OPENMP_WORKSHARE,
						   .what = (uint32_t)type,
						   .parallel = read_number(parallel),
						   .task = read_number(task),
						   .other = count,
						   .code = get_address(code)});
}

static void see_dispatch(union ws_ompt_data *parallel, union ws_ompt_data *task, int kind,
			 union ws_ompt_data instance)
{
	(void)instance;
	write_moment((struct open_scope){.kind = WS_OPENMP_DISPATCH,
					 .what = (uint32_t)kind,
					 .parallel = read_number(parallel),
					 .task = read_number(task)});
}

static void see_masked(int endpoint, union ws_ompt_data *parallel, union ws_ompt_data *task,
		       const void *code)
{
	follow_scope(endpoint, (struct open_scope){.kind = WS_OPENMP_MASTER,
						   .parallel = read_number(parallel),
						   .task = read_number(task),
						   .code = get_address(code)});
}

#define SYNC_CALLBACK(name, KIND)                                                             \
	static void name(int kind, int endpoint, union ws_ompt_data *parallel,                \
			 union ws_ompt_data *task, const void *code)                          \
	{                                                                                     \
		follow_scope(endpoint, (struct open_scope){.kind = WS_OPENMP_##KIND,          \
							   .what = (uint32_t)kind,            \
							   .parallel = read_number(parallel), \
							   .task = read_number(task),         \
							   .code = get_address(code)});       \
	}
SYNC_CALLBACK(see_sync_region, SYNC_REGION)
SYNC_CALLBACK(see_sync_wait, SYNC_REGION_WAIT)
SYNC_CALLBACK(see_reduction, REDUCTION)

static void see_mutex_acquire(int kind, unsigned hint, unsigned implementation, uint64_t wait,
			      const void *code)
{
	(void)hint, (void)implementation;
	begin_scope((struct open_scope){.kind = WS_OPENMP_MUTEX_WAIT,
					.what = (uint32_t)kind,
					.other = wait,
					.code = get_address(code)});
}

static void see_mutex_acquired(int kind, uint64_t wait, const void *code)
{
	end_scope(find_scope(WS_OPENMP_MUTEX_WAIT, 0, wait));
	begin_scope((struct open_scope){.kind = WS_OPENMP_CRITICAL_SECTION,
					.what = (uint32_t)kind,
					.other = wait,
					.code = get_address(code)});
}

static void see_mutex_released(int kind, uint64_t wait, const void *code)
{
	(void)kind, (void)code;
	end_scope(find_scope(WS_OPENMP_CRITICAL_SECTION, 0, wait));
}

static void see_lock_init(int kind, unsigned hint, unsigned implementation, uint64_t wait,
			  const void *code)
{
	(void)hint, (void)implementation;
	write_moment((struct open_scope){.kind = WS_OPENMP_LOCK_INIT,
					 .what = (uint32_t)kind,
					 .other = wait,
					 .code = get_address(code)});
}

static void see_lock_destroy(int kind, uint64_t wait, const void *code)
{
	write_moment((struct open_scope){.kind = WS_OPENMP_LOCK_DESTROY,
					 .what = (uint32_t)kind,
					 .other = wait,
					 .code = get_address(code)});
}

static void see_flush(union ws_ompt_data *thread, const void *code)
{
	write_moment((struct open_scope){
		.kind = WS_OPENMP_FLUSH, .other = read_number(thread), .code = get_address(code)});
}

static void see_cancel(union ws_ompt_data *task, int flags, const void *code)
{
	write_moment((struct open_scope){.kind = WS_OPENMP_CANCEL,
					 .what = (uint32_t)flags,
					 .task = read_number(task),
					 .code = get_address(code)});
}

/* What OMPT passes. */
#define TARGET_ARGUMENTS                                              \
	int kind, int endpoint, int device, union ws_ompt_data *task, \
		union ws_ompt_data *target_task, union ws_ompt_data *target, const void *code
#define TARGET_DATA_ARGUMENTS                                                                      \
	int endpoint, union ws_ompt_data *target_task, union ws_ompt_data *target,                 \
		uint64_t *operation, int type, void *source, int source_device, void *destination, \
		int destination_device, size_t bytes, const void *code

static void see_target(TARGET_ARGUMENTS)
{
	(void)target_task;
	if (endpoint == WS_OMPT_BEGIN && target)
		target->value = make_number(false);
	follow_scope(endpoint, (struct open_scope){.kind = WS_OPENMP_TARGET,
						   .what = (uint32_t)kind,
						   .parallel = read_number(target),
						   .task = read_number(task),
						   .other = (uint32_t)device,
						   .code = get_address(code)});
}

static void see_target_data(TARGET_DATA_ARGUMENTS)
{
	(void)operation, (void)source, (void)source_device, (void)destination;
	(void)destination_device;
	follow_scope(endpoint, (struct open_scope){.kind = WS_OPENMP_TARGET_DATA,
						   .what = (uint32_t)type,
						   .parallel = read_number(target),
						   .task = read_number(target_task),
						   .other = bytes,
						   .code = get_address(code)});
}

static void see_target_submit(int endpoint, union ws_ompt_data *target, uint64_t *operation,
			      unsigned teams)
{
	(void)operation;
	follow_scope(endpoint, (struct open_scope){.kind = WS_OPENMP_TARGET_SUBMIT,
						   .parallel = read_number(target),
						   .other = teams});
}

/* ---- the tool ---- */

static const struct {
	enum ws_ompt_callback which;
	ws_ompt_function callback;
} wanted[] = {
#define WANTED(which, function)                             \
	{                                                   \
		WS_OMPT_##which, (ws_ompt_function)function \
	}
	WANTED(THREAD_BEGIN, see_thread_begin),
	WANTED(THREAD_END, see_thread_end),
	WANTED(PARALLEL_BEGIN, see_parallel_begin),
	WANTED(PARALLEL_END, see_parallel_end),
	WANTED(TASK_CREATE, see_task_create),
	WANTED(TASK_SCHEDULE, see_task_schedule),
	WANTED(IMPLICIT_TASK, see_implicit_task),
	WANTED(SYNC_REGION_WAIT, see_sync_wait),
	WANTED(MUTEX_RELEASED, see_mutex_released),
	WANTED(WORK, see_work),
	WANTED(MASKED, see_masked),
	WANTED(SYNC_REGION, see_sync_region),
	WANTED(LOCK_INIT, see_lock_init),
	WANTED(LOCK_DESTROY, see_lock_destroy),
	WANTED(MUTEX_ACQUIRE, see_mutex_acquire),
	WANTED(MUTEX_ACQUIRED, see_mutex_acquired),
	WANTED(FLUSH, see_flush),
	WANTED(CANCEL, see_cancel),
	WANTED(REDUCTION, see_reduction),
	WANTED(DISPATCH, see_dispatch),
	WANTED(TARGET_EMI, see_target),
	WANTED(TARGET_DATA_OP_EMI, see_target_data),
	WANTED(TARGET_SUBMIT_EMI, see_target_submit),
};

static int begin_tool(ws_ompt_lookup lookup, int device, union ws_ompt_data *tool)
{
	ws_ompt_set_callback set_callback = (ws_ompt_set_callback)lookup("ompt_set_callback");

	(void)device, (void)tool;
	if (!set_callback)
		return 0;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		set_callback(wanted[i].which, wanted[i].callback);
	started = true;
	return 1;
}

/* Workers report nothing more: what the last thread has open ends here. */
static void end_tool(union ws_ompt_data *tool)
{
	struct tool_thread *thread = find_tool_thread();

	(void)tool;
	while (thread && thread->opened)
		end_scope(&thread->open[thread->opened - 1]);
}

static bool is_openmp_wanted(void)
{
	ws_rt_init();
	return ws_rt->arena && ws_rt->features & WS_FEATURE_OPENMP;
}

WS_EXPORT struct ws_ompt_start_tool_result *ompt_start_tool(unsigned version, const char *runtime);
struct ws_ompt_start_tool_result *ompt_start_tool(unsigned version, const char *runtime)
{
	static struct ws_ompt_start_tool_result result = {begin_tool, end_tool, {0}};
	const char *others = getenv("OMP_TOOL_LIBRARIES");

	(void)version, (void)runtime;
	if (!is_openmp_wanted())
		return NULL;
	if (others && *others) {
		ws_rt_write_diagnostic(
			WS_WARNING, "openmp",
			"OpenMP is not recorded in this process: a runtime takes one "
			"tool, and OMP_TOOL_LIBRARIES names another. Unset it to "
			"record OpenMP.");
		return NULL;
	}
	return &result;
}

/* ---- runtimes without OMPT ---- */

static void report_gnu_runtime(void)
{
	if (started || !is_openmp_wanted() || !ws_is_file_mapped("/libgomp") ||
	    ws_is_file_mapped("/libomp.") || ws_is_file_mapped("/libiomp5"))
		return;
	ws_rt_write_diagnostic(WS_WARNING, "openmp",
			       "The program uses GNU's OpenMP runtime (libgomp), which has no "
			       "interface for tools (OMPT): its parallel regions are not recorded. "
			       "LLVM's runtime has one and runs programs built by GCC too: "
			       "--env-var=LD_PRELOAD=libomp.so.5, or build with clang -fopenmp.");
}

__attribute__((constructor(103))) static void look_at_start(void)
{
	report_gnu_runtime();
}

/* For a runtime that the program opened with dlopen. */
__attribute__((destructor)) static void look_at_end(void)
{
	if (!ws_rt_is_sandboxed())
		report_gnu_runtime();
}
