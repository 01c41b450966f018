/*
 * cpu_throttling.c - a control group with a quota that stops all its threads once it is spent.
 *
 * To the threads this looks like waiting for a core, which is not their fault and is not counted.
 * So the cost is taken from the kernel's counters.
 */
#include "analyze/rules/rules.h"

static uint64_t read_fact(const struct ws_analysis *analysis, const char *name)
{
	const char *value = ws_find_meta(analysis->model->report, name);

	if (!value)
		return 0;
	return strtoull(value, NULL, 10);
}

/* The kernel adds up the times of all processors on which the group had threads, from when the last
 * of them stopped. In throttled periods, waiting for a core on the path was mostly due to that. */
static uint64_t estimate_cost(const struct ws_analysis *analysis, uint64_t throttled_us)
{
	const double period = 100e6; /* ns, the usual period */
	double cores = ws_min(analysis->demand, (double)ws_max(analysis->cores, 1u)), share;
	uint64_t stopped = (uint64_t)((double)throttled_us * 1000 / ws_max(cores, 1.0));

	if (!throttled_us || !analysis->window)
		return 0;
	share = (double)read_fact(analysis, "cpu.throttled") * period / (double)analysis->window;
	stopped = ws_max(stopped, (uint64_t)((double)analysis->breakdown.by_cause[WS_CAUSE_CORE] *
					     ws_min(share, 1.0)));
	return ws_min(stopped, analysis->window);
}

static void report_quota(const struct ws_analysis *analysis, uint64_t cost,
			 struct ws_findings *findings)
{
	const char *quota = ws_find_meta(analysis->model->report, "cpu.quota");
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_cpu_throttling, cost, cost);

	/* The share is of all time, because the cost is waiting for a core. */
	finding->level = WS_LEVEL_WARNING;
	if (ws_analysis_part(analysis, cost) >= WS_CRITICAL_SHARE)
		finding->level = WS_LEVEL_CRITICAL;
	finding->title = ws_format(
		"The control group may use %s processors, and was stopped %llu times for that: "
		"about %.0f %% of the time",
		ws_text_or(quota, "a limited number of"),
		(unsigned long long)read_fact(analysis, "cpu.throttled"),
		100 * ws_analysis_part(analysis, cost));
	finding->advice = ws_strdup("Raise the quota (docker --cpus, limits.cpu of the pod, "
				    "CPUQuota= of the unit), or start no more threads than it "
				    "allows (OMP_NUM_THREADS, num_workers).");
	finding->assumption = ws_strdup("there are enough processors for a larger quota");
	finding->next = ws_strdup("warpsight stats -r sched_sum REPORT");
}

static void report_heat(uint64_t times, struct ws_findings *findings)
{
	struct ws_finding *finding = ws_findings_add(findings, &ws_rule_cpu_throttling);

	finding->title = ws_format("Processors were slowed down for their heat %llu times",
				   (unsigned long long)times);
	finding->advice = ws_strdup("Figures vary with temperature: let the machine cool down, "
				    "look at its fans, and compare runs made alike.");
}

static void check_throttling(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t cost = estimate_cost(analysis, read_fact(analysis, "cpu.throttled_us")),
		 heat = read_fact(analysis, "cpu.heat_throttles");

	if (ws_analysis_part(analysis, cost) >= WS_WARNING_SHARE)
		report_quota(analysis, cost, findings);
	if (heat)
		report_heat(heat, findings);
}

static const char *find_obstacle(const struct ws_analysis *analysis)
{
	if (!ws_find_meta(analysis->model->report, "cpu.count"))
		return "the report says nothing of the machine (a trace of another tool)";
	return NULL;
}

const struct ws_rule ws_rule_cpu_throttling = {
	.name = "cpu-throttling",
	.title = "A quota that stops the program",
	.about = "The kernel stopped the control group for 5 % of the time or more because its "
		 "quota was spent. Processors that were slowed down for their heat are a note.",
	.find_obstacle = find_obstacle,
	.query = ws_proof_cores,
	.check = check_throttling,
};
