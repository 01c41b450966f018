/*
 * trace_rows.c - what the importers of JSON traces make rows with: arguments of events, processes
 * and threads by the trace's names for them.
 */
#include "import/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/compiler.h"

/* ---- arguments ---- */

static const struct {
	const char *text;
	uint8_t n;
} arg_names[WS_A_COUNT] = {
#define WS_TRACE_ARG(name, text) {text, sizeof(text) - 1},
#include "import/trace_args.def"
#undef WS_TRACE_ARG
};

static uint8_t arg_slots[256]; /* number + 1 */

static unsigned arg_hash(const char *text, size_t n)
{
	return ((unsigned)n * 37 + (unsigned char)text[0] * 7 + (unsigned char)text[n / 2] * 13 +
		(unsigned char)text[n - 1] * 3) &
	       255;
}

void ws_trace_args_begin(void)
{
	if (arg_slots[arg_hash(arg_names[0].text, arg_names[0].n)])
		return;
	for (int i = 0; i < WS_A_COUNT; i++) {
		unsigned at = arg_hash(arg_names[i].text, arg_names[i].n);

		while (arg_slots[at])
			at = (at + 1) & 255;
		arg_slots[at] = (uint8_t)(i + 1);
	}
}

static int arg_number(const struct ws_json_value *key)
{
	if (!key->n)
		return -1;
	for (unsigned at = arg_hash(key->text, key->n); arg_slots[at]; at = (at + 1) & 255) {
		int i = arg_slots[at] - 1;

		if (arg_names[i].n == key->n && !memcmp(arg_names[i].text, key->text, key->n))
			return i;
	}
	return -1;
}

void ws_trace_args(struct ws_trace *trace, const struct ws_event *ev)
{
	struct ws_json_walk walk;
	struct ws_json_value key, value;

	trace->stamp++;
	trace->others = 0;
	if (ev->args.type != WS_J_OBJECT)
		return;
	walk = ws_json_walk(&ev->args);
	while (ws_json_next(&walk, &key, &value)) {
		int a = arg_number(&key);

		if (a >= 0) {
			trace->arg[a] = value;
			trace->arg_stamp[a] = trace->stamp;
		} else if (trace->others < (int)WS_COUNT(trace->other)) {
			trace->other[trace->others].key = key;
			trace->other[trace->others++].value = value;
		} else {
			ws_into_note(trace->into,
				     "Arguments beyond %zu of one event were left out.",
				     WS_COUNT(trace->other));
		}
	}
}

uint64_t ws_trace_u64(const struct ws_trace *trace, enum ws_trace_arg arg, uint64_t none)
{
	const struct ws_json_value *value = ws_trace_arg(trace, arg);
	bool ok;
	uint64_t u;

	if (value->type == WS_J_NUMBER && value->n >= 19 &&
	    value->text[0] != '-') { /* may be beyond int64_t */
		char *end, text[24];

		if (value->n < sizeof(text)) {
			memcpy(text, value->text, value->n);
			text[value->n] = 0;
			u = strtoull(text, &end, 10);
			return *end ? none : u;
		}
	}
	u = (uint64_t)ws_json_fixed(value, 0, &ok);
	return ok ? u : none;
}

uint32_t ws_trace_u32(const struct ws_trace *trace, enum ws_trace_arg arg, uint32_t none)
{
	uint64_t u = ws_trace_u64(trace, arg, UINT64_MAX);

	return u <= UINT32_MAX ? (uint32_t)u : none;
}

uint32_t ws_trace_string(struct ws_trace *trace, const struct ws_json_value *value)
{
	const char *text;
	size_t n;

	if (value->type == WS_J_NONE || value->type == WS_J_NULL)
		return 0;
	if (value->type != WS_J_STRING &&
	    memchr(value->text, '\n',
		   value->n)) { /* laid out for reading, by whoever wrote it again */
		trace->scratch.len = 0;
		ws_json_compact(&trace->scratch, value);
		return ws_into_string(trace->into, trace->scratch.text, trace->scratch.len);
	}
	text = ws_json_text(value, &trace->scratch, &n);
	return ws_into_string(trace->into, text, n);
}

static void put_value(struct ws_text *out, const struct ws_json_value *value)
{
	if (value->type == WS_J_STRING) {
		ws_text_add(out, "\"", 1);
		ws_text_add(out, value->text, value->n); /* escaped as it came */
		ws_text_add(out, "\"", 1);
	} else {
		ws_json_compact(out, value);
	}
}

uint32_t ws_trace_others(struct ws_trace *trace)
{
	if (!trace->others)
		return 0;
	trace->built.len = 0;
	for (int i = 0; i < trace->others; i++) {
		ws_text_add(&trace->built, i ? ",\"" : "{\"", 2);
		ws_text_add(&trace->built, trace->other[i].key.text, trace->other[i].key.n);
		ws_text_add(&trace->built, "\":", 2);
		put_value(&trace->built, &trace->other[i].value);
	}
	ws_text_add(&trace->built, "}", 1);
	return ws_into_string(trace->into, trace->built.text, trace->built.len);
}

/* ---- who ---- */

/* A number, or the last number in a text such as "stream 7" or "99 (python)". False when there is
 * none. */
static bool number_in(const struct ws_json_value *value, uint64_t *out)
{
	bool ok;
	int64_t i;

	if (value->type == WS_J_NUMBER) {
		i = ws_json_fixed(value, 0, &ok);
		*out = (uint64_t)i;
		return ok;
	}
	if (value->type != WS_J_STRING)
		return false;
	for (uint32_t end = value->n; end; end--) {
		uint32_t from = end;

		while (from && value->text[from - 1] >= '0' && value->text[from - 1] <= '9')
			from--;
		if (from < end && end - from < 19) {
			struct ws_json_value digits = {
				.type = WS_J_NUMBER, .text = value->text + from, .n = end - from};

			*out = (uint64_t)ws_json_fixed(&digits, 0, &ok);
			return ok;
		}
	}
	return false;
}

static uint64_t thread_key(uint64_t pid, uint64_t tid)
{
	uint64_t both[2] = {pid, tid};

	return XXH3_64bits(both, sizeof(both));
}

uint32_t ws_trace_main_process(struct ws_trace *trace)
{
	if (!trace->main_process) {
		trace->main_process = ws_into_process(trace->into, UINT64_MAX, 0);
		if (trace->into->file_count > 1)
			ws_into_process_of(trace->into, trace->main_process)->vm =
				trace->into->file;
	}
	return trace->main_process;
}

/* The process of a pid; the first of PyTorch's CPU events belongs to the process whose GPU work has
 * been met. */
uint32_t ws_trace_process_of(struct ws_trace *trace, uint64_t pid)
{
	bool found;
	uint32_t id, name;

	if (trace->last_process && trace->last_pid == pid)
		return trace->last_process;
	if (trace->kineto && !pid) { /* Python frames of threads that the profiler does not know,
				    slices about a GPU */
		id = ws_trace_main_process(trace);
	} else if (trace->main_process && !trace->main_adopted && pid) {
		id = trace->main_process;
		ws_map_set(&trace->into->process_ids, pid, id);
		ws_into_process_of(trace->into, id)->pid = (uint32_t)pid;
		trace->main_adopted = true;
	} else {
		id = ws_into_process(trace->into, pid, (uint32_t)pid);
		if (trace->into->file_count > 1)
			ws_into_process_of(trace->into, id)->vm = trace->into->file;
	}
	name = (uint32_t)ws_map_get(&trace->process_names, pid, &found);
	if (found && !ws_into_process_of(trace->into, id)->name)
		ws_into_process_of(trace->into, id)->name = name;
	if (!trace->main_process) {
		trace->main_process = id;
		trace->main_adopted = true;
	}
	trace->last_pid = pid;
	trace->last_process = id;
	trace->last_thread = 0;
	return id;
}

uint32_t ws_trace_process(struct ws_trace *trace, const struct ws_event *ev)
{
	uint64_t pid = 0;

	number_in(&ev->pid, &pid);
	return ws_trace_process_of(trace, pid);
}

static uint32_t thread_of(struct ws_trace *trace, uint64_t pid, uint64_t tid, uint64_t start)
{
	uint32_t process = ws_trace_process_of(trace, pid);
	bool found;
	uint32_t id, name;

	if (trace->last_thread && trace->last_tid == tid)
		return trace->last_thread;
	id = ws_into_thread(trace->into, process, tid, start);
	if (!ws_into_thread_of(trace->into, id)->name) {
		name = (uint32_t)ws_map_get(&trace->thread_names, thread_key(pid, tid), &found);
		if (found) {
			ws_into_thread_of(trace->into, id)->name = name;
			ws_into_thread_of(trace->into, id)->priority = 10;
		}
	}
	trace->last_tid = tid;
	trace->last_thread = id;
	return id;
}

uint32_t ws_trace_thread(struct ws_trace *trace, const struct ws_event *ev)
{
	uint64_t pid = 0, tid = 0;
	uint32_t id;

	number_in(&ev->pid, &pid);
	number_in(&ev->tid, &tid);
	id = thread_of(trace, pid, tid, ev->start);
	if (ev->tid.type == WS_J_STRING && !ws_into_thread_of(trace->into, id)->name)
		ws_into_name_thread(trace->into, id, ev->tid.text, ev->tid.n, 10);
	return id;
}

void ws_trace_where(struct ws_trace *trace, const struct ws_event *ev, uint32_t *thread,
		    uint32_t *track)
{
	bool numbers = ev->pid.type != WS_J_STRING && ev->tid.type != WS_J_STRING;
	uint32_t parent;
	size_t n;
	const char *text;

	*thread = *track = 0;
	if (numbers) {
		*thread = ws_trace_thread(trace, ev);
		return;
	}
	text = ws_json_text(&ev->pid, &trace->scratch, &n);
	parent = ws_into_track(trace->into, 0, 0, 0, text, n);
	*track = parent;
	if (ev->tid.type == WS_J_NONE)
		return;
	text = ws_json_text(&ev->tid, &trace->scratch, &n);
	*track = ws_into_track(trace->into, parent, 0, 0, text, n);
}

/* ---- metadata events ---- */

static void name_process(struct ws_trace *trace, uint64_t pid, uint32_t name)
{
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&trace->into->process_ids, pid, &found);

	if (found)
		ws_into_process_of(trace->into, id)->name = name;
	else if (trace->process_names.n < WS_INTO_MOST)
		ws_map_set(&trace->process_names, pid, name);
}

static void name_thread(struct ws_trace *trace, uint64_t pid, uint64_t tid, uint32_t name)
{
	bool found;
	uint32_t process = (uint32_t)ws_map_get(&trace->into->process_ids, pid, &found), id = 0;

	if (found)
		id = (uint32_t)ws_map_get(&trace->into->thread_ids, (uint64_t)process << 40 ^ tid,
					  &found);
	if (found) {
		ws_into_thread_of(trace->into, id)->name = name;
		ws_into_thread_of(trace->into, id)->priority = 10;
	} else if (trace->thread_names.n < WS_INTO_MOST) {
		ws_map_set(&trace->thread_names, thread_key(pid, tid), name);
	}
}

void ws_trace_metadata(struct ws_trace *trace, const struct ws_event *ev)
{
	uint64_t pid = 0, tid = 0;

	ws_trace_args(trace, ev);
	if (!number_in(&ev->pid, &pid))
		return;
	number_in(&ev->tid, &tid);
	if (ws_json_is(&ev->name, "process_name"))
		name_process(trace, pid, ws_trace_string(trace, ws_trace_arg(trace, WS_A_NAME)));
	else if (ws_json_is(&ev->name, "thread_name"))
		name_thread(trace, pid, tid,
			    ws_trace_string(trace, ws_trace_arg(trace, WS_A_NAME)));
}
