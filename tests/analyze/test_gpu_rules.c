/* test_gpu_rules.c - more rules on reports of made-up programs that use GPUs. */
#include "made_up_program.h"

/* ---- steps that nothing marks ---- */

/* Layers of one kind: no kernel occurs only once. */
static void step_of_like_layers(struct program *program, int number)
{
	(void)number;
	program->now += 50 * US;
	for (int layer = 0; layer < 3; layer++) {
		add_kernel(program, 0, "convolve", MS, full);
		add_kernel(program, 0, "add_bias", 20 * US, full);
		if (layer < 2)
			add_kernel(program, 0, "tanh", 30 * US, full);
	}
}

static void test_steps_of_like_layers(void **state)
{
	struct analysed analysed;

	(void)state;
	marked = false;
	analysed = analyse_program(step_of_like_layers);
	marked = true;
	assert_int_equal(analysed.analysis->model->step_source, WS_STEPS_REPEATED);
	/* The last begins one that does not end. */
	assert_in_range(analysed.analysis->steps, STEPS - 3, STEPS - 1);
	for (size_t i = 1; i < analysed.analysis->model->steps.count; i++) {
		const struct ws_step *step = &analysed.analysis->model->steps.steps[i];

		assert_in_range(step->end - step->start, 3 * MS, 4 * MS);
	}
	forget_program(&analysed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps_of_like_layers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
