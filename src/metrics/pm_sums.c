/* pm_sums.c - see pm_sums.h. */
#include "metrics/pm_sums.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { MOST_DEVICES = 64, LINEAR = 0 };

struct ws_pm_sums {
	const struct pm_sums_functions *functions;
	size_t device; /* number of the GPU in the library, or of one with the same chip */
	uint8_t *prefix;
	size_t prefix_bytes;
};

static bool has_chip(const struct pm_sums_functions *functions, size_t device, const char *chip)
{
	struct pm_device_names names = {.size = PM_SIZE(pm_device_names, chip), .device = device};

	return !functions->get_names(&names) && names.chip && !strcmp(names.chip, chip);
}

/* The library numbers GPUs as the driver does, unless only some are visible to CUDA: then any GPU
 * with this chip has to do. */
static bool find_device(const struct pm_sums_functions *functions, const char *chip, size_t number,
			size_t *device)
{
	*device = number;
	if (has_chip(functions, number, chip))
		return true;
	for (*device = 0; *device < MOST_DEVICES; ++*device)
		if (has_chip(functions, *device, chip))
			return true;
	return false;
}

/* Ask for all counters of the configuration, as sums. */
static int add_counters(const struct pm_sums_functions *functions, void *builder,
			const struct pm_raw_names *names)
{
	struct pm_raw_request *requests = ws_calloc(names->count, sizeof(*requests));
	struct pm_builder_add add = {.size = PM_SIZE(pm_builder_add, requests),
				     .builder = builder,
				     .request_size = PM_SIZE(pm_raw_request, each),
				     .count = names->count,
				     .requests = requests};
	int error;

	for (size_t i = 0; i < names->count; i++)
		requests[i].name = names->names[i];
	error = functions->add_counters(&add);
	free(requests);
	return error;
}

static bool build_prefix(struct ws_pm_sums *sums, const char *chip,
			 const struct pm_raw_names *names)
{
	const struct pm_sums_functions *functions = sums->functions;
	struct pm_builder builder = {.size = PM_SIZE(pm_builder, chip), .chip = chip};
	struct pm_builder_end end = {.size = PM_SIZE(pm_builder_end, builder)};
	struct pm_prefix prefix = {.size = PM_SIZE(pm_prefix, count)};
	int error = functions->new_builder(&builder);

	if (error)
		return false;
	end.builder = prefix.builder = builder.builder;
	error = add_counters(functions, builder.builder, names);
	if (!error)
		error = functions->get_prefix(&prefix);
	if (!error) {
		sums->prefix = ws_malloc(prefix.count + 1);
		prefix.bytes = sums->prefix;
		prefix.allocated = sums->prefix_bytes = prefix.count;
		error = functions->get_prefix(&prefix);
	}
	functions->free_builder(&end);
	return !error;
}

struct ws_pm_sums *ws_pm_sums_new(const struct pm_library *library, const char *chip,
				  unsigned number, const uint8_t *config, size_t config_bytes)
{
	struct ws_pm_sums *sums = ws_calloc(1, sizeof(*sums));
	struct pm_raw_names names = {.size = PM_SIZE(pm_raw_names, count),
				     .config = config,
				     .config_bytes = config_bytes};
	bool made = false;

	sums->functions = &library->sums;
	if (library->has_sums && find_device(sums->functions, chip, number, &sums->device) &&
	    !sums->functions->get_raw_names(&names) && names.count) {
		names.names = ws_calloc(names.count, sizeof(*names.names));
		made = !sums->functions->get_raw_names(&names) && build_prefix(sums, chip, &names);
		free(names.names);
	}
	if (made)
		return sums;
	ws_pm_sums_free(sums);
	return NULL;
}

void ws_pm_sums_free(struct ws_pm_sums *sums)
{
	if (!sums)
		return;
	free(sums->prefix);
	free(sums);
}

uint8_t *ws_pm_sums_make_image(const struct ws_pm_sums *sums, size_t samples, size_t *bytes)
{
	const struct pm_sums_options options = {.size = PM_SIZE(pm_sums_options, append),
						.prefix = sums->prefix,
						.prefix_bytes = sums->prefix_bytes,
						.samples = (uint32_t)samples,
						.append = LINEAR};
	struct pm_sums_size size = {
		.size = PM_SIZE(pm_sums_size, bytes), .device = sums->device, .options = &options};
	struct pm_sums_initialize initialize = {.size = PM_SIZE(pm_sums_initialize, bytes),
						.device = sums->device,
						.options = &options};

	if (sums->functions->measure(&size))
		return NULL;
	*bytes = initialize.bytes = size.bytes;
	initialize.image = ws_calloc(1, size.bytes);
	if (!sums->functions->initialize(&initialize))
		return initialize.image;
	free(initialize.image);
	return NULL;
}
