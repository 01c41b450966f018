/*
 * pm_sampler.c - see pm_sampler.h.
 *
 * The hardware writes records into a buffer; CUPTI decodes them into an image of counter data, from
 * which it evaluates metrics sample by sample. Measured on an H100: each decoding call costs 0.65
 * ms, mostly in the driver, and 0.1 us for each record of a sample, so some hundreds of samples are
 * decoded at a time. CUPTI drops the samples for which an image has no more room, so it has room
 * for many more. It averages the counters of a sample with those that an image has in its place, so
 * all places that were used are reset before the next samples.
 */
#include "metrics/pm_sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/ticks.h"
#include "metrics/pm_choose.h"

#define SECOND UINT64_C(1000000000)
#define READ_SAMPLES UINT64_C(256) /* decoded at a time, where possible */
#define LEAST_READ_MS 2u
#define MOST_READ_MS 100u
#define IMAGE_NS (SECOND * 2 / 5) /* how late a reading may be */
#define LEAST_IMAGE 256u	  /* samples */
#define MOST_IMAGE 4096u
#define MOST_IMAGE_BYTES ((size_t)128 << 20)
#define HEAD_BYTES 8192u /* most bytes of an image before its samples... */
#define TAIL_BYTES 64u	 /* ...and most bytes per sample behind all of them */
#define TRIED_RESETS 4u
#define LEAST_BUFFER ((size_t)16 << 20)
#define MOST_BUFFER ((size_t)256 << 20)
#define USUAL_PERIOD (SECOND / 10000) /* most machines keep up with this, unless disturbed */
#define MOST_RESTARTS 12u

struct ws_pm_sampler {
	const struct pm_functions *cupti;
	unsigned device;
	uint64_t period; /* ns */
	char *chip;
	uint8_t *availability;
	struct ws_pm_fit fit;
	struct ws_pm_plan *plan;
	void *host;
	/* While sampling: */
	void *object; /* CUPTI's object; NULL: the counters are not reserved */
	bool running;
	uint8_t *image, *clean; /* clean: its initial contents */
	size_t record_bytes;	/* of a sample in the hardware's buffer, about */
	size_t image_bytes, sample_bytes, capacity;
	unsigned resets; /* how often resetting only parts of it has been found to be enough */
	bool resets_whole;
	double *values;
	float *rounded;
	bool first_passed;	       /* the first sample has been skipped: it began long before */
	uint64_t last_cupti, last_raw; /* end of the last sample; 0: there is none */
	unsigned restarts;
	size_t sms, warps, no_warps; /* indices of metrics, by row; SIZE_MAX: not sampled */
	bool warps_broken;
};

/* ---- what can be sampled ---- */

static int read_chip(struct ws_pm_sampler *sampler, struct ws_err *err)
{
	struct pm_chip_name chip = {.size = PM_SIZE(pm_chip_name, name), .device = sampler->device};
	int error = sampler->cupti->get_chip_name(&chip);

	if (error || !chip.name)
		return ws_fail(err, "CUPTI does not know the chip (error %d)", error);
	sampler->chip = ws_strdup(chip.name);
	return 0;
}

static int read_availability(struct ws_pm_sampler *sampler, struct ws_err *err)
{
	struct pm_availability availability = {.size = PM_SIZE(pm_availability, image),
					       .device = sampler->device};
	int error = sampler->cupti->get_availability(&availability);

	if (!error) {
		sampler->availability = ws_calloc(1, availability.bytes + 8);
		availability.image = sampler->availability;
		error = sampler->cupti->get_availability(&availability);
	}
	return error ? ws_fail(err, "%s (CUPTI error %d)", ws_pm_explain(error), error) : 0;
}

static size_t find_row(const struct ws_pm_fit *fit, const char *row)
{
	for (size_t i = 0; i < fit->count; i++)
		if (!strcmp(fit->metrics[i].row, row))
			return i;
	return SIZE_MAX;
}

struct ws_pm_sampler *ws_pm_sampler_open(const struct pm_library *library, unsigned device,
					 const struct ws_pm_wanted *wanted, uint32_t hz,
					 struct ws_err *err)
{
	struct ws_pm_sampler *sampler = ws_calloc(1, sizeof(*sampler));

	sampler->cupti = &library->cupti;
	sampler->device = device;
	sampler->period = SECOND / hz;
	if (read_chip(sampler, err) || read_availability(sampler, err) ||
	    ws_pm_fit(sampler->cupti, sampler->chip, sampler->availability, wanted, &sampler->fit,
		      err)) {
		ws_pm_sampler_free(sampler);
		return NULL;
	}
	sampler->plan = ws_pm_choose(library, sampler->chip, sampler->availability, sampler->period,
				     &sampler->fit);
	sampler->record_bytes = ws_pm_estimate_record(library, &sampler->fit);
	sampler->values = ws_calloc(sampler->fit.count, sizeof(*sampler->values));
	sampler->rounded = ws_calloc(sampler->fit.count, sizeof(*sampler->rounded));
	sampler->sms = find_row(&sampler->fit, "SM Active");
	sampler->warps = find_row(&sampler->fit, "Compute Warps in Flight");
	sampler->no_warps = find_row(&sampler->fit, "Unallocated Warps in Active SMs");
	return sampler;
}

const struct ws_pm_fit *ws_pm_sampler_fit(const struct ws_pm_sampler *sampler)
{
	return &sampler->fit;
}

unsigned ws_pm_choose_interval(uint32_t hz)
{
	uint64_t ms = READ_SAMPLES * 1000 / hz;

	return (unsigned)ws_min(ws_max(ms, (uint64_t)LEAST_READ_MS), (uint64_t)MOST_READ_MS);
}

const char *ws_pm_sampler_chip(const struct ws_pm_sampler *sampler)
{
	return sampler->chip;
}

/* ---- beginning and ending ---- */

static int call_with_object(int (*call)(struct pm_object *), void *object)
{
	struct pm_object params = {.size = PM_SIZE(pm_object, object), .object = object};

	return call(&params);
}

static void release(struct ws_pm_sampler *sampler)
{
	if (sampler->object)
		call_with_object(sampler->cupti->disable, sampler->object);
	ws_pm_free_host(sampler->cupti, sampler->host);
	free(sampler->image);
	free(sampler->clean);
	sampler->object = sampler->host = NULL;
	sampler->image = sampler->clean = NULL;
	sampler->running = false;
}

void ws_pm_sampler_free(struct ws_pm_sampler *sampler)
{
	if (!sampler)
		return;
	release(sampler);
	ws_pm_plan_free(sampler->plan);
	ws_pm_fit_free(&sampler->fit);
	free(sampler->chip);
	free(sampler->availability);
	free(sampler->values);
	free(sampler->rounded);
	free(sampler);
}

static int take_counters(struct ws_pm_sampler *sampler)
{
	struct pm_enable enable = {.size = PM_SIZE(pm_enable, object), .device = sampler->device};
	int error = sampler->cupti->enable(&enable);

	if (!error)
		sampler->object = enable.object;
	return error;
}

/* The hardware's buffer holds a second, but not many more samples than an image, so that the
 * last reading does not take long. */
static size_t choose_buffer(const struct ws_pm_sampler *sampler)
{
	size_t samples = ws_min((size_t)(SECOND / sampler->period), (size_t)4 * MOST_IMAGE),
	       bytes = samples * sampler->record_bytes;

	return ws_min(ws_max(bytes, LEAST_BUFFER), MOST_BUFFER);
}

/* On chips without a time trigger (Turing, GA100), the interval is counted in cycles of the system
 * clock, which is not constant and runs at about 1.4 GHz at most. */
static int configure(struct ws_pm_sampler *sampler)
{
	struct pm_set_config config = {.size = PM_SIZE(pm_set_config, append),
				       .object = sampler->object,
				       .config_bytes = sampler->fit.config_bytes,
				       .config = sampler->fit.config,
				       .buffer_bytes = choose_buffer(sampler),
				       .interval = sampler->period,
				       .trigger = PM_TRIGGER_TIME,
				       .append = PM_KEEP_OLDEST};
	int error = sampler->cupti->set_config(&config);

	if (!error)
		return 0;
	config.trigger = PM_TRIGGER_SYSCLK;
	config.interval = sampler->period * 14 / 10;
	return sampler->cupti->set_config(&config) ? error : 0;
}

static int measure_image(const struct ws_pm_sampler *sampler, size_t samples, size_t *bytes)
{
	struct pm_image_size size = {.size = PM_SIZE(pm_image_size, bytes),
				     .object = sampler->object,
				     .samples = (uint32_t)samples};
	int error;

	size.names = ws_pm_plan_counters(sampler->plan, &size.count);
	error = sampler->cupti->image_size(&size);
	*bytes = size.bytes;
	return error;
}

static int choose_capacity(struct ws_pm_sampler *sampler)
{
	size_t one, two, most;
	int error = measure_image(sampler, LEAST_IMAGE, &one);

	if (!error)
		error = measure_image(sampler, (size_t)2 * LEAST_IMAGE, &two);
	if (error)
		return error;
	sampler->sample_bytes = ws_max(two - ws_min(one, two), (size_t)LEAST_IMAGE) / LEAST_IMAGE;
	most = ws_max(MOST_IMAGE_BYTES / sampler->sample_bytes, (size_t)LEAST_IMAGE);
	sampler->capacity = ws_max((size_t)(IMAGE_NS / sampler->period), (size_t)LEAST_IMAGE);
	sampler->capacity = ws_min(sampler->capacity, ws_min(most, (size_t)MOST_IMAGE));
	return measure_image(sampler, sampler->capacity, &sampler->image_bytes);
}

static int initialize_image(const struct ws_pm_sampler *sampler)
{
	struct pm_image_initialize init = {.size = PM_SIZE(pm_image_initialize, image),
					   .object = sampler->object,
					   .bytes = sampler->image_bytes,
					   .image = sampler->image};

	return sampler->cupti->image_initialize(&init);
}

static int make_image(struct ws_pm_sampler *sampler)
{
	int error = choose_capacity(sampler);

	if (error)
		return error;
	sampler->image = ws_calloc(1, sampler->image_bytes);
	sampler->clean = ws_malloc(sampler->image_bytes);
	sampler->resets = 0;
	sampler->resets_whole = false;
	error = initialize_image(sampler);
	memcpy(sampler->clean, sampler->image, sampler->image_bytes);
	return error;
}

int ws_pm_sampler_begin(struct ws_pm_sampler *sampler, struct ws_err *err)
{
	int error;

	sampler->host = ws_pm_make_host(sampler->cupti, sampler->chip, sampler->availability);
	error = sampler->host ? take_counters(sampler) : PM_ERROR_NOT_SUPPORTED;
	if (!error)
		error = configure(sampler);
	if (!error)
		error = make_image(sampler);
	if (!error)
		error = call_with_object(sampler->cupti->start, sampler->object);
	sampler->running = !error;
	sampler->first_passed = false;
	sampler->last_cupti = sampler->last_raw = 0;
	sampler->restarts = 0;
	if (!error)
		return 0;
	release(sampler);
	return ws_fail(err, "%s (CUPTI error %d)", ws_pm_explain(error), error);
}

/* ---- samples ---- */

static uint64_t read_realtime_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

/* The offset from CUPTI's times, which are of CLOCK_REALTIME, to raw ns. */
static uint64_t find_clock_offset(void)
{
	uint64_t best = UINT64_MAX, offset = 0;

	for (int i = 0; i < 3; i++) {
		uint64_t before = ws_read_raw_ns(), realtime = read_realtime_ns(),
			 after = ws_read_raw_ns();

		if (after - before < best) {
			best = after - before;
			offset = before + (after - before) / 2 - realtime;
		}
	}
	return offset;
}

/* Round shares to 1/128 %, which is little compared with their noise, and other values to 11 binary
 * digits. */
static float round_value(double value, bool is_share)
{
	int exponent;

	if (!isfinite(value))
		return NAN;
	if (is_share)
		return (float)(rint(value * 128) / 128);
	frexp(value, &exponent);
	return (float)ldexp(rint(ldexp(value, 11 - exponent)), exponent - 11);
}

/* On H100s, when sampled with some other counters, the counter of warps in flight stays 0 while SMs
 * are busy, which is impossible. Values about warps are then unknown. Otherwise unallocated warps
 * are computed as active SMs minus warps in flight. */
static void check_warps(struct ws_pm_sampler *sampler)
{
	const double busy = 5, *values = sampler->values;
	bool known = sampler->sms != SIZE_MAX && sampler->warps != SIZE_MAX;

	if (known)
		sampler->warps_broken |= values[sampler->sms] > busy && values[sampler->warps] == 0;
	known &= !sampler->warps_broken;
	if (sampler->warps_broken)
		sampler->rounded[sampler->warps] = NAN;
	if (sampler->no_warps == SIZE_MAX)
		return;
	sampler->rounded[sampler->no_warps] = NAN;
	if (known)
		sampler->rounded[sampler->no_warps] = round_value(
			ws_max(values[sampler->sms] - values[sampler->warps], 0.0), true);
}

static int read_info(const struct ws_pm_sampler *sampler, size_t index, struct pm_sample_info *info)
{
	*info = (struct pm_sample_info){.size = PM_SIZE(pm_sample_info, end),
					.object = sampler->object,
					.image = sampler->image,
					.bytes = sampler->image_bytes,
					.index = index};
	return sampler->cupti->sample_info(info);
}

/* Check the last sample of an image, unless that is the first one of all, whose counters began long
 * before. */
static int check_image(struct ws_pm_sampler *sampler, size_t samples)
{
	struct ws_pm_place place = {.host = sampler->host,
				    .image = sampler->image,
				    .bytes = sampler->image_bytes,
				    .index = samples - 1};
	struct pm_sample_info info;
	int error = read_info(sampler, place.index, &info);

	if (error || info.end <= info.start || (samples == 1 && !sampler->first_passed))
		return error;
	place.interval = info.end - info.start;
	return ws_pm_plan_check(sampler->plan, &place);
}

/* Evaluate a sample of this length. */
static int evaluate(struct ws_pm_sampler *sampler, size_t index, uint64_t interval)
{
	const struct ws_pm_place place = {sampler->host, sampler->image, sampler->image_bytes,
					  index, interval};
	int error = ws_pm_plan_evaluate(sampler->plan, &place, sampler->values);

	for (size_t i = 0; i < sampler->fit.count && !error; i++)
		sampler->rounded[i] =
			round_value(sampler->values[i], sampler->fit.metrics[i].unit[0] == '%');
	check_warps(sampler);
	return error;
}

/* Samples are contiguous: one ends where the next begins, on both clocks. */
static void place_sample(struct ws_pm_sampler *sampler, const struct pm_sample_info *info,
			 uint64_t offset, const struct ws_pm_sink *sink, uint64_t *start)
{
	*start = info->start + offset;
	if (!sampler->last_cupti)
		return;
	if (info->start <= sampler->last_cupti + sampler->period / 2 &&
	    info->start + sampler->period / 2 >= sampler->last_cupti) {
		*start = sampler->last_raw;
		return;
	}
	*start = ws_max(*start, sampler->last_raw);
	if (*start > sampler->last_raw)
		sink->gap(sink->ctx, sampler->last_raw, *start);
}

static int hand_on_sample(struct ws_pm_sampler *sampler, size_t index, uint64_t offset,
			  const struct ws_pm_sink *sink)
{
	struct pm_sample_info info;
	uint64_t start, end;
	int error = read_info(sampler, index, &info);

	if (error || !sampler->first_passed) {
		sampler->first_passed = true;
		return error;
	}
	error = evaluate(sampler, index, info.end - info.start);
	if (error)
		return error;
	place_sample(sampler, &info, offset, sink, &start);
	end = info.end + offset;
	if (end > start)
		sink->put(sink->ctx, start, end, sampler->rounded);
	sampler->last_cupti = info.end;
	sampler->last_raw = ws_max(end, start);
	return 0;
}

/* Reset the image for the next samples after `samples` have been decoded into it. The first few
 * times, check whether only the parts that are copied have changed. */
static int reset_image(struct ws_pm_sampler *sampler, size_t samples)
{
	size_t head = HEAD_BYTES + samples * sampler->sample_bytes,
	       tail = TAIL_BYTES * sampler->capacity, end = sampler->image_bytes - tail;

	if (sampler->resets_whole || sampler->image_bytes < head + tail)
		return initialize_image(sampler);
	memcpy(sampler->image, sampler->clean, head);
	memcpy(sampler->image + end, sampler->clean + end, tail);
	if (sampler->resets == TRIED_RESETS)
		return 0;
	sampler->resets++;
	sampler->resets_whole = memcmp(sampler->image, sampler->clean, sampler->image_bytes) != 0;
	return sampler->resets_whole ? initialize_image(sampler) : 0;
}

/* Hand on the samples of an image and empty it. */
static int hand_on_image(struct ws_pm_sampler *sampler, const struct ws_pm_sink *sink)
{
	struct pm_image_info info = {.size = PM_SIZE(pm_image_info, completed),
				     .image = sampler->image,
				     .bytes = sampler->image_bytes};
	int error = sampler->cupti->image_info(&info);
	uint64_t offset = find_clock_offset();

	if (info.completed && !error)
		error = check_image(sampler, info.completed);
	for (size_t i = 0; i < info.completed && !error; i++)
		error = hand_on_sample(sampler, i, offset, sink);
	if (info.populated && !error)
		error = reset_image(sampler, info.populated);
	return error;
}

/* Decode the available samples. *lost: samples were lost, because the hardware's buffer was full
 * or, at more than the usual rate, the image. */
static int decode_all(struct ws_pm_sampler *sampler, const struct ws_pm_sink *sink, bool *lost)
{
	struct pm_decode decode = {.size = PM_SIZE(pm_decode, overflow),
				   .object = sampler->object,
				   .image = sampler->image,
				   .bytes = sampler->image_bytes,
				   .reason = PM_STOP_IMAGE_FULL};
	int error = 0;

	while (decode.reason == PM_STOP_IMAGE_FULL && !error && !*lost) {
		decode.reason = PM_STOP_OTHER;
		decode.overflow = 0;
		error = sampler->cupti->decode(&decode);
		*lost = decode.overflow || error == PM_ERROR_OUT_OF_MEMORY ||
			(decode.reason == PM_STOP_IMAGE_FULL && sampler->period < USUAL_PERIOD);
		if (!error)
			error = hand_on_image(sampler, sink);
	}
	return *lost ? 0 : error;
}

/* After an overflow nothing more is decoded until sampling has restarted. A machine that cannot
 * keep up halves its sampling rate; at the usual rate, only from the second loss on. */
static int restart(struct ws_pm_sampler *sampler, struct ws_err *err)
{
	uint64_t last_cupti = sampler->last_cupti, last_raw = sampler->last_raw;
	unsigned restarts = sampler->restarts + 1;

	if (restarts > MOST_RESTARTS)
		return ws_fail(err,
			       "samples came faster than they could be read %u times: choose a "
			       "lower --gpu-metrics-frequency",
			       restarts);
	if (restarts > 1 || sampler->period < USUAL_PERIOD)
		sampler->period *= 2;
	call_with_object(sampler->cupti->stop, sampler->object);
	release(sampler);
	if (ws_pm_sampler_begin(sampler, err))
		return -1;
	sampler->restarts = restarts;
	sampler->last_cupti = last_cupti;
	sampler->last_raw = last_raw;
	return 0;
}

bool ws_pm_sampler_lacks_warps(const struct ws_pm_sampler *sampler)
{
	return sampler->warps_broken;
}

uint64_t ws_pm_sampler_period(const struct ws_pm_sampler *sampler)
{
	return sampler->period;
}

int ws_pm_sampler_read(struct ws_pm_sampler *sampler, const struct ws_pm_sink *sink,
		       struct ws_err *err)
{
	bool lost = false;
	int error;

	if (!sampler->running)
		return 0;
	error = decode_all(sampler, sink, &lost);
	if (error)
		return ws_fail(err, "samples cannot be decoded: %s (CUPTI error %d)",
			       ws_pm_explain(error), error);
	return lost ? restart(sampler, err) : 0;
}

void ws_pm_sampler_end(struct ws_pm_sampler *sampler, const struct ws_pm_sink *sink)
{
	bool lost = false;

	if (sampler->running && !call_with_object(sampler->cupti->stop, sampler->object))
		decode_all(sampler, sink, &lost);
	if (lost)
		sink->gap(sink->ctx, sampler->last_raw,
			  ws_max(sampler->last_raw, ws_read_raw_ns()));
	release(sampler);
}
