/*
 * api_query.c - SQL that is typed on the page, over one report: what `warpsight query` runs, with
 * limits of rows, bytes, time and memory. It is cancelled when nobody waits for it any more.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/ticks.h"
#include "serve/api.h"
#include "sql/sql.h"
#include "text/text.h"

enum { USUAL_ROWS = 10000, MOST_ROWS = 100000, USUAL_SECONDS = 60, MOST_SECONDS = 600 };
enum { MOST_BYTES = 32 << 20, MOST_COLUMNS = 2000, LOOK_MS = 20 };
#define MOST_MEMORY (UINT64_C(1) << 30) /* of all queries together */

/* Kinds of values that a column was seen to have, as bits. */
enum { HAS_INTEGER = 1, HAS_REAL = 2, HAS_TEXT = 4 };

struct result {
	const struct ws_api_call *call;
	_Atomic uint64_t looked_ms; /* when it last checked whether anyone waits */
	int64_t rows, limit;
	uint8_t types[MOST_COLUMNS]; /* of the statement that is running */
	size_t columns;
	bool open; /* a statement's rows are being written */
	bool full; /* a limit of rows or bytes was reached */
};

/* Called by all threads of a query, often. */
static bool is_cancelled(void *context)
{
	struct result *result = context;
	const struct ws_params *params = result->call->params;
	uint64_t now = ws_read_raw_ns() / 1000000;

	if (!params->is_gone || now < result->looked_ms + LOOK_MS)
		return false;
	result->looked_ms = now;
	return params->is_gone(params->ctx);
}

/* ---- writing ---- */

static void end_statement(struct result *result)
{
	static const char *const words[] = {"null",	  "integer",
					    "real",	  "integer, real",
					    "text",	  "integer, text",
					    "real, text", "integer, real, text"};
	struct ws_text *out = result->call->out;

	if (!result->open)
		return;
	result->open = false;
	ws_text_puts(out, "]");
	ws_put_json_key(out, "types");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < result->columns; i++) {
		ws_put_json_comma(out);
		ws_text_printf(out, "\"%s\"", words[result->types[i]]);
	}
	ws_text_puts(out, "]}");
}

static int begin_statement(void *context, const char *const *names, size_t columns,
			   struct ws_err *err)
{
	struct result *result = context;
	struct ws_text *out = result->call->out;

	if (columns > MOST_COLUMNS)
		return ws_fail(err, "SQL: the result has %zu columns; at most %d can be shown",
			       columns, (int)MOST_COLUMNS);
	end_statement(result);
	result->open = true;
	result->columns = columns;
	memset(result->types, 0, columns);
	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_json_key(out, "columns");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < columns; i++) {
		ws_put_json_comma(out);
		ws_put_quoted_json(out, names[i], strlen(names[i]));
	}
	ws_text_puts(out, "]");
	ws_put_json_key(out, "rows");
	ws_text_puts(out, "[");
	return 0;
}

/* Whole numbers that a JavaScript number cannot hold are written as texts; types say what they
 * are. */
static uint8_t put_cell(struct ws_text *out, const struct ws_cell *cell)
{
	const int64_t exact = INT64_C(1) << 53;

	switch (cell->type) {
	case WS_CELL_INT:
		if (cell->i > exact || cell->i < -exact)
			ws_text_printf(out, "\"%" PRId64 "\"", cell->i);
		else
			ws_text_printf(out, "%" PRId64, cell->i);
		return HAS_INTEGER;
	case WS_CELL_REAL:
		ws_text_printf(out, "%.17g", (double)cell->r);
		return HAS_REAL;
	case WS_CELL_TEXT:
		ws_put_quoted_json(out, cell->t.text, cell->t.n);
		return HAS_TEXT;
	default:
		ws_text_puts(out, "null");
		return 0;
	}
}

static bool fits(const struct result *result, const struct ws_cell *cells)
{
	size_t bytes = result->call->out->len;

	for (size_t i = 0; i < result->columns; i++)
		if (cells[i].type == WS_CELL_TEXT)
			bytes += cells[i].t.n;
	return result->rows < result->limit && bytes < MOST_BYTES;
}

static int put_row(void *context, const struct ws_cell *cells, struct ws_err *err)
{
	struct result *result = context;
	struct ws_text *out = result->call->out;

	if (!fits(result, cells)) {
		result->full = true;
		return ws_fail(err, "the result is larger than what is shown of it");
	}
	result->rows++;
	ws_put_json_comma(out);
	ws_text_puts(out, "[");
	for (size_t i = 0; i < result->columns; i++) {
		ws_put_json_comma(out);
		result->types[i] |= put_cell(out, &cells[i]);
	}
	ws_text_puts(out, "]");
	return 0;
}

/* ---- asking ---- */

/* Memory limits are SQLite settings of the whole process, so they are made before it runs. */
static struct ws_sql *open_sql(const struct ws_report *report, struct ws_err *err)
{
	static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
	struct ws_sql *sql;

	pthread_mutex_lock(&opening);
	ws_sql_set_memory_limit(MOST_MEMORY);
	sql = ws_sql_open(&report, 1, err);
	pthread_mutex_unlock(&opening);
	return sql;
}

static int run_sql(struct result *result, const char *text, int64_t seconds, struct ws_err *err)
{
	struct ws_sql_sink sink = {begin_statement, put_row, result};
	struct ws_sql *sql = open_sql(result->call->rep->report, err);
	int rc;

	if (!sql)
		return -1;
	ws_sql_set_time_limit(sql, (double)seconds);
	ws_sql_set_cancel(sql, is_cancelled, result);
	rc = ws_sql_run_query(sql, text, &sink, err);
	ws_sql_close(sql);
	return rc;
}

/*
 * {"results":[{"columns":[...],"rows":[[...]...],"types":[...]}...],"full":0} of each statement
 * that has columns; `full`: there are more rows than `limit`, or than an answer holds.
 */
int ws_api_query(struct ws_api_call *call, struct ws_err *err)
{
	const char *text = ws_param(call, "sql");
	struct result result = {.call = call};
	int64_t seconds;

	if (!ws_param_int(call, "limit", ws_make_range(1, MOST_ROWS, USUAL_ROWS), &result.limit,
			  err) ||
	    !ws_param_int(call, "timeout", ws_make_range(1, MOST_SECONDS, USUAL_SECONDS), &seconds,
			  err))
		return 400;
	if (!text) {
		ws_fail(err, "parameter sql must be a query");
		return 400;
	}
	ws_text_puts(call->out, "{\"results\":[");
	if (run_sql(&result, text, seconds, err) < 0 && !result.full)
		return WS_API_SAY;
	end_statement(&result);
	ws_text_puts(call->out, "]");
	ws_put_json_int(call->out, "full", result.full);
	ws_text_puts(call->out, "}");
	return 0;
}
