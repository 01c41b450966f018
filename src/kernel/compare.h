/*
 * compare.h - two results of a kernel side by side: every figure with its change, and what explains
 * the change of the duration.
 */
#ifndef WS_KERNEL_COMPARE_H
#define WS_KERNEL_COMPARE_H

#include "kernel/result.h"
#include "text/text.h"

enum { WS_KERNEL_SIDES = 2 };

struct ws_kernel_pair {
	const struct ws_kernel_result *sides[WS_KERNEL_SIDES]; /* before, after */
};
struct ws_kernel_pairs {
	struct ws_kernel_pair *pairs;
	size_t count;
	size_t alone[WS_KERNEL_SIDES]; /* results without a counterpart */
};

/* Pair the results of one report with those of another: the n-th result of a name with the n-th of
 * the same name. The caller frees `pairs->pairs`. */
void ws_pair_kernel_results(const struct ws_kernel_results *before,
			    const struct ws_kernel_results *after, struct ws_kernel_pairs *pairs);

/* Write the comparisons as text; figures that changed by less than a hundredth only with `all`. */
void ws_print_kernel_pairs(const struct ws_kernel_pairs *pairs, bool all, struct ws_text *text);
/* Append the same as a JSON object, with all figures. */
void ws_put_kernel_pairs_json(const struct ws_kernel_pairs *pairs, struct ws_text *text);

#endif
