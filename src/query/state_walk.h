/*
 * state_walk.h - one thread's states, from the rows that states.c read; see states.h.
 */
#ifndef WS_QUERY_STATE_WALK_H
#define WS_QUERY_STATE_WALK_H

#include "query/runs.h"
#include "query/states.h"

/* WS_OF_BLOCKED rows are moments, not calls with a beginning and an end: they are used only where
 * nothing else says what a wait is for. */
enum ws_state_table {
	WS_OF_SCHED,
	WS_OF_GIL,
	WS_OF_CUDA,
	WS_OF_OSRT,
	WS_OF_BLOCKED,
	WS_STATE_SOURCES,
	WS_OF_CALLS = WS_OF_BLOCKED
};

struct ws_state_source {
	enum ws_table table;
	uint64_t columns;
	int start, end, thread;
};
extern const struct ws_state_source ws_state_sources[WS_STATE_SOURCES];

struct ws_state_slice { /* a thread's rows of each table; of WS_OF_SCHED its runs, where these are
			   streamed */
	uint32_t thread;
	size_t from[WS_STATE_SOURCES], to[WS_STATE_SOURCES];
};

/* A span in which a thread held the GIL of its process. Spans of two threads may overlap by a few
 * microseconds because several short ones are recorded as one. */
struct ws_gil_hold {
	uint64_t start, end;
	uint64_t latest; /* latest end of the process's spans up to this one */
	uint32_t process, tid;
};

struct ws_states {
	const struct ws_report *report;
	const struct ws_names_by_id *who;
	struct ws_rows rows[WS_STATE_SOURCES]; /* none of WS_OF_SCHED where it is streamed */
	bool borrowed;			       /* those of WS_OF_CUDA are the caller's */
	bool streamed;
	struct ws_runs runs;	   /* of WS_OF_SCHED where it is streamed */
	uint64_t columns;	   /* that are read of them */
	struct ws_gil_hold *holds; /* by (process, start) */
	size_t hold_count, hold_cap;
	struct ws_state_slice *threads;
	size_t thread_count;
	uint8_t *classes; /* by string: 1 + enum ws_wait of the function of that name; 0 not looked
			     up yet */
	uint32_t strings;
	uint64_t last;
	struct ws_rows gaps; /* of sched_gap, in order of time */
	bool recorded; /* recorded by warpsight: the end of a span is missing only when it was lost
			*/
};

struct ws_open_calls { /* the calls of one table that have begun */
	size_t next, end;
	size_t *row;
	size_t count, cap;
};

struct ws_state_walk {
	const struct ws_states *states;
	const struct ws_state_slice *slice;
	struct ws_open_calls open[WS_STATE_SOURCES];
	uint64_t limit;	    /* the thread's states end no later than this */
	uint64_t from, to;  /* the window */
	uint64_t busy_till; /* end of the last CUDA call that waits among those walked */
	size_t busy;	    /* the next CUDA call to check */
	size_t blocked;	    /* the next BLOCKED row to check */
	bool scheduled;	    /* a span on a core has been walked; */
	uint64_t off;	    /* since then the thread is off its core, */
	uint64_t after;	    /* for this reason */
	uint32_t worker;
	struct ws_states *spent; /* whose rows are given back once walked; NULL: none are */
	void (*fn)(void *ctx, uint32_t worker, const struct ws_state *state);
	void *ctx;
};

enum { WS_ROWS_RELEASED = 1 << 18 }; /* at a time: 2 MiB of each column */

/* Some of a thread's spans on cores: rows of columns of WS_OF_SCHED. */
struct ws_spans {
	uint64_t *const *col;
	size_t from, to;
	uint64_t next; /* start of the span after these; the thread has no other where `last` */
	bool last;
};

/* The thread that held the GIL of the process longest in [start, end), by the system's number; 0
 * when no holder is known. */
uint32_t ws_find_gil_holder(const struct ws_states *states, uint32_t process, uint64_t start,
			    uint64_t end);

/* Make `walk` ready for a thread; what its walk of another thread allocated is used again. */
void ws_begin_state_walk(struct ws_state_walk *walk, const struct ws_state_slice *slice);
void ws_free_state_walk(struct ws_state_walk *walk);
/* Emit a thread's states from its spans on cores, or from those that follow the ones before. */
void ws_walk_spans(struct ws_state_walk *walk, const struct ws_spans *spans);
/* Emit a thread's states from its calls alone. */
void ws_walk_calls(struct ws_state_walk *walk);

#endif
