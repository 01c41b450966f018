/* kernel_runs.c - see kernel_runs.h. */
#include "cli/kernel_runs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"

char *ws_make_run_folder(struct ws_err *err)
{
	const char *parent = ws_text_or(getenv("TMPDIR"), "/tmp");
	char *folder = ws_format("%s/warpsight-runs-XXXXXX", parent);

	if (mkdtemp(folder))
		return folder;
	ws_fail_errno(err, "cannot make the folder %s", folder);
	free(folder);
	return NULL;
}

size_t ws_read_run_count(const char *folder)
{
	char *path = ws_format("%s/passes", folder);
	FILE *file = fopen(path, "re");
	size_t most = 0, passes;

	while (file && fscanf(file, "%zu", &passes) == 1)
		most = ws_max(most, passes);
	if (file)
		fclose(file);
	free(path);
	return most;
}

/* Call `handle` with the path of each file whose name begins so. */
static size_t visit_files(const char *folder, const char *prefix, int (*handle)(const char *path))
{
	DIR *directory = opendir(folder);
	struct dirent *entry;
	size_t count = 0;

	while (directory && (entry = readdir(directory))) {
		char *path;

		if (*entry->d_name == '.' || strncmp(entry->d_name, prefix, strlen(prefix)))
			continue;
		count++;
		path = ws_format("%s/%s", folder, entry->d_name);
		if (handle)
			handle(path);
		free(path);
	}
	if (directory)
		closedir(directory);
	return count;
}

size_t ws_count_unfinished_units(const char *folder)
{
	return visit_files(folder, "unit-", NULL);
}

void ws_remove_run_folder(const char *folder)
{
	visit_files(folder, "", unlink);
	rmdir(folder);
}
