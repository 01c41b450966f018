/*
 * tail_waves.c - kernels whose last blocks run nearly alone.
 *
 * Blocks run in waves of as many as fit on the GPU. A last wave of few blocks takes as long as a
 * full one, and most of the GPU is idle meanwhile.
 */
#include "analyze/rules/rules.h"

#define LEAST_LOSS 0.2

static double measure_loss(double waves)
{
	uint64_t whole = (uint64_t)waves;
	double rounds = (double)whole;

	if (waves - rounds > 0.001)
		rounds++;
	return (rounds - waves) / rounds;
}

static void report_kernel(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel,
			  uint64_t on_path, struct ws_findings *findings)
{
	double loss = measure_loss(kernel->waves);
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_tail_waves, on_path,
				      (uint64_t)((double)on_path * loss));
	struct ws_text launch = {0};

	ws_put_launch(analysis, kernel, finding, &launch);
	finding->title = ws_format(
		"The blocks of the kernel %s make %.2f waves: in the last one %.0f %% of the GPU "
		"does nothing%s",
		ws_report_string(analysis->model->report, kernel->name, NULL), kernel->waves,
		100 * (1 - (kernel->waves - (double)(uint64_t)kernel->waves)),
		ws_text_or(launch.text, ""));
	ws_text_free(&launch);
	finding->advice = ws_strdup("Choose a grid that fills whole waves (a grid-stride loop over "
				    "as many blocks as fit at once), or smaller blocks, so that "
				    "the last wave costs less.");
	finding->assumption = ws_strdup("a wave takes the same time however full it is");
	ws_finding_add_evidence(finding, "its longest run", NULL, kernel->longest.start,
				kernel->longest.end);
}

static bool has_tail(const struct ws_kernel_fact *kernel)
{
	return kernel->waves > 1 && measure_loss(kernel->waves) >= LEAST_LOSS;
}

static void check_waves(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	ws_report_long_kernels(analysis, has_tail, report_kernel, findings);
}

const struct ws_rule ws_rule_tail_waves = {
	.name = "tail-waves",
	.title = "Kernels whose last blocks run nearly alone",
	.about = "The blocks of a kernel of more than 20 us on average make more than one wave, a "
		 "fifth of the places in its waves or more stay empty, and it takes 10 % of the "
		 "critical path or more. Not for kernels of libraries.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_waves,
};
