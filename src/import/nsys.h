/*
 * nsys.h - an SQLite export of Nsight Systems, or of ours, while it is imported: what the driver
 * (nsys.c) and the tables that are no plain copies (nsys_tables.c, nsys_code.c) share.
 */
#ifndef WS_IMPORT_NSYS_H
#define WS_IMPORT_NSYS_H

#include <sqlite3.h>

#include "import/into.h"

struct ws_nsys {
	struct ws_into *into;
	sqlite3 *db;
	bool own;	/* made by our export: its WARPSIGHT_ tables are read back */
	uint64_t shift; /* session time = theirs + shift */
	uint64_t bad_time;
	uint64_t rows, most_rows; /* read of the table `counted`, and as many as there can be: a
				     view may make them up */
	const char *counted;
	int64_t patience; /* how often SQLite may still ask whether to go on looking for the row */
	struct ws_map strings; /* StringIds -> id in the report */
	/* Several images may have run in one pid, and one thread id in several: the newest, and
	 * what was before. */
	struct ws_map processes, threads; /* globalPid, globalTid -> id */
	uint32_t *process_before,
		*thread_before; /* by id: an older one with the same number, or 0 */
	size_t process_before_cap, thread_before_cap;
	char **done; /* tables that have been read */
	size_t done_count, done_cap;
	/* while a table is read */
	struct ws_map sample_chains; /* id of a sample -> stack */
	struct ws_map counters;	     /* counter -> hash of its numbers */
	struct ws_map event_calls;   /* correlation -> start of the call */
	uint32_t *cuda_processes;
	size_t cuda_process_count, cuda_process_cap;
};

/* Does the database have this table (or a view of that name), and has it not been read yet? */
bool ws_nsys_has(struct ws_nsys *nsys, const char *table);
/* Mark a table as read. */
void ws_nsys_done(struct ws_nsys *nsys, const char *table);
/* A statement; the format is that of sqlite3_mprintf. NULL when it cannot be (noted). */
sqlite3_stmt *ws_nsys_select(struct ws_nsys *nsys, const char *fmt, ...);
/* Step: true for a row; false at the end or on damage (noted). */
bool ws_nsys_step(struct ws_nsys *nsys, sqlite3_stmt *statement, const char *table);
/* Number of the result column called `name`, or -1. */
int ws_nsys_column(sqlite3_stmt *statement, const char *name);

/* Note which columns that every version of Nsight Systems gives the table are not there. */
void ws_nsys_say_missing(struct ws_nsys *nsys, sqlite3_stmt *statement, const char *table);

/* Values of a column that may be -1 (absent) or null. */
int64_t ws_nsys_int(sqlite3_stmt *statement, int column, int64_t none);
uint64_t ws_nsys_time(struct ws_nsys *nsys, sqlite3_stmt *statement,
		      int column); /* WS_NO_TIME for null */
uint32_t ws_nsys_text(struct ws_nsys *nsys, sqlite3_stmt *statement,
		      int column); /* inline text, or a number of StringIds */
uint32_t ws_nsys_process(struct ws_nsys *nsys, int64_t global,
			 uint64_t at); /* at: session time, WS_NO_TIME for any */
uint32_t ws_nsys_thread(struct ws_nsys *nsys, int64_t global, uint64_t at);

/* nsys_tables.c */
void ws_nsys_who(struct ws_nsys *nsys);	    /* processes and threads */
void ws_nsys_session(struct ws_nsys *nsys); /* clocks, collection, facts, output, diagnostics */
void ws_nsys_events(struct ws_nsys *nsys); /* NVTX, OSRT, CUDA events, devices, contexts, streams */
/* nsys_code.c */
void ws_nsys_chains(struct ws_nsys *nsys, const char *table, struct ws_map *out);
void ws_nsys_skip_made(struct ws_nsys *nsys); /* of our own exports */
void ws_nsys_samples(struct ws_nsys *nsys);
void ws_nsys_sched(struct ws_nsys *nsys);
void ws_nsys_metrics(struct ws_nsys *nsys);
/* What no table of ours takes: slices where it has a beginning and a name, else rows kept whole. */
void ws_nsys_rest(struct ws_nsys *nsys);

/* One table of the schema read from the export's table `name` (NULL: its name in tables.def),
 * column by column. */
void ws_nsys_generic(struct ws_nsys *nsys, enum ws_table table, const char *name,
		     const struct ws_map *chains,
		     void (*fix)(struct ws_nsys *nsys, sqlite3_stmt *statement, void *row));

#endif
