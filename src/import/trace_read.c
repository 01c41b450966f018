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
#include "base/choose.h"

/* Microseconds: more than this since 1970 (September 2001) is real time, less counts from something
 * else. */
#define EPOCH_NS INT64_C(1000000000000000000)

enum { MOST_FACT = 2048 };

/* ---- events ---- */

static void take_field(struct ws_event *ev, const struct ws_json_value *value,
		       const struct ws_json_value *json_value)
{
	switch (value->n) {
	case 2:
		if (!memcmp(value->text, "sf", 2))
			ev->sf = *json_value;
		else if (!memcmp(value->text, "ph", 2))
			ev->ph = *json_value;
		else if (!memcmp(value->text, "ts", 2))
			ev->ts = *json_value;
		else if (!memcmp(value->text, "id", 2))
			ev->id = *json_value;
		break;
	case 3:
		if (!memcmp(value->text, "cat", 3))
			ev->cat = *json_value;
		else if (!memcmp(value->text, "pid", 3))
			ev->pid = *json_value;
		else if (!memcmp(value->text, "tid", 3))
			ev->tid = *json_value;
		else if (!memcmp(value->text, "dur", 3))
			ev->dur = *json_value;
		else if (!memcmp(value->text, "id2", 3))
			ev->id2 = *json_value;
		break;
	case 4:
		if (!memcmp(value->text, "name", 4))
			ev->name = *json_value;
		else if (!memcmp(value->text, "args", 4))
			ev->args = *json_value;
		break;
	case 5:
		if (!memcmp(value->text, "scope", 5))
			ev->scope = *json_value;
		break;
	}
}

/* What the times of the file count from on the session clock, by its earliest: its first event's,
 * for all that is known. */
static void choose_base(struct ws_trace *trace, int64_t ts)
{
	bool known, later = trace->into->file_count > 1 && trace->into->file;
	int64_t least = (int64_t)ws_map_get(&trace->into->least, trace->into->file, &known);

	trace->first_seen = true;
	trace->from = known ? least : ts;
	trace->least = trace->from;
	trace->epoch = ts > EPOCH_NS;
	if (trace->epoch)
		trace->base = 0;
	else if (trace->from < 0 && trace->from > -EPOCH_NS && !trace->base_known &&
		 !trace->into->file) /* before what the others count from */
		trace->base = (uint64_t)-trace->from;
	else if (!trace->base_known)
		trace->base = later && trace->into->first != UINT64_MAX
				      ? trace->into->first - (uint64_t)trace->from
				      : 0;
	if (!trace->epoch && !trace->base_known && later)
		ws_into_note(
			trace->into,
			"It does not tell the real time: it was put where the first file begins.");
}

/* Some event was earlier than the one that the base was chosen by, and has no place on the clock:
 * once more, knowing it. */
static void check_base(struct ws_trace *trace)
{
	bool later = trace->into->file_count > 1 && trace->into->file;

	if (trace->first_seen && !trace->epoch && !trace->base_known &&
	    trace->least < trace->from && trace->least > -EPOCH_NS && (later || trace->least < 0)) {
		ws_map_set(&trace->into->least, trace->into->file, (uint64_t)trace->least);
		trace->into->again = true;
	}
}

/* Put the event's time on the session clock. False when it has none, or one that cannot be. */
static bool set_times(struct ws_trace *trace, struct ws_event *ev)
{
	bool ok;
	int64_t ts = ws_json_fixed(&ev->ts, 3, &ok), dur;

	if (!ok || ts == INT64_MAX) {
		trace->bad_time++;
		return false;
	}
	if (!trace->first_seen)
		choose_base(trace, ts);
	trace->least = ws_min(ts, trace->least);
	if (ts < 0 && (uint64_t)-ts > trace->base) {
		trace->bad_time++;
		return false;
	}
	ev->start = trace->base + (uint64_t)ts;
	dur = ev->dur.type == WS_J_NONE ? 0 : ws_json_fixed(&ev->dur, 3, &ok);
	if (!ok || dur < 0 || dur > (int64_t)1 << 60) {
		ws_into_note(trace->into,
			     "Lengths of events that cannot be (no number, negative, or of "
			     "many years) were taken as 0.");
		dur = 0;
	}
	ev->length = (uint64_t)dur;
	trace->decimals |= ts % 1000 || dur % 1000;
	return true;
}

static void take_event(struct ws_trace *trace, const struct ws_json_value *object)
{
	struct ws_json_walk walk = ws_json_walk(object);
	struct ws_json_value key, value;
	struct ws_event ev = {.name.text = "",
			      .cat.text = ""}; /* of no length where they are missing */

	while (ws_json_next(&walk, &key, &value))
		take_field(&ev, &key, &value);
	trace->events++;
	ev.phase = ev.ph.type == WS_J_STRING && ev.ph.n == 1 ? ev.ph.text[0] : 0;
	if (ev.phase == 'M') {
		ws_trace_metadata(trace, &ev);
		return;
	}
	if (!ev.phase) {
		ws_into_note(trace->into, "Events without a phase (ph) were left out.");
		return;
	}
	if (!set_times(trace, &ev))
		return;
	if (!ws_kineto_event(trace, &ev))
		ws_chrome_event(trace, &ev);
}

static int take_events(struct ws_trace *trace)
{
	struct ws_json_value value;
	int c, rc = 1;

	trace->json.at++; /* the bracket */
	for (;;) {
		c = ws_json_peek(&trace->json);
		if (c == ',') {
			trace->json.at++;
			continue;
		}
		if (c == ']') {
			trace->json.at++;
			return 1;
		}
		if (c < 0)
			return 0;
		rc = ws_json_take(&trace->json, &value);
		if (rc <= 0)
			return rc;
		if (value.type == WS_J_OBJECT)
			take_event(trace, &value);
		if (trace->into->full)
			return -1;
		if (!(trace->events & 0x3ff)) {
			ws_into_progress(trace->into, ws_source_done(trace->json.source),
					 ws_source_size(trace->json.source));
			ws_writer_commit(trace->into->writer);
			if (ws_writer_error(trace->into->writer, NULL))
				return -1;
		}
	}
}

/* ---- what stands beside the events ---- */

static void take_ranks(struct ws_trace *trace, const struct ws_json_value *json_value)
{
	struct ws_json_walk walk = ws_json_walk(json_value);
	struct ws_json_value key, value;

	while (ws_json_next(&walk, &key, &value)) {
		if (ws_json_is(&key, "rank"))
			trace->rank = ws_json_fixed(&value, 0, NULL);
		else if (ws_json_is(&key, "world_size"))
			trace->world = ws_json_fixed(&value, 0, NULL);
	}
}

static void take_fact(struct ws_trace *trace, const char *name, const struct ws_json_value *value)
{
	char *fact;
	size_t n;
	const char *text;
	bool ok;

	if (!strcmp(name, "baseTimeNanoseconds")) {
		int64_t base = ws_json_fixed(value, 0, &ok);

		if (ok && base > 0 && !trace->base_known &&
		    !trace->epoch) { /* met after the events: they stay as they are */
			struct ws_row_clock *row = ws_into_row(trace->into, WS_TABLE_clock);
			uint64_t at =
				trace->into->file_first == UINT64_MAX ? 0 : trace->into->file_first;

			*row = (struct ws_row_clock){.raw = at,
						     .realtime = at - trace->base + (uint64_t)base};
		}
	} else if (!strcmp(name, "deviceProperties")) {
		trace->devices.len = 0;
		ws_text_add(&trace->devices, value->text, value->n < 1 << 20 ? value->n : 0);
	} else if (!strcmp(name, "distributedInfo") && value->type == WS_J_OBJECT) {
		take_ranks(trace, value);
	}
	/* What people add at length is not for a report: environments with what is secret in them,
	 * lists of packages. */
	if (value->n > MOST_FACT) {
		if (strcmp(name, "deviceProperties"))
			ws_into_note(trace->into,
				     "The fact %.100s is longer than %d bytes and was left out.",
				     name, MOST_FACT);
		return;
	}
	fact = ws_format("trace.%.200s", name);
	text = ws_json_text(value, &trace->scratch, &n);
	ws_into_meta(trace->into, fact, text, n);
	free(fact);
}

/* Pass over an object member by member: "stackFrames" may be larger than one value can be. */
static int skip_members(struct ws_trace *trace)
{
	struct ws_json_value value;
	int c, rc;

	trace->json.at++;
	for (;;) {
		c = ws_json_peek(&trace->json);
		if (c == ',' || c == ':') {
			trace->json.at++;
			continue;
		}
		if (c == '}') {
			trace->json.at++;
			return 1;
		}
		rc = ws_json_take(&trace->json, &value);
		if (rc <= 0)
			return rc;
	}
}

/* An object's members, of which traceEvents are the events. */
static int take_members(struct ws_trace *trace)
{
	struct ws_json_value key, value;
	int c, rc;

	trace->json.at++;
	for (;;) {
		char name[256];

		c = ws_json_peek(&trace->json);
		if (c == ',') {
			trace->json.at++;
			continue;
		}
		if (c == '}') {
			trace->json.at++;
			return 1;
		}
		rc = ws_json_take(&trace->json, &key);
		if (rc <= 0)
			return rc;
		snprintf(name, sizeof(name), "%.*s", (int)(ws_min(key.n, 255)), key.text);
		if (key.type != WS_J_STRING || ws_json_peek(&trace->json) != ':') {
			snprintf(trace->json.problem, sizeof(trace->json.problem),
				 "a name and a colon should stand at byte %" PRIu64,
				 ws_json_offset(&trace->json));
			return ws_json_peek(&trace->json) < 0 ? 0 : -1;
		}
		trace->json.at++;
		trace->kineto |=
			!strcmp(name, "schemaVersion") || !strcmp(name, "deviceProperties");
		if (!strcmp(name, "traceEvents") && ws_json_peek(&trace->json) == '[') {
			rc = take_events(trace);
		} else if (!strcmp(name, "stackFrames") && ws_json_peek(&trace->json) == '{') {
			rc = skip_members(trace);
		} else {
			rc = ws_json_take(&trace->json, &value);
			if (rc > 0)
				take_fact(trace, name, &value);
		}
		if (rc <= 0)
			return rc;
	}
}

/* ---- a file ---- */

static void say_break(struct ws_trace *trace, int rc, bool array)
{
	const char *broken = ws_source_broken(trace->json.source);

	if (rc == 1 || trace->into->full)
		return;
	if (rc == 0 && array && !broken)
		return; /* the closing bracket may be left out */
	ws_into_note(trace->into,
		     "The trace is broken: %s. What stands before was read: %" PRIu64 " events.",
		     broken			      ? broken
		     : rc < 0 && *trace->json.problem ? trace->json.problem
						      : "it ends too early",
		     trace->events);
}

/* Real time at the first event, where times are real times. */
static void put_clock(struct ws_trace *trace)
{
	struct ws_row_clock *row;

	if (trace->into->file_first == UINT64_MAX || !(trace->epoch || trace->base_known))
		return;
	row = ws_into_row(trace->into, WS_TABLE_clock);
	*row = (struct ws_row_clock){.raw = trace->into->file_first,
				     .realtime = trace->into->file_first};
}

static void free_trace(struct ws_trace *trace)
{
	ws_json_close(&trace->json);
	ws_text_free(&trace->scratch);
	ws_text_free(&trace->built);
	ws_text_free(&trace->devices);
	ws_map_free(&trace->process_names);
	ws_map_free(&trace->thread_names);
	ws_map_free(&trace->open);
	ws_map_free(&trace->flow);
	ws_map_free(&trace->kernel_names);
	ws_map_free(&trace->occurrences);
	ws_map_free(&trace->profile_at);
	ws_map_free(&trace->node_stacks);
	ws_map_free(&trace->domains);
	free(trace->profiles);
	free(trace->apart);
	free(trace->slices);
	free(trace->halves);
	ws_map_free(&trace->early);
	free(trace->flows);
	free(trace);
}

int ws_trace_import(struct ws_into *into, struct ws_source *source, uint64_t base)
{
	struct ws_trace *trace = ws_calloc(1, sizeof(*trace));
	bool array;
	int rc;

	ws_trace_args_begin();
	trace->into = into;
	trace->base = base;
	trace->base_known = base != 0;
	trace->rank = trace->world = -1;
	ws_json_open(&trace->json, source);
	array = ws_json_peek(&trace->json) == '[';
	rc = array ? take_events(trace) : take_members(trace);
	if (rc == 1 && ws_json_peek(&trace->json) > 0) /* NULs are padding */
		ws_into_note(into,
			     "What stands after the end of the trace, from byte %" PRIu64
			     " on, was left out.",
			     ws_json_offset(&trace->json));
	check_base(trace);
	ws_chrome_end(trace);
	ws_kineto_end(trace);
	put_clock(trace);
	ws_into_note_n(into, trace->bad_time,
		       "Events without a time, or with one that cannot be, were left out.");
	say_break(trace, rc, array);
	if (!trace->events && !into->full)
		ws_into_stop(into, "%s holds no trace events%s%s", into->path,
			     *trace->json.problem ? ": " : "", trace->json.problem);
	free_trace(trace);
	return into->full ? -1 : 0;
}
