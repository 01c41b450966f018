/* print_text.c - the pages for people: details, raw, the summary table, groups of results. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/compiler.h"
#include "kernel/print.h"
#include "kernel/samples.h"
#include "kernel/units.h"
#include "kernel/values.h"

enum { CELL_ROOM = 256, MOST_CELLS = 12 };

/* ---- tables ---- */

struct grid {
	char **cells;
	size_t count, capacity, columns;
};

static void add_cell(struct grid *grid, const char *text)
{
	ws_grow(grid->cells, grid->capacity, grid->count + 1);
	grid->cells[grid->count++] = ws_strdup(text);
}

static void add_rule(struct ws_text *text, const size_t *widths, size_t columns)
{
	ws_text_puts(text, "    ");
	for (size_t i = 0; i < columns; i++) {
		for (size_t k = 0; k < widths[i]; k++)
			ws_text_puts(text, "-");
		ws_text_puts(text, i + 1 < columns ? " " : "\n");
	}
}

static void add_grid_row(struct ws_text *text, char *const *cells, const size_t *widths,
			 size_t columns)
{
	ws_text_puts(text, "    ");
	for (size_t i = 0; i < columns; i++)
		if (i)
			ws_text_printf(text, " %*s", (int)widths[i], cells[i]);
		else
			ws_text_printf(text, "%-*s", (int)widths[i], cells[i]);
	ws_text_puts(text, "\n");
}

/* Write and free the table, whose first row is the header. */
static void finish_grid(struct grid *grid, struct ws_text *text)
{
	size_t widths[MOST_CELLS] = {0};

	for (size_t i = 0; i < grid->count; i++)
		widths[i % grid->columns] =
			ws_max(widths[i % grid->columns], strlen(grid->cells[i]));
	if (grid->count > grid->columns) {
		add_rule(text, widths, grid->columns);
		for (size_t i = 0; i + grid->columns <= grid->count; i += grid->columns) {
			add_grid_row(text, grid->cells + i, widths, grid->columns);
			if (!i)
				add_rule(text, widths, grid->columns);
		}
		add_rule(text, widths, grid->columns);
	}
	for (size_t i = 0; i < grid->count; i++)
		free(grid->cells[i]);
	free(grid->cells);
}

/* ---- pieces ---- */

void ws_kernel_add_headline(struct ws_text *text, const struct ws_kernel_result *result)
{
	const struct ws_row_kernel_result *row = &result->row;

	ws_text_puts(text, *result->demangled ? result->demangled : result->name);
	if (row->grid_x)
		ws_text_printf(text, " (%u, %u, %u)x(%u, %u, %u)", row->grid_x, row->grid_y,
			       row->grid_z, row->block_x, row->block_y, row->block_z);
	ws_text_printf(text, ", Context %u, Stream %u, Device %u", row->context, row->stream,
		       row->device);
	if (result->device.major)
		ws_text_printf(text, ", CC %u.%u", result->device.major, result->device.minor);
}

void ws_kernel_add_value(struct ws_text *text, double value, const char *unit)
{
	char scaled[WS_UNIT_ROOM], number[WS_NUMBER_ROOM];
	double factor = ws_kernel_scale_unit(value, unit, scaled);

	ws_kernel_print_number(value / factor, number);
	ws_text_puts(text, number);
	if (*scaled)
		ws_text_printf(text, " %s", scaled);
}

void ws_kernel_add_wrapped(struct ws_text *out, const char *text, size_t indent, size_t width)
{
	size_t column = 0;

	while (*text) {
		size_t word = strcspn(text, " ");

		if (column && column + 1 + word > width) {
			ws_text_puts(out, "\n");
			column = 0;
		}
		if (!column) {
			ws_text_printf(out, "%*s", (int)indent, "");
			column = indent;
		} else {
			ws_text_puts(out, " ");
			column++;
		}
		ws_text_add(out, text, word);
		column += word;
		text += word + strspn(text + word, " ");
	}
	ws_text_puts(out, "\n");
}

const char *ws_kernel_finding_type(const struct ws_kernel_finding *finding)
{
	return isnan(finding->estimate) ? "INF" : "OPT";
}

/* ---- the page of details ---- */

static bool was_asked(const char *sections, const char *identifier)
{
	size_t n = strlen(identifier);

	for (const char *at = sections; (at = strstr(at, identifier)); at += n)
		if ((at == sections || at[-1] == ',') && (!at[n] || at[n] == ','))
			return true;
	return false;
}

bool ws_kernel_shows_section(const struct ws_kernel_result *result, size_t section)
{
	size_t count, known = 0, heads = 0;
	const struct ws_kernel_line *lines = ws_kernel_lines(&count);

	for (size_t i = 0; i < count; i++) {
		if (lines[i].section != section || !lines[i].shown ||
		    !ws_kernel_line_applies(result, &lines[i]))
			continue;
		heads++;
		known += !isnan(ws_kernel_line_value(result, &lines[i]));
	}
	if (*result->sections)
		return known && was_asked(result->sections, ws_kernel_sections[section].identifier);
	return known * 2 >= heads && known;
}

static bool is_wanted(const struct ws_kernel_line *line, enum ws_kernel_body body)
{
	if (!line->shown || body == WS_KERNEL_ALL)
		return line->shown;
	return (body == WS_KERNEL_HEADER) == !*line->group;
}

static void add_line(struct grid *grid, const struct ws_kernel_line *line, double value)
{
	char label[CELL_ROOM], unit[WS_UNIT_ROOM], number[WS_NUMBER_ROOM];
	double factor = ws_kernel_scale_unit(value, line->unit, unit);

	ws_kernel_label(line, label, sizeof(label));
	ws_kernel_print_number(value / factor, number);
	add_cell(grid, label);
	add_cell(grid, unit);
	add_cell(grid, number);
}

/* Add the lines of a section that share one table. */
static void add_group(const struct ws_kernel_result *result, size_t section, const char *group,
		      struct ws_text *text)
{
	struct grid grid = {.columns = 3};
	size_t count;
	const struct ws_kernel_line *lines = ws_kernel_lines(&count);

	add_cell(&grid, "Metric Name");
	add_cell(&grid, "Metric Unit");
	add_cell(&grid, "Metric Value");
	for (size_t i = 0; i < count; i++) {
		double value;

		if (lines[i].section != section || !lines[i].shown ||
		    strcmp(lines[i].group, group) != 0 ||
		    !ws_kernel_line_applies(result, &lines[i]))
			continue;
		value = ws_kernel_line_value(result, &lines[i]);
		if (!isnan(value))
			add_line(&grid, &lines[i], value);
	}
	if (grid.count > grid.columns && *group)
		ws_text_printf(text, "    %s\n", group);
	finish_grid(&grid, text);
}

static void add_groups(const struct ws_kernel_result *result, size_t section,
		       enum ws_kernel_body body, struct ws_text *text)
{
	size_t count;
	const struct ws_kernel_line *lines = ws_kernel_lines(&count);
	const char *group = NULL;

	for (size_t i = 0; i < count; i++) {
		if (lines[i].section != section || !is_wanted(&lines[i], body))
			continue;
		if (group && !strcmp(group, lines[i].group))
			continue;
		group = lines[i].group;
		add_group(result, section, group, text);
	}
}

static void add_evidence(const struct ws_kernel_finding *finding, struct ws_text *text)
{
	ws_text_puts(text, "Seen: ");
	for (size_t i = 0, shown = 0; i < finding->evidence_count; i++) {
		const struct ws_kernel_evidence *evidence = &finding->evidence[i];

		if (isnan(evidence->value))
			continue;
		ws_text_printf(text, "%s%s ", shown++ ? ", " : "", evidence->label);
		ws_kernel_add_value(text, evidence->value, evidence->unit);
	}
	ws_text_puts(text, ".");
}

static void add_finding(const struct ws_kernel_finding *finding, size_t width, struct ws_text *text)
{
	struct ws_text words = {0};

	ws_text_printf(text, "\n    %s   ", ws_kernel_finding_type(finding));
	if (!isnan(finding->estimate))
		ws_text_printf(text, "Est. Speedup: %.2f%%\n          ", 100 * finding->estimate);
	ws_text_printf(&words, "%s. %s ", finding->title, finding->advice);
	add_evidence(finding, &words);
	if (finding->assumption)
		ws_text_printf(&words, " The estimate assumes: %s.", finding->assumption);
	{
		struct ws_text wrapped = {0};

		ws_kernel_add_wrapped(&wrapped, words.text, 10, width);
		ws_text_puts(text, wrapped.text + 10);
		ws_text_free(&wrapped);
	}
	ws_text_free(&words);
}

static void add_findings(const struct ws_kernel_judged *judged, const char *section, size_t width,
			 struct ws_text *text)
{
	for (size_t i = 0; i < judged->findings.count; i++)
		if (!strcmp(judged->findings.findings[i].section, section))
			add_finding(&judged->findings.findings[i], width, text);
}

/* Whether a section has findings, which are shown even when none of its lines are. */
static bool has_findings(const struct ws_kernel_judged *judged, const char *section)
{
	for (size_t i = 0; i < judged->findings.count; i++)
		if (!strcmp(judged->findings.findings[i].section, section))
			return true;
	return false;
}

static void add_conditions(const struct ws_kernel_result *result, struct ws_text *text)
{
	if (*result->error)
		ws_text_printf(text, "    Not measured: %s\n", result->error);
	if (*result->cache_control && *result->clock_control)
		ws_text_printf(text, "    %u passes, caches: %s, clocks: %s\n", result->row.passes,
			       strcmp(result->cache_control, "none") ? "flushed before each"
								     : "left alone",
			       strcmp(result->clock_control, "none") ? "locked" : "left alone");
}

void ws_kernel_print_details(const struct ws_report *report, const struct ws_kernel_judged *judged,
			     const struct ws_kernel_page_choice *view, struct ws_text *text)
{
	const struct ws_kernel_result *result = judged->result;

	ws_text_puts(text, "  ");
	ws_kernel_add_headline(text, result);
	ws_text_puts(text, "\n");
	add_conditions(result, text);
	for (size_t i = 0; i < ws_kernel_section_count; i++) {
		const struct ws_kernel_section *section = &ws_kernel_sections[i];

		if (!ws_kernel_shows_section(result, i) &&
		    (view->no_rules || !has_findings(judged, section->identifier)))
			continue;
		ws_text_printf(text, "    Section: %s\n", section->title);
		if (ws_kernel_shows_section(result, i))
			add_groups(result, i, view->body, text);
		if (!strcmp(section->identifier, "PmSampling"))
			ws_kernel_print_series(text, report, result);
		if (!view->no_rules)
			add_findings(judged, section->identifier, view->width, text);
		ws_text_puts(text, "\n");
	}
}

/* ---- the raw page ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char **ws_kernel_list_names(const struct ws_kernel_result *result, size_t *count)
{
	size_t capacity = result->metric_count, n = 0;
	const char **names;

	for (size_t i = 0; ws_kernel_computed_names[i]; i++)
		capacity++;
	names = ws_calloc(capacity + 1, sizeof(*names));
	for (size_t i = 0; i < result->metric_count; i++)
		names[n++] = result->metrics[i].name;
	for (size_t i = 0; ws_kernel_computed_names[i]; i++)
		if (!ws_find_kernel_metric(result, ws_kernel_computed_names[i]) &&
		    !isnan(ws_kernel_get(result, ws_kernel_computed_names[i])))
			names[n++] = ws_kernel_computed_names[i];
	qsort(names, n, sizeof(*names), compare_names);
	*count = n;
	return names;
}

const char *ws_kernel_find_unit(const struct ws_kernel_result *result, const char *metric)
{
	const struct ws_kernel_metric *found = ws_find_kernel_metric(result, metric);

	return found ? found->unit : ws_kernel_computed_unit(metric);
}

static void add_metric_row(struct grid *grid, const struct ws_kernel_result *result,
			   const char *name)
{
	char unit[WS_UNIT_ROOM], number[WS_NUMBER_ROOM];
	const char *words = ws_kernel_get_text(result, name);
	double value = ws_kernel_get(result, name);
	double factor = ws_kernel_scale_unit(value, ws_kernel_find_unit(result, name), unit);

	ws_kernel_print_number(value / factor, number);
	add_cell(grid, name);
	add_cell(grid, unit);
	add_cell(grid, words ? words : number);
}

void ws_kernel_print_raw(const struct ws_kernel_result *result, struct ws_text *text)
{
	struct grid grid = {.columns = 3};
	size_t count;
	const char **names = ws_kernel_list_names(result, &count);

	ws_text_puts(text, "  ");
	ws_kernel_add_headline(text, result);
	ws_text_puts(text, "\n");
	add_conditions(result, text);
	add_cell(&grid, "Metric Name");
	add_cell(&grid, "Metric Unit");
	add_cell(&grid, "Metric Value");
	for (size_t i = 0; i < count; i++)
		add_metric_row(&grid, result, names[i]);
	finish_grid(&grid, text);
	ws_text_puts(text, "\n");
	free(names);
}

/* ---- the summary table ---- */

static int compare_saved(const void *a, const void *b)
{
	const struct ws_kernel_judged *left = *(struct ws_kernel_judged *const *)a,
				      *right = *(struct ws_kernel_judged *const *)b;

	if (left->saved_ns != right->saved_ns)
		return left->saved_ns < right->saved_ns ? 1 : -1;
	return ws_compare(left->result->row.id, right->result->row.id);
}

static void add_number(struct grid *grid, const char *format, double value)
{
	char text[CELL_ROOM] = "";

	if (!isnan(value))
		snprintf(text, sizeof(text), format, value);
	add_cell(grid, text);
}

static void add_count(struct grid *grid, double value)
{
	char text[WS_NUMBER_ROOM] = "";

	if (!isnan(value))
		ws_kernel_print_number(round(value), text);
	add_cell(grid, text);
}

static void add_summary_row(struct grid *grid, const struct ws_kernel_judged *judged)
{
	const struct ws_kernel_result *result = judged->result;
	char name[48];

	snprintf(name, sizeof(name), "%.44s", result->name);
	add_number(grid, "%.0f", result->row.id);
	add_number(grid, "%.1f", 100 * judged->estimate);
	add_cell(grid, name);
	add_count(grid, result->duration_ns);
	add_count(grid, result->duration_ns * judged->estimate);
	add_count(grid, judged->saved_ns);
	add_number(grid, "%.1f",
		   ws_kernel_get(result, "sm__throughput.avg.pct_of_peak_sustained_elapsed"));
	add_number(grid, "%.1f",
		   ws_kernel_get(result, "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_"
					 "elapsed"));
	add_number(grid, "%.0f", ws_kernel_get(result, "launch__registers_per_thread"));
	add_count(grid, ws_kernel_get(result, "launch__grid_size"));
	add_count(grid, ws_kernel_get(result, "launch__block_size"));
	add_count(grid, ws_kernel_get(result, "gpc__cycles_elapsed.max"));
}

static void add_gpu_line(const struct ws_kernel_result *result, struct ws_text *text)
{
	double clock = ws_kernel_get(result, "gpc__cycles_elapsed.avg.per_second");

	ws_text_printf(text, "  GPU: %s", *result->gpu ? result->gpu : "not known");
	if (*result->chip)
		ws_text_printf(text, " (%s)", result->chip);
	if (!isnan(clock)) {
		ws_text_puts(text, ", SM clock ");
		ws_kernel_add_value(text, clock, "hz");
	}
	ws_text_puts(text, "\n");
}

/* Add a sentence that says what to look at first in the whole run. */
static void add_first(const struct ws_kernel_judged *judged, struct ws_text *text)
{
	const struct ws_kernel_finding *finding = ws_kernel_first_finding(&judged->findings);

	if (judged->findings.count && judged->findings.findings[0].kind == WS_KERNEL_VERDICT)
		ws_text_printf(text, "  %u %.44s: %s.\n", judged->result->row.id,
			       judged->result->name, judged->findings.findings[0].title);
	if (finding)
		ws_text_printf(text, "      %s (est. %.1f%%).\n", finding->title,
			       100 * finding->estimate);
}

void ws_kernel_print_summary(const struct ws_kernel_judgement *judgement, struct ws_text *text)
{
	static const char *const heads[MOST_CELLS] = {"ID",	     "Est. Speedup %", "Function",
						      "Duration ns", "Improvement ns", "In run ns",
						      "Compute %",   "Memory %",       "Registers",
						      "Grid Size",   "Block Size",     "Cycles"};
	struct ws_kernel_judged **order = ws_calloc(judgement->count + 1, sizeof(*order));
	struct grid grid = {.columns = MOST_CELLS};

	for (size_t i = 0; i < judgement->count; i++)
		order[i] = &judgement->judged[i];
	qsort(order, judgement->count, sizeof(*order), compare_saved);
	for (size_t i = 0; i < MOST_CELLS; i++)
		add_cell(&grid, heads[i]);
	for (size_t i = 0; i < judgement->count; i++)
		add_summary_row(&grid, order[i]);
	if (judgement->count)
		add_gpu_line(order[0]->result, text);
	finish_grid(&grid, text);
	for (size_t i = 0; i < judgement->count; i++)
		add_first(order[i], text);
	ws_text_puts(text, "\n");
	free(order);
}

/* ---- groups of results ---- */

static bool is_same_group(const struct ws_kernel_result *a, const struct ws_kernel_result *b,
			  enum ws_kernel_grouping grouping)
{
	if (a->row.device != b->row.device || strcmp(a->gpu, b->gpu) != 0)
		return false;
	if (grouping == WS_KERNEL_PER_GPU)
		return true;
	if (grouping == WS_KERNEL_PER_NVTX)
		return !strcmp(a->nvtx, b->nvtx);
	return !strcmp(a->demangled, b->demangled) && a->row.grid_x == b->row.grid_x &&
	       a->row.grid_y == b->row.grid_y && a->row.grid_z == b->row.grid_z &&
	       a->row.block_x == b->row.block_x && a->row.block_y == b->row.block_y &&
	       a->row.block_z == b->row.block_z;
}

struct spread {
	double least, most, sum;
	size_t count;
};

static struct spread measure_spread(const struct ws_kernel_results *results,
				    const struct ws_kernel_result *first,
				    enum ws_kernel_grouping grouping,
				    const struct ws_kernel_line *line)
{
	struct spread spread = {INFINITY, -INFINITY, 0, 0};

	for (size_t i = 0; i < results->count; i++) {
		double value;

		if (!is_same_group(first, &results->results[i], grouping))
			continue;
		value = ws_kernel_line_value(&results->results[i], line);
		if (isnan(value))
			continue;
		spread.least = fmin(spread.least, value);
		spread.most = fmax(spread.most, value);
		spread.sum += value;
		spread.count++;
	}
	return spread;
}

static void add_spread(struct grid *grid, const struct ws_kernel_line *line, struct spread spread)
{
	char label[CELL_ROOM], unit[WS_UNIT_ROOM], number[WS_NUMBER_ROOM];
	double mean = spread.sum / (double)spread.count,
	       factor = ws_kernel_scale_unit(mean, line->unit, unit);
	double values[] = {spread.least, spread.most, mean};

	ws_kernel_label(line, label, sizeof(label));
	add_cell(grid, label);
	add_cell(grid, unit);
	for (size_t i = 0; i < WS_COUNT(values); i++) {
		ws_kernel_print_number(values[i] / factor, number);
		add_cell(grid, number);
	}
}

static void add_group_section(const struct ws_kernel_results *results,
			      const struct ws_kernel_result *first,
			      enum ws_kernel_grouping grouping, size_t section,
			      struct ws_text *text)
{
	static const char *const heads[] = {"Metric Name", "Metric Unit", "Minimum", "Maximum",
					    "Average"};
	struct grid grid = {.columns = WS_COUNT(heads)};
	size_t count;
	const struct ws_kernel_line *lines = ws_kernel_lines(&count);

	for (size_t i = 0; i < WS_COUNT(heads); i++)
		add_cell(&grid, heads[i]);
	for (size_t i = 0; i < count; i++) {
		struct spread spread;

		if (lines[i].section != section || !lines[i].shown || *lines[i].group ||
		    !ws_kernel_line_applies(first, &lines[i]))
			continue;
		spread = measure_spread(results, first, grouping, &lines[i]);
		if (spread.count)
			add_spread(&grid, &lines[i], spread);
	}
	if (grid.count > grid.columns)
		ws_text_printf(text, "    Section: %s\n", ws_kernel_sections[section].title);
	finish_grid(&grid, text);
}

static void add_group_headline(const struct ws_kernel_results *results,
			       const struct ws_kernel_result *first,
			       enum ws_kernel_grouping grouping, struct ws_text *text)
{
	size_t count = 0;

	for (size_t i = 0; i < results->count; i++)
		count += is_same_group(first, &results->results[i], grouping);
	ws_text_puts(text, "  ");
	if (grouping == WS_KERNEL_PER_GPU)
		ws_text_printf(text, "Device %u %s", first->row.device, first->gpu);
	else if (grouping == WS_KERNEL_PER_NVTX)
		ws_text_printf(text, "NVTX %s, Device %u",
			       *first->nvtx ? first->nvtx : "(no range)", first->row.device);
	else
		ws_kernel_add_headline(text, first);
	ws_text_printf(text, ", Invocations %zu\n", count);
}

void ws_kernel_print_groups(const struct ws_kernel_results *results,
			    enum ws_kernel_grouping grouping, struct ws_text *text)
{
	for (size_t i = 0; i < results->count; i++) {
		const struct ws_kernel_result *first = &results->results[i];
		size_t before = 0;

		while (before < i && !is_same_group(&results->results[before], first, grouping))
			before++;
		if (before < i)
			continue;
		add_group_headline(results, first, grouping, text);
		for (size_t k = 0; k < ws_kernel_section_count; k++)
			if (ws_kernel_shows_section(first, k))
				add_group_section(results, first, grouping, k, text);
		ws_text_puts(text, "\n");
	}
}
