/*
 * chrome_profile.c - CPU samples in Chrome's traces: events of phase P called Profile and
 * ProfileChunk, which V8 and warpsight's own export write.
 *
 * A profile is one process's number for it; its first event tells the thread and the time that
 * samples count from, the others bring nodes of a tree of calls, samples as numbers of nodes, and
 * the microseconds between them. An event that has "sf" as well is a sample by itself, at its own
 * time.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "import/trace.h"
#include "base/choose.h"

/* ---- profiles ---- */

static struct ws_trace_profile *profile_of(struct ws_trace *trace, const struct ws_event *ev)
{
	uint64_t key = XXH3_64bits_withSeed(ws_text_or(ev->id.text, ""), ev->id.n,
					    ws_trace_process(trace, ev)),
		 at;

	at = ws_map_get(&trace->profile_at, key, NULL);
	if (at)
		return &trace->profiles[at - 1];
	if (trace->profile_count == WS_INTO_MOST)
		return NULL;
	ws_grow(trace->profiles, trace->profile_cap, trace->profile_count + 1);
	trace->profiles[trace->profile_count++] =
		(struct ws_trace_profile){.thread = ws_trace_thread(trace, ev)};
	ws_map_set(&trace->profile_at, key, trace->profile_count);
	return &trace->profiles[trace->profile_count - 1];
}

/* A member of an object; type WS_J_NONE when it is not there. */
static struct ws_json_value member(const struct ws_json_value *object, const char *name)
{
	struct ws_json_value key, value;
	struct ws_json_walk walk;

	if (object->type == WS_J_OBJECT) {
		walk = ws_json_walk(object);
		while (ws_json_next(&walk, &key, &value))
			if (ws_json_is(&key, name))
				return value;
	}
	return (struct ws_json_value){0};
}

/* ---- nodes ---- */

static uint64_t node_key(const struct ws_trace *trace, const struct ws_trace_profile *profile,
			 const struct ws_json_value *id)
{
	bool ok;
	int64_t number = ws_json_fixed(id, 0, &ok);

	return ok && number >= 0 && number <= UINT32_MAX
		       ? (uint64_t)(profile - trace->profiles + 1) << 32 | (uint64_t)number
		       : 0;
}

/* The stack of a node that has been told; 0 for the root and for unknown ones. */
static uint32_t node_stack(const struct ws_trace *trace, const struct ws_trace_profile *profile,
			   const struct ws_json_value *id)
{
	uint64_t key = node_key(trace, profile, id);

	return key ? (uint32_t)ws_map_get(&trace->node_stacks, key, NULL) : 0;
}

static uint32_t frame_of(struct ws_trace *trace, const struct ws_json_value *call)
{
	struct ws_json_value name = member(call, "functionName"), url = member(call, "url");
	uint32_t module = url.type == WS_J_STRING && url.n ? ws_trace_string(trace, &url) : 0;
	bool kernel = url.type == WS_J_STRING && url.n && url.text[0] == '[' &&
		      !(url.n >= 5 && !memcmp(url.text, "[vdso", 5));

	return ws_into_frame(trace->into,
			     name.type == WS_J_STRING && name.n ? ws_trace_string(trace, &name) : 0,
			     module, 0, kernel, WS_UNWIND_UNKNOWN);
}

static void take_nodes(struct ws_trace *trace, struct ws_trace_profile *profile,
		       const struct ws_json_value *list)
{
	struct ws_json_walk walk;
	struct ws_json_value one;

	if (list->type != WS_J_ARRAY)
		return;
	walk = ws_json_walk(list);
	while (ws_json_next(&walk, NULL, &one)) {
		struct ws_json_value id = member(&one, "id"), parent = member(&one, "parent"),
				     call = member(&one, "callFrame");
		struct ws_json_value name = member(&call, "functionName");
		uint64_t key = node_key(trace, profile, &id);

		if (!key || trace->node_stacks.n >= 4 * WS_INTO_MOST) {
			ws_into_note(trace->into,
				     "Functions of profiles that have no number, or are too "
				     "many, were left out.");
			continue;
		}
		if (parent.type == WS_J_NONE && ws_json_is(&name, "(root)"))
			continue;
		ws_map_set(&trace->node_stacks, key,
			   ws_into_stack(trace->into, node_stack(trace, profile, &parent),
					 frame_of(trace, &call)));
	}
}

/* ---- samples ---- */

static void put_sample(struct ws_trace *trace, const struct ws_event *ev, uint32_t thread,
		       uint64_t at, uint32_t stack)
{
	struct ws_json_value cpu = member(&ev->args, "cpu"), weight = member(&ev->args, "weight");
	struct ws_json_value event = member(&ev->args, "event"), clock = member(&ev->args, "clock");
	struct ws_json_value kernel = member(&ev->args, "kernel"), rest = member(&ev->args, "rest"),
			     time = member(&ev->args, "cpuTime");
	struct ws_row_sample *row;
	bool ok;
	int64_t n = ws_json_fixed(&cpu, 0, &ok);
	uint32_t number = event.type == WS_J_STRING
				  ? ws_into_event(trace->into, ws_trace_string(trace, &event))
				  : 0;

	row = ws_into_row(trace->into, WS_TABLE_sample);
	*row = (struct ws_row_sample){
		.start = at,
		.thread = thread,
		.cpu = ok && n >= 0 && n < UINT32_MAX ? (uint32_t)n : WS_NO_U32,
		.state = WS_STATE_RUNNING,
		.event = number,
		.flags = (uint8_t)((clock.type == WS_J_TRUE ? WS_SAMPLE_CLOCK : 0) |
				   (kernel.type == WS_J_TRUE ? WS_SAMPLE_KERNEL : 0) |
				   (rest.type == WS_J_TRUE ? WS_SAMPLE_REST : 0))};
	n = ws_json_fixed(&weight, 0, &ok);
	row->weight = ok && n >= 0 ? (uint64_t)n : 1;
	n = ws_json_fixed(&time, 0, &ok);
	row->time = ok && n >= 0 ? (uint64_t)n : 0;
	if (stack && stack <= trace->into->stack_count) {
		row->frame = trace->into->stack[stack - 1].frame;
		row->callers = trace->into->stack[stack - 1].parent;
	}
	ws_into_time(trace->into, at);
}

/* Samples whose times are told by steps of microseconds. */
static void take_samples(struct ws_trace *trace, const struct ws_event *ev,
			 struct ws_trace_profile *profile, const struct ws_json_value *list,
			 const struct ws_json_value *deltas)
{
	struct ws_json_walk walk = ws_json_walk(list), json_walk;
	struct ws_json_value one, delta;

	if (deltas->type != WS_J_ARRAY) {
		ws_into_note(trace->into, "Samples of profiles without times were left out.");
		return;
	}
	json_walk = ws_json_walk(deltas);
	while (ws_json_next(&walk, NULL, &one)) {
		if (!ws_json_next(&json_walk, NULL, &delta)) {
			ws_into_note(trace->into,
				     "Samples of profiles without times were left out.");
			return;
		}
		if (__builtin_add_overflow(profile->at, ws_json_fixed(&delta, 3, NULL),
					   &profile->at) ||
		    profile->at < 0 ||
		    profile->at > INT64_MAX - (int64_t)(trace->base & INT64_MAX)) {
			ws_into_note(
				trace->into,
				"Samples of profiles with times that cannot be were left out.");
			profile->at = 0;
			return;
		}
		put_sample(trace, ev, profile->thread, trace->base + (uint64_t)profile->at,
			   node_stack(trace, profile, &one));
	}
}

bool ws_chrome_profile(struct ws_trace *trace, const struct ws_event *ev)
{
	struct ws_json_value data = member(&ev->args, "data"), tree = member(&data, "cpuProfile"),
			     start = member(&data, "startTime");
	struct ws_json_value nodes = member(&tree, "nodes"), samples = member(&tree, "samples"),
			     deltas = member(&data, "timeDeltas");
	struct ws_json_value one;
	struct ws_trace_profile *profile;

	if (data.type != WS_J_OBJECT ||
	    !(ws_json_is(&ev->name, "Profile") || ws_json_is(&ev->name, "ProfileChunk")))
		return false;
	profile = profile_of(trace, ev);
	if (!profile) {
		ws_into_note(trace->into,
			     "More than %d profiles are in the trace; further ones were left out.",
			     WS_INTO_MOST);
		return true;
	}
	if (start.type != WS_J_NONE)
		profile->at = ws_json_fixed(&start, 3, NULL);
	take_nodes(trace, profile, &nodes);
	if (samples.type != WS_J_ARRAY)
		return true;
	if (ev->sf.type == WS_J_NONE) {
		take_samples(trace, ev, profile, &samples, &deltas);
	} else {
		struct ws_json_walk walk = ws_json_walk(&samples);

		while (ws_json_next(&walk, NULL, &one))
			put_sample(trace, ev, profile->thread, ev->start,
				   node_stack(trace, profile, &one));
	}
	return true;
}
