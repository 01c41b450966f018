/*
 * kernel_memory.c - keeps track of the memory that a kernel may write: every allocation of the
 * process, noted as the driver's calls return, and whatever else the launch's arguments point to.
 */
#include <stdlib.h>

#include "inject/kernel.h"

enum { ARGUMENTS_MOST = 4096, ARGUMENT_BYTES_MOST = 32768 };

enum memory_call {
	NO_MEMORY_CALL,
	ALLOCATE, /* address *, bytes */
	ALLOCATE_MANAGED,
	ALLOCATE_PITCH, /* address *, pitch *, width, height */
	ALLOCATE_HOST,	/* void **, bytes */
	REGISTER_HOST,	/* void *, bytes */
	CREATE,		/* handle *, bytes: it has no address yet */
	MAP,		/* address, bytes */
	FREE,		/* address */
};

static const struct {
	const char *name;
	enum memory_call call;
} calls[] = {
	{"cuMemAlloc_v2", ALLOCATE},
	{"cuMemAllocPitch_v2", ALLOCATE_PITCH},
	{"cuMemAllocManaged", ALLOCATE_MANAGED},
	{"cuMemAllocAsync", ALLOCATE},
	{"cuMemAllocAsync_ptsz", ALLOCATE},
	{"cuMemAllocFromPoolAsync", ALLOCATE},
	{"cuMemAllocFromPoolAsync_ptsz", ALLOCATE},
	{"cuMemHostAlloc", ALLOCATE_HOST},
	{"cuMemAllocHost_v2", ALLOCATE_HOST},
	{"cuMemHostRegister_v2", REGISTER_HOST},
	{"cuMemCreate", CREATE},
	{"cuMemMap", MAP},
	{"cuMemFree_v2", FREE},
	{"cuMemFreeAsync", FREE},
	{"cuMemFreeAsync_ptsz", FREE},
	{"cuMemFreeHost", FREE},
	{"cuMemHostUnregister", FREE},
	{"cuMemUnmap", FREE},
};

static struct ws_kernel_memories known;
static _Atomic uint32_t known_lock;

int ws_kernel_find_memory_call(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(calls); i++)
		if (!strcmp(calls[i].name, name))
			return (int)calls[i].call;
	return NO_MEMORY_CALL;
}

bool ws_kernel_add_memory(struct ws_kernel_memories *memories,
			  const struct ws_kernel_memory *memory)
{
	if (memories->count == memories->capacity) {
		size_t more = memories->capacity ? 2 * memories->capacity : 64;
		void *entries = realloc(memories->entries, more * sizeof(*memories->entries));

		if (!entries) {
			memories->incomplete = true;
			return false;
		}
		memories->entries = entries;
		memories->capacity = more;
	}
	memories->entries[memories->count++] = *memory;
	return true;
}

static void forget_memory(ws_device_address base)
{
	for (size_t i = 0; i < known.count; i++)
		if (known.entries[i].base == base) {
			known.entries[i] = known.entries[--known.count];
			return;
		}
}

/* The parameters of these calls begin with an address, or a pointer to one, and a size. */
struct memory_params {
	union {
		ws_device_address address;
		ws_device_address *out;
	} at;
	uint64_t bytes, width, height;
};

static bool read_call(enum memory_call call, const struct memory_params *params,
		      struct ws_kernel_memory *memory)
{
	memory->bytes = params->bytes;
	memory->base = params->at.address;
	memory->managed = call == ALLOCATE_MANAGED;
	switch (call) {
	case ALLOCATE_PITCH: /* the pitch is at `bytes` */
		if (!params->at.out || !params->bytes)
			return false;
		memcpy(&memory->bytes, (const void *)(uintptr_t)params->bytes, sizeof(uint64_t));
		memory->bytes *= params->height;
		memory->base = *params->at.out;
		return true;
	case ALLOCATE_HOST:
		memory->kind = WS_KERNEL_HOST_MEMORY;
		memory->base = params->at.out ? *params->at.out : 0;
		return true;
	case CREATE:
		return false;
	case REGISTER_HOST:
		memory->kind = WS_KERNEL_HOST_MEMORY;
		return true;
	case ALLOCATE:
	case ALLOCATE_MANAGED:
		memory->base = params->at.out ? *params->at.out : 0;
		return true;
	default:
		return true;
	}
}

void ws_kernel_note_memory_call(int call, const struct cupti_callback *callback)
{
	const struct memory_params *params = callback->params;
	struct ws_kernel_memory memory = {.kind = WS_KERNEL_DEVICE_MEMORY};

	if (call == FREE) {
		ws_kernel_lock(&known_lock);
		forget_memory(params->at.address);
		ws_kernel_unlock(&known_lock);
		return;
	}
	if (!read_call((enum memory_call)call, params, &memory) || !memory.base || !memory.bytes)
		return;
	if (!ws_kernel_driver.get_device || ws_kernel_driver.get_device(&memory.device))
		memory.device = -1;
	ws_kernel_lock(&known_lock);
	forget_memory(memory.base);
	if (!ws_kernel_add_memory(&known, &memory))
		ws_kernel_report(WS_WARNING,
				 "There is no memory left to note the program's allocations: "
				 "kernels are not measured any more, because what they write "
				 "could not be restored.");
	ws_kernel_unlock(&known_lock);
}

bool ws_kernel_frees_memory(int call)
{
	return call == FREE;
}

bool ws_kernel_shares_memory(int device)
{
	bool shared = false;

	ws_kernel_lock(&known_lock);
	for (size_t i = 0; i < known.count && !shared; i++)
		shared = known.entries[i].managed ||
			 (known.entries[i].device >= 0 && known.entries[i].device != device);
	ws_kernel_unlock(&known_lock);
	return shared;
}

uint64_t ws_kernel_read_size(int call, const struct cupti_callback *callback)
{
	const struct memory_params *params = callback->params;

	switch (call) {
	case ALLOCATE:
	case ALLOCATE_MANAGED:
	case CREATE:
		return params->bytes;
	case ALLOCATE_PITCH:
		return params->width * params->height;
	default:
		return 0;
	}
}

bool ws_kernel_knows_memory(ws_device_address address)
{
	bool found = false;

	ws_kernel_lock(&known_lock);
	for (size_t i = 0; i < known.count && !found; i++)
		found = address - known.entries[i].base < known.entries[i].bytes;
	ws_kernel_unlock(&known_lock);
	return found;
}

bool ws_kernel_is_device_memory(ws_device_address address)
{
	bool found = false;

	ws_kernel_lock(&known_lock);
	for (size_t i = 0; i < known.count && !found; i++)
		found = known.entries[i].kind == WS_KERNEL_DEVICE_MEMORY &&
			address - known.entries[i].base < known.entries[i].bytes;
	ws_kernel_unlock(&known_lock);
	return found;
}

static bool has_memory(const struct ws_kernel_memories *memories, ws_device_address address)
{
	for (size_t i = 0; i < memories->count; i++)
		if (address - memories->entries[i].base < memories->entries[i].bytes)
			return true;
	return false;
}

/* A value among the launch's arguments: if it is an address, add what it points to. */
static bool add_pointed(struct ws_kernel_memories *memories, ws_device_address value, int device)
{
	struct ws_kernel_memory memory = {.kind = WS_KERNEL_DEVICE_MEMORY, .device = device};
	bool found = false;

	if (value < 4096 || has_memory(memories, value))
		return true;
	ws_kernel_lock(&known_lock);
	for (size_t i = 0; i < known.count && !found; i++)
		if (value - known.entries[i].base < known.entries[i].bytes) {
			memory = known.entries[i];
			found = true;
		}
	ws_kernel_unlock(&known_lock);
	memory.pointed = true;
	if (!found &&
	    (value >> 48 || ws_kernel_driver.get_range(&memory.base, &memory.bytes, value)))
		return true;
	return ws_kernel_add_memory(memories, &memory);
}

static bool add_pointed_in(struct ws_kernel_memories *memories, const char *bytes, size_t count,
			   int device)
{
	for (size_t at = 0; at + sizeof(uint64_t) <= count; at += sizeof(uint64_t)) {
		ws_device_address value;

		memcpy(&value, bytes + at, sizeof(value));
		if (!add_pointed(memories, value, device))
			return false;
	}
	return true;
}

/* CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE: all arguments in one buffer. */
static bool add_packed_arguments(const struct ws_kernel_launch *launch,
				 struct ws_kernel_memories *memories)
{
	const char *buffer = NULL;
	size_t bytes = 0;

	for (size_t i = 0; launch->extra[i] && i < 8; i += 2) {
		if ((uintptr_t)launch->extra[i] == 1)
			buffer = launch->extra[i + 1];
		else if ((uintptr_t)launch->extra[i] == 2 && launch->extra[i + 1])
			memcpy(&bytes, launch->extra[i + 1], sizeof(bytes));
	}
	if (!buffer || bytes > ARGUMENT_BYTES_MOST)
		return true;
	return add_pointed_in(memories, buffer, bytes, (int)launch->device);
}

static bool add_arguments(const struct ws_kernel_launch *launch,
			  struct ws_kernel_memories *memories)
{
	void *function = launch->function;
	size_t offset, bytes;

	if (launch->call == WS_KERNEL_LAUNCH_GRAPH)
		return true;
	if (launch->extra && !launch->arguments)
		return add_packed_arguments(launch, memories);
	if (!launch->arguments || !ws_kernel_driver.get_parameter)
		return true;
	if (ws_kernel_driver.get_kernel_function &&
	    ws_kernel_driver.get_kernel_function(&function, launch->function))
		function = launch->function;
	for (size_t i = 0;
	     i < ARGUMENTS_MOST && !ws_kernel_driver.get_parameter(function, i, &offset, &bytes);
	     i++)
		if (launch->arguments[i] && bytes <= ARGUMENT_BYTES_MOST &&
		    !add_pointed_in(memories, launch->arguments[i], bytes, (int)launch->device))
			return false;
	return true;
}

/* All other memory of the device: kernels may reach it through pointers in memory. Memory of the
 * host that no argument points to is left alone: another thread of the program may be writing to
 * it, and what it writes would be lost. */
static bool add_rest(const struct ws_kernel_launch *launch, struct ws_kernel_memories *memories)
{
	bool ok;

	ws_kernel_lock(&known_lock);
	ok = !known.incomplete;
	for (size_t i = 0; i < known.count && ok; i++) {
		const struct ws_kernel_memory *memory = &known.entries[i];
		bool other = memory->device >= 0 && memory->device != (int)launch->device;

		if (memory->kind == WS_KERNEL_HOST_MEMORY || other)
			continue;
		if (!has_memory(memories, memory->base))
			ok = ws_kernel_add_memory(memories, memory);
	}
	ws_kernel_unlock(&known_lock);
	return ok;
}

bool ws_kernel_list_memory(const struct ws_kernel_launch *launch,
			   struct ws_kernel_memories *memories)
{
	if (launch->call == WS_KERNEL_LAUNCH_GRAPH)
		ws_kernel_add_graph_globals(memories, launch->function);
	else if (launch->call != WS_KERNEL_RANGE)
		ws_kernel_add_globals(memories, launch->function);
	return !memories->incomplete && add_arguments(launch, memories) &&
	       add_rest(launch, memories);
}
