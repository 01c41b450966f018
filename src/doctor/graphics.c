/*
 * graphics.c - which libraries for OpenGL and Vulkan are installed. They are only looked for, since
 * opening them would load drivers.
 */
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "doctor/doctor.h"

/* The first loader that knows VK_ADD_LAYER_PATH, by which programs get our layer. */
enum { NEEDED_PATCH = 207 };

/* The real path of a library, which has its version; false when it is not where libraries are. */
static bool find_library(const char *name, char *out)
{
	static const char *const folders[] = {"/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib",
					      "/lib64", "/usr/local/lib"};
	bool found = false;

	for (size_t i = 0; i < WS_COUNT(folders) && !found; i++) {
		char pattern[256];
		glob_t paths;

		snprintf(pattern, sizeof(pattern), "%s/%s", folders[i], name);
		if (glob(pattern, 0, NULL, &paths))
			continue;
		found = paths.gl_pathc && realpath(paths.gl_pathv[0], out);
		globfree(&paths);
	}
	return found;
}

static void check_vulkan(struct ws_finding *finding)
{
	char path[PATH_MAX];
	int major = 0, minor = 0, patch = 0;
	const char *version;

	if (!find_library("libvulkan.so.1", path))
		return;
	version = strstr(path, ".so.");
	if (!version || sscanf(version, ".so.%d.%d.%d", &major, &minor, &patch) != 3) {
		ws_add_finding(finding, WS_HEALTH_OK, "Vulkan's loader (%s)", path);
		return;
	}
	ws_add_finding(finding, WS_HEALTH_OK, "Vulkan's loader %d.%d.%d", major, minor, patch);
	if (major > 1 || minor > 3 || (minor == 3 && patch >= NEEDED_PATCH))
		return;
	ws_add_finding(finding, WS_HEALTH_DEGRADED, "it does not know VK_ADD_LAYER_PATH");
	ws_add_fix(finding,
		   "for --trace=vulkan, install version 1.3.%d or newer, or set "
		   "VK_LAYER_PATH to the folder of vulkan_layer.json",
		   NEEDED_PATCH);
}

void ws_check_graphics(struct ws_finding *finding)
{
	static const char *const names[] = {"libGL.so.1", "libEGL.so.1"};
	char path[PATH_MAX];
	size_t found = 0;

	for (size_t i = 0; i < WS_COUNT(names); i++)
		if (find_library(names[i], path)) {
			ws_add_finding(finding, WS_HEALTH_OK, "%s", names[i]);
			found++;
		}
	check_vulkan(finding);
	if (!found && !finding->found.len)
		ws_add_finding(finding, WS_HEALTH_OK, "no OpenGL and no Vulkan installed");
}
