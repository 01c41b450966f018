/* nsys_tables.c - tables of SQLite exports that are no plain copies: who, the session, NVTX, calls,
 * devices. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/nsys.h"
#include "base/choose.h"
#include "schema/foreign.h"

/* ---- processes and threads ---- */

static void remember_before(uint32_t **before, size_t *cap, uint32_t id, uint32_t older)
{
	size_t old = *cap;

	ws_grow(*before, *cap, (size_t)id + 1);
	memset(*before + old, 0, (*cap - old) * sizeof(**before));
	(*before)[id] = older;
}

/* WARPSIGHT_PROCESS of our exports: every image, with its number. */
static void read_images(struct ws_nsys *nsys, struct ws_map *ids)
{
	sqlite3_stmt *statement;
	int id, global, pid, parent, ppid, start, origin, exe, cmdline, name;

	if (!ws_nsys_has(nsys, "WARPSIGHT_PROCESS"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM WARPSIGHT_PROCESS ORDER BY id");
	id = ws_nsys_column(statement, "id"), global = ws_nsys_column(statement, "globalPid"),
	pid = ws_nsys_column(statement, "pid");
	parent = ws_nsys_column(statement, "parentId"),
	ppid = ws_nsys_column(statement, "parentPid"), start = ws_nsys_column(statement, "start");
	origin = ws_nsys_column(statement, "origin"), exe = ws_nsys_column(statement, "executable"),
	cmdline = ws_nsys_column(statement, "commandLine");
	name = ws_nsys_column(statement, "name");
	while (ws_nsys_step(nsys, statement, "WARPSIGHT_PROCESS")) {
		uint64_t number = (uint64_t)ws_nsys_int(statement, id, 0),
			 key = (uint64_t)ws_nsys_int(statement, global, 0);
		/* A key of its own for each image: several share a globalPid. */
		uint32_t new = ws_into_process(nsys->into, UINT64_C(1) << 63 | number,
					       (uint32_t)ws_nsys_int(statement, pid, 0));
		uint32_t older = (uint32_t)ws_map_get(&nsys->processes, key, NULL);
		struct ws_into_process *process = ws_into_process_of(nsys->into, new);

		process->vm = nsys->into->file_count > 1
				      ? (nsys->into->file & 0xff) << 8 | (key >> 48 & 0xff)
				      : (uint32_t)(key >> 48);
		process->parent = (uint32_t)ws_map_get(
			ids, (uint64_t)ws_nsys_int(statement, parent, 0), NULL);
		process->ppid = (uint32_t)ws_nsys_int(statement, ppid, 0);
		process->start = ws_nsys_time(nsys, statement, start);
		process->told = true;
		process->origin = (uint8_t)ws_nsys_int(statement, origin, 0);
		process->exe = ws_nsys_text(nsys, statement, exe);
		process->cmdline = ws_nsys_text(nsys, statement, cmdline);
		process->name = ws_nsys_text(nsys, statement, name);
		ws_map_set(ids, number, new);
		ws_map_set(&nsys->processes, key, new);
		remember_before(&nsys->process_before, &nsys->process_before_cap, new,
				older == new ? 0 : older);
	}
	sqlite3_finalize(statement);
	ws_nsys_done(nsys, "WARPSIGHT_PROCESS");
}

static void read_own_threads(struct ws_nsys *nsys, const struct ws_map *ids)
{
	sqlite3_stmt *statement;
	int process, tid, global, start;

	if (!ws_nsys_has(nsys, "WARPSIGHT_THREAD"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM WARPSIGHT_THREAD ORDER BY id");
	process = ws_nsys_column(statement, "processId"), tid = ws_nsys_column(statement, "tid"),
	global = ws_nsys_column(statement, "globalTid");
	start = ws_nsys_column(statement, "start");
	while (ws_nsys_step(nsys, statement, "WARPSIGHT_THREAD")) {
		uint32_t p = (uint32_t)ws_map_get(ids, (uint64_t)ws_nsys_int(statement, process, 0),
						  NULL),
			 new, older;
		uint64_t key = (uint64_t)ws_nsys_int(statement, global, 0);

		if (!p)
			p = ws_nsys_process(nsys, (int64_t)key, WS_NO_TIME);
		new = ws_into_thread(nsys->into, p, (uint64_t)ws_nsys_int(statement, tid, 0),
				     ws_nsys_time(nsys, statement, start));
		older = (uint32_t)ws_map_get(&nsys->threads, key, NULL);
		ws_map_set(&nsys->threads, key, new);
		remember_before(&nsys->thread_before, &nsys->thread_before_cap, new,
				older == new ? 0 : older);
	}
	sqlite3_finalize(statement);
	ws_nsys_done(nsys, "WARPSIGHT_THREAD");
}

static void read_processes(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement;
	int global, name;

	if (!ws_nsys_has(nsys, "PROCESSES"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM PROCESSES");
	global = ws_nsys_column(statement, "globalPid"), name = ws_nsys_column(statement, "name");
	while (ws_nsys_step(nsys, statement, "PROCESSES")) {
		uint32_t id = ws_nsys_process(nsys, ws_nsys_int(statement, global, 0), WS_NO_TIME);
		struct ws_into_process *process = ws_into_process_of(nsys->into, id);

		if (!process->name)
			process->name = ws_nsys_text(nsys, statement, name);
	}
	sqlite3_finalize(statement);
	ws_nsys_done(nsys, "PROCESSES");
}

static void read_thread_names(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement;
	int global, name, priority;

	if (!ws_nsys_has(nsys, "ThreadNames"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM ThreadNames");
	global = ws_nsys_column(statement, "globalTid"), name = ws_nsys_column(statement, "nameId"),
	priority = ws_nsys_column(statement, "priority");
	while (ws_nsys_step(nsys, statement, "ThreadNames")) {
		uint32_t id = ws_nsys_thread(nsys, ws_nsys_int(statement, global, 0), WS_NO_TIME);
		struct ws_into_thread *thread = ws_into_thread_of(nsys->into, id);
		int32_t p = (int32_t)ws_nsys_int(statement, priority, 0);

		if (!thread->name || p >= thread->priority) {
			thread->name = ws_nsys_text(nsys, statement, name);
			thread->priority = p;
		}
	}
	sqlite3_finalize(statement);
	ws_nsys_done(nsys, "ThreadNames");
}

void ws_nsys_who(struct ws_nsys *nsys)
{
	struct ws_map ids = {0};

	read_images(nsys, &ids);
	read_own_threads(nsys, &ids);
	ws_map_free(&ids);
	read_processes(nsys);
	read_thread_names(nsys);
}

/* ---- the session ---- */

static void read_collections(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement;
	int start, stop;

	if (!ws_nsys_has(nsys, "ANALYSIS_DETAILS"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM ANALYSIS_DETAILS");
	start = ws_nsys_column(statement, "startTime"),
	stop = ws_nsys_column(statement, "stopTime");
	while (ws_nsys_step(nsys, statement, "ANALYSIS_DETAILS")) {
		uint64_t from = ws_nsys_time(nsys, statement, start),
			 to = ws_nsys_time(nsys, statement, stop);
		struct ws_row_collection *row;

		if (from == WS_NO_TIME)
			continue;
		row = ws_into_row(nsys->into, WS_TABLE_collection);
		*row = (struct ws_row_collection){.start = from, .end = to};
		ws_into_time(nsys->into, from);
		nsys->into->collected = true;
	}
	sqlite3_finalize(statement);
	ws_nsys_done(nsys, "ANALYSIS_DETAILS");
}

/* Facts about the machine under the names that recordings of ours have. */
static const struct {
	const char *theirs, *ours;
} facts[] = {
	{"CpuCores", "cpu.count"},	    {"CpuArchitecture", "host.machine"},
	{"CpuDescription", "cpu.model"},    {"NvDriverVersion", "gpu.driver"},
	{"SoftwareVersion", "host.kernel"}, {"OsDescription", "host.os"},
	{"Hostname", "host.name"},
};

enum { MOST_FACT = 2048 };

/* Of our own exports: tables that are made of slices, rows and counters (into.h), which are read
 * where they stand themselves. */
static void skip_made_again(struct ws_nsys *nsys, const char *fact, const char *value)
{
	static const char *const metrics[] = {"GPU_METRICS", "NET_NIC_METRIC",
					      "NET_IB_SWITCH_METRIC"};
	size_t table = sizeof(WS_FOREIGN_TABLE_FACT) - 1;

	if (!strncmp(fact, WS_FOREIGN_TABLE_FACT, table) && value &&
	    ws_nsys_has(nsys, *value == 'S' ? "WARPSIGHT_SLICE" : "WARPSIGHT_FOREIGN"))
		ws_nsys_done(nsys, fact + table);
	if (!strncmp(fact, WS_FOREIGN_COUNTER_FACT, sizeof(WS_FOREIGN_COUNTER_FACT) - 1) &&
	    ws_nsys_has(nsys, "WARPSIGHT_COUNTER_VALUE"))
		for (size_t i = 0; i < WS_COUNT(metrics); i++)
			ws_nsys_done(nsys, metrics[i]);
}

static void read_facts(struct ws_nsys *nsys, const char *table, bool machine)
{
	sqlite3_stmt *statement;
	int name, value;

	if (!ws_nsys_has(nsys, table))
		return;
	statement = nsys->own && machine
			    ? NULL
			    : ws_nsys_select(nsys, "SELECT * FROM \"%w\"",
					     table); /* ours stand in META_DATA_CAPTURE too */
	name = ws_nsys_column(statement, "name"), value = ws_nsys_column(statement, "value");
	while (name >= 0 && value >= 0 && ws_nsys_step(nsys, statement, table)) {
		const char *key = (const char *)sqlite3_column_text(statement, name),
			   *text = (const char *)sqlite3_column_text(statement, value);
		int len = sqlite3_column_bytes(statement, value);
		char own[256];

		if (!key || !strcmp(key, "session.zero"))
			continue;
		if (nsys->own && !machine)
			skip_made_again(nsys, key, text);
		/* The environment of the machine is none of a report's business, and what is long
		 * is a list of no use here. */
		if (!nsys->own && strcasestr(key, "environment")) {
			ws_into_note(
				nsys->into,
				"%s: %.60s was left out: environment variables may hold secrets.",
				table, key);
			continue;
		}
		if (!nsys->own && len > MOST_FACT) {
			ws_into_note(nsys->into,
				     "%s: %.60s was left out: it is longer than %d bytes.", table,
				     key, MOST_FACT);
			continue;
		}
		snprintf(own, sizeof(own), "%s%s", machine ? "machine." : "", key);
		for (size_t i = 0; machine && i < WS_COUNT(facts); i++)
			if (!strcmp(key, facts[i].theirs))
				snprintf(own, sizeof(own), "%s", facts[i].ours);
		ws_into_meta(nsys->into, own, ws_text_or(text, ""), text ? (size_t)len : 0);
	}
	sqlite3_finalize(statement);
	ws_nsys_done(nsys, table);
}

static void read_output(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement;
	int global, file, content;

	if (!ws_nsys_has(nsys, "ProcessStreams"))
		return;
	statement =
		ws_nsys_select(nsys, "SELECT f.value AS file, p.* FROM ProcessStreams p LEFT JOIN "
				     "StringIds f ON f.id = p.filenameId");
	file = 0, global = ws_nsys_column(statement, "globalPid"),
	content = ws_nsys_column(statement, "contentId");
	while (ws_nsys_step(nsys, statement, "ProcessStreams")) {
		const char *name = (const char *)sqlite3_column_text(statement, file);
		struct ws_row_output *row;
		uint32_t bytes = ws_nsys_text(nsys, statement, content);
		int stream = name && strstr(name, "stderr")   ? 2
			     : name && strstr(name, "stdout") ? 1
							      : 0;
		int64_t key = ws_nsys_int(statement, global, 0);
		uint32_t process;

		if (!stream) {
			ws_into_note(nsys->into,
				     "ProcessStreams: files other than standard output and "
				     "error were left out.");
			continue;
		}
		process = key ? ws_nsys_process(nsys, key, WS_NO_TIME) : 0;
		row = ws_into_row(nsys->into, WS_TABLE_output);
		*row = (struct ws_row_output){.start = nsys->shift,
					      .stream = (uint8_t)stream,
					      .bytes = bytes,
					      .process = process};
	}
	sqlite3_finalize(statement);
	ws_nsys_done(nsys, "ProcessStreams");
}

static void read_diagnostics(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement;
	int time, source, severity, text, global;

	if (!ws_nsys_has(nsys, "DIAGNOSTIC_EVENT"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM DIAGNOSTIC_EVENT");
	time = ws_nsys_column(statement, "timestamp"), source = ws_nsys_column(statement, "source"),
	severity = ws_nsys_column(statement, "severity");
	text = ws_nsys_column(statement, "text"), global = ws_nsys_column(statement, "globalPid");
	while (ws_nsys_step(nsys, statement, "DIAGNOSTIC_EVENT")) {
		static const char *const sources[] = {"unknown", "cuda", "recorder",
						      "analysis"}; /* injection is any hook */
		int64_t from = ws_nsys_int(statement, source, 0),
			how = ws_nsys_int(statement, severity, WS_INFO);
		uint32_t string = ws_nsys_text(nsys, statement, text),
			 name = ws_into_text(nsys->into, sources[from >= 0 && from < 4 ? from : 0]);
		uint64_t at = ws_nsys_time(nsys, statement, time);
		uint32_t process =
			global >= 0 && sqlite3_column_type(statement, global) != SQLITE_NULL
				? ws_nsys_process(nsys, sqlite3_column_int64(statement, global), at)
				: 0;
		struct ws_row_diagnostic *row = ws_into_row(nsys->into, WS_TABLE_diagnostic);

		*row = (struct ws_row_diagnostic){
			.start = at == WS_NO_TIME ? nsys->shift : at,
			.severity = (uint8_t)(how >= WS_INFO && how <= WS_ERROR ? how : WS_INFO),
			.source = name,
			.process = process,
			.text = string};
	}
	sqlite3_finalize(statement);
	ws_nsys_done(nsys, "DIAGNOSTIC_EVENT");
}

/* In an import of several files each is a rank, by its place in the list. */
static void put_rank(struct ws_nsys *nsys)
{
	struct ws_row_rank *row;
	uint32_t source, process = 0;

	if (nsys->into->file_count < 2)
		return;
	/* The processes that used CUDA or MPI are the ranks; the first of them stands for the file.
	 */
	for (size_t i = nsys->into->written_processes; i < nsys->into->process_count && !process;
	     i++)
		process = (uint32_t)i + 1;
	if (!process)
		return;
	source = ws_into_text(nsys->into, nsys->into->path);
	row = ws_into_row(nsys->into, WS_TABLE_rank);
	*row = (struct ws_row_rank){.process = process,
				    .rank = nsys->into->file,
				    .world = nsys->into->file_count,
				    .source = source};
}

void ws_nsys_session(struct ws_nsys *nsys)
{
	static const char *const spent[] = {"META_DATA_EXPORT", "TARGET_INFO_SESSION_START_TIME"};

	read_collections(nsys);
	read_facts(nsys, "META_DATA_CAPTURE", false);
	read_facts(nsys, "TARGET_INFO_SYSTEM_ENV", true);
	read_output(nsys);
	read_diagnostics(nsys);
	put_rank(nsys);
	for (size_t i = 0; i < WS_COUNT(spent); i++)
		ws_nsys_done(nsys, spent[i]);
}

/* ---- NVTX ---- */

struct payload_column {
	const char *name;
	enum ws_nvtx_payload type;
};

static const struct payload_column payloads[] = {
	{"uint64Value", WS_NVTX_PAYLOAD_U64}, {"int64Value", WS_NVTX_PAYLOAD_I64},
	{"doubleValue", WS_NVTX_PAYLOAD_F64}, {"uint32Value", WS_NVTX_PAYLOAD_U32},
	{"int32Value", WS_NVTX_PAYLOAD_I32},  {"floatValue", WS_NVTX_PAYLOAD_F32},
};

static void read_payload(sqlite3_stmt *statement, const int *columns, struct ws_row_nvtx *row)
{
	for (size_t i = 0; i < WS_COUNT(payloads); i++) {
		double d;
		float f;

		if (columns[i] < 0 || sqlite3_column_type(statement, columns[i]) == SQLITE_NULL)
			continue;
		row->payload_type = payloads[i].type;
		d = sqlite3_column_double(statement, columns[i]);
		f = (float)d;
		if (payloads[i].type == WS_NVTX_PAYLOAD_F64)
			memcpy(&row->payload, &d, 8);
		else if (payloads[i].type == WS_NVTX_PAYLOAD_F32)
			memcpy(&row->payload, &f, 4);
		else
			row->payload = (uint64_t)sqlite3_column_int64(statement, columns[i]);
		if (payloads[i].type == WS_NVTX_PAYLOAD_I32)
			row->payload = (uint32_t)row->payload;
	}
}

static void read_nvtx(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement;
	int start, end, type, range, category, color, text, thread, end_thread, text_id, domain,
		binary, json, json_id;
	int payload[WS_COUNT(payloads)];

	if (!ws_nsys_has(nsys, "NVTX_EVENTS"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM NVTX_EVENTS");
	if (statement && !nsys->own)
		ws_nsys_say_missing(nsys, statement, "NVTX_EVENTS");
	start = ws_nsys_column(statement, "start"), end = ws_nsys_column(statement, "end"),
	type = ws_nsys_column(statement, "eventType");
	range = ws_nsys_column(statement, "rangeId"),
	category = ws_nsys_column(statement, "category"),
	color = ws_nsys_column(statement, "color");
	text = ws_nsys_column(statement, "text"), thread = ws_nsys_column(statement, "globalTid"),
	end_thread = ws_nsys_column(statement, "endGlobalTid");
	text_id = ws_nsys_column(statement, "textId"),
	domain = ws_nsys_column(statement, "domainId"),
	binary = ws_nsys_column(statement, "binaryData");
	json = ws_nsys_column(statement, "jsonText"),
	json_id = ws_nsys_column(statement, "jsonTextId");
	for (size_t i = 0; i < WS_COUNT(payloads); i++)
		payload[i] = ws_nsys_column(statement, payloads[i].name);
	while (ws_nsys_step(nsys, statement, "NVTX_EVENTS")) {
		struct ws_row_nvtx row = {.start = ws_nsys_time(nsys, statement, start),
					  .end = ws_nsys_time(nsys, statement, end)};
		int64_t tid = ws_nsys_int(statement, thread, 0),
			end_tid = ws_nsys_int(statement, end_thread, 0);

		row.thread = tid ? ws_nsys_thread(nsys, tid, row.start) : 0;
		row.end_thread =
			end_tid && end_tid != tid ? ws_nsys_thread(nsys, end_tid, row.end) : 0;
		row.type = (uint8_t)ws_nsys_int(statement, type, 0);
		row.range_id = (uint64_t)ws_nsys_int(statement, range, 0);
		row.category = (uint32_t)ws_nsys_int(statement, category, 0);
		row.domain = (uint32_t)ws_nsys_int(statement, domain, 0);
		if (color >= 0 && sqlite3_column_type(statement, color) != SQLITE_NULL) {
			row.color = (uint32_t)sqlite3_column_int64(statement, color);
			row.flags |= WS_NVTX_HAS_COLOR;
		}
		row.text = ws_nsys_text(nsys, statement, text);
		if (!row.text) {
			row.text = ws_nsys_text(nsys, statement, text_id);
			row.flags |= row.text ? WS_NVTX_REGISTERED : 0;
		}
		if (row.end == WS_NO_TIME &&
		    (row.type == WS_NVTX_PUSHPOP || row.type == WS_NVTX_STARTEND))
			row.flags |= WS_NVTX_LEFT_OPEN;
		read_payload(statement, payload, &row);
		row.binary = ws_nsys_text(nsys, statement, binary);
		if (!row.binary) /* payloads as JSON: kept in their place */
			row.binary = ws_nsys_text(nsys, statement, json);
		if (!row.binary)
			row.binary = ws_nsys_text(nsys, statement, json_id);
		if (row.binary && !row.payload_type)
			row.payload_type = WS_NVTX_PAYLOAD_EXT;
		*(struct ws_row_nvtx *)ws_into_row(nsys->into, WS_TABLE_nvtx) = row;
		ws_into_time(nsys->into, row.start);
		if (row.end != WS_NO_TIME)
			ws_into_time(nsys->into, row.end);
	}
	sqlite3_finalize(statement);
	ws_nsys_done(nsys, "NVTX_EVENTS");
}

/* ---- calls of the OS runtime, with the details that our exports keep apart ---- */

/* Both tables are in the order of the export: the details of a call follow those of the calls
 * before it. */
struct details {
	sqlite3_stmt *statement;
	int holder;
	bool more; /* a row is there */
};

static void begin_details(struct ws_nsys *nsys, struct details *details)
{
	*details = (struct details){.holder = -1};
	if (!ws_nsys_has(nsys, "WARPSIGHT_OSRT_DETAIL"))
		return;
	details->statement =
		ws_nsys_select(nsys, "SELECT start, globalTid, nameId, error, object, path, * FROM "
				     "WARPSIGHT_OSRT_DETAIL");
	details->holder =
		ws_nsys_column(details->statement, "holderGlobalTid"); /* newer than the others */
	details->more = ws_nsys_step(nsys, details->statement, "WARPSIGHT_OSRT_DETAIL");
}

/* Fill in what there is of the call that began then, on that thread, of that name. */
static void take_details(struct ws_nsys *nsys, struct details *details, int64_t start,
			 int64_t thread, int64_t name, struct ws_row_osrt *row)
{
	if (!details->more || sqlite3_column_int64(details->statement, 0) != start ||
	    sqlite3_column_int64(details->statement, 1) != thread ||
	    sqlite3_column_int64(details->statement, 2) != name)
		return;
	row->error = (int32_t)sqlite3_column_int64(details->statement, 3);
	row->object = (uint64_t)sqlite3_column_int64(details->statement, 4);
	row->path = ws_nsys_text(nsys, details->statement, 5);
	row->holder = (uint32_t)(ws_nsys_int(details->statement, details->holder, 0) & 0xffffff);
	details->more = ws_nsys_step(nsys, details->statement, "WARPSIGHT_OSRT_DETAIL");
}

static void read_osrt(struct ws_nsys *nsys, const struct ws_map *chains)
{
	sqlite3_stmt *statement;
	int start, end, thread, name, result, nesting, chain;
	struct details details;

	if (!ws_nsys_has(nsys, "OSRT_API"))
		return;
	begin_details(nsys, &details);
	statement = ws_nsys_select(nsys, "SELECT * FROM OSRT_API");
	if (statement && !nsys->own)
		ws_nsys_say_missing(nsys, statement, "OSRT_API");
	start = ws_nsys_column(statement, "start"), end = ws_nsys_column(statement, "end"),
	thread = ws_nsys_column(statement, "globalTid");
	name = ws_nsys_column(statement, "nameId"),
	result = ws_nsys_column(statement, "returnValue"),
	nesting = ws_nsys_column(statement, "nestingLevel");
	chain = ws_nsys_column(statement, "callchainId");
	while (ws_nsys_step(nsys, statement, "OSRT_API")) {
		struct ws_row_osrt row = {.start = ws_nsys_time(nsys, statement, start),
					  .end = ws_nsys_time(nsys, statement, end),
					  .callchain = WS_NO_U32};
		uint64_t stack =
			ws_map_get(chains, (uint64_t)ws_nsys_int(statement, chain, 0), NULL);

		row.thread = ws_nsys_thread(nsys, ws_nsys_int(statement, thread, 0), row.start);
		row.name = ws_nsys_text(nsys, statement, name);
		row.result = ws_nsys_int(statement, result, 0);
		row.nesting = (uint32_t)ws_nsys_int(statement, nesting, 0);
		if (nsys->own) /* WARPSIGHT_STACK keeps its numbers */
			stack = (uint64_t)ws_nsys_int(statement, chain, 0);
		if (stack)
			row.callchain = (uint32_t)stack;
		take_details(nsys, &details, ws_nsys_int(statement, start, 0),
			     ws_nsys_int(statement, thread, 0), ws_nsys_int(statement, name, 0),
			     &row);
		*(struct ws_row_osrt *)ws_into_row(nsys->into, WS_TABLE_osrt) = row;
		ws_into_time(nsys->into, row.start);
		if (row.end != WS_NO_TIME)
			ws_into_time(nsys->into, row.end);
	}
	if (details.more)
		ws_into_note(nsys->into,
			     "WARPSIGHT_OSRT_DETAIL is not in the order of OSRT_API: some "
			     "details were left out.");
	sqlite3_finalize(statement);
	sqlite3_finalize(details.statement);
	ws_nsys_done(nsys, "OSRT_API");
	ws_nsys_done(nsys, "WARPSIGHT_OSRT_DETAIL");
}

/* ---- CUDA ---- */

/* Events recorded have no time in older exports: theirs is that of the call. */
static void fix_event(struct ws_nsys *nsys, sqlite3_stmt *statement, void *row)
{
	struct ws_row_cuda_event *row_cuda_event = row;
	bool found;
	uint64_t call = ws_map_get(&nsys->event_calls, row_cuda_event->correlation, &found);

	(void)statement;
	row_cuda_event->start = row_cuda_event->time != WS_NO_TIME ? row_cuda_event->time
				: found				   ? call
								   : nsys->shift;
}

static bool has_columns(struct ws_nsys *nsys, const char *table, const char *one, const char *other)
{
	sqlite3_stmt *statement =
		ws_nsys_has(nsys, table) ? ws_nsys_select(nsys, "SELECT * FROM %s", table) : NULL;
	bool found = ws_nsys_column(statement, one) >= 0 && ws_nsys_column(statement, other) >= 0;

	sqlite3_finalize(statement);
	return found;
}

static void read_cuda_events(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement = NULL;

	if (!ws_nsys_has(nsys, "CUPTI_ACTIVITY_KIND_CUDA_EVENT"))
		return;
	nsys->event_calls = (struct ws_map){0};
	if (has_columns(nsys, "CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId", "start") &&
	    has_columns(nsys, "CUPTI_ACTIVITY_KIND_CUDA_EVENT", "correlationId", "correlationId"))
		statement = ws_nsys_select(
			nsys, "SELECT correlationId, start FROM "
			      "CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId IN "
			      "(SELECT correlationId FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT)");
	while (ws_nsys_step(nsys, statement, "CUPTI_ACTIVITY_KIND_RUNTIME"))
		ws_map_set(&nsys->event_calls, (uint32_t)sqlite3_column_int64(statement, 0),
			   ws_nsys_time(nsys, statement, 1));
	sqlite3_finalize(statement);
	ws_nsys_generic(nsys, WS_TABLE_cuda_event, NULL, NULL, fix_event);
	ws_map_free(&nsys->event_calls);
	nsys->event_calls = (struct ws_map){0};
}

/* Contexts and streams name their process by its bare pid. */
static uint32_t plain_process(struct ws_nsys *nsys, sqlite3_stmt *statement)
{
	uint64_t pid = (uint64_t)ws_nsys_int(statement, ws_nsys_column(statement, "processId"), 0) &
		       0xffffff;
	uint64_t vm = (uint64_t)ws_nsys_int(statement, ws_nsys_column(statement, "vmId"), 0) & 0xff;
	uint64_t hw = (uint64_t)ws_nsys_int(statement, ws_nsys_column(statement, "hwId"), 0) & 0xff,
		 key = hw << 56 | vm << 48 | pid << 24;

	if (!pid)
		return 0;
	/* vmId is not always what globalPid has: any process with the pid will do. */
	for (size_t i = nsys->into->process_count;
	     i > nsys->into->written_processes && !ws_map_get(&nsys->processes, key, NULL); i--)
		if (nsys->into->processes[i - 1].pid == pid)
			return (uint32_t)i;
	return ws_nsys_process(nsys, (int64_t)key, WS_NO_TIME);
}

static void fix_context(struct ws_nsys *nsys, sqlite3_stmt *statement, void *row)
{
	struct ws_row_cuda_context *row_cuda_context = row;

	row_cuda_context->process = plain_process(nsys, statement);
	row_cuda_context->start = nsys->shift;
}

static void fix_stream(struct ws_nsys *nsys, sqlite3_stmt *statement, void *row)
{
	struct ws_row_cuda_stream *row_cuda_stream = row;

	row_cuda_stream->process = plain_process(nsys, statement);
	row_cuda_stream->start = nsys->shift;
	row_cuda_stream->correlation = WS_NO_U32;
}

/* The devices as every process that used CUDA saw them: a row of the export for each. */
static void add_cuda_process(struct ws_nsys *nsys, uint32_t id)
{
	for (size_t i = 0; i < nsys->cuda_process_count; i++)
		if (nsys->cuda_processes[i] == id)
			return;
	if (!id || nsys->cuda_process_count == 4096)
		return;
	ws_grow(nsys->cuda_processes, nsys->cuda_process_cap, nsys->cuda_process_count + 1);
	nsys->cuda_processes[nsys->cuda_process_count++] = id;
}

static void find_cuda_processes(struct ws_nsys *nsys)
{
	static const char *const work[] = {"CUPTI_ACTIVITY_KIND_KERNEL",
					   "CUPTI_ACTIVITY_KIND_MEMCPY",
					   "CUPTI_ACTIVITY_KIND_MEMSET"};
	sqlite3_stmt *statement;

	nsys->cuda_process_count = 0;
	if (ws_nsys_has(nsys, "TARGET_INFO_CUDA_CONTEXT_INFO")) {
		statement = ws_nsys_select(nsys, "SELECT * FROM TARGET_INFO_CUDA_CONTEXT_INFO");
		while (ws_nsys_step(nsys, statement, "TARGET_INFO_CUDA_CONTEXT_INFO"))
			add_cuda_process(nsys, plain_process(nsys, statement));
		sqlite3_finalize(statement);
	}
	for (size_t i = 0; i < WS_COUNT(work); i++) {
		if (!ws_nsys_has(nsys, work[i]))
			continue;
		statement = ws_nsys_select(nsys, "SELECT * FROM \"%w\" LIMIT 0", work[i]);
		if (ws_nsys_column(statement, "globalPid") >= 0) {
			sqlite3_finalize(statement);
			statement = ws_nsys_select(nsys, "SELECT DISTINCT globalPid FROM \"%w\"",
						   work[i]);
			while (ws_nsys_step(nsys, statement, work[i]))
				if (sqlite3_column_int64(statement, 0)) /* null: not told */
					add_cuda_process(
						nsys,
						ws_nsys_process(nsys,
								sqlite3_column_int64(statement, 0),
								WS_NO_TIME));
		}
		sqlite3_finalize(statement);
	}
}

static uint32_t process_of_pid(struct ws_nsys *nsys, uint64_t pid)
{
	for (size_t i = nsys->into->process_count; i > nsys->into->written_processes; i--)
		if (nsys->into->processes[i - 1].pid == pid)
			return (uint32_t)i;
	return ws_nsys_process(nsys, (int64_t)(pid << 24), WS_NO_TIME);
}

/*
 * TARGET_INFO_CUDA_DEVICE says which processes saw the GPU, by which numbers: a row for each, the
 * last of them in *d for the caller to add. False where it says nothing.
 */
static bool number_devices(struct ws_nsys *nsys, int64_t gpu, struct ws_row_cuda_device *row)
{
	sqlite3_stmt *statement;
	int id, pid;
	bool any = false;

	if (!ws_nsys_has(nsys, "TARGET_INFO_CUDA_DEVICE"))
		return false;
	statement = ws_nsys_select(nsys, "SELECT * FROM TARGET_INFO_CUDA_DEVICE WHERE gpuId = %lld",
				   (long long)gpu);
	id = ws_nsys_column(statement, "cudaId"), pid = ws_nsys_column(statement, "pid");
	while (id >= 0 && pid >= 0 && ws_nsys_step(nsys, statement, "TARGET_INFO_CUDA_DEVICE")) {
		if (any)
			*(struct ws_row_cuda_device *)ws_into_row(nsys->into,
								  WS_TABLE_cuda_device) = *row;
		row->id = (uint32_t)ws_nsys_int(statement, id, 0);
		row->process =
			process_of_pid(nsys, (uint64_t)ws_nsys_int(statement, pid, 0) & 0xffffff);
		any = true;
	}
	sqlite3_finalize(statement);
	if (any)
		ws_nsys_done(nsys, "TARGET_INFO_CUDA_DEVICE");
	return any;
}

static void fix_device(struct ws_nsys *nsys, sqlite3_stmt *statement, void *row)
{
	struct ws_row_cuda_device *row_cuda_device = row;
	int discrete = ws_nsys_column(statement, "isDiscrete"),
	    id = ws_nsys_column(statement, "cuDevice");

	row_cuda_device->start = nsys->shift;
	row_cuda_device->integrated = ws_nsys_int(statement, discrete, 1) == 0;
	row_cuda_device->visible = 1;
	if (id < 0 || sqlite3_column_type(statement, id) ==
			      SQLITE_NULL) /* older: the GPU's number in the machine */
		row_cuda_device->id =
			(uint32_t)ws_nsys_int(statement, ws_nsys_column(statement, "id"), 0);
	if (number_devices(nsys, ws_nsys_int(statement, ws_nsys_column(statement, "id"), 0),
			   row_cuda_device))
		return;
	/* All but the last process here; the caller adds the row for that. */
	for (size_t i = 0; i + 1 < nsys->cuda_process_count; i++) {
		row_cuda_device->process = nsys->cuda_processes[i];
		*(struct ws_row_cuda_device *)ws_into_row(nsys->into, WS_TABLE_cuda_device) =
			*row_cuda_device;
	}
	row_cuda_device->process =
		nsys->cuda_process_count ? nsys->cuda_processes[nsys->cuda_process_count - 1] : 0;
}

static void read_devices(struct ws_nsys *nsys)
{
	find_cuda_processes(nsys);
	ws_nsys_generic(nsys, WS_TABLE_cuda_device, NULL, NULL, fix_device);
	ws_nsys_generic(nsys, WS_TABLE_cuda_context, NULL, NULL, fix_context);
	ws_nsys_generic(nsys, WS_TABLE_cuda_stream, NULL, NULL, fix_stream);
	free(nsys->cuda_processes);
	nsys->cuda_processes = NULL;
	nsys->cuda_process_cap = nsys->cuda_process_count = 0;
}

void ws_nsys_events(struct ws_nsys *nsys)
{
	struct ws_map cuda = {0}, osrt = {0};

	if (nsys->own)
		ws_nsys_skip_made(nsys);
	ws_nsys_chains(nsys, "CUDA_CALLCHAINS", &cuda);
	ws_nsys_chains(nsys, "OSRT_CALLCHAINS", &osrt);
	read_nvtx(nsys);
	read_osrt(nsys, &osrt);
	read_cuda_events(nsys);
	ws_nsys_generic(nsys, WS_TABLE_cuda_api, NULL, nsys->own ? NULL : &cuda, NULL);
	read_devices(nsys);
	ws_map_free(&cuda);
	ws_map_free(&osrt);
}
