/*
 * tables_session.c - the exported tables with few rows: the session, the machine, processes and
 * threads, streams, diagnostics, enumerations.
 *
 * Tables that people join by globalPid or globalTid (PROCESSES, ThreadNames) have one row for each
 * such number, as a join expects. A pid may have run several images and a thread may have had
 * several names: these tables have the last image and the best name. WARPSIGHT_PROCESS and
 * WARPSIGHT_THREAD have all of them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "views/tables.h"
#include "base/choose.h"

#define TABLE(var, name, doc, ...)                                          \
	static const struct ws_view_column var##_columns[] = {__VA_ARGS__}; \
	static const struct ws_view_table var = {name, doc, var##_columns, WS_COUNT(var##_columns)}

/* ---- processes and threads ---- */

TABLE(processes, "PROCESSES", "Processes by pid, with the name of the last program each ran",
      {"globalPid", "INTEGER", false, false, "pid << 24"},
      {"pid", "INTEGER", false, false, "Process id"},
      {"name", "TEXT", false, false, "Base name of the executable"});

#define VIEW_AT(t, c) ws_##t##_##c

static struct ws_view_cell make_global_pid_cell(struct ws_cell_context *export,
						const uint64_t *values)
{
	struct ws_view_cell cell = ws_make_process_cell(export, values[ws_process_id]);

	if (cell.kind == WS_VIEW_NULL)
		return ws_make_int_cell(0);
	return cell;
}

static const struct ws_view_column image_columns[] = {
	{"id", "INTEGER", true, false, "Number of the image", WS_FROM_INT, VIEW_AT(process, id)},
	{"globalPid", "INTEGER", true, false, "pid << 24", .from = WS_FROM_FUNCTION,
	 .cell = make_global_pid_cell, .needs = WS_COLUMN_BIT(process, id)},
	{"pid", "INTEGER", true, false, "Process id", WS_FROM_INT, VIEW_AT(process, pid)},
	{"parentId", "INTEGER", false, false, "WARPSIGHT_PROCESS(id) that started it", WS_FROM_ID,
	 VIEW_AT(process, parent)},
	{"parentPid", "INTEGER", false, false, "Parent process id when it registered", WS_FROM_ID,
	 VIEW_AT(process, ppid)},
	{"start", "INTEGER", false, false, "When it began (ns)", WS_FROM_TIME,
	 VIEW_AT(process, start)},
	{"origin", "INTEGER", true, false,
	 "1 started by profile, 2 a new image (exec, posix_spawn), 3 a forked child", WS_FROM_INT,
	 VIEW_AT(process, origin)},
	{"executable", "TEXT", false, false, "Path of the executable", WS_FROM_TEXT,
	 VIEW_AT(process, exe)},
	{"commandLine", "TEXT", false, false, "Its arguments", WS_FROM_TEXT,
	 VIEW_AT(process, cmdline)},
	{"name", "TEXT", false, false, "Base name of the executable", WS_FROM_TEXT,
	 VIEW_AT(process, name)},
};
const struct ws_table_view ws_images_view = {
	.table = {"WARPSIGHT_PROCESS",
		  "Every program image that ran: an exec starts a new one in the same pid",
		  image_columns, WS_COUNT(image_columns)},
	.source = WS_TABLE_process};

static struct ws_view_cell make_global_tid_cell(struct ws_cell_context *export,
						const uint64_t *values)
{
	struct ws_view_cell cell = ws_make_thread_cell(export, values[ws_thread_id]);

	if (cell.kind == WS_VIEW_NULL)
		return ws_make_int_cell(0);
	return cell;
}

static const struct ws_view_column thread_columns[] = {
	{"id", "INTEGER", true, false, "Number of the thread", WS_FROM_INT, VIEW_AT(thread, id)},
	{"processId", "INTEGER", true, false, "WARPSIGHT_PROCESS(id)", WS_FROM_INT,
	 VIEW_AT(thread, process)},
	{"tid", "INTEGER", true, false, "Thread id", WS_FROM_INT, VIEW_AT(thread, tid)},
	{"globalTid", "INTEGER", true, false, "pid << 24 | tid", .from = WS_FROM_FUNCTION,
	 .cell = make_global_tid_cell, .needs = WS_COLUMN_BIT(thread, id)},
	{"start", "INTEGER", false, false, "When it first recorded (ns)", WS_FROM_TIME,
	 VIEW_AT(thread, start)},
};
const struct ws_table_view ws_threads_view = {.table = {"WARPSIGHT_THREAD",
							"Every thread that recorded something",
							thread_columns, WS_COUNT(thread_columns)},
					      .source = WS_TABLE_thread};

TABLE(thread_names, "ThreadNames", "The best name of each thread",
      {"nameId", "INTEGER", true, false, "StringIds(id)"},
      {"priority", "INTEGER", false, false, "10 the kernel's, 20 pthread_setname_np, 30 NVTX"},
      {"globalTid", "INTEGER", false, false, "pid << 24 | tid"});

/* A row that may stand for a global number: of all rows that share it, one wins. */
struct candidate {
	uint64_t number;
	int64_t rank[2]; /* the larger wins: priority or 0, then time */
	size_t order;	 /* of equal ones the later row wins */
	uint32_t text;
};

struct candidate_list {
	struct candidate *candidates;
	size_t count, capacity;
};

/* By number, with the winner first. */
static int compare_winners(const void *first, const void *second)
{
	const struct candidate *left = first, *right = second;

	if (left->number != right->number)
		return ws_compare(left->number, right->number);
	for (int i = 0; i < 2; i++)
		if (left->rank[i] != right->rank[i])
			return ws_compare(right->rank[i], left->rank[i]);
	return ws_compare(right->order, left->order);
}

static void add_candidate(struct candidate_list *candidates, uint64_t number, int64_t priority,
			  uint64_t time, uint32_t text)
{
	ws_grow(candidates->candidates, candidates->capacity, candidates->count + 1);
	candidates->candidates[candidates->count] =
		(struct candidate){number, {priority, (int64_t)time}, candidates->count, text};
	candidates->count++;
}

static void keep_winners(struct candidate_list *candidates)
{
	size_t kept = 0;

	if (candidates->count)
		qsort(candidates->candidates, candidates->count, sizeof(*candidates->candidates),
		      compare_winners);
	for (size_t i = 0; i < candidates->count; i++)
		if (!i || candidates->candidates[i].number != candidates->candidates[i - 1].number)
			candidates->candidates[kept++] = candidates->candidates[i];
	candidates->count = kept;
}

static int export_pids(struct ws_cell_context *export, struct ws_err *err)
{
	struct ws_cursor *cursor = ws_cursor_open(export->report, WS_TABLE_process, 0, UINT64_MAX);
	struct candidate_list candidates = {0};
	const uint64_t *values;
	int rc = ws_begin_table(export, &processes, err);

	while (ws_cursor_next(cursor, &values))
		add_candidate(
			&candidates,
			ws_find_process(export->who, (uint32_t)values[ws_process_id])->global_pid,
			0, values[ws_process_start], (uint32_t)values[ws_process_name]);
	ws_cursor_close(cursor);
	keep_winners(&candidates);
	for (size_t i = 0; !rc && i < candidates.count; i++) {
		uint64_t pid = candidates.candidates[i].number >> 24 & 0xffffff;

		/* Without either, it is for rows of an imported file that name no process. */
		if (pid || candidates.candidates[i].text)
			rc = ws_add_table_row(
				export,
				(struct ws_view_cell[]){
					ws_make_int_cell((int64_t)candidates.candidates[i].number),
					ws_make_int_cell((int64_t)pid),
					ws_make_text_cell(export, candidates.candidates[i].text)},
				err);
	}
	free(candidates.candidates);
	return rc;
}

static int export_thread_names(struct ws_cell_context *export, struct ws_err *err)
{
	struct ws_cursor *cursor =
		ws_cursor_open(export->report, WS_TABLE_thread_name, 0, UINT64_MAX);
	struct candidate_list candidates = {0};
	const uint64_t *values;
	int rc = ws_begin_table(export, &thread_names, err);

	while (ws_cursor_next(cursor, &values))
		if (values[ws_thread_name_thread] && values[ws_thread_name_name])
			add_candidate(&candidates,
				      ws_find_thread(export->who,
						     (uint32_t)values[ws_thread_name_thread])
					      ->global_tid,
				      (int64_t)values[ws_thread_name_priority],
				      values[ws_thread_name_start],
				      (uint32_t)values[ws_thread_name_name]);
	ws_cursor_close(cursor);
	keep_winners(&candidates);
	for (size_t i = 0; !rc && i < candidates.count; i++) {
		struct ws_view_cell name =
			ws_make_string_cell(export, candidates.candidates[i].text);

		if (name.kind != WS_VIEW_NULL)
			rc = ws_add_table_row(
				export,
				(struct ws_view_cell[]){
					name, ws_make_int_cell(candidates.candidates[i].rank[0]),
					ws_make_int_cell((int64_t)candidates.candidates[i].number)},
				err);
	}
	free(candidates.candidates);
	return rc;
}

int ws_write_process_tables(struct ws_cell_context *export, struct ws_err *err)
{
	if (export_pids(export, err) < 0)
		return -1;
	return export_thread_names(export, err);
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

static int put_meta_row(struct ws_cell_context *export, const char *name, const char *value,
			struct ws_err *err)
{
	return ws_add_table_row(export,
				(struct ws_view_cell[]){ws_make_literal_cell(name),
							ws_make_literal_cell(value)},
				err);
}

static void format_time(char *out, size_t size, const char *format, time_t time)
{
	struct tm parts;

	if (!gmtime_r(&time, &parts) || !strftime(out, size, format, &parts))
		snprintf(out, size, "%lld", (long long)time);
}

static int export_meta(struct ws_cell_context *export, struct ws_err *err)
{
	static const char *const fixed[][2] = {
		{"EXPORT_PRODUCT_NAME", "warpsight"},  {"EXPORT_PRODUCT_VERSION", WS_VERSION},
		{"EXPORT_SCHEMA_VERSION", "3.25.0"},   {"EXPORT_SCHEMA_VERSION_MAJOR", "3"},
		{"EXPORT_SCHEMA_VERSION_MINOR", "25"}, {"EXPORT_SCHEMA_VERSION_MICRO", "0"},
	};
	char now[64];

	if (ws_begin_table(export, &meta_export, err) < 0)
		return -1;
	for (size_t i = 0; i < WS_COUNT(fixed); i++)
		if (put_meta_row(export, fixed[i][0], fixed[i][1], err) < 0)
			return -1;
	format_time(now, sizeof(now), "%Y-%m-%dT%H:%M:%S", time(NULL));
	if (put_meta_row(export, "EXPORT_TIME_UTC", now, err) < 0 ||
	    put_meta_row(export, "EXPORT_PARAM_EXPORT_TYPE", export->type, err) < 0 ||
	    ws_add_table_row(
		    export,
		    (struct ws_view_cell[]){ws_make_literal_cell("EXPORT_PARAM_INPUT_FILE"),
					    ws_make_own_text_cell(export, export->input)},
		    err) < 0)
		return -1;
	return ws_add_table_row(
		export,
		(struct ws_view_cell[]){ws_make_literal_cell("EXPORT_PARAM_OUTPUT_FILE"),
					ws_make_own_text_cell(export, export->output)},
		err);
}

/* Other properties of the machine that an imported file had. Their numbers were not kept. */
static int export_imported_facts(struct ws_cell_context *export, struct ws_err *err)
{
	struct ws_cursor *cursor = ws_cursor_open(export->report, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *values;
	int rc = 0;

	while (!rc && ws_cursor_next(cursor, &values)) {
		size_t name_length, value_length;
		const char *name = ws_report_string(export->report, (uint32_t)values[ws_meta_name],
						    &name_length);
		const char *value = ws_report_string(
			export->report, (uint32_t)values[ws_meta_value], &value_length);
		char *copy;

		if (strncmp(name, "machine.", 8))
			continue;
		copy = ws_strndup(value, value_length);
		rc = ws_add_table_row(
			export,
			(struct ws_view_cell[]){
				ws_make_int_cell(0), ws_make_literal_cell("Local (CLI)"),
				ws_make_own_text_cell(export, name + 8), ws_make_int_cell(0),
				ws_make_own_text_cell(export, copy)},
			err);
		free(copy);
	}
	ws_cursor_close(cursor);
	return rc;
}

static int export_system(struct ws_cell_context *export, struct ws_err *err)
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

	if (ws_begin_table(export, &system_env, err) < 0)
		return -1;
	for (size_t i = 0; i < WS_COUNT(map); i++) {
		const char *value = ws_find_meta(export->report, map[i].fact);
		struct ws_view_cell cells[] = {ws_make_int_cell(0),
					       ws_make_literal_cell("Local (CLI)"),
					       ws_make_literal_cell(map[i].name),
					       ws_make_int_cell(map[i].number),
					       ws_make_null_cell()};

		if (!value)
			continue;
		cells[4] = ws_make_own_text_cell(export, value);
		if (ws_add_table_row(export, cells, err) < 0)
			return -1;
	}
	return export_imported_facts(export, err);
}

/* Offset of the machine's local time in seconds, from "...+0130" at the end of the session's start;
 * 0 when not known. */
static long find_local_offset(struct ws_cell_context *export)
{
	const char *text = ws_find_meta(export->report, "session.start_local"), *sign;
	long hhmm, seconds;

	if (!text || strlen(text) < 5)
		return 0;
	sign = text + strlen(text) - 5;
	if (*sign != '+' && *sign != '-')
		return 0;
	hhmm = strtol(sign + 1, NULL, 10);
	seconds = hhmm / 100 * 3600 + hhmm % 100 * 60;
	if (*sign == '-')
		return -seconds;
	return seconds;
}

uint64_t ws_find_start_epoch(const struct ws_cell_context *export)
{
	struct ws_cursor *cursor = ws_cursor_open(export->report, WS_TABLE_clock, 0, UINT64_MAX);
	uint64_t best = UINT64_MAX, epoch = 0;
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t raw = values[ws_clock_raw];
		uint64_t distance = ws_max(raw, export->zero) - ws_min(raw, export->zero);

		if (distance < best) {
			best = distance;
			epoch = values[ws_clock_realtime] + (export->zero - raw);
		}
	}
	ws_cursor_close(cursor);
	return epoch;
}

static int export_start_time(struct ws_cell_context *export, struct ws_err *err)
{
	uint64_t epoch = ws_find_start_epoch(export);
	char utc[64], local[64];

	if (ws_begin_table(export, &start_time, err) < 0)
		return -1;
	if (!epoch)
		return 0;
	format_time(utc, sizeof(utc), "%Y-%m-%dT%H:%M:%S", (time_t)(epoch / 1000000000));
	format_time(local, sizeof(local), "%Y-%m-%dT%H:%M:%S",
		    (time_t)(epoch / 1000000000) + find_local_offset(export));
	return ws_add_table_row(export,
				(struct ws_view_cell[]){ws_make_int_cell((int64_t)epoch),
							ws_make_literal_cell(utc),
							ws_make_literal_cell(local),
							ws_make_int_cell((int64_t) export->zero)},
				err);
}

static int put_details_row(struct ws_cell_context *export, uint64_t start, uint64_t end,
			   struct ws_err *err)
{
	if (end == WS_NO_TIME) /* the recorder died: up to the last event */
		end = ws_max(export->last, start);
	return ws_add_table_row(export,
				(struct ws_view_cell[]){ws_make_int_cell(0),
							ws_make_int_cell((int64_t)(end - start)),
							ws_make_time_cell(export, start),
							ws_make_time_cell(export, end)},
				err);
}

/* A recorder writes a span when it begins, and again with its end: if two rows have the same start,
 * the one with an end counts. */
static int export_details(struct ws_cell_context *export, struct ws_err *err)
{
	struct ws_cursor *cursor =
		ws_cursor_open(export->report, WS_TABLE_collection, 0, UINT64_MAX);
	uint64_t start = 0, end = 0;
	const uint64_t *values;
	bool pending = false;
	int rc = ws_begin_table(export, &details, err);

	while (!rc && ws_cursor_next(cursor, &values)) {
		uint64_t this_end = values[ws_collection_end];

		if (pending && values[ws_collection_start] == start) {
			if (end == WS_NO_TIME || (this_end != WS_NO_TIME && this_end > end))
				end = this_end;
			continue;
		}
		if (pending)
			rc = put_details_row(export, start, end, err);
		start = values[ws_collection_start];
		end = this_end;
		pending = true;
	}
	if (pending && !rc)
		rc = put_details_row(export, start, end, err);
	ws_cursor_close(cursor);
	return rc;
}

/* The pid of the process that `warpsight profile` started: the first. 0 when there is none. */
static uint64_t find_target_pid(struct ws_cell_context *export)
{
	if (!ws_highest_process_id(export->who))
		return 0;
	return ws_find_process(export->who, 1)->pid;
}

/* What one process wrote to one stream. */
struct output_stream {
	uint64_t process; /* id, 0 for the target */
	bool is_stderr;
	uint32_t rows;	     /* of the report's table */
	uint32_t last_bytes; /* string id of the bytes of the last one */
	struct ws_text content;
};

struct stream_list {
	struct output_stream *streams;
	size_t count, capacity;
};

static struct output_stream *find_stream(struct stream_list *list, uint64_t process, bool is_stderr)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->streams[i].process == process && list->streams[i].is_stderr == is_stderr)
			return &list->streams[i];
	ws_grow(list->streams, list->capacity, list->count + 1);
	list->streams[list->count] =
		(struct output_stream){.process = process, .is_stderr = is_stderr};
	return &list->streams[list->count++];
}

static int compare_streams(const void *first, const void *second)
{
	const struct output_stream *left = first, *right = second;

	if (left->process != right->process)
		return ws_compare(left->process, right->process);
	return left->is_stderr - right->is_stderr;
}

static const char *name_stream(const struct output_stream *stream)
{
	if (stream->is_stderr)
		return "stderr";
	return "stdout";
}

/* The report's own text if it has the stream in one piece; otherwise a text made for the export. */
static struct ws_view_cell make_content_cell(struct ws_cell_context *export,
					     const struct output_stream *stream)
{
	struct ws_view_cell content = ws_make_null_cell();

	if (stream->rows == 1)
		content = ws_make_string_cell(export, stream->last_bytes);
	if (content.kind != WS_VIEW_NULL)
		return content;
	return ws_make_extra_string_cell(export, ws_text_or(stream->content.text, ""),
					 stream->content.len);
}

static int put_stream_row(struct ws_cell_context *export, const struct output_stream *stream,
			  struct ws_err *err)
{
	uint64_t pid = find_target_pid(export);
	struct ws_view_cell process = ws_make_int_cell((int64_t)pid << 24), file;
	char *name;
	int rc;

	if (stream->process && stream->process <= ws_highest_process_id(export->who)) {
		pid = ws_find_process(export->who, (uint32_t)stream->process)->pid;
		process = ws_make_process_cell(export, stream->process);
	}
	name = ws_format("pid_%" PRIu64 "_%s.log", pid, name_stream(stream));
	file = ws_make_extra_string_cell(export, name, strlen(name));
	rc = ws_add_table_row(
		export, (struct ws_view_cell[]){process, file, make_content_cell(export, stream)},
		err);
	free(name);
	return rc;
}

static int export_streams(struct ws_cell_context *export, struct ws_err *err)
{
	struct ws_cursor *cursor = ws_cursor_open(export->report, WS_TABLE_output, 0, UINT64_MAX);
	struct stream_list list = {0};
	const uint64_t *row;
	int rc = ws_begin_table(export, &streams, err);

	while (ws_cursor_next(cursor, &row)) {
		struct output_stream *stream =
			find_stream(&list, row[ws_output_process], row[ws_output_stream] == 2);
		size_t length;
		const char *bytes =
			ws_report_string(export->report, (uint32_t)row[ws_output_bytes], &length);

		ws_text_add(&stream->content, bytes, length);
		stream->rows++;
		stream->last_bytes = (uint32_t)row[ws_output_bytes];
	}
	ws_cursor_close(cursor);
	if (list.count)
		qsort(list.streams, list.count, sizeof(*list.streams), compare_streams);
	for (size_t i = 0; i < list.count; i++) {
		if (rc >= 0)
			rc = put_stream_row(export, &list.streams[i], err);
		ws_text_free(&list.streams[i].content);
	}
	free(list.streams);
	return rc;
}

int ws_write_session_tables(struct ws_cell_context *export, struct ws_err *err)
{
	if (export_meta(export, err) < 0 || export_system(export, err) < 0 ||
	    export_start_time(export, err) < 0 || export_details(export, err) < 0)
		return -1;
	return export_streams(export, err);
}

/* ---- diagnostics ---- */

enum { SOURCE_INJECTION = 1, SOURCE_DAEMON = 2, TIMESTAMP_TARGET = 1 };

static struct ws_view_cell make_diagnostic_source_cell(struct ws_cell_context *export,
						       const uint64_t *values)
{
	const char *source =
		ws_report_string(export->report, (uint32_t)values[ws_diagnostic_source], NULL);

	if (!strcmp(source, "osrt") || !strcmp(source, "nvtx") || !strcmp(source, "cuda"))
		return ws_make_int_cell(SOURCE_INJECTION);
	return ws_make_int_cell(SOURCE_DAEMON);
}

static const struct ws_view_column diagnostic_columns[] = {
	{"timestamp", "INTEGER", true, false, "When (ns)", WS_FROM_TIME,
	 VIEW_AT(diagnostic, start)},
	{"timestampType", "INTEGER", true, false, "ENUM_DIAGNOSTIC_TIMESTAMP_SOURCE(id)",
	 WS_FROM_CONST, .value = TIMESTAMP_TARGET},
	{"source", "INTEGER", true, false, "ENUM_DIAGNOSTIC_SOURCE_TYPE(id)",
	 .from = WS_FROM_FUNCTION, .cell = make_diagnostic_source_cell,
	 .needs = WS_COLUMN_BIT(diagnostic, source)},
	{"severity", "INTEGER", true, false, "ENUM_DIAGNOSTIC_SEVERITY_LEVEL(id)", WS_FROM_INT,
	 VIEW_AT(diagnostic, severity)},
	{"text", "TEXT", false, false, "The message", WS_FROM_TEXT, VIEW_AT(diagnostic, text)},
	{"globalPid", "INTEGER", false, false, "Process it is about: pid << 24", WS_FROM_PROCESS,
	 VIEW_AT(diagnostic, process)},
};
const struct ws_table_view ws_diagnostics_view = {
	.table = {"DIAGNOSTIC_EVENT", "What the user should know about the recording itself",
		  diagnostic_columns, WS_COUNT(diagnostic_columns)},
	.source = WS_TABLE_diagnostic};
