/*
 * unfinished_ranges.c - ranges that end before the GPU has done what was launched in them.
 *
 * Launches return at once. A program that reads the host's clock around them measures only the
 * launching. That is a fault of the measurement, not of the program, whose time does not change.
 */
#include "analyze/rules/rules.h"
#include "query/fold.h"

static const char query[] =
	"SELECT coalesce(NVTX_EVENTS.text, value) AS range, count(*) AS count, avg(end - start) AS "
	"host_ns FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId WHERE end IS NOT NULL GROUP "
	"BY 1 ORDER BY 2 DESC";

/* Ranges that a framework or a library puts around each of its calls are not measurements. */
static bool is_library_range(const char *name)
{
	static const char *const beginnings[] = {"aten::", "autograd::", "torch::", "nccl"};

	for (size_t i = 0; i < WS_COUNT(beginnings); i++)
		if (!strncmp(name, beginnings[i], strlen(beginnings[i])))
			return true;
	return strstr(name, "op_id = ") != NULL;
}

/* The ranges that mark the steps: nobody reads the clock by them, and steps are taken to last until
 * their work is done. */
static bool marks_steps(const struct ws_analysis *analysis, const struct ws_range_facts *facts,
			const struct ws_range_fact *range)
{
	const struct ws_model *model = analysis->model;

	return model->step_source == WS_STEPS_MARKED &&
	       ws_fold_key(facts->fold, model->report, model->steps.steps[0].text) == range->name;
}

static bool is_misleading(const struct ws_analysis *analysis, const struct ws_range_facts *facts,
			  const struct ws_range_fact *range)
{
	size_t length;

	return !is_library_range(
		       ws_fold_name(facts->fold, analysis->model->report, range->name, &length)) &&
	       !marks_steps(analysis, facts, range) && range->early >= 3 &&
	       range->early * 5 >= range->count * 4 && range->gpu_ns / 2 >= range->host_ns;
}

static void report_range(const struct ws_analysis *analysis, const struct ws_range_facts *facts,
			 const struct ws_range_fact *range, struct ws_findings *findings)
{
	struct ws_finding *finding = ws_findings_add(findings, &ws_rule_unfinished_ranges);
	struct ws_text host = {0}, gpu = {0};
	size_t length;
	const char *name = ws_fold_name(facts->fold, analysis->model->report, range->name, &length);

	ws_put_rounded_time(&host, range->host_ns / range->early);
	ws_put_rounded_time(&gpu, range->gpu_ns / range->early);
	finding->cost_ns = ws_min(range->gpu_ns, analysis->window);
	finding->title = ws_format("Ranges \"%.*s\" end before the GPU has done their work: %s on "
				   "average by the host's clock, %s of work on the GPU",
				   (int)ws_min(length, (size_t)200), name, host.text, gpu.text);
	finding->advice = ws_strdup(
		"Launches return at once, so that clocks around them measure the launching: wait "
		"for the GPU before both readings (cudaDeviceSynchronize, torch.cuda.synchronize), "
		"time with CUDA events, or ask for ranges as the GPU saw them. Leave out such "
		"waits "
		"where nothing is timed.");
	finding->next = ws_strdup("warpsight stats -r nvtx_gpu_proj_sum REPORT");
	ws_finding_add_evidence(finding, "the ranges", query, range->first_ns, range->last_ns);
	ws_text_free(&host);
	ws_text_free(&gpu);
}

static void check_ranges(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_range_facts *facts = &analysis->ranges;
	const struct ws_range_fact *most = NULL;

	for (size_t i = 0; i < facts->count; i++)
		if (is_misleading(analysis, facts, &facts->ranges[i]) &&
		    (!most || facts->ranges[i].gpu_ns > most->gpu_ns))
			most = &facts->ranges[i];
	if (most)
		report_range(analysis, facts, most, findings);
}

const struct ws_rule ws_rule_unfinished_ranges = {
	.name = "unfinished-ranges",
	.title = "Ranges that end before their work on the GPU",
	.about = "At least four in five NVTX ranges of one name end before the work that was "
		 "launched in them has been done, and it takes at least twice as long as they do: "
		 "their durations, and those of clocks that are read beside them, say how long "
		 "launching took. Never more than a note: the program is not slower for it. Ranges "
		 "that "
		 "mark the steps are left out.",
	.find_obstacle = ws_need_cuda,
	.check = check_ranges,
};
