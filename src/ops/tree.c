/* tree.c - which event is inside which, and what this determines: merged duplicates, memory, sums
 * of children. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"
#include "ops/ops.h"

/*
 * Whether an event is work of c10d: a range that begins inside the call of a collective and ends
 * when the collective is done, on any thread. PyTorch treats it as asynchronous: it has no children
 * and does not reduce the self time of its parent. Only its name and the call around it distinguish
 * it from annotations of the program.
 */
static bool is_c10d_work(const struct ws_ops *ops, const struct ws_ops_event *event,
			 const uint32_t *stack, size_t depth)
{
	static const char *const backends[] = {"nccl:", "gloo:", "mpi:", "ucc:", "xccl:"};
	const char *name;
	bool titled = false;

	if (event->kind != WS_OPS_ANNOTATION)
		return false;
	name = ws_get_op_name(ops, event->name);
	for (size_t i = 0; i < WS_COUNT(backends); i++)
		titled |= !strncmp(name, backends[i], strlen(backends[i]));
	while (titled && depth--) {
		const struct ws_ops_event *outer = &ops->events[stack[depth]];

		name = ws_get_op_name(ops, outer->name);
		if (event->start < outer->end &&
		    (!strcmp(name, "record_param_comms") || !strncmp(name, "c10d::", 6)))
			return true;
	}
	return false;
}

/*
 * Events of a thread are in order of start, longer first. The stack has the events around the
 * current one: those that do not contain all of it are removed, as PyTorch does, even if the two
 * overlap.
 */
static void find_parents(struct ws_ops *ops)
{
	bool traced = !ws_are_ops_from_ranges(ops);
	uint32_t *stack = NULL;
	size_t depth = 0, capacity = 0;

	for (size_t i = 0; i < ops->cpu_count; i++) {
		struct ws_ops_event *event = &ops->events[i];

		if (i && ops->events[i - 1].thread != event->thread)
			depth = 0;
		if (traced && is_c10d_work(ops, event, stack, depth)) {
			event->async = true;
			event->parent = stack[depth - 1];
			continue;
		}
		while (depth) {
			struct ws_ops_event *outer = &ops->events[stack[depth - 1]];

			if (event->start < outer->end && event->end <= outer->end) {
				event->parent = stack[depth - 1];
				outer->children++;
				break;
			}
			depth--;
		}
		ws_grow(stack, capacity, depth + 1);
		stack[depth++] = (uint32_t)i;
	}
	free(stack);
}

/*
 * Merge an only child into its parent of the same name, which takes over its children and its GPU
 * events. Parents come before their children, so that one pass merges a chain.
 */
static void merge_duplicates(struct ws_ops *ops)
{
	for (size_t i = 0; i < ops->cpu_count; i++) {
		struct ws_ops_event *event = &ops->events[i], *parent;

		if (event->parent == WS_OPS_NONE)
			continue;
		while (ops->events[event->parent].merged)
			event->parent = ops->events[event->parent].parent;
		if (event->async)
			continue;
		parent = &ops->events[event->parent];
		if (parent->name != event->name || parent->children != 1)
			continue;
		event->merged = true;
		parent->children = event->children;
		parent->device_own = event->device_own;
	}
}

/* ---- memory ---- */

/* Sums of bytes of all records of a process before each, so that the sum over a span is a
 * difference. */
struct memory_sums {
	int64_t *cpu, *device; /* [count + 1] */
};

static void add_memory_to_sums(struct memory_sums *sums, size_t i,
			       const struct ws_ops_memory *memory)
{
	sums->cpu[i + 1] = sums->cpu[i];
	sums->device[i + 1] = sums->device[i];
	if (memory->type == 0)
		sums->cpu[i + 1] += memory->bytes;
	else
		sums->device[i + 1] += memory->bytes;
}

static size_t find_first_record(const struct ws_ops_memory *memory, size_t count, uint64_t time)
{
	return ws_bisect(count, mid, memory[mid].time < time);
}

/* Attribute the records of a process to its events, and mark the records that were inside any. */
static void attribute_process_memory(struct ws_ops *ops, struct ws_ops_memory *memory, size_t count)
{
	struct memory_sums sums = {ws_calloc(count + 1, sizeof(int64_t)),
				   ws_calloc(count + 1, sizeof(int64_t))};
	int32_t *covered = ws_calloc(count + 1, sizeof(*covered));
	int32_t open = 0;

	for (size_t i = 0; i < count; i++)
		add_memory_to_sums(&sums, i, &memory[i]);
	for (size_t i = 0; i < ops->cpu_count; i++) {
		struct ws_ops_event *event = &ops->events[i];
		size_t from, to;

		if (event->process != memory->process)
			continue;
		from = find_first_record(memory, count, event->start);
		to = find_first_record(memory, count, event->end + 1); /* both ends count */
		event->cpu_mem = sums.cpu[to] - sums.cpu[from];
		event->device_mem = sums.device[to] - sums.device[from];
		covered[from]++;
		covered[to]--;
	}
	for (size_t i = 0; i < count; i++) {
		open += covered[i];
		memory[i].inside = open > 0;
	}
	free(sums.cpu);
	free(sums.device);
	free(covered);
}

/* Add an event for each record that happened during none: PyTorch lists these too. */
static void add_loose_memory(struct ws_ops *ops, uint32_t name)
{
	for (size_t i = 0; i < ops->memory_count; i++) {
		const struct ws_ops_memory *memory = &ops->memory[i];
		struct ws_ops_event *event;

		if (memory->inside)
			continue;
		event = ws_ops_add_event(ops);
		event->start = event->end = memory->time;
		event->process = memory->process;
		event->thread = memory->thread;
		event->kind = WS_OPS_MEMORY;
		event->name = name;
		if (memory->type == 0)
			event->cpu_mem = memory->bytes;
		else
			event->device_mem = memory->bytes;
	}
}

static void attribute_memory(struct ws_ops *ops)
{
	for (size_t i = 0; i < ops->memory_count;) {
		size_t count = 1;

		while (i + count < ops->memory_count &&
		       ops->memory[i + count].process == ops->memory[i].process)
			count++;
		attribute_process_memory(ops, ops->memory + i, count);
		i += count;
	}
	add_loose_memory(ops, UINT32_MAX - 1 - WS_OPS_MEMORY_NAME);
}

/* ---- sums, from the innermost outwards ---- */

static void sum_up_children(struct ws_ops *ops)
{
	for (size_t i = ops->cpu_count; i--;) {
		struct ws_ops_event *event = &ops->events[i], *parent;

		if (event->merged)
			continue;
		if (event->async) {
			event->device_own = 0;
			event->children_cpu = event->end - event->start;
			event->children_cpu_mem = event->cpu_mem;
			event->children_device_mem = event->device_mem;
			continue;
		}
		event->device_total = event->device_own + event->children_device;
		if (event->parent == WS_OPS_NONE)
			continue;
		parent = &ops->events[event->parent];
		parent->children_cpu += event->end - event->start;
		parent->children_device += event->device_total;
		parent->children_cpu_mem += event->cpu_mem;
		parent->children_device_mem += event->device_mem;
	}
}

void ws_ops_nest(struct ws_ops *ops)
{
	find_parents(ops);
	merge_duplicates(ops);
	attribute_memory(ops);
	sum_up_children(ops);
}
