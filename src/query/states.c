/*
 * states.c - see states.h.
 *
 * All tables are in memory in order of (thread, start), so a thread is a slice of each. Threads are
 * independent and distributed over workers (state_walk.c). Where states are walked once,
 * scheduling, which is by far the largest table, is not in memory: blocks are decoded a few at a
 * time, and each thread's walk goes on with its rows in them.
 */
#include "query/state_walk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/sort.h"

/* ---- reading ---- */

static int compare_holds(const void *first, const void *second)
{
	const struct ws_gil_hold *left = first, *right = second;

	if (left->process != right->process)
		return ws_compare(left->process, right->process);
	if (left->start != right->start)
		return ws_compare(left->start, right->start);
	return ws_compare(left->tid, right->tid);
}

static void add_hold(struct ws_states *states, size_t i)
{
	uint64_t *const *col = states->rows[WS_OF_GIL].col;
	const struct ws_thread_info *info =
		ws_find_thread(states->who, (uint32_t)col[ws_gil_thread][i]);

	ws_grow(states->holds, states->hold_cap, states->hold_count + 1);
	states->holds[states->hold_count++] = (struct ws_gil_hold){.start = col[ws_gil_start][i],
								   .end = col[ws_gil_end][i],
								   .process = info->process,
								   .tid = info->tid};
}

/* Keeps only waits for the GIL as states, in their order; the spans of its holders are kept
 * separately. */
static void keep_gil_waits(struct ws_states *states)
{
	struct ws_rows *rows = &states->rows[WS_OF_GIL];
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
		struct ws_gil_hold *hold = &states->holds[i];

		hold->latest = hold->end;
		if (i && hold[-1].process == hold->process)
			hold->latest = ws_max(hold[-1].latest, hold->end);
	}
}

uint32_t ws_find_gil_holder(const struct ws_states *states, uint32_t process, uint64_t start,
			    uint64_t end)
{
	struct ws_gil_hold wanted = {.process = process, .start = end};
	size_t low;
	uint64_t most = 0;
	uint32_t found = 0;

	/* the first that begins at `end` or later */
	low = ws_bisect(states->hold_count, mid, compare_holds(&states->holds[mid], &wanted) < 0);
	for (size_t i = low;
	     i-- && states->holds[i].process == process && states->holds[i].latest > start;) {
		const struct ws_gil_hold *hold = &states->holds[i];
		uint64_t from = ws_max(hold->start, start), to = ws_min(hold->end, end);

		if (to > from && to - from >= most) { /* the earliest of equals */
			most = to - from;
			found = hold->tid;
		}
	}
	return found;
}

static size_t count_entries(const struct ws_states *states, enum ws_state_table source)
{
	if (source == WS_OF_SCHED && states->streamed)
		return states->runs.count;
	return states->rows[source].rows;
}

static uint64_t get_thread(const struct ws_states *states, enum ws_state_table source, size_t i)
{
	if (source == WS_OF_SCHED && states->streamed)
		return states->runs.by_track[i]->track;
	return states->rows[source].col[ws_state_sources[source].thread][i];
}

static void add_thread(struct ws_states *states, size_t *cap, const size_t *at)
{
	struct ws_state_slice *slice;
	uint64_t thread = UINT64_MAX;

	for (enum ws_state_table source = 0; source < WS_STATE_SOURCES; source++)
		if (at[source] < count_entries(states, source))
			thread = ws_min(thread, get_thread(states, source, at[source]));
	ws_grow(states->threads, *cap, states->thread_count + 1);
	slice = &states->threads[states->thread_count++];
	slice->thread = (uint32_t)thread;
	for (enum ws_state_table k = 0; k < WS_STATE_SOURCES; k++) {
		slice->from[k] = at[k];
		slice->to[k] = at[k] + ws_bisect(count_entries(states, k) - at[k], i,
						 get_thread(states, k, at[k] + i) <= thread);
	}
}

static void find_threads(struct ws_states *states)
{
	size_t at[WS_STATE_SOURCES] = {0}, cap = 0;
	bool more = false;

	for (enum ws_state_table source = 0; source < WS_STATE_SOURCES; source++)
		more |= count_entries(states, source) > 0;
	while (more) {
		add_thread(states, &cap, at);
		more = false;
		for (enum ws_state_table k = 0; k < WS_STATE_SOURCES; k++) {
			at[k] = states->threads[states->thread_count - 1].to[k];
			more |= at[k] < count_entries(states, k);
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

/* ---- streaming ---- */

enum { BLOCKS_AT_A_TIME = 8, LEAST_ROWS_OF_RUN = 16 };

/* Whether each thread's runs are in the order of their blocks and follow one another. */
static bool runs_follow_blocks(const struct ws_runs *runs)
{
	for (size_t i = 1; i < runs->count; i++) {
		const struct ws_run *run = runs->by_track[i], *before = runs->by_track[i - 1];

		if (before->track == run->track &&
		    (before->last >= run->first || before->block >= run->block))
			return false;
	}
	return true;
}

/* Whether scheduling can be walked block by block, which needs no memory for all of it: not where
 * blocks were written out of order, or have hardly two rows of any thread. */
static bool can_stream(struct ws_states *states)
{
	uint64_t rows = ws_report_count_rows(states->report, WS_TABLE_sched);

	if (ws_runs_list(states->report, WS_TABLE_sched, UINT32_MAX, rows / LEAST_ROWS_OF_RUN,
			 &states->runs) &&
	    states->runs.count && runs_follow_blocks(&states->runs))
		return true;
	ws_runs_free(&states->runs);
	return false;
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
	for (int source = 0; source < WS_STATE_SOURCES; source++) {
		struct ws_scan scan = {.table = ws_state_sources[source].table,
				       .columns = ws_state_sources[source].columns,
				       .time_min = part->from,
				       .time_max = part->to};

		const uint8_t *threads = part->threads;

		if (source == WS_OF_SCHED && (part->brief || part->coreless))
			scan.columns &= ~WS_COLUMN_BIT(sched, cpu);
		if (source == WS_OF_SCHED && part->brief)
			scan.columns &= ~WS_COLUMN_BIT(sched, waker);
		if (source == WS_OF_GIL && part->holders)
			threads = NULL;
		if (source == WS_OF_SCHED && part->once && can_stream(states)) {
			states->streamed = true;
			states->columns = scan.columns & ~WS_COLUMN_BIT(sched, thread);
			continue;
		}
		if (source == WS_OF_CUDA && part->calls) {
			states->rows[source] = *part->calls;
			states->borrowed = true;
		} else {
			ws_rows_load_tracks(report, &scan, threads, part->count,
					    &states->rows[source]);
		}
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
	for (int source = 0; source < WS_STATE_SOURCES; source++)
		if (source != WS_OF_CUDA || !states->borrowed)
			ws_rows_free(&states->rows[source]);
	ws_rows_free(&states->gaps);
	ws_runs_free(&states->runs);
	free(states->holds);
	free(states->threads);
	free(states->classes);
	free(states);
}

bool ws_states_has_scheduling(const struct ws_states *states)
{
	return count_entries(states, WS_OF_SCHED) > 0;
}

size_t ws_states_count_spans(const struct ws_states *states, uint32_t thread)
{
	size_t number = ws_bisect(states->thread_count, k, states->threads[k].thread < thread),
	       spans = 0;
	const struct ws_state_slice *slice = &states->threads[number];

	if (number == states->thread_count || slice->thread != thread)
		return 0;
	if (!states->streamed)
		return slice->to[WS_OF_SCHED] - slice->from[WS_OF_SCHED];
	for (size_t i = slice->from[WS_OF_SCHED]; i < slice->to[WS_OF_SCHED]; i++)
		spans += states->runs.by_track[i]->rows;
	return spans;
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
	size_t first_left, released[WS_STATE_SOURCES];
};

/* Gives back the rows of the first threads up to one that is not done, where they are many. */
static void release_rows(struct walk_job *job, size_t thread)
{
	pthread_mutex_lock(&job->lock);
	job->done[thread] = 1;
	while (job->first_left < job->spent->thread_count && job->done[job->first_left])
		job->first_left++;
	for (int source = 0; job->first_left && source < WS_STATE_SOURCES; source++) {
		size_t until = job->spent->threads[job->first_left - 1].to[source];

		if (until - job->released[source] < WS_ROWS_RELEASED ||
		    (source == WS_OF_CUDA && job->spent->borrowed))
			continue;
		ws_rows_release(&job->spent->rows[source], job->released[source], until);
		job->released[source] = until;
	}
	pthread_mutex_unlock(&job->lock);
}

static bool is_scheduled(const struct ws_state_slice *slice)
{
	return slice->from[WS_OF_SCHED] < slice->to[WS_OF_SCHED];
}

static void walk_thread(struct ws_state_walk *walk, const struct ws_state_slice *slice)
{
	struct ws_spans all = {.col = walk->states->rows[WS_OF_SCHED].col,
			       .from = slice->from[WS_OF_SCHED],
			       .to = slice->to[WS_OF_SCHED],
			       .last = true};

	if (is_scheduled(slice) && walk->states->streamed)
		return; /* it has been walked */
	ws_begin_state_walk(walk, slice);
	if (is_scheduled(slice))
		ws_walk_spans(walk, &all);
	else
		ws_walk_calls(walk);
}

static void *walk_threads(void *arg)
{
	struct walk_job *job = arg;
	struct ws_state_walk walk = {.states = job->states,
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
	ws_free_state_walk(&walk);
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

/* ---- scheduling block by block ---- */

/* Blocks at hand: each is decoded by one worker, then each thread's runs in them are walked by
 * one. */
struct stream {
	struct walk_job *job;
	struct ws_state_walk **walks; /* by thread: from its first run to its last */
	size_t block, count;	      /* of the first block at hand; of the blocks at hand */
	uint64_t *col[BLOCKS_AT_A_TIME][WS_MAX_COLUMNS];
	bool decoded[BLOCKS_AT_A_TIME];
	struct stream_run {
		size_t number; /* by track */
		size_t at;     /* of the blocks at hand */
	} * runs;
	size_t run_count, run_cap;
	size_t *first; /* by thread at hand: its first run; then the end of all */
	size_t thread_count, thread_cap;
};

static void decode_block(void *ctx, unsigned worker, size_t i)
{
	struct stream *stream = ctx;
	const struct ws_states *states = stream->job->states;

	(void)worker;
	stream->decoded[i] =
		!ws_report_decode_block(states->report, WS_TABLE_sched, stream->block + i,
					states->columns, stream->col[i], NULL);
}

static int compare_stream_runs(const void *first, const void *second)
{
	const struct stream_run *left = first, *right = second;

	return ws_compare(left->number, right->number);
}

/* Lists the runs of the blocks at hand by thread. */
static void list_stream_runs(struct stream *stream)
{
	const struct ws_runs *runs = &stream->job->states->runs;

	stream->run_count = stream->thread_count = 0;
	for (size_t at = 0; at < stream->count; at++)
		for (size_t i = runs->of_block[stream->block + at];
		     i && i <= runs->count && runs->runs[i - 1].block == stream->block + at; i++) {
			ws_grow(stream->runs, stream->run_cap, stream->run_count + 1);
			stream->runs[stream->run_count++] =
				(struct stream_run){runs->runs[i - 1].number, at};
		}
	if (stream->run_count)
		qsort(stream->runs, stream->run_count, sizeof(*stream->runs), compare_stream_runs);
	for (size_t i = 0; i <= stream->run_count; i++) {
		if (i && i < stream->run_count &&
		    runs->by_track[stream->runs[i].number]->track ==
			    runs->by_track[stream->runs[i - 1].number]->track)
			continue;
		ws_grow(stream->first, stream->thread_cap, stream->thread_count + 1);
		stream->first[stream->thread_count++] = i;
	}
	stream->thread_count--;
}

static struct ws_state_walk *begin_walk(const struct walk_job *job,
					const struct ws_state_slice *slice)
{
	struct ws_state_walk *walk = ws_calloc(1, sizeof(*walk));

	*walk = (struct ws_state_walk){.states = job->states,
				       .from = job->from,
				       .to = job->to,
				       .spent = job->spent,
				       .fn = job->fn,
				       .ctx = job->ctx};
	ws_begin_state_walk(walk, slice);
	return walk;
}

static void walk_stream_run(struct stream *stream, struct ws_state_walk *walk,
			    const struct stream_run *run)
{
	const struct ws_runs *runs = &stream->job->states->runs;
	const struct ws_run *rows = runs->by_track[run->number];
	struct ws_spans spans = {.col = stream->col[run->at],
				 .from = rows->from,
				 .to = rows->from + rows->rows,
				 .last = run->number + 1 == walk->slice->to[WS_OF_SCHED]};

	if (!spans.last)
		spans.next = runs->by_track[run->number + 1]->first;
	if (stream->decoded[run->at])
		ws_walk_spans(walk, &spans);
}

static void walk_stream_thread(void *ctx, unsigned worker, size_t i)
{
	struct stream *stream = ctx;
	const struct ws_states *states = stream->job->states;
	uint32_t id = states->runs.by_track[stream->runs[stream->first[i]].number]->track;
	size_t number = ws_bisect(states->thread_count, k, states->threads[k].thread < id),
	       end = stream->first[i + 1];
	struct ws_state_walk *walk = stream->walks[number];

	if (!walk)
		walk = stream->walks[number] = begin_walk(stream->job, &states->threads[number]);
	walk->worker = worker;
	for (size_t k = stream->first[i]; k < end; k++)
		walk_stream_run(stream, walk, &stream->runs[k]);
	if (stream->runs[end - 1].number + 1 == walk->slice->to[WS_OF_SCHED]) {
		ws_free_state_walk(walk);
		free(walk);
		stream->walks[number] = NULL;
	}
}

/* Returns how many blocks could not be read. */
static uint64_t stream_blocks(struct walk_job *job)
{
	const struct ws_states *states = job->states;
	size_t blocks = ws_report_count_blocks(states->report, WS_TABLE_sched), most = 0;
	uint32_t workers = ws_count_state_workers(states);
	uint64_t damaged = 0;
	struct stream stream = {
		.job = job, .walks = ws_calloc(states->thread_count + 1, sizeof(*stream.walks))};

	for (size_t i = 0; i < blocks; i++)
		most = ws_max(most,
			      (size_t)ws_report_block_info(states->report, WS_TABLE_sched, i).rows);
	for (size_t i = 0; i < BLOCKS_AT_A_TIME; i++)
		for (uint32_t column = 0; column < WS_MAX_COLUMNS; column++)
			if (states->columns >> column & 1)
				stream.col[i][column] = ws_malloc(most * 8);
	for (; stream.block < blocks; stream.block += stream.count) {
		stream.count = ws_min(blocks - stream.block, (size_t)BLOCKS_AT_A_TIME);
		list_stream_runs(&stream);
		ws_run_parallel(workers, stream.count, decode_block, &stream);
		for (size_t i = 0; i < stream.count; i++)
			damaged += !stream.decoded[i];
		ws_run_parallel(workers, stream.thread_count, walk_stream_thread, &stream);
	}
	for (size_t i = 0; i < BLOCKS_AT_A_TIME; i++)
		for (uint32_t column = 0; column < WS_MAX_COLUMNS; column++)
			free(stream.col[i][column]);
	free(stream.walks);
	free(stream.runs);
	free(stream.first);
	return damaged;
}

void ws_walk_states(const struct ws_states *states, uint64_t from, uint64_t to,
		    void (*fn)(void *ctx, uint32_t worker, const struct ws_state *state), void *ctx)
{
	struct walk_job job = {.states = states, .from = from, .to = to, .fn = fn, .ctx = ctx};

	walk_all(&job);
}

uint64_t ws_walk_states_once(struct ws_states *states,
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
	uint64_t damaged = 0;

	if (states->streamed)
		damaged = stream_blocks(&job);
	walk_all(&job);
	free(job.done);
	return damaged;
}
