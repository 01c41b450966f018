/* correlate.c - see correlate.h. */
#include "query/correlate.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static struct ws_call_ids *entry(struct ws_calls *c, uint64_t key)
{
	size_t at = ws_call_hash(key) & c->mask;

	while (c->ids[at].key && c->ids[at].key != key)
		at = (at + WS_CALL_STEP) & c->mask;
	return &c->ids[at];
}

static void grow(struct ws_calls *c)
{
	struct ws_call_ids *old = c->ids;
	size_t n = old ? c->mask + 1 : 0;

	c->mask = (n ? n * 2 : 1024) - 1;
	c->ids = ws_calloc(c->mask + 1, sizeof(*c->ids));
	for (size_t i = 0; i < n; i++)
		if (old[i].key)
			*entry(c, old[i].key) = old[i];
	free(old);
}

/* Calls with their process, one after the other; `take` gets the entry of each one's id. */
static void each_call(struct ws_calls *c, const struct ws_who *who,
		      void (*take)(struct ws_calls *, struct ws_call_ids *, uint64_t id,
				   size_t row))
{
	const uint64_t *thread = c->rows.col[ws_cuda_api_thread],
		       *id = c->rows.col[ws_cuda_api_correlation];
	struct ws_call_ids *last = NULL;
	uint64_t process = 0, of = UINT64_MAX;

	for (size_t i = 0; i < c->rows.rows; i++) {
		uint64_t key;

		if (id[i] == WS_NO_U32)
			continue;
		if (thread[i] != of) {
			of = thread[i];
			process = ws_who_thread(who, (uint32_t)of)->process;
		}
		key = (process << 32 | (uint32_t)id[i] / WS_CALL_IDS) + 1;
		if (!last || last->key != key) {
			if (c->used * 4 >= c->mask * 3)
				grow(c);
			last = entry(c, key);
		}
		if (!last->key) {
			last->key = key;
			c->used++;
		}
		take(c, last, id[i], i);
	}
}

static void mark(struct ws_calls *c, struct ws_call_ids *e, uint64_t id, size_t row)
{
	(void)c, (void)row;
	e->bits[id % WS_CALL_IDS / 64] |= UINT64_C(1) << id % 64;
}

/* Rows are in order of start within a thread, outer calls first: the first with an id is the
 * outermost. */
static void place(struct ws_calls *c, struct ws_call_ids *e, uint64_t id, size_t row)
{
	uint32_t *call = &c->call[ws_call_place(e, id)];

	if (*call == WS_NO_CALL)
		*call = (uint32_t)row;
}

static void index_calls(struct ws_calls *c, const struct ws_who *who)
{
	uint32_t first = 0;

	grow(c);
	each_call(c, who, mark);
	for (size_t i = 0; i <= c->mask; i++) {
		c->ids[i].first = first;
		for (size_t w = 0; w < WS_COUNT(c->ids[i].bits); w++)
			first += (uint32_t)__builtin_popcountll(c->ids[i].bits[w]);
	}
	c->call = ws_malloc(((size_t)first + 1) * sizeof(*c->call));
	memset(c->call, 0xff, ((size_t)first + 1) * sizeof(*c->call));
	each_call(c, who, place);
}

int ws_calls_load(const struct ws_report *r, const struct ws_who *who, struct ws_calls *c,
		  struct ws_err *e)
{
	struct ws_scan sc = {
		.table = WS_TABLE_cuda_api,
		.columns = WS_COL(cuda_api, start) | WS_COL(cuda_api, end) |
			   WS_COL(cuda_api, thread) | WS_COL(cuda_api, correlation) |
			   WS_COL(cuda_api, name),
		.time_max = UINT64_MAX,
	};

	memset(c, 0, sizeof(*c));
	if (ws_report_rows(r, WS_TABLE_cuda_api) >= WS_NO_CALL)
		return ws_fail(e, "%s has more CUDA API calls than can be joined to their work",
			       ws_report_path(r));
	if (ws_rows_load(r, &sc, &c->rows, e) < 0)
		return -1;
	index_calls(c, who);
	return 0;
}

void ws_calls_free(struct ws_calls *c)
{
	ws_rows_free(&c->rows);
	free(c->ids);
	free(c->call);
	memset(c, 0, sizeof(*c));
}
