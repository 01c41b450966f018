/* print.h - the forms in which an analysis is written. */
#ifndef WS_ANALYZE_PRINT_H
#define WS_ANALYZE_PRINT_H

#include <stdio.h>

#include "analyze/analysis.h"
#include "analyze/checklist.h"
#include "analyze/finding.h"
#include "analyze/together.h"
#include "analyze/what_if.h"

/* The input of all forms. */
struct ws_analysis_view {
	const struct ws_analysis *analysis;
	const struct ws_findings *findings;
	const char *path; /* of the report, for commands and links */
	const struct ws_what_if_answer *what_ifs;
	size_t what_if_count;
	const struct ws_checklist *checklist; /* NULL: not asked for */
	bool brief; /* text: no more than the three findings that cost most */
	FILE *file;
};

struct ws_analysis_format {
	const char *name, *extension, *about;
	/* Text before the first report, between two and after the last; NULL for nothing. */
	const char *begin, *between, *end;
	void (*print)(const struct ws_analysis_view *view);
	/* What reports of one rank each say together, after all of them. */
	void (*print_together)(const struct ws_together *together, FILE *file);
};
extern const struct ws_analysis_format ws_analysis_formats[]; /* ended by one without a name */
/* NULL when there is none of this name. */
const struct ws_analysis_format *ws_find_analysis_format(const char *name);

/* For people. Times are per step where there are steps, else for the run. */
void ws_print_analysis_text(const struct ws_analysis_view *view);
/* The steps, where the time went and the findings as one object. Times are nanoseconds; `start` and
 * `end` count from the start of the first collection. */
void ws_print_analysis_json(const struct ws_analysis_view *view);
void ws_print_analysis_markdown(const struct ws_analysis_view *view);
void ws_print_analysis_html(const struct ws_analysis_view *view);
void ws_print_together_markup(const struct ws_together *together, FILE *file); /* both */
/* One run of SARIF 2.1.0, the form in which code hosts show results of checks. */
void ws_print_analysis_sarif(const struct ws_analysis_view *view);
void ws_print_together_sarif(const struct ws_together *together, FILE *file); /* a run more */

/* How far the CPU runs ahead of the GPU, and short kernels, as tables; nothing where the CPU
 * launched nothing. */
void ws_print_launches_text(const struct ws_analysis *analysis, FILE *file);
/* The same as members "queues" and "short_kernels" of an object. */
void ws_put_launches_json(const struct ws_analysis *analysis, struct ws_text *out);
/* "a step of 3.210 ms would take 1.870 ms (41.7 % less)". */
void ws_put_what_if(const struct ws_what_if *result, bool steps, struct ws_text *text);
/* "data-loading", "data-loading-2": stable as long as the report is. */
void ws_put_finding_id(const struct ws_finding *finding, struct ws_text *text);
/* `text` with REPORT replaced by the report's path. Owned by the caller. */
char *ws_fill_in_report(const char *text, const char *path);

#endif
