/*
 * sched_sum.c - scheduling by thread: how long it ran, waited for a core and waited for something
 * else, how often it was switched and moved.
 *
 * A worker sees whole threads in order of time (query/states.c), so a move to another core is told
 * from the span before.
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
	[PREEMPTED] = {"Preempted", WS_KIND_COUNT},
	[MOVES] = {"Migrations", WS_KIND_COUNT},
	[CORES] = {"Cores", WS_KIND_COUNT},
	[PID] = {"PID", WS_KIND_ID},
	[TID] = {"TID", WS_KIND_ID},
	[NAME] = {"Thread", WS_KIND_TEXT},
};

enum { MOST_CORES = 4096 }; /* those above count as one */

struct line {
	uint32_t thread, cpu; /* cpu: of the last span */
	uint64_t run, spans, longest, ready, ready_longest, wait, switches, preempted, moves, cores;
	uint64_t seen[MOST_CORES / 64];
};

struct worker {
	struct line *lines;
	size_t n, cap;
	uint64_t run_end; /* end of the last span of running, so that its parts count once */
	uint64_t span;	  /* its length so far */
} __attribute__((aligned(128)));

static void ran(struct worker *worker, struct line *line, const struct ws_state *st)
{
	uint32_t cpu = st->cpu < MOST_CORES ? st->cpu : MOST_CORES - 1;

	if (!line->spans || worker->run_end != st->start || line->cpu != st->cpu) {
		line->moves += line->spans && line->cpu != st->cpu;
		line->spans++;
		worker->span = 0;
	}
	worker->span += st->end - st->start;
	worker->run_end = st->end;
	line->longest = ws_max(worker->span, line->longest);
	line->run += st->end - st->start;
	line->cpu = st->cpu;
	if (st->cpu != WS_NO_U32 && !(line->seen[cpu / 64] >> cpu % 64 & 1)) {
		line->seen[cpu / 64] |= UINT64_C(1) << cpu % 64;
		line->cores++;
	}
}

static void take(void *ctx, uint32_t worker, const struct ws_state *st)
{
	struct worker *worker_w = (struct worker *)ctx + worker;
	struct line *line;
	uint64_t length = st->end - st->start;

	if (!worker_w->n || worker_w->lines[worker_w->n - 1].thread != st->thread) {
		ws_grow(worker_w->lines, worker_w->cap, worker_w->n + 1);
		worker_w->lines[worker_w->n] = (struct line){.thread = st->thread};
		worker_w->run_end = WS_NO_TIME;
		worker_w->n++;
	}
	line = &worker_w->lines[worker_w->n - 1];
	switch (st->doing) {
	case WS_DOING_RUN:
		ran(worker_w, line, st);
		break;
	case WS_DOING_RUNNABLE:
		line->switches += st->start == worker_w->run_end;
		line->preempted +=
			st->start == worker_w->run_end && st->after == WS_AFTER_PREEMPTED;
		line->ready += length;
		line->ready_longest = ws_max(length, line->ready_longest);
		break;
	case WS_DOING_WAIT:
		line->switches += st->start == worker_w->run_end;
		line->wait += length;
		break;
	}
}

static int by_run(const void *first, const void *second)
{
	const struct line *left = first, *right = second;

	return left->run != right->run ? (left->run > right->run ? -1 : 1)
				       : ws_compare(left->thread, right->thread);
}

static void print(struct ws_stats *stats, const struct line *line_v, size_t n)
{
	unsigned __int128 sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += line_v[i].run;
	for (size_t i = 0; i < n; i++) {
		const struct line *line_l = &line_v[i];
		const struct ws_thread_info *info = ws_who_thread(stats->who, line_l->thread);
		struct ws_cell cells[COLUMNS] = {
			[TIME] = ws_cell_real(
				sum ? (long double)line_l->run * 100 / (long double)sum : 0),
			[RUN] = ws_cell_int((int64_t)line_l->run),
			[SPANS] = ws_cell_int((int64_t)line_l->spans),
			[AVERAGE] = ws_cell_real(
				line_l->spans ? (long double)line_l->run / line_l->spans : 0),
			[LONGEST] = ws_cell_int((int64_t)line_l->longest),
			[READY] = ws_cell_int((int64_t)line_l->ready),
			[READY_LONGEST] = ws_cell_int((int64_t)line_l->ready_longest),
			[WAIT] = ws_cell_int((int64_t)line_l->wait),
			[SWITCHES] = ws_cell_int((int64_t)line_l->switches),
			[PREEMPTED] = ws_cell_int((int64_t)line_l->preempted),
			[MOVES] = ws_cell_int((int64_t)line_l->moves),
			[CORES] = ws_cell_int((int64_t)line_l->cores),
			[PID] = ws_cell_int(info->pid),
			[TID] = ws_cell_int(info->tid),
			[NAME] = ws_cell_text(info->name, strlen(info->name)),
		};

		stats->row(stats, cells);
	}
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_states *states;
	struct worker *workers;
	struct line *all = NULL;
	size_t n = 0, cap = 0;
	uint32_t count;

	if (!ws_report_rows(stats->report, WS_TABLE_sched))
		return 0;
	states = ws_states_open(stats->report, stats->who, &stats->damaged);
	count = ws_states_workers(states);
	workers = aligned_alloc(128, count * sizeof(*workers));
	if (!workers) {
		ws_states_close(states);
		return ws_fail(err, "out of memory");
	}
	memset(workers, 0, count * sizeof(*workers));
	ws_states_run(states, stats->time_min, stats->time_max, take, workers);
	for (uint32_t w = 0; w < count; w++)
		for (size_t i = 0; i < workers[w].n; i++) {
			if (!workers[w].lines[i].spans) /* its scheduling was not recorded, or not
						       in the window */
				continue;
			ws_grow(all, cap, n + 1);
			all[n++] = workers[w].lines[i];
		}
	if (n)
		qsort(all, n, sizeof(*all), by_run);
	print(stats, all, n);
	for (uint32_t w = 0; w < count; w++)
		free(workers[w].lines);
	free(all);
	free(workers);
	ws_states_close(states);
	return 0;
}

const struct ws_stat ws_stat_sched_sum = {
	.name = "sched_sum",
	.title = "Scheduling by Thread",
	.about = "Time that each thread ran, waited for a core (Queue: from its wake-up or its "
		 "preemption to its switch-in) and waited for "
		 "something else; how often it was switched out, of that preempted, and moved to "
		 "another core.",
	.what = "context switches",
	.why = ws_why_no_switches,
	.columns = columns,
	.column_count = COLUMNS,
	.run = run,
};
