/*
 * kernel_show.h - the part of the command `kernel` that needs no GPU: pages of results that are
 * there, lists of what can be measured, explanations.
 */
#ifndef WS_CLI_KERNEL_SHOW_H
#define WS_CLI_KERNEL_SHOW_H

#include "cli/cli.h"

struct ws_kernel_show {
	const char *page, *summary, *body, *import, *chips, *query_mode, *explain, *language;
	const char *sets, *sections; /* as --set and --section, for --list-metrics */
	const char *metrics;	     /* as --metrics: to evaluate from counters that were kept */
	bool csv, json, no_rules, quiet;
	bool list_sets, list_sections, list_rules, list_metrics, query_metrics;
};

/* Results that were measured, or a file that is called like them and no program. */
bool ws_is_kernel_report(const char *path);
/* Whether this is to show something and not to run a program: an option that says so, or operands
 * that are all reports or files of other tools. */
bool ws_wants_kernel_show(const struct ws_kernel_show *show, int argc, char **argv);
/* Show it; returns the exit status. */
int ws_run_kernel_show(const struct ws_kernel_show *show, int argc, char **argv);
/* Show a report that was just written, on standard output; only the summary table where `brief`
 * holds and no page was asked for. */
void ws_show_new_kernels(const struct ws_kernel_show *show, const char *report, bool brief);

/* The options; `show` is the member of the command's option struct. */
#define WS_KERNEL_SHOW_OPTIONS(show)                                                               \
	{"page",                                                                                   \
	 0,                                                                                        \
	 WS_OPT_ENUM,                                                                              \
	 AT(show.page),                                                                            \
	 "PAGE",                                                                                   \
	 "details,raw,source",                                                                     \
	 "What to show of each kernel: sections with findings (details), all metrics (raw), or "   \
	 "metrics of lines and instructions (source).",                                            \
	 NULL},                                                                                    \
		{"print-details",                                                                  \
		 0,                                                                                \
		 WS_OPT_ENUM,                                                                      \
		 AT(show.body),                                                                    \
		 "PART",                                                                           \
		 "header,body,all",                                                                \
		 "Which tables of a section the page of details shows: the one at its head, "      \
		 "those "                                                                          \
		 "of its body, or all.",                                                           \
		 NULL},                                                                            \
		{"print-summary",                                                                  \
		 0,                                                                                \
		 WS_OPT_ENUM,                                                                      \
		 AT(show.summary),                                                                 \
		 "BY",                                                                             \
		 "none,per-gpu,per-kernel,per-nvtx",                                               \
		 "Show the least, highest and mean value of each metric over the results of a "    \
		 "GPU, of a kernel with the same grid and block, or of an NVTX range.",            \
		 NULL},                                                                            \
		{"csv",                                                                            \
		 0,                                                                                \
		 WS_OPT_FLAG,                                                                      \
		 AT(show.csv),                                                                     \
		 NULL,                                                                             \
		 NULL,                                                                             \
		 "Write the page as comma-separated values, with the columns of Nsight Compute.",  \
		 NULL},                                                                            \
		{"json",                                                                           \
		 0,                                                                                \
		 WS_OPT_FLAG,                                                                      \
		 AT(show.json),                                                                    \
		 NULL,                                                                             \
		 NULL,                                                                             \
		 "Write results with all metrics and findings as JSON.",                           \
		 NULL},                                                                            \
		{"no-rules",                                                                       \
		 0,                                                                                \
		 WS_OPT_FLAG,                                                                      \
		 AT(show.no_rules),                                                                \
		 NULL,                                                                             \
		 NULL,                                                                             \
		 "Show values only: no findings, no summary.",                                     \
		 NULL},                                                                            \
		{"import",                                                                         \
		 'i',                                                                              \
		 WS_OPT_STRING,                                                                    \
		 AT(show.import),                                                                  \
		 "FILE",                                                                           \
		 NULL,                                                                             \
		 "Show the results of a report, or of what ncu --csv --page raw printed, instead " \
		 "of running a program.",                                                          \
		 NULL},                                                                            \
		{"list-sets",                                                                      \
		 0,                                                                                \
		 WS_OPT_FLAG,                                                                      \
		 AT(show.list_sets),                                                               \
		 NULL,                                                                             \
		 NULL,                                                                             \
		 "List the sets of sections.",                                                     \
		 NULL},                                                                            \
		{"list-sections",      0,   WS_OPT_FLAG, AT(show.list_sections), NULL, NULL,       \
		 "List the sections.", NULL},                                                      \
		{"list-rules", 0,    WS_OPT_FLAG,	AT(show.list_rules),                       \
		 NULL,	       NULL, "List the rules.", NULL},                                     \
		{"list-metrics",                                                                   \
		 0,                                                                                \
		 WS_OPT_FLAG,                                                                      \
		 AT(show.list_metrics),                                                            \
		 NULL,                                                                             \
		 NULL,                                                                             \
		 "List the metrics that --set and --section measure, and the passes they take, "   \
		 "by "                                                                             \
		 "chip.",                                                                          \
		 NULL},                                                                            \
		{"query-metrics",                                                                  \
		 0,                                                                                \
		 WS_OPT_FLAG,                                                                      \
		 AT(show.query_metrics),                                                           \
		 NULL,                                                                             \
		 NULL,                                                                             \
		 "List every metric that the chips of --chips have.",                              \
		 NULL},                                                                            \
		{"query-metrics-mode",                                                             \
		 0,                                                                                \
		 WS_OPT_ENUM,                                                                      \
		 AT(show.query_mode),                                                              \
		 "MODE",                                                                           \
		 "base,suffix",                                                                    \
		 "List base names with units and descriptions, or all forms of each.",             \
		 "base"},                                                                          \
		{"chips",                                                                          \
		 0,                                                                                \
		 WS_OPT_STRING,                                                                    \
		 AT(show.chips),                                                                   \
		 "CHIP[,CHIP...]",                                                                 \
		 NULL,                                                                             \
		 "Chips of --query-metrics, such as gh100; help lists them.",                      \
		 "gh100"},                                                                         \
		{"explain",                                                                        \
		 0,                                                                                \
		 WS_OPT_STRING,                                                                    \
		 AT(show.explain),                                                                 \
		 "METRIC",                                                                         \
		 NULL,                                                                             \
		 "Say in words what a metric counts.",                                             \
		 NULL},                                                                            \
	{                                                                                          \
		"language", 0, WS_OPT_ENUM, AT(show.language), "LANGUAGE", "en,zh",                \
			"Language of --explain.", "en"                                             \
	}

#endif
