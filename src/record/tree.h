/* tree.h - the processes and threads that a process and its descendants have right now. */
#ifndef WS_RECORD_TREE_H
#define WS_RECORD_TREE_H

#include <stddef.h>
#include <stdint.h>

struct ws_tree {
	struct ws_tree_process {
		uint32_t pid, parent;
	} * processes; /* parents before their children; the first is the one asked for */
	size_t process_count, process_cap;
	struct ws_tree_thread {
		uint32_t pid, tid;
	} * threads;
	size_t thread_count, thread_cap;
};

/* Read from /proc, without this process and what it has started; what ends meanwhile may be in it.
 * Zero it to begin with. */
void ws_tree_read(struct ws_tree *tree, uint32_t pid);
void ws_tree_free(struct ws_tree *tree);

#endif
