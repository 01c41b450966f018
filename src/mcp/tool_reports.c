/* tool_reports.c - the tools that open and close reports and say what they hold. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/tools.h"
#include "query/query.h"
#include "sql/sql.h"
#include "text/json_write.h"
#include "text/text.h"

enum { MOST_PROCESSES = 100, MOST_DIAGNOSTICS = 100 };

static void put_id(const struct ws_mcp_report *report, struct ws_text *out)
{
	char *id = ws_format("r%u", report->number);

	ws_put_json_string(out, "report", id);
	free(id);
}

static void put_span(const struct ws_report *report, struct ws_text *out)
{
	uint64_t first, last, zero = ws_find_time_zero(report);

	if (!ws_find_event_span(report, &first, &last))
		return;
	ws_put_json_int(out, "first_event_ns", (int64_t)(first - zero));
	ws_put_json_int(out, "last_event_ns", (int64_t)(last - zero));
}

static void put_damage(const struct ws_report *report, struct ws_text *out)
{
	ws_put_json_key(out, "complete");
	ws_text_puts(out, ws_report_is_complete(report) ? "true" : "false");
	ws_put_json_key(out, "damage");
	ws_text_puts(out, "[");
	for (size_t i = 0; ws_report_get_damage(report, i); i++) {
		const char *sentence = ws_report_get_damage(report, i);

		ws_put_json_comma(out);
		ws_put_quoted_json(out, sentence, strlen(sentence));
	}
	ws_text_puts(out, "]");
}

int ws_mcp_open(struct ws_mcp_call *call, struct ws_err *err)
{
	struct ws_mcp_report *report = ws_mcp_open_report(call->server, call->texts[0], err);
	const char *command;

	if (!report)
		return -1;
	command = ws_find_meta(report->report, "target.command_line");
	ws_text_puts(call->out, "{");
	put_id(report, call->out);
	ws_put_json_string(call->out, "path", report->path);
	if (command)
		ws_put_json_string(call->out, "command_line", command);
	put_span(report->report, call->out);
	put_damage(report->report, call->out);
	ws_text_puts(call->out, "}");
	return 0;
}

int ws_mcp_close(struct ws_mcp_call *call, struct ws_err *err)
{
	struct ws_mcp_report *report = ws_mcp_get_report(call, 0, err);

	if (!report)
		return -1;
	ws_text_puts(call->out, "{");
	put_id(report, call->out);
	ws_text_puts(call->out, ",\"closed\":true}");
	ws_mcp_close_report(report);
	return 0;
}

/* ---- info ---- */

static void put_report_string(const struct ws_report *report, struct ws_text *out, const char *key,
			      uint64_t id)
{
	size_t length;
	const char *text = ws_report_string(report, (uint32_t)id, &length);

	ws_put_json_text(out, key, text, length);
}

static void put_session(const struct ws_report *report, struct ws_text *out)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *values;

	ws_put_json_key(out, "session");
	ws_text_puts(out, "[");
	while (ws_cursor_next(cursor, &values)) {
		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		put_report_string(report, out, "name", values[ws_meta_name]);
		put_report_string(report, out, "value", values[ws_meta_value]);
		ws_text_puts(out, "}");
	}
	ws_text_puts(out, "]");
	ws_cursor_close(cursor);
}

static void put_process(const struct ws_process_info *info, struct ws_text *out)
{
	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_json_int(out, "pid", info->pid);
	ws_put_json_string(out, "name", info->name);
	ws_put_json_text(out, "command_line", info->cmdline, strnlen(info->cmdline, 1000));
	ws_text_puts(out, "}");
}

static void put_processes(const struct ws_report *report, struct ws_text *out)
{
	struct ws_names_by_id *who = ws_who_open(report);
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_process, 0, UINT64_MAX);
	const uint64_t *values;
	int64_t count = 0;

	ws_put_json_key(out, "processes");
	ws_text_puts(out, "[");
	while (ws_cursor_next(cursor, &values))
		if (count++ < MOST_PROCESSES)
			put_process(ws_find_process(who, (uint32_t)values[ws_process_id]), out);
	ws_text_puts(out, "]");
	ws_put_json_int(out, "process_count", count);
	ws_cursor_close(cursor);
	ws_who_close(who);
}

static void put_losses(const struct ws_report *report, struct ws_text *out)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_loss, 0, UINT64_MAX);
	const uint64_t *values;
	uint64_t sum = 0;

	while (ws_cursor_next(cursor, &values))
		if (__builtin_add_overflow(sum, values[ws_loss_events], &sum))
			sum = INT64_MAX;
	ws_put_json_int(out, "lost_events", (int64_t)(sum & INT64_MAX));
	ws_cursor_close(cursor);
}

static const char *name_severity(uint64_t severity)
{
	if (severity == WS_ERROR)
		return "error";
	if (severity == WS_WARNING)
		return "warning";
	return "info";
}

static void put_diagnostics(const struct ws_report *report, struct ws_text *out)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_diagnostic, 0, UINT64_MAX);
	const uint64_t *values;
	size_t count = 0;

	ws_put_json_key(out, "diagnostics");
	ws_text_puts(out, "[");
	while (ws_cursor_next(cursor, &values) && count++ < MOST_DIAGNOSTICS) {
		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "severity", name_severity(values[ws_diagnostic_severity]));
		put_report_string(report, out, "source", values[ws_diagnostic_source]);
		put_report_string(report, out, "text", values[ws_diagnostic_text]);
		ws_text_puts(out, "}");
	}
	ws_text_puts(out, "]");
	ws_cursor_close(cursor);
}

/* Tables with rows; those that say what the numbers of a column mean only if `enums`. */
static void put_tables(const struct ws_sql *sql, bool enums, struct ws_text *out)
{
	const char *name;
	uint64_t rows;

	ws_put_json_key(out, "tables");
	ws_text_puts(out, "[");
	for (size_t i = 0; (name = ws_sql_find_table_name(sql, i, &rows)); i++) {
		if (!rows || (!enums && !strncmp(name, "ENUM_", 5)))
			continue;
		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "name", name);
		ws_put_json_int(out, "rows", (int64_t)rows);
		ws_text_puts(out, "}");
	}
	ws_text_puts(out, "]");
}

static struct ws_sql *open_sql(const struct ws_mcp_report *report, struct ws_err *err)
{
	const struct ws_report *one = report->report;

	return ws_sql_open(&one, 1, err);
}

int ws_mcp_info(struct ws_mcp_call *call, struct ws_err *err)
{
	struct ws_mcp_report *report = ws_mcp_get_report(call, 0, err);
	struct ws_sql *sql = report ? open_sql(report, err) : NULL;

	if (!sql)
		return -1;
	ws_text_puts(call->out, "{");
	put_id(report, call->out);
	ws_put_json_string(call->out, "path", report->path);
	put_span(report->report, call->out);
	put_damage(report->report, call->out);
	put_losses(report->report, call->out);
	put_session(report->report, call->out);
	put_processes(report->report, call->out);
	put_tables(sql, false, call->out);
	put_diagnostics(report->report, call->out);
	ws_text_puts(call->out, "}");
	ws_sql_close(sql);
	return 0;
}

int ws_mcp_schema(struct ws_mcp_call *call, struct ws_err *err)
{
	struct ws_mcp_report *report = ws_mcp_get_report(call, 0, err);
	struct ws_sql *sql = report ? open_sql(report, err) : NULL;
	const char *table = call->texts[1];
	char *schema = NULL;
	int rc = 0;

	if (!sql)
		return -1;
	ws_text_puts(call->out, "{");
	if (!table)
		put_tables(sql, true, call->out);
	else
		schema = ws_sql_make_schema(sql, table);
	if (schema)
		ws_put_json_string(call->out, "schema", schema);
	else if (table)
		rc = ws_fail(err, "there is no table '%.100s'; schema without it names them",
			     table);
	ws_text_puts(call->out, "}");
	free(schema);
	ws_sql_close(sql);
	return rc;
}
