/*
 * standin_samples.h - what the stand-in's PC sampling gives: a few made-up samples, or those of the
 * file that STANDIN_SAMPLES names, which were recorded on a GPU (tests/kernel/samples).
 */
#ifndef STANDIN_SAMPLES_H
#define STANDIN_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "ring/cupti_source_abi.h"

enum { STANDIN_REASONS_MOST = 64, STANDIN_SAMPLES_MOST = 1024 };

struct standin_sample {
	uint32_t pc;
	size_t count;
	struct cupti_stall_count reasons[STANDIN_REASONS_MOST];
};
struct standin_samples {
	char function[128];
	size_t reason_count, count;
	struct {
		uint32_t index;
		char name[CUPTI_STALL_NAME];
	} reasons[STANDIN_REASONS_MOST];
	struct standin_sample samples[STANDIN_SAMPLES_MOST];
};

/* They live as long as the process. */
const struct standin_samples *standin_read_samples(void);

#endif
