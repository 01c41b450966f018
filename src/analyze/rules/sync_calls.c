/*
 * sync_calls.c - calls that wait for the GPU keep the CPU from running ahead.
 *
 * While the CPU waits the GPU drains, and while the CPU then prepares the next launch the GPU is
 * idle. Without the waits both would work side by side: a step would take as long as the busier of
 * the two. Where the CPU is the busier one, only the calls themselves are saved, with the line of
 * Python that makes them.
 */
#include "analyze/rules/rules.h"

static const char *const syncs[] = {"cudaDeviceSynchronize",
				    "cudaStreamSynchronize",
				    "cudaEventSynchronize",
				    "cuCtxSynchronize",
				    "cuStreamSynchronize",
				    "cuEventSynchronize",
				    NULL};

static uint64_t sum_line(const struct ws_analysis *analysis, const struct ws_code_place *place)
{
	uint64_t sum = 0;

	if (!place->line)
		return 0;
	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (row->place.function == place->function && row->place.line == place->line &&
		    row->place.file == place->file)
			sum += row->ns;
	}
	return sum;
}

enum { SHORT_PIECE_NS = 50000 };

/* One wait at the end of a step, to look at a result, is usual; so is one after long work. */
static bool is_worth_it(const struct ws_analysis *analysis, const struct ws_call_fact *calls)
{
	const struct ws_facts *facts = &analysis->facts;

	if (analysis->model->step_source == WS_STEPS_MARKED && calls->count >= 2 * analysis->steps)
		return true;
	return facts->kernel_instances && calls->count * 3 >= facts->kernel_instances &&
	       facts->kernel_ns / facts->kernel_instances < SHORT_PIECE_NS;
}

static void check_syncs(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct ws_call_fact calls;
	uint64_t in_calls, cpu, floor, gain, line;
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (!ws_facts_sum_calls(analysis->model, &analysis->facts, syncs, &calls) ||
	    !is_worth_it(analysis, &calls) || ws_findings_have(findings, &ws_rule_gil))
		return;
	in_calls = ws_sum_path_calls(analysis, syncs);
	cpu = ws_analysis_cpu_on_path(analysis);
	floor = ws_max(ws_analysis_gpu_busy(analysis), cpu - ws_min(cpu, in_calls));
	gain = analysis->window - ws_min(analysis->window, floor);
	line = calls.place.python ? sum_line(analysis, &calls.place) : 0;
	gain = ws_max(gain, line);
	if (ws_analysis_share(analysis, gain) < 0.03)
		return;
	ws_put_at_place(analysis, &calls.place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_sync_calls,
					ws_max(calls.ns, line), gain);
	finding->title =
		ws_format("The CPU waits for the GPU %.0f time%s a step%s",
			  (double)calls.count / (double)analysis->steps,
			  ws_plural(calls.count / analysis->steps), ws_text_or(place.text, ""));
	finding->advice = ws_strdup(
		"Wait once, where the result is needed: .item(), .cpu(), printing a tensor and "
		"synchronize() each stop the CPU until the GPU is done. Keep sums and norms on the "
		"GPU, and log every n-th step.");
	finding->assumption = ws_strdup("the CPU runs ahead while the GPU works");
	ws_finding_add_evidence(finding, "the longest wait", NULL, calls.longest.start,
				calls.longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_sync_calls = {
	.name = "sync-calls",
	.title = "Calls that wait for the GPU",
	.about = "Two or more calls a step, or one for every third kernel, wait for the GPU, and "
		 "without them the step would be 3 % shorter or more: as long as the GPU's work or "
		 "the CPU's, whichever is longer.",
	.find_obstacle = ws_need_cuda,
	.check = check_syncs,
};
