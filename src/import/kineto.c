/*
 * kineto.c - events of the PyTorch profiler (Kineto), by category, into the tables that our own
 * recordings fill: CUDA kernels, copies and calls, operators, the allocator's memory, collectives.
 *
 * GPU work appears in the trace under the number of its device. It belongs to the process whose CPU
 * events the file holds; if it comes first, that process is made without a pid and gets one from
 * the first CPU event. Flows from calls to their work (ac2g) repeat the correlation id and are
 * dropped; the "External id" links work to its operator.
 */
#include "import/trace.h"
#include "base/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "import/flops.h"

/* Note the unknown arguments of an event of this kind. It costs one lookup for each of them. */
static void note_others(struct ws_trace *trace, const char *kind)
{
	for (int i = 0; i < trace->unknown_count; i++)
		ws_importer_add_note(trace->importer, "The argument \"%.*s\" of %s was left out.",
				     (int)(ws_min(trace->unknown_args[i].key.length, 100)),
				     trace->unknown_args[i].key.text, kind);
}

/* ---- GPU work ---- */

/* The number of a device or stream: an argument, or else the number in pid or tid ("stream 7" in
 * traces of 2021). */
static uint32_t read_place(struct ws_trace *trace, enum ws_trace_arg arg,
			   const struct ws_json_value *other)
{
	uint32_t number = ws_trace_get_u32(trace, arg, WS_NO_U32);
	const char *at, *end;

	if (number != WS_NO_U32)
		return number;
	if (other->type == WS_JSON_NONE || !other->length)
		return 0;
	at = other->text;
	end = at + other->length;
	while (at < end && (*at < '0' || *at > '9'))
		at++;
	for (number = 0; at < end && *at >= '0' && *at <= '9'; at++)
		number = number * 10 + (uint32_t)(*at - '0');
	return number;
}

/* Our own exports of several processes say whose work it is. */
static uint32_t find_work_process(struct ws_trace *trace)
{
	uint64_t pid = ws_trace_get_u64(trace, WS_A_PROCESS, 0);

	if (!pid || pid > UINT32_MAX)
		return ws_trace_get_main_process(trace);
	return ws_trace_find_pid(trace, pid);
}

/* Initialisers common to rows of all GPU work: when and where it ran, and for which process. */
#define ON_GPU(t, event)                                                              \
	.start = (event)->start, .device = read_place(t, WS_A_DEVICE, &(event)->pid), \
	.context = ws_trace_get_u32(t, WS_A_CONTEXT, 0), .green_context = WS_NO_U32,  \
	.correlation = ws_trace_get_u32(t, WS_A_CORRELATION, WS_NO_U32),              \
	.process = find_work_process(t)

static uint64_t get_external_id(struct ws_trace *trace)
{
	uint64_t id = ws_trace_get_u64(trace, WS_A_EXTERNAL, WS_NO_U64);

	if (id == WS_NO_U64)
		id = ws_trace_get_u64(trace, WS_A_EXTERNAL_2021, WS_NO_U64);
	return id;
}

/* A call and its work carry the same link: it is written once. External id 0 means none. */
static void put_op_link(struct ws_trace *trace, uint32_t process, uint32_t correlation)
{
	uint64_t id = get_external_id(trace);
	size_t at = correlation & (WS_COUNT(trace->recent_links) - 1);
	struct ws_row_op_link *row;

	if (id == WS_NO_U64 || !id || !correlation || correlation == WS_NO_U32 ||
	    (trace->recent_links[at].correlation == correlation &&
	     trace->recent_links[at].external == id && trace->recent_links[at].process == process))
		return;
	trace->recent_links[at].correlation = correlation;
	trace->recent_links[at].process = process;
	trace->recent_links[at].external = id;
	row = ws_importer_add_row(trace->importer, WS_TABLE_op_link);
	*row = (struct ws_row_op_link){
		.process = process, .correlation = correlation, .external = id};
}

/*
 * The function's own name in a demangled name: the part before its arguments, without return type,
 * namespaces and template arguments. Brackets of "(anonymous namespace)" and of "operator()" are
 * part of names.
 */
static size_t find_short_name(const char **name, size_t length)
{
	const char *text = *name;
	size_t from = 0, end = length;
	int angle = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == '<' && !(i >= 8 && !memcmp(text + i - 8, "operator", 8))) {
			if (!angle++)
				end = i;
		} else if (text[i] == '>' && angle && i && text[i - 1] != '-') {
			angle--;
		} else if (!angle && text[i] == '(') {
			if (length - i > 21 && !memcmp(text + i, "(anonymous namespace)", 21)) {
				i += 20;
				continue;
			}
			if (end == length || (i && text[i - 1] != '>'))
				end = i;
			break;
		} else if (!angle &&
			   (text[i] == ' ' || (text[i] == ':' && i && text[i - 1] == ':'))) {
			from = i + 1;
			end = length;
		}
	}
	if (from >= end)
		return length;
	*name = text + from;
	return end - from;
}

static uint32_t intern_short_name(struct ws_trace *trace, uint32_t full_name, const char *name,
				  size_t length)
{
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&trace->kernel_names, full_name, &found);

	if (found)
		return id;
	length = find_short_name(&name, length);
	id = ws_importer_add_string(trace->importer, name, length);
	if (trace->kernel_names.count < WS_IMPORT_LIMIT)
		ws_map_set(&trace->kernel_names, full_name, id);
	return id;
}

/* 0 for a number that does not fit. */
static uint32_t narrow_to_u32(int64_t number)
{
	if (number < 0 || number > UINT32_MAX)
		return 0;
	return (uint32_t)number;
}

static void read_triple(const struct ws_json_value *value, uint32_t *first, uint32_t *second,
			uint32_t *third)
{
	uint32_t *out[3] = {first, second, third};
	struct ws_json_walk walk;
	struct ws_json_value one;

	if (value->type != WS_JSON_ARRAY)
		return;
	walk = ws_begin_json_walk(value);
	for (int i = 0; i < 3 && ws_next_json_member(&walk, NULL, &one); i++)
		*out[i] = narrow_to_u32(ws_parse_json_fixed(&one, 0, NULL));
}

static int32_t read_i32(struct ws_trace *trace, enum ws_trace_arg arg, int32_t none)
{
	bool ok;
	int64_t number = ws_parse_json_fixed(ws_trace_get_arg(trace, arg), 0, &ok);

	if (!ok || number < INT32_MIN || number > INT32_MAX)
		return none;
	return (int32_t)number;
}

/*
 * All ranks leave a collective within microseconds, so the difference between its ends in two files
 * is the difference between their clocks. A collective is recognised in another file by its
 * sequence number in the group, or else by being the n-th of its name there.
 */
static void compare_collective(struct ws_trace *trace, const struct ws_row_collective *row,
			       const struct ws_json_value *name, const struct ws_json_value *group)
{
	uint64_t key, number;

	if (trace->importer->file_count < 2 || name->type != WS_JSON_STRING ||
	    trace->clock_offset_count == WS_IMPORT_LIMIT)
		return;
	key = XXH3_64bits(name->text, name->length);
	if (group->type == WS_JSON_STRING)
		key = XXH3_64bits_withSeed(group->text, group->length, key);
	number = row->sequence;
	if (number == WS_NO_U64) {
		number = ws_map_get(&trace->occurrences, key, NULL);
		ws_map_set(&trace->occurrences, key, number + 1);
	}
	key = XXH3_64bits_withSeed(&number, sizeof(number), key);
	if (!trace->importer->file) {
		ws_map_set(&trace->importer->first_collectives, key, row->end);
	} else if (ws_map_get(&trace->importer->first_collectives, key, NULL)) {
		ws_grow(trace->clock_offsets, trace->clock_offset_capacity,
			trace->clock_offset_count + 1);
		trace->clock_offsets[trace->clock_offset_count++] =
			(int64_t)(ws_map_get(&trace->importer->first_collectives, key, NULL) -
				  row->end);
	}
}

static int compare_i64(const void *first, const void *second)
{
	int64_t left = *(const int64_t *)first, right = *(const int64_t *)second;

	return ws_compare(left, right);
}

/* Nanoseconds to add to this file's times to align them with the first file's: the median; 0 when
 * too little is known. */
static int64_t compute_clock_offset(struct ws_trace *trace)
{
	enum { ENOUGH = 3 };

	if (trace->clock_offset_count < ENOUGH)
		return 0;
	qsort(trace->clock_offsets, trace->clock_offset_count, sizeof(*trace->clock_offsets),
	      compare_i64);
	return trace->clock_offsets[trace->clock_offset_count / 2];
}

static void put_collective(struct ws_trace *trace, const struct ws_trace_event *event,
			   uint32_t process, uint32_t correlation)
{
	struct ws_row_collective row = {
		.start = event->start,
		.end = event->start + event->length,
		.process = process,
		.correlation = correlation,
		.external = get_external_id(trace),
		.name = ws_trace_add_string(trace, ws_trace_get_arg(trace, WS_A_COLLECTIVE)),
		.in_elements = ws_trace_get_u64(trace, WS_A_IN_ELEMENTS, WS_NO_U64),
		.out_elements = ws_trace_get_u64(trace, WS_A_OUT_ELEMENTS, WS_NO_U64),
		.dtype = ws_trace_add_string(trace, ws_trace_get_arg(trace, WS_A_DTYPE)),
		.group_size = ws_trace_get_u32(trace, WS_A_GROUP_SIZE, WS_NO_U32),
		.group = ws_trace_add_string(trace, ws_trace_get_arg(trace, WS_A_GROUP_NAME)),
		.description =
			ws_trace_add_string(trace, ws_trace_get_arg(trace, WS_A_GROUP_DESCRIPTION)),
		.ranks = ws_trace_add_string(trace, ws_trace_get_arg(trace, WS_A_GROUP_RANKS)),
		.source = read_i32(trace, WS_A_SRC_RANK, -1),
		.destination = read_i32(trace, WS_A_DST_RANK, -1),
		.sequence = ws_trace_get_u64(trace, WS_A_SEQ, WS_NO_U64),
		.bytes = WS_NO_U64,
		.rank = -1,
		.device = read_place(trace, WS_A_DEVICE, &event->pid),
		.context = ws_trace_get_u32(trace, WS_A_CONTEXT, WS_NO_U32),
		.stream = read_place(trace, WS_A_STREAM, &event->tid),
		.call_start = WS_NO_TIME,
		.call_end = WS_NO_TIME,
		.channels = WS_NO_U32,
		.event = WS_NO_U64,
	};

	row.label = row.name;
	*(struct ws_row_collective *)ws_importer_add_row(trace->importer, WS_TABLE_collective) =
		row;
	compare_collective(trace, &row, ws_trace_get_arg(trace, WS_A_COLLECTIVE),
			   ws_trace_get_arg(trace, WS_A_GROUP_NAME));
}

static void put_kernel(struct ws_trace *trace, struct ws_trace_event *event)
{
	struct ws_row_cuda_kernel row = {
		ON_GPU(trace, event),
		.end = ws_trace_get_end(trace, event),
		.stream = read_place(trace, WS_A_STREAM, &event->tid),
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
	size_t length;
	const char *name = ws_unescape_json_text(&event->name, &trace->scratch, &length);
	bool ok;
	double occupancy, waves;

	full = ws_importer_add_string(trace->importer, name, length);
	row.name = intern_short_name(trace, full, name, length);
	row.demangled = row.mangled = full;
	ws_importer_demangle_kernel(trace->importer, &row);
	row.registers = ws_trace_get_u32(trace, WS_A_REGISTERS, 0);
	/* The trace has only the sum of static and dynamic shared memory. */
	row.dynamic_shared = ws_trace_get_u32(trace, WS_A_SHARED, 0);
	row.graph = ws_trace_get_u32(trace, WS_A_GRAPH, WS_NO_U32);
	row.graph_node = ws_trace_get_u64(trace, WS_A_GRAPH_NODE, WS_NO_U64);
	if (!row.graph_node)
		row.graph_node = WS_NO_U64;
	if (!row.graph)
		row.graph = WS_NO_U32;
	row.priority = read_i32(trace, WS_A_PRIORITY, 0);
	occupancy = ws_parse_json_double(ws_trace_get_arg(trace, WS_A_OCCUPANCY), &ok);
	if (ok)
		row.estimated = occupancy / 100;
	occupancy = ws_parse_json_double(ws_trace_get_arg(trace, WS_A_OCCUPANCY_2021), &ok);
	if (ok)
		row.occupancy = occupancy / 100;
	waves = ws_parse_json_double(ws_trace_get_arg(trace, WS_A_WAVES), &ok);
	if (ok)
		row.waves = waves;
	read_triple(ws_trace_get_arg(trace, WS_A_GRID), &row.grid_x, &row.grid_y, &row.grid_z);
	read_triple(ws_trace_get_arg(trace, WS_A_BLOCK), &row.block_x, &row.block_y, &row.block_z);
	*(struct ws_row_cuda_kernel *)ws_importer_add_row(trace->importer, WS_TABLE_cuda_kernel) =
		row;
	put_op_link(trace, row.process, row.correlation);
	if (ws_trace_get_arg(trace, WS_A_COLLECTIVE)->type != WS_JSON_NONE)
		put_collective(trace, event, row.process, row.correlation);
	note_others(trace, "kernels");
}

static bool name_contains(const struct ws_trace_event *event, const char *text)
{
	return memmem(event->name.text, event->name.length, text, strlen(text)) != NULL;
}

/* The kind of memory named in a copy's or set's name, `skip` bytes after `mark`; none where `mark`
 * is NULL. */
static uint32_t read_memory_kind(const struct ws_trace_event *event, const char *mark, size_t skip)
{
	static const struct {
		const char *text;
		uint32_t kind;
	} kinds[] = {{"Pageable", 0}, {"Pinned", 1},	     {"Device Static", 5}, {"Device", 2},
		     {"Array", 3},    {"Managed Static", 6}, {"Managed", 4}};
	const char *word;
	size_t length;

	if (!mark)
		return WS_NO_U32;
	word = mark + skip;
	length = (size_t)(event->name.text + event->name.length - word);
	for (size_t i = 0; i < WS_COUNT(kinds); i++)
		if (length >= strlen(kinds[i].text) &&
		    !memcmp(word, kinds[i].text, strlen(kinds[i].text)))
			return kinds[i].kind;
	return 7;
}

/* "Memcpy HtoD (Pageable -> Device)" */
static void read_copy_kinds(const struct ws_trace_event *event, struct ws_row_cuda_memcpy *row)
{
	static const struct {
		const char *text;
		uint8_t kind;
	} kinds[] = {{"HtoD", WS_COPY_HTOD},	     {"DtoH", WS_COPY_DTOH},
		     {"HtoA", WS_COPY_HTOA},	     {"AtoH", WS_COPY_ATOH},
		     {"AtoA", WS_COPY_ATOA},	     {"AtoD", WS_COPY_ATOD},
		     {"DtoA", WS_COPY_DTOA},	     {"DtoD", WS_COPY_DTOD},
		     {"HtoH", WS_COPY_HTOH},	     {"PtoP", WS_COPY_PTOP},
		     {"HostToDevice", WS_COPY_HTOD}, /* AMD GPUs */
		     {"DeviceToHost", WS_COPY_DTOH}, {"DeviceToDevice", WS_COPY_DTOD}};
	const char *open = memchr(event->name.text, '(', event->name.length);
	const char *arrow = memmem(event->name.text, event->name.length, " -> ", 4);

	for (size_t i = 0; i < WS_COUNT(kinds); i++)
		if (name_contains(event, kinds[i].text))
			row->kind = kinds[i].kind;
	if (name_contains(event, "Unified memory")) {
		if (row->kind == WS_COPY_HTOD)
			row->kind = WS_COPY_UM_HTOD;
		else if (row->kind == WS_COPY_DTOH)
			row->kind = WS_COPY_UM_DTOH;
		else
			row->kind = WS_COPY_UM_DTOD;
	}
	row->src_kind = read_memory_kind(event, open, 1);
	row->dst_kind = read_memory_kind(event, arrow, 4);
}

/* The number of bytes that a copy or set moved, from an argument; WS_NO_U64 when there is none.
 * Traces of AMD GPUs had it as the text "size" in 2023, and as "bytes" later. */
static uint64_t read_moved_bytes(struct ws_trace *trace)
{
	uint64_t bytes = ws_trace_get_u64(trace, WS_A_BYTES, WS_NO_U64);

	if (bytes == WS_NO_U64)
		bytes = ws_trace_get_u64(trace, WS_A_BYTES_ROCM, WS_NO_U64);
	if (bytes > INT64_MAX)
		return WS_NO_U64;
	return bytes;
}

static uint64_t make_call_key(uint32_t process, uint32_t correlation)
{
	return (uint64_t)process << 32 | correlation;
}

/* Remember how much a call moves: traces of AMD GPUs give it for the call, not for its work. */
static void keep_call_bytes(struct ws_trace *trace, uint32_t process, uint32_t correlation)
{
	uint64_t bytes = read_moved_bytes(trace);

	if (bytes != WS_NO_U64 && correlation != WS_NO_U32 &&
	    trace->call_bytes.count < WS_IMPORT_LIMIT)
		ws_map_set(&trace->call_bytes, make_call_key(process, correlation), bytes);
}

/* Add a copy whose size the trace gives with the call. The call may come later in the file, so rows
 * are kept until the file has been read. */
static void put_copy_row(struct ws_trace *trace, const struct ws_row_cuda_memcpy *row)
{
	if (row->bytes != WS_NO_U64 || trace->copy_count == WS_IMPORT_LIMIT) {
		struct ws_row_cuda_memcpy *copy =
			ws_importer_add_row(trace->importer, WS_TABLE_cuda_memcpy);

		*copy = *row;
		if (row->bytes == WS_NO_U64)
			copy->bytes = 0;
		return;
	}
	ws_grow(trace->copies, trace->copy_cap, trace->copy_count + 1);
	trace->copies[trace->copy_count++] = *row;
}

/* Add the copies that were kept, with the sizes from their calls. */
static void put_kept_copies(struct ws_trace *trace)
{
	for (size_t i = 0; i < trace->copy_count; i++) {
		struct ws_row_cuda_memcpy *row =
			ws_importer_add_row(trace->importer, WS_TABLE_cuda_memcpy);

		*row = trace->copies[i];
		row->bytes = ws_map_get(&trace->call_bytes,
					make_call_key(row->process, row->correlation), NULL);
	}
}

static void put_memcpy(struct ws_trace *trace, struct ws_trace_event *event)
{
	struct ws_row_cuda_memcpy row = {
		ON_GPU(trace, event),
		.end = ws_trace_get_end(trace, event),
		.stream = read_place(trace, WS_A_STREAM, &event->tid),
		.bytes = read_moved_bytes(trace),
		.src_device = ws_trace_get_u32(trace, WS_A_FROM_DEVICE, WS_NO_U32),
		.src_context = WS_NO_U32,
		.dst_device = ws_trace_get_u32(trace, WS_A_TO_DEVICE, WS_NO_U32),
		.dst_context = WS_NO_U32,
		.migration_cause = WS_NO_U32,
		.graph_node = ws_trace_get_u64(trace, WS_A_GRAPH_NODE, WS_NO_U64),
		.address = WS_NO_U64,
		.copies = WS_NO_U64,
		.graph = ws_trace_get_u32(trace, WS_A_GRAPH, WS_NO_U32),
	};

	read_copy_kinds(event, &row);
	put_copy_row(trace, &row);
	put_op_link(trace, row.process, row.correlation);
	note_others(trace, "copies");
}

static void put_memset(struct ws_trace *trace, struct ws_trace_event *event)
{
	struct ws_row_cuda_memset row = {
		ON_GPU(trace, event),
		.end = ws_trace_get_end(trace, event),
		.stream = read_place(trace, WS_A_STREAM, &event->tid),
		.bytes = read_moved_bytes(trace),
		.graph_node = ws_trace_get_u64(trace, WS_A_GRAPH_NODE, WS_NO_U64),
		.mem_kind = read_memory_kind(event,
					     memchr(event->name.text, '(', event->name.length), 1),
		.graph = ws_trace_get_u32(trace, WS_A_GRAPH, WS_NO_U32),
	};

	if (row.bytes == WS_NO_U64)
		row.bytes = 0;
	*(struct ws_row_cuda_memset *)ws_importer_add_row(trace->importer, WS_TABLE_cuda_memset) =
		row;
	put_op_link(trace, row.process, row.correlation);
	note_others(trace, "memory sets");
}

static void put_sync(struct ws_trace *trace, struct ws_trace_event *event)
{
	static const char *const kinds[] = {"Unknown", "Event Sync", "Stream Wait Event",
					    "Stream Sync", "Context Sync"};
	const struct ws_json_value *kind = ws_trace_get_arg(trace, WS_A_SYNC_KIND);
	struct ws_row_cuda_sync row = {
		ON_GPU(trace, event),
		.end = ws_trace_get_end(trace, event),
		.stream = ws_trace_get_u32(trace, WS_A_STREAM, WS_NO_U32),
		.event = ws_trace_get_u32(trace, WS_A_WAIT_EVENT, WS_NO_U32),
		.event_sync = ws_trace_get_u64(trace, WS_A_WAIT_RECORD, WS_NO_U64),
	};

	for (size_t i = 0; i < WS_COUNT(kinds); i++)
		if (ws_is_json_string(kind, kinds[i]) ||
		    (kind->type == WS_JSON_NONE && ws_is_json_string(&event->name, kinds[i])))
			row.type = (uint8_t)i;
	if (row.event_sync > UINT32_MAX) /* -1: none */
		row.event_sync = WS_NO_U64;
	*(struct ws_row_cuda_sync *)ws_importer_add_row(trace->importer, WS_TABLE_cuda_sync) = row;
	put_op_link(trace, row.process, row.correlation);
	note_others(trace, "waits");
}

static void put_event_record(struct ws_trace *trace, struct ws_trace_event *event)
{
	struct ws_row_cuda_event *row = ws_importer_add_row(trace->importer, WS_TABLE_cuda_event);

	*row = (struct ws_row_cuda_event){
		ON_GPU(trace, event),
		.stream = read_place(trace, WS_A_STREAM, &event->tid),
		.event = ws_trace_get_u32(trace, WS_A_EVENT_ID, 0),
		.time = event->start,
		.event_sync = ws_trace_get_u64(trace, WS_A_CORRELATION, WS_NO_U64),
	};
	note_others(trace, "CUDA events");
}

/* A user annotation on the GPU: a slice on the track of its stream's annotations. */
static void put_gpu_annotation(struct ws_trace *trace, struct ws_trace_event *event)
{
	char name[96];
	uint32_t device = read_place(trace, WS_A_DEVICE, &event->pid),
		 stream = read_place(trace, WS_A_STREAM, &event->tid);
	int length = snprintf(name, sizeof(name), "GPU %u stream %u annotations", device, stream);

	ws_chrome_put_slice(trace, event, 0,
			    ws_importer_intern_track(trace->importer, 0,
						     ws_trace_get_main_process(trace), 0, name,
						     (size_t)length),
			    0);
}

/* ---- the CPU ---- */

static void put_cuda_call(struct ws_trace *trace, struct ws_trace_event *event, uint8_t class)
{
	uint32_t thread = ws_trace_find_thread(trace, event),
		 correlation = ws_trace_get_u32(trace, WS_A_CORRELATION, WS_NO_U32);
	uint32_t name = ws_trace_add_string(trace, &event->name), process;
	struct ws_row_cuda_api *row = ws_importer_add_row(trace->importer, WS_TABLE_cuda_api);

	*row = (struct ws_row_cuda_api){.start = event->start,
					.end = ws_trace_get_end(trace, event),
					.class = class,
					.thread = thread,
					.correlation = correlation,
					.name = name,
					.result = ws_trace_get_u32(trace, WS_A_RESULT, 0),
					.callchain = WS_NO_U32};
	process = ws_importer_get_thread(trace->importer, thread)->process;
	put_op_link(trace, process, correlation);
	keep_call_bytes(trace, process, correlation);
	note_others(trace, "calls of CUDA");
}

/* The driver's functions (cuLaunchKernel) may be in the category of the runtime's. */
static void put_runtime_call(struct ws_trace *trace, struct ws_trace_event *event)
{
	const char *name = event->name.text;
	bool driver = event->name.length > 2 && !memcmp(name, "cu", 2) && name[2] >= 'A' &&
		      name[2] <= 'Z';

	put_cuda_call(trace, event, driver ? WS_CUDA_DRIVER : WS_CUDA_RUNTIME);
}

static void put_driver_call(struct ws_trace *trace, struct ws_trace_event *event)
{
	put_cuda_call(trace, event, WS_CUDA_DRIVER);
}

/* NCCL's arguments of an operator are kept as JSON: the columns are those of its GPU work. */
static void keep_collective_args(struct ws_trace *trace)
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

	if (ws_trace_get_arg(trace, WS_A_COLLECTIVE)->type == WS_JSON_NONE)
		return;
	for (size_t i = 0; i < WS_COUNT(kept); i++) {
		const struct ws_json_value *value = ws_trace_get_arg(trace, kept[i]);

		if (value->type == WS_JSON_NONE ||
		    trace->unknown_count == (int)WS_COUNT(trace->unknown_args))
			continue;
		trace->unknown_args[trace->unknown_count].key =
			(struct ws_json_value){.type = WS_JSON_STRING,
					       .text = names[i],
					       .length = (uint32_t)strlen(names[i])};
		trace->unknown_args[trace->unknown_count++].value = *value;
	}
}

static void put_op(struct ws_trace *trace, struct ws_trace_event *event, enum ws_op_kind kind)
{
	const struct ws_json_value *dims = ws_trace_get_arg(trace, WS_A_DIMS),
				   *concrete = ws_trace_get_arg(trace, WS_A_CONCRETE);
	struct ws_row_op row = {.kind = (uint8_t)kind};

	if (dims->type == WS_JSON_NONE)
		dims = ws_trace_get_arg(trace, WS_A_DIMS_2021);
	keep_collective_args(trace);
	row.start = event->start;
	row.end = ws_trace_get_end(trace, event);
	row.thread = ws_trace_find_thread(trace, event);
	row.name = ws_trace_add_string(trace, &event->name);
	row.external = get_external_id(trace);
	row.record_function = ws_trace_get_u64(trace, WS_A_RECORD_FUNCTION, WS_NO_U64);
	row.sequence = ws_trace_get_u64(trace, WS_A_SEQUENCE, WS_NO_U64);
	row.forward_thread = ws_trace_get_u64(trace, WS_A_FORWARD, WS_NO_U64);
	row.python_id = ws_trace_get_u64(trace, WS_A_PYTHON_ID, WS_NO_U64);
	row.python_parent = ws_trace_get_u64(trace, WS_A_PYTHON_PARENT, WS_NO_U64);
	row.module_id = ws_trace_get_u64(trace, WS_A_PYTHON_MODULE, WS_NO_U64);
	row.shapes = ws_trace_add_string(trace, dims);
	row.strides = ws_trace_add_string(trace, ws_trace_get_arg(trace, WS_A_STRIDES));
	row.types = ws_trace_add_string(trace, ws_trace_get_arg(trace, WS_A_TYPES));
	row.concrete = ws_trace_add_string(trace, concrete);
	row.stack = ws_trace_add_string(trace, ws_trace_get_arg(trace, WS_A_CALL_STACK));
	row.modules = ws_trace_add_string(trace, ws_trace_get_arg(trace, WS_A_MODULES));
	row.flops = ws_trace_get_u64(trace, WS_A_FLOPS, 0);
	if (!row.flops && kind == WS_OP_CPU)
		row.flops = ws_count_flops(event->name.text, event->name.length, dims, concrete);
	row.args = ws_trace_add_unknown_args(trace);
	*(struct ws_row_op *)ws_importer_add_row(trace->importer, WS_TABLE_op) = row;
}

/*
 * Until 1.12, PyTorch wrote user annotations as operators. Those that its own code makes are known
 * by name: steps, optimisers, data loaders, DistributedDataParallel.
 */
static bool is_old_annotation(const struct ws_trace_event *event)
{
	static const char *const names[] = {"ProfilerStep#", "Optimizer.", "enumerate(DataLoader)#",
					    "DistributedDataParallel.forward"};

	for (size_t i = 0; i < WS_COUNT(names); i++)
		if (event->name.length >= strlen(names[i]) &&
		    !memcmp(event->name.text, names[i], strlen(names[i])))
			return true;
	return false;
}

static void put_cpu_op(struct ws_trace *trace, struct ws_trace_event *event)
{
	put_op(trace, event, is_old_annotation(event) ? WS_OP_ANNOTATION : WS_OP_CPU);
}

static void put_annotation(struct ws_trace *trace, struct ws_trace_event *event)
{
	put_op(trace, event, WS_OP_ANNOTATION);
}

static void put_python_call(struct ws_trace *trace, struct ws_trace_event *event)
{
	put_op(trace, event, WS_OP_PYTHON);
}

static void put_memory_event(struct ws_trace *trace, struct ws_trace_event *event)
{
	bool ok;
	struct ws_row_op_memory row = {
		.start = event->start,
		.thread = ws_trace_find_thread(trace, event),
		.address = ws_trace_get_u64(trace, WS_A_ADDRESS, 0),
		.bytes = ws_parse_json_fixed(ws_trace_get_arg(trace, WS_A_MEMORY_BYTES), 0, &ok),
		.allocated = ws_trace_get_u64(trace, WS_A_ALLOCATED, 0),
		.reserved = ws_trace_get_u64(trace, WS_A_RESERVED, 0),
		.device_type = (uint8_t)ws_trace_get_u32(trace, WS_A_DEVICE_TYPE, 0),
		.device = read_i32(trace, WS_A_DEVICE_ID, -1),
	};

	*(struct ws_row_op_memory *)ws_importer_add_row(trace->importer, WS_TABLE_op_memory) = row;
	note_others(trace, "[memory] events");
}

static void put_overhead(struct ws_trace *trace, struct ws_trace_event *event)
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
	struct ws_row_cuda_overhead row = {.start = event->start,
					   .end = event->start + event->length,
					   .class = 103,
					   .type = 1};

	for (size_t i = 0; i < WS_COUNT(types); i++)
		if (ws_is_json_string(&event->name, types[i].name))
			row.type = types[i].type;
	row.name = ws_trace_add_string(trace, &event->name);
	row.correlation = ws_trace_get_u32(trace, WS_A_CORRELATION, WS_NO_U32);
	/* Its pid is -1 and its tid a number of CUPTI's: it belongs to the process as a whole. */
	row.thread = ws_importer_intern_thread(trace->importer, ws_trace_get_main_process(trace), 0,
					       event->start);
	*(struct ws_row_cuda_overhead *)ws_importer_add_row(trace->importer,
							    WS_TABLE_cuda_overhead) = row;
}

/* ---- by category ---- */

static const struct category {
	const char *name;
	uint8_t length;
	char phase;
	bool gpu; /* must carry CUDA's arguments: other tools use such names too */
	void (*put)(struct ws_trace *trace, struct ws_trace_event *event);
} categories[] = {
#define C(name, phase, gpu, take)                        \
	{                                                \
		name, sizeof(name) - 1, phase, gpu, take \
	}
	C("cpu_op", 'X', false, put_cpu_op),
	C("kernel", 'X', true, put_kernel),
	C("cuda_runtime", 'X', true, put_runtime_call),
	C("python_function", 'X', false, put_python_call),
	C("user_annotation", 'X', false, put_annotation),
	C("gpu_memcpy", 'X', true, put_memcpy),
	C("gpu_memset", 'X', true, put_memset),
	C("cuda_driver", 'X', true, put_driver_call),
	C("gpu_user_annotation", 'X', false, put_gpu_annotation),
	C("cuda_sync", 'X', true, put_sync),
	C("cuda_event", 'X', true, put_event_record),
	C("overhead", 'X', false, put_overhead),
	/* 2021 */
	C("Operator", 'X', false, put_cpu_op),
	C("operator", 'X', false, put_cpu_op),
	C("Kernel", 'X', true, put_kernel),
	C("Runtime", 'X', true, put_runtime_call),
	C("Memcpy", 'X', true, put_memcpy),
	C("Memset", 'X', true, put_memset),
	C("Python", 'X', false, put_python_call),
	C("Overhead", 'X', false, put_overhead),
	C("cuda_profiler_range", 'X', false, put_gpu_annotation),
#undef C
};

static bool is_launch_flow(const struct ws_trace_event *event)
{
	return ws_is_json_string(&event->cat, "ac2g") ||
	       ws_is_json_string(&event->cat, "async_gpu") ||
	       ws_is_json_string(&event->cat, "async_cpu_to_gpu") ||
	       (ws_is_json_string(&event->cat, "async") &&
		ws_is_json_string(&event->name, "launch"));
}

/* GPU work and calls carry a correlation id or a stream; without them the category is another
 * tool's. */
static bool has_cuda_args(struct ws_trace *trace)
{
	return ws_trace_get_arg(trace, WS_A_CORRELATION)->type != WS_JSON_NONE ||
	       ws_trace_get_arg(trace, WS_A_STREAM)->type != WS_JSON_NONE;
}

bool ws_kineto_read_event(struct ws_trace *trace, struct ws_trace_event *event)
{
	bool categorised = event->cat.type == WS_JSON_STRING;

	if (event->phase == 'i' && ws_is_json_string(&event->name, "[memory]")) {
		ws_trace_read_args(trace, event);
		put_memory_event(trace, event);
		if (categorised)
			ws_importer_include_time(trace->importer, event->start);
		return true;
	}
	if (!categorised)
		return false;
	if (event->phase == 's' || event->phase == 'f')
		return trace->kineto && is_launch_flow(event);
	for (size_t i = 0; i < WS_COUNT(categories); i++) {
		const struct category *category = &categories[i];

		if (category->length != event->cat.length || category->phase != event->phase ||
		    memcmp(category->name, event->cat.text, category->length))
			continue;
		ws_trace_read_args(trace, event);
		if (category->gpu && !has_cuda_args(trace))
			return false;
		trace->kineto = true;
		ws_importer_include_time(trace->importer, event->start);
		ws_importer_include_time(trace->importer, event->start + event->length);
		category->put(trace, event);
		return true;
	}
	return false;
}

/* ---- members besides the events ---- */

static void put_device(struct ws_trace *trace, const struct ws_json_value *object, uint32_t process)
{
	struct ws_row_cuda_device row = {.process = process,
					 .start = trace->importer->file_earliest,
					 .visible = 1,
					 .blocks_sm = 0};
	struct ws_json_walk walk = ws_begin_json_walk(object);
	struct ws_json_value key, value;

	while (ws_next_json_member(&walk, &key, &value)) {
		int64_t number = ws_parse_json_fixed(&value, 0, NULL);
		const struct {
			const char *name;
			uint32_t *at;
		} fields[] = {{"id", &row.id},
			      {"computeMajor", &row.major},
			      {"computeMinor", &row.minor},
			      {"major", &row.major},
			      {"minor", &row.minor},
			      {"maxThreadsPerBlock", &row.threads_block},
			      {"regsPerBlock", &row.regs_block},
			      {"regsPerMultiprocessor", &row.regs_sm},
			      {"warpSize", &row.warp},
			      {"sharedMemPerBlock", &row.shared_block},
			      {"sharedMemPerBlockOptin", &row.shared_block_optin},
			      {"sharedMemPerMultiprocessor", &row.shared_sm},
			      {"maxThreadsPerMultiprocessor", &row.warps_sm},
			      {"maxThreadsPerMultiProcessor", &row.warps_sm},
			      {"multiProcessorCount", &row.sms},
			      {"numSms", &row.sms}};

		for (size_t i = 0; i < WS_COUNT(fields); i++)
			if (ws_is_json_string(&key, fields[i].name))
				*fields[i].at = narrow_to_u32(number);
		if (ws_is_json_string(&key, "name"))
			row.name = ws_trace_add_string(trace, &value);
		else if (ws_is_json_string(&key, "totalGlobalMem"))
			row.memory_bytes = (uint64_t)ws_max(number, 0);
	}
	/* Until here, warps_sm holds threads. */
	if (row.warp)
		row.warps_sm /= row.warp;
	else
		row.warps_sm = 0;
	*(struct ws_row_cuda_device *)ws_importer_add_row(trace->importer, WS_TABLE_cuda_device) =
		row;
}

/* With several files, record which clock this one is on, and what its collectives show about it. */
static void report_alignment(struct ws_trace *trace)
{
	int64_t offset = compute_clock_offset(trace);

	if (trace->importer->file_count < 2)
		return;
	if (trace->epoch || trace->base_known)
		ws_importer_add_message(trace->importer,
					"Times are on the real time of the host that recorded it.");
	if (trace->importer->file && offset)
		ws_importer_add_message(
			trace->importer,
			"%zu collectives that the first file has too say that this clock is "
			"%.3f ms %s (rank.clockOffset, which is not "
			"added to the times).",
			trace->clock_offset_count, (double)llabs(offset) / 1e6,
			offset < 0 ? "ahead" : "behind");
	else if (trace->importer->file && trace->clock_offset_count)
		ws_importer_add_message(
			trace->importer,
			"%zu collectives that the first file has too do not show its clock to "
			"be off.",
			trace->clock_offset_count);
}

static void put_trace_rank(struct ws_trace *trace)
{
	uint32_t source = ws_importer_add_text(trace->importer, trace->importer->path);
	struct ws_row_rank *row = ws_importer_add_row(trace->importer, WS_TABLE_rank);

	report_alignment(trace);
	*row = (struct ws_row_rank){.process = trace->main_process,
				    .rank = trace->importer->file,
				    .world = narrow_to_u32(trace->world),
				    .source = source,
				    .local = WS_NO_U32,
				    .offset = compute_clock_offset(trace)};
	if (trace->rank >= 0 && trace->rank <= UINT32_MAX)
		row->rank = (uint32_t)trace->rank;
}

void ws_kineto_finish(struct ws_trace *trace)
{
	struct ws_json_value list, one;
	struct ws_json_walk walk;
	bool more;

	put_kept_copies(trace);
	if (trace->kineto && trace->main_process && trace->has_decimals)
		ws_map_set(&trace->importer->clocks, trace->main_process, trace->base);
	if (trace->devices.len &&
	    ws_read_json_value(trace->devices.text, trace->devices.text + trace->devices.len, &list,
			       &more) &&
	    list.type == WS_JSON_ARRAY && trace->main_process) {
		walk = ws_begin_json_walk(&list);
		while (ws_next_json_member(&walk, NULL, &one))
			if (one.type == WS_JSON_OBJECT)
				put_device(trace, &one, trace->main_process);
	}
	if (trace->main_process && (trace->rank >= 0 || trace->importer->file_count > 1))
		put_trace_rank(trace);
}
