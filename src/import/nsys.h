/*
 * nsys.h - an SQLite export of Nsight Systems, or one of our own, while it is imported: what the
 * driver (nsys.c) and the readers of tables that are not plain copies (nsys_tables.c, nsys_code.c)
 * share.
 */
#ifndef WS_IMPORT_NSYS_H
#define WS_IMPORT_NSYS_H

#include <sqlite3.h>

#include "import/importer.h"

struct ws_nsys {
	struct ws_importer *importer;
	sqlite3 *db;
	bool is_own_export; /* one of our exports: its WARPSIGHT_ tables are read back */
	uint64_t shift;	    /* session time = the file's time + shift, ns */
	uint64_t bad_time;  /* times that were too early */
	/* Rows read of the table `counted`, and the most that it can have: a view may make up
	 * any number. */
	uint64_t rows, row_limit;
	const char *counted_table;
	const sqlite3_stmt *timed_statement; /* the statement that time_columns belong to */
	int time_columns[3];
	int64_t patience; /* how often SQLite may still ask whether to go on before the next row */
	struct ws_map strings; /* StringIds -> id in the report */
	/* A pid may have run several images, so several threads may have had one tid: these are the
	 * newest, and the ones before them. */
	struct ws_map processes, threads; /* globalPid, globalTid -> id */
	uint32_t *process_before,
		*thread_before; /* by id: the one before with the same number, or 0 */
	size_t process_before_cap, thread_before_cap;
	char **read_tables; /* tables that have been read */
	size_t read_table_count, read_table_capacity;
	/* Used while a table is read. */
	struct ws_map sample_chains; /* id of a sample -> stack */
	struct ws_map counters;	     /* counter -> hash of its numbers */
	struct ws_map event_calls;   /* correlation -> start of the call */
	uint32_t *cuda_processes;
	size_t cuda_process_count, cuda_process_cap;
};

/* Whether the database has this table, or a view of that name, that has not been read yet. */
bool ws_nsys_has_unread(struct ws_nsys *nsys, const char *table);
/* Mark a table as read. */
void ws_nsys_mark_done(struct ws_nsys *nsys, const char *table);
/* Prepare a statement; the format is that of sqlite3_mprintf. The caller finalises it. NULL when it
 * cannot be prepared (noted). */
sqlite3_stmt *ws_nsys_select(struct ws_nsys *nsys, const char *fmt, ...);
/* Step to the next row; false at the end, or where the table is damaged (noted). Rows whose times
 * are no numbers are passed over (noted). */
bool ws_nsys_step_row(struct ws_nsys *nsys, sqlite3_stmt *statement, const char *table);
/* Number of the result column called `name`; -1 when there is none. */
int ws_nsys_find_column(sqlite3_stmt *statement, const char *name);

/* Note which columns are missing that every version of Nsight Systems gives the table. */
void ws_nsys_note_missing_columns(struct ws_nsys *nsys, sqlite3_stmt *statement, const char *table);

/* Whether there is a value: false where the column is -1 (absent) or the value is null. */
bool ws_nsys_has_value(sqlite3_stmt *statement, int column);
/* An integer; `none` when there is none. */
int64_t ws_nsys_get_int(sqlite3_stmt *statement, int column, int64_t none);
/* A time on the session clock, ns; WS_NO_TIME when there is none. */
uint64_t ws_nsys_get_time(struct ws_nsys *nsys, sqlite3_stmt *statement, int column);
/* A string of the report, from a text or a number of StringIds; 0 when there is none. */
uint32_t ws_nsys_get_text(struct ws_nsys *nsys, sqlite3_stmt *statement, int column);
/* The virtual machine in a globalPid or globalTid; with several files, it also encodes the file. */
uint32_t ws_nsys_get_vm(const struct ws_nsys *nsys, uint64_t global);
/* id of the process or thread of a globalPid or globalTid at a session time; WS_NO_TIME for any
 * time. */
uint32_t ws_nsys_find_process(struct ws_nsys *nsys, int64_t global, uint64_t at);
uint32_t ws_nsys_find_thread(struct ws_nsys *nsys, int64_t global, uint64_t at);

/* nsys_tables.c */
void ws_nsys_read_processes(struct ws_nsys *nsys); /* processes and threads */
void ws_nsys_read_session(
	struct ws_nsys *nsys); /* clocks, collection, facts, output, diagnostics */
void ws_nsys_read_events(
	struct ws_nsys *nsys); /* NVTX, OSRT, CUDA events, devices, contexts, streams */
/* nsys_nccl.c: collects what kernel names say about collectives. Call it before the kernels are
 * read. */
void ws_nsys_read_collectives(struct ws_nsys *nsys);
/* nsys_code.c */
/* A table of call chains, into a map from a chain's id to its stack. */
void ws_nsys_read_chains(struct ws_nsys *nsys, const char *table, struct ws_map *out);
void ws_nsys_skip_derived(struct ws_nsys *nsys); /* derived tables of our own exports */
void ws_nsys_read_samples(struct ws_nsys *nsys);
void ws_nsys_read_sched(struct ws_nsys *nsys);
void ws_nsys_read_metrics(struct ws_nsys *nsys);
/* Tables that have no counterpart here: spans of threads become slices, other rows are kept whole.
 */
void ws_nsys_read_rest(struct ws_nsys *nsys);

/* Read a table of the schema, column by column, from the export's table `name` (NULL: its name in
 * tables.def). `chains` (may be NULL) maps its chain ids to stacks; `fix` (may be NULL) completes
 * each row. */
void ws_nsys_read_table(struct ws_nsys *nsys, enum ws_table table, const char *name,
			const struct ws_map *chains,
			void (*fix)(struct ws_nsys *nsys, sqlite3_stmt *statement, void *row));

#endif
