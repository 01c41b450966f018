/* views.c - the views of `ops` other than the averages: modules, memory by device and by record,
 * steps. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/map.h"
#include "base/choose.h"
#include "base/mem.h"
#include "base/sort.h"
#include "ops/ops.h"

/* ---- modules ----
 *
 * Calls of nn.Module are Python calls named "nn.Module: Class_instance"; the path of a module has
 * the modules around it. Its times are those of its calls; its device time is that of all operators
 * inside; "self" leaves out the modules inside it.
 */

struct nn_module {
	char *path;
	uint64_t calls, ops, cpu, children_cpu, gpu, children_gpu;
	uint32_t depth;
};

struct nn_modules {
	struct ws_map index; /* hash of parent's path and name -> module + 1 */
	struct nn_module *modules;
	size_t count, capacity;
};

static const char module_prefix[] = "nn.Module: ";

/* The name of the module that an event is a call of, or NULL. */
static const char *get_module_name(const struct ws_ops *ops, const struct ws_ops_event *event)
{
	const char *name;

	if (event->kind != WS_OPS_PYTHON)
		return NULL;
	name = ws_get_op_name(ops, event->name);
	if (strncmp(name, module_prefix, sizeof(module_prefix) - 1))
		return NULL;
	return name + sizeof(module_prefix) - 1;
}

/* The index + 1 of the module `name` inside the module with index + 1 `parent`, 0 for none; it is
 * added if it is new. */
static uint32_t find_module(struct nn_modules *modules, uint32_t parent, const char *name)
{
	uint64_t key = XXH3_64bits_withSeed(name, strlen(name), parent),
		 at = ws_map_get(&modules->index, key, NULL);
	struct nn_module *module;

	if (at)
		return (uint32_t)at;
	ws_grow(modules->modules, modules->capacity, modules->count + 1);
	module = &modules->modules[modules->count++];
	*module = (struct nn_module){0};
	if (parent) {
		module->path = ws_format("%s/%s", modules->modules[parent - 1].path, name);
		module->depth = modules->modules[parent - 1].depth + 1;
	} else {
		module->path = ws_strdup(name);
	}
	ws_map_set(&modules->index, key, modules->count);
	return (uint32_t)modules->count;
}

static int compare_paths(const void *first, const void *second)
{
	return strcmp(((const struct nn_module *)first)->path,
		      ((const struct nn_module *)second)->path);
}

/* Find modules and add up their calls; inside[i] gets the index + 1 of the innermost module around
 * event i, 0 for none. */
static void gather_modules(const struct ws_ops *ops, struct nn_modules *modules, uint32_t *inside)
{
	enum { DEEPEST = 256 };

	for (size_t i = 0; i < ops->cpu_count; i++) {
		const struct ws_ops_event *event = &ops->events[i];
		const char *name = get_module_name(ops, event);
		uint32_t outer = 0;

		if (event->parent != WS_OPS_NONE)
			outer = inside[event->parent];
		inside[i] = outer;
		if (!name) {
			if (outer && event->kind == WS_OPS_CPU)
				modules->modules[outer - 1].ops++;
			continue;
		}
		if (outer && modules->modules[outer - 1].depth == DEEPEST)
			continue; /* endless recursion: the inner calls are one module */
		inside[i] = find_module(modules, outer, name);
		modules->modules[inside[i] - 1].calls++;
		modules->modules[inside[i] - 1].cpu += event->end - event->start;
		modules->modules[inside[i] - 1].gpu += event->device_total / WS_DOUBLES_PARTS;
		if (outer) {
			modules->modules[outer - 1].children_cpu += event->end - event->start;
			modules->modules[outer - 1].children_gpu +=
				event->device_total / WS_DOUBLES_PARTS;
		}
	}
}

static const struct ws_column module_columns[] = {
	{"Module", WS_KIND_TEXT},	    {"Calls", WS_KIND_COUNT},
	{"Operators", WS_KIND_COUNT},	    {"CPU total", WS_KIND_TIME},
	{"Self CPU", WS_KIND_TIME},	    {"CUDA total", WS_KIND_TIME},
	{"Self CUDA", WS_KIND_TIME},	    {"CPU time avg", WS_KIND_AVERAGE},
	{"CUDA time avg", WS_KIND_AVERAGE},
};

int ws_print_op_modules(struct ws_ops *ops, struct ws_printer *printer, struct ws_text *footer,
			struct ws_err *err)
{
	uint32_t *inside = ws_calloc(ops->cpu_count + 1, sizeof(*inside));
	struct nn_modules modules = {0};
	int64_t rows = 0;

	gather_modules(ops, &modules, inside);
	free(inside);
	if (!modules.count)
		return ws_fail(err,
			       "%s holds no calls of nn.Module; torch.profiler writes them with "
			       "with_stack=True",
			       ws_report_path(ops->report));
	qsort(modules.modules, modules.count, sizeof(*modules.modules), compare_paths);
	printer->columns = module_columns;
	printer->column_count = WS_COUNT(module_columns);
	ws_print_begin(printer);
	for (size_t i = 0; i < modules.count; i++) {
		const struct nn_module *module = &modules.modules[i];
		struct ws_cell cells[] = {
			ws_cell_text(module->path, strlen(module->path)),
			ws_cell_int((int64_t)module->calls),
			ws_cell_int((int64_t)module->ops),
			ws_cell_int((int64_t)module->cpu),
			ws_cell_int((int64_t)(module->cpu - module->children_cpu)),
			ws_cell_int((int64_t)module->gpu),
			ws_cell_int((int64_t)(module->gpu - module->children_gpu)),
			ws_cell_real((long double)module->cpu / module->calls),
			ws_cell_real((long double)module->gpu / module->calls),
		};

		if (ops->request->limit && rows++ == ops->request->limit) {
			ws_text_printf(footer, "%zu rows more\n", modules.count - i);
			break;
		}
		ws_print_row(printer, cells);
	}
	ws_print_end(printer);
	for (size_t i = 0; i < modules.count; i++)
		free(modules.modules[i].path);
	free(modules.modules);
	ws_map_free(&modules.index);
	return 0;
}

/* ---- memory by device ---- */

struct memory_device {
	uint32_t process;
	uint8_t type;
	int32_t id;
	uint64_t taken, given, peak, reserved;
	uint64_t taken_bytes, given_bytes;
	int64_t now;
};

static const struct ws_column memory_columns[] = {
	{"PID", WS_KIND_ID},
	{"Device", WS_KIND_TEXT},
	{"Allocations", WS_KIND_COUNT},
	{"Frees", WS_KIND_COUNT},
	{"Allocated (B)", WS_KIND_COUNT},
	{"Freed (B)", WS_KIND_COUNT},
	{"Increase (B)", WS_KIND_COUNT},
	{"Peak allocated (B)", WS_KIND_COUNT},
	{"Peak reserved (B)", WS_KIND_COUNT},
};

static const char *get_device_name(uint8_t type, int32_t id, char *buffer, size_t size)
{
	if (type == 0)
		return "CPU";
	if (type == 1)
		snprintf(buffer, size, "CUDA %d", id);
	else
		snprintf(buffer, size, "device type %d", type);
	return buffer;
}

static int fail_no_memory(const struct ws_ops *ops, struct ws_err *err)
{
	return ws_fail(
		err,
		"%s holds no memory events; torch.profiler writes them with profile_memory=True",
		ws_report_path(ops->report));
}

static struct memory_device *find_memory_device(struct memory_device **devices, size_t *count,
						size_t *capacity,
						const struct ws_ops_memory *memory)
{
	for (size_t i = 0; i < *count; i++)
		if ((*devices)[i].process == memory->process &&
		    (*devices)[i].type == memory->type && (*devices)[i].id == memory->device)
			return &(*devices)[i];
	ws_grow(*devices, *capacity, *count + 1);
	(*devices)[*count] = (struct memory_device){
		.process = memory->process, .type = memory->type, .id = memory->device};
	return &(*devices)[(*count)++];
}

int ws_print_op_memory_devices(struct ws_ops *ops, struct ws_printer *printer,
			       struct ws_text *footer, struct ws_err *err)
{
	struct memory_device *devices = NULL;
	size_t count = 0, capacity = 0;

	(void)footer;
	if (!ops->memory_count)
		return fail_no_memory(ops, err);
	for (size_t i = 0; i < ops->memory_count; i++) {
		const struct ws_ops_memory *memory = &ops->memory[i];
		struct memory_device *device =
			find_memory_device(&devices, &count, &capacity, memory);

		device->taken += memory->bytes > 0;
		device->given += memory->bytes < 0;
		if (memory->bytes > 0)
			device->taken_bytes += (uint64_t)memory->bytes;
		else
			device->given_bytes += (uint64_t)-memory->bytes;
		device->now += memory->bytes;
		device->peak = ws_max(memory->allocated, device->peak);
		device->reserved = ws_max(memory->reserved, device->reserved);
	}
	printer->columns = memory_columns;
	printer->column_count = WS_COUNT(memory_columns);
	ws_print_begin(printer);
	for (size_t i = 0; i < count; i++) {
		char buffer[40];
		const char *name =
			get_device_name(devices[i].type, devices[i].id, buffer, sizeof(buffer));
		struct ws_cell cells[] = {
			ws_cell_int((int64_t)ws_find_process(ops->who, devices[i].process)->pid),
			ws_cell_text(name, strlen(name)),
			ws_cell_int((int64_t)devices[i].taken),
			ws_cell_int((int64_t)devices[i].given),
			ws_cell_int((int64_t)devices[i].taken_bytes),
			ws_cell_int((int64_t)devices[i].given_bytes),
			ws_cell_int(devices[i].now),
			ws_cell_int((int64_t)devices[i].peak),
			ws_cell_int((int64_t)devices[i].reserved),
		};

		ws_print_row(printer, cells);
	}
	ws_print_end(printer);
	free(devices);
	return 0;
}

/* ---- memory by record ---- */

static const struct ws_column event_columns[] = {
	{"Time", WS_KIND_TIME},
	{"PID", WS_KIND_ID},
	{"TID", WS_KIND_ID},
	{"Device", WS_KIND_TEXT},
	{"Address", WS_KIND_TEXT},
	{"Bytes (B)", WS_KIND_COUNT},
	{"Total allocated (B)", WS_KIND_COUNT},
	{"Total reserved (B)", WS_KIND_COUNT},
	{"Operator", WS_KIND_TEXT},
};

/* The innermost operator around a moment on a thread: the last event that began before it, or the
 * nearest of its parents. */
static const char *find_operator_around(const struct ws_ops *ops, uint32_t thread, uint64_t at)
{
	size_t low;
	uint32_t i;

	low = ws_bisect(ops->cpu_count, mid,
			ops->events[mid].thread < thread || (ops->events[mid].thread == thread &&
							     ops->events[mid].start <= at));
	if (!low || ops->events[low - 1].thread != thread)
		return "";
	for (i = (uint32_t)(low - 1); i != WS_OPS_NONE; i = ops->events[i].parent)
		if (ops->events[i].end >= at &&
		    (ops->events[i].kind == WS_OPS_CPU || ops->events[i].kind == WS_OPS_ANNOTATION))
			return ws_get_op_name(ops, ops->events[i].name);
	return "";
}

int ws_print_op_memory_events(struct ws_ops *ops, struct ws_printer *printer,
			      struct ws_text *footer, struct ws_err *err)
{
	int64_t rows = 0;

	if (!ops->memory_count)
		return fail_no_memory(ops, err);
	printer->columns = event_columns;
	printer->column_count = WS_COUNT(event_columns);
	ws_print_begin(printer);
	for (size_t i = 0; i < ops->memory_count; i++) {
		const struct ws_ops_memory *memory = &ops->memory[i];
		const struct ws_thread_info *info = ws_find_thread(ops->who, memory->thread);
		char buffer[40], address[24];
		const char *device = get_device_name(memory->type, memory->device, buffer,
						     sizeof(buffer)),
			   *op = find_operator_around(ops, memory->thread, memory->time);
		int length = snprintf(address, sizeof(address), "0x%" PRIx64, memory->address);
		struct ws_cell cells[] = {
			ws_cell_int((int64_t)(memory->time - ops->zero)),
			ws_cell_int((int64_t)info->pid),
			ws_cell_int((int64_t)info->tid),
			ws_cell_text(device, strlen(device)),
			ws_cell_text(address, (size_t)length),
			ws_cell_int(memory->bytes),
			ws_cell_int((int64_t)memory->allocated),
			ws_cell_int((int64_t)memory->reserved),
			ws_cell_text(op, strlen(op)),
		};

		if (ops->request->limit && rows++ == ops->request->limit) {
			ws_text_printf(footer, "%zu rows more\n", ops->memory_count - i);
			break;
		}
		ws_print_row(printer, cells);
	}
	ws_print_end(printer);
	return 0;
}

/* ---- steps ---- */

static const struct ws_column step_columns[] = {{"Step", WS_KIND_ID},
						{"PID", WS_KIND_ID},
						{"Start", WS_KIND_TIME},
						{"Duration", WS_KIND_TIME}};

int ws_print_op_steps(struct ws_ops *ops, struct ws_printer *printer, struct ws_text *footer,
		      struct ws_err *err)
{
	(void)footer;
	if (!ops->step_count)
		return ws_fail(err, "there are no steps (ProfilerStep#N) in %s",
			       ws_report_path(ops->report));
	printer->columns = step_columns;
	printer->column_count = WS_COUNT(step_columns);
	ws_print_begin(printer);
	for (size_t i = 0; i < ops->step_count; i++) {
		const struct ws_ops_step *step = &ops->steps[i];
		struct ws_cell cells[] = {
			ws_cell_int((int64_t)step->number),
			ws_cell_int((int64_t)ws_find_process(ops->who, step->process)->pid),
			ws_cell_int((int64_t)(step->start - ops->zero)),
			ws_cell_int((int64_t)(step->end - step->start))};

		ws_print_row(printer, cells);
	}
	ws_print_end(printer);
	return 0;
}
