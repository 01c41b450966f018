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
	struct ws_xwriter writer;
	sqlite3 *db;
	sqlite3_stmt *insert;
	size_t columns;
	const struct ws_xcell *cells; /* the batch in hand */
	size_t rows;
	const char *name; /* of the database, as the user calls it */
	bool append;	  /* an earlier export is there */
	bool strings;	  /* the table in hand is StringIds, and texts are there already */
};

static int fail(struct sqlite_writer *writer, struct ws_err *err)
{
	int os = sqlite3_system_errno(writer->db);

	return ws_fail(err, "cannot write %s: %s%s%s", writer->name, sqlite3_errmsg(writer->db),
		       os ? ": " : "", os ? strerror(os) : "");
}

static int run(struct sqlite_writer *writer, const char *sql, struct ws_err *err)
{
	return sqlite3_exec(writer->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(writer, err);
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
static bool has_one_key(const struct ws_xtable *table)
{
	size_t keys = 0;

	for (size_t i = 0; i < table->column_count; i++)
		keys += table->columns[i].key;
	return keys == 1;
}

static void create_sql(struct ws_text *sql, const struct ws_xtable *table)
{
	bool one_key = has_one_key(table);

	ws_text_printf(sql, "CREATE TABLE %s (", table->name);
	put_comment(sql, table->doc);
	for (size_t i = 0; i < table->column_count; i++) {
		const struct ws_xcolumn *column = &table->columns[i];

		ws_text_printf(sql, "\n    \"%s\" %s%s%s%s", column->name, column->type,
			       column->not_null ? " NOT NULL" : "",
			       column->key && one_key ? " PRIMARY KEY" : "",
			       i + 1 < table->column_count ? "," : "");
		put_comment(sql, column->doc);
	}
	ws_text_puts(sql, "\n)");
}

static void insert_sql(struct ws_text *sql, const struct ws_xtable *table, bool strings)
{
	ws_text_printf(sql, "INSERT INTO main.%s SELECT ", table->name);
	for (size_t i = 0; i < table->column_count; i++)
		ws_text_printf(sql, i ? ",c%zu" : "c%zu", i);
	ws_text_puts(sql, " FROM feed");
	if (strings) /* a number that means another text already fails */
		ws_text_puts(sql, " WHERE NOT EXISTS (SELECT 1 FROM main.StringIds s WHERE s.id = "
				  "c0 AND s.value = c1)");
}

/* ---- feed: the virtual table whose rows are the batch in hand ---- */

struct feed {
	sqlite3_vtab base;
	struct sqlite_writer *writer;
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
	struct feed *feed;
	int rc;

	(void)argc, (void)argv, (void)err;
	ws_text_puts(&sql, "CREATE TABLE feed(");
	for (int i = 0; i < WS_MAX_COLUMNS; i++)
		ws_text_printf(&sql, i ? ",c%d" : "c%d", i);
	ws_text_puts(&sql, ")");
	rc = sqlite3_declare_vtab(db, sql.text);
	ws_text_free(&sql);
	if (rc != SQLITE_OK)
		return rc;
	feed = ws_calloc(1, sizeof(*feed));
	feed->writer = aux;
	*out = &feed->base;
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
	struct feed_cursor *cursor = ws_calloc(1, sizeof(*cursor));

	(void)t;
	*out = &cursor->base;
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
	struct feed_cursor *cursor = (struct feed_cursor *)base;
	const struct sqlite_writer *writer = ((struct feed *)base->pVtab)->writer;

	(void)number, (void)name, (void)argc, (void)argv;
	cursor->cells = writer->cells;
	cursor->left = writer->rows;
	return SQLITE_OK;
}

static int feed_next(sqlite3_vtab_cursor *base)
{
	struct feed_cursor *cursor = (struct feed_cursor *)base;

	cursor->cells += ((struct feed *)base->pVtab)->writer->columns;
	cursor->left--;
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

static bool is_there(struct sqlite_writer *writer, const char *table)
{
	char *sql = sqlite3_mprintf("SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND "
				    "name = %Q COLLATE NOCASE",
				    table);
	sqlite3_stmt *statement = NULL;
	bool there = sqlite3_prepare_v2(writer->db, sql, -1, &statement, NULL) == SQLITE_OK &&
		     sqlite3_step(statement) == SQLITE_ROW;

	sqlite3_finalize(statement);
	sqlite3_free(sql);
	return there;
}

/* Texts are added to those that are there: tables that come later point to them. */
static bool has(struct ws_xwriter *writer, const char *table)
{
	struct sqlite_writer *s = (struct sqlite_writer *)writer;

	return s->append && strcmp(table, "StringIds") && is_there(s, table);
}

static int table(struct ws_xwriter *writer, const struct ws_xtable *xtable, struct ws_err *err)
{
	struct sqlite_writer *s = (struct sqlite_writer *)writer;
	struct ws_text create = {0}, insert = {0};
	int rc;

	sqlite3_finalize(s->insert);
	s->insert = NULL;
	s->strings = s->append && !strcmp(xtable->name, "StringIds") && is_there(s, xtable->name);
	create_sql(&create, xtable);
	insert_sql(&insert, xtable, s->strings);
	rc = s->strings ? 0 : run(s, create.text, err);
	if (!rc && sqlite3_prepare_v3(s->db, insert.text, -1, SQLITE_PREPARE_PERSISTENT, &s->insert,
				      NULL) != SQLITE_OK)
		rc = fail(s, err);
	s->columns = xtable->column_count;
	ws_text_free(&create);
	ws_text_free(&insert);
	return rc;
}

static int rows(struct ws_xwriter *writer, const struct ws_xcell *cells, size_t count,
		struct ws_err *err)
{
	struct sqlite_writer *s = (struct sqlite_writer *)writer;

	s->cells = cells;
	s->rows = count;
	if (sqlite3_step(s->insert) != SQLITE_DONE)
		return s->strings && sqlite3_errcode(s->db) == SQLITE_CONSTRAINT
			       ? ws_fail(err, "the database holds the texts of another report: "
					      "--append only adds tables of the same one")
			       : fail(s, err);
	return sqlite3_reset(s->insert) == SQLITE_OK ? 0 : fail(s, err);
}

static int finish(struct ws_xwriter *writer, bool keep, struct ws_err *err)
{
	struct sqlite_writer *s = (struct sqlite_writer *)writer;
	int rc = 0;

	sqlite3_finalize(s->insert);
	if (keep)
		rc = run(s, "COMMIT", err);
	sqlite3_close(s->db);
	free(s);
	return rc;
}

struct ws_xwriter *ws_xformat_open_sqlite(const struct ws_xtarget *target, struct ws_err *err)
{
	struct sqlite_writer *writer = ws_calloc(1, sizeof(*writer));

	/* One thread uses SQLite here: no locks, no counting of memory. Refused, and no matter,
	 * when SQLite already runs. */
	sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	writer->writer =
		(struct ws_xwriter){.table = table, .rows = rows, .close = finish, .has = has};
	writer->append = target->append;
	writer->name = target->name;
	if (sqlite3_open_v2(target->path, &writer->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK ||
	    run(writer,
		"PRAGMA page_size = 65536; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; "
		"PRAGMA locking_mode = EXCLUSIVE; "
		"PRAGMA temp_store = MEMORY; BEGIN",
		err) < 0 ||
	    sqlite3_create_module(writer->db, "feed", &feed_module, writer) != SQLITE_OK) {
		fail(writer, err);
		finish(&writer->writer, false, NULL);
		return NULL;
	}
	return &writer->writer;
}
