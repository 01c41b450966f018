/* nvtx_gpu_proj_sum.c - NVTX ranges by name with the time that the GPU spent on what was launched inside (proj.c). */
#include <stdlib.h>
#include <string.h>

#include "stats/keyed.h"
#include "stats/proj.h"

static const struct ws_column columns[] = {
    {"Range", WS_KIND_TEXT},
    {"Style", WS_KIND_TEXT},
    {"Total Proj Time", WS_KIND_TIME},
    {"Total Range Time", WS_KIND_TIME},
    {"Range Instances", WS_KIND_COUNT},
    {"Proj Avg", WS_KIND_MEAN},
    {"Proj Med", WS_KIND_MEAN},
    {"Proj Min", WS_KIND_TIME},
    {"Proj Max", WS_KIND_TIME},
    {"Proj StdDev", WS_KIND_MEAN},
    {"Total GPU Ops", WS_KIND_COUNT},
    {"Avg GPU Ops", WS_KIND_RATIO},
    {"Avg Range Lvl", WS_KIND_RATIO},
    {"Avg Num Child", WS_KIND_RATIO},
};

struct sums { /* beside the distribution of projected times */
	uint64_t range_ns, ops, levels, children;
};

struct line {
	char *name;
	size_t len;
	bool startend;
	struct ws_std8 s;
	struct sums more;
};

static int by_total(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	size_t n = x->len < y->len ? x->len : y->len;
	int order;

	if (x->s.total != y->s.total)
		return x->s.total > y->s.total ? -1 : 1;
	order = n ? memcmp(x->name, y->name, n) : 0;
	if (order || x->len != y->len)
		return order ? order : x->len < y->len ? -1 : 1;
	return x->startend - y->startend;
}

static void print_line(struct ws_stats *s, const struct line *l)
{
	const char *style = l->startend ? "StartEnd" : "PushPop";
	long double n = (long double)l->s.count;

	s->row(s, (struct ws_cell[]){
		      ws_cell_text(l->name, l->len),
		      ws_cell_text(style, strlen(style)),
		      ws_cell_int((int64_t)l->s.total),
		      ws_cell_int((int64_t)l->more.range_ns),
		      ws_cell_int((int64_t)l->s.count),
		      ws_cell_real(ws_std8_mean(&l->s)),
		      ws_cell_real(ws_std8_median(&l->s)),
		      ws_cell_int((int64_t)l->s.min),
		      ws_cell_int((int64_t)l->s.max),
		      ws_cell_real(l->s.stddev),
		      ws_cell_int((int64_t)l->more.ops),
		      ws_cell_real((long double)l->more.ops / n),
		      ws_cell_real((long double)l->more.levels / n),
		      ws_cell_real((long double)l->more.children / n),
		  });
}

static void group(const struct ws_proj *p, struct ws_keyed *groups, struct sums **sums)
{
	size_t cap = 0;

	for (uint32_t i = 0; i < p->l->ranges.n; i++) {
		uint64_t start = ws_range_get(&p->l->ranges, i, ws_nvtx_start), end = ws_range_get(&p->l->ranges, i, ws_nvtx_end);
		uint64_t key;
		struct sums *m;

		if (!p->span[i].ops)
			continue;
		key = ws_launches_key(p->l, i);
		ws_dist_add(ws_keyed_get(groups, &key), p->span[i].last - p->span[i].first);
		if (groups->n > cap) {
			size_t old = cap;

			ws_grow(*sums, cap, groups->n);
			memset(*sums + old, 0, (cap - old) * sizeof(**sums));
		}
		m = &(*sums)[groups->last];
		m->range_ns += end == WS_NO_TIME ? 0 : end - start;
		m->ops += p->span[i].ops;
		m->levels += p->level[i];
		m->children += p->children[i];
	}
}

static void print(struct ws_stats *s, const struct ws_proj *p, struct ws_keyed *groups, const struct sums *sums)
{
	struct line *lines = ws_calloc(groups->n, sizeof(*lines));

	for (size_t i = 0; i < groups->n; i++) {
		struct ws_dist *d = &groups->dists[i];

		lines[i].s = ws_dist_summary(&d, 1);
		lines[i].more = sums[i];
		lines[i].startend = groups->keys[i] & WS_RANGE_STARTEND;
		lines[i].name = ws_launches_range_name(p->l, groups->keys[i], &lines[i].len);
	}
	if (groups->n)
		qsort(lines, groups->n, sizeof(*lines), by_total);
	for (size_t i = 0; i < groups->n; i++) {
		print_line(s, &lines[i]);
		free(lines[i].name);
	}
	free(lines);
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	struct ws_keyed groups = {.words = 1, .per = 1};
	struct sums *sums = NULL;
	struct ws_proj p;
	int rc = ws_proj_load(s, &p, e);

	if (!rc) {
		group(&p, &groups, &sums);
		print(s, &p, &groups, sums);
	}
	ws_keyed_free(&groups);
	free(sums);
	ws_proj_free(&p);
	return rc;
}

const struct ws_stat ws_stat_nvtx_gpu_proj_sum = {
    .name = "nvtx_gpu_proj_sum",
    .title = "NVTX GPU Projection Summary",
    .about = "NVTX ranges by name and style, projected to the GPU: from the start of the first kernel, copy or memset that was "
	     "launched inside, on the same thread, to the end of the last. Ranges without such work are not here.",
    .what = "NVTX ranges with work on a GPU",
    .unended = "held work without times",
    .columns = columns,
    .column_count = WS_COUNT(columns),
    .run = run,
};
