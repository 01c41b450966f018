/* cuda_api_trace.c - every call of the CUDA API in order of start. */
#include <string.h>

#include "stats/cuda.h"

static const struct ws_column columns[] = {
	{"Start", WS_KIND_TIME}, {"Duration", WS_KIND_TIME}, {"Name", WS_KIND_TEXT},
	{"Result", WS_KIND_ID},	 {"CorrID", WS_KIND_ID},     {"Pid", WS_KIND_ID},
	{"Tid", WS_KIND_ID},	 {"T-Pri", WS_KIND_ID},	     {"Thread Name", WS_KIND_TEXT},
};

static void print_api_call(struct ws_stats *stats, const uint64_t *values)
{
	const struct ws_thread_info *info =
		ws_find_thread(stats->who, (uint32_t)values[ws_cuda_api_thread]);
	uint64_t start = values[ws_cuda_api_start], end = values[ws_cuda_api_end],
		 correlation = values[ws_cuda_api_correlation];
	bool named = *info->name;
	size_t length;
	const char *name = ws_get_cuda_function_name(stats->report,
						     (uint32_t)values[ws_cuda_api_name], &length);

	if (end < start) {
		stats->backwards++;
		return;
	}
	stats->row(stats, (struct ws_cell[]){
				  ws_cell_int((int64_t)(start - stats->zero)),
				  ws_cell_int_if(end != WS_NO_TIME, (int64_t)(end - start)),
				  ws_cell_text(name, length),
				  ws_cell_int((int64_t)values[ws_cuda_api_result]),
				  ws_cell_int_if(correlation != WS_NO_U32, (int64_t)correlation),
				  ws_cell_int(info->pid),
				  ws_cell_int(info->tid),
				  ws_cell_int_if(named, info->priority),
				  ws_cell_text_if(named, info->name, strlen(info->name)),
			  });
}

static int make_cuda_api_trace_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_cursor *cursor =
		ws_cursor_open(stats->report, WS_TABLE_cuda_api, stats->time_min, stats->time_max);
	const uint64_t *values;

	(void)err;
	while (ws_cursor_next(cursor, &values))
		print_api_call(stats, values);
	ws_cursor_close(cursor);
	return 0;
}

const struct ws_stats_report ws_stat_cuda_api_trace = {
	.name = "cuda_api_trace",
	.title = "CUDA API Trace",
	.about = "Every call of the CUDA runtime and driver API by start, with what it returned. "
		 "Calls that never returned have no "
		 "duration.",
	.what = "CUDA API calls",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_cuda_api_trace_rows,
};
