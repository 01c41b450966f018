/*
 * tail_effect.c - a last wave of few blocks, during which most of the GPU is idle.
 *
 * Waves are counted from the launch; where the active cycles of the multiprocessors were measured,
 * they say how much of the GPU really was idle.
 */
#include "kernel/rules/rule.h"

#define LEAST_SHARE 0.2
#define ACTIVE "sm__cycles_active.avg"
#define ELAPSED "gpc__cycles_elapsed.max"

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double waves = ws_kernel_get(result, "launch__waves_per_multiprocessor"),
	       idle = 1 - ws_kernel_get(result, ACTIVE) / ws_kernel_get(result, ELAPSED), whole,
	       estimate;
	struct ws_kernel_finding *finding;

	if (isnan(waves) || waves <= 1)
		return;
	whole = floor(waves);
	estimate = (whole + 1 - waves) / (whole + 1);
	if (waves == whole || 1 / (whole + 1) < LEAST_SHARE)
		return;
	if (!isnan(idle))
		estimate = fmin(estimate, idle);
	if (estimate < WS_KERNEL_LEAST_GAIN)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_tail_effect, WS_KERNEL_CAUSE,
					estimate);
	finding->title = ws_format("A last, partial wave: %.0f blocks make %.2f waves",
				   ws_kernel_get(result, "launch__grid_size"), waves);
	finding->advice = ws_strdup("Launch as many blocks as fit at once (grid-stride loop), or "
				    "smaller blocks, so that the last wave is full or short.");
	finding->assumption = ws_strdup("blocks take the same time, and the work can be spread "
					"evenly");
	ws_kernel_prove(finding, result, "waves", "launch__waves_per_multiprocessor");
	ws_kernel_prove(finding, result, "cycles of which a multiprocessor was active", ACTIVE);
	ws_kernel_prove(finding, result, "cycles that the kernel took", ELAPSED);
}

const struct ws_kernel_rule ws_kernel_rule_tail_effect = {"TailEffect", "LaunchStats",
							  "a last wave of few blocks", check};
