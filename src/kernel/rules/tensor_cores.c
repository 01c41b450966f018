/*
 * tensor_cores.c - a matrix product on the FMA pipe while the tensor cores are idle.
 *
 * A kernel counts as a matrix product if much of its FFMA is fed from shared memory, or if its name
 * says so.
 */
#include "kernel/rules/rule.h"

#define BUSY 50.0
#define IDLE 1.0
#define FMA "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"
#define TENSOR "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
#define FFMA "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
#define SHARED_LOADS "smsp__sass_inst_executed_op_shared_ld.sum"

static bool is_named_product(const char *name)
{
	static const char *const words[] = {"gemm",   "matmul", "conv", "Gemm",
					    "MatMul", "Conv",	"xmma", "dot"};

	for (size_t i = 0; i < WS_COUNT(words); i++)
		if (strstr(name, words[i]))
			return true;
	return false;
}

/* More than one load of shared memory per 20 FFMA, and FFMA more than 30 % of all instructions. */
static bool looks_like_product(const struct ws_kernel_result *result)
{
	double ffma = ws_kernel_get(result, FFMA) / 32, loads = ws_kernel_get(result, SHARED_LOADS),
	       all = ws_kernel_get(result, "smsp__inst_executed.sum");

	return loads > 0.05 * ffma && ffma > 0.3 * all;
}

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double fma = ws_kernel_get(result, FMA), tensor = ws_kernel_get(result, TENSOR),
	       memory = ws_kernel_memory_share(result), estimate;
	struct ws_kernel_finding *finding;

	if (!(fma >= BUSY) || !(tensor < IDLE))
		return;
	if (!is_named_product(result->name) && !looks_like_product(result))
		return;
	estimate = 1 - fmax(isnan(memory) ? 0 : memory, 0.25);
	if (estimate < WS_KERNEL_LEAST_GAIN)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_tensor_cores, WS_KERNEL_CAUSE,
					estimate);
	finding->title = ws_strdup("What looks like a matrix product runs on the FMA pipe; the "
				   "tensor cores are idle");
	finding->advice = ws_strdup("Allow TF32 (torch.backends.cuda.matmul.allow_tf32, "
				    "CUBLAS_TF32_TENSOR_OP_MATH) or use FP16 or BF16; in kernels "
				    "of your own: WMMA, CUTLASS, Triton's tl.dot.");
	finding->assumption = ws_strdup("tensor cores multiply four times as fast or more, and "
					"memory then is the limit");
	ws_kernel_prove(finding, result, "FMA pipe", FMA);
	ws_kernel_prove(finding, result, "tensor pipe", TENSOR);
	ws_kernel_prove(finding, result, "FFMA of threads", FFMA);
}

const struct ws_kernel_rule ws_kernel_rule_tensor_cores = {"TensorCoresIdle",
							   "ComputeWorkloadAnalysis",
							   "matrix products without tensor cores",
							   check};
