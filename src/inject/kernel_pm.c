/*
 * kernel_pm.c - CUPTI's PM sampling around one run of a kernel: what the units of the whole GPU do,
 * in intervals of microseconds. The range profiler must be disabled meanwhile. Samples from before
 * and after the kernel are left out: no multiprocessor was active in them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "inject/kernel_source.h"
#include "ring/pm_abi.h"

enum { METRICS_MOST = 64, SAMPLES_WANTED = 200, SAMPLES_MOST = 4096, IMAGE_SAMPLES = 512 };
/* So long at rest, the kernel has ended. */
enum { REST_SAMPLES = 32 };
enum { LEAST_INTERVAL_NS = 1500, BUFFER_BYTES = 64 << 20, ROUNDS_MOST = 64 };
#define MOST_INTERVAL_NS UINT64_C(1000000000)

static struct pm_functions pm;

static struct {
	const char *names[METRICS_MOST], *units[METRICS_MOST];
	size_t count, activity; /* index of the metric that says whether the GPU is busy */
	int device;
	void *host;
	uint8_t *availability, *config;
	size_t config_bytes;
} plan = {.device = -1};

static struct {
	void *object;
	uint8_t *image;
	size_t image_bytes;
	bool overflow, first_passed;
} run;

/* A value for each metric. */
struct sample {
	uint64_t start, end; /* ns of CUPTI's clock */
	double values[METRICS_MOST];
};
static struct sample *samples; /* of the present launch */
static size_t sample_count;
static uint64_t interval_used; /* ns */

struct ws_kernel_moments {
	uint64_t interval; /* ns */
	size_t count;
	struct sample samples[];
};

static const char *bind_sampler(void)
{
	static const struct ws_kernel_binding bindings[] = {
#define PM_FUNCTION(member, name, argument) {name, offsetof(struct pm_functions, member)},
		PM_FUNCTIONS
#undef PM_FUNCTION
	};

	return ws_kernel_bind_functions(&pm, bindings, WS_COUNT(bindings));
}

/* ---- what is sampled ---- */

void ws_kernel_add_sampled(const char *name)
{
	for (size_t i = 0; i < plan.count; i++)
		if (!strcmp(plan.names[i], name))
			return;
	if (plan.count < METRICS_MOST)
		plan.names[plan.count++] = name;
}

static void free_host(void)
{
	struct pm_host_deinitialize end = {.size = PM_SIZE(pm_host_deinitialize, host),
					   .host = plan.host};

	if (plan.host)
		pm.host_deinitialize(&end);
	free(plan.config);
	plan.host = NULL;
	plan.config = NULL;
}

static int open_host(void)
{
	struct pm_host_initialize host = {.size = PM_SIZE(pm_host_initialize, host),
					  .type = PM_TYPE_SAMPLING,
					  .chip = ws_kernel_chip(plan.device),
					  .availability = plan.availability};
	int rc = pm.host_initialize(&host);

	plan.host = host.host;
	return rc;
}

/* How many passes the first `count` metrics take; 0 when CUPTI does not accept them. */
static size_t configure_metrics(size_t count)
{
	struct pm_host_add_metrics add = {
		.size = PM_SIZE(pm_host_add_metrics, count), .names = plan.names, .count = count};
	struct pm_host_config_size size = {.size = PM_SIZE(pm_host_config_size, bytes)};
	struct pm_host_config config = {.size = PM_SIZE(pm_host_config, image)};
	struct pm_host_passes passes = {.size = PM_SIZE(pm_host_passes, passes)};

	free_host();
	if (open_host())
		return 0;
	add.host = size.host = config.host = plan.host;
	if (pm.host_add_metrics(&add) || pm.host_config_size(&size))
		return 0;
	plan.config_bytes = config.bytes = passes.bytes = size.bytes;
	plan.config = config.image = passes.image = malloc(size.bytes);
	if (!plan.config || pm.host_config(&config) || pm.host_passes(&passes))
		return 0;
	return passes.passes;
}

/* Leave out the metrics that the chip does not have and those that need another pass. */
static void choose_metrics(void)
{
	char missing[512] = "";
	size_t given = plan.count, kept = 0;

	for (size_t i = 0; i < given; i++) {
		const char *name = plan.names[i];

		plan.names[kept] = name;
		if (configure_metrics(kept + 1) == 1)
			kept++;
		else if (strncmp(name, "nvl", 3) != 0) /* GPUs without links have none of these */
			snprintf(missing + strlen(missing), sizeof(missing) - strlen(missing),
				 " %s", name);
	}
	plan.count = kept;
	if (*missing)
		ws_kernel_report(WS_WARNING,
				 "These metrics cannot be sampled, or not together with the "
				 "others:%s.",
				 missing);
}

static int read_availability(void)
{
	struct pm_availability availability = {.size = PM_SIZE(pm_availability, image),
					       .device = (size_t)plan.device};
	int rc = pm.get_availability(&availability);

	if (rc)
		return rc;
	free(plan.availability);
	plan.availability = availability.image = calloc(1, availability.bytes + 8);
	return plan.availability ? pm.get_availability(&availability) : CUPTI_ERR_OUT_OF_MEMORY;
}

static void describe_metrics(void)
{
	plan.activity = SIZE_MAX;
	for (size_t i = 0; i < plan.count; i++) {
		plan.units[i] = ws_kernel_read_unit(plan.host, plan.names[i]);
		if (strstr(plan.names[i], "sm__cycles_active") && plan.activity == SIZE_MAX)
			plan.activity = i;
	}
}

/* Once for each device in turn. */
static int make_plan(int device)
{
	int rc;

	if (plan.device == device && plan.host)
		return plan.count ? 0 : CUPTI_ERR_NOT_SUPPORTED;
	plan.device = device;
	rc = read_availability();
	if (rc)
		return rc;
	if (plan.count && configure_metrics(plan.count) != 1) {
		choose_metrics();
		if (plan.count && configure_metrics(plan.count) != 1)
			plan.count = 0;
	}
	describe_metrics();
	return plan.count ? 0 : CUPTI_ERR_NOT_SUPPORTED;
}

/* ---- one run ---- */

/* As asked for, or so that a kernel has some hundreds of samples. */
static uint64_t choose_interval(uint64_t duration)
{
	uint64_t asked = strtoull(ws_kernel_settings.pm_interval, NULL, 10),
		 fitting = ws_max(duration / SAMPLES_WANTED, (uint64_t)LEAST_INTERVAL_NS);

	return asked ? asked : ws_min(fitting, MOST_INTERVAL_NS);
}

/* Chips without a trigger by time (Turing, GA100) count cycles of the system clock, which runs at
 * about 1.4 GHz. */
static int set_interval(uint64_t interval)
{
	struct pm_set_config config = {.size = PM_SIZE(pm_set_config, append),
				       .object = run.object,
				       .config_bytes = plan.config_bytes,
				       .config = plan.config,
				       .buffer_bytes = BUFFER_BYTES,
				       .interval = interval,
				       .trigger = PM_TRIGGER_TIME,
				       .append = PM_KEEP_OLDEST};
	int rc = pm.set_config(&config);

	if (!rc)
		return 0;
	config.trigger = PM_TRIGGER_SYSCLK;
	config.interval = interval * 14 / 10;
	return pm.set_config(&config) ? rc : 0;
}

/* A new object has to be asked for the size of its images before it can clear one. */
static int make_image(void)
{
	struct pm_image_size size = {.size = PM_SIZE(pm_image_size, bytes),
				     .object = run.object,
				     .names = plan.names,
				     .count = plan.count,
				     .samples = IMAGE_SAMPLES};
	int rc = pm.image_size(&size);

	if (rc)
		return rc;
	run.image_bytes = size.bytes;
	run.image = calloc(1, size.bytes);
	return run.image ? 0 : CUPTI_ERR_OUT_OF_MEMORY;
}

static int clear_image(void)
{
	struct pm_image_initialize clear = {.size = PM_SIZE(pm_image_initialize, image),
					    .object = run.object,
					    .bytes = run.image_bytes,
					    .image = run.image};

	return pm.image_initialize(&clear);
}

static int call(int (*function)(struct pm_object *))
{
	struct pm_object object = {.size = PM_SIZE(pm_object, object), .object = run.object};

	return function(&object);
}

static void end_run(void)
{
	if (run.object)
		call(pm.disable);
	free(run.image);
	run.object = NULL;
	run.image = NULL;
}

static int begin_run(uint64_t duration, const char **what)
{
	struct pm_enable enable = {.size = PM_SIZE(pm_enable, object),
				   .device = (size_t)plan.device};
	int rc;

	*what = "CUPTI does not enable it";
	rc = pm.enable(&enable);
	run.object = rc ? NULL : enable.object;
	if (rc)
		return rc;
	*what = "CUPTI does not accept the interval";
	interval_used = choose_interval(duration);
	rc = set_interval(interval_used);
	if (rc)
		return rc;
	*what = "CUPTI has no room for samples";
	rc = make_image();
	if (!rc)
		rc = clear_image();
	if (rc)
		return rc;
	*what = "CUPTI does not start it";
	return call(pm.start);
}

int ws_kernel_begin_pm(const struct ws_kernel_launch *launch, uint64_t duration, const char **what)
{
	int rc;

	sample_count = 0;
	run.overflow = run.first_passed = false;
	*what = bind_sampler();
	if (*what)
		return CUPTI_ERR_NOT_SUPPORTED;
	*what = "none of the metrics can be sampled on this GPU";
	rc = make_plan((int)launch->device);
	if (!rc && !samples && !(samples = malloc(SAMPLES_MOST * sizeof(*samples))))
		rc = CUPTI_ERR_OUT_OF_MEMORY;
	if (!rc)
		rc = begin_run(duration, what);
	if (rc)
		end_run();
	return rc;
}

/* ---- samples ---- */

static int evaluate(size_t index, const char **names, size_t count, double *values)
{
	struct pm_host_evaluate evaluate = {.size = PM_SIZE(pm_host_evaluate, values),
					    .host = plan.host,
					    .image = run.image,
					    .bytes = run.image_bytes,
					    .range = index,
					    .names = names,
					    .count = count,
					    .values = values};

	return pm.host_evaluate(&evaluate);
}

static bool is_active(size_t sample)
{
	return plan.activity != SIZE_MAX && samples[sample].values[plan.activity] > 0;
}

/* How many samples the GPU has been at rest for since it was active; 0 if it has not been. */
static size_t count_rest(void)
{
	size_t end = sample_count;

	while (end && !is_active(end - 1))
		end--;
	return end ? sample_count - end : 0;
}

/* To evaluate all metrics of a sample takes a tenth of a millisecond: not of what comes before the
 * kernel. */
static bool precedes_kernel(size_t index)
{
	double activity = 0;

	return plan.activity != SIZE_MAX && !sample_count &&
	       !evaluate(index, &plan.names[plan.activity], 1, &activity) && !(activity > 0);
}

static int add_sample(size_t index)
{
	struct pm_sample_info info = {.size = PM_SIZE(pm_sample_info, end),
				      .object = run.object,
				      .image = run.image,
				      .bytes = run.image_bytes,
				      .index = index};
	struct sample *sample = &samples[sample_count];
	int rc;

	if (precedes_kernel(index)) {
		run.first_passed = true;
		return 0;
	}
	rc = pm.sample_info(&info);
	if (!rc)
		rc = evaluate(index, plan.names, plan.count, sample->values);
	sample->start = info.start;
	sample->end = info.end;
	/* The first sample of all began long before the run. */
	if (!rc && run.first_passed && info.end > info.start)
		sample_count++;
	run.first_passed = true;
	return rc;
}

/* As far as something of the kernel follows. */
static int add_samples(size_t *added)
{
	struct pm_image_info info = {.size = PM_SIZE(pm_image_info, completed),
				     .image = run.image,
				     .bytes = run.image_bytes};
	int rc = pm.image_info(&info);

	*added = info.completed;
	for (size_t i = 0; i < info.completed && !rc && sample_count < SAMPLES_MOST &&
			   count_rest() < REST_SAMPLES;
	     i++)
		rc = add_sample(i);
	return rc;
}

/*
 * The GPU is sampled until sampling has been stopped, milliseconds after the kernel has ended, and
 * its buffer may be full by then. Then CUPTI says that it is out of memory when it is asked for
 * more. What follows the kernel is left. To clear the image takes tens of milliseconds.
 */
static int read_samples(void)
{
	struct pm_decode decode = {.size = PM_SIZE(pm_decode, overflow),
				   .object = run.object,
				   .image = run.image,
				   .bytes = run.image_bytes};
	int rc = 0;

	for (int i = 0; i < ROUNDS_MOST && !rc && count_rest() < REST_SAMPLES; i++) {
		size_t added = 0;

		rc = i ? clear_image() : 0;
		if (!rc)
			rc = pm.decode(&decode);
		run.overflow |= decode.overflow != 0 || rc == CUPTI_ERR_OUT_OF_MEMORY;
		if (!rc)
			rc = add_samples(&added);
		if (decode.reason != PM_STOP_IMAGE_FULL || !added)
			break;
	}
	return rc == CUPTI_ERR_OUT_OF_MEMORY && run.overflow ? 0 : rc;
}

/* Keep the samples from the first to the last in which the GPU was active. */
static void trim_samples(void)
{
	size_t first = 0, end = sample_count;

	if (plan.activity == SIZE_MAX)
		return;
	while (first < end && !(samples[first].values[plan.activity] > 0))
		first++;
	while (end > first && !(samples[end - 1].values[plan.activity] > 0))
		end--;
	memmove(samples, samples + first, (end - first) * sizeof(*samples));
	sample_count = end - first;
}

static void keep_samples(void)
{
	size_t bytes = sample_count * sizeof(*samples);
	struct ws_kernel_moments *kept = sample_count ? malloc(sizeof(*kept) + bytes) : NULL;

	if (!kept)
		return;
	kept->interval = interval_used;
	kept->count = sample_count;
	memcpy(kept->samples, samples, bytes);
	ws_kernel_keep_moments(kept);
}

int ws_kernel_end_pm(const struct ws_kernel_launch *launch, const char **what)
{
	int rc = call(pm.stop);

	*what = "CUPTI gives no samples";
	if (!rc)
		rc = read_samples();
	end_run();
	if (rc)
		sample_count = 0;
	if (run.overflow && !count_rest())
		ws_kernel_report(WS_WARNING,
				 "%s: the GPU's buffer was full before the kernel had ended: a "
				 "larger --pm-sampling-interval takes fewer samples.",
				 launch->symbol);
	trim_samples();
	keep_samples();
	return rc;
}

/* ---- records ---- */

static uint32_t find_handle(struct ws_thread *thread, const char *text)
{
	return ws_rt_find_string(thread, text, ws_min(strlen(text), (size_t)WS_STRING_MAX - 1));
}

/* One record: values of one metric. */
static void write_moments(struct ws_thread *thread, uint32_t result, size_t metric,
			  const struct ws_kernel_moments *moments, size_t first)
{
	const struct sample *from = moments->samples;
	size_t count = ws_min(moments->count - first, (size_t)WS_KERNEL_MOMENTS);
	size_t bytes =
		sizeof(struct ws_rec_kernel_samples) + count * sizeof(struct ws_kernel_moment);
	uint32_t name = find_handle(thread, plan.names[metric]),
		 unit = find_handle(thread, plan.units[metric]);
	struct ws_rec_kernel_samples *record = ws_rt_reserve(thread, bytes, WS_LOSS_CUDA);

	if (!record)
		return;
	record->rec =
		(struct ws_rec){.kind = WS_REC_KERNEL_SAMPLES, .value = (uint32_t)(bytes / 8)};
	record->result = result;
	record->count = (uint32_t)count;
	record->metric = name;
	record->unit = unit;
	for (size_t i = 0; i < count; i++) {
		const struct sample *sample = &from[first + i];

		record->moments[i] = (struct ws_kernel_moment){.start = sample->start - from->start,
							       .end = sample->end - from->start,
							       .value = sample->values[metric]};
	}
	ws_rt_commit(thread, record, bytes);
}

/* Of a count: of all units or a mean one. */
static bool is_count(const char *name)
{
	const char *form = strrchr(name, '.');

	return form && (!strcmp(form, ".sum") || !strcmp(form, ".avg"));
}

/* The mean over the kernel's time; the sum of what is counted. */
static double summarise(const struct ws_kernel_moments *moments, size_t metric)
{
	bool counts = is_count(plan.names[metric]);
	double sum = 0, time = 0;

	for (size_t i = 0; i < moments->count; i++) {
		const struct sample *sample = &moments->samples[i];
		double value = sample->values[metric],
		       length = (double)(sample->end - sample->start);

		if (isnan(value))
			continue;
		sum += counts ? value : value * length;
		time += length;
	}
	if (counts)
		return sum;
	return time > 0 ? sum / time : NAN;
}

struct value_list {
	struct ws_kernel_value values[METRICS_MOST + 2];
	uint32_t count;
};

static void add_value(struct ws_thread *thread, struct value_list *list, const char *name,
		      const char *unit, double value)
{
	if (!isnan(value))
		list->values[list->count++] = (struct ws_kernel_value){
			find_handle(thread, name), find_handle(thread, unit), value};
}

static void write_summary(struct ws_thread *thread, uint32_t result,
			  const struct ws_kernel_moments *moments)
{
	struct value_list list = {.count = 0};

	add_value(thread, &list, "profiler__pmsampler_interval_time", "ns",
		  (double)moments->interval);
	add_value(thread, &list, "profiler__pmsampler_samples", "", (double)moments->count);
	for (size_t i = 0; i < plan.count; i++) {
		char name[256];

		snprintf(name, sizeof(name), WS_KERNEL_SAMPLED "%s", plan.names[i]);
		add_value(thread, &list, name, plan.units[i], summarise(moments, i));
	}
	ws_kernel_write_values(thread, result, list.values, list.count);
}

void ws_kernel_write_moments(struct ws_thread *thread, uint32_t result,
			     const struct ws_kernel_moments *moments)
{
	write_summary(thread, result, moments);
	for (size_t metric = 0; metric < plan.count; metric++)
		for (size_t i = 0; i < moments->count; i += WS_KERNEL_MOMENTS)
			write_moments(thread, result, metric, moments, i);
}
