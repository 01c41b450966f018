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
/* "most" and "curves" of a chart, as members of an object that the caller has begun: of each curve
 * its label, where the launch is ("at"), and [value, warps] wherever the warps change. */
void ws_put_occupancy_curves(struct ws_text *out, const struct ws_kernel_result *result);

#endif
