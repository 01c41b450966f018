/*
 * runs.h - where the rows of each track (thread, process) are in a table's blocks. Every block is
 * sorted by track and time, so a track's rows in a block are a sorted run.
 */
#ifndef WS_QUERY_RUNS_H
#define WS_QUERY_RUNS_H

#include "query/query.h"

struct ws_run {
	uint64_t first, last; /* starts of its first and its last row */
	size_t block, from, rows;
	size_t place;  /* rows of all runs before it by track */
	size_t number; /* of the runs before it by track */
	uint32_t track;
};

struct ws_runs {
	struct ws_run *runs; /* those of a block follow one another */
	size_t count, cap;
	struct ws_run **by_track; /* by track, start of the first row and block */
	size_t *of_block;	  /* by block: 1 + its first run; 0 for none */
	size_t rows;		  /* of all runs */
};

/* List the runs of tracks below `tracks`, of blocks that can be decoded, unless there are more than
 * `most`: then false. Free in any case. */
bool ws_runs_list(const struct ws_report *report, enum ws_table table, uint32_t tracks, size_t most,
		  struct ws_runs *runs);
void ws_runs_free(struct ws_runs *runs);

/* How many runs by track from number `i` on are the same track's. */
size_t ws_runs_count_track(const struct ws_runs *runs, size_t i);
/* Whether run `i` by track begins later than its track's run before it ends, if there is one. */
bool ws_runs_follows(const struct ws_runs *runs, size_t i);
/* Number the runs of one track, from `i` by track on, in order of their blocks. */
void ws_runs_order_by_block(struct ws_runs *runs, size_t i, size_t count);

#endif
