/* load.c - the events of a report, and which of them belong to the steps asked for. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/choose.h"
#include "base/mem.h"
#include "ops/ops.h"

/* PyTorch's tables have neither the events of the profiler itself nor some operators. */
bool ws_ops_is_hidden(const char *name)
{
	static const char *const hidden[] = {"[memory]",
					     "[OutOfMemory]",
					     "profiler::_record_function_enter",
					     "profiler::_record_function_enter_new",
					     "profiler::_record_function_exit",
					     "aten::is_leaf",
					     "aten::output_nr",
					     "aten::_version"};

	for (size_t i = 0; i < WS_COUNT(hidden); i++)
		if (!strcmp(name, hidden[i]))
			return true;
	return false;
}

struct ws_ops_event *ws_ops_add_event(struct ws_ops *ops)
{
	ws_grow(ops->events, ops->event_capacity, ops->event_count + 1);
	ops->events[ops->event_count] = (struct ws_ops_event){.parent = WS_OPS_NONE};
	return &ops->events[ops->event_count++];
}

uint64_t ws_make_op_owner_key(uint64_t process, uint64_t external)
{
	return process << 48 ^ external;
}

/* ---- steps ---- */

static bool is_step_wanted(const char *steps, uint64_t number)
{
	char *end;

	for (const char *at = steps; at && *at; at = end + (*end == ',')) {
		uint64_t from = strtoull(at, &end, 10), to = from;

		if (*end == '-')
			to = strtoull(end + 1, &end, 10);
		if (number >= from && number <= to)
			return true;
	}
	return false;
}

static int check_step_list(const char *steps, struct ws_err *err)
{
	const char *at = steps;

	while (*at >= '0' && *at <= '9') {
		at += strspn(at, "0123456789");
		if (*at == '-' && at[1] >= '0' && at[1] <= '9')
			at += 1 + strspn(at + 1, "0123456789");
		if (!*at)
			return 0;
		if (*at++ != ',')
			break;
	}
	return ws_fail(err, "--step: '%s' is no list of steps such as 3, 2-4 or 1,5", steps);
}

bool ws_is_in_op_steps(const struct ws_ops *ops, uint32_t process, uint64_t at)
{
	if (!ops->request->steps)
		return true;
	for (size_t i = 0; i < ops->step_count; i++)
		if (ops->steps[i].process == process && at >= ops->steps[i].start &&
		    at < ops->steps[i].end &&
		    is_step_wanted(ops->request->steps, ops->steps[i].number))
			return true;
	return false;
}

static const char step_prefix[] = "ProfilerStep#";

static int load_op_steps(struct ws_ops *ops, struct ws_err *err)
{
	struct ws_scan scan = {.table = WS_TABLE_op,
			       .columns = WS_COLUMN_BIT(op, start) | WS_COLUMN_BIT(op, end) |
					  WS_COLUMN_BIT(op, thread) | WS_COLUMN_BIT(op, name) |
					  WS_COLUMN_BIT(op, kind),
			       .time_max = UINT64_MAX};
	struct ws_rows rows;

	if (ws_rows_load(ops->report, &scan, &rows, err) < 0)
		return -1;
	for (size_t i = 0; i < rows.rows; i++) {
		const char *name;

		if (rows.col[ws_op_kind][i] == WS_OP_PYTHON || rows.col[ws_op_end][i] == WS_NO_TIME)
			continue;
		name = ws_report_string(ops->report, (uint32_t)rows.col[ws_op_name][i], NULL);
		if (strncmp(name, step_prefix, sizeof(step_prefix) - 1))
			continue;
		ws_grow(ops->steps, ops->step_capacity, ops->step_count + 1);
		ops->steps[ops->step_count++] = (struct ws_ops_step){
			.start = rows.col[ws_op_start][i],
			.end = rows.col[ws_op_end][i],
			.number = strtoull(name + sizeof(step_prefix) - 1, NULL, 10),
			.process = ws_find_thread(ops->who, (uint32_t)rows.col[ws_op_thread][i])
					   ->process,
		};
	}
	ws_rows_free(&rows);
	return 0;
}

static int load_steps(struct ws_ops *ops, struct ws_err *err)
{
	bool found = false;
	int status;

	if (ws_are_ops_from_ranges(ops))
		status = ws_ops_load_range_steps(ops, err);
	else
		status = load_op_steps(ops, err);
	if (status < 0)
		return -1;
	for (size_t i = 0; i < ops->step_count && ops->request->steps; i++)
		found |= is_step_wanted(ops->request->steps, ops->steps[i].number);
	if (!ops->request->steps || found)
		return 0;
	if (!ops->step_count)
		return ws_fail(err, "--step: there are no steps (ProfilerStep#N) in %s",
			       ws_report_path(ops->report));
	return ws_fail(err, "--step: there is no step %s in %s; --view=steps lists those there are",
		       ops->request->steps, ws_report_path(ops->report));
}

/* ---- events of the CPU ---- */

uint32_t ws_get_op_name_key(const struct ws_ops *ops, const char *name, uint32_t id)
{
	if (!strncmp(name, step_prefix, sizeof(step_prefix) - 1))
		return WS_OPS_STEP_NAME;
	return ws_report_string_key(ops->report, id);
}

const char *ws_get_op_name(const struct ws_ops *ops, uint32_t name)
{
	if (name == WS_OPS_STEP_NAME)
		return "ProfilerStep*";
	return ws_get_op_text(ops, name);
}

/*
 * PyTorch's tables leave out the shapes of tensors in a list, which a trace has: "[[[8, 8], [8]],
 * [2]]" is "[[], [2]]" there. So an element of the outermost list that itself has lists becomes
 * empty. Returns the number of such a text.
 */
static uint32_t remove_nested_shapes(struct ws_ops *ops, struct ws_map *known, uint32_t id)
{
	const char *text = ws_report_string(ops->report, id, NULL);
	struct ws_text out = {0};
	size_t part = 0; /* where the last element of the outermost list begins */
	int depth = 0;
	bool found, lists = false, nested = false;
	uint32_t made = (uint32_t)ws_map_get(known, id, &found);

	if (found)
		return made;
	for (; *text; text++) {
		depth += *text == '[';
		lists = depth > 1 && (lists || depth > 2);
		if (*text == '[' && depth == 3)
			out.len = part;
		if (!lists || (*text == ']' && depth == 2))
			ws_text_add(&out, text, 1);
		if (*text == '[' && depth == 2)
			part = out.len;
		nested |= depth > 2;
		depth -= *text == ']';
	}
	made = id;
	if (nested)
		made = ws_add_op_text(ops, out.text, out.len);
	ws_text_free(&out);
	ws_map_set(known, id, made);
	return made;
}

/* The kind of an event, from the kind of its row in the table of operators. */
static uint8_t get_event_kind(uint64_t op_kind)
{
	if (op_kind == WS_OP_PYTHON)
		return WS_OPS_PYTHON;
	if (op_kind == WS_OP_ANNOTATION)
		return WS_OPS_ANNOTATION;
	return WS_OPS_CPU;
}

static int load_op_events(struct ws_ops *ops, struct ws_err *err)
{
	struct ws_map shapes = {0};
	bool modules = !strcmp(ops->request->view, "modules"), python = ops->request->python;
	struct ws_scan scan = {.table = WS_TABLE_op,
			       .columns = WS_COLUMN_BIT(op, start) | WS_COLUMN_BIT(op, end) |
					  WS_COLUMN_BIT(op, thread) | WS_COLUMN_BIT(op, name) |
					  WS_COLUMN_BIT(op, kind) | WS_COLUMN_BIT(op, external) |
					  WS_COLUMN_BIT(op, shapes) | WS_COLUMN_BIT(op, stack) |
					  WS_COLUMN_BIT(op, flops),
			       .time_max = UINT64_MAX};
	struct ws_rows rows;

	if (ws_rows_load(ops->report, &scan, &rows, err) < 0)
		return -1;
	ops->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++) {
		uint32_t thread = (uint32_t)rows.col[ws_op_thread][i],
			 process = ws_find_thread(ops->who, thread)->process;
		uint32_t id = (uint32_t)rows.col[ws_op_name][i];
		const char *name = ws_report_string(ops->report, id, NULL);
		struct ws_ops_event *event;

		if (rows.col[ws_op_end][i] == WS_NO_TIME || ws_ops_is_hidden(name) ||
		    !ws_is_in_op_steps(ops, process, rows.col[ws_op_start][i]))
			continue;
		if (rows.col[ws_op_kind][i] == WS_OP_PYTHON && !python &&
		    !(modules && !strncmp(name, "nn.Module: ", 11)))
			continue;
		event = ws_ops_add_event(ops);
		event->start = rows.col[ws_op_start][i];
		event->end = rows.col[ws_op_end][i];
		event->thread = thread;
		event->process = process;
		event->name = ws_get_op_name_key(ops, name, id);
		event->shapes = (uint32_t)rows.col[ws_op_shapes][i];
		if (ops->request->by_shape)
			event->shapes = remove_nested_shapes(ops, &shapes, event->shapes);
		event->stack = (uint32_t)rows.col[ws_op_stack][i];
		event->flops = rows.col[ws_op_flops][i];
		event->kind = get_event_kind(rows.col[ws_op_kind][i]);
		/* device_own holds the number that GPU events are linked to until find_owners, when
		 * events are in order. */
		event->device_own = WS_NO_U64;
		if (event->kind != WS_OPS_PYTHON)
			event->device_own = rows.col[ws_op_external][i];
	}
	ws_rows_free(&rows);
	ws_map_free(&shapes);
	return 0;
}

/* The number of a call's name without its version: "cudaLaunchKernel_v7000" of a recording is
 * "cudaLaunchKernel" in a trace. */
static uint32_t get_call_name(struct ws_ops *ops, struct ws_map *names, uint32_t id)
{
	bool found;
	uint32_t number = (uint32_t)ws_map_get(names, id, &found);
	size_t len, length;
	const char *text;

	if (found)
		return number;
	text = ws_report_string(ops->report, id, &len);
	for (length = len; length && isdigit((unsigned char)text[length - 1]);)
		length--;
	if (length > 2 && len - length >= 4 && text[length - 1] == 'v' &&
	    text[length - 2] == '_') /* "_v2" is part of the name */
		len = length - 2;
	number = ws_add_op_text(ops, text, len);
	ws_map_set(names, id, number);
	return number;
}

static int load_call_events(struct ws_ops *ops, const struct ws_map *links, struct ws_map *starts,
			    struct ws_err *err)
{
	struct ws_scan scan = {
		.table = WS_TABLE_cuda_api,
		.columns = WS_COLUMN_BIT(cuda_api, start) | WS_COLUMN_BIT(cuda_api, end) |
			   WS_COLUMN_BIT(cuda_api, thread) | WS_COLUMN_BIT(cuda_api, name) |
			   WS_COLUMN_BIT(cuda_api, correlation),
		.time_max = UINT64_MAX};
	struct ws_map names = {0};
	struct ws_rows rows;

	if (ws_rows_load(ops->report, &scan, &rows, err) < 0)
		return -1;
	ops->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++) {
		uint32_t thread = (uint32_t)rows.col[ws_cuda_api_thread][i],
			 process = ws_find_thread(ops->who, thread)->process;
		uint64_t start = rows.col[ws_cuda_api_start][i];
		uint64_t key = ws_make_op_owner_key(process, rows.col[ws_cuda_api_correlation][i]);
		struct ws_ops_event *event;
		bool linked;

		if (ops->request->steps)
			ws_map_set(starts, key, start);
		if (rows.col[ws_cuda_api_end][i] == WS_NO_TIME ||
		    !ws_is_in_op_steps(ops, process, start))
			continue;
		event = ws_ops_add_event(ops);
		event->start = start;
		event->end = rows.col[ws_cuda_api_end][i];
		event->thread = thread;
		event->process = process;
		event->name = get_call_name(ops, &names, (uint32_t)rows.col[ws_cuda_api_name][i]);
		event->kind = WS_OPS_CALL;
		event->device_own = WS_NO_U64;
		ws_map_get(links, key, &linked);
		event->loose = !linked;
	}
	ws_map_free(&names);
	ws_rows_free(&rows);
	return 0;
}

static int compare_events(const void *first, const void *second)
{
	const struct ws_ops_event *left = first, *right = second;

	if (left->thread != right->thread)
		return ws_compare(left->thread, right->thread);
	if (left->start != right->start)
		return ws_compare(left->start, right->start);
	if (left->end != right->end)
		return ws_compare(right->end, left->end);
	return (int)left->kind - (int)right->kind;
}

/* ---- GPU events ---- */

/* The links of (process, correlation) to operators. */
static int load_op_links(struct ws_ops *ops, struct ws_map *links, struct ws_err *err)
{
	struct ws_scan scan = {.table = WS_TABLE_op_link,
			       .columns = WS_COLUMN_BIT(op_link, process) |
					  WS_COLUMN_BIT(op_link, correlation) |
					  WS_COLUMN_BIT(op_link, external),
			       .time_max = UINT64_MAX};
	struct ws_rows rows;

	if (ws_rows_load(ops->report, &scan, &rows, err) < 0)
		return -1;
	for (size_t i = 0; i < rows.rows; i++)
		ws_map_set(links,
			   ws_make_op_owner_key(rows.col[ws_op_link_process][i],
						rows.col[ws_op_link_correlation][i]),
			   rows.col[ws_op_link_external][i]);
	ws_rows_free(&rows);
	return 0;
}

/* The columns of a table of GPU work. */
struct gpu_table {
	enum ws_table table;
	int start, end, process, correlation;
	int name; /* -1 where the name is made of the kinds */
	int kind, from,
		to; /* kinds of the copy, of its source, of the memory written; -1 for none */
};

static const struct gpu_table gpu_tables[] = {
	{WS_TABLE_cuda_kernel, ws_cuda_kernel_start, ws_cuda_kernel_end, ws_cuda_kernel_process,
	 ws_cuda_kernel_correlation, ws_cuda_kernel_demangled, -1, -1, -1},
	{WS_TABLE_cuda_memcpy, ws_cuda_memcpy_start, ws_cuda_memcpy_end, ws_cuda_memcpy_process,
	 ws_cuda_memcpy_correlation, -1, ws_cuda_memcpy_kind, ws_cuda_memcpy_src_kind,
	 ws_cuda_memcpy_dst_kind},
	{WS_TABLE_cuda_memset, ws_cuda_memset_start, ws_cuda_memset_end, ws_cuda_memset_process,
	 ws_cuda_memset_correlation, -1, -1, -1, ws_cuda_memset_mem_kind},
};

static uint64_t make_column_bit(int column)
{
	if (column < 0)
		return 0;
	return UINT64_C(1) << column;
}

/* The name of a copy or set, made of the kinds of memory: the report has none. */
static uint32_t make_copy_name(const struct gpu_table *table, const struct ws_rows *rows, size_t i)
{
	uint64_t kind = WS_OPS_SET, from = WS_OPS_NO_MEMORY;

	if (table->kind >= 0)
		kind = rows->col[table->kind][i];
	if (table->from >= 0)
		from = rows->col[table->from][i];
	return ws_make_op_copy_name(kind, from, rows->col[table->to][i]);
}

/* The length of GPU work as counted for its operator, in parts of a nanosecond: see
 * query/doubles.h. */
static uint64_t compute_own_length(struct ws_ops *ops, uint32_t process, uint64_t start,
				   uint64_t end)
{
	struct ws_doubles_shift shift = ws_doubles_find_shift(&ops->doubles, process, start, end);

	ops->fraction |= shift.start || shift.end;
	return (end - start) * WS_DOUBLES_PARTS + (uint64_t)(shift.end - shift.start);
}

static int load_gpu_events(struct ws_ops *ops, const struct gpu_table *table,
			   const struct ws_map *links, const struct ws_map *starts,
			   struct ws_err *err)
{
	struct ws_scan scan = {.table = table->table, .time_max = UINT64_MAX};
	struct ws_rows rows;

	scan.columns = make_column_bit(table->start) | make_column_bit(table->end) |
		       make_column_bit(table->process) | make_column_bit(table->correlation) |
		       make_column_bit(table->name) | make_column_bit(table->kind) |
		       make_column_bit(table->from) | make_column_bit(table->to);
	if (ws_rows_load(ops->report, &scan, &rows, err) < 0)
		return -1;
	ops->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++) {
		uint64_t start = rows.col[table->start][i], end = rows.col[table->end][i],
			 at = start;
		uint64_t key = ws_make_op_owner_key(rows.col[table->process][i],
						    rows.col[table->correlation][i]);
		uint32_t process = (uint32_t)rows.col[table->process][i];
		struct ws_ops_event *event;
		bool found;
		uint64_t value, length;

		if (end == WS_NO_TIME || end < start)
			continue;
		if (ops->edges.count)
			ws_note_gpu_edges(ops, start, end);
		value = ws_map_get(starts, key, &found);
		if (found) /* work belongs to the step in which it was launched */
			at = value;
		if (!ws_is_in_op_steps(ops, process, at))
			continue;
		event = ws_ops_add_event(ops);
		event->start = start;
		event->end = end;
		event->process = process;
		event->kind = WS_OPS_GPU;
		event->device_own = event->device_total = (end - start) * WS_DOUBLES_PARTS;
		if (table->name < 0)
			event->name = make_copy_name(table, &rows, i);
		else
			event->name = ws_report_string_key(ops->report,
							   (uint32_t)rows.col[table->name][i]);
		length = compute_own_length(ops, process, start, end);
		ops->gpu_own += length;
		value = ws_map_get(links, key, &found);
		if (found &&
		    (value = ws_map_get(&ops->owner, ws_make_op_owner_key(process, value), NULL)))
			ops->events[value - 1].device_own += length;
	}
	ws_rows_free(&rows);
	return 0;
}

/* ---- memory ---- */

static int compare_memory_times(const void *first, const void *second)
{
	const struct ws_ops_memory *left = first, *right = second;

	if (left->process != right->process)
		return ws_compare(left->process, right->process);
	return ws_compare(left->time, right->time);
}

static void load_memory_records(struct ws_ops *ops)
{
	struct ws_cursor *cursor = ws_cursor_open(ops->report, WS_TABLE_op_memory, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint32_t thread = (uint32_t)values[ws_op_memory_thread],
			 process = ws_find_thread(ops->who, thread)->process;

		if (!ws_is_in_op_steps(ops, process, values[ws_op_memory_start]))
			continue;
		ws_grow(ops->memory, ops->memory_capacity, ops->memory_count + 1);
		ops->memory[ops->memory_count++] = (struct ws_ops_memory){
			.time = values[ws_op_memory_start],
			.address = values[ws_op_memory_address],
			.allocated = values[ws_op_memory_allocated],
			.reserved = values[ws_op_memory_reserved],
			.bytes = (int64_t)values[ws_op_memory_bytes],
			.process = process,
			.thread = thread,
			.device = (int32_t)values[ws_op_memory_device],
			.type = (uint8_t)values[ws_op_memory_device_type],
		};
	}
	ws_cursor_close(cursor);
	if (ops->memory_count)
		qsort(ops->memory, ops->memory_count, sizeof(*ops->memory), compare_memory_times);
}

/* ---- all together ---- */

/* Fill `owner` with the events of the CPU by the number that GPU work is linked to. */
static void find_owners(struct ws_ops *ops)
{
	for (size_t i = 0; i < ops->cpu_count; i++) {
		uint64_t external = ops->events[i].device_own;

		ops->events[i].device_own = 0;
		if (external != WS_NO_U64 && external)
			ws_map_set(&ops->owner,
				   ws_make_op_owner_key(ops->events[i].process, external), i + 1);
	}
}

/* Read the events of the CPU. Returns 0, or -1 with a message. */
static int load_cpu_events(struct ws_ops *ops, struct ws_map *links, struct ws_map *starts,
			   struct ws_err *err)
{
	if (ws_are_ops_from_ranges(ops)) {
		if (ws_ops_load_ranges(ops, links, err) < 0)
			return -1;
		return load_call_events(ops, links, starts, err);
	}
	if (load_op_events(ops, err) < 0 || load_op_links(ops, links, err) < 0 ||
	    load_call_events(ops, links, starts, err) < 0)
		return -1;
	return ws_ops_load_traced(ops, err);
}

int ws_ops_load(struct ws_ops *ops, struct ws_err *err)
{
	struct ws_map links = {0}, starts = {0};
	int status;

	if (ops->request->steps && check_step_list(ops->request->steps, err) < 0)
		return -1;
	status = load_steps(ops, err);
	if (!status && !strcmp(ops->request->view, "steps"))
		return 0;
	if (!status)
		status = load_cpu_events(ops, &links, &starts, err);
	if (!status) {
		ops->cpu_count = ops->event_count;
		if (ops->event_count)
			qsort(ops->events, ops->event_count, sizeof(*ops->events), compare_events);
		find_owners(ops);
		status = ws_ops_load_gpu_annotations(ops, err);
		for (size_t i = 0; i < WS_COUNT(gpu_tables) && !status; i++)
			status = load_gpu_events(ops, &gpu_tables[i], &links, &starts, err);
		ws_ops_trim_gpu_annotations(ops);
		load_memory_records(ops);
	}
	ws_map_free(&links);
	ws_map_free(&starts);
	if (!status)
		ws_ops_nest(ops);
	return status;
}

void ws_ops_free(struct ws_ops *ops)
{
	free(ops->events);
	free(ops->memory);
	free(ops->steps);
	free(ops->mains);
	ws_map_free(&ops->main_index);
	ws_map_free(&ops->edges);
	ws_map_free(&ops->owner);
	ws_free_text_numbers(&ops->texts);
	ws_text_free(&ops->scratch);
}
