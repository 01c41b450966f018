/* tables.h - what the commands that print tables have in common: --wide and the names of formats.
 */
#ifndef WS_CLI_TABLES_H
#define WS_CLI_TABLES_H

#include "base/mem.h"
#include "print/table.h"

/* The entry of --wide in a table of options; its value is the bool `member`. */
#define WS_WIDE_OPTION(member)                                            \
	{                                                                 \
		"wide", 0, WS_OPT_FLAG, AT(member),                       \
			.help = "Write names in full, however wide the "  \
				"table: on a terminal it is made to fit " \
				"otherwise, elsewhere names are cut at "  \
				"100 characters."                         \
	}

/* Append the names of formats, for completion. */
static inline void ws_add_format_names(struct ws_text *out)
{
	for (const struct ws_format *format = ws_formats; format->name; format++) {
		if (format != ws_formats)
			ws_text_puts(out, " ");
		ws_text_puts(out, format->name);
	}
}

#endif
