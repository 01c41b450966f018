/*
 * gpu_metrics.h - what the performance monitors of GPUs count, thousands of times a second.
 *
 * CUPTI samples them in a process of the recorder's own, forked before anything else runs: where
 * the driver or CUPTI hangs or crashes, that process is killed and the recording goes on. It sends
 * samples through a pipe; this side makes values of them, in the form of metrics.h.
 */
#ifndef WS_METRICS_GPU_METRICS_H
#define WS_METRICS_GPU_METRICS_H

#include "metrics/metrics.h"

#define WS_GPU_METRICS_HZ 10000u
#define WS_GPU_METRICS_HZ_LEAST 10u
#define WS_GPU_METRICS_HZ_MOST 200000u

struct ws_gpu_sampling_opts {
	const char *devices; /* numbers, "all", "cuda-visible", or "none", which NULL means too */
	const char *set;     /* word of a set or path of a file; NULL: the set general */
	uint32_t hz;
};

struct ws_gpu_sampling;

/* Whether the options can be meant, as far as that is known without looking at GPUs. -1 with a
 * message. */
int ws_gpu_sampling_check(const struct ws_gpu_sampling_opts *opts, struct ws_err *err);
/* What --gpu-metrics-devices=help and --gpu-metrics-set=help print; owned by the caller. */
char *ws_gpu_sampling_list_devices(void);
char *ws_gpu_sampling_list_sets(void);

/* Fork the process that samples; it prepares what takes long. NULL when nothing is wanted. To be
 * called while no other thread of this process opens libraries. */
struct ws_gpu_sampling *ws_gpu_sampling_new(const struct ws_gpu_sampling_opts *opts);
/* End the process, by force if it must be, and free everything. */
void ws_gpu_sampling_free(struct ws_gpu_sampling *gpu_metrics);
/* Wait until it is prepared or has failed, some seconds at most. */
void ws_gpu_sampling_await(struct ws_gpu_sampling *gpu_metrics);

/* A collection begins, or is over: what the GPU has counted until now is still to come. */
void ws_gpu_sampling_begin(struct ws_gpu_sampling *gpu_metrics);
void ws_gpu_sampling_stop(struct ws_gpu_sampling *gpu_metrics);
/* Wait, some seconds at most, until all of a collection that is over has been read. A process that
 * does not answer is ended, and a complaint says so. */
void ws_gpu_sampling_settle(struct ws_gpu_sampling *gpu_metrics);

/* As ws_metrics_take, ws_metrics_describe and ws_metrics_take_complaint. Values that are not a
 * number mean that nothing is known. Complaints come one a call. */
struct ws_metric_value *ws_gpu_sampling_take(struct ws_gpu_sampling *gpu_metrics, size_t *n);
const struct ws_metric *ws_gpu_sampling_describe(const struct ws_gpu_sampling *gpu_metrics,
						 uint32_t index);
char *ws_gpu_sampling_take_complaint(struct ws_gpu_sampling *gpu_metrics);

#endif
