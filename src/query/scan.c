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
#include "query/query.h"
#include "query/window.h"

struct run {
	const struct ws_report *r;
	const struct ws_scan *s;
	struct ws_window window;
	int (*fn)(void *ctx, const struct ws_batch *b);
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

uint32_t ws_scan_workers(const struct ws_scan *s)
{
	cpu_set_t set;
	uint32_t n = 1;

	if (!sched_getaffinity(0, sizeof(set), &set))
		n = (uint32_t)CPU_COUNT(&set);
	if (s->workers && s->workers < n)
		n = s->workers;
	return n ? n : 1;
}

static int scan_block(struct run *run, struct worker *w, size_t i, uint64_t *const *buffer)
{
	struct ws_batch b = {.worker = w->number, .block = i};
	struct ws_block_info info = ws_report_block(run->r, run->s->table, i);

	if (!ws_window_touches(&run->window, info.time_min, info.time_max))
		return run->s->empty ? run->fn(run->ctx, &b) : 0;
	if (ws_report_decode(run->r, run->s->table, i, run->window.columns, buffer, NULL)) {
		__atomic_fetch_add(&run->damaged, 1, __ATOMIC_RELAXED);
		return run->s->empty ? run->fn(run->ctx, &b) : 0;
	}
	b.rows = ws_window_filter(&run->window, &info, buffer);
	for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++)
		b.col[c] = run->s->columns >> c & 1 ? buffer[c] : NULL;
	return b.rows || run->s->empty ? run->fn(run->ctx, &b) : 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct run *run = w->run;
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
		if (run->s->skip && run->s->skip[i])
			continue;
		rc = scan_block(run, w, i, buffer);
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
	uint32_t n = ws_scan_workers(run->s), started = 1;
	struct worker *w;

	if (n > run->blocks)
		n = run->blocks ? (uint32_t)run->blocks : 1;
	w = ws_calloc(n, sizeof(*w));
	for (uint32_t i = 0; i < n; i++)
		w[i] = (struct worker){.run = run, .number = i};
	for (; started < n; started++)
		if (pthread_create(&w[started].thread, NULL, work, &w[started]))
			break; /* fewer do it too */
	work(&w[0]);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(w[i].thread, NULL);
	free(w);
}

int ws_scan_run(const struct ws_report *r, const struct ws_scan *s,
		int (*fn)(void *ctx, const struct ws_batch *b), void *ctx, uint64_t *damaged)
{
	struct run run = {
		.r = r, .s = s, .fn = fn, .ctx = ctx, .blocks = ws_report_blocks(r, s->table)};

	run.window = ws_window_new(s->table, s->columns, s->time_min, s->time_max);
	for (size_t i = 0; i < run.blocks; i++) {
		uint32_t rows = s->skip && s->skip[i] ? 0 : ws_report_block(r, s->table, i).rows;

		run.most_rows = rows > run.most_rows ? rows : run.most_rows;
	}
	run_workers(&run);
	if (damaged)
		*damaged = run.damaged;
	return run.result;
}
