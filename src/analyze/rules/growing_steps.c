/*
 * growing_steps.c - steps that take longer and longer, because a program keeps adding to its work.
 *
 * In training it is a graph of automatic differentiation that is never let go: a hidden state that
 * is not detached, losses that are summed up as tensors, retain_graph.
 */
#include "analyze/rules/rules.h"

enum { LEAST_STEPS = 12 };
#define GROWTH 1.5 /* of the median step, from the first third to the last */
#define STEADY_SHARE \
	0.9 /* share of steps that take longer than the one a third of the run before */

/* A third of the steps. */
struct third {
	uint64_t median;  /* ns of a step */
	uint64_t kernels; /* a step */
};

static int compare_times(const void *first, const void *second)
{
	return ws_compare(*(const uint64_t *)first, *(const uint64_t *)second);
}

static uint64_t count_work(const struct ws_model *model, uint64_t from, uint64_t to)
{
	uint64_t count = 0;

	for (size_t i = 0; i < model->work.gpus; i++) {
		const struct ws_work_gpu *gpu = &model->work.gpu[i];

		count += ws_model_find_op_after(gpu, to) - ws_model_find_op_after(gpu, from);
	}
	return count;
}

static struct third measure_third(const struct ws_model *model, const struct ws_step *steps,
				  size_t count)
{
	uint64_t *times = ws_malloc(count * sizeof(*times));
	struct third third;

	for (size_t i = 0; i < count; i++)
		times[i] = steps[i].end - steps[i].start;
	qsort(times, count, sizeof(*times), compare_times);
	third.median = times[count / 2];
	third.kernels = count_work(model, steps[0].start, steps[count - 1].end) / count;
	free(times);
	return third;
}

static bool is_steady(const struct ws_step *steps, size_t count)
{
	size_t apart = count / 3, longer = 0;

	for (size_t i = apart; i < count; i++)
		longer += steps[i].end - steps[i].start >
			  steps[i - apart].end - steps[i - apart].start;
	return (double)longer >= STEADY_SHARE * (double)(count - apart);
}

static uint64_t sum_growth(const struct ws_step *steps, size_t count, uint64_t usual)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += steps[i].end - steps[i].start - ws_min(usual, steps[i].end - steps[i].start);
	return sum;
}

static void check_growth(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	size_t count = ws_model_count_steps(model);
	const struct ws_step *steps = model->steps.steps + model->first_step;
	struct third first, last;
	struct ws_finding *finding;
	struct ws_text before = {0}, after = {0};
	uint64_t growth;
	bool more;

	if (model->step_source == WS_STEPS_NONE || count < LEAST_STEPS || !is_steady(steps, count))
		return;
	first = measure_third(model, steps, count / 3);
	last = measure_third(model, steps + count - count / 3, count / 3);
	if ((double)last.median < GROWTH * (double)first.median)
		return;
	growth = ws_min(sum_growth(steps, count, first.median), analysis->window);
	more = last.kernels > first.kernels + first.kernels / 4;
	ws_put_rounded_time(&before, first.median);
	ws_put_rounded_time(&after, last.median);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_growing_steps, growth, growth);
	/* With the same operations on more and more data, growing may be what the program is for.
	 */
	if (!more)
		finding->level = WS_LEVEL_NOTE;
	finding->title = ws_format(
		"Steps take longer and longer: %s in the first third, %s in the last, with %llu "
		"operations on the GPU a step at first and %llu at the end",
		before.text, after.text, (unsigned long long)first.kernels,
		(unsigned long long)last.kernels);
	finding->advice = ws_strdup(
		more ? "Something is kept from step to step and worked on again: detach hidden "
		       "states, sum up losses as numbers (loss.item(), or loss.detach()), leave "
		       "out retain_graph=True, empty lists."
		     : "Each step works on more data, or looks through more: tensors that are "
		       "joined again and again (torch.cat), lists that only grow.");
	finding->assumption = ws_strdup("steps stay as short as the first");
	ws_finding_add_evidence(finding, "the last step", NULL, steps[count - 1].start,
				steps[count - 1].end);
	ws_text_free(&before);
	ws_text_free(&after);
}

const struct ws_rule ws_rule_growing_steps = {
	.name = "growing-steps",
	.title = "Steps that take longer and longer",
	.about = "Of twelve steps or more, nine in ten take longer than the one a third of the run "
		 "before, and the median step of the last third takes 1.5 times that of the first. "
		 "A note where the number of operations on the GPU stays the same: then it is the "
		 "data that grow.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_growth,
};
