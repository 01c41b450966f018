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

/* ---- profiles ---- */

static struct ws_trace_profile *profile_of(struct ws_trace *t, const struct ws_event *ev)
{
	uint64_t key = XXH3_64bits_withSeed(ev->id.s ? ev->id.s : "", ev->id.n,
					    ws_trace_process(t, ev)),
		 at;

	at = ws_map_get(&t->profile_at, key, NULL);
	if (at)
		return &t->profiles[at - 1];
	if (t->profile_count == WS_INTO_MOST)
		return NULL;
	ws_grow(t->profiles, t->profile_cap, t->profile_count + 1);
	t->profiles[t->profile_count++] =
		(struct ws_trace_profile){.thread = ws_trace_thread(t, ev)};
	ws_map_set(&t->profile_at, key, t->profile_count);
	return &t->profiles[t->profile_count - 1];
}

/* A member of an object; type WS_J_NONE when it is not there. */
static struct ws_json_value member(const struct ws_json_value *object, const char *name)
{
	struct ws_json_value key, value;
	struct ws_json_walk w;

	if (object->type == WS_J_OBJECT) {
		w = ws_json_walk(object);
		while (ws_json_next(&w, &key, &value))
			if (ws_json_is(&key, name))
				return value;
	}
	return (struct ws_json_value){0};
}

/* ---- nodes ---- */

static uint64_t node_key(const struct ws_trace *t, const struct ws_trace_profile *p,
			 const struct ws_json_value *id)
{
	bool ok;
	int64_t number = ws_json_fixed(id, 0, &ok);

	return ok && number >= 0 && number <= UINT32_MAX
		       ? (uint64_t)(p - t->profiles + 1) << 32 | (uint64_t)number
		       : 0;
}

/* The stack of a node that has been told; 0 for the root and for unknown ones. */
static uint32_t node_stack(const struct ws_trace *t, const struct ws_trace_profile *p,
			   const struct ws_json_value *id)
{
	uint64_t key = node_key(t, p, id);

	return key ? (uint32_t)ws_map_get(&t->node_stacks, key, NULL) : 0;
}

static uint32_t frame_of(struct ws_trace *t, const struct ws_json_value *call)
{
	struct ws_json_value name = member(call, "functionName"), url = member(call, "url");
	uint32_t module = url.type == WS_J_STRING && url.n ? ws_trace_string(t, &url) : 0;
	bool kernel = url.type == WS_J_STRING && url.n && url.s[0] == '[' &&
		      !(url.n >= 5 && !memcmp(url.s, "[vdso", 5));

	return ws_into_frame(t->o,
			     name.type == WS_J_STRING && name.n ? ws_trace_string(t, &name) : 0,
			     module, 0, kernel, WS_UNWIND_UNKNOWN);
}

static void take_nodes(struct ws_trace *t, struct ws_trace_profile *p,
		       const struct ws_json_value *list)
{
	struct ws_json_walk w;
	struct ws_json_value one;

	if (list->type != WS_J_ARRAY)
		return;
	w = ws_json_walk(list);
	while (ws_json_next(&w, NULL, &one)) {
		struct ws_json_value id = member(&one, "id"), parent = member(&one, "parent"),
				     call = member(&one, "callFrame");
		struct ws_json_value name = member(&call, "functionName");
		uint64_t key = node_key(t, p, &id);

		if (!key || t->node_stacks.n >= 4 * WS_INTO_MOST) {
			ws_into_note(t->o, "Functions of profiles that have no number, or are too "
					   "many, were left out.");
			continue;
		}
		if (parent.type == WS_J_NONE && ws_json_is(&name, "(root)"))
			continue;
		ws_map_set(&t->node_stacks, key,
			   ws_into_stack(t->o, node_stack(t, p, &parent), frame_of(t, &call)));
	}
}

/* ---- samples ---- */

static void put_sample(struct ws_trace *t, const struct ws_event *ev, uint32_t thread, uint64_t at,
		       uint32_t stack)
{
	struct ws_json_value cpu = member(&ev->args, "cpu"), weight = member(&ev->args, "weight");
	struct ws_json_value event = member(&ev->args, "event"), clock = member(&ev->args, "clock");
	struct ws_json_value kernel = member(&ev->args, "kernel");
	struct ws_row_sample *row;
	bool ok;
	int64_t n = ws_json_fixed(&cpu, 0, &ok);
	uint32_t number =
		event.type == WS_J_STRING ? ws_into_event(t->o, ws_trace_string(t, &event)) : 0;

	row = ws_into_row(t->o, WS_TABLE_sample);
	*row = (struct ws_row_sample){
		.start = at,
		.thread = thread,
		.cpu = ok && n >= 0 && n < UINT32_MAX ? (uint32_t)n : WS_NO_U32,
		.state = WS_STATE_RUNNING,
		.event = number,
		.flags = (uint8_t)((clock.type == WS_J_TRUE ? WS_SAMPLE_CLOCK : 0) |
				   (kernel.type == WS_J_TRUE ? WS_SAMPLE_KERNEL : 0))};
	n = ws_json_fixed(&weight, 0, &ok);
	row->weight = ok && n >= 0 ? (uint64_t)n : 1;
	if (stack && stack <= t->o->stack_count) {
		row->frame = t->o->stack[stack - 1].frame;
		row->callers = t->o->stack[stack - 1].parent;
	}
	ws_into_time(t->o, at);
}

/* Samples whose times are told by steps of microseconds. */
static void take_samples(struct ws_trace *t, const struct ws_event *ev, struct ws_trace_profile *p,
			 const struct ws_json_value *list, const struct ws_json_value *deltas)
{
	struct ws_json_walk w = ws_json_walk(list), d;
	struct ws_json_value one, delta;

	if (deltas->type != WS_J_ARRAY) {
		ws_into_note(t->o, "Samples of profiles without times were left out.");
		return;
	}
	d = ws_json_walk(deltas);
	while (ws_json_next(&w, NULL, &one)) {
		if (!ws_json_next(&d, NULL, &delta)) {
			ws_into_note(t->o, "Samples of profiles without times were left out.");
			return;
		}
		if (__builtin_add_overflow(p->at, ws_json_fixed(&delta, 3, NULL), &p->at) ||
		    p->at < 0 || p->at > INT64_MAX - (int64_t)(t->base & INT64_MAX)) {
			ws_into_note(
				t->o,
				"Samples of profiles with times that cannot be were left out.");
			p->at = 0;
			return;
		}
		put_sample(t, ev, p->thread, t->base + (uint64_t)p->at, node_stack(t, p, &one));
	}
}

bool ws_chrome_profile(struct ws_trace *t, const struct ws_event *ev)
{
	struct ws_json_value data = member(&ev->args, "data"), tree = member(&data, "cpuProfile"),
			     start = member(&data, "startTime");
	struct ws_json_value nodes = member(&tree, "nodes"), samples = member(&tree, "samples"),
			     deltas = member(&data, "timeDeltas");
	struct ws_json_value one;
	struct ws_trace_profile *p;

	if (data.type != WS_J_OBJECT ||
	    !(ws_json_is(&ev->name, "Profile") || ws_json_is(&ev->name, "ProfileChunk")))
		return false;
	p = profile_of(t, ev);
	if (!p) {
		ws_into_note(t->o,
			     "More than %d profiles are in the trace; further ones were left out.",
			     WS_INTO_MOST);
		return true;
	}
	if (start.type != WS_J_NONE)
		p->at = ws_json_fixed(&start, 3, NULL);
	take_nodes(t, p, &nodes);
	if (samples.type != WS_J_ARRAY)
		return true;
	if (ev->sf.type == WS_J_NONE) {
		take_samples(t, ev, p, &samples, &deltas);
	} else {
		struct ws_json_walk w = ws_json_walk(&samples);

		while (ws_json_next(&w, NULL, &one))
			put_sample(t, ev, p->thread, ev->start, node_stack(t, p, &one));
	}
	return true;
}
