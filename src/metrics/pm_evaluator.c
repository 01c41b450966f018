/* pm_evaluator.c - see pm_evaluator.h. */
#include "metrics/pm_evaluator.h"

#include <stdlib.h>

#include "base/mem.h"

struct ws_pm_evaluator {
	const struct pm_evaluator_functions *functions;
	void *handle; /* the library's */
	uint8_t *scratch;
	struct pm_request *requests;
	size_t count;
};

struct ws_pm_evaluator *ws_pm_evaluator_new(const struct pm_library *library, const char *chip)
{
	const struct pm_evaluator_functions *functions = &library->evaluator;
	struct pm_scratch scratch = {.size = PM_SIZE(pm_scratch, bytes), .chip = chip};
	struct pm_evaluator begin = {.size = PM_SIZE(pm_evaluator, evaluator), .chip = chip};
	struct ws_pm_evaluator *evaluator;

	if (!library->has_evaluator || functions->measure_scratch(&scratch))
		return NULL;
	evaluator = ws_calloc(1, sizeof(*evaluator));
	evaluator->functions = functions;
	evaluator->scratch = begin.scratch = ws_malloc(scratch.bytes + 1);
	begin.scratch_bytes = scratch.bytes;
	if (!functions->begin(&begin)) {
		evaluator->handle = begin.evaluator;
		return evaluator;
	}
	ws_pm_evaluator_free(evaluator);
	return NULL;
}

void ws_pm_evaluator_free(struct ws_pm_evaluator *evaluator)
{
	struct pm_evaluator_end end = {.size = PM_SIZE(pm_evaluator_end, evaluator)};

	if (!evaluator)
		return;
	end.evaluator = evaluator->handle;
	if (evaluator->handle)
		evaluator->functions->end(&end);
	free(evaluator->scratch);
	free(evaluator->requests);
	free(evaluator);
}

bool ws_pm_evaluator_choose(struct ws_pm_evaluator *evaluator, const struct ws_pm_place *place,
			    const char **names, size_t count)
{
	struct pm_attributes attributes = {.size = PM_SIZE(pm_attributes, bytes),
					   .evaluator = evaluator->handle,
					   .image = place->image,
					   .bytes = place->bytes};
	struct pm_convert convert = {.size = PM_SIZE(pm_convert, request_size),
				     .evaluator = evaluator->handle,
				     .request_size = PM_SIZE(pm_request, submetric)};

	if (evaluator->functions->set_attributes(&attributes))
		return false;
	evaluator->requests =
		ws_realloc(evaluator->requests, (count + 1) * sizeof(*evaluator->requests));
	evaluator->count = count;
	for (size_t i = 0; i < count; i++) {
		evaluator->requests[i] = (struct pm_request){0};
		convert.name = names[i];
		convert.request = &evaluator->requests[i];
		if (evaluator->functions->convert(&convert))
			return false;
	}
	return true;
}

int ws_pm_evaluator_evaluate(struct ws_pm_evaluator *evaluator, const struct ws_pm_place *place,
			     double *values)
{
	struct pm_evaluate evaluate = {.size = PM_SIZE(pm_evaluate, values),
				       .evaluator = evaluator->handle,
				       .requests = evaluator->requests,
				       .count = evaluator->count,
				       .request_size = PM_SIZE(pm_request, submetric),
				       .stride = sizeof(*evaluator->requests),
				       .image = place->image,
				       .bytes = place->bytes,
				       .range = place->index,
				       .isolated = true,
				       .values = values};

	return evaluator->functions->evaluate(&evaluate);
}
