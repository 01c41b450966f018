/* gpu_comm_overlap.c - how much of the communication of each GPU overlaps with computation; lengths
 * are those of unions of spans (query/work.h). */
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

static void print_gpu_overlap(struct ws_gpu_work *work, const struct ws_work_gpu *gpu)
{
	struct ws_work_times times = {0};
	struct ws_text name = {0};
	uint64_t start, end, ops = 0, exposed, both;

	for (size_t i = 0; i < gpu->count; i++)
		if (ws_cut_gpu_work(work, &gpu->op[i], &start, &end)) {
			ws_work_times_add(&times, gpu->op[i].class, start, end);
			ops += gpu->op[i].class == WS_WORK_COMM;
		}
	if (!ops)
		return;
	exposed = ws_work_measure_exposed_comm(&times);
	both = times.compute.length + times.comm.length;
	ws_put_gpu_name(work, gpu, &name);
	work->stats->row(work->stats,
			 (struct ws_cell[]){
				 ws_cell_text(name.text, name.len),
				 ws_make_gpu_length_cell(work, times.compute.length),
				 ws_make_gpu_length_cell(work, times.comm.length),
				 ws_make_gpu_length_cell(work, times.comm.length - exposed),
				 ws_cell_real(ws_compute_percent(times.comm.length - exposed,
								 times.comm.length)),
				 ws_make_gpu_length_cell(work, exposed),
				 ws_cell_real(ws_compute_percent(times.comm.length, both)),
				 ws_cell_int((int64_t)ops),
			 });
	ws_text_free(&name);
}

static int make_gpu_comm_overlap_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_gpu_work work;
	int status = ws_gpu_work_open(stats, &work, err);

	if (!status && !ws_get_stats_arg(stats, "exact"))
		ws_convert_gpu_work_to_doubles(&work);
	for (size_t i = 0; !status && i < work.work.gpus; i++)
		print_gpu_overlap(&work, &work.work.gpu[i]);
	ws_gpu_work_close(&work);
	return status;
}

static const char *const args[] = {"exact", NULL};

const struct ws_stats_report ws_stat_gpu_comm_overlap = {
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
	.run = make_gpu_comm_overlap_rows,
};
