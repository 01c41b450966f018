/* views.c - the views of `ops` beside the averages: by module, memory by device and by record,
 * steps. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/map.h"
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
	struct module *v;
	size_t n, cap;
};

static const char module_prefix[] = "nn.Module: ";

static const char *module_name(const struct ws_ops *o, const struct ws_ops_event *ev)
{
	const char *name = ev->kind == WS_OPS_PYTHON ? ws_ops_name(o, ev->name) : "";

	return strncmp(name, module_prefix, sizeof(module_prefix) - 1)
		       ? NULL
		       : name + sizeof(module_prefix) - 1;
}

static uint32_t module_of(struct modules *m, uint32_t parent, const char *name)
{
	uint64_t key = XXH3_64bits_withSeed(name, strlen(name), parent),
		 at = ws_map_get(&m->index, key, NULL);

	if (at)
		return (uint32_t)at;
	ws_grow(m->v, m->cap, m->n + 1);
	m->v[m->n++] = (struct module){
		.path = parent ? ws_format("%s/%s", m->v[parent - 1].path, name) : ws_strdup(name),
		.depth = parent ? m->v[parent - 1].depth + 1 : 0};
	ws_map_set(&m->index, key, m->n);
	return (uint32_t)m->n;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct module *)a)->path, ((const struct module *)b)->path);
}

/* The innermost module around each event, by index + 1. */
static void gather(const struct ws_ops *o, struct modules *m, uint32_t *inside)
{
	enum { DEEPEST = 256 };

	for (size_t i = 0; i < o->cpu_count; i++) {
		const struct ws_ops_event *ev = &o->events[i];
		uint32_t outer = ev->parent == WS_OPS_NONE ? 0 : inside[ev->parent];
		const char *name = module_name(o, ev);

		inside[i] = outer;
		if (!name) {
			if (outer && ev->kind == WS_OPS_CPU)
				m->v[outer - 1].ops++;
			continue;
		}
		if (outer && m->v[outer - 1].depth == DEEPEST)
			continue; /* recursion without end: one module */
		inside[i] = module_of(m, outer, name);
		m->v[inside[i] - 1].calls++;
		m->v[inside[i] - 1].cpu += ev->end - ev->start;
		m->v[inside[i] - 1].gpu += ev->device_total / WS_DOUBLES_PARTS;
		if (outer) {
			m->v[outer - 1].children_cpu += ev->end - ev->start;
			m->v[outer - 1].children_gpu += ev->device_total / WS_DOUBLES_PARTS;
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

int ws_ops_modules(struct ws_ops *o, struct ws_printer *p, struct ws_text *footer, struct ws_err *e)
{
	uint32_t *inside = ws_calloc(o->cpu_count + 1, sizeof(*inside));
	struct modules m = {0};
	int64_t rows = 0;

	gather(o, &m, inside);
	free(inside);
	if (!m.n)
		return ws_fail(e,
			       "%s holds no calls of nn.Module; torch.profiler writes them with "
			       "with_stack=True",
			       ws_report_path(o->r));
	qsort(m.v, m.n, sizeof(*m.v), by_path);
	p->columns = module_columns;
	p->column_count = WS_COUNT(module_columns);
	ws_print_begin(p);
	for (size_t i = 0; i < m.n; i++) {
		const struct module *v = &m.v[i];
		struct ws_cell c[] = {
			ws_cell_text(v->path, strlen(v->path)),
			ws_cell_int((int64_t)v->calls),
			ws_cell_int((int64_t)v->ops),
			ws_cell_int((int64_t)v->cpu),
			ws_cell_int((int64_t)(v->cpu - v->children_cpu)),
			ws_cell_int((int64_t)v->gpu),
			ws_cell_int((int64_t)(v->gpu - v->children_gpu)),
			ws_cell_real((long double)v->cpu / v->calls),
			ws_cell_real((long double)v->gpu / v->calls),
		};

		if (o->q->limit && rows++ == o->q->limit) {
			ws_text_printf(footer, "%zu rows more\n", m.n - i);
			break;
		}
		ws_print_row(p, c);
	}
	ws_print_end(p);
	for (size_t i = 0; i < m.n; i++)
		free(m.v[i].path);
	free(m.v);
	ws_map_free(&m.index);
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

static int no_memory(const struct ws_ops *o, struct ws_err *e)
{
	return ws_fail(
		e, "%s holds no memory events; torch.profiler writes them with profile_memory=True",
		ws_report_path(o->r));
}

static struct device *find_device(struct device **v, size_t *n, size_t *cap,
				  const struct ws_ops_memory *m)
{
	for (size_t i = 0; i < *n; i++)
		if ((*v)[i].process == m->process && (*v)[i].type == m->type &&
		    (*v)[i].id == m->device)
			return &(*v)[i];
	ws_grow(*v, *cap, *n + 1);
	(*v)[*n] = (struct device){.process = m->process, .type = m->type, .id = m->device};
	return &(*v)[(*n)++];
}

int ws_ops_memory_devices(struct ws_ops *o, struct ws_printer *p, struct ws_text *footer,
			  struct ws_err *e)
{
	struct device *v = NULL;
	size_t n = 0, cap = 0;

	(void)footer;
	if (!o->memory_count)
		return no_memory(o, e);
	for (size_t i = 0; i < o->memory_count; i++) {
		const struct ws_ops_memory *m = &o->memory[i];
		struct device *d = find_device(&v, &n, &cap, m);

		d->taken += m->bytes > 0;
		d->given += m->bytes < 0;
		d->taken_bytes += m->bytes > 0 ? (uint64_t)m->bytes : 0;
		d->given_bytes += m->bytes < 0 ? (uint64_t)-m->bytes : 0;
		d->now += m->bytes;
		d->peak = m->allocated > d->peak ? m->allocated : d->peak;
		d->reserved = m->reserved > d->reserved ? m->reserved : d->reserved;
	}
	p->columns = memory_columns;
	p->column_count = WS_COUNT(memory_columns);
	ws_print_begin(p);
	for (size_t i = 0; i < n; i++) {
		char buffer[40];
		const char *name = device_name(v[i].type, v[i].id, buffer, sizeof(buffer));
		struct ws_cell c[] = {
			ws_cell_int((int64_t)ws_who_process(o->who, v[i].process)->pid),
			ws_cell_text(name, strlen(name)),
			ws_cell_int((int64_t)v[i].taken),
			ws_cell_int((int64_t)v[i].given),
			ws_cell_int((int64_t)v[i].taken_bytes),
			ws_cell_int((int64_t)v[i].given_bytes),
			ws_cell_int(v[i].now),
			ws_cell_int((int64_t)v[i].peak),
			ws_cell_int((int64_t)v[i].reserved),
		};

		ws_print_row(p, c);
	}
	ws_print_end(p);
	free(v);
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
static const char *op_around(const struct ws_ops *o, uint32_t thread, uint64_t at)
{
	size_t lo;
	uint32_t i;

	lo = ws_bisect(o->cpu_count, mid,
		       o->events[mid].thread < thread ||
			       (o->events[mid].thread == thread && o->events[mid].start <= at));
	if (!lo || o->events[lo - 1].thread != thread)
		return "";
	for (i = (uint32_t)(lo - 1); i != WS_OPS_NONE; i = o->events[i].parent)
		if (o->events[i].end >= at &&
		    (o->events[i].kind == WS_OPS_CPU || o->events[i].kind == WS_OPS_ANNOTATION))
			return ws_ops_name(o, o->events[i].name);
	return "";
}

int ws_ops_memory_events(struct ws_ops *o, struct ws_printer *p, struct ws_text *footer,
			 struct ws_err *e)
{
	int64_t rows = 0;

	if (!o->memory_count)
		return no_memory(o, e);
	p->columns = event_columns;
	p->column_count = WS_COUNT(event_columns);
	ws_print_begin(p);
	for (size_t i = 0; i < o->memory_count; i++) {
		const struct ws_ops_memory *m = &o->memory[i];
		const struct ws_thread_info *t = ws_who_thread(o->who, m->thread);
		char buffer[40], address[24];
		const char *device = device_name(m->type, m->device, buffer, sizeof(buffer)),
			   *op = op_around(o, m->thread, m->time);
		int n = snprintf(address, sizeof(address), "0x%" PRIx64, m->address);
		struct ws_cell c[] = {
			ws_cell_int((int64_t)(m->time - o->zero)),
			ws_cell_int((int64_t)t->pid),
			ws_cell_int((int64_t)t->tid),
			ws_cell_text(device, strlen(device)),
			ws_cell_text(address, (size_t)n),
			ws_cell_int(m->bytes),
			ws_cell_int((int64_t)m->allocated),
			ws_cell_int((int64_t)m->reserved),
			ws_cell_text(op, strlen(op)),
		};

		if (o->q->limit && rows++ == o->q->limit) {
			ws_text_printf(footer, "%zu rows more\n", o->memory_count - i);
			break;
		}
		ws_print_row(p, c);
	}
	ws_print_end(p);
	return 0;
}

/* ---- steps ---- */

static const struct ws_column step_columns[] = {{"Step", WS_KIND_ID},
						{"PID", WS_KIND_ID},
						{"Start", WS_KIND_TIME},
						{"Duration", WS_KIND_TIME}};

int ws_ops_steps(struct ws_ops *o, struct ws_printer *p, struct ws_text *footer, struct ws_err *e)
{
	(void)footer;
	if (!o->step_count)
		return ws_fail(e, "there are no steps (ProfilerStep#N) in %s",
			       ws_report_path(o->r));
	p->columns = step_columns;
	p->column_count = WS_COUNT(step_columns);
	ws_print_begin(p);
	for (size_t i = 0; i < o->step_count; i++) {
		const struct ws_ops_step *s = &o->steps[i];
		struct ws_cell c[] = {ws_cell_int((int64_t)s->number),
				      ws_cell_int((int64_t)ws_who_process(o->who, s->process)->pid),
				      ws_cell_int((int64_t)(s->start - o->zero)),
				      ws_cell_int((int64_t)(s->end - s->start))};

		ws_print_row(p, c);
	}
	ws_print_end(p);
	return 0;
}
