/*
 * thread_states.c - what threads did at any time (query/states.h), as the events of lanes.
 *
 * States come from several tables together, so these lanes are not read row by row like the others.
 * All rows of a few threads, some million rows in total, are in memory at a time; the lanes
 * themselves are columns like all others. Where scheduling was recorded, the census counts a lane's
 * spans on cores; threads for which only calls are known get their lanes after the census.
 */
#include <stdlib.h>
#include <string.h>

#include "lanes/build.h"

enum { ROWS_AT_A_TIME = 1 << 20, MOST_ROWS = 16 << 20 };

uint8_t ws_state_class(uint32_t ref)
{
	static const uint8_t classes[WS_WAITS] = {
		[WS_WAIT_NONE] = WS_STATE_OTHER,
		[WS_WAIT_LOCK] = WS_STATE_LOCK,
		[WS_WAIT_CONDITION] = WS_STATE_CONDITION,
		[WS_WAIT_SEMAPHORE] = WS_STATE_LOCK,
		[WS_WAIT_BARRIER] = WS_STATE_LOCK,
		[WS_WAIT_JOIN] = WS_STATE_CONDITION,
		[WS_WAIT_CHILD] = WS_STATE_SLEEP,
		[WS_WAIT_IO] = WS_STATE_IO,
		[WS_WAIT_POLL] = WS_STATE_IO,
		[WS_WAIT_SLEEP] = WS_STATE_SLEEP,
		[WS_WAIT_SIGNAL] = WS_STATE_SLEEP,
		[WS_WAIT_GPU] = WS_STATE_GPU,
		[WS_WAIT_CUDA] = WS_STATE_GPU,
		[WS_WAIT_GIL] = WS_STATE_GIL,
		[WS_WAIT_QUEUE] = WS_STATE_OTHER,
		[WS_WAIT_FAULT] = WS_STATE_FAULT,
		[WS_WAIT_CALL] = WS_STATE_OTHER,
		[WS_WAIT_FUTEX] = WS_STATE_LOCK,
	};
	enum ws_wait wait = ws_state_wait(ref);

	if (ws_state_runs(ref))
		return wait == WS_WAIT_GPU ? WS_STATE_POLLS : WS_STATE_RUNS;
	if (ws_state_doing(ref) == WS_DOING_RUNNABLE)
		return WS_STATE_READY;
	return wait < WS_WAITS ? classes[wait] : WS_STATE_OTHER;
}

static uint32_t name_of(const struct ws_state *st)
{
	uint32_t own = WS_OWN_STATE;

	if (st->function)
		return WS_NAME(WS_NAME_STRING, st->function);
	if (st->doing == WS_DOING_RUNNABLE)
		own += st->after == WS_AFTER_PREEMPTED ? 2 : 1;
	else if (st->doing == WS_DOING_WAIT)
		own += st->wait == WS_WAIT_GIL ? 4 : st->wait == WS_WAIT_FAULT ? 5 : 3;
	return WS_NAME(WS_NAME_OURS, own);
}

/* ---- as columns ---- */

const struct ws_column_desc ws_state_columns[WS_STATE_COLUMNS] = {
	{.name = "state", .doc = "what the thread did", .type = WS_T_STR},
	{.name = "reason", .doc = "what it waited for", .type = WS_T_STR},
	{.name = "thread", .doc = "the thread", .type = WS_T_THREAD},
	{.name = "cpu", .doc = "core it ran on", .type = WS_T_NU32},
	{.name = "after", .doc = "enum ws_sched_after: why it had left its core", .type = WS_T_U8},
	{.name = "function", .doc = "call that it was in", .type = WS_T_STR},
	{.name = "path", .doc = "file that the call was about", .type = WS_T_STR},
	{.name = "object",
	 .doc = "lock or the like, or descriptor, that the call was about",
	 .type = WS_T_U64},
	{.name = "holder",
	 .doc = "the system's number of the thread that had the lock",
	 .type = WS_T_U32},
	{.name = "waker", .doc = "thread that ended the wait", .type = WS_T_NTHREAD},
};

const char *ws_state_word(const struct ws_state *st, uint32_t column)
{
	static const char *const doing[WS_DOINGS] = {"not known", "on a core", "ready to run",
						     "waits"};

	if (!column)
		return doing[st->doing];
	return st->wait == WS_WAIT_NONE ? NULL : ws_name_wait((enum ws_wait)st->wait);
}

uint64_t ws_state_value(const struct ws_state *st, uint32_t column)
{
	const uint64_t v[WS_STATE_COLUMNS] = {0,	0,	    st->thread,
					      st->cpu,	st->after,  st->function,
					      st->path, st->object, st->holder,
					      st->waker};

	return v[column];
}

/* ---- lanes ---- */

static bool says_waits(uint8_t kind)
{
	return kind == WS_LANE_OSRT || kind == WS_LANE_GIL;
}

/* Rows of all tables that a thread's states are made from, by thread. */
static uint64_t *rows_of_threads(const struct ws_lanes *lanes, size_t n)
{
	uint64_t *rows = ws_calloc(n, sizeof(*rows));

	for (uint32_t i = 0; i < lanes->n; i++) {
		const struct ws_lane *lane = lanes->lane[i];

		if (lane->key[0] < n && ((lane->kind == WS_LANE_STATE && !lane->uncounted) ||
					 lane->kind == WS_LANE_CUDA_API || says_waits(lane->kind)))
			rows[lane->key[0]] += lane->count;
	}
	return rows;
}

/*
 * Lanes whose threads have too much data for memory keep only their census data, or are not made.
 */
void ws_state_lanes(struct ws_lanes *lanes)
{
	size_t n = lanes->n, threads = (size_t)ws_highest_thread_id(lanes->who) + 1;
	uint64_t *rows = rows_of_threads(lanes, threads);

	for (size_t i = 0; i < n; i++) {
		const struct ws_lane *lane = lanes->lane[i];
		uint32_t key[4] = {lane->key[0]}, at;

		if (lane->kind == WS_LANE_STATE &&
		    (lane->key[0] >= threads || rows[lane->key[0]] > MOST_ROWS))
			lanes->lane[i]->state = WS_LANE_TOO_MANY; /* there are no readers yet */
		if (!says_waits(lane->kind) || lane->key[0] >= threads ||
		    rows[lane->key[0]] > MOST_ROWS)
			continue;
		at = ws_make_lane(lanes, WS_LANE_STATE, key);
		if (at == UINT32_MAX || (lanes->lane[at]->count && !lanes->lane[at]->uncounted))
			continue; /* it has spans on cores */
		lanes->lane[at]->uncounted = true;
		lanes->lane[at]->count += lane->count;
	}
	free(rows);
}

/* ---- their events ---- */

struct fill {
	struct ws_lanes *lanes;
	uint32_t *lane_of; /* by thread; UINT32_MAX for those not asked for */
	uint64_t *rows;	   /* by thread, of all tables together */
	uint8_t *chosen;   /* by thread: whether it is in memory now */
	size_t threads;
	uint8_t source;
};

static bool is_shown(const struct fill *fill, const struct ws_state *st)
{
	return st->doing != WS_DOING_UNKNOWN && st->end >= fill->lanes->opts.from &&
	       st->start <= fill->lanes->opts.to;
}

static void count(void *ctx, uint32_t worker, const struct ws_state *st)
{
	struct fill *fill = ctx;

	(void)worker;
	if (is_shown(fill, st))
		fill->lanes->lane[fill->lane_of[st->thread]]->filled++;
}

static void place(void *ctx, uint32_t worker, const struct ws_state *st)
{
	struct fill *fill = ctx;
	struct ws_lane *lane = fill->lanes->lane[fill->lane_of[st->thread]];

	(void)worker;
	if (!is_shown(fill, st))
		return;
	lane->raw[lane->placed++] =
		(struct ws_raw){.start = st->start,
				.end = st->end,
				.name = name_of(st),
				.ref = ws_state_ref(st->doing, st->wait, st->after),
				.src = fill->source,
				.there = 1};
}

/* Only for the threads in `chosen`. */
static void fill_chosen(struct fill *fill)
{
	struct ws_states_part part = {
		.threads = fill->chosen, .count = fill->threads, .to = UINT64_MAX};
	struct ws_states *states =
		ws_states_open_part(fill->lanes->report, fill->lanes->who, &part, NULL);

	ws_walk_states(states, 0, UINT64_MAX, count, fill);
	for (size_t t = 0; t < fill->threads; t++)
		if (fill->chosen[t]) {
			struct ws_lane *lane = fill->lanes->lane[fill->lane_of[t]];

			lane->raw = ws_allocate_space(lane->filled * sizeof(*lane->raw));
		}
	ws_walk_states(states, 0, UINT64_MAX, place, fill);
	ws_states_close(states);
	memset(fill->chosen, 0, fill->threads);
}

void ws_fill_states(struct ws_lanes *lanes, const uint8_t *in)
{
	struct fill fill = {.lanes = lanes,
			    .threads = (size_t)ws_highest_thread_id(lanes->who) + 1,
			    .source = WS_KIND_state};
	uint64_t rows = 0;

	fill.lane_of = ws_malloc(fill.threads * sizeof(*fill.lane_of));
	memset(fill.lane_of, 0xff, fill.threads * sizeof(*fill.lane_of));
	for (uint32_t i = 0; i < lanes->n; i++)
		if (in[i] && lanes->lane[i]->kind == WS_LANE_STATE &&
		    lanes->lane[i]->key[0] < fill.threads)
			fill.lane_of[lanes->lane[i]->key[0]] = i;
	fill.rows = rows_of_threads(lanes, fill.threads);
	fill.chosen = ws_calloc(fill.threads, 1);
	for (size_t t = 0; t < fill.threads && !__atomic_load_n(&lanes->stop, __ATOMIC_RELAXED);
	     t++) {
		if (fill.lane_of[t] == UINT32_MAX)
			continue;
		if (rows && rows + fill.rows[t] > ROWS_AT_A_TIME) {
			fill_chosen(&fill);
			rows = 0;
		}
		fill.chosen[t] = 1;
		rows += fill.rows[t];
	}
	if (rows && !__atomic_load_n(&lanes->stop, __ATOMIC_RELAXED))
		fill_chosen(&fill);
	free(fill.lane_of);
	free(fill.rows);
	free(fill.chosen);
}
