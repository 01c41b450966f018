/*
 * symbolize.c - the command `symbolize`: names for the places in code of a report that has none, or
 * not for all.
 *
 * A frame is looked up when the last word on it in the report is no name. What is found goes into
 * the report as a further set of rows; the recorded modules are known by their build ids, and a
 * file with another one is not used. The kernel's symbols and perf maps lose their meaning with the
 * boot and the process: they are used on the machine and boot of the recording only, or from a
 * folder that was named.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "query/operand.h"
#include "cli/cli.h"
#include "cli/symbol_dirs.h"
#include "stats/stats.h"
#include "query/query.h"
#include "symbols/symbolise.h"

struct options {
	struct ws_list symbols;
	bool source_info, quiet, all;
};

struct work {
	const struct options *options;
	struct ws_report *report;
	struct ws_modules *registry;
	struct ws_module **module; /* by id in the report */
	uint32_t modules;
	struct ws_wanted *wanted;
	size_t n, cap;
	uint8_t *state; /* by frame: 0 unknown, 1 has rows but no name, 2 named */
	uint32_t *set_of;
	uint32_t frames, set;
	struct ws_writer *writer;
	bool same_boot;
	uint32_t kept; /* the frame being emitted keeps its earlier rows */
};

int ws_symbol_dirs(const struct ws_list *given, struct ws_list *out, struct ws_err *err)
{
	for (size_t i = 0; i < given->n; i++)
		for (const char *at = given->v[i]; *at;) {
			size_t n = strcspn(at, ",");
			char *dir = ws_strndup(at, n);
			struct stat st;

			at += n + (at[n] == ',');
			if (!n) {
				free(dir);
				continue;
			}
			ws_grow(out->v, out->cap, out->n + 1);
			out->v[out->n++] = dir;
			if (stat(dir, &st))
				return ws_fail_errno(err, "--symbols: cannot look into %s", dir);
			if (!S_ISDIR(st.st_mode))
				return ws_fail(err, "--symbols: %s is not a folder", dir);
		}
	return 0;
}

/* ---- what the report has ---- */

static bool is_same_boot(const struct ws_report *report)
{
	const char *recorded = ws_meta(report, "host.boot_id");
	char now[64] = "";
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (file && !fgets(now, sizeof(now), file))
		now[0] = 0;
	if (file)
		fclose(file);
	now[strcspn(now, "\n")] = 0;
	return recorded && *now && !strcmp(now, recorded);
}

static int add_module(struct work *work, const uint64_t *values, struct ws_err *err)
{
	uint64_t id = values[ws_module_id];
	struct ws_module *module;

	if (!id || id > UINT32_C(1) << 24)
		return ws_fail(err, "%s is damaged: a module has number %llu",
			       ws_report_path(work->report), (unsigned long long)id);
	if (id > work->modules) {
		work->module = ws_realloc(work->module, (id + 1) * sizeof(*work->module));
		memset(work->module + work->modules + 1, 0,
		       (id - work->modules) * sizeof(*work->module));
		work->modules = (uint32_t)id;
	}
	module = ws_modules_recorded(
		work->registry, (enum ws_module_kind)values[ws_module_kind],
		ws_report_string(work->report, (uint32_t)values[ws_module_path], NULL),
		ws_report_string(work->report, (uint32_t)values[ws_module_build_id], NULL),
		values[ws_module_size], work->same_boot);
	work->module[id] = module;
	return 0;
}

static int read_modules(struct work *work, struct ws_err *err)
{
	struct ws_cursor *cursor = ws_cursor_open(work->report, WS_TABLE_module, 0, UINT64_MAX);
	const uint64_t *values;
	int rc = 0;

	work->module = ws_calloc(1, sizeof(*work->module));
	while (!rc && ws_cursor_next(cursor, &values))
		rc = add_module(work, values, err);
	ws_cursor_close(cursor);
	return rc;
}

/* What earlier sets say: the highest set of a frame counts, and its function is the row with the
 * greatest depth. */
static void read_symbols(struct work *work)
{
	struct ws_cursor *cursor = ws_cursor_open(work->report, WS_TABLE_symbol, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t f = values[ws_symbol_frame];
		uint32_t set = (uint32_t)values[ws_symbol_set];

		work->set = set > work->set && set < UINT32_MAX ? set : work->set;
		if (f > work->frames || set < work->set_of[f])
			continue;
		if (set > work->set_of[f])
			work->state[f] = 1;
		work->set_of[f] = set;
		if (values[ws_symbol_name])
			work->state[f] = 2;
	}
	ws_cursor_close(cursor);
}

static int read_frames(struct work *work, struct ws_err *err)
{
	struct ws_cursor *cursor = ws_cursor_open(work->report, WS_TABLE_frame, 0, UINT64_MAX);
	uint64_t most = ws_report_rows(work->report, WS_TABLE_frame);
	const uint64_t *values;
	int rc = 0;

	work->frames = (uint32_t)(most < UINT32_MAX ? most : UINT32_MAX - 1);
	work->state = ws_calloc((size_t)work->frames + 1, 1);
	work->set_of = ws_calloc((size_t)work->frames + 1, sizeof(*work->set_of));
	read_symbols(work);
	while (!rc && ws_cursor_next(cursor, &values)) {
		uint64_t id = values[ws_frame_id], m = values[ws_frame_module];

		if (!id || id > work->frames) {
			rc = ws_fail(err, "%s is damaged: a frame has number %llu",
				     ws_report_path(work->report), (unsigned long long)id);
		} else if (values[ws_frame_kind] != WS_FRAME_PYTHON &&
			   (work->options->all || work->state[id] != 2)) {
			ws_grow(work->wanted, work->cap, work->n + 1);
			work->wanted[work->n++] =
				(struct ws_wanted){m <= work->modules ? work->module[m] : NULL,
						   values[ws_frame_address], (uint32_t)id,
						   (uint8_t)values[ws_frame_kind]};
		}
	}
	ws_cursor_close(cursor);
	return rc;
}

/* ---- what is added ---- */

static void write_symbol(void *ctx, const struct ws_symbol *symbol)
{
	struct work *work = ctx;
	struct ws_row_symbol row = {.frame = symbol->frame,
				    .depth = symbol->depth,
				    .set = work->set + 1,
				    .line = symbol->line,
				    .address = symbol->address};

	/* A frame that has rows without a name keeps them when there is no name now either; so does
	 * a named one that is looked up again. */
	if (!symbol->depth)
		work->kept = !symbol->name && work->state[symbol->frame] ? symbol->frame : 0;
	if (work->kept == symbol->frame)
		return;
	row.name = symbol->name ? ws_writer_string(work->writer, symbol->name, strlen(symbol->name))
				: 0;
	row.file = symbol->file ? ws_writer_string(work->writer, symbol->file, strlen(symbol->file))
				: 0;
	ws_writer_add(work->writer, WS_TABLE_symbol, &row);
}

static void say_progress(void *ctx, uint64_t done, uint64_t all)
{
	struct work *work = ctx;

	if (!work->options->quiet && isatty(STDERR_FILENO))
		fprintf(stderr, "\rwarpsight: %llu of %llu places%s", (unsigned long long)done,
			(unsigned long long)all, done == all ? "\n" : "");
}

static uint64_t session_second(const struct ws_report *report)
{
	const char *text = ws_meta(report, "session.start_epoch_ns");

	return text ? strtoull(text, NULL, 10) / 1000000000u : 0;
}

static int work(struct work *work_w, const char *path, struct ws_symbol_result *result,
		struct ws_err *err)
{
	struct ws_list dirs = {0};
	struct ws_symbol_opts opts = {.lines = work_w->options->source_info};
	int rc = ws_symbol_dirs(&work_w->options->symbols, &dirs, err);

	work_w->report = rc ? NULL : ws_report_open(path, err);
	rc = work_w->report ? 0 : -1;
	if (!rc) {
		work_w->same_boot = is_same_boot(work_w->report);
		opts.dirs = dirs.v;
		opts.dirs_n = dirs.n;
		opts.kernel = work_w->same_boot;
		/* A perf map may be written to until its process ends, which the report knows
		 * better than its file; without the boot none can be the right one. */
		opts.since_s = work_w->same_boot ? session_second(work_w->report) : UINT64_MAX;
		opts.until_s = opts.since_s +
			       (ws_time_last(work_w->report) - ws_time_zero(work_w->report)) /
				       1000000000u +
			       5;
		rc = read_modules(work_w, err) || read_frames(work_w, err) ? -1 : 0;
	}
	if (!rc && work_w->n) {
		work_w->writer = ws_writer_append(path, err);
		rc = work_w->writer ? 0 : -1;
	}
	if (!rc && work_w->n) {
		ws_symbolise(work_w->wanted, work_w->n, &opts, write_symbol, say_progress, work_w,
			     result);
		rc = ws_writer_close(work_w->writer, err);
	}
	ws_report_close(work_w->report);
	for (size_t i = 0; i < dirs.n; i++)
		free((char *)dirs.v[i]);
	free(dirs.v);
	return rc;
}

static int run(void *values, int argc, char **argv)
{
	struct work work_w = {.options = values, .registry = ws_modules_new()};
	struct ws_symbol_result result = {0};
	struct ws_err err;
	char *file;
	int rc;

	if (argc != 1) {
		ws_say(argc ? "symbolize: one report file at a time, but %d are given"
			    : "symbolize: no report file is given",
		       argc);
		ws_modules_free(work_w.registry);
		return WS_EXIT_USAGE;
	}
	file = ws_report_operand(argv[0]);
	rc = work(&work_w, file, &result, &err);
	if (rc)
		ws_say("symbolize: %s", err.msg);
	else if (!work_w.options->quiet && !work_w.n)
		ws_say("%s: nothing is left to be named", file);
	else if (!work_w.options->quiet)
		ws_say("%s: %llu of %llu places named", file, (unsigned long long)result.named,
		       (unsigned long long)result.frames);
	if (!rc && !work_w.options->quiet && result.split)
		ws_say("%s: %llu compilation units are without inlined functions: their .dwo files "
		       "are not where the compiler left "
		       "them",
		       file, (unsigned long long)result.split);
	free(file);
	free(work_w.module);
	free(work_w.wanted);
	free(work_w.state);
	free(work_w.set_of);
	ws_modules_free(work_w.registry);
	return rc ? WS_EXIT_FAIL : WS_EXIT_OK;
}

#define AT(member) offsetof(struct options, member)

static const struct ws_opt opts[] = {
	{"symbols", 0, WS_OPT_LIST, AT(symbols), "DIR[,DIR...]", NULL,
	 "Look in these folders too: for debug files by build id (.build-id/xx/...debug), for "
	 "files by their names, and for "
	 "perf-PID.map and jit-PID.dump. A file "
	 "is taken only when its build id is the recorded one.",
	 NULL},
	{"show-source-info", 0, WS_OPT_BOOL, AT(source_info), NULL, NULL,
	 "Read debugging information for source files, lines and inlined functions.", "true"},
	{"all", 0, WS_OPT_FLAG, AT(all), NULL, NULL,
	 "Look up again what has a name: for lines and inlined functions that debug files know by "
	 "now.",
	 NULL},
	{"quiet", 'q', WS_OPT_FLAG, AT(quiet), NULL, NULL, "Say nothing but errors.", NULL},
	{NULL},
};

const struct ws_command ws_cmd_symbolize = {
	.name = "symbolize",
	.summary = "Name the functions of a report's call stacks afterwards.",
	.usage = "[options] FILE",
	.details = "Looks up the places in code that have no name in the report yet, because of "
		   "'profile --resolve-symbols=false', "
		   "because debug files were "
		   "missing or because the end of the run was not to be held up, and adds names, "
		   "source lines and inlined functions to "
		   "the report. Files are "
		   "recognised by their build ids: one that was replaced since is not used.\n\n"
		   "The report is replaced only when everything is written; on any failure it "
		   "stays as it was.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight symbolize run.wsrep\n"
		    "warpsight symbolize --symbols=debug,../build run.wsrep\n",
	.run = run,
};
