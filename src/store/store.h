/*
 * store.h - the report file (.wsrep): writing, reading, verifying, recovering.
 *
 * No code outside store/ knows how a block is laid out. docs/report-format.md describes it for
 * other programs.
 *
 * Writing: rows are staged, as row structs, in the journal: a file beside the report
 * (<report>.journal) that is mapped shared and allocated in full beforehand, so that committing
 * costs no system call, what has been committed survives the recorder being killed, and yet blocks
 * are written full-sized. When a table's staging area is full, its rows are sorted by (track,
 * start), turned into compressed columns and appended to the report as one block; the strings
 * interned since the last block go in a dictionary block before it. ws_writer_close writes what is
 * left and the index, and removes the journal. A writer belongs to one thread.
 */
#ifndef WS_STORE_H
#define WS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "schema/schema.h"

/* ---- writing ---- */

struct ws_writer;

/*
 * A flight recorder: the writer keeps only the latest rows, in memory, until ws_writer_leave_flight
 * makes a report of them. The rows of lasting tables (WS_LASTS in tables.def) are kept, except
 * those of processes that ended earlier. All memory that grows with the kept data counts.
 */
struct ws_flight_opts {
	uint64_t keep_ns, keep_bytes; /* how much is kept: the smaller of the two counts */
	/* Called before anything is dropped: calls ws_writer_hold_string for every id of a passing
	 * string that will still be used. NULL: there is none. */
	void (*hold)(void *ctx);
	void *ctx;
};

struct ws_writer_opts {
	bool overwrite; /* replace an existing report once the new one is in place (-f); otherwise
			   an existing file is an error */
	uint32_t block_rows; /* rows a block at most; 0 for the default (65,536). Wide or rare
				tables stage fewer */
	uint64_t segment_ns; /* longest time span of a segment; 0 for the default (10 s) */
	bool durable;	     /* ws_writer_close syncs the report to the disk before it returns */
	const char *folder;  /* for a writer that has no report yet; NULL: the current one */
	const struct ws_flight_opts *flight; /* of a writer without a path; NULL: none */
	bool no_journal; /* open rows stay in memory: for reports that can be made again, such as
			    imports */
};

/*
 * Create `path` (mode 0600) and its journal; with NULL a file without a name, in `folder` of the
 * options where that is possible, until ws_writer_continue gives it one. The file is locked for the
 * life of the writer: a second recorder that wants the same name gets an error that says so,
 * regardless of `overwrite`. With `overwrite`, the old file stays in place until ws_writer_create
 * succeeds in making the new one (written under a temporary name beside it and renamed over it at
 * the end of this call). Returns NULL with a message.
 */
struct ws_writer *ws_writer_create(const char *path, const struct ws_writer_opts *opts,
				   struct ws_err *err);
/* Whether a recorder is writing the file with this name, on this host or, where the file system
 * tells hosts about each other's locks, on another. */
bool ws_report_is_taken(const char *path);

/*
 * The id of a string in the report's dictionary, from 1; equal bytes usually, but not always, get
 * equal ids (the memory of the dictionary is bounded: readers unify by content). The empty string
 * (len 0) has an id of its own. Bytes may hold NULs.
 */
uint32_t ws_writer_string(struct ws_writer *writer, const void *bytes, size_t len);
/*
 * The same for a text that goes into rows of events and whose id nothing remembers for longer: a
 * flight recorder drops it with them. A caller that keeps its id longer has to hold it.
 */
uint32_t ws_writer_passing_string(struct ws_writer *writer, const void *bytes, size_t len);
/* For struct ws_flight_opts. */
void ws_writer_hold_string(struct ws_writer *writer, uint32_t id);
/* The next new string gets this id, or a higher one where that is taken: ids in between are empty
 * strings. For copies of reports. */
void ws_writer_string_from(struct ws_writer *writer, uint32_t id);

struct ws_stage { /* open rows of one table; private to store/ except for the inline below */
	char *next, *limit;
	uint32_t row_size;
};
struct ws_stage *ws_writer_stage(struct ws_writer *writer, enum ws_table table);
void *ws_writer_row_slow(struct ws_writer *writer, enum ws_table table);

/*
 * A place for one new row of `table`, to be filled in by the caller before the next call on this
 * writer. Never NULL: after a write error (full disk), rows go nowhere and are counted as lost.
 */
static inline void *ws_writer_row(struct ws_writer *writer, enum ws_table table,
				  struct ws_stage *stage)
{
	char *at = stage->next;

	if (ws_unlikely(at == stage->limit))
		return ws_writer_row_slow(writer, table);
	stage->next = at + stage->row_size;
	return at;
}

/* Copy one row in. The convenient form. */
void ws_writer_add(struct ws_writer *writer, enum ws_table table, const void *row);

/*
 * Make everything added so far survive a kill of this process: publishes the counts in the journal.
 * Cheap (a few stores per table that changed); call it after each drain.
 */
void ws_writer_commit(struct ws_writer *writer);

/* 0, or -1 with a message once the file could not be written (disk full...): what was written
 * before stays readable. */
int ws_writer_error(struct ws_writer *writer, struct ws_err *err);
/* Rows that could not be written, in all tables. */
uint64_t ws_writer_lost(struct ws_writer *writer);
/* False when no journal could be made (full disk, no permission): a kill of this process then loses
 * what is not in blocks yet. */
bool ws_writer_journaled(const struct ws_writer *writer);
const char *ws_writer_path(struct ws_writer *writer);

/* Write everything staged now, in blocks of whatever size, so that ws_writer_lost is final before
 * the writer is closed. */
void ws_writer_flush(struct ws_writer *writer);

/* Write everything staged now and sync it, and the file's name, to the disk before returning: a
 * power cut loses only later rows. ws_writer_error reports what cannot be written. */
void ws_writer_sync(struct ws_writer *writer);

/*
 * Write the rest and the index, unlock, remove the journal, free; without `durable`, nothing is
 * fsynced. On error the report holds what fitted, closed by an index if possible; returns -1 with a
 * message.
 */
int ws_writer_close(struct ws_writer *writer, struct ws_err *err);

/*
 * End the report as ws_writer_close does and go on, with the same writer, in a new one at `path`
 * (as ws_writer_create would make it), or in none for now when `path` is NULL: rows then go into a
 * file without a name, and are the beginning of the report that a later call names.
 *
 * The new report begins with what later rows may refer to: all strings, under their ids, and the
 * rows of tables that last (WS_LASTS in tables.def). Rows of other tables are in the report that
 * has ended.
 *
 * Returns -1 with a message when the report that ends could not be written to its end, or the new
 * one cannot be made: rows then go on in a file without a name (ws_writer_is_unnamed says so).
 */
int ws_writer_continue(struct ws_writer *writer, const char *path,
		       const struct ws_writer_opts *opts, struct ws_err *err);
/* Delete the report and go on without one, as ws_writer_continue does with NULL. */
void ws_writer_abandon(struct ws_writer *writer);
/* Whether rows go into a file without a name: then ws_writer_close keeps nothing. */
bool ws_writer_is_unnamed(const struct ws_writer *writer);
/* Rows added from here to the end of the report belong to this report alone: they are not carried
 * on, even those of tables that last. */
void ws_writer_begin_own(struct ws_writer *writer);

/* Functions that receive what is added to a flight recorder. */
struct ws_writer_watch {
	bool tables[WS_TABLE_COUNT];
	/* Rows of these tables, each once, by the next commit at the latest. */
	void (*rows)(void *ctx, enum ws_table table, const void *rows, uint32_t count);
	/* A string gets an id, which another string may have had before. */
	void (*string)(void *ctx, uint32_t id, const char *bytes, size_t len);
	void *ctx;
};
/* Once at most, before anything is added. */
void ws_writer_watch(struct ws_writer *writer, const struct ws_writer_watch *watch);

struct ws_flight_state {
	uint64_t bytes;		/* of memory that the kept data takes */
	uint64_t lasting_bytes; /* of these, for data that is in every report */
	uint64_t from;		/* session ns: everything since then is kept */
};
struct ws_flight_state ws_writer_flight_state(const struct ws_writer *writer);
/*
 * Write what a flight recorder keeps as a report at `path`. The writer goes on in that report as an
 * ordinary one, without a journal. In a forked child this does not touch the parent's writer, which
 * may go on. -1 with a message; if the file could not even be made, the writer is unchanged.
 */
int ws_writer_leave_flight(struct ws_writer *writer, const char *path,
			   const struct ws_writer_opts *opts, struct ws_err *err);
/* Make a flight recorder forget the rows added since the last flush, except those of lasting
 * tables: they were meant for a snapshot that another process makes. */
void ws_writer_forget_staged(struct ws_writer *writer);
/* The rows of a table that are not in a block yet, until anything is added. */
const void *ws_writer_staged_rows(const struct ws_writer *writer, enum ws_table table,
				  uint32_t *count);

/* Close and delete the report: for a run that never began. If the writer adds to a report, drop the
 * additions: the report stays unchanged. */
void ws_writer_discard(struct ws_writer *writer);

/*
 * Add rows to a closed report. This works on a copy beside it, which ws_writer_close puts in its
 * place once it is complete: on any failure, a kill included, the report stays unchanged. The
 * report is locked meanwhile; readers that have it open go on reading the old one. Refuses, with
 * NULL and a message, a report that is being written, that was not closed or is damaged (recover it
 * first), or whose tables this version numbers otherwise.
 */
struct ws_writer *ws_writer_append(const char *path, struct ws_err *err);

/* ---- reading ---- */

struct ws_report;

/*
 * Open a report for reading: reads the index (or rebuilds it by walking the blocks when there is
 * none, and then also reads the journal beside it). A file that is still being written can be
 * opened too, with the data written so far. Damaged parts are left out, counted and described in
 * ws_report_get_damage. Returns NULL with a message only when nothing can be read: not a report,
 * newer format, unreadable. Close it with ws_report_close.
 */
struct ws_report *ws_report_open(const char *path, struct ws_err *err);
/* If set (by main), opens a file that does not begin like a report, so that every command can open
 * other tools' traces. It returns a report, or NULL with a message. */
extern struct ws_report *(*ws_open_foreign_trace)(const char *path, struct ws_err *err);
/* The same as ws_report_open, for reports only. */
struct ws_report *ws_report_open_plain(const char *path, struct ws_err *err);
/* Set what ws_report_path returns from now on: the file that the user named. */
void ws_report_rename(struct ws_report *report, const char *path);
void ws_report_close(struct ws_report *report);

const char *ws_report_path(const struct ws_report *report);
/* Whether a recorder was writing the report when it was opened. */
bool ws_report_is_live(const struct ws_report *report);
/* Whether an index closed it and nothing was damaged. */
bool ws_report_is_complete(const struct ws_report *report);
/* Sentences about missing or damaged data, NULL past the last. */
const char *ws_report_get_damage(const struct ws_report *report, size_t i);
uint64_t ws_report_file_size(const struct ws_report *report);

uint64_t ws_report_count_rows(const struct ws_report *report, enum ws_table table);
/* The bytes that the table's blocks take in the file. */
uint64_t ws_report_table_bytes(const struct ws_report *report, enum ws_table table);

/*
 * Strings. ws_report_string gives the bytes of an id (never NULL; "" for 0 and for ids the file
 * does not define; NUL-terminated, but may hold NULs: *len, if wanted, says how many bytes). Lives
 * as long as the report. ws_report_string_key maps ids with equal bytes to one id, so that grouping
 * by key is grouping by text.
 */
const char *ws_report_string(const struct ws_report *report, uint32_t id, size_t *len);
uint32_t ws_report_string_key(const struct ws_report *report, uint32_t id);
/* The same for all ids from 0 to ws_report_string_count, at once. */
void ws_report_string_keys(const struct ws_report *report, uint32_t *key);
/* Prefetch what ws_report_string will read; with `text`, in a call some strings later, the bytes
 * too. */
void ws_report_prefetch_string(const struct ws_report *report, uint32_t id, bool text);
uint32_t ws_report_string_count(const struct ws_report *report); /* highest id */

/* Blocks of a table, in file order. */
struct ws_block_info {
	uint64_t offset, bytes;
	uint32_t rows;
	uint64_t time_min, time_max; /* over start and end of its rows; 0, UINT64_MAX for tables
					without times */
	uint32_t track_min, track_max;
};
size_t ws_report_count_blocks(const struct ws_report *report, enum ws_table table);
struct ws_block_info ws_report_block_info(const struct ws_report *report, enum ws_table table,
					  size_t i);

/*
 * A summary of a block, without reading its rows: rows that are equal in the columns of
 * ws_table_groups form a group. `bins` divides first..last into WS_GROUP_BINS equal parts and says
 * how busy each was, out of 255; a part with any event is not 0. Reports that are not closed, or of
 * older versions, have it for some blocks or none: then `groups` is NULL. The rows of all groups
 * add up to the block's; the rest is as trustworthy as the file. Thread-safe; lives as long as the
 * report.
 */
enum { WS_GROUP_BINS = 64 };
struct ws_block_group {
	uint64_t first, last, busy; /* busy: sum of durations */
	uint32_t rows;
	uint32_t key[WS_GROUP_KEYS];
	const uint8_t *bins;
};
struct ws_block_groups {
	const struct ws_block_group *groups;
	size_t count;
};
struct ws_block_groups ws_report_block_groups(const struct ws_report *report, enum ws_table table,
					      size_t i);

/*
 * Decode the columns whose bits are set in `columns` of block i into out[c][0..rows-1] (out[c] for
 * the others is ignored and may be NULL). The block's checksum is verified on first use.
 * Thread-safe. Returns 0, or -1 when the block is damaged.
 */
int ws_report_decode_block(const struct ws_report *report, enum ws_table table, size_t i,
			   uint64_t columns, uint64_t *const *out, struct ws_err *err);

/* How many blocks have been decoded since the report was opened: shows how much a filter by time
 * saved. */
uint64_t ws_report_count_decoded(const struct ws_report *report);

/* Columns a file of an older version does not have decode as 0; this says which are there. */
uint64_t ws_report_columns(const struct ws_report *report, enum ws_table table);

/* Check every block; calls `fn` (if not NULL) with one sentence for each problem. Returns the
 * number of problems. */
uint64_t ws_report_verify(const struct ws_report *report,
			  void (*fn)(void *ctx, const char *sentence), void *ctx);

/*
 * Write a closed copy of `from` (and its journal) to `to`, or in place when `to` is NULL (through a
 * temporary file and rename). *rows gets the number of rows written. Refuses while a recorder still
 * writes the file.
 */
int ws_report_recover(const char *from, const char *to, uint64_t *rows, struct ws_err *err);

#endif
