/*
 * nvml.c - NVIDIA's GPUs, read through the driver's management library: power, clocks, temperature,
 * memory, links, errors. It needs no rights and disturbs no counters.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/gpm.h"
#include "metrics/nvml_abi.h"
#include "metrics/nvml_processes.h"
#include "metrics/source.h"

#define MOST_DEVICES 64u
#define MOST_SHARE 100u	      /* at most one part in so many of a core, if once a second permits */
#define NEGLIGIBLE_NS 20000u  /* of processor time */
#define UNTYPICAL_READINGS 2u /* the first ones initialise the driver */
#define REST_SECONDS 5u	      /* between readings of dear rates of a GPU at rest */

struct gpus;

/* What one call of NVML answers for several values: it is made once in a reading, because a call
 * may take a tenth of a millisecond. */
struct answers {
	const struct nvml *nvml;
	nvml_device device;
	bool asked_shares, has_shares;
	struct nvml_utilisation shares;
	bool asked_throttling, has_throttling;
	unsigned long long throttling;
	bool asked_links, has_links;
	struct nvml_field links[2]; /* sent and received */
};

/* Reads a number from a GPU; false when the GPU does not provide it. */
typedef bool reader(struct answers *answers, uint64_t *number);

/* ---- what is read ---- */

/* The power at the moment takes the driver less time than the mean of a second. */
static bool read_power(struct answers *answers, uint64_t *number)
{
	struct nvml_field field = {.id = NVML_FIELD_POWER};
	unsigned milliwatts;

	if (answers->nvml->get_fields &&
	    answers->nvml->get_fields(answers->device, 1, &field) == NVML_SUCCESS &&
	    field.error == NVML_SUCCESS && field.type == NVML_TYPE_UNSIGNED) {
		*number = field.value.whole & UINT32_MAX;
		return true;
	}
	if (!answers->nvml->get_power ||
	    answers->nvml->get_power(answers->device, &milliwatts) != NVML_SUCCESS)
		return false;
	*number = milliwatts;
	return true;
}

static bool read_energy(struct answers *answers, uint64_t *number)
{
	unsigned long long millijoules;

	if (!answers->nvml->get_energy ||
	    answers->nvml->get_energy(answers->device, &millijoules) != NVML_SUCCESS)
		return false;
	*number = millijoules;
	return true;
}

static bool read_temperature(struct answers *answers, uint64_t *number)
{
	unsigned degrees;

	if (!answers->nvml->get_temperature ||
	    answers->nvml->get_temperature(answers->device, 0, &degrees) != NVML_SUCCESS)
		return false;
	*number = degrees;
	return true;
}

static bool read_clock(struct answers *answers, int clock, uint64_t *number)
{
	unsigned megahertz;

	if (!answers->nvml->get_clock ||
	    answers->nvml->get_clock(answers->device, clock, &megahertz) != NVML_SUCCESS)
		return false;
	*number = megahertz;
	return true;
}

static bool read_sm_clock(struct answers *answers, uint64_t *number)
{
	return read_clock(answers, NVML_CLOCK_SM, number);
}

static bool read_memory_clock(struct answers *answers, uint64_t *number)
{
	return read_clock(answers, NVML_CLOCK_MEMORY, number);
}

static bool ask_shares(struct answers *answers)
{
	const struct nvml *nvml = answers->nvml;

	if (!answers->asked_shares)
		answers->has_shares =
			nvml->get_utilisation &&
			nvml->get_utilisation(answers->device, &answers->shares) == NVML_SUCCESS;
	answers->asked_shares = true;
	return answers->has_shares;
}

static bool read_busy(struct answers *answers, uint64_t *number)
{
	bool known = ask_shares(answers);

	*number = answers->shares.gpu;
	return known;
}

static bool read_memory_busy(struct answers *answers, uint64_t *number)
{
	bool known = ask_shares(answers);

	*number = answers->shares.memory;
	return known;
}

static bool read_memory_used(struct answers *answers, uint64_t *number)
{
	struct nvml_memory memory;

	if (!answers->nvml->get_memory ||
	    answers->nvml->get_memory(answers->device, &memory) != NVML_SUCCESS)
		return false;
	*number = memory.used;
	return true;
}

static bool read_throttling(struct answers *answers, uint64_t reasons, uint64_t *number)
{
	const struct nvml *nvml = answers->nvml;

	if (!answers->asked_throttling)
		answers->has_throttling =
			nvml->get_throttling &&
			nvml->get_throttling(answers->device, &answers->throttling) == NVML_SUCCESS;
	answers->asked_throttling = true;
	*number = (answers->throttling & reasons) != 0;
	return answers->has_throttling;
}

static bool read_power_throttling(struct answers *answers, uint64_t *number)
{
	return read_throttling(answers, NVML_THROTTLED_BY_POWER, number);
}

static bool read_heat_throttling(struct answers *answers, uint64_t *number)
{
	return read_throttling(answers, NVML_THROTTLED_BY_HEAT, number);
}

static bool read_chip_throttling(struct answers *answers, uint64_t *number)
{
	return read_throttling(answers, NVML_THROTTLED_BY_CHIP, number);
}

static bool read_links(struct answers *answers, size_t direction, uint64_t *number)
{
	const struct nvml *nvml = answers->nvml;

	if (!answers->asked_links) {
		answers->links[0] =
			(struct nvml_field){.id = NVML_FIELD_NVLINK_SENT, .scope = NVML_EVERY_LINK};
		answers->links[1] = (struct nvml_field){.id = NVML_FIELD_NVLINK_RECEIVED,
							.scope = NVML_EVERY_LINK};
		answers->has_links =
			nvml->get_fields &&
			nvml->get_fields(answers->device, 2, answers->links) == NVML_SUCCESS;
	}
	answers->asked_links = true;
	*number = answers->links[direction].value.whole;
	return answers->has_links && answers->links[direction].error == NVML_SUCCESS;
}

static bool read_nvlink_sent(struct answers *answers, uint64_t *number)
{
	return read_links(answers, 0, number);
}

static bool read_nvlink_received(struct answers *answers, uint64_t *number)
{
	return read_links(answers, 1, number);
}

static bool read_pcie(struct answers *answers, int direction, uint64_t *number)
{
	unsigned kilobytes;

	if (!answers->nvml->get_pcie ||
	    answers->nvml->get_pcie(answers->device, direction, &kilobytes) != NVML_SUCCESS)
		return false;
	*number = kilobytes;
	return true;
}

static bool read_pcie_sent(struct answers *answers, uint64_t *number)
{
	return read_pcie(answers, NVML_PCIE_SENT, number);
}

static bool read_pcie_received(struct answers *answers, uint64_t *number)
{
	return read_pcie(answers, NVML_PCIE_RECEIVED, number);
}

static bool read_ecc(struct answers *answers, int kind, uint64_t *number)
{
	unsigned long long errors;

	if (!answers->nvml->get_ecc ||
	    answers->nvml->get_ecc(answers->device, kind, 0, &errors) != NVML_SUCCESS)
		return false;
	*number = errors;
	return true;
}

static bool read_ecc_corrected(struct answers *answers, uint64_t *number)
{
	return read_ecc(answers, 0, number);
}

static bool read_ecc_uncorrected(struct answers *answers, uint64_t *number)
{
	return read_ecc(answers, 1, number);
}

enum reading_flags {
	RATE = 1,   /* the number only grows, and the value is its growth per second */
	JOINED = 2, /* the answer for the reading before has this one too */
	LINKS = 4,  /* not read where samples of GPU metrics have it */
};

enum { POWER }; /* is read before all others */

static const struct reading {
	const char *name, *unit;
	reader *read;
	double scale;
	unsigned flags;
	unsigned seconds, from; /* read every so many seconds, from this one on; 0: by its cost */
} readings[] = {
	[POWER] = {"Power", "W", read_power, 1e-3, 0, 0, 0},
	/* The energy counter has no gaps between its readings, unlike the power. */
	{"Mean power by energy", "W", read_energy, 1e-3, RATE, 0, 0},
	{"Temperature", "°C", read_temperature, 1, 0, 0, 0},
	{"SM clock", "Hz", read_sm_clock, 1e6, 0, 0, 0},
	{"Memory clock", "Hz", read_memory_clock, 1e6, 0, 0, 0},
	{"Time with a kernel", "%", read_busy, 1, 0, 0, 0},
	{"Time with memory access", "%", read_memory_busy, 1, JOINED, 0, 0},
	{"Memory used", "B", read_memory_used, 1, 0, 0, 0},
	{"Throttled by power", "", read_power_throttling, 1, 0, 0, 0},
	{"Throttled by heat", "", read_heat_throttling, 1, JOINED, 0, 0},
	{"Throttled by the chip", "", read_chip_throttling, 1, JOINED, 0, 0},
	{"NVLink sent", "B/s", read_nvlink_sent, 1024, RATE | LINKS, 0, 0},
	{"NVLink received", "B/s", read_nvlink_received, 1024, RATE | LINKS | JOINED, 0, 0},
	/* Each reading takes 20 ms, during which the driver counts. */
	{"PCIe sent", "B/s", read_pcie_sent, 1024, 0, 2, 1},
	{"PCIe received", "B/s", read_pcie_received, 1024, 0, 2, 0},
	{"Memory errors corrected", "1/s", read_ecc_corrected, 1, RATE, 5, 0},
	{"Memory errors uncorrected", "1/s", read_ecc_uncorrected, 1, RATE, 5, 0},
};

/* ---- GPUs ---- */

struct gpu {
	nvml_device device;
	unsigned number; /* in NVML */
	struct ws_nvml_processes *processes;
	uint32_t metric[WS_COUNT(readings)];
	bool silent[WS_COUNT(readings)];     /* the GPU does not provide this value */
	unsigned times[WS_COUNT(readings)];  /* how often it has been read */
	unsigned latest[WS_COUNT(readings)]; /* the turn in which it was read */
	uint64_t numbers[WS_COUNT(readings)];
	bool grows[WS_COUNT(readings)]; /* the last two numbers differ */
	bool rests;
	unsigned rests_since;		    /* turn */
	uint64_t power[WS_COUNT(readings)]; /* mW, when the value was read */
};

struct gpus {
	struct nvml nvml;
	void *library;
	nvml_event_set events;
	bool tried, loaded;
	struct gpu gpu[MOST_DEVICES];
	uint64_t costs[MOST_DEVICES * WS_COUNT(readings)]; /* ns of processor time, about */
	unsigned turns[MOST_DEVICES * WS_COUNT(readings)]; /* a value is read once in so many */
	unsigned count;
};

static bool load(struct gpus *gpus)
{
	const char *test = getenv("WARPSIGHT_NVML"); /* for tests: a stand-in */
	struct nvml *nvml = &gpus->nvml;

	gpus->library = dlopen(test ? test : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!gpus->library)
		return false;
#define NVML_FUNCTION(member, name, arguments) *(void **)&nvml->member = dlsym(gpus->library, name);
	NVML_FUNCTIONS
#undef NVML_FUNCTION
	return nvml->init && nvml->shutdown && nvml->get_count && nvml->get_handle &&
	       nvml->init() == NVML_SUCCESS;
}

static void add_gpu(struct ws_metrics *metrics, struct gpus *gpus, unsigned index)
{
	struct gpu *gpu = &gpus->gpu[gpus->count];
	char name[96] = "", uuid[96] = "", *full;
	bool idle_links;

	if (gpus->nvml.get_handle(index, &gpu->device) != NVML_SUCCESS)
		return;
	gpu->number = index;
	if (gpus->nvml.get_name)
		gpus->nvml.get_name(gpu->device, name, sizeof(name));
	if (gpus->nvml.get_uuid)
		gpus->nvml.get_uuid(gpu->device, uuid, sizeof(uuid));
	idle_links = ws_gpm_has_idle_links(uuid);
	for (size_t i = 0; i < WS_COUNT(readings); i++) {
		gpu->silent[i] = idle_links && readings[i].flags & LINKS;
		full = ws_format("%s, GPU %u", readings[i].name, index);
		gpu->metric[i] =
			ws_metric_add(metrics, &(struct ws_metric){.group = WS_METRIC_GPU,
								   .name = full,
								   .unit = readings[i].unit,
								   .identity = uuid,
								   .device = (int)index,
								   .cpu = -1});
		free(full);
	}
	gpu->processes = ws_nvml_processes_new(metrics, &gpus->nvml, gpu->device, index, uuid);
	if (gpus->events && gpus->nvml.register_events)
		gpus->nvml.register_events(gpu->device, NVML_EVENT_XID, gpus->events);
	gpus->count++;
}

/* Initialising the driver takes up to a tenth of a second: a program that ends at once does not
 * wait for it. */
static void *open_nvml(struct ws_metrics *metrics)
{
	(void)metrics;
	return ws_calloc(1, sizeof(struct gpus));
}

static void find_gpus(struct ws_metrics *metrics, struct gpus *gpus)
{
	unsigned count = 0;

	gpus->tried = true;
	gpus->loaded = load(gpus);
	if (!gpus->loaded)
		return;
	if (gpus->nvml.make_events && gpus->nvml.make_events(&gpus->events) != NVML_SUCCESS)
		gpus->events = NULL;
	if (gpus->nvml.get_count(&count) != NVML_SUCCESS)
		count = 0;
	for (unsigned i = 0; i < ws_min(count, MOST_DEVICES); i++)
		add_gpu(metrics, gpus, i);
}

static void close_nvml(void *state)
{
	struct gpus *gpus = state;

	for (unsigned i = 0; i < gpus->count; i++)
		ws_nvml_processes_free(gpus->gpu[i].processes);
	if (gpus->events && gpus->nvml.free_events)
		gpus->nvml.free_events(gpus->events);
	if (gpus->loaded)
		gpus->nvml.shutdown();
	if (gpus->library)
		dlclose(gpus->library);
	free(gpus);
}

/* Errors of the driver and the hardware, by their numbers in NVIDIA's list of Xid messages. */
static void look_for_errors(struct ws_metrics *metrics, const struct gpus *gpus)
{
	struct nvml_event event;

	while (gpus->events && gpus->nvml.wait_event &&
	       gpus->nvml.wait_event(gpus->events, &event, 0) == NVML_SUCCESS) {
		char text[160];
		unsigned index = 0;

		while (index < gpus->count && gpus->gpu[index].device != event.device)
			index++;
		snprintf(text, sizeof(text),
			 "The driver reported Xid %llu on GPU %u: an error of the GPU or of what "
			 "it was given to do.",
			 event.data, index);
		ws_metric_complain(metrics, text);
	}
}

/* Some values take the driver milliseconds of processor time (H100, driver 580: 5 ms for the
 * energy): those that cost most are read less often, down to once a second. */
static void space_out(const struct ws_metrics *metrics, struct gpus *gpus)
{
	unsigned hz = ws_metric_get_hz(metrics);

	ws_metrics_space_out(gpus->costs, gpus->count * WS_COUNT(readings),
			     UINT64_C(1000000000) / hz / MOST_SHARE, hz, gpus->turns);
}

static void note_cost(struct gpu *gpu, size_t i, uint64_t ns, uint64_t *cost)
{
	if (gpu->times[i]++ < UNTYPICAL_READINGS)
		return;
	if (ns < NEGLIGIBLE_NS)
		ns = 0;
	if (*cost)
		ns = (*cost * 7 + ns) / 8;
	*cost = ns;
}

static bool is_second(const struct ws_metrics *metrics, const struct reading *reading)
{
	unsigned second = ws_metric_get_turn(metrics) / ws_metric_get_hz(metrics);

	return ws_metric_is_slow_turn(metrics) && second % reading->seconds == reading->from;
}

static bool is_power_alike(uint64_t milliwatts, uint64_t other)
{
	uint64_t apart = milliwatts > other ? milliwatts - other : other - milliwatts;

	return apart <= 2000 + other / 10;
}

/* Whether a rate changes little: of the energy while the GPU rests and takes the same power, of
 * links while they carry nothing. It is read once more before that, so that it does not mix work
 * and rest. The power shows work sooner than the shares do. */
static bool is_steady(const struct gpu *gpu, size_t i)
{
	return gpu->rests && gpu->latest[i] > gpu->rests_since && readings[i].flags & RATE &&
	       is_power_alike(gpu->numbers[POWER], gpu->power[i]) &&
	       (!(readings[i].flags & LINKS) || !gpu->grows[i]);
}

/* Rates are also read at the beginning and at the end, so that their totals are whole. */
static bool is_reading_due(const struct ws_metrics *metrics, const struct gpu *gpu, size_t i,
			   unsigned turns)
{
	const struct reading *reading = &readings[i];
	bool any_time = !reading->seconds || reading->flags & RATE;

	if (any_time &&
	    (!gpu->times[i] || ws_metric_is_first_turn(metrics) || ws_metric_is_last_turn(metrics)))
		return true;
	if (reading->seconds)
		return is_second(metrics, reading);
	if (turns > 1 && is_steady(gpu, i))
		turns = REST_SECONDS * ws_metric_get_hz(metrics);
	return ws_metric_get_turn(metrics) - gpu->latest[i] >= turns;
}

/* A GPU whose shares are not known never rests. */
static void note_work(const struct ws_metrics *metrics, struct gpu *gpu,
		      const struct answers *answers)
{
	bool rests = answers->has_shares && !answers->shares.gpu && !answers->shares.memory;

	if (!answers->asked_shares || rests == gpu->rests)
		return;
	gpu->rests = rests;
	gpu->rests_since = ws_metric_get_turn(metrics);
}

static void read_value(struct ws_metrics *metrics, struct gpu *gpu, size_t i,
		       struct answers *answers)
{
	const struct reading *reading = &readings[i];
	uint64_t number;

	gpu->silent[i] = !reading->read(answers, &number);
	if (gpu->silent[i])
		return;
	gpu->grows[i] = number != gpu->numbers[i];
	gpu->numbers[i] = number;
	gpu->power[i] = gpu->numbers[POWER];
	if (reading->flags & RATE)
		ws_metric_put_total(metrics, gpu->metric[i], number, reading->scale);
	else
		ws_metric_put(metrics, gpu->metric[i], (double)number * reading->scale);
}

static void read_gpu(struct ws_metrics *metrics, struct gpus *gpus, unsigned index)
{
	struct gpu *gpu = &gpus->gpu[index];
	struct answers answers = {.nvml = &gpus->nvml, .device = gpu->device};
	bool due = false, left_out = ws_metric_leaves_links_out(metrics, gpu->number);

	for (size_t i = 0; i < WS_COUNT(readings); i++) {
		size_t at = index * WS_COUNT(readings) + i;
		uint64_t before, cost;

		if (!(readings[i].flags & JOINED))
			due = is_reading_due(metrics, gpu, i, gpus->turns[at]);
		if (!due || gpu->silent[i] || (left_out && readings[i].flags & LINKS))
			continue;
		before = ws_metric_read_processor_ns();
		read_value(metrics, gpu, i, &answers);
		cost = ws_metric_read_processor_ns() - before;
		if (readings[i].seconds) /* by turn */
			cost /= readings[i].seconds * ws_metric_get_hz(metrics);
		note_cost(gpu, i, cost, &gpus->costs[at]);
		gpu->latest[i] = ws_metric_get_turn(metrics);
	}
	note_work(metrics, gpu, &answers);
}

/* What is read once a second of all GPUs. */
static void read_slowly(struct ws_metrics *metrics, struct gpus *gpus)
{
	for (unsigned i = 0; i < gpus->count; i++)
		ws_nvml_processes_read(metrics, gpus->gpu[i].processes);
	space_out(metrics, gpus);
}

static void read_nvml(struct ws_metrics *metrics, void *state)
{
	struct gpus *gpus = state;

	if (!gpus->tried && ws_metric_is_worth_more(metrics))
		find_gpus(metrics, gpus);
	for (unsigned i = 0; i < gpus->count; i++)
		read_gpu(metrics, gpus, i);
	if (ws_metric_is_slow_turn(metrics))
		read_slowly(metrics, gpus);
	else if (ws_metric_get_turn(metrics) < ws_metric_get_hz(metrics))
		space_out(metrics, gpus);
	if (ws_metric_is_slow_turn(metrics) || ws_metric_is_last_turn(metrics))
		look_for_errors(metrics, gpus);
}

const struct ws_metric_source ws_metric_nvml = {
	.groups = 1u << WS_METRIC_GPU, .open = open_nvml, .read = read_nvml, .close = close_nvml};
