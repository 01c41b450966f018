/*
 * vulkan.h - a layer of Vulkan's loader that records calls, labels, frames and times on the GPU;
 * used by libraries/vulkan.calls. No header of Vulkan is needed: tests/graphics compares what is
 * declared here with the headers where they are installed.
 *
 * vulkan.c knows instances and devices, and the functions behind the wrappers of each;
 * vulkan_commands.c command buffers, queues and labels; vulkan_gpu.c timestamps.
 */
#ifndef WS_INJECT_VULKAN_H
#define WS_INJECT_VULKAN_H

#include "inject/library.h"

/* ---- what is read of Vulkan's structures ---- */

enum {
	VK_SUCCESS = 0,
	VK_NO_MEMORY = -1,
	VK_FAILED = -3,
	VK_INSTANCE_CREATE_LINK = 47, /* VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO */
	VK_DEVICE_CREATE_LINK = 48,
	VK_QUERY_POOL_INFO = 11,
	VK_MULTIVIEW_INFO = 1000053000,
	VK_CALIBRATED_INFO = 1000184000
};

struct vk_head { /* of all structures */
	uint32_t type;
	const struct vk_head *next;
};
struct vk_link { /* of a chain of layers */
	struct vk_link *next;
	void *(*get_instance_function)(void *instance, const char *name);
	void *(*get_device_function)(void *device, const char *name); /* for devices */
};
struct vk_link_info {
	struct vk_head head;
	uint32_t function; /* 0: `link` is meant */
	struct vk_link *link;
};
struct vk_device_info {
	struct vk_head head;
	uint32_t flags, queues;
	const void *queue_infos;
	uint32_t layer_count;
	const char *const *layers;
	uint32_t extension_count;
	const char *const *extensions;
	const void *features;
};
struct vk_queue_info2 {
	struct vk_head head;
	uint32_t flags, family, index;
};
struct vk_command_pool_info {
	struct vk_head head;
	uint32_t flags, family;
};
struct vk_buffers_info {
	struct vk_head head;
	uint64_t pool;
	uint32_t level, count;
};
struct vk_submit {
	struct vk_head head;
	uint32_t wait_count;
	const void *waits, *stages;
	uint32_t buffer_count;
	void *const *buffers;
	uint32_t signal_count;
	const void *signals;
};
struct vk_buffer_submit {
	struct vk_head head;
	void *buffer;
	uint32_t mask;
};
struct vk_submit2 {
	struct vk_head head;
	uint32_t flags, wait_count;
	const void *waits;
	uint32_t buffer_count;
	const struct vk_buffer_submit *buffers;
	uint32_t signal_count;
	const void *signals;
};
struct vk_label { /* VkDebugMarkerMarkerInfoEXT is the same */
	struct vk_head head;
	const char *text;
	float color[4];
};
struct vk_object_name { /* VkDebugMarkerObjectNameInfoEXT is the same */
	struct vk_head head;
	uint32_t type;
	uint64_t handle;
	const char *name;
};
struct vk_query_pool_info {
	struct vk_head head;
	uint32_t flags, type, count, statistics;
};
struct vk_calibrated_info {
	struct vk_head head;
	uint32_t domain;
};
struct vk_family {
	uint32_t flags, queues, timestamp_bits, granularity[3];
};
struct vk_multiview_info {
	struct vk_head head;
	uint32_t count;
	const uint32_t *masks;
};
struct vk_subpass2 {
	struct vk_head head;
	uint32_t flags, bind_point, view_mask, rest[15];
};
struct vk_pass_info2 {
	struct vk_head head;
	uint32_t flags, attachments;
	const void *attachment_infos;
	uint32_t subpass_count;
	const struct vk_subpass2 *subpasses;
};
struct vk_rendering_info {
	struct vk_head head;
	uint32_t flags, area[4], layers, view_mask;
};
struct vk_extension {
	char name[256];
	uint32_t version;
};
struct vk_properties {
	uint32_t versions[5];
	char name[256];
	char limits[444];
	float timestamp_period;
	char rest[100];
};

/* ---- ours ---- */

enum {
	WS_VULKAN_OBJECTS = 256, /* instances and devices at once; no more can be made */
	WS_VULKAN_FAMILIES = 16, /* of queues */
	WS_VULKAN_POOLS = 64,	 /* of queries, of a device */
	WS_VULKAN_BLOCKS = 64,	 /* of a pool: each for a command buffer */
	WS_VULKAN_QUERIES = 64,	 /* of a block: the buffer's two, and two for each label */
	WS_VULKAN_LABELS = WS_VULKAN_QUERIES / 2 - 1,
	WS_VULKAN_FUNCTIONS = WS_LIBRARY_CALLS - WS_CALL_vulkan_vkCreateInstance
};

/* An instance or a device, whose functions the wrappers call. */
struct ws_vulkan_object {
	void *_Atomic key; /* first word of all its objects; NULL: the entry is free */
	bool is_device;
	void *handle;
	void *(*get_instance_function)(void *instance, const char *name);
	void *(*get_device_function)(void *device, const char *name);
	unsigned number; /* of the device, from 1 */
	struct ws_vulkan_object *instance;
	void *_Atomic functions[WS_VULKAN_FUNCTIONS];
	/* the rest is of devices */
	uint32_t timestamp_bits[WS_VULKAN_FAMILIES], family_flags[WS_VULKAN_FAMILIES];
	double timestamp_period; /* ns */
	bool is_calibrated, has_views;
	int64_t frame;
	uint64_t frame_start;
	uint32_t frame_track;
	/* vulkan_gpu.c */
	uint64_t pools[WS_VULKAN_POOLS], used[WS_VULKAN_POOLS]; /* a bit for each block */
	unsigned pool_count;
	uint64_t last_begin[WS_VULKAN_POOLS * WS_VULKAN_BLOCKS]; /* times that were read */
	uint64_t anchor_ticks, anchor_raw, anchor_read;
	uint64_t anchor_time; /* what the GPU said */
};

struct ws_vulkan_label {
	uint64_t start; /* ticks; 0: nothing was collected then */
	uint32_t name;
	int64_t color;
	int begin, end; /* queries of the block; -1: none */
};

struct ws_vulkan_submission {
	int64_t number;
	uint64_t ticks, raw; /* when */
};

struct ws_vulkan_buffer {
	void *handle;
	struct ws_vulkan_object *device;
	uint64_t pool;
	uint32_t family, name;
	bool is_secondary;
	uint32_t next;		      /* of its pool: index + 1 */
	int block;		      /* of queries; -1: none */
	bool is_timed;		      /* since it was begun */
	bool is_submitted, is_listed; /* among those whose times are to be read */
	unsigned label_count, depth;
	struct ws_vulkan_label labels[WS_VULKAN_LABELS];
	unsigned open[WS_VULKAN_LABELS]; /* which of them, by depth */
	uint32_t track;
	bool is_resubmitted; /* before what the submission before the last told was read */
	struct ws_vulkan_submission last, previous;
};

#pragma GCC visibility push(hidden)

/* ---- vulkan.c ---- */

/* Of the device whose function was last called on this thread; 0: of an instance. */
extern __thread unsigned ws_vulkan_number __attribute__((tls_model("initial-exec")));
static inline int64_t ws_vulkan_get_number(void)
{
	return ws_vulkan_number ? ws_vulkan_number : WS_LIBRARY_NONE;
}

/* NULL when it is none of ours. */
struct ws_vulkan_object *ws_vulkan_find_object(const void *dispatchable);
/* A function that the device or instance has, for calls of our own; NULL when it has none. */
void *ws_vulkan_find_function(struct ws_vulkan_object *object, const char *name);
int ws_vulkan_create_instance(const void *info, const void *allocator, void **instance);
void ws_vulkan_destroy_instance(void *instance, const void *allocator);
int ws_vulkan_create_device(void *physical, const void *info, const void *allocator, void **device);
void ws_vulkan_destroy_device(void *device, const void *allocator);

/* ---- vulkan_commands.c ---- */

void ws_vulkan_lock(void);
void ws_vulkan_unlock(void);
void ws_vulkan_note_queue(void *device, uint32_t family, uint32_t index, void *queue);
void ws_vulkan_note_queue2(void *device, const struct vk_queue_info2 *info, void *queue);
void ws_vulkan_note_pool(int result, void *device, const struct vk_command_pool_info *info,
			 const uint64_t *pool);
void ws_vulkan_forget_pool(void *device, uint64_t pool, bool destroyed);
void ws_vulkan_note_buffers(int result, void *device, const struct vk_buffers_info *info,
			    void *const *buffers);
void ws_vulkan_forget_buffers(uint32_t count, void *const *buffers);
void ws_vulkan_forget_device(struct ws_vulkan_object *device);
void ws_vulkan_reset_buffer(void *buffer);
void ws_vulkan_begin_buffer(int result, void *buffer);
void ws_vulkan_end_buffer(void *buffer);
/* Returns the submission's number; `version` is that of its structures. */
int64_t ws_vulkan_submit(void *queue, int version, uint32_t count, const void *submits);
void ws_vulkan_end_frame(void *queue, uint64_t time);
void ws_vulkan_begin_label(void *buffer, const struct vk_label *label);
void ws_vulkan_end_label(void *buffer);
void ws_vulkan_begin_queue_label(void *queue, const struct vk_label *label);
void ws_vulkan_end_queue_label(void *queue);
void ws_vulkan_insert_label(void *object, const struct vk_label *label, uint64_t time);
void ws_vulkan_name_object(void *device, const struct vk_object_name *info);
void ws_vulkan_note_pass(void *device, const struct vk_head *info);
void ws_vulkan_note_pass2(void *device, const struct vk_pass_info2 *info);
void ws_vulkan_note_rendering(void *buffer, const struct vk_rendering_info *info);
/* Record the times that GPUs have told meanwhile, of the object's device. Does not wait. */
void ws_vulkan_read_times(void *object);

/* ---- vulkan_gpu.c; with the lock held ---- */

void ws_vulkan_begin_times(struct ws_vulkan_buffer *buffer);
/* Have the GPU note the time when it gets here; -1 if it cannot. */
int ws_vulkan_note_time(struct ws_vulkan_buffer *buffer, bool at_end);
void ws_vulkan_end_times(struct ws_vulkan_buffer *buffer);
void ws_vulkan_free_block(struct ws_vulkan_buffer *buffer);
/* Write the rows of a submitted buffer; false while it runs. */
bool ws_vulkan_read_buffer(struct ws_vulkan_buffer *buffer);
void ws_vulkan_destroy_pools(struct ws_vulkan_object *device);

#pragma GCC visibility pop
#endif
