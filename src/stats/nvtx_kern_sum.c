/*
 * nvtx_kern_sum.c - kernels by the NVTX ranges around their launch; a kernel counts for every range that encloses it.
 *
 * To touch a kernel once and not once for each range around it, paths of ranges that look alike (same names on the same thread)
 * are one "trail", and a kernel's time is added to its trail. In the end a trail's distribution is handed to each name on it. How
 * many instances of a range a kernel ran in comes from the distinct pairs of (innermost range, kernel), carried outwards.
 */
#include <stdlib.h>
#include <string.h>

#include "stats/cuda.h"
#include "stats/keyed.h"
#include "stats/launch.h"

static const struct ws_column columns[] = {
    {"NVTX Range", WS_KIND_TEXT},  {"Style", WS_KIND_TEXT},	 {"PID", WS_KIND_ID},	       {"TID", WS_KIND_ID},
    {"NVTX Inst", WS_KIND_COUNT},  {"Kern Inst", WS_KIND_COUNT}, {"Total Time", WS_KIND_TIME}, {"Avg", WS_KIND_MEAN},
    {"Med", WS_KIND_MEAN},	   {"Min", WS_KIND_TIME},	 {"Max", WS_KIND_TIME},	       {"StdDev", WS_KIND_MEAN},
    {"Kernel Name", WS_KIND_TEXT},
};

enum { RECENT = 1 << 14 };

struct pairs { /* node << 32 | kernel, or range << 32 | kernel */
	uint64_t *v;
	size_t n, cap;
	uint64_t *recent; /* pairs that were just added, by their hash: most repeat at once */
};

struct worker {
	struct ws_keyed times; /* by trail << 32 | kernel */
	struct pairs pairs;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

enum { TRAIL_PARENT, TRAIL_RANGE, TRAIL_THREAD, TRAIL_WORDS };
enum { KEY_RANGE, KEY_THREAD, KEY_KERNEL, KEY_WORDS };

struct pass {
	struct ws_stats *s;
	struct ws_launches *l;
	int name;
	struct worker *workers;
	uint32_t worker_count;
	struct ws_keyed trails; /* number i is trail i + 1; trail 0 is that of kernels outside of all ranges */
	uint32_t *trail;	/* by node */
	struct ws_keyed groups; /* what is printed */
	uint64_t *instances;	/* by group */
};

static void add_pair(struct pairs *p, uint64_t pair)
{
	uint64_t *seen = &p->recent[(pair * UINT64_C(0x9e3779b97f4a7c15)) >> 50];

	if (*seen == pair)
		return;
	*seen = pair;
	ws_grow(p->v, p->cap, p->n + 1);
	p->v[p->n++] = pair;
}

static int scan(void *ctx, const struct ws_batch *b)
{
	struct pass *p = ctx;
	struct worker *w = &p->workers[b->worker];
	const uint64_t *start = b->col[ws_cuda_kernel_start], *end = b->col[ws_cuda_kernel_end];

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t name = b->col[p->name][i], key;
		uint32_t node;

		if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i])) {
			*(end[i] == WS_NO_TIME ? &w->unended : &w->backwards) += 1;
			continue;
		}
		name = name ? name : b->col[ws_cuda_kernel_demangled][i];
		node = ws_launches_node(p->l, b->col[ws_cuda_kernel_process][i], b->col[ws_cuda_kernel_correlation][i]);
		key = (uint64_t)p->trail[node] << 32 | name;
		ws_dist_add(ws_keyed_get(&w->times, &key), end[i] - start[i]);
		if (node)
			add_pair(&w->pairs, (uint64_t)node << 32 | name);
	}
	return 0;
}

/* ---- trails ---- */

static void make_trails(struct pass *p)
{
	const struct ws_enclose *x = &p->l->enclose;

	p->trails = (struct ws_keyed){.words = TRAIL_WORDS};
	p->trail = ws_malloc(x->n * sizeof(*p->trail));
	p->trail[0] = 0;
	for (uint32_t i = 1; i < x->n; i++) {
		uint32_t range = x->node[i].range;
		uint64_t key[] = {p->trail[x->node[i].parent], ws_launches_key(p->l, range),
				  ws_range_get(&p->l->ranges, range, ws_nvtx_thread)};

		ws_keyed_get(&p->trails, key);
		p->trail[i] = (uint32_t)p->trails.last + 1;
	}
}

static size_t group(struct pass *p, ws_range_key range, uint64_t thread, uint32_t kernel)
{
	uint64_t key[] = {range, range ? ws_who_thread(p->s->who, (uint32_t)thread)->global_tid : 0, kernel};

	ws_keyed_get(&p->groups, key);
	return p->groups.last;
}

/* ---- instances ---- */

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* By digits of 11 bits, those in which values differ only. */
static void sort_numbers(uint64_t *v, size_t n)
{
	uint64_t *from = v, *to, differ = 0;
	size_t at[2048];

	if (n < 4096) {
		if (n)
			qsort(v, n, sizeof(*v), ascending);
		return;
	}
	to = ws_malloc(n * sizeof(*to));
	for (size_t i = 0; i < n; i++)
		differ |= v[i] ^ v[0];
	for (unsigned shift = 0; shift < 64; shift += 11) {
		size_t sum = 0;
		uint64_t *t;

		if (!(differ >> shift & 2047))
			continue;
		memset(at, 0, sizeof(at));
		for (size_t i = 0; i < n; i++)
			at[from[i] >> shift & 2047]++;
		for (size_t d = 0; d < 2048; d++) {
			size_t count = at[d];

			at[d] = sum;
			sum += count;
		}
		for (size_t i = 0; i < n; i++)
			to[at[from[i] >> shift & 2047]++] = from[i];
		t = from;
		from = to;
		to = t;
	}
	if (from != v)
		memcpy(v, from, n * sizeof(*v));
	free(from != v ? from : to);
}

static void sort_unique(struct pairs *p)
{
	size_t kept = 0;

	sort_numbers(p->v, p->n);
	for (size_t i = 0; i < p->n; i++)
		if (!i || p->v[i] != p->v[i - 1])
			p->v[kept++] = p->v[i];
	p->n = kept;
}

/* The workers' pairs as one set, with names that are equal under one number. */
static struct pairs gather(struct pass *p)
{
	struct pairs all = {0};

	for (uint32_t w = 0; w < p->worker_count; w++) {
		const struct pairs *from = &p->workers[w].pairs;

		ws_grow(all.v, all.cap, all.n + from->n);
		for (size_t i = 0; i < from->n; i++)
			all.v[all.n++] = from->v[i] >> 32 << 32 | ws_report_string_key(p->s->r, (uint32_t)from->v[i]);
	}
	sort_unique(&all);
	return all;
}

static void count_instances(struct pass *p)
{
	const struct ws_enclose_node *nodes = p->l->enclose.node;
	struct pairs inner = gather(p), ranges = {.recent = ws_calloc(RECENT, sizeof(*ranges.recent))};

	for (size_t i = 0; i < inner.n; i++)
		for (uint32_t node = (uint32_t)(inner.v[i] >> 32); node; node = nodes[node].parent)
			add_pair(&ranges, (uint64_t)nodes[node].range << 32 | (uint32_t)inner.v[i]);
	sort_unique(&ranges);
	p->instances = ws_calloc(p->groups.n, sizeof(*p->instances));
	for (size_t i = 0; i < ranges.n; i++) {
		uint32_t range = (uint32_t)(ranges.v[i] >> 32);

		p->instances[group(p, ws_launches_key(p->l, range), ws_range_get(&p->l->ranges, range, ws_nvtx_thread),
				   (uint32_t)ranges.v[i])]++;
	}
	free(inner.v);
	free(ranges.v);
	free(ranges.recent);
}

/* ---- groups ---- */

/* What each trail hands to the names on it, in one fixed order: the group and the distribution. */
static void hand_out(struct pass *p, void (*take)(void *ctx, struct pass *p, const uint64_t key[KEY_WORDS], struct ws_dist *dist),
		     void *ctx)
{
	for (uint32_t w = 0; w < p->worker_count; w++)
		for (size_t i = 0; i < p->workers[w].times.n; i++) {
			uint64_t from = p->workers[w].times.keys[i], key[KEY_WORDS] = {0};
			uint32_t trail = (uint32_t)(from >> 32);

			key[KEY_KERNEL] = ws_report_string_key(p->s->r, (uint32_t)from);
			if (!trail)
				take(ctx, p, key, &p->workers[w].times.dists[i]);
			while (trail) {
				const uint64_t *t = p->trails.keys + (size_t)(trail - 1) * TRAIL_WORDS;

				key[KEY_RANGE] = t[TRAIL_RANGE];
				key[KEY_THREAD] = t[TRAIL_THREAD];
				take(ctx, p, key, &p->workers[w].times.dists[i]);
				trail = (uint32_t)t[TRAIL_PARENT];
			}
		}
}

/* The parts of each group, side by side. */
struct parts {
	uint32_t *group; /* of each part, as they come */
	size_t n, cap, at;
	size_t *first; /* by group, and one past the last */
	struct ws_dist **dist;
};

static void number_part(void *ctx, struct pass *p, const uint64_t *key, struct ws_dist *dist)
{
	struct parts *parts = ctx;

	(void)dist;
	ws_grow(parts->group, parts->cap, parts->n + 1);
	parts->group[parts->n++] = (uint32_t)group(p, key[KEY_RANGE], key[KEY_THREAD], (uint32_t)key[KEY_KERNEL]);
}

static void place_part(void *ctx, struct pass *p, const uint64_t *key, struct ws_dist *dist)
{
	struct parts *parts = ctx;

	(void)p, (void)key;
	parts->dist[parts->first[parts->group[parts->at++]]++] = dist;
}

static struct ws_std8 *summarise(struct pass *p)
{
	struct parts parts = {0};
	struct ws_std8 *sums;
	size_t sum = 0;

	hand_out(p, number_part, &parts);
	parts.first = ws_calloc(p->groups.n + 1, sizeof(*parts.first));
	for (size_t i = 0; i < parts.n; i++)
		parts.first[parts.group[i]]++;
	for (size_t g = 0; g <= p->groups.n; g++) {
		size_t count = parts.first[g];

		parts.first[g] = sum;
		sum += count;
	}
	parts.dist = ws_malloc(parts.n * sizeof(*parts.dist));
	hand_out(p, place_part, &parts);
	free(parts.group);
	sums = ws_calloc(p->groups.n, sizeof(*sums));
	for (size_t g = 0, from = 0; g < p->groups.n; from = parts.first[g++]) /* which has moved to the group's end */
		sums[g] = ws_dist_summary(parts.dist + from, parts.first[g] - from);
	free(parts.first);
	free(parts.dist);
	for (uint32_t w = 0; w < p->worker_count; w++)
		ws_keyed_free(&p->workers[w].times);
	return sums;
}

/* ---- printing ---- */

/* Names of ranges in order: each made once, though it stands in as many lines as it has kernels. */
struct name {
	char *s;
	size_t len;
	bool startend;
	uint32_t number; /* of its key */
};

struct output {
	struct pass *p;
	const struct ws_std8 *sums;
	struct ws_keyed keys; /* of ranges */
	struct name *names;   /* by rank */
	uint32_t *rank;	      /* by number in `keys` */
	struct line {
		uint32_t rank, group;
	} * lines;
};

static int by_text(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	size_t n = x->len < y->len ? x->len : y->len;
	int order = n ? memcmp(x->s, y->s, n) : 0;

	if (order || x->len != y->len)
		return order ? order : x->len < y->len ? -1 : 1;
	if (x->startend != y->startend)
		return x->startend ? 1 : -1;
	return x->number < y->number ? -1 : 1;
}

static void name_ranges(struct output *o)
{
	o->keys = (struct ws_keyed){.words = 1};
	for (size_t g = 0; g < o->p->groups.n; g++) {
		ws_keyed_get(&o->keys, &o->p->groups.keys[g * KEY_WORDS + KEY_RANGE]);
		o->lines[g] = (struct line){(uint32_t)o->keys.last, (uint32_t)g};
	}
	o->names = ws_calloc(o->keys.n, sizeof(*o->names));
	o->rank = ws_calloc(o->keys.n, sizeof(*o->rank));
	for (uint32_t i = 0; i < o->keys.n; i++) {
		o->names[i].number = i;
		o->names[i].startend = o->keys.keys[i] & WS_RANGE_STARTEND;
		if (o->keys.keys[i])
			o->names[i].s = ws_launches_range_name(o->p->l, o->keys.keys[i], &o->names[i].len);
	}
	if (o->keys.n)
		qsort(o->names, o->keys.n, sizeof(*o->names), by_text);
	for (uint32_t i = 0; i < o->keys.n; i++)
		o->rank[o->names[i].number] = i;
	for (size_t g = 0; g < o->p->groups.n; g++)
		o->lines[g].rank = o->rank[o->lines[g].rank];
}

static int by_rank(const void *a, const void *b, void *ctx)
{
	const struct output *o = ctx;
	const struct line *x = a, *y = b;
	const uint64_t *k = o->p->groups.keys + (size_t)x->group * KEY_WORDS, *l = o->p->groups.keys + (size_t)y->group * KEY_WORDS;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (k[KEY_THREAD] != l[KEY_THREAD])
		return k[KEY_THREAD] < l[KEY_THREAD] ? -1 : 1;
	if (o->sums[x->group].total != o->sums[y->group].total)
		return o->sums[x->group].total > o->sums[y->group].total ? -1 : 1;
	return k[KEY_KERNEL] < l[KEY_KERNEL] ? -1 : k[KEY_KERNEL] > l[KEY_KERNEL];
}

static void print_line(const struct output *o, const struct line *l)
{
	const uint64_t *key = o->p->groups.keys + (size_t)l->group * KEY_WORDS;
	const struct name *name = &o->names[l->rank];
	const struct ws_std8 *v = &o->sums[l->group];
	const char *style = name->startend ? "StartEnd" : "PushPop";
	bool in_range = key[KEY_RANGE];
	size_t len;
	const char *kernel = ws_report_string(o->p->s->r, (uint32_t)key[KEY_KERNEL], &len);

	o->p->s->row(o->p->s, (struct ws_cell[]){
				  in_range ? ws_cell_text(name->s, name->len) : ws_cell_null(),
				  in_range ? ws_cell_text(style, strlen(style)) : ws_cell_null(),
				  in_range ? ws_cell_int((int64_t)(key[KEY_THREAD] >> 24 & 0xffffff)) : ws_cell_null(),
				  in_range ? ws_cell_int((int64_t)(key[KEY_THREAD] & 0xffffff)) : ws_cell_null(),
				  ws_cell_int((int64_t)o->p->instances[l->group]),
				  ws_cell_int((int64_t)v->count),
				  ws_cell_int((int64_t)v->total),
				  ws_cell_real(ws_std8_mean(v)),
				  ws_cell_real(ws_std8_median(v)),
				  ws_cell_int((int64_t)v->min),
				  ws_cell_int((int64_t)v->max),
				  ws_cell_real(v->stddev),
				  ws_cell_text(kernel, len),
			      });
}

static void print(struct pass *p, const struct ws_std8 *sums)
{
	struct output o = {.p = p, .sums = sums};

	o.lines = ws_malloc(p->groups.n * sizeof(*o.lines));
	name_ranges(&o);
	if (p->groups.n)
		qsort_r(o.lines, p->groups.n, sizeof(*o.lines), by_rank, &o);
	for (size_t i = 0; i < p->groups.n; i++)
		print_line(&o, &o.lines[i]);
	for (size_t i = 0; i < o.keys.n; i++)
		free(o.names[i].s);
	free(o.names);
	free(o.rank);
	free(o.lines);
	ws_keyed_free(&o.keys);
}

/* ---- the report ---- */

static void together(struct pass *p)
{
	struct ws_std8 *sums;

	ws_calls_free(&p->l->calls); /* memory peaks here: of the launches, ranges and nodes are all that is needed now */
	p->groups = (struct ws_keyed){.words = KEY_WORDS};
	sums = summarise(p);
	count_instances(p);
	print(p, sums);
	free(sums);
	free(p->instances);
	ws_keyed_free(&p->groups);
}

static void scan_kernels(struct pass *p)
{
	struct ws_scan sc = {
	    .table = WS_TABLE_cuda_kernel,
	    .columns = WS_COL(cuda_kernel, start) | WS_COL(cuda_kernel, end) | WS_COL(cuda_kernel, process) |
		       WS_COL(cuda_kernel, correlation) | WS_COL(cuda_kernel, demangled) | UINT64_C(1) << p->name,
	    .time_min = p->s->time_min,
	    .time_max = p->s->time_max,
	};
	uint64_t damaged = 0;

	p->worker_count = ws_scan_workers(&sc);
	memset(p->workers, 0, p->worker_count * sizeof(*p->workers));
	for (uint32_t w = 0; w < p->worker_count; w++) {
		p->workers[w].times = (struct ws_keyed){.words = 1, .per = 1};
		p->workers[w].pairs.recent = ws_calloc(RECENT, sizeof(uint64_t));
	}
	ws_scan_run(p->s->r, &sc, scan, p, &damaged);
	p->s->damaged += damaged;
	for (uint32_t w = 0; w < p->worker_count; w++) {
		p->s->unended += p->workers[w].unended;
		p->s->backwards += p->workers[w].backwards;
	}
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	struct ws_scan any = {.table = WS_TABLE_cuda_kernel};
	struct pass p = {.s = s, .name = ws_cuda_name_column(s)};

	p.l = ws_launches_open(s, true, e);
	if (!p.l)
		return -1;
	p.workers = aligned_alloc(128, ws_scan_workers(&any) * sizeof(*p.workers));
	if (!p.workers) {
		ws_launches_close(p.l);
		return ws_fail(e, "out of memory");
	}
	make_trails(&p);
	scan_kernels(&p);
	together(&p);
	for (uint32_t w = 0; w < p.worker_count; w++) {
		free(p.workers[w].pairs.v);
		free(p.workers[w].pairs.recent);
	}
	free(p.workers);
	free(p.trail);
	ws_keyed_free(&p.trails);
	ws_launches_close(p.l);
	return 0;
}

const struct ws_stat ws_stat_nvtx_kern_sum = {
    .name = "nvtx_kern_sum",
    .title = "NVTX Range Kernel Summary",
    .about = "Kernels by the NVTX ranges of the launching thread that enclose the call; a kernel counts for every range around it, "
	     "and without a range in those lines that show none. :base names functions only, :mangled as the compiler does",
    .what = "CUDA kernels",
    .unended = "had no times",
    .args = ws_cuda_name_args,
    .columns = columns,
    .column_count = WS_COUNT(columns),
    .run = run,
};
