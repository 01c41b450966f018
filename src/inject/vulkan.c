/*
 * vulkan.c - see vulkan.h: the layer's entry points, instances and devices.
 *
 * The loader asks a layer for each function and gets the wrapper, which calls the next layer's or
 * the driver's function. These are found by the first word of an object, which all objects of a
 * device share.
 */
#include "inject/vulkan.h"

#include <sys/mman.h>

typedef int create_instance_fn(const void *info, const void *allocator, void **instance);
typedef int create_device_fn(void *physical, const void *info, const void *allocator,
			     void **device);
typedef void destroy_fn(void *object, const void *allocator);

__thread unsigned ws_vulkan_number;

static struct ws_vulkan_object objects[WS_VULKAN_OBJECTS];
static _Atomic unsigned objects_used, devices_made;
static const char calibrated[] = "VK_EXT_calibrated_timestamps";

__attribute__((constructor)) static void read_options(void)
{
	ws_rt_init();
	ws_library_quiet = ws_rt->arena && !(ws_rt->features & WS_FEATURE_VULKAN_CALLS);
}

/* ---- objects and their functions ---- */

static void *read_key(const void *dispatchable)
{
	return *(void *const *)dispatchable;
}

static struct ws_vulkan_object *find_by_key(const void *key)
{
	unsigned count = atomic_load_explicit(&objects_used, memory_order_acquire);

	for (unsigned i = 0; i < count; i++)
		if (atomic_load_explicit(&objects[i].key, memory_order_acquire) == key)
			return &objects[i];
	return NULL;
}

struct ws_vulkan_object *ws_vulkan_find_object(const void *dispatchable)
{
	return dispatchable ? find_by_key(read_key(dispatchable)) : NULL;
}

/* An entry whose key is still to be set; NULL when there are too many. */
static struct ws_vulkan_object *add_object(void)
{
	for (unsigned i = 0; i < WS_VULKAN_OBJECTS; i++) {
		void *none = NULL;
		unsigned count = atomic_load(&objects_used);

		if (!atomic_compare_exchange_strong(&objects[i].key, &none, &objects[i]))
			continue;
		while (count < i + 1 && !atomic_compare_exchange_weak(&objects_used, &count, i + 1))
			;
		memset((char *)&objects[i] + sizeof(objects[i].key), 0,
		       sizeof(objects[i]) - sizeof(objects[i].key));
		return &objects[i];
	}
	return NULL;
}

static void *ask_next(struct ws_vulkan_object *object, const char *name)
{
	if (object->is_device)
		return object->get_device_function(object->handle, name);
	return object->get_instance_function(object->handle, name);
}

/* All functions are asked for now: afterwards, the loader would tell those of the whole chain of
 * layers, which begins before ours. */
static void fill_functions(struct ws_vulkan_object *object)
{
	for (unsigned i = 0; i < WS_VULKAN_FUNCTIONS; i++)
		atomic_store_explicit(&object->functions[i],
				      ask_next(object, ws_library_behinds[2 * i].name),
				      memory_order_relaxed);
}

void *ws_vulkan_find_function(struct ws_vulkan_object *object, const char *name)
{
	struct ws_library_behind *wrapped = ws_library_find_wrapped(name);

	if (!wrapped)
		return ask_next(object, name);
	return atomic_load(&object->functions[(wrapped - ws_library_behinds) / 2]);
}

/* Drivers need not have the functions of labels, which then have nothing to do. */
static uintptr_t do_nothing(void)
{
	return VK_SUCCESS;
}

static bool is_label_function(const char *name)
{
	return strstr(name, "DebugUtils") != NULL;
}

void *ws_library_find_next(const void *dispatchable, unsigned i)
{
	struct ws_vulkan_object *object = ws_vulkan_find_object(dispatchable);
	void *found;

	if (ws_unlikely(!object))
		return NULL;
	ws_vulkan_number = object->number;
	found = atomic_load_explicit(&object->functions[i / 2], memory_order_relaxed);
	if (ws_likely(found != NULL))
		return found;
	return is_label_function(ws_library_behinds[i].name) ? (void *)do_nothing : NULL;
}

/* ---- instances ---- */

static struct vk_link_info *find_link(const void *info, uint32_t type)
{
	const struct vk_head *at = ((const struct vk_head *)info)->next;

	for (; at; at = at->next)
		if (at->type == type && ((const struct vk_link_info *)at)->function == 0)
			return (struct vk_link_info *)at;
	return NULL;
}

int ws_vulkan_create_instance(const void *info, const void *allocator, void **instance)
{
	struct vk_link_info *link = find_link(info, VK_INSTANCE_CREATE_LINK);
	struct ws_vulkan_object *object;
	create_instance_fn *create;
	int result;

	if (!link)
		return VK_FAILED;
	object = add_object();
	if (!object)
		return VK_NO_MEMORY;
	object->get_instance_function = link->link->get_instance_function;
	link->link = link->link->next;
	create = (create_instance_fn *)object->get_instance_function(NULL, "vkCreateInstance");
	result = create ? create(info, allocator, instance) : VK_FAILED;
	if (result != VK_SUCCESS) {
		atomic_store(&object->key, NULL);
		return result;
	}
	object->handle = *instance;
	fill_functions(object);
	atomic_store(&object->key, read_key(*instance));
	return result;
}

void ws_vulkan_destroy_instance(void *instance, const void *allocator)
{
	struct ws_vulkan_object *object = ws_vulkan_find_object(instance);
	destroy_fn *destroy;

	if (!object)
		return;
	destroy = (destroy_fn *)ws_vulkan_find_function(object, "vkDestroyInstance");
	atomic_store(&object->key, NULL);
	if (destroy)
		destroy(instance, allocator);
}

/* ---- devices ---- */

/* What is needed to measure times. */
static void read_device(struct ws_vulkan_object *device, void *physical)
{
	void (*get_families)(void *, uint32_t *, struct vk_family *) = ws_vulkan_find_function(
		device->instance, "vkGetPhysicalDeviceQueueFamilyProperties");
	void (*get_properties)(void *, struct vk_properties *) =
		ws_vulkan_find_function(device->instance, "vkGetPhysicalDeviceProperties");
	struct vk_family families[WS_VULKAN_FAMILIES];
	struct vk_properties properties;
	uint32_t count = WS_VULKAN_FAMILIES;

	if (!get_families || !get_properties)
		return;
	get_properties(physical, &properties);
	device->timestamp_period = (double)properties.timestamp_period;
	get_families(physical, &count, families);
	for (uint32_t i = 0; i < count && i < WS_VULKAN_FAMILIES; i++) {
		device->timestamp_bits[i] = families[i].timestamp_bits;
		device->family_flags[i] = families[i].flags;
	}
}

/* Memory for lists while a device is made; NULL when there is none. */
static void *map_memory(size_t bytes)
{
	long memory = ws_raw_syscall(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory < 0 && memory > -4096 ? NULL : (void *)memory;
}

static void unmap_memory(void *memory, size_t bytes)
{
	if (memory)
		ws_raw_syscall(SYS_munmap, (long)memory, (long)bytes, 0, 0, 0, 0);
}

static bool has_extension(struct ws_vulkan_object *instance, void *physical)
{
	int (*list)(void *, const char *, uint32_t *, struct vk_extension *) =
		ws_vulkan_find_function(instance, "vkEnumerateDeviceExtensionProperties");
	struct vk_extension *extensions;
	uint32_t count = 0;
	bool found = false;
	size_t bytes;

	if (!list || list(physical, NULL, &count, NULL) || !count || count > 4096)
		return false;
	bytes = count * sizeof(*extensions);
	extensions = map_memory(bytes);
	if (extensions && list(physical, NULL, &count, extensions) >= 0)
		for (uint32_t i = 0; i < count && !found; i++)
			found = !strcmp(extensions[i].name, calibrated);
	unmap_memory(extensions, bytes);
	return found;
}

static bool is_enabled(const struct vk_device_info *info)
{
	for (uint32_t i = 0; i < info->extension_count; i++)
		if (!strcmp(info->extensions[i], calibrated))
			return true;
	return false;
}

/* Add the extension that relates the clocks to the program's list, for whose copy there is room in
 * `names`. */
static void add_extension(struct vk_device_info *info, const char **names)
{
	if (info->extension_count)
		memcpy(names, info->extensions, info->extension_count * sizeof(*names));
	names[info->extension_count++] = calibrated;
	info->extensions = names;
}

/* Take our link out of the chain of layers; false when there is none. */
static bool take_link(const void *info, struct vk_link *link)
{
	struct vk_link_info *found = find_link(info, VK_DEVICE_CREATE_LINK);

	if (!found)
		return false;
	*link = *found->link;
	found->link = found->link->next;
	return true;
}

static int make_device(struct ws_vulkan_object *object, void *physical, const void *info,
		       const void *allocator, void **device)
{
	struct vk_device_info own = *(const struct vk_device_info *)info;
	size_t bytes = (own.extension_count + 1) * sizeof(char *);
	const char **names = map_memory(bytes);
	create_device_fn *create;
	int result;

	create = (create_device_fn *)object->get_instance_function(object->instance->handle,
								   "vkCreateDevice");
	object->is_calibrated = is_enabled(&own);
	if (!object->is_calibrated && names && ws_rt->features & WS_FEATURE_VULKAN_GPU &&
	    has_extension(object->instance, physical)) {
		add_extension(&own, names);
		object->is_calibrated = true;
	}
	result = create ? create(physical, &own, allocator, device) : VK_FAILED;
	unmap_memory(names, bytes);
	return result;
}

int ws_vulkan_create_device(void *physical, const void *info, const void *allocator, void **device)
{
	struct ws_vulkan_object *instance = ws_vulkan_find_object(physical), *object;
	struct vk_link link;
	int result;

	if (!instance || !take_link(info, &link))
		return VK_FAILED;
	object = add_object();
	if (!object)
		return VK_NO_MEMORY;
	object->is_device = true;
	object->instance = instance;
	object->get_instance_function = link.get_instance_function;
	object->get_device_function = link.get_device_function;
	result = make_device(object, physical, info, allocator, device);
	if (result != VK_SUCCESS) {
		atomic_store(&object->key, NULL);
		return result;
	}
	object->handle = *device;
	object->number = atomic_fetch_add(&devices_made, 1) + 1;
	fill_functions(object);
	read_device(object, physical);
	atomic_store(&object->key, read_key(*device));
	return result;
}

void ws_vulkan_destroy_device(void *device, const void *allocator)
{
	struct ws_vulkan_object *object = ws_vulkan_find_object(device);
	destroy_fn *destroy;

	if (!object)
		return;
	ws_vulkan_forget_device(object);
	destroy = (destroy_fn *)ws_vulkan_find_function(object, "vkDestroyDevice");
	atomic_store(&object->key, NULL);
	if (destroy)
		destroy(device, allocator);
}

/* ---- what the loader calls ---- */

struct negotiation {
	uint32_t type;
	void *next;
	uint32_t version;
	void *(*get_instance_function)(void *instance, const char *name);
	void *(*get_device_function)(void *device, const char *name);
	void *(*get_physical_device_function)(void *instance, const char *name);
};

WS_EXPORT void *vkGetInstanceProcAddr(void *instance, const char *name);
WS_EXPORT void *vkGetDeviceProcAddr(void *device, const char *name);
WS_EXPORT int vkNegotiateLoaderLayerInterfaceVersion(struct negotiation *negotiation);

static void *find_wrapper(struct ws_vulkan_object *object, const char *name)
{
	struct ws_library_behind *wrapped = ws_library_find_wrapped(name);
	void *theirs = object ? ws_vulkan_find_function(object, name) : NULL;

	if (!wrapped)
		return theirs;
	if (theirs || (object && object->is_device && is_label_function(name)))
		return wrapped->own;
	return NULL;
}

void *vkGetDeviceProcAddr(void *device, const char *name)
{
	if (!strcmp(name, "vkGetDeviceProcAddr"))
		return (void *)vkGetDeviceProcAddr;
	return find_wrapper(ws_vulkan_find_object(device), name);
}

void *vkGetInstanceProcAddr(void *instance, const char *name)
{
	if (!strcmp(name, "vkGetInstanceProcAddr"))
		return (void *)vkGetInstanceProcAddr;
	if (!strcmp(name, "vkGetDeviceProcAddr"))
		return (void *)vkGetDeviceProcAddr;
	if (!strcmp(name, "vkCreateInstance"))
		return ws_library_find_wrapped(name)->own;
	return find_wrapper(ws_vulkan_find_object(instance), name);
}

int vkNegotiateLoaderLayerInterfaceVersion(struct negotiation *negotiation)
{
	if (negotiation->version < 2)
		return VK_FAILED;
	negotiation->version = 2;
	negotiation->get_instance_function = vkGetInstanceProcAddr;
	negotiation->get_device_function = vkGetDeviceProcAddr;
	negotiation->get_physical_device_function = NULL;
	return VK_SUCCESS;
}
