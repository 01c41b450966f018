/*
 * test_steps.c - which launches are found to begin steps, in sequences as programs make them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "inject/step_finder.h"

/* A program that launches, what it was asked for, and what a collection of that would hold. */
struct program {
	struct ws_step_finder finder;
	uint32_t last_wanted;
	bool collects, over;
	uint32_t collected, in_step; /* launches */
	uint32_t step;		     /* that the program is in, from 0 */
	uint32_t begun_in;	     /* when the collection began */
};

static struct program *start_program(uint32_t first, uint32_t last)
{
	struct program *program = ws_calloc(1, sizeof(*program));

	program->finder.wanted = first;
	program->last_wanted = last;
	return program;
}

static void launch(struct program *program, uint64_t kernel)
{
	struct ws_step_finder *finder = &program->finder;
	bool knows = finder->state == WS_FINDER_KNOWS;
	bool begins = ws_finder_add(finder, kernel * UINT64_C(0x9E3779B97F4A7C15) | 1);

	if (begins && knows && !program->collects && !program->over &&
	    finder->number == finder->wanted) {
		program->collects = true;
		program->begun_in = program->step;
	} else if (begins && program->collects && finder->number > program->last_wanted) {
		program->collects = false;
		program->over = true;
	}
	program->collected += program->collects;
}

static void launch_all(struct program *program, uint64_t kernel, int count)
{
	for (int i = 0; i < count; i++)
		launch(program, kernel + (uint64_t)i);
}

static void launch_layers(struct program *program, uint64_t kernel, int kernels, int layers)
{
	for (int i = 0; i < layers; i++)
		launch_all(program, kernel, kernels);
}

/* Collected is exactly from the step `first` of the program on, `steps` steps of `launches`. */
static void check_collected(struct program *program, uint32_t first, uint32_t steps,
			    uint32_t launches)
{
	assert_int_equal(program->begun_in, first);
	assert_int_equal(program->collected, steps * launches);
	assert_true(program->over);
	free(program);
}

static void check_refused(struct program *program, enum ws_finder_state state)
{
	assert_int_equal(program->finder.state, state);
	assert_int_equal(program->collected, 0);
	free(program);
}

/* ---- training ---- */

enum { LOSS = 1000, OPTIMIZER = 2000, WARM_UP = 3000, EVALUATION = 4000 };

static void run_micro_step(struct program *program, int forward, int backward, int layers)
{
	launch(program, LOSS + 1);
	launch_layers(program, 10, forward, layers);
	launch_all(program, LOSS + 2, 2);
	launch_layers(program, 100, backward, layers);
}

/* As one of PyTorch: the optimizer makes its state in the first step. */
static void train(struct program *program, int forward, int backward, int layers, uint32_t steps)
{
	for (program->step = 0; program->step < steps; program->step++) {
		run_micro_step(program, forward, backward, layers);
		if (!program->step)
			launch_layers(program, OPTIMIZER + 50, 1, 2 * layers);
		launch_all(program, OPTIMIZER, 12);
	}
}

static void test_mlp(void **state)
{
	struct program *program = start_program(20, 29);

	(void)state;
	train(program, 2, 4, 6, 60);
	check_collected(program, 20, 10, 3 + 12 + 24 + 12);
}

/* Two kernels that layers and the loss have in common, none that comes first in a step alone. */
static void test_mlp_with_shared_kernels(void **state)
{
	struct program *program = start_program(20, 29);

	(void)state;
	for (program->step = 0; program->step < 60; program->step++) {
		for (int i = 0; i < 6; i++)
			launch_all(program, 10, 2);
		launch_all(program, LOSS, 2);
		for (int i = 0; i < 6; i++) {
			launch_all(program, 11, 2);
			launch(program, 10);
			launch(program, 10);
		}
		launch_layers(program, OPTIMIZER, 1, 10);
		launch_all(program, OPTIMIZER + 1, 2);
	}
	check_collected(program, 20, 10, 12 + 2 + 24 + 12);
}

static void test_transformers(void **state)
{
	static const int layers[] = {32, 48, 96};

	(void)state;
	for (int i = 0; i < 3; i++)
		for (uint32_t first = 20; first < 60; first += 18) {
			struct program *program = start_program(first, first + 1);

			train(program, 11, 23, layers[i], 70);
			check_collected(program, first, 2, (uint32_t)layers[i] * 34 + 15);
		}
}

/* A layer launches a kernel some times in a row: too small a loop to make the layer a step. */
static void test_small_loops_in_layers(void **state)
{
	struct program *program = start_program(20, 21);

	(void)state;
	for (program->step = 0; program->step < 40; program->step++) {
		launch(program, LOSS);
		for (int i = 0; i < 32; i++) {
			launch_all(program, 10, 9);
			launch_layers(program, 30, 1, 4);
		}
		launch_all(program, OPTIMIZER, 5);
	}
	check_collected(program, 20, 2, 1 + 32 * 13 + 5);
}

/* The step is what ends with the optimizer, not one of the micro-steps. */
static void test_accumulation(void **state)
{
	static const int micro_steps[] = {2, 4, 10};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct program *program = start_program(20, 24);

		for (program->step = 0; program->step < 40; program->step++) {
			for (int j = 0; j < micro_steps[i]; j++)
				run_micro_step(program, 3, 5, 6);
			launch_all(program, OPTIMIZER, 12);
		}
		check_collected(program, 20, 5, (uint32_t)micro_steps[i] * 51 + 12);
	}
}

static void test_warm_up(void **state)
{
	struct program *program = start_program(30, 31);

	(void)state;
	launch_layers(program, WARM_UP, 1, 900); /* weights */
	launch_layers(program, WARM_UP + 1, 2, 90);
	launch_all(program, WARM_UP + 3, 40);
	train(program, 2, 4, 6, 60);
	check_collected(program, 30, 2, 51);
}

static void test_evaluation(void **state)
{
	static const uint32_t wanted[] = {20, 99, 150, 250};

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct program *program = start_program(wanted[i], wanted[i]);

		for (uint32_t step = 0; step < 400; step++) {
			program->step = step;
			run_micro_step(program, 2, 4, 6);
			launch_all(program, OPTIMIZER, 12);
			if (step % 100 == 99 && step != wanted[i])
				launch_layers(program, EVALUATION, 3, 50);
		}
		check_collected(program, wanted[i], 1, 51);
	}
}

/* ---- loops without loops inside ---- */

static void test_simple_loops(void **state)
{
	static const struct {
		int kernels;
		uint32_t first;
	} loops[] = {{1, 1200}, {3, 400}, {100, 150}};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct program *program = start_program(loops[i].first, loops[i].first + 9);

		for (program->step = 0; program->step < 1300; program->step++)
			launch_all(program, 10, loops[i].kernels);
		check_collected(program, loops[i].first, 10, (uint32_t)loops[i].kernels);
	}
}

/* Sixty rounds may as well be layers. */
static void test_short_loop_is_refused(void **state)
{
	struct program *program = start_program(20, 29);

	(void)state;
	launch_layers(program, 10, 5, 60);
	check_refused(program, WS_FINDER_UNSURE);
}

static void test_wanted_is_past(void **state)
{
	struct program *program = start_program(2, 3);

	(void)state;
	train(program, 2, 4, 6, 60);
	assert_false(program->finder.final);
	assert_int_equal(program->finder.period, 51);
	check_refused(program, WS_FINDER_LATE);
}

static void test_wanted_does_not_come(void **state)
{
	struct program *program = start_program(200, 200);

	(void)state;
	train(program, 2, 4, 6, 60);
	assert_int_equal(program->finder.number, 59);
	check_refused(program, WS_FINDER_COUNTS);
}

/* One of two kernels, by chance: no sequence comes again as it was. */
static void test_varying_kernel_is_refused(void **state)
{
	struct program *program = start_program(20, 29);
	uint32_t random = 12345;

	(void)state;
	for (program->step = 0; program->step < 200; program->step++) {
		random = random * 1103515245 + 12345;
		run_micro_step(program, 2, 4, 6);
		launch(program, WARM_UP + (random >> 16 & 1));
		launch_all(program, OPTIMIZER, 12);
	}
	assert_true(program->finder.state != WS_FINDER_KNOWS);
	assert_int_equal(program->collected, 0);
	free(program);
}

/* More kernels than are distinguished, and steps longer than what is remembered. */
static void test_limits(void **state)
{
	struct program *program = start_program(20, 29);

	(void)state;
	for (int i = 0; i < 6; i++)
		launch_all(program, 10, 30000);
	assert_int_equal(program->finder.period, 0);
	check_refused(program, WS_FINDER_SEARCHES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mlp),
		cmocka_unit_test(test_mlp_with_shared_kernels),
		cmocka_unit_test(test_transformers),
		cmocka_unit_test(test_small_loops_in_layers),
		cmocka_unit_test(test_accumulation),
		cmocka_unit_test(test_warm_up),
		cmocka_unit_test(test_evaluation),
		cmocka_unit_test(test_simple_loops),
		cmocka_unit_test(test_short_loop_is_refused),
		cmocka_unit_test(test_wanted_is_past),
		cmocka_unit_test(test_wanted_does_not_come),
		cmocka_unit_test(test_varying_kernel_is_refused),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests_name("steps by launches", tests, NULL, NULL);
}
