/* formats.h - one function for each format; the one for JSON traces is in trace.h. Each returns 0,
 * or -1 with a message in importer->problem. */
#ifndef WS_IMPORT_FORMATS_H
#define WS_IMPORT_FORMATS_H

#include "import/importer.h"
#include "text/input.h"

int ws_import_sqlite(struct ws_importer *importer, const char *path);
int ws_import_perfetto(struct ws_importer *importer, struct ws_input *source);
int ws_import_perf_script(struct ws_importer *importer, struct ws_input *source);
int ws_import_ncu_csv(struct ws_importer *importer, struct ws_input *source);
/*
 * Export a .nsys-rep with an installed nsys to a temporary SQLite file. *out gets its path, which
 * the caller frees after deleting the file and its folder. Both are registered with base/cleanup.h;
 * the caller forgets `litter` when they are gone.
 */
int ws_export_nsys_rep(struct ws_importer *importer, const char *path, char **out, int litter[2]);

/* Make a temporary folder; the caller removes it and frees its path. NULL with errno set. */
char *ws_make_import_folder(void);

#endif
