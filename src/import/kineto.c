/*
 * kineto.c - events of the PyTorch profiler (Kineto), by category, into the tables that recordings
 * of our own fill: kernels, copies and calls of CUDA, operators, the allocator's memory,
 * collectives.
 *
 * GPU work stands in the trace under the number of its device. It belongs to the process whose CPU
 * events the file holds; where it comes first, that process is made without a pid and gets it from
 * the first CPU event. Arrows from calls to their work (ac2g) say what the correlation says and are
 * dropped; what links work to an operator is its "External id".
 */
#include "import/trace.h"
#include "base/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "import/flops.h"

/* Notes on arguments are about kinds of events: what they cost is one lookup for each argument that
 * is not known. */
static void note_others(struct ws_trace *trace, const char *kind)
{
	for (int i = 0; i < trace->others; i++)
		ws_into_note(trace->into, "The argument \"%.*s\" of %s was left out.",
			     (int)(ws_min(trace->other[i].key.n, 100)), trace->other[i].key.text,
			     kind);
}

/* ---- GPU work ---- */

/* A number in args, or else the one in pid or tid ("stream 7" in traces of 2021). */
static uint32_t place(struct ws_trace *trace, enum ws_trace_arg arg,
		      const struct ws_json_value *other)
{
	uint32_t v = ws_trace_u32(trace, arg, WS_NO_U32);
	const char *at = other->n ? other->text : "",
		   *end = at + other->n; /* a value without text has none at NULL */

	if (v != WS_NO_U32 || other->type == WS_J_NONE)
		return v == WS_NO_U32 ? 0 : v;
	while (at < end && (*at < '0' || *at > '9'))
		at++;
	for (v = 0; at < end && *at >= '0' && *at <= '9'; at++)
		v = v * 10 + (uint32_t)(*at - '0');
	return v;
}

/* Exports of our own with several processes say whose work it is. */
static uint32_t work_process(struct ws_trace *trace)
{
	uint64_t pid = ws_trace_u64(trace, WS_A_PROCESS, 0);

	return pid && pid <= UINT32_MAX ? ws_trace_process_of(trace, pid)
					: ws_trace_main_process(trace);
}

/* How the row of anything on a GPU starts: when, where, whose. */
#define ON_GPU(t, ev)                                                            \
	.start = (ev)->start, .device = place(t, WS_A_DEVICE, &(ev)->pid),       \
	.context = ws_trace_u32(t, WS_A_CONTEXT, 0), .green_context = WS_NO_U32, \
	.correlation = ws_trace_u32(t, WS_A_CORRELATION, WS_NO_U32), .process = work_process(t)

static uint64_t external(struct ws_trace *trace)
{
	uint64_t id = ws_trace_u64(trace, WS_A_EXTERNAL, WS_NO_U64);

	return id != WS_NO_U64 ? id : ws_trace_u64(trace, WS_A_EXTERNAL_2021, WS_NO_U64);
}

/* A call and its work tell the same link: told once. External id 0 means none. */
static void link_op(struct ws_trace *trace, uint32_t process, uint32_t correlation)
{
	uint64_t id = external(trace);
	size_t at = correlation & (WS_COUNT(trace->linked) - 1);
	struct ws_row_op_link *row;

	if (id == WS_NO_U64 || !id || !correlation || correlation == WS_NO_U32 ||
	    (trace->linked[at].correlation == correlation && trace->linked[at].external == id &&
	     trace->linked[at].process == process))
		return;
	trace->linked[at].correlation = correlation;
	trace->linked[at].process = process;
	trace->linked[at].external = id;
	row = ws_into_row(trace->into, WS_TABLE_op_link);
	*row = (struct ws_row_op_link){
		.process = process, .correlation = correlation, .external = id};
}

/*
 * The function's own name in a demangled one: what stands before its arguments, without return
 * type, namespaces and template arguments. Brackets of "(anonymous namespace)" and of "operator()"
 * are part of names.
 */
static size_t short_name(const char **name, size_t n)
{
	const char *text = *name;
	size_t from = 0, end = n;
	int angle = 0;

	for (size_t i = 0; i < n; i++) {
		if (text[i] == '<' && !(i >= 8 && !memcmp(text + i - 8, "operator", 8))) {
			if (!angle++)
				end = i;
		} else if (text[i] == '>' && angle && i && text[i - 1] != '-') {
			angle--;
		} else if (!angle && text[i] == '(') {
			if (n - i > 21 && !memcmp(text + i, "(anonymous namespace)", 21)) {
				i += 20;
				continue;
			}
			if (end == n || (i && text[i - 1] != '>'))
				end = i;
			break;
		} else if (!angle &&
			   (text[i] == ' ' || (text[i] == ':' && i && text[i - 1] == ':'))) {
			from = i + 1;
			end = n;
		}
	}
	if (from >= end)
		return n;
	*name = text + from;
	return end - from;
}

static uint32_t kernel_short(struct ws_trace *trace, uint32_t full, const char *name, size_t n)
{
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&trace->kernel_names, full, &found);

	if (found)
		return id;
	n = short_name(&name, n);
	id = ws_into_string(trace->into, name, n);
	if (trace->kernel_names.n < WS_INTO_MOST)
		ws_map_set(&trace->kernel_names, full, id);
	return id;
}

static void triple(const struct ws_json_value *value, uint32_t *x, uint32_t *y, uint32_t *z)
{
	uint32_t *out[3] = {x, y, z};
	struct ws_json_walk walk;
	struct ws_json_value one;

	if (value->type != WS_J_ARRAY)
		return;
	walk = ws_json_walk(value);
	for (int i = 0; i < 3 && ws_json_next(&walk, NULL, &one); i++) {
		int64_t n = ws_json_fixed(&one, 0, NULL);

		*out[i] = n < 0 || n > UINT32_MAX ? 0 : (uint32_t)n;
	}
}

static int32_t small(struct ws_trace *trace, enum ws_trace_arg arg, int32_t none)
{
	bool ok;
	int64_t v = ws_json_fixed(ws_trace_arg(trace, arg), 0, &ok);

	return ok && v >= INT32_MIN && v <= INT32_MAX ? (int32_t)v : none;
}

/*
 * Ranks leave a collective together, but for microseconds: how far its ends are apart in two files
 * says how far their clocks are. The same one is told by its number in the group, or else by being
 * the n-th of its name there.
 */
static void meet(struct ws_trace *trace, const struct ws_row_collective *row,
		 const struct ws_json_value *name, const struct ws_json_value *group)
{
	uint64_t key, number;

	if (trace->into->file_count < 2 || name->type != WS_J_STRING ||
	    trace->apart_count == WS_INTO_MOST)
		return;
	key = XXH3_64bits(name->text, name->n);
	if (group->type == WS_J_STRING)
		key = XXH3_64bits_withSeed(group->text, group->n, key);
	number = row->sequence;
	if (number == WS_NO_U64) {
		number = ws_map_get(&trace->occurrences, key, NULL);
		ws_map_set(&trace->occurrences, key, number + 1);
	}
	key = XXH3_64bits_withSeed(&number, sizeof(number), key);
	if (!trace->into->file) {
		ws_map_set(&trace->into->met, key, row->end);
	} else if (ws_map_get(&trace->into->met, key, NULL)) {
		ws_grow(trace->apart, trace->apart_cap, trace->apart_count + 1);
		trace->apart[trace->apart_count++] =
			(int64_t)(ws_map_get(&trace->into->met, key, NULL) - row->end);
	}
}

static int by_number(const void *first, const void *second)
{
	int64_t x = *(const int64_t *)first, y = *(const int64_t *)second;

	return ws_compare(x, y);
}

/* Nanoseconds to add to this file's times to align them with the first file's: the median; 0 when
 * too little is known. */
static int64_t clock_offset(struct ws_trace *trace)
{
	enum { ENOUGH = 3 };

	if (trace->apart_count < ENOUGH)
		return 0;
	qsort(trace->apart, trace->apart_count, sizeof(*trace->apart), by_number);
	return trace->apart[trace->apart_count / 2];
}

static void put_collective(struct ws_trace *trace, const struct ws_event *ev, uint32_t process,
			   uint32_t correlation)
{
	struct ws_row_collective row = {
		.start = ev->start,
		.end = ev->start + ev->length,
		.process = process,
		.correlation = correlation,
		.external = external(trace),
		.name = ws_trace_string(trace, ws_trace_arg(trace, WS_A_COLLECTIVE)),
		.in_elements = ws_trace_u64(trace, WS_A_IN_ELEMENTS, WS_NO_U64),
		.out_elements = ws_trace_u64(trace, WS_A_OUT_ELEMENTS, WS_NO_U64),
		.dtype = ws_trace_string(trace, ws_trace_arg(trace, WS_A_DTYPE)),
		.group_size = ws_trace_u32(trace, WS_A_GROUP_SIZE, WS_NO_U32),
		.group = ws_trace_string(trace, ws_trace_arg(trace, WS_A_GROUP_NAME)),
		.description = ws_trace_string(trace, ws_trace_arg(trace, WS_A_GROUP_DESCRIPTION)),
		.ranks = ws_trace_string(trace, ws_trace_arg(trace, WS_A_GROUP_RANKS)),
		.source = small(trace, WS_A_SRC_RANK, -1),
		.destination = small(trace, WS_A_DST_RANK, -1),
		.sequence = ws_trace_u64(trace, WS_A_SEQ, WS_NO_U64),
	};

	*(struct ws_row_collective *)ws_into_row(trace->into, WS_TABLE_collective) = row;
	meet(trace, &row, ws_trace_arg(trace, WS_A_COLLECTIVE),
	     ws_trace_arg(trace, WS_A_GROUP_NAME));
}

static void kernel(struct ws_trace *trace, struct ws_event *ev)
{
	struct ws_row_cuda_kernel row = {
		ON_GPU(trace, ev),
		.end = ws_trace_end(trace, ev),
		.stream = place(trace, WS_A_STREAM, &ev->tid),
		.launch_type = WS_NO_U32,
		.cache_config = WS_NO_U32,
		.executed_shared = WS_NO_U32,
		.shared_limit = WS_NO_U32,
		.cluster_policy = WS_NO_U32,
		.max_cluster = WS_NO_U32,
		.active_clusters = WS_NO_U32,
		.shared_percent = WS_NO_U32,
	};
	uint32_t full;
	size_t n;
	const char *name = ws_json_text(&ev->name, &trace->scratch, &n);
	bool ok;
	double occupancy, waves;

	full = ws_into_string(trace->into, name, n);
	row.name = kernel_short(trace, full, name, n);
	row.demangled = row.mangled = full;
	row.registers = ws_trace_u32(trace, WS_A_REGISTERS, 0);
	row.dynamic_shared =
		ws_trace_u32(trace, WS_A_SHARED, 0); /* static and dynamic together, in the trace */
	row.graph = ws_trace_u32(trace, WS_A_GRAPH, WS_NO_U32);
	row.graph_node = ws_trace_u64(trace, WS_A_GRAPH_NODE, WS_NO_U64);
	if (!row.graph_node)
		row.graph_node = WS_NO_U64;
	if (!row.graph)
		row.graph = WS_NO_U32;
	row.priority = small(trace, WS_A_PRIORITY, 0);
	occupancy = ws_json_double(ws_trace_arg(trace, WS_A_OCCUPANCY), &ok);
	row.estimated = ok ? occupancy / 100 : 0;
	waves = ws_json_double(ws_trace_arg(trace, WS_A_WAVES), &ok);
	row.waves = ok ? waves : 0;
	triple(ws_trace_arg(trace, WS_A_GRID), &row.grid_x, &row.grid_y, &row.grid_z);
	triple(ws_trace_arg(trace, WS_A_BLOCK), &row.block_x, &row.block_y, &row.block_z);
	*(struct ws_row_cuda_kernel *)ws_into_row(trace->into, WS_TABLE_cuda_kernel) = row;
	link_op(trace, row.process, row.correlation);
	if (ws_trace_arg(trace, WS_A_COLLECTIVE)->type != WS_J_NONE)
		put_collective(trace, ev, row.process, row.correlation);
	note_others(trace, "kernels");
}

static bool has(const struct ws_event *ev, const char *text)
{
	return memmem(ev->name.text, ev->name.n, text, strlen(text)) != NULL;
}

static uint32_t mem_kind(const char *word, size_t n)
{
	static const struct {
		const char *text;
		uint32_t kind;
	} kinds[] = {{"Pageable", 0}, {"Pinned", 1},	     {"Device Static", 5}, {"Device", 2},
		     {"Array", 3},    {"Managed Static", 6}, {"Managed", 4}};

	for (size_t i = 0; i < WS_COUNT(kinds); i++)
		if (n >= strlen(kinds[i].text) &&
		    !memcmp(word, kinds[i].text, strlen(kinds[i].text)))
			return kinds[i].kind;
	return 7;
}

/* "Memcpy HtoD (Pageable -> Device)" */
static void copy_kinds(const struct ws_event *ev, struct ws_row_cuda_memcpy *row)
{
	static const struct {
		const char *text;
		uint8_t kind;
	} kinds[] = {{"HtoD", WS_COPY_HTOD}, {"DtoH", WS_COPY_DTOH}, {"HtoA", WS_COPY_HTOA},
		     {"AtoH", WS_COPY_ATOH}, {"AtoA", WS_COPY_ATOA}, {"AtoD", WS_COPY_ATOD},
		     {"DtoA", WS_COPY_DTOA}, {"DtoD", WS_COPY_DTOD}, {"HtoH", WS_COPY_HTOH},
		     {"PtoP", WS_COPY_PTOP}};
	const char *open = memchr(ev->name.text, '(', ev->name.n),
		   *end = ev->name.text + ev->name.n;
	const char *arrow = memmem(ev->name.text, ev->name.n, " -> ", 4);

	for (size_t i = 0; i < WS_COUNT(kinds); i++)
		if (has(ev, kinds[i].text))
			row->kind = kinds[i].kind;
	if (has(ev, "Unified memory"))
		row->kind = row->kind == WS_COPY_HTOD	? WS_COPY_UM_HTOD
			    : row->kind == WS_COPY_DTOH ? WS_COPY_UM_DTOH
							: WS_COPY_UM_DTOD;
	row->src_kind = open ? mem_kind(open + 1, (size_t)(end - open - 1)) : WS_NO_U32;
	row->dst_kind = arrow ? mem_kind(arrow + 4, (size_t)(end - arrow - 4)) : WS_NO_U32;
}

static void memcpy_event(struct ws_trace *trace, struct ws_event *ev)
{
	struct ws_row_cuda_memcpy row = {
		ON_GPU(trace, ev),
		.end = ws_trace_end(trace, ev),
		.stream = place(trace, WS_A_STREAM, &ev->tid),
		.bytes = ws_trace_u64(trace, WS_A_BYTES, 0),
		.src_device = ws_trace_u32(trace, WS_A_FROM_DEVICE, WS_NO_U32),
		.src_context = WS_NO_U32,
		.dst_device = ws_trace_u32(trace, WS_A_TO_DEVICE, WS_NO_U32),
		.dst_context = WS_NO_U32,
		.migration_cause = WS_NO_U32,
		.graph_node = ws_trace_u64(trace, WS_A_GRAPH_NODE, WS_NO_U64),
		.address = WS_NO_U64,
		.copies = WS_NO_U64,
		.graph = ws_trace_u32(trace, WS_A_GRAPH, WS_NO_U32),
	};

	copy_kinds(ev, &row);
	*(struct ws_row_cuda_memcpy *)ws_into_row(trace->into, WS_TABLE_cuda_memcpy) = row;
	link_op(trace, row.process, row.correlation);
	note_others(trace, "copies");
}

static void memset_event(struct ws_trace *trace, struct ws_event *ev)
{
	const char *open = memchr(ev->name.text, '(', ev->name.n);
	struct ws_row_cuda_memset row = {
		ON_GPU(trace, ev),
		.end = ws_trace_end(trace, ev),
		.stream = place(trace, WS_A_STREAM, &ev->tid),
		.bytes = ws_trace_u64(trace, WS_A_BYTES, 0),
		.graph_node = ws_trace_u64(trace, WS_A_GRAPH_NODE, WS_NO_U64),
		.mem_kind =
			open ? mem_kind(open + 1, (size_t)(ev->name.text + ev->name.n - open - 1))
			     : WS_NO_U32,
		.graph = ws_trace_u32(trace, WS_A_GRAPH, WS_NO_U32),
	};

	*(struct ws_row_cuda_memset *)ws_into_row(trace->into, WS_TABLE_cuda_memset) = row;
	link_op(trace, row.process, row.correlation);
	note_others(trace, "memory sets");
}

static void sync_event(struct ws_trace *trace, struct ws_event *ev)
{
	static const char *const kinds[] = {"Unknown", "Event Sync", "Stream Wait Event",
					    "Stream Sync", "Context Sync"};
	const struct ws_json_value *kind = ws_trace_arg(trace, WS_A_SYNC_KIND);
	struct ws_row_cuda_sync row = {
		ON_GPU(trace, ev),
		.end = ws_trace_end(trace, ev),
		.stream = ws_trace_u32(trace, WS_A_STREAM, WS_NO_U32),
		.event = ws_trace_u32(trace, WS_A_WAIT_EVENT, WS_NO_U32),
		.event_sync = ws_trace_u64(trace, WS_A_WAIT_RECORD, WS_NO_U64),
	};

	for (size_t i = 0; i < WS_COUNT(kinds); i++)
		if (ws_json_is(kind, kinds[i]) ||
		    (kind->type == WS_J_NONE && ws_json_is(&ev->name, kinds[i])))
			row.type = (uint8_t)i;
	if (row.event_sync > UINT32_MAX) /* -1: none */
		row.event_sync = WS_NO_U64;
	*(struct ws_row_cuda_sync *)ws_into_row(trace->into, WS_TABLE_cuda_sync) = row;
	link_op(trace, row.process, row.correlation);
	note_others(trace, "waits");
}

static void record_event(struct ws_trace *trace, struct ws_event *ev)
{
	struct ws_row_cuda_event *row = ws_into_row(trace->into, WS_TABLE_cuda_event);

	*row = (struct ws_row_cuda_event){
		ON_GPU(trace, ev),
		.stream = place(trace, WS_A_STREAM, &ev->tid),
		.event = ws_trace_u32(trace, WS_A_EVENT_ID, 0),
		.time = ev->start,
		.event_sync = ws_trace_u64(trace, WS_A_CORRELATION, WS_NO_U64),
	};
	note_others(trace, "CUDA events");
}

/* A span of user code as the GPU saw it: a row of its own below the stream. */
static void gpu_annotation(struct ws_trace *trace, struct ws_event *ev)
{
	char name[96];
	uint32_t device = place(trace, WS_A_DEVICE, &ev->pid),
		 stream = place(trace, WS_A_STREAM, &ev->tid);
	int n = snprintf(name, sizeof(name), "GPU %u stream %u annotations", device, stream);

	ws_chrome_slice(
		trace, ev, 0,
		ws_into_track(trace->into, 0, ws_trace_main_process(trace), 0, name, (size_t)n), 0);
}

/* ---- the CPU ---- */

static void call(struct ws_trace *trace, struct ws_event *ev, uint8_t class)
{
	uint32_t thread = ws_trace_thread(trace, ev),
		 correlation = ws_trace_u32(trace, WS_A_CORRELATION, WS_NO_U32);
	uint32_t name = ws_trace_string(trace, &ev->name);
	struct ws_row_cuda_api *row = ws_into_row(trace->into, WS_TABLE_cuda_api);

	*row = (struct ws_row_cuda_api){.start = ev->start,
					.end = ws_trace_end(trace, ev),
					.class = class,
					.thread = thread,
					.correlation = correlation,
					.name = name,
					.result = ws_trace_u32(trace, WS_A_RESULT, 0),
					.callchain = WS_NO_U32};
	link_op(trace, ws_into_thread_of(trace->into, thread)->process, correlation);
	note_others(trace, "calls of CUDA");
}

static void runtime_call(struct ws_trace *trace, struct ws_event *ev)
{
	call(trace, ev,
	     ev->name.n > 2 && !memcmp(ev->name.text, "cu", 2) && ev->name.text[2] >= 'A' &&
			     ev->name.text[2] <= 'Z'
		     ? WS_CUDA_DRIVER
		     : WS_CUDA_RUNTIME);
}

static void driver_call(struct ws_trace *trace, struct ws_event *ev)
{
	call(trace, ev, WS_CUDA_DRIVER);
}

/* NCCL's arguments of an operator stay with it, as JSON: its work has the columns. */
static void keep_collective(struct ws_trace *trace)
{
	static const enum ws_trace_arg kept[] = {
		WS_A_COLLECTIVE,  WS_A_IN_ELEMENTS, WS_A_OUT_ELEMENTS,
		WS_A_DTYPE,	  WS_A_GROUP_SIZE,  WS_A_GROUP_NAME,
		WS_A_GROUP_RANKS, WS_A_IN_SPLIT,    WS_A_GROUP_DESCRIPTION,
		WS_A_OUT_SPLIT,	  WS_A_SRC_RANK,    WS_A_DST_RANK,
		WS_A_SEQ};
	static const char *const names[] = {"Collective name",
					    "In msg nelems",
					    "Out msg nelems",
					    "dtype",
					    "Group size",
					    "Process Group Name",
					    "Process Group Ranks",
					    "In split size",
					    "Process Group Description",
					    "Out split size",
					    "Src Rank",
					    "Dst Rank",
					    "Seq"};

	if (ws_trace_arg(trace, WS_A_COLLECTIVE)->type == WS_J_NONE)
		return;
	for (size_t i = 0; i < WS_COUNT(kept); i++) {
		const struct ws_json_value *value = ws_trace_arg(trace, kept[i]);

		if (value->type == WS_J_NONE || trace->others == (int)WS_COUNT(trace->other))
			continue;
		trace->other[trace->others].key = (struct ws_json_value){
			.type = WS_J_STRING, .text = names[i], .n = (uint32_t)strlen(names[i])};
		trace->other[trace->others++].value = *value;
	}
}

static void op(struct ws_trace *trace, struct ws_event *ev, enum ws_op_kind kind)
{
	const struct ws_json_value *dims = ws_trace_arg(trace, WS_A_DIMS),
				   *concrete = ws_trace_arg(trace, WS_A_CONCRETE);
	struct ws_row_op row = {.kind = (uint8_t)kind};

	if (dims->type == WS_J_NONE)
		dims = ws_trace_arg(trace, WS_A_DIMS_2021);
	keep_collective(trace);
	row.start = ev->start;
	row.end = ws_trace_end(trace, ev);
	row.thread = ws_trace_thread(trace, ev);
	row.name = ws_trace_string(trace, &ev->name);
	row.external = external(trace);
	row.record_function = ws_trace_u64(trace, WS_A_RECORD_FUNCTION, WS_NO_U64);
	row.sequence = ws_trace_u64(trace, WS_A_SEQUENCE, WS_NO_U64);
	row.forward_thread = ws_trace_u64(trace, WS_A_FORWARD, WS_NO_U64);
	row.python_id = ws_trace_u64(trace, WS_A_PYTHON_ID, WS_NO_U64);
	row.python_parent = ws_trace_u64(trace, WS_A_PYTHON_PARENT, WS_NO_U64);
	row.module_id = ws_trace_u64(trace, WS_A_PYTHON_MODULE, WS_NO_U64);
	row.shapes = ws_trace_string(trace, dims);
	row.strides = ws_trace_string(trace, ws_trace_arg(trace, WS_A_STRIDES));
	row.types = ws_trace_string(trace, ws_trace_arg(trace, WS_A_TYPES));
	row.concrete = ws_trace_string(trace, concrete);
	row.stack = ws_trace_string(trace, ws_trace_arg(trace, WS_A_CALL_STACK));
	row.modules = ws_trace_string(trace, ws_trace_arg(trace, WS_A_MODULES));
	row.flops = ws_trace_u64(trace, WS_A_FLOPS, 0);
	if (!row.flops && kind == WS_OP_CPU)
		row.flops = ws_flops(ev->name.text, ev->name.n, dims, concrete);
	row.args = ws_trace_others(trace);
	*(struct ws_row_op *)ws_into_row(trace->into, WS_TABLE_op) = row;
}

/*
 * Until 1.12, PyTorch wrote user annotations as operators. Those that its own code makes are known
 * by name: steps, optimisers, data loaders, DistributedDataParallel.
 */
static bool was_annotation(const struct ws_event *ev)
{
	static const char *const names[] = {"ProfilerStep#", "Optimizer.", "enumerate(DataLoader)#",
					    "DistributedDataParallel.forward"};

	for (size_t i = 0; i < WS_COUNT(names); i++)
		if (ev->name.n >= strlen(names[i]) &&
		    !memcmp(ev->name.text, names[i], strlen(names[i])))
			return true;
	return false;
}

static void cpu_op(struct ws_trace *trace, struct ws_event *ev)
{
	op(trace, ev, was_annotation(ev) ? WS_OP_ANNOTATION : WS_OP_CPU);
}

static void annotation(struct ws_trace *trace, struct ws_event *ev)
{
	op(trace, ev, WS_OP_ANNOTATION);
}

static void python_call(struct ws_trace *trace, struct ws_event *ev)
{
	op(trace, ev, WS_OP_PYTHON);
}

static void memory_event(struct ws_trace *trace, struct ws_event *ev)
{
	bool ok;
	struct ws_row_op_memory row = {
		.start = ev->start,
		.thread = ws_trace_thread(trace, ev),
		.address = ws_trace_u64(trace, WS_A_ADDRESS, 0),
		.bytes = ws_json_fixed(ws_trace_arg(trace, WS_A_MEMORY_BYTES), 0, &ok),
		.allocated = ws_trace_u64(trace, WS_A_ALLOCATED, 0),
		.reserved = ws_trace_u64(trace, WS_A_RESERVED, 0),
		.device_type = (uint8_t)ws_trace_u32(trace, WS_A_DEVICE_TYPE, 0),
		.device = small(trace, WS_A_DEVICE_ID, -1),
	};

	*(struct ws_row_op_memory *)ws_into_row(trace->into, WS_TABLE_op_memory) = row;
	note_others(trace, "[memory] events");
}

static void overhead(struct ws_trace *trace, struct ws_event *ev)
{
	static const struct {
		const char *name;
		uint8_t type;
	} types[] = {{"Driver Compiler", 2},
		     {"Buffer Flush", 3},
		     {"Instrumentation", 4},
		     {"Resource", 5},
		     {"Runtime Triggered Module Loading", 6},
		     {"Lazy Function Loading", 7},
		     {"Command Buffer Full", 8},
		     {"Activity Buffer Request", 9},
		     {"UVM Activity Init", 10}};
	struct ws_row_cuda_overhead row = {
		.start = ev->start, .end = ev->start + ev->length, .class = 103, .type = 1};

	for (size_t i = 0; i < WS_COUNT(types); i++)
		if (ws_json_is(&ev->name, types[i].name))
			row.type = types[i].type;
	row.name = ws_trace_string(trace, &ev->name);
	row.correlation = ws_trace_u32(trace, WS_A_CORRELATION, WS_NO_U32);
	/* Its pid is -1 and its tid a number of CUPTI's: it is the process's. */
	row.thread = ws_into_thread(trace->into, ws_trace_main_process(trace), 0, ev->start);
	*(struct ws_row_cuda_overhead *)ws_into_row(trace->into, WS_TABLE_cuda_overhead) = row;
}

/* ---- by category ---- */

static const struct category {
	const char *name;
	uint8_t n;
	char phase;
	bool gpu; /* needs to look like it: other tools use such names too */
	void (*take)(struct ws_trace *trace, struct ws_event *ev);
} categories[] = {
#define C(name, phase, gpu, take)                        \
	{                                                \
		name, sizeof(name) - 1, phase, gpu, take \
	}
	C("cpu_op", 'X', false, cpu_op),
	C("kernel", 'X', true, kernel),
	C("cuda_runtime", 'X', true, runtime_call),
	C("python_function", 'X', false, python_call),
	C("user_annotation", 'X', false, annotation),
	C("gpu_memcpy", 'X', true, memcpy_event),
	C("gpu_memset", 'X', true, memset_event),
	C("cuda_driver", 'X', true, driver_call),
	C("gpu_user_annotation", 'X', false, gpu_annotation),
	C("cuda_sync", 'X', true, sync_event),
	C("cuda_event", 'X', true, record_event),
	C("overhead", 'X', false, overhead),
	/* 2021 */
	C("Operator", 'X', false, cpu_op),
	C("operator", 'X', false, cpu_op),
	C("Kernel", 'X', true, kernel),
	C("Runtime", 'X', true, runtime_call),
	C("Memcpy", 'X', true, memcpy_event),
	C("Memset", 'X', true, memset_event),
	C("Python", 'X', false, python_call),
	C("Overhead", 'X', false, overhead),
	C("cuda_profiler_range", 'X', false, gpu_annotation),
#undef C
};

static bool is_launch_flow(const struct ws_event *ev)
{
	return ws_json_is(&ev->cat, "ac2g") || ws_json_is(&ev->cat, "async_gpu") ||
	       ws_json_is(&ev->cat, "async_cpu_to_gpu") ||
	       (ws_json_is(&ev->cat, "async") && ws_json_is(&ev->name, "launch"));
}

/* GPU work and calls carry a correlation; without one the category is another tool's. */
static bool looks_right(struct ws_trace *trace)
{
	return ws_trace_arg(trace, WS_A_CORRELATION)->type != WS_J_NONE ||
	       ws_trace_arg(trace, WS_A_STREAM)->type != WS_J_NONE;
}

bool ws_kineto_event(struct ws_trace *trace, struct ws_event *ev)
{
	if (ev->cat.type != WS_J_STRING)
		return ev->phase == 'i' && ws_json_is(&ev->name, "[memory]")
			       ? (ws_trace_args(trace, ev), memory_event(trace, ev), true)
			       : false;
	if (ev->phase == 's' || ev->phase == 'f')
		return trace->kineto && is_launch_flow(ev);
	if (ev->phase == 'i' && ws_json_is(&ev->name, "[memory]")) {
		ws_trace_args(trace, ev);
		memory_event(trace, ev);
		ws_into_time(trace->into, ev->start);
		return true;
	}
	for (size_t i = 0; i < WS_COUNT(categories); i++) {
		const struct category *category = &categories[i];

		if (category->n != ev->cat.n || category->phase != ev->phase ||
		    memcmp(category->name, ev->cat.text, category->n))
			continue;
		ws_trace_args(trace, ev);
		if (category->gpu && !looks_right(trace))
			return false;
		trace->kineto = true;
		ws_into_time(trace->into, ev->start);
		ws_into_time(trace->into, ev->start + ev->length);
		category->take(trace, ev);
		return true;
	}
	return false;
}

/* ---- beside the events ---- */

static void put_device(struct ws_trace *trace, const struct ws_json_value *object, uint32_t process)
{
	struct ws_row_cuda_device row = {
		.process = process, .start = trace->into->file_first, .visible = 1, .blocks_sm = 0};
	struct ws_json_walk walk = ws_json_walk(object);
	struct ws_json_value key, value;

	while (ws_json_next(&walk, &key, &value)) {
		int64_t i = ws_json_fixed(&value, 0, NULL);
		uint32_t u = i < 0 || i > UINT32_MAX ? 0 : (uint32_t)i;
		const struct {
			const char *name;
			uint32_t *at;
		} fields[] = {{"id", &row.id},
			      {"computeMajor", &row.major},
			      {"computeMinor", &row.minor},
			      {"maxThreadsPerBlock", &row.threads_block},
			      {"regsPerBlock", &row.regs_block},
			      {"regsPerMultiprocessor", &row.regs_sm},
			      {"warpSize", &row.warp},
			      {"sharedMemPerBlock", &row.shared_block},
			      {"sharedMemPerBlockOptin", &row.shared_block_optin},
			      {"sharedMemPerMultiprocessor", &row.shared_sm},
			      {"maxThreadsPerMultiprocessor", &row.warps_sm},
			      {"numSms", &row.sms}};

		for (size_t f = 0; f < WS_COUNT(fields); f++)
			if (ws_json_is(&key, fields[f].name))
				*fields[f].at = u;
		if (ws_json_is(&key, "name"))
			row.name = ws_trace_string(trace, &value);
		else if (ws_json_is(&key, "totalGlobalMem"))
			row.memory_bytes = i < 0 ? 0 : (uint64_t)i;
	}
	row.warps_sm = row.warp ? row.warps_sm / row.warp : 0;
	*(struct ws_row_cuda_device *)ws_into_row(trace->into, WS_TABLE_cuda_device) = row;
}

/* Which clock a file of several is on, and what its collectives say of that. */
static void tell_alignment(struct ws_trace *trace)
{
	int64_t offset = clock_offset(trace);

	if (trace->into->file_count < 2)
		return;
	if (trace->epoch || trace->base_known)
		ws_into_tell(trace->into,
			     "Times are on the real time of the host that recorded it.");
	if (trace->into->file && offset)
		ws_into_tell(trace->into,
			     "%zu collectives that the first file has too say that this clock is "
			     "%.3f ms %s (rank.clockOffset, which is not "
			     "added to the times).",
			     trace->apart_count, (double)(offset < 0 ? -offset : offset) / 1e6,
			     offset < 0 ? "ahead" : "behind");
	else if (trace->into->file && trace->apart_count)
		ws_into_tell(trace->into,
			     "%zu collectives that the first file has too do not show its clock to "
			     "be off.",
			     trace->apart_count);
}

void ws_kineto_end(struct ws_trace *trace)
{
	struct ws_json_value list, one;
	struct ws_json_walk walk;
	bool more;

	if (trace->kineto && trace->main_process && trace->decimals)
		ws_map_set(&trace->into->clocks, trace->main_process, trace->base);
	if (trace->devices.len &&
	    ws_json_value(trace->devices.text, trace->devices.text + trace->devices.len, &list,
			  &more) &&
	    list.type == WS_J_ARRAY && trace->main_process) {
		walk = ws_json_walk(&list);
		while (ws_json_next(&walk, NULL, &one))
			if (one.type == WS_J_OBJECT)
				put_device(trace, &one, trace->main_process);
	}
	if (trace->main_process && (trace->rank >= 0 || trace->into->file_count > 1)) {
		uint32_t source = ws_into_text(trace->into, trace->into->path);
		struct ws_row_rank *row = ws_into_row(trace->into, WS_TABLE_rank);

		tell_alignment(trace);
		*row = (struct ws_row_rank){.process = trace->main_process,
					    .rank = trace->rank >= 0 && trace->rank <= UINT32_MAX
							    ? (uint32_t)trace->rank
							    : trace->into->file,
					    .world = trace->world > 0 && trace->world <= UINT32_MAX
							     ? (uint32_t)trace->world
							     : 0,
					    .source = source,
					    .offset = clock_offset(trace)};
	}
}
