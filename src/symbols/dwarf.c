/*
 * dwarf.c - see dwarf.h.
 *
 * Units are gone through by their headers and the ranges of their first entry; only those that hold
 * a wanted address are opened further, and of those only the functions that do. The mapping is
 * given back to the kernel (MADV_DONTNEED) as the walk goes on: file pages that were touched would
 * otherwise count as ours.
 */
#include "symbols/dwarf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "base/sort.h"
#include "symbols/lines.h"

#if WS_HAVE_DW
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <libelf.h>

#define DEEPEST 48 /* inlined calls inside each other */
#define GIVE_BACK \
	(UINT64_C(16) << 20) /* bytes of .debug_info between which touched pages are let go */
#define MOST_KEPT                                                                                 \
	(UINT64_C(8) << 20) /* bytes of units looked into after which libdw begins anew: it frees \
			       nothing before its end */
#define SPLIT_KEPT (UINT64_C(1) << 20) /* about what a unit of a file of its own takes */
#define MOST_UNPACKED \
	(UINT64_C(1) << 30) /* compressed sections are unpacked into memory: no more than this */
#define MOST_NESTING 200

struct chain {
	Dwarf_Die die[DEEPEST];
	unsigned n; /* outermost first */
};

struct search {
	const struct ws_elf *elf;
	const uint64_t *address;
	size_t n;
	bool *seen;
	/* The unit at hand. What -gsplit-dwarf leaves in the file is a skeleton, which has ranges
	 * and lines; the rest is in `unit`.
	 */
	Dwarf_Die unit, skeleton;
	bool split;
	size_t *index; /* of the wanted addresses in it, sorted */
	size_t index_n, index_cap;
	struct chain *chain;
	size_t chain_cap;
	bool types; /* look inside types too */
	struct ws_lines_sections sections;
	struct ws_lines lines; /* of the unit */
	struct ws_line *line;  /* by place in `index` */
	size_t line_cap;
	bool own_lines;	       /* they could be read */
	struct ws_text *paths; /* of the calls being reported */
	struct ws_dwarf_missing *missing;
	void (*found)(void *ctx, size_t i, const struct ws_dwarf_call *calls, size_t calls_n);
	void *ctx;
};

static int by_value(const void *first, const void *second)
{
	size_t x = *(const size_t *)first, y = *(const size_t *)second;

	return ws_compare(x, y);
}

/* Collect the wanted addresses that the unit's ranges cover. */
static void unit_addresses(struct search *search)
{
	Dwarf_Addr base, from, to;
	ptrdiff_t at = 0;
	size_t n = 0;

	search->index_n = 0;
	while ((at = dwarf_ranges(&search->skeleton, at, &base, &from, &to)) > 0)
		for (size_t i = ws_lower_bound(search->address, search->n, from);
		     i < search->n && search->address[i] < to; i++)
			if (!search->seen[i]) {
				ws_grow(search->index, search->index_cap, search->index_n + 1);
				search->index[search->index_n++] = i;
			}
	if (!search->index_n)
		return;
	qsort(search->index, search->index_n, sizeof(*search->index), by_value);
	for (size_t i = 0; i < search->index_n; i++)
		if (!n || search->index[i] != search->index[n - 1])
			search->index[n++] = search->index[i];
	search->index_n = n;
}

/* Put `die` on the chains of the addresses it covers; whether there are any. */
static bool cover(struct search *search, Dwarf_Die *die, bool keep)
{
	Dwarf_Addr base, from, to;
	bool any = false, inlined = dwarf_tag(die) == DW_TAG_inlined_subroutine;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &from, &to)) > 0) {
		size_t low =
			ws_bisect(search->index_n, mid, search->address[search->index[mid]] < from);

		for (; low < search->index_n && search->address[search->index[low]] < to; low++) {
			struct chain *chain = &search->chain[low];

			any = true;
			if (keep && !inlined)
				chain->n = 0; /* other names of the same code, or a function
					     around this one: which does not call it */
			if (keep && chain->n < DEEPEST)
				chain->die[chain->n++] = *die;
		}
	}
	return any;
}

static void visit(struct search *search, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Die die;

	if (depth > MOST_NESTING || dwarf_child(parent, &die))
		return;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
		case DW_TAG_inlined_subroutine:
			if (cover(search, &die, true))
				visit(search, &die, depth + 1);
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
		case DW_TAG_entry_point:
			if (cover(search, &die, false))
				visit(search, &die, depth + 1);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
			visit(search, &die, depth + 1);
			break;
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
		case DW_TAG_enumeration_type:
			if (search->types)
				visit(search, &die, depth + 1);
			break;
		default:
			break;
		}
	} while (!dwarf_siblingof(&die, &die));
}

/* ---- what was found ---- */

static const char *name_of(Dwarf_Die *die)
{
	Dwarf_Attribute a;
	const char *name = NULL;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &a) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &a) ||
	    dwarf_attr_integrate(die, DW_AT_name, &a))
		name = dwarf_formstring(&a);
	return name;
}

/* Of a name and a folder in the line table: relative ones stand in the folder where the compiler
 * ran. */
static const char *full_path(struct search *search, const struct ws_lines_file *file,
			     struct ws_text *into)
{
	Dwarf_Attribute a;
	const char *ran_in =
		dwarf_attr(&search->skeleton, DW_AT_comp_dir, &a) ? dwarf_formstring(&a) : NULL;

	if (!file || !*file->name)
		return NULL;
	into->len = 0;
	if (*file->name != '/' && *file->folder) {
		if (*file->folder != '/' && ran_in)
			ws_text_printf(into, "%s/", ran_in);
		ws_text_printf(into, "%s/", file->folder);
	} else if (*file->name != '/' && ran_in) {
		ws_text_printf(into, "%s/", ran_in);
	}
	ws_text_puts(into, file->name);
	return into->text;
}

static void call_place(struct search *search, Dwarf_Die *die, Dwarf_Files *files,
		       struct ws_dwarf_call *out, struct ws_text *into)
{
	Dwarf_Attribute a;
	Dwarf_Word v;

	if (dwarf_attr(die, DW_AT_call_file, &a) && !dwarf_formudata(&a, &v)) {
		if (search->own_lines &&
		    !search->split) /* split units number their files by a table of their own */
			out->file = full_path(search, ws_lines_file(&search->lines, v), into);
		else if (files)
			out->file = dwarf_filesrc(files, v, NULL, NULL);
	}
	if (dwarf_attr(die, DW_AT_call_line, &a) && !dwarf_formudata(&a, &v) && v <= UINT32_MAX)
		out->line = (uint32_t)v;
}

/* Where the address itself stands. */
static bool own_place(struct search *search, size_t k, struct ws_dwarf_call *out)
{
	Dwarf_Line *line;
	int number = 0;

	if (search->own_lines) {
		if (!search->line[k].found)
			return false;
		out->line = search->line[k].line;
		out->file = full_path(search, ws_lines_file(&search->lines, search->line[k].file),
				      &search->paths[0]);
		return true;
	}
	line = dwarf_getsrc_die(&search->skeleton, search->address[search->index[k]]);
	if (!line)
		return false;
	out->file = dwarf_linesrc(line, NULL, NULL);
	if (!dwarf_lineno(line, &number) && number > 0)
		out->line = (uint32_t)number;
	return true;
}

static void report(struct search *search, size_t k, Dwarf_Files *files)
{
	struct chain *chain = &search->chain[k];
	struct ws_dwarf_call call[DEEPEST] = {{0}};
	Dwarf_Addr begin;

	/* Innermost first; the place in each is where the one inside it was called. */
	for (unsigned i = 0; i < chain->n; i++) {
		Dwarf_Die *die = &chain->die[chain->n - 1 - i];

		call[i].name = name_of(die);
		call[i].inlined = dwarf_tag(die) == DW_TAG_inlined_subroutine;
		if (!call[i].inlined && !dwarf_entrypc(die, &begin))
			call[i].begin = begin;
		if (i)
			call_place(search, &chain->die[chain->n - i], files, &call[i],
				   &search->paths[i]);
	}
	if (own_place(search, k, &call[0]) || chain->n) {
		search->seen[search->index[k]] = chain->n != 0;
		search->found(search->ctx, search->index[k], call, chain->n ? chain->n : 1);
	}
}

/* The unit's line table: read by ourselves where we know its version, else by libdw. */
static void read_lines(struct search *search)
{
	Dwarf_Attribute a;
	Dwarf_Word offset;

	search->own_lines = dwarf_attr(&search->skeleton, DW_AT_stmt_list, &a) &&
			    !dwarf_formudata(&a, &offset) &&
			    ws_lines_open(&search->lines, &search->sections, offset);
	if (!search->own_lines)
		return;
	ws_grow(search->line, search->line_cap, search->index_n);
	ws_lines_find(&search->lines, search->address, search->index, search->index_n,
		      search->line);
}

static bool complete(const struct search *search)
{
	for (size_t k = 0; k < search->index_n; k++)
		if (!search->chain[k].n)
			return false;
	return true;
}

static void search_unit(struct search *search)
{
	Dwarf_Files *files = NULL;
	size_t files_n;

	ws_grow(search->chain, search->chain_cap, search->index_n);
	for (size_t k = 0; k < search->index_n; k++)
		search->chain[k].n = 0;
	search->types = false;
	visit(search, &search->unit, 0);
	if (!complete(search)) { /* some languages put functions inside types: once more, at more
				      cost */
		for (size_t k = 0; k < search->index_n; k++)
			search->chain[k].n = 0;
		search->types = true;
		visit(search, &search->unit, 0);
	}
	read_lines(search);
	if ((!search->own_lines || search->split) &&
	    dwarf_getsrcfiles(&search->unit, &files, &files_n))
		files = NULL;
	for (size_t k = 0; k < search->index_n; k++)
		report(search, k, files);
	ws_lines_free(&search->lines);
}

/*
 * libelf notes in the section headers that it has unpacked a section: for as long as it works on
 * the mapping, their pages are writable, as private copies, and not given back.
 */
static void header_pages(const struct ws_elf *elf, uintptr_t *from, uintptr_t *to)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1, base = (uintptr_t)elf->data;
	uint64_t bytes =
		(uint64_t)elf->sections * (elf->wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr));

	*from = *to = base;
	if (!elf->sections || elf->shoff > elf->size || bytes > elf->size - elf->shoff)
		return;
	*from = (base + elf->shoff) & ~page;
	*to = (base + elf->shoff + bytes + page) & ~page;
}

static void give_back(const struct ws_elf *elf, bool headers)
{
	uintptr_t from, to, page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1,
			    end = ((uintptr_t)elf->data + elf->size + page) & ~page;

	if (!elf->mapped)
		return;
	header_pages(elf, &from, &to);
	if (from > (uintptr_t)elf->data)
		madvise((void *)(uintptr_t)elf->data, from - (uintptr_t)elf->data, MADV_DONTNEED);
	if (to < end)
		madvise((void *)to, end - to, MADV_DONTNEED);
	if (headers && to > from) {
		madvise((void *)from, to - from, MADV_DONTNEED);
		mprotect((void *)from, to - from, PROT_READ);
	}
}

/* The name of the file with the skeleton's other part; NULL when the unit is whole. */
static const char *split_file(Dwarf_Die *skeleton)
{
	Dwarf_Attribute a;

	if (!dwarf_attr(skeleton, DW_AT_dwo_name, &a) &&
	    !dwarf_attr(skeleton, DW_AT_GNU_dwo_name, &a))
		return NULL;
	return dwarf_formstring(&a);
}

/* Set the unit of the skeleton: its other part, where libdw finds that (it opens the file only
 * now), else itself. */
static void join_split(struct search *search, bool skeleton)
{
	Dwarf_Die other = {0};
	const char *file;

	search->unit = search->skeleton;
	search->split =
		skeleton &&
		!dwarf_cu_info(search->skeleton.cu, NULL, NULL, NULL, &other, NULL, NULL, NULL) &&
		dwarf_tag(&other) != DW_TAG_invalid;
	if (search->split)
		search->unit = other;
	file = skeleton && !search->split && search->missing ? split_file(&search->skeleton) : NULL;
	if (!file)
		return;
	search->missing->units++;
	if (!search->missing->file)
		search->missing->file = ws_strdup(file);
}

/* Look into units from `*at` on, until the end or until libdw has kept enough of what it read.
 * Whether there is more. */
static bool search_some(struct search *search, Dwarf *dw, Dwarf_Off *at)
{
	uint64_t looked_into = 0, passed = 0;
	Dwarf_Off next;
	Dwarf_Half version;
	size_t header;

	for (; looked_into < MOST_KEPT; *at = next) {
		uint8_t type = DW_UT_compile;

		if (dwarf_next_unit(dw, *at, &next, &header, &version, NULL, NULL, NULL, NULL,
				    NULL) ||
		    next <= *at)
			return false;
		if (!dwarf_offdie(dw, *at + header, &search->skeleton))
			continue;
		if (dwarf_cu_info(search->skeleton.cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) ||
		    type == DW_UT_type || type == DW_UT_split_type)
			continue;
		unit_addresses(search);
		if (search->index_n) {
			join_split(search, type == DW_UT_skeleton);
			search_unit(search);
			looked_into += search->split ? SPLIT_KEPT : next - *at;
		}
		passed += next - *at;
		if (passed > GIVE_BACK || search->index_n) {
			give_back(search->elf, false);
			passed = 0;
		}
	}
	return true;
}

/* Bytes that compressed debugging sections take when unpacked. */
static uint64_t unpacked(const struct ws_elf *elf)
{
	uint64_t sum = 0;
	Elf64_Shdr section;

	for (uint32_t i = 1; i < elf->sections && ws_elf_section(elf, i, &section); i++) {
		Elf64_Chdr h;
		const uint8_t *bytes = (section.sh_flags & SHF_COMPRESSED) && elf->wide
					       ? ws_elf_bytes(elf, &section)
					       : NULL;

		if (bytes && section.sh_size >= sizeof(h) &&
		    !strncmp(ws_elf_section_name(elf, &section), ".debug", 6)) {
			memcpy(&h, bytes, sizeof(h));
			sum = h.ch_size < UINT64_MAX - sum ? sum + h.ch_size : UINT64_MAX;
		}
	}
	return sum;
}

static Dwarf *begin(const struct ws_elf *elf, Elf **handle, struct ws_err *err)
{
	uintptr_t from, to;
	Dwarf *dw = NULL;

	elf_version(EV_CURRENT);
	*handle = NULL;
	header_pages(elf, &from, &to);
	if (!elf->mapped ||
	    (to > from && mprotect((void *)from, to - from, PROT_READ | PROT_WRITE))) {
		ws_fail(err, "its debugging information cannot be mapped");
		return NULL;
	}
	if (unpacked(elf) > MOST_UNPACKED) {
		ws_fail(err, "its compressed debugging information would take %.1f GiB of memory",
			(double)unpacked(elf) / (1u << 30));
		return NULL;
	}
	*handle = elf_memory((char *)(uintptr_t)elf->data, elf->size);
	if (*handle)
		dw = dwarf_begin_elf(*handle, DWARF_C_READ, NULL);
	if (!dw)
		ws_fail(err, "it has no debugging information that can be read");
	return dw;
}

static void end(Dwarf *dw, Elf *handle, const struct ws_elf *elf)
{
	if (dw)
		dwarf_end(dw);
	if (handle)
		elf_end(handle);
	give_back(elf, true);
}

/* Sections as libdw has unpacked them. */
static void find_sections(struct search *search, Elf *handle)
{
	struct {
		const char *name;
		const uint8_t **p;
		uint64_t *n;
	} wanted[] = {{".debug_line", &search->sections.line, &search->sections.line_n},
		      {".debug_line_str", &search->sections.line_str, &search->sections.line_str_n},
		      {".debug_str", &search->sections.str, &search->sections.str_n}};
	Elf_Scn *scn = NULL;
	size_t names;

	memset(&search->sections, 0, sizeof(search->sections));
	if (elf_getshdrstrndx(handle, &names))
		return;
	while ((scn = elf_nextscn(handle, scn))) {
		GElf_Shdr h;
		const char *name = gelf_getshdr(scn, &h) && h.sh_type != SHT_NOBITS
					   ? elf_strptr(handle, names, h.sh_name)
					   : NULL;

		for (size_t i = 0; name && i < WS_COUNT(wanted); i++) {
			Elf_Data *d = strcmp(name, wanted[i].name) || (h.sh_flags & SHF_COMPRESSED)
					      ? NULL
					      : elf_rawdata(scn, NULL);

			if (d && d->d_buf) {
				*wanted[i].p = d->d_buf;
				*wanted[i].n = d->d_size;
			}
		}
	}
}

int ws_dwarf_find(const struct ws_elf *elf, const struct ws_elf *shared, const uint64_t *address,
		  size_t n,
		  void (*found)(void *ctx, size_t i, const struct ws_dwarf_call *calls,
				size_t calls_n),
		  void *ctx, struct ws_dwarf_missing *missing, struct ws_err *err)
{
	struct ws_text paths[DEEPEST] = {{0}};
	struct search search = {.elf = elf,
				.address = address,
				.n = n,
				.found = found,
				.ctx = ctx,
				.paths = paths,
				.missing = missing};
	Dwarf_Off at = 0;
	bool more = true, any = false;

	search.seen = ws_calloc(n ? n : 1, sizeof(*search.seen));
	while (more) {
		Elf *handle, *alt_handle = NULL;
		Dwarf *dw = begin(elf, &handle, err),
		      *alt = dw && shared ? begin(shared, &alt_handle, NULL) : NULL;

		if (alt)
			dwarf_setalt(dw, alt);
		if (dw)
			find_sections(&search, handle);
		more = dw && search_some(&search, dw, &at);
		any |= dw != NULL;
		end(dw, handle, elf);
		if (shared && dw)
			end(alt, alt_handle, shared);
	}
	free(search.seen);
	free(search.index);
	free(search.chain);
	free(search.line);
	for (unsigned i = 0; i < DEEPEST; i++)
		ws_text_free(&paths[i]);
	return any ? 0 : -1;
}
#else
int ws_dwarf_find(const struct ws_elf *elf, const struct ws_elf *shared, const uint64_t *address,
		  size_t n,
		  void (*found)(void *ctx, size_t i, const struct ws_dwarf_call *calls,
				size_t calls_n),
		  void *ctx, struct ws_dwarf_missing *missing, struct ws_err *e)
{
	(void)elf, (void)shared, (void)address, (void)n, (void)found, (void)ctx, (void)missing;
	return ws_fail(e, "this warpsight was built without libdw");
}
#endif
