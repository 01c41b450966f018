/* export.c - the command `export`: a report in formats that other programs read. */
#include <string.h>

#include "cli/cli.h"
#include "cli/text.h"
#include "export/export.h"
#include "text/output_file.h"

struct options {
	const char *type, *output, *show, *by, *frames;
	struct ws_list tables, times;
	int64_t shift;
	bool overwrite, append, quiet, separate_strings, normalize, lazy, blobs, json;
};

#define AT(member) offsetof(struct options, member)

/* The names of formats.def, "sqlite,jsonlines,...", and a line for each. */
#define WS_AND ","
#define WS_TABLES(id, name, extension, takes, flags, summary) name
#define WS_TIMELINE(id, name, extension, takes, flags, summary) name
static const char types[] =
#include "export/formats.def"
	;
#undef WS_AND
#undef WS_TABLES
#undef WS_TIMELINE
#define WS_AND "; "
#define WS_TABLES(id, name, extension, takes, flags, summary) name ", " summary
#define WS_TIMELINE(id, name, extension, takes, flags, summary) name ", " summary
static const char types_help[] = "What to write: "
#include "export/formats.def"
				 ".";

static const struct ws_opt opts[] = {
	{"type", 't', WS_OPT_ENUM, AT(type), "TYPE", types, types_help, "sqlite"},
	{"format", 0, WS_OPT_ALIAS, 0, NULL, NULL, "type", NULL}, /* as stats calls it */
	{"output", 'o', WS_OPT_STRING, AT(output), "PATH", NULL,
	 "File or folder to write; - is standard output, where the type can. Without it, the "
	 "report's name with the type's extension.",
	 NULL},
	{"force-overwrite", 'f', WS_OPT_BOOL, AT(overwrite), NULL, NULL,
	 "Replace the file, or the folder, if it exists.", NULL},
	{"append", 'a', WS_OPT_BOOL, AT(append), NULL, NULL,
	 "Add the tables that an earlier export of the same report lacks; those that are there "
	 "stay as they are.",
	 NULL},
	{"lazy", 'l', WS_OPT_BOOL, AT(lazy), NULL, NULL,
	 "With false, also create tables without rows, including those that no recording fills but "
	 "that existing queries may name. Otherwise empty tables are left out.",
	 "true"},
	{"tables", 0, WS_OPT_LIST, AT(tables), "PATTERN[,PATTERN...]", NULL,
	 "Only tables whose name matches one of these POSIX basic regular expressions, in any "
	 "case: ^CUPTI,StringIds. Tables that these refer to are not added automatically.",
	 NULL},
	{"times", 0, WS_OPT_LIST, AT(times), "RANGE[,RANGE...]", NULL,
	 "Only events inside one of these ranges: [:]START/END[:] in nanoseconds or with ns, us, "
	 "ms, "
	 "s, m, h (1s500ms/2s). Events may cross an end that has a colon. Times are those of the "
	 "export, after shifting; tables that are not about events are exported whole.",
	 NULL},
	{"ts-shift", 0, WS_OPT_INT, AT(shift), "NS", NULL,
	 "Add this many nanoseconds (may be negative) to all times.", "0"},
	{"ts-normalize", 0, WS_OPT_BOOL, AT(normalize), NULL, NULL,
	 "Count times from 1970 (UTC) instead of from the start of the collection, as exact as "
	 "the machine's clock.",
	 NULL},
	{"include-blobs", 0, WS_OPT_BOOL, AT(blobs), NULL, NULL,
	 "With false, leave out the bytes of extended NVTX payloads.", "true"},
	{"include-json", 0, WS_OPT_BOOL, AT(json), NULL, NULL,
	 "For compatibility only: must be false, as NVTX payloads are not written as JSON. Their "
	 "bytes are in binaryData, their layout in NVTX_PAYLOAD_SCHEMAS and "
	 "NVTX_PAYLOAD_SCHEMA_ENTRIES.",
	 "false"},
	{"separate-strings", 0, WS_OPT_BOOL, AT(separate_strings), NULL, NULL,
	 "For JSON lines: refer to texts by number only; their text is in the lines of StringIds.",
	 NULL},
	{"show", 0, WS_OPT_SET, AT(show), "WHAT[,WHAT...]", "on-cpu,off-cpu,python,gpu",
	 "For folded, speedscope and pprof: CPU samples (the default), time that threads waited, "
	 "Python stacks read from outside, work on GPUs "
	 "by NVTX range.",
	 NULL},
	{"by", 0, WS_OPT_SET, AT(by), "KEY[,KEY...]", "process,thread",
	 "For folded: begin stacks with their process or their thread. speedscope and pprof keep "
	 "these separate anyway.",
	 NULL},
	{"frames", 0, WS_OPT_ENUM, AT(frames), "KIND", "all,python,native",
	 "For folded, speedscope and pprof: which functions of a stack to keep. By default all.",
	 NULL},
	{"quiet", 'q', WS_OPT_BOOL, AT(quiet), NULL, NULL,
	 "Do not show progress and what was written.", NULL},
	{NULL},
};

static int run_export(void *values, int argc, char **argv)
{
	const struct options *options = values;
	struct ws_export_request request = {.type = options->type,
					    .output = options->output,
					    .overwrite = options->overwrite,
					    .quiet = options->quiet,
					    .append = options->append,
					    .lazy = options->lazy,
					    .blobs = options->blobs,
					    .separate_strings = options->separate_strings,
					    .choice.normalize = options->normalize,
					    .choice.shift = options->shift,
					    .show = options->show,
					    .by = options->by,
					    .frames = options->frames,
					    .choice.tables = options->tables.values,
					    .choice.table_count = options->tables.count,
					    .choice.times = options->times.values,
					    .choice.time_count = options->times.count};
	int rc;

	if (options->json) {
		ws_say("export: --include-json: payloads of NVTX are not written as JSON; their "
		       "bytes are in NVTX_EVENTS.binaryData, and "
		       "NVTX_PAYLOAD_SCHEMA_ENTRIES says what is where in them");
		return WS_EXIT_USAGE;
	}
	if (!ws_check_one_report("export", argc))
		return WS_EXIT_USAGE;
	rc = ws_export_report_file(argv[0], &request);
	if (rc == WS_EXPORT_USAGE)
		return WS_EXIT_USAGE;
	if (rc == WS_OUTPUT_PIPE_CLOSED)
		return WS_EXIT_PIPE_CLOSED;
	return ws_exit_status(rc);
}

const struct ws_command ws_cmd_export = {
	.name = "export",
	.summary = "Write a report in a format that other programs read.",
	.usage = "[options] FILE",
	.details =
		"The tables and columns have the names that users of Nsight Systems query "
		"(NVTX_EVENTS, OSRT_API, StringIds, PROCESSES...); what only warpsight records is "
		"in tables called WARPSIGHT_*. Times are nanoseconds from the start of the "
		"collection. The file appears under its name once it is complete, and only its "
		"owner can read it.\n\n"
		"JSON lines hold the same: one object per row, "
		"{\"table\":\"NVTX_EVENTS\",\"start\":...}, without columns that are null; a "
		"column "
		"nameId is followed by its text as name.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight export report1.wsrep\n"
		    "warpsight export -t jsonlines -o - report1.wsrep | head\n"
		    "warpsight export -t html --times=10s/10500ms report1.wsrep\n"
		    "warpsight export -t pprof --show=on-cpu,off-cpu report1.wsrep\n"
		    "warpsight export --tables='^CUPTI,StringIds' --times=10s/12s report1.wsrep",
	.run = run_export,
};
