/*
 * usage.c - see usage.h.
 *
 * A sample in the kernel has the kernel's functions innermost: one of them is the entry of a system
 * call, or of a page fault. The first function outside is the one of the C library that made the
 * call. Where the kernel may not be sampled, the function of the C library is all that is seen, and
 * time in the kernel stands at what ran before it: shares are then rough, names are not.
 *
 * Equal stacks are classified once. Samples stand for time on cores; the sum of a thread's samples
 * is scaled to the time that it ran, which is known better.
 */
#include "analyze/usage.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/facts.h"
#include "analyze/parallel.h"
#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"

enum { DEEPEST = 256 };

/* ---- what a stack is ---- */

struct stack_use {
	uint8_t kind;
	bool copying;
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

/* What the kernel's frames of a stack say, innermost first. */
struct kernel_view {
	bool any, fault, file_fault, copying;
	const char *call;
};

static void view_kernel_frame(struct kernel_view *view, const char *name)
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
	const char *call = find_call_name(name);

	if (!view->any)
		view->copying = contains_any(name, copies);
	view->any = true;
	view->copying |= contains_any(name, copies);
	view->fault |= contains_any(name, faults);
	view->file_fault |= contains_any(name, file_faults);
	if (call)
		view->call = call;
}

static const struct ws_function *get_function(const struct ws_model *model, uint32_t frame)
{
	const struct ws_frame_info *info = ws_stacks_get_frame(model->stacks, frame);

	return ws_stacks_get_function(model->stacks,
				      ws_stacks_get_places(model->stacks, info)->function);
}

/* The function that the user's code called in the kernel or, without one, in a library. */
static void name_call(const struct kernel_view *view, const struct ws_function *outside,
		      struct stack_use *use)
{
	const char *name = outside ? outside->name : "";

	/* An interrupt, the start of a program, or what recording costs. */
	if ((view->any && !view->call) || !strncmp(name, "ws_", 3))
		return;
	if (view->any && (*name == '_' || *name == '[' || !*name))
		name = view->call;
	if (classify_name(name, &use->kind) ||
	    (view->call && classify_name(view->call, &use->kind))) {
		use->name = name;
	} else if (view->call) {
		use->kind = WS_USAGE_OTHER_CALL;
		use->name = name;
	}
}

/* What the GPU's driver and its libraries do on their own account is no use of the program's. */
static bool is_driver(const struct ws_model *model, const struct ws_function *function)
{
	static const char *const parts[] = {"libcuda", "libcupti", "libnvidia", NULL};

	return contains_any(ws_stacks_get_origin(model->stacks, function), parts);
}

/* The runtimes of OpenMP run little code of their own: threads wait in them for each other. */
static bool is_openmp(const struct ws_model *model, const struct ws_function *function)
{
	static const char *const parts[] = {"/libgomp.", "/libomp.", "/libiomp", NULL};

	return contains_any(ws_stacks_get_origin(model->stacks, function), parts);
}

static struct stack_use classify_stack(const struct ws_model *model, uint32_t frame, uint32_t stack)
{
	uint32_t frames[DEEPEST];
	size_t count = ws_stacks_list_frames(model->stacks, frame, stack, frames, DEEPEST);
	const struct ws_function *outside = NULL;
	struct stack_use use = {.kind = WS_USAGE_CODE, .name = ""};
	struct kernel_view view = {0};
	bool driver = false;

	for (size_t i = 0; i < count; i++) {
		const struct ws_function *function = get_function(model, frames[i]);

		driver |= is_driver(model, function);
		if (function->kind == WS_FRAME_KERNEL)
			view_kernel_frame(&view, function->name);
		else if (!outside)
			outside = function;
	}
	if (outside && is_openmp(model, outside))
		use.kind = WS_USAGE_BARRIER;
	else if (driver)
		use.kind = WS_USAGE_CODE;
	else if (view.fault && !view.call)
		use.kind = view.file_fault ? WS_USAGE_FILE_FAULT : WS_USAGE_FAULT;
	else
		name_call(&view, outside, &use);
	use.copying = view.copying;
	use.place = ws_code_find_place(model, frame, stack);
	use.place.leaf = use.place.function;
	return use;
}

/* ---- sums ---- */

struct usage_sum {
	const struct ws_model *model;
	const struct ws_path *path;
	struct ws_usage *usage;
	struct ws_map stacks; /* (frame, callers): 1 + number of `uses` */
	struct stack_use *uses;
	size_t use_count, use_cap;
	struct ws_map rows; /* hash of what a row is: 1 + its number */
	uint64_t *sampled;  /* by thread: what its samples stand for */
	uint8_t *wanted;    /* by thread: of the explained process or of one it started */
};

static size_t find_use(struct usage_sum *sum, uint32_t frame, uint32_t callers)
{
	uint64_t key = (uint64_t)frame << 32 | callers, at = ws_map_get(&sum->stacks, key, NULL);

	if (!at) {
		ws_grow(sum->uses, sum->use_cap, sum->use_count + 1);
		sum->uses[sum->use_count] = classify_stack(sum->model, frame, callers);
		at = ++sum->use_count;
		ws_map_set(&sum->stacks, key, at);
	}
	return at - 1;
}

/* Rows are by kind, call, function and thread; of lines the one that was seen first stays. */
static bool is_row_of(const struct ws_usage_row *row, const struct stack_use *use, uint32_t thread)
{
	return row->thread == thread && row->kind == use->kind &&
	       row->place.function == use->place.function && !strcmp(row->name, use->name);
}

static uint64_t hash_row(const struct stack_use *use, uint32_t thread)
{
	uint64_t hash = (uint64_t)thread << 32 | use->place.function;

	for (const char *at = use->name; *at; at++)
		hash = (hash ^ (uint8_t)*at) * UINT64_C(0x9e3779b97f4a7c15) + (hash >> 29);
	return hash + use->kind;
}

static struct ws_usage_row *find_row(struct usage_sum *sum, uint32_t thread, size_t number)
{
	struct ws_usage *usage = sum->usage;
	const struct stack_use *use = &sum->uses[number];
	uint64_t hash = hash_row(use, thread), at;

	while ((at = ws_map_get(&sum->rows, hash, NULL)) &&
	       !is_row_of(&usage->rows[at - 1], use, thread))
		hash++;
	if (!at) {
		ws_grow(usage->rows, usage->cap, usage->count + 1);
		usage->rows[usage->count] = (struct ws_usage_row){.kind = use->kind,
								  .name = use->name,
								  .thread = thread,
								  .place = use->place,
								  .lowest = UINT64_MAX};
		at = ++usage->count;
		ws_map_set(&sum->rows, hash, at);
	}
	return &usage->rows[at - 1];
}

static bool is_on_path(const struct ws_path *path, uint32_t thread, uint64_t moment)
{
	size_t low = 0, high = path->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (path->pieces[middle].end <= moment)
			low = middle + 1;
		else
			high = middle;
	}
	return low < path->count && path->pieces[low].start <= moment &&
	       path->pieces[low].thread == thread && path->pieces[low].kind == WS_PIECE_RUN;
}

static void add_sample(struct usage_sum *sum, size_t i)
{
	const struct ws_model *model = sum->model;
	uint64_t *const *col = model->samples.col;
	uint32_t thread = (uint32_t)col[ws_sample_thread][i],
		 frame = (uint32_t)col[ws_sample_frame][i];
	uint64_t at = col[ws_sample_start][i], ns = col[ws_sample_time][i], address;
	struct ws_usage_row *row;
	size_t use;

	if (thread >= model->thread_count || !sum->wanted[thread] || !frame || at < model->from ||
	    at > model->to || ws_model_find_call(model, thread, at) != WS_NO_CALL)
		return; /* what calls of CUDA do inside is not the program's */
	use = find_use(sum, frame, (uint32_t)col[ws_sample_callers][i]);
	row = find_row(sum, thread, use);
	ns = ws_max(ns, (uint64_t)1);
	row->ns += ns;
	row->samples++;
	if (get_function(model, frame)->kind == WS_FRAME_KERNEL) {
		sum->usage->kernel = true;
	} else {
		address = ws_stacks_get_frame(model->stacks, frame)->address;
		row->lowest = ws_min(row->lowest, address);
		row->highest = ws_max(row->highest, address);
	}
	if (!row->span.start)
		row->span.start = at;
	row->span.end = at;
	if (sum->uses[use].copying)
		row->copying_ns += ns;
	if (is_on_path(sum->path, thread, at))
		row->path_ns += ns;
	sum->sampled[thread] += ns;
}

static uint64_t scale(uint64_t ns, uint64_t to, uint64_t from)
{
	return (uint64_t)((unsigned __int128)ns * to / from);
}

/* A thread's samples stand for the time that it ran, where that was recorded. */
static void scale_rows(const struct usage_sum *sum)
{
	for (size_t i = 0; i < sum->usage->count; i++) {
		struct ws_usage_row *row = &sum->usage->rows[i];
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
	return ws_compare(left->thread, right->thread);
}

void ws_usage_sum(const struct ws_model *model, const struct ws_path *path, struct ws_usage *usage)
{
	struct usage_sum sum = {.model = model, .path = path, .usage = usage};

	memset(usage, 0, sizeof(*usage));
	sum.sampled = ws_calloc(model->thread_count, sizeof(*sum.sampled));
	sum.wanted = ws_calloc(model->thread_count, 1);
	for (uint32_t id = 1; id < model->thread_count; id++)
		sum.wanted[id] = ws_is_explained(model, ws_find_thread(model->who, id)->process);
	for (size_t i = 0; i < model->samples.rows; i++)
		add_sample(&sum, i);
	scale_rows(&sum);
	if (usage->count)
		qsort(usage->rows, usage->count, sizeof(*usage->rows), compare_rows);
	ws_map_free(&sum.stacks);
	ws_map_free(&sum.rows);
	free(sum.uses);
	free(sum.sampled);
	free(sum.wanted);
}

void ws_usage_free(struct ws_usage *usage)
{
	free(usage->rows);
	memset(usage, 0, sizeof(*usage));
}
