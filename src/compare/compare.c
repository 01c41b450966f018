/*
 * compare.c - see compare.h.
 *
 * With one or two runs on each side, the runs do not show how much a machine differs from one run
 * to the next; and such a difference mostly affects all kernels, or all functions, alike. Therefore
 * the median change of all items of a kind is attributed to the machine, as long as it is no larger
 * than machines cause (desc->shift): an item has changed if it did so in addition to that. Where
 * items scatter more than was assumed, all items of that kind are taken to be noisier (Devlin and
 * Roeder, Biometrics 55, 1999; Efron, J. Am. Stat. Assoc. 99, 2004).
 */
#include "compare/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "compare/statistics.h"

enum { LEAST_FOR_SHIFT = 5, LEAST_KERNELS = 3, LEAST_FOR_SPREAD = 8, MANY_RUNS = 6 };
#define MOST_SPREAD 2.0		 /* more noise than this multiple of the assumed is change */
#define DISCOVERIES 0.015	 /* share of reported changes that may be false */
#define DISCOVERIES_OF_GPU 0.025 /* the same of kernels and copies */
#define DISCOVERIES_OF_RUNS 0.01 /* the same where runs show their noise: no floor helps */
#define TYPICAL_FIRST 10.0	/* how much more evidence the totals need than the typical change */
#define STEP_CHANCE 0.005	/* probability that an unchanged step is called changed */
#define INTERVAL 0.05		/* probability outside an interval */
#define SHIFT_LIMIT 3.0		/* standard deviations up to which a shift may be the machine's */
#define SHIFT_LIMIT_OF_FEW 1.5	/* the same where two items that changed could make it up */
#define LEAST_STEP_CHANGE 0.005 /* share of the step time that is worth mentioning */
#define MAD_TO_DEVIATION 1.4826

const char *ws_name_change_verdict(enum ws_change_verdict verdict)
{
	static const char *const names[] = {[WS_CHANGE_SAME] = "no change",
					    [WS_CHANGE_SLOWER] = "slower",
					    [WS_CHANGE_FASTER] = "faster",
					    [WS_CHANGE_NEW] = "new",
					    [WS_CHANGE_GONE] = "gone"};

	return names[verdict];
}

double ws_compute_change(const double values[WS_SIDES])
{
	if (values[0] > 0)
		return values[1] / values[0] - 1;
	if (values[1] > 0)
		return INFINITY;
	return 0;
}

/* ---- adding runs ---- */

void ws_comparison_begin(struct ws_comparison *comparison,
			 const struct ws_comparison_options *options)
{
	memset(comparison, 0, sizeof(*comparison));
	comparison->options = *options;
	comparison->path.title = ws_strdup("critical path");
}

static char *list_gpus(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	struct ws_text list = {0};
	const uint64_t *row;

	while (ws_cursor_next(cursor, &row)) {
		const char *name =
			ws_report_string(report, (uint32_t)row[ws_cuda_device_name], NULL);

		if (*name && !strstr(ws_text_or(list.text, ""), name))
			ws_text_printf(&list, "%s%s", list.len ? ", " : "", name);
	}
	ws_cursor_close(cursor);
	if (!list.text)
		return ws_strdup("");
	return list.text;
}

static double measure_waiting(const struct ws_model *model)
{
	uint64_t running = 0, runnable = 0;

	for (uint32_t id = 0; id < model->thread_count; id++) {
		running += model->threads[id].running;
		runnable += model->threads[id].runnable;
	}
	if (!running)
		return 0;
	return (double)runnable / (double)(running + runnable);
}

/* The share of the critical path that work on GPUs takes. */
static double measure_gpu_share(const struct ws_analysis *analysis)
{
	static const enum ws_cause on_gpu[] = {WS_CAUSE_GPU_COMPUTE, WS_CAUSE_GPU_COMM,
					       WS_CAUSE_GPU_COPY, WS_CAUSE_GPU_DELAY};
	double share = 0;

	for (size_t i = 0; i < WS_COUNT(on_gpu); i++)
		share += ws_analysis_part(analysis, analysis->breakdown.by_cause[on_gpu[i]]);
	return share;
}

/* What waits for cores add to the noise. Where most of a critical path is such waits, the rest of
 * it depends on which thread had to wait; without steps, even more so. */
static double measure_crowding(const struct ws_comparison *comparison, enum ws_item_kind kind,
			       const struct ws_run_facts *run)
{
	double crowding = ws_item_descs[kind].crowding;

	if (comparison->run_count >= MANY_RUNS)
		return 0; /* the runs show the noise */
	if (kind != WS_ITEM_OWN)
		return run->waiting * crowding;
	if (!comparison->has_steps)
		return run->waiting;
	return run->waiting / ws_max(1 - run->waiting, 0.01) * crowding;
}

/*
 * By how much an item of a kind differs between runs like this one. The GPU part of a step differs
 * as kernels do, the rest as code does. A machine whose cores other programs use also has slower
 * cores, because caches and cycles are shared.
 */
static double compute_floor(const struct ws_comparison *comparison, enum ws_item_kind kind,
			    const struct ws_run_facts *run)
{
	const struct ws_item_desc *desc = &ws_item_descs[kind];
	double floor = hypot(desc->floor, measure_crowding(comparison, kind, run));

	if (comparison->options.noise > 0)
		return comparison->options.noise;
	if (kind == WS_ITEM_STEP || kind == WS_ITEM_OWN)
		return run->gpu * ws_item_descs[WS_ITEM_KERNEL].shift + (1 - run->gpu) * floor;
	return floor;
}

static void add_gpus(struct ws_comparison *comparison, const struct ws_analysis *analysis,
		     size_t side)
{
	for (size_t i = 0; i < analysis->model->work.gpus; i++) {
		if (i == comparison->gpu_count) {
			ws_grow(comparison->gpus, comparison->gpu_cap, i + 1);
			comparison->gpus[comparison->gpu_count++] =
				(struct ws_explanation){.title = ws_format("GPU %zu", i)};
		}
		ws_explain_gpu(analysis, i, side, &comparison->gpus[i]);
	}
}

int ws_comparison_add(struct ws_comparison *comparison, size_t side, const struct ws_report *report,
		      const char *path, struct ws_err *err)
{
	struct ws_model_options options = {.step_name = comparison->options.step_name,
					   .to = UINT64_MAX,
					   .whole = comparison->options.whole};
	struct ws_analysis *analysis = ws_analysis_open(report, &options, err);
	struct ws_run_facts *facts;

	if (!analysis)
		return -1;
	ws_grow(comparison->runs, comparison->run_cap, comparison->run_count + 1);
	ws_grow(comparison->items, comparison->items_cap, comparison->run_count + 1);
	comparison->in_slices |= ws_is_cut_in_slices(analysis->model);
	facts = &comparison->runs[comparison->run_count];
	*facts = (struct ws_run_facts){.path = ws_strdup(path),
				       .steps = analysis->steps,
				       .window = analysis->window,
				       .waiting = measure_waiting(analysis->model),
				       .step_name = ws_find_step_form(analysis->model),
				       .gpu = measure_gpu_share(analysis),
				       .gpus = list_gpus(report)};
	ws_items_collect(analysis, &comparison->items[comparison->run_count++]);
	comparison->counts[side]++;
	ws_explain_path(analysis, side, &comparison->path);
	add_gpus(comparison, analysis, side);
	ws_analysis_close(analysis);
	if (!facts->window)
		return ws_fail(err, "%s: nothing happens in it", path);
	return 0;
}

/* ---- what cannot be compared ---- */

/* The steps of one side are marked, those of the other are a sequence of kernels that repeats. */
static int refuse_unmarked(const struct ws_run_facts *first, const struct ws_run_facts *second,
			   struct ws_err *err)
{
	const struct ws_run_facts *unmarked = first;

	if (*first->step_name)
		unmarked = second;
	return ws_fail(err,
		       "no ranges mark the steps of %s as they do those of %s: name ranges that "
		       "both have (--step), or compare the runs as wholes (--whole)",
		       unmarked->path, unmarked == first ? second->path : first->path);
}

static int check_steps(const struct ws_comparison *comparison, struct ws_err *err)
{
	const struct ws_run_facts *first = &comparison->runs[0];

	for (size_t i = 1; i < comparison->run_count; i++) {
		const struct ws_run_facts *one = &comparison->runs[i], *with = first,
					  *without = one;

		if (!first->step_name && !one->step_name)
			continue;
		if (first->step_name && one->step_name) {
			if (!strcmp(first->step_name, one->step_name))
				continue;
			if (!*first->step_name || !*one->step_name)
				return refuse_unmarked(first, one, err);
			return ws_fail(err,
				       "the steps of %s are called '%s', those of %s '%s': name "
				       "ranges that both have (--step), or compare the runs as "
				       "wholes (--whole)",
				       first->path, first->step_name, one->path, one->step_name);
		}
		if (!with->step_name) {
			with = one;
			without = first;
		}
		return ws_fail(err,
			       "%s has %zu steps but %s has none: compare the runs as wholes "
			       "(--whole), or name ranges that both have (--step)",
			       with->path, with->steps, without->path);
	}
	return 0;
}

static int check_gpus(const struct ws_comparison *comparison, struct ws_err *err)
{
	const struct ws_run_facts *first = &comparison->runs[0];

	for (size_t i = 1; i < comparison->run_count && !comparison->options.other_gpu; i++) {
		const struct ws_run_facts *one = &comparison->runs[i];

		if (*first->gpus && *one->gpus && strcmp(first->gpus, one->gpus))
			return ws_fail(err,
				       "%s ran on %s, %s on %s: differences would be the GPU's "
				       "(--other-gpu compares them nevertheless)",
				       first->path, first->gpus, one->path, one->gpus);
	}
	return 0;
}

/* ---- estimates ---- */

/* The runs of a side that have an item; where no run has it, the item did not happen. */
static void list_runs(const struct ws_comparison *comparison, const struct ws_match *match,
		      size_t side, const struct ws_series **series)
{
	size_t first = side ? comparison->counts[0] : 0;

	for (size_t i = 0; i < comparison->counts[side]; i++) {
		series[i] = match->series[first + i];
		if (!series[i])
			series[i] = &comparison->items[first + i].nothing;
	}
}

static double compute_side_floor(const struct ws_comparison *comparison, enum ws_item_kind kind,
				 size_t side)
{
	size_t first = side ? comparison->counts[0] : 0;
	double sum = 0;

	for (size_t i = first; i < first + comparison->counts[side]; i++) {
		double floor = compute_floor(comparison, kind, &comparison->runs[i]);

		sum += floor * floor;
	}
	return sqrt(sum / (double)comparison->counts[side]);
}

/* The floor of an item: what short calls differ by is added to that of the kind. */
static double compute_item_floor(const struct ws_comparison *comparison, enum ws_item_kind kind,
				 const struct ws_runs *runs, size_t side)
{
	double floor = compute_side_floor(comparison, kind, side), mean = 0;

	if (comparison->options.noise > 0 || comparison->run_count >= MANY_RUNS)
		return floor;
	for (size_t i = 0; i < runs->count; i++)
		mean += ws_measure_series(runs->series[i], WS_MEASURE_MEAN) / (double)runs->count;
	if (mean <= 0)
		return floor;
	return hypot(floor, ws_item_descs[kind].floor_ns / mean);
}

static bool is_one_to_one(const struct ws_comparison *comparison)
{
	return comparison->counts[0] == 1 && comparison->counts[1] == 1;
}

static bool is_step(enum ws_item_kind kind)
{
	return kind == WS_ITEM_STEP || kind == WS_ITEM_OWN;
}

static double sum_counts(const struct ws_series *series)
{
	double sum = 0;

	for (size_t i = 0; i < WS_UNITS; i++)
		sum += series->count[i];
	return sum;
}

/* Slices of two runs have no common bounds: an event may fall into one slice or the next. So mean
 * times are compared, and counts of whole runs, by Poisson's distribution. */
static void add_count_change(const struct ws_runs *base, const struct ws_runs *fresh,
			     struct ws_estimate *estimate)
{
	double from = ws_measure_series(base->series[0], WS_MEASURE_COUNT),
	       to = ws_measure_series(fresh->series[0], WS_MEASURE_COUNT), error;

	if (from <= 0 || to <= 0 || from == to)
		return;
	error = sqrt(1 / sum_counts(base->series[0]) + 1 / sum_counts(fresh->series[0]));
	estimate->total.value += log(to / from);
	estimate->typical.value += log(to / from);
	estimate->total.sigma = hypot(estimate->total.sigma, error);
	estimate->typical.sigma = hypot(estimate->typical.sigma, error);
}

/* Removes from a series what the machine does to all items of its kind. */
static struct ws_series adjust_series(const struct ws_comparison *comparison,
				      enum ws_item_kind kind, const struct ws_series *series)
{
	struct ws_series adjusted = *series;

	for (size_t i = 0; i < WS_UNITS && comparison->has_common[kind]; i++)
		adjusted.time[i] *= exp(-comparison->common[kind][i]);
	return adjusted;
}

static void estimate_measure(const struct ws_comparison *comparison, const struct ws_change *change,
			     enum ws_measure measure, struct ws_measured *measured)
{
	const struct ws_series **series =
		ws_malloc(comparison->run_count * sizeof(const struct ws_series *));
	struct ws_runs base = {series, comparison->counts[0]},
		       fresh = {series + comparison->counts[0], comparison->counts[1]};
	struct ws_floor floor = {0};
	enum ws_measure basis = measure;
	struct ws_series adjusted;

	list_runs(comparison, change->match, 0, series);
	list_runs(comparison, change->match, 1, series + comparison->counts[0]);
	for (size_t i = 0; i < comparison->run_count; i++)
		measured->values[i >= comparison->counts[0]] +=
			ws_measure_series(series[i], measure) /
			(double)comparison->counts[i >= comparison->counts[0]];
	if (measure != WS_MEASURE_COUNT)
		floor = (struct ws_floor){compute_item_floor(comparison, change->kind, &base, 0),
					  compute_item_floor(comparison, change->kind, &fresh, 1)};
	if (is_one_to_one(comparison)) {
		adjusted = adjust_series(comparison, change->kind, series[1]);
		series[1] = &adjusted;
	}
	if (comparison->in_slices && !is_step(change->kind) && is_one_to_one(comparison) &&
	    measure == WS_MEASURE_TIME)
		basis = WS_MEASURE_MEAN;
	ws_estimate_change(&base, &fresh, basis, &floor, &measured->estimate);
	if (basis != measure)
		add_count_change(&base, &fresh, &measured->estimate);
	free(series);
}

/*
 * The standard error of what the machine does to one of two kernels: where the other has changed
 * little, or the other way, the machine has done little to either. Of two independent sources, what
 * machines usually do and what the other kernel shows, the weights are the inverse variances.
 */
static double compute_control_error(const struct ws_ratio *control, const struct ws_ratio *ratio,
				    double usual)
{
	double same_way = 0;

	if (control->value * ratio->value > 0)
		same_way = control->value;
	return hypot(same_way,
		     1 / sqrt(1 / (usual * usual) + 1 / (control->sigma * control->sigma)));
}

static double find_shift_error(const struct ws_comparison *comparison,
			       const struct ws_change *change, const struct ws_ratio *ratio)
{
	const struct ws_control *control = comparison->controls;
	double usual = comparison->shift_error[change->kind];

	if (control->match == change->match)
		control++;
	if (change->kind != WS_ITEM_KERNEL || !control->match || usual <= 0)
		return usual;
	return ws_min(usual, compute_control_error(&control->ratio, ratio, usual));
}

/* Adds the uncertainty about the machine, and the noise of the kind, to an item's estimate. */
static void complete_estimate(const struct ws_comparison *comparison,
			      const struct ws_change *change, struct ws_estimate *estimate)
{
	double spread = comparison->spread[change->kind],
	       error = find_shift_error(comparison, change, &estimate->typical);

	estimate->total.sigma = hypot(estimate->total.sigma * spread, error);
	estimate->typical.sigma = hypot(estimate->typical.sigma * spread, error);
}

/* An estimate less `shift`. */
struct judgement {
	double change, low, high, probability;
};

static double find_probability(const struct ws_ratio *ratio, double shift)
{
	return ws_student_probability((ratio->value - shift) / ratio->sigma, ratio->df);
}

/* The typical change counts, unless the totals show a change far more clearly, which is then in
 * some instances only. Two tests give chance two opportunities (Bonferroni, by weights). */
static struct judgement judge_estimate(const struct ws_estimate *estimate, double shift)
{
	struct judgement judgement = {.low = -1, .high = INFINITY, .probability = 1};
	const struct ws_ratio *ratio = &estimate->typical;
	double of_total, of_typical, reach;

	judgement.change = expm1(ratio->value - shift);
	if (!estimate->known)
		return judgement;
	of_total = find_probability(&estimate->total, shift);
	of_typical = find_probability(&estimate->typical, shift);
	if (of_total * TYPICAL_FIRST < of_typical)
		ratio = &estimate->total;
	judgement.change = expm1(ratio->value - shift);
	judgement.probability =
		(1 + 1 / TYPICAL_FIRST) * ws_min(of_typical, of_total * TYPICAL_FIRST);
	judgement.probability = ws_min(judgement.probability, 1.0);
	reach = ws_student_quantile(INTERVAL, ratio->df) * ratio->sigma;
	judgement.low = expm1(ratio->value - shift - reach);
	judgement.high = expm1(ratio->value - shift + reach);
	return judgement;
}

/* The shift that estimates still include. */
static double find_remaining_shift(const struct ws_comparison *comparison, enum ws_item_kind kind)
{
	if (comparison->has_common[kind])
		return 0;
	return comparison->shift[kind];
}

void ws_measure_change(const struct ws_comparison *comparison, const struct ws_change *change,
		       enum ws_measure measure, struct ws_measured *measured)
{
	struct judgement judgement;
	double shift = 0;

	*measured = (struct ws_measured){0};
	estimate_measure(comparison, change, measure, measured);
	if (measure != WS_MEASURE_COUNT && !is_step(change->kind)) {
		shift = find_remaining_shift(comparison, change->kind);
		complete_estimate(comparison, change, &measured->estimate);
	}
	judgement = judge_estimate(&measured->estimate, shift);
	measured->change = judgement.change;
	measured->low = judgement.low;
	measured->high = judgement.high;
}

/* ---- judging ---- */

static double find_longer(const double values[WS_SIDES])
{
	return ws_max(values[0], values[1]);
}

static void measure_item(const struct ws_comparison *comparison, const struct ws_match *match,
			 struct ws_change *change)
{
	struct ws_measured time = {0};

	*change = (struct ws_change){.kind = match->kind,
				     .name = match->name,
				     .renamed = match->renamed,
				     .match = match,
				     .low = -1,
				     .high = INFINITY,
				     .probability = 1};
	memcpy(change->names, match->names, sizeof(change->names));
	estimate_measure(comparison, change, WS_MEASURE_TIME, &time);
	change->estimate = time.estimate;
	memcpy(change->ns, time.values, sizeof(change->ns));
	change->change = ws_compute_change(change->ns);
	for (size_t i = 0; i < comparison->run_count; i++) {
		size_t side = i >= comparison->counts[0];

		if (match->series[i])
			change->count[side] +=
				ws_measure_series(match->series[i], WS_MEASURE_COUNT) /
				(double)comparison->counts[side];
	}
}

/* The number of parts of runs in which an item happened; 0 where a run of the side has none. */
static size_t count_parts(const struct ws_comparison *comparison, const struct ws_match *match,
			  size_t side)
{
	size_t first = side ? comparison->counts[0] : 0, parts = 0;

	for (size_t i = first; i < first + comparison->counts[side]; i++) {
		if (!match->series[i])
			return 0;
		for (size_t unit = 0; unit < WS_UNITS; unit++)
			parts += match->series[i]->count[unit] > 0;
	}
	return parts;
}

/* If only one side has something, in n parts of its runs, the probability that this is chance is
 * 2^(1 - n). */
static void judge_presence(const struct ws_comparison *comparison, struct ws_change *change)
{
	size_t side = change->ns[0] <= 0;
	size_t parts = count_parts(comparison, change->match, side);

	if (parts)
		change->probability = exp2(1 - (double)parts);
	change->low = change->high = ws_compute_change(change->ns);
}

static bool is_presence(const struct ws_change *change)
{
	return change->ns[0] <= 0 || change->ns[1] <= 0;
}

static size_t list_known(const struct ws_comparison *comparison, enum ws_item_kind kind,
			 struct ws_change **known)
{
	size_t count = 0;

	for (size_t i = 0; i < comparison->count; i++) {
		struct ws_change *change = &comparison->changes[i];

		if (change->kind == kind && change->judged && change->estimate.known &&
		    !is_presence(change))
			known[count++] = change;
	}
	return count;
}

/* By how much the machine may change all items of a kind: the standard deviation of the logarithm
 * of the change. */
static double compute_shift_floor(const struct ws_comparison *comparison, enum ws_item_kind kind)
{
	double shift = ws_item_descs[kind].shift;

	if (comparison->options.noise > 0)
		shift = comparison->options.noise;
	return hypot(hypot(shift, compute_side_floor(comparison, kind, 0)),
		     hypot(shift, compute_side_floor(comparison, kind, 1)));
}

/* The standard error of a median (Kendall and Stuart, vol. 1, 10.7). A few items may be alike by
 * chance: their own noise counts then. */
static double compute_median_error(struct ws_change **known, size_t count, double scatter)
{
	double sigma = 0;

	for (size_t i = 0; i < count && count < LEAST_FOR_SHIFT; i++)
		sigma = ws_max(sigma, known[i]->estimate.typical.sigma);
	return sqrt(M_PI_2 / (double)count) * ws_max(sigma, scatter);
}

/* How many items show what they have in common. Kernels depend on the machine alike; other items
 * less so. */
static bool is_enough_for_shift(enum ws_item_kind kind, size_t count)
{
	return count >= LEAST_FOR_SHIFT || (kind == WS_ITEM_KERNEL && count >= LEAST_KERNELS);
}

/* The change that all items of a kind have in common, where the machine may have caused it. */
static bool find_shift(struct ws_comparison *comparison, enum ws_item_kind kind,
		       struct ws_change **known, size_t count)
{
	double *ratios, shift, limit = SHIFT_LIMIT * compute_shift_floor(comparison, kind);
	bool found = false;

	comparison->shift[kind] = 0;
	comparison->shift_error[kind] = M_SQRT2 * ws_item_descs[kind].shift;
	if (comparison->options.noise > 0)
		comparison->shift_error[kind] = 0;
	if (!is_enough_for_shift(kind, count))
		return false;
	if (count < LEAST_FOR_SHIFT)
		limit *= SHIFT_LIMIT_OF_FEW / SHIFT_LIMIT;
	ratios = ws_malloc(count * sizeof(*ratios));
	for (size_t i = 0; i < count; i++)
		ratios[i] = known[i]->estimate.typical.value;
	shift = ws_compute_median(ratios, count);
	for (size_t i = 0; i < count; i++)
		ratios[i] = fabs(ratios[i] - shift);
	if (fabs(shift) <= limit) {
		found = true;
		comparison->shift[kind] = shift;
		comparison->shift_error[kind] = compute_median_error(
			known, count, MAD_TO_DEVIATION * ws_compute_median(ratios, count));
	}
	free(ratios);
	return found;
}

/* What an item takes of a part of a run: parts of runs with different numbers of steps differ in
 * length. */
static double measure_unit(const struct ws_series *series, size_t unit)
{
	if (series->length[unit] <= 0)
		return 0;
	return series->time[unit] / series->length[unit];
}

/* The median change of all items in one part of the runs. */
static double find_common_change(struct ws_change **known, size_t count, size_t unit,
				 double *ratios)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		double from = measure_unit(known[i]->match->series[0], unit),
		       to = measure_unit(known[i]->match->series[1], unit);

		if (from > 0 && to > 0)
			ratios[n++] = log(to / from);
	}
	if (n < LEAST_FOR_SHIFT)
		return NAN;
	return ws_compute_median(ratios, n);
}

/* For one run a side: finds what items have in common part by part, and estimates them again. */
static void take_out_common(struct ws_comparison *comparison, enum ws_item_kind kind,
			    struct ws_change **known, size_t count)
{
	double *ratios = ws_malloc(count * sizeof(*ratios));

	for (size_t unit = 0; unit < WS_UNITS; unit++) {
		double change = find_common_change(known, count, unit, ratios);

		if (isnan(change))
			change = comparison->shift[kind];
		comparison->common[kind][unit] = change;
	}
	free(ratios);
	comparison->has_common[kind] = true;
	for (size_t i = 0; i < count; i++) {
		struct ws_measured time = {0};

		estimate_measure(comparison, known[i], WS_MEASURE_TIME, &time);
		known[i]->estimate = time.estimate;
	}
}

static double find_spread(const struct ws_comparison *comparison, enum ws_item_kind kind,
			  struct ws_change **known, size_t count)
{
	double *scores, spread;

	if (count < LEAST_FOR_SPREAD)
		return 1;
	scores = ws_malloc(count * sizeof(*scores));
	for (size_t i = 0; i < count; i++)
		scores[i] = fabs(known[i]->estimate.typical.value -
				 find_remaining_shift(comparison, kind)) /
			    known[i]->estimate.typical.sigma;
	spread = ws_compute_median(scores, count) * MAD_TO_DEVIATION;
	free(scores);
	return ws_min(ws_max(spread, 1.0), MOST_SPREAD);
}

static void judge_change(struct ws_change *change, double shift)
{
	struct judgement judgement = judge_estimate(&change->estimate, shift);

	change->change = judgement.change;
	change->low = judgement.low;
	change->high = judgement.high;
	change->probability = judgement.probability;
}

/* Two kernels are each other's controls, as they are before anything is added for the machine. */
static void choose_controls(struct ws_comparison *comparison, struct ws_change **known)
{
	for (size_t i = 0; i < 2; i++)
		comparison->controls[i] =
			(struct ws_control){known[i]->match, known[i]->estimate.typical};
}

static void judge_kind(struct ws_comparison *comparison, enum ws_item_kind kind,
		       struct ws_change **known)
{
	size_t count = list_known(comparison, kind, known);

	comparison->spread[kind] = 1;
	if (comparison->run_count < MANY_RUNS) {
		if (find_shift(comparison, kind, known, count) && is_one_to_one(comparison) &&
		    count >= LEAST_FOR_SHIFT)
			take_out_common(comparison, kind, known, count);
		comparison->spread[kind] = find_spread(comparison, kind, known, count);
	}
	if (kind == WS_ITEM_KERNEL && count == 2)
		choose_controls(comparison, known);
	for (size_t i = 0; i < count; i++) {
		complete_estimate(comparison, known[i], &known[i]->estimate);
		judge_change(known[i], find_remaining_shift(comparison, kind));
	}
}

static enum ws_change_verdict choose_verdict(const struct ws_change *change)
{
	if (change->ns[0] <= 0)
		return WS_CHANGE_NEW;
	if (change->ns[1] <= 0)
		return WS_CHANGE_GONE;
	if (change->change > 0)
		return WS_CHANGE_SLOWER;
	return WS_CHANGE_FASTER;
}

/* Whether the item changed by enough of a step to matter. */
static bool is_large(const struct ws_change *change, double step)
{
	double difference = find_longer(change->ns);

	if (!is_presence(change))
		difference = change->change * change->ns[0];
	return fabs(difference) >= step * ws_item_descs[change->kind].least;
}

/* Work on GPUs is one family of comparisons, code on CPUs and what measures both is the other:
 * samples of hundreds of functions must not hide a kernel. */
static bool is_gpu_work(enum ws_item_kind kind)
{
	return kind == WS_ITEM_KERNEL || kind == WS_ITEM_COPY;
}

/* Whether anything could make this item count as changed, whatever its values (Tarone, Biometrics
 * 46, 1990): one that was seen once or cannot be estimated takes no evidence from others. */
static bool is_testable(const struct ws_comparison *comparison, const struct ws_change *change)
{
	if (!is_presence(change))
		return change->estimate.known;
	return exp2(1 - (double)count_parts(comparison, change->match, change->ns[0] <= 0)) <=
	       DISCOVERIES;
}

static void choose_verdicts_of(struct ws_comparison *comparison, struct ws_change **judged,
			       size_t count, double share)
{
	double step = find_longer(comparison->step.ns);
	double *probabilities = ws_malloc(count * sizeof(*probabilities) + 1);
	bool *discovered = ws_malloc(count * sizeof(*discovered) + 1);

	for (size_t i = 0; i < count; i++)
		probabilities[i] = judged[i]->probability;
	if (comparison->run_count >= MANY_RUNS)
		share = DISCOVERIES_OF_RUNS;
	ws_control_discoveries(probabilities, count, share, discovered);
	for (size_t i = 0; i < count; i++)
		if (discovered[i] && is_large(judged[i], step)) {
			judged[i]->verdict = choose_verdict(judged[i]);
			comparison->changed++;
		}
	free(probabilities);
	free(discovered);
}

/* All items of a family are judged together, so that one does not look changed only because there
 * are many. */
static void choose_verdicts(struct ws_comparison *comparison)
{
	struct ws_change **judged = ws_malloc(comparison->count * sizeof(struct ws_change *) + 1);

	for (int gpu = 0; gpu < 2; gpu++) {
		size_t count = 0;

		for (size_t i = 0; i < comparison->count; i++) {
			struct ws_change *change = &comparison->changes[i];

			if (change->judged && is_gpu_work(change->kind) == gpu &&
			    is_testable(comparison, change))
				judged[count++] = change;
		}
		choose_verdicts_of(comparison, judged, count,
				   gpu ? DISCOVERIES_OF_GPU : DISCOVERIES);
	}
	free(judged);
}

static void judge_step(struct ws_change *step)
{
	step->judged = true;
	if (!step->estimate.known)
		return;
	judge_change(step, 0);
	if (step->probability < STEP_CHANCE && fabs(step->change) >= LEAST_STEP_CHANGE)
		step->verdict = choose_verdict(step);
}

static int compare_changes(const void *first, const void *second)
{
	const struct ws_change *left = first, *right = second;
	double left_change = fabs(left->ns[1] - left->ns[0]),
	       right_change = fabs(right->ns[1] - right->ns[0]);
	bool left_same = left->verdict == WS_CHANGE_SAME,
	     right_same = right->verdict == WS_CHANGE_SAME;

	if (left_same != right_same)
		return left_same - right_same;
	if (left_change != right_change)
		return ws_compare(right_change, left_change);
	if (left->kind != right->kind)
		return ws_compare(left->kind, right->kind);
	return strcmp(left->name, right->name);
}

static void measure_items(struct ws_comparison *comparison)
{
	const struct ws_matches *matches = &comparison->matches;

	comparison->changes = ws_calloc(matches->count + 1, sizeof(*comparison->changes));
	for (size_t i = 0; i < matches->count; i++) {
		struct ws_change *change = &comparison->changes[comparison->count];

		if (matches->matches[i].kind == WS_ITEM_STEP)
			change = &comparison->step;
		else if (matches->matches[i].kind == WS_ITEM_OWN)
			change = &comparison->own;
		else
			comparison->count++;
		measure_item(comparison, &matches->matches[i], change);
	}
	for (size_t i = 0; i < comparison->count; i++) {
		struct ws_change *change = &comparison->changes[i];

		change->judged =
			strcmp(change->name, WS_KERNEL_ITEM) &&
			find_longer(change->ns) >= ws_item_descs[change->kind].least *
							   find_longer(comparison->step.ns);
		if (change->judged && is_presence(change))
			judge_presence(comparison, change);
	}
}

int ws_comparison_finish(struct ws_comparison *comparison, struct ws_err *err)
{
	struct ws_change **known;

	if (check_steps(comparison, err) || check_gpus(comparison, err))
		return -1;
	comparison->has_steps = comparison->runs[0].step_name != NULL;
	ws_match_items(comparison->items, comparison->counts, &comparison->matches);
	measure_items(comparison);
	known = ws_malloc(comparison->count * sizeof(struct ws_change *) + 1);
	for (int kind = 0; kind < WS_ITEM_KINDS; kind++)
		judge_kind(comparison, (enum ws_item_kind)kind, known);
	free(known);
	judge_step(&comparison->step);
	judge_step(&comparison->own);
	choose_verdicts(comparison);
	if (comparison->count)
		qsort(comparison->changes, comparison->count, sizeof(*comparison->changes),
		      compare_changes);
	ws_explanation_finish(&comparison->path, comparison->counts);
	for (size_t i = 0; i < comparison->gpu_count; i++)
		ws_explanation_finish(&comparison->gpus[i], comparison->counts);
	return 0;
}

void ws_comparison_free(struct ws_comparison *comparison)
{
	for (size_t i = 0; i < comparison->run_count; i++) {
		free(comparison->runs[i].path);
		free(comparison->runs[i].step_name);
		free(comparison->runs[i].gpus);
		ws_items_free(&comparison->items[i]);
	}
	for (size_t i = 0; i < comparison->gpu_count; i++)
		ws_explanation_free(&comparison->gpus[i]);
	ws_explanation_free(&comparison->path);
	ws_matches_free(&comparison->matches);
	free(comparison->runs);
	free(comparison->items);
	free(comparison->changes);
	free(comparison->gpus);
	memset(comparison, 0, sizeof(*comparison));
}
