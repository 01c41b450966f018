/*
 * sqlite.c - the SQLite writer.
 *
 * One transaction, one prepared INSERT a table, no journal and no syncing: the file counts only once it is complete and renamed. Columns that
 * stay NULL from row to row are not bound again, and texts are bound where they lie.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"

struct sqlite_writer {
	struct ws_xwriter w;
	sqlite3 *db;
	sqlite3_stmt *insert;
	char *path;
	size_t columns;
	bool *bound; /* by column: holds something other than NULL */
};

static int fail(struct sqlite_writer *s, struct ws_err *e)
{
	int os = sqlite3_system_errno(s->db);

	return ws_fail(e, "cannot write the SQLite database: %s%s%s", sqlite3_errmsg(s->db), os ? ": " : "", os ? strerror(os) : "");
}

static int run(struct sqlite_writer *s, const char *sql, struct ws_err *e)
{
	return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(s, e);
}

/* Names and documentation come from our own tables, but quotes in them must not break the statement. */
static void put_comment(struct ws_text *sql, const char *doc)
{
	if (!doc || !*doc)
		return;
	ws_text_puts(sql, " -- ");
	for (; *doc; doc++)
		ws_text_add(sql, *doc == '\n' ? " " : doc, 1);
}

static void create_sql(struct ws_text *sql, const struct ws_xtable *t)
{
	ws_text_printf(sql, "CREATE TABLE %s (", t->name);
	put_comment(sql, t->doc);
	for (size_t i = 0; i < t->column_count; i++) {
		const struct ws_xcolumn *c = &t->columns[i];

		ws_text_printf(sql, "\n    \"%s\" %s%s%s%s", c->name, c->type, c->not_null ? " NOT NULL" : "", c->key ? " PRIMARY KEY" : "",
			       i + 1 < t->column_count ? "," : "");
		put_comment(sql, c->doc);
	}
	ws_text_puts(sql, "\n)");
}

static void insert_sql(struct ws_text *sql, const struct ws_xtable *t)
{
	ws_text_printf(sql, "INSERT INTO %s VALUES (", t->name);
	for (size_t i = 0; i < t->column_count; i++)
		ws_text_puts(sql, i ? ",?" : "?");
	ws_text_puts(sql, ")");
}

static int table(struct ws_xwriter *w, const struct ws_xtable *t, struct ws_err *e)
{
	struct sqlite_writer *s = (struct sqlite_writer *)w;
	struct ws_text create = {0}, insert = {0};
	int rc;

	sqlite3_finalize(s->insert);
	s->insert = NULL;
	create_sql(&create, t);
	insert_sql(&insert, t);
	rc = run(s, create.s, e);
	if (!rc && sqlite3_prepare_v3(s->db, insert.s, -1, SQLITE_PREPARE_PERSISTENT, &s->insert, NULL) != SQLITE_OK)
		rc = fail(s, e);
	free(s->bound);
	s->bound = ws_calloc(t->column_count, sizeof(*s->bound));
	s->columns = t->column_count;
	ws_text_free(&create);
	ws_text_free(&insert);
	return rc;
}

static int bind(sqlite3_stmt *st, int at, const struct ws_xcell *c)
{
	switch (c->kind) {
	case WS_X_INT:
	case WS_X_UINT:
		return sqlite3_bind_int64(st, at, c->i);
	case WS_X_STRING:
		return sqlite3_bind_int64(st, at, c->id);
	case WS_X_REAL:
		return sqlite3_bind_double(st, at, c->r);
	case WS_X_TEXT:
		return sqlite3_bind_text64(st, at, c->s, c->n, SQLITE_STATIC, SQLITE_UTF8);
	case WS_X_BLOB:
		return sqlite3_bind_blob64(st, at, c->s, c->n, SQLITE_STATIC);
	case WS_X_NULL:
		break;
	}
	return sqlite3_bind_null(st, at);
}

static int row(struct ws_xwriter *w, const struct ws_xcell *cells, struct ws_err *e)
{
	struct sqlite_writer *s = (struct sqlite_writer *)w;

	for (size_t i = 0; i < s->columns; i++) {
		bool is = cells[i].kind != WS_X_NULL;

		if ((is || s->bound[i]) && bind(s->insert, (int)i + 1, &cells[i]) != SQLITE_OK)
			return fail(s, e);
		s->bound[i] = is;
	}
	if (sqlite3_step(s->insert) != SQLITE_DONE) {
		fail(s, e);
		return -1;
	}
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
	free(s->bound);
	free(s->path);
	free(s);
	return rc;
}

struct ws_xwriter *ws_sqlite_writer(const char *path, struct ws_err *e)
{
	struct sqlite_writer *s = ws_calloc(1, sizeof(*s));

	s->w = (struct ws_xwriter){table, row, finish};
	s->path = ws_strdup(path);
	if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK ||
	    run(s,
		"PRAGMA page_size = 65536; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; "
		"PRAGMA temp_store = MEMORY; BEGIN",
		e) < 0) {
		fail(s, e);
		finish(&s->w, false, NULL);
		return NULL;
	}
	return &s->w;
}
