/*
 * perfetto.c - Perfetto's protobuf traces: track events with their tracks, counters, flows and
 * interned names; processes and threads; switches of threads from ftrace.
 *
 * A trace is a sequence of packets, each with its length before it. They are read one by one
 * through a window, and only the fields that mean something here are looked at; the numbers are
 * those of Perfetto's .proto files. State that packets build up (interned texts, defaults, clocks)
 * belongs to a sequence and is dropped when the sequence says so; packets that need what was lost
 * while recording are passed over.
 */
#include <inttypes.h>
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

static struct sequence *sequence_of(struct perfetto *perfetto, uint32_t id)
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
		ws_into_stop(perfetto->into, "there are more than 4096 sequences of packets");
		return &perfetto->sequences[0];
	}
	ws_grow(perfetto->sequences, perfetto->sequence_cap, perfetto->sequence_count + 1);
	perfetto->sequences[perfetto->sequence_count] = (struct sequence){.id = id};
	return &perfetto->sequences[perfetto->sequence_count++];
}

static void clear_sequence(struct sequence *sequence)
{
	for (int k = 0; k < KINDS; k++) {
		ws_map_free(&sequence->interned[k]);
		sequence->interned[k] = (struct ws_map){0};
	}
	sequence->default_track = sequence->default_clock = 0;
	sequence->extra_count = 0;
}

/* ---- interned texts ---- */

enum { MOST_TEXTS = 64 << 20 };

uint64_t ws_perfetto_keep(struct perfetto *perfetto, const void *s, size_t n)
{
	uint64_t at = perfetto->texts.len;

	if (n >= 1 << 24 || at + n > MOST_TEXTS)
		return 0;
	ws_text_add(&perfetto->texts, s, n);
	return at << 24 | n;
}

static void intern(struct perfetto *perfetto, struct sequence *sequence, int kind,
		   const struct field *list)
{
	struct message message = ws_pb_inside(list);
	struct field field;
	uint64_t iid = 0, value = 0;

	while (ws_pb_next(&message, &field)) {
		if (field.number == 1)
			iid = field.value;
		else if (field.number == 2 && field.wire == 2)
			value = kind >= ARGS ? ws_perfetto_keep(perfetto, field.bytes, field.n)
					     : ws_into_string(perfetto->into,
							      (const char *)field.bytes, field.n);
	}
	if (sequence->interned[kind].n < WS_INTO_MOST)
		ws_map_set(&sequence->interned[kind], iid, value);
}

static void take_interned(struct perfetto *perfetto, struct sequence *sequence,
			  const struct field *data)
{
	struct message message = ws_pb_inside(data);
	struct field field;
	bool code = false;

	while (ws_pb_next(&message, &field)) {
		if (field.wire != 2)
			continue;
		if (field.number == 1)
			intern(perfetto, sequence, CATEGORIES, &field);
		else if (field.number == 2)
			intern(perfetto, sequence, NAMES, &field);
		else if (field.number == 3)
			intern(perfetto, sequence, ARGS, &field);
		else if (field.number == 29) /* debug_annotation_string_values */
			intern(perfetto, sequence, TEXTS, &field);
		else
			code |= field.number == 5 || field.number == 6 || field.number == 7 ||
				field.number == 17 || field.number == 19;
	}
	if (code)
		ws_perfetto_code(perfetto, sequence, data);
}

static uint32_t interned(const struct sequence *sequence, int kind, uint64_t iid)
{
	return (uint32_t)ws_map_get(&sequence->interned[kind], iid, NULL);
}

/* ---- who ---- */

static uint32_t process_of(struct perfetto *perfetto, uint64_t pid)
{
	return ws_into_process(perfetto->into, pid, (uint32_t)pid);
}

uint32_t ws_perfetto_thread(struct perfetto *perfetto, uint64_t pid, uint64_t tid)
{
	return ws_into_thread(perfetto->into, process_of(perfetto, pid), tid, WS_NO_TIME);
}

static void take_process_tree(struct perfetto *perfetto, const struct field *tree)
{
	struct message message = ws_pb_inside(tree);
	struct field field_f, field_g;

	while (ws_pb_next(&message, &field_f)) {
		struct message one = ws_pb_inside(&field_f);
		uint64_t pid = 0, tid = 0;
		const struct field none = {0};
		struct field name = none;

		if (field_f.wire != 2 || field_f.number > 2)
			continue;
		while (ws_pb_next(&one, &field_g)) {
			if (field_f.number == 1 && field_g.number == 1)
				pid = field_g.value;
			else if (field_f.number == 1 && field_g.number == 3 && !name.n)
				name = field_g;
			else if (field_f.number == 2 && field_g.number == 1)
				tid = field_g.value;
			else if (field_f.number == 2 && field_g.number == 3)
				pid = field_g.value;
			else if (field_f.number == 2 && field_g.number == 2)
				name = field_g;
		}
		if (field_f.number == 1) {
			struct ws_into_process *process =
				ws_into_process_of(perfetto->into, process_of(perfetto, pid));
			const uint8_t *slash = name.n ? memrchr(name.bytes, '/', name.n) : NULL;

			if (name.n && !process->name) {
				process->cmdline = ws_into_string(perfetto->into,
								  (const char *)name.bytes, name.n);
				process->name =
					slash ? ws_into_string(
							perfetto->into, (const char *)slash + 1,
							(size_t)(name.bytes + name.n - slash - 1))
					      : process->cmdline;
			}
		} else {
			if (perfetto->pids.n < WS_INTO_MOST)
				ws_map_set(&perfetto->pids, tid, pid);
			if (name.n)
				ws_into_name_thread(perfetto->into,
						    ws_perfetto_thread(perfetto, pid, tid),
						    (const char *)name.bytes, name.n, 10);
		}
	}
}

/* ---- tracks ---- */

static struct track *add_track(struct perfetto *perfetto, uint64_t uuid, struct track track)
{
	ws_grow(perfetto->track, perfetto->track_cap, perfetto->track_count + 1);
	perfetto->track[perfetto->track_count] = track;
	ws_map_set(&perfetto->tracks, uuid, ++perfetto->track_count);
	return &perfetto->track[perfetto->track_count - 1];
}

static struct track *track_of(struct perfetto *perfetto, uint64_t uuid)
{
	uint64_t at = ws_map_get(&perfetto->tracks, uuid, NULL);
	char name[32];
	int n;

	if (at)
		return &perfetto->track[at - 1];
	if (perfetto->track_count == WS_INTO_MOST) {
		ws_into_stop(perfetto->into, "there are more than %d tracks", WS_INTO_MOST);
		return &perfetto->track[0];
	}
	n = snprintf(name, sizeof(name), "track %" PRIx64, uuid);
	return add_track(
		perfetto, uuid,
		(struct track){
			.track = uuid ? ws_into_track(perfetto->into, 0, 0, 0, name, (size_t)n)
				      : ws_into_track(perfetto->into, 0, 0, 0, "global", 6)});
}

static void describe_process(struct perfetto *perfetto, const struct field *field,
			     uint32_t *process)
{
	struct field name = ws_pb_find(field, 6);

	*process = process_of(perfetto, ws_pb_find(field, 1).value);
	if (name.n)
		ws_into_process_of(perfetto->into, *process)->name =
			ws_into_string(perfetto->into, (const char *)name.bytes, name.n);
}

static uint32_t describe_thread(struct perfetto *perfetto, const struct field *field)
{
	struct field name = ws_pb_find(field, 5);
	uint32_t id = ws_perfetto_thread(perfetto, ws_pb_find(field, 1).value,
					 ws_pb_find(field, 2).value);

	if (name.n)
		ws_into_name_thread(perfetto->into, id, (const char *)name.bytes, name.n, 20);
	return id;
}

static const char *unit_of(const struct field *counter)
{
	switch (ws_pb_find(counter, 3).value) {
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

/* What a descriptor says. */
struct described {
	struct track track;
	uint64_t uuid, parent;
	struct field name, counter;
	bool is_counter;
};

static void read_descriptor(struct perfetto *perfetto, const struct field *field_d,
			    struct described *described)
{
	struct message message = ws_pb_inside(field_d);
	struct field field_f;

	while (ws_pb_next(&message, &field_f)) {
		if (field_f.number == 1)
			described->uuid = field_f.value;
		else if ((field_f.number == 2 || field_f.number == 10 || field_f.number == 13) &&
			 field_f.wire == 2) /* name, static_name, atrace_name */
			described->name = field_f;
		else if (field_f.number == 3 && field_f.wire == 2)
			describe_process(perfetto, &field_f, &described->track.process);
		else if (field_f.number == 4 && field_f.wire == 2)
			described->track.thread = describe_thread(perfetto, &field_f);
		else if (field_f.number == 5)
			described->parent = field_f.value;
		else if (field_f.number == 8 && field_f.wire == 2) {
			described->counter = field_f;
			described->is_counter = true;
		}
	}
}

static void make_counter(struct perfetto *perfetto, struct described *described,
			 const struct track *up)
{
	struct field unit = ws_pb_find(&described->counter, 6);
	char *own = unit.wire == 2 && unit.n && unit.n < 256
			    ? ws_strndup((const char *)unit.bytes, unit.n)
			    : NULL;

	described->track.multiplier = (int64_t)ws_pb_find(&described->counter, 4).value;
	described->track.multiplier = described->track.multiplier ? described->track.multiplier : 1;
	described->track.incremental = ws_pb_find(&described->counter, 5).value;
	described->track.counter =
		ws_into_counter(perfetto->into, described->track.process, up ? up->thread : 0,
				WS_NO_U32, "", 0,
				described->name.n ? (const char *)described->name.bytes : "counter",
				described->name.n ? described->name.n : 7,
				own ? own : unit_of(&described->counter), NULL);
	free(own);
}

static void make_track(struct perfetto *perfetto, struct described *described,
		       const struct track *up)
{
	char text[32];
	int n = snprintf(text, sizeof(text),
			 described->track.process ? "process" : "track %" PRIx64, described->uuid);

	described->track.track =
		ws_into_track(perfetto->into, up ? up->track : 0, described->track.process,
			      up ? up->thread : 0,
			      described->name.n ? (const char *)described->name.bytes : text,
			      described->name.n ? described->name.n : (size_t)n);
}

static void take_descriptor(struct perfetto *perfetto, const struct field *field)
{
	struct described described = {.track.multiplier = 1};
	uint64_t at;

	read_descriptor(perfetto, field, &described);
	if (described.is_counter || !described.track.thread) {
		const struct track *up =
			described.parent ? track_of(perfetto, described.parent) : NULL;

		if (up && !described.track.process)
			described.track.process = up->process;
		if (described.is_counter)
			make_counter(perfetto, &described, up);
		else
			make_track(perfetto, &described, up);
	}
	at = ws_map_get(&perfetto->tracks, described.uuid, NULL);
	if (at)
		perfetto->track[at - 1] = described.track;
	else if (perfetto->track_count == WS_INTO_MOST)
		ws_into_stop(perfetto->into, "there are more than %d tracks", WS_INTO_MOST);
	else
		add_track(perfetto, described.uuid, described.track);
}

/* ---- arguments ---- */

static void put_string(struct perfetto *perfetto, const void *s, size_t n)
{
	ws_text_puts(&perfetto->args, "\"");
	ws_json_escape(&perfetto->args, s, n);
	ws_text_puts(&perfetto->args, "\"");
}

/* A text that was told before. */
static void put_kept(struct perfetto *perfetto, const struct sequence *sequence, int kind,
		     uint64_t iid)
{
	uint64_t at = ws_map_get(&sequence->interned[kind], iid, NULL);

	put_string(perfetto, at ? perfetto->texts.text + (at >> 24) : "", at & 0xffffff);
}

static void put_value(struct perfetto *perfetto, struct sequence *sequence,
		      const struct field *annotation, int depth);

static void put_list(struct perfetto *perfetto, struct sequence *sequence,
		     const struct field *annotation, uint32_t number, int depth)
{
	struct message message = ws_pb_inside(annotation);
	struct field field;
	bool dict = number == 11, any = false;

	ws_text_puts(&perfetto->args, dict ? "{" : "[");
	while (depth < MOST_DEPTH && ws_pb_next(&message, &field)) {
		struct field name;

		if (field.number != number || field.wire != 2)
			continue;
		ws_text_puts(&perfetto->args, any ? "," : "");
		any = true;
		name = ws_pb_find(&field, 10);
		if (dict) {
			put_string(perfetto, name.n ? (const void *)name.bytes : "", name.n);
			ws_text_puts(&perfetto->args, ":");
		}
		put_value(perfetto, sequence, &field, depth + 1);
	}
	ws_text_puts(&perfetto->args, dict ? "}" : "]");
}

static void put_value(struct perfetto *perfetto, struct sequence *sequence,
		      const struct field *annotation, int depth)
{
	struct message message = ws_pb_inside(annotation);
	struct field field;
	double d;

	while (ws_pb_next(&message, &field)) {
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
			memcpy(&d, &field.value, 8);
			ws_text_printf(&perfetto->args, d - d == 0 ? "%.17g" : "null", d);
			return;
		case 6:
		case 9:
			if (field.wire == 2) {
				put_string(perfetto, field.bytes, field.n);
				return;
			}
			break;
		case 17:
			put_kept(perfetto, sequence, TEXTS, field.value);
			return;
		case 11:
		case 12:
			put_list(perfetto, sequence, annotation, field.number, depth);
			return;
		}
	}
	ws_text_puts(&perfetto->args, "null");
}

static void put_arg(struct perfetto *perfetto, struct sequence *sequence,
		    const struct field *annotation)
{
	struct field name = ws_pb_find(annotation, 10), iid = ws_pb_find(annotation, 1);

	if (annotation->wire != 2 || perfetto->args.len > 1 << 20)
		return;
	ws_text_puts(&perfetto->args, perfetto->args.len ? "," : "{");
	if (name.n)
		put_string(perfetto, name.bytes, name.n);
	else
		put_kept(perfetto, sequence, ARGS, iid.value);
	ws_text_puts(&perfetto->args, ":");
	put_value(perfetto, sequence, annotation, 0);
}

/* ---- slices ---- */

static void put_slice(struct perfetto *perfetto, const struct open_slice *slice, uint64_t end,
		      uint8_t flags)
{
	const struct track *track = track_of(perfetto, slice->track);
	struct ws_row_slice *row = ws_into_row(perfetto->into, WS_TABLE_slice);

	*row = (struct ws_row_slice){.start = slice->start,
				     .end = end,
				     .thread = track->thread,
				     .track = track->track,
				     .name = slice->name,
				     .category = slice->category,
				     .args = slice->args,
				     .flags = flags};
	ws_into_time(perfetto->into, slice->start);
	if (end != WS_NO_TIME)
		ws_into_time(perfetto->into, end);
}

static void push(struct perfetto *perfetto, struct open_slice slice)
{
	uint32_t at = perfetto->free_slice;

	if (at) {
		perfetto->free_slice = perfetto->slices[at - 1].below;
	} else {
		if (perfetto->slice_count == WS_INTO_MOST) {
			ws_into_note(
				perfetto->into,
				"More than %d slices are open at once; further ones were left out.",
				WS_INTO_MOST);
			return;
		}
		ws_grow(perfetto->slices, perfetto->slice_cap, perfetto->slice_count + 1);
		at = (uint32_t)++perfetto->slice_count;
	}
	slice.below = (uint32_t)ws_map_get(&perfetto->open, slice.track, NULL);
	perfetto->slices[at - 1] = slice;
	ws_map_set(&perfetto->open, slice.track, at);
}

static void pop(struct perfetto *perfetto, uint64_t track, uint64_t end, uint32_t args)
{
	uint32_t at = (uint32_t)ws_map_get(&perfetto->open, track, NULL);
	struct open_slice slice;

	if (!at) {
		ws_into_note(perfetto->into, "Ends of slices without a beginning were left out.");
		return;
	}
	slice = perfetto->slices[at - 1];
	ws_map_set(&perfetto->open, track, slice.below);
	perfetto->slices[at - 1].start = WS_NO_TIME;
	perfetto->slices[at - 1].below = perfetto->free_slice;
	perfetto->free_slice = at;
	if (!slice.args)
		slice.args = args;
	put_slice(perfetto, &slice, ws_max(end, slice.start), 0);
}

/* A flow goes from each event that names it to the next one that does. */
static void flow(struct perfetto *perfetto, uint64_t id, uint64_t at, uint64_t track, bool last)
{
	bool found;
	uint64_t from = ws_map_get(&perfetto->flow_time, id, &found);

	if (found) {
		const struct track *track_a =
			track_of(perfetto, ws_map_get(&perfetto->flow_track, id, NULL));
		uint32_t threads[] = {track_a->thread, track_of(perfetto, track)->thread},
			 tracks[] = {track_a->track, 0};
		struct ws_row_flow *row;

		track_a = track_of(perfetto, track);
		tracks[1] = track_a->track;
		row = ws_into_row(perfetto->into, WS_TABLE_flow);
		*row = (struct ws_row_flow){.start = from,
					    .end = at,
					    .from_thread = threads[0],
					    .to_thread = threads[1],
					    .from_track = tracks[0],
					    .to_track = tracks[1]};
	}
	if (last) {
		ws_map_take(&perfetto->flow_time, id, &from);
		ws_map_take(&perfetto->flow_track, id, &from);
	} else if (perfetto->flow_time.n < WS_INTO_MOST) {
		ws_map_set(&perfetto->flow_time, id, at);
		ws_map_set(&perfetto->flow_track, id, track);
	}
}

static void count(struct perfetto *perfetto, uint64_t uuid, uint64_t at, const struct field *value)
{
	struct track *track = track_of(perfetto, uuid);
	double d = (double)(int64_t)value->value;
	struct ws_row_counter_value *row;

	if (!track->counter) {
		ws_into_note(perfetto->into,
			     "Values of counters without a description were left out.");
		return;
	}
	if (value->wire == 1)
		memcpy(&d, &value->value, 8);
	if (!(d - d == 0))
		return;
	d *= (double)track->multiplier;
	if (track->incremental)
		d = track->sum += d;
	row = ws_into_row(perfetto->into, WS_TABLE_counter_value);
	*row = (struct ws_row_counter_value){.start = at, .counter = track->counter, .value = d};
	ws_into_time(perfetto->into, at);
}

struct event {
	uint64_t type, track;
	struct open_slice slice;
	struct field value, legacy;
	bool has_value, extra;
};

/* The numbers of a repeated field, packed or not, of either wire type; how many there are, at most
 * `most`. */
static size_t numbers_of(const struct field *in, uint32_t number, uint64_t *out, size_t most)
{
	struct message message = ws_pb_inside(in);
	struct field field;
	size_t n = 0;

	while (n < most && ws_pb_next(&message, &field)) {
		struct message packed = ws_pb_inside(&field);

		if (field.number != number)
			continue;
		if (field.wire != 2)
			out[n++] = field.value;
		else
			while (n < most && ws_pb_varint(&packed.bytes, packed.end, &out[n]))
				n++;
	}
	return n;
}

/* Values of counters that come with an event; which counters, it says or its sequence does. */
static void count_extra(struct perfetto *perfetto, struct sequence *sequence,
			const struct field *data, uint64_t at)
{
	uint64_t tracks[WS_COUNT(sequence->extra_default)],
		values[WS_COUNT(sequence->extra_default)];
	size_t n = numbers_of(data, 31, tracks, WS_COUNT(tracks)),
	       many = numbers_of(data, 12, values, WS_COUNT(values));

	if (!n) {
		n = sequence->extra_count;
		memcpy(tracks, sequence->extra_default, sizeof(tracks));
	}
	for (size_t i = 0; i < many && i < n; i++)
		count(perfetto, tracks[i], at, &(struct field){.number = 30, .value = values[i]});
	n = numbers_of(data, 45, tracks, WS_COUNT(tracks));
	many = 0;
	for (struct message message = ws_pb_inside(data); many < n;) {
		struct field field;

		if (!ws_pb_next(&message, &field))
			break;
		if (field.number == 46 && field.wire == 1)
			count(perfetto, tracks[many++], at, &field);
	}
}

/* The row of asynchronous events of Chrome's kind: those of one name and id. */
static uint64_t async_track(struct perfetto *perfetto, const struct event *event)
{
	uint64_t facts[] = {event->slice.category, ws_pb_find(&event->legacy, 6).value,
			    ws_pb_find(&event->legacy, 10).value,
			    ws_pb_find(&event->legacy, 11).value, event->track};
	uint64_t uuid = XXH3_64bits(facts, sizeof(facts)) | 1;
	const struct track *of = track_of(perfetto, event->track);
	struct track track = {.process = of->process, .multiplier = 1};
	char name[32];
	int n;

	if (ws_map_get(&perfetto->tracks, uuid, NULL) || perfetto->track_count == WS_INTO_MOST)
		return uuid;
	n = snprintf(name, sizeof(name), "async %" PRIx64,
		     facts[1]	? facts[1]
		     : facts[2] ? facts[2]
				: facts[3]);
	track.track =
		ws_into_track(perfetto->into, of->track, of->process, of->thread, name, (size_t)n);
	add_track(perfetto, uuid, track);
	return uuid;
}

static void take_legacy(struct perfetto *perfetto, struct sequence *sequence, struct event *event,
			uint64_t at)
{
	uint64_t phase = ws_pb_find(&event->legacy, 2).value,
		 duration = ws_pb_find(&event->legacy, 3).value;
	uint64_t name = ws_pb_find(&event->legacy, 1).value;

	if (phase == 'b' || phase == 'e' || phase == 'n' || phase == 'S' || phase == 'F')
		event->track = event->slice.track = async_track(perfetto, event);

	if (!event->slice.name && name)
		event->slice.name = interned(sequence, NAMES, name);
	if (phase == 'X')
		put_slice(perfetto, &event->slice, at + duration * 1000, 0);
	else if (phase == 'B' || phase == 'b' || phase == 'S')
		push(perfetto, event->slice);
	else if (phase == 'E' || phase == 'e' || phase == 'F')
		pop(perfetto, event->track, at, event->slice.args);
	else if (phase == 'i' || phase == 'I' || phase == 'n' || phase == 'R')
		put_slice(perfetto, &event->slice, WS_NO_TIME, WS_SLICE_INSTANT);
	else if (phase)
		ws_into_note(perfetto->into,
			     "Events of Chrome's phase %c inside of Perfetto's were left out.",
			     phase > ' ' && phase < 127 ? (int)phase : '?');
}

/* The fields of an event; its arguments into p->args. */
static void read_event(struct perfetto *perfetto, struct sequence *sequence,
		       const struct field *data, struct event *event)
{
	struct message message = ws_pb_inside(data);
	struct field field;

	perfetto->args.len = 0;
	while (ws_pb_next(&message, &field)) {
		switch (field.number) {
		case 3:
			event->slice.category =
				event->slice.category ? event->slice.category
						      : interned(sequence, CATEGORIES, field.value);
			break;
		case 22:
			if (field.wire == 2 && !event->slice.category)
				event->slice.category = ws_into_string(
					perfetto->into, (const char *)field.bytes, field.n);
			break;
		case 10:
			event->slice.name = interned(sequence, NAMES, field.value);
			break;
		case 23:
			if (field.wire == 2)
				event->slice.name = ws_into_string(
					perfetto->into, (const char *)field.bytes, field.n);
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
			put_arg(perfetto, sequence, &field);
			break;
		case 6:
			event->legacy = field;
			break;
		}
	}
	event->slice.track = event->track;
	if (perfetto->args.len) {
		ws_text_puts(&perfetto->args, "}");
		event->slice.args =
			ws_into_string(perfetto->into, perfetto->args.text, perfetto->args.len);
	}
}

static void take_event(struct perfetto *perfetto, struct sequence *sequence,
		       const struct field *data, uint64_t at)
{
	struct event event = {.track = sequence->default_track, .slice.start = at};
	struct message message = ws_pb_inside(data);
	struct field field;

	read_event(perfetto, sequence, data, &event);
	if (event.type == 1)
		push(perfetto, event.slice);
	else if (event.type == 2)
		pop(perfetto, event.track, at, event.slice.args);
	else if (event.type == 3)
		put_slice(perfetto, &event.slice, WS_NO_TIME, WS_SLICE_INSTANT);
	else if (event.type == 4 && event.has_value)
		count(perfetto, event.track, at, &event.value);
	else if (event.legacy.n)
		take_legacy(perfetto, sequence, &event, at);
	if (event.extra)
		count_extra(perfetto, sequence, data, at);
	while (ws_pb_next(&message, &field))
		if (field.number == 47 || field.number == 36 || field.number == 48 ||
		    field.number == 42)
			flow(perfetto, field.value, at, event.track,
			     field.number == 48 || field.number == 42);
}

/* ---- clocks ---- */

enum { CLOCK_REAL = 1, CLOCK_MONO = 3, CLOCK_BOOT = 6 };

static struct clock *clock_find(struct perfetto *perfetto, struct sequence *sequence, uint32_t id)
{
	if (sequence && id >= 64 && id < 128) {
		for (int i = 0; i < sequence->clock_count; i++)
			if (sequence->clocks[i].id == id)
				return &sequence->clocks[i];
	} else {
		for (int i = 0; i < perfetto->clock_count; i++)
			if (perfetto->clocks[i].id == id)
				return &perfetto->clocks[i];
	}
	return NULL;
}

/* Clocks 64 to 127 are the sequence's own. NULL when there are too many. */
static struct clock *clock_place(struct perfetto *perfetto, struct sequence *sequence, uint32_t id)
{
	struct clock *clock = clock_find(perfetto, sequence, id);

	if (clock)
		return clock;
	if (id >= 64 && id < 128)
		return sequence->clock_count < SEQUENCE_CLOCKS
			       ? &sequence->clocks[sequence->clock_count++]
			       : NULL;
	return perfetto->clock_count < TRACE_CLOCKS ? &perfetto->clocks[perfetto->clock_count++]
						    : NULL;
}

/*
 * Readings of several clocks at one moment. The session's is the one since boot; a trace without it
 * keeps what its first snapshot has: the monotonic clock, or else whatever comes first.
 */
static void take_clocks(struct perfetto *perfetto, struct sequence *sequence,
			const struct field *snapshot)
{
	struct message message = ws_pb_inside(snapshot);
	uint64_t real = 0, now = 0;
	int rank = 0;
	struct field field;

	while (ws_pb_next(&message, &field)) {
		uint64_t id, at, unit;
		const struct clock *known;
		int better;

		if (field.number != 1 || field.wire != 2)
			continue;
		id = ws_pb_find(&field, 1).value, at = ws_pb_find(&field, 2).value,
		unit = ws_pb_find(&field, 4).value;
		known = clock_find(perfetto, sequence, (uint32_t)id);
		better = id == CLOCK_BOOT ? 4 : known ? 3 : id == CLOCK_MONO ? 2 : 1;
		if (id == CLOCK_REAL)
			real = at;
		if (better <= rank)
			continue;
		rank = better;
		unit = unit ? unit : 1;
		now = known ? at * known->unit + (uint64_t)known->offset : at * unit;
	}
	message = ws_pb_inside(snapshot);
	while (ws_pb_next(&message, &field)) {
		uint32_t id = (uint32_t)ws_pb_find(&field, 1).value;
		struct clock *clock = field.number == 1 && field.wire == 2 && id != CLOCK_BOOT
					      ? clock_place(perfetto, sequence, id)
					      : NULL;

		if (!clock)
			continue;
		*clock = (struct clock){.id = id,
					.incremental = ws_pb_find(&field, 3).value,
					.value = ws_pb_find(&field, 2).value};
		clock->unit = ws_pb_find(&field, 4).value;
		clock->unit = clock->unit ? clock->unit : 1;
		clock->offset = (int64_t)(now - clock->value * clock->unit);
	}
	if (rank && real && !perfetto->clock_told) {
		struct ws_row_clock *row = ws_into_row(perfetto->into, WS_TABLE_clock);

		*row = (struct ws_row_clock){.raw = now, .realtime = real};
		perfetto->clock_told = true;
	}
}

uint64_t ws_perfetto_time(struct perfetto *perfetto, struct sequence *sequence, uint64_t stamp,
			  uint32_t clock)
{
	struct clock *clock_c;

	if (!clock && sequence)
		clock = sequence->default_clock;
	if (!clock || clock == CLOCK_BOOT)
		return stamp;
	clock_c = clock_find(perfetto, sequence, clock);
	if (!clock_c) {
		ws_into_note(perfetto->into,
			     "Times of clock %" PRIu32
			     ", which no snapshot relates to the others, stay as they are.",
			     clock);
		return stamp;
	}
	if (!clock_c->incremental)
		return stamp * clock_c->unit + (uint64_t)clock_c->offset;
	clock_c->value += stamp;
	return clock_c->value * clock_c->unit + (uint64_t)clock_c->offset;
}

/* ---- packets ---- */

static void take_defaults(struct sequence *sequence, const struct field *field)
{
	struct field clock = ws_pb_find(field, 58), event = ws_pb_find(field, 11);

	sequence->default_clock = (uint32_t)clock.value;
	sequence->default_track = event.n ? ws_pb_find(&event, 11).value : 0;
	if (event.n)
		sequence->extra_count = (uint8_t)numbers_of(&event, 31, sequence->extra_default,
							    WS_COUNT(sequence->extra_default));
}

/* What of a packet is looked at. */
struct packet {
	struct field event, interned, defaults, clocks, sample, ftrace, tree, descriptor,
		compressed;
	uint64_t stamp, flags;
	uint32_t clock, sequence;
	bool stamped, cleared, dropped;
};

static struct packet open_packet(struct message message)
{
	struct packet packet = {0};
	struct field field;
	const struct {
		uint32_t number;
		struct field *at;
	} messages[] = {{11, &packet.event}, {12, &packet.interned},   {59, &packet.defaults},
			{6, &packet.clocks}, {66, &packet.sample},     {1, &packet.ftrace},
			{2, &packet.tree},   {60, &packet.descriptor}, {50, &packet.compressed}};

	while (ws_pb_next(&message, &field)) {
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

static void take_packets(struct perfetto *perfetto, struct message message, bool inner);

/* A packet of packets, deflated. */
static void take_compressed(struct perfetto *perfetto, const struct field *field)
{
	z_stream zip = {.next_in = (unsigned char *)field->bytes, .avail_in = (unsigned)field->n};
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
		ws_into_note(perfetto->into,
			     zip.avail_out ? "Compressed packets are damaged; what stands "
					     "before the damage was read."
					   : "Compressed packets unpack to more than 64 MiB; "
					     "the rest of each was left out.");
	take_packets(perfetto, (struct message){perfetto->unpacked, zip.next_out}, true);
}

static void take_packet(struct perfetto *perfetto, struct message message, bool inner)
{
	struct packet packet = open_packet(message);
	struct sequence *sequence = sequence_of(perfetto, packet.sequence);
	uint64_t at;

	if (packet.cleared)
		clear_sequence(sequence);
	sequence->lost = (sequence->lost || packet.dropped) && !packet.cleared;
	if (packet.clocks.n)
		take_clocks(perfetto, sequence, &packet.clocks);
	if (packet.ftrace.n)
		ws_perfetto_ftrace(perfetto, &packet.ftrace);
	if (packet.tree.n)
		take_process_tree(perfetto, &packet.tree);
	if (packet.compressed.n && !inner)
		take_compressed(perfetto, &packet.compressed);
	if (sequence->lost && packet.flags & 2) { /* it needs what was dropped */
		perfetto->lost++;
		return;
	}
	if (packet.defaults.n)
		take_defaults(sequence, &packet.defaults);
	if (packet.interned.n)
		take_interned(perfetto, sequence, &packet.interned);
	if (packet.descriptor.n)
		take_descriptor(perfetto, &packet.descriptor);
	at = packet.stamped ? ws_perfetto_time(perfetto, sequence, packet.stamp, packet.clock) : 0;
	if (packet.event.n)
		take_event(perfetto, sequence, &packet.event, at);
	else if (packet.sample.n)
		ws_perfetto_sample(perfetto, sequence, &packet.sample, at);
	else if (!packet.clocks.n && !packet.ftrace.n && !packet.tree.n && !packet.compressed.n &&
		 !packet.defaults.n && !packet.interned.n && !packet.descriptor.n)
		perfetto->others++;
}

static void take_packets(struct perfetto *perfetto, struct message message, bool inner)
{
	struct field field;

	while (!perfetto->into->full && ws_pb_next(&message, &field))
		if (field.number == 1 && field.wire == 2)
			take_packet(perfetto, ws_pb_inside(&field), inner);
}

/* ---- the window ---- */

/* Have at least `n` bytes at p->at, or all that is left. */
static void have(struct perfetto *perfetto, size_t n)
{
	while (perfetto->len - perfetto->at < n && !perfetto->eof) {
		size_t got;

		memmove(perfetto->buffer, perfetto->buffer + perfetto->at,
			perfetto->len - perfetto->at);
		perfetto->offset += perfetto->at;
		perfetto->len -= perfetto->at;
		perfetto->at = 0;
		if (perfetto->len == perfetto->cap || n > perfetto->cap) {
			perfetto->cap = n > perfetto->cap ? n : perfetto->cap * 2;
			perfetto->buffer = ws_realloc(perfetto->buffer, perfetto->cap);
		}
		got = ws_source_read(perfetto->source, perfetto->buffer + perfetto->len,
				     perfetto->cap - perfetto->len);
		perfetto->len += got;
		perfetto->eof = !got;
	}
}

/* The next packet in the window; false at the end or a break. */
static bool next_packet(struct perfetto *perfetto, const uint8_t **data, size_t *n)
{
	const uint8_t *at, *end;
	uint64_t tag, length;

	have(perfetto, 16);
	at = perfetto->buffer + perfetto->at;
	end = perfetto->buffer + perfetto->len;
	if (at == end)
		return false;
	if (!ws_pb_varint(&at, end, &tag) || tag != 0x0a || !ws_pb_varint(&at, end, &length) ||
	    length > MOST_PACKET) {
		ws_into_note(perfetto->into,
			     "The trace is broken at byte %" PRIu64
			     ". What stands before was read.",
			     perfetto->offset + perfetto->at);
		return false;
	}
	perfetto->at = (size_t)(at - perfetto->buffer);
	have(perfetto, (size_t)length);
	if (perfetto->len - perfetto->at < length) {
		ws_into_note(
			perfetto->into,
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
	free(perfetto->track);
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

int ws_perfetto_import(struct ws_into *into, struct ws_source *source)
{
	struct perfetto *perfetto = ws_calloc(1, sizeof(*perfetto));
	const uint8_t *data;
	uint64_t before = into->rows;
	size_t n;

	perfetto->into = into;
	perfetto->source = source;
	perfetto->cap = WINDOW;
	perfetto->buffer = ws_malloc(WINDOW);
	while (!into->full && next_packet(perfetto, &data, &n)) {
		take_packet(perfetto, (struct message){data, data + n}, false);
		if (!(++perfetto->packets & 0x3ff)) {
			ws_writer_commit(into->writer);
			ws_into_progress(into, ws_source_done(source), ws_source_size(source));
			if (ws_writer_error(into->writer, NULL))
				break;
		}
	}
	for (size_t i = 0; i < perfetto->slice_count; i++)
		if (perfetto->slices[i].start != WS_NO_TIME)
			put_slice(perfetto, &perfetto->slices[i], WS_NO_TIME, WS_SLICE_LEFT_OPEN);
	ws_perfetto_sched_end(perfetto);
	if (ws_source_broken(source))
		ws_into_note(into, "The trace is broken: %s.", ws_source_broken(source));
	ws_into_note_n(
		into, perfetto->lost,
		"Packets that need others which were dropped while recording were left out.");
	ws_into_note_n(into, perfetto->others,
		       "Packets or events of other kinds than tracks, processes and switches were "
		       "left out.");
	if (into->rows == before && !into->full)
		ws_into_stop(into, "%s holds nothing of a Perfetto trace that is known here",
			     into->path);
	free_perfetto(perfetto);
	return into->full ? -1 : 0;
}
