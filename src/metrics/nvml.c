/*
 * nvml.c - NVIDIA's GPUs, read through the driver's management library: power, clocks, temperature,
 * memory, links, errors. It needs no rights and disturbs no counters.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/nvml_abi.h"
#include "metrics/source.h"

#define MOST_DEVICES 64u
#define DEAR_NS 1000000u /* processor time: at 10 Hz it is a hundredth of a core */
#define DEAR_TIMES 3	 /* so many readings in a row: the first ones initialise the driver */

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

static bool read_power(struct answers *answers, uint64_t *number)
{
	unsigned milliwatts;

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

static const struct reading {
	const char *name, *unit;
	reader *read;
	double scale;
	bool rate; /* the number only grows, and the value is its growth per second */
	bool slow; /* read once a second */
} readings[] = {
	{"Power", "W", read_power, 1e-3, false, false},
	/* The energy counter has no gaps between its readings, unlike the power. */
	{"Mean power by energy", "W", read_energy, 1e-3, true, false},
	{"Temperature", "°C", read_temperature, 1, false, false},
	{"SM clock", "Hz", read_sm_clock, 1e6, false, false},
	{"Memory clock", "Hz", read_memory_clock, 1e6, false, false},
	{"Time with a kernel", "%", read_busy, 1, false, false},
	{"Time with memory access", "%", read_memory_busy, 1, false, false},
	{"Memory used", "B", read_memory_used, 1, false, false},
	{"Throttled by power", "", read_power_throttling, 1, false, false},
	{"Throttled by heat", "", read_heat_throttling, 1, false, false},
	{"Throttled by the chip", "", read_chip_throttling, 1, false, false},
	{"NVLink sent", "B/s", read_nvlink_sent, 1024, true, false},
	{"NVLink received", "B/s", read_nvlink_received, 1024, true, false},
	/* Each reading takes 20 ms, during which the driver counts. */
	{"PCIe sent", "B/s", read_pcie_sent, 1024, false, true},
	{"PCIe received", "B/s", read_pcie_received, 1024, false, true},
	{"Memory errors corrected", "1/s", read_ecc_corrected, 1, true, true},
	{"Memory errors uncorrected", "1/s", read_ecc_uncorrected, 1, true, true},
};

/* ---- GPUs ---- */

struct gpu {
	nvml_device device;
	uint32_t metric[WS_COUNT(readings)];
	bool silent[WS_COUNT(readings)];  /* the GPU does not provide this value */
	uint8_t dear[WS_COUNT(readings)]; /* times in a row that reading it took too long */
};

struct gpus {
	struct nvml nvml;
	void *library;
	nvml_event_set events;
	bool tried, loaded;
	struct gpu gpu[MOST_DEVICES];
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

	if (gpus->nvml.get_handle(index, &gpu->device) != NVML_SUCCESS)
		return;
	if (gpus->nvml.get_name)
		gpus->nvml.get_name(gpu->device, name, sizeof(name));
	if (gpus->nvml.get_uuid)
		gpus->nvml.get_uuid(gpu->device, uuid, sizeof(uuid));
	for (size_t i = 0; i < WS_COUNT(readings); i++) {
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

/* Some drivers take milliseconds of processor time for a value (H100, driver 580: 5 ms for the
 * energy): it is read once a second from then on, and at the end, so that totals stay whole. */
static void note_cost(struct gpu *gpu, size_t i, uint64_t ns)
{
	if (gpu->dear[i] >= DEAR_TIMES)
		return;
	if (ns > DEAR_NS)
		gpu->dear[i]++;
	else
		gpu->dear[i] = 0;
}

static bool is_reading_due(const struct ws_metrics *metrics, const struct gpu *gpu, size_t i)
{
	if (gpu->silent[i])
		return false;
	if (readings[i].slow)
		return ws_metric_is_slow_turn(metrics);
	return gpu->dear[i] < DEAR_TIMES || ws_metric_is_slow_turn(metrics) ||
	       ws_metric_is_last_turn(metrics);
}

static void read_gpu(struct ws_metrics *metrics, const struct nvml *nvml, struct gpu *gpu)
{
	struct answers answers = {.nvml = nvml, .device = gpu->device};

	for (size_t i = 0; i < WS_COUNT(readings); i++) {
		const struct reading *reading = &readings[i];
		uint64_t number, before;

		if (!is_reading_due(metrics, gpu, i))
			continue;
		before = ws_metric_read_processor_ns();
		gpu->silent[i] = !reading->read(&answers, &number);
		note_cost(gpu, i, ws_metric_read_processor_ns() - before);
		if (gpu->silent[i])
			continue;
		if (reading->rate)
			ws_metric_put_total(metrics, gpu->metric[i], number, reading->scale);
		else
			ws_metric_put(metrics, gpu->metric[i], (double)number * reading->scale);
	}
}

static void read_nvml(struct ws_metrics *metrics, void *state)
{
	struct gpus *gpus = state;

	if (!gpus->tried && ws_metric_is_worth_more(metrics))
		find_gpus(metrics, gpus);
	for (unsigned i = 0; i < gpus->count; i++)
		read_gpu(metrics, &gpus->nvml, &gpus->gpu[i]);
	look_for_errors(metrics, gpus);
}

const struct ws_metric_source ws_metric_nvml = {
	.groups = 1u << WS_METRIC_GPU, .open = open_nvml, .read = read_nvml, .close = close_nvml};
