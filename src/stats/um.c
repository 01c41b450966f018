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
	struct ws_um *ums;
	size_t n, cap;
	char apart[128]; /* from the next worker's */
};

struct pass {
	struct worker *workers;
	uint32_t count;
};

static void add_up(struct ws_um *to, const struct ws_um *um)
{
	to->to_device += um->to_device;
	to->to_host += um->to_host;
	to->bytes += um->bytes;
	to->ns += um->ns;
	to->cpu_faults += um->cpu_faults;
	to->gpu_faults += um->gpu_faults;
	to->moved |= um->moved;
}

static void add_group(struct worker *worker, const struct ws_um *um, size_t n)
{
	uint64_t key[AHEAD][KEY_WORDS];

	for (size_t i = 0; i < n; i++) {
		key[i][ADDRESS] = um[i].address;
		key[i][PROCESS] = um[i].process;
		ws_keyed_prefetch(&worker->keys, key[i]);
	}
	for (size_t i = 0; i < n; i++) {
		ws_keyed_get(&worker->keys, key[i]);
		if (worker->keys.last < worker->n) {
			add_up(&worker->ums[worker->keys.last], &um[i]);
			continue;
		}
		ws_grow(worker->ums, worker->cap, worker->n + 1);
		worker->ums[worker->n++] = um[i];
	}
}

/* What a row tells; false for nothing. */
typedef bool row_fn(const struct ws_batch *batch, size_t i, struct ws_um *um);

static bool traffic(const struct ws_batch *batch, size_t i, struct ws_um *um)
{
	uint64_t kind = batch->col[ws_cuda_memcpy_kind][i],
		 bytes = batch->col[ws_cuda_memcpy_bytes][i];
	uint64_t start = batch->col[ws_cuda_memcpy_start][i],
		 end = batch->col[ws_cuda_memcpy_end][i];
	uint64_t address = batch->col[ws_cuda_memcpy_address][i];

	if (kind < WS_COPY_UM_HTOD || kind > WS_COPY_UM_DTOD)
		return false;
	*um = (struct ws_um){.process = batch->col[ws_cuda_memcpy_process][i],
			     .address = address == WS_NO_U64 ? 0 : address};
	um->moved = true;
	um->to_device = kind == WS_COPY_UM_HTOD ? bytes : 0;
	um->to_host = kind == WS_COPY_UM_DTOH ? bytes : 0;
	if (end != WS_NO_TIME && end > start) {
		um->bytes = bytes;
		um->ns = end - start;
	}
	return true;
}

static bool cpu_fault(const struct ws_batch *batch, size_t i, struct ws_um *um)
{
	*um = (struct ws_um){.process = batch->col[ws_cuda_um_cpu_fault_process][i],
			     .address = batch->col[ws_cuda_um_cpu_fault_address][i],
			     .cpu_faults = 1};
	return true;
}

static bool gpu_faults(const struct ws_batch *batch, size_t i, struct ws_um *um)
{
	*um = (struct ws_um){.process = batch->col[ws_cuda_um_gpu_fault_process][i],
			     .address = batch->col[ws_cuda_um_gpu_fault_address][i],
			     .gpu_faults = batch->col[ws_cuda_um_gpu_fault_faults][i]};
	return true;
}

static inline int scan_rows(struct pass *pass, const struct ws_batch *batch, row_fn *fn)
{
	struct worker *worker = &pass->workers[batch->worker];
	struct ws_um group[AHEAD];
	size_t n = 0;

	for (size_t i = 0; i < batch->rows; i++) {
		n += fn(batch, i, &group[n]);
		if (n == AHEAD) {
			add_group(worker, group, n);
			n = 0;
		}
	}
	add_group(worker, group, n);
	return 0;
}

static int scan_traffic(void *ctx, const struct ws_batch *batch)
{
	return scan_rows(ctx, batch, traffic);
}

static int scan_cpu_faults(void *ctx, const struct ws_batch *batch)
{
	return scan_rows(ctx, batch, cpu_fault);
}

static int scan_gpu_faults(void *ctx, const struct ws_batch *batch)
{
	return scan_rows(ctx, batch, gpu_faults);
}

static void scan(struct ws_stats *stats, enum ws_table table, uint64_t columns,
		 int (*fn)(void *ctx, const struct ws_batch *batch), struct pass *pass)
{
	struct ws_scan sc = {.table = table,
			     .columns = columns,
			     .time_min = stats->time_min,
			     .time_max = stats->time_max};
	uint64_t damaged = 0;

	ws_scan_run(stats->report, &sc, fn, pass, &damaged);
	stats->damaged += damaged;
}

/* The workers' sums by process and address: key is the one that was sorted by last, value is worker
 * << 32 | number. */
static struct ws_keyed_value *sort_sums(const struct pass *pass, size_t *count)
{
	struct ws_keyed_value *keyed;
	size_t n = 0, at = 0;

	for (uint32_t w = 0; w < pass->count; w++)
		n += pass->workers[w].n;
	keyed = ws_malloc((n + 1) * sizeof(*keyed));
	for (uint32_t w = 0; w < pass->count; w++)
		for (size_t i = 0; i < pass->workers[w].n; i++)
			keyed[at++] = (struct ws_keyed_value){pass->workers[w].ums[i].address,
							      (uint64_t)w << 32 | i};
	*count = n;
	if (!n)
		return keyed;
	keyed = ws_sort_by_key(keyed, n);
	for (size_t i = 0; i < n; i++)
		keyed[i].key =
			pass->workers[keyed[i].value >> 32].ums[(uint32_t)keyed[i].value].process;
	return ws_sort_by_key(keyed, n);
}

static struct ws_um *merge(const struct pass *pass, size_t *count)
{
	size_t n, kept = 0;
	struct ws_keyed_value *sorted = sort_sums(pass, &n);
	struct ws_um *um = ws_malloc((n + 1) * sizeof(*um));

	for (size_t i = 0; i < n; i++) {
		const struct ws_um *um_u =
			&pass->workers[sorted[i].value >> 32].ums[(uint32_t)sorted[i].value];

		if (kept && um[kept - 1].process == um_u->process &&
		    um[kept - 1].address == um_u->address)
			add_up(&um[kept - 1], um_u);
		else
			um[kept++] = *um_u;
	}
	free(sorted);
	*count = kept;
	return um;
}

struct ws_um *ws_um_load(struct ws_stats *stats, size_t *count)
{
	struct pass pass = {
		.count = ws_scan_workers(&(struct ws_scan){.table = WS_TABLE_cuda_memcpy})};
	struct ws_um *um;

	pass.workers = ws_calloc(pass.count, sizeof(*pass.workers));
	for (uint32_t w = 0; w < pass.count; w++)
		pass.workers[w].keys.words = KEY_WORDS;
	scan(stats, WS_TABLE_cuda_memcpy,
	     WS_COL(cuda_memcpy, start) | WS_COL(cuda_memcpy, end) | WS_COL(cuda_memcpy, process) |
		     WS_COL(cuda_memcpy, bytes) | WS_COL(cuda_memcpy, kind) |
		     WS_COL(cuda_memcpy, address),
	     scan_traffic, &pass);
	scan(stats, WS_TABLE_cuda_um_cpu_fault,
	     WS_COL(cuda_um_cpu_fault, process) | WS_COL(cuda_um_cpu_fault, address),
	     scan_cpu_faults, &pass);
	scan(stats, WS_TABLE_cuda_um_gpu_fault,
	     WS_COL(cuda_um_gpu_fault, process) | WS_COL(cuda_um_gpu_fault, address) |
		     WS_COL(cuda_um_gpu_fault, faults),
	     scan_gpu_faults, &pass);
	um = merge(&pass, count);
	for (uint32_t w = 0; w < pass.count; w++) {
		ws_keyed_free(&pass.workers[w].keys);
		free(pass.workers[w].ums);
	}
	free(pass.workers);
	return um;
}
