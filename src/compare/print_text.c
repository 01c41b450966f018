/* print_text.c - a comparison as text for people, and as Markdown. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "compare/print.h"
#include "text/text.h"

enum { MOST_CHANGES = 40, MOST_ROWS = 12 };

/* One of the two forms: the parts in which they differ. */
struct form {
	bool markdown;
	const struct ws_comparison_view *view;
	struct ws_text out;
};

/* Names come from the program and may hold anything. */
static void put_name(struct form *form, const char *name)
{
	struct ws_text safe = {0};

	ws_put_terminal_text(&safe, name, strlen(name));
	for (const char *at = ws_text_or(safe.text, ""); *at; at++) {
		if (form->markdown && *at == '<')
			ws_text_puts(&form->out, "&lt;");
		else if (form->markdown && *at == '&')
			ws_text_puts(&form->out, "&amp;");
		else if (form->markdown && strchr("|*_`[]\\#", *at))
			ws_text_printf(&form->out, "\\%c", *at);
		else
			ws_text_add(&form->out, at, 1);
	}
	ws_text_free(&safe);
}

static void put_title(struct form *form, const char *title)
{
	if (form->markdown)
		ws_text_printf(&form->out, "\n## %s\n\n", title);
	else
		ws_text_printf(&form->out, "\n%s:\n", title);
}

/* ---- the runs ---- */

static void put_side(struct form *form, size_t side, const char *name)
{
	const struct ws_comparison *comparison = form->view->comparison;
	size_t first = side ? comparison->counts[0] : 0;

	ws_text_printf(&form->out, "%s%s: ", form->markdown ? "- " : "", name);
	for (size_t i = first; i < first + comparison->counts[side]; i++) {
		const struct ws_run_facts *run = &comparison->runs[i];

		ws_text_puts(&form->out, i > first ? ", " : "");
		put_name(form, run->path);
		if (run->step_name)
			ws_text_printf(&form->out, " (%zu step%s)", run->steps,
				       ws_plural(run->steps));
	}
	ws_text_puts(&form->out, "\n");
}

/* Why the interval is as wide as it is, where more runs would help. */
static void put_advice(struct form *form)
{
	const struct ws_comparison *comparison = form->view->comparison;
	const struct ws_change *step = &comparison->step;
	double half = (step->high - step->low) / 2;

	if (!step->estimate.known)
		ws_text_puts(&form->out, "There are too few steps to say more: record more of "
					 "them, or several runs a side.\n");
	else if (comparison->run_count < 4 && half > 0.01 && step->verdict == WS_CHANGE_SAME)
		ws_text_printf(&form->out,
			       "With so few runs a change of less than %.1f %% cannot be told from "
			       "noise; several runs a side can (--base A B C --new D E F).\n",
			       100 * half);
}

/* Where other programs used the cores, the time without those waits is less noisy. */
static void put_own_time(struct form *form)
{
	const struct ws_comparison *comparison = form->view->comparison;
	const struct ws_change *own = &comparison->own;
	const double worth_saying = 0.01;
	double most = 0;

	for (size_t i = 0; i < comparison->run_count; i++)
		most = ws_max(most, comparison->runs[i].waiting);
	if (most < worth_saying)
		return;
	ws_text_puts(&form->out, "Without what it waited for a core: ");
	ws_put_milliseconds(own->ns[0], false, &form->out);
	ws_text_puts(&form->out, " -> ");
	ws_put_milliseconds(own->ns[1], false, &form->out);
	ws_text_puts(&form->out, ", ");
	ws_put_relative_change(comparison, own, &form->out);
	ws_text_puts(&form->out, ": ");
	ws_put_verdict(own, &form->out);
	ws_text_puts(&form->out, "\n");
}

static void put_shifts(struct form *form)
{
	const struct ws_comparison *comparison = form->view->comparison;
	const double worth_saying = 0.01;

	for (int kind = 0; kind < WS_ITEM_KINDS; kind++) {
		if (fabs(comparison->shift[kind]) < worth_saying)
			continue;
		ws_text_printf(&form->out, "All %s together changed by ",
			       ws_item_descs[kind].plural);
		ws_put_percent(expm1(comparison->shift[kind]), &form->out);
		ws_text_puts(&form->out, ", which may be the machine's doing: parts are judged by "
					 "what they changed beside that.\n");
	}
}

/* ---- what explains it ---- */

/* Figures in thousandths of a unit, rounded so that the lines above a sum add up to it. */
struct rounder {
	double unit; /* ns of a thousandth */
	int64_t sum[WS_SIDES], given[WS_SIDES];
};

static void round_next(struct rounder *rounder, const int64_t ns[WS_SIDES], double out[WS_SIDES])
{
	for (size_t side = 0; side < WS_SIDES; side++) {
		int64_t upto;

		rounder->sum[side] += ns[side];
		upto = llround((double)rounder->sum[side] / rounder->unit);
		out[side] = (double)(upto - rounder->given[side]) / 1000;
		rounder->given[side] = upto;
	}
}

static struct rounder choose_unit(const struct ws_explanation *explanation, const char **name)
{
	if (ws_max(explanation->total[0], explanation->total[1]) >= 1000000) {
		*name = "ms";
		return (struct rounder){.unit = 1000};
	}
	*name = "us";
	return (struct rounder){.unit = 1};
}

static void put_explained(struct form *form, struct rounder *rounder, const int64_t ns[WS_SIDES],
			  const char *cause, const char *what)
{
	double values[WS_SIDES];

	round_next(rounder, ns, values);
	if (values[0] == 0 && values[1] == 0)
		return;
	ws_text_printf(&form->out,
		       form->markdown ? "| %.3f | %.3f | %+.3f | " : "  %11.3f %11.3f %+11.3f  ",
		       values[0], values[1], values[1] - values[0]);
	put_name(form, cause);
	if (what && *what) {
		ws_text_puts(&form->out, ": ");
		put_name(form, what);
	}
	ws_text_puts(&form->out, form->markdown ? " |\n" : "\n");
}

static void put_explained_head(struct form *form, const char *unit)
{
	if (form->markdown)
		ws_text_printf(&form->out,
			       "| before, %s | after, %s | change | |\n|---:|---:|---:|---|\n",
			       unit, unit);
	else
		ws_text_printf(&form->out, "  %8s %s %8s %s %8s %s\n", "before", unit, "after",
			       unit, "change", unit);
}

static void put_total(struct form *form, const struct ws_explanation *explanation,
		      struct rounder rounder)
{
	rounder = (struct rounder){.unit = rounder.unit};
	put_explained(form, &rounder, explanation->total, "together", NULL);
}

static void put_causes(struct form *form, const struct ws_explanation *explanation)
{
	const char *unit;
	struct rounder rounder = choose_unit(explanation, &unit);

	put_explained_head(form, unit);
	for (size_t i = 0; i < explanation->cause_count; i++)
		put_explained(form, &rounder, explanation->causes[i].ns,
			      explanation->causes[i].cause, NULL);
	put_total(form, explanation, rounder);
}

/* The rows that changed most, and the rest as one, so that they add up too. */
static void put_rows(struct form *form, const struct ws_explanation *explanation)
{
	const char *unit;
	struct rounder rounder = choose_unit(explanation, &unit);
	int64_t rest[WS_SIDES] = {0};
	size_t shown = ws_min(explanation->count, (size_t)MOST_ROWS);

	put_explained_head(form, unit);
	for (size_t i = 0; i < explanation->count; i++) {
		const struct ws_explained_row *row = &explanation->rows[i];

		if (i < shown)
			put_explained(form, &rounder, row->ns, row->cause, row->what);
		rest[0] += i < shown ? 0 : row->ns[0];
		rest[1] += i < shown ? 0 : row->ns[1];
	}
	if (shown < explanation->count)
		put_explained(form, &rounder, rest, "everything else", NULL);
	put_total(form, explanation, rounder);
}

static void put_explanations(struct form *form)
{
	const struct ws_comparison *comparison = form->view->comparison;
	const char *unit = comparison->has_steps ? ", a step" : "";
	char *title = ws_format("What explains it (the critical path)%s", unit);

	put_title(form, title);
	free(title);
	put_causes(form, &comparison->path);
	title = ws_format("The same by code, calls and kernels%s", unit);
	put_title(form, title);
	free(title);
	put_rows(form, &comparison->path);
	for (size_t i = 0; i < comparison->gpu_count; i++) {
		title = ws_format("Where the time of %s went%s", comparison->gpus[i].title, unit);
		put_title(form, title);
		free(title);
		put_causes(form, &comparison->gpus[i]);
	}
}

/* ---- items ---- */

static void put_count(double count, struct ws_text *out)
{
	ws_text_printf(out, "%.4g", count);
}

static void put_change_name(struct form *form, const struct ws_change *change)
{
	ws_text_printf(&form->out, "%s ", ws_item_descs[change->kind].name);
	put_name(form, change->name);
	if (change->renamed) {
		ws_text_puts(&form->out, " (now ");
		put_name(form, change->renamed);
		ws_text_puts(&form->out, ")");
	}
	if (change->names[0] > 1 || change->names[1] > 1)
		ws_text_printf(&form->out, " (%zu names, now %zu)", change->names[0],
			       change->names[1]);
}

static void put_change(struct form *form, const struct ws_change *change)
{
	const char *between = form->markdown ? " | " : ", ";

	ws_text_puts(&form->out, form->markdown ? "| " : "  ");
	ws_text_printf(&form->out, "%s%s", ws_name_change_verdict(change->verdict),
		       form->markdown ? " | " : ": ");
	put_change_name(form, change);
	ws_text_puts(&form->out, form->markdown ? " | " : "\n      ");
	ws_put_milliseconds(change->ns[0], false, &form->out);
	ws_text_puts(&form->out, " -> ");
	ws_put_milliseconds(change->ns[1], false, &form->out);
	ws_text_puts(&form->out, between);
	ws_put_milliseconds(change->ns[1] - change->ns[0], true, &form->out);
	ws_text_puts(&form->out, between);
	ws_put_relative_change(form->view->comparison, change, &form->out);
	ws_text_printf(&form->out, "%s%s", between, form->markdown ? "" : "count ");
	put_count(change->count[0], &form->out);
	ws_text_puts(&form->out, " -> ");
	put_count(change->count[1], &form->out);
	ws_text_puts(&form->out, form->markdown ? " |\n" : "\n");
}

static size_t count_judged(const struct ws_comparison *comparison)
{
	size_t judged = 0;

	for (size_t i = 0; i < comparison->count; i++)
		judged += comparison->changes[i].judged;
	return judged;
}

static void put_items(struct form *form)
{
	const struct ws_comparison *comparison = form->view->comparison;
	size_t wanted = comparison->changed, shown;
	char *title;

	if (form->view->all)
		wanted = comparison->count;
	shown = form->view->all ? wanted : ws_min(wanted, (size_t)MOST_CHANGES);
	title = ws_format("Changed parts%s (%zu of %zu that are large enough to matter)",
			  comparison->has_steps ? ", a step" : "", comparison->changed,
			  count_judged(comparison));
	put_title(form, title);
	free(title);
	if (form->markdown && shown)
		ws_text_puts(&form->out, "| | Part | Time | Difference | Change | Count |\n"
					 "|---|---|---|---:|---|---|\n");
	for (size_t i = 0; i < shown; i++)
		put_change(form, &comparison->changes[i]);
	if (shown < wanted)
		ws_text_printf(&form->out, "%s%zu more: --all shows them\n",
			       form->markdown ? "\n" : "  ", wanted - shown);
	if (!shown)
		ws_text_puts(&form->out, form->markdown ? "none\n" : "  none\n");
}

static void put_gate(struct form *form, const struct ws_gate_finding *finding)
{
	ws_text_printf(&form->out, "%s%s: ", form->markdown ? "- " : "  ",
		       ws_name_gate_result(finding->result));
	put_name(form, finding->gate->text);
	ws_text_puts(&form->out, ": ");
	if (finding->gate->name) {
		put_change_name(form, finding->change);
		ws_text_puts(&form->out, " ");
	}
	ws_put_change(finding->measured.change, finding->measured.low, finding->measured.high,
		      &form->out);
	ws_text_puts(&form->out, "\n");
}

static void put_gates(struct form *form)
{
	const struct ws_gate_findings *gates = form->view->gates;

	if (!gates || !gates->count)
		return;
	put_title(form, "Conditions");
	for (size_t i = 0; i < gates->count; i++)
		put_gate(form, &gates->findings[i]);
}

static void print_form(const struct ws_comparison_view *view, bool markdown)
{
	struct form form = {.markdown = markdown, .view = view};

	if (markdown)
		ws_text_puts(&form.out, "# ");
	ws_put_comparison_summary(view->comparison, &form.out);
	ws_text_puts(&form.out, markdown ? "\n\n" : "\n");
	put_own_time(&form);
	put_advice(&form);
	put_shifts(&form);
	put_side(&form, 0, "base");
	put_side(&form, 1, "new");
	put_gates(&form);
	put_explanations(&form);
	put_items(&form);
	fwrite(form.out.text, 1, form.out.len, view->file);
	ws_text_free(&form.out);
}

void ws_print_comparison_text(const struct ws_comparison_view *view)
{
	print_form(view, false);
}

void ws_print_comparison_markdown(const struct ws_comparison_view *view)
{
	print_form(view, true);
}
