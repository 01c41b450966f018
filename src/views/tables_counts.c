/*
 * tables_counts.c - PERF_EVENT_CPU_RAW_EVENT: events that were counted on whole cores, from the
 * counters of cores.
 *
 * A counter has rates, each good until the next; a row is the count between two of them. The last
 * rate has no end and makes no row.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "views/tables.h"

static const struct ws_xcolumn columns[] = {
	{"start", "INTEGER", true, false, "From when (ns)"},
	{"end", "INTEGER", true, false, "Until when (ns)"},
	{"vmId", "INTEGER", false, false, "0: this machine"},
	{"componentId", "INTEGER", false, false, "Core"},
	{"eventId", "INTEGER", false, false, "WARPSIGHT_COUNTER(id), which has its name"},
	{"count", "INTEGER", false, false, "Events in that time"},
};

static const struct ws_xtable table = {"PERF_EVENT_CPU_RAW_EVENT",
				       "Events that were counted on whole cores", columns,
				       WS_COUNT(columns)};

struct last { /* of a counter */
	uint32_t cpu;
	uint64_t start;
	double rate;
	bool seen;
};

/* Counters of cores that are rates of events, by id. */
static struct last *read_counters(struct ws_export *export, uint32_t *highest)
{
	struct ws_cursor *cursor = ws_cursor_open(export->report, WS_TABLE_counter, 0, UINT64_MAX);
	uint64_t most = (ws_report_rows(export->report, WS_TABLE_counter) + 64) * 64;
	struct last *last = NULL;
	size_t cap = 0;
	const uint64_t *row;

	*highest = 0;
	while (ws_cursor_next(cursor, &row)) {
		uint64_t id = row[ws_counter_id];
		size_t before = cap;

		if (row[ws_counter_cpu] == WS_NO_U32 || id > most ||
		    strcmp(ws_report_string(export->report, (uint32_t)row[ws_counter_unit], NULL),
			   "1/s"))
			continue;
		ws_grow(last, cap, id + 1);
		for (size_t i = before; i < cap; i++)
			last[i] = (struct last){.cpu = WS_NO_U32};
		last[id].cpu = (uint32_t)row[ws_counter_cpu];
		*highest = id > *highest ? (uint32_t)id : *highest;
	}
	ws_cursor_close(cursor);
	return last;
}

static int put(struct ws_export *export, const struct last *last, uint64_t id, uint64_t end,
	       struct ws_err *err)
{
	double events = last->rate * (double)(end - last->start) * 1e-9;

	if (end <= last->start || !(events >= 0 && events < 0x1p62) ||
	    !ws_export_in_time(export, last->start, end))
		return 0;
	return ws_export_row(export,
			     (struct ws_xcell[]){ws_x_time(export, last->start),
						 ws_x_time(export, end), ws_x_int(0),
						 ws_x_int(last->cpu), ws_x_int((int64_t)id),
						 ws_x_int(llround(events))},
			     err);
}

int ws_export_counts(struct ws_export *export, struct ws_err *err)
{
	uint32_t highest;
	struct last *last;
	struct ws_cursor *cursor;
	const uint64_t *row;
	int rc = ws_export_table(export, &table, err);

	if (rc < 0 || !ws_export_wants(export, table.name))
		return rc;
	last = read_counters(export, &highest);
	cursor = ws_cursor_open(export->report, WS_TABLE_counter_value, 0, UINT64_MAX);
	while (last && !rc && ws_cursor_next(cursor, &row)) {
		uint64_t id = row[ws_counter_value_counter];

		if (id > highest || last[id].cpu == WS_NO_U32)
			continue;
		if (last[id].seen)
			rc = put(export, &last[id], id, row[ws_counter_value_start], err);
		last[id].seen = true;
		last[id].start = row[ws_counter_value_start];
		memcpy(&last[id].rate, &row[ws_counter_value_value], sizeof(last[id].rate));
	}
	ws_cursor_close(cursor);
	free(last);
	return rc;
}
