/*
 * thread_states.c - what threads did at any time (query/states.h), as the events of lanes.
 *
 * States come from several tables together, so these lanes are not read row by row like the others.
 * All rows of a few threads are in memory at a time, as many threads as have some million rows; the
 * lanes themselves are columns like all others. Where scheduling was recorded, the census counts a
 * lane's spans on cores; threads of which only calls are known get their lanes after it.
 */
#include <stdlib.h>
#include <string.h>

#include "lanes/build.h"
#include "lanes/names.h"

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

static uint8_t own_source(void)
{
	uint8_t i = 0;

	while (ws_sources[i].feeds)
		i++;
	return i;
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
	return st->wait == WS_WAIT_NONE ? NULL : ws_wait_name((enum ws_wait)st->wait);
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

/* Rows of all tables that a thread's states come from, by thread. */
static uint64_t *rows_of_threads(const struct ws_lanes *l, size_t n)
{
	uint64_t *rows = ws_calloc(n, sizeof(*rows));

	for (uint32_t i = 0; i < l->n; i++) {
		const struct ws_lane *x = l->lane[i];

		if (x->key[0] < n && ((x->kind == WS_LANE_STATE && !x->uncounted) ||
				      x->kind == WS_LANE_CUDA_API || says_waits(x->kind)))
			rows[x->key[0]] += x->count;
	}
	return rows;
}

/* Lanes whose threads have too much for memory stay as the census knows them, or are not made. */
void ws_state_lanes(struct ws_lanes *l)
{
	size_t n = l->n, threads = (size_t)ws_who_threads(l->who) + 1;
	uint64_t *rows = rows_of_threads(l, threads);

	for (size_t i = 0; i < n; i++) {
		const struct ws_lane *x = l->lane[i];
		uint32_t key[4] = {x->key[0]}, at;

		if (x->kind == WS_LANE_STATE &&
		    (x->key[0] >= threads || rows[x->key[0]] > MOST_ROWS))
			l->lane[i]->state = WS_LANE_TOO_MANY; /* nobody reads yet */
		if (!says_waits(x->kind) || x->key[0] >= threads || rows[x->key[0]] > MOST_ROWS)
			continue;
		at = ws_lane_make(l, WS_LANE_STATE, key);
		if (at == UINT32_MAX || (l->lane[at]->count && !l->lane[at]->uncounted))
			continue; /* it has spans on cores */
		l->lane[at]->uncounted = true;
		l->lane[at]->count += x->count;
	}
	free(rows);
}

/* ---- their events ---- */

struct fill {
	struct ws_lanes *l;
	uint32_t *lane_of; /* by thread; UINT32_MAX for those not asked for */
	uint64_t *rows;	   /* by thread, of all tables together */
	uint8_t *chosen;   /* by thread: is of those that are in memory now */
	size_t threads;
	uint8_t source;
};

static bool is_shown(const struct fill *f, const struct ws_state *st)
{
	return st->doing != WS_DOING_UNKNOWN && st->end >= f->l->opts.from &&
	       st->start <= f->l->opts.to;
}

static void count(void *ctx, uint32_t worker, const struct ws_state *st)
{
	struct fill *f = ctx;

	(void)worker;
	if (is_shown(f, st))
		f->l->lane[f->lane_of[st->thread]]->filled++;
}

static void place(void *ctx, uint32_t worker, const struct ws_state *st)
{
	struct fill *f = ctx;
	struct ws_lane *lane = f->l->lane[f->lane_of[st->thread]];

	(void)worker;
	if (!is_shown(f, st))
		return;
	lane->raw[lane->placed++] =
		(struct ws_raw){.start = st->start,
				.end = st->end,
				.name = name_of(st),
				.ref = ws_state_ref(st->doing, st->wait, st->after),
				.src = f->source,
				.there = 1};
}

/* Of the threads in `chosen`. */
static void fill_chosen(struct fill *f)
{
	struct ws_states_part part = {.threads = f->chosen, .n = f->threads, .to = UINT64_MAX};
	struct ws_states *s = ws_states_open_part(f->l->r, f->l->who, &part, NULL);

	ws_states_run(s, 0, UINT64_MAX, count, f);
	for (size_t t = 0; t < f->threads; t++)
		if (f->chosen[t]) {
			struct ws_lane *lane = f->l->lane[f->lane_of[t]];

			lane->raw = ws_space_new(lane->filled * sizeof(*lane->raw));
		}
	ws_states_run(s, 0, UINT64_MAX, place, f);
	ws_states_close(s);
	memset(f->chosen, 0, f->threads);
}

void ws_states_fill(struct ws_lanes *l, const uint8_t *in)
{
	struct fill f = {
		.l = l, .threads = (size_t)ws_who_threads(l->who) + 1, .source = own_source()};
	uint64_t rows = 0;

	f.lane_of = ws_malloc(f.threads * sizeof(*f.lane_of));
	memset(f.lane_of, 0xff, f.threads * sizeof(*f.lane_of));
	for (uint32_t i = 0; i < l->n; i++)
		if (in[i] && l->lane[i]->kind == WS_LANE_STATE && l->lane[i]->key[0] < f.threads)
			f.lane_of[l->lane[i]->key[0]] = i;
	f.rows = rows_of_threads(l, f.threads);
	f.chosen = ws_calloc(f.threads, 1);
	for (size_t t = 0; t < f.threads && !__atomic_load_n(&l->stop, __ATOMIC_RELAXED); t++) {
		if (f.lane_of[t] == UINT32_MAX)
			continue;
		if (rows && rows + f.rows[t] > ROWS_AT_A_TIME) {
			fill_chosen(&f);
			rows = 0;
		}
		f.chosen[t] = 1;
		rows += f.rows[t];
	}
	if (rows && !__atomic_load_n(&l->stop, __ATOMIC_RELAXED))
		fill_chosen(&f);
	free(f.lane_of);
	free(f.rows);
	free(f.chosen);
}
