/*
 * chrome_samples.c - see chrome_samples.h.
 *
 * A sample is an event of phase P that two kinds of readers understand. For Perfetto, Chrome's
 * developer tools and speedscope it is a piece of a V8 profile ("ProfileChunk") with one sample in
 * it: a profile for each thread, whose calls are nodes of a tree that come with the first sample
 * that needs them, and whose times are whole microseconds since the sample before. For
 * chrome://tracing its "sf" names an entry of "stackFrames", which are the same nodes. One sample
 * per event needs no memory beyond the tree, and keeps the nanoseconds in "ts".
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
	struct ws_cell_context *export;
	struct ws_stacks *stacks;
	struct node *nodes; /* by number less ROOT + 1 */
	size_t count, cap;
	struct ws_map at;      /* parent << 32 | function -> number */
	struct ws_map chains;  /* frame << 32 | callers -> number */
	struct ws_map written; /* thread << 32 | number: the thread's profile has it */
	struct ws_map names;   /* id of perf_event -> string */
	int64_t *last;	       /* by thread: microseconds of its last sample */
	uint8_t *begun;
};

struct ws_chrome_samples *ws_chrome_samples_open(struct ws_cell_context *export)
{
	struct ws_chrome_samples *samples = ws_calloc(1, sizeof(*samples));
	struct ws_cursor *cursor =
		ws_cursor_open(export->report, WS_TABLE_perf_event, 0, UINT64_MAX);
	size_t threads = (size_t)ws_highest_thread_id(export->who) + 1;
	const uint64_t *values;

	samples->export = export;
	samples->last = ws_calloc(threads, sizeof(*samples->last));
	samples->begun = ws_calloc(threads, 1);
	while (ws_cursor_next(cursor, &values))
		ws_map_set(&samples->names, values[ws_perf_event_id], values[ws_perf_event_name]);
	ws_cursor_close(cursor);
	return samples;
}

void ws_chrome_samples_close(struct ws_chrome_samples *samples)
{
	ws_stacks_close(samples->stacks);
	ws_map_free(&samples->at);
	ws_map_free(&samples->chains);
	ws_map_free(&samples->written);
	ws_map_free(&samples->names);
	free(samples->nodes);
	free(samples->last);
	free(samples->begun);
	free(samples);
}

/* ---- the tree of calls ---- */

static uint32_t child_of(struct ws_chrome_samples *samples, uint32_t parent, uint32_t function)
{
	uint64_t key = (uint64_t)parent << 32 | function;
	uint32_t number = (uint32_t)ws_map_get(&samples->at, key, NULL);

	if (number)
		return number;
	ws_grow(samples->nodes, samples->cap, samples->count + 1);
	samples->nodes[samples->count++] = (struct node){parent, function};
	number = (uint32_t)samples->count + ROOT;
	ws_map_set(&samples->at, key, number);
	return number;
}

/* The node of a stack, functions that were inlined included. */
static uint32_t node_of(struct ws_chrome_samples *samples, uint64_t frame, uint64_t callers)
{
	static uint32_t frames[WS_STACKS_DEEPEST];
	uint64_t key = frame << 32 | callers;
	uint32_t number = (uint32_t)ws_map_get(&samples->chains, key, NULL);
	size_t n, depth = 0;

	if (number)
		return number;
	if (!samples->stacks)
		samples->stacks = ws_stacks_open(samples->export->report, NULL);
	number = ROOT;
	n = ws_stacks_list_frames(samples->stacks, (uint32_t)frame, (uint32_t)callers, frames,
				  WS_COUNT(frames));
	while (n--) {
		const struct ws_frame_info *frame_info =
			ws_stacks_get_frame(samples->stacks, frames[n]);
		const struct ws_place *places = ws_stacks_get_places(samples->stacks, frame_info);

		for (uint32_t k = frame_info->count; k-- > 0 && depth < DEEPEST; depth++)
			number = child_of(samples, number, places[k].function);
	}
	ws_map_set(&samples->chains, key, number);
	return number;
}

static const char *origin(const struct ws_chrome_samples *samples, const struct node *node)
{
	return ws_stacks_get_origin(samples->stacks,
				    ws_stacks_get_function(samples->stacks, node->function));
}

static void put_name(const struct ws_chrome_samples *samples, struct ws_text *text,
		     const struct node *node)
{
	const struct ws_function *function =
		ws_stacks_get_function(samples->stacks, node->function);

	ws_put_quoted_json(text, function->name, function->len);
}

/* ---- events ---- */

static void put_node(const struct ws_chrome_samples *samples, struct ws_text *text, uint32_t number)
{
	const struct node *node = &samples->nodes[number - ROOT - 1];
	const char *from = origin(samples, node);

	ws_text_printf(text,
		       "{\"id\":%" PRIu32 ",\"parent\":%" PRIu32
		       ",\"callFrame\":{\"functionName\":",
		       number, node->parent);
	put_name(samples, text, node);
	ws_text_puts(text, ",\"scriptId\":0,\"url\":");
	ws_put_quoted_json(text, from, strlen(from));
	ws_text_puts(text, ",\"lineNumber\":-1,\"columnNumber\":-1}}");
}

/* Write this node and those of its ancestors that the thread's profile lacks; a parent comes before
 * its children. */
static void put_nodes(struct ws_chrome_samples *samples, struct ws_text *text, uint64_t thread,
		      uint32_t number)
{
	uint32_t missing[DEEPEST];
	size_t n = 0;
	bool first = true;

	for (; number > ROOT; number = samples->nodes[number - ROOT - 1].parent) {
		if (ws_map_get(&samples->written, thread << 32 | number, NULL))
			break;
		missing[n++] = number;
	}
	while (n--) {
		ws_map_set(&samples->written, thread << 32 | missing[n], 1);
		ws_text_puts(text, first ? "" : ",");
		first = false;
		put_node(samples, text, missing[n]);
	}
}

static int64_t micros(int64_t ns)
{
	return ns / 1000 - (ns % 1000 < 0);
}

bool ws_chrome_samples_new(const struct ws_chrome_samples *samples, uint64_t thread)
{
	return thread <= ws_highest_thread_id(samples->export->who) && !samples->begun[thread];
}

void ws_chrome_samples_begin(struct ws_chrome_samples *samples, struct ws_text *text,
			     uint64_t thread, int64_t at)
{
	samples->begun[thread] = 1;
	samples->last[thread] = micros(at);
	ws_text_printf(text,
		       "\"id\":\"0x%" PRIx64 "\",\"args\":{\"data\":{\"startTime\":%" PRId64 "}}}",
		       thread, micros(at));
}

static void put_facts(struct ws_chrome_samples *samples, struct ws_text *out,
		      const uint64_t *values)
{
	uint64_t name = ws_map_get(&samples->names, values[ws_sample_event], NULL);
	size_t n;
	const char *text = ws_report_string(samples->export->report, (uint32_t)name, &n);

	if (values[ws_sample_cpu] != WS_NO_U32)
		ws_text_printf(out, "\"cpu\":%" PRIu64 ",", values[ws_sample_cpu]);
	if (name) {
		ws_text_puts(out, "\"event\":");
		ws_put_quoted_json(out, text, n);
		ws_text_puts(out, ",");
	}
	ws_text_printf(out, "\"weight\":%" PRIu64 ",\"clock\":%s,\"kernel\":%s,",
		       values[ws_sample_weight],
		       values[ws_sample_flags] & WS_SAMPLE_CLOCK ? "true" : "false",
		       values[ws_sample_flags] & WS_SAMPLE_KERNEL ? "true" : "false");
	if (values[ws_sample_flags] & WS_SAMPLE_REST)
		ws_text_puts(out, "\"rest\":true,");
	if (values[ws_sample_time])
		ws_text_printf(out, "\"cpuTime\":%" PRIu64 ",", values[ws_sample_time]);
}

void ws_chrome_samples_put(struct ws_chrome_samples *samples, struct ws_text *text,
			   const uint64_t *values, int64_t at)
{
	uint64_t thread = values[ws_sample_thread] <= ws_highest_thread_id(samples->export->who)
				  ? values[ws_sample_thread]
				  : 0;
	uint32_t number = node_of(samples, values[ws_sample_frame], values[ws_sample_callers]);

	ws_text_printf(text, "\"id\":\"0x%" PRIx64 "\",", thread);
	if (number > ROOT)
		ws_text_printf(text, "\"sf\":\"%" PRIu32 "\",", number);
	ws_text_puts(text, "\"args\":{");
	put_facts(samples, text, values);
	ws_text_puts(text, "\"data\":{\"cpuProfile\":{\"nodes\":[");
	if (!ws_map_get(&samples->written, thread << 32 | ROOT, NULL)) {
		ws_map_set(&samples->written, thread << 32 | ROOT, 1);
		ws_text_printf(text,
			       "{\"id\":%d,\"callFrame\":{\"functionName\":\"(root)\",\"scriptId\":"
			       "0,\"url\":\"\",\"lineNumber\":-1,"
			       "\"columnNumber\":-1}}%s",
			       ROOT, number > ROOT ? "," : "");
	}
	put_nodes(samples, text, thread, number);
	ws_text_printf(text, "],\"samples\":[%" PRIu32 "]},\"timeDeltas\":[%" PRId64 "]}}}", number,
		       micros(at) - samples->last[thread]);
	samples->last[thread] = micros(at);
}

int ws_chrome_samples_frames(struct ws_chrome_samples *samples, struct ws_text *text,
			     int (*flush)(void *ctx), void *ctx)
{
	int rc = 0;

	for (size_t i = 0; i < samples->count && !rc; i++) {
		const struct node *node = &samples->nodes[i];
		const char *from = origin(samples, node);

		ws_text_printf(text, "%s\n\"%zu\":{\"name\":", i ? "," : "", i + ROOT + 1);
		put_name(samples, text, node);
		ws_text_puts(text, ",\"category\":");
		ws_put_quoted_json(text, from, strlen(from));
		if (node->parent > ROOT)
			ws_text_printf(text, ",\"parent\":\"%" PRIu32 "\"", node->parent);
		ws_text_puts(text, "}");
		rc = flush(ctx);
	}
	return rc;
}
