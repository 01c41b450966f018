/*
 * dwarf.c - see dwarf.h.
 *
 * Units are selected by their headers and the ranges of their first entry. Only those that hold a
 * wanted address are read further, and of those only the functions that hold one. Pages of the
 * mapping are released to the kernel (MADV_DONTNEED) on the way: file pages that were touched would
 * otherwise count as our memory.
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

#include "symbols/optimised.h"

#define DEEPEST 48 /* nested inlined calls */
/* Bytes of .debug_info after which touched pages are released. */
#define GIVE_BACK (UINT64_C(16) << 20)
/* Bytes of units that were read after which libdw is started again: it frees nothing before. */
#define MOST_KEPT (UINT64_C(8) << 20)
#define SPLIT_KEPT (UINT64_C(1) << 20) /* about what a unit with a file of its own takes */
/* Bytes that compressed sections may take in memory. */
#define MOST_UNPACKED (UINT64_C(1) << 30)
#define MOST_NESTING 200

struct die_chain {
	Dwarf_Die die[DEEPEST];
	unsigned count; /* outermost first */
};

struct dwarf_search {
	const struct ws_elf *elf;
	const uint64_t *address;
	size_t count;
	bool *seen;
	/* The current unit. What -gsplit-dwarf leaves in the file is a skeleton with ranges and
	 * lines; the rest is in `unit`. */
	Dwarf_Die unit, skeleton;
	bool split;
	size_t *indexes; /* of the wanted addresses in the unit, sorted */
	size_t index_count, index_capacity;
	struct die_chain *chains;
	size_t chain_capacity;
	bool types; /* search inside types too */
	struct ws_lines_sections sections;
	struct ws_lines lines;	     /* of the unit */
	struct ws_line *found_lines; /* by place in `index` */
	size_t line_capacity;
	bool own_lines;	       /* `lines` could be read */
	struct ws_text *paths; /* of the calls being reported */
	struct ws_dwarf_missing *missing;
	void (*found)(void *ctx, size_t i, const struct ws_dwarf_call *calls, size_t call_count);
	void *ctx;
};

static int compare_indexes(const void *first, const void *second)
{
	size_t left = *(const size_t *)first, right = *(const size_t *)second;

	return ws_compare(left, right);
}

/* Collect the wanted addresses that the unit's ranges cover. */
static void collect_unit_addresses(struct dwarf_search *search)
{
	Dwarf_Addr base, from, to;
	ptrdiff_t at = 0;
	size_t unique = 0;

	search->index_count = 0;
	while ((at = dwarf_ranges(&search->skeleton, at, &base, &from, &to)) > 0)
		for (size_t i = ws_lower_bound(search->address, search->count, from);
		     i < search->count && search->address[i] < to; i++)
			if (!search->seen[i]) {
				ws_grow(search->indexes, search->index_capacity,
					search->index_count + 1);
				search->indexes[search->index_count++] = i;
			}
	if (!search->index_count)
		return;
	qsort(search->indexes, search->index_count, sizeof(*search->indexes), compare_indexes);
	for (size_t i = 0; i < search->index_count; i++)
		if (!unique || search->indexes[i] != search->indexes[unique - 1])
			search->indexes[unique++] = search->indexes[i];
	search->index_count = unique;
}

/* Add `die` to the chains of the addresses it covers if it is to be kept; true if there are any. */
static bool add_to_chains(struct dwarf_search *search, Dwarf_Die *die, bool keep)
{
	Dwarf_Addr base, from, to;
	bool any = false, inlined = dwarf_tag(die) == DW_TAG_inlined_subroutine;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &from, &to)) > 0) {
		size_t low = ws_bisect(search->index_count, mid,
				       search->address[search->indexes[mid]] < from);

		for (; low < search->index_count && search->address[search->indexes[low]] < to;
		     low++) {
			struct die_chain *chain = &search->chains[low];

			any = true;
			/* It replaces other names of the same code, and a function around this one,
			 * which does not call it. */
			if (keep && !inlined)
				chain->count = 0;
			if (keep && chain->count < DEEPEST)
				chain->die[chain->count++] = *die;
		}
	}
	return any;
}

static void visit_children(struct dwarf_search *search, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Die die;

	if (depth > MOST_NESTING || dwarf_child(parent, &die))
		return;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
		case DW_TAG_inlined_subroutine:
			if (add_to_chains(search, &die, true))
				visit_children(search, &die, depth + 1);
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
		case DW_TAG_entry_point:
			if (add_to_chains(search, &die, false))
				visit_children(search, &die, depth + 1);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
			visit_children(search, &die, depth + 1);
			break;
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
		case DW_TAG_enumeration_type:
			if (search->types)
				visit_children(search, &die, depth + 1);
			break;
		default:
			break;
		}
	} while (!dwarf_siblingof(&die, &die));
}

/* ---- what was found ---- */

static const char *get_die_name(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	const char *name = NULL;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) ||
	    dwarf_attr_integrate(die, DW_AT_name, &attribute))
		name = dwarf_formstring(&attribute);
	return name;
}

/* The path of a file of the line table: relative ones are below the folder where the compiler ran.
 */
static const char *make_full_path(struct dwarf_search *search, const struct ws_lines_file *file,
				  struct ws_text *path)
{
	Dwarf_Attribute attribute;
	const char *ran_in = NULL;

	if (!file || !*file->name)
		return NULL;
	if (dwarf_attr(&search->skeleton, DW_AT_comp_dir, &attribute))
		ran_in = dwarf_formstring(&attribute);
	path->len = 0;
	if (*file->name != '/' && *file->folder) {
		if (*file->folder != '/' && ran_in)
			ws_text_printf(path, "%s/", ran_in);
		ws_text_printf(path, "%s/", file->folder);
	} else if (*file->name != '/' && ran_in) {
		ws_text_printf(path, "%s/", ran_in);
	}
	ws_text_puts(path, file->name);
	return path->text;
}

/* Set where an inlined function was called. */
static void set_call_place(struct dwarf_search *search, Dwarf_Die *die, Dwarf_Files *files,
			   struct ws_dwarf_call *out, struct ws_text *path)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (dwarf_attr(die, DW_AT_call_file, &attribute) && !dwarf_formudata(&attribute, &value)) {
		/* Split units number their files by a table of their own. */
		if (search->own_lines && !search->split)
			out->file = make_full_path(search, ws_lines_get_file(&search->lines, value),
						   path);
		else if (files)
			out->file = dwarf_filesrc(files, value, NULL, NULL);
	}
	if (dwarf_attr(die, DW_AT_call_line, &attribute) && !dwarf_formudata(&attribute, &value) &&
	    value <= UINT32_MAX)
		out->line = (uint32_t)value;
}

/* Set the file and line of address number `place` itself; false when they are not known. */
static bool set_own_place(struct dwarf_search *search, size_t place, struct ws_dwarf_call *out)
{
	Dwarf_Line *line;
	int number = 0;

	if (search->own_lines) {
		if (!search->found_lines[place].found)
			return false;
		out->line = search->found_lines[place].line;
		out->file = make_full_path(
			search, ws_lines_get_file(&search->lines, search->found_lines[place].file),
			&search->paths[0]);
		return true;
	}
	line = dwarf_getsrc_die(&search->skeleton, search->address[search->indexes[place]]);
	if (!line)
		return false;
	out->file = dwarf_linesrc(line, NULL, NULL);
	if (!dwarf_lineno(line, &number) && number > 0)
		out->line = (uint32_t)number;
	return true;
}

static void report_calls(struct dwarf_search *search, size_t k, Dwarf_Files *files)
{
	struct die_chain *chain = &search->chains[k];
	struct ws_dwarf_call call[DEEPEST] = {{0}};
	Dwarf_Addr begin;

	/* Innermost first; the place in each is where the one inside it was called. */
	for (unsigned i = 0; i < chain->count; i++) {
		Dwarf_Die *die = &chain->die[chain->count - 1 - i];

		call[i].name = get_die_name(die);
		call[i].inlined = dwarf_tag(die) == DW_TAG_inlined_subroutine;
		if (!call[i].inlined && !dwarf_entrypc(die, &begin))
			call[i].begin = begin;
		if (i)
			set_call_place(search, &chain->die[chain->count - i], files, &call[i],
				       &search->paths[i]);
	}
	if (set_own_place(search, k, &call[0]) || chain->count) {
		search->seen[search->indexes[k]] = chain->count != 0;
		search->found(search->ctx, search->indexes[k], call, ws_max(chain->count, 1));
	}
}

/* Read the unit's line table, where its version is one that we know; else libdw reads it. */
static void read_unit_lines(struct dwarf_search *search)
{
	Dwarf_Attribute attribute;
	Dwarf_Word offset;

	search->own_lines = dwarf_attr(&search->skeleton, DW_AT_stmt_list, &attribute) &&
			    !dwarf_formudata(&attribute, &offset) &&
			    ws_lines_open(&search->lines, &search->sections, offset);
	if (!search->own_lines)
		return;
	ws_grow(search->found_lines, search->line_capacity, search->index_count);
	ws_lines_find(&search->lines, search->address, search->indexes, search->index_count,
		      search->found_lines);
}

static bool is_complete(const struct dwarf_search *search)
{
	for (size_t place = 0; place < search->index_count; place++)
		if (!search->chains[place].count)
			return false;
	return true;
}

/* Count the places of the unit by whether their code was optimised; read in full, the unit says so
 * of each function. */
static void count_optimised(struct dwarf_search *search)
{
	enum ws_optimised unit = ws_judge_unit(&search->skeleton);

	if (unit == WS_OPTIMISED_UNKNOWN)
		unit = ws_judge_unit(&search->unit);
	for (size_t k = 0; k < search->index_count; k++) {
		enum ws_optimised judged = unit;

		if (unit == WS_OPTIMISED_UNKNOWN && search->chains[k].count)
			judged = ws_judge_function(&search->chains[k].die[0]);
		if (judged == WS_OPTIMISED_NO)
			search->missing->unoptimised++;
		else
			search->missing->optimised++;
	}
}

static void search_unit(struct dwarf_search *search)
{
	Dwarf_Files *files = NULL;
	size_t file_count;

	ws_grow(search->chains, search->chain_capacity, search->index_count);
	for (size_t k = 0; k < search->index_count; k++)
		search->chains[k].count = 0;
	search->types = false;
	visit_children(search, &search->unit, 0);
	/* Some languages put functions inside types: search them too, which costs more. */
	if (!is_complete(search)) {
		for (size_t k = 0; k < search->index_count; k++)
			search->chains[k].count = 0;
		search->types = true;
		visit_children(search, &search->unit, 0);
	}
	read_unit_lines(search);
	if ((!search->own_lines || search->split) &&
	    dwarf_getsrcfiles(&search->unit, &files, &file_count))
		files = NULL;
	for (size_t k = 0; k < search->index_count; k++)
		report_calls(search, k, files);
	if (search->missing)
		count_optimised(search);
	ws_lines_free(&search->lines);
}

/*
 * libelf notes in the section headers that it has unpacked a section. While it works on the
 * mapping, the pages of the headers are therefore writable, as private copies, and are not
 * released.
 */
static void find_header_pages(const struct ws_elf *elf, uintptr_t *from, uintptr_t *to)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1, base = (uintptr_t)elf->data;
	uint64_t bytes = elf->sections * ws_elf_get_header_size(elf);

	*from = *to = base;
	if (!elf->sections || elf->shoff > elf->size || bytes > elf->size - elf->shoff)
		return;
	*from = (base + elf->shoff) & ~page;
	*to = (base + elf->shoff + bytes + page) & ~page;
}

/* Release the pages of a mapping, also those of its section headers if `headers`. */
static void release_pages(const struct ws_elf *elf, bool headers)
{
	uintptr_t from, to, page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1,
			    end = ((uintptr_t)elf->data + elf->size + page) & ~page;

	if (!elf->mapped)
		return;
	find_header_pages(elf, &from, &to);
	if (from > (uintptr_t)elf->data)
		madvise((void *)(uintptr_t)elf->data, from - (uintptr_t)elf->data, MADV_DONTNEED);
	if (to < end)
		madvise((void *)to, end - to, MADV_DONTNEED);
	if (headers && to > from) {
		madvise((void *)from, to - from, MADV_DONTNEED);
		mprotect((void *)from, to - from, PROT_READ);
	}
}

/* The name of the file with the skeleton's other part; NULL when it has none. */
static const char *get_split_file(Dwarf_Die *skeleton)
{
	Dwarf_Attribute attribute;

	if (!dwarf_attr(skeleton, DW_AT_dwo_name, &attribute) &&
	    !dwarf_attr(skeleton, DW_AT_GNU_dwo_name, &attribute))
		return NULL;
	return dwarf_formstring(&attribute);
}

/* Set the unit of a skeleton: its other part if libdw finds that (it opens the file only now), else
 * itself. */
static void join_split_unit(struct dwarf_search *search, bool skeleton)
{
	Dwarf_Die other = {0};
	const char *file = NULL;

	search->unit = search->skeleton;
	search->split =
		skeleton &&
		!dwarf_cu_info(search->skeleton.cu, NULL, NULL, NULL, &other, NULL, NULL, NULL) &&
		dwarf_tag(&other) != DW_TAG_invalid;
	if (search->split)
		search->unit = other;
	if (skeleton && !search->split && search->missing)
		file = get_split_file(&search->skeleton);
	if (!file)
		return;
	search->missing->units++;
	if (!search->missing->file)
		search->missing->file = ws_strdup(file);
}

/* Search units from `*at` on, until the end or until libdw holds enough memory. True if there are
 * more. */
static bool search_units(struct dwarf_search *search, Dwarf *dw, Dwarf_Off *at)
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
		collect_unit_addresses(search);
		if (search->index_count) {
			join_split_unit(search, type == DW_UT_skeleton);
			search_unit(search);
			if (search->split)
				looked_into += SPLIT_KEPT;
			else
				looked_into += next - *at;
		}
		passed += next - *at;
		if (passed > GIVE_BACK || search->index_count) {
			release_pages(search->elf, false);
			passed = 0;
		}
	}
	return true;
}

/* Bytes that compressed debugging sections take when they are unpacked. */
static uint64_t sum_unpacked_sizes(const struct ws_elf *elf)
{
	uint64_t sum = 0;
	Elf64_Shdr section;

	for (uint32_t i = 1; i < elf->sections && ws_elf_get_section(elf, i, &section); i++) {
		Elf64_Chdr header;
		const uint8_t *bytes = NULL;

		if ((section.sh_flags & SHF_COMPRESSED) && elf->wide)
			bytes = ws_elf_get_bytes(elf, &section);
		if (bytes && section.sh_size >= sizeof(header) &&
		    !strncmp(ws_elf_get_section_name(elf, &section), ".debug", 6)) {
			memcpy(&header, bytes, sizeof(header));
			sum += ws_min(header.ch_size, UINT64_MAX - sum);
		}
	}
	return sum;
}

static Dwarf *open_debug_info(const struct ws_elf *elf, Elf **handle, struct ws_err *err)
{
	uintptr_t from, to;
	Dwarf *dw = NULL;

	elf_version(EV_CURRENT);
	*handle = NULL;
	find_header_pages(elf, &from, &to);
	if (!elf->mapped ||
	    (to > from && mprotect((void *)from, to - from, PROT_READ | PROT_WRITE))) {
		ws_fail(err, "its debugging information cannot be mapped");
		return NULL;
	}
	if (sum_unpacked_sizes(elf) > MOST_UNPACKED) {
		ws_fail(err, "its compressed debugging information would take %.1f GiB of memory",
			(double)sum_unpacked_sizes(elf) / (1u << 30));
		return NULL;
	}
	*handle = elf_memory((char *)(uintptr_t)elf->data, elf->size);
	if (*handle)
		dw = dwarf_begin_elf(*handle, DWARF_C_READ, NULL);
	if (dw) /* its own handler prints and exits */
		dwarf_new_oom_handler(dw, ws_give_up_for_memory);
	else
		ws_fail(err, "it has no debugging information that can be read");
	return dw;
}

static void close_debug_info(Dwarf *dw, Elf *handle, const struct ws_elf *elf)
{
	if (dw)
		dwarf_end(dw);
	if (handle)
		elf_end(handle);
	release_pages(elf, true);
}

/* Find the sections that line tables need, which libdw has unpacked. */
static void find_line_sections(struct dwarf_search *search, Elf *handle)
{
	struct {
		const char *name;
		const uint8_t **bytes;
		uint64_t *size;
	} wanted[] = {{".debug_line", &search->sections.line, &search->sections.line_size},
		      {".debug_line_str", &search->sections.line_str,
		       &search->sections.line_str_size},
		      {".debug_str", &search->sections.str, &search->sections.str_size}};
	Elf_Scn *scn = NULL;
	size_t names;

	memset(&search->sections, 0, sizeof(search->sections));
	if (elf_getshdrstrndx(handle, &names))
		return;
	while ((scn = elf_nextscn(handle, scn))) {
		GElf_Shdr header;
		const char *name = NULL;

		if (gelf_getshdr(scn, &header) && header.sh_type != SHT_NOBITS)
			name = elf_strptr(handle, names, header.sh_name);
		for (size_t i = 0; name && i < WS_COUNT(wanted); i++) {
			Elf_Data *data = NULL;

			if (!strcmp(name, wanted[i].name) && !(header.sh_flags & SHF_COMPRESSED))
				data = elf_rawdata(scn, NULL);
			if (data && data->d_buf) {
				*wanted[i].bytes = data->d_buf;
				*wanted[i].size = data->d_size;
			}
		}
	}
}

int ws_dwarf_find(const struct ws_elf *elf, const struct ws_dwarf_query *query,
		  struct ws_dwarf_missing *missing, struct ws_err *err)
{
	struct ws_text paths[DEEPEST] = {{0}};
	struct dwarf_search search = {.elf = elf,
				      .address = query->address,
				      .count = query->count,
				      .found = query->found,
				      .ctx = query->ctx,
				      .paths = paths,
				      .missing = missing};
	Dwarf_Off at = 0;
	bool more = true, any = false;

	search.seen = ws_calloc(ws_max(query->count, (size_t)1), sizeof(*search.seen));
	while (more) {
		Elf *handle, *alt_handle = NULL;
		Dwarf *dw = open_debug_info(elf, &handle, err), *alt = NULL;

		if (dw && query->shared)
			alt = open_debug_info(query->shared, &alt_handle, NULL);
		if (alt)
			dwarf_setalt(dw, alt);
		if (dw)
			find_line_sections(&search, handle);
		more = dw && search_units(&search, dw, &at);
		any |= dw != NULL;
		close_debug_info(dw, handle, elf);
		if (query->shared && dw)
			close_debug_info(alt, alt_handle, query->shared);
	}
	free(search.seen);
	free(search.indexes);
	free(search.chains);
	free(search.found_lines);
	for (unsigned i = 0; i < DEEPEST; i++)
		ws_text_free(&paths[i]);
	return any ? 0 : -1;
}
#else
int ws_dwarf_find(const struct ws_elf *elf, const struct ws_dwarf_query *query,
		  struct ws_dwarf_missing *missing, struct ws_err *err)
{
	(void)elf, (void)query, (void)missing;
	return ws_fail(err, "this warpsight was built without libdw");
}
#endif
