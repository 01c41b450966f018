/* gpu_idle.c - see gpu_idle.h. */
#include "record/gpu_idle.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"

/* If more pieces of work than this come within WS_GPU_IDLE_LATE, they are examined as soon as they
 * come. */
enum { WORK_MOST = 1 << 20 };

struct work {
	uint64_t start, end;
};

struct gpu {
	uint64_t key;
	struct work *work; /* that has not been passed yet, unordered */
	size_t count, cap;
	uint64_t end;	  /* of all work that has been passed; 0: there was none */
	uint64_t told_at; /* the `end` after which a gap was found; 0: none */
};

struct ws_gpu_idle {
	struct gpu *gpus;
	size_t count, cap;
	struct ws_map uuids; /* string id by (process, device number) */
	uint64_t last_call;  /* start of the last call of CUDA */
};

struct ws_gpu_idle *ws_gpu_idle_new(void)
{
	return ws_calloc(1, sizeof(struct ws_gpu_idle));
}

void ws_gpu_idle_free(struct ws_gpu_idle *gpus)
{
	if (!gpus)
		return;
	for (size_t i = 0; i < gpus->count; i++)
		free(gpus->gpus[i].work);
	free(gpus->gpus);
	ws_map_free(&gpus->uuids);
	free(gpus);
}

/* ---- rows ---- */

static const enum ws_table work_tables[] = {WS_TABLE_cuda_kernel, WS_TABLE_cuda_memcpy,
					    WS_TABLE_cuda_memset, WS_TABLE_cuda_graph_trace};

void ws_gpu_idle_tables(bool tables[WS_TABLE_COUNT])
{
	for (size_t i = 0; i < WS_COUNT(work_tables); i++)
		tables[work_tables[i]] = true;
	tables[WS_TABLE_cuda_device] = tables[WS_TABLE_cuda_api] = true;
}

static uint64_t make_key(uint32_t process, uint32_t device)
{
	return (uint64_t)process << 32 | device;
}

static struct gpu *find_key(struct ws_gpu_idle *gpus, uint64_t key)
{
	for (size_t i = 0; i < gpus->count; i++)
		if (gpus->gpus[i].key == key)
			return &gpus->gpus[i];
	return NULL;
}

/* Each process numbers devices in its own way; the UUID says which are the same. */
static struct gpu *find_gpu(struct ws_gpu_idle *gpus, uint32_t process, uint32_t device)
{
	uint64_t key = make_key(process, device), uuid = ws_map_get(&gpus->uuids, key, NULL);
	struct gpu *gpu;

	key = ws_or(uuid, key);
	gpu = find_key(gpus, key);
	if (gpu)
		return gpu;
	ws_grow(gpus->gpus, gpus->cap, gpus->count + 1);
	gpus->gpus[gpus->count] = (struct gpu){.key = key};
	return &gpus->gpus[gpus->count++];
}

/* Work may come before the description of its device; from now on it belongs to that device. */
static void name_gpu(struct ws_gpu_idle *gpus, const struct ws_row_cuda_device *device)
{
	uint64_t key = make_key(device->process, device->id);
	struct gpu *nameless = find_key(gpus, key), *named = find_key(gpus, device->uuid);

	ws_map_set(&gpus->uuids, key, device->uuid);
	if (!nameless || !device->uuid)
		return;
	if (!named) {
		nameless->key = device->uuid;
		return;
	}
	ws_grow(named->work, named->cap, named->count + nameless->count);
	if (nameless->count)
		memcpy(named->work + named->count, nameless->work,
		       nameless->count * sizeof(*named->work));
	named->count += nameless->count;
	named->end = ws_max(named->end, nameless->end);
	free(nameless->work);
	*nameless = gpus->gpus[--gpus->count];
}

static void add_work(struct ws_gpu_idle *gpus, enum ws_table table, const char *row)
{
	static int process_column[WS_TABLE_COUNT], device_column[WS_TABLE_COUNT];
	uint64_t start, end;
	struct gpu *gpu;

	if (!device_column[table]) {
		process_column[table] = ws_column_find(table, "process");
		device_column[table] = ws_column_find(table, "device");
	}
	start = ws_row_get(table, row, (uint32_t)ws_table_start(table));
	end = ws_row_get(table, row, (uint32_t)ws_table_end(table));
	if (end == WS_NO_TIME || end < start || !start)
		return;
	gpu = find_gpu(gpus, (uint32_t)ws_row_get(table, row, (uint32_t)process_column[table]),
		       (uint32_t)ws_row_get(table, row, (uint32_t)device_column[table]));
	if (end <= gpu->end)
		return;
	ws_grow(gpu->work, gpu->cap, gpu->count + 1);
	gpu->work[gpu->count++] = (struct work){start, end};
}

void ws_gpu_idle_see(struct ws_gpu_idle *gpus, enum ws_table table, const void *rows,
		     uint32_t count)
{
	const struct ws_row_cuda_device *device = rows;
	const struct ws_row_cuda_api *call = rows;

	for (uint32_t i = 0; i < count; i++)
		if (table == WS_TABLE_cuda_device)
			name_gpu(gpus, &device[i]);
		else if (table == WS_TABLE_cuda_api)
			gpus->last_call = ws_max(gpus->last_call, call[i].start);
		else
			add_work(gpus, table,
				 (const char *)rows + (size_t)i * ws_tables[table].row_size);
}

/* ---- gaps ---- */

static int compare_work(const void *a, const void *b)
{
	return ws_compare(((const struct work *)a)->start, ((const struct work *)b)->start);
}

/* All work that began before this time is known. */
static uint64_t get_complete(const struct gpu *gpu, uint64_t now)
{
	return gpu->count > WORK_MOST ? now : now - ws_min(now, WS_GPU_IDLE_LATE);
}

static bool find_gap(struct gpu *gpu, uint64_t now, uint64_t least, struct work *gap)
{
	uint64_t complete = get_complete(gpu, now), end = gpu->end;

	if (gpu->count)
		qsort(gpu->work, gpu->count, sizeof(*gpu->work), compare_work);
	for (size_t i = 0; i < gpu->count && gpu->work[i].start < complete; i++) {
		const struct work *work = &gpu->work[i];

		if (end && work->start > end && work->start - end > least && gpu->told_at != end) {
			*gap = (struct work){end, work->start};
			return true;
		}
		end = ws_max(end, work->end);
	}
	return false;
}

/* Whether nothing has run since the last work, and no CUDA call has asked for more. */
static bool is_idle_now(const struct ws_gpu_idle *gpus, const struct gpu *gpu, uint64_t now,
			uint64_t least)
{
	return gpu->end && !gpu->count && gpu->told_at != gpu->end && gpus->last_call < gpu->end &&
	       now > gpu->end + least + WS_GPU_IDLE_LATE;
}

bool ws_gpu_idle_find(struct ws_gpu_idle *gpus, uint64_t now, uint64_t least, uint64_t *since,
		      uint64_t *until)
{
	for (size_t i = 0; i < gpus->count; i++) {
		struct gpu *gpu = &gpus->gpus[i];
		struct work gap;

		if (find_gap(gpu, now, least, &gap)) {
			*since = gap.start;
			*until = gap.end;
			return true;
		}
		if (is_idle_now(gpus, gpu, now, least)) {
			gpu->told_at = *since = gpu->end;
			*until = now;
			return true;
		}
	}
	return false;
}

void ws_gpu_idle_pass(struct ws_gpu_idle *gpus, uint64_t now)
{
	for (size_t i = 0; i < gpus->count; i++) {
		struct gpu *gpu = &gpus->gpus[i];
		uint64_t complete = get_complete(gpu, now);
		size_t kept = 0;

		for (size_t k = 0; k < gpu->count; k++)
			if (gpu->work[k].start >= complete)
				gpu->work[kept++] = gpu->work[k];
			else
				gpu->end = ws_max(gpu->end, gpu->work[k].end);
		gpu->count = kept;
	}
}
