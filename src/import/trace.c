/*
 * trace.c - traces in Chrome's JSON format: the events are taken off one by one and handed to
 * kineto.c or chrome.c; what stands beside them says about devices, ranks and clocks.
 *
 * Times. PyTorch writes microseconds with three decimals that count from baseTimeNanoseconds, which
 * stands at the end of the file; before 2024 it wrote microseconds since 1970, whole or not; other
 * tools count from whatever they like. All become whole nanoseconds. Of one file, times stay as
 * they are, and a row of `clock` says what real time they are; of several files, those whose real
 * time is known are put on it, so that their ranks line up.
 */
#include "import/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/compiler.h"

/* Microseconds: more than this since 1970 (September 2001) is real time, less counts from something
 * else. */
#define EPOCH_NS INT64_C(1000000000000000000)

enum { MOST_FACT = 2048 };

/* ---- arguments ---- */

static const struct {
	const char *text;
	uint8_t n;
} arg_names[WS_A_COUNT] = {
#define X(name, text) {text, sizeof(text) - 1},
	WS_TRACE_ARGS(X)
#undef X
};

static uint8_t arg_slots[256]; /* number + 1 */

static unsigned arg_hash(const char *s, size_t n)
{
	return ((unsigned)n * 37 + (unsigned char)s[0] * 7 + (unsigned char)s[n / 2] * 13 +
		(unsigned char)s[n - 1] * 3) &
	       255;
}

static void make_slots(void)
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

static void metadata_event(struct ws_trace *t, const struct ws_event *ev)
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

/* ---- events ---- */

static void take_field(struct ws_event *ev, const struct ws_json_value *k,
		       const struct ws_json_value *v)
{
	switch (k->n) {
	case 2:
		if (!memcmp(k->s, "sf", 2))
			ev->sf = *v;
		else if (!memcmp(k->s, "ph", 2))
			ev->ph = *v;
		else if (!memcmp(k->s, "ts", 2))
			ev->ts = *v;
		else if (!memcmp(k->s, "id", 2))
			ev->id = *v;
		break;
	case 3:
		if (!memcmp(k->s, "cat", 3))
			ev->cat = *v;
		else if (!memcmp(k->s, "pid", 3))
			ev->pid = *v;
		else if (!memcmp(k->s, "tid", 3))
			ev->tid = *v;
		else if (!memcmp(k->s, "dur", 3))
			ev->dur = *v;
		else if (!memcmp(k->s, "id2", 3))
			ev->id2 = *v;
		break;
	case 4:
		if (!memcmp(k->s, "name", 4))
			ev->name = *v;
		else if (!memcmp(k->s, "args", 4))
			ev->args = *v;
		break;
	case 5:
		if (!memcmp(k->s, "scope", 5))
			ev->scope = *v;
		break;
	}
}

/* What the times of the file count from on the session clock, by its earliest: its first event's,
 * for all that is known. */
static void choose_base(struct ws_trace *t, int64_t ts)
{
	bool known, later = t->o->file_count > 1 && t->o->file;
	int64_t least = (int64_t)ws_map_get(&t->o->least, t->o->file, &known);

	t->first_seen = true;
	t->from = known ? least : ts;
	t->least = t->from;
	t->epoch = ts > EPOCH_NS;
	if (t->epoch)
		t->base = 0;
	else if (t->from < 0 && t->from > -EPOCH_NS && !t->base_known &&
		 !t->o->file) /* before what the others count from */
		t->base = (uint64_t)-t->from;
	else if (!t->base_known)
		t->base = later && t->o->first != UINT64_MAX ? t->o->first - (uint64_t)t->from : 0;
	if (!t->epoch && !t->base_known && later)
		ws_into_note(
			t->o,
			"It does not tell the real time: it was put where the first file begins.");
}

/* Some event was earlier than the one that the base was chosen by, and has no place on the clock:
 * once more, knowing it. */
static void check_base(struct ws_trace *t)
{
	bool later = t->o->file_count > 1 && t->o->file;

	if (t->first_seen && !t->epoch && !t->base_known && t->least < t->from &&
	    t->least > -EPOCH_NS && (later || t->least < 0)) {
		ws_map_set(&t->o->least, t->o->file, (uint64_t)t->least);
		t->o->again = true;
	}
}

/* Put the event's time on the session clock. False when it has none, or one that cannot be. */
static bool set_times(struct ws_trace *t, struct ws_event *ev)
{
	bool ok;
	int64_t ts = ws_json_fixed(&ev->ts, 3, &ok), dur;

	if (!ok || ts == INT64_MAX) {
		t->bad_time++;
		return false;
	}
	if (!t->first_seen)
		choose_base(t, ts);
	t->least = ts < t->least ? ts : t->least;
	if (ts < 0 && (uint64_t)-ts > t->base) {
		t->bad_time++;
		return false;
	}
	ev->start = t->base + (uint64_t)ts;
	dur = ev->dur.type == WS_J_NONE ? 0 : ws_json_fixed(&ev->dur, 3, &ok);
	if (!ok || dur < 0 || dur > (int64_t)1 << 60) {
		ws_into_note(t->o, "Lengths of events that cannot be (no number, negative, or of "
				   "many years) were taken as 0.");
		dur = 0;
	}
	ev->length = (uint64_t)dur;
	t->decimals |= ts % 1000 || dur % 1000;
	return true;
}

static void take_event(struct ws_trace *t, const struct ws_json_value *object)
{
	struct ws_json_walk w = ws_json_walk(object);
	struct ws_json_value key, value;
	struct ws_event ev = {.name.s = "", .cat.s = ""}; /* of no length where they are missing */

	while (ws_json_next(&w, &key, &value))
		take_field(&ev, &key, &value);
	t->events++;
	ev.phase = ev.ph.type == WS_J_STRING && ev.ph.n == 1 ? ev.ph.s[0] : 0;
	if (ev.phase == 'M') {
		metadata_event(t, &ev);
		return;
	}
	if (!ev.phase) {
		ws_into_note(t->o, "Events without a phase (ph) were left out.");
		return;
	}
	if (!set_times(t, &ev))
		return;
	if (!ws_kineto_event(t, &ev))
		ws_chrome_event(t, &ev);
}

static int take_events(struct ws_trace *t)
{
	struct ws_json_value v;
	int c, rc = 1;

	t->json.at++; /* the bracket */
	for (;;) {
		c = ws_json_peek(&t->json);
		if (c == ',') {
			t->json.at++;
			continue;
		}
		if (c == ']') {
			t->json.at++;
			return 1;
		}
		if (c < 0)
			return 0;
		rc = ws_json_take(&t->json, &v);
		if (rc <= 0)
			return rc;
		if (v.type == WS_J_OBJECT)
			take_event(t, &v);
		if (t->o->full)
			return -1;
		if (!(t->events & 0x3ff)) {
			ws_into_progress(t->o, ws_source_done(t->json.source),
					 ws_source_size(t->json.source));
			ws_writer_commit(t->o->w);
			if (ws_writer_error(t->o->w, NULL))
				return -1;
		}
	}
}

/* ---- what stands beside the events ---- */

static void take_ranks(struct ws_trace *t, const struct ws_json_value *v)
{
	struct ws_json_walk w = ws_json_walk(v);
	struct ws_json_value key, value;

	while (ws_json_next(&w, &key, &value)) {
		if (ws_json_is(&key, "rank"))
			t->rank = ws_json_fixed(&value, 0, NULL);
		else if (ws_json_is(&key, "world_size"))
			t->world = ws_json_fixed(&value, 0, NULL);
	}
}

static void take_fact(struct ws_trace *t, const char *name, const struct ws_json_value *v)
{
	char *fact;
	size_t n;
	const char *s;
	bool ok;

	if (!strcmp(name, "baseTimeNanoseconds")) {
		int64_t base = ws_json_fixed(v, 0, &ok);

		if (ok && base > 0 && !t->base_known &&
		    !t->epoch) { /* met after the events: they stay as they are */
			struct ws_row_clock *row = ws_into_row(t->o, WS_TABLE_clock);
			uint64_t at = t->o->file_first == UINT64_MAX ? 0 : t->o->file_first;

			*row = (struct ws_row_clock){.raw = at,
						     .realtime = at - t->base + (uint64_t)base};
		}
	} else if (!strcmp(name, "deviceProperties")) {
		t->devices.len = 0;
		ws_text_add(&t->devices, v->s, v->n < 1 << 20 ? v->n : 0);
	} else if (!strcmp(name, "distributedInfo") && v->type == WS_J_OBJECT) {
		take_ranks(t, v);
	}
	/* What people add at length is not for a report: environments with what is secret in them,
	 * lists of packages. */
	if (v->n > MOST_FACT) {
		if (strcmp(name, "deviceProperties"))
			ws_into_note(t->o,
				     "The fact %.100s is longer than %d bytes and was left out.",
				     name, MOST_FACT);
		return;
	}
	fact = ws_format("trace.%.200s", name);
	s = ws_json_text(v, &t->scratch, &n);
	ws_into_meta(t->o, fact, s, n);
	free(fact);
}

/* Pass over an object member by member: "stackFrames" may be larger than one value can be. */
static int skip_members(struct ws_trace *t)
{
	struct ws_json_value v;
	int c, rc;

	t->json.at++;
	for (;;) {
		c = ws_json_peek(&t->json);
		if (c == ',' || c == ':') {
			t->json.at++;
			continue;
		}
		if (c == '}') {
			t->json.at++;
			return 1;
		}
		rc = ws_json_take(&t->json, &v);
		if (rc <= 0)
			return rc;
	}
}

/* An object's members, of which traceEvents are the events. */
static int take_members(struct ws_trace *t)
{
	struct ws_json_value key, v;
	int c, rc;

	t->json.at++;
	for (;;) {
		char name[256];

		c = ws_json_peek(&t->json);
		if (c == ',') {
			t->json.at++;
			continue;
		}
		if (c == '}') {
			t->json.at++;
			return 1;
		}
		rc = ws_json_take(&t->json, &key);
		if (rc <= 0)
			return rc;
		snprintf(name, sizeof(name), "%.*s", (int)(key.n < 255 ? key.n : 255), key.s);
		if (key.type != WS_J_STRING || ws_json_peek(&t->json) != ':') {
			snprintf(t->json.problem, sizeof(t->json.problem),
				 "a name and a colon should stand at byte %" PRIu64,
				 ws_json_offset(&t->json));
			return ws_json_peek(&t->json) < 0 ? 0 : -1;
		}
		t->json.at++;
		t->kineto |= !strcmp(name, "schemaVersion") || !strcmp(name, "deviceProperties");
		if (!strcmp(name, "traceEvents") && ws_json_peek(&t->json) == '[') {
			rc = take_events(t);
		} else if (!strcmp(name, "stackFrames") && ws_json_peek(&t->json) == '{') {
			rc = skip_members(t);
		} else {
			rc = ws_json_take(&t->json, &v);
			if (rc > 0)
				take_fact(t, name, &v);
		}
		if (rc <= 0)
			return rc;
	}
}

/* ---- a file ---- */

static void say_break(struct ws_trace *t, int rc, bool array)
{
	const char *broken = ws_source_broken(t->json.source);

	if (rc == 1 || t->o->full)
		return;
	if (rc == 0 && array && !broken)
		return; /* the closing bracket may be left out */
	ws_into_note(t->o,
		     "The trace is broken: %s. What stands before was read: %" PRIu64 " events.",
		     broken			  ? broken
		     : rc < 0 && *t->json.problem ? t->json.problem
						  : "it ends too early",
		     t->events);
}

/* Real time at the first event, where times are real times. */
static void put_clock(struct ws_trace *t)
{
	struct ws_row_clock *row;

	if (t->o->file_first == UINT64_MAX || !(t->epoch || t->base_known))
		return;
	row = ws_into_row(t->o, WS_TABLE_clock);
	*row = (struct ws_row_clock){.raw = t->o->file_first, .realtime = t->o->file_first};
}

static void free_trace(struct ws_trace *t)
{
	ws_json_close(&t->json);
	ws_text_free(&t->scratch);
	ws_text_free(&t->built);
	ws_text_free(&t->devices);
	ws_map_free(&t->process_names);
	ws_map_free(&t->thread_names);
	ws_map_free(&t->open);
	ws_map_free(&t->flow);
	ws_map_free(&t->kernel_names);
	ws_map_free(&t->occurrences);
	ws_map_free(&t->profile_at);
	ws_map_free(&t->node_stacks);
	ws_map_free(&t->domains);
	free(t->profiles);
	free(t->apart);
	free(t->slices);
	free(t->halves);
	ws_map_free(&t->early);
	free(t->flows);
	free(t);
}

int ws_trace_import(struct ws_into *o, struct ws_source *s, uint64_t base)
{
	struct ws_trace *t = ws_calloc(1, sizeof(*t));
	bool array;
	int rc;

	make_slots();
	t->o = o;
	t->base = base;
	t->base_known = base != 0;
	t->rank = t->world = -1;
	ws_json_open(&t->json, s);
	array = ws_json_peek(&t->json) == '[';
	rc = array ? take_events(t) : take_members(t);
	if (rc == 1 && ws_json_peek(&t->json) > 0) /* NULs are padding */
		ws_into_note(o,
			     "What stands after the end of the trace, from byte %" PRIu64
			     " on, was left out.",
			     ws_json_offset(&t->json));
	check_base(t);
	ws_chrome_end(t);
	ws_kineto_end(t);
	put_clock(t);
	ws_into_note_n(o, t->bad_time,
		       "Events without a time, or with one that cannot be, were left out.");
	say_break(t, rc, array);
	if (!t->events && !o->full)
		ws_into_stop(o, "%s holds no trace events%s%s", o->path,
			     *t->json.problem ? ": " : "", t->json.problem);
	free_trace(t);
	return o->full ? -1 : 0;
}
