/*
 * symtab.h - function names from the symbol tables of ELF files, for a batch of addresses at once.
 *
 * The tables are read once, and each symbol is looked up among the wanted addresses: nothing is
 * sorted or kept, however large the file. An address between two functions gets no name; a symbol
 * without a size (assembly) extends to the next symbol.
 */
#ifndef WS_SYMBOLS_SYMTAB_H
#define WS_SYMBOLS_SYMTAB_H

#include "symbols/elf.h"

struct ws_symbol_hit {
	const char *name; /* mangled; in the mapped file; NULL: none found */
	uint64_t value;	  /* where the function begins */
	bool plt;	  /* the stub that leads to `name`, not the function */
	uint8_t rank;	  /* private to symtab.c */
};

/*
 * Fill hit[i] for each of the `n` sorted addresses for which the file has a better symbol than is
 * there already. Reads .symtab, or .dynsym where that is missing; PLT entries are named after what
 * they jump to. Returns whether the file has a .symtab.
 */
bool ws_symtab_find(const struct ws_elf *elf, const uint64_t *address, size_t n,
		    struct ws_symbol_hit *hit);

/* One symbol table of a 64-bit file, for callers that look at symbols one by one. */
struct ws_symbol_table {
	const uint8_t *symbols, *texts;
	uint64_t count, texts_size;
};
/* The dynamic table, or the whole one; false where the file has none. */
bool ws_symtab_open(const struct ws_elf *elf, bool dynamic, struct ws_symbol_table *table);
/* Symbol `i` and its name; NULL for one that the file only refers to. */
const char *ws_symtab_get(const struct ws_symbol_table *table, uint64_t i, Elf64_Sym *symbol);
/* The address, as the file counts, of what it exports as `name`; 0 when it does not. */
uint64_t ws_symtab_find_exported(const struct ws_elf *elf, const char *name);

#endif
