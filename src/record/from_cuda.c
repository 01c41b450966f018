/*
 * from_cuda.c - the CUDA hook's records into rows.
 *
 * The hook hands on CUPTI's own records in batches. Each says its kind and size; the size says
 * which version of the struct it is. They come from memory that the target can scribble over: sizes
 * are checked here, handles where they are looked up, numbers used as indexes where they are used.
 *
 * When a process has died, the buffers that CUPTI was filling are still in the arena:
 * ws_convert_cuda_process_end parses them from where the hook had got. Texts in them are addresses
 * in a process that is gone; those that the hook met before are known.
 */
#include "record/from_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/proc.h"

static const struct {
	ws_cuda_convert *fn;
	uint16_t least, usual; /* bytes: without them it is no such record; what 13.0 writes */
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

static void free_proc(void *arg)
{
	struct ws_cuda_proc *p = arg;

	free(p->api[0]);
	free(p->api[1]);
	free(p->names);
	free(p->memory);
	ws_map_free(&p->pointers);
	ws_map_free(&p->kernel_names);
	ws_map_free(&p->contexts);
	ws_map_free(&p->context_sms);
	ws_map_free(&p->streams);
	ws_map_free(&p->allocations);
	ws_map_free(&p->errors);
	ws_map_free(&p->events);
	ws_map_free(&p->event_numbers);
	free(p);
}

struct ws_cuda_proc *ws_cuda_proc(struct ws_stream *s)
{
	void **slot = ws_proc_slot(s->proc, WS_SLOT_CUDA, free_proc);

	if (ws_unlikely(!*slot))
		*slot = ws_calloc(1, sizeof(struct ws_cuda_proc));
	return *slot;
}

uint32_t ws_cuda_text(struct ws_stream *s, struct ws_cuda_proc *p, const char *field,
		      const char **bytes, size_t *len)
{
	uint64_t v = (uint64_t)(uintptr_t)field;
	uint32_t handle =
		v & WS_CUPTI_HANDLE ? (uint32_t)v : (uint32_t)ws_map_get(&p->pointers, v, NULL);

	*bytes = ws_stream_string_bytes(s, handle, len);
	return *bytes ? handle : 0;
}

bool ws_cuda_wanted(struct ws_stream *s, uint64_t start, uint64_t end)
{
	const struct ws_arena *a = s->proc->drain->a;
	uint64_t from = atomic_load_explicit(&a->collect_from, memory_order_relaxed);
	uint64_t to = atomic_load_explicit(&a->collect_to, memory_order_relaxed);

	return end >= from && (!to || start <= to);
}

uint32_t ws_cuda_thread(struct ws_stream *s, struct ws_cuda_proc *p, uint32_t tid, uint64_t time)
{
	if (tid != p->last_tid || !p->last_thread) {
		p->last_tid = tid;
		p->last_thread = ws_proc_thread_at(s->proc, tid, time);
	}
	return p->last_thread;
}

void ws_cuda_place(const struct ws_cuda_proc *p, uint32_t context, uint32_t *base, uint32_t *green)
{
	uint64_t v = ws_map_get(&p->contexts, context, NULL);

	*base = v >> 63 ? (uint32_t)v : context;
	*green = v >> 63 ? context : WS_NO_U32;
}

/* ---- batches ---- */

/* How long allocations and frees wait for earlier ones: a thread's buffer is taken at least every
 * 100 ms, if the GPU is done with it. */
#define MEMORY_WAIT_NS UINT64_C(2000000000)

static void convert_one(struct ws_stream *s, struct ws_cuda_proc *p, uint64_t time,
			const void *record, uint32_t bytes, uint32_t marked)
{
	uint32_t kind = WS_CUPTI_KIND(marked);
	struct ws_cuda_record c = {p, time, bytes, marked & WS_CUPTI_UNFINISHED};

	if (kind >= CUPTI_KIND_COUNT || !kinds[kind].fn || bytes < kinds[kind].least)
		return;
	kinds[kind].fn(s, &c, record);
}

void ws_convert_cuda_batch(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_cuda_batch *b = (const void *)rec;
	const char *at = b->bytes, *end = (const char *)rec + ws_rec_bytes(rec);
	struct ws_cuda_proc *p = ws_cuda_proc(s);

	s->late = true;
	while (at + sizeof(struct cupti_record) <= end) {
		uint32_t marked, bytes;

		memcpy(&marked, at, sizeof(marked));
		bytes = WS_CUPTI_SIZE(marked);
		if (!bytes || bytes > (size_t)(end - at))
			break;
		if (WS_CUPTI_KIND(marked) < CUPTI_KIND_COUNT && !p->sizes[WS_CUPTI_KIND(marked)])
			p->sizes[WS_CUPTI_KIND(marked)] = (uint16_t)(bytes / 8);
		convert_one(s, p, b->time, at, bytes, marked);
		s->sink->events++;
		at += bytes;
	}
	if (p->memory_n >= WS_CUDA_MEMORY_MOST ||
	    (p->memory_n && p->memory_first + MEMORY_WAIT_NS < b->time))
		ws_cuda_settle_memory(s, p, b->time - MEMORY_WAIT_NS / 2);
}

void ws_convert_cuda_name(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_cuda_name *n = (const void *)rec;
	struct ws_cuda_proc *p = ws_cuda_proc(s);
	int driver = rec->small == WS_CUDA_NAME_DRIVER;
	size_t had;

	if (ws_rec_bytes(rec) < sizeof(*n))
		return;
	if (rec->small == WS_CUDA_NAME_POINTER) {
		ws_map_set(&p->pointers, n->key, rec->value);
		return;
	}
	if (rec->small == WS_CUDA_NAME_SIZE && n->key < CUPTI_KIND_COUNT && rec->value <= 0x7ff * 8)
		p->sizes[n->key] = (uint16_t)(rec->value / 8);
	if (rec->small > WS_CUDA_NAME_DRIVER || n->key >= 8192)
		return;
	had = p->api_cap[driver];
	ws_grow(p->api[driver], p->api_cap[driver], n->key + 1);
	memset(p->api[driver] + had, 0, (p->api_cap[driver] - had) * sizeof(struct ws_cuda_call));
	p->api[driver][n->key] = (struct ws_cuda_call){ws_stream_string(s, rec->value), rec->value};
}

void ws_convert_cuda_seen(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_cuda_seen *v = (const void *)rec;
	size_t len = 0;
	const char *path;

	if (ws_rec_bytes(rec) < sizeof(*v))
		return;
	ws_cuda_proc(s)->version = v->cupti;
	path = ws_stream_string_bytes(s, rec->value, &len);
	if (s->sink->cuda_seen)
		return;
	s->sink->cuda_seen = true;
	ws_sink_meta(s->sink, "cuda.cupti_version", "%u", v->cupti);
	ws_sink_meta(s->sink, "cuda.driver_version", "%u.%u", v->driver / 1000,
		     v->driver % 1000 / 10);
	if (path)
		ws_sink_meta(s->sink, "cuda.cupti", "%.*s", (int)len, path);
}

/* ---- devices ---- */

/* The chip that a compute capability tells, as far as it does. */
static const char *chip_name(uint32_t major, uint32_t minor)
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

void ws_cuda_write_devices(struct ws_stream *s, struct ws_cuda_proc *p, bool all)
{
	for (int i = 0; i < WS_CUDA_DEVICES; i++) {
		struct ws_cuda_device *d = &p->device[i];

		if (!d->seen || d->written || (!d->told && !all))
			continue;
		d->written = true;
		ws_writer_add(s->writer, WS_TABLE_cuda_device, &d->row);
	}
}

/* GPU-... or MIG-..., as the driver's tools write it. */
static uint32_t device_uuid(struct ws_stream *s, const struct ws_cuda_record *c,
			    const struct cupti_device *v)
{
	bool mig = WS_CUDA_HAS(c, v, mig_uuid) && v->mig;
	char uuid[64];
	size_t n = (size_t)snprintf(uuid, sizeof(uuid), "%s", mig ? "MIG-" : "GPU-");

	for (int i = 0; i < 16; i++)
		n += (size_t)snprintf(uuid + n, sizeof(uuid) - n, "%s%02x",
				      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
				      mig ? v->mig_uuid[i] : v->uuid[i]);
	return ws_stream_intern(s, uuid, n);
}

void ws_cuda_device_record(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_device *v = record;
	struct ws_cuda_device *d = v->id < WS_CUDA_DEVICES ? &c->p->device[v->id] : NULL;
	const char *bytes, *chip = chip_name(v->major, v->minor);
	struct ws_row_cuda_device *r;
	size_t len;

	if (!d || d->seen)
		return;
	d->seen = true;
	r = &d->row;
	r->process = s->process;
	r->start = c->time;
	r->id = v->id;
	r->name =
		ws_cuda_text(s, c->p, v->name, &bytes, &len) ? ws_stream_intern(s, bytes, len) : 0;
	r->uuid = device_uuid(s, c, v);
	r->chip = *chip ? ws_stream_intern(s, chip, strlen(chip)) : 0;
	r->visible = WS_CUDA_HAS(c, v, visible) ? v->visible : 1;
	r->mig = WS_CUDA_HAS(c, v, mig) ? v->mig : 0;
	r->ecc = v->ecc != 0;
	r->l2_bytes = v->l2;
	r->memory_bytes = v->memory;
	r->memory_bandwidth = v->bandwidth * 1000;
	r->clock_rate = (uint64_t)v->clock * 1000;
	r->sms = v->sms;
	r->constant_bytes = v->constant;
	r->max_ipc = v->max_ipc;
	r->regs_block = v->regs_block;
	r->shared_block = v->shared_block;
	r->shared_sm = v->shared_sm;
	r->regs_sm = v->regs_sm;
	r->warp = v->warp;
	r->async_engines = v->engines;
	r->warps_sm = v->warps_sm;
	r->blocks_sm = v->blocks_sm;
	r->threads_block = v->threads_block;
	r->block_x = v->block_x;
	r->block_y = v->block_y;
	r->block_z = v->block_z;
	r->grid_x = v->grid_x;
	r->grid_y = v->grid_y;
	r->grid_z = v->grid_z;
	r->major = v->major;
	r->minor = v->minor;
	d->sm = (struct ws_sm){.major = v->major,
			       .warp = v->warp,
			       .warps = v->warps_sm,
			       .blocks = v->blocks_sm,
			       .registers = v->regs_sm,
			       .registers_block = v->regs_block,
			       .shared = v->shared_sm,
			       .shared_reserved = v->major >= 8 ? 1024 : 0};
	ws_cuda_write_devices(s, c->p, false);
}

void ws_convert_cuda_device(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_cuda_device *v = (const void *)rec;
	struct ws_cuda_proc *p = ws_cuda_proc(s);
	struct ws_cuda_device *d = rec->value < WS_CUDA_DEVICES ? &p->device[rec->value] : NULL;

	if (ws_rec_bytes(rec) < sizeof(*v) || !d || d->told)
		return;
	d->told = true;
	d->row.bus = ws_stream_string(s, v->bus);
	d->row.integrated = v->integrated != 0;
	d->row.shared_block_optin = v->shared_block_optin;
	d->row.shared_reserved = v->shared_reserved;
	ws_cuda_write_devices(s, p, false);
}

/* ---- buffers of a process that died ---- */

static void parse_buffer(struct ws_stream *s, struct ws_cuda_proc *p, const char *buffer,
			 uint32_t from)
{
	uint64_t now = s->clock->v[s->clock->n - 1].raw;

	while (from + 8 <= WS_BUFFER_SIZE) {
		uint32_t marked, kind, bytes;

		memcpy(&marked, buffer + from, sizeof(marked));
		kind = WS_CUPTI_KIND(marked);
		if (!kind || kind >= CUPTI_KIND_COUNT)
			break;
		bytes = WS_CUPTI_SIZE(marked);
		if (!bytes)
			bytes = p->sizes[kind] ? 8u * p->sizes[kind] : kinds[kind].usual;
		if (!bytes || bytes > WS_BUFFER_SIZE - from)
			break;
		convert_one(s, p, now, buffer + from, bytes, marked);
		s->sink->events++;
		from += bytes;
	}
}

void ws_convert_cuda_process_end(struct ws_stream *s)
{
	struct ws_arena *a = s->proc->drain->a;
	struct ws_cuda_proc *p = s->proc->slot[WS_SLOT_CUDA];

	if (!p)
		return;
	for (uint32_t i = 0; i < a->buffer_count && i < WS_BUFFERS; i++) {
		uint32_t done = atomic_load_explicit(&a->buffers[i].done, memory_order_acquire);

		if (atomic_load_explicit(&a->buffers[i].owner, memory_order_acquire) !=
		    s->proc->home_chunk)
			continue;
		if (!(done % 8) && s->proc->ending)
			parse_buffer(s, p, ws_buffer_at(a, i), done);
		if (s->proc->ending)
			atomic_store_explicit(&a->buffers[i].owner, 0, memory_order_release);
	}
	ws_cuda_settle_memory(s, p, UINT64_MAX);
	ws_cuda_write_devices(s, p, true);
}
