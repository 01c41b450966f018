/* cuda_api_trace.c - every call of the CUDA API in order of start. */
#include <string.h>

#include "stats/cuda.h"

static const struct ws_column columns[] = {
	{"Start", WS_KIND_TIME}, {"Duration", WS_KIND_TIME}, {"Name", WS_KIND_TEXT},
	{"Result", WS_KIND_ID},	 {"CorrID", WS_KIND_ID},     {"Pid", WS_KIND_ID},
	{"Tid", WS_KIND_ID},	 {"T-Pri", WS_KIND_ID},	     {"Thread Name", WS_KIND_TEXT},
};

static void print(struct ws_stats *s, const uint64_t *v)
{
	const struct ws_thread_info *t = ws_who_thread(s->who, (uint32_t)v[ws_cuda_api_thread]);
	uint64_t start = v[ws_cuda_api_start], end = v[ws_cuda_api_end],
		 correlation = v[ws_cuda_api_correlation];
	bool named = *t->name;
	size_t len;
	const char *name = ws_cuda_function(s->r, (uint32_t)v[ws_cuda_api_name], &len);

	if (end < start) {
		s->backwards++;
		return;
	}
	s->row(s, (struct ws_cell[]){
			  ws_cell_int((int64_t)(start - s->zero)),
			  end == WS_NO_TIME ? ws_cell_null() : ws_cell_int((int64_t)(end - start)),
			  ws_cell_text(name, len),
			  ws_cell_int((int64_t)v[ws_cuda_api_result]),
			  correlation == WS_NO_U32 ? ws_cell_null()
						   : ws_cell_int((int64_t)correlation),
			  ws_cell_int(t->pid),
			  ws_cell_int(t->tid),
			  named ? ws_cell_int(t->priority) : ws_cell_null(),
			  named ? ws_cell_text(t->name, strlen(t->name)) : ws_cell_null(),
		  });
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	struct ws_cursor *c = ws_cursor_open(s->r, WS_TABLE_cuda_api, s->time_min, s->time_max);
	const uint64_t *v;

	(void)e;
	while (ws_cursor_next(c, &v))
		print(s, v);
	ws_cursor_close(c);
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
