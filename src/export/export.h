/*
 * export.h - writing a report in formats that other programs read.
 *
 * What is exported is decided once, in tables.c: SQL-shaped tables with the names and columns that people already query. A format
 * (sqlite.c, jsonlines.c) only writes tables and rows. Tables of the schema that no one has special names for come out generically.
 */
#ifndef WS_EXPORT_EXPORT_H
#define WS_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "query/query.h"

struct ws_export_request {
	const char *type; /* sqlite, jsonlines or json (the same) */
	const char
	    *output; /* path, "-" for standard output where the type can, or NULL for the report's name with the type's extension */
	bool overwrite, quiet;
};

/*
 * Export one report. Messages go to stderr. Returns 0, -1 on failure (nothing partial is left behind), or WS_OUTFILE_PIPE when the
 * reader of standard output went away.
 */
int ws_export_file(const char *path, const struct ws_export_request *q);

/* ---- for the formats ---- */

struct ws_xcell {
	enum { WS_X_NULL, WS_X_INT, WS_X_UINT, WS_X_REAL, WS_X_TEXT, WS_X_BLOB, WS_X_STRING } kind;
	uint32_t id; /* of a STRING: its number in StringIds; the text is in s */
	union {
		int64_t i; /* UINT: the bits */
		double r;
		struct { /* valid UTF-8 without NULs, except for a BLOB */
			const char *s;
			size_t n;
		};
	};
};

struct ws_xcolumn {
	const char *name;
	const char *type; /* INTEGER, REAL, TEXT, BLOB */
	bool not_null, key;
	const char *doc;
	/*
	 * Columns of the schema's table that it is made of, as bits. A table in which any column says so says it of all, and its `fill`
	 * leaves out no row.
	 */
	uint64_t from;
	bool plain;    /* ws_x_plain of its one column says what it holds */
};

struct ws_xtable {
	const char *name, *doc;
	const struct ws_xcolumn *columns;
	size_t column_count;
};

/* A format being written. Functions return 0, or -1 with a message. */
struct ws_xwriter {
	int (*table)(struct ws_xwriter *w, const struct ws_xtable *t, struct ws_err *e); /* rows of t follow */
	int (*rows)(struct ws_xwriter *w, const struct ws_xcell *cells, size_t rows,
		    struct ws_err *e);					 /* one row after the other */
	int (*close)(struct ws_xwriter *w, bool keep, struct ws_err *e); /* frees it; `keep` false: give up, no message needed */
};

/* Each takes the name of the file to write; it exists, is empty, and is renamed when all has gone well. */
struct ws_xwriter *ws_sqlite_writer(const char *path, struct ws_err *e);
struct ws_xwriter *ws_jsonlines_writer(FILE *f);

/* ---- a running export ---- */

struct ws_export;
/* Turn one row of a schema table into cells; false leaves it out. Called in a thread of its own. */
typedef bool ws_x_fill(struct ws_export *x, const uint64_t *values, struct ws_xcell *cells);

struct ws_export {
	const struct ws_report *r;
	struct ws_who *who;
	struct ws_xwriter *w;
	uint64_t zero, last;
	const char *type, *input, *output;
	uint8_t *strings; /* by string id: what is known of it */
	char **repaired;  /* by string id: valid text in place of broken; NULL until one is needed */
	uint32_t string_count;
	struct ws_text *extra; /* texts that are not the report's, numbered from string_count + 1 */
	size_t extra_count, extra_cap;
	struct ws_text *own; /* texts that only ws_x_own cells point to */
	size_t own_count, own_cap;
	uint64_t rows, damaged;
	/*
	 * When set, ws_export_rows only tells it which rows would be written: for who reads them in another way (sql/catalog.c). `t` and
	 * what it points to are good only during the call; without `fill`, columns are plain or null.
	 */
	int (*lazily)(struct ws_export *x, const struct ws_xtable *t, enum ws_table source, ws_x_fill *fill, struct ws_err *e);
	void *lazily_ctx;
};

/* Ready for cells and tables: all but the writer and the names of files. Free what it holds with ws_export_end. */
void ws_export_begin(struct ws_export *x, const struct ws_report *r);
void ws_export_end(struct ws_export *x);

/* A value as its declaration in tables.def says; a text as its number in StringIds when `number`, else inline. */
struct ws_xcell ws_x_plain(struct ws_export *x, const struct ws_column_desc *d, bool number, uint64_t v);
struct ws_xcell ws_x_string(struct ws_export *x, uint32_t id);		  /* STRING, or NULL for 0 */
struct ws_xcell ws_x_text(struct ws_export *x, uint32_t id);		  /* TEXT inline, or NULL for 0 */
struct ws_xcell ws_x_extra(struct ws_export *x, const char *s, size_t n); /* STRING of a text that is not the report's */
struct ws_xcell ws_x_own(struct ws_export *x, const char *s, size_t n); /* TEXT inline of any bytes; lives as long as the export */
struct ws_xcell ws_x_thread(struct ws_export *x, uint64_t id);	/* globalTid, or NULL for 0 */
struct ws_xcell ws_x_process(struct ws_export *x, uint64_t id); /* globalPid, or NULL for 0 */
struct ws_xcell ws_x_time(struct ws_export *x, uint64_t t);	/* from the start of the collection */
struct ws_xcell ws_x_ntime(struct ws_export *x, uint64_t t);	/* the same, or NULL for WS_NO_TIME */

static inline struct ws_xcell ws_x_int(int64_t v)
{
	return (struct ws_xcell){.kind = WS_X_INT, .i = v};
}

static inline struct ws_xcell ws_x_null(void)
{
	return (struct ws_xcell){.kind = WS_X_NULL};
}

static inline struct ws_xcell ws_x_literal(const char *s)
{
	return (struct ws_xcell){.kind = WS_X_TEXT, .s = s, .n = __builtin_strlen(s)};
}

/* Write table `t` from the rows of `source`, in order of start, reading ahead in parallel. */
int ws_export_rows(struct ws_export *x, const struct ws_xtable *t, enum ws_table source, ws_x_fill *fill, struct ws_err *e);
/* Begin a table that is made row by row, and one row of it. */
int ws_export_table(struct ws_export *x, const struct ws_xtable *t, struct ws_err *e);
int ws_export_row(struct ws_export *x, const struct ws_xcell *cells, struct ws_err *e);

/* All tables. */
int ws_export_tables(struct ws_export *x, struct ws_err *e);

#endif
