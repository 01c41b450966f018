/* import.c - the command `import`: other tools' traces as a report. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/text.h"
#include "import/import.h"

struct options {
	const char *output;
	bool overwrite, quiet;
};

#define AT(member) offsetof(struct options, member)

static const struct ws_opt opts[] = {
	{"output", 'o', WS_OPT_STRING, AT(output), "PATH", NULL,
	 "Report to write. By default the name of the first file with .wsrep in place of its "
	 "ending, in the current folder.",
	 NULL},
	{"force-overwrite", 'f', WS_OPT_BOOL, AT(overwrite), NULL, NULL,
	 "Replace the report if it exists.", NULL},
	{"quiet", 'q', WS_OPT_FLAG, AT(quiet), NULL, NULL,
	 "Do not print what was written or what was left out; the report records the latter.",
	 NULL},
	{NULL},
};

/* "dir/name.pt.trace.json.gz" makes "name.pt.trace.wsrep". */
static char *make_default_output(const char *path)
{
	static const char *const endings[] = {".gz",	   ".json",    ".sqlite",
					      ".db",	   ".pftrace", ".perfetto-trace",
					      ".nsys-rep", ".qdrep",   ".perfetto_trace",
					      ".txt",	   ".script",  ".csv"};
	const char *slash = strrchr(path, '/'), *base = path;
	size_t length;

	if (slash)
		base = slash + 1;
	length = strlen(base);

	for (size_t i = 0; i < WS_COUNT(endings); i++) {
		size_t ending_length = strlen(endings[i]);

		if (length > ending_length &&
		    !strncmp(base + length - ending_length, endings[i], ending_length))
			length -= ending_length;
	}
	return ws_format("%.*s.wsrep", (int)length, base);
}

static int run_import(void *values, int argc, char **argv)
{
	const struct options *options = values;
	char *output;
	struct ws_import_request request = {.files = (const char *const *)argv,
					    .count = (size_t)argc,
					    .overwrite = options->overwrite,
					    .quiet = options->quiet,
					    .progress = !options->quiet};
	unsigned long long rows;
	struct ws_err err;
	int rc;

	if (!argc) {
		ws_say("import: no file is given; 'warpsight import FILE' makes a report of one");
		return WS_EXIT_USAGE;
	}
	if (options->output && !*options->output) {
		ws_say("import: --output: the name is empty");
		return WS_EXIT_USAGE;
	}
	if (options->output) {
		size_t length = strlen(options->output);

		if (length > 6 && !strcmp(options->output + length - 6, ".wsrep"))
			output = ws_strdup(options->output);
		else
			output = ws_format("%s.wsrep", options->output);
	} else {
		output = make_default_output(argv[0]);
	}
	request.output = output;
	rc = ws_import_files(&request, &rows, &err);
	if (rc < 0)
		ws_say("import: %s", err.msg);
	else if (!options->quiet)
		ws_say("wrote %s: %llu rows", output, rows);
	free(output);
	return ws_exit_status(rc);
}

const struct ws_command ws_cmd_import = {
	.name = "import",
	.summary = "Make a report of other tools' traces.",
	.usage = "[options] FILE...",
	.details =
		"Reads SQLite exports of Nsight Systems, JSON traces of the PyTorch profiler "
		"(also .json.gz) and of Chrome, Perfetto "
		"traces, the text that perf script prints, and results of Nsight Compute (ncu "
		"--csv "
		"--page raw). The kind of a file is recognised by "
		"its content. Every command that reads a report also takes such files directly: "
		"they "
		"are imported into a cache (~/.cache/warpsight/imports) at the first use.\n\n"
		"Several files become the ranks of one report; traces that hold the real time are "
		"put on one clock.\n\n"
		"A broken file is read up to where it breaks. What a trace holds and a report "
		"cannot is listed on standard error and in the report ('warpsight info').\n\n"
		"A .nsys-rep file is exported by an installed nsys; without one, the message names "
		"the command to run on a machine that has it.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight import trace.json.gz\n"
		    "warpsight import rank0.pt.trace.json rank1.pt.trace.json -o run.wsrep\n"
		    "warpsight stats report.sqlite",
	.run = run_import,
};
