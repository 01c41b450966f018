/*
 * catalog.c - which tables a report has in SQL: those of its export, found by running the export
 * without writing.
 *
 * Views of the report's tables (views/view.h) are read from its blocks when a query asks. Tables
 * that the export makes row by row (enumerations, the machine, processes) are made the first time
 * that a query reads them, by running the export again for that table alone, and kept as cells.
 */
#include <stdlib.h>
#include <string.h>

#include "sql/table.h"

static struct ws_sql_table *add_table(struct ws_sql_report *r, const struct ws_xtable *x)
{
	struct ws_sql_table *t = ws_calloc(1, sizeof(*t));

	t->of = r;
	t->name = x->name;
	t->doc = x->doc ? x->doc : "";
	t->columns = x->columns;
	t->column_count = x->column_count;
	ws_grow(r->tables, r->table_cap, r->table_count + 1);
	r->tables[r->table_count++] = t;
	return t;
}

static struct ws_sql_report *report_of(struct ws_xwriter *w)
{
	return (struct ws_sql_report *)((char *)w - offsetof(struct ws_sql_report, writer));
}

/* ---- the export's writer: first it takes note of tables, later it keeps the rows of one ---- */

/* Called for every table before it is begun: those that are "there already" are passed over. */
static bool pass_over(struct ws_xwriter *w, const char *name)
{
	struct ws_sql_report *r = report_of(w);
	struct ws_sql_table *t;

	if (r->making)
		return strcmp(name, r->making->name);
	if (!r->x.open || strcmp(r->x.open->name, name))
		return false; /* a view */
	t = add_table(r, r->x.open);
	t->kind = WS_SQL_CELLS;
	t->own_columns = ws_malloc((t->column_count + 1) * sizeof(*t->own_columns));
	memcpy(t->own_columns, t->columns, t->column_count * sizeof(*t->own_columns));
	t->columns = t->own_columns;
	return true;
}

static int note_view(struct ws_xwriter *w, struct ws_export *x, const struct ws_xview *v,
		     uint64_t *rows, struct ws_err *e)
{
	struct ws_sql_report *r = report_of(w);
	struct ws_sql_table *t;

	(void)x, (void)rows, (void)e;
	if (r->making)
		return 0;
	t = add_table(r, &v->t);
	t->kind = WS_SQL_BLOCKS;
	t->view = v;
	return 0;
}

static int keep_table(struct ws_xwriter *w, const struct ws_xtable *x, struct ws_err *e)
{
	(void)w, (void)x, (void)e;
	return 0;
}

static int keep_rows(struct ws_xwriter *w, const struct ws_xcell *cells, size_t rows,
		     struct ws_err *e)
{
	struct ws_sql_report *r = report_of(w);
	struct ws_sql_table *t = r->making;
	size_t n = rows * t->column_count;

	if (r->sql->stop)
		return ws_fail(e, "interrupted");
	ws_grow(t->cells, t->cell_cap, t->cell_count + n);
	for (size_t i = 0; i < n; i++) {
		struct ws_xcell *c = &t->cells[t->cell_count++];

		*c = cells[i];
		if (c->kind != WS_X_TEXT) /* a text is good only during the call */
			continue;
		if (c->id) {
			*c = ws_x_text(&r->x, c->id);
		} else {
			char *text = ws_strndup(c->s, c->n);

			*c = ws_x_own(&r->x, text);
			free(text);
		}
	}
	return 0;
}

static int keep_nothing(struct ws_xwriter *w, bool keep, struct ws_err *e)
{
	(void)w, (void)keep, (void)e;
	return 0;
}

int ws_sql_make(struct ws_sql_table *t, struct ws_err *e)
{
	struct ws_sql_report *r = t->of;
	int rc;

	if (t->kind != WS_SQL_CELLS || t->made)
		return 0;
	r->making = t;
	r->x.open = NULL;
	t->cell_count = 0;
	rc = ws_export_tables(&r->x, e);
	r->making = NULL;
	t->made = !rc;
	return rc;
}

static void add_strings(struct ws_sql_report *r)
{
	static const struct ws_xcolumn columns[] = {
		{"id", "INTEGER", true, true, "Number of the text"},
		{"value", "TEXT", true, false, "The text"},
	};
	static const struct ws_xtable table = {"StringIds", "Texts that other tables point to",
					       columns, WS_COUNT(columns)};

	for (size_t i = 0; i < r->table_count; i++)
		if (!strcmp(r->tables[i]->name, table.name))
			return;
	add_table(r, &table)->kind = WS_SQL_STRINGS;
}

int ws_sql_catalog(struct ws_sql_report *r, const struct ws_report *report, struct ws_err *e)
{
	ws_export_begin(&r->x, report);
	r->x.type = "query";
	r->x.output = "-";
	r->x.append = true; /* so that the writer is asked about each table */
	r->writer = (struct ws_xwriter){.table = keep_table,
					.rows = keep_rows,
					.close = keep_nothing,
					.view = note_view,
					.has = pass_over};
	r->x.w = &r->writer;
	if (ws_export_tables(&r->x, e) < 0)
		return -1;
	add_strings(r);
	return 0;
}

void ws_sql_catalog_free(struct ws_sql_report *r)
{
	for (size_t i = 0; i < r->table_count; i++) {
		free(r->tables[i]->own_columns);
		free(r->tables[i]->cells);
		free(r->tables[i]);
	}
	free(r->tables);
	free(r->sorted);
	ws_export_end(&r->x);
}

static void put_comment(struct ws_text *sql, const char *doc)
{
	ws_text_puts(sql, " -- ");
	for (; *doc; doc++)
		ws_text_add(sql, *doc == '\n' ? " " : doc, 1);
}

void ws_sql_create(const struct ws_sql_table *t, bool comments, struct ws_text *sql)
{
	ws_text_printf(sql, "CREATE TABLE %s (", t->name);
	if (comments && *t->doc)
		put_comment(sql, t->doc);
	for (size_t i = 0; i < t->column_count; i++) {
		const struct ws_xcolumn *c = &t->columns[i];

		ws_text_printf(sql, "\n    \"%s\" %s%s%s", c->name, c->type,
			       c->not_null ? " NOT NULL" : "", i + 1 < t->column_count ? "," : "");
		if (comments && c->doc)
			put_comment(sql, c->doc);
	}
	ws_text_puts(sql, "\n)");
}

uint64_t ws_sql_rows(const struct ws_sql_table *t)
{
	switch (t->kind) {
	case WS_SQL_BLOCKS:
		return ws_report_rows(t->of->x.r, t->view->source);
	case WS_SQL_CELLS:
		return !t->made ? 100 : t->column_count ? t->cell_count / t->column_count : 0;
	default:
		return (uint64_t)t->of->x.string_count + t->of->x.extra_count;
	}
}

/* ---- values ---- */

static void gather(uint64_t *v, uint64_t columns, uint64_t *const *col, size_t row)
{
	for (; columns; columns &= columns - 1) {
		int k = __builtin_ctzll(columns);

		v[k] = col[k][row];
	}
}

struct ws_xcell ws_sql_cell(const struct ws_sql_table *t, size_t c, uint64_t *const *col,
			    size_t row)
{
	uint64_t v[WS_MAX_COLUMNS];

	gather(v, ws_xcolumn_reads(&t->columns[c]), col, row);
	return ws_xcolumn_cell(&t->of->x, &t->columns[c], v);
}

bool ws_sql_keeps(const struct ws_sql_table *t, uint64_t *const *col, size_t row)
{
	uint64_t v[WS_MAX_COLUMNS];

	if (!t->view->keep)
		return true;
	gather(v, t->view->keep_reads, col, row);
	return t->view->keep(v);
}

uint64_t ws_sql_sources(const struct ws_sql_table *t, uint64_t columns)
{
	uint64_t sources = t->view->keep ? t->view->keep_reads : 0;

	for (size_t i = 0; i < t->column_count; i++)
		if (columns >> (i < 63 ? i : 63) &
		    1) /* as SQLite's colUsed: the last bit stands for all beyond */
			sources |= ws_xcolumn_reads(&t->columns[i]);
	return sources;
}
