/* slow_steps.c - see slow_steps.h. */
#include "analyze/slow_steps.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/analysis.h"
#include "analyze/stretches.h"
#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"

struct step_length {
	uint64_t ns;
	size_t step;
};

/* Longest first. */
static int compare_lengths(const void *first, const void *second)
{
	const struct step_length *left = first, *right = second;

	if (left->ns != right->ns)
		return ws_compare(right->ns, left->ns);
	return ws_compare(left->step, right->step);
}

/* What makes up the critical path of a step. */
struct step_parts {
	uint64_t by_cause[WS_CAUSES];
	struct ws_map by_name; /* cause << 32 | name: ns */
};

static void sum_step(const struct ws_analysis *analysis, size_t number, struct step_parts *parts)
{
	const struct ws_step *step = &analysis->model->steps.steps[number];
	struct ws_stretches stretches;

	memset(parts, 0, sizeof(*parts));
	ws_stretches_list(analysis, step->start, step->end, 0, &stretches);
	for (size_t i = 0; i < stretches.count; i++) {
		const struct ws_stretch *stretch = &stretches.stretches[i];
		uint64_t key = (uint64_t)stretch->cause << 32 | stretch->name,
			 ns = stretch->end - stretch->start;

		parts->by_cause[stretch->cause] += ns;
		ws_map_set(&parts->by_name, key, ws_map_get(&parts->by_name, key, NULL) + ns);
	}
	ws_stretches_free(&stretches);
}

/* The cause whose time in a step exceeds that of the median step most. */
static void compare_steps(const struct step_parts *parts, const struct step_parts *usual,
			  struct ws_slow_step *slow)
{
	uint64_t most = 0;

	for (int cause = 0; cause < WS_CAUSES; cause++)
		if (parts->by_cause[cause] > usual->by_cause[cause] + slow->more) {
			slow->cause = (enum ws_cause)cause;
			slow->more = parts->by_cause[cause] - usual->by_cause[cause];
		}
	for (size_t i = 0; i < parts->by_name.size; i++) {
		const struct ws_map_slot *slot = &parts->by_name.slots[i];
		uint64_t before;

		if (!parts->by_name.used[i] || slot->key >> 32 != (uint64_t)slow->cause)
			continue;
		before = ws_map_get(&usual->by_name, slot->key, NULL);
		if (slot->value > before + most) {
			most = slot->value - before;
			slow->name = (uint32_t)slot->key;
		}
	}
}

void ws_slow_steps_find(const struct ws_analysis *analysis, struct ws_slow_steps *slow)
{
	const struct ws_model *model = analysis->model;
	size_t count = ws_model_count_steps(model);
	struct step_length *lengths;
	struct step_parts usual;

	memset(slow, 0, sizeof(*slow));
	if (model->step_source == WS_STEPS_NONE)
		return;
	lengths = ws_malloc(count * sizeof(*lengths));
	for (size_t i = 0; i < count; i++) {
		const struct ws_step *step = &model->steps.steps[model->first_step + i];

		lengths[i] = (struct step_length){step->end - step->start, model->first_step + i};
	}
	qsort(lengths, count, sizeof(*lengths), compare_lengths);
	slow->median = lengths[(count - 1) / 2].ns;
	while (slow->count < count &&
	       (double)lengths[slow->count].ns > WS_SLOW_STEP * (double)slow->median)
		slow->count++;
	slow->shown = ws_min(slow->count, (size_t)WS_SLOW_STEPS_SHOWN);
	if (slow->shown)
		sum_step(analysis, lengths[(count - 1) / 2].step, &usual);
	for (size_t i = 0; i < slow->shown; i++) {
		struct step_parts parts;

		slow->steps[i] =
			(struct ws_slow_step){.step = lengths[i].step, .ns = lengths[i].ns};
		sum_step(analysis, lengths[i].step, &parts);
		compare_steps(&parts, &usual, &slow->steps[i]);
		ws_map_free(&parts.by_name);
	}
	if (slow->shown)
		ws_map_free(&usual.by_name);
	free(lengths);
}
