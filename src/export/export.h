/*
 * export.h - writing a report in formats that other programs read.
 *
 * There are two kinds of formats. Table formats (sqlite.c, jsonlines.c, arrow.c...) write the
 * SQL-shaped tables that view.h declares, with the names and columns that people already query:
 * each is a struct ws_table_writer and knows nothing of reports. The others read the report
 * themselves: time lines (chrome.c, perfetto.c) through timeline.h, call stacks (folded.c,
 * pprof.c...) through flame.h. formats.def lists them all.
 *
 * One place decides for all tables what is exported: which tables (--tables, --lazy), which rows
 * (--times), on which clock (--ts-shift, --ts-normalize).
 */
#ifndef WS_EXPORT_EXPORT_H
#define WS_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "views/cells.h"
#include "views/choose.h"

/* Options that only some formats take: bits of struct ws_export_format.takes. */
enum {
	WS_TAKES_TABLES = 1,  /* --tables, --times, --ts-shift, --ts-normalize */
	WS_TAKES_APPEND = 2,  /* --append */
	WS_TAKES_BLOBS = 4,   /* --include-blobs */
	WS_TAKES_STRINGS = 8, /* --separate-strings */
	WS_TAKES_TIMES = 16,  /* --times, --ts-shift and --ts-normalize without --tables */
	WS_TAKES_STACKS = 32, /* --show, --by, --frames, and --times with one range */
	WS_TAKES_SPAN = 64,   /* --times with one range */
};

struct ws_export_request {
	const char *type;   /* a name of formats.def */
	const char *output; /* path, "-" for standard output if the type can be written there, or
			       NULL for the report's name with the type's extension */
	bool overwrite, quiet;
	struct ws_export_choice choice; /* which tables, events and clock */
	bool lazy;			/* leave out empty tables */
	bool blobs;			/* include the bytes of NVTX payloads */
	bool append, separate_strings;
	const char *show, *by; /* lists of words; NULL when not given */
	const char *frames;    /* all, python or native; NULL when not given */
};

/*
 * Export one report. Messages go to stderr. Returns 0, -1 on failure (nothing partial is left
 * behind), -3 when the options conflict, or WS_OUTPUT_PIPE_CLOSED when the reader of standard
 * output went away.
 */
enum { WS_EXPORT_USAGE = -3 };
int ws_export_report_file(const char *path, const struct ws_export_request *request);

/* ---- formats ---- */

/* What a writer is opened with. */
struct ws_export_target {
	FILE *file; /* open for writing; NULL for formats that open `path` by themselves
		    (WS_FORMAT_PATH, WS_FORMAT_FOLDER) */
	const char
		*path; /* the temporary file or folder; it is renamed when the export is complete */
	const char *name; /* what the user called it, for messages */
	bool append;	  /* `path` holds an earlier export */
	bool separate_strings;
};

/* The name of the output for messages. */
static inline const char *ws_name_target(const struct ws_export_target *target)
{
	if (target->name[0] == '-' && !target->name[1])
		return "standard output";
	return target->name;
}

enum {
	WS_FORMAT_PATH = 2,   /* opens the file by itself */
	WS_FORMAT_FOLDER = 4, /* writes a folder of files */
	WS_FORMAT_STDOUT = 8, /* can write to standard output */
	WS_FORMAT_GZIP = 16,  /* compressed when the name ends in .gz */
};

struct ws_export_format {
	const char *name, *extension, *summary;
	unsigned takes, flags;
	struct ws_table_writer *(*open)(const struct ws_export_target *target,
					struct ws_err *err); /* NULL on failure, with a message */
	int (*write)(struct ws_cell_context *export, FILE *file,
		     struct ws_err *err); /* of formats without `open` */
};

/* The format of that name, or NULL. */
const struct ws_export_format *ws_find_export_format(const char *name);

#endif
