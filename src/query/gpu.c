/*
 * gpu.c - see gpu.h.
 *
 * Intervals are gathered by workers without a lock, each into lanes of its own, joined while they come in order (a stream's work
 * does), and merged for good at the end.
 */
#include "query/gpu.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

#define SHARED(t) .table = WS_TABLE_##t, .start = ws_##t##_start, .end = ws_##t##_end, .correlation = ws_##t##_correlation
#define ON_GPU(t) SHARED(t), .process = ws_##t##_process, .device = ws_##t##_device

const struct ws_cuda_columns ws_cuda_columns[WS_CUDA_SOURCES] = {
    [WS_CUDA_API] = {SHARED(cuda_api), .category = "CUDA_API", .process = -1, .device = -1, .name = ws_cuda_api_name, .bytes = -1},
    [WS_CUDA_KERNEL] = {ON_GPU(cuda_kernel), .category = "CUDA_KERNEL", .name = ws_cuda_kernel_demangled, .bytes = -1},
    [WS_CUDA_MEMCPY] = {ON_GPU(cuda_memcpy), .category = "MEMORY_OPER", .name = ws_cuda_memcpy_kind, .bytes = ws_cuda_memcpy_bytes},
    [WS_CUDA_MEMSET] = {ON_GPU(cuda_memset), .category = "MEMORY_OPER", .name = -1, .bytes = ws_cuda_memset_bytes},
    [WS_CUDA_GRAPH] = {ON_GPU(cuda_graph_trace), .category = "CUDA_GRAPH", .name = ws_cuda_graph_trace_graph, .bytes = -1},
};

/* Versions of four digits only, as the reference tool does it: what people search for stays what they know. */
const char *ws_cuda_function(const struct ws_report *r, uint32_t id, size_t *len)
{
	const char *s = ws_report_string(r, id, len), *v = s + *len - 6;

	if (*len > 6 && v[0] == '_' && v[1] == 'v' && isdigit((unsigned char)v[2]) && isdigit((unsigned char)v[3]) &&
	    isdigit((unsigned char)v[4]) && isdigit((unsigned char)v[5]))
		*len -= 6;
	return s;
}

const char *ws_cuda_op_name(enum ws_cuda_source source, uint64_t value, char *buf, size_t size)
{
	static const char *const kinds[] = {
	    "Unknown",
	    "Host-to-Device",
	    "Device-to-Host",
	    "Host-to-Array",
	    "Array-to-Host",
	    "Array-to-Array",
	    "Array-to-Device",
	    "Device-to-Array",
	    "Device-to-Device",
	    "Host-to-Host",
	    "Peer-to-Peer",
	    "Unified Host-to-Device",
	    "Unified Device-to-Host",
	    "Unified Device-to-Device",
	};

	switch (source) {
	case WS_CUDA_MEMCPY:
		snprintf(buf, size, "[CUDA memcpy %s]", kinds[value < WS_COUNT(kinds) ? value : 0]);
		break;
	case WS_CUDA_MEMSET:
		snprintf(buf, size, "[CUDA memset]");
		break;
	default:
		snprintf(buf, size, "[CUDA graph %" PRIu64 "]", value);
	}
	return buf;
}

/* ---- intervals ---- */

static int by_start(const void *a, const void *b)
{
	const struct ws_interval *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

size_t ws_intervals_merge(struct ws_interval *v, size_t n)
{
	bool sorted = true;
	size_t kept = 0;

	for (size_t i = 1; i < n && sorted; i++)
		sorted = v[i - 1].start <= v[i].start;
	if (!sorted)
		qsort(v, n, sizeof(*v), by_start);
	for (size_t i = 0; i < n; i++) {
		if (v[i].end <= v[i].start)
			continue;
		if (!kept || v[i].start > v[kept - 1].end)
			v[kept++] = v[i];
		else if (v[i].end > v[kept - 1].end)
			v[kept - 1].end = v[i].end;
	}
	return kept;
}

size_t ws_intervals_between(const struct ws_interval *v, size_t n, uint64_t from, uint64_t to, struct ws_interval **out)
{
	size_t count = 0, cap = 0;

	*out = NULL;
	for (size_t i = 0; i <= n && from < to; i++) {
		uint64_t stop = i < n && v[i].start < to ? v[i].start : to;

		if (from < stop) {
			ws_grow(*out, cap, count + 1);
			(*out)[count++] = (struct ws_interval){from, stop};
		}
		if (i < n && v[i].end > from)
			from = v[i].end;
	}
	return count;
}

/* ---- lanes ---- */

struct worker {
	struct ws_map lane_of[2]; /* (process, device) and (context, stream) to a number; then that to a lane + 1 */
	struct ws_gpu_lane *v;
	size_t n, cap;
	uint64_t last[4];
	size_t last_lane;
} __attribute__((aligned(128)));

struct gather {
	const struct ws_cuda_columns *c;
	int context, stream;
	bool streams;
	struct worker *workers;
};

/* Make the lane with this key the last one. */
static void lane(struct worker *w, const uint64_t *key)
{
	uint64_t device = key[0] << 32 | (uint32_t)key[1], number = ws_map_get(&w->lane_of[0], device, NULL), i;
	uint64_t stream;

	if (!number)
		ws_map_set(&w->lane_of[0], device, number = w->n + 1); /* any number of its own */
	stream = number * UINT64_C(0x9e3779b97f4a7c15) ^ (key[2] << 32 | (uint32_t)key[3]);
	i = ws_map_get(&w->lane_of[1], stream, NULL);
	if (!i) {
		ws_grow(w->v, w->cap, w->n + 1);
		w->v[w->n] = (struct ws_gpu_lane){key[0], (uint32_t)key[1], (uint32_t)key[2], (uint32_t)key[3], NULL, 0, 0};
		i = ++w->n;
		ws_map_set(&w->lane_of[1], stream, i);
	}
	memcpy(w->last, key, sizeof(w->last));
	w->last_lane = i - 1;
}

static void add(struct ws_gpu_lane *l, uint64_t start, uint64_t end)
{
	struct ws_interval *last = l->n ? &l->busy[l->n - 1] : NULL;

	if (last && start >= last->start && start <= last->end) {
		last->end = end > last->end ? end : last->end;
		return;
	}
	ws_grow(l->busy, l->cap, l->n + 1);
	l->busy[l->n++] = (struct ws_interval){start, end};
}

static int scan_work(void *ctx, const struct ws_batch *b)
{
	struct gather *g = ctx;
	struct worker *w = &g->workers[b->worker];

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t start = b->col[g->c->start][i], end = b->col[g->c->end][i];
		uint64_t key[4] = {b->col[g->c->process][i], b->col[g->c->device][i], g->streams ? b->col[g->context][i] : 0,
				   g->streams ? b->col[g->stream][i] : 0};

		if (end == WS_NO_TIME || end <= start)
			continue;
		if (!w->n || memcmp(key, w->last, sizeof(key)))
			lane(w, key);
		add(&w->v[w->last_lane], start, end);
	}
	return 0;
}

/* Number of the GPU that a process calls so: its UUID's string, or a number of its own above those of strings. */
static uint64_t identity(const struct ws_map *uuids, uint64_t process, uint64_t device)
{
	uint64_t key = process << 32 | (uint32_t)device, uuid = ws_map_get(uuids, key, NULL);

	return uuid ? uuid : (UINT64_C(1) << 63) | key;
}

static void read_uuids(const struct ws_report *r, struct ws_map *uuids)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_cuda_device, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(c, &v))
		if (v[ws_cuda_device_uuid])
			ws_map_set(uuids, v[ws_cuda_device_process] << 32 | (uint32_t)v[ws_cuda_device_id],
				   ws_report_string_key(r, (uint32_t)v[ws_cuda_device_uuid]));
	ws_cursor_close(c);
}

static int by_place(const void *a, const void *b)
{
	const struct ws_gpu_lane *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->context != y->context)
		return x->context < y->context ? -1 : 1;
	return x->stream < y->stream ? -1 : x->stream > y->stream;
}

static void join(struct ws_gpu_lane *to, struct ws_gpu_lane *from)
{
	ws_grow(to->busy, to->cap, to->n + from->n);
	memcpy(to->busy + to->n, from->busy, from->n * sizeof(*to->busy));
	to->n += from->n;
	free(from->busy);
}

/* All workers' lanes, the same ones together. */
static void collect(const struct ws_report *r, struct gather *g, uint32_t workers, struct ws_gpu_lanes *out)
{
	struct ws_gpu_lane *all = NULL;
	struct ws_map uuids = {0}, kept = {0}; /* kept: number of each GPU's lane, from 1 */
	size_t n = 0, cap = 0;

	read_uuids(r, &uuids);
	for (uint32_t w = 0; w < workers; w++)
		for (size_t i = 0; i < g->workers[w].n; i++) {
			ws_grow(all, cap, n + 1);
			all[n++] = g->workers[w].v[i];
		}
	if (n)
		qsort(all, n, sizeof(*all), by_place);
	for (size_t i = 0; i < n; i++) {
		uint64_t gpu = identity(&uuids, all[i].process, all[i].device), same = ws_map_get(&kept, gpu, NULL);

		if (g->streams) /* equal ones are neighbours */
			same = out->n && !by_place(&all[out->n - 1], &all[i]) ? out->n : 0;
		if (same) {
			join(&all[same - 1], &all[i]);
			continue;
		}
		all[out->n++] = all[i];
		ws_map_set(&kept, gpu, out->n);
	}
	for (size_t i = 0; i < out->n; i++)
		all[i].n = ws_intervals_merge(all[i].busy, all[i].n);
	out->v = all;
	ws_map_free(&uuids);
	ws_map_free(&kept);
}

void ws_gpu_lanes_load(const struct ws_report *r, bool streams, struct ws_gpu_lanes *out)
{
	struct ws_scan sc = {.time_max = UINT64_MAX};
	uint32_t workers = ws_scan_workers(&sc);
	struct gather g = {.streams = streams};
	uint64_t damaged;

	memset(out, 0, sizeof(*out));
	g.workers = aligned_alloc(128, workers * sizeof(*g.workers));
	if (!g.workers)
		return;
	memset(g.workers, 0, workers * sizeof(*g.workers));
	for (int k = WS_CUDA_KERNEL; k < WS_CUDA_SOURCES; k++) {
		g.c = &ws_cuda_columns[k];
		sc.table = g.c->table;
		g.context = ws_column_find(sc.table, "context");
		g.stream = ws_column_find(sc.table, "stream");
		sc.columns = UINT64_C(1) << g.c->start | UINT64_C(1) << g.c->end | UINT64_C(1) << g.c->process |
			     UINT64_C(1) << g.c->device | UINT64_C(1) << g.context | UINT64_C(1) << g.stream;
		damaged = 0;
		ws_scan_run(r, &sc, scan_work, &g, &damaged);
		out->damaged += damaged;
	}
	collect(r, &g, workers, out);
	for (uint32_t w = 0; w < workers; w++) {
		ws_map_free(&g.workers[w].lane_of[0]);
		ws_map_free(&g.workers[w].lane_of[1]);
		free(g.workers[w].v);
	}
	free(g.workers);
}

void ws_gpu_lanes_free(struct ws_gpu_lanes *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].busy);
	free(l->v);
	memset(l, 0, sizeof(*l));
}
