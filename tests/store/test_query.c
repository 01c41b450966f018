/*
 * test_query.c - scans, ordered loading, the cursor, windows, who, meta: against plain loops over
 * the same rows.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "query/cursor.h"
#include "util.h"

enum { ROWS = 60000, BLOCK = 1000 };

static struct ws_row_nvtx *rows;
static struct ws_report *report;
static char *path;

/* Rows of five threads, drained in turns, with a parent every now and then that spans many blocks,
 * and marks. */
static void make_rows(void)
{
	uint64_t at[5] = {1000, 1200, 1400, 900, 2000}, outer[5] = {0};

	rows = ws_calloc(ROWS, sizeof(*rows));
	for (uint32_t i = 0, k = 0; i < ROWS; i++) {
		uint32_t t = k % 5;

		if (!below(50))
			k++;
		rows[i] = (struct ws_row_nvtx){.start = at[t],
					       .end = at[t] + 20 + below(100),
					       .thread = t + 1,
					       .payload = i,
					       .text = 1 + i % 3};
		if (!below(97))
			rows[i].end = WS_NO_TIME;
		if (!below(3000)) { /* closes now, began long ago */
			rows[i].start = outer[t];
			rows[i].end = at[t];
			outer[t] = at[t];
		} else {
			at[t] += 20 + below(150);
		}
	}
}

static int set_up(void **state)
{
	struct ws_writer_opts opts = {.block_rows = BLOCK, .overwrite = true};
	struct ws_err err;
	struct ws_writer *writer;

	(void)state;
	path = in_folder("query.wsrep");
	writer = ws_writer_create(path, &opts, &err);
	assert_non_null(writer);
	make_rows();
	ws_writer_string(writer, "one", 3);
	ws_writer_string(writer, "two", 3);
	ws_writer_string(writer, "three", 5);
	for (uint32_t i = 0; i < ROWS; i++)
		ws_writer_add(writer, WS_TABLE_nvtx, &rows[i]);
	assert_int_equal(ws_writer_close(writer, &err), 0);
	report = open_or_fail(path);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ws_report_close(report);
	free(rows);
	free(path);
	return 0;
}

static uint64_t span_end(const struct ws_row_nvtx *row)
{
	return row->end == WS_NO_TIME ? row->start : row->end;
}

static bool in_window(const struct ws_row_nvtx *row, uint64_t min, uint64_t max)
{
	return row->start <= max && span_end(row) >= min;
}

/* ---- scans ---- */

struct tally {
	uint64_t rows, payload, text;
	uint32_t wrong;
	uint64_t min, max;
};

static int tally_batch(void *ctx, const struct ws_batch *batch)
{
	struct tally *tally = ctx;
	uint64_t sum = 0, text = 0;

	for (size_t i = 0; i < batch->rows; i++) {
		const struct ws_row_nvtx *row = &rows[batch->col[ws_nvtx_payload][i]];

		sum += batch->col[ws_nvtx_payload][i];
		text += batch->col[ws_nvtx_text][i];
		if (row->text != batch->col[ws_nvtx_text][i] ||
		    !in_window(row, tally->min, tally->max))
			__atomic_fetch_add(&tally->wrong, 1, __ATOMIC_RELAXED);
	}
	if (batch->col[ws_nvtx_start])
		__atomic_fetch_add(&tally->wrong, 1, __ATOMIC_RELAXED); /* not asked for */
	__atomic_fetch_add(&tally->rows, batch->rows, __ATOMIC_RELAXED);
	__atomic_fetch_add(&tally->payload, sum, __ATOMIC_RELAXED);
	__atomic_fetch_add(&tally->text, text, __ATOMIC_RELAXED);
	return 0;
}

static void scan_window(uint64_t min, uint64_t max, uint32_t workers)
{
	struct ws_scan scan = {.table = WS_TABLE_nvtx,
			       .columns = WS_COLUMN_BIT(nvtx, payload) | WS_COLUMN_BIT(nvtx, text),
			       .time_min = min,
			       .time_max = max,
			       .workers = workers};
	struct tally tally = {.min = min, .max = max};
	uint64_t n = 0, payload = 0, damaged = 9;

	assert_int_equal(ws_run_scan(report, &scan, tally_batch, &tally, &damaged), 0);
	for (uint32_t i = 0; i < ROWS; i++)
		if (in_window(&rows[i], min, max)) {
			n++;
			payload += i;
		}
	assert_int_equal(damaged, 0);
	assert_int_equal(tally.rows, n);
	assert_int_equal(tally.payload, payload);
	assert_int_equal(tally.wrong, 0);
}

static void test_scans(void **state)
{
	(void)state;
	scan_window(0, UINT64_MAX, 0);
	scan_window(0, UINT64_MAX, 1);
	for (int i = 0; i < 20; i++) {
		uint64_t a = below(1200000), b = a + below(300000);

		scan_window(a, b, 0);
	}
	scan_window(UINT64_C(1) << 60, UINT64_C(1) << 61, 0);
}

static int stop_at_once(void *ctx, const struct ws_batch *batch)
{
	(void)batch;
	__atomic_fetch_add((uint32_t *)ctx, 1, __ATOMIC_RELAXED);
	return 42;
}

static void scan_stops(void **state)
{
	struct ws_scan scan = {.table = WS_TABLE_nvtx,
			       .columns = WS_COLUMN_BIT(nvtx, text),
			       .time_max = UINT64_MAX};
	uint32_t calls = 0;

	(void)state;
	assert_int_equal(ws_run_scan(report, &scan, stop_at_once, &calls, NULL), 42);
	assert_true(calls <= ws_count_scan_workers(&scan));
}

/* ---- ordered ---- */

static void load_window(uint64_t min, uint64_t max)
{
	struct ws_scan scan = {.table = WS_TABLE_nvtx,
			       .columns = WS_COLUMN_BIT(nvtx, payload) | WS_COLUMN_BIT(nvtx, end) |
					  WS_COLUMN_BIT(nvtx, thread),
			       .time_min = min,
			       .time_max = max};
	struct ws_rows got;
	size_t n = 0;
	struct ws_row_nvtx *want = ws_malloc(ROWS * sizeof(*want));

	for (uint32_t i = 0; i < ROWS; i++)
		if (in_window(&rows[i], min, max))
			want[n++] = rows[i];
	sort_as_promised(WS_TABLE_nvtx, (char *)want, (uint32_t)n);
	assert_int_equal(ws_rows_load(report, &scan, &got, NULL), 0);
	assert_int_equal(got.rows, n);
	assert_int_equal(got.damaged, 0);
	assert_null(got.col[ws_nvtx_start]);
	for (size_t i = 0; i < n; i++) {
		const struct ws_row_nvtx *row = &rows[got.col[ws_nvtx_payload][i]];

		assert_int_equal(row->start, want[i].start);
		assert_int_equal(row->thread, want[i].thread);
		assert_int_equal(got.col[ws_nvtx_thread][i], want[i].thread);
		assert_int_equal(got.col[ws_nvtx_end][i], want[i].end);
		assert_int_equal(row->end, want[i].end);
	}
	ws_rows_free(&got);
	free(want);
}

static void test_loads(void **state)
{
	(void)state;
	load_window(0, UINT64_MAX);
	load_window(100000, 400000);
	load_window(UINT64_C(1) << 60, UINT64_C(1) << 61);
}

/* Blocks that follow one another: the columns that order them are not even decoded, and not given
 * out. */
static void loads_in_order(void **state)
{
	struct ws_writer_opts opts = {.block_rows = 100, .overwrite = true};
	char *at = in_folder("order.wsrep");
	struct ws_scan scan = {.table = WS_TABLE_nvtx,
			       .columns = WS_COLUMN_BIT(nvtx, payload),
			       .time_max = UINT64_MAX};
	struct ws_rows got;
	struct ws_err err;

	(void)state;
	for (int threads = 1; threads < 4; threads++)
		for (uint64_t step = 0; step < 2;
		     step++) { /* step 0: all at the same time, longer first */
			struct ws_writer *writer = ws_writer_create(at, &opts, &err);

			for (uint32_t i = 0; i < 900; i++)
				ws_writer_add(writer, WS_TABLE_nvtx,
					      &(struct ws_row_nvtx){
						      .start = 100 + i * step,
						      .end = step ? 101 + i : 100 + i,
						      .thread = 1 + i * (uint32_t)threads / 900,
						      .payload = i});
			assert_int_equal(ws_writer_close(writer, &err), 0);
			struct ws_report *report = open_or_fail(at);

			assert_int_equal(ws_rows_load(report, &scan, &got, NULL), 0);
			assert_int_equal(got.rows, 900);
			assert_null(got.col[ws_nvtx_start]);
			for (uint32_t i = 0; i < 900; i++) {
				uint32_t per = 900 / (uint32_t)threads;

				assert_int_equal(got.col[ws_nvtx_payload][i],
						 step ? i : i / per * per + (per - 1 - i % per));
			}
			ws_rows_free(&got);
			ws_report_close(report);
		}
	free(at);
}

static void cursor_window(uint64_t min, uint64_t max)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_nvtx, min, max);
	char *seen = ws_calloc(ROWS, 1);
	const uint64_t *values;
	uint64_t last = 0;
	size_t n = 0, want = 0;

	while (ws_cursor_next(cursor, &values)) {
		const struct ws_row_nvtx *row = &rows[values[ws_nvtx_payload]];

		assert_true(values[ws_nvtx_start] >= last);
		last = values[ws_nvtx_start];
		for (uint32_t k = 0; k < ws_nvtx_COLUMNS; k++)
			assert_int_equal(values[k], ws_row_get(WS_TABLE_nvtx, row, k));
		assert_int_equal(seen[values[ws_nvtx_payload]]++, 0);
		assert_true(in_window(row, min, max));
		n++;
	}
	for (uint32_t i = 0; i < ROWS; i++)
		want += in_window(&rows[i], min, max);
	assert_int_equal(n, want);
	ws_cursor_close(cursor);
	free(seen);
}

static void test_cursors(void **state)
{
	(void)state;
	cursor_window(0, UINT64_MAX);
	cursor_window(200000, 210000);
	ws_cursor_max_bytes = 100000; /* blocks are put aside and decoded again */
	cursor_window(0, UINT64_MAX);
	ws_cursor_max_bytes = 0;
	cursor_window(100000, 700000);
	ws_cursor_max_bytes = (size_t)256 << 20;
	ws_cursor_close(
		ws_cursor_open(report, WS_TABLE_nvtx, 0, UINT64_MAX)); /* closed before the end */
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_osrt, 0, UINT64_MAX);
	const uint64_t *values;

	assert_false(ws_cursor_next(cursor, &values));
	assert_false(ws_cursor_next(cursor, &values));
	ws_cursor_close(cursor);
}

/* Of the columns that were not asked for there is nothing, of the others what there is. */
static void test_cursor_columns(void **state)
{
	const uint64_t columns = WS_COLUMN_BIT(nvtx, payload) | WS_COLUMN_BIT(nvtx, text);
	const uint64_t read =
		columns | WS_COLUMN_BIT(nvtx, start) | WS_COLUMN_BIT(nvtx, end); /* in any case */
	struct ws_cursor *cursor =
		ws_cursor_open_columns(report, WS_TABLE_nvtx, columns, 200000, 210000);
	const uint64_t *values;
	size_t n = 0, want = 0;

	(void)state;
	while (ws_cursor_next(cursor, &values)) {
		const struct ws_row_nvtx *row = &rows[values[ws_nvtx_payload]];

		for (uint32_t k = 0; k < ws_nvtx_COLUMNS; k++)
			assert_int_equal(values[k],
					 read >> k & 1 ? ws_row_get(WS_TABLE_nvtx, row, k) : 0);
		n++;
	}
	for (uint32_t i = 0; i < ROWS; i++)
		want += in_window(&rows[i], 200000, 210000);
	assert_int_equal(n, want);
	ws_cursor_close(cursor);
}

/* ---- who and what ---- */

static uint32_t string_of(struct ws_writer *writer, const char *word)
{
	return ws_writer_string(writer, word, strlen(word));
}

static void write_who(struct ws_writer *writer)
{
	struct ws_row_process left = {.id = 1,
				      .pid = 100,
				      .start = 5,
				      .name = string_of(writer, "app"),
				      .exe = string_of(writer, "/bin/app")};
	struct ws_row_process right = {
		.id = 2, .pid = 200, .start = 9, .parent = 1, .name = string_of(writer, "child")};
	struct ws_row_process_end end = {.process = 2, .end = 77, .status = -9};
	struct ws_row_thread rows[] = {{1, 1, 100, 5}, {2, 1, 101, 6}, {3, 2, 200, 9}};
	struct ws_row_thread_name row_thread_names[] = {
		{1, 5, string_of(writer, "kernel's"), 10},
		{1, 6, string_of(writer, "set by nvtx"), 30},
		{1, 7, string_of(writer, "set later"), 20},
		{2, 8, string_of(writer, "old"), 20},
		{2, 9, string_of(writer, "new"), 20},
	};

	ws_writer_add(writer, WS_TABLE_process, &right);
	ws_writer_add(writer, WS_TABLE_process, &left);
	ws_writer_add(writer, WS_TABLE_process_end, &end);
	for (size_t i = 0; i < WS_COUNT(rows); i++)
		ws_writer_add(writer, WS_TABLE_thread, &rows[i]);
	for (size_t i = 0; i < WS_COUNT(row_thread_names); i++)
		ws_writer_add(writer, WS_TABLE_thread_name, &row_thread_names[i]);
	ws_writer_add(writer, WS_TABLE_meta,
		      &(struct ws_row_meta){string_of(writer, "host.name"),
					    string_of(writer, "here")});
	ws_writer_add(writer, WS_TABLE_meta,
		      &(struct ws_row_meta){string_of(writer, "env.RANK"), string_of(writer, "")});
	ws_writer_add(writer, WS_TABLE_collection, &(struct ws_row_collection){900, WS_NO_TIME});
	ws_writer_add(writer, WS_TABLE_collection, &(struct ws_row_collection){400, 800});
	ws_writer_add(writer, WS_TABLE_nvtx,
		      &(struct ws_row_nvtx){.start = 450, .end = 950, .thread = 1});
	ws_writer_add(writer, WS_TABLE_osrt,
		      &(struct ws_row_osrt){.start = 970, .end = WS_NO_TIME, .thread = 1});
}

static void check_who(const struct ws_report *report)
{
	struct ws_names_by_id *who = ws_who_open(report);

	assert_int_equal(ws_highest_thread_id(who), 3);
	assert_int_equal(ws_highest_process_id(who), 2);
	assert_string_equal(ws_find_thread(who, 1)->name, "set by nvtx");
	assert_string_equal(ws_find_thread(who, 2)->name, "new");
	assert_string_equal(ws_find_thread(who, 3)->name, "");
	assert_string_equal(ws_find_thread(who, 3)->process_name, "child");
	assert_int_equal(ws_find_thread(who, 2)->global_tid, 100u << 24 | 101);
	assert_int_equal(ws_find_process(who, 2)->end, 77);
	assert_int_equal(ws_find_process(who, 2)->parent, 1);
	assert_int_equal(ws_find_process(who, 1)->end, WS_NO_TIME);
	assert_string_equal(ws_find_process(who, 1)->exe, "/bin/app");
	assert_int_equal(ws_find_thread(who, 99)->id, 0);
	assert_string_equal(ws_find_process(who, 99)->name, "unknown");
	ws_who_close(who);
}

static void who_and_meta(void **state)
{
	char *at = in_folder("who.wsrep");
	struct ws_err err;
	struct ws_writer *writer = ws_writer_create(at, NULL, &err);

	(void)state;
	assert_non_null(writer);
	write_who(writer);
	assert_int_equal(ws_writer_close(writer, &err), 0);
	struct ws_report *report = open_or_fail(at);

	check_who(report);
	assert_string_equal(ws_find_meta(report, "host.name"), "here");
	assert_string_equal(ws_find_meta(report, "env.RANK"), "");
	assert_null(ws_find_meta(report, "nothing"));
	assert_int_equal(ws_find_time_zero(report), 400);
	assert_int_equal(ws_find_time_last(report), 970);
	ws_report_close(report);
	free(at);
}

static void empty_report(void **state)
{
	char *at = in_folder("empty.wsrep");
	struct ws_err err;
	struct ws_writer *writer = ws_writer_create(at, NULL, &err);
	struct ws_rows got;
	struct ws_scan scan = {
		.table = WS_TABLE_nvtx, .columns = UINT64_MAX, .time_max = UINT64_MAX};

	(void)state;
	assert_int_equal(ws_writer_close(writer, &err), 0);
	struct ws_report *report = open_or_fail(at);

	assert_true(ws_report_is_complete(report));
	assert_int_equal(ws_rows_load(report, &scan, &got, &err), 0);
	assert_int_equal(got.rows, 0);
	ws_rows_free(&got);
	assert_int_equal(ws_find_time_zero(report), 0);
	assert_int_equal(ws_find_time_last(report), 0);
	assert_null(ws_find_meta(report, "x"));
	ws_report_close(report);
	free(at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scans),	cmocka_unit_test(scan_stops),
		cmocka_unit_test(test_loads),	cmocka_unit_test(loads_in_order),
		cmocka_unit_test(test_cursors), cmocka_unit_test(test_cursor_columns),
		cmocka_unit_test(who_and_meta), cmocka_unit_test(empty_report),
	};
	int rc;

	make_folder();
	rc = cmocka_run_group_tests_name("query", tests, set_up, tear_down);
	end_folder();
	return rc;
}
