/* gpm.c - see gpm.h. */
#include "metrics/gpm.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "base/ticks.h"
#include "metrics/nvml_abi.h"

#define MEBIBYTE 1048576.0
enum { MOST_LINKS = 18 };

static const struct {
	unsigned id; /* NVML's */
	const char *name, *unit;
	double scale;
} rows[] = {
	{2, "SM Active", "%", 1},
	{3, "SM Occupancy", "%", 1},
	{5, "Tensor Active", "%", 1},
	{10, "DRAM Bandwidth", "%", 1},
	{1, "GR Active", "%", 1},
	{11, "FP64 Active", "%", 1},
	{12, "FP32 Active", "%", 1},
	{13, "FP16 Active", "%", 1},
	{21, "PCIe RX Rate", "B/s", MEBIBYTE},
	{20, "PCIe TX Rate", "B/s", MEBIBYTE},
	{60, "NVLink RX Rate", "B/s", MEBIBYTE},
	{61, "NVLink TX Rate", "B/s", MEBIBYTE},
};

struct functions {
#define NVML_GPM_FUNCTION(member, name, arguments) int(*member) arguments;
	NVML_GPM_FUNCTIONS
#undef NVML_GPM_FUNCTION
};

struct ws_gpm {
	struct functions nvml;
	nvml_device device;
	nvml_gpm_sample sample[2]; /* the last reading is in the first one */
	uint64_t last;		   /* time of the last reading, raw ns; 0: there is none */
};

/* NVML is loaded once and stays. */
static bool load(struct functions *nvml)
{
	const char *test = getenv("WARPSIGHT_NVML"); /* for tests: a stand-in */
	void *library = dlopen(test ? test : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return false;
#define NVML_GPM_FUNCTION(member, name, arguments) *(void **)&nvml->member = dlsym(library, name);
	NVML_GPM_FUNCTIONS
#undef NVML_GPM_FUNCTION
	return nvml->init && nvml->get_by_uuid && nvml->init() == NVML_SUCCESS;
}

static bool is_supported(const struct ws_gpm *gpm)
{
	struct nvml_gpm_support support = {.version = 1};
	const struct functions *nvml = &gpm->nvml;

	return nvml->gpm_support && nvml->gpm_alloc && nvml->gpm_free && nvml->gpm_sample &&
	       nvml->gpm_metrics && nvml->gpm_support(gpm->device, &support) == NVML_SUCCESS &&
	       support.supported;
}

struct ws_gpm *ws_gpm_open(const char *uuid)
{
	struct ws_gpm *gpm = ws_calloc(1, sizeof(*gpm));

	if (load(&gpm->nvml) && gpm->nvml.get_by_uuid(uuid, &gpm->device) == NVML_SUCCESS &&
	    is_supported(gpm) && gpm->nvml.gpm_alloc(&gpm->sample[0]) == NVML_SUCCESS) {
		if (gpm->nvml.gpm_alloc(&gpm->sample[1]) == NVML_SUCCESS)
			return gpm;
		gpm->nvml.gpm_free(gpm->sample[0]);
	}
	free(gpm);
	return NULL;
}

void ws_gpm_free(struct ws_gpm *gpm)
{
	if (!gpm)
		return;
	gpm->nvml.gpm_free(gpm->sample[0]);
	gpm->nvml.gpm_free(gpm->sample[1]);
	free(gpm);
}

const char *ws_gpm_name(unsigned index, const char **unit)
{
	_Static_assert(WS_COUNT(rows) <= WS_GPM_MOST, "more rows than readers have room for");
	if (index >= WS_COUNT(rows))
		return NULL;
	*unit = rows[index].unit;
	return rows[index].name;
}

void ws_gpm_restart(struct ws_gpm *gpm)
{
	gpm->last = 0;
}

/* Compute the means between the two samples. */
static bool compute(struct ws_gpm *gpm, float *values)
{
	struct nvml_gpm_metrics metrics = {.version = 1,
					   .count = WS_COUNT(rows),
					   .first = gpm->sample[0],
					   .second = gpm->sample[1]};

	for (size_t i = 0; i < WS_COUNT(rows); i++)
		metrics.metrics[i].id = rows[i].id;
	if (gpm->nvml.gpm_metrics(&metrics) != NVML_SUCCESS)
		return false;
	for (size_t i = 0; i < WS_COUNT(rows); i++) {
		values[i] = NAN;
		if (metrics.metrics[i].error == NVML_SUCCESS)
			values[i] = (float)(metrics.metrics[i].value * rows[i].scale);
	}
	return true;
}

bool ws_gpm_read(struct ws_gpm *gpm, float *values, uint64_t *since, uint64_t *now)
{
	nvml_gpm_sample last = gpm->sample[0];
	bool known = false;

	*since = gpm->last;
	*now = ws_read_raw_ns();
	if (*since && *now - *since < WS_GPM_PERIOD_NS)
		return false;
	if (gpm->nvml.gpm_sample(gpm->device, gpm->sample[1]) != NVML_SUCCESS)
		return false;
	if (*since)
		known = compute(gpm, values);
	gpm->sample[0] = gpm->sample[1];
	gpm->sample[1] = last;
	gpm->last = *now;
	return known;
}

int ws_gpm_find_number(const char *uuid)
{
	struct functions nvml;
	nvml_device device;
	unsigned number;

	if (!load(&nvml) || !nvml.get_index || nvml.get_by_uuid(uuid, &device) != NVML_SUCCESS ||
	    nvml.get_index(device, &number) != NVML_SUCCESS)
		return -1;
	return (int)number;
}

/* The number of links whose state is known; *active: how many of these are active. */
static unsigned look_at_links(const char *uuid, unsigned *active)
{
	struct functions nvml;
	nvml_device device;
	unsigned known = 0;

	*active = 0;
	if (!load(&nvml) || !nvml.get_link || nvml.get_by_uuid(uuid, &device) != NVML_SUCCESS)
		return 0;
	for (unsigned link = 0; link < MOST_LINKS; link++) {
		int state = 0;

		known += nvml.get_link(device, link, &state) == NVML_SUCCESS;
		*active += state != 0;
	}
	return known;
}

bool ws_gpm_has_idle_links(const char *uuid)
{
	unsigned active, known = look_at_links(uuid, &active);

	return known && !active;
}

unsigned ws_gpm_count_links(const char *uuid)
{
	unsigned active;

	look_at_links(uuid, &active);
	return active;
}
