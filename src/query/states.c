/*
 * states.c - see states.h.
 *
 * All four tables are in memory in order of (thread, start), so a thread is a slice of each;
 * threads are independent and shared out among workers. A thread off its core executes nothing, so
 * the calls it is inside of cannot change while it waits: one look at the middle of a wait names
 * them, which clocks that differ by a microsecond at its ends do not disturb. Calls of a table
 * nest: a stack of those that have begun, advanced from wait to wait, has the innermost on top.
 */
#include "query/states.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "base/sort.h"

/* BLOCKED rows are moments, not calls with a beginning and an end: they are looked at only where
 * nothing else says what a wait is for. */
enum source { SCHED, GIL, CUDA, OSRT, BLOCKED, SOURCES, CALLS = BLOCKED };

static const struct {
	enum ws_table table;
	uint64_t columns;
	int start, end, thread;
} sources[SOURCES] = {
	{WS_TABLE_sched,
	 WS_COL(sched, start) | WS_COL(sched, end) | WS_COL(sched, thread) | WS_COL(sched, cpu) |
		 WS_COL(sched, woken) | WS_COL(sched, waker) | WS_COL(sched, after),
	 ws_sched_start, ws_sched_end, ws_sched_thread},
	{WS_TABLE_gil,
	 WS_COL(gil, start) | WS_COL(gil, end) | WS_COL(gil, thread) | WS_COL(gil, state),
	 ws_gil_start, ws_gil_end, ws_gil_thread},
	{WS_TABLE_cuda_api,
	 WS_COL(cuda_api, start) | WS_COL(cuda_api, end) | WS_COL(cuda_api, thread) |
		 WS_COL(cuda_api, name) | WS_COL(cuda_api, callchain),
	 ws_cuda_api_start, ws_cuda_api_end, ws_cuda_api_thread},
	{WS_TABLE_osrt,
	 WS_COL(osrt, start) | WS_COL(osrt, end) | WS_COL(osrt, thread) | WS_COL(osrt, name) |
		 WS_COL(osrt, object) | WS_COL(osrt, path) | WS_COL(osrt, callchain) |
		 WS_COL(osrt, holder),
	 ws_osrt_start, ws_osrt_end, ws_osrt_thread},
	{WS_TABLE_blocked,
	 WS_COL(blocked, start) | WS_COL(blocked, end) | WS_COL(blocked, thread) |
		 WS_COL(blocked, name) | WS_COL(blocked, path),
	 ws_blocked_start, ws_blocked_end, ws_blocked_thread},
};

struct slice { /* a thread's rows of each table */
	uint32_t thread;
	size_t from[SOURCES], to[SOURCES];
};

/* A span in which a thread held the GIL of its process. Spans of two threads may overlap by some
 * microseconds: several short ones are told as one. */
struct hold {
	uint64_t start, end;
	uint64_t latest; /* end of any of the process up to this one */
	uint32_t process, tid;
};

struct ws_states {
	const struct ws_report *report;
	const struct ws_who *who;
	struct ws_rows rows[SOURCES];
	struct hold *holds; /* by (process, start) */
	size_t hold_count, hold_cap;
	struct slice *threads;
	size_t thread_count;
	uint8_t *classes; /* by string: 1 + enum ws_wait of the function of that name; 0 not looked
			     up yet */
	uint32_t strings;
	uint64_t last;
};

/* ---- what functions wait for ---- */

/* By the beginnings of their names; what comes first counts. */
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
	{"restart_syscall", WS_WAIT_SLEEP}, /* what a sleep is after a stop */
	{"pthread_barrier_", WS_WAIT_BARRIER},
	{"pthread_join", WS_WAIT_JOIN},
	{"pthread_timedjoin", WS_WAIT_JOIN},
	{"pthread_clockjoin", WS_WAIT_JOIN},
	{"pthread_tryjoin", WS_WAIT_JOIN},
	{"thrd_join", WS_WAIT_JOIN},
	{"wait", WS_WAIT_CHILD},
	{"vfork", WS_WAIT_CHILD}, /* until the child has called exec */
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

/* Functions that move bytes, or wait for files, descriptors and sockets, by the beginnings of their
 * names. */
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

static bool begins(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static uint8_t cuda_wait(const char *name)
{
	bool copy = begins(name, "cudaMemcpy") || begins(name, "cuMemcpy");

	return strstr(name, "Synchronize") ||
			       (copy && !strstr(name, "Async") && !strstr(name, "Batch"))
		       ? WS_WAIT_GPU
		       : WS_WAIT_CUDA;
}

static uint8_t osrt_wait(const char *name)
{
	while (*name == '_')
		name++;
	for (size_t i = 0; i < WS_COUNT(functions); i++)
		if (begins(name, functions[i].prefix))
			return functions[i].wait;
	for (size_t i = 0; i < WS_COUNT(io); i++)
		if (begins(name, io[i]))
			return WS_WAIT_IO;
	return WS_WAIT_CALL;
}

const char *ws_wait_name(enum ws_wait wait)
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

	return wait < WS_WAITS ? names[wait] : names[WS_WAIT_NONE];
}

/* Looked up once a name; several workers may do it at once, with the same result. */
static uint8_t class_of(const struct ws_states *states, enum source source, size_t i)
{
	static const int names[SOURCES] = {
		[CUDA] = ws_cuda_api_name, [OSRT] = ws_osrt_name, [BLOCKED] = ws_blocked_name};
	uint32_t name = (uint32_t)states->rows[source].col[names[source]][i];
	uint8_t known = name <= states->strings
				? __atomic_load_n(&states->classes[name], __ATOMIC_RELAXED)
				: 0;
	const char *text;

	if (known)
		return known - 1;
	text = ws_report_string(states->report, name, NULL);
	known = (source == CUDA ? cuda_wait(text) : osrt_wait(text)) + 1;
	if (name <= states->strings)
		__atomic_store_n(&states->classes[name], known, __ATOMIC_RELAXED);
	return known - 1;
}

/* ---- reading ---- */

static int by_process(const void *first, const void *second)
{
	const struct hold *left = first, *right = second;

	if (left->process != right->process)
		return left->process < right->process ? -1 : 1;
	return left->start != right->start ? (left->start < right->start ? -1 : 1)
					   : ws_compare(left->tid, right->tid);
}

static void add_hold(struct ws_states *states, size_t i)
{
	uint64_t *const *col = states->rows[GIL].col;
	const struct ws_thread_info *info =
		ws_who_thread(states->who, (uint32_t)col[ws_gil_thread][i]);

	ws_grow(states->holds, states->hold_cap, states->hold_count + 1);
	states->holds[states->hold_count++] = (struct hold){.start = col[ws_gil_start][i],
							    .end = col[ws_gil_end][i],
							    .process = info->process,
							    .tid = info->tid};
}

/* Only waits for the GIL count as states, and their order stays; who held it meanwhile is kept
 * apart. */
static void keep_gil_waits(struct ws_states *states)
{
	struct ws_rows *rows = &states->rows[GIL];
	size_t kept = 0;

	for (size_t i = 0; i < rows->rows; i++) {
		if (rows->col[ws_gil_state][i] == WS_GIL_HOLDS)
			add_hold(states, i);
		if (rows->col[ws_gil_state][i] != WS_GIL_WAITS)
			continue;
		for (int c = 0; c < ws_gil_COLUMNS; c++)
			rows->col[c][kept] = rows->col[c][i];
		kept++;
	}
	rows->rows = kept;
	if (states->hold_count)
		qsort(states->holds, states->hold_count, sizeof(*states->holds), by_process);
	for (size_t i = 0; i < states->hold_count; i++) {
		struct hold *hold = &states->holds[i],
			    *before = i && hold[-1].process == hold->process ? hold - 1 : NULL;

		hold->latest = before && before->latest > hold->end ? before->latest : hold->end;
	}
}

/* Who held the GIL of the process longest in [start, end): the system's number of the thread, 0
 * when nobody is known to. */
static uint32_t gil_holder(const struct ws_states *states, uint32_t process, uint64_t start,
			   uint64_t end)
{
	struct hold wanted = {.process = process, .start = end};
	size_t low;
	uint64_t most = 0;
	uint32_t found = 0;

	/* the first that begins at `end` or later */
	low = ws_bisect(states->hold_count, mid, by_process(&states->holds[mid], &wanted) < 0);
	for (size_t i = low;
	     i-- && states->holds[i].process == process && states->holds[i].latest > start;) {
		const struct hold *hold = &states->holds[i];
		uint64_t from = ws_max(hold->start, start), to = ws_min(hold->end, end);

		if (to > from && to - from >= most) { /* of equals the earliest */
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

	for (int k = 0; k < SOURCES; k++)
		if (at[k] < states->rows[k].rows &&
		    states->rows[k].col[sources[k].thread][at[k]] < thread)
			thread = states->rows[k].col[sources[k].thread][at[k]];
	ws_grow(states->threads, *cap, states->thread_count + 1);
	slice = &states->threads[states->thread_count++];
	slice->thread = (uint32_t)thread;
	for (int k = 0; k < SOURCES; k++) {
		const uint64_t *of = states->rows[k].col[sources[k].thread];

		slice->from[k] = at[k];
		slice->to[k] =
			at[k] + ws_bisect(states->rows[k].rows - at[k], i, of[at[k] + i] <= thread);
	}
}

static void find_threads(struct ws_states *states)
{
	size_t at[SOURCES] = {0}, cap = 0;
	bool more = false;

	for (int k = 0; k < SOURCES; k++)
		more |= states->rows[k].rows > 0;
	while (more) {
		add_thread(states, &cap, at);
		more = false;
		for (int k = 0; k < SOURCES; k++) {
			at[k] = states->threads[states->thread_count - 1].to[k];
			more |= at[k] < states->rows[k].rows;
		}
	}
}

/* When collecting ended; where the recorder died, the last event. */
static uint64_t end_of_collection(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_collection, 0, UINT64_MAX);
	const uint64_t *values;
	uint64_t end = 0;

	while (ws_cursor_next(cursor, &values))
		if (values[ws_collection_end] != WS_NO_TIME && values[ws_collection_end] > end)
			end = values[ws_collection_end];
	ws_cursor_close(cursor);
	return end ? end : ws_time_last(report);
}

struct ws_states *ws_states_open_part(const struct ws_report *report, const struct ws_who *who,
				      const struct ws_states_part *part, uint64_t *damaged)
{
	struct ws_states *states = ws_calloc(1, sizeof(*states));

	states->report = report;
	states->who = who;
	states->last = end_of_collection(report);
	states->strings = ws_report_string_count(report);
	states->classes = ws_calloc(states->strings + (size_t)1, 1);
	for (int k = 0; k < SOURCES; k++) {
		struct ws_scan sc = {.table = sources[k].table,
				     .columns = sources[k].columns,
				     .time_min = part->from,
				     .time_max = part->to};

		if (k == SCHED && part->brief)
			sc.columns &= ~(WS_COL(sched, cpu) | WS_COL(sched, waker));
		ws_rows_load_tracks(report, &sc, k == GIL && part->holders ? NULL : part->threads,
				    part->n, &states->rows[k]);
		if (damaged)
			*damaged += states->rows[k].damaged;
	}
	keep_gil_waits(states);
	find_threads(states);
	return states;
}

struct ws_states *ws_states_open(const struct ws_report *report, const struct ws_who *who,
				 uint64_t *damaged)
{
	return ws_states_open_part(report, who, &(struct ws_states_part){.to = UINT64_MAX},
				   damaged);
}

void ws_states_close(struct ws_states *states)
{
	if (!states)
		return;
	for (int k = 0; k < SOURCES; k++)
		ws_rows_free(&states->rows[k]);
	free(states->holds);
	free(states->threads);
	free(states->classes);
	free(states);
}

bool ws_states_scheduled(const struct ws_states *states)
{
	return states->rows[SCHED].rows > 0;
}

/* ---- one thread ---- */

struct open { /* the calls of one table that have begun */
	size_t next, end;
	size_t *row;
	size_t n, cap;
};

struct walk {
	const struct ws_states *states;
	const struct slice *slice;
	struct open open[SOURCES];
	uint64_t limit;	    /* the thread's states end here at the latest */
	uint64_t from, to;  /* the window */
	uint64_t busy_till; /* end of the last CUDA call that waits, of those walked */
	size_t busy;	    /* the next to look at */
	size_t blocked;	    /* the same of what threads were found waiting in */
	uint32_t worker;
	void (*fn)(void *ctx, uint32_t worker, const struct ws_state *state);
	void *ctx;
};

static uint64_t start_of(const struct walk *walk, enum source source_k, size_t i)
{
	return walk->states->rows[source_k].col[sources[source_k].start][i];
}

/* A call that never returned lasts to the end. */
static uint64_t end_of(const struct walk *walk, enum source source_k, size_t i)
{
	return walk->states->rows[source_k].col[sources[source_k].end][i];
}

static void emit(const struct walk *walk, struct ws_state *st, uint64_t start, uint64_t end)
{
	st->start = ws_max(start, walk->from);
	st->end = ws_min(end, walk->to);
	st->thread = walk->slice->thread;
	if (st->start < st->end)
		walk->fn(walk->ctx, walk->worker, st);
}

/* The innermost call of a table at `at`, or SIZE_MAX; moments do not decrease from one question to
 * the next. */
static size_t innermost(struct walk *walk, enum source source_k, uint64_t at)
{
	struct open *open = &walk->open[source_k];

	for (; open->next < open->end && start_of(walk, source_k, open->next) <= at; open->next++) {
		while (open->n && end_of(walk, source_k, open->row[open->n - 1]) <=
					  start_of(walk, source_k, open->next))
			open->n--;
		ws_grow(open->row, open->cap, open->n + 1);
		open->row[open->n++] = open->next;
	}
	while (open->n && end_of(walk, source_k, open->row[open->n - 1]) <= at)
		open->n--;
	return open->n ? open->row[open->n - 1] : SIZE_MAX;
}

static void describe(const struct walk *walk, enum source source_k, size_t i, struct ws_state *st)
{
	uint64_t *const *col = walk->states->rows[source_k].col;

	if (source_k == GIL) {
		st->wait = WS_WAIT_GIL;
	} else if (source_k == CUDA) {
		st->wait = class_of(walk->states, CUDA, i);
		st->function = (uint32_t)col[ws_cuda_api_name][i];
		st->callchain = (uint32_t)col[ws_cuda_api_callchain][i];
	} else {
		st->wait = class_of(walk->states, OSRT, i);
		st->function = (uint32_t)col[ws_osrt_name][i];
		st->path = (uint32_t)col[ws_osrt_path][i];
		st->object = col[ws_osrt_object][i];
		st->holder = (uint32_t)col[ws_osrt_holder][i];
		st->callchain = (uint32_t)col[ws_osrt_callchain][i];
	}
	if (st->callchain == WS_NO_U32)
		st->callchain = 0;
}

static void name_holder(const struct walk *walk, uint64_t start, uint64_t end, struct ws_state *st)
{
	if (st->wait == WS_WAIT_GIL)
		st->holder =
			gil_holder(walk->states,
				   ws_who_thread(walk->states->who, walk->slice->thread)->process,
				   start, end);
}

/* The system call that the thread was found in during the wait, as a whole inside of it. Waits come
 * in order. */
static bool found_blocked(struct walk *walk, uint64_t start, uint64_t end, struct ws_state *st)
{
	uint64_t *const *col = walk->states->rows[BLOCKED].col;

	while (walk->blocked < walk->slice->to[BLOCKED] &&
	       start_of(walk, BLOCKED, walk->blocked) < start)
		walk->blocked++;
	if (walk->blocked == walk->slice->to[BLOCKED] || end_of(walk, BLOCKED, walk->blocked) > end)
		return false;
	st->wait = class_of(walk->states, BLOCKED, walk->blocked);
	st->function = (uint32_t)col[ws_blocked_name][walk->blocked];
	st->path = (uint32_t)col[ws_blocked_path][walk->blocked];
	return true;
}

/* What the thread waits for in [start, end). */
static void find_reason(struct walk *walk, uint64_t start, uint64_t end, uint64_t after,
			struct ws_state *st)
{
	for (enum source source_k = GIL; source_k < CALLS; source_k++) {
		size_t i = innermost(walk, source_k, start + (end - start) / 2);

		if (i != SIZE_MAX) {
			describe(walk, source_k, i, st);
			return;
		}
	}
	if (found_blocked(walk, start, end, st))
		return;
	st->wait = after == WS_AFTER_UNINTERRUPTIBLE ? WS_WAIT_FAULT : WS_WAIT_NONE;
}

/* The thread is off its core in [start, end), runnable from `ready` on, when `waker` (an id, or 0)
 * had woken it. */
static void waits(struct walk *walk, uint64_t start, uint64_t end, uint64_t ready, uint32_t waker,
		  uint64_t after)
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
		emit(walk, &wait, start, ready);
	}
	emit(walk, &queue, ready, end);
}

/* The next part of [*at, end) that lies in CUDA calls that wait, or in none; advances *at. Returns
 * the call or SIZE_MAX. */
static size_t busy_part(struct walk *walk, uint64_t *at, uint64_t end)
{
	const struct slice *slice = walk->slice;
	uint64_t from = *at;

	for (; walk->busy < slice->to[CUDA]; walk->busy++) {
		uint64_t starts = start_of(walk, CUDA, walk->busy),
			 ends = end_of(walk, CUDA, walk->busy);

		if (ends <= from || ends < starts ||
		    class_of(walk->states, CUDA, walk->busy) != WS_WAIT_GPU)
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

static void runs(struct walk *walk, uint64_t start, uint64_t end, uint32_t cpu)
{
	for (uint64_t at = start; at < end;) {
		struct ws_state st = {.doing = WS_DOING_RUN, .cpu = cpu};
		uint64_t from = at;
		size_t call = busy_part(walk, &at, end);

		if (call != SIZE_MAX)
			describe(walk, CUDA, call, &st);
		emit(walk, &st, from, at);
	}
}

/* From spans on cores. */
static void walk_scheduled(struct walk *walk)
{
	uint64_t *const *col = walk->states->rows[SCHED].col, *start = col[ws_sched_start],
			*end = col[ws_sched_end];
	const uint64_t *cpu = col[ws_sched_cpu],
		       *waker = col[ws_sched_waker]; /* neither when brief */
	uint64_t off = 0;			     /* since when it is off its core */

	for (size_t i = walk->slice->from[SCHED], to = walk->slice->to[SCHED]; i < to; i++) {
		bool last = i + 1 == to;
		uint64_t next = last ? walk->limit : start[i + 1], from = ws_max(start[i], off),
			 till = end[i];

		till = ws_min(till, next); /* an end that was not seen too */
		if (till < from)
			till = from;
		if (i > walk->slice->from[SCHED] && off < from)
			waits(walk, off, from, col[ws_sched_woken][i],
			      waker ? (uint32_t)waker[i] : 0, col[ws_sched_after][i - 1]);
		runs(walk, from, till, cpu ? (uint32_t)cpu[i] : WS_NO_U32);
		off = till;
		if (last && off < walk->limit && end[i] != WS_NO_TIME &&
		    col[ws_sched_after][i] != WS_AFTER_DEAD)
			waits(walk, off, walk->limit, WS_NO_TIME, 0, col[ws_sched_after][i]);
	}
}

/* The next call to begin, of any table, longer ones first; SOURCES when there is none. */
static enum source next_call(const struct walk *walk, const size_t *at)
{
	enum source best = SOURCES;

	for (enum source source_k = GIL; source_k < CALLS; source_k++)
		if (at[source_k] < walk->slice->to[source_k] &&
		    (best == SOURCES ||
		     start_of(walk, source_k, at[source_k]) < start_of(walk, best, at[best])))
			best = source_k;
	return best;
}

/* From calls alone. */
static void walk_calls(struct walk *walk)
{
	size_t at[SOURCES];
	uint64_t done = 0;
	bool begun = false;
	enum source source_k;

	memcpy(at, walk->slice->from, sizeof(at));
	while ((source_k = next_call(walk, at)) != SOURCES) {
		struct ws_state st = {.doing = WS_DOING_WAIT, .cpu = WS_NO_U32},
				none = {.cpu = WS_NO_U32};
		size_t i = at[source_k]++;
		uint64_t start = start_of(walk, source_k, i), end = end_of(walk, source_k, i);

		end = ws_min(end, walk->limit);
		if (end <= start || (begun && end <= done) ||
		    (source_k == CUDA && class_of(walk->states, CUDA, i) == WS_WAIT_CUDA))
			continue;
		if (begun && start < done)
			start = done;
		if (begun)
			emit(walk, &none, done, start);
		describe(walk, source_k, i, &st);
		name_holder(walk, start, end, &st);
		emit(walk, &st, start, end);
		done = end;
		begun = true;
	}
	if (begun) {
		struct ws_state none = {.cpu = WS_NO_U32};

		emit(walk, &none, done, walk->limit);
	}
}

/* Where a thread's states end: with its process, or with the recording. */
static uint64_t limit_of(const struct ws_states *states, uint32_t thread)
{
	const struct ws_process_info *info =
		ws_who_process(states->who, ws_who_thread(states->who, thread)->process);

	return ws_min(info->end, states->last);
}

static void walk_thread(struct walk *walk, const struct slice *slice)
{
	walk->slice = slice;
	walk->limit = limit_of(walk->states, slice->thread);
	walk->busy = slice->from[CUDA];
	walk->blocked = slice->from[BLOCKED];
	for (int k = 0; k < SOURCES; k++) {
		walk->open[k].next = slice->from[k];
		walk->open[k].end = slice->to[k];
		walk->open[k].n = 0;
	}
	if (slice->from[SCHED] < slice->to[SCHED])
		walk_scheduled(walk);
	else
		walk_calls(walk);
}

/* ---- all threads ---- */

struct job {
	const struct ws_states *states;
	uint64_t from, to;
	void (*fn)(void *ctx, uint32_t worker, const struct ws_state *state);
	void *ctx;
	size_t next;
	uint32_t workers;
};

static void *work(void *arg)
{
	struct job *job = arg;
	struct walk walk = {.states = job->states,
			    .from = job->from,
			    .to = job->to,
			    .fn = job->fn,
			    .ctx = job->ctx};
	size_t i;

	walk.worker = __atomic_fetch_add(&job->workers, 1, __ATOMIC_RELAXED);
	while ((i = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) <
	       job->states->thread_count)
		walk_thread(&walk, &job->states->threads[i]);
	for (int k = 0; k < SOURCES; k++)
		free(walk.open[k].row);
	return NULL;
}

uint32_t ws_states_workers(const struct ws_states *states)
{
	struct ws_scan any = {.table = WS_TABLE_sched};
	uint32_t n = ws_scan_workers(&any);

	return n < states->thread_count ? n
	       : states->thread_count	? (uint32_t)states->thread_count
					: 1;
}

void ws_states_run(const struct ws_states *states, uint64_t from, uint64_t to,
		   void (*fn)(void *ctx, uint32_t worker, const struct ws_state *state), void *ctx)
{
	struct job job = {.states = states, .from = from, .to = to, .fn = fn, .ctx = ctx};
	uint32_t n = ws_states_workers(states), started = 1;
	pthread_t *threads = ws_calloc(n, sizeof(*threads));

	for (; started < n; started++)
		if (pthread_create(&threads[started], NULL, work, &job))
			break; /* fewer do it too */
	work(&job);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}
