/* formats.c - formats.def as a table. */
#include "export/formats.h"

#include <string.h>

#define WS_TABLES(id, name, extension, takes, flags, summary)                     \
	{                                                                         \
		name, extension, summary, takes, flags, ws_open_format_##id, NULL \
	}
#define WS_TIMELINE(id, name, extension, takes, flags, summary)                    \
	{                                                                          \
		name, extension, summary, takes, flags, NULL, ws_write_format_##id \
	}
#define WS_AND ,

static const struct ws_export_format export_formats[] = {
#include "export/formats.def"
};

const struct ws_export_format *ws_find_export_format(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(export_formats); i++)
		if (!strcmp(export_formats[i].name, name))
			return &export_formats[i];
	return NULL;
}
