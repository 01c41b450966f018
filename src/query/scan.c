/*
 * scan.c - blocks to batches, on several threads. Threads take blocks by number from one counter,
 * so that they are all busy to the end however uneven the blocks are; each has buffers of its own
 * and waits for nobody.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "query/query.h"
#include "query/window.h"

struct run {
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
	struct run *run;
	uint32_t number;
	pthread_t thread;
};

uint32_t ws_scan_workers(const struct ws_scan *scan)
{
	cpu_set_t set;
	uint32_t n = 1;

	if (!sched_getaffinity(0, sizeof(set), &set))
		n = (uint32_t)CPU_COUNT(&set);
	if (scan->workers && scan->workers < n)
		n = scan->workers;
	return n ? n : 1;
}

static int scan_block(struct run *run, struct worker *worker, size_t i, uint64_t *const *buffer)
{
	struct ws_batch batch = {.worker = worker->number, .block = i};
	struct ws_block_info info = ws_report_block(run->report, run->scan->table, i);

	if (!ws_window_touches(&run->window, info.time_min, info.time_max))
		return run->scan->empty ? run->fn(run->ctx, &batch) : 0;
	if (ws_report_decode(run->report, run->scan->table, i, run->window.columns, buffer, NULL)) {
		__atomic_fetch_add(&run->damaged, 1, __ATOMIC_RELAXED);
		return run->scan->empty ? run->fn(run->ctx, &batch) : 0;
	}
	batch.rows = ws_window_filter(&run->window, &info, buffer);
	for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++)
		batch.col[c] = run->scan->columns >> c & 1 ? buffer[c] : NULL;
	return batch.rows || run->scan->empty ? run->fn(run->ctx, &batch) : 0;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct run *run = worker->run;
	uint64_t *buffer[WS_MAX_COLUMNS] = {NULL};
	int zero = 0;

	for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++)
		if (run->window.columns >> c & 1)
			buffer[c] = ws_malloc((size_t)run->most_rows * 8);
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
	for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++)
		free(buffer[c]);
	return NULL;
}

static void run_workers(struct run *run)
{
	uint32_t n = ws_scan_workers(run->scan), started = 1;
	struct worker *worker;

	if (n > run->blocks)
		n = run->blocks ? (uint32_t)run->blocks : 1;
	worker = ws_calloc(n, sizeof(*worker));
	for (uint32_t i = 0; i < n; i++)
		worker[i] = (struct worker){.run = run, .number = i};
	for (; started < n; started++)
		if (pthread_create(&worker[started].thread, NULL, work, &worker[started]))
			break; /* fewer do it too */
	work(&worker[0]);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(worker[i].thread, NULL);
	free(worker);
}

int ws_scan_run(const struct ws_report *report, const struct ws_scan *scan,
		int (*fn)(void *ctx, const struct ws_batch *batch), void *ctx, uint64_t *damaged)
{
	struct run run = {.report = report,
			  .scan = scan,
			  .fn = fn,
			  .ctx = ctx,
			  .blocks = ws_report_blocks(report, scan->table)};

	run.window = ws_window_new(scan->table, scan->columns, scan->time_min, scan->time_max);
	for (size_t i = 0; i < run.blocks; i++) {
		uint32_t rows = scan->skip && scan->skip[i]
					? 0
					: ws_report_block(report, scan->table, i).rows;

		run.most_rows = ws_max(rows, run.most_rows);
	}
	run_workers(&run);
	if (damaged)
		*damaged = run.damaged;
	return run.result;
}
