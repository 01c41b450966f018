/* nsys_tables.c - tables of SQLite exports that are not plain copies: processes and threads, the
 * session, NVTX, calls of the OS runtime, CUDA events and devices. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/nsys.h"
#include "base/choose.h"
#include "schema/foreign.h"

/* ---- processes and threads ---- */

/* Record in an array by id that `older` (0 for none) had the same number before `id`. */
static void set_older(uint32_t **before, size_t *cap, uint32_t id, uint32_t older)
{
	size_t old = *cap;

	if (older == id)
		older = 0;
	ws_grow(*before, *cap, (size_t)id + 1);
	memset(*before + old, 0, (*cap - old) * sizeof(**before));
	(*before)[id] = older;
}

/* WARPSIGHT_PROCESS of our exports: every image. `ids` maps their numbers to ids here. */
static void read_images(struct ws_nsys *nsys, struct ws_map *ids)
{
	sqlite3_stmt *statement;
	int id, global, pid, parent, ppid, start, origin, exe, cmdline, name;

	if (!ws_nsys_has_unread(nsys, "WARPSIGHT_PROCESS"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM WARPSIGHT_PROCESS ORDER BY id");
	id = ws_nsys_find_column(statement, "id"),
	global = ws_nsys_find_column(statement, "globalPid"),
	pid = ws_nsys_find_column(statement, "pid");
	parent = ws_nsys_find_column(statement, "parentId"),
	ppid = ws_nsys_find_column(statement, "parentPid"),
	start = ws_nsys_find_column(statement, "start");
	origin = ws_nsys_find_column(statement, "origin"),
	exe = ws_nsys_find_column(statement, "executable"),
	cmdline = ws_nsys_find_column(statement, "commandLine");
	name = ws_nsys_find_column(statement, "name");
	while (ws_nsys_step_row(nsys, statement, "WARPSIGHT_PROCESS")) {
		uint64_t number = (uint64_t)ws_nsys_get_int(statement, id, 0),
			 key = (uint64_t)ws_nsys_get_int(statement, global, 0);
		/* A key of its own for each image: several share a globalPid. */
		uint32_t new =
			ws_importer_intern_process(nsys->importer, UINT64_C(1) << 63 | number,
						   (uint32_t)ws_nsys_get_int(statement, pid, 0));
		uint32_t older = (uint32_t)ws_map_get(&nsys->processes, key, NULL);
		struct ws_import_process *process = ws_importer_get_process(nsys->importer, new);

		process->vm = ws_nsys_get_vm(nsys, key);
		process->parent = (uint32_t)ws_map_get(
			ids, (uint64_t)ws_nsys_get_int(statement, parent, 0), NULL);
		process->ppid = (uint32_t)ws_nsys_get_int(statement, ppid, 0);
		process->start = ws_nsys_get_time(nsys, statement, start);
		process->start_known = true;
		process->origin = (uint8_t)ws_nsys_get_int(statement, origin, 0);
		process->exe = ws_nsys_get_text(nsys, statement, exe);
		process->cmdline = ws_nsys_get_text(nsys, statement, cmdline);
		process->name = ws_nsys_get_text(nsys, statement, name);
		ws_map_set(ids, number, new);
		ws_map_set(&nsys->processes, key, new);
		set_older(&nsys->process_before, &nsys->process_before_cap, new, older);
	}
	sqlite3_finalize(statement);
	ws_nsys_mark_done(nsys, "WARPSIGHT_PROCESS");
}

static void read_own_threads(struct ws_nsys *nsys, const struct ws_map *ids)
{
	sqlite3_stmt *statement;
	int process, tid, global, start;

	if (!ws_nsys_has_unread(nsys, "WARPSIGHT_THREAD"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM WARPSIGHT_THREAD ORDER BY id");
	process = ws_nsys_find_column(statement, "processId"),
	tid = ws_nsys_find_column(statement, "tid"),
	global = ws_nsys_find_column(statement, "globalTid");
	start = ws_nsys_find_column(statement, "start");
	while (ws_nsys_step_row(nsys, statement, "WARPSIGHT_THREAD")) {
		uint32_t owner = (uint32_t)ws_map_get(
				 ids, (uint64_t)ws_nsys_get_int(statement, process, 0), NULL),
			 new, older;
		uint64_t key = (uint64_t)ws_nsys_get_int(statement, global, 0);

		if (!owner)
			owner = ws_nsys_find_process(nsys, (int64_t)key, WS_NO_TIME);
		new = ws_importer_intern_thread(nsys->importer, owner,
						(uint64_t)ws_nsys_get_int(statement, tid, 0),
						ws_nsys_get_time(nsys, statement, start));
		older = (uint32_t)ws_map_get(&nsys->threads, key, NULL);
		ws_map_set(&nsys->threads, key, new);
		set_older(&nsys->thread_before, &nsys->thread_before_cap, new, older);
	}
	sqlite3_finalize(statement);
	ws_nsys_mark_done(nsys, "WARPSIGHT_THREAD");
}

static void read_processes(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement;
	int global, name;

	if (!ws_nsys_has_unread(nsys, "PROCESSES"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM PROCESSES");
	global = ws_nsys_find_column(statement, "globalPid"),
	name = ws_nsys_find_column(statement, "name");
	while (ws_nsys_step_row(nsys, statement, "PROCESSES")) {
		uint32_t id = ws_nsys_find_process(nsys, ws_nsys_get_int(statement, global, 0),
						   WS_NO_TIME);
		struct ws_import_process *process = ws_importer_get_process(nsys->importer, id);

		if (!process->name)
			process->name = ws_nsys_get_text(nsys, statement, name);
	}
	sqlite3_finalize(statement);
	ws_nsys_mark_done(nsys, "PROCESSES");
}

static void read_thread_names(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement;
	int global, name, priority;

	if (!ws_nsys_has_unread(nsys, "ThreadNames"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM ThreadNames");
	global = ws_nsys_find_column(statement, "globalTid"),
	name = ws_nsys_find_column(statement, "nameId"),
	priority = ws_nsys_find_column(statement, "priority");
	while (ws_nsys_step_row(nsys, statement, "ThreadNames")) {
		uint32_t id = ws_nsys_find_thread(nsys, ws_nsys_get_int(statement, global, 0),
						  WS_NO_TIME);
		struct ws_import_thread *thread = ws_importer_get_thread(nsys->importer, id);
		int32_t rank = (int32_t)ws_nsys_get_int(statement, priority, 0);

		if (!thread->name || rank >= thread->priority) {
			thread->name = ws_nsys_get_text(nsys, statement, name);
			thread->priority = rank;
		}
	}
	sqlite3_finalize(statement);
	ws_nsys_mark_done(nsys, "ThreadNames");
}

void ws_nsys_read_processes(struct ws_nsys *nsys)
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

	if (!ws_nsys_has_unread(nsys, "ANALYSIS_DETAILS"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM ANALYSIS_DETAILS");
	start = ws_nsys_find_column(statement, "startTime"),
	stop = ws_nsys_find_column(statement, "stopTime");
	while (ws_nsys_step_row(nsys, statement, "ANALYSIS_DETAILS")) {
		uint64_t from = ws_nsys_get_time(nsys, statement, start),
			 to = ws_nsys_get_time(nsys, statement, stop);
		struct ws_row_collection *row;

		if (from == WS_NO_TIME)
			continue;
		row = ws_importer_add_row(nsys->importer, WS_TABLE_collection);
		*row = (struct ws_row_collection){.start = from, .end = to};
		ws_importer_include_time(nsys->importer, from);
		nsys->importer->has_collection = true;
	}
	sqlite3_finalize(statement);
	ws_nsys_mark_done(nsys, "ANALYSIS_DETAILS");
}

/* Facts about the machine, and their names in our own recordings. */
static const struct {
	const char *theirs, *ours;
} facts[] = {
	{"CpuCores", "cpu.count"},	    {"CpuArchitecture", "host.machine"},
	{"CpuDescription", "cpu.model"},    {"NvDriverVersion", "gpu.driver"},
	{"SoftwareVersion", "host.kernel"}, {"OsDescription", "host.os"},
	{"Hostname", "host.name"},
};

enum { MOST_FACT = 2048 };

/* Skip the tables of our own exports that were made again from slices, rows and counters, since
 * those are read from their own tables. */
static void skip_derived_tables(struct ws_nsys *nsys, const char *fact, const char *value)
{
	static const char *const metrics[] = {"GPU_METRICS", "NET_NIC_METRIC",
					      "NET_IB_SWITCH_METRIC"};
	size_t table = sizeof(WS_FOREIGN_TABLE_FACT) - 1;

	if (!strncmp(fact, WS_FOREIGN_TABLE_FACT, table) && value &&
	    ws_nsys_has_unread(nsys, *value == 'S' ? "WARPSIGHT_SLICE" : "WARPSIGHT_FOREIGN"))
		ws_nsys_mark_done(nsys, fact + table);
	if (!strncmp(fact, WS_FOREIGN_COUNTER_FACT, sizeof(WS_FOREIGN_COUNTER_FACT) - 1) &&
	    ws_nsys_has_unread(nsys, "WARPSIGHT_COUNTER_VALUE"))
		for (size_t i = 0; i < WS_COUNT(metrics); i++)
			ws_nsys_mark_done(nsys, metrics[i]);
}

static void read_facts(struct ws_nsys *nsys, const char *table, bool machine)
{
	sqlite3_stmt *statement = NULL;
	int name, value;

	if (!ws_nsys_has_unread(nsys, table))
		return;
	if (!(nsys->is_own_export && machine)) /* our own facts are in META_DATA_CAPTURE too */
		statement = ws_nsys_select(nsys, "SELECT * FROM \"%w\"", table);
	name = ws_nsys_find_column(statement, "name"),
	value = ws_nsys_find_column(statement, "value");
	while (name >= 0 && value >= 0 && ws_nsys_step_row(nsys, statement, table)) {
		const char *key = (const char *)sqlite3_column_text(statement, name),
			   *text = (const char *)sqlite3_column_text(statement, value);
		int length = sqlite3_column_bytes(statement, value);
		char own[256];

		if (!key || !strcmp(key, "session.zero"))
			continue;
		if (nsys->is_own_export && !machine)
			skip_derived_tables(nsys, key, text);
		/* The machine's environment does not belong in a report, and long facts are lists
		 * that are of no use here. */
		if (!nsys->is_own_export && strcasestr(key, "environment")) {
			ws_importer_add_note(
				nsys->importer,
				"%s: %.60s was left out: environment variables may hold secrets.",
				table, key);
			continue;
		}
		if (!nsys->is_own_export && length > MOST_FACT) {
			ws_importer_add_note(nsys->importer,
					     "%s: %.60s was left out: it is longer than %d bytes.",
					     table, key, MOST_FACT);
			continue;
		}
		snprintf(own, sizeof(own), "%s%s", machine ? "machine." : "", key);
		for (size_t i = 0; machine && i < WS_COUNT(facts); i++)
			if (!strcmp(key, facts[i].theirs))
				snprintf(own, sizeof(own), "%s", facts[i].ours);
		ws_importer_add_fact(nsys->importer, own, ws_text_or(text, ""), (size_t)length);
	}
	sqlite3_finalize(statement);
	ws_nsys_mark_done(nsys, table);
}

/* Number of the standard stream that a file of the export stands for; 0 for another file. */
static uint8_t recognise_stream(const char *name)
{
	if (name && strstr(name, "stderr"))
		return 2;
	if (name && strstr(name, "stdout"))
		return 1;
	return 0;
}

static void read_output(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement;
	int global, file, content;

	if (!ws_nsys_has_unread(nsys, "ProcessStreams"))
		return;
	statement =
		ws_nsys_select(nsys, "SELECT f.value AS file, p.* FROM ProcessStreams p LEFT JOIN "
				     "StringIds f ON f.id = p.filenameId");
	file = 0, global = ws_nsys_find_column(statement, "globalPid"),
	content = ws_nsys_find_column(statement, "contentId");
	while (ws_nsys_step_row(nsys, statement, "ProcessStreams")) {
		const char *name = (const char *)sqlite3_column_text(statement, file);
		struct ws_row_output *row;
		uint32_t bytes = ws_nsys_get_text(nsys, statement, content);
		uint8_t stream = recognise_stream(name);
		int64_t key = ws_nsys_get_int(statement, global, 0);
		uint32_t process = 0;

		if (!stream) {
			ws_importer_add_note(nsys->importer,
					     "ProcessStreams: files other than standard output and "
					     "error were left out.");
			continue;
		}
		if (key)
			process = ws_nsys_find_process(nsys, key, WS_NO_TIME);
		row = ws_importer_add_row(nsys->importer, WS_TABLE_output);
		*row = (struct ws_row_output){
			.start = nsys->shift, .stream = stream, .bytes = bytes, .process = process};
	}
	sqlite3_finalize(statement);
	ws_nsys_mark_done(nsys, "ProcessStreams");
}

static void read_diagnostics(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement;
	int time, source, severity, text, global;

	if (!ws_nsys_has_unread(nsys, "DIAGNOSTIC_EVENT"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM DIAGNOSTIC_EVENT");
	time = ws_nsys_find_column(statement, "timestamp"),
	source = ws_nsys_find_column(statement, "source"),
	severity = ws_nsys_find_column(statement, "severity");
	text = ws_nsys_find_column(statement, "text"),
	global = ws_nsys_find_column(statement, "globalPid");
	while (ws_nsys_step_row(nsys, statement, "DIAGNOSTIC_EVENT")) {
		/* Indexed by the export's numbers; 1 is the injection library, which stands for any
		 * hook. */
		static const char *const sources[] = {"unknown", "cuda", "recorder", "analysis"};
		int64_t from = ws_nsys_get_int(statement, source, 0),
			how = ws_nsys_get_int(statement, severity, WS_INFO);
		uint32_t string = ws_nsys_get_text(nsys, statement, text), name, process = 0;
		uint64_t at = ws_nsys_get_time(nsys, statement, time);
		struct ws_row_diagnostic *row;

		if (from < 0 || from >= (int64_t)WS_COUNT(sources))
			from = 0;
		if (how < WS_INFO || how > WS_ERROR)
			how = WS_INFO;
		name = ws_importer_add_text(nsys->importer, sources[from]);
		if (ws_nsys_has_value(statement, global))
			process = ws_nsys_find_process(nsys,
						       sqlite3_column_int64(statement, global), at);
		if (at == WS_NO_TIME)
			at = nsys->shift;
		row = ws_importer_add_row(nsys->importer, WS_TABLE_diagnostic);
		*row = (struct ws_row_diagnostic){.start = at,
						  .severity = (uint8_t)how,
						  .source = name,
						  .process = process,
						  .text = string};
	}
	sqlite3_finalize(statement);
	ws_nsys_mark_done(nsys, "DIAGNOSTIC_EVENT");
}

/* In an import of several files each file is a rank, by its place in the list. */
static void put_file_rank(struct ws_nsys *nsys)
{
	struct ws_row_rank *row;
	uint32_t source, process = 0;

	if (nsys->importer->file_count < 2)
		return;
	/* The file's first process represents the rank. */
	for (size_t i = nsys->importer->written_processes;
	     i < nsys->importer->process_count && !process; i++)
		process = (uint32_t)i + 1;
	if (!process)
		return;
	source = ws_importer_add_text(nsys->importer, nsys->importer->path);
	row = ws_importer_add_row(nsys->importer, WS_TABLE_rank);
	*row = (struct ws_row_rank){.process = process,
				    .rank = nsys->importer->file,
				    .world = nsys->importer->file_count,
				    .local = WS_NO_U32,
				    .source = source};
}

void ws_nsys_read_session(struct ws_nsys *nsys)
{
	static const char *const spent[] = {"META_DATA_EXPORT", "TARGET_INFO_SESSION_START_TIME"};

	read_collections(nsys);
	read_facts(nsys, "META_DATA_CAPTURE", false);
	read_facts(nsys, "TARGET_INFO_SYSTEM_ENV", true);
	read_output(nsys);
	read_diagnostics(nsys);
	put_file_rank(nsys);
	for (size_t i = 0; i < WS_COUNT(spent); i++)
		ws_nsys_mark_done(nsys, spent[i]);
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
		double real;
		float single;

		if (!ws_nsys_has_value(statement, columns[i]))
			continue;
		row->payload_type = payloads[i].type;
		real = sqlite3_column_double(statement, columns[i]);
		single = (float)real;
		if (payloads[i].type == WS_NVTX_PAYLOAD_F64)
			memcpy(&row->payload, &real, 8);
		else if (payloads[i].type == WS_NVTX_PAYLOAD_F32)
			memcpy(&row->payload, &single, 4);
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

	if (!ws_nsys_has_unread(nsys, "NVTX_EVENTS"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM NVTX_EVENTS");
	if (statement && !nsys->is_own_export)
		ws_nsys_note_missing_columns(nsys, statement, "NVTX_EVENTS");
	start = ws_nsys_find_column(statement, "start"),
	end = ws_nsys_find_column(statement, "end"),
	type = ws_nsys_find_column(statement, "eventType");
	range = ws_nsys_find_column(statement, "rangeId"),
	category = ws_nsys_find_column(statement, "category"),
	color = ws_nsys_find_column(statement, "color");
	text = ws_nsys_find_column(statement, "text"),
	thread = ws_nsys_find_column(statement, "globalTid"),
	end_thread = ws_nsys_find_column(statement, "endGlobalTid");
	text_id = ws_nsys_find_column(statement, "textId"),
	domain = ws_nsys_find_column(statement, "domainId"),
	binary = ws_nsys_find_column(statement, "binaryData");
	json = ws_nsys_find_column(statement, "jsonText"),
	json_id = ws_nsys_find_column(statement, "jsonTextId");
	for (size_t i = 0; i < WS_COUNT(payloads); i++)
		payload[i] = ws_nsys_find_column(statement, payloads[i].name);
	while (ws_nsys_step_row(nsys, statement, "NVTX_EVENTS")) {
		struct ws_row_nvtx row = {.start = ws_nsys_get_time(nsys, statement, start),
					  .end = ws_nsys_get_time(nsys, statement, end)};
		int64_t tid = ws_nsys_get_int(statement, thread, 0),
			end_tid = ws_nsys_get_int(statement, end_thread, 0);

		if (tid)
			row.thread = ws_nsys_find_thread(nsys, tid, row.start);
		if (end_tid && end_tid != tid)
			row.end_thread = ws_nsys_find_thread(nsys, end_tid, row.end);
		row.type = (uint8_t)ws_nsys_get_int(statement, type, 0);
		row.range_id = (uint64_t)ws_nsys_get_int(statement, range, 0);
		row.category = (uint32_t)ws_nsys_get_int(statement, category, 0);
		row.domain = (uint32_t)ws_nsys_get_int(statement, domain, 0);
		if (ws_nsys_has_value(statement, color)) {
			row.color = (uint32_t)sqlite3_column_int64(statement, color);
			row.flags |= WS_NVTX_HAS_COLOR;
		}
		row.text = ws_nsys_get_text(nsys, statement, text);
		if (!row.text) {
			row.text = ws_nsys_get_text(nsys, statement, text_id);
			if (row.text)
				row.flags |= WS_NVTX_REGISTERED;
		}
		if (row.end == WS_NO_TIME &&
		    (row.type == WS_NVTX_PUSHPOP || row.type == WS_NVTX_STARTEND))
			row.flags |= WS_NVTX_LEFT_OPEN;
		read_payload(statement, payload, &row);
		row.binary = ws_nsys_get_text(nsys, statement, binary);
		if (!row.binary) /* payloads as JSON are kept in place of the bytes */
			row.binary = ws_nsys_get_text(nsys, statement, json);
		if (!row.binary)
			row.binary = ws_nsys_get_text(nsys, statement, json_id);
		if (row.binary && !row.payload_type)
			row.payload_type = WS_NVTX_PAYLOAD_EXT;
		*(struct ws_row_nvtx *)ws_importer_add_row(nsys->importer, WS_TABLE_nvtx) = row;
		ws_importer_include_time(nsys->importer, row.start);
		if (row.end != WS_NO_TIME)
			ws_importer_include_time(nsys->importer, row.end);
	}
	sqlite3_finalize(statement);
	ws_nsys_mark_done(nsys, "NVTX_EVENTS");
}

/* ---- calls of the OS runtime, with the details that our exports keep in another table ---- */

/* Both tables are in the same order, so they are read side by side. */
struct osrt_details {
	sqlite3_stmt *statement;
	int holder, position, item;
	bool more; /* a row is there */
};

static void begin_osrt_details(struct ws_nsys *nsys, struct osrt_details *details)
{
	*details = (struct osrt_details){.holder = -1, .position = -1, .item = -1};
	if (!ws_nsys_has_unread(nsys, "WARPSIGHT_OSRT_DETAIL"))
		return;
	details->statement =
		ws_nsys_select(nsys, "SELECT start, globalTid, nameId, error, object, path, * FROM "
				     "WARPSIGHT_OSRT_DETAIL");
	details->holder = ws_nsys_find_column(details->statement,
					      "holderGlobalTid"); /* newer than the other columns */
	details->position = ws_nsys_find_column(details->statement, "position");
	details->item = ws_nsys_find_column(details->statement, "itemBytes");
	details->more = ws_nsys_step_row(nsys, details->statement, "WARPSIGHT_OSRT_DETAIL");
}

/* Fill in the details of the call with this start, thread and name, if there are any. */
static void read_osrt_details(struct ws_nsys *nsys, struct osrt_details *details, int64_t start,
			      int64_t thread, int64_t name, struct ws_row_osrt *row)
{
	if (!details->more || sqlite3_column_int64(details->statement, 0) != start ||
	    sqlite3_column_int64(details->statement, 1) != thread ||
	    sqlite3_column_int64(details->statement, 2) != name)
		return;
	row->error = (int32_t)sqlite3_column_int64(details->statement, 3);
	row->object = (uint64_t)sqlite3_column_int64(details->statement, 4);
	row->path = ws_nsys_get_text(nsys, details->statement, 5);
	row->holder =
		(uint32_t)(ws_nsys_get_int(details->statement, details->holder, 0) & 0xffffff);
	row->position = (uint64_t)ws_nsys_get_int(details->statement, details->position, -1);
	row->item = (uint32_t)ws_nsys_get_int(details->statement, details->item, 0);
	details->more = ws_nsys_step_row(nsys, details->statement, "WARPSIGHT_OSRT_DETAIL");
}

static void read_osrt(struct ws_nsys *nsys, const struct ws_map *chains)
{
	sqlite3_stmt *statement;
	int start, end, thread, name, result, nesting, chain;
	struct osrt_details details;

	if (!ws_nsys_has_unread(nsys, "OSRT_API"))
		return;
	begin_osrt_details(nsys, &details);
	statement = ws_nsys_select(nsys, "SELECT * FROM OSRT_API");
	if (statement && !nsys->is_own_export)
		ws_nsys_note_missing_columns(nsys, statement, "OSRT_API");
	start = ws_nsys_find_column(statement, "start"),
	end = ws_nsys_find_column(statement, "end"),
	thread = ws_nsys_find_column(statement, "globalTid");
	name = ws_nsys_find_column(statement, "nameId"),
	result = ws_nsys_find_column(statement, "returnValue"),
	nesting = ws_nsys_find_column(statement, "nestingLevel");
	chain = ws_nsys_find_column(statement, "callchainId");
	while (ws_nsys_step_row(nsys, statement, "OSRT_API")) {
		struct ws_row_osrt row = {.start = ws_nsys_get_time(nsys, statement, start),
					  .end = ws_nsys_get_time(nsys, statement, end),
					  .callchain = WS_NO_U32,
					  .position = WS_NO_U64};
		uint64_t stack =
			ws_map_get(chains, (uint64_t)ws_nsys_get_int(statement, chain, 0), NULL);

		row.thread =
			ws_nsys_find_thread(nsys, ws_nsys_get_int(statement, thread, 0), row.start);
		row.name = ws_nsys_get_text(nsys, statement, name);
		row.result = ws_nsys_get_int(statement, result, 0);
		row.nesting = (uint32_t)ws_nsys_get_int(statement, nesting, 0);
		if (nsys->is_own_export) /* WARPSIGHT_STACK keeps its numbers */
			stack = (uint64_t)ws_nsys_get_int(statement, chain, 0);
		if (stack)
			row.callchain = (uint32_t)stack;
		read_osrt_details(nsys, &details, ws_nsys_get_int(statement, start, 0),
				  ws_nsys_get_int(statement, thread, 0),
				  ws_nsys_get_int(statement, name, 0), &row);
		*(struct ws_row_osrt *)ws_importer_add_row(nsys->importer, WS_TABLE_osrt) = row;
		ws_importer_include_time(nsys->importer, row.start);
		if (row.end != WS_NO_TIME)
			ws_importer_include_time(nsys->importer, row.end);
	}
	if (details.more)
		ws_importer_add_note(nsys->importer,
				     "WARPSIGHT_OSRT_DETAIL is not in the order of OSRT_API: some "
				     "details were left out.");
	sqlite3_finalize(statement);
	sqlite3_finalize(details.statement);
	ws_nsys_mark_done(nsys, "OSRT_API");
	ws_nsys_mark_done(nsys, "WARPSIGHT_OSRT_DETAIL");
}

/* ---- CUDA ---- */

/* In older exports, recorded events have no time: they get the time of the call. */
static void fix_event_start(struct ws_nsys *nsys, sqlite3_stmt *statement, void *row)
{
	struct ws_row_cuda_event *event = row;
	bool found;
	uint64_t call = ws_map_get(&nsys->event_calls, event->correlation, &found);

	(void)statement;
	if (event->time != WS_NO_TIME)
		event->start = event->time;
	else if (found)
		event->start = call;
	else
		event->start = nsys->shift;
}

static bool has_columns(struct ws_nsys *nsys, const char *table, const char *one, const char *other)
{
	sqlite3_stmt *statement = NULL;
	bool found;

	if (ws_nsys_has_unread(nsys, table))
		statement = ws_nsys_select(nsys, "SELECT * FROM %s", table);
	found = ws_nsys_find_column(statement, one) >= 0 &&
		ws_nsys_find_column(statement, other) >= 0;

	sqlite3_finalize(statement);
	return found;
}

static void read_cuda_events(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement = NULL;

	if (!ws_nsys_has_unread(nsys, "CUPTI_ACTIVITY_KIND_CUDA_EVENT"))
		return;
	nsys->event_calls = (struct ws_map){0};
	if (has_columns(nsys, "CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId", "start") &&
	    has_columns(nsys, "CUPTI_ACTIVITY_KIND_CUDA_EVENT", "correlationId", "correlationId"))
		statement = ws_nsys_select(
			nsys, "SELECT correlationId, start FROM "
			      "CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId IN "
			      "(SELECT correlationId FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT)");
	while (ws_nsys_step_row(nsys, statement, "CUPTI_ACTIVITY_KIND_RUNTIME"))
		ws_map_set(&nsys->event_calls, (uint32_t)sqlite3_column_int64(statement, 0),
			   ws_nsys_get_time(nsys, statement, 1));
	sqlite3_finalize(statement);
	ws_nsys_read_table(nsys, WS_TABLE_cuda_event, NULL, NULL, fix_event_start);
	ws_map_free(&nsys->event_calls);
	nsys->event_calls = (struct ws_map){0};
}

/* Contexts and streams name their process by its bare pid. */
static uint32_t read_plain_process(struct ws_nsys *nsys, sqlite3_stmt *statement)
{
	uint64_t pid = (uint64_t)ws_nsys_get_int(statement,
						 ws_nsys_find_column(statement, "processId"), 0) &
		       0xffffff;
	uint64_t vm =
		(uint64_t)ws_nsys_get_int(statement, ws_nsys_find_column(statement, "vmId"), 0) &
		0xff;
	uint64_t hw = (uint64_t)ws_nsys_get_int(statement, ws_nsys_find_column(statement, "hwId"),
						0) &
		      0xff,
		 key = hw << 56 | vm << 48 | pid << 24;

	if (!pid)
		return 0;
	/* vmId does not always match globalPid, so any process with the pid will do. */
	for (size_t i = nsys->importer->process_count;
	     i > nsys->importer->written_processes && !ws_map_get(&nsys->processes, key, NULL); i--)
		if (nsys->importer->processes[i - 1].pid == pid)
			return (uint32_t)i;
	return ws_nsys_find_process(nsys, (int64_t)key, WS_NO_TIME);
}

static void fix_context(struct ws_nsys *nsys, sqlite3_stmt *statement, void *row)
{
	struct ws_row_cuda_context *context = row;

	context->process = read_plain_process(nsys, statement);
	context->start = nsys->shift;
}

static void fix_stream(struct ws_nsys *nsys, sqlite3_stmt *statement, void *row)
{
	struct ws_row_cuda_stream *stream = row;

	stream->process = read_plain_process(nsys, statement);
	stream->start = nsys->shift;
	stream->correlation = WS_NO_U32;
}

/* Devices are listed for each process that used CUDA: collect these processes. */
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
	if (ws_nsys_has_unread(nsys, "TARGET_INFO_CUDA_CONTEXT_INFO")) {
		statement = ws_nsys_select(nsys, "SELECT * FROM TARGET_INFO_CUDA_CONTEXT_INFO");
		while (ws_nsys_step_row(nsys, statement, "TARGET_INFO_CUDA_CONTEXT_INFO"))
			add_cuda_process(nsys, read_plain_process(nsys, statement));
		sqlite3_finalize(statement);
	}
	for (size_t i = 0; i < WS_COUNT(work); i++) {
		if (!ws_nsys_has_unread(nsys, work[i]))
			continue;
		statement = ws_nsys_select(nsys, "SELECT * FROM \"%w\" LIMIT 0", work[i]);
		if (ws_nsys_find_column(statement, "globalPid") >= 0) {
			sqlite3_finalize(statement);
			statement = ws_nsys_select(nsys, "SELECT DISTINCT globalPid FROM \"%w\"",
						   work[i]);
			while (ws_nsys_step_row(nsys, statement, work[i]))
				if (sqlite3_column_int64(statement, 0)) /* null: not known */
					add_cuda_process(nsys,
							 ws_nsys_find_process(
								 nsys,
								 sqlite3_column_int64(statement, 0),
								 WS_NO_TIME));
		}
		sqlite3_finalize(statement);
	}
}

static uint32_t find_process_of_pid(struct ws_nsys *nsys, uint64_t pid)
{
	for (size_t i = nsys->importer->process_count; i > nsys->importer->written_processes; i--)
		if (nsys->importer->processes[i - 1].pid == pid)
			return (uint32_t)i;
	return ws_nsys_find_process(nsys, (int64_t)(pid << 24), WS_NO_TIME);
}

/*
 * TARGET_INFO_CUDA_DEVICE lists the processes that saw the GPU, with its number in each. Add a row
 * for each process but the last, which is left in *row for the caller to add. False where the table
 * has no such process.
 */
static bool put_numbered_devices(struct ws_nsys *nsys, int64_t gpu, struct ws_row_cuda_device *row)
{
	sqlite3_stmt *statement;
	int id, pid;
	bool any = false;

	if (!ws_nsys_has_unread(nsys, "TARGET_INFO_CUDA_DEVICE"))
		return false;
	statement = ws_nsys_select(nsys, "SELECT * FROM TARGET_INFO_CUDA_DEVICE WHERE gpuId = %lld",
				   (long long)gpu);
	id = ws_nsys_find_column(statement, "cudaId"), pid = ws_nsys_find_column(statement, "pid");
	while (id >= 0 && pid >= 0 &&
	       ws_nsys_step_row(nsys, statement, "TARGET_INFO_CUDA_DEVICE")) {
		if (any)
			*(struct ws_row_cuda_device *)ws_importer_add_row(
				nsys->importer, WS_TABLE_cuda_device) = *row;
		row->id = (uint32_t)ws_nsys_get_int(statement, id, 0);
		row->process = find_process_of_pid(
			nsys, (uint64_t)ws_nsys_get_int(statement, pid, 0) & 0xffffff);
		any = true;
	}
	sqlite3_finalize(statement);
	if (any)
		ws_nsys_mark_done(nsys, "TARGET_INFO_CUDA_DEVICE");
	return any;
}

static void fix_device(struct ws_nsys *nsys, sqlite3_stmt *statement, void *row)
{
	struct ws_row_cuda_device *device = row;
	int discrete = ws_nsys_find_column(statement, "isDiscrete"),
	    id = ws_nsys_find_column(statement, "cuDevice");

	device->start = nsys->shift;
	device->integrated = ws_nsys_get_int(statement, discrete, 1) == 0;
	device->visible = 1;
	if (!ws_nsys_has_value(statement, id)) /* older: the GPU's number in the machine */
		device->id = (uint32_t)ws_nsys_get_int(statement,
						       ws_nsys_find_column(statement, "id"), 0);
	if (put_numbered_devices(
		    nsys, ws_nsys_get_int(statement, ws_nsys_find_column(statement, "id"), 0),
		    device))
		return;
	/* The caller adds the row of the last process. */
	for (size_t i = 0; i + 1 < nsys->cuda_process_count; i++) {
		device->process = nsys->cuda_processes[i];
		*(struct ws_row_cuda_device *)ws_importer_add_row(nsys->importer,
								  WS_TABLE_cuda_device) = *device;
	}
	device->process = 0;
	if (nsys->cuda_process_count)
		device->process = nsys->cuda_processes[nsys->cuda_process_count - 1];
}

static void read_devices(struct ws_nsys *nsys)
{
	find_cuda_processes(nsys);
	ws_nsys_read_table(nsys, WS_TABLE_cuda_device, NULL, NULL, fix_device);
	ws_nsys_read_table(nsys, WS_TABLE_cuda_context, NULL, NULL, fix_context);
	ws_nsys_read_table(nsys, WS_TABLE_cuda_stream, NULL, NULL, fix_stream);
	free(nsys->cuda_processes);
	nsys->cuda_processes = NULL;
	nsys->cuda_process_cap = nsys->cuda_process_count = 0;
}

void ws_nsys_read_events(struct ws_nsys *nsys)
{
	struct ws_map cuda = {0}, osrt = {0};

	if (nsys->is_own_export)
		ws_nsys_skip_derived(nsys);
	ws_nsys_read_chains(nsys, "CUDA_CALLCHAINS", &cuda);
	ws_nsys_read_chains(nsys, "OSRT_CALLCHAINS", &osrt);
	read_nvtx(nsys);
	read_osrt(nsys, &osrt);
	read_cuda_events(nsys);
	ws_nsys_read_table(nsys, WS_TABLE_cuda_api, NULL, nsys->is_own_export ? NULL : &cuda, NULL);
	read_devices(nsys);
	ws_map_free(&cuda);
	ws_map_free(&osrt);
}
