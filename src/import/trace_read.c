/*
 * trace_read.c - reading traces in Chrome's JSON format: each event is handed to kineto.c or
 * chrome.c; the members besides the events describe devices, ranks and clocks.
 *
 * Times: PyTorch writes microseconds with three decimals that count from baseTimeNanoseconds, which
 * is at the end of the file; before 2024 it wrote microseconds since 1970, whole or not; other
 * tools count from any moment. All become whole nanoseconds. The times of a single file stay as
 * they are, and a row of `clock` relates them to real time. With several files, the times of each
 * file whose real time is known are moved to real time, so that the ranks are aligned.
 */
#include "import/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/compiler.h"
#include "base/choose.h"

/* Times of more nanoseconds than this are since 1970, and so real time (it is September 2001);
 * smaller ones count from something else. */
#define EPOCH_NS INT64_C(1000000000000000000)

enum { MOST_FACT = 2048 }; /* bytes */

/* ---- events ---- */

static void set_event_field(struct ws_trace_event *event, const struct ws_json_value *key,
			    const struct ws_json_value *value)
{
	switch (key->length) {
	case 2:
		if (!memcmp(key->text, "sf", 2))
			event->sf = *value;
		else if (!memcmp(key->text, "ph", 2))
			event->ph = *value;
		else if (!memcmp(key->text, "ts", 2))
			event->ts = *value;
		else if (!memcmp(key->text, "id", 2))
			event->id = *value;
		break;
	case 3:
		if (!memcmp(key->text, "cat", 3))
			event->cat = *value;
		else if (!memcmp(key->text, "pid", 3))
			event->pid = *value;
		else if (!memcmp(key->text, "tid", 3))
			event->tid = *value;
		else if (!memcmp(key->text, "dur", 3))
			event->dur = *value;
		else if (!memcmp(key->text, "id2", 3))
			event->id2 = *value;
		break;
	case 4:
		if (!memcmp(key->text, "name", 4))
			event->name = *value;
		else if (!memcmp(key->text, "args", 4))
			event->args = *value;
		break;
	case 5:
		if (!memcmp(key->text, "scope", 5))
			event->scope = *value;
		break;
	}
}

/* Choose the moment of the session clock that the file's times count from, by its earliest time. As
 * far as is known yet, that is the time of its first event. */
static void choose_base_time(struct ws_trace *trace, int64_t ts)
{
	bool known, later = trace->importer->file_count > 1 && trace->importer->file;
	int64_t least =
		(int64_t)ws_map_get(&trace->importer->early_times, trace->importer->file, &known);

	trace->base_chosen = true;
	trace->base_time = ts;
	if (known)
		trace->base_time = least;
	trace->earliest = trace->base_time;
	trace->epoch = ts > EPOCH_NS;
	if (trace->epoch)
		trace->base = 0;
	if (trace->epoch || trace->base_known)
		return;
	if (trace->base_time < 0 && trace->base_time > -EPOCH_NS && !trace->importer->file)
		trace->base = (uint64_t)-trace->base_time; /* the earliest is at 0 */
	else if (later && trace->importer->earliest != UINT64_MAX)
		trace->base = trace->importer->earliest - (uint64_t)trace->base_time;
	else
		trace->base = 0;
	if (later)
		ws_importer_add_note(
			trace->importer,
			"It does not tell the real time: it was put where the first file begins.");
}

/* If an event is earlier than the one that the base was chosen by, and would be before the clock's
 * zero, import the file again with the earlier time. */
static void check_base_time(struct ws_trace *trace)
{
	bool later = trace->importer->file_count > 1 && trace->importer->file;

	if (trace->base_chosen && !trace->epoch && !trace->base_known &&
	    trace->earliest < trace->base_time && trace->earliest > -EPOCH_NS &&
	    (later || trace->earliest < 0)) {
		ws_map_set(&trace->importer->early_times, trace->importer->file,
			   (uint64_t)trace->earliest);
		trace->importer->import_again = true;
	}
}

/* Set the event's time on the session clock. False when it has none, or an impossible one. */
static bool set_event_times(struct ws_trace *trace, struct ws_trace_event *event)
{
	bool ok;
	int64_t ts = ws_parse_json_fixed(&event->ts, 3, &ok), dur = 0;

	if (!ok || ts == INT64_MAX) {
		trace->bad_time++;
		return false;
	}
	if (!trace->base_chosen)
		choose_base_time(trace, ts);
	trace->earliest = ws_min(ts, trace->earliest);
	if (ts < 0 && (uint64_t)-ts > trace->base) {
		trace->bad_time++;
		return false;
	}
	event->start = trace->base + (uint64_t)ts;
	if (event->dur.type != WS_JSON_NONE)
		dur = ws_parse_json_fixed(&event->dur, 3, &ok);
	if (!ok || dur < 0 || dur > (int64_t)1 << 60) {
		ws_importer_add_note(trace->importer,
				     "Lengths of events that cannot be (no number, negative, or of "
				     "many years) were taken as 0.");
		dur = 0;
	}
	event->length = (uint64_t)dur;
	trace->has_decimals |= ts % 1000 || dur % 1000;
	return true;
}

static void read_event(struct ws_trace *trace, const struct ws_json_value *object)
{
	struct ws_json_walk walk = ws_begin_json_walk(object);
	struct ws_json_value key, value;
	struct ws_trace_event event = {.name.text = "",
				       .cat.text = ""}; /* empty where they are missing */

	while (ws_next_json_member(&walk, &key, &value))
		set_event_field(&event, &key, &value);
	trace->events++;
	if (event.ph.type == WS_JSON_STRING && event.ph.length == 1)
		event.phase = event.ph.text[0];
	if (event.phase == 'M') {
		ws_trace_read_metadata(trace, &event);
		return;
	}
	if (!event.phase) {
		ws_importer_add_note(trace->importer, "Events without a phase (ph) were left out.");
		return;
	}
	if (!set_event_times(trace, &event))
		return;
	if (!ws_kineto_read_event(trace, &event))
		ws_chrome_read_event(trace, &event);
}

/* The events of an array. 1 at its end, 0 where the file ends early, -1 where it is damaged. */
static int read_events(struct ws_trace *trace)
{
	struct ws_json_value value;
	int next, rc = 1;

	trace->json.at++; /* the bracket */
	for (;;) {
		next = ws_peek_json_byte(&trace->json);
		if (next == ',') {
			trace->json.at++;
			continue;
		}
		if (next == ']') {
			trace->json.at++;
			return 1;
		}
		if (next < 0)
			return 0;
		rc = ws_take_json_value(&trace->json, &value);
		if (rc <= 0)
			return rc;
		if (value.type == WS_JSON_OBJECT)
			read_event(trace, &value);
		if (trace->importer->stopped)
			return -1;
		if (!(trace->events & 0x3ff)) {
			ws_importer_show_progress(trace->importer,
						  ws_count_input_read(trace->json.source),
						  ws_find_input_size(trace->json.source));
			ws_writer_commit(trace->importer->writer);
			if (ws_writer_error(trace->importer->writer, NULL))
				return -1;
		}
	}
}

/* ---- members besides the events ---- */

static void read_ranks(struct ws_trace *trace, const struct ws_json_value *info)
{
	struct ws_json_walk walk = ws_begin_json_walk(info);
	struct ws_json_value key, value;

	while (ws_next_json_member(&walk, &key, &value)) {
		if (ws_is_json_string(&key, "rank"))
			trace->rank = ws_parse_json_fixed(&value, 0, NULL);
		else if (ws_is_json_string(&key, "world_size"))
			trace->world = ws_parse_json_fixed(&value, 0, NULL);
	}
}

/* The base of times that come before it in the file. They stay as they are, and a row relates them
 * to real time. */
static void put_late_base(struct ws_trace *trace, int64_t base)
{
	struct ws_row_clock *row = ws_importer_add_row(trace->importer, WS_TABLE_clock);
	uint64_t at = ws_importer_get_file_start(trace->importer);

	*row = (struct ws_row_clock){.raw = at, .realtime = at - trace->base + (uint64_t)base};
}

/* The member that describes the GPUs; traces of 2021 use its second name. */
static bool is_device_list(const char *name)
{
	return !strcmp(name, "deviceProperties") || !strcmp(name, "computeProperties");
}

/* Keep what one of our own exports says about its source report. */
static void keep_own_member(struct ws_trace *trace, const struct ws_json_value *value)
{
	trace->own.len = 0;
	if (value->length < 1 << 20)
		ws_text_add(&trace->own, value->text, value->length);
}

static void read_fact(struct ws_trace *trace, const char *name, const struct ws_json_value *value)
{
	char *fact;
	size_t length;
	const char *text;
	bool ok;

	if (!strcmp(name, "warpsight") && value->type == WS_JSON_OBJECT) {
		keep_own_member(trace, value);
		return;
	}
	if (!strcmp(name, "baseTimeNanoseconds")) {
		int64_t base = ws_parse_json_fixed(value, 0, &ok);

		if (ok && base > 0 && !trace->base_known && !trace->epoch)
			put_late_base(trace, base);
	} else if (is_device_list(name)) {
		trace->devices.len = 0;
		if (value->length < 1 << 20)
			ws_text_add(&trace->devices, value->text, value->length);

	} else if (!strcmp(name, "distributedInfo") && value->type == WS_JSON_OBJECT) {
		read_ranks(trace, value);
	}
	/* Long facts that people add do not belong in a report: environments, which may hold
	 * secrets, and lists of packages. */
	if (value->length > MOST_FACT) {
		if (!is_device_list(name))
			ws_importer_add_note(
				trace->importer,
				"The fact %.100s is longer than %d bytes and was left out.", name,
				MOST_FACT);
		return;
	}
	fact = ws_format("trace.%.200s", name);
	text = ws_unescape_json_text(value, &trace->scratch, &length);
	ws_importer_add_fact(trace->importer, fact, text, length);
	free(fact);
}

/* Skip an object member by member: "stackFrames" may be larger than a single value can be. */
static int skip_members(struct ws_trace *trace)
{
	struct ws_json_value value;
	int next, rc;

	trace->json.at++;
	for (;;) {
		next = ws_peek_json_byte(&trace->json);
		if (next == ',' || next == ':') {
			trace->json.at++;
			continue;
		}
		if (next == '}') {
			trace->json.at++;
			return 1;
		}
		rc = ws_take_json_value(&trace->json, &value);
		if (rc <= 0)
			return rc;
	}
}

/* The members of the trace's object, of which traceEvents holds the events. 1 at its end, 0 where
 * the file ends early, -1 where it is damaged. */
static int read_members(struct ws_trace *trace)
{
	struct ws_json_value key, value;
	int next, rc;

	trace->json.at++;
	for (;;) {
		char name[256];

		next = ws_peek_json_byte(&trace->json);
		if (next == ',') {
			trace->json.at++;
			continue;
		}
		if (next == '}') {
			trace->json.at++;
			return 1;
		}
		rc = ws_take_json_value(&trace->json, &key);
		if (rc <= 0)
			return rc;
		snprintf(name, sizeof(name), "%.*s", (int)(ws_min(key.length, 255)), key.text);
		if (key.type != WS_JSON_STRING || ws_peek_json_byte(&trace->json) != ':') {
			snprintf(trace->json.problem, sizeof(trace->json.problem),
				 "a name and a colon should stand at byte %" PRIu64,
				 ws_tell_json_offset(&trace->json));
			if (ws_peek_json_byte(&trace->json) < 0)
				return 0;
			return -1;
		}
		trace->json.at++;
		trace->kineto |= !strcmp(name, "schemaVersion") || is_device_list(name);
		if (!strcmp(name, "traceEvents") && ws_peek_json_byte(&trace->json) == '[') {
			rc = read_events(trace);
		} else if (!strcmp(name, "stackFrames") && ws_peek_json_byte(&trace->json) == '{') {
			rc = skip_members(trace);
		} else {
			rc = ws_take_json_value(&trace->json, &value);
			if (rc > 0)
				read_fact(trace, name, &value);
		}
		if (rc <= 0)
			return rc;
	}
}

/* ---- a file ---- */

/* Note that a compressed file whose text is whole is damaged: what was read may be wrong. */
static void note_bad_rest(struct ws_trace *trace)
{
	const char *broken = ws_check_input_rest(trace->json.source);

	if (broken)
		ws_importer_add_note(trace->importer,
				     "The trace is broken: %s. All of it was read, but names and "
				     "figures may be wrong.",
				     broken);
}

/* Note where and why the file broke off, by the result of reading it. */
static void note_break(struct ws_trace *trace, int rc, bool array)
{
	const char *broken = ws_explain_broken_input(trace->json.source),
		   *reason = "it ends too early";

	if (trace->importer->stopped)
		return;
	if (rc == 1) {
		note_bad_rest(trace);
		return;
	}
	if (rc == 0 && array && !broken)
		return; /* the closing bracket may be left out */
	if (broken)
		reason = broken;
	else if (rc < 0 && *trace->json.problem)
		reason = trace->json.problem;
	ws_importer_add_note(trace->importer,
			     "The trace is broken: %s. What stands before was read: %" PRIu64
			     " events.",
			     reason, trace->events);
}

/* If times are real time, write the real time of the first event. */
static void put_clock(struct ws_trace *trace)
{
	struct ws_row_clock *row;

	if (trace->importer->file_earliest == UINT64_MAX || !(trace->epoch || trace->base_known))
		return;
	row = ws_importer_add_row(trace->importer, WS_TABLE_clock);
	*row = (struct ws_row_clock){.raw = trace->importer->file_earliest,
				     .realtime = trace->importer->file_earliest};
}

/* The time on the session clock of `ns`, a time of the file, which may be negative. */
static uint64_t convert_file_time(const struct ws_trace *trace, int64_t ns)
{
	if (ns < 0 && (uint64_t)-ns > trace->base)
		return 0;
	return trace->base + (uint64_t)ns;
}

/* A stretch of time during which one of our own exports was recorded: [start, end], the latter null
 * if it was not closed. */
static void put_own_collection(struct ws_trace *trace, const struct ws_json_value *pair)
{
	struct ws_json_walk walk = ws_begin_json_walk(pair);
	struct ws_json_value from, to;
	struct ws_row_collection row = {.end = WS_NO_TIME};
	bool ok;
	int64_t start, end;

	if (!ws_next_json_member(&walk, NULL, &from) || !ws_next_json_member(&walk, NULL, &to))
		return;
	start = ws_parse_json_fixed(&from, 0, &ok);
	if (!ok)
		return;
	end = ws_parse_json_fixed(&to, 0, &ok);
	if (ok && end < start)
		return;
	row.start = convert_file_time(trace, start);
	if (ok)
		row.end = convert_file_time(trace, end);
	*(struct ws_row_collection *)ws_importer_add_row(trace->importer, WS_TABLE_collection) =
		row;
	trace->importer->has_collection = true;
}

/* Times of one of our own exports count from the zero of the report that it came from. */
static void put_own_zero(struct ws_trace *trace)
{
	char zero[32];

	if (trace->importer->file_count > 1 || trace->epoch)
		return;
	snprintf(zero, sizeof(zero), "%" PRIu64, trace->base);
	ws_importer_add_fact(trace->importer, "session.zero", zero, strlen(zero));
}

/* When one of our own exports was recorded, so that a report made of it covers the same time. */
static void put_own_collections(struct ws_trace *trace)
{
	struct ws_json_value own, key, list, pair;
	struct ws_json_walk walk, pairs;
	bool more;

	if (!trace->own.len || !trace->base_chosen ||
	    !ws_read_json_value(trace->own.text, trace->own.text + trace->own.len, &own, &more))
		return;
	walk = ws_begin_json_walk(&own);
	while (ws_next_json_member(&walk, &key, &list)) {
		if (!ws_is_json_string(&key, "collections") || list.type != WS_JSON_ARRAY)
			continue;
		pairs = ws_begin_json_walk(&list);
		while (ws_next_json_member(&pairs, NULL, &pair))
			if (pair.type == WS_JSON_ARRAY)
				put_own_collection(trace, &pair);
		put_own_zero(trace);
	}
}

static void free_trace(struct ws_trace *trace)
{
	ws_close_json(&trace->json);
	ws_text_free(&trace->scratch);
	ws_text_free(&trace->built);
	ws_text_free(&trace->devices);
	ws_text_free(&trace->own);
	ws_map_free(&trace->process_names);
	ws_map_free(&trace->thread_names);
	ws_map_free(&trace->own_tracks);
	ws_map_free(&trace->own_track_numbers);
	ws_map_free(&trace->open_slices);
	ws_map_free(&trace->open_flows);
	ws_map_free(&trace->kernel_names);
	ws_map_free(&trace->call_bytes);
	free(trace->copies);
	ws_map_free(&trace->occurrences);
	ws_map_free(&trace->profile_at);
	ws_map_free(&trace->node_stacks);
	ws_map_free(&trace->domains);
	free(trace->profiles);
	free(trace->clock_offsets);
	free(trace->slices);
	free(trace->halves);
	free(trace->unplaced);
	ws_map_free(&trace->early_ends);
	free(trace->flows);
	free(trace);
}

int ws_import_trace(struct ws_importer *importer, struct ws_input *source, uint64_t base)
{
	struct ws_trace *trace = ws_calloc(1, sizeof(*trace));
	bool array;
	int rc;

	ws_trace_init_args();
	trace->importer = importer;
	trace->base = base;
	trace->base_known = base != 0;
	trace->rank = trace->world = -1;
	ws_open_json(&trace->json, source);
	array = ws_peek_json_byte(&trace->json) == '[';
	rc = array ? read_events(trace) : read_members(trace);
	if (rc == 1 && ws_peek_json_byte(&trace->json) > 0) /* NULs are padding */
		ws_importer_add_note(importer,
				     "What stands after the end of the trace, from byte %" PRIu64
				     " on, was left out.",
				     ws_tell_json_offset(&trace->json));
	check_base_time(trace);
	ws_chrome_finish(trace);
	ws_kineto_finish(trace);
	put_clock(trace);
	put_own_collections(trace);
	ws_importer_add_notes(importer, trace->bad_time,
			      "Events without a time, or with one that cannot be, were left out.");
	note_break(trace, rc, array);
	if (!trace->events && !importer->stopped)
		ws_importer_stop(importer, "%s holds no trace events%s%s", importer->path,
				 *trace->json.problem ? ": " : "", trace->json.problem);
	free_trace(trace);
	return ws_importer_get_status(importer);
}
