/*
 * gpu.c - checks of GPUs: devices, the driver, the libraries that are opened at run time,
 * permissions, settings.
 *
 * Libraries are opened in a child process with a time limit, since a broken driver hangs or crashes
 * the process that calls it. Building this needs nothing from CUDA: the few functions that it calls
 * are declared here, as the libraries' documentation has them.
 */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gpu_tools.h"
#include "base/matching.h"
#include "doctor/doctor.h"
#include "gpu/cupti_paths.h"

enum { CAPABILITY_SYS_ADMIN = 21, PATIENCE_S = 15 };

static int count_devices(void)
{
	DIR *dir = opendir("/dev");
	struct dirent *entry;
	int count = 0;

	while (dir && (entry = readdir(dir)))
		count += !strncmp(entry->d_name, "nvidia", 6) &&
			 isdigit((unsigned char)entry->d_name[6]);
	if (dir)
		closedir(dir);
	return count;
}

static bool is_driver_loaded(void)
{
	return !access("/proc/driver/nvidia/version", R_OK);
}

/* Add the models of the GPUs that the driver knows; reading them in /proc does not wake the GPUs.
 */
static void add_models(struct ws_finding *finding)
{
	char text[4096];
	struct ws_matching_paths found;

	ws_find_matching_paths("/proc/driver/nvidia/gpus/*/information", &found);
	for (size_t i = 0; i < found.count; i++) {
		size_t length;
		const char *model;

		if (ws_read_small_file(found.paths[i], text, sizeof(text)) &&
		    (model = ws_find_line_value(text, "Model", &length)))
			ws_add_finding(finding, WS_HEALTH_OK, "%.*s", (int)length, model);
	}
	ws_matching_paths_free(&found);
}

void ws_check_gpu(struct ws_finding *finding)
{
	int count = count_devices();

	if (!count && !is_driver_loaded()) {
		ws_add_finding(finding, WS_HEALTH_MISSING,
			       "no NVIDIA GPU: there is neither /dev/nvidia0 nor a driver");
		ws_add_fix(finding,
			   "nothing to do where there is no GPU; in a container: docker run --gpus "
			   "all");
		return;
	}
	if (!count) {
		ws_add_finding(finding, WS_HEALTH_MISSING,
			       "the driver is loaded, but /dev has no GPU");
		ws_add_fix(finding, "in a container: docker run --gpus all; else as root: "
				    "nvidia-modprobe -c 0");
		return;
	}
	ws_add_finding(finding, WS_HEALTH_OK, "%d in /dev", count);
	add_models(finding);
	if (access("/dev/nvidiactl", R_OK | W_OK)) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED, "/dev/nvidiactl: %s", strerror(errno));
		ws_add_fix(finding, "become a member of the group that owns /dev/nvidia*");
	}
}

/* Open a library by the first of `names` that opens, and write its path to fd; NULL when none
 * opens. */
static void *open_first_library(int fd, const char *const *names, size_t count)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < count; i++) {
		void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);

		if (!library)
			continue;
		if (names[i][0] != '/' && !dlinfo(library, RTLD_DI_ORIGIN, path))
			dprintf(fd, "%s/%s", path, names[i]);
		else
			dprintf(fd, "%s", names[i]);
		return library;
	}
	return NULL;
}

static void probe_cuda(int fd, void *arg)
{
	static const char *const names[] = {"libcuda.so.1", "libcuda.so"};
	void *library = open_first_library(fd, names, WS_COUNT(names));
	int (*get_version)(int *), version = 0;

	(void)arg;
	if (!library)
		_exit(3);
	*(void **)&get_version = dlsym(library, "cuDriverGetVersion");
	if (get_version && !get_version(&version))
		dprintf(fd, ", CUDA %d.%d", version / 1000, version % 1000 / 10);
}

/* What a child process wrote about a library, and whether it ended well. */
static void report_library(struct ws_finding *finding, const char *text, bool well)
{
	if (well)
		ws_add_finding(finding, WS_HEALTH_OK, "%s", text);
	else
		ws_add_finding(finding, WS_HEALTH_MISSING,
			       "%s, which crashed or hung when asked its version", text);
}

void ws_check_driver(struct ws_finding *finding)
{
	struct ws_text said = {0};
	char text[512];
	bool well;

	if (ws_read_small_file("/proc/driver/nvidia/version", text, sizeof(text))) {
		size_t length;
		const char *word = ws_find_line_value(text, "NVRM version", &length);

		if (word)
			ws_add_finding(finding, WS_HEALTH_OK, "%.*s", (int)length, word);
		else
			ws_add_finding(finding, WS_HEALTH_OK, "%.64s", text);
	} else {
		ws_add_finding(finding, WS_HEALTH_MISSING,
			       "the kernel has no NVIDIA driver (/proc/driver/nvidia/version: %s)",
			       strerror(errno));
	}
	well = ws_run_in_child(probe_cuda, NULL, PATIENCE_S, &said);
	if (said.len)
		report_library(finding, said.text, well);
	else
		ws_add_finding(finding, WS_HEALTH_MISSING, "libcuda.so.1 does not open");
	if (finding->health && count_devices())
		ws_add_fix(finding,
			   "install the NVIDIA driver's libraries; in a container: docker run "
			   "--gpus all");
	ws_text_free(&said);
}

static void probe_nvml(int fd, void *arg)
{
	static const char *const names[] = {"libnvidia-ml.so.1", "libnvidia-ml.so"};
	void *library = open_first_library(fd, names, WS_COUNT(names));
	int (*init)(void), (*driver)(char *, unsigned), rc;
	char version[96] = "";

	(void)arg;
	if (!library)
		_exit(3);
	*(void **)&init = dlsym(library, "nvmlInit_v2");
	*(void **)&driver = dlsym(library, "nvmlSystemGetDriverVersion");
	if (!init || !driver)
		_exit(4);
	rc = init();
	if (rc) {
		dprintf(fd, ", which cannot start (error %d)", rc);
		_exit(5);
	}
	if (!driver(version, sizeof(version)))
		dprintf(fd, ", driver %s", version);
}

void ws_check_nvml(struct ws_finding *finding)
{
	struct ws_text said = {0};
	bool well = ws_run_in_child(probe_nvml, NULL, PATIENCE_S, &said);

	if (!said.len)
		ws_add_finding(finding, WS_HEALTH_MISSING, "libnvidia-ml.so.1 does not open");
	else if (well)
		ws_add_finding(finding, WS_HEALTH_OK, "%s", said.text);
	else
		ws_add_finding(finding, WS_HEALTH_MISSING, "%s; it gave no version", said.text);
	if (finding->health && count_devices())
		ws_add_fix(finding, "install the driver's libraries; in a container: "
				    "NVIDIA_DRIVER_CAPABILITIES=compute,utility");
	ws_text_free(&said);
}

static void probe_cupti(int fd, void *arg)
{
	const struct ws_cupti_paths *candidates = arg;
	void *library =
		open_first_library(fd, (const char *const *)candidates->paths, candidates->count);
	int (*get_version)(uint32_t *);
	uint32_t version = 0;

	if (!library)
		_exit(3);
	*(void **)&get_version = dlsym(library, "cuptiGetVersion");
	if (get_version && !get_version(&version))
		dprintf(fd, ", version %u", version);
}

void ws_check_cupti(struct ws_finding *finding)
{
	struct ws_cupti_paths candidates = {0};
	struct ws_text said = {0};
	bool well;

	ws_list_cupti_paths(&candidates);
	well = ws_run_in_child(probe_cupti, &candidates, PATIENCE_S, &said);
	if (said.len)
		report_library(finding, said.text, well);
	else
		ws_add_finding(
			finding, WS_HEALTH_MISSING,
			"libcupti opens neither by the loader's path nor from a toolkit or a "
			"Python package");
	if (!said.len && count_devices())
		ws_add_fix(finding,
			   "install CUPTI (it is part of the CUDA toolkit) or set CUDA_HOME");
	ws_cupti_paths_free(&candidates);
	ws_text_free(&said);
}

void ws_check_counters(struct ws_finding *finding)
{
	char params[16384];
	const char *text;
	size_t length;

	if (!ws_read_small_file("/proc/driver/nvidia/params", params, sizeof(params))) {
		if (is_driver_loaded())
			ws_add_finding(finding, WS_HEALTH_DEGRADED,
				       "cannot find out: /proc/driver/nvidia/params: %s",
				       strerror(errno));
		else
			ws_add_finding(finding, WS_HEALTH_MISSING, "no NVIDIA driver, no counters");
		return;
	}
	text = ws_find_line_value(params, "RmProfilingAdminOnly", &length);
	if (!text) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED,
			       "cannot find out: the driver does not say whether counters are for "
			       "administrators only");
		return;
	}
	if (*text == '0') {
		ws_add_finding(finding, WS_HEALTH_OK,
			       "open to all users (RmProfilingAdminOnly is 0)");
	} else if (ws_has_capability(CAPABILITY_SYS_ADMIN)) {
		ws_add_finding(
			finding, WS_HEALTH_OK,
			"for administrators only (RmProfilingAdminOnly is %c), and this is one",
			*text);
	} else {
		ws_add_finding(finding, WS_HEALTH_MISSING,
			       "for administrators only (RmProfilingAdminOnly is %c)", *text);
		ws_add_fix(finding,
			   "as root: put 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' "
			   "into /etc/modprobe.d/ and reboot; in a container: "
			   "--cap-add SYS_ADMIN");
	}
}

void ws_check_injection(struct ws_finding *finding)
{
	static const char *const names[] = {"CUDA_INJECTION64_PATH", "CUDA_INJECTION32_PATH",
					    "NVTX_INJECTION64_PATH", "NVTX_INJECTION32_PATH"};
	const char *tool = ws_find_gpu_tool(environ);

	if (tool) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED,
			       "this was started under %s, which has the GPU to itself", tool);
		ws_add_fix(finding, "start warpsight without it");
	}

	for (size_t i = 0; i < WS_COUNT(names); i++) {
		const char *value = getenv(names[i]);

		if (!value || !*value)
			continue;
		ws_add_finding(finding, WS_HEALTH_DEGRADED,
			       "%s is set already (%.256s): two tools cannot both use it", names[i],
			       value);
		ws_add_fix(finding, "unset %s", names[i]);
	}
	if (!finding->health)
		ws_add_finding(finding, WS_HEALTH_OK, "no other tool's injection is set");
}

void ws_check_cuda_environment(struct ws_finding *finding)
{
	const char *blocking = getenv("CUDA_LAUNCH_BLOCKING"),
		   *visible = getenv("CUDA_VISIBLE_DEVICES");

	if (blocking && *blocking && strcmp(blocking, "0")) {
		ws_add_finding(
			finding, WS_HEALTH_DEGRADED,
			"CUDA_LAUNCH_BLOCKING is %.16s: every kernel launch waits for its kernel, "
			"and timings mislead",
			blocking);
		ws_add_fix(finding, "unset CUDA_LAUNCH_BLOCKING");
	}
	if (visible)
		ws_add_finding(finding, WS_HEALTH_OK, "CUDA_VISIBLE_DEVICES is '%.64s'", visible);
	if (!finding->found.len)
		ws_add_finding(finding, WS_HEALTH_OK, "none that distorts timings");
}
