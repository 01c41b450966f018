/*
 * print_source.c - the source page: metrics of instructions, summed by source line, or listed for
 * each instruction whose line is not known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "kernel/print.h"
#include "kernel/units.h"
#include "query/query.h"

struct place {
	uint32_t result, function, file, line, metric, sass;
	uint64_t pc;
	double value;
};

struct places {
	struct place *places;
	size_t count, capacity;
};

static void load_places(const struct ws_report *report, struct places *list)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_kernel_source, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		struct place place = {
			.result = (uint32_t)values[ws_kernel_source_result],
			.function = (uint32_t)values[ws_kernel_source_function],
			.file = (uint32_t)values[ws_kernel_source_file],
			.line = (uint32_t)values[ws_kernel_source_line],
			.metric = (uint32_t)values[ws_kernel_source_metric],
			.sass = (uint32_t)values[ws_kernel_source_sass],
			.pc = values[ws_kernel_source_pc],
		};

		memcpy(&place.value, &values[ws_kernel_source_value], sizeof(place.value));
		ws_grow(list->places, list->capacity, list->count + 1);
		list->places[list->count++] = place;
	}
	ws_cursor_close(cursor);
}

static int compare_places(const void *a, const void *b)
{
	const struct place *left = a, *right = b;
	int by_result = ws_compare(left->result, right->result),
	    by_metric = ws_compare(left->metric, right->metric);

	if (by_result)
		return by_result;
	if (by_metric)
		return by_metric;
	return ws_compare(right->value, left->value);
}

static void add_csv_place(const struct ws_report *report, const struct place *place,
			  struct ws_text *text)
{
	ws_text_printf(text, "\"%u\",\"%s\",\"%s\",\"%u\",\"%llu\",\"", place->result,
		       ws_report_string(report, place->function, NULL),
		       ws_report_string(report, place->file, NULL), place->line,
		       (unsigned long long)place->pc);
	for (const char *p = ws_report_string(report, place->sass, NULL); *p; p++) {
		if (*p == '"')
			ws_text_puts(text, "\"");
		ws_text_add(text, p, 1);
	}
	ws_text_printf(text, "\",\"%s\",\"%.9g\"\n", ws_report_string(report, place->metric, NULL),
		       place->value);
}

static void add_text_place(const struct ws_report *report, const struct place *place,
			   struct ws_text *text)
{
	char number[WS_NUMBER_ROOM], where[160] = "";
	const char *file = ws_report_string(report, place->file, NULL);

	ws_kernel_print_number(place->value, number);
	if (*file)
		snprintf(where, sizeof(where), "%.120s:%u", file, place->line);
	ws_text_printf(text, "    %14s  %-40s +0x%04llx  %s\n", number, where,
		       (unsigned long long)place->pc, ws_report_string(report, place->sass, NULL));
}

int ws_kernel_print_source(const struct ws_kernel_results *results, bool csv, struct ws_text *text,
			   struct ws_err *err)
{
	const struct ws_report *report = results->report;
	struct places list = {0};

	load_places(report, &list);
	if (!list.count)
		return ws_fail(err, "these results have no metrics of single instructions");
	qsort(list.places, list.count, sizeof(*list.places), compare_places);
	if (csv)
		ws_text_puts(text, "\"ID\",\"Function\",\"File\",\"Line\",\"Address\",\"Source\","
				   "\"Metric Name\",\"Metric Value\"\n");
	for (size_t i = 0; i < list.count; i++) {
		const struct place *place = &list.places[i];

		if (csv) {
			add_csv_place(report, place, text);
			continue;
		}
		if (!i || place[-1].result != place->result || place[-1].metric != place->metric)
			ws_text_printf(text, "  Result %u, %s in %s\n", place->result,
				       ws_report_string(report, place->metric, NULL),
				       ws_report_string(report, place->function, NULL));
		add_text_place(report, place, text);
	}
	free(list.places);
	return 0;
}
