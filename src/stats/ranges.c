/*
 * ranges.c - see ranges.h.
 *
 * One pass over the ranges on all cores. A worker's key is style, its own number of the domain, and the text's id as stored; only
 * afterwards, once per distinct key and not per row, are these mapped to what the user sees: domains by name, texts by content.
 */
#include "stats/ranges.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "stats/domains.h"
#include "stats/group.h"
#include "stats/std8.h"

struct worker {
	struct ws_groups groups;
	struct ws_spill *spill; /* of names that came when there were many already */
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

/* Where there are many names already: those that are none of them are only written down. */
static void add_crowded(const struct pass *p, struct worker *w, const uint32_t *keys, uint64_t key, uint64_t value)
{
	uint32_t text = (uint32_t)key;
	struct ws_dist *d = ws_groups_find(&w->groups, key);

	if (d) {
		ws_dist_add(d, value);
		return;
	}
	if (!w->spill) {
		w->spill = ws_calloc(1, sizeof(*w->spill));
		w->spill->shift = ws_spill_shift(ws_report_string_count(p->s->r));
	}
	if (text <= ws_report_string_count(p->s->r))
		text = keys[text];
	ws_spill_add(w->spill, (key & ~(uint64_t)UINT32_MAX) | text, value);
}

/* Texts are looked up for each row then: in one array, which can be asked for ahead. */
static const uint32_t *make_keys(struct pass *p)
{
	uint32_t count = ws_report_string_count(p->s->r), *keys;

	pthread_mutex_lock(&p->lock);
	if (!p->keys) {
		keys = ws_malloc(((size_t)count + 1) * sizeof(*keys));
		for (uint32_t i = 0; i < count; i++)
			keys[i] = ws_report_string_key(p->s->r, i);
		keys[count] = ws_report_string_key(p->s->r, count);
		p->keys = keys;
	}
	keys = p->keys;
	pthread_mutex_unlock(&p->lock);
	return keys;
}

enum { AHEAD = 24 }; /* rows */

static int scan(void *ctx, const struct ws_batch *b)
{
	struct pass *p = ctx;
	struct worker *w = &p->workers[b->worker];
	const uint64_t *start = b->col[ws_nvtx_start], *end = b->col[ws_nvtx_end], *type = b->col[ws_nvtx_type];
	uint32_t strings = ws_report_string_count(p->s->r);
	const uint32_t *keys = w->groups.n >= WS_GROUPS_CROWDED ? make_keys(p) : NULL;
	const uint64_t *text = b->col[ws_nvtx_text], *domain = b->col[ws_nvtx_domain], *thread = b->col[ws_nvtx_thread];

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t style = type[i] == WS_NVTX_STARTEND, key;

		if (ws_unlikely(type[i] != WS_NVTX_PUSHPOP && !style)) {
			if (type[i] == WS_NVTX_DOMAIN_CREATE)
				ws_domains_name(&w->domains, p->s->who, (uint32_t)thread[i], (uint32_t)domain[i],
						(uint32_t)text[i]);
			continue;
		}
		if (!(p->kinds & (style ? WS_RANGES_STARTEND : WS_RANGES_PUSHPOP)))
			continue;
		if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i])) {
			*(end[i] == WS_NO_TIME ? &w->unended : &w->backwards) += 1;
			continue;
		}
		key = style << STYLE_SHIFT | text[i] |
		      (uint64_t)ws_domains_number(&w->domains, p->s->who, (uint32_t)thread[i], (uint32_t)domain[i]) << DOMAIN_SHIFT;
		if (keys && i + AHEAD < b->rows && text[i + AHEAD] <= strings)
			__builtin_prefetch(&keys[text[i + AHEAD]]);
		if (ws_likely(w->groups.n < WS_GROUPS_CROWDED)) {
			ws_dist_add(ws_groups_get(&w->groups, key), end[i] - start[i]);
			continue;
		}
		if (!keys)
			keys = make_keys(p);
		add_crowded(p, w, keys, key, end[i] - start[i]);
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

	return canonical_domain(ctx, worker, (key & ~(uint64_t)UINT32_MAX) | ws_report_string_key(p->s->r, (uint32_t)key));
}

static const struct ws_text *prefix_of(const struct pass *p, uint64_t key)
{
	return &p->domains.prefixes[(uint32_t)(key >> DOMAIN_SHIFT) & INT32_MAX];
}

/* The name shown: the domain's before the text's, unless it is the default domain. One with a prefix is allocated. */
static void name_line(const struct pass *p, uint64_t key, struct ws_std8_line *l)
{
	const struct ws_text *prefix = prefix_of(p, key);
	const char *text = ws_report_string(p->s->r, (uint32_t)key, &l->name_len);
	char *whole;

	l->name = text;
	if (!prefix->len)
		return;
	whole = ws_malloc(prefix->len + l->name_len);
	memcpy(whole, prefix->s, prefix->len);
	memcpy(whole + prefix->len, text, l->name_len);
	l->name = whole;
	l->name_len += prefix->len;
}

struct lines {
	const struct pass *p;
	const struct ws_group_part *parts;
	struct ws_std8_line *v;
	size_t first[WS_SPILL_PARTS]; /* of each part */
};

static void make_lines(void *ctx, unsigned worker, size_t part)
{
	struct lines *m = ctx;
	struct ws_std8_line *l = m->v + m->first[part];

	(void)worker;
	for (const struct ws_group_sum *g = m->parts[part].v, *end = g + m->parts[part].n; g < end; g++, l++) {
		*l = (struct ws_std8_line){.s = &g->s,
					   .style = m->p->styled ? g->key >> STYLE_SHIFT ? "StartEnd" : "PushPop" : NULL};
		name_line(m->p, g->key, l);
	}
}

static void free_names(void *ctx, unsigned worker, size_t part)
{
	struct lines *m = ctx;

	(void)worker;
	for (size_t i = 0; i < m->parts[part].n; i++)
		if (prefix_of(m->p, m->parts[part].v[i].key)->len)
			free((char *)m->v[m->first[part] + i].name);
}

static void print(struct pass *p, const struct ws_group_part *parts)
{
	struct lines m = {.p = p, .parts = parts};
	unsigned workers;
	size_t n = 0;

	for (size_t i = 0; i < WS_SPILL_PARTS; i++) {
		m.first[i] = n;
		n += parts[i].n;
	}
	workers = n > WS_GROUPS_CROWDED ? ws_parallel_workers() : 1;
	m.v = ws_malloc(n * sizeof(*m.v));
	ws_parallel(workers, WS_SPILL_PARTS, make_lines, &m);
	ws_std8_print(p->s, m.v, n);
	ws_parallel(workers, WS_SPILL_PARTS, free_names, &m);
	free(m.v);
}

static void together(struct pass *p, uint32_t workers)
{
	struct ws_groups *groups = ws_calloc(workers, sizeof(*groups));
	struct ws_domains *domains = ws_calloc(workers, sizeof(*domains));
	struct ws_spill *spills = ws_calloc(workers, sizeof(*spills));
	struct ws_group_part parts[WS_SPILL_PARTS] = {{0}};
	bool spilled = false;

	for (uint32_t w = 0; w < workers; w++) {
		spilled |= p->workers[w].spill != NULL;
		if (p->workers[w].spill)
			spills[w] = *p->workers[w].spill;
		spills[w].shift = ws_spill_shift(ws_report_string_count(p->s->r));
		groups[w] = p->workers[w].groups;
		domains[w] = p->workers[w].domains;
		p->s->unended += p->workers[w].unended;
		p->s->backwards += p->workers[w].backwards;
	}
	ws_domain_table_make(&p->domains, p->s->r, domains, workers);
	if (spilled)
		ws_groups_merge_spilled(groups, spills, workers, canonical, canonical_domain, p, parts);
	else
		parts[0].v = ws_groups_merge(groups, workers, canonical, p, &parts[0].n);
	print(p, parts);
	for (size_t i = 0; i < WS_SPILL_PARTS; i++)
		free(parts[i].v);
	ws_domain_table_free(&p->domains);
	for (uint32_t w = 0; w < workers; w++) {
		ws_groups_free(&groups[w]);
		ws_spill_free(&spills[w]);
		free(p->workers[w].spill);
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
	    .columns = WS_COL(nvtx, start) | WS_COL(nvtx, end) | WS_COL(nvtx, thread) | WS_COL(nvtx, text) | WS_COL(nvtx, domain) |
		       WS_COL(nvtx, type),
	    .time_min = s->time_min,
	    .time_max = s->time_max,
	};
	uint32_t workers = ws_scan_workers(&sc);
	struct pass p = {.s = s, .kinds = kinds, .styled = styled, .lock = PTHREAD_MUTEX_INITIALIZER};

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
