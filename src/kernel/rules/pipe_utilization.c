/* pipe_utilization.c - the busiest pipe: nearly idle, or the limit. */
#include "kernel/rules/rule.h"

#define LITTLE 20.0
#define HIGH 60.0
#define LIMIT 80.0
#define PIPE(pipe) "sm__pipe_" pipe "_cycles_active.avg.pct_of_peak_sustained_active"
#define EXECUTED(pipe) "sm__inst_executed_pipe_" pipe ".avg.pct_of_peak_sustained_active"

static const struct pipe {
	const char *name, *metric, *work;
} pipes[] = {
	{"ALU", PIPE("alu"), "integers, logic, comparisons"},
	{"FMA", PIPE("fma"), "single precision and integer products"},
	{"FP64", PIPE("fp64"), "double precision"},
	{"tensor", PIPE("tensor"), "matrix products"},
	{"XU", EXECUTED("xu"), "roots, sines, exponentials, conversions"},
	{"LSU", EXECUTED("lsu"), "loads, stores, shuffles"},
	{"uniform", EXECUTED("uniform"), "what all threads of a warp share"},
	{"ADU", EXECUTED("adu"), "addresses of branches, constants"},
	{"TEX", EXECUTED("tex"), "textures"},
};

static const struct pipe *find_busiest(const struct ws_kernel_result *result)
{
	const struct pipe *found = NULL;
	double most = -1;

	for (size_t i = 0; i < WS_COUNT(pipes); i++) {
		double value = ws_kernel_get(result, pipes[i].metric);

		if (value > most) {
			most = value;
			found = &pipes[i];
		}
	}
	return found;
}

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	const struct pipe *pipe = find_busiest(result);
	struct ws_kernel_finding *finding;
	double busy;

	if (!pipe || isnan(ws_kernel_get(result, pipes[0].metric)))
		return;
	busy = ws_kernel_get(result, pipe->metric);
	/* When memory is the bottleneck, low pipe utilisation is expected. */
	if ((busy < LITTLE && ws_kernel_memory_share(result) * 100 >= HIGH) ||
	    (busy >= LITTLE && busy < HIGH))
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_pipe_utilization, WS_KERNEL_NOTE,
					NAN);
	if (busy < LITTLE)
		finding->title = ws_format("All pipes are nearly idle; the busiest, %s, works "
					   "%.1f %% of the time",
					   pipe->name, busy);
	else if (busy >= LIMIT)
		finding->title = ws_format("The %s pipe (%s) is the limit: it works %.1f %% of the "
					   "time",
					   pipe->name, pipe->work, busy);
	else
		finding->title = ws_format("The %s pipe (%s) is well used: it works %.1f %% of the "
					   "time",
					   pipe->name, pipe->work, busy);
	finding->advice = ws_strdup(busy < LITTLE ? "Look at warp states and occupancy for what "
						    "keeps warps from issuing."
						  : "Faster means fewer of its instructions, or "
						    "others that run on an idle pipe.");
	ws_kernel_prove(finding, result, pipe->name, pipe->metric);
}

const struct ws_kernel_rule ws_kernel_rule_pipe_utilization = {
	"HighPipeUtilization", "ComputeWorkloadAnalysis", "the busiest pipe", check};
