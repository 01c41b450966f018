/* print_lists.c - what can be measured: sets, sections, rules, metrics of chips. */
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "gpu/host.h"
#include "kernel/choose.h"
#include "kernel/print.h"
#include "kernel/units.h"
#include "text/pattern.h"

/* One chip of each family. */
static const char *const chips[] = {"GA100", "GA102", "AD102", "GH100", "GB100", "GB202"};

void ws_kernel_print_sets(struct ws_text *text)
{
	for (size_t i = 0; i < ws_kernel_set_count; i++) {
		const struct ws_kernel_set *set = &ws_kernel_sets[i];
		struct ws_text words = {0};
		size_t shown = 0;

		for (size_t k = 0; k < ws_kernel_section_count; k++)
			if (ws_kernel_sections[k].sets & set->bit)
				ws_text_printf(&words, "%s%s", shown++ ? ", " : "",
					       ws_kernel_sections[k].identifier);
		ws_text_printf(text, "%s%s: %s\n", set->name, i ? "" : " (default)", set->about);
		ws_kernel_add_wrapped(text, words.text, 4, 100);
		ws_text_free(&words);
	}
}

void ws_kernel_print_sections(struct ws_text *text)
{
	for (size_t i = 0; i < ws_kernel_section_count; i++)
		ws_text_printf(text, "%-44s  %s\n", ws_kernel_sections[i].identifier,
			       ws_kernel_sections[i].title);
}

void ws_kernel_print_rules(struct ws_text *text)
{
	for (size_t i = 0; ws_kernel_rules[i]; i++)
		ws_text_printf(text, "%-26s  %-32s  %s\n", ws_kernel_rules[i]->identifier,
			       ws_kernel_rules[i]->section, ws_kernel_rules[i]->about);
}

static void print_choice(const char *chip, const struct ws_kernel_choice *choice,
			 struct ws_text *text)
{
	size_t passes =
		ws_gpu_host_passes(chip, (const char *const *)choice->names, choice->count, NULL);

	ws_text_printf(text, "%s: %zu metrics", chip, choice->count);
	if (passes)
		ws_text_printf(text, ", %zu passes", passes);
	if (choice->sampled.count)
		ws_text_printf(text, ", %zu sampled in one more", choice->sampled.count);
	ws_text_puts(text, "\n");
	for (size_t i = 0; i < choice->count; i++)
		ws_text_printf(text, "    %s\n", choice->names[i]);
	for (size_t i = 0; i < choice->sampled.count; i++)
		ws_text_printf(text, "    " WS_KERNEL_SAMPLED "%s\n", choice->sampled.names[i]);
}

int ws_kernel_print_metrics(const struct ws_kernel_request *request, struct ws_text *text,
			    struct ws_err *err)
{
	size_t known = 0;

	for (size_t i = 0; i < WS_COUNT(chips); i++) {
		struct ws_kernel_choice choice = {0};

		if (!ws_kernel_choose(request, chips[i], &choice, err)) {
			print_choice(chips[i], &choice, text);
			known++;
		} else {
			ws_text_printf(text, "%s: %s\n", chips[i], err->msg);
		}
		ws_kernel_choice_free(&choice);
	}
	if (!known)
		ws_text_free(text);
	return known ? 0 : -1;
}

/* ---- every metric of a chip ---- */

static void put_quoted(struct ws_text *text, const char *word, const char *end)
{
	ws_text_puts(text, "\"");
	for (; *word; word++)
		ws_text_printf(text, *word == '"' ? "\"%c" : "%c", *word);
	ws_text_printf(text, "\"%s", end);
}

void ws_kernel_print_query_head(const struct ws_kernel_query *query, struct ws_text *text)
{
	if (!query->csv)
		return;
	ws_text_puts(text, "\"Chip\",\"Metric Name\"");
	if (!query->suffixes)
		ws_text_puts(text, ",\"Metric Type\",\"Metric Unit\",\"Metric Description\"");
	ws_text_puts(text, "\n");
}

static void add_suffixes(const struct ws_kernel_query *query, struct ws_gpu_host *host,
			 const struct ws_gpu_metric *metric, struct ws_text *text)
{
	size_t count;
	const char *const *suffixes = ws_gpu_host_suffixes(host, metric, &count);

	for (size_t i = 0; i < count; i++)
		if (query->csv)
			ws_text_printf(text, "\"%s\",\"%s%s\"\n", query->chip, metric->name,
				       suffixes[i]);
		else
			ws_text_printf(text, "%s%s\n", metric->name, suffixes[i]);
}

static void add_metric(const struct ws_kernel_query *query, struct ws_gpu_host *host,
		       const struct ws_gpu_metric *metric, struct ws_text *text)
{
	static const char *const types[] = {"Counter", "Ratio", "Throughput"};
	const char *about = ws_gpu_host_describe(host, metric->name);
	char unit[WS_UNIT_ROOM];

	ws_kernel_unit_of(metric->name, ws_gpu_host_unit(host, metric->name), unit);
	if (!query->csv) {
		ws_text_printf(text, "%-80s  %-10s  %-16s  %s\n", metric->name, types[metric->type],
			       unit, about);
		return;
	}
	put_quoted(text, query->chip, ",");
	put_quoted(text, metric->name, ",");
	put_quoted(text, types[metric->type], ",");
	put_quoted(text, unit, ",");
	put_quoted(text, about, "\n");
}

/* Whether an entry of the list names the metric, with or without a suffix. */
static bool is_named_by(const char *entry, const char *name)
{
	struct ws_pattern pattern;
	bool found;

	if (strncmp(entry, "regex:", 6))
		return strcspn(entry, ".") == strlen(name) && !strncmp(entry, name, strlen(name));
	if (ws_compile_pattern(&pattern, entry + 6, REG_EXTENDED, NULL))
		return false;
	found = ws_match_pattern(&pattern, name);
	ws_free_pattern(&pattern);
	return found;
}

static bool is_queried(const struct ws_kernel_query *query, const char *name)
{
	char *list, *rest, *entry;
	bool found = !query->metrics;

	if (found)
		return true;
	list = rest = ws_strdup(query->metrics);
	while (!found && (entry = strsep(&rest, ",")))
		found = is_named_by(entry, name);
	free(list);
	return found;
}

int ws_kernel_print_chip_metrics(const struct ws_kernel_query *query, struct ws_text *text,
				 struct ws_err *err)
{
	struct ws_gpu_host *host = ws_gpu_host_open(query->chip, err);
	const struct ws_gpu_metric *metrics;
	size_t count, shown = 0;

	if (!host)
		return -1;
	metrics = ws_gpu_host_metrics(host, &count);
	for (size_t i = 0; i < count; i++) {
		if (!is_queried(query, metrics[i].name))
			continue;
		shown++;
		if (query->suffixes)
			add_suffixes(query, host, &metrics[i], text);
		else
			add_metric(query, host, &metrics[i], text);
	}
	ws_gpu_host_close(host);
	if (shown)
		return 0;
	return ws_fail(err, "the chip %s has no metric that --metrics names: %s", query->chip,
		       ws_text_or(query->metrics, ""));
}

int ws_kernel_print_chips(struct ws_text *text, struct ws_err *err)
{
	size_t count;
	const char *const *names = ws_gpu_chips(&count, err);

	if (!names)
		return -1;
	for (size_t i = 0; i < count; i++)
		ws_text_printf(text, "%s\n", names[i]);
	return 0;
}
