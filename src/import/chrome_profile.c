/*
 * chrome_profile.c - CPU samples in Chrome's traces: events of phase P called Profile and
 * ProfileChunk, which V8 and warpsight's own export write.
 *
 * A profile is known by its process and id. Its first event gives its thread and the time that its
 * samples count from. The others give nodes of a call tree, samples as node numbers, and the
 * microseconds between samples. An event that also has "sf" is a single sample at the event's own
 * time.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "import/trace.h"
#include "base/choose.h"

/* ---- profiles ---- */

/* The profile that an event belongs to; NULL when there are too many. */
static struct ws_trace_profile *find_profile(struct ws_trace *trace,
					     const struct ws_trace_event *event)
{
	uint64_t key = XXH3_64bits_withSeed(ws_text_or(event->id.text, ""), event->id.length,
					    ws_trace_find_process(trace, event)),
		 at;

	at = ws_map_get(&trace->profile_at, key, NULL);
	if (at)
		return &trace->profiles[at - 1];
	if (trace->profile_count == WS_IMPORT_LIMIT)
		return NULL;
	ws_grow(trace->profiles, trace->profile_cap, trace->profile_count + 1);
	trace->profiles[trace->profile_count++] =
		(struct ws_trace_profile){.thread = ws_trace_find_thread(trace, event)};
	ws_map_set(&trace->profile_at, key, trace->profile_count);
	return &trace->profiles[trace->profile_count - 1];
}

/* A member of an object; type WS_JSON_NONE when it is not there. */
static struct ws_json_value get_member(const struct ws_json_value *object, const char *name)
{
	struct ws_json_value key, value;
	struct ws_json_walk walk;

	if (object->type == WS_JSON_OBJECT) {
		walk = ws_begin_json_walk(object);
		while (ws_next_json_member(&walk, &key, &value))
			if (ws_is_json_string(&key, name))
				return value;
	}
	return (struct ws_json_value){0};
}

/* ---- nodes ---- */

/* A key in `node_stacks`; 0 when `id` is not the number of a node. */
static uint64_t make_node_key(const struct ws_trace *trace, const struct ws_trace_profile *profile,
			      const struct ws_json_value *id)
{
	bool ok;
	int64_t number = ws_parse_json_fixed(id, 0, &ok);

	if (!ok || number < 0 || number > UINT32_MAX)
		return 0;
	return (uint64_t)(profile - trace->profiles + 1) << 32 | (uint64_t)number;
}

/* The stack of a node that has been read; 0 for the root and for unknown ones. */
static uint32_t find_node_stack(const struct ws_trace *trace,
				const struct ws_trace_profile *profile,
				const struct ws_json_value *id)
{
	uint64_t key = make_node_key(trace, profile, id);

	if (!key)
		return 0;
	return (uint32_t)ws_map_get(&trace->node_stacks, key, NULL);
}

static uint32_t intern_call_frame(struct ws_trace *trace, const struct ws_json_value *call)
{
	struct ws_json_value name = get_member(call, "functionName"), url = get_member(call, "url");
	uint32_t module = 0, function = 0;
	bool kernel = false;

	if (url.type == WS_JSON_STRING && url.length) {
		module = ws_trace_add_string(trace, &url);
		kernel = url.text[0] == '[' && !(url.length >= 5 && !memcmp(url.text, "[vdso", 5));
	}
	if (name.type == WS_JSON_STRING && name.length)
		function = ws_trace_add_string(trace, &name);
	return ws_importer_intern_frame(trace->importer, function, module, 0, kernel,
					WS_UNWIND_UNKNOWN);
}

static void read_nodes(struct ws_trace *trace, struct ws_trace_profile *profile,
		       const struct ws_json_value *list)
{
	struct ws_json_walk walk;
	struct ws_json_value one;

	if (list->type != WS_JSON_ARRAY)
		return;
	walk = ws_begin_json_walk(list);
	while (ws_next_json_member(&walk, NULL, &one)) {
		struct ws_json_value id = get_member(&one, "id"),
				     parent = get_member(&one, "parent"),
				     call = get_member(&one, "callFrame");
		struct ws_json_value name = get_member(&call, "functionName");
		uint64_t key = make_node_key(trace, profile, &id);

		if (!key || trace->node_stacks.count >= 4 * WS_IMPORT_LIMIT) {
			ws_importer_add_note(
				trace->importer,
				"Functions of profiles that have no number, or are too "
				"many, were left out.");
			continue;
		}
		if (parent.type == WS_JSON_NONE && ws_is_json_string(&name, "(root)"))
			continue;
		ws_map_set(&trace->node_stacks, key,
			   ws_importer_intern_stack(trace->importer,
						    find_node_stack(trace, profile, &parent),
						    intern_call_frame(trace, &call)));
	}
}

/* ---- samples ---- */

static void put_sample(struct ws_trace *trace, const struct ws_trace_event *event, uint32_t thread,
		       uint64_t at, uint32_t stack)
{
	struct ws_json_value cpu = get_member(&event->args, "cpu"),
			     weight = get_member(&event->args, "weight");
	struct ws_json_value event_name = get_member(&event->args, "event"),
			     clock = get_member(&event->args, "clock");
	struct ws_json_value kernel = get_member(&event->args, "kernel"),
			     rest = get_member(&event->args, "rest"),
			     time = get_member(&event->args, "cpuTime");
	struct ws_row_sample *row;
	bool ok;
	int64_t number;
	uint32_t trigger = 0;

	if (event_name.type == WS_JSON_STRING)
		trigger = ws_importer_intern_event(trace->importer,
						   ws_trace_add_string(trace, &event_name));
	row = ws_importer_add_row(trace->importer, WS_TABLE_sample);
	*row = (struct ws_row_sample){.start = at,
				      .thread = thread,
				      .cpu = WS_NO_U32,
				      .state = WS_STATE_RUNNING,
				      .event = trigger,
				      .weight = 1};
	number = ws_parse_json_fixed(&cpu, 0, &ok);
	if (ok && number >= 0 && number < UINT32_MAX)
		row->cpu = (uint32_t)number;
	if (clock.type == WS_JSON_TRUE)
		row->flags |= WS_SAMPLE_CLOCK;
	if (kernel.type == WS_JSON_TRUE)
		row->flags |= WS_SAMPLE_KERNEL;
	if (rest.type == WS_JSON_TRUE)
		row->flags |= WS_SAMPLE_REST;
	number = ws_parse_json_fixed(&time, 0, &ok);
	if (ok && number >= 0)
		row->time = (uint64_t)number;
	number = ws_parse_json_fixed(&weight, 0, &ok);
	if (ok && number >= 0)
		row->weight = (uint64_t)number;
	if (stack && stack <= trace->importer->stack_count) {
		row->frame = trace->importer->stack_rows[stack - 1].frame;
		row->callers = trace->importer->stack_rows[stack - 1].parent;
	}
	ws_importer_include_time(trace->importer, at);
}

/* Samples whose times are given by the microseconds between them. */
static void read_samples(struct ws_trace *trace, const struct ws_trace_event *event,
			 struct ws_trace_profile *profile, const struct ws_json_value *list,
			 const struct ws_json_value *deltas)
{
	struct ws_json_walk walk = ws_begin_json_walk(list), delta_walk;
	struct ws_json_value one, delta;

	if (deltas->type != WS_JSON_ARRAY) {
		ws_importer_add_note(trace->importer,
				     "Samples of profiles without times were left out.");
		return;
	}
	delta_walk = ws_begin_json_walk(deltas);
	while (ws_next_json_member(&walk, NULL, &one)) {
		if (!ws_next_json_member(&delta_walk, NULL, &delta)) {
			ws_importer_add_note(trace->importer,
					     "Samples of profiles without times were left out.");
			return;
		}
		if (__builtin_add_overflow(profile->at, ws_parse_json_fixed(&delta, 3, NULL),
					   &profile->at) ||
		    profile->at < 0 ||
		    profile->at > INT64_MAX - (int64_t)(trace->base & INT64_MAX)) {
			ws_importer_add_note(
				trace->importer,
				"Samples of profiles with times that cannot be were left out.");
			profile->at = 0;
			return;
		}
		put_sample(trace, event, profile->thread, trace->base + (uint64_t)profile->at,
			   find_node_stack(trace, profile, &one));
	}
}

bool ws_chrome_read_profile(struct ws_trace *trace, const struct ws_trace_event *event)
{
	struct ws_json_value data = get_member(&event->args, "data"),
			     tree = get_member(&data, "cpuProfile"),
			     start = get_member(&data, "startTime");
	struct ws_json_value nodes = get_member(&tree, "nodes"),
			     samples = get_member(&tree, "samples"),
			     deltas = get_member(&data, "timeDeltas");
	struct ws_json_value one;
	struct ws_trace_profile *profile;

	if (data.type != WS_JSON_OBJECT || !(ws_is_json_string(&event->name, "Profile") ||
					     ws_is_json_string(&event->name, "ProfileChunk")))
		return false;
	profile = find_profile(trace, event);
	if (!profile) {
		ws_importer_add_note(
			trace->importer,
			"More than %d profiles are in the trace; further ones were left out.",
			WS_IMPORT_LIMIT);
		return true;
	}
	if (start.type != WS_JSON_NONE)
		profile->at = ws_parse_json_fixed(&start, 3, NULL);
	read_nodes(trace, profile, &nodes);
	if (samples.type != WS_JSON_ARRAY)
		return true;
	if (event->sf.type == WS_JSON_NONE) {
		read_samples(trace, event, profile, &samples, &deltas);
	} else {
		struct ws_json_walk walk = ws_begin_json_walk(&samples);

		while (ws_next_json_member(&walk, NULL, &one))
			put_sample(trace, event, profile->thread, event->start,
				   find_node_stack(trace, profile, &one));
	}
	return true;
}
