/*
 * sched_sum.c - scheduling by thread: how long it ran, waited for a core and waited for something
 * else, how often it was switched and moved.
 *
 * A worker gets all states of a thread in order of time (query/states.c), so that a move to another
 * core follows from the span before.
 */
#include <stdlib.h>
#include <string.h>

#include "query/states.h"
#include "base/choose.h"
#include "query/absent.h"
#include "stats/stats.h"

enum {
	TIME,
	RUN,
	SPANS,
	AVERAGE,
	LONGEST,
	READY,
	READY_LONGEST,
	WAIT,
	UNKNOWN,
	SWITCHES,
	PREEMPTED,
	MOVES,
	CORES,
	PID,
	TID,
	NAME,
	COLUMNS
};

static const struct ws_column columns[COLUMNS] = {
	[TIME] = {"Time", WS_KIND_PERCENT},
	[RUN] = {"Run Time", WS_KIND_TIME},
	[SPANS] = {"Runs", WS_KIND_COUNT},
	[AVERAGE] = {"Avg Run", WS_KIND_MEAN},
	[LONGEST] = {"Max Run", WS_KIND_TIME},
	[READY] = {"Queue Time", WS_KIND_TIME},
	[READY_LONGEST] = {"Max Queue", WS_KIND_TIME},
	[WAIT] = {"Wait Time", WS_KIND_TIME},
	[SWITCHES] = {"Switches", WS_KIND_COUNT},
	[UNKNOWN] = {"Unknown Time", WS_KIND_TIME},
	[PREEMPTED] = {"Preempted", WS_KIND_COUNT},
	[MOVES] = {"Migrations", WS_KIND_COUNT},
	[CORES] = {"Cores", WS_KIND_COUNT},
	[PID] = {"PID", WS_KIND_ID},
	[TID] = {"TID", WS_KIND_ID},
	[NAME] = {"Thread", WS_KIND_TEXT},
};

enum { MOST_CORES = 4096 }; /* cores with higher numbers count as one */

struct sched_line {
	uint32_t thread, cpu; /* cpu: of the last span */
	uint64_t run, spans, longest, ready, ready_longest, wait, unknown, switches, preempted,
		moves, cores;
	uint64_t seen[MOST_CORES / 64];
};

struct sched_worker {
	struct sched_line *lines;
	size_t line_count, line_capacity;
	uint64_t run_end; /* end of the last span of running; spans that touch count as one */
	uint64_t span;	  /* length of that span so far */
} __attribute__((aligned(128)));

static void add_run(struct sched_worker *worker, struct sched_line *line,
		    const struct ws_state *state)
{
	uint32_t cpu = ws_min(state->cpu, MOST_CORES - 1u);

	if (!line->spans || worker->run_end != state->start || line->cpu != state->cpu) {
		line->moves += line->spans && line->cpu != state->cpu;
		line->spans++;
		worker->span = 0;
	}
	worker->span += state->end - state->start;
	worker->run_end = state->end;
	line->longest = ws_max(worker->span, line->longest);
	line->run += state->end - state->start;
	line->cpu = state->cpu;
	if (state->cpu != WS_NO_U32 && !(line->seen[cpu / 64] >> cpu % 64 & 1)) {
		line->seen[cpu / 64] |= UINT64_C(1) << cpu % 64;
		line->cores++;
	}
}

static void add_thread_state(void *context, uint32_t worker, const struct ws_state *state)
{
	struct sched_worker *sched_worker = (struct sched_worker *)context + worker;
	struct sched_line *line;
	uint64_t length = state->end - state->start;

	if (!sched_worker->line_count ||
	    sched_worker->lines[sched_worker->line_count - 1].thread != state->thread) {
		ws_grow(sched_worker->lines, sched_worker->line_capacity,
			sched_worker->line_count + 1);
		sched_worker->lines[sched_worker->line_count] =
			(struct sched_line){.thread = state->thread};
		sched_worker->run_end = WS_NO_TIME;
		sched_worker->line_count++;
	}
	line = &sched_worker->lines[sched_worker->line_count - 1];
	switch (state->doing) {
	case WS_DOING_RUN:
		add_run(sched_worker, line, state);
		break;
	case WS_DOING_RUNNABLE:
		line->switches += state->start == sched_worker->run_end;
		line->preempted +=
			state->start == sched_worker->run_end && state->after == WS_AFTER_PREEMPTED;
		line->ready += length;
		line->ready_longest = ws_max(length, line->ready_longest);
		break;
	case WS_DOING_WAIT:
		line->switches += state->start == sched_worker->run_end;
		line->wait += length;
		break;
	default:
		if (state->lost)
			line->unknown += length;
		break;
	}
}

static int compare_run_times(const void *first, const void *second)
{
	const struct sched_line *left = first, *right = second;

	if (left->run != right->run)
		return ws_compare(right->run, left->run);
	return ws_compare(left->thread, right->thread);
}

static void print_sched_lines(struct ws_stats *stats, const struct sched_line *lines, size_t count)
{
	unsigned __int128 sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += lines[i].run;
	for (size_t i = 0; i < count; i++) {
		const struct sched_line *line = &lines[i];
		const struct ws_thread_info *info = ws_find_thread(stats->who, line->thread);
		struct ws_cell cells[COLUMNS] = {
			[TIME] = ws_cell_real(ws_compute_percent(line->run, (long double)sum)),
			[RUN] = ws_cell_int((int64_t)line->run),
			[SPANS] = ws_cell_int((int64_t)line->spans),
			[AVERAGE] = ws_cell_real((long double)line->run / line->spans),
			[LONGEST] = ws_cell_int((int64_t)line->longest),
			[READY] = ws_cell_int((int64_t)line->ready),
			[READY_LONGEST] = ws_cell_int((int64_t)line->ready_longest),
			[WAIT] = ws_cell_int((int64_t)line->wait),
			[UNKNOWN] = ws_cell_int((int64_t)line->unknown),
			[SWITCHES] = ws_cell_int((int64_t)line->switches),
			[PREEMPTED] = ws_cell_int((int64_t)line->preempted),
			[MOVES] = ws_cell_int((int64_t)line->moves),
			[CORES] = ws_cell_int((int64_t)line->cores),
			[PID] = ws_cell_int(info->pid),
			[TID] = ws_cell_int(info->tid),
			[NAME] = ws_cell_text(info->name, strlen(info->name)),
		};

		stats->row(stats, cells);
	}
}

static int make_sched_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_states *states;
	struct sched_worker *workers;
	struct sched_line *lines = NULL;
	size_t line_count = 0, capacity = 0;
	uint32_t count;

	if (!ws_report_count_rows(stats->report, WS_TABLE_sched))
		return 0;
	states = ws_states_open(stats->report, stats->who, &stats->damaged);
	count = ws_count_state_workers(states);
	workers = aligned_alloc(128, count * sizeof(*workers));
	if (!workers) {
		ws_states_close(states);
		return ws_fail(err, "out of memory");
	}
	memset(workers, 0, count * sizeof(*workers));
	ws_walk_states(states, stats->time_min, stats->time_max, add_thread_state, workers);
	for (uint32_t worker = 0; worker < count; worker++)
		for (size_t i = 0; i < workers[worker].line_count; i++) {
			if (!workers[worker].lines[i].spans)
				continue; /* it did not run in the window, or was not recorded */
			ws_grow(lines, capacity, line_count + 1);
			lines[line_count++] = workers[worker].lines[i];
		}
	if (line_count)
		qsort(lines, line_count, sizeof(*lines), compare_run_times);
	print_sched_lines(stats, lines, line_count);
	for (uint32_t worker = 0; worker < count; worker++)
		free(workers[worker].lines);
	free(lines);
	free(workers);
	ws_states_close(states);
	return 0;
}

const struct ws_stats_report ws_stat_sched_sum = {
	.name = "sched_sum",
	.title = "Scheduling by Thread",
	.about = "Time that each thread ran, waited for a core (Queue: from its wake-up or its "
		 "preemption to its switch-in) and waited for "
		 "something else; how often it was switched out, of that preempted, and moved to "
		 "another core. Unknown is the time from a loss of records to the thread's next "
		 "one.",
	.what = "context switches",
	.explain_absence = ws_explain_no_switches,
	.shows_states = true,
	.columns = columns,
	.column_count = COLUMNS,
	.run = make_sched_sum_rows,
};
