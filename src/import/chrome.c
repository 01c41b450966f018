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
#include "base/choose.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static uint64_t hash_value(const struct ws_json_value *value, uint64_t seed)
{
	return value->type == WS_J_NONE ? seed : XXH3_64bits_withSeed(value->text, value->n, seed);
}

static uint32_t raw_args(struct ws_trace *trace, const struct ws_event *ev)
{
	static const char never[] =
		"{\"never ended\":true"; /* our own export begins with it; the row says it */
	size_t skip = sizeof(never) - 1;

	if (ev->args.type != WS_J_OBJECT || ev->args.n <= 2)
		return 0;
	if (ev->args.n <= skip || memcmp(ev->args.text, never, skip))
		return ws_trace_string(trace, &ev->args);
	if (ev->args.text[skip] != ',')
		return 0;
	trace->built.len = 0;
	ws_text_puts(&trace->built, "{");
	ws_text_add(&trace->built, ev->args.text + skip + 1, ev->args.n - skip - 1);
	return ws_into_string(trace->into, trace->built.text, trace->built.len);
}

/* The first range of a named domain defines it. */
static void define_domain(struct ws_trace *trace, uint32_t thread, uint64_t at, uint32_t domain,
			  uint32_t name)
{
	uint64_t key = (uint64_t)ws_into_thread_of(trace->into, thread)->process << 32 | domain;
	struct ws_row_nvtx *row;

	if (!domain || !name || ws_map_get(&trace->domains, key, NULL))
		return;
	ws_map_set(&trace->domains, key, 1);
	row = ws_into_row(trace->into, WS_TABLE_nvtx);
	*row = (struct ws_row_nvtx){.start = at,
				    .end = WS_NO_TIME,
				    .thread = thread,
				    .type = WS_NVTX_DOMAIN_CREATE,
				    .domain = domain,
				    .text = name};
}

/* Slices of threads in a category of our own export go back where they came from. True when it was
 * one. */
static bool put_own(struct ws_trace *trace, const struct ws_open_slice *slice, uint64_t end,
		    uint8_t flags)
{
	if (slice->own == WS_OWN_NVTX) {
		struct ws_row_nvtx *row = ws_into_row(trace->into, WS_TABLE_nvtx);

		*row = (struct ws_row_nvtx){.start = slice->start,
					    .end = end,
					    .thread = slice->thread,
					    .text = slice->name,
					    .domain = slice->domain,
					    .category = slice->group,
					    .type = flags & WS_SLICE_ASYNC     ? WS_NVTX_STARTEND
						    : flags & WS_SLICE_INSTANT ? WS_NVTX_MARK
									       : WS_NVTX_PUSHPOP};
		return true;
	}
	if (slice->own == WS_OWN_OSRT && !(flags & (WS_SLICE_ASYNC | WS_SLICE_INSTANT))) {
		struct ws_row_osrt *row = ws_into_row(trace->into, WS_TABLE_osrt);

		*row = (struct ws_row_osrt){.start = slice->start,
					    .end = end,
					    .thread = slice->thread,
					    .name = slice->name,
					    .path = slice->args,
					    .callchain = WS_NO_U32};
		return true;
	}
	return false;
}

static void put_slice(struct ws_trace *trace, const struct ws_open_slice *slice, uint64_t end,
		      uint8_t flags)
{
	struct ws_row_slice *row;

	ws_into_time(trace->into, slice->start);
	if (end != WS_NO_TIME)
		ws_into_time(trace->into, end);
	if (slice->never)
		end = WS_NO_TIME;
	if (put_own(trace, slice, end, flags))
		return;
	row = ws_into_row(trace->into, WS_TABLE_slice);
	*row = (struct ws_row_slice){.start = slice->start,
				     .end = end,
				     .thread = slice->thread,
				     .track = slice->track,
				     .name = slice->name,
				     .category = slice->category,
				     .args = slice->args,
				     .flags = (uint8_t)(flags |
							(slice->never ? WS_SLICE_LEFT_OPEN : 0))};
}

static struct ws_open_slice new_slice(struct ws_trace *trace, const struct ws_event *ev,
				      uint32_t thread, uint32_t track)
{
	struct ws_open_slice slice = {.start = ev->start,
				      .thread = thread,
				      .track = track,
				      .name = ws_trace_string(trace, &ev->name),
				      .category = ws_trace_string(trace, &ev->cat)};
	struct ws_json_walk walk;
	struct ws_json_value key, value;
	uint32_t domain_name = 0, path = 0;

	if (thread)
		slice.own = ws_json_is(&ev->cat, "nvtx")   ? WS_OWN_NVTX
			    : ws_json_is(&ev->cat, "osrt") ? WS_OWN_OSRT
							   : WS_OWN_NONE;
	slice.args = slice.own ? 0 : raw_args(trace, ev);
	if (ev->args.type != WS_J_OBJECT || ev->args.n < 6 ||
	    !(slice.own || ev->args.text[2] == 'n')) /* "never ended" comes first */
		return slice;
	walk = ws_json_walk(&ev->args);
	while (ws_json_next(&walk, &key, &value)) {
		int64_t number = ws_json_fixed(&value, 0, NULL);

		if (ws_json_is(&key, "never ended"))
			slice.never = value.type == WS_J_TRUE;
		else if (slice.own && ws_json_is(&key, "domain") && number > 0 &&
			 number <= UINT32_MAX)
			slice.domain = (uint32_t)number;
		else if (slice.own && ws_json_is(&key, "category") && number > 0 &&
			 number <= UINT32_MAX)
			slice.group = (uint32_t)number;
		else if (slice.own && ws_json_is(&key, "domain name"))
			domain_name = ws_trace_string(trace, &value);
		else if (slice.own && ws_json_is(&key, "path"))
			path = ws_trace_string(trace, &value);
		else if (slice.own)
			ws_into_note(trace->into,
				     "The argument \"%.*s\" of %.*s events was left out.",
				     (int)(ws_min(key.n, 100)), key.text, (int)ev->cat.n,
				     ev->cat.text);
	}
	if (slice.own == WS_OWN_NVTX)
		define_domain(trace, thread, ev->start, slice.domain, domain_name);
	if (slice.own == WS_OWN_OSRT)
		slice.args = path;
	return slice;
}

void ws_chrome_slice(struct ws_trace *trace, struct ws_event *ev, uint32_t thread, uint32_t track,
		     uint8_t flags)
{
	struct ws_open_slice slice = new_slice(trace, ev, thread, track);

	put_slice(trace, &slice, flags & WS_SLICE_INSTANT ? WS_NO_TIME : ev->start + ev->length,
		  flags);
}

/* ---- halves ---- */

enum { MOST_HALVES = 4 << 20 };

static void keep_half(struct ws_trace *trace, uint64_t key, struct ws_open_slice slice, bool end,
		      uint8_t flags)
{
	if (trace->half_count == MOST_HALVES) {
		ws_into_note(trace->into,
			     "More than %d beginnings and ends are in no order; further ones were "
			     "left out.",
			     MOST_HALVES);
		return;
	}
	slice.key = key;
	ws_grow(trace->halves, trace->half_cap, trace->half_count + 1);
	trace->halves[trace->half_count] =
		(struct ws_trace_half){slice, (uint32_t)trace->half_count, end, flags};
	trace->half_count++;
}

static void push(struct ws_trace *trace, uint64_t key, struct ws_open_slice slice)
{
	uint32_t at = trace->free_slice;

	if (at) {
		trace->free_slice = trace->slices[at - 1].below;
	} else {
		if (trace->slice_count == WS_INTO_MOST) {
			ws_into_note(
				trace->into,
				"More than %d slices are open at once; further ones were left out.",
				WS_INTO_MOST);
			return;
		}
		ws_grow(trace->slices, trace->slice_cap, trace->slice_count + 1);
		at = (uint32_t)++trace->slice_count;
	}
	slice.key = key;
	slice.below = (uint32_t)ws_map_get(&trace->open, key, NULL);
	trace->slices[at - 1] = slice;
	ws_map_set(&trace->open, key, at);
}

/* The innermost open slice of a key, taken off. False when there is none. */
static bool pop(struct ws_trace *trace, uint64_t key, struct ws_open_slice *slice)
{
	uint32_t at = (uint32_t)ws_map_get(&trace->open, key, NULL);
	uint64_t taken;

	if (!at)
		return false;
	*slice = trace->slices[at - 1];
	if (slice->below)
		ws_map_set(&trace->open, key, slice->below);
	else
		ws_map_take(&trace->open, key, &taken);
	trace->slices[at - 1].key = 0;
	trace->slices[at - 1].start = WS_NO_TIME; /* free */
	trace->slices[at - 1].below = trace->free_slice;
	trace->free_slice = at;
	return true;
}

static void disorder(struct ws_trace *trace)
{
	trace->into->again |= !trace->into->shuffled;
	trace->disorder = true;
}

/* A slice has the arguments of its beginning, or else those of its end. */
static void add_args(struct ws_trace *trace, struct ws_open_slice *slice, uint32_t args)
{
	if (!args || slice->own || args == slice->args)
		return;
	if (slice->args)
		ws_into_note(
			trace->into,
			"Arguments of ends of slices were left out where the beginning has some.");
	else
		slice->args = args;
}

/* An end at `at` with these arguments. */
static void join(struct ws_trace *trace, uint64_t key, uint64_t at, uint32_t args, uint8_t flags)
{
	enum { BACKWARDS = 1000 /* ns: more than rounding */ };
	struct ws_open_slice slice;

	if (!pop(trace, key, &slice)) {
		if (trace->early.n < WS_INTO_MOST && at > ws_map_get(&trace->early, key, NULL))
			ws_map_set(&trace->early, key, at);
		ws_into_note(trace->into, "Ends of slices without a beginning were left out.");
		return;
	}
	if (slice.start > at + BACKWARDS)
		disorder(trace);
	add_args(trace, &slice, args);
	put_slice(trace, &slice, ws_max(at, slice.start), flags);
}

static void begin_slice(struct ws_trace *trace, const struct ws_event *ev, uint64_t key,
			uint32_t thread, uint32_t track)
{
	struct ws_open_slice slice = new_slice(trace, ev, thread, track);

	if (trace->into->shuffled)
		keep_half(trace, key, slice, false, 0);
	else
		push(trace, key, slice);
}

static void end_slice(struct ws_trace *trace, struct ws_event *ev, uint64_t key, uint8_t flags)
{
	if (trace->into->shuffled)
		keep_half(trace, key,
			  (struct ws_open_slice){.start = ev->start, .args = raw_args(trace, ev)},
			  true, flags);
	else
		join(trace, key, ev->start, raw_args(trace, ev), flags);
}

static int by_time(const void *first, const void *second)
{
	const struct ws_trace_half *left = first, *right = second;

	if (left->slice.key != right->slice.key)
		return left->slice.key < right->slice.key ? -1 : 1;
	if (left->slice.start != right->slice.start)
		return left->slice.start < right->slice.start ? -1 : 1;
	return left->number < right->number ? -1 : 1;
}

static void join_halves(struct ws_trace *trace)
{
	if (trace->half_count)
		ws_into_tell(
			trace->into,
			"Beginnings and ends of slices are in no order of time: they were sorted.");
	if (trace->half_count)
		qsort(trace->halves, trace->half_count, sizeof(*trace->halves), by_time);
	for (size_t i = 0; i < trace->half_count; i++) {
		const struct ws_trace_half *half = &trace->halves[i];

		if (half->end)
			join(trace, half->slice.key, half->slice.start, half->slice.args,
			     half->flags);
		else
			push(trace, half->slice.key, half->slice);
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
		if (!memmem(ev->id2.text, ev->id2.n, "\"global\"",
			    8)) /* one of the process's own */
			h = hash_value(&ev->pid, h);
	}
	return h & ~((uint64_t)1 << 63);
}

/* They have a row of their own in their process, called as they are. */
static uint32_t async_track(struct ws_trace *trace, const struct ws_event *ev)
{
	const struct ws_json_value *value =
		ev->cat.type == WS_J_STRING && ev->cat.n ? &ev->cat : &ev->name;
	size_t n;
	const char *text;
	uint32_t process = ev->pid.type == WS_J_NONE || ev->pid.type == WS_J_STRING
				   ? 0
				   : ws_trace_process(trace, ev);

	text = ws_json_text(value, &trace->scratch, &n);
	return ws_into_track(trace->into, 0, process, 0, text, n);
}

static void async_event(struct ws_trace *trace, struct ws_event *ev)
{
	/* NVTX ranges of our own export belong to their thread. */
	bool own = ws_json_is(&ev->cat, "nvtx") && ev->tid.type == WS_J_NUMBER &&
		   ev->pid.type == WS_J_NUMBER;
	uint32_t thread = own ? ws_trace_thread(trace, ev) : 0,
		 track = own ? 0 : async_track(trace, ev);

	switch (ev->phase) {
	case 'b':
	case 'S':
		begin_slice(trace, ev, async_key(ev), thread, track);
		break;
	case 'e':
	case 'F':
		end_slice(trace, ev, async_key(ev), WS_SLICE_ASYNC);
		break;
	default: /* n, T, p: a moment of it */
		ws_chrome_slice(trace, ev, thread, track, WS_SLICE_INSTANT | WS_SLICE_ASYNC);
	}
}

/* ---- counters ---- */

static bool is_single(const struct ws_json_value *args)
{
	struct ws_json_walk walk = ws_json_walk(args);
	struct ws_json_value key, value;

	return ws_json_next(&walk, &key, &value) && ws_json_is(&key, "value") &&
	       !ws_json_next(&walk, &key, &value);
}

static void counter_event(struct ws_trace *trace, struct ws_event *ev)
{
	bool single;
	struct ws_json_walk walk;
	struct ws_json_value key, value;
	struct ws_text group = {0};
	uint32_t process = 0;
	size_t n;
	const char *text;

	if (ev->args.type != WS_J_OBJECT)
		return;
	if (ev->pid.type == WS_J_NUMBER)
		process = ws_trace_process(trace, ev);
	text = ws_json_text(&ev->name, &trace->scratch, &n);
	ws_text_add(&group, text, n);
	if (ev->id.type != WS_J_NONE)
		ws_text_printf(&group, "[%.*s]", (int)(ws_min(ev->id.n, 200)), ev->id.text);
	/* A name and a value: as our own export has it, and many others. */
	single = is_single(&ev->args);
	walk = ws_json_walk(&ev->args);
	while (ws_json_next(&walk, &key, &value)) {
		struct ws_row_counter_value *row;
		uint32_t counter;
		bool ok;
		double d = ws_json_double(&value, &ok);

		if (!ok) {
			ws_into_note(trace->into,
				     "Values of counters that are no numbers were left out.");
			continue;
		}
		text = ws_json_text(&key, &trace->scratch, &n);
		counter = single ? ws_into_counter(trace->into, process, 0, WS_NO_U32, NULL, 0,
						   group.text, group.len, NULL, NULL)
				 : ws_into_counter(trace->into, process, 0, WS_NO_U32, group.text,
						   group.len, text, n, NULL, NULL);
		row = ws_into_row(trace->into, WS_TABLE_counter_value);
		*row = (struct ws_row_counter_value){
			.start = ev->start, .counter = counter, .value = d};
		ws_into_time(trace->into, ev->start);
	}
	ws_text_free(&group);
}

/* ---- flows ---- */

static void put_flow(struct ws_trace *trace, const struct ws_flow_end *from,
		     const struct ws_flow_end *to)
{
	struct ws_row_flow *row = ws_into_row(trace->into, WS_TABLE_flow);

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
static struct ws_flow_end *flow_place(struct ws_trace *trace, uint64_t key, bool *found)
{
	uint32_t at = (uint32_t)ws_map_get(&trace->flow, key, NULL);

	*found = at != 0;
	if (at)
		return &trace->flows[at - 1];
	if (trace->free_flow) {
		at = trace->free_flow;
		trace->free_flow = trace->flows[at - 1].thread;
	} else {
		if (trace->flow_count == WS_INTO_MOST)
			return NULL;
		ws_grow(trace->flows, trace->flow_cap, trace->flow_count + 1);
		at = (uint32_t)++trace->flow_count;
	}
	ws_map_set(&trace->flow, key, at);
	return &trace->flows[at - 1];
}

static void drop_flow(struct ws_trace *trace, uint64_t key)
{
	uint64_t at;

	if (ws_map_take(&trace->flow, key, &at)) {
		trace->flows[at - 1].key = 0;
		trace->flows[at - 1].start = WS_NO_TIME;
		trace->flows[at - 1].thread = trace->free_flow;
		trace->free_flow = (uint32_t)at;
	}
}

/* Beginnings and ends of one flow may come in any order in the file: whichever comes second
 * completes it. */
static void flow_event(struct ws_trace *trace, struct ws_event *ev)
{
	uint64_t key = hash_value(&ev->cat, hash_value(&ev->id, hash_value(&ev->name, 7)));
	struct ws_flow_end here = {.start = ev->start, .key = key ? key : 1}, *kept;
	bool found;

	ws_trace_where(trace, ev, &here.thread, &here.track);
	here.name = ws_trace_string(trace, &ev->name);
	here.category = ws_trace_string(trace, &ev->cat);
	kept = flow_place(trace, key, &found);
	if (!kept) {
		ws_into_note(trace->into,
			     "More than %d flows are open at once; further ones were left out.",
			     WS_INTO_MOST);
		return;
	}
	if (!found) {
		*kept = here;
		return;
	}
	if (ev->phase == 's') { /* its end came first, or the id is used again */
		put_flow(trace, &here, kept);
		drop_flow(trace, key);
		return;
	}
	put_flow(trace, kept, &here);
	if (ev->phase == 't')
		*kept = here;
	else
		drop_flow(trace, key);
}

/* ---- any event ---- */

void ws_chrome_event(struct ws_trace *trace, struct ws_event *ev)
{
	uint32_t thread, track;

	switch (ev->phase) {
	case 'X':
		ws_trace_where(trace, ev, &thread, &track);
		ws_chrome_slice(trace, ev, thread, track, 0);
		return;
	case 'B':
		ws_trace_where(trace, ev, &thread, &track);
		begin_slice(trace, ev, sync_key(thread, track), thread, track);
		return;
	case 'E':
		ws_trace_where(trace, ev, &thread, &track);
		end_slice(trace, ev, sync_key(thread, track), 0);
		return;
	case 'i':
	case 'I':
	case 'R':
		ws_trace_where(trace, ev, &thread, &track);
		ws_chrome_slice(trace, ev, thread, track, WS_SLICE_INSTANT);
		return;
	case 'C':
		counter_event(trace, ev);
		return;
	case 's':
	case 't':
	case 'f':
		flow_event(trace, ev);
		return;
	case 'b':
	case 'n':
	case 'e':
	case 'S':
	case 'T':
	case 'p':
	case 'F':
		async_event(trace, ev);
		return;
	case 'P':
		if (ws_chrome_profile(trace, ev))
			return;
		/* fallthrough */
	default:
		ws_into_note(
			trace->into,
			"Events of phase %c (objects, memory dumps, samples...) were left out.",
			ev->phase > ' ' && ev->phase < 127 ? ev->phase : '?');
	}
}

/* Is there an end that came before its beginning? */
static bool came_early(const struct ws_trace *trace, const struct ws_open_slice *slice)
{
	return trace->early.n && ws_map_get(&trace->early, slice->key, NULL) >= slice->start;
}

void ws_chrome_end(struct ws_trace *trace)
{
	join_halves(trace);
	for (size_t i = 0; i < trace->slice_count; i++)
		if (trace->slices[i].start != WS_NO_TIME && came_early(trace, &trace->slices[i]))
			disorder(trace);
	if (trace->disorder)
		trace->into->shuffled = true;
	for (size_t i = 0; i < trace->slice_count; i++)
		if (trace->slices[i].start != WS_NO_TIME)
			put_slice(trace, &trace->slices[i], WS_NO_TIME,
				  (uint8_t)(WS_SLICE_LEFT_OPEN |
					    (trace->slices[i].key >> 63 ? 0 : WS_SLICE_ASYNC)));
	for (size_t i = 0; i < trace->flow_count; i++)
		if (trace->flows[i].key)
			put_flow(trace, &trace->flows[i], NULL);
}
