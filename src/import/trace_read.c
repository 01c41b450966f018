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
		ws_trace_metadata(t, &ev);
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

	ws_trace_args_begin();
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
