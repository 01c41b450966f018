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

struct group {
	uint32_t name, shapes, stack;
	uint8_t device, annotation;
	bool async;
	uint64_t count, cpu, gpu, self_gpu, flops; /* gpu and self_gpu in parts of a nanosecond */
	int64_t self_cpu; /* below 0 where calls of other threads count on this one */
	int64_t cpu_mem, self_cpu_mem, gpu_mem, self_gpu_mem;
};

struct groups {
	struct ws_map index; /* hash of the key -> group + 1 */
	struct group *groups;
	size_t n, cap;
};

/* ---- grouping ---- */

/* The innermost `frames` frames of a stack: frames are told apart by semicolons or line ends. */
static size_t stack_part(const char *text, int64_t frames)
{
	size_t n = 0;

	while (text[n]) {
		n += strcspn(text + n, ";\n");
		if (!--frames || !text[n])
			break;
		n++;
	}
	return n;
}

static uint64_t key_of(const struct ws_ops *ops, const struct ws_ops_event *ev, bool device,
		       bool annotation)
{
	uint64_t facts[] = {ev->name, (uint64_t)device << 1 | annotation, 0, 0};

	if (ops->request->by_shape) {
		const char *text = ws_ops_text(ops, ev->shapes);

		facts[2] = XXH3_64bits(text, strlen(text));
	}
	if (ops->request->by_stack) {
		const char *text = ws_report_string(ops->report, ev->stack, NULL);

		facts[3] = XXH3_64bits(text, stack_part(text, ops->request->by_stack));
	}
	return XXH3_64bits(facts, sizeof(facts));
}

static struct group *group_of(const struct ws_ops *ops, struct groups *groups,
			      const struct ws_ops_event *ev)
{
	bool device = ev->kind == WS_OPS_GPU || ev->kind == WS_OPS_GPU_ANNOTATION;
	bool annotation = ev->kind == WS_OPS_ANNOTATION || ev->kind == WS_OPS_GPU_ANNOTATION;
	uint64_t key = key_of(ops, ev, device, annotation),
		 at = ws_map_get(&groups->index, key, NULL);

	if (at)
		return &groups->groups[at - 1];
	ws_grow(groups->groups, groups->cap, groups->n + 1);
	groups->groups[groups->n++] = (struct group){.name = ev->name,
						     .shapes = ev->shapes,
						     .stack = ev->stack,
						     .device = device,
						     .annotation = annotation,
						     .async = ev->async};
	ws_map_set(&groups->index, key, groups->n);
	return &groups->groups[groups->n - 1];
}

static void add_event(const struct ws_ops *ops, struct groups *groups,
		      const struct ws_ops_event *ev)
{
	struct group *group = group_of(ops, groups, ev);
	uint64_t time = ev->end - ev->start;

	group->count++;
	group->flops += ev->flops;
	if (group->device) {
		group->gpu += time * WS_DOUBLES_PARTS;
		group->self_gpu += time * WS_DOUBLES_PARTS;
		return;
	}
	group->cpu += time;
	group->self_cpu += (int64_t)(time - ev->children_cpu);
	group->gpu += ev->device_total;
	group->self_gpu += ev->device_total - ev->children_device;
	group->cpu_mem += ev->cpu_mem;
	group->gpu_mem += ev->device_mem;
	group->self_cpu_mem += ev->cpu_mem - ev->children_cpu_mem;
	group->self_gpu_mem += ev->device_mem - ev->children_device_mem;
}

/* ---- order ---- */

#define SORTS(X)                                                                    \
	X("self_cpu_time_total", self_cpu)                                          \
	X("cpu_time_total", cpu)                                                    \
	X("self_cuda_time_total", self_gpu)                                         \
	X("self_device_time_total", self_gpu)                                       \
	X("cuda_time_total", gpu)                                                   \
	X("device_time_total", gpu)                                                 \
	X("self_cpu_memory_usage", self_cpu_mem)                                    \
	X("cpu_memory_usage", cpu_mem)                                              \
	X("self_cuda_memory_usage", self_gpu_mem)                                   \
	X("self_device_memory_usage", self_gpu_mem) X("cuda_memory_usage", gpu_mem) \
		X("device_memory_usage", gpu_mem) X("count", count) X("flops", flops)

static double sort_value(const struct group *g, const char *sort)
{
#define X(name, field)           \
	if (!strcmp(sort, name)) \
		return (double)g->field;
	SORTS(X)
#undef X
	return (double)(strcmp(sort, "cpu_time") ? g->gpu : g->cpu) / (double)g->count;
}

static int by_value(const void *first, const void *second, void *sort)
{
	const struct group *left = first, *right = second;
	const char *sorting = sort;
	double u = sort_value(left, sorting), v = sort_value(right, sorting);

	if (u != v)
		return u > v ? -1 : 1;
	if (left->device != right->device)
		return left->device ? 1 : -1;
	return left->name != right->name ? (left->name < right->name ? -1 : 1)
					 : ws_compare(left->shapes, right->shapes);
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

/* As PyTorch calls them: "Memcpy HtoD (Pageable -> Device)", "Memset (Device)". */
static void made_label(uint32_t made, char *buffer, size_t size)
{
	uint32_t kind = made >> 8, from = made >> 4 & 15, to = made & 15;
	const char *name = kind == WS_OPS_SET ? "Memset" : ws_copy_name(kind);

	if (to == WS_OPS_NO_MEMORY)
		snprintf(buffer, size, "%s", name);
	else if (from == WS_OPS_NO_MEMORY)
		snprintf(buffer, size, "%s (%s)", name, ws_memory_name(to));
	else
		snprintf(buffer, size, "%s (%s -> %s)", name, ws_memory_name(from),
			 ws_memory_name(to));
}

static const char *label(const struct ws_ops *ops, uint32_t name, char *buffer, size_t size)
{
	uint32_t made = UINT32_MAX - 1 - name;

	if (name == WS_OPS_STEP_NAME || made > WS_OPS_MEMORY_NAME)
		return ws_ops_name(ops, name);
	if (made == WS_OPS_MEMORY_NAME)
		return "[memory]";
	made_label(made, buffer, size);
	return buffer;
}

/* Columns that say nothing are left out: memory, FLOPs, GPU time where there is none. */
struct shown {
	int of[COLUMNS];
	struct ws_column columns[COLUMNS];
	size_t n;
};

static void choose(const struct ws_ops *ops, const struct groups *groups, struct shown *shown)
{
	bool gpu = false, memory = ops->memory_count > 0, flops = false;

	for (size_t i = 0; i < groups->n; i++) {
		gpu |= groups->groups[i].gpu != 0;
		flops |= groups->groups[i].flops != 0;
	}
	for (int c = 0; c < COLUMNS; c++) {
		bool skip = (c >= SELF_GPU && c <= GPU_MEAN && !gpu) ||
			    (c >= CPU_MEM && c <= SELF_GPU_MEM && !memory) ||
			    (c == FLOPS && !flops) || (c == SHAPES && !ops->request->by_shape) ||
			    (c == STACK && !ops->request->by_stack) || (c == DEVICE && !gpu);

		if (skip)
			continue;
		shown->of[shown->n] = c;
		shown->columns[shown->n++] = columns[c];
	}
}

static long double share(long double part, long double whole)
{
	return whole > 0 ? 100 * part / whole : 0;
}

struct totals {
	int64_t self_cpu;
	uint64_t gpu;
};

static struct ws_cell gpu_time(const struct ws_ops *ops, uint64_t v)
{
	return ops->fraction ? ws_cell_real((long double)v / WS_DOUBLES_PARTS)
			     : ws_cell_int((int64_t)(v / WS_DOUBLES_PARTS));
}

static void fill(const struct ws_ops *ops, const struct group *group, const struct totals *totals,
		 struct ws_cell *cell, char *buffer, size_t size)
{
	const char *text = label(ops, group->name, buffer, size);

	cell[NAME] = ws_cell_text(text, strlen(text));
	cell[SELF_CPU_SHARE] = ws_cell_real(share(group->self_cpu, totals->self_cpu));
	cell[SELF_CPU] = ws_cell_int(group->self_cpu);
	cell[CPU_SHARE] = ws_cell_real(group->async ? 0 : share(group->cpu, totals->self_cpu));
	cell[CPU] = ws_cell_int((int64_t)group->cpu);
	cell[CPU_MEAN] = ws_cell_real((long double)group->cpu / group->count);
	cell[SELF_GPU] = gpu_time(ops, group->self_gpu);
	cell[SELF_GPU_SHARE] =
		ws_cell_real(share(group->self_gpu, group->device ? totals->gpu : ops->gpu_own));
	cell[GPU] = gpu_time(ops, group->gpu);
	cell[GPU_MEAN] = ws_cell_real((long double)group->gpu / WS_DOUBLES_PARTS / group->count);
	cell[CPU_MEM] = ws_cell_int(group->cpu_mem);
	cell[SELF_CPU_MEM] = ws_cell_int(group->self_cpu_mem);
	cell[GPU_MEM] = ws_cell_int(group->gpu_mem);
	cell[SELF_GPU_MEM] = ws_cell_int(group->self_gpu_mem);
	cell[CALLS] = ws_cell_int((int64_t)group->count);
	cell[DEVICE] = group->device ? ws_cell_text("CUDA", 4) : ws_cell_text("CPU", 3);
	cell[FLOPS] = group->flops ? ws_cell_int((int64_t)group->flops) : ws_cell_null();
	text = ws_ops_text(ops, group->shapes);
	cell[SHAPES] = ws_cell_text(text, strlen(text));
	text = ws_report_string(ops->report, group->stack, NULL);
	cell[STACK] = ws_cell_text(
		text, ops->request->by_stack ? stack_part(text, ops->request->by_stack) : 0);
}

static void put_time(struct ws_text *out, const char *what, uint64_t ns)
{
	if (ns >= 1000000000)
		ws_text_printf(out, "%s: %.3f s\n", what, (double)ns / 1e9);
	else if (ns >= 1000000)
		ws_text_printf(out, "%s: %.3f ms\n", what, (double)ns / 1e6);
	else
		ws_text_printf(out, "%s: %.3f us\n", what, (double)ns / 1e3);
}

static struct totals add_up(const struct groups *groups)
{
	struct totals totals = {0};

	for (size_t i = 0; i < groups->n; i++) {
		totals.self_cpu += groups->groups[i].self_cpu;
		if (groups->groups[i].device && !groups->groups[i].annotation)
			totals.gpu += groups->groups[i].self_gpu;
	}
	return totals;
}

static void write_rows(const struct ws_ops *ops, struct groups *groups, const struct shown *shown,
		       const struct totals *totals, struct ws_printer *printer,
		       struct ws_text *footer)
{
	uint64_t least = (uint64_t)(ops->request->min_time_s * 1e9), left = 0;
	int64_t written = 0;

	for (size_t i = 0; i < groups->n; i++) {
		struct ws_cell all[COLUMNS], cells[COLUMNS];
		char buffer[64];

		if ((groups->groups[i].cpu < least &&
		     groups->groups[i].gpu < least * WS_DOUBLES_PARTS) ||
		    (ops->request->limit && written == ops->request->limit)) {
			left++;
			continue;
		}
		fill(ops, &groups->groups[i], totals, all, buffer, sizeof(buffer));
		for (size_t c = 0; c < shown->n; c++)
			cells[c] = all[shown->of[c]];
		ws_print_row(printer, cells);
		written++;
	}
	if (left)
		ws_text_printf(footer, "%" PRIu64 " rows more\n", left);
}

int ws_ops_averages(struct ws_ops *ops, struct ws_printer *printer, struct ws_text *footer,
		    struct ws_err *err)
{
	struct groups groups = {0};
	struct shown shown = {0};
	struct totals totals;

	for (size_t i = 0; i < ops->count; i++)
		if (!ops->events[i].merged)
			add_event(ops, &groups, &ops->events[i]);
	if (!groups.n)
		return ws_fail(err, "%s holds no operators or calls of CUDA",
			       ws_report_path(ops->report));
	totals = add_up(&groups);
	qsort_r(groups.groups, groups.n, sizeof(*groups.groups), by_value,
		(void *)(ops->request->sort ? ops->request->sort
			 : totals.gpu	    ? "self_cuda_time_total"
					    : "self_cpu_time_total"));
	choose(ops, &groups, &shown);
	printer->columns = shown.columns;
	printer->column_count = shown.n;
	ws_print_begin(printer);
	write_rows(ops, &groups, &shown, &totals, printer, footer);
	ws_print_end(printer);
	put_time(footer, "Self CPU time total",
		 totals.self_cpu > 0 ? (uint64_t)totals.self_cpu : 0);
	if (totals.gpu)
		put_time(footer, "Self CUDA time total", totals.gpu / WS_DOUBLES_PARTS);
	free(groups.groups);
	ws_map_free(&groups.index);
	return 0;
}
