/* roofline.c - how much of its peak the arithmetic of the kernel reaches; a note. */
#include "kernel/rules/rule.h"

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double single = ws_kernel_get(result, "roofline__fp32_achieved") /
			ws_kernel_get(result, "roofline__fp32_peak"),
	       twice = ws_kernel_get(result, "roofline__fp64_achieved") /
		       ws_kernel_get(result, "roofline__fp64_peak");
	struct ws_kernel_finding *finding;

	if (isnan(single) || isnan(twice) || fmax(single, twice) < 0.01)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_roofline, WS_KERNEL_NOTE, NAN);
	finding->title = ws_format("Arithmetic reaches %.0f %% of the FP32 peak and %.0f %% of the "
				   "FP64 peak at this clock",
				   100 * single, 100 * twice);
	finding->advice = ws_strdup("The roofline shows whether memory lets it reach more.");
	ws_kernel_prove(finding, result, "FP32 achieved", "roofline__fp32_achieved");
	ws_kernel_prove(finding, result, "FP64 achieved", "roofline__fp64_achieved");
}

const struct ws_kernel_rule ws_kernel_rule_roofline = {"SOLFPRoofline",
						       "SpeedOfLight_RooflineChart",
						       "how much of the arithmetic peak is reached",
						       check};
