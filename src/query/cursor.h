/* cursor.h - what tests turn to see blocks put aside. */
#ifndef WS_CURSOR_H
#define WS_CURSOR_H

#include "query/query.h"

/* Decoded columns that a cursor keeps at most. */
extern size_t ws_cursor_most_bytes;

#endif
