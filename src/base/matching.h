/*
 * matching.h - the files whose paths fit a pattern, as a shell would list them.
 *
 * glob() of the GNU C library frees memory twice when an allocation fails, so a command that runs
 * out of memory would crash in it.
 */
#ifndef WS_BASE_MATCHING_H
#define WS_BASE_MATCHING_H

#include <stddef.h>

struct ws_matching_paths {
	char **paths; /* in the order of their bytes */
	size_t count, capacity;
};

/* Lists what fits; `*`, `?` and `[...]` stand for parts of names, and none of them for a dot at the
 * beginning. Folders that cannot be read hold nothing. Free with ws_matching_paths_free. */
void ws_find_matching_paths(const char *pattern, struct ws_matching_paths *found);
void ws_matching_paths_free(struct ws_matching_paths *found);

#endif
