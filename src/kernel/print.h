/*
 * print.h - results in the terminal and for programs: pages, summaries, lists.
 */
#ifndef WS_KERNEL_PRINT_H
#define WS_KERNEL_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "kernel/choose.h"
#include "kernel/result.h"
#include "kernel/rules.h"
#include "kernel/sections.h"

enum ws_kernel_page { WS_KERNEL_DETAILS, WS_KERNEL_RAW, WS_KERNEL_SOURCE };
enum ws_kernel_grouping {
	WS_KERNEL_NO_SUMMARY,
	WS_KERNEL_PER_GPU,
	WS_KERNEL_PER_KERNEL,
	WS_KERNEL_PER_NVTX
};
enum ws_kernel_body { WS_KERNEL_HEADER, WS_KERNEL_BODY, WS_KERNEL_ALL };

struct ws_kernel_page_choice {
	enum ws_kernel_page page;
	enum ws_kernel_grouping grouping;
	enum ws_kernel_body body; /* which lines of a section the details page shows */
	bool csv, json;
	bool no_rules;
	bool brief;   /* only the summary table */
	size_t width; /* texts are wrapped to this many columns */
};

/* Results, with their findings and their place in the run. */
struct ws_kernel_judged {
	const struct ws_kernel_result *result;
	struct ws_kernel_findings findings;
	double estimate; /* of the first finding that is not a symptom; 0: there is none */
	double run_ns;	 /* time of this kernel in the whole run: from the time line when the report
			    has one, otherwise from its results */
	double saved_ns; /* run_ns * estimate */
};
struct ws_kernel_judgement {
	struct ws_kernel_judged *judged; /* in the order of the results */
	size_t count;
};
void ws_kernel_judge_all(const struct ws_kernel_results *results,
			 struct ws_kernel_judgement *judgement);
void ws_kernel_judgement_free(struct ws_kernel_judgement *judgement);

/* Print the results of a report as `view` says. Returns 0, or -1 with a message. */
int ws_kernel_print(const struct ws_kernel_results *results,
		    const struct ws_kernel_page_choice *view, FILE *file, struct ws_err *err);

/* Whether the page shows a section of a result: one that was asked for, or one with enough known
 * values. */
bool ws_kernel_shows_section(const struct ws_kernel_result *result, size_t section);
/* "name (4096, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0" */
void ws_kernel_add_headline(struct ws_text *text, const struct ws_kernel_result *result);
/* Append a value and its unit in readable form, with a prefix. */
void ws_kernel_add_value(struct ws_text *text, double value, const char *unit);
/* Append a text, wrapped; each line begins with `indent` blanks. */
void ws_kernel_add_wrapped(struct ws_text *out, const char *text, size_t indent, size_t width);
/* The label of a finding as users know it: "INF" for notes and verdicts, "OPT" for possible
 * gains. */
const char *ws_kernel_finding_type(const struct ws_kernel_finding *finding);

/* The pages; ws_kernel_print chooses. */
void ws_kernel_print_summary(const struct ws_kernel_judgement *judgement, struct ws_text *text);
void ws_kernel_print_details(const struct ws_report *report, const struct ws_kernel_judged *judged,
			     const struct ws_kernel_page_choice *view, struct ws_text *text);
void ws_kernel_print_raw(const struct ws_kernel_result *result, struct ws_text *text);
int ws_kernel_print_source(const struct ws_kernel_results *results, bool csv, struct ws_text *text,
			   struct ws_err *err);
void ws_kernel_print_groups(const struct ws_kernel_results *results,
			    enum ws_kernel_grouping grouping, struct ws_text *text);
void ws_kernel_print_details_csv(const struct ws_kernel_results *results,
				 const struct ws_kernel_judgement *judgement,
				 const struct ws_kernel_page_choice *view, struct ws_text *text);
void ws_kernel_print_raw_csv(const struct ws_kernel_results *results, struct ws_text *text);
void ws_kernel_print_json(const struct ws_report *report,
			  const struct ws_kernel_judgement *judgement, struct ws_text *text);

/* The names of all metrics of a result, including computed ones, sorted; the caller frees the array
 * but not the names. */
const char **ws_kernel_list_names(const struct ws_kernel_result *result, size_t *count);
/* The unit of a metric of a result; "" when it has none. */
const char *ws_kernel_find_unit(const struct ws_kernel_result *result, const char *metric);

/* Lists of what can be measured. */
void ws_kernel_print_sets(struct ws_text *text);
void ws_kernel_print_sections(struct ws_text *text);
void ws_kernel_print_rules(struct ws_text *text);
/* Print the metrics of a request on a chip of each family, and how many passes they take. */
int ws_kernel_print_metrics(const struct ws_kernel_request *request, struct ws_text *text,
			    struct ws_err *err);
/* Which metrics of a chip are listed, and how. */
struct ws_kernel_query {
	const char *chip;
	const char *metrics; /* names or regex:EXPRESSION, separated by commas; NULL: all */
	bool suffixes, csv;
};
/* Base metrics of a chip with unit and description, or all their forms. */
int ws_kernel_print_chip_metrics(const struct ws_kernel_query *query, struct ws_text *text,
				 struct ws_err *err);
/* The line of columns that CSV begins with. */
void ws_kernel_print_query_head(const struct ws_kernel_query *query, struct ws_text *text);
int ws_kernel_print_chips(struct ws_text *text, struct ws_err *err);

#endif
