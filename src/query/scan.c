/*
 * scan.c - from blocks to batches, on several threads. Threads take blocks by number from one
 * counter, so that they are all busy to the end however uneven the blocks are; each has buffers of
 * its own and waits for no other.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "query/query.h"
#include "query/window.h"

struct scan_run {
	const struct ws_report *report;
	const struct ws_scan *scan;
	struct ws_window window;
	int (*fn)(void *ctx, const struct ws_batch *batch);
	void *ctx;
	size_t blocks, next;
	uint32_t most_rows;
	uint64_t damaged;
	int result; /* first non-zero value of fn */
};

struct worker {
	struct scan_run *run;
	uint32_t number;
	pthread_t thread;
};

uint32_t ws_count_scan_workers(const struct ws_scan *scan)
{
	cpu_set_t set;
	uint32_t workers = 1;

	if (!sched_getaffinity(0, sizeof(set), &set))
		workers = (uint32_t)CPU_COUNT(&set);
	if (scan->workers && scan->workers < workers)
		workers = scan->workers;
	return ws_max(workers, 1u);
}

static int pass_batch(struct scan_run *run, const struct ws_batch *batch)
{
	if (!batch->rows && !run->scan->empty)
		return 0;
	return run->fn(run->ctx, batch);
}

static int scan_block(struct scan_run *run, struct worker *worker, size_t i,
		      uint64_t *const *buffer)
{
	struct ws_batch batch = {.worker = worker->number, .block = i};
	struct ws_block_info info = ws_report_block_info(run->report, run->scan->table, i);

	if (!ws_window_touches(&run->window, info.time_min, info.time_max))
		return pass_batch(run, &batch);
	if (ws_report_decode_block(run->report, run->scan->table, i, run->window.columns, buffer,
				   NULL)) {
		__atomic_fetch_add(&run->damaged, 1, __ATOMIC_RELAXED);
		return pass_batch(run, &batch);
	}
	batch.rows = ws_window_filter(&run->window, &info, buffer);
	for (uint32_t column = 0; column < WS_MAX_COLUMNS; column++)
		if (run->scan->columns >> column & 1)
			batch.col[column] = buffer[column];
	return pass_batch(run, &batch);
}

static void *scan_blocks(void *arg)
{
	struct worker *worker = arg;
	struct scan_run *run = worker->run;
	uint64_t *buffer[WS_MAX_COLUMNS] = {NULL};
	int zero = 0;

	for (uint32_t column = 0; column < WS_MAX_COLUMNS; column++)
		if (run->window.columns >> column & 1)
			buffer[column] = ws_malloc((size_t)run->most_rows * 8);
	while (!__atomic_load_n(&run->result, __ATOMIC_RELAXED)) {
		size_t i = __atomic_fetch_add(&run->next, 1, __ATOMIC_RELAXED);
		int rc;

		if (i >= run->blocks)
			break;
		if (run->scan->skip && run->scan->skip[i])
			continue;
		rc = scan_block(run, worker, i, buffer);
		if (rc)
			__atomic_compare_exchange_n(&run->result, &zero, rc, false,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
	for (uint32_t number = 0; number < WS_MAX_COLUMNS; number++)
		free(buffer[number]);
	return NULL;
}

static void run_workers(struct scan_run *run)
{
	uint32_t workers = ws_count_scan_workers(run->scan), started = 1;
	struct worker *worker;

	workers = (uint32_t)ws_min((size_t)workers, ws_max(run->blocks, (size_t)1));
	worker = ws_calloc(workers, sizeof(*worker));
	for (uint32_t i = 0; i < workers; i++)
		worker[i] = (struct worker){.run = run, .number = i};
	for (; started < workers; started++)
		if (pthread_create(&worker[started].thread, NULL, scan_blocks, &worker[started]))
			break; /* fewer threads are only slower */
	scan_blocks(&worker[0]);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(worker[i].thread, NULL);
	free(worker);
}

int ws_run_scan(const struct ws_report *report, const struct ws_scan *scan,
		int (*fn)(void *ctx, const struct ws_batch *batch), void *ctx, uint64_t *damaged)
{
	struct scan_run run = {.report = report,
			       .scan = scan,
			       .fn = fn,
			       .ctx = ctx,
			       .blocks = ws_report_count_blocks(report, scan->table)};

	run.window = ws_make_window(scan->table, scan->columns, scan->time_min, scan->time_max);
	for (size_t i = 0; i < run.blocks; i++) {
		uint32_t rows;

		if (scan->skip && scan->skip[i])
			continue;
		rows = ws_report_block_info(report, scan->table, i).rows;
		run.most_rows = ws_max(rows, run.most_rows);
	}
	run_workers(&run);
	if (damaged)
		*damaged = run.damaged;
	return run.result;
}
