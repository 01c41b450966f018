/*
 * test_flight.c - a writer that keeps the last of what it is given: what it makes a report of is
 * the newest rows without a gap, each with its name, and everything that lasts; its memory and its
 * ids do not grow; names that are remembered stay as long as they are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/ticks.h"
#include "util.h"

enum { MEMORY = 1 << 20, FOR_EVER = 60 };

static struct ws_writer *writer;
static uint32_t held[4], held_count; /* ids of names that the test remembers */

static void hold(void *ctx)
{
	(void)ctx;
	for (uint32_t i = 0; i < held_count; i++)
		ws_writer_hold_string(writer, held[i]);
}

static void begin(uint64_t keep_ns)
{
	struct ws_flight_opts flight = {keep_ns, MEMORY, hold, NULL};
	struct ws_writer_opts opts = {.block_rows = 64, .folder = "/tmp", .flight = &flight};
	struct ws_err err;

	held_count = 0;
	writer = ws_writer_create(NULL, &opts, &err);
	if (!writer)
		fail_msg("%s", err.msg);
}

static uint32_t put_name(const char *format, uint64_t number, bool passing)
{
	char text[64];

	snprintf(text, sizeof(text), format, (unsigned long long)number);
	if (passing)
		return ws_writer_passing_string(writer, text, strlen(text));
	return ws_writer_string(writer, text, strlen(text));
}

/* Each row has its number, and a name that says it; every third has one that all have. */
static void add_event(uint64_t number)
{
	struct ws_row_nvtx row = {.start = 1000 + number * 10,
				  .end = 1005 + number * 10,
				  .thread = 1 + number % 5,
				  .payload = number};

	if (number % 3)
		row.text = put_name("the name of %llu", number, true);
	else
		row.text = put_name("every third", 0, false);
	ws_writer_add(writer, WS_TABLE_nvtx, &row);
}

static void add_events(uint64_t from, uint64_t to)
{
	for (uint64_t number = from; number < to; number++) {
		add_event(number);
		if (number % 97 == 0)
			ws_writer_commit(writer);
	}
}

/* ---- reading ---- */

struct seen {
	uint64_t first, count;
};

static void check_name(const struct ws_report *report, uint64_t number, uint32_t text)
{
	char expected[64] = "every third";

	if (number % 3)
		snprintf(expected, sizeof(expected), "the name of %llu",
			 (unsigned long long)number);
	assert_string_equal(ws_report_string(report, text, NULL), expected);
}

static void read_block(const struct ws_report *report, size_t block, uint8_t *found)
{
	uint64_t *out[WS_MAX_COLUMNS] = {0}, bits = 0;
	uint32_t rows = ws_report_block_info(report, WS_TABLE_nvtx, block).rows;
	static const uint32_t columns[] = {ws_nvtx_payload, ws_nvtx_text};
	struct ws_err err;

	for (size_t i = 0; i < 2; i++) {
		out[columns[i]] = ws_calloc(rows, sizeof(uint64_t));
		bits |= UINT64_C(1) << columns[i];
	}
	assert_int_equal(ws_report_decode_block(report, WS_TABLE_nvtx, block, bits, out, &err), 0);
	for (uint32_t i = 0; i < rows; i++) {
		check_name(report, out[ws_nvtx_payload][i], (uint32_t)out[ws_nvtx_text][i]);
		found[out[ws_nvtx_payload][i]]++;
	}
	for (size_t i = 0; i < 2; i++)
		free(out[columns[i]]);
}

/* The rows are those from some number up to `end`, each once. */
static struct seen read_events(const struct ws_report *report, uint64_t end)
{
	uint8_t *found = ws_calloc(end + 1, 1);
	struct seen seen = {.first = 0};
	size_t blocks = ws_report_count_blocks(report, WS_TABLE_nvtx);

	for (size_t i = 0; i < blocks; i++)
		read_block(report, i, found);
	while (seen.first < end && !found[seen.first])
		seen.first++;
	for (uint64_t i = seen.first; i < end; i++, seen.count++)
		assert_int_equal(found[i], 1);
	free(found);
	return seen;
}

static char *path; /* of the report */

/* End the flight in a report, which must be whole. */
static struct ws_report *join(void)
{
	struct ws_writer_opts opts = {.overwrite = true};
	struct ws_report *report;
	struct ws_err err;

	if (ws_writer_leave_flight(writer, path, &opts, &err) || ws_writer_close(writer, &err))
		fail_msg("%s", err.msg);
	report = ws_report_open(path, &err);
	if (!report)
		fail_msg("%s", err.msg);
	assert_true(ws_report_is_complete(report));
	assert_null(ws_report_get_damage(report, 0));
	assert_int_equal(ws_report_verify(report, NULL, NULL), 0);
	return report;
}

/* ---- tests ---- */

/* Less than fits: all of it. */
static void test_all_fits(void **state)
{
	struct ws_report *report;
	struct seen seen;

	(void)state;
	begin(UINT64_C(1000000000) * FOR_EVER);
	add_events(0, 3000);
	report = join();
	seen = read_events(report, 3000);
	assert_int_equal(seen.first, 0);
	ws_report_close(report);
}

/* Fifty times what fits: the newest, most of the memory used, and never more than there is. */
static void test_memory(void **state)
{
	const uint64_t end = 600000;
	struct ws_report *report;
	struct seen seen;

	(void)state;
	begin(UINT64_C(1000000000) * FOR_EVER);
	for (uint64_t number = 0; number < end; number += 10000) {
		struct ws_flight_state kept;

		add_events(number, number + 10000);
		ws_writer_commit(writer);
		kept = ws_writer_flight_state(writer);
		assert_true(kept.bytes <= MEMORY);
		if (number > end / 2)
			assert_true(kept.bytes > MEMORY / 5 * 4);
	}
	report = join();
	seen = read_events(report, end);
	assert_true(seen.first > end / 2 && seen.count > 1000);
	/* Ids are used again. */
	assert_true(ws_report_string_count(report) < end / 3);
	ws_report_close(report);
}

/* Rows that are older than the time go; those that are not stay. */
static void test_time(void **state)
{
	struct ws_report *report;
	struct seen seen;
	uint64_t from;

	(void)state;
	begin(UINT64_C(160000000));
	add_events(0, 100);
	for (int i = 0; i < 40; i++) {
		usleep(10000);
		ws_writer_commit(writer);
	}
	add_events(100, 200);
	from = ws_writer_flight_state(writer).from;
	assert_true(ws_read_raw_ns() - from >= UINT64_C(160000000));
	report = join();
	seen = read_events(report, 200);
	assert_int_equal(seen.first, 100);
	ws_report_close(report);
}

/* A name that something remembers is there however old it is, and no longer. */
static void test_held_names(void **state)
{
	struct ws_row_nvtx row = {.start = 1, .end = 2, .thread = 1};
	struct ws_report *report;
	uint64_t *out[WS_MAX_COLUMNS] = {0};
	struct ws_err err;
	size_t last;
	uint32_t rows;

	(void)state;
	begin(UINT64_C(1000000000) * FOR_EVER);
	held[0] = put_name("remembered", 0, true);
	held_count = 1;
	add_events(0, 200000);
	row.text = held[0];
	row.start = UINT64_C(1) << 40;
	row.end = row.start + 1;
	ws_writer_add(writer, WS_TABLE_nvtx, &row);
	report = join();
	last = ws_report_count_blocks(report, WS_TABLE_nvtx) - 1;
	rows = ws_report_block_info(report, WS_TABLE_nvtx, last).rows;
	out[ws_nvtx_text] = ws_calloc(rows, sizeof(uint64_t));
	out[ws_nvtx_start] = ws_calloc(rows, sizeof(uint64_t));
	assert_int_equal(ws_report_decode_block(report, WS_TABLE_nvtx, last,
						UINT64_C(1) << ws_nvtx_text |
							UINT64_C(1) << ws_nvtx_start,
						out, &err),
			 0);
	for (uint32_t i = 0; i < rows; i++)
		if (out[ws_nvtx_start][i] == row.start)
			assert_string_equal(ws_report_string(report, (uint32_t)out[ws_nvtx_text][i],
							     NULL),
					    "remembered");
	free(out[ws_nvtx_text]);
	free(out[ws_nvtx_start]);
	ws_report_close(report);
}

static void add_process(uint32_t id, bool ends)
{
	struct ws_row_process process = {
		.id = id, .pid = id, .exe = put_name("program %llu", id, false)};
	struct ws_row_thread thread = {.id = id * 2, .process = id, .tid = id};
	struct ws_row_thread_name name = {.thread = id * 2, .name = process.exe};
	struct ws_row_process_end end = {
		.process = id, .end = ws_read_raw_ns(), .reason = WS_END_EXIT};

	ws_writer_add(writer, WS_TABLE_process, &process);
	ws_writer_add(writer, WS_TABLE_thread, &thread);
	ws_writer_add(writer, WS_TABLE_thread_name, &name);
	if (ends)
		ws_writer_add(writer, WS_TABLE_process_end, &end);
}

/* What lasts is in the report, but for processes that ended before all that is kept. */
static void test_what_lasts(void **state)
{
	const uint32_t processes = 10000;
	struct ws_report *report;

	(void)state;
	begin(UINT64_C(16000000));
	for (uint32_t id = 1; id <= processes; id++) {
		add_process(id, id != 7);
		add_event(id);
		if (id % 100 == 0)
			usleep(2000);
		ws_writer_commit(writer);
	}
	usleep(20000);
	add_process(processes + 1, false);
	ws_writer_commit(writer);
	report = join();
	assert_true(ws_report_count_rows(report, WS_TABLE_process) < processes / 2);
	assert_true(ws_report_count_rows(report, WS_TABLE_process) >= 2);
	assert_int_equal(ws_report_count_rows(report, WS_TABLE_thread),
			 ws_report_count_rows(report, WS_TABLE_process));
	assert_int_equal(ws_report_count_rows(report, WS_TABLE_thread_name),
			 ws_report_count_rows(report, WS_TABLE_process));
	ws_report_close(report);
}

/* Rows that are meant for a snapshot alone are not in the next one. */
static void test_forgotten_rows(void **state)
{
	struct ws_row_process process = {.id = 1, .pid = 1};
	struct ws_report *report;
	struct seen seen;

	(void)state;
	begin(UINT64_C(1000000000) * FOR_EVER);
	add_events(0, 100);
	ws_writer_flush(writer);
	add_events(900, 930);
	ws_writer_add(writer, WS_TABLE_process, &process);
	ws_writer_forget_staged(writer);
	add_events(100, 200);
	report = join();
	seen = read_events(report, 200);
	assert_int_equal(seen.count, 200);
	assert_int_equal(ws_report_count_rows(report, WS_TABLE_nvtx), 200);
	assert_int_equal(ws_report_count_rows(report, WS_TABLE_process), 1);
	ws_report_close(report);
}

/* A forked process writes what there is at that moment; the recorder goes on meanwhile, and neither
 * disturbs the other. */
static void test_fork(void **state)
{
	struct ws_report *report;
	struct ws_err err;
	int ends[2], status;
	char byte = 0;
	pid_t child;

	(void)state;
	begin(UINT64_C(1000000000) * FOR_EVER);
	add_events(0, 1000);
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (!child) {
		struct ws_writer_opts opts = {.overwrite = true};

		if (read(ends[0], &byte, 1) != 1 ||
		    ws_writer_leave_flight(writer, path, &opts, &err) ||
		    ws_writer_close(writer, &err))
			_exit(1);
		_exit(0);
	}
	add_events(1000, 2000);
	ws_writer_flush(writer);
	assert_int_equal(write(ends[1], &byte, 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(ends[0]);
	close(ends[1]);
	report = ws_report_open(path, &err);
	assert_non_null(report);
	assert_int_equal(ws_report_verify(report, NULL, NULL), 0);
	assert_int_equal(read_events(report, 1000).count, 1000);
	ws_report_close(report);
	add_events(2000, 3000);
	report = join();
	assert_int_equal(read_events(report, 3000).count, 3000);
	ws_report_close(report);
}

/* A name that is taken: the writer goes on as it was. */
static void test_refused_name(void **state)
{
	struct ws_writer_opts opts = {.overwrite = false};
	struct ws_report *report;
	struct ws_err err;

	(void)state;
	begin(UINT64_C(1000000000) * FOR_EVER);
	add_events(0, 100);
	assert_int_equal(ws_writer_leave_flight(writer, path, &opts, &err), -1);
	add_events(100, 200);
	report = join();
	assert_int_equal(read_events(report, 200).first, 0);
	ws_report_close(report);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_fits),   cmocka_unit_test(test_memory),
		cmocka_unit_test(test_time),	   cmocka_unit_test(test_held_names),
		cmocka_unit_test(test_what_lasts), cmocka_unit_test(test_forgotten_rows),
		cmocka_unit_test(test_fork),	   cmocka_unit_test(test_refused_name),
	};

	int failed;

	make_folder();
	path = in_folder("flight.wsrep");
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(path);
	end_folder();
	return failed;
}
