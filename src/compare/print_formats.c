/* print_formats.c - the table of forms, and what they share. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/choose.h"
#include "compare/print.h"

const struct ws_comparison_format ws_comparison_formats[] = {
	{"text", "for people", ws_print_comparison_text},
	{"csv", "a line for each item", ws_print_comparison_csv},
	{"json", "everything, for programs", ws_print_comparison_json},
	{"markdown", "for issues and wikis", ws_print_comparison_markdown},
	{NULL},
};

const struct ws_comparison_format *ws_find_comparison_format(const char *name)
{
	for (const struct ws_comparison_format *format = ws_comparison_formats; format->name;
	     format++)
		if (!strcmp(format->name, name))
			return format;
	return NULL;
}

void ws_put_change_id(const struct ws_change *change, struct ws_text *out)
{
	ws_text_printf(out, "%s-%016" PRIx64, ws_item_descs[change->kind].name,
		       XXH3_64bits(change->name, strlen(change->name)));
}

void ws_put_milliseconds(double ns, bool with_sign, struct ws_text *out)
{
	ws_text_printf(out, with_sign ? "%+.3f ms" : "%.3f ms", ns / 1e6);
}

void ws_put_percent(double share, struct ws_text *out)
{
	if (!isfinite(share))
		ws_text_puts(out, "-");
	else if (fabs(share) >= 9.995)
		ws_text_printf(out, "x%.1f", 1 + share);
	else
		ws_text_printf(out, "%+.1f %%", 100 * share);
}

void ws_put_change(double change, double low, double high, struct ws_text *out)
{
	ws_put_percent(change, out);
	if (!isfinite(change))
		return;
	if (!isfinite(high)) {
		ws_text_puts(out, " (cannot be known)");
		return;
	}
	ws_text_puts(out, " (95 %: ");
	ws_put_percent(low, out);
	ws_text_puts(out, " to ");
	ws_put_percent(high, out);
	ws_text_puts(out, ")");
}

void ws_put_relative_change(const struct ws_comparison *comparison, const struct ws_change *change,
			    struct ws_text *out)
{
	double plain = ws_compute_change(change->ns);
	const double worth_saying = 0.0005;

	if (!change->judged) {
		ws_put_percent(plain, out);
		ws_text_puts(out, " (too little of the time to be judged)");
		return;
	}
	if (isfinite(plain) && fabs(change->change - plain) > worth_saying) {
		ws_put_percent(plain, out);
		if (comparison->shift[change->kind] != 0)
			ws_text_puts(out, ", beside the others ");
		else
			ws_text_puts(out, ", typically ");
	}
	ws_put_change(change->change, change->low, change->high, out);
}

/* One in twenty intervals of 95 % leaves out 0 by chance: a change takes more than that. */
static bool is_uncertain(const struct ws_change *change)
{
	return change->verdict == WS_CHANGE_SAME && change->estimate.known &&
	       (change->low > 0 || change->high < 0);
}

void ws_put_verdict(const struct ws_change *change, struct ws_text *out)
{
	ws_text_puts(out, ws_name_change_verdict(change->verdict));
	if (is_uncertain(change))
		ws_text_puts(out, " that is certain (by chance, one interval in 20 leaves out 0, "
				  "too)");
}

static void put_sides(const struct ws_comparison *comparison, struct ws_text *out)
{
	if (comparison->has_steps)
		ws_text_puts(out, "Step time: ");
	else
		ws_text_puts(out, "Run time: ");
	ws_put_milliseconds(comparison->step.ns[0], false, out);
	ws_text_puts(out, " -> ");
	ws_put_milliseconds(comparison->step.ns[1], false, out);
}

void ws_put_comparison_summary(const struct ws_comparison *comparison, struct ws_text *out)
{
	const struct ws_change *step = &comparison->step;

	put_sides(comparison, out);
	ws_text_puts(out, ", ");
	ws_put_relative_change(comparison, step, out);
	ws_text_puts(out, ": ");
	ws_put_verdict(step, out);
	if (comparison->changed)
		ws_text_printf(out, "; %zu part%s changed", comparison->changed,
			       ws_plural(comparison->changed));
	else if (is_uncertain(step))
		ws_text_puts(out, ", and no part stands out of the noise");
	else if (step->verdict == WS_CHANGE_SAME && comparison->own.verdict == WS_CHANGE_SAME)
		ws_text_puts(out, " that stands out of the noise, in any part either");
}
