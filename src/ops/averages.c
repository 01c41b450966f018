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
	struct group *v;
	size_t n, cap;
};

/* ---- grouping ---- */

/* The innermost `frames` frames of a stack: frames are told apart by semicolons or line ends. */
static size_t stack_part(const char *s, int64_t frames)
{
	size_t n = 0;

	while (s[n]) {
		n += strcspn(s + n, ";\n");
		if (!--frames || !s[n])
			break;
		n++;
	}
	return n;
}

static uint64_t key_of(const struct ws_ops *o, const struct ws_ops_event *ev, bool device,
		       bool annotation)
{
	uint64_t facts[] = {ev->name, (uint64_t)device << 1 | annotation, 0, 0};

	if (o->q->by_shape) {
		const char *s = ws_ops_text(o, ev->shapes);

		facts[2] = XXH3_64bits(s, strlen(s));
	}
	if (o->q->by_stack) {
		const char *s = ws_report_string(o->r, ev->stack, NULL);

		facts[3] = XXH3_64bits(s, stack_part(s, o->q->by_stack));
	}
	return XXH3_64bits(facts, sizeof(facts));
}

static struct group *group_of(const struct ws_ops *o, struct groups *g,
			      const struct ws_ops_event *ev)
{
	bool device = ev->kind == WS_OPS_GPU || ev->kind == WS_OPS_GPU_ANNOTATION;
	bool annotation = ev->kind == WS_OPS_ANNOTATION || ev->kind == WS_OPS_GPU_ANNOTATION;
	uint64_t key = key_of(o, ev, device, annotation), at = ws_map_get(&g->index, key, NULL);

	if (at)
		return &g->v[at - 1];
	ws_grow(g->v, g->cap, g->n + 1);
	g->v[g->n++] = (struct group){.name = ev->name,
				      .shapes = ev->shapes,
				      .stack = ev->stack,
				      .device = device,
				      .annotation = annotation,
				      .async = ev->async};
	ws_map_set(&g->index, key, g->n);
	return &g->v[g->n - 1];
}

static void add_event(const struct ws_ops *o, struct groups *g, const struct ws_ops_event *ev)
{
	struct group *r = group_of(o, g, ev);
	uint64_t time = ev->end - ev->start;

	r->count++;
	r->flops += ev->flops;
	if (r->device) {
		r->gpu += time * WS_DOUBLES_PARTS;
		r->self_gpu += time * WS_DOUBLES_PARTS;
		return;
	}
	r->cpu += time;
	r->self_cpu += (int64_t)(time - ev->children_cpu);
	r->gpu += ev->device_total;
	r->self_gpu += ev->device_total - ev->children_device;
	r->cpu_mem += ev->cpu_mem;
	r->gpu_mem += ev->device_mem;
	r->self_cpu_mem += ev->cpu_mem - ev->children_cpu_mem;
	r->self_gpu_mem += ev->device_mem - ev->children_device_mem;
}

/* ---- order ---- */

#define SORTS(X)                                                                                  \
	X("self_cpu_time_total", self_cpu)                                                        \
	X("cpu_time_total", cpu)                                                                  \
	X("self_cuda_time_total", self_gpu)                                                       \
	X("self_device_time_total", self_gpu)                                                     \
	X("cuda_time_total", gpu)                                                                 \
	X("device_time_total", gpu) X("self_cpu_memory_usage", self_cpu_mem)                      \
		X("cpu_memory_usage", cpu_mem) X("self_cuda_memory_usage", self_gpu_mem)          \
			X("self_device_memory_usage", self_gpu_mem)                               \
				X("cuda_memory_usage", gpu_mem) X("device_memory_usage", gpu_mem) \
					X("count", count) X("flops", flops)

static double sort_value(const struct group *g, const char *sort)
{
#define X(name, field)           \
	if (!strcmp(sort, name)) \
		return (double)g->field;
	SORTS(X)
#undef X
	return (double)(strcmp(sort, "cpu_time") ? g->gpu : g->cpu) / (double)g->count;
}

static int by_value(const void *a, const void *b, void *sort)
{
	const struct group *x = a, *y = b;
	const char *sorting = sort;
	double u = sort_value(x, sorting), v = sort_value(y, sorting);

	if (u != v)
		return u > v ? -1 : 1;
	if (x->device != y->device)
		return x->device ? 1 : -1;
	return x->name != y->name      ? (x->name < y->name ? -1 : 1)
	       : x->shapes < y->shapes ? -1
				       : x->shapes > y->shapes;
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

static const char *label(const struct ws_ops *o, uint32_t name, char *buffer, size_t size)
{
	uint32_t made = UINT32_MAX - 1 - name;

	if (name == WS_OPS_STEP_NAME || made > WS_OPS_MEMORY_NAME)
		return ws_ops_name(o, name);
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

static void choose(const struct ws_ops *o, const struct groups *g, struct shown *s)
{
	bool gpu = false, memory = o->memory_count > 0, flops = false;

	for (size_t i = 0; i < g->n; i++) {
		gpu |= g->v[i].gpu != 0;
		flops |= g->v[i].flops != 0;
	}
	for (int c = 0; c < COLUMNS; c++) {
		bool skip = (c >= SELF_GPU && c <= GPU_MEAN && !gpu) ||
			    (c >= CPU_MEM && c <= SELF_GPU_MEM && !memory) ||
			    (c == FLOPS && !flops) || (c == SHAPES && !o->q->by_shape) ||
			    (c == STACK && !o->q->by_stack) || (c == DEVICE && !gpu);

		if (skip)
			continue;
		s->of[s->n] = c;
		s->columns[s->n++] = columns[c];
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

static struct ws_cell gpu_time(const struct ws_ops *o, uint64_t v)
{
	return o->fraction ? ws_cell_real((long double)v / WS_DOUBLES_PARTS)
			   : ws_cell_int((int64_t)(v / WS_DOUBLES_PARTS));
}

static void fill(const struct ws_ops *o, const struct group *g, const struct totals *t,
		 struct ws_cell *c, char *buffer, size_t size)
{
	const char *text = label(o, g->name, buffer, size);

	c[NAME] = ws_cell_text(text, strlen(text));
	c[SELF_CPU_SHARE] = ws_cell_real(share(g->self_cpu, t->self_cpu));
	c[SELF_CPU] = ws_cell_int(g->self_cpu);
	c[CPU_SHARE] = ws_cell_real(g->async ? 0 : share(g->cpu, t->self_cpu));
	c[CPU] = ws_cell_int((int64_t)g->cpu);
	c[CPU_MEAN] = ws_cell_real((long double)g->cpu / g->count);
	c[SELF_GPU] = gpu_time(o, g->self_gpu);
	c[SELF_GPU_SHARE] = ws_cell_real(share(g->self_gpu, g->device ? t->gpu : o->gpu_own));
	c[GPU] = gpu_time(o, g->gpu);
	c[GPU_MEAN] = ws_cell_real((long double)g->gpu / WS_DOUBLES_PARTS / g->count);
	c[CPU_MEM] = ws_cell_int(g->cpu_mem);
	c[SELF_CPU_MEM] = ws_cell_int(g->self_cpu_mem);
	c[GPU_MEM] = ws_cell_int(g->gpu_mem);
	c[SELF_GPU_MEM] = ws_cell_int(g->self_gpu_mem);
	c[CALLS] = ws_cell_int((int64_t)g->count);
	c[DEVICE] = g->device ? ws_cell_text("CUDA", 4) : ws_cell_text("CPU", 3);
	c[FLOPS] = g->flops ? ws_cell_int((int64_t)g->flops) : ws_cell_null();
	text = ws_ops_text(o, g->shapes);
	c[SHAPES] = ws_cell_text(text, strlen(text));
	text = ws_report_string(o->r, g->stack, NULL);
	c[STACK] = ws_cell_text(text, o->q->by_stack ? stack_part(text, o->q->by_stack) : 0);
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

static struct totals add_up(const struct groups *g)
{
	struct totals t = {0};

	for (size_t i = 0; i < g->n; i++) {
		t.self_cpu += g->v[i].self_cpu;
		if (g->v[i].device && !g->v[i].annotation)
			t.gpu += g->v[i].self_gpu;
	}
	return t;
}

static void write_rows(const struct ws_ops *o, struct groups *g, const struct shown *s,
		       const struct totals *t, struct ws_printer *p, struct ws_text *footer)
{
	uint64_t least = (uint64_t)(o->q->min_time_s * 1e9), left = 0;
	int64_t written = 0;

	for (size_t i = 0; i < g->n; i++) {
		struct ws_cell all[COLUMNS], cells[COLUMNS];
		char buffer[64];

		if ((g->v[i].cpu < least && g->v[i].gpu < least * WS_DOUBLES_PARTS) ||
		    (o->q->limit && written == o->q->limit)) {
			left++;
			continue;
		}
		fill(o, &g->v[i], t, all, buffer, sizeof(buffer));
		for (size_t c = 0; c < s->n; c++)
			cells[c] = all[s->of[c]];
		ws_print_row(p, cells);
		written++;
	}
	if (left)
		ws_text_printf(footer, "%" PRIu64 " rows more\n", left);
}

int ws_ops_averages(struct ws_ops *o, struct ws_printer *p, struct ws_text *footer,
		    struct ws_err *e)
{
	struct groups g = {0};
	struct shown s = {0};
	struct totals t;

	for (size_t i = 0; i < o->count; i++)
		if (!o->events[i].merged)
			add_event(o, &g, &o->events[i]);
	if (!g.n)
		return ws_fail(e, "%s holds no operators or calls of CUDA", ws_report_path(o->r));
	t = add_up(&g);
	qsort_r(g.v, g.n, sizeof(*g.v), by_value,
		(void *)(o->q->sort ? o->q->sort
			 : t.gpu    ? "self_cuda_time_total"
				    : "self_cpu_time_total"));
	choose(o, &g, &s);
	p->columns = s.columns;
	p->column_count = s.n;
	ws_print_begin(p);
	write_rows(o, &g, &s, &t, p, footer);
	ws_print_end(p);
	put_time(footer, "Self CPU time total", t.self_cpu > 0 ? (uint64_t)t.self_cpu : 0);
	if (t.gpu)
		put_time(footer, "Self CUDA time total", t.gpu / WS_DOUBLES_PARTS);
	free(g.v);
	ws_map_free(&g.index);
	return 0;
}
