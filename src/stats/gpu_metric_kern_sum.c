/* gpu_metric_kern_sum.c - what the GPU's hardware did during each kernel, by the kernel's name. */
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "stats/cuda.h"
#include "stats/metered.h"

static const struct ws_column columns[] = {
	{"GPU", WS_KIND_TEXT},
	WS_METERED_LEADING_COLUMNS("Instances"),
#define WS_METERED(ID, title, form, unit, how, names) {title, WS_KIND_##form},
#include "query/metered.def"
	WS_METERED_LAST_COLUMNS,
	{"Name", WS_KIND_TEXT},
};

struct kernel_metrics {
	struct ws_stats *stats;
	struct ws_gpu_metrics metrics;
	struct ws_map gpus; /* process << 32 | device: index of the GPU + 1 */
	int name_column;
	struct ws_metered_spans *spans; /* by worker and GPU; their groups are string keys */
	uint32_t workers;
	uint64_t unended, backwards;
	uint32_t *group_of_name; /* by string key: group + 1 */
	uint32_t *names;	 /* by group: string key */
	size_t groups, capacity;
};

/* The metered GPU of each GPU of each process. */
static void match_gpus(struct kernel_metrics *kernels)
{
	const struct ws_report *report = kernels->stats->report;
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		const struct ws_metered_gpu *gpu = ws_find_metered_gpu(
			&kernels->metrics,
			ws_report_string_key(report, (uint32_t)values[ws_cuda_device_uuid]),
			values[ws_cuda_device_id]);

		if (gpu)
			ws_map_set(&kernels->gpus,
				   values[ws_cuda_device_process] << 32 | values[ws_cuda_device_id],
				   (uint64_t)(gpu - kernels->metrics.gpus) + 1);
	}
	ws_cursor_close(cursor);
}

static uint64_t find_gpu_index(const struct kernel_metrics *kernels, uint64_t process,
			       uint64_t device)
{
	bool known;
	uint64_t index = ws_map_get(&kernels->gpus, process << 32 | device, &known);
	const struct ws_metered_gpu *gpu;

	if (known)
		return index;
	gpu = ws_find_metered_gpu(&kernels->metrics, 0, device);
	if (!gpu)
		return 0;
	return (uint64_t)(gpu - kernels->metrics.gpus) + 1;
}

static int scan_kernels(void *context, const struct ws_batch *batch)
{
	struct kernel_metrics *kernels = context;
	struct ws_metered_spans *spans = kernels->spans + batch->worker * kernels->metrics.count;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t start = batch->col[ws_cuda_kernel_start][i],
			 end = batch->col[ws_cuda_kernel_end][i], gpu;
		struct ws_metered_spans *to;

		if (ws_unlikely(end == WS_NO_TIME || end < start)) {
			ws_count_left_out_shared(end, &kernels->unended, &kernels->backwards);
			continue;
		}
		gpu = find_gpu_index(kernels, batch->col[ws_cuda_kernel_process][i],
				     batch->col[ws_cuda_kernel_device][i]);
		if (!gpu)
			continue;
		to = &spans[gpu - 1];
		ws_grow(to->spans, to->capacity, to->count + 1);
		to->spans[to->count++] = (struct ws_metered_span){
			start, end,
			(uint32_t)ws_choose_kernel_name(batch->col[kernels->name_column][i],
							batch->col[ws_cuda_kernel_demangled][i])};
	}
	return 0;
}

static void read_kernels(struct kernel_metrics *kernels)
{
	struct ws_scan scan = {.table = WS_TABLE_cuda_kernel,
			       .columns = WS_COLUMN_BIT(cuda_kernel, start) |
					  WS_COLUMN_BIT(cuda_kernel, end) |
					  WS_COLUMN_BIT(cuda_kernel, process) |
					  WS_COLUMN_BIT(cuda_kernel, device) |
					  WS_COLUMN_BIT(cuda_kernel, demangled) |
					  UINT64_C(1) << kernels->name_column,
			       .time_min = kernels->stats->time_min,
			       .time_max = kernels->stats->time_max};
	uint64_t damaged = 0;

	kernels->workers = ws_count_scan_workers(&scan);
	kernels->spans =
		ws_calloc(kernels->workers * kernels->metrics.count + 1, sizeof(*kernels->spans));
	ws_run_scan(kernels->stats->report, &scan, scan_kernels, kernels, &damaged);
	kernels->stats->damaged += damaged;
	kernels->stats->unended += kernels->unended;
	kernels->stats->backwards += kernels->backwards;
}

/* The group of a kernel's name, which is added if it is new. */
static uint32_t find_group(struct kernel_metrics *kernels, uint32_t name)
{
	uint32_t key = ws_get_name_key(kernels->stats, name), *group;

	if (key > ws_report_string_count(kernels->stats->report))
		key = 0;
	group = &kernels->group_of_name[key];
	if (!*group) {
		ws_grow(kernels->names, kernels->capacity, kernels->groups + 1);
		kernels->names[kernels->groups++] = key;
		*group = (uint32_t)kernels->groups;
	}
	return *group - 1;
}

/* Add up the kernels of all workers on one GPU. */
static struct ws_metered_spans gather_spans(struct kernel_metrics *kernels, size_t gpu)
{
	struct ws_metered_spans all = {0};

	for (uint32_t worker = 0; worker < kernels->workers; worker++) {
		struct ws_metered_spans *from =
			&kernels->spans[worker * kernels->metrics.count + gpu];

		ws_grow(all.spans, all.capacity, all.count + from->count);
		for (size_t i = 0; i < from->count; i++) {
			all.spans[all.count] = from->spans[i];
			all.spans[all.count++].group = find_group(kernels, from->spans[i].group);
		}
		free(from->spans);
	}
	return all;
}

static void print_kernel_lines(struct kernel_metrics *kernels, const struct ws_metered_gpu *gpu,
			       const struct ws_metered_sums *sums)
{
	struct ws_cell cells[WS_METERED_CELLS + 2];
	struct ws_text name = {0};
	size_t count, length;
	uint32_t *order = ws_order_metered_groups(sums, &count);

	ws_put_metered_gpu_name(kernels->stats, gpu, &name);
	cells[0] = ws_cell_text(name.text, name.len);
	for (size_t i = 0; i < count; i++) {
		const char *kernel = ws_get_name(kernels->stats, kernels->names[order[i]], &length);

		ws_set_metered_cells(gpu, sums, order[i], cells + 1);
		cells[WS_METERED_CELLS + 1] = ws_cell_text(kernel, length);
		kernels->stats->row(kernels->stats, cells);
	}
	ws_text_free(&name);
	free(order);
}

static int make_gpu_metric_kern_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct kernel_metrics kernels = {.stats = stats,
					 .name_column = ws_choose_kernel_name_column(stats)};

	int status;

	ws_gpu_metrics_load(stats->report, &kernels.metrics);
	stats->damaged += kernels.metrics.damaged;
	status = ws_add_metered_flops(stats, &kernels.metrics, err);
	match_gpus(&kernels);
	if (!status && kernels.metrics.count)
		read_kernels(&kernels);
	kernels.group_of_name = ws_calloc((size_t)ws_report_string_count(stats->report) + 1,
					  sizeof(*kernels.group_of_name));
	for (size_t i = 0; !status && i < kernels.metrics.count; i++) {
		struct ws_metered_spans spans = gather_spans(&kernels, i);
		struct ws_metered_sums sums = {0};

		ws_measure_spans(stats, &kernels.metrics.gpus[i], &spans, kernels.groups, &sums);
		print_kernel_lines(&kernels, &kernels.metrics.gpus[i], &sums);
		ws_metered_sums_free(&sums);
		free(spans.spans);
	}
	free(kernels.spans);
	free(kernels.group_of_name);
	free(kernels.names);
	ws_map_free(&kernels.gpus);
	ws_gpu_metrics_free(&kernels.metrics);
	return status;
}

const struct ws_stats_report ws_stat_gpu_metric_kern_sum = {
	.name = "gpu_metric_kern_sum",
	.title = "GPU Metrics by Kernel",
	.about = "What the GPU's hardware did during each kernel, by name, and what limited "
		 "it. " WS_METERED_HELP "; :base and :mangled choose the names",
	.what = "metrics of GPUs during kernels",
	.explain_absence = ws_explain_no_gpu_metrics,
	.unended = "had no times",
	.args = ws_cuda_name_args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_gpu_metric_kern_sum_rows,
};
