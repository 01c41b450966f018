/* analyze.c - the command `analyze`: what slows a program down, what it costs, what to do. */
#include <stdio.h>

#include "analyze/analysis.h"
#include "analyze/finding.h"
#include "analyze/print.h"
#include "cli/cli.h"
#include "cli/text.h"
#include "query/operand.h"

struct options {
	const char *step;
};

#define AT(member) offsetof(struct options, member)

static const struct ws_opt opts[] = {
	{"step", 0, WS_OPT_STRING, AT(step), "NAME", NULL,
	 "NVTX ranges of this name, with or without a number behind it, are the steps. By default "
	 "annotations of a framework and ranges called step, iteration and the like; without such, "
	 "repetitions of a sequence of kernels.",
	 NULL},
	{NULL},
};

static int analyze_report(const struct options *options, const char *path)
{
	struct ws_model_options model_options = {.step_name = options->step, .to = UINT64_MAX};
	struct ws_report *report = ws_open_operand_report(path);
	struct ws_analysis *analysis;
	struct ws_findings findings;
	struct ws_err err;

	if (!report)
		return WS_EXIT_FAIL;
	analysis = ws_analysis_open(report, &model_options, &err);
	if (!analysis) {
		ws_say("analyze: %s: %s", path, err.msg);
		ws_report_close(report);
		return WS_EXIT_FAIL;
	}
	ws_findings_make(analysis, NULL, &findings);
	ws_print_analysis_text(analysis, &findings, stdout);
	ws_findings_free(&findings);
	ws_analysis_close(analysis);
	ws_report_close(report);
	return WS_EXIT_OK;
}

static int run_analyze(void *values, int argc, char **argv)
{
	int status = WS_EXIT_OK;

	if (!argc) {
		ws_say("analyze: no report: warpsight analyze REPORT...");
		return WS_EXIT_USAGE;
	}
	for (int i = 0; i < argc; i++) {
		int one = analyze_report(values, argv[i]);

		if (one)
			status = one;
	}
	return status;
}

const struct ws_command ws_cmd_analyze = {
	.name = "analyze",
	.summary = "Say what slows a program down, what it costs and what to do.",
	.usage = "[options] REPORT...",
	.details = "Finds the steps of the program, shows what their time was spent on, and names "
		   "what costs most, with advice.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight analyze run.wsrep\n",
	.run = run_analyze,
};
