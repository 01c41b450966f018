/*
 * written.h - which variables with fixed addresses a short stretch of machine code writes to, read
 * from the program's file where that is on this machine and unchanged.
 *
 * Only variables that the code names by their addresses (relative to the instruction, x86-64) are
 * found, also where it keeps the address in a register: what several threads write to there is
 * certainly the same memory.
 */
#ifndef WS_ANALYZE_WRITTEN_H
#define WS_ANALYZE_WRITTEN_H

#include "base/mem.h"
#include "symbols/elf.h"

struct ws_written {
	uint64_t from, to; /* the instruction, without prefixes that were not recognised */
	uint64_t target;   /* the address that it writes to */
	bool atomic;
};

/* The writes in [from, to) of a file, at most `most`; returns how many. */
size_t ws_find_written(const struct ws_elf *elf, uint64_t from, uint64_t to, struct ws_written *out,
		       size_t most);
/* Append the name of the variable at an address, "counters+8"; false where the file has none. */
bool ws_put_variable(const struct ws_elf *elf, uint64_t address, struct ws_text *text);

#endif
