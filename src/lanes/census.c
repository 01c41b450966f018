/*
 * census.c - which lanes there are, how many events each has, and where these roughly lie.
 *
 * That is in the report already where its writer summed up blocks (ws_report_block_groups): then no
 * row is read. Of other blocks, in reports that are not closed or older, the columns that tell
 * lanes apart are decoded and rows counted by lane.
 */
#include <stdlib.h>
#include <string.h>

#include "base/slots.h"
#include "lanes/build.h"

/* ---- lanes by kind and key ---- */

static uint32_t hash_key(uint8_t kind, const uint32_t *key)
{
	uint64_t h = kind;

	for (int i = 0; i < 4; i++)
		h = ws_hash_word(h, key[i]);
	return (uint32_t)h;
}

enum { MOST_LANES = 1 << 20 }; /* a damaged file must not cost gigabytes */

/*
 * Number of the lane, made if it is new; UINT32_MAX when there are too many. After the census none
 * is made, whatever rows turn up that its blocks did not tell of. Under the lock.
 */
static uint32_t find_lane(struct ws_lanes *l, uint8_t kind, const uint32_t *key)
{
	uint32_t h = hash_key(kind, key), i;
	struct ws_lane *lane;
	size_t at;

	for (at = ws_slots_begin(&l->slots, &l->slot_mask, l->n, 256, h);
	     (i = ws_slots_next(l->slots, l->slot_mask, h, &at)); at++)
		if (l->lane[i - 1]->kind == kind &&
		    !memcmp(l->lane[i - 1]->key, key, sizeof(lane->key)))
			return i - 1;
	if (l->n == MOST_LANES || l->census_done)
		return UINT32_MAX;
	lane = ws_calloc(1, sizeof(*lane));
	lane->kind = kind;
	memcpy(lane->key, key, sizeof(lane->key));
	ws_grow(l->lane, l->cap, l->n + 1);
	l->lane[l->n++] = lane;
	l->slots[at] = ws_slot(h, (uint32_t)l->n);
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

/* ---- rows to lanes ---- */

struct ws_lane_pass ws_lane_pass_new(struct ws_lanes *l, uint32_t source,
				     struct ws_lane_worker *workers)
{
	return (struct ws_lane_pass){.l = l,
				     .s = &ws_sources[source],
				     .source = source,
				     .workers = workers,
				     .nvtx = ws_sources[source].table == WS_TABLE_nvtx};
}

struct ws_lane_worker *ws_lane_workers_new(uint32_t *n)
{
	struct ws_scan any = {0};
	struct ws_lane_worker *w = NULL;

	*n = ws_scan_workers(&any);
	if (posix_memalign((void **)&w, 128, *n * sizeof(*w)))
		abort();
	memset(w, 0, *n * sizeof(*w));
	return w;
}

void ws_lane_workers_free(struct ws_lane_worker *w, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		free(w[i].at);
		free(w[i].end);
		free(w[i].touched);
		free(w[i].out);
	}
	free(w);
}

void ws_lane_workers_forget(struct ws_lane_worker *w, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		memset(w[i].cache, 0, sizeof(w[i].cache));
}

void ws_lane_worker_need(struct ws_lane_worker *w, uint32_t lane)
{
	size_t old = w->lanes;

	if (lane < old)
		return;
	ws_grow(w->at, w->lanes, (size_t)lane + 1);
	w->end = ws_realloc(w->end, w->lanes * sizeof(*w->end));
	memset(w->at + old, 0, (w->lanes - old) * sizeof(*w->at));
	memset(w->end + old, 0, (w->lanes - old) * sizeof(*w->end));
}

static uint32_t lane_of(struct ws_lane_pass *p, struct ws_lane_worker *w, uint32_t feed,
			const uint32_t *key)
{
	const struct ws_feed *f = &p->s->feed[feed];
	size_t i = (key[0] + key[1] * 7 + key[2] * 31 + key[3] * 13) % WS_LANE_CACHE;

	if (ws_likely(w->cache[feed][i].set && !memcmp(w->cache[feed][i].key, key, 16)))
		return w->cache[feed][i].lane;
	pthread_mutex_lock(&p->l->lock);
	w->cache[feed][i].lane = find_lane(p->l, f->kind, key);
	pthread_mutex_unlock(&p->l->lock);
	memcpy(w->cache[feed][i].key, key, 16);
	w->cache[feed][i].set = true;
	return w->cache[feed][i].lane;
}

static bool wanted(const struct ws_lane_pass *p, const struct ws_feed *f, const struct ws_batch *b,
		   size_t i)
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

bool ws_lane_is_library(const char *category, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (category[i] != '_' && !(category[i] >= 'A' && category[i] <= 'Z') &&
		    !(category[i] >= '0' && category[i] <= '9'))
			return false;
	return memchr(category, '_', n) != NULL;
}

/* Calls of a library have a row of their own: their category, else 0. */
static uint32_t library_of(const struct ws_report *r, uint32_t category)
{
	size_t n;
	const char *s = category ? ws_report_string(r, category, &n) : NULL;

	return s && ws_lane_is_library(s, n) ? ws_report_string_key(r, category) : 0;
}

uint32_t ws_lane_of_row(struct ws_lane_pass *p, struct ws_lane_worker *w, uint32_t feed,
			const struct ws_batch *b, size_t i)
{
	const struct ws_feed *f = &p->s->feed[feed];
	uint32_t key[4] = {0};

	if (!wanted(p, f, b, i))
		return UINT32_MAX;
	for (uint32_t k = 0; k < f->keys; k++)
		key[k] = (uint32_t)b->col[f->key[k]][i];
	if (p->nvtx) /* start/end ranges overlap as they like: they would push nested ones about */
		key[2] = b->col[ws_nvtx_type][i] == WS_NVTX_STARTEND;
	if (p->s->table ==
	    WS_TABLE_op) /* deep stacks of Python would push operators out of sight */
		key[1] = b->col[ws_op_kind][i] == WS_OP_PYTHON;
	if (f->kind == WS_LANE_SLICE)
		key[1] = library_of(p->l->r, (uint32_t)b->col[ws_slice_category][i]);
	return lane_of(p, w, feed, key);
}

uint64_t ws_lane_key_columns(const struct ws_source *s)
{
	uint64_t columns = s->table == WS_TABLE_nvtx	? WS_COL(nvtx, type)
			   : s->table == WS_TABLE_op	? WS_COL(op, kind)
			   : s->table == WS_TABLE_slice ? WS_COL(slice, category)
							: 0;

	for (uint32_t f = 0; f < s->feeds; f++) {
		for (uint32_t k = 0; k < s->feed[f].keys; k++)
			columns |= UINT64_C(1) << s->feed[f].key[k];
		if (s->feed[f].when)
			columns |= UINT64_C(1) << s->feed[f].test;
	}
	return columns;
}

/* ---- counting ---- */

static void count(struct ws_lane_worker *w, uint32_t lane, uint32_t rows)
{
	ws_lane_worker_need(w, lane);
	if (!w->at[lane]) {
		ws_grow(w->touched, w->cap, w->n + 1);
		w->touched[w->n++] = lane;
	}
	w->at[lane] += rows;
}

/* The counts of a block become entries. */
static void put_entries(const struct ws_lane_pass *p, struct ws_lane_worker *w, size_t block)
{
	for (size_t i = 0; i < w->n; i++) {
		uint32_t lane = w->touched[i];

		ws_grow(w->out, w->out_cap, w->out_n + 1);
		w->out[w->out_n++] = (struct ws_census_entry){p->source, (uint32_t)block, lane,
							      (uint32_t)w->at[lane], 0};
		w->at[lane] = 0;
	}
	w->n = 0;
}

static int count_batch(void *ctx, const struct ws_batch *b)
{
	struct ws_lane_pass *p = ctx;
	struct ws_lane_worker *w = &p->workers[b->worker];

	for (uint32_t f = 0; f < p->s->feeds; f++)
		for (size_t i = 0; i < b->rows; i++) {
			uint32_t lane = ws_lane_of_row(p, w, f, b, i);

			if (lane != UINT32_MAX)
				count(w, lane, 1);
		}
	put_entries(p, w, b->block);
	return __atomic_load_n(&p->l->stop, __ATOMIC_RELAXED);
}

static void add_glimpse(struct ws_lanes *l, uint32_t lane, const struct ws_block_group *g)
{
	ws_grow(l->glimpse, l->glimpse_cap, l->glimpse_n + 1);
	l->glimpse[l->glimpse_n++] = (struct ws_glimpse){g->first, g->last, g->bins, lane, g->rows};
}

enum { BATCH = 256 };

/* Groups of a block, as a batch with a row for each. */
static void count_groups(struct ws_lane_pass *p, size_t block, const struct ws_block_groups *g)
{
	uint64_t column[WS_GROUP_KEYS][BATCH];
	struct ws_batch b = {.block = block};
	uint8_t columns[WS_GROUP_KEYS];
	uint32_t keys = ws_table_groups(p->s->table, columns);

	for (uint32_t k = 0; k < keys; k++)
		b.col[columns[k]] = column[k];
	for (size_t from = 0; from < g->n; from += BATCH) {
		b.rows = g->n - from < BATCH ? g->n - from : BATCH;
		for (size_t i = 0; i < b.rows; i++)
			for (uint32_t k = 0; k < keys; k++)
				column[k][i] = g->v[from + i].key[k];
		for (uint32_t f = 0; f < p->s->feeds; f++)
			for (size_t i = 0; i < b.rows; i++) {
				uint32_t lane = ws_lane_of_row(p, &p->workers[0], f, &b, i);

				if (lane == UINT32_MAX)
					continue;
				count(&p->workers[0], lane, g->v[from + i].rows);
				add_glimpse(p->l, lane, &g->v[from + i]);
			}
	}
	put_entries(p, &p->workers[0], block);
}

/* Are the columns that tell this source's lanes apart among those that blocks are summed up by? */
static bool has_groups(const struct ws_source *s)
{
	uint8_t columns[WS_GROUP_KEYS];
	uint64_t have = 0;

	for (uint32_t k = ws_table_groups(s->table, columns); k--;)
		have |= UINT64_C(1) << columns[k];
	return have && !(ws_lane_key_columns(s) & ~have);
}

/* Is a block outside of the times that are asked for (ws_lanes_opts)? */
static bool skips(const struct ws_lanes *l, enum ws_table t, size_t block)
{
	struct ws_block_info b = ws_report_block(l->r, t, block);

	return b.time_max < l->opts.from || b.time_min > l->opts.to;
}

static void count_source(struct ws_lanes *l, uint32_t source, struct ws_lane_worker *workers,
			 uint32_t worker_n)
{
	struct ws_lane_pass p = ws_lane_pass_new(l, source, workers);
	enum ws_table t = p.s->table;
	size_t blocks = ws_report_blocks(l->r, t);
	uint8_t *skip = ws_calloc(blocks + 1, 1);
	bool groups = has_groups(p.s);
	struct ws_scan sc = {.table = t,
			     .columns = ws_lane_key_columns(p.s),
			     .time_max = UINT64_MAX,
			     .skip = skip};

	ws_lane_workers_forget(workers, worker_n);
	for (size_t i = 0; i < blocks; i++) {
		struct ws_block_groups g = groups ? ws_report_block_groups(l->r, t, i)
						  : (struct ws_block_groups){NULL, 0};

		skip[i] = g.v || skips(l, t, i);
		if (g.v && !skips(l, t, i))
			count_groups(&p, i, &g);
	}
	ws_scan_run(l->r, &sc, count_batch, &p, NULL);
	free(skip);
}

/* ---- glimpses ---- */

/* What blocks without groups say of their lanes: where the block lies. */
static void glimpse_blocks(struct ws_lanes *l)
{
	for (size_t i = 0; i < l->census_n; i++) {
		const struct ws_census_entry *c = &l->census[i];
		enum ws_table t = ws_sources[c->source].table;
		struct ws_block_info b = ws_report_block(l->r, t, c->block);
		struct ws_block_group g = {
			.first = b.time_min, .last = b.time_max, .rows = c->count};

		if (!has_groups(&ws_sources[c->source]) ||
		    !ws_report_block_groups(l->r, t, c->block).v)
			add_glimpse(l, c->lane, &g);
	}
}

static int by_lane(const void *a, const void *b)
{
	const struct ws_glimpse *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static uint64_t grain(const struct ws_lanes *l, const struct ws_lane *lane)
{
	double sum = 0;

	for (size_t i = lane->glimpse; i < lane->glimpse + lane->glimpses; i++) {
		if (!l->glimpse[i].bins)
			return UINT64_MAX;
		sum += (double)(l->glimpse[i].last - l->glimpse[i].first) / WS_GROUP_BINS;
	}
	return lane->glimpses ? (uint64_t)(sum / (double)lane->glimpses) : UINT64_MAX;
}

static void sort_glimpses(struct ws_lanes *l)
{
	size_t at = 0;

	if (l->glimpse_n)
		qsort(l->glimpse, l->glimpse_n, sizeof(*l->glimpse), by_lane);
	for (size_t i = 0; i < l->n; i++) {
		l->lane[i]->glimpse = at;
		while (at < l->glimpse_n && l->glimpse[at].lane == i)
			at++;
		l->lane[i]->glimpses = at - l->lane[i]->glimpse;
		l->lane[i]->grain = grain(l, l->lane[i]);
	}
}

/* ---- all of it ---- */

static int by_place(const void *a, const void *b)
{
	const struct ws_census_entry *x = a, *y = b;

	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	return x->lane < y->lane ? -1 : x->lane > y->lane;
}

static void join_entries(struct ws_lanes *l, const struct ws_lane_worker *workers,
			 uint32_t worker_n)
{
	for (uint32_t i = 0; i < worker_n; i++) {
		ws_grow(l->census, l->census_cap, l->census_n + workers[i].out_n);
		if (workers[i].out_n)
			memcpy(l->census + l->census_n, workers[i].out,
			       workers[i].out_n * sizeof(*l->census));
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

void ws_lanes_census(struct ws_lanes *l, struct ws_lane_worker *workers, uint32_t worker_n)
{
	for (uint32_t s = 0; s < ws_source_count; s++) {
		uint64_t rows = ws_report_rows(l->r, ws_sources[s].table);

		if (rows && rows < UINT32_MAX && ws_sources[s].feeds)
			count_source(l, s, workers, worker_n);
	}
	join_entries(l, workers, worker_n);
	glimpse_blocks(l);
	sort_glimpses(l);
}

bool ws_lanes_have_rows(const struct ws_report *r)
{
	for (uint32_t s = 0; s < ws_source_count; s++)
		if (ws_sources[s].feed[0].keys && ws_report_rows(r, ws_sources[s].table))
			return true;
	return false;
}
