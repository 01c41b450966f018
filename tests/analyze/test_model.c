/* test_model.c - the critical path and what is made of it, on random programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/finding.h"
#include "analyze/stack_keys.h"
#include "analyze/stretches.h"
#include "analyze/what_if.h"
#include "base/mem.h"
#include "base/sort.h"
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

/* ---- what if ---- */

/* Scheduled without a change, every stretch and every kernel is over when it was recorded to be. */
static void check_unchanged(const struct ws_analysis *analysis)
{
	struct ws_graph graph;
	struct ws_costs costs = {.launch_latency = 1};
	int64_t *times;
	float *work;

	ws_graph_build(analysis->model, &graph);
	assert_true(graph.count > 100);
	assert_int_equal(graph.to, analysis->model->to);
	times = ws_malloc(graph.count * sizeof(*times));
	costs.work = work = ws_malloc(graph.count * sizeof(*work));
	for (size_t i = 0; i < graph.count; i++)
		work[i] = 1;
	assert_int_equal(ws_graph_schedule(&graph, &costs, times), analysis->window);
	for (size_t i = 0; i < graph.count; i++)
		assert_int_equal(times[i], ws_graph_time(&graph, graph.nodes[i].at));
	free(times);
	free(work);
	ws_graph_free(&graph);
}

static void nothing_changes_without_a_change(void **state)
{
	(void)state;
	check_programs(check_unchanged);
}

static uint64_t schedule_with(const struct ws_graph *graph, const char *text)
{
	struct ws_changes changes;
	struct ws_what_if result;
	struct ws_err err = {""};

	assert_int_equal(ws_changes_parse(text, &changes, &err), 0);
	assert_int_equal(ws_what_if_schedule(graph, &changes, &result, &err), 0);
	assert_int_equal(result.unchanged, result.now);
	ws_changes_free(&changes);
	return result.then;
}

/* What costs less never makes it longer, and the less it costs the shorter it is. */
static void check_monotony(const struct ws_analysis *analysis)
{
	static const char *const things[] = {"kernel long",	"gpu",	    "launches",
					     "call cudaLaunch", "wait gpu", "cpu",
					     "wait not known"};
	static const char *const factors[] = {"1.5", "1", "0.75", "0.5", "0.25", "0"};
	struct ws_graph graph;

	ws_graph_build(analysis->model, &graph);
	for (size_t i = 0; i < sizeof(things) / sizeof(*things); i++) {
		uint64_t last = UINT64_MAX;

		for (size_t k = 0; k < sizeof(factors) / sizeof(*factors); k++) {
			char text[64];
			uint64_t then;

			snprintf(text, sizeof(text), "%s*%s", things[i], factors[k]);
			then = schedule_with(&graph, text);
			assert_true(then <= last);
			last = then;
		}
	}
	/* What is left are lags that nothing explains. */
	assert_true(schedule_with(&graph, "cpu*0 + gpu*0 + wait not known*0 + launches*0") <
		    analysis->window / 2);
	ws_graph_free(&graph);
}

static void less_cost_is_less_time(void **state)
{
	(void)state;
	check_programs(check_monotony);
}

static void changes_are_read_and_refused(void **state)
{
	static const char *const bad[] = {"",
					  "kernel",
					  "kernel*0.5",
					  "kernel x*",
					  "kernel x*-1",
					  "kernel x*nan",
					  "launches all*0",
					  "wait*0",
					  "teapot*0",
					  "gpu*0 + ",
					  "gpu*0x + cpu*0"};
	struct ws_changes changes;
	struct ws_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		strcpy(err.msg, "");
		assert_int_equal(ws_changes_parse(bad[i], &changes, &err), -1);
		assert_non_null(strstr(err.msg, "--what-if"));
		ws_changes_free(&changes);
	}
	assert_int_equal(
		ws_changes_parse("kernel void f<*>(int*) * 0.5 + launches*0", &changes, &err), 0);
	assert_int_equal(changes.count, 2);
	assert_string_equal(changes.changes[0].name, "void f<*>(int*)");
	assert_true(changes.changes[0].factor == 0.5);
	assert_int_equal(changes.changes[1].kind, WS_CHANGE_LAUNCHES);
	ws_changes_free(&changes);
}

/* ---- scopes ---- */

enum { BRIEF = 400000, PERIOD = 120, OUTER = 100, FIRST = 30, SECOND = 15 };

/* One range of OUTER ns after another, with two in it: the sums of what a thread did. */
static void add_brief_ranges(struct ws_writer *writer, const uint32_t *names)
{
	for (uint64_t i = 0; i < BRIEF; i++) {
		uint64_t at = 1000 + i * PERIOD;
		const struct {
			uint64_t start, length;
		} ranges[] = {{at + 5, FIRST}, {at + 50, SECOND}, {at, OUTER}};

		for (size_t k = 0; k < WS_COUNT(ranges); k++)
			ws_writer_add(
				writer, WS_TABLE_nvtx,
				&(struct ws_row_nvtx){.start = ranges[k].start,
						      .end = ranges[k].start + ranges[k].length,
						      .thread = 1,
						      .type = WS_NVTX_PUSHPOP,
						      .text = names[k]});
	}
}

static uint64_t sum_scope(const struct ws_scopes *scopes, uint32_t name)
{
	uint64_t sum = 0;

	for (size_t i = 0; i + 1 < scopes->count; i++)
		if (scopes->changes[i].name == name)
			sum += scopes->changes[i + 1].at - scopes->changes[i].at;
	return sum;
}

static void assert_near(uint64_t seen, uint64_t expected)
{
	assert_true(seen >= expected - expected / 1000 && seen <= expected + expected / 1000);
}

/* More ranges than are kept: few changes of scope, and each name has its share of the time. */
static void brief_ranges_have_their_shares(void **state)
{
	struct ws_writer_opts options = {.overwrite = true};
	char path[64];
	uint32_t names[3];
	struct ws_err err = {""};
	struct ws_writer *writer;
	struct ws_report *report;
	struct ws_scopes scopes;

	(void)state;
	snprintf(path, sizeof(path), "test_scopes.%d.wsrep", (int)getpid());
	writer = ws_writer_create(path, &options, &err);
	assert_non_null(writer);
	names[0] = ws_writer_string(writer, "first", 5);
	names[1] = ws_writer_string(writer, "second", 6);
	names[2] = ws_writer_string(writer, "outer", 5);
	add_brief_ranges(writer, names);
	assert_int_equal(ws_writer_close(writer, &err), 0);
	report = ws_report_open_plain(path, &err);
	assert_non_null(report);
	ws_scopes_load(report, 2, &scopes);
	assert_true(scopes.count > 1000 && scopes.count <= 1000002);
	assert_near(sum_scope(&scopes, names[0]), (uint64_t)BRIEF * FIRST);
	assert_near(sum_scope(&scopes, names[1]), (uint64_t)BRIEF * SECOND);
	assert_near(sum_scope(&scopes, names[2]), (uint64_t)BRIEF * (OUTER - FIRST - SECOND));
	assert_near(sum_scope(&scopes, 0), (uint64_t)BRIEF * (PERIOD - OUTER));
	ws_scopes_free(&scopes);
	ws_report_close(report);
	unlink(path);
}

/* ---- states that are walked once ---- */

#define ROW(writer, table, ...) \
	ws_writer_add(writer, WS_TABLE_##table, &(struct ws_row_##table){__VA_ARGS__})

enum { SWITCHERS = 3, SWITCHES = 300000, TURN = 1000 };

/* Threads that run for a tenth of each turn. The first and the last have few turns. */
static void write_switches(const char *path)
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 65536};
	struct ws_err err = {""};
	struct ws_writer *writer = ws_writer_create(path, &options, &err);

	assert_non_null(writer);
	ROW(writer, process, .id = 1, .pid = 10, .start = 1);
	for (uint32_t thread = 1; thread <= SWITCHERS; thread++)
		ROW(writer, thread, .id = thread, .process = 1, .tid = 9 + thread, .start = 1);
	for (uint64_t i = 1; i <= SWITCHES; i++)
		for (uint32_t thread = 1; thread <= SWITCHERS; thread++)
			if (thread == 2 || i % 10 == 0)
				ROW(writer, sched, .start = i * TURN + thread,
				    .end = i * TURN + thread + TURN / 10, .thread = thread,
				    .cpu = thread, .woken = i * TURN + thread - 1, .waker = 2,
				    .after = WS_AFTER_SLEEPING);
	ROW(writer, collection, .start = 1, .end = (uint64_t)(SWITCHES + 2) * TURN);
	assert_int_equal(ws_writer_close(writer, &err), 0);
}

struct state_sums {
	uint64_t count[SWITCHERS + 1], start[SWITCHERS + 1], other[SWITCHERS + 1];
	uint64_t end[SWITCHERS + 1]; /* of the last */
};

/* One worker delivers all states of a thread. */
static void sum_state(void *context, uint32_t worker, const struct ws_state *state)
{
	struct state_sums *sums = context;

	(void)worker;
	assert_true(state->thread <= SWITCHERS);
	assert_true(state->start >= sums->end[state->thread]);
	sums->end[state->thread] = state->end;
	sums->count[state->thread]++;
	sums->start[state->thread] += state->start * 3 + state->end;
	sums->other[state->thread] += state->doing * 1000u + state->wait * 10u + state->waker +
				      state->function + state->lost * 7u + state->after;
}

static void states_are_the_same_when_walked_once(void **state)
{
	struct state_sums kept = {{0}}, once = {{0}}, gone = {{0}};
	struct ws_names_by_id *who;
	struct ws_states *states;
	struct ws_report *report;
	struct ws_err err = {""};
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "test_model.%d.wsrep", (int)getpid());
	write_switches(path);
	report = ws_report_open_plain(path, &err);
	assert_non_null(report);
	who = ws_who_open(report);
	states = ws_states_open(report, who, NULL);
	ws_walk_states(states, 0, UINT64_MAX, sum_state, &kept);
	ws_walk_states_once(states, sum_state, &once);
	assert_memory_equal(&kept, &once, sizeof(kept));
	assert_true(kept.count[2] >= 2 * (uint64_t)SWITCHES);
	/* What was read is gone. */
	ws_walk_states(states, 0, UINT64_MAX, sum_state, &gone);
	assert_true(gone.count[2] < kept.count[2] / 2);
	ws_states_close(states);
	ws_who_close(who);
	ws_report_close(report);
	unlink(path);
}

/* Threads that run in turns and wait in calls, in blocks so small that each thread has rows in
 * many: some ends were not seen, and some records were lost. With `late`, one row came after later
 * ones. */
static void write_mixed_switches(const char *path, bool late)
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 512};
	struct ws_err err = {""};
	struct ws_writer *writer = ws_writer_create(path, &options, &err);
	uint32_t function;

	assert_non_null(writer);
	function = ws_writer_string(writer, "sem_wait", 8);
	ROW(writer, process, .id = 1, .pid = 10, .start = 1);
	for (uint32_t thread = 1; thread <= SWITCHERS; thread++)
		ROW(writer, thread, .id = thread, .process = 1, .tid = 9 + thread, .start = 1);
	for (uint64_t i = 1; i <= 5000; i++)
		for (uint32_t thread = 1; thread <= SWITCHERS; thread++) {
			uint64_t start = i * TURN + thread * 100, end = start + 90;

			if (i % 97 == thread)
				end = WS_NO_TIME;
			if (thread != 2 || !late || i != 5)
				ROW(writer, sched, .start = start, .end = end, .thread = thread,
				    .cpu = thread, .woken = start - i % 50, .waker = 2,
				    .after = i % 3 ? WS_AFTER_SLEEPING : WS_AFTER_PREEMPTED);
			if (thread < 3)
				ROW(writer, osrt, .start = start + 80, .end = start + 600,
				    .thread = thread, .name = function);
			if (i % 1000 == thread)
				ROW(writer, sched_gap, .start = start + 95, .end = start + 150);
		}
	if (late)
		ROW(writer, sched, .start = 5 * TURN + 200, .end = 5 * TURN + 290, .thread = 2,
		    .cpu = 1, .woken = WS_NO_TIME, .after = WS_AFTER_SLEEPING);
	ROW(writer, collection, .start = 1, .end = (uint64_t)5010 * TURN);
	assert_int_equal(ws_writer_close(writer, &err), 0);
}

static void compare_streamed(const char *path, bool late)
{
	struct ws_states_part all = {.to = UINT64_MAX, .once = true};
	struct state_sums kept = {{0}}, streamed = {{0}};
	struct ws_names_by_id *who;
	struct ws_states *states;
	struct ws_report *report;
	struct ws_err err = {""};

	write_mixed_switches(path, late);
	report = ws_report_open_plain(path, &err);
	assert_non_null(report);
	who = ws_who_open(report);
	states = ws_states_open(report, who, NULL);
	ws_walk_states(states, 0, UINT64_MAX, sum_state, &kept);
	ws_states_close(states);
	states = ws_states_open_part(report, who, &all, NULL);
	assert_true(ws_states_has_scheduling(states));
	assert_int_equal(ws_walk_states_once(states, sum_state, &streamed), 0);
	ws_states_close(states);
	for (uint32_t thread = 1; thread <= SWITCHERS; thread++) {
		assert_true(kept.count[thread] > 10000);
		assert_int_equal(kept.count[thread], streamed.count[thread]);
	}
	assert_memory_equal(&kept, &streamed, sizeof(kept));
	ws_who_close(who);
	ws_report_close(report);
	unlink(path);
}

static void states_are_the_same_when_read_block_by_block(void **state)
{
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "test_model_blocks.%d.wsrep", (int)getpid());
	compare_streamed(path, false);
	compare_streamed(path, true);
}

/* ---- damage ---- */

/* A thread that is sampled and waits for a socket. */
static void write_wait_on_socket(const char *path)
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 64};
	struct ws_err err = {""};
	struct ws_writer *writer = ws_writer_create(path, &options, &err);
	uint32_t function;

	assert_non_null(writer);
	function = ws_writer_string(writer, "recv", 4);
	ROW(writer, process, .id = 1, .pid = 10, .start = 1, .origin = WS_ORIGIN_TARGET);
	ROW(writer, thread, .id = 1, .process = 1, .tid = 10, .start = 1);
	ROW(writer, sched, .start = 1000, .end = 2000, .thread = 1, .woken = WS_NO_TIME,
	    .after = WS_AFTER_SLEEPING);
	ROW(writer, osrt, .start = 1900, .end = 5100, .thread = 1, .name = function);
	ROW(writer, sched, .start = 5000, .end = 6000, .thread = 1, .woken = 4990,
	    .after = WS_AFTER_SLEEPING);
	ROW(writer, sample, .start = 1500, .thread = 1, .time = 100);
	ROW(writer, collection, .start = 1, .end = 7000);
	assert_int_equal(ws_writer_close(writer, &err), 0);
}

/* Damages a block of a report that is open: one that is damaged before is not even listed. */
static void damage_first_block(const char *path, const struct ws_report *report,
			       enum ws_table table)
{
	struct ws_block_info info = ws_report_block_info(report, table, 0);
	long last = (long)(info.offset + info.bytes - 1);
	FILE *file = fopen(path, "r+");
	int byte;

	assert_non_null(file);
	assert_int_equal(fseek(file, last, SEEK_SET), 0);
	byte = fgetc(file);
	assert_int_equal(fseek(file, last, SEEK_SET), 0);
	fputc(byte ^ 0xff, file);
	assert_int_equal(fclose(file), 0);
}

static void damaged_blocks_are_counted_before_a_wait_on_a_socket(void **state)
{
	struct ws_model_options options = {.to = UINT64_MAX};
	struct ws_report *report;
	struct ws_model *model;
	struct ws_err err = {""};
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "test_model_damage.%d.wsrep", (int)getpid());
	write_wait_on_socket(path);
	report = ws_report_open_plain(path, &err);
	assert_non_null(report);
	damage_first_block(path, report, WS_TABLE_sample);
	model = ws_model_open(report, &options, &err);
	assert_non_null(model);
	assert_true(model->threads[1].waits & 1u << WS_WAIT_IO);
	assert_int_equal(model->damaged, 1);
	ws_model_close(model);
	ws_report_close(report);
	unlink(path);
}

/* ---- the critical path ---- */

static void add_turn(struct ws_writer *writer, uint32_t thread, uint64_t start_ms, uint64_t end_ms,
		     uint32_t waker)
{
	const uint64_t ms = 1000000;

	ROW(writer, sched, .start = start_ms * ms, .end = end_ms * ms, .thread = thread,
	    .cpu = thread, .woken = start_ms * ms - 1000, .waker = waker,
	    .after = WS_AFTER_SLEEPING);
}

/* The main thread joins two others. Nothing tells what ended the first wait; thread 2, for which it
 * waits then, has waited itself during the first one, which nothing ended either. */
static void write_joins(const char *path)
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 64};
	struct ws_err err = {""};
	struct ws_writer *writer = ws_writer_create(path, &options, &err);

	assert_non_null(writer);
	ROW(writer, process, .id = 1, .pid = 10, .start = 1000000, .origin = WS_ORIGIN_TARGET);
	ROW(writer, thread, .id = 1, .process = 1, .tid = 10, .start = 1000000);
	ROW(writer, thread, .id = 2, .process = 1, .tid = 11, .start = 3000000);
	add_turn(writer, 1, 1, 2, 0);
	add_turn(writer, 2, 3, 44, 1);
	add_turn(writer, 2, 45, 100, 0);
	add_turn(writer, 1, 50, 51, 0);
	add_turn(writer, 1, 100, 101, 2);
	ROW(writer, collection, .start = 1000000, .end = 101000000);
	assert_int_equal(ws_writer_close(writer, &err), 0);
}

static void joined_threads_stay_on_the_path(void **state)
{
	struct ws_model_options all = {.to = UINT64_MAX};
	struct ws_analysis *analysis;
	struct ws_report *report;
	struct ws_err err = {""};
	uint64_t run = 0;
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "test_model.%d.wsrep", (int)getpid());
	write_joins(path);
	report = ws_report_open_plain(path, &err);
	assert_non_null(report);
	analysis = ws_analysis_open(report, &all, &err);
	assert_non_null(analysis);
	for (size_t i = 0; i < analysis->path.count; i++)
		if (analysis->path.pieces[i].kind == WS_PIECE_RUN &&
		    analysis->path.pieces[i].thread == 2)
			run += analysis->path.pieces[i].end - analysis->path.pieces[i].start;
	assert_true(run > 95 * (uint64_t)1000000);
	ws_analysis_close(analysis);
	ws_report_close(report);
	unlink(path);
}

/* The main process starts a child, whose program was known before the fork was, and a second one
 * that has ended when it is waited for. Both take milliseconds to give their memory back. */
static void write_children(const char *path)
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 64};
	struct ws_err err = {""};
	struct ws_writer *writer = ws_writer_create(path, &options, &err);
	static const uint32_t pids[] = {0, 10, 11, 11, 12};
	const uint64_t ms = 1000000;
	uint32_t function;

	assert_non_null(writer);
	function = ws_writer_string(writer, "wait4", 5);
	ROW(writer, process, .id = 1, .pid = 10, .start = ms, .origin = WS_ORIGIN_TARGET);
	ROW(writer, process, .id = 2, .pid = 11, .start = 20 * ms, .origin = WS_ORIGIN_EXEC);
	ROW(writer, process, .id = 3, .pid = 11, .start = 10 * ms, .parent = 1, .ppid = 10,
	    .origin = WS_ORIGIN_FORK);
	ROW(writer, process, .id = 4, .pid = 12, .start = 101 * ms, .parent = 1, .ppid = 10,
	    .origin = WS_ORIGIN_FORK);
	ROW(writer, process_end, .process = 3, .end = 20 * ms, .reason = WS_END_EXEC);
	ROW(writer, process_end, .process = 2, .end = 94 * ms, .reason = WS_END_EXIT);
	ROW(writer, process_end, .process = 4, .end = 118 * ms, .reason = WS_END_EXIT);
	for (uint32_t process = 1; process <= 4; process++)
		ROW(writer, thread, .id = process, .process = process, .tid = pids[process],
		    .start = ms);
	add_turn(writer, 1, 1, 11, 0);
	add_turn(writer, 3, 10, 20, 0);
	add_turn(writer, 2, 20, 94, 0);
	add_turn(writer, 1, 100, 120, 0);
	add_turn(writer, 4, 101, 118, 0);
	add_turn(writer, 1, 125, 126, 0);
	ROW(writer, osrt, .start = 11 * ms, .end = 100 * ms, .thread = 1, .name = function);
	ROW(writer, osrt, .start = 120 * ms, .end = 125 * ms, .thread = 1, .name = function);
	ROW(writer, collection, .start = ms, .end = 126 * ms);
	assert_int_equal(ws_writer_close(writer, &err), 0);
}

/* One piece of a path: the thread, whether it runs, and the end in ms. */
struct expected_piece {
	uint32_t thread;
	enum ws_piece_kind kind;
	uint64_t end;
};

static void check_path(void (*write)(const char *path), const struct expected_piece *expected,
		       size_t count)
{
	struct ws_model_options all = {.to = UINT64_MAX};
	struct ws_analysis *analysis;
	struct ws_report *report;
	struct ws_err err = {""};
	char path[64];
	size_t at = 0;

	snprintf(path, sizeof(path), "test_model.%d.wsrep", (int)getpid());
	write(path);
	report = ws_report_open_plain(path, &err);
	assert_non_null(report);
	analysis = ws_analysis_open(report, &all, &err);
	assert_non_null(analysis);
	for (size_t i = 0; i < analysis->path.count; i++) {
		const struct ws_piece *piece = &analysis->path.pieces[i];

		if (piece->end - piece->start < 100000) /* between being woken and running */
			continue;
		assert_true(at < count);
		assert_int_equal(piece->thread, expected[at].thread);
		assert_int_equal(piece->kind, expected[at].kind);
		assert_int_equal((piece->end + 500000) / 1000000, expected[at].end);
		at++;
	}
	assert_int_equal(at, count);
	ws_analysis_close(analysis);
	ws_report_close(report);
	unlink(path);
}

static void path_goes_through_a_child_that_is_waited_for(void **state)
{
	static const struct expected_piece expected[] = {
		{1, WS_PIECE_RUN, 10},	 {3, WS_PIECE_RUN, 20},	 {2, WS_PIECE_RUN, 94},
		{1, WS_PIECE_WAIT, 100}, {1, WS_PIECE_RUN, 120}, {1, WS_PIECE_WAIT, 125},
		{1, WS_PIECE_RUN, 126}};

	(void)state;
	check_path(write_children, expected, sizeof(expected) / sizeof(*expected));
}

/* The main process waits for a child that waits for something unknown, then for two, one of which
 * waits for the other. */
static void write_children_in_turn(const char *path)
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 64};
	struct ws_err err = {""};
	struct ws_writer *writer = ws_writer_create(path, &options, &err);
	const uint64_t ms = 1000000, starts[] = {0, 1, 10, 61, 62}, ends[] = {0, 92, 50, 82, 90};
	uint32_t function;

	assert_non_null(writer);
	function = ws_writer_string(writer, "wait4", 5);
	for (uint32_t id = 1; id <= 4; id++) {
		ROW(writer, process, .id = id, .pid = 9 + id, .start = starts[id] * ms,
		    .parent = id > 1, .ppid = id > 1 ? 10 : 1,
		    .origin = id > 1 ? WS_ORIGIN_FORK : WS_ORIGIN_TARGET);
		ROW(writer, process_end, .process = id, .end = ends[id] * ms,
		    .reason = WS_END_EXIT);
		ROW(writer, thread, .id = id, .process = id, .tid = 9 + id,
		    .start = starts[id] * ms);
	}
	add_turn(writer, 1, 1, 11, 0);
	add_turn(writer, 2, 10, 20, 0);
	add_turn(writer, 2, 25, 50, 0);
	add_turn(writer, 1, 50, 63, 2);
	add_turn(writer, 3, 61, 82, 0);
	add_turn(writer, 4, 62, 70, 0);
	add_turn(writer, 4, 80, 90, 3);
	add_turn(writer, 1, 90, 92, 4);
	ROW(writer, osrt, .start = 11 * ms, .end = 50 * ms, .thread = 1, .name = function);
	ROW(writer, osrt, .start = 63 * ms, .end = 90 * ms, .thread = 1, .name = function);
	ROW(writer, collection, .start = ms, .end = 92 * ms);
	assert_int_equal(ws_writer_close(writer, &err), 0);
}

static void path_goes_to_no_thread_that_has_not_begun(void **state)
{
	static const struct expected_piece expected[] = {
		{1, WS_PIECE_RUN, 10}, {2, WS_PIECE_RUN, 20}, {2, WS_PIECE_WAIT, 25},
		{2, WS_PIECE_RUN, 50}, {1, WS_PIECE_RUN, 61}, {3, WS_PIECE_RUN, 80},
		{4, WS_PIECE_RUN, 90}, {1, WS_PIECE_RUN, 92}};

	(void)state;
	check_path(write_children_in_turn, expected, sizeof(expected) / sizeof(*expected));
}

enum { TURNS = 4000, RUN_NS = 5000, WAKING_NS = 20000 };

/* Two threads in turns: from the end of one's run to the beginning of the other's it takes four
 * times as long as either runs. */
static void write_turns(const char *path)
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 4096};
	struct ws_err err = {""};
	struct ws_writer *writer = ws_writer_create(path, &options, &err);
	uint64_t now = 1000000;

	assert_non_null(writer);
	ROW(writer, process, .id = 1, .pid = 10, .start = now, .origin = WS_ORIGIN_TARGET);
	for (uint32_t thread = 1; thread <= 2; thread++)
		ROW(writer, thread, .id = thread, .process = 1, .tid = 9 + thread, .start = now);
	ROW(writer, frame, .id = 1, .address = 4096);
	for (uint32_t turn = 0; turn < TURNS; turn++) {
		ROW(writer, sched, .start = now, .end = now + RUN_NS, .thread = 1 + turn % 2,
		    .cpu = turn % 2, .woken = now - 100, .waker = 2 - turn % 2,
		    .after = WS_AFTER_SLEEPING);
		ROW(writer, sample, .start = now + 1, .thread = 1 + turn % 2, .frame = 1,
		    .time = RUN_NS / 5);
		now += RUN_NS + WAKING_NS;
	}
	ROW(writer, process_end, .process = 1, .end = now, .reason = WS_END_EXIT);
	ROW(writer, collection, .start = 1000000, .end = now);
	assert_int_equal(ws_writer_close(writer, &err), 0);
}

static void handing_over_costs_what_is_no_work(void **state)
{
	static const char *const rules[] = {"handovers", NULL};
	struct ws_model_options all = {.to = UINT64_MAX};
	struct ws_findings findings;
	struct ws_analysis *analysis;
	struct ws_report *report;
	struct ws_err err = {""};
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "test_model.%d.wsrep", (int)getpid());
	write_turns(path);
	report = ws_report_open_plain(path, &err);
	assert_non_null(report);
	analysis = ws_analysis_open(report, &all, &err);
	assert_non_null(analysis);
	ws_findings_make(analysis, rules, &findings);
	assert_int_equal(findings.count, 1);
	/* 20 of 25 us, of which a tenth remains; by 10 us a wait it would be less than half. */
	assert_true(findings.findings[0].cost_ns > analysis->window / 10 * 7);
	assert_true(findings.findings[0].gain_ns > analysis->window / 10 * 6);
	ws_findings_free(&findings);
	ws_analysis_close(analysis);
	ws_report_close(report);
	unlink(path);
}

/* ---- samples ---- */

enum { SAMPLES = 1000, SAMPLERS = 3 };

/* Blocks whose times of thread 2 overlap, and of which thread 1 has samples in one only. */
static void write_samples(const char *path)
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = SAMPLES};
	struct ws_err err = {""};
	struct ws_writer *writer = ws_writer_create(path, &options, &err);

	assert_non_null(writer);
	for (uint64_t i = 0; i < 3 * SAMPLES; i++)
		ROW(writer, sample, .start = 1 + i / SAMPLES + 5 * (i % SAMPLES),
		    .thread = i < SAMPLES / 2 ? 1 : 2, .frame = (uint32_t)i + 1,
		    .callers = (uint32_t)i / 3, .time = i % 7 ? i : i << 32);
	ROW(writer, sample, .start = 1, .thread = SAMPLERS, .frame = 1);
	ROW(writer, sample, .start = 1, .thread = SAMPLERS + 100, .frame = 1);
	assert_int_equal(ws_writer_close(writer, &err), 0);
}

struct places {
	size_t first[SAMPLERS + 1], end[SAMPLERS + 1];
};

static void keep_place(void *context, uint32_t thread, size_t first, size_t end)
{
	struct places *places = context;

	assert_true(thread <= SAMPLERS);
	places->first[thread] = first;
	places->end[thread] = end;
}

static void samples_are_sorted_by_thread_and_time(void **state)
{
	struct places places = {{0}};
	struct ws_samples samples;
	struct ws_report *report;
	struct ws_err err = {""};
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "test_model.%d.wsrep", (int)getpid());
	write_samples(path);
	report = ws_report_open_plain(path, &err);
	assert_non_null(report);
	ws_samples_load(report, SAMPLERS + 1, keep_place, &places, &samples);
	assert_int_equal(samples.rows, 3 * SAMPLES + 1);
	assert_int_equal(places.end[0], 0);
	assert_int_equal(places.end[1] - places.first[1], SAMPLES / 2);
	assert_int_equal(places.end[2] - places.first[2], 5 * SAMPLES / 2);
	assert_int_equal(places.end[3] - places.first[3], 1);
	for (uint32_t thread = 1; thread < SAMPLERS; thread++)
		for (size_t i = places.first[thread]; i < places.end[thread]; i++) {
			uint64_t number = samples.frame[i] - 1, block = number / SAMPLES;

			assert_true(i == places.first[thread] ||
				    samples.start[i - 1] <= samples.start[i]);
			assert_int_equal(samples.start[i], 1 + block + 5 * (number % SAMPLES));
			assert_int_equal(samples.callers[i], number / 3);
			assert_int_equal(ws_samples_get_time(&samples, i),
					 number % 7 ? number : number << 32);
		}
	ws_samples_free(&samples);
	ws_report_close(report);
	unlink(path);
}

/* ---- work on GPUs ---- */

enum { WORKS = 3000 };

/* Work of two processes on a GPU that both use, whose times are often equal, and on another; the
 * blocks of a table overlap. Each has the number of its row as correlation id. */
static void write_work(const char *path)
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 100};
	struct ws_err err = {""};
	struct ws_writer *writer = ws_writer_create(path, &options, &err);
	uint32_t uuid;

	assert_non_null(writer);
	uuid = ws_writer_string(writer, "shared", 6);
	for (uint32_t process = 1; process <= 2; process++)
		ROW(writer, cuda_device, .id = 0, .process = process, .uuid = uuid);
	for (uint32_t i = 0; i < WORKS; i++) {
		uint64_t start = 1000 + (i * 7919u) % 500, end = start + 10 + i % 3;

		if (i % 10 == 7)
			end = i % 20 == 7 ? WS_NO_TIME : start - 1;
		if (i % 3)
			ROW(writer, cuda_kernel, .start = start, .end = end, .process = 2 - i % 2,
			    .device = i % 5 == 4, .correlation = i);
		else
			ROW(writer, cuda_memset, .start = start, .end = end, .process = 2 - i % 2,
			    .device = i % 5 == 4, .correlation = i);
	}
	assert_int_equal(ws_writer_close(writer, &err), 0);
}

static void check_order(const struct ws_work_gpu *gpu)
{
	for (size_t i = 1; i < gpu->count; i++) {
		const struct ws_work_op *left = &gpu->op[i - 1], *right = &gpu->op[i];

		assert_true(left->start <= right->start);
		if (left->start != right->start)
			continue;
		assert_true(left->end <= right->end);
		if (left->end != right->end)
			continue;
		assert_true(left->set <= right->set); /* the table, then the process */
		if (left->set == right->set)
			assert_true(left->process <= right->process);
	}
}

static void work_is_in_order_on_each_gpu(void **state)
{
	uint8_t seen[WORKS] = {0};
	struct ws_report *report;
	struct ws_work work;
	struct ws_err err = {""};
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "test_model.%d.wsrep", (int)getpid());
	write_work(path);
	report = ws_report_open_plain(path, &err);
	assert_non_null(report);
	assert_int_equal(ws_work_load(report, 0, UINT64_MAX, &work, &err), 0);
	assert_int_equal(work.gpus, 3); /* the second GPU of each process is not described */
	assert_int_equal(work.unended, WORKS / 20);
	assert_int_equal(work.backwards, WORKS / 20);
	for (size_t gpu = 0; gpu < work.gpus; gpu++) {
		check_order(&work.gpu[gpu]);
		for (size_t i = 0; i < work.gpu[gpu].count; i++) {
			const struct ws_work_op *op = &work.gpu[gpu].op[i];

			assert_int_equal(seen[op->correlation]++, 0);
			assert_int_equal(op->start, 1000 + (op->correlation * 7919u) % 500);
			assert_int_equal(op->set, op->correlation % 3 == 0);
			assert_int_equal(work.gpu[gpu].device, op->correlation % 5 == 4);
		}
	}
	for (size_t i = 0; i < WORKS; i++)
		assert_int_equal(seen[i], i % 10 != 7);
	ws_work_free(&work);
	ws_report_close(report);
	unlink(path);
}

/* A function that is sampled at two addresses, and one that is sampled at another. */
static void write_two_functions(const char *path, uint64_t rounds)
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 64};
	struct ws_err err = {""};
	struct ws_writer *writer = ws_writer_create(path, &options, &err);
	uint32_t names[2];

	assert_non_null(writer);
	names[0] = ws_writer_string(writer, "work", 4);
	names[1] = ws_writer_string(writer, "other", 5);
	ROW(writer, process, .id = 1, .pid = 10, .start = 1, .origin = WS_ORIGIN_TARGET);
	ROW(writer, thread, .id = 1, .process = 1, .tid = 10, .start = 1);
	for (uint32_t frame = 1; frame <= 3; frame++)
		ROW(writer, frame, .id = frame, .address = 0x1000 * frame, .kind = WS_FRAME_USER,
		    .name = names[frame / 3]);
	for (uint64_t i = 0; i < 3 * rounds; i++)
		ROW(writer, sample, .start = 1000 + i, .thread = 1, .time = 100,
		    .frame = 1 + i % 3);
	ROW(writer, collection, .start = 1, .end = 1000 + 3 * rounds);
	assert_int_equal(ws_writer_close(writer, &err), 0);
}

static void check_two_functions(uint64_t rounds)
{
	struct ws_model_options options = {.to = UINT64_MAX};
	struct ws_analysis *analysis;
	struct ws_stack_keys keys;
	struct ws_report *report;
	struct ws_err err = {""};
	char path[64];

	snprintf(path, sizeof(path), "test_model.%d.wsrep", (int)getpid());
	write_two_functions(path, rounds);
	report = ws_report_open_plain(path, &err);
	assert_non_null(report);
	analysis = ws_analysis_open(report, &options, &err);
	assert_non_null(analysis);
	ws_stack_keys_make(analysis->model->stacks, &keys);
	assert_true(ws_get_stack_key(&keys, 1, 0) == ws_get_stack_key(&keys, 2, 0));
	assert_true(ws_get_stack_key(&keys, 1, 0) != ws_get_stack_key(&keys, 3, 0));
	assert_true(ws_get_stack_key(&keys, 99, 99) == ws_get_stack_key(&keys, 0, 0));
	ws_stack_keys_free(&keys);
	assert_int_equal(analysis->usage.count, 2);
	assert_int_equal(analysis->usage.rows[0].samples, 2 * rounds);
	assert_int_equal(analysis->usage.rows[0].lowest, 0x1000);
	assert_int_equal(analysis->usage.rows[0].highest, 0x2000);
	assert_int_equal(analysis->usage.rows[1].samples, rounds);
	assert_int_equal(analysis->usage.rows[1].lowest, 0x3000);
	ws_analysis_close(analysis);
	ws_report_close(report);
	unlink(path);
}

/* With few samples, and with more than there are stacks. */
static void addresses_of_a_function_count_together(void **state)
{
	(void)state;
	check_two_functions(1);
	check_two_functions(1000);
}

static void searching_ahead_finds_what_bisection_finds(void **state)
{
	uint64_t values[50];

	(void)state;
	for (size_t i = 0; i < WS_COUNT(values); i++)
		values[i] = i / 3 * 10;
	for (size_t from = 0; from <= WS_COUNT(values); from++)
		for (size_t end = from; end <= WS_COUNT(values); end++)
			for (uint64_t value = 0; value < 180; value += 5)
				assert_int_equal(ws_find_ahead(values, from, end, value),
						 from + ws_lower_bound(values + from, end - from,
								       value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_is_in_order_on_each_gpu),
		cmocka_unit_test(addresses_of_a_function_count_together),
		cmocka_unit_test(searching_ahead_finds_what_bisection_finds),
		cmocka_unit_test(joined_threads_stay_on_the_path),
		cmocka_unit_test(path_goes_through_a_child_that_is_waited_for),
		cmocka_unit_test(path_goes_to_no_thread_that_has_not_begun),
		cmocka_unit_test(handing_over_costs_what_is_no_work),
		cmocka_unit_test(samples_are_sorted_by_thread_and_time),
		cmocka_unit_test(brief_ranges_have_their_shares),
		cmocka_unit_test(nothing_changes_without_a_change),
		cmocka_unit_test(less_cost_is_less_time),
		cmocka_unit_test(changes_are_read_and_refused),
		cmocka_unit_test(stretches_cover_the_window),
		cmocka_unit_test(states_are_the_same_when_walked_once),
		cmocka_unit_test(states_are_the_same_when_read_block_by_block),
		cmocka_unit_test(damaged_blocks_are_counted_before_a_wait_on_a_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
