/*
 * nsys_code.c - SQLite exports: call chains and samples, context switches, metrics, and tables that
 * have no counterpart here.
 *
 * Chains are lists of names from the innermost frame outwards. Here they become frames, each
 * written once and with a symbol, and stacks that share their outer parts.
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

void ws_nsys_read_chains(struct ws_nsys *nsys, const char *table, struct ws_map *out)
{
	sqlite3_stmt *statement;
	int id, symbol, module, address, kernel, method;
	uint32_t stack = 0;
	int64_t last = 0;
	bool any = false;

	if (!ws_nsys_has_unread(nsys, table))
		return;
	statement =
		ws_nsys_select(nsys, "SELECT * FROM \"%w\" ORDER BY id, stackDepth DESC", table);
	id = ws_nsys_find_column(statement, "id"),
	symbol = ws_nsys_find_column(statement, "symbol"),
	module = ws_nsys_find_column(statement, "module");
	address = ws_nsys_find_column(statement, "originalIP"),
	kernel = ws_nsys_find_column(statement, "kernelMode"),
	method = ws_nsys_find_column(statement, "unwindMethod");
	while (ws_nsys_step_row(nsys, statement, table)) {
		int64_t chain = ws_nsys_get_int(statement, id, 0);

		if (!any || chain != last)
			stack = 0;
		any = true;
		last = chain;
		stack = ws_importer_intern_stack(
			nsys->importer, stack,
			ws_importer_intern_frame(nsys->importer,
						 ws_nsys_get_text(nsys, statement, symbol),
						 ws_nsys_get_text(nsys, statement, module),
						 (uint64_t)ws_nsys_get_int(statement, address, 0),
						 ws_nsys_get_int(statement, kernel, 0),
						 (uint8_t)ws_nsys_get_int(statement, method, 0)));
		ws_map_set(out, (uint64_t)chain, stack);
	}
	sqlite3_finalize(statement);
	ws_nsys_mark_done(nsys, table);
}

/* Skip the tables of our exports that are derived from others for users of Nsight's tables. The
 * originals hold the same data, with the numbers that rows refer to. */
void ws_nsys_skip_derived(struct ws_nsys *nsys)
{
	static const char *const made[] = {"CUDA_CALLCHAINS", "OSRT_CALLCHAINS",
					   "SAMPLING_CALLCHAINS", "PYTHON_CALLCHAINS",
					   "PERF_EVENT_CPU_RAW_EVENT"};

	static const char *const of_counters[] = {"GPU_METRICS",
						  "TARGET_INFO_GPU_METRICS",
						  "NET_NIC_METRIC",
						  "NET_IB_SWITCH_METRIC",
						  "TARGET_INFO_NETWORK_METRICS",
						  "TARGET_INFO_NIC_INFO",
						  "NIC_ID_MAP"};
	bool has_counters = ws_nsys_has_unread(nsys, "WARPSIGHT_COUNTER_VALUE");

	for (size_t i = 0; i < WS_COUNT(made); i++)
		ws_nsys_mark_done(nsys, made[i]);
	for (size_t i = 0; has_counters && i < WS_COUNT(of_counters); i++)
		ws_nsys_mark_done(nsys, of_counters[i]);
	ws_nsys_read_table(nsys, WS_TABLE_sched, "WARPSIGHT_SCHED", NULL, NULL);
	ws_nsys_mark_done(nsys, "SCHED_EVENTS");
}

/* ---- samples ---- */

static void fix_sample(struct ws_nsys *nsys, sqlite3_stmt *statement, void *row)
{
	struct ws_row_sample *sample = row;
	uint32_t stack;
	int id = ws_nsys_find_column(statement, "id");

	if (nsys->is_own_export) {
		sample->frame = (uint32_t)ws_nsys_get_int(
			statement, ws_nsys_find_column(statement, "frameId"), 0);
		sample->callers = (uint32_t)ws_nsys_get_int(
			statement, ws_nsys_find_column(statement, "callersId"), 0);
		return;
	}
	if (id < 0)
		return;
	stack = (uint32_t)ws_map_get(&nsys->sample_chains,
				     (uint64_t)ws_nsys_get_int(statement, id, 0), NULL);
	sample->frame = sample->callers = 0;
	if (stack) {
		sample->frame = nsys->importer->stack_rows[stack - 1].frame;
		sample->callers = nsys->importer->stack_rows[stack - 1].parent;
	}
}

void ws_nsys_read_samples(struct ws_nsys *nsys)
{
	ws_nsys_read_chains(nsys, "SAMPLING_CALLCHAINS", &nsys->sample_chains);
	ws_nsys_read_table(nsys, WS_TABLE_sample, NULL, NULL, fix_sample);
	ws_map_free(&nsys->sample_chains);
	nsys->sample_chains = (struct ws_map){0};
}

/* ---- context switches ---- */

/* The thread that a core is running, and since when. */
struct running_span {
	uint64_t start;
	uint32_t thread;
};

static void put_running_span(struct ws_nsys *nsys, const struct running_span *running, int64_t cpu,
			     uint64_t end)
{
	struct ws_row_sched *row = ws_importer_add_row(nsys->importer, WS_TABLE_sched);

	*row = (struct ws_row_sched){.start = running->start,
				     .end = end,
				     .thread = running->thread,
				     .cpu = (uint32_t)cpu,
				     .woken = WS_NO_TIME};
}

/* The file has the moments of switching in and out; here they become spans. The spans of our own
 * exports are copied. */
void ws_nsys_read_sched(struct ws_nsys *nsys)
{
	enum { CPUS = 4096 };
	struct running_span *cores;
	sqlite3_stmt *statement;
	int start, cpu, in, thread;

	if (!ws_nsys_has_unread(nsys, "SCHED_EVENTS"))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM SCHED_EVENTS ORDER BY start");
	start = ws_nsys_find_column(statement, "start"),
	cpu = ws_nsys_find_column(statement, "cpu"),
	in = ws_nsys_find_column(statement, "isSchedIn");
	thread = ws_nsys_find_column(statement, "globalTid");
	if (in < 0) {
		sqlite3_finalize(statement);
		ws_nsys_read_table(nsys, WS_TABLE_sched, NULL, NULL, NULL);
		return;
	}
	cores = ws_calloc(CPUS, sizeof(*cores));
	while (ws_nsys_step_row(nsys, statement, "SCHED_EVENTS")) {
		uint64_t at = ws_nsys_get_time(nsys, statement, start);
		int64_t number = ws_nsys_get_int(statement, cpu, -1);
		bool switched_in = ws_nsys_get_int(statement, in, 0);
		struct running_span *core;
		uint32_t who;

		if (number < 0 || number >= CPUS) {
			ws_importer_add_note(
				nsys->importer,
				"SCHED_EVENTS: switches without a core were left out.");
			continue;
		}
		who = ws_nsys_find_thread(nsys, ws_nsys_get_int(statement, thread, 0), at);
		ws_importer_include_time(nsys->importer, at);
		core = &cores[number];
		/* When another thread is switched out, the end of this one is not known. */
		if (core->thread && !switched_in && core->thread != who)
			put_running_span(nsys, core, number, WS_NO_TIME);
		else if (core->thread)
			put_running_span(nsys, core, number, at);
		*core = (struct running_span){.start = at};
		if (switched_in)
			core->thread = who;
	}
	for (int64_t i = 0; i < CPUS; i++)
		if (cores[i].thread)
			put_running_span(nsys, &cores[i], i, WS_NO_TIME);
	free(cores);
	sqlite3_finalize(statement);
	ws_nsys_mark_done(nsys, "SCHED_EVENTS");
}

/* ---- metrics ---- */

static void put_metric(struct ws_nsys *nsys, sqlite3_stmt *statement, uint32_t counter, uint64_t at,
		       int value)
{
	struct ws_row_counter_value *row =
		ws_importer_add_row(nsys->importer, WS_TABLE_counter_value);

	*row = (struct ws_row_counter_value){
		.start = at, .counter = counter, .value = sqlite3_column_double(statement, value)};
	ws_importer_include_time(nsys->importer, at);
}

/* Keep a counter's numbers in the table that its values come from, for exports. False when it
 * already has others. */
static bool put_counter_numbers(struct ws_nsys *nsys, uint32_t counter, const char *table,
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
		ws_importer_add_fact(nsys->importer, fact.text, value.text, value.len);
	}
	ws_text_free(&fact);
	ws_text_free(&value);
	return !before || before == hash;
}

static uint32_t find_gpu_counter(struct ws_nsys *nsys, struct ws_map *counters, uint64_t type,
				 uint64_t metric, const char *group, const char *name)
{
	const int64_t numbers[] = {(int64_t)type, (int64_t)metric};
	struct ws_import_counter counter = {.device = type & 0xff,
					    .group = group,
					    .group_length = strlen(group),
					    .name = name,
					    .name_length = strlen(name)};
	uint32_t id;

	if (strchr(name, '%'))
		counter.unit = "%";
	id = ws_importer_intern_counter(nsys->importer, &counter);
	if (!put_counter_numbers(nsys, id, "GPU_METRICS", numbers,
				 2)) { /* two sources have the same name */
		char *apart = ws_format("%.200s (%" PRIu64 ".%" PRIu64 ")", name, type, metric);

		counter.name = apart;
		counter.name_length = strlen(apart);
		id = ws_importer_intern_counter(nsys->importer, &counter);
		put_counter_numbers(nsys, id, "GPU_METRICS", numbers, 2);
		free(apart);
	}
	ws_map_set(counters, type << 16 ^ metric, id);
	return id;
}

/* GPU_METRICS holds values of metric `metricId` of the source `typeId`, whose low byte is the GPU.
 */
static void read_gpu_metrics(struct ws_nsys *nsys)
{
	struct ws_map counters = {0};
	sqlite3_stmt *statement;

	if (!ws_nsys_has_unread(nsys, "GPU_METRICS"))
		return;
	if (ws_nsys_has_unread(nsys, "TARGET_INFO_GPU_METRICS")) {
		statement = ws_nsys_select(
			nsys, "SELECT DISTINCT typeId, metricId, typeName, metricName FROM "
			      "TARGET_INFO_GPU_METRICS");
		while (ws_nsys_step_row(nsys, statement, "TARGET_INFO_GPU_METRICS")) {
			const char *name = (const char *)sqlite3_column_text(statement, 3),
				   *group = (const char *)sqlite3_column_text(statement, 2);

			find_gpu_counter(nsys, &counters,
					 (uint64_t)sqlite3_column_int64(statement, 0),
					 (uint64_t)sqlite3_column_int64(statement, 1),
					 ws_text_or(group, ""), ws_text_or(name, ""));
		}
		sqlite3_finalize(statement);
	}
	statement =
		ws_nsys_select(nsys, "SELECT timestamp, typeId, metricId, value FROM GPU_METRICS");
	while (ws_nsys_step_row(nsys, statement, "GPU_METRICS")) {
		uint64_t type = (uint64_t)sqlite3_column_int64(statement, 1),
			 metric = (uint64_t)sqlite3_column_int64(statement, 2);
		uint32_t id = (uint32_t)ws_map_get(&counters, type << 16 ^ metric, NULL);
		char name[64];

		if (!id) {
			snprintf(name, sizeof(name), "metric %" PRIu64, metric);
			id = find_gpu_counter(nsys, &counters, type, metric, "GPU metrics", name);
		}
		put_metric(nsys, statement, id, ws_nsys_get_time(nsys, statement, 0), 3);
	}
	sqlite3_finalize(statement);
	ws_map_free(&counters);
	ws_nsys_mark_done(nsys, "GPU_METRICS");
}

/* ---- network devices ---- */

/* Names, units and identities that tables give to the numbers of metrics and devices. */
struct net_info {
	struct ws_map names, units;   /* metric -> text + 1 */
	struct ws_map devices, guids; /* globalId -> text + 1 */
	char **texts;
	size_t count, cap;
};

static void keep_text(struct net_info *net, struct ws_map *map, uint64_t key,
		      sqlite3_stmt *statement, int column)
{
	const char *text = NULL;

	if (column >= 0)
		text = (const char *)sqlite3_column_text(statement, column);
	if (!text || net->count == 1 << 16)
		return;
	ws_grow(net->texts, net->cap, net->count + 1);
	net->texts[net->count++] = ws_strdup(text);
	ws_map_set(map, key, net->count);
}

static const char *get_kept_text(const struct net_info *net, const struct ws_map *map, uint64_t key)
{
	uint64_t at = ws_map_get(map, key, NULL);

	if (!at)
		return NULL;
	return net->texts[at - 1];
}

static uint64_t make_metric_key(int64_t list, int64_t idx)
{
	return (uint64_t)list << 32 ^ (uint64_t)idx;
}

/* TARGET_INFO_NETWORK_METRICS describes what is counted, TARGET_INFO_NIC_INFO which device counts
 * it. Rows refer to the device by its own number or through NIC_ID_MAP. */
static void read_net_info(struct ws_nsys *nsys, struct net_info *net)
{
	static const char *const of_devices[] = {
		"SELECT m.globalId, i.name, i.GUID FROM NIC_ID_MAP m JOIN TARGET_INFO_NIC_INFO i "
		"ON i.nicId = m.nicId",
		"SELECT nicId, name, GUID FROM TARGET_INFO_NIC_INFO",
	};
	bool mapped = ws_nsys_has_unread(nsys, "NIC_ID_MAP");
	sqlite3_stmt *statement;

	if (ws_nsys_has_unread(nsys, "TARGET_INFO_NETWORK_METRICS")) {
		statement = ws_nsys_select(nsys, "SELECT * FROM TARGET_INFO_NETWORK_METRICS");
		int list = ws_nsys_find_column(statement, "metricsListId"),
		    idx = ws_nsys_find_column(statement, "metricsIdx");
		int name = ws_nsys_find_column(statement, "name"),
		    unit = ws_nsys_find_column(statement, "unit");

		while (ws_nsys_step_row(nsys, statement, "TARGET_INFO_NETWORK_METRICS")) {
			uint64_t key = make_metric_key(ws_nsys_get_int(statement, list, 0),
						       ws_nsys_get_int(statement, idx, 0));

			keep_text(net, &net->names, key, statement, name);
			keep_text(net, &net->units, key, statement, unit);
		}
		sqlite3_finalize(statement);
	}
	if (!ws_nsys_has_unread(nsys, "TARGET_INFO_NIC_INFO"))
		return;
	statement = ws_nsys_select(nsys, "%s", of_devices[!mapped]);
	while (ws_nsys_step_row(nsys, statement, "TARGET_INFO_NIC_INFO")) {
		keep_text(net, &net->devices, (uint64_t)sqlite3_column_int64(statement, 0),
			  statement, 1);
		keep_text(net, &net->guids, (uint64_t)sqlite3_column_int64(statement, 0), statement,
			  2);
	}
	sqlite3_finalize(statement);
}

static void free_net_info(struct net_info *net)
{
	ws_map_free(&net->names);
	ws_map_free(&net->units);
	ws_map_free(&net->devices);
	ws_map_free(&net->guids);
	for (size_t i = 0; i < net->count; i++)
		free(net->texts[i]);
	free(net->texts);
}

static uint32_t find_net_counter(struct ws_nsys *nsys, const struct net_info *net,
				 const char *group, uint64_t device, uint64_t metric)
{
	const char *known = get_kept_text(net, &net->devices, device);
	char row[160], made[64], own[32];
	struct ws_import_counter counter = {.device = WS_NO_U32,
					    .group = row,
					    .name = get_kept_text(net, &net->names, metric),
					    .unit = get_kept_text(net, &net->units, metric),
					    .identity = get_kept_text(net, &net->guids, device)};
	int length;

	if (known)
		length = snprintf(row, sizeof(row), "%s %s", group, known);
	else
		length = snprintf(row, sizeof(row), "%s %" PRId64, group, (int64_t)device);
	counter.group_length = (size_t)(ws_min(length, (int)sizeof(row) - 1));
	snprintf(made, sizeof(made), "metric %" PRIu64 ".%" PRIu64, metric >> 32,
		 metric & UINT32_MAX);
	snprintf(own, sizeof(own), "%" PRId64, (int64_t)device);
	counter.name = ws_text_or(counter.name, made);
	counter.name_length = strlen(counter.name);
	counter.identity = ws_text_or(counter.identity, own); /* switches have no other number */
	return ws_importer_intern_counter(nsys->importer, &counter);
}

/* NET_NIC_METRIC and NET_IB_SWITCH_METRIC hold values over spans of time, of metric `idx` of list
 * `list` of a device. */
static void read_net_metrics(struct ws_nsys *nsys, const struct net_info *net, const char *table,
			     const char *group)
{
	sqlite3_stmt *statement;
	int start, end, device, list, idx, value;

	if (!ws_nsys_has_unread(nsys, table))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM \"%w\"", table);
	start = ws_nsys_find_column(statement, "start"),
	end = ws_nsys_find_column(statement, "end"),
	device = ws_nsys_find_column(statement, "globalId");
	list = ws_nsys_find_column(statement, "metricsListId"),
	idx = ws_nsys_find_column(statement, "metricsIdx"),
	value = ws_nsys_find_column(statement, "value");
	while (ws_nsys_step_row(nsys, statement, table)) {
		uint64_t from = ws_nsys_get_time(nsys, statement, start),
			 to = ws_nsys_get_time(nsys, statement, end);
		uint64_t metric = make_metric_key(ws_nsys_get_int(statement, list, 0),
						  ws_nsys_get_int(statement, idx, 0));
		const int64_t numbers[] = {ws_nsys_get_int(statement, device, 0),
					   ws_nsys_get_int(statement, list, 0),
					   ws_nsys_get_int(statement, idx, 0)};
		uint32_t counter = find_net_counter(nsys, net, group, (uint64_t)numbers[0], metric);
		struct ws_row_counter_value *row =
			ws_importer_add_row(nsys->importer, WS_TABLE_counter_value);

		put_counter_numbers(nsys, counter, table, numbers, 3);

		if (from == WS_NO_TIME)
			from = nsys->shift;
		*row = (struct ws_row_counter_value){.start = from, .counter = counter};
		if (value >= 0)
			row->value = sqlite3_column_double(statement, value);
		if (to != WS_NO_TIME && to > from)
			row->span = to - from;
		ws_importer_include_time(nsys->importer, from);
		ws_importer_include_time(nsys->importer, from + row->span);
	}
	sqlite3_finalize(statement);
	ws_nsys_mark_done(nsys, table);
}

void ws_nsys_read_metrics(struct ws_nsys *nsys)
{
	struct net_info net = {0};

	read_gpu_metrics(nsys);
	read_net_info(nsys, &net);
	read_net_metrics(nsys, &net, "NET_NIC_METRIC", "NIC");
	read_net_metrics(nsys, &net, "NET_IB_SWITCH_METRIC", "IB switch");
	free_net_info(&net);
}

/* ---- the rest ---- */

/* Whether the column refers to StringIds according to the statement that created the table. */
static bool is_string_reference(const char *sql, const char *column)
{
	size_t length = strlen(column);

	for (const char *line = sql; line; line = strchr(line, '\n')) {
		const char *end, *at = line + strspn(line, "\n \t\"");

		line += *line == '\n';
		end = strchr(line, '\n');
		if (strncmp(at, column, length) || !strchr(" \t\"", at[length]))
			continue;
		at = strstr(at, "REFERENCES StringIds");
		return at && (!end || at < end);
	}
	return false;
}

/* The text of a column, quoted for JSON. */
static void append_json_string(struct ws_text *out, sqlite3_stmt *statement, int column)
{
	ws_text_puts(out, "\"");
	ws_put_escaped_json(out, sqlite3_column_blob(statement, column),
			    (size_t)sqlite3_column_bytes(statement, column));
	ws_text_puts(out, "\"");
}

static void append_json_value(struct ws_nsys *nsys, struct ws_text *out, sqlite3_stmt *statement,
			      int column, bool by_number, sqlite3_stmt *lookup)
{
	int64_t number;

	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_INTEGER:
		number = sqlite3_column_int64(statement, column);
		if (by_number && lookup) {
			sqlite3_reset(lookup);
			sqlite3_bind_int64(lookup, 1, number);
			if (sqlite3_step(lookup) == SQLITE_ROW && sqlite3_column_text(lookup, 0)) {
				append_json_string(out, lookup, 0);
				return;
			}
		}
		ws_text_printf(out, "%" PRId64, number);
		return;
	case SQLITE_FLOAT:
		ws_text_printf(out, "%.17g", sqlite3_column_double(statement, column));
		return;
	case SQLITE_NULL:
		ws_text_puts(out, "null");
		return;
	default:
		if (sqlite3_column_bytes(statement, column) > 1 << 20) {
			ws_importer_add_note(nsys->importer,
					     "Values of more than 1 MiB in tables without a place "
					     "here were left out.");
			ws_text_puts(out, "null");
			return;
		}
		append_json_string(out, statement, column);
	}
}

/* The columns of a table that is not known here; -1 for columns that it does not have. */
struct unknown_table {
	int count, start, end, thread, label;
	bool pointer[WS_MAX_COLUMNS * 2]; /* refers to StringIds */
};

static void plan_unknown(struct unknown_table *unknown, sqlite3_stmt *statement, const char *sql)
{
	static const char *const labels[] = {"nameId", "textId", "name", "text"};

	unknown->count = sqlite3_column_count(statement);
	unknown->count = ws_min(unknown->count, (int)WS_COUNT(unknown->pointer));
	for (int c = 0; c < unknown->count; c++)
		unknown->pointer[c] = is_string_reference(sql, sqlite3_column_name(statement, c));
	unknown->start = ws_nsys_find_column(statement, "start");
	if (unknown->start < 0)
		unknown->start = ws_nsys_find_column(statement, "timestamp");
	unknown->end = ws_nsys_find_column(statement, "end");
	unknown->thread = ws_nsys_find_column(statement, "globalTid");
	unknown->label = -1;
	for (size_t i = 0; i < WS_COUNT(labels) && unknown->label < 0; i++)
		unknown->label = ws_nsys_find_column(statement, labels[i]);
}

static void put_table_slice(struct ws_nsys *nsys, sqlite3_stmt *statement,
			    const struct unknown_table *unknown, const struct ws_text *args,
			    uint32_t category)
{
	struct ws_row_slice row = {.start = ws_nsys_get_time(nsys, statement, unknown->start),
				   .end = ws_nsys_get_time(nsys, statement, unknown->end),
				   .category = category};

	if (ws_nsys_has_value(statement, unknown->thread))
		row.thread = ws_nsys_find_thread(
			nsys, sqlite3_column_int64(statement, unknown->thread), row.start);
	row.name = category;
	if (unknown->label >= 0)
		row.name = ws_nsys_get_text(nsys, statement, unknown->label);
	if (args->len > 2)
		row.args = ws_writer_string(nsys->importer->writer, args->text, args->len);
	if (row.end == WS_NO_TIME)
		row.flags = WS_SLICE_INSTANT;
	*(struct ws_row_slice *)ws_importer_add_row(nsys->importer, WS_TABLE_slice) = row;
	ws_importer_include_time(nsys->importer, row.start);
	if (row.end != WS_NO_TIME)
		ws_importer_include_time(nsys->importer, row.end);
}

/* The letter of a column's declared type in the fact: T for text, R for real, none for others. */
static const char *choose_type_letter(const char *type)
{
	if (!type)
		return "";
	if (strcasestr(type, "TEXT") || strcasestr(type, "CHAR"))
		return "T";
	if (strcasestr(type, "REAL") || strcasestr(type, "FLOA") || strcasestr(type, "DOUB"))
		return "R";
	return "";
}

/* The letter for a column's use: start, end, thread or name of a slice; otherwise none. */
static const char *choose_use_letter(const struct unknown_table *unknown, int column, bool slices)
{
	if (column == unknown->start)
		return "s";
	if (unknown->start >= 0 && column == unknown->end)
		return "e";
	if (slices && column == unknown->thread)
		return "t";
	if (slices && column == unknown->label)
		return "n";
	return "";
}

/* Keep what exports need to recreate the table as a fact. */
static void put_table_columns(struct ws_nsys *nsys, const char *name, sqlite3_stmt *statement,
			      const struct unknown_table *unknown, bool slices)
{
	struct ws_text fact = {0}, spec = {0};

	ws_text_puts(&spec, slices ? "S" : "F");
	for (int c = 0; c < unknown->count; c++) {
		const char *type = choose_type_letter(sqlite3_column_decltype(statement, c)),
			   *column = sqlite3_column_name(statement, c);
		size_t length = strlen(column);

		ws_text_printf(&spec, " %.200s/%s", column, type);
		if (unknown->pointer[c] || (slices && c == unknown->label && *type != 'T' &&
					    length > 2 && !strcmp(column + length - 2, "Id")))
			ws_text_puts(&spec, "@");
		ws_text_puts(&spec, choose_use_letter(unknown, c, slices));
	}
	ws_text_printf(&fact, WS_FOREIGN_TABLE_FACT "%.200s", name);
	ws_importer_add_fact(nsys->importer, fact.text, spec.text, spec.len);
	ws_text_free(&fact);
	ws_text_free(&spec);
}

/* Whether it is a table that explains those of metrics. Such a table is kept for exports, without a
 * note. */
static bool explains_metrics(const char *table)
{
	static const char *const tables[] = {"TARGET_INFO_GPU_METRICS",
					     "TARGET_INFO_NETWORK_METRICS", "NIC_ID_MAP"};

	for (size_t i = 0; i < WS_COUNT(tables); i++)
		if (!strcmp(table, tables[i]))
			return true;
	return false;
}

/* The columns of a row as a JSON object; those that a slice has columns for are left out. */
static void make_json_row(struct ws_nsys *nsys, struct ws_text *json, sqlite3_stmt *statement,
			  const struct unknown_table *unknown, bool slices, sqlite3_stmt *lookup)
{
	json->len = 0;
	for (int c = 0; c < unknown->count; c++) {
		if (slices && (c == unknown->start || c == unknown->end || c == unknown->thread ||
			       c == unknown->label))
			continue;
		ws_text_puts(json, json->len ? ",\"" : "{\"");
		ws_put_escaped_json(json, sqlite3_column_name(statement, c),
				    strlen(sqlite3_column_name(statement, c)));
		ws_text_puts(json, "\":");
		append_json_value(nsys, json, statement, c, unknown->pointer[c], lookup);
	}
	ws_text_puts(json, json->len ? "}" : "{}");
}

/* A row kept whole. */
static void put_foreign_row(struct ws_nsys *nsys, sqlite3_stmt *statement,
			    const struct unknown_table *unknown, const struct ws_text *json,
			    uint32_t table)
{
	uint64_t at = ws_nsys_get_time(nsys, statement, unknown->start);
	uint32_t text = ws_writer_string(nsys->importer->writer, json->text, json->len);
	struct ws_row_foreign *row = ws_importer_add_row(nsys->importer, WS_TABLE_foreign);

	if (at == WS_NO_TIME)
		at = nsys->shift;
	*row = (struct ws_row_foreign){.start = at, .table = table, .row = text};
}

static void read_unknown_table(struct ws_nsys *nsys, const char *name, const char *sql,
			       sqlite3_stmt *lookup)
{
	sqlite3_stmt *statement = ws_nsys_select(nsys, "SELECT * FROM \"%w\"", name);
	struct unknown_table unknown;
	struct ws_text json = {0};
	uint32_t label = ws_importer_add_text(nsys->importer, name);
	uint64_t rows = 0;
	bool slices;

	if (!statement)
		return;
	plan_unknown(&unknown, statement, sql);
	/* Spans of a thread become slices; the rows of any other table are kept whole. */
	slices = unknown.start >= 0 && unknown.thread >= 0 && unknown.end >= 0;
	put_table_columns(nsys, name, statement, &unknown, slices);
	while (ws_nsys_step_row(nsys, statement, name)) {
		make_json_row(nsys, &json, statement, &unknown, slices, lookup);
		rows++;
		if (slices)
			put_table_slice(nsys, statement, &unknown, &json, label);
		else
			put_foreign_row(nsys, statement, &unknown, &json, label);
	}
	if (rows && !explains_metrics(name))
		ws_importer_add_notes(
			nsys->importer, 1,
			"%s has no table here: its %" PRIu64 " rows were kept as %s.", name, rows,
			slices ? "slices of that category" : "rows of WARPSIGHT_FOREIGN");
	ws_text_free(&json);
	sqlite3_finalize(statement);
}

void ws_nsys_read_rest(struct ws_nsys *nsys)
{
	sqlite3_stmt *statement, *lookup = NULL;

	statement =
		ws_nsys_select(nsys, "SELECT name, sql FROM sqlite_master WHERE type='table' AND "
				     "rootpage>0 ORDER BY rowid LIMIT 2048");
	if (sqlite3_prepare_v2(nsys->db, "SELECT value FROM StringIds WHERE id=?1", -1, &lookup,
			       NULL) != SQLITE_OK)
		lookup = NULL;
	while (ws_nsys_step_row(nsys, statement, "the list of tables")) {
		const char *name = (const char *)sqlite3_column_text(statement, 0),
			   *sql = (const char *)sqlite3_column_text(statement, 1);

		if (!name || !sql || !strncmp(name, "ENUM_", 5) || !strncmp(name, "sqlite_", 7) ||
		    !ws_nsys_has_unread(nsys, name))
			continue;
		read_unknown_table(nsys, name, sql, lookup);
	}
	sqlite3_finalize(lookup);
	sqlite3_finalize(statement);
}
