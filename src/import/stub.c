#include "import/formats.h"
int ws_sqlite_import(struct ws_into *o, const char *path) { return ws_into_stop(o, "%s no", path); }
int ws_perfetto_import(struct ws_into *o, struct ws_source *s) { (void)s; return ws_into_stop(o, "no"); }
int ws_perf_script_import(struct ws_into *o, struct ws_source *s) { (void)s; return ws_into_stop(o, "no"); }
int ws_nsys_export(struct ws_into *o, const char *path, char **out) { (void)out; return ws_into_stop(o, "%s no", path); }
