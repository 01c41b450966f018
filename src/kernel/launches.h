/*
 * launches.h - launches of measured kernels on a time line: those of the same function with the
 * same grid and blocks.
 */
#ifndef WS_KERNEL_LAUNCHES_H
#define WS_KERNEL_LAUNCHES_H

#include "kernel/result.h"

struct ws_kernel_launches {
	uint64_t count, total_ns;
};

/*
 * Count the launches of each result in a report, which need not be the one that holds the results.
 * `launches` has room for one entry per result. Returns the time of all kernels of the report, ns.
 */
uint64_t ws_count_kernel_launches(const struct ws_report *report,
				  const struct ws_kernel_results *results,
				  struct ws_kernel_launches *launches);
/* A launch on a time line. */
struct ws_kernel_launch {
	uint32_t pid;	      /* of the process that launched it */
	uint32_t correlation; /* launches of a process ascend by it */
	const char *name;     /* of the kernel's function */
};
/* The command that measures a launch: it runs the report's program and skips the earlier launches
 * of the name. The caller frees it. */
char *ws_write_kernel_command(const struct ws_report *report,
			      const struct ws_kernel_launch *launch);
/* Whether two names are of the same kernel: blanks are ignored, and an unknown name ("") matches
 * any. */
bool ws_is_same_kernel_name(const char *left, const char *right);

#endif
