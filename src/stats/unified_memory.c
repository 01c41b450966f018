/*
 * unified_memory.c - see unified_memory.h.
 *
 * Each worker sums up by address while it reads rows. There are few pages compared to the rows
 * about them, but more than a cache holds, so look-ups are grouped and prefetched. In the end the
 * sums of all workers are sorted, and those of one address added up.
 */
#include "stats/unified_memory.h"

#include <stdlib.h>

#include "base/sort.h"
#include "stats/keyed.h"

enum { ADDRESS, PROCESS, KEY_WORDS };
enum { AHEAD = 16 };

struct um_worker {
	struct ws_keyed_dists keys; /* numbers only */
	struct ws_unified_memory_sums *ums;
	size_t count, capacity;
	char padding[128]; /* keeps workers in different cache lines */
};

struct um_pass {
	struct um_worker *workers;
	uint32_t worker_count;
};

static void add_um_sums(struct ws_unified_memory_sums *to, const struct ws_unified_memory_sums *um)
{
	to->to_device += um->to_device;
	to->to_host += um->to_host;
	to->bytes += um->bytes;
	to->ns += um->ns;
	to->cpu_faults += um->cpu_faults;
	to->gpu_faults += um->gpu_faults;
	to->moved |= um->moved;
}

static void add_row_group(struct um_worker *worker, const struct ws_unified_memory_sums *um,
			  size_t count)
{
	uint64_t key[AHEAD][KEY_WORDS];

	for (size_t i = 0; i < count; i++) {
		key[i][ADDRESS] = um[i].address;
		key[i][PROCESS] = um[i].process;
		ws_keyed_prefetch(&worker->keys, key[i]);
	}
	for (size_t i = 0; i < count; i++) {
		ws_keyed_get(&worker->keys, key[i]);
		if (worker->keys.last < worker->count) {
			add_um_sums(&worker->ums[worker->keys.last], &um[i]);
			continue;
		}
		ws_grow(worker->ums, worker->capacity, worker->count + 1);
		worker->ums[worker->count++] = um[i];
	}
}

/* Set *um to what a row adds to the sums of its address; false for nothing. */
typedef bool row_fn(const struct ws_batch *batch, size_t i, struct ws_unified_memory_sums *um);

static bool read_traffic_row(const struct ws_batch *batch, size_t i,
			     struct ws_unified_memory_sums *um)
{
	uint64_t kind = batch->col[ws_cuda_memcpy_kind][i],
		 bytes = batch->col[ws_cuda_memcpy_bytes][i];
	uint64_t start = batch->col[ws_cuda_memcpy_start][i],
		 end = batch->col[ws_cuda_memcpy_end][i];
	uint64_t address = batch->col[ws_cuda_memcpy_address][i];

	if (kind < WS_COPY_UM_HTOD || kind > WS_COPY_UM_DTOD)
		return false;
	if (address == WS_NO_U64)
		address = 0;
	*um = (struct ws_unified_memory_sums){.process = batch->col[ws_cuda_memcpy_process][i],
					      .address = address,
					      .moved = true};
	if (kind == WS_COPY_UM_HTOD)
		um->to_device = bytes;
	else if (kind == WS_COPY_UM_DTOH)
		um->to_host = bytes;
	if (end != WS_NO_TIME && end > start) {
		um->bytes = bytes;
		um->ns = end - start;
	}
	return true;
}

static bool read_cpu_fault_row(const struct ws_batch *batch, size_t i,
			       struct ws_unified_memory_sums *um)
{
	*um = (struct ws_unified_memory_sums){
		.process = batch->col[ws_cuda_um_cpu_fault_process][i],
		.address = batch->col[ws_cuda_um_cpu_fault_address][i],
		.cpu_faults = 1};
	return true;
}

static bool read_gpu_fault_row(const struct ws_batch *batch, size_t i,
			       struct ws_unified_memory_sums *um)
{
	*um = (struct ws_unified_memory_sums){
		.process = batch->col[ws_cuda_um_gpu_fault_process][i],
		.address = batch->col[ws_cuda_um_gpu_fault_address][i],
		.gpu_faults = batch->col[ws_cuda_um_gpu_fault_faults][i]};
	return true;
}

static inline int scan_um_rows(struct um_pass *um_pass, const struct ws_batch *batch, row_fn *fn)
{
	struct um_worker *worker = &um_pass->workers[batch->worker];
	struct ws_unified_memory_sums group[AHEAD];
	size_t count = 0;

	for (size_t i = 0; i < batch->rows; i++) {
		count += fn(batch, i, &group[count]);
		if (count == AHEAD) {
			add_row_group(worker, group, count);
			count = 0;
		}
	}
	add_row_group(worker, group, count);
	return 0;
}

static int scan_traffic(void *context, const struct ws_batch *batch)
{
	return scan_um_rows(context, batch, read_traffic_row);
}

static int scan_cpu_faults(void *context, const struct ws_batch *batch)
{
	return scan_um_rows(context, batch, read_cpu_fault_row);
}

static int scan_gpu_faults(void *context, const struct ws_batch *batch)
{
	return scan_um_rows(context, batch, read_gpu_fault_row);
}

static void scan_um_table(struct ws_stats *stats, enum ws_table table, uint64_t columns,
			  int (*fn)(void *context, const struct ws_batch *batch),
			  struct um_pass *um_pass)
{
	struct ws_scan scan = {.table = table,
			       .columns = columns,
			       .time_min = stats->time_min,
			       .time_max = stats->time_max};
	uint64_t damaged = 0;

	ws_run_scan(stats->report, &scan, fn, um_pass, &damaged);
	stats->damaged += damaged;
}

/* The sums of all workers in order of process, then address, as (process, worker << 32 | index). */
static struct ws_keyed_value *sort_worker_sums(const struct um_pass *um_pass, size_t *count)
{
	struct ws_keyed_value *keyed;
	size_t sum_count = 0, at = 0;

	for (uint32_t worker = 0; worker < um_pass->worker_count; worker++)
		sum_count += um_pass->workers[worker].count;
	keyed = ws_malloc((sum_count + 1) * sizeof(*keyed));
	for (uint32_t worker = 0; worker < um_pass->worker_count; worker++)
		for (size_t i = 0; i < um_pass->workers[worker].count; i++)
			keyed[at++] =
				(struct ws_keyed_value){um_pass->workers[worker].ums[i].address,
							(uint64_t)worker << 32 | i};
	*count = sum_count;
	if (!sum_count)
		return keyed;
	keyed = ws_sort_by_key(keyed, sum_count);
	for (size_t i = 0; i < sum_count; i++)
		keyed[i].key = um_pass->workers[keyed[i].value >> 32]
				       .ums[(uint32_t)keyed[i].value]
				       .process;
	return ws_sort_by_key(keyed, sum_count);
}

static struct ws_unified_memory_sums *merge_worker_sums(const struct um_pass *um_pass,
							size_t *count)
{
	size_t sum_count, kept = 0;
	struct ws_keyed_value *sorted = sort_worker_sums(um_pass, &sum_count);
	struct ws_unified_memory_sums *merged = ws_malloc((sum_count + 1) * sizeof(*merged));

	for (size_t i = 0; i < sum_count; i++) {
		const struct ws_unified_memory_sums *sum =
			&um_pass->workers[sorted[i].value >> 32].ums[(uint32_t)sorted[i].value];

		if (kept && merged[kept - 1].process == sum->process &&
		    merged[kept - 1].address == sum->address)
			add_um_sums(&merged[kept - 1], sum);
		else
			merged[kept++] = *sum;
	}
	free(sorted);
	*count = kept;
	return merged;
}

struct ws_unified_memory_sums *ws_load_unified_memory(struct ws_stats *stats, size_t *count)
{
	struct um_pass um_pass = {.worker_count = ws_count_scan_workers(
					  &(struct ws_scan){.table = WS_TABLE_cuda_memcpy})};
	struct ws_unified_memory_sums *um;

	um_pass.workers = ws_calloc(um_pass.worker_count, sizeof(*um_pass.workers));
	for (uint32_t worker = 0; worker < um_pass.worker_count; worker++)
		um_pass.workers[worker].keys.words = KEY_WORDS;
	scan_um_table(stats, WS_TABLE_cuda_memcpy,
		      WS_COLUMN_BIT(cuda_memcpy, start) | WS_COLUMN_BIT(cuda_memcpy, end) |
			      WS_COLUMN_BIT(cuda_memcpy, process) |
			      WS_COLUMN_BIT(cuda_memcpy, bytes) | WS_COLUMN_BIT(cuda_memcpy, kind) |
			      WS_COLUMN_BIT(cuda_memcpy, address),
		      scan_traffic, &um_pass);
	scan_um_table(stats, WS_TABLE_cuda_um_cpu_fault,
		      WS_COLUMN_BIT(cuda_um_cpu_fault, process) |
			      WS_COLUMN_BIT(cuda_um_cpu_fault, address),
		      scan_cpu_faults, &um_pass);
	scan_um_table(stats, WS_TABLE_cuda_um_gpu_fault,
		      WS_COLUMN_BIT(cuda_um_gpu_fault, process) |
			      WS_COLUMN_BIT(cuda_um_gpu_fault, address) |
			      WS_COLUMN_BIT(cuda_um_gpu_fault, faults),
		      scan_gpu_faults, &um_pass);
	um = merge_worker_sums(&um_pass, count);
	for (uint32_t worker = 0; worker < um_pass.worker_count; worker++) {
		ws_keyed_free(&um_pass.workers[worker].keys);
		free(um_pass.workers[worker].ums);
	}
	free(um_pass.workers);
	return um;
}
