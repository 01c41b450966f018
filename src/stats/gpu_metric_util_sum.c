/* gpu_metric_util_sum.c - every metric of every GPU: its mean, spread and extremes, weighted by the
 * time for which each value held. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/parallel.h"
#include "stats/metered.h"

static const struct ws_column columns[] = {
	{"GPU", WS_KIND_TEXT},	    {"Metric", WS_KIND_TEXT}, {"Unit", WS_KIND_TEXT},
	{"Samples", WS_KIND_COUNT}, {"Time", WS_KIND_TIME},   {"Avg", WS_KIND_VALUE},
	{"Med", WS_KIND_VALUE},	    {"Min", WS_KIND_VALUE},   {"Max", WS_KIND_VALUE},
	{"StdDev", WS_KIND_VALUE},
};

struct counter_line {
	uint32_t id, name, unit, group, uuid, device;
	struct ws_metric_series series;
	size_t values;
	uint64_t samples, time; /* samples; ns */
	double mean, median, lowest, highest, deviation;
};

struct counter_lines {
	struct ws_stats *stats;
	struct counter_line *lines;
	size_t count, capacity;
};

static void find_counter_lines(struct counter_lines *lines)
{
	const struct ws_report *report = lines->stats->report;
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_counter, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		if (!ws_is_gpu_counter(report, values) || values[ws_counter_id] >> 24)
			continue;
		ws_grow(lines->lines, lines->capacity, lines->count + 1);
		lines->lines[lines->count++] = (struct counter_line){
			.id = (uint32_t)values[ws_counter_id],
			.name = (uint32_t)values[ws_counter_name],
			.unit = (uint32_t)values[ws_counter_unit],
			.group = (uint32_t)values[ws_counter_group],
			.uuid = ws_report_string_key(report, (uint32_t)values[ws_counter_identity]),
			.device = (uint32_t)values[ws_counter_device]};
	}
	ws_cursor_close(cursor);
}

static void read_counter_values(struct counter_lines *lines)
{
	struct ws_metric_series *series = ws_calloc(lines->count + 1, sizeof(*series));
	uint32_t highest = 0, *place;

	for (size_t i = 0; i < lines->count; i++)
		highest = ws_max(highest, lines->lines[i].id);
	place = ws_calloc((size_t)highest + 1, sizeof(*place));
	for (size_t i = 0; i < lines->count; i++)
		place[lines->lines[i].id] = (uint32_t)i + 1;
	lines->stats->damaged += ws_metric_series_load(lines->stats->report, place,
						       (size_t)highest + 1, series, lines->count);
	for (size_t i = 0; i < lines->count; i++) {
		lines->lines[i].series = series[i];
		lines->lines[i].series.period =
			ws_find_sample_period(lines->stats->report, lines->lines[i].group);
	}
	free(series);
	free(place);
}

struct weighted {
	double value;
	uint64_t weight;
};

static int compare_weighted(const void *first, const void *second)
{
	const struct weighted *left = first, *right = second;

	return ws_compare(left->value, right->value);
}

/* The samples of a counter, cut to the window. */
static struct weighted *list_samples(const struct ws_stats *stats,
				     const struct ws_metric_series *series, size_t *count)
{
	struct weighted *out = ws_malloc((series->count + 1) * sizeof(*out));

	*count = 0;
	for (size_t i = 0; i + 1 < series->count; i++) {
		uint64_t start = ws_max(series->time[i], stats->time_min),
			 end = ws_min(series->time[i + 1], stats->time_max),
			 known = series->known[i + 1] - series->known[i];

		if (!known || end <= start)
			continue;
		out[(*count)++] = (struct weighted){
			(series->sum[i + 1] - series->sum[i]) / (double)known, end - start};
	}
	return out;
}

/* Differences of running sums have rounding errors in their last digits, which are rounded away. */
static double round_digits(double value)
{
	double scale;

	if (value == 0 || !isfinite(value))
		return value;
	scale = pow(10, 9 - ceil(log10(fabs(value))));
	return round(value * scale) / scale;
}

/* A value that held for several periods stands for as many samples. */
static uint64_t count_samples(uint64_t period, uint64_t time)
{
	if (!period)
		return 1;
	return ws_max((time + period / 2) / period, UINT64_C(1));
}

static void summarise_line(void *context, unsigned worker, size_t index)
{
	const struct counter_lines *lines = context;
	struct counter_line *line = &lines->lines[index];
	struct weighted *samples = list_samples(lines->stats, &line->series, &line->values);
	double sum = 0, squares = 0;
	uint64_t before = 0;

	(void)worker;
	for (size_t i = 0; i < line->values; i++) {
		sum += samples[i].value * (double)samples[i].weight;
		line->time += samples[i].weight;
		line->samples += count_samples(line->series.period, samples[i].weight);
	}
	if (line->values) {
		qsort(samples, line->values, sizeof(*samples), compare_weighted);
		line->mean = sum / (double)line->time;
		line->lowest = samples[0].value;
		line->highest = samples[line->values - 1].value;
	}
	for (size_t i = 0; i < line->values; i++) {
		double off = samples[i].value - line->mean;

		squares += off * off * (double)samples[i].weight;
		if (before <= line->time / 2)
			line->median = samples[i].value;
		before += samples[i].weight;
	}
	if (line->values)
		line->deviation = sqrt(squares / (double)line->time);
	free(samples);
}

static int compare_lines(const void *first, const void *second)
{
	const struct counter_line *left = first, *right = second;

	if (left->device != right->device)
		return ws_compare(left->device, right->device);
	if (left->uuid != right->uuid)
		return ws_compare(left->uuid, right->uuid);
	return ws_compare(left->id, right->id);
}

static void print_line(struct counter_lines *lines, const struct counter_line *line)
{
	struct ws_stats *stats = lines->stats;
	struct ws_metered_gpu gpu = {.uuid = line->uuid, .number = line->device};
	struct ws_text text = {0};
	size_t name_length, unit_length;
	const char *name = ws_report_string(stats->report, line->name, &name_length),
		   *unit = ws_report_string(stats->report, line->unit, &unit_length);

	ws_describe_metered_gpu(stats->report, &gpu);
	ws_put_metered_gpu_name(stats, &gpu, &text);
	stats->row(stats, (struct ws_cell[]){
				  ws_cell_text(text.text, text.len),
				  ws_cell_text(name, name_length),
				  ws_cell_text(unit, unit_length),
				  ws_cell_int((int64_t)line->samples),
				  ws_cell_int((int64_t)line->time),
				  ws_cell_real(round_digits(line->mean)),
				  ws_cell_real(round_digits(line->median)),
				  ws_cell_real(round_digits(line->lowest)),
				  ws_cell_real(round_digits(line->highest)),
				  ws_cell_real(round_digits(line->deviation)),
			  });
	ws_text_free(&text);
}

static int make_gpu_metric_util_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct counter_lines lines = {.stats = stats};

	(void)err;
	find_counter_lines(&lines);
	read_counter_values(&lines);
	ws_run_parallel(ws_count_workers(), lines.count, summarise_line, &lines);
	if (lines.count)
		qsort(lines.lines, lines.count, sizeof(*lines.lines), compare_lines);
	for (size_t i = 0; i < lines.count; i++) {
		if (lines.lines[i].values)
			print_line(&lines, &lines.lines[i]);
		ws_metric_series_free(&lines.lines[i].series);
	}
	free(lines.lines);
	return 0;
}

const struct ws_stats_report ws_stat_gpu_metric_util_sum = {
	.name = "gpu_metric_util_sum",
	.title = "GPU Metrics Utilization Summary",
	.about = "Every metric of every GPU, sampled or told by the driver: mean, median, extremes "
		 "and standard deviation, weighted by time. gpu_metric_kern_sum, "
		 "gpu_metric_nvtx_sum and gpu_metric_step_sum have the means by kernel, range and "
		 "step",
	.what = "metrics of GPUs",
	.explain_absence = ws_explain_no_gpu_metrics,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_gpu_metric_util_sum_rows,
};
