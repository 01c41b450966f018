/*
 * kernel_counters.c - CUPTI's range profiler: finds which metrics the chip has, distributes them
 * over passes, runs a pass and evaluates the values at the end. CUPTI itself makes a range around a
 * kernel, since a range of ours around the launch would include the time that the launch takes. We
 * make a range around the launch of a graph, which CUPTI can measure in no other way. The passes
 * are run by us.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "inject/bind.h"
#include "inject/kernel.h"

enum { CONTEXTS = 64, NAME_ROOM = 256, LISTS_MOST = 4 << 20 };

static struct {
#define X(member, function, params, last) int (*member)(struct params *);
	CUPTI_PROFILER_FUNCTIONS(X)
#undef X
} profiler;

/* Call with a structure whose size has been filled in. */
enum {
#define X(member, function, params, last) SIZE_##member = CUPTI_SIZE(params, last),
	CUPTI_PROFILER_FUNCTIONS(X)
#undef X
};

struct ws_kernel_counters {
	void *context, *host, *profiler;
	char chip[64];
	char *list; /* that the names point into */
	const char **names, **units;
	size_t count, config_bytes, image_bytes, passes;
	uint8_t *availability, *config, *image;
	double *values;
	size_t ranges;	  /* that the image has room for */
	bool used;	  /* the profiler has been configured */
	bool unfinished;  /* passes of the last unit are missing */
	bool own_range;	  /* the range of the present unit is ours */
	size_t pass;	  /* that comes next, as CUPTI counts them */
	int result;	  /* of the call that failed last */
	char error[1024]; /* why it measures nothing; "" if it does */
};

static struct ws_kernel_counters contexts[CONTEXTS];
static size_t context_count;
static bool initialized; /* CUPTI's profiler */

static const char *bind_profiler(void)
{
	static const struct {
		const char *name;
		size_t offset;
	} functions[] = {
#define X(member, function, params, last) \
	{"cupti" #function, offsetof(__typeof__(profiler), member)},
		CUPTI_PROFILER_FUNCTIONS(X)
#undef X
	};

	for (size_t i = 0; i < WS_COUNT(functions); i++) {
		void *function = ws_find_symbol_in(ws_cupti.lib, functions[i].name);

		if (!function)
			return functions[i].name;
		memcpy((char *)&profiler + functions[i].offset, &function, sizeof(function));
	}
	return NULL;
}

/* What the user can do about a refusal. */
static const struct {
	int result;
	const char *what;
} refusals[] = {
	{26, "the GPU's counters are in use by another tool (DCGM, Nsight Compute, another "
	     "recording): stop it, or pause DCGM by 'dcgmi profile --pause'"},
	{33, "a virtual GPU has no counters to give: its host must enable profiling for it"},
	{35, "counters are for administrators only on this machine: run as root, or let the "
	     "administrator load the driver with "
	     "'options nvidia NVreg_RestrictProfilingToAdminUsers=0' in /etc/modprobe.d and "
	     "reboot; in a container give --cap-add=SYS_ADMIN"},
	{40, "this virtual GPU may not be profiled: its host must enable profiling for it"},
	{41, "the GPU is in confidential-computing mode, which has no counters"},
	{42, "this GPU is for mining and has no counters"},
	{43, "counters of an instance of a partitioned GPU (MIG) cannot be measured this way: "
	     "disable MIG"},
	{44, "counters cannot be measured while GPUs are linked by SLI"},
	{45, "counters must be enabled for WSL in the NVIDIA Control Panel of Windows"},
};

const char *ws_kernel_explain(int result)
{
	for (size_t i = 0; i < WS_COUNT(refusals); i++)
		if (refusals[i].result == result)
			return refusals[i].what;
	return ws_cuda_report_error(result);
}

static int fail(struct ws_kernel_counters *counters, const char *what, int result)
{
	snprintf(counters->error, sizeof(counters->error), "%s%s", what, ws_kernel_explain(result));
	counters->result = result;
	return -1;
}

/* ---- which metrics ---- */

static char *read_file(const char *path)
{
	char *text = malloc(LISTS_MOST);
	ssize_t n, have = 0;
	int fd = (int)ws_raw_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0,
				     0);

	while (text && fd >= 0 && have < LISTS_MOST - 1 &&
	       (n = ws_raw_syscall(SYS_read, fd, (long)(text + have), LISTS_MOST - 1 - have, 0, 0,
				   0)) > 0)
		have += n;
	if (fd >= 0)
		ws_raw_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	if (text)
		text[have] = 0;
	return text;
}

/* The line of the file for the chip: the one whose first word is the longest prefix of the chip's
 * name, or *. */
static char *find_list(char *text, const char *chip)
{
	char *best = NULL;
	size_t best_length = 0;

	for (char *line = text, *next; line && *line; line = next) {
		size_t word = strcspn(line, " \n");
		bool any = word == 1 && *line == '*';

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if ((any || !strncasecmp(line, chip, word)) &&
		    (!best || (!any && word > best_length))) {
			best = line + word;
			best_length = any ? 0 : word;
		}
	}
	return best;
}

/* The unit of a metric, as CUPTI gives it for the full name: byte/second becomes byte/s, and any
 * unit's cycle in the denominator cycle. */
static char *make_unit(const char *name, const char *unit)
{
	char text[NAME_ROOM];
	const char *suffix = strchr(name, '.'), *per = strchr(unit, '/');
	int counted = (int)strcspn(unit, "/");

	if (suffix && (strstr(suffix, ".pct") || strstr(suffix, "_pct")))
		snprintf(text, sizeof(text), "%%");
	else if (per && !strcmp(per, "/second"))
		snprintf(text, sizeof(text), "%.*s/s", counted, unit);
	else if (per && strstr(per, "_cycle"))
		snprintf(text, sizeof(text), "%.*s/cycle", counted, unit);
	else
		snprintf(text, sizeof(text), "%s", unit);
	return strdup(text);
}

const char *ws_kernel_read_unit(void *host, const char *metric)
{
	struct cupti_range_properties properties = {
		.size = SIZE_get_properties, .host = host, .metric = metric};

	if (profiler.get_properties(&properties))
		return "";
	return ws_text_or(make_unit(metric, ws_text_or(properties.unit, "")), "");
}

/* Add the metric if the chip has it; returns whether it does. */
static bool add_metric(struct ws_kernel_counters *counters, const char *name)
{
	struct cupti_range_properties properties = {
		.size = SIZE_get_properties, .host = counters->host, .metric = name};

	if (!strncmp(name, WS_KERNEL_SAMPLED, strlen(WS_KERNEL_SAMPLED))) {
		ws_kernel_add_sampled(name + strlen(WS_KERNEL_SAMPLED));
		return true;
	}
	if (profiler.get_properties(&properties))
		return false;
	counters->names[counters->count] = name;
	counters->units[counters->count] = make_unit(name, properties.unit ? properties.unit : "");
	return counters->units[counters->count++] != NULL;
}

static int choose_metrics(struct ws_kernel_counters *counters)
{
	char *file = read_file(ws_kernel_settings.metrics_file), *rest, *name, *list;
	char missing[512] = "";
	size_t most;

	list = file ? find_list(file, counters->chip) : NULL;
	if (!list) {
		free(file);
		snprintf(counters->error, sizeof(counters->error),
			 "no metrics are known for the chip %s: name some by --metrics",
			 counters->chip);
		return -1;
	}
	counters->list = file;
	if (!strncmp(list, " " WS_KERNEL_NO_METRICS, strlen(" " WS_KERNEL_NO_METRICS))) {
		snprintf(counters->error, sizeof(counters->error), "%s",
			 list + strlen(" " WS_KERNEL_NO_METRICS));
		return -1;
	}
	most = strlen(list) / 2 + 1;
	counters->names = calloc(most, sizeof(*counters->names));
	counters->units = calloc(most, sizeof(*counters->units));
	counters->values = calloc(most, sizeof(*counters->values));
	if (!counters->names || !counters->units || !counters->values)
		return fail(counters, "", 2);
	for (rest = list; (name = strsep(&rest, " "));)
		if (*name && !add_metric(counters, name))
			snprintf(missing + strlen(missing), sizeof(missing) - strlen(missing),
				 " %s", name);
	if (*missing)
		ws_kernel_report(WS_WARNING, "The chip %s does not have these metrics:%s.",
				 counters->chip, missing);
	if (counters->count)
		return 0;
	snprintf(counters->error, sizeof(counters->error),
		 "none of the metrics that were asked for exists on the chip %s", counters->chip);
	return -1;
}

/* ---- one context ---- */

static int read_chip(struct ws_kernel_counters *counters, int device)
{
	struct cupti_range_chip chip = {.size = SIZE_get_chip, .device = (size_t)device};
	struct cupti_range_availability availability = {.size = SIZE_get_availability,
							.context = counters->context};
	int rc = profiler.get_chip(&chip);

	if (rc)
		return fail(counters, "the GPU's chip is not known to CUPTI: ", rc);
	snprintf(counters->chip, sizeof(counters->chip), "%s", chip.chip);
	rc = profiler.get_availability(&availability);
	if (rc)
		return fail(counters, "", rc);
	counters->availability = malloc(availability.bytes);
	availability.image = counters->availability;
	if (!availability.image)
		return fail(counters, "", 2);
	rc = profiler.get_availability(&availability);
	return rc ? fail(counters, "", rc) : 0;
}

static int open_host(struct ws_kernel_counters *counters)
{
	struct cupti_range_host host = {.size = SIZE_open_host,
					.profiler = CUPTI_RANGE_PROFILER,
					.chip = counters->chip,
					.availability = counters->availability};
	int rc = profiler.open_host(&host);

	counters->host = host.host;
	return rc ? fail(counters, "CUPTI does not know the chip: ", rc) : 0;
}

static int make_config(struct ws_kernel_counters *counters)
{
	struct cupti_range_metrics metrics = {.size = SIZE_add_metrics,
					      .host = counters->host,
					      .names = counters->names,
					      .count = counters->count};
	struct cupti_range_config_size size = {.size = SIZE_get_config_size,
					       .host = counters->host};
	struct cupti_range_config config = {.size = SIZE_get_config, .host = counters->host};
	struct cupti_range_passes passes = {.size = SIZE_get_passes};
	int rc = profiler.add_metrics(&metrics);

	if (!rc)
		rc = profiler.get_config_size(&size);
	if (rc)
		return fail(counters, "the metrics cannot be measured together: ", rc);
	config.bytes = passes.bytes = counters->config_bytes = size.bytes;
	config.image = passes.image = counters->config = malloc(size.bytes);
	if (!counters->config)
		return fail(counters, "", 2);
	rc = profiler.get_config(&config);
	if (!rc)
		rc = profiler.get_passes(&passes);
	counters->passes = passes.passes;
	return rc ? fail(counters, "the metrics cannot be spread over passes: ", rc) : 0;
}

static int initialize_profiler(void)
{
	struct cupti_range_init initialize = {.size = SIZE_initialize};
	int rc = profiler.initialize(&initialize);

	initialized = !rc;
	return rc;
}

void ws_kernel_forget_profiler(void)
{
	initialized = false;
	for (size_t i = 0; i < context_count; i++)
		contexts[i].profiler = NULL;
}

static int enable_profiler(struct ws_kernel_counters *counters)
{
	struct cupti_range_enable enable = {.size = SIZE_enable, .context = counters->context};
	struct cupti_range_image_size size = {.size = SIZE_get_image_size,
					      .names = counters->names,
					      .count = counters->count,
					      .ranges = 1,
					      .nodes = 1};
	int rc = initialized ? 0 : initialize_profiler();

	if (!rc)
		rc = profiler.enable(&enable);
	if (rc)
		return fail(counters, "", rc);
	counters->profiler = size.profiler = enable.profiler;
	counters->used = counters->unfinished = false;
	rc = profiler.get_image_size(&size);
	if (rc)
		return fail(counters, "", rc);
	counters->image_bytes = size.bytes;
	counters->ranges = 1;
	counters->image = malloc(size.bytes);
	return counters->image ? 0 : fail(counters, "", 2);
}

static int set_up(struct ws_kernel_counters *counters, void *context, int device)
{
	const char *lacking = bind_profiler();
	int rc;

	counters->context = context;
	if (lacking) {
		snprintf(counters->error, sizeof(counters->error),
			 "the CUPTI library %s has no %s: measuring kernels needs CUPTI of CUDA "
			 "12.6 or later",
			 ws_cupti.path, lacking);
		return -1;
	}
	rc = initialize_profiler();
	if (rc)
		return fail(counters, "", rc);
	return read_chip(counters, device) || open_host(counters) || choose_metrics(counters) ||
			       make_config(counters)
		       ? -1
		       : 0;
}

struct ws_kernel_counters *ws_kernel_find_counters(void *context, int device, const char **why)
{
	struct ws_kernel_counters *counters = NULL;

	for (size_t i = 0; i < context_count && !counters; i++)
		if (contexts[i].context == context)
			counters = &contexts[i];
	if (!counters) {
		*why = "the program has too many CUDA contexts";
		if (context_count == CONTEXTS)
			return NULL;
		counters = &contexts[context_count++];
		if (set_up(counters, context, device) && !*counters->error)
			snprintf(counters->error, sizeof(counters->error), "CUPTI failed");
	}
	*why = counters->error;
	return *counters->error ? NULL : counters;
}

bool ws_kernel_lacks_counters(const void *context)
{
	for (size_t i = 0; i < context_count; i++)
		if (contexts[i].context == context)
			return *contexts[i].error != 0;
	return false;
}

struct ws_kernel_counters *ws_kernel_get_counters(void *context, int device, const char **why)
{
	struct ws_kernel_counters *counters = ws_kernel_find_counters(context, device, why);

	if (!counters || !ws_kernel_resume_counters(counters))
		return counters;
	return NULL;
}

const char *ws_kernel_chip(int device)
{
	static char chip[64];
	struct cupti_range_chip params = {.size = SIZE_get_chip, .device = (size_t)device};

	if (profiler.get_chip && !profiler.get_chip(&params) && params.chip)
		snprintf(chip, sizeof(chip), "%s", params.chip);
	return chip;
}

/* ---- passes ---- */

size_t ws_kernel_image_bytes(const struct ws_kernel_counters *counters, size_t ranges)
{
	struct cupti_range_image_size size = {.size = SIZE_get_image_size,
					      .profiler = counters->profiler,
					      .names = (const char **)counters->names,
					      .count = counters->count,
					      .ranges = ranges,
					      .nodes = (uint32_t)ranges};

	return profiler.get_image_size(&size) ? SIZE_MAX : size.bytes;
}

/* CUPTI's object keeps the number of ranges that it was first configured for, and goes on counting
 * passes from one unit to the next, unless the last one has had all its passes: then it has to be a
 * new one. */
static int renew_profiler(struct ws_kernel_counters *counters)
{
	int rc = ws_kernel_pause_counters(counters);

	if (!rc && ws_kernel_resume_counters(counters))
		rc = CUPTI_ERR_OUT_OF_MEMORY;
	return rc;
}

/* Room for so many ranges in a pass. */
static int resize_image(struct ws_kernel_counters *counters, size_t ranges)
{
	size_t bytes;
	uint8_t *image;

	if (ranges == counters->ranges)
		return 0;
	bytes = ws_kernel_image_bytes(counters, ranges);
	image = bytes == SIZE_MAX ? NULL : realloc(counters->image, bytes);
	if (!image)
		return CUPTI_ERR_OUT_OF_MEMORY;
	counters->image = image;
	counters->image_bytes = bytes;
	counters->ranges = ranges;
	return 0;
}

static int configure(struct ws_kernel_counters *counters, const struct ws_kernel_passes *passes,
		     size_t ranges)
{
	int rc = 0;
	struct cupti_range_image image = {.size = SIZE_init_image,
					  .profiler = counters->profiler,
					  .bytes = counters->image_bytes,
					  .image = counters->image};
	struct cupti_range_set_config config = {
		.size = SIZE_set_config,
		.profiler = counters->profiler,
		.config_bytes = counters->config_bytes,
		.config = counters->config,
		.image_bytes = counters->image_bytes,
		.image = counters->image,
		.range = passes->own_range ? CUPTI_USER_RANGE : CUPTI_AUTO_RANGE,
		.replay = passes->other_runs ? CUPTI_APPLICATION_REPLAY : CUPTI_USER_REPLAY,
		.ranges = ranges,
		.levels = 1,
		.first_level = 1,
		.pass = passes->pass,
		.target_level = passes->own_range};

	if (passes->image)
		memcpy(counters->image, passes->image, counters->image_bytes);
	else
		rc = profiler.init_image(&image);
	counters->own_range = passes->own_range;
	counters->used = counters->unfinished = true;
	return rc ? rc : profiler.set_config(&config);
}

int ws_kernel_begin_passes(struct ws_kernel_counters *counters,
			   const struct ws_kernel_passes *passes)
{
	size_t ranges = ws_max(passes->ranges, (size_t)1);
	int rc = 0;

	if (!counters->profiler && ws_kernel_resume_counters(counters))
		return counters->result;
	if (counters->used &&
	    (passes->other_runs || counters->unfinished || ranges != counters->ranges ||
	     passes->own_range != counters->own_range))
		rc = renew_profiler(counters);
	if (!rc)
		rc = resize_image(counters, ranges);
	return rc ? rc : configure(counters, passes, ranges);
}

int ws_kernel_begin_pass(struct ws_kernel_counters *counters)
{
	struct cupti_range_call start = {.size = SIZE_start, .profiler = counters->profiler};
	struct cupti_range_push push = {
		.size = SIZE_push, .profiler = counters->profiler, .name = "range"};
	int rc = profiler.start(&start);

	return rc || !counters->own_range ? rc : profiler.push(&push);
}

int ws_kernel_end_pass(struct ws_kernel_counters *counters, bool *more)
{
	struct cupti_range_stop stop = {.size = SIZE_stop, .profiler = counters->profiler};
	struct cupti_range_call pop = {.size = SIZE_pop, .profiler = counters->profiler};
	int popped = counters->own_range ? profiler.pop(&pop) : 0, rc = profiler.stop(&stop);

	counters->pass = stop.pass;
	*more = !rc && !popped && !stop.all;
	counters->unfinished = !stop.all;
	return ws_or(rc, popped);
}

int ws_kernel_decode(struct ws_kernel_counters *counters)
{
	struct cupti_range_decode decode = {.size = SIZE_decode, .profiler = counters->profiler};

	return profiler.decode(&decode);
}

const uint8_t *ws_kernel_get_image(const struct ws_kernel_counters *counters, size_t *bytes)
{
	*bytes = counters->image_bytes;
	return counters->image;
}

size_t ws_kernel_next_pass(const struct ws_kernel_counters *counters)
{
	return counters->pass;
}

size_t ws_kernel_count_ranges(const struct ws_kernel_counters *counters)
{
	struct cupti_range_image_info info = {.size = SIZE_get_image_info,
					      .image = counters->image,
					      .bytes = counters->image_bytes};

	return profiler.get_image_info(&info) ? 0 : info.ranges;
}

const double *ws_kernel_evaluate(struct ws_kernel_counters *counters, const uint8_t *image,
				 size_t range)
{
	struct cupti_range_image_info info = {
		.size = SIZE_get_image_info, .image = image, .bytes = counters->image_bytes};
	struct cupti_range_values values = {.size = SIZE_evaluate,
					    .host = counters->host,
					    .image = image,
					    .bytes = counters->image_bytes,
					    .range = range,
					    .names = counters->names,
					    .count = counters->count,
					    .values = counters->values};

	if (profiler.get_image_info(&info) || info.ranges <= range || profiler.evaluate(&values))
		return NULL;
	return counters->values;
}

int ws_kernel_pause_counters(struct ws_kernel_counters *counters)
{
	struct cupti_range_call disable = {.size = SIZE_disable, .profiler = counters->profiler};
	int rc = counters->profiler ? profiler.disable(&disable) : 0;

	if (!rc)
		counters->profiler = NULL;
	return rc;
}

/* The new object has to be asked for the size of its images, which it remembers, before it can
 * initialise one. */
int ws_kernel_resume_counters(struct ws_kernel_counters *counters)
{
	if (counters->profiler)
		return 0;
	ws_kernel_ignore_functions();
	free(counters->image);
	counters->image = NULL;
	return enable_profiler(counters);
}

size_t ws_kernel_metric_names(const struct ws_kernel_counters *counters, const char *const **names,
			      const char *const **units)
{
	*names = counters->names;
	*units = counters->units;
	return counters->count;
}

size_t ws_kernel_pass_count(const struct ws_kernel_counters *counters)
{
	return counters->passes;
}

void ws_kernel_release_counters(void)
{
	ws_kernel_ignore_functions();
	for (size_t i = 0; i < context_count; i++) {
		struct cupti_range_call disable = {.size = SIZE_disable,
						   .profiler = contexts[i].profiler};

		if (contexts[i].profiler && !profiler.disable(&disable))
			contexts[i].profiler = NULL;
		if (!contexts[i].profiler)
			snprintf(contexts[i].error, sizeof(contexts[i].error),
				 "measuring has ended");
	}
}
