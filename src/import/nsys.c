/*
 * nsys.c - SQLite exports: those of Nsight Systems, schema 2 and 3, and our own.
 *
 * Tables and columns vary with the version that wrote the file, so none is assumed to exist. The
 * columns of a table are read from the database, tables.def gives the name there of each of our
 * columns, and a missing column reads as null. The export uses the same declaration in reverse.
 * Tables that are not plain copies are read in nsys_tables.c and nsys_code.c; whatever is left at
 * the end is kept as slices or as rows of `foreign`, with a note.
 *
 * Times are exact to the nanosecond: they are shifted so that none is negative, and the fact
 * session.zero says where the file's zero lies. Imports of our own exports restore the original
 * session clock.
 *
 * The database is not trusted: it is opened read-only and in SQLite's defensive mode, virtual
 * tables are not touched, and values are bounded. Views under a known name are read, since people
 * keep filtered copies of a trace that way, but only up to as many rows as a file of this size
 * could hold, and only while rows keep coming: the file decides what a view computes.
 */
#include "import/nsys.h"
#include "base/choose.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "import/formats.h"

enum { MOST_VALUE = 16 << 20, MOST_TABLES = 2048, MOST_NUMBERED = 4 << 20 };
/* Instructions of SQLite's virtual machine between two checks whether to go on. */
enum { PER_STEP = 1 << 20 };
/* Over an hour, in ns: events before a file's zero are not older than that. */
#define SHIFT (UINT64_C(1) << 42)

/* ---- the database ---- */

static bool is_table_done(const struct ws_nsys *nsys, const char *table)
{
	for (size_t i = 0; i < nsys->read_table_count; i++)
		if (!sqlite3_stricmp(nsys->read_tables[i], table))
			return true;
	return false;
}

void ws_nsys_mark_done(struct ws_nsys *nsys, const char *table)
{
	if (is_table_done(nsys, table))
		return;
	ws_grow(nsys->read_tables, nsys->read_table_capacity, nsys->read_table_count + 1);
	nsys->read_tables[nsys->read_table_count++] = ws_strdup(table);
}

static bool has_table(struct ws_nsys *nsys, const char *table)
{
	sqlite3_stmt *statement;
	bool found = false;

	/* Only real tables and views: a virtual table may do anything. */
	if (sqlite3_prepare_v2(nsys->db,
			       "SELECT 1 FROM sqlite_master WHERE (type='table' AND rootpage>0 OR "
			       "type='view') AND name=?1 "
			       "COLLATE NOCASE",
			       -1, &statement, NULL) != SQLITE_OK)
		return false;
	sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
	found = sqlite3_step(statement) == SQLITE_ROW;
	sqlite3_finalize(statement);
	return found;
}

bool ws_nsys_has_unread(struct ws_nsys *nsys, const char *table)
{
	return !is_table_done(nsys, table) && has_table(nsys, table);
}

sqlite3_stmt *ws_nsys_select(struct ws_nsys *nsys, const char *fmt, ...)
{
	sqlite3_stmt *statement = NULL;
	va_list ap;
	char *sql;

	va_start(ap, fmt);
	sql = sqlite3_vmprintf(fmt, ap);
	va_end(ap);
	nsys->timed_statement = NULL;
	if (!sql || sqlite3_prepare_v2(nsys->db, sql, -1, &statement, NULL) != SQLITE_OK)
		ws_importer_add_note(nsys->importer, "The database cannot be read: %s",
				     sqlite3_errmsg(nsys->db));
	sqlite3_free(sql);
	return statement;
}

/* Whether the value of a column of times is a number or null. SQLite lets any column hold a
 * text. */
static bool is_time(sqlite3_stmt *statement, int column)
{
	const char *text;
	char *end;

	if (column < 0)
		return true;
	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_TEXT:
		text = (const char *)sqlite3_column_text(statement, column);
		strtoll(text, &end, 10);
		return end > text && !*end;
	case SQLITE_BLOB:
		return false;
	default:
		return true;
	}
}

/* Whether all times of the current row are numbers. A row without them cannot be placed. */
static bool has_numeric_times(struct ws_nsys *nsys, sqlite3_stmt *statement)
{
	static const char *const names[] = {"start", "end", "timestamp"};
	bool numeric = true;

	for (size_t i = 0; nsys->timed_statement != statement && i < WS_COUNT(names); i++)
		nsys->time_columns[i] = ws_nsys_find_column(statement, names[i]);
	nsys->timed_statement = statement;
	for (size_t i = 0; i < WS_COUNT(names); i++)
		numeric &= is_time(statement, nsys->time_columns[i]);
	return numeric;
}

static bool step_any_row(struct ws_nsys *nsys, sqlite3_stmt *statement, const char *table)
{
	int rc;

	if (!statement || nsys->importer->stopped || ws_writer_error(nsys->importer->writer, NULL))
		return false;
	if (nsys->counted_table != table) {
		nsys->counted_table = table;
		nsys->rows = 0;
	}
	/* It takes fewer than a million instructions to go through a MiB. */
	nsys->patience = 256 + (int64_t)(nsys->row_limit >> 20);
	rc = sqlite3_step(statement);
	if (rc == SQLITE_ROW && nsys->rows++ > nsys->row_limit) {
		ws_importer_add_note(
			nsys->importer,
			"%s was not read to its end: it has more rows than a file of this "
			"size can hold.",
			table);
		return false;
	}
	if (rc == SQLITE_ROW) {
		if (!(nsys->importer->rows & 0xfff)) {
			ws_writer_commit(nsys->importer->writer);
			ws_importer_show_progress(nsys->importer, nsys->read_table_count,
						  nsys->read_table_count + 1);
		}
		return true;
	}
	if (rc == SQLITE_INTERRUPT)
		ws_importer_add_note(nsys->importer,
				     "%s was not read to its end: its rows take too long to find.",
				     table);
	else if (rc != SQLITE_DONE)
		ws_importer_add_note(nsys->importer, "%s was read to where it is damaged: %s",
				     table, sqlite3_errmsg(nsys->db));
	return false;
}

bool ws_nsys_step_row(struct ws_nsys *nsys, sqlite3_stmt *statement, const char *table)
{
	while (step_any_row(nsys, statement, table)) {
		if (has_numeric_times(nsys, statement))
			return true;
		ws_importer_add_note(
			nsys->importer,
			"%s: rows whose start, end or timestamp is no number were left out.",
			table);
	}
	return false;
}

int ws_nsys_find_column(sqlite3_stmt *statement, const char *name)
{
	for (int i = 0; statement && i < sqlite3_column_count(statement); i++)
		if (!strcmp(sqlite3_column_name(statement, i), name))
			return i;
	return -1;
}

bool ws_nsys_has_value(sqlite3_stmt *statement, int column)
{
	return column >= 0 && sqlite3_column_type(statement, column) != SQLITE_NULL;
}

int64_t ws_nsys_get_int(sqlite3_stmt *statement, int column, int64_t none)
{
	if (!ws_nsys_has_value(statement, column))
		return none;
	return sqlite3_column_int64(statement, column);
}

uint64_t ws_nsys_get_time(struct ws_nsys *nsys, sqlite3_stmt *statement, int column)
{
	int64_t time;

	if (!ws_nsys_has_value(statement, column))
		return WS_NO_TIME;
	time = sqlite3_column_int64(statement, column);
	if (time < 0 && (uint64_t) - (time + 1) >= nsys->shift) {
		nsys->bad_time++;
		return 0;
	}
	return nsys->shift + (uint64_t)time;
}

uint32_t ws_nsys_get_text(struct ws_nsys *nsys, sqlite3_stmt *statement, int column)
{
	if (column < 0)
		return 0;
	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_INTEGER:
		return (uint32_t)ws_map_get(
			&nsys->strings, (uint64_t)sqlite3_column_int64(statement, column), NULL);
	case SQLITE_NULL:
		return 0;
	default: {
		const void *bytes = sqlite3_column_blob(statement, column);

		return ws_writer_string(nsys->importer->writer, ws_text_or(bytes, ""),
					(size_t)sqlite3_column_bytes(statement, column));
	}
	}
}

/* ---- processes and threads ---- */

uint32_t ws_nsys_get_vm(const struct ws_nsys *nsys, uint64_t global)
{
	uint32_t vm = (uint32_t)(global >> 48);

	if (nsys->importer->file_count > 1)
		vm = (nsys->importer->file & 0xff) << 8 | (vm & 0xff);
	return vm;
}

uint32_t ws_nsys_find_process(struct ws_nsys *nsys, int64_t global, uint64_t at)
{
	uint64_t key = (uint64_t)global & ~UINT64_C(0xffffff);
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&nsys->processes, key, &found);

	if (!found) {
		id = ws_importer_intern_process(nsys->importer, key,
						(uint32_t)(key >> 24 & 0xffffff));
		ws_importer_get_process(nsys->importer, id)->vm = ws_nsys_get_vm(nsys, key);
		ws_map_set(&nsys->processes, key, id);
		return id;
	}
	while (at != WS_NO_TIME && id < nsys->process_before_cap && nsys->process_before[id] &&
	       ws_importer_get_process(nsys->importer, id)->start > at)
		id = nsys->process_before[id];
	return id;
}

uint32_t ws_nsys_find_thread(struct ws_nsys *nsys, int64_t global, uint64_t at)
{
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&nsys->threads, (uint64_t)global, &found);

	if (!found) {
		id = ws_importer_intern_thread(nsys->importer,
					       ws_nsys_find_process(nsys, global, at),
					       (uint64_t)global & 0xffffff, at);
		ws_map_set(&nsys->threads, (uint64_t)global, id);
		return id;
	}
	while (at != WS_NO_TIME && id < nsys->thread_before_cap && nsys->thread_before[id] &&
	       ws_importer_get_thread(nsys->importer, id)->start > at)
		id = nsys->thread_before[id];
	if (!nsys->is_own_export && at < ws_importer_get_thread(nsys->importer, id)->start)
		ws_importer_get_thread(nsys->importer, id)->start = at;
	return id;
}

/* ---- a table as declared in tables.def ---- */

/* Where each column of a table is read from. */
struct column_plan {
	enum ws_table table;
	int8_t result[WS_MAX_COLUMNS]; /* result column, or -1 */
	int start, end;		       /* columns of the table, or -1 */
};

static uint64_t bits_of_nan(void)
{
	double real = NAN;
	uint64_t bits;

	memcpy(&bits, &real, 8);
	return bits;
}

/* The value of a column where the file has none. */
static uint64_t get_null_value(const struct ws_column_desc *desc)
{
	switch (desc->type) {
	case WS_T_NTIME:
		return WS_NO_TIME;
	case WS_T_NU32:
		return WS_NO_U32;
	case WS_T_NU64:
		return WS_NO_U64;
	case WS_T_I32:
		return !strcmp(desc->name, "status") ? (uint64_t)(int64_t)WS_NO_STATUS : 0;
	default:
		return 0;
	}
}

static uint64_t read_value(struct ws_nsys *nsys, sqlite3_stmt *statement,
			   const struct ws_column_desc *desc, int column, uint64_t at)
{
	int64_t number;
	double real;
	uint64_t bits;

	/* Our exports write NULL where there is no number. */
	if (!ws_nsys_has_value(statement, column) && nsys->is_own_export && column >= 0 &&
	    desc->type == WS_T_F64)
		return bits_of_nan();
	if (!ws_nsys_has_value(statement, column))
		return get_null_value(desc);
	switch (desc->type) {
	case WS_T_TIME:
	case WS_T_NTIME:
		return ws_nsys_get_time(nsys, statement, column);
	case WS_T_STR:
		return ws_nsys_get_text(nsys, statement, column);
	case WS_T_F64:
		real = sqlite3_column_double(statement, column);
		memcpy(&bits, &real, 8);
		return bits;
	default:
		break;
	}
	number = sqlite3_column_int64(statement, column);
	switch (desc->type) {
	case WS_T_THREAD:
	case WS_T_NTHREAD:
		return ws_nsys_find_thread(nsys, number, at);
	case WS_T_PROCESS: /* the table's own reader interprets a bare pid */
		if (!(number >> 24))
			return 0;
		return ws_nsys_find_process(nsys, number, at);
	case WS_T_NU32:
		if (number < 0 || number > UINT32_MAX)
			return WS_NO_U32;
		return (uint64_t)number;
	default:
		return (uint64_t)number;
	}
}

static void plan_columns(struct column_plan *plan, sqlite3_stmt *statement, enum ws_table table)
{
	const struct ws_table_desc *desc = &ws_tables[table];

	plan->table = table;
	plan->start = ws_table_start(table);
	plan->end = ws_table_end(table);
	for (uint32_t index = 0; index < desc->column_count; index++) {
		const struct ws_column_desc *column = &desc->columns[index];
		/* The caller interprets a bare pid. */
		bool bare = column->type == WS_T_PROCESS && !strcmp(column->sqlite, "processId");

		plan->result[index] = -1;
		if (*column->sqlite && !bare)
			plan->result[index] =
				(int8_t)ws_nsys_find_column(statement, column->sqlite);
	}
}

static void read_table_row(struct ws_nsys *nsys, sqlite3_stmt *statement,
			   const struct column_plan *plan, const struct ws_map *chains, void *row)
{
	const struct ws_table_desc *desc = &ws_tables[plan->table];
	uint64_t at = WS_NO_TIME, end;

	if (plan->start >= 0)
		at = read_value(nsys, statement, &desc->columns[plan->start],
				plan->result[plan->start], 0);
	if (plan->start >= 0 && plan->result[plan->start] >= 0)
		ws_importer_include_time(nsys->importer, at);
	for (uint32_t index = 0; index < desc->column_count; index++) {
		uint64_t value = at;

		if ((int)index != plan->start)
			value = read_value(nsys, statement, &desc->columns[index],
					   plan->result[index], at);
		if (chains && !strcmp(desc->columns[index].name, "callchain") &&
		    value != WS_NO_U32) {
			value = ws_map_get(chains, value, NULL);
			if (!value)
				value = WS_NO_U32;
		}
		ws_row_set(plan->table, row, index, value);
	}
	if (plan->end < 0)
		return;
	end = ws_row_get(plan->table, row, (uint32_t)plan->end);
	if (end != WS_NO_TIME)
		ws_importer_include_time(nsys->importer, end);
}

/* Columns that every version of Nsight Systems gives a table. */
static const struct {
	const char *table, *columns;
} known[] = {
#define WS_KNOWN(table, columns) {table, columns},
#include "schema/known.def"
#undef WS_KNOWN
};

static void append_name(struct ws_text *list, const char *name, size_t length)
{
	if (list->len)
		ws_text_puts(list, ", ");
	ws_text_add(list, name, ws_min(length, 100));
}

void ws_nsys_note_missing_columns(struct ws_nsys *nsys, sqlite3_stmt *statement, const char *table)
{
	struct ws_text missing = {0};
	const char *columns = "";

	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (!strcmp(known[i].table, table))
			columns = known[i].columns;
	while (*columns) {
		size_t length = strcspn(columns, " "), end = strcspn(columns, " :!*");
		char *name = ws_strndup(columns, end);

		if (memchr(columns, '!', length) && ws_nsys_find_column(statement, name) < 0)
			append_name(&missing, name, end);
		free(name);
		columns += length + (columns[length] == ' ');
	}
	if (missing.len)
		ws_importer_add_note(nsys->importer, "%s has no column %s.", table, missing.text);
	ws_text_free(&missing);
}

/* Columns of the file that have no counterpart here, and which of them hold something. */
struct unread_columns {
	int columns[WS_MAX_COLUMNS];
	int count;
	uint64_t filled; /* bit i: column[i] does */
};

static void find_unread_columns(struct unread_columns *unread, sqlite3_stmt *statement,
				const struct column_plan *plan)
{
	for (int column = 0;
	     column < sqlite3_column_count(statement) && unread->count < WS_MAX_COLUMNS; column++) {
		bool taken = false;

		for (uint32_t i = 0; i < ws_tables[plan->table].column_count; i++)
			taken |= plan->result[i] == column;
		if (!taken)
			unread->columns[unread->count++] = column;
	}
}

/* Whether there is a value other than an empty text or list. */
static bool has_content(sqlite3_stmt *statement, int column)
{
	int type = sqlite3_column_type(statement, column), length;

	if (type != SQLITE_TEXT)
		return type != SQLITE_NULL;
	length = sqlite3_column_bytes(statement, column);
	return length > 2 ||
	       (length && memcmp(sqlite3_column_text(statement, column), "[]", (size_t)length));
}

static void note_unread_columns(struct ws_nsys *nsys, sqlite3_stmt *statement,
				const struct unread_columns *unread, const char *table)
{
	struct ws_text names = {0};

	for (int i = 0; i < unread->count; i++)
		if (unread->filled >> i & 1)
			append_name(&names, sqlite3_column_name(statement, unread->columns[i]),
				    strlen(sqlite3_column_name(statement, unread->columns[i])));
	if (names.len)
		ws_importer_add_note(nsys->importer,
				     "%s: what stands in %s has no place here and was left out.",
				     table, names.text);
	ws_text_free(&names);
}

/* The process that made all CUDA calls; 0 when there are several or none. */
static uint32_t find_only_cuda_process(struct ws_nsys *nsys)
{
	static const char table[] = "CUPTI_ACTIVITY_KIND_RUNTIME";
	sqlite3_stmt *statement = NULL;
	uint32_t process = 0;
	int thread;

	if (has_table(nsys, table))
		statement = ws_nsys_select(nsys, "SELECT * FROM %s", table);
	thread = ws_nsys_find_column(statement, "globalTid");

	while (thread >= 0 && ws_nsys_step_row(nsys, statement, table)) {
		uint32_t other = ws_nsys_find_process(nsys, sqlite3_column_int64(statement, thread),
						      WS_NO_TIME);

		if (process && other != process) {
			process = 0;
			break;
		}
		process = other;
	}
	sqlite3_finalize(statement);
	nsys->counted_table = NULL; /* the table is read from its start again */
	return process;
}

/* Note which of the columns that join rows are missing. GPU work without a process must belong to
 * the only process with CUDA calls, if there is just one: returns that process, or 0. */
static uint32_t note_missing_joins(struct ws_nsys *nsys, const struct column_plan *plan,
				   const char *table)
{
	static const char *const joining[] = {"globalPid", "globalTid", "correlationId"};
	const struct ws_table_desc *desc = &ws_tables[plan->table];
	uint32_t process = 0;

	for (uint32_t c = 0; c < desc->column_count; c++)
		for (size_t i = 0; i < WS_COUNT(joining); i++) {
			if (plan->result[c] >= 0 || strcmp(desc->columns[c].sqlite, joining[i]))
				continue;
			if (!i)
				process = find_only_cuda_process(nsys);
			ws_importer_add_note(
				nsys->importer,
				process ? "%s has no column %s: its rows were taken to be of "
					  "the only process with CUDA calls."
					: "%s has no column %s: its rows cannot be joined to "
					  "others by it.",
				table, joining[i]);
		}
	return process;
}

void ws_nsys_read_table(struct ws_nsys *nsys, enum ws_table table, const char *name,
			const struct ws_map *chains,
			void (*fix)(struct ws_nsys *nsys, sqlite3_stmt *statement, void *row))
{
	const struct ws_table_desc *desc = &ws_tables[table];
	_Alignas(uint64_t) char row[sizeof(uint64_t) * WS_MAX_COLUMNS];
	struct unread_columns unread = {.count = 0};
	uint32_t process = 0;
	struct column_plan plan;
	sqlite3_stmt *statement;

	name = ws_text_or(name, desc->sqlite);
	if (!*name || !ws_nsys_has_unread(nsys, name))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM \"%w\"", name);
	if (statement)
		plan_columns(&plan, statement, table);
	if (statement && !nsys->is_own_export) {
		ws_nsys_note_missing_columns(nsys, statement, name);
		process = note_missing_joins(nsys, &plan, name);
	}
	if (statement && plan.start >= 0 && plan.end >= 0 && plan.result[plan.start] < 0) {
		ws_importer_add_note(nsys->importer, "%s was left out: nothing in it has a time.",
				     name);
		sqlite3_finalize(statement);
		ws_nsys_mark_done(nsys, name);
		return;
	}
	if (statement && !nsys->is_own_export && !fix)
		find_unread_columns(&unread, statement, &plan);
	while (ws_nsys_step_row(nsys, statement, name)) {
		for (int i = 0; i < unread.count; i++)
			if (!(unread.filled >> i & 1) && has_content(statement, unread.columns[i]))
				unread.filled |= UINT64_C(1) << i;
		memset(row, 0, desc->row_size);
		read_table_row(nsys, statement, &plan, chains, row);
		for (uint32_t c = 0; process && c < desc->column_count; c++)
			if (desc->columns[c].type == WS_T_PROCESS)
				ws_row_set(table, row, c, process);
		if (fix)
			fix(nsys, statement, row);
		if (table == WS_TABLE_cuda_kernel)
			ws_importer_demangle_kernel(nsys->importer,
						    (struct ws_row_cuda_kernel *)row);
		memcpy(ws_importer_add_row(nsys->importer, table), row, desc->row_size);
	}
	if (statement)
		note_unread_columns(nsys, statement, &unread, name);
	sqlite3_finalize(statement);
	ws_nsys_mark_done(nsys, name);
}

/* ---- the file ---- */

/* SQLite asks this now and then while it looks for the next row, and stops at true. */
static int is_out_of_patience(void *ctx)
{
	struct ws_nsys *nsys = ctx;

	return nsys->patience-- <= 0;
}

/* Size of a file in bytes; 0 when it is not there. */
static uint64_t get_file_size(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return 0;
	return (uint64_t)st.st_size;
}

static int open_database(struct ws_nsys *nsys, const char *path)
{
	char *wal = ws_format("%s-wal", path), *uri;
	struct ws_text name = {0};
	int rc;

	for (const char *at = path; *at; at++) /* escape characters with a meaning in URIs */
		if (strchr("%?#", *at))
			ws_text_printf(&name, "%%%02x", (unsigned char)*at);
		else
			ws_text_add(&name, at, 1);
	/* SQLite must not make files for locks beside the database, so it is opened as immutable,
	 * unless it has a write-ahead log, which must be read. */
	uri = sqlite3_mprintf("file:%s?mode=ro%s", name.text,
			      access(wal, F_OK) ? "&immutable=1" : "");
	nsys->row_limit =
		get_file_size(path) + get_file_size(wal); /* a row takes a byte at least */
	free(wal);
	ws_text_free(&name);
	rc = sqlite3_open_v2(uri, &nsys->db,
			     SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
	sqlite3_free(uri);
	if (rc != SQLITE_OK)
		return ws_importer_stop(nsys->importer, "cannot open %s: %s", path,
					sqlite3_errmsg(nsys->db));
	sqlite3_db_config(nsys->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(nsys->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_limit(nsys->db, SQLITE_LIMIT_LENGTH, MOST_VALUE);
	sqlite3_progress_handler(nsys->db, PER_STEP, is_out_of_patience, nsys);
	nsys->patience = 256;
	sqlite3_exec(
		nsys->db,
		"PRAGMA cell_size_check=ON; PRAGMA cache_size=-65536; PRAGMA temp_store=MEMORY",
		NULL, NULL, NULL);
	return 0;
}

static void read_strings(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement;

	if (!ws_nsys_has_unread(nsys, "StringIds"))
		return;
	statement = ws_nsys_select(nsys, "SELECT id, value FROM StringIds ORDER BY id");
	while (ws_nsys_step_row(nsys, statement, "StringIds")) {
		const void *text = sqlite3_column_blob(statement, 1);
		int64_t theirs = sqlite3_column_int64(statement, 0);

		/* Exporting one of our exports again gives the same rows, down to the numbers of
		 * texts. */
		if (nsys->is_own_export && theirs > 0 && theirs < MOST_NUMBERED)
			ws_writer_string_from(nsys->importer->writer, (uint32_t)theirs);
		ws_map_set(&nsys->strings, (uint64_t)theirs,
			   ws_importer_add_string(nsys->importer, ws_text_or(text, ""),
						  (size_t)sqlite3_column_bytes(statement, 1)));
	}
	sqlite3_finalize(statement);
	ws_nsys_mark_done(nsys, "StringIds");
}

/* A value of a table with the columns name and value, as a text that the caller frees; NULL when it
 * is not there. */
static char *read_fact_value(struct ws_nsys *nsys, const char *table, const char *name)
{
	sqlite3_stmt *statement;
	char *value = NULL;

	if (!has_table(nsys, table))
		return NULL;
	statement = ws_nsys_select(nsys, "SELECT value FROM \"%w\" WHERE name=%Q", table, name);
	if (statement && sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0))
		value = ws_strdup((const char *)sqlite3_column_text(statement, 0));
	sqlite3_finalize(statement);
	return value;
}

/* Check that the database is an export of a profile, and find out which tool made it. 0, or -1 when
 * it is not. */
static int recognise_export(struct ws_nsys *nsys)
{
	char *product = read_fact_value(nsys, "META_DATA_EXPORT", "EXPORT_PRODUCT_NAME");
	char *version = read_fact_value(nsys, "META_DATA_EXPORT", "EXPORT_SCHEMA_VERSION");

	nsys->is_own_export = product && !strcmp(product, "warpsight");
	if (version && atoi(version) > 3)
		ws_importer_add_note(
			nsys->importer,
			"Its schema version %.40s is newer than the versions 2 and 3 that are "
			"known; what fits was read.",
			version);
	free(product);
	free(version);
	if (has_table(nsys, "StringIds"))
		return 0;
	return ws_importer_stop(
		nsys->importer,
		"%s is an SQLite database, but no export of Nsight Systems: it has no "
		"table StringIds",
		nsys->importer->path);
}

/* Whether the file was exported with --ts-normalize. Its collection then begins, by its own clock,
 * at about the real time of the session's start. */
static bool counts_from_1970(int64_t start, int64_t epoch)
{
	const int64_t day = INT64_C(86400) * 1000000000;

	return epoch > day && start > epoch - day && start < epoch + 30 * day;
}

/* When the session of the file started. */
struct session_start {
	int64_t epoch;	/* real time, ns since 1970; 0 when not known */
	int64_t system; /* on the machine's clock, ns; 0 when not known */
	int64_t start;	/* in the file's times; -1 when not known */
};

static struct session_start read_session_start(struct ws_nsys *nsys)
{
	struct session_start session = {.start = -1};
	sqlite3_stmt *statement = NULL;

	if (has_table(nsys, "TARGET_INFO_SESSION_START_TIME"))
		statement = ws_nsys_select(nsys,
					   "SELECT * FROM TARGET_INFO_SESSION_START_TIME LIMIT 1");
	if (statement && sqlite3_step(statement) == SQLITE_ROW) {
		session.epoch =
			ws_nsys_get_int(statement, ws_nsys_find_column(statement, "utcEpochNs"), 0);
		session.system = ws_nsys_get_int(
			statement, ws_nsys_find_column(statement, "systemClockNs"), 0);
	}
	sqlite3_finalize(statement);
	statement = NULL;
	if (has_table(nsys, "ANALYSIS_DETAILS"))
		statement = ws_nsys_select(nsys, "SELECT min(startTime) FROM ANALYSIS_DETAILS");
	if (statement && sqlite3_step(statement) == SQLITE_ROW)
		session.start = ws_nsys_get_int(statement, 0, -1);
	sqlite3_finalize(statement);
	return session;
}

/* Write the real time at which the session of an Nsight Systems export started. With several files,
 * move this file's times to real time. */
static void put_session_clock(struct ws_nsys *nsys, const struct session_start *session)
{
	struct ws_row_clock *row;
	int64_t at = 0; /* the session's start in the file's times */

	/* Newer exports count from the machine's start; their real time is that of the collection's
	 * start. */
	if (counts_from_1970(session->start, session->epoch))
		at = session->epoch;
	else if (session->system && session->start == session->system)
		at = session->system;
	if (nsys->importer->file_count > 1) {
		nsys->shift = (uint64_t)(session->epoch - at);
		ws_importer_add_message(nsys->importer,
					"Times are on the real time of the host that recorded it.");
	}
	row = ws_importer_add_row(nsys->importer, WS_TABLE_clock);
	*row = (struct ws_row_clock){.raw = nsys->shift + (uint64_t)at,
				     .realtime = (uint64_t)session->epoch};
}

/* Choose the moment of the session clock that the file counts from; with several files, by the real
 * time. */
static void choose_shift(struct ws_nsys *nsys)
{
	struct session_start session = read_session_start(nsys);
	char zero[32];

	nsys->shift = SHIFT;
	if (nsys->is_own_export && session.system > 0)
		nsys->shift = (uint64_t)session.system;
	if (session.epoch > 0 && !nsys->is_own_export) {
		put_session_clock(nsys, &session);
	} else if (session.epoch > 0 && nsys->importer->file_count > 1) {
		nsys->shift = (uint64_t)session.epoch;
		if (counts_from_1970(session.start, session.epoch))
			nsys->shift = 0;
		ws_importer_add_message(nsys->importer,
					"Times are on the real time of the host that recorded it.");
	} else if (nsys->importer->file_count > 1) {
		ws_importer_add_note(
			nsys->importer,
			"It does not tell the real time: it is not aligned with the other files.");
	}
	if (!nsys->importer->file && session.start) {
		snprintf(zero, sizeof(zero), "%" PRIu64, nsys->shift);
		ws_importer_add_fact(nsys->importer, "session.zero", zero, strlen(zero));
	}
}

static void free_nsys(struct ws_nsys *nsys)
{
	sqlite3_close(nsys->db);
	ws_map_free(&nsys->strings);
	ws_map_free(&nsys->counters);
	ws_map_free(&nsys->processes);
	ws_map_free(&nsys->threads);
	free(nsys->process_before);
	free(nsys->thread_before);
	for (size_t i = 0; i < nsys->read_table_count; i++)
		free(nsys->read_tables[i]);
	free(nsys->read_tables);
	free(nsys);
}

/* Tables of the schema with their own reader, and tables derived from others. */
static bool has_own_reader(enum ws_table table)
{
	switch (table) {
	case WS_TABLE_meta:
	case WS_TABLE_collection:
	case WS_TABLE_process:
	case WS_TABLE_thread:
	case WS_TABLE_thread_name:
	case WS_TABLE_diagnostic:
	case WS_TABLE_output:
	case WS_TABLE_nvtx:
	case WS_TABLE_osrt:
	case WS_TABLE_cuda_api:
	case WS_TABLE_cuda_event:
	case WS_TABLE_cuda_device:
	case WS_TABLE_cuda_context:
	case WS_TABLE_cuda_stream:
	case WS_TABLE_sample:
	case WS_TABLE_sched:
		return true;
	default:
		return false;
	}
}

/* Skip the tables of our own exports that repeat rows of another table. */
static void skip_shown_again(struct ws_nsys *nsys)
{
	static const struct {
		const char *of, *begin;
	} again[] = {{"WARPSIGHT_OPENMP", "OPENMP_EVENT_KIND_"},
		     {"WARPSIGHT_OPENACC", "CUPTI_ACTIVITY_KIND_OPENACC_"}};
	static const char *const known[] = {
#define WS_KNOWN(table, columns) table,
#include "schema/known.def"
#undef WS_KNOWN
	};

	for (size_t i = 0; i < WS_COUNT(again); i++)
		for (size_t k = 0; ws_nsys_has_unread(nsys, again[i].of) && k < WS_COUNT(known);
		     k++)
			if (!strncmp(known[k], again[i].begin, strlen(again[i].begin)))
				ws_nsys_mark_done(nsys, known[k]);
}

int ws_import_sqlite(struct ws_importer *importer, const char *path)
{
	struct ws_nsys *nsys = ws_calloc(1, sizeof(*nsys));

	nsys->importer = importer;
	if (open_database(nsys, path) < 0 || recognise_export(nsys) < 0) {
		free_nsys(nsys);
		return -1;
	}
	read_strings(nsys); /* must come before any other string gets a number */
	choose_shift(nsys);
	ws_nsys_read_processes(nsys);
	ws_nsys_read_session(nsys);
	ws_nsys_read_events(nsys);
	ws_nsys_read_samples(nsys);
	ws_nsys_read_sched(nsys);
	ws_nsys_read_collectives(nsys);
	skip_shown_again(nsys);
	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++)
		if (!has_own_reader((enum ws_table)table))
			ws_nsys_read_table(nsys, (enum ws_table)table, NULL, NULL, NULL);
	ws_nsys_read_metrics(nsys);
	ws_nsys_read_rest(nsys);
	ws_importer_add_notes(importer, nsys->bad_time,
			      "Times before what can be kept were taken as the earliest.");
	free_nsys(nsys);
	return ws_importer_get_status(importer);
}
