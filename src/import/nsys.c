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

static bool is_done(const struct ws_nsys *n, const char *table)
{
	for (size_t i = 0; i < n->done_count; i++)
		if (!sqlite3_stricmp(n->done[i], table))
			return true;
	return false;
}

void ws_nsys_done(struct ws_nsys *n, const char *table)
{
	if (is_done(n, table))
		return;
	ws_grow(n->done, n->done_cap, n->done_count + 1);
	n->done[n->done_count++] = ws_strdup(table);
}

static bool exists(struct ws_nsys *n, const char *table)
{
	sqlite3_stmt *s;
	bool found = false;

	/* Tables proper, and views: a virtual table may do anything. */
	if (sqlite3_prepare_v2(n->db,
			       "SELECT 1 FROM sqlite_master WHERE (type='table' AND rootpage>0 OR "
			       "type='view') AND name=?1 "
			       "COLLATE NOCASE",
			       -1, &s, NULL) != SQLITE_OK)
		return false;
	sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
	found = sqlite3_step(s) == SQLITE_ROW;
	sqlite3_finalize(s);
	return found;
}

bool ws_nsys_has(struct ws_nsys *n, const char *table)
{
	return !is_done(n, table) && exists(n, table);
}

sqlite3_stmt *ws_nsys_select(struct ws_nsys *n, const char *fmt, ...)
{
	sqlite3_stmt *s = NULL;
	va_list ap;
	char *sql;

	va_start(ap, fmt);
	sql = sqlite3_vmprintf(fmt, ap);
	va_end(ap);
	if (!sql || sqlite3_prepare_v2(n->db, sql, -1, &s, NULL) != SQLITE_OK)
		ws_into_note(n->o, "The database cannot be read: %s", sqlite3_errmsg(n->db));
	sqlite3_free(sql);
	return s;
}

bool ws_nsys_step(struct ws_nsys *n, sqlite3_stmt *s, const char *table)
{
	int rc;

	if (!s || n->o->full || ws_writer_error(n->o->w, NULL))
		return false;
	if (n->counted != table) {
		n->counted = table;
		n->rows = 0;
	}
	n->patience =
		256 +
		(int64_t)(n->most_rows >>
			  20); /* to go through a MiB takes less than a million instructions */
	rc = sqlite3_step(s);
	if (rc == SQLITE_ROW && n->rows++ > n->most_rows) {
		ws_into_note(n->o,
			     "%s was not read to its end: it has more rows than a file of this "
			     "size can hold.",
			     table);
		return false;
	}
	if (rc == SQLITE_ROW) {
		if (!(n->o->rows & 0xfff)) {
			ws_writer_commit(n->o->w);
			ws_into_progress(n->o, n->done_count, n->done_count + 1);
		}
		return true;
	}
	if (rc == SQLITE_INTERRUPT)
		ws_into_note(n->o, "%s was not read to its end: its rows take too long to find.",
			     table);
	else if (rc != SQLITE_DONE)
		ws_into_note(n->o, "%s was read to where it is damaged: %s", table,
			     sqlite3_errmsg(n->db));
	return false;
}

int ws_nsys_column(sqlite3_stmt *s, const char *name)
{
	for (int i = 0; s && i < sqlite3_column_count(s); i++)
		if (!strcmp(sqlite3_column_name(s, i), name))
			return i;
	return -1;
}

int64_t ws_nsys_int(sqlite3_stmt *s, int column, int64_t none)
{
	return column < 0 || sqlite3_column_type(s, column) == SQLITE_NULL
		       ? none
		       : sqlite3_column_int64(s, column);
}

uint64_t ws_nsys_time(struct ws_nsys *n, sqlite3_stmt *s, int column)
{
	int64_t t;

	if (column < 0 || sqlite3_column_type(s, column) == SQLITE_NULL)
		return WS_NO_TIME;
	t = sqlite3_column_int64(s, column);
	if (t < 0 && (uint64_t) - (t + 1) >= n->shift) {
		n->bad_time++;
		return 0;
	}
	return n->shift + (uint64_t)t;
}

uint32_t ws_nsys_text(struct ws_nsys *n, sqlite3_stmt *s, int column)
{
	if (column < 0)
		return 0;
	switch (sqlite3_column_type(s, column)) {
	case SQLITE_INTEGER:
		return (uint32_t)ws_map_get(&n->strings, (uint64_t)sqlite3_column_int64(s, column),
					    NULL);
	case SQLITE_NULL:
		return 0;
	default: {
		const void *bytes = sqlite3_column_blob(s, column);

		return ws_writer_string(n->o->w, bytes ? bytes : "",
					(size_t)sqlite3_column_bytes(s, column));
	}
	}
}

/* ---- who ---- */

static uint32_t vm_of(const struct ws_nsys *n, uint64_t global)
{
	uint32_t vm = (uint32_t)(global >> 48);

	return n->o->file_count > 1 ? (n->o->file & 0xff) << 8 | (vm & 0xff) : vm;
}

uint32_t ws_nsys_process(struct ws_nsys *n, int64_t global, uint64_t at)
{
	uint64_t key = (uint64_t)global & ~UINT64_C(0xffffff);
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&n->processes, key, &found);

	if (!found) {
		id = ws_into_process(n->o, key, (uint32_t)(key >> 24 & 0xffffff));
		ws_into_process_of(n->o, id)->vm = vm_of(n, key);
		ws_map_set(&n->processes, key, id);
		return id;
	}
	while (at != WS_NO_TIME && id < n->process_before_cap && n->process_before[id] &&
	       ws_into_process_of(n->o, id)->start > at)
		id = n->process_before[id];
	return id;
}

uint32_t ws_nsys_thread(struct ws_nsys *n, int64_t global, uint64_t at)
{
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&n->threads, (uint64_t)global, &found);

	if (!found) {
		id = ws_into_thread(n->o, ws_nsys_process(n, global, at),
				    (uint64_t)global & 0xffffff, at);
		ws_map_set(&n->threads, (uint64_t)global, id);
		return id;
	}
	while (at != WS_NO_TIME && id < n->thread_before_cap && n->thread_before[id] &&
	       ws_into_thread_of(n->o, id)->start > at)
		id = n->thread_before[id];
	if (!n->own && at < ws_into_thread_of(n->o, id)->start)
		ws_into_thread_of(n->o, id)->start = at;
	return id;
}

/* ---- a table as tables.def has it ---- */

struct plan {
	enum ws_table table;
	int8_t from[WS_MAX_COLUMNS]; /* result column, or -1 */
	int start, end, row_time;
};

static uint64_t null_of(const struct ws_column_desc *d)
{
	switch (d->type) {
	case WS_T_NTIME:
		return WS_NO_TIME;
	case WS_T_NU32:
		return WS_NO_U32;
	case WS_T_NU64:
		return WS_NO_U64;
	case WS_T_I32:
		return !strcmp(d->name, "status") ? (uint64_t)(int64_t)WS_NO_STATUS : 0;
	default:
		return 0;
	}
}

static uint64_t value_of(struct ws_nsys *n, sqlite3_stmt *s, const struct ws_column_desc *d,
			 int column, uint64_t at)
{
	int64_t i;
	double r;
	uint64_t bits;

	if (column < 0 || sqlite3_column_type(s, column) == SQLITE_NULL)
		return null_of(d);
	switch (d->type) {
	case WS_T_TIME:
	case WS_T_NTIME:
		return ws_nsys_time(n, s, column);
	case WS_T_STR:
		return ws_nsys_text(n, s, column);
	case WS_T_THREAD:
	case WS_T_NTHREAD:
		return ws_nsys_thread(n, sqlite3_column_int64(s, column), at);
	case WS_T_PROCESS: /* a bare pid is for the table's own code to understand */
		return sqlite3_column_int64(s, column) >> 24
			       ? ws_nsys_process(n, sqlite3_column_int64(s, column), at)
			       : 0;
	case WS_T_F64:
		r = sqlite3_column_double(s, column);
		memcpy(&bits, &r, 8);
		return bits;
	case WS_T_NU32:
		i = sqlite3_column_int64(s, column);
		return i < 0 || i > UINT32_MAX ? WS_NO_U32 : (uint64_t)i;
	default:
		return (uint64_t)sqlite3_column_int64(s, column);
	}
}

static void plan_columns(struct plan *p, sqlite3_stmt *s, enum ws_table t)
{
	const struct ws_table_desc *d = &ws_tables[t];

	p->table = t;
	p->start = ws_table_start(t);
	p->end = ws_table_end(t);
	for (uint32_t c = 0; c < d->column_count; c++) {
		const struct ws_column_desc *column = &d->columns[c];
		bool bare =
			column->type == WS_T_PROCESS &&
			!strcmp(column->sqlite, "processId"); /* a pid: for the caller to read */

		p->from[c] =
			(int8_t)(*column->sqlite && !bare ? ws_nsys_column(s, column->sqlite) : -1);
	}
}

static void read_row(struct ws_nsys *n, sqlite3_stmt *s, const struct plan *p,
		     const struct ws_map *chains, void *row)
{
	const struct ws_table_desc *d = &ws_tables[p->table];
	uint64_t at = p->start >= 0 ? value_of(n, s, &d->columns[p->start], p->from[p->start], 0)
				    : WS_NO_TIME,
		 end;

	if (p->start >= 0 && p->from[p->start] >= 0)
		ws_into_time(n->o, at);
	for (uint32_t c = 0; c < d->column_count; c++) {
		uint64_t v =
			(int)c == p->start ? at : value_of(n, s, &d->columns[c], p->from[c], at);

		if (chains && !strcmp(d->columns[c].name, "callchain") && v != WS_NO_U32) {
			v = ws_map_get(chains, v, NULL);
			v = v ? v : WS_NO_U32;
		}
		ws_row_set(p->table, row, c, v);
	}
	if (p->end < 0)
		return;
	end = ws_row_get(p->table, row, (uint32_t)p->end);
	if (end != WS_NO_TIME)
		ws_into_time(n->o, end);
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
	ws_text_add(list, name, n < 100 ? n : 100);
}

void ws_nsys_say_missing(struct ws_nsys *n, sqlite3_stmt *s, const char *table)
{
	struct ws_text missing = {0};
	const char *columns = "";

	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (!strcmp(known[i].table, table))
			columns = known[i].columns;
	while (*columns) {
		size_t len = strcspn(columns, " "), end = strcspn(columns, " :!*");
		char *name = ws_strndup(columns, end);

		if (memchr(columns, '!', len) && ws_nsys_column(s, name) < 0)
			add_name(&missing, name, end);
		free(name);
		columns += len + (columns[len] == ' ');
	}
	if (missing.len)
		ws_into_note(n->o, "%s has no column %s.", table, missing.s);
	ws_text_free(&missing);
}

/* Columns of the file that no column here takes; `unread` gets those that hold something. */
struct unread {
	int column[WS_MAX_COLUMNS];
	int count;
	uint64_t filled;
};

static void find_unread(struct unread *u, sqlite3_stmt *s, const struct plan *p)
{
	for (int c = 0; c < sqlite3_column_count(s) && u->count < WS_MAX_COLUMNS; c++) {
		bool taken = false;

		for (uint32_t i = 0; i < ws_tables[p->table].column_count; i++)
			taken |= p->from[i] == c;
		if (!taken)
			u->column[u->count++] = c;
	}
}

static bool holds_something(sqlite3_stmt *s, int column)
{
	int type = sqlite3_column_type(s, column), n;

	if (type != SQLITE_TEXT)
		return type != SQLITE_NULL;
	n = sqlite3_column_bytes(s, column);
	return n > 2 || (n && memcmp(sqlite3_column_text(s, column), "[]", (size_t)n));
}

static void say_unread(struct ws_nsys *n, sqlite3_stmt *s, const struct unread *u,
		       const char *table)
{
	struct ws_text names = {0};

	for (int i = 0; i < u->count; i++)
		if (u->filled >> i & 1)
			add_name(&names, sqlite3_column_name(s, u->column[i]),
				 strlen(sqlite3_column_name(s, u->column[i])));
	if (names.len)
		ws_into_note(n->o, "%s: what stands in %s has no place here and was left out.",
			     table, names.s);
	ws_text_free(&names);
}

/* The process of all of CUDA's calls; 0 when there are several, or none. */
static uint32_t only_process(struct ws_nsys *n)
{
	static const char table[] = "CUPTI_ACTIVITY_KIND_RUNTIME";
	sqlite3_stmt *s = exists(n, table) ? ws_nsys_select(n, "SELECT * FROM %s", table) : NULL;
	int thread = ws_nsys_column(s, "globalTid");
	uint32_t process = 0;

	while (thread >= 0 && ws_nsys_step(n, s, table)) {
		uint32_t other = ws_nsys_process(n, sqlite3_column_int64(s, thread), WS_NO_TIME);

		if (process && other != process) {
			process = 0;
			break;
		}
		process = other;
	}
	sqlite3_finalize(s);
	n->counted = NULL; /* the table is read from its start again */
	return process;
}

/* What rows are joined by is said where it is missing. Work that does not say whose it is can only
 * be that of the one process. */
static uint32_t say_unjoined(struct ws_nsys *n, const struct plan *p, const char *table)
{
	static const char *const joining[] = {"globalPid", "globalTid", "correlationId"};
	const struct ws_table_desc *d = &ws_tables[p->table];
	uint32_t process = 0;

	for (uint32_t c = 0; c < d->column_count; c++)
		for (size_t i = 0; i < WS_COUNT(joining); i++) {
			if (p->from[c] >= 0 || strcmp(d->columns[c].sqlite, joining[i]))
				continue;
			if (!i)
				process = only_process(n);
			ws_into_note(n->o,
				     process ? "%s has no column %s: its rows were taken to be of "
					       "the only process with CUDA calls."
					     : "%s has no column %s: its rows cannot be joined to "
					       "others by it.",
				     table, joining[i]);
		}
	return process;
}

void ws_nsys_generic(struct ws_nsys *n, enum ws_table t, const char *name,
		     const struct ws_map *chains,
		     void (*fix)(struct ws_nsys *n, sqlite3_stmt *s, void *row))
{
	const struct ws_table_desc *d = &ws_tables[t];
	char row[sizeof(uint64_t) * WS_MAX_COLUMNS];
	struct unread u = {.count = 0};
	uint32_t process = 0;
	struct plan p;
	sqlite3_stmt *s;

	name = name ? name : d->sqlite;
	if (!*name || !ws_nsys_has(n, name))
		return;
	s = ws_nsys_select(n, "SELECT * FROM \"%w\"", name);
	if (s)
		plan_columns(&p, s, t);
	if (s && !n->own) {
		ws_nsys_say_missing(n, s, name);
		process = say_unjoined(n, &p, name);
	}
	if (s && p.start >= 0 && p.end >= 0 && p.from[p.start] < 0) {
		ws_into_note(n->o, "%s was left out: nothing in it has a time.", name);
		sqlite3_finalize(s);
		ws_nsys_done(n, name);
		return;
	}
	if (s && !n->own && !fix)
		find_unread(&u, s, &p);
	while (ws_nsys_step(n, s, name)) {
		for (int i = 0; i < u.count; i++)
			if (!(u.filled >> i & 1) && holds_something(s, u.column[i]))
				u.filled |= UINT64_C(1) << i;
		memset(row, 0, d->row_size);
		read_row(n, s, &p, chains, row);
		for (uint32_t c = 0; process && c < d->column_count; c++)
			if (d->columns[c].type == WS_T_PROCESS)
				ws_row_set(t, row, c, process);
		if (fix)
			fix(n, s, row);
		memcpy(ws_into_row(n->o, t), row, d->row_size);
	}
	if (s)
		say_unread(n, s, &u, name);
	sqlite3_finalize(s);
	ws_nsys_done(n, name);
}

/* ---- the file ---- */

/* SQLite asks now and then, while it looks for the next row. */
static int still_patient(void *ctx)
{
	struct ws_nsys *n = ctx;

	return n->patience-- <= 0;
}

static int open_database(struct ws_nsys *n, const char *path)
{
	char *wal = ws_format("%s-wal", path), *uri;
	struct ws_text name = {0};
	struct stat st;
	int rc;

	for (const char *p = path; *p; p++) /* what a URI gives a meaning */
		if (strchr("%?#", *p))
			ws_text_printf(&name, "%%%02x", (unsigned char)*p);
		else
			ws_text_add(&name, p, 1);
	/* Nothing may be made beside the file, as SQLite would for locks; a log beside it must be
	 * read, though. */
	uri = sqlite3_mprintf("file:%s?mode=ro%s", name.s, access(wal, F_OK) ? "&immutable=1" : "");
	n->most_rows = stat(path, &st) ? 0 : (uint64_t)st.st_size; /* a row takes a byte at least */
	n->most_rows += stat(wal, &st) ? 0 : (uint64_t)st.st_size;
	free(wal);
	ws_text_free(&name);
	rc = sqlite3_open_v2(uri, &n->db,
			     SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
	sqlite3_free(uri);
	if (rc != SQLITE_OK)
		return ws_into_stop(n->o, "cannot open %s: %s", path, sqlite3_errmsg(n->db));
	sqlite3_db_config(n->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(n->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_limit(n->db, SQLITE_LIMIT_LENGTH, MOST_VALUE);
	sqlite3_progress_handler(n->db, PER_STEP, still_patient, n);
	n->patience = 256;
	sqlite3_exec(
		n->db,
		"PRAGMA cell_size_check=ON; PRAGMA cache_size=-65536; PRAGMA temp_store=MEMORY",
		NULL, NULL, NULL);
	return 0;
}

static void read_strings(struct ws_nsys *n)
{
	sqlite3_stmt *s;

	if (!ws_nsys_has(n, "StringIds"))
		return;
	s = ws_nsys_select(n, "SELECT id, value FROM StringIds ORDER BY id");
	while (ws_nsys_step(n, s, "StringIds")) {
		const void *text = sqlite3_column_blob(s, 1);
		int64_t theirs = sqlite3_column_int64(s, 0);

		/* Exporting our exports again gives the same rows, to the numbers of texts. */
		if (n->own && theirs > 0 && theirs < MOST_NUMBERED)
			ws_writer_string_from(n->o->w, (uint32_t)theirs);
		ws_map_set(&n->strings, (uint64_t)theirs,
			   ws_writer_string(n->o->w, text ? text : "",
					    (size_t)sqlite3_column_bytes(s, 1)));
	}
	sqlite3_finalize(s);
	ws_nsys_done(n, "StringIds");
}

/* A value of a table with the columns name and value, as text owned by the caller; NULL when it is
 * not there. */
static char *fact(struct ws_nsys *n, const char *table, const char *name)
{
	sqlite3_stmt *s;
	char *value = NULL;

	if (!exists(n, table))
		return NULL;
	s = ws_nsys_select(n, "SELECT value FROM \"%w\" WHERE name=%Q", table, name);
	if (s && sqlite3_step(s) == SQLITE_ROW && sqlite3_column_text(s, 0))
		value = ws_strdup((const char *)sqlite3_column_text(s, 0));
	sqlite3_finalize(s);
	return value;
}

/* Is it an export of a profile at all, and whose? */
static int recognise(struct ws_nsys *n)
{
	char *product = fact(n, "META_DATA_EXPORT", "EXPORT_PRODUCT_NAME");
	char *version = fact(n, "META_DATA_EXPORT", "EXPORT_SCHEMA_VERSION");

	n->own = product && !strcmp(product, "warpsight");
	if (version && atoi(version) > 3)
		ws_into_note(n->o,
			     "Its schema version %.40s is newer than the versions 2 and 3 that are "
			     "known; what fits was read.",
			     version);
	free(product);
	free(version);
	if (exists(n, "StringIds"))
		return 0;
	return ws_into_stop(n->o,
			    "%s is an SQLite database, but no export of Nsight Systems: it has no "
			    "table StringIds",
			    n->o->path);
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
static void choose_shift(struct ws_nsys *n)
{
	sqlite3_stmt *s = NULL;
	int64_t epoch = 0, system = 0, start = -1; /* start -1: not told */
	char zero[32];

	if (exists(n, "TARGET_INFO_SESSION_START_TIME"))
		s = ws_nsys_select(n, "SELECT * FROM TARGET_INFO_SESSION_START_TIME LIMIT 1");
	if (s && sqlite3_step(s) == SQLITE_ROW) {
		epoch = ws_nsys_int(s, ws_nsys_column(s, "utcEpochNs"), 0);
		system = ws_nsys_int(s, ws_nsys_column(s, "systemClockNs"), 0);
	}
	sqlite3_finalize(s);
	s = exists(n, "ANALYSIS_DETAILS")
		    ? ws_nsys_select(n, "SELECT min(startTime) FROM ANALYSIS_DETAILS")
		    : NULL;
	if (s && sqlite3_step(s) == SQLITE_ROW)
		start = ws_nsys_int(s, 0, -1);
	sqlite3_finalize(s);
	n->shift = SHIFT;
	if (n->own && system > 0)
		n->shift = (uint64_t)system;
	/* Newer exports count from the machine's start: then the real time is that of the
	 * collection's start. */
	if (epoch > 0 && !n->own) {
		int64_t at = counts_from_1970(start, epoch) ? epoch
			     : system && start == system    ? system
							    : 0;
		struct ws_row_clock *row;

		if (n->o->file_count > 1) {
			n->shift = (uint64_t)(epoch - at);
			ws_into_tell(n->o,
				     "Times are on the real time of the host that recorded it.");
		}
		row = ws_into_row(n->o, WS_TABLE_clock);
		*row = (struct ws_row_clock){.raw = n->shift + (uint64_t)at,
					     .realtime = (uint64_t)epoch};
	} else if (epoch > 0 && n->o->file_count > 1) {
		n->shift = counts_from_1970(start, epoch) ? 0 : (uint64_t)epoch;
		ws_into_tell(n->o, "Times are on the real time of the host that recorded it.");
	} else if (n->o->file_count > 1) {
		ws_into_note(
			n->o,
			"It does not tell the real time: it is not aligned with the other files.");
	}
	if (!n->o->file && start) {
		snprintf(zero, sizeof(zero), "%" PRIu64, n->shift);
		ws_into_meta(n->o, "session.zero", zero, strlen(zero));
	}
}

static void free_nsys(struct ws_nsys *n)
{
	sqlite3_close(n->db);
	ws_map_free(&n->strings);
	ws_map_free(&n->counters);
	ws_map_free(&n->processes);
	ws_map_free(&n->threads);
	free(n->process_before);
	free(n->thread_before);
	for (size_t i = 0; i < n->done_count; i++)
		free(n->done[i]);
	free(n->done);
	free(n);
}

/* Tables of the schema that a function of their own reads, or that are made from others. */
static bool is_special(enum ws_table t)
{
	switch (t) {
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

int ws_sqlite_import(struct ws_into *o, const char *path)
{
	struct ws_nsys *n = ws_calloc(1, sizeof(*n));

	n->o = o;
	if (open_database(n, path) < 0 || recognise(n) < 0) {
		free_nsys(n);
		return -1;
	}
	read_strings(n); /* before anything takes a number */
	choose_shift(n);
	ws_nsys_who(n);
	ws_nsys_session(n);
	ws_nsys_events(n);
	ws_nsys_samples(n);
	ws_nsys_sched(n);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		if (!is_special((enum ws_table)t))
			ws_nsys_generic(n, (enum ws_table)t, NULL, NULL, NULL);
	ws_nsys_metrics(n);
	ws_nsys_rest(n);
	ws_into_note_n(o, n->bad_time, "Times before what can be kept were taken as the earliest.");
	free_nsys(n);
	return o->full ? -1 : 0;
}
