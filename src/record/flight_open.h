/*
 * flight_open.h - the ranges and calls that are open when a snapshot is made.
 *
 * They are read from the program's memory while it runs. By the time that everything which ended
 * earlier has been read, some of them have ended too, and then they are no longer open.
 */
#ifndef WS_RECORD_FLIGHT_OPEN_H
#define WS_RECORD_FLIGHT_OPEN_H

#include "store/store.h"

struct ws_open_rows {
	struct ws_writer *writer;
	char *rows[WS_TABLE_COUNT];
	uint32_t count[WS_TABLE_COUNT];
};

/* Take the rows that the writer has staged, all of which are open ranges and calls, and leave its
 * stages empty. Rows that began after `latest` are dropped, since their names may not have been
 * read. */
void ws_open_rows_take(struct ws_open_rows *open, struct ws_writer *writer, uint64_t latest);
/* The rows that the writer has staged since then have ended: drop the open rows of the same
 * events. */
void ws_open_rows_close(struct ws_open_rows *open);
/* Give the writer what is left, and free it. */
void ws_open_rows_give(struct ws_open_rows *open);

#endif
