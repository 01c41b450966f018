/*
 * nsys.c - SQLite exports: those of Nsight Systems, schema 2 and 3, and our own.
 *
 * Tables and columns vary with the version that wrote the file. So nothing is taken for granted:
 * what a table has is read from the database, tables.def says under which name each of our columns
 * stands there, and a column that is missing reads as null. That is the export turned round, and
 * one declaration serves both. Tables that are no plain copies are in nsys_tables.c and
 * nsys_code.c; whatever is left in the end is kept as slices or as rows of `foreign`, and said.
 *
 * Times stay as they are to the nanosecond: they are shifted so that none is negative, and the fact
 * session.zero says where the file's zero lies. Exports of ours get back the session clock that
 * they were recorded on.
 *
 * The database is not trusted: it is opened read-only and defensive, virtual tables are not
 * touched, values are bounded. Views under a known name are read, since people keep filtered copies
 * of a trace so, but only as far as a file of this size could have rows, and as long as rows keep
 * coming: what a view computes is the file's to say.
 */
#include "import/nsys.h"
#include "base/choose.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "import/formats.h"

enum { MOST_VALUE = 16 << 20, MOST_TABLES = 2048, MOST_NUMBERED = 4 << 20 };
enum {
	PER_STEP = 1 << 20
}; /* instructions of SQLite's machine between two questions whether to go on */
#define SHIFT        \
	(UINT64_C(1) \
	 << 42) /* over an hour: events before the zero of a file are as old as that at most */

/* ---- the database ---- */

static bool is_done(const struct ws_nsys *nsys, const char *table)
{
	for (size_t i = 0; i < nsys->done_count; i++)
		if (!sqlite3_stricmp(nsys->done[i], table))
			return true;
	return false;
}

void ws_nsys_done(struct ws_nsys *nsys, const char *table)
{
	if (is_done(nsys, table))
		return;
	ws_grow(nsys->done, nsys->done_cap, nsys->done_count + 1);
	nsys->done[nsys->done_count++] = ws_strdup(table);
}

static bool exists(struct ws_nsys *nsys, const char *table)
{
	sqlite3_stmt *statement;
	bool found = false;

	/* Tables proper, and views: a virtual table may do anything. */
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

bool ws_nsys_has(struct ws_nsys *nsys, const char *table)
{
	return !is_done(nsys, table) && exists(nsys, table);
}

sqlite3_stmt *ws_nsys_select(struct ws_nsys *nsys, const char *fmt, ...)
{
	sqlite3_stmt *statement = NULL;
	va_list ap;
	char *sql;

	va_start(ap, fmt);
	sql = sqlite3_vmprintf(fmt, ap);
	va_end(ap);
	if (!sql || sqlite3_prepare_v2(nsys->db, sql, -1, &statement, NULL) != SQLITE_OK)
		ws_into_note(nsys->into, "The database cannot be read: %s",
			     sqlite3_errmsg(nsys->db));
	sqlite3_free(sql);
	return statement;
}

bool ws_nsys_step(struct ws_nsys *nsys, sqlite3_stmt *statement, const char *table)
{
	int rc;

	if (!statement || nsys->into->full || ws_writer_error(nsys->into->writer, NULL))
		return false;
	if (nsys->counted != table) {
		nsys->counted = table;
		nsys->rows = 0;
	}
	nsys->patience =
		256 +
		(int64_t)(nsys->most_rows >>
			  20); /* to go through a MiB takes less than a million instructions */
	rc = sqlite3_step(statement);
	if (rc == SQLITE_ROW && nsys->rows++ > nsys->most_rows) {
		ws_into_note(nsys->into,
			     "%s was not read to its end: it has more rows than a file of this "
			     "size can hold.",
			     table);
		return false;
	}
	if (rc == SQLITE_ROW) {
		if (!(nsys->into->rows & 0xfff)) {
			ws_writer_commit(nsys->into->writer);
			ws_into_progress(nsys->into, nsys->done_count, nsys->done_count + 1);
		}
		return true;
	}
	if (rc == SQLITE_INTERRUPT)
		ws_into_note(nsys->into,
			     "%s was not read to its end: its rows take too long to find.", table);
	else if (rc != SQLITE_DONE)
		ws_into_note(nsys->into, "%s was read to where it is damaged: %s", table,
			     sqlite3_errmsg(nsys->db));
	return false;
}

int ws_nsys_column(sqlite3_stmt *statement, const char *name)
{
	for (int i = 0; statement && i < sqlite3_column_count(statement); i++)
		if (!strcmp(sqlite3_column_name(statement, i), name))
			return i;
	return -1;
}

int64_t ws_nsys_int(sqlite3_stmt *statement, int column, int64_t none)
{
	return column < 0 || sqlite3_column_type(statement, column) == SQLITE_NULL
		       ? none
		       : sqlite3_column_int64(statement, column);
}

uint64_t ws_nsys_time(struct ws_nsys *nsys, sqlite3_stmt *statement, int column)
{
	int64_t t;

	if (column < 0 || sqlite3_column_type(statement, column) == SQLITE_NULL)
		return WS_NO_TIME;
	t = sqlite3_column_int64(statement, column);
	if (t < 0 && (uint64_t) - (t + 1) >= nsys->shift) {
		nsys->bad_time++;
		return 0;
	}
	return nsys->shift + (uint64_t)t;
}

uint32_t ws_nsys_text(struct ws_nsys *nsys, sqlite3_stmt *statement, int column)
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

		return ws_writer_string(nsys->into->writer, ws_text_or(bytes, ""),
					(size_t)sqlite3_column_bytes(statement, column));
	}
	}
}

/* ---- who ---- */

static uint32_t vm_of(const struct ws_nsys *nsys, uint64_t global)
{
	uint32_t vm = (uint32_t)(global >> 48);

	return nsys->into->file_count > 1 ? (nsys->into->file & 0xff) << 8 | (vm & 0xff) : vm;
}

uint32_t ws_nsys_process(struct ws_nsys *nsys, int64_t global, uint64_t at)
{
	uint64_t key = (uint64_t)global & ~UINT64_C(0xffffff);
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&nsys->processes, key, &found);

	if (!found) {
		id = ws_into_process(nsys->into, key, (uint32_t)(key >> 24 & 0xffffff));
		ws_into_process_of(nsys->into, id)->vm = vm_of(nsys, key);
		ws_map_set(&nsys->processes, key, id);
		return id;
	}
	while (at != WS_NO_TIME && id < nsys->process_before_cap && nsys->process_before[id] &&
	       ws_into_process_of(nsys->into, id)->start > at)
		id = nsys->process_before[id];
	return id;
}

uint32_t ws_nsys_thread(struct ws_nsys *nsys, int64_t global, uint64_t at)
{
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&nsys->threads, (uint64_t)global, &found);

	if (!found) {
		id = ws_into_thread(nsys->into, ws_nsys_process(nsys, global, at),
				    (uint64_t)global & 0xffffff, at);
		ws_map_set(&nsys->threads, (uint64_t)global, id);
		return id;
	}
	while (at != WS_NO_TIME && id < nsys->thread_before_cap && nsys->thread_before[id] &&
	       ws_into_thread_of(nsys->into, id)->start > at)
		id = nsys->thread_before[id];
	if (!nsys->own && at < ws_into_thread_of(nsys->into, id)->start)
		ws_into_thread_of(nsys->into, id)->start = at;
	return id;
}

/* ---- a table as tables.def has it ---- */

struct plan {
	enum ws_table table;
	int8_t from[WS_MAX_COLUMNS]; /* result column, or -1 */
	int start, end, row_time;
};

static uint64_t null_of(const struct ws_column_desc *desc)
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

static uint64_t value_of(struct ws_nsys *nsys, sqlite3_stmt *statement,
			 const struct ws_column_desc *desc, int column, uint64_t at)
{
	int64_t i;
	double r;
	uint64_t bits;

	if (column < 0 || sqlite3_column_type(statement, column) == SQLITE_NULL)
		return null_of(desc);
	switch (desc->type) {
	case WS_T_TIME:
	case WS_T_NTIME:
		return ws_nsys_time(nsys, statement, column);
	case WS_T_STR:
		return ws_nsys_text(nsys, statement, column);
	case WS_T_THREAD:
	case WS_T_NTHREAD:
		return ws_nsys_thread(nsys, sqlite3_column_int64(statement, column), at);
	case WS_T_PROCESS: /* a bare pid is for the table's own code to understand */
		return sqlite3_column_int64(statement, column) >> 24
			       ? ws_nsys_process(nsys, sqlite3_column_int64(statement, column), at)
			       : 0;
	case WS_T_F64:
		r = sqlite3_column_double(statement, column);
		memcpy(&bits, &r, 8);
		return bits;
	case WS_T_NU32:
		i = sqlite3_column_int64(statement, column);
		return i < 0 || i > UINT32_MAX ? WS_NO_U32 : (uint64_t)i;
	default:
		return (uint64_t)sqlite3_column_int64(statement, column);
	}
}

static void plan_columns(struct plan *plan, sqlite3_stmt *statement, enum ws_table table)
{
	const struct ws_table_desc *desc = &ws_tables[table];

	plan->table = table;
	plan->start = ws_table_start(table);
	plan->end = ws_table_end(table);
	for (uint32_t c = 0; c < desc->column_count; c++) {
		const struct ws_column_desc *column = &desc->columns[c];
		bool bare =
			column->type == WS_T_PROCESS &&
			!strcmp(column->sqlite, "processId"); /* a pid: for the caller to read */

		plan->from[c] = (int8_t)(*column->sqlite && !bare
						 ? ws_nsys_column(statement, column->sqlite)
						 : -1);
	}
}

static void read_row(struct ws_nsys *nsys, sqlite3_stmt *statement, const struct plan *plan,
		     const struct ws_map *chains, void *row)
{
	const struct ws_table_desc *desc = &ws_tables[plan->table];
	uint64_t at = plan->start >= 0 ? value_of(nsys, statement, &desc->columns[plan->start],
						  plan->from[plan->start], 0)
				       : WS_NO_TIME,
		 end;

	if (plan->start >= 0 && plan->from[plan->start] >= 0)
		ws_into_time(nsys->into, at);
	for (uint32_t c = 0; c < desc->column_count; c++) {
		uint64_t v = (int)c == plan->start ? at
						   : value_of(nsys, statement, &desc->columns[c],
							      plan->from[c], at);

		if (chains && !strcmp(desc->columns[c].name, "callchain") && v != WS_NO_U32) {
			v = ws_map_get(chains, v, NULL);
			v = v ? v : WS_NO_U32;
		}
		ws_row_set(plan->table, row, c, v);
	}
	if (plan->end < 0)
		return;
	end = ws_row_get(plan->table, row, (uint32_t)plan->end);
	if (end != WS_NO_TIME)
		ws_into_time(nsys->into, end);
}

/* Columns that every version of Nsight Systems gives a table. */
static const struct {
	const char *table, *columns;
} known[] = {
#define WS_KNOWN(table, columns) {table, columns},
#include "schema/known.def"
#undef WS_KNOWN
};

static void add_name(struct ws_text *list, const char *name, size_t n)
{
	ws_text_puts(list, list->len ? ", " : "");
	ws_text_add(list, name, ws_min(n, 100));
}

void ws_nsys_say_missing(struct ws_nsys *nsys, sqlite3_stmt *statement, const char *table)
{
	struct ws_text missing = {0};
	const char *columns = "";

	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (!strcmp(known[i].table, table))
			columns = known[i].columns;
	while (*columns) {
		size_t len = strcspn(columns, " "), end = strcspn(columns, " :!*");
		char *name = ws_strndup(columns, end);

		if (memchr(columns, '!', len) && ws_nsys_column(statement, name) < 0)
			add_name(&missing, name, end);
		free(name);
		columns += len + (columns[len] == ' ');
	}
	if (missing.len)
		ws_into_note(nsys->into, "%s has no column %s.", table, missing.text);
	ws_text_free(&missing);
}

/* Columns of the file that no column here takes; `unread` gets those that hold something. */
struct unread {
	int column[WS_MAX_COLUMNS];
	int count;
	uint64_t filled;
};

static void find_unread(struct unread *unread, sqlite3_stmt *statement, const struct plan *plan)
{
	for (int c = 0; c < sqlite3_column_count(statement) && unread->count < WS_MAX_COLUMNS;
	     c++) {
		bool taken = false;

		for (uint32_t i = 0; i < ws_tables[plan->table].column_count; i++)
			taken |= plan->from[i] == c;
		if (!taken)
			unread->column[unread->count++] = c;
	}
}

static bool holds_something(sqlite3_stmt *statement, int column)
{
	int type = sqlite3_column_type(statement, column), n;

	if (type != SQLITE_TEXT)
		return type != SQLITE_NULL;
	n = sqlite3_column_bytes(statement, column);
	return n > 2 || (n && memcmp(sqlite3_column_text(statement, column), "[]", (size_t)n));
}

static void say_unread(struct ws_nsys *nsys, sqlite3_stmt *statement, const struct unread *unread,
		       const char *table)
{
	struct ws_text names = {0};

	for (int i = 0; i < unread->count; i++)
		if (unread->filled >> i & 1)
			add_name(&names, sqlite3_column_name(statement, unread->column[i]),
				 strlen(sqlite3_column_name(statement, unread->column[i])));
	if (names.len)
		ws_into_note(nsys->into,
			     "%s: what stands in %s has no place here and was left out.", table,
			     names.text);
	ws_text_free(&names);
}

/* The process of all of CUDA's calls; 0 when there are several, or none. */
static uint32_t only_process(struct ws_nsys *nsys)
{
	static const char table[] = "CUPTI_ACTIVITY_KIND_RUNTIME";
	sqlite3_stmt *statement =
		exists(nsys, table) ? ws_nsys_select(nsys, "SELECT * FROM %s", table) : NULL;
	int thread = ws_nsys_column(statement, "globalTid");
	uint32_t process = 0;

	while (thread >= 0 && ws_nsys_step(nsys, statement, table)) {
		uint32_t other =
			ws_nsys_process(nsys, sqlite3_column_int64(statement, thread), WS_NO_TIME);

		if (process && other != process) {
			process = 0;
			break;
		}
		process = other;
	}
	sqlite3_finalize(statement);
	nsys->counted = NULL; /* the table is read from its start again */
	return process;
}

/* What rows are joined by is said where it is missing. Work that does not say whose it is can only
 * be that of the one process. */
static uint32_t say_unjoined(struct ws_nsys *nsys, const struct plan *plan, const char *table)
{
	static const char *const joining[] = {"globalPid", "globalTid", "correlationId"};
	const struct ws_table_desc *desc = &ws_tables[plan->table];
	uint32_t process = 0;

	for (uint32_t c = 0; c < desc->column_count; c++)
		for (size_t i = 0; i < WS_COUNT(joining); i++) {
			if (plan->from[c] >= 0 || strcmp(desc->columns[c].sqlite, joining[i]))
				continue;
			if (!i)
				process = only_process(nsys);
			ws_into_note(nsys->into,
				     process ? "%s has no column %s: its rows were taken to be of "
					       "the only process with CUDA calls."
					     : "%s has no column %s: its rows cannot be joined to "
					       "others by it.",
				     table, joining[i]);
		}
	return process;
}

void ws_nsys_generic(struct ws_nsys *nsys, enum ws_table table, const char *name,
		     const struct ws_map *chains,
		     void (*fix)(struct ws_nsys *nsys, sqlite3_stmt *statement, void *row))
{
	const struct ws_table_desc *desc = &ws_tables[table];
	char row[sizeof(uint64_t) * WS_MAX_COLUMNS];
	struct unread unread = {.count = 0};
	uint32_t process = 0;
	struct plan plan;
	sqlite3_stmt *statement;

	name = name ? name : desc->sqlite;
	if (!*name || !ws_nsys_has(nsys, name))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM \"%w\"", name);
	if (statement)
		plan_columns(&plan, statement, table);
	if (statement && !nsys->own) {
		ws_nsys_say_missing(nsys, statement, name);
		process = say_unjoined(nsys, &plan, name);
	}
	if (statement && plan.start >= 0 && plan.end >= 0 && plan.from[plan.start] < 0) {
		ws_into_note(nsys->into, "%s was left out: nothing in it has a time.", name);
		sqlite3_finalize(statement);
		ws_nsys_done(nsys, name);
		return;
	}
	if (statement && !nsys->own && !fix)
		find_unread(&unread, statement, &plan);
	while (ws_nsys_step(nsys, statement, name)) {
		for (int i = 0; i < unread.count; i++)
			if (!(unread.filled >> i & 1) &&
			    holds_something(statement, unread.column[i]))
				unread.filled |= UINT64_C(1) << i;
		memset(row, 0, desc->row_size);
		read_row(nsys, statement, &plan, chains, row);
		for (uint32_t c = 0; process && c < desc->column_count; c++)
			if (desc->columns[c].type == WS_T_PROCESS)
				ws_row_set(table, row, c, process);
		if (fix)
			fix(nsys, statement, row);
		memcpy(ws_into_row(nsys->into, table), row, desc->row_size);
	}
	if (statement)
		say_unread(nsys, statement, &unread, name);
	sqlite3_finalize(statement);
	ws_nsys_done(nsys, name);
}

/* ---- the file ---- */

/* SQLite asks now and then, while it looks for the next row. */
static int still_patient(void *ctx)
{
	struct ws_nsys *nsys = ctx;

	return nsys->patience-- <= 0;
}

static int open_database(struct ws_nsys *nsys, const char *path)
{
	char *wal = ws_format("%s-wal", path), *uri;
	struct ws_text name = {0};
	struct stat st;
	int rc;

	for (const char *at = path; *at; at++) /* what a URI gives a meaning */
		if (strchr("%?#", *at))
			ws_text_printf(&name, "%%%02x", (unsigned char)*at);
		else
			ws_text_add(&name, at, 1);
	/* Nothing may be made beside the file, as SQLite would for locks; a log beside it must be
	 * read, though. */
	uri = sqlite3_mprintf("file:%s?mode=ro%s", name.text,
			      access(wal, F_OK) ? "&immutable=1" : "");
	nsys->most_rows =
		stat(path, &st) ? 0 : (uint64_t)st.st_size; /* a row takes a byte at least */
	nsys->most_rows += stat(wal, &st) ? 0 : (uint64_t)st.st_size;
	free(wal);
	ws_text_free(&name);
	rc = sqlite3_open_v2(uri, &nsys->db,
			     SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
	sqlite3_free(uri);
	if (rc != SQLITE_OK)
		return ws_into_stop(nsys->into, "cannot open %s: %s", path,
				    sqlite3_errmsg(nsys->db));
	sqlite3_db_config(nsys->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(nsys->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_limit(nsys->db, SQLITE_LIMIT_LENGTH, MOST_VALUE);
	sqlite3_progress_handler(nsys->db, PER_STEP, still_patient, nsys);
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

	if (!ws_nsys_has(nsys, "StringIds"))
		return;
	statement = ws_nsys_select(nsys, "SELECT id, value FROM StringIds ORDER BY id");
	while (ws_nsys_step(nsys, statement, "StringIds")) {
		const void *text = sqlite3_column_blob(statement, 1);
		int64_t theirs = sqlite3_column_int64(statement, 0);

		/* Exporting our exports again gives the same rows, to the numbers of texts. */
		if (nsys->own && theirs > 0 && theirs < MOST_NUMBERED)
			ws_writer_string_from(nsys->into->writer, (uint32_t)theirs);
		ws_map_set(&nsys->strings, (uint64_t)theirs,
			   ws_writer_string(nsys->into->writer, ws_text_or(text, ""),
					    (size_t)sqlite3_column_bytes(statement, 1)));
	}
	sqlite3_finalize(statement);
	ws_nsys_done(nsys, "StringIds");
}

/* A value of a table with the columns name and value, as text owned by the caller; NULL when it is
 * not there. */
static char *fact(struct ws_nsys *nsys, const char *table, const char *name)
{
	sqlite3_stmt *statement;
	char *value = NULL;

	if (!exists(nsys, table))
		return NULL;
	statement = ws_nsys_select(nsys, "SELECT value FROM \"%w\" WHERE name=%Q", table, name);
	if (statement && sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0))
		value = ws_strdup((const char *)sqlite3_column_text(statement, 0));
	sqlite3_finalize(statement);
	return value;
}

/* Is it an export of a profile at all, and whose? */
static int recognise(struct ws_nsys *nsys)
{
	char *product = fact(nsys, "META_DATA_EXPORT", "EXPORT_PRODUCT_NAME");
	char *version = fact(nsys, "META_DATA_EXPORT", "EXPORT_SCHEMA_VERSION");

	nsys->own = product && !strcmp(product, "warpsight");
	if (version && atoi(version) > 3)
		ws_into_note(nsys->into,
			     "Its schema version %.40s is newer than the versions 2 and 3 that are "
			     "known; what fits was read.",
			     version);
	free(product);
	free(version);
	if (exists(nsys, "StringIds"))
		return 0;
	return ws_into_stop(nsys->into,
			    "%s is an SQLite database, but no export of Nsight Systems: it has no "
			    "table StringIds",
			    nsys->into->path);
}

/* Was the file exported with --ts-normalize? Then its collection begins, as it counts, where its
 * session does in real time. */
static bool counts_from_1970(int64_t start, int64_t epoch)
{
	const int64_t day = INT64_C(86400) * 1000000000;

	return epoch > day && start > epoch - day && start < epoch + 30 * day;
}

/* The moment of the session clock that the file counts from: told, of several files, by the real
 * time. */
static void choose_shift(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement = NULL;
	int64_t epoch = 0, system = 0, start = -1; /* start -1: not told */
	char zero[32];

	if (exists(nsys, "TARGET_INFO_SESSION_START_TIME"))
		statement = ws_nsys_select(nsys,
					   "SELECT * FROM TARGET_INFO_SESSION_START_TIME LIMIT 1");
	if (statement && sqlite3_step(statement) == SQLITE_ROW) {
		epoch = ws_nsys_int(statement, ws_nsys_column(statement, "utcEpochNs"), 0);
		system = ws_nsys_int(statement, ws_nsys_column(statement, "systemClockNs"), 0);
	}
	sqlite3_finalize(statement);
	statement = exists(nsys, "ANALYSIS_DETAILS")
			    ? ws_nsys_select(nsys, "SELECT min(startTime) FROM ANALYSIS_DETAILS")
			    : NULL;
	if (statement && sqlite3_step(statement) == SQLITE_ROW)
		start = ws_nsys_int(statement, 0, -1);
	sqlite3_finalize(statement);
	nsys->shift = SHIFT;
	if (nsys->own && system > 0)
		nsys->shift = (uint64_t)system;
	/* Newer exports count from the machine's start: then the real time is that of the
	 * collection's start. */
	if (epoch > 0 && !nsys->own) {
		int64_t at = counts_from_1970(start, epoch) ? epoch
			     : system && start == system    ? system
							    : 0;
		struct ws_row_clock *row;

		if (nsys->into->file_count > 1) {
			nsys->shift = (uint64_t)(epoch - at);
			ws_into_tell(nsys->into,
				     "Times are on the real time of the host that recorded it.");
		}
		row = ws_into_row(nsys->into, WS_TABLE_clock);
		*row = (struct ws_row_clock){.raw = nsys->shift + (uint64_t)at,
					     .realtime = (uint64_t)epoch};
	} else if (epoch > 0 && nsys->into->file_count > 1) {
		nsys->shift = counts_from_1970(start, epoch) ? 0 : (uint64_t)epoch;
		ws_into_tell(nsys->into,
			     "Times are on the real time of the host that recorded it.");
	} else if (nsys->into->file_count > 1) {
		ws_into_note(
			nsys->into,
			"It does not tell the real time: it is not aligned with the other files.");
	}
	if (!nsys->into->file && start) {
		snprintf(zero, sizeof(zero), "%" PRIu64, nsys->shift);
		ws_into_meta(nsys->into, "session.zero", zero, strlen(zero));
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
	for (size_t i = 0; i < nsys->done_count; i++)
		free(nsys->done[i]);
	free(nsys->done);
	free(nsys);
}

/* Tables of the schema that a function of their own reads, or that are made from others. */
static bool is_special(enum ws_table table)
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

int ws_sqlite_import(struct ws_into *into, const char *path)
{
	struct ws_nsys *nsys = ws_calloc(1, sizeof(*nsys));

	nsys->into = into;
	if (open_database(nsys, path) < 0 || recognise(nsys) < 0) {
		free_nsys(nsys);
		return -1;
	}
	read_strings(nsys); /* before anything takes a number */
	choose_shift(nsys);
	ws_nsys_who(nsys);
	ws_nsys_session(nsys);
	ws_nsys_events(nsys);
	ws_nsys_samples(nsys);
	ws_nsys_sched(nsys);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		if (!is_special((enum ws_table)t))
			ws_nsys_generic(nsys, (enum ws_table)t, NULL, NULL, NULL);
	ws_nsys_metrics(nsys);
	ws_nsys_rest(nsys);
	ws_into_note_n(into, nsys->bad_time,
		       "Times before what can be kept were taken as the earliest.");
	free_nsys(nsys);
	return into->full ? -1 : 0;
}
