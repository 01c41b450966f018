/*
 * test_damage.c - reports cut short at every length and with every bit flipped: either an error, a
 * stated loss, or the same data. What is delivered is always right, row by row.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "reseal.h"
#include "util.h"

enum { NVTX = 700, OSRT = 90, BLOCK = 200 };

static struct ws_row_nvtx nvtx[NVTX];
static struct ws_row_osrt osrt[OSRT];
static char *good, *path;
static size_t size;

static void make_report(void)
{
	struct ws_writer_opts opts = {.block_rows = BLOCK, .overwrite = true};
	struct ws_err err;
	struct ws_writer *writer = ws_writer_create(path, &opts, &err);
	char text[40];

	assert_non_null(writer);
	for (uint32_t i = 0; i < NVTX; i++) {
		nvtx[i] = (struct ws_row_nvtx){.start = 1000 + i * 50,
					       .end = 1000 + i * 50 + 20 + below(400),
					       .thread = 1 + i / 300};
		nvtx[i].text = ws_writer_string(
			writer, text, (size_t)snprintf(text, sizeof(text), "name %u", i / 7));
		nvtx[i].payload = i;
		ws_writer_add(writer, WS_TABLE_nvtx, &nvtx[i]);
	}
	for (uint32_t i = 0; i < OSRT; i++) {
		osrt[i] = (struct ws_row_osrt){
			.start = 900 + i * 700, .end = 950 + i * 700, .thread = 1, .result = i};
		ws_writer_add(writer, WS_TABLE_osrt, &osrt[i]);
	}
	assert_int_equal(ws_writer_close(writer, &err), 0);
	good = read_file(path, &size);
}

struct check {
	const struct ws_report *report;
	uint64_t rows;
	bool wrong;
};

/* Every delivered row must be one that was written, and its text the one it had, or said to be
 * lost. */
static int check_nvtx(void *ctx, const struct ws_batch *batch)
{
	struct check *check = ctx;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t k = batch->col[ws_nvtx_payload][i];
		char text[40];

		if (k >= NVTX || batch->col[ws_nvtx_start][i] != nvtx[k].start ||
		    batch->col[ws_nvtx_end][i] != nvtx[k].end ||
		    batch->col[ws_nvtx_thread][i] != nvtx[k].thread ||
		    batch->col[ws_nvtx_text][i] != nvtx[k].text) {
			check->wrong = true;
			return 1;
		}
		const char *word = ws_report_string(check->report, nvtx[k].text, NULL);

		snprintf(text, sizeof(text), "name %u", (unsigned)k / 7);
		if (strcmp(word, text) && !(ws_report_get_damage(check->report, 0) &&
					    (!*word || !strncmp(word, "(lost", 5)))) {
			check->wrong = true;
			return 1;
		}
	}
	check->rows += batch->rows;
	return 0;
}

static int check_osrt(void *ctx, const struct ws_batch *batch)
{
	struct check *check = ctx;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t k = batch->col[ws_osrt_result][i];

		if (k >= OSRT || batch->col[ws_osrt_start][i] != osrt[k].start ||
		    batch->col[ws_osrt_end][i] != osrt[k].end)
			check->wrong = true;
	}
	check->rows += batch->rows;
	return check->wrong;
}

/* Returns the rows delivered; *stated gets whether the report says that something is missing. */
static uint64_t check_damage(const struct ws_report *report, bool *stated)
{
	struct check check = {.report = report};
	struct ws_scan scan = {.table = WS_TABLE_nvtx,
			       .columns = UINT64_MAX,
			       .time_max = UINT64_MAX,
			       .workers = 1};
	uint64_t damaged = 0, more = 0;

	ws_run_scan(report, &scan, check_nvtx, &check, &damaged);
	scan.table = WS_TABLE_osrt;
	ws_run_scan(report, &scan, check_osrt, &check, &more);
	assert_false(check.wrong);
	*stated = ws_report_get_damage(report, 0) || damaged || more;
	assert_int_equal(ws_report_is_complete(report), !ws_report_get_damage(report, 0));
	return check.rows;
}

static void try_bytes(const char *from, size_t n, const char *what, size_t at)
{
	struct ws_err err;
	struct ws_report *report;
	bool stated;

	write_file(path, from, n);
	report = ws_report_open(path, &err);
	if (!report) {
		assert_true(strlen(err.msg) > 10);
		return;
	}
	if (check_damage(report, &stated) != NVTX + OSRT && !stated)
		fail_msg("%s at %zu: rows are missing and nobody says so", what, at);
	if (!stated && ws_report_verify(report, NULL, NULL))
		fail_msg("%s at %zu: verify finds what reading did not", what, at);
	ws_report_close(report);
}

/* With a sanitizer, which looks for what a place in the code does wrong, about every fourth place
 * of the file; without one, all of them. */
static size_t stride = 1;

static int set_up(void **state)
{
	(void)state;
	if (getenv("WS_TEST_SANITIZE"))
		stride = 8;
	path = in_folder("damage.wsrep");
	make_report();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(good);
	free(path);
	return 0;
}

static void every_length(void **state)
{
	(void)state;
	for (size_t n = 0; n < size; n += 1 + below(stride)) {
		struct ws_err err;
		struct ws_report *report;
		bool stated;

		write_file(path, good, n);
		report = ws_report_open(path, &err);
		if (n < 64)
			assert_null(report);
		if (!report)
			continue;
		check_damage(report, &stated);
		assert_true(stated); /* no shorter file is complete */
		ws_report_close(report);
	}
}

static void every_bit(void **state)
{
	char *at = ws_malloc(size);

	(void)state;
	for (size_t bit = 0; bit < size * 8;
	     bit += 1 + below((bit / 8 > 4096 && bit / 8 < size - 2048 ? 5 : 1) * stride)) {
		memcpy(at, good, size);
		at[bit / 8] ^= (char)(1 << bit % 8);
		try_bytes(at, size, "bit", bit);
	}
	free(at);
}

static void test_garbage(void **state)
{
	char *from = ws_malloc(size + 5000);

	(void)state;
	for (int i = 0; i < 3000; i++) {
		size_t at = below(size), n = 1 + below(300);

		memcpy(from, good, size);
		switch (below(4)) {
		case 0: /* overwritten */
			for (size_t k = at; k < size && k < at + n; k++)
				from[k] = (char)draw();
			try_bytes(from, size, "garbage", at);
			break;
		case 1: /* a hole */
			n = n > size - at ? size - at : n;
			memmove(from + at, from + at + n, size - at - n);
			try_bytes(from, size - n, "hole", at);
			break;
		case 2: /* something pushed in */
			memmove(from + at + n, from + at, size - at);
			try_bytes(from, size + n, "insertion", at);
			break;
		default: /* a piece that stands twice */
			n = n * 20 > size - at ? size - at : n * 20;
			memcpy(from + size, from + at, ws_min(n, 5000));
			try_bytes(from, size + (ws_min(n, 5000)), "repeat", at);
		}
	}
	free(from);
}

/* The file shrinks while it is open: blocks that are gone are counted, and nothing crashes. */
static void shrinks_while_open(void **state)
{
	struct ws_scan scan = {
		.table = WS_TABLE_nvtx, .columns = UINT64_MAX, .time_max = UINT64_MAX};
	struct ws_rows rows;
	struct ws_report *report;

	(void)state;
	write_file(path, good, size);
	report = open_or_fail(path);
	assert_int_equal(
		truncate(path, (off_t)ws_report_block_info(report, WS_TABLE_nvtx, 1).offset + 100),
		0);
	assert_int_equal(ws_rows_load(report, &scan, &rows, NULL), 0);
	assert_int_equal(rows.damaged, ws_report_count_blocks(report, WS_TABLE_nvtx) - 1);
	assert_int_equal(rows.rows, BLOCK);
	for (size_t i = 0; i < rows.rows; i++)
		assert_int_equal(rows.col[ws_nvtx_start][i], nvtx[i].start);
	ws_rows_free(&rows);
	assert_true(ws_report_verify(report, NULL, NULL) > 0);
	ws_report_close(report);
}

static void not_reports(void **state)
{
	static const char *const texts[] = {"", "x",
					    "hello, this is a text file that is longer than the "
					    "header of a report, to be sure of that\n"};
	struct ws_err err;

	(void)state;
	for (size_t i = 0; i < WS_COUNT(texts); i++) {
		write_file(path, texts[i], strlen(texts[i]));
		assert_null(ws_report_open(path, &err));
		assert_non_null(strstr(err.msg, path));
		assert_non_null(strstr(err.msg, *texts[i] ? "no warpsight report" : "is empty"));
	}
	assert_null(ws_report_open("/dev/null", &err));
	assert_non_null(strstr(err.msg, "regular file"));
	unlink(path);
	assert_null(ws_report_open(path, &err));
	assert_non_null(strstr(err.msg, "No such file"));
}

/* A file of a later minor version opens; of a later major one it is refused by name. */
static void test_versions(void **state)
{
	uint8_t *bytes = ws_malloc(size);
	struct ws_report *report;
	struct ws_err err;
	bool stated;

	(void)state;
	memcpy(bytes, good, size);
	bytes[10] += 9; /* minor */
	reseal(bytes, size);
	write_file(path, bytes, size);
	report = open_or_fail(path);
	assert_int_equal(check_damage(report, &stated), NVTX + OSRT);
	assert_false(stated);
	ws_report_close(report);
	bytes[8]++; /* major */
	reseal(bytes, size);
	write_file(path, bytes, size);
	assert_null(ws_report_open(path, &err));
	assert_non_null(strstr(err.msg, "has format 2."));
	free(bytes);
}

/* Puts another name of the same length in the schema, wherever `old` stands there as a name. */
static void rename_in_schema(uint8_t *bytes, const char *old, const char *new)
{
	size_t n = strlen(old);
	int found = 0;

	for (size_t i = 64; i + n + 2 < size; i++)
		if (bytes[i] == n && !bytes[i + 1] && !memcmp(bytes + i + 2, old, n)) {
			memcpy(bytes + i + 2, new, n);
			found++;
		}
	assert_true(found);
}

/* Files of versions with other tables and columns: theirs are skipped, ours that they lack are
 * zero. */
static void other_schemas(void **state)
{
	uint8_t *bytes = ws_malloc(size);
	struct ws_scan scan = {.table = WS_TABLE_nvtx,
			       .columns = UINT64_MAX,
			       .time_max = UINT64_MAX,
			       .workers = 1};
	struct ws_rows rows;
	struct ws_report *report;
	bool stated;

	(void)state;
	memcpy(bytes, good, size);
	rename_in_schema(bytes, "osrt", "xxxx");
	reseal(bytes, size);
	write_file(path, bytes, size);
	report = open_or_fail(path);
	assert_int_equal(check_damage(report, &stated), NVTX);
	assert_false(stated);
	assert_int_equal(ws_report_columns(report, WS_TABLE_osrt), 0);
	ws_report_close(report);

	rename_in_schema(bytes, "payload", "unknown");
	rename_in_schema(bytes, "end", "fin");
	reseal(bytes, size);
	write_file(path, bytes, size);
	report = open_or_fail(path);
	assert_true(ws_report_is_complete(report));
	assert_int_equal(ws_report_columns(report, WS_TABLE_nvtx),
			 ((UINT64_C(1) << ws_nvtx_COLUMNS) - 1) & ~WS_COLUMN_BIT(nvtx, payload) &
				 ~WS_COLUMN_BIT(nvtx, end));
	assert_int_equal(ws_rows_load(report, &scan, &rows, NULL), 0);
	assert_int_equal(rows.rows, NVTX);
	assert_int_equal(rows.damaged, 0);
	for (uint32_t i = 0; i < NVTX; i++) {
		assert_int_equal(
			rows.col[ws_nvtx_start][i],
			nvtx[i].start); /* needs the column that is called otherwise there */
		assert_int_equal(rows.col[ws_nvtx_end][i], 0);
		assert_int_equal(rows.col[ws_nvtx_payload][i], 0);
	}
	ws_rows_free(&rows);
	ws_report_close(report);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length),	 cmocka_unit_test(every_bit),
		cmocka_unit_test(test_garbage),	 cmocka_unit_test(test_versions),
		cmocka_unit_test(other_schemas), cmocka_unit_test(shrinks_while_open),
		cmocka_unit_test(not_reports),
	};
	int rc;

	make_folder();
	rc = cmocka_run_group_tests_name("store-damage", tests, set_up, tear_down);
	end_folder();
	return rc;
}
