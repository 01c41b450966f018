/*
 * import.h - other tools' traces, read as reports.
 *
 * The format is recognised by the file's content, never by its name: SQLite exports of Nsight
 * Systems (and our own), JSON traces of the PyTorch profiler and of Chrome, plain or gzip,
 * Perfetto's protobuf traces, the text of `perf script`, and of `ncu --csv --page raw`. A .nsys-rep
 * is first exported to SQLite by an installed `nsys`.
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
	WS_FORMAT_NCU_CSV,
};

/* What the file is, from its first bytes. A file that cannot be read or has no known format is
 * WS_FORMAT_UNKNOWN, with a message in *err. */
enum ws_import_format ws_import_format(const char *path, struct ws_err *err);

struct ws_import_request {
	const char *const *files;
	size_t count;
	const char *output; /* path of the report */
	bool overwrite;
	bool quiet;    /* print nothing about what was left out */
	bool progress; /* show the progress on standard error, where that is a terminal */
};

/*
 * Write one report from all the files of a request; several files are the ranks of one run. The
 * report appears under its name once it is complete; after a failure nothing is left behind. *rows
 * (may be NULL) gets the number of rows. Returns 0, or -1 with a message in *err.
 */
int ws_import_files(const struct ws_import_request *request, unsigned long long *rows,
		    struct ws_err *err);

/*
 * Open a file of any of these formats as if it were a report: it is imported into the user's
 * cache, or taken from there if it was imported before. For ws_open_foreign_trace. The caller owns
 * the report. Returns NULL with a message in *err.
 */
struct ws_report *ws_import_open(const char *path, struct ws_err *err);
extern bool ws_import_anew;  /* import again even if the cache holds the report */
extern bool ws_import_quiet; /* print nothing about what was left out; the report holds it */

#endif
