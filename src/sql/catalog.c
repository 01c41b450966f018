/*
 * catalog.c - finds the tables that a report has in SQL: those of its export, by running the export
 * without writing.
 *
 * Views of the report's tables (views/view.h) are read from its blocks when a query needs them.
 * Tables that the export makes row by row (enumerations, the machine, processes) are made the first
 * time that a query reads them, by running the export again for that table alone, and are kept as
 * cells.
 */
#include <stdlib.h>
#include <string.h>

#include "sql/table.h"
#include "base/choose.h"

static struct ws_sql_table *add_table(struct ws_sql_report *report,
				      const struct ws_view_table *table)
{
	struct ws_sql_table *sql_table = ws_calloc(1, sizeof(*sql_table));

	sql_table->report = report;
	sql_table->name = table->name;
	sql_table->doc = ws_text_or(table->doc, "");
	sql_table->columns = table->columns;
	sql_table->column_count = table->column_count;
	sql_table->distinct = ws_calloc(table->column_count + 1, sizeof(*sql_table->distinct));
	ws_grow(report->tables, report->table_capacity, report->table_count + 1);
	report->tables[report->table_count++] = sql_table;
	return sql_table;
}

static struct ws_sql_report *find_report(struct ws_table_writer *xwriter)
{
	return (struct ws_sql_report *)((char *)xwriter - offsetof(struct ws_sql_report, writer));
}

/* ---- the export's writer: first it collects the tables, later it keeps the rows of one ---- */

/* The export asks this before it begins a table, and skips those that are "there already". So
 * tables are collected here, and later all but the one to be kept are skipped. */
static bool skip_table(struct ws_table_writer *writer, const char *name)
{
	struct ws_sql_report *report = find_report(writer);
	struct ws_sql_table *table;

	if (report->making)
		return strcmp(name, report->making->name);
	if (!report->export.open || strcmp(report->export.open->name, name))
		return false; /* a view */
	table = add_table(report, report->export.open);
	table->kind = WS_SQL_CELLS;
	table->own_columns = ws_malloc((table->column_count + 1) * sizeof(*table->own_columns));
	memcpy(table->own_columns, table->columns,
	       table->column_count * sizeof(*table->own_columns));
	table->columns = table->own_columns;
	return true;
}

static int collect_view(struct ws_table_writer *writer, struct ws_cell_context *export,
			const struct ws_table_view *view, uint64_t *rows, struct ws_err *err)
{
	struct ws_sql_report *report = find_report(writer);
	struct ws_sql_table *table;

	(void)export, (void)rows, (void)err;
	if (report->making)
		return 0;
	table = add_table(report, &view->table);
	table->kind = WS_SQL_BLOCKS;
	table->view = view;
	return 0;
}

static int keep_table(struct ws_table_writer *writer, const struct ws_view_table *table,
		      struct ws_err *err)
{
	(void)writer, (void)table, (void)err;
	return 0;
}

static int keep_rows(struct ws_table_writer *writer, const struct ws_view_cell *cells, size_t rows,
		     struct ws_err *err)
{
	struct ws_sql_report *report = find_report(writer);
	struct ws_sql_table *table = report->making;
	size_t count = rows * table->column_count;

	if (ws_sql_must_stop(report->sql))
		return ws_fail(err, "interrupted");
	ws_grow(table->cells, table->cell_capacity, table->cell_count + count);
	for (size_t i = 0; i < count; i++) {
		struct ws_view_cell *cell = &table->cells[table->cell_count++];

		*cell = cells[i];
		if (cell->kind != WS_VIEW_TEXT) /* a text is valid only during the call */
			continue;
		if (cell->id) {
			*cell = ws_make_text_cell(&report->export, cell->id);
		} else {
			char *text = ws_strndup(cell->text, cell->n);

			*cell = ws_make_own_text_cell(&report->export, text);
			free(text);
		}
	}
	return 0;
}

static int close_nothing(struct ws_table_writer *writer, bool keep, struct ws_err *err)
{
	(void)writer, (void)keep, (void)err;
	return 0;
}

int ws_sql_make_cells(struct ws_sql_table *table, struct ws_err *err)
{
	struct ws_sql_report *report = table->report;
	int rc;

	if (table->kind != WS_SQL_CELLS || table->made)
		return 0;
	report->making = table;
	report->export.open = NULL;
	table->cell_count = 0;
	rc = ws_write_all_tables(&report->export, err);
	report->making = NULL;
	table->made = !rc;
	return rc;
}

static void add_strings(struct ws_sql_report *report)
{
	static const struct ws_view_column columns[] = {
		{"id", "INTEGER", true, true, "Number of the text"},
		{"value", "TEXT", true, false, "The text"},
	};
	static const struct ws_view_table table = {"StringIds", "Texts that other tables point to",
						   columns, WS_COUNT(columns)};

	for (size_t i = 0; i < report->table_count; i++)
		if (!strcmp(report->tables[i]->name, table.name))
			return;
	add_table(report, &table)->kind = WS_SQL_STRINGS;
}

int ws_sql_read_catalog(struct ws_sql_report *sql_report, const struct ws_report *report,
			struct ws_err *err)
{
	ws_open_cell_context(&sql_report->export, report);
	sql_report->export.type = "query";
	sql_report->export.output = "-";
	sql_report->export.append = true; /* so that the writer is asked about each table */
	sql_report->writer = (struct ws_table_writer){.begin_table = keep_table,
						      .write_rows = keep_rows,
						      .close_writer = close_nothing,
						      .write_view = collect_view,
						      .has_table = skip_table};
	sql_report->export.writer = &sql_report->writer;
	if (ws_write_all_tables(&sql_report->export, err) < 0)
		return -1;
	add_strings(sql_report);
	return 0;
}

void ws_sql_free_catalog(struct ws_sql_report *report)
{
	for (size_t i = 0; i < report->table_count; i++) {
		ws_sql_free_cell_indices(report->tables[i]);
		free(report->tables[i]->own_columns);
		free(report->tables[i]->distinct);
		free(report->tables[i]->cells);
		free(report->tables[i]);
	}
	free(report->tables);
	free(report->sorted);
	ws_close_cell_context(&report->export);
}

static void put_sql_comment(struct ws_text *sql, const char *doc)
{
	ws_text_puts(sql, " -- ");
	for (; *doc; doc++) {
		if (*doc == '\n')
			ws_text_puts(sql, " ");
		else
			ws_text_add(sql, doc, 1);
	}
}

void ws_sql_put_create(const struct ws_sql_table *table, bool comments, struct ws_text *sql)
{
	ws_text_printf(sql, "CREATE TABLE %s (", table->name);
	if (comments && *table->doc)
		put_sql_comment(sql, table->doc);
	for (size_t i = 0; i < table->column_count; i++) {
		const struct ws_view_column *column = &table->columns[i];

		ws_text_printf(sql, "\n    \"%s\" %s", column->name, column->type);
		if (column->not_null)
			ws_text_puts(sql, " NOT NULL");
		if (i + 1 < table->column_count)
			ws_text_puts(sql, ",");
		if (comments && column->doc)
			put_sql_comment(sql, column->doc);
	}
	ws_text_puts(sql, "\n)");
}

uint64_t ws_sql_count_rows(const struct ws_sql_table *table)
{
	switch (table->kind) {
	case WS_SQL_BLOCKS:
		return ws_report_count_rows(table->report->export.report, table->view->source);
	case WS_SQL_CELLS:
		if (!table->made)
			return 100; /* a guess, for planning */
		if (!table->column_count)
			return 0;
		return table->cell_count / table->column_count;
	default:
		return (uint64_t)table->report->export.string_count +
		       table->report->export.extra_text_count;
	}
}

/* ---- values ---- */

static void gather_values(uint64_t *values, uint64_t columns, uint64_t *const *source_columns,
			  size_t row)
{
	for (; columns; columns &= columns - 1) {
		int index = __builtin_ctzll(columns);

		values[index] = source_columns[index][row];
	}
}

struct ws_view_cell ws_sql_make_cell(const struct ws_sql_table *table, size_t column,
				     uint64_t *const *source_columns, size_t row)
{
	uint64_t values[WS_MAX_COLUMNS];

	gather_values(values, ws_find_column_reads(&table->columns[column]), source_columns, row);
	return ws_make_column_cell(&table->report->export, &table->columns[column], values);
}

bool ws_sql_keeps_row(const struct ws_sql_table *table, uint64_t *const *source_columns, size_t row)
{
	uint64_t values[WS_MAX_COLUMNS];

	if (!table->view->keeps_row)
		return true;
	gather_values(values, table->view->row_reads, source_columns, row);
	return table->view->keeps_row(values);
}

uint64_t ws_sql_find_sources(const struct ws_sql_table *table, uint64_t columns)
{
	uint64_t sources = 0;

	if (table->view->keeps_row)
		sources = table->view->row_reads;
	/* In SQLite's colUsed, the last bit stands for all columns from there on. */
	for (size_t i = 0; i < table->column_count; i++)
		if (columns >> (ws_min(i, 63)) & 1)
			sources |= ws_find_column_reads(&table->columns[i]);
	return sources;
}
