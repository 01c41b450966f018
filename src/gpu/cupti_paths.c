/* cupti_paths.c - see cupti_paths.h. */
#include <stdlib.h>

#include "base/compiler.h"
#include "base/matching.h"
#include "base/mem.h"
#include "gpu/cupti_paths.h"

static void add_matching_paths(struct ws_cupti_paths *paths, const char *root, const char *pattern)
{
	char *full = ws_format("%s/%s", root, pattern);
	struct ws_matching_paths found = {0};

	if (*root)
		ws_find_matching_paths(full, &found);
	for (size_t i = found.count; i-- > 0;) { /* the highest version first */
		ws_grow(paths->paths, paths->capacity, paths->count + 1);
		paths->paths[paths->count++] = ws_strdup(found.paths[i]);
	}
	ws_matching_paths_free(&found);
	free(full);
}

void ws_list_cupti_paths(struct ws_cupti_paths *paths)
{
	static const char *const plain[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
					    "libcupti.so"};
	static const char *const toolkits[] = {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"};
	static const char *const pythons[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};

	for (size_t i = 0; i < WS_COUNT(plain); i++) {
		ws_grow(paths->paths, paths->capacity, paths->count + 1);
		paths->paths[paths->count++] = ws_strdup(plain[i]);
	}
	for (size_t i = 0; i < WS_COUNT(toolkits); i++)
		if (getenv(toolkits[i])) {
			add_matching_paths(paths, getenv(toolkits[i]),
					   "extras/CUPTI/lib64/libcupti.so*");
			add_matching_paths(paths, getenv(toolkits[i]), "lib64/libcupti.so*");
		}
	for (size_t i = 0; i < WS_COUNT(pythons); i++)
		if (getenv(pythons[i])) {
			add_matching_paths(paths, getenv(pythons[i]), "lib/libcupti.so*");
			add_matching_paths(
				paths, getenv(pythons[i]),
				"lib/python3*/site-packages/nvidia/cu*/lib/libcupti.so*");
		}
	add_matching_paths(paths, "/usr/local", "cuda*/extras/CUPTI/lib64/libcupti.so*");
	add_matching_paths(paths, "/usr/local", "cuda*/lib64/libcupti.so*");
	add_matching_paths(paths, "/usr", "lib/python3*/*-packages/nvidia/cu*/lib/libcupti.so*");
	add_matching_paths(paths, "/usr/local",
			   "lib/python3*/*-packages/nvidia/cu*/lib/libcupti.so*");
	add_matching_paths(paths, "/opt", "nvidia/*/*/target-linux-*/libcupti.so*");
}

void ws_cupti_paths_free(struct ws_cupti_paths *paths)
{
	for (size_t i = 0; i < paths->count; i++)
		free(paths->paths[i]);
	free(paths->paths);
	*paths = (struct ws_cupti_paths){0};
}
