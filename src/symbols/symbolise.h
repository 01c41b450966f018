/*
 * symbolise.h - names, source lines and inlined functions for the places in code that a report
 * holds.
 *
 * Works in batches, module by module: only what the wanted addresses need is read, and a module's
 * debugging information is let go before the next one's is looked at. What cannot be named for
 * certain gets no name.
 */
#ifndef WS_SYMBOLS_SYMBOLISE_H
#define WS_SYMBOLS_SYMBOLISE_H

#include "symbols/module.h"

struct ws_symbol_opts {
	const char *const *dirs; /* --symbols */
	size_t dirs_n;
	bool lines;  /* read debugging information: source lines and inlined functions */
	bool kernel; /* /proc/kallsyms is of the kernel that was recorded */
	uint64_t since_s, until_s; /* CLOCK_REALTIME seconds between which perf maps of generated
				      code must have been written; 0: any */
	double budget_s; /* processor time after which no further module is begun; 0: none */
};

struct ws_wanted { /* one frame */
	struct ws_module *module;
	uint64_t address;
	uint32_t frame;
	uint8_t kind; /* enum ws_frame_kind */
};

struct ws_symbol {
	uint32_t frame, depth; /* depth 0: the innermost inlined function; the last one is the
				  function itself */
	const char *name;      /* as it is to be shown; NULL: not found */
	const char *file;      /* or NULL */
	uint32_t line;
	uint64_t address; /* where the function begins; 0: not known */
};

struct ws_symbol_result {
	uint64_t frames, named; /* asked for, and given a name */
	uint64_t skipped;	/* not looked at: the budget was spent */
	uint64_t split; /* compilation units whose part in a file of its own (-gsplit-dwarf) was not
			   there: without inlined functions */
	uint64_t modules, missing,
		changed; /* files: looked at, not there, not the ones that were recorded */
};

/*
 * Symbolise `wanted` (sorted by this function). `emit` is called for each frame's symbols in the
 * order of depth, frame after frame; its texts live for the call. `progress`, if not NULL, now and
 * then with frames done. Adds to *result.
 */
void ws_symbolise(struct ws_wanted *wanted, size_t n, const struct ws_symbol_opts *opts,
		  void (*emit)(void *ctx, const struct ws_symbol *symbol),
		  void (*progress)(void *ctx, uint64_t done, uint64_t all), void *ctx,
		  struct ws_symbol_result *result);

#endif
