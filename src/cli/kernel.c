/*
 * kernel.c - the command `kernel`: run a program and measure chosen kernels with the GPU's
 * counters. What is measured is chosen by src/kernel; the kernel hook inside the program does it
 * (inject/kernel.h), and the recorder writes the report.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/cleanup.h"
#include "cli/kernel_runs.h"
#include "cli/kernel_show.h"
#include "cli/text.h"
#include "kernel/choose.h"
#include "kernel/images.h"
#include "metrics/clocks.h"
#include "record/record.h"
#include "schema/kernel_sampled.h"
#include "text/pattern.h"

extern const struct ws_command ws_cmd_kernel;

struct options {
	const char *output, *sets, *sections, *metrics, *kernel_name, *name_base, *kernel_id,
		*devices, *processes, *from_start, *cache_control, *clock_control, *replay, *match,
		*kill, *graphs, *sampling, *pm_interval, *import_source, *instructions;
	int64_t skip, skip_before, count, batch;
	struct ws_list set_words, section_words, metric_words; /* sets, sections, metrics */
	struct ws_list env, nvtx_include, nvtx_exclude;
	bool overwrite, quiet, nvtx, keep_counters;
	struct ws_kernel_show show;
};

#define AT(member) offsetof(struct options, member)

/* clang-format off */
static const struct ws_opt opts[] = {
	{"output", 'o', WS_OPT_STRING, AT(output), "PATH", NULL,
	 "Name of the report; .wsrep is added. %p, %n, %h, %q{VAR} are replaced as by 'profile'.",
	 NULL},
	{"force-overwrite", 'f', WS_OPT_FLAG, AT(overwrite), NULL, NULL,
	 "Replace an existing report.", NULL},
	{"set", 0, WS_OPT_LIST, AT(set_words), "SET[,SET...]", NULL,
	 "Sets of sections to measure: basic, detailed, full, roofline, source; none for no set. "
	 "By default basic, unless sections or metrics are named.",
	 NULL},
	{"section", 0, WS_OPT_LIST, AT(section_words), "SECTION[,SECTION...]", NULL,
	 "Sections to measure, by their identifiers, or regex:EXPRESSION.", NULL},
	{"metrics", 0, WS_OPT_LIST, AT(metric_words), "METRIC[,METRIC...]", NULL,
	 "Metrics to measure: names, base names (all their forms), regex:EXPRESSION, or "
	 "breakdown:METRIC for those that a throughput is made of.",
	 NULL},
	{"kernel-name", 'k', WS_OPT_STRING, AT(kernel_name), "NAME|regex:EXPRESSION", NULL,
	 "Measure kernels of this name only, or those in whose name the expression is found.",
	 NULL},
	{"kernel-name-base", 0, WS_OPT_ENUM, AT(name_base), "BASE", "function,demangled,mangled",
	 "Which name --kernel-name means: the function's own, the one with its arguments and "
	 "templates, or the compiler's.",
	 "function"},
	{"kernel-id", 0, WS_OPT_STRING, AT(kernel_id), "CONTEXT:STREAM:NAME:NTH", NULL,
	 "Measure the launches of this context, stream, kernel and number, counted from 1 for each "
	 "function; parts may be empty, the name may be regex:EXPRESSION, and the number an "
	 "expression for its digits, such as 1|.*5.",
	 NULL},
	{"launch-skip", 's', WS_OPT_INT, AT(skip), "N", NULL,
	 "Do not measure the first N launches that the filters let through.", "0"},
	{"launch-count", 'c', WS_OPT_INT, AT(count), "N", NULL,
	 "Measure at most N launches of each process; 0: no limit.", "0"},
	{"launch-skip-before-match", 0, WS_OPT_INT, AT(skip_before), "N", NULL,
	 "Let the first N launches of any kernel pass before filters are applied.", "0"},
	{"devices", 0, WS_OPT_STRING, AT(devices), "N[,N...]", NULL,
	 "Measure on these devices only, by their numbers in the program.", NULL},
	{"target-processes", 0, WS_OPT_ENUM, AT(processes), "WHICH", "all,application-only",
	 "Measure in every process that the program starts, or only in itself.", "all"},
	{"profile-from-start", 0, WS_OPT_ENUM, AT(from_start), "WHETHER", "on,off|yes=on,no=off",
	 "With off, launches count only between cudaProfilerStart and cudaProfilerStop.", "on"},
	{"nvtx", 0, WS_OPT_FLAG, AT(nvtx), NULL, NULL,
	 "Note which NVTX ranges are around each kernel.", NULL},
	{"nvtx-include", 0, WS_OPT_LIST, AT(nvtx_include), "RANGES", NULL,
	 "Measure only kernels launched in these NVTX push/pop ranges: domain@outer/inner, of "
	 "the default domain without one; [/ at the beginning is the bottom of the stack, /] at "
	 "the end its top, + any one range, * any ranges, regex:EXPRESSION a name. Without a "
	 "slash: in these start/end ranges, domain@one,other.",
	 NULL},
	{"nvtx-exclude", 0, WS_OPT_LIST, AT(nvtx_exclude), "RANGES", NULL,
	 "Do not measure kernels launched in these.", NULL},
	{"cache-control", 0, WS_OPT_ENUM, AT(cache_control), "HOW", "all,none",
	 "Before each pass: empty the GPU's level-2 cache of what the kernel uses (all), or leave "
	 "the caches as the program, or the kernel's pass before, left them (none).",
	 "all"},
	{"clock-control", 0, WS_OPT_ENUM, AT(clock_control), "HOW", "none,base",
	 "What to do to the GPU's clocks: nothing, or lock them to the base clock until the "
	 "program has ended (base), which makes runs comparable and needs root.",
	 "none"},
	{"replay-mode", 0, WS_OPT_ENUM, AT(replay), "MODE", "kernel,application,app-range,range",
	 "How the passes are made: each kernel is run several times from the same memory (kernel), "
	 "or the program is run once for each pass and its kernels are counted one by one "
	 "(application), or all that it launches between cudaProfilerStart and cudaProfilerStop, "
	 "or in the NVTX ranges of --nvtx-include, is counted as one (app-range), or the calls of "
	 "such a range are made again within one run of the program (range).",
	 "kernel"},
	{"app-replay-match", 0, WS_OPT_ENUM, AT(match), "BY", "grid,name,all",
	 "How a launch is recognised in the next run of the program: by its function, grid and "
	 "block, by its function alone, or by its context and stream too; and by how many such "
	 "launches came before it.",
	 "grid"},
	{"kill", 0, WS_OPT_ENUM, AT(kill), "WHETHER", "no,yes|on=yes,off=no",
	 "End the program by SIGTERM when the launches of --launch-count have been measured.",
	 "no"},
	{"graph-profiling", 0, WS_OPT_ENUM, AT(graphs), "HOW", "graph,node",
	 "How CUDA graphs are measured: each launch of a graph as a whole, or its kernels one by "
	 "one, which --kernel-name and other filters choose as if they were launched alone (node).",
	 "graph"},
	{"replay-batch", 0, WS_OPT_INT, AT(batch), "N", NULL,
	 "Put up to N launches off, at most 32, and measure them together: a pass of many costs "
	 "hardly more than one of a single launch. 1: measure each when the program makes it.",
	 "32"},
	{"keep-counters", 0, WS_OPT_FLAG, AT(keep_counters), NULL, NULL,
	 "Keep the counters themselves in a file beside the report, with .counters in place of "
	 ".wsrep. With it, --import REPORT --metrics METRIC evaluates further metrics later.",
	 NULL},
	{"instructions", 0, WS_OPT_ENUM, AT(instructions), "WHAT", "none,counts,samples,all",
	 "With the section SourceCounters: measure single instructions in passes of their own: how "
	 "often they run and what they access (counts), where warps are and what they wait for "
	 "(samples). Only with --replay-mode kernel.",
	 "all"},
	{"sampling-interval", 0, WS_OPT_STRING, AT(sampling), "N|auto", NULL,
	 "With the section SourceCounters: sample program counters every 2^(5+N) cycles, N from 0 "
	 "to 26; auto: as often as suits the GPU.",
	 "auto"},
	{"pm-sampling-interval", 0, WS_OPT_STRING, AT(pm_interval), "NS|auto", NULL,
	 "With the section PmSampling: sample what the GPU's units do every so many nanoseconds, "
	 "1000 to 1000000000; auto or 0: as often as suits the kernel's duration.",
	 "auto"},
	{"import-source", 0, WS_OPT_ENUM, AT(import_source), "WHETHER", "yes,no|on=yes,off=no",
	 "With the section SourceCounters: put the source lines, PTX and instructions of measured "
	 "kernels into the report.",
	 "yes"},
	{"env-var", 'e', WS_OPT_LIST, AT(env), "NAME=VALUE", NULL,
	 "Set a variable in the program's environment.", NULL},
	{"quiet", 'q', WS_OPT_FLAG, AT(quiet), NULL, NULL, "Print nothing but errors at the end.",
	 NULL},
	WS_KERNEL_SHOW_OPTIONS(show),
	{NULL},
};
/* clang-format on */

/* ---- the list of metrics ---- */

/* A chip of each family, and how the names of its family begin. */
static const struct {
	const char *chip, *prefix;
} families[] = {{"GA100", "GA100"}, {"GA102", "GA10"}, {"AD102", "AD10"},
		{"GH100", "GH100"}, {"GB100", "GB1"},  {"GB202", "GB2"}};

/* A line of the file that the hook reads: the chips and their metrics. *checked: the host library
 * knows the chip. */
static int add_family(const struct options *options, size_t family, struct ws_text *lines,
		      struct ws_text *sections, bool *checked, struct ws_err *err)
{
	struct ws_kernel_request request = {options->sets, options->sections, options->metrics};
	struct ws_kernel_choice choice = {0};
	int rc = ws_kernel_choose(&request, families[family].chip, &choice, err);

	if (!rc && (choice.count || choice.sampled.count || choice.sections.len)) {
		ws_kernel_order_passes(&choice);
		ws_text_puts(lines, families[family].prefix);
		ws_text_puts(lines, " gpu__time_duration.sum");
		for (size_t i = 0; i < choice.count; i++)
			if (strcmp(choice.names[i], "gpu__time_duration.sum")) {
				ws_text_puts(lines, " ");
				ws_text_puts(lines, choice.names[i]);
			}
		for (size_t i = 0; i < choice.sampled.count; i++)
			ws_text_printf(lines, " " WS_KERNEL_SAMPLED "%s", choice.sampled.names[i]);
		ws_text_puts(lines, "\n");
	}
	if (!rc && !sections->len && choice.sections.len)
		ws_text_add(sections, choice.sections.text, choice.sections.len);
	/* The hook gives it as the reason if the program runs on such a chip. */
	if (rc)
		ws_text_printf(lines, "%s %s%s\n", families[family].prefix, WS_KERNEL_NO_METRICS,
			       err->msg);
	*checked = choice.checked;
	ws_kernel_choice_free(&choice);
	return rc;
}

/* What is to be measured on each chip; -1 when the request suits none. */
static int list_metrics(const struct options *options, struct ws_text *lines,
			struct ws_text *sections, struct ws_err *err)
{
	struct ws_kernel_request request = {options->sets, options->sections, options->metrics};
	bool known = false, said = false, checked;

	if (ws_kernel_check_request(&request, err))
		return -1;
	for (size_t i = 0; i < WS_COUNT(families); i++) {
		struct ws_err reason;

		if (!add_family(options, i, lines, sections, &checked, &reason))
			known = true;
		else if (!i || (checked && !said))
			*err = reason; /* of a chip that the host library knows, if there is one */
		said |= checked;
	}
	return known ? 0 : -1;
}

/* A file for the hook, in the folder for temporary files. Its name is owned by the caller; NULL
 * with a message. */
static char *write_metrics_file(const struct ws_text *lines, struct ws_err *err)
{
	char *path = ws_format("%s/warpsight-kernel-XXXXXX", ws_text_or(getenv("TMPDIR"), "/tmp"));
	int fd = mkstemp(path);

	if (fd >= 0 && write(fd, lines->text, lines->len) == (ssize_t)lines->len) {
		close(fd);
		return path;
	}
	ws_fail_errno(err, "cannot write %s", path);
	if (fd >= 0) {
		close(fd);
		unlink(path);
	}
	free(path);
	return NULL;
}

/* ---- what the hook is told ---- */

static void put_setting(struct ws_text *out, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	ws_text_printf(out, "%s=%s", name, value);
	ws_text_add(out, "", 1);
}

static void put_number(struct ws_text *out, const char *name, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	if (value)
		put_setting(out, name, text);
}

static bool is_mode(const struct options *options, const char *mode)
{
	return !strcmp(options->replay, mode);
}

/* With the section SourceCounters, instructions are sampled and counted in passes of their own. */
static bool wants_source(const struct options *options, const char *sections)
{
	return sections && strstr(sections, "SourceCounters") &&
	       strcmp(options->instructions, "none") != 0 && is_mode(options, "kernel");
}

/* What is sampled over the time of each kernel is marked in the list of metrics. */
static bool wants_pm_sampling(const struct options *options, const struct ws_text *lines)
{
	return lines->text && strstr(lines->text, WS_KERNEL_SAMPLED) && is_mode(options, "kernel");
}

/* Passes that look into kernels are made when kernels are repeated one by one. */
static void say_what_is_left_out(const struct options *options, const char *sections,
				 const struct ws_text *lines)
{
	bool source = sections && strstr(sections, "SourceCounters") &&
		      strcmp(options->instructions, "none") != 0,
	     over_time = lines->text && strstr(lines->text, WS_KERNEL_SAMPLED);
	const char *what = "single instructions and samples over the time of kernels are";

	if (is_mode(options, "kernel") || (!source && !over_time))
		return;
	if (!over_time)
		what = "single instructions are";
	else if (!source)
		what = "samples over the time of kernels are";
	ws_say("kernel: warning: %s left out: they need --replay-mode kernel", what);
}

/* Where the hook keeps the code of kernels for the recorder; owned by the caller, NULL when none is
 * wanted or the folder cannot be made. */
static char *make_code_folder(const struct options *options, const char *sections)
{
	char *path;

	if (!wants_source(options, sections) || strcmp(options->import_source, "yes") != 0)
		return NULL;
	path = ws_format("%s/warpsight-code-XXXXXX", ws_text_or(getenv("TMPDIR"), "/tmp"));
	if (mkdtemp(path))
		return path;
	ws_warn("kernel: cannot make a folder for the kernels' code (%s): %s", path,
		strerror(errno));
	free(path);
	return NULL;
}

static void remove_code_folder(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (*entry->d_name != '.')
			unlinkat(dirfd(folder), entry->d_name, 0);
	if (folder)
		closedir(folder);
	rmdir(path);
}

/* What every run of the program has in common. */
struct job {
	const struct options *options;
	char **target;
	const char *metrics_file, *sections, *code_folder;
	char *keep;	 /* folder for counters, or NULL */
	bool samples_pm; /* metrics are sampled over the time of kernels */
};

/* The passes that look into kernels: at single instructions, and at their time. */
static void put_source_settings(struct ws_text *out, const struct job *job)
{
	const struct options *options = job->options;
	bool source = wants_source(options, job->sections);
	struct ws_text passes = {0};

	if (source && strcmp(options->instructions, "samples") != 0)
		ws_text_puts(&passes, "sass,");
	if (source && strcmp(options->instructions, "counts") != 0)
		ws_text_puts(&passes, "sampling,");
	if (job->samples_pm)
		ws_text_puts(&passes, "pm,");
	put_setting(out, "source", passes.text);
	ws_text_free(&passes);
	if (strcmp(options->sampling, "auto") != 0)
		put_number(out, "sampling-period", 5 + atoi(options->sampling));
	if (strcmp(options->pm_interval, "auto") != 0)
		put_number(out, "pm-interval", atoi(options->pm_interval));
	put_setting(out, "code-folder", job->code_folder);
}

/* One filter a line. */
static void put_lines(struct ws_text *out, const char *name, const struct ws_list *list)
{
	struct ws_text lines = {0};

	for (size_t i = 0; i < list->count; i++) {
		ws_text_puts(&lines, i ? "\n" : "");
		ws_text_puts(&lines, list->values[i]);
	}
	put_setting(out, name, lines.text);
	ws_text_free(&lines);
}

static bool is_killed(const struct options *options)
{
	return !strcmp(options->kill, "yes");
}

/* Which run of the program this is. */
struct runs {
	const char *keep;   /* folder for counters; NULL: they are not kept */
	const char *folder; /* NULL: there is only one */
	size_t run, count;
};

/* An experiment (docs/kernel.md). */
#define LAUNCHES_VARIABLE "WARPSIGHT_KERNEL_LAUNCHES"
static bool sees_driver_calls(void)
{
	return !strcmp(ws_text_or(getenv(LAUNCHES_VARIABLE), ""), "driver");
}

static void fill_settings(const struct job *job, const struct runs *runs, struct ws_text *out)
{
	const struct options *options = job->options;

	put_setting(out, "metrics-file", job->metrics_file);
	put_setting(out, "kernel-name", options->kernel_name);
	put_setting(out, "name-base", options->name_base);
	put_setting(out, "kernel-id", options->kernel_id);
	put_number(out, "launch-skip", options->skip);
	put_number(out, "skip-before-match", options->skip_before);
	put_number(out, "launch-count", options->count);
	put_setting(out, "devices", options->devices);
	put_setting(out, "from-start", options->from_start);
	put_setting(out, "cache-control", options->cache_control);
	put_setting(out, "clock-control", options->clock_control);
	put_setting(out, "replay-mode", options->replay);
	put_setting(out, "pass-folder", runs->folder);
	put_setting(out, "keep-folder", runs->keep);
	put_setting(out, "graph-profiling", options->graphs);
	put_setting(out, "kill", is_killed(options) ? "yes" : "");
	if (options->batch > 1)
		put_number(out, "replay-batch", options->batch);
	put_setting(out, "app-replay-match", options->match);
	put_number(out, "run", (int64_t)runs->run);
	put_number(out, "runs", (int64_t)runs->count);
	put_lines(out, "nvtx-include", &options->nvtx_include);
	put_lines(out, "nvtx-exclude", &options->nvtx_exclude);
	if (!strcmp(options->processes, "application-only"))
		put_setting(out, "only-application", "yes");
	put_setting(out, "sections", job->sections);
	put_source_settings(out, job);
	put_setting(out, "launches", sees_driver_calls() ? "driver" : "");
	ws_text_add(out, "", 1);
}

static bool is_interval(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	return isdigit((unsigned char)*text) && !*end && value <= 26;
}

static bool measures_ranges(const struct options *options)
{
	return is_mode(options, "app-range") || is_mode(options, "range");
}

static int compile_expression(const char *option, const char *text, struct ws_err *err)
{
	struct ws_err why = {0};
	struct ws_pattern pattern;

	if (ws_compile_pattern(&pattern, text, REG_EXTENDED, &why))
		return ws_fail(err, "%s: '%s' is no expression: %s", option, text, why.msg);
	ws_free_pattern(&pattern);
	return 0;
}

static int check_expression(const char *option, const char *text, struct ws_err *err)
{
	if (!text || strncmp(text, "regex:", 6))
		return 0;
	return compile_expression(option, text + 6, err);
}

static const char digits[] = "0123456789";

/* CONTEXT:STREAM:NAME:NTH; the name may contain colons. */
static int check_kernel_id(const char *text, struct ws_err *err)
{
	const char *stream = strchr(ws_text_or(text, ""), ':');
	const char *name = stream ? strchr(stream + 1, ':') : NULL;
	const char *nth = name ? strrchr(name + 1, ':') : NULL;
	char *pattern;
	int rc;

	if (!text)
		return 0;
	if (!nth)
		return ws_fail(err, "--kernel-id: '%s' is not of the form CONTEXT:STREAM:NAME:NTH",
			       text);
	if (text + strspn(text, digits) != stream ||
	    stream + 1 + strspn(stream + 1, digits) != name)
		return ws_fail(err, "--kernel-id: '%s': context and stream are numbers", text);
	if (!nth[1 + strspn(nth + 1, "0")] && nth[1])
		return ws_fail(err, "--kernel-id: '%s': launches are counted from 1", text);
	pattern = ws_format("%.*s", (int)(nth - name - 1), name + 1);
	rc = check_expression("--kernel-id", pattern, err);
	free(pattern);
	return rc ? rc : compile_expression("--kernel-id", nth + 1, err);
}

enum { RANGES_MOST = 16, RANGE_PARTS = 32, RANGE_ROOM = 1024 }; /* as the hook has them */

/* domain@outer/inner or domain@one,other; each may be regex:EXPRESSION. */
static int check_range(const char *option, const char *text, struct ws_err *err)
{
	const char *domain = strncmp(text, "regex:", 6) ? strchr(text, '@') : NULL;
	char *copy = ws_strdup(domain ? domain + 1 : text), *rest = copy, *part;
	const char *separator = strchr(copy, '/') ? "/" : ",";
	size_t parts = 0, named = 0;
	int rc = 0;

	while (!rc && (part = strsep(&rest, separator))) {
		parts++;
		named += *part != 0;
		rc = check_expression(option, part, err);
	}
	free(copy);
	if (!rc && !named)
		rc = ws_fail(err, "%s: '%s' names no range", option, text);
	if (!rc && (parts > RANGE_PARTS || strlen(text) >= RANGE_ROOM))
		rc = ws_fail(err, "%s: '%.40s...' is too long: at most %d names in %d characters",
			     option, text, RANGE_PARTS, RANGE_ROOM - 1);
	return rc;
}

static int check_ranges(const char *option, const struct ws_list *ranges, struct ws_err *err)
{
	int rc = 0;

	if (ranges->count > RANGES_MOST)
		return ws_fail(err, "%s may be given %d times at most", option, RANGES_MOST);
	for (size_t i = 0; i < ranges->count && !rc; i++)
		rc = check_range(option, ranges->values[i], err);
	return rc;
}

static int check_devices(const char *text, struct ws_err *err)
{
	bool good = !text || *text;

	for (const char *at = ws_text_or(text, "0"); good; at++) {
		char *end;

		good = isdigit((unsigned char)*at) && strtoul(at, &end, 10) < 64 &&
		       (!*end || *end == ',');
		if (!good || !*end)
			break;
		at = end;
	}
	return good ? 0 : ws_fail(err, "--devices: '%s' is no list of numbers below 64", text);
}

static int check_filters(const struct options *options, struct ws_err *err)
{
	int rc = check_expression("--kernel-name", options->kernel_name, err);

	if (!rc)
		rc = check_kernel_id(options->kernel_id, err);
	if (!rc)
		rc = check_ranges("--nvtx-include", &options->nvtx_include, err);
	if (!rc)
		rc = check_ranges("--nvtx-exclude", &options->nvtx_exclude, err);
	return rc ? rc : check_devices(options->devices, err);
}

static bool is_pm_interval(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	return isdigit((unsigned char)*text) && !*end &&
	       (!value || (value >= 1000 && value <= 1000000000));
}

static int check_launches(const struct options *options, struct ws_err *err)
{
	const char *value = ws_text_or(getenv(LAUNCHES_VARIABLE), "");

	if (*value && strcmp(value, "cupti") != 0 && strcmp(value, "driver") != 0)
		return ws_fail(err, LAUNCHES_VARIABLE " takes cupti or driver, not '%s'", value);
	if (sees_driver_calls() &&
	    (!is_mode(options, "kernel") || !strcmp(options->graphs, "node")))
		return ws_fail(err, LAUNCHES_VARIABLE
			       "=driver is for single launches and whole graphs: it needs "
			       "--replay-mode kernel and --graph-profiling graph");
	return 0;
}

static int check_options(const struct options *options, struct ws_err *err)
{
	if (check_filters(options, err) || check_launches(options, err))
		return -1;
	if (is_killed(options) && !options->count)
		return ws_fail(err, "--kill needs --launch-count: it says after which launch");
	if (!strcmp(options->graphs, "node") && !is_mode(options, "kernel"))
		return ws_fail(
			err, "--graph-profiling node makes the nodes of graphs one by one within a "
			     "run: it needs --replay-mode kernel");
	if (options->batch < 1 || options->batch > 32)
		return ws_fail(err, "--replay-batch takes numbers from 1 to 32");
	if (options->skip < 0 || options->skip_before < 0 || options->count < 0)
		return ws_fail(err, "--launch-skip, --launch-count and "
				    "--launch-skip-before-match take numbers from 0 on");
	if (strcmp(options->pm_interval, "auto") != 0 && !is_pm_interval(options->pm_interval))
		return ws_fail(err,
			       "--pm-sampling-interval takes auto, 0 or 1000 to 1000000000 "
			       "nanoseconds, not '%s'",
			       options->pm_interval);
	if (strcmp(options->sampling, "auto") != 0 && !is_interval(options->sampling))
		return ws_fail(err,
			       "--sampling-interval: '%s' is neither auto nor a number from 0 "
			       "to 26",
			       options->sampling);
	if (measures_ranges(options) && (options->kernel_name || options->kernel_id))
		return ws_fail(err,
			       "--kernel-name and --kernel-id choose kernels, but --replay-mode "
			       "%s measures ranges: name them by --nvtx-include, or put "
			       "cudaProfilerStart and cudaProfilerStop into the program",
			       options->replay);
	return 0;
}

static void fill_record_options(const struct options *options, char **target,
				const struct ws_text *settings, struct ws_record_opts *record_opts)
{
	record_opts->argv = target;
	record_opts->command_line = ws_main_argv;
	record_opts->output = options->output;
	record_opts->overwrite = options->overwrite;
	record_opts->quiet = options->quiet;
	record_opts->wait_all = true;
	record_opts->inherit_environment = true;
	record_opts->trace_forks = true;
	record_opts->ring_bytes = UINT64_C(256) << 20;
	record_opts->stack_threshold = -1;
	for (int i = 0; i < 4; i++)
		record_opts->cuda_stack_ns[i] = -1;
	record_opts->nvtx =
		options->nvtx || options->nvtx_include.count || options->nvtx_exclude.count;
	record_opts->env = options->env.values;
	record_opts->env_count = options->env.count;
	record_opts->kernel = settings->text;
	record_opts->kernel_bytes = settings->len;
	record_opts->kernel_driver_calls = sees_driver_calls();
}

static void free_reports(struct ws_record_result *result, bool remove)
{
	for (size_t i = 0; i < result->report_count; i++) {
		if (remove)
			unlink(result->reports[i]);
		free(result->reports[i]);
	}
	free(result->reports);
}

static void show_reports(const struct options *options, const struct ws_record_result *result)
{
	for (size_t i = 0; i < result->report_count && !options->quiet; i++) {
		ws_say("Generated: %s", result->reports[i]);
		ws_show_new_kernels(&options->show, result->reports[i], options->output != NULL);
	}
}

/* Put the counters that were kept beside the report. */
static void pack_counters(const struct job *job, const struct ws_record_result *result)
{
	struct ws_err err;
	int count;

	if (!job->keep)
		return;
	count = result->report_count ? ws_kernel_pack_images(job->keep, result->reports[0], &err)
				     : 0;
	if (count < 0)
		ws_say("kernel: %s", err.msg);
	else if (!count)
		ws_say("kernel: no counters were measured that could be kept");
}

static void record_run(const struct job *job, const struct runs *runs,
		       struct ws_record_result *result)
{
	struct ws_record_opts record_opts = {0};
	struct ws_text settings = {0};
	struct ws_err err;

	*result = (struct ws_record_result){0};
	fill_settings(job, runs, &settings);
	fill_record_options(job->options, job->target, &settings, &record_opts);
	record_opts.kernel_code = job->code_folder;
	if (runs->count && !job->options->quiet)
		ws_say("kernel: run %zu of %zu of the program", runs->run + 1, runs->count);
	if (ws_record(&record_opts, result, &err))
		ws_say("%s", err.msg);
	ws_text_free(&settings);
}

/* Whether the program was ended from outside, or could not be run. */
static bool is_broken_off(const struct options *options, const struct ws_record_result *result)
{
	bool expected = is_killed(options) && result->status == 128 + SIGTERM;

	return !result->started || result->write_failed || (result->status > 128 && !expected);
}

/* Run the program once for each pass. Only the last report holds results. */
static int record_runs(const struct job *job)
{
	struct ws_record_result result = {0};
	struct runs runs = {.keep = job->keep};
	struct ws_err err;
	char *folder = ws_make_run_folder(&err);
	size_t unfinished;
	int listed;

	if (!folder) {
		ws_say("kernel: %s", err.msg);
		return WS_EXIT_FAIL;
	}
	listed = ws_cleanup_add_scratch(folder);
	runs.folder = folder;
	for (;;) {
		record_run(job, &runs, &result);
		if (!runs.run)
			runs.count = ws_read_run_count(folder);
		if (is_broken_off(job->options, &result) || ++runs.run >= runs.count)
			break;
		free_reports(&result, true);
	}
	unfinished = ws_count_unfinished_units(folder);
	if (runs.run < runs.count)
		ws_say("kernel: run %zu of %zu of the program did not end by itself: its kernels "
		       "are not measured",
		       runs.run + 1, runs.count);
	else if (runs.count > 1 && unfinished)
		ws_say("kernel: warning: %zu kernels or ranges of earlier runs were not launched "
		       "in the last one: the runs of the program differ",
		       unfinished);
	ws_remove_run_folder(folder);
	ws_cleanup_forget(listed);
	free(folder);
	pack_counters(job, &result);
	show_reports(job->options, &result);
	free_reports(&result, false);
	return result.status;
}

static int record_kernels(const struct job *job)
{
	bool locks = !strcmp(job->options->clock_control, "base");
	struct ws_record_result result;
	struct ws_clocks *clocks = NULL;
	struct runs one = {.keep = job->keep};
	struct ws_err err;
	int status;

	if (locks && !(clocks = ws_clocks_lock(&err))) {
		ws_say("kernel: %s", err.msg);
		return WS_EXIT_FAIL;
	}
	if (!is_mode(job->options, "kernel") && !is_mode(job->options, "range")) {
		status = record_runs(job);
		ws_clocks_unlock(clocks);
		return status;
	}
	record_run(job, &one, &result);
	ws_clocks_unlock(clocks);
	pack_counters(job, &result);
	show_reports(job->options, &result);
	free_reports(&result, false);
	return result.status;
}

/* The words of an option that was given several times, with commas between them; NULL when there
 * are none. Owned by the caller. */
static char *join_words(const struct ws_list *words)
{
	struct ws_text text = {0};

	for (size_t i = 0; i < words->count; i++)
		ws_text_printf(&text, "%s%s", i ? "," : "", words->values[i]);
	return text.text;
}

static int run_with_options(const struct options *options, int argc, char **argv)
{
	struct ws_text lines = {0}, sections = {0};
	struct ws_err err;
	struct ws_kernel_show show = options->show;
	char *metrics_file = NULL, *code_folder = NULL;
	int status = WS_EXIT_USAGE, listed[3] = {-1, -1, -1};

	show.sets = options->sets;
	show.sections = options->sections;
	show.metrics = options->metrics;
	show.quiet = options->quiet;
	if (ws_wants_kernel_show(&show, argc, argv))
		return ws_run_kernel_show(&show, argc, argv);
	if (!argc) {
		ws_say("kernel: no program to run: warpsight kernel [options] [--] APP [ARG...]");
		return WS_EXIT_USAGE;
	}
	if (!check_options(options, &err) && !list_metrics(options, &lines, &sections, &err))
		metrics_file = write_metrics_file(&lines, &err);
	if (metrics_file) {
		struct job job = {.options = options,
				  .target = argv,
				  .metrics_file = metrics_file,
				  .sections = sections.text,
				  .samples_pm = wants_pm_sampling(options, &lines)};

		listed[0] = ws_cleanup_add_scratch(metrics_file);
		say_what_is_left_out(options, sections.text, &lines);
		job.code_folder = code_folder = make_code_folder(options, sections.text);
		if (code_folder)
			listed[1] = ws_cleanup_add_scratch(code_folder);
		if (options->keep_counters && (job.keep = ws_make_run_folder(&err)))
			listed[2] = ws_cleanup_add_scratch(job.keep);
		if (options->keep_counters && !job.keep)
			ws_say("kernel: %s", err.msg);
		else
			status = record_kernels(&job);
		if (job.keep)
			ws_remove_run_folder(job.keep);
		free(job.keep);
		unlink(metrics_file);
		if (code_folder)
			remove_code_folder(code_folder);
		for (int i = 0; i < 3; i++)
			ws_cleanup_forget(listed[i]);
	} else {
		ws_say("kernel: %s", err.msg);
	}
	free(metrics_file);
	free(code_folder);
	ws_text_free(&lines);
	ws_text_free(&sections);
	return status;
}

static int run_kernel(void *values, int argc, char **argv)
{
	struct options *options = values;
	char *sets = join_words(&options->set_words),
	     *sections = join_words(&options->section_words),
	     *metrics = join_words(&options->metric_words);
	int status;

	options->sets = sets;
	options->sections = sections;
	options->metrics = metrics;
	status = run_with_options(options, argc, argv);
	free(sets);
	free(sections);
	free(metrics);
	return status;
}

const struct ws_command ws_cmd_kernel = {
	.name = "kernel",
	.summary = "Measure kernels with the GPU's counters: why is this kernel slow?",
	.usage = "[options] [--] APP [ARG...] | REPORT...",
	.details =
		"Runs APP and measures the launches of kernels that the filters choose. What is "
		"measured takes several passes: the kernel is run as often as needed, each time "
		"from the same memory, and the program gets the results of one run. Options, "
		"sections and metrics have the names that Nsight Compute gives them.\n\n"
		"Kernels that cannot be run again (those of NCCL, which wait for other GPUs) run "
		"once and are listed with the reason; --replay-mode application and app-range run "
		"the program several times instead. Where counters are not permitted, launches "
		"are listed with their shape, and the message says what would permit them.\n\n"
		"Where a report is named instead of a program, or what ncu --csv --page raw "
		"printed, its results are shown: a summary sorted by the time that could be saved "
		"in the whole run, then the sections of each kernel with findings, what they are "
		"founded on and what to change.\n\n"
		"The exit status is that of APP.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.stop_at_operand = true,
	.goes_on = ws_is_kernel_report,
	.examples = "warpsight kernel -k regex:gemm -c 5 ./app\n"
		    "warpsight kernel --set full -s 100 -c 20 -o kernels python3 train.py\n"
		    "warpsight kernel --replay-mode app-range --nvtx-include forward/ "
		    "python3 train.py\n"
		    "warpsight kernel --page raw --csv kernels.wsrep\n"
		    "warpsight kernel --explain smsp__issue_active.avg.per_cycle_active\n"
		    "warpsight kernel --metrics dram__bytes.sum,sm__cycles_active.avg ./app",
	.run = run_kernel,
};
