/* tensor_cores.c - matrix products that do not use the tensor cores. A note: using them changes the
 * precision of results, which the user must decide. */
#include <math.h>

#include "analyze/rules/rules.h"

#define ENOUGH_OWN 0.5	 /* share of a kernel's samples that is needed to trust them */
#define UNUSED_PERCENT 2 /* a lower Tensor Active means that they are not used */
#define TENSOR_GAIN 0.8	 /* share of the time saved: TF32 or BF16 is at least five times as fast */

enum { MOST_PRODUCTS = 64 };

static bool is_plain_product(const char *name)
{
	if (strstr(name, "tensorop") || strstr(name, "tf32") || strstr(name, "bf16") ||
	    strstr(name, "h16816") || strstr(name, "s16816") || strstr(name, "hmma") ||
	    strstr(name, "nvjet"))
		return false;
	return strstr(name, "sgemm") || strstr(name, "_ffma_") || strstr(name, "simt") ||
	       strstr(name, "scudnn") || strstr(name, "gemm_f32f32_f32f32");
}

static bool is_product(const char *name)
{
	return strstr(name, "gemm") || strstr(name, "matmul") || strstr(name, "cutlass") ||
	       strstr(name, "nvjet") || strstr(name, "xmma");
}

/* Judged by measurements where there are any, otherwise by the names. */
static bool leaves_tensor_cores(const struct ws_analysis *analysis, size_t i)
{
	const struct ws_kernel_fact *kernel = &analysis->facts.kernels[i];
	const struct ws_measured_kernel *measured = &analysis->measured.kernels[i];
	const char *name = ws_report_string(analysis->model->report, kernel->name, NULL),
		   *full = ws_report_string(analysis->model->report, kernel->demangled, NULL);
	bool plain = is_plain_product(name) || is_plain_product(full);

	if (measured->own_share < ENOUGH_OWN || isnan(measured->means[WS_GPU_TENSOR]))
		return plain;
	if (measured->means[WS_GPU_TENSOR] >= UNUSED_PERCENT)
		return false;
	return plain || is_product(name) || is_product(full);
}

/* Tensor cores came with compute capability 7.0, for half precision; TF32 and BF16 with 8.0. */
enum { FIRST_TENSOR_CORES = 70, FIRST_TF32 = 80 };

static const char *choose_advice(const struct ws_analysis *analysis)
{
	if (analysis->facts.capability && analysis->facts.capability < FIRST_TF32)
		return "Use mixed precision (torch.autocast with float16 and torch.amp.GradScaler; "
		       "this GPU has neither TF32 nor bfloat16), if the results stay good enough.";
	return "Allow TF32 (torch.set_float32_matmul_precision('high')) or use mixed precision "
	       "(torch.autocast with bfloat16), if the results stay good enough.";
}

static void check_products(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_report *report = analysis->model->report;
	const struct ws_kernel_fact *longest = NULL;
	uint32_t names[MOST_PRODUCTS];
	struct ws_kernel_cost cost = {.names = names, .factor = 1 - TENSOR_GAIN};
	struct ws_finding *finding;
	struct ws_text launch = {0};
	uint64_t plain = 0, gain;

	for (size_t i = 0; i < analysis->facts.kernel_count; i++) {
		const struct ws_kernel_fact *kernel = &analysis->facts.kernels[i];

		if (!leaves_tensor_cores(analysis, i))
			continue;
		plain += ws_sum_path_kernel(analysis, kernel->name);
		if (cost.count < MOST_PRODUCTS)
			names[cost.count++] = kernel->name;
		if (!longest)
			longest = kernel;
	}
	if (!longest || ws_analysis_share(analysis, plain) < 0.1 ||
	    (analysis->facts.capability && analysis->facts.capability < FIRST_TENSOR_CORES))
		return;
	gain = ws_estimate_bound(analysis, (uint64_t)((double)plain * TENSOR_GAIN),
				 ws_cost_of_kernels, &cost);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_tensor_cores, plain, gain);
	finding->level = WS_LEVEL_NOTE;
	ws_put_launch(analysis, longest, finding, &launch);
	finding->title = ws_format("Matrix products leave the tensor cores "
				   "unused: %.0f %% of the time, mostly %.80s%s",
				   100 * ws_analysis_share(analysis, plain),
				   ws_report_string(report, longest->name, NULL),
				   ws_text_or(launch.text, ""));
	ws_text_free(&launch);
	finding->advice = ws_strdup(choose_advice(analysis));
	finding->assumption = ws_strdup("tensor cores do the same product five times as fast");
	ws_finding_add_evidence(finding, "the longest of them", NULL, longest->longest.start,
				longest->longest.end);
}

const struct ws_rule ws_rule_tensor_cores = {
	.name = "tensor-cores",
	.title = "Matrix products without tensor cores",
	.about = "Kernels of matrix products or convolutions in plain single precision, by their "
		 "names or, where GPU metrics were sampled, with Tensor Active below 2 %, take 10 "
		 "% of the critical path or more. Never more than a note: the "
		 "precision of results changes.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_products,
};
