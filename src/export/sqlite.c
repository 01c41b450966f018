/*
 * sqlite.c - the SQLite writer.
 *
 * One transaction, no journal and no syncing: the file counts only once it is complete and renamed.
 * A batch of rows is a virtual table for a moment, and one INSERT ... SELECT takes it in: that
 * saves binding, stepping and resetting a statement for each row, which costs as much again as the
 * row. Texts are taken from where they lie.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "export/formats.h"
#include "views/sqlite_value.h"

struct sqlite_writer {
	struct ws_xwriter w;
	sqlite3 *db;
	sqlite3_stmt *insert;
	size_t columns;
	const struct ws_xcell *cells; /* the batch in hand */
	size_t rows;
	const char *name; /* of the database, as the user calls it */
	bool append;	  /* an earlier export is there */
	bool strings;	  /* the table in hand is StringIds, and texts are there already */
};

static int fail(struct sqlite_writer *s, struct ws_err *e)
{
	int os = sqlite3_system_errno(s->db);

	return ws_fail(e, "cannot write %s: %s%s%s", s->name, sqlite3_errmsg(s->db), os ? ": " : "",
		       os ? strerror(os) : "");
}

static int run(struct sqlite_writer *s, const char *sql, struct ws_err *e)
{
	return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(s, e);
}

/* Names and documentation come from our own tables, but quotes in them must not break the
 * statement. */
static void put_comment(struct ws_text *sql, const char *doc)
{
	if (!doc || !*doc)
		return;
	ws_text_puts(sql, " -- ");
	for (; *doc; doc++)
		ws_text_add(sql, *doc == '\n' ? " " : doc, 1);
}

/* A key of several columns is not declared: its index would cost as much as the table. */
static bool has_one_key(const struct ws_xtable *t)
{
	size_t keys = 0;

	for (size_t i = 0; i < t->column_count; i++)
		keys += t->columns[i].key;
	return keys == 1;
}

static void create_sql(struct ws_text *sql, const struct ws_xtable *t)
{
	bool one_key = has_one_key(t);

	ws_text_printf(sql, "CREATE TABLE %s (", t->name);
	put_comment(sql, t->doc);
	for (size_t i = 0; i < t->column_count; i++) {
		const struct ws_xcolumn *c = &t->columns[i];

		ws_text_printf(sql, "\n    \"%s\" %s%s%s%s", c->name, c->type,
			       c->not_null ? " NOT NULL" : "",
			       c->key && one_key ? " PRIMARY KEY" : "",
			       i + 1 < t->column_count ? "," : "");
		put_comment(sql, c->doc);
	}
	ws_text_puts(sql, "\n)");
}

static void insert_sql(struct ws_text *sql, const struct ws_xtable *t, bool strings)
{
	ws_text_printf(sql, "INSERT INTO main.%s SELECT ", t->name);
	for (size_t i = 0; i < t->column_count; i++)
		ws_text_printf(sql, i ? ",c%zu" : "c%zu", i);
	ws_text_puts(sql, " FROM feed");
	if (strings) /* a number that means another text already fails */
		ws_text_puts(sql, " WHERE NOT EXISTS (SELECT 1 FROM main.StringIds s WHERE s.id = "
				  "c0 AND s.value = c1)");
}

/* ---- feed: the virtual table whose rows are the batch in hand ---- */

struct feed {
	sqlite3_vtab base;
	struct sqlite_writer *s;
};

struct feed_cursor {
	sqlite3_vtab_cursor base;
	const struct ws_xcell *cells;
	size_t left;
};

static int feed_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
			sqlite3_vtab **out, char **err)
{
	struct ws_text sql = {0};
	struct feed *f;
	int rc;

	(void)argc, (void)argv, (void)err;
	ws_text_puts(&sql, "CREATE TABLE feed(");
	for (int i = 0; i < WS_MAX_COLUMNS; i++)
		ws_text_printf(&sql, i ? ",c%d" : "c%d", i);
	ws_text_puts(&sql, ")");
	rc = sqlite3_declare_vtab(db, sql.s);
	ws_text_free(&sql);
	if (rc != SQLITE_OK)
		return rc;
	f = ws_calloc(1, sizeof(*f));
	f->s = aux;
	*out = &f->base;
	return SQLITE_OK;
}

static int feed_disconnect(sqlite3_vtab *t)
{
	free(t);
	return SQLITE_OK;
}

static int feed_best_index(sqlite3_vtab *t, sqlite3_index_info *info)
{
	(void)t;
	info->estimatedCost = 1000;
	return SQLITE_OK;
}

static int feed_open(sqlite3_vtab *t, sqlite3_vtab_cursor **out)
{
	struct feed_cursor *c = ws_calloc(1, sizeof(*c));

	(void)t;
	*out = &c->base;
	return SQLITE_OK;
}

static int feed_close(sqlite3_vtab_cursor *c)
{
	free(c);
	return SQLITE_OK;
}

static int feed_filter(sqlite3_vtab_cursor *base, int number, const char *name, int argc,
		       sqlite3_value **argv)
{
	struct feed_cursor *c = (struct feed_cursor *)base;
	const struct sqlite_writer *s = ((struct feed *)base->pVtab)->s;

	(void)number, (void)name, (void)argc, (void)argv;
	c->cells = s->cells;
	c->left = s->rows;
	return SQLITE_OK;
}

static int feed_next(sqlite3_vtab_cursor *base)
{
	struct feed_cursor *c = (struct feed_cursor *)base;

	c->cells += ((struct feed *)base->pVtab)->s->columns;
	c->left--;
	return SQLITE_OK;
}

static int feed_eof(sqlite3_vtab_cursor *base)
{
	return !((struct feed_cursor *)base)->left;
}

static int feed_column(sqlite3_vtab_cursor *base, sqlite3_context *out, int at)
{
	ws_sqlite_give(out, &((struct feed_cursor *)base)->cells[at]);
	return SQLITE_OK;
}

static int feed_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
	*out = (sqlite3_int64)((struct feed_cursor *)base)->left;
	return SQLITE_OK;
}

static const sqlite3_module feed_module = {
	.xConnect = feed_connect,
	.xBestIndex = feed_best_index,
	.xDisconnect = feed_disconnect,
	.xDestroy = feed_disconnect,
	.xOpen = feed_open,
	.xClose = feed_close,
	.xFilter = feed_filter,
	.xNext = feed_next,
	.xEof = feed_eof,
	.xColumn = feed_column,
	.xRowid = feed_rowid,
};

/* ---- tables and rows ---- */

static bool is_there(struct sqlite_writer *s, const char *table)
{
	char *sql = sqlite3_mprintf("SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND "
				    "name = %Q COLLATE NOCASE",
				    table);
	sqlite3_stmt *q = NULL;
	bool there = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) == SQLITE_OK &&
		     sqlite3_step(q) == SQLITE_ROW;

	sqlite3_finalize(q);
	sqlite3_free(sql);
	return there;
}

/* Texts are added to those that are there: tables that come later point to them. */
static bool has(struct ws_xwriter *w, const char *table)
{
	struct sqlite_writer *s = (struct sqlite_writer *)w;

	return s->append && strcmp(table, "StringIds") && is_there(s, table);
}

static int table(struct ws_xwriter *w, const struct ws_xtable *t, struct ws_err *e)
{
	struct sqlite_writer *s = (struct sqlite_writer *)w;
	struct ws_text create = {0}, insert = {0};
	int rc;

	sqlite3_finalize(s->insert);
	s->insert = NULL;
	s->strings = s->append && !strcmp(t->name, "StringIds") && is_there(s, t->name);
	create_sql(&create, t);
	insert_sql(&insert, t, s->strings);
	rc = s->strings ? 0 : run(s, create.s, e);
	if (!rc && sqlite3_prepare_v3(s->db, insert.s, -1, SQLITE_PREPARE_PERSISTENT, &s->insert,
				      NULL) != SQLITE_OK)
		rc = fail(s, e);
	s->columns = t->column_count;
	ws_text_free(&create);
	ws_text_free(&insert);
	return rc;
}

static int rows(struct ws_xwriter *w, const struct ws_xcell *cells, size_t count, struct ws_err *e)
{
	struct sqlite_writer *s = (struct sqlite_writer *)w;

	s->cells = cells;
	s->rows = count;
	if (sqlite3_step(s->insert) != SQLITE_DONE)
		return s->strings && sqlite3_errcode(s->db) == SQLITE_CONSTRAINT
			       ? ws_fail(e, "the database holds the texts of another report: "
					    "--append only adds tables of the same one")
			       : fail(s, e);
	return sqlite3_reset(s->insert) == SQLITE_OK ? 0 : fail(s, e);
}

static int finish(struct ws_xwriter *w, bool keep, struct ws_err *e)
{
	struct sqlite_writer *s = (struct sqlite_writer *)w;
	int rc = 0;

	sqlite3_finalize(s->insert);
	if (keep)
		rc = run(s, "COMMIT", e);
	sqlite3_close(s->db);
	free(s);
	return rc;
}

struct ws_xwriter *ws_xformat_open_sqlite(const struct ws_xtarget *t, struct ws_err *e)
{
	struct sqlite_writer *s = ws_calloc(1, sizeof(*s));

	/* One thread uses SQLite here: no locks, no counting of memory. Refused, and no matter,
	 * when SQLite already runs. */
	sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	s->w = (struct ws_xwriter){.table = table, .rows = rows, .close = finish, .has = has};
	s->append = t->append;
	s->name = t->name;
	if (sqlite3_open_v2(t->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
		    SQLITE_OK ||
	    run(s,
		"PRAGMA page_size = 65536; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; "
		"PRAGMA locking_mode = EXCLUSIVE; "
		"PRAGMA temp_store = MEMORY; BEGIN",
		e) < 0 ||
	    sqlite3_create_module(s->db, "feed", &feed_module, s) != SQLITE_OK) {
		fail(s, e);
		finish(&s->w, false, NULL);
		return NULL;
	}
	return &s->w;
}
