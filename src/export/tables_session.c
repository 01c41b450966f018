/*
 * tables_session.c - the exported tables with few rows: the session, the machine, processes and threads, streams, diagnostics,
 * enumerations.
 *
 * Those that people join by globalPid or globalTid (PROCESSES, ThreadNames) have one row for each such number, as a join expects,
 * though a pid may have run several images and a thread may have been named often: the last image and the best name stand there.
 * The whole story is in WARPSIGHT_PROCESS and WARPSIGHT_THREAD.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "export/tables.h"

#define TABLE(var, name, doc, ...)                                      \
	static const struct ws_xcolumn var##_columns[] = {__VA_ARGS__}; \
	static const struct ws_xtable var = {name, doc, var##_columns, WS_COUNT(var##_columns)}

/* ---- processes and threads ---- */

TABLE(processes, "PROCESSES", "Processes by pid, with the name of the last program each ran",
      {"globalPid", "INTEGER", false, false, "pid << 24"}, {"pid", "INTEGER", false, false, "Process id"},
      {"name", "TEXT", false, false, "Base name of the executable"});

TABLE(images, "WARPSIGHT_PROCESS", "Every program image that ran: an exec starts a new one in the same pid",
      {"id", "INTEGER", true, false, "Number of the image"}, {"globalPid", "INTEGER", true, false, "pid << 24"},
      {"pid", "INTEGER", true, false, "Process id"}, {"parentId", "INTEGER", false, false, "WARPSIGHT_PROCESS(id) that started it"},
      {"parentPid", "INTEGER", false, false, "Parent process id when it registered"},
      {"start", "INTEGER", false, false, "When it began (ns)"},
      {"origin", "INTEGER", true, false, "1 started by profile, 2 a new image (exec, posix_spawn), 3 a forked child"},
      {"executable", "TEXT", false, false, "Path of the executable"}, {"commandLine", "TEXT", false, false, "Its arguments"},
      {"name", "TEXT", false, false, "Base name of the executable"});

TABLE(threads, "WARPSIGHT_THREAD", "Every thread that recorded something", {"id", "INTEGER", true, false, "Number of the thread"},
      {"processId", "INTEGER", true, false, "WARPSIGHT_PROCESS(id)"}, {"tid", "INTEGER", true, false, "Thread id"},
      {"globalTid", "INTEGER", true, false, "pid << 24 | tid"}, {"start", "INTEGER", false, false, "When it first recorded (ns)"});

TABLE(thread_names, "ThreadNames", "The best name of each thread", {"nameId", "INTEGER", true, false, "StringIds(id)"},
      {"priority", "INTEGER", false, false, "10 the kernel's, 20 pthread_setname_np, 30 NVTX"},
      {"globalTid", "INTEGER", false, false, "pid << 24 | tid"});

static bool fill_image(struct ws_export *x, const uint64_t *v, struct ws_xcell *c)
{
	c[0] = ws_x_int((int64_t)v[ws_process_id]);
	c[1] = ws_x_int((int64_t)v[ws_process_pid] << 24);
	c[2] = ws_x_int((int64_t)v[ws_process_pid]);
	c[3] = v[ws_process_parent] ? ws_x_int((int64_t)v[ws_process_parent]) : ws_x_null();
	c[4] = v[ws_process_ppid] ? ws_x_int((int64_t)v[ws_process_ppid]) : ws_x_null();
	c[5] = ws_x_time(x, v[ws_process_start]);
	c[6] = ws_x_int((int64_t)v[ws_process_origin]);
	c[7] = ws_x_text(x, (uint32_t)v[ws_process_exe]);
	c[8] = ws_x_text(x, (uint32_t)v[ws_process_cmdline]);
	c[9] = ws_x_text(x, (uint32_t)v[ws_process_name]);
	return true;
}

static bool fill_thread(struct ws_export *x, const uint64_t *v, struct ws_xcell *c)
{
	c[0] = ws_x_int((int64_t)v[ws_thread_id]);
	c[1] = ws_x_int((int64_t)v[ws_thread_process]);
	c[2] = ws_x_int((int64_t)v[ws_thread_tid]);
	c[3] = ws_x_thread(x, v[ws_thread_id]);
	if (c[3].kind == WS_X_NULL)
		c[3] = ws_x_int(0);
	c[4] = ws_x_time(x, v[ws_thread_start]);
	return true;
}

/* What stands for one global number: the row that wins among all that share it. */
struct winner {
	uint64_t number;
	int64_t rank[2]; /* larger wins: priority or 0, then time */
	size_t order;	 /* then the later row */
	uint32_t text;
};

struct winners {
	struct winner *v;
	size_t n, cap;
};

static int by_number(const void *a, const void *b)
{
	const struct winner *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	for (int i = 0; i < 2; i++)
		if (x->rank[i] != y->rank[i])
			return x->rank[i] > y->rank[i] ? -1 : 1;
	return x->order > y->order ? -1 : 1;
}

static void add_winner(struct winners *w, uint64_t number, int64_t priority, uint64_t time, uint32_t text)
{
	ws_grow(w->v, w->cap, w->n + 1);
	w->v[w->n] = (struct winner){number, {priority, (int64_t)time}, w->n, text};
	w->n++;
}

static void sort_winners(struct winners *w)
{
	size_t kept = 0;

	if (w->n)
		qsort(w->v, w->n, sizeof(*w->v), by_number);
	for (size_t i = 0; i < w->n; i++)
		if (!i || w->v[i].number != w->v[i - 1].number)
			w->v[kept++] = w->v[i];
	w->n = kept;
}

static int export_pids(struct ws_export *x, struct ws_err *e)
{
	struct ws_cursor *c = ws_cursor_open(x->r, WS_TABLE_process, 0, UINT64_MAX);
	struct winners w = {0};
	const uint64_t *v;
	int rc = ws_export_table(x, &processes, e);

	while (ws_cursor_next(c, &v))
		add_winner(&w, v[ws_process_pid], 0, v[ws_process_start], (uint32_t)v[ws_process_name]);
	ws_cursor_close(c);
	sort_winners(&w);
	for (size_t i = 0; !rc && i < w.n; i++)
		rc = ws_export_row(x,
				   (struct ws_xcell[]){ws_x_int((int64_t)w.v[i].number << 24), ws_x_int((int64_t)w.v[i].number),
						       ws_x_text(x, w.v[i].text)},
				   e);
	free(w.v);
	return rc;
}

static int export_thread_names(struct ws_export *x, struct ws_err *e)
{
	struct ws_cursor *c = ws_cursor_open(x->r, WS_TABLE_thread_name, 0, UINT64_MAX);
	struct winners w = {0};
	const uint64_t *v;
	int rc = ws_export_table(x, &thread_names, e);

	while (ws_cursor_next(c, &v))
		if (v[ws_thread_name_thread] && v[ws_thread_name_name])
			add_winner(&w, ws_who_thread(x->who, (uint32_t)v[ws_thread_name_thread])->global_tid,
				   (int64_t)v[ws_thread_name_priority], v[ws_thread_name_start], (uint32_t)v[ws_thread_name_name]);
	ws_cursor_close(c);
	sort_winners(&w);
	for (size_t i = 0; !rc && i < w.n; i++) {
		struct ws_xcell name = ws_x_string(x, w.v[i].text);

		if (name.kind != WS_X_NULL)
			rc = ws_export_row(x, (struct ws_xcell[]){name, ws_x_int(w.v[i].rank[0]), ws_x_int((int64_t)w.v[i].number)},
					   e);
	}
	free(w.v);
	return rc;
}

int ws_export_processes(struct ws_export *x, struct ws_err *e)
{
	return export_pids(x, e) < 0 || ws_export_rows(x, &images, WS_TABLE_process, fill_image, e) < 0 ||
		       ws_export_rows(x, &threads, WS_TABLE_thread, fill_thread, e) < 0 || export_thread_names(x, e) < 0
		   ? -1
		   : 0;
}

/* ---- the session and the machine ---- */

TABLE(meta_export, "META_DATA_EXPORT", "How this export was made", {"name", "TEXT", true, false, "Name"},
      {"value", "TEXT", false, false, "Value"});

TABLE(system_env, "TARGET_INFO_SYSTEM_ENV", "The machine", {"globalVid", "INTEGER", false, false, "0: this machine"},
      {"devStateName", "TEXT", true, false, "Device"}, {"name", "TEXT", true, false, "Property"},
      {"nameEnum", "INTEGER", true, false, "Number of the property"}, {"value", "TEXT", true, false, "Its value"});

TABLE(start_time, "TARGET_INFO_SESSION_START_TIME", "When the collection began",
      {"utcEpochNs", "INTEGER", false, false, "Nanoseconds since 1970"}, {"utcTime", "TEXT", false, false, "The same in UTC"},
      {"localTime", "TEXT", false, false, "The same in the local time of the machine"},
      {"systemClockNs", "INTEGER", false, false, "CLOCK_MONOTONIC_RAW at that moment (ns)"});

TABLE(details, "ANALYSIS_DETAILS", "The spans in which events were collected",
      {"globalVid", "INTEGER", true, false, "0: this machine"}, {"duration", "INTEGER", true, false, "Length (ns)"},
      {"startTime", "INTEGER", true, false, "Start (ns)"}, {"stopTime", "INTEGER", true, false, "End (ns)"});

TABLE(streams, "ProcessStreams", "What the target wrote to its standard streams",
      {"globalPid", "INTEGER", true, false, "Process: pid << 24"},
      {"filenameId", "INTEGER", true, false, "StringIds(id): which stream"},
      {"contentId", "INTEGER", true, false, "StringIds(id): its content"});

static int put_meta(struct ws_export *x, const char *name, const char *value, struct ws_err *e)
{
	return ws_export_row(x, (struct ws_xcell[]){ws_x_literal(name), ws_x_literal(value)}, e);
}

static void put_iso(char *out, size_t size, const char *format, time_t t)
{
	struct tm tm;

	if (!gmtime_r(&t, &tm) || !strftime(out, size, format, &tm))
		snprintf(out, size, "%lld", (long long)t);
}

static int export_meta(struct ws_export *x, struct ws_err *e)
{
	static const char *const fixed[][2] = {
	    {"EXPORT_PRODUCT_NAME", "warpsight"}, {"EXPORT_PRODUCT_VERSION", WS_VERSION}, {"EXPORT_SCHEMA_VERSION", "3.25.0"},
	    {"EXPORT_SCHEMA_VERSION_MAJOR", "3"}, {"EXPORT_SCHEMA_VERSION_MINOR", "25"},  {"EXPORT_SCHEMA_VERSION_MICRO", "0"},
	};
	char now[64];

	if (ws_export_table(x, &meta_export, e) < 0)
		return -1;
	for (size_t i = 0; i < WS_COUNT(fixed); i++)
		if (put_meta(x, fixed[i][0], fixed[i][1], e) < 0)
			return -1;
	put_iso(now, sizeof(now), "%Y-%m-%dT%H:%M:%S", time(NULL));
	if (put_meta(x, "EXPORT_TIME_UTC", now, e) < 0 || put_meta(x, "EXPORT_PARAM_EXPORT_TYPE", x->type, e) < 0 ||
	    ws_export_row(x, (struct ws_xcell[]){ws_x_literal("EXPORT_PARAM_INPUT_FILE"), ws_x_own(x, x->input)}, e) < 0)
		return -1;
	return ws_export_row(x, (struct ws_xcell[]){ws_x_literal("EXPORT_PARAM_OUTPUT_FILE"), ws_x_own(x, x->output)}, e);
}

static int export_system(struct ws_export *x, struct ws_err *e)
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

	if (ws_export_table(x, &system_env, e) < 0)
		return -1;
	for (size_t i = 0; i < WS_COUNT(map); i++) {
		const char *value = ws_meta(x->r, map[i].fact);
		struct ws_xcell cells[] = {ws_x_int(0), ws_x_literal("Local (CLI)"), ws_x_literal(map[i].name),
					   ws_x_int(map[i].number), ws_x_null()};

		if (!value)
			continue;
		cells[4] = ws_x_own(x, value);
		if (ws_export_row(x, cells, e) < 0)
			return -1;
	}
	return 0;
}

/* Offset of the machine's local time in seconds, from "...+0130" at the end of the session's start; 0 when not known. */
static long local_offset(struct ws_export *x)
{
	const char *s = ws_meta(x->r, "session.start_local");
	size_t n = s ? strlen(s) : 0;
	long hhmm;

	if (n < 5 || (s[n - 5] != '+' && s[n - 5] != '-'))
		return 0;
	hhmm = strtol(s + n - 4, NULL, 10);
	return (s[n - 5] == '-' ? -1 : 1) * (hhmm / 100 * 3600 + hhmm % 100 * 60);
}

/* Real time at the start of the collection, from the clock reading next to it; 0 when there is none. */
static uint64_t epoch_at_zero(struct ws_export *x)
{
	struct ws_cursor *c = ws_cursor_open(x->r, WS_TABLE_clock, 0, UINT64_MAX);
	uint64_t best = UINT64_MAX, epoch = 0;
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		uint64_t raw = v[ws_clock_raw], off = raw > x->zero ? raw - x->zero : x->zero - raw;

		if (off < best) {
			best = off;
			epoch = v[ws_clock_realtime] + (x->zero - raw);
		}
	}
	ws_cursor_close(c);
	return epoch;
}

static int export_start(struct ws_export *x, struct ws_err *e)
{
	uint64_t epoch = epoch_at_zero(x);
	char utc[64], local[64];

	if (ws_export_table(x, &start_time, e) < 0)
		return -1;
	if (!epoch)
		return 0;
	put_iso(utc, sizeof(utc), "%Y-%m-%dT%H:%M:%S", (time_t)(epoch / 1000000000));
	put_iso(local, sizeof(local), "%Y-%m-%dT%H:%M:%S", (time_t)(epoch / 1000000000) + local_offset(x));
	return ws_export_row(
	    x, (struct ws_xcell[]){ws_x_int((int64_t)epoch), ws_x_literal(utc), ws_x_literal(local), ws_x_int((int64_t)x->zero)},
	    e);
}

static int put_details(struct ws_export *x, uint64_t start, uint64_t end, struct ws_err *e)
{
	if (end == WS_NO_TIME) /* the recorder died: up to the last event */
		end = x->last > start ? x->last : start;
	return ws_export_row(
	    x, (struct ws_xcell[]){ws_x_int(0), ws_x_int((int64_t)(end - start)), ws_x_time(x, start), ws_x_time(x, end)}, e);
}

/* A recorder writes a span when it begins, and again with its end: of rows with one start, the one with an end counts. */
static int export_details(struct ws_export *x, struct ws_err *e)
{
	struct ws_cursor *c = ws_cursor_open(x->r, WS_TABLE_collection, 0, UINT64_MAX);
	uint64_t start = 0, end = 0;
	const uint64_t *v;
	bool pending = false;
	int rc = ws_export_table(x, &details, e);

	while (!rc && ws_cursor_next(c, &v)) {
		uint64_t this_end = v[ws_collection_end];

		if (pending && v[ws_collection_start] == start) {
			end = end == WS_NO_TIME || (this_end != WS_NO_TIME && this_end > end) ? this_end : end;
			continue;
		}
		if (pending)
			rc = put_details(x, start, end, e);
		start = v[ws_collection_start];
		end = this_end;
		pending = true;
	}
	if (pending && !rc)
		rc = put_details(x, start, end, e);
	ws_cursor_close(c);
	return rc;
}

/* The process that profile started: the first. */
static uint64_t target_pid(struct ws_export *x)
{
	return ws_who_processes(x->who) ? ws_who_process(x->who, 1)->pid : 0;
}

static int export_streams(struct ws_export *x, struct ws_err *e)
{
	struct ws_cursor *c = ws_cursor_open(x->r, WS_TABLE_output, 0, UINT64_MAX);
	struct ws_text content[2] = {{0}};
	bool seen[2] = {false};
	const uint64_t *v;
	uint64_t pid = target_pid(x);
	int rc = ws_export_table(x, &streams, e);

	while (ws_cursor_next(c, &v)) {
		int which = v[ws_output_stream] == 2;
		size_t len;
		const char *bytes = ws_report_string(x->r, (uint32_t)v[ws_output_bytes], &len);

		seen[which] = true;
		ws_text_add(&content[which], bytes, len);
	}
	ws_cursor_close(c);
	for (int i = 0; i < 2 && !rc; i++) {
		char *name = ws_format("pid_%" PRIu64 "_%s.log", pid, i ? "stderr" : "stdout");

		if (seen[i])
			rc = ws_export_row(x,
					   (struct ws_xcell[]){ws_x_int((int64_t)pid << 24), ws_x_extra(x, name, strlen(name)),
							       ws_x_extra(x, content[i].s, content[i].len)},
					   e);
		free(name);
	}
	ws_text_free(&content[0]);
	ws_text_free(&content[1]);
	return rc;
}

int ws_export_session(struct ws_export *x, struct ws_err *e)
{
	return export_meta(x, e) < 0 || export_system(x, e) < 0 || export_start(x, e) < 0 || export_details(x, e) < 0 ||
		       export_streams(x, e) < 0
		   ? -1
		   : 0;
}

/* ---- diagnostics ---- */

TABLE(diagnostics, "DIAGNOSTIC_EVENT", "What the user should know about the recording itself",
      {"timestamp", "INTEGER", true, false, "When (ns)"},
      {"timestampType", "INTEGER", true, false, "ENUM_DIAGNOSTIC_TIMESTAMP_SOURCE(id)"},
      {"source", "INTEGER", true, false, "ENUM_DIAGNOSTIC_SOURCE_TYPE(id)"},
      {"severity", "INTEGER", true, false, "ENUM_DIAGNOSTIC_SEVERITY_LEVEL(id)"}, {"text", "TEXT", true, false, "The message"},
      {"globalPid", "INTEGER", false, false, "Process it is about: pid << 24"});

enum { SOURCE_INJECTION = 1, SOURCE_DAEMON = 2, TIMESTAMP_TARGET = 1 };

static bool fill_diagnostic(struct ws_export *x, const uint64_t *v, struct ws_xcell *c)
{
	const char *source = ws_report_string(x->r, (uint32_t)v[ws_diagnostic_source], NULL);

	c[0] = ws_x_time(x, v[ws_diagnostic_start]);
	c[1] = ws_x_int(TIMESTAMP_TARGET);
	c[2] = ws_x_int(!strcmp(source, "osrt") || !strcmp(source, "nvtx") || !strcmp(source, "cuda") ? SOURCE_INJECTION
												      : SOURCE_DAEMON);
	c[3] = ws_x_int((int64_t)v[ws_diagnostic_severity]);
	c[4] = v[ws_diagnostic_text] ? ws_x_text(x, (uint32_t)v[ws_diagnostic_text]) : ws_x_literal("");
	c[5] = ws_x_process(x, v[ws_diagnostic_process]);
	return true;
}

int ws_export_diagnostics(struct ws_export *x, struct ws_err *e)
{
	return ws_export_rows(x, &diagnostics, WS_TABLE_diagnostic, fill_diagnostic, e);
}

/* ---- enumerations: the numbers that occur in this export, and what they mean ---- */

static const struct ws_x_meaning event_types[] = {
    {WS_NVTX_CATEGORY, "NvtxCategory", "NvtxCategory"},
    {WS_NVTX_MARK, "NvtxMark", "NvtxMark"},
    {WS_NVTX_THREAD, "NvtxThread", "NvtxThread"},
    {49, "Diagnostic", "Diagnostic"},
    {WS_NVTX_PUSHPOP, "NvtxPushPopRange", "NvtxPushPopRange"},
    {WS_NVTX_STARTEND, "NvtxStartEndRange", "NvtxStartEndRange"},
    {WS_NVTX_DOMAIN_CREATE, "NvtxDomainCreate", "NvtxDomainCreate"},
    {WS_NVTX_DOMAIN_DESTROY, "NvtxDomainDestroy", "NvtxDomainDestroy"},
    {85, "OS runtime libraries", "OS runtime libraries"},
    {0},
};
static const struct ws_x_meaning event_classes[] = {
	{0, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"},
	{1, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"},
	{27, "TRACE_PROCESS_EVENT_OS_RUNTIME", "OSRT runtime"},
	{77, "TRACE_PROCESS_EVENT_CUDA_GRAPH_NODE_CREATION", "CUDA graph node creation"},
	{94, "TRACE_PROCESS_EVENT_CUDA_GRAPHEXEC_CREATION", "CUDA graph exec creation"},
	{95, "TRACE_PROCESS_EVENT_CUDA_GRAPH_CREATION", "CUDA graph creation"},
	{96, "TRACE_PROCESS_EVENT_CUDA_GRAPH_CLONE", "CUDA graph clone"},
	{103, "TRACE_PROCESS_EVENT_CUDA_OVERHEAD", "CUDA overhead"},
	{0},
};
static const struct ws_x_meaning severities[] = {
    {WS_INFO, "Info", "Info"}, {WS_WARNING, "Warning", "Warning"}, {WS_ERROR, "Error", "Error"}, {0}};
static const struct ws_x_meaning sources[] = {{SOURCE_INJECTION, "Injection", "Injection"}, {SOURCE_DAEMON, "Daemon", "Daemon"}, {0}};
static const struct ws_x_meaning timestamps[] = {{TIMESTAMP_TARGET, "TargetTimestamp", "Target timestamp"}, {0}};
static const struct ws_x_meaning origins[] = {
    {WS_ORIGIN_TARGET, "Target", "Started by profile"},
    {WS_ORIGIN_EXEC, "Exec", "A new image: exec, posix_spawn"},
    {WS_ORIGIN_FORK, "Fork", "A forked child, running its parent's image"},
    {0},
};
static const struct ws_x_meaning ends[] = {
    {WS_END_EXIT, "Exit", "It ended"},
    {WS_END_EXEC, "Exec", "Another image replaced it"},
    {WS_END_RUNNING, "Running", "It was still running when the recording ended"},
    {0},
};

static const struct {
	const char *name, *doc;
	const struct ws_x_meaning *meanings;
} enums[] = {
    {"ENUM_NSYS_EVENT_TYPE", "What NVTX_EVENTS.eventType means", event_types},
    {"ENUM_NSYS_EVENT_CLASS", "What eventClass means", event_classes},
    {"ENUM_DIAGNOSTIC_SEVERITY_LEVEL", "What DIAGNOSTIC_EVENT.severity means", severities},
    {"ENUM_DIAGNOSTIC_SOURCE_TYPE", "What DIAGNOSTIC_EVENT.source means", sources},
    {"ENUM_DIAGNOSTIC_TIMESTAMP_SOURCE", "What DIAGNOSTIC_EVENT.timestampType means", timestamps},
    {"ENUM_WARPSIGHT_PROCESS_ORIGIN", "What WARPSIGHT_PROCESS.origin means", origins},
    {"ENUM_WARPSIGHT_PROCESS_END_REASON", "What WARPSIGHT_PROCESS_END.reason means", ends},
};

int ws_export_enum(struct ws_export *x, const char *name, const char *doc, const struct ws_x_meaning *m, struct ws_err *e)
{
	static const struct ws_xcolumn columns[] = {
		{"id", "INTEGER", true, true, "Number"},
		{"name", "TEXT", false, false, "Name"},
		{"label", "TEXT", false, false, "Name for people"},
	};
	struct ws_xtable t = {name, doc, columns, WS_COUNT(columns)};

	if (ws_export_table(x, &t, e) < 0)
		return -1;
	for (; m->name; m++)
		if (ws_export_row(x, (struct ws_xcell[]){ws_x_int(m->id), ws_x_literal(m->name), ws_x_literal(m->label)}, e) < 0)
			return -1;
	return 0;
}

int ws_export_enums(struct ws_export *x, struct ws_err *e)
{
	for (size_t i = 0; i < WS_COUNT(enums); i++)
		if (ws_export_enum(x, enums[i].name, enums[i].doc, enums[i].meanings, e) < 0)
			return -1;
	return ws_export_cuda_enums(x, e);
}
