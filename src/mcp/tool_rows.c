/* tool_rows.c - the tools whose answers are rows: queries and statistics. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "mcp/tools.h"
#include "sql/sql.h"
#include "stats/filter.h"
#include "stats/stats.h"
#include "text/json_write.h"
#include "text/text.h"

/* Rows on their way into an answer, until there are enough of them. */
struct rows {
	struct ws_text *out;
	size_t columns;
	int64_t count, limit;
	bool open, truncated;
};

/* Whole numbers beyond 2^53 are written as texts: many readers keep numbers as doubles. */
static void put_cell(struct ws_text *out, const struct ws_cell *cell)
{
	const int64_t exact = INT64_C(1) << 53;

	ws_put_json_comma(out);
	switch (cell->type) {
	case WS_CELL_INT:
	case WS_CELL_WHOLE:
		if (cell->i > exact || cell->i < -exact)
			ws_text_printf(out, "\"%" PRId64 "\"", cell->i);
		else
			ws_text_printf(out, "%" PRId64, cell->i);
		break;
	case WS_CELL_REAL:
		if (isfinite((double)cell->r))
			ws_text_printf(out, "%.12g", (double)cell->r);
		else
			ws_text_puts(out, "null");
		break;
	case WS_CELL_TEXT:
		ws_put_quoted_json(out, cell->t.text, cell->t.n);
		break;
	default:
		ws_text_puts(out, "null");
	}
}

/* Adds a row where there is room; false when there is none. */
static bool add_row(struct rows *rows, const struct ws_cell *cells)
{
	size_t bytes = rows->out->len;

	for (size_t i = 0; i < rows->columns; i++)
		if (cells[i].type == WS_CELL_TEXT)
			bytes += cells[i].t.n;
	if (rows->count == rows->limit || bytes > WS_MCP_MOST_ANSWER) {
		rows->truncated = true;
		return false;
	}
	rows->count++;
	ws_put_json_comma(rows->out);
	ws_text_puts(rows->out, "[");
	for (size_t i = 0; i < rows->columns; i++)
		put_cell(rows->out, &cells[i]);
	ws_text_puts(rows->out, "]");
	return true;
}

static void begin_columns(struct rows *rows, size_t columns)
{
	rows->columns = columns;
	rows->open = true;
	ws_put_json_comma(rows->out);
	ws_text_puts(rows->out, "{");
	ws_put_json_key(rows->out, "columns");
	ws_text_puts(rows->out, "[");
}

static void begin_rows(struct rows *rows)
{
	ws_text_puts(rows->out, "]");
	ws_put_json_key(rows->out, "rows");
	ws_text_puts(rows->out, "[");
}

static void end_rows(struct rows *rows)
{
	if (rows->open)
		ws_text_puts(rows->out, "]}");
	rows->open = false;
}

static void put_truncated(const struct rows *rows)
{
	ws_put_json_key(rows->out, "truncated");
	ws_text_puts(rows->out, rows->truncated ? "true" : "false");
}

/* ---- query ---- */

static int begin_result(void *context, const char *const *names, size_t columns, struct ws_err *err)
{
	struct rows *rows = context;

	(void)err;
	end_rows(rows);
	begin_columns(rows, columns);
	for (size_t i = 0; i < columns; i++) {
		ws_put_json_comma(rows->out);
		ws_put_quoted_json(rows->out, names[i], strlen(names[i]));
	}
	begin_rows(rows);
	return 0;
}

static int add_result_row(void *context, const struct ws_cell *cells, struct ws_err *err)
{
	if (add_row(context, cells))
		return 0;
	return ws_fail(err, "there are more rows than the limit");
}

int ws_mcp_query(struct ws_mcp_call *call, struct ws_err *err)
{
	struct ws_mcp_report *report = ws_mcp_get_report(call, 0, err);
	struct rows rows = {.out = call->out, .limit = call->numbers[2]};
	struct ws_sql_sink sink = {begin_result, add_result_row, &rows};
	const struct ws_report *one;
	struct ws_sql *sql;
	int rc;

	if (!report)
		return -1;
	one = report->report;
	ws_sql_set_memory_limit((uint64_t)WS_MCP_MOST_MEMORY_MIB << 20);
	sql = ws_sql_open(&one, 1, err);
	if (!sql)
		return -1;
	ws_sql_set_time_limit(sql, (double)call->numbers[3]);
	ws_text_puts(call->out, "{\"results\":[");
	rc = ws_sql_run_query(sql, call->texts[1], &sink, err);
	ws_sql_close(sql);
	if (rc && !rows.truncated)
		return -1;
	end_rows(&rows);
	ws_text_puts(call->out, "]");
	put_truncated(&rows);
	ws_text_puts(call->out, "}");
	return 0;
}

/* ---- statistics ---- */

struct stats_job {
	struct ws_stats stats; /* first: reports hand over rows with a pointer to it */
	struct rows rows;
};

static void add_stats_row(struct ws_stats *stats, const struct ws_cell *cells)
{
	add_row(&((struct stats_job *)stats)->rows, cells);
}

static void add_stats_rows(struct ws_stats *stats, size_t count,
			   size_t (*make)(const void *context, size_t i, struct ws_cell *cells,
					  struct ws_text *text),
			   const void *context)
{
	struct rows *rows = &((struct stats_job *)stats)->rows;
	struct ws_cell *cells = ws_calloc(rows->columns + 1, sizeof(*cells));
	struct ws_text text = {0};
	bool room = true;

	for (size_t i = 0; i < count && room; i++) {
		for (size_t k = 0; k < rows->columns; k++)
			cells[k] = ws_cell_null();
		text.len = 0;
		make(context, i, cells, &text);
		room = add_row(rows, cells);
	}
	ws_text_free(&text);
	free(cells);
}

/* The headers, with their units, that stats shows. */
static void begin_table(struct rows *rows, const struct ws_stats_report *stat, size_t columns)
{
	struct ws_printer printer = {.unit = ws_find_timeunit("ns"),
				     .format = ws_formats,
				     .columns = stat->columns,
				     .column_count = columns};
	struct ws_text header = {0};

	begin_columns(rows, columns);
	for (size_t i = 0; i < columns; i++) {
		header.len = 0;
		ws_print_header(&printer, i, &header);
		ws_put_json_comma(rows->out);
		ws_put_quoted_json(rows->out, header.text, header.len);
	}
	ws_text_free(&header);
	begin_rows(rows);
}

/* Why there are no rows. */
static void put_absence(struct stats_job *job, const struct ws_stats_report *stat)
{
	char *why;

	if (job->stats.windowed)
		why = ws_format("no %s lie in the time asked for", stat->what);
	else if (stat->explain_absence)
		why = ws_format("no %s were recorded: %s", stat->what,
				stat->explain_absence(job->stats.report));
	else
		why = ws_format("no %s were recorded", stat->what);
	ws_put_json_string(job->rows.out, "why_empty", why);
	free(why);
}

static int make_table(struct stats_job *job, const struct ws_stats_report *stat, struct ws_err *err)
{
	size_t columns = stat->column_count;
	int rc;

	if (stat->last_column_arg && !ws_get_stats_arg(&job->stats, stat->last_column_arg))
		columns--;
	ws_text_puts(job->rows.out, "{");
	ws_put_json_string(job->rows.out, "name", stat->name);
	ws_put_json_string(job->rows.out, "title", stat->title);
	ws_put_json_key(job->rows.out, "table");
	begin_table(&job->rows, stat, columns);
	rc = stat->run(&job->stats, err);
	end_rows(&job->rows);
	if (!job->rows.count)
		put_absence(job, stat);
	put_truncated(&job->rows);
	ws_text_puts(job->rows.out, "}");
	return rc;
}

static void list_stats(struct ws_text *out)
{
	ws_text_puts(out, "{\"reports\":[");
	for (size_t i = 0; ws_stats_list[i]; i++) {
		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "name", ws_stats_list[i]->name);
		ws_put_json_string(out, "title", ws_stats_list[i]->title);
		ws_text_puts(out, "}");
	}
	ws_text_puts(out, "]}");
}

static const struct ws_stats_report *find_stats(const char *spec, struct ws_err *err)
{
	struct ws_stats_request request = {.reports = &spec, .report_count = 1, .quiet = true};
	char *name;
	const struct ws_stats_report *stat;

	if (ws_check_stats_request(&request, err))
		return NULL;
	name = ws_strndup(spec, strcspn(spec, ":"));
	stat = ws_find_stats_report(name);
	if (!stat)
		ws_fail(err, "%s: %s", name,
			ws_text_or(ws_get_stats_elsewhere_reason(name), "there is no such report"));
	free(name);
	return stat;
}

int ws_mcp_stats(struct ws_mcp_call *call, struct ws_err *err)
{
	struct ws_mcp_report *report = ws_mcp_get_report(call, 0, err);
	const char *spec = call->texts[1], *time = call->texts[3];
	struct stats_job job = {.rows = {.out = call->out, .limit = call->numbers[2]}};
	const struct ws_stats_report *stat;
	struct ws_fold *fold;
	int rc = 0;

	if (!report)
		return -1;
	if (!spec) {
		list_stats(call->out);
		return 0;
	}
	stat = find_stats(spec, err);
	if (!stat)
		return -1;
	fold = ws_fold_open(report->report, WS_FOLD_AUTO);
	job.stats = (struct ws_stats){.time_max = UINT64_MAX,
				      .report = report->report,
				      .who = ws_who_open(report->report),
				      .fold = fold,
				      .zero = ws_find_time_zero(report->report),
				      .args = spec + strcspn(spec, ":"),
				      .row = add_stats_row,
				      .rows = add_stats_rows};
	if (time)
		rc = ws_apply_time_filter(&job.stats, time, err);
	if (!rc)
		rc = make_table(&job, stat, err);
	ws_who_close(job.stats.who);
	ws_fold_close(fold);
	return rc;
}
