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
	const struct options *o;
	struct ws_report *r;
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

int ws_symbol_dirs(const struct ws_list *given, struct ws_list *out, struct ws_err *e)
{
	for (size_t i = 0; i < given->n; i++)
		for (const char *p = given->v[i]; *p;) {
			size_t n = strcspn(p, ",");
			char *dir = ws_strndup(p, n);
			struct stat st;

			p += n + (p[n] == ',');
			if (!n) {
				free(dir);
				continue;
			}
			ws_grow(out->v, out->cap, out->n + 1);
			out->v[out->n++] = dir;
			if (stat(dir, &st))
				return ws_fail_errno(e, "--symbols: cannot look into %s", dir);
			if (!S_ISDIR(st.st_mode))
				return ws_fail(e, "--symbols: %s is not a folder", dir);
		}
	return 0;
}

/* ---- what the report has ---- */

static bool is_same_boot(const struct ws_report *r)
{
	const char *recorded = ws_meta(r, "host.boot_id");
	char now[64] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (f && !fgets(now, sizeof(now), f))
		now[0] = 0;
	if (f)
		fclose(f);
	now[strcspn(now, "\n")] = 0;
	return recorded && *now && !strcmp(now, recorded);
}

static int add_module(struct work *w, const uint64_t *v, struct ws_err *e)
{
	uint64_t id = v[ws_module_id];
	struct ws_module *m;

	if (!id || id > UINT32_C(1) << 24)
		return ws_fail(e, "%s is damaged: a module has number %llu", ws_report_path(w->r),
			       (unsigned long long)id);
	if (id > w->modules) {
		w->module = ws_realloc(w->module, (id + 1) * sizeof(*w->module));
		memset(w->module + w->modules + 1, 0, (id - w->modules) * sizeof(*w->module));
		w->modules = (uint32_t)id;
	}
	m = ws_modules_recorded(w->registry, (enum ws_module_kind)v[ws_module_kind],
				ws_report_string(w->r, (uint32_t)v[ws_module_path], NULL),
				ws_report_string(w->r, (uint32_t)v[ws_module_build_id], NULL),
				v[ws_module_size], w->same_boot);
	w->module[id] = m;
	return 0;
}

static int read_modules(struct work *w, struct ws_err *e)
{
	struct ws_cursor *c = ws_cursor_open(w->r, WS_TABLE_module, 0, UINT64_MAX);
	const uint64_t *v;
	int rc = 0;

	w->module = ws_calloc(1, sizeof(*w->module));
	while (!rc && ws_cursor_next(c, &v))
		rc = add_module(w, v, e);
	ws_cursor_close(c);
	return rc;
}

/* What earlier sets say: the highest set of a frame counts, and its function is the row with the
 * greatest depth. */
static void read_symbols(struct work *w)
{
	struct ws_cursor *c = ws_cursor_open(w->r, WS_TABLE_symbol, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		uint64_t f = v[ws_symbol_frame];
		uint32_t set = (uint32_t)v[ws_symbol_set];

		w->set = set > w->set && set < UINT32_MAX ? set : w->set;
		if (f > w->frames || set < w->set_of[f])
			continue;
		if (set > w->set_of[f])
			w->state[f] = 1;
		w->set_of[f] = set;
		if (v[ws_symbol_name])
			w->state[f] = 2;
	}
	ws_cursor_close(c);
}

static int read_frames(struct work *w, struct ws_err *e)
{
	struct ws_cursor *c = ws_cursor_open(w->r, WS_TABLE_frame, 0, UINT64_MAX);
	uint64_t most = ws_report_rows(w->r, WS_TABLE_frame);
	const uint64_t *v;
	int rc = 0;

	w->frames = (uint32_t)(most < UINT32_MAX ? most : UINT32_MAX - 1);
	w->state = ws_calloc((size_t)w->frames + 1, 1);
	w->set_of = ws_calloc((size_t)w->frames + 1, sizeof(*w->set_of));
	read_symbols(w);
	while (!rc && ws_cursor_next(c, &v)) {
		uint64_t id = v[ws_frame_id], m = v[ws_frame_module];

		if (!id || id > w->frames) {
			rc = ws_fail(e, "%s is damaged: a frame has number %llu",
				     ws_report_path(w->r), (unsigned long long)id);
		} else if (v[ws_frame_kind] != WS_FRAME_PYTHON &&
			   (w->o->all || w->state[id] != 2)) {
			ws_grow(w->wanted, w->cap, w->n + 1);
			w->wanted[w->n++] =
				(struct ws_wanted){m <= w->modules ? w->module[m] : NULL,
						   v[ws_frame_address], (uint32_t)id,
						   (uint8_t)v[ws_frame_kind]};
		}
	}
	ws_cursor_close(c);
	return rc;
}

/* ---- what is added ---- */

static void write_symbol(void *ctx, const struct ws_symbol *s)
{
	struct work *w = ctx;
	struct ws_row_symbol row = {.frame = s->frame,
				    .depth = s->depth,
				    .set = w->set + 1,
				    .line = s->line,
				    .address = s->address};

	/* A frame that has rows without a name keeps them when there is no name now either; so does
	 * a named one that is looked up again. */
	if (!s->depth)
		w->kept = !s->name && w->state[s->frame] ? s->frame : 0;
	if (w->kept == s->frame)
		return;
	row.name = s->name ? ws_writer_string(w->writer, s->name, strlen(s->name)) : 0;
	row.file = s->file ? ws_writer_string(w->writer, s->file, strlen(s->file)) : 0;
	ws_writer_add(w->writer, WS_TABLE_symbol, &row);
}

static void say_progress(void *ctx, uint64_t done, uint64_t all)
{
	struct work *w = ctx;

	if (!w->o->quiet && isatty(STDERR_FILENO))
		fprintf(stderr, "\rwarpsight: %llu of %llu places%s", (unsigned long long)done,
			(unsigned long long)all, done == all ? "\n" : "");
}

static uint64_t session_second(const struct ws_report *r)
{
	const char *text = ws_meta(r, "session.start_epoch_ns");

	return text ? strtoull(text, NULL, 10) / 1000000000u : 0;
}

static int work(struct work *w, const char *path, struct ws_symbol_result *result, struct ws_err *e)
{
	struct ws_list dirs = {0};
	struct ws_symbol_opts opts = {.lines = w->o->source_info};
	int rc = ws_symbol_dirs(&w->o->symbols, &dirs, e);

	w->r = rc ? NULL : ws_report_open(path, e);
	rc = w->r ? 0 : -1;
	if (!rc) {
		w->same_boot = is_same_boot(w->r);
		opts.dirs = dirs.v;
		opts.dirs_n = dirs.n;
		opts.kernel = w->same_boot;
		/* A perf map may be written to until its process ends, which the report knows
		 * better than its file; without the boot none can be the right one. */
		opts.since_s = w->same_boot ? session_second(w->r) : UINT64_MAX;
		opts.until_s =
			opts.since_s + (ws_time_last(w->r) - ws_time_zero(w->r)) / 1000000000u + 5;
		rc = read_modules(w, e) || read_frames(w, e) ? -1 : 0;
	}
	if (!rc && w->n) {
		w->writer = ws_writer_append(path, e);
		rc = w->writer ? 0 : -1;
	}
	if (!rc && w->n) {
		ws_symbolise(w->wanted, w->n, &opts, write_symbol, say_progress, w, result);
		rc = ws_writer_close(w->writer, e);
	}
	ws_report_close(w->r);
	for (size_t i = 0; i < dirs.n; i++)
		free((char *)dirs.v[i]);
	free(dirs.v);
	return rc;
}

static int run(void *values, int argc, char **argv)
{
	struct work w = {.o = values, .registry = ws_modules_new()};
	struct ws_symbol_result result = {0};
	struct ws_err e;
	char *file;
	int rc;

	if (argc != 1) {
		ws_say(argc ? "symbolize: one report file at a time, but %d are given"
			    : "symbolize: no report file is given",
		       argc);
		ws_modules_free(w.registry);
		return WS_EXIT_USAGE;
	}
	file = ws_report_operand(argv[0]);
	rc = work(&w, file, &result, &e);
	if (rc)
		ws_say("symbolize: %s", e.msg);
	else if (!w.o->quiet && !w.n)
		ws_say("%s: nothing is left to be named", file);
	else if (!w.o->quiet)
		ws_say("%s: %llu of %llu places named", file, (unsigned long long)result.named,
		       (unsigned long long)result.frames);
	if (!rc && !w.o->quiet && result.split)
		ws_say("%s: %llu compilation units are without inlined functions: their .dwo files "
		       "are not where the compiler left "
		       "them",
		       file, (unsigned long long)result.split);
	free(file);
	free(w.module);
	free(w.wanted);
	free(w.state);
	free(w.set_of);
	ws_modules_free(w.registry);
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
