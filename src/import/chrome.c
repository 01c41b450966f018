/*
 * chrome.c - the general events of Chrome's trace format: complete slices, slices in two halves,
 * asynchronous ones, instants, counters and flows.
 *
 * Halves are joined here: B and E by thread, innermost first; b, n and e by category, id and (where
 * ids are local) process. Slices that never end are written last, with the flag LEFT_OPEN. The end
 * of a flow is kept until the next one with the same id.
 *
 * Halves nearly always come in time order for each thread. Where ends come before their beginnings,
 * the file is read a second time, and its halves are kept and sorted before they are joined.
 */
#include "import/trace.h"
#include "base/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static uint64_t hash_value(const struct ws_json_value *value, uint64_t seed)
{
	if (value->type == WS_JSON_NONE)
		return seed;
	return XXH3_64bits_withSeed(value->text, value->length, seed);
}

/* The event's arguments as they are, as a string of the report; 0 when there are none. */
static uint32_t intern_args(struct ws_trace *trace, const struct ws_trace_event *event)
{
	/* Our own export writes this argument first; it becomes a flag of the row. */
	static const char never[] = "{\"never ended\":true";
	size_t skip = sizeof(never) - 1;

	if (event->args.type != WS_JSON_OBJECT || event->args.length <= 2)
		return 0;
	if (event->args.length <= skip || memcmp(event->args.text, never, skip))
		return ws_trace_add_string(trace, &event->args);
	if (event->args.text[skip] != ',')
		return 0;
	trace->built.len = 0;
	ws_text_puts(&trace->built, "{");
	ws_text_add(&trace->built, event->args.text + skip + 1, event->args.length - skip - 1);
	return ws_importer_add_string(trace->importer, trace->built.text, trace->built.len);
}

/* The arguments, preceded by the mangled name: the slice itself gets the demangled one. */
static uint32_t add_mangled_arg(struct ws_trace *trace, const struct ws_trace_event *event,
				uint32_t args)
{
	const struct ws_json_value *whole = &event->args;

	trace->built.len = 0;
	ws_text_puts(&trace->built, "{\"mangled name\":\"");
	ws_text_add(&trace->built, event->name.text, event->name.length);
	ws_text_puts(&trace->built, "\"");
	if (args) {
		ws_text_puts(&trace->built, ",");
		ws_text_add(&trace->built, whole->text + 1, whole->length - 1);
	} else {
		ws_text_puts(&trace->built, "}");
	}
	return ws_importer_add_string(trace->importer, trace->built.text, trace->built.len);
}

/* The first range of a named domain defines it. */
static void define_domain(struct ws_trace *trace, uint32_t thread, uint64_t at, uint32_t domain,
			  uint32_t name)
{
	uint64_t key =
		(uint64_t)ws_importer_get_thread(trace->importer, thread)->process << 32 | domain;
	struct ws_row_nvtx *row;

	if (!domain || !name || ws_map_get(&trace->domains, key, NULL))
		return;
	ws_map_set(&trace->domains, key, 1);
	row = ws_importer_add_row(trace->importer, WS_TABLE_nvtx);
	*row = (struct ws_row_nvtx){.start = at,
				    .end = WS_NO_TIME,
				    .thread = thread,
				    .type = WS_NVTX_DOMAIN_CREATE,
				    .domain = domain,
				    .text = name};
}

static uint8_t choose_nvtx_type(uint8_t flags)
{
	if (flags & WS_SLICE_ASYNC)
		return WS_NVTX_STARTEND;
	if (flags & WS_SLICE_INSTANT)
		return WS_NVTX_MARK;
	return WS_NVTX_PUSHPOP;
}

/* A thread's slice in a category of our own export goes back to the table that it came from. False
 * when it is no such slice. */
static bool put_own_event(struct ws_trace *trace, const struct ws_trace_slice *slice, uint64_t end,
			  uint8_t flags)
{
	if (slice->own_category == WS_OWN_NVTX) {
		struct ws_row_nvtx *row = ws_importer_add_row(trace->importer, WS_TABLE_nvtx);

		*row = (struct ws_row_nvtx){.start = slice->start,
					    .end = end,
					    .thread = slice->thread,
					    .text = slice->name,
					    .domain = slice->domain,
					    .category = slice->group,
					    .type = choose_nvtx_type(flags)};
		return true;
	}
	if (slice->own_category == WS_OWN_OSRT && !(flags & (WS_SLICE_ASYNC | WS_SLICE_INSTANT))) {
		struct ws_row_osrt *row = ws_importer_add_row(trace->importer, WS_TABLE_osrt);

		*row = (struct ws_row_osrt){.start = slice->start,
					    .end = end,
					    .thread = slice->thread,
					    .name = slice->name,
					    .path = slice->args,
					    .callchain = WS_NO_U32,
					    .position = WS_NO_U64};
		return true;
	}
	return false;
}

static void put_slice(struct ws_trace *trace, const struct ws_trace_slice *slice, uint64_t end,
		      uint8_t flags)
{
	struct ws_row_slice *row;

	ws_importer_include_time(trace->importer, slice->start);
	if (end != WS_NO_TIME)
		ws_importer_include_time(trace->importer, end);
	if (slice->never_ended) {
		end = WS_NO_TIME;
		flags |= WS_SLICE_LEFT_OPEN;
	}
	if (put_own_event(trace, slice, end, flags))
		return;
	row = ws_importer_add_row(trace->importer, WS_TABLE_slice);
	*row = (struct ws_row_slice){.start = slice->start,
				     .end = end,
				     .thread = slice->thread,
				     .track = slice->track,
				     .name = slice->name,
				     .category = slice->category,
				     .args = slice->args,
				     .flags = flags};
}

/* Profilers of AMD GPUs write the mangled names of kernels. */
static void demangle_slice(struct ws_trace *trace, const struct ws_trace_event *event,
			   struct ws_trace_slice *slice)
{
	uint32_t name = ws_importer_demangle(trace->importer, slice->name);

	if (name == slice->name || slice->own_category)
		return;
	slice->name = name;
	slice->args = add_mangled_arg(trace, event, slice->args);
}

/* The slice that an event begins, with its arguments. */
static struct ws_trace_slice make_open_slice(struct ws_trace *trace,
					     const struct ws_trace_event *event, uint32_t thread,
					     uint32_t track)
{
	struct ws_trace_slice slice = {.start = event->start,
				       .thread = thread,
				       .track = track,
				       .name = ws_trace_add_string(trace, &event->name),
				       .category = ws_trace_add_string(trace, &event->cat)};
	struct ws_json_walk walk;
	struct ws_json_value key, value;
	uint32_t domain_name = 0, path = 0;

	if (thread && ws_is_json_string(&event->cat, "nvtx"))
		slice.own_category = WS_OWN_NVTX;
	else if (thread && ws_is_json_string(&event->cat, "osrt"))
		slice.own_category = WS_OWN_OSRT;
	else
		slice.args = intern_args(trace, event);
	demangle_slice(trace, event, &slice);
	/* If "never ended" is present, it comes first. */
	if (event->args.type != WS_JSON_OBJECT || event->args.length < 6 ||
	    !(slice.own_category || event->args.text[2] == 'n'))
		return slice;
	walk = ws_begin_json_walk(&event->args);
	while (ws_next_json_member(&walk, &key, &value)) {
		int64_t number = ws_parse_json_fixed(&value, 0, NULL);

		if (ws_is_json_string(&key, "never ended"))
			slice.never_ended = value.type == WS_JSON_TRUE;
		else if (slice.own_category && ws_is_json_string(&key, "domain") && number > 0 &&
			 number <= UINT32_MAX)
			slice.domain = (uint32_t)number;
		else if (slice.own_category && ws_is_json_string(&key, "category") && number > 0 &&
			 number <= UINT32_MAX)
			slice.group = (uint32_t)number;
		else if (slice.own_category && ws_is_json_string(&key, "domain name"))
			domain_name = ws_trace_add_string(trace, &value);
		else if (slice.own_category && ws_is_json_string(&key, "path"))
			path = ws_trace_add_string(trace, &value);
		else if (slice.own_category)
			ws_importer_add_note(trace->importer,
					     "The argument \"%.*s\" of %.*s events was left out.",
					     (int)(ws_min(key.length, 100)), key.text,
					     (int)event->cat.length, event->cat.text);
	}
	if (slice.own_category == WS_OWN_NVTX)
		define_domain(trace, thread, event->start, slice.domain, domain_name);
	if (slice.own_category == WS_OWN_OSRT)
		slice.args = path;
	return slice;
}

void ws_chrome_put_slice(struct ws_trace *trace, struct ws_trace_event *event, uint32_t thread,
			 uint32_t track, uint8_t flags)
{
	struct ws_trace_slice slice = make_open_slice(trace, event, thread, track);
	uint64_t end = event->start + event->length;

	if (flags & WS_SLICE_INSTANT)
		end = WS_NO_TIME;
	put_slice(trace, &slice, end, flags);
}

/* ---- halves ---- */

enum { MOST_HALVES = 4 << 20 };

static void keep_half(struct ws_trace *trace, uint64_t key, struct ws_trace_slice slice, bool end,
		      uint8_t flags)
{
	if (trace->half_count == MOST_HALVES) {
		ws_importer_add_note(
			trace->importer,
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

static void push_open_slice(struct ws_trace *trace, uint64_t key, struct ws_trace_slice slice)
{
	uint32_t number = trace->free_slice;

	if (number) {
		trace->free_slice = trace->slices[number - 1].outer;
	} else {
		if (trace->slice_count == WS_IMPORT_LIMIT) {
			ws_importer_add_note(
				trace->importer,
				"More than %d slices are open at once; further ones were left out.",
				WS_IMPORT_LIMIT);
			return;
		}
		ws_grow(trace->slices, trace->slice_cap, trace->slice_count + 1);
		number = (uint32_t)++trace->slice_count;
	}
	slice.key = key;
	slice.outer = (uint32_t)ws_map_get(&trace->open_slices, key, NULL);
	trace->slices[number - 1] = slice;
	ws_map_set(&trace->open_slices, key, number);
}

/* Remove the innermost open slice of a key. False when there is none. */
static bool pop_open_slice(struct ws_trace *trace, uint64_t key, struct ws_trace_slice *slice)
{
	uint32_t number = (uint32_t)ws_map_get(&trace->open_slices, key, NULL);
	uint64_t removed;

	if (!number)
		return false;
	*slice = trace->slices[number - 1];
	if (slice->outer)
		ws_map_set(&trace->open_slices, key, slice->outer);
	else
		ws_map_remove(&trace->open_slices, key, &removed);
	trace->slices[number - 1].key = 0;
	trace->slices[number - 1].start = WS_NO_TIME; /* free */
	trace->slices[number - 1].outer = trace->free_slice;
	trace->free_slice = number;
	return true;
}

static void mark_disorder(struct ws_trace *trace)
{
	trace->importer->import_again |= !trace->importer->halves_shuffled;
	trace->halves_shuffled = true;
}

/* A slice has the arguments of its beginning; if that has none, those of its end. */
static void add_end_args(struct ws_trace *trace, struct ws_trace_slice *slice, uint32_t args)
{
	if (!args || slice->own_category || args == slice->args)
		return;
	if (slice->args)
		ws_importer_add_note(
			trace->importer,
			"Arguments of ends of slices were left out where the beginning has some.");
	else
		slice->args = args;
}

/* End the innermost open slice of a key at `at`; `args` are the arguments of the end. */
static void end_open_slice(struct ws_trace *trace, uint64_t key, uint64_t at, uint32_t args,
			   uint8_t flags)
{
	enum { BACKWARDS = 1000 /* ns: more than the rounding error of times */ };
	struct ws_trace_slice slice;

	if (!pop_open_slice(trace, key, &slice)) {
		if (trace->early_ends.count < WS_IMPORT_LIMIT &&
		    at > ws_map_get(&trace->early_ends, key, NULL))
			ws_map_set(&trace->early_ends, key, at);
		ws_importer_add_note(trace->importer,
				     "Ends of slices without a beginning were left out.");
		return;
	}
	if (slice.start > at + BACKWARDS)
		mark_disorder(trace);
	add_end_args(trace, &slice, args);
	put_slice(trace, &slice, ws_max(at, slice.start), flags);
}

static void begin_slice(struct ws_trace *trace, const struct ws_trace_event *event, uint64_t key,
			uint32_t thread, uint32_t track)
{
	struct ws_trace_slice slice = make_open_slice(trace, event, thread, track);

	if (trace->importer->halves_shuffled)
		keep_half(trace, key, slice, false, 0);
	else
		push_open_slice(trace, key, slice);
}

static void end_slice(struct ws_trace *trace, struct ws_trace_event *event, uint64_t key,
		      uint8_t flags)
{
	if (trace->importer->halves_shuffled)
		keep_half(trace, key,
			  (struct ws_trace_slice){.start = event->start,
						  .args = intern_args(trace, event)},
			  true, flags);
	else
		end_open_slice(trace, key, event->start, intern_args(trace, event), flags);
}

static int compare_halves(const void *first, const void *second)
{
	const struct ws_trace_half *left = first, *right = second;

	if (left->slice.key != right->slice.key)
		return ws_compare(left->slice.key, right->slice.key);
	if (left->slice.start != right->slice.start)
		return ws_compare(left->slice.start, right->slice.start);
	return ws_compare(left->number, right->number);
}

static void join_halves(struct ws_trace *trace)
{
	if (trace->half_count)
		ws_importer_add_message(
			trace->importer,
			"Beginnings and ends of slices are in no order of time: they were sorted.");
	if (trace->half_count)
		qsort(trace->halves, trace->half_count, sizeof(*trace->halves), compare_halves);
	for (size_t i = 0; i < trace->half_count; i++) {
		const struct ws_trace_half *half = &trace->halves[i];

		if (half->end)
			end_open_slice(trace, half->slice.key, half->slice.start, half->slice.args,
				       half->flags);
		else
			push_open_slice(trace, half->slice.key, half->slice);
	}
}

static uint64_t make_sync_key(uint32_t thread, uint32_t track)
{
	return (uint64_t)1 << 63 | (uint64_t)track << 32 | thread;
}

/* Asynchronous halves belong together by category, scope and id. */
static uint64_t make_async_key(const struct ws_trace_event *event)
{
	uint64_t key = hash_value(&event->cat, 11);

	key = hash_value(&event->scope, key);
	key = hash_value(&event->id, key);
	if (event->id2.type == WS_JSON_OBJECT) {
		key = hash_value(&event->id2, key);
		/* An id that is local to the process. */
		if (!memmem(event->id2.text, event->id2.length, "\"global\"", 8))
			key = hash_value(&event->pid, key);
	}
	return key & ~((uint64_t)1 << 63);
}

/* The track of asynchronous events in their process, called after their category, or by their name
 * where they have none. */
static uint32_t find_async_track(struct ws_trace *trace, const struct ws_trace_event *event)
{
	const struct ws_json_value *value = &event->name;
	size_t n;
	const char *text;
	uint32_t process = 0, own = ws_trace_find_own_track(trace, event);

	if (own)
		return own;
	if (event->cat.type == WS_JSON_STRING && event->cat.length)
		value = &event->cat;
	if (event->pid.type != WS_JSON_NONE && event->pid.type != WS_JSON_STRING)
		process = ws_trace_find_process(trace, event);

	text = ws_unescape_json_text(value, &trace->scratch, &n);
	return ws_importer_intern_track(trace->importer, 0, process, 0, text, n);
}

static void read_async_event(struct ws_trace *trace, struct ws_trace_event *event)
{
	/* NVTX ranges of our own export belong to their thread. */
	bool own = ws_is_json_string(&event->cat, "nvtx") && event->tid.type == WS_JSON_NUMBER &&
		   event->pid.type == WS_JSON_NUMBER;
	uint32_t thread = 0, track = 0;

	if (own)
		thread = ws_trace_find_thread(trace, event);
	else
		track = find_async_track(trace, event);

	switch (event->phase) {
	case 'b':
	case 'S':
		begin_slice(trace, event, make_async_key(event), thread, track);
		break;
	case 'e':
	case 'F':
		end_slice(trace, event, make_async_key(event), WS_SLICE_ASYNC);
		break;
	default: /* n, T, p: an instant within a slice */
		ws_chrome_put_slice(trace, event, thread, track, WS_SLICE_INSTANT | WS_SLICE_ASYNC);
	}
}

/* ---- counters ---- */

static bool has_single_value(const struct ws_json_value *args)
{
	struct ws_json_walk walk = ws_begin_json_walk(args);
	struct ws_json_value key, value;

	return ws_next_json_member(&walk, &key, &value) && ws_is_json_string(&key, "value") &&
	       !ws_next_json_member(&walk, &key, &value);
}

/* The counter of one member of an event's arguments. If a name has a single value, as in our own
 * exports and many others, it is the counter's; otherwise it names a group. */
static uint32_t find_counter(struct ws_trace *trace, uint32_t process, const struct ws_text *name,
			     const struct ws_json_value *key, bool single)
{
	struct ws_import_counter counter = {.process = process,
					    .device = WS_NO_U32,
					    .name = name->text,
					    .name_length = name->len};

	if (!single) {
		counter.group = name->text;
		counter.group_length = name->len;
		counter.name = ws_unescape_json_text(key, &trace->scratch, &counter.name_length);
	}
	return ws_importer_intern_counter(trace->importer, &counter);
}

static void read_counter_event(struct ws_trace *trace, struct ws_trace_event *event)
{
	bool single;
	struct ws_json_walk walk;
	struct ws_json_value key, value;
	struct ws_text group = {0};
	uint32_t process = 0;
	size_t n;
	const char *text;

	if (event->args.type != WS_JSON_OBJECT)
		return;
	if (event->pid.type == WS_JSON_NUMBER)
		process = ws_trace_find_process(trace, event);
	text = ws_unescape_json_text(&event->name, &trace->scratch, &n);
	ws_text_add(&group, text, n);
	if (event->id.type != WS_JSON_NONE)
		ws_text_printf(&group, "[%.*s]", (int)(ws_min(event->id.length, 200)),
			       event->id.text);
	single = has_single_value(&event->args);
	walk = ws_begin_json_walk(&event->args);
	while (ws_next_json_member(&walk, &key, &value)) {
		struct ws_row_counter_value *row;
		uint32_t counter;
		bool ok;
		double number = ws_parse_json_double(&value, &ok);

		if (!ok) {
			ws_importer_add_note(
				trace->importer,
				"Values of counters that are no numbers were left out.");
			continue;
		}
		counter = find_counter(trace, process, &group, &key, single);
		row = ws_importer_add_row(trace->importer, WS_TABLE_counter_value);
		*row = (struct ws_row_counter_value){
			.start = event->start, .counter = counter, .value = number};
		ws_importer_include_time(trace->importer, event->start);
	}
	ws_text_free(&group);
}

/* ---- flows ---- */

/* `to` is NULL for a flow that never ended. */
static void put_flow(struct ws_trace *trace, const struct ws_trace_flow_end *from,
		     const struct ws_trace_flow_end *to)
{
	struct ws_row_flow *row = ws_importer_add_row(trace->importer, WS_TABLE_flow);

	*row = (struct ws_row_flow){.start = from->start,
				    .end = WS_NO_TIME,
				    .from_thread = from->thread,
				    .from_track = from->track,
				    .name = from->name,
				    .category = from->category};
	if (to) {
		row->end = to->start;
		row->to_thread = to->thread;
		row->to_track = to->track;
	}
}

/* The kept end of a flow, or an unused element for one; NULL when there are too many. */
static struct ws_trace_flow_end *find_flow_end(struct ws_trace *trace, uint64_t key, bool *found)
{
	uint32_t at = (uint32_t)ws_map_get(&trace->open_flows, key, NULL);

	*found = at != 0;
	if (at)
		return &trace->flows[at - 1];
	if (trace->free_flow) {
		at = trace->free_flow;
		trace->free_flow = trace->flows[at - 1].thread;
	} else {
		if (trace->flow_count == WS_IMPORT_LIMIT)
			return NULL;
		ws_grow(trace->flows, trace->flow_cap, trace->flow_count + 1);
		at = (uint32_t)++trace->flow_count;
	}
	ws_map_set(&trace->open_flows, key, at);
	return &trace->flows[at - 1];
}

static void drop_flow(struct ws_trace *trace, uint64_t key)
{
	uint64_t at;

	if (ws_map_remove(&trace->open_flows, key, &at)) {
		trace->flows[at - 1].key = 0;
		trace->flows[at - 1].start = WS_NO_TIME;
		trace->flows[at - 1].thread = trace->free_flow;
		trace->free_flow = (uint32_t)at;
	}
}

/* The beginning and the end of a flow may come in either order in the file: the second completes
 * it. */
static void read_flow_event(struct ws_trace *trace, struct ws_trace_event *event)
{
	uint64_t key = hash_value(&event->cat, hash_value(&event->id, hash_value(&event->name, 7)));
	struct ws_trace_flow_end here = {.start = event->start, .key = ws_max(key, 1)}, *kept;
	bool found;

	ws_trace_find_place(trace, event, &here.thread, &here.track);
	here.name = ws_trace_add_string(trace, &event->name);
	here.category = ws_trace_add_string(trace, &event->cat);
	kept = find_flow_end(trace, key, &found);
	if (!kept) {
		ws_importer_add_note(
			trace->importer,
			"More than %d flows are open at once; further ones were left out.",
			WS_IMPORT_LIMIT);
		return;
	}
	if (!found) {
		*kept = here;
		return;
	}
	if (event->phase == 's') { /* its end came first, or its id is used again */
		put_flow(trace, &here, kept);
		drop_flow(trace, key);
		return;
	}
	put_flow(trace, kept, &here);
	if (event->phase == 't')
		*kept = here;
	else
		drop_flow(trace, key);
}

/* ---- moments without a process ---- */

/* Whether the event's process is an empty text. The PyTorch profiler writes "Record Window End"
 * that way. */
static bool is_unplaced(const struct ws_trace_event *event)
{
	return event->pid.type == WS_JSON_NULL ||
	       (event->pid.type == WS_JSON_STRING && !event->pid.length);
}

/* Keep a moment without a process until the span of the other events is known; false when there are
 * too many. */
static bool keep_unplaced(struct ws_trace *trace, const struct ws_trace_event *event)
{
	enum { MOST = 1 << 16 };
	struct ws_trace_moment *moment;

	if (trace->unplaced_count == MOST)
		return false;
	ws_grow(trace->unplaced, trace->unplaced_cap, trace->unplaced_count + 1);
	moment = &trace->unplaced[trace->unplaced_count++];
	moment->slice = make_open_slice(trace, event, 0, 0);
	trace->built.len = 0;
	ws_text_printf(&trace->built, "trace.%.*s", (int)(ws_min(event->name.length, 200)),
		       event->name.text);
	moment->fact = ws_importer_add_string(trace->importer, trace->built.text, trace->built.len);
	return true;
}

/* A moment outside the span of all other events would only stretch the timeline, so it becomes a
 * fact. */
static void put_moment_fact(struct ws_trace *trace, const struct ws_trace_moment *moment)
{
	double seconds = (double)(int64_t)(moment->slice.start - trace->base) / 1e9;
	char value[40];
	size_t length = (size_t)snprintf(value, sizeof(value), "%.6f s", seconds);
	struct ws_row_meta *row;

	row = ws_importer_add_row(trace->importer, WS_TABLE_meta);
	*row = (struct ws_row_meta){.name = moment->fact,
				    .value =
					    ws_importer_add_string(trace->importer, value, length)};
}

static void put_unplaced(struct ws_trace *trace)
{
	enum { MOST_FACTS = 16 };
	static const char track[] = "Whole trace";
	uint64_t first = trace->importer->file_earliest, last = trace->importer->latest;
	size_t facts = 0;

	for (size_t i = 0; i < trace->unplaced_count; i++) {
		struct ws_trace_moment *moment = &trace->unplaced[i];
		uint64_t start = moment->slice.start;

		if (first == UINT64_MAX || (start >= first && start <= last)) {
			moment->slice.track = ws_importer_intern_track(trace->importer, 0, 0, 0,
								       track, sizeof(track) - 1);
			put_slice(trace, &moment->slice, WS_NO_TIME, WS_SLICE_INSTANT);
		} else if (facts++ < MOST_FACTS) {
			put_moment_fact(trace, moment);
		} else {
			ws_importer_add_note(trace->importer,
					     "Moments that belong to no process and lie outside of "
					     "all other events were left out.");
		}
	}
}

/* ---- all events ---- */

void ws_chrome_read_event(struct ws_trace *trace, struct ws_trace_event *event)
{
	uint32_t thread, track;

	switch (event->phase) {
	case 'X':
		ws_trace_find_place(trace, event, &thread, &track);
		ws_chrome_put_slice(trace, event, thread, track, 0);
		return;
	case 'B':
		ws_trace_find_place(trace, event, &thread, &track);
		begin_slice(trace, event, make_sync_key(thread, track), thread, track);
		return;
	case 'E':
		ws_trace_find_place(trace, event, &thread, &track);
		end_slice(trace, event, make_sync_key(thread, track), 0);
		return;
	case 'i':
	case 'I':
	case 'R':
		if (is_unplaced(event) && keep_unplaced(trace, event))
			return;
		ws_trace_find_place(trace, event, &thread, &track);
		ws_chrome_put_slice(trace, event, thread, track, WS_SLICE_INSTANT);
		return;
	case 'C':
		read_counter_event(trace, event);
		return;
	case 's':
	case 't':
	case 'f':
		read_flow_event(trace, event);
		return;
	case 'b':
	case 'n':
	case 'e':
	case 'S':
	case 'T':
	case 'p':
	case 'F':
		read_async_event(trace, event);
		return;
	case 'P':
		if (ws_chrome_read_profile(trace, event))
			return;
		/* fallthrough */
	default:
		ws_importer_add_note(
			trace->importer,
			"Events of phase %c (objects, memory dumps, samples...) were left out.",
			event->phase > ' ' && event->phase < 127 ? event->phase : '?');
	}
}

/* Whether there is an end without a beginning that may belong to this slice. */
static bool has_early_end(const struct ws_trace *trace, const struct ws_trace_slice *slice)
{
	return trace->early_ends.count &&
	       ws_map_get(&trace->early_ends, slice->key, NULL) >= slice->start;
}

void ws_chrome_finish(struct ws_trace *trace)
{
	join_halves(trace);
	for (size_t i = 0; i < trace->slice_count; i++)
		if (trace->slices[i].start != WS_NO_TIME && has_early_end(trace, &trace->slices[i]))
			mark_disorder(trace);
	if (trace->halves_shuffled)
		trace->importer->halves_shuffled = true;
	for (size_t i = 0; i < trace->slice_count; i++) {
		uint8_t flags = WS_SLICE_LEFT_OPEN;

		if (!(trace->slices[i].key >> 63)) /* see make_async_key */
			flags |= WS_SLICE_ASYNC;
		if (trace->slices[i].start != WS_NO_TIME)
			put_slice(trace, &trace->slices[i], WS_NO_TIME, flags);
	}
	for (size_t i = 0; i < trace->flow_count; i++)
		if (trace->flows[i].key)
			put_flow(trace, &trace->flows[i], NULL);
	put_unplaced(trace);
}
