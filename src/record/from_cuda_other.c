/* from_cuda_other.c - what CUDA does besides work on the GPU: calls, waits, events, memory,
 * overhead, contexts, streams, modules, graphs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/from_cuda.h"
#include "record/from_stack.h"
#include "record/proc.h"

/* ---- calls ---- */

/* Results that are no errors, and names of the others that programs meet. What is freed while the
 * program ends is gone already. */
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

static void report_error(struct ws_stream *s, struct ws_cuda_proc *p, uint32_t handle,
			 const struct cupti_api *a)
{
	uint64_t key = (uint64_t)a->cbid << 33 | (uint64_t)(a->kind & 1) << 32 | a->result;
	const char *what = "an error", *name;
	size_t len = 0;
	bool said;

	if (a->result == CUDA_NOT_READY || a->result == CUDA_PEER_ENABLED ||
	    a->result == CUDA_HOST_REGISTERED || a->result == CUDA_SHUTTING_DOWN)
		return;
	ws_map_get(&p->errors, key, &said);
	name = ws_stream_string_bytes(s, handle, &len);
	if (said || p->errors.n > 200 || !name)
		return;
	ws_map_set(&p->errors, key, 1);
	for (size_t i = 0; i < WS_COUNT(errors); i++)
		if (errors[i].code == a->result)
			what = errors[i].text;
	ws_stream_diagnostic(s, WS_WARNING, "cuda", "%.*s returned %u: %s.",
			     (int)strcspn(name, "_"), name, a->result, what);
}

void ws_cuda_api(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_api *a = record;
	int driver = WS_CUPTI_KIND(a->kind) == CUPTI_KIND_DRIVER;
	struct ws_row_cuda_api *r;
	const struct ws_cuda_call *call;
	uint32_t thread;

	if (!ws_cuda_wanted(s, a->start, a->end ? a->end : a->start))
		return;
	thread = ws_cuda_thread(s, c->p, a->thread, a->start);
	call = a->cbid < c->p->api_cap[driver] ? &c->p->api[driver][a->cbid] : NULL;
	r = ws_writer_row(s->writer, WS_TABLE_cuda_api, s->stage[WS_TABLE_cuda_api]);
	r->start = a->start;
	r->end = a->end >= a->start ? a->end : WS_NO_TIME;
	r->class = driver ? WS_CUDA_DRIVER : WS_CUDA_RUNTIME;
	r->thread = thread;
	r->correlation = ws_cuda_or_null(a->correlation);
	r->name = call ? call->name : 0;
	r->result = (int32_t)a->result;
	r->callchain = ws_stack_of_correlation(s, a->correlation);
	if (ws_unlikely(a->result) && call)
		report_error(s, c->p, call->handle, a);
}

/* ---- waits and events ---- */

static uint32_t device_of(const struct ws_cuda_proc *p, uint32_t context)
{
	return (uint32_t)(ws_map_get(&p->contexts, context, NULL) >> 32) & 0xffff;
}

void ws_cuda_sync(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_sync *v = record;
	struct ws_row_cuda_sync r = {.start = v->start,
				     .end = v->end >= v->start ? v->end : WS_NO_TIME};

	if (!v->start || !ws_cuda_wanted(s, v->start, v->end))
		return;
	r.device = device_of(c->p, v->context);
	ws_cuda_place(c->p, v->context, &r.context, &r.green_context);
	r.stream = v->stream;
	r.correlation = ws_cuda_or_null(v->correlation);
	r.process = s->process;
	r.type = (uint8_t)v->type;
	r.event = v->event;
	r.event_sync = WS_CUDA_HAS(c, v, event_sync) && v->event_sync ? v->event_sync : WS_NO_U64;
	r.result = WS_CUDA_HAS(c, v, result) ? (int32_t)v->result : 0;
	ws_writer_add(s->writer, WS_TABLE_cuda_sync, &r);
}

enum { EVENTS_MOST = 1 << 16 };

/* Handles are used again; so are numbers then. */
static uint32_t event_number(struct ws_cuda_proc *p, uint64_t handle)
{
	bool found;
	uint64_t n = ws_map_get(&p->event_numbers, handle, &found);

	if (!found) {
		n = p->event_numbers.n + 1;
		ws_map_set(&p->event_numbers, handle, n);
	}
	return (uint32_t)n;
}

/* With times, the row is written when they come: in CUPTI's record of the same call. */
static void event_recorded(struct ws_stream *s, struct ws_cuda_proc *p,
			   const struct ws_rec_cuda_sync *v)
{
	struct ws_row_cuda_event r = {.start = v->start,
				      .device = device_of(p, v->rec.value),
				      .stream = v->stream,
				      .correlation = v->correlation,
				      .process = s->process,
				      .event = event_number(p, v->event),
				      .time = WS_NO_TIME,
				      .event_sync = v->correlation};

	if (s->proc->drain->a->cuda.flags & WS_CUDA_EVENT_TIMES) {
		if (p->events.n > EVENTS_MOST)
			ws_map_free(&p->events);
		ws_map_set(&p->events, v->correlation, r.event);
		return;
	}
	ws_cuda_place(p, v->rec.value, &r.context, &r.green_context);
	ws_writer_add(s->writer, WS_TABLE_cuda_event, &r);
}

void ws_convert_cuda_sync(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_cuda_sync *v = (const void *)rec;
	struct ws_cuda_proc *p = ws_cuda_proc(s);
	struct ws_row_cuda_sync r = {.start = v->start, .end = v->end, .process = s->process};

	if (ws_rec_bytes(rec) < sizeof(*v) || v->end < v->start ||
	    !ws_cuda_wanted(s, v->start, v->end))
		return;
	if (rec->small == WS_CUDA_EVENT_RECORD) {
		event_recorded(s, p, v);
		return;
	}
	r.device = device_of(p, rec->value);
	ws_cuda_place(p, rec->value, &r.context, &r.green_context);
	r.stream = v->stream;
	r.correlation = ws_cuda_or_null(v->correlation);
	r.type = (uint8_t)rec->small;
	r.event = v->event ? event_number(p, v->event) : WS_NO_U32;
	r.event_sync = v->recorded_by ? v->recorded_by : WS_NO_U64;
	r.result = v->result;
	ws_writer_add(s->writer, WS_TABLE_cuda_sync, &r);
}

void ws_convert_cuda_host(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_cuda_host *v = (const void *)rec;
	struct ws_cuda_proc *p = ws_cuda_proc(s);
	struct ws_row_cuda_host r = {.start = v->time, .thread = s->thread};

	if (ws_rec_bytes(rec) < sizeof(*v) || !ws_cuda_wanted(s, v->time, v->time))
		return;
	r.address = v->function;
	r.name = ws_stack_function(s, v->time, v->function, &r.module);
	r.device = device_of(p, rec->value);
	ws_cuda_place(p, rec->value, &r.context, &r.green_context);
	r.stream = v->stream;
	r.correlation = ws_cuda_or_null(v->correlation);
	r.graph = ws_cuda_or_null(v->graph);
	r.graph_node = v->node ? v->node : WS_NO_U64;
	ws_writer_add(s->writer, WS_TABLE_cuda_host, &r);
}

void ws_cuda_event(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_event *v = record;
	bool timed = WS_CUDA_HAS(c, v, time) && v->time;
	struct ws_row_cuda_event r = {.start = timed ? v->time : c->time,
				      .time = timed ? v->time : WS_NO_TIME};
	uint64_t number = 0;

	ws_map_take(&c->p->events, v->correlation, &number);
	if (!ws_cuda_wanted(s, r.start, r.start))
		return;
	r.device = WS_CUDA_HAS(c, v, device) ? v->device : device_of(c->p, v->context);
	ws_cuda_place(c->p, v->context, &r.context, &r.green_context);
	r.stream = v->stream;
	r.correlation = ws_cuda_or_null(v->correlation);
	r.process = s->process;
	r.event = number ? (uint32_t)number : v->event;
	r.event_sync = v->correlation;
	ws_writer_add(s->writer, WS_TABLE_cuda_event, &r);
}

/* ---- contexts and streams ---- */

void ws_cuda_context(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_context *v = record;
	bool green = WS_CUDA_HAS(c, v, green) && v->green, seen;
	struct ws_row_cuda_context r = {.process = s->process,
					.start = c->time,
					.id = v->context,
					.device = v->device,
					.null_stream = v->null_stream,
					.parent = green ? v->parent : WS_NO_U32,
					.green = green,
					.sms = WS_CUDA_HAS(c, v, sms) ? v->sms : 0};

	ws_map_get(&c->p->contexts, v->context, &seen);
	if (seen)
		return;
	ws_map_set(&c->p->contexts, v->context,
		   (uint64_t)(v->device & 0xffff) << 32 |
			   (green ? UINT64_C(1) << 63 | v->parent : 0));
	if (r.sms)
		ws_map_set(&c->p->context_sms, v->context, r.sms);
	ws_writer_add(s->writer, WS_TABLE_cuda_context, &r);
}

void ws_cuda_stream(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_stream *v = record;
	struct ws_row_cuda_stream r = {.process = s->process,
				       .start = c->time,
				       .id = v->stream,
				       .priority = (int32_t)v->priority,
				       .flag = (uint8_t)v->flag,
				       .correlation = ws_cuda_or_null(v->correlation)};
	uint32_t green;

	ws_cuda_place(c->p, v->context, &r.context, &green);
	ws_map_set(&c->p->streams, (uint64_t)v->context << 32 | v->stream, v->priority);
	ws_writer_add(s->writer, WS_TABLE_cuda_stream, &r);
}

/* ---- memory ---- */

static uint64_t count_use(struct ws_cuda_proc *p, const struct ws_row_cuda_memory *r)
{
	uint64_t bytes = r->bytes, had;
	int64_t *use;

	if (r->device >= WS_CUDA_DEVICES)
		return 0;
	use = &p->device[r->device].in_use[r->kind % WS_CUDA_MEM_KINDS];
	if (!r->operation) {
		ws_map_set(&p->allocations, r->address, bytes);
		*use += (int64_t)bytes;
	} else {
		if (ws_map_take(&p->allocations, r->address, &had) && !bytes)
			bytes = had;
		*use -= (int64_t)bytes;
	}
	return *use > 0 ? (uint64_t)*use : 0;
}

static int by_time(const void *a, const void *b)
{
	const struct ws_row_cuda_memory *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

void ws_cuda_settle_memory(struct ws_stream *s, struct ws_cuda_proc *p, uint64_t until)
{
	size_t n = 0;

	if (p->memory_n)
		qsort(p->memory, p->memory_n, sizeof(*p->memory), by_time);
	/* Many at once are not waited for: half of them has been there for long. */
	if (p->memory_n >= WS_CUDA_MEMORY_MOST && p->memory[p->memory_n / 2].start > until)
		until = p->memory[p->memory_n / 2].start;
	for (; n < p->memory_n && p->memory[n].start <= until; n++) {
		struct ws_row_cuda_memory *r = &p->memory[n];

		r->in_use = count_use(p, r);
		if (ws_cuda_wanted(s, r->start, r->start))
			ws_writer_add(s->writer, WS_TABLE_cuda_memory, r);
	}
	if (n)
		memmove(p->memory, p->memory + n, (p->memory_n - n) * sizeof(*p->memory));
	p->memory_n -= n;
	p->memory_first = p->memory_n ? p->memory[0].start : UINT64_MAX;
}

/* Each thread's records come in order, but those of one thread later than those of another: memory
 * is counted in the order of time. */
static void keep_memory(struct ws_cuda_proc *p, const struct ws_row_cuda_memory *r)
{
	ws_grow(p->memory, p->memory_cap, p->memory_n + 1);
	if (!p->memory_n || r->start < p->memory_first)
		p->memory_first = r->start;
	p->memory[p->memory_n++] = *r;
}

void ws_cuda_memory(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_memory *v = record;
	bool freed = v->operation == 2, local = v->pool_type == 1, imported = v->pool_type == 2;
	struct ws_row_cuda_memory r = {.start = v->time,
				       .process = s->process,
				       .device = v->device,
				       .context = v->context,
				       .address = v->address,
				       .pc = v->pc,
				       .bytes = v->bytes,
				       .kind = (uint8_t)ws_cuda_mem_kind(v->memory_kind),
				       .operation = freed};
	const char *bytes;
	size_t len;

	r.name = ws_cuda_text(s, c->p, v->name, &bytes, &len) ? ws_stream_intern(s, bytes, len) : 0;
	r.correlation = ws_cuda_or_null(v->correlation);
	r.pool = local ? v->pool : WS_NO_U64;
	r.pool_threshold = local ? v->pool_threshold : WS_NO_U64;
	r.pool_size = local ? v->pool_size : WS_NO_U64;
	r.pool_used = local ? v->pool_used : WS_NO_U64;
	r.imported_pool = imported ? v->pool : WS_NO_U64;
	r.imported_process = imported ? v->pool_size : WS_NO_U64;
	r.stream = v->async ? v->stream : WS_NO_U32;
	keep_memory(c->p, &r);
}

void ws_cuda_pool(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_pool *v = record;
	struct ws_row_cuda_pool r = {.start = v->time,
				     .process = s->process,
				     .device = v->device,
				     .address = v->address,
				     .operation = (uint8_t)v->operation,
				     .type = (uint8_t)v->type,
				     .correlation = ws_cuda_or_null(v->correlation),
				     .keep = v->keep,
				     .threshold = v->threshold,
				     .size = v->size,
				     .used = v->used};

	(void)c;
	if (ws_cuda_wanted(s, v->time, v->time))
		ws_writer_add(s->writer, WS_TABLE_cuda_pool, &r);
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
static uint8_t overhead_type(uint32_t kind)
{
	uint32_t high = kind >> 16;

	return kind == 1				     ? 2
	       : high && high + 2 < WS_COUNT(overhead_names) ? (uint8_t)(high + 2)
							     : 1;
}

void ws_cuda_overhead(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	enum { OBJECT_THREAD = 2, CLASS = 103 };
	const struct cupti_overhead *v = record;
	struct ws_row_cuda_overhead r = {
		.start = v->start, .end = v->end >= v->start ? v->end : WS_NO_TIME, .class = CLASS};

	if (!v->start || !ws_cuda_wanted(s, v->start, v->end))
		return;
	r.thread = v->object == OBJECT_THREAD && v->id.pt.thread
			   ? ws_cuda_thread(s, c->p, v->id.pt.thread, v->start)
			   : 0;
	r.correlation =
		WS_CUDA_HAS(c, v, correlation) ? ws_cuda_or_null(v->correlation) : WS_NO_U32;
	r.type = overhead_type(v->overhead);
	if (!c->p->overhead_names[r.type])
		c->p->overhead_names[r.type] =
			ws_stream_intern(s, overhead_names[r.type], strlen(overhead_names[r.type]));
	r.name = c->p->overhead_names[r.type];
	ws_writer_add(s->writer, WS_TABLE_cuda_overhead, &r);
}

void ws_cuda_jit(struct ws_stream *s, const struct ws_cuda_record *c, const void *record)
{
	const struct cupti_jit *v = record;
	struct ws_row_cuda_jit r = {.start = v->start,
				    .end = v->end >= v->start ? v->end : WS_NO_TIME,
				    .device = v->device,
				    .correlation = ws_cuda_or_null(v->correlation),
				    .entry = (uint8_t)v->entry,
				    .operation = (uint8_t)v->operation,
				    .cache_bytes = v->cache_size};
	const char *bytes;
	size_t len;

	if (!ws_cuda_wanted(s, v->start, v->end))
		return;
	r.thread = WS_CUDA_HAS(c, v, thread) && v->thread
			   ? ws_cuda_thread(s, c->p, v->thread, v->start)
			   : 0;
	r.cache = ws_cuda_text(s, c->p, v->cache_path, &bytes, &len)
			  ? ws_stream_intern(s, bytes, len)
			  : 0;
	ws_writer_add(s->writer, WS_TABLE_cuda_jit, &r);
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

static void write_module(struct ws_stream *s, const struct ws_rec_cuda_resource *v, uint32_t thread)
{
	struct ws_row_cuda_module r = {.start = v->time,
				       .thread = thread,
				       .context = v->rec.value,
				       .module = (uint32_t)v->id,
				       .bytes = v->other,
				       .operation = v->rec.small == WS_CUDA_MODULE_LOADED ? 1 : 2};

	ws_writer_add(s->writer, WS_TABLE_cuda_module, &r);
}

static void write_graph(struct ws_stream *s, const struct ws_rec_cuda_resource *v, uint32_t thread)
{
	static const struct {
		uint8_t class;
		const char *name;
	} what[] = {[WS_CUDA_GRAPH_CREATED] = {95, "graph creation"},
		    [WS_CUDA_GRAPH_CLONED] = {96, "graph clone"},
		    [WS_CUDA_GRAPH_EXEC] = {94, "graph instantiation"}};
	const char *name = what[v->rec.small].name;
	struct ws_row_cuda_graph r = {.start = v->time,
				      .end = v->time,
				      .class = what[v->rec.small].class,
				      .thread = thread,
				      .name = ws_stream_intern(s, name, strlen(name)),
				      .graph = ws_cuda_or_null(v->graph),
				      .original = ws_cuda_or_null(v->original_graph),
				      .exec = v->rec.small == WS_CUDA_GRAPH_EXEC
						      ? ws_cuda_or_null((uint32_t)v->id)
						      : WS_NO_U32};

	ws_writer_add(s->writer, WS_TABLE_cuda_graph, &r);
}

static void write_node(struct ws_stream *s, const struct ws_rec_cuda_resource *v, uint32_t thread)
{
	enum { CLASS = 77 };
	const char *name = v->rec.value < WS_COUNT(node_types) ? node_types[v->rec.value] : "node";
	struct ws_row_cuda_graph_node r = {.start = v->time,
					   .end = v->time,
					   .class = CLASS,
					   .thread = thread,
					   .name = ws_stream_intern(s, name, strlen(name)),
					   .node = v->id,
					   .original = v->other ? v->other : WS_NO_U64,
					   .graph = ws_cuda_or_null(v->graph)};

	ws_writer_add(s->writer, WS_TABLE_cuda_graph_node, &r);
}

void ws_convert_cuda_resource(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_cuda_resource *v = (const void *)rec;
	uint32_t thread;

	if (ws_rec_bytes(rec) < sizeof(*v) || !ws_cuda_wanted(s, v->time, v->time))
		return;
	thread = ws_stream_thread(s, v->tid);
	switch (rec->small) {
	case WS_CUDA_MODULE_LOADED:
	case WS_CUDA_MODULE_UNLOADED:
		write_module(s, v, thread);
		break;
	case WS_CUDA_GRAPH_CREATED:
	case WS_CUDA_GRAPH_CLONED:
	case WS_CUDA_GRAPH_EXEC:
		write_graph(s, v, thread);
		break;
	case WS_CUDA_NODE_CREATED:
	case WS_CUDA_NODE_CLONED:
		write_node(s, v, thread);
		break;
	default:
		break;
	}
}
