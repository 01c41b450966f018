/* achieved_occupancy.c - fewer warps were resident than would fit. */
#include "kernel/rules/rule.h"

#define POINTS 10.0
#define ACHIEVED "sm__warps_active.avg.pct_of_peak_sustained_active"
#define THEORETICAL "sm__maximum_warps_per_active_cycle_pct"

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double theoretical = ws_kernel_get(result, THEORETICAL),
	       achieved = ws_kernel_get(result, ACHIEVED), estimate;
	struct ws_kernel_finding *finding;

	if (isnan(theoretical) || isnan(achieved) || theoretical - achieved <= POINTS)
		return;
	estimate = fmin(ws_kernel_headroom(result), (theoretical - achieved) / theoretical);
	if (estimate < WS_KERNEL_LEAST_GAIN)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_achieved_occupancy,
					WS_KERNEL_SYMPTOM, estimate);
	finding->title = ws_format("%.1f %% of the warps were there, where %.1f %% fit", achieved,
				   theoretical);
	finding->advice = ws_strdup("Look for blocks that end at different times, short blocks "
				    "that are replaced too slowly, and a tail of few blocks.");
	finding->assumption = ws_strdup("more warps hide latency in proportion, up to the peak of "
					"the busiest unit");
	ws_kernel_prove(finding, result, "achieved occupancy", ACHIEVED);
	ws_kernel_prove(finding, result, "theoretical occupancy", THEORETICAL);
}

const struct ws_kernel_rule ws_kernel_rule_achieved_occupancy = {
	"AchievedOccupancy", "Occupancy", "fewer warps resident than fit", check};
