/*
 * cuda_kern_exec_sum.c - for each launching thread, device, function and kernel: how long the call
 * took, how long the kernel then waited, how long it ran, and all of it together.
 *
 * The wait is from the return of the call to the start of the kernel and counts only where it is
 * positive. Together is from the start of the call to the end of the kernel or the return of the
 * call, whichever is later. Kernels whose call was not recorded are not here.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stats/cuda.h"
#include "base/choose.h"
#include "stats/keyed.h"
#include "stats/launch.h"
#include "text/texts.h"

#define FIVE(letter)                                                                              \
	{letter "Avg", WS_KIND_MEAN}, {letter "Med", WS_KIND_MEAN}, {letter "Min", WS_KIND_TIME}, \
		{letter "Max", WS_KIND_TIME},                                                     \
	{                                                                                         \
		letter "StdDev", WS_KIND_MEAN                                                     \
	}

static const struct ws_column columns[] = {
	{"PID", WS_KIND_ID},
	{"TID", WS_KIND_ID},
	{"DevId", WS_KIND_ID},
	{"Count", WS_KIND_COUNT},
	{"QCount", WS_KIND_COUNT},
	FIVE("T"),
	FIVE("A"),
	FIVE("Q"),
	FIVE("K"),
	{"API Name", WS_KIND_TEXT},
	{"Kernel Name", WS_KIND_TEXT},
};

enum { TOTAL, CALL, WAIT, KERNEL, DISTS };
enum { KEY_THREAD, KEY_DEVICE, KEY_FUNCTION, KEY_NAME, KEY_RANGE, KEY_WORDS };

struct worker {
	struct ws_keyed keyed;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

struct pass {
	struct ws_stats *stats;
	struct ws_launches *launches;
	int name;
	bool ranges;
	struct worker *workers;
	struct ws_texts functions;
};

static void add(struct ws_dist *dist, uint64_t call_start, uint64_t call_end, uint64_t start,
		uint64_t end)
{
	uint64_t last = ws_max(end, call_end);

	ws_dist_add(&dist[TOTAL], last > call_start ? last - call_start : 0);
	ws_dist_add(&dist[CALL], call_end - call_start);
	if (start > call_end)
		ws_dist_add(&dist[WAIT], start - call_end);
	ws_dist_add(&dist[KERNEL], end - start);
}

static int scan(void *ctx, const struct ws_batch *batch)
{
	struct pass *pass = ctx;
	struct worker *worker = &pass->workers[batch->worker];
	uint64_t *const *calls = pass->launches->calls.rows.col;
	const uint64_t *start = batch->col[ws_cuda_kernel_start],
		       *end = batch->col[ws_cuda_kernel_end];

	for (size_t i = 0; i < batch->rows; i++) {
		uint32_t call =
			ws_launches_find(pass->launches, batch->col[ws_cuda_kernel_process][i],
					 batch->col[ws_cuda_kernel_correlation][i]);
		uint64_t key[KEY_WORDS], call_end;

		if (call == WS_NO_CALL)
			continue;
		call_end = calls[ws_cuda_api_end][call];
		if (ws_unlikely(end[i] == WS_NO_TIME || call_end == WS_NO_TIME ||
				end[i] < start[i] || call_end < calls[ws_cuda_api_start][call])) {
			*(end[i] == WS_NO_TIME || call_end == WS_NO_TIME ? &worker->unended
									 : &worker->backwards) += 1;
			continue;
		}
		key[KEY_THREAD] = calls[ws_cuda_api_thread][call];
		key[KEY_DEVICE] = batch->col[ws_cuda_kernel_device][i];
		key[KEY_FUNCTION] = calls[ws_cuda_api_name][call];
		key[KEY_NAME] = batch->col[pass->name][i] ? batch->col[pass->name][i]
							  : batch->col[ws_cuda_kernel_demangled][i];
		key[KEY_RANGE] =
			pass->ranges ? pass->launches->label[pass->launches->enclose.of[call]] : 0;
		add(ws_keyed_get(&worker->keyed, key), calls[ws_cuda_api_start][call], call_end,
		    start[i], end[i]);
	}
	return 0;
}

static void canonical(void *ctx, size_t worker, uint64_t *key)
{
	struct pass *pass = ctx;
	size_t len;
	const char *function =
		ws_cuda_function(pass->stats->report, (uint32_t)key[KEY_FUNCTION], &len);

	(void)worker;
	key[KEY_THREAD] = ws_who_thread(pass->stats->who, (uint32_t)key[KEY_THREAD])->global_tid;
	key[KEY_FUNCTION] = ws_texts_number(&pass->functions, function, len);
	key[KEY_NAME] = ws_report_string_key(pass->stats->report, (uint32_t)key[KEY_NAME]);
	key[KEY_RANGE] = pass->ranges ? ws_launches_label_key(pass->launches, key[KEY_RANGE]) : 0;
}

/* ---- printing ---- */

static void put_five(struct ws_cell *cell, const struct ws_std8 *summary)
{
	bool any = summary->count;

	cell[0] = any ? ws_cell_real(ws_std8_mean(summary)) : ws_cell_null();
	cell[1] = any ? ws_cell_real(ws_std8_median(summary)) : ws_cell_null();
	cell[2] = any ? ws_cell_int((int64_t)summary->min) : ws_cell_null();
	cell[3] = any ? ws_cell_int((int64_t)summary->max) : ws_cell_null();
	cell[4] = ws_cell_real(summary->stddev);
}

static void print_line(struct pass *pass, const uint64_t *key, const struct ws_std8 *summary)
{
	struct ws_cell cells[WS_COUNT(columns)];
	size_t function_len, len;
	const char *function =
		ws_texts_get(&pass->functions, (uint32_t)key[KEY_FUNCTION], &function_len);
	const char *kernel = ws_report_string(pass->stats->report, (uint32_t)key[KEY_NAME], &len);
	char *name = ws_launches_prefixed(pass->launches, key[KEY_RANGE], kernel, &len);

	cells[0] = ws_cell_int((int64_t)(key[KEY_THREAD] >> 24 & 0xffffff));
	cells[1] = ws_cell_int((int64_t)(key[KEY_THREAD] & 0xffffff));
	cells[2] = ws_cell_int((int64_t)key[KEY_DEVICE]);
	cells[3] = ws_cell_int((int64_t)summary[TOTAL].count);
	cells[4] = ws_cell_int((int64_t)summary[WAIT].count);
	for (int i = 0; i < DISTS; i++)
		put_five(cells + 5 + i * 5, &summary[i]);
	cells[25] = ws_cell_text(function, function_len);
	cells[26] = ws_cell_text(name, len);
	pass->stats->row(pass->stats, cells);
	free(name);
}

static int by_total(const void *first, const void *second, void *ctx)
{
	const struct ws_keyed_sums *sums = ctx;
	size_t x = *(const size_t *)first, y = *(const size_t *)second;
	long double m = ws_std8_mean(&sums->summary[x * DISTS]),
		    n = ws_std8_mean(&sums->summary[y * DISTS]);

	if (m != n)
		return m > n ? -1 : 1;
	return memcmp(sums->keys + x * KEY_WORDS, sums->keys + y * KEY_WORDS,
		      KEY_WORDS * sizeof(*sums->keys));
}

static void print(struct pass *pass, struct ws_keyed_sums *sums)
{
	size_t *order = ws_malloc(sums->n * sizeof(*order));

	for (size_t i = 0; i < sums->n; i++)
		order[i] = i;
	if (sums->n)
		qsort_r(order, sums->n, sizeof(*order), by_total, sums);
	for (size_t i = 0; i < sums->n; i++)
		print_line(pass, sums->keys + order[i] * KEY_WORDS,
			   sums->summary + order[i] * DISTS);
	free(order);
}

static void scan_kernels(struct pass *pass)
{
	struct ws_scan sc = {
		.table = WS_TABLE_cuda_kernel,
		.columns = WS_COL(cuda_kernel, start) | WS_COL(cuda_kernel, end) |
			   WS_COL(cuda_kernel, device) | WS_COL(cuda_kernel, process) |
			   WS_COL(cuda_kernel, correlation) | WS_COL(cuda_kernel, demangled) |
			   UINT64_C(1) << pass->name,
		.time_min = pass->stats->time_min,
		.time_max = pass->stats->time_max,
	};
	uint32_t workers = ws_scan_workers(&sc);
	struct ws_keyed *tables = ws_calloc(workers, sizeof(*tables));
	struct ws_keyed_sums sums;
	uint64_t damaged = 0;

	memset(pass->workers, 0, workers * sizeof(*pass->workers));
	for (uint32_t w = 0; w < workers; w++)
		pass->workers[w].keyed = (struct ws_keyed){.words = KEY_WORDS, .per = DISTS};
	ws_scan_run(pass->stats->report, &sc, scan, pass, &damaged);
	pass->stats->damaged += damaged;
	for (uint32_t w = 0; w < workers; w++) {
		tables[w] = pass->workers[w].keyed;
		pass->stats->unended += pass->workers[w].unended;
		pass->stats->backwards += pass->workers[w].backwards;
	}
	ws_keyed_merge(tables, workers, canonical, pass, &sums);
	print(pass, &sums);
	ws_keyed_sums_free(&sums);
	free(tables);
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_scan any = {.table = WS_TABLE_cuda_kernel};
	struct pass pass = {.stats = stats,
			    .name = ws_cuda_name_column(stats),
			    .ranges = ws_stats_arg(stats, "nvtx-name")};

	pass.launches = ws_launches_open(stats, pass.ranges, err);
	if (!pass.launches)
		return -1;
	if (pass.ranges)
		ws_launches_label(pass.launches);
	pass.workers = aligned_alloc(128, ws_scan_workers(&any) * sizeof(*pass.workers));
	if (!pass.workers) {
		ws_launches_close(pass.launches);
		return ws_fail(err, "out of memory");
	}
	scan_kernels(&pass);
	free(pass.workers);
	ws_texts_free(&pass.functions);
	ws_launches_close(pass.launches);
	return 0;
}

const struct ws_stat ws_stat_cuda_kern_exec_sum = {
	.name = "cuda_kern_exec_sum",
	.title = "CUDA Kernel Launch & Exec Time Summary",
	.about = "Kernels by launching thread, device, function and name: times of the call (A), "
		 "of the wait between its return and the "
		 "kernel (Q, where there was one), of the kernel (K) and of all together (T). "
		 "Arguments as for cuda_gpu_kern_sum",
	.what = "CUDA kernels with their calls",
	.unended = "had no end or no times",
	.args = ws_cuda_args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
