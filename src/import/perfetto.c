/*
 * perfetto.c - Perfetto's protobuf traces: track events with their tracks, counters, flows and
 * interned names; processes and threads.
 *
 * A trace is a series of packets, each preceded by its length. They are read one by one through a
 * window. Only fields that are known here are read; their numbers are those of Perfetto's .proto
 * files. State that packets build up (interned texts, defaults, clocks) belongs to a sequence of
 * packets and is dropped when the sequence says so; packets that need others which were lost while
 * recording are skipped.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zlib.h>

#include "import/formats.h"
#include "base/choose.h"
#include "text/json.h"
#include "import/perfetto.h"

enum { MOST_PACKET = 64 << 20, WINDOW = 4 << 20, MOST_DEPTH = 8 };

/* The sequence with an id, made if it is new. */
static struct sequence *find_sequence(struct perfetto *perfetto, uint32_t id)
{
	if (perfetto->last_sequence < perfetto->sequence_count &&
	    perfetto->sequences[perfetto->last_sequence].id == id)
		return &perfetto->sequences[perfetto->last_sequence];
	for (size_t i = 0; i < perfetto->sequence_count; i++)
		if (perfetto->sequences[i].id == id) {
			perfetto->last_sequence = i;
			return &perfetto->sequences[i];
		}
	if (perfetto->sequence_count == 4096) {
		ws_importer_stop(perfetto->importer,
				 "there are more than 4096 sequences of packets");
		return &perfetto->sequences[0];
	}
	ws_grow(perfetto->sequences, perfetto->sequence_cap, perfetto->sequence_count + 1);
	perfetto->sequences[perfetto->sequence_count] = (struct sequence){.id = id};
	return &perfetto->sequences[perfetto->sequence_count++];
}

static void clear_sequence(struct sequence *sequence)
{
	for (int kind = 0; kind < KINDS; kind++) {
		ws_map_free(&sequence->interned[kind]);
		sequence->interned[kind] = (struct ws_map){0};
	}
	sequence->default_track = sequence->default_clock = 0;
	sequence->extra_count = 0;
}

/* ---- interned texts ---- */

enum { MOST_TEXTS = 64 << 20 };

uint64_t ws_perfetto_keep_text(struct perfetto *perfetto, const void *text, size_t length)
{
	uint64_t at = perfetto->texts.len;

	if (length >= 1 << 24 || at + length > MOST_TEXTS)
		return 0;
	ws_text_add(&perfetto->texts, text, length);
	return at << 24 | length;
}

/* A text in the form that sequences keep for its kind: see `interned`. */
static uint64_t keep_or_intern(struct perfetto *perfetto, int kind, const struct field *field)
{
	if (kind >= ARGS)
		return ws_perfetto_keep_text(perfetto, field->bytes, field->length);
	return ws_importer_add_string(perfetto->importer, (const char *)field->bytes,
				      field->length);
}

static void read_interned_text(struct perfetto *perfetto, struct sequence *sequence, int kind,
			       const struct field *list)
{
	struct message message = ws_pb_open_message(list);
	struct field field;
	uint64_t iid = 0, value = 0;

	while (ws_pb_next_field(&message, &field)) {
		if (field.number == 1)
			iid = field.value;
		else if (field.number == 2 && field.wire == 2)
			value = keep_or_intern(perfetto, kind, &field);
	}
	if (sequence->interned[kind].count < WS_IMPORT_LIMIT)
		ws_map_set(&sequence->interned[kind], iid, value);
}

static void read_interned(struct perfetto *perfetto, struct sequence *sequence,
			  const struct field *data)
{
	struct message message = ws_pb_open_message(data);
	struct field field;
	bool code = false;

	while (ws_pb_next_field(&message, &field)) {
		if (field.wire != 2)
			continue;
		if (field.number == 1)
			read_interned_text(perfetto, sequence, CATEGORIES, &field);
		else if (field.number == 2)
			read_interned_text(perfetto, sequence, NAMES, &field);
		else if (field.number == 3)
			read_interned_text(perfetto, sequence, ARGS, &field);
		else if (field.number == 29) /* debug_annotation_string_values */
			read_interned_text(perfetto, sequence, TEXTS, &field);
		else
			code |= field.number == 5 || field.number == 6 || field.number == 7 ||
				field.number == 17 || field.number == 19;
	}
	if (code)
		ws_perfetto_read_code(perfetto, sequence, data);
}

static uint32_t get_interned(const struct sequence *sequence, int kind, uint64_t iid)
{
	return (uint32_t)ws_map_get(&sequence->interned[kind], iid, NULL);
}

/* ---- processes and threads ---- */

static uint32_t find_process(struct perfetto *perfetto, uint64_t pid)
{
	return ws_importer_intern_process(perfetto->importer, pid, (uint32_t)pid);
}

uint32_t ws_perfetto_find_thread(struct perfetto *perfetto, uint64_t pid, uint64_t tid)
{
	return ws_importer_intern_thread(perfetto->importer, find_process(perfetto, pid), tid,
					 WS_NO_TIME);
}

/* Name a process after the first part of its command line: by the last part of that path. */
static void name_tree_process(struct perfetto *perfetto, const struct field *entry)
{
	uint64_t pid = ws_pb_find_field(entry, 1).value;
	struct ws_import_process *process =
		ws_importer_get_process(perfetto->importer, find_process(perfetto, pid));
	struct message message = ws_pb_open_message(entry);
	struct field field, name = {0};
	const char *text, *slash;

	while (ws_pb_next_field(&message, &field))
		if (field.number == 3 && !name.length)
			name = field;
	if (!name.length || process->name)
		return;
	text = (const char *)name.bytes;
	process->cmdline = ws_importer_add_string(perfetto->importer, text, name.length);
	process->name = process->cmdline;
	slash = memrchr(text, '/', name.length);
	if (slash)
		process->name = ws_importer_add_string(perfetto->importer, slash + 1,
						       (size_t)(text + name.length - slash - 1));
}

static void name_tree_thread(struct perfetto *perfetto, const struct field *entry)
{
	uint64_t tid = ws_pb_find_field(entry, 1).value, pid = ws_pb_find_field(entry, 3).value;
	struct field name = ws_pb_find_field(entry, 2);

	if (perfetto->pids.count < WS_IMPORT_LIMIT)
		ws_map_set(&perfetto->pids, tid, pid);
	if (name.length)
		ws_importer_name_thread(perfetto->importer,
					ws_perfetto_find_thread(perfetto, pid, tid),
					(const char *)name.bytes, name.length, 10);
}

static void read_process_tree(struct perfetto *perfetto, const struct field *tree)
{
	struct message message = ws_pb_open_message(tree);
	struct field field;

	while (ws_pb_next_field(&message, &field)) {
		if (field.wire != 2)
			continue;
		if (field.number == 1)
			name_tree_process(perfetto, &field);
		else if (field.number == 2)
			name_tree_thread(perfetto, &field);
	}
}

/* ---- tracks ---- */

static struct track *add_track(struct perfetto *perfetto, uint64_t uuid, struct track track)
{
	ws_grow(perfetto->track_list, perfetto->track_cap, perfetto->track_count + 1);
	perfetto->track_list[perfetto->track_count] = track;
	ws_map_set(&perfetto->tracks, uuid, ++perfetto->track_count);
	return &perfetto->track_list[perfetto->track_count - 1];
}

/* The track with a uuid, made if it is new; valid until the next one is made. */
static struct track *find_track(struct perfetto *perfetto, uint64_t uuid)
{
	uint64_t at = ws_map_get(&perfetto->tracks, uuid, NULL);
	struct track track = {0};
	char name[32];
	int length = 6;

	if (at)
		return &perfetto->track_list[at - 1];
	if (perfetto->track_count == WS_IMPORT_LIMIT) {
		ws_importer_stop(perfetto->importer, "there are more than %d tracks",
				 WS_IMPORT_LIMIT);
		return &perfetto->track_list[0];
	}
	if (uuid)
		length = snprintf(name, sizeof(name), "track %" PRIx64, uuid);
	else
		memcpy(name, "global", 6);
	track.track = ws_importer_intern_track(perfetto->importer, 0, 0, 0, name, (size_t)length);
	return add_track(perfetto, uuid, track);
}

static void describe_process(struct perfetto *perfetto, const struct field *field,
			     uint32_t *process)
{
	struct field name = ws_pb_find_field(field, 6);

	*process = find_process(perfetto, ws_pb_find_field(field, 1).value);
	if (name.length)
		ws_importer_get_process(perfetto->importer, *process)->name =
			ws_importer_add_string(perfetto->importer, (const char *)name.bytes,
					       name.length);
}

static uint32_t describe_thread(struct perfetto *perfetto, const struct field *field)
{
	struct field name = ws_pb_find_field(field, 5);
	uint32_t id = ws_perfetto_find_thread(perfetto, ws_pb_find_field(field, 1).value,
					      ws_pb_find_field(field, 2).value);

	if (name.length)
		ws_importer_name_thread(perfetto->importer, id, (const char *)name.bytes,
					name.length, 20);
	return id;
}

static const char *get_counter_unit(const struct field *counter)
{
	switch (ws_pb_find_field(counter, 3).value) {
	case 1:
		return "ns";
	case 2:
		return "count";
	case 3:
		return "B";
	default:
		return NULL;
	}
}

/* What a track's descriptor says. */
struct track_descriptor {
	struct track track;
	uint64_t uuid, parent;
	struct field name, counter;
	bool is_counter;
};

static void read_descriptor_fields(struct perfetto *perfetto, const struct field *descriptor,
				   struct track_descriptor *described)
{
	struct message message = ws_pb_open_message(descriptor);
	struct field member;

	while (ws_pb_next_field(&message, &member)) {
		if (member.number == 1)
			described->uuid = member.value;
		else if ((member.number == 2 || member.number == 10 || member.number == 13) &&
			 member.wire == 2) /* name, static_name, atrace_name */
			described->name = member;
		else if (member.number == 3 && member.wire == 2)
			describe_process(perfetto, &member, &described->track.process);
		else if (member.number == 4 && member.wire == 2)
			described->track.thread = describe_thread(perfetto, &member);
		else if (member.number == 5)
			described->parent = member.value;
		else if (member.number == 8 && member.wire == 2) {
			described->counter = member;
			described->is_counter = true;
		}
	}
}

static void make_counter(struct perfetto *perfetto, struct track_descriptor *described,
			 const struct track *up)
{
	struct field unit = ws_pb_find_field(&described->counter, 6);
	struct ws_import_counter counter = {.process = described->track.process,
					    .thread = up->thread,
					    .device = WS_NO_U32,
					    .group = "",
					    .name = "counter",
					    .name_length = 7};
	char *own = NULL;

	if (unit.wire == 2 && unit.length && unit.length < 256)
		own = ws_strndup((const char *)unit.bytes, unit.length);
	described->track.multiplier = (int64_t)ws_pb_find_field(&described->counter, 4).value;
	if (!described->track.multiplier)
		described->track.multiplier = 1;
	described->track.incremental = ws_pb_find_field(&described->counter, 5).value;
	if (described->name.length) {
		counter.name = (const char *)described->name.bytes;
		counter.name_length = described->name.length;
	}
	counter.unit = ws_text_or(own, get_counter_unit(&described->counter));
	described->track.counter = ws_importer_intern_counter(perfetto->importer, &counter);
	free(own);
}

static void make_track(struct perfetto *perfetto, struct track_descriptor *described,
		       const struct track *up)
{
	char text[32] = "process";
	const char *name = text;
	size_t length = strlen(text);

	if (described->name.length) {
		name = (const char *)described->name.bytes;
		length = described->name.length;
	} else if (!described->track.process) {
		length = (size_t)snprintf(text, sizeof(text), "track %" PRIx64, described->uuid);
	}
	described->track.track = ws_importer_intern_track(
		perfetto->importer, up->track, described->track.process, up->thread, name, length);
}

static void read_track_descriptor(struct perfetto *perfetto, const struct field *field)
{
	struct track_descriptor described = {.track.multiplier = 1};
	uint64_t at;

	read_descriptor_fields(perfetto, field, &described);
	if (described.is_counter || !described.track.thread) {
		static const struct track none;
		const struct track *up = &none;

		if (described.parent)
			up = find_track(perfetto, described.parent);
		if (!described.track.process)
			described.track.process = up->process;
		if (described.is_counter)
			make_counter(perfetto, &described, up);
		else
			make_track(perfetto, &described, up);
	}
	at = ws_map_get(&perfetto->tracks, described.uuid, NULL);
	if (at)
		perfetto->track_list[at - 1] = described.track;
	else if (perfetto->track_count == WS_IMPORT_LIMIT)
		ws_importer_stop(perfetto->importer, "there are more than %d tracks",
				 WS_IMPORT_LIMIT);
	else
		add_track(perfetto, described.uuid, described.track);
}

/* ---- arguments ---- */

/* Append a text, quoted, to the arguments of the current event. */
static void append_string(struct perfetto *perfetto, const void *text, size_t length)
{
	ws_text_puts(&perfetto->args, "\"");
	ws_put_escaped_json(&perfetto->args, text, length);
	ws_text_puts(&perfetto->args, "\"");
}

/* A text that the sequence refers to by number. */
static void append_kept_text(struct perfetto *perfetto, const struct sequence *sequence, int kind,
			     uint64_t iid)
{
	uint64_t at = ws_map_get(&sequence->interned[kind], iid, NULL);

	const char *text = "";

	if (at)
		text = perfetto->texts.text + (at >> 24);
	append_string(perfetto, text, at & 0xffffff);
}

static void append_value(struct perfetto *perfetto, struct sequence *sequence,
			 const struct field *annotation, int depth);

static void append_list(struct perfetto *perfetto, struct sequence *sequence,
			const struct field *annotation, uint32_t number, int depth)
{
	struct message message = ws_pb_open_message(annotation);
	struct field field;
	bool dict = number == 11, any = false;

	ws_text_puts(&perfetto->args, dict ? "{" : "[");
	while (depth < MOST_DEPTH && ws_pb_next_field(&message, &field)) {
		struct field name;

		if (field.number != number || field.wire != 2)
			continue;
		if (any)
			ws_text_puts(&perfetto->args, ",");
		any = true;
		name = ws_pb_find_field(&field, 10);
		if (dict) {
			append_string(perfetto, ws_text_or((const char *)name.bytes, ""),
				      name.length);
			ws_text_puts(&perfetto->args, ":");
		}
		append_value(perfetto, sequence, &field, depth + 1);
	}
	ws_text_puts(&perfetto->args, dict ? "}" : "]");
}

static void append_value(struct perfetto *perfetto, struct sequence *sequence,
			 const struct field *annotation, int depth)
{
	struct message message = ws_pb_open_message(annotation);
	struct field field;
	double number;

	while (ws_pb_next_field(&message, &field)) {
		switch (field.number) {
		case 2:
			ws_text_puts(&perfetto->args, field.value ? "true" : "false");
			return;
		case 3:
		case 7:
			ws_text_printf(&perfetto->args, "%" PRIu64, field.value);
			return;
		case 4:
			ws_text_printf(&perfetto->args, "%" PRId64, (int64_t)field.value);
			return;
		case 5:
			memcpy(&number, &field.value, 8);
			if (isfinite(number))
				ws_text_printf(&perfetto->args, "%.17g", number);
			else
				ws_text_puts(&perfetto->args, "null");
			return;
		case 6:
		case 9:
			if (field.wire == 2) {
				append_string(perfetto, field.bytes, field.length);
				return;
			}
			break;
		case 17:
			append_kept_text(perfetto, sequence, TEXTS, field.value);
			return;
		case 11:
		case 12:
			append_list(perfetto, sequence, annotation, field.number, depth);
			return;
		}
	}
	ws_text_puts(&perfetto->args, "null");
}

static void append_arg(struct perfetto *perfetto, struct sequence *sequence,
		       const struct field *annotation)
{
	struct field name = ws_pb_find_field(annotation, 10), iid = ws_pb_find_field(annotation, 1);

	if (annotation->wire != 2 || perfetto->args.len > 1 << 20)
		return;
	ws_text_puts(&perfetto->args, perfetto->args.len ? "," : "{");
	if (name.length)
		append_string(perfetto, name.bytes, name.length);
	else
		append_kept_text(perfetto, sequence, ARGS, iid.value);
	ws_text_puts(&perfetto->args, ":");
	append_value(perfetto, sequence, annotation, 0);
}

/* ---- slices ---- */

static void put_slice(struct perfetto *perfetto, const struct open_slice *slice, uint64_t end,
		      uint8_t flags)
{
	const struct track *track = find_track(perfetto, slice->track);
	struct ws_row_slice *row = ws_importer_add_row(perfetto->importer, WS_TABLE_slice);

	*row = (struct ws_row_slice){.start = slice->start,
				     .end = end,
				     .thread = track->thread,
				     .track = track->track,
				     .name = slice->name,
				     .category = slice->category,
				     .args = slice->args,
				     .flags = flags};
	ws_importer_include_time(perfetto->importer, slice->start);
	if (end != WS_NO_TIME)
		ws_importer_include_time(perfetto->importer, end);
}

static void push_open_slice(struct perfetto *perfetto, struct open_slice slice)
{
	uint32_t number = perfetto->free_slice;

	if (number) {
		perfetto->free_slice = perfetto->slices[number - 1].below;
	} else {
		if (perfetto->slice_count == WS_IMPORT_LIMIT) {
			ws_importer_add_note(
				perfetto->importer,
				"More than %d slices are open at once; further ones were left out.",
				WS_IMPORT_LIMIT);
			return;
		}
		ws_grow(perfetto->slices, perfetto->slice_cap, perfetto->slice_count + 1);
		number = (uint32_t)++perfetto->slice_count;
	}
	slice.below = (uint32_t)ws_map_get(&perfetto->open, slice.track, NULL);
	perfetto->slices[number - 1] = slice;
	ws_map_set(&perfetto->open, slice.track, number);
}

static void end_open_slice(struct perfetto *perfetto, uint64_t track, uint64_t end, uint32_t args)
{
	uint32_t number = (uint32_t)ws_map_get(&perfetto->open, track, NULL);
	struct open_slice slice;

	if (!number) {
		ws_importer_add_note(perfetto->importer,
				     "Ends of slices without a beginning were left out.");
		return;
	}
	slice = perfetto->slices[number - 1];
	ws_map_set(&perfetto->open, track, slice.below);
	perfetto->slices[number - 1].start = WS_NO_TIME;
	perfetto->slices[number - 1].below = perfetto->free_slice;
	perfetto->free_slice = number;
	if (!slice.args)
		slice.args = args;
	put_slice(perfetto, &slice, ws_max(end, slice.start), 0);
}

/* A flow goes from each event that names it to the next one that does, until the `last`. */
static void put_flow(struct perfetto *perfetto, uint64_t id, uint64_t at, uint64_t track, bool last)
{
	bool found;
	uint64_t from = ws_map_get(&perfetto->flow_time, id, &found);

	if (found) {
		struct track source =
			*find_track(perfetto, ws_map_get(&perfetto->flow_track, id, NULL));
		struct track target = *find_track(perfetto, track);
		struct ws_row_flow *row = ws_importer_add_row(perfetto->importer, WS_TABLE_flow);

		*row = (struct ws_row_flow){.start = from,
					    .end = at,
					    .from_thread = source.thread,
					    .to_thread = target.thread,
					    .from_track = source.track,
					    .to_track = target.track};
	}
	if (last) {
		ws_map_remove(&perfetto->flow_time, id, &from);
		ws_map_remove(&perfetto->flow_track, id, &from);
	} else if (perfetto->flow_time.count < WS_IMPORT_LIMIT) {
		ws_map_set(&perfetto->flow_time, id, at);
		ws_map_set(&perfetto->flow_track, id, track);
	}
}

static void put_counter_value(struct perfetto *perfetto, uint64_t uuid, uint64_t at,
			      const struct field *value)
{
	struct track *track = find_track(perfetto, uuid);
	double number = (double)(int64_t)value->value;
	struct ws_row_counter_value *row;

	if (!track->counter) {
		ws_importer_add_note(perfetto->importer,
				     "Values of counters without a description were left out.");
		return;
	}
	if (value->wire == 1)
		memcpy(&number, &value->value, 8);
	if (!isfinite(number))
		return;
	number *= (double)track->multiplier;
	if (track->incremental) {
		track->sum += number;
		number = track->sum;
	}
	row = ws_importer_add_row(perfetto->importer, WS_TABLE_counter_value);
	*row = (struct ws_row_counter_value){
		.start = at, .counter = track->counter, .value = number};
	ws_importer_include_time(perfetto->importer, at);
}

struct track_event {
	uint64_t type, track;
	struct open_slice slice;
	struct field value, legacy;
	bool has_value, extra;
};

/* Read the numbers of a repeated field, packed or not; returns how many there are, at most `most`.
 */
static size_t read_numbers(const struct field *in, uint32_t number, uint64_t *out, size_t most)
{
	struct message message = ws_pb_open_message(in);
	struct field field;
	size_t count = 0;

	while (count < most && ws_pb_next_field(&message, &field)) {
		struct message packed = ws_pb_open_message(&field);

		if (field.number != number)
			continue;
		if (field.wire != 2)
			out[count++] = field.value;
		else
			while (count < most &&
			       ws_pb_read_varint(&packed.bytes, packed.end, &out[count]))
				count++;
	}
	return count;
}

/* Values of counters that come with an event. The event or, failing that, its sequence names the
 * counters. */
static void put_extra_counters(struct perfetto *perfetto, struct sequence *sequence,
			       const struct field *data, uint64_t at)
{
	uint64_t tracks[WS_COUNT(sequence->extra_default)],
		values[WS_COUNT(sequence->extra_default)];
	size_t n = read_numbers(data, 31, tracks, WS_COUNT(tracks)),
	       value_count = read_numbers(data, 12, values, WS_COUNT(values));

	if (!n) {
		n = sequence->extra_count;
		memcpy(tracks, sequence->extra_default, sizeof(tracks));
	}
	for (size_t i = 0; i < value_count && i < n; i++)
		put_counter_value(perfetto, tracks[i], at,
				  &(struct field){.number = 30, .value = values[i]});
	n = read_numbers(data, 45, tracks, WS_COUNT(tracks));
	value_count = 0;
	for (struct message message = ws_pb_open_message(data); value_count < n;) {
		struct field field;

		if (!ws_pb_next_field(&message, &field))
			break;
		if (field.number == 46 && field.wire == 1)
			put_counter_value(perfetto, tracks[value_count++], at, &field);
	}
}

/* The track of Chrome's asynchronous events with one category and id. */
static uint64_t find_async_track(struct perfetto *perfetto, const struct track_event *event)
{
	uint64_t facts[] = {event->slice.category, ws_pb_find_field(&event->legacy, 6).value,
			    ws_pb_find_field(&event->legacy, 10).value,
			    ws_pb_find_field(&event->legacy, 11).value, event->track};
	uint64_t uuid = XXH3_64bits(facts, sizeof(facts)) | 1;
	const struct track *parent = find_track(perfetto, event->track);
	struct track track = {.process = parent->process, .multiplier = 1};
	char name[32];
	int which = 1, length;

	if (ws_map_get(&perfetto->tracks, uuid, NULL) || perfetto->track_count == WS_IMPORT_LIMIT)
		return uuid;
	while (which < 3 && !facts[which]) /* the first of its ids that is set */
		which++;
	length = snprintf(name, sizeof(name), "async %" PRIx64, facts[which]);
	track.track = ws_importer_intern_track(perfetto->importer, parent->track, parent->process,
					       parent->thread, name, (size_t)length);
	add_track(perfetto, uuid, track);
	return uuid;
}

static void read_legacy_event(struct perfetto *perfetto, struct sequence *sequence,
			      struct track_event *event, uint64_t at)
{
	uint64_t phase = ws_pb_find_field(&event->legacy, 2).value,
		 duration = ws_pb_find_field(&event->legacy, 3).value;
	uint64_t name = ws_pb_find_field(&event->legacy, 1).value;

	if (phase == 'b' || phase == 'e' || phase == 'n' || phase == 'S' || phase == 'F')
		event->track = event->slice.track = find_async_track(perfetto, event);

	if (!event->slice.name && name)
		event->slice.name = get_interned(sequence, NAMES, name);
	if (phase == 'X')
		put_slice(perfetto, &event->slice, at + duration * 1000, 0);
	else if (phase == 'B' || phase == 'b' || phase == 'S')
		push_open_slice(perfetto, event->slice);
	else if (phase == 'E' || phase == 'e' || phase == 'F')
		end_open_slice(perfetto, event->track, at, event->slice.args);
	else if (phase == 'i' || phase == 'I' || phase == 'n' || phase == 'R')
		put_slice(perfetto, &event->slice, WS_NO_TIME, WS_SLICE_INSTANT);
	else if (phase)
		ws_importer_add_note(
			perfetto->importer,
			"Events of Chrome's phase %c inside of Perfetto's were left out.",
			phase > ' ' && phase < 127 ? (int)phase : '?');
}

/* Give a slice the demangled name; the mangled one becomes an argument. */
static void demangle_slice(struct perfetto *perfetto, struct open_slice *slice)
{
	uint32_t name = ws_importer_demangle(perfetto->importer, slice->name);
	const char *mangled;

	if (name == slice->name)
		return;
	mangled = ws_importer_get_mangled(perfetto->importer, slice->name);
	slice->name = name;
	ws_text_puts(&perfetto->args, perfetto->args.len ? "," : "{");
	append_string(perfetto, "mangled name", 12);
	ws_text_puts(&perfetto->args, ":");
	append_string(perfetto, mangled, strlen(mangled));
}

/* Read the fields of an event; its arguments into perfetto->args. */
static void read_event_fields(struct perfetto *perfetto, struct sequence *sequence,
			      const struct field *data, struct track_event *event)
{
	struct message message = ws_pb_open_message(data);
	struct field field;

	perfetto->args.len = 0;
	while (ws_pb_next_field(&message, &field)) {
		switch (field.number) {
		case 3:
			if (!event->slice.category)
				event->slice.category =
					get_interned(sequence, CATEGORIES, field.value);
			break;
		case 22:
			if (field.wire == 2 && !event->slice.category)
				event->slice.category =
					ws_importer_add_string(perfetto->importer,
							       (const char *)field.bytes,
							       field.length);
			break;
		case 10:
			event->slice.name = get_interned(sequence, NAMES, field.value);
			break;
		case 23:
			if (field.wire == 2)
				event->slice.name =
					ws_importer_add_string(perfetto->importer,
							       (const char *)field.bytes,
							       field.length);
			break;
		case 9:
			event->type = field.value;
			break;
		case 11:
			event->track = field.value;
			break;
		case 12:
		case 46:
			event->extra = true;
			break;
		case 30:
		case 44:
			event->value = field;
			event->has_value = true;
			break;
		case 4:
			append_arg(perfetto, sequence, &field);
			break;
		case 6:
			event->legacy = field;
			break;
		}
	}
	event->slice.track = event->track;
	demangle_slice(perfetto, &event->slice);
	if (perfetto->args.len) {
		ws_text_puts(&perfetto->args, "}");
		event->slice.args = ws_importer_add_string(perfetto->importer, perfetto->args.text,
							   perfetto->args.len);
	}
}

static void read_track_event(struct perfetto *perfetto, struct sequence *sequence,
			     const struct field *data, uint64_t at)
{
	struct track_event event = {.track = sequence->default_track, .slice.start = at};
	struct message message = ws_pb_open_message(data);
	struct field field;

	read_event_fields(perfetto, sequence, data, &event);
	if (event.type == 1)
		push_open_slice(perfetto, event.slice);
	else if (event.type == 2)
		end_open_slice(perfetto, event.track, at, event.slice.args);
	else if (event.type == 3)
		put_slice(perfetto, &event.slice, WS_NO_TIME, WS_SLICE_INSTANT);
	else if (event.type == 4 && event.has_value)
		put_counter_value(perfetto, event.track, at, &event.value);
	else if (event.legacy.length)
		read_legacy_event(perfetto, sequence, &event, at);
	if (event.extra)
		put_extra_counters(perfetto, sequence, data, at);
	while (ws_pb_next_field(&message, &field))
		if (field.number == 47 || field.number == 36 || field.number == 48 ||
		    field.number == 42)
			put_flow(perfetto, field.value, at, event.track,
				 field.number == 48 || field.number == 42);
}

/* ---- packets ---- */

static void read_defaults(struct sequence *sequence, const struct field *field)
{
	struct field clock = ws_pb_find_field(field, 58), event = ws_pb_find_field(field, 11);

	sequence->default_clock = (uint32_t)clock.value;
	sequence->default_track = 0;
	if (!event.length)
		return;
	sequence->default_track = ws_pb_find_field(&event, 11).value;
	sequence->extra_count = (uint8_t)read_numbers(&event, 31, sequence->extra_default,
						      WS_COUNT(sequence->extra_default));
}

/* The fields of a packet that are known here. */
struct packet {
	struct field event, interned, defaults, clocks, sample, ftrace, tree, descriptor,
		compressed;
	uint64_t stamp, flags;
	uint32_t clock, sequence;
	bool stamped, cleared, dropped;
};

static struct packet read_packet_fields(struct message message)
{
	struct packet packet = {0};
	struct field field;
	const struct {
		uint32_t number;
		struct field *at;
	} messages[] = {{11, &packet.event}, {12, &packet.interned},   {59, &packet.defaults},
			{6, &packet.clocks}, {66, &packet.sample},     {1, &packet.ftrace},
			{2, &packet.tree},   {60, &packet.descriptor}, {50, &packet.compressed}};

	while (ws_pb_next_field(&message, &field)) {
		if (field.wire == 2) {
			for (size_t i = 0; i < WS_COUNT(messages); i++)
				if (messages[i].number == field.number)
					*messages[i].at = field;
		} else if (field.number == 8) {
			packet.stamp = field.value;
			packet.stamped = true;
		} else if (field.number == 58) {
			packet.clock = (uint32_t)field.value;
		} else if (field.number == 10) {
			packet.sequence = (uint32_t)field.value;
		} else if (field.number == 13) {
			packet.flags = field.value;
		} else if (field.number == 41) {
			packet.cleared = field.value;
		} else if (field.number == 42) {
			packet.dropped = field.value;
		}
	}
	packet.cleared |= packet.flags & 1;
	return packet;
}

static void read_packets(struct perfetto *perfetto, struct message message, bool inner);

/* A packet of compressed packets. */
static void read_compressed(struct perfetto *perfetto, const struct field *field)
{
	z_stream zip = {.next_in = (unsigned char *)field->bytes,
			.avail_in = (unsigned)field->length};
	int rc;

	if (!perfetto->unpacked)
		perfetto->unpacked = ws_malloc(MOST_PACKET);
	zip.next_out = perfetto->unpacked;
	zip.avail_out = MOST_PACKET;
	rc = inflateInit(&zip);
	if (rc == Z_OK) {
		rc = inflate(&zip, Z_FINISH);
		inflateEnd(&zip);
	}
	if (rc != Z_STREAM_END)
		ws_importer_add_note(perfetto->importer,
				     zip.avail_out
					     ? "Compressed packets are damaged; what stands "
					       "before the damage was read."
					     : "Compressed packets unpack to more than 64 MiB; "
					       "the rest of each was left out.");
	read_packets(perfetto, (struct message){perfetto->unpacked, zip.next_out}, true);
}

static void read_packet(struct perfetto *perfetto, struct message message, bool inner)
{
	struct packet packet = read_packet_fields(message);
	struct sequence *sequence = find_sequence(perfetto, packet.sequence);
	uint64_t at = 0;

	if (packet.cleared)
		clear_sequence(sequence);
	sequence->packets_lost = (sequence->packets_lost || packet.dropped) && !packet.cleared;
	if (packet.clocks.length)
		ws_perfetto_read_clocks(perfetto, sequence, &packet.clocks);
	if (packet.ftrace.length)
		ws_perfetto_read_ftrace(perfetto, &packet.ftrace);
	if (packet.tree.length)
		read_process_tree(perfetto, &packet.tree);
	if (packet.compressed.length && !inner)
		read_compressed(perfetto, &packet.compressed);
	if (sequence->packets_lost && packet.flags & 2) { /* it needs what was dropped */
		perfetto->lost_packets++;
		return;
	}
	if (packet.defaults.length)
		read_defaults(sequence, &packet.defaults);
	if (packet.interned.length)
		read_interned(perfetto, sequence, &packet.interned);
	if (packet.descriptor.length)
		read_track_descriptor(perfetto, &packet.descriptor);
	if (packet.stamped)
		at = ws_perfetto_convert_time(perfetto, sequence, packet.stamp, packet.clock);
	if (packet.event.length)
		read_track_event(perfetto, sequence, &packet.event, at);
	else if (packet.sample.length)
		ws_perfetto_put_sample(perfetto, sequence, &packet.sample, at);
	else if (!packet.clocks.length && !packet.ftrace.length && !packet.tree.length &&
		 !packet.compressed.length && !packet.defaults.length && !packet.interned.length &&
		 !packet.descriptor.length)
		perfetto->unknown_packets++;
}

static void read_packets(struct perfetto *perfetto, struct message message, bool inner)
{
	struct field field;

	while (!perfetto->importer->stopped && ws_pb_next_field(&message, &field))
		if (field.number == 1 && field.wire == 2)
			read_packet(perfetto, ws_pb_open_message(&field), inner);
}

/* ---- the window ---- */

/* Read until the window holds at least `n` bytes, or the rest of the file. */
static void fill_window(struct perfetto *perfetto, size_t wanted)
{
	while (perfetto->length - perfetto->at < wanted && !perfetto->eof) {
		size_t got;

		memmove(perfetto->buffer, perfetto->buffer + perfetto->at,
			perfetto->length - perfetto->at);
		perfetto->offset += perfetto->at;
		perfetto->length -= perfetto->at;
		perfetto->at = 0;
		if (perfetto->length == perfetto->capacity || wanted > perfetto->capacity) {
			if (wanted > perfetto->capacity)
				perfetto->capacity = wanted;
			else
				perfetto->capacity *= 2;
			perfetto->buffer = ws_realloc(perfetto->buffer, perfetto->capacity);
		}
		got = ws_read_input(perfetto->source, perfetto->buffer + perfetto->length,
				    perfetto->capacity - perfetto->length);
		perfetto->length += got;
		perfetto->eof = !got;
	}
}

/* The next packet, valid until the one after it is read; false at the end or where the file is
 * damaged. */
static bool next_packet(struct perfetto *perfetto, const uint8_t **data, size_t *n)
{
	const uint8_t *at, *end;
	uint64_t tag, length;

	fill_window(perfetto, 16);
	at = perfetto->buffer + perfetto->at;
	end = perfetto->buffer + perfetto->length;
	if (at == end)
		return false;
	if (!ws_pb_read_varint(&at, end, &tag) || tag != 0x0a ||
	    !ws_pb_read_varint(&at, end, &length) || length > MOST_PACKET) {
		ws_importer_add_note(perfetto->importer,
				     "The trace is broken at byte %" PRIu64
				     ". What stands before was read.",
				     perfetto->offset + perfetto->at);
		return false;
	}
	perfetto->at = (size_t)(at - perfetto->buffer);
	fill_window(perfetto, (size_t)length);
	if (perfetto->length - perfetto->at < length) {
		ws_importer_add_note(
			perfetto->importer,
			"The trace ends in the middle of a packet. What stands before was read.");
		return false;
	}
	*data = perfetto->buffer + perfetto->at;
	*n = (size_t)length;
	perfetto->at += (size_t)length;
	return true;
}

static void free_perfetto(struct perfetto *perfetto)
{
	for (size_t i = 0; i < perfetto->sequence_count; i++)
		clear_sequence(&perfetto->sequences[i]);
	free(perfetto->sequences);
	free(perfetto->track_list);
	free(perfetto->slices);
	ws_map_free(&perfetto->tracks);
	ws_map_free(&perfetto->open);
	ws_map_free(&perfetto->flow_time);
	ws_map_free(&perfetto->flow_track);
	ws_map_free(&perfetto->pids);
	ws_text_free(&perfetto->args);
	ws_text_free(&perfetto->texts);
	ws_map_free(&perfetto->woken);
	ws_map_free(&perfetto->wakers);
	free(perfetto->unpacked);
	free(perfetto->buffer);
	free(perfetto);
}

int ws_import_perfetto(struct ws_importer *importer, struct ws_input *source)
{
	struct perfetto *perfetto = ws_calloc(1, sizeof(*perfetto));
	const uint8_t *data;
	uint64_t before = importer->rows;
	size_t length;

	perfetto->importer = importer;
	perfetto->source = source;
	perfetto->capacity = WINDOW;
	perfetto->buffer = ws_malloc(WINDOW);
	while (!importer->stopped && next_packet(perfetto, &data, &length)) {
		read_packet(perfetto, (struct message){data, data + length}, false);
		if (!(++perfetto->packets & 0x3ff)) {
			ws_writer_commit(importer->writer);
			ws_importer_show_progress(importer, ws_count_input_read(source),
						  ws_find_input_size(source));
			if (ws_writer_error(importer->writer, NULL))
				break;
		}
	}
	for (size_t i = 0; i < perfetto->slice_count; i++)
		if (perfetto->slices[i].start != WS_NO_TIME)
			put_slice(perfetto, &perfetto->slices[i], WS_NO_TIME, WS_SLICE_LEFT_OPEN);
	ws_perfetto_finish_sched(perfetto);
	if (ws_explain_broken_input(source))
		ws_importer_add_note(importer, "The trace is broken: %s.",
				     ws_explain_broken_input(source));
	ws_importer_add_notes(
		importer, perfetto->lost_packets,
		"Packets that need others which were dropped while recording were left out.");
	ws_importer_add_notes(
		importer, perfetto->unknown_packets,
		"Packets or events of other kinds than tracks, processes and switches were "
		"left out.");
	if (importer->rows == before && !importer->stopped)
		ws_importer_stop(importer,
				 "%s holds nothing of a Perfetto trace that is known here",
				 importer->path);
	free_perfetto(perfetto);
	return ws_importer_get_status(importer);
}
