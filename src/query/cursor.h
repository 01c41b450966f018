/* cursor.h - the limit that tests lower to see blocks unloaded. */
#ifndef WS_CURSOR_H
#define WS_CURSOR_H

#include "query/query.h"

/* The most bytes of decoded columns that a cursor keeps. */
extern size_t ws_cursor_max_bytes;

#endif
