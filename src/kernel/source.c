/* source.c - see source.h. */
#include "kernel/source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "kernel/charts.h"
#include "kernel/spots.h"
#include "query/query.h"
#include "text/json_write.h"

enum { COLUMNS_MOST = WS_SPOT_COUNTS + WS_SPOT_STALLS, TEXTS_MOST = 40000 };
#define STALLED "smsp__pcsamp_warps_issue_stalled_"

/* A column: a count, or samples of warps that were stalled for a reason. */
struct column {
	int count; /* enum ws_spot_count, or -1 */
	size_t reason;
	double sum;
};

struct source_writer {
	struct ws_text *out;
	const struct ws_report *report;
	const struct ws_kernel_spots *spots;
	struct column columns[COLUMNS_MOST];
	size_t column_count;
};

static double get_value(const struct column *column, const struct ws_kernel_spot *spot)
{
	return column->count >= 0 ? spot->counts[column->count] : spot->stalls[column->reason];
}

static void add_column(struct source_writer *writer, struct column column)
{
	column.sum = get_value(&column, &writer->spots->total);
	if (column.sum > 0)
		writer->columns[writer->column_count++] = column;
}

/* Samples and reasons to wait, the commonest first; then what was counted. */
static void choose_columns(struct source_writer *writer)
{
	size_t first;

	add_column(writer, (struct column){.count = WS_SPOT_samples});
	first = writer->column_count;
	for (size_t i = 0; i < writer->spots->reason_count; i++)
		add_column(writer, (struct column){.count = -1, .reason = i});
	for (size_t i = first + 1; i < writer->column_count; i++)
		for (size_t j = i; j > first && writer->columns[j].sum > writer->columns[j - 1].sum;
		     j--) {
			struct column moved = writer->columns[j];

			writer->columns[j] = writer->columns[j - 1];
			writer->columns[j - 1] = moved;
		}
	for (int i = 0; i < WS_SPOT_COUNTS; i++)
		if (i != WS_SPOT_samples)
			add_column(writer, (struct column){.count = i});
}

static void put_columns(const struct source_writer *writer)
{
	ws_put_json_key(writer->out, "metrics");
	ws_text_puts(writer->out, "[");
	for (size_t i = 0; i < writer->column_count; i++) {
		const struct column *column = &writer->columns[i];
		const char *metric = column->count >= 0 ? ws_spot_metrics[column->count].metric
							: writer->spots->reasons[column->reason],
			   *label = column->count >= 0 ? ws_spot_metrics[column->count].label
						       : metric;
		char *name = ws_format("%s%s", column->count >= 0 ? "" : STALLED, metric);

		ws_put_json_comma(writer->out);
		ws_text_puts(writer->out, "{");
		ws_put_json_string(writer->out, "label", label);
		ws_put_json_string(writer->out, "metric", name);
		ws_put_json_double(writer->out, "value", column->sum);
		ws_put_json_int(writer->out, "stall", column->count < 0);
		ws_text_puts(writer->out, "}");
		free(name);
	}
	ws_text_puts(writer->out, "]");
}

static void put_spot(const struct source_writer *writer, const struct ws_kernel_spot *spot)
{
	ws_put_json_comma(writer->out);
	ws_text_puts(writer->out, "{");
	ws_put_json_int(writer->out, "address", (int64_t)spot->pc);
	ws_put_json_string(writer->out, "sass", spot->sass);
	ws_put_json_string(writer->out, "file", spot->file);
	ws_put_json_int(writer->out, "line", spot->line);
	if (spot->ptx)
		ws_put_json_int(writer->out, "ptx", spot->ptx);
	if (*spot->inlined)
		ws_put_json_string(writer->out, "inlined", spot->inlined);
	if (*spot->callers)
		ws_put_json_string(writer->out, "callers", spot->callers);
	ws_put_json_key(writer->out, "values");
	ws_text_puts(writer->out, "[");
	for (size_t i = 0; i < writer->column_count; i++) {
		double value = get_value(&writer->columns[i], spot);

		ws_put_json_comma(writer->out);
		if (value > 0)
			ws_text_printf(writer->out, "%.9g", value);
		else
			ws_text_puts(writer->out, "null");
	}
	ws_text_puts(writer->out, "]}");
}

/* Lines of PTX of the function, or of source files that its instructions have. */
static void put_texts(const struct source_writer *writer, const struct ws_kernel_spot *first,
		      bool ptx)
{
	struct ws_cursor *cursor =
		ws_cursor_open(writer->report, WS_TABLE_kernel_text, 0, UINT64_MAX);
	const uint64_t *values;
	size_t count = 0;

	ws_put_json_key(writer->out, ptx ? "ptx" : "texts");
	ws_text_puts(writer->out, "[");
	while (ws_cursor_next(cursor, &values)) {
		uint32_t file = (uint32_t)values[ws_kernel_text_file];
		const char *text;

		if (ptx ? values[ws_kernel_text_cubin] != first->cubin || file != first->function_id
			: values[ws_kernel_text_cubin] != 0)
			continue;
		if (count++ == TEXTS_MOST)
			break;
		text = ws_report_string(writer->report, (uint32_t)values[ws_kernel_text_text],
					NULL);
		ws_put_json_comma(writer->out);
		ws_text_puts(writer->out, "{");
		if (!ptx)
			ws_put_json_string(writer->out, "file",
					   ws_report_string(writer->report, file, NULL));
		ws_put_json_int(writer->out, "line", (int64_t)values[ws_kernel_text_line]);
		ws_put_json_string(writer->out, "text", text);
		ws_text_puts(writer->out, "}");
	}
	ws_cursor_close(cursor);
	ws_text_puts(writer->out, "]");
}

static void put_function(const struct source_writer *writer, const struct ws_kernel_spot *spots,
			 size_t count)
{
	const char *complaint = ws_spot_why_no_text(writer->report, spots, count);

	ws_put_json_comma(writer->out);
	ws_text_puts(writer->out, "{");
	ws_put_json_string(writer->out, "name", spots->function);
	if (complaint)
		ws_put_json_string(writer->out, "note", complaint);
	put_columns(writer);
	ws_put_json_key(writer->out, "lines");
	ws_text_puts(writer->out, "[");
	for (size_t i = 0; i < count; i++)
		put_spot(writer, &spots[i]);
	ws_text_puts(writer->out, "]");
	put_texts(writer, spots, false);
	if (spots->cubin)
		put_texts(writer, spots, true);
	ws_text_puts(writer->out, "}");
}

void ws_put_kernel_sources(struct ws_text *out, const struct ws_report *report, uint32_t result)
{
	struct ws_kernel_spots spots;
	struct source_writer writer = {.out = out, .report = report, .spots = &spots};

	ws_kernel_load_spots(report, result, &spots);
	choose_columns(&writer);
	ws_put_json_key(out, "sources");
	ws_text_puts(out, "[");
	for (size_t i = 0, n; i < spots.count; i += n) {
		for (n = 1; i + n < spots.count &&
			    spots.spots[i + n].function_id == spots.spots[i].function_id &&
			    spots.spots[i + n].cubin == spots.spots[i].cubin;
		     n++)
			;
		put_function(&writer, &spots.spots[i], n);
	}
	ws_text_puts(out, "]");
	ws_kernel_free_spots(&spots);
}
