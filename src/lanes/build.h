/* build.h - which lane a row goes to, for the census and the reading of events. Private to census.c
 * and build.c. */
#ifndef WS_LANES_BUILD_H
#define WS_LANES_BUILD_H

#include "lanes/lane.h"

enum { WS_LANE_CACHE = 64 };

/* State of one thread of a scan. */
struct ws_lane_worker {
	struct {
		uint32_t key[4], lane;
		uint8_t kind;
		bool set;
	} cache[2][WS_LANE_CACHE];
	uint64_t *at;	   /* by lane: rows counted, or the place of the next row */
	uint64_t *end;	   /* by lane: where the places of this block end */
	uint32_t *touched; /* lanes with a count, in this block */
	size_t lanes, n, cap;
	struct ws_census_entry *out;
	size_t out_n, out_cap;
} __attribute__((aligned(128)));

struct ws_lane_pass { /* over the rows of a kind of event */
	struct ws_lanes *lanes;
	const struct ws_event_kind *kind;
	uint32_t source;
	struct ws_lane_worker *workers;
	/* of the events: */
	const uint64_t *row_base;	     /* number of the first row of each block */
	const struct ws_census_entry *first; /* of this source; sorted by block */
	size_t entries;
	const uint8_t *shared; /* ws_lane_shared_names */
	const uint8_t *in_set; /* by lane: is it read now? */
	uint8_t *seen;	       /* by block: it could be read */
	bool waits;	       /* for lanes that someone asked for */
};

struct ws_lane_pass ws_lane_pass_new(struct ws_lanes *lanes, uint32_t source,
				     struct ws_lane_worker *workers);
/* By key of a string: whether it stands for several full names of events of this kind. NULL: no
 * string does. Reads the names of all rows the first time. Thread-safe. */
const uint8_t *ws_lane_shared_names(struct ws_lanes *lanes, uint32_t kind);
/* For each thread that a scan may use. */
struct ws_lane_worker *ws_lane_workers_new(uint32_t *n);
void ws_lane_workers_free(struct ws_lane_worker *worker, uint32_t n);
void ws_lane_workers_forget(struct ws_lane_worker *worker,
			    uint32_t n); /* what the last source left in the caches */
void ws_lane_worker_need(struct ws_lane_worker *worker, uint32_t lane);

/* The lane of row i by feed `feed_number` of its kind, or UINT32_MAX for none. */
uint32_t ws_lane_of_row(struct ws_lane_pass *pass, struct ws_lane_worker *worker,
			uint32_t feed_number, const struct ws_batch *batch, size_t i);
/* The columns that this needs. */
uint64_t ws_lane_key_columns(const struct ws_event_kind *kind);

/* Row i as an event, and the columns that this needs. p->row_base is needed for its number. */
void ws_lane_raw_of_row(const struct ws_lane_pass *pass, const struct ws_batch *batch, size_t i,
			struct ws_raw *raw);
uint64_t ws_lane_event_columns(const struct ws_event_kind *kind);
/* By block: how many rows of the table come before it. The caller frees. */
uint64_t *ws_lane_row_bases(const struct ws_report *report, enum ws_table table);

void ws_take_census(struct ws_lanes *lanes, struct ws_lane_worker *workers, uint32_t n);

#endif
