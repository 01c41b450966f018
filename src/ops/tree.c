/* tree.c - which event is inside of which, and what follows from that: merged duplicates, memory,
 * sums of children. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"
#include "ops/ops.h"

/*
 * c10d's works are ranges that begin inside of the collective's call and end when it is done, on
 * whatever thread. They are asynchronous for PyTorch: they hold nothing, and take nothing from what
 * is around them. Nothing else in a trace tells them from annotations of the program.
 */
static bool is_work(const struct ws_ops *o, const struct ws_ops_event *ev, const uint32_t *stack,
		    size_t depth)
{
	static const char *const backends[] = {"nccl:", "gloo:", "mpi:", "ucc:", "xccl:"};
	const char *name;
	bool titled = false;

	if (ev->kind != WS_OPS_ANNOTATION)
		return false;
	name = ws_ops_name(o, ev->name);
	for (size_t i = 0; i < WS_COUNT(backends); i++)
		titled |= !strncmp(name, backends[i], strlen(backends[i]));
	while (titled && depth--) {
		const struct ws_ops_event *p = &o->events[stack[depth]];

		name = ws_ops_name(o, p->name);
		if (ev->start < p->end &&
		    (!strcmp(name, "record_param_comms") || !strncmp(name, "c10d::", 6)))
			return true;
	}
	return false;
}

/*
 * Events of a thread come by start, longer first. The stack holds those around the one in hand:
 * whatever does not hold the whole of it is taken off, as PyTorch does, also when the two only
 * overlap.
 */
static void find_parents(struct ws_ops *o)
{
	bool traced = !ws_ops_from_ranges(o);
	uint32_t *stack = NULL;
	size_t depth = 0, cap = 0;

	for (size_t i = 0; i < o->cpu_count; i++) {
		struct ws_ops_event *ev = &o->events[i];

		if (i && o->events[i - 1].thread != ev->thread)
			depth = 0;
		if (traced && is_work(o, ev, stack, depth)) {
			ev->async = true;
			ev->parent = stack[depth - 1];
			continue;
		}
		while (depth) {
			struct ws_ops_event *p = &o->events[stack[depth - 1]];

			if (ev->start < p->end && ev->end <= p->end) {
				ev->parent = stack[depth - 1];
				p->children++;
				break;
			}
			depth--;
		}
		ws_grow(stack, cap, depth + 1);
		stack[depth++] = (uint32_t)i;
	}
	free(stack);
}

/*
 * An only child of the same name is one with its parent, which takes over its children and its GPU
 * events. Parents come before their children, so a chain collapses in one pass.
 */
static void merge_duplicates(struct ws_ops *o)
{
	for (size_t i = 0; i < o->cpu_count; i++) {
		struct ws_ops_event *ev = &o->events[i], *p;

		if (ev->parent == WS_OPS_NONE)
			continue;
		while (o->events[ev->parent].merged)
			ev->parent = o->events[ev->parent].parent;
		if (ev->async)
			continue;
		p = &o->events[ev->parent];
		if (p->name != ev->name || p->children != 1)
			continue;
		ev->merged = true;
		p->children = ev->children;
		p->device_own = ev->device_own;
	}
}

/* ---- memory ---- */

/* Sums of the records of one process up to each, so that a span's is a difference. */
struct sums {
	int64_t *cpu, *device; /* [n + 1] */
};

static size_t first_at(const struct ws_ops_memory *m, size_t n, uint64_t t)
{
	return ws_bisect(n, mid, m[mid].time < t);
}

static void memory_of_process(struct ws_ops *o, struct ws_ops_memory *m, size_t n)
{
	struct sums s = {ws_calloc(n + 1, sizeof(int64_t)), ws_calloc(n + 1, sizeof(int64_t))};
	int32_t *covered = ws_calloc(n + 1, sizeof(*covered));
	int32_t open = 0;

	for (size_t i = 0; i < n; i++) {
		s.cpu[i + 1] = s.cpu[i] + (m[i].type == 0 ? m[i].bytes : 0);
		s.device[i + 1] = s.device[i] + (m[i].type != 0 ? m[i].bytes : 0);
	}
	for (size_t i = 0; i < o->cpu_count; i++) {
		struct ws_ops_event *ev = &o->events[i];
		size_t from, to;

		if (ev->process != m->process)
			continue;
		from = first_at(m, n, ev->start);
		to = first_at(m, n, ev->end + 1); /* both ends count */
		ev->cpu_mem = s.cpu[to] - s.cpu[from];
		ev->device_mem = s.device[to] - s.device[from];
		covered[from]++;
		covered[to]--;
	}
	for (size_t i = 0; i < n; i++) {
		open += covered[i];
		m[i].inside = open > 0;
	}
	free(s.cpu);
	free(s.device);
	free(covered);
}

/* Records that happened in no event are events of their own, as PyTorch lists them. */
static void add_loose_memory(struct ws_ops *o, uint32_t name)
{
	for (size_t i = 0; i < o->memory_count; i++) {
		const struct ws_ops_memory *m = &o->memory[i];

		if (m->inside)
			continue;
		ws_grow(o->events, o->cap, o->count + 1);
		o->events[o->count++] =
			(struct ws_ops_event){.start = m->time,
					      .end = m->time,
					      .parent = WS_OPS_NONE,
					      .process = m->process,
					      .thread = m->thread,
					      .kind = WS_OPS_MEMORY,
					      .name = name,
					      .cpu_mem = m->type == 0 ? m->bytes : 0,
					      .device_mem = m->type != 0 ? m->bytes : 0};
	}
}

static void find_memory(struct ws_ops *o)
{
	for (size_t i = 0; i < o->memory_count;) {
		size_t n = 1;

		while (i + n < o->memory_count && o->memory[i + n].process == o->memory[i].process)
			n++;
		memory_of_process(o, o->memory + i, n);
		i += n;
	}
	add_loose_memory(o, UINT32_MAX - 1 - WS_OPS_MEMORY_NAME);
}

/* ---- sums, from the innermost outwards ---- */

static void sum_up(struct ws_ops *o)
{
	for (size_t i = o->cpu_count; i--;) {
		struct ws_ops_event *ev = &o->events[i], *p;

		if (ev->merged)
			continue;
		if (ev->async) {
			ev->device_own = 0;
			ev->children_cpu = ev->end - ev->start;
			ev->children_cpu_mem = ev->cpu_mem;
			ev->children_device_mem = ev->device_mem;
			continue;
		}
		ev->device_total = ev->device_own + ev->children_device;
		if (ev->parent == WS_OPS_NONE)
			continue;
		p = &o->events[ev->parent];
		p->children_cpu += ev->end - ev->start;
		p->children_device += ev->device_total;
		p->children_cpu_mem += ev->cpu_mem;
		p->children_device_mem += ev->device_mem;
	}
}

void ws_ops_nest(struct ws_ops *o)
{
	find_parents(o);
	merge_duplicates(o);
	find_memory(o);
	sum_up(o);
}
