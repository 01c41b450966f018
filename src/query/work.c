/*
 * work.c - see work.h.
 *
 * Each table is sorted by (process, start), so what it adds to a GPU is a few ascending runs;
 * merging runs pairwise costs little however many rows there are.
 */
#include "query/work.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/choose.h"
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

struct work_loader {
	const struct ws_report *report;
	struct ws_work *work;
	struct ws_map uuid;	  /* process << 32 | device: text key */
	struct ws_map number;	  /* of a GPU: by the same key */
	struct ws_map collective; /* process << 32 | correlation */
	uint8_t *comm;		  /* by string id: 1 when it communicates, 2 when it does not */
	uint64_t last_key;
	size_t last;
};

bool ws_is_communication_kernel(const char *name)
{
	return !strncmp(name, "nccl", 4) || strstr(name, "ncclKernel") ||
	       strstr(name, "ncclDevKernel");
}

static void read_devices(struct work_loader *loader)
{
	struct ws_cursor *cursor =
		ws_cursor_open(loader->report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values))
		if (values[ws_cuda_device_uuid])
			ws_map_set(&loader->uuid,
				   values[ws_cuda_device_process] << 32 | values[ws_cuda_device_id],
				   ws_report_string_key(loader->report,
							(uint32_t)values[ws_cuda_device_uuid]));
	ws_cursor_close(cursor);
	cursor = ws_cursor_open(loader->report, WS_TABLE_collective, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &values))
		if (values[ws_collective_correlation] != WS_NO_U32)
			ws_map_set(&loader->collective,
				   values[ws_collective_process] << 32 |
					   values[ws_collective_correlation],
				   1);
	ws_cursor_close(cursor);
}

static size_t find_or_add_gpu(struct work_loader *loader, uint64_t process, uint64_t device)
{
	uint64_t key = process << 32 | (uint32_t)device;
	bool found;
	size_t number;

	if (loader->work->gpus && key == loader->last_key)
		return loader->last;
	number = ws_map_get(&loader->number, key, &found);
	if (!found) {
		uint32_t uuid = (uint32_t)ws_map_get(&loader->uuid, key, NULL);

		for (number = 0; number < loader->work->gpus &&
				 (!uuid || loader->work->gpu[number].uuid != uuid);)
			number++;
		if (number == loader->work->gpus) {
			ws_grow(loader->work->gpu, loader->work->gpu_cap, number + 1);
			loader->work->gpu[loader->work->gpus++] = (struct ws_work_gpu){
				.process = process, .device = device, .uuid = uuid};
		}
		ws_map_set(&loader->number, key, number);
	}
	loader->last_key = key;
	return loader->last = number;
}

static enum ws_work_class classify_work(struct work_loader *loader, const struct source *source,
					uint64_t *const *col, size_t i)
{
	uint64_t id;

	if (source->name < 0)
		return source->class;
	if (loader->collective.count &&
	    ws_map_get(&loader->collective,
		       col[source->process][i] << 32 | col[source->correlation][i], NULL))
		return WS_WORK_COMM;
	id = col[source->name][i];
	if (!id)
		id = col[source->alias][i];
	if (id > ws_report_string_count(loader->report))
		return source->class;
	if (!loader->comm[id])
		loader->comm[id] = 2 - ws_is_communication_kernel(ws_report_string(
					       loader->report, (uint32_t)id, NULL));
	if (loader->comm[id] == 1)
		return WS_WORK_COMM;
	return source->class;
}

static uint32_t get_name(const struct source *source, uint64_t *const *col, size_t i)
{
	if (source->name < 0)
		return 0;
	return (uint32_t)ws_or(col[source->name][i], col[source->alias][i]);
}

static void add_rows(struct work_loader *loader, const struct source *source,
		     const struct ws_rows *rows)
{
	uint64_t *const *col = rows->col;

	for (size_t i = 0; i < rows->rows; i++) {
		uint64_t start = col[source->start][i], end = col[source->end][i];
		struct ws_work_gpu *gpu;
		size_t number;

		if (end == WS_NO_TIME || end < start) {
			loader->work->unended += end == WS_NO_TIME;
			loader->work->backwards += end != WS_NO_TIME;
			continue;
		}
		number = find_or_add_gpu(loader, col[source->process][i], col[source->device][i]);
		gpu = &loader->work->gpu[number];
		ws_grow(gpu->op, gpu->cap, gpu->count + 1);
		gpu->op[gpu->count++] =
			(struct ws_work_op){.start = start,
					    .end = end,
					    .process = (uint32_t)col[source->process][i],
					    .correlation = (uint32_t)col[source->correlation][i],
					    .stream = (uint32_t)col[source->stream][i],
					    .name = get_name(source, col, i),
					    .class = (uint8_t)classify_work(loader, source, col, i),
					    .set = source->table == WS_TABLE_cuda_memset};
	}
}

static uint64_t column_bit(int column)
{
	if (column < 0)
		return 0;
	return UINT64_C(1) << column;
}

static int load_source(struct work_loader *loader, const struct source *source, uint64_t time_min,
		       uint64_t time_max, struct ws_err *err)
{
	struct ws_scan scan = {
		.table = source->table,
		.columns = column_bit(source->start) | column_bit(source->end) |
			   column_bit(source->process) | column_bit(source->device) |
			   column_bit(source->stream) | column_bit(source->correlation) |
			   column_bit(source->name) | column_bit(source->alias),
		.time_min = time_min,
		.time_max = time_max,
	};
	struct ws_rows rows;

	if (ws_rows_load(loader->report, &scan, &rows, err) < 0)
		return -1;
	loader->work->damaged += rows.damaged;
	add_rows(loader, source, &rows);
	ws_rows_free(&rows);
	return 0;
}

/* ---- order ---- */

/* By start, then end, so that the work that ends a gap does not depend on its table. */
static bool is_ordered(const struct ws_work_op *left, const struct ws_work_op *right)
{
	if (left->start != right->start)
		return left->start < right->start;
	return left->end <= right->end;
}

static size_t find_run_end(const struct ws_work_op *op, size_t from, size_t count)
{
	for (from++; from < count && is_ordered(&op[from - 1], &op[from]);)
		from++;
	return ws_min(from, count);
}

static void sort_ops(struct ws_work_gpu *gpu)
{
	struct ws_work_op *from = gpu->op, *to = NULL, *swapped;

	while (gpu->count && find_run_end(from, 0, gpu->count) < gpu->count) {
		if (!to)
			to = ws_malloc(gpu->count * sizeof(*to));
		for (size_t i = 0, at = 0; i < gpu->count;) {
			size_t mid = find_run_end(from, i, gpu->count),
			       end = find_run_end(from, mid, gpu->count), left = i, right = mid;

			while (left < mid || right < end) {
				if (right == end ||
				    (left < mid && is_ordered(&from[left], &from[right])))
					to[at++] = from[left++];
				else
					to[at++] = from[right++];
			}
			i = end;
		}
		swapped = from;
		from = to;
		to = swapped;
	}
	gpu->op = from;
	free(to);
}

static int compare_gpus(const void *first, const void *second)
{
	const struct ws_work_gpu *left = first, *right = second;

	if (left->device != right->device)
		return ws_compare(left->device, right->device);
	return ws_compare(left->process, right->process);
}

int ws_work_load(const struct ws_report *report, uint64_t time_min, uint64_t time_max,
		 struct ws_work *work, struct ws_err *err)
{
	struct work_loader loader = {.report = report, .work = work};
	int rc = 0;

	memset(work, 0, sizeof(*work));
	loader.comm = ws_calloc((size_t)ws_report_string_count(report) + 1, 1);
	read_devices(&loader);
	for (size_t i = 0; i < WS_COUNT(sources) && !rc; i++)
		rc = load_source(&loader, &sources[i], time_min, time_max, err);
	for (size_t i = 0; i < work->gpus; i++)
		sort_ops(&work->gpu[i]);
	if (work->gpus)
		qsort(work->gpu, work->gpus, sizeof(*work->gpu), compare_gpus);
	ws_map_free(&loader.uuid);
	ws_map_free(&loader.number);
	ws_map_free(&loader.collective);
	free(loader.comm);
	return rc;
}

void ws_work_free(struct ws_work *work)
{
	for (size_t i = 0; i < work->gpus; i++)
		free(work->gpu[i].op);
	free(work->gpu);
	memset(work, 0, sizeof(*work));
}
