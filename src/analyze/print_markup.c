/* print_markup.c - an analysis as Markdown and as HTML. */
#include <stdlib.h>
#include <string.h>

#include "analyze/print.h"
#include "base/choose.h"

static double as_ms(const struct ws_analysis *analysis, uint64_t ns)
{
	return (double)ns / 1e6 / (double)analysis->steps;
}

static const char *choose_unit(const struct ws_analysis *analysis)
{
	if (analysis->steps > 1)
		return "ms a step";
	return "ms";
}

/* What could be taken for markup is written as an entity in both. */
static void put_escaped(const char *text, bool markdown, FILE *file)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", file);
		else if (*text == '>')
			fputs("&gt;", file);
		else if (*text == '&')
			fputs("&amp;", file);
		else if (markdown && strchr("|*_`[]\\", *text))
			fprintf(file, "\\%c", *text);
		else
			fputc(*text, file);
	}
}

static void print_markdown_row(const struct ws_analysis_view *view, uint64_t ns, const char *name)
{
	fprintf(view->file, "| %.1f %% | %.3f | %s |\n", 100 * ws_analysis_part(view->analysis, ns),
		as_ms(view->analysis, ns), name);
}

static void print_price(const struct ws_analysis_view *view, const struct ws_finding *finding)
{
	if (!finding->cost_ns)
		return;
	fprintf(view->file, "Costs %.3f %s (%.1f %%), could gain %.3f (%.1f %%). ",
		as_ms(view->analysis, finding->cost_ns), choose_unit(view->analysis),
		100 * ws_analysis_share(view->analysis, finding->cost_ns),
		as_ms(view->analysis, finding->gain_ns),
		100 * ws_analysis_share(view->analysis, finding->gain_ns));
}

static void print_markdown_finding(const struct ws_analysis_view *view,
				   const struct ws_finding *finding)
{
	fprintf(view->file, "\n### %s: ", ws_name_level(finding->level));
	put_escaped(finding->title, true, view->file);
	fprintf(view->file, "\n\n");
	print_price(view, finding);
	put_escaped(ws_text_or(finding->advice, ""), true, view->file);
	fprintf(view->file, "\n");
}

static void print_markdown_phases(const struct ws_analysis_view *view)
{
	const struct ws_phases *phases = &view->analysis->phases;

	if (!phases->known)
		return;
	fprintf(view->file,
		"\n| Share | ms a step | GPU work, ms | Phase |\n|---:|---:|---:|---|\n");
	for (int phase = 0; phase < WS_PHASES; phase++)
		if (phases->ns[phase])
			fprintf(view->file, "| %.1f %% | %.3f | %.3f | %s |\n",
				100 * (double)phases->ns[phase] / (double)phases->total,
				(double)phases->ns[phase] / 1e6 / (double)phases->steps,
				(double)phases->gpu_ns[phase] / 1e6 / (double)phases->steps,
				ws_name_phase((enum ws_phase)phase));
}

static void print_html_phases(const struct ws_analysis_view *view)
{
	const struct ws_phases *phases = &view->analysis->phases;

	if (!phases->known)
		return;
	fprintf(view->file, "<h2>Phases of a step, with the GPU work launched in them</h2>\n"
			    "<table>\n");
	for (int phase = 0; phase < WS_PHASES; phase++)
		if (phases->ns[phase])
			fprintf(view->file, "<tr><td>%.1f %%<td>%.3f ms<td>%.3f ms<td>%s\n",
				100 * (double)phases->ns[phase] / (double)phases->total,
				(double)phases->ns[phase] / 1e6 / (double)phases->steps,
				(double)phases->gpu_ns[phase] / 1e6 / (double)phases->steps,
				ws_name_phase((enum ws_phase)phase));
	fprintf(view->file, "</table>\n");
}

/* The text tables, unchanged. */
static void print_launches(const struct ws_analysis_view *view, bool markdown)
{
	char *text = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length);

	if (!file)
		return;
	ws_print_launches_text(view->analysis, file);
	fclose(file);
	if (length && markdown)
		fprintf(view->file, "\n```%s```\n", text);
	if (length && !markdown) {
		fprintf(view->file, "<pre>");
		put_escaped(text, false, view->file);
		fprintf(view->file, "</pre>\n");
	}
	free(text);
}

/* The answers to --what-if, one on each line, with `begin` before it and `end` after it. */
static void print_what_ifs(const struct ws_analysis_view *view, bool markdown, const char *begin,
			   const char *end)
{
	for (size_t i = 0; i < view->what_if_count; i++) {
		const struct ws_what_if_answer *answer = &view->what_ifs[i];
		struct ws_text text = {0};

		ws_text_printf(&text, "%s: ", answer->text);
		ws_put_what_if(&answer->result, view->analysis->model->step_source != WS_STEPS_NONE,
			       &text);
		ws_text_printf(&text, "; assumed: %s", answer->assumption);
		fputs(begin, view->file);
		put_escaped(text.text, markdown, view->file);
		fputs(end, view->file);
		ws_text_free(&text);
	}
}

static void print_markdown_checks(const struct ws_analysis_view *view)
{
	if (!view->checklist)
		return;
	fprintf(view->file, "\n## Checklist\n\n| Verdict | Question | Answer |\n|---|---|---|\n");
	for (size_t i = 0; i < WS_CHECKS; i++) {
		const struct ws_check *check = &view->checklist->checks[i];

		fprintf(view->file, "| %s | %s | ", ws_name_verdict(check->verdict),
			check->question);
		put_escaped(check->answer, true, view->file);
		fprintf(view->file, " |\n");
	}
}

static void print_html_checks(const struct ws_analysis_view *view)
{
	if (!view->checklist)
		return;
	fprintf(view->file, "<h2>Checklist</h2>\n<table>\n");
	for (size_t i = 0; i < WS_CHECKS; i++) {
		const struct ws_check *check = &view->checklist->checks[i];

		fprintf(view->file, "<tr><td>%s<td>%s<td>", ws_name_verdict(check->verdict),
			check->question);
		put_escaped(check->answer, false, view->file);
		fputc('\n', view->file);
	}
	fprintf(view->file, "</table>\n");
}

void ws_print_analysis_markdown(const struct ws_analysis_view *view)
{
	const struct ws_analysis *analysis = view->analysis;

	fprintf(view->file, "# ");
	put_escaped(view->path, true, view->file);
	fprintf(view->file, "\n\n| Share | %s | On the critical path |\n|---:|---:|---|\n",
		choose_unit(analysis));
	for (int cause = 0; cause < WS_CAUSES; cause++)
		if (analysis->breakdown.by_cause[cause])
			print_markdown_row(view, analysis->breakdown.by_cause[cause],
					   ws_name_cause((enum ws_cause)cause));
	print_markdown_phases(view);
	print_launches(view, true);
	if (view->what_if_count)
		fprintf(view->file, "\n## What if\n\n");
	print_what_ifs(view, true, "- ", "\n");
	print_markdown_checks(view);
	fprintf(view->file, "\n## Findings\n");
	for (size_t i = 0; i < view->findings->count; i++)
		print_markdown_finding(view, &view->findings->findings[i]);
	if (!view->findings->count)
		fprintf(view->file, "\nnone\n");
}

static void print_html_finding(const struct ws_analysis_view *view,
			       const struct ws_finding *finding)
{
	fprintf(view->file, "<h3 class=\"%s\">%s: ", ws_name_level(finding->level),
		ws_name_level(finding->level));
	put_escaped(finding->title, false, view->file);
	fprintf(view->file, "</h3>\n<p>");
	print_price(view, finding);
	put_escaped(ws_text_or(finding->advice, ""), false, view->file);
	fprintf(view->file, "</p>\n");
}

void ws_print_analysis_html(const struct ws_analysis_view *view)
{
	const struct ws_analysis *analysis = view->analysis;

	fprintf(view->file, "<h1>");
	put_escaped(view->path, false, view->file);
	fprintf(view->file, "</h1>\n<h2>The critical path</h2>\n<table>\n");
	for (int cause = 0; cause < WS_CAUSES; cause++)
		if (analysis->breakdown.by_cause[cause])
			fprintf(view->file, "<tr><td>%.1f %%<td>%.3f %s<td>%s\n",
				100 * ws_analysis_part(analysis,
						       analysis->breakdown.by_cause[cause]),
				as_ms(analysis, analysis->breakdown.by_cause[cause]),
				choose_unit(analysis), ws_name_cause((enum ws_cause)cause));
	fprintf(view->file, "</table>\n");
	print_html_phases(view);
	print_launches(view, false);
	if (view->what_if_count)
		fprintf(view->file, "<h2>What if</h2>\n");
	print_what_ifs(view, false, "<p>", "</p>\n");
	print_html_checks(view);
	fprintf(view->file, "<h2>Findings</h2>\n");
	for (size_t i = 0; i < view->findings->count; i++)
		print_html_finding(view, &view->findings->findings[i]);
	if (!view->findings->count)
		fprintf(view->file, "<p>none</p>\n");
}

void ws_print_together_markup(const struct ws_together *together, FILE *file)
{
	struct ws_text text = {0};

	ws_put_together_text(together, &text);
	fputs("\n<pre>", file);
	put_escaped(text.text, false, file);
	fputs("</pre>\n", file);
	ws_text_free(&text);
}
