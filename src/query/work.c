/*
 * work.c - see work.h.
 *
 * Each table comes sorted by (process, start), so what it adds to a GPU is a few ascending runs;
 * merging runs pairwise costs little however many rows there are.
 */
#include "query/work.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

struct source {
	enum ws_table table;
	int start, end, process, device, stream, correlation, name, alias;
	enum ws_work_class class;
};

#define SOURCE(t, named, other, what)                                                          \
	{                                                                                      \
		WS_TABLE_##t, ws_##t##_start, ws_##t##_end, ws_##t##_process, ws_##t##_device, \
			ws_##t##_stream, ws_##t##_correlation, named, other, what              \
	}

static const struct source sources[] = {
	SOURCE(cuda_kernel, ws_cuda_kernel_name, ws_cuda_kernel_demangled, WS_WORK_COMPUTE),
	SOURCE(cuda_memcpy, -1, -1, WS_WORK_MEMORY),
	SOURCE(cuda_memset, -1, -1, WS_WORK_MEMORY),
	SOURCE(cuda_graph_trace, -1, -1, WS_WORK_COMPUTE),
};

struct loading {
	const struct ws_report *r;
	struct ws_work *w;
	struct ws_map uuid;	  /* process << 32 | device: text key */
	struct ws_map number;	  /* of a GPU: by the same */
	struct ws_map collective; /* process << 32 | correlation */
	uint8_t *comm;		  /* by string id: 1 it communicates, 2 it does not */
	uint64_t last_key;
	size_t last;
};

bool ws_work_communicates(const char *name)
{
	return !strncmp(name, "nccl", 4) || strstr(name, "ncclKernel") ||
	       strstr(name, "ncclDevKernel");
}

static void read_devices(struct loading *l)
{
	struct ws_cursor *c = ws_cursor_open(l->r, WS_TABLE_cuda_device, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(c, &v))
		if (v[ws_cuda_device_uuid])
			ws_map_set(&l->uuid, v[ws_cuda_device_process] << 32 | v[ws_cuda_device_id],
				   ws_report_string_key(l->r, (uint32_t)v[ws_cuda_device_uuid]));
	ws_cursor_close(c);
	c = ws_cursor_open(l->r, WS_TABLE_collective, 0, UINT64_MAX);
	while (ws_cursor_next(c, &v))
		if (v[ws_collective_correlation] != WS_NO_U32)
			ws_map_set(&l->collective,
				   v[ws_collective_process] << 32 | v[ws_collective_correlation],
				   1);
	ws_cursor_close(c);
}

static size_t gpu_of(struct loading *l, uint64_t process, uint64_t device)
{
	uint64_t key = process << 32 | (uint32_t)device;
	bool found;
	size_t n;

	if (l->w->gpus && key == l->last_key)
		return l->last;
	n = ws_map_get(&l->number, key, &found);
	if (!found) {
		uint32_t uuid = (uint32_t)ws_map_get(&l->uuid, key, NULL);

		for (n = 0; n < l->w->gpus && (!uuid || l->w->gpu[n].uuid != uuid);)
			n++;
		if (n == l->w->gpus) {
			ws_grow(l->w->gpu, l->w->gpu_cap, n + 1);
			l->w->gpu[l->w->gpus++] = (struct ws_work_gpu){
				.process = process, .device = device, .uuid = uuid};
		}
		ws_map_set(&l->number, key, n);
	}
	l->last_key = key;
	return l->last = n;
}

static enum ws_work_class class_of(struct loading *l, const struct source *s, uint64_t *const *col,
				   size_t i)
{
	uint64_t id;

	if (s->name < 0)
		return s->class;
	if (l->collective.n &&
	    ws_map_get(&l->collective, col[s->process][i] << 32 | col[s->correlation][i], NULL))
		return WS_WORK_COMM;
	id = col[s->name][i] ? col[s->name][i] : col[s->alias][i];
	if (id > ws_report_string_count(l->r))
		return s->class;
	if (!l->comm[id])
		l->comm[id] =
			ws_work_communicates(ws_report_string(l->r, (uint32_t)id, NULL)) ? 1 : 2;
	return l->comm[id] == 1 ? WS_WORK_COMM : s->class;
}

static void add_rows(struct loading *l, const struct source *s, const struct ws_rows *rows)
{
	uint64_t *const *col = rows->col;

	for (size_t i = 0; i < rows->rows; i++) {
		uint64_t start = col[s->start][i], end = col[s->end][i];
		struct ws_work_gpu *g;
		size_t number;

		if (end == WS_NO_TIME || end < start) {
			*(end == WS_NO_TIME ? &l->w->unended : &l->w->backwards) += 1;
			continue;
		}
		number = gpu_of(l, col[s->process][i], col[s->device][i]);
		g = &l->w->gpu[number];
		ws_grow(g->op, g->cap, g->n + 1);
		g->op[g->n++] = (struct ws_work_op){start,
						    end,
						    (uint32_t)col[s->process][i],
						    (uint32_t)col[s->correlation][i],
						    (uint32_t)col[s->stream][i],
						    (uint8_t)class_of(l, s, col, i),
						    s->table == WS_TABLE_cuda_memset};
	}
}

static uint64_t bit(int column)
{
	return column < 0 ? 0 : UINT64_C(1) << column;
}

static int load_source(struct loading *l, const struct source *s, uint64_t time_min,
		       uint64_t time_max, struct ws_err *e)
{
	struct ws_scan sc = {
		.table = s->table,
		.columns = bit(s->start) | bit(s->end) | bit(s->process) | bit(s->device) |
			   bit(s->stream) | bit(s->correlation) | bit(s->name) | bit(s->alias),
		.time_min = time_min,
		.time_max = time_max,
	};
	struct ws_rows rows;

	if (ws_rows_load(l->r, &sc, &rows, e) < 0)
		return -1;
	l->w->damaged += rows.damaged;
	add_rows(l, s, &rows);
	ws_rows_free(&rows);
	return 0;
}

/* ---- order ---- */

/* By start, then end: so that what a gap is said to end with does not depend on the table it is in.
 */
static bool ordered(const struct ws_work_op *a, const struct ws_work_op *b)
{
	return a->start != b->start ? a->start < b->start : a->end <= b->end;
}

static size_t run_end(const struct ws_work_op *op, size_t from, size_t n)
{
	for (from++; from < n && ordered(&op[from - 1], &op[from]);)
		from++;
	return from < n ? from : n;
}

static void sort_ops(struct ws_work_gpu *g)
{
	struct ws_work_op *from = g->op, *to = NULL, *t;

	while (g->n && run_end(from, 0, g->n) < g->n) {
		to = to ? to : ws_malloc(g->n * sizeof(*to));
		for (size_t i = 0, at = 0; i < g->n;) {
			size_t mid = run_end(from, i, g->n),
			       end = mid < g->n ? run_end(from, mid, g->n) : mid, a = i, b = mid;

			while (a < mid || b < end)
				to[at++] = b == end || (a < mid && ordered(&from[a], &from[b]))
						   ? from[a++]
						   : from[b++];
			i = end;
		}
		t = from;
		from = to;
		to = t;
	}
	g->op = from;
	free(to);
}

static int by_number(const void *a, const void *b)
{
	const struct ws_work_gpu *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return x->process < y->process ? -1 : x->process > y->process;
}

int ws_work_load(const struct ws_report *r, uint64_t time_min, uint64_t time_max, struct ws_work *w,
		 struct ws_err *e)
{
	struct loading l = {.r = r, .w = w};
	int rc = 0;

	memset(w, 0, sizeof(*w));
	l.comm = ws_calloc((size_t)ws_report_string_count(r) + 1, 1);
	read_devices(&l);
	for (size_t i = 0; i < WS_COUNT(sources) && !rc; i++)
		rc = load_source(&l, &sources[i], time_min, time_max, e);
	for (size_t i = 0; i < w->gpus; i++)
		sort_ops(&w->gpu[i]);
	if (w->gpus)
		qsort(w->gpu, w->gpus, sizeof(*w->gpu), by_number);
	ws_map_free(&l.uuid);
	ws_map_free(&l.number);
	ws_map_free(&l.collective);
	free(l.comm);
	return rc;
}

void ws_work_free(struct ws_work *w)
{
	for (size_t i = 0; i < w->gpus; i++)
		free(w->gpu[i].op);
	free(w->gpu);
	memset(w, 0, sizeof(*w));
}
