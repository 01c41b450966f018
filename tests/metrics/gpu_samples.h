/*
 * gpu_samples.h - GPU metrics made up, in the form in which a recording stores them
 * (docs/metrics.md): for tests of what reads them.
 */
#ifndef GPU_SAMPLES_H
#define GPU_SAMPLES_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/store.h"

enum gpu_metric_set {
#define WS_GPU_SET(ID, word, what) BIT_OF_##ID,
#include "metrics/gpu_metrics.def"
};

static const struct {
	unsigned sets;
	const char *row, *unit;
} gpu_sample_rows[] = {
#define WS_GPU_SET_GENERAL (1u << BIT_OF_GENERAL)
#define WS_GPU_SET_PIPES (1u << BIT_OF_PIPES)
#define WS_GPU_SET_BYTES (1u << BIT_OF_BYTES)
#define WS_GPU_SET_LIGHT (1u << BIT_OF_LIGHT)
#define WS_GPU_SET_NVLINK (1u << BIT_OF_NVLINK)
#define WS_GPU_METRIC(sets, row, unit, metric) {sets, row, unit},
#include "metrics/gpu_metrics.def"
};

struct gpu_samples {
	struct ws_writer *writer;
	uint32_t first;	 /* id of the counter of the set's first row */
	uint32_t count;	 /* rows of the sets general and nvlink */
	uint64_t period; /* ns */
};

static inline uint32_t samples_string(struct ws_writer *writer, const char *text)
{
	return ws_writer_string(writer, text, strlen(text));
}

/* The counters of GPU number `gpu` of this UUID, and the fact how often it is sampled. */
static inline struct gpu_samples begin_gpu_samples(struct ws_writer *writer, uint32_t first_id,
						   unsigned gpu, const char *uuid, uint64_t period)
{
	struct gpu_samples samples = {writer, first_id, 0, period};
	const char *before = "";
	char text[64], number[32];

	snprintf(text, sizeof(text), "gpu_metrics.GPU %u.period", gpu);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)period);
	ws_writer_add(writer, WS_TABLE_meta,
		      &(struct ws_row_meta){samples_string(writer, text),
					    samples_string(writer, number)});
	snprintf(text, sizeof(text), "GPU metrics, GPU %u", gpu);
	for (size_t i = 0; i < sizeof(gpu_sample_rows) / sizeof(*gpu_sample_rows); i++) {
		if (!(gpu_sample_rows[i].sets & (WS_GPU_SET_GENERAL | WS_GPU_SET_NVLINK)) ||
		    !strcmp(before, gpu_sample_rows[i].row))
			continue;
		before = gpu_sample_rows[i].row;
		ws_writer_add(writer, WS_TABLE_counter,
			      &(struct ws_row_counter){
				      .id = first_id + samples.count++,
				      .device = WS_NO_U32,
				      .cpu = WS_NO_U32,
				      .group = samples_string(writer, text),
				      .name = samples_string(writer, before),
				      .unit = samples_string(writer, gpu_sample_rows[i].unit),
				      .identity = samples_string(writer, uuid)});
	}
	return samples;
}

/* One value of the row called `name`, for `count` samples from `start` on; NAN for a gap. */
static inline void put_gpu_sample(const struct gpu_samples *samples, const char *name,
				  uint64_t start, uint64_t count, double value)
{
	const char *before = "";
	uint32_t id = samples->first;

	for (size_t i = 0; i < sizeof(gpu_sample_rows) / sizeof(*gpu_sample_rows); i++) {
		if (!(gpu_sample_rows[i].sets & (WS_GPU_SET_GENERAL | WS_GPU_SET_NVLINK)) ||
		    !strcmp(before, gpu_sample_rows[i].row))
			continue;
		before = gpu_sample_rows[i].row;
		if (!strcmp(before, name))
			break;
		id++;
	}
	ws_writer_add(samples->writer, WS_TABLE_counter_value,
		      &(struct ws_row_counter_value){.start = start,
						     .counter = id,
						     .value = value,
						     .span = count * samples->period});
}

#endif
