/* tree.c - see tree.h. */
#include "record/tree.h"
#include "record/process_stat.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

/* The parent of a process, 0 when it has none or is gone. */
static uint32_t read_parent(uint32_t pid)
{
	char line[WS_PROCESS_STAT];
	const char *after = ws_read_process_stat((int)pid, line);
	unsigned parent = 0;

	if (after)
		sscanf(after, ") %*c %u", &parent);
	return parent;
}

static void add_process(struct ws_tree *tree, uint32_t pid, uint32_t parent)
{
	ws_grow(tree->processes, tree->process_cap, tree->process_count + 1);
	tree->processes[tree->process_count++] = (struct ws_tree_process){pid, parent};
}

/* Every process there is. */
static void list_processes(struct ws_tree *all)
{
	struct dirent *entry;
	DIR *dir = opendir("/proc");

	while (dir && (entry = readdir(dir))) {
		uint32_t pid = (uint32_t)strtoul(entry->d_name, NULL, 10);

		if (pid)
			add_process(all, pid, read_parent(pid));
	}
	if (dir)
		closedir(dir);
}

/* Children follow their parents: each that is found is asked for its own. */
static void add_descendants(struct ws_tree *tree, const struct ws_tree *all)
{
	for (size_t i = 0; i < tree->process_count; i++)
		for (size_t k = 0; k < all->process_count; k++)
			if (all->processes[k].parent == tree->processes[i].pid &&
			    all->processes[k].pid != (uint32_t)getpid())
				add_process(tree, all->processes[k].pid, tree->processes[i].pid);
}

static void add_threads(struct ws_tree *tree, uint32_t pid)
{
	struct dirent *entry;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);

		if (!tid)
			continue;
		ws_grow(tree->threads, tree->thread_cap, tree->thread_count + 1);
		tree->threads[tree->thread_count++] = (struct ws_tree_thread){pid, tid};
	}
	if (dir)
		closedir(dir);
}

void ws_tree_read(struct ws_tree *tree, uint32_t pid)
{
	struct ws_tree all = {0};

	tree->process_count = tree->thread_count = 0;
	list_processes(&all);
	add_process(tree, pid, read_parent(pid));
	add_descendants(tree, &all);
	for (size_t i = 0; i < tree->process_count; i++)
		add_threads(tree, tree->processes[i].pid);
	ws_tree_free(&all);
}

void ws_tree_free(struct ws_tree *tree)
{
	free(tree->processes);
	free(tree->threads);
	*tree = (struct ws_tree){0};
}
