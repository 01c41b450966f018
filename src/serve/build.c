/*
 * build.c - the lanes of a report, in the background.
 *
 * First the census: of every block, the columns that tell lanes apart are decoded and rows counted by lane. That costs a fraction
 * of reading the events, gives the tree of rows, a place for each event, and a rough picture: where each block's rows lie. Then
 * source by source the events are read to their places on all cores, and as soon as nothing more feeds a lane it is finished.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/lane.h"
#include "serve/names.h"

/* ---- lanes by kind and key ---- */

static uint64_t hash_key(uint8_t kind, const uint32_t *key)
{
	uint64_t h = kind;

	for (int i = 0; i < 4; i++)
		h = (h ^ key[i]) * UINT64_C(0x9e3779b97f4a7c15), h ^= h >> 29;
	return h;
}

static void grow_slots(struct ws_lanes *l)
{
	size_t n = l->slot_count ? l->slot_count * 2 : 256;
	uint32_t *slots = ws_calloc(n, sizeof(*slots));

	for (size_t i = 0; i < l->n; i++) {
		size_t at = hash_key(l->lane[i]->kind, l->lane[i]->key) & (n - 1);

		while (slots[at])
			at = (at + 1) & (n - 1);
		slots[at] = (uint32_t)i + 1;
	}
	free(l->slots);
	l->slots = slots;
	l->slot_count = n;
}

enum { MOST_LANES = 1 << 20 }; /* a damaged file must not cost gigabytes */

/* Number of the lane, made if it is new; UINT32_MAX when there are too many. Under the lock. */
static uint32_t find_lane(struct ws_lanes *l, uint8_t kind, const uint32_t *key)
{
	size_t at;
	struct ws_lane *lane;

	if (l->n * 2 >= l->slot_count)
		grow_slots(l);
	for (at = hash_key(kind, key) & (l->slot_count - 1); l->slots[at]; at = (at + 1) & (l->slot_count - 1)) {
		lane = l->lane[l->slots[at] - 1];
		if (lane->kind == kind && !memcmp(lane->key, key, sizeof(lane->key)))
			return l->slots[at] - 1;
	}
	if (l->n == MOST_LANES)
		return UINT32_MAX;
	lane = ws_calloc(1, sizeof(*lane));
	lane->kind = kind;
	memcpy(lane->key, key, sizeof(lane->key));
	ws_grow(l->lane, l->cap, l->n + 1);
	l->lane[l->n++] = lane;
	l->slots[at] = (uint32_t)l->n;
	return (uint32_t)l->n - 1;
}

uint32_t ws_lane_make(struct ws_lanes *l, uint8_t kind, const uint32_t key[4])
{
	uint32_t i;

	pthread_mutex_lock(&l->lock);
	i = find_lane(l, kind, key);
	pthread_mutex_unlock(&l->lock);
	return i;
}

/* ---- one pass over a source ---- */

enum { CACHE = 64 };

struct worker {
	struct {
		uint32_t key[4], lane;
		uint8_t kind;
		bool set;
	} cache[2][CACHE];
	uint64_t *at;	   /* by lane: rows counted, or the place of the next row */
	uint32_t *touched; /* lanes with a count, in this block */
	size_t lanes, n, cap;
	struct ws_census_entry *out;
	size_t out_n, out_cap;
} __attribute__((aligned(128)));

struct pass {
	struct ws_lanes *l;
	const struct ws_source *s;
	uint32_t source;
	struct worker *workers;
	const uint64_t *row_base;	     /* number of the first row of each block */
	const struct ws_census_entry *first; /* of this source; sorted by block */
	size_t entries;
	bool nvtx;
};

static uint32_t lane_of(struct pass *p, struct worker *w, uint32_t feed, const uint32_t *key)
{
	const struct ws_feed *f = &p->s->feed[feed];
	size_t i = (key[0] + key[1] * 7 + key[2] * 31 + key[3] * 13) % CACHE;

	if (ws_likely(w->cache[feed][i].set && !memcmp(w->cache[feed][i].key, key, 16)))
		return w->cache[feed][i].lane;
	pthread_mutex_lock(&p->l->lock);
	w->cache[feed][i].lane = find_lane(p->l, f->kind, key);
	pthread_mutex_unlock(&p->l->lock);
	memcpy(w->cache[feed][i].key, key, 16);
	w->cache[feed][i].set = true;
	return w->cache[feed][i].lane;
}

static bool wanted(const struct pass *p, const struct ws_feed *f, const struct ws_batch *b, size_t i)
{
	uint64_t v;

	if (p->nvtx) {
		v = b->col[ws_nvtx_type][i];
		if (ws_unlikely(v == WS_NVTX_DOMAIN_CREATE))
			__atomic_store_n(&p->l->names_domains[b->block], 1, __ATOMIC_RELAXED);
		return v == WS_NVTX_PUSHPOP || v == WS_NVTX_STARTEND || v == WS_NVTX_MARK;
	}
	if (f->when == WS_FEED_ALWAYS)
		return true;
	v = b->col[f->test][i];
	return f->when == WS_FEED_ZERO ? !v : f->when == WS_FEED_NONZERO ? v != 0 : v != WS_NO_U32;
}

/* The lane of row i by feed `feed`, or UINT32_MAX for none. */
static uint32_t row_lane(struct pass *p, struct worker *w, uint32_t feed, const struct ws_batch *b, size_t i)
{
	const struct ws_feed *f = &p->s->feed[feed];
	uint32_t key[4] = {0};

	if (!wanted(p, f, b, i))
		return UINT32_MAX;
	for (uint32_t k = 0; k < f->keys; k++)
		key[k] = (uint32_t)b->col[f->key[k]][i];
	if (p->nvtx) /* start/end ranges overlap as they like: they would push nested ones about */
		key[2] = b->col[ws_nvtx_type][i] == WS_NVTX_STARTEND;
	if (p->s->table == WS_TABLE_op) /* deep stacks of Python would push operators out of sight */
		key[1] = b->col[ws_op_kind][i] == WS_OP_PYTHON;
	return lane_of(p, w, feed, key);
}

static void need_lane(struct worker *w, uint32_t lane)
{
	size_t old = w->lanes;

	if (lane < old)
		return;
	ws_grow(w->at, w->lanes, (size_t)lane + 1);
	memset(w->at + old, 0, (w->lanes - old) * sizeof(*w->at));
}

static uint64_t key_columns(const struct ws_source *s)
{
	uint64_t columns = s->table == WS_TABLE_nvtx ? WS_COL(nvtx, type) : s->table == WS_TABLE_op ? WS_COL(op, kind) : 0;

	for (uint32_t f = 0; f < s->feeds; f++) {
		for (uint32_t k = 0; k < s->feed[f].keys; k++)
			columns |= UINT64_C(1) << s->feed[f].key[k];
		if (s->feed[f].when)
			columns |= UINT64_C(1) << s->feed[f].test;
	}
	return columns;
}

/* ---- the census ---- */

static int count_batch(void *ctx, const struct ws_batch *b)
{
	struct pass *p = ctx;
	struct worker *w = &p->workers[b->worker];

	w->n = 0;
	for (uint32_t f = 0; f < p->s->feeds; f++)
		for (size_t i = 0; i < b->rows; i++) {
			uint32_t lane = row_lane(p, w, f, b, i);

			if (lane == UINT32_MAX)
				continue;
			need_lane(w, lane);
			if (!w->at[lane]++) {
				ws_grow(w->touched, w->cap, w->n + 1);
				w->touched[w->n++] = lane;
			}
		}
	for (size_t i = 0; i < w->n; i++) {
		ws_grow(w->out, w->out_cap, w->out_n + 1);
		w->out[w->out_n++] =
		    (struct ws_census_entry){p->source, (uint32_t)b->block, w->touched[i], (uint32_t)w->at[w->touched[i]], 0};
		w->at[w->touched[i]] = 0;
	}
	return __atomic_load_n(&p->l->stop, __ATOMIC_RELAXED);
}

static int by_place(const void *a, const void *b)
{
	const struct ws_census_entry *x = a, *y = b;

	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	return x->lane < y->lane ? -1 : x->lane > y->lane;
}

/* Names of NVTX domains, from the blocks in which the census saw some. */
static void name_domains(struct ws_lanes *l)
{
	size_t blocks = ws_report_blocks(l->r, WS_TABLE_nvtx);
	uint64_t *out[WS_MAX_COLUMNS] = {NULL},
		 columns = WS_COL(nvtx, type) | WS_COL(nvtx, thread) | WS_COL(nvtx, domain) | WS_COL(nvtx, text);

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
					   (uint64_t)ws_who_thread(l->who, (uint32_t)out[ws_nvtx_thread][j])->process << 32 |
					       (uint32_t)out[ws_nvtx_domain][j],
					   out[ws_nvtx_text][j]);
	}
	for (uint32_t k = 0; k < ws_nvtx_COLUMNS; k++)
		free(out[k]);
}

static void take_census(struct ws_lanes *l, struct worker *workers, uint32_t worker_n)
{
	for (uint32_t s = 0; s < ws_source_count; s++) {
		struct pass p = {
		    .l = l, .s = &ws_sources[s], .source = s, .workers = workers, .nvtx = ws_sources[s].table == WS_TABLE_nvtx};
		struct ws_scan sc = {.table = p.s->table, .columns = key_columns(p.s), .time_max = UINT64_MAX};

		for (uint32_t i = 0; i < worker_n; i++)
			memset(workers[i].cache, 0, sizeof(workers[i].cache));
		if (ws_report_rows(l->r, p.s->table) && ws_report_rows(l->r, p.s->table) < UINT32_MAX)
			ws_scan_run(l->r, &sc, count_batch, &p, NULL);
	}
	for (uint32_t i = 0; i < worker_n; i++) {
		ws_grow(l->census, l->census_cap, l->census_n + workers[i].out_n);
		if (workers[i].out_n)
			memcpy(l->census + l->census_n, workers[i].out, workers[i].out_n * sizeof(*l->census));
		l->census_n += workers[i].out_n;
	}
	if (l->census_n)
		qsort(l->census, l->census_n, sizeof(*l->census), by_place);
	for (size_t i = 0; i < l->census_n; i++) {
		struct ws_census_entry *c = &l->census[i];

		c->at = l->lane[c->lane]->count;
		l->lane[c->lane]->count += c->count;
		l->events += c->count;
	}
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

static uint32_t row_name(const struct pass *p, const struct ws_batch *b, size_t i)
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
		return function_of(p->l->stacks, ws_stacks_step(p->l->stacks, (uint32_t)v, &caller));
	default:
		return WS_NAME(WS_NAME_OURS, p->s->ours + (v < p->s->ours_n ? v : 0));
	}
}

static void row_raw(const struct pass *p, const struct ws_batch *b, size_t i, struct ws_raw *e)
{
	const struct ws_source *s = p->s;

	*e = (struct ws_raw){.start = b->col[s->start][i], .ref = (uint32_t)(p->row_base[b->block] + i), .src = (uint8_t)p->source};
	if (s->name < 0) { /* a counter: the value instead of an end */
		double d = (double)b->col[s->end][i];

		memcpy(&e->end, s->f64 ? (const void *)&b->col[s->end][i] : &d, 8);
		return;
	}
	e->name = row_name(p, b, i);
	e->end = s->end >= 0 ? b->col[s->end][i] : e->start;
	if (s->end < 0 || (p->nvtx && b->col[ws_nvtx_type][i] == WS_NVTX_MARK)) {
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
static const struct ws_census_entry *block_entries(const struct pass *p, uint32_t block, size_t *n)
{
	size_t low = 0, high = p->entries;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (p->first[mid].block < block)
			low = mid + 1;
		else
			high = mid;
	}
	for (*n = 0; low + *n < p->entries && p->first[low + *n].block == block; ++*n)
		;
	return p->first + low;
}

static int place_batch(void *ctx, const struct ws_batch *b)
{
	struct pass *p = ctx;
	struct worker *w = &p->workers[b->worker];
	size_t n;
	const struct ws_census_entry *c = block_entries(p, (uint32_t)b->block, &n);
	struct ws_raw e;

	for (size_t i = 0; i < n; i++) {
		need_lane(w, c[i].lane);
		w->at[c[i].lane] = c[i].at;
	}
	for (uint32_t f = 0; n && f < p->s->feeds; f++)
		for (size_t i = 0; i < b->rows; i++) {
			uint32_t lane = row_lane(p, w, f, b, i);

			if (lane == UINT32_MAX)
				continue;
			row_raw(p, b, i, &e);
			p->l->lane[lane]->raw[w->at[lane]++] = e;
		}
	for (size_t i = 0; i < n; i++)
		w->at[c[i].lane] = 0;
	return __atomic_load_n(&p->l->stop, __ATOMIC_RELAXED);
}

static uint64_t event_columns(const struct ws_source *s)
{
	uint64_t columns = key_columns(s) | UINT64_C(1) << s->start;

	if (s->end >= 0)
		columns |= UINT64_C(1) << s->end;
	if (s->name >= 0)
		columns |= UINT64_C(1) << s->name;
	if (s->table == WS_TABLE_nvtx)
		columns |= WS_COL(nvtx, color) | WS_COL(nvtx, flags);
	return columns;
}

static uint64_t *row_bases(const struct ws_report *r, enum ws_table t)
{
	size_t n = ws_report_blocks(r, t);
	uint64_t *base = ws_calloc(n + 1, sizeof(*base));

	for (size_t i = 0; i < n; i++)
		base[i + 1] = base[i] + ws_report_block(r, t, i).rows;
	return base;
}

static void place_source(struct ws_lanes *l, struct worker *workers, uint32_t worker_n, size_t first, size_t entries)
{
	uint32_t s = l->census[first].source;
	struct pass p = {.l = l,
			 .s = &ws_sources[s],
			 .source = s,
			 .workers = workers,
			 .first = l->census + first,
			 .entries = entries,
			 .nvtx = ws_sources[s].table == WS_TABLE_nvtx};
	struct ws_scan sc = {.table = p.s->table, .columns = event_columns(p.s), .time_max = UINT64_MAX};
	uint64_t *base = row_bases(l->r, p.s->table), damaged = 0;

	p.row_base = base;
	for (uint32_t i = 0; i < worker_n; i++)
		memset(workers[i].cache, 0, sizeof(workers[i].cache));
	for (size_t i = 0; i < entries; i++) {
		struct ws_lane *lane = l->lane[p.first[i].lane];

		if (!lane->raw)
			lane->raw = ws_space_new(lane->count * sizeof(*lane->raw));
		lane->filled += p.first[i].count;
	}
	ws_scan_run(l->r, &sc, place_batch, &p, &damaged);
	__atomic_fetch_add(&l->damaged, damaged, __ATOMIC_RELAXED);
	free(base);
}

struct finish {
	struct ws_lanes *l;
	uint32_t next;
	pthread_t thread;
};

static void *finish_lanes(void *arg)
{
	struct finish *f = arg;

	for (;;) {
		uint32_t i = __atomic_fetch_add(&f->next, 1, __ATOMIC_RELAXED);
		struct ws_lane *lane;

		if (i >= f->l->n || __atomic_load_n(&f->l->stop, __ATOMIC_RELAXED))
			return NULL;
		lane = f->l->lane[i];
		if (lane->raw && lane->filled == lane->count && !ws_lane_ready(lane))
			ws_lane_finish(f->l, lane);
	}
}

/* Finish the lanes that nothing more feeds, two at a time. */
static void finish_all(struct ws_lanes *l)
{
	struct finish f = {.l = l};
	bool two = !pthread_create(&f.thread, NULL, finish_lanes, &f);

	finish_lanes(&f);
	if (two)
		pthread_join(f.thread, NULL);
}

static void place_all(struct ws_lanes *l, struct worker *workers, uint32_t n)
{
	for (size_t i = 0, to; i < l->census_n && !__atomic_load_n(&l->stop, __ATOMIC_RELAXED); i = to) {
		for (to = i + 1; to < l->census_n && l->census[to].source == l->census[i].source; to++)
			;
		place_source(l, workers, n, i, to - i);
		finish_all(l);
	}
}

/* ---- the thread ---- */

static void set_flag(struct ws_lanes *l, int *flag)
{
	pthread_mutex_lock(&l->lock);
	*flag = 1;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

static void *build(void *arg)
{
	struct ws_lanes *l = arg;
	struct ws_scan any = {0};
	uint32_t n = ws_scan_workers(&any);
	struct worker *workers = NULL;

	if (posix_memalign((void **)&workers, 128, n * sizeof(*workers)))
		abort();
	memset(workers, 0, n * sizeof(*workers));
	take_census(l, workers, n);
	name_domains(l);
	ws_project_lanes(l);
	set_flag(l, &l->census_done);
	l->stacks = ws_stacks_open(l->r, NULL);
	set_flag(l, &l->stacks_done);
	place_all(l, workers, n);
	for (uint32_t i = 0; i < n; i++) {
		free(workers[i].at);
		free(workers[i].touched);
		free(workers[i].out);
	}
	free(workers);
	set_flag(l, &l->placed);
	ws_project(l);
	set_flag(l, &l->built);
	return NULL;
}

struct ws_lanes *ws_lanes_open(const struct ws_report *r)
{
	struct ws_lanes *l = ws_calloc(1, sizeof(*l));

	l->r = r;
	l->who = ws_who_open(r);
	l->zero = ws_time_zero(r);
	l->last = ws_time_last(r);
	l->palette_n = 1;
	l->names_domains = ws_calloc(ws_report_blocks(r, WS_TABLE_nvtx) + 1, 1);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	l->building = !pthread_create(&l->builder, NULL, build, l);
	if (!l->building)
		build(l);
	return l;
}

static void wait_for(struct ws_lanes *l, const int *flag)
{
	pthread_mutex_lock(&l->lock);
	while (!*flag)
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
	__atomic_store_n(&l->stop, 1, __ATOMIC_RELAXED);
	if (l->building)
		pthread_join(l->builder, NULL);
	for (size_t i = 0; i < l->n; i++)
		ws_lane_free(l->lane[i]);
	free(l->lane);
	free(l->slots);
	free(l->census);
	free(l->names_domains);
	ws_map_free(&l->domains);
	ws_stacks_close(l->stacks);
	ws_who_close(l->who);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->changed);
	free(l);
}
