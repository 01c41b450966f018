/*
 * report.c - the command `report`: where time went, by function, as a flat table or a tree of
 * calls.
 *
 * -f means the format here, as for stats.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "text/outfile.h"
#include "stats/filter.h"
#include "stats/view.h"

struct options {
	const char *view, *show, *by, *frames, *sort, *process, *thread, *module, *event;
	const char *format, *output, *timeunit, *filter_time, *filter_nvtx, *least;
	int64_t depth, limit;
	bool quiet, overwrite;
};

#define AT(member) offsetof(struct options, member)

static const struct ws_opt opts[] = {
	{"view", 0, WS_OPT_ENUM, AT(view), "VIEW", "flat,top-down,bottom-up",
	 "flat: one row a function; top-down: the tree of calls from the outermost function; "
	 "bottom-up: from the functions that cost, "
	 "with their callers below.",
	 "flat"},
	{"show", 0, WS_OPT_ENUM, AT(show), "WHAT", "on-cpu,off-cpu,python,gpu",
	 "on-cpu: CPU samples; off-cpu: the time that threads waited, by reason; python: stacks of "
	 "Python that were read from outside "
	 "of the "
	 "process; gpu: work on GPUs, by the NVTX ranges around the calls that launched it.",
	 "on-cpu"},
	{"by", 0, WS_OPT_SET, AT(by), "KEY[,KEY...]", "process,thread,function,line,module",
	 "What a row is: a function, a source line or a module, and that of each process or thread "
	 "apart. In trees, processes and "
	 "threads are "
	 "the outermost level. process and thread alone give one row for each.",
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
	 "Samples of this event. Without it, those of the first that was recorded and those of "
	 "clocks.",
	 NULL},
	{"filter-time", 0, WS_OPT_STRING, AT(filter_time), "[START]/[END]", NULL,
	 "Only this span of time. Times count from the start of the collection, in nanoseconds or "
	 "with ns, us, ms, s.",
	 NULL},
	{"filter-nvtx", 0, WS_OPT_STRING, AT(filter_nvtx), "RANGE[@DOMAIN][/INDEX]", NULL,
	 "Only the span of this NVTX range, on all threads, as for stats.", NULL},
	{"depth", 0, WS_OPT_INT, AT(depth), "N", NULL,
	 "At most so many levels of a tree; 0 for all.", "0"},
	{"limit", 0, WS_OPT_INT, AT(limit), "N", NULL,
	 "At most so many rows of a flat table, or below one row of a tree; 0 for all.", "0"},
	{"min-percent", 0, WS_OPT_STRING, AT(least), "P", NULL,
	 "Leave out what is less than P percent in total. Without it, 0 for flat tables and 0.5 "
	 "for trees.",
	 NULL},
	{"sort", 0, WS_OPT_ENUM, AT(sort), "BY", "self,total",
	 "Order of the rows of a flat table; self unless given. Trees are in order of total.",
	 NULL},
	{"format", 'f', WS_OPT_STRING, AT(format), "FORMAT[:ARG]", NULL,
	 "column, table, csv, tsv, json, html, htable or markdown, as for stats. Without it, "
	 "column to standard output and csv to "
	 "files.",
	 NULL},
	{"output", 'o', WS_OPT_STRING, AT(output), "PATH", NULL,
	 "File to write; - is standard output (the default).", NULL},
	{"timeunit", 0, WS_OPT_STRING, AT(timeunit), "UNIT", NULL,
	 "Unit of times: ns, us, ms or s.", "ms"},
	{"force-overwrite", 0, WS_OPT_BOOL, AT(overwrite), NULL, NULL,
	 "Replace the output file if it exists.", NULL},
	{"quiet", 'q', WS_OPT_FLAG, AT(quiet), NULL, NULL,
	 "Say nothing about what was left out or is incomplete.", NULL},
	{NULL},
};

/* Position of `word` in a list separated by commas; the options have been checked against the same.
 */
static int position(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (int i = 0; *list; i++) {
		size_t len = strcspn(list, ",");

		if (len == n && !memcmp(list, word, n))
			return i;
		list += len + (list[len] == ',');
	}
	return 0;
}

static bool has(const char *set, const char *word)
{
	size_t n = strlen(word);

	for (const char *text = set; *text; text += strcspn(text, ","), text += *text == ',')
		if (strcspn(text, ",") == n && !memcmp(text, word, n))
			return true;
	return false;
}

static int fill_keys(const struct options *options, struct ws_view_request *request,
		     struct ws_err *err)
{
	bool line = has(options->by, "line"), module = has(options->by, "module"),
	     function = has(options->by, "function");

	if (line + module + function > 1)
		return ws_fail(
			err,
			"--by: a row is one of function, line and module, but '%s' names several",
			options->by);
	request->profile.by_process = has(options->by, "process");
	request->profile.by_thread = has(options->by, "thread");
	request->profile.unit = line ? WS_UNIT_LINE : module ? WS_UNIT_MODULE : WS_UNIT_FUNCTION;
	request->units = line || module || function;
	if (!request->units && request->view != WS_VIEW_FLAT)
		request->units = true; /* a tree is of functions, below processes or threads */
	return 0;
}

static int fill_limits(const struct options *options, struct ws_view_request *request,
		       struct ws_err *err)
{
	char *end;

	if (options->depth < 0 || options->limit < 0)
		return ws_fail(err, "%s: the number is negative; 0 means all",
			       options->depth < 0 ? "--depth" : "--limit");
	if (options->depth && request->view == WS_VIEW_FLAT)
		return ws_fail(err,
			       "--depth is for trees; give --view=top-down or --view=bottom-up "
			       "with it, or --limit");
	request->depth = (uint64_t)options->depth;
	request->limit = (uint64_t)options->limit;
	request->least = request->view == WS_VIEW_FLAT ? 0 : 0.5;
	if (options->least) {
		request->least = strtod(options->least, &end);
		if (*end || end == options->least ||
		    !(request->least >= 0 && request->least <= 100))
			return ws_fail(err, "--min-percent: '%s' is not a number from 0 to 100",
				       options->least);
	}
	return 0;
}

static int fill(const struct options *options, struct ws_view_request *request, struct ws_err *err)
{
	struct ws_format_args args;

	request->view = (enum ws_view)position("flat,top-down,bottom-up", options->view);
	request->profile.kind =
		(enum ws_profile_kind)position("on-cpu,off-cpu,python,gpu", options->show);
	request->profile.frames = (enum ws_frames)position("all,python,native", options->frames);
	request->by_total = options->sort && has(options->sort, "total");
	request->unit = ws_timeunit_find(options->timeunit);
	if (!request->unit)
		return ws_fail(err, "--timeunit: '%s' is not one of ns, us, ms, s",
			       options->timeunit);
	if (options->sort && request->view != WS_VIEW_FLAT)
		return ws_fail(err,
			       "--sort is for flat tables; rows of trees are in order of total");
	if (request->profile.kind == WS_PROFILE_GPU &&
	    (options->module || strcmp(options->frames, "all")))
		return ws_fail(err, "%s: work on GPUs has no stacks of CPU functions",
			       options->module ? "--module" : "--frames");
	if (request->profile.kind != WS_PROFILE_ON_CPU && options->event)
		return ws_fail(err, "--event: only CPU samples (--show=on-cpu) are of an event");
	if (fill_keys(options, request, err) < 0 || fill_limits(options, request, err) < 0)
		return -1;
	if (options->format && !ws_format_find(options->format, &args, err))
		return -1;
	return options->filter_time ? ws_filter_time_check(options->filter_time, err) : 0;
}

static int run(void *values, int argc, char **argv)
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

	if (argc != 1) {
		ws_say(argc ? "report: one report file at a time, but %d are given"
			    : "report: no report file is given",
		       argc);
		return WS_EXIT_USAGE;
	}
	if (fill(options, &request, &err) < 0) {
		ws_say("report: %s", err.msg);
		return WS_EXIT_USAGE;
	}
	rc = ws_view_file(argv[0], &request);
	return rc == WS_OUTFILE_PIPE ? WS_EXIT_PIPE : rc ? WS_EXIT_FAIL : WS_EXIT_OK;
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
	.run = run,
};
