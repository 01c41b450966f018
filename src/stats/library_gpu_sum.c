/*
 * library_gpu_sum.c - work of GPUs by the library call that launched it, and its shape.
 *
 * A call is the outermost one that a thread was in when it launched work. Its time is the sum of
 * the times of its work, which may overlap. Operations and bytes are computed from the arguments if
 * the declaration of the library says how (inject/libraries); rates are these divided by that time.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "query/library_calls.h"
#include "stats/gpu_work.h"
#include "stats/keyed.h"
#include "stats/summary_rows.h"
#include "views/library_shape.h"

static const struct ws_column columns[] = {
	WS_SUMMARY_COLUMNS("Calls"), {"Library", WS_KIND_TEXT},	 {"Call", WS_KIND_TEXT},
	{"Shape", WS_KIND_TEXT},     {"GPU Ops", WS_KIND_COUNT}, {"GFLOP/s", WS_KIND_RATIO},
	{"Bandwidth", WS_KIND_RATE},
};

enum word { LIBRARY, CALL, SHAPE, WORDS };

/* The work of the calls of a report. */
struct call_work {
	struct ws_library_calls calls;
	uint64_t *time, *ops;	    /* by call */
	struct ws_keyed_dists sums; /* by enum word */
	uint64_t *sum_ops;	    /* by key */
	size_t sum_ops_capacity;
};

static void add_work(const struct ws_gpu_work *work, const struct ws_launches *launches,
		     struct call_work *calls, const struct ws_work_op *op)
{
	uint32_t row = ws_find_launch_call(launches, op->process, op->correlation);
	uint64_t start, end;
	size_t call;

	if (row == WS_NO_CALL || !ws_cut_gpu_work(work, op, &start, &end))
		return;
	call = ws_library_calls_find(&calls->calls,
				     (uint32_t)launches->calls.rows.col[ws_cuda_api_thread][row],
				     launches->calls.rows.col[ws_cuda_api_start][row]);
	if (call == WS_NO_LIBRARY_CALL)
		return;
	calls->time[call] += end - start;
	calls->ops[call]++;
}

static void add_up_calls(const struct ws_stats *stats, struct call_work *calls)
{
	for (size_t i = 0; i < calls->calls.count; i++) {
		const struct ws_library_call *call = &calls->calls.calls[i];
		const uint64_t key[WORDS] = {
			ws_report_string_key(stats->report, call->category),
			ws_report_string_key(stats->report, call->name),
			ws_report_string_key(stats->report, call->args),
		};
		size_t known = calls->sums.count;

		if (!calls->ops[i])
			continue;
		ws_dist_add(ws_keyed_get(&calls->sums, key), calls->time[i]);
		ws_grow(calls->sum_ops, calls->sum_ops_capacity, calls->sums.count);
		if (calls->sums.count != known)
			calls->sum_ops[known] = 0;
		calls->sum_ops[calls->sums.last] += calls->ops[i];
	}
}

/* ---- rows ---- */

/* CUBLAS_EVENTS: CUBLAS */
static struct ws_cell make_library_cell(const struct ws_stats *stats, uint64_t category)
{
	size_t length;
	const char *text = ws_report_string(stats->report, (uint32_t)category, &length);

	return ws_cell_text(text, length - strlen("_EVENTS"));
}

static struct ws_cell make_rate_cell(double amount, const struct ws_summary *summary, double unit)
{
	long double total = (long double)summary->total;

	if (amount < 0 || total <= 0)
		return ws_cell_real_if(false, 0);
	return ws_cell_real((long double)amount * summary->count * 1e9L / total / unit);
}

static void print_call(struct ws_stats *stats, const struct ws_summary *summary,
		       const uint64_t *key, uint64_t ops, unsigned __int128 sum)
{
	struct ws_library_shape shape = ws_read_library_shape(stats->report, (uint32_t)key[SHAPE]);
	size_t length;
	const char *call = ws_report_string(stats->report, (uint32_t)key[CALL], &length);

	stats->row(stats, (struct ws_cell[]){
				  WS_SUMMARY_CELLS(summary, sum),
				  make_library_cell(stats, key[LIBRARY]),
				  ws_cell_text(call, length),
				  ws_cell_text(ws_text_or(shape.text.text, ""), shape.text.len),
				  ws_cell_int((int64_t)ops),
				  make_rate_cell(shape.flops, summary, 1e9),
				  make_rate_cell(shape.bytes, summary, 1),
			  });
	ws_text_free(&shape.text);
}

static void print_calls(struct ws_stats *stats, struct call_work *calls)
{
	struct ws_keyed_sums all;
	struct ws_summary_row *lines;
	unsigned __int128 sum;

	ws_keyed_merge(&calls->sums, 1, NULL, NULL, &all);
	lines = ws_list_keyed_rows(stats->report, &all, CALL, SHAPE, &sum);
	for (size_t i = 0; i < all.count; i++) {
		size_t number = (size_t)(lines[i].summary - all.summaries);

		print_call(stats, lines[i].summary, all.keys + number * WORDS,
			   calls->sum_ops[number], sum);
	}
	free(lines);
	ws_keyed_sums_free(&all);
}

/* Add the work on all GPUs to the calls that launched it. */
static void read_work(struct ws_stats *stats, const struct ws_gpu_work *work,
		      const struct ws_launches *launches, struct call_work *calls)
{
	calls->time = ws_calloc(calls->calls.count + 1, sizeof(*calls->time));
	calls->ops = ws_calloc(calls->calls.count + 1, sizeof(*calls->ops));
	stats->damaged += calls->calls.damaged;
	for (size_t i = 0; i < work->work.gpus; i++)
		for (size_t j = 0; j < work->work.gpu[i].count; j++)
			add_work(work, launches, calls, &work->work.gpu[i].op[j]);
}

static int make_library_gpu_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct call_work calls = {.sums = {.words = WORDS, .dists_per_key = 1}};
	struct ws_launches *launches = NULL;
	struct ws_gpu_work work;
	int status = ws_gpu_work_open(stats, &work, err);

	if (!status)
		status = ws_library_calls_load(stats->report, &calls.calls, err);
	if (!status && calls.calls.count) {
		launches = ws_launches_open(stats, false, err);
		status = launches ? 0 : -1;
	}
	if (launches) {
		read_work(stats, &work, launches, &calls);
		add_up_calls(stats, &calls);
		print_calls(stats, &calls);
	}
	ws_launches_close(launches);
	ws_library_calls_free(&calls.calls);
	free(calls.time);
	free(calls.ops);
	free(calls.sum_ops);
	ws_gpu_work_close(&work);
	return status;
}

const struct ws_stats_report ws_stat_library_gpu_sum = {
	.name = "library_gpu_sum",
	.title = "Library Calls on the GPU Summary",
	.about = "Calls of libraries (cuBLAS, cuDNN...) by what they were asked for, with the time "
		 "of the work that they launched, and its operations and bytes per second where "
		 "these follow from the arguments",
	.what = "library calls with work on a GPU",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_library_gpu_sum_rows,
};
