/*
 * table.h - the tables that reports make, and the formats they are written in.
 *
 * A report declares its columns once, each with the kind of its values; a format turns the kind
 * into a header with a unit, decimals and alignment. Rows are handed over one at a time: csv, tsv,
 * json, html and markdown write them at once, column and table keep them until the widths are
 * known.
 */
#ifndef WS_PRINT_TABLE_H
#define WS_PRINT_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"

enum ws_kind {
	WS_KIND_TEXT,
	WS_KIND_ID,	 /* a number that identifies something: pid, level */
	WS_KIND_COUNT,	 /* how many */
	WS_KIND_PERCENT, /* percent; one decimal */
	WS_KIND_TIME,	 /* whole nanoseconds; a real number is shown as WS_KIND_AVERAGE shows it */
	WS_KIND_SAMPLED, /* whole nanoseconds that samples stand for: people get as many digits as a
			    percentage of all of them has, programs microseconds */
	WS_KIND_MEAN,	 /* nanoseconds with a fraction; one decimal */
	WS_KIND_RATIO,	 /* how many on average; one decimal */
	WS_KIND_SHARE,	 /* percent, in tables that the reference tool does not have: one decimal
		    for people, nine for programs */
	WS_KIND_AVERAGE, /* nanoseconds with a fraction, in such tables: programs get three decimals
			    more than a time has */
	WS_KIND_SIZE,	 /* bytes; shown in MB (10^6) with three decimals */
	WS_KIND_RATE,	 /* bytes per second; shown in MB/s with three decimals */
	WS_KIND_VALUE,	 /* whatever a query returns: numbers in full or texts, row by row */
};

struct ws_column {
	const char *name;
	enum ws_kind kind;
};

struct ws_cell {
	enum {
		WS_CELL_NULL,
		WS_CELL_INT,
		WS_CELL_REAL,
		WS_CELL_TEXT,
		WS_CELL_WHOLE /* a real number without a fraction, below 2^48: stored in `i`, shown
		 as a real number */
	} type;
	union {
		int64_t i;
		long double r;
		struct {
			const char *text;
			size_t n;
		} t;
	};
};

static inline struct ws_cell ws_cell_int(int64_t value)
{
	return (struct ws_cell){.type = WS_CELL_INT, .i = value};
}

static inline struct ws_cell ws_cell_real(long double value)
{
	return (struct ws_cell){.type = WS_CELL_REAL, .r = value};
}

/* A real number without a fraction: numbers below 2^48 are printed without long doubles. */
static inline struct ws_cell ws_cell_whole(uint64_t value)
{
	if (value >> 48)
		return ws_cell_real(value);
	return (struct ws_cell){.type = WS_CELL_WHOLE, .i = (int64_t)value};
}

static inline struct ws_cell ws_cell_text(const char *text, size_t n)
{
	return (struct ws_cell){.type = WS_CELL_TEXT, .t = {text, n}};
}

static inline struct ws_cell ws_cell_null(void)
{
	return (struct ws_cell){.type = WS_CELL_NULL};
}

/* The value as a cell where `known` holds, else NULL. The value is computed in either case. */
static inline struct ws_cell ws_cell_int_if(bool known, int64_t value)
{
	if (known)
		return ws_cell_int(value);
	return ws_cell_null();
}

static inline struct ws_cell ws_cell_real_if(bool known, long double value)
{
	if (known)
		return ws_cell_real(value);
	return ws_cell_null();
}

static inline struct ws_cell ws_cell_text_if(bool known, const char *text, size_t n)
{
	if (known)
		return ws_cell_text(text, n);
	return ws_cell_null();
}

/* `part` of `whole` in percent; 0 of nothing. */
static inline long double ws_compute_percent(long double part, long double whole)
{
	if (whole == 0)
		return 0;
	return part * 100 / whole;
}

/* Unit of times: `power` is its nanoseconds as a power of ten (0 ns, 3 us, 6 ms, 9 s). */
struct ws_timeunit {
	const char *name;
	unsigned power;
};
/* The unit called ns, us, ms, s, nsec..., or a prefix of nanoseconds... of three letters or more;
 * NULL for anything else. */
const struct ws_timeunit *ws_find_timeunit(const char *name);

/* How many widths of columns users may give; further columns are as wide as their cells. */
enum { WS_WIDTHS = 64, WS_WIDTH_AUTO = UINT16_MAX };

struct ws_format_args {
	bool nohdr;   /* no header line */
	bool nolimit; /* column, table: names are not cut at 100 columns */
	bool nofmt;   /* no thousands separators */
	bool escape;  /* tsv: write tabs and line breaks in names as \t, \n, \r, not as blanks */
	struct {
		const char *text; /* points into the specification of the format; NULL when not
				     given */
		size_t n;
	} title, css; /* of an HTML document: its title, the address of a style sheet */
	uint16_t widths[WS_WIDTHS]; /* column, table: widths of the first width_count columns;
				       WS_WIDTH_AUTO, or 0 for a column not shown */
	size_t width_count;
};

/* Whether column and table write names in full (--wide), as with nolimit. */
extern bool ws_print_wide;

struct ws_printer; /* one table being written */

struct ws_format {
	const char *name, *alias, *extension, *about;
	bool titled; /* it shows the report's title */
	bool exact;  /* for programs: WS_KIND_SHARE and WS_KIND_AVERAGE have more digits */
	const char *const *args; /* arguments it takes, ended by NULL: nohdr, title=... and so on,
				    "<width>" for widths */
	const char *details;	 /* what --help-formats shows for this format alone */
	void (*begin)(struct ws_printer *printer);
	void (*row)(struct ws_printer *printer, const struct ws_cell *cells);
	void (*end)(struct ws_printer *printer);
};
extern const struct ws_format ws_formats[]; /* ended by an entry without a name */

/* `spec` is a format's name and arguments, such as csv:nohdr; *args points into it and is valid as
 * long as it is. Returns NULL with a message when the format or an argument is unknown. */
const struct ws_format *ws_find_format(const char *spec, struct ws_format_args *args,
				       struct ws_err *err);

struct ws_printer {
	const struct ws_format *format;
	struct ws_format_args args;
	const struct ws_timeunit *unit;
	FILE *file;
	const char *title, *name; /* no title is shown when it is NULL */
	const struct ws_column *columns;
	size_t column_count;
	uint64_t rows;
	unsigned
		sampled_digits; /* of WS_KIND_SAMPLED: how many digits of nanoseconds say nothing */
	struct ws_text line;	/* scratch of the formats */
	size_t same; /* how many leading cells of the row equal those of the row before, whose text
		is still in `line` */
	struct {
		size_t at, len, cells;
	} lead; /* where the leading numbers of the last row stand in `line`, up to its first text
		 */
	/* column and table: the text of all cells, one after the other */
	struct ws_text kept;
	size_t *ends, end_capacity, end_count;
	size_t fit;	  /* columns of the terminal that the table must fit; 0: any width */
	size_t *widths;	  /* of each column: that of its widest cell; NULL before the first cell */
	uint64_t texts;	  /* bit per column: a WS_KIND_VALUE column held a text and aligns as one */
	uint64_t doubled; /* json, bit per column: an earlier column has the same header */
};

/* sampled_digits of a table whose samples stand for `total` nanoseconds. */
unsigned ws_print_sampled_digits(uint64_t total);

void ws_print_begin(struct ws_printer *printer);
void ws_print_row(struct ws_printer *printer, const struct ws_cell *cells);
/*
 * Print `count` rows that all cores make. Several threads call `make`, which sets the cells of row
 * i and may build texts in `text`, empty at first. On entry `cells` holds the row that the thread
 * made before, or NULLs; `make` returns how many leading cells it left unchanged.
 */
void ws_print_rows(struct ws_printer *printer, size_t count,
		   size_t (*make)(const void *context, size_t i, struct ws_cell *cells,
				  struct ws_text *text),
		   const void *context);
/* Finish the table and free what it holds; the caller checks `file` for errors. */
void ws_print_end(struct ws_printer *printer);

/* For formats: append the header of a column with its unit. */
void ws_print_header(const struct ws_printer *printer, size_t column, struct ws_text *text);
/* For formats: append a cell's number, with thousands separators where `grouped` and suitable. */
void ws_print_number(const struct ws_printer *printer, size_t column, const struct ws_cell *cell,
		     bool grouped, struct ws_text *text);

#endif
