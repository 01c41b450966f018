/*
 * build.c - the events of lanes, read in the background.
 *
 * After the census two threads work. One reads what no one has asked for yet, source by source and
 * small lanes first, up to a limit: reports of usual sizes are then all there at the first move.
 * The other reads what someone looks at (ws_lanes_want); the first pauses meanwhile. A set of lanes
 * is read by scanning the blocks that have rows of them, on all cores, to places that the census
 * gave; then each lane is finished (level.c). When the room for events is used up, the lanes that
 * no one has looked at for longest go back to what is known of them without reading.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lanes/build.h"
#include "base/sort.h"
#include "lanes/names.h"

/* An event on its way, and once it is there (with its share of sums). */
enum { BYTES_READING = sizeof(struct ws_raw) + 24, BYTES_READ = 24, UNASKED = 32 << 20 };
/* A lane of more events is large; wanted lanes are read as many at a time as have about so many. */
enum { LARGE = 2 << 20, AT_A_TIME = 8 << 20 };

/* Names of NVTX domains, from the blocks in which the census saw some. */
static void name_domains(struct ws_lanes *l)
{
	size_t blocks = ws_report_blocks(l->r, WS_TABLE_nvtx);
	uint64_t *out[WS_MAX_COLUMNS] = {NULL}, columns = WS_COL(nvtx, type) |
							  WS_COL(nvtx, thread) |
							  WS_COL(nvtx, domain) | WS_COL(nvtx, text);

	for (size_t i = 0; i < blocks; i++) {
		uint32_t rows = ws_report_block(l->r, WS_TABLE_nvtx, i).rows;

		if (!l->names_domains[i])
			continue;
		for (uint32_t k = 0; k < ws_nvtx_COLUMNS; k++)
			if (columns >> k & 1)
				out[k] = ws_realloc(out[k], (size_t)rows * 8);
		if (ws_report_decode(l->r, WS_TABLE_nvtx, i, columns, out, NULL))
			continue;
		for (uint32_t j = 0; j < rows; j++)
			if (out[ws_nvtx_type][j] == WS_NVTX_DOMAIN_CREATE)
				ws_map_set(&l->domains,
					   (uint64_t)ws_who_thread(l->who,
								   (uint32_t)out[ws_nvtx_thread][j])
								   ->process
							   << 32 |
						   (uint32_t)out[ws_nvtx_domain][j],
					   out[ws_nvtx_text][j]);
	}
	for (uint32_t k = 0; k < ws_nvtx_COLUMNS; k++)
		free(out[k]);
}

/* ---- the events ---- */

static uint8_t palette_index(struct ws_lanes *l, uint32_t argb)
{
	uint32_t n = __atomic_load_n(&l->palette_n, __ATOMIC_ACQUIRE), i;

	for (i = 1; i < n; i++)
		if (l->palette[i] == argb)
			return (uint8_t)i;
	pthread_mutex_lock(&l->lock);
	for (i = n; i < l->palette_n && l->palette[i] != argb; i++)
		;
	if (i == l->palette_n && i < WS_COUNT(l->palette)) {
		l->palette[i] = argb;
		__atomic_store_n(&l->palette_n, i + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&l->lock);
	return i < WS_COUNT(l->palette) ? (uint8_t)i : 0;
}

/* The innermost function at a frame. */
static uint32_t function_of(const struct ws_stacks *s, uint32_t frame)
{
	return WS_NAME(WS_NAME_FUNCTION, ws_stacks_places(s, ws_stacks_frame(s, frame))->function);
}

static uint32_t row_name(const struct ws_lane_pass *p, const struct ws_batch *b, size_t i)
{
	uint64_t v = p->s->name >= 0 ? b->col[p->s->name][i] : 0;
	uint32_t caller;

	switch (p->s->naming) {
	case WS_NAMED_STR:
		return WS_NAME(WS_NAME_STRING, v);
	case WS_NAMED_THREAD:
		return WS_NAME(WS_NAME_THREAD, v);
	case WS_NAMED_FRAME:
		return function_of(p->l->stacks, (uint32_t)v);
	case WS_NAMED_STACK:
		return function_of(p->l->stacks,
				   ws_stacks_step(p->l->stacks, (uint32_t)v, &caller));
	default:
		return WS_NAME(WS_NAME_OURS, p->s->ours + (v < p->s->ours_n ? v : 0));
	}
}

/* Marks of NVTX and instants of other tools' traces have no end either, but are not ranges that
 * never ended. */
static bool is_moment(const struct ws_lane_pass *p, const struct ws_batch *b, size_t i)
{
	return p->s->end < 0 || (p->nvtx && b->col[ws_nvtx_type][i] == WS_NVTX_MARK) ||
	       (p->s->table == WS_TABLE_slice && b->col[ws_slice_flags][i] & WS_SLICE_INSTANT);
}

void ws_lane_raw_of_row(const struct ws_lane_pass *p, const struct ws_batch *b, size_t i,
			struct ws_raw *e)
{
	const struct ws_source *s = p->s;

	*e = (struct ws_raw){.start = b->col[s->start][i],
			     .ref = (uint32_t)(p->row_base[b->block] + i),
			     .src = (uint8_t)p->source};
	if (s->name < 0) { /* a counter: the value instead of an end */
		double d = (double)b->col[s->end][i];

		memcpy(&e->end, s->f64 ? (const void *)&b->col[s->end][i] : &d, 8);
		return;
	}
	e->name = row_name(p, b, i);
	e->end = s->end >= 0 ? b->col[s->end][i] : e->start;
	if (is_moment(p, b, i)) {
		e->end = e->start;
		e->src |= WS_EVENT_MOMENT;
	} else if (e->end == WS_NO_TIME || e->end < e->start) {
		e->end = e->start > p->l->last ? e->start : p->l->last;
		e->src |= WS_EVENT_OPEN;
	}
	if (p->nvtx && b->col[ws_nvtx_flags][i] & WS_NVTX_HAS_COLOR)
		e->paint = palette_index(p->l, (uint32_t)b->col[ws_nvtx_color][i]);
}

/* The entries of a block are consecutive. */
static const struct ws_census_entry *block_entries(const struct ws_lane_pass *p, uint32_t block,
						   size_t *n)
{
	size_t low = ws_bisect(p->entries, mid, p->first[mid].block < block);

	for (*n = 0; low + *n < p->entries && p->first[low + *n].block == block; ++*n)
		;
	return p->first + low;
}

/* States of threads are no rows. */
static bool is_placed(const struct ws_lane_pass *p, uint32_t lane)
{
	return p->in_set[lane] && p->l->lane[lane]->kind != WS_LANE_STATE;
}

static int place_batch(void *ctx, const struct ws_batch *b)
{
	struct ws_lane_pass *p = ctx;
	struct ws_lane_worker *w = &p->workers[b->worker];
	size_t n;
	const struct ws_census_entry *c = block_entries(p, (uint32_t)b->block, &n);
	struct ws_raw e;

	p->seen[b->block] = 1;
	for (size_t i = 0; i < n; i++) {
		ws_lane_worker_need(w, c[i].lane);
		w->at[c[i].lane] = is_placed(p, c[i].lane) ? c[i].at : 0;
		w->end[c[i].lane] = is_placed(p, c[i].lane) ? c[i].at + c[i].count : 0;
	}
	for (uint32_t f = 0; n && f < p->s->feeds; f++)
		for (size_t i = 0; i < b->rows; i++) {
			uint32_t lane = ws_lane_of_row(p, w, f, b, i);

			/* More rows than the census counted are in a report that says wrong things
			 * of itself, or that changed. */
			if (lane == UINT32_MAX || lane >= w->lanes || w->at[lane] >= w->end[lane])
				continue;
			ws_lane_raw_of_row(p, b, i, &e);
			e.there = 1;
			p->l->lane[lane]->raw[w->at[lane]++] = e;
		}
	for (size_t i = 0; i < n; i++) {
		if (is_placed(p, c[i].lane))
			__atomic_fetch_add(&p->l->lane[c[i].lane]->placed,
					   w->at[c[i].lane] - c[i].at, __ATOMIC_RELAXED);
		w->at[c[i].lane] = w->end[c[i].lane] = 0;
	}
	while (p->waits && __atomic_load_n(&p->l->hurry, __ATOMIC_RELAXED) &&
	       !__atomic_load_n(&p->l->stop, __ATOMIC_RELAXED))
		usleep(2000);
	return __atomic_load_n(&p->l->stop, __ATOMIC_RELAXED);
}

uint64_t ws_lane_event_columns(const struct ws_source *s)
{
	uint64_t columns = ws_lane_key_columns(s) | UINT64_C(1) << s->start;

	if (s->end >= 0)
		columns |= UINT64_C(1) << s->end;
	if (s->name >= 0)
		columns |= UINT64_C(1) << s->name;
	if (s->table == WS_TABLE_nvtx)
		columns |= WS_COL(nvtx, color) | WS_COL(nvtx, flags);
	if (s->table == WS_TABLE_slice)
		columns |= WS_COL(slice, flags);
	return columns;
}

uint64_t *ws_lane_row_bases(const struct ws_report *r, enum ws_table t)
{
	size_t n = ws_report_blocks(r, t);
	uint64_t *base = ws_calloc(n + 1, sizeof(*base));

	for (size_t i = 0; i < n; i++)
		base[i + 1] = base[i] + ws_report_block(r, t, i).rows;
	return base;
}

/* ---- a set of lanes ---- */

struct set {
	struct ws_lanes *l;
	struct ws_lane_worker *workers;
	uint32_t worker_n;
	uint8_t *in; /* by lane */
	uint32_t next;
	pthread_t thread;
	bool waits;
};

/* Blocks that could not be read are said once, however often lanes are read from them. */
static void count_damaged(struct ws_lanes *l, struct ws_census_entry *c, size_t n,
			  const uint8_t *skip, const uint8_t *seen)
{
	for (size_t i = 0; i < n; i++) {
		bool first = !i || c[i].block != c[i - 1].block;

		if (skip[c[i].block] || seen[c[i].block] || !first || c[i].bad)
			continue;
		c[i].bad = true;
		__atomic_fetch_add(&l->damaged, 1, __ATOMIC_RELAXED);
	}
}

static void place_source(struct set *set, size_t first, size_t entries)
{
	struct ws_lanes *l = set->l;
	struct ws_lane_pass p = ws_lane_pass_new(l, l->census[first].source, set->workers);
	size_t blocks = ws_report_blocks(l->r, p.s->table);
	uint8_t *skip = ws_malloc(blocks), *seen = ws_calloc(blocks, 1);
	uint64_t *base = ws_lane_row_bases(l->r, p.s->table);
	struct ws_scan sc = {.table = p.s->table,
			     .columns = ws_lane_event_columns(p.s),
			     .time_max = UINT64_MAX,
			     .skip = skip};
	bool any = false;

	memset(skip, 1, blocks);
	for (size_t i = first; i < first + entries; i++)
		if (set->in[l->census[i].lane] && l->lane[l->census[i].lane]->kind != WS_LANE_STATE)
			skip[l->census[i].block] = 0, any = true;
	p.row_base = base;
	p.first = l->census + first;
	p.entries = entries;
	p.in_set = set->in;
	p.seen = seen;
	p.waits = set->waits;
	if (any) {
		ws_lane_workers_forget(set->workers, set->worker_n);
		ws_scan_run(l->r, &sc, place_batch, &p, NULL);
		if (!__atomic_load_n(&l->stop, __ATOMIC_RELAXED))
			count_damaged(l, l->census + first, entries, skip, seen);
	}
	free(base);
	free(skip);
	free(seen);
}

static void *finish_lanes(void *arg)
{
	struct set *s = arg;

	for (;;) {
		uint32_t i = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED);

		if (i >= s->l->n || __atomic_load_n(&s->l->stop, __ATOMIC_RELAXED))
			return NULL;
		if (s->in[i])
			ws_lane_finish(s->l, s->l->lane[i]);
	}
}

/* Two lanes at a time. */
static void finish_all(struct set *s)
{
	bool two = !pthread_create(&s->thread, NULL, finish_lanes, s);

	finish_lanes(s);
	if (two)
		pthread_join(s->thread, NULL);
}

static bool any_states(const struct set *s)
{
	for (uint32_t i = 0; i < s->l->n; i++)
		if (s->in[i] && s->l->lane[i]->kind == WS_LANE_STATE)
			return true;
	return false;
}

static void read_set(struct set *s)
{
	struct ws_lanes *l = s->l;

	for (uint32_t i = 0; i < l->n; i++)
		if (s->in[i] && l->lane[i]->kind != WS_LANE_STATE) {
			l->lane[i]->raw =
				ws_space_new(l->lane[i]->count * sizeof(*l->lane[i]->raw));
			l->lane[i]->filled = l->lane[i]->count;
		}
	for (size_t i = 0, to; i < l->census_n && !__atomic_load_n(&l->stop, __ATOMIC_RELAXED);
	     i = to) {
		for (to = i + 1; to < l->census_n && l->census[to].source == l->census[i].source;
		     to++)
			;
		place_source(s, i, to - i);
	}
	if (any_states(s))
		ws_states_fill(l, s->in);
	s->next = 0;
	finish_all(s);
}

/* Under the lock; ws_lane_reading looks without. */
static void set_state(struct ws_lane *lane, enum ws_lane_state state)
{
	__atomic_store_n(&lane->state, (uint8_t)state, __ATOMIC_RELAXED);
}

/* ---- room ---- */

static uint64_t times(uint64_t n, uint64_t bytes)
{
	return n < UINT64_MAX / bytes ? n * bytes : UINT64_MAX;
}

/* Bytes of a lane. A span on a core makes up to three states, and what is on a core is noted once
 * more. */
static uint64_t bytes_of(const struct ws_lane *lane, uint64_t each)
{
	return times(lane->count, lane->kind == WS_LANE_STATE ? 4 * each : each);
}

/* Let go of the lane that no one has looked at for longest; false when there is none. Under the
 * lock, which it gives away meanwhile. */
static bool forget_one(struct ws_lanes *l)
{
	uint32_t now = __atomic_load_n(&l->clock, __ATOMIC_RELAXED), best = UINT32_MAX, oldest = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		uint32_t age = now - __atomic_load_n(&l->lane[i]->asked, __ATOMIC_RELAXED);

		if (l->lane[i]->state == WS_LANE_READ && l->lane[i]->kind != WS_LANE_PROJECTED &&
		    age >= oldest) {
			oldest = age;
			best = i;
		}
	}
	if (best == UINT32_MAX)
		return false;
	set_state(l->lane[best], WS_LANE_LEAVING);
	pthread_mutex_unlock(&l->lock); /* who looks at levels may want the lock */
	pthread_rwlock_wrlock(&l->shown);
	ws_lane_forget(l->lane[best]);
	pthread_rwlock_unlock(&l->shown);
	pthread_mutex_lock(&l->lock);
	set_state(l->lane[best], WS_LANE_IDLE);
	l->used -= bytes_of(l->lane[best], BYTES_READ);
	if (!l->lane[best]->uncounted)
		__atomic_fetch_sub(&l->built_events, l->lane[best]->count, __ATOMIC_RELAXED);
	return true;
}

/* Room for one more lane, others having to go where `forget`. Under the lock. */
static bool take_room(struct ws_lanes *l, const struct ws_lane *lane, bool forget)
{
	uint64_t need = bytes_of(lane, BYTES_READING);

	if (need > l->opts.room)
		return false;
	while (l->used + need > l->opts.room)
		if (!forget || !forget_one(l))
			return false;
	l->used += need;
	return true;
}

static void set_read(struct set *s)
{
	struct ws_lanes *l = s->l;

	pthread_mutex_lock(&l->lock);
	for (uint32_t i = 0; i < l->n; i++)
		if (s->in[i]) {
			set_state(l->lane[i], WS_LANE_READ);
			l->used -= bytes_of(l->lane[i], BYTES_READING - BYTES_READ);
			l->busy--;
		}
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

static void add_to_set(struct set *s, uint32_t i)
{
	s->in[i] = 1;
	s->l->busy += s->l->lane[i]->state == WS_LANE_IDLE;
	set_state(s->l->lane[i], WS_LANE_READING);
}

/* ---- what is asked for ---- */

struct sized {
	uint64_t count;
	uint32_t lane;
};

static int by_size(const void *a, const void *b)
{
	const struct sized *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? -1 : 1;
	return x->lane < y->lane ? -1 : x->lane > y->lane;
}

/* The names of samples are functions. */
static bool needs_stacks(const struct set *s)
{
	for (uint32_t i = 0; i < s->l->n; i++)
		if (s->in[i] && (s->l->lane[i]->kind == WS_LANE_SAMPLE ||
				 s->l->lane[i]->kind == WS_LANE_PYTHON))
			return true;
	return false;
}

/* Some of the lanes that are wanted, small ones first: these are there at once, whatever else is
 * wanted. Under the lock. */
static bool take_wanted(struct set *s)
{
	struct sized *v = ws_malloc((s->l->n + 1) * sizeof(*v));
	uint64_t events = 0;
	bool any = false;
	size_t n = 0;

	memset(s->in, 0, s->l->n);
	for (uint32_t i = 0; i < s->l->n; i++)
		if (s->l->lane[i]->state == WS_LANE_WANTED)
			v[n++] = (struct sized){s->l->lane[i]->count, i};
	qsort(v, n, sizeof(*v), by_size);
	for (size_t k = 0; k < n && (!any || events + v[k].count <= AT_A_TIME); k++) {
		struct ws_lane *lane = s->l->lane[v[k].lane];

		if (take_room(s->l, lane, !any)) {
			add_to_set(s, v[k].lane);
			events += v[k].count;
			any = true;
		} else if (!any) { /* nothing stands in its way but its size */
			set_state(lane, WS_LANE_TOO_MANY);
			s->l->busy--;
			pthread_cond_broadcast(&s->l->changed);
		}
	}
	free(v);
	return any;
}

static struct set new_set(struct ws_lanes *l, bool waits)
{
	struct set s = {.l = l, .waits = waits, .in = ws_calloc(l->n + 1, 1)};

	s.workers = ws_lane_workers_new(&s.worker_n);
	return s;
}

static void free_set(struct set *s)
{
	ws_lane_workers_free(s->workers, s->worker_n);
	free(s->in);
}

static void *serve(void *arg)
{
	struct ws_lanes *l = arg;
	struct set s;
	bool any;

	ws_lanes_wait_census(l);
	s = new_set(l, false);
	pthread_mutex_lock(&l->lock);
	while (!l->stop) {
		any = take_wanted(&s);
		__atomic_store_n(&l->hurry, any, __ATOMIC_RELAXED);
		if (!any) {
			pthread_cond_wait(&l->changed, &l->lock);
			continue;
		}
		pthread_mutex_unlock(&l->lock);
		if (needs_stacks(&s))
			ws_lanes_wait_stacks(l);
		read_set(&s);
		if (!__atomic_load_n(&l->stop, __ATOMIC_RELAXED))
			set_read(&s);
		pthread_mutex_lock(&l->lock);
	}
	pthread_mutex_unlock(&l->lock);
	free_set(&s);
	return NULL;
}

void ws_lanes_want(struct ws_lanes *l, uint32_t i)
{
	struct ws_lane *lane = l->lane[i];

	__atomic_store_n(&lane->asked, __atomic_add_fetch(&l->clock, 1, __ATOMIC_RELAXED),
			 __ATOMIC_RELAXED);
	if (ws_lane_ready(lane) || lane->kind == WS_LANE_PROJECTED)
		return;
	pthread_mutex_lock(&l->lock);
	if (lane->state == WS_LANE_IDLE && l->serving) {
		set_state(lane, WS_LANE_WANTED);
		l->busy++;
		pthread_cond_broadcast(&l->changed);
	}
	pthread_mutex_unlock(&l->lock);
}

void ws_lanes_want_at(struct ws_lanes *l, uint32_t i, uint64_t px)
{
	if (l->lane[i]->count <= LARGE || l->lane[i]->grain > px || ws_lane_ready(l->lane[i]))
		ws_lanes_want(l, i);
}

uint32_t ws_lanes_unread(struct ws_lanes *l, uint32_t *reading)
{
	uint32_t n = 0;

	pthread_mutex_lock(&l->lock);
	for (uint32_t i = 0; i < l->n; i++)
		n += l->lane[i]->kind != WS_LANE_PROJECTED && !ws_lane_ready(l->lane[i]);
	*reading = l->busy;
	pthread_mutex_unlock(&l->lock);
	return n;
}

/* ---- what no one has asked for ---- */

/* Those lanes of the set that are not read yet, as far as the limit goes. Under the lock. */
static bool take_unread(struct set *s, uint64_t *left)
{
	struct ws_lanes *l = s->l;
	struct sized *v = ws_malloc((l->n + 1) * sizeof(*v));
	size_t n = 0;
	bool any = false;

	for (uint32_t i = 0; i < l->n; i++)
		if (s->in[i] && l->lane[i]->state == WS_LANE_IDLE)
			v[n++] = (struct sized){l->lane[i]->count, i};
	memset(s->in, 0, l->n);
	qsort(v, n, sizeof(*v), by_size);
	for (size_t i = 0; i < n && v[i].count <= *left; i++) {
		if (!take_room(l, l->lane[v[i].lane], false))
			break;
		add_to_set(s, v[i].lane);
		*left -= v[i].count;
		any = true;
	}
	free(v);
	return any;
}

/* Read what can be of the lanes in the set. Under the lock, which it gives back. */
static void read_some(struct set *s, uint64_t *left)
{
	bool any = take_unread(s, left);

	pthread_mutex_unlock(&s->l->lock);
	if (!any)
		return;
	read_set(s);
	if (!__atomic_load_n(&s->l->stop, __ATOMIC_RELAXED))
		set_read(s);
}

static void read_unasked(struct ws_lanes *l)
{
	struct set s = new_set(l, true);
	uint64_t left = l->opts.unasked;

	for (size_t i = 0, to; i < l->census_n && !__atomic_load_n(&l->stop, __ATOMIC_RELAXED);
	     i = to) {

		for (to = i + 1; to < l->census_n && l->census[to].source == l->census[i].source;
		     to++)
			;
		pthread_mutex_lock(&l->lock);
		memset(s.in, 0, l->n);
		for (size_t k = i; k < to; k++)
			s.in[l->census[k].lane] = 1;
		read_some(&s, &left);
	}
	pthread_mutex_lock(&l->lock);
	for (uint32_t i = 0; i < l->n; i++)
		s.in[i] = l->lane[i]->kind == WS_LANE_STATE && l->lane[i]->uncounted;
	read_some(&s, &left);
	free_set(&s);
}

/* ---- the threads ---- */

bool ws_lanes_projects(const struct ws_lanes *l)
{
	return ws_report_rows(l->r, WS_TABLE_cuda_api) <= l->opts.unasked;
}

static void set_flag(struct ws_lanes *l, int *flag)
{
	pthread_mutex_lock(&l->lock);
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE); /* some look without the lock */
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

/* Until nothing is being read that someone asked for: projecting needs the ranges. */
static void wait_idle(struct ws_lanes *l)
{
	pthread_mutex_lock(&l->lock);
	while (l->busy && !l->stop)
		pthread_cond_wait(&l->changed, &l->lock);
	pthread_mutex_unlock(&l->lock);
}

static void *build(void *arg)
{
	struct ws_lanes *l = arg;
	uint32_t n;
	struct ws_lane_worker *workers = ws_lane_workers_new(&n);

	ws_lanes_census(l, workers, n);
	ws_lane_workers_free(workers, n);
	name_domains(l);
	ws_project_lanes(l);
	ws_state_lanes(l);
	set_flag(l, &l->census_done);
	l->stacks = ws_stacks_open(l->r, NULL);
	set_flag(l, &l->stacks_done);
	read_unasked(l);
	wait_idle(l);
	set_flag(l, &l->placed);
	if (ws_lanes_projects(l))
		ws_project(l);
	set_flag(l, &l->built);
	return NULL;
}

/* The end of the recording, or of what is shown: tables whose rows may belong to no thread do not
 * count for the former. */
static uint64_t last_of(const struct ws_report *r)
{
	uint64_t last = ws_time_last(r);

	for (size_t i = 0; i < ws_source_count; i++)
		for (size_t k = 0; k < ws_report_blocks(r, ws_sources[i].table); k++) {
			uint64_t max = ws_report_block(r, ws_sources[i].table, k).time_max;

			last = max > last && max != UINT64_MAX ? max : last;
		}
	return last;
}

struct ws_lanes *ws_lanes_open(const struct ws_report *r, const struct ws_lanes_opts *opts)
{
	struct ws_lanes *l = ws_calloc(1, sizeof(*l));

	l->r = r;
	l->who = ws_who_open(r);
	l->zero = ws_time_zero(r);
	l->last = last_of(r);
	l->opts = opts ? *opts
		       : (struct ws_lanes_opts){
				 .unasked = UNASKED, .room = ws_space_room(), .to = UINT64_MAX};
	l->palette_n = 1;
	l->names_domains = ws_calloc(ws_report_blocks(r, WS_TABLE_nvtx) + 1, 1);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	pthread_rwlock_init(&l->shown, NULL);
	for (size_t i = 0; l->opts.like && i < l->opts.like->n; i++)
		ws_lane_make(l, l->opts.like->lane[i]->kind, l->opts.like->lane[i]->key);
	l->building = !pthread_create(&l->builder, NULL, build, l);
	l->serving = l->building && !pthread_create(&l->server, NULL, serve, l);
	if (!l->building)
		build(l);
	return l;
}

static void wait_for(struct ws_lanes *l, const int *flag)
{
	pthread_mutex_lock(&l->lock);
	while (!*flag && !l->stop)
		pthread_cond_wait(&l->changed, &l->lock);
	pthread_mutex_unlock(&l->lock);
}

void ws_lanes_wait_census(struct ws_lanes *l)
{
	wait_for(l, &l->census_done);
}

void ws_lanes_wait_stacks(struct ws_lanes *l)
{
	wait_for(l, &l->stacks_done);
}

void ws_lanes_wait(struct ws_lanes *l)
{
	wait_for(l, &l->built);
}

void ws_lanes_close(struct ws_lanes *l)
{
	if (!l)
		return;
	set_flag(l, &l->stop);
	if (l->building)
		pthread_join(l->builder, NULL);
	if (l->serving)
		pthread_join(l->server, NULL);
	for (size_t i = 0; i < l->n; i++)
		ws_lane_free(l->lane[i]);
	free(l->lane);
	free(l->slots);
	free(l->census);
	free(l->glimpse);
	free(l->names_domains);
	ws_map_free(&l->domains);
	ws_stacks_close(l->stacks);
	ws_who_close(l->who);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->changed);
	pthread_rwlock_destroy(&l->shown);
	free(l);
}
