/* code.c - see code.h. */
#include "record/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/ticks.h"
#include "symbols/symbolise.h"

#define BUDGET_S                                                                                   \
	20.0 /* processor time for symbols at the end of a run: `warpsight symbolize` has no limit \
	      */
#define SAY_AFTER_S 2.0

struct ws_code *ws_code_new(void)
{
	struct ws_code *c = ws_calloc(1, sizeof(*c));

	c->modules = ws_modules_new();
	c->maps = ws_maps_new(c->modules);
	c->unwinder = ws_unwinder_new();
	return c;
}

void ws_code_end(struct ws_code *c)
{
	if (!c)
		return;
	ws_maps_free(c->maps);
	ws_unwinder_free(c->unwinder);
	c->maps = NULL;
	c->unwinder = NULL;
}

void ws_code_free(struct ws_code *c)
{
	if (!c)
		return;
	ws_code_end(c);
	ws_modules_free(c->modules);
	free(c);
}

/* ---- symbols ---- */

struct naming {
	struct ws_sink *sink;
	struct timespec began;
	bool progress, said;
};

static void write_symbol(void *ctx, const struct ws_symbol *s)
{
	struct naming *n = ctx;
	struct ws_row_symbol row = {.frame = s->frame,
				    .depth = s->depth,
				    .set = 1,
				    .line = s->line,
				    .address = s->address};

	row.name = s->name ? ws_sink_string(n->sink, s->name) : 0;
	row.file = s->file ? ws_sink_string(n->sink, s->file) : 0;
	ws_writer_add(n->sink->writer, WS_TABLE_symbol, &row);
}

static void say_progress(void *ctx, uint64_t done, uint64_t all)
{
	struct naming *n = ctx;
	struct timespec now;

	ws_writer_commit(n->sink->writer);
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!n->progress || (double)(now.tv_sec - n->began.tv_sec) +
					    (double)(now.tv_nsec - n->began.tv_nsec) / 1e9 <
				    SAY_AFTER_S)
		return;
	fprintf(stderr, "\rwarpsight: looking up symbols: %llu of %llu places",
		(unsigned long long)done, (unsigned long long)all);
	if (done == all)
		fputc('\n', stderr);
	n->said = true;
}

static void diagnose(struct ws_sink *s, const char *fmt, const char *path)
{
	char *text = ws_format(fmt, path);

	ws_sink_diagnostic(s, WS_INFO, "symbols", 0, ws_raw_ns(), text);
	free(text);
}

/* Beside a program, `dwp` puts what belongs to it into one file, which libdw reads from version
 * 0.190 on only. */
static void explain_split(struct ws_sink *s, const struct ws_module *m)
{
	char *package = ws_format("%s.dwp", m->path), *text;
	bool packed = !access(package, F_OK);

	text = ws_format("%s: inlined functions of %llu of its compilation units are not shown: "
			 "their debugging information is in %s%s%s%s. "
			 "Functions and lines are.",
			 m->path, (unsigned long long)m->split_units,
			 packed ? package : "files that are not where the compiler left them (",
			 packed ? ", which this warpsight's libdw cannot read" : m->split_file,
			 packed ? "" : ")", packed ? ": keep the .dwo files" : "");
	ws_sink_diagnostic(s, WS_INFO, "symbols", 0, ws_raw_ns(), text);
	free(text);
	free(package);
}

static void explain_modules(struct ws_sink *s, const struct ws_wanted *w, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct ws_module *m = w[i].module;

		if (m && m->split_units && (!i || w[i - 1].module != m))
			explain_split(s, m);
		if (!m || m->kind != WS_MODULE_FILE || m->opened || (i && w[i - 1].module == m))
			continue;
		if (m->flags & WS_MODULE_CHANGED)
			diagnose(s,
				 "%s was replaced while it was in use: its functions have no "
				 "names, for those of the file that is "
				 "there now may be others.",
				 m->path);
		else
			diagnose(s,
				 "%s could not be read: its functions have no names. 'warpsight "
				 "symbolize --symbols=DIR' finds it "
				 "in another folder.",
				 m->path);
	}
}

void ws_code_symbolise(struct ws_sink *s, const struct ws_record_opts *o, uint64_t since_s,
		       bool progress)
{
	uint32_t frames = ws_stackset_frames(s->stacks);
	struct naming n = {.sink = s, .progress = progress && isatty(STDERR_FILENO)};
	struct ws_symbol_opts opts = {
		o->symbol_dirs, o->symbol_dir_count, o->source_info, true, since_s, 0, BUDGET_S};
	struct ws_symbol_result r = {0};
	struct ws_wanted *w;
	size_t count = 0;

	if (!frames || !o->resolve_symbols)
		return;
	clock_gettime(CLOCK_MONOTONIC, &n.began);
	w = ws_malloc(frames * sizeof(*w));
	for (uint32_t i = 1; i <= frames; i++) {
		const struct ws_stackset_frame *f = ws_stackset_frame_at(s->stacks, i);

		if (f->kind != WS_FRAME_PYTHON)
			w[count++] = (struct ws_wanted){f->module, f->address, i, f->kind};
	}
	ws_symbolise(w, count, &opts, write_symbol, say_progress, &n, &r);
	explain_modules(s, w, count);
	ws_sink_meta(s, "symbols.frames", "%llu", (unsigned long long)r.frames);
	ws_sink_meta(s, "symbols.named", "%llu", (unsigned long long)r.named);
	if (r.skipped)
		ws_sink_diagnostic(s, WS_WARNING, "symbols", 0, ws_raw_ns(),
				   "Looking up symbols took too long and was not finished: "
				   "'warpsight symbolize' on the report does the rest.");
	free(w);
}
