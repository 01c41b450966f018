/*
 * library_record.h - what hooks for libraries write: a call that has returned, a row about an
 * object of the library (such as a communicator), and the pieces of work that a call has waited
 * for. The values kept of a call follow in the order of its declaration (src/inject/libraries);
 * texts are handles of strings, real numbers their bits.
 */
#ifndef WS_RING_LIBRARY_RECORD_H
#define WS_RING_LIBRARY_RECORD_H

#include "ring/record.h"
#include "ring/ring.h"
#include "library_numbers.h"

/* A value that is not known. */
#define WS_LIBRARY_NONE INT64_MIN
/* No call and no row has more values than this; scripts/make-libraries.py checks it. */
#define WS_LIBRARY_MOST_KEPT 24u
/* One record ends no more pieces of work than this. */
#define WS_LIBRARY_MOST_ENDED 128u

struct ws_rec_library {
	struct ws_rec rec;   /* small: enum ws_library_function; value: values that follow */
	uint64_t start, end; /* ticks */
	int64_t kept[];
};

/*
 * Calls that followed one another so fast that only some readings of the clock were made: the first
 * call has both its times, the others lie, in their order, between its end and `end`. The shapes
 * follow one another as they are in struct ws_library_bunch.
 */
struct ws_rec_library_bunch {
	struct ws_rec rec;   /* small: calls; value: words that follow */
	uint64_t start, end; /* ticks */
	uint64_t first_end;  /* of the first call */
	uint64_t last_start; /* the last call began about then, as it took long; 0: not known */
	uint8_t call[WS_BUNCH_CALLS]; /* which shape each has */
	int64_t word[];
};

struct ws_rec_library_row {
	struct ws_rec rec; /* small: enum ws_library_table; value: values that follow */
	uint64_t time;
	int64_t kept[];
};

/* A span that is no call: a debug group, a frame, what the GPU did. */
struct ws_rec_library_span {
	struct ws_rec rec;    /* small: enum ws_library_table; value: values that follow */
	uint64_t anchor;      /* ticks; 0: the times are ticks themselves */
	int64_t start, end;   /* otherwise nanoseconds since that */
	uint32_t name, track; /* handles; without a track it is on the thread's own row */
	int64_t kept[];	      /* texts are handles */
};

/*
 * Work that one call begins and another call ends (a request), identified by a number while it
 * lasts. The record comes after that of the call. Numbers belong to the process and to the library.
 */
struct ws_rec_library_work {
	struct ws_rec rec; /* small: enum ws_library, with WS_LIBRARY_BEGINS when the call begins
			      work; value: numbers that follow */
	uint64_t start;	   /* of the call, ticks */
	uint64_t work[];
};
#define WS_LIBRARY_BEGINS 0x8000u

#endif
