/*
 * flight_open.h - the ranges and calls that are open when a snapshot is made.
 *
 * They are seen in the program's memory while it goes on: by the time that everything which had
 * ended before has been read, some of them have ended too, and then they are not open any more.
 */
#ifndef WS_RECORD_FLIGHT_OPEN_H
#define WS_RECORD_FLIGHT_OPEN_H

#include "store/store.h"

struct ws_open_rows {
	struct ws_writer *writer;
	char *rows[WS_TABLE_COUNT];
	uint32_t count[WS_TABLE_COUNT];
};

/* Take the rows that the writer has staged, which are all of open ranges and calls, but for those
 * that began after `latest`, whose names may not have been read; its stages are empty then. */
void ws_open_rows_take(struct ws_open_rows *open, struct ws_writer *writer, uint64_t latest);
/* What the writer has staged since has ended: drop the open rows of the same. */
void ws_open_rows_close(struct ws_open_rows *open);
/* Give the writer what is left, and free it. */
void ws_open_rows_give(struct ws_open_rows *open);

#endif
