/* symbolise.c - see symbolise.h. */
#include "symbols/symbolise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "symbols/debugfile.h"
#include "symbols/demangle.h"
#include "symbols/dwarf_apart.h"
#include "symbols/jit.h"
#include "symbols/kallsyms.h"
#include "symbols/python_methods.h"
#include "symbols/symtab.h"

/* The frames of one module. */
struct symbol_batch {
	struct ws_wanted *wanted;
	size_t count;
	uint64_t *addresses;
	struct ws_symbol_hit *hits;	   /* their names are in the module's files */
	struct ws_python_methods *methods; /* owns some of the names; or NULL */
	struct ws_elf separate;		   /* the module's debug file, or closed */
	bool *done;
	const struct ws_symbol_opts *opts;
	void (*emit)(void *ctx, const struct ws_symbol *symbol);
	void *ctx;
	struct ws_symbol_result *result;
	struct ws_kallsyms *kernel;   /* being read; NULL: not needed yet */
	struct ws_dwarf_apart *apart; /* reads its debugging information; NULL: there is none */
	struct ws_dwarf_reader reader;
};

static uint32_t get_module_number(const struct ws_wanted *wanted)
{
	return wanted->module ? wanted->module->number : 0;
}

/* By module, address and frame. */
static int compare_wanted(const void *first, const void *second)
{
	const struct ws_wanted *left = first, *right = second;
	uint32_t left_module = get_module_number(left), right_module = get_module_number(right);

	if (left_module != right_module)
		return ws_compare(left_module, right_module);
	if (left->address != right->address)
		return ws_compare(left->address, right->address);
	return ws_compare(left->frame, right->frame);
}

/* Emit a symbol of frame `i`, whose id is set here; empty texts become NULL. */
static void emit_symbol(struct symbol_batch *batch, size_t i, struct ws_symbol symbol)
{
	symbol.frame = batch->wanted[i].frame;
	if (symbol.name && !*symbol.name)
		symbol.name = NULL;
	if (symbol.file && !*symbol.file)
		symbol.file = NULL;
	if (!symbol.depth) {
		batch->result->named += symbol.name != NULL;
		batch->done[i] = true;
	}
	batch->emit(batch->ctx, &symbol);
}

/* The demangled name of a symbol, which the caller frees; NULL when there is none. */
static char *make_shown_name(const struct ws_symbol_hit *hit)
{
	char *name, *plain, *stub;

	if (!hit->name)
		return NULL;
	/* The version of a library's interface, name@@VERSION, says nothing about the code. */
	name = ws_strndup(hit->name, strcspn(hit->name, "@"));
	plain = ws_demangle(name);
	free(name);
	if (!hit->plt)
		return plain;
	stub = ws_format("%s@plt", plain);
	free(plain);
	return stub;
}

/* ---- ELF files ---- */

/*
 * Debugging information gives the chain of inlined functions. The function itself keeps the name of
 * its symbol, which says more about parts that the compiler split off, and about stubs.
 */
static void emit_dwarf_calls(void *ctx, size_t i, const struct ws_dwarf_call *calls, size_t count)
{
	struct symbol_batch *batch = ctx;

	for (size_t depth = 0; depth < count; depth++) {
		bool last = depth + 1 == count;
		const struct ws_symbol_hit *hit = &batch->hits[i];
		struct ws_symbol symbol = {.depth = (uint32_t)depth,
					   .file = calls[depth].file,
					   .line = calls[depth].line};
		char *name = NULL;

		if (last && hit->name)
			name = make_shown_name(hit);
		else if (calls[depth].name)
			name = ws_demangle(calls[depth].name);
		if (last && hit->name)
			symbol.address = hit->value;
		else if (last)
			symbol.address = calls[depth].begin;
		symbol.name = name;
		emit_symbol(batch, i, symbol);
		free(name);
	}
}

/* Emit the symbols of frames without debugging information. */
static void emit_remaining(struct symbol_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++)
		if (!batch->done[i]) {
			char *name = make_shown_name(&batch->hits[i]);
			struct ws_symbol symbol = {.name = name};

			if (batch->hits[i].name)
				symbol.address = batch->hits[i].value;
			emit_symbol(batch, i, symbol);
			free(name);
		}
}

static bool has_dwarf(const struct ws_elf *elf)
{
	Elf64_Shdr section;

	return ws_elf_find_section(elf, ".debug_info", &section) >= 0 &&
	       section.sh_type != SHT_NOBITS;
}

/* More than a module can need, when all take less: one that never ends is to end. */
#define READER_SHARE 3

static void note_reader_end(struct symbol_batch *batch, const struct ws_dwarf_reader *reader)
{
	struct ws_module *module = batch->wanted[0].module;

	batch->result->apart_s += reader->spent_s;
	free(module->unread);
	module->unread = NULL;
	if (reader->starved)
		module->unread = ws_strdup("found no memory");
	else if (reader->signal)
		module->unread = ws_format("was ended by signal %d (%s)", reader->signal,
					   strsignal(reader->signal));
	else if (reader->cut)
		module->unread = ws_strdup("ended early");
	batch->result->unread += module->unread != NULL;
}

/* Start to read source lines and inlined functions. `elf` is the file that has them. */
static void start_reading_dwarf(struct symbol_batch *batch, const struct ws_elf *elf)
{
	struct ws_elf shared = {0};
	struct ws_dwarf_query query = {.address = batch->addresses,
				       .count = batch->count,
				       .found = emit_dwarf_calls,
				       .ctx = batch};

	batch->reader.limit_s = READER_SHARE * batch->opts->budget_s;
	if (ws_debugfile_open_shared(elf, batch->opts->dirs, batch->opts->dir_count, &shared))
		query.shared = &shared;
	batch->apart = ws_dwarf_start_apart(elf, &query, &batch->reader);
	ws_elf_close(&shared);
}

static void finish_reading_dwarf(struct symbol_batch *batch)
{
	struct ws_module *module = batch->wanted[0].module;
	struct ws_dwarf_missing missing = {0};

	free(module->split_file);
	ws_dwarf_finish_apart(batch->apart, &missing);
	note_reader_end(batch, &batch->reader);
	module->split_file = missing.file;
	module->split_units = missing.units;
	module->unoptimised = missing.unoptimised > missing.optimised;
	batch->result->split += missing.units;
}

/* Files of Python without a symbol table still name what Python can call. */
static void name_python_methods(struct symbol_batch *batch, struct ws_module *module)
{
	struct ws_cfi *own = NULL;

	if (!module->cfi)
		own = ws_cfi_new(&module->elf);
	batch->methods = ws_python_methods_find(&module->elf, own ? own : module->cfi,
						batch->addresses, batch->count, batch->hits);
	ws_cfi_free(own);
}

/* Find the symbols of a file, and start to read its debugging information. */
static void start_elf(struct symbol_batch *batch)
{
	struct ws_module *module = batch->wanted[0].module;
	struct ws_elf *separate = &batch->separate;
	const struct ws_elf *elf = &module->elf;
	bool has_separate, whole = false;

	if (!module->opened && module->kind == WS_MODULE_FILE)
		ws_debugfile_open_module(module, batch->opts->dirs, batch->opts->dir_count);
	has_separate =
		(!module->opened || !has_dwarf(&module->elf)) && module->kind == WS_MODULE_FILE &&
		ws_debugfile_open(module, batch->opts->dirs, batch->opts->dir_count, separate);
	if (!module->opened && !has_separate) {
		batch->result->changed += (module->flags & WS_MODULE_CHANGED) != 0;
		batch->result->missing += !(module->flags & WS_MODULE_CHANGED);
		return;
	}
	if (has_separate)
		whole = ws_symtab_find(separate, batch->addresses, batch->count, batch->hits);
	if (module->opened)
		whole |= ws_symtab_find(&module->elf, batch->addresses, batch->count, batch->hits);
	if (module->opened && !whole)
		name_python_methods(batch, module);
	if (has_separate)
		elf = separate;
	if (batch->opts->lines && has_dwarf(elf) && module->kind == WS_MODULE_FILE)
		start_reading_dwarf(batch, elf);
}

/* ---- the kernel ---- */

static void emit_kernel_symbol(void *ctx, size_t i, const char *name, uint64_t begin)
{
	emit_symbol(ctx, i, (struct ws_symbol){.name = name, .address = begin});
}

static void symbolise_kernel(struct symbol_batch *batch)
{
	const struct ws_symbol_opts *options = batch->opts;
	struct ws_kallsyms *symbols = batch->kernel;

	if (options->name_kernel && options->name_kernel(options->naming_kernel, batch->addresses,
							 batch->count, emit_kernel_symbol, batch)) {
		emit_remaining(batch);
		return;
	}
	if (!symbols && options->kernel)
		symbols = ws_kallsyms_start_reading();
	if (symbols)
		ws_kallsyms_find(symbols, batch->addresses, batch->count, emit_kernel_symbol,
				 batch);
	if (symbols != batch->kernel)
		ws_kallsyms_free(symbols);
	emit_remaining(batch);
}

/* ---- generated code ---- */

/* What the files of those that generate code say. */
static void load_jit_files(const struct symbol_batch *batch, struct ws_jit *jit)
{
	const struct ws_module *module = batch->wanted[0].module;
	const struct ws_symbol_opts *options = batch->opts;
	char *path;

	for (size_t i = 0; i < options->dir_count; i++) {
		path = ws_format("%s/perf-%d.map", options->dirs[i], module->pid);
		ws_jit_read_file(jit, path, 0, 0, NULL);
		free(path);
		path = ws_format("%s/jit-%d.dump", options->dirs[i], module->pid);
		ws_jit_read_file(jit, path, 0, 0, NULL);
		free(path);
	}
	path = ws_format("/tmp/perf-%d.map", module->pid);
	ws_jit_read_file(jit, path, options->since_s, options->until_s, NULL);
	free(path);
	if (module->dump)
		ws_jit_read_file(jit, module->dump, options->since_s, options->until_s, NULL);
	ws_jit_sort(jit);
}

/* What was found in the memory of the process. */
static void load_jit_memory(const struct symbol_batch *batch, struct ws_jit *jit)
{
	const struct ws_symbol_opts *options = batch->opts;
	const char *map = options->get_jit_map ? options->get_jit_map(options->getting_jit_map,
								      batch->wanted[0].module->key)
					       : NULL;

	if (map)
		ws_jit_read_memory(jit, map, strlen(map));
	ws_jit_sort(jit);
}

static void symbolise_jit(struct symbol_batch *batch)
{
	struct ws_jit files = {0}, memory = {0};

	load_jit_files(batch, &files);
	load_jit_memory(batch, &memory);
	for (size_t i = 0; i < batch->count; i++) {
		struct ws_symbol symbol = {.file = ""};
		const char *name = ws_jit_find(&files, batch->addresses[i], &symbol.address,
					       &symbol.file, &symbol.line);
		char *plain = NULL;

		if (!name) /* methods that are interpreted have no code in a file */
			name = ws_jit_find(&memory, batch->addresses[i], &symbol.address,
					   &symbol.file, &symbol.line);
		if (name)
			plain = ws_demangle(name);
		symbol.name = plain;
		emit_symbol(batch, i, symbol);
		free(plain);
	}
	ws_jit_free(&files);
	ws_jit_free(&memory);
}

/* ---- all ---- */

static bool is_file(const struct ws_module *module)
{
	return module && (module->kind == WS_MODULE_FILE || module->kind == WS_MODULE_VDSO);
}

/* Do what needs no waiting. */
static void start_module(struct symbol_batch *batch)
{
	batch->addresses = ws_malloc(batch->count * sizeof(*batch->addresses));
	batch->hits = ws_calloc(batch->count, sizeof(*batch->hits));
	batch->done = ws_calloc(batch->count, sizeof(*batch->done));
	for (size_t i = 0; i < batch->count; i++)
		batch->addresses[i] = batch->wanted[i].address;
	batch->result->modules++;
	if (is_file(batch->wanted[0].module))
		start_elf(batch);
}

static void finish_module(struct symbol_batch *batch)
{
	struct ws_module *module = batch->wanted[0].module;

	if (batch->apart)
		finish_reading_dwarf(batch);
	if (module && module->kind == WS_MODULE_KERNEL)
		symbolise_kernel(batch);
	else if (module && module->kind == WS_MODULE_JIT)
		symbolise_jit(batch);
	else
		emit_remaining(batch);
	ws_python_methods_free(batch->methods);
	ws_elf_close(&batch->separate);
	free(batch->addresses);
	free(batch->hits);
	free(batch->done);
}

static double get_processor_time(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static bool is_kernel(const struct ws_wanted *wanted)
{
	return wanted->module && wanted->module->kind == WS_MODULE_KERNEL;
}

/* The kernel's symbols, when any of the addresses is the kernel's; else NULL. */
static struct ws_kallsyms *read_kernel_if_wanted(const struct ws_wanted *wanted, size_t n,
						 const struct ws_symbol_opts *opts)
{
	for (size_t i = 0; opts->kernel && i < n; i++)
		if (is_kernel(&wanted[i]))
			return ws_kallsyms_start_reading();
	return NULL;
}

enum { MOST_READERS = 4 }; /* at a time: each takes up to 100 MiB */

/* The arguments of ws_symbolise, and its progress. */
struct symbol_run {
	struct symbol_batch batch; /* what all batches have in common */
	void (*progress)(void *ctx, uint64_t done, uint64_t all);
	double began;
	size_t done, all;
	struct symbol_batch started[MOST_READERS]; /* in order, from `first` on */
	size_t first, started_n, most;
};

/* As many readers as there are cores. */
static size_t count_readers(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	return (size_t)ws_max(ws_min(cores, (long)MOST_READERS), 1L);
}

static void finish_first(struct symbol_run *run)
{
	struct symbol_batch *batch = &run->started[run->first];

	finish_module(batch);
	run->done += batch->count;
	run->first = (run->first + 1) % MOST_READERS;
	run->started_n--;
	if (run->progress)
		run->progress(batch->ctx, run->done, run->all);
}

static void start_next(struct symbol_run *run, struct ws_wanted *wanted, size_t count)
{
	struct symbol_batch *batch;

	if (run->started_n == run->most)
		finish_first(run);
	batch = &run->started[(run->first + run->started_n++) % MOST_READERS];
	*batch = run->batch;
	batch->wanted = wanted;
	batch->count = count;
	start_module(batch);
}

static bool is_over_budget(const struct symbol_run *run)
{
	double budget = run->batch.opts->budget_s;

	return budget > 0 &&
	       get_processor_time() - run->began + run->batch.result->apart_s > budget;
}

/* Symbolise the modules of the kernel, or all others. */
static void symbolise_modules(struct symbol_run *run, struct ws_wanted *wanted, bool kernel)
{
	for (size_t i = 0, end; i < run->all; i = end) {
		for (end = i; end < run->all && wanted[end].module == wanted[i].module; end++)
			;
		if (is_kernel(&wanted[i]) != kernel)
			continue;
		if (kernel || !is_over_budget(run)) {
			start_next(run, wanted + i, end - i);
			continue;
		}
		run->done += end - i;
		run->batch.result->skipped += end - i;
	}
	while (run->started_n)
		finish_first(run);
}

void ws_symbolise(struct ws_wanted *wanted, size_t n, const struct ws_symbol_opts *opts,
		  const struct ws_symbol_receiver *receiver, struct ws_symbol_result *result)
{
	struct symbol_run run = {.batch = {.opts = opts,
					   .emit = receiver->emit,
					   .ctx = receiver->ctx,
					   .result = result},
				 .progress = receiver->progress,
				 .began = get_processor_time(),
				 .all = n,
				 .most = count_readers()};

	if (n)
		qsort(wanted, n, sizeof(*wanted), compare_wanted);
	result->frames += n;
	if (!opts->name_kernel)
		run.batch.kernel = read_kernel_if_wanted(wanted, n, opts);
	symbolise_modules(&run, wanted, false);
	symbolise_modules(&run, wanted, true); /* last: its symbols are being read meanwhile */
	ws_kallsyms_free(run.batch.kernel);
}
