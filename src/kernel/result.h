/*
 * result.h - measured kernels as a report has them: each result with its metrics by name, and the
 * GPU that it ran on. Everything that shows, judges or compares results reads them here.
 */
#ifndef WS_KERNEL_RESULT_H
#define WS_KERNEL_RESULT_H

#include "store/store.h"

/* A metric of a result. */
struct ws_kernel_metric {
	const char *name, *unit; /* "" for no unit */
	const char *text;	 /* NULL for a number */
	double value;
};

/* Texts live as long as the report. */
struct ws_kernel_result {
	struct ws_row_kernel_result row;  /* as stored; its texts are below */
	struct ws_row_cuda_device device; /* all 0 when the report does not describe the device */
	uint32_t pid;
	const char *name;      /* of the function, or of the range: "" only when neither is known */
	const char *demangled; /* "" when not known */
	const char *chip, *gpu, *tool, *error, *nvtx;
	const char *replay, *cache_control, *clock_control, *sections;
	struct ws_kernel_metric *metrics; /* ascending by name */
	size_t metric_count;
	double duration_ns; /* gpu__time_duration.sum, else that of the row; NAN: unknown */
};

struct ws_kernel_results {
	const struct ws_report *report;
	struct ws_kernel_result *results; /* ordered by number */
	size_t count;
	struct ws_kernel_metric *metrics; /* of all results */
};

/* Whether the report has any results. Costs nothing. */
bool ws_has_kernel_results(const struct ws_report *report);
/* All results of a report; the caller frees them by ws_kernel_results_free. */
void ws_kernel_results_load(const struct ws_report *report, struct ws_kernel_results *results);
void ws_kernel_results_free(struct ws_kernel_results *results);
/* The result with this number; NULL when there is none. */
const struct ws_kernel_result *ws_find_kernel_result(const struct ws_kernel_results *results,
						     uint32_t id);

/* A metric by its name; NULL when it was not measured. */
const struct ws_kernel_metric *ws_find_kernel_metric(const struct ws_kernel_result *result,
						     const char *name);
/* The value of a metric; NAN when it was not measured, is a text or has no value. */
double ws_kernel_value(const struct ws_kernel_result *result, const char *name);

#endif
