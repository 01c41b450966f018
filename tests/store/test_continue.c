/*
 * test_continue.c - one writer, several reports: each has the rows of its own time and everything
 * that they may refer to, as one report for that time would have it; nothing grows; damage to one
 * report, or a place that refuses the next, is reported and costs no more than it must.
 *
 * What was added is kept in a model, row by row, and each report is read against it.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/journal.h"
#include "util.h"

/* ---- the model ---- */

/* Rows are numbered as they are added; the number is in a column of the row, and so is the id of a
 * string that says it too. */
static const struct kind {
	enum ws_table table;
	uint32_t number, text;
} kinds[] = {
	{WS_TABLE_process, ws_process_id, ws_process_exe},
	{WS_TABLE_thread_name, ws_thread_name_thread, ws_thread_name_name},
	{WS_TABLE_frame, ws_frame_id, ws_frame_name},
	{WS_TABLE_nvtx, ws_nvtx_payload, ws_nvtx_text},
	{WS_TABLE_output, ws_output_process, ws_output_bytes},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), MOST = 1 << 17 };

enum fate { GONE, HERE, OWN, LASTING };

struct model {
	struct ws_writer *writer;
	uint8_t fate[MOST], kind[MOST];
	uint32_t rows;
	bool own, unnamed;
};

/* Most texts are new, some are those of rows before. */
static uint32_t name_of(uint32_t row)
{
	return row % 3 ? row : row / 7;
}

static uint32_t add_text(struct model *model, uint32_t row)
{
	char text[64];

	snprintf(text, sizeof(text), "the name of %u", name_of(row));
	return ws_writer_string(model->writer, text, strlen(text));
}

static void add_row(struct model *model, uint32_t k)
{
	uint64_t space[256] = {0};
	uint32_t row = model->rows++;
	enum ws_table table = kinds[k].table;

	assert_true(row < MOST && ws_tables[table].row_size <= sizeof(space));
	ws_row_set(table, space, kinds[k].number, row);
	ws_row_set(table, space, kinds[k].text, add_text(model, row));
	if (table != WS_TABLE_frame)
		ws_row_set(table, space, (uint32_t)ws_table_start(table), 1000 + row);
	ws_writer_add(model->writer, table, space);
	model->kind[row] = (uint8_t)k;
	model->fate[row] = HERE;
	if (ws_lasting_tables[table])
		model->fate[row] = model->own ? OWN : LASTING;
}

static void add_rows(struct model *model, uint32_t n)
{
	while (n--)
		add_row(model, (uint32_t)below(KINDS));
}

/* What the report that ends has; rows that do not last are gone then. */
static uint8_t *end_window(struct model *model)
{
	uint8_t *there = ws_calloc(model->rows + 1, 1);

	for (uint32_t row = 0; row < model->rows; row++) {
		there[row] = model->fate[row] != GONE;
		if (model->fate[row] < LASTING && !model->unnamed)
			model->fate[row] = GONE;
	}
	model->own = false;
	return there;
}

static void begin_own(struct model *model)
{
	ws_writer_begin_own(model->writer);
	model->own = !model->unnamed;
}

/* ---- reading ---- */

static uint64_t *decode(const struct ws_report *report, enum ws_table table, size_t block,
			uint32_t column, uint32_t rows)
{
	uint64_t *out[WS_MAX_COLUMNS] = {0};
	struct ws_err err;

	out[column] = ws_calloc(rows, sizeof(uint64_t));
	if (ws_report_decode_block(report, table, block, UINT64_C(1) << column, out, &err))
		fail_msg("%s", err.msg);
	return out[column];
}

static void read_block(const struct ws_report *report, const struct kind *kind, size_t block,
		       uint8_t *found)
{
	uint32_t rows = ws_report_block_info(report, kind->table, block).rows;
	uint64_t *number = decode(report, kind->table, block, kind->number, rows),
		 *text = decode(report, kind->table, block, kind->text, rows);
	char expected[64];

	for (uint32_t i = 0; i < rows; i++) {
		snprintf(expected, sizeof(expected), "the name of %u",
			 name_of((uint32_t)number[i]));
		assert_string_equal(ws_report_string(report, (uint32_t)text[i], NULL), expected);
		assert_true(number[i] < MOST);
		found[number[i]]++;
	}
	free(number);
	free(text);
}

/* Each row that is there once, and no other. Frees `there`. */
static void expect_rows(const struct ws_report *report, uint8_t *there, uint32_t rows)
{
	uint8_t *found = ws_calloc(MOST, 1);

	for (uint32_t k = 0; k < KINDS; k++)
		for (size_t b = 0; b < ws_report_count_blocks(report, kinds[k].table); b++)
			read_block(report, &kinds[k], b, found);
	for (uint32_t row = 0; row < rows; row++)
		if (found[row] != there[row])
			fail_msg("row %u is there %u times, not %u", row, found[row], there[row]);
	free(found);
	free(there);
}

static void expect_report(const char *path, uint8_t *there, uint32_t rows)
{
	struct ws_report *report = open_or_fail(path);

	if (ws_report_get_damage(report, 0))
		fail_msg("%s", ws_report_get_damage(report, 0));
	assert_true(ws_report_is_complete(report));
	assert_false(ws_report_is_live(report));
	assert_int_equal(ws_report_verify(report, NULL, NULL), 0);
	expect_rows(report, there, rows);
	ws_report_close(report);
}

static struct ws_writer *create_or_fail(const char *path, const struct ws_writer_opts *options)
{
	struct ws_err err;
	struct ws_writer *writer = ws_writer_create(path, options, &err);

	if (!writer)
		fail_msg("%s", err.msg);
	return writer;
}

static void continue_or_fail(struct model *model, const char *path)
{
	struct ws_err err;

	if (ws_writer_continue(model->writer, path, NULL, &err))
		fail_msg("%s", err.msg);
	model->unnamed = !path;
	assert_int_equal(ws_writer_is_unnamed(model->writer), !path);
}

static int count_files(const char *part)
{
	char *folder = in_folder("");
	DIR *dir = opendir(folder);
	struct dirent *entry;
	int n = 0;

	while ((entry = readdir(dir)))
		n += strstr(entry->d_name, part) != NULL;
	closedir(dir);
	free(folder);
	return n;
}

static int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* ---- tests ---- */

static void one_after_the_other(void **state)
{
	struct model *model = ws_calloc(1, sizeof(*model));
	char *first = in_folder("first.wsrep"), *second = in_folder("second.wsrep");
	uint8_t *there;
	uint32_t rows;

	(void)state;
	model->writer = create_or_fail(first, NULL);
	add_rows(model, 3000);
	there = end_window(model);
	rows = model->rows;
	continue_or_fail(model, second);
	expect_report(first, there, rows); /* before anything else is written */
	add_rows(model, 2000);
	there = end_window(model);
	assert_int_equal(ws_writer_close(model->writer, NULL), 0);
	expect_report(second, there, model->rows);
	assert_int_equal(count_files("journal"), 0);
	unlink(first);
	unlink(second);
	free(first);
	free(second);
	free(model);
}

/* Everything that may happen, in any order, with stages that are full all the time. */
static void random_order(struct model *model, uint32_t block_rows)
{
	struct ws_writer_opts options = {.block_rows = block_rows};
	char *path = NULL, *next;
	uint32_t rows;

	model->unnamed = below(2);
	options.folder = in_folder("");
	if (!model->unnamed)
		path = in_folder("0.wsrep");
	model->writer = create_or_fail(path, &options);
	free((char *)options.folder);
	for (int step = 1; step < 40; step++) {
		char name[32];
		uint8_t *there;

		add_rows(model, (uint32_t)below(block_rows * 4));
		if (below(2))
			ws_writer_commit(model->writer);
		if (!below(3))
			begin_own(model);
		add_rows(model, (uint32_t)below(block_rows * 3));
		if (!below(4))
			ws_writer_flush(model->writer);
		add_rows(model, (uint32_t)below(block_rows));
		rows = model->rows;
		there = end_window(model);
		snprintf(name, sizeof(name), "%d.wsrep", step);
		next = below(3) ? in_folder(name) : NULL;
		if (path && !below(4)) {
			ws_writer_abandon(model->writer);
			assert_int_not_equal(access(path, F_OK), 0);
			model->unnamed = true;
			free(next);
			next = NULL;
			free(there);
		} else {
			continue_or_fail(model, next);
			if (path)
				expect_report(path, there, rows);
			else
				free(there);
		}
		if (path)
			unlink(path);
		free(path);
		path = next;
	}
	if (path)
		unlink(path);
	ws_writer_discard(model->writer);
	free(path);
	assert_int_equal(count_files("wsrep"), 0);
	assert_int_equal(count_files("journal"), 0);
}

static void in_any_order(void **state)
{
	static const uint32_t sizes[] = {2, 5, 20, 90, 700};

	(void)state;
	for (uint64_t i = 0; i < 15; i++) {
		struct model *model = ws_calloc(1, sizeof(*model));

		seed(i);
		random_order(model, sizes[i % 5]);
		free(model);
	}
}

/* What a kill leaves of the second report is what was committed, lasting rows of the first
 * included. */
static void killed_in_the_second(void **state)
{
	struct model *model = ws_calloc(1, sizeof(*model));
	char *first = in_folder("k1.wsrep"), *second = in_folder("k2.wsrep");
	struct ws_writer_opts options = {.block_rows = 100};
	uint8_t *there;
	int status;
	pid_t pid;

	(void)state;
	seed(5);
	pid = fork();
	model->writer = pid ? NULL : create_or_fail(first, &options);
	for (int window = 0; window < 2; window++) {
		for (int i = 0; i < 2500; i++) {
			uint32_t k = (uint32_t)below(KINDS);

			if (!pid) {
				add_row(model, k);
				continue;
			}
			model->kind[model->rows] = (uint8_t)k;
			model->fate[model->rows++] =
				ws_lasting_tables[kinds[k].table] ? LASTING : HERE;
		}
		if (!window)
			free(end_window(model));
		if (!window && !pid)
			ws_writer_continue(model->writer, second, NULL, NULL);
	}
	if (!pid) {
		ws_writer_commit(model->writer);
		_exit(7);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 7);
	there = end_window(model);
	assert_int_equal(ws_report_recover(second, NULL, NULL, NULL), 0);
	expect_report(second, there, model->rows);
	unlink(first);
	unlink(second);
	free(first);
	free(second);
	free(model);
}

static long read_memory(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long size = 0, resident = 0;

	assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
	fclose(file);
	return size;
}

/* The same few processes all the time: no report is larger than the first ones, and nothing is
 * kept. */
static void hundred_reports(void **state)
{
	struct ws_writer_opts over = {.overwrite = true};
	char *path = in_folder("again.wsrep");
	struct ws_writer *writer = create_or_fail(path, NULL);
	struct ws_row_process process = {.id = 1};
	long memory = 0;
	off_t size = 0;
	int files = 0;

	(void)state;
	process.name = ws_writer_string(writer, "train", 5);
	ws_writer_add(writer, WS_TABLE_process, &process);
	for (int i = 0; i < 100; i++) {
		struct stat status;

		for (uint64_t n = 0; n < 300; n++)
			ws_writer_add(writer, WS_TABLE_nvtx,
				      &(struct ws_row_nvtx){
					      .start = n, .end = n + 1, .text = process.name});
		ws_writer_begin_own(writer);
		ws_writer_add(writer, WS_TABLE_meta, &(struct ws_row_meta){.name = process.name});
		assert_int_equal(ws_writer_continue(writer, NULL, NULL, NULL), 0);
		assert_int_equal(stat(path, &status), 0);
		if (i == 3) {
			size = status.st_size;
			memory = read_memory();
			files = count_descriptors();
		}
		if (i > 3)
			assert_int_equal(status.st_size, size);
		assert_int_equal(ws_writer_continue(writer, path, &over, NULL), 0);
	}
	assert_int_equal(count_descriptors(), files);
	assert_true(read_memory() <= memory + 64);
	ws_writer_discard(writer);
	assert_int_equal(count_files("journal"), 0);
	free(path);
}

/* The next report cannot be made: that is said, the one before is whole, and rows that last wait
 * for a place that takes them. */
static void no_place_for_the_next(void **state)
{
	struct model *model = ws_calloc(1, sizeof(*model));
	char *first = in_folder("p1.wsrep"), *bad = in_folder("none/p2.wsrep"),
	     *third = in_folder("p3.wsrep");
	struct ws_err err = {""};
	uint8_t *there;

	(void)state;
	model->writer = create_or_fail(first, NULL);
	add_rows(model, 1000);
	there = end_window(model);
	assert_int_equal(ws_writer_continue(model->writer, bad, NULL, &err), -1);
	assert_non_null(strstr(err.msg, "none/p2.wsrep"));
	assert_true(ws_writer_is_unnamed(model->writer));
	model->unnamed = true;
	expect_report(first, there, model->rows);
	add_rows(model, 1000);
	assert_int_equal(ws_writer_continue(model->writer, first, NULL, &err), -1); /* exists */
	assert_non_null(strstr(err.msg, "exists already"));
	continue_or_fail(model, third);
	there = end_window(model);
	assert_int_equal(ws_writer_close(model->writer, NULL), 0);
	expect_report(third, there, model->rows);
	unlink(first);
	unlink(third);
	free(first);
	free(bad);
	free(third);
	free(model);
}

static void expect_missing(void *ctx, const char *sentence)
{
	(void)ctx;
	assert_non_null(strstr(sentence, "strings are missing"));
}

/* Someone writes into the first report while the second is made from it: what is copied is checked,
 * and the second says what it lacks instead of having nonsense. */
static void damaged_before_the_second(void **state)
{
	struct ws_writer_opts options = {.block_rows = 64};
	char *first = in_folder("d1.wsrep"), *second = in_folder("d2.wsrep");

	(void)state;
	for (uint64_t round = 0; round < 24; round++) {
		struct model *model = ws_calloc(1, sizeof(*model));
		struct ws_report *report;
		struct stat status;
		int fd;

		seed(round);
		model->writer = create_or_fail(first, &options);
		add_rows(model, 1500);
		ws_writer_flush(model->writer);
		fd = open(first, O_RDWR | O_CLOEXEC);
		assert_int_equal(fstat(fd, &status), 0);
		for (int i = 0; i < 20; i++) {
			uint64_t junk = draw();

			assert_int_equal(pwrite(fd, &junk, 8,
						(off_t)(64 + below((uint64_t)status.st_size - 72))),
					 8);
		}
		if (round % 4 == 3)
			assert_int_equal(ftruncate(fd, (off_t)below((uint64_t)status.st_size)), 0);
		close(fd);
		ws_writer_continue(model->writer, second, NULL, NULL);
		for (uint64_t n = 0; n < 100; n++)
			ws_writer_add(model->writer, WS_TABLE_nvtx,
				      &(struct ws_row_nvtx){.start = n, .end = n + 1});
		assert_true(ws_writer_lost(model->writer) > 0);
		assert_int_equal(ws_writer_close(model->writer, NULL), 0);
		report = open_or_fail(second);
		ws_report_verify(report, expect_missing, NULL);
		assert_int_equal(ws_report_count_rows(report, WS_TABLE_nvtx), 100);
		ws_report_close(report);
		unlink(first);
		unlink(second);
		free(model);
	}
	free(first);
	free(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_after_the_other),
		cmocka_unit_test(in_any_order),
		cmocka_unit_test(killed_in_the_second),
		cmocka_unit_test(hundred_reports),
		cmocka_unit_test(no_place_for_the_next),
		cmocka_unit_test(damaged_before_the_second),
	};
	int rc;

	make_folder();
	rc = cmocka_run_group_tests_name("store-continue", tests, NULL, NULL);
	end_folder();
	return rc;
}
