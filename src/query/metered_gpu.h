/*
 * metered_gpu.h - GPU metrics over time, from hardware counters, and their means over any span: how
 * active a GPU's multiprocessors were during a kernel, what a step cost in joules.
 *
 * Values are kept as their integral up to each point in time, so that the mean over a span takes
 * two searches and a difference. Time without a known value is not part of any mean.
 */
#ifndef WS_QUERY_METERED_GPU_H
#define WS_QUERY_METERED_GPU_H

#include "query/query.h"

enum ws_gpu_metric {
#define WS_METERED(ID, title, form, unit, how, names) WS_GPU_##ID,
#define WS_METERED_HIDDEN(ID, unit, how, names) WS_GPU_##ID,
#include "query/metered.def"
	WS_GPU_METRICS
};

enum { /* those that have a column come first */
       WS_GPU_SHOWN_METRICS = 0
#define WS_METERED(ID, title, form, unit, how, names) +1
#include "query/metered.def"
};

/* A metric of a GPU over time: `count` points, in order. Empty where there are no values. */
struct ws_metric_series {
	uint64_t *time;	 /* ns of the session clock */
	double *sum;	 /* value times ns, up to the point */
	uint64_t *known; /* ns for which there was a value, up to the point */
	size_t count;
	uint64_t period; /* the period of its samples, ns; 0: each value is a sample, however long
			    it held */
};

/* What a series says about a span. */
struct ws_metric_part {
	double sum;	    /* value times ns */
	uint64_t known;	    /* ns: sum / known is the mean */
	size_t first, last; /* points first to last - 1 begin the values that the span touches */
};

/* Measure the span from `start` to `end`. *near is where the last search ended (0 at first), so
 * that consecutive spans are found without searching the whole series. */
struct ws_metric_part ws_measure_metric(const struct ws_metric_series *series, size_t *near,
					uint64_t start, uint64_t end);

/* A sum of whole samples. */
struct ws_metric_samples {
	uint64_t count, time; /* ns */
};
/*
 * Add the samples that a span touches, except those before *until, and set *until to where they
 * end: this way spans in order of start count each sample once. `part` is what was measured of the
 * span.
 */
void ws_add_metric_samples(const struct ws_metric_series *series, const struct ws_metric_part *part,
			   uint64_t start, uint64_t end, uint64_t *until,
			   struct ws_metric_samples *samples);

struct ws_metered_gpu {
	uint32_t uuid;		 /* string key of its UUID, 0 when not known */
	uint32_t number;	 /* its CUDA number; WS_NO_U32 when not known */
	uint32_t name;		 /* string id of the product's name, or 0 */
	double memory_bandwidth; /* peak of its memory, bytes per second; 0 when not known */
	struct ws_metric_series series[WS_GPU_METRICS];
};

struct ws_gpu_metrics {
	struct ws_metered_gpu *gpus;
	size_t count, capacity;
	uint64_t damaged; /* blocks that could not be read */
};

/* Read all metrics of all GPUs of a report. Free with ws_gpu_metrics_free. */
void ws_gpu_metrics_load(const struct ws_report *report, struct ws_gpu_metrics *metrics);
void ws_gpu_metrics_free(struct ws_gpu_metrics *metrics);
/* The GPU with this UUID (a string key, 0: not known) or, where either side does not know the UUID,
 * with this number. NULL when the report has no metrics of it. */
const struct ws_metered_gpu *ws_find_metered_gpu(const struct ws_gpu_metrics *metrics,
						 uint32_t uuid, uint64_t number);

/* Fill in what the report says about a GPU whose UUID or number is set. */
void ws_describe_metered_gpu(const struct ws_report *report, struct ws_metered_gpu *gpu);

/* ---- single counters ---- */

/* Whether a row of the table counter is about a GPU: it has a device number or a GPU's UUID. */
bool ws_is_gpu_counter(const struct ws_report *report, const uint64_t *counter);
/* The length of a counter's name without the part at its end that names the GPU (", GPU 0"). */
size_t ws_measure_counter_name(const char *name, size_t length);
/* Read the values of counters: those of an id whose `place` has index + 1 go to series[index].
 * Returns how many blocks were damaged. The caller frees each series with ws_metric_series_free. */
uint64_t ws_metric_series_load(const struct ws_report *report, const uint32_t *place, size_t ids,
			       struct ws_metric_series *series, size_t count);
/* The period of the samples of counters of this group (a string id), ns; 0 when there is none. */
uint64_t ws_find_sample_period(const struct ws_report *report, uint32_t group);
void ws_metric_series_free(struct ws_metric_series *series);

/* ---- what limits a kernel ---- */

enum ws_gpu_bound {
	WS_BOUND_UNKNOWN, /* not measured, or most of what was measured is of other kernels */
	WS_BOUND_MEMORY,  /* DRAM is busy most of the time */
	WS_BOUND_TENSOR,  /* the tensor cores are busy most of the time */
	WS_BOUND_ISSUE,	  /* instructions are issued nearly all the time */
	WS_BOUND_LINK,	  /* NVLink or PCIe is busy most of the time */
	WS_BOUND_FILL,	  /* most multiprocessors have nothing to do: too few blocks */
	WS_BOUND_LATENCY, /* none of these: the kernel waits */
};
/* `means` is indexed by enum ws_gpu_metric; unknown ones are NAN. */
enum ws_gpu_bound ws_find_gpu_bound(const double means[WS_GPU_METRICS]);
/* "memory bandwidth"; "" for WS_BOUND_UNKNOWN. */
const char *ws_name_gpu_bound(enum ws_gpu_bound bound);

#endif
