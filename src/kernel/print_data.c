/* print_data.c - results for programs: the CSV pages under the columns that scripts for Nsight
 * Compute read, and JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "kernel/print.h"
#include "kernel/spots.h"
#include "kernel/units.h"
#include "kernel/values.h"
#include "query/query.h"
#include "text/json_write.h"

enum { NUMBER_ROOM = 40, LINES_MOST = 100 };

/* ---- CSV ---- */

static void add_field(struct ws_text *text, const char *word)
{
	if (text->len && text->text[text->len - 1] != '\n')
		ws_text_puts(text, ",");
	ws_text_puts(text, "\"");
	for (; *word; word++) {
		if (*word == '"')
			ws_text_puts(text, "\"");
		ws_text_add(text, word, 1);
	}
	ws_text_puts(text, "\"");
}

/* Print enough digits to distinguish the number from its neighbours. */
static void write_number(double value, char text[NUMBER_ROOM])
{
	*text = 0;
	if (isnan(value))
		return;
	if (value == floor(value) && fabs(value) < 1e15)
		snprintf(text, NUMBER_ROOM, "%.0f", value);
	else
		snprintf(text, NUMBER_ROOM, "%.9g", value);
}

static void add_number_field(struct ws_text *text, double value)
{
	char number[NUMBER_ROOM];

	write_number(value, number);
	add_field(text, number);
}

static void add_sizes_field(struct ws_text *text, uint32_t x, uint32_t y, uint32_t z)
{
	char sizes[NUMBER_ROOM];

	snprintf(sizes, sizeof(sizes), "(%u, %u, %u)", x, y, z);
	add_field(text, sizes);
}

static const char *const launch_heads[] = {"ID",	"Process ID",  "Process Name",
					   "Host Name", "Kernel Name", "Context",
					   "Stream",	"Block Size",  "Grid Size",
					   "Device",	"CC"};

static void add_launch_heads(struct ws_text *text)
{
	for (size_t i = 0; i < sizeof(launch_heads) / sizeof(*launch_heads); i++)
		add_field(text, launch_heads[i]);
}

/* Append the columns that begin every line of a result. */
static void add_launch_fields(const struct ws_kernel_results *results,
			      const struct ws_kernel_result *result, struct ws_text *text)
{
	struct ws_names_by_id *who = ws_who_open(results->report);
	const char *host = ws_find_meta(results->report, "host.name");
	char capability[NUMBER_ROOM] = "";

	add_number_field(text, result->row.id);
	add_number_field(text, result->pid);
	add_field(text, ws_find_process(who, result->row.process)->name);
	add_field(text, ws_text_or(host, "localhost"));
	add_field(text, *result->demangled ? result->demangled : result->name);
	add_number_field(text, result->row.context);
	add_number_field(text, result->row.stream);
	add_sizes_field(text, result->row.block_x, result->row.block_y, result->row.block_z);
	add_sizes_field(text, result->row.grid_x, result->row.grid_y, result->row.grid_z);
	add_number_field(text, result->row.device);
	if (result->device.major)
		snprintf(capability, sizeof(capability), "%u.%u", result->device.major,
			 result->device.minor);
	add_field(text, capability);
	ws_who_close(who);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of the metrics of all results, sorted, without duplicates. */
static const char **list_all_names(const struct ws_kernel_results *results, size_t *count)
{
	const char **all = NULL;
	size_t capacity = 0, n = 0, kept = 0;

	for (size_t i = 0; i < results->count; i++) {
		size_t own;
		const char **names = ws_kernel_list_names(&results->results[i], &own);

		ws_grow(all, capacity, n + own + 1);
		memcpy(all + n, names, own * sizeof(*names));
		n += own;
		free(names);
	}
	if (n)
		qsort(all, n, sizeof(*all), compare_names);
	for (size_t i = 0; i < n; i++)
		if (!kept || strcmp(all[kept - 1], all[i]) != 0)
			all[kept++] = all[i];
	*count = kept;
	return all;
}

static const char *find_any_unit(const struct ws_kernel_results *results, const char *name)
{
	for (size_t i = 0; i < results->count; i++)
		if (ws_find_kernel_metric(&results->results[i], name))
			return ws_kernel_find_unit(&results->results[i], name);
	return ws_kernel_computed_unit(name);
}

void ws_kernel_print_raw_csv(const struct ws_kernel_results *results, struct ws_text *text)
{
	size_t count;
	const char **names = list_all_names(results, &count);

	add_launch_heads(text);
	for (size_t i = 0; i < count; i++)
		add_field(text, names[i]);
	ws_text_puts(text, "\n");
	for (size_t i = 0; i < sizeof(launch_heads) / sizeof(*launch_heads); i++)
		add_field(text, "");
	for (size_t i = 0; i < count; i++)
		add_field(text, find_any_unit(results, names[i]));
	ws_text_puts(text, "\n");
	for (size_t i = 0; i < results->count; i++) {
		const struct ws_kernel_result *result = &results->results[i];

		add_launch_fields(results, result, text);
		for (size_t k = 0; k < count; k++) {
			const char *words = ws_kernel_get_text(result, names[k]);

			if (words)
				add_field(text, words);
			else
				add_number_field(text, ws_kernel_get(result, names[k]));
		}
		ws_text_puts(text, "\n");
	}
	free(names);
}

static void add_line_csv(const struct ws_kernel_result *result, const struct ws_kernel_line *line,
			 const struct ws_text *launch, struct ws_text *text)
{
	char label[128];
	double value = ws_kernel_line_value(result, line);

	if (isnan(value))
		return;
	ws_text_add(text, launch->text, launch->len);
	ws_kernel_label(line, label, sizeof(label));
	add_field(text, ws_kernel_sections[line->section].title);
	add_field(text, label);
	add_field(text, line->unit);
	add_number_field(text, value);
	ws_text_puts(text, ",\"\",\"\",\"\",\"\",\"\"\n");
}

static void add_finding_csv(const struct ws_kernel_finding *finding, const struct ws_text *launch,
			    struct ws_text *text)
{
	char *words = ws_format("%s. %s", finding->title, finding->advice);

	ws_text_add(text, launch->text, launch->len);
	add_field(text, finding->section);
	ws_text_puts(text, ",\"\",\"\",\"\"");
	add_field(text, finding->rule);
	add_field(text, ws_kernel_finding_type(finding));
	add_field(text, words);
	add_field(text, isnan(finding->estimate) ? "" : "global");
	add_number_field(text, 100 * finding->estimate);
	ws_text_puts(text, "\n");
	free(words);
}

static void add_result_csv(const struct ws_kernel_results *results,
			   const struct ws_kernel_judged *judged,
			   const struct ws_kernel_page_choice *view, struct ws_text *text)
{
	const struct ws_kernel_result *result = judged->result;
	struct ws_text launch = {0};
	size_t count;
	const struct ws_kernel_line *lines = ws_kernel_lines(&count);

	add_launch_fields(results, result, &launch);
	for (size_t i = 0; i < count; i++)
		if (lines[i].shown && ws_kernel_line_applies(result, &lines[i]) &&
		    (view->body == WS_KERNEL_ALL ||
		     (view->body == WS_KERNEL_HEADER) == !*lines[i].group) &&
		    ws_kernel_shows_section(result, lines[i].section))
			add_line_csv(result, &lines[i], &launch, text);
	for (size_t i = 0; i < judged->findings.count && !view->no_rules; i++)
		add_finding_csv(&judged->findings.findings[i], &launch, text);
	ws_text_free(&launch);
}

void ws_kernel_print_details_csv(const struct ws_kernel_results *results,
				 const struct ws_kernel_judgement *judgement,
				 const struct ws_kernel_page_choice *view, struct ws_text *text)
{
	static const char *const heads[] = {"Section Name",	"Metric Name",
					    "Metric Unit",	"Metric Value",
					    "Rule Name",	"Rule Type",
					    "Rule Description", "Estimated Speedup Type",
					    "Estimated Speedup"};

	add_launch_heads(text);
	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++)
		add_field(text, heads[i]);
	ws_text_puts(text, "\n");
	for (size_t i = 0; i < judgement->count; i++)
		add_result_csv(results, &judgement->judged[i], view, text);
}

/* ---- JSON ---- */

static void put_number(struct ws_text *text, const char *key, double value)
{
	char number[NUMBER_ROOM];

	write_number(value, number);
	ws_put_json_key(text, key);
	ws_text_puts(text, *number ? number : "null");
}

static void put_sizes(struct ws_text *text, const char *key, uint32_t x, uint32_t y, uint32_t z)
{
	ws_put_json_key(text, key);
	ws_text_printf(text, "[%u,%u,%u]", x, y, z);
}

static void put_evidence(struct ws_text *text, const struct ws_kernel_finding *finding)
{
	ws_put_json_key(text, "evidence");
	ws_text_puts(text, "[");
	for (size_t i = 0; i < finding->evidence_count; i++) {
		ws_put_json_comma(text);
		ws_text_puts(text, "{");
		ws_put_json_string(text, "label", finding->evidence[i].label);
		ws_put_json_string(text, "metric", finding->evidence[i].metric);
		ws_put_json_string(text, "unit", finding->evidence[i].unit);
		put_number(text, "value", finding->evidence[i].value);
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "]");
}

static void put_finding(struct ws_text *text, const struct ws_kernel_finding *finding)
{
	static const char *const kinds[] = {"verdict", "cause", "symptom", "note"};

	ws_put_json_comma(text);
	ws_text_puts(text, "{");
	ws_put_json_string(text, "rule", finding->rule);
	ws_put_json_string(text, "section", finding->section);
	ws_put_json_string(text, "kind", kinds[finding->kind]);
	put_number(text, "estimate", finding->estimate);
	ws_put_json_string(text, "title", finding->title);
	ws_put_json_string(text, "advice", finding->advice);
	if (finding->assumption)
		ws_put_json_string(text, "assumption", finding->assumption);
	put_evidence(text, finding);
	ws_text_puts(text, "}");
}

static void put_metrics(struct ws_text *text, const struct ws_kernel_result *result)
{
	size_t count;
	const char **names = ws_kernel_list_names(result, &count);

	ws_put_json_key(text, "metrics");
	ws_text_puts(text, "{");
	for (size_t i = 0; i < count; i++) {
		const char *words = ws_kernel_get_text(result, names[i]);

		ws_put_json_key(text, names[i]);
		ws_text_puts(text, "{");
		if (words)
			ws_put_json_string(text, "value", words);
		else
			put_number(text, "value", ws_kernel_get(result, names[i]));
		ws_put_json_string(text, "unit", ws_kernel_find_unit(result, names[i]));
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "}");
	free(names);
}

/* How often each reason to wait was seen. */
static void put_stalls(struct ws_text *text, const struct ws_kernel_spots *lines,
		       const struct ws_kernel_spot *line)
{
	ws_put_json_key(text, "stalls");
	ws_text_puts(text, "{");
	for (size_t i = 0; i < lines->reason_count; i++)
		if (line->stalls[i] > 0)
			put_number(text, lines->reasons[i], line->stalls[i]);
	ws_text_puts(text, "}");
}

static void put_line(struct ws_text *text, const struct ws_kernel_spots *lines,
		     const struct ws_kernel_spot *line)
{
	double all = lines->total.counts[WS_SPOT_samples], samples = line->counts[WS_SPOT_samples];

	ws_put_json_comma(text);
	ws_text_puts(text, "{");
	ws_put_json_string(text, "file", line->file);
	ws_put_json_int(text, "line", line->line);
	put_number(text, "instructions", line->counts[WS_SPOT_executed]);
	put_number(text, "samples", samples);
	put_number(text, "share", all > 0 ? samples / all : 0);
	put_stalls(text, lines, line);
	ws_text_puts(text, "}");
}

/* The lines where the kernel spends its time, the hottest first. */
static void put_lines(struct ws_text *text, const struct ws_report *report, uint32_t result)
{
	struct ws_kernel_spots spots, lines;
	size_t put = 0;

	ws_kernel_load_spots(report, result, &spots);
	if (spots.count) {
		ws_kernel_sum_lines(&spots, &lines);
		ws_put_json_key(text, "lines");
		ws_text_puts(text, "[");
		for (size_t i = 0; i < lines.count && put < LINES_MOST; i++)
			if (lines.spots[i].line) {
				put_line(text, &lines, &lines.spots[i]);
				put++;
			}
		ws_text_puts(text, "]");
		ws_kernel_free_spots(&lines);
	}
	ws_kernel_free_spots(&spots);
}

static void put_result(struct ws_text *text, const struct ws_report *report,
		       const struct ws_kernel_judged *judged)
{
	const struct ws_kernel_result *result = judged->result;
	const struct ws_row_kernel_result *row = &result->row;

	ws_put_json_comma(text);
	ws_text_puts(text, "{");
	ws_put_json_int(text, "id", row->id);
	ws_put_json_int(text, "pid", result->pid);
	ws_put_json_string(text, "name", result->name);
	ws_put_json_string(text, "demangled", result->demangled);
	ws_put_json_string(text, "gpu", result->gpu);
	ws_put_json_string(text, "chip", result->chip);
	ws_put_json_string(text, "tool", result->tool);
	if (*result->error)
		ws_put_json_string(text, "error", result->error);
	ws_put_json_int(text, "device", row->device);
	ws_put_json_int(text, "context", row->context);
	ws_put_json_int(text, "stream", row->stream);
	put_sizes(text, "grid", row->grid_x, row->grid_y, row->grid_z);
	put_sizes(text, "block", row->block_x, row->block_y, row->block_z);
	put_number(text, "duration_ns", result->duration_ns);
	put_number(text, "estimate", judged->estimate);
	put_number(text, "run_ns", judged->run_ns);
	put_number(text, "saved_ns", judged->saved_ns);
	ws_put_json_key(text, "findings");
	ws_text_puts(text, "[");
	for (size_t i = 0; i < judged->findings.count; i++)
		put_finding(text, &judged->findings.findings[i]);
	ws_text_puts(text, "]");
	put_metrics(text, result);
	put_lines(text, report, row->id);
	ws_text_puts(text, "}");
}

void ws_kernel_print_json(const struct ws_report *report,
			  const struct ws_kernel_judgement *judgement, struct ws_text *text)
{
	ws_text_puts(text, "[");
	for (size_t i = 0; i < judgement->count; i++)
		put_result(text, report, &judgement->judged[i]);
	ws_text_puts(text, "]\n");
}
