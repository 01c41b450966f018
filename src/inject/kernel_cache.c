/*
 * kernel_cache.c - has the kernel driver write back and empty the level-2 cache of a GPU, as Nsight
 * Compute does. After reading other memory (kernel_save.c), the cache is full of that memory, which
 * a kernel that writes evicts in another order, and addresses have to be translated anew. The
 * request is called NV2080_CTRL_CMD_FB_FLUSH_GPU_CACHE in NVIDIA's open kernel module and needs no
 * privilege. Where the driver does not know it, nothing happens.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "inject/bind.h"
#include "inject/kernel.h"

enum { DEVICES = 64, GPUS_MOST = 32, FILES_MOST = 1024, NO_GPU = -1 };
/* Classes of objects, and requests. */
enum {
	CLASS_CLIENT = 0x41,
	CLASS_DEVICE = 0x80,
	CLASS_SUBDEVICE = 0x2080,
	LIST_GPUS = 0x201,
	READ_GPU = 0x205,
	READ_BUS = 0x21b,
	FLUSH_CACHE = 0x2080130e,
};
enum {
	DEVICE_MEMORY = 0,
	SYSTEM_MEMORY = 1,
	WRITE_BACK = 1 << 2,
	INVALIDATE = 1 << 3,
	WHOLE_CACHE = 1 << 4,
};

struct allocation {
	uint32_t root, parent, object, type;
	uint64_t params;
	uint32_t bytes, status;
};

struct request {
	uint32_t client, object, command, flags;
	uint64_t params;
	uint32_t bytes, status;
};

struct device_params {
	uint32_t device, share, target_client, target_device, flags, reserved;
	uint64_t space, start, limit;
	uint32_t mode, reserved_end;
};

struct flush_params {
	uint64_t addresses[500];
	uint32_t count, align;
	uint64_t block;
	uint32_t flags, reserved;
};

#define ALLOCATE _IOWR('F', 0x2b, struct allocation)
#define CONTROL _IOWR('F', 0x2a, struct request)
/* Of the file of a GPU; the argument is the driver's file. */
#define REGISTER _IOWR('F', 201, int)

static struct gpu {
	bool opened;
	uint32_t subdevice; /* 0: it cannot be asked */
} gpus[DEVICES];
static int driver = -1; /* file descriptor */
static int (*ask)(int, unsigned long, ...);
static uint32_t client;

static uint32_t make_object(uint32_t parent, uint32_t type, const void *params, size_t bytes)
{
	struct allocation allocation = {
		client, parent, 0, type, (uint64_t)(uintptr_t)params, (uint32_t)bytes, 0};

	return ask(driver, ALLOCATE, &allocation) || allocation.status ? 0 : allocation.object;
}

static bool make_request(uint32_t object, uint32_t command, void *params, size_t bytes)
{
	struct request request = {client,	   object, command, 0, (uint64_t)(uintptr_t)params,
				  (uint32_t)bytes, 0};

	return !ask(driver, CONTROL, &request) && !request.status;
}

/* The driver lets a client use the GPUs whose files it has opened. CUDA has opened those that the
 * program uses, so opening them again costs nothing. */
static void register_gpus(int (*open_file)(const char *, int, ...))
{
	char link[32], path[32];
	bool seen[GPUS_MOST] = {0};

	for (int fd = 0; fd < FILES_MOST; fd++) {
		unsigned minor;
		char rest;
		long n;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = ws_raw_syscall(SYS_readlinkat, AT_FDCWD, (long)link, (long)path,
				   sizeof(path) - 1, 0, 0);
		if (n <= 0)
			continue;
		path[n] = 0;
		if (sscanf(path, "/dev/nvidia%u%c", &minor, &rest) != 1 || minor >= GPUS_MOST ||
		    seen[minor])
			continue;
		seen[minor] = true;
		n = open_file(path, O_RDWR | O_CLOEXEC);
		if (n >= 0)
			ask((int)n, REGISTER, &driver);
	}
}

static bool open_driver(void)
{
	int (*open_file)(const char *, int, ...) = ws_find_symbol("open");

	if (driver >= 0)
		return client != 0;
	ask = ws_find_symbol("ioctl");
	driver = open_file && ask ? open_file("/dev/nvidiactl", O_RDWR | O_CLOEXEC) : -1;
	if (driver < 0)
		return false;
	register_gpus(open_file);
	client = make_object(0, CLASS_CLIENT, NULL, 0);
	return client != 0;
}

/* The driver's number of the GPU at this place of the bus, or -1. */
static int find_gpu(const char *bus)
{
	uint32_t ids[GPUS_MOST];
	unsigned domain, number, slot;

	if (sscanf(bus, "%x:%x:%x", &domain, &number, &slot) != 3)
		return NO_GPU;
	memset(ids, 0xff, sizeof(ids));
	if (!make_request(client, LIST_GPUS, ids, sizeof(ids)))
		return NO_GPU;
	for (int i = 0; i < GPUS_MOST && ids[i] != UINT32_MAX; i++) {
		struct {
			uint32_t id, domain;
			uint16_t bus, slot;
		} place = {.id = ids[i]};
		uint32_t facts[8] = {ids[i]};

		if (make_request(client, READ_BUS, &place, sizeof(place)) &&
		    place.domain == domain && place.bus == number && place.slot == slot &&
		    make_request(client, READ_GPU, facts, sizeof(facts)))
			return (int)facts[2];
	}
	return NO_GPU;
}

static uint32_t open_gpu(int device)
{
	struct device_params params = {.share = client};
	char bus[32];
	uint32_t object, subdevice = 0;
	int number;

	if (!ws_kernel_driver.device_bus || ws_kernel_driver.device_bus(bus, sizeof(bus), device) ||
	    !open_driver())
		return 0;
	number = find_gpu(bus);
	if (number < 0)
		return 0;
	params.device = (uint32_t)number;
	params.share = client;
	object = make_object(client, CLASS_DEVICE, &params, sizeof(params));
	return object ? make_object(object, CLASS_SUBDEVICE, &subdevice, sizeof(subdevice)) : 0;
}

static bool flush(uint32_t subdevice, uint32_t memory)
{
	static struct flush_params params; /* one launch is measured at a time */

	memset(&params, 0, sizeof(params));
	params.flags = memory | WRITE_BACK | INVALIDATE | WHOLE_CACHE;
	return make_request(subdevice, FLUSH_CACHE, &params, sizeof(params));
}

bool ws_kernel_can_empty_cache(int device)
{
	if (device < 0 || device >= DEVICES)
		return false;
	if (!gpus[device].opened)
		gpus[device].subdevice = open_gpu(device);
	gpus[device].opened = true;
	return gpus[device].subdevice != 0;
}

bool ws_kernel_empty_cache(int device)
{
	return ws_kernel_can_empty_cache(device) && flush(gpus[device].subdevice, SYSTEM_MEMORY) &&
	       flush(gpus[device].subdevice, DEVICE_MEMORY);
}
