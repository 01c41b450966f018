/*
 * correlate.h - from work on a GPU to the call that caused it: a join by process and correlation
 * id.
 *
 * All calls of the CUDA API are in memory, sorted by (thread, start), so that enclose.h can find
 * the ranges around each. An entry of the index covers 256 consecutive ids of a process: it has a
 * bit for each id that a call has, and the place of their calls in one array; counting bits gives
 * the place of each call. Work is recorded roughly in the order of its calls, so most look-ups find
 * the entry in the cache. Memory: 40 bytes a call for the columns, 4 for the array and up to 100
 * for the entries: a few where every seventh id or more is used.
 */
#ifndef WS_QUERY_CORRELATE_H
#define WS_QUERY_CORRELATE_H

#include "query/query.h"

#define WS_NO_CALL UINT32_MAX

enum { WS_CALL_IDS = 256, WS_CALL_STEP = 65 }; /* ids of an entry of the index, see ws_hash_call */

struct ws_calls {
	struct ws_rows rows; /* start, end, thread, correlation, name */
	struct ws_call_ids {
		uint64_t key; /* process << 32 | id / 256, plus 1; 0 for none */
		uint64_t bits[WS_CALL_IDS / 64];
		uint32_t first; /* place in `call` of the lowest id */
	} * ids;
	size_t mask, used; /* entries - 1 */
	uint32_t *call;	   /* rows, by process and id */
};

/* Read all calls, with more columns of the table (WS_COLUMN_BIT, or 0). Returns 0, or -1 with a
 * message (too many). Free with ws_calls_free in any case. */
int ws_calls_load(const struct ws_report *report, const struct ws_names_by_id *who, uint64_t more,
		  struct ws_calls *calls, struct ws_err *err);
void ws_calls_free(struct ws_calls *calls);

/*
 * Entries of consecutive ids are neighbours, in groups of 64. Work comes roughly in the order of
 * ids, so look-ups go through memory in order too, however far apart ids are. After a collision the
 * search continues an odd number of entries above 64 further on (WS_CALL_STEP): one step skips a
 * whole group, and every place is reached in the end.
 */
static inline uint64_t ws_hash_call(uint64_t key)
{
	uint64_t hash = (key >> 6) * UINT64_C(0x9e3779b97f4a7c15);
	return (hash ^ hash >> 29) << 6 | (key & 63);
}

/* The place in `call` of an id of this entry, or WS_NO_CALL. */
static inline uint32_t ws_find_call_place(const struct ws_call_ids *ids, uint64_t correlation)
{
	uint32_t bit = correlation % WS_CALL_IDS, place = ids->first;
	uint64_t word = ids->bits[bit / 64];

	if (!(word >> bit % 64 & 1))
		return WS_NO_CALL;
	for (uint32_t i = 0; i < bit / 64; i++)
		place += (uint32_t)__builtin_popcountll(ids->bits[i]);
	return place + (uint32_t)__builtin_popcountll(word & ((UINT64_C(1) << bit % 64) - 1));
}

/*
 * The call (its row) that caused the work with this correlation id in this process (id of the
 * process table), or WS_NO_CALL. Where a driver call inside a runtime call has the same id, this is
 * the outer call. Thread-safe.
 */
static inline uint32_t ws_calls_find(const struct ws_calls *calls, uint64_t process,
				     uint64_t correlation)
{
	uint64_t key = (process << 32 | (uint32_t)correlation / WS_CALL_IDS) + 1;
	size_t at = ws_hash_call(key) & calls->mask;
	uint32_t place;

	if (correlation == WS_NO_U32)
		return WS_NO_CALL;
	while (calls->ids[at].key != key) {
		if (!calls->ids[at].key)
			return WS_NO_CALL;
		at = (at + WS_CALL_STEP) & calls->mask;
	}
	place = ws_find_call_place(&calls->ids[at], correlation);
	if (place == WS_NO_CALL)
		return WS_NO_CALL;
	return calls->call[place];
}

#endif
