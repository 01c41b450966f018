/*
 * pm_choose.c - see pm_choose.h.
 *
 * What reading costs was measured on hosts of H100s: with CUPTI's own images, decoding takes about
 * 0.11 us for each record of 32 bytes, and evaluation 0.9 us for each counter. Images of sums,
 * which nearly all readings use where the library can make them, take 0.03 to 0.06 us and 0.15 to
 * 0.2 us.
 */
#include "metrics/pm_choose.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
	USUAL_SAMPLE = 8192, /* bytes, if they are not known */
	RECORD = 32,	     /* bytes */
	COST_OF_SAMPLE = 1000 /* ns */,
	MOST_SHARE = 80,      /* percent of a core... */
	SHORT_PERIOD = 15000, /* ...but when a delay soon loses samples: */
	SHORT_SHARE = 65,
};

static const struct costs {
	size_t record, counter; /* ns */
} own_costs = {110, 900}, sums_costs = {75, 250};

struct chooser {
	const struct pm_library *library;
	const char *chip;
	const uint8_t *availability;
	uint64_t most; /* ns that a sample may take */
	const struct ws_pm_fit *all;
	bool chosen[WS_PM_MOST_METRICS];
};

size_t ws_pm_estimate_record(const struct pm_library *library, const struct ws_pm_fit *fit)
{
	struct pm_estimate estimate = {.size = PM_SIZE(pm_estimate, sample_bytes),
				       .config = fit->config,
				       .config_bytes = fit->config_bytes};

	if (!library->estimate || library->estimate(&estimate) || !estimate.sample_bytes)
		return USUAL_SAMPLE;
	return estimate.sample_bytes;
}

static bool is_fast_enough(const struct chooser *chooser, const struct ws_pm_fit *fit,
			   const struct ws_pm_plan *plan)
{
	const struct costs *costs = chooser->library->has_sums ? &sums_costs : &own_costs;
	size_t bytes = ws_pm_estimate_record(chooser->library, fit),
	       counters = ws_pm_plan_count_evaluated(plan);

	return COST_OF_SAMPLE + bytes / RECORD * costs->record + counters * costs->counter <=
	       chooser->most;
}

/* Whether the metric with this index can be read beside those chosen before. */
static bool can_add(const struct chooser *chooser, size_t index)
{
	const struct ws_pm_fit *all = chooser->all;
	struct ws_pm_fit trial = {.metrics = ws_malloc(all->count * sizeof(*trial.metrics)),
				  .names = ws_malloc(all->count * sizeof(*trial.names))};
	struct ws_pm_plan *plan;
	bool fits;

	for (size_t i = 0; i <= index; i++)
		if (chooser->chosen[i] || i == index) {
			trial.metrics[trial.count] = all->metrics[i];
			trial.names[trial.count++] = all->names[i];
		}
	plan = ws_pm_plan_new(&chooser->library->cupti, chooser->chip, chooser->availability,
			      &trial);
	fits = trial.config && is_fast_enough(chooser, &trial, plan);
	ws_pm_plan_free(plan);
	ws_pm_fit_free(&trial);
	return fits;
}

static bool is_chosen(const struct chooser *chooser, const char *row)
{
	for (size_t i = 0; i < chooser->all->count; i++)
		if (chooser->chosen[i] && !strcmp(chooser->all->metrics[i].row, row))
			return true;
	return false;
}

/* Whether the sampler computes this row from another one, which is not read. */
static bool lacks_other(const struct chooser *chooser, size_t index)
{
	return !strcmp(chooser->all->metrics[index].row, "Unallocated Warps in Active SMs") &&
	       !is_chosen(chooser, "Compute Warps in Flight");
}

/* Mark the metrics that can be read together; false when there is none. */
static bool choose_metrics(struct chooser *chooser)
{
	bool any = false;

	for (size_t i = 0; i < chooser->all->count; i++) {
		chooser->chosen[i] = !lacks_other(chooser, i) && can_add(chooser, i);
		any |= chooser->chosen[i];
	}
	return any;
}

struct ws_pm_plan *ws_pm_choose(const struct pm_library *library, const char *chip,
				const uint8_t *availability, uint64_t period, struct ws_pm_fit *fit)
{
	uint64_t share = period < SHORT_PERIOD ? SHORT_SHARE : MOST_SHARE;
	struct chooser chooser = {library, chip, availability, period * share / 100, fit, {0}};
	struct ws_pm_plan *plan = ws_pm_plan_new(&library->cupti, chip, availability, fit);

	/* If nothing is fast enough, the rate will be lowered while sampling. */
	if (is_fast_enough(&chooser, fit, plan) || !choose_metrics(&chooser))
		return plan;
	ws_pm_plan_free(plan);
	ws_pm_fit_choose(fit, chooser.chosen);
	return ws_pm_plan_new(&library->cupti, chip, availability, fit);
}
