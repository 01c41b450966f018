/* copy_overlap.c - copies and kernels that take turns, or hide each other well. */
#include "analyze/rules/rules.h"

static void say_healthy(const struct ws_analysis *analysis, size_t gpu, double hidden,
			struct ws_findings *findings)
{
	struct ws_finding *finding = ws_findings_add(findings, &ws_rule_copy_overlap);
	struct ws_text name = {0};

	ws_analysis_put_gpu(analysis, gpu, &name);
	finding->level = WS_LEVEL_OK;
	finding->title = ws_format("Copies of %s are hidden by computation: %.0f %%", name.text,
				   100 * hidden);
	ws_text_free(&name);
}

static const char memset_query[] =
	"SELECT streamId AS stream, bytes, count(*) AS memsets, sum(end - start) AS total_ns FROM "
	"CUPTI_ACTIVITY_KIND_MEMSET GROUP BY 1, 2 ORDER BY 4 DESC LIMIT 20";

/* Copies from one place of a GPU to another, and memsets, are no transfers that a second stream
 * would hide: memory is as busy with them as with kernels. Returns whether they are most of it. */
static bool check_inner(const struct ws_analysis *analysis, size_t gpu,
			struct ws_findings *findings)
{
	const struct ws_facts *facts = &analysis->facts;
	const struct ws_copy_fact *inner = &facts->copies[WS_BETWEEN][0];
	uint64_t exposed = analysis->gpus[gpu].exposed_copies, outer = 0;
	struct ws_finding *finding;
	struct ws_text name = {0};

	for (int pageable = 0; pageable < 2; pageable++)
		outer += facts->copies[WS_TO_DEVICE][pageable].ns +
			 facts->copies[WS_TO_HOST][pageable].ns;
	if (analysis->model->work.gpus > 1 || inner->ns + facts->memset_ns < 3 * outer ||
	    !(inner->ns + facts->memset_ns))
		return false;
	if (ws_analysis_share(analysis, exposed) < 0.03)
		return true;
	ws_analysis_put_gpu(analysis, gpu, &name);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_copy_overlap, exposed,
					exposed - exposed / 4);
	if (inner->ns > facts->memset_ns)
		finding->title =
			ws_format("%s copies from one place of its memory to another for "
				  "%.0f %% of the time: %llu times, %.1f MB",
				  name.text, 100 * ws_analysis_share(analysis, exposed),
				  (unsigned long long)inner->count, (double)inner->bytes / 1e6);
	else
		finding->title = ws_format("%s sets memory (memset) for %.0f %% of the time: %llu "
					   "times, %.1f MB",
					   name.text, 100 * ws_analysis_share(analysis, exposed),
					   (unsigned long long)facts->memsets,
					   (double)facts->memset_bytes / 1e6);
	finding->advice = ws_strdup(
		"Swap pointers instead of copying, write results where they are needed (out=), "
		"leave out clones; set only what is read before it is written, or let the kernel "
		"that uses it do so.");
	finding->assumption = ws_strdup("three quarters of it can be left out");
	if (inner->ns > facts->memset_ns)
		ws_finding_add_evidence(finding, "the longest copy", NULL, inner->longest.start,
					inner->longest.end);
	else
		ws_finding_add_evidence(finding, "the longest memset", memset_query,
					facts->longest_memset.start, facts->longest_memset.end);
	ws_text_free(&name);
	return true;
}

/* ", most of the copying at load (train.py:12)": where copies are asked for, as samples in the
 * calls show, which is the finding's source line then. */
static void put_copying(const struct ws_analysis *analysis, struct ws_finding *finding,
			struct ws_text *text)
{
	static const char *const names[] = {"cudaMemcpy*", "cuMemcpy*", NULL};
	struct ws_call_fact calls;

	if (!ws_facts_sum_calls(analysis->model, &analysis->facts, names, &calls) ||
	    !calls.place.users)
		return;
	ws_text_puts(text, ", most of the copying");
	ws_put_at_place(analysis, &calls.place, text);
	ws_point_at(finding, &calls.place);
}

/* So much is copied that no computation could hide it. */
static void say_bound(const struct ws_analysis *analysis, size_t gpu, struct ws_findings *findings)
{
	const struct ws_copy_fact *most = &analysis->facts.copies[0][0];
	uint64_t exposed = analysis->gpus[gpu].exposed_copies;
	int direction = 0;
	struct ws_finding *finding;
	struct ws_text name = {0}, place = {0};

	for (int i = 0; i < WS_DIRECTIONS; i++)
		for (int pageable = 0; pageable < 2; pageable++)
			if (analysis->facts.copies[i][pageable].ns > most->ns) {
				most = &analysis->facts.copies[i][pageable];
				direction = i;
			}
	ws_analysis_put_gpu(analysis, gpu, &name);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_copy_overlap, exposed,
					exposed - exposed / 4);
	put_copying(analysis, finding, &place);
	finding->title = ws_format(
		"%s copies for %.0f %% of the time, mostly %s (%.1f MB, %.1f GB/s): too much for "
		"computation to hide%s",
		name.text, 100 * ws_analysis_share(analysis, exposed),
		ws_name_direction((enum ws_copy_direction)direction), (double)most->bytes / 1e6,
		(double)most->bytes / (double)ws_max(most->ns, (uint64_t)1),
		ws_text_or(place.text, ""));
	finding->advice = ws_strdup("Keep data on the GPU between steps, copy fewer bytes (a "
				    "smaller type, only what changed), or copy both ways at once.");
	finding->assumption = ws_strdup("three quarters of the bytes need not be copied");
	ws_finding_add_evidence(finding, "the longest copy", NULL, most->longest.start,
				most->longest.end);
	ws_text_free(&name);
	ws_text_free(&place);
}

static void check_gpu(const struct ws_analysis *analysis, size_t gpu, struct ws_findings *findings)
{
	const struct ws_gpu_budget *budget = &analysis->gpus[gpu];
	uint64_t exposed = budget->exposed_copies, gain = ws_min(exposed, budget->compute);
	uint64_t all = exposed + budget->overlapped;
	struct ws_finding *finding;
	struct ws_text name = {0}, place = {0};

	if (ws_analysis_share(analysis, all) < 0.02 || !budget->compute)
		return;
	if ((double)budget->overlapped >= 0.7 * (double)all && !budget->exposed_comm) {
		say_healthy(analysis, gpu, (double)budget->overlapped / (double)all, findings);
		return;
	}
	/* The cause of slow copies comes first: without it they may well be hidden. */
	if (ws_findings_have(findings, &ws_rule_pageable_copies) ||
	    ws_findings_have(findings, &ws_rule_tiny_copies) ||
	    ws_findings_have(findings, &ws_rule_page_migration))
		return;
	if (check_inner(analysis, gpu, findings))
		return;
	if (ws_analysis_share(analysis, exposed) >= 0.5 && gain < exposed / 4) {
		say_bound(analysis, gpu, findings);
		return;
	}
	if (ws_analysis_share(analysis, gain) < 0.03)
		return;
	gain = ws_estimate_bound(analysis, gain, ws_cost_without_copies, NULL);
	ws_analysis_put_gpu(analysis, gpu, &name);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_copy_overlap, exposed, gain);
	put_copying(analysis, finding, &place);
	finding->title = ws_format("Copies and kernels of %s take turns: %.0f %% of the time it "
				   "only copies%s",
				   name.text, 100 * ws_analysis_share(analysis, exposed),
				   ws_text_or(place.text, ""));
	finding->advice = ws_strdup("Copy the next batch on a stream of its own while the GPU "
				    "computes the present one (prefetching, double buffering).");
	finding->assumption = ws_strdup("computation hides the copies");
	ws_text_free(&name);
	ws_text_free(&place);
}

static void check_overlap(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	for (size_t i = 0; i < analysis->model->work.gpus; i++)
		check_gpu(analysis, i, findings);
}

const struct ws_rule ws_rule_copy_overlap = {
	.name = "copy-overlap",
	.title = "Copies beside computation",
	.about = "Copies take 2 % of a GPU's time or more. At least 70 % of them beside kernels is "
		 "well overlapped and said as such; 3 % of the time that a GPU only copies while "
		 "it could compute is a fault, and so are as many copies within one GPU's "
		 "memory, and memsets.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_copies,
	.check = check_overlap,
};
