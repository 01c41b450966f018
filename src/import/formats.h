/* formats.h - one function a format; trace.h has its own. Each returns 0, or -1 with a message in
 * o->problem. */
#ifndef WS_IMPORT_FORMATS_H
#define WS_IMPORT_FORMATS_H

#include "import/into.h"
#include "text/source.h"

int ws_sqlite_import(struct ws_into *into, const char *path);
int ws_perfetto_import(struct ws_into *into, struct ws_source *source);
int ws_perf_script_import(struct ws_into *into, struct ws_source *source);
/*
 * Export a .nsys-rep to a temporary SQLite file (*out, to be deleted and freed by the caller) with
 * an installed nsys. The file and its folder are listed in base/cleanup.h; the caller forgets
 * `litter` when both are gone.
 */
int ws_nsys_export(struct ws_into *into, const char *path, char **out, int litter[2]);

#endif
