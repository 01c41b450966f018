/*
 * catalog.c - which tables a report has in SQL: those of its export, found by running the export without writing.
 *
 * Tables that the export makes from the rows of a table of the report are only noted (ws_export.lazily): their rows are read when
 * a query asks. Those that it makes row by row (enumerations, the machine, processes) are small and kept as cells.
 */
#include <stdlib.h>
#include <string.h>

#include "sql/table.h"

static struct ws_sql_table *add_table(struct ws_sql_report *r, const struct ws_xtable *x)
{
	struct ws_sql_table *t = ws_calloc(1, sizeof(*t));

	t->of = r;
	t->name = ws_strdup(x->name);
	t->doc = ws_strdup(x->doc ? x->doc : "");
	t->column_count = x->column_count;
	t->columns = ws_calloc(x->column_count + 1, sizeof(*t->columns));
	for (size_t i = 0; i < x->column_count; i++)
		t->columns[i] = (struct ws_sql_column){.x = x->columns[i], .conv = WS_CONV_FILL};
	ws_grow(r->tables, r->table_cap, r->table_count + 1);
	r->tables[r->table_count++] = t;
	return t;
}

/* ---- rows that are made at once ---- */

static int keep_table(struct ws_xwriter *w, const struct ws_xtable *x, struct ws_err *e)
{
	struct ws_sql_report *r = (struct ws_sql_report *)((char *)w - offsetof(struct ws_sql_report, writer));

	(void)e;
	add_table(r, x)->kind = WS_SQL_CELLS;
	return 0;
}

static int keep_rows(struct ws_xwriter *w, const struct ws_xcell *cells, size_t rows, struct ws_err *e)
{
	struct ws_sql_report *r = (struct ws_sql_report *)((char *)w - offsetof(struct ws_sql_report, writer));
	struct ws_sql_table *t = r->tables[r->table_count - 1];
	size_t n = rows * t->column_count;

	(void)e;
	ws_grow(t->cells, t->cell_cap, t->cell_count + n);
	for (size_t i = 0; i < n; i++) {
		struct ws_xcell *c = &t->cells[t->cell_count++];

		*c = cells[i];
		if (c->kind == WS_X_TEXT) /* it may be good only during the call */
			*c = ws_x_own(&r->x, c->s, c->n);
	}
	return 0;
}

static int keep_nothing(struct ws_xwriter *w, bool keep, struct ws_err *e)
{
	(void)w, (void)keep, (void)e;
	return 0;
}

/* ---- rows that stay where they are ---- */

static enum ws_sql_conv conversion(enum ws_type type, bool text)
{
	switch (type) {
	case WS_T_TIME:
		return WS_CONV_TIME;
	case WS_T_NTIME:
		return WS_CONV_NTIME;
	case WS_T_STR:
		return text ? WS_CONV_TEXT : WS_CONV_STRING;
	case WS_T_THREAD:
	case WS_T_NTHREAD:
		return WS_CONV_THREAD;
	case WS_T_PROCESS:
		return WS_CONV_PROCESS;
	case WS_T_NU32:
		return WS_CONV_NU32;
	case WS_T_NU64:
		return WS_CONV_NU64;
	case WS_T_F64:
		return WS_CONV_REAL;
	case WS_T_I32:
		return WS_CONV_STATUS;
	default:
		return WS_CONV_INT;
	}
}

static int note_rows(struct ws_export *x, const struct ws_xtable *xt, enum ws_table source, ws_x_fill *fill, struct ws_err *e)
{
	struct ws_sql_table *t = add_table(x->lazily_ctx, xt);
	uint32_t n = ws_tables[source].column_count;

	(void)e;
	t->kind = WS_SQL_BLOCKS;
	t->source = source;
	t->fill = fill;
	t->all = n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
	t->opaque = fill != NULL;
	for (size_t i = 0; i < t->column_count; i++) {
		struct ws_sql_column *c = &t->columns[i];

		t->opaque &= !c->x.from;
		if (!fill && !c->x.from)
			c->conv = WS_CONV_NULL;
		if (!c->x.plain || !c->x.from)
			continue;
		c->source = (uint8_t)__builtin_ctzll(c->x.from);
		c->conv = conversion(ws_tables[source].columns[c->source].type, !strcmp(c->x.type, "TEXT"));
	}
	return 0;
}

/* ---- numbers of threads and processes, looked up once ---- */

static void read_who(struct ws_sql_report *r)
{
	r->threads = ws_who_threads(r->x.who);
	r->processes = ws_who_processes(r->x.who);
	r->thread_gid = ws_calloc((size_t)r->threads + 1, sizeof(*r->thread_gid));
	r->process_gid = ws_calloc((size_t)r->processes + 1, sizeof(*r->process_gid));
	for (uint32_t i = 0; i <= r->threads; i++)
		r->thread_gid[i] = (int64_t)ws_who_thread(r->x.who, i)->global_tid;
	for (uint32_t i = 0; i <= r->processes; i++)
		r->process_gid[i] = (int64_t)ws_who_process(r->x.who, i)->global_pid;
}

static void add_strings(struct ws_sql_report *r)
{
	static const struct ws_xcolumn columns[] = {
	    {"id", "INTEGER", true, true, "Number of the text"},
	    {"value", "TEXT", true, false, "The text"},
	};
	static const struct ws_xtable table = {"StringIds", "Texts that other tables point to", columns, WS_COUNT(columns)};

	add_table(r, &table)->kind = WS_SQL_STRINGS;
}

int ws_sql_catalog(struct ws_sql_report *r, const struct ws_report *report, struct ws_err *e)
{
	ws_export_begin(&r->x, report);
	r->x.type = "query";
	r->x.input = ws_report_path(report);
	r->x.output = "-";
	r->x.lazily = note_rows;
	r->x.lazily_ctx = r;
	r->writer = (struct ws_xwriter){keep_table, keep_rows, keep_nothing};
	r->x.w = &r->writer;
	read_who(r);
	if (ws_export_tables(&r->x, e) < 0)
		return -1;
	add_strings(r);
	return 0;
}

void ws_sql_catalog_free(struct ws_sql_report *r)
{
	for (size_t i = 0; i < r->table_count; i++) {
		free(r->tables[i]->name);
		free(r->tables[i]->doc);
		free(r->tables[i]->columns);
		free(r->tables[i]->cells);
		free(r->tables[i]);
	}
	free(r->tables);
	free(r->sorted);
	free(r->thread_gid);
	free(r->process_gid);
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
		const struct ws_xcolumn *c = &t->columns[i].x;

		ws_text_printf(sql, "\n    \"%s\" %s%s%s", c->name, c->type, c->not_null ? " NOT NULL" : "",
			       i + 1 < t->column_count ? "," : "");
		if (comments && c->doc)
			put_comment(sql, c->doc);
	}
	ws_text_puts(sql, "\n)");
}

uint64_t ws_sql_rows(const struct ws_sql_table *t)
{
	switch (t->kind) {
	case WS_SQL_BLOCKS:
		return ws_report_rows(t->of->x.r, t->source);
	case WS_SQL_CELLS:
		return t->column_count ? t->cell_count / t->column_count : 0;
	default:
		return (uint64_t)t->of->x.string_count + t->of->x.extra_count;
	}
}

/* ---- values ---- */

static struct ws_xcell integer(bool null, int64_t v)
{
	return null ? ws_x_null() : ws_x_int(v);
}

struct ws_xcell ws_sql_cell(const struct ws_sql_table *t, size_t c, uint64_t *const *col, size_t row, const struct ws_xcell *filled)
{
	const struct ws_sql_column *d = &t->columns[c];
	struct ws_export *x = &t->of->x;
	uint64_t v;

	if (d->conv == WS_CONV_NULL)
		return ws_x_null();
	if (d->conv == WS_CONV_FILL)
		return filled[c];
	v = col[d->source][row];
	switch (d->conv) {
	case WS_CONV_TIME:
		return ws_x_int((int64_t)(v - x->zero));
	case WS_CONV_NTIME:
		return integer(v == WS_NO_TIME, (int64_t)(v - x->zero));
	case WS_CONV_NU32:
		return integer(v == WS_NO_U32, (int64_t)v);
	case WS_CONV_NU64:
		return integer(v == WS_NO_U64, (int64_t)v);
	case WS_CONV_STATUS:
		return integer((int32_t)v == WS_NO_STATUS, (int64_t)v);
	case WS_CONV_THREAD:
		return integer(!v, ws_sql_thread(t->of, v));
	case WS_CONV_PROCESS:
		return integer(!v, ws_sql_process(t->of, v));
	case WS_CONV_STRING:
		return ws_x_string(x, (uint32_t)v);
	case WS_CONV_TEXT:
		return ws_x_text(x, (uint32_t)v);
	case WS_CONV_REAL: {
		struct ws_xcell r = {.kind = WS_X_REAL};

		memcpy(&r.r, &v, 8);
		return r;
	}
	default:
		return ws_x_int((int64_t)v);
	}
}

bool ws_sql_fill(const struct ws_sql_table *t, uint64_t decoded, uint64_t *const *col, size_t row, struct ws_xcell *filled)
{
	uint64_t v[WS_MAX_COLUMNS] = {0};

	for (uint64_t left = decoded; left; left &= left - 1) {
		int k = __builtin_ctzll(left);

		v[k] = col[k][row];
	}
	return t->fill(&t->of->x, v, filled);
}

uint64_t ws_sql_sources(const struct ws_sql_table *t, uint64_t columns)
{
	uint64_t sources = 0;

	if (t->opaque)
		return t->all;
	for (size_t i = 0; i < t->column_count; i++)
		if (columns >> (i < 63 ? i : 63) & 1) /* as SQLite's colUsed: the last bit stands for all beyond */
			sources |= t->columns[i].x.from;
	return sources & t->all;
}
