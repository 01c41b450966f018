/* symtab.c - see symtab.h. */
#include "symbols/symtab.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"

struct lookup_batch {
	const struct ws_elf *elf;
	const uint64_t *addresses;
	size_t count;
	struct ws_symbol_hit *hits;
	/* By the first address at or above a symbol: the highest symbol that begins there. */
	uint64_t *top;
	const char **top_name;
	bool *top_sized, *top_there;
	uint8_t *code; /* by section: it holds code */
};

/* How good a name is for an address when several of the same start cover it: functions come before
 * labels, global symbols before weak and local ones. */
static uint8_t rank_symbol(const Elf64_Sym *symbol)
{
	uint8_t type = ELF64_ST_TYPE(symbol->st_info), bind = ELF64_ST_BIND(symbol->st_info);

	uint8_t rank = 1;

	if (type == STT_FUNC || type == STT_GNU_IFUNC)
		rank = 4;
	if (bind == STB_GLOBAL)
		rank += 2;
	else if (bind == STB_WEAK)
		rank += 1;
	return rank;
}

/* Of two names of equal rank the one with fewer underscores before it: fork, not __libc_fork. */
static bool is_better(uint8_t rank, const char *name, const struct ws_symbol_hit *than)
{
	if (rank != than->rank)
		return rank > than->rank;
	return strspn(name, "_") < strspn(than->name, "_");
}

/* Give a symbol to the wanted addresses that it covers, where it is the best so far. */
static void offer_symbol(struct lookup_batch *batch, const Elf64_Sym *symbol, const char *name)
{
	size_t i = ws_lower_bound(batch->addresses, batch->count, symbol->st_value);
	uint8_t rank = rank_symbol(symbol);

	if (i == batch->count)
		return;
	if (!batch->top_there[i] || symbol->st_value > batch->top[i] ||
	    (symbol->st_value == batch->top[i] && symbol->st_size)) {
		batch->top_there[i] = true;
		batch->top[i] = symbol->st_value;
		batch->top_name[i] = name;
		batch->top_sized[i] = symbol->st_size != 0;
	}
	for (; i < batch->count && batch->addresses[i] - symbol->st_value < symbol->st_size; i++) {
		struct ws_symbol_hit *hit = &batch->hits[i];

		if (!hit->name || symbol->st_value > hit->value ||
		    (symbol->st_value == hit->value && is_better(rank, name, hit)))
			*hit = (struct ws_symbol_hit){name, symbol->st_value, false, rank};
	}
}

static bool get_symbol(const struct ws_elf *elf, const uint8_t *bytes, uint64_t i,
		       Elf64_Sym *symbol)
{
	Elf32_Sym narrow;

	if (elf->wide) {
		memcpy(symbol, bytes + i * sizeof(*symbol), sizeof(*symbol));
	} else {
		memcpy(&narrow, bytes + i * sizeof(narrow), sizeof(narrow));
		*symbol = (Elf64_Sym){narrow.st_name,  narrow.st_info,	narrow.st_other,
				      narrow.st_shndx, narrow.st_value, narrow.st_size};
	}
	return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS && symbol->st_value;
}

static void scan_table(struct lookup_batch *batch, const Elf64_Shdr *table)
{
	uint64_t each = batch->elf->wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
	const uint8_t *bytes = ws_elf_get_bytes(batch->elf, table);
	Elf64_Shdr names;

	if (!bytes || !ws_elf_get_section(batch->elf, table->sh_link, &names) ||
	    !ws_elf_get_bytes(batch->elf, &names))
		return;
	for (uint64_t i = 1; i < table->sh_size / each; i++) {
		Elf64_Sym symbol;
		uint8_t type;
		const char *name;

		if (!get_symbol(batch->elf, bytes, i, &symbol) ||
		    (symbol.st_shndx < SHN_LORESERVE &&
		     (symbol.st_shndx >= batch->elf->sections || !batch->code[symbol.st_shndx])))
			continue;
		type = ELF64_ST_TYPE(symbol.st_info);
		if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
			continue;
		name = ws_elf_get_text(batch->elf, names.sh_offset, names.sh_size, symbol.st_name);
		/* $x and $d mark code and data on aarch64, not functions. */
		if (*name && !(*name == '$' && type == STT_NOTYPE))
			offer_symbol(batch, &symbol, name);
	}
}

/* Symbols without a size, where nothing else covers the address. */
static void name_sizeless(struct lookup_batch *batch)
{
	uint64_t top = 0;
	const char *name = NULL;
	bool sized = false;

	for (size_t i = 0; i < batch->count; i++) {
		if (batch->top_there[i]) {
			top = batch->top[i];
			name = batch->top_name[i];
			sized = batch->top_sized[i];
		}
		if (!batch->hits[i].name && name && !sized && batch->addresses[i] - top < 0x10000)
			batch->hits[i] = (struct ws_symbol_hit){name, top, false, 0};
	}
}

/* ---- PLT ---- */

/* The slot of the global offset table that the PLT entry with these bytes jumps through; 0 when it
 * is no such entry. */
static uint64_t find_jump_slot(const struct ws_elf *elf, const uint8_t *bytes, uint64_t address)
{
	if (elf->machine == EM_X86_64) {
		for (unsigned i = 0; i + 6 <= 16; i++) {
			int32_t by;

			if (bytes[i] != 0xff || bytes[i + 1] != 0x25)
				continue;
			memcpy(&by, bytes + i + 2, 4);
			return address + i + 6 + (uint64_t)(int64_t)by;
		}
	} else if (elf->machine == EM_AARCH64) {
		uint32_t adrp, ldr;
		uint64_t page;

		memcpy(&adrp, bytes, 4);
		memcpy(&ldr, bytes + 4, 4);
		if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
			return 0;
		page = (uint64_t)(adrp >> 5 & 0x7ffff) << 14 | (uint64_t)(adrp >> 29 & 3) << 12;
		if (page >> 32 & 1)
			page |= UINT64_C(0xfffffffe00000000);
		return (address & ~UINT64_C(0xfff)) + page + (ldr >> 10 & 0xfff) * 8;
	}
	return 0;
}

/* The name of the symbol whose address relocations put into `slot`. */
static const char *find_relocated_name(const struct ws_elf *elf, uint64_t slot)
{
	Elf64_Shdr rel, syms, names;

	for (uint32_t i = 1; i < elf->sections && ws_elf_get_section(elf, i, &rel); i++) {
		const uint8_t *bytes = NULL;

		if (rel.sh_type == SHT_RELA)
			bytes = ws_elf_get_bytes(elf, &rel);
		if (!bytes || !ws_elf_get_section(elf, rel.sh_link, &syms) ||
		    syms.sh_type != SHT_DYNSYM || !ws_elf_get_bytes(elf, &syms) ||
		    !ws_elf_get_section(elf, syms.sh_link, &names))
			continue;
		for (uint64_t k = 0; k < rel.sh_size / sizeof(Elf64_Rela); k++) {
			Elf64_Rela entry;
			Elf64_Sym symbol;
			uint64_t number;

			memcpy(&entry, bytes + k * sizeof(entry), sizeof(entry));
			number = ELF64_R_SYM(entry.r_info);
			if (entry.r_offset != slot || number >= syms.sh_size / sizeof(symbol))
				continue;
			memcpy(&symbol, ws_elf_get_bytes(elf, &syms) + number * sizeof(symbol),
			       sizeof(symbol));
			return ws_elf_get_text(elf, names.sh_offset, names.sh_size, symbol.st_name);
		}
	}
	return "";
}

static void name_plt_entries(struct lookup_batch *batch, const Elf64_Shdr *section)
{
	const uint8_t *bytes = ws_elf_get_bytes(batch->elf, section);

	for (size_t i = ws_lower_bound(batch->addresses, batch->count, section->sh_addr);
	     bytes && i < batch->count && batch->addresses[i] - section->sh_addr < section->sh_size;
	     i++) {
		uint64_t at = (batch->addresses[i] - section->sh_addr) & ~UINT64_C(15), slot;
		const char *name = "";

		if (batch->hits[i].name || section->sh_size - at < 16)
			continue;
		slot = find_jump_slot(batch->elf, bytes + at, section->sh_addr + at);
		if (slot)
			name = find_relocated_name(batch->elf, slot);
		if (*name)
			batch->hits[i] =
				(struct ws_symbol_hit){name, section->sh_addr + at, true, 0};
	}
}

bool ws_symtab_find(const struct ws_elf *elf, const uint64_t *address, size_t n,
		    struct ws_symbol_hit *hit)
{
	struct lookup_batch batch = {.elf = elf, .addresses = address, .count = n, .hits = hit};
	bool full = false;
	Elf64_Shdr section;

	if (!n)
		return false;
	batch.code = ws_calloc((size_t)elf->sections + 1, 1);
	for (uint32_t i = 1; i < elf->sections && ws_elf_get_section(elf, i, &section); i++)
		batch.code[i] = (section.sh_flags & SHF_EXECINSTR) != 0;
	batch.top = ws_calloc(n, sizeof(*batch.top));
	batch.top_name = ws_calloc(n, sizeof(*batch.top_name));
	batch.top_sized = ws_calloc(n, sizeof(*batch.top_sized));
	batch.top_there = ws_calloc(n, sizeof(*batch.top_there));
	for (uint32_t i = 1; i < elf->sections && ws_elf_get_section(elf, i, &section); i++)
		if (section.sh_type == SHT_SYMTAB) {
			full = full || ws_elf_get_bytes(elf, &section);
			scan_table(&batch, &section);
		}
	for (uint32_t i = 1; !full && i < elf->sections && ws_elf_get_section(elf, i, &section);
	     i++)
		if (section.sh_type == SHT_DYNSYM)
			scan_table(&batch, &section);
	if (elf->wide)
		for (uint32_t i = 1; i < elf->sections && ws_elf_get_section(elf, i, &section); i++)
			if (!strncmp(ws_elf_get_section_name(elf, &section), ".plt", 4) &&
			    section.sh_type == SHT_PROGBITS)
				name_plt_entries(&batch, &section);
	name_sizeless(&batch);
	free(batch.code);
	free(batch.top);
	free(batch.top_name);
	free(batch.top_sized);
	free(batch.top_there);
	return full;
}

/* ---- one by one ---- */

bool ws_symtab_open(const struct ws_elf *elf, bool dynamic, struct ws_symbol_table *table)
{
	Elf64_Shdr section, text_section;

	if (!elf->wide || ws_elf_find_section(elf, dynamic ? ".dynsym" : ".symtab", &section) < 0 ||
	    ws_elf_find_section(elf, dynamic ? ".dynstr" : ".strtab", &text_section) < 0)
		return false;
	table->symbols = ws_elf_get_bytes(elf, &section);
	table->texts = ws_elf_get_bytes(elf, &text_section);
	table->count = section.sh_size / sizeof(Elf64_Sym);
	table->texts_size = text_section.sh_size;
	return table->symbols && table->texts;
}

const char *ws_symtab_get(const struct ws_symbol_table *table, uint64_t i, Elf64_Sym *symbol)
{
	const char *name;

	memcpy(symbol, table->symbols + i * sizeof(*symbol), sizeof(*symbol));
	if (symbol->st_shndx == SHN_UNDEF || symbol->st_name >= table->texts_size)
		return NULL;
	name = (const char *)table->texts + symbol->st_name;
	return memchr(name, 0, table->texts_size - symbol->st_name) ? name : NULL;
}

uint64_t ws_symtab_find_exported(const struct ws_elf *elf, const char *name)
{
	struct ws_symbol_table table;
	uint64_t found = 0;

	if (!ws_symtab_open(elf, true, &table))
		return 0;
	for (uint64_t i = 0; i < table.count && !found; i++) {
		Elf64_Sym symbol;
		const char *candidate = ws_symtab_get(&table, i, &symbol);

		if (candidate && !strcmp(candidate, name))
			found = symbol.st_value;
	}
	return found;
}
