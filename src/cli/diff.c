/* diff.c - the command `diff`: what changed between runs, and what explains it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/matching.h"
#include "cli/cli.h"
#include "cli/diff_kernels.h"
#include "cli/text.h"
#include "compare/print.h"
#include "query/operand.h"
#include "text/output_file.h"

/* Exit statuses of conditions; 1 and 2 are for what goes wrong. */
enum { EXIT_GATE_FAILED = 3, EXIT_GATE_UNKNOWN = 4 };

struct options {
	struct ws_list base, fresh, gates;
	const char *step, *format, *output, *noise, *kernels;
	bool overwrite, whole, other_gpu, all;
};

#define AT(member) offsetof(struct options, member)

static const struct ws_opt opts[] = {
	{"base", 0, WS_OPT_WORDS, AT(base), "REPORT...", NULL,
	 "Runs before the change: files and patterns, all up to the next option.", NULL},
	{"new", 0, WS_OPT_WORDS, AT(fresh), "REPORT...", NULL,
	 "Runs after the change, in the same way.", NULL},
	{"fail-on", 0, WS_OPT_LIST, AT(gates), "CONDITION", NULL,
	 "For continuous integration: end with status 3 when the condition holds, with 4 when that "
	 "cannot be decided, because there are too few steps or the runs are too noisy. A "
	 "condition is '[time|count|mean] METRIC > NUMBER[%|ns|us|ms|s]', or <, and METRIC is "
	 "step, own (a step without what it waited for a core), total, or range, kernel, copy, "
	 "api, os, operator, python or function and a name or pattern: 'step>3%', 'kernel "
	 "gemm*>5%', 'count api cudaMalloc>0%'.",
	 NULL},
	{"format", 'f', WS_OPT_ENUM, AT(format), "FORMAT", "text,csv,json,markdown",
	 "The form of the answer.", "text"},
	{"output", 'o', WS_OPT_STRING, AT(output), "PATH", NULL,
	 "File to write; - is standard output (the default).", NULL},
	{"force-overwrite", 0, WS_OPT_BOOL, AT(overwrite), NULL, NULL,
	 "Replace the output file if it exists.", NULL},
	{"all", 'a', WS_OPT_FLAG, AT(all), NULL, NULL,
	 "List what has not changed, too (csv and json always do).", NULL},
	{"step", 0, WS_OPT_STRING, AT(step), "NAME", NULL,
	 "NVTX ranges of this name, with or without a number behind it, are the steps; by default "
	 "they are found as 'analyze' finds them.",
	 NULL},
	{"whole", 0, WS_OPT_FLAG, AT(whole), NULL, NULL,
	 "Compare the runs as wholes, from start to end, whatever steps they have.", NULL},
	{"noise", 0, WS_OPT_STRING, AT(noise), "PERCENT", NULL,
	 "How much runs of the same program differ on this machine (a standard deviation), if you "
	 "know it. By default a usual value is assumed; with several runs a side it is measured.",
	 NULL},
	{"other-gpu", 0, WS_OPT_FLAG, AT(other_gpu), NULL, NULL,
	 "Compare also runs on GPUs of different models.", NULL},
	{"kernels", 0, WS_OPT_STRING, AT(kernels), "all|ID:ID", NULL,
	 "Compare kernels that 'warpsight kernel' measured: all of the same name, or two results "
	 "by "
	 "their numbers in BASE and in NEW, which may be one report. By default where both have "
	 "nothing else.",
	 NULL},
	{NULL},
};

/* ---- which reports ---- */

struct run_list {
	char **paths;
	size_t count, cap;
};

static void add_path(struct run_list *list, const char *path)
{
	ws_grow(list->paths, list->cap, list->count + 1);
	list->paths[list->count++] = ws_strdup(path);
}

static void free_run_list(struct run_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->paths[i]);
	free(list->paths);
}

static bool is_file(const char *word)
{
	char *path = ws_find_operand_report(word);
	bool there = !access(path, F_OK);

	free(path);
	return there;
}

/* A file, or the files that a pattern fits. What is neither is refused when it is opened. */
static void add_word(struct run_list *list, const char *word)
{
	struct ws_matching_paths found = {0};

	if (!is_file(word) && strpbrk(word, "*?["))
		ws_find_matching_paths(word, &found);
	for (size_t i = 0; i < found.count; i++)
		add_path(list, found.paths[i]);
	if (!found.count)
		add_path(list, word);
	ws_matching_paths_free(&found);
}

/* A word of the command line: a file, a pattern, or several of them with commas between. */
static void add_runs(struct run_list *list, const char *word)
{
	char *words, *rest;

	if (is_file(word) || !strchr(word, ',')) {
		add_word(list, word);
		return;
	}
	rest = words = ws_strdup(word);
	for (char *one; (one = strsep(&rest, ","));)
		if (*one)
			add_word(list, one);
	free(words);
}

/* Both sides from operands and options. -1 when one is missing, with a message. */
static int list_runs(const struct options *options, int argc, char **argv,
		     struct run_list lists[WS_SIDES])
{
	const struct ws_list *given[WS_SIDES] = {&options->base, &options->fresh};
	int next = 0;

	for (size_t side = 0; side < WS_SIDES; side++) {
		for (size_t i = 0; i < given[side]->count; i++)
			add_runs(&lists[side], given[side]->values[i]);
		if (!given[side]->count && next < argc)
			add_runs(&lists[side], argv[next++]);
	}
	if (!lists[0].count || !lists[1].count) {
		ws_say("diff: two reports are compared: warpsight diff [options] BASE NEW");
		return -1;
	}
	if (next < argc) {
		ws_say("diff: '%s' belongs to neither side: of several runs a side write --base "
		       "REPORT... --new REPORT...",
		       argv[next]);
		return -1;
	}
	return 0;
}

/* ---- conditions ---- */

struct gates {
	struct ws_gate *gates;
	size_t count;
	struct ws_gate_findings findings;
};

static int parse_gates(const struct options *options, struct gates *gates)
{
	struct ws_err err;

	gates->gates = ws_calloc(options->gates.count + 1, sizeof(*gates->gates));
	for (size_t i = 0; i < options->gates.count; i++)
		if (ws_gate_parse(options->gates.values[i], &gates->gates[gates->count++], &err)) {
			ws_say("diff: --fail-on: %s", err.msg);
			return -1;
		}
	return 0;
}

static int judge_gates(const struct ws_comparison *comparison, struct gates *gates)
{
	struct ws_err err;

	for (size_t i = 0; i < gates->count; i++)
		if (ws_gate_judge(&gates->gates[i], comparison, &gates->findings, &err)) {
			ws_say("diff: --fail-on: %s", err.msg);
			return -1;
		}
	return 0;
}

static void free_gates(struct gates *gates)
{
	for (size_t i = 0; i < gates->count; i++)
		ws_gate_free(&gates->gates[i]);
	free(gates->gates);
	ws_gate_findings_free(&gates->findings);
}

static int choose_status(const struct gates *gates)
{
	static const int statuses[] = {[WS_GATE_PASS] = WS_EXIT_OK,
				       [WS_GATE_UNKNOWN] = EXIT_GATE_UNKNOWN,
				       [WS_GATE_FAIL] = EXIT_GATE_FAILED};

	return statuses[gates->findings.result];
}

/* ---- comparing ---- */

static int parse_noise(const char *text, double *noise)
{
	char *end;

	*noise = 0;
	if (!text)
		return 0;
	*noise = strtod(text, &end) / 100;
	if (end > text && (!*end || !strcmp(end, "%")) && *noise > 0 && *noise < 1)
		return 0;
	ws_say("diff: --noise: '%s' is not a percentage above 0 and below 100", text);
	return -1;
}

static int add_run(struct ws_comparison *comparison, size_t side, const char *path)
{
	struct ws_report *report = ws_open_operand_report(path);
	struct ws_err err;
	int rc;

	if (!report)
		return -1;
	rc = ws_comparison_add(comparison, side, report, path, &err);
	if (rc)
		ws_say("diff: %s: %s", path, err.msg);
	ws_report_close(report);
	return rc;
}

static int compare_runs(struct ws_comparison *comparison, const struct run_list lists[WS_SIDES])
{
	struct ws_err err;

	for (size_t side = 0; side < WS_SIDES; side++)
		for (size_t i = 0; i < lists[side].count; i++)
			if (add_run(comparison, side, lists[side].paths[i]))
				return -1;
	if (ws_comparison_finish(comparison, &err)) {
		ws_say("diff: %s", err.msg);
		return -1;
	}
	return 0;
}

static int write_comparison(const struct options *options, const struct ws_comparison *comparison,
			    const struct gates *gates)
{
	struct ws_comparison_view view = {.comparison = comparison, .all = options->all};
	struct ws_output_file output;
	struct ws_err err;
	int committed;

	if (gates->count)
		view.gates = &gates->findings;
	if (ws_open_output_file(&output, ws_text_or(options->output, "-"), 0666, options->overwrite,
				&err)) {
		ws_say("diff: %s", err.msg);
		return WS_EXIT_FAIL;
	}
	view.file = output.file;
	ws_find_comparison_format(options->format)->print(&view);
	committed = ws_commit_output(&output, &err);
	if (committed == WS_OUTPUT_PIPE_CLOSED)
		return WS_EXIT_PIPE_CLOSED;
	if (committed) {
		ws_say("diff: %s", err.msg);
		return WS_EXIT_FAIL;
	}
	return choose_status(gates);
}

/* Whether measured kernels are to be compared; then *status is what came of it. */
static bool diff_kernels(const struct options *options, const struct run_list lists[WS_SIDES],
			 int *status)
{
	struct ws_kernel_diff diff = {{lists[0].paths[0], lists[1].paths[0]},
				      options->kernels,
				      options->format,
				      options->output,
				      options->overwrite,
				      options->all};
	bool single = lists[0].count == 1 && lists[1].count == 1;

	if (!options->kernels &&
	    (!single || options->gates.count || !ws_have_only_kernel_results(diff.paths)))
		return false;
	*status = WS_EXIT_USAGE;
	if (!single)
		ws_say("diff: --kernels compares one report with one other");
	else if (options->gates.count)
		ws_say("diff: --fail-on has no conditions for measured kernels; leave out "
		       "--kernels");
	else
		*status = ws_diff_kernels(&diff);
	return true;
}

/* Compare runs by their time lines. */
static int diff_runs(const struct options *options, const struct ws_comparison_options *how,
		     const struct run_list lists[WS_SIDES], struct gates *gates)
{
	struct ws_comparison comparison;
	int status = WS_EXIT_FAIL;

	ws_comparison_begin(&comparison, how);
	if (!compare_runs(&comparison, lists) && !judge_gates(&comparison, gates))
		status = write_comparison(options, &comparison, gates);
	ws_comparison_free(&comparison);
	return status;
}

static int run_diff(void *values, int argc, char **argv)
{
	const struct options *options = values;
	struct ws_comparison_options how = {.step_name = options->step,
					    .whole = options->whole,
					    .other_gpu = options->other_gpu};
	struct run_list lists[WS_SIDES] = {0};
	struct gates gates = {0};
	int status = WS_EXIT_USAGE;

	if (!parse_noise(options->noise, &how.noise) && !parse_gates(options, &gates) &&
	    !list_runs(options, argc, argv, lists) && !diff_kernels(options, lists, &status))
		status = diff_runs(options, &how, lists, &gates);
	for (size_t side = 0; side < WS_SIDES; side++)
		free_run_list(&lists[side]);
	free_gates(&gates);
	return status;
}

const struct ws_command ws_cmd_diff = {
	.name = "diff",
	.summary = "Say what changed between runs, how certain that is, and what explains it.",
	.usage = "[options] BASE NEW",
	.details = "Compares runs before and after a change: the time of a step, and every range, "
		   "kernel, copy, call, operator and function by its name, with 95 % intervals. "
		   "What runs differ by anyway does not count as a change. A change of the step "
		   "time is explained by where the time went before and after, in figures that add "
		   "up. BASE and NEW may each be several runs, with commas between them or as a "
		   "pattern; several runs a side show more than long ones.\n\n"
		   "With --fail-on the exit status is 0 when no condition holds, 3 when one does, "
		   "and 4 when that cannot be decided; 1 and 2 mean that nothing was compared.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight diff before.wsrep after.wsrep\n"
		    "warpsight diff --base a1 a2 a3 --new b1 b2 b3\n"
		    "warpsight diff 'main-*.wsrep' 'branch-*.wsrep'\n"
		    "warpsight diff --fail-on 'step>3%' --fail-on 'kernel gemm*>5%' base new\n"
		    "warpsight diff -f json -o diff.json base new\n"
		    "warpsight diff --kernels 0:3 measured.wsrep measured.wsrep\n",
	.run = run_diff,
};
