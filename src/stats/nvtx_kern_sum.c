/*
 * nvtx_kern_sum.c - kernels by the NVTX ranges around their launch; a kernel counts for every range
 * that encloses it.
 *
 * To touch a kernel once and not once for each range around it, paths of ranges that look alike
 * (same names on the same thread) are one "trail". Durations are sorted by trail and kernel, so
 * that each such pair is a run in one array; in the end a run is handed to each "label" (name and
 * thread) on its trail. How many instances of a range a kernel ran in comes from the distinct pairs
 * of (innermost range, kernel), carried outwards. All grouping is by sorting numbers: where names
 * never repeat there are millions of groups, and a hash table would miss the cache at each.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "stats/cuda.h"
#include "stats/keyed.h"
#include "stats/launch.h"
#include "stats/std8.h"

static const struct ws_column columns[] = {
	{"NVTX Range", WS_KIND_TEXT},  {"Style", WS_KIND_TEXT},	     {"PID", WS_KIND_ID},
	{"TID", WS_KIND_ID},	       {"NVTX Inst", WS_KIND_COUNT}, {"Kern Inst", WS_KIND_COUNT},
	{"Total Time", WS_KIND_TIME},  {"Avg", WS_KIND_MEAN},	     {"Med", WS_KIND_MEAN},
	{"Min", WS_KIND_TIME},	       {"Max", WS_KIND_TIME},	     {"StdDev", WS_KIND_MEAN},
	{"Kernel Name", WS_KIND_TEXT},
};

enum { RECENT = 1 << 14 };

struct pairs { /* node << 32 | kernel, or range << 32 | kernel */
	uint64_t *v;
	size_t n, cap;
	uint64_t *recent; /* pairs that were just added, by their hash: most repeat at once */
};

struct worker {
	struct ws_keyed_value *times; /* trail << 32 | kernel, and nanoseconds */
	size_t n, cap;
	struct pairs pairs;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

enum { TRAIL_PARENT, TRAIL_RANGE, TRAIL_THREAD, TRAIL_WORDS };
enum { LABEL_RANGE, LABEL_THREAD, LABEL_WORDS }; /* key of the name, and globalTid */

struct pass {
	struct ws_stats *s;
	struct ws_launches *l;
	int name;
	struct worker *workers;
	uint32_t worker_count;
	struct ws_keyed trails; /* number i is trail i + 1; trail 0 is that of kernels outside of
				   all ranges */
	uint32_t *trail;	/* by node */
	struct ws_keyed labels; /* number 0 is that of no range */
	uint32_t *trail_label;	/* by trail */
	struct ws_keyed_value *times; /* all, by key: trail << 32 | kernel, and nanoseconds */
	size_t time_count;
	uint32_t *kernel_number; /* by string id: place in `kernels` plus 1 */
	uint32_t *kernels;	 /* string keys, as they came */
	size_t kernel_count, kernel_cap;
	struct group *groups; /* by label and kernel */
	size_t group_count;
};

struct group {
	uint32_t label, kernel; /* their numbers */
	uint64_t instances;
	struct ws_std8 s;
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

	ws_grow(w->times, w->cap, w->n + b->rows);
	for (size_t i = 0; i < b->rows; i++) {
		uint64_t name = b->col[p->name][i];
		uint32_t node;

		if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i])) {
			*(end[i] == WS_NO_TIME ? &w->unended : &w->backwards) += 1;
			continue;
		}
		name = name ? name : b->col[ws_cuda_kernel_demangled][i];
		node = ws_launches_node(p->l, b->col[ws_cuda_kernel_process][i],
					b->col[ws_cuda_kernel_correlation][i]);
		w->times[w->n++] = (struct ws_keyed_value){(uint64_t)p->trail[node] << 32 | name,
							   end[i] - start[i]};
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

static uint32_t label(struct pass *p, ws_range_key range, uint64_t thread)
{
	uint64_t key[] = {range,
			  range ? ws_who_thread(p->s->who, (uint32_t)thread)->global_tid : 0};

	ws_keyed_get(&p->labels, key);
	return (uint32_t)p->labels.last;
}

static void make_labels(struct pass *p)
{
	p->labels = (struct ws_keyed){.words = LABEL_WORDS};
	p->trail_label = ws_malloc((p->trails.n + 1) * sizeof(*p->trail_label));
	p->trail_label[0] = label(p, 0, 0);
	for (size_t i = 0; i < p->trails.n; i++) {
		const uint64_t *t = p->trails.keys + i * TRAIL_WORDS;

		p->trail_label[i + 1] = label(p, t[TRAIL_RANGE], t[TRAIL_THREAD]);
	}
}

/* Kernels of equal names have one number, and there are few: so that a label and a kernel fit into
 * few bits. */
static uint32_t kernel_number(struct pass *p, uint32_t id)
{
	uint32_t key = ws_report_string_key(p->s->r, id), *number;

	if (key > ws_report_string_count(p->s->r))
		key = 0; /* a number that the report does not have is no name */
	number = &p->kernel_number[key];
	if (!*number) {
		ws_grow(p->kernels, p->kernel_cap, p->kernel_count + 1);
		p->kernels[p->kernel_count++] = key;
		*number = (uint32_t)p->kernel_count;
	}
	return *number - 1;
}

/* ---- instances ---- */

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* By digits of 11 bits from bit `from` on, those in which values differ only; stable. */
static void sort_numbers(uint64_t *v, size_t n, unsigned from_bit)
{
	uint64_t *from = v, *to, differ = 0;
	size_t at[2048];

	if (n < 4096 && !from_bit) {
		if (n)
			qsort(v, n, sizeof(*v), ascending);
		return;
	}
	to = ws_malloc((n + 1) * sizeof(*to));
	for (size_t i = 0; i < n; i++)
		differ |= v[i] ^ v[0];
	for (unsigned shift = from_bit; shift < 64; shift += 11) {
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

	sort_numbers(p->v, p->n, 0);
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
			all.v[all.n++] = from->v[i] >> 32 << 32 |
					 ws_report_string_key(p->s->r, (uint32_t)from->v[i]);
	}
	sort_unique(&all);
	return all;
}

static unsigned bits_for(uint64_t n)
{
	return n > 1 ? 64 - (unsigned)__builtin_clzll(n - 1) : 0;
}

/* Label and kernel as one number, in the order of groups. */
static uint64_t group_key(const struct pass *p, uint32_t label_number, uint32_t kernel)
{
	return (uint64_t)label_number << bits_for(p->kernel_count) | kernel;
}

static void count_instances(struct pass *p)
{
	const struct ws_enclose_node *nodes = p->l->enclose.node;
	struct pairs inner = gather(p),
		     ranges = {.recent = ws_calloc(RECENT, sizeof(*ranges.recent))};
	uint32_t *of_range = ws_malloc((p->l->ranges.n + 1) * sizeof(*of_range));

	for (size_t i = 0; i < inner.n; i++)
		for (uint32_t node = (uint32_t)(inner.v[i] >> 32); node; node = nodes[node].parent)
			add_pair(&ranges, (uint64_t)nodes[node].range << 32 | (uint32_t)inner.v[i]);
	free(inner.v);
	free(ranges.recent);
	sort_unique(&ranges);
	for (uint32_t node = 1; node < p->l->enclose.n; node++)
		of_range[nodes[node].range] = p->trail_label[p->trail[node]];
	for (size_t i = 0; i < ranges.n; i++)
		ranges.v[i] = group_key(p, of_range[ranges.v[i] >> 32],
					kernel_number(p, (uint32_t)ranges.v[i]));
	free(of_range);
	sort_numbers(ranges.v, ranges.n, 0);
	for (size_t g = 0, i = 0; g < p->group_count && i < ranges.n; g++) {
		uint64_t key = group_key(p, p->groups[g].label, p->groups[g].kernel);

		for (; i < ranges.n && ranges.v[i] <= key; i++)
			p->groups[g].instances += ranges.v[i] == key;
	}
	free(ranges.v);
}

/* ---- durations by trail and kernel ---- */

/* All workers' in one array. */
static void gather_times(struct pass *p)
{
	size_t at = 0;

	for (uint32_t w = 0; w < p->worker_count; w++)
		p->time_count += p->workers[w].n;
	p->times = ws_realloc(p->workers[0].times, (p->time_count + 1) * sizeof(*p->times));
	for (uint32_t w = 0; w < p->worker_count; at += p->workers[w++].n) {
		if (!w)
			continue;
		if (p->workers[w].n)
			memcpy(p->times + at, p->workers[w].times,
			       p->workers[w].n * sizeof(*p->times));
		free(p->workers[w].times);
	}
	p->times = ws_sort_by_key(p->times, p->time_count);
}

/* Runs of equal key: where each begins, and after the last the end. */
struct runs {
	size_t *first;
	size_t n, cap;
};

static struct runs find_runs(const struct pass *p)
{
	struct runs r = {0};

	for (size_t i = 0; i <= p->time_count; i++) {
		if (i && i < p->time_count && p->times[i].key == p->times[i - 1].key)
			continue;
		ws_grow(r.first, r.cap, r.n + 1);
		r.first[r.n++] = i;
	}
	r.n--;
	return r;
}

/* ---- groups ---- */

/* What each run gives to every label on its trail: group << run_bits | run. */
static struct pairs hand_out(struct pass *p, const struct runs *r, unsigned run_bits)
{
	struct pairs parts = {0};

	for (size_t i = 0; i < r->n;
	     i++) /* all numbers of kernels are known before keys are made */
		kernel_number(p, (uint32_t)p->times[r->first[i]].key);
	for (size_t i = 0; i < r->n; i++) {
		uint64_t key = p->times[r->first[i]].key;
		uint32_t trail = (uint32_t)(key >> 32), kernel = kernel_number(p, (uint32_t)key);

		do {
			ws_grow(parts.v, parts.cap, parts.n + 1);
			parts.v[parts.n++] =
				group_key(p, p->trail_label[trail], kernel) << run_bits | i;
			trail = trail ? (uint32_t)p->trails.keys[(size_t)(trail - 1) * TRAIL_WORDS +
								 TRAIL_PARENT]
				      : 0;
		} while (trail);
	}
	sort_numbers(parts.v, parts.n, run_bits);
	return parts;
}

static struct ws_std8 summary(const struct pass *p, const struct runs *r, const uint64_t *part,
			      size_t parts, uint64_t run_mask)
{
	struct ws_dist d = {0}, *all[] = {&d};
	struct ws_std8 s;

	for (size_t i = 0; i < parts; i++) {
		size_t run = part[i] & run_mask;

		for (size_t k = r->first[run]; k < r->first[run + 1]; k++)
			ws_dist_add(&d, p->times[k].value);
	}
	s = ws_dist_summary(all, 1);
	ws_dist_free(&d);
	return s;
}

static int make_groups(struct pass *p, struct ws_err *e)
{
	struct runs r = find_runs(p);
	unsigned run_bits = bits_for(r.n), kernel_bits;
	size_t cap = 0;
	struct pairs parts;

	if (run_bits + bits_for(p->labels.n) +
		    bits_for(r.n < ws_report_string_count(p->s->r)
				     ? r.n
				     : ws_report_string_count(p->s->r)) >
	    64) {
		free(r.first);
		return ws_fail(e, "there are too many different ranges and kernels for one table");
	}
	parts = hand_out(p, &r, run_bits);
	kernel_bits = bits_for(p->kernel_count);
	for (size_t i = 0, next; i < parts.n; i = next) {
		uint64_t key = parts.v[i] >> run_bits;

		for (next = i + 1; next < parts.n && parts.v[next] >> run_bits == key;)
			next++;
		ws_grow(p->groups, cap, p->group_count + 1);
		p->groups[p->group_count++] = (struct group){
			.label = (uint32_t)(key >> kernel_bits),
			.kernel = (uint32_t)(key & ((UINT64_C(1) << kernel_bits) - 1)),
			.s = summary(p, &r, parts.v + i, next - i, (UINT64_C(1) << run_bits) - 1)};
	}
	free(parts.v);
	free(r.first);
	free(p->times);
	p->times = NULL;
	return 0;
}

/* ---- printing ---- */

/* A label with its groups. Names are made one after the other in `text`. */
struct line {
	size_t text, len;
	size_t first, count; /* groups */
	uint32_t number;
	bool startend;
};

struct output {
	struct pass *p;
	struct ws_text text;
	struct line *lines;
	struct row *rows;
};

static int by_text(const void *a, const void *b, void *ctx)
{
	const struct output *o = ctx;
	const struct line *x = a, *y = b;
	size_t n = x->len < y->len ? x->len : y->len;
	int order = n ? memcmp(o->text.s + x->text, o->text.s + y->text, n) : 0;
	const uint64_t *k = o->p->labels.keys + (size_t)x->number * LABEL_WORDS,
		       *l = o->p->labels.keys + (size_t)y->number * LABEL_WORDS;

	if (order || x->len != y->len)
		return order ? order : x->len < y->len ? -1 : 1;
	if (x->startend != y->startend)
		return x->startend ? 1 : -1;
	if (k[LABEL_RANGE] != l[LABEL_RANGE])
		return k[LABEL_RANGE] < l[LABEL_RANGE] ? -1 : 1;
	return k[LABEL_THREAD] < l[LABEL_THREAD] ? -1 : k[LABEL_THREAD] > l[LABEL_THREAD];
}

static int by_total(const void *a, const void *b, void *ctx)
{
	const struct group *x = a, *y = b;
	const uint32_t *kernels = ctx;

	if (x->s.total != y->s.total)
		return x->s.total > y->s.total ? -1 : 1;
	return kernels[x->kernel] < kernels[y->kernel] ? -1
						       : kernels[x->kernel] > kernels[y->kernel];
}

static size_t name_lines(struct output *o)
{
	const struct pass *p = o->p;
	size_t n = 0;

	ws_text_puts(&o->text, "");
	for (size_t g = 0, next; g < p->group_count; g = next, n++) {
		uint32_t number = p->groups[g].label;
		ws_range_key range = p->labels.keys[(size_t)number * LABEL_WORDS + LABEL_RANGE];
		struct line *l = &o->lines[n];
		char *s;

		for (next = g + 1; next < p->group_count && p->groups[next].label == number;)
			next++;
		*l = (struct line){.text = o->text.len,
				   .first = g,
				   .count = next - g,
				   .number = number,
				   .startend = range & WS_RANGE_STARTEND};
		if (!range)
			continue;
		s = ws_launches_range_name(p->l, range, &l->len);
		ws_text_add(&o->text, s, l->len);
		free(s);
	}
	return n;
}

struct row {
	const struct line *l;
	const struct group *g;
};

static size_t make_row(const void *ctx, size_t i, struct ws_cell *cells, struct ws_text *text)
{
	const struct output *o = ctx;
	const struct line *l = o->rows[i].l;
	const struct group *g = o->rows[i].g;
	const uint64_t *key = o->p->labels.keys + (size_t)l->number * LABEL_WORDS;
	const char *style = l->startend ? "StartEnd" : "PushPop";
	bool in_range = key[LABEL_RANGE];
	size_t len;
	const char *kernel = ws_report_string(o->p->s->r, o->p->kernels[g->kernel], &len);
	const struct ws_cell row[] = {
		in_range ? ws_cell_text(o->text.s + l->text, l->len) : ws_cell_null(),
		in_range ? ws_cell_text(style, strlen(style)) : ws_cell_null(),
		in_range ? ws_cell_int((int64_t)(key[LABEL_THREAD] >> 24 & 0xffffff))
			 : ws_cell_null(),
		in_range ? ws_cell_int((int64_t)(key[LABEL_THREAD] & 0xffffff)) : ws_cell_null(),
		ws_cell_int((int64_t)g->instances),
		ws_cell_int((int64_t)g->s.count),
		ws_cell_int((int64_t)g->s.total),
		ws_std8_mean_cell(&g->s),
		ws_std8_median_cell(&g->s),
		ws_cell_int((int64_t)g->s.min),
		ws_cell_int((int64_t)g->s.max),
		ws_std8_stddev_cell(&g->s),
		ws_cell_text(kernel, len),
	};

	(void)text;
	_Static_assert(WS_COUNT(row) == WS_COUNT(columns), "a cell for each column");
	memcpy(cells, row, sizeof(row));
	return 0;
}

static void print(struct pass *p)
{
	struct output o = {.p = p, .lines = ws_malloc((p->labels.n + 1) * sizeof(*o.lines))};
	size_t n = name_lines(&o), rows = 0;

	o.rows = ws_malloc(p->group_count * sizeof(*o.rows));
	if (n)
		qsort_r(o.lines, n, sizeof(*o.lines), by_text, &o);
	for (size_t i = 0; i < n; i++) {
		struct group *g = p->groups + o.lines[i].first;

		if (o.lines[i].count > 1)
			qsort_r(g, o.lines[i].count, sizeof(*g), by_total, p->kernels);
		for (size_t k = 0; k < o.lines[i].count; k++)
			o.rows[rows++] = (struct row){&o.lines[i], &g[k]};
	}
	p->s->rows(p->s, rows, make_row, &o);
	ws_text_free(&o.text);
	free(o.lines);
	free(o.rows);
}

/* ---- the report ---- */

static int together(struct pass *p, struct ws_err *e)
{
	int rc;

	ws_calls_free(&p->l->calls); /* memory peaks here: of the launches, ranges and nodes are all
					that is needed now */
	p->kernel_number =
		ws_calloc((size_t)ws_report_string_count(p->s->r) + 1, sizeof(*p->kernel_number));
	make_labels(p);
	gather_times(p);
	rc = make_groups(p, e);
	if (!rc) {
		count_instances(p);
		print(p);
	}
	free(p->times);
	free(p->groups);
	free(p->kernels);
	free(p->kernel_number);
	free(p->trail_label);
	ws_keyed_free(&p->labels);
	return rc;
}

static void scan_kernels(struct pass *p)
{
	struct ws_scan sc = {
		.table = WS_TABLE_cuda_kernel,
		.columns = WS_COL(cuda_kernel, start) | WS_COL(cuda_kernel, end) |
			   WS_COL(cuda_kernel, process) | WS_COL(cuda_kernel, correlation) |
			   WS_COL(cuda_kernel, demangled) | UINT64_C(1) << p->name,
		.time_min = p->s->time_min,
		.time_max = p->s->time_max,
	};
	uint64_t damaged = 0;

	p->worker_count = ws_scan_workers(&sc);
	memset(p->workers, 0, p->worker_count * sizeof(*p->workers));
	for (uint32_t w = 0; w < p->worker_count; w++) {
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
	int rc;

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
	rc = together(&p, e);
	for (uint32_t w = 0; w < p.worker_count; w++) {
		free(p.workers[w].pairs.v);
		free(p.workers[w].pairs.recent);
	}
	free(p.workers);
	free(p.trail);
	ws_keyed_free(&p.trails);
	ws_launches_close(p.l);
	return rc;
}

const struct ws_stat ws_stat_nvtx_kern_sum = {
	.name = "nvtx_kern_sum",
	.title = "NVTX Range Kernel Summary",
	.about = "Kernels by the NVTX ranges of the launching thread that enclose the call; a "
		 "kernel counts for every range around it, "
		 "and without a range in those lines that show none. :base names functions only, "
		 ":mangled as the compiler does",
	.what = "CUDA kernels",
	.unended = "had no times",
	.args = ws_cuda_name_args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
