/*
 * sqlite.c - the SQLite writer.
 *
 * It uses one transaction without a journal and without syncing, because the file counts only once
 * it is complete and renamed. Each batch of rows becomes a virtual table, which one INSERT ...
 * SELECT reads: that saves binding, stepping and resetting a statement for each row, which doubles
 * the cost of a row. Texts are not copied.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "export/formats.h"
#include "views/sqlite_value.h"

struct sqlite_writer {
	struct ws_table_writer writer;
	sqlite3 *db;
	sqlite3_stmt *insert;
	size_t columns;
	const struct ws_view_cell *cells; /* the batch being written */
	size_t rows;
	const char *name; /* the user's name for the database */
	bool append;	  /* the file holds an earlier export */
	bool strings;	  /* the open table is StringIds, and the file has it already */
};

static int fail_sqlite(struct sqlite_writer *writer, struct ws_err *err)
{
	int cause = sqlite3_system_errno(writer->db);

	if (!cause)
		return ws_fail(err, "cannot write %s: %s", writer->name,
			       sqlite3_errmsg(writer->db));
	return ws_fail(err, "cannot write %s: %s: %s", writer->name, sqlite3_errmsg(writer->db),
		       strerror(cause));
}

static int execute_sql(struct sqlite_writer *writer, const char *sql, struct ws_err *err)
{
	if (sqlite3_exec(writer->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return fail_sqlite(writer, err);
	return 0;
}

/* Documentation comes from our own tables, but line ends in it must not break the statement. */
static void put_sql_comment(struct ws_text *sql, const char *doc)
{
	if (!doc || !*doc)
		return;
	ws_text_puts(sql, " -- ");
	for (; *doc; doc++) {
		if (*doc == '\n')
			ws_text_puts(sql, " ");
		else
			ws_text_add(sql, doc, 1);
	}
}

/* A key of several columns is not declared: its index would cost as much as the table. */
static bool has_one_key(const struct ws_view_table *table)
{
	size_t keys = 0;

	for (size_t i = 0; i < table->column_count; i++)
		keys += table->columns[i].key;
	return keys == 1;
}

static void put_create_sql(struct ws_text *sql, const struct ws_view_table *table)
{
	bool one_key = has_one_key(table);

	ws_text_printf(sql, "CREATE TABLE %s (", table->name);
	put_sql_comment(sql, table->doc);
	for (size_t i = 0; i < table->column_count; i++) {
		const struct ws_view_column *column = &table->columns[i];

		ws_text_printf(sql, "\n    \"%s\" %s", column->name, column->type);
		if (column->not_null)
			ws_text_puts(sql, " NOT NULL");
		if (column->key && one_key)
			ws_text_puts(sql, " PRIMARY KEY");
		if (i + 1 < table->column_count)
			ws_text_puts(sql, ",");
		put_sql_comment(sql, column->doc);
	}
	ws_text_puts(sql, "\n)");
}

/* "c0,c1,c2...": the columns of the virtual table. */
static void put_column_names(struct ws_text *sql, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (i)
			ws_text_puts(sql, ",");
		ws_text_printf(sql, "c%zu", i);
	}
}

static void put_insert_sql(struct ws_text *sql, const struct ws_view_table *table, bool strings)
{
	ws_text_printf(sql, "INSERT INTO main.%s SELECT ", table->name);
	put_column_names(sql, table->column_count);
	ws_text_puts(sql, " FROM feed");
	if (strings) /* fails for a number that another text already has */
		ws_text_puts(sql, " WHERE NOT EXISTS (SELECT 1 FROM main.StringIds s WHERE s.id = "
				  "c0 AND s.value = c1)");
}

/* ---- feed: the virtual table whose rows are the batch being written ---- */

struct feed {
	sqlite3_vtab base;
	struct sqlite_writer *writer;
};

struct feed_cursor {
	sqlite3_vtab_cursor base;
	const struct ws_view_cell *cells;
	size_t left;
};

static int connect_feed(sqlite3 *db, void *writer, int argc, const char *const *argv,
			sqlite3_vtab **out, char **err)
{
	struct ws_text sql = {0};
	struct feed *feed;
	int rc;

	(void)argc, (void)argv, (void)err;
	ws_text_puts(&sql, "CREATE TABLE feed(");
	put_column_names(&sql, WS_MAX_COLUMNS);
	ws_text_puts(&sql, ")");
	rc = sqlite3_declare_vtab(db, sql.text);
	ws_text_free(&sql);
	if (rc != SQLITE_OK)
		return rc;
	feed = ws_calloc(1, sizeof(*feed));
	feed->writer = writer;
	*out = &feed->base;
	return SQLITE_OK;
}

static int disconnect_feed(sqlite3_vtab *table)
{
	free(table);
	return SQLITE_OK;
}

static int plan_feed_scan(sqlite3_vtab *table, sqlite3_index_info *info)
{
	(void)table;
	info->estimatedCost = 1000;
	return SQLITE_OK;
}

static int open_feed_cursor(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
	struct feed_cursor *cursor = ws_calloc(1, sizeof(*cursor));

	(void)table;
	*out = &cursor->base;
	return SQLITE_OK;
}

static int close_feed_cursor(sqlite3_vtab_cursor *cursor)
{
	free(cursor);
	return SQLITE_OK;
}

static int rewind_feed_cursor(sqlite3_vtab_cursor *base, int number, const char *name, int argc,
			      sqlite3_value **argv)
{
	struct feed_cursor *cursor = (struct feed_cursor *)base;
	const struct sqlite_writer *writer = ((struct feed *)base->pVtab)->writer;

	(void)number, (void)name, (void)argc, (void)argv;
	cursor->cells = writer->cells;
	cursor->left = writer->rows;
	return SQLITE_OK;
}

static int advance_feed_cursor(sqlite3_vtab_cursor *base)
{
	struct feed_cursor *cursor = (struct feed_cursor *)base;

	cursor->cells += ((struct feed *)base->pVtab)->writer->columns;
	cursor->left--;
	return SQLITE_OK;
}

static int is_feed_cursor_at_end(sqlite3_vtab_cursor *base)
{
	return !((struct feed_cursor *)base)->left;
}

static int give_feed_cell(sqlite3_vtab_cursor *base, sqlite3_context *out, int column)
{
	ws_give_sqlite_cell(out, &((struct feed_cursor *)base)->cells[column]);
	return SQLITE_OK;
}

static int give_feed_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
	*out = (sqlite3_int64)((struct feed_cursor *)base)->left;
	return SQLITE_OK;
}

static const sqlite3_module feed_module = {
	.xConnect = connect_feed,
	.xBestIndex = plan_feed_scan,
	.xDisconnect = disconnect_feed,
	.xDestroy = disconnect_feed,
	.xOpen = open_feed_cursor,
	.xClose = close_feed_cursor,
	.xFilter = rewind_feed_cursor,
	.xNext = advance_feed_cursor,
	.xEof = is_feed_cursor_at_end,
	.xColumn = give_feed_cell,
	.xRowid = give_feed_rowid,
};

/* ---- tables and rows ---- */

static bool is_table_there(struct sqlite_writer *writer, const char *table)
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

/* StringIds does not count: its texts are added to the existing ones, because added tables refer to
 * them. */
static bool has_sqlite_table(struct ws_table_writer *writer, const char *table)
{
	struct sqlite_writer *sqlite = (struct sqlite_writer *)writer;

	return sqlite->append && strcmp(table, "StringIds") && is_table_there(sqlite, table);
}

static int begin_sqlite_table(struct ws_table_writer *writer, const struct ws_view_table *xtable,
			      struct ws_err *err)
{
	struct sqlite_writer *sqlite = (struct sqlite_writer *)writer;
	struct ws_text create = {0}, insert = {0};
	int rc = 0;

	sqlite3_finalize(sqlite->insert);
	sqlite->insert = NULL;
	sqlite->strings = sqlite->append && !strcmp(xtable->name, "StringIds") &&
			  is_table_there(sqlite, xtable->name);
	put_create_sql(&create, xtable);
	put_insert_sql(&insert, xtable, sqlite->strings);
	if (!sqlite->strings)
		rc = execute_sql(sqlite, create.text, err);
	if (!rc && sqlite3_prepare_v3(sqlite->db, insert.text, -1, SQLITE_PREPARE_PERSISTENT,
				      &sqlite->insert, NULL) != SQLITE_OK)
		rc = fail_sqlite(sqlite, err);
	sqlite->columns = xtable->column_count;
	ws_text_free(&create);
	ws_text_free(&insert);
	return rc;
}

static int write_sqlite_rows(struct ws_table_writer *writer, const struct ws_view_cell *cells,
			     size_t count, struct ws_err *err)
{
	struct sqlite_writer *sqlite = (struct sqlite_writer *)writer;
	bool inserted;

	sqlite->cells = cells;
	sqlite->rows = count;
	inserted = sqlite3_step(sqlite->insert) == SQLITE_DONE;
	if (!inserted && sqlite->strings && sqlite3_errcode(sqlite->db) == SQLITE_CONSTRAINT)
		return ws_fail(err, "the database holds the texts of another report: "
				    "--append only adds tables of the same one");
	if (!inserted || sqlite3_reset(sqlite->insert) != SQLITE_OK)
		return fail_sqlite(sqlite, err);
	return 0;
}

static int close_sqlite(struct ws_table_writer *writer, bool keep, struct ws_err *err)
{
	struct sqlite_writer *sqlite = (struct sqlite_writer *)writer;
	int rc = 0;

	sqlite3_finalize(sqlite->insert);
	if (keep)
		rc = execute_sql(sqlite, "COMMIT", err);
	sqlite3_close(sqlite->db);
	free(sqlite);
	return rc;
}

struct ws_table_writer *ws_open_format_sqlite(const struct ws_export_target *target,
					      struct ws_err *err)
{
	struct sqlite_writer *writer = ws_calloc(1, sizeof(*writer));

	/* Only one thread uses SQLite here, so locks and memory statistics are not needed. If
	 * SQLite is already initialised, it refuses, which does no harm. */
	sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	writer->writer = (struct ws_table_writer){.begin_table = begin_sqlite_table,
						  .write_rows = write_sqlite_rows,
						  .close_writer = close_sqlite,
						  .has_table = has_sqlite_table};
	writer->append = target->append;
	writer->name = target->name;
	if (sqlite3_open_v2(target->path, &writer->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK ||
	    execute_sql(writer,
			"PRAGMA page_size = 65536; PRAGMA journal_mode = OFF; PRAGMA synchronous = "
			"OFF; "
			"PRAGMA locking_mode = EXCLUSIVE; "
			"PRAGMA temp_store = MEMORY; BEGIN",
			err) < 0 ||
	    sqlite3_create_module(writer->db, "feed", &feed_module, writer) != SQLITE_OK) {
		fail_sqlite(writer, err);
		close_sqlite(&writer->writer, false, NULL);
		return NULL;
	}
	return &writer->writer;
}
