/* views.c - the views of `ops` beside the averages: by module, memory by device and by record,
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
 * Calls of nn.Module are Python calls named "nn.Module: Class_instance"; a module's path is that of
 * the modules around it. Its times are those of its calls; its device time is that of all operators
 * inside; "self" leaves out the modules inside of it.
 */

struct module {
	char *path;
	uint64_t calls, ops, cpu, children_cpu, gpu, children_gpu;
	uint32_t depth;
};

struct modules {
	struct ws_map index; /* hash of parent's path and name -> module + 1 */
	struct module *modules;
	size_t n, cap;
};

static const char module_prefix[] = "nn.Module: ";

static const char *module_name(const struct ws_ops *ops, const struct ws_ops_event *ev)
{
	const char *name = ev->kind == WS_OPS_PYTHON ? ws_ops_name(ops, ev->name) : "";

	return strncmp(name, module_prefix, sizeof(module_prefix) - 1)
		       ? NULL
		       : name + sizeof(module_prefix) - 1;
}

static uint32_t module_of(struct modules *modules, uint32_t parent, const char *name)
{
	uint64_t key = XXH3_64bits_withSeed(name, strlen(name), parent),
		 at = ws_map_get(&modules->index, key, NULL);

	if (at)
		return (uint32_t)at;
	ws_grow(modules->modules, modules->cap, modules->n + 1);
	modules->modules[modules->n++] = (struct module){
		.path = parent ? ws_format("%s/%s", modules->modules[parent - 1].path, name)
			       : ws_strdup(name),
		.depth = parent ? modules->modules[parent - 1].depth + 1 : 0};
	ws_map_set(&modules->index, key, modules->n);
	return (uint32_t)modules->n;
}

static int by_path(const void *first, const void *second)
{
	return strcmp(((const struct module *)first)->path, ((const struct module *)second)->path);
}

/* The innermost module around each event, by index + 1. */
static void gather(const struct ws_ops *ops, struct modules *modules, uint32_t *inside)
{
	enum { DEEPEST = 256 };

	for (size_t i = 0; i < ops->cpu_count; i++) {
		const struct ws_ops_event *ev = &ops->events[i];
		uint32_t outer = ev->parent == WS_OPS_NONE ? 0 : inside[ev->parent];
		const char *name = module_name(ops, ev);

		inside[i] = outer;
		if (!name) {
			if (outer && ev->kind == WS_OPS_CPU)
				modules->modules[outer - 1].ops++;
			continue;
		}
		if (outer && modules->modules[outer - 1].depth == DEEPEST)
			continue; /* recursion without end: one module */
		inside[i] = module_of(modules, outer, name);
		modules->modules[inside[i] - 1].calls++;
		modules->modules[inside[i] - 1].cpu += ev->end - ev->start;
		modules->modules[inside[i] - 1].gpu += ev->device_total / WS_DOUBLES_PARTS;
		if (outer) {
			modules->modules[outer - 1].children_cpu += ev->end - ev->start;
			modules->modules[outer - 1].children_gpu +=
				ev->device_total / WS_DOUBLES_PARTS;
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

int ws_ops_modules(struct ws_ops *ops, struct ws_printer *printer, struct ws_text *footer,
		   struct ws_err *err)
{
	uint32_t *inside = ws_calloc(ops->cpu_count + 1, sizeof(*inside));
	struct modules modules = {0};
	int64_t rows = 0;

	gather(ops, &modules, inside);
	free(inside);
	if (!modules.n)
		return ws_fail(err,
			       "%s holds no calls of nn.Module; torch.profiler writes them with "
			       "with_stack=True",
			       ws_report_path(ops->report));
	qsort(modules.modules, modules.n, sizeof(*modules.modules), by_path);
	printer->columns = module_columns;
	printer->column_count = WS_COUNT(module_columns);
	ws_print_begin(printer);
	for (size_t i = 0; i < modules.n; i++) {
		const struct module *module = &modules.modules[i];
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
			ws_text_printf(footer, "%zu rows more\n", modules.n - i);
			break;
		}
		ws_print_row(printer, cells);
	}
	ws_print_end(printer);
	for (size_t i = 0; i < modules.n; i++)
		free(modules.modules[i].path);
	free(modules.modules);
	ws_map_free(&modules.index);
	return 0;
}

/* ---- memory by device ---- */

struct device {
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

static const char *device_name(uint8_t type, int32_t id, char *buffer, size_t size)
{
	if (type == 0)
		return "CPU";
	snprintf(buffer, size, type == 1 ? "CUDA %d" : "device type %d", type == 1 ? id : type);
	return buffer;
}

static int no_memory(const struct ws_ops *ops, struct ws_err *err)
{
	return ws_fail(
		err,
		"%s holds no memory events; torch.profiler writes them with profile_memory=True",
		ws_report_path(ops->report));
}

static struct device *find_device(struct device **v, size_t *n, size_t *cap,
				  const struct ws_ops_memory *memory)
{
	for (size_t i = 0; i < *n; i++)
		if ((*v)[i].process == memory->process && (*v)[i].type == memory->type &&
		    (*v)[i].id == memory->device)
			return &(*v)[i];
	ws_grow(*v, *cap, *n + 1);
	(*v)[*n] = (struct device){
		.process = memory->process, .type = memory->type, .id = memory->device};
	return &(*v)[(*n)++];
}

int ws_ops_memory_devices(struct ws_ops *ops, struct ws_printer *printer, struct ws_text *footer,
			  struct ws_err *err)
{
	struct device *device_v = NULL;
	size_t n = 0, cap = 0;

	(void)footer;
	if (!ops->memory_count)
		return no_memory(ops, err);
	for (size_t i = 0; i < ops->memory_count; i++) {
		const struct ws_ops_memory *memory = &ops->memory[i];
		struct device *device_d = find_device(&device_v, &n, &cap, memory);

		device_d->taken += memory->bytes > 0;
		device_d->given += memory->bytes < 0;
		device_d->taken_bytes += memory->bytes > 0 ? (uint64_t)memory->bytes : 0;
		device_d->given_bytes += memory->bytes < 0 ? (uint64_t)-memory->bytes : 0;
		device_d->now += memory->bytes;
		device_d->peak = ws_max(memory->allocated, device_d->peak);
		device_d->reserved = ws_max(memory->reserved, device_d->reserved);
	}
	printer->columns = memory_columns;
	printer->column_count = WS_COUNT(memory_columns);
	ws_print_begin(printer);
	for (size_t i = 0; i < n; i++) {
		char buffer[40];
		const char *name =
			device_name(device_v[i].type, device_v[i].id, buffer, sizeof(buffer));
		struct ws_cell cells[] = {
			ws_cell_int((int64_t)ws_who_process(ops->who, device_v[i].process)->pid),
			ws_cell_text(name, strlen(name)),
			ws_cell_int((int64_t)device_v[i].taken),
			ws_cell_int((int64_t)device_v[i].given),
			ws_cell_int((int64_t)device_v[i].taken_bytes),
			ws_cell_int((int64_t)device_v[i].given_bytes),
			ws_cell_int(device_v[i].now),
			ws_cell_int((int64_t)device_v[i].peak),
			ws_cell_int((int64_t)device_v[i].reserved),
		};

		ws_print_row(printer, cells);
	}
	ws_print_end(printer);
	free(device_v);
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

/* The innermost operator around a moment on a thread: events before it by start, then outwards. */
static const char *op_around(const struct ws_ops *ops, uint32_t thread, uint64_t at)
{
	size_t lo;
	uint32_t i;

	lo = ws_bisect(ops->cpu_count, mid,
		       ops->events[mid].thread < thread ||
			       (ops->events[mid].thread == thread && ops->events[mid].start <= at));
	if (!lo || ops->events[lo - 1].thread != thread)
		return "";
	for (i = (uint32_t)(lo - 1); i != WS_OPS_NONE; i = ops->events[i].parent)
		if (ops->events[i].end >= at &&
		    (ops->events[i].kind == WS_OPS_CPU || ops->events[i].kind == WS_OPS_ANNOTATION))
			return ws_ops_name(ops, ops->events[i].name);
	return "";
}

int ws_ops_memory_events(struct ws_ops *ops, struct ws_printer *printer, struct ws_text *footer,
			 struct ws_err *err)
{
	int64_t rows = 0;

	if (!ops->memory_count)
		return no_memory(ops, err);
	printer->columns = event_columns;
	printer->column_count = WS_COUNT(event_columns);
	ws_print_begin(printer);
	for (size_t i = 0; i < ops->memory_count; i++) {
		const struct ws_ops_memory *memory = &ops->memory[i];
		const struct ws_thread_info *info = ws_who_thread(ops->who, memory->thread);
		char buffer[40], address[24];
		const char *device = device_name(memory->type, memory->device, buffer,
						 sizeof(buffer)),
			   *op = op_around(ops, memory->thread, memory->time);
		int n = snprintf(address, sizeof(address), "0x%" PRIx64, memory->address);
		struct ws_cell cells[] = {
			ws_cell_int((int64_t)(memory->time - ops->zero)),
			ws_cell_int((int64_t)info->pid),
			ws_cell_int((int64_t)info->tid),
			ws_cell_text(device, strlen(device)),
			ws_cell_text(address, (size_t)n),
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

int ws_ops_steps(struct ws_ops *ops, struct ws_printer *printer, struct ws_text *footer,
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
			ws_cell_int((int64_t)ws_who_process(ops->who, step->process)->pid),
			ws_cell_int((int64_t)(step->start - ops->zero)),
			ws_cell_int((int64_t)(step->end - step->start))};

		ws_print_row(printer, cells);
	}
	ws_print_end(printer);
	return 0;
}
