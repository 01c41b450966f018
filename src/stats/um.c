/* um.c - see um.h. Three tables with few rows each are read one after the other, then sorted and added up. */
#include "stats/um.h"

#include <stdlib.h>

struct list {
	struct ws_um *v;
	size_t n, cap;
};

static struct ws_um *add(struct list *l, uint64_t process, uint64_t address)
{
	ws_grow(l->v, l->cap, l->n + 1);
	l->v[l->n] = (struct ws_um){.process = process, .address = address};
	return &l->v[l->n++];
}

static void add_traffic(struct list *l, const uint64_t *v)
{
	uint64_t kind = v[ws_cuda_memcpy_kind], bytes = v[ws_cuda_memcpy_bytes];
	uint64_t start = v[ws_cuda_memcpy_start], end = v[ws_cuda_memcpy_end];
	struct ws_um *u;

	if (kind < WS_COPY_UM_HTOD || kind > WS_COPY_UM_DTOD)
		return;
	u = add(l, v[ws_cuda_memcpy_process], v[ws_cuda_memcpy_address] == WS_NO_U64 ? 0 : v[ws_cuda_memcpy_address]);
	u->moved = true;
	u->to_device = kind == WS_COPY_UM_HTOD ? bytes : 0;
	u->to_host = kind == WS_COPY_UM_DTOH ? bytes : 0;
	if (end != WS_NO_TIME && end > start) {
		u->bytes = bytes;
		u->ns = end - start;
	}
}

static int scan_traffic(void *ctx, const struct ws_batch *b)
{
	for (size_t i = 0; i < b->rows; i++) {
		uint64_t v[ws_cuda_memcpy_COLUMNS];

		for (uint32_t c = 0; c < ws_cuda_memcpy_COLUMNS; c++)
			v[c] = b->col[c] ? b->col[c][i] : 0;
		add_traffic(ctx, v);
	}
	return 0;
}

static int scan_cpu_faults(void *ctx, const struct ws_batch *b)
{
	for (size_t i = 0; i < b->rows; i++)
		add(ctx, b->col[ws_cuda_um_cpu_fault_process][i], b->col[ws_cuda_um_cpu_fault_address][i])->cpu_faults = 1;
	return 0;
}

static int scan_gpu_faults(void *ctx, const struct ws_batch *b)
{
	for (size_t i = 0; i < b->rows; i++)
		add(ctx, b->col[ws_cuda_um_gpu_fault_process][i], b->col[ws_cuda_um_gpu_fault_address][i])->gpu_faults =
		    b->col[ws_cuda_um_gpu_fault_faults][i];
	return 0;
}

static void scan(struct ws_stats *s, enum ws_table table, uint64_t columns, int (*fn)(void *ctx, const struct ws_batch *b),
		 struct list *l)
{
	struct ws_scan sc = {.table = table, .columns = columns, .time_min = s->time_min, .time_max = s->time_max, .workers = 1};
	uint64_t damaged = 0;

	ws_scan_run(s->r, &sc, fn, l, &damaged);
	s->damaged += damaged;
}

static int by_address(const void *a, const void *b)
{
	const struct ws_um *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

static size_t add_up(struct list *l)
{
	size_t kept = 0;

	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_address);
	for (size_t i = 0; i < l->n; i++) {
		struct ws_um *to;

		if (!kept || by_address(&l->v[kept - 1], &l->v[i])) {
			l->v[kept++] = l->v[i];
			continue;
		}
		to = &l->v[kept - 1];
		to->to_device += l->v[i].to_device;
		to->to_host += l->v[i].to_host;
		to->bytes += l->v[i].bytes;
		to->ns += l->v[i].ns;
		to->cpu_faults += l->v[i].cpu_faults;
		to->gpu_faults += l->v[i].gpu_faults;
		to->moved |= l->v[i].moved;
	}
	return kept;
}

struct ws_um *ws_um_load(struct ws_stats *s, size_t *count)
{
	struct list l = {0};

	scan(s, WS_TABLE_cuda_memcpy,
	     WS_COL(cuda_memcpy, start) | WS_COL(cuda_memcpy, end) | WS_COL(cuda_memcpy, process) | WS_COL(cuda_memcpy, bytes) |
		 WS_COL(cuda_memcpy, kind) | WS_COL(cuda_memcpy, address),
	     scan_traffic, &l);
	scan(s, WS_TABLE_cuda_um_cpu_fault, WS_COL(cuda_um_cpu_fault, process) | WS_COL(cuda_um_cpu_fault, address),
	     scan_cpu_faults, &l);
	scan(s, WS_TABLE_cuda_um_gpu_fault,
	     WS_COL(cuda_um_gpu_fault, process) | WS_COL(cuda_um_gpu_fault, address) | WS_COL(cuda_um_gpu_fault, faults),
	     scan_gpu_faults, &l);
	*count = add_up(&l);
	return l.v;
}
