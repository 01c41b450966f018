/*
 * missed_cache.c - functions of Python whose results are kept (functools.lru_cache), and which are
 * computed anew all the time.
 *
 * How often a cache hits is not recorded, but a cache that helps has what is asked for after a
 * while: where the function below it takes as much of the time at the end of the run as before, its
 * keys have been thrown out, or are always new. Functions that call themselves through their cache
 * are left out: each part of their problem is computed once.
 */
#include "analyze/rules/rules.h"
#include "analyze/stack_sums.h"

#define LEAST_SHARE 0.3
#define LEAST_LATE 0.6 /* of the share over the whole run */
enum { MOST_CACHED = 1000 };

static const struct {
	const char *wrapper, *advice;
} caches[] = {
	{"bounded_lru_cache_wrapper",
	 "Make it large enough (maxsize=None): one that is smaller than the number of keys that "
	 "come round throws each out before it is asked for again. Keys that are always new "
	 "(times, numbers with fractions, objects without __eq__) never hit: use what decides the "
	 "result as the key, or no cache. cache_info() counts hits and misses."},
	{"infinite_lru_cache_wrapper",
	 "Its keys are nearly always new (times, numbers with fractions, objects without __eq__ "
	 "and __hash__): use what decides the result as the key, or leave the cache out, which "
	 "only grows. cache_info() counts hits and misses."},
	{"uncached_lru_cache_wrapper",
	 "With maxsize=0 it keeps nothing: give it a size, or maxsize=None."},
};

/* A function below a cache, and the line that asks the cache. */
struct cached {
	uint32_t function, caller; /* number; id of a frame */
	size_t cache;
};

struct cached_functions {
	struct cached *cached;
	size_t count, cap;
};

/* Which cache a frame belongs to, from 1; 0 for none. */
static size_t find_cache(const struct ws_model *model, uint32_t frame)
{
	for (size_t i = 0; i < WS_COUNT(caches); i++)
		if (ws_is_frame_of(model, frame, caches[i].wrapper))
			return i + 1;
	return 0;
}

static const struct ws_function *get_function(const struct ws_model *model, uint32_t frame)
{
	return ws_stacks_get_function(model->stacks, ws_get_frame_function(model, frame));
}

static bool is_python(const struct ws_model *model, uint32_t frame)
{
	return get_function(model, frame)->kind == WS_FRAME_PYTHON;
}

/* Whether a function of Python calls itself. */
static bool is_among(const struct ws_model *model, const uint32_t *frames, size_t count,
		     uint32_t number)
{
	const struct ws_function *function = ws_stacks_get_function(model->stacks, number);

	for (size_t i = 0; i < count; i++) {
		const struct ws_function *other = get_function(model, frames[i]);

		if (other->file == function->file && !strcmp(other->name, function->name))
			return true;
	}
	return false;
}

/* The number of a function and its caller among those known, from 1; 0 if there are too many. */
static uint64_t number_cached(struct cached_functions *known, const struct cached *cached)
{
	for (size_t i = 0; i < known->count; i++)
		if (known->cached[i].function == cached->function &&
		    known->cached[i].caller == cached->caller)
			return i + 1;
	if (known->count == MOST_CACHED)
		return 0;
	ws_grow(known->cached, known->cap, known->count + 1);
	known->cached[known->count] = *cached;
	return ++known->count;
}

/* The outermost cache of a stack, who asks it and what it calls. */
static uint64_t read_stack(const struct ws_model *model, const uint32_t *frames, size_t count,
			   void *context)
{
	struct cached cached = {0};
	size_t left = count;

	while (left && !cached.cache) {
		left--;
		cached.cache = find_cache(model, frames[left]);
		if (is_python(model, frames[left]))
			cached.caller = frames[left];
	}
	while (left && !is_python(model, frames[left - 1]))
		left--;
	if (!cached.cache || !cached.caller || !left)
		return 0;
	left--;
	cached.function = ws_get_frame_function(model, frames[left]);
	if (is_among(model, frames, left, cached.function))
		return 0; /* it calls itself */
	return number_cached(context, &cached);
}

static bool has_caches(const struct ws_model *model)
{
	for (uint32_t i = 1; i <= ws_stacks_count_functions(model->stacks); i++)
		for (size_t k = 0; k < WS_COUNT(caches); k++)
			if (!strcmp(ws_stacks_get_function(model->stacks, i)->name,
				    caches[k].wrapper))
				return true;
	return false;
}

/* All that was sampled below one function's cache, wherever it was asked. */
static struct ws_stack_sum sum_function(const struct ws_stack_sums *sums,
					const struct cached_functions *known, uint32_t function)
{
	struct ws_stack_sum sum = {0};

	for (size_t i = 0; i < sums->count; i++)
		if (known->cached[sums->sums[i].key - 1].function == function) {
			sum.ns += sums->sums[i].ns;
			sum.late_ns += sums->sums[i].late_ns;
		}
	return sum;
}

static struct ws_code_place place_caller(const struct ws_model *model, uint32_t caller)
{
	struct ws_code_place code = ws_code_place_frames(model, &caller, 1);

	code.leaf = code.function;
	return code;
}

static void report_cache(const struct ws_analysis *analysis, const struct cached *cached,
			 uint64_t cost, struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	struct ws_code_place code = place_caller(model, cached->caller);
	struct ws_finding *finding = ws_findings_add_fault(
		analysis, findings, &ws_rule_missed_cache, cost, cost / 10 * 9);
	struct ws_text place = {0};

	ws_put_at_place(analysis, &code, &place);
	ws_point_at(finding, &code);
	/* All keys may be asked for only once. */
	finding->level = ws_min(finding->level, WS_LEVEL_NOTE);
	finding->title = ws_format(
		"The cache of %s (functools.lru_cache) hardly helps: for %.0f %% of the time the "
		"function computes what is not in it, at the end of the run as at the beginning, "
		"called%s",
		ws_stacks_get_function(model->stacks, cached->function)->name,
		100 * ws_analysis_share(analysis, cost), ws_text_or(place.text, ""));
	finding->advice = ws_strdup(caches[cached->cache - 1].advice);
	finding->assumption = ws_strdup("nine of ten calls find their result");
	finding->next = ws_strdup("warpsight report --view=top-down REPORT");
	ws_text_free(&place);
}

static void check_caches(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	struct cached_functions known = {0};
	struct ws_stack_sums sums;

	if (!has_caches(model))
		return;
	ws_stack_sums_make(model, 0, read_stack, &known, &sums);
	if (sums.count) {
		const struct cached *most = &known.cached[sums.sums[0].key - 1];
		struct ws_stack_sum sum = sum_function(&sums, &known, most->function);
		double share = (double)sum.ns / (double)sums.ns,
		       late = (double)sum.late_ns / (double)ws_max(sums.late_ns, (uint64_t)1);
		uint64_t cost = (uint64_t)((double)ws_analysis_cpu_on_path(analysis) * share);

		if (ws_analysis_share(analysis, cost) >= LEAST_SHARE && late >= LEAST_LATE * share)
			report_cache(analysis, most, cost, findings);
	}
	ws_stack_sums_free(&sums);
	free(known.cached);
}

const struct ws_rule ws_rule_missed_cache = {
	.name = "missed-cache",
	.title = "Caches of Python that hardly help",
	.about = "A function whose results functools.lru_cache or functools.cache keeps computes "
		 "for 30 % of the critical path or more, and in the last third of the run at "
		 "least 60 % as much as on average: a cache that helps has what is asked for by "
		 "then. Functions that call themselves through their cache are left out. Never "
		 "more than a note, since all keys may be asked for only once. Needs the names of "
		 "the interpreter's functions.",
	.find_obstacle = ws_need_samples,
	.by_samples = true,
	.query = ws_proof_code,
	.check = check_caches,
};
