/*
 * dwarf.h - source lines and inlined functions from DWARF, for a batch of addresses, through libdw.
 */
#ifndef WS_SYMBOLS_DWARF_H
#define WS_SYMBOLS_DWARF_H

#include "symbols/elf.h"

struct ws_dwarf_call {	  /* one function at an address, from the innermost inlined one outwards */
	const char *name; /* mangled where the language mangles; may be NULL */
	const char *file; /* where in it: the place itself, or the inlined call; may be NULL */
	uint32_t line;
	uint64_t begin; /* of a function that is not inlined; 0: not known */
	bool inlined;
};

/* Compilation units that were looked into and whose larger part (-gsplit-dwarf) could not be had:
 * lines are known, inlined calls not. */
struct ws_dwarf_missing {
	uint64_t units;
	char *file; /* the .dwo file of the first, as the compiler named it; owned by the caller.
		       NULL: none is missing */
};

/*
 * Look up addresses[0..n-1] (sorted) in the debugging information of `elf`, and in `shared`, what
 * dwz split off it (or NULL). `found` gets each address that any was found for, in no order, with
 * calls[0..calls_n-1]; texts live for the call. With only a line known, calls_n is 1 and its name
 * NULL. `elf` must be from a file. Memory stays bounded by what single compilation units need. The
 * parts that -gsplit-dwarf put into .dwo files are read where the compiler left them; `missing`
 * (may be NULL) gets those that are not there. 0, or -1 with a sentence when there is nothing to
 * read.
 */
int ws_dwarf_find(const struct ws_elf *elf, const struct ws_elf *shared, const uint64_t *address,
		  size_t n,
		  void (*found)(void *ctx, size_t i, const struct ws_dwarf_call *calls,
				size_t calls_n),
		  void *ctx, struct ws_dwarf_missing *missing, struct ws_err *err);

#endif
