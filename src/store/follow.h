/*
 * follow.h - reading a report while it is written: only what is new since the last time.
 *
 * Opening a report reads everything written so far, including the journal; a reader that polls each
 * second would pay for all of it each time. A follower remembers its position: it reads the rows
 * and strings that are new in the journal, and the blocks that are new in the file. Each row is
 * delivered once, in no particular order; the strings that it refers to are known by then. One
 * thread at a time.
 */
#ifndef WS_STORE_FOLLOW_H
#define WS_STORE_FOLLOW_H

#include "store/store.h"

struct ws_follow;

/* Columns of rows that came, as ws_report_decode_block gives them; NULL for those not asked for. */
struct ws_new_rows {
	enum ws_table table;
	size_t count;
	const uint64_t *column[WS_MAX_COLUMNS];
};

struct ws_follow_opts {
	uint64_t columns[WS_TABLE_COUNT]; /* bits of the columns that are wanted; 0: none of the
					     table's rows is read */
	/* Whether a table's rows are read from the first one; of other tables, only rows that come
	 * after the first ws_follow_read are read. */
	bool from_start[WS_TABLE_COUNT];
};

enum ws_follow_state {
	WS_FOLLOW_LIVE,	    /* a recorder is writing the report */
	WS_FOLLOW_FINISHED, /* it was closed, or its recorder died: all has been delivered */
	WS_FOLLOW_FAILED,   /* it cannot be read any more: *err says why */
};

/* NULL with a message when it is not a report, or is from another version of the program. */
struct ws_follow *ws_follow_open(const char *path, const struct ws_follow_opts *opts,
				 struct ws_err *err);
/* Call `fn` for the new rows, then return the state of the report. Each call delivers one
 * consistent state. */
enum ws_follow_state ws_follow_read(struct ws_follow *follow,
				    void (*fn)(void *ctx, const struct ws_new_rows *rows),
				    void *ctx, struct ws_err *err);
/* The text of a string id that a delivered row holds; valid until the next ws_follow_read. */
const char *ws_follow_string(const struct ws_follow *follow, uint32_t id, size_t *len);
/* All rows of a table so far, delivered or not; and the bytes of the file. */
uint64_t ws_follow_count_rows(const struct ws_follow *follow, enum ws_table table);
uint64_t ws_follow_file_size(const struct ws_follow *follow);
void ws_follow_close(struct ws_follow *follow); /* NULL is allowed */

#endif
