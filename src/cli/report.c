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

	for (const char *s = set; *s; s += strcspn(s, ","), s += *s == ',')
		if (strcspn(s, ",") == n && !memcmp(s, word, n))
			return true;
	return false;
}

static int fill_keys(const struct options *o, struct ws_view_request *q, struct ws_err *e)
{
	bool line = has(o->by, "line"), module = has(o->by, "module"),
	     function = has(o->by, "function");

	if (line + module + function > 1)
		return ws_fail(
			e,
			"--by: a row is one of function, line and module, but '%s' names several",
			o->by);
	q->profile.by_process = has(o->by, "process");
	q->profile.by_thread = has(o->by, "thread");
	q->profile.unit = line ? WS_UNIT_LINE : module ? WS_UNIT_MODULE : WS_UNIT_FUNCTION;
	q->units = line || module || function;
	if (!q->units && q->view != WS_VIEW_FLAT)
		q->units = true; /* a tree is of functions, below processes or threads */
	return 0;
}

static int fill_limits(const struct options *o, struct ws_view_request *q, struct ws_err *e)
{
	char *end;

	if (o->depth < 0 || o->limit < 0)
		return ws_fail(e, "%s: the number is negative; 0 means all",
			       o->depth < 0 ? "--depth" : "--limit");
	if (o->depth && q->view == WS_VIEW_FLAT)
		return ws_fail(e, "--depth is for trees; give --view=top-down or --view=bottom-up "
				  "with it, or --limit");
	q->depth = (uint64_t)o->depth;
	q->limit = (uint64_t)o->limit;
	q->least = q->view == WS_VIEW_FLAT ? 0 : 0.5;
	if (o->least) {
		q->least = strtod(o->least, &end);
		if (*end || end == o->least || !(q->least >= 0 && q->least <= 100))
			return ws_fail(e, "--min-percent: '%s' is not a number from 0 to 100",
				       o->least);
	}
	return 0;
}

static int fill(const struct options *o, struct ws_view_request *q, struct ws_err *e)
{
	struct ws_format_args args;

	q->view = (enum ws_view)position("flat,top-down,bottom-up", o->view);
	q->profile.kind = (enum ws_profile_kind)position("on-cpu,off-cpu,python,gpu", o->show);
	q->profile.frames = (enum ws_frames)position("all,python,native", o->frames);
	q->by_total = o->sort && has(o->sort, "total");
	q->unit = ws_timeunit_find(o->timeunit);
	if (!q->unit)
		return ws_fail(e, "--timeunit: '%s' is not one of ns, us, ms, s", o->timeunit);
	if (o->sort && q->view != WS_VIEW_FLAT)
		return ws_fail(e, "--sort is for flat tables; rows of trees are in order of total");
	if (q->profile.kind == WS_PROFILE_GPU && (o->module || strcmp(o->frames, "all")))
		return ws_fail(e, "%s: work on GPUs has no stacks of CPU functions",
			       o->module ? "--module" : "--frames");
	if (q->profile.kind != WS_PROFILE_ON_CPU && o->event)
		return ws_fail(e, "--event: only CPU samples (--show=on-cpu) are of an event");
	if (fill_keys(o, q, e) < 0 || fill_limits(o, q, e) < 0)
		return -1;
	if (o->format && !ws_format_find(o->format, &args, e))
		return -1;
	return o->filter_time ? ws_filter_time_check(o->filter_time, e) : 0;
}

static int run(void *values, int argc, char **argv)
{
	const struct options *o = values;
	struct ws_view_request q = {
		.profile = {.process = o->process,
			    .thread = o->thread,
			    .module = o->module,
			    .event = o->event},
		.format = o->format,
		.output = o->output,
		.filter_time = o->filter_time,
		.filter_nvtx = o->filter_nvtx,
		.quiet = o->quiet,
		.overwrite = o->overwrite,
	};
	struct ws_err e;
	int rc;

	if (argc != 1) {
		ws_say(argc ? "report: one report file at a time, but %d are given"
			    : "report: no report file is given",
		       argc);
		return WS_EXIT_USAGE;
	}
	if (fill(o, &q, &e) < 0) {
		ws_say("report: %s", e.msg);
		return WS_EXIT_USAGE;
	}
	rc = ws_view_file(argv[0], &q);
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
