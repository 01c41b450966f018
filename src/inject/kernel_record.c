/*
 * kernel_record.c - the records of the kernel hook: a launch with what was requested and how it was
 * measured, its metrics, and each device once.
 */
#include <stdio.h>

#include "inject/kernel.h"

enum { DEVICES = 64 };
/* CUfunction_attribute */
enum {
	ATTRIBUTE_STATIC_SHARED = 1,
	ATTRIBUTE_CONSTANT = 2,
	ATTRIBUTE_LOCAL = 3,
	ATTRIBUTE_REGISTERS = 4,
	ATTRIBUTE_CARVEOUT = 9,
};
enum { ATTRIBUTE_MEMORY_CLOCK = 36 };

static uint32_t put_string(struct ws_thread *thread, const char *text)
{
	if (!text || !*text)
		return 0;
	return ws_rt_find_string(thread, text, ws_min(strlen(text), (size_t)WS_STRING_MAX - 1));
}

static uint32_t number; /* of the next result; one at a time is measured */

static uint32_t find_graph_id(void *exec)
{
	uint32_t id;

	return ws_cupti.GetGraphExecId && !ws_cupti.GetGraphExecId(exec, &id) ? id : UINT32_MAX;
}

static void fill_function(struct ws_rec_kernel_result *record,
			  const struct ws_kernel_launch *launch)
{
	void *function = launch->function;

	record->graph_node = UINT64_MAX;
	record->graph = UINT32_MAX;
	record->shared_percent = UINT32_MAX;
	record->cache_config = UINT32_MAX;
	if (launch->call == WS_KERNEL_RANGE)
		return;
	if (launch->call == WS_KERNEL_LAUNCH_GRAPH) {
		record->graph = find_graph_id(function);
		return;
	}
	if (launch->graph) {
		record->graph = find_graph_id(launch->graph);
		record->graph_node = launch->graph_node;
	}
	record->registers = ws_kernel_function_attribute(function, ATTRIBUTE_REGISTERS);
	record->static_shared = ws_kernel_function_attribute(function, ATTRIBUTE_STATIC_SHARED);
	record->local_thread = ws_kernel_function_attribute(function, ATTRIBUTE_LOCAL);
	record->constant_bytes = ws_kernel_function_attribute(function, ATTRIBUTE_CONSTANT);
	record->executed_shared = ws_kernel_find_shared(launch);
	record->shared_percent = ws_kernel_function_attribute(function, ATTRIBUTE_CARVEOUT);
	record->cache_config = 0;
}

static void fill_texts(struct ws_thread *thread, struct ws_rec_kernel_result *record,
		       const struct ws_kernel_launch *launch,
		       const struct ws_kernel_outcome *outcome)
{
	static char ranges[WS_KERNEL_NAME_ROOM]; /* one launch is measured at a time */
	char name[64];

	record->mangled = put_string(thread, launch->symbol);
	if (launch->call == WS_KERNEL_LAUNCH_GRAPH) {
		snprintf(name, sizeof(name),
			 record->graph == UINT32_MAX ? "CUDA graph" : "CUDA graph %u",
			 record->graph);
		record->demangled = record->name = put_string(thread, name);
	}
	if (launch->range)
		record->demangled = record->name = put_string(thread, launch->range);
	if (!launch->nvtx)
		ws_kernel_name_ranges(ranges, sizeof(ranges));
	record->nvtx = put_string(thread, ws_text_or(launch->nvtx, ranges));
	record->chip = put_string(thread, ws_kernel_chip((int)launch->device));
	record->error = put_string(thread, outcome->error);
	record->sections = put_string(thread, ws_kernel_settings.sections);
	record->replay = put_string(thread, ws_kernel_settings.replay);
	record->cache_control = put_string(thread, ws_kernel_settings.cache_control);
	record->clock_control = put_string(thread, ws_kernel_settings.clock_control);
}

static void write_launch(struct ws_thread *thread, const struct ws_kernel_launch *launch,
			 const struct ws_kernel_outcome *outcome)
{
	struct ws_rec_kernel_result filled = {ws_rec_head(WS_REC_KERNEL_RESULT, sizeof(filled), 0,
							  number)},
				    *record;

	filled.start = outcome->start;
	filled.duration = outcome->duration;
	filled.launch = launch->number;
	filled.instance = launch->instance;
	filled.device = launch->device;
	filled.context = launch->context_uid;
	filled.stream = launch->stream_id;
	filled.correlation = launch->correlation;
	memcpy(filled.grid, launch->grid, sizeof(filled.grid));
	memcpy(filled.block, launch->block, sizeof(filled.block));
	memcpy(filled.cluster, launch->cluster, sizeof(filled.cluster));
	filled.dynamic_shared = launch->shared;
	filled.cooperative = launch->cooperative;
	filled.passes = outcome->passes;
	filled.thread = launch->thread;
	fill_function(&filled, launch);
	fill_texts(thread, &filled, launch, outcome);
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_CUDA);
	if (!record)
		return;
	*record = filled;
	ws_rt_commit(thread, record, sizeof(*record));
}

void ws_kernel_write_values(struct ws_thread *thread, uint32_t result,
			    const struct ws_kernel_value *values, size_t count)
{
	size_t bytes = sizeof(struct ws_rec_kernel_metrics) + count * sizeof(*values);
	struct ws_rec_kernel_metrics *record = ws_rt_reserve(thread, bytes, WS_LOSS_CUDA);

	if (!record)
		return;
	record->rec =
		(struct ws_rec){.kind = WS_REC_KERNEL_METRICS, .value = (uint32_t)(bytes / 8)};
	record->result = result;
	record->count = (uint32_t)count;
	memcpy(record->values, values, count * sizeof(*values));
	ws_rt_commit(thread, record, bytes);
}

static void write_some_metrics(struct ws_thread *thread, const struct ws_kernel_outcome *outcome,
			       size_t from, size_t count)
{
	const char *const *names, *const *units;
	struct ws_kernel_value values[WS_KERNEL_VALUES];

	ws_kernel_metric_names(outcome->counters, &names, &units);
	for (size_t i = 0; i < count; i++)
		values[i] = (struct ws_kernel_value){put_string(thread, names[from + i]),
						     put_string(thread, units[from + i]),
						     outcome->values[from + i]};
	ws_kernel_write_values(thread, number, values, count);
}

static void write_metrics(struct ws_thread *thread, const struct ws_kernel_outcome *outcome)
{
	const char *const *names, *const *units;
	size_t count = ws_kernel_metric_names(outcome->counters, &names, &units);

	for (size_t i = 0; i < count; i += WS_KERNEL_VALUES)
		write_some_metrics(thread, outcome, i, ws_min(count - i, (size_t)WS_KERNEL_VALUES));
}

/* ---- devices ---- */

static const int attributes[] = {
#define X(column, attribute) attribute,
	WS_KERNEL_DEVICE_ATTRIBUTES(X)
#undef X
};

static void format_uuid(char *text, size_t room, int device)
{
	unsigned char id[16];
	size_t n;

	*text = 0;
	if (!ws_kernel_driver.device_uuid || ws_kernel_driver.device_uuid(id, device))
		return;
	n = (size_t)snprintf(text, room, "GPU-");
	for (int i = 0; i < 16; i++) {
		bool dash = i == 4 || i == 6 || i == 8 || i == 10;

		n += (size_t)snprintf(text + n, room - n, dash ? "-%02x" : "%02x", id[i]);
	}
}

static void fill_device(struct ws_thread *thread, struct ws_rec_kernel_device *record, int device)
{
	char text[256] = "";
	size_t bytes = 0;

	for (size_t i = 0; i < WS_COUNT(attributes); i++)
		record->values[i] = ws_kernel_device_attribute(device, attributes[i]);
	record->memory_clock = ws_kernel_device_attribute(device, ATTRIBUTE_MEMORY_CLOCK);
	if (ws_kernel_driver.device_memory && !ws_kernel_driver.device_memory(&bytes, device))
		record->memory_bytes = bytes;
	if (!ws_kernel_driver.device_name(text, sizeof(text), device))
		record->name = put_string(thread, text);
	if (ws_kernel_driver.device_bus && !ws_kernel_driver.device_bus(text, sizeof(text), device))
		record->bus = put_string(thread, text);
	format_uuid(text, sizeof(text), device);
	record->uuid = put_string(thread, text);
	record->chip = put_string(thread, ws_kernel_chip(device));
}

static void write_device(struct ws_thread *thread, uint32_t device)
{
	static uint64_t written;
	struct ws_rec_kernel_device filled = {ws_rec_head(WS_REC_KERNEL_DEVICE, sizeof(filled), 0,
							  device)},
				    *record;

	if (device >= DEVICES || written >> device & 1)
		return;
	written |= UINT64_C(1) << device;
	fill_device(thread, &filled, (int)device);
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_CUDA);
	if (!record)
		return;
	*record = filled;
	ws_rt_commit(thread, record, sizeof(*record));
}

void ws_kernel_write_result(const struct ws_kernel_launch *launch,
			    const struct ws_kernel_outcome *outcome)
{
	struct ws_thread *thread = ws_rt_enter();

	if (!thread)
		return;
	write_device(thread, launch->device);
	write_launch(thread, launch, outcome);
	if (outcome->values)
		write_metrics(thread, outcome);
	ws_kernel_write_links(thread, number, launch->device);
	ws_kernel_write_details(thread, number, outcome->details);
	ws_rt_leave(thread);
	number++;
}
