/*
 * from_cuda.c - converts the CUDA hook's records into rows.
 *
 * The hook passes CUPTI's own records on in batches. Each has a kind and a size, which says which
 * version of the struct it is. They come from memory that the target can overwrite, so sizes are
 * checked here, handles where they are looked up, and numbers used as indexes where they are used.
 *
 * When a process has died, the buffers that CUPTI was filling are still in the arena.
 * ws_convert_cuda_process_end parses them from the point that the hook had reached. Texts in them
 * are addresses in a process that is gone; those that the hook saw before are known.
 */
#include "record/from_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/from_nccl.h"
#include "record/proc.h"

#define LATE_MOST (1u << 16) /* records of a process that wait for the calls that launched them */
/* A GPU's clock may be ahead of ours by no more than this: a record that begins later was
 * overwritten. */
#define FUTURE_NS UINT64_C(10000000000)
#define KEPT_MOST (1u << 20) /* entries of each kind that are kept for a process */

static const struct {
	ws_cuda_convert *fn;
	uint16_t least,
		usual; /* bytes: the least that a valid record has; the size that 13.0 writes */
} kinds[CUPTI_KIND_COUNT] = {
	[CUPTI_KIND_MEMCPY] = {ws_cuda_memcpy, offsetof(struct cupti_memcpy, runtime_correlation),
			       96},
	[CUPTI_KIND_MEMSET] = {ws_cuda_memset, offsetof(struct cupti_memset, pad), 88},
	[CUPTI_KIND_KERNEL] = {ws_cuda_kernel, offsetof(struct cupti_kernel, max_cluster), 216},
	[CUPTI_KIND_DRIVER] = {ws_cuda_api, sizeof(struct cupti_api), 40},
	[CUPTI_KIND_RUNTIME] = {ws_cuda_api, sizeof(struct cupti_api), 40},
	[CUPTI_KIND_DEVICE] = {ws_cuda_device_record, offsetof(struct cupti_device, visible), 184},
	[CUPTI_KIND_CONTEXT] = {ws_cuda_context, 16, 32},
	[CUPTI_KIND_CONCURRENT_KERNEL] = {ws_cuda_kernel,
					  offsetof(struct cupti_kernel, max_cluster), 216},
	[CUPTI_KIND_OVERHEAD] = {ws_cuda_overhead, offsetof(struct cupti_overhead, correlation),
				 56},
	[CUPTI_KIND_MEMCPY2] = {ws_cuda_memcpy_peer, offsetof(struct cupti_memcpy_peer, reserved0),
				96},
	[CUPTI_KIND_UNIFIED_MEMORY_COUNTER] = {ws_cuda_um, offsetof(struct cupti_um, pad), 104},
	[CUPTI_KIND_CUDA_EVENT] = {ws_cuda_event, offsetof(struct cupti_event, pad), 56},
	[CUPTI_KIND_STREAM] = {ws_cuda_stream, sizeof(struct cupti_stream), 24},
	[CUPTI_KIND_SYNCHRONIZATION] = {ws_cuda_sync, offsetof(struct cupti_sync, event_sync), 56},
	[CUPTI_KIND_MEMORY2] = {ws_cuda_memory, offsetof(struct cupti_memory, source), 128},
	[CUPTI_KIND_MEMORY_POOL] = {ws_cuda_pool, offsetof(struct cupti_pool, managed), 80},
	[CUPTI_KIND_GRAPH_TRACE] = {ws_cuda_graph_trace,
				    offsetof(struct cupti_graph_trace, reserved), 56},
	[CUPTI_KIND_JIT] = {ws_cuda_jit, offsetof(struct cupti_jit, process), 72},
};

/* ---- the state of a process ---- */

static void free_cuda_process(void *arg)
{
	struct ws_cuda_proc *process = arg;

	free(process->api[0]);
	free(process->api[1]);
	free(process->names);
	free(process->memory);
	free(process->live);
	for (size_t i = 0; i < process->late_n; i++)
		free(process->late[i].record);
	free(process->late);
	ws_map_free(&process->launches.after);
	ws_map_free(&process->live_index);
	ws_map_free(&process->pointers);
	ws_map_free(&process->kernel_names);
	ws_map_free(&process->contexts);
	ws_map_free(&process->context_sms);
	ws_map_free(&process->streams);
	ws_map_free(&process->allocations);
	ws_map_free(&process->errors);
	ws_map_free(&process->events);
	ws_map_free(&process->event_numbers);
	free(process);
}

struct ws_cuda_proc *ws_cuda_proc(struct ws_stream *stream)
{
	void **slot = ws_proc_slot(stream->proc, WS_SLOT_CUDA, free_cuda_process);

	if (ws_unlikely(!*slot))
		*slot = ws_calloc(1, sizeof(struct ws_cuda_proc));
	return *slot;
}

uint32_t ws_cuda_text(struct ws_stream *stream, struct ws_cuda_proc *process, const char *field,
		      const char **bytes, size_t *len)
{
	uint64_t v = (uint64_t)(uintptr_t)field;
	uint32_t handle = v & WS_CUPTI_HANDLE ? (uint32_t)v
					      : (uint32_t)ws_map_get(&process->pointers, v, NULL);

	*bytes = ws_stream_string_bytes(stream, handle, len);
	return *bytes ? handle : 0;
}

uint32_t ws_cuda_intern(struct ws_stream *stream, struct ws_cuda_proc *process, const char *field)
{
	const char *bytes;
	size_t len;

	if (!ws_cuda_text(stream, process, field, &bytes, &len))
		return 0;
	return ws_stream_intern(stream, bytes, len);
}

bool ws_cuda_is_future(const struct ws_stream *stream, uint64_t time)
{
	return time > stream->clock->readings[stream->clock->n - 1].raw + FUTURE_NS;
}

bool ws_cuda_wanted(struct ws_stream *stream, uint64_t start, uint64_t end)
{
	return ws_stream_wants(stream, start, end) && !ws_cuda_is_future(stream, start);
}

/* ---- work and the calls that launched it ---- */

/* Correlations rise with the calls of a process, and start again after the highest. */
static bool is_behind(uint32_t correlation, uint32_t other)
{
	return (int32_t)(correlation - other) > 0;
}

/* The later of two; 0 is none. */
static uint32_t pick_later(uint32_t correlation, uint32_t other)
{
	return !other || is_behind(correlation, other) ? correlation : other;
}

/* The call that launched the first work of the collection, or the first after it; 0: not known. */
static uint32_t find_edge_call(const struct ws_stream *stream, bool first)
{
	const struct ws_capture_state *capture = &stream->proc->drain->arena->capture;

	if (ws_read_shared(capture->begin_pid) != stream->proc->pid)
		return 0;
	return first ? ws_read_shared(capture->begin_call) : ws_read_shared(capture->end_call);
}

/* A new window: all calls so far were made before it. */
static struct ws_cuda_launches *follow_window(struct ws_stream *stream,
					      struct ws_cuda_proc *process)
{
	struct ws_cuda_launches *launches = &process->launches;
	uint32_t first;

	if (ws_likely(launches->from == stream->window->from))
		return launches;
	launches->from = stream->window->from;
	launches->before = launches->highest;
	first = find_edge_call(stream, true);
	if (first)
		launches->before = first - 1;
	launches->last = 0;
	ws_map_free(&launches->after);
	return launches;
}

bool ws_cuda_wants_call(struct ws_stream *stream, struct ws_cuda_proc *process,
			const struct cupti_api *api)
{
	struct ws_cuda_launches *launches = follow_window(stream, process);
	bool wanted = ws_cuda_wanted(stream, api->start, ws_or(api->end, api->start));
	uint32_t correlation = api->correlation, end = 0;

	/* The call that ends a collection is under way at that moment. */
	if (wanted && api->end >= stream->window->to)
		end = find_edge_call(stream, false);
	if (end && (correlation == end || is_behind(correlation, end)))
		wanted = false;
	launches->highest = pick_later(correlation, launches->highest);
	if (wanted)
		launches->last = pick_later(correlation, launches->last);
	else if (api->start <= stream->window->from)
		launches->before = pick_later(correlation, launches->before);
	else if (launches->after.count < LATE_MOST)
		ws_map_set(&launches->after, correlation, 0);
	return wanted;
}

/* Whether work that began after the collection's end was launched in it; all calls are known. Calls
 * that several threads make at one moment may have their correlations in reverse order. */
static bool was_launched_inside(const struct ws_cuda_launches *launches, uint32_t correlation)
{
	bool after;

	ws_map_get(&launches->after, correlation, &after);
	return launches->last && !is_behind(correlation, launches->last) && !after;
}

enum ws_cuda_belongs ws_cuda_belongs(struct ws_stream *stream, const struct ws_cuda_record *record,
				     struct ws_cuda_span span)
{
	const struct ws_window *window = stream->window;
	const struct ws_cuda_launches *launches = follow_window(stream, record->p);

	if (ws_cuda_is_future(stream, span.start) || span.end < window->from ||
	    window->from > window->to)
		return WS_CUDA_OUTSIDE;
	if (span.correlation && launches->before && !is_behind(span.correlation, launches->before))
		return WS_CUDA_OUTSIDE;
	if (ws_likely(span.start <= window->to))
		return WS_CUDA_INSIDE; /* CUPTI records only what is launched in a collection */
	if (!record->again)
		return span.correlation ? WS_CUDA_LATE : WS_CUDA_OUTSIDE;
	return was_launched_inside(launches, span.correlation) ? WS_CUDA_INSIDE : WS_CUDA_OUTSIDE;
}

void ws_cuda_keep_late(const struct ws_cuda_record *source, const void *record)
{
	struct ws_cuda_proc *process = source->p;
	struct ws_cuda_kept *kept;

	if (process->late_n >= LATE_MOST)
		return;
	ws_grow(process->late, process->late_cap, process->late_n + 1);
	kept = &process->late[process->late_n++];
	*kept = (struct ws_cuda_kept){.source = *source, .record = ws_malloc(source->size)};
	memcpy(kept->record, record, source->size);
}

void ws_cuda_keep(struct ws_map *map, uint64_t key, uint64_t value)
{
	bool known = false;

	if (map->count >= KEPT_MOST)
		ws_map_get(map, key, &known);
	if (map->count < KEPT_MOST || known)
		ws_map_set(map, key, value);
}

uint32_t ws_cuda_thread(struct ws_stream *stream, struct ws_cuda_proc *process, uint32_t tid,
			uint64_t time)
{
	if (tid != process->last_tid || !process->last_thread) {
		process->last_tid = tid;
		process->last_thread = ws_proc_thread_at(stream->proc, tid, time);
	}
	return process->last_thread;
}

void ws_cuda_place(const struct ws_cuda_proc *process, uint32_t context, uint32_t *base,
		   uint32_t *green)
{
	uint64_t v = ws_map_get(&process->contexts, context, NULL);

	*base = v >> 63 ? (uint32_t)v : context;
	*green = v >> 63 ? context : WS_NO_U32;
}

/* ---- batches ---- */

/* How long allocations and frees wait for earlier ones: each thread's buffer is read at least every
 * 100 ms, if the GPU is done with it. */
#define MEMORY_WAIT_NS UINT64_C(2000000000)

static void convert_cuda_record(struct ws_stream *stream, struct ws_cuda_proc *process,
				uint64_t time, const void *record, uint32_t bytes, uint32_t marked)
{
	uint32_t kind = WS_CUPTI_KIND(marked);
	struct ws_cuda_record cuda_record = {process, time, bytes, marked & WS_CUPTI_UNFINISHED};

	if (kind >= CUPTI_KIND_COUNT || !kinds[kind].fn || bytes < kinds[kind].least)
		return;
	kinds[kind].fn(stream, &cuda_record, record);
}

void ws_cuda_settle_late(struct ws_stream *stream, struct ws_cuda_proc *process)
{
	for (size_t i = 0; i < process->late_n; i++) {
		struct ws_cuda_kept *kept = &process->late[i];

		kept->source.again = true;
		kinds[WS_CUPTI_KIND(*(const uint32_t *)kept->record)].fn(stream, &kept->source,
									 kept->record);
		free(kept->record);
	}
	process->late_n = 0;
}

void ws_convert_cuda_batch(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_cuda_batch *record = (const void *)rec;
	const char *at = record->bytes, *end = (const char *)rec + ws_rec_bytes(rec);
	struct ws_cuda_proc *process = ws_cuda_proc(stream);

	if (ws_rec_bytes(rec) < sizeof(*record))
		return;
	stream->late = true;
	while ((size_t)(end - at) >= sizeof(struct cupti_record)) {
		uint32_t marked, bytes;

		memcpy(&marked, at, sizeof(marked));
		bytes = WS_CUPTI_SIZE(marked);
		if (!bytes || bytes > (size_t)(end - at))
			break;
		if (WS_CUPTI_KIND(marked) < CUPTI_KIND_COUNT &&
		    !process->sizes[WS_CUPTI_KIND(marked)])
			process->sizes[WS_CUPTI_KIND(marked)] = (uint16_t)(bytes / 8);
		convert_cuda_record(stream, process, record->time, at, bytes, marked);
		stream->sink->events++;
		at += bytes;
	}
	if (process->memory_n >= WS_CUDA_MEMORY_MOST ||
	    (process->memory_n && process->memory_first + MEMORY_WAIT_NS < record->time))
		ws_cuda_settle_memory(stream, process, record->time - MEMORY_WAIT_NS / 2);
	ws_stream_put_collectives(stream, false);
}

/* Whether the call of this name launches kernels. */
static bool is_launch(const char *name)
{
	return name && strstr(name, "Launch");
}

void ws_convert_cuda_name(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_cuda_name *record = (const void *)rec;
	struct ws_cuda_proc *process = ws_cuda_proc(stream);
	int driver = rec->small == WS_CUDA_NAME_DRIVER;
	size_t had, length;

	if (ws_rec_bytes(rec) < sizeof(*record))
		return;
	if (rec->small == WS_CUDA_NAME_POINTER) {
		ws_cuda_keep(&process->pointers, record->key, rec->value);
		return;
	}
	if (rec->small == WS_CUDA_NAME_SIZE && record->key < CUPTI_KIND_COUNT &&
	    rec->value <= 0x7ff * 8)
		process->sizes[record->key] = (uint16_t)(rec->value / 8);
	if (rec->small > WS_CUDA_NAME_DRIVER || record->key >= 8192)
		return;
	had = process->api_cap[driver];
	ws_grow(process->api[driver], process->api_cap[driver], record->key + 1);
	memset(process->api[driver] + had, 0,
	       (process->api_cap[driver] - had) * sizeof(struct ws_cuda_call));
	process->api[driver][record->key] = (struct ws_cuda_call){
		ws_stream_string(stream, rec->value), rec->value,
		.launches = is_launch(ws_stream_string_bytes(stream, rec->value, &length))};
}

void ws_convert_cuda_seen(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_cuda_seen *record = (const void *)rec;
	size_t len = 0;
	const char *path;

	if (ws_rec_bytes(rec) < sizeof(*record))
		return;
	ws_cuda_proc(stream)->version = record->cupti;
	path = ws_stream_string_bytes(stream, rec->value, &len);
	if (stream->sink->cuda_seen)
		return;
	stream->sink->cuda_seen = true;
	ws_sink_meta(stream->sink, "cuda.cupti_version", "%u", record->cupti);
	ws_sink_meta(stream->sink, "cuda.driver_version", "%u.%u", record->driver / 1000,
		     record->driver % 1000 / 10);
	if (path)
		ws_sink_meta(stream->sink, "cuda.cupti", "%.*s", (int)len, path);
}

/* ---- devices ---- */

/* The chip, or family of chips, of a compute capability; "" when it is not known. */
static const char *name_chip(uint32_t major, uint32_t minor)
{
	static const struct {
		uint32_t major, minor;
		const char *name;
	} chips[] = {{7, 0, "GV100"},  {7, 5, "TU10x"}, {8, 0, "GA100"}, {8, 6, "GA10x"},
		     {8, 7, "GA10B"},  {8, 9, "AD10x"}, {9, 0, "GH100"}, {10, 0, "GB100"},
		     {10, 3, "GB110"}, {12, 0, "GB20x"}};

	for (size_t i = 0; i < WS_COUNT(chips); i++)
		if (chips[i].major == major && chips[i].minor == minor)
			return chips[i].name;
	return "";
}

void ws_cuda_write_devices(struct ws_stream *stream, struct ws_cuda_proc *process, bool all)
{
	for (int i = 0; i < WS_CUDA_DEVICES; i++) {
		struct ws_cuda_device *device = &process->device[i];

		if (!device->seen || device->written || (!device->described && !all))
			continue;
		device->written = true;
		ws_writer_add(stream->writer, WS_TABLE_cuda_device, &device->row);
	}
}

/* GPU-... or MIG-..., as the driver's tools write it. */
static uint32_t format_device_uuid(struct ws_stream *stream, const struct ws_cuda_record *record,
				   const struct cupti_device *device)
{
	bool mig = WS_CUDA_HAS(record, device, mig_uuid) && device->mig;
	char uuid[64];
	size_t n = (size_t)snprintf(uuid, sizeof(uuid), "%s", mig ? "MIG-" : "GPU-");

	for (int i = 0; i < 16; i++)
		n += (size_t)snprintf(uuid + n, sizeof(uuid) - n, "%s%02x",
				      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
				      mig ? device->mig_uuid[i] : device->uuid[i]);
	return ws_stream_intern(stream, uuid, n);
}

void ws_cuda_device_record(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
			   const void *record)
{
	const struct cupti_device *device = record;
	struct ws_cuda_device *cuda_device =
		device->id < WS_CUDA_DEVICES ? &cuda_record->p->device[device->id] : NULL;
	const char *chip = name_chip(device->major, device->minor);
	struct ws_row_cuda_device *row;

	if (!cuda_device || cuda_device->seen)
		return;
	cuda_device->seen = true;
	row = &cuda_device->row;
	row->process = stream->process;
	row->start = cuda_record->time;
	row->id = device->id;
	row->name = ws_cuda_intern(stream, cuda_record->p, device->name);
	row->uuid = format_device_uuid(stream, cuda_record, device);
	row->chip = *chip ? ws_stream_intern(stream, chip, strlen(chip)) : 0;
	row->visible = WS_CUDA_FIELD(cuda_record, device, visible, 1);
	row->mig = WS_CUDA_FIELD(cuda_record, device, mig, 0);
	row->ecc = device->ecc != 0;
	row->l2_bytes = device->l2;
	row->memory_bytes = device->memory;
	row->memory_bandwidth = device->bandwidth * 1000;
	row->clock_rate = (uint64_t)device->clock * 1000;
	row->sms = device->sms;
	row->constant_bytes = device->constant;
	row->max_ipc = device->max_ipc;
	row->regs_block = device->regs_block;
	row->shared_block = device->shared_block;
	row->shared_sm = device->shared_sm;
	row->regs_sm = device->regs_sm;
	row->warp = device->warp;
	row->async_engines = device->engines;
	row->warps_sm = device->warps_sm;
	row->blocks_sm = device->blocks_sm;
	row->threads_block = device->threads_block;
	row->block_x = device->block_x;
	row->block_y = device->block_y;
	row->block_z = device->block_z;
	row->grid_x = device->grid_x;
	row->grid_y = device->grid_y;
	row->grid_z = device->grid_z;
	row->major = device->major;
	row->minor = device->minor;
	cuda_device->sm = (struct ws_sm){.major = device->major,
					 .warp = device->warp,
					 .warps = device->warps_sm,
					 .blocks = device->blocks_sm,
					 .registers = device->regs_sm,
					 .registers_block = device->regs_block,
					 .shared = device->shared_sm,
					 .shared_reserved = device->major >= 8 ? 1024 : 0};
	ws_cuda_write_devices(stream, cuda_record->p, false);
}

void ws_convert_cuda_device(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_cuda_device *record = (const void *)rec;
	struct ws_cuda_proc *process = ws_cuda_proc(stream);
	struct ws_cuda_device *device =
		rec->value < WS_CUDA_DEVICES ? &process->device[rec->value] : NULL;

	if (ws_rec_bytes(rec) < sizeof(*record) || !device || device->described)
		return;
	device->described = true;
	device->row.bus = ws_stream_string(stream, record->bus);
	device->row.integrated = record->integrated != 0;
	device->row.shared_block_optin = record->shared_block_optin;
	device->row.shared_reserved = record->shared_reserved;
	ws_cuda_write_devices(stream, process, false);
}

/* ---- buffers of a process that died ---- */

static void parse_cuda_buffer(struct ws_stream *stream, struct ws_cuda_proc *process,
			      const char *buffer, uint32_t from)
{
	uint64_t now = stream->clock->readings[stream->clock->n - 1].raw;
	char *copy = stream->proc->drain->chunk;

	while (from <= WS_BUFFER_SIZE - 8) {
		uint32_t marked, kind, bytes;

		ws_copy_out(&marked, buffer + from, sizeof(marked));
		kind = WS_CUPTI_KIND(marked);
		if (!kind || kind >= CUPTI_KIND_COUNT)
			break;
		bytes = WS_CUPTI_SIZE(marked);
		if (!bytes)
			bytes = process->sizes[kind] ? 8u * process->sizes[kind]
						     : kinds[kind].usual;
		if (!bytes || bytes > WS_BUFFER_SIZE - from || bytes > WS_CHUNK_SIZE)
			break;
		ws_copy_out(copy, buffer + from, bytes);
		memcpy(copy, &marked, sizeof(marked));
		convert_cuda_record(stream, process, now, copy, bytes, marked);
		stream->sink->events++;
		from += bytes;
	}
}

void ws_convert_cuda_process_end(struct ws_stream *stream)
{
	const struct ws_area *area = stream->proc->drain->area;
	struct ws_arena *arena = area->arena;
	struct ws_cuda_proc *process = stream->proc->slot[WS_SLOT_CUDA];

	if (!process)
		return;
	for (uint32_t i = 0; i < area->buffer_count; i++) {
		uint32_t done = atomic_load_explicit(&arena->buffers[i].done, memory_order_acquire);

		if (atomic_load_explicit(&arena->buffers[i].owner, memory_order_acquire) !=
		    stream->proc->home_chunk)
			continue;
		if (!(done % 8) && stream->proc->ending)
			parse_cuda_buffer(stream, process,
					  (const char *)arena + ((uint64_t)area->buffer_first + i) *
									WS_BUFFER_SIZE,
					  done);
		if (stream->proc->ending)
			atomic_store_explicit(&arena->buffers[i].owner, 0, memory_order_release);
	}
	ws_cuda_settle_late(stream, process);
	ws_cuda_settle_memory(stream, process, UINT64_MAX);
	ws_cuda_write_devices(stream, process, true);
}
