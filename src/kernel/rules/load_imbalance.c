/*
 * load_imbalance.c - some units of a kind work longer than others: the average of their active
 * cycles is below the maximum.
 */
#include "kernel/rules/rule.h"

#define LEAST_IMBALANCE 0.05

static const struct unit {
	const char *name, *avg, *max, *active, *elapsed;
} units[] = {
#define UNIT(title, unit)                                                         \
	{                                                                         \
		title, #unit "__cycles_active.avg", #unit "__cycles_active.max",  \
			#unit "__cycles_active.sum", #unit "__cycles_elapsed.sum" \
	}
	UNIT("multiprocessors", sm), UNIT("sub-partitions of multiprocessors", smsp),
	UNIT("L1/TEX caches", l1tex), UNIT("slices of the L2 cache", lts),
	UNIT("channels of device memory", dram)};

static double estimate_gain(const struct ws_kernel_result *result, const struct unit *unit)
{
	return (1 - ws_kernel_get(result, unit->avg) / ws_kernel_get(result, unit->max)) *
	       ws_kernel_get(result, unit->active) / ws_kernel_get(result, unit->elapsed);
}

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	const struct unit *worst = NULL;
	double most = LEAST_IMBALANCE;
	struct ws_kernel_finding *finding;

	/* A tail is the simpler explanation of the same idle cycles. */
	if (ws_kernel_has_spoken(findings, &ws_kernel_rule_tail_effect) ||
	    ws_kernel_has_spoken(findings, &ws_kernel_rule_small_grid))
		return;
	for (size_t i = 0; i < WS_COUNT(units); i++) {
		double gain = estimate_gain(result, &units[i]);

		if (gain >= most) {
			most = gain;
			worst = &units[i];
		}
	}
	if (!worst)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_load_imbalance, WS_KERNEL_CAUSE,
					most);
	finding->title = ws_format("The %s are not loaded evenly: on average they are active for "
				   "%.0f %% of the longest",
				   worst->name,
				   100 * ws_kernel_get(result, worst->avg) /
					   ws_kernel_get(result, worst->max));
	finding->advice = ws_strdup("Give blocks and warps equal work: split long ones, take work "
				    "from a shared counter, or order blocks so that long ones "
				    "begin first.");
	finding->assumption = ws_strdup("the work can be spread evenly");
	ws_kernel_prove(finding, result, "active cycles, average", worst->avg);
	ws_kernel_prove(finding, result, "active cycles, most", worst->max);
}

const struct ws_kernel_rule ws_kernel_rule_load_imbalance = {
	"WorkloadImbalance", "WorkloadDistribution", "units of a kind that work unequally long",
	check};
