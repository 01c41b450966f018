/* metered_gpu.c - see metered_gpu.h. */
#include "query/metered_gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/parallel.h"

/* A value of 0 is not repeated: it holds for as long as readers of the machine leave it out
 * (docs/metrics.md), plus one reading. */
#define MOST_SILENT_NS UINT64_C(6000000000)

/* ---- series ---- */

void ws_metric_series_free(struct ws_metric_series *series)
{
	free(series->time);
	free(series->sum);
	free(series->known);
	*series = (struct ws_metric_series){0};
}

/* The last point no later than `time`; the first where all are later. The search widens from
 * `near`. */
static size_t find_point(const struct ws_metric_series *series, size_t near, uint64_t time)
{
	const uint64_t *times = series->time;
	size_t low = ws_min(near, series->count - 1), high, step = 1;

	if (times[low] > time) {
		while (low > step && times[low - step] > time)
			step *= 2;
		high = low;
		low -= ws_min(step, low);
	} else {
		while (low + step < series->count && times[low + step] <= time) {
			low += step;
			step *= 2;
		}
		high = ws_min(low + step, series->count);
	}
	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;

		if (times[middle] <= time)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The sum and the known time up to `time`, which lies between point i and the next. */
static void sum_up_to(const struct ws_metric_series *series, size_t i, uint64_t time, double *sum,
		      uint64_t *known)
{
	uint64_t past = time - ws_min(time, series->time[i]);

	*sum = series->sum[i];
	*known = series->known[i];
	if (i + 1 == series->count || series->known[i + 1] == series->known[i])
		return;
	*sum += (series->sum[i + 1] - series->sum[i]) * (double)past /
		(double)(series->time[i + 1] - series->time[i]);
	*known += past;
}

struct ws_metric_part ws_measure_metric(const struct ws_metric_series *series, size_t *near,
					uint64_t start, uint64_t end)
{
	struct ws_metric_part part = {0};
	double sum_before;
	uint64_t known_before;

	if (!series->count || end <= start)
		return part;
	*near = part.first = find_point(series, *near, start);
	part.last = find_point(series, part.first, end);
	sum_up_to(series, part.first, start, &sum_before, &known_before);
	sum_up_to(series, part.last, end, &part.sum, &part.known);
	part.sum -= sum_before;
	part.known -= known_before;
	part.last += series->time[part.last] < end && part.last + 1 < series->count;
	return part;
}

/* Where the sample that includes `time` begins or, with `end`, where the sample that ends there or
 * includes it ends. Samples begin with the value after point i and have the period's length. */
static uint64_t align_to_sample(const struct ws_metric_series *series, size_t i, uint64_t time,
				bool end)
{
	uint64_t first = series->time[i], past = time - ws_min(time, first), aligned;

	if (!series->period && !end)
		return first;
	if (!series->period)
		return series->time[i + 1];
	aligned = first + (past + (end ? series->period - 1 : 0)) / series->period * series->period;
	return ws_min(aligned, series->time[i + 1]);
}

void ws_add_metric_samples(const struct ws_metric_series *series, const struct ws_metric_part *part,
			   uint64_t start, uint64_t end, uint64_t *until,
			   struct ws_metric_samples *samples)
{
	for (size_t i = part->first; i < part->last && i + 1 < series->count; i++) {
		uint64_t from = ws_max(start, series->time[i]),
			 to = ws_min(end, series->time[i + 1]);

		if (series->known[i + 1] == series->known[i] || to <= from)
			continue;
		from = ws_max(align_to_sample(series, i, from, false), *until);
		to = align_to_sample(series, i, to, true);
		if (to <= from)
			continue;
		*until = to;
		samples->time += to - from;
		if (series->period)
			samples->count += (to - from + series->period / 2) / series->period;
		else
			samples->count++;
	}
}

/* ---- from values to series ---- */

struct counter_value {
	uint64_t start, span;
	double value;
};

struct values {
	struct counter_value *values;
	size_t count, capacity;
};

struct value_loader {
	const uint32_t *place;
	size_t ids, count;
	struct values *values; /* by worker and index */
	uint32_t workers;
	uint64_t last; /* end of the report */
	struct ws_metric_series *series;
};

static int scan_values(void *context, const struct ws_batch *batch)
{
	struct value_loader *loader = context;
	struct values *values = loader->values + batch->worker * loader->count;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t id = batch->col[ws_counter_value_counter][i];
		struct values *to;
		struct counter_value *added;

		if (id >= loader->ids || !loader->place[id])
			continue;
		to = &values[loader->place[id] - 1];
		ws_grow(to->values, to->capacity, to->count + 1);
		added = &to->values[to->count++];
		added->start = batch->col[ws_counter_value_start][i];
		added->span = batch->col[ws_counter_value_span][i];
		memcpy(&added->value, &batch->col[ws_counter_value_value][i], sizeof(added->value));
	}
	return 0;
}

static int compare_values(const void *first, const void *second)
{
	const struct counter_value *left = first, *right = second;

	return ws_compare(left->start, right->start);
}

/* The values of all workers of one counter, in order. */
static struct values gather_values(const struct value_loader *loader, size_t index)
{
	struct values all = {0};
	bool sorted = true;

	for (uint32_t worker = 0; worker < loader->workers; worker++) {
		struct values *from = &loader->values[worker * loader->count + index];

		ws_grow(all.values, all.capacity, all.count + from->count);
		if (from->count)
			memcpy(all.values + all.count, from->values,
			       from->count * sizeof(*from->values));
		all.count += from->count;
		free(from->values);
	}
	for (size_t i = 1; i < all.count && sorted; i++)
		sorted = all.values[i - 1].start <= all.values[i].start;
	if (!sorted)
		qsort(all.values, all.count, sizeof(*all.values), compare_values);
	return all;
}

/* Until when a value holds: to the end of its span or, where it has no span, to the next value. */
static uint64_t find_value_end(const struct value_loader *loader, const struct values *all,
			       size_t i)
{
	const struct counter_value *value = &all->values[i];
	uint64_t next = ws_max(loader->last, value->start + value->span),
		 end = value->start + value->span;

	if (i + 1 < all->count)
		next = all->values[i + 1].start;
	if (!value->span || end > next || end < value->start ||
	    (value->value == 0 && next - value->start <= MOST_SILENT_NS))
		return next;
	return end;
}

static void add_point(struct ws_metric_series *series, uint64_t time, double sum, uint64_t known)
{
	series->time[series->count] = time;
	series->sum[series->count] = sum;
	series->known[series->count++] = known;
}

static void make_series(const struct value_loader *loader, const struct values *all,
			struct ws_metric_series *series)
{
	double sum = 0;
	uint64_t known = 0;

	*series = (struct ws_metric_series){0};
	series->time = ws_malloc((all->count * 2 + 1) * sizeof(*series->time));
	series->sum = ws_malloc((all->count * 2 + 1) * sizeof(*series->sum));
	series->known = ws_malloc((all->count * 2 + 1) * sizeof(*series->known));
	for (size_t i = 0; i < all->count; i++) {
		const struct counter_value *value = &all->values[i];
		uint64_t end = find_value_end(loader, all, i);

		if (!isfinite(value->value) || end <= value->start)
			continue;
		if (!series->count || series->time[series->count - 1] != value->start)
			add_point(series, value->start, sum, known);
		sum += value->value * (double)(end - value->start);
		known += end - value->start;
		add_point(series, end, sum, known);
	}
	if (!series->count)
		ws_metric_series_free(series);
}

static void make_counter_series(void *context, unsigned worker, size_t index)
{
	struct value_loader *loader = context;
	struct values all = gather_values(loader, index);

	(void)worker;
	make_series(loader, &all, &loader->series[index]);
	free(all.values);
}

uint64_t ws_metric_series_load(const struct ws_report *report, const uint32_t *place, size_t ids,
			       struct ws_metric_series *series, size_t count)
{
	struct ws_scan scan = {.table = WS_TABLE_counter_value,
			       .columns = WS_COLUMN_BIT(counter_value, start) |
					  WS_COLUMN_BIT(counter_value, counter) |
					  WS_COLUMN_BIT(counter_value, value) |
					  WS_COLUMN_BIT(counter_value, span),
			       .time_max = UINT64_MAX};
	struct value_loader loader = {.place = place,
				      .ids = ids,
				      .count = count,
				      .workers = ws_count_scan_workers(&scan),
				      .last = ws_find_time_last(report),
				      .series = series};
	uint64_t damaged = 0;

	if (!count)
		return 0;
	loader.values = ws_calloc(loader.workers * count, sizeof(*loader.values));
	ws_run_scan(report, &scan, scan_values, &loader, &damaged);
	ws_run_parallel(ws_count_workers(), count, make_counter_series, &loader);
	free(loader.values);
	return damaged;
}

uint64_t ws_find_sample_period(const struct ws_report *report, uint32_t group)
{
	static const char before[] = "GPU metrics, ";
	const char *text = ws_report_string(report, group, NULL), *period;
	char *fact;

	if (strncmp(text, before, sizeof(before) - 1))
		return 0;
	fact = ws_format("gpu_metrics.%s.period", text + sizeof(before) - 1);
	period = ws_find_meta(report, fact);
	free(fact);
	if (!period)
		return 0;
	return strtoull(period, NULL, 10);
}

/* ---- which counter has which metric ---- */

enum how { BEST, ALL };

static const struct known_metric {
	const char *unit;
	enum how how;
	const char *names[6];
} known_metrics[] = {
#define WS_METERED(ID, title, form, unit, how, names) {unit, how, {names}},
#define WS_METERED_HIDDEN(ID, unit, how, names) {unit, how, {names}},
#include "query/metered.def"
};

size_t ws_measure_counter_name(const char *name, size_t length)
{
	const char *at = memmem(name, length, ", GPU ", 6);

	if (at && at + 6 < name + length &&
	    strspn(at + 6, "0123456789") == length - (size_t)(at + 6 - name))
		return (size_t)(at - name);
	return length;
}

/* The place of a counter's name among those of a metric, from 1; 0 when it is not one of them. */
static unsigned rank_counter_name(const struct known_metric *metric, const char *name,
				  size_t length)
{
	length = ws_measure_counter_name(name, length);
	if (length && name[length - 1] == ']' && memmem(name, length, " [", 2))
		length = (size_t)((const char *)memmem(name, length, " [", 2) - name);
	for (unsigned i = 0; i < WS_COUNT(metric->names) && metric->names[i]; i++)
		if (strlen(metric->names[i]) == length &&
		    !strncasecmp(metric->names[i], name, length))
			return i + 1;
	return 0;
}

struct found_counter {
	uint32_t id, uuid, number, group;
	enum ws_gpu_metric metric;
	unsigned rank;
	struct ws_metric_series series;
};

struct metric_loader {
	const struct ws_report *report;
	struct ws_gpu_metrics *metrics;
	struct found_counter *found;
	size_t count, capacity;
	struct ws_map uuids; /* CUDA number: string key of the UUID that the first process saw */
};

bool ws_is_gpu_counter(const struct ws_report *report, const uint64_t *counter)
{
	const char *identity =
		ws_report_string(report, (uint32_t)counter[ws_counter_identity], NULL);

	return (uint32_t)counter[ws_counter_device] != WS_NO_U32 || !strncmp(identity, "GPU-", 4) ||
	       !strncmp(identity, "MIG-", 4);
}

static void find_counter_metrics(struct metric_loader *loader, const uint64_t *counter)
{
	size_t length;
	const char *name = ws_report_string(loader->report, (uint32_t)counter[ws_counter_name],
					    &length),
		   *unit = ws_report_string(loader->report, (uint32_t)counter[ws_counter_unit],
					    NULL);
	struct found_counter found = {
		.id = (uint32_t)counter[ws_counter_id],
		.number = (uint32_t)counter[ws_counter_device],
		.group = (uint32_t)counter[ws_counter_group],
		.uuid = ws_report_string_key(loader->report,
					     (uint32_t)counter[ws_counter_identity])};

	if (!found.uuid && found.number != WS_NO_U32)
		found.uuid = (uint32_t)ws_map_get(&loader->uuids, found.number, NULL);
	for (int metric = 0; metric < WS_GPU_METRICS; metric++) {
		if (strcmp(known_metrics[metric].unit, unit))
			continue;
		found.metric = (enum ws_gpu_metric)metric;
		found.rank = rank_counter_name(&known_metrics[metric], name, length);
		if (!found.rank)
			continue;
		ws_grow(loader->found, loader->capacity, loader->count + 1);
		loader->found[loader->count++] = found;
	}
}

static void find_counters(struct metric_loader *loader)
{
	struct ws_cursor *cursor = ws_cursor_open(loader->report, WS_TABLE_counter, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values))
		if (ws_is_gpu_counter(loader->report, values))
			find_counter_metrics(loader, values);
	ws_cursor_close(cursor);
}

static void read_device_uuids(struct metric_loader *loader)
{
	struct ws_cursor *cursor =
		ws_cursor_open(loader->report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint32_t key =
			ws_report_string_key(loader->report, (uint32_t)values[ws_cuda_device_uuid]);

		if (key && !ws_map_get(&loader->uuids, values[ws_cuda_device_id], NULL))
			ws_map_set(&loader->uuids, values[ws_cuda_device_id], key);
	}
	ws_cursor_close(cursor);
}

/* The values of all counters that were found. */
static void read_series(struct metric_loader *loader)
{
	struct ws_metric_series *series = ws_calloc(loader->count + 1, sizeof(*series));
	uint32_t highest = 0, *place;

	for (size_t i = 0; i < loader->count; i++)
		highest = ws_max(highest, ws_min(loader->found[i].id, (uint32_t)1 << 24));
	place = ws_calloc((size_t)highest + 1, sizeof(*place));
	for (size_t i = 0; i < loader->count; i++)
		if (loader->found[i].id <= highest)
			place[loader->found[i].id] = (uint32_t)i + 1;
	loader->metrics->damaged = ws_metric_series_load(loader->report, place, (size_t)highest + 1,
							 series, loader->count);
	for (size_t i = 0; i < loader->count; i++) {
		loader->found[i].series = series[i];
		loader->found[i].series.period =
			ws_find_sample_period(loader->report, loader->found[i].group);
	}
	free(series);
	free(place);
}

/* ---- GPUs ---- */

const struct ws_metered_gpu *ws_find_metered_gpu(const struct ws_gpu_metrics *metrics,
						 uint32_t uuid, uint64_t number)
{
	const struct ws_metered_gpu *by_number = NULL;

	for (size_t i = 0; i < metrics->count; i++) {
		const struct ws_metered_gpu *gpu = &metrics->gpus[i];

		if (uuid && gpu->uuid == uuid)
			return gpu;
		if ((!uuid || !gpu->uuid) && gpu->number != WS_NO_U32 && gpu->number == number)
			by_number = gpu;
	}
	return by_number;
}

static struct ws_metered_gpu *add_gpu(struct ws_gpu_metrics *metrics,
				      const struct found_counter *found)
{
	struct ws_metered_gpu *gpu =
		(struct ws_metered_gpu *)ws_find_metered_gpu(metrics, found->uuid, found->number);

	if (gpu) {
		if (gpu->number == WS_NO_U32)
			gpu->number = found->number;
		return gpu;
	}
	ws_grow(metrics->gpus, metrics->capacity, metrics->count + 1);
	gpu = &metrics->gpus[metrics->count++];
	*gpu = (struct ws_metered_gpu){.uuid = found->uuid, .number = found->number};
	return gpu;
}

/* Whether the UUIDs are the same or, where either side does not know its UUID, the numbers. */
static bool is_same_gpu(const struct ws_metered_gpu *gpu, uint32_t uuid, uint64_t number)
{
	if (uuid && gpu->uuid)
		return gpu->uuid == uuid;
	return gpu->number != WS_NO_U32 && gpu->number == number;
}

void ws_describe_metered_gpu(const struct ws_report *report, struct ws_metered_gpu *gpu)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	const uint64_t *values;

	while (!gpu->name && ws_cursor_next(cursor, &values)) {
		uint32_t key = ws_report_string_key(report, (uint32_t)values[ws_cuda_device_uuid]);

		if (!is_same_gpu(gpu, key, values[ws_cuda_device_id]))
			continue;
		gpu->name = (uint32_t)values[ws_cuda_device_name];
		gpu->memory_bandwidth = (double)values[ws_cuda_device_memory_bandwidth];
		if (gpu->number == WS_NO_U32)
			gpu->number = (uint32_t)values[ws_cuda_device_id];
	}
	ws_cursor_close(cursor);
}

/* The sum of two series, which is known where the first is. */
static struct ws_metric_series add_series(const struct ws_metric_series *left,
					  const struct ws_metric_series *right)
{
	struct ws_metric_series out = {.period = left->period};
	size_t near = 0;

	out.time = ws_malloc(left->count * sizeof(*out.time));
	out.sum = ws_malloc(left->count * sizeof(*out.sum));
	out.known = ws_malloc(left->count * sizeof(*out.known));
	for (size_t i = 0; i < left->count; i++) {
		double sum;
		uint64_t known;

		near = find_point(right, near, left->time[i]);
		sum_up_to(right, near, left->time[i], &sum, &known);
		add_point(&out, left->time[i], left->sum[i] + sum, left->known[i]);
	}
	return out;
}

static bool is_last_name(const struct found_counter *found)
{
	const struct known_metric *metric = &known_metrics[found->metric];

	return found->rank == WS_COUNT(metric->names) || !metric->names[found->rank];
}

static void keep_series(struct ws_metric_series *slot, struct found_counter *found)
{
	struct ws_metric_series sum;

	if (!slot->count) {
		*slot = found->series;
	} else if (known_metrics[found->metric].how == ALL && !is_last_name(found)) {
		sum = add_series(slot, &found->series);
		ws_metric_series_free(slot);
		ws_metric_series_free(&found->series);
		*slot = sum;
	} else {
		ws_metric_series_free(&found->series);
	}
	found->series = (struct ws_metric_series){0};
}

static int compare_found(const void *first, const void *second)
{
	const struct found_counter *left = first, *right = second;

	if (left->metric != right->metric)
		return ws_compare(left->metric, right->metric);
	if (left->rank != right->rank)
		return ws_compare(left->rank, right->rank);
	return ws_compare(left->id, right->id);
}

static int compare_gpus(const void *first, const void *second)
{
	const struct ws_metered_gpu *left = first, *right = second;

	if (left->number != right->number)
		return ws_compare(left->number, right->number);
	return ws_compare(left->uuid, right->uuid);
}

void ws_gpu_metrics_load(const struct ws_report *report, struct ws_gpu_metrics *metrics)
{
	struct metric_loader loader = {.report = report, .metrics = metrics};

	*metrics = (struct ws_gpu_metrics){0};
	read_device_uuids(&loader);
	find_counters(&loader);
	read_series(&loader);
	if (loader.count)
		qsort(loader.found, loader.count, sizeof(*loader.found), compare_found);
	for (size_t i = 0; i < loader.count; i++)
		if (loader.found[i].series.count)
			keep_series(
				&add_gpu(metrics, &loader.found[i])->series[loader.found[i].metric],
				&loader.found[i]);
	for (size_t i = 0; i < metrics->count; i++)
		ws_describe_metered_gpu(report, &metrics->gpus[i]);
	if (metrics->count)
		qsort(metrics->gpus, metrics->count, sizeof(*metrics->gpus), compare_gpus);
	free(loader.found);
	ws_map_free(&loader.uuids);
}

void ws_gpu_metrics_free(struct ws_gpu_metrics *metrics)
{
	for (size_t i = 0; i < metrics->count; i++)
		for (int metric = 0; metric < WS_GPU_METRICS; metric++)
			ws_metric_series_free(&metrics->gpus[i].series[metric]);
	free(metrics->gpus);
	*metrics = (struct ws_gpu_metrics){0};
}

/* ---- what limits a kernel ---- */

/*
 * From these shares on, something counts as busy most of the time. A memory reaches in practice
 * some 90 % of its peak; the shares are those from which NVIDIA's tools call a kernel bound by a
 * unit.
 */
enum { BUSY_PERCENT = 60, FILLED_PERCENT = 50 };

static double add_known(double left, double right)
{
	if (isnan(left))
		return right;
	if (isnan(right))
		return left;
	return left + right;
}

static bool is_busy(double percent)
{
	return !isnan(percent) && percent >= BUSY_PERCENT;
}

enum ws_gpu_bound ws_find_gpu_bound(const double means[WS_GPU_METRICS])
{
	double memory = means[WS_GPU_DRAM];

	if (isnan(memory))
		memory = add_known(means[WS_GPU_DRAM_READ], means[WS_GPU_DRAM_WRITE]);
	if (isnan(means[WS_GPU_SM_ACTIVE]))
		return WS_BOUND_UNKNOWN;
	if (is_busy(memory) && !(means[WS_GPU_TENSOR] > memory))
		return WS_BOUND_MEMORY;
	if (is_busy(means[WS_GPU_TENSOR]))
		return WS_BOUND_TENSOR;
	if (is_busy(means[WS_GPU_SM_ISSUE]))
		return WS_BOUND_ISSUE;
	if (is_busy(means[WS_GPU_NVLINK_RX]) || is_busy(means[WS_GPU_NVLINK_TX]) ||
	    is_busy(means[WS_GPU_PCIE_RX]) || is_busy(means[WS_GPU_PCIE_TX]))
		return WS_BOUND_LINK;
	if (means[WS_GPU_SM_ACTIVE] < FILLED_PERCENT)
		return WS_BOUND_FILL;
	return WS_BOUND_LATENCY;
}

const char *ws_name_gpu_bound(enum ws_gpu_bound bound)
{
	static const char *const names[] = {
		[WS_BOUND_UNKNOWN] = "",
		[WS_BOUND_MEMORY] = "memory bandwidth",
		[WS_BOUND_TENSOR] = "tensor cores",
		[WS_BOUND_ISSUE] = "instruction issue",
		[WS_BOUND_LINK] = "NVLink or PCIe",
		[WS_BOUND_FILL] = "too few blocks",
		[WS_BOUND_LATENCY] = "latency",
	};

	return names[bound];
}
