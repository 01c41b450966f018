/* clocks.c - see clocks.h. */
#include "metrics/clocks.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "metrics/nvml_abi.h"

enum { GPUS_MOST = 64, NOT_SUPPORTED = 3 };
#define BASE_CLOCK 0xffffff01u /* NVML_CLOCK_LIMIT_ID_TDP, in place of a frequency */

struct functions {
	int (*init)(void);
	int (*get_count)(unsigned *count);
	int (*get_handle)(unsigned index, nvml_device *device);
	int (*get_uuid)(nvml_device device, char *text, unsigned size);
	int (*lock)(nvml_device device, unsigned least, unsigned most);
	int (*unlock)(nvml_device device);
};

struct ws_clocks {
	pid_t guard;
	int pipe; /* the guard waits for its end */
};

static bool load(struct functions *nvml)
{
	static const struct {
		const char *name;
		size_t offset;
	} names[] = {{"nvmlInit_v2", offsetof(struct functions, init)},
		     {"nvmlDeviceGetCount_v2", offsetof(struct functions, get_count)},
		     {"nvmlDeviceGetHandleByIndex_v2", offsetof(struct functions, get_handle)},
		     {"nvmlDeviceGetUUID", offsetof(struct functions, get_uuid)},
		     {"nvmlDeviceSetGpuLockedClocks", offsetof(struct functions, lock)},
		     {"nvmlDeviceResetGpuLockedClocks", offsetof(struct functions, unlock)}};
	const char *test = getenv("WARPSIGHT_NVML"); /* for tests: a stand-in */
	void *library = dlopen(test ? test : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; library && i < sizeof(names) / sizeof(names[0]); i++) {
		void *function = dlsym(library, names[i].name);

		if (!function)
			return false;
		memcpy((char *)nvml + names[i].offset, &function, sizeof(function));
	}
	return library && nvml->init() == NVML_SUCCESS;
}

/* Whether CUDA_VISIBLE_DEVICES, a list of numbers or beginnings of UUIDs, names the GPU. */
static bool is_visible(unsigned index, const char *uuid)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");

	if (!list)
		return true;
	while (*list) {
		size_t length = strcspn(list, ",");

		if (isdigit((unsigned char)*list) ? strtoul(list, NULL, 10) == index
						  : length && !strncmp(list, uuid, length))
			return true;
		list += length + (list[length] == ',');
	}
	return false;
}

static size_t list_gpus(const struct functions *nvml, nvml_device *gpus)
{
	unsigned count = 0;
	size_t visible = 0;

	if (nvml->get_count(&count))
		return 0;
	for (unsigned i = 0; i < count && visible < GPUS_MOST; i++) {
		char uuid[96] = "";

		if (nvml->get_handle(i, &gpus[visible]))
			continue;
		nvml->get_uuid(gpus[visible], uuid, sizeof(uuid));
		visible += is_visible(i, uuid);
	}
	return visible;
}

/* The guard: unlock when the pipe says so, or when nobody can write to it any more. NVML is opened
 * anew, since what it keeps does not survive a fork. */
static void guard(int pipe)
{
	nvml_device gpus[GPUS_MOST];
	struct functions nvml;
	size_t count;
	char byte;

	setsid();
	for (int i = 1; i < NSIG; i++)
		if (i != SIGKILL && i != SIGSTOP)
			signal(i, SIG_IGN);
	while (read(pipe, &byte, 1) < 0 && errno == EINTR)
		continue;
	count = load(&nvml) ? list_gpus(&nvml, gpus) : 0;
	for (size_t i = 0; i < count; i++)
		nvml.unlock(gpus[i]);
	_exit(0);
}

static struct ws_clocks *start_guard(struct ws_err *err)
{
	struct ws_clocks *clocks = ws_calloc(1, sizeof(*clocks));
	int ends[2];

	if (pipe2(ends, O_CLOEXEC)) {
		ws_fail_errno(err, "--clock-control base: cannot make a pipe");
		free(clocks);
		return NULL;
	}
	clocks->pipe = ends[1];
	clocks->guard = fork();
	if (!clocks->guard) {
		close(ends[1]);
		guard(ends[0]);
	}
	close(ends[0]);
	if (clocks->guard > 0)
		return clocks;
	ws_fail_errno(err, "--clock-control base: cannot start the process that unlocks clocks");
	close(ends[1]);
	free(clocks);
	return NULL;
}

static int explain(int result, struct ws_err *err)
{
	if (result == NVML_ERROR_NO_PERMISSION)
		return ws_fail(err, "--clock-control base: only an administrator may lock the "
				    "clocks of a GPU: run as root, or give --clock-control none");
	if (result == NOT_SUPPORTED)
		return ws_fail(err, "--clock-control base: the clocks of this GPU cannot be "
				    "locked: give --clock-control none");
	return ws_fail(err, "--clock-control base: the clocks could not be locked: NVML says %d",
		       result);
}

struct ws_clocks *ws_clocks_lock(struct ws_err *err)
{
	nvml_device gpus[GPUS_MOST];
	struct functions nvml;
	struct ws_clocks *clocks = start_guard(err);
	size_t count;
	int rc = 0;

	if (!clocks)
		return NULL;
	count = load(&nvml) ? list_gpus(&nvml, gpus) : 0;
	if (!count)
		ws_fail(err, "--clock-control base: NVML, which locks clocks, finds no GPU");
	for (size_t i = 0; i < count && !rc; i++)
		rc = nvml.lock(gpus[i], BASE_CLOCK, BASE_CLOCK);
	if (count && !rc)
		return clocks;
	if (rc)
		explain(rc, err);
	ws_clocks_unlock(clocks);
	return NULL;
}

void ws_clocks_unlock(struct ws_clocks *clocks)
{
	if (!clocks)
		return;
	/* A byte, since another child of this process may hold the pipe open. */
	while (write(clocks->pipe, "", 1) < 0 && errno == EINTR)
		continue;
	close(clocks->pipe);
	while (waitpid(clocks->guard, NULL, 0) < 0 && errno == EINTR)
		continue;
	free(clocks);
}
