/*
 * launch_places.h - where in the program work for GPUs was launched, by samples that were taken in
 * the calls.
 */
#ifndef WS_ANALYZE_LAUNCH_PLACES_H
#define WS_ANALYZE_LAUNCH_PLACES_H

#include "analyze/analysis.h"
#include "analyze/code.h"
#include "analyze/kernel_kinds.h"
#include "base/map.h"
#include "base/sort.h"

/* Found when first asked for, for all findings; zero before. */
struct ws_launch_places {
	bool made;
	struct ws_call_sample { /* samples in calls of CUDA, by thread and time */
		size_t sample;
		uint32_t call; /* row of model->calls */
	} * samples;
	size_t sample_count, sample_cap;
	/* Key: the name of a kernel in the window; value: a call with samples that launched it. By
	 * name. */
	struct ws_keyed_value *kernels;
	size_t kernel_count, kernel_cap;
};
void ws_launch_places_free(struct ws_launch_places *places);

/* The place that most of these calls were made at (keys: rows of model->calls, plus 1); one without
 * a leaf where no sample was taken in them. */
struct ws_code_place ws_place_calls(const struct ws_analysis *analysis, const struct ws_map *calls);
/* The same for the calls that launched a kernel within the window; and for those that launched
 * kernels of a kind. */
struct ws_code_place ws_place_kernel(const struct ws_analysis *analysis, uint32_t kernel);
struct ws_code_place ws_place_kernel_kind(const struct ws_analysis *analysis,
					  enum ws_kernel_kind kind);

#endif
