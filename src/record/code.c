/* code.c - see code.h. */
#include "record/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/jit_runtimes.h"
#include "base/mem.h"
#include "base/ticks.h"
#include "record/hotspot.h"
#include "record/kernel_names.h"
#include "symbols/symbolise.h"

/* processor time for symbols at the end of a run; `warpsight symbolize` has no limit \ */
#define BUDGET_S 20.0
#define SAY_AFTER_S 2.0

struct ws_code *ws_code_new(void)
{
	struct ws_code *code = ws_calloc(1, sizeof(*code));

	code->modules = ws_modules_new();
	code->maps = ws_maps_new(code->modules);
	code->unwinder = ws_unwinder_new();
	code->hotspot = ws_hotspot_new();
	ws_unwinder_set_reader(code->unwinder, ws_hotspot_read_frame, code->hotspot);
	return code;
}

void ws_code_end(struct ws_code *code)
{
	if (!code)
		return;
	ws_maps_free(code->maps);
	ws_unwinder_free(code->unwinder);
	code->maps = NULL;
	code->unwinder = NULL;
}

void ws_code_tell_mappings(struct ws_code *code)
{
	if (code && code->maps)
		ws_maps_tell_live(code->maps, ws_stackset_add_mapping);
}

void ws_code_tell_modules(struct ws_code *code)
{
	if (code && code->maps)
		ws_maps_tell_live(code->maps, ws_stackset_add_module);
}

void ws_code_free(struct ws_code *code)
{
	if (!code)
		return;
	ws_code_end(code);
	ws_kernel_names_close(code->kernel_names);
	ws_hotspot_free(code->hotspot);
	ws_modules_free(code->modules);
	free(code);
}

void ws_code_look_at_frames(struct ws_code *code, struct ws_sink *sink)
{
	sink->frames_looked_at =
		ws_hotspot_look(code->hotspot, sink->stacks, sink->frames_looked_at);
}

/* ---- symbols ---- */

struct naming {
	struct ws_sink *sink;
	struct timespec began;
	bool progress, said;
	bool *named; /* by frame */
	size_t frames;
};

static void write_symbol(void *ctx, const struct ws_symbol *symbol)
{
	struct naming *naming = ctx;
	struct ws_row_symbol row = {.frame = symbol->frame,
				    .depth = symbol->depth,
				    .set = 1,
				    .line = symbol->line,
				    .address = symbol->address};

	if (symbol->name && symbol->frame < naming->frames)
		naming->named[symbol->frame] = true;
	row.name = symbol->name ? ws_sink_string(naming->sink, symbol->name) : 0;
	row.file = symbol->file ? ws_sink_string(naming->sink, symbol->file) : 0;
	ws_writer_add(naming->sink->writer, WS_TABLE_symbol, &row);
}

static void say_progress(void *ctx, uint64_t done, uint64_t all)
{
	struct naming *naming = ctx;
	struct timespec now;

	ws_writer_commit(naming->sink->writer);
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!naming->progress ||
	    (double)(now.tv_sec - naming->began.tv_sec) +
			    (double)(now.tv_nsec - naming->began.tv_nsec) / 1e9 <
		    SAY_AFTER_S)
		return;
	fprintf(stderr, "\rwarpsight: looking up symbols: %llu of %llu places",
		(unsigned long long)done, (unsigned long long)all);
	if (done == all)
		fputc('\n', stderr);
	naming->said = true;
}

static void add_diagnostic(struct ws_sink *sink, const char *fmt, const char *path)
{
	char *text = ws_format(fmt, path);

	ws_sink_diagnostic(sink, WS_INFO, "symbols", 0, ws_read_raw_ns(), text);
	free(text);
}

/* For a program, `dwp` puts all of this into one file beside it. libdw reads that file from version
 * 0.190 on. */
static void explain_split(struct ws_sink *sink, const struct ws_module *module)
{
	char *package = ws_format("%s.dwp", module->path), *text;
	bool packed = !access(package, F_OK);

	text = ws_format("%s: inlined functions of %llu of its compilation units are not shown: "
			 "their debugging information is in %s%s%s%s. "
			 "Functions and lines are.",
			 module->path, (unsigned long long)module->split_units,
			 packed ? package : "files that are not where the compiler left them (",
			 packed ? ", which this warpsight's libdw cannot read" : module->split_file,
			 packed ? "" : ")", packed ? ": keep the .dwo files" : "");
	ws_sink_diagnostic(sink, WS_INFO, "symbols", 0, ws_read_raw_ns(), text);
	free(text);
	free(package);
}

static void explain_unread(struct ws_sink *sink, const struct ws_module *module)
{
	char *text = ws_format("%s: source lines and inlined functions may be missing: the process "
			       "that read its debugging information %s.",
			       module->path, module->unread);

	ws_sink_diagnostic(sink, WS_WARNING, "symbols", 0, ws_read_raw_ns(), text);
	free(text);
}

/* For the rule debug-build: paths, with colons between them. */
static void note_unoptimised(struct ws_sink *sink, const struct ws_wanted *wanted, size_t n)
{
	struct ws_text paths = {0};

	for (size_t i = 0; i < n; i++) {
		const struct ws_module *module = wanted[i].module;

		if (module && module->unoptimised && (!i || wanted[i - 1].module != module))
			ws_text_printf(&paths, "%s%s", paths.len ? ":" : "", module->path);
	}
	if (paths.len)
		ws_sink_meta(sink, "symbols.unoptimised", "%s", paths.text);
	ws_text_free(&paths);
}

static void explain_modules(struct ws_sink *sink, const struct ws_wanted *wanted, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct ws_module *module = wanted[i].module;

		if (module && module->split_units && (!i || wanted[i - 1].module != module))
			explain_split(sink, module);
		if (module && module->unread && (!i || wanted[i - 1].module != module))
			explain_unread(sink, module);
		if (!module || module->kind != WS_MODULE_FILE || module->opened ||
		    (i && wanted[i - 1].module == module))
			continue;
		if (module->flags & WS_MODULE_CHANGED)
			add_diagnostic(sink,
				       "%s was replaced while it was in use: its functions have no "
				       "names, for those of the file that is "
				       "there now may be others.",
				       module->path);
		else
			add_diagnostic(
				sink,
				"%s could not be read: its functions have no names. 'warpsight "
				"symbolize --symbols=DIR' finds it "
				"in another folder.",
				module->path);
	}
}

/* every process of a runtime runs some code that the runtime never names */
enum { FEW_PLACES = 10 };

/* Say how to get names for generated code, where most of it has none. */
static void explain_generated_code(const struct naming *naming, const struct ws_wanted *wanted,
				   size_t n)
{
	const char *advice = "a runtime that writes /tmp/perf-PID.map or jitdump files gives names";
	const struct ws_jit_runtime *runtime;
	size_t unnamed = 0, all = 0;
	char *text;

	for (size_t i = 0; i < n; i++) {
		const struct ws_module *module = wanted[i].module;

		if (!module)
			continue;
		runtime = ws_find_jit_runtime(module->path);
		if (runtime)
			advice = runtime->advice;
		if (module->kind != WS_MODULE_JIT)
			continue;
		all++;
		unnamed += !naming->named[wanted[i].frame];
	}
	if (unnamed < FEW_PLACES || unnamed < all / 2)
		return;
	text = ws_format("Functions of generated code have no names (%zu of %zu places): %s. "
			 "'warpsight profile --jit-names=java,node' sets that.",
			 unnamed, all, advice);
	ws_sink_diagnostic(naming->sink, WS_WARNING, "symbols", 0, ws_read_raw_ns(), text);
	free(text);
}

/* Have the kernel name its own functions, if the stacks contain any and it permits this. */
static void name_kernel(struct ws_code *code, const struct ws_wanted *wanted, size_t n,
			struct ws_symbol_opts *opts)
{
	size_t i = 0;

	while (i < n && !(wanted[i].module && wanted[i].module->kind == WS_MODULE_KERNEL))
		i++;
	if (i == n)
		return;
	if (!code->kernel_names)
		code->kernel_names = ws_kernel_names_open();
	if (!code->kernel_names)
		return;
	opts->name_kernel = ws_kernel_names_find;
	opts->naming_kernel = code->kernel_names;
}

void ws_code_symbolise(struct ws_sink *sink, const struct ws_record_opts *options, uint64_t since_s,
		       struct ws_code *code, bool progress)
{
	uint32_t frames = ws_stackset_frames(sink->stacks);
	struct naming naming = {.sink = sink, .progress = progress && isatty(STDERR_FILENO)};
	struct ws_symbol_opts opts = {options->symbol_dirs,
				      options->symbol_dir_count,
				      options->source_info,
				      true,
				      since_s,
				      0,
				      BUDGET_S};
	struct ws_symbol_receiver receiver = {write_symbol, say_progress, &naming};
	struct ws_symbol_result result = {0};
	struct ws_wanted *wanted;
	size_t count = 0;

	if (frames <= sink->frames_named || !options->resolve_symbols)
		return;
	clock_gettime(CLOCK_MONOTONIC, &naming.began);
	wanted = ws_malloc(frames * sizeof(*wanted));
	naming.frames = frames + (size_t)1;
	naming.named = ws_calloc(naming.frames, sizeof(*naming.named));
	for (uint32_t i = sink->frames_named + 1; i <= frames; i++) {
		const struct ws_stackset_frame *frame = ws_stackset_frame_at(sink->stacks, i);

		if (frame->kind != WS_FRAME_PYTHON)
			wanted[count++] =
				(struct ws_wanted){frame->module, frame->address, i, frame->kind};
	}
	name_kernel(code, wanted, count, &opts);
	opts.get_jit_map = ws_hotspot_get_map;
	opts.getting_jit_map = code->hotspot;
	ws_symbolise(wanted, count, &opts, &receiver, &result);
	explain_modules(sink, wanted, count);
	note_unoptimised(sink, wanted, count);
	explain_generated_code(&naming, wanted, count);
	free(naming.named);
	sink->frames_named = frames;
	ws_sink_meta(sink, "symbols.frames", "%llu", (unsigned long long)result.frames);
	ws_sink_meta(sink, "symbols.named", "%llu", (unsigned long long)result.named);
	if (result.skipped)
		ws_sink_diagnostic(sink, WS_WARNING, "symbols", 0, ws_read_raw_ns(),
				   "Looking up symbols took too long and was not finished: "
				   "'warpsight symbolize' on the report does the rest.");
	free(wanted);
}
