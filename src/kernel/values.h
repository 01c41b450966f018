/*
 * values.h - values of a result by the names of metrics: those that were measured or imported, and
 * what follows from them, from the launch and from the device (derived.def, launch__...).
 */
#ifndef WS_KERNEL_VALUES_H
#define WS_KERNEL_VALUES_H

#include <stdbool.h>

#include "gpu/occupancy.h"
#include "kernel/result.h"
#include "kernel/sections.h"

/* The value of a metric; NAN when it was neither measured nor computable. */
double ws_kernel_get(const struct ws_kernel_result *result, const char *metric);
/* The value of a line of sections.def; NAN when one of its metrics is missing. */
double ws_kernel_line_value(const struct ws_kernel_result *result,
			    const struct ws_kernel_line *line);
/* The text of a metric that is a text; NULL for other metrics. */
const char *ws_kernel_get_text(const struct ws_kernel_result *result, const char *metric);
/* Whether a section's lines apply to the chip of a result. */
bool ws_kernel_line_applies(const struct ws_kernel_result *result,
			    const struct ws_kernel_line *line);

/* The multiprocessors of a device, as occupancy is computed from them. */
struct ws_sm ws_kernel_describe_sm(const struct ws_row_cuda_device *device);
/* Computes how many blocks fit on a multiprocessor; all 0 when the device is not known. */
struct ws_occupancy ws_kernel_occupancy(const struct ws_kernel_result *result);

/* The metrics that are computed from the launch and the device, for lists of metrics.
 * NULL-terminated. */
extern const char *const ws_kernel_computed_names[];
/* The unit of such a metric; "" for none. */
const char *ws_kernel_computed_unit(const char *metric);

#endif
