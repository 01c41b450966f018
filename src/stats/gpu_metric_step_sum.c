/* gpu_metric_step_sum.c - what the GPU's hardware did during each step of a training loop, from the
 * step's start to its end, on each GPU that its process worked on. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "stats/gpu_work.h"
#include "stats/metered.h"

static const struct ws_column columns[] = {
	{"GPU", WS_KIND_TEXT},
	WS_METERED_LEADING_COLUMNS("Instances"),
#define WS_METERED(ID, title, form, unit, how, names) {title, WS_KIND_##form},
#include "query/metered.def"
	WS_METERED_LAST_COLUMNS,
	{"Step", WS_KIND_TEXT},
};

struct step_metrics {
	struct ws_stats *stats;
	struct ws_gpu_work work;
	struct ws_gpu_metrics metrics;
	struct ws_gpu_steps steps;
};

/* The steps of the processes that worked on a GPU; each is a group. */
static struct ws_metered_spans find_step_spans(const struct step_metrics *metrics,
					       const struct ws_work_gpu *gpu)
{
	const struct ws_steps *steps = &metrics->steps.steps;
	struct ws_metered_spans spans = {0};
	struct ws_map processes = {0};

	for (size_t i = 0; i < gpu->count; i++)
		if (!i || gpu->op[i].process != gpu->op[i - 1].process)
			ws_map_set(&processes, gpu->op[i].process, 1);
	for (size_t i = 0; i < steps->count; i++) {
		if (!ws_map_get(&processes, steps->steps[i].process, NULL))
			continue;
		ws_grow(spans.spans, spans.capacity, spans.count + 1);
		spans.spans[spans.count++] = (struct ws_metered_span){
			steps->steps[i].start, steps->steps[i].end, (uint32_t)i};
	}
	ws_map_free(&processes);
	return spans;
}

static void print_step_lines(struct step_metrics *metrics, const struct ws_metered_gpu *gpu,
			     const struct ws_metered_sums *sums)
{
	struct ws_cell cells[WS_METERED_CELLS + 2];
	struct ws_text text = {0};

	ws_put_metered_gpu_name(metrics->stats, gpu, &text);
	cells[0] = ws_cell_text(text.text, text.len);
	for (size_t i = 0; i < sums->groups; i++) {
		struct ws_text name = {0};

		if (!sums->group[i].count)
			continue;
		ws_put_gpu_step_name(&metrics->work, &metrics->steps.steps.steps[i], &name);
		ws_set_metered_cells(gpu, sums, i, cells + 1);
		ws_drop_mixed_verdict(cells + 1);
		cells[WS_METERED_CELLS + 1] = ws_cell_text(name.text, name.len);
		metrics->stats->row(metrics->stats, cells);
		ws_text_free(&name);
	}
	ws_text_free(&text);
}

static void measure_gpu_steps(struct step_metrics *metrics, const struct ws_work_gpu *gpu)
{
	const struct ws_metered_gpu *metered =
		ws_find_metered_gpu(&metrics->metrics, gpu->uuid, gpu->device);
	struct ws_metered_sums sums = {0};
	struct ws_metered_spans spans;

	if (!metered)
		return;
	spans = find_step_spans(metrics, gpu);
	ws_measure_spans(metrics->stats, metered, &spans, metrics->steps.steps.count, &sums);
	print_step_lines(metrics, metered, &sums);
	ws_metered_sums_free(&sums);
	free(spans.spans);
}

static int make_gpu_metric_step_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct step_metrics metrics = {.stats = stats};
	int status;

	ws_gpu_metrics_load(stats->report, &metrics.metrics);
	stats->damaged += metrics.metrics.damaged;
	status = ws_gpu_work_open(stats, &metrics.work, err);
	if (!status)
		status = ws_add_metered_flops(stats, &metrics.metrics, err);
	if (!status)
		status = ws_gpu_steps_open(stats, ws_get_stats_arg(stats, "step=*"), &metrics.steps,
					   err);
	for (size_t i = 0; !status && i < metrics.work.work.gpus; i++)
		measure_gpu_steps(&metrics, &metrics.work.work.gpu[i]);
	if (metrics.metrics.count == 0)
		stats->lacks = NULL;
	ws_gpu_steps_close(&metrics.steps);
	ws_gpu_work_close(&metrics.work);
	ws_gpu_metrics_free(&metrics.metrics);
	return status;
}

static const char *const args[] = {"step=*", NULL};

const struct ws_stats_report ws_stat_gpu_metric_step_sum = {
	.name = "gpu_metric_step_sum",
	.title = "GPU Metrics by Step",
	.about =
		"What the GPU's hardware did during each step of a training loop, idle time "
		"included. " WS_METERED_HELP "; :step=NAME takes NVTX ranges of that name as steps",
	.what = "metrics of GPUs during steps",
	.explain_absence = ws_explain_no_gpu_metrics,
	.unended = "had no times",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_gpu_metric_step_sum_rows,
};
