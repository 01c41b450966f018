/* symbolise.c - see symbolise.h. */
#include "symbols/symbolise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
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
	void (*emit)(void *ctx, const struct ws_symbol *s);
	void *ctx;
	struct ws_symbol_result *result;
};

static int by_module(const void *a, const void *b)
{
	const struct ws_wanted *x = a, *y = b;
	uint32_t xm = x->module ? x->module->number : 0, ym = y->module ? y->module->number : 0;

	if (xm != ym)
		return xm < ym ? -1 : 1;
	return x->address < y->address	 ? -1
	       : x->address > y->address ? 1
	       : x->frame < y->frame	 ? -1
					 : x->frame > y->frame;
}

static void emit_one(struct batch *b, size_t i, uint32_t depth, const char *name, const char *file,
		     uint32_t line, uint64_t begin)
{
	struct ws_symbol s = {b->wanted[i].frame,	   depth, name && *name ? name : NULL,
			      file && *file ? file : NULL, line,  begin};

	if (!depth) {
		b->result->named += s.name != NULL;
		b->done[i] = true;
	}
	b->emit(b->ctx, &s);
}

/* Name of a symbol as people write it; owned by the caller. */
static char *shown(const struct ws_symbol_hit *h)
{
	/* Which version of a library's interface it is, name@@VERSION, says nothing about the code.
	 */
	char *name = h->name ? ws_strndup(h->name, strcspn(h->name, "@")) : NULL,
	     *plain = name ? ws_demangle(name) : NULL, *stub;

	free(name);
	if (!plain || !h->plt)
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
	struct batch *b = ctx;

	for (size_t k = 0; k < n; k++) {
		bool last = k + 1 == n;
		const struct ws_symbol_hit *h = &b->hit[i];
		char *name = last && h->name ? shown(h)
			     : calls[k].name ? ws_demangle(calls[k].name)
					     : NULL;

		emit_one(b, i, (uint32_t)k, name, calls[k].file, calls[k].line,
			 !last	   ? 0
			 : h->name ? h->value
				   : calls[k].begin);
		free(name);
	}
}

static void emit_rest(struct batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		if (!b->done[i]) {
			char *name = shown(&b->hit[i]);

			emit_one(b, i, 0, name, NULL, 0, b->hit[i].name ? b->hit[i].value : 0);
			free(name);
		}
}

static bool has_dwarf(const struct ws_elf *elf)
{
	Elf64_Shdr s;

	return ws_elf_find(elf, ".debug_info", &s) >= 0 && s.sh_type != SHT_NOBITS;
}

static void symbolise_elf(struct batch *b)
{
	struct ws_module *m = b->wanted[0].module;
	struct ws_elf separate = {0}, shared = {0};
	struct ws_dwarf_missing missing = {0};
	bool has_separate;

	if (!m->opened && m->kind == WS_MODULE_FILE)
		ws_debugfile_module(m, b->opts->dirs, b->opts->dirs_n);
	has_separate = (!m->opened || !has_dwarf(&m->elf)) && m->kind == WS_MODULE_FILE &&
		       ws_debugfile_open(m, b->opts->dirs, b->opts->dirs_n, &separate);
	if (!m->opened && !has_separate) {
		b->result->changed += (m->flags & WS_MODULE_CHANGED) != 0;
		b->result->missing += !(m->flags & WS_MODULE_CHANGED);
		emit_rest(b);
		return;
	}
	if (has_separate)
		ws_symtab_find(&separate, b->address, b->n, b->hit);
	if (m->opened)
		ws_symtab_find(&m->elf, b->address, b->n, b->hit);
	if (b->opts->lines && (has_separate ? has_dwarf(&separate) : has_dwarf(&m->elf)) &&
	    m->kind == WS_MODULE_FILE) {
		const struct ws_elf *elf =
			has_separate && has_dwarf(&separate) ? &separate : &m->elf;
		bool has_shared = ws_debugfile_shared(elf, b->opts->dirs, b->opts->dirs_n, &shared);

		free(m->split_file);
		ws_dwarf_find(elf, has_shared ? &shared : NULL, b->address, b->n, found_dwarf, b,
			      &missing, NULL);
		m->split_file = missing.file;
		m->split_units = missing.units;
		b->result->split += missing.units;
	}
	emit_rest(b);
	ws_elf_close(&separate);
	ws_elf_close(&shared);
}

/* ---- the kernel ---- */

static void found_kernel(void *ctx, size_t i, const char *name, uint64_t begin)
{
	emit_one(ctx, i, 0, name, NULL, 0, begin);
}

static void symbolise_kernel(struct batch *b)
{
	if (b->opts->kernel)
		ws_kallsyms_find(b->address, b->n, found_kernel, b);
	emit_rest(b);
}

/* ---- generated code ---- */

static void read_jit(struct batch *b, struct ws_jit *j)
{
	const struct ws_module *m = b->wanted[0].module;
	const struct ws_symbol_opts *o = b->opts;
	int pid = m->pid;
	char *path;

	for (size_t i = 0; i <= o->dirs_n; i++) {
		bool system = i == o->dirs_n;

		path = system ? ws_format("/tmp/perf-%d.map", pid)
			      : ws_format("%s/perf-%d.map", o->dirs[i], pid);
		ws_jit_read_file(j, path, system ? o->since_s : 0, system ? o->until_s : 0, NULL);
		free(path);
		if (!system) {
			path = ws_format("%s/jit-%d.dump", o->dirs[i], pid);
			ws_jit_read_file(j, path, 0, 0, NULL);
			free(path);
		}
	}
	if (m->dump)
		ws_jit_read_file(j, m->dump, o->since_s, o->until_s, NULL);
	ws_jit_sort(j);
}

static void symbolise_jit(struct batch *b)
{
	struct ws_jit j = {0};

	read_jit(b, &j);
	for (size_t i = 0; i < b->n; i++) {
		const char *file = "", *name;
		uint64_t begin = 0;
		uint32_t line = 0;
		char *plain;

		name = ws_jit_find(&j, b->address[i], &begin, &file, &line);
		plain = name ? ws_demangle(name) : NULL;
		emit_one(b, i, 0, plain, file, line, begin);
		free(plain);
	}
	ws_jit_free(&j);
}

/* ---- all ---- */

static void symbolise_module(struct batch *b)
{
	struct ws_module *m = b->wanted[0].module;

	b->address = ws_malloc(b->n * sizeof(*b->address));
	b->hit = ws_calloc(b->n, sizeof(*b->hit));
	b->done = ws_calloc(b->n, sizeof(*b->done));
	for (size_t i = 0; i < b->n; i++)
		b->address[i] = b->wanted[i].address;
	b->result->modules++;
	if (m && (m->kind == WS_MODULE_FILE || m->kind == WS_MODULE_VDSO))
		symbolise_elf(b);
	else if (m && m->kind == WS_MODULE_KERNEL)
		symbolise_kernel(b);
	else if (m && m->kind == WS_MODULE_JIT)
		symbolise_jit(b);
	else
		emit_rest(b);
	free(b->address);
	free(b->hit);
	free(b->done);
}

static double processor_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void ws_symbolise(struct ws_wanted *wanted, size_t n, const struct ws_symbol_opts *opts,
		  void (*emit)(void *ctx, const struct ws_symbol *s),
		  void (*progress)(void *ctx, uint64_t done, uint64_t all), void *ctx,
		  struct ws_symbol_result *result)
{
	double began = processor_time();

	if (n)
		qsort(wanted, n, sizeof(*wanted), by_module);
	result->frames += n;
	for (size_t i = 0, end; i < n; i = end) {
		struct batch b = {.wanted = wanted + i,
				  .opts = opts,
				  .emit = emit,
				  .ctx = ctx,
				  .result = result};

		for (end = i; end < n && wanted[end].module == wanted[i].module; end++)
			;
		b.n = end - i;
		if (opts->budget_s > 0 && processor_time() - began > opts->budget_s) {
			result->skipped += b.n;
			continue;
		}
		symbolise_module(&b);
		if (progress)
			progress(ctx, end, n);
	}
}
