/*
 * standin_counters.c - see standin.h: CUPTI. Its counters count how often kernels of the program
 * ran in a range, added up over the passes. Like CUPTI it keeps what it counts in the counter data
 * image and nowhere else, so that another process can go on counting.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/host_abi.h"
#include "ring/cupti_abi.h"
#include "ring/cupti_source_abi.h"
#include "ring/pm_abi.h"
#include "standin.h"
#include "standin_samples.h"

static void (*subscriber)(void *, uint32_t, uint32_t, const void *);
static uint8_t enabled[4][2048];
static uint32_t correlation;
static __thread int in_call_end;
static int left_in_call; /* and the call has not ended yet */
static int initialized;	 /* the profiler */

struct image {
	uint32_t passes, ranges, wrong; /* made; in each; passes differ */
	uint32_t runs[];
};

static struct {
	int enabled, started, own, open;
	struct image *image;
	size_t most, range; /* ranges in a pass at most; the present one */
	int ever;	    /* it has been enabled before */
	int sized;	    /* the object that is enabled was asked for the size of an image */
	size_t first_most;  /* ranges that it was configured for first; 0: never yet */
	uint32_t passes;    /* made of the present unit, as it counts them */
} state;

static struct {
	int configured, enabled;
	unsigned runs_before;
} sass;

static int profiler_used;  /* its counters were asked for */
static int sampled_before; /* something was launched while program counters were sampled */

static const struct {
	uint32_t cbid;
	const char *name;
} names[] = {{CBID_LAUNCH, "cuLaunchKernel"},
	     {CBID_LAUNCH_GRAPH, "cuGraphLaunch"},
	     {CBID_ALLOCATE, "cuMemAlloc_v2"},
	     {CBID_FREE, "cuMemFree_v2"},
	     {CBID_ALLOCATE_HOST, "cuMemAllocHost_v2"},
	     {CBID_PROFILER_START, "cuProfilerStart"},
	     {CBID_PROFILER_STOP, "cuProfilerStop"},
	     {CBID_COPY, "cuMemcpyDtoDAsync_v2"},
	     {CBID_SEND, "cuMemcpyHtoDAsync_v2"},
	     {CBID_FETCH, "cuMemcpyDtoHAsync_v2"},
	     {CBID_SET, "cuMemsetD32Async"},
	     {CBID_WAIT, "cuStreamSynchronize"},
	     {CBID_EVENT_CREATE, "cuEventCreate"},
	     {CBID_EVENT_RECORD, "cuEventRecord"},
	     {CBID_EVENT_AWAIT, "cuStreamWaitEvent"},
	     {CBID_LAUNCH_EX, "cuLaunchKernelEx"},
	     {CBID_INSTANTIATE, "cuGraphInstantiateWithFlags"},
	     {CBID_SET_ATTRIBUTE, "cuFuncSetAttribute"},
	     {CBID_DEVICE_NAME, "cuDeviceGetName"}};

STANDIN_EXPORT int cuptiGetVersion(uint32_t *version)
{
	*version = 130001;
	return 0;
}

STANDIN_EXPORT int cuptiGetResultString(int result, const char **text)
{
	(void)result;
	*text = "a result of the stand-in";
	return 0;
}

STANDIN_EXPORT int cuptiGetCallbackName(uint32_t domain, uint32_t cbid, const char **name)
{
	for (size_t i = 0; domain == CUPTI_DOMAIN_DRIVER && i < sizeof(names) / sizeof(names[0]);
	     i++)
		if (names[i].cbid == cbid) {
			*name = names[i].name;
			return 0;
		}
	return CUPTI_ERR_INVALID_PARAMETER;
}

/* ---- records of kernels ---- */

static struct {
	cupti_request_fn request;
	cupti_complete_fn complete;
	int enabled;
	struct cupti_kernel kernel; /* that ran last while enabled; or the device, dumped */
} records;

STANDIN_EXPORT int cuptiActivityRegisterCallbacks(cupti_request_fn request,
						  cupti_complete_fn complete)
{
	records.request = request;
	records.complete = complete;
	return 0;
}

STANDIN_EXPORT int cuptiActivityEnable(uint32_t kind)
{
	records.enabled = kind == CUPTI_KIND_CONCURRENT_KERNEL;
	records.kernel.kind = 0;
	return !records.enabled;
}

/* With the fault, the program has given buffers of its own meanwhile. */
STANDIN_EXPORT int cuptiActivityEnableAndDump(uint32_t kind)
{
	if (standin_fault("kineto"))
		return 0;
	memset(&records.kernel, 0, sizeof(records.kernel));
	records.kernel.kind = kind;
	return 0;
}

STANDIN_EXPORT int cuptiActivityDisable(uint32_t kind)
{
	(void)kind;
	records.enabled = 0;
	return 0;
}

static void note_function(const struct standin_call *call);

static void note_kernel(const struct standin_call *call)
{
	if (!records.enabled || call->cbid != CBID_LAUNCH)
		return;
	memset(&records.kernel, 0, sizeof(records.kernel));
	records.kernel.kind = CUPTI_KIND_CONCURRENT_KERNEL;
	records.kernel.name = call->symbol;
	records.kernel.shared_executed = 1 << 16;
}

STANDIN_EXPORT int cuptiActivityFlushAll(uint32_t flags)
{
	uint8_t *buffer = NULL;
	size_t bytes = 0, most = 0;

	(void)flags;
	if (!records.kernel.kind)
		return 0;
	records.request(&buffer, &bytes, &most);
	if (!buffer || bytes < sizeof(records.kernel))
		return CUPTI_ERR_OUT_OF_MEMORY;
	memcpy(buffer, &records.kernel, sizeof(records.kernel));
	records.kernel.kind = 0;
	records.complete(NULL, 0, buffer, bytes, sizeof(records.kernel));
	return 0;
}

STANDIN_EXPORT int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
	if (*record || !valid)
		return CUPTI_ERR_MAX_LIMIT_REACHED;
	*record = buffer;
	return 0;
}

static void call_back(int site, const struct standin_call *call)
{
	struct cupti_callback data = {.site = (uint32_t)site,
				      .function = call->name,
				      .params = call->params,
				      .symbol = call->symbol,
				      .context = (void *)8,
				      .context_uid = 1,
				      .correlation = ++correlation};

	note_kernel(call);
	if (site == 0)
		note_function(call);
	in_call_end = site != 0;
	standin_told += subscriber && enabled[CUPTI_DOMAIN_DRIVER][call->cbid] && site == 0 &&
			call->cbid == CBID_LAUNCH;
	if (subscriber && enabled[CUPTI_DOMAIN_DRIVER][call->cbid])
		subscriber(NULL, CUPTI_DOMAIN_DRIVER, call->cbid, &data);
	in_call_end = left_in_call = 0;
}

static void load_module(const char *cubin, size_t bytes)
{
	struct cupti_module module = {1, bytes, cubin};
	struct cupti_resource resource = {.context = (void *)8, .descriptor = &module};

	if (subscriber && enabled[CUPTI_DOMAIN_RESOURCE][CUPTI_RESOURCE_MODULE_LOADED])
		subscriber(NULL, CUPTI_DOMAIN_RESOURCE, CUPTI_RESOURCE_MODULE_LOADED, &resource);
}

/* A kernel runs: a range of its own, unless ranges are the user's. */
static void count_launch(int program)
{
	if (!state.started || (state.own && !state.open) || state.range >= state.most)
		return;
	state.image->runs[state.range] += program != 0;
	state.range += !state.own;
}

STANDIN_EXPORT int cuptiSubscribe(void **handle, cupti_callback_fn fn, void *data)
{
	(void)data;
	if (standin_fault("taken"))
		return CUPTI_ERR_MULTIPLE_SUBSCRIBERS;
	if (left_in_call)
		abort(); /* as CUPTI 13.0 breaks down */
	*handle = &subscriber;
	subscriber = fn;
	standin_callback = standin_fault("silent") ? NULL : call_back;
	standin_module = load_module;
	standin_launched = count_launch;
	return 0;
}

STANDIN_EXPORT int cuptiUnsubscribe(void *handle)
{
	(void)handle;
	subscriber = NULL;
	return 0;
}

/* At the end of a call only. */
STANDIN_EXPORT int cuptiFinalize(void)
{
	const char *path = getenv("STANDIN_END");
	FILE *f = path ? fopen(path, "a") : NULL;

	if (f)
		fprintf(f, "%s\n", in_call_end ? "left" : "left within a call");
	if (f)
		fclose(f);
	subscriber = NULL;
	memset(enabled, 0, sizeof(enabled));
	memset(&records, 0, sizeof(records));
	left_in_call = in_call_end;
	initialized = 0;
	return 0;
}

STANDIN_EXPORT int cuptiEnableCallback(uint32_t enable, void *handle, uint32_t domain,
				       uint32_t cbid)
{
	(void)handle;
	if (domain < 4 && cbid < 2048)
		enabled[domain][cbid] = enable != 0;
	return 0;
}

STANDIN_EXPORT int cuptiGetDeviceId(void *context, uint32_t *device)
{
	(void)context;
	*device = 0;
	return 0;
}

STANDIN_EXPORT int cuptiGetContextId(void *context, uint32_t *id)
{
	*id = 1;
	return context != (void *)8;
}

STANDIN_EXPORT int cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread, uint32_t *id)
{
	(void)context;
	(void)per_thread;
	*id = (uint32_t)(uintptr_t)stream;
	return 0;
}

/* What the other hook needs of a libcupti, so that this passes for one. */
#define UNUSED(name)                            \
	STANDIN_EXPORT int name(void);          \
	STANDIN_EXPORT int name(void)           \
	{                                       \
		return CUPTI_ERR_NOT_SUPPORTED; \
	}
UNUSED(cuptiActivityGetNumDroppedRecords)
UNUSED(cuptiActivitySetAttribute)

/* The first sample began long before; the GPU is idle in the second and in the last. */
static const struct {
	uint64_t start, end;
	double active;
} moments[] = {{1, 900, 50},	{900, 1000, 0},	  {1000, 1100, 80},
	       {1100, 1200, 0}, {1200, 1300, 20}, {1300, 1400, 0}};
enum { MOMENTS = sizeof(moments) / sizeof(moments[0]), MOMENTS_AT_ONCE = 4 };

static struct {
	int enabled, sized, started, stopped, dirty;
	uint64_t interval;
	unsigned runs_before;
	size_t given, inside; /* decoded; of these in the image */
	int second;	      /* a metric was added that needs a second pass */
} pm;

/* ---- the profiler ---- */

#define CALL(name, type)                                \
	STANDIN_EXPORT int cupti##name(struct type *p); \
	STANDIN_EXPORT int cupti##name(struct type *p)

CALL(ProfilerInitialize, cupti_range_init)
{
	standin_used++;
	initialized = 1;
	return p->size != CUPTI_SIZE(cupti_range_init, priv);
}
CALL(DeviceGetChipName, cupti_range_chip)
{
	p->chip = "GH100";
	return 0;
}
CALL(ProfilerGetCounterAvailability, cupti_range_availability)
{
	if (standin_fault("permission"))
		return CUPTI_ERR_INSUFFICIENT_PRIVILEGES;
	if (sampled_before)
		return CUPTI_ERR_NOT_SUPPORTED;
	profiler_used = 1;
	p->bytes = 64;
	return 0;
}
CALL(ProfilerHostInitialize, cupti_range_host)
{
	p->host = p->profiler == PM_TYPE_SAMPLING ? (void *)&pm : (void *)&state;
	pm.second = 0;
	return 0;
}
CALL(ProfilerHostGetSupportedChips, cupti_host_chips)
{
	static const char *const chips[] = {"GH100"};

	p->names = chips;
	p->count = 1;
	return 0;
}
CALL(ProfilerHostGetBaseMetrics, cupti_host_base_metrics)
{
	static const char *metrics[] = {"gpu__time_duration", "lts__t_sectors",
					"smsp__inst_executed", "smsp__uncounted"},
			  *sampled[] = {"sm__blocks", "sm__cycles_active", "sm__second"};

	p->names = p->host == &pm ? sampled : metrics;
	p->count = p->host == &pm ? 3 : 4;
	if (p->type != CUPTI_HOST_COUNTER)
		p->count = 0;
	return 0;
}
CALL(ProfilerHostGetSubMetrics, cupti_host_sub_metrics)
{
	static const char *suffixes[] = {".sum", ".avg"};

	p->names = suffixes;
	p->count = 2;
	return 0;
}
CALL(ProfilerHostDeinitialize, cupti_range_host_end)
{
	(void)p;
	return 0;
}
CALL(ProfilerHostGetMetricProperties, cupti_range_properties)
{
	p->unit = "inst";
	return strstr(p->metric, "__") ? 0 : CUPTI_ERR_INVALID_PARAMETER;
}
CALL(ProfilerHostConfigAddMetrics, cupti_range_metrics)
{
	for (size_t i = 0; i < p->count; i++)
		pm.second |= strstr(p->names[i], "second") != NULL;
	return p->count == 0;
}
CALL(ProfilerHostGetConfigImageSize, cupti_range_config_size)
{
	p->bytes = 32;
	return 0;
}
CALL(ProfilerHostGetConfigImage, cupti_range_config)
{
	memset(p->image, p->host == &pm ? 1 + pm.second : STANDIN_PASSES, p->bytes);
	return 0;
}
CALL(ProfilerHostGetNumOfPasses, cupti_range_passes)
{
	p->passes = p->image[0];
	return 0;
}
CALL(RangeProfilerEnable, cupti_range_enable)
{
	if (standin_fault("busy"))
		return 26;
	if (!initialized)
		return CUPTI_ERR_INVALID_PARAMETER;
	p->profiler = &state;
	state.sized = 0;
	state.first_most = state.passes = 0;
	state.ever = 1;
	state.enabled++;
	return state.enabled != 1;
}
CALL(RangeProfilerDisable, cupti_range_call)
{
	(void)p;
	state.enabled--;
	return 0;
}
CALL(RangeProfilerSetConfig, cupti_range_set_config)
{
	struct image *image = (void *)p->image;
	size_t pass = p->replay == CUPTI_APPLICATION_REPLAY ? p->pass : 0;

	if (p->levels != 1 || p->first_level != 1 || p->replay == CUPTI_KERNEL_REPLAY ||
	    image->passes != pass || p->image_bytes < sizeof(*image) + p->ranges * 4)
		return CUPTI_ERR_INVALID_PARAMETER;
	state.image = image;
	/* As on a GPU: it keeps the first number of ranges, and goes on counting passes. */
	if (!state.first_most) {
		state.first_most = p->ranges;
		state.passes = (uint32_t)pass;
	}
	state.most = p->ranges < state.first_most ? p->ranges : state.first_most;
	state.own = p->range == CUPTI_USER_RANGE;
	return 0;
}
/* The file that STANDIN_AWAIT names; 0 if it does not come. */
static int wait_for_file(void)
{
	const char *path = getenv("STANDIN_AWAIT");
	int tries = 0;

	while (path && access(path, F_OK) && ++tries < 3000)
		usleep(10000);
	return tries < 3000;
}

CALL(RangeProfilerStart, cupti_range_call)
{
	if (!wait_for_file())
		return CUPTI_ERR_NOT_READY;
	if (p->profiler != &state || state.started || !state.image)
		return CUPTI_ERR_INVALID_PARAMETER;
	if (standin_fault("thirdpass") && state.image->passes == 2)
		return CUPTI_ERR_NOT_READY;
	standin_passes++;
	standin_note_step("pass");
	state.started = 1;
	state.range = 0;
	return 0;
}
CALL(RangeProfilerStop, cupti_range_stop)
{
	struct image *image = state.image;

	if (!state.started || state.open)
		return CUPTI_ERR_INVALID_PARAMETER;
	state.started = 0;
	if (image->passes++)
		image->wrong |= state.range != image->ranges;
	image->ranges = (uint32_t)state.range;
	state.passes = (state.passes + 1) % STANDIN_PASSES;
	p->all = !state.passes;
	p->pass = state.passes;
	p->level = 1;
	return 0;
}
CALL(RangeProfilerPushRange, cupti_range_push)
{
	if (!p->name || !state.own || state.open)
		return CUPTI_ERR_INVALID_PARAMETER;
	state.open = 1;
	return 0;
}
CALL(RangeProfilerPopRange, cupti_range_call)
{
	(void)p;
	if (!state.open)
		return CUPTI_ERR_INVALID_PARAMETER;
	state.open = 0;
	state.range++;
	return 0;
}
CALL(RangeProfilerDecodeData, cupti_range_decode)
{
	p->dropped = 0;
	return !state.image;
}
CALL(RangeProfilerGetCounterDataSize, cupti_range_image_size)
{
	state.sized = 1;
	p->bytes = sizeof(struct image) + 4 * p->ranges;
	return 0;
}
/* CUPTI crashes here where the size was not asked for. */
CALL(RangeProfilerCounterDataImageInitialize, cupti_range_image)
{
	if (!state.sized)
		abort();
	memset(p->image, 0, p->bytes);
	return 0;
}
CALL(RangeProfilerGetCounterDataInfo, cupti_range_image_info)
{
	const struct image *image = (const void *)p->image;

	p->ranges = image->wrong || image->passes != STANDIN_PASSES ? 0 : image->ranges;
	return 0;
}
/* ---- sampling over the time of a kernel ---- */

CALL(PmSamplingGetCounterAvailability, pm_availability)
{
	p->bytes = 16;
	return 0;
}
/* Beside the range profiler the counters are taken. */
CALL(PmSamplingEnable, pm_enable)
{
	if (standin_fault("nopm") || state.enabled || pm.enabled)
		return PM_ERROR_HARDWARE_BUSY;
	pm.enabled = 1;
	pm.sized = pm.stopped = 0;
	p->object = &pm;
	return 0;
}
CALL(PmSamplingDisable, pm_object)
{
	pm.enabled = 0;
	return p->object != &pm;
}
CALL(PmSamplingSetConfig, pm_set_config)
{
	pm.interval = p->interval;
	return p->trigger != PM_TRIGGER_TIME || !p->config_bytes;
}
CALL(PmSamplingGetCounterDataSize, pm_image_size)
{
	p->bytes = 64;
	pm.sized = 1;
	return !p->samples || !p->count;
}
CALL(PmSamplingCounterDataImageInitialize, pm_image_initialize)
{
	pm.inside = pm.dirty = 0;
	return pm.sized && p->bytes == 64 ? 0 : CUPTI_ERR_INVALID_PARAMETER;
}
CALL(PmSamplingStart, pm_object)
{
	(void)p;
	standin_note_step("units");
	pm.given = pm.inside = 0;
	pm.started = 1;
	pm.runs_before = standin_runs;
	return pm.dirty;
}
CALL(PmSamplingStop, pm_object)
{
	(void)p;
	pm.stopped = pm.started;
	pm.started = 0;
	return 0;
}
/* An image has room for some samples, and is mixed with what it held. Where the GPU's buffer was
 * full ("pmfull": after the kernel, "pmshort": before it ended), nothing can be read after that. */
CALL(PmSamplingDecodeData, pm_decode)
{
	size_t all = pm.stopped && standin_runs - pm.runs_before == 1 ? MOMENTS : 0,
	       end = standin_fault("pmshort") ? all - 1 : all;
	int full = standin_fault("pmfull") || standin_fault("pmshort");

	if (pm.dirty)
		return CUPTI_ERR_INVALID_PARAMETER;
	if (all && full && pm.given == end)
		return CUPTI_ERR_OUT_OF_MEMORY;
	for (; pm.given < end && pm.inside < MOMENTS_AT_ONCE; pm.given++)
		pm.inside++;
	pm.dirty = pm.inside > 0;
	p->overflow = full && pm.given == end;
	p->reason = pm.given < all || p->overflow ? PM_STOP_IMAGE_FULL : PM_STOP_NO_RECORDS;
	return 0;
}
CALL(PmSamplingGetCounterDataInfo, pm_image_info)
{
	p->total = p->populated = p->completed = pm.inside;
	return 0;
}
CALL(PmSamplingCounterDataGetSampleInfo, pm_sample_info)
{
	p->start = moments[pm.given - pm.inside + p->index].start;
	p->end = moments[pm.given - pm.inside + p->index].end;
	return p->index >= pm.inside;
}

/* A metric of each sample: a rate is what the GPU was busy, a sum a tenth of it. */
static double evaluate_moment(size_t index, const char *name)
{
	double active = moments[pm.given - pm.inside + index].active;

	return strstr(name, ".sum") ? active / 10 : active;
}

/* Before the kernel, nothing but the activity of the GPU is of interest. */
static int is_in_vain(const struct cupti_range_values *p)
{
	for (size_t i = 0; i <= pm.given - pm.inside + p->range; i++)
		if (moments[i].active > 0)
			return 0;
	return p->count > 1;
}

CALL(ProfilerHostEvaluateToGpuValues, cupti_range_values)
{
	const struct image *image = (const void *)p->image;

	if (p->host == &pm && is_in_vain(p))
		return CUPTI_ERR_INVALID_PARAMETER;
	for (size_t i = 0; p->host == &pm && i < p->count; i++)
		p->values[i] = evaluate_moment(p->range, p->names[i]);
	if (p->host == &pm)
		return p->range >= pm.inside;
	if (p->range >= image->ranges || strstr(p->names[0], "uncounted"))
		return CUPTI_ERR_INVALID_PARAMETER;
	for (size_t i = 0; i < p->count; i++)
		p->values[i] = strstr(p->names[i], "duration") ? 5000 : image->runs[p->range] + 0.5;
	return 0;
}

/* ---- single instructions ---- */

/* Of the module that was loaded last; its checksum is the sum of its bytes. */
static uint64_t loaded_crc;

CALL(GetCubinCrc, cupti_cubin_crc)
{
	p->crc = 0;
	for (size_t i = 0; i < p->bytes; i++)
		p->crc += ((const uint8_t *)p->cubin)[i];
	loaded_crc = p->crc;
	return 0;
}

#define FUNCTION "_Z5smallPKfPfi"

static struct {
	struct cupti_sampling_data *data;
	int enabled, configured, started;
	pid_t process; /* that enabled it */
	unsigned runs_before, given, sampled;
} sampling;

/*
 * As on a GPU: samples are attributed to functions that had been launched when sampling was enabled
 * first, unless the profiler had been used by then, and to those whose first launch after that
 * finds sampling enabled and nothing counted.
 */
enum { FUNCTIONS_MOST = 16 };
static struct {
	const char *symbol;
	int known;
} functions[FUNCTIONS_MOST];
static const char *last_symbol;
static int sampling_used;

static void note_function(const struct standin_call *call)
{
	int i = 0;

	if (call->cbid != CBID_LAUNCH && call->cbid != CBID_LAUNCH_EX)
		return;
	last_symbol = call->symbol;
	sampled_before |= sampling.enabled && !profiler_used;
	while (i < FUNCTIONS_MOST && functions[i].symbol &&
	       strcmp(functions[i].symbol, call->symbol) != 0)
		i++;
	if (i == FUNCTIONS_MOST || functions[i].symbol)
		return;
	functions[i].symbol = call->symbol;
	functions[i].known = sampling.enabled && !state.enabled && !sass.enabled;
}

static int is_known(const char *symbol)
{
	if (standin_fault("unattributed"))
		return 0;
	for (int i = 0; i < FUNCTIONS_MOST && functions[i].symbol; i++)
		if (!strcmp(functions[i].symbol, symbol))
			return functions[i].known;
	return 0;
}

static void list_functions(void)
{
	for (int i = 0; i < FUNCTIONS_MOST && functions[i].symbol && !sampling_used; i++)
		functions[i].known = !profiler_used;
	sampling_used = 1;
}

/* Some instructions are in the configured buffer when sampling stops, the others have to be asked
 * for. */
enum { SAMPLES_AT_ONCE = 2, SAMPLES_LATER = 50 };

static void give_samples(struct cupti_sampling_data *data, unsigned most)
{
	const struct standin_samples *given = standin_read_samples();

	data->count = 0;
	if (sampling.sampled)
		data->samples = data->of_others = 0;
	while (sampling.given < sampling.sampled && data->count < most &&
	       data->count < data->room) {
		const struct standin_sample *sample = &given->samples[sampling.given++];
		struct cupti_sampled_pc *pc = &data->pcs[data->count++];

		pc->crc = loaded_crc;
		pc->pc = sample->pc;
		pc->name = strdup(given->function);
		pc->count = sample->count;
		memcpy(pc->reasons, sample->reasons, sample->count * sizeof(*pc->reasons));
		data->samples++;
	}
	data->remaining = sampling.sampled - sampling.given;
}

CALL(PCSamplingEnable, cupti_sampling_call)
{
	(void)p;
	if (standin_fault("nosampling"))
		return CUPTI_ERR_NOT_SUPPORTED;
	sampling.configured = 0;
	sampling.process = getpid();
	list_functions();
	return sampling.enabled++;
}
/* It waits for threads, which a forked child does not have. */
CALL(PCSamplingDisable, cupti_sampling_call)
{
	(void)p;
	if (sampling.process != getpid())
		abort();
	sampling.enabled = 0;
	return 0;
}
CALL(PCSamplingGetNumStallReasons, cupti_sampling_reason_count)
{
	*p->count = standin_read_samples()->reason_count;
	return 0;
}
CALL(PCSamplingGetStallReasons, cupti_sampling_reasons)
{
	const struct standin_samples *given = standin_read_samples();

	for (size_t i = 0; i < given->reason_count; i++) {
		p->reasons[i] = given->reasons[i].index;
		snprintf(p->names[i], CUPTI_STALL_NAME, "%s", given->reasons[i].name);
	}
	return p->count != given->reason_count;
}
/* Not again for nothing, since a GPU takes 0.1 s for it. */
CALL(PCSamplingSetConfigurationAttribute, cupti_sampling_config)
{
	int period = 0;

	for (size_t i = 0; i < p->count; i++)
		if (p->settings[i].attribute == CUPTI_SAMPLING_DATA)
			sampling.data = p->settings[i].value.pointer;
		else if (p->settings[i].attribute == CUPTI_SAMPLING_PERIOD)
			period = (int)p->settings[i].value.number;
	if (!sampling.data || period == sampling.configured || (period != 7 && period != 9))
		return CUPTI_ERR_INVALID_PARAMETER;
	sampling.configured = period;
	return 0;
}
/* Not beside the range profiler, as on a GPU. */
CALL(PCSamplingStart, cupti_sampling_call)
{
	(void)p;
	if (state.enabled || !sampling.configured || sampling.started)
		return CUPTI_ERR_INVALID_PARAMETER;
	sampling.started = 1;
	sampling.runs_before = standin_runs;
	return 0;
}
CALL(PCSamplingStop, cupti_sampling_call)
{
	(void)p;
	sampling.started = 0;
	sampling.given = 0;
	sampling.sampled = 0;
	sampling.data->samples = sampling.data->of_others = 100;
	if (is_known(last_symbol) && standin_runs - sampling.runs_before == 1)
		sampling.sampled = (unsigned)standin_read_samples()->count;
	give_samples(sampling.data, SAMPLES_AT_ONCE);
	return 0;
}
CALL(PCSamplingGetData, cupti_sampling_get)
{
	give_samples(p->data, SAMPLES_LATER);
	return 0;
}

static const struct cupti_sass_metric sass_metrics[] = {
	{11, "smsp__sass_inst_executed", "instructions"},
	{12, "smsp__sass_sectors_mem_global", "sectors"}};
enum { SASS_METRICS = 2, SASS_RECORDS = 4 };

CALL(SassMetricsGetNumOfMetrics, cupti_sass_count)
{
	p->count = SASS_METRICS;
	return strcmp(p->chip, "GH100") != 0;
}
CALL(SassMetricsGetMetrics, cupti_sass_list)
{
	memcpy(p->metrics, sass_metrics, sizeof(sass_metrics));
	return p->count != SASS_METRICS;
}
/* Once, as on a GPU. */
CALL(SassMetricsSetConfig, cupti_sass_config)
{
	return p->count != SASS_METRICS || sass.configured++ ? 8 : 0;
}
CALL(SassMetricsEnable, cupti_sass_enable)
{
	if (!p->lazy || !sass.configured || sass.enabled)
		return CUPTI_ERR_INVALID_PARAMETER;
	sass.enabled = 1;
	sass.runs_before = standin_runs;
	return 0;
}
CALL(SassMetricsDisable, cupti_sass_disable)
{
	(void)p;
	sass.enabled = 0;
	return 0;
}
CALL(SassMetricsGetDataProperties, cupti_sass_properties)
{
	p->records = standin_runs - sass.runs_before == 1 ? SASS_RECORDS : 0;
	p->instances = 1;
	return !sass.enabled;
}
CALL(SassMetricsFlushData, cupti_sass_flush)
{
	static const uint32_t pcs[] = {0x50, 0xc0};

	for (size_t i = 0; i < p->records; i++) {
		struct cupti_sass_data *data = &p->data[i];

		data->crc = (uint32_t)loaded_crc;
		data->name = FUNCTION;
		data->pc = pcs[i % 2];
		data->values[0].id = sass_metrics[i / 2].id;
		data->values[0].value = i == 2 ? 0 : 1000 + i;
	}
	return !sass.enabled;
}
