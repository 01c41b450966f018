/* metered.c - see metered.h. Metrics are distributed over all cores, so that the sums of each
 * metric are written by one thread only. */
#include "stats/metered.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/parallel.h"

static int compare_spans(const void *first, const void *second)
{
	const struct ws_metered_span *left = first, *right = second;

	return ws_compare(left->start, right->start);
}

/* Leave out spans outside the window, cut the others to it, and sort them. */
static void prepare_spans(const struct ws_stats *stats, struct ws_metered_spans *spans)
{
	size_t kept = 0;
	bool sorted = true;

	for (size_t i = 0; i < spans->count; i++) {
		struct ws_metered_span span = spans->spans[i];

		span.start = ws_max(span.start, stats->time_min);
		span.end = ws_min(span.end, stats->time_max);
		if (span.end < span.start)
			continue;
		sorted &= !kept || spans->spans[kept - 1].start <= span.start;
		spans->spans[kept++] = span;
	}
	spans->count = kept;
	if (!sorted)
		qsort(spans->spans, spans->count, sizeof(*spans->spans), compare_spans);
}

struct span_measurer {
	const struct ws_metered_gpu *gpu;
	const struct ws_metered_spans *spans;
	struct ws_metered_sums *sums;
};

/* The series whose samples are counted: the one with the most points, sampled at the highest
 * rate. */
static const struct ws_metric_series *choose_sampled_series(const struct ws_metered_gpu *gpu)
{
	const struct ws_metric_series *best = &gpu->series[0];

	for (int metric = 1; metric < WS_GPU_METRICS; metric++)
		if (metric != WS_GPU_FLOPS && gpu->series[metric].count > best->count)
			best = &gpu->series[metric];
	return best;
}

/* Count instances, and samples of the fastest series, each once a group. */
static void count_samples(const struct span_measurer *measurer)
{
	const struct ws_metric_series *series = choose_sampled_series(measurer->gpu);
	uint64_t *until = ws_calloc(measurer->sums->groups + 1, sizeof(*until));
	size_t near = 0;

	for (size_t i = 0; i < measurer->spans->count; i++) {
		const struct ws_metered_span *span = &measurer->spans->spans[i];
		struct ws_metered_group *group = &measurer->sums->group[span->group];
		struct ws_metric_part part =
			ws_measure_metric(series, &near, span->start, span->end);

		group->time += span->end - span->start;
		group->count++;
		group->own_time += part.known;
		ws_add_metric_samples(series, &part, span->start, span->end, &until[span->group],
				      &group->samples);
	}
	free(until);
}

static void measure_metric(void *context, unsigned worker, size_t metric)
{
	struct span_measurer *measurer = context;
	const struct ws_metric_series *series;
	double *sum;
	uint64_t *known;
	size_t near = 0;

	(void)worker;
	if (metric == WS_GPU_METRICS) {
		count_samples(measurer);
		return;
	}
	series = &measurer->gpu->series[metric];
	if (!series->count)
		return;
	sum = measurer->sums->sum[metric];
	known = measurer->sums->known[metric];
	for (size_t i = 0; i < measurer->spans->count; i++) {
		const struct ws_metered_span *span = &measurer->spans->spans[i];
		struct ws_metric_part part =
			ws_measure_metric(series, &near, span->start, span->end);

		sum[span->group] += part.sum;
		known[span->group] += part.known;
	}
}

void ws_measure_spans(const struct ws_stats *stats, const struct ws_metered_gpu *gpu,
		      struct ws_metered_spans *spans, size_t groups, struct ws_metered_sums *sums)
{
	struct span_measurer measurer = {gpu, spans, sums};

	sums->groups = groups;
	sums->group = ws_calloc(groups + 1, sizeof(*sums->group));
	for (int metric = 0; metric < WS_GPU_METRICS; metric++) {
		sums->sum[metric] = ws_calloc(groups + 1, sizeof(*sums->sum[metric]));
		sums->known[metric] = ws_calloc(groups + 1, sizeof(*sums->known[metric]));
	}
	prepare_spans(stats, spans);
	ws_run_parallel(ws_count_workers(), WS_GPU_METRICS + 1, measure_metric, &measurer);
}

void ws_metered_sums_free(struct ws_metered_sums *sums)
{
	for (int metric = 0; metric < WS_GPU_METRICS; metric++) {
		free(sums->sum[metric]);
		free(sums->known[metric]);
	}
	free(sums->group);
	*sums = (struct ws_metered_sums){0};
}

/* ---- cells ---- */

/* Below this share of samples that are its own, values say too little about a group. */
enum { ENOUGH_PERCENT = 50 };

/* A rate without a counter is computed from the share of the memory's peak. */
static double find_memory_rate(const struct ws_metered_gpu *gpu, const double *means, int share)
{
	if (gpu->memory_bandwidth <= 0)
		return NAN;
	return means[share] / 100 * gpu->memory_bandwidth;
}

static void find_means(const struct ws_metered_gpu *gpu, const struct ws_metered_sums *sums,
		       size_t group, double means[WS_GPU_METRICS])
{
	for (int metric = 0; metric < WS_GPU_METRICS; metric++) {
		means[metric] = NAN;
		if (sums->known[metric][group])
			means[metric] =
				sums->sum[metric][group] / (double)sums->known[metric][group];
	}
	if (means[WS_GPU_FLOPS] == 0) /* no call with known operations */
		means[WS_GPU_FLOPS] = NAN;
	if (isnan(means[WS_GPU_DRAM_READ_RATE]))
		means[WS_GPU_DRAM_READ_RATE] = find_memory_rate(gpu, means, WS_GPU_DRAM_READ);
	if (isnan(means[WS_GPU_DRAM_WRITE_RATE]))
		means[WS_GPU_DRAM_WRITE_RATE] = find_memory_rate(gpu, means, WS_GPU_DRAM_WRITE);
}

void ws_set_metered_cells(const struct ws_metered_gpu *gpu, const struct ws_metered_sums *sums,
			  size_t group, struct ws_cell *cells)
{
	const struct ws_metered_group *line = &sums->group[group];
	long double own = ws_compute_percent(line->own_time, line->samples.time),
		    joules = sums->sum[WS_GPU_POWER][group] / 1e9;
	enum ws_gpu_bound bound = WS_BOUND_UNKNOWN;
	double means[WS_GPU_METRICS];
	const char *name;

	find_means(gpu, sums, group, means);
	if (own >= ENOUGH_PERCENT)
		bound = ws_find_gpu_bound(means);
	name = ws_name_gpu_bound(bound);
	*cells++ = ws_cell_int((int64_t)line->time);
	*cells++ = ws_cell_int((int64_t)line->count);
	*cells++ = ws_cell_int((int64_t)line->samples.count);
	/* Spans of the same group may overlap. */
	*cells++ = ws_cell_real_if(line->samples.count > 0, ws_min(own, 100.0L));
	for (int metric = 0; metric < WS_GPU_SHOWN_METRICS; metric++)
		*cells++ = ws_cell_real_if(!isnan(means[metric]), (long double)means[metric]);
	*cells++ =
		ws_cell_real_if(sums->known[WS_GPU_POWER][group] > 0, roundl(joules * 1e6L) / 1e6L);
	*cells = ws_cell_text_if(*name, name, strlen(name));
}

void ws_drop_mixed_verdict(struct ws_cell *cells)
{
	struct ws_cell *verdict = &cells[WS_METERED_CELLS - 1];

	if (verdict->type == WS_CELL_TEXT && verdict->t.text == ws_name_gpu_bound(WS_BOUND_LATENCY))
		*verdict = ws_cell_null();
}

void ws_put_metered_gpu_name(const struct ws_stats *stats, const struct ws_metered_gpu *gpu,
			     struct ws_text *text)
{
	size_t length;
	const char *name = ws_report_string(stats->report, gpu->name, &length);

	if (!length) {
		name = "GPU";
		length = 3;
	}
	ws_text_add(text, name, length);
	if (gpu->number != WS_NO_U32)
		ws_text_printf(text, " (%" PRIu32 ")", gpu->number);
	else if (gpu->uuid)
		ws_text_printf(text, " (%s)", ws_report_string(stats->report, gpu->uuid, NULL));
}

static int compare_groups(const void *first, const void *second, void *context)
{
	const struct ws_metered_sums *sums = context;
	uint32_t left = *(const uint32_t *)first, right = *(const uint32_t *)second;

	if (sums->group[left].time != sums->group[right].time)
		return ws_compare(sums->group[right].time, sums->group[left].time);
	return ws_compare(left, right);
}

uint32_t *ws_order_metered_groups(const struct ws_metered_sums *sums, size_t *count)
{
	uint32_t *order = ws_malloc((sums->groups + 1) * sizeof(*order));

	*count = 0;
	for (size_t i = 0; i < sums->groups; i++)
		if (sums->group[i].time)
			order[(*count)++] = (uint32_t)i;
	qsort_r(order, *count, sizeof(*order), compare_groups, (void *)sums);
	return order;
}

const char *ws_explain_no_gpu_metrics(const struct ws_report *report)
{
	if (!ws_report_count_rows(report, WS_TABLE_counter_value))
		return "record with --gpu-metrics-devices=all, or with --system-metrics=gpu for "
		       "what the driver tells";
	return "record with --gpu-metrics-devices=all";
}
