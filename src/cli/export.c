/* export.c - the command `export`: a report as SQLite, JSON lines or a page to look at. */
#include <string.h>

#include "cli/cli.h"
#include "export/export.h"
#include "export/outfile.h"
#include "serve/serve.h"

struct options {
	const char *type, *output, *times;
	bool overwrite, quiet;
};

#define AT(member) offsetof(struct options, member)

static const struct ws_opt opts[] = {
    {"type", 't', WS_OPT_ENUM, AT(type), "TYPE", "sqlite,jsonlines,json,html|text,hdf,arrow,arrowdir,parquetdir,info",
     "What to write. json is jsonlines: one object a line. html is the time line of view as one file that needs nothing else.", "sqlite"},
    {"output", 'o', WS_OPT_STRING, AT(output), "PATH", NULL,
     "File to write; - is standard output, for JSON lines. Without it, the report's name with .sqlite, .jsonl or .html.", NULL},
    {"times", 0, WS_OPT_STRING, AT(times), "[START]/[END]", NULL,
     "For html: only what touches this span, in nanoseconds from the start of the collection or with ns, us, ms, s, as 1s/1.5s.", NULL},
    {"force-overwrite", 'f', WS_OPT_BOOL, AT(overwrite), NULL, NULL, "Replace the file if it exists.", NULL},
    {"quiet", 'q', WS_OPT_FLAG, AT(quiet), NULL, NULL, "Do not say what was written.", NULL},
    {NULL},
};

static int run(void *values, int argc, char **argv)
{
	const struct options *o = values;
	struct ws_export_request q = {.type = o->type, .output = o->output, .overwrite = o->overwrite, .quiet = o->quiet};
	int rc;

	if (argc != 1) {
		ws_say(argc ? "export: one report file at a time, but %d are given" : "export: no report file is given", argc);
		return WS_EXIT_USAGE;
	}
	if (!strcmp(o->type, "html")) {
		struct ws_page_request page = {
		    .file = argv[0], .output = o->output, .times = o->times, .overwrite = o->overwrite, .quiet = o->quiet};
		struct ws_err e;

		rc = ws_page_write(&page, &e);
		if (rc == -1)
			ws_say("%s", e.msg);
	} else if (o->times) {
		ws_say("export: --times is for -t html");
		return WS_EXIT_USAGE;
	} else {
		rc = ws_export_file(argv[0], &q);
	}
	return rc == WS_OUTFILE_PIPE ? WS_EXIT_PIPE : rc ? WS_EXIT_FAIL : WS_EXIT_OK;
}

const struct ws_command ws_cmd_export = {
    .name = "export",
    .summary = "Write a report as SQLite, JSON lines or a page to look at.",
    .usage = "[options] FILE",
    .details = "The tables and columns have the names that users of Nsight Systems query (NVTX_EVENTS, OSRT_API, StringIds, "
	       "PROCESSES...); "
	       "what only warpsight records is in tables called WARPSIGHT_*. Times are nanoseconds from the start of the "
	       "collection. The file "
	       "appears under its name once it is complete, readable by its owner alone.\n\n"
	       "JSON lines hold the same: one object a row, {\"table\":\"NVTX_EVENTS\",\"start\":...}, without columns that are "
	       "null; a column "
	       "nameId is followed by the text as name.",
    .opts = opts,
    .opts_size = sizeof(struct options),
    .examples = "warpsight export report1.wsrep\n"
		"warpsight export -t jsonlines -o - report1.wsrep | head\n"
		"warpsight export -t html --times 10s/10.5s report1.wsrep",
    .run = run,
};
