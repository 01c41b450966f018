/*
 * report.c - the command `report`: where time went, by function, as a flat table or a tree of
 * calls.
 *
 * -f means the format here, as for stats.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/tables.h"
#include "cli/text.h"
#include "text/output_file.h"
#include "stats/filter.h"
#include "stats/profile_view.h"

struct options {
	const char *view, *show, *by, *frames, *sort, *process, *thread, *module, *event;
	const char *format, *output, *timeunit, *filter_time, *filter_nvtx, *least;
	int64_t depth, limit;
	bool quiet, overwrite, wide;
};

#define AT(member) offsetof(struct options, member)

static const struct ws_opt opts[] = {
	{"view", 0, WS_OPT_ENUM, AT(view), "VIEW", "flat,top-down,bottom-up",
	 "flat: one row per function; top-down: the tree of calls from the outermost function; "
	 "bottom-up: the functions that cost time, with their callers below.",
	 "flat"},
	{"show", 0, WS_OPT_ENUM, AT(show), "WHAT", "on-cpu,off-cpu,python,gpu",
	 "on-cpu: CPU samples; off-cpu: the time that threads waited, by reason; python: Python "
	 "stacks that were read from outside the process; gpu: work on GPUs, by the NVTX ranges "
	 "around the calls that launched it.",
	 "on-cpu"},
	{"by", 0, WS_OPT_SET, AT(by), "KEY[,KEY...]", "process,thread,function,line,module",
	 "What a row is: a function, a source line or a module, optionally for each process or "
	 "thread separately. In trees, processes and threads are the outermost level. process and "
	 "thread alone give one row for each.",
	 "function"},
	{"frames", 0, WS_OPT_ENUM, AT(frames), "KIND", "all,python,native",
	 "Which functions of a stack to show.", "all"},
	{"process", 0, WS_OPT_STRING, AT(process), "PID|NAME", NULL,
	 "Only this process, or all of this name.", NULL},
	{"thread", 0, WS_OPT_STRING, AT(thread), "TID|NAME", NULL,
	 "Only this thread, or all of this name.", NULL},
	{"module", 0, WS_OPT_STRING, AT(module), "PATH|NAME", NULL,
	 "Only stacks whose innermost function is in this file.", NULL},
	{"event", 0, WS_OPT_STRING, AT(event), "NAME", NULL,
	 "Only samples of this event. By default those of the first event that was recorded, and "
	 "those of clocks.",
	 NULL},
	{"filter-time", 0, WS_OPT_STRING, AT(filter_time), "[START]/[END]", NULL,
	 "Only this span of time. Times count from the start of the collection, in nanoseconds or "
	 "with ns, us, ms, s.",
	 NULL},
	{"filter-nvtx", 0, WS_OPT_STRING, AT(filter_nvtx), "RANGE[@DOMAIN][/INDEX]", NULL,
	 "Only the span of this NVTX range, on all threads, as for stats.", NULL},
	{"depth", 0, WS_OPT_INT, AT(depth), "N", NULL,
	 "Show at most this many levels of a tree; 0 for all.", "0"},
	{"limit", 0, WS_OPT_INT, AT(limit), "N", NULL,
	 "Show at most this many rows of a flat table, or below one row of a tree; 0 for all.",
	 "0"},
	{"min-percent", 0, WS_OPT_STRING, AT(least), "P", NULL,
	 "Leave out what is less than P percent in total. Default: 0 for flat tables and 0.5 for "
	 "trees.",
	 NULL},
	{"sort", 0, WS_OPT_ENUM, AT(sort), "BY", "self,total",
	 "Order of the rows of a flat table; by default self. Trees are in order of total.", NULL},
	{"format", 'f', WS_OPT_STRING, AT(format), "FORMAT[:ARG]", NULL,
	 "column, table, csv, tsv, json, html, htable or markdown, as for stats. By default column "
	 "for standard output and csv for files.",
	 NULL, ws_add_format_names},
	{"output", 'o', WS_OPT_STRING, AT(output), "PATH", NULL,
	 "File to write; - is standard output (the default).", NULL},
	{"timeunit", 0, WS_OPT_STRING, AT(timeunit), "UNIT", NULL,
	 "Unit of times: ns, us, ms or s.", "ms"},
	{"force-overwrite", 0, WS_OPT_BOOL, AT(overwrite), NULL, NULL,
	 "Replace the output file if it exists.", NULL},
	WS_WIDE_OPTION(wide),
	{"quiet", 'q', WS_OPT_FLAG, AT(quiet), NULL, NULL,
	 "Do not report what was left out or is incomplete.", NULL},
	{NULL},
};

/* The position of `word` in a list separated by commas. The options have been checked against the
 * same list. */
static int find_position(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (int i = 0; *list; i++) {
		size_t item_length = strcspn(list, ",");

		if (item_length == length && !memcmp(list, word, length))
			return i;
		list += item_length + (list[item_length] == ',');
	}
	return 0;
}

static bool has_word(const char *set, const char *word)
{
	size_t length = strlen(word);

	for (const char *text = set; *text; text += strcspn(text, ","), text += *text == ',')
		if (strcspn(text, ",") == length && !memcmp(text, word, length))
			return true;
	return false;
}

static int fill_keys(const struct options *options, struct ws_view_request *request,
		     struct ws_err *err)
{
	bool line = has_word(options->by, "line"), module = has_word(options->by, "module"),
	     function = has_word(options->by, "function");

	if (line + module + function > 1)
		return ws_fail(
			err,
			"--by: a row is one of function, line and module, but '%s' names several",
			options->by);
	request->profile.by_process = has_word(options->by, "process");
	request->profile.by_thread = has_word(options->by, "thread");
	request->profile.unit = WS_UNIT_FUNCTION;
	if (line)
		request->profile.unit = WS_UNIT_LINE;
	else if (module)
		request->profile.unit = WS_UNIT_MODULE;
	request->units = line || module || function;
	if (!request->units && request->view != WS_VIEW_FLAT)
		request->units = true; /* a tree is of functions, below processes or threads */
	return 0;
}

static int fill_limits(const struct options *options, struct ws_view_request *request,
		       struct ws_err *err)
{
	char *end;

	if (options->depth < 0)
		return ws_fail(err, "--depth: the number is negative; 0 means all");
	if (options->limit < 0)
		return ws_fail(err, "--limit: the number is negative; 0 means all");
	if (options->depth && request->view == WS_VIEW_FLAT)
		return ws_fail(err,
			       "--depth is for trees; give --view=top-down or --view=bottom-up "
			       "with it, or --limit");
	request->depth = (uint64_t)options->depth;
	request->limit = (uint64_t)options->limit;
	request->least = 0;
	if (request->view != WS_VIEW_FLAT)
		request->least = 0.5;
	if (options->least) {
		request->least = strtod(options->least, &end);
		if (*end || end == options->least ||
		    !(request->least >= 0 && request->least <= 100))
			return ws_fail(err, "--min-percent: '%s' is not a number from 0 to 100",
				       options->least);
	}
	return 0;
}

static int fill_request(const struct options *options, struct ws_view_request *request,
			struct ws_err *err)
{
	struct ws_format_args args;

	request->view = (enum ws_view)find_position("flat,top-down,bottom-up", options->view);
	request->profile.kind =
		(enum ws_profile_kind)find_position("on-cpu,off-cpu,python,gpu", options->show);
	request->profile.frames =
		(enum ws_frames)find_position("all,python,native", options->frames);
	request->by_total = options->sort && has_word(options->sort, "total");
	request->unit = ws_find_timeunit(options->timeunit);
	if (!request->unit)
		return ws_fail(err, "--timeunit: '%s' is not one of ns, us, ms, s",
			       options->timeunit);
	if (options->sort && request->view != WS_VIEW_FLAT)
		return ws_fail(err,
			       "--sort is for flat tables; rows of trees are in order of total");
	if (request->profile.kind == WS_PROFILE_GPU && options->module)
		return ws_fail(err, "--module: work on GPUs has no stacks of CPU functions");
	if (request->profile.kind == WS_PROFILE_GPU && strcmp(options->frames, "all"))
		return ws_fail(err, "--frames: work on GPUs has no stacks of CPU functions");
	if (request->profile.kind != WS_PROFILE_ON_CPU && options->event)
		return ws_fail(err, "--event: only CPU samples (--show=on-cpu) are of an event");
	if (fill_keys(options, request, err) < 0 || fill_limits(options, request, err) < 0)
		return -1;
	if (options->format && !ws_find_format(options->format, &args, err))
		return -1;
	if (!options->filter_time)
		return 0;
	return ws_check_time_filter(options->filter_time, err);
}

static int run_report(void *values, int argc, char **argv)
{
	const struct options *options = values;
	struct ws_view_request request = {
		.profile = {.process = options->process,
			    .thread = options->thread,
			    .module = options->module,
			    .event = options->event},
		.format = options->format,
		.output = options->output,
		.filter_time = options->filter_time,
		.filter_nvtx = options->filter_nvtx,
		.quiet = options->quiet,
		.overwrite = options->overwrite,
	};
	struct ws_err err;
	int rc;

	ws_print_wide = options->wide;
	if (!ws_check_one_report("report", argc))
		return WS_EXIT_USAGE;
	if (fill_request(options, &request, &err) < 0) {
		ws_say("report: %s", err.msg);
		return WS_EXIT_USAGE;
	}
	rc = ws_print_profile_view(argv[0], &request);
	if (rc == WS_OUTPUT_PIPE_CLOSED)
		return WS_EXIT_PIPE_CLOSED;
	return ws_exit_status(rc);
}

const struct ws_command ws_cmd_report = {
	.name = "report",
	.summary = "Show where time went, by function.",
	.usage = "[options] FILE",
	.details = "Shows the CPU samples of a report by function: self is what was sampled in the "
		   "function itself, total also what "
		   "was sampled in "
		   "functions that it called (once for each sample, however often the function "
		   "calls itself). Functions inlined into "
		   "others count as "
		   "functions. Code without a name counts by its file, in brackets.\n\n"
		   "--show=off-cpu shows instead what threads waited for: each wait stands below "
		   "the call stack that was recorded with "
		   "it, if any, as "
		   "[reason: function path]. --show=gpu shows time on GPUs by NVTX range.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight report report1\n"
		    "warpsight report --view=top-down --thread=worker --depth=8 report1\n"
		    "warpsight report --show=off-cpu --by=thread,function report1\n"
		    "warpsight report --filter-nvtx=step/10 --by=module -f csv report1",
	.run = run_report,
};
