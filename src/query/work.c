/*
 * work.c - see work.h.
 *
 * There may be many millions of rows, and new memory costs more than decoding: blocks become
 * operations as they are decoded, and the array that they are put into is the buffer for sorting
 * them. A block is sorted by (process, start), so what it adds to a GPU is a few ascending runs;
 * merging runs pairwise costs little however many rows there are.
 */
#include "query/work.h"

#include <pthread.h>
#include <stdatomic.h>
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
	_Atomic uint8_t *comm;	  /* by string id: 1 when it communicates, 2 when it does not */
	struct ws_work_op *buffer;
	size_t buffer_cap;
};

/* The operations of one GPU in a block, in the order of its rows. */
struct block_part {
	uint64_t process, device;
	size_t from, count; /* in the loader's buffer */
	size_t gpu;	    /* its number, once that is known */
};

/* A table that is being read, by several workers. */
struct source_load {
	struct work_loader *loader;
	const struct source *source;
	size_t *place; /* by block: where its operations go */
	pthread_mutex_t lock;
	struct block_part *parts;
	size_t part_count, part_cap;
	uint64_t damaged;
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
	return number;
}

/* Several workers may look at the same name at the same time, with the same result. */
static enum ws_work_class classify_work(const struct work_loader *loader,
					const struct source *source, const uint64_t *const *col,
					size_t i)
{
	uint64_t id;
	uint8_t known;

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
	known = atomic_load_explicit(&loader->comm[id], memory_order_relaxed);
	if (!known) {
		known = 2 - ws_is_communication_kernel(
				    ws_report_string(loader->report, (uint32_t)id, NULL));
		atomic_store_explicit(&loader->comm[id], known, memory_order_relaxed);
	}
	if (known == 1)
		return WS_WORK_COMM;
	return source->class;
}

static uint32_t get_name(const struct source *source, const uint64_t *const *col, size_t i)
{
	if (source->name < 0)
		return 0;
	return (uint32_t)ws_or(col[source->name][i], col[source->alias][i]);
}

static struct ws_work_op make_op(const struct source_load *load, const uint64_t *const *col,
				 size_t i)
{
	const struct source *source = load->source;

	return (struct ws_work_op){.start = col[source->start][i],
				   .end = col[source->end][i],
				   .process = (uint32_t)col[source->process][i],
				   .correlation = (uint32_t)col[source->correlation][i],
				   .stream = (uint32_t)col[source->stream][i],
				   .name = get_name(source, col, i),
				   .class = (uint8_t)classify_work(load->loader, source, col, i),
				   .set = source->table == WS_TABLE_cuda_memset};
}

static bool is_usable(const struct source *source, const uint64_t *const *col, size_t i)
{
	return col[source->end][i] != WS_NO_TIME && col[source->end][i] >= col[source->start][i];
}

/* The parts that the rows of a block make up. */
struct part_list {
	struct block_part *parts;
	size_t count, cap, last;
};

static struct block_part *find_part(struct part_list *list, uint64_t process, uint64_t device)
{
	struct block_part *part = list->parts ? &list->parts[list->last] : NULL;

	if (part && part->process == process && part->device == device)
		return part;
	for (list->last = 0; list->last < list->count; list->last++) {
		part = &list->parts[list->last];
		if (part->process == process && part->device == device)
			return part;
	}
	ws_grow(list->parts, list->cap, list->count + 1);
	part = &list->parts[list->count++];
	*part = (struct block_part){.process = process, .device = device};
	return part;
}

static void count_parts(struct source_load *load, const struct ws_batch *batch,
			struct part_list *list)
{
	const struct source *source = load->source;
	uint64_t unended = 0, backwards = 0;

	for (size_t i = 0; i < batch->rows; i++) {
		bool ended = batch->col[source->end][i] != WS_NO_TIME;

		if (is_usable(source, batch->col, i))
			find_part(list, batch->col[source->process][i],
				  batch->col[source->device][i])
				->count++;
		unended += !ended;
		backwards += ended && !is_usable(source, batch->col, i);
	}
	pthread_mutex_lock(&load->lock);
	load->loader->work->unended += unended;
	load->loader->work->backwards += backwards;
	pthread_mutex_unlock(&load->lock);
}

static int keep_block(void *context, const struct ws_batch *batch)
{
	struct source_load *load = context;
	const struct source *source = load->source;
	struct part_list list = {NULL};
	size_t place = load->place[batch->block];

	count_parts(load, batch, &list);
	for (size_t i = 0; i < list.count; i++) {
		list.parts[i].from = place;
		place += list.parts[i].count;
		list.parts[i].count = 0;
	}
	for (size_t i = 0; i < batch->rows; i++) {
		struct block_part *part;

		if (!is_usable(source, batch->col, i))
			continue;
		part = find_part(&list, batch->col[source->process][i],
				 batch->col[source->device][i]);
		load->loader->buffer[part->from + part->count++] = make_op(load, batch->col, i);
	}
	pthread_mutex_lock(&load->lock);
	ws_grow(load->parts, load->part_cap, load->part_count + list.count);
	for (size_t i = 0; i < list.count; i++)
		load->parts[load->part_count++] = list.parts[i];
	pthread_mutex_unlock(&load->lock);
	free(list.parts);
	return 0;
}

static int compare_parts(const void *first, const void *second)
{
	const struct block_part *left = first, *right = second;

	if (left->process != right->process)
		return ws_compare(left->process, right->process);
	return ws_compare(left->from, right->from);
}

static void add_parts(struct source_load *load)
{
	struct ws_work *work = load->loader->work;
	size_t *more;

	if (load->part_count)
		qsort(load->parts, load->part_count, sizeof(*load->parts), compare_parts);
	for (size_t i = 0; i < load->part_count; i++)
		load->parts[i].gpu = find_or_add_gpu(load->loader, load->parts[i].process,
						     load->parts[i].device);
	more = ws_calloc(work->gpus + 1, sizeof(*more));
	for (size_t i = 0; i < load->part_count; i++)
		more[load->parts[i].gpu] += load->parts[i].count;
	for (size_t i = 0; i < work->gpus; i++)
		ws_grow(work->gpu[i].op, work->gpu[i].cap, work->gpu[i].count + more[i]);
	for (size_t i = 0; i < load->part_count; i++) {
		const struct block_part *part = &load->parts[i];
		struct ws_work_gpu *gpu = &work->gpu[part->gpu];

		memcpy(gpu->op + gpu->count, load->loader->buffer + part->from,
		       part->count * sizeof(*gpu->op));
		gpu->count += part->count;
	}
	free(more);
}

/* Finds where the operations of each block go, at most; makes room for them. */
static void place_blocks(struct source_load *load)
{
	struct work_loader *loader = load->loader;
	size_t blocks = ws_report_count_blocks(loader->report, load->source->table), rows = 0;

	load->place = ws_calloc(blocks + 1, sizeof(*load->place));
	for (size_t i = 0; i < blocks; i++) {
		load->place[i] = rows;
		rows += ws_report_block_info(loader->report, load->source->table, i).rows;
	}
	if (rows <= loader->buffer_cap)
		return;
	free(loader->buffer);
	loader->buffer = ws_malloc(rows * sizeof(*loader->buffer));
	loader->buffer_cap = rows;
}

static uint64_t column_bit(int column)
{
	if (column < 0)
		return 0;
	return UINT64_C(1) << column;
}

static void load_source(struct work_loader *loader, const struct source *source, uint64_t time_min,
			uint64_t time_max)
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
	struct source_load load = {
		.loader = loader, .source = source, .lock = PTHREAD_MUTEX_INITIALIZER};

	place_blocks(&load);
	ws_run_scan(loader->report, &scan, keep_block, &load, &load.damaged);
	loader->work->damaged += load.damaged;
	add_parts(&load);
	free(load.place);
	free(load.parts);
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

/* Sorts operations from number `first` on; `buffer` has room for all of them. */
static void sort_ops(struct ws_work_gpu *gpu, size_t first, struct ws_work_op *buffer)
{
	size_t count = gpu->count - first;
	struct ws_work_op *from = gpu->op + first, *to = buffer, *swapped;

	while (count && find_run_end(from, 0, count) < count) {
		for (size_t i = 0, at = 0; i < count;) {
			size_t mid = find_run_end(from, i, count),
			       end = find_run_end(from, mid, count), left = i, right = mid;

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
	if (from == buffer && count)
		memcpy(gpu->op + first, buffer, count * sizeof(*buffer));
}

/* The first run, mostly all kernels, is moved only once: the others are merged before. */
static void sort_gpu(struct work_loader *loader, struct ws_work_gpu *gpu)
{
	size_t first = find_run_end(gpu->op, 0, gpu->count);

	if (gpu->count > loader->buffer_cap) {
		free(loader->buffer);
		loader->buffer = ws_malloc(gpu->count * sizeof(*loader->buffer));
		loader->buffer_cap = gpu->count;
	}
	sort_ops(gpu, first, loader->buffer);
	sort_ops(gpu, 0, loader->buffer);
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

	(void)err; /* running out of memory ends the program; damage is counted */
	memset(work, 0, sizeof(*work));
	loader.comm = ws_calloc((size_t)ws_report_string_count(report) + 1, 1);
	read_devices(&loader);
	for (size_t i = 0; i < WS_COUNT(sources); i++)
		load_source(&loader, &sources[i], time_min, time_max);
	for (size_t i = 0; i < work->gpus; i++)
		sort_gpu(&loader, &work->gpu[i]);
	if (work->gpus)
		qsort(work->gpu, work->gpus, sizeof(*work->gpu), compare_gpus);
	ws_map_free(&loader.uuid);
	ws_map_free(&loader.number);
	ws_map_free(&loader.collective);
	free(loader.comm);
	free(loader.buffer);
	return 0;
}

void ws_work_free(struct ws_work *work)
{
	for (size_t i = 0; i < work->gpus; i++)
		free(work->gpu[i].op);
	free(work->gpu);
	memset(work, 0, sizeof(*work));
}
