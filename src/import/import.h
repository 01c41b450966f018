/*
 * import.h - other tools' traces as reports.
 *
 * Formats, told by content and never by name: SQLite exports of Nsight Systems (and our own), JSON
 * traces of the PyTorch profiler and of Chrome, plain or gzip, Perfetto's protobuf traces, the text
 * of `perf script`. A .nsys-rep is exported by an installed `nsys` first.
 */
#ifndef WS_IMPORT_IMPORT_H
#define WS_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct ws_report;

enum ws_import_format {
	WS_FORMAT_UNKNOWN,
	WS_FORMAT_REPORT, /* ours */
	WS_FORMAT_SQLITE,
	WS_FORMAT_JSON,
	WS_FORMAT_PERFETTO,
	WS_FORMAT_PERF_SCRIPT,
	WS_FORMAT_NSYS_REP,
};

/* What the file is, from its first bytes. A file that cannot be read is WS_FORMAT_UNKNOWN with a
 * message in *e. */
enum ws_import_format ws_import_format(const char *path, struct ws_err *err);

struct ws_import_request {
	const char *const *files;
	size_t count;
	const char *output;
	bool overwrite;
	bool quiet;    /* no lines about what was left out */
	bool progress; /* on standard error */
};

/*
 * Write one report of all files; several are ranks of one run. The report appears under its name
 * once it is whole; on failure nothing is left. *rows (may be NULL) gets the number of rows.
 * Returns 0, or -1 with a message.
 */
int ws_import(const struct ws_import_request *request, unsigned long long *rows,
	      struct ws_err *err);

/*
 * Open a file of any of these formats as if it were a report: imported into a cache of the user's,
 * or taken from there when it was before. For ws_report_foreign. NULL with a message.
 */
struct ws_report *ws_import_open(const char *path, struct ws_err *err);
extern bool ws_import_anew;  /* import again what the cache has */
extern bool ws_import_quiet; /* no lines about what was left out; the report has them */

#endif
