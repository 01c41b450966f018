/*
 * states.c - see states.h.
 *
 * All tables are in memory in order of (thread, start), so a thread is a slice of each. Threads are
 * independent and distributed over workers. A thread off its core executes nothing, so the calls
 * that it is in cannot change while it waits. One look-up at the middle of a wait finds them, even
 * if clocks differ by a microsecond at its ends. Calls of a table nest: a stack of those that have
 * begun, advanced from wait to wait, has the innermost on top.
 */
#include "query/states.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "base/sort.h"

/* BLOCKED rows are moments, not calls with a beginning and an end: they are used only where nothing
 * else says what a wait is for. */
enum event_source { SCHED, GIL, CUDA, OSRT, BLOCKED, SOURCES, CALLS = BLOCKED };

static const struct {
	enum ws_table table;
	uint64_t columns;
	int start, end, thread;
} sources[SOURCES] = {
	{WS_TABLE_sched,
	 WS_COLUMN_BIT(sched, start) | WS_COLUMN_BIT(sched, end) | WS_COLUMN_BIT(sched, thread) |
		 WS_COLUMN_BIT(sched, cpu) | WS_COLUMN_BIT(sched, woken) |
		 WS_COLUMN_BIT(sched, waker) | WS_COLUMN_BIT(sched, after),
	 ws_sched_start, ws_sched_end, ws_sched_thread},
	{WS_TABLE_gil,
	 WS_COLUMN_BIT(gil, start) | WS_COLUMN_BIT(gil, end) | WS_COLUMN_BIT(gil, thread) |
		 WS_COLUMN_BIT(gil, state),
	 ws_gil_start, ws_gil_end, ws_gil_thread},
	{WS_TABLE_cuda_api,
	 WS_COLUMN_BIT(cuda_api, start) | WS_COLUMN_BIT(cuda_api, end) |
		 WS_COLUMN_BIT(cuda_api, thread) | WS_COLUMN_BIT(cuda_api, name) |
		 WS_COLUMN_BIT(cuda_api, callchain),
	 ws_cuda_api_start, ws_cuda_api_end, ws_cuda_api_thread},
	{WS_TABLE_osrt,
	 WS_COLUMN_BIT(osrt, start) | WS_COLUMN_BIT(osrt, end) | WS_COLUMN_BIT(osrt, thread) |
		 WS_COLUMN_BIT(osrt, name) | WS_COLUMN_BIT(osrt, object) |
		 WS_COLUMN_BIT(osrt, path) | WS_COLUMN_BIT(osrt, callchain) |
		 WS_COLUMN_BIT(osrt, holder),
	 ws_osrt_start, ws_osrt_end, ws_osrt_thread},
	{WS_TABLE_blocked,
	 WS_COLUMN_BIT(blocked, start) | WS_COLUMN_BIT(blocked, end) |
		 WS_COLUMN_BIT(blocked, thread) | WS_COLUMN_BIT(blocked, name) |
		 WS_COLUMN_BIT(blocked, path),
	 ws_blocked_start, ws_blocked_end, ws_blocked_thread},
};

struct slice { /* a thread's rows of each table */
	uint32_t thread;
	size_t from[SOURCES], to[SOURCES];
};

/* A span in which a thread held the GIL of its process. Spans of two threads may overlap by a few
 * microseconds because several short ones are recorded as one. */
struct gil_hold {
	uint64_t start, end;
	uint64_t latest; /* latest end of the process's spans up to this one */
	uint32_t process, tid;
};

struct ws_states {
	const struct ws_report *report;
	const struct ws_names_by_id *who;
	struct ws_rows rows[SOURCES];
	struct gil_hold *holds; /* by (process, start) */
	size_t hold_count, hold_cap;
	struct slice *threads;
	size_t thread_count;
	uint8_t *classes; /* by string: 1 + enum ws_wait of the function of that name; 0 not looked
			     up yet */
	uint32_t strings;
	uint64_t last;
	struct ws_rows gaps; /* of sched_gap, in order of time */
	bool recorded; /* recorded by warpsight: the end of a span is missing only when it was lost
			*/
};

/* ---- what functions wait for ---- */

/* By the beginnings of their names; the first match counts. */
static const struct {
	const char *prefix;
	uint8_t wait;
} functions[] = {
	{"pthread_mutex_", WS_WAIT_LOCK},
	{"pthread_rwlock_", WS_WAIT_LOCK},
	{"pthread_spin_", WS_WAIT_LOCK},
	{"flockfile", WS_WAIT_LOCK},
	{"mtx_", WS_WAIT_LOCK},
	{"pthread_cond_", WS_WAIT_CONDITION},
	{"cnd_", WS_WAIT_CONDITION},
	{"sem_", WS_WAIT_SEMAPHORE},
	{"semop", WS_WAIT_SEMAPHORE},
	{"semtimedop", WS_WAIT_SEMAPHORE},
	{"futex", WS_WAIT_FUTEX},
	{"restart_syscall", WS_WAIT_SLEEP}, /* a sleep continued after a stop */
	{"pthread_barrier_", WS_WAIT_BARRIER},
	{"pthread_join", WS_WAIT_JOIN},
	{"pthread_timedjoin", WS_WAIT_JOIN},
	{"pthread_clockjoin", WS_WAIT_JOIN},
	{"pthread_tryjoin", WS_WAIT_JOIN},
	{"thrd_join", WS_WAIT_JOIN},
	{"wait", WS_WAIT_CHILD},
	{"vfork", WS_WAIT_CHILD}, /* lasts until the child has called exec */
	{"posix_spawn", WS_WAIT_CHILD},
	{"system", WS_WAIT_CHILD},
	{"pclose", WS_WAIT_CHILD},
	{"poll", WS_WAIT_POLL},
	{"ppoll", WS_WAIT_POLL},
	{"select", WS_WAIT_POLL},
	{"pselect", WS_WAIT_POLL},
	{"epoll_", WS_WAIT_POLL},
	{"nanosleep", WS_WAIT_SLEEP},
	{"clock_nanosleep", WS_WAIT_SLEEP},
	{"usleep", WS_WAIT_SLEEP},
	{"sleep", WS_WAIT_SLEEP},
	{"thrd_sleep", WS_WAIT_SLEEP},
	{"sigsuspend", WS_WAIT_SIGNAL},
	{"rt_sig", WS_WAIT_SIGNAL},
	{"sigtimedwait", WS_WAIT_SIGNAL},
	{"sigwait", WS_WAIT_SIGNAL},
	{"pause", WS_WAIT_SIGNAL},
	{"sched_yield", WS_WAIT_QUEUE},
	{"pthread_yield", WS_WAIT_QUEUE},
	{"thrd_yield", WS_WAIT_QUEUE},
};

/* Functions that transfer bytes or wait for files, descriptors and sockets, by the beginnings of
 * their names. */
static const char *const io[] = {
	"read",	       "write",
	"pread",       "pwrite",
	"open",	       "creat",
	"close",       "dup",
	"pipe",	       "fcntl",
	"ioctl",       "flock",
	"lockf",       "fsync",
	"fdatasync",   "sync",
	"msync",       "fflush",
	"fread",       "fwrite",
	"fget",	       "fput",
	"getc",	       "getdelim",
	"getline",     "getw",
	"putc",	       "putw",
	"puts",	       "fopen",
	"freopen",     "fclose",
	"popen",       "printf",
	"fprintf",     "dprintf",
	"vprintf",     "vfprintf",
	"vdprintf",    "scanf",
	"fscanf",      "sendfile",
	"splice",      "vmsplice",
	"tee",	       "copy_file_range",
	"send",	       "recv",
	"accept",      "connect",
	"bind",	       "listen",
	"socket",      "shutdown",
	"fallocate",   "posix_fallocate",
	"truncate",    "ftruncate",
	"mq_",	       "msgrcv",
	"msgsnd",      "aio_",
	"process_vm_", "io_",
	"getdents",    "rename",
	"unlink",      "mkdir",
};

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static uint8_t classify_cuda_call(const char *name)
{
	bool copy = starts_with(name, "cudaMemcpy") || starts_with(name, "cuMemcpy");

	if (strstr(name, "Synchronize") ||
	    (copy && !strstr(name, "Async") && !strstr(name, "Batch")))
		return WS_WAIT_GPU;
	return WS_WAIT_CUDA;
}

uint8_t ws_classify_osrt_call(const char *name)
{
	while (*name == '_')
		name++;
	for (size_t i = 0; i < WS_COUNT(functions); i++)
		if (starts_with(name, functions[i].prefix))
			return functions[i].wait;
	for (size_t i = 0; i < WS_COUNT(io); i++)
		if (starts_with(name, io[i]))
			return WS_WAIT_IO;
	return WS_WAIT_CALL;
}

const char *ws_name_wait(enum ws_wait wait)
{
	static const char *const names[WS_WAITS] = {
		[WS_WAIT_NONE] = "not known",	   [WS_WAIT_LOCK] = "lock",
		[WS_WAIT_CONDITION] = "condition", [WS_WAIT_SEMAPHORE] = "semaphore",
		[WS_WAIT_BARRIER] = "barrier",	   [WS_WAIT_JOIN] = "end of a thread",
		[WS_WAIT_CHILD] = "child process", [WS_WAIT_IO] = "I/O",
		[WS_WAIT_POLL] = "poll",	   [WS_WAIT_SLEEP] = "sleep",
		[WS_WAIT_SIGNAL] = "signal",	   [WS_WAIT_GPU] = "GPU synchronisation",
		[WS_WAIT_CUDA] = "CUDA call",	   [WS_WAIT_GIL] = "GIL",
		[WS_WAIT_QUEUE] = "run queue",	   [WS_WAIT_FAULT] = "kernel",
		[WS_WAIT_CALL] = "other call",	   [WS_WAIT_FUTEX] = "futex",
	};

	if (wait >= WS_WAITS)
		wait = WS_WAIT_NONE;
	return names[wait];
}

/* The class (enum ws_wait) of a call. Each name is classified once; several workers may do it at
 * the same time, with the same result. */
static uint8_t classify_call(const struct ws_states *states, enum event_source source, size_t i)
{
	static const int names[SOURCES] = {
		[CUDA] = ws_cuda_api_name, [OSRT] = ws_osrt_name, [BLOCKED] = ws_blocked_name};
	uint32_t name = (uint32_t)states->rows[source].col[names[source]][i];
	uint8_t known = 0;
	const char *text;

	if (name <= states->strings)
		known = __atomic_load_n(&states->classes[name], __ATOMIC_RELAXED);
	if (known)
		return known - 1;
	text = ws_report_string(states->report, name, NULL);
	if (source == CUDA)
		known = classify_cuda_call(text) + 1;
	else
		known = ws_classify_osrt_call(text) + 1;
	if (name <= states->strings)
		__atomic_store_n(&states->classes[name], known, __ATOMIC_RELAXED);
	return known - 1;
}

/* ---- reading ---- */

static int compare_holds(const void *first, const void *second)
{
	const struct gil_hold *left = first, *right = second;

	if (left->process != right->process)
		return ws_compare(left->process, right->process);
	if (left->start != right->start)
		return ws_compare(left->start, right->start);
	return ws_compare(left->tid, right->tid);
}

static void add_hold(struct ws_states *states, size_t i)
{
	uint64_t *const *col = states->rows[GIL].col;
	const struct ws_thread_info *info =
		ws_find_thread(states->who, (uint32_t)col[ws_gil_thread][i]);

	ws_grow(states->holds, states->hold_cap, states->hold_count + 1);
	states->holds[states->hold_count++] = (struct gil_hold){.start = col[ws_gil_start][i],
								.end = col[ws_gil_end][i],
								.process = info->process,
								.tid = info->tid};
}

/* Keeps only waits for the GIL as states, in their order; the spans of its holders are kept
 * separately. */
static void keep_gil_waits(struct ws_states *states)
{
	struct ws_rows *rows = &states->rows[GIL];
	size_t kept = 0;

	for (size_t i = 0; i < rows->rows; i++) {
		if (rows->col[ws_gil_state][i] == WS_GIL_HOLDS)
			add_hold(states, i);
		if (rows->col[ws_gil_state][i] != WS_GIL_WAITS)
			continue;
		for (int column = 0; column < ws_gil_COLUMNS; column++)
			rows->col[column][kept] = rows->col[column][i];
		kept++;
	}
	rows->rows = kept;
	if (states->hold_count)
		qsort(states->holds, states->hold_count, sizeof(*states->holds), compare_holds);
	for (size_t i = 0; i < states->hold_count; i++) {
		struct gil_hold *hold = &states->holds[i];

		hold->latest = hold->end;
		if (i && hold[-1].process == hold->process)
			hold->latest = ws_max(hold[-1].latest, hold->end);
	}
}

/* The thread that held the GIL of the process longest in [start, end), by the system's number; 0
 * when no holder is known. */
static uint32_t find_gil_holder(const struct ws_states *states, uint32_t process, uint64_t start,
				uint64_t end)
{
	struct gil_hold wanted = {.process = process, .start = end};
	size_t low;
	uint64_t most = 0;
	uint32_t found = 0;

	/* the first that begins at `end` or later */
	low = ws_bisect(states->hold_count, mid, compare_holds(&states->holds[mid], &wanted) < 0);
	for (size_t i = low;
	     i-- && states->holds[i].process == process && states->holds[i].latest > start;) {
		const struct gil_hold *hold = &states->holds[i];
		uint64_t from = ws_max(hold->start, start), to = ws_min(hold->end, end);

		if (to > from && to - from >= most) { /* the earliest of equals */
			most = to - from;
			found = hold->tid;
		}
	}
	return found;
}

static void add_thread(struct ws_states *states, size_t *cap, const size_t *at)
{
	struct slice *slice;
	uint64_t thread = UINT64_MAX;

	for (int source = 0; source < SOURCES; source++)
		if (at[source] < states->rows[source].rows &&
		    states->rows[source].col[sources[source].thread][at[source]] < thread)
			thread = states->rows[source].col[sources[source].thread][at[source]];
	ws_grow(states->threads, *cap, states->thread_count + 1);
	slice = &states->threads[states->thread_count++];
	slice->thread = (uint32_t)thread;
	for (int k = 0; k < SOURCES; k++) {
		const uint64_t *threads = states->rows[k].col[sources[k].thread];

		slice->from[k] = at[k];
		slice->to[k] = at[k] + ws_bisect(states->rows[k].rows - at[k], i,
						 threads[at[k] + i] <= thread);
	}
}

static void find_threads(struct ws_states *states)
{
	size_t at[SOURCES] = {0}, cap = 0;
	bool more = false;

	for (int source = 0; source < SOURCES; source++)
		more |= states->rows[source].rows > 0;
	while (more) {
		add_thread(states, &cap, at);
		more = false;
		for (int k = 0; k < SOURCES; k++) {
			at[k] = states->threads[states->thread_count - 1].to[k];
			more |= at[k] < states->rows[k].rows;
		}
	}
}

/* When collecting ended or, where the recorder died, the end of the last event. */
static uint64_t find_end_of_collection(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_collection, 0, UINT64_MAX);
	const uint64_t *values;
	uint64_t end = 0;

	while (ws_cursor_next(cursor, &values))
		if (values[ws_collection_end] != WS_NO_TIME && values[ws_collection_end] > end)
			end = values[ws_collection_end];
	ws_cursor_close(cursor);
	if (end)
		return end;
	return ws_find_time_last(report);
}

/* Merges overlapping gaps of several cores, so that both starts and ends ascend. */
static void merge_gaps(struct ws_rows *gaps)
{
	uint64_t *start = gaps->col[ws_sched_gap_start], *end = gaps->col[ws_sched_gap_end];
	size_t n = 0;

	for (size_t i = 0; i < gaps->rows; i++) {
		if (n && start[i] <= end[n - 1]) {
			end[n - 1] = ws_max(end[n - 1], end[i]);
			continue;
		}
		start[n] = start[i];
		end[n++] = end[i];
	}
	gaps->rows = n;
}

struct ws_states *ws_states_open_part(const struct ws_report *report,
				      const struct ws_names_by_id *who,
				      const struct ws_states_part *part, uint64_t *damaged)
{
	struct ws_states *states = ws_calloc(1, sizeof(*states));
	struct ws_scan gaps = {.table = WS_TABLE_sched_gap,
			       .columns = WS_COLUMN_BIT(sched_gap, start) |
					  WS_COLUMN_BIT(sched_gap, end),
			       .time_max = UINT64_MAX};

	states->report = report;
	states->who = who;
	states->last = find_end_of_collection(report);
	states->strings = ws_report_string_count(report);
	states->classes = ws_calloc(states->strings + (size_t)1, 1);
	for (int source = 0; source < SOURCES; source++) {
		struct ws_scan scan = {.table = sources[source].table,
				       .columns = sources[source].columns,
				       .time_min = part->from,
				       .time_max = part->to};

		const uint8_t *threads = part->threads;

		if (source == SCHED && (part->brief || part->coreless))
			scan.columns &= ~WS_COLUMN_BIT(sched, cpu);
		if (source == SCHED && part->brief)
			scan.columns &= ~WS_COLUMN_BIT(sched, waker);
		if (source == GIL && part->holders)
			threads = NULL;
		ws_rows_load_tracks(report, &scan, threads, part->count, &states->rows[source]);
		if (damaged)
			*damaged += states->rows[source].damaged;
	}
	ws_rows_load(report, &gaps, &states->gaps, NULL);
	merge_gaps(&states->gaps);
	if (damaged)
		*damaged += states->gaps.damaged;
	states->recorded = ws_find_meta(report, "session.trace") != NULL;
	keep_gil_waits(states);
	find_threads(states);
	return states;
}

struct ws_states *ws_states_open(const struct ws_report *report, const struct ws_names_by_id *who,
				 uint64_t *damaged)
{
	return ws_states_open_part(report, who, &(struct ws_states_part){.to = UINT64_MAX},
				   damaged);
}

void ws_states_close(struct ws_states *states)
{
	if (!states)
		return;
	for (int source = 0; source < SOURCES; source++)
		ws_rows_free(&states->rows[source]);
	ws_rows_free(&states->gaps);
	free(states->holds);
	free(states->threads);
	free(states->classes);
	free(states);
}

bool ws_states_has_scheduling(const struct ws_states *states)
{
	return states->rows[SCHED].rows > 0;
}

/* ---- one thread ---- */

struct open_calls { /* the calls of one table that have begun */
	size_t next, end;
	size_t *row;
	size_t count, cap;
};

struct thread_walk {
	const struct ws_states *states;
	const struct slice *slice;
	struct open_calls open[SOURCES];
	uint64_t limit;	    /* the thread's states end no later than this */
	uint64_t from, to;  /* the window */
	uint64_t busy_till; /* end of the last CUDA call that waits among those walked */
	size_t busy;	    /* the next CUDA call to check */
	size_t blocked;	    /* the next BLOCKED row to check */
	uint32_t worker;
	struct ws_states *spent; /* whose rows are given back once walked; NULL: none are */
	void (*fn)(void *ctx, uint32_t worker, const struct ws_state *state);
	void *ctx;
};

enum { ROWS_RELEASED = 1 << 18 }; /* at a time: 2 MiB of each column */

static uint64_t get_start(const struct thread_walk *walk, enum event_source source, size_t i)
{
	return walk->states->rows[source].col[sources[source].start][i];
}

/* A call that never returned lasts to the end. */
static uint64_t get_end(const struct thread_walk *walk, enum event_source source, size_t i)
{
	return walk->states->rows[source].col[sources[source].end][i];
}

static void emit_state(const struct thread_walk *walk, struct ws_state *state, uint64_t start,
		       uint64_t end)
{
	state->start = ws_max(start, walk->from);
	state->end = ws_min(end, walk->to);
	state->thread = walk->slice->thread;
	if (state->start < state->end)
		walk->fn(walk->ctx, walk->worker, state);
}

/* The innermost call of a table at `at`, or SIZE_MAX; `at` must not decrease from one call to the
 * next. */
static size_t find_innermost(struct thread_walk *walk, enum event_source source, uint64_t at)
{
	struct open_calls *open = &walk->open[source];

	for (; open->next < open->end && get_start(walk, source, open->next) <= at; open->next++) {
		while (open->count && get_end(walk, source, open->row[open->count - 1]) <=
					      get_start(walk, source, open->next))
			open->count--;
		ws_grow(open->row, open->cap, open->count + 1);
		open->row[open->count++] = open->next;
	}
	while (open->count && get_end(walk, source, open->row[open->count - 1]) <= at)
		open->count--;
	if (!open->count)
		return SIZE_MAX;
	return open->row[open->count - 1];
}

static void describe_call(const struct thread_walk *walk, enum event_source source, size_t i,
			  struct ws_state *state)
{
	uint64_t *const *col = walk->states->rows[source].col;

	if (source == GIL) {
		state->wait = WS_WAIT_GIL;
	} else if (source == CUDA) {
		state->wait = classify_call(walk->states, CUDA, i);
		state->function = (uint32_t)col[ws_cuda_api_name][i];
		state->callchain = (uint32_t)col[ws_cuda_api_callchain][i];
	} else {
		state->wait = classify_call(walk->states, OSRT, i);
		state->function = (uint32_t)col[ws_osrt_name][i];
		state->path = (uint32_t)col[ws_osrt_path][i];
		state->object = col[ws_osrt_object][i];
		state->holder = (uint32_t)col[ws_osrt_holder][i];
		state->callchain = (uint32_t)col[ws_osrt_callchain][i];
	}
	if (state->callchain == WS_NO_U32)
		state->callchain = 0;
}

static void name_holder(const struct thread_walk *walk, uint64_t start, uint64_t end,
			struct ws_state *state)
{
	if (state->wait == WS_WAIT_GIL)
		state->holder = find_gil_holder(
			walk->states,
			ws_find_thread(walk->states->who, walk->slice->thread)->process, start,
			end);
}

/* Finds the system call in which the recorder found the thread during the wait, if all of the call
 * lies inside the wait. Waits come in order. */
static bool find_blocked_call(struct thread_walk *walk, uint64_t start, uint64_t end,
			      struct ws_state *state)
{
	uint64_t *const *col = walk->states->rows[BLOCKED].col;

	while (walk->blocked < walk->slice->to[BLOCKED] &&
	       get_start(walk, BLOCKED, walk->blocked) < start)
		walk->blocked++;
	if (walk->blocked == walk->slice->to[BLOCKED] ||
	    get_end(walk, BLOCKED, walk->blocked) > end)
		return false;
	/* The last of several has the most information: also the file of the call's descriptor. */
	while (walk->blocked + 1 < walk->slice->to[BLOCKED] &&
	       get_end(walk, BLOCKED, walk->blocked + 1) <= end)
		walk->blocked++;
	state->wait = classify_call(walk->states, BLOCKED, walk->blocked);
	state->function = (uint32_t)col[ws_blocked_name][walk->blocked];
	state->path = (uint32_t)col[ws_blocked_path][walk->blocked];
	return true;
}

/* The interpreter waits for the GIL in a call of the C library, which has a stack. */
static void add_stack_of_gil_wait(struct thread_walk *walk, uint64_t at, struct ws_state *state)
{
	size_t i = find_innermost(walk, OSRT, at);

	if (i == SIZE_MAX)
		return;
	state->callchain = (uint32_t)walk->states->rows[OSRT].col[ws_osrt_callchain][i];
	if (state->callchain == WS_NO_U32)
		state->callchain = 0;
}

/* Finds what the thread waits for in [start, end). */
static void find_reason(struct thread_walk *walk, uint64_t start, uint64_t end, uint64_t after,
			struct ws_state *state)
{
	for (enum event_source source = GIL; source < CALLS; source++) {
		size_t i = find_innermost(walk, source, start + (end - start) / 2);

		if (i != SIZE_MAX) {
			describe_call(walk, source, i, state);
			if (source == GIL)
				add_stack_of_gil_wait(walk, start + (end - start) / 2, state);
			return;
		}
	}
	if (find_blocked_call(walk, start, end, state))
		return;
	state->wait = WS_WAIT_NONE;
	if (after == WS_AFTER_UNINTERRUPTIBLE)
		state->wait = WS_WAIT_FAULT;
}

/* Emits the states of a thread that is certainly off its core in [start, end) and runnable from
 * `ready` on, when `waker` (an id, or 0) woke it. */
static void emit_known_waits(struct thread_walk *walk, uint64_t start, uint64_t end, uint64_t ready,
			     uint32_t waker, uint64_t after)
{
	struct ws_state queue = {.doing = WS_DOING_RUNNABLE,
				 .wait = WS_WAIT_QUEUE,
				 .after = (uint8_t)after,
				 .cpu = WS_NO_U32};
	struct ws_state wait = {.doing = WS_DOING_WAIT, .after = (uint8_t)after, .cpu = WS_NO_U32};

	if (after == WS_AFTER_PREEMPTED)
		ready = start;
	else if (ready > end || ready < start)
		ready = end;
	if (start < ready) {
		find_reason(walk, start, ready, after, &wait);
		name_holder(walk, start, ready, &wait);
		if (ready < end)
			wait.waker = waker;
		emit_state(walk, &wait, start, ready);
	}
	emit_state(walk, &queue, ready, end);
}

static void emit_unknown(const struct thread_walk *walk, uint64_t start, uint64_t end)
{
	struct ws_state unknown = {.cpu = WS_NO_U32, .lost = true};

	emit_state(walk, &unknown, start, end);
}

/* The start of the first gap in the recording that touches [start, end); `end` for none. */
static uint64_t find_gap(const struct ws_states *states, uint64_t start, uint64_t end)
{
	const struct ws_rows *gaps = &states->gaps;
	size_t i;

	if (!gaps->rows)
		return end;
	i = ws_lower_bound(gaps->col[ws_sched_gap_end], gaps->rows, start + 1);
	if (i == gaps->rows)
		return end;
	return ws_min(ws_max(gaps->col[ws_sched_gap_start][i], start), end);
}

/*
 * Emits the states of a thread in [start, end), where no span shows it on a core. It is off its
 * core, unless records were lost: then its state is unknown until its next record, which is that of
 * its wake-up or of its next span.
 */
static void emit_waits(struct thread_walk *walk, uint64_t start, uint64_t end, uint64_t ready,
		       uint32_t waker, uint64_t after)
{
	uint64_t gap = find_gap(walk->states, start, end), known = end;

	if (gap == end) {
		emit_known_waits(walk, start, end, ready, waker, after);
		return;
	}
	if (ready >= gap && ready < end)
		known = ready;
	emit_known_waits(walk, start, gap, WS_NO_TIME, 0, after);
	emit_unknown(walk, gap, known);
	emit_known_waits(walk, known, end, known, waker, WS_AFTER_UNKNOWN);
}

/* The next part of [*at, end) that lies in a CUDA call that waits, or outside of all; advances *at.
 * Returns the call or SIZE_MAX. */
static size_t find_busy_part(struct thread_walk *walk, uint64_t *at, uint64_t end)
{
	const struct slice *slice = walk->slice;
	uint64_t from = *at;

	for (; walk->busy < slice->to[CUDA]; walk->busy++) {
		uint64_t starts = get_start(walk, CUDA, walk->busy),
			 ends = get_end(walk, CUDA, walk->busy);

		if (ends <= from || ends < starts ||
		    classify_call(walk->states, CUDA, walk->busy) != WS_WAIT_GPU)
			continue;
		if (starts > from) {
			*at = ws_min(starts, end);
			return SIZE_MAX;
		}
		*at = ws_min(ends, end);
		return walk->busy;
	}
	*at = end;
	return SIZE_MAX;
}

static void emit_runs(struct thread_walk *walk, uint64_t start, uint64_t end, uint32_t cpu)
{
	for (uint64_t at = start; at < end;) {
		struct ws_state state = {.doing = WS_DOING_RUN, .cpu = cpu};
		uint64_t from = at;
		size_t call = find_busy_part(walk, &at, end);

		if (call != SIZE_MAX)
			describe_call(walk, CUDA, call, &state);
		emit_state(walk, &state, from, at);
	}
}

/* Emits a thread's states from its spans on cores. */
static void walk_scheduled(struct thread_walk *walk)
{
	uint64_t *const *col = walk->states->rows[SCHED].col, *start = col[ws_sched_start],
			*end = col[ws_sched_end];
	const uint64_t *cpu = col[ws_sched_cpu],
		       *waker = col[ws_sched_waker]; /* NULL where a part leaves it out */
	uint64_t off = 0;			     /* since when the thread is off its core */

	for (size_t i = walk->slice->from[SCHED], to = walk->slice->to[SCHED], kept = i; i < to;
	     i++) {
		bool last = i + 1 == to;
		uint64_t next = walk->limit, from = ws_max(start[i], off), till = end[i];
		uint32_t woken_by = 0, core = WS_NO_U32;

		if (!last)
			next = start[i + 1];
		if (waker)
			woken_by = (uint32_t)waker[i];
		if (cpu)
			core = (uint32_t)cpu[i];
		till = ws_min(till,
			      ws_min(next, walk->limit)); /* also where the end was not seen */
		till = ws_max(till, from);
		if (i > walk->slice->from[SCHED] && off < from)
			emit_waits(walk, off, from, col[ws_sched_woken][i], woken_by,
				   col[ws_sched_after][i - 1]);
		if (end[i] == WS_NO_TIME && (!last || walk->states->recorded))
			emit_unknown(walk, from, till);
		else
			emit_runs(walk, from, till, core);
		off = till;
		if (walk->spent && i - kept > ROWS_RELEASED) {
			ws_rows_release(&walk->spent->rows[SCHED], kept, i);
			kept = i;
		}
		if (last && off < walk->limit && end[i] != WS_NO_TIME &&
		    col[ws_sched_after][i] != WS_AFTER_DEAD)
			emit_waits(walk, off, walk->limit, WS_NO_TIME, 0, col[ws_sched_after][i]);
	}
}

/* The table of the next call to begin, longer ones first; SOURCES when there is none. */
static enum event_source next_call(const struct thread_walk *walk, const size_t *at)
{
	enum event_source best = SOURCES;

	for (enum event_source source = GIL; source < CALLS; source++)
		if (at[source] < walk->slice->to[source] &&
		    (best == SOURCES ||
		     get_start(walk, source, at[source]) < get_start(walk, best, at[best])))
			best = source;
	return best;
}

/* Emits a thread's states from its calls alone. */
static void walk_calls(struct thread_walk *walk)
{
	size_t at[SOURCES];
	uint64_t done = 0;
	bool begun = false;
	enum event_source source;

	memcpy(at, walk->slice->from, sizeof(at));
	while ((source = next_call(walk, at)) != SOURCES) {
		struct ws_state state = {.doing = WS_DOING_WAIT, .cpu = WS_NO_U32},
				none = {.cpu = WS_NO_U32};
		size_t i = at[source]++;
		uint64_t start = get_start(walk, source, i), end = get_end(walk, source, i);

		end = ws_min(end, walk->limit);
		if (end <= start || (begun && end <= done) ||
		    (source == CUDA && classify_call(walk->states, CUDA, i) == WS_WAIT_CUDA))
			continue;
		if (begun && start < done)
			start = done;
		if (begun)
			emit_state(walk, &none, done, start);
		describe_call(walk, source, i, &state);
		name_holder(walk, start, end, &state);
		emit_state(walk, &state, start, end);
		done = end;
		begun = true;
	}
	if (begun) {
		struct ws_state none = {.cpu = WS_NO_U32};

		emit_state(walk, &none, done, walk->limit);
	}
}

/* When a thread's states end: with its process, or with the recording. */
static uint64_t find_limit(const struct ws_states *states, uint32_t thread)
{
	const struct ws_process_info *info =
		ws_find_process(states->who, ws_find_thread(states->who, thread)->process);

	return ws_min(info->end, states->last);
}

static void walk_thread(struct thread_walk *walk, const struct slice *slice)
{
	walk->slice = slice;
	walk->limit = find_limit(walk->states, slice->thread);
	walk->busy = slice->from[CUDA];
	walk->blocked = slice->from[BLOCKED];
	for (int source = 0; source < SOURCES; source++) {
		walk->open[source].next = slice->from[source];
		walk->open[source].end = slice->to[source];
		walk->open[source].count = 0;
	}
	if (slice->from[SCHED] < slice->to[SCHED])
		walk_scheduled(walk);
	else
		walk_calls(walk);
}

/* ---- all threads ---- */

struct walk_job {
	const struct ws_states *states;
	uint64_t from, to;
	void (*fn)(void *ctx, uint32_t worker, const struct ws_state *state);
	void *ctx;
	size_t next;
	uint32_t workers;
	/* Of rows that are given back: the threads that are done, how many of the first are, and up
	 * to where rows of each table were given back. */
	struct ws_states *spent;
	pthread_mutex_t lock;
	uint8_t *done;
	size_t first_left, released[SOURCES];
};

/* Gives back the rows of the first threads up to one that is not done, where they are many. */
static void release_rows(struct walk_job *job, size_t thread)
{
	pthread_mutex_lock(&job->lock);
	job->done[thread] = 1;
	while (job->first_left < job->spent->thread_count && job->done[job->first_left])
		job->first_left++;
	for (int source = 0; job->first_left && source < SOURCES; source++) {
		size_t until = job->spent->threads[job->first_left - 1].to[source];

		if (until - job->released[source] < ROWS_RELEASED)
			continue;
		ws_rows_release(&job->spent->rows[source], job->released[source], until);
		job->released[source] = until;
	}
	pthread_mutex_unlock(&job->lock);
}

static void *walk_threads(void *arg)
{
	struct walk_job *job = arg;
	struct thread_walk walk = {.states = job->states,
				   .from = job->from,
				   .to = job->to,
				   .spent = job->spent,
				   .fn = job->fn,
				   .ctx = job->ctx};
	size_t i;

	walk.worker = __atomic_fetch_add(&job->workers, 1, __ATOMIC_RELAXED);
	while ((i = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) <
	       job->states->thread_count) {
		walk_thread(&walk, &job->states->threads[i]);
		if (job->spent)
			release_rows(job, i);
	}
	for (int source = 0; source < SOURCES; source++)
		free(walk.open[source].row);
	return NULL;
}

uint32_t ws_count_state_workers(const struct ws_states *states)
{
	struct ws_scan any = {.table = WS_TABLE_sched};
	uint32_t workers = ws_count_scan_workers(&any);

	return (uint32_t)ws_min((size_t)workers, ws_max(states->thread_count, (size_t)1));
}

static void walk_all(struct walk_job *job)
{
	uint32_t workers = ws_count_state_workers(job->states), started = 1;
	pthread_t *threads = ws_calloc(workers, sizeof(*threads));

	for (; started < workers; started++)
		if (pthread_create(&threads[started], NULL, walk_threads, job))
			break; /* fewer threads are only slower */
	walk_threads(job);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}

void ws_walk_states(const struct ws_states *states, uint64_t from, uint64_t to,
		    void (*fn)(void *ctx, uint32_t worker, const struct ws_state *state), void *ctx)
{
	struct walk_job job = {.states = states, .from = from, .to = to, .fn = fn, .ctx = ctx};

	walk_all(&job);
}

void ws_walk_states_once(struct ws_states *states,
			 void (*fn)(void *ctx, uint32_t worker, const struct ws_state *state),
			 void *ctx)
{
	struct walk_job job = {.states = states,
			       .to = UINT64_MAX,
			       .fn = fn,
			       .ctx = ctx,
			       .spent = states,
			       .lock = PTHREAD_MUTEX_INITIALIZER,
			       .done = ws_calloc(states->thread_count + 1, 1)};

	walk_all(&job);
	free(job.done);
}
