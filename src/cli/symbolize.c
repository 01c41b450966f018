/*
 * symbolize.c - the command `symbolize`: finds names for the places in code of a report that has
 * none, or not for all.
 *
 * A frame is looked up when the newest rows on it in the report have no name. What is found is
 * added to the report as a further set of rows; the recorded modules are identified by their build
 * ids, and a file with another one is not used. The kernel's symbols and perf maps lose their
 * meaning with the boot and the process: they are used only on the machine and boot of the
 * recording, or from a folder that was named.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "query/operand.h"
#include "cli/cli.h"
#include "cli/symbol_dirs.h"
#include "cli/text.h"
#include "stats/stats.h"
#include "query/query.h"
#include "symbols/symbolise.h"

struct options {
	struct ws_list symbols;
	bool source_info, quiet, all;
};

struct symbolise_job {
	const struct options *options;
	struct ws_report *report;
	struct ws_modules *registry;
	struct ws_module **module; /* by id in the report */
	uint32_t modules;
	struct ws_wanted *wanted;
	size_t count, cap;
	uint8_t *state; /* by frame: 0 unknown, 1 has rows but no name, 2 named */
	uint32_t *newest_set;
	uint32_t frames, set;
	struct ws_writer *writer;
	bool same_boot;
	uint32_t kept; /* the frame being emitted keeps its earlier rows */
};

int ws_split_symbol_dirs(const struct ws_list *given, const char *option, const char *separator,
			 struct ws_list *out, struct ws_err *err)
{
	for (size_t i = 0; i < given->count; i++)
		for (const char *at = given->values[i]; *at;) {
			size_t length = strcspn(at, separator);
			char *dir = ws_strndup(at, length);
			struct stat status;

			at += length + !!at[length];
			if (!length) {
				free(dir);
				continue;
			}
			ws_grow(out->values, out->cap, out->count + 1);
			out->values[out->count++] = dir;
			if (stat(dir, &status))
				return ws_fail_errno(err, "%s: cannot look into %s", option, dir);
			if (!S_ISDIR(status.st_mode))
				return ws_fail(err, "%s: %s is not a folder", option, dir);
		}
	return 0;
}

/* ---- what the report has ---- */

static bool is_same_boot(const struct ws_report *report)
{
	const char *recorded = ws_find_meta(report, "host.boot_id");
	char now[64] = "";
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (file && !fgets(now, sizeof(now), file))
		now[0] = 0;
	if (file)
		fclose(file);
	now[strcspn(now, "\n")] = 0;
	return recorded && *now && !strcmp(now, recorded);
}

static int add_module(struct symbolise_job *job, const uint64_t *values, struct ws_err *err)
{
	uint64_t id = values[ws_module_id];
	struct ws_module *module;

	if (!id || id > UINT32_C(1) << 24)
		return ws_fail(err, "%s is damaged: a module has number %llu",
			       ws_report_path(job->report), (unsigned long long)id);
	if (id > job->modules) {
		job->module = ws_realloc(job->module, (id + 1) * sizeof(*job->module));
		memset(job->module + job->modules + 1, 0,
		       (id - job->modules) * sizeof(*job->module));
		job->modules = (uint32_t)id;
	}
	module = ws_modules_add_recorded(
		job->registry, (enum ws_module_kind)values[ws_module_kind],
		ws_report_string(job->report, (uint32_t)values[ws_module_path], NULL),
		ws_report_string(job->report, (uint32_t)values[ws_module_build_id], NULL),
		values[ws_module_size], job->same_boot);
	job->module[id] = module;
	return 0;
}

static int read_modules(struct symbolise_job *job, struct ws_err *err)
{
	struct ws_cursor *cursor = ws_cursor_open(job->report, WS_TABLE_module, 0, UINT64_MAX);
	const uint64_t *values;
	int rc = 0;

	job->module = ws_calloc(1, sizeof(*job->module));
	while (!rc && ws_cursor_next(cursor, &values))
		rc = add_module(job, values, err);
	ws_cursor_close(cursor);
	return rc;
}

/* What earlier sets say: the highest set of a frame counts, and its function is the row with the
 * greatest depth. */
static void read_symbols(struct symbolise_job *job)
{
	struct ws_cursor *cursor = ws_cursor_open(job->report, WS_TABLE_symbol, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t frame = values[ws_symbol_frame];
		uint32_t set = (uint32_t)values[ws_symbol_set];

		if (set < UINT32_MAX)
			job->set = ws_max(set, job->set);
		if (frame > job->frames || set < job->newest_set[frame])
			continue;
		if (set > job->newest_set[frame])
			job->state[frame] = 1;
		job->newest_set[frame] = set;
		if (values[ws_symbol_name])
			job->state[frame] = 2;
	}
	ws_cursor_close(cursor);
}

static int read_frames(struct symbolise_job *job, struct ws_err *err)
{
	struct ws_cursor *cursor = ws_cursor_open(job->report, WS_TABLE_frame, 0, UINT64_MAX);
	uint64_t most = ws_report_count_rows(job->report, WS_TABLE_frame);
	const uint64_t *values;
	int rc = 0;

	job->frames = (uint32_t)ws_min(most, (uint64_t)UINT32_MAX - 1);
	job->state = ws_calloc((size_t)job->frames + 1, 1);
	job->newest_set = ws_calloc((size_t)job->frames + 1, sizeof(*job->newest_set));
	read_symbols(job);
	while (!rc && ws_cursor_next(cursor, &values)) {
		uint64_t id = values[ws_frame_id], module = values[ws_frame_module];

		if (!id || id > job->frames) {
			rc = ws_fail(err, "%s is damaged: a frame has number %llu",
				     ws_report_path(job->report), (unsigned long long)id);
		} else if (values[ws_frame_kind] != WS_FRAME_PYTHON &&
			   (job->options->all || job->state[id] != 2)) {
			ws_grow(job->wanted, job->cap, job->count + 1);
			job->wanted[job->count] =
				(struct ws_wanted){NULL, values[ws_frame_address], (uint32_t)id,
						   (uint8_t)values[ws_frame_kind]};
			if (module <= job->modules)
				job->wanted[job->count].module = job->module[module];
			job->count++;
		}
	}
	ws_cursor_close(cursor);
	return rc;
}

/* ---- what is added ---- */

static void write_symbol(void *ctx, const struct ws_symbol *symbol)
{
	struct symbolise_job *job = ctx;
	struct ws_row_symbol row = {.frame = symbol->frame,
				    .depth = symbol->depth,
				    .set = job->set + 1,
				    .line = symbol->line,
				    .address = symbol->address};

	/* A frame that has rows without a name keeps them when there is no name now either; so does
	 * a named one that is looked up again. */
	if (!symbol->depth)
		job->kept = symbol->frame * (!symbol->name && job->state[symbol->frame]);
	if (job->kept == symbol->frame)
		return;
	if (symbol->name)
		row.name = ws_writer_string(job->writer, symbol->name, strlen(symbol->name));
	if (symbol->file)
		row.file = ws_writer_string(job->writer, symbol->file, strlen(symbol->file));
	ws_writer_add(job->writer, WS_TABLE_symbol, &row);
}

static void say_progress(void *ctx, uint64_t done, uint64_t all)
{
	struct symbolise_job *job = ctx;

	if (job->options->quiet || !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\rwarpsight: %llu of %llu places", (unsigned long long)done,
		(unsigned long long)all);
	if (done == all)
		fputs("\n", stderr);
}

static uint64_t session_second(const struct ws_report *report)
{
	const char *text = ws_find_meta(report, "session.start_epoch_ns");

	if (!text)
		return 0;
	return strtoull(text, NULL, 10) / 1000000000u;
}

static int symbolise_report(struct symbolise_job *job, const char *path,
			    struct ws_symbol_result *result, struct ws_err *err)
{
	struct ws_list dirs = {0};
	struct ws_symbol_opts opts = {.lines = job->options->source_info};
	int rc = ws_split_symbol_dirs(&job->options->symbols, "--symbols", ",", &dirs, err);

	if (!rc)
		job->report = ws_report_open(path, err);
	rc = -!job->report;
	if (!rc) {
		job->same_boot = is_same_boot(job->report);
		opts.dirs = dirs.values;
		opts.dir_count = dirs.count;
		opts.kernel = job->same_boot;
		/* A perf map may be written to until its process ends, which the report knows
		 * better than its file; after another boot none can be the right one. */
		opts.since_s = UINT64_MAX;
		if (job->same_boot)
			opts.since_s = session_second(job->report);
		opts.until_s = opts.since_s +
			       (ws_find_time_last(job->report) - ws_find_time_zero(job->report)) /
				       1000000000u +
			       5;
		rc = read_modules(job, err);
		if (!rc)
			rc = read_frames(job, err);
	}
	if (!rc && job->count) {
		job->writer = ws_writer_append(path, err);
		rc = -!job->writer;
	}
	if (!rc && job->count) {
		const struct ws_symbol_receiver receiver = {write_symbol, say_progress, job};

		ws_symbolise(job->wanted, job->count, &opts, &receiver, result);
		rc = ws_writer_close(job->writer, err);
	}
	ws_report_close(job->report);
	for (size_t i = 0; i < dirs.count; i++)
		free((char *)dirs.values[i]);
	free(dirs.values);
	return rc;
}

/* ws_symbolise has sorted the places by module. */
static void say_unread(const struct symbolise_job *job)
{
	for (size_t i = 0; i < job->count; i++) {
		const struct ws_module *module = job->wanted[i].module;

		if (module && module->unread && (!i || job->wanted[i - 1].module != module))
			ws_say("%s: source lines and inlined functions may be missing: the process "
			       "that read its debugging information %s",
			       module->path, module->unread);
	}
}

static int run_symbolize(void *values, int argc, char **argv)
{
	struct symbolise_job job = {.options = values, .registry = ws_modules_new()};
	struct ws_symbol_result result = {0};
	struct ws_err err;
	char *file;
	int rc;

	if (!ws_check_one_report("symbolize", argc)) {
		ws_modules_free(job.registry);
		return WS_EXIT_USAGE;
	}
	file = ws_find_operand_report(argv[0]);
	rc = symbolise_report(&job, file, &result, &err);
	if (rc)
		ws_say("symbolize: %s", err.msg);
	else if (!job.options->quiet && !job.count)
		ws_say("%s: nothing is left to be named", file);
	else if (!job.options->quiet)
		ws_say("%s: %llu of %llu places named", file, (unsigned long long)result.named,
		       (unsigned long long)result.frames);
	if (!rc && !job.options->quiet && result.split)
		ws_say("%s: %llu compilation units are without inlined functions: their .dwo files "
		       "are not where the compiler left "
		       "them",
		       file, (unsigned long long)result.split);
	if (!rc)
		say_unread(&job);
	free(file);
	free(job.module);
	free(job.wanted);
	free(job.state);
	free(job.newest_set);
	ws_modules_free(job.registry);
	return ws_exit_status(rc);
}

#define AT(member) offsetof(struct options, member)

static const struct ws_opt opts[] = {
	{"symbols", 0, WS_OPT_LIST, AT(symbols), "DIR[,DIR...]", NULL,
	 "Also search these folders: for debug files by build id (.build-id/xx/...debug), for "
	 "files "
	 "by their names, and for perf-PID.map and jit-PID.dump. A file is used only if its build "
	 "id is the recorded one.",
	 NULL},
	{"show-source-info", 0, WS_OPT_BOOL, AT(source_info), NULL, NULL,
	 "Read debugging information for source files, lines and inlined functions.", "true"},
	{"all", 0, WS_OPT_FLAG, AT(all), NULL, NULL,
	 "Also look up again what already has a name: for lines and inlined functions that newer "
	 "debug files have.",
	 NULL},
	{"quiet", 'q', WS_OPT_FLAG, AT(quiet), NULL, NULL, "Print nothing but errors.", NULL},
	{NULL},
};

const struct ws_command ws_cmd_symbolize = {
	.name = "symbolize",
	.summary = "Name the functions of a report's call stacks afterwards.",
	.usage = "[options] FILE",
	.details = "Looks up the places in code that have no name in the report yet, because of "
		   "'profile --resolve-symbols=false', because debug files were missing or because "
		   "the end of the run was not to be delayed, and adds names, source lines and "
		   "inlined functions to the report. Files are recognised by their build ids: one "
		   "that was replaced since is not used.\n\n"
		   "The report is replaced only when everything is written; on any failure it "
		   "stays as it was.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight symbolize run.wsrep\n"
		    "warpsight symbolize --symbols=debug,../build run.wsrep\n",
	.run = run_symbolize,
};
