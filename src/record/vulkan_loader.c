/* vulkan_loader.c - see vulkan_loader.h. */
#include "record/vulkan_loader.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/matching.h"

bool ws_find_installed_library(const char *name, char *out)
{
	static const char *const folders[] = {"/usr/local/lib", "/usr/lib/*-linux-gnu",
					      "/usr/lib64", "/usr/lib", "/lib64"};
	bool found = false;

	for (size_t i = 0; i < WS_COUNT(folders) && !found; i++) {
		char pattern[256];
		struct ws_matching_paths paths;

		snprintf(pattern, sizeof(pattern), "%s/%s", folders[i], name);
		ws_find_matching_paths(pattern, &paths);
		found = paths.count && realpath(paths.paths[0], out);
		ws_matching_paths_free(&paths);
	}
	return found;
}

bool ws_find_vulkan_loader(int version[3])
{
	char path[PATH_MAX];
	const char *at;

	if (!ws_find_installed_library("libvulkan.so.1", path))
		return false;
	at = strstr(path, ".so.");
	return at && sscanf(at, ".so.%d.%d.%d", &version[0], &version[1], &version[2]) == 3;
}

bool ws_vulkan_loader_adds_folders(const int version[3])
{
	if (version[0] != 1 || version[1] != 3)
		return version[0] > 1 || (version[0] == 1 && version[1] > 3);
	return version[2] >= 207;
}
