/*
 * sql.c - the connection: makes reports schemas, restricts what queries may do, and runs them.
 *
 * SQLite's authorizer, which sees every action of a statement before it runs, allows only reading,
 * calling functions, and the PRAGMAs that only report something. So no query can name a file in any
 * way.
 */
#include "sql/sql.h"
#include "base/choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sql/group_by.h"

enum { MOST_TEXT = 256 << 20, MOST_REPORTS = 9 /* SQLite attaches at most ten */ };

static bool is_harmless_pragma(const char *pragma)
{
	static const char *const known[] = {"table_info",     "table_xinfo",   "table_list",
					    "database_list",  "function_list", "pragma_list",
					    "collation_list", "module_list",   "compile_options"};

	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (!sqlite3_stricmp(pragma, known[i]))
			return true;
	return false;
}

static int authorize_action(void *context, int action, const char *first, const char *second,
			    const char *schema, const char *trigger)
{
	const struct ws_sql *sql = context;
	bool allowed = false;

	(void)schema, (void)trigger;
	if (sql->declaring)
		return SQLITE_OK;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		allowed = !second || sqlite3_stricmp(second, "load_extension");
		break;
	case SQLITE_PRAGMA:
		allowed = is_harmless_pragma(first);
		break;
	default:
		break;
	}
	if (!allowed)
		return SQLITE_DENY;
	return SQLITE_OK;
}

static int execute_sql(struct ws_sql *connection, const char *sql, struct ws_err *err)
{
	if (sqlite3_exec(connection->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return ws_fail(err, "SQLite: %s", sqlite3_errmsg(connection->db));
	return 0;
}

static int create_schema_tables(struct ws_sql *connection, const char *schema, size_t report,
				struct ws_err *err)
{
	for (size_t i = 0; i < connection->reports[report].table_count; i++) {
		char *sql =
			ws_format("CREATE VIRTUAL TABLE %s.\"%s\" USING warpsight(%zu, %zu)",
				  schema, connection->reports[report].tables[i]->name, report, i);
		int rc = execute_sql(connection, sql, err);

		free(sql);
		if (rc)
			return -1;
	}
	return 0;
}

static int create_tables(struct ws_sql *sql, struct ws_err *err)
{
	char attach[64], schema[32];

	if (execute_sql(sql, "BEGIN", err) < 0 || create_schema_tables(sql, "main", 0, err) < 0 ||
	    execute_sql(sql, "COMMIT", err) < 0)
		return -1;
	for (size_t i = 0; sql->report_count > 1 && i < sql->report_count; i++) {
		snprintf(schema, sizeof(schema), "report%zu", i + 1);
		snprintf(attach, sizeof(attach), "ATTACH ':memory:' AS %s", schema);
		if (execute_sql(sql, attach, err) < 0 || execute_sql(sql, "BEGIN", err) < 0 ||
		    create_schema_tables(sql, schema, i, err) < 0 ||
		    execute_sql(sql, "COMMIT", err) < 0)
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
	/* The memory that sorting may use before it goes to a temporary file. */
	if (execute_sql(sql, "PRAGMA cache_size = -131072", err) < 0)
		return -1;
	sqlite3_set_authorizer(sql->db, authorize_action, sql);
	return 0;
}

static int open_memory_database(struct ws_sql *sql, struct ws_err *err)
{
	ws_sql_count_memory();
	if (sqlite3_open_v2(":memory:", &sql->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
			    NULL) == SQLITE_OK &&
	    sqlite3_create_module(sql->db, "warpsight", &ws_sql_module, sql) == SQLITE_OK)
		return 0;
	if (!sql->db)
		return ws_fail(err, "SQLite: out of memory");
	return ws_fail(err, "SQLite: %s", sqlite3_errmsg(sql->db));
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
		rc |= ws_sql_read_catalog(&sql->reports[i], reports[i], err);
	}
	if (!rc)
		rc = open_memory_database(sql, err);
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
		ws_sql_free_catalog(&sql->reports[i]);
	for (size_t i = 0; i < sql->parameter_count; i++) {
		free(sql->parameters[i].name);
		free(sql->parameters[i].value);
	}
	free(sql->parameters);
	free(sql->reports);
	free(sql);
}

/* ---- stopping ---- */

static uint64_t read_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

bool ws_sql_must_stop(struct ws_sql *sql)
{
	if (!sql->stop && sql->deadline && read_clock() > sql->deadline)
		sql->stop = WS_SQL_OUT_OF_TIME;
	if (!sql->stop && sql->is_cancelled && sql->is_cancelled(sql->cancel_ctx))
		sql->stop = WS_SQL_INTERRUPTED;
	return sql->stop != WS_SQL_GOES_ON;
}

/* Called by SQLite after a number of steps of its virtual machine: some 10 us. */
enum { STEPS_BETWEEN_LOOKS = 2000 };

static int look_for_stop(void *context)
{
	return ws_sql_must_stop(context);
}

static void begin_limits(struct ws_sql *sql)
{
	sql->stop = WS_SQL_GOES_ON;
	sql->deadline = 0;
	if (sql->time_limit > 0 && sql->time_limit < 1e9)
		sql->deadline = read_clock() + (uint64_t)(sql->time_limit * 1e9);
	sqlite3_progress_handler(sql->db, STEPS_BETWEEN_LOOKS, look_for_stop, sql);
}

void ws_sql_set_time_limit(struct ws_sql *sql, double seconds)
{
	sql->time_limit = seconds;
}

void ws_sql_set_cancel(struct ws_sql *sql, bool (*is_cancelled)(void *ctx), void *ctx)
{
	sql->is_cancelled = is_cancelled;
	sql->cancel_ctx = ctx;
}

void ws_sql_interrupt(struct ws_sql *sql)
{
	sql->stop = WS_SQL_INTERRUPTED;
	if (sql->db)
		sqlite3_interrupt(sql->db);
}

/* ---- rows ---- */

static struct ws_cell make_blob_cell(sqlite3_stmt *statement, int column, struct ws_text *hex)
{
	const uint8_t *bytes = sqlite3_column_blob(statement, column);
	size_t length = (size_t)sqlite3_column_bytes(statement, column);

	hex->len = 0;
	ws_text_puts(hex, "");
	for (size_t k = 0; k < length; k++)
		ws_text_printf(hex, "%02x", bytes[k]);
	return ws_cell_text(hex->text, hex->len);
}

static struct ws_cell make_query_cell(sqlite3_stmt *statement, int column, struct ws_text *hex)
{
	double number;

	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_INTEGER:
		return ws_cell_int(sqlite3_column_int64(statement, column));
	case SQLITE_FLOAT:
		number = sqlite3_column_double(statement, column);
		if (isfinite(number))
			return ws_cell_real(number);
		if (number > 0)
			return ws_cell_text("Inf", 3);
		return ws_cell_text("-Inf", 4);
	case SQLITE_TEXT: {
		const char *text = (const char *)sqlite3_column_text(statement, column);

		return ws_cell_text(ws_text_or(text, ""),
				    (size_t)sqlite3_column_bytes(statement, column));
	}
	case SQLITE_BLOB:
		return make_blob_cell(statement, column, hex);
	default:
		return ws_cell_null();
	}
}

static int fail_query(struct ws_sql *sql, int rc, struct ws_err *err)
{
	if (rc == SQLITE_AUTH)
		return ws_fail(err,
			       "SQL: a report can only be read: SELECT is understood, nothing that "
			       "writes, attaches or sets (%s)",
			       sqlite3_errmsg(sql->db));
	if (rc == SQLITE_NOMEM && ws_sql_get_memory_limit())
		return ws_fail(err,
			       "SQL: stopped, because the query needs more than the %.0f MiB of "
			       "memory that it may use",
			       (double)ws_sql_get_memory_limit() / (1 << 20));
	if (sql->stop == WS_SQL_OUT_OF_TIME)
		return ws_fail(err, "SQL: stopped, because the query took longer than %g s",
			       sql->time_limit);
	if (rc == SQLITE_INTERRUPT)
		return ws_fail(err, "SQL: interrupted");
	return ws_fail(err, "SQL: %s", sqlite3_errmsg(sql->db));
}

static int send_rows(struct ws_sql *sql, sqlite3_stmt *statement, int columns,
		     const struct ws_sql_sink *sink, struct ws_err *err)
{
	struct ws_cell *cells = ws_calloc((size_t)columns + 1, sizeof(*cells));
	struct ws_text *hex = ws_calloc((size_t)columns + 1, sizeof(*hex));
	int rc, result = 0;

	while (!result && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
		for (int i = 0; i < columns; i++)
			cells[i] = make_query_cell(statement, i, &hex[i]);
		if (columns && sink->row(sink->ctx, cells, err) < 0)
			result = -1;
	}
	if (!result && rc == SQLITE_DONE && sql->stop) /* tables end early then */
		rc = SQLITE_INTERRUPT;
	if (!result && rc != SQLITE_DONE)
		result = fail_query(sql, rc, err);
	for (int i = 0; i < columns; i++)
		ws_text_free(&hex[i]);
	free(hex);
	free(cells);
	return result;
}

/* ---- parameters ---- */

static struct ws_sql_parameter *find_parameter(const struct ws_sql *sql, const char *name)
{
	for (size_t i = 0; name && i < sql->parameter_count; i++)
		if (!strcmp(sql->parameters[i].name, name))
			return &sql->parameters[i];
	return NULL;
}

void ws_sql_bind_parameter(struct ws_sql *sql, const char *name, const char *value)
{
	char *full_name = ws_format(":%s", name);
	struct ws_sql_parameter *parameter = find_parameter(sql, full_name);

	if (parameter) {
		free(full_name);
		free(parameter->value);
	} else {
		ws_grow(sql->parameters, sql->parameter_capacity, sql->parameter_count + 1);
		parameter = &sql->parameters[sql->parameter_count++];
		parameter->name = full_name;
	}
	parameter->value = NULL;
	if (value)
		parameter->value = ws_strdup(value);
}

static int bind_parameters(struct ws_sql *sql, sqlite3_stmt *statement, struct ws_err *err)
{
	for (int index = 1; index <= sqlite3_bind_parameter_count(statement); index++) {
		const char *name = sqlite3_bind_parameter_name(statement, index);
		const struct ws_sql_parameter *parameter = find_parameter(sql, name);
		char *end;
		long long integer;
		double number;

		if (!parameter)
			return ws_fail(err, "SQL: the parameter %s has no value",
				       ws_text_or(name, "?"));
		if (!parameter->value)
			continue;
		integer = strtoll(parameter->value, &end, 10);
		if (*parameter->value && !*end) {
			sqlite3_bind_int64(statement, index, integer);
			continue;
		}
		number = strtod(parameter->value, &end);
		if (*parameter->value && !*end)
			sqlite3_bind_double(statement, index, number);
		else
			sqlite3_bind_text(statement, index, parameter->value, -1, SQLITE_STATIC);
	}
	return 0;
}

int ws_sql_has_parameter(struct ws_sql *connection, const char *sql, const char *name,
			 struct ws_err *err)
{
	char *full_name = ws_format(":%s", name);
	int found = 0;

	while (*sql && found >= 0) {
		sqlite3_stmt *statement = NULL;
		int rc = sqlite3_prepare_v2(connection->db, sql, -1, &statement, &sql);

		if (rc != SQLITE_OK)
			found = fail_query(connection, rc, err);
		else if (statement && sqlite3_bind_parameter_index(statement, full_name))
			found = 1;
		sqlite3_finalize(statement);
		if (rc != SQLITE_OK)
			break;
	}
	free(full_name);
	return found;
}

/* Prepare the statement rewritten to read groups; NULL when nothing of it can be rewritten. */
static sqlite3_stmt *prepare_rewritten(struct ws_sql *connection, sqlite3_stmt *statement,
				       const char *sql, const char *end,
				       struct ws_sql_groupings *groupings)
{
	char *rewritten = NULL;
	sqlite3_stmt *prepared = NULL;

	if (!connection->plain)
		rewritten = ws_sql_rewrite_statement(connection, sql, end, groupings);
	if (rewritten &&
	    (sqlite3_prepare_v2(connection->db, rewritten, -1, &prepared, NULL) != SQLITE_OK ||
	     sqlite3_column_count(prepared) != sqlite3_column_count(statement))) {
		sqlite3_finalize(prepared);
		prepared = NULL;
	}
	free(rewritten);
	return prepared;
}

static int run_statement(struct ws_sql *connection, sqlite3_stmt *st, const char *sql,
			 const char *end, const struct ws_sql_sink *sink, struct ws_err *err)
{
	int columns = sqlite3_column_count(st);
	const char **names = ws_calloc((size_t)columns + 1, sizeof(*names));
	struct ws_sql_groupings groupings = {.count = 0};
	sqlite3_stmt *rewritten = NULL, *read = st;
	int rc = bind_parameters(connection, st, err);

	for (int i = 0; i < columns; i++)
		names[i] = sqlite3_column_name(st, i);
	if (columns && !rc)
		rc = sink->begin(sink->ctx, names, (size_t)columns, err);
	free(names);
	if (!rc && columns &&
	    (rewritten = prepare_rewritten(connection, st, sql, end, &groupings))) {
		read = rewritten;
		rc = bind_parameters(connection, rewritten, err);
	}
	if (!rc && connection->stop)
		rc = fail_query(connection, SQLITE_INTERRUPT, err);
	if (!rc)
		rc = send_rows(connection, read, columns, sink, err);
	sqlite3_finalize(rewritten);
	ws_sql_free_groupings(connection, &groupings);
	return rc;
}

void ws_sql_set_plain(struct ws_sql *sql, bool plain)
{
	sql->plain = plain;
}

int ws_sql_run_query(struct ws_sql *connection, const char *sql, const struct ws_sql_sink *sink,
		     struct ws_err *err)
{
	int rc = 0;

	begin_limits(connection);
	while (!rc && *sql) {
		const char *from = sql;
		sqlite3_stmt *st = NULL;
		int prepared = sqlite3_prepare_v2(connection->db, sql, -1, &st, &sql);

		if (prepared != SQLITE_OK)
			return fail_query(connection, prepared, err);
		if (st)
			rc = run_statement(connection, st, from, sql, sink, err);
		sqlite3_finalize(st);
		ws_sql_free_indices(connection);
	}
	return rc;
}

bool ws_sql_is_complete(const char *sql)
{
	return sqlite3_complete(sql);
}

/* ---- tables ---- */

static int compare_table_names(const void *first, const void *second)
{
	const struct ws_sql_table *const *left = first, *const *right = second;

	return strcmp((*left)->name, (*right)->name);
}

const char *ws_sql_find_table_name(const struct ws_sql *sql, size_t i, uint64_t *rows)
{
	const struct ws_sql_report *report = &sql->reports[0];
	struct ws_sql_table **sorted;
	const char *name;

	if (i >= report->table_count)
		return NULL;
	sorted = ws_malloc(report->table_count * sizeof(*sorted));
	memcpy(sorted, report->tables, report->table_count * sizeof(*sorted));
	qsort(sorted, report->table_count, sizeof(*sorted), compare_table_names);
	name = sorted[i]->name;
	if (rows && ws_sql_make_cells(sorted[i], &(struct ws_err){0}) < 0)
		*rows = 0;
	else if (rows)
		*rows = ws_sql_count_rows(sorted[i]);
	free(sorted);
	return name;
}

char *ws_sql_make_schema(const struct ws_sql *connection, const char *table)
{
	const struct ws_sql_report *report = &connection->reports[0];
	struct ws_text sql = {0};

	for (size_t i = 0; i < report->table_count; i++)
		if (!sqlite3_stricmp(report->tables[i]->name, table)) {
			ws_sql_put_create(report->tables[i], true, &sql);
			return sql.text;
		}
	return NULL;
}

struct ws_sql_counts ws_get_sql_counts(const struct ws_sql *sql)
{
	return sql->counts;
}
