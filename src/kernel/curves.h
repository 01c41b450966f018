/*
 * curves.h - how many warps would be resident on a multiprocessor if a launch had other registers,
 * other shared memory or other blocks, everything else being equal.
 */
#ifndef WS_KERNEL_CURVES_H
#define WS_KERNEL_CURVES_H

#include "base/mem.h"
#include "kernel/result.h"

/* Whether the launch and its device are known. */
bool ws_has_occupancy_curves(const struct ws_kernel_result *result);
/* Append "most" and "curves" of a chart, as members of an object that the caller has begun. Each
 * curve has its label, the position of the launch ("at"), and a pair [value, warps] wherever the
 * number of warps changes. */
void ws_put_occupancy_curves(struct ws_text *out, const struct ws_kernel_result *result);

#endif
