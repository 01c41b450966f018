/* library_calls.c - see library_calls.h. */
#include "query/library_calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Whether a category is that of library calls; asked once for each string. */
static bool is_library(const struct ws_report *report, uint8_t *known, uint64_t category)
{
	static const char ending[] = "_EVENTS";
	const size_t ending_length = sizeof(ending) - 1;
	size_t length;
	const char *text;

	if (!category || category > ws_report_string_count(report))
		return false;
	if (!known[category]) {
		text = ws_report_string(report, (uint32_t)category, &length);
		known[category] = 1;
		if (length > ending_length &&
		    !memcmp(text + length - ending_length, ending, ending_length))
			known[category] = 2;
	}
	return known[category] == 2;
}

/* Rows come by thread and start; of two that start together, the longer comes first. */
static void add_call(struct ws_library_calls *calls, uint64_t *const *col, size_t i)
{
	const struct ws_library_call *last = calls->count ? &calls->calls[calls->count - 1] : NULL;
	uint64_t start = col[ws_slice_start][i], end = col[ws_slice_end][i];

	if (end == WS_NO_TIME)
		end = UINT64_MAX;
	if (end < start || (last && last->thread == col[ws_slice_thread][i] && start < last->end))
		return;
	ws_grow(calls->calls, calls->capacity, calls->count + 1);
	calls->calls[calls->count++] = (struct ws_library_call){
		.start = start,
		.end = end,
		.thread = (uint32_t)col[ws_slice_thread][i],
		.name = (uint32_t)col[ws_slice_name][i],
		.category = (uint32_t)col[ws_slice_category][i],
		.args = (uint32_t)col[ws_slice_args][i],
	};
}

int ws_library_calls_load(const struct ws_report *report, struct ws_library_calls *calls,
			  struct ws_err *err)
{
	const struct ws_scan scan = {
		.table = WS_TABLE_slice,
		.columns = WS_COLUMN_BIT(slice, start) | WS_COLUMN_BIT(slice, end) |
			   WS_COLUMN_BIT(slice, thread) | WS_COLUMN_BIT(slice, name) |
			   WS_COLUMN_BIT(slice, category) | WS_COLUMN_BIT(slice, args),
		.time_min = 0,
		.time_max = UINT64_MAX,
	};
	struct ws_rows rows;
	uint8_t *known;

	*calls = (struct ws_library_calls){0};
	if (ws_rows_load(report, &scan, &rows, err) < 0)
		return -1;
	known = ws_calloc((size_t)ws_report_string_count(report) + 1, 1);
	for (size_t i = 0; i < rows.rows; i++)
		if (rows.col[ws_slice_thread][i] &&
		    is_library(report, known, rows.col[ws_slice_category][i]))
			add_call(calls, rows.col, i);
	calls->damaged = rows.damaged;
	free(known);
	ws_rows_free(&rows);
	return 0;
}

void ws_library_calls_free(struct ws_library_calls *calls)
{
	free(calls->calls);
	*calls = (struct ws_library_calls){0};
}

size_t ws_library_calls_find(const struct ws_library_calls *calls, uint32_t thread, uint64_t time)
{
	size_t low = 0, high = calls->count;

	/* The last call that is not after (thread, time). */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct ws_library_call *call = &calls->calls[middle];

		if (call->thread < thread || (call->thread == thread && call->start <= time))
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || calls->calls[low - 1].thread != thread || calls->calls[low - 1].end < time)
		return WS_NO_LIBRARY_CALL;
	return low - 1;
}
