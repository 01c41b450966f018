/*
 * chrome.c - events of Chrome's trace format that have no meaning of their own: slices, complete or
 * in two halves, asynchronous ones, moments, counters, flows.
 *
 * Halves are joined here: B and E by thread, innermost first; b, n and e by category, id and (where
 * ids are local) process. What never ends is written at the end with the flag LEFT_OPEN. The ends
 * of flows are kept until the next one with their id.
 *
 * Halves nearly always come in order of time for each thread. Where ends come before their
 * beginnings, the file is read once more, and its halves are kept and sorted before they are
 * joined.
 */
#include "import/trace.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static uint64_t hash_value(const struct ws_json_value *v, uint64_t seed)
{
	return v->type == WS_J_NONE ? seed : XXH3_64bits_withSeed(v->s, v->n, seed);
}

static uint32_t raw_args(struct ws_trace *t, const struct ws_event *ev)
{
	static const char never[] =
		"{\"never ended\":true"; /* our own export begins with it; the row says it */
	size_t skip = sizeof(never) - 1;

	if (ev->args.type != WS_J_OBJECT || ev->args.n <= 2)
		return 0;
	if (ev->args.n <= skip || memcmp(ev->args.s, never, skip))
		return ws_trace_string(t, &ev->args);
	if (ev->args.s[skip] != ',')
		return 0;
	t->built.len = 0;
	ws_text_puts(&t->built, "{");
	ws_text_add(&t->built, ev->args.s + skip + 1, ev->args.n - skip - 1);
	return ws_into_string(t->o, t->built.s, t->built.len);
}

/* The first range of a named domain defines it. */
static void define_domain(struct ws_trace *t, uint32_t thread, uint64_t at, uint32_t domain,
			  uint32_t name)
{
	uint64_t key = (uint64_t)ws_into_thread_of(t->o, thread)->process << 32 | domain;
	struct ws_row_nvtx *row;

	if (!domain || !name || ws_map_get(&t->domains, key, NULL))
		return;
	ws_map_set(&t->domains, key, 1);
	row = ws_into_row(t->o, WS_TABLE_nvtx);
	*row = (struct ws_row_nvtx){.start = at,
				    .end = WS_NO_TIME,
				    .thread = thread,
				    .type = WS_NVTX_DOMAIN_CREATE,
				    .domain = domain,
				    .text = name};
}

/* Slices of threads in a category of our own export go back where they came from. True when it was
 * one. */
static bool put_own(struct ws_trace *t, const struct ws_open_slice *s, uint64_t end, uint8_t flags)
{
	if (s->own == WS_OWN_NVTX) {
		struct ws_row_nvtx *row = ws_into_row(t->o, WS_TABLE_nvtx);

		*row = (struct ws_row_nvtx){.start = s->start,
					    .end = end,
					    .thread = s->thread,
					    .text = s->name,
					    .domain = s->domain,
					    .category = s->group,
					    .type = flags & WS_SLICE_ASYNC     ? WS_NVTX_STARTEND
						    : flags & WS_SLICE_INSTANT ? WS_NVTX_MARK
									       : WS_NVTX_PUSHPOP};
		return true;
	}
	if (s->own == WS_OWN_OSRT && !(flags & (WS_SLICE_ASYNC | WS_SLICE_INSTANT))) {
		struct ws_row_osrt *row = ws_into_row(t->o, WS_TABLE_osrt);

		*row = (struct ws_row_osrt){.start = s->start,
					    .end = end,
					    .thread = s->thread,
					    .name = s->name,
					    .path = s->args,
					    .callchain = WS_NO_U32};
		return true;
	}
	return false;
}

static void put_slice(struct ws_trace *t, const struct ws_open_slice *s, uint64_t end,
		      uint8_t flags)
{
	struct ws_row_slice *row;

	ws_into_time(t->o, s->start);
	if (end != WS_NO_TIME)
		ws_into_time(t->o, end);
	if (s->never)
		end = WS_NO_TIME;
	if (put_own(t, s, end, flags))
		return;
	row = ws_into_row(t->o, WS_TABLE_slice);
	*row = (struct ws_row_slice){.start = s->start,
				     .end = end,
				     .thread = s->thread,
				     .track = s->track,
				     .name = s->name,
				     .category = s->category,
				     .args = s->args,
				     .flags = (uint8_t)(flags |
							(s->never ? WS_SLICE_LEFT_OPEN : 0))};
}

static struct ws_open_slice new_slice(struct ws_trace *t, const struct ws_event *ev,
				      uint32_t thread, uint32_t track)
{
	struct ws_open_slice s = {.start = ev->start,
				  .thread = thread,
				  .track = track,
				  .name = ws_trace_string(t, &ev->name),
				  .category = ws_trace_string(t, &ev->cat)};
	struct ws_json_walk w;
	struct ws_json_value key, value;
	uint32_t domain_name = 0, path = 0;

	if (thread)
		s.own = ws_json_is(&ev->cat, "nvtx")   ? WS_OWN_NVTX
			: ws_json_is(&ev->cat, "osrt") ? WS_OWN_OSRT
						       : WS_OWN_NONE;
	s.args = s.own ? 0 : raw_args(t, ev);
	if (ev->args.type != WS_J_OBJECT || ev->args.n < 6 ||
	    !(s.own || ev->args.s[2] == 'n')) /* "never ended" comes first */
		return s;
	w = ws_json_walk(&ev->args);
	while (ws_json_next(&w, &key, &value)) {
		int64_t number = ws_json_fixed(&value, 0, NULL);

		if (ws_json_is(&key, "never ended"))
			s.never = value.type == WS_J_TRUE;
		else if (s.own && ws_json_is(&key, "domain") && number > 0 && number <= UINT32_MAX)
			s.domain = (uint32_t)number;
		else if (s.own && ws_json_is(&key, "category") && number > 0 &&
			 number <= UINT32_MAX)
			s.group = (uint32_t)number;
		else if (s.own && ws_json_is(&key, "domain name"))
			domain_name = ws_trace_string(t, &value);
		else if (s.own && ws_json_is(&key, "path"))
			path = ws_trace_string(t, &value);
		else if (s.own)
			ws_into_note(t->o, "The argument \"%.*s\" of %.*s events was left out.",
				     (int)(key.n < 100 ? key.n : 100), key.s, (int)ev->cat.n,
				     ev->cat.s);
	}
	if (s.own == WS_OWN_NVTX)
		define_domain(t, thread, ev->start, s.domain, domain_name);
	if (s.own == WS_OWN_OSRT)
		s.args = path;
	return s;
}

void ws_chrome_slice(struct ws_trace *t, struct ws_event *ev, uint32_t thread, uint32_t track,
		     uint8_t flags)
{
	struct ws_open_slice s = new_slice(t, ev, thread, track);

	put_slice(t, &s, flags & WS_SLICE_INSTANT ? WS_NO_TIME : ev->start + ev->length, flags);
}

/* ---- halves ---- */

enum { MOST_HALVES = 4 << 20 };

static void keep_half(struct ws_trace *t, uint64_t key, struct ws_open_slice s, bool end,
		      uint8_t flags)
{
	if (t->half_count == MOST_HALVES) {
		ws_into_note(t->o,
			     "More than %d beginnings and ends are in no order; further ones were "
			     "left out.",
			     MOST_HALVES);
		return;
	}
	s.key = key;
	ws_grow(t->halves, t->half_cap, t->half_count + 1);
	t->halves[t->half_count] = (struct ws_trace_half){s, (uint32_t)t->half_count, end, flags};
	t->half_count++;
}

static void push(struct ws_trace *t, uint64_t key, struct ws_open_slice s)
{
	uint32_t at = t->free_slice;

	if (at) {
		t->free_slice = t->slices[at - 1].below;
	} else {
		if (t->slice_count == WS_INTO_MOST) {
			ws_into_note(
				t->o,
				"More than %d slices are open at once; further ones were left out.",
				WS_INTO_MOST);
			return;
		}
		ws_grow(t->slices, t->slice_cap, t->slice_count + 1);
		at = (uint32_t)++t->slice_count;
	}
	s.key = key;
	s.below = (uint32_t)ws_map_get(&t->open, key, NULL);
	t->slices[at - 1] = s;
	ws_map_set(&t->open, key, at);
}

/* The innermost open slice of a key, taken off. False when there is none. */
static bool pop(struct ws_trace *t, uint64_t key, struct ws_open_slice *s)
{
	uint32_t at = (uint32_t)ws_map_get(&t->open, key, NULL);
	uint64_t taken;

	if (!at)
		return false;
	*s = t->slices[at - 1];
	if (s->below)
		ws_map_set(&t->open, key, s->below);
	else
		ws_map_take(&t->open, key, &taken);
	t->slices[at - 1].key = 0;
	t->slices[at - 1].start = WS_NO_TIME; /* free */
	t->slices[at - 1].below = t->free_slice;
	t->free_slice = at;
	return true;
}

static void disorder(struct ws_trace *t)
{
	t->o->again |= !t->o->shuffled;
	t->disorder = true;
}

/* A slice has the arguments of its beginning, or else those of its end. */
static void add_args(struct ws_trace *t, struct ws_open_slice *s, uint32_t args)
{
	if (!args || s->own || args == s->args)
		return;
	if (s->args)
		ws_into_note(
			t->o,
			"Arguments of ends of slices were left out where the beginning has some.");
	else
		s->args = args;
}

/* An end at `at` with these arguments. */
static void join(struct ws_trace *t, uint64_t key, uint64_t at, uint32_t args, uint8_t flags)
{
	enum { BACKWARDS = 1000 /* ns: more than rounding */ };
	struct ws_open_slice s;

	if (!pop(t, key, &s)) {
		if (t->early.n < WS_INTO_MOST && at > ws_map_get(&t->early, key, NULL))
			ws_map_set(&t->early, key, at);
		ws_into_note(t->o, "Ends of slices without a beginning were left out.");
		return;
	}
	if (s.start > at + BACKWARDS)
		disorder(t);
	add_args(t, &s, args);
	put_slice(t, &s, at > s.start ? at : s.start, flags);
}

static void begin_slice(struct ws_trace *t, const struct ws_event *ev, uint64_t key,
			uint32_t thread, uint32_t track)
{
	struct ws_open_slice s = new_slice(t, ev, thread, track);

	if (t->o->shuffled)
		keep_half(t, key, s, false, 0);
	else
		push(t, key, s);
}

static void end_slice(struct ws_trace *t, struct ws_event *ev, uint64_t key, uint8_t flags)
{
	if (t->o->shuffled)
		keep_half(t, key,
			  (struct ws_open_slice){.start = ev->start, .args = raw_args(t, ev)}, true,
			  flags);
	else
		join(t, key, ev->start, raw_args(t, ev), flags);
}

static int by_time(const void *a, const void *b)
{
	const struct ws_trace_half *x = a, *y = b;

	if (x->s.key != y->s.key)
		return x->s.key < y->s.key ? -1 : 1;
	if (x->s.start != y->s.start)
		return x->s.start < y->s.start ? -1 : 1;
	return x->number < y->number ? -1 : 1;
}

static void join_halves(struct ws_trace *t)
{
	if (t->half_count)
		ws_into_tell(
			t->o,
			"Beginnings and ends of slices are in no order of time: they were sorted.");
	if (t->half_count)
		qsort(t->halves, t->half_count, sizeof(*t->halves), by_time);
	for (size_t i = 0; i < t->half_count; i++) {
		const struct ws_trace_half *h = &t->halves[i];

		if (h->end)
			join(t, h->s.key, h->s.start, h->s.args, h->flags);
		else
			push(t, h->s.key, h->s);
	}
}

static uint64_t sync_key(uint32_t thread, uint32_t track)
{
	return (uint64_t)1 << 63 | (uint64_t)track << 32 | thread;
}

/* Asynchronous ones belong together by category and id, and those without category by name. */
static uint64_t async_key(const struct ws_event *ev)
{
	uint64_t h = hash_value(&ev->cat, 11);

	h = hash_value(&ev->scope, h);
	h = hash_value(&ev->id, h);
	if (ev->id2.type == WS_J_OBJECT) {
		h = hash_value(&ev->id2, h);
		if (!memmem(ev->id2.s, ev->id2.n, "\"global\"", 8)) /* one of the process's own */
			h = hash_value(&ev->pid, h);
	}
	return h & ~((uint64_t)1 << 63);
}

/* They have a row of their own in their process, called as they are. */
static uint32_t async_track(struct ws_trace *t, const struct ws_event *ev)
{
	const struct ws_json_value *v =
		ev->cat.type == WS_J_STRING && ev->cat.n ? &ev->cat : &ev->name;
	size_t n;
	const char *s;
	uint32_t process = ev->pid.type == WS_J_NONE || ev->pid.type == WS_J_STRING
				   ? 0
				   : ws_trace_process(t, ev);

	s = ws_json_text(v, &t->scratch, &n);
	return ws_into_track(t->o, 0, process, 0, s, n);
}

static void async_event(struct ws_trace *t, struct ws_event *ev)
{
	/* NVTX ranges of our own export belong to their thread. */
	bool own = ws_json_is(&ev->cat, "nvtx") && ev->tid.type == WS_J_NUMBER &&
		   ev->pid.type == WS_J_NUMBER;
	uint32_t thread = own ? ws_trace_thread(t, ev) : 0, track = own ? 0 : async_track(t, ev);

	switch (ev->phase) {
	case 'b':
	case 'S':
		begin_slice(t, ev, async_key(ev), thread, track);
		break;
	case 'e':
	case 'F':
		end_slice(t, ev, async_key(ev), WS_SLICE_ASYNC);
		break;
	default: /* n, T, p: a moment of it */
		ws_chrome_slice(t, ev, thread, track, WS_SLICE_INSTANT | WS_SLICE_ASYNC);
	}
}

/* ---- counters ---- */

static bool is_single(const struct ws_json_value *args)
{
	struct ws_json_walk w = ws_json_walk(args);
	struct ws_json_value key, value;

	return ws_json_next(&w, &key, &value) && ws_json_is(&key, "value") &&
	       !ws_json_next(&w, &key, &value);
}

static void counter_event(struct ws_trace *t, struct ws_event *ev)
{
	bool single;
	struct ws_json_walk w;
	struct ws_json_value key, value;
	struct ws_text group = {0};
	uint32_t process = 0;
	size_t n;
	const char *s;

	if (ev->args.type != WS_J_OBJECT)
		return;
	if (ev->pid.type == WS_J_NUMBER)
		process = ws_trace_process(t, ev);
	s = ws_json_text(&ev->name, &t->scratch, &n);
	ws_text_add(&group, s, n);
	if (ev->id.type != WS_J_NONE)
		ws_text_printf(&group, "[%.*s]", (int)(ev->id.n < 200 ? ev->id.n : 200), ev->id.s);
	/* A name and a value: as our own export has it, and many others. */
	single = is_single(&ev->args);
	w = ws_json_walk(&ev->args);
	while (ws_json_next(&w, &key, &value)) {
		struct ws_row_counter_value *row;
		uint32_t counter;
		bool ok;
		double d = ws_json_double(&value, &ok);

		if (!ok) {
			ws_into_note(t->o, "Values of counters that are no numbers were left out.");
			continue;
		}
		s = ws_json_text(&key, &t->scratch, &n);
		counter = single ? ws_into_counter(t->o, process, 0, WS_NO_U32, NULL, 0, group.s,
						   group.len, NULL, NULL)
				 : ws_into_counter(t->o, process, 0, WS_NO_U32, group.s, group.len,
						   s, n, NULL, NULL);
		row = ws_into_row(t->o, WS_TABLE_counter_value);
		*row = (struct ws_row_counter_value){
			.start = ev->start, .counter = counter, .value = d};
		ws_into_time(t->o, ev->start);
	}
	ws_text_free(&group);
}

/* ---- flows ---- */

static void put_flow(struct ws_trace *t, const struct ws_flow_end *from,
		     const struct ws_flow_end *to)
{
	struct ws_row_flow *row = ws_into_row(t->o, WS_TABLE_flow);

	*row = (struct ws_row_flow){.start = from->start,
				    .end = to ? to->start : WS_NO_TIME,
				    .from_thread = from->thread,
				    .from_track = from->track,
				    .to_thread = to ? to->thread : 0,
				    .to_track = to ? to->track : 0,
				    .name = from->name,
				    .category = from->category};
}

/* The kept end of a flow, or a place for one; NULL when there are too many. */
static struct ws_flow_end *flow_place(struct ws_trace *t, uint64_t key, bool *found)
{
	uint32_t at = (uint32_t)ws_map_get(&t->flow, key, NULL);

	*found = at != 0;
	if (at)
		return &t->flows[at - 1];
	if (t->free_flow) {
		at = t->free_flow;
		t->free_flow = t->flows[at - 1].thread;
	} else {
		if (t->flow_count == WS_INTO_MOST)
			return NULL;
		ws_grow(t->flows, t->flow_cap, t->flow_count + 1);
		at = (uint32_t)++t->flow_count;
	}
	ws_map_set(&t->flow, key, at);
	return &t->flows[at - 1];
}

static void drop_flow(struct ws_trace *t, uint64_t key)
{
	uint64_t at;

	if (ws_map_take(&t->flow, key, &at)) {
		t->flows[at - 1].key = 0;
		t->flows[at - 1].start = WS_NO_TIME;
		t->flows[at - 1].thread = t->free_flow;
		t->free_flow = (uint32_t)at;
	}
}

/* Beginnings and ends of one flow may come in any order in the file: whichever comes second
 * completes it. */
static void flow_event(struct ws_trace *t, struct ws_event *ev)
{
	uint64_t key = hash_value(&ev->cat, hash_value(&ev->id, hash_value(&ev->name, 7)));
	struct ws_flow_end here = {.start = ev->start, .key = key ? key : 1}, *kept;
	bool found;

	ws_trace_where(t, ev, &here.thread, &here.track);
	here.name = ws_trace_string(t, &ev->name);
	here.category = ws_trace_string(t, &ev->cat);
	kept = flow_place(t, key, &found);
	if (!kept) {
		ws_into_note(t->o,
			     "More than %d flows are open at once; further ones were left out.",
			     WS_INTO_MOST);
		return;
	}
	if (!found) {
		*kept = here;
		return;
	}
	if (ev->phase == 's') { /* its end came first, or the id is used again */
		put_flow(t, &here, kept);
		drop_flow(t, key);
		return;
	}
	put_flow(t, kept, &here);
	if (ev->phase == 't')
		*kept = here;
	else
		drop_flow(t, key);
}

/* ---- any event ---- */

void ws_chrome_event(struct ws_trace *t, struct ws_event *ev)
{
	uint32_t thread, track;

	switch (ev->phase) {
	case 'X':
		ws_trace_where(t, ev, &thread, &track);
		ws_chrome_slice(t, ev, thread, track, 0);
		return;
	case 'B':
		ws_trace_where(t, ev, &thread, &track);
		begin_slice(t, ev, sync_key(thread, track), thread, track);
		return;
	case 'E':
		ws_trace_where(t, ev, &thread, &track);
		end_slice(t, ev, sync_key(thread, track), 0);
		return;
	case 'i':
	case 'I':
	case 'R':
		ws_trace_where(t, ev, &thread, &track);
		ws_chrome_slice(t, ev, thread, track, WS_SLICE_INSTANT);
		return;
	case 'C':
		counter_event(t, ev);
		return;
	case 's':
	case 't':
	case 'f':
		flow_event(t, ev);
		return;
	case 'b':
	case 'n':
	case 'e':
	case 'S':
	case 'T':
	case 'p':
	case 'F':
		async_event(t, ev);
		return;
	case 'P':
		if (ws_chrome_profile(t, ev))
			return;
		/* fallthrough */
	default:
		ws_into_note(
			t->o,
			"Events of phase %c (objects, memory dumps, samples...) were left out.",
			ev->phase > ' ' && ev->phase < 127 ? ev->phase : '?');
	}
}

/* Is there an end that came before its beginning? */
static bool came_early(const struct ws_trace *t, const struct ws_open_slice *s)
{
	return t->early.n && ws_map_get(&t->early, s->key, NULL) >= s->start;
}

void ws_chrome_end(struct ws_trace *t)
{
	join_halves(t);
	for (size_t i = 0; i < t->slice_count; i++)
		if (t->slices[i].start != WS_NO_TIME && came_early(t, &t->slices[i]))
			disorder(t);
	if (t->disorder)
		t->o->shuffled = true;
	for (size_t i = 0; i < t->slice_count; i++)
		if (t->slices[i].start != WS_NO_TIME)
			put_slice(t, &t->slices[i], WS_NO_TIME,
				  (uint8_t)(WS_SLICE_LEFT_OPEN |
					    (t->slices[i].key >> 63 ? 0 : WS_SLICE_ASYNC)));
	for (size_t i = 0; i < t->flow_count; i++)
		if (t->flows[i].key)
			put_flow(t, &t->flows[i], NULL);
}
