/* small_grid.c - fewer blocks than multiprocessors: the others have nothing to do. */
#include "kernel/rules/rule.h"

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double grid = ws_kernel_get(result, "launch__grid_size"),
	       sms = ws_kernel_get(result, "launch__sm_count");
	struct ws_kernel_finding *finding;

	if (isnan(sms) || isnan(grid) || grid >= sms)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_small_grid, WS_KERNEL_CAUSE,
					(sms - grid) / sms);
	finding->title = ws_format("%.0f of %.0f multiprocessors get no block", sms - grid, sms);
	finding->advice = ws_strdup("Divide the work into at least as many blocks as there are "
				    "multiprocessors, or run other kernels beside this one.");
	finding->assumption = ws_strdup("the work can be spread over all multiprocessors");
	ws_kernel_prove(finding, result, "blocks", "launch__grid_size");
	ws_kernel_prove(finding, result, "multiprocessors", "launch__sm_count");
}

const struct ws_kernel_rule ws_kernel_rule_small_grid = {
	"SmallGrid", "LaunchStats", "fewer blocks than multiprocessors", check};
