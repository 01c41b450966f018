/*
 * double_precision.c - the pipe for double precision is busy while that for single precision is
 * nearly idle, so the doubles may be unintended: often a constant without the suffix f causes them.
 */
#include "kernel/rules/rule.h"

#define LEAST_SHARE 0.15
#define BUSY_SINGLE 0.6
#define PIPE "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active"
#define DOUBLE "roofline__fp64_achieved"
#define SINGLE "roofline__fp32_achieved"
#define CONVERSIONS "smsp__sass_thread_inst_executed_op_conversion_pred_on.sum"

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double twice = ws_kernel_get(result, DOUBLE), single = ws_kernel_get(result, SINGLE),
	       peak = ws_kernel_get(result, "roofline__fp64_peak"),
	       single_peak = ws_kernel_get(result, "roofline__fp32_peak"),
	       pipe = ws_kernel_get(result, PIPE) / 100, estimate;
	struct ws_kernel_finding *finding;

	if (isnan(pipe))
		pipe = twice / peak;
	if (isnan(twice) || isnan(single) || isnan(peak) || isnan(single_peak))
		return;
	if (twice / peak < LEAST_SHARE || single / single_peak > BUSY_SINGLE)
		return;
	estimate = twice / (twice + single) * (1 - fmin(peak / single_peak, 1)) * fmin(pipe, 1);
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_double_precision, WS_KERNEL_CAUSE,
					estimate);
	finding->title = ws_format("%.0f %% of the arithmetic is in double precision, whose peak "
				   "is 1/%.0f of that of single precision",
				   100 * twice / (twice + single), single_peak / peak);
	finding->advice = ws_strdup("Where single precision is enough, write 0.5f instead of 0.5, "
				    "float instead of double, and sinf() instead of sin(); keep "
				    "double precision for sums that need it.");
	finding->assumption = ws_strdup("single precision is enough for all of it");
	ws_kernel_prove(finding, result, "double precision", DOUBLE);
	ws_kernel_prove(finding, result, "single precision", SINGLE);
	ws_kernel_prove(finding, result, "pipe of double precision", PIPE);
	if (!isnan(ws_kernel_get(result, CONVERSIONS)))
		ws_kernel_prove(finding, result, "conversions", CONVERSIONS);
}

const struct ws_kernel_rule ws_kernel_rule_double_precision = {
	"DoublePrecision", "SpeedOfLight_RooflineChart",
	"double precision where single precision would do", check};
