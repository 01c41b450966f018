/* issue_slots.c - schedulers that mostly have nothing to issue. */
#include "kernel/rules/rule.h"

#define ENOUGH 0.6
#define ISSUE "smsp__issue_active.avg.per_cycle_active"
#define ACTIVE "smsp__warps_active.avg.per_cycle_active"
#define ELIGIBLE "smsp__warps_eligible.avg.per_cycle_active"

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double issue = ws_kernel_get(result, ISSUE), estimate;
	struct ws_kernel_finding *finding;

	if (isnan(issue) || issue >= ENOUGH || issue <= 0)
		return;
	estimate = fmin(1 - issue, ws_kernel_headroom(result));
	if (estimate < WS_KERNEL_LEAST_GAIN)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_issue_slots, WS_KERNEL_SYMPTOM,
					estimate);
	finding->title = ws_format("Schedulers issue an instruction every %.1f cycles", 1 / issue);
	finding->advice = ws_strdup("More warps, or more independent instructions in each, fill "
				    "the cycles in between; warp states say what they wait for.");
	finding->assumption = ws_strdup("more eligible warps fill the empty slots, up to the peak "
					"of the busiest unit");
	ws_kernel_prove(finding, result, "instructions issued a cycle", ISSUE);
	ws_kernel_prove(finding, result, "warps of a scheduler", ACTIVE);
	ws_kernel_prove(finding, result, "of these, eligible", ELIGIBLE);
}

const struct ws_kernel_rule ws_kernel_rule_issue_slots = {
	"IssueSlotUtilization", "SchedulerStats", "schedulers without eligible warps", check};
