/* cuda_api_trace.c - every call of the CUDA API in order of start. */
#include <string.h>

#include "stats/cuda.h"

static const struct ws_column columns[] = {
	{"Start", WS_KIND_TIME}, {"Duration", WS_KIND_TIME}, {"Name", WS_KIND_TEXT},
	{"Result", WS_KIND_ID},	 {"CorrID", WS_KIND_ID},     {"Pid", WS_KIND_ID},
	{"Tid", WS_KIND_ID},	 {"T-Pri", WS_KIND_ID},	     {"Thread Name", WS_KIND_TEXT},
};

static void print(struct ws_stats *stats, const uint64_t *values)
{
	const struct ws_thread_info *info =
		ws_who_thread(stats->who, (uint32_t)values[ws_cuda_api_thread]);
	uint64_t start = values[ws_cuda_api_start], end = values[ws_cuda_api_end],
		 correlation = values[ws_cuda_api_correlation];
	bool named = *info->name;
	size_t len;
	const char *name =
		ws_cuda_function(stats->report, (uint32_t)values[ws_cuda_api_name], &len);

	if (end < start) {
		stats->backwards++;
		return;
	}
	stats->row(stats,
		   (struct ws_cell[]){
			   ws_cell_int((int64_t)(start - stats->zero)),
			   end == WS_NO_TIME ? ws_cell_null() : ws_cell_int((int64_t)(end - start)),
			   ws_cell_text(name, len),
			   ws_cell_int((int64_t)values[ws_cuda_api_result]),
			   correlation == WS_NO_U32 ? ws_cell_null()
						    : ws_cell_int((int64_t)correlation),
			   ws_cell_int(info->pid),
			   ws_cell_int(info->tid),
			   named ? ws_cell_int(info->priority) : ws_cell_null(),
			   named ? ws_cell_text(info->name, strlen(info->name)) : ws_cell_null(),
		   });
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_cursor *cursor =
		ws_cursor_open(stats->report, WS_TABLE_cuda_api, stats->time_min, stats->time_max);
	const uint64_t *values;

	(void)err;
	while (ws_cursor_next(cursor, &values))
		print(stats, values);
	ws_cursor_close(cursor);
	return 0;
}

const struct ws_stat ws_stat_cuda_api_trace = {
	.name = "cuda_api_trace",
	.title = "CUDA API Trace",
	.about = "Every call of the CUDA runtime and driver API by start, with what it returned. "
		 "Calls that never returned have no "
		 "duration.",
	.what = "CUDA API calls",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
