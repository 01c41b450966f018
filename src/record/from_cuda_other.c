/* from_cuda_other.c - converts what CUDA does besides work on the GPU: calls, waits, events,
 * memory, overhead, contexts, streams, modules, graphs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "record/from_cuda.h"
#include "record/from_nccl.h"
#include "record/from_stack.h"
#include "record/proc.h"

/* ---- calls ---- */

/* Results that are not errors, and the names of other results that programs meet. Memory that is
 * freed while the program ends has already gone. */
enum {
	CUDA_SHUTTING_DOWN = 4,
	CUDA_NOT_READY = 600,
	CUDA_PEER_ENABLED = 704,
	CUDA_HOST_REGISTERED = 712
};
static const struct {
	uint32_t code;
	const char *text;
} errors[] = {
	{1, "invalid value"},
	{2, "out of memory"},
	{3, "not initialised"},
	{35, "the driver is older than the runtime"},
	{46, "devices are busy or unavailable"},
	{98, "invalid device function"},
	{100, "no device"},
	{101, "invalid device"},
	{200, "invalid kernel image"},
	{201, "invalid context"},
	{209, "no kernel image for this device"},
	{218, "invalid PTX"},
	{222, "unsupported PTX version"},
	{300, "invalid source"},
	{301, "file not found"},
	{302, "symbol of a shared object not found"},
	{304, "operating system call failed"},
	{400, "invalid handle"},
	{401, "illegal state"},
	{500, "not found"},
	{700, "illegal memory access"},
	{701, "too many resources requested for the launch"},
	{702, "launch timed out"},
	{710, "a device-side assertion failed"},
	{714, "hardware stack error"},
	{715, "illegal instruction"},
	{716, "misaligned address"},
	{717, "invalid address space"},
	{718, "invalid program counter"},
	{719, "launch failure"},
	{720, "cooperative launch too large"},
	{800, "not permitted"},
	{801, "not supported"},
	{802, "the system is not ready"},
	{803, "driver and display driver do not match"},
	{901, "stream capture was invalidated"},
	{910, "graph update failed"},
	{999, "unknown error"},
};

static void report_error(struct ws_stream *stream, struct ws_cuda_proc *process, uint32_t handle,
			 const struct cupti_api *api)
{
	uint64_t key = (uint64_t)api->cbid << 33 | (uint64_t)(api->kind & 1) << 32 | api->result;
	const char *what = "an error", *name;
	size_t len = 0;
	bool said;

	if (api->result == CUDA_NOT_READY || api->result == CUDA_PEER_ENABLED ||
	    api->result == CUDA_HOST_REGISTERED || api->result == CUDA_SHUTTING_DOWN)
		return;
	ws_map_get(&process->errors, key, &said);
	name = ws_stream_string_bytes(stream, handle, &len);
	if (said || process->errors.count > 200 || !name)
		return;
	ws_map_set(&process->errors, key, 1);
	for (size_t i = 0; i < WS_COUNT(errors); i++)
		if (errors[i].code == api->result)
			what = errors[i].text;
	ws_stream_diagnostic(stream, WS_WARNING, "cuda", "%.*s returned %u: %s.",
			     (int)strcspn(name, "_"), name, api->result, what);
}

void ws_cuda_api(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
		 const void *record)
{
	const struct cupti_api *api = record;
	int driver = WS_CUPTI_KIND(api->kind) == CUPTI_KIND_DRIVER;
	struct ws_row_cuda_api *row;
	const struct ws_cuda_call *call;
	uint32_t thread;

	if (!ws_cuda_wants_call(stream, cuda_record->p, api))
		return;
	thread = ws_cuda_thread(stream, cuda_record->p, api->thread, api->start);
	call = api->cbid < cuda_record->p->api_cap[driver] ? &cuda_record->p->api[driver][api->cbid]
							   : NULL;
	row = ws_writer_row(stream->writer, WS_TABLE_cuda_api, stream->stage[WS_TABLE_cuda_api]);
	row->start = api->start;
	row->end = ws_end_or_none(api->end, api->start);
	row->class = driver ? WS_CUDA_DRIVER : WS_CUDA_RUNTIME;
	row->thread = thread;
	row->correlation = ws_cuda_or_null(api->correlation);
	row->name = call ? call->name : 0;
	row->result = (int32_t)api->result;
	row->callchain = ws_stack_of_correlation(stream, api->correlation);
	if (ws_unlikely(api->result) && call)
		report_error(stream, cuda_record->p, call->handle, api);
	if (call && call->launches && ws_stream_nccl(stream))
		ws_nccl_add_launch(ws_stream_nccl(stream), thread, api->correlation, api->start);
}

/* ---- waits and events ---- */

static uint32_t find_device(const struct ws_cuda_proc *process, uint32_t context)
{
	return (uint32_t)(ws_map_get(&process->contexts, context, NULL) >> 32) & 0xffff;
}

void ws_cuda_sync(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
		  const void *record)
{
	const struct cupti_sync *sync = record;
	struct ws_row_cuda_sync row = {.start = sync->start,
				       .end = ws_end_or_none(sync->end, sync->start)};

	if (!sync->start || !ws_cuda_wanted(stream, sync->start, sync->end))
		return;
	row.device = find_device(cuda_record->p, sync->context);
	ws_cuda_place(cuda_record->p, sync->context, &row.context, &row.green_context);
	row.stream = sync->stream;
	row.correlation = ws_cuda_or_null(sync->correlation);
	row.process = stream->process;
	row.type = (uint8_t)sync->type;
	row.event = sync->event;
	row.event_sync = ws_or(WS_CUDA_FIELD(cuda_record, sync, event_sync, 0), WS_NO_U64);
	row.result = WS_CUDA_HAS(cuda_record, sync, result) ? (int32_t)sync->result : 0;
	ws_writer_add(stream->writer, WS_TABLE_cuda_sync, &row);
}

enum { EVENTS_MOST = 1 << 16 };

/* CUDA reuses handles, so numbers are then reused too. */
static uint32_t number_event(struct ws_cuda_proc *process, uint64_t handle)
{
	bool found;
	uint64_t n = ws_map_get(&process->event_numbers, handle, &found);

	if (!found) {
		n = process->event_numbers.count + 1;
		ws_cuda_keep(&process->event_numbers, handle, n);
	}
	return (uint32_t)n;
}

/* With event times collected, the row is written when the times come: in CUPTI's record of the same
 * call. */
static void note_event_record(struct ws_stream *stream, struct ws_cuda_proc *process,
			      const struct ws_rec_cuda_sync *record)
{
	struct ws_row_cuda_event row = {.start = record->start,
					.device = find_device(process, record->rec.value),
					.stream = record->stream,
					.correlation = record->correlation,
					.process = stream->process,
					.event = number_event(process, record->event),
					.time = WS_NO_TIME,
					.event_sync = record->correlation};

	if (stream->proc->drain->ops.cuda_flags & WS_CUDA_EVENT_TIMES) {
		if (process->events.count > EVENTS_MOST)
			ws_map_free(&process->events);
		ws_map_set(&process->events, record->correlation, row.event);
		return;
	}
	ws_cuda_place(process, record->rec.value, &row.context, &row.green_context);
	ws_writer_add(stream->writer, WS_TABLE_cuda_event, &row);
}

void ws_convert_cuda_sync(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_cuda_sync *record = (const void *)rec;
	struct ws_cuda_proc *process = ws_cuda_proc(stream);
	struct ws_row_cuda_sync row = {
		.start = record->start, .end = record->end, .process = stream->process};

	if (ws_rec_bytes(rec) < sizeof(*record) || record->end < record->start ||
	    !ws_cuda_wanted(stream, record->start, record->end))
		return;
	if (rec->small == WS_CUDA_EVENT_RECORD) {
		note_event_record(stream, process, record);
		return;
	}
	row.device = find_device(process, rec->value);
	ws_cuda_place(process, rec->value, &row.context, &row.green_context);
	row.stream = record->stream;
	row.correlation = ws_cuda_or_null(record->correlation);
	row.type = (uint8_t)rec->small;
	row.event = record->event ? number_event(process, record->event) : WS_NO_U32;
	row.event_sync = ws_or(record->recorded_by, WS_NO_U64);
	row.result = record->result;
	ws_writer_add(stream->writer, WS_TABLE_cuda_sync, &row);
}

void ws_convert_cuda_host(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_cuda_host *record = (const void *)rec;
	struct ws_cuda_proc *process = ws_cuda_proc(stream);
	struct ws_row_cuda_host row = {.start = record->time, .thread = stream->thread};

	if (ws_rec_bytes(rec) < sizeof(*record) ||
	    !ws_cuda_wanted(stream, record->time, record->time))
		return;
	row.address = record->function;
	row.name = ws_stack_function(stream, record->time, record->function, &row.module);
	row.device = find_device(process, rec->value);
	ws_cuda_place(process, rec->value, &row.context, &row.green_context);
	row.stream = record->stream;
	row.correlation = ws_cuda_or_null(record->correlation);
	row.graph = ws_cuda_or_null(record->graph);
	row.graph_node = ws_or(record->node, WS_NO_U64);
	ws_writer_add(stream->writer, WS_TABLE_cuda_host, &row);
}

void ws_cuda_event(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
		   const void *record)
{
	const struct cupti_event *event = record;
	bool timed = WS_CUDA_HAS(cuda_record, event, time) && event->time;
	struct ws_row_cuda_event row = {.start = timed ? event->time : cuda_record->time,
					.time = timed ? event->time : WS_NO_TIME};
	uint64_t number = 0;

	ws_map_remove(&cuda_record->p->events, event->correlation, &number);
	if (!ws_cuda_wanted(stream, row.start, row.start))
		return;
	row.device = WS_CUDA_FIELD(cuda_record, event, device,
				   find_device(cuda_record->p, event->context));
	ws_cuda_place(cuda_record->p, event->context, &row.context, &row.green_context);
	row.stream = event->stream;
	row.correlation = ws_cuda_or_null(event->correlation);
	row.process = stream->process;
	row.event = number ? (uint32_t)number : event->event;
	row.event_sync = event->correlation;
	ws_writer_add(stream->writer, WS_TABLE_cuda_event, &row);
}

/* ---- contexts and streams ---- */

void ws_cuda_context(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
		     const void *record)
{
	const struct cupti_context *context = record;
	bool green = WS_CUDA_HAS(cuda_record, context, green) && context->green, seen;
	struct ws_row_cuda_context row = {.process = stream->process,
					  .start = cuda_record->time,
					  .id = context->context,
					  .device = context->device,
					  .null_stream = context->null_stream,
					  .parent = green ? context->parent : WS_NO_U32,
					  .green = green,
					  .sms = WS_CUDA_FIELD(cuda_record, context, sms, 0)};

	ws_map_get(&cuda_record->p->contexts, context->context, &seen);
	if (seen)
		return;
	ws_cuda_keep(&cuda_record->p->contexts, context->context,
		     (uint64_t)(context->device & 0xffff) << 32 |
			     (green ? UINT64_C(1) << 63 | context->parent : 0));
	if (row.sms)
		ws_cuda_keep(&cuda_record->p->context_sms, context->context, row.sms);
	ws_writer_add(stream->writer, WS_TABLE_cuda_context, &row);
}

void ws_cuda_stream(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
		    const void *record)
{
	const struct cupti_stream *v = record;
	struct ws_row_cuda_stream row = {.process = stream->process,
					 .start = cuda_record->time,
					 .id = v->stream,
					 .priority = (int32_t)v->priority,
					 .flag = (uint8_t)v->flag,
					 .correlation = ws_cuda_or_null(v->correlation)};
	uint32_t green;

	ws_cuda_place(cuda_record->p, v->context, &row.context, &green);
	ws_cuda_keep(&cuda_record->p->streams, (uint64_t)v->context << 32 | v->stream, v->priority);
	ws_writer_add(stream->writer, WS_TABLE_cuda_stream, &row);
}

/* ---- memory ---- */

static uint64_t count_memory_use(struct ws_cuda_proc *process, const struct ws_row_cuda_memory *row)
{
	uint64_t bytes = row->bytes, had;
	int64_t *use;

	if (row->device >= WS_CUDA_DEVICES)
		return 0;
	use = &process->device[row->device].in_use[row->kind % WS_CUDA_MEM_KINDS];
	if (!row->operation) {
		ws_cuda_keep(&process->allocations, row->address, bytes);
		*use = (int64_t)((uint64_t)*use + bytes);
	} else {
		if (ws_map_remove(&process->allocations, row->address, &had) && !bytes)
			bytes = had;
		*use = (int64_t)((uint64_t)*use - bytes);
	}
	return *use > 0 ? (uint64_t)*use : 0;
}

static int compare_memory_times(const void *first, const void *second)
{
	const struct ws_row_cuda_memory *left = first, *right = second;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return ws_compare(left->correlation, right->correlation);
}

enum { LIVE_MOST = 1 << 20 };

/* Remember what is allocated, for collections that begin later. */
static void keep_live(struct ws_cuda_proc *process, const struct ws_row_cuda_memory *row)
{
	uint64_t at;

	if (row->operation) {
		if (!ws_map_remove(&process->live_index, row->address, &at))
			return;
		process->live[at] = process->live[--process->live_n];
		if (at < process->live_n)
			ws_map_set(&process->live_index, process->live[at].address, at);
		return;
	}
	at = ws_map_get(&process->live_index, row->address, NULL); /* 0 also when it is not there */
	if (at < process->live_n && process->live[at].address == row->address) {
		process->live[at] = *row;
		return;
	}
	if (process->live_n >= LIVE_MOST)
		return;
	ws_grow(process->live, process->live_cap, process->live_n + 1);
	ws_map_set(&process->live_index, row->address, process->live_n);
	process->live[process->live_n++] = *row;
}

void ws_cuda_tell_live(const struct ws_proc *owner, const struct ws_cuda_proc *process)
{
	for (size_t i = 0; i < process->live_n; i++)
		ws_writer_add(owner->sink->writer, WS_TABLE_cuda_memory, &process->live[i]);
}

void ws_cuda_settle_memory(struct ws_stream *stream, struct ws_cuda_proc *process, uint64_t until)
{
	size_t n = 0;

	if (process->memory_n)
		qsort(process->memory, process->memory_n, sizeof(*process->memory),
		      compare_memory_times);
	/* When there are many, only half of them go on waiting: the others have waited for long
	 * enough. */
	if (process->memory_n >= WS_CUDA_MEMORY_MOST &&
	    process->memory[process->memory_n / 2].start > until)
		until = process->memory[process->memory_n / 2].start;
	for (; n < process->memory_n && process->memory[n].start <= until; n++) {
		struct ws_row_cuda_memory *row = &process->memory[n];

		row->in_use = count_memory_use(process, row);
		keep_live(process, row);
		/* This includes rows that waited when the collection began, because they show what
		 * is allocated. */
		if (ws_cuda_wanted(stream, row->start, UINT64_MAX))
			ws_writer_add(stream->writer, WS_TABLE_cuda_memory, row);
	}
	if (n)
		memmove(process->memory, process->memory + n,
			(process->memory_n - n) * sizeof(*process->memory));
	process->memory_n -= n;
	process->memory_first = process->memory_n ? process->memory[0].start : UINT64_MAX;
}

/* Each thread's records come in order, but records of one thread may come later than those of
 * another. Memory in use is counted in the order of time. */
static void keep_memory(struct ws_cuda_proc *process, const struct ws_row_cuda_memory *row)
{
	ws_grow(process->memory, process->memory_cap, process->memory_n + 1);
	if (!process->memory_n || row->start < process->memory_first)
		process->memory_first = row->start;
	process->memory[process->memory_n++] = *row;
}

void ws_cuda_memory(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
		    const void *record)
{
	const struct cupti_memory *memory = record;
	bool freed = memory->operation == 2, local = memory->pool_type == 1,
	     imported = memory->pool_type == 2;
	struct ws_row_cuda_memory row = {
		.start = memory->time,
		.process = stream->process,
		.device = memory->device,
		.context = memory->context,
		.address = memory->address,
		.pc = memory->pc,
		.bytes = memory->bytes,
		.kind = (uint8_t)ws_get_cuda_memory_kind(memory->memory_kind),
		.operation = freed};

	row.name = ws_cuda_intern(stream, cuda_record->p, memory->name);
	row.correlation = ws_cuda_or_null(memory->correlation);
	row.pool = local ? memory->pool : WS_NO_U64;
	row.pool_threshold = local ? memory->pool_threshold : WS_NO_U64;
	row.pool_size = local ? memory->pool_size : WS_NO_U64;
	row.pool_used = local ? memory->pool_used : WS_NO_U64;
	row.imported_pool = imported ? memory->pool : WS_NO_U64;
	row.imported_process = imported ? memory->pool_size : WS_NO_U64;
	row.stream = memory->async ? memory->stream : WS_NO_U32;
	keep_memory(cuda_record->p, &row);
}

void ws_cuda_pool(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
		  const void *record)
{
	const struct cupti_pool *pool = record;
	struct ws_row_cuda_pool row = {.start = pool->time,
				       .process = stream->process,
				       .device = pool->device,
				       .address = pool->address,
				       .operation = (uint8_t)pool->operation,
				       .type = (uint8_t)pool->type,
				       .correlation = ws_cuda_or_null(pool->correlation),
				       .keep = pool->keep,
				       .threshold = pool->threshold,
				       .size = pool->size,
				       .used = pool->used};

	(void)cuda_record;
	if (ws_cuda_wanted(stream, pool->time, pool->time))
		ws_writer_add(stream->writer, WS_TABLE_cuda_pool, &row);
}

/* ---- overhead and compilation ---- */

static const char *const overhead_names[] = {
	[1] = "Unknown",
	[2] = "Driver JIT compiler",
	[3] = "Buffer flush",
	[4] = "Instrumentation",
	[5] = "Resource creation and destruction",
	[6] = "Runtime module loading",
	[7] = "Lazy function loading",
	[8] = "Command buffer full",
	[9] = "Activity buffer request",
	[10] = "Unified memory tracing start",
};

/* CUPTI's CUpti_ActivityOverheadKind: 1, then multiples of 65,536. */
static uint8_t map_overhead_type(uint32_t kind)
{
	uint32_t high = kind >> 16;

	return kind == 1				     ? 2
	       : high && high + 2 < WS_COUNT(overhead_names) ? (uint8_t)(high + 2)
							     : 1;
}

void ws_cuda_overhead(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
		      const void *record)
{
	enum { OBJECT_THREAD = 2, CLASS = 103 };
	const struct cupti_overhead *overhead = record;
	struct ws_row_cuda_overhead row = {.start = overhead->start,
					   .end = ws_end_or_none(overhead->end, overhead->start),
					   .class = CLASS};

	if (!overhead->start || !ws_cuda_wanted(stream, overhead->start, overhead->end))
		return;
	row.thread = overhead->object == OBJECT_THREAD && overhead->id.pt.thread
			     ? ws_cuda_thread(stream, cuda_record->p, overhead->id.pt.thread,
					      overhead->start)
			     : 0;
	row.correlation = ws_cuda_or_null(WS_CUDA_FIELD(cuda_record, overhead, correlation, 0));
	row.type = map_overhead_type(overhead->overhead);
	if (!cuda_record->p->overhead_names[row.type])
		cuda_record->p->overhead_names[row.type] = ws_stream_intern(
			stream, overhead_names[row.type], strlen(overhead_names[row.type]));
	row.name = cuda_record->p->overhead_names[row.type];
	ws_writer_add(stream->writer, WS_TABLE_cuda_overhead, &row);
}

void ws_cuda_jit(struct ws_stream *stream, const struct ws_cuda_record *cuda_record,
		 const void *record)
{
	const struct cupti_jit *jit = record;
	struct ws_row_cuda_jit row = {.start = jit->start,
				      .end = ws_end_or_none(jit->end, jit->start),
				      .device = jit->device,
				      .correlation = ws_cuda_or_null(jit->correlation),
				      .entry = (uint8_t)jit->entry,
				      .operation = (uint8_t)jit->operation,
				      .cache_bytes = jit->cache_size};

	if (!ws_cuda_wanted(stream, jit->start, jit->end))
		return;
	row.thread = WS_CUDA_HAS(cuda_record, jit, thread) && jit->thread
			     ? ws_cuda_thread(stream, cuda_record->p, jit->thread, jit->start)
			     : 0;
	row.cache = ws_cuda_intern(stream, cuda_record->p, jit->cache_path);
	ws_writer_add(stream->writer, WS_TABLE_cuda_jit, &row);
}

/* ---- modules and graphs ---- */

static const char *const node_types[] = {"kernel",
					 "memcpy",
					 "memset",
					 "host function",
					 "child graph",
					 "empty",
					 "event wait",
					 "event record",
					 "semaphore signal",
					 "semaphore wait",
					 "allocation",
					 "free",
					 "batch of memory operations",
					 "conditional"};

static void write_module(struct ws_stream *stream, const struct ws_rec_cuda_resource *record,
			 uint32_t thread)
{
	struct ws_row_cuda_module row = {
		.start = record->time,
		.thread = thread,
		.context = record->rec.value,
		.module = (uint32_t)record->id,
		.bytes = record->other,
		.operation = record->rec.small == WS_CUDA_MODULE_LOADED ? 1 : 2,
		.for_debugger = record->for_debugger == 1,
	};

	ws_writer_add(stream->writer, WS_TABLE_cuda_module, &row);
}

static void write_graph(struct ws_stream *stream, const struct ws_rec_cuda_resource *record,
			uint32_t thread)
{
	static const struct {
		uint8_t class;
		const char *name;
	} what[] = {[WS_CUDA_GRAPH_CREATED] = {95, "graph creation"},
		    [WS_CUDA_GRAPH_CLONED] = {96, "graph clone"},
		    [WS_CUDA_GRAPH_EXEC] = {94, "graph instantiation"}};
	const char *name = what[record->rec.small].name;
	struct ws_row_cuda_graph row = {.start = record->time,
					.end = record->time,
					.class = what[record->rec.small].class,
					.thread = thread,
					.name = ws_stream_intern(stream, name, strlen(name)),
					.graph = ws_cuda_or_null(record->graph),
					.original = ws_cuda_or_null(record->original_graph),
					.exec = record->rec.small == WS_CUDA_GRAPH_EXEC
							? ws_cuda_or_null((uint32_t)record->id)
							: WS_NO_U32};

	ws_writer_add(stream->writer, WS_TABLE_cuda_graph, &row);
}

static void write_node(struct ws_stream *stream, const struct ws_rec_cuda_resource *record,
		       uint32_t thread)
{
	enum { CLASS = 77, KERNEL_NODE = 0 };
	const char *name =
		record->rec.value < WS_COUNT(node_types) ? node_types[record->rec.value] : "node";
	struct ws_row_cuda_graph_node row = {.start = record->time,
					     .end = record->time,
					     .class = CLASS,
					     .thread = thread,
					     .name = ws_stream_intern(stream, name, strlen(name)),
					     .node = record->id,
					     .original = ws_or(record->other, WS_NO_U64),
					     .graph = ws_cuda_or_null(record->graph)};

	ws_writer_add(stream->writer, WS_TABLE_cuda_graph_node, &row);
	if (ws_stream_nccl(stream) && record->rec.value == KERNEL_NODE)
		ws_nccl_add_node(ws_stream_nccl(stream), thread, record->id, record->other,
				 record->time);
}

void ws_convert_cuda_resource(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_cuda_resource *record = (const void *)rec;
	uint32_t thread;

	/* What was made before a collection may be used in it. */
	if (ws_rec_bytes(rec) < sizeof(*record) || ws_cuda_is_future(stream, record->time))
		return;
	thread = ws_stream_thread(stream, record->tid);
	switch (rec->small) {
	case WS_CUDA_MODULE_LOADED:
	case WS_CUDA_MODULE_UNLOADED:
		write_module(stream, record, thread);
		break;
	case WS_CUDA_GRAPH_CREATED:
	case WS_CUDA_GRAPH_CLONED:
	case WS_CUDA_GRAPH_EXEC:
		write_graph(stream, record, thread);
		break;
	case WS_CUDA_NODE_CREATED:
	case WS_CUDA_NODE_CLONED:
		write_node(stream, record, thread);
		break;
	default:
		break;
	}
}
