/*
 * graphics.c - which libraries for OpenGL and Vulkan are installed. They are only looked for, since
 * opening them would load drivers.
 */
#include <limits.h>

#include "base/compiler.h"
#include "doctor/doctor.h"
#include "record/vulkan_loader.h"

static void check_vulkan(struct ws_finding *finding)
{
	char path[PATH_MAX];
	int version[3];

	if (!ws_find_installed_library("libvulkan.so.1", path))
		return;
	if (!ws_find_vulkan_loader(version)) {
		ws_add_finding(finding, WS_HEALTH_OK, "Vulkan's loader (%s)", path);
		return;
	}
	ws_add_finding(finding, WS_HEALTH_OK, "Vulkan's loader %d.%d.%d", version[0], version[1],
		       version[2]);
	if (!ws_vulkan_loader_adds_folders(version))
		ws_add_finding(finding, WS_HEALTH_OK,
			       "it does not know VK_ADD_LAYER_PATH (" WS_VULKAN_LOADER_NEEDED
			       "), so --trace=vulkan sets VK_LAYER_PATH for programs");
}

void ws_check_graphics(struct ws_finding *finding)
{
	static const char *const names[] = {"libGL.so.1", "libEGL.so.1"};
	char path[PATH_MAX];

	for (size_t i = 0; i < WS_COUNT(names); i++)
		if (ws_find_installed_library(names[i], path))
			ws_add_finding(finding, WS_HEALTH_OK, "%s", names[i]);
	check_vulkan(finding);
	if (!finding->found.len)
		ws_add_finding(finding, WS_HEALTH_OK, "no OpenGL and no Vulkan installed");
}
