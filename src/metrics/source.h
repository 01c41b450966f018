/*
 * source.h - the interface of sources of values to metrics.c; private to metrics/.
 *
 * A source is opened in the reading thread when the first collection begins, and is then asked for
 * its values repeatedly. It registers each metric when it first finds it.
 */
#ifndef WS_METRICS_SOURCE_H
#define WS_METRICS_SOURCE_H

#include "base/mem.h"
#include "metrics/metrics.h"

struct ws_metric_source {
	uint32_t groups; /* bits by enum ws_metric_group: the source is opened when one of them is
			    wanted */
	/* Returns the source's state; NULL when there is nothing to read. */
	void *(*open)(struct ws_metrics *metrics);
	void (*read)(struct ws_metrics *metrics, void *state);
	void (*close)(void *state);
};

extern const struct ws_metric_source ws_metric_files, ws_metric_words, ws_metric_tables,
	ws_metric_processes, ws_metric_nvml, ws_metric_drm;

#define WS_NO_METRIC UINT32_MAX

/* Register a metric; `name` and `identity` (may be NULL) are copied. Returns its index. */
uint32_t ws_metric_add(struct ws_metrics *metrics, const struct ws_metric *metric);
/* Add the value of this reading. */
void ws_metric_put(struct ws_metrics *metrics, uint32_t index, double value);
/* Add a number that only grows: the value since the previous reading is its growth per second,
 * times `scale`. A number that has become smaller was reset, and the value is then unknown. */
void ws_metric_put_total(struct ws_metrics *metrics, uint32_t index, uint64_t total, double scale);
/* Whether the collection has lasted for some readings, so that slow initialisation is worth its
 * cost. */
bool ws_metric_is_worth_more(const struct ws_metrics *metrics);
/* Whether this reading is one of those that happen once a second. */
bool ws_metric_is_slow_turn(const struct ws_metrics *metrics);
/* How many readings of the collection came before this one, and how many a second are wanted. */
unsigned ws_metric_get_turn(const struct ws_metrics *metrics);
unsigned ws_metric_get_hz(const struct ws_metrics *metrics);
/* Whether this reading is the first, or the last, of the collection. */
bool ws_metric_is_first_turn(const struct ws_metrics *metrics);
bool ws_metric_is_last_turn(const struct ws_metrics *metrics);
/* Whether the NVLinks of the GPU with this number in NVML are counted elsewhere. */
bool ws_metric_leaves_links_out(struct ws_metrics *metrics, unsigned gpu);
/* Processor time of the calling thread, in nanoseconds. */
uint64_t ws_metric_read_processor_ns(void);
bool ws_metric_wants(const struct ws_metrics *metrics, enum ws_metric_group group);
const char *ws_metric_heading(enum ws_metric_group group);
/* The processes of ws_metrics_set_processes; owned by the caller. */
int *ws_metric_get_processes(struct ws_metrics *metrics, size_t *n);
void ws_metric_complain(struct ws_metrics *metrics, const char *sentence);

/* Open a file of /proc or /sys, or of the mock tree of a test. Returns -1 when it cannot be
 * opened. */
int ws_metric_open(const char *path);
/* The path of such a file; owned by the caller. */
char *ws_metric_path(const char *path);
/* Read a file again from its start: at most size - 1 bytes, NUL-terminated. Returns how many. */
size_t ws_metric_reread(int fd, char *text, size_t size);

#endif
