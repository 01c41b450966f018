/* meta.c - facts about the session, and the span of time that it covers. */
#include <stdlib.h>
#include <string.h>

#include "query/query.h"
#include "base/choose.h"
#include "schema/events.h"

const char *ws_find_meta(const struct ws_report *report, const char *name)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_meta, 0, UINT64_MAX);
	const char *found = NULL;
	const uint64_t *values;

	while (!found && ws_cursor_next(cursor, &values))
		if (!strcmp(ws_report_string(report, (uint32_t)values[ws_meta_name], NULL), name))
			found = ws_report_string(report, (uint32_t)values[ws_meta_value], NULL);
	ws_cursor_close(cursor);
	return found;
}

/* Whether a table has events: whether its rows say when something in a thread or process began and
 * ended. */
static bool has_events(enum ws_table table)
{
	return ws_table_track(table) >= 0 && ws_table_start(table) >= 0 && ws_table_end(table) >= 0;
}

static uint64_t find_earliest_event(const struct ws_report *report)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++)
		for (size_t i = 0; has_events((enum ws_table)table) &&
				   i < ws_report_count_blocks(report, (enum ws_table)table);
		     i++) {
			uint64_t min =
				ws_report_block_info(report, (enum ws_table)table, i).time_min;

			first = ws_min(min, first);
		}
	if (first == UINT64_MAX)
		return 0;
	return first;
}

uint64_t ws_find_time_zero(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_collection, 0, UINT64_MAX);
	/* Only imports whose times do not count from the collection's start have this fact. */
	const char *given = ws_find_meta(report, "session.zero");
	const uint64_t *values;
	uint64_t zero;

	if (given)
		zero = strtoull(given, NULL, 10);
	else if (ws_cursor_next(cursor, &values))
		zero = values[ws_collection_start];
	else
		zero = find_earliest_event(report);

	ws_cursor_close(cursor);
	return zero;
}

/* The latest time in any block of the tables that have events, or of those that do not. */
static uint64_t find_latest_time(const struct ws_report *report, bool events)
{
	uint64_t last = 0;

	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++) {
		if (ws_table_start((enum ws_table)table) < 0 ||
		    has_events((enum ws_table)table) != events)
			continue;
		for (size_t i = 0; i < ws_report_count_blocks(report, (enum ws_table)table); i++) {
			uint64_t max =
				ws_report_block_info(report, (enum ws_table)table, i).time_max;

			if (max != UINT64_MAX)
				last = ws_max(max, last);
		}
	}
	return last;
}

uint64_t ws_find_time_last(const struct ws_report *report)
{
	uint64_t last = find_latest_time(report, true);

	if (last)
		return last;
	return find_latest_time(report, false);
}

/* Widen a span to the blocks of a table. Where an event never ended, a block does not say when its
 * last event ended, so its last start counts. */
static void widen_span(const struct ws_report *report, enum ws_table table, uint64_t *first,
		       uint64_t *last)
{
	for (size_t i = 0; i < ws_report_count_blocks(report, table); i++) {
		uint64_t start = ws_report_block_info(report, table, i).time_min,
			 end = ws_report_block_info(report, table, i).time_max;

		if (end == UINT64_MAX)
			end = start;
		*first = ws_min(*first, start);
		*last = ws_max(*last, end);
	}
}

bool ws_find_event_span(const struct ws_report *report, uint64_t *first, uint64_t *last)
{
	*first = UINT64_MAX;
	*last = 0;
	for (size_t i = 0; i < WS_EVENT_KINDS; i++)
		if (ws_event_has_lane(&ws_event_kinds[i]))
			widen_span(report, ws_event_kinds[i].table, first, last);
	return *first != UINT64_MAX;
}
