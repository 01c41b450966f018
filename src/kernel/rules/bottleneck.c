/*
 * bottleneck.c - the verdict: what the kernel is bound by. It follows from two throughputs,
 * compute's and memory's, as shares of the chip's peak.
 */
#include <stdio.h>

#include "kernel/rules/rule.h"
#include "kernel/sections.h"

#define HIGH 80.0
#define LOW 60.0
#define BALANCED 10.0

/* The level of the largest part of the memory throughput; NULL when its parts were not measured. */
static const char *find_busiest_level(const struct ws_kernel_result *result)
{
	static const struct {
		const char *name, *unit;
	} levels[] = {{"device memory (DRAM)", "dram__"},
		      {"device memory (DRAM)", "fbpa__"},
		      {"the L2 cache", "lts__"},
		      {"the L2 cache", "syslts__"},
		      {"the L1/TEX cache", "l1tex__"}};
	const char *name = NULL;
	double most = 0;

	for (size_t i = 0; i < ws_kernel_breakdown_count * WS_COUNT(levels); i++) {
		const struct ws_kernel_breakdown *part =
			&ws_kernel_breakdowns[i / WS_COUNT(levels)];
		const char *unit = levels[i % WS_COUNT(levels)].unit;
		char metric[160];
		double value;

		if (strcmp(part->throughput, "gpu__compute_memory_throughput") != 0 ||
		    strncmp(part->metric, unit, strlen(unit)) != 0)
			continue;
		snprintf(metric, sizeof(metric), "%s.avg.pct_of_peak_sustained_elapsed",
			 part->metric);
		value = ws_kernel_get(result, metric);
		if (value > most) {
			most = value;
			name = levels[i % WS_COUNT(levels)].name;
		}
	}
	return name;
}

/* The L2 cache's own throughput has parts that do not count for the memory's. */
static const char *name_memory_level(const struct ws_kernel_result *result)
{
	const char *busiest = find_busiest_level(result);
	static const struct {
		const char *name, *metric;
	} levels[] = {{"device memory (DRAM)", WS_DRAM_THROUGHPUT},
		      {"the L2 cache", WS_L2_THROUGHPUT},
		      {"the L1/TEX cache", WS_L1_THROUGHPUT}};
	const char *name = "memory";
	double most = -1;

	for (size_t i = 0; i < WS_COUNT(levels) && !busiest; i++) {
		double value = ws_kernel_get(result, levels[i].metric);

		if (value > most) {
			most = value;
			name = levels[i].name;
		}
	}
	return ws_text_or(busiest, name);
}

struct verdict {
	char *title;
	const char *advice;
};

static struct verdict judge_low(const struct ws_kernel_result *result, double compute,
				double memory)
{
	double waves = ws_kernel_get(result, "launch__waves_per_multiprocessor");

	if (waves < 1)
		return (struct verdict){
			ws_format("Small grid: %.2f waves leave part of the GPU without work",
				  waves),
			"Launch more blocks, or let other kernels run beside it (streams, a CUDA "
			"graph, a batched kernel)."};
	return (struct verdict){
		ws_format("Bound by latency: neither compute (%.0f %% of its peak) nor memory "
			  "(%.0f %%) is busy",
			  compute, memory),
		"Find what warps wait for: warp states and occupancy say it. More warps, or more "
		"independent work in each, hide latency."};
}

static struct verdict judge_high(const struct ws_kernel_result *result, double compute,
				 double memory)
{
	if (memory >= compute)
		return (struct verdict){
			ws_format("Bound by memory: %s works at %.0f %% of its peak",
				  name_memory_level(result), memory),
			"Little more is possible at this amount of traffic: move fewer bytes "
			"(reuse, fusion, smaller types), or from a level nearer to the cores."};
	return (struct verdict){
		ws_format("Bound by compute: its pipes work at %.0f %% of their peak", compute),
		"Little more is possible with this many instructions: do less work, or use "
		"another pipe (tensor cores, smaller types)."};
}

static struct verdict judge_middle(const struct ws_kernel_result *result, double compute,
				   double memory)
{
	if (fabs(compute - memory) < BALANCED)
		return (struct verdict){
			ws_format("Balanced: compute works at %.0f %% of its peak, memory at "
				  "%.0f %%",
				  compute, memory),
			"Both have to become cheaper for the kernel to become much faster."};
	if (memory > compute)
		return (struct verdict){
			ws_format("Mostly bound by memory: %s is at the head, with %.0f %% of peak "
				  "against %.0f %% for compute",
				  name_memory_level(result), memory, compute),
			"Look at the access patterns and hit rates of the memory tables first."};
	return (struct verdict){
		ws_format("Mostly bound by compute: %.0f %% of peak against %.0f %% for memory",
			  compute, memory),
		"Look at the pipes and at the instructions first: is work done twice, or in more "
		"precision than it needs?"};
}

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double compute = ws_kernel_get(result, WS_COMPUTE_THROUGHPUT),
	       memory = ws_kernel_get(result, WS_MEMORY_THROUGHPUT);
	struct ws_kernel_finding *finding;
	struct verdict verdict;

	if (isnan(compute) || isnan(memory))
		return;
	if (compute >= HIGH || memory >= HIGH)
		verdict = judge_high(result, compute, memory);
	else if (compute < LOW && memory < LOW)
		verdict = judge_low(result, compute, memory);
	else
		verdict = judge_middle(result, compute, memory);
	finding =
		ws_kernel_add_finding(findings, &ws_kernel_rule_bottleneck, WS_KERNEL_VERDICT, NAN);
	finding->title = verdict.title;
	finding->advice = ws_strdup(verdict.advice);
	ws_kernel_prove(finding, result, "compute throughput", WS_COMPUTE_THROUGHPUT);
	ws_kernel_prove(finding, result, "memory throughput", WS_MEMORY_THROUGHPUT);
	ws_kernel_prove(finding, result, "L1/TEX throughput", WS_L1_THROUGHPUT);
	ws_kernel_prove(finding, result, "L2 throughput", WS_L2_THROUGHPUT);
	ws_kernel_prove(finding, result, "DRAM throughput", WS_DRAM_THROUGHPUT);
	ws_kernel_prove(finding, result, "waves", "launch__waves_per_multiprocessor");
}

const struct ws_kernel_rule ws_kernel_rule_bottleneck = {"SOLBottleneck", "SpeedOfLight",
							 "what the kernel is bound by", check};
