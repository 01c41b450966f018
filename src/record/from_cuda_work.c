/* from_cuda_work.c - converts work on the GPU into rows: kernels with their names and occupancy,
 * copies, memory sets, launches of graphs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "record/from_cuda.h"
#include "record/from_nccl.h"
#include "record/from_stack.h"
#include "symbols/demangle.h"

static const struct ws_cuda_names *find_kernel_names(struct ws_stream *stream,
						     struct ws_cuda_proc *process,
						     const char *field)
{
	const char *bytes;
	size_t len;
	uint32_t handle = ws_cuda_text(stream, process, field, &bytes, &len);
	uint64_t index = handle ? ws_map_get(&process->kernel_names, handle, NULL) : 0;
	char *mangled, *full, *own, lost[64];
	static struct ws_cuda_names unnamed;

	if (ws_likely(index))
		return &process->names[index - 1];
	if (!handle) {
		/* A kernel of a program that was killed before the name was sent. Its address still
		 * distinguishes it from others. */
		snprintf(lost, sizeof(lost), "kernel at %p, name lost", (const void *)field);
		unnamed.demangled = unnamed.name = unnamed.mangled =
			ws_stream_intern(stream, lost, strlen(lost));
		return &unnamed;
	}
	mangled = ws_strndup(bytes, len);
	full = ws_demangle(mangled);
	own = ws_demangle_short(mangled);
	ws_grow(process->names, process->names_cap, process->names_n + 1);
	process->names[process->names_n++] =
		(struct ws_cuda_names){ws_stream_intern(stream, full, strlen(full)),
				       ws_stream_intern(stream, own, strlen(own)),
				       ws_stream_intern(stream, mangled, strlen(mangled)),
				       ws_nccl_read_kernel_name(own)};
	ws_cuda_keep(&process->kernel_names, handle, process->names_n);
	free(mangled);
	free(full);
	free(own);
	return &process->names[process->names_n - 1];
}

static const struct ws_occupancy *find_occupancy(struct ws_cuda_proc *process, uint32_t device,
						 const struct ws_launch_shape *launch_shape)
{
	uint64_t key[2] = {(uint64_t)launch_shape->threads << 48 ^
				   (uint64_t)launch_shape->registers << 32 ^ launch_shape->shared,
			   (uint64_t)device << 32 | launch_shape->carveout};
	struct ws_cuda_shape *shape =
		&process->shapes[(key[0] ^ key[1]) * UINT64_C(0x9e3779b97f4a7c15) >> 56];

	if (!shape->occupancy.blocks || shape->key[0] != key[0] || shape->key[1] != key[1]) {
		shape->key[0] = key[0];
		shape->key[1] = key[1];
		shape->occupancy = ws_occupancy(&process->device[device].sm, launch_shape);
	}
	return &shape->occupancy;
}

static void fill_occupancy(struct ws_cuda_proc *process, const struct cupti_kernel *kernel,
			   struct ws_row_cuda_kernel *row)
{
	struct ws_launch_shape shape = {
		.threads = row->block_x * row->block_y * row->block_z,
		.registers = row->registers,
		.shared = row->static_shared + row->dynamic_shared,
		.carveout = kernel->carveout_requested ? kernel->shared_executed : 0};
	uint64_t sms, cluster = (uint64_t)row->cluster_x * row->cluster_y * row->cluster_z, fit;
	const struct ws_occupancy *occupancy;

	row->occupancy = row->waves = 0;
	row->blocks_per_sm = row->limiter = 0;
	if (row->device >= WS_CUDA_DEVICES || !process->device[row->device].seen)
		return;
	occupancy = find_occupancy(process, row->device, &shape);
	if (!occupancy->blocks)
		return;
	sms = ws_map_get(&process->context_sms, kernel->context, NULL);
	fit = occupancy->blocks * (sms ? sms : process->device[row->device].row.sms);
	if (cluster > 1 && row->active_clusters && row->active_clusters != WS_NO_U32)
		fit = row->active_clusters * cluster;
	row->occupancy = occupancy->share;
	row->blocks_per_sm = occupancy->blocks;
	row->limiter = occupancy->limit;
	if (fit)
		row->waves = (double)row->grid_x * row->grid_y * row->grid_z / (double)fit;
}

/* Times as rows have them, and the flags that say where they come from. */
struct work_times {
	uint64_t start, end;
	uint8_t flags;
};

/* Times as they are, or substitutes when the driver had none. Returns whether the row is wanted. */
static bool fill_times(struct ws_stream *stream, const struct ws_cuda_record *source,
		       const void *record, struct ws_cuda_span span, struct work_times *row)
{
	enum ws_cuda_belongs belongs;

	row->flags = ws_bits_if(source->unfinished, WS_CUDA_UNFINISHED);
	row->end = ws_end_or_none(span.end, span.start);
	if (!span.start) {
		row->flags |= WS_CUDA_NO_TIMES;
		span.start = source->time;
		row->end = WS_NO_TIME;
	}
	row->start = span.start;
	span.end = ws_max(span.end, span.start);
	belongs = ws_cuda_belongs(stream, source, span);
	if (belongs == WS_CUDA_LATE)
		ws_cuda_keep_late(source, record);
	return belongs == WS_CUDA_INSIDE;
}

#define FILL_TIMES(row, times)                \
	do {                                  \
		(row)->start = (times).start; \
		(row)->end = (times).end;     \
		(row)->flags = (times).flags; \
	} while (0)

/* Where a piece of work ran and which call caused it: fields that all kinds of records and rows
 * have. */
#define FILL_PLACE(s, c, from, row)                                                             \
	do {                                                                                    \
		(row)->device = (from)->device;                                                 \
		ws_cuda_place((c)->p, (from)->context, &(row)->context, &(row)->green_context); \
		(row)->stream = (from)->stream;                                                 \
		(row)->correlation = ws_cuda_or_null((from)->correlation);                      \
		(row)->process = (s)->process;                                                  \
	} while (0)

static void note_nccl_kernel(struct ws_stream *stream, const struct ws_cuda_names *names,
			     const struct ws_row_cuda_kernel *row)
{
	struct ws_nccl *nccl = ws_stream_nccl(stream);

	if (nccl && row->end != WS_NO_TIME)
		ws_nccl_add_kernel(nccl, &(struct ws_nccl_kernel){
						 .name = names->nccl,
						 .correlation = row->correlation,
						 .device = row->device,
						 .context = row->context,
						 .stream = row->stream,
						 .node = row->graph_node,
						 .start = row->start,
						 .end = row->end,
					 });
}

void ws_cuda_kernel(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
		    const void *record)
{
	const struct cupti_kernel *kernel = record;
	struct ws_row_cuda_kernel *row_cuda_kernel;
	struct work_times times;
	const struct ws_cuda_names *names;

	if (!fill_times(stream, cuda_record, record,
			(struct ws_cuda_span){kernel->start, kernel->end, kernel->correlation},
			&times))
		return;
	names = find_kernel_names(stream, cuda_record->p, kernel->name);
	row_cuda_kernel = ws_writer_row(stream->writer, WS_TABLE_cuda_kernel,
					stream->stage[WS_TABLE_cuda_kernel]);
	FILL_TIMES(row_cuda_kernel, times);
	FILL_PLACE(stream, cuda_record, kernel, row_cuda_kernel);
	row_cuda_kernel->demangled = names->demangled;
	row_cuda_kernel->name = names->name;
	row_cuda_kernel->mangled = names->mangled;
	row_cuda_kernel->launch_type = kernel->launch_type + 1u;
	row_cuda_kernel->cache_config = kernel->cache_config >> 4;
	row_cuda_kernel->registers = kernel->registers;
	row_cuda_kernel->grid_x = (uint32_t)kernel->grid_x;
	row_cuda_kernel->grid_y = (uint32_t)kernel->grid_y;
	row_cuda_kernel->grid_z = (uint32_t)kernel->grid_z;
	row_cuda_kernel->block_x = (uint32_t)kernel->block_x;
	row_cuda_kernel->block_y = (uint32_t)kernel->block_y;
	row_cuda_kernel->block_z = (uint32_t)kernel->block_z;
	row_cuda_kernel->static_shared = (uint32_t)kernel->static_shared;
	row_cuda_kernel->dynamic_shared = (uint32_t)kernel->dynamic_shared;
	row_cuda_kernel->local_thread = kernel->local_thread;
	row_cuda_kernel->local_total = ws_or(kernel->local_total2, kernel->local_total);
	row_cuda_kernel->grid_id = (uint64_t)kernel->grid_id;
	row_cuda_kernel->executed_shared = kernel->shared_executed;
	row_cuda_kernel->graph_node = ws_or(kernel->graph_node, WS_NO_U64);
	row_cuda_kernel->shared_limit = kernel->shared_limit;
	row_cuda_kernel->graph = ws_cuda_or_null(kernel->graph);
	row_cuda_kernel->cluster_x = kernel->cluster_x;
	row_cuda_kernel->cluster_y = kernel->cluster_y;
	row_cuda_kernel->cluster_z = kernel->cluster_z;
	row_cuda_kernel->cluster_policy = kernel->cluster_policy;
	row_cuda_kernel->max_cluster = WS_CUDA_FIELD(cuda_record, kernel, max_cluster, WS_NO_U32);
	row_cuda_kernel->active_clusters =
		WS_CUDA_FIELD(cuda_record, kernel, max_active_clusters, WS_NO_U32);
	row_cuda_kernel->shared_percent = kernel->carveout_requested ? kernel->carveout : WS_NO_U32;
	row_cuda_kernel->estimated = 0; /* only imported traces set it */
	row_cuda_kernel->priority = (int32_t)ws_map_get(
		&cuda_record->p->streams, (uint64_t)kernel->context << 32 | kernel->stream, NULL);
	if (WS_CUDA_HAS(cuda_record, kernel, device_launched) && kernel->device_launched)
		row_cuda_kernel->flags |= WS_CUDA_FROM_DEVICE;
	fill_occupancy(cuda_record->p, kernel, row_cuda_kernel);
	if (ws_unlikely(names->nccl.is_nccl))
		note_nccl_kernel(stream, names, row_cuda_kernel);
}

void ws_cuda_memcpy(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
		    const void *record)
{
	const struct cupti_memcpy *memcpy = record;
	struct ws_row_cuda_memcpy row;
	struct work_times times;

	if (!fill_times(stream, cuda_record, record,
			(struct ws_cuda_span){memcpy->start, memcpy->end, memcpy->correlation},
			&times))
		return;
	FILL_TIMES(&row, times);
	FILL_PLACE(stream, cuda_record, memcpy, &row);
	row.bytes = memcpy->bytes;
	row.kind = memcpy->copy_kind;
	row.src_kind = ws_get_cuda_memory_kind(memcpy->src_kind);
	row.dst_kind = ws_get_cuda_memory_kind(memcpy->dst_kind);
	row.src_device = row.src_context = row.dst_device = row.dst_context = row.migration_cause =
		WS_NO_U32;
	row.graph_node = ws_or(WS_CUDA_FIELD(cuda_record, memcpy, graph_node, 0), WS_NO_U64);
	row.address = WS_NO_U64;
	row.copies = WS_CUDA_FIELD(cuda_record, memcpy, copies, WS_NO_U64);
	row.graph = ws_cuda_or_null(WS_CUDA_FIELD(cuda_record, memcpy, graph, 0));
	row.flags |= (ws_bits_if(memcpy->flags & 1, WS_CUDA_ASYNC)) |
		     ws_bits_if(WS_CUDA_FIELD(cuda_record, memcpy, device_launched, 0),
				WS_CUDA_FROM_DEVICE);
	ws_writer_add(stream->writer, WS_TABLE_cuda_memcpy, &row);
}

void ws_cuda_memcpy_peer(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
			 const void *record)
{
	const struct cupti_memcpy_peer *peer = record;
	struct ws_row_cuda_memcpy row;
	struct work_times times;

	if (!fill_times(stream, cuda_record, record,
			(struct ws_cuda_span){peer->start, peer->end, peer->correlation}, &times))
		return;
	FILL_TIMES(&row, times);
	FILL_PLACE(stream, cuda_record, peer, &row);
	row.bytes = peer->bytes;
	row.kind = ws_or(peer->copy_kind, WS_COPY_PTOP);
	row.src_kind = ws_get_cuda_memory_kind(peer->src_kind);
	row.dst_kind = ws_get_cuda_memory_kind(peer->dst_kind);
	row.src_device = peer->src_device;
	row.src_context = peer->src_context;
	row.dst_device = peer->dst_device;
	row.dst_context = peer->dst_context;
	row.migration_cause = WS_NO_U32;
	row.graph_node = ws_or(WS_CUDA_FIELD(cuda_record, peer, graph_node, 0), WS_NO_U64);
	row.address = row.copies = WS_NO_U64;
	row.graph = ws_cuda_or_null(WS_CUDA_FIELD(cuda_record, peer, graph, 0));
	row.flags |= ws_bits_if(peer->flags & 1, WS_CUDA_ASYNC);
	ws_writer_add(stream->writer, WS_TABLE_cuda_memcpy, &row);
}

void ws_cuda_memset(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
		    const void *record)
{
	const struct cupti_memset *memset = record;
	struct ws_row_cuda_memset row;
	struct work_times times;

	if (!fill_times(stream, cuda_record, record,
			(struct ws_cuda_span){memset->start, memset->end, memset->correlation},
			&times))
		return;
	FILL_TIMES(&row, times);
	FILL_PLACE(stream, cuda_record, memset, &row);
	row.value = memset->value;
	row.bytes = memset->bytes;
	row.graph_node = ws_or(WS_CUDA_FIELD(cuda_record, memset, graph_node, 0), WS_NO_U64);
	row.mem_kind = ws_get_cuda_memory_kind(memset->memory_kind);
	row.graph = ws_cuda_or_null(WS_CUDA_FIELD(cuda_record, memset, graph, 0));
	row.flags |= (ws_bits_if(memset->flags & 1, WS_CUDA_ASYNC)) |
		     ws_bits_if(WS_CUDA_FIELD(cuda_record, memset, device_launched, 0),
				WS_CUDA_FROM_DEVICE);
	ws_writer_add(stream->writer, WS_TABLE_cuda_memset, &row);
}

void ws_cuda_graph_trace(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
			 const void *record)
{
	const struct cupti_graph_trace *trace = record;
	struct ws_row_cuda_graph_trace row;
	struct work_times times;

	if (!fill_times(stream, cuda_record, record,
			(struct ws_cuda_span){trace->start, trace->end, trace->correlation},
			&times))
		return;
	FILL_TIMES(&row, times);
	FILL_PLACE(stream, cuda_record, trace, &row);
	row.graph = trace->graph;
	row.exec = WS_NO_U32;
	row.end_device = WS_CUDA_FIELD(cuda_record, trace, end_device, WS_NO_U32);
	row.end_context = WS_CUDA_FIELD(cuda_record, trace, end_context, WS_NO_U32);
	ws_writer_add(stream->writer, WS_TABLE_cuda_graph_trace, &row);
}

/* ---- unified memory ---- */

enum { UM_HTOD = 1, UM_DTOH = 2, UM_CPU_FAULT = 3, UM_GPU_FAULT = 4, UM_DTOD = 8 };

static void is_um_copy(struct ws_stream *stream, const struct ws_cuda_record *record,
		       const struct cupti_um *um, uint8_t kind)
{
	struct ws_row_cuda_memcpy row;
	struct work_times times;

	if (!fill_times(stream, record, um, (struct ws_cuda_span){um->start, um->end, 0}, &times))
		return;
	FILL_TIMES(&row, times);
	row.device = kind == WS_COPY_UM_DTOH ? um->src : um->dst;
	row.context = 0;
	row.green_context = WS_NO_U32;
	row.stream = um->stream;
	row.correlation = WS_NO_U32;
	row.process = stream->process;
	row.bytes = um->value;
	row.kind = kind;
	row.src_kind = row.dst_kind = 4; /* managed */
	row.src_device = kind == WS_COPY_UM_HTOD ? WS_NO_U32 : um->src;
	row.dst_device = kind == WS_COPY_UM_DTOH ? WS_NO_U32 : um->dst;
	row.src_context = row.dst_context = WS_NO_U32;
	row.migration_cause = um->flags;
	row.graph_node = row.copies = WS_NO_U64;
	row.address = um->address;
	row.graph = WS_NO_U32;
	ws_writer_add(stream->writer, WS_TABLE_cuda_memcpy, &row);
}

void ws_cuda_um(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
		const void *record)
{
	const struct cupti_um *um = record;
	struct ws_row_cuda_um_cpu_fault cpu = {.start = um->start,
					       .process = stream->process,
					       .address = um->address,
					       .pc = um->value};
	struct ws_row_cuda_um_gpu_fault gpu = {.start = um->start,
					       .end = ws_end_or_none(um->end, um->start),
					       .process = stream->process,
					       .device = um->src,
					       .address = um->address,
					       .faults = um->value,
					       .access = (uint8_t)um->flags};

	switch (um->counter) {
	case UM_HTOD:
		is_um_copy(stream, cuda_record, um, WS_COPY_UM_HTOD);
		break;
	case UM_DTOH:
		is_um_copy(stream, cuda_record, um, WS_COPY_UM_DTOH);
		break;
	case UM_DTOD:
		is_um_copy(stream, cuda_record, um, WS_COPY_UM_DTOD);
		break;
	case UM_CPU_FAULT:
		if (!ws_cuda_wanted(stream, um->start, um->start))
			break;
		cpu.instruction = ws_stack_function(stream, um->start, um->value, &cpu.module);
		ws_writer_add(stream->writer, WS_TABLE_cuda_um_cpu_fault, &cpu);
		break;
	case UM_GPU_FAULT:
		if (ws_cuda_wanted(stream, um->start, um->end))
			ws_writer_add(stream->writer, WS_TABLE_cuda_um_gpu_fault, &gpu);
		break;
	default:
		break;
	}
}
