/*
 * test_intervals.c - unions and sets of intervals against a bit for every moment, with random
 * intervals of a short time line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/intervals.h"
#include "base/choose.h"
#include "query/steps.h"
#include "query/work.h"
#include "../random.h"

enum { LENGTH = 300 };

static uint64_t random_state = RANDOM_SEED;

static unsigned draw_random(unsigned n)
{
	return (unsigned)((random_next(&random_state) >> 20) % n);
}

/* Some random intervals, as a set and as bits; `sorted` by start. */
static void make_spans(struct ws_spans *spans, bool *bit, unsigned n, bool sorted)
{
	uint64_t last = 0;

	memset(bit, 0, LENGTH);
	for (unsigned i = 0; i < n; i++) {
		uint64_t start = sorted ? last + draw_random(12) : draw_random(LENGTH),
			 end = start + draw_random(25);

		if (end > LENGTH)
			end = LENGTH;
		if (start > end)
			start = end;
		last = start;
		ws_spans_add(spans, start, end);
		for (uint64_t t = start; t < end; t++)
			bit[t] = true;
	}
}

static void check_set(const struct ws_spans *spans, const bool *want)
{
	bool got[LENGTH] = {false};

	for (size_t i = 0; i < spans->count; i++) {
		assert_true(spans->spans[i].start < spans->spans[i].end &&
			    spans->spans[i].end <= LENGTH);
		assert_true(!i || spans->spans[i - 1].end < spans->spans[i].start);
		for (uint64_t t = spans->spans[i].start; t < spans->spans[i].end; t++)
			got[t] = true;
	}
	assert_memory_equal(got, want, LENGTH);
}

static void test_sets(void **state)
{
	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct ws_spans left = {0}, right = {0}, either = {0}, only = {0};
		bool in_a[LENGTH], in_b[LENGTH], want[LENGTH];

		make_spans(&left, in_a, draw_random(20), round % 2);
		make_spans(&right, in_b, draw_random(20), round % 3 == 0);
		ws_spans_merge(&left);
		ws_spans_merge(&right);
		check_set(&left, in_a);
		ws_spans_union(&left, &right, &either);
		ws_spans_subtract(&left, &right, &only);
		for (int t = 0; t < LENGTH; t++)
			want[t] = in_a[t] || in_b[t];
		check_set(&either, want);
		for (int t = 0; t < LENGTH; t++)
			want[t] = in_a[t] && !in_b[t];
		check_set(&only, want);
		ws_spans_free(&left);
		ws_spans_free(&right);
		ws_spans_free(&either);
		ws_spans_free(&only);
	}
}

/* Work in order of start, of three classes, against bits. */
static void test_times(void **state)
{
	(void)state;
	for (int round = 0; round < 3000; round++) {
		bool in[3][LENGTH] = {{false}};
		struct ws_work_times times = {0};
		uint64_t start = 0, want[6] = {0};

		for (unsigned i = 0, n = draw_random(40); i < n; i++) {
			unsigned class = draw_random(3);
			uint64_t end;

			start += draw_random(9);
			end = start + draw_random(30) < LENGTH ? start + draw_random(30) : LENGTH;
			if (start >= LENGTH || end < start)
				break;
			end = ws_min(end, LENGTH);
			ws_work_times_add(&times, class, start, end);
			for (uint64_t k = start; k < end; k++)
				in[class][k] = true;
		}
		for (int k = 0; k < LENGTH; k++) {
			want[0] += in[WS_WORK_COMPUTE][k];
			want[1] += in[WS_WORK_COMM][k];
			want[2] += in[WS_WORK_MEMORY][k];
			want[3] += in[WS_WORK_COMM][k] && !in[WS_WORK_COMPUTE][k];
			want[4] += in[WS_WORK_MEMORY][k] && !in[WS_WORK_COMPUTE][k] &&
				   !in[WS_WORK_COMM][k];
			want[5] += in[WS_WORK_MEMORY][k] || in[WS_WORK_COMPUTE][k] ||
				   in[WS_WORK_COMM][k];
		}
		assert_int_equal(times.compute.length, want[0]);
		assert_int_equal(times.comm.length, want[1]);
		assert_int_equal(times.memory.length, want[2]);
		assert_int_equal(ws_work_measure_exposed_comm(&times), want[3]);
		assert_int_equal(ws_work_measure_exposed_memory(&times), want[4]);
		assert_int_equal(times.busy.length, want[5]);
	}
}

static void test_names(void **state)
{
	static const char *const steps[] = {"step",	   "Step 3",	 "ProfilerStep#12",
					    "iteration_7", "train step", "training_step:4",
					    "iter",	   "STEP-1"};
	static const char *const others[] = {"",	   "3",	      "steps",	     "my step",
					     "stepping 3", "forward", "step 3 of 4", "#4"};

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		assert_true(ws_is_step_name(steps[i], strlen(steps[i]), NULL));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(ws_is_step_name(others[i], strlen(others[i]), NULL));
	assert_true(ws_is_step_name("layer 3", 7, "layer"));
	assert_true(ws_is_step_name("layer 3", 7, "layer 3"));
	assert_false(ws_is_step_name("player 3", 8, "layer"));
	assert_false(ws_is_step_name("step", 4, "layer"));
	assert_true(ws_is_communication_kernel(
		"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"));
	assert_true(ws_is_communication_kernel("void ncclKernel_Broadcast()"));
	assert_false(ws_is_communication_kernel("ampere_sgemm_128x64_nn"));
	assert_false(ws_is_communication_kernel("my_nccl_like"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sets),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
