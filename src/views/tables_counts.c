/*
 * tables_counts.c - PERF_EVENT_CPU_RAW_EVENT: events that were counted on whole cores, made from
 * the counters of cores.
 *
 * A counter has rates, each of which is valid until the next; a row is the count between two rates.
 * The last rate has no end, so it makes no row.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "views/tables.h"

static const struct ws_view_column columns[] = {
	{"start", "INTEGER", true, false, "From when (ns)"},
	{"end", "INTEGER", true, false, "Until when (ns)"},
	{"vmId", "INTEGER", false, false, "0: this machine"},
	{"componentId", "INTEGER", false, false, "Core"},
	{"eventId", "INTEGER", false, false, "WARPSIGHT_COUNTER(id), which has its name"},
	{"count", "INTEGER", false, false, "Events in that time"},
};

static const struct ws_view_table table = {"PERF_EVENT_CPU_RAW_EVENT",
					   "Events that were counted on whole cores", columns,
					   WS_COUNT(columns)};

struct core_rate { /* the last rate of a counter */
	uint32_t cpu;
	uint64_t start;
	double rate;
	bool seen;
};

/* The counters of cores that are rates of events, by id. The caller frees them. */
static struct core_rate *read_core_counters(struct ws_cell_context *export, uint32_t *highest)
{
	struct ws_cursor *cursor = ws_cursor_open(export->report, WS_TABLE_counter, 0, UINT64_MAX);
	uint64_t most = (ws_report_count_rows(export->report, WS_TABLE_counter) + 64) * 64;
	struct core_rate *rates = NULL;
	size_t capacity = 0;
	const uint64_t *row;

	*highest = 0;
	while (ws_cursor_next(cursor, &row)) {
		uint64_t id = row[ws_counter_id];
		size_t before = capacity;

		if (row[ws_counter_cpu] == WS_NO_U32 || id > most ||
		    strcmp(ws_report_string(export->report, (uint32_t)row[ws_counter_unit], NULL),
			   "1/s"))
			continue;
		ws_grow(rates, capacity, id + 1);
		for (size_t i = before; i < capacity; i++)
			rates[i] = (struct core_rate){.cpu = WS_NO_U32};
		rates[id].cpu = (uint32_t)row[ws_counter_cpu];
		*highest = ws_max(*highest, (uint32_t)id);
	}
	ws_cursor_close(cursor);
	return rates;
}

static int put_count(struct ws_cell_context *export, const struct core_rate *rate, uint64_t id,
		     uint64_t end, struct ws_err *err)
{
	double events = rate->rate * (double)(end - rate->start) * 1e-9;

	if (end <= rate->start || !(events >= 0 && events < 0x1p62) ||
	    !ws_is_in_time(export, rate->start, end))
		return 0;
	return ws_add_table_row(
		export,
		(struct ws_view_cell[]){ws_make_time_cell(export, rate->start),
					ws_make_time_cell(export, end), ws_make_int_cell(0),
					ws_make_int_cell(rate->cpu), ws_make_int_cell((int64_t)id),
					ws_make_int_cell(llround(events))},
		err);
}

int ws_write_count_table(struct ws_cell_context *export, struct ws_err *err)
{
	uint32_t highest;
	struct core_rate *rates;
	struct ws_cursor *cursor;
	const uint64_t *row;
	int rc = ws_begin_table(export, &table, err);

	if (rc < 0 || !ws_is_table_wanted(export, table.name))
		return rc;
	rates = read_core_counters(export, &highest);
	cursor = ws_cursor_open(export->report, WS_TABLE_counter_value, 0, UINT64_MAX);
	while (rates && !rc && ws_cursor_next(cursor, &row)) {
		uint64_t id = row[ws_counter_value_counter];

		if (id > highest || rates[id].cpu == WS_NO_U32)
			continue;
		if (rates[id].seen)
			rc = put_count(export, &rates[id], id, row[ws_counter_value_start], err);
		rates[id].seen = true;
		rates[id].start = row[ws_counter_value_start];
		memcpy(&rates[id].rate, &row[ws_counter_value_value], sizeof(rates[id].rate));
	}
	ws_cursor_close(cursor);
	free(rates);
	return rc;
}
