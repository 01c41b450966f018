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

static unsigned arg_hash(const char *s, size_t n)
{
	return ((unsigned)n * 37 + (unsigned char)s[0] * 7 + (unsigned char)s[n / 2] * 13 +
		(unsigned char)s[n - 1] * 3) &
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
	for (unsigned at = arg_hash(key->s, key->n); arg_slots[at]; at = (at + 1) & 255) {
		int i = arg_slots[at] - 1;

		if (arg_names[i].n == key->n && !memcmp(arg_names[i].text, key->s, key->n))
			return i;
	}
	return -1;
}

void ws_trace_args(struct ws_trace *t, const struct ws_event *ev)
{
	struct ws_json_walk w;
	struct ws_json_value key, value;

	t->stamp++;
	t->others = 0;
	if (ev->args.type != WS_J_OBJECT)
		return;
	w = ws_json_walk(&ev->args);
	while (ws_json_next(&w, &key, &value)) {
		int a = arg_number(&key);

		if (a >= 0) {
			t->arg[a] = value;
			t->arg_stamp[a] = t->stamp;
		} else if (t->others < (int)WS_COUNT(t->other)) {
			t->other[t->others].key = key;
			t->other[t->others++].value = value;
		} else {
			ws_into_note(t->o, "Arguments beyond %zu of one event were left out.",
				     WS_COUNT(t->other));
		}
	}
}

uint64_t ws_trace_u64(const struct ws_trace *t, enum ws_trace_arg a, uint64_t none)
{
	const struct ws_json_value *v = ws_trace_arg(t, a);
	bool ok;
	uint64_t u;

	if (v->type == WS_J_NUMBER && v->n >= 19 && v->s[0] != '-') { /* may be beyond int64_t */
		char *end, text[24];

		if (v->n < sizeof(text)) {
			memcpy(text, v->s, v->n);
			text[v->n] = 0;
			u = strtoull(text, &end, 10);
			return *end ? none : u;
		}
	}
	u = (uint64_t)ws_json_fixed(v, 0, &ok);
	return ok ? u : none;
}

uint32_t ws_trace_u32(const struct ws_trace *t, enum ws_trace_arg a, uint32_t none)
{
	uint64_t u = ws_trace_u64(t, a, UINT64_MAX);

	return u <= UINT32_MAX ? (uint32_t)u : none;
}

uint32_t ws_trace_string(struct ws_trace *t, const struct ws_json_value *v)
{
	const char *s;
	size_t n;

	if (v->type == WS_J_NONE || v->type == WS_J_NULL)
		return 0;
	if (v->type != WS_J_STRING &&
	    memchr(v->s, '\n', v->n)) { /* laid out for reading, by whoever wrote it again */
		t->scratch.len = 0;
		ws_json_compact(&t->scratch, v);
		return ws_into_string(t->o, t->scratch.s, t->scratch.len);
	}
	s = ws_json_text(v, &t->scratch, &n);
	return ws_into_string(t->o, s, n);
}

static void put_value(struct ws_text *out, const struct ws_json_value *v)
{
	if (v->type == WS_J_STRING) {
		ws_text_add(out, "\"", 1);
		ws_text_add(out, v->s, v->n); /* escaped as it came */
		ws_text_add(out, "\"", 1);
	} else {
		ws_json_compact(out, v);
	}
}

uint32_t ws_trace_others(struct ws_trace *t)
{
	if (!t->others)
		return 0;
	t->built.len = 0;
	for (int i = 0; i < t->others; i++) {
		ws_text_add(&t->built, i ? ",\"" : "{\"", 2);
		ws_text_add(&t->built, t->other[i].key.s, t->other[i].key.n);
		ws_text_add(&t->built, "\":", 2);
		put_value(&t->built, &t->other[i].value);
	}
	ws_text_add(&t->built, "}", 1);
	return ws_into_string(t->o, t->built.s, t->built.len);
}

/* ---- who ---- */

/* A number, or the last number in a text such as "stream 7" or "99 (python)". False when there is
 * none. */
static bool number_in(const struct ws_json_value *v, uint64_t *out)
{
	bool ok;
	int64_t i;

	if (v->type == WS_J_NUMBER) {
		i = ws_json_fixed(v, 0, &ok);
		*out = (uint64_t)i;
		return ok;
	}
	if (v->type != WS_J_STRING)
		return false;
	for (uint32_t end = v->n; end; end--) {
		uint32_t from = end;

		while (from && v->s[from - 1] >= '0' && v->s[from - 1] <= '9')
			from--;
		if (from < end && end - from < 19) {
			struct ws_json_value digits = {
				.type = WS_J_NUMBER, .s = v->s + from, .n = end - from};

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

uint32_t ws_trace_main_process(struct ws_trace *t)
{
	if (!t->main_process) {
		t->main_process = ws_into_process(t->o, UINT64_MAX, 0);
		if (t->o->file_count > 1)
			ws_into_process_of(t->o, t->main_process)->vm = t->o->file;
	}
	return t->main_process;
}

/* The process of a pid; the first of PyTorch's CPU events belongs to the process whose GPU work has
 * been met. */
uint32_t ws_trace_process_of(struct ws_trace *t, uint64_t pid)
{
	bool found;
	uint32_t id, name;

	if (t->last_process && t->last_pid == pid)
		return t->last_process;
	if (t->kineto && !pid) { /* Python frames of threads that the profiler does not know, slices
				    about a GPU */
		id = ws_trace_main_process(t);
	} else if (t->main_process && !t->main_adopted && pid) {
		id = t->main_process;
		ws_map_set(&t->o->process_ids, pid, id);
		ws_into_process_of(t->o, id)->pid = (uint32_t)pid;
		t->main_adopted = true;
	} else {
		id = ws_into_process(t->o, pid, (uint32_t)pid);
		if (t->o->file_count > 1)
			ws_into_process_of(t->o, id)->vm = t->o->file;
	}
	name = (uint32_t)ws_map_get(&t->process_names, pid, &found);
	if (found && !ws_into_process_of(t->o, id)->name)
		ws_into_process_of(t->o, id)->name = name;
	if (!t->main_process) {
		t->main_process = id;
		t->main_adopted = true;
	}
	t->last_pid = pid;
	t->last_process = id;
	t->last_thread = 0;
	return id;
}

uint32_t ws_trace_process(struct ws_trace *t, const struct ws_event *ev)
{
	uint64_t pid = 0;

	number_in(&ev->pid, &pid);
	return ws_trace_process_of(t, pid);
}

static uint32_t thread_of(struct ws_trace *t, uint64_t pid, uint64_t tid, uint64_t start)
{
	uint32_t process = ws_trace_process_of(t, pid);
	bool found;
	uint32_t id, name;

	if (t->last_thread && t->last_tid == tid)
		return t->last_thread;
	id = ws_into_thread(t->o, process, tid, start);
	if (!ws_into_thread_of(t->o, id)->name) {
		name = (uint32_t)ws_map_get(&t->thread_names, thread_key(pid, tid), &found);
		if (found) {
			ws_into_thread_of(t->o, id)->name = name;
			ws_into_thread_of(t->o, id)->priority = 10;
		}
	}
	t->last_tid = tid;
	t->last_thread = id;
	return id;
}

uint32_t ws_trace_thread(struct ws_trace *t, const struct ws_event *ev)
{
	uint64_t pid = 0, tid = 0;
	uint32_t id;

	number_in(&ev->pid, &pid);
	number_in(&ev->tid, &tid);
	id = thread_of(t, pid, tid, ev->start);
	if (ev->tid.type == WS_J_STRING && !ws_into_thread_of(t->o, id)->name)
		ws_into_name_thread(t->o, id, ev->tid.s, ev->tid.n, 10);
	return id;
}

void ws_trace_where(struct ws_trace *t, const struct ws_event *ev, uint32_t *thread,
		    uint32_t *track)
{
	bool numbers = ev->pid.type != WS_J_STRING && ev->tid.type != WS_J_STRING;
	uint32_t parent;
	size_t n;
	const char *s;

	*thread = *track = 0;
	if (numbers) {
		*thread = ws_trace_thread(t, ev);
		return;
	}
	s = ws_json_text(&ev->pid, &t->scratch, &n);
	parent = ws_into_track(t->o, 0, 0, 0, s, n);
	*track = parent;
	if (ev->tid.type == WS_J_NONE)
		return;
	s = ws_json_text(&ev->tid, &t->scratch, &n);
	*track = ws_into_track(t->o, parent, 0, 0, s, n);
}

/* ---- metadata events ---- */

static void name_process(struct ws_trace *t, uint64_t pid, uint32_t name)
{
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&t->o->process_ids, pid, &found);

	if (found)
		ws_into_process_of(t->o, id)->name = name;
	else if (t->process_names.n < WS_INTO_MOST)
		ws_map_set(&t->process_names, pid, name);
}

static void name_thread(struct ws_trace *t, uint64_t pid, uint64_t tid, uint32_t name)
{
	bool found;
	uint32_t process = (uint32_t)ws_map_get(&t->o->process_ids, pid, &found), id = 0;

	if (found)
		id = (uint32_t)ws_map_get(&t->o->thread_ids, (uint64_t)process << 40 ^ tid, &found);
	if (found) {
		ws_into_thread_of(t->o, id)->name = name;
		ws_into_thread_of(t->o, id)->priority = 10;
	} else if (t->thread_names.n < WS_INTO_MOST) {
		ws_map_set(&t->thread_names, thread_key(pid, tid), name);
	}
}

void ws_trace_metadata(struct ws_trace *t, const struct ws_event *ev)
{
	uint64_t pid = 0, tid = 0;

	ws_trace_args(t, ev);
	if (!number_in(&ev->pid, &pid))
		return;
	number_in(&ev->tid, &tid);
	if (ws_json_is(&ev->name, "process_name"))
		name_process(t, pid, ws_trace_string(t, ws_trace_arg(t, WS_A_NAME)));
	else if (ws_json_is(&ev->name, "thread_name"))
		name_thread(t, pid, tid, ws_trace_string(t, ws_trace_arg(t, WS_A_NAME)));
}
