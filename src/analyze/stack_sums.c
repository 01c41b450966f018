/* stack_sums.c - see stack_sums.h. */
#include "analyze/stack_sums.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/code.h"
#include "analyze/parallel.h"
#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"

struct summing {
	const struct ws_model *model;
	ws_stack_reader *read;
	void *context;
	struct ws_stack_sums *sums;
	struct ws_map stacks; /* frame << 32 | callers: the key */
	struct ws_map index;  /* key: number of the sum, from 1 */
	uint64_t late;	      /* when the last third begins */
};

static uint64_t read_stack(struct summing *summing, uint32_t frame, uint32_t callers)
{
	uint32_t frames[WS_CODE_DEEPEST];
	uint64_t stack = (uint64_t)frame << 32 | callers, key;
	bool known;

	key = ws_map_get(&summing->stacks, stack, &known);
	if (known)
		return key;
	key = summing->read(summing->model, frames,
			    ws_stacks_list_frames(summing->model->stacks, frame, callers, frames,
						  WS_CODE_DEEPEST),
			    summing->context);
	ws_map_set(&summing->stacks, stack, key);
	return key;
}

static struct ws_stack_sum *find_sum(struct summing *summing, uint64_t key)
{
	struct ws_stack_sums *sums = summing->sums;
	uint64_t at = ws_map_get(&summing->index, key, NULL);

	if (!at) {
		ws_grow(sums->sums, sums->cap, sums->count + 1);
		sums->sums[sums->count] = (struct ws_stack_sum){.key = key};
		at = ++sums->count;
		ws_map_set(&summing->index, key, at);
	}
	return &sums->sums[at - 1];
}

static void add_sample(struct summing *summing, size_t i)
{
	const struct ws_samples *samples = &summing->model->samples;
	uint64_t at = samples->start[i], ns = ws_max(ws_samples_get_time(samples, i), (uint64_t)1),
		 key;
	uint64_t late_ns = at >= summing->late ? ns : 0;
	struct ws_stack_sum *sum;

	if (!samples->frame[i] || at < summing->model->from || at > summing->model->to)
		return;
	summing->sums->ns += ns;
	summing->sums->late_ns += late_ns;
	key = read_stack(summing, samples->frame[i], samples->callers[i]);
	if (!key)
		return;
	sum = find_sum(summing, key);
	if (!sum->samples++)
		sum->span.start = at;
	sum->span.start = ws_min(sum->span.start, at);
	sum->span.end = ws_max(sum->span.end, at);
	sum->ns += ns;
	sum->late_ns += late_ns;
}

static int compare_sums(const void *first, const void *second)
{
	const struct ws_stack_sum *left = first, *right = second;

	if (left->ns != right->ns)
		return ws_compare(right->ns, left->ns);
	return ws_compare(left->key, right->key);
}

void ws_stack_sums_make(const struct ws_model *model, uint32_t thread, ws_stack_reader *read,
			void *context, struct ws_stack_sums *sums)
{
	struct summing summing = {.model = model,
				  .read = read,
				  .context = context,
				  .sums = sums,
				  .late = model->to - (model->to - model->from) / 3};

	memset(sums, 0, sizeof(*sums));
	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_model_thread *facts = &model->threads[id];

		if (thread ? id != thread
			   : !ws_is_explained(model, ws_find_thread(model->who, id)->process))
			continue;
		for (size_t i = facts->first_sample; i < facts->end_sample; i++)
			add_sample(&summing, i);
	}
	if (sums->count)
		qsort(sums->sums, sums->count, sizeof(*sums->sums), compare_sums);
	ws_map_free(&summing.stacks);
	ws_map_free(&summing.index);
}

void ws_stack_sums_free(struct ws_stack_sums *sums)
{
	free(sums->sums);
	memset(sums, 0, sizeof(*sums));
}

uint32_t ws_get_frame_function(const struct ws_model *model, uint32_t frame)
{
	return ws_stacks_get_places(model->stacks, ws_stacks_get_frame(model->stacks, frame))
		->function;
}

bool ws_is_frame_of(const struct ws_model *model, uint32_t frame, const char *name)
{
	const struct ws_frame_info *info = ws_stacks_get_frame(model->stacks, frame);
	const struct ws_place *places = ws_stacks_get_places(model->stacks, info);

	for (uint32_t i = 0; i < info->count; i++)
		if (!strcmp(ws_stacks_get_function(model->stacks, places[i].function)->name, name))
			return true;
	return false;
}
