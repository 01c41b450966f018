/* compare.c - see compare.h. */
#include "kernel/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "kernel/charts.h"
#include "kernel/launches.h"
#include "kernel/print.h"
#include "kernel/values.h"
#include "text/json_write.h"

#define LEAST_CHANGE 0.01

/* ---- pairs ---- */

/* The number of a result among those of the same name, from 0. */
static size_t find_instance(const struct ws_kernel_results *results, size_t number)
{
	const struct ws_kernel_result *result = &results->results[number];
	size_t before = 0;

	for (size_t i = 0; i < number; i++)
		before += !strcmp(results->results[i].name, result->name) &&
			  ws_is_same_kernel_name(results->results[i].demangled, result->demangled);
	return before;
}

static const struct ws_kernel_result *find_counterpart(const struct ws_kernel_results *results,
						       const struct ws_kernel_result *of,
						       size_t instance)
{
	for (size_t i = 0; i < results->count; i++) {
		const struct ws_kernel_result *result = &results->results[i];

		if (!strcmp(result->name, of->name) &&
		    ws_is_same_kernel_name(result->demangled, of->demangled) && !instance--)
			return result;
	}
	return NULL;
}

void ws_pair_kernel_results(const struct ws_kernel_results *before,
			    const struct ws_kernel_results *after, struct ws_kernel_pairs *pairs)
{
	*pairs = (struct ws_kernel_pairs){0};
	pairs->pairs = ws_calloc(before->count + 1, sizeof(*pairs->pairs));
	for (size_t i = 0; i < before->count; i++) {
		const struct ws_kernel_result *result = &before->results[i];
		const struct ws_kernel_result *other =
			find_counterpart(after, result, find_instance(before, i));

		if (other)
			pairs->pairs[pairs->count++] = (struct ws_kernel_pair){{result, other}};
		else
			pairs->alone[0]++;
	}
	pairs->alone[1] = after->count - pairs->count;
}

/* ---- what explains the change of the duration ---- */

/*
 * A kernel lasts as long as its schedulers issue instructions, over the rate at which they do,
 *while multiprocessors have work, at the clock's rate:
 *
 *	instructions * (cycles a warp needs for one / warps) * (cycles elapsed / active) / clock
 *
 * The logarithms of these factors add up to that of the duration, so that each has its share of the
 * change. What was not measured is left in the rest.
 */
struct factor {
	const char *cause, *value;
	int power; /* 1: the duration grows with it; -1: it falls */
};

static const struct factor factors[] = {
	{"instructions of a scheduler", "smsp__inst_issued.avg", 1},
	{"cycles that a warp needs for an instruction",
	 "smsp__average_warp_latency_per_inst_issued.ratio", 1},
	{"warps that are resident on a scheduler", "smsp__warps_active.avg.per_cycle_active", -1},
	{"share of the time in which multiprocessors have work",
	 "sm__cycles_active.avg / gpc__cycles_elapsed.max", -1},
	{"clock of the multiprocessors", "gpc__cycles_elapsed.avg.per_second", -1},
};

struct explained {
	double values[WS_KERNEL_SIDES], ns;
};

struct explanation {
	struct explained parts[WS_COUNT(factors)]; /* NAN where a factor was not measured */
	double change_ns, rest_ns;
};

static double find_change(const struct ws_kernel_pair *pair)
{
	return pair->sides[1]->duration_ns - pair->sides[0]->duration_ns;
}

static struct explanation explain_change(const struct ws_kernel_pair *pair)
{
	struct explanation explanation = {.change_ns = find_change(pair)};
	double whole = log(pair->sides[1]->duration_ns / pair->sides[0]->duration_ns);

	explanation.rest_ns = explanation.change_ns;
	for (size_t i = 0; i < WS_COUNT(factors); i++) {
		struct explained *part = &explanation.parts[i];

		for (size_t side = 0; side < WS_KERNEL_SIDES; side++)
			part->values[side] =
				ws_compute_kernel_value(pair->sides[side], factors[i].value);
		part->ns = factors[i].power * log(part->values[1] / part->values[0]) / whole *
			   explanation.change_ns;
		if (isfinite(part->ns))
			explanation.rest_ns -= part->ns;
		else
			part->ns = NAN;
	}
	return explanation;
}

/* Whether there is a change to explain. */
static bool has_changed(const struct ws_kernel_pair *pair)
{
	double change = find_change(pair) / pair->sides[0]->duration_ns;

	return isfinite(change) && fabs(change) >= LEAST_CHANGE / 10;
}

/* ---- figures ---- */

struct figure {
	const struct ws_kernel_line *line;
	char label[128];
	double values[WS_KERNEL_SIDES];
	double change; /* as a share; NAN where it has none */
};

/* The figure of a line; false when neither side has it. */
static bool read_figure(const struct ws_kernel_pair *pair, const struct ws_kernel_line *line,
			struct figure *figure)
{
	if (!line->shown)
		return false;
	figure->line = line;
	for (size_t side = 0; side < WS_KERNEL_SIDES; side++) {
		figure->values[side] = NAN;
		if (ws_kernel_line_applies(pair->sides[side], line))
			figure->values[side] = ws_kernel_line_value(pair->sides[side], line);
	}
	if (isnan(figure->values[0]) && isnan(figure->values[1]))
		return false;
	figure->change = figure->values[1] / figure->values[0] - 1;
	if (!isfinite(figure->change))
		figure->change = NAN;
	if (figure->values[0] == figure->values[1])
		figure->change = 0;
	ws_kernel_label(line, figure->label, sizeof(figure->label));
	return true;
}

/* ---- text ---- */

static void add_padded_value(struct ws_text *text, double value, const char *unit)
{
	struct ws_text one = {0};

	if (isnan(value))
		ws_text_puts(&one, "-");
	else
		ws_kernel_add_value(&one, value, unit);
	ws_text_printf(text, " %20s", one.text);
	ws_text_free(&one);
}

static void add_change(struct ws_text *text, double change)
{
	if (isnan(change))
		ws_text_printf(text, " %10s", "");
	else
		ws_text_printf(text, " %+9.1f%%", 100 * change);
}

static void add_explanation(struct ws_text *text, const struct ws_kernel_pair *pair)
{
	struct explanation explanation = explain_change(pair);

	ws_text_puts(text, "  What explains it:\n");
	for (size_t i = 0; i < WS_COUNT(factors); i++) {
		const struct explained *part = &explanation.parts[i];

		if (isnan(part->ns))
			continue;
		ws_text_printf(text, "    %+12.2f us  %s: ", part->ns / 1000, factors[i].cause);
		ws_text_printf(text, "%.4g -> %.4g\n", part->values[0], part->values[1]);
	}
	ws_text_printf(text, "    %+12.2f us  not explained by these\n",
		       explanation.rest_ns / 1000);
}

static void add_figures(struct ws_text *text, const struct ws_kernel_pair *pair, bool all)
{
	const struct ws_kernel_line *lines;
	int section = -1;
	size_t count;

	lines = ws_kernel_lines(&count);
	for (size_t i = 0; i < count; i++) {
		struct figure figure;

		if (!read_figure(pair, &lines[i], &figure))
			continue;
		if (!all && fabs(figure.change) < LEAST_CHANGE)
			continue;
		if (lines[i].section != section)
			ws_text_printf(text, "  %s\n", ws_kernel_sections[lines[i].section].title);
		section = lines[i].section;
		ws_text_printf(text, "    %-44.44s", figure.label);
		for (size_t side = 0; side < WS_KERNEL_SIDES; side++)
			add_padded_value(text, figure.values[side], lines[i].unit);
		add_change(text, figure.change);
		ws_text_puts(text, "\n");
	}
}

static void print_pair(const struct ws_kernel_pair *pair, bool all, struct ws_text *text)
{
	const struct ws_kernel_result *before = pair->sides[0], *after = pair->sides[1];

	ws_text_printf(text, "%" PRIu32 " -> %" PRIu32 "  ", before->row.id, after->row.id);
	ws_put_terminal_text(text, before->name, strlen(before->name));
	ws_text_puts(text, "\n  Duration");
	add_padded_value(text, before->duration_ns, "ns");
	add_padded_value(text, after->duration_ns, "ns");
	add_change(text, after->duration_ns / before->duration_ns - 1);
	ws_text_puts(text, "\n");
	if (has_changed(pair))
		add_explanation(text, pair);
	add_figures(text, pair, all);
	ws_text_puts(text, "\n");
}

void ws_print_kernel_pairs(const struct ws_kernel_pairs *pairs, bool all, struct ws_text *text)
{
	static const char *const sides[] = {"before", "after"};

	for (size_t i = 0; i < pairs->count; i++)
		print_pair(&pairs->pairs[i], all, text);
	for (size_t side = 0; side < WS_KERNEL_SIDES; side++)
		if (pairs->alone[side])
			ws_text_printf(text, "Only %s: %zu measured kernel%s.\n", sides[side],
				       pairs->alone[side], ws_plural(pairs->alone[side]));
}

/* ---- JSON ---- */

static void put_values(struct ws_text *text, const char *key, const double *values)
{
	ws_put_json_key(text, key);
	ws_text_puts(text, "[");
	for (size_t side = 0; side < WS_KERNEL_SIDES; side++) {
		ws_put_json_comma(text);
		if (isfinite(values[side]))
			ws_text_printf(text, "%.9g", values[side]);
		else
			ws_text_puts(text, "null");
	}
	ws_text_puts(text, "]");
}

static void put_explanation(struct ws_text *text, const struct ws_kernel_pair *pair)
{
	struct explanation explanation = explain_change(pair);

	ws_put_json_key(text, "explanation");
	ws_text_puts(text, "[");
	for (size_t i = 0; i < WS_COUNT(factors); i++) {
		if (isnan(explanation.parts[i].ns))
			continue;
		ws_put_json_comma(text);
		ws_text_puts(text, "{");
		ws_put_json_string(text, "cause", factors[i].cause);
		ws_put_json_string(text, "metric", factors[i].value);
		put_values(text, "values", explanation.parts[i].values);
		ws_put_json_double(text, "ns", explanation.parts[i].ns);
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "]");
	ws_put_json_double(text, "unexplained_ns", explanation.rest_ns);
}

static void put_figures(struct ws_text *text, const struct ws_kernel_pair *pair)
{
	const struct ws_kernel_line *lines;
	size_t count;

	lines = ws_kernel_lines(&count);
	ws_put_json_key(text, "figures");
	ws_text_puts(text, "[");
	for (size_t i = 0; i < count; i++) {
		struct figure figure;

		if (!read_figure(pair, &lines[i], &figure))
			continue;
		ws_put_json_comma(text);
		ws_text_puts(text, "{");
		ws_put_json_string(text, "section",
				   ws_kernel_sections[lines[i].section].identifier);
		ws_put_json_string(text, "group", lines[i].group);
		ws_put_json_string(text, "label", figure.label);
		ws_put_json_string(text, "metric", lines[i].value);
		ws_put_json_string(text, "unit", lines[i].unit);
		put_values(text, "values", figure.values);
		ws_put_json_double(text, "change", figure.change);
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "]");
}

static void put_pair(struct ws_text *text, const struct ws_kernel_pair *pair)
{
	const struct ws_kernel_result *before = pair->sides[0], *after = pair->sides[1];
	double durations[] = {before->duration_ns, after->duration_ns},
	       numbers[] = {before->row.id, after->row.id};

	ws_put_json_comma(text);
	ws_text_puts(text, "{");
	put_values(text, "ids", numbers);
	ws_put_json_string(text, "name", before->name);
	ws_put_json_string(text, "demangled", before->demangled);
	put_values(text, "duration_ns", durations);
	ws_put_json_double(text, "change", durations[1] / durations[0] - 1);
	if (has_changed(pair))
		put_explanation(text, pair);
	put_figures(text, pair);
	ws_text_puts(text, "}");
}

void ws_put_kernel_pairs_json(const struct ws_kernel_pairs *pairs, struct ws_text *text)
{
	ws_text_puts(text, "{");
	ws_put_json_key(text, "kernels");
	ws_text_puts(text, "[");
	for (size_t i = 0; i < pairs->count; i++)
		put_pair(text, &pairs->pairs[i]);
	ws_text_puts(text, "]");
	ws_put_json_int(text, "only_before", (int64_t)pairs->alone[0]);
	ws_put_json_int(text, "only_after", (int64_t)pairs->alone[1]);
	ws_text_puts(text, "}\n");
}
