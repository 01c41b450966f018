/* warp_stalls.c - the reason for which warps wait, when it takes much of the time between two
 * instructions. */
#include "kernel/rules/rule.h"

#define ENOUGH_ISSUES 0.8
#define MUCH 0.3
#define ISSUE "smsp__issue_active.avg.per_cycle_active"
#define LATENCY "smsp__average_warp_latency_per_inst_issued.ratio"
#define STALL(reason) "smsp__average_warps_issue_stalled_" reason "_per_issue_active.ratio"

static const struct stall {
	const char *metric, *what, *advice;
} stalls[] = {
	{STALL("barrier"), "the other warps of the block at a barrier",
	 "Smaller blocks, fewer barriers, and equal work between them make the wait shorter."},
	{STALL("branch_resolving"), "the target of a branch",
	 "Fewer branches: unroll loops, use predication, move tests out of loops."},
	{STALL("dispatch_stall"), "the dispatcher, which holds instructions back",
	 "Many uses of the same register banks or pipes at once cause it; change their order."},
	{STALL("drain"), "stores to memory to be done at the end of the kernel",
	 "Coalesce the last stores and write less at the end."},
	{STALL("gmma"), "a matrix product of the warp group",
	 "Issue more of them before waiting: deeper pipelines, more stages, larger tiles."},
	{STALL("warpgroup_arrive"), "the other warps of the warp group",
	 "Give the warps of a group equal work before they meet."},
	{STALL("imc_miss"), "the cache of constants",
	 "Let the threads of a warp read the same constant, and keep constants close together."},
	{STALL("lg_throttle"), "room in the queue for local and global memory",
	 "Fewer, wider accesses: vector types (float4), less spilling."},
	{STALL("long_scoreboard"), "data from local, global, surface or texture memory",
	 "Coalesce accesses, keep what is used again in shared memory or registers, load early "
	 "and do other work meanwhile, or have more warps."},
	{STALL("math_pipe_throttle"), "a busy arithmetic pipe",
	 "Use instructions of other pipes as well; warps of one kind compete for one pipe."},
	{STALL("membar"), "a memory barrier",
	 "Fewer fences, of a smaller scope, with less to flush."},
	{STALL("mio_throttle"), "room in the queue for shared memory and special functions",
	 "Fewer, wider accesses to shared memory; spread special functions and shuffles."},
	{STALL("misc"), "rare reasons", "Nothing in particular can be said."},
	{STALL("no_instruction"), "instructions that are not in the cache yet",
	 "Shorter code: less unrolling and inlining; jumps over large distances cost it, too."},
	{STALL("short_scoreboard"), "shared memory, special functions or shuffles",
	 "Resolve bank conflicts, use fewer special functions, do other work between the load "
	 "and its use."},
	{STALL("sleeping"), "the end of a sleep", "Fewer or shorter __nanosleep() calls."},
	{STALL("tex_throttle"), "room in the queue for textures",
	 "Fewer texture, surface and narrow accesses; read plain global memory instead."},
	{STALL("wait"), "the fixed latency of the instruction before",
	 "More independent instructions in a thread, or more warps, hide it."},
};

const char *ws_kernel_stall_words(const char *reason)
{
	static const char begins[] = "smsp__average_warps_issue_stalled_";

	for (size_t i = 0; i < WS_COUNT(stalls); i++) {
		const char *own = stalls[i].metric + strlen(begins);
		size_t n = strlen(own) - strlen("_per_issue_active.ratio");

		/* Counters and samples spell one of them differently: no_instruction(s). */
		if (!strncmp(own, reason, n) && (!reason[n] || !strcmp(reason + n, "s")))
			return stalls[i].what;
	}
	if (!strcmp(reason, "not_selected"))
		return "their turn, while another warp is chosen";
	return NULL;
}

static void report(const struct ws_kernel_result *result, const struct stall *stall, double share,
		   struct ws_kernel_findings *findings)
{
	double estimate = fmin(ws_kernel_headroom(result), share);
	struct ws_kernel_finding *finding;

	if (estimate < WS_KERNEL_LEAST_GAIN)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_warp_stalls, WS_KERNEL_SYMPTOM,
					estimate);
	finding->title = ws_format("Warps spend %.0f %% of their time waiting for %s", 100 * share,
				   stall->what);
	finding->advice = ws_strdup(stall->advice);
	finding->assumption = ws_strdup("the wait goes away, up to the peak of the busiest unit");
	ws_kernel_prove(finding, result, "cycles of this wait an instruction", stall->metric);
	ws_kernel_prove(finding, result, "cycles between two instructions", LATENCY);
	ws_kernel_prove(finding, result, "instructions issued a cycle", ISSUE);
}

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double issue = ws_kernel_get(result, ISSUE), latency = ws_kernel_get(result, LATENCY);

	/* When schedulers find enough to issue, waits cost nothing. */
	if (isnan(issue) || isnan(latency) || issue >= ENOUGH_ISSUES || latency <= 0)
		return;
	for (size_t i = 0; i < WS_COUNT(stalls); i++) {
		double share = ws_kernel_get(result, stalls[i].metric) / latency;

		if (share > MUCH)
			report(result, &stalls[i], share, findings);
	}
}

const struct ws_kernel_rule ws_kernel_rule_warp_stalls = {"CPIStall", "WarpStateStats",
							  "what warps wait for", check};
