/* sink.c - see sink.h. */
#include "record/sink.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "record/kernel_code.h"
#include "record/stacks.h"
#include "record/watch.h"

enum { DEFINITIONS_MOST = 1 << 16 };

struct ws_sink *ws_sink_new(char *path, struct ws_writer *writer, struct ws_clock *clock)
{
	struct ws_sink *sink = ws_calloc(1, sizeof(*sink));

	sink->path = path;
	sink->writer = writer;
	sink->clock = clock;
	for (int t = 0; t < WS_TABLE_COUNT; t++)
		sink->stage[t] = ws_writer_stage(writer, t);
	return sink;
}

uint32_t ws_sink_string(struct ws_sink *sink, const char *text)
{
	return ws_writer_string(sink->writer, text, strlen(text));
}

void ws_sink_meta(struct ws_sink *sink, const char *name, const char *fmt, ...)
{
	struct ws_row_meta row;
	va_list ap;
	char *value;

	va_start(ap, fmt);
	if (vasprintf(&value, fmt, ap) < 0)
		value = NULL;
	va_end(ap);
	if (!value)
		return;
	row.name = ws_sink_string(sink, name);
	row.value = ws_sink_string(sink, value);
	ws_writer_add(sink->writer, WS_TABLE_meta, &row);
	free(value);
}

bool ws_sink_diagnostic(struct ws_sink *sink, enum ws_severity severity, const char *source,
			uint32_t process, uint64_t time, const char *text)
{
	uint64_t hash = XXH3_64bits_withSeed(text, strlen(text), process);
	struct ws_row_diagnostic row = {
		.start = time, .severity = (uint8_t)severity, .process = process};

	for (size_t i = 0; i < sink->said_n; i++)
		if (sink->said[i] == hash)
			return false;
	if (sink->said_n >= 10000) /* some source never stops producing new messages */
		return false;
	ws_grow(sink->said, sink->said_cap, sink->said_n + 1);
	sink->said[sink->said_n++] = hash;
	if (severity >= WS_WARNING && sink->warning_count++ < WS_SINK_WARNINGS)
		sink->warnings[sink->warning_count - 1] = ws_strdup(text);
	row.source = ws_sink_string(sink, source);
	row.text = ws_sink_string(sink, text);
	ws_writer_add(sink->writer, WS_TABLE_diagnostic, &row);
	return true;
}

void ws_sink_clock(struct ws_sink *sink, const struct ws_reading *reading)
{
	struct ws_row_clock row = {
		.raw = reading->raw, .realtime = reading->realtime, .ticks = reading->ticks};

	ws_writer_add(sink->writer, WS_TABLE_clock, &row);
}

void ws_sink_loss(struct ws_sink *sink, uint32_t thread, const char *kind, uint64_t events,
		  const char *reason)
{
	struct ws_row_loss row = {.thread = thread, .events = events};

	sink->lost += events;
	row.kind = ws_sink_string(sink, kind);
	row.reason = ws_sink_string(sink, reason);
	ws_writer_add(sink->writer, WS_TABLE_loss, &row);
}

bool ws_sink_keep_definition(struct ws_sink *sink, const struct ws_row_nvtx *row)
{
	if (sink->definition_n >= DEFINITIONS_MOST)
		return false;
	ws_grow(sink->definitions, sink->definition_cap, sink->definition_n + 1);
	sink->definitions[sink->definition_n++] = *row;
	return true;
}

void ws_sink_begin_own(struct ws_sink *sink)
{
	sink->own = true;
	sink->said_before_own = sink->said_n;
	ws_writer_begin_own(sink->writer);
}

static void forget_warnings(struct ws_sink *sink)
{
	for (int i = 0; i < WS_SINK_WARNINGS; i++) {
		free(sink->warnings[i]);
		sink->warnings[i] = NULL;
	}
	sink->warning_count = 0;
}

void ws_sink_next_report(struct ws_sink *sink, char *path)
{
	bool had_report = sink->path != NULL;

	free(sink->path);
	sink->path = path;
	if (sink->own)
		sink->said_n = sink->said_before_own;
	sink->own = false;
	sink->events = sink->lost = 0;
	sink->stacks_left_out = sink->yields_left_out = sink->wakes_left_out = 0;
	sink->gaps = sink->pauses = 0;
	forget_warnings(sink);
	/* Without a report they are in what becomes the next one already. */
	for (size_t i = 0; had_report && i < sink->definition_n; i++)
		ws_writer_add(sink->writer, WS_TABLE_nvtx, &sink->definitions[i]);
}

void ws_sink_leave_flight(struct ws_sink *sink, char *path)
{
	free(sink->path);
	sink->path = path;
	sink->flight = false;
	for (size_t i = 0; i < sink->definition_n; i++)
		ws_writer_add(sink->writer, WS_TABLE_nvtx, &sink->definitions[i]);
}

void ws_sink_hold_strings(const struct ws_sink *sink)
{
	for (size_t i = 0; i < sink->definition_n; i++)
		ws_writer_hold_string(sink->writer, sink->definitions[i].text);
}

void ws_sink_free(struct ws_sink *sink)
{
	forget_warnings(sink);
	free(sink->env);
	free(sink->key);
	free(sink->definitions);
	free(sink->metric_ids.ids);
	free(sink->gpu_metric_ids.ids);
	ws_kernel_code_free(sink->code);
	ws_stackset_free(sink->stacks);
	ws_watch_free(sink->watch);
	free(sink->next_path);
	free(sink->path);
	free(sink->said);
	free(sink);
}

int ws_sink_close(struct ws_sink *sink, struct ws_err *err)
{
	int r = ws_writer_close(sink->writer, err);

	ws_sink_free(sink);
	return r;
}
