/*
 * analysis.c - see analysis.h.
 *
 * Work on a GPU is in order of start, so that one pass finds how long it computed, communicated and
 * copied, and where it did nothing. The path is not walked for gaps shorter than the usual time
 * between kernels: there may be millions, and their cause is always the same.
 */
#include "analyze/analysis.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/graph.h"
#include "analyze/launch_places.h"
#include "base/choose.h"
#include "base/mem.h"
#include "base/parallel.h"

enum { SHORT_GAP_NS = 3000 };

struct gap_walk {
	const struct ws_analysis *analysis;
	struct ws_path all;	 /* the paths of all gaps that are not short, one after the other */
	struct ws_delays delays; /* the short ones */
	size_t gpu;
};

static void add_pieces(struct ws_path *to, const struct ws_path *from)
{
	ws_grow(to->pieces, to->cap, to->count + from->count);
	if (from->count)
		memcpy(to->pieces + to->count, from->pieces, from->count * sizeof(*from->pieces));
	to->count += from->count;
}

/* The walk begins at the start of the work that ended the gap, and goes to what that work waited
 * for. */
static void walk_gap(struct gap_walk *walk, uint32_t op, uint64_t from, uint64_t to)
{
	struct ws_path_end end = {.gpu = (uint32_t)walk->gpu, .op = op};
	struct ws_path path;

	if (to - from < SHORT_GAP_NS) {
		struct ws_delays *delays = &walk->delays;

		ws_grow(delays->list, delays->cap, delays->count + 1);
		delays->list[delays->count++] = (struct ws_delay){op, (uint32_t)(to - from)};
		return;
	}
	ws_path_walk(walk->analysis->model, &end, from, to, &path);
	add_pieces(&walk->all, &path);
	ws_path_free(&path);
}

static void walk_outer_gap(struct gap_walk *walk, uint64_t from, uint64_t to)
{
	struct ws_path_end end = {
		.thread = walk->analysis->model->thread, .gpu = WS_NO_OP, .op = WS_NO_OP};
	struct ws_path path;

	if (to <= from)
		return;
	ws_path_walk(walk->analysis->model, &end, from, to, &path);
	add_pieces(&walk->all, &path);
	ws_path_free(&path);
}

/* A gap that continues after `to`, up to the work that ended it: it counts up to `to`. */
static void walk_last_gap(struct gap_walk *walk, uint32_t op, uint64_t from, uint64_t to)
{
	const struct ws_work_gpu *gpu = &walk->analysis->model->work.gpu[walk->gpu];
	struct ws_path *all = &walk->all;

	if (op == gpu->count || to >= walk->analysis->model->to) {
		walk_outer_gap(walk, from, to);
		return;
	}
	if (to <= from)
		return;
	if (gpu->op[op].start - from < SHORT_GAP_NS) {
		struct ws_piece piece = {.start = from,
					 .end = gpu->op[op].start,
					 .kind = WS_PIECE_DELAY,
					 .call = WS_NO_CALL};

		add_pieces(all, &(struct ws_path){.pieces = &piece, .count = 1});
	} else {
		walk_gap(walk, op, from, gpu->op[op].start);
	}
	while (all->count && all->pieces[all->count - 1].start >= to)
		all->count--;
	if (all->count)
		all->pieces[all->count - 1].end = ws_min(all->pieces[all->count - 1].end, to);
}

void ws_analysis_measure_gpu(const struct ws_analysis *analysis, size_t number, uint64_t from,
			     uint64_t to, struct ws_gpu_budget *budget)
{
	const struct ws_model *model = analysis->model;
	const struct ws_work_gpu *gpu = &model->work.gpu[number];
	struct ws_cover compute = {0}, other = {0}, busy = {0}, work = {0};
	struct gap_walk walk = {.analysis = analysis, .gpu = number, .delays = {.ops = gpu->op}};
	uint64_t until = from;
	size_t i;

	for (i = 0; i < gpu->count && gpu->op[i].start < to; i++) {
		uint64_t start = ws_max(gpu->op[i].start, from), end = ws_min(gpu->op[i].end, to);

		if (end <= start)
			continue;
		if (start > until && (busy.length || from > model->from))
			walk_gap(&walk, (uint32_t)i, until, start);
		else if (start > until)
			walk_outer_gap(&walk, until, start);
		until = ws_max(until, end);
		ws_cover_add(&busy, start, end);
		if (gpu->op[i].class == WS_WORK_COMPUTE)
			ws_cover_add(&compute, start, end);
		else
			ws_cover_add(&other, start, end);
		if (gpu->op[i].class != WS_WORK_MEMORY)
			ws_cover_add(&work, start, end);
	}
	walk_last_gap(&walk, (uint32_t)i, until, to);
	budget->compute = compute.length;
	budget->overlapped = compute.length + other.length - busy.length;
	budget->exposed_comm = work.length - compute.length;
	budget->exposed_copies = busy.length - work.length;
	budget->idle_total = to - from - busy.length;
	ws_breakdown_sum(model, &walk.all, &walk.delays, &budget->idle);
	ws_path_free(&walk.all);
	free(walk.delays.list);
}

/*
 * Where the program's threads want more cores than there are, they wait for each other. Otherwise
 * they wait for other programs, which the program cannot change: such waiting, in proportion to the
 * cores that the program did not get, is subtracted from the time that findings are measured by.
 */
static void measure_demand(struct ws_analysis *analysis)
{
	const struct ws_model *model = analysis->model;
	const char *cores = ws_find_meta(model->report, "cpu.count");
	uint64_t wanted = 0, running = 0, waited = analysis->breakdown.by_cause[WS_CAUSE_CORE];
	double used = 0;

	for (uint32_t id = 0; id < model->thread_count; id++) {
		running += model->threads[id].running;
		wanted += model->threads[id].running + model->threads[id].runnable;
	}
	analysis->demand = ws_analysis_part(analysis, wanted);
	if (cores)
		analysis->cores = (uint32_t)strtoul(cores, NULL, 10);
	if (analysis->cores && analysis->demand > analysis->cores)
		used = ws_min(ws_analysis_part(analysis, running) / analysis->cores, 1.0);
	waited = ws_min(waited, analysis->window);
	analysis->rated = analysis->window - (uint64_t)((double)waited * (1 - used));
}

/* ---- the parts, side by side ---- */

/* A part of the analysis that none of those beside it needs. */
typedef void analysis_part(struct ws_analysis *analysis);

struct part_list {
	struct ws_analysis *analysis;
	analysis_part *const *parts;
};

static void do_part(void *ctx, unsigned worker, size_t i)
{
	const struct part_list *list = ctx;

	(void)worker;
	if (!ws_model_check_cancelled(list->analysis->model, NULL))
		list->parts[i](list->analysis);
}

static void do_parts(struct ws_analysis *analysis, analysis_part *const *parts, size_t count)
{
	struct part_list list = {analysis, parts};

	ws_run_parallel(ws_count_workers(), count, do_part, &list);
}

static void sum_path(struct ws_analysis *analysis)
{
	ws_breakdown_sum(analysis->model, &analysis->path, NULL, &analysis->breakdown);
	measure_demand(analysis);
}

static void sum_usage(struct ws_analysis *analysis)
{
	ws_usage_sum(analysis->model, &analysis->path, &analysis->usage);
}

static void find_slow_steps(struct ws_analysis *analysis)
{
	ws_slow_steps_find(analysis, &analysis->slow);
}

static void follow_path(struct ws_analysis *analysis)
{
	static analysis_part *const of_path[] = {sum_usage, sum_path, find_slow_steps};
	const struct ws_model *model = analysis->model;
	struct ws_path_end end = ws_path_find_end(model);

	ws_path_walk(model, &end, model->from, model->to, &analysis->path);
	do_parts(analysis, of_path, WS_COUNT(of_path));
}

static void count_facts(struct ws_analysis *analysis)
{
	ws_facts_count(analysis->model, &analysis->facts);
	ws_measure_model(analysis->model, &analysis->facts, &analysis->measured);
}

static void measure_gpus(struct ws_analysis *analysis)
{
	const struct ws_model *model = analysis->model;

	for (size_t gpu = 0; gpu < model->work.gpus && !ws_model_check_cancelled(model, NULL);
	     gpu++)
		ws_analysis_measure_gpu(analysis, gpu, model->from, model->to,
					&analysis->gpus[gpu]);
}

static void count_ranges(struct ws_analysis *analysis)
{
	if (analysis->model->has_cuda)
		ws_range_facts_count(analysis->model, &analysis->ranges);
}

static void measure_threads(struct ws_analysis *analysis)
{
	ws_parallel_measure(analysis->model, &analysis->parallel);
}

static void find_phases(struct ws_analysis *analysis)
{
	ws_phases_find(analysis->model, &analysis->phases);
}

static void count_launches(struct ws_analysis *analysis)
{
	ws_launches_count(analysis->model, &analysis->launches);
}

/* Those that take longest begin first. */
static analysis_part *const all_parts[] = {count_facts,	  follow_path,	   measure_gpus,
					   count_ranges,  measure_threads, find_phases,
					   count_launches};

struct ws_analysis *ws_analysis_open(const struct ws_report *report,
				     const struct ws_model_options *options, struct ws_err *err)
{
	struct ws_model *model = ws_model_open(report, options, err);
	struct ws_analysis *analysis;

	if (model && ws_model_check_cancelled(model, err)) {
		ws_model_close(model);
		model = NULL;
	}
	if (!model)
		return NULL;
	analysis = ws_calloc(1, sizeof(*analysis));
	analysis->model = model;
	analysis->graph = ws_calloc(1, sizeof(*analysis->graph));
	analysis->launch_places = ws_calloc(1, sizeof(*analysis->launch_places));
	analysis->window = model->to - model->from;
	analysis->steps = ws_model_count_steps(model);
	analysis->gpus = ws_calloc(model->work.gpus + 1, sizeof(*analysis->gpus));
	do_parts(analysis, all_parts, WS_COUNT(all_parts));
	if (ws_model_check_cancelled(model, err)) {
		ws_analysis_close(analysis);
		return NULL;
	}
	return analysis;
}

void ws_analysis_close(struct ws_analysis *analysis)
{
	if (!analysis)
		return;
	for (size_t i = 0; i < analysis->model->work.gpus; i++)
		ws_breakdown_free(&analysis->gpus[i].idle);
	free(analysis->gpus);
	ws_graph_free(analysis->graph);
	free(analysis->graph);
	ws_launch_places_free(analysis->launch_places);
	free(analysis->launch_places);
	ws_gpu_measures_free(&analysis->measured);
	ws_facts_free(&analysis->facts);
	ws_range_facts_free(&analysis->ranges);
	ws_usage_free(&analysis->usage);
	ws_phases_free(&analysis->phases);
	ws_launches_free(&analysis->launches);
	ws_breakdown_free(&analysis->breakdown);
	ws_path_free(&analysis->path);
	ws_model_close(analysis->model);
	free(analysis);
}

double ws_analysis_part(const struct ws_analysis *analysis, uint64_t ns)
{
	if (!analysis->window)
		return 0;
	return (double)ns / (double)analysis->window;
}

double ws_analysis_share(const struct ws_analysis *analysis, uint64_t ns)
{
	if (!analysis->rated)
		return 0;
	return ws_min((double)ns / (double)analysis->rated, 1.0);
}

uint64_t ws_analysis_kind_cost(const struct ws_analysis *analysis, enum ws_kernel_kind kind)
{
	const struct ws_facts *facts = &analysis->facts;
	uint64_t compute = analysis->breakdown.by_cause[WS_CAUSE_GPU_COMPUTE];

	if (!facts->kinds[kind].count)
		return 0;
	return (uint64_t)((double)compute * (double)facts->kinds[kind].ns /
			  (double)(facts->kernel_ns + facts->graph_ns));
}

void ws_analysis_put_gpu(const struct ws_analysis *analysis, size_t gpu, struct ws_text *text)
{
	ws_text_printf(text, "GPU %llu", (unsigned long long)analysis->model->work.gpu[gpu].device);
}

uint64_t ws_analysis_gpu_busy(const struct ws_analysis *analysis)
{
	uint64_t most = 0;

	for (size_t i = 0; i < analysis->model->work.gpus; i++)
		most = ws_max(most, analysis->window - analysis->gpus[i].idle_total);
	return most;
}

uint64_t ws_analysis_cpu_on_path(const struct ws_analysis *analysis)
{
	return analysis->breakdown.by_cause[WS_CAUSE_CPU] +
	       analysis->breakdown.by_cause[WS_CAUSE_CUDA_CALL];
}

void ws_put_rounded_time(struct ws_text *text, uint64_t ns)
{
	static const struct {
		uint64_t least;
		double unit;
		const char *name;
	} units[] = {{1000000000, 1e9, "s"}, {1000000, 1e6, "ms"}, {1000, 1e3, "us"}, {0, 1, "ns"}};
	size_t i = 0;

	while (ns < units[i].least)
		i++;
	ws_text_printf(text, "%.3g %s", (double)ns / units[i].unit, units[i].name);
}
