/* symtab.c - see symtab.h. */
#include "symbols/symtab.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"

struct batch {
	const struct ws_elf *elf;
	const uint64_t *address;
	size_t n;
	struct ws_symbol_hit *hit;
	/* By the first address at or above a symbol: the highest symbol that begins there. */
	uint64_t *top;
	const char **top_name;
	bool *top_sized, *top_there;
	uint8_t *code; /* by section: it holds code */
};

/* How good a name is for a place, when several cover it: a later start first, then functions before
 * labels, global before local. */
static uint8_t rank_of(const Elf64_Sym *s)
{
	uint8_t type = ELF64_ST_TYPE(s->st_info), bind = ELF64_ST_BIND(s->st_info);

	return (uint8_t)((type == STT_FUNC || type == STT_GNU_IFUNC ? 4 : 1) +
			 (bind == STB_GLOBAL ? 2
			  : bind == STB_WEAK ? 1
					     : 0));
}

/* Of two names of equal rank the one with fewer underscores before it: fork, not __libc_fork. */
static bool better(uint8_t rank, const char *name, const struct ws_symbol_hit *than)
{
	return rank != than->rank ? rank > than->rank : strspn(name, "_") < strspn(than->name, "_");
}

static void take_symbol(struct batch *b, const Elf64_Sym *s, const char *name)
{
	size_t i = ws_lower_bound(b->address, b->n, s->st_value);
	uint8_t rank = rank_of(s);

	if (i == b->n)
		return;
	if (!b->top_there[i] || s->st_value > b->top[i] ||
	    (s->st_value == b->top[i] && s->st_size)) {
		b->top_there[i] = true;
		b->top[i] = s->st_value;
		b->top_name[i] = name;
		b->top_sized[i] = s->st_size != 0;
	}
	for (; i < b->n && b->address[i] - s->st_value < s->st_size; i++) {
		struct ws_symbol_hit *h = &b->hit[i];

		if (!h->name || s->st_value > h->value ||
		    (s->st_value == h->value && better(rank, name, h)))
			*h = (struct ws_symbol_hit){name, s->st_value, false, rank};
	}
}

static bool get_symbol(const struct ws_elf *elf, const uint8_t *p, uint64_t i, Elf64_Sym *s)
{
	Elf32_Sym narrow;

	if (elf->wide) {
		memcpy(s, p + i * sizeof(*s), sizeof(*s));
	} else {
		memcpy(&narrow, p + i * sizeof(narrow), sizeof(narrow));
		*s = (Elf64_Sym){narrow.st_name,  narrow.st_info,  narrow.st_other,
				 narrow.st_shndx, narrow.st_value, narrow.st_size};
	}
	return s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_ABS && s->st_value;
}

static void scan_table(struct batch *b, const Elf64_Shdr *table)
{
	uint64_t each = b->elf->wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
	const uint8_t *p = ws_elf_bytes(b->elf, table);
	Elf64_Shdr names;

	if (!p || !ws_elf_section(b->elf, table->sh_link, &names) || !ws_elf_bytes(b->elf, &names))
		return;
	for (uint64_t i = 1; i < table->sh_size / each; i++) {
		Elf64_Sym s;
		uint8_t type;
		const char *name;

		if (!get_symbol(b->elf, p, i, &s) ||
		    (s.st_shndx < SHN_LORESERVE &&
		     (s.st_shndx >= b->elf->sections || !b->code[s.st_shndx])))
			continue;
		type = ELF64_ST_TYPE(s.st_info);
		if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
			continue;
		name = ws_elf_text(b->elf, names.sh_offset, names.sh_size, s.st_name);
		if (*name &&
		    !(*name == '$' && type == STT_NOTYPE)) /* $x and $d of aarch64 mark code and
							      data, not functions */
			take_symbol(b, &s, name);
	}
}

/* Symbols without a size, where nothing else covers the address. */
static void take_sizeless(struct batch *b)
{
	uint64_t top = 0;
	const char *name = NULL;
	bool sized = false;

	for (size_t i = 0; i < b->n; i++) {
		if (b->top_there[i]) {
			top = b->top[i];
			name = b->top_name[i];
			sized = b->top_sized[i];
		}
		if (!b->hit[i].name && name && !sized && b->address[i] - top < 0x10000)
			b->hit[i] = (struct ws_symbol_hit){name, top, false, 0};
	}
}

/* ---- PLT ---- */

/* The slot of the global offset table that the entry at `p` jumps through; 0 when it is no such
 * entry. */
static uint64_t jump_slot(const struct ws_elf *elf, const uint8_t *p, uint64_t address)
{
	if (elf->machine == EM_X86_64) {
		for (unsigned i = 0; i + 6 <= 16; i++) {
			int32_t by;

			if (p[i] != 0xff || p[i + 1] != 0x25)
				continue;
			memcpy(&by, p + i + 2, 4);
			return address + i + 6 + (uint64_t)(int64_t)by;
		}
	} else if (elf->machine == EM_AARCH64) {
		uint32_t adrp, ldr;
		uint64_t page;

		memcpy(&adrp, p, 4);
		memcpy(&ldr, p + 4, 4);
		if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
			return 0;
		page = (uint64_t)(adrp >> 5 & 0x7ffff) << 14 | (uint64_t)(adrp >> 29 & 3) << 12;
		if (page >> 32 & 1)
			page |= UINT64_C(0xfffffffe00000000);
		return (address & ~UINT64_C(0xfff)) + page + (ldr >> 10 & 0xfff) * 8;
	}
	return 0;
}

/* The name of the symbol that relocations put into `slot`. */
static const char *relocated(const struct ws_elf *elf, uint64_t slot)
{
	Elf64_Shdr rel, syms, names;

	for (uint32_t i = 1; i < elf->sections && ws_elf_section(elf, i, &rel); i++) {
		const uint8_t *p = rel.sh_type == SHT_RELA ? ws_elf_bytes(elf, &rel) : NULL;

		if (!p || !ws_elf_section(elf, rel.sh_link, &syms) || syms.sh_type != SHT_DYNSYM ||
		    !ws_elf_bytes(elf, &syms) || !ws_elf_section(elf, syms.sh_link, &names))
			continue;
		for (uint64_t k = 0; k < rel.sh_size / sizeof(Elf64_Rela); k++) {
			Elf64_Rela r;
			Elf64_Sym s;

			memcpy(&r, p + k * sizeof(r), sizeof(r));
			if (r.r_offset != slot || ELF64_R_SYM(r.r_info) >= syms.sh_size / sizeof(s))
				continue;
			memcpy(&s, ws_elf_bytes(elf, &syms) + ELF64_R_SYM(r.r_info) * sizeof(s),
			       sizeof(s));
			return ws_elf_text(elf, names.sh_offset, names.sh_size, s.st_name);
		}
	}
	return "";
}

static void name_plt(struct batch *b, const Elf64_Shdr *s)
{
	const uint8_t *p = ws_elf_bytes(b->elf, s);

	for (size_t i = ws_lower_bound(b->address, b->n, s->sh_addr);
	     p && i < b->n && b->address[i] - s->sh_addr < s->sh_size; i++) {
		uint64_t at = (b->address[i] - s->sh_addr) & ~UINT64_C(15), slot;
		const char *name;

		if (b->hit[i].name || s->sh_size - at < 16)
			continue;
		slot = jump_slot(b->elf, p + at, s->sh_addr + at);
		name = slot ? relocated(b->elf, slot) : "";
		if (*name)
			b->hit[i] = (struct ws_symbol_hit){name, s->sh_addr + at, true, 0};
	}
}

bool ws_symtab_find(const struct ws_elf *elf, const uint64_t *address, size_t n,
		    struct ws_symbol_hit *hit)
{
	struct batch b = {.elf = elf, .address = address, .n = n, .hit = hit};
	bool full = false;
	Elf64_Shdr s;

	if (!n)
		return false;
	b.code = ws_calloc((size_t)elf->sections + 1, 1);
	for (uint32_t i = 1; i < elf->sections && ws_elf_section(elf, i, &s); i++)
		b.code[i] = (s.sh_flags & SHF_EXECINSTR) != 0;
	b.top = ws_calloc(n, sizeof(*b.top));
	b.top_name = ws_calloc(n, sizeof(*b.top_name));
	b.top_sized = ws_calloc(n, sizeof(*b.top_sized));
	b.top_there = ws_calloc(n, sizeof(*b.top_there));
	for (uint32_t i = 1; i < elf->sections && ws_elf_section(elf, i, &s); i++)
		if (s.sh_type == SHT_SYMTAB) {
			full = full || ws_elf_bytes(elf, &s);
			scan_table(&b, &s);
		}
	for (uint32_t i = 1; !full && i < elf->sections && ws_elf_section(elf, i, &s); i++)
		if (s.sh_type == SHT_DYNSYM)
			scan_table(&b, &s);
	if (elf->wide)
		for (uint32_t i = 1; i < elf->sections && ws_elf_section(elf, i, &s); i++)
			if (!strncmp(ws_elf_section_name(elf, &s), ".plt", 4) &&
			    s.sh_type == SHT_PROGBITS)
				name_plt(&b, &s);
	take_sizeless(&b);
	free(b.code);
	free(b.top);
	free(b.top_name);
	free(b.top_sized);
	free(b.top_there);
	return full;
}
