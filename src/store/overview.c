/*
 * overview.c - see overview.h.
 *
 * Rows fall into groups by the columns that schema.h names for their table (ws_table_groups). Of
 * each group in a block stand its count, its first and last moment, the sum of its durations, and
 * that same time cut into WS_GROUP_BINS equal parts with how busy each was. Two passes over the
 * staged rows, some nanoseconds a row: the group of each, which mostly is that of the row before;
 * then the parts, where an event costs the same whether it covers one or all (sums of differences).
 *
 * A reader believes nothing: a summary that does not fit its block in every number is as good as
 * none.
 */
#include "store/overview.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/slots.h"
#include "base/sort.h"

/* A block of more groups than that, or than a sixteenth of its rows, costs less to read than to sum
 * up. */
enum { MOST_GROUPS = 4096, ALWAYS_GROUPS = 64, ROWS_PER_GROUP = 16, SLOTS = MOST_GROUPS * 4 };

struct summary_head {
	uint32_t table, rows;
	uint64_t first;
	uint16_t keys, columns[WS_GROUP_KEYS];
	uint16_t spare;
	uint32_t groups;
};
struct summary_group { /* as stored; keys and bins stand after all of them */
	uint64_t first, last, busy;
	uint32_t rows, spare;
};

void ws_overview_free(struct ws_overview *o)
{
	free(o->group);
	free(o->slots);
	free(o->of);
	ws_bytes_free(&o->pending);
	*o = (struct ws_overview){0};
}

/* ---- groups of rows ---- */

struct sum {
	struct ws_overview *o;
	const char *rows;
	uint32_t n, size, keys, most;
	uint16_t offset[WS_GROUP_KEYS];
	uint8_t bytes[WS_GROUP_KEYS];
	int start, end; /* offsets; end -1: moments */
};

static inline uint64_t time_at(const char *row, int offset)
{
	uint64_t v;

	memcpy(&v, row + offset, 8);
	return v;
}

static inline void key_of(const struct sum *s, const char *row, uint32_t key[WS_GROUP_KEYS])
{
	memset(key, 0, WS_GROUP_KEYS * sizeof(*key));
	for (uint32_t k = 0; k < s->keys; k++)
		if (s->bytes[k] == 1)
			key[k] = *(const uint8_t *)(row + s->offset[k]);
		else
			memcpy(&key[k], row + s->offset[k], 4);
}

static uint32_t *slot_of(struct ws_overview *o, const uint32_t key[WS_GROUP_KEYS])
{
	uint64_t h = 0;

	for (int k = 0; k < WS_GROUP_KEYS; k++)
		h = ws_hash_word(h, key[k]);
	for (size_t at = h % SLOTS;; at = (at + 1) % SLOTS)
		if (!o->slots[at] ||
		    !memcmp(o->group[o->slots[at] - 1].key, key, sizeof(o->group->key)))
			return &o->slots[at];
}

/* Number of the group, or UINT32_MAX when there are too many. */
static uint32_t group_of(const struct sum *s, const uint32_t key[WS_GROUP_KEYS])
{
	struct ws_overview *o = s->o;
	uint32_t *slot = slot_of(o, key);

	if (*slot)
		return *slot - 1;
	if (o->groups == s->most)
		return UINT32_MAX;
	ws_grow(o->group, o->group_cap, o->groups + 1);
	o->group[o->groups] = (struct ws_overview_group){.first = UINT64_MAX};
	memcpy(o->group[o->groups].key, key, sizeof(o->group->key));
	*slot = ++o->groups;
	return *slot - 1;
}

/* When a row ended; one that did not end, or before it began, counts as a moment. */
static inline uint64_t end_of(const struct sum *s, const char *row, uint64_t start)
{
	uint64_t end = s->end >= 0 ? time_at(row, s->end) : start;

	return end == WS_NO_TIME || end < start ? start : end;
}

static bool find_groups(struct sum *s)
{
	uint32_t last[WS_GROUP_KEYS] = {0}, key[WS_GROUP_KEYS], i = UINT32_MAX;
	const char *row = s->rows;

	for (uint32_t n = 0; n < s->n; n++, row += s->size) {
		uint64_t start = time_at(row, s->start), end = end_of(s, row, start);
		struct ws_overview_group *g;

		key_of(s, row, key);
		if (i == UINT32_MAX || memcmp(key, last, sizeof(key))) {
			i = group_of(s, key);
			if (i == UINT32_MAX)
				return false;
			memcpy(last, key, sizeof(key));
		}
		s->o->of[n] = (uint16_t)i;
		g = &s->o->group[i];
		g->rows++;
		g->first = start < g->first ? start : g->first;
		g->last = end > g->last ? end : g->last;
		g->busy += end - start;
	}
	return true;
}

/* ---- how busy ---- */

struct bins {
	double part[WS_GROUP_BINS];	  /* of the time at the ends of events */
	int32_t whole[WS_GROUP_BINS + 1]; /* differences of how many events cover a bin wholly */
	uint32_t starts[WS_GROUP_BINS];
	uint64_t first;
	double width;
};

static inline void add_event(struct bins *b, uint64_t start, uint64_t end)
{
	double x = (double)(start - b->first) / b->width, y = (double)(end - b->first) / b->width;
	uint32_t i = (uint32_t)x, k = (uint32_t)y;

	i = i < WS_GROUP_BINS ? i : WS_GROUP_BINS - 1;
	k = k < WS_GROUP_BINS ? k : WS_GROUP_BINS - 1;
	b->starts[i]++;
	if (i == k) {
		b->part[i] += y - x;
		return;
	}
	b->part[i] += i + 1 - x;
	b->part[k] += y - k;
	b->whole[i + 1]++;
	b->whole[k]--;
}

/* A bin in which anything is, or begins, is not 0. */
static void put_bins(const struct bins *b, uint8_t *out)
{
	int64_t whole = 0;

	for (int i = 0; i < WS_GROUP_BINS; i++) {
		double v;

		whole += b->whole[i];
		v = (b->part[i] + (double)whole) * 255;
		out[i] = v >= 255 ? 255 : v >= 1 ? (uint8_t)v : v > 0 || b->starts[i] ? 1 : 0;
	}
}

static void fill_bins(const struct sum *s, uint8_t *out)
{
	struct bins *b = ws_calloc(s->o->groups, sizeof(*b));
	const char *row = s->rows;

	for (uint32_t i = 0; i < s->o->groups; i++) {
		const struct ws_overview_group *g = &s->o->group[i];

		b[i].first = g->first;
		b[i].width = g->last > g->first ? (double)(g->last - g->first) / WS_GROUP_BINS : 1;
	}
	for (uint32_t n = 0; n < s->n; n++, row += s->size) {
		uint64_t start = time_at(row, s->start);

		add_event(&b[s->o->of[n]], start, end_of(s, row, start));
	}
	for (uint32_t i = 0; i < s->o->groups; i++)
		put_bins(&b[i], out + (size_t)i * WS_GROUP_BINS);
	free(b);
}

/* ---- a block ---- */

static void put_summary(struct sum *s, enum ws_table t, const uint8_t *columns, uint64_t first)
{
	struct ws_overview *o = s->o;
	struct summary_head h = {.table = t,
				 .rows = s->n,
				 .first = first,
				 .keys = (uint16_t)s->keys,
				 .groups = o->groups};
	size_t bins = (size_t)o->groups * WS_GROUP_BINS;

	for (uint32_t k = 0; k < s->keys; k++)
		h.columns[k] = columns[k];
	ws_bytes_add(&o->pending, &h, sizeof(h));
	for (uint32_t i = 0; i < o->groups; i++) {
		const struct ws_overview_group *g = &o->group[i];
		struct summary_group x = {g->first, g->last, g->busy, g->rows, 0};

		ws_bytes_add(&o->pending, &x, sizeof(x));
	}
	for (uint32_t i = 0; i < o->groups; i++)
		ws_bytes_add(&o->pending, o->group[i].key, s->keys * sizeof(uint32_t));
	fill_bins(s, ws_bytes_room(&o->pending, bins));
	o->pending.len += bins;
	o->summaries++;
}

static bool sum_begin(struct sum *s, struct ws_overview *o, enum ws_table t, const void *rows,
		      uint32_t n, const uint8_t *columns)
{
	int start = ws_table_start(t), end = ws_table_end(t);
	uint32_t allowed = n / ROWS_PER_GROUP > ALWAYS_GROUPS ? n / ROWS_PER_GROUP : ALWAYS_GROUPS;

	if (!s->keys || start < 0)
		return false;
	s->o = o;
	s->rows = rows;
	s->n = n;
	s->size = ws_tables[t].row_size;
	s->most = allowed < MOST_GROUPS ? allowed : MOST_GROUPS;
	s->start = ws_tables[t].columns[start].offset;
	s->end = end >= 0 ? ws_tables[t].columns[end].offset : -1;
	for (uint32_t k = 0; k < s->keys; k++) {
		s->offset[k] = ws_tables[t].columns[columns[k]].offset;
		s->bytes[k] = (uint8_t)ws_tables[t].columns[columns[k]].size;
	}
	return true;
}

void ws_overview_add(struct ws_overview *o, enum ws_table t, const void *rows, uint32_t n,
		     uint64_t first)
{
	uint8_t columns[WS_GROUP_KEYS];
	struct sum s = {.keys = ws_table_groups(t, columns)};

	if (!sum_begin(&s, o, t, rows, n, columns))
		return;
	o->groups = 0;
	if (!o->slots)
		o->slots = ws_malloc(SLOTS * sizeof(*o->slots));
	memset(o->slots, 0, SLOTS * sizeof(*o->slots));
	ws_grow(o->of, o->of_cap, n);
	if (find_groups(&s))
		put_summary(&s, t, columns, first);
}

bool ws_overview_encode(struct ws_overview *o, struct ws_encoder *e, uint64_t sequence)
{
	struct ws_block_head head = ws_block_head_new(WS_BLOCK_OVERVIEW, sequence);

	if (!o->summaries)
		return false;
	ws_block_begin(&e->out);
	ws_stream_put(&e->packer, &e->out, o->pending.p, o->pending.len);
	head.rows = o->summaries;
	head.raw = o->pending.len;
	ws_block_end(&e->out, &head);
	o->pending.len = 0;
	o->summaries = 0;
	return true;
}

/* ---- reading ---- */

/* No recording has more; a few bytes of a hostile file may unpack to gigabytes. */
static const uint64_t MOST_BYTES = UINT64_C(512) << 20;

struct ws_summaries { /* of a report, by table and block */
	struct ws_block_groups *of[WS_TABLE_COUNT];
	uint8_t **memory; /* bytes of overview blocks, which bins point into */
	size_t memories;
	uint64_t bytes; /* of all of it */
};

/* The block of our table `t` that begins at row `first`, or -1. */
static ptrdiff_t block_at(const struct ws_report *r, enum ws_table t, uint64_t first)
{
	size_t low = ws_bisect(r->table[t].n, mid, r->table[t].v[mid].head.first < first);

	return low < r->table[t].n && r->table[t].v[low].head.first == first ? (ptrdiff_t)low : -1;
}

/* Our table, when the summary's groups are by the columns that this build groups by; else -1. */
static int table_of(const struct ws_report *r, const struct summary_head *h)
{
	const struct ws_file_table *f = h->table < r->schema_tables ? &r->schema[h->table] : NULL;
	uint8_t columns[WS_GROUP_KEYS];

	if (!f || f->table < 0 || h->keys != ws_table_groups((enum ws_table)f->table, columns))
		return -1;
	for (uint32_t k = 0; k < h->keys; k++)
		if (h->columns[k] >= f->columns || f->column[h->columns[k]] != columns[k])
			return -1;
	return f->table;
}

static void take_summary(const struct ws_report *r, struct ws_summaries *s,
			 const struct summary_head *h, const uint8_t *body)
{
	int t = table_of(r, h);
	ptrdiff_t i = t < 0 ? -1 : block_at(r, (enum ws_table)t, h->first);
	const uint8_t *keys = body + (size_t)h->groups * sizeof(struct summary_group);
	const uint8_t *bins = keys + (size_t)h->groups * h->keys * 4;
	struct ws_block_group *v;
	uint64_t rows = 0;

	if (i < 0 || r->table[t].v[i].head.rows != h->rows || (s->of[t] && s->of[t][i].v))
		return;
	v = ws_calloc(h->groups, sizeof(*v));
	for (uint32_t k = 0; k < h->groups; k++) {
		struct summary_group g;

		memcpy(&g, body + (size_t)k * sizeof(g), sizeof(g));
		v[k] = (struct ws_block_group){
			.rows = g.rows, .first = g.first, .last = g.last, .busy = g.busy};
		memcpy(v[k].key, keys + (size_t)k * h->keys * 4, h->keys * 4u);
		v[k].bins = bins + (size_t)k * WS_GROUP_BINS;
		rows += g.rows;
		if (g.last < g.first || !g.rows)
			rows = UINT64_MAX / 2;
	}
	if (rows != h->rows) {
		free(v);
		return;
	}
	if (!s->of[t])
		s->of[t] = ws_calloc(r->table[t].n, sizeof(*s->of[t]));
	s->of[t][i] = (struct ws_block_groups){v, h->groups};
}

static void take_summaries(const struct ws_report *r, struct ws_summaries *s, const uint8_t *p,
			   const uint8_t *end, uint32_t n)
{
	struct summary_head h;

	for (; n && (size_t)(end - p) >= sizeof(h); n--) {
		memcpy(&h, p, sizeof(h));
		p += sizeof(h);
		if (h.keys > WS_GROUP_KEYS || h.groups > MOST_GROUPS || !h.groups ||
		    (size_t)(end - p) /
				    (sizeof(struct summary_group) + h.keys * 4u + WS_GROUP_BINS) <
			    h.groups)
			return;
		take_summary(r, s, &h, p);
		p += h.groups * (sizeof(struct summary_group) + h.keys * 4u + WS_GROUP_BINS);
	}
}

static void load_block(const struct ws_report *r, struct ws_summaries *s, const struct ws_block *b,
		       struct ws_workspace *w)
{
	bool fits = b->head.raw <= WS_MAX_TEXT && s->bytes + b->head.raw <= MOST_BYTES;
	const uint8_t *body = fits ? ws_block_body(r, b, w, NULL) : NULL;
	struct ws_cut cut = {body, body ? body + b->head.body_bytes : NULL};
	uint8_t *bytes;

	if (!body)
		return;
	s->bytes += b->head.raw;
	bytes = ws_malloc(b->head.raw + 1);
	s->memory = ws_realloc(s->memory, (s->memories + 1) * sizeof(*s->memory));
	s->memory[s->memories++] = bytes;
	if (ws_stream_get(w->unpacker.z, &cut, bytes, b->head.raw))
		take_summaries(r, s, bytes, bytes + b->head.raw, b->head.rows);
}

static struct ws_summaries *load(const struct ws_report *r)
{
	struct ws_summaries *s = ws_calloc(1, sizeof(*s));
	struct ws_workspace *w = ws_workspace_take(r);

	for (size_t i = 0; i < r->all.n; i++)
		if (r->all.v[i].head.type == WS_BLOCK_OVERVIEW)
			load_block(r, s, &r->all.v[i], w);
	ws_workspace_give(r, w);
	return s;
}

struct ws_block_groups ws_report_block_groups(const struct ws_report *r, enum ws_table t, size_t i)
{
	struct ws_report *m =
		(struct ws_report *)r; /* what is read of it does not change: only when */

	pthread_mutex_lock(&m->group_lock);
	if (!m->summaries)
		m->summaries = load(r);
	pthread_mutex_unlock(&m->group_lock);
	return m->summaries->of[t] ? m->summaries->of[t][i] : (struct ws_block_groups){NULL, 0};
}

void ws_report_free_groups(struct ws_report *r)
{
	struct ws_summaries *s = r->summaries;

	for (uint32_t t = 0; s && t < WS_TABLE_COUNT; t++) {
		for (size_t i = 0; s->of[t] && i < r->table[t].n; i++)
			free((void *)s->of[t][i].v);
		free(s->of[t]);
	}
	for (size_t i = 0; s && i < s->memories; i++)
		free(s->memory[i]);
	if (s)
		free(s->memory);
	free(s);
	r->summaries = NULL;
}
