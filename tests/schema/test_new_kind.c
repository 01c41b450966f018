/*
 * test_new_kind.c - a new kind of event costs its declaration and what writes its rows: this
 * program is built from the sources of the modules with one more table and one more kind declared
 * (more_tables.def, more_events.def). No source knows them; yet the rows are staged and read back,
 * exported by every format that tells events, and shown on the time line with all that it answers
 * about events.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "export/export.h"
#include "page/page.h"
#include "schema/events.h"
#include "serve/api.h"
#include "store/store.h"

enum { ZERO = 1000000, PROBES = 3000, LENGTH = 1000 };

static char folder[] = "/tmp/new_kind.XXXXXX", report_path[64];

/* ---- what writes its rows ---- */

static uint32_t put_string(struct ws_writer *writer, const char *text)
{
	return ws_writer_string(writer, text, strlen(text));
}

static void put_session(struct ws_writer *writer)
{
	ws_writer_add(writer, WS_TABLE_collection,
		      &(struct ws_row_collection){.start = ZERO,
						  .end = ZERO + 10 * LENGTH * PROBES});
	ws_writer_add(writer, WS_TABLE_clock,
		      &(struct ws_row_clock){.raw = ZERO,
					     .realtime = UINT64_C(1700000000000000000)});
	ws_writer_add(
		writer, WS_TABLE_process,
		&(struct ws_row_process){
			.id = 1, .pid = 77, .start = ZERO, .name = put_string(writer, "probed")});
	ws_writer_add(writer, WS_TABLE_thread,
		      &(struct ws_row_thread){.id = 1, .process = 1, .tid = 77, .start = ZERO});
}

static void put_probes(struct ws_writer *writer)
{
	char name[32];

	for (uint32_t i = 0; i < PROBES; i++) {
		uint64_t start = ZERO + (uint64_t)i * 2 * LENGTH;

		snprintf(name, sizeof(name), "probe of pool %u", i % 7);
		ws_writer_add(writer, WS_TABLE_probe,
			      &(struct ws_row_probe){.start = start,
						     .end = start + LENGTH,
						     .thread = 1,
						     .name = put_string(writer, name),
						     .depth = 4000 + i,
						     .callchain = WS_NO_U32});
	}
}

static int set_up(void **unused)
{
	struct ws_err err = {0};
	struct ws_writer *writer;

	(void)unused;
	assert_non_null(mkdtemp(folder));
	snprintf(report_path, sizeof(report_path), "%s/probes.wsrep", folder);
	writer = ws_writer_create(report_path, NULL, &err);
	assert_non_null(writer);
	put_session(writer);
	put_probes(writer);
	return ws_writer_close(writer, &err);
}

static int tear_down(void **unused)
{
	char command[64];

	(void)unused;
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

/* ---- exports ---- */

/* An export of the report as bytes; the caller frees. */
static char *export_as(const char *type, size_t *length)
{
	char output[96];
	struct ws_export_request request = {.type = type,
					    .output = output,
					    .overwrite = true,
					    .quiet = true,
					    .blobs = true,
					    .lazy = true};
	char *bytes;
	FILE *file;

	snprintf(output, sizeof(output), "%s/out.%s", folder, type);
	assert_int_equal(ws_export_report_file(report_path, &request), 0);
	file = fopen(output, "rb");
	assert_non_null(file);
	fseek(file, 0, SEEK_END);
	*length = (size_t)ftell(file);
	rewind(file);
	bytes = ws_calloc(*length + 1, 1);
	assert_int_equal(fread(bytes, 1, *length, file), *length);
	fclose(file);
	return bytes;
}

static size_t count_text(const char *bytes, size_t length, const char *text)
{
	const char *at = bytes, *end = bytes + length;
	size_t n = 0;

	while ((at = memmem(at, (size_t)(end - at), text, strlen(text)))) {
		at += strlen(text);
		n++;
	}
	return n;
}

static void check_export(const char *type, const char *const *texts, const size_t *counts)
{
	size_t length;
	char *bytes = export_as(type, &length);

	for (size_t i = 0; texts[i]; i++) {
		size_t n = count_text(bytes, length, texts[i]);

		if (counts[i] ? n != counts[i] : !n)
			fail_msg("%s has %s %zu times", type, texts[i], n);
	}
	free(bytes);
}

static void chrome_has_it(void **unused)
{
	(void)unused;
	check_export("chrome",
		     (const char *[]){"\"cat\":\"probe\",\"name\":\"probe of pool",
				      "\"probe depth\":4000}", "\"probe depth\":", NULL},
		     (size_t[]){PROBES, 1, PROBES});
}

/* Names are interned: each is there once. */
static void perfetto_has_it(void **unused)
{
	(void)unused;
	check_export("perfetto", (const char *[]){"probe of pool 6", "probe depth", NULL},
		     (size_t[]){1, 1});
}

static void tables_have_it(void **unused)
{
	(void)unused;
	check_export("jsonlines", (const char *[]){"\"WARPSIGHT_PROBE\"", "\"depth\":6999", NULL},
		     (size_t[]){0, 1});
	check_export("sqlite", (const char *[]){"WARPSIGHT_PROBE", "probe of pool 3", NULL},
		     (size_t[]){0, 0});
}

/* A page is exported where the program was built with one. */
static void html_has_it(void **unused)
{
	(void)unused;
	if (!ws_assets[0].name)
		skip();
	check_export("html", (const char *[]){"probe of pool 3", "\"type\":\"probe\"", NULL},
		     (size_t[]){0, 0});
}

/* ---- the time line ---- */

static struct ws_view view;

static const char *get_param(void *ctx, const char *name)
{
	for (const char *const *pairs = ctx; *pairs; pairs += 2)
		if (!strcmp(*pairs, name))
			return pairs[1];
	return NULL;
}

/* The answer to the page; the caller frees it. */
static struct ws_text ask(const char *what, const char *const *pairs)
{
	struct ws_params params = {get_param, (void *)pairs};
	struct ws_answer answer = {0};

	assert_int_equal(ws_api(&view, what, &params, &answer), 200);
	return answer.body;
}

static void check_answer(const char *what, const char *const *pairs, const char *const *texts)
{
	struct ws_text body = ask(what, pairs);

	for (; *texts; texts++)
		if (!memmem(body.text, body.len, *texts, strlen(*texts)))
			fail_msg("%s does not say %s:\n%.*s", what, *texts, (int)body.len,
				 body.text);
	ws_text_free(&body);
}

static int open_view(void **unused)
{
	static const struct ws_lanes_opts all = {
		.unasked = UINT64_MAX, .room = UINT64_MAX, .to = UINT64_MAX};
	const char *files[] = {report_path};
	struct ws_err err = {0};

	(void)unused;
	if (ws_view_open(&view, files, 1, &all, &err))
		return -1;
	ws_lanes_wait(view.reports[0].lanes);
	return 0;
}

static int close_view(void **unused)
{
	(void)unused;
	ws_view_close(&view);
	return 0;
}

static void row_is_below_its_thread(void **unused)
{
	(void)unused;
	check_answer("tree", (const char *[]){NULL},
		     (const char *[]){"\"parent\":\"t1\",\"type\":\"probe\"", "\"count\":3000",
				      "\"levels\":1", NULL});
}

static void event_has_its_columns(void **unused)
{
	(void)unused;
	check_answer("event", (const char *[]){"lane", "0", "level", "0", "event", "5", NULL},
		     (const char *[]){"\"table\":\"probe\"", "\"sqlite\":\"WARPSIGHT_PROBE\"",
				      "probe of pool 5", "\"name\":\"depth\"", "\"4005\"", NULL});
}

static void lists_and_sums_have_it(void **unused)
{
	(void)unused;
	check_answer("sum", (const char *[]){NULL},
		     (const char *[]){"\"kind\":\"probe\"", "probe of pool 2", NULL});
	check_answer("events", (const char *[]){"q", "pool 4", NULL},
		     (const char *[]){"probe of pool 4", NULL});
	check_answer("search", (const char *[]){"q", "pool 1", NULL},
		     (const char *[]){"probe of pool 1", NULL});
}

static void query_finds_it(void **unused)
{
	(void)unused;
	check_answer("sql", (const char *[]){"lane", "0", "level", "0", "event", "5", NULL},
		     (const char *[]){"FROM WARPSIGHT_PROBE WHERE start = 10000",
				      "globalTid = ", NULL});
}

/* What the report says of its blocks is by thread, as its lanes are: no row is read for the tree.
 */
static void blocks_are_summed_up(void **unused)
{
	uint8_t columns[WS_GROUP_KEYS];

	(void)unused;
	assert_int_equal(ws_table_groups(WS_TABLE_probe, columns), 1);
	assert_int_equal(columns[0], ws_probe_thread);
	assert_int_equal(ws_staged_rows[WS_TABLE_probe], 512);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_summed_up),
		cmocka_unit_test(chrome_has_it),
		cmocka_unit_test(perfetto_has_it),
		cmocka_unit_test(tables_have_it),
		cmocka_unit_test(html_has_it),
		cmocka_unit_test_setup_teardown(row_is_below_its_thread, open_view, close_view),
		cmocka_unit_test_setup_teardown(event_has_its_columns, open_view, close_view),
		cmocka_unit_test_setup_teardown(lists_and_sums_have_it, open_view, close_view),
		cmocka_unit_test_setup_teardown(query_finds_it, open_view, close_view),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
