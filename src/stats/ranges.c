/*
 * ranges.c - see ranges.h.
 *
 * One pass over the ranges on all cores. A worker's key is style, its own number of the domain, and
 * the text's id as stored; only afterwards, once per distinct key and not per row, are these mapped
 * to what the user sees: domains by name, texts by content.
 */
#include "stats/ranges.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stats/domains.h"
#include "stats/group.h"
#include "stats/std8.h"

struct worker {
	struct ws_groups groups;
	struct ws_spill *spill; /* of names that came when there were many already */
	const uint32_t *keys;	/* the pass's, then */
	struct ws_domains domains;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

struct pass {
	struct ws_stats *s;
	struct worker *workers;
	unsigned kinds;
	bool styled;
	struct ws_domain_table domains;
	uint32_t *keys; /* by string id: that of its text; made when there are many names */
	pthread_mutex_t lock;
};

enum { STYLE_SHIFT = 63, DOMAIN_SHIFT = 32 };

/*
 * Values of names are kept by the number of the name as far as numbers are not much more than there
 * are ranges, which only a damaged report has.
 */
static struct ws_spill *new_spill(const struct ws_report *r)
{
	struct ws_spill *spill = ws_calloc(1, sizeof(*spill));
	uint32_t strings = ws_report_string_count(r);

	spill->shift = ws_spill_shift(strings);
	spill->limit = strings / 16 <= ws_report_rows(r, WS_TABLE_nvtx) ? (size_t)strings + 1 : 0;
	return spill;
}

/* Texts are looked up for each row then: in one array, which can be asked for ahead. */
static const uint32_t *make_keys(struct pass *p)
{
	const uint32_t *keys;

	pthread_mutex_lock(&p->lock);
	if (!p->keys) {
		p->keys =
			ws_malloc(((size_t)ws_report_string_count(p->s->r) + 1) * sizeof(*p->keys));
		ws_report_string_keys(p->s->r, p->keys);
	}
	keys = p->keys;
	pthread_mutex_unlock(&p->lock);
	return keys;
}

enum { AHEAD = 24 }; /* rows */

/* Where there are many names already; `text` has `left` rows yet, this one the first. */
static void add_crowded(struct pass *p, struct worker *w, const uint64_t *text, size_t left,
			uint64_t key, uint64_t value)
{
	uint32_t strings = ws_report_string_count(p->s->r), id = (uint32_t)key;
	uint64_t upper = key - id;
	struct ws_dist *d;

	if (!w->spill) {
		w->spill = new_spill(p->s->r);
		w->keys = make_keys(p);
	}
	if (left > 2 * AHEAD && text[2 * AHEAD] <= strings)
		__builtin_prefetch(&w->keys[text[2 * AHEAD]]);
	if (left > AHEAD && text[AHEAD] <= strings)
		ws_spill_fetch(w->spill, w->keys[text[AHEAD]]);
	id = id <= strings ? w->keys[id] : id;
	if (ws_spill_first(w->spill, upper | id, value))
		return;
	d = ws_groups_find(&w->groups, key);
	if (d)
		ws_dist_add(d, value);
	else
		ws_spill_add(w->spill, upper | id, value);
}

static int scan(void *ctx, const struct ws_batch *b)
{
	struct pass *p = ctx;
	struct worker *w = &p->workers[b->worker];
	const uint64_t *start = b->col[ws_nvtx_start], *end = b->col[ws_nvtx_end],
		       *type = b->col[ws_nvtx_type];
	const uint64_t *text = b->col[ws_nvtx_text], *domain = b->col[ws_nvtx_domain],
		       *thread = b->col[ws_nvtx_thread];

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t style = type[i] == WS_NVTX_STARTEND, key;

		if (ws_unlikely(type[i] != WS_NVTX_PUSHPOP && !style)) {
			if (type[i] == WS_NVTX_DOMAIN_CREATE)
				ws_domains_name(&w->domains, p->s->who, (uint32_t)thread[i],
						(uint32_t)domain[i], (uint32_t)text[i]);
			continue;
		}
		if (!(p->kinds & (style ? WS_RANGES_STARTEND : WS_RANGES_PUSHPOP)))
			continue;
		if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i])) {
			*(end[i] == WS_NO_TIME ? &w->unended : &w->backwards) += 1;
			continue;
		}
		key = style << STYLE_SHIFT | text[i] |
		      (uint64_t)ws_domains_number(&w->domains, p->s->who, (uint32_t)thread[i],
						  (uint32_t)domain[i])
			      << DOMAIN_SHIFT;
		if (ws_likely(w->groups.n < WS_GROUPS_CROWDED))
			ws_dist_add(ws_groups_get(&w->groups, key), end[i] - start[i]);
		else
			add_crowded(p, w, text + i, b->rows - i, key, end[i] - start[i]);
	}
	return 0;
}

/* Of a key whose text is the canonical one. */
static uint64_t canonical_domain(void *ctx, size_t worker, uint64_t key)
{
	struct pass *p = ctx;
	uint32_t number = (uint32_t)(key >> DOMAIN_SHIFT) & INT32_MAX;
	uint64_t domain = number ? p->domains.canonical[worker][number] : 0;

	return (key & UINT64_C(1) << STYLE_SHIFT) | domain << DOMAIN_SHIFT | (uint32_t)key;
}

static uint64_t canonical(void *ctx, size_t worker, uint64_t key)
{
	const struct pass *p = ctx;

	return canonical_domain(ctx, worker,
				(key & ~(uint64_t)UINT32_MAX) |
					ws_report_string_key(p->s->r, (uint32_t)key));
}

static const struct ws_text *prefix_of(const struct pass *p, uint64_t key)
{
	return &p->domains.prefixes[(uint32_t)(key >> DOMAIN_SHIFT) & INT32_MAX];
}

/*
 * ---- lines ----
 *
 * What stands for a line is its key, where it has a single value, which is the total that
 * ws_std8_lines asks for beside it; or the part and place of its summary. Numbers of canonical
 * domains are below 2^30: there is memory behind each.
 */

#define SUMMED (UINT64_C(1) << 62)

struct chunk {
	const struct ws_firsts *firsts; /* NULL: summaries of the part */
	size_t part, from, n;
};

struct lines {
	const struct pass *p;
	const struct ws_group_part *parts;
	struct chunk *chunks;
	size_t n, cap;
};

static const struct ws_group_sum *sum_of(const struct lines *m, uint64_t number)
{
	return &m->parts[number >> 32 & (WS_SPILL_PARTS - 1)].v[(uint32_t)number];
}

static size_t make_chunk(const void *ctx, size_t chunk, struct ws_keyed_value *v)
{
	const struct lines *m = ctx;
	const struct chunk *c = &m->chunks[chunk];
	size_t n = 0;

	for (size_t i = c->from; i < c->from + c->n; i++)
		if (!c->firsts)
			v[n++] =
				(struct ws_keyed_value){ws_std8_key(m->parts[c->part].v[i].s.total),
							SUMMED | c->part << 32 | i};
		else if (c->firsts->v[i])
			v[n++] = (struct ws_keyed_value){ws_std8_key(c->firsts->v[i] - 1),
							 c->firsts->upper | i};
	return n;
}

/* The name shown: the domain's before the text's, unless it is the default domain. */
static void make_line(const void *ctx, const struct ws_keyed_value *v, struct ws_std8_line *l,
		      struct ws_std8 *room)
{
	const struct lines *m = ctx;
	const struct ws_group_sum *sum = v->value & SUMMED ? sum_of(m, v->value) : NULL;
	uint64_t key = sum ? sum->key : v->value;
	const struct ws_text *prefix = prefix_of(m->p, key);

	*l = (struct ws_std8_line){
		.s = sum ? &sum->s : room, .head = prefix->s, .head_len = prefix->len};
	l->style = m->p->styled ? key >> STYLE_SHIFT ? "StartEnd" : "PushPop" : NULL;
	l->name = ws_report_string(m->p->s->r, (uint32_t)key, &l->name_len);
	if (!sum && room)
		*room = ws_std8_single(~v->key);
}

static void fetch_line(const void *ctx, uint64_t number, unsigned step)
{
	const struct lines *m = ctx;
	const struct ws_group_sum *sum = number & SUMMED ? sum_of(m, number) : NULL;

	if (step)
		ws_report_string_fetch(m->p->s->r, (uint32_t)(sum ? sum->key : number), step == 2);
	else if (sum) {
		__builtin_prefetch(sum);
		__builtin_prefetch((const char *)(sum + 1) - 1);
	}
}

static void add_chunks(struct lines *m, struct chunk c, size_t end)
{
	for (; c.from < end; c.from += c.n) {
		c.n = end - c.from < WS_STD8_CHUNK ? end - c.from : WS_STD8_CHUNK;
		ws_grow(m->chunks, m->cap, m->n + 1);
		m->chunks[m->n++] = c;
	}
}

/* First values page by page: most of a worker's may be untouched. */
static void add_firsts(struct lines *m, const struct ws_spill *spill)
{
	for (unsigned i = 0; i < spill->firsts; i++)
		for (size_t from = 0; from < spill->limit; from += WS_FIRSTS_PAGE)
			if (spill->first[i].used[from / WS_FIRSTS_PAGE])
				add_chunks(m,
					   (struct chunk){.firsts = &spill->first[i], .from = from},
					   spill->limit - from < WS_FIRSTS_PAGE
						   ? spill->limit
						   : from + WS_FIRSTS_PAGE);
}

static void print(struct pass *p, const struct ws_group_part *parts, const struct ws_spill *spills,
		  uint32_t workers)
{
	struct lines m = {.p = p, .parts = parts};
	struct ws_std8_lines lines = {&m, 0, make_chunk, make_line, fetch_line};

	for (uint32_t w = 0; w < workers; w++)
		add_firsts(&m, &spills[w]);
	for (size_t i = 0; i < WS_SPILL_PARTS; i++)
		add_chunks(&m, (struct chunk){.part = i}, parts[i].n);
	lines.chunks = m.n;
	ws_std8_print_lines(p->s, &lines);
	free(m.chunks);
}

static void together(struct pass *p, uint32_t workers)
{
	struct ws_groups *groups = ws_calloc(workers, sizeof(*groups));
	struct ws_domains *domains = ws_calloc(workers, sizeof(*domains));
	struct ws_spill *spills = ws_calloc(workers, sizeof(*spills));
	struct ws_group_part parts[WS_SPILL_PARTS] = {{0}};
	bool spilled = false;

	for (uint32_t w = 0; w < workers; w++) {
		struct ws_spill *spill =
			p->workers[w].spill ? p->workers[w].spill : new_spill(p->s->r);

		spilled |= p->workers[w].spill != NULL;
		spills[w] = *spill;
		free(spill);
		groups[w] = p->workers[w].groups;
		domains[w] = p->workers[w].domains;
		p->s->unended += p->workers[w].unended;
		p->s->backwards += p->workers[w].backwards;
	}
	ws_domain_table_make(&p->domains, p->s->r, domains, workers);
	if (spilled)
		ws_groups_merge_spilled(groups, spills, workers, canonical, canonical_domain, p,
					parts);
	else
		parts[0].v = ws_groups_merge(groups, workers, canonical, p, &parts[0].n);
	print(p, parts, spills, workers);
	for (size_t i = 0; i < WS_SPILL_PARTS; i++)
		free(parts[i].v);
	ws_domain_table_free(&p->domains);
	for (uint32_t w = 0; w < workers; w++) {
		ws_groups_free(&groups[w]);
		ws_spill_free(&spills[w]);
		ws_domains_free(&domains[w]);
	}
	free(groups);
	free(spills);
	free(domains);
}

int ws_ranges_summary(struct ws_stats *s, unsigned kinds, bool styled, struct ws_err *e)
{
	struct ws_scan sc = {
		.table = WS_TABLE_nvtx,
		.columns = WS_COL(nvtx, start) | WS_COL(nvtx, end) | WS_COL(nvtx, thread) |
			   WS_COL(nvtx, text) | WS_COL(nvtx, domain) | WS_COL(nvtx, type),
		.time_min = s->time_min,
		.time_max = s->time_max,
	};
	uint32_t workers = ws_scan_workers(&sc);
	struct pass p = {
		.s = s, .kinds = kinds, .styled = styled, .lock = PTHREAD_MUTEX_INITIALIZER};

	p.workers = aligned_alloc(128, workers * sizeof(*p.workers));
	if (!p.workers)
		return ws_fail(e, "out of memory");
	memset(p.workers, 0, workers * sizeof(*p.workers));
	ws_scan_run(s->r, &sc, scan, &p, &s->damaged);
	together(&p, workers);
	free(p.keys);
	free(p.workers);
	return 0;
}
