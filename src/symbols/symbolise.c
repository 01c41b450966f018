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
#include "symbols/dwarf.h"
#include "symbols/jit.h"
#include "symbols/kallsyms.h"
#include "symbols/symtab.h"

struct batch { /* the frames of one module */
	struct ws_wanted *wanted;
	size_t n;
	uint64_t *address;
	struct ws_symbol_hit *hit;
	bool *done;
	const struct ws_symbol_opts *opts;
	void (*emit)(void *ctx, const struct ws_symbol *symbol);
	void *ctx;
	struct ws_symbol_result *result;
};

static int by_module(const void *first, const void *second)
{
	const struct ws_wanted *left = first, *right = second;
	uint32_t xm = left->module ? left->module->number : 0,
		 ym = right->module ? right->module->number : 0;

	if (xm != ym)
		return xm < ym ? -1 : 1;
	return left->address < right->address	? -1
	       : left->address > right->address ? 1
						: ws_compare(left->frame, right->frame);
}

static void emit_one(struct batch *batch, size_t i, uint32_t depth, const char *name,
		     const char *file, uint32_t line, uint64_t begin)
{
	struct ws_symbol symbol = {batch->wanted[i].frame,	depth, name && *name ? name : NULL,
				   file && *file ? file : NULL, line,  begin};

	if (!depth) {
		batch->result->named += symbol.name != NULL;
		batch->done[i] = true;
	}
	batch->emit(batch->ctx, &symbol);
}

/* Name of a symbol as people write it; owned by the caller. */
static char *shown(const struct ws_symbol_hit *hit)
{
	/* Which version of a library's interface it is, name@@VERSION, says nothing about the code.
	 */
	char *name = hit->name ? ws_strndup(hit->name, strcspn(hit->name, "@")) : NULL,
	     *plain = name ? ws_demangle(name) : NULL, *stub;

	free(name);
	if (!plain || !hit->plt)
		return plain;
	stub = ws_format("%s@plt", plain);
	free(plain);
	return stub;
}

/* ---- ELF files ---- */

/*
 * Debugging information tells the chain of inlined functions. The function itself keeps the name of
 * its symbol, which says more: of parts that the compiler split off, and of stubs.
 */
static void found_dwarf(void *ctx, size_t i, const struct ws_dwarf_call *calls, size_t n)
{
	struct batch *batch = ctx;

	for (size_t k = 0; k < n; k++) {
		bool last = k + 1 == n;
		const struct ws_symbol_hit *hit = &batch->hit[i];
		char *name = last && hit->name ? shown(hit)
			     : calls[k].name   ? ws_demangle(calls[k].name)
					       : NULL;

		emit_one(batch, i, (uint32_t)k, name, calls[k].file, calls[k].line,
			 !last	     ? 0
			 : hit->name ? hit->value
				     : calls[k].begin);
		free(name);
	}
}

static void emit_rest(struct batch *batch)
{
	for (size_t i = 0; i < batch->n; i++)
		if (!batch->done[i]) {
			char *name = shown(&batch->hit[i]);

			emit_one(batch, i, 0, name, NULL, 0,
				 batch->hit[i].name ? batch->hit[i].value : 0);
			free(name);
		}
}

static bool has_dwarf(const struct ws_elf *elf)
{
	Elf64_Shdr section;

	return ws_elf_find(elf, ".debug_info", &section) >= 0 && section.sh_type != SHT_NOBITS;
}

static void symbolise_elf(struct batch *batch)
{
	struct ws_module *module = batch->wanted[0].module;
	struct ws_elf separate = {0}, shared = {0};
	struct ws_dwarf_missing missing = {0};
	bool has_separate;

	if (!module->opened && module->kind == WS_MODULE_FILE)
		ws_debugfile_module(module, batch->opts->dirs, batch->opts->dirs_n);
	has_separate = (!module->opened || !has_dwarf(&module->elf)) &&
		       module->kind == WS_MODULE_FILE &&
		       ws_debugfile_open(module, batch->opts->dirs, batch->opts->dirs_n, &separate);
	if (!module->opened && !has_separate) {
		batch->result->changed += (module->flags & WS_MODULE_CHANGED) != 0;
		batch->result->missing += !(module->flags & WS_MODULE_CHANGED);
		emit_rest(batch);
		return;
	}
	if (has_separate)
		ws_symtab_find(&separate, batch->address, batch->n, batch->hit);
	if (module->opened)
		ws_symtab_find(&module->elf, batch->address, batch->n, batch->hit);
	if (batch->opts->lines && (has_separate ? has_dwarf(&separate) : has_dwarf(&module->elf)) &&
	    module->kind == WS_MODULE_FILE) {
		const struct ws_elf *elf =
			has_separate && has_dwarf(&separate) ? &separate : &module->elf;
		bool has_shared =
			ws_debugfile_shared(elf, batch->opts->dirs, batch->opts->dirs_n, &shared);

		free(module->split_file);
		ws_dwarf_find(elf, has_shared ? &shared : NULL, batch->address, batch->n,
			      found_dwarf, batch, &missing, NULL);
		module->split_file = missing.file;
		module->split_units = missing.units;
		batch->result->split += missing.units;
	}
	emit_rest(batch);
	ws_elf_close(&separate);
	ws_elf_close(&shared);
}

/* ---- the kernel ---- */

static void found_kernel(void *ctx, size_t i, const char *name, uint64_t begin)
{
	emit_one(ctx, i, 0, name, NULL, 0, begin);
}

static void symbolise_kernel(struct batch *batch)
{
	if (batch->opts->kernel)
		ws_kallsyms_find(batch->address, batch->n, found_kernel, batch);
	emit_rest(batch);
}

/* ---- generated code ---- */

static void read_jit(struct batch *batch, struct ws_jit *jit)
{
	const struct ws_module *module = batch->wanted[0].module;
	const struct ws_symbol_opts *options = batch->opts;
	int pid = module->pid;
	char *path;

	for (size_t i = 0; i <= options->dirs_n; i++) {
		bool system = i == options->dirs_n;

		path = system ? ws_format("/tmp/perf-%d.map", pid)
			      : ws_format("%s/perf-%d.map", options->dirs[i], pid);
		ws_jit_read_file(jit, path, system ? options->since_s : 0,
				 system ? options->until_s : 0, NULL);
		free(path);
		if (!system) {
			path = ws_format("%s/jit-%d.dump", options->dirs[i], pid);
			ws_jit_read_file(jit, path, 0, 0, NULL);
			free(path);
		}
	}
	if (module->dump)
		ws_jit_read_file(jit, module->dump, options->since_s, options->until_s, NULL);
	ws_jit_sort(jit);
}

static void symbolise_jit(struct batch *batch)
{
	struct ws_jit jit = {0};

	read_jit(batch, &jit);
	for (size_t i = 0; i < batch->n; i++) {
		const char *file = "", *name;
		uint64_t begin = 0;
		uint32_t line = 0;
		char *plain;

		name = ws_jit_find(&jit, batch->address[i], &begin, &file, &line);
		plain = name ? ws_demangle(name) : NULL;
		emit_one(batch, i, 0, plain, file, line, begin);
		free(plain);
	}
	ws_jit_free(&jit);
}

/* ---- all ---- */

static void symbolise_module(struct batch *batch)
{
	struct ws_module *module = batch->wanted[0].module;

	batch->address = ws_malloc(batch->n * sizeof(*batch->address));
	batch->hit = ws_calloc(batch->n, sizeof(*batch->hit));
	batch->done = ws_calloc(batch->n, sizeof(*batch->done));
	for (size_t i = 0; i < batch->n; i++)
		batch->address[i] = batch->wanted[i].address;
	batch->result->modules++;
	if (module && (module->kind == WS_MODULE_FILE || module->kind == WS_MODULE_VDSO))
		symbolise_elf(batch);
	else if (module && module->kind == WS_MODULE_KERNEL)
		symbolise_kernel(batch);
	else if (module && module->kind == WS_MODULE_JIT)
		symbolise_jit(batch);
	else
		emit_rest(batch);
	free(batch->address);
	free(batch->hit);
	free(batch->done);
}

static double processor_time(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

void ws_symbolise(struct ws_wanted *wanted, size_t n, const struct ws_symbol_opts *opts,
		  void (*emit)(void *ctx, const struct ws_symbol *symbol),
		  void (*progress)(void *ctx, uint64_t done, uint64_t all), void *ctx,
		  struct ws_symbol_result *result)
{
	double began = processor_time();

	if (n)
		qsort(wanted, n, sizeof(*wanted), by_module);
	result->frames += n;
	for (size_t i = 0, end; i < n; i = end) {
		struct batch batch = {.wanted = wanted + i,
				      .opts = opts,
				      .emit = emit,
				      .ctx = ctx,
				      .result = result};

		for (end = i; end < n && wanted[end].module == wanted[i].module; end++)
			;
		batch.n = end - i;
		if (opts->budget_s > 0 && processor_time() - began > opts->budget_s) {
			result->skipped += batch.n;
			continue;
		}
		symbolise_module(&batch);
		if (progress)
			progress(ctx, end, n);
	}
}
