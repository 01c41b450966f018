/* test_model.c - the critical path and what is made of it, on random programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/stretches.h"
#include "base/mem.h"
#include "random_program.h"

enum { PROGRAMS = 20, THINGS = 400 };

/* Calls `check` with the analysis of each of a number of random programs. */
static void check_programs(void (*check)(const struct ws_analysis *analysis))
{
	char path[64];

	snprintf(path, sizeof(path), "test_model.%d.wsrep", (int)getpid());
	for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
		struct ws_model_options options = {.to = UINT64_MAX};
		struct ws_err err = {""};
		struct ws_report *report;
		struct ws_analysis *analysis;

		assert_int_equal(
			write_random_program(path, seed * RANDOM_SEED, THINGS, seed % 2, &err), 0);
		report = ws_report_open_plain(path, &err);
		assert_non_null(report);
		analysis = ws_analysis_open(report, &options, &err);
		assert_non_null(analysis);
		assert_true(analysis->window > 0);
		check(analysis);
		ws_analysis_close(analysis);
		ws_report_close(report);
	}
	unlink(path);
}

/* ---- stretches ---- */

static void check_cover(const struct ws_stretches *stretches)
{
	uint64_t at = stretches->from;

	for (size_t i = 0; i < stretches->count; i++) {
		assert_int_equal(stretches->stretches[i].start, at);
		assert_true(stretches->stretches[i].end > at);
		at = stretches->stretches[i].end;
	}
	assert_int_equal(at, stretches->to);
}

static void check_all_stretches(const struct ws_analysis *analysis)
{
	uint64_t by_cause[WS_CAUSES] = {0}, length = analysis->window;
	struct ws_stretches stretches;

	ws_stretches_list(analysis, 0, UINT64_MAX, 0, &stretches);
	check_cover(&stretches);
	for (size_t i = 0; i < stretches.count; i++)
		by_cause[stretches.stretches[i].cause] +=
			stretches.stretches[i].end - stretches.stretches[i].start;
	for (int cause = 0; cause < WS_CAUSES; cause++)
		assert_int_equal(by_cause[cause], analysis->breakdown.by_cause[cause]);
	ws_stretches_free(&stretches);
	ws_stretches_list(analysis, 0, UINT64_MAX, length / 50, &stretches);
	check_cover(&stretches);
	assert_true(stretches.count <= 2 * 51);
	ws_stretches_free(&stretches);
	ws_stretches_list(analysis, analysis->model->from + length / 3,
			  analysis->model->from + length / 2, length / 500, &stretches);
	assert_int_equal(stretches.from, analysis->model->from + length / 3);
	assert_int_equal(stretches.to, analysis->model->from + length / 2);
	check_cover(&stretches);
	ws_stretches_free(&stretches);
}

static void stretches_cover_the_window(void **state)
{
	(void)state;
	check_programs(check_all_stretches);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stretches_cover_the_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
