/* samples.c - see samples.h. */
#include "kernel/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "kernel/charts.h"
#include "kernel/sections.h"
#include "kernel/units.h"
#include "query/query.h"
#include "text/json_write.h"

enum { SERIES_MOST = 256, MOMENTS_MOST = 1 << 16, CHART_PARTS = 400, GRAPH_PARTS = 48 };

static struct ws_kernel_series *find_series(struct ws_kernel_timed *timed, const char *metric,
					    const char *unit)
{
	for (size_t i = 0; i < timed->count; i++)
		if (!strcmp(timed->series[i].metric, metric))
			return &timed->series[i];
	if (timed->count == SERIES_MOST)
		return NULL;
	ws_grow(timed->series, timed->capacity, timed->count + 1);
	timed->series[timed->count] = (struct ws_kernel_series){.metric = metric, .unit = unit};
	return &timed->series[timed->count++];
}

static double read_value(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static void add_moment(const struct ws_report *report, const uint64_t *values,
		       struct ws_kernel_timed *timed)
{
	const char *metric = ws_report_string(report, (uint32_t)values[ws_kernel_sample_metric],
					      NULL),
		   *unit = ws_kernel_plain_unit(
			   ws_report_string(report, (uint32_t)values[ws_kernel_sample_unit], NULL));
	struct ws_kernel_series *series = find_series(timed, metric, unit);
	struct ws_kernel_moment_value moment = {values[ws_kernel_sample_start],
						values[ws_kernel_sample_end],
						read_value(values[ws_kernel_sample_value])};

	if (!series || series->count == MOMENTS_MOST || moment.end <= moment.start)
		return;
	ws_grow(series->moments, series->capacity, series->count + 1);
	series->moments[series->count++] = moment;
	timed->span = ws_max(timed->span, moment.end);
}

void ws_kernel_load_timed(const struct ws_report *report, uint32_t result,
			  struct ws_kernel_timed *timed)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_kernel_sample, 0, UINT64_MAX);
	const uint64_t *values;

	*timed = (struct ws_kernel_timed){0};
	while (ws_cursor_next(cursor, &values))
		if (values[ws_kernel_sample_result] == result)
			add_moment(report, values, timed);
	ws_cursor_close(cursor);
}

void ws_kernel_free_timed(struct ws_kernel_timed *timed)
{
	for (size_t i = 0; i < timed->count; i++)
		free(timed->series[i].moments);
	free(timed->series);
	*timed = (struct ws_kernel_timed){0};
}

/* How much of an interval lies in another, ns. */
static double measure_overlap(const struct ws_kernel_moment_value *moment, double start, double end)
{
	double from = fmax((double)moment->start, start), to = fmin((double)moment->end, end);

	return fmax(to - from, 0);
}

void ws_kernel_condense(const struct ws_kernel_series *series, uint64_t span, double *values,
			size_t count)
{
	double width = (double)span / (double)count;

	for (size_t part = 0; part < count; part++) {
		double start = (double)part * width, sum = 0, time = 0;

		for (size_t i = 0; i < series->count; i++) {
			double overlap = measure_overlap(&series->moments[i], start, start + width);

			if (!overlap || isnan(series->moments[i].value))
				continue;
			sum += series->moments[i].value * overlap;
			time += overlap;
		}
		values[part] = time > 0 ? sum / time : NAN;
	}
}

/* Whether a formula is this metric, perhaps multiplied. */
static bool is_metric_of(const char *formula, const char *metric)
{
	size_t length = strlen(metric);

	return !strncmp(formula, metric, length) && (!formula[length] || formula[length] == ' ');
}

/* The line of sections.def that shows the metric; NULL for one that was asked for by name. */
static const struct ws_kernel_line *find_line(const struct ws_kernel_result *result,
					      const char *metric)
{
	uint8_t family = ws_kernel_chip_family(result->chip);
	const struct ws_kernel_line *lines;
	size_t count, prefix = strlen(WS_KERNEL_SAMPLED);

	lines = ws_kernel_lines(&count);
	for (size_t i = 0; i < count; i++)
		if (!strncmp(lines[i].value, WS_KERNEL_SAMPLED, prefix) &&
		    is_metric_of(lines[i].value + prefix, metric) && (lines[i].chips & family))
			return &lines[i];
	return NULL;
}

static const char *find_label(const struct ws_kernel_result *result,
			      const struct ws_kernel_series *series)
{
	const struct ws_kernel_line *line = find_line(result, series->metric);

	return line ? line->label : series->metric;
}

/* Of links, a graph of their share of the peak is enough; others differ only in their unit. */
static bool is_drawn(const struct ws_kernel_result *result, const struct ws_kernel_series *series)
{
	const struct ws_kernel_line *line = find_line(result, series->metric);

	return !line || !strcmp(ws_kernel_sections[line->section].identifier, "PmSampling") ||
	       strstr(series->metric, ".pct_of_peak");
}

/* ---- for the page ---- */

static void put_series(struct ws_text *out, const struct ws_kernel_result *result,
		       const struct ws_kernel_timed *timed, const struct ws_kernel_series *series)
{
	double values[CHART_PARTS];
	size_t count = ws_min(series->count, (size_t)CHART_PARTS);
	char *metric = ws_format(WS_KERNEL_SAMPLED "%s", series->metric);

	ws_kernel_condense(series, timed->span, values, count);
	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_json_string(out, "label", find_label(result, series));
	ws_put_json_string(out, "metric", metric);
	ws_put_json_string(out, "unit", series->unit);
	ws_put_json_key(out, "values");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < count; i++) {
		ws_put_json_comma(out);
		if (isfinite(values[i]))
			ws_text_printf(out, "%.5g", values[i]);
		else
			ws_text_puts(out, "null");
	}
	ws_text_puts(out, "]}");
	free(metric);
}

void ws_put_kernel_series(struct ws_text *out, const struct ws_report *report,
			  const struct ws_kernel_result *result)
{
	struct ws_kernel_timed timed;

	ws_kernel_load_timed(report, result->row.id, &timed);
	if (timed.count) {
		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "kind", "series");
		ws_put_json_string(out, "title", "Over the time of the kernel");
		ws_put_json_int(out, "span", (int64_t)timed.span);
		ws_put_json_key(out, "series");
		ws_text_puts(out, "[");
		for (size_t i = 0; i < timed.count; i++)
			if (is_drawn(result, &timed.series[i]))
				put_series(out, result, &timed, &timed.series[i]);
		ws_text_puts(out, "]}");
	}
	ws_kernel_free_timed(&timed);
}

/* ---- for the terminal ---- */

/* Eight heights; a percentage is drawn up to 100, another value up to its highest. */
static void add_graph(struct ws_text *text, const double *values, size_t count, double top)
{
	static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

	for (size_t i = 0; i < count; i++) {
		double height = 0;

		if (isfinite(values[i]) && top > 0)
			height = ceil(8 * fmax(fmin(values[i] / top, 1), 0));
		ws_text_puts(text, blocks[(size_t)height]);
	}
}

static void add_series(struct ws_text *text, const struct ws_kernel_result *result,
		       const struct ws_kernel_timed *timed, const struct ws_kernel_series *series)
{
	double values[GRAPH_PARTS], least = INFINITY, most = -INFINITY, mean, top;
	size_t count = ws_min(series->count, (size_t)GRAPH_PARTS);
	bool share = !strcmp(series->unit, "%");

	for (size_t i = 0; i < series->count; i++) {
		least = fmin(least, series->moments[i].value);
		most = fmax(most, series->moments[i].value);
	}
	ws_kernel_condense(series, timed->span, &mean, 1);
	ws_kernel_condense(series, timed->span, values, count);
	if (isnan(mean))
		return;
	top = share ? 100 : most;
	ws_text_printf(text, "    %-24.40s %10.4g %10.4g %10.4g  ", find_label(result, series),
		       least, mean, most);
	add_graph(text, values, count, top);
	ws_text_printf(text, "%s%s\n", share || !*series->unit ? "" : "  ",
		       share ? "" : series->unit);
}

void ws_kernel_print_series(struct ws_text *text, const struct ws_report *report,
			    const struct ws_kernel_result *result)
{
	struct ws_kernel_timed timed;

	ws_kernel_load_timed(report, result->row.id, &timed);
	if (timed.count)
		ws_text_printf(text, "    %-24s %10s %10s %10s  over %.4g us\n",
			       "Over the time of the kernel", "Lowest", "Mean", "Highest",
			       (double)timed.span / 1000);
	for (size_t i = 0; i < timed.count; i++)
		if (is_drawn(result, &timed.series[i]))
			add_series(text, result, &timed, &timed.series[i]);
	ws_kernel_free_timed(&timed);
}
