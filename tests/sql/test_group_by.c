/*
 * test_group_by.c - GROUP BYs answered without SQLite against SQLite's own answers: thousands of
 * random queries, whose rows must be the same in number, order, kind and every bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "sql/sql.h"
#include "store/store.h"

enum { ROWS = 3000, QUERIES = 2500, QUERIES_SANITIZED = 600, QUERIES_EMULATED = 150 };

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 11;
}

static bool one_in(unsigned n)
{
	return next_random() % n == 0;
}

/* ---- a report of arbitrary rows, in many small blocks ---- */

static uint32_t texts[24];

static uint64_t some_time(uint64_t from)
{
	return from + (one_in(3) ? next_random() % 3000000000 : next_random() % 5000);
}

static void add_nvtx(struct ws_writer *writer, uint64_t at)
{
	struct ws_row_nvtx row = {.start = at,
				  .end = one_in(12) ? WS_NO_TIME : some_time(at),
				  .thread = (uint32_t)(next_random() % 6),
				  .text = texts[next_random() % 24],
				  .range_id = next_random(),
				  .payload = next_random(),
				  .category = (uint32_t)(next_random() % 3),
				  .color = (uint32_t)(next_random() % 4),
				  .domain = (uint32_t)(next_random() % 3),
				  .type = one_in(4) ? WS_NVTX_STARTEND : WS_NVTX_PUSHPOP,
				  .flags = (uint8_t)(next_random() % 8),
				  .payload_type = (uint8_t)(next_random() % 7)};

	ws_writer_add(writer, WS_TABLE_nvtx, &row);
}

static void add_osrt(struct ws_writer *writer, uint64_t at)
{
	static const int64_t results[] = {0,	     1,		 -1,	      INT64_MAX,
					  INT64_MIN, 3037000500, -3037000500, 1 << 20};
	struct ws_row_osrt row = {.start = at,
				  .end = one_in(9) ? WS_NO_TIME : some_time(at),
				  .thread = (uint32_t)(1 + next_random() % 5),
				  .name = texts[next_random() % 24],
				  .result = one_in(200) ? results[next_random() % 8]
							: (int64_t)(next_random() % 100000) - 50000,
				  .error = (int32_t)(next_random() % 3),
				  .nesting = (uint32_t)(next_random() % 2),
				  .object = one_in(2) ? 0 : next_random() % 5,
				  .callchain =
					  one_in(2) ? WS_NO_U32 : (uint32_t)(next_random() % 7)};

	ws_writer_add(writer, WS_TABLE_osrt, &row);
}

static void add_kernel(struct ws_writer *writer, uint64_t at)
{
	struct ws_row_cuda_kernel row = {
		.start = at,
		.end = one_in(20) ? WS_NO_TIME : some_time(at),
		.device = (uint32_t)(next_random() % 3),
		.stream = (uint32_t)(7 + next_random() % 3),
		.process = 1,
		.correlation = (uint32_t)next_random(),
		.demangled = texts[next_random() % 24],
		.name = texts[next_random() % 4],
		.registers = (uint16_t)(next_random() % 64),
		.grid_x = (uint32_t)(next_random() % 5),
		.occupancy = one_in(9)	 ? __builtin_nan("")
			     : one_in(9) ? -0.0
					 : (double)(next_random() % 1000) / 999,
		.waves = one_in(50) ? 1e300 : (double)(next_random() % 1000) / 7};

	ws_writer_add(writer, WS_TABLE_cuda_kernel, &row);
}

static struct ws_report *make_report(const char *path)
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 256, .no_journal = true};
	struct ws_row_collection row = {.start = 1000000, .end = WS_NO_TIME};
	struct ws_row_process row_process = {.id = 1, .pid = 4242, .start = 1000000};
	struct ws_err err;
	struct ws_writer *writer = ws_writer_create(path, &options, &err);

	assert_non_null(writer);
	for (unsigned i = 1; i < 24; i++) { /* texts[0] is none */
		char name[32];
		int n = snprintf(name, sizeof(name),
				 i % 5	 ? "work %u"
				 : i % 2 ? "%uabc"
					 : "",
				 i / 2);

		texts[i] = ws_writer_string(writer, name, (size_t)n);
	}
	ws_writer_add(writer, WS_TABLE_collection, &row);
	ws_writer_add(writer, WS_TABLE_process, &row_process);
	for (uint32_t i = 1; i < 5; i++) {
		struct ws_row_thread row_thread = {.id = i, .process = 1, .tid = 4241 + i};

		ws_writer_add(writer, WS_TABLE_thread, &row_thread);
	}
	for (uint64_t i = 0; i < ROWS; i++) {
		add_nvtx(writer, 1000000 + i * 10000);
		add_osrt(writer, 1000000 + i * 7000);
		add_kernel(writer, 1000000 + i * 5000);
	}
	assert_int_equal(ws_writer_close(writer, &err), 0);
	return ws_report_open_plain(path, &err);
}

/* ---- random queries ---- */

struct table {
	const char *from;	 /* with t, and s for its texts */
	const char *numbers[16]; /* columns and the like that are whole numbers */
	const char *reals[4];
	const char *groups[12]; /* few different values */
	const char *conditions[16];
};

static const struct table tables[] = {
	{"NVTX_EVENTS t",
	 {"start", "t.\"end\"", "end - start", "(end-start)/1000", "t.category", "domainId",
	  "eventType", "globalTid"},
	 {"(end - start) / 1e6", "start * 0.37", "1.0 * domainId"},
	 {"text", "globalTid", "domainId", "eventType", "category", "start / 1000000",
	  "upper(text)", "globalTid % 3", "length(text) > 5"},
	 {"start > 5000000", "end < 2e7", "end IS NULL", "text LIKE '%1%'", "text = 'work 3'",
	  "eventType = 59", "domainId <> 1", "category IN (1, 2)",
	  "start BETWEEN 2000000 AND 25000000", "NOT (end - start > 3000 OR domainId = 2)",
	  "text IS NOT NULL"}},
	{"NVTX_EVENTS t LEFT JOIN StringIds s ON s.id = t.textId",
	 {"start", "end - start", "globalTid", "t.category"},
	 {"(t.end - t.start) / 1e3", "CAST(start AS REAL) / 7"},
	 {"coalesce(text, value)", "value", "textId", "s.id", "text", "globalTid",
	  "substr(coalesce(t.text, s.value), 1, 6)"},
	 {"value LIKE 'w%'", "textId IS NULL", "s.value IS NULL OR domainId = 1",
	  "start < 20000000"}},
	{"OSRT_API t JOIN StringIds s ON s.id = t.nameId",
	 {"returnValue", "end - start", "returnValue * 3", "returnValue + 9223372036854775000",
	  "returnValue / (returnValue % 3)",
	  "CASE WHEN returnValue < 0 THEN -1 WHEN returnValue = 0 THEN 0 ELSE 1 END", "callchainId",
	  "returnValue & 255", "nestingLevel << 3", "CASE nestingLevel WHEN 0 THEN end END",
	  "returnValue >> 2", "- returnValue", "returnValue > 10"},
	 {"returnValue / 3.0", "CASE WHEN returnValue > 0 THEN 1.5 ELSE 0.25 END",
	  "(end - start) * 1e-6"},
	 {"s.value", "nameId", "s.id", "value", "nestingLevel", "callchainId", "globalTid",
	  "CASE WHEN returnValue < 0 THEN 1 ELSE 0 END", "start / 4000000"},
	 {"returnValue > 100", "returnValue >= 100.5", "returnValue < 9.2e18",
	  "s.value LIKE 'work%'", "callchainId NOTNULL", "callchainId NOT IN (1, 2, 3)",
	  "end - start BETWEEN 1000 AND 4000", "nestingLevel", "NOT nestingLevel",
	  "value <> 'work 2'"}},
	{"CUPTI_ACTIVITY_KIND_KERNEL AS t, StringIds AS s",
	 {"end - start", "t.end", "deviceId", "gridX * registersPerThread", "correlationId % 100"},
	 {"(end - start) / 1e3", "CAST(end - start AS REAL)", "theoreticalOccupancy", "waves * 3"},
	 {"s.value", "demangledName", "shortName", "deviceId", "streamId", "gridX",
	  "deviceId + streamId", "demangledName || 'x'"},
	 {"deviceId = 1", "s.value GLOB 'w*'", "gridX >= 2", "start > 1e7 AND end < 14000000",
	  "waves > 50", "theoreticalOccupancy < 0.5", "waves / theoreticalOccupancy > gridX"}},
	{"WARPSIGHT_OSRT_DETAIL t",
	 {"start", "object", "start - object * 2"},
	 {"start / 3.0"},
	 {"object", "globalTid", "start / 9000000"},
	 {"object > 1", "start < 12000000"}},
};

static const char *pick_from(const char *const *list, size_t most)
{
	size_t n = 0;

	while (n < most && list[n])
		n++;
	return list[next_random() % n];
}

static void put_figure(struct ws_text *text, const struct table *table)
{
	static const char *const names[] = {"sum", "avg", "min", "max", "count", "total"};
	const char *arg = one_in(3) ? pick_from(table->reals, 4) : pick_from(table->numbers, 16),
		   *name = names[next_random() % 6];

	if (one_in(5))
		ws_text_puts(text, "count(*)");
	else if (one_in(8))
		ws_text_printf(text, "round(%s(%s) / 1e3, 1)", name, arg);
	else if (one_in(8))
		ws_text_printf(text, "coalesce(%s(%s), 'none')", name, arg);
	else
		ws_text_printf(text, "%s(%s)", name, arg);
}

static void put_conditions(struct ws_text *text, const struct table *table, bool joined)
{
	unsigned n = (unsigned)(next_random() % 3);

	if (joined)
		ws_text_puts(text, " WHERE t.demangledName = s.id");
	for (unsigned i = 0; i < n; i++)
		ws_text_printf(text, "%s%s", i || joined ? " AND " : " WHERE ",
			       pick_from(table->conditions, 16));
}

static void put_core(struct ws_text *text, const struct table *table)
{
	unsigned groups = one_in(9) ? 0 : 1 + (unsigned)(next_random() % 2),
		 figures = 1 + (unsigned)(next_random() % 5);
	const char *by[2] = {pick_from(table->groups, 12), pick_from(table->groups, 12)};

	ws_text_puts(text, "SELECT ");
	for (unsigned i = 0; i < groups; i++)
		ws_text_printf(text, "%s AS g%u, ", by[i], i);
	for (unsigned i = 0; i < figures; i++) {
		put_figure(text, table);
		ws_text_printf(text, " AS f%u%s", i, i + 1 < figures ? ", " : "");
	}
	ws_text_printf(text, " FROM %s", table->from);
	put_conditions(text, table, strchr(table->from, ',') != NULL);
	for (unsigned i = 0; i < groups; i++) {
		ws_text_puts(text, i ? ", " : " GROUP BY ");
		if (one_in(3))
			ws_text_printf(text, "%u", i + 1);
		else
			ws_text_puts(text, by[i]);
	}
	if (groups && one_in(4))
		ws_text_puts(text,
			     one_in(2)
				     ? " HAVING count(*) > 20"
				     : " HAVING f0 IS NOT NULL AND max(start) - min(start) > 100");
	if (groups && one_in(3))
		ws_text_printf(text, " ORDER BY %s%s", one_in(2) ? "f0" : "count(*) / 10",
			       one_in(2) ? " DESC" : "");
	else if (groups && one_in(4))
		ws_text_printf(text, " ORDER BY g0%s, f0", one_in(2) ? " DESC" : "");
	if (one_in(4))
		ws_text_printf(text, " LIMIT %u", 1 + (unsigned)(next_random() % 9));
}

static void put_query(struct ws_text *text)
{
	const struct table *table = &tables[next_random() % WS_COUNT(tables)];
	unsigned how = (unsigned)(next_random() % 8);

	ws_text_puts(text, how == 0   ? "WITH c AS ("
			   : how == 1 ? "SELECT sum(f0), count(*), max(f0) FROM ("
				      : "");
	put_core(text, table);
	ws_text_puts(text, how == 0   ? ") SELECT c.*, typeof(f0) FROM c ORDER BY 1, 2"
			   : how == 1 ? ")"
				      : "");
}

/* ---- both answers ---- */

static int print_names(void *ctx, const char *const *names, size_t columns, struct ws_err *err)
{
	struct ws_text *out = ctx;

	(void)err;
	for (size_t i = 0; i < columns; i++)
		ws_text_printf(out, "%s;", names[i]);
	ws_text_printf(out, "%zu\n", columns);
	return 0;
}

static size_t column_count; /* of the query that runs */

static int take_names(void *ctx, const char *const *names, size_t columns, struct ws_err *err)
{
	column_count = columns;
	return print_names(ctx, names, columns, err);
}

static int take_row(void *ctx, const struct ws_cell *cells, struct ws_err *err)
{
	struct ws_text *out = ctx;

	(void)err;
	for (size_t i = 0; i < column_count; i++) {
		if (cells[i].type == WS_CELL_INT)
			ws_text_printf(out, "%lld;", (long long)cells[i].i);
		else if (cells[i].type == WS_CELL_REAL)
			ws_text_printf(out, "%a;", (double)cells[i].r);
		else if (cells[i].type == WS_CELL_TEXT)
			ws_text_printf(out, "'%.*s';", (int)cells[i].t.n, cells[i].t.text);
		else
			ws_text_puts(out, "NULL;");
	}
	ws_text_puts(out, "\n");
	return 0;
}

static struct ws_text run_query(struct ws_sql *sql_s, const char *sql, bool plain)
{
	struct ws_text out = {0};
	struct ws_sql_sink sink = {take_names, take_row, &out};
	struct ws_err err;

	ws_sql_set_plain(sql_s, plain);
	if (ws_sql_run_query(sql_s, sql, &sink, &err) < 0)
		ws_text_printf(&out, "failed: %s\n", err.msg);
	return out;
}

static void compare_answers(struct ws_sql *sql_s, const char *sql)
{
	struct ws_text fast = run_query(sql_s, sql, false), plain = run_query(sql_s, sql, true);

	if (strcmp(fast.text, plain.text))
		print_error("%s\n--- without SQLite\n%s--- SQLite\n%s", sql, fast.text, plain.text);
	assert_string_equal(fast.text, plain.text);
	ws_text_free(&fast);
	ws_text_free(&plain);
}

struct fixture {
	struct ws_report *report;
	struct ws_sql *sql;
	char path[64];
};

static int set_up(void **ctx)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	const struct ws_report *report;
	struct ws_err err;

	snprintf(fixture->path, sizeof(fixture->path), "/tmp/test_fold.%d.wsrep", getpid());
	report = fixture->report = make_report(fixture->path);
	unlink(fixture->path);
	fixture->sql = report ? ws_sql_open(&report, 1, &err) : NULL;
	*ctx = fixture;
	return fixture->sql ? 0 : -1;
}

static int tear_down(void **ctx)
{
	struct fixture *fixture = *ctx;

	ws_sql_close(fixture->sql);
	ws_report_close(fixture->report);
	free(fixture);
	return 0;
}

static void test_random(void **ctx)
{
	struct fixture *fixture = *ctx;
	unsigned queries = QUERIES;

	/* An emulated processor computes some thirty times slower, the sanitizers ten times. */
	if (getenv("WS_TEST_SANITIZE"))
		queries = QUERIES_SANITIZED;
	if (getenv("WS_TEST_EMULATED"))
		queries = QUERIES_EMULATED;
	for (unsigned i = 0; i < queries; i++) {
		struct ws_text text = {0};

		put_query(&text);
		compare_answers(fixture->sql, text.text);
		ws_text_free(&text);
	}
	assert_true(ws_get_sql_counts(fixture->sql).grouped >
		    queries / 2); /* else this compared SQLite with itself */
}

/* What is folded, and what is left to SQLite because it might differ. */
static void test_which(void **ctx)
{
	static const struct {
		bool folded;
		const char *sql;
	} cases[] = {
		{true, "SELECT text, count(*), sum(end - start), avg(end-start), min(end), "
		       "max(end), total(start) FROM NVTX_EVENTS "
		       "GROUP BY text"},
		{true,
		 "select count(*), sum(start) from main.nvtx_events where start > 99999999999"},
		{true,
		 "SELECT end, count(*) FROM NVTX_EVENTS GROUP BY end ORDER BY 2 DESC, 1 LIMIT 3"},
		{true, "SELECT \"end\" -- of it\n, count(*) n /* rows */ FROM [NVTX_EVENTS] AS "
		       "\"t\" GROUP BY t.[end] ORDER BY n, 1 "
		       "LIMIT 3 OFFSET 2"},
		{false, "SELECT shortName, sum(count(*)) OVER () FROM CUPTI_ACTIVITY_KIND_KERNEL "
			"GROUP BY 1"},
		{true, "SELECT * FROM (SELECT deviceId, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL "
		       "GROUP BY deviceId) WHERE \"count(*)\" "
		       "> '5'"},
		/* Whether SQLite drops the inner ORDER BY decides the order of equal groups. */
		{false, "SELECT group_concat(g) FROM (SELECT deviceId + streamId AS g FROM "
			"CUPTI_ACTIVITY_KIND_KERNEL GROUP BY deviceId + streamId ORDER BY "
			"count(*) / 100000 DESC)"},
		{true, "SELECT group_concat(g) FROM (SELECT deviceId + streamId AS g FROM "
		       "CUPTI_ACTIVITY_KIND_KERNEL GROUP BY deviceId + streamId ORDER BY "
		       "count(*) / 100000)"},
		{false, "SELECT text, start, count(*) FROM NVTX_EVENTS GROUP BY text"},
		{false, "SELECT text, max(start), end FROM NVTX_EVENTS GROUP BY text"},
		{false, "SELECT count(DISTINCT text) FROM NVTX_EVENTS"},
		{false, "SELECT group_concat(domainId) FROM NVTX_EVENTS GROUP BY globalTid"},
		{false, "SELECT sum(returnValue) FROM OSRT_API"},
		{false, "SELECT max(returnValue + 9223372036854775807) FROM OSRT_API"},
		{false, "WITH NVTX_EVENTS AS (SELECT 1 AS text) SELECT text, count(*) FROM "
			"NVTX_EVENTS GROUP BY text"},
		{false, "SELECT text COLLATE NOCASE, count(*) FROM NVTX_EVENTS GROUP BY 1"},
		{false, "SELECT count(*) FILTER (WHERE start > 5) FROM NVTX_EVENTS"},
		{false, "SELECT deviceId, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1 "
			"UNION SELECT 1, 2"},
		{false, "SELECT text = \"work 1\", count(*) FROM NVTX_EVENTS GROUP BY 1"},
		{false, "SELECT count(*) FROM NVTX_EVENTS GROUP BY text HAVING start > 1"},
		{false, "SELECT (SELECT count(*) FROM OSRT_API o WHERE o.globalTid = e.globalTid) "
			"FROM NVTX_EVENTS e LIMIT 3"},
		{false, "SELECT count(*), random() > 0 OR 1 FROM NVTX_EVENTS"},
		{false, "SELECT count(*) FROM NVTX_EVENTS WHERE start > no_such_column"},
	};
	struct fixture *fixture = *ctx;

	for (size_t i = 0; i < WS_COUNT(cases); i++) {
		uint64_t before = ws_get_sql_counts(fixture->sql).grouped;

		compare_answers(fixture->sql, cases[i].sql);
		if ((ws_get_sql_counts(fixture->sql).grouped > before) != cases[i].folded)
			print_error("%s\n", cases[i].sql);
		assert_int_equal(ws_get_sql_counts(fixture->sql).grouped > before, cases[i].folded);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_which),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests_name("sql-fold", tests, set_up, tear_down);
}
