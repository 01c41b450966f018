/*
 * serial_streams.c - streams were created to run work in parallel, but their work does not overlap.
 */
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

static void check_streams(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t made = count_made_streams(analysis), used = analysis->facts.streams;
	double filling = measure_filling(analysis), concurrency = measure_concurrency(analysis);
	double possible;
	uint64_t compute = 0, gain;
	struct ws_finding *finding;

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
	finding->title = ws_format(
		"%llu streams were made, kernels ran in %llu of them, and hardly ever side "
		"by side although they fill only %.0f %% of the GPU",
		(unsigned long long)made, (unsigned long long)used, 100 * filling);
	finding->advice = ws_strdup(
		used < made
			? "Launch independent work in different streams: the stream argument of "
			  "the launches is always the same."
			: "Something makes the streams wait for each other: work in the default "
			  "stream (make streams with cudaStreamNonBlocking, or compile with "
			  "--default-stream per-thread), events, or synchronising calls.");
	finding->assumption = ws_format("up to %.1f of the kernels run at once", possible);
	finding->next = ws_strdup("warpsight view REPORT shows the streams below one another");
}

const struct ws_rule ws_rule_serial_streams = {
	.name = "serial-streams",
	.title = "Streams whose work takes turns",
	.about = "The program made two streams or more, its kernels fill less than half of the "
		 "GPU, and yet hardly any two run at the same time: all work goes to one stream, "
		 "or the default stream stands between them. Where kernels run side by side of "
		 "which each fills the GPU, that is said: more streams gain little.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_streams,
	.check = check_streams,
};
