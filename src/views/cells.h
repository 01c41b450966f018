/*
 * cells.h - cells, tables and writers: what a table format sees, and what turns rows of a report
 * into cells.
 *
 * Table formats (sqlite.c, jsonlines.c, arrow.c...) write the SQL-shaped tables that view.h
 * declares, with the names and columns that people already query. Each is a struct ws_xwriter and
 * knows nothing of reports. SQL reads the same tables without a writer.
 */
#ifndef WS_VIEWS_CELLS_H
#define WS_VIEWS_CELLS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "query/query.h"

/* ---- cells, tables and writers: what a table format sees ---- */

struct ws_xcell {
	enum { WS_X_NULL, WS_X_INT, WS_X_UINT, WS_X_REAL, WS_X_TEXT, WS_X_BLOB, WS_X_STRING } kind;
	uint32_t id; /* of a STRING: its number in StringIds, `text` has the text; of a TEXT or BLOB
			of the report: its string id, else 0 */
	union {
		int64_t i; /* UINT: the bits */
		double r;
		struct { /* valid UTF-8 without NULs, except for a BLOB */
			const char *text;
			size_t n;
		};
	};
};

struct ws_export;

/* How a cell is made from a row of the report. */
enum ws_xfrom {
	WS_XF_MADE,    /* by nothing: the table is made row by row */
	WS_XF_NULL,    /* never filled */
	WS_XF_CONST,   /* always `value` */
	WS_XF_INT,     /* the number as it stands */
	WS_XF_UINT,    /* the same, unsigned 64 bits */
	WS_XF_REAL,    /* the bits of a double */
	WS_XF_TIME,    /* a moment */
	WS_XF_NTIME,   /* a moment; WS_NO_TIME is null */
	WS_XF_UNLESS,  /* the unsigned number, null when it is `value` */
	WS_XF_ID,      /* the number, null when it is 0 */
	WS_XF_STRING,  /* number in StringIds of a text, null for none */
	WS_XF_STRING0, /* the same, 0 for none */
	WS_XF_TEXT,    /* the text itself */
	WS_XF_BLOB,    /* the bytes themselves */
	WS_XF_THREAD,  /* globalTid; 0 is null */
	WS_XF_PROCESS, /* globalPid; 0 is null */
	WS_XF_CALL,    /* `cell` makes it */
};

struct ws_xcolumn {
	const char *name;
	const char *type; /* INTEGER, REAL, TEXT, BLOB */
	bool not_null, key;
	const char *doc;
	/* Of tables that are views of one of the report's tables: */
	enum ws_xfrom from;
	uint8_t source; /* number of a column of the report's table */
	uint64_t value;
	struct ws_xcell (*cell)(struct ws_export *export, const uint64_t *values);
	uint64_t needs;	 /* columns that `cell` reads, as bits */
	enum ws_xshape { /* of a CALL: what `cell` returns when it is not null */
			 WS_SHAPE_INT,
			 WS_SHAPE_UINT,
			 WS_SHAPE_REAL,
			 WS_SHAPE_STRING,
			 WS_SHAPE_TEXT,
			 WS_SHAPE_BLOB
	} shape;
	bool gated; /* of a CALL: null wherever the column `source` is 0 */
};

struct ws_xtable {
	const char *name, *doc;
	const struct ws_xcolumn *columns;
	size_t column_count;
};

/* What the column's cells hold when they are not null, whatever they are made from. Columns of
 * tables that are made row by row go by their type. */
enum ws_xshape ws_xcolumn_shape(const struct ws_xcolumn *column);

/* A table format that is being written. Its functions return 0, or -1 with a message. */
struct ws_xbatch;
struct ws_xview;
struct ws_xwriter {
	int (*table)(struct ws_xwriter *xwriter, const struct ws_xtable *table,
		     struct ws_err *err); /* its rows follow */
	int (*rows)(struct ws_xwriter *xwriter, const struct ws_xcell *cells, size_t rows,
		    struct ws_err *err); /* one row after another */
	int (*close)(struct ws_xwriter *xwriter, bool keep,
		     struct ws_err
			     *err); /* frees the writer; `keep` false: give up, without a message */
	/*
	 * Optional, for formats that store columns: write a whole view at once (export/columns.h
	 * says how). Called instead of table and rows; *rows gets the number of rows.
	 */
	int (*view)(struct ws_xwriter *xwriter, struct ws_export *export,
		    const struct ws_xview *view, uint64_t *rows, struct ws_err *err);
	/* Optional, for --append: whether the file has the table already. */
	bool (*has)(struct ws_xwriter *xwriter, const char *table);
};

/* ---- what making cells needs ---- */

struct ws_xspan {
	int64_t from, to;	 /* ns, as users see times */
	bool open_from, open_to; /* whether events may cross this end */
};

struct ws_export {
	const struct ws_report *report;
	struct ws_who *who;
	struct ws_xwriter *writer;
	uint64_t zero,
		last;  /* start of the collection and end of the last event, on the session clock */
	uint64_t base; /* what times count from: zero less the shift */
	const char *type, *input, *output;
	bool lazy, append, no_blobs, all_strings, normalized;
	bool ids_only; /* cells of texts have their id alone, for the threads of export/columns.c */
	struct ws_xspan *spans; /* --times; none: everything */
	size_t span_count;
	struct ws_xpatterns *patterns; /* --tables; NULL: all */
	const char *show, *by; /* --show and --by of formats of call stacks; NULL: their defaults */
	bool quiet;
	struct ws_xtable table;	      /* the table that rows go to */
	const struct ws_xtable *open; /* `table`, or NULL when none is open */
	struct ws_xpile *pile;	      /* rows of it that are not written yet */
	bool created, skipped; /* whether the writer has begun it; whether it is not wanted */
	uint8_t *strings; /* by string id: what is known of it; WS_STRING_USED: a table refers to it
			   */
	char **repaired; /* by string id: valid text in place of broken; NULL until one is needed */
	uint32_t string_count;
	struct ws_text
		*extra; /* texts that are not the report's; their ids start at string_count + 1 */
	size_t extra_count, extra_cap;
	struct ws_map texts; /* hash of a text of the report -> its id; made when ws_x_extra first
				needs it */
	struct ws_xforeign **foreign; /* tables_foreign.c */
	size_t foreign_count;
	bool foreign_known;
	struct ws_text *own; /* texts of cells from ws_x_own */
	size_t own_count, own_cap;
	uint64_t rows, damaged;
	struct ws_progress *progress;
};

enum { WS_STRING_USED = 4 };

struct ws_xcell ws_x_string(struct ws_export *export, uint32_t id); /* STRING, or NULL for 0 */
struct ws_xcell ws_x_text(
	struct ws_export *export,
	uint32_t id); /* TEXT inline, or NULL for 0 and what the report does not define */
struct ws_xcell ws_x_blob(struct ws_export *export, uint32_t id); /* BLOB, or NULL for 0 */
struct ws_xcell ws_x_extra(
	struct ws_export *export, const char *text,
	size_t length); /* STRING of any text; the report's own id if it has the text */
struct ws_xcell ws_x_own(
	struct ws_export *export,
	const char *text); /* TEXT inline of any bytes; lives as long as the export */
struct ws_xcell ws_x_thread(struct ws_export *export, uint64_t id);  /* globalTid, or NULL for 0 */
struct ws_xcell ws_x_process(struct ws_export *export, uint64_t id); /* globalPid, or NULL for 0 */
struct ws_xcell ws_x_time(struct ws_export *export,
			  uint64_t time); /* ns from the start of the collection, shifted */
struct ws_xcell ws_x_ntime(struct ws_export *export,
			   uint64_t time); /* the same, or NULL for WS_NO_TIME */
/* Valid text of a string id, as TEXT cells have it; never NULL. Lives as long as the export. */
const char *ws_x_bytes(struct ws_export *export, uint32_t id, size_t *length);

/* The name of the output for messages. */
static inline const char *ws_x_output(const struct ws_export *export)
{
	if (export->output[0] == '-' && !export->output[1])
		return "standard output";
	return export->output;
}

static inline struct ws_xcell ws_x_int(int64_t number)
{
	return (struct ws_xcell){.kind = WS_X_INT, .i = number};
}

static inline struct ws_xcell ws_x_uint(uint64_t number)
{
	return (struct ws_xcell){.kind = WS_X_UINT, .i = (int64_t)number};
}

static inline struct ws_xcell ws_x_null(void)
{
	return (struct ws_xcell){.kind = WS_X_NULL};
}

static inline struct ws_xcell ws_real_cell(double number)
{
	return (struct ws_xcell){.kind = WS_X_REAL, .r = number};
}

/* The 64 bits that stand for a cell in a column of fixed width: of a text its id, of null 0. */
static inline uint64_t ws_cell_bits(const struct ws_xcell *cell)
{
	if (cell->kind == WS_X_NULL)
		return 0;
	if (cell->kind >= WS_X_TEXT)
		return cell->id;
	return (uint64_t)cell->i;
}

/* An id of another table; 0 is null. */
static inline struct ws_xcell ws_id_cell(uint64_t id)
{
	if (!id)
		return ws_x_null();
	return ws_x_int((int64_t)id);
}

static inline struct ws_xcell ws_x_literal(const char *text)
{
	return (struct ws_xcell){.kind = WS_X_TEXT, .text = text, .n = __builtin_strlen(text)};
}

/* Write a view: all rows of it that --times lets through, in order of start; formats that store
 * columns get them in the order of blocks. Returns 0, or -1 with a message, as all below do. */
int ws_export_view(struct ws_export *export, const struct ws_xview *view, struct ws_err *err);

/* Turn one row of a report's table into cells; false leaves it out. Called from one other thread.
 */
typedef bool ws_x_fill(void *ctx, const uint64_t *values, struct ws_xcell *cells);
/* Write `table` from the rows of `source`, in order of start, while another thread reads ahead. */
int ws_export_rows(struct ws_export *export, const struct ws_xtable *table, enum ws_table source,
		   ws_x_fill *fill, void *ctx, struct ws_err *err);
/* Whether the table is wanted at all (--tables). */
bool ws_export_wants(const struct ws_export *export, const char *table);
/* Begin a table that is made row by row; add one row to it. Rows of tables that are not wanted are
 * dropped. */
int ws_export_table(struct ws_export *export, const struct ws_xtable *table, struct ws_err *err);
int ws_export_row(struct ws_export *export, const struct ws_xcell *cells, struct ws_err *err);
/* End the table. Beginning the next one does so too. */
int ws_export_table_end(struct ws_export *export, struct ws_err *err);
/* Whether --times lets an event of this span through. Times are ns of the session clock; `end` is
 * WS_NO_TIME for a moment. */
bool ws_export_in_time(const struct ws_export *export, uint64_t start, uint64_t end);

/* Write all tables. */
int ws_export_tables(struct ws_export *export, struct ws_err *err);

#endif
