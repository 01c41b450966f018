/*
 * chrome_samples.c - see chrome_samples.h.
 *
 * A sample is an event of phase P that two kinds of readers understand. For Perfetto, Chrome's
 * developer tools and speedscope it is a piece of a V8 profile ("ProfileChunk") with one sample in
 * it: a profile for each thread, whose calls are nodes of a tree that come with the first sample
 * that needs them, and whose times are whole microseconds since the sample before. For
 * chrome://tracing its "sf" names an entry of "stackFrames", which are the same nodes. One sample
 * an event needs no memory beyond the tree, and keeps the nanoseconds in "ts".
 */
#include "export/chrome_samples.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "text/text.h"
#include "query/stacks.h"

enum { ROOT = 1, DEEPEST = 8192 };

struct node {
	uint32_t parent, function;
};

struct ws_chrome_samples {
	struct ws_export *x;
	struct ws_stacks *stacks;
	struct node *nodes; /* by number less ROOT + 1 */
	size_t count, cap;
	struct ws_map at;     /* parent << 32 | function -> number */
	struct ws_map chains; /* frame << 32 | callers -> number */
	struct ws_map told;   /* thread << 32 | number: the thread's profile has it */
	struct ws_map names;  /* id of perf_event -> string */
	int64_t *last;	      /* by thread: microseconds of its last sample */
	uint8_t *begun;
};

struct ws_chrome_samples *ws_chrome_samples_open(struct ws_export *x)
{
	struct ws_chrome_samples *s = ws_calloc(1, sizeof(*s));
	struct ws_cursor *k = ws_cursor_open(x->r, WS_TABLE_perf_event, 0, UINT64_MAX);
	size_t threads = (size_t)ws_who_threads(x->who) + 1;
	const uint64_t *v;

	s->x = x;
	s->last = ws_calloc(threads, sizeof(*s->last));
	s->begun = ws_calloc(threads, 1);
	while (ws_cursor_next(k, &v))
		ws_map_set(&s->names, v[ws_perf_event_id], v[ws_perf_event_name]);
	ws_cursor_close(k);
	return s;
}

void ws_chrome_samples_close(struct ws_chrome_samples *s)
{
	ws_stacks_close(s->stacks);
	ws_map_free(&s->at);
	ws_map_free(&s->chains);
	ws_map_free(&s->told);
	ws_map_free(&s->names);
	free(s->nodes);
	free(s->last);
	free(s->begun);
	free(s);
}

/* ---- the tree of calls ---- */

static uint32_t child_of(struct ws_chrome_samples *s, uint32_t parent, uint32_t function)
{
	uint64_t key = (uint64_t)parent << 32 | function;
	uint32_t number = (uint32_t)ws_map_get(&s->at, key, NULL);

	if (number)
		return number;
	ws_grow(s->nodes, s->cap, s->count + 1);
	s->nodes[s->count++] = (struct node){parent, function};
	number = (uint32_t)s->count + ROOT;
	ws_map_set(&s->at, key, number);
	return number;
}

/* The node of a stack, functions that were inlined included. */
static uint32_t node_of(struct ws_chrome_samples *s, uint64_t frame, uint64_t callers)
{
	static uint32_t frames[WS_STACKS_DEEPEST];
	uint64_t key = frame << 32 | callers;
	uint32_t number = (uint32_t)ws_map_get(&s->chains, key, NULL);
	size_t n, depth = 0;

	if (number)
		return number;
	if (!s->stacks)
		s->stacks = ws_stacks_open(s->x->r, NULL);
	number = ROOT;
	n = ws_stacks_walk(s->stacks, (uint32_t)frame, (uint32_t)callers, frames, WS_COUNT(frames));
	while (n--) {
		const struct ws_frame_info *f = ws_stacks_frame(s->stacks, frames[n]);
		const struct ws_place *places = ws_stacks_places(s->stacks, f);

		for (uint32_t k = f->count; k-- > 0 && depth < DEEPEST; depth++)
			number = child_of(s, number, places[k].function);
	}
	ws_map_set(&s->chains, key, number);
	return number;
}

static const char *origin(const struct ws_chrome_samples *s, const struct node *n)
{
	return ws_stacks_origin(s->stacks, ws_stacks_function(s->stacks, n->function));
}

static void put_name(const struct ws_chrome_samples *s, struct ws_text *t, const struct node *n)
{
	const struct ws_function *f = ws_stacks_function(s->stacks, n->function);

	ws_text_json(t, f->name, f->len);
}

/* ---- events ---- */

static void put_node(const struct ws_chrome_samples *s, struct ws_text *t, uint32_t number)
{
	const struct node *n = &s->nodes[number - ROOT - 1];
	const char *from = origin(s, n);

	ws_text_printf(t,
		       "{\"id\":%" PRIu32 ",\"parent\":%" PRIu32
		       ",\"callFrame\":{\"functionName\":",
		       number, n->parent);
	put_name(s, t, n);
	ws_text_puts(t, ",\"scriptId\":0,\"url\":");
	ws_text_json(t, from, strlen(from));
	ws_text_puts(t, ",\"lineNumber\":-1,\"columnNumber\":-1}}");
}

/* The nodes down to this one that the thread's profile lacks; a parent is told before its children.
 */
static void put_nodes(struct ws_chrome_samples *s, struct ws_text *t, uint64_t thread,
		      uint32_t number)
{
	uint32_t missing[DEEPEST];
	size_t n = 0;
	bool first = true;

	for (; number > ROOT; number = s->nodes[number - ROOT - 1].parent) {
		if (ws_map_get(&s->told, thread << 32 | number, NULL))
			break;
		missing[n++] = number;
	}
	while (n--) {
		ws_map_set(&s->told, thread << 32 | missing[n], 1);
		ws_text_puts(t, first ? "" : ",");
		first = false;
		put_node(s, t, missing[n]);
	}
}

static int64_t micros(int64_t ns)
{
	return ns / 1000 - (ns % 1000 < 0);
}

bool ws_chrome_samples_new(const struct ws_chrome_samples *s, uint64_t thread)
{
	return thread <= ws_who_threads(s->x->who) && !s->begun[thread];
}

void ws_chrome_samples_begin(struct ws_chrome_samples *s, struct ws_text *t, uint64_t thread,
			     int64_t at)
{
	s->begun[thread] = 1;
	s->last[thread] = micros(at);
	ws_text_printf(t,
		       "\"id\":\"0x%" PRIx64 "\",\"args\":{\"data\":{\"startTime\":%" PRId64 "}}}",
		       thread, micros(at));
}

static void put_facts(struct ws_chrome_samples *s, struct ws_text *t, const uint64_t *v)
{
	uint64_t name = ws_map_get(&s->names, v[ws_sample_event], NULL);
	size_t n;
	const char *text = ws_report_string(s->x->r, (uint32_t)name, &n);

	if (v[ws_sample_cpu] != WS_NO_U32)
		ws_text_printf(t, "\"cpu\":%" PRIu64 ",", v[ws_sample_cpu]);
	if (name) {
		ws_text_puts(t, "\"event\":");
		ws_text_json(t, text, n);
		ws_text_puts(t, ",");
	}
	ws_text_printf(t, "\"weight\":%" PRIu64 ",\"clock\":%s,\"kernel\":%s,", v[ws_sample_weight],
		       v[ws_sample_flags] & WS_SAMPLE_CLOCK ? "true" : "false",
		       v[ws_sample_flags] & WS_SAMPLE_KERNEL ? "true" : "false");
}

void ws_chrome_samples_put(struct ws_chrome_samples *s, struct ws_text *t, const uint64_t *v,
			   int64_t at)
{
	uint64_t thread =
		v[ws_sample_thread] <= ws_who_threads(s->x->who) ? v[ws_sample_thread] : 0;
	uint32_t number = node_of(s, v[ws_sample_frame], v[ws_sample_callers]);

	ws_text_printf(t, "\"id\":\"0x%" PRIx64 "\",", thread);
	if (number > ROOT)
		ws_text_printf(t, "\"sf\":\"%" PRIu32 "\",", number);
	ws_text_puts(t, "\"args\":{");
	put_facts(s, t, v);
	ws_text_puts(t, "\"data\":{\"cpuProfile\":{\"nodes\":[");
	if (!ws_map_get(&s->told, thread << 32 | ROOT, NULL)) {
		ws_map_set(&s->told, thread << 32 | ROOT, 1);
		ws_text_printf(t,
			       "{\"id\":%d,\"callFrame\":{\"functionName\":\"(root)\",\"scriptId\":"
			       "0,\"url\":\"\",\"lineNumber\":-1,"
			       "\"columnNumber\":-1}}%s",
			       ROOT, number > ROOT ? "," : "");
	}
	put_nodes(s, t, thread, number);
	ws_text_printf(t, "],\"samples\":[%" PRIu32 "]},\"timeDeltas\":[%" PRId64 "]}}}", number,
		       micros(at) - s->last[thread]);
	s->last[thread] = micros(at);
}

int ws_chrome_samples_frames(struct ws_chrome_samples *s, struct ws_text *t,
			     int (*flush)(void *ctx), void *ctx)
{
	int rc = 0;

	for (size_t i = 0; i < s->count && !rc; i++) {
		const struct node *n = &s->nodes[i];
		const char *from = origin(s, n);

		ws_text_printf(t, "%s\n\"%zu\":{\"name\":", i ? "," : "", i + ROOT + 1);
		put_name(s, t, n);
		ws_text_puts(t, ",\"category\":");
		ws_text_json(t, from, strlen(from));
		if (n->parent > ROOT)
			ws_text_printf(t, ",\"parent\":\"%" PRIu32 "\"", n->parent);
		ws_text_puts(t, "}");
		rc = flush(ctx);
	}
	return rc;
}
