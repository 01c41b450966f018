/* formats.h - the functions that formats.def names. */
#ifndef WS_EXPORT_FORMATS_H
#define WS_EXPORT_FORMATS_H

#include "export/export.h"

#define WS_TABLES(id, name, extension, takes, flags, summary)                    \
	struct ws_xwriter *ws_xformat_open_##id(const struct ws_xtarget *target, \
						struct ws_err *err);
#define WS_TIMELINE(id, name, extension, takes, flags, summary) \
	int ws_xformat_write_##id(struct ws_export *export, FILE *file, struct ws_err *err);
#define WS_AND
#include "export/formats.def"
#undef WS_TABLES
#undef WS_TIMELINE
#undef WS_AND

#endif
