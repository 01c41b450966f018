/*
 * charts.h - the charts that a page draws of a measured kernel (charts.def), as JSON.
 */
#ifndef WS_KERNEL_CHARTS_H
#define WS_KERNEL_CHARTS_H

#include "base/mem.h"
#include "kernel/result.h"

/* Append the charts of a section, elements of an array that the caller has begun. Charts of which
 * nothing was measured are left out. */
void ws_put_kernel_charts(struct ws_text *out, const struct ws_kernel_result *result,
			  const char *section);
/* Whether a chart of the section draws the lines of this group. */
bool ws_is_group_charted(const char *section, const char *group);

/* A figure: an object with its label, metric, unit and value, null when it was not measured. */
struct ws_kernel_figure {
	const char *label, *unit;
	const char *value; /* a metric or a formula */
};
void ws_put_kernel_figure(struct ws_text *out, const struct ws_kernel_result *result,
			  const struct ws_kernel_figure *figure);
/* A value as a JSON number; null for NAN and infinity. */
void ws_put_json_double(struct ws_text *out, const char *key, double value);
/* The value of a metric or a formula; NAN when it was not measured. */
double ws_compute_kernel_value(const struct ws_kernel_result *result, const char *value);

#endif
