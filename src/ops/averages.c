/*
 * averages.c - the view `ops`: what PyTorch's key_averages().table() shows.
 *
 * Rows are grouped by name, by whether the event ran on the CPU or a GPU and whether it is a user's
 * annotation; and by the shapes of the inputs or the innermost frames of the stack, when asked for.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/map.h"
#include "base/choose.h"
#include "base/mem.h"
#include "query/gpu.h"
#include "ops/ops.h"

struct op_group {
	uint32_t name, shapes, stack;
	uint8_t device, annotation;
	bool async;
	uint64_t count, cpu, gpu, self_gpu, flops; /* gpu and self_gpu in parts of a nanosecond */
	int64_t self_cpu; /* below 0 where calls of other threads count for this one */
	int64_t cpu_mem, self_cpu_mem, gpu_mem, self_gpu_mem;
};

struct op_groups {
	struct ws_map index; /* hash of the key -> group + 1 */
	struct op_group *groups;
	size_t count, capacity;
};

/* ---- grouping ---- */

/* The length of the innermost `frames` frames of a stack, which semicolons or line ends separate.
 */
static size_t get_frames_length(const char *text, int64_t frames)
{
	size_t length = 0;

	while (text[length]) {
		length += strcspn(text + length, ";\n");
		if (!--frames || !text[length])
			break;
		length++;
	}
	return length;
}

/* The hash of what an event is grouped by. */
static uint64_t hash_group_key(const struct ws_ops *ops, const struct ws_ops_event *event,
			       bool device, bool annotation)
{
	uint64_t facts[] = {event->name, (uint64_t)device << 1 | annotation, 0, 0};

	if (ops->request->by_shape) {
		const char *text = ws_get_op_text(ops, event->shapes);

		facts[2] = XXH3_64bits(text, strlen(text));
	}
	if (ops->request->by_stack) {
		const char *text = ws_report_string(ops->report, event->stack, NULL);

		facts[3] = XXH3_64bits(text, get_frames_length(text, ops->request->by_stack));
	}
	return XXH3_64bits(facts, sizeof(facts));
}

static struct op_group *find_group(const struct ws_ops *ops, struct op_groups *groups,
				   const struct ws_ops_event *event)
{
	bool device = event->kind == WS_OPS_GPU || event->kind == WS_OPS_GPU_ANNOTATION;
	bool annotation = event->kind == WS_OPS_ANNOTATION || event->kind == WS_OPS_GPU_ANNOTATION;
	uint64_t key = hash_group_key(ops, event, device, annotation),
		 at = ws_map_get(&groups->index, key, NULL);

	if (at)
		return &groups->groups[at - 1];
	ws_grow(groups->groups, groups->capacity, groups->count + 1);
	groups->groups[groups->count++] = (struct op_group){.name = event->name,
							    .shapes = event->shapes,
							    .stack = event->stack,
							    .device = device,
							    .annotation = annotation,
							    .async = event->async};
	ws_map_set(&groups->index, key, groups->count);
	return &groups->groups[groups->count - 1];
}

static void add_event_to_group(const struct ws_ops *ops, struct op_groups *groups,
			       const struct ws_ops_event *event)
{
	struct op_group *group = find_group(ops, groups, event);
	uint64_t time = event->end - event->start;

	group->count++;
	group->flops += event->flops;
	if (group->device) {
		group->gpu += time * WS_DOUBLES_PARTS;
		group->self_gpu += time * WS_DOUBLES_PARTS;
		return;
	}
	group->cpu += time;
	group->self_cpu += (int64_t)(time - event->children_cpu);
	group->gpu += event->device_total;
	group->self_gpu += event->device_total - event->children_device;
	group->cpu_mem += event->cpu_mem;
	group->gpu_mem += event->device_mem;
	group->self_cpu_mem += event->cpu_mem - event->children_cpu_mem;
	group->self_gpu_mem += event->device_mem - event->children_device_mem;
}

/* ---- order ---- */

#define SORTS(X)                                    \
	X("self_cpu_time_total", self_cpu)          \
	X("cpu_time_total", cpu)                    \
	X("self_cuda_time_total", self_gpu)         \
	X("self_device_time_total", self_gpu)       \
	X("cuda_time_total", gpu)                   \
	X("device_time_total", gpu)                 \
	X("self_cpu_memory_usage", self_cpu_mem)    \
	X("cpu_memory_usage", cpu_mem)              \
	X("self_cuda_memory_usage", self_gpu_mem)   \
	X("self_device_memory_usage", self_gpu_mem) \
	X("cuda_memory_usage", gpu_mem)             \
	X("device_memory_usage", gpu_mem) X("count", count) X("flops", flops)

static double get_sort_value(const struct op_group *group, const char *sort)
{
#define X(name, field)           \
	if (!strcmp(sort, name)) \
		return (double)group->field;
	SORTS(X)
#undef X
	if (!strcmp(sort, "cpu_time"))
		return (double)group->cpu / (double)group->count;
	return (double)group->gpu / (double)group->count;
}

static int compare_groups(const void *first, const void *second, void *sort)
{
	const struct op_group *left = first, *right = second;
	const char *sorting = sort;
	double left_value = get_sort_value(left, sorting),
	       right_value = get_sort_value(right, sorting);

	if (left_value != right_value)
		return ws_compare(right_value, left_value);
	if (left->device != right->device)
		return ws_compare(left->device, right->device);
	if (left->name != right->name)
		return ws_compare(left->name, right->name);
	return ws_compare(left->shapes, right->shapes);
}

/* ---- the table ---- */

enum {
	NAME,
	SELF_CPU_SHARE,
	SELF_CPU,
	CPU_SHARE,
	CPU,
	CPU_MEAN,
	SELF_GPU,
	SELF_GPU_SHARE,
	GPU,
	GPU_MEAN,
	CPU_MEM,
	SELF_CPU_MEM,
	GPU_MEM,
	SELF_GPU_MEM,
	CALLS,
	DEVICE,
	FLOPS,
	SHAPES,
	STACK,
	COLUMNS
};

static const struct ws_column columns[COLUMNS] = {
	[NAME] = {"Name", WS_KIND_TEXT},
	[SELF_CPU_SHARE] = {"Self CPU", WS_KIND_SHARE},
	[SELF_CPU] = {"Self CPU", WS_KIND_TIME},
	[CPU_SHARE] = {"CPU total", WS_KIND_SHARE},
	[CPU] = {"CPU total", WS_KIND_TIME},
	[CPU_MEAN] = {"CPU time avg", WS_KIND_AVERAGE},
	[SELF_GPU] = {"Self CUDA", WS_KIND_TIME},
	[SELF_GPU_SHARE] = {"Self CUDA", WS_KIND_SHARE},
	[GPU] = {"CUDA total", WS_KIND_TIME},
	[GPU_MEAN] = {"CUDA time avg", WS_KIND_AVERAGE},
	[CPU_MEM] = {"CPU Mem (B)", WS_KIND_COUNT},
	[SELF_CPU_MEM] = {"Self CPU Mem (B)", WS_KIND_COUNT},
	[GPU_MEM] = {"CUDA Mem (B)", WS_KIND_COUNT},
	[SELF_GPU_MEM] = {"Self CUDA Mem (B)", WS_KIND_COUNT},
	[CALLS] = {"# of Calls", WS_KIND_COUNT},
	[DEVICE] = {"Device", WS_KIND_TEXT},
	[FLOPS] = {"Total FLOPs", WS_KIND_COUNT},
	[SHAPES] = {"Input Shapes", WS_KIND_TEXT},
	[STACK] = {"Source Location", WS_KIND_TEXT},
};

/* The name of a copy or set as PyTorch writes it: "Memcpy HtoD (Pageable -> Device)", "Memset
 * (Device)". */
static void make_copy_label(uint32_t made, char *buffer, size_t size)
{
	uint32_t kind = made >> 8, from = made >> 4 & 15, to = made & 15;
	const char *name = "Memset";

	if (kind != WS_OPS_SET)
		name = ws_name_copy_kind(kind);
	if (to == WS_OPS_NO_MEMORY)
		snprintf(buffer, size, "%s", name);
	else if (from == WS_OPS_NO_MEMORY)
		snprintf(buffer, size, "%s (%s)", name, ws_name_memory_kind(to));
	else
		snprintf(buffer, size, "%s (%s -> %s)", name, ws_name_memory_kind(from),
			 ws_name_memory_kind(to));
}

static const char *get_label(const struct ws_ops *ops, uint32_t name, char *buffer, size_t size)
{
	uint32_t made = UINT32_MAX - 1 - name;

	if (name == WS_OPS_STEP_NAME || made > WS_OPS_MEMORY_NAME)
		return ws_get_op_name(ops, name);
	if (made == WS_OPS_MEMORY_NAME)
		return "[memory]";
	make_copy_label(made, buffer, size);
	return buffer;
}

/* The columns that are shown: those of memory, FLOPs or GPU time only where there is any. */
struct shown_columns {
	int numbers[COLUMNS]; /* number of the column at each position */
	struct ws_column columns[COLUMNS];
	size_t count;
};

static void choose_columns(const struct ws_ops *ops, const struct op_groups *groups,
			   struct shown_columns *shown)
{
	bool gpu = false, memory = ops->memory_count > 0, flops = false;

	for (size_t i = 0; i < groups->count; i++) {
		gpu |= groups->groups[i].gpu != 0;
		flops |= groups->groups[i].flops != 0;
	}
	for (int column = 0; column < COLUMNS; column++) {
		bool skip = (column >= SELF_GPU && column <= GPU_MEAN && !gpu) ||
			    (column >= CPU_MEM && column <= SELF_GPU_MEM && !memory) ||
			    (column == FLOPS && !flops) ||
			    (column == SHAPES && !ops->request->by_shape) ||
			    (column == STACK && !ops->request->by_stack) ||
			    (column == DEVICE && !gpu);

		if (skip)
			continue;
		shown->numbers[shown->count] = column;
		shown->columns[shown->count++] = columns[column];
	}
}

static long double compute_share(long double part, long double whole)
{
	if (whole <= 0)
		return 0;
	return 100 * part / whole;
}

struct op_totals {
	int64_t self_cpu;
	uint64_t gpu;
};

static struct ws_cell make_gpu_time_cell(const struct ws_ops *ops, uint64_t parts)
{
	if (ops->fraction)
		return ws_cell_real((long double)parts / WS_DOUBLES_PARTS);
	return ws_cell_int((int64_t)(parts / WS_DOUBLES_PARTS));
}

static void fill_cells(const struct ws_ops *ops, const struct op_group *group,
		       const struct op_totals *totals, struct ws_cell *cell, char *buffer,
		       size_t size)
{
	const char *text = get_label(ops, group->name, buffer, size), *device = "CPU";
	long double cpu_share = 0;
	uint64_t all_gpu = ops->gpu_own;
	size_t frames_len = 0;

	if (group->device) {
		device = "CUDA";
		all_gpu = totals->gpu;
	}
	if (!group->async)
		cpu_share = compute_share(group->cpu, totals->self_cpu);
	cell[NAME] = ws_cell_text(text, strlen(text));
	cell[SELF_CPU_SHARE] = ws_cell_real(compute_share(group->self_cpu, totals->self_cpu));
	cell[SELF_CPU] = ws_cell_int(group->self_cpu);
	cell[CPU_SHARE] = ws_cell_real(cpu_share);
	cell[CPU] = ws_cell_int((int64_t)group->cpu);
	cell[CPU_MEAN] = ws_cell_real((long double)group->cpu / group->count);
	cell[SELF_GPU] = make_gpu_time_cell(ops, group->self_gpu);
	cell[SELF_GPU_SHARE] = ws_cell_real(compute_share(group->self_gpu, all_gpu));
	cell[GPU] = make_gpu_time_cell(ops, group->gpu);
	cell[GPU_MEAN] = ws_cell_real((long double)group->gpu / WS_DOUBLES_PARTS / group->count);
	cell[CPU_MEM] = ws_cell_int(group->cpu_mem);
	cell[SELF_CPU_MEM] = ws_cell_int(group->self_cpu_mem);
	cell[GPU_MEM] = ws_cell_int(group->gpu_mem);
	cell[SELF_GPU_MEM] = ws_cell_int(group->self_gpu_mem);
	cell[CALLS] = ws_cell_int((int64_t)group->count);
	cell[DEVICE] = ws_cell_text(device, strlen(device));
	cell[FLOPS] = ws_cell_int_if(group->flops, (int64_t)group->flops);
	text = ws_get_op_text(ops, group->shapes);
	cell[SHAPES] = ws_cell_text(text, strlen(text));
	text = ws_report_string(ops->report, group->stack, NULL);
	if (ops->request->by_stack)
		frames_len = get_frames_length(text, ops->request->by_stack);
	cell[STACK] = ws_cell_text(text, frames_len);
}

static void put_total_time(struct ws_text *out, const char *what, uint64_t ns)
{
	if (ns >= 1000000000)
		ws_text_printf(out, "%s: %.3f s\n", what, (double)ns / 1e9);
	else if (ns >= 1000000)
		ws_text_printf(out, "%s: %.3f ms\n", what, (double)ns / 1e6);
	else
		ws_text_printf(out, "%s: %.3f us\n", what, (double)ns / 1e3);
}

static struct op_totals add_up_groups(const struct op_groups *groups)
{
	struct op_totals totals = {0};

	for (size_t i = 0; i < groups->count; i++) {
		totals.self_cpu += groups->groups[i].self_cpu;
		if (groups->groups[i].device && !groups->groups[i].annotation)
			totals.gpu += groups->groups[i].self_gpu;
	}
	return totals;
}

static void write_group_rows(const struct ws_ops *ops, struct op_groups *groups,
			     const struct shown_columns *shown, const struct op_totals *totals,
			     struct ws_printer *printer, struct ws_text *footer)
{
	uint64_t least = (uint64_t)(ops->request->min_time_s * 1e9), left = 0;
	int64_t written = 0;

	for (size_t i = 0; i < groups->count; i++) {
		struct ws_cell all[COLUMNS], cells[COLUMNS];
		char buffer[64];

		if ((groups->groups[i].cpu < least &&
		     groups->groups[i].gpu < least * WS_DOUBLES_PARTS) ||
		    (ops->request->limit && written == ops->request->limit)) {
			left++;
			continue;
		}
		fill_cells(ops, &groups->groups[i], totals, all, buffer, sizeof(buffer));
		for (size_t column = 0; column < shown->count; column++)
			cells[column] = all[shown->numbers[column]];
		ws_print_row(printer, cells);
		written++;
	}
	if (left)
		ws_text_printf(footer, "%" PRIu64 " rows more\n", left);
}

int ws_print_op_averages(struct ws_ops *ops, struct ws_printer *printer, struct ws_text *footer,
			 struct ws_err *err)
{
	struct op_groups groups = {0};
	struct shown_columns shown = {0};
	const char *sort = ops->request->sort;
	struct op_totals totals;

	for (size_t i = 0; i < ops->event_count; i++)
		if (!ops->events[i].merged)
			add_event_to_group(ops, &groups, &ops->events[i]);
	if (!groups.count)
		return ws_fail(err, "%s holds no operators or calls of CUDA",
			       ws_report_path(ops->report));
	totals = add_up_groups(&groups);
	if (!sort)
		sort = "self_cpu_time_total";
	if (!ops->request->sort && totals.gpu)
		sort = "self_cuda_time_total";
	qsort_r(groups.groups, groups.count, sizeof(*groups.groups), compare_groups, (void *)sort);
	choose_columns(ops, &groups, &shown);
	printer->columns = shown.columns;
	printer->column_count = shown.count;
	ws_print_begin(printer);
	write_group_rows(ops, &groups, &shown, &totals, printer, footer);
	ws_print_end(printer);
	put_total_time(footer, "Self CPU time total",
		       (uint64_t)ws_max(totals.self_cpu, (int64_t)0));
	if (totals.gpu)
		put_total_time(footer, "Self CUDA time total", totals.gpu / WS_DOUBLES_PARTS);
	free(groups.groups);
	ws_map_free(&groups.index);
	return 0;
}
