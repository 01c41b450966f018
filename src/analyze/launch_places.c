/*
 * launch_places.c - see launch_places.h.
 *
 * Few calls have samples and only these can say where they were made, so one walk over all samples
 * and one over all work leave little for each kernel that is asked about.
 */
#include "analyze/launch_places.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"

/* ---- calls with samples ---- */

static void list_samples(const struct ws_model *model, struct ws_launch_places *places)
{
	for (uint32_t id = 0; model->calls.rows.rows && id < model->thread_count; id++)
		for (size_t i = model->threads[id].first_sample; i < model->threads[id].end_sample;
		     i++) {
			uint32_t call = ws_model_find_call(model, id, model->samples.start[i]);

			if (call == WS_NO_CALL)
				continue;
			ws_grow(places->samples, places->sample_cap, places->sample_count + 1);
			places->samples[places->sample_count++] = (struct ws_call_sample){i, call};
		}
}

static void list_kernels(const struct ws_model *model, struct ws_launch_places *places)
{
	uint8_t *sampled = ws_calloc(model->calls.rows.rows + 1, 1);

	for (size_t i = 0; i < places->sample_count; i++)
		sampled[places->samples[i].call] = 1;
	for (size_t gpu = 0; places->sample_count && gpu < model->work.gpus; gpu++)
		for (size_t i = 0; i < model->work.gpu[gpu].count; i++) {
			const struct ws_work_op *op = &model->work.gpu[gpu].op[i];
			uint32_t call;

			if (!op->name || op->end < model->from || op->start > model->to)
				continue;
			call = ws_calls_find(&model->calls, op->process, op->correlation);
			if (call == WS_NO_CALL || !sampled[call])
				continue;
			ws_grow(places->kernels, places->kernel_cap, places->kernel_count + 1);
			places->kernels[places->kernel_count++] = (struct ws_keyed_value){
				ws_report_string_key(model->report, op->name), call};
		}
	free(sampled);
	places->kernels = ws_sort_by_key(places->kernels, places->kernel_count);
}

static const struct ws_launch_places *get_places(const struct ws_analysis *analysis)
{
	struct ws_launch_places *places = analysis->launch_places;

	if (!places->made) {
		list_samples(analysis->model, places);
		list_kernels(analysis->model, places);
		places->made = true;
	}
	return places;
}

void ws_launch_places_free(struct ws_launch_places *places)
{
	free(places->samples);
	free(places->kernels);
	memset(places, 0, sizeof(*places));
}

/* ---- places ---- */

enum { MOST_PLACES = 64 };

struct seen_place {
	struct ws_code_place place;
	uint64_t samples;
};

static void add_place(struct seen_place *seen, size_t *count, const struct ws_code_place *place)
{
	size_t i = 0;

	while (i < *count && memcmp(&seen[i].place, place, sizeof(*place)))
		i++;
	if (i == MOST_PLACES)
		return;
	if (i == *count)
		seen[(*count)++] = (struct seen_place){*place, 0};
	seen[i].samples++;
}

struct ws_code_place ws_place_calls(const struct ws_analysis *analysis, const struct ws_map *calls)
{
	const struct ws_launch_places *places = get_places(analysis);
	const struct ws_samples *samples = &analysis->model->samples;
	struct seen_place seen[MOST_PLACES] = {0};
	size_t count = 0, best = 0;

	for (size_t i = 0; calls->count && i < places->sample_count; i++) {
		const struct ws_call_sample *sample = &places->samples[i];
		struct ws_code_place place;

		if (!ws_map_get(calls, (uint64_t)sample->call + 1, NULL))
			continue;
		place = ws_code_find_place(analysis->model, samples->frame[sample->sample],
					   samples->callers[sample->sample]);
		place.leaf = place.function;
		if (place.users)
			add_place(seen, &count, &place);
	}
	for (size_t i = 1; i < count; i++)
		if (seen[i].samples > seen[best].samples)
			best = i;
	return seen[best].place;
}

struct ws_code_place ws_place_kernel(const struct ws_analysis *analysis, uint32_t kernel)
{
	const struct ws_launch_places *places = get_places(analysis);
	size_t i = ws_bisect(places->kernel_count, at, places->kernels[at].key < kernel);
	struct ws_map calls = {0};
	struct ws_code_place place;

	for (; i < places->kernel_count && places->kernels[i].key == kernel; i++)
		ws_map_set(&calls, places->kernels[i].value + 1, 1);
	place = ws_place_calls(analysis, &calls);
	ws_map_free(&calls);
	return place;
}

struct ws_code_place ws_place_kernel_kind(const struct ws_analysis *analysis,
					  enum ws_kernel_kind kind)
{
	struct ws_map calls = {0};
	struct ws_code_place place;

	if (get_places(analysis)->sample_count)
		ws_kernel_kind_calls(analysis->model, kind, &calls);
	place = ws_place_calls(analysis, &calls);
	ws_map_free(&calls);
	return place;
}
