/*
 * pm_plan.c - see pm_plan.h.
 *
 * "UNIT__NAME.avg.pct_of_peak_sustained_elapsed" is 100 * sum / (peak * cycles), where `sum` is
 * "UNIT__NAME.sum", `peak` is the constant "UNIT__NAME.sum.peak_sustained", and `cycles` are those
 * of the unit's clock; "NAME.sum.per_second" is a quantity divided by the time of the sample. On an
 * H100, decoding takes 0.04 us and evaluating 0.01 us for each counter of each unit. So the cycles
 * of the SMs are not counted but those of their GPC, and clocks that hardly ever change, those of
 * memory and links, are evaluated for one sample of an image only.
 */
#include "metrics/pm_plan.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "metrics/pm_evaluator.h"

enum { MOST_COUNTERS = 3 * WS_PM_MOST_METRICS };

#define CYCLES "__cycles_elapsed.avg"
#define SHARE ".pct_of_peak_sustained_elapsed"
#define RATE ".per_second"
#define TOLERANCE 2e-3	/* relative; clocks of units of one kind differ by less */
#define ALIKE 0.2	/* relative; the clock may change from one sample to the next */
#define NEGLIGIBLE 1e-3 /* absolute: far less than a share is rounded by */

/* value = scale * quantity / divisor. */
struct formula {
	bool direct;	 /* CUPTI evaluates the metric: `quantity` is its value */
	size_t quantity; /* index of a counter */
	enum divisor { NOTHING, COUNTER, CLOCK, INTERVAL } by;
	size_t divisor; /* index of a counter or of a clock */
	bool proven;	/* a value other than 0 was CUPTI's own */
	char *peak;	/* the constant that the scale follows from, or NULL */
	double scale;	/* 0: not known yet */
};

/* Names of what is evaluated together, and the values. In images of sums, "X.sum" is evaluated
 * instead of "X.avg" as well, and `factors` make it the value that CUPTI's image would have. */
struct counters {
	const char *names[MOST_COUNTERS], *sum_names[MOST_COUNTERS];
	double values[MOST_COUNTERS], factors[MOST_COUNTERS];
	double units[MOST_COUNTERS]; /* units of the chip that the counter counts in */
	size_t count;
};

/* A counter by which images are compared. */
struct pilot {
	const struct counters *counters; /* NULL: there is none */
	size_t index;
};

/* What images of sums hold of a counter. */
enum held { UNKNOWN, TOTALS, MEANS };

struct ws_pm_plan {
	const struct pm_functions *cupti;
	const struct ws_pm_fit *fit;
	struct formula *formulas; /* of the fit's metrics */
	struct counters counters; /* of each sample */
	struct counters clocks;	  /* of one sample of an image; values: cycles a ns */
	const char **configured;  /* the counters of the configuration, which stays as it is */
	size_t configured_count;
	double *own; /* CUPTI's values of the metrics, to compare */
	double *computed;
	bool has_units; /* the units of each counter are known */
	bool uses_sums, needs_comparison;
	enum held held;
	struct ws_pm_evaluator *evaluator; /* NULL: there is none that agrees with CUPTI */
	bool uses_evaluator;		   /* it has been told what to evaluate */
	bool confirmed[MOST_COUNTERS];	   /* the evaluator's value was CUPTI's */
	double cycles; /* of the clock that compares images, by ns, in CUPTI's last image */
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

/* The unit whose clock a unit runs with; *steady: that clock hardly ever changes. Links that carry
 * nothing run at a fifteenth of their clock. */
static char *find_clock(const char *base, bool *steady)
{
	static const struct {
		const char *unit, *clock;
	} known[] = {{"nvlrx", "nvlrx"}, {"nvltx", "nvltx"}, {"sm", "gpc"},
		     {"smsp", "gpc"},	 {"tpc", "gpc"},     {"l1tex", "gpc"},
		     {"gpc", "gpc"},	 {"gr", "sys"},	     {"sys", "sys"}};
	const char *end = strstr(base, "__"), *unit = end;
	size_t length;

	while (unit > base && unit[-1] != '.')
		unit--;
	length = (size_t)(end - unit);
	*steady = false;
	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (strlen(known[i].unit) == length && !strncmp(known[i].unit, unit, length))
			return ws_format("%s" CYCLES, known[i].clock);
	*steady = true;
	return ws_format("%.*s" CYCLES, (int)length, unit);
}

/* The index of a counter, which is added if it is new. Takes ownership of the name. */
static size_t add_counter(struct counters *counters, char *name)
{
	for (size_t i = 0; i < counters->count; i++)
		if (!strcmp(counters->names[i], name)) {
			free(name);
			return i;
		}
	counters->names[counters->count] = name;
	counters->sum_names[counters->count] = NULL;
	return counters->count++;
}

static void free_counters(struct counters *counters)
{
	while (counters->count) {
		free((char *)counters->names[--counters->count]);
		free((char *)counters->sum_names[counters->count]);
	}
}

/* ---- planning ---- */

static void plan_share(struct ws_pm_plan *plan, struct formula *formula, const char *base)
{
	bool steady;
	char *clock = find_clock(base, &steady);

	formula->quantity = add_counter(&plan->counters, ws_format("%s.sum", base));
	formula->by = COUNTER;
	if (steady)
		formula->by = CLOCK;
	formula->divisor = add_counter(steady ? &plan->clocks : &plan->counters, clock);
	formula->peak = ws_format("%s.sum.peak_sustained", base);
}

static void plan_rate(struct ws_pm_plan *plan, struct formula *formula, const char *metric)
{
	size_t length = strlen(metric) - strlen(RATE);

	formula->quantity = add_counter(&plan->counters, ws_format("%.*s", (int)length, metric));
	formula->by = INTERVAL;
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
		formula->quantity = add_counter(&plan->counters, ws_strdup(metric));
		formula->by = NOTHING;
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
		plan->formulas[i] = (struct formula){.direct = plan->formulas[i].direct,
						     .proven = plan->formulas[i].proven};
	}
	free_counters(&plan->counters);
	free_counters(&plan->clocks);
	plan->has_units = plan->uses_sums = plan->uses_evaluator = false;
	plan->held = UNKNOWN;
}

/* Plan all metrics, those that are marked as direct by CUPTI's own evaluation. */
static void plan_metrics(struct ws_pm_plan *plan)
{
	forget_formulas(plan);
	for (size_t i = 0; i < plan->fit->count; i++)
		plan_metric(plan, i);
}

/* Everything that is to be counted. */
static void collect_configured(struct ws_pm_plan *plan)
{
	const struct counters *lists[] = {&plan->counters, &plan->clocks};

	plan->configured = ws_malloc((plan->counters.count + plan->clocks.count + 1) *
				     sizeof(*plan->configured));
	for (size_t list = 0; list < WS_COUNT(lists); list++)
		for (size_t i = 0; i < lists[list]->count; i++)
			plan->configured[plan->configured_count++] =
				ws_strdup(lists[list]->names[i]);
}

static void forget_configured(struct ws_pm_plan *plan)
{
	while (plan->configured_count)
		free((char *)plan->configured[--plan->configured_count]);
	free(plan->configured);
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
	collect_configured(plan);
	if (ws_pm_fit_names(cupti, chip, availability, plan->configured, plan->configured_count,
			    fit))
		return plan;
	for (size_t i = 0; i < fit->count; i++)
		plan->formulas[i].direct = true;
	plan_metrics(plan);
	forget_configured(plan);
	collect_configured(plan);
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
	forget_configured(plan);
	free(plan->formulas);
	free(plan->own);
	free(plan->computed);
	free(plan);
}

size_t ws_pm_plan_count_evaluated(const struct ws_pm_plan *plan)
{
	return plan->counters.count;
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

static bool are_same(const double *ours, const double *others, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ours[i] != others[i] && !(isnan(ours[i]) && isnan(others[i])))
			return false;
	return true;
}

/* Whether each value has been compared with CUPTI's since the last check, or is 0. */
static bool are_confirmed(const struct ws_pm_plan *plan, const double *values)
{
	for (size_t i = 0; i < plan->counters.count; i++)
		if (values[i] != 0 && !plan->confirmed[i])
			return false;
	return true;
}

static void forget_evaluator(struct ws_pm_plan *plan)
{
	plan->evaluator = NULL;
	plan->uses_evaluator = false;
}

/* Have CUPTI evaluate the counters as well. Its values are right, and if they are others, the
 * evaluator is not used again. */
static int confirm_values(struct ws_pm_plan *plan, const struct ws_pm_place *place)
{
	struct counters *counters = &plan->counters;
	double quick[MOST_COUNTERS];
	int error;

	memcpy(quick, counters->values, counters->count * sizeof(*quick));
	error = ask_cupti(plan, place, counters->sum_names, counters->count, counters->values);
	if (error || !are_same(quick, counters->values, counters->count))
		forget_evaluator(plan);
	for (size_t i = 0; i < counters->count; i++)
		plan->confirmed[i] |= quick[i] != 0;
	return error;
}

static int evaluate_quickly(struct ws_pm_plan *plan, const struct ws_pm_place *place)
{
	int error = ws_pm_evaluator_evaluate(plan->evaluator, place, plan->counters.values);

	if (error || !are_confirmed(plan, plan->counters.values))
		error = confirm_values(plan, place);
	return error;
}

static int read_counters(struct ws_pm_plan *plan, const struct ws_pm_place *place,
			 struct counters *counters)
{
	const char **names = place->sums ? counters->sum_names : counters->names;
	int error = 0;

	if (place->sums && plan->uses_evaluator && counters == &plan->counters)
		error = evaluate_quickly(plan, place);
	else if (counters->count)
		error = ask_cupti(plan, place, names, counters->count, counters->values);
	for (size_t i = 0; i < counters->count && place->sums; i++)
		counters->values[i] *= counters->factors[i];
	return error;
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

static double get_divisor(const struct ws_pm_plan *plan, const struct formula *formula,
			  const struct ws_pm_place *place)
{
	switch (formula->by) {
	case COUNTER:
		return plan->counters.values[formula->divisor];
	case CLOCK:
		return plan->clocks.values[formula->divisor] * (double)place->interval;
	case INTERVAL:
		return (double)place->interval;
	default:
		return 1;
	}
}

static int read_clocks(struct ws_pm_plan *plan, const struct ws_pm_place *place)
{
	struct counters *clocks = &plan->clocks;
	int error = read_counters(plan, place, clocks);

	for (size_t i = 0; i < clocks->count; i++)
		clocks->values[i] /= (double)place->interval;
	return error;
}

/* CUPTI's own value is not a number where it would need counters that are not counted. */
static bool agree(double computed, double own)
{
	if (!isfinite(own))
		return true;
	return fabs(computed - own) <= TOLERANCE * fabs(own) + NEGLIGIBLE;
}

static int compute(struct ws_pm_plan *plan, const struct ws_pm_place *place, double *values)
{
	struct counters *counters = &plan->counters;
	int error = read_counters(plan, place, counters);

	for (size_t i = 0; i < plan->fit->count && !error; i++) {
		struct formula *formula = &plan->formulas[i];

		if (formula->scale == 0)
			error = read_scale(plan, place, formula);
		values[i] = formula->scale * counters->values[formula->quantity] /
			    get_divisor(plan, formula, place);
	}
	return error;
}

/* Compare computed values with CUPTI's. */
static int compare_metrics(struct ws_pm_plan *plan, const struct ws_pm_place *place)
{
	bool differ = false;
	int error = ask_cupti(plan, place, plan->fit->names, plan->fit->count, plan->own);

	if (!error)
		error = compute(plan, place, plan->computed);
	for (size_t i = 0; i < plan->fit->count && !error; i++) {
		plan->formulas[i].proven |= plan->computed[i] != 0;
		if (!agree(plan->computed[i], plan->own[i]))
			differ = plan->formulas[i].direct = true;
	}
	if (differ)
		plan_metrics(plan);
	if (differ && !error)
		error = read_clocks(plan, place);
	return error;
}

static bool is_proven(const struct ws_pm_plan *plan, const double *values)
{
	for (size_t i = 0; i < plan->fit->count; i++)
		if (!plan->formulas[i].direct && !plan->formulas[i].proven && values[i] != 0)
			return false;
	return true;
}

int ws_pm_plan_evaluate(struct ws_pm_plan *plan, const struct ws_pm_place *place, double *values)
{
	int error = compute(plan, place, values);

	if (error || is_proven(plan, values))
		return error;
	plan->needs_comparison = place->sums;
	if (place->sums)
		return 0;
	error = compare_metrics(plan, place);
	return error ? error : compute(plan, place, values);
}

void ws_pm_plan_set_evaluator(struct ws_pm_plan *plan, struct ws_pm_evaluator *evaluator)
{
	plan->evaluator = evaluator;
	plan->uses_evaluator = false;
}

/* Use the evaluator from here on, with new comparisons. */
static void renew_evaluator(struct ws_pm_plan *plan, const struct ws_pm_place *place)
{
	struct counters *counters = &plan->counters;

	memset(plan->confirmed, 0, sizeof(plan->confirmed));
	if (!plan->evaluator || plan->uses_evaluator)
		return;
	plan->uses_evaluator = ws_pm_evaluator_choose(plan->evaluator, place, counters->sum_names,
						      counters->count);
	if (!plan->uses_evaluator)
		plan->evaluator = NULL;
}

int ws_pm_plan_check(struct ws_pm_plan *plan, const struct ws_pm_place *place)
{
	int error;

	if (place->sums)
		renew_evaluator(plan, place);
	if (!ws_pm_plan_count_computed(plan))
		return 0;
	error = read_clocks(plan, place);
	if (!error && !place->sums)
		error = compare_metrics(plan, place);
	return error;
}

/* ---- images of sums ---- */

/* How many units have the counter: their peaks add up. 0: not known. */
static double count_units(const struct ws_pm_plan *plan, const struct ws_pm_place *place,
			  const char *base)
{
	char *names[2] = {ws_format("%s.sum.peak_sustained", base),
			  ws_format("%s.avg.peak_sustained", base)};
	double peaks[2] = {0, 0};
	int error = ask_cupti(plan, place, (const char **)names, 2, peaks);

	free(names[0]);
	free(names[1]);
	return !error && peaks[1] > 0 && isfinite(peaks[0] / peaks[1]) ? peaks[0] / peaks[1] : 0;
}

static bool count_all_units(const struct ws_pm_plan *plan, const struct ws_pm_place *place,
			    struct counters *counters)
{
	bool known = true;

	for (size_t i = 0; i < counters->count && known; i++) {
		char *base = copy_base(counters->names[i]);

		known = base && (ends_with(counters->names[i], ".sum") ||
				 ends_with(counters->names[i], ".avg"));
		if (known) {
			counters->units[i] = count_units(plan, place, base);
			free((char *)counters->sum_names[i]);
			counters->sum_names[i] = ws_format("%s.sum", base);
			known = counters->units[i] > 0;
		}
		free(base);
	}
	return known;
}

unsigned ws_pm_plan_count_units(const struct ws_pm_plan *plan, const char *kind)
{
	size_t length = strlen(kind);

	for (size_t i = 0; i < plan->counters.count && plan->has_units; i++)
		if (!strncmp(plan->counters.names[i], kind, length) &&
		    !strncmp(plan->counters.names[i] + length, "__", 2))
			return (unsigned)(plan->counters.units[i] + 0.5);
	return 0;
}

static bool has_several_units(const struct counters *counters)
{
	for (size_t i = 0; i < counters->count; i++)
		if (counters->units[i] > 1.5)
			return true;
	return false;
}

/* The index of a clock that never stops, and that several units count if that matters. */
static size_t find_steady_clock(const struct counters *counters, bool several)
{
	for (size_t i = 0; i < counters->count; i++)
		if (ends_with(counters->names[i], CYCLES) &&
		    strncmp(counters->names[i], "nvl", 3) != 0 &&
		    (!several || counters->units[i] > 1.5))
			return i;
	return SIZE_MAX;
}

/* Sums and means are the same of counters that the chip has once. */
static struct pilot find_pilot(const struct ws_pm_plan *plan)
{
	const struct counters *lists[] = {&plan->counters, &plan->clocks};
	bool several = has_several_units(lists[0]) || has_several_units(lists[1]);

	for (size_t list = 0; list < WS_COUNT(lists) && plan->has_units; list++) {
		size_t at = find_steady_clock(lists[list], several);

		if (at != SIZE_MAX)
			return (struct pilot){lists[list], at};
	}
	return (struct pilot){0};
}

void ws_pm_plan_prepare_sums(struct ws_pm_plan *plan, const struct ws_pm_place *place)
{
	struct pilot pilot;

	if (!plan->has_units)
		plan->has_units = count_all_units(plan, place, &plan->counters) &&
				  count_all_units(plan, place, &plan->clocks);
	pilot = find_pilot(plan);
	plan->uses_sums = pilot.counters && !read_clocks(plan, place) &&
			  !read_counters(plan, place, &plan->counters);
	if (!plan->uses_sums)
		return;
	plan->cycles = pilot.counters->values[pilot.index];
	if (pilot.counters == &plan->counters)
		plan->cycles /= (double)place->interval;
}

bool ws_pm_plan_uses_sums(const struct ws_pm_plan *plan)
{
	return plan->uses_sums;
}

bool ws_pm_plan_needs_comparison(struct ws_pm_plan *plan)
{
	bool needs = plan->needs_comparison;

	plan->needs_comparison = false;
	return needs;
}

static void set_factors(const struct ws_pm_plan *plan, struct counters *counters)
{
	for (size_t i = 0; i < counters->count; i++) {
		counters->factors[i] = 1;
		if (plan->held == MEANS && ends_with(counters->names[i], ".sum"))
			counters->factors[i] = counters->units[i];
		if (plan->held == TOTALS && ends_with(counters->names[i], ".avg"))
			counters->factors[i] = 1 / counters->units[i];
	}
}

bool ws_pm_plan_learn_sums(struct ws_pm_plan *plan, const struct ws_pm_place *place)
{
	struct pilot pilot = find_pilot(plan);
	double cycles = 0, units;

	if (plan->held)
		return true;
	if (!pilot.counters ||
	    ask_cupti(plan, place, (const char **)&pilot.counters->sum_names[pilot.index], 1,
		      &cycles))
		return false;
	cycles /= plan->cycles * (double)place->interval;
	units = pilot.counters->units[pilot.index];
	if (fabs(cycles - 1) < ALIKE)
		plan->held = MEANS;
	else if (fabs(cycles - units) < ALIKE * units)
		plan->held = TOTALS;
	set_factors(plan, &plan->counters);
	set_factors(plan, &plan->clocks);
	plan->uses_sums = plan->held != UNKNOWN;
	return plan->uses_sums;
}
