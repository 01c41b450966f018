/* source.c - see source.h. */
#include "kernel/source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "kernel/charts.h"
#include "query/query.h"
#include "text/json_write.h"

enum { MOST_METRICS = 64 };

struct source_rows {
	struct ws_row_kernel_source *rows;
	size_t count, capacity;
};

static struct source_rows read_rows(const struct ws_report *report, uint32_t result)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_kernel_source, 0, UINT64_MAX);
	struct source_rows list = {0};
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		struct ws_row_kernel_source row = {0};

		if (values[ws_kernel_source_result] != result)
			continue;
		for (uint32_t i = 0; i < ws_tables[WS_TABLE_kernel_source].column_count; i++)
			ws_row_set(WS_TABLE_kernel_source, &row, i, values[i]);
		ws_grow(list.rows, list.capacity, list.count + 1);
		list.rows[list.count++] = row;
	}
	ws_cursor_close(cursor);
	return list;
}

/* Orders by function, then by place in the function. */
static int compare_rows(const void *first, const void *second)
{
	const struct ws_row_kernel_source *left = first, *right = second;

	if (left->function != right->function)
		return ws_compare(left->function, right->function);
	if (left->pc != right->pc)
		return ws_compare(left->pc, right->pc);
	if (left->file != right->file)
		return ws_compare(left->file, right->file);
	return ws_compare(left->line, right->line);
}

static bool is_same_place(const struct ws_row_kernel_source *left,
			  const struct ws_row_kernel_source *right)
{
	return !compare_rows(left, right);
}

struct source_writer {
	struct ws_text *out;
	const struct ws_report *report;
	uint32_t metrics[MOST_METRICS]; /* of the function, by their texts */
	double sums[MOST_METRICS];
	size_t metric_count;
};

static const char *find_text(const struct source_writer *writer, uint32_t id)
{
	return ws_report_string(writer->report, id, NULL);
}

static size_t find_metric(const struct source_writer *writer, uint32_t metric)
{
	size_t i = 0;

	while (i < writer->metric_count && writer->metrics[i] != metric)
		i++;
	return i;
}

/* The metrics of a function in the order of their sums, the largest first. */
static void list_metrics(struct source_writer *writer, const struct ws_row_kernel_source *rows,
			 size_t count)
{
	writer->metric_count = 0;
	for (size_t i = 0; i < count; i++) {
		size_t at = find_metric(writer, rows[i].metric);

		if (at == MOST_METRICS)
			continue;
		if (at == writer->metric_count) {
			writer->metrics[at] = rows[i].metric;
			writer->sums[at] = 0;
			writer->metric_count++;
		}
		writer->sums[at] += rows[i].value;
	}
	for (size_t i = 1; i < writer->metric_count; i++)
		for (size_t j = i; j && writer->sums[j] > writer->sums[j - 1]; j--) {
			double sum = writer->sums[j];
			uint32_t metric = writer->metrics[j];

			writer->sums[j] = writer->sums[j - 1];
			writer->metrics[j] = writer->metrics[j - 1];
			writer->sums[j - 1] = sum;
			writer->metrics[j - 1] = metric;
		}
}

static void put_metrics(const struct source_writer *writer)
{
	ws_put_json_key(writer->out, "metrics");
	ws_text_puts(writer->out, "[");
	for (size_t i = 0; i < writer->metric_count; i++) {
		const char *name = find_text(writer, writer->metrics[i]);

		ws_put_json_comma(writer->out);
		ws_text_puts(writer->out, "{");
		ws_put_json_string(writer->out, "label", name);
		ws_put_json_string(writer->out, "metric", name);
		ws_put_json_double(writer->out, "value", writer->sums[i]);
		ws_text_puts(writer->out, "}");
	}
	ws_text_puts(writer->out, "]");
}

/* Append one place: `count` rows with a metric each. */
static void put_place(const struct source_writer *writer, const struct ws_row_kernel_source *rows,
		      size_t count)
{
	double values[MOST_METRICS];

	for (size_t i = 0; i < writer->metric_count; i++)
		values[i] = NAN;
	for (size_t i = 0; i < count; i++) {
		size_t at = find_metric(writer, rows[i].metric);

		if (at < writer->metric_count)
			values[at] = rows[i].value + (isnan(values[at]) ? 0 : values[at]);
	}
	ws_put_json_comma(writer->out);
	ws_text_puts(writer->out, "{");
	ws_put_json_int(writer->out, "address", (int64_t)rows->pc);
	ws_put_json_string(writer->out, "sass", find_text(writer, rows->sass));
	ws_put_json_string(writer->out, "file", find_text(writer, rows->file));
	ws_put_json_int(writer->out, "line", rows->line);
	ws_put_json_key(writer->out, "values");
	ws_text_puts(writer->out, "[");
	for (size_t i = 0; i < writer->metric_count; i++) {
		ws_put_json_comma(writer->out);
		if (isfinite(values[i]))
			ws_text_printf(writer->out, "%.9g", values[i]);
		else
			ws_text_puts(writer->out, "null");
	}
	ws_text_puts(writer->out, "]}");
}

static void put_function(struct source_writer *writer, const struct ws_row_kernel_source *rows,
			 size_t count)
{
	list_metrics(writer, rows, count);
	ws_put_json_comma(writer->out);
	ws_text_puts(writer->out, "{");
	ws_put_json_string(writer->out, "name", find_text(writer, rows->function));
	put_metrics(writer);
	ws_put_json_key(writer->out, "lines");
	ws_text_puts(writer->out, "[");
	for (size_t i = 0, n; i < count; i += n) {
		for (n = 1; i + n < count && is_same_place(&rows[i], &rows[i + n]); n++)
			;
		put_place(writer, &rows[i], n);
	}
	ws_text_puts(writer->out, "]}");
}

void ws_put_kernel_sources(struct ws_text *out, const struct ws_report *report, uint32_t result)
{
	struct source_writer writer = {.out = out, .report = report};
	struct source_rows list = read_rows(report, result);

	if (list.count)
		qsort(list.rows, list.count, sizeof(*list.rows), compare_rows);
	ws_put_json_key(out, "sources");
	ws_text_puts(out, "[");
	for (size_t i = 0, n; i < list.count; i += n) {
		for (n = 1;
		     i + n < list.count && list.rows[i + n].function == list.rows[i].function; n++)
			;
		put_function(&writer, &list.rows[i], n);
	}
	ws_text_puts(out, "]");
	free(list.rows);
}
