/*
 * cells.h - cells, tables and writers: what a table format sees, and what turns rows of a report
 * into cells.
 *
 * Table formats (sqlite.c, jsonlines.c, arrow.c...) write the SQL-shaped tables that view.h
 * declares, with the names and columns that people already query. Each is a struct ws_table_writer
 * and knows nothing of reports. SQL reads the same tables without a writer.
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

struct ws_view_cell {
	enum {
		WS_VIEW_NULL,
		WS_VIEW_INT,
		WS_VIEW_UINT,
		WS_VIEW_REAL,
		WS_VIEW_TEXT,
		WS_VIEW_BLOB,
		WS_VIEW_STRING
	} kind;
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

struct ws_cell_context;

/* How a cell is made from a row of the report. */
enum ws_cell_origin {
	WS_FROM_ROWS,		/* not from a row: the table is made row by row */
	WS_FROM_NULL,		/* never filled */
	WS_FROM_CONST,		/* always `value` */
	WS_FROM_INT,		/* the number unchanged */
	WS_FROM_UINT,		/* the same, unsigned 64 bits */
	WS_FROM_REAL,		/* the bits of a double */
	WS_FROM_TIME,		/* a moment */
	WS_FROM_TIME_OR_NULL,	/* a moment; WS_NO_TIME is null */
	WS_FROM_UINT_UNLESS,	/* the unsigned number, null when it is `value` */
	WS_FROM_ID,		/* the number, null when it is 0 */
	WS_FROM_STRING,		/* number in StringIds of a text, null for none */
	WS_FROM_STRING_OR_ZERO, /* the same, 0 for none */
	WS_FROM_TEXT,		/* the text itself */
	WS_FROM_BLOB,		/* the bytes themselves */
	WS_FROM_THREAD,		/* globalTid; 0 is null */
	WS_FROM_PROCESS,	/* globalPid; 0 is null */
	WS_FROM_FUNCTION,	/* `cell` makes it */
};

struct ws_view_column {
	const char *name;
	const char *type; /* INTEGER, REAL, TEXT, BLOB */
	bool not_null, key;
	const char *doc;
	/* Of tables that are views of one of the report's tables: */
	enum ws_cell_origin from;
	uint8_t source; /* number of a column of the report's table */
	uint64_t value;
	struct ws_view_cell (*cell)(struct ws_cell_context *export, const uint64_t *values);
	uint64_t needs;	     /* columns that `cell` reads, as bits */
	enum ws_cell_shape { /* of a CALL: what `cell` returns when it is not null */
			     WS_SHAPE_INT,
			     WS_SHAPE_UINT,
			     WS_SHAPE_REAL,
			     WS_SHAPE_STRING,
			     WS_SHAPE_TEXT,
			     WS_SHAPE_BLOB
	} shape;
	bool gated; /* of a CALL: null in rows whose column `source` is 0 */
};

struct ws_view_table {
	const char *name, *doc;
	const struct ws_view_column *columns;
	size_t column_count;
};

/* The kind of the column's cells that are not null, whatever they are made from. In tables that are
 * made row by row, it follows from the column's type. */
enum ws_cell_shape ws_find_column_shape(const struct ws_view_column *column);

/* A table format that is being written. Its functions return 0, or -1 with a message. */
struct ws_column_batch;
struct ws_table_view;
struct ws_table_writer {
	int (*begin_table)(struct ws_table_writer *xwriter, const struct ws_view_table *table,
			   struct ws_err *err); /* its rows follow */
	int (*write_rows)(struct ws_table_writer *xwriter, const struct ws_view_cell *cells,
			  size_t rows, struct ws_err *err); /* one row after another */
	int (*close_writer)(struct ws_table_writer *xwriter, bool keep,
			    struct ws_err *err); /* frees the writer; `keep` false: give up, without
						    a message */
	/*
	 * Optional, for formats that store columns: write a whole view at once (export/columns.h
	 * says how). Called instead of table and rows; *rows gets the number of rows.
	 */
	int (*write_view)(struct ws_table_writer *xwriter, struct ws_cell_context *export,
			  const struct ws_table_view *view, uint64_t *rows, struct ws_err *err);
	/* Optional, for --append: whether the file has the table already. */
	bool (*has_table)(struct ws_table_writer *xwriter, const char *table);
};

/* ---- what making cells needs ---- */

struct ws_time_span {
	int64_t from, to;	 /* ns, as users see times */
	bool open_from, open_to; /* whether events may cross this end */
};

struct ws_cell_context {
	const struct ws_report *report;
	struct ws_names_by_id *who;
	struct ws_table_writer *writer;
	uint64_t zero,
		last;  /* start of the collection and end of the last event, on the session clock */
	uint64_t base; /* the moment that times count from: zero minus the shift */
	const char *type, *input, *output;
	bool lazy, append, no_blobs, all_strings, normalized;
	bool ids_only; /* cells of texts have their id alone, for the threads of export/columns.c */
	struct ws_time_span *spans; /* --times; none: everything */
	size_t span_count;
	struct ws_table_patterns *patterns; /* --tables; NULL: all */
	const char *show, *by; /* --show and --by of formats of call stacks; NULL: their defaults */
	const char *frames;    /* their --frames: all (NULL), python or native */
	bool quiet;
	struct ws_view_table table;	  /* the table that rows go to */
	const struct ws_view_table *open; /* `table`, or NULL when none is open */
	struct ws_pending_rows *pile;	  /* rows of it that are not written yet */
	bool created, skipped; /* the writer has begun the table; the table is not wanted */
	uint8_t *strings; /* by string id: what is known of it; WS_STRING_USED: a table refers to it
			   */
	char **repaired; /* by string id: valid text in place of broken; NULL until one is needed */
	uint32_t string_count;
	struct ws_text *extra_texts; /* texts that are not the report's; their ids start at
					string_count + 1 */
	size_t extra_text_count, extra_text_capacity;
	struct ws_map texts;		  /* hash of a text of the report -> its id; made when
					     ws_make_extra_string_cell first	      needs it */
	struct ws_foreign_view **foreign; /* tables_foreign.c */
	size_t foreign_count;
	bool foreign_known;
	struct ws_text *own_texts; /* texts of cells from ws_make_own_text_cell */
	size_t own_text_count, own_text_capacity;
	uint64_t rows, damaged;
	struct ws_progress *progress;
};

enum { WS_STRING_USED = 4 };

struct ws_view_cell ws_make_string_cell(struct ws_cell_context *export,
					uint32_t id); /* STRING, or NULL for 0 */
struct ws_view_cell ws_make_text_cell(
	struct ws_cell_context *export,
	uint32_t id); /* TEXT inline, or NULL for 0 and what the report does not define */
struct ws_view_cell ws_make_blob_cell(struct ws_cell_context *export,
				      uint32_t id); /* BLOB, or NULL for 0 */
struct ws_view_cell ws_make_extra_string_cell(
	struct ws_cell_context *export, const char *text,
	size_t length); /* STRING of any text; the report's own id if it has the text */
struct ws_view_cell ws_make_own_text_cell(
	struct ws_cell_context *export,
	const char *text); /* TEXT inline of any bytes; lives as long as the export */
struct ws_view_cell ws_make_thread_cell(struct ws_cell_context *export,
					uint64_t id); /* globalTid, or NULL for 0 */
struct ws_view_cell ws_make_process_cell(struct ws_cell_context *export,
					 uint64_t id); /* globalPid, or NULL for 0 */
struct ws_view_cell ws_make_time_cell(
	struct ws_cell_context *export,
	uint64_t time); /* ns from the start of the collection, shifted */
struct ws_view_cell ws_make_end_time_cell(struct ws_cell_context *export,
					  uint64_t time); /* the same, or NULL for WS_NO_TIME */
/* Valid text of a string id, as TEXT cells have it; never NULL. Lives as long as the export. */
const char *ws_find_valid_text(struct ws_cell_context *export, uint32_t id, size_t *length);

/* The name of the output for messages. */
static inline const char *ws_name_output(const struct ws_cell_context *export)
{
	if (export->output[0] == '-' && !export->output[1])
		return "standard output";
	return export->output;
}

static inline struct ws_view_cell ws_make_int_cell(int64_t number)
{
	return (struct ws_view_cell){.kind = WS_VIEW_INT, .i = number};
}

static inline struct ws_view_cell ws_make_uint_cell(uint64_t number)
{
	return (struct ws_view_cell){.kind = WS_VIEW_UINT, .i = (int64_t)number};
}

static inline struct ws_view_cell ws_make_null_cell(void)
{
	return (struct ws_view_cell){.kind = WS_VIEW_NULL};
}

static inline struct ws_view_cell ws_make_real_cell(double number)
{
	return (struct ws_view_cell){.kind = WS_VIEW_REAL, .r = number};
}

/* The 64 bits that represent a cell in a column of fixed width: the id of a text, 0 for null. */
static inline uint64_t ws_get_cell_bits(const struct ws_view_cell *cell)
{
	if (cell->kind == WS_VIEW_NULL)
		return 0;
	if (cell->kind >= WS_VIEW_TEXT)
		return cell->id;
	return (uint64_t)cell->i;
}

/* An id of another table; 0 is null. */
static inline struct ws_view_cell ws_make_id_cell(uint64_t id)
{
	if (!id)
		return ws_make_null_cell();
	return ws_make_int_cell((int64_t)id);
}

static inline struct ws_view_cell ws_make_literal_cell(const char *text)
{
	return (struct ws_view_cell){
		.kind = WS_VIEW_TEXT, .text = text, .n = __builtin_strlen(text)};
}

/* Write a view: all rows of it that --times lets through, in order of start; formats that store
 * columns get them in the order of blocks. Returns 0, or -1 with a message, as all below do. */
int ws_write_view(struct ws_cell_context *export, const struct ws_table_view *view,
		  struct ws_err *err);

/* Turn one row of a report's table into cells; false leaves it out. Called from one other thread.
 */
typedef bool ws_fill_cells(void *ctx, const uint64_t *values, struct ws_view_cell *cells);
/* Write `table` from the rows of `source`, in order of start, while another thread reads ahead. */
int ws_write_table_rows(struct ws_cell_context *export, const struct ws_view_table *table,
			enum ws_table source, ws_fill_cells *fill, void *ctx, struct ws_err *err);
/* Whether the table is wanted at all (--tables). */
bool ws_is_table_wanted(const struct ws_cell_context *export, const char *table);
/* Begin a table that is made row by row; add one row to it. Rows of tables that are not wanted are
 * dropped. */
int ws_begin_table(struct ws_cell_context *export, const struct ws_view_table *table,
		   struct ws_err *err);
int ws_add_table_row(struct ws_cell_context *export, const struct ws_view_cell *cells,
		     struct ws_err *err);
/* End the table. Beginning the next one does so too. */
int ws_end_table(struct ws_cell_context *export, struct ws_err *err);
/* Whether --times lets an event of this span through. Times are ns of the session clock; `end` is
 * WS_NO_TIME for a moment. */
bool ws_is_in_time(const struct ws_cell_context *export, uint64_t start, uint64_t end);

/* Write all tables. */
int ws_write_all_tables(struct ws_cell_context *export, struct ws_err *err);

#endif
