/*
 * perfetto.c - Perfetto's protobuf traces: track events with their tracks, counters, flows and interned names; processes and
 * threads; switches of threads from ftrace.
 *
 * A trace is a sequence of packets, each with its length before it. They are read one by one through a window, and only the fields
 * that mean something here are looked at; the numbers are those of Perfetto's .proto files. State that packets build up (interned
 * texts, defaults, the delta-encoded clock) belongs to a sequence and is dropped when the sequence says so.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/formats.h"
#include "import/json.h"

enum { MOST_PACKET = 64 << 20, WINDOW = 4 << 20, MOST_DEPTH = 8 };

/* ---- protobuf ---- */

struct field {
	uint32_t number, wire;
	uint64_t value; /* varint, fixed */
	const uint8_t *p;
	size_t n; /* bytes */
};

struct message {
	const uint8_t *p, *end;
};

static bool varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
	uint64_t v = 0;

	for (int shift = 0; *p < end && shift < 70; shift += 7) {
		uint8_t b = *(*p)++;

		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80)) {
			*out = v;
			return true;
		}
	}
	return false;
}

/* The next field; false at the end or where it is broken. */
static bool next_field(struct message *m, struct field *f)
{
	uint64_t tag, length;

	if (m->p >= m->end || !varint(&m->p, m->end, &tag))
		return false;
	*f = (struct field){.number = (uint32_t)(tag >> 3), .wire = tag & 7};
	switch (f->wire) {
	case 0:
		return varint(&m->p, m->end, &f->value);
	case 1:
		if (m->end - m->p < 8)
			return false;
		memcpy(&f->value, m->p, 8);
		m->p += 8;
		return true;
	case 2:
		if (!varint(&m->p, m->end, &length) || length > (size_t)(m->end - m->p))
			return false;
		f->p = m->p;
		f->n = (size_t)length;
		m->p += length;
		return true;
	case 5: {
		uint32_t v;

		if (m->end - m->p < 4)
			return false;
		memcpy(&v, m->p, 4);
		f->value = v;
		m->p += 4;
		return true;
	}
	default:
		return false;
	}
}

static struct message inside(const struct field *f)
{
	return (struct message){f->p, f->p + f->n};
}

/* ---- state ---- */

enum { NAMES, CATEGORIES, ARGS, TEXTS, KINDS };

struct sequence {
	uint32_t id;
	struct ws_map interned[KINDS]; /* iid -> string; of ARGS and TEXTS, place in `texts` << 24 | length */
	uint64_t default_track;
	uint32_t default_clock;
	/* the delta-encoded clock: session = value * unit + offset */
	uint32_t delta_clock;
	uint64_t value, unit;
	int64_t offset;
};

struct track {
	uint32_t thread, track; /* ids */
	uint32_t counter;
	int64_t multiplier;
	bool incremental;
	double sum;
};

struct open_slice {
	uint64_t start, track;
	uint32_t name, category, args, below;
};

struct perfetto {
	struct ws_into *o;
	struct ws_source *source;
	uint8_t *buffer;
	size_t cap, len, at;
	uint64_t offset;
	bool eof;
	struct sequence *sequences;
	size_t sequence_count, sequence_cap;
	struct ws_map tracks; /* uuid -> index + 1 */
	struct track *track;
	size_t track_count, track_cap;
	struct ws_map open; /* uuid -> open slice + 1 */
	struct open_slice *slices;
	size_t slice_count, slice_cap;
	uint32_t free_slice;
	struct ws_map flow_time, flow_track;
	struct ws_map pids; /* tid -> pid, from the process tree */
	struct ws_text args, texts;
	uint64_t packets, others;
	bool clock_told;
	struct {
		uint64_t start;
		uint32_t thread;
	} cpu[1024];
};

static struct sequence *sequence_of(struct perfetto *p, uint32_t id)
{
	for (size_t i = 0; i < p->sequence_count; i++)
		if (p->sequences[i].id == id)
			return &p->sequences[i];
	if (p->sequence_count == 4096) {
		ws_into_stop(p->o, "there are more than 4096 sequences of packets");
		return &p->sequences[0];
	}
	ws_grow(p->sequences, p->sequence_cap, p->sequence_count + 1);
	p->sequences[p->sequence_count] = (struct sequence){.id = id, .unit = 1};
	return &p->sequences[p->sequence_count++];
}

static void clear_sequence(struct sequence *s)
{
	for (int k = 0; k < KINDS; k++) {
		ws_map_free(&s->interned[k]);
		s->interned[k] = (struct ws_map){0};
	}
	s->default_track = s->default_clock = 0;
}

/* ---- interned texts ---- */

enum { MOST_TEXTS = 64 << 20 };

static uint64_t keep_text(struct perfetto *p, const struct field *f)
{
	uint64_t at = p->texts.len;

	if (f->n >= 1 << 24 || at + f->n > MOST_TEXTS)
		return 0;
	ws_text_add(&p->texts, f->p, f->n);
	return at << 24 | f->n;
}

static void intern(struct perfetto *p, struct sequence *s, int kind, const struct field *list)
{
	struct message m = inside(list);
	struct field f;
	uint64_t iid = 0, value = 0;

	while (next_field(&m, &f)) {
		if (f.number == 1)
			iid = f.value;
		else if (f.number == 2 && f.wire == 2)
			value = kind >= ARGS ? keep_text(p, &f) : ws_into_string(p->o, (const char *)f.p, f.n);
	}
	if (s->interned[kind].n < WS_INTO_MOST)
		ws_map_set(&s->interned[kind], iid, value);
}

static void take_interned(struct perfetto *p, struct sequence *s, const struct field *data)
{
	struct message m = inside(data);
	struct field f;

	while (next_field(&m, &f)) {
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
	}
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

static uint32_t thread_of(struct perfetto *p, uint64_t pid, uint64_t tid)
{
	return ws_into_thread(p->o, process_of(p, pid), tid, WS_NO_TIME);
}

static void take_process_tree(struct perfetto *p, const struct field *tree)
{
	struct message m = inside(tree);
	struct field f, g;

	while (next_field(&m, &f)) {
		struct message one = inside(&f);
		uint64_t pid = 0, tid = 0;
		const struct field none = {0};
		struct field name = none;

		if (f.wire != 2 || f.number > 2)
			continue;
		while (next_field(&one, &g)) {
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
				q->name = slash
					      ? ws_into_string(p->o, (const char *)slash + 1, (size_t)(name.p + name.n - slash - 1))
					      : q->cmdline;
			}
		} else {
			if (p->pids.n < WS_INTO_MOST)
				ws_map_set(&p->pids, tid, pid);
			if (name.n)
				ws_into_name_thread(p->o, thread_of(p, pid, tid), (const char *)name.p, name.n, 10);
		}
	}
}

/* ---- tracks ---- */

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
	ws_grow(p->track, p->track_cap, p->track_count + 1);
	n = snprintf(name, sizeof(name), "track %" PRIx64, uuid);
	p->track[p->track_count] = (struct track){.track = uuid ? ws_into_track(p->o, 0, 0, 0, name, (size_t)n)
								: ws_into_track(p->o, 0, 0, 0, "global", 6)};
	ws_map_set(&p->tracks, uuid, ++p->track_count);
	return &p->track[p->track_count - 1];
}

static struct field find(const struct field *in, uint32_t number)
{
	struct message m = inside(in);
	struct field f, found = {0};

	while (next_field(&m, &f))
		if (f.number == number)
			found = f;
	return found;
}

static void describe_process(struct perfetto *p, const struct field *d, uint32_t *process)
{
	struct field name = find(d, 6);

	*process = process_of(p, find(d, 1).value);
	if (name.n)
		ws_into_process_of(p->o, *process)->name = ws_into_string(p->o, (const char *)name.p, name.n);
}

static uint32_t describe_thread(struct perfetto *p, const struct field *d)
{
	struct field name = find(d, 5);
	uint32_t id = thread_of(p, find(d, 1).value, find(d, 2).value);

	if (name.n)
		ws_into_name_thread(p->o, id, (const char *)name.p, name.n, 20);
	return id;
}

static const char *unit_of(const struct field *counter)
{
	switch (find(counter, 3).value) {
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

static void take_descriptor(struct perfetto *p, const struct field *d)
{
	struct message m = inside(d);
	struct field f, name = {0}, counter = {0};
	struct track t = {.multiplier = 1};
	uint64_t uuid = 0, parent = 0, at;
	uint32_t process = 0;
	bool is_counter = false;

	while (next_field(&m, &f)) {
		if (f.number == 1)
			uuid = f.value;
		else if ((f.number == 2 || f.number == 10) && f.wire == 2)
			name = f;
		else if (f.number == 3 && f.wire == 2)
			describe_process(p, &f, &process);
		else if (f.number == 4 && f.wire == 2)
			t.thread = describe_thread(p, &f);
		else if (f.number == 5)
			parent = f.value;
		else if (f.number == 8 && f.wire == 2) {
			counter = f;
			is_counter = true;
		}
	}
	if (is_counter) {
		const struct track *up = parent ? track_of(p, parent) : NULL;

		t.multiplier = (int64_t)find(&counter, 4).value;
		t.multiplier = t.multiplier ? t.multiplier : 1;
		t.incremental = find(&counter, 5).value;
		t.counter = ws_into_counter(p->o, process, up ? up->thread : 0, WS_NO_U32, "", 0,
					    name.n ? (const char *)name.p : "counter", name.n ? name.n : 7, unit_of(&counter), NULL);
	} else if (!t.thread) {
		const struct track *up = parent ? track_of(p, parent) : NULL;
		char text[32];
		int n = snprintf(text, sizeof(text), process ? "process" : "track %" PRIx64, uuid);

		t.track = ws_into_track(p->o, up ? up->track : 0, process, up ? up->thread : 0,
					name.n ? (const char *)name.p : text, name.n ? name.n : (size_t)n);
	}
	at = ws_map_get(&p->tracks, uuid, NULL);
	if (at) {
		p->track[at - 1] = t;
		return;
	}
	if (p->track_count == WS_INTO_MOST) {
		ws_into_stop(p->o, "there are more than %d tracks", WS_INTO_MOST);
		return;
	}
	ws_grow(p->track, p->track_cap, p->track_count + 1);
	p->track[p->track_count++] = t;
	ws_map_set(&p->tracks, uuid, p->track_count);
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

static void put_value(struct perfetto *p, struct sequence *s, const struct field *annotation, int depth);

static void put_list(struct perfetto *p, struct sequence *s, const struct field *annotation, uint32_t number, int depth)
{
	struct message m = inside(annotation);
	struct field f;
	bool dict = number == 11, any = false;

	ws_text_puts(&p->args, dict ? "{" : "[");
	while (depth < MOST_DEPTH && next_field(&m, &f)) {
		struct field name;

		if (f.number != number || f.wire != 2)
			continue;
		ws_text_puts(&p->args, any ? "," : "");
		any = true;
		name = find(&f, 10);
		if (dict) {
			put_string(p, name.n ? (const void *)name.p : "", name.n);
			ws_text_puts(&p->args, ":");
		}
		put_value(p, s, &f, depth + 1);
	}
	ws_text_puts(&p->args, dict ? "}" : "]");
}

static void put_value(struct perfetto *p, struct sequence *s, const struct field *annotation, int depth)
{
	struct message m = inside(annotation);
	struct field f;
	double d;

	while (next_field(&m, &f)) {
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
	struct field name = find(annotation, 10), iid = find(annotation, 1);

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
			ws_into_note(p->o, "More than %d slices are open at once; further ones were left out.", WS_INTO_MOST);
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
		uint32_t threads[] = {a->thread, track_of(p, track)->thread}, tracks[] = {a->track, 0};
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
	bool has_value;
};

static void take_legacy(struct perfetto *p, struct sequence *s, struct event *e, uint64_t at)
{
	uint64_t phase = find(&e->legacy, 2).value, duration = find(&e->legacy, 3).value;
	uint64_t name = find(&e->legacy, 1).value;

	if (!e->slice.name && name)
		e->slice.name = interned(s, NAMES, name);
	if (phase == 'X')
		put_slice(p, &e->slice, at + duration * 1000, 0);
	else if (phase == 'B')
		push(p, e->slice);
	else if (phase == 'E')
		pop(p, e->track, at, e->slice.args);
	else if (phase == 'i' || phase == 'I')
		put_slice(p, &e->slice, WS_NO_TIME, WS_SLICE_INSTANT);
	else if (phase)
		ws_into_note(p->o, "Events of Chrome's phase %c inside of Perfetto's were left out.",
			     phase > ' ' && phase < 127 ? (int)phase : '?');
}

static void take_event(struct perfetto *p, struct sequence *s, const struct field *data, uint64_t at)
{
	struct message m = inside(data);
	struct event e = {.track = s->default_track, .slice.start = at};
	struct field f;

	p->args.len = 0;
	while (next_field(&m, &f)) {
		switch (f.number) {
		case 3:
			e.slice.category = e.slice.category ? e.slice.category : interned(s, CATEGORIES, f.value);
			break;
		case 22:
			if (f.wire == 2 && !e.slice.category)
				e.slice.category = ws_into_string(p->o, (const char *)f.p, f.n);
			break;
		case 10:
			e.slice.name = interned(s, NAMES, f.value);
			break;
		case 23:
			if (f.wire == 2)
				e.slice.name = ws_into_string(p->o, (const char *)f.p, f.n);
			break;
		case 9:
			e.type = f.value;
			break;
		case 11:
			e.track = f.value;
			break;
		case 30:
		case 44:
			e.value = f;
			e.has_value = true;
			break;
		case 4:
			put_arg(p, s, &f);
			break;
		case 6:
			e.legacy = f;
			break;
		}
	}
	e.slice.track = e.track;
	if (p->args.len) {
		ws_text_puts(&p->args, "}");
		e.slice.args = ws_into_string(p->o, p->args.s, p->args.len);
	}
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
	m = inside(data);
	while (next_field(&m, &f))
		if (f.number == 47 || f.number == 36 || f.number == 48 || f.number == 42)
			flow(p, f.value, at, e.track, f.number == 48 || f.number == 42);
}

/* ---- ftrace: switches of threads ---- */

static uint32_t known_thread(struct perfetto *p, uint64_t tid, const struct field *comm)
{
	bool found;
	uint64_t pid = ws_map_get(&p->pids, tid, &found);
	uint32_t id = thread_of(p, found ? pid : tid, tid);

	if (comm->n)
		ws_into_name_thread(p->o, id, (const char *)comm->p, comm->n, 5);
	return id;
}

static void take_switch(struct perfetto *p, uint32_t cpu, uint64_t at, const struct field *data)
{
	struct field next = find(data, 6), comm = find(data, 5), state = find(data, 4);
	struct ws_row_sched *row;

	if (p->cpu[cpu].thread) {
		row = ws_into_row(p->o, WS_TABLE_sched);
		*row = (struct ws_row_sched){
		    .start = p->cpu[cpu].start,
		    .end = at,
		    .thread = p->cpu[cpu].thread,
		    .cpu = cpu,
		    .woken = WS_NO_TIME,
		    .after = state.value == 0	? WS_AFTER_PREEMPTED
			     : state.value == 1 ? WS_AFTER_SLEEPING
			     : state.value == 2 ? WS_AFTER_UNINTERRUPTIBLE
						: WS_AFTER_UNKNOWN,
		};
	}
	p->cpu[cpu].start = at;
	p->cpu[cpu].thread = next.value ? known_thread(p, next.value, &comm) : 0;
	ws_into_time(p->o, at);
}

static void take_ftrace(struct perfetto *p, const struct field *bundle)
{
	struct message m = inside(bundle);
	uint64_t cpu = find(bundle, 1).value;
	struct field f;

	if (cpu >= WS_COUNT(p->cpu))
		return;
	while (next_field(&m, &f)) {
		struct field data;

		if (f.number != 2 || f.wire != 2) {
			if (f.number == 4)
				ws_into_note(p->o, "Switches in ftrace's compact form were left out.");
			continue;
		}
		data = find(&f, 4);
		if (data.wire == 2 && data.n)
			take_switch(p, (uint32_t)cpu, find(&f, 1).value, &data);
		else
			p->others++;
	}
}

/* ---- clocks ---- */

enum { CLOCK_REAL = 1, CLOCK_BOOT = 6 };

static void take_clocks(struct perfetto *p, struct sequence *s, const struct field *snapshot)
{
	struct message m = inside(snapshot);
	uint64_t boot = 0, real = 0, delta = 0, unit = 1;
	uint32_t delta_id = 0;
	struct field f;

	while (next_field(&m, &f)) {
		uint64_t id, at, multiplier;

		if (f.number != 1 || f.wire != 2)
			continue;
		id = find(&f, 1).value, at = find(&f, 2).value, multiplier = find(&f, 4).value;
		if (id == CLOCK_BOOT)
			boot = at;
		else if (id == CLOCK_REAL)
			real = at;
		else if (id >= 64 && id < 128 && find(&f, 3).value) {
			delta_id = (uint32_t)id;
			delta = at;
			unit = multiplier ? multiplier : 1;
		}
	}
	if (delta_id) {
		s->delta_clock = delta_id;
		s->value = delta;
		s->unit = unit;
		s->offset = (int64_t)(boot - delta * unit);
	}
	if (boot && real && !p->clock_told) {
		struct ws_row_clock *row = ws_into_row(p->o, WS_TABLE_clock);

		*row = (struct ws_row_clock){.raw = boot, .realtime = real};
		p->clock_told = true;
	}
}

static uint64_t session_time(struct sequence *s, uint64_t stamp, uint32_t clock)
{
	if (!clock)
		clock = s->default_clock;
	if (!clock || clock != s->delta_clock)
		return stamp;
	s->value += stamp;
	return s->value * s->unit + (uint64_t)s->offset;
}

/* ---- packets ---- */

static void take_defaults(struct sequence *s, const struct field *d)
{
	struct field clock = find(d, 58), event = find(d, 11);

	s->default_clock = (uint32_t)clock.value;
	s->default_track = event.n ? find(&event, 11).value : 0;
}

static void take_packet(struct perfetto *p, const uint8_t *data, size_t n)
{
	struct message m = {data, data + n};
	struct field f, event = {0}, interned_data = {0}, defaults = {0}, clocks = {0};
	uint64_t stamp = 0, at;
	uint32_t clock = 0, id = 0;
	bool cleared = false, known = false, stamped = false;
	struct sequence *s;

	while (next_field(&m, &f)) {
		switch (f.number) {
		case 8:
			stamp = f.value;
			stamped = true;
			break;
		case 58:
			clock = (uint32_t)f.value;
			break;
		case 10:
			id = (uint32_t)f.value;
			break;
		case 13:
			cleared |= f.value & 1;
			break;
		case 41:
			cleared |= f.value != 0;
			break;
		case 11:
			event = f;
			break;
		case 12:
			interned_data = f;
			break;
		case 59:
			defaults = f;
			break;
		case 6:
			clocks = f;
			break;
		case 1:
		case 2:
		case 60:
			known = true;
			if (f.wire == 2)
				f.number == 1	? take_ftrace(p, &f)
				: f.number == 2 ? take_process_tree(p, &f)
						: take_descriptor(p, &f);
			break;
		case 50:
			ws_into_note(p->o, "Compressed packets were left out; 'traceconv decompress_packets' unpacks them.");
			break;
		}
	}
	s = sequence_of(p, id);
	if (cleared)
		clear_sequence(s);
	if (clocks.n)
		take_clocks(p, s, &clocks);
	if (defaults.n)
		take_defaults(s, &defaults);
	if (interned_data.n)
		take_interned(p, s, &interned_data);
	at = stamped ? session_time(s, stamp, clock) : 0;
	if (event.n)
		take_event(p, s, &event, at);
	else if (!known && !clocks.n && !defaults.n && !interned_data.n)
		p->others++;
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
	if (!varint(&at, end, &tag) || tag != 0x0a || !varint(&at, end, &length) || length > MOST_PACKET) {
		ws_into_note(p->o, "The trace is broken at byte %" PRIu64 ". What stands before was read.", p->offset + p->at);
		return false;
	}
	p->at = (size_t)(at - p->buffer);
	have(p, (size_t)length);
	if (p->len - p->at < length) {
		ws_into_note(p->o, "The trace ends in the middle of a packet. What stands before was read.");
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
		take_packet(p, data, n);
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
	if (ws_source_broken(source))
		ws_into_note(o, "The trace is broken: %s.", ws_source_broken(source));
	ws_into_note_n(o, p->others, "Packets or events of other kinds than tracks, processes and switches were left out.");
	if (o->rows == before && !o->full)
		ws_into_stop(o, "%s holds nothing of a Perfetto trace that is known here", o->path);
	free_perfetto(p);
	return o->full ? -1 : 0;
}
