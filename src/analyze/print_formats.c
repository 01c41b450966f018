/* print_formats.c - the table of forms, and what they share. */
#include <stdlib.h>
#include <string.h>

#include "analyze/print.h"

static void print_together_text(const struct ws_together *together, FILE *file)
{
	struct ws_text text = {0};

	ws_put_together_text(together, &text);
	fputs(text.text, file);
	ws_text_free(&text);
}

static void print_together_json(const struct ws_together *together, FILE *file)
{
	struct ws_text text = {0};

	ws_put_together_json(together, &text);
	fprintf(file, ",\n%s", text.text);
	ws_text_free(&text);
}

const struct ws_analysis_format ws_analysis_formats[] = {
	{"text", "txt", "for people", NULL, "\n", NULL, ws_print_analysis_text,
	 print_together_text},
	{"json", "json", "for programs: an array with an object for each report", "[\n", ",\n",
	 "]\n", ws_print_analysis_json, print_together_json},
	{"markdown", "md", "for issues and wikis", NULL, "\n", NULL, ws_print_analysis_markdown,
	 ws_print_together_markup},
	{"html", "html", "a page without scripts",
	 "<!doctype html>\n<meta charset=\"utf-8\">\n<title>warpsight analyze</title>\n"
	 "<style>body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
	 "td{padding:0 .8em}td:first-child{text-align:right}.critical{color:#b00020}"
	 ".warning{color:#9a5b00}</style>\n",
	 NULL, NULL, ws_print_analysis_html, ws_print_together_markup},
	{"sarif", "sarif", "SARIF 2.1.0, for code hosts and editors",
	 "{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\",\"version\":\"2.1.0\","
	 "\"runs\":[\n",
	 ",\n", "]}\n", ws_print_analysis_sarif, ws_print_together_sarif},
	{NULL},
};

const struct ws_analysis_format *ws_find_analysis_format(const char *name)
{
	for (const struct ws_analysis_format *format = ws_analysis_formats; format->name; format++)
		if (!strcmp(format->name, name))
			return format;
	return NULL;
}

void ws_put_finding_id(const struct ws_finding *finding, struct ws_text *text)
{
	ws_text_puts(text, finding->rule->name);
	if (finding->number > 1)
		ws_text_printf(text, "-%u", finding->number);
}

char *ws_fill_in_report(const char *text, const char *path)
{
	const char *at = strstr(text, "REPORT");

	if (!at)
		return ws_strdup(text);
	return ws_format("%.*s%s%s", (int)(at - text), text, path, at + strlen("REPORT"));
}

void ws_put_what_if(const struct ws_what_if *result, bool steps, struct ws_text *text)
{
	double now = (double)result->now / 1e6 / (double)result->steps,
	       then = (double)result->then / 1e6 / (double)result->steps;
	const char *word = "less";
	double share = 0;

	if (result->now)
		share = 100 * (1 - (double)result->then / (double)result->now);
	if (result->then > result->now) {
		word = "more";
		share = -share;
	}
	ws_text_printf(text, "%s of %.3f ms would take %.3f ms (%.1f %% %s)",
		       steps ? "a step" : "the run", now, then, share, word);
}
