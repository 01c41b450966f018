/*
 * symbolise.h - names, source lines and inlined functions for the code addresses of a report.
 *
 * Works in batches, module by module: only what the wanted addresses need is read, and a module's
 * debugging information is released before the next one's is read. What cannot be named with
 * certainty gets no name.
 */
#ifndef WS_SYMBOLS_SYMBOLISE_H
#define WS_SYMBOLS_SYMBOLISE_H

#include "symbols/module.h"

struct ws_symbol_opts {
	const char *const *dirs; /* --symbols */
	size_t dir_count;
	bool lines;  /* read debugging information: source lines and inlined functions */
	bool kernel; /* /proc/kallsyms is that of the recorded kernel */
	uint64_t since_s, until_s; /* CLOCK_REALTIME seconds between which perf maps must have been
				      written last; 0: any */
	double budget_s; /* processor time, in seconds, after which no further module is read; 0: no
			    limit */
	/* Names functions of the kernel as ws_kallsyms_find does, with `naming_kernel`. NULL, or
	 * where it returns false: /proc/kallsyms is read. */
	bool (*name_kernel)(void *naming_kernel, const uint64_t *address, size_t n,
			    void (*found)(void *ctx, size_t i, const char *name, uint64_t begin),
			    void *ctx);
	void *naming_kernel;
	/* A perf map of a process (its number as seen from here) whose code has no names in files,
	 * with `getting_jit_map`; it returns NULL for none. NULL: there are none. */
	const char *(*get_jit_map)(void *getting_jit_map, int pid);
	void *getting_jit_map;
};

/* A frame to symbolise. */
struct ws_wanted {
	struct ws_module *module;
	uint64_t address;
	uint32_t frame;
	uint8_t kind; /* enum ws_frame_kind */
};

struct ws_symbol {
	uint32_t frame,
		depth; /* 0 is the innermost inlined function, the last one the function itself */
	const char *name; /* demangled, as it is shown; NULL: not found */
	const char *file; /* or NULL */
	uint32_t line;
	uint64_t address; /* where the function begins; 0: not known */
};

struct ws_symbol_result {
	uint64_t frames, named; /* wanted, and named */
	uint64_t skipped;	/* frames not looked up, since the budget was spent */
	/* Compilation units whose part in another file (-gsplit-dwarf) is missing, so that inlined
	 * functions are not known. */
	uint64_t split;
	uint64_t unread; /* modules whose debugging information was not read to its end */
	double apart_s;	 /* processor time of the processes that read debugging information */
	/* Modules looked up; files that are missing, or are not those that were recorded. */
	uint64_t modules, missing, changed;
};

struct ws_symbol_receiver {
	/* Called for the symbols of each frame in the order of depth; their texts are valid during
	 * the call. */
	void (*emit)(void *ctx, const struct ws_symbol *symbol);
	/* Called now and then with the number of frames done; or NULL. */
	void (*progress)(void *ctx, uint64_t done, uint64_t all);
	void *ctx;
};

/* Symbolise `n` frames, which are sorted by this function. Adds to *result. */
void ws_symbolise(struct ws_wanted *wanted, size_t n, const struct ws_symbol_opts *opts,
		  const struct ws_symbol_receiver *receiver, struct ws_symbol_result *result);

#endif
