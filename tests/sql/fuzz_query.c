/*
 * fuzz_query.c - any SQL against the virtual tables: it may be refused or give nonsense, and must
 * not crash, hang, write anything, or read beyond what is there. A statement that has no end is
 * ended by the interrupt that Ctrl-C gives.
 *
 * An input is a row of words: a byte below 128 stands for itself, another for a word of SQL, a
 * table or a column, so that most of what comes out is nearly a query. It is asked of a report of
 * arbitrary rows and of a sane one, together.
 */
#define main make_report_main
#include "../stats/make_report.c"
#undef main

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/mem.h"
#include "sql/sql.h"
#include "../replay.h"

static const char *const words[128] = {
	"SELECT ",
	" FROM ",
	" WHERE ",
	" GROUP BY ",
	" ORDER BY ",
	" LIMIT 5 ",
	" DESC",
	" AND ",
	" OR ",
	" NOT ",
	" IN (",
	") ",
	"(",
	"* ",
	", ",
	"; ",
	" JOIN ",
	" LEFT JOIN ",
	" ON ",
	" AS t ",
	"t.",
	" = ",
	" < ",
	" > ",
	" >= ",
	" IS NULL ",
	" IS NOT ",
	" BETWEEN ",
	" LIKE '%a%' ",
	" GLOB '*' ",
	" + ",
	" - ",
	" / ",
	" || ",
	"count(*) ",
	"sum(",
	"avg(",
	"min(",
	"max(",
	"total(",
	"group_concat(",
	"count(DISTINCT ",
	"length(",
	"substr(",
	"hex(",
	"upper(",
	"typeof(",
	"CAST(",
	" AS INTEGER)",
	" AS TEXT)",
	" DISTINCT ",
	" UNION ALL ",
	" EXCEPT ",
	"WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM r LIMIT 100) ",
	"EXISTS (",
	"CASE WHEN ",
	" THEN ",
	" ELSE ",
	" END ",
	"rowid",
	"NVTX_EVENTS",
	"OSRT_API",
	"StringIds",
	"CUPTI_ACTIVITY_KIND_KERNEL",
	"CUPTI_ACTIVITY_KIND_RUNTIME",
	"PROCESSES",
	"ThreadNames",
	"COMPOSITE_EVENTS",
	"SAMPLING_CALLCHAINS",
	"WARPSIGHT_OP",
	"WARPSIGHT_SCHED",
	"ENUM_NSYS_EVENT_TYPE",
	"META_DATA_EXPORT",
	"sqlite_schema",
	"report1.",
	"report2.",
	"start",
	"\"end\"",
	"globalTid",
	"globalPid",
	"nameId",
	"text",
	"textId",
	"value",
	"id",
	"correlationId",
	"demangledName",
	"streamId",
	"deviceId",
	"eventType",
	"domainId",
	"end - start",
	"0",
	"1",
	"-1",
	"42",
	"1.5",
	"1e999",
	"9223372036854775807",
	"-9223372036854775808",
	"9223372036854775808",
	"NULL",
	"''",
	"'a'",
	"x'00'",
	":a",
	"?1",
	"PRAGMA ",
	"ATTACH ",
	"CREATE TABLE x(a)",
	"DELETE",
	"INSERT INTO ",
	"UPDATE ",
	"EXPLAIN ",
	"VALUES (1)",
	"OVER (ORDER BY ",
	"row_number() ",
	"PARTITION BY ",
	"json_each(",
	"load_extension(",
	"randomblob(",
	"zeroblob(1000000000)",
	"printf('%1000000d', ",
	"readfile(",
	" COLLATE NOCASE ",
	" USING (",
	" CROSS JOIN ",
	" INDEXED BY "};

static char path[2][64];
static struct ws_report *report[2];
static struct ws_sql *sql,
	*volatile running; /* running: while a query does; libFuzzer has alarms of its own */
static unsigned inputs;

static void on_alarm(int sig)
{
	(void)sig;
	if (running)
		ws_sql_interrupt(running);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const kinds[2] = {"wild", "cuda"};
	struct ws_err err;

	(void)argc, (void)argv;
	for (int i = 0; i < 2; i++) {
		char *args[] = {"make_report", (char *)kinds[i], path[i], NULL};

		snprintf(path[i], sizeof(path[i]), "/tmp/fuzz_query.%d.%d.wsrep", getpid(), i);
		if (make_report_main(3, args) || !(report[i] = ws_report_open_plain(path[i], &err)))
			abort();
		unlink(path[i]);
	}
	signal(SIGALRM, on_alarm);
	return 0;
}

static int take_names(void *ctx, const char *const *names, size_t columns, struct ws_err *err)
{
	size_t *sum = ctx;

	(void)err;
	for (size_t i = 0; i < columns; i++)
		*sum += strlen(names[i]);
	sum[1] = columns;
	return 0;
}

/* Every byte that a row has is looked at. */
static int take_row(void *ctx, const struct ws_cell *cells, struct ws_err *err)
{
	size_t *sum = ctx;

	for (size_t i = 0; i < sum[1]; i++)
		if (cells[i].type == WS_CELL_TEXT)
			for (size_t k = 0; k < cells[i].t.n; k++)
				sum[0] += (unsigned char)cells[i].t.text[k];
	return ++sum[2] > 2000 ? ws_fail(err, "that is enough") : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	size_t sum[3] = {0};
	const struct ws_sql_sink sink = {take_names, take_row, sum};
	struct itimerval soon = {.it_value = {.tv_sec = 1}}, never = {0};
	struct ws_text text = {0};
	struct ws_err err = {""};

	if (n > 400)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (data[i] >= 128)
			ws_text_puts(&text, words[data[i] - 128] ? words[data[i] - 128] : " ");
		else
			ws_text_add(&text, data[i] ? (const char *)&data[i] : " ", 1);
	ws_text_add(&text, "", 1);
	if (inputs++ % 64 == 0) { /* opening takes longer than most queries */
		ws_sql_close(sql);
		sql = ws_sql_open((const struct ws_report *const *)report, 2, &err);
		if (!sql)
			abort();
	}
	running = sql;
	setitimer(ITIMER_REAL, &soon, NULL);
	err.msg[0] = 0;
	if (ws_sql_run_query(sql, text.text, &sink, &err) < 0 && !*err.msg)
		abort(); /* a failure says why */
	ws_sql_is_complete(text.text);
	setitimer(ITIMER_REAL, &never, NULL);
	running = NULL;
	ws_text_free(&text);
	return 0;
}

#ifdef FUZZ_REPLAY
static uint8_t pick_word(const char *text)
{
	for (int i = 0; i < 128; i++)
		if (words[i] && !strcmp(words[i], text))
			return (uint8_t)(128 + i);
	abort();
}

/* SELECT a, b FROM t WHERE ... GROUP BY ..., each of them any word. */
static size_t nearly_a_query(uint8_t *bytes)
{
	size_t n = 0;

	bytes[n++] = pick_word("SELECT ");
	for (int i = (int)(replay_draw() % 3); i >= 0; i--) {
		bytes[n++] = (uint8_t)(128 + 76 + replay_draw() % 30);
		bytes[n++] = pick_word(", ");
	}
	bytes[n++] = pick_word("count(*) ");
	bytes[n++] = pick_word(" FROM ");
	bytes[n++] = (uint8_t)(128 + 60 + replay_draw() % 14);
	if (replay_draw() & 1) {
		bytes[n++] = pick_word(" WHERE ");
		for (int i = (int)(replay_draw() % 5); i >= 0; i--)
			bytes[n++] = (uint8_t)(128 + (replay_draw() & 1 ? 20 + replay_draw() % 14
									: 76 + replay_draw() % 30));
	}
	if (replay_draw() & 1) {
		bytes[n++] = pick_word(" GROUP BY ");
		bytes[n++] = (uint8_t)(128 + 76 + replay_draw() % 30);
	}
	bytes[n++] =
		replay_draw() & 1 ? pick_word(" LIMIT 5 ") : (uint8_t)(128 + replay_draw() % 120);
	return n;
}

static size_t make_input(uint8_t *bytes, int round)
{
	return round & 1 ? nearly_a_query(bytes) : replay_fill(bytes, 1 + replay_draw() % 40);
}

int main(int argc, char **argv)
{
	LLVMFuzzerInitialize(&argc, &argv);
	return replay_test(argc, argv, 1200, make_input);
}
#endif
