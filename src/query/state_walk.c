/*
 * state_walk.c - see state_walk.h.
 *
 * A thread off its core executes nothing, so the calls that it is in cannot change while it waits.
 * One look-up at the middle of a wait finds them, even if clocks differ by a microsecond at its
 * ends. Calls of a table nest: a stack of those that have begun, advanced from wait to wait, has
 * the innermost on top.
 */
#include "query/state_walk.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/sort.h"

const struct ws_state_source ws_state_sources[WS_STATE_SOURCES] = {
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

/* The class (enum ws_wait) of a call. Each name is classified once; several workers may do it at
 * the same time, with the same result. */
static uint8_t classify_call(const struct ws_states *states, enum ws_state_table source, size_t i)
{
	static const int names[WS_STATE_SOURCES] = {[WS_OF_CUDA] = ws_cuda_api_name,
						    [WS_OF_OSRT] = ws_osrt_name,
						    [WS_OF_BLOCKED] = ws_blocked_name};
	uint32_t name = (uint32_t)states->rows[source].col[names[source]][i];
	uint8_t known = 0;
	const char *text;

	if (name <= states->strings)
		known = __atomic_load_n(&states->classes[name], __ATOMIC_RELAXED);
	if (known)
		return known - 1;
	text = ws_report_string(states->report, name, NULL);
	if (source == WS_OF_CUDA)
		known = ws_classify_cuda_call(text) + 1;
	else
		known = ws_classify_osrt_call(text) + 1;
	if (name <= states->strings)
		__atomic_store_n(&states->classes[name], known, __ATOMIC_RELAXED);
	return known - 1;
}

static uint64_t get_start(const struct ws_state_walk *walk, enum ws_state_table source, size_t i)
{
	return walk->states->rows[source].col[ws_state_sources[source].start][i];
}

/* A call that never returned lasts to the end. */
static uint64_t get_end(const struct ws_state_walk *walk, enum ws_state_table source, size_t i)
{
	return walk->states->rows[source].col[ws_state_sources[source].end][i];
}

static void emit_state(const struct ws_state_walk *walk, struct ws_state *state, uint64_t start,
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
static size_t find_innermost(struct ws_state_walk *walk, enum ws_state_table source, uint64_t at)
{
	struct ws_open_calls *open = &walk->open[source];

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

static void describe_call(const struct ws_state_walk *walk, enum ws_state_table source, size_t i,
			  struct ws_state *state)
{
	uint64_t *const *col = walk->states->rows[source].col;

	if (source == WS_OF_GIL) {
		state->wait = WS_WAIT_GIL;
	} else if (source == WS_OF_CUDA) {
		state->wait = classify_call(walk->states, WS_OF_CUDA, i);
		state->function = (uint32_t)col[ws_cuda_api_name][i];
		state->callchain = (uint32_t)col[ws_cuda_api_callchain][i];
	} else {
		state->wait = classify_call(walk->states, WS_OF_OSRT, i);
		state->function = (uint32_t)col[ws_osrt_name][i];
		state->path = (uint32_t)col[ws_osrt_path][i];
		state->object = col[ws_osrt_object][i];
		state->holder = (uint32_t)col[ws_osrt_holder][i];
		state->callchain = (uint32_t)col[ws_osrt_callchain][i];
	}
	if (state->callchain == WS_NO_U32)
		state->callchain = 0;
}

static void name_holder(const struct ws_state_walk *walk, uint64_t start, uint64_t end,
			struct ws_state *state)
{
	if (state->wait == WS_WAIT_GIL)
		state->holder = ws_find_gil_holder(
			walk->states,
			ws_find_thread(walk->states->who, walk->slice->thread)->process, start,
			end);
}

/* Finds the system call in which the recorder found the thread during the wait, if all of the call
 * lies inside the wait. Waits come in order. */
static bool find_blocked_call(struct ws_state_walk *walk, uint64_t start, uint64_t end,
			      struct ws_state *state)
{
	uint64_t *const *col = walk->states->rows[WS_OF_BLOCKED].col;

	while (walk->blocked < walk->slice->to[WS_OF_BLOCKED] &&
	       get_start(walk, WS_OF_BLOCKED, walk->blocked) < start)
		walk->blocked++;
	if (walk->blocked == walk->slice->to[WS_OF_BLOCKED] ||
	    get_end(walk, WS_OF_BLOCKED, walk->blocked) > end)
		return false;
	/* The last of several has the most information: also the file of the call's descriptor. */
	while (walk->blocked + 1 < walk->slice->to[WS_OF_BLOCKED] &&
	       get_end(walk, WS_OF_BLOCKED, walk->blocked + 1) <= end)
		walk->blocked++;
	state->wait = classify_call(walk->states, WS_OF_BLOCKED, walk->blocked);
	state->function = (uint32_t)col[ws_blocked_name][walk->blocked];
	state->path = (uint32_t)col[ws_blocked_path][walk->blocked];
	return true;
}

/* The interpreter waits for the GIL in a call of the C library, which has a stack. */
static void add_stack_of_gil_wait(struct ws_state_walk *walk, uint64_t at, struct ws_state *state)
{
	size_t i = find_innermost(walk, WS_OF_OSRT, at);

	if (i == SIZE_MAX)
		return;
	state->callchain = (uint32_t)walk->states->rows[WS_OF_OSRT].col[ws_osrt_callchain][i];
	if (state->callchain == WS_NO_U32)
		state->callchain = 0;
}

/* Finds what the thread waits for in [start, end). */
static void find_reason(struct ws_state_walk *walk, uint64_t start, uint64_t end, uint64_t after,
			struct ws_state *state)
{
	for (enum ws_state_table source = WS_OF_GIL; source < WS_OF_CALLS; source++) {
		size_t i = find_innermost(walk, source, start + (end - start) / 2);

		if (i != SIZE_MAX) {
			describe_call(walk, source, i, state);
			if (source == WS_OF_GIL)
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
static void emit_known_waits(struct ws_state_walk *walk, uint64_t start, uint64_t end,
			     uint64_t ready, uint32_t waker, uint64_t after)
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

static void emit_unknown(const struct ws_state_walk *walk, uint64_t start, uint64_t end)
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
static void emit_waits(struct ws_state_walk *walk, uint64_t start, uint64_t end, uint64_t ready,
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
static size_t find_busy_part(struct ws_state_walk *walk, uint64_t *at, uint64_t end)
{
	const struct ws_state_slice *slice = walk->slice;
	uint64_t from = *at;

	for (; walk->busy < slice->to[WS_OF_CUDA]; walk->busy++) {
		uint64_t starts = get_start(walk, WS_OF_CUDA, walk->busy),
			 ends = get_end(walk, WS_OF_CUDA, walk->busy);

		if (ends <= from || ends < starts ||
		    classify_call(walk->states, WS_OF_CUDA, walk->busy) != WS_WAIT_GPU)
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

static void emit_runs(struct ws_state_walk *walk, uint64_t start, uint64_t end, uint32_t cpu)
{
	for (uint64_t at = start; at < end;) {
		struct ws_state state = {.doing = WS_DOING_RUN, .cpu = cpu};
		uint64_t from = at;
		size_t call = find_busy_part(walk, &at, end);

		if (call != SIZE_MAX)
			describe_call(walk, WS_OF_CUDA, call, &state);
		emit_state(walk, &state, from, at);
	}
}

/* Emits a thread's states from its spans on cores, or from those that follow the ones before. */
void ws_walk_spans(struct ws_state_walk *walk, const struct ws_spans *spans)
{
	uint64_t *const *col = spans->col, *start = col[ws_sched_start], *end = col[ws_sched_end];
	const uint64_t *cpu = col[ws_sched_cpu],
		       *waker = col[ws_sched_waker]; /* NULL where a part leaves it out */
	size_t kept = spans->from;

	for (size_t i = spans->from; i < spans->to; i++) {
		bool last = spans->last && i + 1 == spans->to;
		uint64_t next = spans->next, from = ws_max(start[i], walk->off), till = end[i];
		uint32_t woken_by = 0, core = WS_NO_U32;

		if (last)
			next = walk->limit;
		else if (i + 1 < spans->to)
			next = start[i + 1];
		if (waker)
			woken_by = (uint32_t)waker[i];
		if (cpu)
			core = (uint32_t)cpu[i];
		till = ws_min(till,
			      ws_min(next, walk->limit)); /* also where the end was not seen */
		till = ws_max(till, from);
		if (walk->scheduled && walk->off < from)
			emit_waits(walk, walk->off, from, col[ws_sched_woken][i], woken_by,
				   walk->after);
		if (end[i] == WS_NO_TIME && (!last || walk->states->recorded))
			emit_unknown(walk, from, till);
		else
			emit_runs(walk, from, till, core);
		walk->scheduled = true;
		walk->off = till;
		walk->after = col[ws_sched_after][i];
		if (walk->spent && !walk->states->streamed && i - kept > WS_ROWS_RELEASED) {
			ws_rows_release(&walk->spent->rows[WS_OF_SCHED], kept, i);
			kept = i;
		}
		if (last && till < walk->limit && end[i] != WS_NO_TIME &&
		    walk->after != WS_AFTER_DEAD)
			emit_waits(walk, till, walk->limit, WS_NO_TIME, 0, walk->after);
	}
}

/* The table of the next call to begin, longer ones first; SOURCES when there is none. */
static enum ws_state_table next_call(const struct ws_state_walk *walk, const size_t *at)
{
	enum ws_state_table best = WS_STATE_SOURCES;

	for (enum ws_state_table source = WS_OF_GIL; source < WS_OF_CALLS; source++)
		if (at[source] < walk->slice->to[source] &&
		    (best == WS_STATE_SOURCES ||
		     get_start(walk, source, at[source]) < get_start(walk, best, at[best])))
			best = source;
	return best;
}

/* Emits a thread's states from its calls alone. */
void ws_walk_calls(struct ws_state_walk *walk)
{
	size_t at[WS_STATE_SOURCES];
	uint64_t done = 0;
	bool begun = false;
	enum ws_state_table source;

	memcpy(at, walk->slice->from, sizeof(at));
	while ((source = next_call(walk, at)) != WS_STATE_SOURCES) {
		struct ws_state state = {.doing = WS_DOING_WAIT, .cpu = WS_NO_U32},
				none = {.cpu = WS_NO_U32};
		size_t i = at[source]++;
		uint64_t start = get_start(walk, source, i), end = get_end(walk, source, i);

		end = ws_min(end, walk->limit);
		if (end <= start || (begun && end <= done) ||
		    (source == WS_OF_CUDA &&
		     classify_call(walk->states, WS_OF_CUDA, i) == WS_WAIT_CUDA))
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

void ws_begin_state_walk(struct ws_state_walk *walk, const struct ws_state_slice *slice)
{
	walk->slice = slice;
	walk->limit = find_limit(walk->states, slice->thread);
	walk->busy = slice->from[WS_OF_CUDA];
	walk->blocked = slice->from[WS_OF_BLOCKED];
	walk->scheduled = false;
	walk->off = 0;
	for (int source = 0; source < WS_STATE_SOURCES; source++) {
		walk->open[source].next = slice->from[source];
		walk->open[source].end = slice->to[source];
		walk->open[source].count = 0;
	}
}

void ws_free_state_walk(struct ws_state_walk *walk)
{
	for (int source = 0; source < WS_STATE_SOURCES; source++)
		free(walk->open[source].row);
}
