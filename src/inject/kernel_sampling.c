/*
 * kernel_sampling.c - CUPTI's PC sampling around one run of a kernel: every few cycles each
 * scheduler notes the next instruction of one of its warps, and what that warp waits for.
 *
 * CUPTI attributes samples to a function if it knows where its code is: it looks at what is loaded
 * when sampling is first enabled in a context, unless its profiler was used there before, and from
 * then on at what is launched while sampling is enabled. It never learns of a function whose first
 * launch is counted by the range profiler or patched for SASS metrics. So sampling is enabled
 * before anything else, and whenever the program goes on; only while something is counted it is
 * not.
 */
#include <stdio.h>
#include <stdlib.h>

#include "inject/kernel_source.h"

enum { PCS = 4096, REASONS_MOST = 64, ROUNDS_MOST = 4096 };
enum { PERIOD_LEAST = 9, PERIOD_MOST = 31, SAMPLES_WANTED = 40000, CYCLES_A_NS = 2 };
enum { PERIODS_APART = 3 };
enum { ATTRIBUTE_SMS = 16 }; /* CUdevice_attribute */
enum { DROPPED_SHARE = 20 }; /* a smaller part is not worth a warning */
enum { SCRATCH_BYTES = 16 << 20, BUFFER_BYTES = 64 << 20 };

static struct {
#define X(member, function, params, last) int (*member)(struct params *);
	CUPTI_SAMPLING_FUNCTIONS(X)
#undef X
} sampling;
enum {
#define X(member, function, params, last) SIZE_##member = CUPTI_SIZE(params, last),
	CUPTI_SAMPLING_FUNCTIONS(X)
#undef X
};

static void *enabled; /* the context where it is */
static long process;  /* that enabled it */
static struct cupti_sampling_data data;
static struct cupti_sampled_pc *pcs;
static struct cupti_stall_count *counts; /* of each pc: one for each reason */
static uint32_t configured;		 /* period */
static uint32_t reasons[REASONS_MOST];
static const char *reason_names[REASONS_MOST]; /* by the reason's index */
static size_t reason_count;

static const char *bind_sampling(void)
{
	static const struct ws_kernel_binding bindings[] = {
#define X(member, function, params, last) \
	{"cupti" #function, offsetof(__typeof__(sampling), member)},
		CUPTI_SAMPLING_FUNCTIONS(X)
#undef X
	};

	return ws_kernel_bind_functions(&sampling, bindings, WS_COUNT(bindings));
}

static void prepare_data(void)
{
	memset(&data, 0, sizeof(data));
	data.size = sizeof(data);
	data.room = PCS;
	data.pcs = pcs;
	memset(pcs, 0, PCS * sizeof(*pcs));
	for (size_t i = 0; i < PCS; i++) {
		pcs[i].size = sizeof(*pcs);
		pcs[i].reasons = counts + i * reason_count;
	}
}

/* Which reasons the chip knows. */
static int read_reasons(void *context)
{
	static char texts[REASONS_MOST][CUPTI_STALL_NAME];
	char *names[REASONS_MOST];
	struct cupti_sampling_reason_count count = {
		.size = SIZE_count_reasons, .context = context, .count = &reason_count};
	struct cupti_sampling_reasons list = {
		.size = SIZE_get_reasons, .context = context, .reasons = reasons, .names = names};
	int rc = sampling.count_reasons(&count);

	for (size_t i = 0; i < REASONS_MOST; i++)
		names[i] = texts[i];
	if (reason_count > REASONS_MOST)
		return CUPTI_ERR_NOT_SUPPORTED;
	list.count = reason_count;
	if (!rc)
		rc = sampling.get_reasons(&list);
	for (size_t i = 0; i < reason_count && !rc; i++)
		if (reasons[i] < REASONS_MOST)
			reason_names[reasons[i]] = ws_kernel_keep_text(texts[i]);
	return rc;
}

static int make_buffers(void)
{
	if (!pcs)
		pcs = malloc(PCS * sizeof(*pcs));
	if (!counts)
		counts = calloc(PCS * reason_count, sizeof(*counts));
	return pcs && counts ? 0 : 2;
}

static uint32_t find_least_period(void)
{
	if (*ws_kernel_settings.sampling_period)
		return (uint32_t)atoi(ws_kernel_settings.sampling_period);
	return PERIOD_LEAST;
}

/*
 * The logarithm of the cycles between two samples of a multiprocessor: as asked for, or so that a
 * short kernel has many samples and a long one not too many.
 */
static uint32_t find_period(const struct ws_kernel_launch *launch, uint64_t duration)
{
	uint64_t cycles = duration * CYCLES_A_NS,
		 sms = ws_kernel_device_attribute((int)launch->device, ATTRIBUTE_SMS);
	uint32_t period = find_least_period();

	if (*ws_kernel_settings.sampling_period)
		return period;
	while (period < PERIOD_MOST && (cycles >> period) * sms > SAMPLES_WANTED)
		period++;
	return period;
}

/* CUPTI then takes 0.1 s to start sampling. */
static int configure(void *context, uint32_t period)
{
	struct cupti_sampling_setting settings[] = {
		{CUPTI_SAMPLING_REASONS, 0, {.reasons = {reason_count, reasons}}},
		{CUPTI_SAMPLING_MODE, 0, {.number = CUPTI_SAMPLING_CONTINUOUS}},
		{CUPTI_SAMPLING_START_STOP, 0, {.number = 1}},
		{CUPTI_SAMPLING_FORMAT, 0, {.number = CUPTI_SAMPLING_PARSED}},
		{CUPTI_SAMPLING_DATA, 0, {.pointer = &data}},
		{CUPTI_SAMPLING_SCRATCH_BYTES, 0, {.bytes = SCRATCH_BYTES}},
		{CUPTI_SAMPLING_BUFFER_BYTES, 0, {.bytes = BUFFER_BYTES}},
		{CUPTI_SAMPLING_PERIOD, 0, {.number = period}},
	};
	struct cupti_sampling_config config = {.size = SIZE_configure,
					       .context = context,
					       .count = WS_COUNT(settings),
					       .settings = settings};

	prepare_data();
	configured = period;
	return sampling.configure(&config);
}

/* A period that is not far off is good enough. */
static int set_period(void *context, uint32_t period)
{
	prepare_data();
	if (period <= configured + PERIODS_APART && configured <= period + PERIODS_APART)
		return 0;
	return configure(context, period);
}

static int prepare(void *context)
{
	int rc = reason_count ? 0 : read_reasons(context);

	if (!rc)
		rc = make_buffers();
	return rc ? rc : configure(context, find_least_period());
}

void ws_kernel_disable_sampling(void)
{
	struct cupti_sampling_call call = {.size = SIZE_disable, .context = enabled};

	/* A forked child has no CUDA, and none of CUPTI's threads, which disabling would await. */
	if (!enabled || process != ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0))
		return;
	prepare_data();
	sampling.disable(&call);
	enabled = NULL;
}

int ws_kernel_enable_sampling(void *context, const char **what)
{
	struct cupti_sampling_call call = {.size = SIZE_enable, .context = context};
	int rc;

	if (enabled == context)
		return 0;
	*what = bind_sampling();
	if (*what)
		return CUPTI_ERR_NOT_SUPPORTED;
	ws_kernel_disable_sampling();
	*what = "CUPTI does not enable sampling";
	rc = sampling.enable(&call);
	if (rc)
		return rc;
	enabled = context;
	process = ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
	*what = "CUPTI does not configure sampling";
	rc = prepare(context);
	if (rc)
		ws_kernel_disable_sampling();
	return rc;
}

int ws_kernel_begin_sampling(const struct ws_kernel_launch *launch, uint64_t duration,
			     const char **what)
{
	struct cupti_sampling_call call = {.size = SIZE_start, .context = launch->context};
	int rc = ws_kernel_enable_sampling(launch->context, what);

	if (rc)
		return rc;
	*what = "CUPTI does not configure sampling";
	rc = set_period(launch->context, find_period(launch, duration));
	if (rc)
		return rc;
	*what = "CUPTI does not start sampling";
	return sampling.start(&call);
}

/* Once for each function: the user may wonder. */
static void report_unknown(const char *symbol)
{
	static const char *last;
	const char *kept = ws_kernel_keep_text(symbol);

	if (kept != last)
		ws_kernel_report(WS_WARNING,
				 "%s: CUPTI attributes its samples of program counters to no "
				 "function, so they are left out.",
				 symbol);
	last = kept;
}

static void add_samples(const struct cupti_sampled_pc *sampled)
{
	struct ws_kernel_place place = {
		.cubin = sampled->crc,
		.function = ws_kernel_keep_text(sampled->name ? sampled->name : ""),
		.pc = (uint32_t)sampled->pc};

	for (size_t i = 0; i < sampled->count && i < reason_count; i++) {
		uint32_t reason = sampled->reasons[i].reason;

		if (reason >= REASONS_MOST || !reason_names[reason] || !sampled->reasons[i].samples)
			continue;
		place.metric = reason_names[reason];
		place.value = sampled->reasons[i].samples;
		ws_kernel_add_place(&place);
	}
}

struct totals {
	uint64_t taken, dropped, unknown; /* of taken: not kept; of no known function */
};

/* CUPTI has put what it could into the buffer that it was configured with, and gives the rest when
 * it is asked. */
static int read_samples(void *context, struct totals *totals)
{
	struct cupti_sampling_get get = {.size = SIZE_get_data, .context = context, .data = &data};

	for (int i = 0; i < ROUNDS_MOST; i++) {
		size_t count = ws_min(data.count, (size_t)PCS);
		int rc;

		totals->taken += data.samples;
		totals->dropped += data.dropped;
		totals->unknown += data.of_others;
		for (size_t j = 0; j < count; j++)
			add_samples(&pcs[j]);
		if (i && !count && !data.remaining)
			break;
		prepare_data();
		rc = sampling.get_data(&get);
		if (rc)
			return rc;
	}
	return 0;
}

int ws_kernel_end_sampling(const struct ws_kernel_launch *launch, const char **what)
{
	struct cupti_sampling_call call = {.size = SIZE_stop, .context = launch->context};
	struct totals totals = {0};
	int rc = sampling.stop(&call);

	*what = "CUPTI gives no samples";
	if (!rc)
		rc = read_samples(launch->context, &totals);
	prepare_data();
	if (rc)
		return rc;
	if (totals.dropped > totals.taken / DROPPED_SHARE)
		ws_kernel_report(WS_WARNING,
				 "%s: the GPU dropped %llu samples of program counters; a larger "
				 "--sampling-interval takes fewer.",
				 launch->symbol, (unsigned long long)totals.dropped);
	if (totals.unknown && totals.unknown + totals.dropped >= totals.taken)
		report_unknown(launch->symbol);
	return 0;
}
