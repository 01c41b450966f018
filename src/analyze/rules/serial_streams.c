/*
 * serial_streams.c - streams were created to run work in parallel, but their work does not overlap.
 */
#include "analyze/launch_places.h"
#include "analyze/rules/rules.h"
#include "base/map.h"

enum { FULL_PERCENT = 90, LEAST_POOL = 32 };

static const char *const makers[] = {"cudaStreamCreate*", "cuStreamCreate*", NULL};

/*
 * Streams that the process created by calls; the driver and the runtime have others for themselves,
 * some of which are made within the program's first call. Each call makes one.
 */
static uint64_t count_made_streams(const struct ws_analysis *analysis)
{
	const struct ws_model *model = analysis->model;
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_cuda_stream, 0, UINT64_MAX);
	struct ws_map makers_seen = {0};
	const uint64_t *values;
	uint64_t count;

	while (ws_cursor_next(cursor, &values)) {
		uint32_t call = ws_calls_find(&model->calls, values[ws_cuda_stream_process],
					      values[ws_cuda_stream_correlation]);

		if (values[ws_cuda_stream_process] == model->process && call != WS_NO_CALL &&
		    ws_is_call_named(analysis,
				     (uint32_t)model->calls.rows.col[ws_cuda_api_name][call],
				     makers))
			ws_map_set(&makers_seen, call, 1);
	}
	ws_cursor_close(cursor);
	count = makers_seen.count;
	ws_map_free(&makers_seen);
	return count;
}

/* The share of the GPU's multiprocessors that the kernels fill, weighted by time: 1 when full, as
 * graphs are taken to be, whose kernels are not known. */
static double measure_filling(const struct ws_analysis *analysis)
{
	double all = (double)analysis->facts.graph_ns, filled = all;

	for (size_t i = 0; i < analysis->facts.kernel_count; i++) {
		const struct ws_kernel_fact *kernel = &analysis->facts.kernels[i];
		double share = kernel->waves;

		if (share <= 0 && analysis->facts.multiprocessors)
			share = (double)kernel->blocks / (double)analysis->facts.multiprocessors;
		filled += ws_min(share, 1.0) * (double)kernel->ns;
		all += (double)kernel->ns;
	}
	if (all == 0)
		return 1;
	return filled / all;
}

/* Measures whether kernels run at the same time: the sum of their times over the time in which any
 * ran. */
static double measure_concurrency(const struct ws_analysis *analysis)
{
	uint64_t compute = 0;

	for (size_t i = 0; i < analysis->model->work.gpus; i++)
		compute += analysis->gpus[i].compute;
	if (!compute)
		return 1;
	return (double)(analysis->facts.kernel_ns + analysis->facts.graph_ns) / (double)compute;
}

/* More streams gain nothing where single kernels fill the GPU. */
static void report_full(const struct ws_analysis *analysis, struct ws_findings *findings,
			double concurrency)
{
	struct ws_finding *finding = ws_findings_add(findings, &ws_rule_serial_streams);

	finding->level = WS_LEVEL_OK;
	finding->title =
		ws_format("Kernels of %llu streams run side by side, %.1f at a time; each fills "
			  "the GPU by itself, so that more streams gain little",
			  (unsigned long long)analysis->facts.streams, concurrency);
}

/* ---- what stands between the streams ---- */

/* How CUPTI calls the default stream, and streams that wait for it. */
enum { BLOCKING_STREAM = 1, NULL_STREAM = 3 };

/* Of the pieces of work in the window, those in the default stream and those in streams that wait
 * for it and it for them. */
struct default_work {
	uint64_t own, others, all;
	uint32_t name;	     /* of the kernel that runs most often in the default stream */
	uint64_t most;	     /* how often; 0: only copies and memsets are there */
	struct ws_map calls; /* that launched it: rows of model->calls, plus 1 */
};

/* The streams of the process: context is left out, as operations have none. */
static void list_streams(const struct ws_analysis *analysis, struct ws_map *flags)
{
	struct ws_cursor *cursor =
		ws_cursor_open(analysis->model->report, WS_TABLE_cuda_stream, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values))
		if (values[ws_cuda_stream_process] == analysis->model->process)
			ws_map_set(flags, values[ws_cuda_stream_id], values[ws_cuda_stream_flag]);
	ws_cursor_close(cursor);
}

static bool is_own_work(const struct ws_model *model, const struct ws_work_op *op)
{
	return op->process == model->process && op->end > model->from && op->start < model->to;
}

static void count_op(const struct ws_map *flags, const struct ws_work_op *op,
		     struct default_work *work, struct ws_map *names)
{
	uint64_t flag = ws_map_get(flags, op->stream, NULL);

	work->all++;
	work->others += flag == BLOCKING_STREAM;
	work->own += flag == NULL_STREAM;
	if (flag == NULL_STREAM && op->name) {
		uint64_t count = ws_map_get(names, op->name, NULL) + 1;

		ws_map_set(names, op->name, count);
		if (count > work->most) {
			work->most = count;
			work->name = op->name;
		}
	}
}

static void list_calls(const struct ws_analysis *analysis, const struct ws_map *flags,
		       const struct ws_work_gpu *gpu, struct default_work *work)
{
	const struct ws_model *model = analysis->model;

	for (size_t i = 0; i < gpu->count; i++) {
		const struct ws_work_op *op = &gpu->op[i];
		uint32_t call;

		if (!is_own_work(model, op) || op->name != work->name ||
		    ws_map_get(flags, op->stream, NULL) != NULL_STREAM)
			continue;
		call = ws_calls_find(&model->calls, op->process, op->correlation);
		if (call != WS_NO_CALL)
			ws_map_set(&work->calls, (uint64_t)call + 1, 1);
	}
}

static void find_default_work(const struct ws_analysis *analysis, struct default_work *work)
{
	const struct ws_model *model = analysis->model;
	struct ws_map flags = {0}, names = {0};

	*work = (struct default_work){0};
	list_streams(analysis, &flags);
	for (size_t gpu = 0; gpu < model->work.gpus; gpu++)
		for (size_t i = 0; i < model->work.gpu[gpu].count; i++)
			if (is_own_work(model, &model->work.gpu[gpu].op[i]))
				count_op(&flags, &model->work.gpu[gpu].op[i], work, &names);
	for (size_t gpu = 0; work->most && gpu < model->work.gpus; gpu++)
		list_calls(analysis, &flags, &model->work.gpu[gpu], work);
	ws_map_free(&flags);
	ws_map_free(&names);
}

/* Each piece of work in the default stream waits for all work before it in the others, and what
 * comes behind it there waits for it. */
static bool blame_default_stream(const struct ws_analysis *analysis, struct ws_finding *finding,
				 struct ws_text *why)
{
	struct default_work work;
	struct ws_code_place place;
	bool is_often;

	find_default_work(analysis, &work);
	is_often = work.own * 8 >= work.others && work.others * 4 >= work.all;
	if (is_often) {
		place = ws_place_calls(analysis, &work.calls);
		ws_text_puts(why, ": work in the default stream stands between them");
		if (work.most)
			ws_text_printf(why, ", mostly the kernel %.80s",
				       ws_report_string(analysis->model->report, work.name, NULL));
		else
			ws_text_puts(why, ", copies or memsets");
		if (place.leaf) {
			ws_text_puts(why, " launched");
			ws_put_at_place(analysis, &place, why);
			ws_point_at(finding, &place);
		}
		finding->advice = ws_strdup(
			"Work in the default stream waits for all other streams, and they for it: "
			"launch it in the stream whose data it uses, make streams with "
			"cudaStreamNonBlocking, or compile with --default-stream per-thread.");
	}
	ws_map_free(&work.calls);
	return is_often;
}

/* Calls that keep streams apart, as often as every fourth kernel. */
static bool blame_calls(const struct ws_analysis *analysis, const char *const *names,
			const char *what, const char *advice, struct ws_finding *finding,
			struct ws_text *why)
{
	struct ws_call_fact calls;

	if (!ws_facts_sum_calls(analysis->model, &analysis->facts, names, &calls) ||
	    calls.count * 4 < analysis->facts.kernel_instances)
		return false;
	ws_text_printf(why, ": %s", what);
	ws_put_at_place(analysis, &calls.place, why);
	ws_point_at(finding, &calls.place);
	finding->advice = ws_strdup(advice);
	return true;
}

/* Says why streams that are used do not overlap, and what to do. */
static void explain_turns(const struct ws_analysis *analysis, struct ws_finding *finding,
			  struct ws_text *why)
{
	static const char *const syncs[] = {"cudaDeviceSynchronize",
					    "cudaStreamSynchronize*",
					    "cudaEventSynchronize",
					    "cuCtxSynchronize",
					    "cuStreamSynchronize*",
					    "cuEventSynchronize",
					    "cudaMemcpy",
					    NULL};
	static const char *const events[] = {"cudaStreamWaitEvent*", "cuStreamWaitEvent*", NULL};

	if (blame_default_stream(analysis, finding, why) ||
	    blame_calls(analysis, syncs, "the CPU waits for each before it launches in the next",
			"Launch in all streams first, and wait for them afterwards.", finding,
			why) ||
	    blame_calls(analysis, events, "each waits for an event of another",
			"Let a stream wait for another (cudaStreamWaitEvent) only where it uses "
			"what that computed.",
			finding, why))
		return;
	finding->advice = ws_strdup(
		"Something makes the streams wait for each other: work in the default stream (make "
		"streams with cudaStreamNonBlocking, or compile with --default-stream per-thread), "
		"events, or synchronising calls.");
}

static void check_streams(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t made = count_made_streams(analysis), used = analysis->facts.streams;
	double filling = measure_filling(analysis), concurrency = measure_concurrency(analysis);
	double possible;
	uint64_t compute = 0, gain;
	struct ws_finding *finding;
	struct ws_text why = {0};

	/* A framework makes a pool of streams when it needs the first. */
	if (made >= LEAST_POOL)
		made = used;
	possible = (double)ws_max(made, used);
	for (size_t i = 0; i < analysis->model->work.gpus; i++)
		compute = ws_max(compute, analysis->gpus[i].compute);
	if (analysis->facts.streams > 1 && concurrency > 1.2 && filling * 100 > FULL_PERCENT)
		report_full(analysis, findings, concurrency);
	if (filling > 0)
		possible = ws_min(possible, 1 / filling);
	if (!analysis->facts.multiprocessors || ws_max(made, used) < 2 || concurrency > 1.2 ||
	    filling > 0.5 || possible < 1.5)
		return;
	gain = (uint64_t)((double)compute * (1 - 1 / possible));
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_serial_streams, compute, gain);
	if (used < made)
		finding->advice = ws_strdup(
			"Launch independent work in different streams: the stream argument of the "
			"launches is always the same.");
	else
		explain_turns(analysis, finding, &why);
	finding->title = ws_format(
		"%llu streams were made, kernels ran in %llu of them, and hardly ever side "
		"by side although they fill only %.0f %% of the GPU%s",
		(unsigned long long)made, (unsigned long long)used, 100 * filling,
		ws_text_or(why.text, ""));
	ws_text_free(&why);
	finding->assumption = ws_format("up to %.1f of the kernels run at once", possible);
	finding->next = ws_strdup("warpsight view REPORT shows the streams below one another");
}

const struct ws_rule ws_rule_serial_streams = {
	.name = "serial-streams",
	.title = "Streams whose work takes turns",
	.about = "The program made two streams or more, its kernels fill less than half of the "
		 "GPU, and yet hardly any two run at the same time: all work goes to one stream, "
		 "or the default stream, events or waits of the CPU stand between them, which is "
		 "said where one of them is at least as frequent as every fourth kernel (the "
		 "default stream: every eighth). Where kernels run side by side of "
		 "which each fills the GPU, that is said: more streams gain little.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_streams,
	.check = check_streams,
};
