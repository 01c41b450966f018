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

struct loading {
	const struct ws_report *report;
	struct ws_work *work;
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

static void read_devices(struct loading *loading)
{
	struct ws_cursor *cursor =
		ws_cursor_open(loading->report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values))
		if (values[ws_cuda_device_uuid])
			ws_map_set(&loading->uuid,
				   values[ws_cuda_device_process] << 32 | values[ws_cuda_device_id],
				   ws_report_string_key(loading->report,
							(uint32_t)values[ws_cuda_device_uuid]));
	ws_cursor_close(cursor);
	cursor = ws_cursor_open(loading->report, WS_TABLE_collective, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &values))
		if (values[ws_collective_correlation] != WS_NO_U32)
			ws_map_set(&loading->collective,
				   values[ws_collective_process] << 32 |
					   values[ws_collective_correlation],
				   1);
	ws_cursor_close(cursor);
}

static size_t gpu_of(struct loading *loading, uint64_t process, uint64_t device)
{
	uint64_t key = process << 32 | (uint32_t)device;
	bool found;
	size_t n;

	if (loading->work->gpus && key == loading->last_key)
		return loading->last;
	n = ws_map_get(&loading->number, key, &found);
	if (!found) {
		uint32_t uuid = (uint32_t)ws_map_get(&loading->uuid, key, NULL);

		for (n = 0;
		     n < loading->work->gpus && (!uuid || loading->work->gpu[n].uuid != uuid);)
			n++;
		if (n == loading->work->gpus) {
			ws_grow(loading->work->gpu, loading->work->gpu_cap, n + 1);
			loading->work->gpu[loading->work->gpus++] = (struct ws_work_gpu){
				.process = process, .device = device, .uuid = uuid};
		}
		ws_map_set(&loading->number, key, n);
	}
	loading->last_key = key;
	return loading->last = n;
}

static enum ws_work_class class_of(struct loading *loading, const struct source *source,
				   uint64_t *const *col, size_t i)
{
	uint64_t id;

	if (source->name < 0)
		return source->class;
	if (loading->collective.n &&
	    ws_map_get(&loading->collective,
		       col[source->process][i] << 32 | col[source->correlation][i], NULL))
		return WS_WORK_COMM;
	id = col[source->name][i] ? col[source->name][i] : col[source->alias][i];
	if (id > ws_report_string_count(loading->report))
		return source->class;
	if (!loading->comm[id])
		loading->comm[id] =
			ws_work_communicates(ws_report_string(loading->report, (uint32_t)id, NULL))
				? 1
				: 2;
	return loading->comm[id] == 1 ? WS_WORK_COMM : source->class;
}

static void add_rows(struct loading *loading, const struct source *source,
		     const struct ws_rows *rows)
{
	uint64_t *const *col = rows->col;

	for (size_t i = 0; i < rows->rows; i++) {
		uint64_t start = col[source->start][i], end = col[source->end][i];
		struct ws_work_gpu *gpu;
		size_t number;

		if (end == WS_NO_TIME || end < start) {
			*(end == WS_NO_TIME ? &loading->work->unended
					    : &loading->work->backwards) += 1;
			continue;
		}
		number = gpu_of(loading, col[source->process][i], col[source->device][i]);
		gpu = &loading->work->gpu[number];
		ws_grow(gpu->op, gpu->cap, gpu->n + 1);
		gpu->op[gpu->n++] = (struct ws_work_op){start,
							end,
							(uint32_t)col[source->process][i],
							(uint32_t)col[source->correlation][i],
							(uint32_t)col[source->stream][i],
							(uint8_t)class_of(loading, source, col, i),
							source->table == WS_TABLE_cuda_memset};
	}
}

static uint64_t bit(int column)
{
	return column < 0 ? 0 : UINT64_C(1) << column;
}

static int load_source(struct loading *loading, const struct source *source, uint64_t time_min,
		       uint64_t time_max, struct ws_err *err)
{
	struct ws_scan sc = {
		.table = source->table,
		.columns = bit(source->start) | bit(source->end) | bit(source->process) |
			   bit(source->device) | bit(source->stream) | bit(source->correlation) |
			   bit(source->name) | bit(source->alias),
		.time_min = time_min,
		.time_max = time_max,
	};
	struct ws_rows rows;

	if (ws_rows_load(loading->report, &sc, &rows, err) < 0)
		return -1;
	loading->work->damaged += rows.damaged;
	add_rows(loading, source, &rows);
	ws_rows_free(&rows);
	return 0;
}

/* ---- order ---- */

/* By start, then end: so that what a gap is said to end with does not depend on the table it is in.
 */
static bool ordered(const struct ws_work_op *left, const struct ws_work_op *right)
{
	return left->start != right->start ? left->start < right->start : left->end <= right->end;
}

static size_t run_end(const struct ws_work_op *op, size_t from, size_t n)
{
	for (from++; from < n && ordered(&op[from - 1], &op[from]);)
		from++;
	return ws_min(from, n);
}

static void sort_ops(struct ws_work_gpu *gpu)
{
	struct ws_work_op *from = gpu->op, *to = NULL, *work_op;

	while (gpu->n && run_end(from, 0, gpu->n) < gpu->n) {
		to = to ? to : ws_malloc(gpu->n * sizeof(*to));
		for (size_t i = 0, at = 0; i < gpu->n;) {
			size_t mid = run_end(from, i, gpu->n),
			       end = mid < gpu->n ? run_end(from, mid, gpu->n) : mid, a = i,
			       b = mid;

			while (a < mid || b < end)
				to[at++] = b == end || (a < mid && ordered(&from[a], &from[b]))
						   ? from[a++]
						   : from[b++];
			i = end;
		}
		work_op = from;
		from = to;
		to = work_op;
	}
	gpu->op = from;
	free(to);
}

static int by_number(const void *first, const void *second)
{
	const struct ws_work_gpu *left = first, *right = second;

	if (left->device != right->device)
		return left->device < right->device ? -1 : 1;
	return ws_compare(left->process, right->process);
}

int ws_work_load(const struct ws_report *report, uint64_t time_min, uint64_t time_max,
		 struct ws_work *work, struct ws_err *err)
{
	struct loading loading = {.report = report, .work = work};
	int rc = 0;

	memset(work, 0, sizeof(*work));
	loading.comm = ws_calloc((size_t)ws_report_string_count(report) + 1, 1);
	read_devices(&loading);
	for (size_t i = 0; i < WS_COUNT(sources) && !rc; i++)
		rc = load_source(&loading, &sources[i], time_min, time_max, err);
	for (size_t i = 0; i < work->gpus; i++)
		sort_ops(&work->gpu[i]);
	if (work->gpus)
		qsort(work->gpu, work->gpus, sizeof(*work->gpu), by_number);
	ws_map_free(&loading.uuid);
	ws_map_free(&loading.number);
	ws_map_free(&loading.collective);
	free(loading.comm);
	return rc;
}

void ws_work_free(struct ws_work *work)
{
	for (size_t i = 0; i < work->gpus; i++)
		free(work->gpu[i].op);
	free(work->gpu);
	memset(work, 0, sizeof(*work));
}
