/*
 * kernel_driver.c - the driver's functions that the kernel hook calls, found by their names in the
 * libcuda that the program has mapped, and launches as their parameters describe them.
 */
#include <dlfcn.h>

#include "inject/bind.h"
#include "inject/kernel.h"

struct ws_kernel_driver ws_kernel_driver;

bool ws_kernel_bind_driver(void)
{
	static const struct {
		const char *name;
		size_t offset;
		bool needed;
	} functions[] = {
#define X(needed, member, function, arguments) \
	{#function, offsetof(struct ws_kernel_driver, member), needed},
		WS_KERNEL_DRIVER(X)
#undef X
	};
	void *(*open_lib)(const char *, int) = ws_find_symbol("dlopen");
	void *lib = open_lib ? open_lib("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;

	for (size_t i = 0; lib && i < WS_COUNT(functions); i++) {
		void *function = ws_find_symbol_in(lib, functions[i].name);

		if (!function && functions[i].needed) {
			ws_kernel_report(WS_ERROR,
					 "Kernels are not measured: the driver has no %s.",
					 functions[i].name);
			return false;
		}
		function = ws_kernel_strip(function);
		memcpy((char *)&ws_kernel_driver + functions[i].offset, &function,
		       sizeof(function));
	}
	return lib != NULL;
}

uint32_t ws_kernel_function_attribute(void *function, int which)
{
	void *real = NULL;
	int value = 0;

	if (!ws_kernel_driver.get_attribute(&value, which, function))
		return value < 0 ? UINT32_MAX : (uint32_t)value;
	/* Launches accept kernels of libraries in place of functions; this call does not. */
	if (!ws_kernel_driver.get_kernel_function ||
	    ws_kernel_driver.get_kernel_function(&real, function) ||
	    ws_kernel_driver.get_attribute(&value, which, real))
		return 0;
	return value < 0 ? UINT32_MAX : (uint32_t)value;
}

uint32_t ws_kernel_device_attribute(int device, int which)
{
	int value = 0;

	if (ws_kernel_driver.device_attribute(&value, which, device) || value < 0)
		return 0;
	return (uint32_t)value;
}

static void read_plain(struct ws_kernel_launch *launch)
{
	const struct ws_launch_params *params = launch->params;

	launch->function = params->function;
	memcpy(launch->grid, params->grid, sizeof(launch->grid));
	memcpy(launch->block, params->block, sizeof(launch->block));
	launch->shared = params->shared;
	launch->stream = params->stream;
	launch->arguments = params->arguments;
	launch->cooperative = launch->call == WS_KERNEL_LAUNCH_COOPERATIVE;
	if (!launch->cooperative)
		launch->extra = params->extra;
}

static void read_attributes(struct ws_kernel_launch *launch, const struct ws_launch_config *config)
{
	for (uint32_t i = 0; config->attributes && i < config->attribute_count; i++) {
		const struct ws_launch_attribute *attribute = &config->attributes[i];

		if (i >= WS_LAUNCH_ATTRIBUTES_MOST)
			return;
		if (attribute->id == WS_LAUNCH_CLUSTER)
			memcpy(launch->cluster, attribute->value.cluster, sizeof(launch->cluster));
		else if (attribute->id == WS_LAUNCH_COOPERATIVE)
			launch->cooperative = attribute->value.cooperative != 0;
	}
}

static void read_extended(struct ws_kernel_launch *launch)
{
	const struct ws_launch_ex_params *params = launch->params;
	const struct ws_launch_config *config = params->config;

	launch->function = params->function;
	launch->arguments = params->arguments;
	launch->extra = params->extra;
	if (!config)
		return;
	memcpy(launch->grid, config->grid, sizeof(launch->grid));
	memcpy(launch->block, config->block, sizeof(launch->block));
	launch->shared = config->shared;
	launch->stream = config->stream;
	read_attributes(launch, config);
}

void ws_kernel_read_launch(struct ws_kernel_launch *launch, enum ws_kernel_call call,
			   bool per_thread, const struct cupti_callback *callback)
{
	memset(launch, 0, sizeof(*launch));
	launch->call = call;
	launch->per_thread = per_thread;
	launch->params = callback->params;
	launch->context = callback->context;
	launch->context_uid = callback->context_uid;
	launch->correlation = callback->correlation;
	launch->symbol = callback->symbol ? callback->symbol : "";
	if (call == WS_KERNEL_LAUNCH_GRAPH) {
		const struct ws_launch_graph_params *params = callback->params;

		launch->function = params->graph;
		launch->stream = params->stream;
	} else if (call == WS_KERNEL_LAUNCH_EX) {
		read_extended(launch);
	} else {
		read_plain(launch);
	}
}

static int launch_plain_again(const struct ws_kernel_launch *launch)
{
	int (*call)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		    void *, void **, void **) = ws_kernel_driver.launch;

	if (launch->per_thread && ws_kernel_driver.launch_ptsz)
		call = ws_kernel_driver.launch_ptsz;
	return call(launch->function, launch->grid[0], launch->grid[1], launch->grid[2],
		    launch->block[0], launch->block[1], launch->block[2], launch->shared,
		    launch->stream, launch->arguments, launch->extra);
}

static int launch_cooperative_again(const struct ws_kernel_launch *launch)
{
	int (*call)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		    void *, void **) = ws_kernel_driver.launch_cooperative;

	if (launch->per_thread && ws_kernel_driver.launch_cooperative_ptsz)
		call = ws_kernel_driver.launch_cooperative_ptsz;
	if (!call)
		return -1;
	return call(launch->function, launch->grid[0], launch->grid[1], launch->grid[2],
		    launch->block[0], launch->block[1], launch->block[2], launch->shared,
		    launch->stream, launch->arguments);
}

static int launch_extended_again(const struct ws_kernel_launch *launch)
{
	const struct ws_launch_ex_params *params = launch->params;
	int (*call)(const void *, void *, void **, void **) = ws_kernel_driver.launch_ex;

	if (launch->per_thread && ws_kernel_driver.launch_ex_ptsz)
		call = ws_kernel_driver.launch_ex_ptsz;
	return call ? call(params->config, params->function, params->arguments, params->extra) : -1;
}

static int launch_graph_again(const struct ws_kernel_launch *launch)
{
	int (*call)(void *, void *) = ws_kernel_driver.launch_graph;

	if (launch->per_thread && ws_kernel_driver.launch_graph_ptsz)
		call = ws_kernel_driver.launch_graph_ptsz;
	return call ? call(launch->function, launch->stream) : -1;
}

int ws_kernel_launch_again(const struct ws_kernel_launch *launch)
{
	switch (launch->call) {
	case WS_KERNEL_LAUNCH:
		return launch_plain_again(launch);
	case WS_KERNEL_LAUNCH_EX:
		return launch_extended_again(launch);
	case WS_KERNEL_LAUNCH_COOPERATIVE:
		return launch_cooperative_again(launch);
	case WS_KERNEL_LAUNCH_GRAPH:
		return launch_graph_again(launch);
	default:
		return -1;
	}
}
