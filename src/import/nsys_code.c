/*
 * nsys_code.c - of SQLite exports: call chains and samples, switches of threads, metrics, and what
 * no table of ours takes.
 *
 * Chains are lists of names from the innermost frame outwards. Here they become frames, each once,
 * and stacks that share their outer parts, with a symbol for each frame.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "text/json.h"
#include "base/choose.h"
#include "schema/foreign.h"
#include "import/nsys.h"

/* ---- call chains ---- */

void ws_nsys_chains(struct ws_nsys *nsys, const char *table, struct ws_map *out)
{
	sqlite3_stmt *statement;
	int id, symbol, module, address, kernel, method;
	uint32_t stack = 0;
	int64_t last = 0;
	bool any = false;

	if (!ws_nsys_has(nsys, table))
		return;
	statement =
		ws_nsys_select(nsys, "SELECT * FROM \"%w\" ORDER BY id, stackDepth DESC", table);
	id = ws_nsys_column(statement, "id"), symbol = ws_nsys_column(statement, "symbol"),
	module = ws_nsys_column(statement, "module");
	address = ws_nsys_column(statement, "originalIP"),
	kernel = ws_nsys_column(statement, "kernelMode"),
	method = ws_nsys_column(statement, "unwindMethod");
	while (ws_nsys_step(nsys, statement, table)) {
		int64_t chain = ws_nsys_int(statement, id, 0);

		if (!any || chain != last)
			stack = 0;
		any = true;
		last = chain;
		stack = ws_into_stack(nsys->into, stack,
				      ws_into_frame(nsys->into,
						    ws_nsys_text(nsys, statement, symbol),
						    ws_nsys_text(nsys, statement, module),
						    (uint64_t)ws_nsys_int(statement, address, 0),
						    ws_nsys_int(statement, kernel, 0),
						    (uint8_t)ws_nsys_int(statement, method, 0)));
		ws_map_set(out, (uint64_t)chain, stack);
	}
	sqlite3_finalize(statement);
	ws_nsys_done(nsys, table);
}

/*
 * Tables of our exports that are made from others, for people who know them: the others say the
 * same with the numbers that rows point to.
 */
void ws_nsys_skip_made(struct ws_nsys *nsys)
{
	static const char *const made[] = {"CUDA_CALLCHAINS", "OSRT_CALLCHAINS",
					   "SAMPLING_CALLCHAINS", "PYTHON_CALLCHAINS",
					   "PERF_EVENT_CPU_RAW_EVENT"};

	for (size_t i = 0; i < WS_COUNT(made); i++)
		ws_nsys_done(nsys, made[i]);
	ws_nsys_generic(nsys, WS_TABLE_sched, "WARPSIGHT_SCHED", NULL, NULL);
	ws_nsys_done(nsys, "SCHED_EVENTS");
}

/* ---- samples ---- */

static void fix_sample(struct ws_nsys *nsys, sqlite3_stmt *statement, void *row)
{
	struct ws_row_sample *row_sample = row;
	uint32_t stack;
	int id = ws_nsys_column(statement, "id");

	if (nsys->own) {
		row_sample->frame =
			(uint32_t)ws_nsys_int(statement, ws_nsys_column(statement, "frameId"), 0);
		row_sample->callers =
			(uint32_t)ws_nsys_int(statement, ws_nsys_column(statement, "callersId"), 0);
		return;
	}
	if (id < 0)
		return;
	stack = (uint32_t)ws_map_get(&nsys->sample_chains, (uint64_t)ws_nsys_int(statement, id, 0),
				     NULL);
	row_sample->frame = stack ? nsys->into->stack[stack - 1].frame : 0;
	row_sample->callers = stack ? nsys->into->stack[stack - 1].parent : 0;
}

void ws_nsys_samples(struct ws_nsys *nsys)
{
	ws_nsys_chains(nsys, "SAMPLING_CALLCHAINS", &nsys->sample_chains);
	ws_nsys_generic(nsys, WS_TABLE_sample, NULL, NULL, fix_sample);
	ws_map_free(&nsys->sample_chains);
	nsys->sample_chains = (struct ws_map){0};
}

/* ---- switches of threads ---- */

struct running {
	uint64_t start;
	uint32_t thread;
};

static void put_running(struct ws_nsys *nsys, const struct running *running, int64_t cpu,
			uint64_t end)
{
	struct ws_row_sched *row = ws_into_row(nsys->into, WS_TABLE_sched);

	*row = (struct ws_row_sched){.start = running->start,
				     .end = end,
				     .thread = running->thread,
				     .cpu = (uint32_t)cpu,
				     .woken = WS_NO_TIME};
}

/* Theirs are moments of switching in and out; ours are spans. Of our own exports they are read as
 * they are. */
void ws_nsys_sched(struct ws_nsys *nsys)
{
	enum { CPUS = 4096 };
	struct running *on;
	sqlite3_stmt *statement;
	int start, cpu, in, thread;

	if (!ws_nsys_has(nsys, "SCHED_EVENTS"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM SCHED_EVENTS ORDER BY start");
	start = ws_nsys_column(statement, "start"), cpu = ws_nsys_column(statement, "cpu"),
	in = ws_nsys_column(statement, "isSchedIn");
	thread = ws_nsys_column(statement, "globalTid");
	if (in < 0) {
		sqlite3_finalize(statement);
		ws_nsys_generic(nsys, WS_TABLE_sched, NULL, NULL, NULL);
		return;
	}
	on = ws_calloc(CPUS, sizeof(*on));
	while (ws_nsys_step(nsys, statement, "SCHED_EVENTS")) {
		uint64_t at = ws_nsys_time(nsys, statement, start);
		int64_t c = ws_nsys_int(statement, cpu, -1);
		uint32_t who;

		if (c < 0 || c >= CPUS) {
			ws_into_note(nsys->into,
				     "SCHED_EVENTS: switches without a core were left out.");
			continue;
		}
		who = ws_nsys_thread(nsys, ws_nsys_int(statement, thread, 0), at);
		ws_into_time(nsys->into, at);
		if (on[c].thread && (ws_nsys_int(statement, in, 0) || on[c].thread != who))
			put_running(nsys, &on[c], c,
				    ws_nsys_int(statement, in, 0) ? at : WS_NO_TIME);
		else if (on[c].thread)
			put_running(nsys, &on[c], c, at);
		on[c] = (struct running){.start = at,
					 .thread = ws_nsys_int(statement, in, 0) ? who : 0};
	}
	for (int64_t c = 0; c < CPUS; c++)
		if (on[c].thread)
			put_running(nsys, &on[c], c, WS_NO_TIME);
	free(on);
	sqlite3_finalize(statement);
	ws_nsys_done(nsys, "SCHED_EVENTS");
}

/* ---- metrics ---- */

static void put_metric(struct ws_nsys *nsys, sqlite3_stmt *statement, uint32_t counter, uint64_t at,
		       int value)
{
	struct ws_row_counter_value *row = ws_into_row(nsys->into, WS_TABLE_counter_value);

	*row = (struct ws_row_counter_value){
		.start = at, .counter = counter, .value = sqlite3_column_double(statement, value)};
	ws_into_time(nsys->into, at);
}

/* A counter's numbers in the table that its values come from, for exports: false when it has others
 * already. */
static bool number_counter(struct ws_nsys *nsys, uint32_t counter, const char *table,
			   const int64_t *numbers, size_t count)
{
	struct ws_text fact = {0}, value = {0};
	uint64_t hash, before;

	ws_text_puts(&value, table);
	for (size_t i = 0; i < count; i++)
		ws_text_printf(&value, " %" PRId64, numbers[i]);
	hash = XXH3_64bits(value.text, value.len) | 1;
	before = ws_map_get(&nsys->counters, counter, NULL);
	if (!before) {
		ws_map_set(&nsys->counters, counter, hash);
		ws_text_printf(&fact, WS_FOREIGN_COUNTER_FACT "%" PRIu32, counter);
		ws_into_meta(nsys->into, fact.text, value.text, value.len);
	}
	ws_text_free(&fact);
	ws_text_free(&value);
	return !before || before == hash;
}

static uint32_t gpu_counter(struct ws_nsys *nsys, struct ws_map *counters, uint64_t type,
			    uint64_t metric, const char *group, const char *name)
{
	const int64_t numbers[] = {(int64_t)type, (int64_t)metric};
	const char *unit = strchr(name, '%') ? "%" : NULL;
	uint32_t id = ws_into_counter(nsys->into, 0, 0, type & 0xff, group, strlen(group), name,
				      strlen(name), unit, NULL);

	if (!number_counter(nsys, id, "GPU_METRICS", numbers, 2)) { /* two sources of one name */
		char *apart = ws_format("%.200s (%" PRIu64 ".%" PRIu64 ")", name, type, metric);

		id = ws_into_counter(nsys->into, 0, 0, type & 0xff, group, strlen(group), apart,
				     strlen(apart), unit, NULL);
		number_counter(nsys, id, "GPU_METRICS", numbers, 2);
		free(apart);
	}
	ws_map_set(counters, type << 16 ^ metric, id);
	return id;
}

/* GPU_METRICS: a value of metric `metricId` of the source `typeId`, whose low byte is the GPU. */
static void read_gpu_metrics(struct ws_nsys *nsys)
{
	struct ws_map counters = {0};
	sqlite3_stmt *statement;

	if (!ws_nsys_has(nsys, "GPU_METRICS"))
		return;
	if (ws_nsys_has(nsys, "TARGET_INFO_GPU_METRICS")) {
		statement = ws_nsys_select(
			nsys, "SELECT DISTINCT typeId, metricId, typeName, metricName FROM "
			      "TARGET_INFO_GPU_METRICS");
		while (ws_nsys_step(nsys, statement, "TARGET_INFO_GPU_METRICS")) {
			const char *name = (const char *)sqlite3_column_text(statement, 3),
				   *group = (const char *)sqlite3_column_text(statement, 2);

			gpu_counter(nsys, &counters, (uint64_t)sqlite3_column_int64(statement, 0),
				    (uint64_t)sqlite3_column_int64(statement, 1),
				    ws_text_or(group, ""), ws_text_or(name, ""));
		}
		sqlite3_finalize(statement);
	}
	statement =
		ws_nsys_select(nsys, "SELECT timestamp, typeId, metricId, value FROM GPU_METRICS");
	while (ws_nsys_step(nsys, statement, "GPU_METRICS")) {
		uint64_t type = (uint64_t)sqlite3_column_int64(statement, 1),
			 metric = (uint64_t)sqlite3_column_int64(statement, 2);
		uint32_t id = (uint32_t)ws_map_get(&counters, type << 16 ^ metric, NULL);
		char name[64];

		if (!id) {
			snprintf(name, sizeof(name), "metric %" PRIu64, metric);
			id = gpu_counter(nsys, &counters, type, metric, "GPU metrics", name);
		}
		put_metric(nsys, statement, id, ws_nsys_time(nsys, statement, 0), 3);
	}
	sqlite3_finalize(statement);
	ws_map_free(&counters);
	ws_nsys_done(nsys, "GPU_METRICS");
}

/* ---- network devices ---- */

/* Names, units and descriptions that tables give to numbers. */
struct net {
	struct ws_map names, units;   /* metric -> text + 1 */
	struct ws_map devices, guids; /* globalId -> text + 1 */
	char **texts;
	size_t count, cap;
};

static void remember(struct net *net, struct ws_map *map, uint64_t key, sqlite3_stmt *statement,
		     int column)
{
	const char *text = column < 0 ? NULL : (const char *)sqlite3_column_text(statement, column);

	if (!text || net->count == 1 << 16)
		return;
	ws_grow(net->texts, net->cap, net->count + 1);
	net->texts[net->count++] = ws_strdup(text);
	ws_map_set(map, key, net->count);
}

static const char *recall(const struct net *net, const struct ws_map *map, uint64_t key)
{
	uint64_t at = ws_map_get(map, key, NULL);

	return at ? net->texts[at - 1] : NULL;
}

static uint64_t metric_key(int64_t list, int64_t idx)
{
	return (uint64_t)list << 32 ^ (uint64_t)idx;
}

/* TARGET_INFO_NETWORK_METRICS says what is counted, TARGET_INFO_NIC_INFO who counts: by its own
 * number, or through NIC_ID_MAP. */
static void load_net(struct ws_nsys *nsys, struct net *net)
{
	static const char *const of_devices[] = {
		"SELECT m.globalId, i.name, i.GUID FROM NIC_ID_MAP m JOIN TARGET_INFO_NIC_INFO i "
		"ON i.nicId = m.nicId",
		"SELECT nicId, name, GUID FROM TARGET_INFO_NIC_INFO",
	};
	bool mapped = ws_nsys_has(nsys, "NIC_ID_MAP");
	sqlite3_stmt *statement;

	if (ws_nsys_has(nsys, "TARGET_INFO_NETWORK_METRICS")) {
		statement = ws_nsys_select(nsys, "SELECT * FROM TARGET_INFO_NETWORK_METRICS");
		int list = ws_nsys_column(statement, "metricsListId"),
		    idx = ws_nsys_column(statement, "metricsIdx");
		int name = ws_nsys_column(statement, "name"),
		    unit = ws_nsys_column(statement, "unit");

		while (ws_nsys_step(nsys, statement, "TARGET_INFO_NETWORK_METRICS")) {
			uint64_t key = metric_key(ws_nsys_int(statement, list, 0),
						  ws_nsys_int(statement, idx, 0));

			remember(net, &net->names, key, statement, name);
			remember(net, &net->units, key, statement, unit);
		}
		sqlite3_finalize(statement);
	}
	if (!ws_nsys_has(nsys, "TARGET_INFO_NIC_INFO"))
		return;
	statement = ws_nsys_select(nsys, "%s", of_devices[!mapped]);
	while (ws_nsys_step(nsys, statement, "TARGET_INFO_NIC_INFO")) {
		remember(net, &net->devices, (uint64_t)sqlite3_column_int64(statement, 0),
			 statement, 1);
		remember(net, &net->guids, (uint64_t)sqlite3_column_int64(statement, 0), statement,
			 2);
	}
	sqlite3_finalize(statement);
}

static void free_net(struct net *net)
{
	ws_map_free(&net->names);
	ws_map_free(&net->units);
	ws_map_free(&net->devices);
	ws_map_free(&net->guids);
	for (size_t i = 0; i < net->count; i++)
		free(net->texts[i]);
	free(net->texts);
}

static uint32_t net_counter(struct ws_nsys *nsys, const struct net *net, const char *group,
			    uint64_t device, uint64_t metric)
{
	const char *name = recall(net, &net->names, metric),
		   *known = recall(net, &net->devices, device);
	const char *guid = recall(net, &net->guids, device);
	char row[160], made[64], own[32];
	int len;

	if (known)
		len = snprintf(row, sizeof(row), "%s %s", group, known);
	else
		len = snprintf(row, sizeof(row), "%s %" PRId64, group, (int64_t)device);
	len = len < (int)sizeof(row) ? len : (int)sizeof(row) - 1;
	snprintf(made, sizeof(made), "metric %" PRIu64 ".%" PRIu64, metric >> 32,
		 metric & UINT32_MAX);
	snprintf(own, sizeof(own), "%" PRId64,
		 (int64_t)device); /* switches are known by nothing else */
	name = name ? name : made;
	return ws_into_counter(nsys->into, 0, 0, WS_NO_U32, row, (size_t)len, name, strlen(name),
			       recall(net, &net->units, metric), guid ? guid : own);
}

/* NET_NIC_METRIC, NET_IB_SWITCH_METRIC: a value over a span, of metric `idx` of list `list`, of a
 * device. */
static void read_net_metrics(struct ws_nsys *nsys, const struct net *net, const char *table,
			     const char *group)
{
	sqlite3_stmt *statement;
	int start, end, device, list, idx, value;

	if (!ws_nsys_has(nsys, table))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM \"%w\"", table);
	start = ws_nsys_column(statement, "start"), end = ws_nsys_column(statement, "end"),
	device = ws_nsys_column(statement, "globalId");
	list = ws_nsys_column(statement, "metricsListId"),
	idx = ws_nsys_column(statement, "metricsIdx"), value = ws_nsys_column(statement, "value");
	while (ws_nsys_step(nsys, statement, table)) {
		uint64_t from = ws_nsys_time(nsys, statement, start),
			 to = ws_nsys_time(nsys, statement, end);
		uint64_t metric =
			metric_key(ws_nsys_int(statement, list, 0), ws_nsys_int(statement, idx, 0));
		const int64_t numbers[] = {ws_nsys_int(statement, device, 0),
					   ws_nsys_int(statement, list, 0),
					   ws_nsys_int(statement, idx, 0)};
		uint32_t counter = net_counter(nsys, net, group, (uint64_t)numbers[0], metric);
		struct ws_row_counter_value *row = ws_into_row(nsys->into, WS_TABLE_counter_value);

		number_counter(nsys, counter, table, numbers, 3);

		from = from == WS_NO_TIME ? nsys->shift : from;
		*row = (struct ws_row_counter_value){
			.start = from,
			.counter = counter,
			.value = value < 0 ? 0 : sqlite3_column_double(statement, value),
			.span = to != WS_NO_TIME && to > from ? to - from : 0};
		ws_into_time(nsys->into, from);
		ws_into_time(nsys->into, from + row->span);
	}
	sqlite3_finalize(statement);
	ws_nsys_done(nsys, table);
}

void ws_nsys_metrics(struct ws_nsys *nsys)
{
	struct net net = {0};

	read_gpu_metrics(nsys);
	load_net(nsys, &net);
	read_net_metrics(nsys, &net, "NET_NIC_METRIC", "NIC");
	read_net_metrics(nsys, &net, "NET_IB_SWITCH_METRIC", "IB switch");
	free_net(&net);
}

/* ---- the rest ---- */

/* Does the column point to StringIds, by what the export says of it? */
static bool points_to_strings(const char *sql, const char *column)
{
	size_t len = strlen(column);

	for (const char *line = sql; line; line = strchr(line, '\n')) {
		const char *end, *at = line + strspn(line, "\n \t\"");

		line += *line == '\n';
		end = strchr(line, '\n');
		if (strncmp(at, column, len) || !strchr(" \t\"", at[len]))
			continue;
		at = strstr(at, "REFERENCES StringIds");
		return at && (!end || at < end);
	}
	return false;
}

static void put_json(struct ws_nsys *nsys, struct ws_text *out, sqlite3_stmt *statement, int column,
		     bool by_number, sqlite3_stmt *lookup)
{
	int64_t i;

	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_INTEGER:
		i = sqlite3_column_int64(statement, column);
		if (by_number && lookup) {
			sqlite3_reset(lookup);
			sqlite3_bind_int64(lookup, 1, i);
			if (sqlite3_step(lookup) == SQLITE_ROW && sqlite3_column_text(lookup, 0)) {
				ws_text_puts(out, "\"");
				ws_json_escape(out, (const char *)sqlite3_column_text(lookup, 0),
					       (size_t)sqlite3_column_bytes(lookup, 0));
				ws_text_puts(out, "\"");
				return;
			}
		}
		ws_text_printf(out, "%" PRId64, i);
		return;
	case SQLITE_FLOAT:
		ws_text_printf(out, "%.17g", sqlite3_column_double(statement, column));
		return;
	case SQLITE_NULL:
		ws_text_puts(out, "null");
		return;
	default:
		if (sqlite3_column_bytes(statement, column) > 1 << 20) {
			ws_into_note(nsys->into,
				     "Values of more than 1 MiB in tables without a place "
				     "here were left out.");
			ws_text_puts(out, "null");
			return;
		}
		ws_text_puts(out, "\"");
		ws_json_escape(out, sqlite3_column_blob(statement, column),
			       (size_t)sqlite3_column_bytes(statement, column));
		ws_text_puts(out, "\"");
	}
}

/* Columns of a table that is read without knowing it. */
struct unknown {
	const char *name;
	int count, start, end, thread, label;
	bool pointer[WS_MAX_COLUMNS * 2];
};

static void plan_unknown(struct unknown *unknown, sqlite3_stmt *statement, const char *sql)
{
	static const char *const labels[] = {"nameId", "textId", "name", "text"};

	unknown->count = sqlite3_column_count(statement);
	unknown->count = ws_min(unknown->count, (int)WS_COUNT(unknown->pointer));
	for (int c = 0; c < unknown->count; c++)
		unknown->pointer[c] = points_to_strings(sql, sqlite3_column_name(statement, c));
	unknown->start = ws_nsys_column(statement, "start");
	if (unknown->start < 0)
		unknown->start = ws_nsys_column(statement, "timestamp");
	unknown->end = ws_nsys_column(statement, "end");
	unknown->thread = ws_nsys_column(statement, "globalTid");
	unknown->label = -1;
	for (size_t i = 0; i < WS_COUNT(labels) && unknown->label < 0; i++)
		unknown->label = ws_nsys_column(statement, labels[i]);
}

static void put_slice(struct ws_nsys *nsys, sqlite3_stmt *statement, const struct unknown *unknown,
		      const struct ws_text *args, uint32_t category)
{
	struct ws_row_slice row = {.start = ws_nsys_time(nsys, statement, unknown->start),
				   .end = ws_nsys_time(nsys, statement, unknown->end),
				   .category = category};

	row.thread =
		sqlite3_column_type(statement, unknown->thread) == SQLITE_NULL
			? 0
			: ws_nsys_thread(nsys, sqlite3_column_int64(statement, unknown->thread),
					 row.start);
	row.name = unknown->label < 0 ? category : ws_nsys_text(nsys, statement, unknown->label);
	row.args = args->len > 2 ? ws_writer_string(nsys->into->writer, args->text, args->len) : 0;
	row.flags = row.end == WS_NO_TIME ? WS_SLICE_INSTANT : 0;
	*(struct ws_row_slice *)ws_into_row(nsys->into, WS_TABLE_slice) = row;
	ws_into_time(nsys->into, row.start);
	if (row.end != WS_NO_TIME)
		ws_into_time(nsys->into, row.end);
}

/* What exports need to make the table again. */
static void put_columns(struct ws_nsys *nsys, const char *name, sqlite3_stmt *statement,
			const struct unknown *unknown, bool slices)
{
	struct ws_text fact = {0}, spec = {0};

	ws_text_puts(&spec, slices ? "S" : "F");
	for (int c = 0; c < unknown->count; c++) {
		const char *type = sqlite3_column_decltype(statement, c),
			   *column = sqlite3_column_name(statement, c);
		bool text = type && (strcasestr(type, "TEXT") || strcasestr(type, "CHAR"));
		bool real = type && (strcasestr(type, "REAL") || strcasestr(type, "FLOA") ||
				     strcasestr(type, "DOUB"));
		size_t len = strlen(column);

		ws_text_printf(&spec, " %.200s/%s", column, text ? "T" : real ? "R" : "");
		if (unknown->pointer[c] || (slices && c == unknown->label && !text && len > 2 &&
					    !strcmp(column + len - 2, "Id")))
			ws_text_puts(&spec, "@");
		if (c == unknown->start || (unknown->start >= 0 && c == unknown->end))
			ws_text_puts(&spec, c == unknown->start ? "s" : "e");
		else if (slices && (c == unknown->thread || c == unknown->label))
			ws_text_puts(&spec, c == unknown->thread ? "t" : "n");
	}
	ws_text_printf(&fact, WS_FOREIGN_TABLE_FACT "%.200s", name);
	ws_into_meta(nsys->into, fact.text, spec.text, spec.len);
	ws_text_free(&fact);
	ws_text_free(&spec);
}

/* Tables that explain those of metrics: kept for exports, and nothing to tell of. */
static bool explains(const char *table)
{
	static const char *const tables[] = {"TARGET_INFO_GPU_METRICS",
					     "TARGET_INFO_NETWORK_METRICS", "NIC_ID_MAP"};

	for (size_t i = 0; i < WS_COUNT(tables); i++)
		if (!strcmp(table, tables[i]))
			return true;
	return false;
}

static void read_unknown(struct ws_nsys *nsys, const char *name, const char *sql,
			 sqlite3_stmt *lookup)
{
	sqlite3_stmt *statement = ws_nsys_select(nsys, "SELECT * FROM \"%w\"", name);
	struct unknown unknown;
	struct ws_text json = {0};
	uint32_t label = ws_into_text(nsys->into, name);
	uint64_t rows = 0;
	bool slices;

	if (!statement)
		return;
	plan_unknown(&unknown, statement, sql);
	/* A thread's span with a name is shown as one; anything else is kept as it is. */
	slices = unknown.start >= 0 && unknown.thread >= 0 && unknown.end >= 0;
	put_columns(nsys, name, statement, &unknown, slices);
	while (ws_nsys_step(nsys, statement, name)) {
		json.len = 0;
		for (int c = 0; c < unknown.count; c++) {
			if (slices && (c == unknown.start || c == unknown.end ||
				       c == unknown.thread || c == unknown.label))
				continue;
			ws_text_puts(&json, json.len ? ",\"" : "{\"");
			ws_json_escape(&json, sqlite3_column_name(statement, c),
				       strlen(sqlite3_column_name(statement, c)));
			ws_text_puts(&json, "\":");
			put_json(nsys, &json, statement, c, unknown.pointer[c], lookup);
		}
		ws_text_puts(&json, json.len ? "}" : "{}");
		rows++;
		if (slices) {
			put_slice(nsys, statement, &unknown, &json, label);
		} else {
			uint64_t at = unknown.start >= 0
					      ? ws_nsys_time(nsys, statement, unknown.start)
					      : WS_NO_TIME;
			uint32_t text = ws_writer_string(nsys->into->writer, json.text, json.len);
			struct ws_row_foreign *row = ws_into_row(nsys->into, WS_TABLE_foreign);

			*row = (struct ws_row_foreign){.start = at == WS_NO_TIME ? nsys->shift : at,
						       .table = label,
						       .row = text};
		}
	}
	if (rows && !explains(name))
		ws_into_note_n(nsys->into, 1,
			       "%s has no table here: its %" PRIu64 " rows were kept as %s.", name,
			       rows,
			       slices ? "slices of that category" : "rows of WARPSIGHT_FOREIGN");
	ws_text_free(&json);
	sqlite3_finalize(statement);
}

void ws_nsys_rest(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement, *lookup = NULL;

	statement =
		ws_nsys_select(nsys, "SELECT name, sql FROM sqlite_master WHERE type='table' AND "
				     "rootpage>0 ORDER BY rowid LIMIT 2048");
	if (sqlite3_prepare_v2(nsys->db, "SELECT value FROM StringIds WHERE id=?1", -1, &lookup,
			       NULL) != SQLITE_OK)
		lookup = NULL;
	while (ws_nsys_step(nsys, statement, "the list of tables")) {
		const char *name = (const char *)sqlite3_column_text(statement, 0),
			   *sql = (const char *)sqlite3_column_text(statement, 1);

		if (!name || !sql || !strncmp(name, "ENUM_", 5) || !strncmp(name, "sqlite_", 7) ||
		    !ws_nsys_has(nsys, name))
			continue;
		read_unknown(nsys, name, sql, lookup);
	}
	sqlite3_finalize(lookup);
	sqlite3_finalize(statement);
}
