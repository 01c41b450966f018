/*
 * usage.c - see usage.h.
 *
 * A sample in the kernel has the kernel's functions innermost: one of them is the entry of a system
 * call, or of a page fault. The first function outside is the one of the C library that made the
 * call. Where the kernel may not be sampled, only the function of the C library is seen, and time
 * in the kernel counts for what ran before it: the shares are then rough, but the names are right.
 *
 * Stacks of equal keys are classified once; several workers have a share of the keys each. Samples
 * stand for time on cores; the sum of a thread's samples is scaled to the time that it ran, which
 * is more exact.
 */
#include "analyze/usage.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/facts.h"
#include "analyze/parallel.h"
#include "analyze/stack_keys.h"
#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/search.h"

/* ---- what a stack does ---- */

struct stack_use {
	uint8_t kind;
	bool in_kernel, copying;
	bool own; /* code of the place's function itself, not of a library that it called */
	const char *name;
	struct ws_code_place place;
};

/* Names of calls, as the kernel and the C library have them, by what they do. */
static const struct {
	enum ws_usage_kind kind;
	const char *names[24];
} call_kinds[] = {
	{WS_USAGE_POLL,
	 {"sched_yield", "poll", "ppoll", "select", "pselect*", "epoll_wait", "epoll_pwait*",
	  "nanosleep", "clock_nanosleep*", "usleep", "pthread_spin_*", "pthread_mutex_trylock",
	  "sem_trywait", "sched_getcpu", NULL}},
	{WS_USAGE_TRANSFER,
	 {"read", "pread*", "readv", "write", "pwrite*", "writev", "recv*", "send*", "lseek*",
	  "__read*", "__write*", "__libc_read", "__libc_write", "__GI___read*", "__GI___write*",
	  "__GI___libc_read", "__GI___libc_write", NULL}},
	{WS_USAGE_FILE, {"open*",     "close",	  "stat*",  "fstat*",	"lstat*",    "newfstat*",
			 "newlstat*", "newstat*", "access", "faccess*", "readlink*", "getdents*",
			 "unlink*",   "rename*",  "mkdir*", "rmdir",	"truncate*", "ftruncate*",
			 "chmod",     "fcntl*",	  "getcwd", "__open*",	"__close*",  NULL}},
	{WS_USAGE_MEMORY, {"mmap*", "munmap*", "mremap*", "brk", "madvise*", "mprotect*", NULL}},
	{WS_USAGE_THREAD,
	 {"clone*", "fork", "vfork", "exit", "exit_group", "execve*", "wait4", "waitid", "waitpid",
	  NULL}},
	{WS_USAGE_LOCK, {"futex*", NULL}},
	{WS_USAGE_OTHER_CALL,
	 {"clock_gettime", "__vdso_clock_gettime", "gettimeofday", "__vdso_gettimeofday", NULL}},
};

static bool classify_name(const char *name, uint8_t *kind)
{
	for (size_t i = 0; i < WS_COUNT(call_kinds); i++)
		if (ws_is_name_among(name, strlen(name), call_kinds[i].names)) {
			*kind = (uint8_t)call_kinds[i].kind;
			return true;
		}
	return false;
}

static bool is_gpu_query(const char *function)
{
	static const char *const names[] = {"cudaStreamQuery*", "cudaEventQuery*", "cuStreamQuery*",
					    "cuEventQuery*", NULL};

	return ws_is_name_among(function, strlen(function), names);
}

bool ws_is_allocator(const char *function)
{
	static const char *const names[] = {
		"malloc", "free",	    "calloc",	     "realloc",		 "memalign",
		"cfree",  "posix_memalign", "operator new*", "operator delete*", "aligned_alloc",
		NULL};

	return ws_is_name_among(function, strlen(function), names);
}

bool ws_is_locking_function(const char *function)
{
	static const char *const names[] = {"pthread_mutex_*",
					    "pthread_rwlock_*",
					    "sem_wait*",
					    "mtx_lock",
					    "flockfile",
					    "GOMP_critical_*",
					    "GOMP_atomic_*",
					    "omp_set_*lock*",
					    "kmpc_critical*",
					    "kmpc_set_lock*",
					    "std::sys::sync::mutex*",
					    "sync.(*Mutex)*",
					    "sync.(*RWMutex)*",
					    NULL};

	function += strspn(function, "_<"); /* methods of Rust begin with a bracket */
	return ws_is_allocator(function) || ws_is_name_among(function, strlen(function), names);
}

/* "newfstatat" of "__do_sys_newfstatat"; NULL for a function that no system call begins with. */
static const char *find_call_name(const char *function)
{
	static const char *const beginnings[] = {"__x64_sys_", "__arm64_sys_", "__do_sys_",
						 "__se_sys_",  "ksys_",	       "do_sys_"};

	for (size_t i = 0; i < WS_COUNT(beginnings); i++)
		if (!strncmp(function, beginnings[i], strlen(beginnings[i])))
			return function + strlen(beginnings[i]);
	return NULL;
}

static bool contains_any(const char *name, const char *const *parts)
{
	for (; *parts; parts++)
		if (strstr(name, *parts))
			return true;
	return false;
}

/* What the names of a function and of its module show, whatever stack it is on. */
enum function_marks {
	MARK_KNOWN = 1, /* the others have been classified */
	MARK_KERNEL = 2,
	MARK_FAULT = 4,
	MARK_FILE_FAULT = 8,
	MARK_COPYING = 16,
	MARK_DRIVER = 32,
	MARK_OPENMP = 64,
	MARK_NAMED = 128,   /* `kind` is that of its name */
	MARK_LOCKING = 256, /* takes locks: of an allocator, or for the user */
	MARK_QUERY = 512,   /* asks a GPU whether it is done */
	MARK_SIGNAL = 1024, /* delivers a signal, or ends its handler */
};

struct function_view {
	const char *name; /* of the kernel: the system call, or NULL */
	uint16_t marks;
	uint8_t kind;
};

static uint16_t mark_kernel_function(const char *name)
{
	static const char *const faults[] = {"exc_page_fault", "do_user_addr_fault",
					     "do_page_fault", "do_mem_abort", NULL};
	static const char *const file_faults[] = {"filemap_fault",     "do_read_fault",
						  "do_shared_fault",   "do_swap_page",
						  "filemap_map_pages", NULL};
	static const char *const copies[] = {"copy_to_iter", "copy_from_iter",
					     "copy_user",    "copy_page",
					     "rep_movs",     "memcpy",
					     "clear_page",   NULL};
	static const char *const signals[] = {"signal_or_restart", "do_signal", "rt_sigreturn",
					      NULL};
	uint16_t marks = MARK_KERNEL;

	if (contains_any(name, signals))
		marks |= MARK_SIGNAL;
	if (contains_any(name, faults))
		marks |= MARK_FAULT;
	if (contains_any(name, file_faults))
		marks |= MARK_FILE_FAULT;
	if (contains_any(name, copies))
		marks |= MARK_COPYING;
	return marks;
}

/* Work that the GPU's driver and its libraries do for themselves is not the program's. The runtimes
 * of OpenMP run little code of their own: threads wait in them for each other. */
static uint16_t mark_module(const char *origin)
{
	static const char *const drivers[] = {"libcuda", "libcupti", "libnvidia", NULL};
	static const char *const openmp[] = {"/libgomp.", "/libomp.", "/libiomp", NULL};
	uint16_t marks = 0;

	if (contains_any(origin, drivers))
		marks |= MARK_DRIVER;
	if (contains_any(origin, openmp))
		marks |= MARK_OPENMP;
	return marks;
}

/* Whether a function is of the C library, or of ours that stands before it: the program may have
 * functions of its own that are called like system calls (send_all, open_table). */
static bool is_of_c_library(const struct ws_function *function, const char *origin)
{
	static const char *const parts[] = {"/libc.so", "/libc-2.", "/libpthread",  "/libc.musl",
					    "/ld-musl", "[vdso]",   "libwarpsight", NULL};

	return !*origin || function->unresolved || contains_any(origin, parts);
}

static struct function_view view_function(const struct ws_model *model, uint32_t number)
{
	const struct ws_function *function = ws_stacks_get_function(model->stacks, number);
	const char *origin = ws_stacks_get_origin(model->stacks, function);
	struct function_view view = {.name = function->name, .marks = MARK_KNOWN};

	view.marks |= mark_module(origin);
	if (function->kind == WS_FRAME_KERNEL) {
		view.marks |= mark_kernel_function(function->name);
		view.name = find_call_name(function->name);
	} else if (!strcmp(function->name, "__restore_rt") ||
		   strstr(function->name, "_rt_sigreturn")) {
		view.marks |= MARK_SIGNAL; /* handlers return to it */
	}
	if (view.name && (function->kind == WS_FRAME_KERNEL || is_of_c_library(function, origin)) &&
	    classify_name(view.name, &view.kind))
		view.marks |= MARK_NAMED;
	if (!(view.marks & MARK_KERNEL) && ws_is_locking_function(view.name))
		view.marks |= MARK_LOCKING;
	if (!(view.marks & MARK_KERNEL) && is_gpu_query(view.name))
		view.marks |= MARK_QUERY;
	return view;
}

/* What the kernel's frames of a stack show. */
struct kernel_view {
	uint16_t marks;			  /* marks of all of them */
	const struct function_view *call; /* the outermost that is a system call; NULL for none */
};

/* The function that the user's code called in the kernel or, without one, in a library. */
static void name_call(const struct kernel_view *kernel, const struct function_view *outside,
		      struct stack_use *use)
{
	static const struct function_view nothing = {.name = ""};
	const struct function_view *called = outside ? outside : &nothing, *call = kernel->call;

	/* An interrupt, the start of a program, or the cost of recording. */
	if ((kernel->marks && !call) || !strncmp(called->name, "ws_", 3))
		return;
	if (call && (*called->name == '_' || *called->name == '[' || !*called->name))
		called = call;
	if (called->marks & MARK_NAMED)
		use->kind = called->kind;
	else if (call && (call->marks & MARK_NAMED))
		use->kind = call->kind;
	else if (call)
		use->kind = WS_USAGE_OTHER_CALL;
	else
		return;
	use->name = called->name;
}

/* ---- sums ---- */

enum {
	BATCH = 64, /* samples whose stacks are prefetched together */
	MOST_PARTS = 4,
	LEAST_TO_SHARE = 200000 /* samples */
};

/* Stacks of one kind, call and function, which share a row in each thread. */
struct use_group {
	uint8_t kind;
	uint32_t function;
	const char *name;
	uint32_t thread, row; /* 1 + the row of the thread that was seen last; 0 for none */
};

struct stack_view {
	uint32_t frame, callers, group;
	bool in_kernel, copying, own;
};

/* What is kept of a stack, of which there may be millions; its group above. */
enum of_stack {
	STACK_KNOWN = 1,
	STACK_IN_KERNEL = 2,
	STACK_COPYING = 4,
	STACK_OWN = 8,
	STACK_GROUP_SHIFT = 4
};

/* When each thread ran on the path. The path is long, and each thread has few of its pieces. */
struct path_runs {
	struct ws_span *runs; /* by thread and time */
	size_t *first;	      /* by thread: its first run; then the end of all */
};

/* What one worker sums up: the samples of its share of all stacks, so that each stack is classified
 * by one worker only. */
struct usage_sum {
	const struct ws_model *model;
	const struct path_runs *path;
	uint32_t part, parts;
	struct ws_usage usage;
	struct function_view *functions; /* by number; `marks` is 0 where not yet looked at */
	const struct ws_stack_keys *keys;
	uint32_t *views;      /* by number of a key: enum of_stack; NULL where keys are too many */
	struct ws_map stacks; /* the same by key, where `views` is NULL */
	size_t run;	      /* of `path`, at the last sample of the thread */
	struct ws_map group_index; /* hash of a group's identity: 1 + its number */
	struct use_group *groups;
	size_t group_count, group_cap;
	struct ws_map rows;    /* group << 32 | thread: 1 + its number */
	uint64_t *sampled;     /* by thread: what its samples stand for */
	const uint8_t *wanted; /* by thread: of the explained process or of one it started */
};

static const struct function_view *get_view(const struct usage_sum *sum, uint32_t frame)
{
	const struct ws_stacks *stacks = sum->model->stacks;
	const struct ws_frame_info *info = ws_stacks_get_frame(stacks, frame);
	uint32_t number = ws_stacks_get_places(stacks, info)->function;

	if (!sum->functions[number].marks)
		sum->functions[number] = view_function(sum->model, number);
	return &sum->functions[number];
}

/* Where no frame outside of the kernel is known (stacks that were cut), samples of one call have as
 * many places as the call has functions in the kernel: they are kept together by the call. */
static void forget_kernel_place(const struct ws_model *model, struct stack_use *use)
{
	const struct ws_function *function =
		ws_stacks_get_function(model->stacks, use->place.function);

	if (use->kind != WS_USAGE_CODE && !use->place.users && !use->place.python &&
	    function->kind == WS_FRAME_KERNEL)
		use->place = (struct ws_code_place){.loader = use->place.loader,
						    .library = use->place.library};
}

/* The function of a library by which the user's code made the call, where it is another one. */
static uint32_t choose_leaf(const struct ws_model *model, const struct stack_use *use)
{
	const struct ws_function *called = ws_stacks_get_function(model->stacks, use->place.called);

	if (use->kind == WS_USAGE_CODE || !use->place.called || !use->place.users ||
	    strstr(called->name, use->name) || called->unresolved)
		return use->place.function;
	return use->place.called;
}

/* What an event loop does for itself is not the work of the code that runs it. */
static void leave_to_loop(const struct ws_model *model, struct ws_code_place *place)
{
	const struct ws_function *called = ws_stacks_get_function(model->stacks, place->called);

	if (place->library != WS_LIBRARY_LOOP || !place->called ||
	    !strstr(ws_stacks_get_origin(model->stacks, called), "/asyncio/"))
		return;
	place->function = place->called;
	place->file = place->line = 0;
	place->users = 0;
}

/* Functions that lock try first, as those of our hooks do: that is no asking again and again. */
static bool only_tries_for(const struct function_view *tried, const struct function_view *caller)
{
	return tried && (caller->marks & MARK_LOCKING) && strstr(tried->name, "trylock") &&
	       !strstr(caller->name, "try");
}

/* Whether a frame is of a function, or of one that was inlined into it. */
static bool runs_function(const struct ws_model *model, uint32_t frame, uint32_t function)
{
	const struct ws_frame_info *info = ws_stacks_get_frame(model->stacks, frame);
	const struct ws_place *places = ws_stacks_get_places(model->stacks, info);
	bool found = false;

	for (uint32_t k = 0; k < info->count; k++)
		found |= places[k].function == function;
	return found;
}

static struct stack_use classify_stack(const struct usage_sum *sum, uint32_t frame, uint32_t stack)
{
	uint32_t frames[WS_CODE_DEEPEST];
	size_t count =
		ws_stacks_list_frames(sum->model->stacks, frame, stack, frames, WS_CODE_DEEPEST);
	const struct function_view *outside = NULL, *lock = NULL, *query = NULL;
	struct stack_use use = {.kind = WS_USAGE_CODE, .name = ""};
	struct kernel_view kernel = {0};
	uint16_t all = 0;

	for (size_t i = 0; i < count; i++) {
		const struct function_view *view = get_view(sum, frames[i]);

		all |= view->marks;
		if (!(view->marks & MARK_KERNEL)) {
			if (only_tries_for(outside, view))
				outside = lock = view;
			outside = ws_or(outside, view);
			if (view->marks & MARK_LOCKING)
				lock = ws_or(lock, view);
			if (view->marks & MARK_QUERY)
				query = view;
			continue;
		}
		kernel.marks |= view->marks;
		if (view->name)
			kernel.call = view;
	}
	if (query)
		use = (struct stack_use){.kind = WS_USAGE_POLL, .name = query->name};
	else if (outside && (outside->marks & MARK_OPENMP))
		use.kind = lock ? WS_USAGE_LOCK : WS_USAGE_BARRIER;
	else if (all & MARK_DRIVER)
		use.kind = WS_USAGE_CODE;
	else if ((kernel.marks & MARK_FAULT) && !kernel.call)
		use.kind = kernel.marks & MARK_FILE_FAULT ? WS_USAGE_FILE_FAULT : WS_USAGE_FAULT;
	else
		name_call(&kernel, outside, &use);
	if (use.kind != WS_USAGE_BARRIER && (all & MARK_SIGNAL))
		use = (struct stack_use){.kind = WS_USAGE_SIGNAL,
					 .name = kernel.marks & MARK_SIGNAL ? "" : "handler"};
	if (use.kind == WS_USAGE_LOCK && lock)
		use.name = lock->name;
	use.in_kernel = (get_view(sum, frame)->marks & MARK_KERNEL) != 0;
	use.copying = (kernel.marks & MARK_COPYING) != 0;
	use.place = ws_code_place_frames(sum->model, frames, count);
	use.own = count && runs_function(sum->model, frames[0], use.place.function);
	leave_to_loop(sum->model, &use.place);
	use.place.leaf = choose_leaf(sum->model, &use);
	forget_kernel_place(sum->model, &use);
	return use;
}

static bool is_group_of(const struct use_group *group, const struct stack_use *use)
{
	return group->kind == use->kind && group->function == use->place.function &&
	       !strcmp(group->name, use->name);
}

static uint64_t hash_use(const struct stack_use *use)
{
	uint64_t hash = use->place.function;

	for (const char *at = use->name; *at; at++)
		hash = (hash ^ (uint8_t)*at) * UINT64_C(0x9e3779b97f4a7c15) + (hash >> 29);
	return hash + use->kind;
}

static uint32_t find_group(struct usage_sum *sum, const struct stack_use *use)
{
	uint64_t hash = hash_use(use), at;

	while ((at = ws_map_get(&sum->group_index, hash, NULL)) &&
	       !is_group_of(&sum->groups[at - 1], use))
		hash++;
	if (!at) {
		ws_grow(sum->groups, sum->group_cap, sum->group_count + 1);
		sum->groups[sum->group_count] = (struct use_group){
			.kind = use->kind, .function = use->place.function, .name = use->name};
		at = ++sum->group_count;
		ws_map_set(&sum->group_index, hash, at);
	}
	return (uint32_t)(at - 1);
}

static uint32_t get_stack(const struct usage_sum *sum, uint64_t key)
{
	if (sum->views)
		return sum->views[ws_number_stack_key(sum->keys, key)];
	return (uint32_t)ws_map_get(&sum->stacks, key, NULL);
}

static void keep_stack(struct usage_sum *sum, uint64_t key, uint32_t view)
{
	if (sum->views)
		sum->views[ws_number_stack_key(sum->keys, key)] = view;
	else
		ws_map_set(&sum->stacks, key, view);
}

static struct stack_view view_stack(struct usage_sum *sum, uint32_t frame, uint32_t callers)
{
	uint64_t key = ws_get_stack_key(sum->keys, frame, callers);
	uint32_t view = get_stack(sum, key);

	if (!view) {
		struct stack_use use = classify_stack(sum, frame, callers);

		view = STACK_KNOWN | find_group(sum, &use) << STACK_GROUP_SHIFT;
		if (use.in_kernel)
			view |= STACK_IN_KERNEL;
		if (use.copying)
			view |= STACK_COPYING;
		if (use.own)
			view |= STACK_OWN;
		keep_stack(sum, key, view);
	}
	return (struct stack_view){.frame = frame,
				   .callers = callers,
				   .group = view >> STACK_GROUP_SHIFT,
				   .in_kernel = (view & STACK_IN_KERNEL) != 0,
				   .copying = (view & STACK_COPYING) != 0,
				   .own = (view & STACK_OWN) != 0};
}

/* The row of a thread's stack; its line is that of the first stack seen. */
static uint32_t find_row(struct usage_sum *sum, uint32_t thread, const struct stack_view *stack)
{
	struct ws_usage *usage = &sum->usage;
	uint64_t key = (uint64_t)stack->group << 32 | thread,
		 at = ws_map_get(&sum->rows, key, NULL);

	if (!at) {
		struct stack_use use = classify_stack(sum, stack->frame, stack->callers);

		ws_grow(usage->rows, usage->cap, usage->count + 1);
		usage->rows[usage->count] = (struct ws_usage_row){.kind = use.kind,
								  .name = use.name,
								  .thread = thread,
								  .place = use.place,
								  .lowest = UINT64_MAX};
		at = ++usage->count;
		ws_map_set(&sum->rows, key, at);
	}
	return (uint32_t)at;
}

static uint64_t get_key(const struct usage_sum *sum, size_t i)
{
	const struct ws_samples *samples = &sum->model->samples;

	return ws_get_stack_key(sum->keys, samples->frame[i], samples->callers[i]);
}

static void prefetch_stack(const struct usage_sum *sum, uint64_t key)
{
	if (sum->views)
		__builtin_prefetch(&sum->views[ws_number_stack_key(sum->keys, key)]);
	else
		ws_map_prefetch(&sum->stacks, key);
}

static bool is_of_part(const struct usage_sum *sum, uint64_t key)
{
	uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);

	return (hash >> 24 & UINT32_MAX) * sum->parts >> 32 == sum->part;
}

/*
 * Lists the samples of this part in [from, end), which are at most BATCH, and returns how many.
 * Most of millions of stacks are not in the processor's caches: they are prefetched before their
 * turn.
 */
static size_t list_part(const struct usage_sum *sum, size_t from, size_t end, size_t *list)
{
	size_t count = 0;

	for (size_t i = from; i < end; i++) {
		list[count] = i;
		count += is_of_part(sum, get_key(sum, i));
	}
	for (size_t i = 0; i < count; i++)
		prefetch_stack(sum, get_key(sum, list[i]));
	return count;
}

static struct ws_usage_row *find_stack_row(struct usage_sum *sum, uint32_t thread,
					   const struct stack_view *stack)
{
	struct use_group *group = &sum->groups[stack->group];

	if (!group->row || group->thread != thread) {
		group->row = find_row(sum, thread, stack);
		group->thread = thread;
	}
	return &sum->usage.rows[group->row - 1];
}

static void list_path_runs(const struct ws_model *model, const struct ws_path *path,
			   struct path_runs *list)
{
	size_t threads = model->thread_count;
	size_t *next; /* by thread: where its next run goes; when all are there, its end */

	list->first = ws_calloc(threads + 2, sizeof(*list->first));
	next = list->first + 1;
	for (size_t i = 0; i < path->count; i++)
		if (path->pieces[i].kind == WS_PIECE_RUN && path->pieces[i].thread < threads)
			next[path->pieces[i].thread + 1]++;
	for (size_t i = 1; i <= threads; i++)
		next[i] += next[i - 1];
	list->runs = ws_malloc(next[threads] * sizeof(*list->runs) + 1);
	for (size_t i = 0; i < path->count; i++) {
		const struct ws_piece *piece = &path->pieces[i];

		if (piece->kind == WS_PIECE_RUN && piece->thread < threads)
			list->runs[next[piece->thread]++] =
				(struct ws_span){piece->start, piece->end};
	}
}

static void free_path_runs(struct path_runs *list)
{
	free(list->runs);
	free(list->first);
}

/* Samples of a thread are in order of time, so the search continues where the last one ended, in
 * growing steps. */
static bool is_on_path(struct usage_sum *sum, uint32_t thread, uint64_t moment)
{
	const struct path_runs *path = sum->path;
	size_t low = sum->run, end = path->first[thread + 1], high, stride = 1;

	if (low > path->first[thread] && path->runs[low - 1].end > moment)
		low = path->first[thread];
	high = low;
	while (high < end && path->runs[high].end <= moment) {
		low = high + 1;
		high += stride;
		stride *= 2;
	}
	high = ws_min(high, end);
	low = ws_find_first_not(low, high, middle, path->runs[middle].end <= moment);
	sum->run = low;
	return low < end && path->runs[low].start <= moment;
}

static void add_sample(struct usage_sum *sum, uint32_t thread, size_t i)
{
	const struct ws_model *model = sum->model;
	uint32_t frame = model->samples.frame[i];
	uint64_t at = model->samples.start[i], ns = ws_samples_get_time(&model->samples, i);
	struct ws_usage_row *row;
	struct stack_view stack;
	uint64_t address;

	if (!frame || at < model->from || at > model->to ||
	    ws_model_find_call(model, thread, at) != WS_NO_CALL)
		return; /* what calls of CUDA do inside does not count for the program */
	stack = view_stack(sum, frame, model->samples.callers[i]);
	row = find_stack_row(sum, thread, &stack);
	ns = ws_max(ns, (uint64_t)1);
	row->ns += ns;
	row->samples++;
	if (stack.in_kernel) {
		sum->usage.kernel = true;
	} else if (stack.own) {
		const struct ws_frame_info *info = ws_stacks_get_frame(model->stacks, frame);

		address = info->address;
		if (row->lowest == UINT64_MAX)
			row->module = info->module;
		else if (row->module != info->module)
			row->module = 0;
		row->lowest = ws_min(row->lowest, address);
		row->highest = ws_max(row->highest, address);
	}
	if (!row->span.start)
		row->span.start = at;
	row->span.end = at;
	if (stack.copying)
		row->copying_ns += ns;
	if (is_on_path(sum, thread, at))
		row->path_ns += ns;
	sum->sampled[thread] += ns;
}

static void add_samples(struct usage_sum *sum, uint32_t thread, size_t from, size_t end)
{
	size_t list[BATCH];

	sum->run = sum->path->first[thread];
	for (; from < end; from += BATCH) {
		size_t count = list_part(sum, from, ws_min(from + BATCH, end), list);

		for (size_t i = 0; i < count; i++)
			add_sample(sum, thread, list[i]);
	}
}

static uint64_t scale(uint64_t ns, uint64_t to, uint64_t from)
{
	return (uint64_t)((unsigned __int128)ns * to / from);
}

static void begin_part(struct usage_sum *sum)
{
	sum->sampled = ws_calloc(sum->model->thread_count, sizeof(*sum->sampled));
	sum->functions = ws_calloc(ws_stacks_count_functions(sum->model->stacks) + (size_t)1,
				   sizeof(*sum->functions));
}

/* Frees all but the result. */
static void end_part(struct usage_sum *sum)
{
	ws_map_free(&sum->stacks);
	ws_map_free(&sum->rows);
	ws_map_free(&sum->group_index);
	free(sum->groups);
	free(sum->functions);
}

static void sum_part(void *ctx, unsigned worker, size_t i)
{
	struct usage_sum *sum = (struct usage_sum *)ctx + i;

	(void)worker;
	begin_part(sum);
	for (uint32_t id = 1; id < sum->model->thread_count; id++) {
		const struct ws_model_thread *thread = &sum->model->threads[id];

		if (sum->wanted[id])
			add_samples(sum, id, thread->first_sample, thread->end_sample);
	}
	end_part(sum);
}

/* ---- the parts together ---- */

static bool is_same_row(const struct ws_usage_row *left, const struct ws_usage_row *right)
{
	return left->kind == right->kind && left->thread == right->thread &&
	       left->place.function == right->place.function && !strcmp(left->name, right->name);
}

/* The line of a row is that of the sample that came first. */
static void join_rows(struct ws_usage_row *to, const struct ws_usage_row *from)
{
	if (from->span.start < to->span.start)
		to->place = from->place;
	to->ns += from->ns;
	to->path_ns += from->path_ns;
	to->copying_ns += from->copying_ns;
	to->samples += from->samples;
	if (to->lowest == UINT64_MAX)
		to->module = from->module;
	else if (from->lowest != UINT64_MAX && from->module != to->module)
		to->module = 0;
	to->lowest = ws_min(to->lowest, from->lowest);
	to->highest = ws_max(to->highest, from->highest);
	to->span.start = ws_min(to->span.start, from->span.start);
	to->span.end = ws_max(to->span.end, from->span.end);
}

static uint64_t hash_row(const struct ws_usage_row *row)
{
	struct stack_use use = {.kind = row->kind, .name = row->name, .place = row->place};

	return hash_use(&use) * UINT64_C(0x9e3779b97f4a7c15) + row->thread;
}

static void add_row(struct ws_usage *usage, struct ws_map *index, const struct ws_usage_row *row)
{
	uint64_t hash = hash_row(row), at;

	while ((at = ws_map_get(index, hash, NULL)) && !is_same_row(&usage->rows[at - 1], row))
		hash++;
	if (at) {
		join_rows(&usage->rows[at - 1], row);
		return;
	}
	ws_grow(usage->rows, usage->cap, usage->count + 1);
	usage->rows[usage->count++] = *row;
	ws_map_set(index, hash, usage->count);
}

/* Adds up the parts, whose results are freed; `sampled` of the first becomes that of all. */
static void join_parts(struct usage_sum *sums, uint32_t parts, struct ws_usage *usage)
{
	struct ws_map index = {0};

	for (uint32_t i = 0; i < parts; i++) {
		struct ws_usage *part = &sums[i].usage;

		usage->kernel |= part->kernel;
		for (size_t k = 0; k < part->count; k++)
			add_row(usage, &index, &part->rows[k]);
		for (uint32_t id = 0; i && id < sums[i].model->thread_count; id++)
			sums->sampled[id] += sums[i].sampled[id];
		ws_usage_free(part);
	}
	ws_map_free(&index);
}

/* A thread's samples stand for the time that it ran, where that was recorded. */
static void scale_rows(const struct usage_sum *sum, struct ws_usage *usage)
{
	for (size_t i = 0; i < usage->count; i++) {
		struct ws_usage_row *row = &usage->rows[i];
		uint64_t ran = sum->model->threads[row->thread].running,
			 sampled = sum->sampled[row->thread];

		if (ran < sampled / 2 || !sampled)
			continue; /* records of when it ran were lost */
		row->ns = scale(row->ns, ran, sampled);
		row->path_ns = scale(row->path_ns, ran, sampled);
		row->copying_ns = scale(row->copying_ns, ran, sampled);
	}
}

static int compare_rows(const void *first, const void *second)
{
	const struct ws_usage_row *left = first, *right = second;

	if (left->ns != right->ns)
		return ws_compare(right->ns, left->ns);
	if (left->thread != right->thread)
		return ws_compare(left->thread, right->thread);
	return ws_compare(left->span.start, right->span.start);
}

void ws_usage_sum(const struct ws_model *model, const struct ws_path *path, struct ws_usage *usage)
{
	uint8_t *wanted = ws_calloc(model->thread_count, 1);
	struct usage_sum sums[MOST_PARTS];
	struct path_runs runs;
	struct ws_stack_keys keys;
	uint32_t *views = NULL;
	uint32_t parts = 1;

	list_path_runs(model, path, &runs);
	ws_stack_keys_make(model->stacks, &keys);
	if (ws_count_stack_keys(&keys) <= model->samples.rows)
		views = ws_calloc(ws_count_stack_keys(&keys), sizeof(*views));
	memset(usage, 0, sizeof(*usage));
	if (model->samples.rows >= LEAST_TO_SHARE)
		parts = ws_min(ws_count_workers(), (unsigned)MOST_PARTS);
	for (uint32_t id = 1; id < model->thread_count; id++)
		wanted[id] = ws_is_explained(model, ws_find_thread(model->who, id)->process);
	for (uint32_t i = 0; i < parts; i++)
		sums[i] = (struct usage_sum){.model = model,
					     .path = &runs,
					     .part = i,
					     .parts = parts,
					     .wanted = wanted,
					     .keys = &keys,
					     .views = views};
	ws_run_parallel(parts, parts, sum_part, sums);
	join_parts(sums, parts, usage);
	scale_rows(&sums[0], usage);
	if (usage->count)
		qsort(usage->rows, usage->count, sizeof(*usage->rows), compare_rows);
	for (uint32_t i = 0; i < parts; i++)
		free(sums[i].sampled);
	free_path_runs(&runs);
	ws_stack_keys_free(&keys);
	free(views);
	free(wanted);
}

void ws_usage_free(struct ws_usage *usage)
{
	free(usage->rows);
	memset(usage, 0, sizeof(*usage));
}
