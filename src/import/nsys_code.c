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
#include "schema/foreign.h"
#include "import/nsys.h"

/* ---- call chains ---- */

void ws_nsys_chains(struct ws_nsys *n, const char *table, struct ws_map *out)
{
	sqlite3_stmt *s;
	int id, symbol, module, address, kernel, method;
	uint32_t stack = 0;
	int64_t last = 0;
	bool any = false;

	if (!ws_nsys_has(n, table))
		return;
	s = ws_nsys_select(n, "SELECT * FROM \"%w\" ORDER BY id, stackDepth DESC", table);
	id = ws_nsys_column(s, "id"), symbol = ws_nsys_column(s, "symbol"),
	module = ws_nsys_column(s, "module");
	address = ws_nsys_column(s, "originalIP"), kernel = ws_nsys_column(s, "kernelMode"),
	method = ws_nsys_column(s, "unwindMethod");
	while (ws_nsys_step(n, s, table)) {
		int64_t chain = ws_nsys_int(s, id, 0);

		if (!any || chain != last)
			stack = 0;
		any = true;
		last = chain;
		stack = ws_into_stack(n->o, stack,
				      ws_into_frame(n->o, ws_nsys_text(n, s, symbol),
						    ws_nsys_text(n, s, module),
						    (uint64_t)ws_nsys_int(s, address, 0),
						    ws_nsys_int(s, kernel, 0),
						    (uint8_t)ws_nsys_int(s, method, 0)));
		ws_map_set(out, (uint64_t)chain, stack);
	}
	sqlite3_finalize(s);
	ws_nsys_done(n, table);
}

/*
 * Tables of our exports that are made from others, for people who know them: the others say the
 * same with the numbers that rows point to.
 */
void ws_nsys_skip_made(struct ws_nsys *n)
{
	static const char *const made[] = {"CUDA_CALLCHAINS", "OSRT_CALLCHAINS",
					   "SAMPLING_CALLCHAINS", "PYTHON_CALLCHAINS",
					   "PERF_EVENT_CPU_RAW_EVENT"};

	for (size_t i = 0; i < WS_COUNT(made); i++)
		ws_nsys_done(n, made[i]);
	ws_nsys_generic(n, WS_TABLE_sched, "WARPSIGHT_SCHED", NULL, NULL);
	ws_nsys_done(n, "SCHED_EVENTS");
}

/* ---- samples ---- */

static void fix_sample(struct ws_nsys *n, sqlite3_stmt *s, void *row)
{
	struct ws_row_sample *r = row;
	uint32_t stack;
	int id = ws_nsys_column(s, "id");

	if (n->own) {
		r->frame = (uint32_t)ws_nsys_int(s, ws_nsys_column(s, "frameId"), 0);
		r->callers = (uint32_t)ws_nsys_int(s, ws_nsys_column(s, "callersId"), 0);
		return;
	}
	if (id < 0)
		return;
	stack = (uint32_t)ws_map_get(&n->sample_chains, (uint64_t)ws_nsys_int(s, id, 0), NULL);
	r->frame = stack ? n->o->stack[stack - 1].frame : 0;
	r->callers = stack ? n->o->stack[stack - 1].parent : 0;
}

void ws_nsys_samples(struct ws_nsys *n)
{
	ws_nsys_chains(n, "SAMPLING_CALLCHAINS", &n->sample_chains);
	ws_nsys_generic(n, WS_TABLE_sample, NULL, NULL, fix_sample);
	ws_map_free(&n->sample_chains);
	n->sample_chains = (struct ws_map){0};
}

/* ---- switches of threads ---- */

struct running {
	uint64_t start;
	uint32_t thread;
};

static void put_running(struct ws_nsys *n, const struct running *r, int64_t cpu, uint64_t end)
{
	struct ws_row_sched *row = ws_into_row(n->o, WS_TABLE_sched);

	*row = (struct ws_row_sched){.start = r->start,
				     .end = end,
				     .thread = r->thread,
				     .cpu = (uint32_t)cpu,
				     .woken = WS_NO_TIME};
}

/* Theirs are moments of switching in and out; ours are spans. Of our own exports they are read as
 * they are. */
void ws_nsys_sched(struct ws_nsys *n)
{
	enum { CPUS = 4096 };
	struct running *on;
	sqlite3_stmt *s;
	int start, cpu, in, thread;

	if (!ws_nsys_has(n, "SCHED_EVENTS"))
		return;
	s = ws_nsys_select(n, "SELECT * FROM SCHED_EVENTS ORDER BY start");
	start = ws_nsys_column(s, "start"), cpu = ws_nsys_column(s, "cpu"),
	in = ws_nsys_column(s, "isSchedIn");
	thread = ws_nsys_column(s, "globalTid");
	if (in < 0) {
		sqlite3_finalize(s);
		ws_nsys_generic(n, WS_TABLE_sched, NULL, NULL, NULL);
		return;
	}
	on = ws_calloc(CPUS, sizeof(*on));
	while (ws_nsys_step(n, s, "SCHED_EVENTS")) {
		uint64_t at = ws_nsys_time(n, s, start);
		int64_t c = ws_nsys_int(s, cpu, -1);
		uint32_t who;

		if (c < 0 || c >= CPUS) {
			ws_into_note(n->o, "SCHED_EVENTS: switches without a core were left out.");
			continue;
		}
		who = ws_nsys_thread(n, ws_nsys_int(s, thread, 0), at);
		ws_into_time(n->o, at);
		if (on[c].thread && (ws_nsys_int(s, in, 0) || on[c].thread != who))
			put_running(n, &on[c], c, ws_nsys_int(s, in, 0) ? at : WS_NO_TIME);
		else if (on[c].thread)
			put_running(n, &on[c], c, at);
		on[c] = (struct running){.start = at, .thread = ws_nsys_int(s, in, 0) ? who : 0};
	}
	for (int64_t c = 0; c < CPUS; c++)
		if (on[c].thread)
			put_running(n, &on[c], c, WS_NO_TIME);
	free(on);
	sqlite3_finalize(s);
	ws_nsys_done(n, "SCHED_EVENTS");
}

/* ---- metrics ---- */

static void put_metric(struct ws_nsys *n, sqlite3_stmt *s, uint32_t counter, uint64_t at, int value)
{
	struct ws_row_counter_value *row = ws_into_row(n->o, WS_TABLE_counter_value);

	*row = (struct ws_row_counter_value){
		.start = at, .counter = counter, .value = sqlite3_column_double(s, value)};
	ws_into_time(n->o, at);
}

/* A counter's numbers in the table that its values come from, for exports: false when it has others
 * already. */
static bool number_counter(struct ws_nsys *n, uint32_t counter, const char *table,
			   const int64_t *numbers, size_t count)
{
	struct ws_text fact = {0}, value = {0};
	uint64_t hash, before;

	ws_text_puts(&value, table);
	for (size_t i = 0; i < count; i++)
		ws_text_printf(&value, " %" PRId64, numbers[i]);
	hash = XXH3_64bits(value.s, value.len) | 1;
	before = ws_map_get(&n->counters, counter, NULL);
	if (!before) {
		ws_map_set(&n->counters, counter, hash);
		ws_text_printf(&fact, WS_FOREIGN_COUNTER_FACT "%" PRIu32, counter);
		ws_into_meta(n->o, fact.s, value.s, value.len);
	}
	ws_text_free(&fact);
	ws_text_free(&value);
	return !before || before == hash;
}

static uint32_t gpu_counter(struct ws_nsys *n, struct ws_map *counters, uint64_t type,
			    uint64_t metric, const char *group, const char *name)
{
	const int64_t numbers[] = {(int64_t)type, (int64_t)metric};
	const char *unit = strchr(name, '%') ? "%" : NULL;
	uint32_t id = ws_into_counter(n->o, 0, 0, type & 0xff, group, strlen(group), name,
				      strlen(name), unit, NULL);

	if (!number_counter(n, id, "GPU_METRICS", numbers, 2)) { /* two sources of one name */
		char *apart = ws_format("%.200s (%" PRIu64 ".%" PRIu64 ")", name, type, metric);

		id = ws_into_counter(n->o, 0, 0, type & 0xff, group, strlen(group), apart,
				     strlen(apart), unit, NULL);
		number_counter(n, id, "GPU_METRICS", numbers, 2);
		free(apart);
	}
	ws_map_set(counters, type << 16 ^ metric, id);
	return id;
}

/* GPU_METRICS: a value of metric `metricId` of the source `typeId`, whose low byte is the GPU. */
static void read_gpu_metrics(struct ws_nsys *n)
{
	struct ws_map counters = {0};
	sqlite3_stmt *s;

	if (!ws_nsys_has(n, "GPU_METRICS"))
		return;
	if (ws_nsys_has(n, "TARGET_INFO_GPU_METRICS")) {
		s = ws_nsys_select(n, "SELECT DISTINCT typeId, metricId, typeName, metricName FROM "
				      "TARGET_INFO_GPU_METRICS");
		while (ws_nsys_step(n, s, "TARGET_INFO_GPU_METRICS")) {
			const char *name = (const char *)sqlite3_column_text(s, 3),
				   *group = (const char *)sqlite3_column_text(s, 2);

			gpu_counter(n, &counters, (uint64_t)sqlite3_column_int64(s, 0),
				    (uint64_t)sqlite3_column_int64(s, 1), group ? group : "",
				    name ? name : "");
		}
		sqlite3_finalize(s);
	}
	s = ws_nsys_select(n, "SELECT timestamp, typeId, metricId, value FROM GPU_METRICS");
	while (ws_nsys_step(n, s, "GPU_METRICS")) {
		uint64_t type = (uint64_t)sqlite3_column_int64(s, 1),
			 metric = (uint64_t)sqlite3_column_int64(s, 2);
		uint32_t id = (uint32_t)ws_map_get(&counters, type << 16 ^ metric, NULL);
		char name[64];

		if (!id) {
			snprintf(name, sizeof(name), "metric %" PRIu64, metric);
			id = gpu_counter(n, &counters, type, metric, "GPU metrics", name);
		}
		put_metric(n, s, id, ws_nsys_time(n, s, 0), 3);
	}
	sqlite3_finalize(s);
	ws_map_free(&counters);
	ws_nsys_done(n, "GPU_METRICS");
}

/* ---- network devices ---- */

/* Names, units and descriptions that tables give to numbers. */
struct net {
	struct ws_map names, units;   /* metric -> text + 1 */
	struct ws_map devices, guids; /* globalId -> text + 1 */
	char **texts;
	size_t count, cap;
};

static void remember(struct net *net, struct ws_map *map, uint64_t key, sqlite3_stmt *s, int column)
{
	const char *text = column < 0 ? NULL : (const char *)sqlite3_column_text(s, column);

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
static void load_net(struct ws_nsys *n, struct net *net)
{
	static const char *const of_devices[] = {
		"SELECT m.globalId, i.name, i.GUID FROM NIC_ID_MAP m JOIN TARGET_INFO_NIC_INFO i "
		"ON i.nicId = m.nicId",
		"SELECT nicId, name, GUID FROM TARGET_INFO_NIC_INFO",
	};
	bool mapped = ws_nsys_has(n, "NIC_ID_MAP");
	sqlite3_stmt *s;

	if (ws_nsys_has(n, "TARGET_INFO_NETWORK_METRICS")) {
		s = ws_nsys_select(n, "SELECT * FROM TARGET_INFO_NETWORK_METRICS");
		int list = ws_nsys_column(s, "metricsListId"),
		    idx = ws_nsys_column(s, "metricsIdx");
		int name = ws_nsys_column(s, "name"), unit = ws_nsys_column(s, "unit");

		while (ws_nsys_step(n, s, "TARGET_INFO_NETWORK_METRICS")) {
			uint64_t key = metric_key(ws_nsys_int(s, list, 0), ws_nsys_int(s, idx, 0));

			remember(net, &net->names, key, s, name);
			remember(net, &net->units, key, s, unit);
		}
		sqlite3_finalize(s);
	}
	if (!ws_nsys_has(n, "TARGET_INFO_NIC_INFO"))
		return;
	s = ws_nsys_select(n, "%s", of_devices[!mapped]);
	while (ws_nsys_step(n, s, "TARGET_INFO_NIC_INFO")) {
		remember(net, &net->devices, (uint64_t)sqlite3_column_int64(s, 0), s, 1);
		remember(net, &net->guids, (uint64_t)sqlite3_column_int64(s, 0), s, 2);
	}
	sqlite3_finalize(s);
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

static uint32_t net_counter(struct ws_nsys *n, const struct net *net, const char *group,
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
	return ws_into_counter(n->o, 0, 0, WS_NO_U32, row, (size_t)len, name, strlen(name),
			       recall(net, &net->units, metric), guid ? guid : own);
}

/* NET_NIC_METRIC, NET_IB_SWITCH_METRIC: a value over a span, of metric `idx` of list `list`, of a
 * device. */
static void read_net_metrics(struct ws_nsys *n, const struct net *net, const char *table,
			     const char *group)
{
	sqlite3_stmt *s;
	int start, end, device, list, idx, value;

	if (!ws_nsys_has(n, table))
		return;
	s = ws_nsys_select(n, "SELECT * FROM \"%w\"", table);
	start = ws_nsys_column(s, "start"), end = ws_nsys_column(s, "end"),
	device = ws_nsys_column(s, "globalId");
	list = ws_nsys_column(s, "metricsListId"), idx = ws_nsys_column(s, "metricsIdx"),
	value = ws_nsys_column(s, "value");
	while (ws_nsys_step(n, s, table)) {
		uint64_t from = ws_nsys_time(n, s, start), to = ws_nsys_time(n, s, end);
		uint64_t metric = metric_key(ws_nsys_int(s, list, 0), ws_nsys_int(s, idx, 0));
		const int64_t numbers[] = {ws_nsys_int(s, device, 0), ws_nsys_int(s, list, 0),
					   ws_nsys_int(s, idx, 0)};
		uint32_t counter = net_counter(n, net, group, (uint64_t)numbers[0], metric);
		struct ws_row_counter_value *row = ws_into_row(n->o, WS_TABLE_counter_value);

		number_counter(n, counter, table, numbers, 3);

		from = from == WS_NO_TIME ? n->shift : from;
		*row = (struct ws_row_counter_value){
			.start = from,
			.counter = counter,
			.value = value < 0 ? 0 : sqlite3_column_double(s, value),
			.span = to != WS_NO_TIME && to > from ? to - from : 0};
		ws_into_time(n->o, from);
		ws_into_time(n->o, from + row->span);
	}
	sqlite3_finalize(s);
	ws_nsys_done(n, table);
}

void ws_nsys_metrics(struct ws_nsys *n)
{
	struct net net = {0};

	read_gpu_metrics(n);
	load_net(n, &net);
	read_net_metrics(n, &net, "NET_NIC_METRIC", "NIC");
	read_net_metrics(n, &net, "NET_IB_SWITCH_METRIC", "IB switch");
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

static void put_json(struct ws_nsys *n, struct ws_text *out, sqlite3_stmt *s, int column,
		     bool by_number, sqlite3_stmt *lookup)
{
	int64_t i;

	switch (sqlite3_column_type(s, column)) {
	case SQLITE_INTEGER:
		i = sqlite3_column_int64(s, column);
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
		ws_text_printf(out, "%.17g", sqlite3_column_double(s, column));
		return;
	case SQLITE_NULL:
		ws_text_puts(out, "null");
		return;
	default:
		if (sqlite3_column_bytes(s, column) > 1 << 20) {
			ws_into_note(n->o, "Values of more than 1 MiB in tables without a place "
					   "here were left out.");
			ws_text_puts(out, "null");
			return;
		}
		ws_text_puts(out, "\"");
		ws_json_escape(out, sqlite3_column_blob(s, column),
			       (size_t)sqlite3_column_bytes(s, column));
		ws_text_puts(out, "\"");
	}
}

/* Columns of a table that is read without knowing it. */
struct unknown {
	const char *name;
	int count, start, end, thread, label;
	bool pointer[WS_MAX_COLUMNS * 2];
};

static void plan_unknown(struct unknown *u, sqlite3_stmt *s, const char *sql)
{
	static const char *const labels[] = {"nameId", "textId", "name", "text"};

	u->count = sqlite3_column_count(s);
	u->count = u->count < (int)WS_COUNT(u->pointer) ? u->count : (int)WS_COUNT(u->pointer);
	for (int c = 0; c < u->count; c++)
		u->pointer[c] = points_to_strings(sql, sqlite3_column_name(s, c));
	u->start = ws_nsys_column(s, "start");
	if (u->start < 0)
		u->start = ws_nsys_column(s, "timestamp");
	u->end = ws_nsys_column(s, "end");
	u->thread = ws_nsys_column(s, "globalTid");
	u->label = -1;
	for (size_t i = 0; i < WS_COUNT(labels) && u->label < 0; i++)
		u->label = ws_nsys_column(s, labels[i]);
}

static void put_slice(struct ws_nsys *n, sqlite3_stmt *s, const struct unknown *u,
		      const struct ws_text *args, uint32_t category)
{
	struct ws_row_slice r = {.start = ws_nsys_time(n, s, u->start),
				 .end = ws_nsys_time(n, s, u->end),
				 .category = category};

	r.thread = sqlite3_column_type(s, u->thread) == SQLITE_NULL
			   ? 0
			   : ws_nsys_thread(n, sqlite3_column_int64(s, u->thread), r.start);
	r.name = u->label < 0 ? category : ws_nsys_text(n, s, u->label);
	r.args = args->len > 2 ? ws_writer_string(n->o->w, args->s, args->len) : 0;
	r.flags = r.end == WS_NO_TIME ? WS_SLICE_INSTANT : 0;
	*(struct ws_row_slice *)ws_into_row(n->o, WS_TABLE_slice) = r;
	ws_into_time(n->o, r.start);
	if (r.end != WS_NO_TIME)
		ws_into_time(n->o, r.end);
}

/* What exports need to make the table again. */
static void put_columns(struct ws_nsys *n, const char *name, sqlite3_stmt *s,
			const struct unknown *u, bool slices)
{
	struct ws_text fact = {0}, spec = {0};

	ws_text_puts(&spec, slices ? "S" : "F");
	for (int c = 0; c < u->count; c++) {
		const char *type = sqlite3_column_decltype(s, c),
			   *column = sqlite3_column_name(s, c);
		bool text = type && (strcasestr(type, "TEXT") || strcasestr(type, "CHAR"));
		bool real = type && (strcasestr(type, "REAL") || strcasestr(type, "FLOA") ||
				     strcasestr(type, "DOUB"));
		size_t len = strlen(column);

		ws_text_printf(&spec, " %.200s/%s", column, text ? "T" : real ? "R" : "");
		if (u->pointer[c] || (slices && c == u->label && !text && len > 2 &&
				      !strcmp(column + len - 2, "Id")))
			ws_text_puts(&spec, "@");
		if (c == u->start || (u->start >= 0 && c == u->end))
			ws_text_puts(&spec, c == u->start ? "s" : "e");
		else if (slices && (c == u->thread || c == u->label))
			ws_text_puts(&spec, c == u->thread ? "t" : "n");
	}
	ws_text_printf(&fact, WS_FOREIGN_TABLE_FACT "%.200s", name);
	ws_into_meta(n->o, fact.s, spec.s, spec.len);
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

static void read_unknown(struct ws_nsys *n, const char *name, const char *sql, sqlite3_stmt *lookup)
{
	sqlite3_stmt *s = ws_nsys_select(n, "SELECT * FROM \"%w\"", name);
	struct unknown u;
	struct ws_text json = {0};
	uint32_t label = ws_into_text(n->o, name);
	uint64_t rows = 0;
	bool slices;

	if (!s)
		return;
	plan_unknown(&u, s, sql);
	/* A thread's span with a name is shown as one; anything else is kept as it is. */
	slices = u.start >= 0 && u.thread >= 0 && u.end >= 0;
	put_columns(n, name, s, &u, slices);
	while (ws_nsys_step(n, s, name)) {
		json.len = 0;
		for (int c = 0; c < u.count; c++) {
			if (slices && (c == u.start || c == u.end || c == u.thread || c == u.label))
				continue;
			ws_text_puts(&json, json.len ? ",\"" : "{\"");
			ws_json_escape(&json, sqlite3_column_name(s, c),
				       strlen(sqlite3_column_name(s, c)));
			ws_text_puts(&json, "\":");
			put_json(n, &json, s, c, u.pointer[c], lookup);
		}
		ws_text_puts(&json, json.len ? "}" : "{}");
		rows++;
		if (slices) {
			put_slice(n, s, &u, &json, label);
		} else {
			uint64_t at = u.start >= 0 ? ws_nsys_time(n, s, u.start) : WS_NO_TIME;
			uint32_t text = ws_writer_string(n->o->w, json.s, json.len);
			struct ws_row_foreign *row = ws_into_row(n->o, WS_TABLE_foreign);

			*row = (struct ws_row_foreign){.start = at == WS_NO_TIME ? n->shift : at,
						       .table = label,
						       .row = text};
		}
	}
	if (rows && !explains(name))
		ws_into_note_n(n->o, 1,
			       "%s has no table here: its %" PRIu64 " rows were kept as %s.", name,
			       rows,
			       slices ? "slices of that category" : "rows of WARPSIGHT_FOREIGN");
	ws_text_free(&json);
	sqlite3_finalize(s);
}

void ws_nsys_rest(struct ws_nsys *n)
{
	sqlite3_stmt *s, *lookup = NULL;

	s = ws_nsys_select(n, "SELECT name, sql FROM sqlite_master WHERE type='table' AND "
			      "rootpage>0 ORDER BY rowid LIMIT 2048");
	if (sqlite3_prepare_v2(n->db, "SELECT value FROM StringIds WHERE id=?1", -1, &lookup,
			       NULL) != SQLITE_OK)
		lookup = NULL;
	while (ws_nsys_step(n, s, "the list of tables")) {
		const char *name = (const char *)sqlite3_column_text(s, 0),
			   *sql = (const char *)sqlite3_column_text(s, 1);

		if (!name || !sql || !strncmp(name, "ENUM_", 5) || !strncmp(name, "sqlite_", 7) ||
		    !ws_nsys_has(n, name))
			continue;
		read_unknown(n, name, sql, lookup);
	}
	sqlite3_finalize(lookup);
	sqlite3_finalize(s);
}
