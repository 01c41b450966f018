/* print.h - the forms in which a comparison is written. */
#ifndef WS_COMPARE_PRINT_H
#define WS_COMPARE_PRINT_H

#include <stdio.h>

#include "compare/compare.h"
#include "compare/gate.h"

struct ws_comparison_view {
	const struct ws_comparison *comparison;
	const struct ws_gate_findings *gates;
	bool all; /* text and markdown: unchanged items too */
	FILE *file;
};

struct ws_comparison_format {
	const char *name, *about;
	void (*print)(const struct ws_comparison_view *view);
};
extern const struct ws_comparison_format ws_comparison_formats[]; /* ended by one without a name */
/* NULL when there is none of this name. */
const struct ws_comparison_format *ws_find_comparison_format(const char *name);

/* For people. Times are per step where there are steps, else per run. */
void ws_print_comparison_text(const struct ws_comparison_view *view);
void ws_print_comparison_markdown(const struct ws_comparison_view *view);
/* A line for each item, times in nanoseconds. */
void ws_print_comparison_csv(const struct ws_comparison_view *view);
/* One object; docs/diff.md describes it. */
void ws_print_comparison_json(const struct ws_comparison_view *view);
/* The same object appended to a text, for the page. At most `most` items; 0: all. */
void ws_put_comparison_json(const struct ws_comparison_view *view, size_t most,
			    struct ws_text *out);

/* "kernel-3f9a0c11d2e47b65": from kind and name, the same in every comparison. */
void ws_put_change_id(const struct ws_change *change, struct ws_text *out);
/* Append figures for people: "1.234 ms", "+4.9 %". */
void ws_put_milliseconds(double ns, bool with_sign, struct ws_text *out);
void ws_put_percent(double share, struct ws_text *out);
/* Append "+4.9 % (95 %: +2.1 to +7.7 %)". */
void ws_put_change(double change, double low, double high, struct ws_text *out);
/* "slower", "no change"...; of no change whose interval leaves out 0, why it is none. */
void ws_put_verdict(const struct ws_change *change, struct ws_text *out);
/* The change of the time. Where it differs from the typical change less what all items of the kind
 * have in common, that change too, because it is the one that is judged. */
void ws_put_relative_change(const struct ws_comparison *comparison, const struct ws_change *change,
			    struct ws_text *out);
/* One line that says whether the step, and anything else, has changed. */
void ws_put_comparison_summary(const struct ws_comparison *comparison, struct ws_text *out);

#endif
