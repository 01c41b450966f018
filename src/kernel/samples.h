/*
 * samples.h - metrics of a measured kernel over its time (table kernel_sample).
 */
#ifndef WS_KERNEL_SAMPLES_H
#define WS_KERNEL_SAMPLES_H

#include "base/mem.h"
#include "kernel/result.h"

/* What a metric was in an interval; times are ns since the kernel began. */
struct ws_kernel_moment_value {
	uint64_t start, end;
	double value;
};
struct ws_kernel_series {
	const char *metric, *unit; /* "" for no unit; they live as long as the report */
	struct ws_kernel_moment_value *moments;
	size_t count, capacity;
};
struct ws_kernel_timed {
	struct ws_kernel_series *series;
	size_t count, capacity;
	uint64_t span; /* ns, of all */
};

/* All series of a result, given by its number; the caller frees them. */
void ws_kernel_load_timed(const struct ws_report *report, uint32_t result,
			  struct ws_kernel_timed *timed);
void ws_kernel_free_timed(struct ws_kernel_timed *timed);

/* The means of a series in `count` equal parts of `span` ns; NAN where it has no value. */
void ws_kernel_condense(const struct ws_kernel_series *series, uint64_t span, double *values,
			size_t count);

/* Append a chart of a result's series (kind "series") to an array that the caller has begun;
 * nothing where there are none. */
void ws_put_kernel_series(struct ws_text *out, const struct ws_report *report,
			  const struct ws_kernel_result *result);
/* Add a line of text for each series: its label, its lowest, mean and highest value, and a graph.
 */
void ws_kernel_print_series(struct ws_text *text, const struct ws_report *report,
			    const struct ws_kernel_result *result);

#endif
