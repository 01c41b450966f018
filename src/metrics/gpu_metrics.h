/*
 * gpu_metrics.h - samples of the performance monitors of GPUs, thousands of times a second.
 *
 * CUPTI samples them in a process of the recorder's own, forked before anything else runs: if the
 * driver or CUPTI hangs or crashes, only that process is lost and the recording goes on. It sends
 * samples through a pipe; this side turns them into values in the form of metrics.h.
 */
#ifndef WS_METRICS_GPU_METRICS_H
#define WS_METRICS_GPU_METRICS_H

#include "metrics/metrics.h"

#define WS_GPU_METRICS_HZ 10000u
#define WS_GPU_METRICS_HZ_LEAST 10u
#define WS_GPU_METRICS_HZ_MOST 200000u

struct ws_gpu_sampling_opts {
	const char *devices; /* numbers, "all", "cuda-visible" or "none"; NULL means "none" */
	const char *set;     /* word of a set or path of a file; NULL: the set general */
	uint32_t hz;
};

struct ws_gpu_sampling;

/* Check the options, as far as that is possible without looking at GPUs. Returns 0, or -1 with a
 * message. */
int ws_gpu_sampling_check(const struct ws_gpu_sampling_opts *opts, struct ws_err *err);
/* What --gpu-metrics-devices=help and --gpu-metrics-set=help print; owned by the caller. */
char *ws_gpu_sampling_list_devices(void);
char *ws_gpu_sampling_list_sets(void);

/* Fork the process that samples; it starts its slow preparations at once. NULL when nothing is
 * wanted. Call it while no other thread of this process opens libraries. */
struct ws_gpu_sampling *ws_gpu_sampling_new(const struct ws_gpu_sampling_opts *opts);
/* End the process, by force if necessary, and free everything. */
void ws_gpu_sampling_free(struct ws_gpu_sampling *gpu_metrics);
/* Wait until the process is prepared or has failed, for some seconds at most. */
void ws_gpu_sampling_await(struct ws_gpu_sampling *gpu_metrics);

/* The GPUs whose NVLink traffic is sampled in bytes a second, as bits by their numbers in NVML. */
uint64_t ws_gpu_sampling_find_links(const struct ws_gpu_sampling *gpu_metrics);

/* Begin or end a collection. After its end, samples that the GPU has taken until then are still to
 * come. */
void ws_gpu_sampling_begin(struct ws_gpu_sampling *gpu_metrics);
void ws_gpu_sampling_stop(struct ws_gpu_sampling *gpu_metrics);
/* Wait, for some seconds at most, until all samples of an ended collection have been read. A
 * process that does not answer is ended, and a complaint says so. */
void ws_gpu_sampling_settle(struct ws_gpu_sampling *gpu_metrics);

/* As ws_metrics_take, ws_metrics_describe and ws_metrics_take_complaint. A value of NAN means that
 * nothing is known. Each call returns one complaint. */
struct ws_metric_value *ws_gpu_sampling_take(struct ws_gpu_sampling *gpu_metrics, size_t *n);
const struct ws_metric *ws_gpu_sampling_describe(const struct ws_gpu_sampling *gpu_metrics,
						 uint32_t index);
char *ws_gpu_sampling_take_complaint(struct ws_gpu_sampling *gpu_metrics);

#endif
