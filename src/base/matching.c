/* matching.c - see matching.h. */
#include "base/matching.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

static bool has_wildcard(const char *name)
{
	return strpbrk(name, "*?[") != NULL;
}

static int compare_paths(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

static void add_path(struct ws_matching_paths *found, const char *path)
{
	if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW))
		return;
	ws_grow(found->paths, found->capacity, found->count + 1);
	found->paths[found->count++] = ws_strdup(path);
}

static void expand(struct ws_matching_paths *found, const char *base, const char *pattern);

/* Continues with one name in the place of the pattern's first part. */
static void expand_name(struct ws_matching_paths *found, const char *base, const char *name,
			const char *rest)
{
	char *path = ws_format("%s%s", base, name), *folder;

	if (!rest) {
		add_path(found, path);
	} else {
		folder = ws_format("%s/", path);
		expand(found, folder, rest);
		free(folder);
	}
	free(path);
}

static void expand_folder(struct ws_matching_paths *found, const char *base, const char *part,
			  const char *rest)
{
	const char *name = ".";
	struct dirent *entry;
	DIR *folder;

	if (*base)
		name = base;
	folder = opendir(name);
	if (!folder)
		return;
	while ((entry = readdir(folder)))
		if (!fnmatch(part, entry->d_name, FNM_PERIOD))
			expand_name(found, base, entry->d_name, rest);
	closedir(folder);
}

/* `base` is empty or ends with a slash. */
static void expand(struct ws_matching_paths *found, const char *base, const char *pattern)
{
	const char *slash = strchr(pattern, '/'), *rest = NULL;
	char *part;

	if (slash) {
		part = ws_format("%.*s", (int)(slash - pattern), pattern);
		rest = slash + 1;
	} else {
		part = ws_strdup(pattern);
	}
	if (has_wildcard(part))
		expand_folder(found, base, part, rest);
	else
		expand_name(found, base, part, rest);
	free(part);
}

void ws_find_matching_paths(const char *pattern, struct ws_matching_paths *found)
{
	*found = (struct ws_matching_paths){0};
	expand(found, "", pattern);
	if (found->count)
		qsort(found->paths, found->count, sizeof(*found->paths), compare_paths);
}

void ws_matching_paths_free(struct ws_matching_paths *found)
{
	for (size_t i = 0; i < found->count; i++)
		free(found->paths[i]);
	free(found->paths);
	*found = (struct ws_matching_paths){0};
}
