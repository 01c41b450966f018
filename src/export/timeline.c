/* timeline.c - see timeline.h. */
#include "export/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "text/outfile.h"

/* ---- merging ---- */

/* In order of who encloses whom when spans are equal. */
static const enum ws_table sources[] = {
	WS_TABLE_sched,
	WS_TABLE_gil,
	WS_TABLE_op,
	WS_TABLE_nvtx,
	WS_TABLE_slice,
	WS_TABLE_cuda_api,
	WS_TABLE_osrt,
	WS_TABLE_cuda_overhead,
	WS_TABLE_cuda_jit,
	WS_TABLE_cuda_graph_trace,
	WS_TABLE_cuda_kernel,
	WS_TABLE_cuda_memcpy,
	WS_TABLE_cuda_memset,
	WS_TABLE_cuda_sync,
	WS_TABLE_cuda_memory,
	WS_TABLE_op_memory,
	WS_TABLE_counter_value,
	WS_TABLE_cuda_um_gpu_fault,
	WS_TABLE_cuda_um_cpu_fault,
	WS_TABLE_flow,
	WS_TABLE_sample,
	WS_TABLE_ftrace,
};

enum { SOURCES = WS_COUNT(sources), MOST_TOGETHER = 4096 };

struct head {
	struct ws_cursor *c;
	const uint64_t *v; /* its next row; NULL at its end */
	uint64_t start;
};

struct held {
	struct ws_event e;
	unsigned rank;
	size_t order;
	uint64_t row[WS_MAX_COLUMNS];
};

struct ws_timeline {
	struct ws_export *x;
	struct head head[SOURCES];
	struct held **held; /* events with one start */
	size_t n, next, cap;
};

static void advance(struct ws_timeline *t, unsigned i)
{
	struct head *h = &t->head[i];

	if (!ws_cursor_next(h->c, &h->v)) {
		h->v = NULL;
		return;
	}
	h->start = h->v[ws_table_start(sources[i])];
}

struct ws_timeline *ws_timeline_open(struct ws_export *x)
{
	struct ws_timeline *t = ws_calloc(1, sizeof(*t));

	t->x = x;
	for (unsigned i = 0; i < SOURCES; i++) {
		t->head[i].c = ws_cursor_open(x->r, sources[i], 0, UINT64_MAX);
		advance(t, i);
	}
	return t;
}

static int longest_first(const void *a, const void *b)
{
	const struct held *x = *(struct held *const *)a, *y = *(struct held *const *)b;

	if (x->e.end != y->e.end) { /* a moment comes last */
		uint64_t p = x->e.end == WS_NO_TIME ? 0 : x->e.end,
			 q = y->e.end == WS_NO_TIME ? 0 : y->e.end;

		return p > q ? -1 : 1;
	}
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static void hold(struct ws_timeline *t, unsigned i)
{
	enum ws_table table = sources[i];
	int end = ws_table_end(table);
	struct held *h;

	if (t->n == t->cap) {
		ws_grow(t->held, t->cap, t->n + 1);
		for (size_t k = t->n; k < t->cap; k++)
			t->held[k] = ws_malloc(sizeof(*t->held[k]));
	}
	h = t->held[t->n];
	memcpy(h->row, t->head[i].v, ws_tables[table].column_count * sizeof(*h->row));
	h->rank = i;
	h->order = t->n++;
	h->e = (struct ws_event){table, h->row, t->head[i].start,
				 end >= 0 ? h->row[end] : WS_NO_TIME};
}

/* Hold all events of the earliest start. */
static bool fill(struct ws_timeline *t)
{
	uint64_t first = UINT64_MAX;
	bool any = false;

	t->n = t->next = 0;
	for (unsigned i = 0; i < SOURCES; i++)
		if (t->head[i].v) {
			any = true;
			first = t->head[i].start < first ? t->head[i].start : first;
		}
	if (!any)
		return false;
	for (unsigned i = 0; i < SOURCES; i++)
		while (t->head[i].v && t->head[i].start <= first && t->n < MOST_TOGETHER) {
			hold(t, i);
			advance(t, i);
		}
	if (t->n > 1)
		qsort(t->held, t->n, sizeof(*t->held), longest_first);
	return true;
}

bool ws_timeline_next(struct ws_timeline *t, struct ws_event *e)
{
	do {
		if (t->next == t->n && (ws_outfile_interrupted() || !fill(t)))
			return false;
		*e = t->held[t->next++]->e;
	} while (!ws_export_in_time(t->x, e->start, e->end));
	return true;
}

void ws_timeline_close(struct ws_timeline *t)
{
	for (unsigned i = 0; i < SOURCES; i++)
		ws_cursor_close(t->head[i].c);
	for (size_t i = 0; i < t->cap; i++)
		free(t->held[i]);
	free(t->held);
	free(t);
}

/* ---- pages ---- */

enum { SET_BITS = 12, MAP_BITS = 8 };

static uint64_t *find_page(const struct ws_pages *p, uint64_t process, uint64_t number,
			   unsigned bits)
{
	bool found;
	uint64_t at = ws_map_get(&p->map, process << 32 | (number & UINT32_MAX) >> bits, &found);

	return found ? p->page[at] : NULL;
}

static uint64_t *need_page(struct ws_pages *p, uint64_t process, uint64_t number, unsigned bits,
			   size_t bytes)
{
	uint64_t *page = find_page(p, process, number, bits);

	if (page)
		return page;
	ws_grow(p->page, p->cap, p->n + 1);
	p->page[p->n] = ws_calloc(1, bytes);
	ws_map_set(&p->map, process << 32 | (number & UINT32_MAX) >> bits, p->n);
	return p->page[p->n++];
}

bool ws_pages_has(const struct ws_pages *p, uint64_t process, uint64_t number)
{
	const uint64_t *page = find_page(p, process, number, SET_BITS);

	return page && page[number >> 6 & 63] >> (number & 63) & 1;
}

void ws_pages_add(struct ws_pages *p, uint64_t process, uint64_t number)
{
	need_page(p, process, number, SET_BITS, 512)[number >> 6 & 63] |= UINT64_C(1)
									  << (number & 63);
}

uint64_t ws_pages_get(const struct ws_pages *p, uint64_t process, uint64_t number)
{
	const uint64_t *page = find_page(p, process, number, MAP_BITS);

	return page ? page[number & 255] : 0;
}

void ws_pages_set(struct ws_pages *p, uint64_t process, uint64_t number, uint64_t value)
{
	need_page(p, process, number, MAP_BITS, 2048)[number & 255] = value;
}

void ws_pages_free(struct ws_pages *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->page[i]);
	free(p->page);
	ws_map_free(&p->map);
	memset(p, 0, sizeof(*p));
}

/* ---- links ---- */

struct linking {
	struct ws_links *l;
	struct ws_export *x;
	int start, end, process, correlation; /* columns */
};

static int add_calls(void *ctx, const struct ws_batch *b)
{
	struct linking *g = ctx;

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t id = b->col[ws_cuda_api_correlation][i], process;

		if (id == WS_NO_U32 || !ws_export_in_time(g->x, b->col[ws_cuda_api_start][i],
							  b->col[ws_cuda_api_end][i]))
			continue;
		process =
			ws_who_thread(g->x->who, (uint32_t)b->col[ws_cuda_api_thread][i])->process;
		ws_pages_add(&g->l->calls, process, id);
		if (b->col[ws_cuda_api_class][i] == WS_CUDA_RUNTIME)
			ws_pages_add(&g->l->runtime, process, id);
	}
	return 0;
}

static int add_work(void *ctx, const struct ws_batch *b)
{
	struct linking *g = ctx;

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t id = b->col[g->correlation][i];

		if (id != WS_NO_U32 &&
		    ws_export_in_time(g->x, b->col[g->start][i], b->col[g->end][i]))
			ws_pages_add(&g->l->work, b->col[g->process][i], id);
	}
	return 0;
}

static int add_externals(void *ctx, const struct ws_batch *b)
{
	struct linking *g = ctx;

	for (size_t i = 0; i < b->rows; i++)
		ws_pages_set(&g->l->external, b->col[ws_op_link_process][i],
			     b->col[ws_op_link_correlation][i], b->col[ws_op_link_external][i]);
	return 0;
}

void ws_links_load(struct ws_links *l, struct ws_export *x)
{
	static const enum ws_table work[] = {WS_TABLE_cuda_kernel, WS_TABLE_cuda_memcpy,
					     WS_TABLE_cuda_memset, WS_TABLE_cuda_graph_trace};
	struct linking g = {.l = l, .x = x};
	struct ws_scan s = {.table = WS_TABLE_cuda_api,
			    .columns = UINT64_MAX,
			    .time_max = UINT64_MAX,
			    .workers = 1};

	memset(l, 0, sizeof(*l));
	s.columns = WS_COL(cuda_api, start) | WS_COL(cuda_api, end) | WS_COL(cuda_api, thread) |
		    WS_COL(cuda_api, correlation) | WS_COL(cuda_api, class);
	ws_scan_run(x->r, &s, add_calls, &g, NULL);
	for (size_t i = 0; i < WS_COUNT(work); i++) {
		s.table = work[i];
		g.start = ws_table_start(work[i]);
		g.end = ws_table_end(work[i]);
		g.process = ws_table_track(work[i]);
		g.correlation = ws_column_find(work[i], "correlation");
		s.columns = UINT64_C(1) << g.start | UINT64_C(1) << g.end |
			    UINT64_C(1) << g.process | UINT64_C(1) << g.correlation;
		ws_scan_run(x->r, &s, add_work, &g, NULL);
	}
	s.table = WS_TABLE_op_link;
	s.columns =
		WS_COL(op_link, process) | WS_COL(op_link, correlation) | WS_COL(op_link, external);
	ws_scan_run(x->r, &s, add_externals, &g, NULL);
}

void ws_links_free(struct ws_links *l)
{
	ws_pages_free(&l->calls);
	ws_pages_free(&l->runtime);
	ws_pages_free(&l->work);
	ws_pages_free(&l->external);
}

bool ws_links_from(const struct ws_links *l, uint64_t process, uint64_t api_class,
		   uint64_t correlation)
{
	return correlation != WS_NO_U32 && ws_pages_has(&l->work, process, correlation) &&
	       (api_class == WS_CUDA_RUNTIME || !ws_pages_has(&l->runtime, process, correlation));
}

bool ws_links_to(const struct ws_links *l, uint64_t process, uint64_t correlation)
{
	return correlation != WS_NO_U32 && ws_pages_has(&l->calls, process, correlation);
}
