/*
 * tables_session.c - the exported tables with few rows: the session, the machine, processes and
 * threads, streams, diagnostics, enumerations.
 *
 * Those that people join by globalPid or globalTid (PROCESSES, ThreadNames) have one row for each
 * such number, as a join expects, though a pid may have run several images and a thread may have
 * been named often: the last image and the best name stand there. The whole story is in
 * WARPSIGHT_PROCESS and WARPSIGHT_THREAD.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "views/tables.h"
#include "base/choose.h"

#define TABLE(var, name, doc, ...)                                      \
	static const struct ws_xcolumn var##_columns[] = {__VA_ARGS__}; \
	static const struct ws_xtable var = {name, doc, var##_columns, WS_COUNT(var##_columns)}

/* ---- processes and threads ---- */

TABLE(processes, "PROCESSES", "Processes by pid, with the name of the last program each ran",
      {"globalPid", "INTEGER", false, false, "pid << 24"},
      {"pid", "INTEGER", false, false, "Process id"},
      {"name", "TEXT", false, false, "Base name of the executable"});

#define VIEW_AT(t, c) ws_##t##_##c

static struct ws_xcell pid_of(struct ws_export *export, const uint64_t *values)
{
	struct ws_xcell cell = ws_x_process(export, values[ws_process_id]);

	return cell.kind == WS_X_NULL ? ws_x_int(0) : cell;
}

static const struct ws_xcolumn image_columns[] = {
	{"id", "INTEGER", true, false, "Number of the image", WS_XF_INT, VIEW_AT(process, id)},
	{"globalPid", "INTEGER", true, false, "pid << 24", .from = WS_XF_CALL, .cell = pid_of,
	 .needs = WS_COL(process, id)},
	{"pid", "INTEGER", true, false, "Process id", WS_XF_INT, VIEW_AT(process, pid)},
	{"parentId", "INTEGER", false, false, "WARPSIGHT_PROCESS(id) that started it", WS_XF_ID,
	 VIEW_AT(process, parent)},
	{"parentPid", "INTEGER", false, false, "Parent process id when it registered", WS_XF_ID,
	 VIEW_AT(process, ppid)},
	{"start", "INTEGER", false, false, "When it began (ns)", WS_XF_TIME,
	 VIEW_AT(process, start)},
	{"origin", "INTEGER", true, false,
	 "1 started by profile, 2 a new image (exec, posix_spawn), 3 a forked child", WS_XF_INT,
	 VIEW_AT(process, origin)},
	{"executable", "TEXT", false, false, "Path of the executable", WS_XF_TEXT,
	 VIEW_AT(process, exe)},
	{"commandLine", "TEXT", false, false, "Its arguments", WS_XF_TEXT,
	 VIEW_AT(process, cmdline)},
	{"name", "TEXT", false, false, "Base name of the executable", WS_XF_TEXT,
	 VIEW_AT(process, name)},
};
const struct ws_xview ws_images_view = {
	.table = {"WARPSIGHT_PROCESS",
		  "Every program image that ran: an exec starts a new one in the same pid",
		  image_columns, WS_COUNT(image_columns)},
	.source = WS_TABLE_process};

static struct ws_xcell own_thread(struct ws_export *export, const uint64_t *values)
{
	struct ws_xcell cell = ws_x_thread(export, values[ws_thread_id]);

	return cell.kind == WS_X_NULL ? ws_x_int(0) : cell;
}

static const struct ws_xcolumn thread_columns[] = {
	{"id", "INTEGER", true, false, "Number of the thread", WS_XF_INT, VIEW_AT(thread, id)},
	{"processId", "INTEGER", true, false, "WARPSIGHT_PROCESS(id)", WS_XF_INT,
	 VIEW_AT(thread, process)},
	{"tid", "INTEGER", true, false, "Thread id", WS_XF_INT, VIEW_AT(thread, tid)},
	{"globalTid", "INTEGER", true, false, "pid << 24 | tid", .from = WS_XF_CALL,
	 .cell = own_thread, .needs = WS_COL(thread, id)},
	{"start", "INTEGER", false, false, "When it first recorded (ns)", WS_XF_TIME,
	 VIEW_AT(thread, start)},
};
const struct ws_xview ws_threads_view = {.table = {"WARPSIGHT_THREAD",
						   "Every thread that recorded something",
						   thread_columns, WS_COUNT(thread_columns)},
					 .source = WS_TABLE_thread};

TABLE(thread_names, "ThreadNames", "The best name of each thread",
      {"nameId", "INTEGER", true, false, "StringIds(id)"},
      {"priority", "INTEGER", false, false, "10 the kernel's, 20 pthread_setname_np, 30 NVTX"},
      {"globalTid", "INTEGER", false, false, "pid << 24 | tid"});

/* What stands for one global number: the row that wins among all that share it. */
struct winner {
	uint64_t number;
	int64_t rank[2]; /* larger wins: priority or 0, then time */
	size_t order;	 /* then the later row */
	uint32_t text;
};

struct winners {
	struct winner *winners;
	size_t n, cap;
};

static int by_number(const void *first, const void *second)
{
	const struct winner *left = first, *right = second;

	if (left->number != right->number)
		return left->number < right->number ? -1 : 1;
	for (int i = 0; i < 2; i++)
		if (left->rank[i] != right->rank[i])
			return left->rank[i] > right->rank[i] ? -1 : 1;
	return left->order > right->order ? -1 : 1;
}

static void add_winner(struct winners *winners, uint64_t number, int64_t priority, uint64_t time,
		       uint32_t text)
{
	ws_grow(winners->winners, winners->cap, winners->n + 1);
	winners->winners[winners->n] =
		(struct winner){number, {priority, (int64_t)time}, winners->n, text};
	winners->n++;
}

static void sort_winners(struct winners *winners)
{
	size_t kept = 0;

	if (winners->n)
		qsort(winners->winners, winners->n, sizeof(*winners->winners), by_number);
	for (size_t i = 0; i < winners->n; i++)
		if (!i || winners->winners[i].number != winners->winners[i - 1].number)
			winners->winners[kept++] = winners->winners[i];
	winners->n = kept;
}

static int export_pids(struct ws_export *export, struct ws_err *err)
{
	struct ws_cursor *cursor = ws_cursor_open(export->report, WS_TABLE_process, 0, UINT64_MAX);
	struct winners winners = {0};
	const uint64_t *values;
	int rc = ws_export_table(export, &processes, err);

	while (ws_cursor_next(cursor, &values))
		add_winner(&winners,
			   ws_who_process(export->who, (uint32_t)values[ws_process_id])->global_pid,
			   0, values[ws_process_start], (uint32_t)values[ws_process_name]);
	ws_cursor_close(cursor);
	sort_winners(&winners);
	for (size_t i = 0; !rc && i < winners.n; i++) {
		uint64_t pid = winners.winners[i].number >> 24 & 0xffffff;

		if (pid ||
		    winners.winners[i].text) /* neither: what an imported file says of no process */
			rc = ws_export_row(
				export,
				(struct ws_xcell[]){ws_x_int((int64_t)winners.winners[i].number),
						    ws_x_int((int64_t)pid),
						    ws_x_text(export, winners.winners[i].text)},
				err);
	}
	free(winners.winners);
	return rc;
}

static int export_thread_names(struct ws_export *export, struct ws_err *err)
{
	struct ws_cursor *cursor =
		ws_cursor_open(export->report, WS_TABLE_thread_name, 0, UINT64_MAX);
	struct winners winners = {0};
	const uint64_t *values;
	int rc = ws_export_table(export, &thread_names, err);

	while (ws_cursor_next(cursor, &values))
		if (values[ws_thread_name_thread] && values[ws_thread_name_name])
			add_winner(&winners,
				   ws_who_thread(export->who,
						 (uint32_t)values[ws_thread_name_thread])
					   ->global_tid,
				   (int64_t)values[ws_thread_name_priority],
				   values[ws_thread_name_start],
				   (uint32_t)values[ws_thread_name_name]);
	ws_cursor_close(cursor);
	sort_winners(&winners);
	for (size_t i = 0; !rc && i < winners.n; i++) {
		struct ws_xcell name = ws_x_string(export, winners.winners[i].text);

		if (name.kind != WS_X_NULL)
			rc = ws_export_row(
				export,
				(struct ws_xcell[]){name, ws_x_int(winners.winners[i].rank[0]),
						    ws_x_int((int64_t)winners.winners[i].number)},
				err);
	}
	free(winners.winners);
	return rc;
}

int ws_export_processes(struct ws_export *export, struct ws_err *err)
{
	return export_pids(export, err) < 0 || export_thread_names(export, err) < 0 ? -1 : 0;
}

/* ---- the session and the machine ---- */

TABLE(meta_export, "META_DATA_EXPORT", "How this export was made",
      {"name", "TEXT", true, false, "Name"}, {"value", "TEXT", false, false, "Value"});

TABLE(system_env, "TARGET_INFO_SYSTEM_ENV", "The machine",
      {"globalVid", "INTEGER", false, false, "0: this machine"},
      {"devStateName", "TEXT", true, false, "Device"}, {"name", "TEXT", true, false, "Property"},
      {"nameEnum", "INTEGER", true, false, "Number of the property"},
      {"value", "TEXT", true, false, "Its value"});

TABLE(start_time, "TARGET_INFO_SESSION_START_TIME", "When the collection began",
      {"utcEpochNs", "INTEGER", false, false, "Nanoseconds since 1970"},
      {"utcTime", "TEXT", false, false, "The same in UTC"},
      {"localTime", "TEXT", false, false, "The same in the local time of the machine"},
      {"systemClockNs", "INTEGER", false, false, "CLOCK_MONOTONIC_RAW at that moment (ns)"});

TABLE(details, "ANALYSIS_DETAILS", "The spans in which events were collected",
      {"globalVid", "INTEGER", true, false, "0: this machine"},
      {"duration", "INTEGER", true, false, "Length (ns)"},
      {"startTime", "INTEGER", true, false, "Start (ns)"},
      {"stopTime", "INTEGER", true, false, "End (ns)"});

TABLE(streams, "ProcessStreams", "What the target wrote to its standard streams",
      {"globalPid", "INTEGER", true, false, "Process: pid << 24"},
      {"filenameId", "INTEGER", true, false, "StringIds(id): which stream"},
      {"contentId", "INTEGER", true, false, "StringIds(id): its content"});

static int put_meta(struct ws_export *export, const char *name, const char *value,
		    struct ws_err *err)
{
	return ws_export_row(export, (struct ws_xcell[]){ws_x_literal(name), ws_x_literal(value)},
			     err);
}

static void put_iso(char *out, size_t size, const char *format, time_t t)
{
	struct tm tm;

	if (!gmtime_r(&t, &tm) || !strftime(out, size, format, &tm))
		snprintf(out, size, "%lld", (long long)t);
}

static int export_meta(struct ws_export *export, struct ws_err *err)
{
	static const char *const fixed[][2] = {
		{"EXPORT_PRODUCT_NAME", "warpsight"},  {"EXPORT_PRODUCT_VERSION", WS_VERSION},
		{"EXPORT_SCHEMA_VERSION", "3.25.0"},   {"EXPORT_SCHEMA_VERSION_MAJOR", "3"},
		{"EXPORT_SCHEMA_VERSION_MINOR", "25"}, {"EXPORT_SCHEMA_VERSION_MICRO", "0"},
	};
	char now[64];

	if (ws_export_table(export, &meta_export, err) < 0)
		return -1;
	for (size_t i = 0; i < WS_COUNT(fixed); i++)
		if (put_meta(export, fixed[i][0], fixed[i][1], err) < 0)
			return -1;
	put_iso(now, sizeof(now), "%Y-%m-%dT%H:%M:%S", time(NULL));
	if (put_meta(export, "EXPORT_TIME_UTC", now, err) < 0 ||
	    put_meta(export, "EXPORT_PARAM_EXPORT_TYPE", export->type, err) < 0 ||
	    ws_export_row(export,
			  (struct ws_xcell[]){ws_x_literal("EXPORT_PARAM_INPUT_FILE"),
					      ws_x_own(export, export->input)},
			  err) < 0)
		return -1;
	return ws_export_row(export,
			     (struct ws_xcell[]){ws_x_literal("EXPORT_PARAM_OUTPUT_FILE"),
						 ws_x_own(export, export->output)},
			     err);
}

/* What an import was told of its machine beyond that: the numbers of those properties are not kept.
 */
static int export_imported_facts(struct ws_export *export, struct ws_err *err)
{
	struct ws_cursor *cursor = ws_cursor_open(export->report, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *values;
	int rc = 0;

	while (!rc && ws_cursor_next(cursor, &values)) {
		size_t n, len;
		const char *name =
			ws_report_string(export->report, (uint32_t)values[ws_meta_name], &n);
		const char *value =
			ws_report_string(export->report, (uint32_t)values[ws_meta_value], &len);
		char *own;

		if (strncmp(name, "machine.", 8))
			continue;
		own = ws_strndup(value, len);
		rc = ws_export_row(export,
				   (struct ws_xcell[]){ws_x_int(0), ws_x_literal("Local (CLI)"),
						       ws_x_own(export, name + 8), ws_x_int(0),
						       ws_x_own(export, own)},
				   err);
		free(own);
	}
	ws_cursor_close(cursor);
	return rc;
}

static int export_system(struct ws_export *export, struct ws_err *err)
{
	static const struct {
		const char *fact, *name;
		int number;
	} map[] = {
		{"cpu.count", "CpuCores", 1},
		{"host.machine", "CpuArchitecture", 3},
		{"cpu.model", "CpuDescription", 13},
		{"gpu.driver", "NvDriverVersion", 205},
		{"host.machine", "HardwarePlatform", 600},
		{"host.kernel", "SoftwareVersion", 604},
		{"host.os", "OsDescription", 605},
		{"host.name", "Hostname", 619},
	};

	if (ws_export_table(export, &system_env, err) < 0)
		return -1;
	for (size_t i = 0; i < WS_COUNT(map); i++) {
		const char *value = ws_meta(export->report, map[i].fact);
		struct ws_xcell cells[] = {ws_x_int(0), ws_x_literal("Local (CLI)"),
					   ws_x_literal(map[i].name), ws_x_int(map[i].number),
					   ws_x_null()};

		if (!value)
			continue;
		cells[4] = ws_x_own(export, value);
		if (ws_export_row(export, cells, err) < 0)
			return -1;
	}
	return export_imported_facts(export, err);
}

/* Offset of the machine's local time in seconds, from "...+0130" at the end of the session's start;
 * 0 when not known. */
static long local_offset(struct ws_export *export)
{
	const char *text = ws_meta(export->report, "session.start_local");
	size_t n = text ? strlen(text) : 0;
	long hhmm;

	if (n < 5 || (text[n - 5] != '+' && text[n - 5] != '-'))
		return 0;
	hhmm = strtol(text + n - 4, NULL, 10);
	return (text[n - 5] == '-' ? -1 : 1) * (hhmm / 100 * 3600 + hhmm % 100 * 60);
}

/* Real time at the start of the collection, from the clock reading next to it; 0 when there is
 * none. */
uint64_t ws_export_epoch(const struct ws_export *export)
{
	struct ws_cursor *cursor = ws_cursor_open(export->report, WS_TABLE_clock, 0, UINT64_MAX);
	uint64_t best = UINT64_MAX, epoch = 0;
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t raw = values[ws_clock_raw],
			 off = raw > export->zero ? raw - export->zero : export->zero - raw;

		if (off < best) {
			best = off;
			epoch = values[ws_clock_realtime] + (export->zero - raw);
		}
	}
	ws_cursor_close(cursor);
	return epoch;
}

static int export_start(struct ws_export *export, struct ws_err *err)
{
	uint64_t epoch = ws_export_epoch(export);
	char utc[64], local[64];

	if (ws_export_table(export, &start_time, err) < 0)
		return -1;
	if (!epoch)
		return 0;
	put_iso(utc, sizeof(utc), "%Y-%m-%dT%H:%M:%S", (time_t)(epoch / 1000000000));
	put_iso(local, sizeof(local), "%Y-%m-%dT%H:%M:%S",
		(time_t)(epoch / 1000000000) + local_offset(export));
	return ws_export_row(export,
			     (struct ws_xcell[]){ws_x_int((int64_t)epoch), ws_x_literal(utc),
						 ws_x_literal(local),
						 ws_x_int((int64_t) export->zero)},
			     err);
}

static int put_details(struct ws_export *export, uint64_t start, uint64_t end, struct ws_err *err)
{
	if (end == WS_NO_TIME) /* the recorder died: up to the last event */
		end = ws_max(export->last, start);
	return ws_export_row(export,
			     (struct ws_xcell[]){ws_x_int(0), ws_x_int((int64_t)(end - start)),
						 ws_x_time(export, start), ws_x_time(export, end)},
			     err);
}

/* A recorder writes a span when it begins, and again with its end: of rows with one start, the one
 * with an end counts. */
static int export_details(struct ws_export *export, struct ws_err *err)
{
	struct ws_cursor *cursor =
		ws_cursor_open(export->report, WS_TABLE_collection, 0, UINT64_MAX);
	uint64_t start = 0, end = 0;
	const uint64_t *values;
	bool pending = false;
	int rc = ws_export_table(export, &details, err);

	while (!rc && ws_cursor_next(cursor, &values)) {
		uint64_t this_end = values[ws_collection_end];

		if (pending && values[ws_collection_start] == start) {
			end = end == WS_NO_TIME || (this_end != WS_NO_TIME && this_end > end)
				      ? this_end
				      : end;
			continue;
		}
		if (pending)
			rc = put_details(export, start, end, err);
		start = values[ws_collection_start];
		end = this_end;
		pending = true;
	}
	if (pending && !rc)
		rc = put_details(export, start, end, err);
	ws_cursor_close(cursor);
	return rc;
}

/* The process that profile started: the first. */
static uint64_t target_pid(struct ws_export *export)
{
	return ws_who_processes(export->who) ? ws_who_process(export->who, 1)->pid : 0;
}

/* What one process wrote to one stream. */
struct stream {
	uint64_t process; /* id, 0 for the target */
	bool err;
	uint32_t rows, last; /* of the report; the bytes of the last one */
	struct ws_text content;
};

static struct stream *stream_of(struct stream **v, size_t *n, size_t *cap, uint64_t process,
				bool err)
{
	for (size_t i = 0; i < *n; i++)
		if ((*v)[i].process == process && (*v)[i].err == err)
			return &(*v)[i];
	ws_grow(*v, *cap, *n + 1);
	(*v)[*n] = (struct stream){.process = process, .err = err};
	return &(*v)[(*n)++];
}

static int by_stream(const void *first, const void *second)
{
	const struct stream *left = first, *right = second;

	return left->process != right->process ? (left->process < right->process ? -1 : 1)
					       : left->err - right->err;
}

static int put_stream(struct ws_export *export, const struct stream *stream, struct ws_err *err)
{
	bool told = stream->process && stream->process <= ws_who_processes(export->who);
	uint64_t pid = told ? ws_who_process(export->who, (uint32_t)stream->process)->pid
			    : target_pid(export);
	char *name = ws_format("pid_%" PRIu64 "_%s.log", pid, stream->err ? "stderr" : "stdout");
	struct ws_xcell file = ws_x_extra(export, name, strlen(name));
	struct ws_xcell content =
		stream->rows == 1 ? ws_x_string(export, stream->last) : ws_x_null();
	int rc;

	if (content.kind == WS_X_NULL)
		content = ws_x_extra(export, ws_text_or(stream->content.text, ""),
				     stream->content.len);
	rc = ws_export_row(export,
			   (struct ws_xcell[]){told ? ws_x_process(export, stream->process)
						    : ws_x_int((int64_t)pid << 24),
					       file, content},
			   err);

	free(name);
	return rc;
}

static int export_streams(struct ws_export *export, struct ws_err *err)
{
	struct ws_cursor *cursor = ws_cursor_open(export->report, WS_TABLE_output, 0, UINT64_MAX);
	struct stream *stream_v = NULL;
	size_t n = 0, cap = 0;
	const uint64_t *row;
	int rc = ws_export_table(export, &streams, err);

	while (ws_cursor_next(cursor, &row)) {
		struct stream *stream_s = stream_of(&stream_v, &n, &cap, row[ws_output_process],
						    row[ws_output_stream] == 2);
		size_t len;
		const char *bytes =
			ws_report_string(export->report, (uint32_t)row[ws_output_bytes], &len);

		ws_text_add(&stream_s->content, bytes, len);
		stream_s->rows++;
		stream_s->last = (uint32_t)row[ws_output_bytes];
	}
	ws_cursor_close(cursor);
	if (n)
		qsort(stream_v, n, sizeof(*stream_v), by_stream);
	for (size_t i = 0; i < n; i++) {
		rc = rc < 0 ? rc : put_stream(export, &stream_v[i], err);
		ws_text_free(&stream_v[i].content);
	}
	free(stream_v);
	return rc;
}

int ws_export_session(struct ws_export *export, struct ws_err *err)
{
	return export_meta(export, err) < 0 || export_system(export, err) < 0 ||
			       export_start(export, err) < 0 || export_details(export, err) < 0 ||
			       export_streams(export, err) < 0
		       ? -1
		       : 0;
}

/* ---- diagnostics ---- */

enum { SOURCE_INJECTION = 1, SOURCE_DAEMON = 2, TIMESTAMP_TARGET = 1 };

static struct ws_xcell diagnostic_source(struct ws_export *export, const uint64_t *values)
{
	const char *source =
		ws_report_string(export->report, (uint32_t)values[ws_diagnostic_source], NULL);

	return ws_x_int(!strcmp(source, "osrt") || !strcmp(source, "nvtx") ||
					!strcmp(source, "cuda")
				? SOURCE_INJECTION
				: SOURCE_DAEMON);
}

static const struct ws_xcolumn diagnostic_columns[] = {
	{"timestamp", "INTEGER", true, false, "When (ns)", WS_XF_TIME, VIEW_AT(diagnostic, start)},
	{"timestampType", "INTEGER", true, false, "ENUM_DIAGNOSTIC_TIMESTAMP_SOURCE(id)",
	 WS_XF_CONST, .value = TIMESTAMP_TARGET},
	{"source", "INTEGER", true, false, "ENUM_DIAGNOSTIC_SOURCE_TYPE(id)", .from = WS_XF_CALL,
	 .cell = diagnostic_source, .needs = WS_COL(diagnostic, source)},
	{"severity", "INTEGER", true, false, "ENUM_DIAGNOSTIC_SEVERITY_LEVEL(id)", WS_XF_INT,
	 VIEW_AT(diagnostic, severity)},
	{"text", "TEXT", false, false, "The message", WS_XF_TEXT, VIEW_AT(diagnostic, text)},
	{"globalPid", "INTEGER", false, false, "Process it is about: pid << 24", WS_XF_PROCESS,
	 VIEW_AT(diagnostic, process)},
};
const struct ws_xview ws_diagnostics_view = {
	.table = {"DIAGNOSTIC_EVENT", "What the user should know about the recording itself",
		  diagnostic_columns, WS_COUNT(diagnostic_columns)},
	.source = WS_TABLE_diagnostic};
