/*
 * pm_plan.c - see pm_plan.h.
 *
 * "UNIT__NAME.avg.pct_of_peak_sustained_elapsed" is 100 * sum / (peak * cycles), where `sum` is
 * "UNIT__NAME.sum", `peak` is the constant "UNIT__NAME.sum.peak_sustained", and `cycles` are those
 * of the unit's clock; "NAME.sum.per_second" is a quantity divided by the time of the sample. On an
 * H100 this also leaves out 72 of 283 records a sample, with the cycles of each SM.
 */
#include "metrics/pm_plan.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"

enum { MOST_COUNTERS = 3 * WS_PM_MOST_METRICS };

#define TIME "gpu__time_duration.sum"
#define CYCLES "__cycles_elapsed.avg"
#define SHARE ".pct_of_peak_sustained_elapsed"
#define RATE ".per_second"
#define TOLERANCE 2e-3	/* relative; clocks of units of one kind differ by less */
#define NEGLIGIBLE 1e-3 /* absolute: far less than a share is rounded by */

/* value = scale * quantity / divisor. */
struct formula {
	bool direct;		  /* CUPTI evaluates the metric: `quantity` is its value */
	size_t quantity, divisor; /* indices of counters; divisor: SIZE_MAX if there is none */
	char *peak;		  /* the constant that the scale follows from, or NULL */
	double scale;		  /* 0: not known yet */
};

struct ws_pm_plan {
	const struct pm_functions *cupti;
	const struct ws_pm_fit *fit;
	struct formula *formulas; /* of the fit's metrics */
	const char *counters[MOST_COUNTERS];
	size_t count;
	const char **configured; /* the counters of the configuration, which stays as it is */
	size_t configured_count;
	double values[MOST_COUNTERS]; /* of the counters */
	double *own;		      /* CUPTI's values of the metrics, to compare */
	double *computed;
};

/* ---- names ---- */

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), n = strlen(end);

	return length >= n && !strcmp(text + length - n, end);
}

/* The name of the counter without its rollup: "sm__cycles_active" of
 * "sm__cycles_active.avg.per_second". */
static char *copy_base(const char *metric)
{
	const char *unit = strstr(metric, "__"), *dot = unit ? strchr(unit, '.') : NULL;

	return dot ? ws_format("%.*s", (int)(dot - metric), metric) : NULL;
}

/* The cycles of the clock that a unit runs with. SMs have that of their GPC. */
static char *name_cycles(const char *base)
{
	static const char *const of_gpc[] = {"sm", "smsp", "tpc", "l1tex"};
	const char *end = strstr(base, "__"), *unit = end;
	int length;

	while (unit > base && unit[-1] != '.')
		unit--;
	length = (int)(end - unit);
	for (size_t i = 0; i < WS_COUNT(of_gpc); i++)
		if (strlen(of_gpc[i]) == (size_t)length && !strncmp(of_gpc[i], unit, length))
			return ws_strdup("gpc" CYCLES);
	return ws_format("%.*s" CYCLES, length, unit);
}

/* The index of a counter, which is added if it is new. Takes ownership of the name. */
static size_t add_counter(struct ws_pm_plan *plan, char *name)
{
	for (size_t i = 0; i < plan->count; i++)
		if (!strcmp(plan->counters[i], name)) {
			free(name);
			return i;
		}
	plan->counters[plan->count] = name;
	return plan->count++;
}

/* ---- planning ---- */

static void plan_share(struct ws_pm_plan *plan, struct formula *formula, const char *base)
{
	formula->quantity = add_counter(plan, ws_format("%s.sum", base));
	formula->divisor = add_counter(plan, name_cycles(base));
	formula->peak = ws_format("%s.sum.peak_sustained", base);
}

static void plan_rate(struct ws_pm_plan *plan, struct formula *formula, const char *metric)
{
	size_t length = strlen(metric) - strlen(RATE);

	formula->quantity = add_counter(plan, ws_format("%.*s", (int)length, metric));
	formula->divisor = add_counter(plan, ws_strdup(TIME));
	formula->scale = 1e9;
}

static void plan_metric(struct ws_pm_plan *plan, size_t index)
{
	const char *metric = plan->fit->names[index];
	struct formula *formula = &plan->formulas[index];
	char *base = copy_base(metric);
	bool is_share = ends_with(metric, SHARE) && !strstr(metric, "throughput");

	formula->direct |= !base || (!is_share && !ends_with(metric, RATE));
	if (formula->direct) {
		formula->quantity = add_counter(plan, ws_strdup(metric));
		formula->divisor = SIZE_MAX;
		formula->scale = 1;
	} else if (is_share) {
		plan_share(plan, formula, base);
	} else {
		plan_rate(plan, formula, metric);
	}
	free(base);
}

static void forget_formulas(struct ws_pm_plan *plan)
{
	for (size_t i = 0; i < plan->fit->count; i++) {
		free(plan->formulas[i].peak);
		plan->formulas[i] = (struct formula){.direct = plan->formulas[i].direct};
	}
	while (plan->count)
		free((char *)plan->counters[--plan->count]);
}

/* Plan all metrics, those that are marked as direct by CUPTI's own evaluation. */
static void plan_metrics(struct ws_pm_plan *plan)
{
	forget_formulas(plan);
	for (size_t i = 0; i < plan->fit->count; i++)
		plan_metric(plan, i);
}

static void keep_configured(struct ws_pm_plan *plan)
{
	plan->configured = ws_malloc(plan->count * sizeof(*plan->configured));
	for (size_t i = 0; i < plan->count; i++)
		plan->configured[i] = ws_strdup(plan->counters[i]);
	plan->configured_count = plan->count;
}

struct ws_pm_plan *ws_pm_plan_new(const struct pm_functions *cupti, const char *chip,
				  const uint8_t *availability, struct ws_pm_fit *fit)
{
	struct ws_pm_plan *plan = ws_calloc(1, sizeof(*plan));

	plan->cupti = cupti;
	plan->fit = fit;
	plan->formulas = ws_calloc(fit->count, sizeof(*plan->formulas));
	plan->own = ws_calloc(fit->count, sizeof(*plan->own));
	plan->computed = ws_calloc(fit->count, sizeof(*plan->computed));
	plan_metrics(plan);
	if (!ws_pm_fit_names(cupti, chip, availability, plan->counters, plan->count, fit)) {
		for (size_t i = 0; i < fit->count; i++)
			plan->formulas[i].direct = true;
		plan_metrics(plan);
	}
	keep_configured(plan);
	return plan;
}

const char **ws_pm_plan_counters(const struct ws_pm_plan *plan, size_t *count)
{
	*count = plan->configured_count;
	return plan->configured;
}

void ws_pm_plan_free(struct ws_pm_plan *plan)
{
	if (!plan)
		return;
	forget_formulas(plan);
	for (size_t i = 0; i < plan->configured_count; i++)
		free((char *)plan->configured[i]);
	free(plan->configured);
	free(plan->formulas);
	free(plan->own);
	free(plan->computed);
	free(plan);
}

size_t ws_pm_plan_count_computed(const struct ws_pm_plan *plan)
{
	size_t count = 0;

	for (size_t i = 0; i < plan->fit->count; i++)
		count += !plan->formulas[i].direct;
	return count;
}

/* ---- evaluating ---- */

static int ask_cupti(const struct ws_pm_plan *plan, const struct ws_pm_place *place,
		     const char **names, size_t count, double *values)
{
	struct pm_host_evaluate evaluate = {.size = PM_SIZE(pm_host_evaluate, values),
					    .host = place->host,
					    .image = place->image,
					    .bytes = place->bytes,
					    .range = place->index,
					    .names = names,
					    .count = count,
					    .values = values};

	return plan->cupti->host_evaluate(&evaluate);
}

/* Peaks are constants of the chip, but are evaluated like metrics. */
static int read_scale(struct ws_pm_plan *plan, const struct ws_pm_place *place,
		      struct formula *formula)
{
	double peak = 0;
	int error = ask_cupti(plan, place, (const char **)&formula->peak, 1, &peak);

	formula->scale = peak > 0 ? 100 / peak : (double)NAN;
	return error;
}

int ws_pm_plan_evaluate(struct ws_pm_plan *plan, const struct ws_pm_place *place, double *values)
{
	int error = ask_cupti(plan, place, plan->counters, plan->count, plan->values);

	for (size_t i = 0; i < plan->fit->count && !error; i++) {
		struct formula *formula = &plan->formulas[i];

		if (formula->scale == 0)
			error = read_scale(plan, place, formula);
		values[i] = formula->scale * plan->values[formula->quantity];
		if (formula->divisor != SIZE_MAX)
			values[i] /= plan->values[formula->divisor];
	}
	return error;
}

/* CUPTI's own value is not a number where it would need counters that are not counted. */
static bool agree(double computed, double own)
{
	if (!isfinite(own))
		return true;
	return fabs(computed - own) <= TOLERANCE * fabs(own) + NEGLIGIBLE;
}

int ws_pm_plan_check(struct ws_pm_plan *plan, const struct ws_pm_place *place)
{
	bool differ = false;
	int error = 0;

	if (!ws_pm_plan_count_computed(plan))
		return 0;
	error = ask_cupti(plan, place, plan->fit->names, plan->fit->count, plan->own);
	if (!error)
		error = ws_pm_plan_evaluate(plan, place, plan->computed);
	for (size_t i = 0; i < plan->fit->count && !error; i++)
		if (!agree(plan->computed[i], plan->own[i]))
			differ = plan->formulas[i].direct = true;
	if (differ)
		plan_metrics(plan);
	return error;
}
