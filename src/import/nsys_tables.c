/* nsys_tables.c - tables of SQLite exports that are no plain copies: who, the session, NVTX, calls,
 * devices. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/nsys.h"
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
static void read_images(struct ws_nsys *n, struct ws_map *ids)
{
	sqlite3_stmt *s;
	int id, global, pid, parent, ppid, start, origin, exe, cmdline, name;

	if (!ws_nsys_has(n, "WARPSIGHT_PROCESS"))
		return;
	s = ws_nsys_select(n, "SELECT * FROM WARPSIGHT_PROCESS ORDER BY id");
	id = ws_nsys_column(s, "id"), global = ws_nsys_column(s, "globalPid"),
	pid = ws_nsys_column(s, "pid");
	parent = ws_nsys_column(s, "parentId"), ppid = ws_nsys_column(s, "parentPid"),
	start = ws_nsys_column(s, "start");
	origin = ws_nsys_column(s, "origin"), exe = ws_nsys_column(s, "executable"),
	cmdline = ws_nsys_column(s, "commandLine");
	name = ws_nsys_column(s, "name");
	while (ws_nsys_step(n, s, "WARPSIGHT_PROCESS")) {
		uint64_t number = (uint64_t)ws_nsys_int(s, id, 0),
			 key = (uint64_t)ws_nsys_int(s, global, 0);
		/* A key of its own for each image: several share a globalPid. */
		uint32_t new = ws_into_process(n->o, UINT64_C(1) << 63 | number,
					       (uint32_t)ws_nsys_int(s, pid, 0));
		uint32_t older = (uint32_t)ws_map_get(&n->processes, key, NULL);
		struct ws_into_process *p = ws_into_process_of(n->o, new);

		p->vm = n->o->file_count > 1 ? (n->o->file & 0xff) << 8 | (key >> 48 & 0xff)
					     : (uint32_t)(key >> 48);
		p->parent = (uint32_t)ws_map_get(ids, (uint64_t)ws_nsys_int(s, parent, 0), NULL);
		p->ppid = (uint32_t)ws_nsys_int(s, ppid, 0);
		p->start = ws_nsys_time(n, s, start);
		p->told = true;
		p->origin = (uint8_t)ws_nsys_int(s, origin, 0);
		p->exe = ws_nsys_text(n, s, exe);
		p->cmdline = ws_nsys_text(n, s, cmdline);
		p->name = ws_nsys_text(n, s, name);
		ws_map_set(ids, number, new);
		ws_map_set(&n->processes, key, new);
		remember_before(&n->process_before, &n->process_before_cap, new,
				older == new ? 0 : older);
	}
	sqlite3_finalize(s);
	ws_nsys_done(n, "WARPSIGHT_PROCESS");
}

static void read_own_threads(struct ws_nsys *n, const struct ws_map *ids)
{
	sqlite3_stmt *s;
	int process, tid, global, start;

	if (!ws_nsys_has(n, "WARPSIGHT_THREAD"))
		return;
	s = ws_nsys_select(n, "SELECT * FROM WARPSIGHT_THREAD ORDER BY id");
	process = ws_nsys_column(s, "processId"), tid = ws_nsys_column(s, "tid"),
	global = ws_nsys_column(s, "globalTid");
	start = ws_nsys_column(s, "start");
	while (ws_nsys_step(n, s, "WARPSIGHT_THREAD")) {
		uint32_t p = (uint32_t)ws_map_get(ids, (uint64_t)ws_nsys_int(s, process, 0), NULL),
			 new, older;
		uint64_t key = (uint64_t)ws_nsys_int(s, global, 0);

		if (!p)
			p = ws_nsys_process(n, (int64_t)key, WS_NO_TIME);
		new = ws_into_thread(n->o, p, (uint64_t)ws_nsys_int(s, tid, 0),
				     ws_nsys_time(n, s, start));
		older = (uint32_t)ws_map_get(&n->threads, key, NULL);
		ws_map_set(&n->threads, key, new);
		remember_before(&n->thread_before, &n->thread_before_cap, new,
				older == new ? 0 : older);
	}
	sqlite3_finalize(s);
	ws_nsys_done(n, "WARPSIGHT_THREAD");
}

static void read_processes(struct ws_nsys *n)
{
	sqlite3_stmt *s;
	int global, name;

	if (!ws_nsys_has(n, "PROCESSES"))
		return;
	s = ws_nsys_select(n, "SELECT * FROM PROCESSES");
	global = ws_nsys_column(s, "globalPid"), name = ws_nsys_column(s, "name");
	while (ws_nsys_step(n, s, "PROCESSES")) {
		uint32_t id = ws_nsys_process(n, ws_nsys_int(s, global, 0), WS_NO_TIME);
		struct ws_into_process *p = ws_into_process_of(n->o, id);

		if (!p->name)
			p->name = ws_nsys_text(n, s, name);
	}
	sqlite3_finalize(s);
	ws_nsys_done(n, "PROCESSES");
}

static void read_thread_names(struct ws_nsys *n)
{
	sqlite3_stmt *s;
	int global, name, priority;

	if (!ws_nsys_has(n, "ThreadNames"))
		return;
	s = ws_nsys_select(n, "SELECT * FROM ThreadNames");
	global = ws_nsys_column(s, "globalTid"), name = ws_nsys_column(s, "nameId"),
	priority = ws_nsys_column(s, "priority");
	while (ws_nsys_step(n, s, "ThreadNames")) {
		uint32_t id = ws_nsys_thread(n, ws_nsys_int(s, global, 0), WS_NO_TIME);
		struct ws_into_thread *t = ws_into_thread_of(n->o, id);
		int32_t p = (int32_t)ws_nsys_int(s, priority, 0);

		if (!t->name || p >= t->priority) {
			t->name = ws_nsys_text(n, s, name);
			t->priority = p;
		}
	}
	sqlite3_finalize(s);
	ws_nsys_done(n, "ThreadNames");
}

void ws_nsys_who(struct ws_nsys *n)
{
	struct ws_map ids = {0};

	read_images(n, &ids);
	read_own_threads(n, &ids);
	ws_map_free(&ids);
	read_processes(n);
	read_thread_names(n);
}

/* ---- the session ---- */

static void read_collections(struct ws_nsys *n)
{
	sqlite3_stmt *s;
	int start, stop;

	if (!ws_nsys_has(n, "ANALYSIS_DETAILS"))
		return;
	s = ws_nsys_select(n, "SELECT * FROM ANALYSIS_DETAILS");
	start = ws_nsys_column(s, "startTime"), stop = ws_nsys_column(s, "stopTime");
	while (ws_nsys_step(n, s, "ANALYSIS_DETAILS")) {
		uint64_t from = ws_nsys_time(n, s, start), to = ws_nsys_time(n, s, stop);
		struct ws_row_collection *row;

		if (from == WS_NO_TIME)
			continue;
		row = ws_into_row(n->o, WS_TABLE_collection);
		*row = (struct ws_row_collection){.start = from, .end = to};
		ws_into_time(n->o, from);
		n->o->collected = true;
	}
	sqlite3_finalize(s);
	ws_nsys_done(n, "ANALYSIS_DETAILS");
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
static void skip_made_again(struct ws_nsys *n, const char *fact, const char *value)
{
	static const char *const metrics[] = {"GPU_METRICS", "NET_NIC_METRIC",
					      "NET_IB_SWITCH_METRIC"};
	size_t table = sizeof(WS_FOREIGN_TABLE_FACT) - 1;

	if (!strncmp(fact, WS_FOREIGN_TABLE_FACT, table) && value &&
	    ws_nsys_has(n, *value == 'S' ? "WARPSIGHT_SLICE" : "WARPSIGHT_FOREIGN"))
		ws_nsys_done(n, fact + table);
	if (!strncmp(fact, WS_FOREIGN_COUNTER_FACT, sizeof(WS_FOREIGN_COUNTER_FACT) - 1) &&
	    ws_nsys_has(n, "WARPSIGHT_COUNTER_VALUE"))
		for (size_t i = 0; i < WS_COUNT(metrics); i++)
			ws_nsys_done(n, metrics[i]);
}

static void read_facts(struct ws_nsys *n, const char *table, bool machine)
{
	sqlite3_stmt *s;
	int name, value;

	if (!ws_nsys_has(n, table))
		return;
	s = n->own && machine ? NULL
			      : ws_nsys_select(n, "SELECT * FROM \"%w\"",
					       table); /* ours stand in META_DATA_CAPTURE too */
	name = ws_nsys_column(s, "name"), value = ws_nsys_column(s, "value");
	while (name >= 0 && value >= 0 && ws_nsys_step(n, s, table)) {
		const char *key = (const char *)sqlite3_column_text(s, name),
			   *text = (const char *)sqlite3_column_text(s, value);
		int len = sqlite3_column_bytes(s, value);
		char own[256];

		if (!key || !strcmp(key, "session.zero"))
			continue;
		if (n->own && !machine)
			skip_made_again(n, key, text);
		/* The environment of the machine is none of a report's business, and what is long
		 * is a list of no use here. */
		if (!n->own && strcasestr(key, "environment")) {
			ws_into_note(
				n->o,
				"%s: %.60s was left out: environment variables may hold secrets.",
				table, key);
			continue;
		}
		if (!n->own && len > MOST_FACT) {
			ws_into_note(n->o, "%s: %.60s was left out: it is longer than %d bytes.",
				     table, key, MOST_FACT);
			continue;
		}
		snprintf(own, sizeof(own), "%s%s", machine ? "machine." : "", key);
		for (size_t i = 0; machine && i < WS_COUNT(facts); i++)
			if (!strcmp(key, facts[i].theirs))
				snprintf(own, sizeof(own), "%s", facts[i].ours);
		ws_into_meta(n->o, own, text ? text : "", text ? (size_t)len : 0);
	}
	sqlite3_finalize(s);
	ws_nsys_done(n, table);
}

static void read_output(struct ws_nsys *n)
{
	sqlite3_stmt *s;
	int global, file, content;

	if (!ws_nsys_has(n, "ProcessStreams"))
		return;
	s = ws_nsys_select(n, "SELECT f.value AS file, p.* FROM ProcessStreams p LEFT JOIN "
			      "StringIds f ON f.id = p.filenameId");
	file = 0, global = ws_nsys_column(s, "globalPid"), content = ws_nsys_column(s, "contentId");
	while (ws_nsys_step(n, s, "ProcessStreams")) {
		const char *name = (const char *)sqlite3_column_text(s, file);
		struct ws_row_output *row;
		uint32_t bytes = ws_nsys_text(n, s, content);
		int stream = name && strstr(name, "stderr")   ? 2
			     : name && strstr(name, "stdout") ? 1
							      : 0;
		int64_t key = ws_nsys_int(s, global, 0);
		uint32_t process;

		if (!stream) {
			ws_into_note(n->o, "ProcessStreams: files other than standard output and "
					   "error were left out.");
			continue;
		}
		process = key ? ws_nsys_process(n, key, WS_NO_TIME) : 0;
		row = ws_into_row(n->o, WS_TABLE_output);
		*row = (struct ws_row_output){.start = n->shift,
					      .stream = (uint8_t)stream,
					      .bytes = bytes,
					      .process = process};
	}
	sqlite3_finalize(s);
	ws_nsys_done(n, "ProcessStreams");
}

static void read_diagnostics(struct ws_nsys *n)
{
	sqlite3_stmt *s;
	int time, source, severity, text, global;

	if (!ws_nsys_has(n, "DIAGNOSTIC_EVENT"))
		return;
	s = ws_nsys_select(n, "SELECT * FROM DIAGNOSTIC_EVENT");
	time = ws_nsys_column(s, "timestamp"), source = ws_nsys_column(s, "source"),
	severity = ws_nsys_column(s, "severity");
	text = ws_nsys_column(s, "text"), global = ws_nsys_column(s, "globalPid");
	while (ws_nsys_step(n, s, "DIAGNOSTIC_EVENT")) {
		static const char *const sources[] = {"unknown", "cuda", "recorder",
						      "analysis"}; /* injection is any hook */
		int64_t from = ws_nsys_int(s, source, 0), how = ws_nsys_int(s, severity, WS_INFO);
		uint32_t string = ws_nsys_text(n, s, text),
			 name = ws_into_text(n->o, sources[from >= 0 && from < 4 ? from : 0]);
		uint64_t at = ws_nsys_time(n, s, time);
		uint32_t process = global >= 0 && sqlite3_column_type(s, global) != SQLITE_NULL
					   ? ws_nsys_process(n, sqlite3_column_int64(s, global), at)
					   : 0;
		struct ws_row_diagnostic *row = ws_into_row(n->o, WS_TABLE_diagnostic);

		*row = (struct ws_row_diagnostic){
			.start = at == WS_NO_TIME ? n->shift : at,
			.severity = (uint8_t)(how >= WS_INFO && how <= WS_ERROR ? how : WS_INFO),
			.source = name,
			.process = process,
			.text = string};
	}
	sqlite3_finalize(s);
	ws_nsys_done(n, "DIAGNOSTIC_EVENT");
}

/* In an import of several files each is a rank, by its place in the list. */
static void put_rank(struct ws_nsys *n)
{
	struct ws_row_rank *row;
	uint32_t source, process = 0;

	if (n->o->file_count < 2)
		return;
	/* The processes that used CUDA or MPI are the ranks; the first of them stands for the file.
	 */
	for (size_t i = n->o->written_processes; i < n->o->process_count && !process; i++)
		process = (uint32_t)i + 1;
	if (!process)
		return;
	source = ws_into_text(n->o, n->o->path);
	row = ws_into_row(n->o, WS_TABLE_rank);
	*row = (struct ws_row_rank){.process = process,
				    .rank = n->o->file,
				    .world = n->o->file_count,
				    .source = source};
}

void ws_nsys_session(struct ws_nsys *n)
{
	static const char *const spent[] = {"META_DATA_EXPORT", "TARGET_INFO_SESSION_START_TIME"};

	read_collections(n);
	read_facts(n, "META_DATA_CAPTURE", false);
	read_facts(n, "TARGET_INFO_SYSTEM_ENV", true);
	read_output(n);
	read_diagnostics(n);
	put_rank(n);
	for (size_t i = 0; i < WS_COUNT(spent); i++)
		ws_nsys_done(n, spent[i]);
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

static void read_payload(sqlite3_stmt *s, const int *columns, struct ws_row_nvtx *r)
{
	for (size_t i = 0; i < WS_COUNT(payloads); i++) {
		double d;
		float f;

		if (columns[i] < 0 || sqlite3_column_type(s, columns[i]) == SQLITE_NULL)
			continue;
		r->payload_type = payloads[i].type;
		d = sqlite3_column_double(s, columns[i]);
		f = (float)d;
		if (payloads[i].type == WS_NVTX_PAYLOAD_F64)
			memcpy(&r->payload, &d, 8);
		else if (payloads[i].type == WS_NVTX_PAYLOAD_F32)
			memcpy(&r->payload, &f, 4);
		else
			r->payload = (uint64_t)sqlite3_column_int64(s, columns[i]);
		if (payloads[i].type == WS_NVTX_PAYLOAD_I32)
			r->payload = (uint32_t)r->payload;
	}
}

static void read_nvtx(struct ws_nsys *n)
{
	sqlite3_stmt *s;
	int start, end, type, range, category, color, text, thread, end_thread, text_id, domain,
		binary, json, json_id;
	int payload[WS_COUNT(payloads)];

	if (!ws_nsys_has(n, "NVTX_EVENTS"))
		return;
	s = ws_nsys_select(n, "SELECT * FROM NVTX_EVENTS");
	if (s && !n->own)
		ws_nsys_say_missing(n, s, "NVTX_EVENTS");
	start = ws_nsys_column(s, "start"), end = ws_nsys_column(s, "end"),
	type = ws_nsys_column(s, "eventType");
	range = ws_nsys_column(s, "rangeId"), category = ws_nsys_column(s, "category"),
	color = ws_nsys_column(s, "color");
	text = ws_nsys_column(s, "text"), thread = ws_nsys_column(s, "globalTid"),
	end_thread = ws_nsys_column(s, "endGlobalTid");
	text_id = ws_nsys_column(s, "textId"), domain = ws_nsys_column(s, "domainId"),
	binary = ws_nsys_column(s, "binaryData");
	json = ws_nsys_column(s, "jsonText"), json_id = ws_nsys_column(s, "jsonTextId");
	for (size_t i = 0; i < WS_COUNT(payloads); i++)
		payload[i] = ws_nsys_column(s, payloads[i].name);
	while (ws_nsys_step(n, s, "NVTX_EVENTS")) {
		struct ws_row_nvtx r = {.start = ws_nsys_time(n, s, start),
					.end = ws_nsys_time(n, s, end)};
		int64_t tid = ws_nsys_int(s, thread, 0), end_tid = ws_nsys_int(s, end_thread, 0);

		r.thread = tid ? ws_nsys_thread(n, tid, r.start) : 0;
		r.end_thread = end_tid && end_tid != tid ? ws_nsys_thread(n, end_tid, r.end) : 0;
		r.type = (uint8_t)ws_nsys_int(s, type, 0);
		r.range_id = (uint64_t)ws_nsys_int(s, range, 0);
		r.category = (uint32_t)ws_nsys_int(s, category, 0);
		r.domain = (uint32_t)ws_nsys_int(s, domain, 0);
		if (color >= 0 && sqlite3_column_type(s, color) != SQLITE_NULL) {
			r.color = (uint32_t)sqlite3_column_int64(s, color);
			r.flags |= WS_NVTX_HAS_COLOR;
		}
		r.text = ws_nsys_text(n, s, text);
		if (!r.text) {
			r.text = ws_nsys_text(n, s, text_id);
			r.flags |= r.text ? WS_NVTX_REGISTERED : 0;
		}
		if (r.end == WS_NO_TIME &&
		    (r.type == WS_NVTX_PUSHPOP || r.type == WS_NVTX_STARTEND))
			r.flags |= WS_NVTX_LEFT_OPEN;
		read_payload(s, payload, &r);
		r.binary = ws_nsys_text(n, s, binary);
		if (!r.binary) /* payloads as JSON: kept in their place */
			r.binary = ws_nsys_text(n, s, json);
		if (!r.binary)
			r.binary = ws_nsys_text(n, s, json_id);
		if (r.binary && !r.payload_type)
			r.payload_type = WS_NVTX_PAYLOAD_EXT;
		*(struct ws_row_nvtx *)ws_into_row(n->o, WS_TABLE_nvtx) = r;
		ws_into_time(n->o, r.start);
		if (r.end != WS_NO_TIME)
			ws_into_time(n->o, r.end);
	}
	sqlite3_finalize(s);
	ws_nsys_done(n, "NVTX_EVENTS");
}

/* ---- calls of the OS runtime, with the details that our exports keep apart ---- */

/* Both tables are in the order of the export: the details of a call follow those of the calls
 * before it. */
struct details {
	sqlite3_stmt *s;
	int holder;
	bool more; /* a row is there */
};

static void begin_details(struct ws_nsys *n, struct details *d)
{
	*d = (struct details){.holder = -1};
	if (!ws_nsys_has(n, "WARPSIGHT_OSRT_DETAIL"))
		return;
	d->s = ws_nsys_select(n, "SELECT start, globalTid, nameId, error, object, path, * FROM "
				 "WARPSIGHT_OSRT_DETAIL");
	d->holder = ws_nsys_column(d->s, "holderGlobalTid"); /* newer than the others */
	d->more = ws_nsys_step(n, d->s, "WARPSIGHT_OSRT_DETAIL");
}

/* Fill in what there is of the call that began then, on that thread, of that name. */
static void take_details(struct ws_nsys *n, struct details *d, int64_t start, int64_t thread,
			 int64_t name, struct ws_row_osrt *r)
{
	if (!d->more || sqlite3_column_int64(d->s, 0) != start ||
	    sqlite3_column_int64(d->s, 1) != thread || sqlite3_column_int64(d->s, 2) != name)
		return;
	r->error = (int32_t)sqlite3_column_int64(d->s, 3);
	r->object = (uint64_t)sqlite3_column_int64(d->s, 4);
	r->path = ws_nsys_text(n, d->s, 5);
	r->holder = (uint32_t)(ws_nsys_int(d->s, d->holder, 0) & 0xffffff);
	d->more = ws_nsys_step(n, d->s, "WARPSIGHT_OSRT_DETAIL");
}

static void read_osrt(struct ws_nsys *n, const struct ws_map *chains)
{
	sqlite3_stmt *s;
	int start, end, thread, name, result, nesting, chain;
	struct details d;

	if (!ws_nsys_has(n, "OSRT_API"))
		return;
	begin_details(n, &d);
	s = ws_nsys_select(n, "SELECT * FROM OSRT_API");
	if (s && !n->own)
		ws_nsys_say_missing(n, s, "OSRT_API");
	start = ws_nsys_column(s, "start"), end = ws_nsys_column(s, "end"),
	thread = ws_nsys_column(s, "globalTid");
	name = ws_nsys_column(s, "nameId"), result = ws_nsys_column(s, "returnValue"),
	nesting = ws_nsys_column(s, "nestingLevel");
	chain = ws_nsys_column(s, "callchainId");
	while (ws_nsys_step(n, s, "OSRT_API")) {
		struct ws_row_osrt r = {.start = ws_nsys_time(n, s, start),
					.end = ws_nsys_time(n, s, end),
					.callchain = WS_NO_U32};
		uint64_t stack = ws_map_get(chains, (uint64_t)ws_nsys_int(s, chain, 0), NULL);

		r.thread = ws_nsys_thread(n, ws_nsys_int(s, thread, 0), r.start);
		r.name = ws_nsys_text(n, s, name);
		r.result = ws_nsys_int(s, result, 0);
		r.nesting = (uint32_t)ws_nsys_int(s, nesting, 0);
		if (n->own) /* WARPSIGHT_STACK keeps its numbers */
			stack = (uint64_t)ws_nsys_int(s, chain, 0);
		if (stack)
			r.callchain = (uint32_t)stack;
		take_details(n, &d, ws_nsys_int(s, start, 0), ws_nsys_int(s, thread, 0),
			     ws_nsys_int(s, name, 0), &r);
		*(struct ws_row_osrt *)ws_into_row(n->o, WS_TABLE_osrt) = r;
		ws_into_time(n->o, r.start);
		if (r.end != WS_NO_TIME)
			ws_into_time(n->o, r.end);
	}
	if (d.more)
		ws_into_note(n->o, "WARPSIGHT_OSRT_DETAIL is not in the order of OSRT_API: some "
				   "details were left out.");
	sqlite3_finalize(s);
	sqlite3_finalize(d.s);
	ws_nsys_done(n, "OSRT_API");
	ws_nsys_done(n, "WARPSIGHT_OSRT_DETAIL");
}

/* ---- CUDA ---- */

/* Events recorded have no time in older exports: theirs is that of the call. */
static void fix_event(struct ws_nsys *n, sqlite3_stmt *s, void *row)
{
	struct ws_row_cuda_event *e = row;
	bool found;
	uint64_t call = ws_map_get(&n->event_calls, e->correlation, &found);

	(void)s;
	e->start = e->time != WS_NO_TIME ? e->time : found ? call : n->shift;
}

static bool has_columns(struct ws_nsys *n, const char *table, const char *one, const char *other)
{
	sqlite3_stmt *s =
		ws_nsys_has(n, table) ? ws_nsys_select(n, "SELECT * FROM %s", table) : NULL;
	bool found = ws_nsys_column(s, one) >= 0 && ws_nsys_column(s, other) >= 0;

	sqlite3_finalize(s);
	return found;
}

static void read_cuda_events(struct ws_nsys *n)
{
	sqlite3_stmt *s = NULL;

	if (!ws_nsys_has(n, "CUPTI_ACTIVITY_KIND_CUDA_EVENT"))
		return;
	n->event_calls = (struct ws_map){0};
	if (has_columns(n, "CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId", "start") &&
	    has_columns(n, "CUPTI_ACTIVITY_KIND_CUDA_EVENT", "correlationId", "correlationId"))
		s = ws_nsys_select(n, "SELECT correlationId, start FROM "
				      "CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId IN "
				      "(SELECT correlationId FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT)");
	while (ws_nsys_step(n, s, "CUPTI_ACTIVITY_KIND_RUNTIME"))
		ws_map_set(&n->event_calls, (uint32_t)sqlite3_column_int64(s, 0),
			   ws_nsys_time(n, s, 1));
	sqlite3_finalize(s);
	ws_nsys_generic(n, WS_TABLE_cuda_event, NULL, NULL, fix_event);
	ws_map_free(&n->event_calls);
	n->event_calls = (struct ws_map){0};
}

/* Contexts and streams name their process by its bare pid. */
static uint32_t plain_process(struct ws_nsys *n, sqlite3_stmt *s)
{
	uint64_t pid = (uint64_t)ws_nsys_int(s, ws_nsys_column(s, "processId"), 0) & 0xffffff;
	uint64_t vm = (uint64_t)ws_nsys_int(s, ws_nsys_column(s, "vmId"), 0) & 0xff;
	uint64_t hw = (uint64_t)ws_nsys_int(s, ws_nsys_column(s, "hwId"), 0) & 0xff,
		 key = hw << 56 | vm << 48 | pid << 24;

	if (!pid)
		return 0;
	/* vmId is not always what globalPid has: any process with the pid will do. */
	for (size_t i = n->o->process_count;
	     i > n->o->written_processes && !ws_map_get(&n->processes, key, NULL); i--)
		if (n->o->processes[i - 1].pid == pid)
			return (uint32_t)i;
	return ws_nsys_process(n, (int64_t)key, WS_NO_TIME);
}

static void fix_context(struct ws_nsys *n, sqlite3_stmt *s, void *row)
{
	struct ws_row_cuda_context *c = row;

	c->process = plain_process(n, s);
	c->start = n->shift;
}

static void fix_stream(struct ws_nsys *n, sqlite3_stmt *s, void *row)
{
	struct ws_row_cuda_stream *c = row;

	c->process = plain_process(n, s);
	c->start = n->shift;
	c->correlation = WS_NO_U32;
}

/* The devices as every process that used CUDA saw them: a row of the export for each. */
static void add_cuda_process(struct ws_nsys *n, uint32_t id)
{
	for (size_t i = 0; i < n->cuda_process_count; i++)
		if (n->cuda_processes[i] == id)
			return;
	if (!id || n->cuda_process_count == 4096)
		return;
	ws_grow(n->cuda_processes, n->cuda_process_cap, n->cuda_process_count + 1);
	n->cuda_processes[n->cuda_process_count++] = id;
}

static void find_cuda_processes(struct ws_nsys *n)
{
	static const char *const work[] = {"CUPTI_ACTIVITY_KIND_KERNEL",
					   "CUPTI_ACTIVITY_KIND_MEMCPY",
					   "CUPTI_ACTIVITY_KIND_MEMSET"};
	sqlite3_stmt *s;

	n->cuda_process_count = 0;
	if (ws_nsys_has(n, "TARGET_INFO_CUDA_CONTEXT_INFO")) {
		s = ws_nsys_select(n, "SELECT * FROM TARGET_INFO_CUDA_CONTEXT_INFO");
		while (ws_nsys_step(n, s, "TARGET_INFO_CUDA_CONTEXT_INFO"))
			add_cuda_process(n, plain_process(n, s));
		sqlite3_finalize(s);
	}
	for (size_t i = 0; i < WS_COUNT(work); i++) {
		if (!ws_nsys_has(n, work[i]))
			continue;
		s = ws_nsys_select(n, "SELECT * FROM \"%w\" LIMIT 0", work[i]);
		if (ws_nsys_column(s, "globalPid") >= 0) {
			sqlite3_finalize(s);
			s = ws_nsys_select(n, "SELECT DISTINCT globalPid FROM \"%w\"", work[i]);
			while (ws_nsys_step(n, s, work[i]))
				if (sqlite3_column_int64(s, 0)) /* null: not told */
					add_cuda_process(
						n, ws_nsys_process(n, sqlite3_column_int64(s, 0),
								   WS_NO_TIME));
		}
		sqlite3_finalize(s);
	}
}

static uint32_t process_of_pid(struct ws_nsys *n, uint64_t pid)
{
	for (size_t i = n->o->process_count; i > n->o->written_processes; i--)
		if (n->o->processes[i - 1].pid == pid)
			return (uint32_t)i;
	return ws_nsys_process(n, (int64_t)(pid << 24), WS_NO_TIME);
}

/*
 * TARGET_INFO_CUDA_DEVICE says which processes saw the GPU, by which numbers: a row for each, the
 * last of them in *d for the caller to add. False where it says nothing.
 */
static bool number_devices(struct ws_nsys *n, int64_t gpu, struct ws_row_cuda_device *d)
{
	sqlite3_stmt *s;
	int id, pid;
	bool any = false;

	if (!ws_nsys_has(n, "TARGET_INFO_CUDA_DEVICE"))
		return false;
	s = ws_nsys_select(n, "SELECT * FROM TARGET_INFO_CUDA_DEVICE WHERE gpuId = %lld",
			   (long long)gpu);
	id = ws_nsys_column(s, "cudaId"), pid = ws_nsys_column(s, "pid");
	while (id >= 0 && pid >= 0 && ws_nsys_step(n, s, "TARGET_INFO_CUDA_DEVICE")) {
		if (any)
			*(struct ws_row_cuda_device *)ws_into_row(n->o, WS_TABLE_cuda_device) = *d;
		d->id = (uint32_t)ws_nsys_int(s, id, 0);
		d->process = process_of_pid(n, (uint64_t)ws_nsys_int(s, pid, 0) & 0xffffff);
		any = true;
	}
	sqlite3_finalize(s);
	if (any)
		ws_nsys_done(n, "TARGET_INFO_CUDA_DEVICE");
	return any;
}

static void fix_device(struct ws_nsys *n, sqlite3_stmt *s, void *row)
{
	struct ws_row_cuda_device *d = row;
	int discrete = ws_nsys_column(s, "isDiscrete"), id = ws_nsys_column(s, "cuDevice");

	d->start = n->shift;
	d->integrated = ws_nsys_int(s, discrete, 1) == 0;
	d->visible = 1;
	if (id < 0 ||
	    sqlite3_column_type(s, id) == SQLITE_NULL) /* older: the GPU's number in the machine */
		d->id = (uint32_t)ws_nsys_int(s, ws_nsys_column(s, "id"), 0);
	if (number_devices(n, ws_nsys_int(s, ws_nsys_column(s, "id"), 0), d))
		return;
	/* All but the last process here; the caller adds the row for that. */
	for (size_t i = 0; i + 1 < n->cuda_process_count; i++) {
		d->process = n->cuda_processes[i];
		*(struct ws_row_cuda_device *)ws_into_row(n->o, WS_TABLE_cuda_device) = *d;
	}
	d->process = n->cuda_process_count ? n->cuda_processes[n->cuda_process_count - 1] : 0;
}

static void read_devices(struct ws_nsys *n)
{
	find_cuda_processes(n);
	ws_nsys_generic(n, WS_TABLE_cuda_device, NULL, NULL, fix_device);
	ws_nsys_generic(n, WS_TABLE_cuda_context, NULL, NULL, fix_context);
	ws_nsys_generic(n, WS_TABLE_cuda_stream, NULL, NULL, fix_stream);
	free(n->cuda_processes);
	n->cuda_processes = NULL;
	n->cuda_process_cap = n->cuda_process_count = 0;
}

void ws_nsys_events(struct ws_nsys *n)
{
	struct ws_map cuda = {0}, osrt = {0};

	if (n->own)
		ws_nsys_skip_made(n);
	ws_nsys_chains(n, "CUDA_CALLCHAINS", &cuda);
	ws_nsys_chains(n, "OSRT_CALLCHAINS", &osrt);
	read_nvtx(n);
	read_osrt(n, &osrt);
	read_cuda_events(n);
	ws_nsys_generic(n, WS_TABLE_cuda_api, NULL, n->own ? NULL : &cuda, NULL);
	read_devices(n);
	ws_map_free(&cuda);
	ws_map_free(&osrt);
}
