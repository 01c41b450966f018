/*
 * cuda_device.c - what the driver says about the devices beyond CUPTI's record of them: where they
 * sit, how much shared memory a block may have. The flushing thread asks once a context exists,
 * because the driver cannot be called while it is still loading us.
 */
#include <dlfcn.h>
#include <string.h>

#include "inject/bind.h"
#include "inject/cuda.h"
#include "ring/cuda_record.h"

/* CUdevice_attribute */
enum { ATTR_INTEGRATED = 18, ATTR_SHARED_OPTIN = 97, ATTR_SHARED_RESERVED = 111 };

static struct {
	int (*count)(int *);
	int (*get)(int *, int);
	int (*bus)(char *, int, int);
	int (*attribute)(int *, int, int);
} driver;

static bool bind_driver_functions(void)
{
	void *(*open_lib)(const char *, int) = ws_find_symbol("dlopen");
	void *lib = open_lib ? open_lib("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;

	if (!lib)
		return false;
	driver.count = ws_cuda_find_symbol(lib, "cuDeviceGetCount");
	driver.get = ws_cuda_find_symbol(lib, "cuDeviceGet");
	driver.bus = ws_cuda_find_symbol(lib, "cuDeviceGetPCIBusId");
	driver.attribute = ws_cuda_find_symbol(lib, "cuDeviceGetAttribute");
	return driver.count && driver.get && driver.bus && driver.attribute;
}

static uint32_t read_attribute(int device, int which)
{
	int v = 0;

	return driver.attribute(&v, which, device) || v < 0 ? 0 : (uint32_t)v;
}

static void write_device(struct ws_thread *thread, uint32_t number, const char *bus,
			 uint32_t integrated, uint32_t optin, uint32_t reserved)
{
	uint32_t handle = *bus ? ws_rt_find_string(thread, bus, strlen(bus)) : 0;
	struct ws_rec_cuda_device *record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_OTHER);

	if (!record)
		return;
	*record = (struct ws_rec_cuda_device){.rec = ws_rec_head(WS_REC_CUDA_DEVICE,
								 sizeof(*record), 0, number),
					      .bus = handle,
					      .integrated = integrated,
					      .shared_block_optin = optin,
					      .shared_reserved = reserved};
	ws_rt_commit(thread, record, sizeof(*record));
}

void ws_cuda_devices(void)
{
	int n = 0;

	if (!bind_driver_functions() || driver.count(&n))
		return;
	for (int i = 0; i < n; i++) {
		char bus[64] = "";
		struct ws_thread *thread;
		uint32_t integrated, optin, reserved;
		int device;

		if (driver.get(&device, i))
			continue;
		if (driver.bus(bus, sizeof(bus) - 1, device))
			bus[0] = 0;
		integrated = read_attribute(device, ATTR_INTEGRATED);
		optin = read_attribute(device, ATTR_SHARED_OPTIN);
		reserved = read_attribute(device, ATTR_SHARED_RESERVED);
		thread = ws_rt_enter();
		if (!thread)
			return;
		write_device(thread, (uint32_t)i, bus, integrated, optin, reserved);
		ws_rt_leave(thread);
	}
}
