/* load.c - the events of a report, and which of them belong to the steps asked for. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "ops/ops.h"

/* What the profiler itself does, and names that PyTorch leaves out. */
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

struct ws_ops_event *ws_ops_add(struct ws_ops *o)
{
	ws_grow(o->events, o->cap, o->count + 1);
	o->events[o->count] = (struct ws_ops_event){.parent = WS_OPS_NONE};
	return &o->events[o->count++];
}

uint64_t ws_ops_owner_key(uint64_t process, uint64_t external)
{
	return process << 48 ^ external;
}

/* ---- steps ---- */

static bool step_wanted(const char *steps, uint64_t number)
{
	char *end;

	for (const char *p = steps; p && *p; p = *end == ',' ? end + 1 : end) {
		uint64_t from = strtoull(p, &end, 10), to = from;

		if (*end == '-')
			to = strtoull(end + 1, &end, 10);
		if (number >= from && number <= to)
			return true;
	}
	return false;
}

static int check_steps(const char *steps, struct ws_err *e)
{
	const char *p = steps;

	while (*p >= '0' && *p <= '9') {
		p += strspn(p, "0123456789");
		if (*p == '-' && p[1] >= '0' && p[1] <= '9')
			p += 1 + strspn(p + 1, "0123456789");
		if (!*p)
			return 0;
		if (*p++ != ',')
			break;
	}
	return ws_fail(e, "--step: '%s' is no list of steps such as 3, 2-4 or 1,5", steps);
}

/* Is the moment in one of the steps asked for? All are, when none was asked for. */
bool ws_ops_in_steps(const struct ws_ops *o, uint32_t process, uint64_t at)
{
	if (!o->q->steps)
		return true;
	for (size_t i = 0; i < o->step_count; i++)
		if (o->steps[i].process == process && at >= o->steps[i].start &&
		    at < o->steps[i].end && step_wanted(o->q->steps, o->steps[i].number))
			return true;
	return false;
}

static const char step_prefix[] = "ProfilerStep#";

static int load_op_steps(struct ws_ops *o, struct ws_err *e)
{
	struct ws_scan scan = {.table = WS_TABLE_op,
			       .columns = WS_COL(op, start) | WS_COL(op, end) | WS_COL(op, thread) |
					  WS_COL(op, name) | WS_COL(op, kind),
			       .time_max = UINT64_MAX};
	struct ws_rows rows;

	if (ws_rows_load(o->r, &scan, &rows, e) < 0)
		return -1;
	for (size_t i = 0; i < rows.rows; i++) {
		const char *name;

		if (rows.col[ws_op_kind][i] == WS_OP_PYTHON || rows.col[ws_op_end][i] == WS_NO_TIME)
			continue;
		name = ws_report_string(o->r, (uint32_t)rows.col[ws_op_name][i], NULL);
		if (strncmp(name, step_prefix, sizeof(step_prefix) - 1))
			continue;
		ws_grow(o->steps, o->step_cap, o->step_count + 1);
		o->steps[o->step_count++] = (struct ws_ops_step){
			.start = rows.col[ws_op_start][i],
			.end = rows.col[ws_op_end][i],
			.number = strtoull(name + sizeof(step_prefix) - 1, NULL, 10),
			.process =
				ws_who_thread(o->who, (uint32_t)rows.col[ws_op_thread][i])->process,
		};
	}
	ws_rows_free(&rows);
	return 0;
}

static int load_steps(struct ws_ops *o, struct ws_err *e)
{
	bool found = false;

	if ((ws_ops_from_ranges(o) ? ws_ops_load_range_steps(o, e) : load_op_steps(o, e)) < 0)
		return -1;
	for (size_t i = 0; i < o->step_count && o->q->steps; i++)
		found |= step_wanted(o->q->steps, o->steps[i].number);
	if (!o->q->steps || found)
		return 0;
	if (!o->step_count)
		return ws_fail(e, "--step: there are no steps (ProfilerStep#N) in %s",
			       ws_report_path(o->r));
	return ws_fail(e, "--step: there is no step %s in %s; --view=steps lists those there are",
		       o->q->steps, ws_report_path(o->r));
}

/* ---- events of the CPU ---- */

uint32_t ws_ops_name_key(const struct ws_ops *o, const char *name, uint32_t id)
{
	return strncmp(name, step_prefix, sizeof(step_prefix) - 1) ? ws_report_string_key(o->r, id)
								   : (uint32_t)WS_OPS_STEP_NAME;
}

const char *ws_ops_name(const struct ws_ops *o, uint32_t name)
{
	return name == WS_OPS_STEP_NAME ? "ProfilerStep*" : ws_ops_text(o, name);
}

/*
 * PyTorch's tables leave out what a trace says of the tensors in a list of them: "[[[8, 8], [8]],
 * [2]]" reads "[[], [2]]" there. So a part of the outermost list that holds lists itself is left
 * empty.
 */
static uint32_t shapes_without_lists(struct ws_ops *o, struct ws_map *known, uint32_t id)
{
	const char *s = ws_report_string(o->r, id, NULL);
	struct ws_text out = {0};
	size_t part = 0; /* where the text of a part begins */
	int depth = 0;
	bool found, lists = false, nested = false;
	uint32_t made = (uint32_t)ws_map_get(known, id, &found);

	if (found)
		return made;
	for (; *s; s++) {
		depth += *s == '[';
		lists = depth > 1 && (lists || depth > 2);
		if (*s == '[' && depth == 3)
			out.len = part;
		if (!lists || (*s == ']' && depth == 2))
			ws_text_add(&out, s, 1);
		if (*s == '[' && depth == 2)
			part = out.len;
		nested |= depth > 2;
		depth -= *s == ']';
	}
	made = nested ? ws_ops_made_text(o, out.s, out.len) : id;
	ws_text_free(&out);
	ws_map_set(known, id, made);
	return made;
}

static int load_ops(struct ws_ops *o, struct ws_err *e)
{
	struct ws_map shapes = {0};
	bool modules = !strcmp(o->q->view, "modules"), python = o->q->python;
	struct ws_scan scan = {.table = WS_TABLE_op,
			       .columns = WS_COL(op, start) | WS_COL(op, end) | WS_COL(op, thread) |
					  WS_COL(op, name) | WS_COL(op, kind) |
					  WS_COL(op, external) | WS_COL(op, shapes) |
					  WS_COL(op, stack) | WS_COL(op, flops),
			       .time_max = UINT64_MAX};
	struct ws_rows rows;

	if (ws_rows_load(o->r, &scan, &rows, e) < 0)
		return -1;
	o->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++) {
		uint32_t thread = (uint32_t)rows.col[ws_op_thread][i],
			 process = ws_who_thread(o->who, thread)->process;
		uint32_t id = (uint32_t)rows.col[ws_op_name][i];
		const char *name = ws_report_string(o->r, id, NULL);
		struct ws_ops_event *ev;

		if (rows.col[ws_op_end][i] == WS_NO_TIME || ws_ops_is_hidden(name) ||
		    !ws_ops_in_steps(o, process, rows.col[ws_op_start][i]))
			continue;
		if (rows.col[ws_op_kind][i] == WS_OP_PYTHON && !python &&
		    !(modules && !strncmp(name, "nn.Module: ", 11)))
			continue;
		ev = ws_ops_add(o);
		ev->start = rows.col[ws_op_start][i];
		ev->end = rows.col[ws_op_end][i];
		ev->thread = thread;
		ev->process = process;
		ev->name = ws_ops_name_key(o, name, id);
		ev->shapes = (uint32_t)rows.col[ws_op_shapes][i];
		if (o->q->by_shape)
			ev->shapes = shapes_without_lists(o, &shapes, ev->shapes);
		ev->stack = (uint32_t)rows.col[ws_op_stack][i];
		ev->flops = rows.col[ws_op_flops][i];
		ev->kind = rows.col[ws_op_kind][i] == WS_OP_PYTHON	 ? WS_OPS_PYTHON
			   : rows.col[ws_op_kind][i] == WS_OP_ANNOTATION ? WS_OPS_ANNOTATION
									 : WS_OPS_CPU;
		/* By which GPU events find it, once events are in order: kept in device_own until
		 * then. */
		ev->device_own =
			ev->kind == WS_OPS_PYTHON ? WS_NO_U64 : rows.col[ws_op_external][i];
	}
	ws_rows_free(&rows);
	ws_map_free(&shapes);
	return 0;
}

/* "cudaLaunchKernel_v7000" of a recording is "cudaLaunchKernel" of a trace: the version is no part
 * of the name here. */
static uint32_t call_name(struct ws_ops *o, struct ws_map *names, uint32_t id)
{
	bool found;
	uint32_t number = (uint32_t)ws_map_get(names, id, &found);
	size_t len, n;
	const char *s;

	if (found)
		return number;
	s = ws_report_string(o->r, id, &len);
	for (n = len; n && isdigit((unsigned char)s[n - 1]);)
		n--;
	if (n > 2 && len - n >= 4 && s[n - 1] == 'v' &&
	    s[n - 2] == '_') /* "_v2" is part of the name */
		len = n - 2;
	number = ws_ops_made_text(o, s, len);
	ws_map_set(names, id, number);
	return number;
}

static int load_calls(struct ws_ops *o, const struct ws_map *links, struct ws_map *starts,
		      struct ws_err *e)
{
	struct ws_scan scan = {.table = WS_TABLE_cuda_api,
			       .columns = WS_COL(cuda_api, start) | WS_COL(cuda_api, end) |
					  WS_COL(cuda_api, thread) | WS_COL(cuda_api, name) |
					  WS_COL(cuda_api, correlation),
			       .time_max = UINT64_MAX};
	struct ws_map names = {0};
	struct ws_rows rows;

	if (ws_rows_load(o->r, &scan, &rows, e) < 0)
		return -1;
	o->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++) {
		uint32_t thread = (uint32_t)rows.col[ws_cuda_api_thread][i],
			 process = ws_who_thread(o->who, thread)->process;
		uint64_t start = rows.col[ws_cuda_api_start][i];
		uint64_t key = ws_ops_owner_key(process, rows.col[ws_cuda_api_correlation][i]);
		struct ws_ops_event *ev;
		bool linked;

		if (o->q->steps)
			ws_map_set(starts, key, start);
		if (rows.col[ws_cuda_api_end][i] == WS_NO_TIME ||
		    !ws_ops_in_steps(o, process, start))
			continue;
		ev = ws_ops_add(o);
		ev->start = start;
		ev->end = rows.col[ws_cuda_api_end][i];
		ev->thread = thread;
		ev->process = process;
		ev->name = call_name(o, &names, (uint32_t)rows.col[ws_cuda_api_name][i]);
		ev->kind = WS_OPS_CALL;
		ev->device_own = WS_NO_U64;
		ws_map_get(links, key, &linked);
		ev->loose = !linked;
	}
	ws_map_free(&names);
	ws_rows_free(&rows);
	return 0;
}

static int by_thread(const void *a, const void *b)
{
	const struct ws_ops_event *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return (int)x->kind - (int)y->kind;
}

/* ---- GPU events ---- */

/* The links of (process, correlation) to operators. */
static int load_links(struct ws_ops *o, struct ws_map *links, struct ws_err *e)
{
	struct ws_scan scan = {.table = WS_TABLE_op_link,
			       .columns = WS_COL(op_link, process) | WS_COL(op_link, correlation) |
					  WS_COL(op_link, external),
			       .time_max = UINT64_MAX};
	struct ws_rows rows;

	if (ws_rows_load(o->r, &scan, &rows, e) < 0)
		return -1;
	for (size_t i = 0; i < rows.rows; i++)
		ws_map_set(links,
			   ws_ops_owner_key(rows.col[ws_op_link_process][i],
					    rows.col[ws_op_link_correlation][i]),
			   rows.col[ws_op_link_external][i]);
	ws_rows_free(&rows);
	return 0;
}

struct gpu_table {
	enum ws_table table;
	int start, end, process, correlation, name; /* columns; name -1: it is made of the kinds */
	int kind, from, to; /* of a copy, of the memory copied from and to, or set; -1 for none */
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

static uint64_t bit(int column)
{
	return column < 0 ? 0 : UINT64_C(1) << column;
}

/* Copies and sets have no name in a report: theirs says which kind of memory. */
static uint32_t made_name(const struct gpu_table *t, const struct ws_rows *rows, size_t i)
{
	uint64_t kind = t->kind < 0 ? WS_OPS_SET : rows->col[t->kind][i];
	uint64_t from = t->from < 0 ? WS_OPS_NO_MEMORY : rows->col[t->from][i],
		 to = rows->col[t->to][i];

	return ws_ops_made_name(kind, from, to);
}

/* The length of GPU work that an operator gets, in parts of a nanosecond: see query/doubles.h. */
static uint64_t own_length(struct ws_ops *o, uint32_t process, uint64_t start, uint64_t end)
{
	struct ws_doubles_shift by = ws_doubles_of(&o->doubles, process, start, end);

	o->fraction |= by.start || by.end;
	return (end - start) * WS_DOUBLES_PARTS + (uint64_t)(by.end - by.start);
}

static int load_gpu_table(struct ws_ops *o, const struct gpu_table *t, const struct ws_map *links,
			  const struct ws_map *starts, struct ws_err *e)
{
	struct ws_scan scan = {.table = t->table, .time_max = UINT64_MAX};
	struct ws_rows rows;

	scan.columns = bit(t->start) | bit(t->end) | bit(t->process) | bit(t->correlation) |
		       bit(t->name) | bit(t->kind) | bit(t->from) | bit(t->to);
	if (ws_rows_load(o->r, &scan, &rows, e) < 0)
		return -1;
	o->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++) {
		uint64_t start = rows.col[t->start][i], end = rows.col[t->end][i], at = start;
		uint64_t key =
			ws_ops_owner_key(rows.col[t->process][i], rows.col[t->correlation][i]);
		uint32_t process = (uint32_t)rows.col[t->process][i];
		struct ws_ops_event *ev;
		bool found;
		uint64_t value, length;

		if (end == WS_NO_TIME || end < start)
			continue;
		if (o->edges.n)
			ws_ops_gpu_edges(o, start, end);
		value = ws_map_get(starts, key, &found);
		if (found) /* work belongs to the step that called it */
			at = value;
		if (!ws_ops_in_steps(o, process, at))
			continue;
		ev = ws_ops_add(o);
		ev->start = start;
		ev->end = end;
		ev->process = process;
		ev->kind = WS_OPS_GPU;
		ev->device_own = ev->device_total = (end - start) * WS_DOUBLES_PARTS;
		ev->name = t->name < 0 ? made_name(t, &rows, i)
				       : ws_report_string_key(o->r, (uint32_t)rows.col[t->name][i]);
		length = own_length(o, process, start, end);
		o->gpu_own += length;
		value = ws_map_get(links, key, &found);
		if (found &&
		    (value = ws_map_get(&o->owner, ws_ops_owner_key(process, value), NULL)))
			o->events[value - 1].device_own += length;
	}
	ws_rows_free(&rows);
	return 0;
}

/* ---- memory ---- */

static int by_time(const void *a, const void *b)
{
	const struct ws_ops_memory *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->time < y->time ? -1 : x->time > y->time;
}

static void load_memory(struct ws_ops *o)
{
	struct ws_cursor *c = ws_cursor_open(o->r, WS_TABLE_op_memory, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		uint32_t thread = (uint32_t)v[ws_op_memory_thread],
			 process = ws_who_thread(o->who, thread)->process;

		if (!ws_ops_in_steps(o, process, v[ws_op_memory_start]))
			continue;
		ws_grow(o->memory, o->memory_cap, o->memory_count + 1);
		o->memory[o->memory_count++] = (struct ws_ops_memory){
			.time = v[ws_op_memory_start],
			.address = v[ws_op_memory_address],
			.allocated = v[ws_op_memory_allocated],
			.reserved = v[ws_op_memory_reserved],
			.bytes = (int64_t)v[ws_op_memory_bytes],
			.process = process,
			.thread = thread,
			.device = (int32_t)v[ws_op_memory_device],
			.type = (uint8_t)v[ws_op_memory_device_type],
		};
	}
	ws_cursor_close(c);
	if (o->memory_count)
		qsort(o->memory, o->memory_count, sizeof(*o->memory), by_time);
}

/* ---- all of it ---- */

static void find_owners(struct ws_ops *o)
{
	for (size_t i = 0; i < o->cpu_count; i++) {
		uint64_t external = o->events[i].device_own;

		o->events[i].device_own = 0;
		if (external != WS_NO_U64 && external)
			ws_map_set(&o->owner, ws_ops_owner_key(o->events[i].process, external),
				   i + 1);
	}
}

int ws_ops_load(struct ws_ops *o, struct ws_err *e)
{
	struct ws_map links = {0}, starts = {0};
	int rc;

	if (o->q->steps && check_steps(o->q->steps, e) < 0)
		return -1;
	rc = load_steps(o, e);
	if (!rc && !strcmp(o->q->view, "steps"))
		return 0;
	if (!rc && ws_ops_from_ranges(o))
		rc = ws_ops_load_ranges(o, &links, e);
	else if (!rc)
		rc = load_ops(o, e) < 0 || load_links(o, &links, e) < 0 ? -1 : 0;
	rc = rc < 0 || load_calls(o, &links, &starts, e) < 0 ? -1 : 0;
	if (!rc && !ws_ops_from_ranges(o))
		rc = ws_ops_load_traced(o, e);
	if (!rc) {
		o->cpu_count = o->count;
		if (o->count)
			qsort(o->events, o->count, sizeof(*o->events), by_thread);
		find_owners(o);
		rc = ws_ops_load_gpu_annotations(o, e);
		for (size_t i = 0; i < WS_COUNT(gpu_tables) && !rc; i++)
			rc = load_gpu_table(o, &gpu_tables[i], &links, &starts, e);
		ws_ops_trim_gpu_annotations(o);
		load_memory(o);
	}
	ws_map_free(&links);
	ws_map_free(&starts);
	if (!rc)
		ws_ops_nest(o);
	return rc;
}

void ws_ops_free(struct ws_ops *o)
{
	free(o->events);
	free(o->memory);
	free(o->steps);
	free(o->mains);
	ws_map_free(&o->main_index);
	ws_map_free(&o->edges);
	ws_map_free(&o->owner);
	ws_texts_free(&o->texts);
	ws_text_free(&o->scratch);
}
