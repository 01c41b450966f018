/* page_json.c - see page_json.h. */
#include "kernel/page_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/charts.h"
#include "kernel/explain.h"
#include "kernel/places.h"
#include "kernel/rules.h"
#include "kernel/samples.h"
#include "kernel/sections.h"
#include "kernel/source.h"
#include "kernel/values.h"
#include "text/json_write.h"

/* ---- summaries ---- */

static void put_triple(struct ws_text *out, const char *key, const uint32_t *shape)
{
	ws_put_json_key(out, key);
	ws_text_printf(out, "[%u,%u,%u]", shape[0], shape[1], shape[2]);
}

static void put_shape(struct ws_text *out, const struct ws_row_kernel_result *row)
{
	const uint32_t grid[] = {row->grid_x, row->grid_y, row->grid_z},
		       block[] = {row->block_x, row->block_y, row->block_z};

	put_triple(out, "grid", grid);
	put_triple(out, "block", block);
	ws_put_json_int(out, "registers", row->registers);
	ws_put_json_int(out, "shared", (int64_t)row->static_shared + row->dynamic_shared);
}

static void put_launches(struct ws_text *out, const struct ws_kernel_view *view, size_t number)
{
	ws_put_json_key(out, "launches");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < view->timeline_count; i++) {
		const struct ws_kernel_timeline *timeline = &view->timelines[i];
		const struct ws_kernel_launches *launches = &timeline->launches[number];

		if (!launches->count)
			continue;
		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_int(out, "r", (int64_t)timeline->report);
		ws_put_json_int(out, "count", (int64_t)launches->count);
		ws_put_json_int(out, "total", (int64_t)launches->total_ns);
		ws_put_json_int(out, "busy", (int64_t)timeline->busy_ns);
		ws_text_puts(out, "}");
	}
	ws_text_puts(out, "]");
}

static void put_if_known(struct ws_text *out, const char *key, const char *text)
{
	if (*text)
		ws_put_json_string(out, key, text);
}

/* The figures of a result in the table of all results. */
static void put_figures(struct ws_text *out, const struct ws_kernel_result *result)
{
	static const struct {
		const char *key, *metric;
	} figures[] = {
		{"cycles", "gpc__cycles_elapsed.max"},
		{"clock", "gpc__cycles_elapsed.avg.per_second"},
		{"compute", "sm__throughput.avg.pct_of_peak_sustained_elapsed"},
		{"memory", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"},
	};

	ws_put_json_double(out, "duration", result->duration_ns);
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
		ws_put_json_double(out, figures[i].key, ws_kernel_value(result, figures[i].metric));
}

/* ---- findings ---- */

static void put_evidence(struct ws_text *out, const struct ws_kernel_finding *finding)
{
	ws_put_json_key(out, "evidence");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < finding->evidence_count; i++) {
		const struct ws_kernel_evidence *evidence = &finding->evidence[i];

		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "label", evidence->label);
		ws_put_json_string(out, "metric", evidence->metric);
		ws_put_json_string(out, "unit", evidence->unit);
		ws_put_json_double(out, "value", evidence->value);
		ws_text_puts(out, "}");
	}
	ws_text_puts(out, "]");
}

static void put_finding(struct ws_text *out, const struct ws_kernel_finding *finding)
{
	static const char *const levels[] = {[WS_KERNEL_VERDICT] = "note",
					     [WS_KERNEL_CAUSE] = "critical",
					     [WS_KERNEL_SYMPTOM] = "warning",
					     [WS_KERNEL_NOTE] = "note"};

	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_json_string(out, "rule", finding->rule);
	ws_put_json_string(out, "section", finding->section);
	ws_put_json_string(out, "level", levels[finding->kind]);
	ws_put_json_string(out, "title", finding->title);
	if (finding->advice)
		ws_put_json_string(out, "advice", finding->advice);
	if (finding->assumption)
		ws_put_json_string(out, "assumption", finding->assumption);
	ws_put_json_double(out, "gain", finding->estimate);
	put_evidence(out, finding);
	ws_text_puts(out, "}");
}

static void put_findings(struct ws_text *out, const struct ws_kernel_findings *findings)
{
	ws_put_json_key(out, "findings");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < findings->count; i++)
		put_finding(out, &findings->findings[i]);
	ws_text_puts(out, "]");
}

/* Append what the table of all results says of the findings: what the kernel is bound by, and the
 * most that removing one cause can gain. */
static void put_judgement(struct ws_text *out, const struct ws_kernel_findings *findings)
{
	double gain = NAN;

	for (size_t i = 0; i < findings->count; i++) {
		const struct ws_kernel_finding *finding = &findings->findings[i];

		if (finding->kind == WS_KERNEL_VERDICT)
			ws_put_json_string(out, "verdict", finding->title);
		if (finding->kind == WS_KERNEL_CAUSE && (isnan(gain) || finding->estimate > gain))
			gain = finding->estimate;
	}
	ws_put_json_double(out, "gain", gain);
}

/* ---- one and all ---- */

static void put_summary(struct ws_text *out, const struct ws_kernel_view *view, size_t number,
			const struct ws_kernel_findings *findings)
{
	const struct ws_kernel_result *result = &view->results->results[number];
	const struct ws_row_kernel_result *row = &result->row;

	ws_put_json_int(out, "id", row->id);
	ws_put_json_string(out, "name", result->name);
	put_if_known(out, "demangled", result->demangled);
	put_if_known(out, "error", result->error);
	put_if_known(out, "nvtx", result->nvtx);
	ws_put_json_int(out, "process", result->pid);
	ws_put_json_int(out, "launch", (int64_t)row->instance);
	put_shape(out, row);
	put_figures(out, result);
	ws_put_json_string(out, "chip", result->chip);
	ws_put_json_string(out, "gpu", result->gpu);
	ws_put_json_string(out, "tool", result->tool);
	put_launches(out, view, number);
	put_judgement(out, findings);
}

void ws_put_kernel_summaries(struct ws_text *out, const struct ws_kernel_view *view)
{
	ws_put_json_key(out, "results");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < view->results->count; i++) {
		struct ws_kernel_findings findings = {0};

		ws_kernel_judge(&view->results->results[i], &findings);
		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		put_summary(out, view, i, &findings);
		ws_text_puts(out, "}");
		ws_kernel_findings_free(&findings);
	}
	ws_text_puts(out, "]");
}

/* ---- what metrics mean ---- */

static void put_word(struct ws_text *out, const char *metric)
{
	static const char *const keys[] = {[WS_ENGLISH] = "en", [WS_CHINESE] = "zh"};

	ws_put_json_key(out, metric);
	ws_text_puts(out, "{");
	for (int language = WS_ENGLISH; language <= WS_CHINESE; language++) {
		struct ws_text text = {0};

		if (ws_kernel_explain(metric, language, &text))
			ws_put_json_string(out, keys[language], text.text);
		ws_text_free(&text);
	}
	ws_text_puts(out, "}");
}

/* Append "words": what the metrics of a result mean, and those derived from them. */
static void put_words(struct ws_text *out, const struct ws_kernel_result *result)
{
	ws_put_json_key(out, "words");
	ws_text_puts(out, "{");
	for (size_t i = 0; i < result->metric_count; i++)
		put_word(out, result->metrics[i].name);
	for (const char *const *name = ws_kernel_computed_names; *name; name++)
		if (!ws_find_kernel_metric(result, *name))
			put_word(out, *name);
	ws_text_puts(out, "}");
}

/* ---- sections ---- */

static bool is_line_known(const struct ws_kernel_result *result, const struct ws_kernel_line *line)
{
	return ws_kernel_get_text(result, line->value) ||
	       !isnan(ws_compute_kernel_value(result, line->value));
}

/* Append the lines of one group as figures; those that were not measured are left out. */
static size_t put_group_lines(struct ws_text *out, const struct ws_kernel_result *result,
			      const struct ws_kernel_line *lines, size_t count)
{
	uint8_t family = ws_kernel_chip_family(result->chip);
	size_t n = 0;
	char label[128];

	for (; n < count && lines[n].section == lines->section &&
	       !strcmp(lines[n].group, lines->group);
	     n++) {
		struct ws_kernel_figure figure = {label, lines[n].unit, lines[n].value};

		if (!lines[n].shown || (family && !(lines[n].chips & family)))
			continue;
		if (!is_line_known(result, &lines[n]))
			continue;
		ws_kernel_label(&lines[n], label, sizeof(label));
		ws_put_kernel_figure(out, result, &figure);
	}
	return n;
}

static size_t skip_group(const struct ws_kernel_line *lines, size_t count)
{
	size_t n = 0;

	while (n < count && lines[n].section == lines->section &&
	       !strcmp(lines[n].group, lines->group))
		n++;
	return n;
}

/* The groups of a section that no chart draws. */
static void put_groups(struct ws_text *out, const struct ws_kernel_result *result, size_t section)
{
	const char *identifier = ws_kernel_sections[section].identifier;
	const struct ws_kernel_line *lines;
	size_t count;

	lines = ws_kernel_lines(&count);
	ws_put_json_key(out, "groups");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < count;) {
		if (lines[i].section != section ||
		    ws_is_group_charted(identifier, lines[i].group)) {
			i += skip_group(&lines[i], count - i);
			continue;
		}
		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "title", lines[i].group);
		ws_put_json_key(out, "lines");
		ws_text_puts(out, "[");
		i += put_group_lines(out, result, &lines[i], count - i);
		ws_text_puts(out, "]}");
	}
	ws_text_puts(out, "]");
}

/* Whether anything of a section was measured, or follows from the launch. */
static bool is_section_there(const struct ws_kernel_result *result, size_t section)
{
	const struct ws_kernel_line *lines;
	size_t count;

	lines = ws_kernel_lines(&count);
	for (size_t i = 0; i < count; i++)
		if (lines[i].section == section && lines[i].shown &&
		    is_line_known(result, &lines[i]))
			return true;
	return false;
}

static void put_sections(struct ws_text *out, const struct ws_report *report,
			 const struct ws_kernel_result *result)
{
	ws_put_json_key(out, "sections");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < ws_kernel_section_count; i++) {
		if (!is_section_there(result, i))
			continue;
		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "id", ws_kernel_sections[i].identifier);
		ws_put_json_string(out, "title", ws_kernel_sections[i].title);
		put_groups(out, result, i);
		ws_put_json_key(out, "charts");
		ws_text_puts(out, "[");
		ws_put_kernel_charts(out, result, ws_kernel_sections[i].identifier);
		if (!strcmp(ws_kernel_sections[i].identifier, "PmSampling"))
			ws_put_kernel_series(out, report, result);
		ws_text_puts(out, "]}");
	}
	ws_text_puts(out, "]");
}

/* ---- all metrics ---- */

static void put_metrics(struct ws_text *out, const struct ws_kernel_result *result)
{
	ws_put_json_key(out, "metrics");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < result->metric_count; i++) {
		const struct ws_kernel_metric *metric = &result->metrics[i];

		ws_put_json_comma(out);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "label", metric->name);
		ws_put_json_string(out, "metric", metric->name);
		if (metric->text) {
			ws_put_json_string(out, "text", metric->text);
		} else {
			ws_put_json_string(out, "unit", metric->unit);
			ws_put_json_double(out, "value", metric->value);
		}
		ws_text_puts(out, "}");
	}
	ws_text_puts(out, "]");
}

void ws_put_kernel_details(struct ws_text *out, const struct ws_kernel_view *view, size_t number)
{
	const struct ws_kernel_result *result = &view->results->results[number];
	struct ws_kernel_findings findings = {0};

	ws_kernel_judge_placed(view->results->report, result, &findings);
	put_summary(out, view, number, &findings);
	put_sections(out, view->results->report, result);
	put_findings(out, &findings);
	put_words(out, result);
	put_metrics(out, result);
	ws_put_kernel_sources(out, view->results->report, result->row.id);
	ws_kernel_findings_free(&findings);
}
