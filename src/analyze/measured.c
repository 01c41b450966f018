/* measured.c - see measured.h. */
#include "analyze/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"

/* With a smaller share of samples of its own, values say too little about a kernel. */
#define ENOUGH_OWN 0.5

/* A mean represents a span only if samples cover half of it or more: where samples were lost, the
 * remaining ones may come from any part. */
static bool covers(uint64_t known, uint64_t span)
{
	return known && known >= span / 2;
}

/* How long a metric was at least this much between two times, ns. */
static uint64_t measure_time_above(const struct ws_metric_series *series, double least,
				   uint64_t from, uint64_t to)
{
	uint64_t above = 0;

	for (size_t i = 0; i + 1 < series->count; i++) {
		uint64_t start = ws_max(series->time[i], from),
			 end = ws_min(series->time[i + 1], to),
			 known = series->known[i + 1] - series->known[i];

		if (known && end > start &&
		    (series->sum[i + 1] - series->sum[i]) / (double)known >= least)
			above += end - start;
	}
	return above;
}

static void measure_gpu(const struct ws_model *model, const struct ws_metered_gpu *metered,
			struct ws_measured_gpu *gpu)
{
	gpu->metered = metered;
	for (int metric = 0; metric < WS_GPU_METRICS; metric++) {
		size_t near = 0;
		struct ws_metric_part part = {0};

		gpu->means[metric] = NAN;
		if (metered)
			part = ws_measure_metric(&metered->series[metric], &near, model->from,
						 model->to);
		if (metric == WS_GPU_SM_ACTIVE)
			gpu->sampled = part.known;
		if (covers(part.known, model->to - model->from))
			gpu->means[metric] = part.sum / (double)part.known;
	}
	if (!isnan(gpu->means[WS_GPU_SM_ACTIVE]))
		gpu->known = gpu->sampled;
	if (metered)
		gpu->busy_pcie =
			ws_max(measure_time_above(&metered->series[WS_GPU_PCIE_RX],
						  WS_BUSY_LINK_PERCENT, model->from, model->to),
			       measure_time_above(&metered->series[WS_GPU_PCIE_TX],
						  WS_BUSY_LINK_PERCENT, model->from, model->to));
}

struct kernel_sums {
	double sum[WS_GPU_METRICS];
	uint64_t known[WS_GPU_METRICS];
	uint64_t time;			  /* ns of all its runs on GPUs that have metrics */
	struct ws_metric_samples samples; /* of SM Active */
	uint64_t own, until;
};

struct kernel_measurer {
	const struct ws_model *model;
	struct ws_map index; /* key of a kernel's name: its place among the facts + 1 */
	struct kernel_sums *sums;
};

static void add_kernel(struct kernel_measurer *measurer, const struct ws_metered_gpu *metered,
		       const struct ws_work_op *op, size_t near[WS_GPU_METRICS])
{
	uint64_t start = ws_max(op->start, measurer->model->from),
		 end = ws_min(op->end, measurer->model->to);
	uint64_t at = ws_map_get(&measurer->index,
				 ws_report_string_key(measurer->model->report, op->name), NULL);
	struct kernel_sums *sums;

	if (!at || !op->name || end <= start)
		return;
	sums = &measurer->sums[at - 1];
	sums->time += end - start;
	for (int metric = 0; metric < WS_GPU_METRICS; metric++) {
		const struct ws_metric_series *series = &metered->series[metric];
		struct ws_metric_part part = ws_measure_metric(series, &near[metric], start, end);

		sums->sum[metric] += part.sum;
		sums->known[metric] += part.known;
		if (metric != WS_GPU_SM_ACTIVE)
			continue;
		sums->own += part.known;
		ws_add_metric_samples(series, &part, start, end, &sums->until, &sums->samples);
	}
}

static void add_kernels(struct kernel_measurer *measurer, const struct ws_metered_gpu *metered,
			const struct ws_work_gpu *gpu, size_t kernels)
{
	size_t near[WS_GPU_METRICS] = {0};

	for (size_t i = 0; i < kernels; i++)
		measurer->sums[i].until = 0;
	for (size_t i = 0; i < gpu->count; i++)
		add_kernel(measurer, metered, &gpu->op[i], near);
}

static void judge_kernel(const struct kernel_sums *sums, struct ws_measured_kernel *kernel)
{
	for (int metric = 0; metric < WS_GPU_METRICS; metric++) {
		kernel->means[metric] = NAN;
		if (covers(sums->known[metric], sums->time))
			kernel->means[metric] = sums->sum[metric] / (double)sums->known[metric];
	}
	if (sums->samples.time)
		kernel->own_share = ws_min((double)sums->own / (double)sums->samples.time, 1.0);
	if (kernel->own_share >= ENOUGH_OWN)
		kernel->bound = ws_find_gpu_bound(kernel->means);
}

static void measure_kernels(const struct ws_model *model, const struct ws_facts *facts,
			    struct ws_gpu_measures *measured)
{
	struct kernel_measurer measurer = {.model = model};

	measurer.sums = ws_calloc(facts->kernel_count + 1, sizeof(*measurer.sums));
	for (size_t i = 0; i < facts->kernel_count; i++)
		ws_map_set(&measurer.index, facts->kernels[i].name, i + 1);
	for (size_t i = 0; i < model->work.gpus; i++)
		if (measured->gpus[i].metered)
			add_kernels(&measurer, measured->gpus[i].metered, &model->work.gpu[i],
				    facts->kernel_count);
	for (size_t i = 0; i < facts->kernel_count; i++)
		judge_kernel(&measurer.sums[i], &measured->kernels[i]);
	free(measurer.sums);
	ws_map_free(&measurer.index);
}

void ws_measure_model(const struct ws_model *model, const struct ws_facts *facts,
		      struct ws_gpu_measures *measured)
{
	*measured = (struct ws_gpu_measures){0};
	measured->gpus = ws_calloc(model->work.gpus + 1, sizeof(*measured->gpus));
	measured->kernels = ws_calloc(facts->kernel_count + 1, sizeof(*measured->kernels));
	if (model->work.gpus)
		ws_gpu_metrics_load(model->report, &measured->metrics);
	for (size_t i = 0; i < model->work.gpus; i++) {
		const struct ws_work_gpu *gpu = &model->work.gpu[i];

		measure_gpu(model, ws_find_metered_gpu(&measured->metrics, gpu->uuid, gpu->device),
			    &measured->gpus[i]);
		measured->any |= measured->gpus[i].known > 0;
		measured->sampled |= measured->gpus[i].sampled > 0;
	}
	measure_kernels(model, facts, measured);
}

void ws_gpu_measures_free(struct ws_gpu_measures *measured)
{
	ws_gpu_metrics_free(&measured->metrics);
	free(measured->gpus);
	free(measured->kernels);
	*measured = (struct ws_gpu_measures){0};
}
