/* partial_warps.c - blocks whose threads do not fill their last warp. */
#include "kernel/rules/rule.h"

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double threads = ws_kernel_get(result, "launch__block_size"), warps, left;
	struct ws_kernel_finding *finding;

	if (isnan(threads) || !threads)
		return;
	left = fmod(threads, 32);
	warps = ceil(threads / 32);
	if (!left)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_partial_warps, WS_KERNEL_CAUSE,
					(1 - left / 32) / warps);
	finding->title = ws_format("Blocks of %.0f threads fill only %.0f of 32 lanes of their "
				   "last warp",
				   threads, left);
	finding->advice = ws_strdup("Make the block a multiple of 32 threads.");
	finding->assumption = ws_strdup("lanes that have no thread cost as much as the others");
	ws_kernel_prove(finding, result, "threads of a block", "launch__block_size");
}

const struct ws_kernel_rule ws_kernel_rule_partial_warps = {
	"LaunchConfiguration", "LaunchStats", "blocks that are no multiple of 32 threads", check};
