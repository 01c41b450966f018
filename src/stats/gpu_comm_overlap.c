/* gpu_comm_overlap.c - how much of communication computation hides, by GPU or step; the lengths
 * come from unions (query/work.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stats/gpu_work.h"

static const struct ws_column columns[] = {
	{"GPU", WS_KIND_TEXT},		 {"Computation", WS_KIND_TIME},
	{"Communication", WS_KIND_TIME}, {"Overlapped", WS_KIND_TIME},
	{"Overlapped", WS_KIND_SHARE},	 {"Exposed", WS_KIND_TIME},
	{"Comm Share", WS_KIND_SHARE},	 {"Comm Ops", WS_KIND_COUNT},
};

static void print(struct ws_gpu_work *w, const struct ws_work_gpu *g)
{
	struct ws_work_times t = {0};
	struct ws_text name = {0};
	uint64_t start, end, ops = 0, exposed, both;

	for (size_t i = 0; i < g->n; i++)
		if (ws_gpu_work_cut(w, &g->op[i], &start, &end)) {
			ws_work_times_add(&t, g->op[i].class, start, end);
			ops += g->op[i].class == WS_WORK_COMM;
		}
	if (!ops)
		return;
	exposed = ws_work_exposed_comm(&t);
	both = t.compute.length + t.comm.length;
	ws_gpu_work_name(w, g, &name);
	w->s->row(w->s,
		  (struct ws_cell[]){
			  ws_cell_text(name.s, name.len),
			  ws_gpu_work_length(w, t.compute.length),
			  ws_gpu_work_length(w, t.comm.length),
			  ws_gpu_work_length(w, t.comm.length - exposed),
			  ws_cell_real(t.comm.length ? (long double)(t.comm.length - exposed) *
							       100 / t.comm.length
						     : 0),
			  ws_gpu_work_length(w, exposed),
			  ws_cell_real(both ? (long double)t.comm.length * 100 / both : 0),
			  ws_cell_int((int64_t)ops),
		  });
	ws_text_free(&name);
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	struct ws_gpu_work w;
	int rc = ws_gpu_work_open(s, &w, e);

	if (!rc && !ws_stats_arg(s, "exact"))
		ws_gpu_work_in_doubles(&w);
	for (size_t i = 0; !rc && i < w.work.gpus; i++)
		print(&w, &w.work.gpu[i]);
	ws_gpu_work_close(&w);
	return rc;
}

static const char *const args[] = {"exact", NULL};

const struct ws_stat ws_stat_gpu_comm_overlap = {
	.name = "gpu_comm_overlap",
	.title = "GPU Communication and Computation",
	.about = "Of the time in which a GPU communicates (NCCL), how much computation ran beside "
		 "it; Comm Share is communication over "
		 "communication and computation, each counted once however many streams it ran on. "
		 ":exact as for gpu_time_breakdown",
	.what = "communication on GPUs",
	.unended = "had no times",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
