/* vulkan_loader.h - which loader of Vulkan is installed. */
#ifndef WS_RECORD_VULKAN_LOADER_H
#define WS_RECORD_VULKAN_LOADER_H

#include <stdbool.h>
#include <stddef.h>

/* The real path of a shared library, which has its version, in PATH_MAX bytes; false when it is not
 * where libraries are. It is not opened. */
bool ws_find_installed_library(const char *name, char *out);
/* Major, minor and patch; false when it is not installed, or its name does not say. */
bool ws_find_vulkan_loader(int version[3]);
/* Whether a loader of this version adds the folders of VK_ADD_LAYER_PATH to those that it searches
 * for layers. */
bool ws_vulkan_loader_adds_folders(const int version[3]);
/* The first such version. */
#define WS_VULKAN_LOADER_NEEDED "1.3.207"

#endif
