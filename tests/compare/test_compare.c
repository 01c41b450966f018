/* test_compare.c - comparisons of made-up runs on noisy machines: what is a change and what not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "compare/compare.h"
#include "compare/gate.h"
#include "compare/print.h"
#include "made_run.h"

static void add_made_run(struct ws_comparison *comparison, size_t side, const struct made_run *run)
{
	char path[64];
	struct ws_report *report;
	struct ws_err err = {""};

	snprintf(path, sizeof(path), "test_compare.%d.wsrep", (int)getpid());
	assert_int_equal(make_run(path, run, &err), 0);
	report = ws_report_open_plain(path, &err);
	assert_non_null(report);
	if (ws_comparison_add(comparison, side, report, path, &err))
		fail_msg("%s", err.msg);
	ws_report_close(report);
	unlink(path);
}

static void compare_made(struct ws_comparison *comparison, const struct made_run *base,
			 const struct made_run *fresh)
{
	const struct ws_comparison_options options = {0};
	struct ws_err err = {""};

	ws_comparison_begin(comparison, &options);
	add_made_run(comparison, 0, base);
	add_made_run(comparison, 1, fresh);
	if (ws_comparison_finish(comparison, &err))
		fail_msg("%s", err.msg);
}

static const struct ws_change *find_change(const struct ws_comparison *comparison,
					   enum ws_item_kind kind, const char *name)
{
	for (size_t i = 0; i < comparison->count; i++)
		if (comparison->changes[i].kind == kind &&
		    !strcmp(comparison->changes[i].name, name))
			return &comparison->changes[i];
	fail_msg("there is no %s", name);
	return NULL;
}

static bool is_changed(const struct ws_comparison *comparison)
{
	return comparison->changed || comparison->step.verdict != WS_CHANGE_SAME ||
	       comparison->own.verdict != WS_CHANGE_SAME;
}

/* What explains the change adds up to it, to the nanosecond. */
static void check_sums(const struct ws_explanation *explanation)
{
	for (size_t side = 0; side < WS_SIDES; side++) {
		int64_t rows = 0, causes = 0;

		for (size_t i = 0; i < explanation->count; i++)
			rows += explanation->rows[i].ns[side];
		for (size_t i = 0; i < explanation->cause_count; i++)
			causes += explanation->causes[i].ns[side];
		assert_int_equal(rows, explanation->total[side]);
		assert_int_equal(causes, explanation->total[side]);
	}
}

static void check_explanations(const struct ws_comparison *comparison)
{
	check_sums(&comparison->path);
	for (size_t side = 0; side < WS_SIDES; side++)
		assert_int_equal(comparison->path.total[side],
				 comparison->runs[side].window / comparison->runs[side].steps);
	for (size_t i = 0; i < comparison->gpu_count; i++) {
		check_sums(&comparison->gpus[i]);
		assert_int_equal(comparison->gpus[i].total[1], comparison->path.total[1]);
	}
}

/* Runs of the same program: nineteen of twenty are not changed. */
static void test_same_code(void **state)
{
	enum { TRIES = 40 };
	int changed = 0;

	(void)state;
	for (uint64_t i = 0; i < TRIES; i++) {
		struct ws_comparison comparison;

		compare_made(&comparison, &(struct made_run){.seed = 2 * i + 1},
			     &(struct made_run){.seed = 2 * i + 2, .steps = 90 + (uint32_t)i % 20});
		check_explanations(&comparison);
		changed += is_changed(&comparison);
		ws_comparison_free(&comparison);
	}
	assert_true(changed <= TRIES / 20);
}

/* The same for the kernels of a program that has too few to know what the machine did to all. */
static void test_same_few_kernels(void **state)
{
	enum { TRIES = 40 };
	int changed = 0;

	(void)state;
	for (uint64_t i = 0; i < TRIES; i++) {
		uint32_t kernels = 2 + (uint32_t)i % 3;
		struct ws_comparison comparison;

		compare_made(&comparison,
			     &(struct made_run){.seed = 5000 + 2 * i, .kernels = kernels},
			     &(struct made_run){.seed = 5001 + 2 * i, .kernels = kernels});
		for (size_t k = 0; k < comparison.count; k++)
			changed += comparison.changes[k].kind == WS_ITEM_KERNEL &&
				   comparison.changes[k].verdict != WS_CHANGE_SAME;
		ws_comparison_free(&comparison);
	}
	assert_true(changed <= TRIES / 20);
}

/* One call of 10 us a step, which differs by 30 % from run to run: that is no change of the
 * program, unless it takes several times as long. */
static void test_short_calls(void **state)
{
	enum { TRIES = 40 };
	const char *name = "cudaMemcpyAsync_v3020";
	int changed = 0, found = 0;

	(void)state;
	for (uint64_t i = 0; i < TRIES; i++) {
		struct made_run base = {
			.seed = 8000 + 2 * i, .kernels = 3, .copy_call = 10e3, .call_noise = 0.3};
		struct made_run fresh = base;
		struct ws_comparison comparison;

		fresh.seed++;
		compare_made(&comparison, &base, &fresh);
		changed += find_change(&comparison, WS_ITEM_API, name)->verdict != WS_CHANGE_SAME;
		ws_comparison_free(&comparison);
		fresh.copy_call = 60e3;
		compare_made(&comparison, &base, &fresh);
		found += find_change(&comparison, WS_ITEM_API, name)->verdict == WS_CHANGE_SLOWER;
		ws_comparison_free(&comparison);
	}
	assert_true(changed <= TRIES / 20);
	assert_true(found >= TRIES * 9 / 10);
}

/* One of two to four kernels takes 5 % longer: the others are the controls. */
static void test_planted_among_few(void **state)
{
	enum { TRIES = 24 };
	int found = 0, others = 0;

	(void)state;
	for (uint64_t i = 0; i < TRIES; i++) {
		uint32_t kernels = 2 + (uint32_t)i % 3;
		struct ws_comparison comparison;

		compare_made(&comparison,
			     &(struct made_run){.seed = 7000 + 2 * i, .kernels = kernels},
			     &(struct made_run){.seed = 7001 + 2 * i,
						.kernels = kernels,
						.kernel = 1,
						.slower = 0.05});
		found += find_change(&comparison, WS_ITEM_KERNEL, "kernel_b")->verdict ==
			 WS_CHANGE_SLOWER;
		others += comparison.changed > 1;
		ws_comparison_free(&comparison);
	}
	assert_true(found >= TRIES / 2);
	assert_true(others <= TRIES / 8);
}

/* One kernel takes 5 % longer: that is found, and nothing else, also where one run has fewer
 * steps than the other. */
static void test_planted_slowdown(void **state)
{
	enum { TRIES = 2 * MADE_KERNELS };
	int found = 0, others = 0;

	(void)state;
	for (uint64_t i = 0; i < TRIES; i++) {
		char name[] = "kernel_a";
		struct ws_comparison comparison;

		name[strlen(name) - 1] += (char)(i % MADE_KERNELS);
		compare_made(&comparison, &(struct made_run){.seed = 1000 + i},
			     &(struct made_run){.seed = 2000 + i,
						.steps = 80 + 3 * (uint32_t)(i % 14),
						.kernel = (uint32_t)i % MADE_KERNELS,
						.slower = 0.05});
		if (find_change(&comparison, WS_ITEM_KERNEL, name)->verdict == WS_CHANGE_SLOWER)
			found++;
		else
			print_message("# %s of try %d is not found\n", name, (int)i);
		others += comparison.changed > 1;
		ws_comparison_free(&comparison);
	}
	assert_true(found >= TRIES * 9 / 10);
	assert_true(others <= TRIES / 8);
}

/* What every kernel does alike may be the machine, but not when it is as much as this. */
static void test_everything_slower(void **state)
{
	struct ws_comparison comparison;

	(void)state;
	compare_made(&comparison, &(struct made_run){.seed = 5},
		     &(struct made_run){.seed = 6, .all_slower = 0.2});
	assert_int_equal(comparison.step.verdict, WS_CHANGE_SLOWER);
	assert_true(comparison.changed >= MADE_KERNELS);
	assert_true(comparison.step.low < 0.2 && comparison.step.high > 0.17);
	ws_comparison_free(&comparison);
}

/* A loop that runs ahead of its GPU has the pace of the GPU, and so do its steps. */
static void test_running_ahead(void **state)
{
	struct ws_comparison comparison;

	(void)state;
	compare_made(&comparison, &(struct made_run){.seed = 15, .ahead = true},
		     &(struct made_run){.seed = 16, .ahead = true, .kernel = 11, .slower = 0.5});
	assert_int_equal(comparison.step.verdict, WS_CHANGE_SLOWER);
	assert_true(comparison.step.change > 0.05 && comparison.step.change < 0.12);
	assert_true(comparison.step.high - comparison.step.low < 0.1);
	assert_int_equal(find_change(&comparison, WS_ITEM_KERNEL, "kernel_l")->verdict,
			 WS_CHANGE_SLOWER);
	assert_int_equal(comparison.changed, 1);
	check_explanations(&comparison);
	ws_comparison_free(&comparison);
}

/* With few steps instances are held against each other in their order. */
static void test_few_steps(void **state)
{
	struct ws_comparison comparison;

	(void)state;
	compare_made(&comparison, &(struct made_run){.seed = 17, .steps = 5},
		     &(struct made_run){.seed = 18, .steps = 5, .kernel = 10, .slower = 0.1});
	assert_true(comparison.in_slices);
	assert_int_equal(find_change(&comparison, WS_ITEM_KERNEL, "kernel_k")->verdict,
			 WS_CHANGE_SLOWER);
	assert_int_equal(comparison.changed, 1);
	check_explanations(&comparison);
	ws_comparison_free(&comparison);
}

static void test_new_and_gone(void **state)
{
	struct ws_comparison comparison;

	(void)state;
	compare_made(&comparison, &(struct made_run){.seed = 7},
		     &(struct made_run){.seed = 8, .without_last = true});
	assert_int_equal(find_change(&comparison, WS_ITEM_KERNEL, "kernel_l")->verdict,
			 WS_CHANGE_GONE);
	assert_int_equal(comparison.step.verdict, WS_CHANGE_FASTER);
	check_explanations(&comparison);
	ws_comparison_free(&comparison);
	compare_made(&comparison, &(struct made_run){.seed = 7, .without_last = true},
		     &(struct made_run){.seed = 8});
	assert_int_equal(find_change(&comparison, WS_ITEM_KERNEL, "kernel_l")->verdict,
			 WS_CHANGE_NEW);
	ws_comparison_free(&comparison);
}

/* Kernels whose names have other numbers are the same ones. */
static void test_renamed(void **state)
{
	struct ws_comparison comparison;
	const struct ws_change *change;

	(void)state;
	compare_made(&comparison, &(struct made_run){.seed = 9, .kernel_name = "gemm<%u, 64>"},
		     &(struct made_run){.seed = 10, .kernel_name = "gemm<%u, 128>"});
	change = find_change(&comparison, WS_ITEM_KERNEL, "gemm<#, #>");
	assert_int_equal(change->names[0], MADE_KERNELS);
	assert_int_equal(change->names[1], MADE_KERNELS);
	assert_int_equal(change->verdict, WS_CHANGE_SAME);
	ws_comparison_free(&comparison);
}

/* A kernel that is launched twice as often takes twice the time; one of its launches does not. */
static void test_counts(void **state)
{
	struct ws_comparison comparison;
	const struct ws_change *change;
	struct ws_measured measured;

	(void)state;
	compare_made(&comparison, &(struct made_run){.seed = 11},
		     &(struct made_run){.seed = 12, .odd = true});
	change = find_change(&comparison, WS_ITEM_KERNEL, "kernel_a");
	assert_int_equal(change->verdict, WS_CHANGE_SLOWER);
	ws_measure_change(&comparison, change, WS_MEASURE_COUNT, &measured);
	assert_true(measured.values[0] == MADE_LAUNCHES && measured.values[1] == 2 * MADE_LAUNCHES);
	assert_true(measured.low > 0.9);
	ws_measure_change(&comparison, change, WS_MEASURE_MEAN, &measured);
	assert_true(measured.low < 0 && measured.high > 0);
	ws_comparison_free(&comparison);
}

/* Several runs a side: a change that a single pair cannot show. */
static void test_several_runs(void **state)
{
	const struct ws_comparison_options options = {0};
	struct ws_comparison comparison;
	struct ws_err err = {""};

	(void)state;
	ws_comparison_begin(&comparison, &options);
	for (uint64_t i = 0; i < 5; i++)
		add_made_run(&comparison, 0, &(struct made_run){.seed = 100 + i});
	for (uint64_t i = 0; i < 5; i++)
		add_made_run(&comparison, 1,
			     &(struct made_run){.seed = 200 + i, .kernel = 11, .slower = 0.1});
	if (ws_comparison_finish(&comparison, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(find_change(&comparison, WS_ITEM_KERNEL, "kernel_l")->verdict,
			 WS_CHANGE_SLOWER);
	assert_int_equal(comparison.changed, 1);
	check_sums(&comparison.path);
	ws_comparison_free(&comparison);
}

/* ---- conditions ---- */

static enum ws_gate_result judge(const struct ws_comparison *comparison, const char *text)
{
	struct ws_gate_findings findings = {0};
	enum ws_gate_result result;
	struct ws_gate gate;
	struct ws_err err;

	if (ws_gate_parse(text, &gate, &err) || ws_gate_judge(&gate, comparison, &findings, &err))
		fail_msg("%s", err.msg);
	assert_true(findings.count > 0);
	result = findings.result;
	ws_gate_findings_free(&findings);
	ws_gate_free(&gate);
	return result;
}

static void test_conditions(void **state)
{
	static const struct {
		const char *text;
		enum ws_gate_result result;
	} conditions[] = {
		{"step>50%", WS_GATE_PASS},
		{"step > 3 %", WS_GATE_FAIL},
		{"own>3%", WS_GATE_FAIL},
		{"step>0.3ms", WS_GATE_FAIL},
		{"step<-50%", WS_GATE_PASS},
		{"total>3%", WS_GATE_FAIL},
		{"kernel kernel_l>20%", WS_GATE_FAIL},
		{"mean kernel kernel_l > 100us", WS_GATE_FAIL},
		{"count kernel kernel_*>0%", WS_GATE_PASS},
		{"count kernel kernel_l>0", WS_GATE_PASS},
		{"kernel kernel_a>5%", WS_GATE_PASS},
		{"kernel kernel_[ab]*>5%", WS_GATE_PASS},
		{"kernel kernel_a<-5%", WS_GATE_PASS},
		{"range forward>100%", WS_GATE_PASS},
		{"os read>10%", WS_GATE_UNKNOWN},
	};
	struct ws_comparison comparison;

	(void)state;
	compare_made(&comparison, &(struct made_run){.seed = 13},
		     &(struct made_run){.seed = 14, .kernel = 11, .slower = 0.5});
	for (size_t i = 0; i < WS_COUNT(conditions); i++)
		if (judge(&comparison, conditions[i].text) != conditions[i].result)
			fail_msg("%s: %s", conditions[i].text,
				 ws_name_gate_result(judge(&comparison, conditions[i].text)));
	ws_comparison_free(&comparison);
}

static void test_bad_conditions(void **state)
{
	static const char *const texts[] = {"step",
					    "step>",
					    "step>x%",
					    "step>3%%",
					    "stop>3%",
					    "step fast>3%",
					    "kernel>3%",
					    "count step>3%",
					    "kernel a>3 apples",
					    "count kernel a>3ms",
					    "step>3",
					    ""};

	(void)state;
	for (size_t i = 0; i < WS_COUNT(texts); i++) {
		struct ws_err err = {""};
		struct ws_gate gate;

		if (!ws_gate_parse(texts[i], &gate, &err))
			fail_msg("'%s' is taken for a condition", texts[i]);
		assert_true(strlen(err.msg) > 10);
		ws_gate_free(&gate);
	}
}

/* An interval that leaves out 0 beside "no change" is explained. */
static void test_uncertain_verdicts(void **state)
{
	struct ws_change change = {.low = -0.1, .high = 0.1, .estimate.known = true};
	struct ws_text said = {0};

	(void)state;
	ws_put_verdict(&change, &said);
	assert_string_equal(said.text, "no change");
	change.high = -0.01;
	ws_text_puts(&said, "; ");
	ws_put_verdict(&change, &said);
	assert_non_null(strstr(said.text, "; no change that is certain"));
	change.verdict = WS_CHANGE_FASTER;
	ws_text_puts(&said, "; ");
	ws_put_verdict(&change, &said);
	assert_string_equal(strrchr(said.text, ';'), "; faster");
	ws_text_free(&said);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_code),	  cmocka_unit_test(test_same_few_kernels),
		cmocka_unit_test(test_planted_slowdown),  cmocka_unit_test(test_planted_among_few),
		cmocka_unit_test(test_everything_slower), cmocka_unit_test(test_running_ahead),
		cmocka_unit_test(test_few_steps),	  cmocka_unit_test(test_new_and_gone),
		cmocka_unit_test(test_renamed),		  cmocka_unit_test(test_counts),
		cmocka_unit_test(test_several_runs),	  cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_bad_conditions),	  cmocka_unit_test(test_uncertain_verdicts),
		cmocka_unit_test(test_short_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
