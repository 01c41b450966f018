/*
 * query.h - how statistics, exports and the viewer read a report: scans over columns, on all cores.
 *
 * A scan names a table and the columns it needs; blocks outside the time window are not even
 * decoded. Batches arrive as arrays of uint64_t, one for each column (signed values sign-extended,
 * F64 as bits).
 */
#ifndef WS_QUERY_H
#define WS_QUERY_H

#include "store/store.h"

#define WS_COLUMN_BIT(table, column) (UINT64_C(1) << ws_##table##_##column)

struct ws_batch {
	size_t rows;
	const uint64_t *col[WS_MAX_COLUMNS]; /* NULL for columns not asked for */
	uint32_t worker;		     /* 0 .. workers-1: index for per-worker state */
	size_t block;
};

struct ws_scan {
	enum ws_table table;
	uint64_t columns;	     /* WS_COLUMN_BIT(...) | ... */
	uint64_t time_min, time_max; /* rows whose span touches this window (session clock); 0 and
					UINT64_MAX for all. Blocks outside are skipped; rows are
					filtered when the window is set */
	uint32_t workers;	     /* the most threads to use; 0 for one per core */
	const uint8_t *skip; /* by block: non-zero for blocks to skip, which give no batch; NULL for
				none */
	bool empty; /* skipped and damaged blocks give an empty batch too: for callers that count
		       blocks */
};

/* How many workers a scan would use, for sizing per-worker state. */
uint32_t ws_count_scan_workers(const struct ws_scan *scan);

/*
 * Call `fn` for each batch, from several threads, in no given order; a non-zero return stops the
 * scan. Damaged blocks are skipped and counted in *damaged (may be NULL). Returns 0, or the first
 * non-zero value of fn.
 */
int ws_run_scan(const struct ws_report *report, const struct ws_scan *scan,
		int (*fn)(void *ctx, const struct ws_batch *batch), void *ctx, uint64_t *damaged);

/*
 * The rows of a scan, all in memory, sorted by (track, start, longer first), as nesting requires.
 * Columns not asked for are NULL. Free with ws_rows_free.
 */
struct ws_rows {
	size_t rows;
	uint64_t *col[WS_MAX_COLUMNS];
	uint64_t damaged;
};
int ws_rows_load(const struct ws_report *report, const struct ws_scan *scan, struct ws_rows *out,
		 struct ws_err *err);
/* The same, with only the rows of tracks for which `tracks`, an array of `count` bytes, is not 0.
 * NULL: all. */
void ws_rows_load_tracks(const struct ws_report *report, const struct ws_scan *scan,
			 const uint8_t *tracks, size_t count, struct ws_rows *out);
void ws_rows_free(struct ws_rows *rows);
/* Give the memory of rows [from, to) back to the system, as far as whole pages are theirs alone.
 * Their values are lost. */
void ws_rows_release(struct ws_rows *rows, size_t from, size_t to);

/*
 * The same rows in parts by time, so that a table of any size takes bounded memory: `fn` gets about
 * `most` rows at a time, sorted as above. Each row comes once, in the part that includes its start.
 * Parts come in order of time. The scan must ask for the table's start.
 */
void ws_rows_load_parts(const struct ws_report *report, const struct ws_scan *scan, size_t most,
			void (*fn)(void *context, const struct ws_rows *rows), void *context);

/*
 * One row at a time over a whole table in order of start, merged over blocks with bounded memory,
 * for exports. `values` has an entry for each column of the table and is valid until the next call.
 */
struct ws_cursor;
struct ws_cursor *ws_cursor_open(const struct ws_report *report, enum ws_table table,
				 uint64_t time_min, uint64_t time_max);
/* The same for the columns whose bits are set only: it is as much faster as it reads less. The
 * other values are 0. */
struct ws_cursor *ws_cursor_open_columns(const struct ws_report *report, enum ws_table table,
					 uint64_t columns, uint64_t time_min, uint64_t time_max);
bool ws_cursor_next(struct ws_cursor *cursor, const uint64_t **values);
void ws_cursor_close(struct ws_cursor *cursor);

/* ---- threads and processes ---- */

struct ws_thread_info {
	uint32_t id, tid, process, pid;
	const char *name; /* best name by priority, or "" */
	int32_t priority; /* priority of that name in ThreadNames; 0 without a name */
	const char *process_name;
	uint64_t global_tid; /* vm << 48 | pid << 24 | tid, as the SQLite export numbers threads */
};
struct ws_process_info {
	uint32_t id, pid, parent;
	const char *name, *exe, *cmdline;
	uint64_t start, end; /* end WS_NO_TIME when not known */
	uint64_t global_pid;
};

struct ws_names_by_id; /* threads and processes of a report, by id */
struct ws_names_by_id *ws_who_open(const struct ws_report *report);
/* Never NULL: unknown ids give an "unknown" entry. */
const struct ws_thread_info *ws_find_thread(const struct ws_names_by_id *who, uint32_t id);
const struct ws_process_info *ws_find_process(const struct ws_names_by_id *who, uint32_t id);
/* What a process was when it was started: exec makes another one of it, whose parent is what it was
 * before. */
const struct ws_process_info *ws_find_first_image(const struct ws_names_by_id *who,
						  const struct ws_process_info *process);
uint32_t ws_highest_thread_id(const struct ws_names_by_id *who); /* highest id */
uint32_t ws_highest_process_id(const struct ws_names_by_id *who);
void ws_who_close(struct ws_names_by_id *who);

/* The first value of a fact in the meta table, or NULL. */
const char *ws_find_meta(const struct ws_report *report, const char *name);
/* The start of the first collection on the session clock, which times shown to users count from,
 * and the end of the last event. */
uint64_t ws_find_time_zero(const struct ws_report *report);
uint64_t ws_find_time_last(const struct ws_report *report);
/* From the earliest start to the last end of what the time line shows, ns on the session clock;
 * false when it shows nothing. */
bool ws_find_event_span(const struct ws_report *report, uint64_t *first, uint64_t *last);

#endif
