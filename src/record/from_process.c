/* from_process.c - converts the records that the hooks' runtime itself writes: thread names, notes
 * about processes, diagnostics. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/proc.h"

void ws_convert_thread_name(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_thread_name *record = (const void *)rec;
	struct ws_row_thread_name row;

	if (ws_rec_bytes(rec) < sizeof(*record))
		return;
	row.thread = ws_stream_thread(stream, record->tid);
	row.start = ws_stream_time(stream, record->time);
	row.name = ws_stream_string(stream, rec->value);
	row.priority = record->priority;
	if (row.name)
		ws_writer_add(stream->writer, WS_TABLE_thread_name, &row);
}

void ws_convert_process_note(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_process_note *record = (const void *)rec;
	struct ws_drain *drain = stream->proc->drain;
	struct ws_started started = {0};
	size_t len = 0;
	const char *path;

	if (ws_rec_bytes(rec) < sizeof(*record))
		return;
	started.pid = record->pid;
	started.time = ws_stream_time(stream, record->time);
	started.shut_out = record->error == EACCES;
	started.tight = record->error == ENOMEM;
	path = ws_stream_string_bytes(stream, rec->value, &len);
	switch (rec->small) {
	case WS_NOTE_EXEC:
	case WS_NOTE_SPAWN:
		if (!path)
			break;
		started.path = ws_strndup(path, len);
		ws_drain_note_started(drain, stream->proc, started);
		break;
	case WS_NOTE_FORK:
		ws_drain_note_started(drain, stream->proc, started);
		break;
	case WS_NOTE_EXEC_FAILED:
		ws_drain_forget_started(drain, record->pid);
		break;
	default:
		break;
	}
}

void ws_convert_diagnostic(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_diagnostic *record = (const void *)rec;
	size_t len, source_len;
	const char *text, *source;
	char *t, *from;

	if (ws_rec_bytes(rec) < sizeof(*record))
		return;
	text = ws_stream_string_bytes(stream, rec->value, &len);
	source = ws_stream_string_bytes(stream, record->source, &source_len);
	if (!text)
		return;
	t = ws_strndup(text, len);
	from = source ? ws_strndup(source, source_len) : ws_strdup("hook");
	stream->sink->openmp_seen |= !strcmp(from, "openmp");
	stream->sink->openacc_seen |= !strcmp(from, "openacc");
	ws_sink_diagnostic(stream->sink,
			   rec->small >= WS_INFO && rec->small <= WS_ERROR ? rec->small
									   : WS_WARNING,
			   from, stream->process, ws_stream_time(stream, record->time), t);
	free(t);
	free(from);
}

void ws_stream_diagnostic(struct ws_stream *stream, enum ws_severity severity, const char *source,
			  const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ws_sink_diagnostic(stream->sink, severity, source, stream->process,
			   stream->clock->readings[stream->clock->n - 1].raw, text);
}
