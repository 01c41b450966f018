/*
 * test_sections.c - sections.def against CUPTI's host library, for each family of chips: every
 * metric of every section is there, and they take no more passes than they should. Skipped where
 * there is no libcupti; what a request means is tested everywhere.
 */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "gpu/host.h"
#include "kernel/choose.h"
#include "kernel/explain.h"
#include "kernel/formula.h"
#include "kernel/sections.h"
#include "kernel/units.h"

/* Where there is no libcupti a note says that nothing was asked of it: the library's skip() comes
 * out of Debian 12's cmocka as a failure. */
static bool has_library(void)
{
	size_t count;

	if (ws_gpu_chips(&count, NULL))
		return true;
	print_message("# no libcupti: not asked\n");
	return false;
}

static struct ws_kernel_choice choose(struct ws_kernel_request request, const char *chip)
{
	struct ws_kernel_choice choice = {0};
	struct ws_err err = {""};

	if (ws_kernel_choose(&request, chip, &choice, &err))
		fail_msg("%s", err.msg);
	return choice;
}

/* The passes of the full set: those that the library needs for these metrics on each chip. */
static void test_full_set_on_each_chip(void **state)
{
	static const struct {
		const char *chip;
		size_t passes;
	} chips[] = {{"GA100", 20}, {"GA102", 22}, {"AD102", 22},
		     {"GH100", 23}, {"GB100", 26}, {"GB202", 26}};

	(void)state;
	if (!has_library())
		return;
	for (size_t i = 0; i < WS_COUNT(chips); i++) {
		struct ws_kernel_choice choice =
			choose((struct ws_kernel_request){.sets = "full"}, chips[i].chip);
		struct ws_err err = {""};
		size_t passes = ws_gpu_host_passes(chips[i].chip, (const char *const *)choice.names,
						   choice.count, &err);

		if (choice.dropped.len)
			fail_msg("%s has no %s", chips[i].chip, choice.dropped.text);
		print_message("# %s: %zu metrics, %zu passes\n", chips[i].chip, choice.count,
			      passes);
		if (!passes)
			fail_msg("%s: %s", chips[i].chip, err.msg);
		assert_true(passes <= chips[i].passes);
		ws_kernel_choice_free(&choice);
	}
}

/* What the level-2 cache has to do depends on what it holds: that is not counted in the first pass,
 * and the order that sees to it costs no pass. */
static void test_order_of_passes(void **state)
{
	static const char *const sets[] = {"basic", "detailed", "full", "roofline"};

	(void)state;
	if (!has_library())
		return;
	for (size_t i = 0; i < WS_COUNT(sets); i++) {
		struct ws_kernel_choice choice =
			choose((struct ws_kernel_request){.sets = sets[i]}, "GH100");
		struct ws_err err = {""};
		size_t passes = ws_gpu_host_passes("GH100", (const char *const *)choice.names,
						   choice.count, &err);
		const char *const *names = (const char *const *)choice.names;

		ws_kernel_order_passes(&choice);
		assert_int_equal(ws_gpu_host_passes("GH100", names, choice.count, &err), passes);
		assert_string_equal(names[0], "gpu__time_duration.sum");
		assert_memory_equal(names[1], "lts__d_sectors_fill_sysmem.", 27);
		assert_memory_equal(names[choice.count - 1], "lts__t_sectors.", 15);
		assert_true(passes > 1);
		ws_kernel_choice_free(&choice);
	}
}

/* Sections over the time of a kernel: what they sample on each chip takes one pass. */
static void test_sampled_sections_on_each_chip(void **state)
{
	static const struct {
		const char *chip;
		size_t metrics;
	} chips[] = {{"GA100", 23}, {"GA102", 23}, {"AD102", 9},
		     {"GH100", 27}, {"GB100", 21}, {"GB202", 7}};

	(void)state;
	if (!has_library())
		return;
	for (size_t i = 0; i < WS_COUNT(chips); i++) {
		struct ws_kernel_choice choice =
			choose((struct ws_kernel_request){.sections = "regex:PmSampling|Nvlink"},
			       chips[i].chip);
		struct ws_err err = {""};
		size_t passes = ws_gpu_sampler_passes(chips[i].chip,
						      (const char *const *)choice.sampled.names,
						      choice.sampled.count, &err);

		if (choice.dropped.len)
			fail_msg("%s cannot sample %s", chips[i].chip, choice.dropped.text);
		if (!passes)
			fail_msg("%s: %s", chips[i].chip, err.msg);
		assert_int_equal(choice.count, 0);
		assert_int_equal(choice.sampled.count, chips[i].metrics);
		assert_int_equal(passes, 1);
		ws_kernel_choice_free(&choice);
	}
}

static void test_sections_one_by_one(void **state)
{
	(void)state;
	if (!has_library())
		return;
	for (size_t i = 0; i < ws_kernel_section_count; i++) {
		struct ws_kernel_request request = {.sections = ws_kernel_sections[i].identifier};
		struct ws_kernel_choice choice = choose(request, "GH100");

		assert_string_equal(choice.sections.text, ws_kernel_sections[i].identifier);
		for (size_t k = 1; k < choice.count; k++)
			assert_true(strcmp(choice.names[k - 1], choice.names[k]) < 0);
		ws_kernel_choice_free(&choice);
	}
}

static bool has_name(const struct ws_kernel_choice *choice, const char *name)
{
	for (size_t i = 0; i < choice->count; i++)
		if (!strcmp(choice->names[i], name))
			return true;
	return false;
}

static void test_metrics_of_a_request(void **state)
{
	struct ws_kernel_choice choice;

	(void)state;
	if (!has_library())
		return;
	choice = choose((struct ws_kernel_request){.metrics = "sm__inst_executed,launch__grid_size,"
							      "regex:^dram__bytes\\.sum$"},
			"gh100");
	assert_true(has_name(&choice, "sm__inst_executed.sum.per_second"));
	assert_true(has_name(&choice, "sm__inst_executed.avg"));
	assert_true(has_name(&choice, "dram__bytes.sum"));
	assert_false(has_name(&choice, "dram__bytes.avg"));
	assert_false(has_name(&choice, "launch__grid_size"));
	ws_kernel_choice_free(&choice);
	choice = choose((struct ws_kernel_request){.metrics = "breakdown:l1tex__throughput.avg.pct_"
							      "of_peak_sustained_active"},
			"GH100");
	assert_true(has_name(&choice, "l1tex__data_bank_reads.avg.pct_of_peak_sustained_active"));
	ws_kernel_choice_free(&choice);
	choice = choose((struct ws_kernel_request){.metrics = "sm__warps_active.avg.pct"}, "GH100");
	assert_true(has_name(&choice, "sm__warps_active.avg.pct_of_peak_sustained_active"));
	assert_true(has_name(&choice, "sm__warps_active.avg.pct_of_peak_sustained_elapsed"));
	assert_false(has_name(&choice, "sm__warps_active.avg"));
	assert_false(has_name(&choice, "sm__warps_active.sum.pct_of_peak_sustained_active"));
	ws_kernel_choice_free(&choice);
}

static void expect_refusal(struct ws_kernel_request request, const char *chip, const char *message)
{
	struct ws_kernel_choice choice = {0};
	struct ws_err err = {""};

	assert_int_equal(ws_kernel_choose(&request, chip, &choice, &err), -1);
	if (!strstr(err.msg, message))
		fail_msg("\"%s\" does not say \"%s\"", err.msg, message);
	ws_kernel_choice_free(&choice);
}

/* --query-metrics lists them. */
static void test_units_and_descriptions(void **state)
{
	struct ws_gpu_host *host;

	(void)state;
	if (!has_library())
		return;
	host = ws_gpu_host_open("GH100", NULL);
	assert_string_equal(ws_gpu_host_unit(host, "dram__bytes"), "byte");
	assert_non_null(strstr(ws_gpu_host_describe(host, "dram__bytes"), "DRAM"));
	ws_gpu_host_close(host);
}

/* Whatever a section shows is explained in both languages. */
static void test_explanations_of_lines(void **state)
{
	size_t count;
	const struct ws_kernel_line *lines = ws_kernel_lines(&count);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		size_t length = strcspn(lines[i].value, " ");
		char metric[200];

		if (!strchr(lines[i].value, '_') || !isalpha((unsigned char)*lines[i].value))
			continue;
		snprintf(metric, sizeof(metric), "%.*s", (int)length, lines[i].value);
		for (int language = WS_ENGLISH; language <= WS_CHINESE; language++) {
			struct ws_text text = {0};

			if (!ws_kernel_explain(metric, language, &text) || text.len < 10)
				fail_msg("%s is not explained", metric);
			ws_text_free(&text);
		}
	}
}

static void test_refused_requests(void **state)
{
	(void)state;
	expect_refusal((struct ws_kernel_request){.sets = "all"}, "GH100", "no set 'all'");
	expect_refusal((struct ws_kernel_request){.sections = "Speed"}, "GH100",
		       "no section 'Speed'");
	expect_refusal((struct ws_kernel_request){.sections = "PmSampling_WarpStates"}, "GH100",
		       "not measured: ");
	expect_refusal((struct ws_kernel_request){.sections = "regex:("}, "GH100",
		       "not a regular expression");
	expect_refusal((struct ws_kernel_request){.sections = "regex:Nothing"}, "GH100",
		       "no section matches");
	if (!has_library())
		return;
	expect_refusal((struct ws_kernel_request){.metrics = "sm__nothing.sum"}, "GH100",
		       "no metric 'sm__nothing.sum'");
	expect_refusal((struct ws_kernel_request){.metrics = "dram__bytes.ratio"}, "GH100",
		       "no form '.ratio'");
	expect_refusal((struct ws_kernel_request){.metrics = "regex:^nothing"}, "GH100",
		       "matches ^nothing");
	expect_refusal((struct ws_kernel_request){.metrics = "pmsampling:sm__nothing.avg"}, "GH100",
		       "no metric 'sm__nothing.avg' that can be sampled");
}

static double get_value(void *context, const char *name, size_t n)
{
	(void)context;
	if (n == 1 && *name == 'a')
		return 3;
	if (n == 3 && !memcmp(name, "b.c", 3))
		return 4;
	return NAN;
}

static void test_formulas(void **state)
{
	(void)state;
	assert_float_equal(ws_evaluate_formula("a", get_value, NULL), 3, 0);
	assert_float_equal(ws_evaluate_formula("1 + 2 * b.c - a / 2", get_value, NULL), 7.5, 0);
	assert_float_equal(ws_evaluate_formula("(1 + 2) * (b.c - a)", get_value, NULL), 3, 0);
	assert_true(isnan(ws_evaluate_formula("a + d", get_value, NULL)));
	assert_true(isnan(ws_evaluate_formula("a / (a - 3)", get_value, NULL)));
	assert_true(isnan(ws_evaluate_formula("(a", get_value, NULL)));
}

static void test_families(void **state)
{
	(void)state;
	assert_int_equal(ws_kernel_chip_family("GA100"), WS_GA100);
	assert_int_equal(ws_kernel_chip_family("ga106"), WS_GA10X);
	assert_int_equal(ws_kernel_chip_family("GB203"), WS_GB20X);
	assert_int_equal(ws_kernel_chip_family("TU102"), 0);
}

static void test_units(void **state)
{
	char unit[WS_UNIT_ROOM];

	(void)state;
	assert_string_equal(ws_kernel_plain_unit("nanosecond"), "ns");
	assert_string_equal(ws_kernel_plain_unit("dram_cycle/s"), "hz");
	assert_string_equal(ws_kernel_plain_unit("gpc_cycle"), "cycle");
	assert_string_equal(ws_kernel_plain_unit("byte/s"), "byte/s");
	assert_float_equal(ws_kernel_normalise_unit("Mbyte/s", unit), 1e6, 0);
	assert_string_equal(unit, "byte/s");
	assert_float_equal(ws_kernel_normalise_unit("us", unit), 1e3, 0);
	assert_string_equal(unit, "ns");
	assert_float_equal(ws_kernel_normalise_unit("Ghz", unit), 1e9, 0);
	assert_string_equal(unit, "hz");
	assert_float_equal(ws_kernel_normalise_unit("SM", unit), 1, 0);
	assert_float_equal(ws_kernel_scale_unit(2.5e9, "hz", unit), 1e9, 0);
	assert_string_equal(unit, "Ghz");
	assert_float_equal(ws_kernel_scale_unit(1500, "ns", unit), 1e3, 0);
	assert_string_equal(unit, "us");
	ws_kernel_unit_of("dram__bytes.sum.per_second", "byte", unit);
	assert_string_equal(unit, "byte/s");
	ws_kernel_unit_of("sm__inst_executed.avg.per_cycle_active", "instruction", unit);
	assert_string_equal(unit, "inst/cycle");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full_set_on_each_chip),
		cmocka_unit_test(test_order_of_passes),
		cmocka_unit_test(test_sampled_sections_on_each_chip),
		cmocka_unit_test(test_sections_one_by_one),
		cmocka_unit_test(test_metrics_of_a_request),
		cmocka_unit_test(test_units_and_descriptions),
		cmocka_unit_test(test_explanations_of_lines),
		cmocka_unit_test(test_refused_requests),
		cmocka_unit_test(test_formulas),
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_units),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
