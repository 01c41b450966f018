/*
 * host.c - see host.h.
 *
 * The library is opened once and stays open. A name is looked up in the list of base metrics before
 * the library is asked anything about it: some of its calls crash on names that they do not know.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "gpu/cupti_paths.h"
#include "gpu/host.h"
#include "gpu/host_abi.h"

enum { CHIP_ROOM = 32 };

#define HOST_CALLS(call)                                                                           \
	call(initialize_library, cuptiProfilerInitialize, struct cupti_profiler_initialize) call(  \
		initialize, cuptiProfilerHostInitialize,                                           \
		struct cupti_host_initialize) call(deinitialize, cuptiProfilerHostDeinitialize,    \
						   struct cupti_host_deinitialize)                 \
		call(chips, cuptiProfilerHostGetSupportedChips, struct cupti_host_chips) call(     \
			base_metrics, cuptiProfilerHostGetBaseMetrics,                             \
			struct cupti_host_base_metrics) call(sub_metrics,                          \
							     cuptiProfilerHostGetSubMetrics,       \
							     struct cupti_host_sub_metrics)        \
			call(properties, cuptiProfilerHostGetMetricProperties,                     \
			     struct cupti_host_properties) call(add_metrics,                       \
								cuptiProfilerHostConfigAddMetrics, \
								struct cupti_host_add_metrics)     \
				call(image_size, cuptiProfilerHostGetConfigImageSize,              \
				     struct cupti_host_image_size)                                 \
					call(image, cuptiProfilerHostGetConfigImage,               \
					     struct cupti_host_image)                              \
						call(passes, cuptiProfilerHostGetNumOfPasses,      \
						     struct cupti_host_passes)                     \
							call(evaluate,                             \
							     cuptiProfilerHostEvaluateToGpuValues, \
							     struct cupti_host_evaluate)

static struct {
	bool tried, there;
#define DECLARE(field, symbol, params) int (*field)(params *);
	HOST_CALLS(DECLARE)
#undef DECLARE
} api;

struct ws_gpu_host {
	char chip[CHIP_ROOM];
	void *object;
	struct ws_gpu_metric *metrics;
	size_t count;
};

/* Whether a library has the whole host API, which came with CUDA 12.6. */
static bool find_calls(void *library)
{
	bool all = true;

#define FIND(field, symbol, params)                     \
	*(void **)&api.field = dlsym(library, #symbol); \
	all = all && api.field;
	HOST_CALLS(FIND)
#undef FIND
	return all;
}

static void open_library(void)
{
	struct ws_cupti_paths paths = {0};
	struct cupti_profiler_initialize params = {.size = sizeof(params)};

	ws_list_cupti_paths(&paths);
	for (size_t i = 0; i < paths.count && !api.there; i++) {
		void *library = dlopen(paths.paths[i], RTLD_NOW | RTLD_LOCAL);

		if (!library)
			continue;
		api.there = find_calls(library);
		if (!api.there)
			dlclose(library);
	}
	/* It fails on machines without a GPU, but the functions used here work nevertheless. */
	if (api.there)
		api.initialize_library(&params);
	ws_cupti_paths_free(&paths);
	api.tried = true;
}

/* libcupti opens a library with RTLD_DEEPBIND, which makes sanitizers abort the program. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MAY_OPEN = 0 };
#else
enum { MAY_OPEN = 1 };
#endif

static int require_library(struct ws_err *err)
{
	if (!api.tried && MAY_OPEN)
		open_library();
	if (api.there)
		return 0;
	return ws_fail(err, "no libcupti of CUDA 12.6 or later was found, which knows the metrics "
			    "of each chip: install CUPTI (it is part of the CUDA toolkit) or set "
			    "CUDA_HOME");
}

const char *const *ws_gpu_chips(size_t *count, struct ws_err *err)
{
	struct cupti_host_chips params = {.size = sizeof(params)};

	*count = 0;
	if (require_library(err))
		return NULL;
	if (api.chips(&params)) {
		ws_fail(err, "libcupti does not say which chips it knows");
		return NULL;
	}
	*count = params.count;
	return params.names;
}

static int compare_metrics(const void *a, const void *b)
{
	const struct ws_gpu_metric *left = a, *right = b;

	return strcmp(left->name, right->name);
}

static void add_type(struct ws_gpu_host *host, enum ws_metric_type type)
{
	struct cupti_host_base_metrics params = {
		.size = sizeof(params), .host = host->object, .type = (int32_t)type};

	if (api.base_metrics(&params) || !params.count)
		return;
	host->metrics =
		ws_realloc(host->metrics, (host->count + params.count) * sizeof(*host->metrics));
	for (size_t i = 0; i < params.count; i++)
		host->metrics[host->count++] =
			(struct ws_gpu_metric){.name = params.names[i], .type = type};
}

static void *open_object(const char *chip, int32_t profiler)
{
	struct cupti_host_initialize params = {
		.size = sizeof(params), .profiler = profiler, .chip = chip};

	if (api.initialize(&params))
		return NULL;
	return params.host;
}

static void close_object(void *object)
{
	struct cupti_host_deinitialize params = {.size = sizeof(params), .host = object};

	api.deinitialize(&params);
}

/* The library's spelling of a chip's name; "" when it does not know the chip. */
static void find_chip(const char *chip, char *found)
{
	size_t count;
	const char *const *chips = ws_gpu_chips(&count, NULL);

	*found = 0;
	for (size_t i = 0; i < count; i++)
		if (!strcasecmp(chips[i], chip) && strlen(chips[i]) < CHIP_ROOM)
			strcpy(found, chips[i]);
}

static struct ws_gpu_host *open_host(const char *chip, int32_t profiler, struct ws_err *err)
{
	struct ws_gpu_host *host;
	char name[CHIP_ROOM];

	if (require_library(err))
		return NULL;
	find_chip(chip, name);
	if (!*name) {
		ws_fail(err, "libcupti does not know the chip %s; see --query-metrics --chips help",
			chip);
		return NULL;
	}
	host = ws_calloc(1, sizeof(*host));
	strcpy(host->chip, name);
	host->object = open_object(host->chip, profiler);
	if (!host->object) {
		ws_fail(err, "libcupti cannot list the metrics of %s", chip);
		free(host);
		return NULL;
	}
	for (int type = 0; type < WS_METRIC_TYPES; type++)
		add_type(host, (enum ws_metric_type)type);
	qsort(host->metrics, host->count, sizeof(*host->metrics), compare_metrics);
	return host;
}

struct ws_gpu_host *ws_gpu_host_open(const char *chip, struct ws_err *err)
{
	return open_host(chip, CUPTI_HOST_RANGE_PROFILER, err);
}

struct ws_gpu_host *ws_gpu_host_open_sampler(const char *chip, struct ws_err *err)
{
	return open_host(chip, CUPTI_HOST_PM_SAMPLING, err);
}

void ws_gpu_host_close(struct ws_gpu_host *host)
{
	if (!host)
		return;
	close_object(host->object);
	free(host->metrics);
	free(host);
}

const struct ws_gpu_metric *ws_gpu_host_metrics(struct ws_gpu_host *host, size_t *count)
{
	*count = host->count;
	return host->metrics;
}

static const struct ws_gpu_metric *find_base(struct ws_gpu_host *host, const char *name, size_t n)
{
	char *base = ws_strndup(name, n);
	struct ws_gpu_metric key = {.name = base};
	const struct ws_gpu_metric *found =
		bsearch(&key, host->metrics, host->count, sizeof(*host->metrics), compare_metrics);

	free(base);
	return found;
}

/* Base names may contain dots themselves (SM_A.TriageCompute.sm__...): the longest match counts. */
const struct ws_gpu_metric *ws_gpu_host_find(struct ws_gpu_host *host, const char *name)
{
	for (size_t n = strlen(name); n; n--) {
		const struct ws_gpu_metric *metric;

		if (name[n] && name[n] != '.')
			continue;
		metric = find_base(host, name, n);
		if (metric)
			return metric;
	}
	return NULL;
}

const char *const *ws_gpu_host_suffixes(struct ws_gpu_host *host,
					const struct ws_gpu_metric *metric, size_t *count)
{
	struct cupti_host_sub_metrics params = {.size = sizeof(params),
						.host = host->object,
						.type = (int32_t)metric->type,
						.metric = metric->name};

	*count = 0;
	if (api.sub_metrics(&params))
		return NULL;
	*count = params.count;
	return params.names;
}

bool ws_gpu_host_has(struct ws_gpu_host *host, const char *name)
{
	const struct ws_gpu_metric *metric = ws_gpu_host_find(host, name);
	const char *const *suffixes;
	size_t count;

	if (!metric)
		return false;
	suffixes = ws_gpu_host_suffixes(host, metric, &count);
	for (size_t i = 0; i < count; i++)
		if (!strcmp(suffixes[i], name + strlen(metric->name)))
			return true;
	return false;
}

static struct cupti_host_properties read_properties(struct ws_gpu_host *host, const char *name)
{
	/* Not sizeof: CUPTI refuses a size that includes padding at the end. */
	struct cupti_host_properties params = {
		.size = offsetof(struct cupti_host_properties, type) + sizeof(params.type),
		.host = host->object};
	const struct ws_gpu_metric *metric = ws_gpu_host_find(host, name);

	if (!metric)
		return params;
	params.metric = ws_gpu_host_has(host, name) ? name : metric->name;
	if (api.properties(&params))
		params = (struct cupti_host_properties){.size = 0};
	return params;
}

const char *ws_gpu_host_unit(struct ws_gpu_host *host, const char *name)
{
	const char *unit = read_properties(host, name).unit;

	return unit ? unit : "";
}

const char *ws_gpu_host_describe(struct ws_gpu_host *host, const char *name)
{
	const char *text = read_properties(host, name).description;

	return text ? text : "";
}

/* The number of passes for what has been added to `object`; 0 when the library cannot tell. */
static size_t count_passes(void *object)
{
	struct cupti_host_image_size size = {.size = sizeof(size), .host = object};
	struct cupti_host_image image = {.size = sizeof(image), .host = object};
	struct cupti_host_passes passes = {.size = sizeof(passes)};

	if (api.image_size(&size))
		return 0;
	image.bytes = passes.bytes = size.bytes;
	image.image = passes.image = ws_malloc(size.bytes + 1);
	if (api.image(&image) || api.passes(&passes))
		passes.passes = 0;
	free(image.image);
	return passes.passes;
}

/* The passes of metrics with a host that is closed at the end; NULL for one that is not there. */
static size_t find_passes(struct ws_gpu_host *host, const char *const *names, size_t count,
			  struct ws_err *err)
{
	struct cupti_host_add_metrics add = {
		.size = sizeof(add), .names = (const char **)names, .count = count};
	size_t passes = 0;

	if (!host)
		return 0;
	for (size_t i = 0; i < count; i++)
		if (!ws_gpu_host_has(host, names[i])) {
			ws_fail(err, "%s has no metric %s", host->chip, names[i]);
			ws_gpu_host_close(host);
			return 0;
		}
	add.host = host->object;
	if (!api.add_metrics(&add))
		passes = count_passes(host->object);
	if (!passes)
		ws_fail(err, "libcupti cannot measure these metrics of %s together", host->chip);
	ws_gpu_host_close(host);
	return passes;
}

size_t ws_gpu_host_passes(const char *chip, const char *const *names, size_t count,
			  struct ws_err *err)
{
	return find_passes(ws_gpu_host_open(chip, err), names, count, err);
}

size_t ws_gpu_sampler_passes(const char *chip, const char *const *names, size_t count,
			     struct ws_err *err)
{
	return find_passes(ws_gpu_host_open_sampler(chip, err), names, count, err);
}

double ws_gpu_host_evaluate(struct ws_gpu_host *host, const char *image, size_t bytes, size_t range,
			    const char *name)
{
	double value = NAN;
	struct cupti_host_evaluate params = {.size = sizeof(params),
					     .host = host->object,
					     .image = (const uint8_t *)image,
					     .bytes = bytes,
					     .range = range,
					     .names = &name,
					     .count = 1,
					     .values = &value};

	if (!ws_gpu_host_find(host, name) || api.evaluate(&params))
		return NAN;
	return value;
}
