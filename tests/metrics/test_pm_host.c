/*
 * test_pm_host.c - the real libcupti, where that of CUDA 13.0 Update 1 is: which metrics of the
 * sets chips have, and what it makes of counter data that was recorded on an H100. Neither needs a
 * GPU.
 *
 * The arguments: a libcupti, and the folder with the recorded data: an image of counter data, what
 * counters there were, the names of the metrics, and start, end and values of each sample.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/mem.h"
#include "metrics/pm_choose.h"
#include "metrics/pm_evaluator.h"

enum { MOST_SAMPLES = 64, MOST_METRICS = 32, MOST_BYTES = 4 << 20, RECORDED_BY = 130001 };

static int tests, failed;
static uint64_t intervals[MOST_SAMPLES]; /* of the recorded samples, ns */

static void check(bool holds, const char *what)
{
	printf("%sok %d - %s\n", holds ? "" : "not ", ++tests, what);
	failed += !holds;
}

static bool open_cupti(const char *path, struct pm_functions *cupti)
{
	struct pm_initialize init = {.size = PM_SIZE(pm_initialize, priv)};
	char *folder = ws_strdup(path), *beside;
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*get_version)(uint32_t *) = NULL;
	uint32_t version = 0;
	bool whole = handle != NULL;

	if (handle)
		*(void **)&get_version = dlsym(handle, "cuptiGetVersion");
	if (!get_version || get_version(&version) || version != RECORDED_BY)
		return false;
	*strrchr(folder, '/') = 0;
	beside = ws_format("%s/libnvperf_host.so", folder);
	dlopen(beside, RTLD_NOW | RTLD_GLOBAL);
	free(beside);
	free(folder);
#define PM_FUNCTION(member, name, argument)                             \
	*(void **)&cupti->member = handle ? dlsym(handle, name) : NULL; \
	whole &= cupti->member != NULL;
	PM_FUNCTIONS
#undef PM_FUNCTION
	if (whole)
		cupti->initialize(&init); /* fails without a driver, which does not matter */
	return whole;
}

static uint8_t *read_packed(const char *folder, const char *name, size_t *size)
{
	char *path = ws_format("%s/%s.zst", folder, name);
	uint8_t *packed = ws_malloc(MOST_BYTES), *bytes = ws_malloc(MOST_BYTES);
	FILE *file = fopen(path, "re");
	size_t n = file ? fread(packed, 1, MOST_BYTES, file) : 0;

	*size = ZSTD_decompress(bytes, MOST_BYTES, packed, n);
	if (file)
		fclose(file);
	free(packed);
	free(path);
	return bytes;
}

static void check_sets(const struct pm_functions *cupti)
{
	static const struct {
		const char *chip, *set;
		size_t rows;
	} known[] = {
		{"GH100", NULL, 14},	 {"GH100", "pipes", 14},  {"GH100", "bytes", 10},
		{"GH100", "light", 8},	 {"GA100", NULL, 14},	  {"GA100", "bytes", 10},
		{"AD102", NULL, 12},	 {"AD102", "bytes", 10},  {"GB202", NULL, 11},
		{"GH100", "nvlink", 16}, {"GA100", "nvlink", 16},
	};

	for (size_t i = 0; i < WS_COUNT(known); i++) {
		struct ws_pm_wanted wanted;
		struct ws_pm_plan *plan;
		struct ws_pm_fit fit;
		struct ws_err err;
		char what[96];

		ws_pm_wanted_read(known[i].set, &wanted, &err);
		snprintf(what, sizeof(what), "%s has the rows of the set %s", known[i].chip,
			 known[i].set ? known[i].set : "general");
		check(!ws_pm_fit(cupti, known[i].chip, NULL, &wanted, &fit, &err) &&
			      fit.count >= known[i].rows,
		      what);
		plan = ws_pm_plan_new(cupti, known[i].chip, NULL, &fit);
		printf("# %zu of %zu are computed\n", ws_pm_plan_count_computed(plan), fit.count);
		ws_pm_plan_free(plan);
		ws_pm_fit_free(&fit);
		ws_pm_wanted_free(&wanted);
	}
}

static bool without_warps; /* a row is read that is nothing without another, which is not */

/* How many metrics of the set general an H100 is asked for, this often. */
static size_t count_chosen(const struct pm_library *library, uint64_t period)
{
	struct ws_pm_wanted wanted;
	struct ws_pm_plan *plan;
	struct ws_pm_fit fit;
	struct ws_err err;
	size_t count = 0;

	ws_pm_wanted_read(NULL, &wanted, &err);
	if (!ws_pm_fit(&library->cupti, "GH100", NULL, &wanted, &fit, &err)) {
		plan = ws_pm_choose(library, "GH100", NULL, period, &fit);
		count = fit.count;
		without_warps = fit.too_much && strstr(fit.too_much, "Compute Warps") &&
				!strstr(fit.too_much, "Unallocated Warps");
		printf("# every %u ns: %zu metrics, %zu bytes, without %s\n", (unsigned)period,
		       count, ws_pm_estimate_record(library, &fit),
		       fit.too_much ? fit.too_much : "-");
		ws_pm_plan_free(plan);
		ws_pm_fit_free(&fit);
	}
	ws_pm_wanted_free(&wanted);
	return count;
}

static void check_rates(const struct pm_functions *cupti)
{
	struct pm_library library = {.cupti = *cupti, .has_sums = true};
	size_t usual, fast;

	*(void **)&library.estimate =
		dlsym(RTLD_DEFAULT, "NVPW_PeriodicSampler_Config_GetGpuEstimatedSampleSize");
	usual = count_chosen(&library, 100000);
	fast = count_chosen(&library, 10000);
	check(usual >= 14, "all metrics are read 10000 times a second");
	check(fast > 0 && fast < usual, "fewer are read 100000 times a second");
	count_chosen(&library, 20000);
	check(!without_warps, "no row is read whose parts are not");
	count_chosen(&library, 5000);
}

static size_t read_names(const char *folder, const char **names)
{
	char *path = ws_format("%s/metrics.txt", folder), line[256];
	FILE *file = fopen(path, "re");
	size_t count = 0;

	while (file && count < MOST_METRICS && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		names[count++] = ws_strdup(line);
	}
	if (file)
		fclose(file);
	free(path);
	return count;
}

/* Whether one sample has the times and values that were written down. */
static bool is_sample(const struct pm_functions *cupti, struct pm_host_evaluate *evaluate,
		      FILE *file)
{
	struct pm_sample_info info = {.size = PM_SIZE(pm_sample_info, end),
				      .image = evaluate->image,
				      .bytes = evaluate->bytes,
				      .index = evaluate->range};
	unsigned long long start, end;
	bool same = fscanf(file, "%llu %llu", &start, &end) == 2 && !cupti->host_evaluate(evaluate);

	intervals[evaluate->range] = end - start;
	/* Times may need the object that sampled. */
	if (same && !cupti->sample_info(&info))
		same = info.start == start && info.end == end;
	for (size_t i = 0; i < evaluate->count; i++) {
		double value;

		same &= fscanf(file, "%lf", &value) == 1 &&
			fabs(value - evaluate->values[i]) <= 1e-9 * fabs(value);
	}
	return same;
}

static void check_samples(const struct pm_functions *cupti, struct pm_host_evaluate *evaluate,
			  const char *folder)
{
	struct pm_image_info info = {.size = PM_SIZE(pm_image_info, completed),
				     .image = evaluate->image,
				     .bytes = evaluate->bytes};
	char *path = ws_format("%s/values.txt", folder);
	FILE *file = fopen(path, "re");
	bool same = file && !cupti->image_info(&info) && info.completed > 16 &&
		    info.completed <= MOST_SAMPLES;

	for (size_t i = 0; i < info.completed && same; i++) {
		evaluate->range = i;
		same = is_sample(cupti, evaluate, file);
	}
	check(same, "recorded samples have the values of the machine that recorded them");
	if (file)
		fclose(file);
	free(path);
}

/* Whether all samples have the same values when they are computed from counters. */
static void check_plan(const struct pm_functions *cupti, const struct pm_host_evaluate *evaluate,
		       const uint8_t *availability)
{
	struct ws_pm_fit fit = {.names = evaluate->names, .count = evaluate->count};
	struct ws_pm_plan *plan = ws_pm_plan_new(cupti, "GH100", availability, &fit);
	struct pm_image_info info = {.size = PM_SIZE(pm_image_info, completed),
				     .image = evaluate->image,
				     .bytes = evaluate->bytes};
	size_t computed = ws_pm_plan_count_computed(plan);
	bool same = computed > 5 && !cupti->image_info(&info);

	for (size_t i = 0; i < info.completed && same; i++) {
		const struct ws_pm_place place = {evaluate->host, evaluate->image, evaluate->bytes,
						  i, intervals[i]};

		same = !ws_pm_plan_check(plan, &place);
	}
	same &= ws_pm_plan_count_computed(plan) == computed;
	printf("# %zu of %zu metrics are computed from counters\n", computed, fit.count);
	check(same, "metrics that are computed from counters have CUPTI's values");
	ws_pm_plan_free(plan);
	free(fit.config);
}

/* Whether the units of the chip can be counted, which images of sums need. */
static void check_units(const struct pm_functions *cupti, const struct pm_host_evaluate *evaluate,
			const uint8_t *availability)
{
	const char *names[] = {"sm__cycles_active.avg.pct_of_peak_sustained_elapsed",
			       "dram__bytes_read.avg.pct_of_peak_sustained_elapsed",
			       "dram__bytes_read.sum.per_second",
			       "gpc__cycles_elapsed.avg.per_second"};
	struct ws_pm_fit fit = {.names = names, .count = WS_COUNT(names)};
	struct ws_pm_plan *plan = ws_pm_plan_new(cupti, "GH100", availability, &fit);
	const struct ws_pm_place place = {.host = evaluate->host,
					  .image = evaluate->image,
					  .bytes = evaluate->bytes,
					  .index = 3,
					  .interval = intervals[3]};

	check(!ws_pm_plan_check(plan, &place) && !ws_pm_plan_uses_sums(plan),
	      "sums are not used before they are prepared");
	ws_pm_plan_prepare_sums(plan, &place);
	check(ws_pm_plan_uses_sums(plan), "sums of counters would do");
	/* An image of another kind says nothing like a sum... */
	check(!ws_pm_plan_learn_sums(plan,
				     &(struct ws_pm_place){place.host, place.image, place.bytes, 3,
							   place.interval * 3, true}),
	      "an image that is not understood is not used");
	/* ...while CUPTI's own image has the sums in its evaluation. */
	ws_pm_plan_prepare_sums(plan, &place);
	check(ws_pm_plan_learn_sums(plan,
				    &(struct ws_pm_place){place.host, place.image, place.bytes, 3,
							  place.interval, true}),
	      "an image with sums is understood");
	ws_pm_plan_free(plan);
	free(fit.config);
}

static bool bind_evaluator(struct pm_library *library)
{
	library->has_evaluator = true;
#define PM_FUNCTION(member, name, argument)                               \
	*(void **)&library->evaluator.member = dlsym(RTLD_DEFAULT, name); \
	library->has_evaluator &= library->evaluator.member != NULL;
	PM_EVALUATOR_FUNCTIONS
#undef PM_FUNCTION
	return library->has_evaluator;
}

/* Whether evaluation without names gives the values of evaluation with names. */
static void check_evaluator(const struct pm_functions *cupti, struct pm_host_evaluate *evaluate)
{
	struct pm_library library = {.cupti = *cupti};
	struct ws_pm_place place = {.image = evaluate->image, .bytes = evaluate->bytes};
	const char *unknown = "sm__no_such_thing.sum";
	struct ws_pm_evaluator *evaluator = NULL;
	double values[MOST_METRICS];
	bool same;

	if (bind_evaluator(&library))
		evaluator = ws_pm_evaluator_new(&library, "GH100");
	check(evaluator, "the library evaluates without names");
	if (!evaluator)
		return;
	same = ws_pm_evaluator_choose(evaluator, &place, evaluate->names, evaluate->count);
	for (place.index = 0; place.index < 16 && same; place.index++) {
		evaluate->range = place.index;
		same = !cupti->host_evaluate(evaluate) &&
		       !ws_pm_evaluator_evaluate(evaluator, &place, values);
		for (size_t i = 0; i < evaluate->count && same; i++)
			same = values[i] == evaluate->values[i] ||
			       (isnan(values[i]) && isnan(evaluate->values[i]));
	}
	check(same, "its values are CUPTI's");
	check(!ws_pm_evaluator_choose(evaluator, &place, &unknown, 1),
	      "a metric that does not exist is refused");
	ws_pm_evaluator_free(evaluator);
}

static void replay(const struct pm_functions *cupti, const char *folder)
{
	const char *names[MOST_METRICS];
	double values[MOST_METRICS];
	size_t availability_bytes;
	uint8_t *availability = read_packed(folder, "availability", &availability_bytes);
	struct pm_host_evaluate evaluate = {.size = PM_SIZE(pm_host_evaluate, values),
					    .host = ws_pm_make_host(cupti, "GH100", availability),
					    .names = names,
					    .values = values};
	uint8_t *image = read_packed(folder, "image", &evaluate.bytes);

	evaluate.image = image;
	evaluate.count = read_names(folder, names);
	check(evaluate.host && evaluate.count, "the recorded data can be read");
	check_samples(cupti, &evaluate, folder);
	check_plan(cupti, &evaluate, availability);
	check_units(cupti, &evaluate, availability);
	check_evaluator(cupti, &evaluate);
	ws_pm_free_host(cupti, evaluate.host);
	for (size_t i = 0; i < evaluate.count; i++)
		free((char *)names[i]);
	free(availability);
	free(image);
}

int main(int argc, char **argv)
{
	struct pm_functions cupti;

	if (argc < 3 || !open_cupti(argv[1], &cupti)) {
		puts("1..0 # SKIP this libcupti is not that of CUDA 13.0 Update 1");
		return 0;
	}
	check_sets(&cupti);
	check_rates(&cupti);
	replay(&cupti, argv[2]);
	printf("1..%d\n", tests);
	return failed != 0;
}
