/* symbol_dirs.h - the folders of --symbols, for the two commands that have it. */
#ifndef WS_CLI_SYMBOL_DIRS_H
#define WS_CLI_SYMBOL_DIRS_H

#include "cli/cli.h"

/* Split what was given to `option` at `separator` and append it to *out, whose texts and array the
 * caller frees. -1 with a message when one of them is not a folder. */
int ws_split_symbol_dirs(const struct ws_list *given, const char *option, const char *separator,
			 struct ws_list *out, struct ws_err *err);

#endif
