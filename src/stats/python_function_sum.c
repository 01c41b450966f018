/*
 * python_function_sum.c - calls of the Python functions that the user named
 * (--python-functions-trace), by function. Where a function is defined stands in the arguments of
 * its ranges. Functions of one name that are defined at several places, such as a method of several
 * classes, have a line each.
 */
#include <stdlib.h>
#include <string.h>

#include "stats/keyed.h"
#include "stats/python_place.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {
	WS_SUMMARY_COLUMNS("Instances"), {"Domain", WS_KIND_TEXT},     {"Module", WS_KIND_TEXT},
	{"Function", WS_KIND_TEXT},	 {"Defined At", WS_KIND_TEXT},
};

enum word { DOMAIN, FUNCTION, PLACE, WORDS };

struct range_worker {
	struct ws_keyed_dists sums; /* by enum word */
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

static int scan_ranges(void *context, const struct ws_batch *batch)
{
	struct range_worker *worker = (struct range_worker *)context + batch->worker;
	const uint64_t *start = batch->col[ws_slice_start], *end = batch->col[ws_slice_end];

	for (size_t i = 0; i < batch->rows; i++) {
		const uint64_t key[WORDS] = {
			batch->col[ws_slice_category][i],
			batch->col[ws_slice_name][i],
			batch->col[ws_slice_args][i],
		};

		if (!(batch->col[ws_slice_flags][i] & WS_SLICE_PYTHON))
			continue;
		if (end[i] == WS_NO_TIME || end[i] < start[i])
			ws_count_left_out(end[i], &worker->unended, &worker->backwards);
		else
			ws_dist_add(ws_keyed_get(&worker->sums, key), end[i] - start[i]);
	}
	return 0;
}

/* Texts have several ids where several rounds of the recorder wrote them. */
static void unify_key(void *context, size_t table, uint64_t *key)
{
	(void)table;
	for (int i = 0; i < WORDS; i++)
		key[i] = ws_report_string_key(context, (uint32_t)key[i]);
}

/* ---- rows ---- */

static struct ws_cell make_string_cell(const struct ws_stats *stats, uint64_t id)
{
	size_t length;
	const char *text = ws_report_string(stats->report, (uint32_t)id, &length);

	return ws_cell_text(text, length);
}

static void print_function(struct ws_stats *stats, const struct ws_summary *summary,
			   const uint64_t *key, unsigned __int128 sum)
{
	struct ws_python_place place = {0};

	ws_read_python_place(stats->report, key[PLACE], &place);
	stats->row(stats, (struct ws_cell[]){
				  WS_SUMMARY_CELLS(summary, sum),
				  make_string_cell(stats, key[DOMAIN]),
				  ws_cell_text(place.module.text, place.module.len),
				  make_string_cell(stats, key[FUNCTION]),
				  ws_cell_text(place.at.text, place.at.len),
			  });
	ws_free_python_place(&place);
}

static void print_functions(struct ws_stats *stats, const struct ws_keyed_sums *all)
{
	unsigned __int128 sum;
	struct ws_summary_row *lines =
		ws_list_keyed_rows(stats->report, all, FUNCTION, PLACE, &sum);

	for (size_t i = 0; i < all->count; i++) {
		size_t number = (size_t)(lines[i].summary - all->summaries);

		print_function(stats, lines[i].summary, all->keys + number * WORDS, sum);
	}
	free(lines);
}

static int make_python_function_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_scan scan = {
		.table = WS_TABLE_slice,
		.columns = WS_COLUMN_BIT(slice, start) | WS_COLUMN_BIT(slice, end) |
			   WS_COLUMN_BIT(slice, category) | WS_COLUMN_BIT(slice, name) |
			   WS_COLUMN_BIT(slice, args) | WS_COLUMN_BIT(slice, flags),
		.time_min = stats->time_min,
		.time_max = stats->time_max,
	};
	uint32_t count = ws_count_scan_workers(&scan);
	struct range_worker *workers = aligned_alloc(128, count * sizeof(*workers));
	struct ws_keyed_dists *sums = ws_calloc(count, sizeof(*sums));
	struct ws_keyed_sums all;

	if (!workers) {
		free(sums);
		return ws_fail(err, "out of memory");
	}
	memset(workers, 0, count * sizeof(*workers));
	for (uint32_t i = 0; i < count; i++)
		workers[i].sums = (struct ws_keyed_dists){.words = WORDS, .dists_per_key = 1};
	ws_run_scan(stats->report, &scan, scan_ranges, workers, &stats->damaged);
	for (uint32_t i = 0; i < count; i++) {
		sums[i] = workers[i].sums;
		stats->unended += workers[i].unended;
		stats->backwards += workers[i].backwards;
	}
	ws_keyed_merge(sums, count, unify_key, (void *)stats->report, &all);
	print_functions(stats, &all);
	ws_keyed_sums_free(&all);
	free(sums);
	free(workers);
	return 0;
}

const struct ws_stats_report ws_stat_python_function_sum = {
	.name = "python_function_sum",
	.title = "Python Function Summary",
	.about = "Calls of the Python functions that --python-functions-trace named, by function, "
		 "with the module and the line where it is defined. A generator counts each time "
		 "that it runs. Times include what the function calls.",
	.what = "calls of named Python functions (--python-functions-trace)",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_python_function_rows,
};
