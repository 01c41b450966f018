/* recordings.c - see recordings.h. */
#include "record/recordings.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "record/arena.h"
#include "ring/arena_name.h"

/* The path of a file that a process has open, if it is a report being written, which has its
 * journal next to it; else NULL. */
static char *find_report_of(int pid, const char *descriptor)
{
	char link[64], path[PATH_MAX];
	char *journal;
	ssize_t length;
	bool there;

	snprintf(link, sizeof(link), "/proc/%d/fd/%s", pid, descriptor);
	length = readlink(link, path, sizeof(path) - 1);
	if (length <= 0 || *path != '/')
		return NULL;
	path[length] = 0;
	journal = ws_format("%s.journal", path);
	there = !access(journal, F_OK);
	free(journal);
	return there ? ws_strdup(path) : NULL;
}

static bool is_known(const struct ws_recordings *recordings, const char *path)
{
	for (size_t i = 0; i < recordings->count; i++)
		if (!strcmp(recordings->list[i].report, path))
			return true;
	return false;
}

static void add_reports_of(struct ws_recordings *recordings, int pid)
{
	char folder[64];
	struct dirent *entry;
	DIR *dir;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", pid);
	dir = opendir(folder);
	while (dir && (entry = readdir(dir))) {
		char *path = find_report_of(pid, entry->d_name);

		if (!path || is_known(recordings, path)) {
			free(path);
			continue;
		}
		ws_grow(recordings->list, recordings->cap, recordings->count + 1);
		recordings->list[recordings->count++] = (struct ws_recording){pid, path};
	}
	if (dir)
		closedir(dir);
}

static bool is_arena_live(const char *folder, const char *name)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path) &&
	       ws_area_is_live(path);
}

static void look_in_folder(void *ctx, const char *folder)
{
	struct ws_recordings *recordings = ctx;
	struct dirent *entry;
	char mine[64];
	DIR *dir = opendir(folder);

	snprintf(mine, sizeof(mine), WS_ARENA_PREFIX "%u-", (unsigned)geteuid());
	while (dir && (entry = readdir(dir))) {
		int pid;

		if (strncmp(entry->d_name, mine, strlen(mine)))
			continue;
		pid = atoi(entry->d_name + strlen(mine));
		if (pid > 0 && is_arena_live(folder, entry->d_name))
			add_reports_of(recordings, pid);
	}
	if (dir)
		closedir(dir);
}

static int compare_recordings(const void *a, const void *b)
{
	const struct ws_recording *left = a, *right = b;

	if (left->recorder != right->recorder)
		return ws_compare(left->recorder, right->recorder);
	return strcmp(left->report, right->report);
}

void ws_recordings_find(struct ws_recordings *recordings)
{
	ws_recordings_free(recordings);
	ws_area_each_folder(look_in_folder, recordings);
	if (recordings->count)
		qsort(recordings->list, recordings->count, sizeof(*recordings->list),
		      compare_recordings);
}

void ws_recordings_free(struct ws_recordings *recordings)
{
	for (size_t i = 0; i < recordings->count; i++)
		free(recordings->list[i].report);
	free(recordings->list);
	*recordings = (struct ws_recordings){0};
}
