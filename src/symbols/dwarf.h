/*
 * dwarf.h - source lines and inlined functions from DWARF, for a batch of addresses, through libdw.
 */
#ifndef WS_SYMBOLS_DWARF_H
#define WS_SYMBOLS_DWARF_H

#include "symbols/elf.h"

/* One of the functions at an address. */
struct ws_dwarf_call {
	const char *name; /* mangled where the language mangles; may be NULL */
	const char *file; /* of the address, or of the inlined call in it; may be NULL */
	uint32_t line;
	uint64_t begin; /* address of a function that is not inlined; 0: not known */
	bool inlined;
};

/* What is missing in compilation units: those that were read without their larger part, which
 * -gsplit-dwarf put into a file that is not there: lines are known, inlined calls are not. */
struct ws_dwarf_missing {
	uint64_t units;
	char *file; /* the .dwo file of the first, as the compiler named it; the caller frees it.
		       NULL: none is missing */
	/* Wanted addresses in code that was compiled without optimisation (optimised.h), and in
	 * other code. */
	uint64_t unoptimised, optimised;
};

/* What to look up, and the function that receives the results. */
struct ws_dwarf_query {
	const struct ws_elf *shared; /* the part of the information that dwz split off; or NULL */
	const uint64_t *address;     /* sorted */
	size_t count;
	/* Called, in no particular order, for each address that is covered, with
	 * calls[0..call_count-1] from the innermost inlined function outwards; texts are valid
	 * during the call. Where only a line is known, call_count is 1 and the name NULL. */
	void (*found)(void *ctx, size_t i, const struct ws_dwarf_call *calls, size_t call_count);
	void *ctx;
};

/*
 * Look addresses up in the debugging information of `elf`, which must be from a file. Memory stays
 * bounded by what single compilation units need. The parts that -gsplit-dwarf put into .dwo files
 * are read from where the compiler left them; `missing` (may be NULL) gets those that are not
 * there. Returns 0, or -1 with a message when there is nothing to read.
 */
int ws_dwarf_find(const struct ws_elf *elf, const struct ws_dwarf_query *query,
		  struct ws_dwarf_missing *missing, struct ws_err *err);

#endif
