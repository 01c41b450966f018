/* cupti_paths.h - where a libcupti may be: the loader's path, toolkits and Python packages. */
#ifndef WS_GPU_CUPTI_PATHS_H
#define WS_GPU_CUPTI_PATHS_H

#include <stddef.h>

/* Paths and names for dlopen, in the order in which to try them. Free with ws_cupti_paths_free. */
struct ws_cupti_paths {
	char **paths;
	size_t count, capacity;
};

void ws_list_cupti_paths(struct ws_cupti_paths *paths);
void ws_cupti_paths_free(struct ws_cupti_paths *paths);

#endif
