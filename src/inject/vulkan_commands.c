/*
 * vulkan_commands.c - see vulkan.h: command buffers, queues, labels and names.
 *
 * One lock protects all of it. It is held for short whiles in which nothing of the program is
 * called. What is done for each draw or dispatch needs none of it.
 */
#include "inject/vulkan.h"

#include "base/choose.h"

enum {
	BUFFERS = 8192, /* command buffers at once; others have no times */
	PROBES = 32,
	POOLS = 1024,
	QUEUES = 256,
	QUEUE_LABELS = 16,
	LISTED = 4096, /* submitted buffers whose times are to be read */
	LOOKS = 16,    /* at buffers that still run, in one call */
	NAME_MOST = 256,
	COMMAND_BUFFER = 6 /* VK_OBJECT_TYPE_COMMAND_BUFFER */
};
enum { LEVEL_SECONDARY = 1, GRAPHICS_OR_COMPUTE = 3, SUSPENDS_OR_RESUMES = 6 };

struct command_pool {
	struct ws_vulkan_object *device; /* NULL: the entry is free */
	uint64_t handle;
	uint32_t family, first; /* buffer: index + 1 */
};

struct queue {
	void *handle; /* NULL: the entry is free */
	struct ws_vulkan_object *device;
	uint32_t track;
	unsigned depth;
	struct ws_vulkan_label labels[QUEUE_LABELS];
};

static _Atomic bool locked;
static void *handles[BUFFERS]; /* of buffers, by hash */
static struct ws_vulkan_buffer buffers[BUFFERS];
static struct command_pool pools[POOLS];
static unsigned pools_used;
static struct queue queues[QUEUES];
static struct ws_vulkan_buffer *listed[LISTED];
static unsigned listed_count;
static int64_t submissions;

void ws_vulkan_lock(void)
{
	while (atomic_exchange_explicit(&locked, true, memory_order_acquire))
		ws_raw_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

void ws_vulkan_unlock(void)
{
	atomic_store_explicit(&locked, false, memory_order_release);
}

/* ---- texts ---- */

static uint32_t define_text(const char *text)
{
	if (!text)
		return 0;
	return ws_library_define_text(text, strnlen(text, WS_STRING_MAX));
}

static char *put_number(char *to, unsigned number)
{
	char digits[12], *from = digits + sizeof(digits) - 1;

	*from = 0;
	do {
		*--from = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	return stpcpy(to, from);
}

static uint32_t name_queue(const struct ws_vulkan_object *device, uint32_t family, uint32_t index)
{
	char text[96], *to = put_number(stpcpy(text, "Vulkan GPU, device "), device->number);

	to = put_number(stpcpy(to, ", queue "), family);
	put_number(stpcpy(to, "."), index);
	return define_text(text);
}

/* As other colours are: alpha, red, green, blue. */
static int64_t pack_color(const float *color)
{
	static const int order[] = {3, 0, 1, 2};
	int64_t packed = 0;

	for (size_t i = 0; i < WS_COUNT(order); i++) {
		float part = color[order[i]] * 255;

		if (!(part > 0))
			part = 0;
		packed = packed << 8 | (part < 255 ? (int64_t)part : 255);
	}
	return packed ? packed : WS_LIBRARY_NONE;
}

/* ---- queues ---- */

static struct queue *find_queue(const void *handle)
{
	for (unsigned i = 0; i < QUEUES && queues[i].handle; i++)
		if (queues[i].handle == handle)
			return &queues[i];
	return NULL;
}

/* Queues of a destroyed device leave their handles, which another one may get. */
void ws_vulkan_note_queue(void *device, uint32_t family, uint32_t index, void *handle)
{
	struct ws_vulkan_object *object = ws_vulkan_find_object(device);
	struct queue *queue;

	if (!object || !handle)
		return;
	ws_vulkan_lock();
	queue = find_queue(handle);
	for (unsigned i = 0; !queue && i < QUEUES; i++)
		if (!queues[i].handle || !queues[i].device)
			queue = &queues[i];
	if (queue && (queue->handle != handle || queue->device != object)) {
		memset(queue, 0, sizeof(*queue));
		queue->handle = handle;
		queue->device = object;
		queue->track = name_queue(object, family, index);
	}
	ws_vulkan_unlock();
}

void ws_vulkan_note_queue2(void *device, const struct vk_queue_info2 *info, void *queue)
{
	ws_vulkan_note_queue(device, info->family, info->index, queue);
}

/* ---- command buffers ---- */

static unsigned hash_handle(const void *handle)
{
	return (unsigned)(((uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

static struct ws_vulkan_buffer *find_buffer(const void *handle)
{
	unsigned hash = hash_handle(handle);

	for (unsigned i = 0; i < PROBES; i++)
		if (handles[(hash + i) % BUFFERS] == handle)
			return &buffers[(hash + i) % BUFFERS];
	return NULL;
}

static struct command_pool *find_pool(const struct ws_vulkan_object *device, uint64_t handle)
{
	for (unsigned i = 0; i < pools_used; i++)
		if (pools[i].device == device && pools[i].handle == handle)
			return &pools[i];
	return NULL;
}

static void unlist_buffer(struct ws_vulkan_buffer *buffer)
{
	unsigned kept = 0;

	for (unsigned i = 0; buffer->is_listed && i < listed_count; i++)
		if (listed[i] != buffer)
			listed[kept++] = listed[i];
	if (buffer->is_listed)
		listed_count = kept;
	buffer->is_listed = false;
}

/* What it recorded is gone: read its times, if they are there. */
static void reset_buffer(struct ws_vulkan_buffer *buffer)
{
	if (buffer->is_submitted)
		ws_vulkan_read_buffer(buffer);
	unlist_buffer(buffer);
	buffer->is_submitted = buffer->is_resubmitted = buffer->is_timed = false;
	buffer->label_count = buffer->depth = 0;
}

static void forget_buffer(struct ws_vulkan_buffer *buffer)
{
	struct command_pool *pool = find_pool(buffer->device, buffer->pool);
	uint32_t number = (uint32_t)(buffer - buffers) + 1, *at = pool ? &pool->first : NULL;

	reset_buffer(buffer);
	ws_vulkan_free_block(buffer);
	while (at && *at && *at != number)
		at = &buffers[*at - 1].next;
	if (at && *at)
		*at = buffer->next;
	handles[number - 1] = NULL;
}

static void add_buffer(struct command_pool *pool, void *handle, bool is_secondary)
{
	struct ws_vulkan_buffer *buffer = find_buffer(handle);
	unsigned hash = hash_handle(handle), i = 0;

	if (buffer)
		forget_buffer(buffer);
	while (i < PROBES && handles[(hash + i) % BUFFERS])
		i++;
	if (i == PROBES)
		return;
	i = (hash + i) % BUFFERS;
	handles[i] = handle;
	buffer = &buffers[i];
	memset(buffer, 0, offsetof(struct ws_vulkan_buffer, labels));
	buffer->handle = handle;
	buffer->device = pool->device;
	buffer->pool = pool->handle;
	buffer->family = pool->family;
	buffer->is_secondary = is_secondary;
	buffer->block = -1;
	buffer->next = pool->first;
	pool->first = i + 1;
}

void ws_vulkan_note_pool(int result, void *device, const struct vk_command_pool_info *info,
			 const uint64_t *handle)
{
	struct ws_vulkan_object *object = ws_vulkan_find_object(device);
	unsigned i = 0;

	if (result != VK_SUCCESS || !object)
		return;
	ws_vulkan_lock();
	while (i < pools_used && pools[i].device)
		i++;
	if (i < POOLS) {
		pools[i] = (struct command_pool){object, *handle, info->family, 0};
		pools_used = ws_max(pools_used, i + 1);
	}
	ws_vulkan_unlock();
}

static void forget_pool(struct command_pool *pool, bool destroyed)
{
	for (uint32_t i = pool->first, next; i; i = next) {
		next = buffers[i - 1].next;
		reset_buffer(&buffers[i - 1]);
		if (destroyed)
			forget_buffer(&buffers[i - 1]);
	}
	if (destroyed)
		pool->device = NULL;
}

void ws_vulkan_forget_pool(void *device, uint64_t handle, bool destroyed)
{
	struct ws_vulkan_object *object = ws_vulkan_find_object(device);
	struct command_pool *pool;

	ws_vulkan_lock();
	pool = object ? find_pool(object, handle) : NULL;
	if (pool)
		forget_pool(pool, destroyed);
	ws_vulkan_unlock();
}

void ws_vulkan_note_buffers(int result, void *device, const struct vk_buffers_info *info,
			    void *const *made)
{
	struct ws_vulkan_object *object = ws_vulkan_find_object(device);
	struct command_pool *pool;

	if (result != VK_SUCCESS || !object)
		return;
	ws_vulkan_lock();
	pool = find_pool(object, info->pool);
	for (uint32_t i = 0; pool && i < info->count; i++)
		add_buffer(pool, made[i], info->level == LEVEL_SECONDARY);
	ws_vulkan_unlock();
}

void ws_vulkan_forget_buffers(uint32_t count, void *const *freed)
{
	ws_vulkan_lock();
	for (uint32_t i = 0; i < count; i++) {
		struct ws_vulkan_buffer *buffer = freed[i] ? find_buffer(freed[i]) : NULL;

		if (buffer)
			forget_buffer(buffer);
	}
	ws_vulkan_unlock();
}

void ws_vulkan_forget_device(struct ws_vulkan_object *device)
{
	ws_vulkan_lock();
	for (unsigned i = 0; i < pools_used; i++)
		if (pools[i].device == device)
			forget_pool(&pools[i], true);
	for (unsigned i = 0; i < QUEUES; i++)
		if (queues[i].device == device)
			queues[i].device = NULL;
	ws_vulkan_destroy_pools(device);
	ws_vulkan_unlock();
}

void ws_vulkan_reset_buffer(void *handle)
{
	struct ws_vulkan_buffer *buffer;

	ws_vulkan_lock();
	buffer = find_buffer(handle);
	if (buffer)
		reset_buffer(buffer);
	ws_vulkan_unlock();
}

static bool can_time(const struct ws_vulkan_buffer *buffer)
{
	const struct ws_vulkan_object *device = buffer->device;

	return ws_rt->features & WS_FEATURE_VULKAN_GPU && ws_rt_is_collecting() &&
	       !buffer->is_secondary && buffer->family < WS_VULKAN_FAMILIES &&
	       device->timestamp_bits[buffer->family] &&
	       device->family_flags[buffer->family] & GRAPHICS_OR_COMPUTE;
}

void ws_vulkan_begin_buffer(int result, void *handle)
{
	struct ws_vulkan_buffer *buffer;

	if (result != VK_SUCCESS)
		return;
	ws_vulkan_lock();
	buffer = find_buffer(handle);
	if (buffer && can_time(buffer))
		ws_vulkan_begin_times(buffer);
	ws_vulkan_unlock();
}

void ws_vulkan_end_buffer(void *handle)
{
	struct ws_vulkan_buffer *buffer;

	ws_vulkan_lock();
	buffer = find_buffer(handle);
	if (buffer && buffer->is_timed)
		ws_vulkan_end_times(buffer);
	ws_vulkan_unlock();
}

/* ---- submissions ---- */

static void submit_buffer(const struct queue *queue, void *handle)
{
	struct ws_vulkan_buffer *buffer = find_buffer(handle);
	uint32_t track = queue ? queue->track : 0;

	if (!buffer || !buffer->is_timed)
		return;
	if (buffer->is_submitted)
		ws_vulkan_read_buffer(buffer);
	/* On two queues at once, each execution would reset the queries of the other. */
	if (buffer->is_submitted && buffer->track != track)
		buffer->is_timed = false;
	if (!buffer->is_listed && listed_count == LISTED)
		return;
	if (!buffer->is_listed)
		listed[listed_count++] = buffer;
	buffer->is_resubmitted = buffer->is_submitted;
	buffer->is_listed = buffer->is_submitted = true;
	buffer->track = track;
	buffer->previous = buffer->last;
	buffer->last.number = submissions;
	buffer->last.ticks = ws_rt_read_ticks();
	buffer->last.raw = ws_read_raw_ns();
}

static void submit_all(const struct queue *queue, int version, uint32_t count, const void *submits)
{
	const struct vk_submit *first = submits;
	const struct vk_submit2 *second = submits;

	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t k = 0; version == 1 && k < first[i].buffer_count; k++)
			submit_buffer(queue, first[i].buffers[k]);
		for (uint32_t k = 0; version == 2 && k < second[i].buffer_count; k++)
			submit_buffer(queue, second[i].buffers[k].buffer);
	}
}

int64_t ws_vulkan_submit(void *handle, int version, uint32_t count, const void *submits)
{
	int64_t number;

	ws_vulkan_lock();
	number = ++submissions;
	submit_all(find_queue(handle), version, count, submits);
	ws_vulkan_unlock();
	return number;
}

void ws_vulkan_read_times(void *object)
{
	struct ws_vulkan_object *device = ws_vulkan_find_object(object);
	unsigned kept = 0, running = 0;

	ws_vulkan_lock();
	for (unsigned i = 0; i < listed_count; i++) {
		struct ws_vulkan_buffer *buffer = listed[i];

		if (buffer->device != device || running == LOOKS) {
			listed[kept++] = buffer;
		} else if (!ws_vulkan_read_buffer(buffer)) {
			running++;
			listed[kept++] = buffer;
		} else {
			buffer->is_listed = false;
		}
	}
	listed_count = kept;
	ws_vulkan_unlock();
}

/* A frame lasts from one presentation to the next. Nobody says when the first one began. */
void ws_vulkan_end_frame(void *queue, uint64_t time)
{
	struct ws_vulkan_object *device = ws_vulkan_find_object(queue);
	char text[64];
	int64_t kept[2];

	if (!device)
		return;
	ws_vulkan_lock();
	device->frame++;
	if (!device->frame_track) {
		put_number(stpcpy(text, "Vulkan frames, device "), device->number);
		device->frame_track = define_text(text);
	}
	kept[0] = device->frame;
	kept[1] = device->number;
	if (device->frame_start)
		ws_library_write_span(&(struct ws_library_span){
			.table = WS_LIBRARY_TABLE_VULKAN_FRAMES,
			.name = define_text("frame"),
			.track = device->frame_track,
			.start = (int64_t)device->frame_start,
			.end = (int64_t)time,
			.kept = kept,
			.count = WS_COUNT(kept),
		});
	device->frame_start = time;
	ws_vulkan_unlock();
}

/* ---- labels ---- */

static void write_label(const struct ws_vulkan_object *device, const struct ws_vulkan_label *label,
			uint64_t end)
{
	int64_t kept[] = {device->number, label->color, label->name};

	ws_library_write_span(&(struct ws_library_span){
		.table = WS_LIBRARY_TABLE_VULKAN_DEBUG_API,
		.name = label->name,
		.start = (int64_t)label->start,
		.end = (int64_t)end,
		.kept = kept,
		.count = WS_COUNT(kept),
	});
}

static struct ws_vulkan_label read_label(const struct vk_label *label)
{
	struct ws_vulkan_label read = {.begin = -1, .end = -1};

	if (!ws_rt_is_collecting())
		return read;
	read.name = define_text(label->text);
	read.color = pack_color(label->color);
	read.start = ws_rt_read_ticks();
	return read;
}

void ws_vulkan_begin_label(void *handle, const struct vk_label *label)
{
	struct ws_vulkan_buffer *buffer;
	struct ws_vulkan_label *place;

	ws_vulkan_lock();
	buffer = find_buffer(handle);
	if (buffer && buffer->depth < WS_VULKAN_LABELS && buffer->label_count < WS_VULKAN_LABELS) {
		place = &buffer->labels[buffer->label_count];
		*place = read_label(label);
		buffer->open[buffer->depth] = buffer->label_count++;
		place->begin = ws_vulkan_note_time(buffer, false);
	} else if (buffer && buffer->depth < WS_VULKAN_LABELS) {
		buffer->open[buffer->depth] = WS_VULKAN_LABELS;
	}
	if (buffer)
		buffer->depth++;
	ws_vulkan_unlock();
}

/* A label may have been begun in another command buffer: then nothing is known of it here. */
void ws_vulkan_end_label(void *handle)
{
	struct ws_vulkan_buffer *buffer;
	unsigned open;

	ws_vulkan_lock();
	buffer = find_buffer(handle);
	if (buffer && buffer->depth && --buffer->depth < WS_VULKAN_LABELS &&
	    (open = buffer->open[buffer->depth]) < buffer->label_count) {
		struct ws_vulkan_label *label = &buffer->labels[open];

		if (label->begin >= 0)
			label->end = ws_vulkan_note_time(buffer, true);
		if (label->start && ws_rt_is_collecting())
			write_label(buffer->device, label, ws_rt_read_ticks());
	}
	ws_vulkan_unlock();
}

void ws_vulkan_begin_queue_label(void *handle, const struct vk_label *label)
{
	struct queue *queue;

	ws_vulkan_lock();
	queue = find_queue(handle);
	if (queue && queue->depth++ < QUEUE_LABELS)
		queue->labels[queue->depth - 1] = read_label(label);
	ws_vulkan_unlock();
}

void ws_vulkan_end_queue_label(void *handle)
{
	struct queue *queue;

	ws_vulkan_lock();
	queue = find_queue(handle);
	if (queue && queue->depth && --queue->depth < QUEUE_LABELS && queue->device &&
	    queue->labels[queue->depth].start && ws_rt_is_collecting())
		write_label(queue->device, &queue->labels[queue->depth], ws_rt_read_ticks());
	ws_vulkan_unlock();
}

void ws_vulkan_insert_label(void *object, const struct vk_label *label, uint64_t time)
{
	struct ws_vulkan_object *device = ws_vulkan_find_object(object);
	struct ws_vulkan_label read = read_label(label);

	read.start = time;
	if (device)
		write_label(device, &read, time);
}

/* ---- names ---- */

void ws_vulkan_name_object(void *device, const struct vk_object_name *info)
{
	struct ws_vulkan_object *object = ws_vulkan_find_object(device);
	struct ws_vulkan_buffer *buffer;
	char name[NAME_MOST] = "";
	int64_t kept[4];

	if (!object || !info->name)
		return;
	memcpy(name, info->name, strnlen(info->name, sizeof(name) - 1));
	kept[0] = object->number;
	kept[1] = info->type;
	kept[2] = (int64_t)info->handle;
	kept[3] = (int64_t)(uintptr_t)name;
	ws_library_write_row(WS_LIBRARY_TABLE_VULKAN_OBJECT_NAMES, kept, WS_COUNT(kept), 1u << 3);
	if (info->type != COMMAND_BUFFER)
		return;
	ws_vulkan_lock();
	buffer = find_buffer((void *)(uintptr_t)info->handle);
	if (buffer)
		buffer->name = ws_library_define_text(name, strlen(name));
	ws_vulkan_unlock();
}

/* ---- render passes ---- */

void ws_vulkan_note_pass(void *device, const struct vk_head *info)
{
	struct ws_vulkan_object *object = ws_vulkan_find_object(device);

	for (const struct vk_head *at = info->next; object && at; at = at->next)
		if (at->type == VK_MULTIVIEW_INFO && ((const struct vk_multiview_info *)at)->count)
			object->has_views = true;
}

void ws_vulkan_note_pass2(void *device, const struct vk_pass_info2 *info)
{
	struct ws_vulkan_object *object = ws_vulkan_find_object(device);

	for (uint32_t i = 0; object && i < info->subpass_count; i++)
		if (info->subpasses[i].view_mask)
			object->has_views = true;
}

void ws_vulkan_note_rendering(void *buffer, const struct vk_rendering_info *info)
{
	struct ws_vulkan_object *device = ws_vulkan_find_object(buffer);

	if (device && (info->view_mask || info->flags & SUSPENDS_OR_RESUMES))
		device->has_views = true;
}
