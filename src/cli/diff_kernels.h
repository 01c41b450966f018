/* diff_kernels.h - `diff` of measured kernels: results of two reports, or two of one. */
#ifndef WS_CLI_DIFF_KERNELS_H
#define WS_CLI_DIFF_KERNELS_H

#include <stdbool.h>

struct ws_kernel_diff {
	const char *paths[2]; /* reports, before and after */
	const char *which;    /* --kernels: "all" or "ID:ID"; NULL when it was not given */
	const char *format, *output;
	bool overwrite, all;
};

/* Whether two reports hold measured kernels and no time line, so that only those can be
 * compared. Reports that cannot be opened have none. */
bool ws_have_only_kernel_results(const char *const paths[2]);
/* Compare and write. Returns the exit status. */
int ws_diff_kernels(const struct ws_kernel_diff *diff);

#endif
