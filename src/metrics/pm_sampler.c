/*
 * pm_sampler.c - see pm_sampler.h.
 *
 * The hardware writes records into a buffer; CUPTI decodes them into an image of counter data, from
 * which it evaluates metrics sample by sample. Measured on an H100: each decoding call costs 0.65
 * ms, mostly in the driver, and its first samples are decoded slowly, so two thousand samples are
 * decoded at a time. CUPTI drops the samples for which an image has no more room, so it has room
 * for many more. Nearly all readings use an image of sums. Now and then, a short reading follows
 * that uses CUPTI's own image, with which computed values are compared.
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
#include "metrics/pm_evaluator.h"
#include "metrics/pm_image.h"

#define SECOND UINT64_C(1000000000)
#define READ_SAMPLES UINT64_C(256) /* decoded at a time into CUPTI's own image */
#define LEAST_READ_MS 2u
#define MOST_READ_MS 100u
#define SUMMED_SAMPLES UINT64_C(2048) /* decoded at a time into an image of sums */
#define MOST_SUMMED_MS 200u
#define COMPARED_MS 5u		  /* between two readings the second of which is compared */
#define COMPARED_NS (SECOND / 25) /* a later reading is not compared: there may be no room */
#define MOST_DELAYS 3u
#define FEW_SAMPLES UINT64_C(4)
#define MOST_BUFFERED ((size_t)32768) /* samples */
#define BUFFERED_SECONDS 2u
#define MOST_MISUNDERSTOOD 4u
#define COMPARED_READINGS 16u /* one of these many is compared */
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
	struct ws_pm_sums *sums; /* NULL: cannot be made */
	struct ws_pm_evaluator *evaluator;
	void *host;
	/* While sampling: */
	void *object; /* CUPTI's object; NULL: the counters are not reserved */
	bool running;
	size_t record_bytes; /* of a sample in the hardware's buffer, about */
	struct ws_pm_image own, summed;
	struct ws_pm_image *image;	  /* the one in use */
	unsigned readings, misunderstood; /* misunderstood: images of sums */
	unsigned next_comparison;	  /* number of the reading */
	unsigned until_forced;		  /* readings between two that metrics have asked for */
	unsigned delays;		  /* of the next comparison */
	uint64_t last_read;		  /* raw ns */
	double *values;
	double *scales; /* what each value is multiplied by */
	float *rounded;
	unsigned links, counted_links; /* counted_links: 0, or fewer than the active ones */
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
	sampler->sums = ws_pm_sums_new(library, sampler->chip, device, sampler->fit.config,
				       sampler->fit.config_bytes);
	sampler->evaluator = ws_pm_evaluator_new(library, sampler->chip);
	ws_pm_plan_set_evaluator(sampler->plan, sampler->evaluator);
	sampler->record_bytes = ws_pm_estimate_record(library, &sampler->fit);
	sampler->values = ws_calloc(sampler->fit.count, sizeof(*sampler->values));
	sampler->rounded = ws_calloc(sampler->fit.count, sizeof(*sampler->rounded));
	sampler->scales = ws_calloc(sampler->fit.count, sizeof(*sampler->scales));
	for (size_t i = 0; i < sampler->fit.count; i++)
		sampler->scales[i] = 1;
	sampler->sms = find_row(&sampler->fit, "SM Active");
	sampler->warps = find_row(&sampler->fit, "Compute Warps in Flight");
	sampler->no_warps = find_row(&sampler->fit, "Unallocated Warps in Active SMs");
	return sampler;
}

const struct ws_pm_fit *ws_pm_sampler_fit(const struct ws_pm_sampler *sampler)
{
	return &sampler->fit;
}

static unsigned choose_interval(uint64_t samples, uint64_t period, unsigned most)
{
	uint64_t ms = samples * period / 1000000;

	return (unsigned)ws_min(ws_max(ms, (uint64_t)LEAST_READ_MS), (uint64_t)most);
}

static bool is_summed(const struct ws_pm_sampler *sampler)
{
	return sampler->summed.bytes && ws_pm_plan_uses_sums(sampler->plan);
}

unsigned ws_pm_sampler_choose_interval(const struct ws_pm_sampler *sampler)
{
	if (!is_summed(sampler))
		return choose_interval(READ_SAMPLES, sampler->period, MOST_READ_MS);
	if (sampler->readings + 1 == sampler->next_comparison)
		return ws_max(choose_interval(2, sampler->period, MOST_SUMMED_MS), COMPARED_MS);
	return choose_interval(SUMMED_SAMPLES, sampler->period, MOST_SUMMED_MS);
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
	ws_pm_image_free(&sampler->own);
	ws_pm_image_free(&sampler->summed);
	sampler->object = sampler->host = NULL;
	sampler->running = false;
}

void ws_pm_sampler_free(struct ws_pm_sampler *sampler)
{
	if (!sampler)
		return;
	release(sampler);
	ws_pm_sums_free(sampler->sums);
	ws_pm_plan_free(sampler->plan);
	ws_pm_evaluator_free(sampler->evaluator);
	ws_pm_fit_free(&sampler->fit);
	free(sampler->chip);
	free(sampler->availability);
	free(sampler->values);
	free(sampler->scales);
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

/* How many samples come in some seconds, but not too many, so that the last reading does not take
 * long. */
static size_t count_samples(const struct ws_pm_sampler *sampler, unsigned seconds)
{
	return ws_min((size_t)(seconds * SECOND / sampler->period), MOST_BUFFERED);
}

/* The hardware's buffer must outlast whatever keeps the sampler from reading: virtual machines stop
 * for more than a second at times. */
static size_t choose_buffer(const struct ws_pm_sampler *sampler)
{
	size_t bytes = count_samples(sampler, BUFFERED_SECONDS) * sampler->record_bytes;

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

static int make_images(struct ws_pm_sampler *sampler)
{
	int error = ws_pm_image_make(&sampler->own, sampler->cupti, sampler->object, sampler->plan,
				     sampler->period);

	sampler->image = &sampler->own;
	sampler->readings = sampler->misunderstood = 0;
	sampler->next_comparison = COMPARED_READINGS;
	sampler->until_forced = 1;
	if (!error && sampler->sums)
		ws_pm_image_make_sums(&sampler->summed, sampler->sums,
				      ws_max(sampler->own.capacity, count_samples(sampler, 1)));
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
		error = make_images(sampler);
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
					.image = sampler->image->bytes,
					.bytes = sampler->image->size,
					.index = index};
	return sampler->cupti->sample_info(info);
}

static struct ws_pm_place get_place(const struct ws_pm_sampler *sampler, size_t index,
				    uint64_t interval)
{
	return (struct ws_pm_place){.host = sampler->host,
				    .image = sampler->image->bytes,
				    .bytes = sampler->image->size,
				    .index = index,
				    .interval = interval,
				    .sums = sampler->image->sums};
}

/* Extrapolate the rates of this kind of counter, if not all active links have it. */
static void scale_links(struct ws_pm_sampler *sampler, const char *kind)
{
	unsigned counted = ws_pm_plan_count_units(sampler->plan, kind);
	size_t length = strlen(kind);

	if (!counted || counted >= sampler->links)
		return;
	for (size_t i = 0; i < sampler->fit.count; i++) {
		const char *name = sampler->fit.names[i];

		if (strncmp(name, kind, length) || !strstr(name, ".sum.per_second"))
			continue;
		sampler->scales[i] = (double)sampler->links / counted;
		sampler->counted_links = counted;
	}
}

void ws_pm_sampler_set_links(struct ws_pm_sampler *sampler, unsigned active)
{
	sampler->links = active;
}

unsigned ws_pm_sampler_count_links(const struct ws_pm_sampler *sampler)
{
	return sampler->counted_links;
}

/* Check the last sample of an image, unless that is the first one of all, whose counters began long
 * before. *usable: the samples of the image can be evaluated. */
static int check_image(struct ws_pm_sampler *sampler, size_t samples, bool *usable)
{
	struct ws_pm_place place;
	struct pm_sample_info info;
	int error = read_info(sampler, samples - 1, &info);

	*usable = !sampler->image->sums;
	if (error || info.end <= info.start || (samples == 1 && !sampler->first_passed))
		return error;
	place = get_place(sampler, samples - 1, info.end - info.start);
	if (place.sums)
		*usable = ws_pm_plan_learn_sums(sampler->plan, &place);
	if (*usable)
		error = ws_pm_plan_check(sampler->plan, &place);
	else if (++sampler->misunderstood == MOST_MISUNDERSTOOD)
		ws_pm_image_free(&sampler->summed);
	if (place.sums || error)
		return error;
	ws_pm_plan_prepare_sums(sampler->plan, &place);
	scale_links(sampler, "nvlrx");
	scale_links(sampler, "nvltx");
	return 0;
}

/* Evaluate a sample of this length. */
static int evaluate(struct ws_pm_sampler *sampler, size_t index, uint64_t interval)
{
	const struct ws_pm_place place = get_place(sampler, index, interval);
	int error = ws_pm_plan_evaluate(sampler->plan, &place, sampler->values);

	for (size_t i = 0; i < sampler->fit.count && !error; i++)
		sampler->rounded[i] = round_value(sampler->values[i] * sampler->scales[i],
						  sampler->fit.metrics[i].unit[0] == '%');
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

/* Hand on the samples of an image and empty it. */
static int hand_on_image(struct ws_pm_sampler *sampler, const struct ws_pm_sink *sink)
{
	struct ws_pm_image *image = sampler->image;
	struct pm_image_info info = {.size = PM_SIZE(pm_image_info, completed),
				     .image = image->bytes,
				     .bytes = image->size};
	int error = sampler->cupti->image_info(&info);
	uint64_t offset = find_clock_offset();
	bool usable = true;

	if (info.completed && !error)
		error = check_image(sampler, info.completed, &usable);
	for (size_t i = 0; i < info.completed && usable && !error; i++)
		error = hand_on_sample(sampler, i, offset, sink);
	if (info.populated && image->bytes && !error)
		ws_pm_image_reset(image, info.populated);
	return error;
}

/* Metrics that were not 0 for the first time ask for a comparison. If they are 0 again by then,
 * they are compared less and less often. */
static void plan_comparison(struct ws_pm_sampler *sampler)
{
	if (sampler->readings >= sampler->next_comparison)
		sampler->next_comparison = sampler->readings + COMPARED_READINGS;
	if (!ws_pm_plan_needs_comparison(sampler->plan))
		return;
	sampler->next_comparison =
		ws_min(sampler->next_comparison, sampler->readings + sampler->until_forced);
	sampler->until_forced = ws_min(2 * sampler->until_forced, COMPARED_READINGS);
}

static bool is_comparison_late(const struct ws_pm_sampler *sampler, uint64_t now)
{
	uint64_t room = sampler->own.capacity / 2 * sampler->period,
		 usual = ws_max(COMPARED_NS, FEW_SAMPLES * sampler->period);

	return now - sampler->last_read > ws_min(room, usual);
}

/* Choose CUPTI's own image for comparisons, and for all samples if there are no sums. A comparison
 * for which too many samples are waiting is delayed: these are read first. */
static void choose_image(struct ws_pm_sampler *sampler)
{
	uint64_t now = ws_read_raw_ns();

	sampler->readings++;
	sampler->image = &sampler->own;
	if (is_summed(sampler) && sampler->readings == sampler->next_comparison &&
	    is_comparison_late(sampler, now)) {
		sampler->next_comparison++;
		if (++sampler->delays % MOST_DELAYS == 0)
			sampler->next_comparison += COMPARED_READINGS;
	}
	if (is_summed(sampler) && sampler->readings != sampler->next_comparison)
		sampler->image = &sampler->summed;
	sampler->last_read = now;
}

/* Decode the available samples. *lost: samples were lost, because the hardware's buffer was full
 * or, at more than the usual rate, the image. */
static int decode_all(struct ws_pm_sampler *sampler, const struct ws_pm_sink *sink, bool *lost)
{
	struct pm_decode decode = {.size = PM_SIZE(pm_decode, overflow),
				   .object = sampler->object,
				   .reason = PM_STOP_IMAGE_FULL};
	int error = 0;

	while (decode.reason == PM_STOP_IMAGE_FULL && !error && !*lost) {
		choose_image(sampler);
		decode.image = sampler->image->bytes;
		decode.bytes = sampler->image->size;
		decode.reason = PM_STOP_OTHER;
		decode.overflow = 0;
		error = sampler->cupti->decode(&decode);
		*lost = decode.overflow || error == PM_ERROR_OUT_OF_MEMORY ||
			(decode.reason == PM_STOP_IMAGE_FULL && sampler->period < USUAL_PERIOD);
		if (!error)
			error = hand_on_image(sampler, sink);
		plan_comparison(sampler);
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
