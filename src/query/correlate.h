/*
 * correlate.h - from work on a GPU to the call that caused it: a join by process and correlation id.
 *
 * All calls of the CUDA API are in memory, sorted by (thread, start), so that enclose.h can find the ranges around each. The index
 * holds eight consecutive ids in an entry of 40 bytes: work is recorded about in the order of its calls, so that most look-ups
 * find what the one before has fetched. Memory: 40 bytes a call for the columns and 5 to 100 for the index, as dense as the ids
 * are.
 */
#ifndef WS_QUERY_CORRELATE_H
#define WS_QUERY_CORRELATE_H

#include "query/query.h"

#define WS_NO_CALL UINT32_MAX

struct ws_calls {
	struct ws_rows rows; /* start, end, thread, correlation, name */
	struct ws_call_ids {
		uint64_t key; /* process << 32 | id / 8, plus 1; 0 for none */
		uint32_t call[8];
	} * ids;
	size_t mask, used; /* entries - 1 */
};

/* Read all calls. Returns 0, or -1 with a message (too many). Free with ws_calls_free in any case. */
int ws_calls_load(const struct ws_report *r, const struct ws_who *who, struct ws_calls *c, struct ws_err *e);
void ws_calls_free(struct ws_calls *c);

static inline uint64_t ws_call_hash(uint64_t key)
{
	key *= UINT64_C(0x9e3779b97f4a7c15);
	return key ^ key >> 29;
}

/*
 * The call (its row) that caused what has this correlation id in this process (id of the process table), or WS_NO_CALL. Where a
 * driver call inside of a runtime call shares its id, the outer one. Thread-safe.
 */
static inline uint32_t ws_calls_find(const struct ws_calls *c, uint64_t process, uint64_t correlation)
{
	uint64_t key = (process << 32 | (uint32_t)correlation >> 3) + 1;

	if (correlation == WS_NO_U32)
		return WS_NO_CALL;
	for (size_t at = ws_call_hash(key) & c->mask; c->ids[at].key; at = (at + 1) & c->mask)
		if (c->ids[at].key == key)
			return c->ids[at].call[correlation & 7];
	return WS_NO_CALL;
}

#endif
