/*
 * vulkan_gpu.c - how long the GPU took, by timestamps that command buffers contain: one at their
 * beginning, one at their end, and two for each label. What was noted is read when the next call
 * that submits or waits finds it there.
 *
 * Queries are given out in blocks, one for each command buffer that has been begun; they are reset
 * by the buffer itself. Our pools are made without the program's allocator.
 */
#include "base/choose.h"
#include "inject/vulkan.h"

enum { TOP_OF_PIPE = 1, BOTTOM_OF_PIPE = 0x2000, TIMESTAMPS = 2 };
enum { RESULT_64 = 1, RESULT_WITH_AVAILABILITY = 4 };
enum { WORKLOAD = 54, BATCH = 93 };	/* ENUM_NSYS_EVENT_CLASS */
#define ANCHOR_LASTS UINT64_C(50000000) /* ns; clocks drift apart by 1 us in that time */

struct result {
	uint64_t time, is_there;
};

static void *find_function(const void *object, unsigned function)
{
	return ws_library_find_next(object, 2 * (function - WS_CALL_vulkan_vkCreateInstance));
}
#define FIND(object, name) find_function(object, WS_CALL_vulkan_##name)

/* ---- queries ---- */

static bool add_query_pool(struct ws_vulkan_object *device)
{
	struct vk_query_pool_info info = {.head.type = VK_QUERY_POOL_INFO,
					  .type = TIMESTAMPS,
					  .count = WS_VULKAN_BLOCKS * WS_VULKAN_QUERIES};
	int (*create)(void *, const struct vk_query_pool_info *, const void *, uint64_t *) =
		FIND(device->handle, vkCreateQueryPool);

	if (device->pool_count == WS_VULKAN_POOLS || !create ||
	    create(device->handle, &info, NULL, &device->pools[device->pool_count]))
		return false;
	device->used[device->pool_count++] = 0;
	return true;
}

/* A block that no buffer has; -1 when there is none. */
static int take_block(struct ws_vulkan_object *device)
{
	for (unsigned i = 0; i < WS_VULKAN_POOLS; i++) {
		unsigned bit;

		if (i == device->pool_count && !add_query_pool(device))
			return -1;
		if (device->used[i] == UINT64_MAX)
			continue;
		bit = (unsigned)__builtin_ctzll(~device->used[i]);
		device->used[i] |= UINT64_C(1) << bit;
		return (int)(i * WS_VULKAN_BLOCKS + bit);
	}
	return -1;
}

void ws_vulkan_free_block(struct ws_vulkan_buffer *buffer)
{
	unsigned block = (unsigned)buffer->block;

	if (buffer->block < 0)
		return;
	buffer->device->used[block / WS_VULKAN_BLOCKS] &=
		~(UINT64_C(1) << block % WS_VULKAN_BLOCKS);
	buffer->block = -1;
}

void ws_vulkan_destroy_pools(struct ws_vulkan_object *device)
{
	void (*destroy)(void *, uint64_t, const void *) = FIND(device->handle, vkDestroyQueryPool);

	for (unsigned i = 0; destroy && i < device->pool_count; i++)
		destroy(device->handle, device->pools[i], NULL);
	device->pool_count = 0;
}

static uint64_t get_pool(const struct ws_vulkan_buffer *buffer)
{
	return buffer->device->pools[(unsigned)buffer->block / WS_VULKAN_BLOCKS];
}

static uint32_t get_query(const struct ws_vulkan_buffer *buffer, unsigned i)
{
	return (unsigned)buffer->block % WS_VULKAN_BLOCKS * WS_VULKAN_QUERIES + i;
}

/* ---- what command buffers contain ---- */

static void write_timestamp(struct ws_vulkan_buffer *buffer, uint32_t stage, unsigned i)
{
	void (*write)(void *, uint32_t, uint64_t, uint32_t) =
		FIND(buffer->handle, vkCmdWriteTimestamp);

	if (write)
		write(buffer->handle, stage, get_pool(buffer), get_query(buffer, i));
}

void ws_vulkan_begin_times(struct ws_vulkan_buffer *buffer)
{
	void (*reset)(void *, uint64_t, uint32_t, uint32_t) =
		FIND(buffer->handle, vkCmdResetQueryPool);

	if (buffer->block < 0)
		buffer->block = take_block(buffer->device);
	if (buffer->block < 0 || !reset)
		return;
	reset(buffer->handle, get_pool(buffer), get_query(buffer, 0), WS_VULKAN_QUERIES);
	write_timestamp(buffer, TOP_OF_PIPE, 0);
	buffer->is_timed = true;
}

void ws_vulkan_end_times(struct ws_vulkan_buffer *buffer)
{
	write_timestamp(buffer, BOTTOM_OF_PIPE, 1);
}

int ws_vulkan_note_time(struct ws_vulkan_buffer *buffer, bool at_end)
{
	unsigned label = buffer->label_count - 1;

	if (!buffer->is_timed || buffer->device->has_views ||
	    !(ws_rt->features & WS_FEATURE_VULKAN_LABELS))
		return -1;
	if (at_end)
		label = buffer->open[buffer->depth];
	label = 2 + 2 * label + at_end;
	write_timestamp(buffer, at_end ? BOTTOM_OF_PIPE : TOP_OF_PIPE, label);
	return (int)label;
}

/* ---- the clocks ---- */

/* From one time of the GPU to another, in ns. */
static double measure(const struct ws_vulkan_buffer *buffer, uint64_t from, uint64_t to)
{
	unsigned unused = 64 - ws_min(buffer->device->timestamp_bits[buffer->family], 64u);

	return (double)((int64_t)((to - from) << unused) >> unused) *
	       buffer->device->timestamp_period;
}

static void calibrate(struct ws_vulkan_object *device)
{
	int (*get)(void *, uint32_t, const struct vk_calibrated_info *, uint64_t *, uint64_t *) =
		FIND(device->handle, vkGetCalibratedTimestampsEXT);
	struct vk_calibrated_info info = {.head.type = VK_CALIBRATED_INFO};
	uint64_t now = ws_read_raw_ns(), best = UINT64_MAX;

	if (device->anchor_ticks && now - device->anchor_read < ANCHOR_LASTS)
		return;
	for (int i = 0; get && i < 3; i++) {
		uint64_t raw = ws_read_raw_ns(), from = ws_rt_read_ticks(), to, time = 0, deviation;

		if (get(device->handle, 1, &info, &time, &deviation))
			break;
		to = ws_rt_read_ticks();
		if (to - from >= best)
			continue;
		best = to - from;
		device->anchor_ticks = from + (to - from) / 2;
		device->anchor_time = time;
		device->anchor_raw = raw;
	}
	device->anchor_read = now;
}

/* Without that extension: nothing begins before it is submitted, and something began soon after. */
static void guess_anchor(const struct ws_vulkan_buffer *buffer, uint64_t begin)
{
	struct ws_vulkan_object *device = buffer->device;
	double predicted = 0;

	if (device->anchor_ticks)
		predicted = measure(buffer, device->anchor_time, begin);
	if (device->anchor_ticks &&
	    predicted >= (double)(int64_t)(buffer->last.raw - device->anchor_raw))
		return;
	device->anchor_ticks = buffer->last.ticks;
	device->anchor_raw = buffer->last.raw;
	device->anchor_time = begin;
}

/* ---- rows ---- */

static void write_times(const struct ws_vulkan_buffer *buffer, uint32_t name, int64_t color,
			const struct result *times, bool is_label)
{
	const struct ws_vulkan_object *device = buffer->device;
	double begin = measure(buffer, device->anchor_time, times[0].time),
	       end = begin + measure(buffer, times[0].time, times[1].time);
	int64_t kept[] = {BATCH, buffer->last.number, device->number - 1, device->number, color, 0};

	if (is_label) {
		kept[0] = WORKLOAD;
		kept[5] = name;
	}
	ws_library_write_span(&(struct ws_library_span){
		.table = WS_LIBRARY_TABLE_VULKAN_WORKLOAD,
		.name = name,
		.track = buffer->track,
		.anchor = device->anchor_ticks,
		.start = (int64_t)begin,
		.end = (int64_t)ws_max(begin, end),
		.kept = kept,
		.count = WS_COUNT(kept),
	});
}

static int read_results(const struct ws_vulkan_buffer *buffer, unsigned first, unsigned count,
			struct result *results)
{
	int (*get)(void *, uint64_t, uint32_t, uint32_t, size_t, void *, uint64_t, uint32_t) =
		FIND(buffer->device->handle, vkGetQueryPoolResults);

	memset(results, 0, count * sizeof(*results));
	if (!get)
		return VK_FAILED;
	return get(buffer->device->handle, get_pool(buffer), get_query(buffer, first), count,
		   count * sizeof(*results), results, sizeof(*results),
		   RESULT_64 | RESULT_WITH_AVAILABILITY);
}

static void write_labels(const struct ws_vulkan_buffer *buffer)
{
	struct result results[WS_VULKAN_QUERIES];

	if (!buffer->label_count || read_results(buffer, 0, WS_VULKAN_QUERIES, results) < 0)
		return;
	for (unsigned i = 0; i < buffer->label_count; i++) {
		const struct ws_vulkan_label *label = &buffer->labels[i];
		const struct result *times = &results[2 + 2 * i];

		if (label->begin >= 0 && label->end >= 0 && times[0].is_there && times[1].is_there)
			write_times(buffer, label->name, label->color, times, true);
	}
}

static void write_rows(const struct ws_vulkan_buffer *buffer, const struct result *times)
{
	static const char name[] = "command buffer";

	if (!buffer->track)
		return;
	write_times(buffer,
		    buffer->name ? buffer->name : ws_library_define_text(name, sizeof(name) - 1),
		    WS_LIBRARY_NONE, times, false);
	write_labels(buffer);
}

/* Whether work that began at `begin` is that of the submission before the last, so that what the
 * last one does is still to come. */
static bool is_of_previous(const struct ws_vulkan_buffer *buffer, uint64_t begin)
{
	const struct ws_vulkan_object *device = buffer->device;
	int64_t submitted = (int64_t)(buffer->last.raw - device->anchor_raw);

	return buffer->is_resubmitted &&
	       measure(buffer, device->anchor_time, begin) < (double)submitted;
}

bool ws_vulkan_read_buffer(struct ws_vulkan_buffer *buffer)
{
	struct ws_vulkan_submission last = buffer->last;
	struct result times[2];

	if (!buffer->is_submitted || buffer->block < 0)
		return true;
	/* The first of the GPU's work in it resets the queries: before, they are of the last time.
	 */
	if (read_results(buffer, 0, 2, times) < 0 || !times[0].is_there || !times[1].is_there ||
	    times[0].time == buffer->device->last_begin[buffer->block])
		return false;
	buffer->device->last_begin[buffer->block] = times[0].time;
	if (buffer->device->is_calibrated)
		calibrate(buffer->device);
	else
		guess_anchor(buffer, times[0].time);
	buffer->is_submitted = is_of_previous(buffer, times[0].time);
	buffer->is_resubmitted = false;
	if (buffer->is_submitted)
		buffer->last = buffer->previous;
	write_rows(buffer, times);
	buffer->last = last;
	return !buffer->is_submitted;
}
