/*
 * cuda_sum.c - summaries of CUDA calls and of work on GPUs; see cuda.h.
 *
 * One pass over each table on all cores. A worker's keys are what is stored (ids of strings, kinds,
 * sizes of grids); only afterwards, once per distinct key and not per row, are they mapped to what
 * the user sees.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stats/cuda.h"
#include "stats/keyed.h"
#include "stats/launch.h"
#include "stats/std8.h"
#include "text/texts.h"

/* Words of a key. The grid is there with WS_CUDA_SUM_GRID, the label of the innermost range with
 * :nvtx-name. */
enum { KEY_NAME, KEY_RANGE, KEY_GRID, KEY_WORDS = KEY_GRID + 3 };
enum { SOURCE_SHIFT = 56, AHEAD = 16 };

struct worker {
	struct ws_keyed keyed;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

struct pass {
	struct ws_stats *s;
	unsigned how;
	enum ws_cuda_source source; /* being scanned */
	const struct ws_cuda_columns *c;
	int name;
	struct worker *workers;
	struct ws_launches *launches; /* with :nvtx-name */
	struct ws_texts texts;	      /* names of calls */
};

static uint32_t key_words(const struct pass *p)
{
	return p->how & WS_CUDA_SUM_GRID ? KEY_WORDS : p->launches ? KEY_RANGE + 1 : KEY_NAME + 1;
}

static void grid_key(const struct ws_batch *b, size_t i, uint64_t *key)
{
	key[KEY_GRID] = b->col[ws_cuda_kernel_grid_x][i] | b->col[ws_cuda_kernel_grid_y][i] << 32;
	key[KEY_GRID + 1] = b->col[ws_cuda_kernel_grid_z][i] | b->col[ws_cuda_kernel_block_x][i]
								       << 32;
	key[KEY_GRID + 2] = b->col[ws_cuda_kernel_block_y][i] | b->col[ws_cuda_kernel_block_z][i]
									<< 32;
}

static uint64_t name_key(const struct pass *p, const struct ws_batch *b, size_t i)
{
	uint64_t name = p->name < 0 ? 0 : b->col[p->name][i];

	if (p->source == WS_CUDA_KERNEL && !name)
		name = b->col[ws_cuda_kernel_demangled][i];
	return (uint64_t)p->source << SOURCE_SHIFT | name;
}

/* The key of row i, and what looking it up will touch fetched. */
static void make_key(const struct pass *p, const struct worker *w, const struct ws_batch *b,
		     size_t i, uint64_t *key)
{
	memset(key, 0, KEY_WORDS * sizeof(*key));
	key[KEY_NAME] = name_key(p, b, i);
	if (p->how & WS_CUDA_SUM_GRID)
		grid_key(b, i, key);
	if (!p->launches || p->source != WS_CUDA_KERNEL)
		return;
	key[KEY_RANGE] = p->launches->label[ws_launches_node(p->launches, b->col[p->c->process][i],
							     b->col[p->c->correlation][i])];
	ws_keyed_prefetch(&w->keyed, key);
}

/* Rows go by some at a time: with names that never repeat, each key is a miss of the cache. */
static int scan(void *ctx, const struct ws_batch *b)
{
	struct pass *p = ctx;
	struct worker *w = &p->workers[b->worker];
	const uint64_t *start = b->col[p->c->start], *end = b->col[p->c->end];
	const uint64_t *bytes = p->how & WS_CUDA_SUM_BYTES ? b->col[p->c->bytes] : NULL;

	for (size_t from = 0, n; from < b->rows; from += n) {
		uint64_t keys[AHEAD][KEY_WORDS];

		n = b->rows - from < AHEAD ? b->rows - from : AHEAD;
		for (size_t i = 0; i < n; i++)
			make_key(p, w, b, from + i, keys[i]);
		for (size_t i = from; i < from + n; i++) {
			if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i]) && !bytes)
				*(end[i] == WS_NO_TIME ? &w->unended : &w->backwards) += 1;
			else
				ws_dist_add(ws_keyed_get(&w->keyed, keys[i - from]),
					    bytes ? bytes[i] : end[i] - start[i]);
		}
	}
	return 0;
}

static uint64_t bit(int column)
{
	return column < 0 ? 0 : UINT64_C(1) << column;
}

static void scan_source(struct pass *p, enum ws_cuda_source source)
{
	const struct ws_cuda_columns *c = &ws_cuda_columns[source];
	struct ws_scan sc = {
		.table = c->table,
		.columns = bit(c->start) | bit(c->end) | bit(c->name),
		.time_min = p->s->time_min,
		.time_max = p->s->time_max,
	};
	uint64_t damaged = 0;

	p->source = source;
	p->c = c;
	p->name = source == WS_CUDA_KERNEL ? ws_cuda_name_column(p->s) : c->name;
	sc.columns |= bit(p->name);
	if (p->how & WS_CUDA_SUM_BYTES)
		sc.columns |= bit(c->bytes);
	if (p->how & WS_CUDA_SUM_GRID)
		sc.columns |= WS_COL(cuda_kernel, grid_x) | WS_COL(cuda_kernel, grid_y) |
			      WS_COL(cuda_kernel, grid_z) | WS_COL(cuda_kernel, block_x) |
			      WS_COL(cuda_kernel, block_y) | WS_COL(cuda_kernel, block_z);
	if (p->launches && source == WS_CUDA_KERNEL)
		sc.columns |= bit(c->process) | bit(c->correlation);
	ws_scan_run(p->s->r, &sc, scan, p, &damaged);
	p->s->damaged += damaged;
}

static void canonical(void *ctx, size_t worker, uint64_t *key)
{
	struct pass *p = ctx;
	uint32_t id = (uint32_t)key[KEY_NAME];
	size_t len;

	(void)worker;
	switch (key[KEY_NAME] >> SOURCE_SHIFT) {
	case WS_CUDA_API: {
		const char *name = ws_cuda_function(p->s->r, id, &len);

		id = ws_texts_number(&p->texts, name, len);
		break;
	}
	case WS_CUDA_KERNEL:
		id = ws_report_string_key(p->s->r, id);
		if (p->launches)
			key[KEY_RANGE] = ws_launches_label_key(p->launches, key[KEY_RANGE]);
		break;
	}
	key[KEY_NAME] = key[KEY_NAME] >> SOURCE_SHIFT << SOURCE_SHIFT | id;
}

/* ---- printing ---- */

/* Texts made for lines; freed when all is printed. Most lines need none. */
struct owned {
	char **v;
	size_t n, cap;
};

static char *own(struct owned *o, char *s)
{
	ws_grow(o->v, o->cap, o->n + 1);
	return o->v[o->n++] = s;
}

/* "range/kernel": in two parts, since there may be millions. */
static void name_range(const struct pass *p, ws_range_key range, struct ws_std8_line *l,
		       struct owned *o)
{
	char *made = NULL;

	l->tail = l->name;
	l->tail_len = l->name_len;
	l->name = ws_launches_range_text(p->launches, range, &l->name_len, &made);
	if (made)
		own(o, made);
}

static void name_line(const struct pass *p, const uint64_t *key, struct ws_std8_line *l,
		      struct owned *o)
{
	enum ws_cuda_source source = (enum ws_cuda_source)(key[KEY_NAME] >> SOURCE_SHIFT);
	uint32_t id = (uint32_t)key[KEY_NAME];
	char buf[64];

	if (source == WS_CUDA_API) {
		l->name = ws_texts_get(&p->texts, id, &l->name_len);
	} else if (source == WS_CUDA_KERNEL) {
		l->name = ws_report_string(p->s->r, id, &l->name_len);
		if (p->launches && key[KEY_RANGE])
			name_range(p, key[KEY_RANGE], l, o);
	} else {
		l->name = own(o, ws_strdup(ws_cuda_op_name(source, id, buf, sizeof(buf))));
		l->name_len = strlen(l->name);
	}
	if (p->how & WS_CUDA_SUM_CATEGORY)
		l->style = ws_cuda_columns[source].category;
	if (!(p->how & WS_CUDA_SUM_GRID))
		return;
	l->style = own(o, ws_cuda_xyz((uint32_t)key[KEY_GRID], key[KEY_GRID] >> 32,
				      (uint32_t)key[KEY_GRID + 1]));
	l->style2 = own(o, ws_cuda_xyz(key[KEY_GRID + 1] >> 32, (uint32_t)key[KEY_GRID + 2],
				       key[KEY_GRID + 2] >> 32));
}

static void print_sizes(struct ws_stats *s, const struct ws_std8_line *lines, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct ws_std8 *v = lines[i].s;

		s->row(s, (struct ws_cell[]){
				  ws_cell_real((long double)v->total),
				  ws_cell_int((int64_t)v->count),
				  ws_cell_real(ws_std8_mean(v)),
				  ws_cell_real(ws_std8_median(v)),
				  ws_cell_real(v->min),
				  ws_cell_real(v->max),
				  ws_cell_real(v->stddev),
				  ws_cell_text(lines[i].name, lines[i].name_len),
			  });
	}
}

static void print(struct pass *p, const struct ws_keyed_sums *sums)
{
	struct ws_std8_line *lines = ws_calloc(sums->n, sizeof(*lines));
	struct owned owned = {0};

	for (size_t i = 0; i < sums->n; i++) {
		lines[i].s = &sums->s[i];
		name_line(p, sums->keys + i * sums->words, &lines[i], &owned);
	}
	if (p->how & WS_CUDA_SUM_BYTES) {
		ws_std8_sort(lines, sums->n);
		print_sizes(p->s, lines, sums->n);
	} else
		ws_std8_print(p->s, lines, sums->n);
	for (size_t i = 0; i < owned.n; i++)
		free(owned.v[i]);
	free(owned.v);
	free(lines);
}

int ws_cuda_sum(struct ws_stats *s, unsigned sources, unsigned how, struct ws_err *e)
{
	struct ws_scan any = {.table = WS_TABLE_cuda_kernel};
	uint32_t workers = ws_scan_workers(&any);
	struct pass p = {.s = s, .how = how};
	struct ws_keyed_sums sums;
	struct ws_keyed *tables;

	if (ws_stats_arg(s, "nvtx-name")) {
		p.launches = ws_launches_open(s, true, e);
		if (!p.launches)
			return -1;
		ws_launches_label(p.launches);
	}
	p.workers = aligned_alloc(128, workers * sizeof(*p.workers));
	if (!p.workers)
		return ws_fail(e, "out of memory");
	memset(p.workers, 0, workers * sizeof(*p.workers));
	tables = ws_calloc(workers, sizeof(*tables));
	for (uint32_t w = 0; w < workers; w++)
		p.workers[w].keyed = (struct ws_keyed){.words = key_words(&p), .per = 1};
	for (int i = 0; i < WS_CUDA_SOURCES; i++)
		if (sources >> i & 1)
			scan_source(&p, (enum ws_cuda_source)i);
	for (uint32_t w = 0; w < workers; w++) {
		tables[w] = p.workers[w].keyed;
		s->unended += p.workers[w].unended;
		s->backwards += p.workers[w].backwards;
	}
	ws_keyed_merge(tables, workers, canonical, &p, &sums);
	print(&p, &sums);
	ws_keyed_sums_free(&sums);
	ws_texts_free(&p.texts);
	ws_launches_close(p.launches);
	free(tables);
	free(p.workers);
	return 0;
}
