/*
 * tables_foreign.c - tables that an import kept without knowing them, under the names they had.
 *
 * Spans of threads are slices, whose category is the table and whose arguments are its other
 * columns; other rows are rows of `foreign`; metrics are values of counters. A fact of the import
 * says of each table which columns it had, another of each counter which numbers it had (into.h).
 * From these the tables are made again, so that queries and tools that know MPI_P2P_EVENTS or
 * NET_NIC_METRIC find them. WARPSIGHT_SLICE and WARPSIGHT_FOREIGN have the rows too: an import of
 * the export reads those.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "views/tables.h"
#include "text/text.h"
#include "schema/foreign.h"
#include "text/json.h"

enum role { ROLE_NONE, ROLE_START = 's', ROLE_END = 'e', ROLE_THREAD = 't', ROLE_LABEL = 'n' };

struct ws_xforeign {
	struct ws_xtable table;
	struct ws_xcolumn *columns;
	enum role roles[WS_MAX_COLUMNS];
	bool pointer[WS_MAX_COLUMNS];
	char *name;
	bool slices;
	/* while it is written */
	struct ws_export *export;
	uint64_t last_label; /* string id of a table name that was compared last, and whether it is
				this table's */
	bool last_is;
	struct ws_text scratch;
};

/* ---- which there are ---- */

static bool is_name(const char *text, size_t n)
{
	bool good = n > 0 && n <= 100 && !(text[0] >= '0' && text[0] <= '9');

	for (size_t i = 0; good && i < n; i++)
		good = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') ||
		       (text[i] >= '0' && text[i] <= '9') || text[i] == '_';
	return good;
}

/* "globalTid/t textId/@n size": names, each with letters for what it is. False when it is no such
 * list. */
static bool parse_columns(struct ws_xforeign *foreign, const char *text)
{
	size_t cap = 0;

	while (*text) {
		size_t len = strcspn(text, " "), name = strcspn(text, "/ ");
		struct ws_xcolumn column = {.type = "INTEGER", .doc = ""};
		size_t at = foreign->table.column_count;

		if (!is_name(text, name) || at == WS_MAX_COLUMNS)
			return false;
		for (size_t i = 0; i < at; i++)
			if (strlen(foreign->columns[i].name) == name &&
			    !strncasecmp(foreign->columns[i].name, text, name))
				return false;
		for (size_t i = name + 1; i < len; i++) {
			if (text[i] == 'T' || text[i] == 'R')
				column.type = text[i] == 'T' ? "TEXT" : "REAL";
			else if (text[i] == '@')
				foreign->pointer[at] = true;
			else
				foreign->roles[at] = (enum role)text[i];
		}
		column.name = ws_strndup(text, name);
		ws_grow(foreign->columns, cap, at + 1);
		foreign->columns[foreign->table.column_count++] = column;
		text += len + (text[len] == ' ');
	}
	return foreign->table.column_count > 0;
}

static void free_foreign(struct ws_xforeign *foreign)
{
	for (size_t i = 0; i < foreign->table.column_count; i++)
		free((char *)foreign->columns[i].name);
	free(foreign->columns);
	free(foreign->name);
	ws_text_free(&foreign->scratch);
	free(foreign);
}

static struct ws_xforeign *make_foreign(const char *name, const char *columns)
{
	struct ws_xforeign *foreign = ws_calloc(1, sizeof(*foreign));

	foreign->name = ws_strdup(name);
	foreign->slices = *columns == 'S';
	if ((*columns != 'S' && *columns != 'F') || columns[1] != ' ' ||
	    !is_name(name, strlen(name)) || !parse_columns(foreign, columns + 2)) {
		free_foreign(foreign);
		return NULL;
	}
	foreign->table = (struct ws_xtable){foreign->name, "Read from another tool's export",
					    foreign->columns, foreign->table.column_count};
	return foreign;
}

bool ws_export_is_foreign(const struct ws_export *export, const char *name)
{
	for (size_t i = 0; i < export->foreign_count; i++)
		if (!strcasecmp(export->foreign[i]->name, name))
			return true;
	return false;
}

static void find_foreign(struct ws_export *export)
{
	enum { MOST = 512 };
	static const char fact[] = WS_FOREIGN_TABLE_FACT;
	struct ws_cursor *cursor = ws_cursor_open(export->report, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *values;
	size_t cap = 0;

	export->foreign_known = true;
	while (ws_cursor_next(cursor, &values) && export->foreign_count < MOST) {
		const char *name =
			ws_report_string(export->report, (uint32_t)values[ws_meta_name], NULL) +
			sizeof(fact) - 1;
		struct ws_xforeign *foreign;

		if (strncmp(name - (sizeof(fact) - 1), fact, sizeof(fact) - 1) ||
		    ws_export_is_made(name) || ws_export_is_foreign(export, name))
			continue;
		foreign =
			make_foreign(name, ws_report_string(export->report,
							    (uint32_t)values[ws_meta_value], NULL));
		if (!foreign)
			continue;
		foreign->export = export;
		ws_grow(export->foreign, cap, export->foreign_count + 1);
		export->foreign[export->foreign_count++] = foreign;
	}
	ws_cursor_close(cursor);
}

void ws_export_foreign_free(struct ws_export *export)
{
	for (size_t i = 0; i < export->foreign_count; i++)
		free_foreign(export->foreign[i]);
	free(export->foreign);
}

/* ---- rows ---- */

static bool is_of(struct ws_xforeign *foreign, uint64_t label)
{
	size_t len;
	const char *text;

	if (label != foreign->last_label) {
		text = ws_report_string(foreign->export->report, (uint32_t)label, &len);
		foreign->last_label = label;
		foreign->last_is =
			len == strlen(foreign->name) && !memcmp(text, foreign->name, len);
	}
	return foreign->last_is;
}

/* A text of the report's, or one that lives as long as the export. */
static struct ws_xcell text_cell(struct ws_xforeign *foreign, const struct ws_json_value *value,
				 bool pointer)
{
	size_t n;
	const char *text = ws_json_text(value, &foreign->scratch, &n);

	if (pointer)
		return ws_x_extra(foreign->export, text, n);
	if (!value->escaped && ws_utf8_valid(text, n) && !memchr(text, 0, n))
		return (struct ws_xcell){.kind = WS_X_TEXT, .text = text, .n = n};
	if (text != foreign->scratch.text) {
		foreign->scratch.len = 0;
		ws_text_add(&foreign->scratch, text, n);
	}
	ws_text_add(&foreign->scratch, "", 1);
	return ws_x_own(foreign->export, foreign->scratch.text);
}

static struct ws_xcell value_cell(struct ws_xforeign *foreign, size_t column,
				  const struct ws_json_value *value)
{
	const struct ws_xcolumn *xcolumn = &foreign->columns[column];
	bool ok;

	if (value->type == WS_J_STRING && (foreign->pointer[column] || *xcolumn->type == 'T'))
		return text_cell(foreign, value, foreign->pointer[column]);
	if (value->type != WS_J_NUMBER && value->type != WS_J_STRING)
		return ws_x_null();
	if (*xcolumn->type == 'R') {
		double d = ws_json_double(value, &ok);

		return ok ? (struct ws_xcell){.kind = WS_X_REAL, .r = d} : ws_x_null();
	}
	if (*xcolumn->type == 'T')
		return (struct ws_xcell){.kind = WS_X_TEXT, .text = value->text, .n = value->n};
	return (struct ws_xcell){.kind = WS_X_INT, .i = ws_json_fixed(value, 0, &ok)};
}

static void fill_json(struct ws_xforeign *foreign, uint64_t id, struct ws_xcell *cells)
{
	size_t len, at = 0;
	const char *text = ws_report_string(foreign->export->report, (uint32_t)id, &len);
	struct ws_json_value object, key, value;
	struct ws_json_walk walk;
	bool more;

	if (!ws_json_value(text, text + len, &object, &more) || object.type != WS_J_OBJECT)
		return;
	walk = ws_json_walk(&object);
	while (ws_json_next(&walk, &key, &value)) {
		size_t from = at;

		while (!ws_json_is(
			&key, foreign->columns[at].name)) { /* they come in the columns' order */
			at = (at + 1) % foreign->table.column_count;
			if (at == from)
				break;
		}
		if (ws_json_is(&key, foreign->columns[at].name)) {
			cells[at] = value_cell(foreign, at, &value);
			at = (at + 1) % foreign->table.column_count;
		}
	}
}

static bool fill_slice(void *ctx, const uint64_t *values, struct ws_xcell *cells)
{
	struct ws_xforeign *foreign = ctx;

	if (!is_of(foreign, values[ws_slice_category]) ||
	    !ws_export_in_time(foreign->export, values[ws_slice_start], values[ws_slice_end]))
		return false;
	for (size_t c = 0; c < foreign->table.column_count; c++)
		cells[c] = foreign->roles[c] == ROLE_START
				   ? ws_x_time(foreign->export, values[ws_slice_start])
			   : foreign->roles[c] == ROLE_END
				   ? ws_x_ntime(foreign->export, values[ws_slice_end])
			   : foreign->roles[c] == ROLE_THREAD
				   ? ws_x_thread(foreign->export, values[ws_slice_thread])
			   : foreign->roles[c] != ROLE_LABEL ? ws_x_null()
			   : foreign->pointer[c]
				   ? ws_x_string(foreign->export, (uint32_t)values[ws_slice_name])
				   : ws_x_text(foreign->export, (uint32_t)values[ws_slice_name]);
	if (values[ws_slice_args])
		fill_json(foreign, values[ws_slice_args], cells);
	return true;
}

/* Times in a row are the file's: they go where the export has the row's own. */
static bool fill_row(void *ctx, const uint64_t *values, struct ws_xcell *cells)
{
	struct ws_xforeign *foreign = ctx;
	int64_t by = 0;

	if (!is_of(foreign, values[ws_foreign_table]))
		return false;
	for (size_t c = 0; c < foreign->table.column_count; c++)
		cells[c] = ws_x_null();
	fill_json(foreign, values[ws_foreign_row], cells);
	for (size_t c = 0; c < foreign->table.column_count; c++)
		if (foreign->roles[c] == ROLE_START && cells[c].kind == WS_X_INT) {
			if (!ws_export_in_time(foreign->export, values[ws_foreign_start],
					       values[ws_foreign_start]))
				return false;
			by = ws_x_time(foreign->export, values[ws_foreign_start]).i - cells[c].i;
		}
	for (size_t c = 0; c < foreign->table.column_count; c++)
		if ((foreign->roles[c] == ROLE_START || foreign->roles[c] == ROLE_END) &&
		    cells[c].kind == WS_X_INT)
			cells[c].i = (int64_t)((uint64_t)cells[c].i + (uint64_t)by);
	return true;
}

/* ---- metrics ---- */

struct metrics {
	struct ws_export *export;
	struct ws_map counters; /* counter -> index + 1 */
	struct metric {
		const char *table;
		int64_t numbers[3];
	} * metrics;
	size_t n, cap;
	const char *table; /* in hand */
	bool gpu;
};

static const char *const metric_tables[] = {"GPU_METRICS", "NET_NIC_METRIC",
					    "NET_IB_SWITCH_METRIC"};

static void find_metrics(struct metrics *metrics)
{
	static const char fact[] = WS_FOREIGN_COUNTER_FACT;
	struct ws_cursor *cursor =
		ws_cursor_open(metrics->export->report, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		const char *name = ws_report_string(metrics->export->report,
						    (uint32_t)values[ws_meta_name], NULL),
			   *value, *at;
		struct metric one = {0};

		if (strncmp(name, fact, sizeof(fact) - 1))
			continue;
		value = ws_report_string(metrics->export->report, (uint32_t)values[ws_meta_value],
					 NULL);
		at = value + strcspn(value, " ");
		for (size_t i = 0; i < WS_COUNT(metric_tables); i++)
			if (!strncmp(metric_tables[i], value, (size_t)(at - value)) &&
			    !metric_tables[i][at - value])
				one.table = metric_tables[i];
		for (size_t i = 0; i < 3; i++)
			one.numbers[i] = strtoll(at, (char **)&at, 10);
		ws_grow(metrics->metrics, metrics->cap, metrics->n + 1);
		metrics->metrics[metrics->n++] = one;
		ws_map_set(&metrics->counters, strtoull(name + sizeof(fact) - 1, NULL, 10),
			   metrics->n);
	}
	ws_cursor_close(cursor);
}

static bool fill_metric(void *ctx, const uint64_t *values, struct ws_xcell *cells)
{
	struct metrics *metrics = ctx;
	uint64_t at = ws_map_get(&metrics->counters, values[ws_counter_value_counter], NULL);
	const struct metric *one = at ? &metrics->metrics[at - 1] : NULL;
	uint64_t start = values[ws_counter_value_start],
		 end = start + values[ws_counter_value_span];
	size_t n = 0;
	double value;

	if (!one || one->table != metrics->table || !ws_export_in_time(metrics->export, start, end))
		return false;
	memcpy(&value, &values[ws_counter_value_value], sizeof(value));
	cells[n++] = ws_x_time(metrics->export, start);
	if (!metrics->gpu)
		cells[n++] = ws_x_time(metrics->export, end);
	for (size_t i = 0; i < (metrics->gpu ? 2 : 3); i++)
		cells[n++] = ws_x_int(one->numbers[i]);
	cells[n] = value >= -9.2e18 && value <= 9.2e18 ? ws_x_int((int64_t)value) : ws_x_null();
	return true;
}

static int export_metrics(struct ws_export *export, struct ws_err *err)
{
	struct metrics metrics = {.export = export};
	int rc = 0;

	find_metrics(&metrics);
	for (size_t i = 0; i < WS_COUNT(metric_tables) && !rc; i++) {
		struct ws_xtable table = {metric_tables[i],
					  "Metrics read from another tool's export"};
		bool any = false;

		for (size_t k = 0; k < metrics.n; k++)
			any |= metrics.metrics[k].table == metric_tables[i];
		table.columns = ws_known_columns(table.name, &table.column_count);
		metrics.table = metric_tables[i];
		metrics.gpu = !i;
		rc = any ? ws_export_rows(export, &table, WS_TABLE_counter_value, fill_metric,
					  &metrics, err)
			 : ws_export_table(export, &table, err);
	}
	ws_map_free(&metrics.counters);
	free(metrics.metrics);
	return rc;
}

bool ws_export_is_metrics(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(metric_tables); i++)
		if (!strcasecmp(metric_tables[i], name))
			return true;
	return false;
}

int ws_export_foreign(struct ws_export *export, struct ws_err *err)
{
	if (!export->foreign_known)
		find_foreign(export);
	for (size_t i = 0; i < export->foreign_count; i++) {
		struct ws_xforeign *foreign = export->foreign[i];
		int rc = foreign->slices ? ws_export_rows(export, &foreign->table, WS_TABLE_slice,
							  fill_slice, foreign, err)
					 : ws_export_rows(export, &foreign->table, WS_TABLE_foreign,
							  fill_row, foreign, err);

		if (rc < 0)
			return rc;
	}
	return export_metrics(export, err);
}
