/* result.c - see result.h. */
#include "kernel/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "kernel/units.h"
#include "query/query.h"

struct metric_list {
	struct ws_kernel_metric *metrics;
	uint32_t *owners; /* the index of the result that each metric belongs to */
	size_t count, capacity, owner_capacity;
};

bool ws_has_kernel_results(const struct ws_report *report)
{
	return ws_report_count_rows(report, WS_TABLE_kernel_result) > 0;
}

static const char *find_text(const struct ws_report *report, uint32_t id)
{
	return ws_report_string(report, id, NULL);
}

/* Read a row of a table from the values of a cursor. */
static void fill_row(enum ws_table table, const uint64_t *values, void *row)
{
	for (uint32_t i = 0; i < ws_tables[table].column_count; i++)
		ws_row_set(table, row, i, values[i]);
}

static void name_result(const struct ws_report *report, struct ws_kernel_result *result)
{
	const struct ws_row_kernel_result *row = &result->row;

	result->demangled = find_text(report, row->demangled);
	result->name = find_text(report, row->name);
	if (!*result->name)
		result->name = result->demangled;
	if (!*result->name)
		result->name = find_text(report, row->mangled);
	result->chip = find_text(report, row->chip);
	result->tool = find_text(report, row->tool);
	result->error = find_text(report, row->error);
	result->nvtx = find_text(report, row->nvtx);
	result->replay = find_text(report, row->replay);
	result->cache_control = find_text(report, row->cache_control);
	result->clock_control = find_text(report, row->clock_control);
	result->sections = find_text(report, row->sections);
	result->gpu = "";
}

static int compare_results(const void *first, const void *second)
{
	const struct ws_kernel_result *left = first, *right = second;

	return ws_compare(left->row.id, right->row.id);
}

static void load_rows(struct ws_kernel_results *results)
{
	struct ws_cursor *cursor =
		ws_cursor_open(results->report, WS_TABLE_kernel_result, 0, UINT64_MAX);
	const uint64_t *values;
	size_t capacity = 0;

	while (ws_cursor_next(cursor, &values)) {
		struct ws_kernel_result *result;

		ws_grow(results->results, capacity, results->count + 1);
		result = &results->results[results->count++];
		memset(result, 0, sizeof(*result));
		fill_row(WS_TABLE_kernel_result, values, &result->row);
		name_result(results->report, result);
	}
	ws_cursor_close(cursor);
	if (results->count)
		qsort(results->results, results->count, sizeof(*results->results), compare_results);
}

/* ---- the GPU and the process ---- */

static void load_devices(struct ws_kernel_results *results)
{
	struct ws_cursor *cursor =
		ws_cursor_open(results->report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		struct ws_row_cuda_device device = {0};

		fill_row(WS_TABLE_cuda_device, values, &device);
		for (size_t i = 0; i < results->count; i++) {
			struct ws_kernel_result *result = &results->results[i];

			if (result->row.process != device.process ||
			    result->row.device != device.id)
				continue;
			result->device = device;
			result->gpu = find_text(results->report, device.name);
			if (!*result->chip)
				result->chip = find_text(results->report, device.chip);
		}
	}
	ws_cursor_close(cursor);
}

static void load_pids(struct ws_kernel_results *results)
{
	struct ws_cursor *cursor = ws_cursor_open(results->report, WS_TABLE_process, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values))
		for (size_t i = 0; i < results->count; i++)
			if (results->results[i].row.process == values[ws_process_id])
				results->results[i].pid = (uint32_t)values[ws_process_pid];
	ws_cursor_close(cursor);
}

/* ---- metrics ---- */

static void add_metric(const struct ws_report *report, struct metric_list *list,
		       const uint64_t *values)
{
	struct ws_row_kernel_metric row = {0};

	fill_row(WS_TABLE_kernel_metric, values, &row);
	ws_grow(list->metrics, list->capacity, list->count + 1);
	ws_grow(list->owners, list->owner_capacity, list->count + 1);
	list->owners[list->count] = row.result;
	list->metrics[list->count++] = (struct ws_kernel_metric){
		.name = find_text(report, row.name),
		.unit = ws_kernel_plain_unit(find_text(report, row.unit)),
		.text = row.text ? find_text(report, row.text) : NULL,
		.value = row.value,
	};
}

static struct metric_list read_metrics(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_kernel_metric, 0, UINT64_MAX);
	struct metric_list list = {0};
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values))
		add_metric(report, &list, values);
	ws_cursor_close(cursor);
	return list;
}

static int compare_metrics(const void *first, const void *second)
{
	const struct ws_kernel_metric *left = first, *right = second;

	return strcmp(left->name, right->name);
}

static struct ws_kernel_result *find_result(const struct ws_kernel_results *results, uint32_t id)
{
	struct ws_kernel_result key = {.row.id = id};

	if (!results->count)
		return NULL;
	return bsearch(&key, results->results, results->count, sizeof(key), compare_results);
}

/* Make the metrics of each result contiguous, ordered by name. */
static void share_metrics(struct ws_kernel_results *results, const struct metric_list *list)
{
	struct ws_kernel_metric *next = ws_calloc(list->count + 1, sizeof(*next));

	results->metrics = next;
	for (size_t i = 0; i < list->count; i++) {
		struct ws_kernel_result *result = find_result(results, list->owners[i]);

		if (result)
			result->metric_count++;
	}
	for (size_t i = 0; i < results->count; i++) {
		results->results[i].metrics = next;
		next += results->results[i].metric_count;
		results->results[i].metric_count = 0;
	}
	for (size_t i = 0; i < list->count; i++) {
		struct ws_kernel_result *result = find_result(results, list->owners[i]);

		if (result)
			result->metrics[result->metric_count++] = list->metrics[i];
	}
	for (size_t i = 0; i < results->count; i++)
		qsort(results->results[i].metrics, results->results[i].metric_count, sizeof(*next),
		      compare_metrics);
}

static double find_duration(const struct ws_kernel_result *result)
{
	double ns = ws_kernel_value(result, "gpu__time_duration.sum");

	if (!isnan(ns))
		return ns;
	if (result->row.end == WS_NO_TIME || result->row.end <= result->row.start)
		return NAN;
	return (double)(result->row.end - result->row.start);
}

void ws_kernel_results_load(const struct ws_report *report, struct ws_kernel_results *results)
{
	struct metric_list list;

	*results = (struct ws_kernel_results){.report = report};
	if (!ws_has_kernel_results(report))
		return;
	load_rows(results);
	load_devices(results);
	load_pids(results);
	list = read_metrics(report);
	share_metrics(results, &list);
	free(list.metrics);
	free(list.owners);
	for (size_t i = 0; i < results->count; i++)
		results->results[i].duration_ns = find_duration(&results->results[i]);
}

void ws_kernel_results_free(struct ws_kernel_results *results)
{
	free(results->results);
	free(results->metrics);
	*results = (struct ws_kernel_results){0};
}

const struct ws_kernel_result *ws_find_kernel_result(const struct ws_kernel_results *results,
						     uint32_t id)
{
	return find_result(results, id);
}

const struct ws_kernel_metric *ws_find_kernel_metric(const struct ws_kernel_result *result,
						     const char *name)
{
	struct ws_kernel_metric key = {.name = name};

	if (!result->metric_count)
		return NULL;
	return bsearch(&key, result->metrics, result->metric_count, sizeof(key), compare_metrics);
}

double ws_kernel_value(const struct ws_kernel_result *result, const char *name)
{
	const struct ws_kernel_metric *metric = ws_find_kernel_metric(result, name);

	if (!metric || metric->text)
		return NAN;
	return metric->value;
}
