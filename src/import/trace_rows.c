/* trace_rows.c - what the importers of JSON traces make rows from: the arguments of events, and the
 * processes and threads that the trace names. */
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

/* A slot for a name in a table of 256; enough to tell the known names apart quickly. */
static unsigned hash_arg_name(const char *text, size_t length)
{
	return ((unsigned)length * 37 + (unsigned char)text[0] * 7 +
		(unsigned char)text[length / 2] * 13 + (unsigned char)text[length - 1] * 3) &
	       255;
}

void ws_trace_init_args(void)
{
	if (arg_slots[hash_arg_name(arg_names[0].text, arg_names[0].n)])
		return;
	for (int i = 0; i < WS_A_COUNT; i++) {
		unsigned at = hash_arg_name(arg_names[i].text, arg_names[i].n);

		while (arg_slots[at])
			at = (at + 1) & 255;
		arg_slots[at] = (uint8_t)(i + 1);
	}
}

static int find_arg(const struct ws_json_value *key)
{
	if (!key->length)
		return -1;
	for (unsigned at = hash_arg_name(key->text, key->length); arg_slots[at];
	     at = (at + 1) & 255) {
		int i = arg_slots[at] - 1;

		if (arg_names[i].n == key->length &&
		    !memcmp(arg_names[i].text, key->text, key->length))
			return i;
	}
	return -1;
}

void ws_trace_read_args(struct ws_trace *trace, const struct ws_trace_event *event)
{
	struct ws_json_walk walk;
	struct ws_json_value key, value;

	trace->stamp++;
	trace->unknown_count = 0;
	if (event->args.type != WS_JSON_OBJECT)
		return;
	walk = ws_begin_json_walk(&event->args);
	while (ws_next_json_member(&walk, &key, &value)) {
		int arg = find_arg(&key);

		if (arg >= 0) {
			trace->args[arg] = value;
			trace->arg_stamps[arg] = trace->stamp;
		} else if (trace->unknown_count < (int)WS_COUNT(trace->unknown_args)) {
			trace->unknown_args[trace->unknown_count].key = key;
			trace->unknown_args[trace->unknown_count++].value = value;
		} else {
			ws_importer_add_note(trace->importer,
					     "Arguments beyond %zu of one event were left out.",
					     WS_COUNT(trace->unknown_args));
		}
	}
}

/* A number of 19 to 23 characters, which may be beyond int64_t; `none` when it is not whole. */
static uint64_t parse_long_number(const struct ws_json_value *value, uint64_t none)
{
	char *end, text[24];
	uint64_t number;

	memcpy(text, value->text, value->length);
	text[value->length] = 0;
	number = strtoull(text, &end, 10);
	return *end ? none : number;
}

uint64_t ws_trace_get_u64(const struct ws_trace *trace, enum ws_trace_arg arg, uint64_t none)
{
	const struct ws_json_value *value = ws_trace_get_arg(trace, arg);
	bool ok;
	uint64_t number;

	if (value->type == WS_JSON_NUMBER && value->length >= 19 && value->length < 24 &&
	    value->text[0] != '-')
		return parse_long_number(value, none);
	number = (uint64_t)ws_parse_json_fixed(value, 0, &ok);
	return ok ? number : none;
}

uint32_t ws_trace_get_u32(const struct ws_trace *trace, enum ws_trace_arg arg, uint32_t none)
{
	uint64_t number = ws_trace_get_u64(trace, arg, UINT64_MAX);

	return number <= UINT32_MAX ? (uint32_t)number : none;
}

uint32_t ws_trace_add_string(struct ws_trace *trace, const struct ws_json_value *value)
{
	const char *text;
	size_t length;

	if (value->type == WS_JSON_NONE || value->type == WS_JSON_NULL)
		return 0;
	/* JSON with white space for human readers. */
	if (value->type != WS_JSON_STRING && memchr(value->text, '\n', value->length)) {
		trace->scratch.len = 0;
		ws_put_compact_json(&trace->scratch, value);
		return ws_importer_add_string(trace->importer, trace->scratch.text,
					      trace->scratch.len);
	}
	text = ws_unescape_json_text(value, &trace->scratch, &length);
	return ws_importer_add_string(trace->importer, text, length);
}

static void add_json_value(struct ws_text *out, const struct ws_json_value *value)
{
	if (value->type == WS_JSON_STRING) {
		ws_text_add(out, "\"", 1);
		ws_text_add(out, value->text, value->length); /* still escaped as in the file */
		ws_text_add(out, "\"", 1);
	} else {
		ws_put_compact_json(out, value);
	}
}

uint32_t ws_trace_add_unknown_args(struct ws_trace *trace)
{
	if (!trace->unknown_count)
		return 0;
	trace->built.len = 0;
	for (int i = 0; i < trace->unknown_count; i++) {
		ws_text_add(&trace->built, i ? ",\"" : "{\"", 2);
		ws_text_add(&trace->built, trace->unknown_args[i].key.text,
			    trace->unknown_args[i].key.length);
		ws_text_add(&trace->built, "\":", 2);
		add_json_value(&trace->built, &trace->unknown_args[i].value);
	}
	ws_text_add(&trace->built, "}", 1);
	return ws_importer_add_string(trace->importer, trace->built.text, trace->built.len);
}

/* ---- processes and threads ---- */

/* A number, or the last number in a text such as "stream 7" or "99 (python)". False when there is
 * none. */
static bool read_number(const struct ws_json_value *value, uint64_t *out)
{
	bool ok;
	int64_t number;

	if (value->type == WS_JSON_NUMBER) {
		number = ws_parse_json_fixed(value, 0, &ok);
		*out = (uint64_t)number;
		return ok;
	}
	if (value->type != WS_JSON_STRING)
		return false;
	for (uint32_t end = value->length; end; end--) {
		uint32_t from = end;

		while (from && value->text[from - 1] >= '0' && value->text[from - 1] <= '9')
			from--;
		if (from < end && end - from < 19) {
			struct ws_json_value digits = {.type = WS_JSON_NUMBER,
						       .text = value->text + from,
						       .length = end - from};

			*out = (uint64_t)ws_parse_json_fixed(&digits, 0, &ok);
			return ok;
		}
	}
	return false;
}

static uint64_t make_thread_key(uint64_t pid, uint64_t tid)
{
	uint64_t both[2] = {pid, tid};

	return XXH3_64bits(both, sizeof(both));
}

uint32_t ws_trace_get_main_process(struct ws_trace *trace)
{
	if (!trace->main_process) {
		trace->main_process = ws_importer_intern_process(trace->importer, UINT64_MAX, 0);
		if (trace->importer->file_count > 1)
			ws_importer_get_process(trace->importer, trace->main_process)->vm =
				trace->importer->file;
	}
	return trace->main_process;
}

/* The first pid of a PyTorch trace becomes that of the process made for GPU work which came before
 * it. */
uint32_t ws_trace_find_pid(struct ws_trace *trace, uint64_t pid)
{
	bool found;
	uint32_t id, name;

	if (trace->last_process && trace->last_pid == pid)
		return trace->last_process;
	if (trace->kineto && !pid) {
		/* Python frames of threads that the profiler does not know, and slices of a GPU. */
		id = ws_trace_get_main_process(trace);
	} else if (trace->main_process && !trace->main_adopted && pid) {
		id = trace->main_process;
		ws_map_set(&trace->importer->process_ids, pid, id);
		ws_importer_get_process(trace->importer, id)->pid = (uint32_t)pid;
		trace->main_adopted = true;
	} else {
		id = ws_importer_intern_process(trace->importer, pid, (uint32_t)pid);
		if (trace->importer->file_count > 1)
			ws_importer_get_process(trace->importer, id)->vm = trace->importer->file;
	}
	name = (uint32_t)ws_map_get(&trace->process_names, pid, &found);
	if (found && !ws_importer_get_process(trace->importer, id)->name)
		ws_importer_get_process(trace->importer, id)->name = name;
	if (!trace->main_process) {
		trace->main_process = id;
		trace->main_adopted = true;
	}
	trace->last_pid = pid;
	trace->last_process = id;
	trace->last_thread = 0;
	return id;
}

uint32_t ws_trace_find_process(struct ws_trace *trace, const struct ws_trace_event *event)
{
	uint64_t pid = 0;

	read_number(&event->pid, &pid);
	return ws_trace_find_pid(trace, pid);
}

static uint32_t find_thread(struct ws_trace *trace, uint64_t pid, uint64_t tid, uint64_t start)
{
	uint32_t process = ws_trace_find_pid(trace, pid);
	bool found;
	uint32_t id, name;

	if (trace->last_thread && trace->last_tid == tid)
		return trace->last_thread;
	id = ws_importer_intern_thread(trace->importer, process, tid, start);
	if (!ws_importer_get_thread(trace->importer, id)->name) {
		name = (uint32_t)ws_map_get(&trace->thread_names, make_thread_key(pid, tid),
					    &found);
		if (found) {
			ws_importer_get_thread(trace->importer, id)->name = name;
			ws_importer_get_thread(trace->importer, id)->priority = 10;
		}
	}
	trace->last_tid = tid;
	trace->last_thread = id;
	return id;
}

uint32_t ws_trace_find_thread(struct ws_trace *trace, const struct ws_trace_event *event)
{
	uint64_t pid = 0, tid = 0;
	uint32_t id;

	read_number(&event->pid, &pid);
	read_number(&event->tid, &tid);
	id = find_thread(trace, pid, tid, event->start);
	if (event->tid.type == WS_JSON_STRING && !ws_importer_get_thread(trace->importer, id)->name)
		ws_importer_name_thread(trace->importer, id, event->tid.text, event->tid.length,
					10);
	return id;
}

uint32_t ws_trace_find_own_track(const struct ws_trace *trace, const struct ws_trace_event *event)
{
	uint64_t pid = 0, tid = 0;

	if (!trace->own_tracks.count || !read_number(&event->pid, &pid) ||
	    !read_number(&event->tid, &tid))
		return 0;
	return (uint32_t)ws_map_get(&trace->own_tracks, make_thread_key(pid, tid), NULL);
}

void ws_trace_find_place(struct ws_trace *trace, const struct ws_trace_event *event,
			 uint32_t *thread, uint32_t *track)
{
	bool numbers = event->pid.type != WS_JSON_STRING && event->tid.type != WS_JSON_STRING;
	uint32_t parent;
	size_t length;
	const char *text;

	*thread = 0;
	*track = ws_trace_find_own_track(trace, event);
	if (*track)
		return;
	if (numbers) {
		*thread = ws_trace_find_thread(trace, event);
		return;
	}
	text = ws_unescape_json_text(&event->pid, &trace->scratch, &length);
	parent = ws_importer_intern_track(trace->importer, 0, 0, 0, text, length);
	*track = parent;
	if (event->tid.type == WS_JSON_NONE)
		return;
	text = ws_unescape_json_text(&event->tid, &trace->scratch, &length);
	*track = ws_importer_intern_track(trace->importer, parent, 0, 0, text, length);
}

/* ---- metadata events ---- */

static void name_process(struct ws_trace *trace, uint64_t pid, uint32_t name)
{
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&trace->importer->process_ids, pid, &found);

	if (found)
		ws_importer_get_process(trace->importer, id)->name = name;
	else if (trace->process_names.count < WS_IMPORT_LIMIT)
		ws_map_set(&trace->process_names, pid, name);
}

static void name_thread(struct ws_trace *trace, uint64_t pid, uint64_t tid, uint32_t name)
{
	bool found;
	uint32_t process = (uint32_t)ws_map_get(&trace->importer->process_ids, pid, &found), id = 0;

	if (found)
		id = (uint32_t)ws_map_get(&trace->importer->thread_ids,
					  (uint64_t)process << 40 ^ tid, &found);
	if (found) {
		ws_importer_get_thread(trace->importer, id)->name = name;
		ws_importer_get_thread(trace->importer, id)->priority = 10;
	} else if (trace->thread_names.count < WS_IMPORT_LIMIT) {
		ws_map_set(&trace->thread_names, make_thread_key(pid, tid), name);
	}
}

/* The name that a metadata event gives a thread. Our own exports write it in the PyTorch profiler's
 * form and add the original name, which may be empty. */
static uint32_t read_thread_name(struct ws_trace *trace)
{
	const struct ws_json_value *own = ws_trace_get_arg(trace, WS_A_OWN_NAME);

	if (own->type == WS_JSON_STRING && !own->length)
		return 0;
	if (own->type == WS_JSON_STRING)
		return ws_trace_add_string(trace, own);
	return ws_trace_add_string(trace, ws_trace_get_arg(trace, WS_A_NAME));
}

/* The row of a thread that is a track in the source report of one of our own exports. */
static void read_own_track(struct ws_trace *trace, uint64_t pid, uint64_t tid)
{
	uint64_t number = ws_trace_get_u64(trace, WS_A_TRACK, 0),
		 above = ws_trace_get_u64(trace, WS_A_PARENT_TRACK, 0);
	uint32_t process = 0, track, parent = 0;
	size_t length;
	const char *name;

	if (trace->own_tracks.count >= WS_IMPORT_LIMIT)
		return;
	if (above)
		parent = (uint32_t)ws_map_get(&trace->own_track_numbers, above, NULL);
	if (ws_trace_get_u64(trace, WS_A_OF_PROCESS, 0))
		process = ws_trace_find_pid(trace, pid);
	name = ws_unescape_json_text(ws_trace_get_arg(trace, WS_A_NAME), &trace->scratch, &length);
	track = ws_importer_intern_track(trace->importer, parent, process, 0, name, length);
	ws_map_set(&trace->own_tracks, make_thread_key(pid, tid), track);
	ws_map_set(&trace->own_track_numbers, number, track);
}

void ws_trace_read_metadata(struct ws_trace *trace, const struct ws_trace_event *event)
{
	uint64_t pid = 0, tid = 0;

	ws_trace_read_args(trace, event);
	if (!read_number(&event->pid, &pid))
		return;
	read_number(&event->tid, &tid);
	if (ws_is_json_string(&event->name, "process_name"))
		name_process(trace, pid,
			     ws_trace_add_string(trace, ws_trace_get_arg(trace, WS_A_NAME)));
	else if (ws_is_json_string(&event->name, "thread_name") &&
		 ws_trace_get_u64(trace, WS_A_TRACK, 0))
		read_own_track(trace, pid, tid);
	else if (ws_is_json_string(&event->name, "thread_name"))
		name_thread(trace, pid, tid, read_thread_name(trace));
}
