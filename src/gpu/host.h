/*
 * host.h - what CUPTI's host library knows about a chip: which metrics there are, their units and
 * how many passes it takes to measure some of them. It needs libcupti but no GPU.
 *
 * Metrics have the names that Nsight Compute uses: a base name (sm__cycles_active) and a suffix
 * (.avg, .sum.per_second, .ratio).
 */
#ifndef WS_GPU_HOST_H
#define WS_GPU_HOST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum ws_metric_type { WS_METRIC_COUNTER, WS_METRIC_RATIO, WS_METRIC_THROUGHPUT, WS_METRIC_TYPES };

struct ws_gpu_host;

struct ws_gpu_metric {
	const char *name; /* base name */
	enum ws_metric_type type;
};

/* Open the library for a chip such as GH100 (case does not matter). Returns NULL with a message in
 * *err that says what is missing. */
struct ws_gpu_host *ws_gpu_host_open(const char *chip, struct ws_err *err);
/* The same for metrics that can be sampled in intervals (CUPTI's PM sampling). */
struct ws_gpu_host *ws_gpu_host_open_sampler(const char *chip, struct ws_err *err);
void ws_gpu_host_close(struct ws_gpu_host *host);

/* The chips that the library knows, NULL-terminated and owned by the library; NULL with a message
 * when there is no library. */
const char *const *ws_gpu_chips(size_t *count, struct ws_err *err);

/* All base metrics, sorted by name. They belong to `host`. */
const struct ws_gpu_metric *ws_gpu_host_metrics(struct ws_gpu_host *host, size_t *count);
/* The base metric that a name with or without a suffix begins with; NULL when the chip does not
 * have it. */
const struct ws_gpu_metric *ws_gpu_host_find(struct ws_gpu_host *host, const char *name);
/* Whether the chip has this metric, which must have its suffix. */
bool ws_gpu_host_has(struct ws_gpu_host *host, const char *name);
/* The suffixes of a base metric, each with its dot; owned by the library. */
const char *const *ws_gpu_host_suffixes(struct ws_gpu_host *host,
					const struct ws_gpu_metric *metric, size_t *count);
/* The unit of a metric, or of a base metric, in the library's words ("" for none), and its
 * description; both are owned by the library. */
const char *ws_gpu_host_unit(struct ws_gpu_host *host, const char *name);
const char *ws_gpu_host_describe(struct ws_gpu_host *host, const char *name);
/* The number of passes in which these metrics can be measured together; 0 with a message when they
 * cannot. */
size_t ws_gpu_host_passes(const char *chip, const char *const *names, size_t count,
			  struct ws_err *err);
/* The same for metrics that are sampled: more than one pass cannot be sampled at once. */
size_t ws_gpu_sampler_passes(const char *chip, const char *const *names, size_t count,
			     struct ws_err *err);

/* The value of a metric in a range of a counter data image, which a GPU of the chip has filled; NAN
 * when its counters were not measured. */
double ws_gpu_host_evaluate(struct ws_gpu_host *host, const char *image, size_t bytes, size_t range,
			    const char *name);

#endif
