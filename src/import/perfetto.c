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
#include "text/json.h"
#include "import/perfetto.h"

enum { MOST_PACKET = 64 << 20, WINDOW = 4 << 20, MOST_DEPTH = 8 };

static struct sequence *sequence_of(struct perfetto *p, uint32_t id)
{
	if (p->last_sequence < p->sequence_count && p->sequences[p->last_sequence].id == id)
		return &p->sequences[p->last_sequence];
	for (size_t i = 0; i < p->sequence_count; i++)
		if (p->sequences[i].id == id) {
			p->last_sequence = i;
			return &p->sequences[i];
		}
	if (p->sequence_count == 4096) {
		ws_into_stop(p->o, "there are more than 4096 sequences of packets");
		return &p->sequences[0];
	}
	ws_grow(p->sequences, p->sequence_cap, p->sequence_count + 1);
	p->sequences[p->sequence_count] = (struct sequence){.id = id};
	return &p->sequences[p->sequence_count++];
}

static void clear_sequence(struct sequence *s)
{
	for (int k = 0; k < KINDS; k++) {
		ws_map_free(&s->interned[k]);
		s->interned[k] = (struct ws_map){0};
	}
	s->default_track = s->default_clock = 0;
	s->extra_count = 0;
}

/* ---- interned texts ---- */

enum { MOST_TEXTS = 64 << 20 };

uint64_t ws_perfetto_keep(struct perfetto *p, const void *s, size_t n)
{
	uint64_t at = p->texts.len;

	if (n >= 1 << 24 || at + n > MOST_TEXTS)
		return 0;
	ws_text_add(&p->texts, s, n);
	return at << 24 | n;
}

static void intern(struct perfetto *p, struct sequence *s, int kind, const struct field *list)
{
	struct message m = ws_pb_inside(list);
	struct field f;
	uint64_t iid = 0, value = 0;

	while (ws_pb_next(&m, &f)) {
		if (f.number == 1)
			iid = f.value;
		else if (f.number == 2 && f.wire == 2)
			value = kind >= ARGS ? ws_perfetto_keep(p, f.p, f.n)
					     : ws_into_string(p->o, (const char *)f.p, f.n);
	}
	if (s->interned[kind].n < WS_INTO_MOST)
		ws_map_set(&s->interned[kind], iid, value);
}

static void take_interned(struct perfetto *p, struct sequence *s, const struct field *data)
{
	struct message m = ws_pb_inside(data);
	struct field f;
	bool code = false;

	while (ws_pb_next(&m, &f)) {
		if (f.wire != 2)
			continue;
		if (f.number == 1)
			intern(p, s, CATEGORIES, &f);
		else if (f.number == 2)
			intern(p, s, NAMES, &f);
		else if (f.number == 3)
			intern(p, s, ARGS, &f);
		else if (f.number == 29) /* debug_annotation_string_values */
			intern(p, s, TEXTS, &f);
		else
			code |= f.number == 5 || f.number == 6 || f.number == 7 || f.number == 17 ||
				f.number == 19;
	}
	if (code)
		ws_perfetto_code(p, s, data);
}

static uint32_t interned(const struct sequence *s, int kind, uint64_t iid)
{
	return (uint32_t)ws_map_get(&s->interned[kind], iid, NULL);
}

/* ---- who ---- */

static uint32_t process_of(struct perfetto *p, uint64_t pid)
{
	return ws_into_process(p->o, pid, (uint32_t)pid);
}

uint32_t ws_perfetto_thread(struct perfetto *p, uint64_t pid, uint64_t tid)
{
	return ws_into_thread(p->o, process_of(p, pid), tid, WS_NO_TIME);
}

static void take_process_tree(struct perfetto *p, const struct field *tree)
{
	struct message m = ws_pb_inside(tree);
	struct field f, g;

	while (ws_pb_next(&m, &f)) {
		struct message one = ws_pb_inside(&f);
		uint64_t pid = 0, tid = 0;
		const struct field none = {0};
		struct field name = none;

		if (f.wire != 2 || f.number > 2)
			continue;
		while (ws_pb_next(&one, &g)) {
			if (f.number == 1 && g.number == 1)
				pid = g.value;
			else if (f.number == 1 && g.number == 3 && !name.n)
				name = g;
			else if (f.number == 2 && g.number == 1)
				tid = g.value;
			else if (f.number == 2 && g.number == 3)
				pid = g.value;
			else if (f.number == 2 && g.number == 2)
				name = g;
		}
		if (f.number == 1) {
			struct ws_into_process *q = ws_into_process_of(p->o, process_of(p, pid));
			const uint8_t *slash = name.n ? memrchr(name.p, '/', name.n) : NULL;

			if (name.n && !q->name) {
				q->cmdline = ws_into_string(p->o, (const char *)name.p, name.n);
				q->name = slash ? ws_into_string(
							  p->o, (const char *)slash + 1,
							  (size_t)(name.p + name.n - slash - 1))
						: q->cmdline;
			}
		} else {
			if (p->pids.n < WS_INTO_MOST)
				ws_map_set(&p->pids, tid, pid);
			if (name.n)
				ws_into_name_thread(p->o, ws_perfetto_thread(p, pid, tid),
						    (const char *)name.p, name.n, 10);
		}
	}
}

/* ---- tracks ---- */

static struct track *add_track(struct perfetto *p, uint64_t uuid, struct track t)
{
	ws_grow(p->track, p->track_cap, p->track_count + 1);
	p->track[p->track_count] = t;
	ws_map_set(&p->tracks, uuid, ++p->track_count);
	return &p->track[p->track_count - 1];
}

static struct track *track_of(struct perfetto *p, uint64_t uuid)
{
	uint64_t at = ws_map_get(&p->tracks, uuid, NULL);
	char name[32];
	int n;

	if (at)
		return &p->track[at - 1];
	if (p->track_count == WS_INTO_MOST) {
		ws_into_stop(p->o, "there are more than %d tracks", WS_INTO_MOST);
		return &p->track[0];
	}
	n = snprintf(name, sizeof(name), "track %" PRIx64, uuid);
	return add_track(p, uuid,
			 (struct track){.track =
						uuid ? ws_into_track(p->o, 0, 0, 0, name, (size_t)n)
						     : ws_into_track(p->o, 0, 0, 0, "global", 6)});
}

static void describe_process(struct perfetto *p, const struct field *d, uint32_t *process)
{
	struct field name = ws_pb_find(d, 6);

	*process = process_of(p, ws_pb_find(d, 1).value);
	if (name.n)
		ws_into_process_of(p->o, *process)->name =
			ws_into_string(p->o, (const char *)name.p, name.n);
}

static uint32_t describe_thread(struct perfetto *p, const struct field *d)
{
	struct field name = ws_pb_find(d, 5);
	uint32_t id = ws_perfetto_thread(p, ws_pb_find(d, 1).value, ws_pb_find(d, 2).value);

	if (name.n)
		ws_into_name_thread(p->o, id, (const char *)name.p, name.n, 20);
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
	struct track t;
	uint64_t uuid, parent;
	struct field name, counter;
	bool is_counter;
};

static void read_descriptor(struct perfetto *p, const struct field *d, struct described *r)
{
	struct message m = ws_pb_inside(d);
	struct field f;

	while (ws_pb_next(&m, &f)) {
		if (f.number == 1)
			r->uuid = f.value;
		else if ((f.number == 2 || f.number == 10 || f.number == 13) &&
			 f.wire == 2) /* name, static_name, atrace_name */
			r->name = f;
		else if (f.number == 3 && f.wire == 2)
			describe_process(p, &f, &r->t.process);
		else if (f.number == 4 && f.wire == 2)
			r->t.thread = describe_thread(p, &f);
		else if (f.number == 5)
			r->parent = f.value;
		else if (f.number == 8 && f.wire == 2) {
			r->counter = f;
			r->is_counter = true;
		}
	}
}

static void make_counter(struct perfetto *p, struct described *r, const struct track *up)
{
	struct field unit = ws_pb_find(&r->counter, 6);
	char *own = unit.wire == 2 && unit.n && unit.n < 256
			    ? ws_strndup((const char *)unit.p, unit.n)
			    : NULL;

	r->t.multiplier = (int64_t)ws_pb_find(&r->counter, 4).value;
	r->t.multiplier = r->t.multiplier ? r->t.multiplier : 1;
	r->t.incremental = ws_pb_find(&r->counter, 5).value;
	r->t.counter =
		ws_into_counter(p->o, r->t.process, up ? up->thread : 0, WS_NO_U32, "", 0,
				r->name.n ? (const char *)r->name.p : "counter",
				r->name.n ? r->name.n : 7, own ? own : unit_of(&r->counter), NULL);
	free(own);
}

static void make_track(struct perfetto *p, struct described *r, const struct track *up)
{
	char text[32];
	int n = snprintf(text, sizeof(text), r->t.process ? "process" : "track %" PRIx64, r->uuid);

	r->t.track = ws_into_track(p->o, up ? up->track : 0, r->t.process, up ? up->thread : 0,
				   r->name.n ? (const char *)r->name.p : text,
				   r->name.n ? r->name.n : (size_t)n);
}

static void take_descriptor(struct perfetto *p, const struct field *d)
{
	struct described r = {.t.multiplier = 1};
	uint64_t at;

	read_descriptor(p, d, &r);
	if (r.is_counter || !r.t.thread) {
		const struct track *up = r.parent ? track_of(p, r.parent) : NULL;

		if (up && !r.t.process)
			r.t.process = up->process;
		if (r.is_counter)
			make_counter(p, &r, up);
		else
			make_track(p, &r, up);
	}
	at = ws_map_get(&p->tracks, r.uuid, NULL);
	if (at)
		p->track[at - 1] = r.t;
	else if (p->track_count == WS_INTO_MOST)
		ws_into_stop(p->o, "there are more than %d tracks", WS_INTO_MOST);
	else
		add_track(p, r.uuid, r.t);
}

/* ---- arguments ---- */

static void put_string(struct perfetto *p, const void *s, size_t n)
{
	ws_text_puts(&p->args, "\"");
	ws_json_escape(&p->args, s, n);
	ws_text_puts(&p->args, "\"");
}

/* A text that was told before. */
static void put_kept(struct perfetto *p, const struct sequence *s, int kind, uint64_t iid)
{
	uint64_t at = ws_map_get(&s->interned[kind], iid, NULL);

	put_string(p, at ? p->texts.s + (at >> 24) : "", at & 0xffffff);
}

static void put_value(struct perfetto *p, struct sequence *s, const struct field *annotation,
		      int depth);

static void put_list(struct perfetto *p, struct sequence *s, const struct field *annotation,
		     uint32_t number, int depth)
{
	struct message m = ws_pb_inside(annotation);
	struct field f;
	bool dict = number == 11, any = false;

	ws_text_puts(&p->args, dict ? "{" : "[");
	while (depth < MOST_DEPTH && ws_pb_next(&m, &f)) {
		struct field name;

		if (f.number != number || f.wire != 2)
			continue;
		ws_text_puts(&p->args, any ? "," : "");
		any = true;
		name = ws_pb_find(&f, 10);
		if (dict) {
			put_string(p, name.n ? (const void *)name.p : "", name.n);
			ws_text_puts(&p->args, ":");
		}
		put_value(p, s, &f, depth + 1);
	}
	ws_text_puts(&p->args, dict ? "}" : "]");
}

static void put_value(struct perfetto *p, struct sequence *s, const struct field *annotation,
		      int depth)
{
	struct message m = ws_pb_inside(annotation);
	struct field f;
	double d;

	while (ws_pb_next(&m, &f)) {
		switch (f.number) {
		case 2:
			ws_text_puts(&p->args, f.value ? "true" : "false");
			return;
		case 3:
		case 7:
			ws_text_printf(&p->args, "%" PRIu64, f.value);
			return;
		case 4:
			ws_text_printf(&p->args, "%" PRId64, (int64_t)f.value);
			return;
		case 5:
			memcpy(&d, &f.value, 8);
			ws_text_printf(&p->args, d - d == 0 ? "%.17g" : "null", d);
			return;
		case 6:
		case 9:
			if (f.wire == 2) {
				put_string(p, f.p, f.n);
				return;
			}
			break;
		case 17:
			put_kept(p, s, TEXTS, f.value);
			return;
		case 11:
		case 12:
			put_list(p, s, annotation, f.number, depth);
			return;
		}
	}
	ws_text_puts(&p->args, "null");
}

static void put_arg(struct perfetto *p, struct sequence *s, const struct field *annotation)
{
	struct field name = ws_pb_find(annotation, 10), iid = ws_pb_find(annotation, 1);

	if (annotation->wire != 2 || p->args.len > 1 << 20)
		return;
	ws_text_puts(&p->args, p->args.len ? "," : "{");
	if (name.n)
		put_string(p, name.p, name.n);
	else
		put_kept(p, s, ARGS, iid.value);
	ws_text_puts(&p->args, ":");
	put_value(p, s, annotation, 0);
}

/* ---- slices ---- */

static void put_slice(struct perfetto *p, const struct open_slice *s, uint64_t end, uint8_t flags)
{
	const struct track *t = track_of(p, s->track);
	struct ws_row_slice *row = ws_into_row(p->o, WS_TABLE_slice);

	*row = (struct ws_row_slice){.start = s->start,
				     .end = end,
				     .thread = t->thread,
				     .track = t->track,
				     .name = s->name,
				     .category = s->category,
				     .args = s->args,
				     .flags = flags};
	ws_into_time(p->o, s->start);
	if (end != WS_NO_TIME)
		ws_into_time(p->o, end);
}

static void push(struct perfetto *p, struct open_slice s)
{
	uint32_t at = p->free_slice;

	if (at) {
		p->free_slice = p->slices[at - 1].below;
	} else {
		if (p->slice_count == WS_INTO_MOST) {
			ws_into_note(
				p->o,
				"More than %d slices are open at once; further ones were left out.",
				WS_INTO_MOST);
			return;
		}
		ws_grow(p->slices, p->slice_cap, p->slice_count + 1);
		at = (uint32_t)++p->slice_count;
	}
	s.below = (uint32_t)ws_map_get(&p->open, s.track, NULL);
	p->slices[at - 1] = s;
	ws_map_set(&p->open, s.track, at);
}

static void pop(struct perfetto *p, uint64_t track, uint64_t end, uint32_t args)
{
	uint32_t at = (uint32_t)ws_map_get(&p->open, track, NULL);
	struct open_slice s;

	if (!at) {
		ws_into_note(p->o, "Ends of slices without a beginning were left out.");
		return;
	}
	s = p->slices[at - 1];
	ws_map_set(&p->open, track, s.below);
	p->slices[at - 1].start = WS_NO_TIME;
	p->slices[at - 1].below = p->free_slice;
	p->free_slice = at;
	if (!s.args)
		s.args = args;
	put_slice(p, &s, end > s.start ? end : s.start, 0);
}

/* A flow goes from each event that names it to the next one that does. */
static void flow(struct perfetto *p, uint64_t id, uint64_t at, uint64_t track, bool last)
{
	bool found;
	uint64_t from = ws_map_get(&p->flow_time, id, &found);

	if (found) {
		const struct track *a = track_of(p, ws_map_get(&p->flow_track, id, NULL));
		uint32_t threads[] = {a->thread, track_of(p, track)->thread},
			 tracks[] = {a->track, 0};
		struct ws_row_flow *row;

		a = track_of(p, track);
		tracks[1] = a->track;
		row = ws_into_row(p->o, WS_TABLE_flow);
		*row = (struct ws_row_flow){.start = from,
					    .end = at,
					    .from_thread = threads[0],
					    .to_thread = threads[1],
					    .from_track = tracks[0],
					    .to_track = tracks[1]};
	}
	if (last) {
		ws_map_take(&p->flow_time, id, &from);
		ws_map_take(&p->flow_track, id, &from);
	} else if (p->flow_time.n < WS_INTO_MOST) {
		ws_map_set(&p->flow_time, id, at);
		ws_map_set(&p->flow_track, id, track);
	}
}

static void count(struct perfetto *p, uint64_t uuid, uint64_t at, const struct field *value)
{
	struct track *t = track_of(p, uuid);
	double d = (double)(int64_t)value->value;
	struct ws_row_counter_value *row;

	if (!t->counter) {
		ws_into_note(p->o, "Values of counters without a description were left out.");
		return;
	}
	if (value->wire == 1)
		memcpy(&d, &value->value, 8);
	if (!(d - d == 0))
		return;
	d *= (double)t->multiplier;
	if (t->incremental)
		d = t->sum += d;
	row = ws_into_row(p->o, WS_TABLE_counter_value);
	*row = (struct ws_row_counter_value){.start = at, .counter = t->counter, .value = d};
	ws_into_time(p->o, at);
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
	struct message m = ws_pb_inside(in);
	struct field f;
	size_t n = 0;

	while (n < most && ws_pb_next(&m, &f)) {
		struct message packed = ws_pb_inside(&f);

		if (f.number != number)
			continue;
		if (f.wire != 2)
			out[n++] = f.value;
		else
			while (n < most && ws_pb_varint(&packed.p, packed.end, &out[n]))
				n++;
	}
	return n;
}

/* Values of counters that come with an event; which counters, it says or its sequence does. */
static void count_extra(struct perfetto *p, struct sequence *s, const struct field *data,
			uint64_t at)
{
	uint64_t tracks[WS_COUNT(s->extra_default)], values[WS_COUNT(s->extra_default)];
	size_t n = numbers_of(data, 31, tracks, WS_COUNT(tracks)),
	       many = numbers_of(data, 12, values, WS_COUNT(values));

	if (!n) {
		n = s->extra_count;
		memcpy(tracks, s->extra_default, sizeof(tracks));
	}
	for (size_t i = 0; i < many && i < n; i++)
		count(p, tracks[i], at, &(struct field){.number = 30, .value = values[i]});
	n = numbers_of(data, 45, tracks, WS_COUNT(tracks));
	many = 0;
	for (struct message m = ws_pb_inside(data); many < n;) {
		struct field f;

		if (!ws_pb_next(&m, &f))
			break;
		if (f.number == 46 && f.wire == 1)
			count(p, tracks[many++], at, &f);
	}
}

/* The row of asynchronous events of Chrome's kind: those of one name and id. */
static uint64_t async_track(struct perfetto *p, const struct event *e)
{
	uint64_t facts[] = {e->slice.category, ws_pb_find(&e->legacy, 6).value,
			    ws_pb_find(&e->legacy, 10).value, ws_pb_find(&e->legacy, 11).value,
			    e->track};
	uint64_t uuid = XXH3_64bits(facts, sizeof(facts)) | 1;
	const struct track *of = track_of(p, e->track);
	struct track t = {.process = of->process, .multiplier = 1};
	char name[32];
	int n;

	if (ws_map_get(&p->tracks, uuid, NULL) || p->track_count == WS_INTO_MOST)
		return uuid;
	n = snprintf(name, sizeof(name), "async %" PRIx64,
		     facts[1]	? facts[1]
		     : facts[2] ? facts[2]
				: facts[3]);
	t.track = ws_into_track(p->o, of->track, of->process, of->thread, name, (size_t)n);
	add_track(p, uuid, t);
	return uuid;
}

static void take_legacy(struct perfetto *p, struct sequence *s, struct event *e, uint64_t at)
{
	uint64_t phase = ws_pb_find(&e->legacy, 2).value,
		 duration = ws_pb_find(&e->legacy, 3).value;
	uint64_t name = ws_pb_find(&e->legacy, 1).value;

	if (phase == 'b' || phase == 'e' || phase == 'n' || phase == 'S' || phase == 'F')
		e->track = e->slice.track = async_track(p, e);

	if (!e->slice.name && name)
		e->slice.name = interned(s, NAMES, name);
	if (phase == 'X')
		put_slice(p, &e->slice, at + duration * 1000, 0);
	else if (phase == 'B' || phase == 'b' || phase == 'S')
		push(p, e->slice);
	else if (phase == 'E' || phase == 'e' || phase == 'F')
		pop(p, e->track, at, e->slice.args);
	else if (phase == 'i' || phase == 'I' || phase == 'n' || phase == 'R')
		put_slice(p, &e->slice, WS_NO_TIME, WS_SLICE_INSTANT);
	else if (phase)
		ws_into_note(p->o,
			     "Events of Chrome's phase %c inside of Perfetto's were left out.",
			     phase > ' ' && phase < 127 ? (int)phase : '?');
}

/* The fields of an event; its arguments into p->args. */
static void read_event(struct perfetto *p, struct sequence *s, const struct field *data,
		       struct event *e)
{
	struct message m = ws_pb_inside(data);
	struct field f;

	p->args.len = 0;
	while (ws_pb_next(&m, &f)) {
		switch (f.number) {
		case 3:
			e->slice.category = e->slice.category ? e->slice.category
							      : interned(s, CATEGORIES, f.value);
			break;
		case 22:
			if (f.wire == 2 && !e->slice.category)
				e->slice.category = ws_into_string(p->o, (const char *)f.p, f.n);
			break;
		case 10:
			e->slice.name = interned(s, NAMES, f.value);
			break;
		case 23:
			if (f.wire == 2)
				e->slice.name = ws_into_string(p->o, (const char *)f.p, f.n);
			break;
		case 9:
			e->type = f.value;
			break;
		case 11:
			e->track = f.value;
			break;
		case 12:
		case 46:
			e->extra = true;
			break;
		case 30:
		case 44:
			e->value = f;
			e->has_value = true;
			break;
		case 4:
			put_arg(p, s, &f);
			break;
		case 6:
			e->legacy = f;
			break;
		}
	}
	e->slice.track = e->track;
	if (p->args.len) {
		ws_text_puts(&p->args, "}");
		e->slice.args = ws_into_string(p->o, p->args.s, p->args.len);
	}
}

static void take_event(struct perfetto *p, struct sequence *s, const struct field *data,
		       uint64_t at)
{
	struct event e = {.track = s->default_track, .slice.start = at};
	struct message m = ws_pb_inside(data);
	struct field f;

	read_event(p, s, data, &e);
	if (e.type == 1)
		push(p, e.slice);
	else if (e.type == 2)
		pop(p, e.track, at, e.slice.args);
	else if (e.type == 3)
		put_slice(p, &e.slice, WS_NO_TIME, WS_SLICE_INSTANT);
	else if (e.type == 4 && e.has_value)
		count(p, e.track, at, &e.value);
	else if (e.legacy.n)
		take_legacy(p, s, &e, at);
	if (e.extra)
		count_extra(p, s, data, at);
	while (ws_pb_next(&m, &f))
		if (f.number == 47 || f.number == 36 || f.number == 48 || f.number == 42)
			flow(p, f.value, at, e.track, f.number == 48 || f.number == 42);
}

/* ---- clocks ---- */

enum { CLOCK_REAL = 1, CLOCK_MONO = 3, CLOCK_BOOT = 6 };

static struct clock *clock_find(struct perfetto *p, struct sequence *s, uint32_t id)
{
	if (s && id >= 64 && id < 128) {
		for (int i = 0; i < s->clock_count; i++)
			if (s->clocks[i].id == id)
				return &s->clocks[i];
	} else {
		for (int i = 0; i < p->clock_count; i++)
			if (p->clocks[i].id == id)
				return &p->clocks[i];
	}
	return NULL;
}

/* Clocks 64 to 127 are the sequence's own. NULL when there are too many. */
static struct clock *clock_place(struct perfetto *p, struct sequence *s, uint32_t id)
{
	struct clock *c = clock_find(p, s, id);

	if (c)
		return c;
	if (id >= 64 && id < 128)
		return s->clock_count < SEQUENCE_CLOCKS ? &s->clocks[s->clock_count++] : NULL;
	return p->clock_count < TRACE_CLOCKS ? &p->clocks[p->clock_count++] : NULL;
}

/*
 * Readings of several clocks at one moment. The session's is the one since boot; a trace without it
 * keeps what its first snapshot has: the monotonic clock, or else whatever comes first.
 */
static void take_clocks(struct perfetto *p, struct sequence *s, const struct field *snapshot)
{
	struct message m = ws_pb_inside(snapshot);
	uint64_t real = 0, now = 0;
	int rank = 0;
	struct field f;

	while (ws_pb_next(&m, &f)) {
		uint64_t id, at, unit;
		const struct clock *known;
		int better;

		if (f.number != 1 || f.wire != 2)
			continue;
		id = ws_pb_find(&f, 1).value, at = ws_pb_find(&f, 2).value,
		unit = ws_pb_find(&f, 4).value;
		known = clock_find(p, s, (uint32_t)id);
		better = id == CLOCK_BOOT ? 4 : known ? 3 : id == CLOCK_MONO ? 2 : 1;
		if (id == CLOCK_REAL)
			real = at;
		if (better <= rank)
			continue;
		rank = better;
		unit = unit ? unit : 1;
		now = known ? at * known->unit + (uint64_t)known->offset : at * unit;
	}
	m = ws_pb_inside(snapshot);
	while (ws_pb_next(&m, &f)) {
		uint32_t id = (uint32_t)ws_pb_find(&f, 1).value;
		struct clock *c = f.number == 1 && f.wire == 2 && id != CLOCK_BOOT
					  ? clock_place(p, s, id)
					  : NULL;

		if (!c)
			continue;
		*c = (struct clock){.id = id,
				    .incremental = ws_pb_find(&f, 3).value,
				    .value = ws_pb_find(&f, 2).value};
		c->unit = ws_pb_find(&f, 4).value;
		c->unit = c->unit ? c->unit : 1;
		c->offset = (int64_t)(now - c->value * c->unit);
	}
	if (rank && real && !p->clock_told) {
		struct ws_row_clock *row = ws_into_row(p->o, WS_TABLE_clock);

		*row = (struct ws_row_clock){.raw = now, .realtime = real};
		p->clock_told = true;
	}
}

uint64_t ws_perfetto_time(struct perfetto *p, struct sequence *s, uint64_t stamp, uint32_t clock)
{
	struct clock *c;

	if (!clock && s)
		clock = s->default_clock;
	if (!clock || clock == CLOCK_BOOT)
		return stamp;
	c = clock_find(p, s, clock);
	if (!c) {
		ws_into_note(p->o,
			     "Times of clock %" PRIu32
			     ", which no snapshot relates to the others, stay as they are.",
			     clock);
		return stamp;
	}
	if (!c->incremental)
		return stamp * c->unit + (uint64_t)c->offset;
	c->value += stamp;
	return c->value * c->unit + (uint64_t)c->offset;
}

/* ---- packets ---- */

static void take_defaults(struct sequence *s, const struct field *d)
{
	struct field clock = ws_pb_find(d, 58), event = ws_pb_find(d, 11);

	s->default_clock = (uint32_t)clock.value;
	s->default_track = event.n ? ws_pb_find(&event, 11).value : 0;
	if (event.n)
		s->extra_count = (uint8_t)numbers_of(&event, 31, s->extra_default,
						     WS_COUNT(s->extra_default));
}

/* What of a packet is looked at. */
struct packet {
	struct field event, interned, defaults, clocks, sample, ftrace, tree, descriptor,
		compressed;
	uint64_t stamp, flags;
	uint32_t clock, sequence;
	bool stamped, cleared, dropped;
};

static struct packet open_packet(struct message m)
{
	struct packet k = {0};
	struct field f;
	const struct {
		uint32_t number;
		struct field *at;
	} messages[] = {{11, &k.event}, {12, &k.interned},   {59, &k.defaults},
			{6, &k.clocks}, {66, &k.sample},     {1, &k.ftrace},
			{2, &k.tree},	{60, &k.descriptor}, {50, &k.compressed}};

	while (ws_pb_next(&m, &f)) {
		if (f.wire == 2) {
			for (size_t i = 0; i < WS_COUNT(messages); i++)
				if (messages[i].number == f.number)
					*messages[i].at = f;
		} else if (f.number == 8) {
			k.stamp = f.value;
			k.stamped = true;
		} else if (f.number == 58) {
			k.clock = (uint32_t)f.value;
		} else if (f.number == 10) {
			k.sequence = (uint32_t)f.value;
		} else if (f.number == 13) {
			k.flags = f.value;
		} else if (f.number == 41) {
			k.cleared = f.value;
		} else if (f.number == 42) {
			k.dropped = f.value;
		}
	}
	k.cleared |= k.flags & 1;
	return k;
}

static void take_packets(struct perfetto *p, struct message m, bool inner);

/* A packet of packets, deflated. */
static void take_compressed(struct perfetto *p, const struct field *f)
{
	z_stream z = {.next_in = (unsigned char *)f->p, .avail_in = (unsigned)f->n};
	int rc;

	if (!p->unpacked)
		p->unpacked = ws_malloc(MOST_PACKET);
	z.next_out = p->unpacked;
	z.avail_out = MOST_PACKET;
	rc = inflateInit(&z);
	if (rc == Z_OK) {
		rc = inflate(&z, Z_FINISH);
		inflateEnd(&z);
	}
	if (rc != Z_STREAM_END)
		ws_into_note(p->o, z.avail_out ? "Compressed packets are damaged; what stands "
						 "before the damage was read."
					       : "Compressed packets unpack to more than 64 MiB; "
						 "the rest of each was left out.");
	take_packets(p, (struct message){p->unpacked, z.next_out}, true);
}

static void take_packet(struct perfetto *p, struct message m, bool inner)
{
	struct packet k = open_packet(m);
	struct sequence *s = sequence_of(p, k.sequence);
	uint64_t at;

	if (k.cleared)
		clear_sequence(s);
	s->lost = (s->lost || k.dropped) && !k.cleared;
	if (k.clocks.n)
		take_clocks(p, s, &k.clocks);
	if (k.ftrace.n)
		ws_perfetto_ftrace(p, &k.ftrace);
	if (k.tree.n)
		take_process_tree(p, &k.tree);
	if (k.compressed.n && !inner)
		take_compressed(p, &k.compressed);
	if (s->lost && k.flags & 2) { /* it needs what was dropped */
		p->lost++;
		return;
	}
	if (k.defaults.n)
		take_defaults(s, &k.defaults);
	if (k.interned.n)
		take_interned(p, s, &k.interned);
	if (k.descriptor.n)
		take_descriptor(p, &k.descriptor);
	at = k.stamped ? ws_perfetto_time(p, s, k.stamp, k.clock) : 0;
	if (k.event.n)
		take_event(p, s, &k.event, at);
	else if (k.sample.n)
		ws_perfetto_sample(p, s, &k.sample, at);
	else if (!k.clocks.n && !k.ftrace.n && !k.tree.n && !k.compressed.n && !k.defaults.n &&
		 !k.interned.n && !k.descriptor.n)
		p->others++;
}

static void take_packets(struct perfetto *p, struct message m, bool inner)
{
	struct field f;

	while (!p->o->full && ws_pb_next(&m, &f))
		if (f.number == 1 && f.wire == 2)
			take_packet(p, ws_pb_inside(&f), inner);
}

/* ---- the window ---- */

/* Have at least `n` bytes at p->at, or all that is left. */
static void have(struct perfetto *p, size_t n)
{
	while (p->len - p->at < n && !p->eof) {
		size_t got;

		memmove(p->buffer, p->buffer + p->at, p->len - p->at);
		p->offset += p->at;
		p->len -= p->at;
		p->at = 0;
		if (p->len == p->cap || n > p->cap) {
			p->cap = n > p->cap ? n : p->cap * 2;
			p->buffer = ws_realloc(p->buffer, p->cap);
		}
		got = ws_source_read(p->source, p->buffer + p->len, p->cap - p->len);
		p->len += got;
		p->eof = !got;
	}
}

/* The next packet in the window; false at the end or a break. */
static bool next_packet(struct perfetto *p, const uint8_t **data, size_t *n)
{
	const uint8_t *at, *end;
	uint64_t tag, length;

	have(p, 16);
	at = p->buffer + p->at;
	end = p->buffer + p->len;
	if (at == end)
		return false;
	if (!ws_pb_varint(&at, end, &tag) || tag != 0x0a || !ws_pb_varint(&at, end, &length) ||
	    length > MOST_PACKET) {
		ws_into_note(p->o,
			     "The trace is broken at byte %" PRIu64
			     ". What stands before was read.",
			     p->offset + p->at);
		return false;
	}
	p->at = (size_t)(at - p->buffer);
	have(p, (size_t)length);
	if (p->len - p->at < length) {
		ws_into_note(
			p->o,
			"The trace ends in the middle of a packet. What stands before was read.");
		return false;
	}
	*data = p->buffer + p->at;
	*n = (size_t)length;
	p->at += (size_t)length;
	return true;
}

static void free_perfetto(struct perfetto *p)
{
	for (size_t i = 0; i < p->sequence_count; i++)
		clear_sequence(&p->sequences[i]);
	free(p->sequences);
	free(p->track);
	free(p->slices);
	ws_map_free(&p->tracks);
	ws_map_free(&p->open);
	ws_map_free(&p->flow_time);
	ws_map_free(&p->flow_track);
	ws_map_free(&p->pids);
	ws_text_free(&p->args);
	ws_text_free(&p->texts);
	ws_map_free(&p->woken);
	ws_map_free(&p->wakers);
	free(p->unpacked);
	free(p->buffer);
	free(p);
}

int ws_perfetto_import(struct ws_into *o, struct ws_source *source)
{
	struct perfetto *p = ws_calloc(1, sizeof(*p));
	const uint8_t *data;
	uint64_t before = o->rows;
	size_t n;

	p->o = o;
	p->source = source;
	p->cap = WINDOW;
	p->buffer = ws_malloc(WINDOW);
	while (!o->full && next_packet(p, &data, &n)) {
		take_packet(p, (struct message){data, data + n}, false);
		if (!(++p->packets & 0x3ff)) {
			ws_writer_commit(o->w);
			ws_into_progress(o, ws_source_done(source), ws_source_size(source));
			if (ws_writer_error(o->w, NULL))
				break;
		}
	}
	for (size_t i = 0; i < p->slice_count; i++)
		if (p->slices[i].start != WS_NO_TIME)
			put_slice(p, &p->slices[i], WS_NO_TIME, WS_SLICE_LEFT_OPEN);
	ws_perfetto_sched_end(p);
	if (ws_source_broken(source))
		ws_into_note(o, "The trace is broken: %s.", ws_source_broken(source));
	ws_into_note_n(
		o, p->lost,
		"Packets that need others which were dropped while recording were left out.");
	ws_into_note_n(o, p->others,
		       "Packets or events of other kinds than tracks, processes and switches were "
		       "left out.");
	if (o->rows == before && !o->full)
		ws_into_stop(o, "%s holds nothing of a Perfetto trace that is known here", o->path);
	free_perfetto(p);
	return o->full ? -1 : 0;
}
