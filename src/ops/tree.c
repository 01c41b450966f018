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
static bool is_work(const struct ws_ops *ops, const struct ws_ops_event *ev, const uint32_t *stack,
		    size_t depth)
{
	static const char *const backends[] = {"nccl:", "gloo:", "mpi:", "ucc:", "xccl:"};
	const char *name;
	bool titled = false;

	if (ev->kind != WS_OPS_ANNOTATION)
		return false;
	name = ws_ops_name(ops, ev->name);
	for (size_t i = 0; i < WS_COUNT(backends); i++)
		titled |= !strncmp(name, backends[i], strlen(backends[i]));
	while (titled && depth--) {
		const struct ws_ops_event *event = &ops->events[stack[depth]];

		name = ws_ops_name(ops, event->name);
		if (ev->start < event->end &&
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
static void find_parents(struct ws_ops *ops)
{
	bool traced = !ws_ops_from_ranges(ops);
	uint32_t *stack = NULL;
	size_t depth = 0, cap = 0;

	for (size_t i = 0; i < ops->cpu_count; i++) {
		struct ws_ops_event *ev = &ops->events[i];

		if (i && ops->events[i - 1].thread != ev->thread)
			depth = 0;
		if (traced && is_work(ops, ev, stack, depth)) {
			ev->async = true;
			ev->parent = stack[depth - 1];
			continue;
		}
		while (depth) {
			struct ws_ops_event *event = &ops->events[stack[depth - 1]];

			if (ev->start < event->end && ev->end <= event->end) {
				ev->parent = stack[depth - 1];
				event->children++;
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
static void merge_duplicates(struct ws_ops *ops)
{
	for (size_t i = 0; i < ops->cpu_count; i++) {
		struct ws_ops_event *ev = &ops->events[i], *event;

		if (ev->parent == WS_OPS_NONE)
			continue;
		while (ops->events[ev->parent].merged)
			ev->parent = ops->events[ev->parent].parent;
		if (ev->async)
			continue;
		event = &ops->events[ev->parent];
		if (event->name != ev->name || event->children != 1)
			continue;
		ev->merged = true;
		event->children = ev->children;
		event->device_own = ev->device_own;
	}
}

/* ---- memory ---- */

/* Sums of the records of one process up to each, so that a span's is a difference. */
struct sums {
	int64_t *cpu, *device; /* [n + 1] */
};

static size_t first_at(const struct ws_ops_memory *memory, size_t n, uint64_t t)
{
	return ws_bisect(n, mid, memory[mid].time < t);
}

static void memory_of_process(struct ws_ops *ops, struct ws_ops_memory *memory, size_t n)
{
	struct sums sums = {ws_calloc(n + 1, sizeof(int64_t)), ws_calloc(n + 1, sizeof(int64_t))};
	int32_t *covered = ws_calloc(n + 1, sizeof(*covered));
	int32_t open = 0;

	for (size_t i = 0; i < n; i++) {
		sums.cpu[i + 1] = sums.cpu[i] + (memory[i].type == 0 ? memory[i].bytes : 0);
		sums.device[i + 1] = sums.device[i] + (memory[i].type != 0 ? memory[i].bytes : 0);
	}
	for (size_t i = 0; i < ops->cpu_count; i++) {
		struct ws_ops_event *ev = &ops->events[i];
		size_t from, to;

		if (ev->process != memory->process)
			continue;
		from = first_at(memory, n, ev->start);
		to = first_at(memory, n, ev->end + 1); /* both ends count */
		ev->cpu_mem = sums.cpu[to] - sums.cpu[from];
		ev->device_mem = sums.device[to] - sums.device[from];
		covered[from]++;
		covered[to]--;
	}
	for (size_t i = 0; i < n; i++) {
		open += covered[i];
		memory[i].inside = open > 0;
	}
	free(sums.cpu);
	free(sums.device);
	free(covered);
}

/* Records that happened in no event are events of their own, as PyTorch lists them. */
static void add_loose_memory(struct ws_ops *ops, uint32_t name)
{
	for (size_t i = 0; i < ops->memory_count; i++) {
		const struct ws_ops_memory *memory = &ops->memory[i];

		if (memory->inside)
			continue;
		ws_grow(ops->events, ops->cap, ops->count + 1);
		ops->events[ops->count++] =
			(struct ws_ops_event){.start = memory->time,
					      .end = memory->time,
					      .parent = WS_OPS_NONE,
					      .process = memory->process,
					      .thread = memory->thread,
					      .kind = WS_OPS_MEMORY,
					      .name = name,
					      .cpu_mem = memory->type == 0 ? memory->bytes : 0,
					      .device_mem = memory->type != 0 ? memory->bytes : 0};
	}
}

static void find_memory(struct ws_ops *ops)
{
	for (size_t i = 0; i < ops->memory_count;) {
		size_t n = 1;

		while (i + n < ops->memory_count &&
		       ops->memory[i + n].process == ops->memory[i].process)
			n++;
		memory_of_process(ops, ops->memory + i, n);
		i += n;
	}
	add_loose_memory(ops, UINT32_MAX - 1 - WS_OPS_MEMORY_NAME);
}

/* ---- sums, from the innermost outwards ---- */

static void sum_up(struct ws_ops *ops)
{
	for (size_t i = ops->cpu_count; i--;) {
		struct ws_ops_event *ev = &ops->events[i], *event;

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
		event = &ops->events[ev->parent];
		event->children_cpu += ev->end - ev->start;
		event->children_device += ev->device_total;
		event->children_cpu_mem += ev->cpu_mem;
		event->children_device_mem += ev->device_mem;
	}
}

void ws_ops_nest(struct ws_ops *ops)
{
	find_parents(ops);
	merge_duplicates(ops);
	find_memory(ops);
	sum_up(ops);
}
