/* sink.c - see sink.h. */
#include "record/sink.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "record/stacks.h"

struct ws_sink *ws_sink_new(char *path, struct ws_writer *writer, struct ws_clock *clock)
{
	struct ws_sink *s = ws_calloc(1, sizeof(*s));

	s->path = path;
	s->writer = writer;
	s->clock = clock;
	for (int t = 0; t < WS_TABLE_COUNT; t++)
		s->stage[t] = ws_writer_stage(writer, t);
	return s;
}

uint32_t ws_sink_string(struct ws_sink *s, const char *text)
{
	return ws_writer_string(s->writer, text, strlen(text));
}

void ws_sink_meta(struct ws_sink *s, const char *name, const char *fmt, ...)
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
	row.name = ws_sink_string(s, name);
	row.value = ws_sink_string(s, value);
	ws_writer_add(s->writer, WS_TABLE_meta, &row);
	free(value);
}

bool ws_sink_diagnostic(struct ws_sink *s, enum ws_severity severity, const char *source,
			uint32_t process, uint64_t time, const char *text)
{
	uint64_t hash = XXH3_64bits_withSeed(text, strlen(text), process);
	struct ws_row_diagnostic row = {
		.start = time, .severity = (uint8_t)severity, .process = process};

	for (size_t i = 0; i < s->said_n; i++)
		if (s->said[i] == hash)
			return false;
	if (s->said_n >= 10000) /* something says something new without end */
		return false;
	ws_grow(s->said, s->said_cap, s->said_n + 1);
	s->said[s->said_n++] = hash;
	if (severity >= WS_WARNING && s->warning_count++ < WS_SINK_WARNINGS)
		s->warnings[s->warning_count - 1] = ws_strdup(text);
	row.source = ws_sink_string(s, source);
	row.text = ws_sink_string(s, text);
	ws_writer_add(s->writer, WS_TABLE_diagnostic, &row);
	return true;
}

void ws_sink_clock(struct ws_sink *s, const struct ws_reading *r)
{
	struct ws_row_clock row = {.raw = r->raw, .realtime = r->realtime, .ticks = r->ticks};

	ws_writer_add(s->writer, WS_TABLE_clock, &row);
}

void ws_sink_loss(struct ws_sink *s, uint32_t thread, const char *kind, uint64_t events,
		  const char *reason)
{
	struct ws_row_loss row = {.thread = thread, .events = events};

	s->lost += events;
	row.kind = ws_sink_string(s, kind);
	row.reason = ws_sink_string(s, reason);
	ws_writer_add(s->writer, WS_TABLE_loss, &row);
}

void ws_sink_free(struct ws_sink *s)
{
	for (int i = 0; i < WS_SINK_WARNINGS; i++)
		free(s->warnings[i]);
	ws_stackset_free(s->stacks);
	free(s->path);
	free(s->said);
	free(s);
}

int ws_sink_close(struct ws_sink *s, struct ws_err *e)
{
	int r = ws_writer_close(s->writer, e);

	ws_sink_free(s);
	return r;
}
