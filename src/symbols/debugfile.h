/*
 * debugfile.h - the file that holds a module's symbols and debugging information: found by build id
 * or .gnu_debuglink, and taken only when it belongs to the module for certain.
 */
#ifndef WS_SYMBOLS_DEBUGFILE_H
#define WS_SYMBOLS_DEBUGFILE_H

#include "symbols/module.h"

/*
 * Look for a separate debug file of `m` in `dirs` (each as given with --symbols: .build-id below
 * it, or the file by name), beside the module and under /usr/lib/debug. True with *out open when
 * one was found.
 */
bool ws_debugfile_open(const struct ws_module *module, const char *const *dirs, size_t dirs_n,
		       struct ws_elf *out);
/* The file itself in `dirs`, when it is not where it was: by build id. */
bool ws_debugfile_module(struct ws_module *module, const char *const *dirs, size_t dirs_n);
/* The shared part of debugging information that dwz split off (.gnu_debugaltlink of `elf`). */
bool ws_debugfile_shared(const struct ws_elf *elf, const char *const *dirs, size_t dirs_n,
			 struct ws_elf *out);

#endif
