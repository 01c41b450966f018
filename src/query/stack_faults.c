/*
 * stack_faults.c - see stack_faults.h.
 *
 * A stack that is marked broken ends with the function whose caller could not be found: the module
 * of that function lacks what unwinding needs. One that is marked truncated ran out of copied
 * bytes. A name is missing where the innermost function of a sample has none.
 */
#include "query/stack_faults.h"

#include <stdlib.h>

#include "base/jit_runtimes.h"
#include "base/map.h"
#include "base/mem.h"

enum fault {
	FAULT_NONE,
	STACK_SHORT,
	STACK_DEEP,
	STACK_JIT,
	STACK_REPLACED,
	STACK_TABLES,
	STACK_UNKNOWN,
	NAME_JIT,
	NAME_REPLACED,
	NAME_MISSING,
	NAME_STRIPPED,
};

enum { DEEP = 1000 }; /* frames: where unwinding stops */

/* The text that messages have after the share and the module. */
static const struct {
	const char *what, *fix;
} texts[] = {
	[STACK_SHORT] = {"have stacks deeper than what was copied of them",
			 "--sample-stack-size=32768 copies more; in programs compiled with "
			 "-fno-omit-frame-pointer the kernel finds the rest"},
	[STACK_DEEP] = {"have stacks of more than 1000 functions",
			"the outermost are left out; bottom-up views do not need them"},
	[STACK_JIT] = {"have stacks that end in generated code",
		       "have the runtime keep frame pointers (Java: -XX:+PreserveFramePointer, "
		       "which --jit-names=java sets)"},
	[STACK_REPLACED] = {"have stacks that end in a file that was replaced while it was in use",
			    "record again with the file in place"},
	[STACK_TABLES] = {"have stacks that end in a file with neither unwind tables nor frame "
			  "pointers there",
			  "compile it with -fno-omit-frame-pointer or "
			  "-fasynchronous-unwind-tables"},
	[STACK_UNKNOWN] = {"have stacks that end in memory of which no file is known",
			   "generated code is walked if it keeps frame pointers"},
	[NAME_JIT] = {"are in generated code without names", NULL},
	[NAME_REPLACED] = {"are in functions without names of a file that was replaced while it "
			   "was in use",
			   "record again with the file in place"},
	[NAME_MISSING] = {"are in functions without names of a file that could not be read",
			  "'warpsight symbolize --symbols=DIR' finds it in another folder"},
	[NAME_STRIPPED] = {"are in functions without names of a stripped file",
			   "install its debug symbols, or 'warpsight symbolize --symbols=DIR' with "
			   "the folder of its debug file"},
};

struct tally {		       /* of one worker */
	struct ws_map weights; /* fault << 32 | module -> weight */
	uint64_t total;
} __attribute__((aligned(128)));

struct search {
	struct ws_stacks *stacks;
	struct ws_samples samples;
	struct tally *tallies;
};

struct found {
	uint64_t key, weight;
};

static void add_weight(struct tally *tally, enum fault fault, uint32_t module, uint64_t weight)
{
	uint64_t key = (uint64_t)fault << 32 | module;

	if (fault)
		ws_map_set(&tally->weights, key, ws_map_get(&tally->weights, key, NULL) + weight);
}

/* The outermost frame of a stack, and the number of its frames. */
static uint32_t find_outermost(const struct ws_stacks *stacks, uint32_t frame, uint32_t stack,
			       size_t *depth)
{
	for (*depth = 1; stack && *depth < WS_STACKS_DEEPEST; ++*depth) {
		uint32_t outer = ws_stacks_step_out(stacks, stack, &stack);

		if (outer)
			frame = outer;
	}
	return frame;
}

static enum fault blame_module(const struct ws_stacks *stacks, uint32_t module)
{
	const struct ws_module_info *info = ws_stacks_get_module(stacks, module);

	if (info->kind == WS_MODULE_JIT)
		return STACK_JIT;
	if (info->kind != WS_MODULE_FILE)
		return STACK_UNKNOWN;
	if (info->flags & (WS_MODULE_CHANGED | WS_MODULE_MISSING))
		return STACK_REPLACED;
	return STACK_TABLES;
}

static void judge_stack(const struct search *search, struct tally *tally, const uint64_t *values,
			uint64_t weight)
{
	uint64_t flags = values[ws_sample_flags];
	size_t depth;
	uint32_t frame, module;

	if (!(flags & (WS_SAMPLE_TRUNCATED | WS_SAMPLE_BROKEN)))
		return;
	frame = find_outermost(search->stacks, (uint32_t)values[ws_sample_frame],
			       (uint32_t)values[ws_sample_callers], &depth);
	module = ws_stacks_get_frame(search->stacks, frame)->module;
	if (flags & WS_SAMPLE_BROKEN)
		add_weight(tally, blame_module(search->stacks, module), module, weight);
	else if (depth >= DEEP)
		add_weight(tally, STACK_DEEP, 0, weight);
	else
		add_weight(tally, STACK_SHORT, 0, weight);
}

static enum fault blame_name(const struct ws_module_info *info)
{
	if (info->kind == WS_MODULE_JIT)
		return NAME_JIT;
	if (info->flags & WS_MODULE_CHANGED)
		return NAME_REPLACED;
	if (info->flags & WS_MODULE_MISSING)
		return NAME_MISSING;
	if (info->flags & WS_MODULE_STRIPPED)
		return NAME_STRIPPED;
	return FAULT_NONE;
}

static void judge_name(const struct search *search, struct tally *tally, const uint64_t *values,
		       uint64_t weight)
{
	uint32_t number = (uint32_t)values[ws_sample_frame], caller;
	const struct ws_frame_info *frame;
	const struct ws_place *place;

	if (!number)
		number = ws_stacks_step_out(search->stacks, (uint32_t)values[ws_sample_callers],
					    &caller);
	frame = ws_stacks_get_frame(search->stacks, number);
	place = ws_stacks_get_places(search->stacks, frame);
	if (!frame->module || !ws_stacks_get_function(search->stacks, place->function)->unresolved)
		return;
	add_weight(tally, blame_name(ws_stacks_get_module(search->stacks, frame->module)),
		   frame->module, weight);
}

static int judge_samples(void *ctx, const struct ws_batch *batch)
{
	struct search *search = ctx;
	struct tally *tally = &search->tallies[batch->worker];
	uint64_t values[ws_sample_COLUMNS] = {0};

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t weight = batch->col[ws_sample_time][i];

		values[ws_sample_flags] = batch->col[ws_sample_flags][i];
		values[ws_sample_frame] = batch->col[ws_sample_frame][i];
		values[ws_sample_callers] = batch->col[ws_sample_callers][i];
		if (!ws_samples_wanted(&search->samples, batch->col[ws_sample_event][i],
				       values[ws_sample_flags]))
			continue;
		if (!weight)
			weight = batch->col[ws_sample_weight][i];
		tally->total += weight;
		judge_stack(search, tally, values, weight);
		judge_name(search, tally, values, weight);
	}
	return 0;
}

/* How to get names for generated code, by the runtime whose files the report has. */
static const char *find_advice(const struct ws_stacks *stacks)
{
	for (uint32_t i = 1; i <= ws_stacks_count_functions(stacks); i++) {
		const struct ws_function *function = ws_stacks_get_function(stacks, i);
		const struct ws_jit_runtime *runtime =
			ws_find_jit_runtime(ws_stacks_get_module(stacks, function->module)->path);

		if (runtime)
			return runtime->advice;
	}
	return "a runtime that writes /tmp/perf-PID.map or jitdump files gives names";
}

static int compare_weights(const void *first, const void *second)
{
	const struct found *left = first, *right = second;

	if (left->weight != right->weight)
		return left->weight > right->weight ? -1 : 1;
	return left->key > right->key ? 1 : -1;
}

static char *describe(const struct ws_stacks *stacks, const struct found *found, double share)
{
	enum fault fault = (enum fault)(found->key >> 32);
	const char *path = ws_stacks_get_module(stacks, (uint32_t)found->key)->path,
		   *fix = texts[fault].fix;

	if (fault == NAME_JIT)
		return ws_format("%.1f %% of samples %s (%s): %s. 'warpsight profile "
				 "--jit-names=java,node' sets that",
				 share, texts[fault].what, path, find_advice(stacks));
	if (*path)
		return ws_format("%.1f %% of samples %s (%s): %s", share, texts[fault].what, path,
				 fix);
	return ws_format("%.1f %% of samples %s: %s", share, texts[fault].what, fix);
}

static void rank(const struct search *search, uint32_t workers, struct ws_stack_faults *faults)
{
	struct ws_map sums = {0};
	struct found *found;
	uint64_t total = 0;
	size_t n = 0;

	for (uint32_t w = 0; w < workers; w++) {
		const struct ws_map *map = &search->tallies[w].weights;

		total += search->tallies[w].total;
		for (size_t i = 0; i < map->size; i++)
			if (map->used[i])
				ws_map_set(&sums, map->slots[i].key,
					   ws_map_get(&sums, map->slots[i].key, NULL) +
						   map->slots[i].value);
	}
	found = ws_malloc((sums.count + 1) * sizeof(*found));
	for (size_t i = 0; i < sums.size; i++)
		if (sums.used[i] && sums.slots[i].value >= total / 100)
			found[n++] = (struct found){sums.slots[i].key, sums.slots[i].value};
	qsort(found, n, sizeof(*found), compare_weights);
	for (size_t i = 0; i < n; i++) {
		ws_grow(faults->sentences, faults->cap, faults->count + 1);
		faults->sentences[faults->count++] = describe(
			search->stacks, &found[i], 100 * (double)found[i].weight / (double)total);
	}
	free(found);
	ws_map_free(&sums);
}

void ws_find_stack_faults(const struct ws_report *report, struct ws_stacks *stacks,
			  uint64_t time_min, uint64_t time_max, struct ws_stack_faults *faults,
			  uint64_t *damaged)
{
	struct ws_scan scan = {
		.table = WS_TABLE_sample,
		.columns = WS_COLUMN_BIT(sample, start) | WS_COLUMN_BIT(sample, weight) |
			   WS_COLUMN_BIT(sample, time) | WS_COLUMN_BIT(sample, frame) |
			   WS_COLUMN_BIT(sample, callers) | WS_COLUMN_BIT(sample, event) |
			   WS_COLUMN_BIT(sample, flags),
		.time_min = time_min,
		.time_max = time_max};
	uint32_t workers = ws_count_scan_workers(&scan);
	struct search search = {.stacks = stacks};
	struct ws_err err;

	*faults = (struct ws_stack_faults){0};
	search.tallies = aligned_alloc(128, workers * sizeof(*search.tallies));
	if (!search.tallies)
		return;
	memset(search.tallies, 0, workers * sizeof(*search.tallies));
	if (!ws_samples_choose(report, NULL, &search.samples, &err)) {
		ws_run_scan(report, &scan, judge_samples, &search, damaged);
		rank(&search, workers, faults);
	}
	for (uint32_t w = 0; w < workers; w++)
		ws_map_free(&search.tallies[w].weights);
	free(search.tallies);
}

void ws_stack_faults_free(struct ws_stack_faults *faults)
{
	for (size_t i = 0; i < faults->count; i++)
		free(faults->sentences[i]);
	free(faults->sentences);
	*faults = (struct ws_stack_faults){0};
}
