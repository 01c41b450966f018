/* memory_aperture.c - accesses that miss the L2 cache and go to the host's memory or another GPU,
 * over a link that is far slower than device memory. */
#include "kernel/rules/rule.h"

#define LEAST_SHARE 0.4
#define LEAST_LOAD 0.1
#define MISSES "lts__t_sectors_srcunit_tex_lookup_miss.sum"
#define DURATION "gpu__time_duration.sum"

static const struct aperture {
	const char *metric, *where;
} apertures[] = {
	{"lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum", "the host's memory"},
	{"lts__t_sectors_srcunit_tex_aperture_peer_lookup_miss.sum", "another GPU's memory"},
};

static void check_aperture(const struct ws_kernel_result *result, const struct aperture *aperture,
			   struct ws_kernel_findings *findings)
{
	enum { SECTOR_BYTES = 32 };
	double sectors = ws_kernel_get(result, aperture->metric),
	       share = sectors / ws_kernel_get(result, MISSES),
	       seconds = ws_kernel_get(result, DURATION) / 1e9,
	       peak = ws_kernel_get(result, "roofline__dram_peak"), estimate;
	struct ws_kernel_finding *finding;

	if (isnan(share) || share < LEAST_SHARE || isnan(seconds) || isnan(peak))
		return;
	estimate = fmin(share, 1) * (1 - fmin(sectors * SECTOR_BYTES / seconds / peak, 1));
	if (estimate < LEAST_LOAD)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_memory_aperture, WS_KERNEL_CAUSE,
					estimate);
	finding->title = ws_format("%.0f %% of what misses the L2 cache comes from %s", 100 * share,
				   aperture->where);
	finding->advice = ws_strdup("Copy what is used more than once into device memory, or "
				    "prefetch it (cudaMemPrefetchAsync).");
	finding->assumption = ws_strdup("device memory delivers the same bytes at its peak");
	ws_kernel_prove(finding, result, "sectors from there", aperture->metric);
	ws_kernel_prove(finding, result, "sectors that missed", MISSES);
}

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	for (size_t i = 0; i < WS_COUNT(apertures); i++)
		check_aperture(result, &apertures[i], findings);
}

const struct ws_kernel_rule ws_kernel_rule_memory_aperture = {
	"MemoryApertureUsage", "MemoryWorkloadAnalysis_Tables",
	"data in the host's memory or on another GPU", check};
