/* formats.h - the functions that formats.def names. */
#ifndef WS_EXPORT_FORMATS_H
#define WS_EXPORT_FORMATS_H

#include "export/export.h"

#define WS_TABLES(id, name, extension, takes, flags, summary)                              \
	struct ws_table_writer *ws_open_format_##id(const struct ws_export_target *target, \
						    struct ws_err *err);
#define WS_TIMELINE(id, name, extension, takes, flags, summary) \
	int ws_write_format_##id(struct ws_cell_context *export, FILE *file, struct ws_err *err);
#define WS_AND
#include "export/formats.def"
#undef WS_TABLES
#undef WS_TIMELINE
#undef WS_AND

#endif
