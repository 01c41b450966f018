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
static struct last *read_counters(struct ws_export *x, uint32_t *highest)
{
	struct ws_cursor *c = ws_cursor_open(x->r, WS_TABLE_counter, 0, UINT64_MAX);
	uint64_t most = (ws_report_rows(x->r, WS_TABLE_counter) + 64) * 64;
	struct last *v = NULL;
	size_t cap = 0;
	const uint64_t *row;

	*highest = 0;
	while (ws_cursor_next(c, &row)) {
		uint64_t id = row[ws_counter_id];
		size_t before = cap;

		if (row[ws_counter_cpu] == WS_NO_U32 || id > most ||
		    strcmp(ws_report_string(x->r, (uint32_t)row[ws_counter_unit], NULL), "1/s"))
			continue;
		ws_grow(v, cap, id + 1);
		for (size_t i = before; i < cap; i++)
			v[i] = (struct last){.cpu = WS_NO_U32};
		v[id].cpu = (uint32_t)row[ws_counter_cpu];
		*highest = id > *highest ? (uint32_t)id : *highest;
	}
	ws_cursor_close(c);
	return v;
}

static int put(struct ws_export *x, const struct last *l, uint64_t id, uint64_t end,
	       struct ws_err *e)
{
	double events = l->rate * (double)(end - l->start) * 1e-9;

	if (end <= l->start || !(events >= 0 && events < 0x1p62) ||
	    !ws_export_in_time(x, l->start, end))
		return 0;
	return ws_export_row(x,
			     (struct ws_xcell[]){ws_x_time(x, l->start), ws_x_time(x, end),
						 ws_x_int(0), ws_x_int(l->cpu),
						 ws_x_int((int64_t)id), ws_x_int(llround(events))},
			     e);
}

int ws_export_counts(struct ws_export *x, struct ws_err *e)
{
	uint32_t highest;
	struct last *v;
	struct ws_cursor *c;
	const uint64_t *row;
	int rc = ws_export_table(x, &table, e);

	if (rc < 0 || !ws_export_wants(x, table.name))
		return rc;
	v = read_counters(x, &highest);
	c = ws_cursor_open(x->r, WS_TABLE_counter_value, 0, UINT64_MAX);
	while (v && !rc && ws_cursor_next(c, &row)) {
		uint64_t id = row[ws_counter_value_counter];

		if (id > highest || v[id].cpu == WS_NO_U32)
			continue;
		if (v[id].seen)
			rc = put(x, &v[id], id, row[ws_counter_value_start], e);
		v[id].seen = true;
		v[id].start = row[ws_counter_value_start];
		memcpy(&v[id].rate, &row[ws_counter_value_value], sizeof(v[id].rate));
	}
	ws_cursor_close(c);
	free(v);
	return rc;
}
