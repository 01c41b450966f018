/* from_cuda_work.c - work on the GPU into rows: kernels with their names and occupancy, copies,
 * memory sets, launches of graphs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/from_cuda.h"
#include "record/from_stack.h"
#include "symbols/demangle.h"

static const struct ws_cuda_names *names_of(struct ws_stream *s, struct ws_cuda_proc *p,
					    const char *field)
{
	const char *bytes;
	size_t len;
	uint32_t handle = ws_cuda_text(s, p, field, &bytes, &len);
	uint64_t index = handle ? ws_map_get(&p->kernel_names, handle, NULL) : 0;
	char *mangled, *full, *own, lost[64];
	static struct ws_cuda_names unnamed;

	if (ws_likely(index))
		return &p->names[index - 1];
	if (!handle) {
		/* Of a program that was killed before the name was told. Its address still tells it
		 * from others. */
		snprintf(lost, sizeof(lost), "kernel at %p, name lost", (const void *)field);
		unnamed.demangled = unnamed.name = unnamed.mangled =
			ws_stream_intern(s, lost, strlen(lost));
		return &unnamed;
	}
	mangled = ws_strndup(bytes, len);
	full = ws_demangle(mangled);
	own = ws_demangle_short(mangled);
	ws_grow(p->names, p->names_cap, p->names_n + 1);
	p->names[p->names_n++] =
		(struct ws_cuda_names){ws_stream_intern(s, full, strlen(full)),
				       ws_stream_intern(s, own, strlen(own)),
				       ws_stream_intern(s, mangled, strlen(mangled))};
	ws_map_set(&p->kernel_names, handle, p->names_n);
	free(mangled);
	free(full);
	free(own);
	return &p->names[p->names_n - 1];
}

static const struct ws_occupancy *occupancy_of(struct ws_cuda_proc *p, uint32_t device,
					       const struct ws_launch_shape *l)
{
	uint64_t key[2] = {(uint64_t)l->threads << 48 ^ (uint64_t)l->registers << 32 ^ l->shared,
			   (uint64_t)device << 32 | l->carveout};
	struct ws_cuda_shape *shape =
		&p->shapes[(key[0] ^ key[1]) * UINT64_C(0x9e3779b97f4a7c15) >> 56];

	if (!shape->o.blocks || shape->key[0] != key[0] || shape->key[1] != key[1]) {
		shape->key[0] = key[0];
		shape->key[1] = key[1];
		shape->o = ws_occupancy(&p->device[device].sm, l);
	}
	return &shape->o;
}

static void fill_occupancy(struct ws_cuda_proc *p, const struct cupti_kernel *k,
			   struct ws_row_cuda_kernel *r)
{
	struct ws_launch_shape l = {.threads = r->block_x * r->block_y * r->block_z,
				    .registers = r->registers,
				    .shared = r->static_shared + r->dynamic_shared,
				    .carveout = k->carveout_requested ? k->shared_executed : 0};
	uint64_t sms, cluster = (uint64_t)r->cluster_x * r->cluster_y * r->cluster_z, fit;
	const struct ws_occupancy *o;

	r->occupancy = r->waves = 0;
	r->blocks_per_sm = r->limiter = 0;
	if (r->device >= WS_CUDA_DEVICES || !p->device[r->device].seen)
		return;
	o = occupancy_of(p, r->device, &l);
	if (!o->blocks)
		return;
	sms = ws_map_get(&p->context_sms, k->context, NULL);
	fit = o->blocks * (sms ? sms : p->device[r->device].row.sms);
	if (cluster > 1 && r->active_clusters && r->active_clusters != WS_NO_U32)
		fit = r->active_clusters * cluster;
	r->occupancy = o->share;
	r->blocks_per_sm = o->blocks;
	r->limiter = o->limit;
	if (fit)
		r->waves = (double)r->grid_x * r->grid_y * r->grid_z / (double)fit;
}

/* Times as they are, or what stands for them when the driver had none. Whether the row is wanted.
 */
static bool fill_times(struct ws_stream *s, const struct ws_cuda_record *c, uint64_t start,
		       uint64_t end, uint64_t *row_start, uint64_t *row_end, uint8_t *flags)
{
	*flags = c->unfinished ? WS_CUDA_UNFINISHED : 0;
	if (!start) {
		*flags |= WS_CUDA_NO_TIMES;
		*row_start = c->time;
		*row_end = WS_NO_TIME;
		return ws_cuda_wanted(s, c->time, c->time);
	}
	*row_start = start;
	*row_end = end >= start ? end : WS_NO_TIME;
	return ws_cuda_wanted(s, start, end >= start ? end : start);
}

/* Where a piece of work ran and which call caused it: fields that every kind of record and of row
 * has. */
#define FILL_PLACE(s, c, from, row)                                                             \
	do {                                                                                    \
		(row)->device = (from)->device;                                                 \
		ws_cuda_place((c)->p, (from)->context, &(row)->context, &(row)->green_context); \
		(row)->stream = (from)->stream;                                                 \
		(row)->correlation = ws_cuda_or_null((from)->correlation);                      \
		(row)->process = (s)->process;                                                  \
	} while (0)

void ws_cuda_kernel(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_kernel *k = record;
	struct ws_row_cuda_kernel *r, row;
	const struct ws_cuda_names *names;

	if (!fill_times(s, c, k->start, k->end, &row.start, &row.end, &row.flags))
		return;
	names = names_of(s, c->p, k->name);
	r = ws_writer_row(s->writer, WS_TABLE_cuda_kernel, s->stage[WS_TABLE_cuda_kernel]);
	r->start = row.start;
	r->end = row.end;
	r->flags = row.flags;
	FILL_PLACE(s, c, k, r);
	r->demangled = names->demangled;
	r->name = names->name;
	r->mangled = names->mangled;
	r->launch_type = k->launch_type + 1u;
	r->cache_config = k->cache_config >> 4;
	r->registers = k->registers;
	r->grid_x = (uint32_t)k->grid_x;
	r->grid_y = (uint32_t)k->grid_y;
	r->grid_z = (uint32_t)k->grid_z;
	r->block_x = (uint32_t)k->block_x;
	r->block_y = (uint32_t)k->block_y;
	r->block_z = (uint32_t)k->block_z;
	r->static_shared = (uint32_t)k->static_shared;
	r->dynamic_shared = (uint32_t)k->dynamic_shared;
	r->local_thread = k->local_thread;
	r->local_total = k->local_total2 ? k->local_total2 : k->local_total;
	r->grid_id = (uint64_t)k->grid_id;
	r->executed_shared = k->shared_executed;
	r->graph_node = k->graph_node ? k->graph_node : WS_NO_U64;
	r->shared_limit = k->shared_limit;
	r->graph = ws_cuda_or_null(k->graph);
	r->cluster_x = k->cluster_x;
	r->cluster_y = k->cluster_y;
	r->cluster_z = k->cluster_z;
	r->cluster_policy = k->cluster_policy;
	r->max_cluster = WS_CUDA_HAS(c, k, max_cluster) ? k->max_cluster : WS_NO_U32;
	r->active_clusters =
		WS_CUDA_HAS(c, k, max_active_clusters) ? k->max_active_clusters : WS_NO_U32;
	r->shared_percent = k->carveout_requested ? k->carveout : WS_NO_U32;
	r->priority =
		(int32_t)ws_map_get(&c->p->streams, (uint64_t)k->context << 32 | k->stream, NULL);
	if (WS_CUDA_HAS(c, k, device_launched) && k->device_launched)
		r->flags |= WS_CUDA_FROM_DEVICE;
	fill_occupancy(c->p, k, r);
}

void ws_cuda_memcpy(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_memcpy *m = record;
	struct ws_row_cuda_memcpy r;

	if (!fill_times(s, c, m->start, m->end, &r.start, &r.end, &r.flags))
		return;
	FILL_PLACE(s, c, m, &r);
	r.bytes = m->bytes;
	r.kind = m->copy_kind;
	r.src_kind = ws_cuda_mem_kind(m->src_kind);
	r.dst_kind = ws_cuda_mem_kind(m->dst_kind);
	r.src_device = r.src_context = r.dst_device = r.dst_context = r.migration_cause = WS_NO_U32;
	r.graph_node = WS_CUDA_HAS(c, m, graph_node) && m->graph_node ? m->graph_node : WS_NO_U64;
	r.address = WS_NO_U64;
	r.copies = WS_CUDA_HAS(c, m, copies) ? m->copies : WS_NO_U64;
	r.graph = WS_CUDA_HAS(c, m, graph) ? ws_cuda_or_null(m->graph) : WS_NO_U32;
	r.flags |= (m->flags & 1 ? WS_CUDA_ASYNC : 0) |
		   (WS_CUDA_HAS(c, m, device_launched) && m->device_launched ? WS_CUDA_FROM_DEVICE
									     : 0);
	ws_writer_add(s->writer, WS_TABLE_cuda_memcpy, &r);
}

void ws_cuda_memcpy_peer(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_memcpy_peer *m = record;
	struct ws_row_cuda_memcpy r;

	if (!fill_times(s, c, m->start, m->end, &r.start, &r.end, &r.flags))
		return;
	FILL_PLACE(s, c, m, &r);
	r.bytes = m->bytes;
	r.kind = m->copy_kind ? m->copy_kind : WS_COPY_PTOP;
	r.src_kind = ws_cuda_mem_kind(m->src_kind);
	r.dst_kind = ws_cuda_mem_kind(m->dst_kind);
	r.src_device = m->src_device;
	r.src_context = m->src_context;
	r.dst_device = m->dst_device;
	r.dst_context = m->dst_context;
	r.migration_cause = WS_NO_U32;
	r.graph_node = WS_CUDA_HAS(c, m, graph_node) && m->graph_node ? m->graph_node : WS_NO_U64;
	r.address = r.copies = WS_NO_U64;
	r.graph = WS_CUDA_HAS(c, m, graph) ? ws_cuda_or_null(m->graph) : WS_NO_U32;
	r.flags |= m->flags & 1 ? WS_CUDA_ASYNC : 0;
	ws_writer_add(s->writer, WS_TABLE_cuda_memcpy, &r);
}

void ws_cuda_memset(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_memset *m = record;
	struct ws_row_cuda_memset r;

	if (!fill_times(s, c, m->start, m->end, &r.start, &r.end, &r.flags))
		return;
	FILL_PLACE(s, c, m, &r);
	r.value = m->value;
	r.bytes = m->bytes;
	r.graph_node = WS_CUDA_HAS(c, m, graph_node) && m->graph_node ? m->graph_node : WS_NO_U64;
	r.mem_kind = ws_cuda_mem_kind(m->memory_kind);
	r.graph = WS_CUDA_HAS(c, m, graph) ? ws_cuda_or_null(m->graph) : WS_NO_U32;
	r.flags |= (m->flags & 1 ? WS_CUDA_ASYNC : 0) |
		   (WS_CUDA_HAS(c, m, device_launched) && m->device_launched ? WS_CUDA_FROM_DEVICE
									     : 0);
	ws_writer_add(s->writer, WS_TABLE_cuda_memset, &r);
}

void ws_cuda_graph_trace(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_graph_trace *g = record;
	struct ws_row_cuda_graph_trace r;

	if (!fill_times(s, c, g->start, g->end, &r.start, &r.end, &r.flags))
		return;
	FILL_PLACE(s, c, g, &r);
	r.graph = g->graph;
	r.exec = WS_NO_U32;
	r.end_device = WS_CUDA_HAS(c, g, end_device) ? g->end_device : WS_NO_U32;
	r.end_context = WS_CUDA_HAS(c, g, end_context) ? g->end_context : WS_NO_U32;
	ws_writer_add(s->writer, WS_TABLE_cuda_graph_trace, &r);
}

/* ---- unified memory ---- */

enum { UM_HTOD = 1, UM_DTOH = 2, UM_CPU_FAULT = 3, UM_GPU_FAULT = 4, UM_DTOD = 8 };

static void um_copy(struct ws_stream *s, const struct ws_cuda_record *c, const struct cupti_um *u,
		    uint8_t kind)
{
	struct ws_row_cuda_memcpy r;

	if (!fill_times(s, c, u->start, u->end, &r.start, &r.end, &r.flags))
		return;
	r.device = kind == WS_COPY_UM_DTOH ? u->src : u->dst;
	r.context = 0;
	r.green_context = WS_NO_U32;
	r.stream = u->stream;
	r.correlation = WS_NO_U32;
	r.process = s->process;
	r.bytes = u->value;
	r.kind = kind;
	r.src_kind = r.dst_kind = 4; /* managed */
	r.src_device = kind == WS_COPY_UM_HTOD ? WS_NO_U32 : u->src;
	r.dst_device = kind == WS_COPY_UM_DTOH ? WS_NO_U32 : u->dst;
	r.src_context = r.dst_context = WS_NO_U32;
	r.migration_cause = u->flags;
	r.graph_node = r.copies = WS_NO_U64;
	r.address = u->address;
	r.graph = WS_NO_U32;
	ws_writer_add(s->writer, WS_TABLE_cuda_memcpy, &r);
}

void ws_cuda_um(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_um *u = record;
	struct ws_row_cuda_um_cpu_fault cpu = {
		.start = u->start, .process = s->process, .address = u->address, .pc = u->value};
	struct ws_row_cuda_um_gpu_fault gpu = {.start = u->start,
					       .end = u->end >= u->start ? u->end : WS_NO_TIME,
					       .process = s->process,
					       .device = u->src,
					       .address = u->address,
					       .faults = u->value,
					       .access = (uint8_t)u->flags};

	switch (u->counter) {
	case UM_HTOD:
		um_copy(s, c, u, WS_COPY_UM_HTOD);
		break;
	case UM_DTOH:
		um_copy(s, c, u, WS_COPY_UM_DTOH);
		break;
	case UM_DTOD:
		um_copy(s, c, u, WS_COPY_UM_DTOD);
		break;
	case UM_CPU_FAULT:
		if (!ws_cuda_wanted(s, u->start, u->start))
			break;
		cpu.instruction = ws_stack_function(s, u->start, u->value, &cpu.module);
		ws_writer_add(s->writer, WS_TABLE_cuda_um_cpu_fault, &cpu);
		break;
	case UM_GPU_FAULT:
		if (ws_cuda_wanted(s, u->start, u->end))
			ws_writer_add(s->writer, WS_TABLE_cuda_um_gpu_fault, &gpu);
		break;
	default:
		break;
	}
}
