/* compression.c - compressible memory whose data hardly compress. A rate of 0 means that no memory
 * was compressible, which is the usual case and no finding. */
#include "kernel/rules/rule.h"

#define LEAST_SUCCESS 20.0

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	static const char *const metrics[] = {"lrc__average_ilc_input_sector_success_rate.pct",
					      "lts__average_gcomp_input_sector_success_rate.pct"};
	struct ws_kernel_finding *finding;
	double success = NAN;
	size_t i;

	for (i = 0; i < WS_COUNT(metrics) && isnan(success); i++)
		success = ws_kernel_get(result, metrics[i]);
	if (isnan(success) || success <= 0 || success >= LEAST_SUCCESS)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_compression, WS_KERNEL_NOTE, NAN);
	finding->title = ws_format("Only %.1f %% of what was to be compressed in the L2 cache "
				   "could be",
				   success);
	finding->advice = ws_strdup("Allocate as compressible only what holds many zeros or equal "
				    "values.");
	ws_kernel_prove(finding, result, "success rate", metrics[i - 1]);
}

const struct ws_kernel_rule ws_kernel_rule_compression = {
	"MemoryL2Compression", "MemoryWorkloadAnalysis",
	"compressible memory that does not compress", check};
