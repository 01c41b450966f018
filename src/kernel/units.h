/*
 * units.h - units of metrics. A report holds values unscaled (byte, ns, byte/s, hz); people see
 * them with a prefix.
 */
#ifndef WS_KERNEL_UNITS_H
#define WS_KERNEL_UNITS_H

#include <stddef.h>

enum { WS_UNIT_ROOM = 48, WS_NUMBER_ROOM = 40 };

/* The unit of a metric. CUPTI gives only the unit of its base name; the suffix may make it a rate
 * or a share. */
/* The unit of a metric as CUPTI gives it for the metric's full name, in the words used here. */
void ws_kernel_tidy_unit(const char *metric, const char *cupti_unit, char unit[WS_UNIT_ROOM]);
void ws_kernel_unit_of(const char *metric, const char *base_unit, char unit[WS_UNIT_ROOM]);
/* The unit that users know for one of CUPTI's: ns for nanosecond, hz for gpc_cycle/s. Other units
 * are returned unchanged. */
const char *ws_kernel_plain_unit(const char *unit);
/* Undo a prefix: Mbyte/s becomes byte/s and returns 1e6; us becomes ns and returns 1000. */
double ws_kernel_normalise_unit(const char *scaled, char unit[WS_UNIT_ROOM]);
/* Choose a prefix for a value; returns the divisor. */
double ws_kernel_scale_unit(double value, const char *unit, char scaled[WS_UNIT_ROOM]);
/* A number as tables show it: whole numbers in groups of three digits, others with two decimals and
 * at least three significant digits. */
void ws_kernel_print_number(double value, char text[WS_NUMBER_ROOM]);

#endif
