/* correlate.c - see correlate.h. */
#include "query/correlate.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"

static struct ws_call_ids *find_entry(struct ws_calls *calls, uint64_t key)
{
	size_t at = ws_hash_call(key) & calls->mask;

	while (calls->ids[at].key && calls->ids[at].key != key)
		at = (at + WS_CALL_STEP) & calls->mask;
	return &calls->ids[at];
}

static void grow_index(struct ws_calls *calls)
{
	struct ws_call_ids *old = calls->ids;
	size_t old_size = 0;
	if (old)
		old_size = calls->mask + 1;
	calls->mask = ws_max(old_size * 2, (size_t)1024) - 1;
	calls->ids = ws_calloc(calls->mask + 1, sizeof(*calls->ids));
	for (size_t i = 0; i < old_size; i++)
		if (old[i].key)
			*find_entry(calls, old[i].key) = old[i];
	free(old);
}

/* Calls `visit` for each call with the index entry of its id. */
static void visit_calls(struct ws_calls *calls, const struct ws_names_by_id *who,
			void (*visit)(struct ws_calls *, struct ws_call_ids *, uint64_t id,
				      size_t row))
{
	const uint64_t *thread = calls->rows.col[ws_cuda_api_thread],
		       *id = calls->rows.col[ws_cuda_api_correlation];
	struct ws_call_ids *last = NULL;
	uint64_t process = 0, last_thread = UINT64_MAX;

	for (size_t i = 0; i < calls->rows.rows; i++) {
		uint64_t key;

		if (id[i] == WS_NO_U32)
			continue;
		if (thread[i] != last_thread) {
			last_thread = thread[i];
			process = ws_find_thread(who, (uint32_t)last_thread)->process;
		}
		key = (process << 32 | (uint32_t)id[i] / WS_CALL_IDS) + 1;
		if (!last || last->key != key) {
			if (calls->used * 4 >= calls->mask * 3)
				grow_index(calls);
			last = find_entry(calls, key);
		}
		if (!last->key) {
			last->key = key;
			calls->used++;
		}
		visit(calls, last, id[i], i);
	}
}

static void mark_id(struct ws_calls *calls, struct ws_call_ids *ids, uint64_t id, size_t row)
{
	(void)calls, (void)row;
	ids->bits[id % WS_CALL_IDS / 64] |= UINT64_C(1) << id % 64;
}

/* Rows are in order of start within a thread, outer calls first, so the first row with an id is the
 * outermost call. */
static void place_call(struct ws_calls *calls, struct ws_call_ids *ids, uint64_t id, size_t row)
{
	uint32_t *call = &calls->call[ws_find_call_place(ids, id)];

	if (*call == WS_NO_CALL)
		*call = (uint32_t)row;
}

static void index_calls(struct ws_calls *calls, const struct ws_names_by_id *who)
{
	uint32_t first = 0;

	grow_index(calls);
	visit_calls(calls, who, mark_id);
	for (size_t i = 0; i <= calls->mask; i++) {
		calls->ids[i].first = first;
		for (size_t word = 0; word < WS_COUNT(calls->ids[i].bits); word++)
			first += (uint32_t)__builtin_popcountll(calls->ids[i].bits[word]);
	}
	calls->call = ws_malloc(((size_t)first + 1) * sizeof(*calls->call));
	memset(calls->call, 0xff, ((size_t)first + 1) * sizeof(*calls->call));
	visit_calls(calls, who, place_call);
}

int ws_calls_load(const struct ws_report *report, const struct ws_names_by_id *who, uint64_t more,
		  struct ws_calls *calls, struct ws_err *err)
{
	struct ws_scan sc = {
		.table = WS_TABLE_cuda_api,
		.columns = WS_COLUMN_BIT(cuda_api, start) | WS_COLUMN_BIT(cuda_api, end) |
			   WS_COLUMN_BIT(cuda_api, thread) | WS_COLUMN_BIT(cuda_api, correlation) |
			   WS_COLUMN_BIT(cuda_api, name) | more,
		.time_max = UINT64_MAX,
	};

	memset(calls, 0, sizeof(*calls));
	if (ws_report_count_rows(report, WS_TABLE_cuda_api) >= WS_NO_CALL)
		return ws_fail(err, "%s has more CUDA API calls than can be joined to their work",
			       ws_report_path(report));
	if (ws_rows_load(report, &sc, &calls->rows, err) < 0)
		return -1;
	index_calls(calls, who);
	return 0;
}

void ws_calls_free(struct ws_calls *calls)
{
	ws_rows_free(&calls->rows);
	free(calls->ids);
	free(calls->call);
	memset(calls, 0, sizeof(*calls));
}
