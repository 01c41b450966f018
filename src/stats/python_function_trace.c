/* python_function_trace.c - each call of the Python functions that the user named
 * (--python-functions-trace). */
#include <string.h>

#include "stats/python_place.h"

static const struct ws_column columns[] = {
	{"Start", WS_KIND_TIME},  {"Duration", WS_KIND_TIME}, {"Domain", WS_KIND_TEXT},
	{"Module", WS_KIND_TEXT}, {"Function", WS_KIND_TEXT}, {"Defined At", WS_KIND_TEXT},
	{"PID", WS_KIND_ID},	  {"TID", WS_KIND_ID},	      {"Thread Name", WS_KIND_TEXT},
};

static struct ws_cell make_string_cell(const struct ws_stats *stats, uint64_t id)
{
	size_t length;
	const char *text = ws_report_string(stats->report, (uint32_t)id, &length);

	return ws_cell_text(text, length);
}

static void print_range(struct ws_stats *stats, const uint64_t *values)
{
	const struct ws_thread_info *thread =
		ws_find_thread(stats->who, (uint32_t)values[ws_slice_thread]);
	uint64_t start = values[ws_slice_start], end = values[ws_slice_end];
	struct ws_python_place place = {0};

	ws_read_python_place(stats->report, values[ws_slice_args], &place);
	stats->row(stats, (struct ws_cell[]){
				  ws_cell_int((int64_t)(start - stats->zero)),
				  ws_cell_int((int64_t)(end - start)),
				  make_string_cell(stats, values[ws_slice_category]),
				  ws_cell_text(place.module.text, place.module.len),
				  make_string_cell(stats, values[ws_slice_name]),
				  ws_cell_text(place.at.text, place.at.len),
				  ws_cell_int(thread->pid),
				  ws_cell_int(thread->tid),
				  ws_cell_text(thread->name, strlen(thread->name)),
			  });
	ws_free_python_place(&place);
}

static int make_python_function_trace_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_cursor *cursor =
		ws_cursor_open(stats->report, WS_TABLE_slice, stats->time_min, stats->time_max);
	const uint64_t *values;

	(void)err;
	while (ws_cursor_next(cursor, &values)) {
		uint64_t start = values[ws_slice_start], end = values[ws_slice_end];

		if (!(values[ws_slice_flags] & WS_SLICE_PYTHON))
			continue;
		if (end == WS_NO_TIME || end < start)
			ws_count_left_out(end, &stats->unended, &stats->backwards);
		else if (end >= stats->time_min && start <= stats->time_max)
			print_range(stats, values);
	}
	ws_cursor_close(cursor);
	return 0;
}

const struct ws_stats_report ws_stat_python_function_trace = {
	.name = "python_function_trace",
	.title = "Python Function Trace",
	.about = "Each call of the Python functions that --python-functions-trace named, with the "
		 "module and the line where the function is defined. A generator has a row for "
		 "each time that it ran.",
	.what = "calls of named Python functions (--python-functions-trace)",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_python_function_trace_rows,
};
