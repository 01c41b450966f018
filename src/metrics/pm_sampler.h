/*
 * pm_sampler.h - samples the performance monitors of one GPU through CUPTI.
 */
#ifndef WS_METRICS_PM_SAMPLER_H
#define WS_METRICS_PM_SAMPLER_H

#include "metrics/pm_library.h"
#include "metrics/pm_sets.h"

struct ws_pm_sampler;

/* Receives samples: times in raw ns, a value for each metric of the fit. */
struct ws_pm_sink {
	void (*put)(void *ctx, uint64_t start, uint64_t end, const float *values);
	void (*gap)(void *ctx, uint64_t start, uint64_t end);
	void *ctx;
};

/* Find out which of the `wanted` metrics the GPU with this CUDA device number can sample `hz` times
 * a second. The counters are not reserved yet. NULL with a message. */
struct ws_pm_sampler *ws_pm_sampler_open(const struct pm_library *library, unsigned device,
					 const struct ws_pm_wanted *wanted, uint32_t hz,
					 struct ws_err *err);
void ws_pm_sampler_free(struct ws_pm_sampler *sampler);
const struct ws_pm_fit *ws_pm_sampler_fit(const struct ws_pm_sampler *sampler);
const char *ws_pm_sampler_chip(const struct ws_pm_sampler *sampler);

/* How many milliseconds should pass until the next reading. */
unsigned ws_pm_sampler_choose_interval(const struct ws_pm_sampler *sampler);
/* Reserve the counters and begin to sample. Returns -1 with a message that says what to do about
 * it. */
int ws_pm_sampler_begin(struct ws_pm_sampler *sampler, struct ws_err *err);
/* Hand on new samples. Returns -1 with a message when sampling cannot continue; then stop it. */
int ws_pm_sampler_read(struct ws_pm_sampler *sampler, const struct ws_pm_sink *sink,
		       struct ws_err *err);
/* The sampling period in ns: longer than requested if the requested rate was too high. */
uint64_t ws_pm_sampler_period(const struct ws_pm_sampler *sampler);
/* Set how many NVLinks are active: some GPUs lack the counters of one, and rates are then
 * extrapolated to all. */
void ws_pm_sampler_set_links(struct ws_pm_sampler *sampler, unsigned active);
/* How many NVLinks were counted, if not all that are active were; otherwise 0. */
unsigned ws_pm_sampler_count_links(const struct ws_pm_sampler *sampler);
/* Whether warps in flight could not be counted together with the other metrics. */
bool ws_pm_sampler_lacks_warps(const struct ws_pm_sampler *sampler);
/* Stop, hand on the remaining samples, and release the counters. */
void ws_pm_sampler_end(struct ws_pm_sampler *sampler, const struct ws_pm_sink *sink);

#endif
