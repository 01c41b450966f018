/*
 * sql.c - the connection: reports as schemas, what a query may do, and its rows.
 *
 * What may be done is decided by SQLite's authorizer, which sees every action of a statement before
 * it runs: reading and calling functions, and the PRAGMAs that only tell. So no file can be named
 * in any way, whatever a query says.
 */
#include "sql/sql.h"
#include "base/choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sql/fold.h"

enum { MOST_TEXT = 256 << 20, MOST_REPORTS = 9 /* SQLite attaches ten */ };

static bool tells(const char *pragma)
{
	static const char *const known[] = {"table_info",     "table_xinfo",   "table_list",
					    "database_list",  "function_list", "pragma_list",
					    "collation_list", "module_list",   "compile_options"};

	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (!sqlite3_stricmp(pragma, known[i]))
			return true;
	return false;
}

static int authorize(void *ctx, int action, const char *a, const char *b, const char *schema,
		     const char *trigger)
{
	const struct ws_sql *sql = ctx;

	(void)schema, (void)trigger;
	if (sql->declaring)
		return SQLITE_OK;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		return b && !sqlite3_stricmp(b, "load_extension") ? SQLITE_DENY : SQLITE_OK;
	case SQLITE_PRAGMA:
		return tells(a) ? SQLITE_OK : SQLITE_DENY;
	default:
		return SQLITE_DENY;
	}
}

static int exec(struct ws_sql *sql_s, const char *sql, struct ws_err *err)
{
	return sqlite3_exec(sql_s->db, sql, NULL, NULL, NULL) == SQLITE_OK
		       ? 0
		       : ws_fail(err, "SQLite: %s", sqlite3_errmsg(sql_s->db));
}

static int create_in(struct ws_sql *sql_s, const char *schema, size_t report, struct ws_err *err)
{
	for (size_t i = 0; i < sql_s->reports[report].table_count; i++) {
		char *sql = ws_format("CREATE VIRTUAL TABLE %s.\"%s\" USING warpsight(%zu, %zu)",
				      schema, sql_s->reports[report].tables[i]->name, report, i);
		int rc = exec(sql_s, sql, err);

		free(sql);
		if (rc)
			return -1;
	}
	return 0;
}

static int create_tables(struct ws_sql *sql, struct ws_err *err)
{
	char attach[64], schema[32];

	if (exec(sql, "BEGIN", err) < 0 || create_in(sql, "main", 0, err) < 0 ||
	    exec(sql, "COMMIT", err) < 0)
		return -1;
	for (size_t i = 0; sql->report_count > 1 && i < sql->report_count; i++) {
		snprintf(schema, sizeof(schema), "report%zu", i + 1);
		snprintf(attach, sizeof(attach), "ATTACH ':memory:' AS %s", schema);
		if (exec(sql, attach, err) < 0 || exec(sql, "BEGIN", err) < 0 ||
		    create_in(sql, schema, i, err) < 0 || exec(sql, "COMMIT", err) < 0)
			return -1;
	}
	return 0;
}

static int restrict_to_reading(struct ws_sql *sql, struct ws_err *err)
{
	sqlite3_limit(sql->db, SQLITE_LIMIT_LENGTH, MOST_TEXT);
	sqlite3_limit(sql->db, SQLITE_LIMIT_ATTACHED, (int)sql->report_count + 1);
	sqlite3_db_config(sql->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(sql->db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
	if (exec(sql, "PRAGMA cache_size = -131072", err) <
	    0) /* what sorting takes before it goes to a temporary file */
		return -1;
	sqlite3_set_authorizer(sql->db, authorize, sql);
	return 0;
}

struct ws_sql *ws_sql_open(const struct ws_report *const *reports, size_t count, struct ws_err *err)
{
	struct ws_sql *sql = ws_calloc(1, sizeof(*sql));
	int rc = 0;

	if (count > MOST_REPORTS) {
		ws_fail(err, "at most %d reports can be asked together", MOST_REPORTS);
		free(sql);
		return NULL;
	}
	sql->reports = ws_calloc(count, sizeof(*sql->reports));
	sql->report_count = count;
	for (size_t i = 0; i < count; i++) {
		sql->reports[i].sql = sql;
		rc |= ws_sql_catalog(&sql->reports[i], reports[i], err);
	}
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); /* not counting memory saves a lock; refused,
						       and no matter, when SQLite already runs */
	if (!rc && sqlite3_open_v2(":memory:", &sql->db,
				   SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
		rc = ws_fail(err, "SQLite: %s",
			     sql->db ? sqlite3_errmsg(sql->db) : "out of memory");
	if (!rc && sqlite3_create_module(sql->db, "warpsight", &ws_sql_module, sql) != SQLITE_OK)
		rc = ws_fail(err, "SQLite: %s", sqlite3_errmsg(sql->db));
	if (rc || create_tables(sql, err) < 0 || restrict_to_reading(sql, err) < 0) {
		ws_sql_close(sql);
		return NULL;
	}
	return sql;
}

void ws_sql_close(struct ws_sql *sql)
{
	if (!sql)
		return;
	sqlite3_close(sql->db);
	for (size_t i = 0; i < sql->report_count; i++)
		ws_sql_catalog_free(&sql->reports[i]);
	for (size_t i = 0; i < sql->parameter_count; i++) {
		free(sql->parameters[i].name);
		free(sql->parameters[i].value);
	}
	free(sql->parameters);
	free(sql->reports);
	free(sql);
}

void ws_sql_interrupt(struct ws_sql *sql)
{
	sql->stop = 1;
	if (sql->db)
		sqlite3_interrupt(sql->db);
}

/* ---- rows ---- */

static struct ws_cell blob_cell(sqlite3_stmt *st, int i, struct ws_text *hex)
{
	const uint8_t *b = sqlite3_column_blob(st, i);
	size_t n = (size_t)sqlite3_column_bytes(st, i);

	hex->len = 0;
	ws_text_puts(hex, "");
	for (size_t k = 0; k < n; k++)
		ws_text_printf(hex, "%02x", b[k]);
	return ws_cell_text(hex->text, hex->len);
}

static struct ws_cell cell_of(sqlite3_stmt *st, int i, struct ws_text *hex)
{
	double d;

	switch (sqlite3_column_type(st, i)) {
	case SQLITE_INTEGER:
		return ws_cell_int(sqlite3_column_int64(st, i));
	case SQLITE_FLOAT:
		d = sqlite3_column_double(st, i);
		if (isfinite(d))
			return ws_cell_real(d);
		return d > 0 ? ws_cell_text("Inf", 3) : ws_cell_text("-Inf", 4);
	case SQLITE_TEXT: {
		const char *text = (const char *)sqlite3_column_text(st, i);

		return ws_cell_text(ws_text_or(text, ""), (size_t)sqlite3_column_bytes(st, i));
	}
	case SQLITE_BLOB:
		return blob_cell(st, i, hex);
	default:
		return ws_cell_null();
	}
}

static int fail(struct ws_sql *sql, int rc, struct ws_err *err)
{
	if (rc == SQLITE_AUTH)
		return ws_fail(err,
			       "SQL: a report can only be read: SELECT is understood, nothing that "
			       "writes, attaches or sets (%s)",
			       sqlite3_errmsg(sql->db));
	if (rc == SQLITE_INTERRUPT)
		return ws_fail(err, "SQL: interrupted");
	return ws_fail(err, "SQL: %s", sqlite3_errmsg(sql->db));
}

static int rows(struct ws_sql *sql, sqlite3_stmt *st, int columns, const struct ws_sql_sink *sink,
		struct ws_err *err)
{
	struct ws_cell *cells = ws_calloc((size_t)columns + 1, sizeof(*cells));
	struct ws_text *hex = ws_calloc((size_t)columns + 1, sizeof(*hex));
	int rc, result = 0;

	while (!result && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		for (int i = 0; i < columns; i++)
			cells[i] = cell_of(st, i, &hex[i]);
		if (columns && sink->row(sink->ctx, cells, err) < 0)
			result = -1;
	}
	if (!result && rc != SQLITE_DONE)
		result = fail(sql, rc, err);
	for (int i = 0; i < columns; i++)
		ws_text_free(&hex[i]);
	free(hex);
	free(cells);
	return result;
}

/* ---- parameters ---- */

void ws_sql_bind(struct ws_sql *sql, const char *name, const char *value)
{
	struct ws_sql_parameter *parameter;

	for (size_t i = 0; i < sql->parameter_count; i++) {
		parameter = &sql->parameters[i];
		if (strcmp(parameter->name + 1, name))
			continue;
		free(parameter->value);
		parameter->value = value ? ws_strdup(value) : NULL;
		return;
	}
	ws_grow(sql->parameters, sql->parameter_cap, sql->parameter_count + 1);
	parameter = &sql->parameters[sql->parameter_count++];
	parameter->name = ws_format(":%s", name);
	parameter->value = value ? ws_strdup(value) : NULL;
}

static const struct ws_sql_parameter *parameter(const struct ws_sql *sql, const char *name)
{
	for (size_t i = 0; name && i < sql->parameter_count; i++)
		if (!strcmp(sql->parameters[i].name, name))
			return &sql->parameters[i];
	return NULL;
}

static int bind_all(struct ws_sql *sql, sqlite3_stmt *st, struct ws_err *err)
{
	for (int i = 1; i <= sqlite3_bind_parameter_count(st); i++) {
		const char *name = sqlite3_bind_parameter_name(st, i);
		const struct ws_sql_parameter *sql_parameter = parameter(sql, name);
		char *end;
		long long n;
		double d;

		if (!sql_parameter)
			return ws_fail(err, "SQL: the parameter %s has no value",
				       ws_text_or(name, "?"));
		if (!sql_parameter->value)
			continue;
		n = strtoll(sql_parameter->value, &end, 10);
		if (*sql_parameter->value && !*end) {
			sqlite3_bind_int64(st, i, n);
			continue;
		}
		d = strtod(sql_parameter->value, &end);
		if (*sql_parameter->value && !*end)
			sqlite3_bind_double(st, i, d);
		else
			sqlite3_bind_text(st, i, sql_parameter->value, -1, SQLITE_STATIC);
	}
	return 0;
}

int ws_sql_has_parameter(struct ws_sql *sql_s, const char *sql, const char *name,
			 struct ws_err *err)
{
	char *with = ws_format(":%s", name);
	int found = 0;

	while (*sql && found >= 0) {
		sqlite3_stmt *st = NULL;
		int rc = sqlite3_prepare_v2(sql_s->db, sql, -1, &st, &sql);

		if (rc != SQLITE_OK)
			found = fail(sql_s, rc, err);
		else if (st && sqlite3_bind_parameter_index(st, with))
			found = 1;
		sqlite3_finalize(st);
		if (rc != SQLITE_OK)
			break;
	}
	free(with);
	return found;
}

/* The statement `st` as one that reads folds, or NULL when there is nothing to fold in it. */
static sqlite3_stmt *fold(struct ws_sql *sql_s, sqlite3_stmt *st, const char *sql, const char *end,
			  struct ws_sql_folds *folds)
{
	char *folded = sql_s->plain ? NULL : ws_sql_fold_statement(sql_s, sql, end, folds);
	sqlite3_stmt *made = NULL;

	if (folded && (sqlite3_prepare_v2(sql_s->db, folded, -1, &made, NULL) != SQLITE_OK ||
		       sqlite3_column_count(made) != sqlite3_column_count(st))) {
		sqlite3_finalize(made);
		made = NULL;
	}
	free(folded);
	return made;
}

static int statement(struct ws_sql *sql_s, sqlite3_stmt *st, const char *sql, const char *end,
		     const struct ws_sql_sink *sink, struct ws_err *err)
{
	int columns = sqlite3_column_count(st);
	const char **names = ws_calloc((size_t)columns + 1, sizeof(*names));
	struct ws_sql_folds folds = {.n = 0};
	sqlite3_stmt *folded = NULL;
	int rc = bind_all(sql_s, st, err);

	for (int i = 0; i < columns; i++)
		names[i] = sqlite3_column_name(st, i);
	if (columns && !rc)
		rc = sink->begin(sink->ctx, names, (size_t)columns, err);
	free(names);
	if (!rc && columns && (folded = fold(sql_s, st, sql, end, &folds)))
		rc = bind_all(sql_s, folded, err);
	if (!rc && sql_s->stop)
		rc = fail(sql_s, SQLITE_INTERRUPT, err);
	if (!rc)
		rc = rows(sql_s, folded ? folded : st, columns, sink, err);
	sqlite3_finalize(folded);
	ws_sql_folds_free(sql_s, &folds);
	return rc;
}

void ws_sql_plain(struct ws_sql *sql, bool plain)
{
	sql->plain = plain;
}

int ws_sql_run(struct ws_sql *sql_s, const char *sql, const struct ws_sql_sink *sink,
	       struct ws_err *err)
{
	int rc = 0;

	sql_s->stop = 0;
	while (!rc && *sql) {
		const char *from = sql;
		sqlite3_stmt *st = NULL;
		int prepared = sqlite3_prepare_v2(sql_s->db, sql, -1, &st, &sql);

		if (prepared != SQLITE_OK)
			return fail(sql_s, prepared, err);
		if (st)
			rc = statement(sql_s, st, from, sql, sink, err);
		sqlite3_finalize(st);
	}
	return rc;
}

bool ws_sql_complete(const char *sql)
{
	return sqlite3_complete(sql);
}

/* ---- what there is ---- */

static int by_name(const void *first, const void *second)
{
	const struct ws_sql_table *const *x = first, *const *y = second;

	return strcmp((*x)->name, (*y)->name);
}

const char *ws_sql_table_name(const struct ws_sql *sql, size_t i, uint64_t *rows)
{
	const struct ws_sql_report *report = &sql->reports[0];
	struct ws_sql_table **sorted;
	const char *name;

	if (i >= report->table_count)
		return NULL;
	sorted = ws_malloc(report->table_count * sizeof(*sorted));
	memcpy(sorted, report->tables, report->table_count * sizeof(*sorted));
	qsort(sorted, report->table_count, sizeof(*sorted), by_name);
	name = sorted[i]->name;
	if (rows && ws_sql_make(sorted[i], &(struct ws_err){0}) < 0)
		*rows = 0;
	else if (rows)
		*rows = ws_sql_rows(sorted[i]);
	free(sorted);
	return name;
}

char *ws_sql_schema(const struct ws_sql *sql_s, const char *table)
{
	const struct ws_sql_report *report = &sql_s->reports[0];
	struct ws_text sql = {0};

	for (size_t i = 0; i < report->table_count; i++)
		if (!sqlite3_stricmp(report->tables[i]->name, table)) {
			ws_sql_create(report->tables[i], true, &sql);
			return sql.text;
		}
	return NULL;
}

struct ws_sql_counts ws_sql_counts(const struct ws_sql *sql)
{
	return sql->counts;
}
