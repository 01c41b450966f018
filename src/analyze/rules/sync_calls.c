/*
 * sync_calls.c - calls that wait for the GPU keep the CPU from running ahead.
 *
 * While the CPU waits the GPU drains, and while the CPU then prepares the next launch the GPU is
 * idle. Without the waits both would work in parallel: a step would take as long as the busier of
 * the two. Where that is the CPU, only the calls themselves are saved, with the line of Python that
 * makes them.
 */
#include "analyze/rules/rules.h"

#include "base/map.h"

static const char *const syncs[] = {"cudaDeviceSynchronize",
				    "cudaStreamSynchronize",
				    "cudaEventSynchronize",
				    "cuCtxSynchronize",
				    "cuStreamSynchronize",
				    "cuEventSynchronize",
				    NULL};

/* The same and copies that return when they are done. */
static const char *const syncs_and_copies[] = {"cudaDeviceSynchronize",
					       "cudaStreamSynchronize",
					       "cudaEventSynchronize",
					       "cuCtxSynchronize",
					       "cuStreamSynchronize",
					       "cuEventSynchronize",
					       "cudaMemcpy",
					       "cuMemcpyDtoH*",
					       NULL};

/* Where most synchronous copies are of a few bytes, and many bring them to the host, a result is
 * read again and again: what they cost is the wait. */
static const char *const *choose_calls(const struct ws_analysis *analysis)
{
	uint64_t all = 0, small = 0, read = 0;

	for (int direction = 0; direction < WS_DIRECTIONS; direction++)
		for (int pageable = 0; pageable < 2; pageable++) {
			const struct ws_copy_fact *copies =
				&analysis->facts.copies[direction][pageable];

			uint64_t few = ws_min(copies->synchronous, copies->small);

			all += copies->synchronous;
			small += few;
			if (direction == WS_TO_HOST)
				read += few;
		}
	if (read && small * 4 >= all * 3 && read * 4 >= all)
		return syncs_and_copies;
	return syncs;
}

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

enum { SHORT_PIECE_NS = 50000, CALL_FROM_PYTHON_NS = 50000, LEAST_WAITS = 100 };

static uint64_t sum_copies(const struct ws_facts *facts)
{
	uint64_t ns = 0;

	for (int direction = 0; direction < WS_DIRECTIONS; direction++)
		ns += facts->copies[direction][0].ns + facts->copies[direction][1].ns;
	return ns;
}

/* One wait at the end of a step, to read a result, is usual; so is one after long work. */
static bool is_worth_it(const struct ws_analysis *analysis, const struct ws_call_fact *calls)
{
	const struct ws_facts *facts = &analysis->facts;

	if (analysis->model->step_source != WS_STEPS_NONE && calls->count >= 2 * analysis->steps)
		return true;
	if (facts->kernel_instances && calls->count * 3 >= facts->kernel_instances &&
	    facts->kernel_ns / facts->kernel_instances < SHORT_PIECE_NS)
		return true;
	return calls->count >= LEAST_WAITS &&
	       (facts->kernel_ns + sum_copies(facts)) / calls->count < SHORT_PIECE_NS;
}

void ws_put_wait_of_steps(const struct ws_analysis *analysis, struct ws_text *text)
{
	struct ws_call_fact calls;

	if (analysis->model->step_source == WS_STEPS_NONE ||
	    !ws_facts_sum_calls(analysis->model, &analysis->facts, syncs, &calls) ||
	    calls.count * 10 < analysis->steps * 9 || !calls.place.users)
		return;
	ws_text_puts(text, "; in each step the CPU waits for the GPU");
	ws_put_at_place(analysis, &calls.place, text);
}

enum call_sort { SORT_OTHER, SORT_WORK, SORT_SYNC };

/* Calls that wait although their thread has launched nothing since its last wait. */
static uint64_t count_redundant(const struct ws_analysis *analysis)
{
	const struct ws_model *model = analysis->model;
	const struct ws_model_thread *thread = &model->threads[model->thread];
	uint64_t *const *col = model->calls.rows.col;
	static const char *const work[] = {"cudaLaunch*",      "cuLaunch*",	 "cudaMemcpy*",
					   "cuMemcpy*",	       "cudaMemset*",	 "cuMemset*",
					   "cudaGraphLaunch*", "cuGraphLaunch*", NULL};
	static const char *const *const lists[] = {work, syncs, NULL};
	struct ws_map sorts = {0};
	uint64_t count = 0;
	bool waited = false;

	for (size_t i = thread->first_call; i < thread->end_call; i++) {
		uint64_t sort =
			ws_sort_call(analysis, &sorts, (uint32_t)col[ws_cuda_api_name][i], lists);

		if (sort == SORT_WORK)
			waited = false;
		if (sort != SORT_SYNC)
			continue;
		count += waited && col[ws_cuda_api_start][i] >= model->from &&
			 col[ws_cuda_api_start][i] < model->to;
		waited = true;
	}
	ws_map_free(&sorts);
	return count;
}

static bool is_poll(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	static const char *const polls[] = {"cudaEventQuery", "cudaStreamQuery*", "cuEventQuery",
					    "cuStreamQuery*", NULL};
	const char *name;

	if (row->cause != WS_CAUSE_CPU || !row->place.called)
		return false;
	name = ws_stacks_get_function(analysis->model->stacks, row->place.called)->name;
	return ws_is_name_among(name, strlen(name), polls);
}

/* A thread that asks again and again whether the GPU is done waits for it as well. These calls are
 * not recorded, samples show them. */
static void check_polls(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t polling = ws_sum_path_rows(analysis, is_poll), gain,
		 cpu = ws_analysis_cpu_on_path(analysis);
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_poll);
	struct ws_finding *finding;
	struct ws_code_place at;
	struct ws_text place = {0};

	if (!row || ws_analysis_share(analysis, polling) < 0.1 ||
	    analysis->model->step_source == WS_STEPS_NONE)
		return;
	at = row->place;
	gain = analysis->window - ws_min(analysis->window, ws_max(ws_analysis_gpu_busy(analysis),
								  cpu - ws_min(cpu, polling)));
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_sync_calls, polling, gain);
	at.called = 0;
	at.leaf = at.function;
	ws_put_at_place(analysis, &at, &place);
	finding->title = ws_format(
		"The CPU asks again and again whether the GPU is done, %.0f %% of the time in %s%s",
		100 * ws_analysis_share(analysis, polling),
		ws_stacks_get_function(analysis->model->stacks, row->place.called)->name,
		ws_text_or(place.text, ""));
	ws_point_at(finding, &at);
	finding->advice = ws_strdup(
		"Launch what comes next before asking: order work by streams and events "
		"(cudaStreamWaitEvent), and wait once, where a result is needed, by "
		"cudaEventSynchronize with cudaEventBlockingSync, which leaves the core free.");
	finding->assumption = ws_strdup("the CPU runs ahead while the GPU works");
	ws_finding_add_evidence(finding, "the longest stretch", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&place);
}

static void check_syncs(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const char *const *names = choose_calls(analysis);
	struct ws_call_fact calls;
	uint64_t in_calls, cpu, floor, gain, line, redundant;
	struct ws_finding *finding;
	struct ws_text place = {0};

	check_polls(analysis, findings);
	if (!ws_facts_sum_calls(analysis->model, &analysis->facts, names, &calls) ||
	    !is_worth_it(analysis, &calls) || ws_findings_have(findings, &ws_rule_gil))
		return;
	in_calls = ws_sum_path_calls(analysis, names);
	cpu = ws_analysis_cpu_on_path(analysis);
	floor = ws_max(ws_analysis_gpu_busy(analysis), cpu - ws_min(cpu, in_calls));
	gain = analysis->window - ws_min(analysis->window, floor);
	gain = ws_estimate_bound(analysis, gain, ws_cost_without_syncs, NULL);
	line = calls.place.python ? sum_line(analysis, &calls.place) : 0;
	/* The line may do much else. */
	line = ws_min(line, in_calls + calls.count * CALL_FROM_PYTHON_NS);
	gain = ws_max(gain, line);
	if (ws_analysis_share(analysis, gain) < 0.03)
		return;
	ws_put_at_place(analysis, &calls.place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_sync_calls,
					ws_max(calls.ns, line), gain);
	redundant = count_redundant(analysis);
	if (redundant * 10 >= calls.count)
		ws_text_printf(&place,
			       "; %.0f %% of these waits are redundant: nothing was launched since "
			       "the one before",
			       100.0 * (double)ws_min(redundant, calls.count) /
				       (double)calls.count);
	if (calls.count < analysis->steps + analysis->steps / 2)
		finding->title =
			ws_format("The CPU waits for the GPU %llu times%s",
				  (unsigned long long)calls.count, ws_text_or(place.text, ""));
	else
		finding->title = ws_format("The CPU waits for the GPU %.0f times a step%s",
					   (double)calls.count / (double)analysis->steps,
					   ws_text_or(place.text, ""));
	ws_point_at(finding, &calls.place);
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
	.about = "Two or more calls a step, or one for every third kernel, or one for every 50 us "
		 "of the GPU's work and 100 in all, wait for the GPU, and "
		 "without them the step would be 3 % shorter or more: as long as the GPU's work or "
		 "the CPU's, whichever is longer. Or 10 % of the path is spent in asking whether "
		 "the GPU is done (cudaEventQuery, cudaStreamQuery).",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_cuda_calls,
	.check = check_syncs,
};
