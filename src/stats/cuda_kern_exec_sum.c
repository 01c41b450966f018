/*
 * cuda_kern_exec_sum.c - for each launching thread, device, function and kernel: how long the call
 * took, how long the kernel then waited, how long it ran, and all of it together.
 *
 * The wait is the time from the return of the call to the start of the kernel and counts only where
 * it is positive. The total is the time from the start of the call to the end of the kernel or the
 * return of the call, whichever is later. Kernels whose call was not recorded are left out.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stats/cuda.h"
#include "base/choose.h"
#include "stats/keyed.h"
#include "stats/launch.h"
#include "text/text_numbers.h"

#define STATISTICS(letter)                                                                        \
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
	STATISTICS("T"),
	STATISTICS("A"),
	STATISTICS("Q"),
	STATISTICS("K"),
	{"API Name", WS_KIND_TEXT},
	{"Kernel Name", WS_KIND_TEXT},
};

enum { TOTAL, CALL, WAIT, KERNEL, DISTS };
enum { KEY_THREAD, KEY_DEVICE, KEY_FUNCTION, KEY_NAME, KEY_RANGE, KEY_WORDS };

struct launch_worker {
	struct ws_keyed_dists keyed;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

struct launch_sums {
	struct ws_stats *stats;
	struct ws_launches *launches;
	int name_column;
	bool with_ranges;
	struct launch_worker *workers;
	struct ws_text_numbers functions;
};

static void add_launch(struct ws_dist *dist, uint64_t call_start, uint64_t call_end, uint64_t start,
		       uint64_t end)
{
	uint64_t last = ws_max(end, call_end);

	ws_dist_add(&dist[TOTAL], ws_max(last, call_start) - call_start);
	ws_dist_add(&dist[CALL], call_end - call_start);
	if (start > call_end)
		ws_dist_add(&dist[WAIT], start - call_end);
	ws_dist_add(&dist[KERNEL], end - start);
}

static int scan_launched_kernels(void *context, const struct ws_batch *batch)
{
	struct launch_sums *launch_sums = context;
	struct launch_worker *worker = &launch_sums->workers[batch->worker];
	uint64_t *const *calls = launch_sums->launches->calls.rows.col;
	const uint64_t *start = batch->col[ws_cuda_kernel_start],
		       *end = batch->col[ws_cuda_kernel_end];

	for (size_t i = 0; i < batch->rows; i++) {
		uint32_t call = ws_find_launch_call(launch_sums->launches,
						    batch->col[ws_cuda_kernel_process][i],
						    batch->col[ws_cuda_kernel_correlation][i]);
		uint64_t key[KEY_WORDS], call_end;

		if (call == WS_NO_CALL)
			continue;
		call_end = calls[ws_cuda_api_end][call];
		if (ws_unlikely(end[i] == WS_NO_TIME || call_end == WS_NO_TIME ||
				end[i] < start[i] || call_end < calls[ws_cuda_api_start][call])) {
			ws_count_left_out(ws_max(end[i], call_end), &worker->unended,
					  &worker->backwards);
			continue;
		}
		key[KEY_THREAD] = calls[ws_cuda_api_thread][call];
		key[KEY_DEVICE] = batch->col[ws_cuda_kernel_device][i];
		key[KEY_FUNCTION] = calls[ws_cuda_api_name][call];
		key[KEY_NAME] = ws_choose_kernel_name(batch->col[launch_sums->name_column][i],
						      batch->col[ws_cuda_kernel_demangled][i]);
		key[KEY_RANGE] = 0;
		if (launch_sums->with_ranges)
			key[KEY_RANGE] =
				launch_sums->launches
					->label[launch_sums->launches->enclose.node_of_call[call]];
		add_launch(ws_keyed_get(&worker->keyed, key), calls[ws_cuda_api_start][call],
			   call_end, start[i], end[i]);
	}
	return 0;
}

static void make_canonical_launch_key(void *context, size_t worker, uint64_t *key)
{
	struct launch_sums *launch_sums = context;
	size_t length;
	const char *function = ws_get_cuda_function_name(launch_sums->stats->report,
							 (uint32_t)key[KEY_FUNCTION], &length);

	(void)worker;
	key[KEY_THREAD] =
		ws_find_thread(launch_sums->stats->who, (uint32_t)key[KEY_THREAD])->global_tid;
	key[KEY_FUNCTION] = ws_number_text(&launch_sums->functions, function, length);
	key[KEY_NAME] = ws_get_name_key(launch_sums->stats, (uint32_t)key[KEY_NAME]);
	if (launch_sums->with_ranges)
		key[KEY_RANGE] = ws_get_launch_label_key(launch_sums->launches, key[KEY_RANGE]);
}

/* ---- printing ---- */

static void put_statistics_cells(struct ws_cell *cell, const struct ws_summary *summary)
{
	bool any = summary->count;

	cell[0] = ws_cell_real_if(any, ws_compute_summary_mean(summary));
	cell[1] = ws_cell_real_if(any, ws_compute_summary_median(summary));
	cell[2] = ws_cell_int_if(any, (int64_t)summary->min);
	cell[3] = ws_cell_int_if(any, (int64_t)summary->max);
	cell[4] = ws_cell_real(summary->stddev);
}

static void print_launch_sums(struct launch_sums *launch_sums, const uint64_t *key,
			      const struct ws_summary *summary)
{
	struct ws_cell cells[WS_COUNT(columns)];
	size_t function_len, length;
	const char *function = ws_get_numbered_text(&launch_sums->functions,
						    (uint32_t)key[KEY_FUNCTION], &function_len);
	const char *kernel = ws_get_name(launch_sums->stats, (uint32_t)key[KEY_NAME], &length);
	char *name = ws_make_prefixed_name(launch_sums->launches, key[KEY_RANGE], kernel, &length);

	cells[0] = ws_cell_int((int64_t)(key[KEY_THREAD] >> 24 & 0xffffff));
	cells[1] = ws_cell_int((int64_t)(key[KEY_THREAD] & 0xffffff));
	cells[2] = ws_cell_int((int64_t)key[KEY_DEVICE]);
	cells[3] = ws_cell_int((int64_t)summary[TOTAL].count);
	cells[4] = ws_cell_int((int64_t)summary[WAIT].count);
	for (int i = 0; i < DISTS; i++)
		put_statistics_cells(cells + 5 + i * 5, &summary[i]);
	cells[25] = ws_cell_text(function, function_len);
	cells[26] = ws_cell_text(name, length);
	launch_sums->stats->row(launch_sums->stats, cells);
	free(name);
}

static int compare_mean_totals(const void *first, const void *second, void *context)
{
	const struct ws_keyed_sums *sums = context;
	size_t left = *(const size_t *)first, right = *(const size_t *)second;
	long double left_mean = ws_compute_summary_mean(&sums->summaries[left * DISTS]),
		    right_mean = ws_compute_summary_mean(&sums->summaries[right * DISTS]);

	if (left_mean != right_mean)
		return ws_compare(right_mean, left_mean);
	return memcmp(sums->keys + left * KEY_WORDS, sums->keys + right * KEY_WORDS,
		      KEY_WORDS * sizeof(*sums->keys));
}

static void print_all_launch_sums(struct launch_sums *launch_sums, struct ws_keyed_sums *sums)
{
	size_t *order = ws_malloc(sums->count * sizeof(*order));

	for (size_t i = 0; i < sums->count; i++)
		order[i] = i;
	if (sums->count)
		qsort_r(order, sums->count, sizeof(*order), compare_mean_totals, sums);
	for (size_t i = 0; i < sums->count; i++)
		print_launch_sums(launch_sums, sums->keys + order[i] * KEY_WORDS,
				  sums->summaries + order[i] * DISTS);
	free(order);
}

static void sum_kernel_launches(struct launch_sums *launch_sums)
{
	struct ws_scan scan = {
		.table = WS_TABLE_cuda_kernel,
		.columns = WS_COLUMN_BIT(cuda_kernel, start) | WS_COLUMN_BIT(cuda_kernel, end) |
			   WS_COLUMN_BIT(cuda_kernel, device) |
			   WS_COLUMN_BIT(cuda_kernel, process) |
			   WS_COLUMN_BIT(cuda_kernel, correlation) |
			   WS_COLUMN_BIT(cuda_kernel, demangled) |
			   UINT64_C(1) << launch_sums->name_column,
		.time_min = launch_sums->stats->time_min,
		.time_max = launch_sums->stats->time_max,
	};
	uint32_t workers = ws_count_scan_workers(&scan);
	struct ws_keyed_dists *tables = ws_calloc(workers, sizeof(*tables));
	struct ws_keyed_sums sums;
	uint64_t damaged = 0;

	memset(launch_sums->workers, 0, workers * sizeof(*launch_sums->workers));
	for (uint32_t i = 0; i < workers; i++)
		launch_sums->workers[i].keyed =
			(struct ws_keyed_dists){.words = KEY_WORDS, .dists_per_key = DISTS};
	ws_run_scan(launch_sums->stats->report, &scan, scan_launched_kernels, launch_sums,
		    &damaged);
	launch_sums->stats->damaged += damaged;
	for (uint32_t worker = 0; worker < workers; worker++) {
		tables[worker] = launch_sums->workers[worker].keyed;
		launch_sums->stats->unended += launch_sums->workers[worker].unended;
		launch_sums->stats->backwards += launch_sums->workers[worker].backwards;
	}
	ws_keyed_merge(tables, workers, make_canonical_launch_key, launch_sums, &sums);
	print_all_launch_sums(launch_sums, &sums);
	ws_keyed_sums_free(&sums);
	free(tables);
}

static int make_cuda_kern_exec_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_scan any = {.table = WS_TABLE_cuda_kernel};
	struct launch_sums launch_sums = {.stats = stats,
					  .name_column = ws_choose_kernel_name_column(stats),
					  .with_ranges = ws_get_stats_arg(stats, "nvtx-name")};

	launch_sums.launches = ws_launches_open(stats, launch_sums.with_ranges, err);
	if (!launch_sums.launches)
		return -1;
	launch_sums.launches->fold = stats->fold;
	if (launch_sums.with_ranges)
		ws_label_launches(launch_sums.launches);
	launch_sums.workers =
		aligned_alloc(128, ws_count_scan_workers(&any) * sizeof(*launch_sums.workers));
	if (!launch_sums.workers) {
		ws_launches_close(launch_sums.launches);
		return ws_fail(err, "out of memory");
	}
	sum_kernel_launches(&launch_sums);
	free(launch_sums.workers);
	ws_free_text_numbers(&launch_sums.functions);
	ws_launches_close(launch_sums.launches);
	return 0;
}

const struct ws_stats_report ws_stat_cuda_kern_exec_sum = {
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
	.run = make_cuda_kern_exec_sum_rows,
};
