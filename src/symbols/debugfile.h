/*
 * debugfile.h - the file that holds a module's symbols and debugging information: found by build id
 * or .gnu_debuglink, and used only if it certainly belongs to the module.
 */
#ifndef WS_SYMBOLS_DEBUGFILE_H
#define WS_SYMBOLS_DEBUGFILE_H

#include "symbols/module.h"

/*
 * Look for a separate debug file of a module in `dirs` (those given with --symbols: .build-id below
 * them, or the file by name), beside the module and under /usr/lib/debug. True when one was found:
 * *out is open then, and the caller closes it.
 */
bool ws_debugfile_open(const struct ws_module *module, const char *const *dirs, size_t dir_count,
		       struct ws_elf *out);
/* Look for the module's own file in `dirs`, by build id, if it is no longer at its path, and open
 * module->elf. */
bool ws_debugfile_open_module(struct ws_module *module, const char *const *dirs, size_t dir_count);
/* Open the shared debugging information that dwz split off (.gnu_debugaltlink of `elf`). */
bool ws_debugfile_open_shared(const struct ws_elf *elf, const char *const *dirs, size_t dir_count,
			      struct ws_elf *out);

#endif
