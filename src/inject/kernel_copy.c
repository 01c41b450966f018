/*
 * kernel_copy.c - copies of launches, to make them again after the program's call has returned: its
 * arguments and attributes are no longer there then.
 */
#include <stdlib.h>

#include "inject/kernel.h"

enum { ARGUMENTS_MOST = 4096, BYTES_MOST = 65536, PACKED_BUFFER = 1, PACKED_BYTES = 2 };
enum { ATTRIBUTE_PAGEABLE = 88 };

/* All that a copy owns, in one piece. */
struct owned {
	struct ws_launch_ex_params params;
	struct ws_launch_config config;
	struct ws_launch_attribute attributes[WS_LAUNCH_ATTRIBUTES_MOST];
	void *arguments[ARGUMENTS_MOST];
	void *extra[5];
	size_t packed;
	char *symbol, *nvtx;
	uint64_t bytes[BYTES_MOST / 8];
};

/* Attributes that name nothing which the program may destroy. */
static bool can_keep(uint32_t attribute)
{
	return attribute <= 6 || (attribute >= 8 && attribute <= 11);
}

/* On machines where kernels reach the memory of malloc, an argument that points there may point to
 * nothing later. */
static bool points_to_host(const struct ws_kernel_launch *launch, const uint64_t *words,
			   size_t count)
{
	uint64_t base;
	size_t bytes;

	if (!ws_kernel_device_attribute((int)launch->device, ATTRIBUTE_PAGEABLE))
		return false;
	for (size_t i = 0; i < count; i++) {
		unsigned char resident;
		uint64_t page = words[i] & ~UINT64_C(4095);

		if (!page || words[i] >> 47 || ws_kernel_knows_memory(words[i]) ||
		    ws_raw_syscall(SYS_mincore, (long)page, 4096, (long)&resident, 0, 0, 0))
			continue;
		if (ws_kernel_driver.get_range(&base, &bytes, words[i]))
			return true;
	}
	return false;
}

static bool copy_packed(struct owned *owned, const struct ws_kernel_launch *launch, size_t *used)
{
	const void *buffer = NULL;
	size_t bytes = 0;

	for (size_t i = 0; launch->extra[i]; i += 2) {
		if (i >= 4)
			return false;
		if ((uintptr_t)launch->extra[i] == PACKED_BUFFER)
			buffer = launch->extra[i + 1];
		else if ((uintptr_t)launch->extra[i] == PACKED_BYTES && launch->extra[i + 1])
			memcpy(&bytes, launch->extra[i + 1], sizeof(bytes));
		else
			return false;
	}
	if (!buffer || bytes > BYTES_MOST)
		return false;
	memcpy(owned->bytes, buffer, bytes);
	owned->packed = *used = bytes;
	owned->extra[0] = (void *)(uintptr_t)PACKED_BUFFER;
	owned->extra[1] = owned->bytes;
	owned->extra[2] = (void *)(uintptr_t)PACKED_BYTES;
	owned->extra[3] = &owned->packed;
	return true;
}

static bool copy_arguments(struct owned *owned, const struct ws_kernel_launch *launch, size_t *used)
{
	void *function = launch->function;
	size_t at = 0, offset, bytes;

	if (!ws_kernel_driver.get_parameter)
		return false;
	if (ws_kernel_driver.get_kernel_function &&
	    ws_kernel_driver.get_kernel_function(&function, launch->function))
		function = launch->function;
	for (size_t i = 0; !ws_kernel_driver.get_parameter(function, i, &offset, &bytes); i++) {
		if (i >= ARGUMENTS_MOST || !launch->arguments[i] || at + bytes > BYTES_MOST)
			return false;
		owned->arguments[i] = (char *)owned->bytes + at;
		memcpy(owned->arguments[i], launch->arguments[i], bytes);
		at += (bytes + 15) / 16 * 16;
	}
	*used = at;
	return true;
}

static bool copy_config(struct owned *owned, const struct ws_kernel_launch *launch)
{
	const struct ws_launch_ex_params *params = launch->params;

	if (launch->call != WS_KERNEL_LAUNCH_EX)
		return true;
	if (!params->config || params->config->attribute_count > WS_LAUNCH_ATTRIBUTES_MOST)
		return false;
	owned->params = *params;
	owned->config = *params->config;
	owned->params.config = &owned->config;
	for (uint32_t i = 0; i < owned->config.attribute_count; i++) {
		owned->attributes[i] = params->config->attributes[i];
		if (!can_keep(owned->attributes[i].id))
			return false;
	}
	owned->config.attributes = owned->attributes;
	return true;
}

static bool fill_copy(struct ws_kernel_launch *copy, struct owned *owned,
		      const struct ws_kernel_launch *launch)
{
	static char ranges[WS_KERNEL_NAME_ROOM]; /* one launch is measured at a time */
	size_t used = 0;

	*copy = *launch;
	ws_kernel_name_ranges(ranges, sizeof(ranges));
	owned->symbol = strdup(launch->symbol);
	owned->nvtx = strdup(ranges);
	if (!owned->symbol || !owned->nvtx || !copy_config(owned, launch))
		return false;
	if (launch->extra && !launch->arguments && !copy_packed(owned, launch, &used))
		return false;
	if (launch->arguments && !copy_arguments(owned, launch, &used))
		return false;
	if (points_to_host(launch, owned->bytes, used / 8))
		return false;
	copy->arguments = launch->arguments ? owned->arguments : NULL;
	copy->extra = copy->arguments || !launch->extra ? NULL : owned->extra;
	owned->params.arguments = copy->arguments;
	owned->params.extra = copy->extra;
	copy->params = &owned->params;
	copy->symbol = owned->symbol;
	copy->nvtx = owned->nvtx;
	copy->thread = (uint32_t)ws_raw_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
	copy->owned = owned;
	return true;
}

bool ws_kernel_copy_launch(struct ws_kernel_launch *copy, const struct ws_kernel_launch *launch)
{
	struct owned *owned = calloc(1, sizeof(*owned));

	if (owned && fill_copy(copy, owned, launch))
		return true;
	copy->owned = owned;
	ws_kernel_free_launch(copy);
	return false;
}

void ws_kernel_free_launch(struct ws_kernel_launch *copy)
{
	struct owned *owned = copy->owned;

	if (owned) {
		free(owned->symbol);
		free(owned->nvtx);
	}
	free(owned);
	copy->owned = NULL;
}
