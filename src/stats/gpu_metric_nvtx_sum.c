/*
 * gpu_metric_nvtx_sum.c - what the GPU's hardware did during the ranges of a program, phases of
 * training steps among them.
 *
 * On a GPU, a range lasts from the start of the first work that was launched inside it to the end
 * of the last.
 */
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "stats/gpu_work.h"
#include "stats/metered.h"

static const struct ws_column columns[] = {
	{"GPU", WS_KIND_TEXT},
	WS_METERED_LEADING_COLUMNS("Instances"),
#define WS_METERED(ID, title, form, unit, how, names) {title, WS_KIND_##form},
#include "query/metered.def"
	WS_METERED_LAST_COLUMNS,
	{"Range", WS_KIND_TEXT},
};

struct range_metrics {
	struct ws_stats *stats;
	struct ws_gpu_work work;
	struct ws_gpu_metrics metrics;
	struct ws_launches *launches;
	struct range_span {
		uint64_t first, last;
		bool used;
	} * ranges; /* by range, on the GPU that is being looked at */
};

static void add_op(struct range_metrics *metrics, const struct ws_work_op *op)
{
	const struct ws_enclose *enclose = &metrics->launches->enclose;
	uint32_t call = ws_find_launch_call(metrics->launches, op->process, op->correlation);

	if (call == WS_NO_CALL)
		return;
	for (uint32_t node = enclose->node_of_call[call]; node; node = enclose->node[node].parent) {
		struct range_span *span = &metrics->ranges[enclose->node[node].range];

		if (!span->used || op->start < span->first)
			span->first = op->start;
		span->last = ws_max(span->last, op->end);
		span->used = true;
	}
}

/* The spans of all ranges that have work on a GPU; `names` numbers their names. */
static struct ws_metered_spans find_range_spans(struct range_metrics *metrics,
						const struct ws_work_gpu *gpu,
						struct ws_keyed_dists *names)
{
	uint32_t count = metrics->launches->ranges.count;
	struct ws_metered_spans spans = {0};

	memset(metrics->ranges, 0, count * sizeof(*metrics->ranges));
	for (size_t i = 0; i < gpu->count; i++)
		add_op(metrics, &gpu->op[i]);
	for (uint32_t i = 0; i < count; i++) {
		if (!metrics->ranges[i].used)
			continue;
		ws_keyed_get(names, &(ws_range_key){ws_make_range_key(metrics->launches, i) &
						    ~WS_RANGE_STARTEND});
		ws_grow(spans.spans, spans.capacity, spans.count + 1);
		spans.spans[spans.count++] = (struct ws_metered_span){
			metrics->ranges[i].first, metrics->ranges[i].last, (uint32_t)names->last};
	}
	return spans;
}

static void print_range_lines(struct range_metrics *metrics, const struct ws_metered_gpu *gpu,
			      const struct ws_metered_sums *sums,
			      const struct ws_keyed_dists *names)
{
	struct ws_cell cells[WS_METERED_CELLS + 2];
	struct ws_text text = {0};
	size_t count, length;
	uint32_t *order = ws_order_metered_groups(sums, &count);

	ws_put_metered_gpu_name(metrics->stats, gpu, &text);
	cells[0] = ws_cell_text(text.text, text.len);
	for (size_t i = 0; i < count; i++) {
		char *name = ws_make_range_name(metrics->launches, names->keys[order[i]], &length);

		ws_set_metered_cells(gpu, sums, order[i], cells + 1);
		ws_drop_mixed_verdict(cells + 1);
		cells[WS_METERED_CELLS + 1] = ws_cell_text(name, length);
		metrics->stats->row(metrics->stats, cells);
		free(name);
	}
	ws_text_free(&text);
	free(order);
}

static void measure_gpu_ranges(struct range_metrics *metrics, const struct ws_work_gpu *gpu)
{
	const struct ws_metered_gpu *metered =
		ws_find_metered_gpu(&metrics->metrics, gpu->uuid, gpu->device);
	struct ws_keyed_dists names = {.words = 1};
	struct ws_metered_sums sums = {0};
	struct ws_metered_spans spans;

	if (!metered)
		return;
	spans = find_range_spans(metrics, gpu, &names);
	ws_measure_spans(metrics->stats, metered, &spans, names.count, &sums);
	print_range_lines(metrics, metered, &sums, &names);
	ws_metered_sums_free(&sums);
	ws_keyed_free(&names);
	free(spans.spans);
}

static int make_gpu_metric_nvtx_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct range_metrics metrics = {.stats = stats};
	int status;

	ws_gpu_metrics_load(stats->report, &metrics.metrics);
	stats->damaged += metrics.metrics.damaged;
	status = ws_gpu_work_open(stats, &metrics.work, err);
	if (!status)
		status = ws_add_metered_flops(stats, &metrics.metrics, err);
	if (!status && !(metrics.launches = ws_launches_open(stats, WS_ANY_RANGES, err)))
		status = -1;
	if (!status)
		status = ws_put_helper_launches(stats, metrics.launches, err);
	if (!status) {
		metrics.launches->fold = stats->fold;
		metrics.ranges = ws_calloc((size_t)metrics.launches->ranges.count + 1,
					   sizeof(*metrics.ranges));
	}
	for (size_t i = 0; !status && i < metrics.work.work.gpus; i++)
		measure_gpu_ranges(&metrics, &metrics.work.work.gpu[i]);
	free(metrics.ranges);
	ws_launches_close(metrics.launches);
	ws_gpu_work_close(&metrics.work);
	ws_gpu_metrics_free(&metrics.metrics);
	return status;
}

static const char *const args[] = {WS_HELPER_ARG, NULL};

const struct ws_stats_report ws_stat_gpu_metric_nvtx_sum = {
	.name = "gpu_metric_nvtx_sum",
	.title = "GPU Metrics by NVTX Range",
	.about = "What the GPU's hardware did from the first work that was launched inside a range "
		 "to the last, by the range's name: phases of steps too. " WS_METERED_HELP
		 "; :helper-threads also counts work of threads that the range's own waits for",
	.what = "metrics of GPUs during ranges with work",
	.explain_absence = ws_explain_no_gpu_metrics,
	.unended = "had no times",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_gpu_metric_nvtx_sum_rows,
};
