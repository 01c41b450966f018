/* theoretical_occupancy.c - few warps fit on a multiprocessor; names the limiting resource. */
#include "kernel/rules/rule.h"

#define ENOUGH 80.0
#define OCCUPANCY "sm__maximum_warps_per_active_cycle_pct"

static const struct limit {
	const char *metric, *what, *advice;
} limits[] = {
	{"launch__occupancy_limit_registers", "registers",
	 "Use fewer registers: keep less in each thread, __launch_bounds__, -maxrregcount, smaller "
	 "tiles."},
	{"launch__occupancy_limit_shared_mem", "shared memory",
	 "Use less shared memory in a block: smaller tiles, one buffer for several purposes, "
	 "smaller types."},
	{"launch__occupancy_limit_warps", "the size of its blocks",
	 "Choose another block size: whole blocks of this size do not fill a multiprocessor."},
	{"launch__occupancy_limit_blocks", "the number of blocks",
	 "Make the blocks larger: 128 to 256 threads suit most kernels."},
};

/* The limit that allows the fewest blocks; NULL when none is known. */
static const struct limit *find_limit(const struct ws_kernel_result *result)
{
	const struct limit *found = NULL;
	double least = INFINITY;

	for (size_t i = 0; i < WS_COUNT(limits); i++) {
		double blocks = ws_kernel_get(result, limits[i].metric);

		if (blocks < least) {
			least = blocks;
			found = &limits[i];
		}
	}
	return found;
}

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double occupancy = ws_kernel_get(result, OCCUPANCY), estimate;
	const struct limit *limit = find_limit(result);
	struct ws_kernel_finding *finding;

	if (!limit || isnan(occupancy) || occupancy >= ENOUGH)
		return;
	estimate = fmin(ws_kernel_headroom(result), 1 - occupancy / 100);
	/* A busy unit does not need more warps. */
	if (estimate < WS_KERNEL_LEAST_GAIN)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_theoretical_occupancy,
					WS_KERNEL_CAUSE, estimate);
	finding->title = ws_format("Only %.1f %% of the warps that a multiprocessor can hold fit, "
				   "limited by %s",
				   occupancy, limit->what);
	finding->advice = ws_strdup(limit->advice);
	finding->assumption = ws_strdup("more warps hide latency in proportion, up to the peak of "
					"the busiest unit");
	ws_kernel_prove(finding, result, "theoretical occupancy", OCCUPANCY);
	for (size_t i = 0; i < WS_COUNT(limits); i++)
		ws_kernel_prove(finding, result, limits[i].what, limits[i].metric);
	ws_kernel_prove(finding, result, "registers of a thread", "launch__registers_per_thread");
}

const struct ws_kernel_rule ws_kernel_rule_theoretical_occupancy = {
	"TheoreticalOccupancy", "Occupancy", "few warps fit on a multiprocessor", check};
