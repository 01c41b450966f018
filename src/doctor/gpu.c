/*
 * gpu.c - checks of the GPU side: devices, driver, the libraries that are opened at run time,
 * permissions, settings.
 *
 * Libraries are opened in a child with a time limit: a sick driver hangs or crashes whoever asks
 * it. Nothing of CUDA is needed to build this: the few functions called are declared by hand, as
 * the libraries' documentation gives them.
 */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gpu_tools.h"
#include "doctor/doctor.h"

enum { CAPABILITY_SYS_ADMIN = 21, PATIENCE_S = 15 };

static int count_devices(void)
{
	DIR *dir = opendir("/dev");
	struct dirent *entry;
	int n = 0;

	while (dir && (entry = readdir(dir)))
		n += !strncmp(entry->d_name, "nvidia", 6) &&
		     isdigit((unsigned char)entry->d_name[6]);
	if (dir)
		closedir(dir);
	return n;
}

static bool driver_loaded(void)
{
	return !access("/proc/driver/nvidia/version", R_OK);
}

/* Models of the GPUs that the driver knows, as /proc tells without touching them. */
static void add_models(struct ws_finding *finding)
{
	char text[4096];
	glob_t g;

	if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &g))
		return;
	for (size_t i = 0; i < g.gl_pathc; i++) {
		size_t len;
		const char *word;

		if (ws_read_small(g.gl_pathv[i], text, sizeof(text)) &&
		    (word = ws_line_after(text, "Model", &len)))
			ws_found(finding, WS_HEALTH_OK, "%.*s", (int)len, word);
	}
	globfree(&g);
}

void ws_look_gpu(struct ws_finding *finding)
{
	int n = count_devices();

	if (!n && !driver_loaded()) {
		ws_found(finding, WS_HEALTH_MISSING,
			 "no NVIDIA GPU: there is neither /dev/nvidia0 nor a driver");
		ws_fix(finding,
		       "nothing to do where there is no GPU; in a container: docker run --gpus "
		       "all");
		return;
	}
	if (!n) {
		ws_found(finding, WS_HEALTH_MISSING, "the driver is loaded, but /dev has no GPU");
		ws_fix(finding,
		       "in a container: docker run --gpus all; else as root: nvidia-modprobe -c 0");
		return;
	}
	ws_found(finding, WS_HEALTH_OK, "%d in /dev", n);
	add_models(finding);
	if (access("/dev/nvidiactl", R_OK | W_OK)) {
		ws_found(finding, WS_HEALTH_DEGRADED, "/dev/nvidiactl: %s", strerror(errno));
		ws_fix(finding, "become a member of the group that owns /dev/nvidia*");
	}
}

/* Open a library by the first of `names` that opens; say where from. */
static void *open_first(int fd, const char *const *names, size_t n)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < n; i++) {
		void *h = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);

		if (!h)
			continue;
		if (names[i][0] != '/' && !dlinfo(h, RTLD_DI_ORIGIN, path))
			dprintf(fd, "%s/%s", path, names[i]);
		else
			dprintf(fd, "%s", names[i]);
		return h;
	}
	return NULL;
}

static void probe_cuda(int fd, void *arg)
{
	static const char *const names[] = {"libcuda.so.1", "libcuda.so"};
	void *h = open_first(fd, names, WS_COUNT(names));
	int (*version)(int *), v = 0;

	(void)arg;
	if (!h)
		_exit(3);
	*(void **)&version = dlsym(h, "cuDriverGetVersion");
	if (version && !version(&v))
		dprintf(fd, ", CUDA %d.%d", v / 1000, v % 1000 / 10);
}

void ws_look_driver(struct ws_finding *finding)
{
	struct ws_text said = {0};
	char text[512];
	bool well;

	if (ws_read_small("/proc/driver/nvidia/version", text, sizeof(text))) {
		size_t len;
		const char *word = ws_line_after(text, "NVRM version", &len);

		ws_found(finding, WS_HEALTH_OK, "%.*s", word ? (int)len : 64, word ? word : text);
	} else {
		ws_found(finding, WS_HEALTH_MISSING,
			 "the kernel has no NVIDIA driver (/proc/driver/nvidia/version: %s)",
			 strerror(errno));
	}
	well = ws_in_child(probe_cuda, NULL, PATIENCE_S, &said);
	if (said.len)
		ws_found(finding, well ? WS_HEALTH_OK : WS_HEALTH_MISSING, "%s%s", said.text,
			 well ? "" : ", which crashed or hung when asked its version");
	else
		ws_found(finding, WS_HEALTH_MISSING, "libcuda.so.1 does not open");
	if (finding->health && count_devices())
		ws_fix(finding, "install the NVIDIA driver's libraries; in a container: docker run "
				"--gpus all");
	ws_text_free(&said);
}

static void probe_nvml(int fd, void *arg)
{
	static const char *const names[] = {"libnvidia-ml.so.1", "libnvidia-ml.so"};
	void *h = open_first(fd, names, WS_COUNT(names));
	int (*init)(void), (*driver)(char *, unsigned), rc;
	char version[96] = "";

	(void)arg;
	if (!h)
		_exit(3);
	*(void **)&init = dlsym(h, "nvmlInit_v2");
	*(void **)&driver = dlsym(h, "nvmlSystemGetDriverVersion");
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

void ws_look_nvml(struct ws_finding *finding)
{
	struct ws_text said = {0};
	bool well = ws_in_child(probe_nvml, NULL, PATIENCE_S, &said);

	if (!said.len)
		ws_found(finding, WS_HEALTH_MISSING, "libnvidia-ml.so.1 does not open");
	else if (well)
		ws_found(finding, WS_HEALTH_OK, "%s", said.text);
	else
		ws_found(finding, WS_HEALTH_MISSING, "%s; it gave no version", said.text);
	if (finding->health && count_devices())
		ws_fix(finding, "install the driver's libraries; in a container: "
				"NVIDIA_DRIVER_CAPABILITIES=compute,utility");
	ws_text_free(&said);
}

struct candidates {
	char **v;
	size_t n, cap;
};

static void add_glob(struct candidates *candidates, const char *root, const char *pattern)
{
	char *all = ws_format("%s/%s", root, pattern);
	glob_t g;

	if (*root && !glob(all, 0, NULL, &g)) {
		for (size_t i = g.gl_pathc; i-- > 0;) { /* the highest version first */
			ws_grow(candidates->v, candidates->cap, candidates->n + 1);
			candidates->v[candidates->n++] = ws_strdup(g.gl_pathv[i]);
		}
		globfree(&g);
	}
	free(all);
}

/* Where CUPTI is found: the loader's path, toolkits, and what Python packages bring. */
static void find_cupti(struct candidates *candidates)
{
	static const char *const plain[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
					    "libcupti.so"};
	static const char *const toolkits[] = {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"};
	static const char *const pythons[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};

	for (size_t i = 0; i < WS_COUNT(plain); i++) {
		ws_grow(candidates->v, candidates->cap, candidates->n + 1);
		candidates->v[candidates->n++] = ws_strdup(plain[i]);
	}
	for (size_t i = 0; i < WS_COUNT(toolkits); i++)
		if (getenv(toolkits[i])) {
			add_glob(candidates, getenv(toolkits[i]),
				 "extras/CUPTI/lib64/libcupti.so*");
			add_glob(candidates, getenv(toolkits[i]), "lib64/libcupti.so*");
		}
	for (size_t i = 0; i < WS_COUNT(pythons); i++)
		if (getenv(pythons[i])) {
			add_glob(candidates, getenv(pythons[i]), "lib/libcupti.so*");
			add_glob(candidates, getenv(pythons[i]),
				 "lib/python3*/site-packages/nvidia/cu*/lib/libcupti.so*");
		}
	add_glob(candidates, "/usr/local", "cuda*/extras/CUPTI/lib64/libcupti.so*");
	add_glob(candidates, "/usr/local", "cuda*/lib64/libcupti.so*");
	add_glob(candidates, "/usr", "lib/python3*/*-packages/nvidia/cu*/lib/libcupti.so*");
	add_glob(candidates, "/usr/local", "lib/python3*/*-packages/nvidia/cu*/lib/libcupti.so*");
	add_glob(candidates, "/opt", "nvidia/*/*/target-linux-*/libcupti.so*");
}

static void probe_cupti(int fd, void *arg)
{
	struct candidates *candidates = arg;
	void *h = open_first(fd, (const char *const *)candidates->v, candidates->n);
	int (*version)(uint32_t *);
	uint32_t v = 0;

	if (!h)
		_exit(3);
	*(void **)&version = dlsym(h, "cuptiGetVersion");
	if (version && !version(&v))
		dprintf(fd, ", version %u", v);
}

void ws_look_cupti(struct ws_finding *finding)
{
	struct candidates candidates = {0};
	struct ws_text said = {0};
	bool well;

	find_cupti(&candidates);
	well = ws_in_child(probe_cupti, &candidates, PATIENCE_S, &said);
	if (said.len)
		ws_found(finding, well ? WS_HEALTH_OK : WS_HEALTH_MISSING, "%s%s", said.text,
			 well ? "" : ", which crashed or hung when asked its version");
	else
		ws_found(finding, WS_HEALTH_MISSING,
			 "libcupti opens neither by the loader's path nor from a toolkit or a "
			 "Python package");
	if (!said.len && count_devices())
		ws_fix(finding, "install CUPTI (it is part of the CUDA toolkit) or set CUDA_HOME");
	for (size_t i = 0; i < candidates.n; i++)
		free(candidates.v[i]);
	free(candidates.v);
	ws_text_free(&said);
}

void ws_look_counters(struct ws_finding *finding)
{
	char params[16384];
	const char *text;
	size_t len;

	if (!ws_read_small("/proc/driver/nvidia/params", params, sizeof(params))) {
		if (driver_loaded())
			ws_found(finding, WS_HEALTH_DEGRADED,
				 "cannot look: /proc/driver/nvidia/params: %s", strerror(errno));
		else
			ws_found(finding, WS_HEALTH_MISSING, "no NVIDIA driver, no counters");
		return;
	}
	text = ws_line_after(params, "RmProfilingAdminOnly", &len);
	if (!text) {
		ws_found(finding, WS_HEALTH_DEGRADED,
			 "cannot look: the driver does not say whether counters are for "
			 "administrators only");
		return;
	}
	if (*text == '0') {
		ws_found(finding, WS_HEALTH_OK, "open to all users (RmProfilingAdminOnly is 0)");
	} else if (ws_has_capability(CAPABILITY_SYS_ADMIN)) {
		ws_found(finding, WS_HEALTH_OK,
			 "for administrators only (RmProfilingAdminOnly is %c), and this is one",
			 *text);
	} else {
		ws_found(finding, WS_HEALTH_MISSING,
			 "for administrators only (RmProfilingAdminOnly is %c)", *text);
		ws_fix(finding,
		       "as root: put 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' "
		       "into /etc/modprobe.d/ and reboot; in a container: "
		       "--cap-add SYS_ADMIN");
	}
}

void ws_look_injection(struct ws_finding *finding)
{
	static const char *const names[] = {"CUDA_INJECTION64_PATH", "CUDA_INJECTION32_PATH",
					    "NVTX_INJECTION64_PATH", "NVTX_INJECTION32_PATH"};
	const char *tool = ws_gpu_tool(environ);

	if (tool) {
		ws_found(finding, WS_HEALTH_DEGRADED,
			 "this was started under %s, which has the GPU to itself", tool);
		ws_fix(finding, "start warpsight without it");
	}

	for (size_t i = 0; i < WS_COUNT(names); i++) {
		const char *value = getenv(names[i]);

		if (!value || !*value)
			continue;
		ws_found(finding, WS_HEALTH_DEGRADED,
			 "%s is set already (%.256s): two tools cannot both use it", names[i],
			 value);
		ws_fix(finding, "unset %s", names[i]);
	}
	if (!finding->health)
		ws_found(finding, WS_HEALTH_OK, "no other tool's injection is set");
}

void ws_look_cuda_environment(struct ws_finding *finding)
{
	const char *blocking = getenv("CUDA_LAUNCH_BLOCKING"),
		   *visible = getenv("CUDA_VISIBLE_DEVICES");

	if (blocking && *blocking && strcmp(blocking, "0")) {
		ws_found(finding, WS_HEALTH_DEGRADED,
			 "CUDA_LAUNCH_BLOCKING is %.16s: every kernel launch waits for its kernel, "
			 "and timings mislead",
			 blocking);
		ws_fix(finding, "unset CUDA_LAUNCH_BLOCKING");
	}
	if (visible)
		ws_found(finding, WS_HEALTH_OK, "CUDA_VISIBLE_DEVICES is '%.64s'", visible);
	if (!finding->found.len)
		ws_found(finding, WS_HEALTH_OK, "none that distorts timings");
}
