/*
 * ranges.c - see ranges.h.
 *
 * One pass over the ranges on all cores. A worker's key is style, its own number of the domain, and the text's id as stored; only
 * afterwards, once per distinct key and not per row, are these mapped to what the user sees: domains by name, texts by content.
 */
#include "stats/ranges.h"

#include <stdlib.h>
#include <string.h>

#include "stats/domains.h"
#include "stats/group.h"
#include "stats/std8.h"

struct worker {
	struct ws_groups groups;
	struct ws_domains domains;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

struct pass {
	struct ws_stats *s;
	struct worker *workers;
	unsigned kinds;
	bool styled;
	struct ws_domain_table domains;
};

enum { STYLE_SHIFT = 63, DOMAIN_SHIFT = 32 };
enum { MANY = 1 << 16, AHEAD = 16 }; /* slots beyond what the cache holds; rows to look ahead then */

static int scan(void *ctx, const struct ws_batch *b)
{
	struct pass *p = ctx;
	struct worker *w = &p->workers[b->worker];
	const uint64_t *start = b->col[ws_nvtx_start], *end = b->col[ws_nvtx_end], *type = b->col[ws_nvtx_type];
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
		if (ws_unlikely(w->groups.mask > MANY) && i + AHEAD < b->rows) /* of the same domain, most likely */
			ws_groups_prefetch(&w->groups, (key & ~(uint64_t)UINT32_MAX) | text[i + AHEAD]);
		ws_dist_add(ws_groups_get(&w->groups, key), end[i] - start[i]);
	}
	return 0;
}

static uint64_t canonical(void *ctx, size_t worker, uint64_t key)
{
	struct pass *p = ctx;
	uint32_t number = (uint32_t)(key >> DOMAIN_SHIFT) & INT32_MAX;
	uint64_t domain = number ? p->domains.canonical[worker][number] : 0;

	return (key & UINT64_C(1) << STYLE_SHIFT) | domain << DOMAIN_SHIFT | ws_report_string_key(p->s->r, (uint32_t)key);
}

/* The name shown: the domain's before the text's, unless it is the default domain. Allocated names go to `owned`. */
static void name_line(const struct pass *p, uint64_t key, struct ws_std8_line *l, char **owned)
{
	const struct ws_text *prefix = &p->domains.prefixes[(uint32_t)(key >> DOMAIN_SHIFT) & INT32_MAX];
	size_t len;
	const char *text = ws_report_string(p->s->r, (uint32_t)key, &len);

	*owned = NULL;
	l->name = text;
	l->name_len = len;
	if (!prefix->len)
		return;
	*owned = ws_malloc(prefix->len + len);
	memcpy(*owned, prefix->s, prefix->len);
	memcpy(*owned + prefix->len, text, len);
	l->name = *owned;
	l->name_len = prefix->len + len;
}

static void print(struct pass *p, const struct ws_group_sum *sums, size_t count)
{
	struct ws_std8_line *lines = ws_calloc(count, sizeof(*lines));
	char **owned = ws_malloc(count * sizeof(*owned));

	for (size_t i = 0; i < count; i++) {
		lines[i].s = &sums[i].s;
		lines[i].style = p->styled ? sums[i].key >> STYLE_SHIFT ? "StartEnd" : "PushPop" : NULL;
		name_line(p, sums[i].key, &lines[i], &owned[i]);
	}
	ws_std8_print(p->s, lines, count);
	for (size_t i = 0; i < count; i++)
		free(owned[i]);
	free(owned);
	free(lines);
}

static void together(struct pass *p, uint32_t workers)
{
	struct ws_groups *groups = ws_calloc(workers, sizeof(*groups));
	struct ws_domains *domains = ws_calloc(workers, sizeof(*domains));
	struct ws_group_sum *sums;
	size_t count;

	for (uint32_t w = 0; w < workers; w++) {
		groups[w] = p->workers[w].groups;
		domains[w] = p->workers[w].domains;
		p->s->unended += p->workers[w].unended;
		p->s->backwards += p->workers[w].backwards;
	}
	ws_domain_table_make(&p->domains, p->s->r, domains, workers);
	sums = ws_groups_merge(groups, workers, canonical, p, &count);
	print(p, sums, count);
	free(sums);
	ws_domain_table_free(&p->domains);
	for (uint32_t w = 0; w < workers; w++) {
		ws_groups_free(&groups[w]);
		ws_domains_free(&domains[w]);
	}
	free(groups);
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
	struct pass p = {.s = s, .kinds = kinds, .styled = styled};

	p.workers = aligned_alloc(128, workers * sizeof(*p.workers));
	if (!p.workers)
		return ws_fail(e, "out of memory");
	memset(p.workers, 0, workers * sizeof(*p.workers));
	ws_scan_run(s->r, &sc, scan, &p, &s->damaged);
	together(&p, workers);
	free(p.workers);
	return 0;
}
