/*
 * um.c - see um.h.
 *
 * Each worker sums up by address as rows come; pages are few compared to what happens to them, but
 * more than a cache holds, so look-ups are made in groups and asked for ahead. In the end the
 * workers' sums are sorted and those of one address added up.
 */
#include "stats/um.h"

#include <stdlib.h>

#include "base/sort.h"
#include "stats/keyed.h"

enum { ADDRESS, PROCESS, KEY_WORDS };
enum { AHEAD = 16 };

struct worker {
	struct ws_keyed keys; /* numbers only */
	struct ws_um *v;
	size_t n, cap;
	char apart[128]; /* from the next worker's */
};

struct pass {
	struct worker *workers;
	uint32_t count;
};

static void add_up(struct ws_um *to, const struct ws_um *u)
{
	to->to_device += u->to_device;
	to->to_host += u->to_host;
	to->bytes += u->bytes;
	to->ns += u->ns;
	to->cpu_faults += u->cpu_faults;
	to->gpu_faults += u->gpu_faults;
	to->moved |= u->moved;
}

static void add_group(struct worker *w, const struct ws_um *u, size_t n)
{
	uint64_t key[AHEAD][KEY_WORDS];

	for (size_t i = 0; i < n; i++) {
		key[i][ADDRESS] = u[i].address;
		key[i][PROCESS] = u[i].process;
		ws_keyed_prefetch(&w->keys, key[i]);
	}
	for (size_t i = 0; i < n; i++) {
		ws_keyed_get(&w->keys, key[i]);
		if (w->keys.last < w->n) {
			add_up(&w->v[w->keys.last], &u[i]);
			continue;
		}
		ws_grow(w->v, w->cap, w->n + 1);
		w->v[w->n++] = u[i];
	}
}

/* What a row tells; false for nothing. */
typedef bool row_fn(const struct ws_batch *b, size_t i, struct ws_um *u);

static bool traffic(const struct ws_batch *b, size_t i, struct ws_um *u)
{
	uint64_t kind = b->col[ws_cuda_memcpy_kind][i], bytes = b->col[ws_cuda_memcpy_bytes][i];
	uint64_t start = b->col[ws_cuda_memcpy_start][i], end = b->col[ws_cuda_memcpy_end][i];
	uint64_t address = b->col[ws_cuda_memcpy_address][i];

	if (kind < WS_COPY_UM_HTOD || kind > WS_COPY_UM_DTOD)
		return false;
	*u = (struct ws_um){.process = b->col[ws_cuda_memcpy_process][i],
			    .address = address == WS_NO_U64 ? 0 : address};
	u->moved = true;
	u->to_device = kind == WS_COPY_UM_HTOD ? bytes : 0;
	u->to_host = kind == WS_COPY_UM_DTOH ? bytes : 0;
	if (end != WS_NO_TIME && end > start) {
		u->bytes = bytes;
		u->ns = end - start;
	}
	return true;
}

static bool cpu_fault(const struct ws_batch *b, size_t i, struct ws_um *u)
{
	*u = (struct ws_um){.process = b->col[ws_cuda_um_cpu_fault_process][i],
			    .address = b->col[ws_cuda_um_cpu_fault_address][i],
			    .cpu_faults = 1};
	return true;
}

static bool gpu_faults(const struct ws_batch *b, size_t i, struct ws_um *u)
{
	*u = (struct ws_um){.process = b->col[ws_cuda_um_gpu_fault_process][i],
			    .address = b->col[ws_cuda_um_gpu_fault_address][i],
			    .gpu_faults = b->col[ws_cuda_um_gpu_fault_faults][i]};
	return true;
}

static inline int scan_rows(struct pass *p, const struct ws_batch *b, row_fn *fn)
{
	struct worker *w = &p->workers[b->worker];
	struct ws_um group[AHEAD];
	size_t n = 0;

	for (size_t i = 0; i < b->rows; i++) {
		n += fn(b, i, &group[n]);
		if (n == AHEAD) {
			add_group(w, group, n);
			n = 0;
		}
	}
	add_group(w, group, n);
	return 0;
}

static int scan_traffic(void *ctx, const struct ws_batch *b)
{
	return scan_rows(ctx, b, traffic);
}

static int scan_cpu_faults(void *ctx, const struct ws_batch *b)
{
	return scan_rows(ctx, b, cpu_fault);
}

static int scan_gpu_faults(void *ctx, const struct ws_batch *b)
{
	return scan_rows(ctx, b, gpu_faults);
}

static void scan(struct ws_stats *s, enum ws_table table, uint64_t columns,
		 int (*fn)(void *ctx, const struct ws_batch *b), struct pass *p)
{
	struct ws_scan sc = {.table = table,
			     .columns = columns,
			     .time_min = s->time_min,
			     .time_max = s->time_max};
	uint64_t damaged = 0;

	ws_scan_run(s->r, &sc, fn, p, &damaged);
	s->damaged += damaged;
}

/* The workers' sums by process and address: key is the one that was sorted by last, value is worker
 * << 32 | number. */
static struct ws_keyed_value *sort_sums(const struct pass *p, size_t *count)
{
	struct ws_keyed_value *v;
	size_t n = 0, at = 0;

	for (uint32_t w = 0; w < p->count; w++)
		n += p->workers[w].n;
	v = ws_malloc((n + 1) * sizeof(*v));
	for (uint32_t w = 0; w < p->count; w++)
		for (size_t i = 0; i < p->workers[w].n; i++)
			v[at++] = (struct ws_keyed_value){p->workers[w].v[i].address,
							  (uint64_t)w << 32 | i};
	*count = n;
	if (!n)
		return v;
	v = ws_sort_by_key(v, n);
	for (size_t i = 0; i < n; i++)
		v[i].key = p->workers[v[i].value >> 32].v[(uint32_t)v[i].value].process;
	return ws_sort_by_key(v, n);
}

static struct ws_um *merge(const struct pass *p, size_t *count)
{
	size_t n, kept = 0;
	struct ws_keyed_value *sorted = sort_sums(p, &n);
	struct ws_um *v = ws_malloc((n + 1) * sizeof(*v));

	for (size_t i = 0; i < n; i++) {
		const struct ws_um *u =
			&p->workers[sorted[i].value >> 32].v[(uint32_t)sorted[i].value];

		if (kept && v[kept - 1].process == u->process && v[kept - 1].address == u->address)
			add_up(&v[kept - 1], u);
		else
			v[kept++] = *u;
	}
	free(sorted);
	*count = kept;
	return v;
}

struct ws_um *ws_um_load(struct ws_stats *s, size_t *count)
{
	struct pass p = {.count =
				 ws_scan_workers(&(struct ws_scan){.table = WS_TABLE_cuda_memcpy})};
	struct ws_um *v;

	p.workers = ws_calloc(p.count, sizeof(*p.workers));
	for (uint32_t w = 0; w < p.count; w++)
		p.workers[w].keys.words = KEY_WORDS;
	scan(s, WS_TABLE_cuda_memcpy,
	     WS_COL(cuda_memcpy, start) | WS_COL(cuda_memcpy, end) | WS_COL(cuda_memcpy, process) |
		     WS_COL(cuda_memcpy, bytes) | WS_COL(cuda_memcpy, kind) |
		     WS_COL(cuda_memcpy, address),
	     scan_traffic, &p);
	scan(s, WS_TABLE_cuda_um_cpu_fault,
	     WS_COL(cuda_um_cpu_fault, process) | WS_COL(cuda_um_cpu_fault, address),
	     scan_cpu_faults, &p);
	scan(s, WS_TABLE_cuda_um_gpu_fault,
	     WS_COL(cuda_um_gpu_fault, process) | WS_COL(cuda_um_gpu_fault, address) |
		     WS_COL(cuda_um_gpu_fault, faults),
	     scan_gpu_faults, &p);
	v = merge(&p, count);
	for (uint32_t w = 0; w < p.count; w++) {
		ws_keyed_free(&p.workers[w].keys);
		free(p.workers[w].v);
	}
	free(p.workers);
	return v;
}
