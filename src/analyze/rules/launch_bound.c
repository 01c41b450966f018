/*
 * launch_bound.c - the GPU waits for launches: many short kernels, each of which costs the CPU more
 * than the GPU.
 */
#include "analyze/rules/rules.h"

enum { LEAST_KERNELS = 40, LEAST_RATE = 2000 /* a second */, LONG_KERNEL_NS = 100000 };

static uint64_t sum_waits(const struct ws_analysis *analysis)
{
	uint64_t sum = 0;

	for (int cause = WS_CAUSE_CORE; cause <= WS_CAUSE_OTHER_WAIT; cause++)
		sum += analysis->breakdown.by_cause[cause];
	return sum;
}

/* Code and calls of CUDA on the path that launch work, or that run between one launch and the
 * next. Calls that copy or wait may last as long as the GPU works. */
static uint64_t sum_launching(const struct ws_analysis *analysis)
{
	static const char *const others[] = {"cudaMemcpy*",	      "cuMemcpy*",
					     "cudaDeviceSynchronize", "cudaStreamSynchronize",
					     "cudaEventSynchronize",  NULL};
	uint64_t cpu = ws_analysis_cpu_on_path(analysis);
	uint64_t apart = analysis->breakdown.apart + ws_sum_path_calls(analysis, others);

	return cpu - ws_min(cpu, apart);
}

static bool is_launching(const struct ws_breakdown_row *row)
{
	return (row->cause == WS_CAUSE_CPU || row->cause == WS_CAUSE_CUDA_CALL) && row->place.users;
}

/* The time of launching in a function of the user's, or at one line of it. */
static uint64_t sum_place(const struct ws_analysis *analysis, const struct ws_code_place *place,
			  bool line)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (is_launching(row) && row->place.function == place->function &&
		    row->place.file == place->file && (!line || row->place.line == place->line))
			sum += row->ns;
	}
	return sum;
}

static bool is_launching_of_users(const struct ws_analysis *analysis,
				  const struct ws_breakdown_row *row)
{
	(void)analysis;
	return is_launching(row);
}

/* The function of the user's with the most time on the path, where that is a quarter or more of
 * what is known, and its line with the most; without a leaf for none. Calls are not sampled as
 * code, so not all is known. */
static struct ws_code_place find_line(const struct ws_analysis *analysis)
{
	enum { ROWS_TRIED = 100, LEAST_KNOWN = 10 /* a tenth */ };
	uint64_t most = 0, most_of_line = 0,
		 known = ws_sum_path_rows(analysis, is_launching_of_users);
	struct ws_code_place worst = {0};

	for (size_t i = 0; i < analysis->breakdown.count && i < ROWS_TRIED; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];
		uint64_t sum, sum_of_line;

		if (!is_launching(row))
			continue;
		sum = sum_place(analysis, &row->place, false);
		sum_of_line = sum_place(analysis, &row->place, true);
		if (sum < most || (sum == most && sum_of_line <= most_of_line))
			continue;
		most = sum;
		most_of_line = sum_of_line;
		worst = row->place;
	}
	worst.leaf = worst.function;
	if (most < known / 4 || known < ws_analysis_cpu_on_path(analysis) / LEAST_KNOWN)
		worst.leaf = 0;
	return worst;
}

static void put_line(const struct ws_analysis *analysis, struct ws_text *text)
{
	static const char *const launches[] = {"cudaLaunch*", "cuLaunch*", NULL};
	struct ws_code_place place = find_line(analysis);
	struct ws_call_fact calls;

	/* Calls are not sampled as code; where they are the most, samples in them know the place.
	 */
	if (!place.leaf && ws_facts_sum_calls(analysis->model, &analysis->facts, launches, &calls))
		place = calls.place;
	if (!place.leaf)
		return;
	ws_text_puts(text, ", most of the launching");
	ws_put_at_place(analysis, &place, text);
}

static bool is_launch_bound(const struct ws_analysis *analysis)
{
	uint64_t busy = ws_analysis_gpu_busy(analysis);
	double seconds = (double)analysis->window / 1e9;

	return analysis->facts.kernel_instances >= LEAST_KERNELS &&
	       analysis->facts.kernel_ns / analysis->facts.kernel_instances < LONG_KERNEL_NS &&
	       (double)analysis->facts.kernel_instances / seconds >= LEAST_RATE &&
	       ws_analysis_share(analysis, busy) < 0.7 &&
	       ws_analysis_share(analysis, ws_analysis_cpu_on_path(analysis)) > 0.5 &&
	       ws_analysis_share(analysis, sum_launching(analysis)) > 0.2;
}

/* The wait of each step, where no rule has said more of it. Returns whether there is one. */
static bool put_waits(const struct ws_analysis *analysis, const struct ws_findings *findings,
		      struct ws_text *text)
{
	size_t length = text->len;

	for (size_t i = 0; i < findings->count; i++)
		if (findings->findings[i].rule == &ws_rule_sync_calls)
			return false;
	ws_put_wait_of_steps(analysis, text);
	return text->len > length;
}

static void check_launches(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_facts *facts = &analysis->facts;
	uint64_t busy = ws_analysis_gpu_busy(analysis), gain;
	struct ws_finding *finding;
	struct ws_text line = {0};
	bool waits;

	/* Other rules know why the CPU is slow, or why it cannot run ahead. */
	if (!is_launch_bound(analysis) || ws_findings_have(findings, &ws_rule_blocking_launches) ||
	    ws_findings_have(findings, &ws_rule_tiny_copies) ||
	    ws_findings_have(findings, &ws_rule_allocation_churn) ||
	    ws_findings_have(findings, &ws_rule_compilation) ||
	    ws_findings_have(findings, &ws_rule_one_feeder) ||
	    ws_findings_have(findings, &ws_rule_gil))
		return;
	gain = analysis->window - ws_min(analysis->window, busy + sum_waits(analysis));
	gain = ws_estimate_bound(analysis, gain, ws_cost_without_cpu, NULL);
	gain = ws_min(gain, sum_launching(analysis));
	for (size_t i = 0; i < findings->count; i++) {
		const struct ws_finding *other = &findings->findings[i];

		/* Where the CPU waits for kernels all the time, or has more to launch from step to
		 * step, a graph helps only once that is over. */
		if (other->rule == &ws_rule_sync_calls ||
		    (other->rule == &ws_rule_growing_steps && other->level >= WS_LEVEL_WARNING))
			gain = ws_min(gain, other->gain_ns / 10 * 9);
		/* Faster launches do not shorten the time of loading data, nor that of other calls.
		 */
		if (other->rule == &ws_rule_data_loading || other->rule == &ws_rule_setup_calls)
			gain -= ws_min(gain, other->gain_ns);
	}
	put_line(analysis, &line);
	waits = put_waits(analysis, findings, &line);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_launch_bound,
					sum_launching(analysis), gain);
	finding->title = ws_format(
		"The GPU waits for launches: %.0f short kernel%s a step (%.1f us on average, %.0f "
		"%% of them below 10 us) keep it busy %.0f %% of the time%s",
		(double)facts->kernel_instances / (double)analysis->steps,
		ws_plural(facts->kernel_instances / analysis->steps),
		(double)facts->kernel_ns / (double)facts->kernel_instances / 1e3,
		100.0 * (double)facts->brief_kernels / (double)facts->kernel_instances,
		100 * ws_analysis_share(analysis, busy), ws_text_or(line.text, ""));
	ws_text_free(&line);
	finding->advice = ws_format(
		"%sLaunch the step as one CUDA graph (torch.cuda.CUDAGraph, "
		"torch.compile(mode='reduce-overhead')), fuse kernels (torch.compile), or give "
		"each kernel more work (a larger batch).",
		waits ? "A wait in the middle of a step (.item(), .cpu(), printing a tensor) "
			"empties "
			"the GPU's queue: keep the value on the GPU, or read it every n-th step. "
		      : "");
	finding->assumption = ws_strdup("launching costs next to nothing");
	finding->next = ws_strdup("warpsight stats -r cuda_kern_exec_sum REPORT");
}

const struct ws_rule ws_rule_launch_bound = {
	.name = "launch-bound",
	.title = "The GPU waits for launches",
	.about = "At least 2,000 kernels a second of less than 100 us on average are launched, the "
		 "GPU is busy less than 70 % of "
		 "the time, and code and calls of CUDA on the CPU are more than half of the "
		 "critical path. Code that computes for 500 us or longer without a call of CUDA "
		 "is not counted as launching, which takes at least 20 % of the path.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_launches,
};
