/* go.c - see go.h. */
#include "analyze/go.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/code.h"
#include "base/choose.h"
#include "base/mem.h"

enum { PART_NS = 20000000, MOST_PARTS = 1000000 };
#define LEAST_TOGETHER 0.15

/* A part of the window, and who was sampled in code of the user's then. */
struct part {
	uint32_t thread;
	bool several;
};

static bool is_go(const struct ws_model *model)
{
	for (uint32_t i = 1; i <= ws_stacks_count_functions(model->stacks); i++)
		if (!strncmp(ws_stacks_get_function(model->stacks, i)->name, "runtime.goexit", 14))
			return true;
	return false;
}

static void add_samples(const struct ws_model *model, uint32_t id, struct part *parts, size_t count)
{
	const struct ws_model_thread *thread = &model->threads[id];
	const struct ws_samples *samples = &model->samples;

	for (size_t i = thread->first_sample; i < thread->end_sample; i++) {
		size_t number =
			(samples->start[i] - ws_min(samples->start[i], model->from)) / PART_NS;
		struct part *part = &parts[ws_min(number, count - 1)];

		if (!samples->frame[i] || samples->start[i] < model->from ||
		    !ws_code_find_place(model, samples->frame[i], samples->callers[i]).users)
			continue;
		part->several |= part->thread && part->thread != id;
		part->thread = id;
	}
}

bool ws_is_lone_goroutine(const struct ws_model *model)
{
	size_t count = ws_min((size_t)((model->to - model->from) / PART_NS), (size_t)MOST_PARTS) +
		       1,
	       used = 0, together = 0;
	struct part *parts;

	if (!model->has_samples || !is_go(model))
		return false;
	parts = ws_calloc(count, sizeof(*parts));
	for (uint32_t id = 1; id < model->thread_count; id++)
		if (ws_find_thread(model->who, id)->process == model->process)
			add_samples(model, id, parts, count);
	for (size_t i = 0; i < count; i++) {
		used += parts[i].thread != 0;
		together += parts[i].several;
	}
	free(parts);
	return used && (double)together < LEAST_TOGETHER * (double)used;
}
