/*
 * pm_library.c - see pm_library.h. The folders are those in which the hook looks for CUPTI inside a
 * program (docs/dependencies.md), except the program's own.
 */
#include "metrics/pm_library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/matching.h"
#include "base/mem.h"

enum { OLDEST_MAJOR = 12, NEWEST_MAJOR = 19, FIRST_WITH_SAMPLING = 24 /* CUDA 12.6 */ };

#if defined(__x86_64__)
#define TARGET "targets/x86_64-linux/lib"
#else
#define TARGET "targets/sbsa-linux/lib"
#endif

static void *open_driver(struct pm_library *library)
{
	const char *test = getenv("WARPSIGHT_PM"); /* for tests: a mock of both libraries */
	void *handle = dlopen(ws_text_or(test, "libcuda.so.1"), RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		return NULL;
#define PM_DRIVER_FUNCTION(member, name, arguments) \
	*(void **)&library->cuda.member = dlsym(handle, name);
	PM_DRIVER_FUNCTIONS
#undef PM_DRIVER_FUNCTION
	return handle;
}

/* Bind the functions of an open libcupti; whether it has them all. */
static bool bind_cupti(struct pm_library *library, void *handle)
{
	bool whole = true;

#define PM_FUNCTION(member, name, argument)                     \
	*(void **)&library->cupti.member = dlsym(handle, name); \
	whole &= library->cupti.member != NULL;
	PM_FUNCTIONS
#undef PM_FUNCTION
	return whole;
}

static unsigned get_major(uint32_t version)
{
	if (version >= 130000)
		return version / 10000;
	return OLDEST_MAJOR;
}

/* CUPTI opens libnvperf_host.so by its bare name, which finds the library if it is open already. */
static void *open_beside(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');
	void *handle;
	char *beside;

	if (!slash)
		return NULL;
	beside = ws_format("%.*s/%s", (int)(slash - path), path, name);
	handle = dlopen(beside, RTLD_NOW | RTLD_GLOBAL);
	free(beside);
	return handle;
}

static void bind_nvperf(struct pm_library *library, void *cupti, void *nvperf)
{
	void *handle = nvperf ? nvperf : cupti; /* a stand-in has everything */

	*(void **)&library->estimate =
		dlsym(handle, "NVPW_PeriodicSampler_Config_GetGpuEstimatedSampleSize");
	library->has_sums = true;
#define PM_FUNCTION(member, name, argument)                    \
	*(void **)&library->sums.member = dlsym(handle, name); \
	library->has_sums &= library->sums.member != NULL;
	PM_SUMS_FUNCTIONS
#undef PM_FUNCTION
	library->has_evaluator = true;
#define PM_FUNCTION(member, name, argument)                         \
	*(void **)&library->evaluator.member = dlsym(handle, name); \
	library->has_evaluator &= library->evaluator.member != NULL;
	PM_EVALUATOR_FUNCTIONS
#undef PM_FUNCTION
}

/* Use the libcupti at `path` if it can sample and is not newer than the driver. */
static bool try_library(struct pm_library *library, const char *path, unsigned driver_major)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*get_version)(uint32_t *);
	uint32_t version = 0;

	if (!handle)
		return false;
	*(void **)&get_version = dlsym(handle, "cuptiGetVersion");
	if (!get_version || get_version(&version) || version < FIRST_WITH_SAMPLING ||
	    get_major(version) > driver_major || !bind_cupti(library, handle)) {
		dlclose(handle);
		return false;
	}
	bind_nvperf(library, handle, open_beside(path, "libnvperf_host.so"));
	library->path = ws_strdup(path);
	return true;
}

/* Try all matches of root/pattern, the highest version first. */
static bool try_pattern(struct pm_library *library, const char *root, const char *pattern,
			unsigned driver_major)
{
	char *full = ws_format("%s/%s", root, pattern);
	bool found = false;
	struct ws_matching_paths matches = {0};

	if (*root)
		ws_find_matching_paths(full, &matches);
	for (size_t i = matches.count; i-- > 0 && !found;)
		found = try_library(library, matches.paths[i], driver_major);
	ws_matching_paths_free(&matches);
	free(full);
	return found;
}

static bool try_toolkit(struct pm_library *library, const char *root, unsigned driver_major)
{
	static const char *const folders[] = {"extras/CUPTI/lib64/libcupti.so.1[0-9]",
					      "lib64/libcupti.so.1[0-9]",
					      TARGET "/libcupti.so.1[0-9]",
					      "lib/libcupti.so.1[0-9]"};

	for (size_t i = 0; i < WS_COUNT(folders); i++)
		if (try_pattern(library, root, folders[i], driver_major))
			return true;
	return false;
}

/* Python's packages bring a libcupti of their own. */
static bool try_packages(struct pm_library *library, unsigned driver_major)
{
	static const char *const roots[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
	static const char *const folders[] = {"/usr/lib", "/usr/local/lib"};
	const char *pattern = "python3*/*-packages/nvidia/*/lib/libcupti.so.1[0-9]";

	for (size_t i = 0; i < WS_COUNT(roots); i++) {
		const char *root = ws_text_or(getenv(roots[i]), "");
		char *folder = ws_format("%s%s", root, *root ? "/lib" : "");
		bool found = try_pattern(library, folder, pattern, driver_major);

		free(folder);
		if (found)
			return true;
	}
	for (size_t i = 0; i < WS_COUNT(folders); i++)
		if (try_pattern(library, folders[i], pattern, driver_major))
			return true;
	return false;
}

static bool try_loader_path(struct pm_library *library, unsigned driver_major)
{
	char name[32];

	for (unsigned major = ws_min(driver_major, (unsigned)NEWEST_MAJOR); major >= OLDEST_MAJOR;
	     major--) {
		snprintf(name, sizeof(name), "libcupti.so.%u", major);
		if (try_library(library, name, driver_major))
			return true;
	}
	return false;
}

static bool find_cupti(struct pm_library *library, unsigned driver_major)
{
	const char *test = getenv("WARPSIGHT_PM");

	if (test)
		return try_library(library, test, driver_major);
	return try_toolkit(library, ws_text_or(getenv("CUDA_HOME"), ""), driver_major) ||
	       try_toolkit(library, ws_text_or(getenv("CUDA_PATH"), ""), driver_major) ||
	       try_toolkit(library, "/usr/local/cuda", driver_major) ||
	       try_toolkit(library, "/opt/cuda", driver_major) ||
	       try_pattern(library, "/usr/local/cuda-1[0-9].*",
			   "extras/CUPTI/lib64/libcupti.so.1[0-9]", driver_major) ||
	       try_pattern(library, "/usr/local/cuda-1[0-9].*", "lib*/libcupti.so.1[0-9]",
			   driver_major) ||
	       try_packages(library, driver_major) || try_loader_path(library, driver_major);
}

int ws_pm_library_open(struct pm_library *library, struct ws_err *err)
{
	int version = 0;

	if (!open_driver(library) || !library->cuda.init || !library->cuda.get_version ||
	    !library->cuda.count_devices || !library->cuda.get_device)
		return ws_fail(err, "there is no NVIDIA driver (libcuda.so.1 does not open)");
	if (library->cuda.get_version(&version))
		return ws_fail(err, "the NVIDIA driver does not tell its version");
	if (!find_cupti(library, (unsigned)version / 1000))
		return ws_fail(err,
			       "there is no CUPTI library of CUDA 12.6 or later that fits the "
			       "driver (CUDA %d.%d): install CUPTI, which is part of the CUDA "
			       "toolkit, or set CUDA_HOME to a toolkit",
			       version / 1000, version % 1000 / 10);
	return 0;
}

void ws_pm_library_free(struct pm_library *library)
{
	free(library->path);
	library->path = NULL;
}

const char *ws_pm_explain(int error)
{
	static const struct {
		int error;
		const char *text;
	} known[] = {
		{PM_ERROR_INSUFFICIENT_PRIVILEGES,
		 "the GPU's counters are for administrators only: as root, put 'options nvidia "
		 "NVreg_RestrictProfilingToAdminUsers=0' into /etc/modprobe.d/ and reboot, or run "
		 "warpsight as root; in a container: --cap-add SYS_ADMIN"},
		{PM_ERROR_VIRTUALIZED_PRIVILEGES,
		 "the host does not allow counters on this virtual GPU: enable profiling for it"},
		{PM_ERROR_HARDWARE_BUSY,
		 "another tool holds the GPU's counters (DCGM, Nsight Systems, ncu or another "
		 "recording): end it, or 'dcgmi profile --pause' where it is DCGM"},
		{PM_ERROR_INVALID_OPERATION,
		 "another tool holds the GPU's counters (DCGM, Nsight Systems, ncu or another "
		 "recording): end it, or 'dcgmi profile --pause' where it is DCGM"},
		{PM_ERROR_MIG, "the GPU is divided into MIG instances, whose counters CUPTI does "
			       "not sample"},
		{PM_ERROR_VIRTUALIZED, "this virtual GPU has no counters"},
		{PM_ERROR_CONFIDENTIAL,
		 "the GPU computes confidentially, which hides its counters"},
		{PM_ERROR_WSL, "counters are not available under WSL"},
		{PM_ERROR_NOT_SUPPORTED, "the GPU does not support it"},
		{PM_ERROR_OUT_OF_MEMORY, "there is not enough memory for it"},
	};

	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (known[i].error == error)
			return known[i].text;
	return "CUPTI failed";
}
