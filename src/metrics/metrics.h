/*
 * metrics.h - what the machine did while a program ran: the load of its cores, memory, storage,
 * networks, power and GPUs, read from /proc, /sys and NVML several times a second.
 *
 * A thread reads them, because single files and the driver may take milliseconds. The recorder
 * fetches the values from time to time. A value that has not changed is not repeated.
 */
#ifndef WS_METRICS_METRICS_H
#define WS_METRICS_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum ws_metric_group {
#define WS_METRIC_GROUP(ID, word, heading) WS_METRIC_##ID,
#include "metrics/metrics.def"
	WS_METRIC_GROUPS
};

#define WS_METRICS_ALL ((1u << WS_METRIC_GROUPS) - 1)
#define WS_METRICS_HZ 10u
#define WS_METRICS_HZ_MOST 100u

/* Something whose value changes over time. */
struct ws_metric {
	enum ws_metric_group group;
	const char *heading; /* the row that it is shown under */
	char *name;
	const char *unit;
	char *identity;	 /* its external identity, such as the UUID of a GPU; or NULL */
	int device, cpu; /* number of the GPU in NVML, or of the core; -1: none */
	int pid;	 /* process that it belongs to; 0: none */
	double most;	 /* no value exceeds this except by rounding; 0: unknown */
	uint64_t period; /* ns between two samples, where it is sampled regularly; else 0 */
	uint32_t number; /* number of the metric among those that are sampled together, from 0 */
};

struct ws_metric_value {
	uint64_t time; /* raw ns; the value holds from then until the next value of the metric */
	uint64_t span; /* ns over which it was measured, or 0 */
	double value;
	uint32_t metric; /* index */
};

struct ws_metrics_opts {
	uint32_t groups; /* bits by enum ws_metric_group */
	uint32_t hz;	 /* readings a second, 1 to WS_METRICS_HZ_MOST */
};

struct ws_metrics;

/* Parse words of groups, separated by commas, or "all" or "none". Returns -1 with a message. */
int ws_metrics_parse_groups(const char *words, uint32_t *groups, struct ws_err *err);

/* Choose in how many turns each of n sources is read once, so that a turn costs no more processor
 * time than `budget` ns on average: the dearest sources are read less often, but at least once in
 * `most` turns. `costs`: ns for a reading. */
void ws_metrics_space_out(const uint64_t *costs, size_t n, uint64_t budget, unsigned most,
			  unsigned *turns);

/* NULL when nothing is wanted or no thread can be started. Nothing is read yet. */
struct ws_metrics *ws_metrics_new(const struct ws_metrics_opts *opts);
void ws_metrics_free(struct ws_metrics *metrics);

/* Begin a collection: values are read from now on, the first ones at once. */
void ws_metrics_begin(struct ws_metrics *metrics);
/* End the collection: values are read one last time. */
void ws_metrics_stop(struct ws_metrics *metrics);
/* Wait briefly until the last values have been read; returns whether they have. */
bool ws_metrics_settle(struct ws_metrics *metrics);
/* Set the processes that get values of their own; the list is copied. */
void ws_metrics_set_processes(struct ws_metrics *metrics, const int *pids, size_t n);

/* Set whose NVLinks are counted elsewhere, as bits by numbers in NVML: NVML's own counters, which
 * lag behind, are not read there. */
void ws_metrics_leave_links_out(struct ws_metrics *metrics, uint64_t gpus);

/* Returns what has been read since the last call, in the order of the readings; owned by the
 * caller. */
struct ws_metric_value *ws_metrics_take(struct ws_metrics *metrics, size_t *n);
/* Describes the metric of a value. Valid and unchanged for the life of `metrics`. */
const struct ws_metric *ws_metrics_describe(struct ws_metrics *metrics, uint32_t index);
/* Returns why something that was asked for is missing, in one sentence; or NULL. Owned by the
 * caller. */
char *ws_metrics_take_complaint(struct ws_metrics *metrics);

#endif
