/*
 * standin_vulkan.c - what vk_app.c uses of Vulkan, for machines without it: a loader, which puts
 * our layer into the chain as the real one does, and a driver that runs command buffers as they are
 * submitted. What a program may not do makes it abort.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VK __attribute__((visibility("default")))
enum { COMMANDS = 64, QUERIES = 4096, LINK_OF_INSTANCE = 47, LINK_OF_DEVICE = 48 };

typedef void *get_fn(void *object, const char *name);
typedef int create_fn(void *from, const void *info, const void *allocator, void **made);

struct head {
	uint32_t type;
	const void *next;
};
struct link {
	struct link *next;
	get_fn *get_instance_function, *get_device_function;
};
struct link_info {
	struct head head;
	uint32_t function;
	struct link *link;
};
struct negotiation {
	uint32_t type;
	void *next;
	uint32_t version;
	get_fn *get_instance_function, *get_device_function, *get_physical_device_function;
};
struct object { /* begins with what all objects of its device or instance share */
	void *dispatch;
	struct object *own;
};
struct command {
	enum { FILL, RESET, STAMP } kind;
	uint64_t object, offset, size;
	uint32_t value;
};
struct buffer {
	struct object object;
	bool is_open;
	unsigned count;
	struct command commands[COMMANDS];
};
struct pool {
	struct buffer *buffers[8];
	unsigned count;
};
struct queries {
	uint64_t times[QUERIES];
	bool is_reset[QUERIES], is_there[QUERIES];
};
struct memory {
	char bytes[1 << 16];
};
struct resource {
	struct memory *memory;
};

static struct negotiation layer;
static struct object instance, physical, queues[64];
static unsigned queue_count;
static bool is_made;
static get_fn tell;

static void require(bool right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "stand-in: %s\n", what);
	abort();
}

/* ---- the driver ---- */

static int create_instance(const void *info, const void *allocator, void **made)
{
	(void)info, (void)allocator;
	instance.dispatch = physical.dispatch = &instance;
	*made = &instance;
	return 0;
}

static void destroy_instance(void *object, const void *allocator)
{
	(void)allocator;
	require(object == &instance, "another instance");
}

static int list_devices(void *object, uint32_t *count, void **devices)
{
	(void)object;
	*count = 1;
	if (devices)
		devices[0] = &physical;
	return 0;
}

static int list_extensions(void *object, const char *of, uint32_t *count, void *extensions)
{
	(void)object, (void)of, (void)extensions;
	*count = 0;
	return 0;
}

static void get_memory_properties(void *object, uint32_t *properties)
{
	(void)object;
	memset(properties, 0, 4 + 32 * 8);
	properties[0] = 1;
	properties[1] = 6;
}

static void get_properties(void *object, char *properties)
{
	const float period = 2; /* ns */

	(void)object;
	memset(properties, 0, 824);
	memcpy(properties + 720, &period, sizeof(period));
}

static void get_families(void *object, uint32_t *count, uint32_t *families)
{
	(void)object;
	*count = 1;
	if (families)
		memcpy(families, (uint32_t[]){7, 1, 40, 1, 1, 1}, 24);
}

static int create_device(void *from, const void *info, const void *allocator, void **made)
{
	struct object *device = calloc(1, sizeof(*device));

	(void)info, (void)allocator;
	require(from == &physical, "another physical device");
	device->dispatch = device;
	*made = device;
	return 0;
}

static void destroy_device(void *device, const void *allocator)
{
	(void)allocator;
	free(device);
}

static void get_queue(void *device, uint32_t family, uint32_t index, void **queue)
{
	unsigned i = __atomic_fetch_add(&queue_count, 1, __ATOMIC_RELAXED);

	require(!family && !index && i < 64, "another queue");
	queues[i].dispatch = device;
	*queue = &queues[i];
}

static int create_pool(void *device, const void *info, const void *allocator, uint64_t *made)
{
	(void)device, (void)info, (void)allocator;
	*made = (uintptr_t)calloc(1, sizeof(struct pool));
	return 0;
}

static int allocate_buffers(void *device, const uint32_t *info, void **made)
{
	struct pool *pool;

	memcpy(&pool, info + 4, sizeof(pool));
	for (uint32_t i = 0; i < info[7]; i++) {
		struct buffer *buffer = calloc(1, sizeof(*buffer));

		buffer->object.dispatch = device;
		pool->buffers[pool->count++] = buffer;
		made[i] = buffer;
	}
	return 0;
}

static void free_buffers(void *device, uint64_t handle, uint32_t count, void *const *freed)
{
	struct pool *pool = (void *)(uintptr_t)handle;

	(void)device;
	for (uint32_t i = 0; i < count; i++)
		for (unsigned k = 0; k < pool->count; k++)
			if (pool->buffers[k] == freed[i])
				pool->buffers[k] = pool->buffers[--pool->count];
	for (uint32_t i = 0; i < count; i++)
		free(freed[i]);
}

static int reset_pool(void *device, uint64_t handle, uint32_t flags)
{
	struct pool *pool = (void *)(uintptr_t)handle;

	(void)device, (void)flags;
	for (unsigned k = 0; k < pool->count; k++)
		pool->buffers[k]->count = 0;
	return 0;
}

static void destroy_pool(void *device, uint64_t handle, const void *allocator)
{
	struct pool *pool = (void *)(uintptr_t)handle;

	(void)device, (void)allocator;
	for (unsigned k = 0; k < pool->count; k++)
		free(pool->buffers[k]);
	free(pool);
}

static int begin_buffer(struct buffer *buffer, const void *info)
{
	(void)info;
	require(!buffer->is_open, "a buffer is begun twice");
	buffer->is_open = true;
	buffer->count = 0;
	return 0;
}

static int end_buffer(struct buffer *buffer)
{
	require(buffer->is_open, "a buffer is ended twice");
	buffer->is_open = false;
	return 0;
}

static void add_command(struct buffer *buffer, struct command command)
{
	require(buffer->is_open && buffer->count < COMMANDS, "a command outside of a buffer");
	buffer->commands[buffer->count++] = command;
}

static void fill_buffer(struct buffer *buffer, uint64_t object, uint64_t offset, uint64_t size,
			uint32_t value)
{
	add_command(buffer, (struct command){FILL, object, offset, size, value});
}

static void reset_queries(struct buffer *buffer, uint64_t pool, uint32_t first, uint32_t count)
{
	require(first + count <= QUERIES, "too many queries");
	add_command(buffer, (struct command){RESET, pool, first, count, 0});
}

static void write_time(struct buffer *buffer, uint32_t stage, uint64_t pool, uint32_t query)
{
	require(stage == 1 || stage == 0x2000, "another stage");
	add_command(buffer, (struct command){STAMP, pool, query, 0, 0});
}

static void set_depth_bias(struct buffer *buffer, float constant, float clamp, float slope)
{
	require(buffer->is_open && constant == 0.5f && clamp == 1.5f && slope == 2.5f, "numbers");
}

static void execute(const struct command *command)
{
	struct queries *queries = (void *)(uintptr_t)command->object;
	const struct resource *resource = (const void *)queries;
	struct timespec now;

	switch (command->kind) {
	case FILL:
		for (uint64_t i = 0; i < command->size; i += 4)
			memcpy(resource->memory->bytes + command->offset + i, &command->value, 4);
		return;
	case RESET:
		for (uint64_t i = command->offset; i < command->offset + command->size; i++) {
			queries->is_reset[i] = true;
			queries->is_there[i] = false;
		}
		return;
	case STAMP:
		require(queries->is_reset[command->offset], "a query is not reset");
		clock_gettime(CLOCK_MONOTONIC, &now);
		queries->times[command->offset] =
			((uint64_t)now.tv_sec * 500000000u + (uint64_t)now.tv_nsec / 2) &
			((UINT64_C(1) << 40) - 1);
		queries->is_reset[command->offset] = false;
		queries->is_there[command->offset] = true;
		return;
	}
}

struct submit {
	struct head head;
	uint32_t waits;
	const void *semaphores, *stages;
	uint32_t count;
	struct buffer *const *buffers;
	uint32_t signals;
	const void *signalled;
};

static int submit(void *queue, uint32_t count, const struct submit *submits, uint64_t fence)
{
	(void)queue, (void)fence;
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t k = 0; k < submits[i].count; k++)
			for (unsigned n = 0; n < submits[i].buffers[k]->count; n++)
				execute(&submits[i].buffers[k]->commands[n]);
	return 0;
}

static int create_queries(void *device, const uint32_t *info, const void *allocator, uint64_t *made)
{
	(void)device;
	require(!allocator && info[5] == 2 && info[6] <= QUERIES, "another pool of queries");
	*made = (uintptr_t)calloc(1, sizeof(struct queries));
	return 0;
}

static void destroy_queries(void *device, uint64_t pool, const void *allocator)
{
	(void)device, (void)allocator;
	free((void *)(uintptr_t)pool);
}

static int read_queries(void *device, uint64_t pool, uint32_t first, uint32_t count, size_t size,
			uint64_t *out, uint64_t stride, uint32_t flags)
{
	const struct queries *queries = (const void *)(uintptr_t)pool;
	bool all = true;

	(void)device;
	require(flags == 5 && stride == 16 && size == stride * count, "another way of reading");
	for (uint32_t i = 0; i < count; i++) {
		out[2 * i] = queries->times[first + i];
		out[2 * i + 1] = queries->is_there[first + i];
		all &= queries->is_there[first + i];
	}
	return !all;
}

static int create_resource(void *device, const void *info, const void *allocator, uint64_t *made)
{
	(void)device, (void)info, (void)allocator;
	*made = (uintptr_t)calloc(1, sizeof(struct resource));
	return 0;
}

static int create_memory(void *device, const void *info, const void *allocator, uint64_t *made)
{
	(void)device, (void)info, (void)allocator;
	*made = (uintptr_t)calloc(1, sizeof(struct memory));
	return 0;
}

static void destroy_memory(void *device, uint64_t made, const void *allocator)
{
	destroy_queries(device, made, allocator);
}

static void get_requirements(void *device, uint64_t resource, uint64_t *requirements)
{
	(void)device, (void)resource;
	requirements[0] = sizeof(struct memory);
	requirements[1] = requirements[2] = 1;
}

static int bind_memory(void *device, uint64_t resource, uint64_t memory, uint64_t offset)
{
	(void)device, (void)offset;
	((struct resource *)(uintptr_t)resource)->memory = (void *)(uintptr_t)memory;
	return 0;
}

static int map_memory(void *device, uint64_t memory, uint64_t offset, uint64_t size, uint32_t flags,
		      void **mapped)
{
	(void)device, (void)offset, (void)size, (void)flags;
	*mapped = ((struct memory *)(uintptr_t)memory)->bytes;
	return 0;
}

static int succeed(void)
{
	return 0;
}

static void *look_up(const char *name)
{
	static const struct {
		const char *name;
		void *function;
	} functions[] = {
		{"vkCreateInstance", (void *)create_instance},
		{"vkDestroyInstance", (void *)destroy_instance},
		{"vkEnumeratePhysicalDevices", (void *)list_devices},
		{"vkEnumerateDeviceExtensionProperties", (void *)list_extensions},
		{"vkGetPhysicalDeviceMemoryProperties", (void *)get_memory_properties},
		{"vkGetPhysicalDeviceProperties", (void *)get_properties},
		{"vkGetPhysicalDeviceQueueFamilyProperties", (void *)get_families},
		{"vkCreateDevice", (void *)create_device},
		{"vkDestroyDevice", (void *)destroy_device},
		{"vkGetDeviceProcAddr", (void *)tell},
		{"vkGetDeviceQueue", (void *)get_queue},
		{"vkCreateCommandPool", (void *)create_pool},
		{"vkAllocateCommandBuffers", (void *)allocate_buffers},
		{"vkFreeCommandBuffers", (void *)free_buffers},
		{"vkResetCommandPool", (void *)reset_pool},
		{"vkDestroyCommandPool", (void *)destroy_pool},
		{"vkBeginCommandBuffer", (void *)begin_buffer},
		{"vkEndCommandBuffer", (void *)end_buffer},
		{"vkCmdFillBuffer", (void *)fill_buffer},
		{"vkCmdResetQueryPool", (void *)reset_queries},
		{"vkCmdWriteTimestamp", (void *)write_time},
		{"vkCmdSetDepthBias", (void *)set_depth_bias},
		{"vkQueueSubmit", (void *)submit},
		{"vkCreateQueryPool", (void *)create_queries},
		{"vkDestroyQueryPool", (void *)destroy_queries},
		{"vkGetQueryPoolResults", (void *)read_queries},
		{"vkCreateBuffer", (void *)create_resource},
		{"vkDestroyBuffer", (void *)destroy_memory},
		{"vkAllocateMemory", (void *)create_memory},
		{"vkFreeMemory", (void *)destroy_memory},
		{"vkGetBufferMemoryRequirements", (void *)get_requirements},
		{"vkBindBufferMemory", (void *)bind_memory},
		{"vkMapMemory", (void *)map_memory},
		{"vkCreateFence", (void *)succeed},
		{"vkDestroyFence", (void *)succeed},
		{"vkWaitForFences", (void *)succeed},
		{"vkResetFences", (void *)succeed},
		{"vkQueueWaitIdle", (void *)succeed},
		{"vkDeviceWaitIdle", (void *)succeed},
	};

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!strcmp(functions[i].name, name))
			return functions[i].function;
	return NULL;
}

/* ---- the loader ---- */

/* Afterwards the real loader tells the functions of the whole chain. */
static void *tell(void *object, const char *name)
{
	if (is_made && object == &instance && layer.get_instance_function)
		return layer.get_instance_function(object, name);
	return look_up(name);
}

static void *tell_driver(void *object, const char *name)
{
	(void)object;
	return look_up(name);
}

/* The layer that the environment names, from the first folder that has it. */
static void load_layer(void)
{
	const char *names = getenv("VK_INSTANCE_LAYERS"), *folder = getenv("VK_ADD_LAYER_PATH");
	char path[4096], manifest[4096] = "", library[256] = "";
	int (*negotiate)(struct negotiation *);
	const char *at;
	void *opened;
	FILE *file;

	if (!names || !folder || !strstr(names, "WARPSIGHT"))
		return;
	snprintf(path, sizeof(path), "%s/vulkan_layer.json", folder);
	file = fopen(path, "r");
	require(file && fread(manifest, 1, sizeof(manifest) - 1, file), "no manifest");
	fclose(file);
	at = strstr(manifest, "\"library_path\": \"");
	require(at && sscanf(at + 17, "%255[^\"]", library) == 1, "no library");
	snprintf(path, sizeof(path), "%s/%s", folder, library);
	opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	require(opened != NULL, "the layer cannot be opened");
	negotiate = (int (*)(struct negotiation *))dlsym(opened,
							 "vkNegotiateLoaderLayerInterfaceVersion");
	layer.version = 2;
	require(negotiate && !negotiate(&layer), "no agreement");
}

static int load_instance(const struct head *info, const void *allocator, void **made)
{
	struct link link = {NULL, tell, NULL};
	struct link_info chain = {{LINK_OF_INSTANCE, info->next}, 0, &link};
	char copy[64];
	int result;

	load_layer();
	if (!layer.get_instance_function) {
		is_made = true;
		return create_instance(info, allocator, made);
	}
	memcpy(copy, info, sizeof(copy));
	((struct head *)copy)->next = &chain;
	result = ((int (*)(const void *, const void *, void **))layer.get_instance_function(
		NULL, "vkCreateInstance"))(copy, allocator, made);
	is_made = true;
	return result;
}

static int load_device(void *from, const struct head *info, const void *allocator, void **made)
{
	struct link link = {NULL, tell_driver, tell_driver};
	struct link_info chain = {{LINK_OF_DEVICE, info->next}, 0, &link};
	char copy[72];

	if (!layer.get_instance_function)
		return create_device(from, info, allocator, made);
	memcpy(copy, info, sizeof(copy));
	((struct head *)copy)->next = &chain;
	return ((create_fn *)layer.get_instance_function(&instance, "vkCreateDevice"))(
		from, copy, allocator, made);
}

/* Labels belong to the loader: drivers need not have them. An object begins with its device. */
#define LABEL_FUNCTION(name)                                                                      \
	static int call_##name(void *object, const void *label)                                   \
	{                                                                                         \
		void *device = *(void **)object;                                                  \
                                                                                                  \
		if (!layer.get_device_function)                                                   \
			return 0;                                                                 \
		return ((int (*)(void *, const void *))layer.get_device_function(device, #name))( \
			object, label);                                                           \
	}
LABEL_FUNCTION(vkCmdBeginDebugUtilsLabelEXT)
LABEL_FUNCTION(vkCmdEndDebugUtilsLabelEXT)
LABEL_FUNCTION(vkQueueBeginDebugUtilsLabelEXT)
LABEL_FUNCTION(vkQueueEndDebugUtilsLabelEXT)
LABEL_FUNCTION(vkSetDebugUtilsObjectNameEXT)

static void *find_label_function(const char *name)
{
#define FIND(function)                \
	if (!strcmp(name, #function)) \
		return (void *)call_##function;
	FIND(vkCmdBeginDebugUtilsLabelEXT)
	FIND(vkCmdEndDebugUtilsLabelEXT)
	FIND(vkQueueBeginDebugUtilsLabelEXT)
	FIND(vkQueueEndDebugUtilsLabelEXT)
	FIND(vkSetDebugUtilsObjectNameEXT)
#undef FIND
	return NULL;
}

VK void *vkGetInstanceProcAddr(void *object, const char *name)
{
	if (!strcmp(name, "vkCreateInstance"))
		return (void *)load_instance;
	if (!strcmp(name, "vkCreateDevice"))
		return (void *)load_device;
	if (strstr(name, "DebugUtils"))
		return find_label_function(name);
	if (layer.get_instance_function)
		return layer.get_instance_function(object, name);
	return look_up(name);
}
