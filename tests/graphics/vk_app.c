/*
 * vk_app.c - fills buffers on a GPU with Vulkan and prints a checksum of what is in them.
 *
 * vk_app LIBVULKAN ROUNDS [threads]: each thread has a device, a queue and command buffers of its
 * own. A stand-in for the loader's library does as well: see standin_vulkan.c.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct head {
	uint32_t type;
	const void *next;
};
struct application {
	struct head head;
	const char *name;
	uint32_t version;
	const char *engine;
	uint32_t engine_version, api;
};
struct instance_info {
	struct head head;
	uint32_t flags;
	const struct application *application;
	uint32_t layer_count;
	const char *const *layers;
	uint32_t extension_count;
	const char *const *extensions;
};
struct queue_info {
	struct head head;
	uint32_t flags, family, count;
	const float *priorities;
};
struct device_info {
	struct head head;
	uint32_t flags, queue_count;
	const struct queue_info *queues;
	uint32_t layer_count;
	const char *const *layers;
	uint32_t extension_count;
	const char *const *extensions;
	const void *features;
};
struct pool_info {
	struct head head;
	uint32_t flags, family;
};
struct buffers_info {
	struct head head;
	uint64_t pool;
	uint32_t level, count;
};
struct begin_info {
	struct head head;
	uint32_t flags;
	const void *inheritance;
};
struct submit_info {
	struct head head;
	uint32_t waits;
	const void *semaphores, *stages;
	uint32_t count;
	void *const *buffers;
	uint32_t signals;
	const void *signalled;
};
struct buffer_info {
	struct head head;
	uint32_t flags;
	uint64_t size;
	uint32_t usage, sharing, families;
	const void *family;
};
struct memory_info {
	struct head head;
	uint64_t size;
	uint32_t type;
};
struct requirements {
	uint64_t size, alignment;
	uint32_t types;
};
struct memory_properties {
	uint32_t type_count;
	struct {
		uint32_t flags, heap;
	} types[32];
	uint32_t heap_count;
	uint64_t heaps[32];
};
struct label {
	struct head head;
	const char *text;
	float color[4];
};
struct object_name {
	struct head head;
	uint32_t type;
	uint64_t handle;
	const char *name;
};
struct fence_info {
	struct head head;
	uint32_t flags;
};
/* The program's own allocator, whose uses are counted. */
struct allocator {
	void *user;
	void *(*allocate)(void *, size_t, size_t, int);
	void *(*reallocate)(void *, void *, size_t, size_t, int);
	void (*free)(void *, void *);
	void *internal_allocate, *internal_free;
};

typedef struct allocator A;
#define GLOBAL(X) X(int, vkCreateInstance, (const struct instance_info *, const A *, void **))
#define OF_INSTANCE(X)                                                                     \
	X(int, vkEnumeratePhysicalDevices, (void *, uint32_t *, void **))                  \
	X(void, vkGetPhysicalDeviceMemoryProperties, (void *, struct memory_properties *)) \
	X(int, vkCreateDevice, (void *, const struct device_info *, const A *, void **))   \
	X(void *, vkGetDeviceProcAddr, (void *, const char *))                             \
	X(void, vkDestroyInstance, (void *, const A *))
#define OF_DEVICE(X)                                                                           \
	X(void, vkGetDeviceQueue, (void *, uint32_t, uint32_t, void **))                       \
	X(int, vkCreateCommandPool, (void *, const struct pool_info *, const A *, uint64_t *)) \
	X(int, vkAllocateCommandBuffers, (void *, const struct buffers_info *, void **))       \
	X(void, vkFreeCommandBuffers, (void *, uint64_t, uint32_t, void *const *))             \
	X(int, vkBeginCommandBuffer, (void *, const struct begin_info *))                      \
	X(int, vkEndCommandBuffer, (void *))                                                   \
	X(int, vkResetCommandPool, (void *, uint64_t, uint32_t))                               \
	X(void, vkDestroyCommandPool, (void *, uint64_t, const A *))                           \
	X(int, vkCreateBuffer, (void *, const struct buffer_info *, const A *, uint64_t *))    \
	X(void, vkDestroyBuffer, (void *, uint64_t, const A *))                                \
	X(void, vkGetBufferMemoryRequirements, (void *, uint64_t, struct requirements *))      \
	X(int, vkAllocateMemory, (void *, const struct memory_info *, const A *, uint64_t *))  \
	X(void, vkFreeMemory, (void *, uint64_t, const A *))                                   \
	X(int, vkBindBufferMemory, (void *, uint64_t, uint64_t, uint64_t))                     \
	X(int, vkMapMemory, (void *, uint64_t, uint64_t, uint64_t, uint32_t, void **))         \
	X(void, vkCmdFillBuffer, (void *, uint64_t, uint64_t, uint64_t, uint32_t))             \
	X(void, vkCmdSetDepthBias, (void *, float, float, float))                              \
	X(int, vkQueueSubmit, (void *, uint32_t, const struct submit_info *, uint64_t))        \
	X(int, vkQueueWaitIdle, (void *))                                                      \
	X(int, vkCreateFence, (void *, const struct fence_info *, const A *, uint64_t *))      \
	X(void, vkDestroyFence, (void *, uint64_t, const A *))                                 \
	X(int, vkWaitForFences, (void *, uint32_t, const uint64_t *, uint32_t, uint64_t))      \
	X(int, vkResetFences, (void *, uint32_t, const uint64_t *))                            \
	X(void, vkCmdBeginDebugUtilsLabelEXT, (void *, const struct label *))                  \
	X(void, vkCmdEndDebugUtilsLabelEXT, (void *))                                          \
	X(void, vkQueueBeginDebugUtilsLabelEXT, (void *, const struct label *))                \
	X(void, vkQueueEndDebugUtilsLabelEXT, (void *))                                        \
	X(int, vkSetDebugUtilsObjectNameEXT, (void *, const struct object_name *))             \
	X(int, vkDeviceWaitIdle, (void *))                                                     \
	X(void, vkDestroyDevice, (void *, const A *))

#define X(result, name, types) static result(*name) types;
GLOBAL(X)
OF_INSTANCE(X)
OF_DEVICE(X)
#undef X

enum { SIZE = 1 << 16, NAMES = 1000128002, LABEL = 1000128002 };

static void *physical;
static int rounds;
static _Atomic int allocations, frees;

static void *allocate(void *user, size_t size, size_t alignment, int scope)
{
	void *memory = NULL;

	(void)user, (void)scope;
	allocations++;
	if (posix_memalign(&memory, alignment < 16 ? 16 : alignment, size))
		return NULL;
	return memory;
}

static void *reallocate(void *user, void *old, size_t size, size_t alignment, int scope)
{
	(void)user, (void)alignment, (void)scope;
	return realloc(old, size);
}

static void give_back(void *user, void *memory)
{
	(void)user;
	frees += memory != NULL;
	free(memory);
}

static const A allocator = {.allocate = allocate, .reallocate = reallocate, .free = give_back};

static void check(int result, const char *what)
{
	if (result) {
		fprintf(stderr, "%s: %d\n", what, result);
		exit(4);
	}
}

struct work {
	void *device, *queue, *buffers[2];
	uint64_t pool, buffer, memory, fence;
	uint32_t *mapped;
};

static void make_device(struct work *work)
{
	static const float priority = 1;
	const struct queue_info queue = {{2, NULL}, 0, 0, 1, &priority};
	const struct device_info info = {{3, NULL}, 0, 1, &queue, 0, NULL, 0, NULL, NULL};

	check(vkCreateDevice(physical, &info, &allocator, &work->device), "vkCreateDevice");
	vkGetDeviceQueue(work->device, 0, 0, &work->queue);
}

static void make_buffer(struct work *work)
{
	const struct buffer_info info = {{12, NULL}, 0, SIZE, 2, 0, 0, NULL};
	struct memory_info memory = {{5, NULL}, 0, 0};
	struct requirements requirements;
	struct memory_properties properties;

	check(vkCreateBuffer(work->device, &info, &allocator, &work->buffer), "vkCreateBuffer");
	vkGetBufferMemoryRequirements(work->device, work->buffer, &requirements);
	vkGetPhysicalDeviceMemoryProperties(physical, &properties);
	while (memory.type < properties.type_count &&
	       (!(requirements.types >> memory.type & 1) ||
		(properties.types[memory.type].flags & 6) != 6))
		memory.type++;
	memory.size = requirements.size;
	check(vkAllocateMemory(work->device, &memory, &allocator, &work->memory), "memory");
	check(vkBindBufferMemory(work->device, work->buffer, work->memory, 0), "bind");
	check(vkMapMemory(work->device, work->memory, 0, SIZE, 0, (void **)&work->mapped), "map");
}

static void make_commands(struct work *work)
{
	const struct pool_info info = {{39, NULL}, 2, 0};
	struct buffers_info buffers = {{40, NULL}, 0, 0, 2};
	const struct fence_info fence = {{8, NULL}, 0};
	struct object_name name = {{1000128000, NULL}, 6, 0, "the filler"};

	check(vkCreateCommandPool(work->device, &info, &allocator, &work->pool), "pool");
	buffers.pool = work->pool;
	check(vkAllocateCommandBuffers(work->device, &buffers, work->buffers), "buffers");
	check(vkCreateFence(work->device, &fence, &allocator, &work->fence), "fence");
	name.handle = (uintptr_t)work->buffers[0];
	vkSetDebugUtilsObjectNameEXT(work->device, &name);
}

static void record(struct work *work, void *buffer, uint32_t value)
{
	const struct begin_info begin = {{42, NULL}, 0, NULL};
	const struct label outer = {{LABEL, NULL}, "pass", {1, 0, 0, 1}},
			   inner = {{LABEL, NULL}, "fill", {0, 1, 0, 1}};

	check(vkBeginCommandBuffer(buffer, &begin), "begin");
	vkCmdBeginDebugUtilsLabelEXT(buffer, &outer);
	vkCmdSetDepthBias(buffer, 0.5f, 1.5f, 2.5f);
	for (uint32_t i = 0; i < 2; i++) {
		vkCmdBeginDebugUtilsLabelEXT(buffer, &inner);
		vkCmdFillBuffer(buffer, work->buffer, i * SIZE / 2, SIZE / 2, value + i);
		vkCmdEndDebugUtilsLabelEXT(buffer);
	}
	vkCmdEndDebugUtilsLabelEXT(buffer);
	check(vkEndCommandBuffer(buffer), "end");
}

static void submit(struct work *work, void *const *buffers, uint32_t count)
{
	const struct submit_info info = {{4, NULL}, 0, NULL, NULL, count, buffers, 0, NULL};
	const struct label label = {{LABEL, NULL}, "step", {0, 0, 1, 1}};

	vkQueueBeginDebugUtilsLabelEXT(work->queue, &label);
	check(vkQueueSubmit(work->queue, 1, &info, work->fence), "submit");
	vkQueueEndDebugUtilsLabelEXT(work->queue);
	check(vkWaitForFences(work->device, 1, &work->fence, 1, UINT64_MAX), "wait");
	check(vkResetFences(work->device, 1, &work->fence), "reset");
}

static void *fill(void *argument)
{
	struct work work = {0};
	uint64_t hash = 14695981039346656037u;

	(void)argument;
	make_device(&work);
	make_buffer(&work);
	make_commands(&work);
	for (int i = 0; i < rounds; i++) {
		record(&work, work.buffers[0], (uint32_t)i);
		record(&work, work.buffers[1], (uint32_t)i * 3);
		submit(&work, work.buffers, 2);
		for (size_t k = 0; k < SIZE / 4; k++)
			hash = (hash ^ work.mapped[k]) * 1099511628211u;
		if (i % 4 == 3)
			check(vkResetCommandPool(work.device, work.pool, 0), "reset");
	}
	record(&work, work.buffers[0], 77);
	submit(&work, work.buffers, 1);
	submit(&work, work.buffers, 1); /* once more, as it is */
	hash ^= work.mapped[5];
	vkQueueWaitIdle(work.queue);
	vkFreeCommandBuffers(work.device, work.pool, 1, &work.buffers[1]);
	vkDestroyCommandPool(work.device, work.pool, &allocator);
	vkDestroyFence(work.device, work.fence, &allocator);
	vkDestroyBuffer(work.device, work.buffer, &allocator);
	vkFreeMemory(work.device, work.memory, &allocator);
	vkDeviceWaitIdle(work.device);
	vkDestroyDevice(work.device, &allocator);
	printf("filled %016lx\n", (unsigned long)hash);
	return NULL;
}

int main(int argc, char **argv)
{
	static const char *const extension = "VK_EXT_debug_utils";
	const struct application application = {{0, NULL}, "vk_app", 1,
						"none",	   1,	     1u << 22 | 2u << 12};
	const struct instance_info info = {{1, NULL}, 0, &application, 0, NULL, 1, &extension};
	void *library, *instance = NULL, *(*find)(void *, const char *);
	uint32_t count = 1;
	pthread_t threads[2];

	if (argc < 3 || !(library = dlopen(argv[1], RTLD_NOW))) {
		fprintf(stderr, "%s\n", argc < 3 ? "too few arguments" : dlerror());
		return 5;
	}
	rounds = atoi(argv[2]);
	find = (void *(*)(void *, const char *))dlsym(library, "vkGetInstanceProcAddr");
#define X(result, name, types)                             \
	name = (result(*) types)find(instance, #name);     \
	if (!name) {                                       \
		fprintf(stderr, "%s is missing\n", #name); \
		return 3;                                  \
	}
	GLOBAL(X)
	check(vkCreateInstance(&info, &allocator, &instance), "vkCreateInstance");
	OF_INSTANCE(X)
	OF_DEVICE(X)
#undef X
	if (vkEnumeratePhysicalDevices(instance, &count, &physical) < 0 || !count) {
		fprintf(stderr, "no device\n");
		return 6;
	}
	fill(NULL);
	for (int i = 0; argc > 3 && i < 2; i++)
		pthread_create(&threads[i], NULL, fill, NULL);
	for (int i = 0; argc > 3 && i < 2; i++)
		pthread_join(threads[i], NULL);
	vkDestroyInstance(instance, &allocator);
	printf("used own allocator %d left %d\n", allocations > 0, allocations - frees);
	return 0;
}
