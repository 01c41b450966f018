/*
 * tables_metrics.c - GPU_METRICS, NET_NIC_METRIC and NET_IB_SWITCH_METRIC with the tables that
 * explain them, from the values of counters.
 *
 * A counter has numbers in one of these tables: those that an import found there
 * (schema/foreign.h), or numbers made up here for recorded metrics. GPU_METRICS has a row with a
 * whole number for each sample, so that queries get correct averages of its rows; lost samples have
 * no row. The tables of networks have a row for each reading: how much was counted during it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

#include "base/choose.h"
#include "query/metered_gpu.h"
#include "schema/foreign.h"
#include "text/text.h"
#include "views/tables.h"

/* The source of metrics as other tools number it; the low byte is the GPU, an id of
 * TARGET_INFO_GPU. */
#define GPU_SOURCE INT64_C(0x0001000100000000)
#define OWN_NETWORK_LIST 1

enum metric_table { GPU_METRICS, NIC_METRICS, SWITCH_METRICS };

static const char *const metric_tables[] = {"GPU_METRICS", "NET_NIC_METRIC",
					    "NET_IB_SWITCH_METRIC"};
/* Tables that explain the numbers. Those from imports are kept as they are. */
static const char *const info_tables[] = {"TARGET_INFO_GPU_METRICS", "TARGET_INFO_NETWORK_METRICS",
					  "TARGET_INFO_NIC_INFO", "NIC_ID_MAP"};

struct metric {
	enum metric_table table;
	bool known; /* it has numbers in a table */
	bool own;   /* it was recorded, and its numbers are made up */
	int64_t numbers[3];
	uint64_t period;	     /* of samples, ns; 0: each row is one */
	uint32_t name, unit, device; /* string ids; `device` of a network card */
	uint32_t group;
};

struct metrics {
	struct ws_cell_context *export;
	struct metric *metrics; /* by id of the counter */
	size_t count, capacity;
	uint32_t names[64]; /* of metrics of networks: hashes of names without the device */
	size_t name_count;
	uint32_t cards[256]; /* string keys */
	size_t card_count;
};

/* A value stands for samples of 100 ms at most; a broken report might claim any time. */
#define MOST_SAMPLES UINT64_C(65536)
enum { MOST_COUNTERS = 1 << 20 };

static struct metric *add_metric(struct metrics *metrics, uint64_t id)
{
	size_t before = metrics->capacity;

	if (id >= MOST_COUNTERS)
		return NULL;
	ws_grow(metrics->metrics, metrics->capacity, id + 1);
	for (size_t i = before; i < metrics->capacity; i++)
		metrics->metrics[i] = (struct metric){0};
	metrics->count = ws_max(metrics->count, (size_t)id + 1);
	return &metrics->metrics[id];
}

/* ---- metrics that were imported ---- */

static void read_imported_metric(struct metrics *metrics, uint64_t id, const char *value)
{
	const char *at = value + strcspn(value, " ");
	struct metric *metric = add_metric(metrics, id);

	for (size_t i = 0; metric && i < WS_COUNT(metric_tables); i++)
		if (!strncmp(metric_tables[i], value, (size_t)(at - value)) &&
		    !metric_tables[i][at - value]) {
			metric->table = (enum metric_table)i;
			metric->known = true;
		}
	for (size_t i = 0; metric && i < 3; i++)
		metric->numbers[i] = strtoll(at, (char **)&at, 10);
}

static void read_imported_metrics(struct metrics *metrics)
{
	static const char fact[] = WS_FOREIGN_COUNTER_FACT;
	const struct ws_report *report = metrics->export->report;
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		const char *name = ws_report_string(report, (uint32_t)values[ws_meta_name], NULL);

		if (!strncmp(name, fact, sizeof(fact) - 1))
			read_imported_metric(
				metrics, strtoull(name + sizeof(fact) - 1, NULL, 10),
				ws_report_string(report, (uint32_t)values[ws_meta_value], NULL));
	}
	ws_cursor_close(cursor);
}

/* ---- metrics that were recorded ---- */

/* The place of a key in a list. A missing key is added if there is room; otherwise the result is
 * `most`. */
static size_t number_key(uint32_t *keys, size_t *count, size_t most, uint32_t key)
{
	size_t i = 0;

	while (i < *count && keys[i] != key)
		i++;
	if (i == *count && i < most)
		keys[(*count)++] = key;
	return i;
}

/* "GPU metrics, GPU 3" has the number of the GPU in the driver, which is used for GPUs that no
 * process worked on. */
static void add_gpu_metric(struct metrics *metrics, const uint64_t *counter, uint64_t period)
{
	const struct ws_report *report = metrics->export->report;
	struct metric *metric = add_metric(metrics, counter[ws_counter_id]);
	const char *group = ws_report_string(report, (uint32_t)counter[ws_counter_group], NULL),
		   *digits = strrchr(group, ' ');
	int64_t gpu = ws_find_exported_gpu(
		metrics->export,
		ws_report_string_key(report, (uint32_t)counter[ws_counter_identity]));
	int64_t next = 0;

	if (!metric || metric->known)
		return;
	if (gpu < 0 && digits)
		gpu = strtoll(digits, NULL, 10);
	*metric = (struct metric){.table = GPU_METRICS,
				  .known = true,
				  .own = true,
				  .numbers = {GPU_SOURCE | (ws_max(gpu, INT64_C(0)) & 0xff)},
				  .period = period,
				  .name = (uint32_t)counter[ws_counter_name],
				  .unit = (uint32_t)counter[ws_counter_unit],
				  .group = (uint32_t)counter[ws_counter_group]};
	for (size_t i = 0; i < metrics->count; i++)
		if (&metrics->metrics[i] != metric && metrics->metrics[i].own &&
		    metrics->metrics[i].table == GPU_METRICS &&
		    metrics->metrics[i].numbers[0] == metric->numbers[0])
			next = ws_max(next, metrics->metrics[i].numbers[1] + 1);
	metric->numbers[1] = next;
}

/* The length of the name of a network's metric without the card: "Received, eth0". */
static size_t measure_network_name(const char *name, size_t length, const char *card,
				   size_t card_length)
{
	if (length <= card_length || memcmp(name + length - card_length, card, card_length) != 0)
		return length;
	length -= card_length;
	while (length && (name[length - 1] == ' ' || name[length - 1] == ','))
		length--;
	return length;
}

static void add_network_metric(struct metrics *metrics, const uint64_t *counter)
{
	const struct ws_report *report = metrics->export->report;
	size_t length, card_length, index, device;
	const char *name = ws_report_string(report, (uint32_t)counter[ws_counter_name], &length);
	const char *card =
		ws_report_string(report, (uint32_t)counter[ws_counter_identity], &card_length);
	struct metric *metric = add_metric(metrics, counter[ws_counter_id]);

	if (!metric || metric->known || !card_length)
		return;
	length = measure_network_name(name, length, card, card_length);
	index = number_key(metrics->names, &metrics->name_count, WS_COUNT(metrics->names),
			   (uint32_t)XXH3_64bits(name, length));
	device = number_key(metrics->cards, &metrics->card_count, WS_COUNT(metrics->cards),
			    ws_report_string_key(report, (uint32_t)counter[ws_counter_identity]));
	if (index == WS_COUNT(metrics->names) || device == WS_COUNT(metrics->cards))
		return;
	*metric = (struct metric){.table = NIC_METRICS,
				  .known = true,
				  .own = true,
				  .numbers = {(int64_t)device, OWN_NETWORK_LIST, (int64_t)index},
				  .name = (uint32_t)counter[ws_counter_name],
				  .unit = (uint32_t)counter[ws_counter_unit],
				  .device = (uint32_t)counter[ws_counter_identity]};
}

static void read_own_metrics(struct metrics *metrics)
{
	const struct ws_report *report = metrics->export->report;
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_counter, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint32_t group = (uint32_t)values[ws_counter_group];
		uint64_t period = ws_find_sample_period(report, group);

		if (period)
			add_gpu_metric(metrics, values, period);
		else if (!strcmp(ws_report_string(report, group, NULL), "Network"))
			add_network_metric(metrics, values);
	}
	ws_cursor_close(cursor);
}

/* ---- rows ---- */

static struct ws_view_cell make_count_cell(double value)
{
	if (!(value >= -9.2e18 && value <= 9.2e18))
		return ws_make_null_cell();
	return ws_make_int_cell((int64_t)value);
}

/* A row for each sample that the value stands for. */
static int put_gpu_samples(struct metrics *metrics, const struct metric *metric, uint64_t start,
			   uint64_t span, double value, struct ws_err *err)
{
	uint64_t count = 1;
	int rc = 0;

	if (metric->own && !isfinite(value))
		return 0;
	if (metric->own)
		value = rint(value);
	if (metric->period)
		count = ws_max((span + metric->period / 2) / metric->period, UINT64_C(1));
	count = ws_min(count, MOST_SAMPLES);
	for (uint64_t i = 0; i < count && !rc; i++) {
		uint64_t at = start + i * metric->period;

		if (ws_is_in_time(metrics->export, at, at))
			rc = ws_add_table_row(
				metrics->export,
				(struct ws_view_cell[]){ws_make_time_cell(metrics->export, at),
							ws_make_int_cell(metric->numbers[0]),
							ws_make_int_cell(metric->numbers[1]),
							make_count_cell(value)},
				err);
	}
	return rc;
}

/* Values of recorded metrics are rates: the count is the rate times its duration. */
static int put_network_row(struct metrics *metrics, const struct metric *metric, uint64_t start,
			   uint64_t span, double value, struct ws_err *err)
{
	if (!ws_is_in_time(metrics->export, start, start + span))
		return 0;
	if (metric->own)
		value = rint(value * (double)span * 1e-9);
	return ws_add_table_row(
		metrics->export,
		(struct ws_view_cell[]){
			ws_make_time_cell(metrics->export, start),
			ws_make_time_cell(metrics->export, start + span),
			ws_make_int_cell(metric->numbers[0]), ws_make_int_cell(metric->numbers[1]),
			ws_make_int_cell(metric->numbers[2]), make_count_cell(value)},
		err);
}

static int put_metric_rows(struct metrics *metrics, enum metric_table table, struct ws_err *err)
{
	struct ws_cursor *cursor =
		ws_cursor_open(metrics->export->report, WS_TABLE_counter_value, 0, UINT64_MAX);
	const uint64_t *row;
	int rc = 0;

	while (!rc && ws_cursor_next(cursor, &row)) {
		uint64_t id = row[ws_counter_value_counter];
		uint64_t start = row[ws_counter_value_start], span = row[ws_counter_value_span];
		double value;

		if (id >= metrics->count || !metrics->metrics[id].known ||
		    metrics->metrics[id].table != table)
			continue;
		memcpy(&value, &row[ws_counter_value_value], sizeof(value));
		if (table == GPU_METRICS)
			rc = put_gpu_samples(metrics, &metrics->metrics[id], start, span, value,
					     err);
		else
			rc = put_network_row(metrics, &metrics->metrics[id], start, span, value,
					     err);
	}
	ws_cursor_close(cursor);
	return rc;
}

static int begin_known_table(struct metrics *metrics, const char *name, struct ws_err *err)
{
	struct ws_view_table table = {.name = name, .doc = "Metrics over time"};

	table.columns = ws_find_known_columns(name, &table.column_count);
	return ws_begin_table(metrics->export, &table, err);
}

static int write_metric_table(struct metrics *metrics, enum metric_table table, struct ws_err *err)
{
	bool any = false;

	for (size_t i = 0; i < metrics->count; i++)
		any |= metrics->metrics[i].known && metrics->metrics[i].table == table;
	if (begin_known_table(metrics, metric_tables[table], err) < 0)
		return -1;
	if (!any || !ws_is_table_wanted(metrics->export, metric_tables[table]))
		return 0;
	return put_metric_rows(metrics, table, err);
}

/* ---- what the numbers mean ---- */

/* The name by which common scripts look for a metric. */
static char *make_known_name(const struct metrics *metrics, const struct metric *metric)
{
	static const struct {
		const char *unit, *known;
	} units[] = {{"%", " [Throughput %]"}, {"Hz", " [MHz]"}, {"B/s", " [B/s]"}};
	const char *name = ws_report_string(metrics->export->report, metric->name, NULL),
		   *unit = ws_report_string(metrics->export->report, metric->unit, NULL),
		   *suffix = "";

	for (size_t i = 0; i < WS_COUNT(units); i++)
		if (!strcmp(units[i].unit, unit))
			suffix = units[i].known;
	if (!strcmp(name, "SM Active"))
		name = "SMs Active";
	return ws_format("%.200s%s", name, suffix);
}

static int put_gpu_metric_info(struct metrics *metrics, const struct metric *metric,
			       struct ws_err *err)
{
	char *name = make_known_name(metrics, metric);
	struct ws_view_cell cells[] = {ws_make_int_cell(metric->numbers[0]),
				       ws_make_int_cell(metric->numbers[0]),
				       ws_make_text_cell(metrics->export, metric->group),
				       ws_make_int_cell(metric->numbers[1]),
				       ws_make_own_text_cell(metrics->export, name)};

	free(name);
	return ws_add_table_row(metrics->export, cells, err);
}

static int put_network_metric_info(struct metrics *metrics, const struct metric *metric,
				   struct ws_err *err)
{
	size_t length, card_length;
	const char *name = ws_report_string(metrics->export->report, metric->name, &length),
		   *card = ws_report_string(metrics->export->report, metric->device, &card_length),
		   *unit = ws_report_string(metrics->export->report, metric->unit, NULL);
	char *own = ws_strndup(name, measure_network_name(name, length, card, card_length));
	struct ws_view_cell cells[] = {ws_make_int_cell(metric->numbers[1]),
				       ws_make_int_cell(metric->numbers[2]),
				       ws_make_own_text_cell(metrics->export, own),
				       ws_make_literal_cell("Counted in the time of a row"),
				       ws_make_literal_cell(*unit == 'B' ? "B" : "")};

	free(own);
	return ws_add_table_row(metrics->export, cells, err);
}

static int put_card_info(struct metrics *metrics, size_t card, struct ws_err *err)
{
	return ws_add_table_row(
		metrics->export,
		(struct ws_view_cell[]){ws_make_int_cell(0), ws_make_literal_cell(""),
					ws_make_int_cell((int64_t)card),
					ws_make_text_cell(metrics->export, metrics->cards[card]),
					ws_make_int_cell(0), ws_make_int_cell(0),
					ws_make_int_cell(0)},
		err);
}

static int put_card_number(struct metrics *metrics, size_t card, struct ws_err *err)
{
	return ws_add_table_row(metrics->export,
				(struct ws_view_cell[]){ws_make_int_cell((int64_t)card),
							ws_make_int_cell((int64_t)card)},
				err);
}

/* Whether an earlier counter has explained the metric's number already. */
static bool is_explained(const struct metrics *metrics, size_t index)
{
	const struct metric *metric = &metrics->metrics[index];

	for (size_t i = 0; i < index && metric->table == NIC_METRICS; i++)
		if (metrics->metrics[i].own && metrics->metrics[i].table == NIC_METRICS &&
		    metrics->metrics[i].numbers[2] == metric->numbers[2])
			return true;
	return false;
}

static int put_metric_infos(struct metrics *metrics, enum metric_table table,
			    int (*put)(struct metrics *metrics, const struct metric *metric,
				       struct ws_err *err),
			    struct ws_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < metrics->count && !rc; i++)
		if (metrics->metrics[i].own && metrics->metrics[i].table == table &&
		    !is_explained(metrics, i))
			rc = put(metrics, &metrics->metrics[i], err);
	return rc;
}

static int put_info_rows(struct metrics *metrics, size_t table, struct ws_err *err)
{
	int rc = 0;

	if (table == 0)
		return put_metric_infos(metrics, GPU_METRICS, put_gpu_metric_info, err);
	if (table == 1)
		return put_metric_infos(metrics, NIC_METRICS, put_network_metric_info, err);
	for (size_t card = 0; card < metrics->card_count && !rc; card++)
		rc = table == 2 ? put_card_info(metrics, card, err)
				: put_card_number(metrics, card, err);
	return rc;
}

/* ---- all of them ---- */

bool ws_is_metric_table(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(metric_tables); i++)
		if (!strcasecmp(metric_tables[i], name))
			return true;
	return false;
}

bool ws_is_metric_info_table(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(info_tables); i++)
		if (!strcasecmp(info_tables[i], name))
			return true;
	return false;
}

int ws_write_metric_tables(struct ws_cell_context *export, struct ws_err *err)
{
	struct metrics metrics = {.export = export};
	int rc = 0;

	read_imported_metrics(&metrics);
	read_own_metrics(&metrics);
	for (size_t i = 0; i < WS_COUNT(metric_tables) && !rc; i++)
		rc = write_metric_table(&metrics, (enum metric_table)i, err);
	for (size_t i = 0; i < WS_COUNT(info_tables) && !rc; i++) {
		if (ws_is_foreign_table(export, info_tables[i]))
			continue;
		rc = begin_known_table(&metrics, info_tables[i], err);
		if (!rc)
			rc = put_info_rows(&metrics, i, err);
	}
	free(metrics.metrics);
	return rc;
}
