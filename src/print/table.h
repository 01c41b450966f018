/*
 * table.h - the tables that reports make, and the formats they are written in.
 *
 * A report declares its columns once, with their meaning; a format turns that meaning into a header
 * with a unit, decimals and alignment. Rows are handed over one at a time: csv, tsv, json, html and
 * markdown write them at once, column and table keep them until the widths are known.
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
	WS_KIND_ID,	 /* a number that is a name: pid, level */
	WS_KIND_COUNT,	 /* how many */
	WS_KIND_PERCENT, /* of a hundred; one decimal */
	WS_KIND_TIME,	 /* whole nanoseconds; a real number is one with a fraction, shown as an
			    average */
	WS_KIND_SAMPLED, /* whole nanoseconds that samples stand for: as many digits as a percentage
			    of all of them has, for people; microseconds for programs */
	WS_KIND_MEAN,	 /* nanoseconds with a fraction; one decimal */
	WS_KIND_RATIO,	 /* how many on average; one decimal */
	WS_KIND_SHARE,	 /* a percentage of a table of our own: one decimal for people, nine for
			    programs */
	WS_KIND_AVERAGE, /* nanoseconds with a fraction, likewise: for programs three decimals more
			    than a time has */
	WS_KIND_SIZE,	 /* bytes; shown in MB (10^6) with three decimals */
	WS_KIND_RATE,	 /* bytes a second; likewise */
	WS_KIND_VALUE,	 /* whatever a query gives: numbers in full, texts, from row to row */
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
		WS_CELL_WHOLE /* a real number without a fraction, below 2^48: shown as one, but in
				 `i` */
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

static inline struct ws_cell ws_cell_int(int64_t v)
{
	return (struct ws_cell){.type = WS_CELL_INT, .i = v};
}

static inline struct ws_cell ws_cell_real(long double v)
{
	return (struct ws_cell){.type = WS_CELL_REAL, .r = v};
}

/* A real number that may be given as a whole one. */
static inline struct ws_cell ws_cell_whole(uint64_t v)
{
	return v >> 48 ? ws_cell_real(v) : (struct ws_cell){.type = WS_CELL_WHOLE, .i = (int64_t)v};
}

static inline struct ws_cell ws_cell_text(const char *text, size_t n)
{
	return (struct ws_cell){.type = WS_CELL_TEXT, .t = {text, n}};
}

static inline struct ws_cell ws_cell_null(void)
{
	return (struct ws_cell){.type = WS_CELL_NULL};
}

/* Unit of times: `power` is its nanoseconds as a power of ten (0 ns, 3 us, 6 ms, 9 s). */
struct ws_timeunit {
	const char *name;
	unsigned power;
};
/* ns, us, ms, s, or a prefix of nanoseconds... as nsec and usec; NULL for anything else. */
const struct ws_timeunit *ws_timeunit_find(const char *name);

/* Widths of columns that users may give: beyond so many columns they are found by themselves. */
enum { WS_WIDTHS = 64, WS_WIDTH_AUTO = UINT16_MAX };

struct ws_format_args {
	bool nohdr;   /* no header line */
	bool nolimit; /* column, table: names are not cut at 100 columns */
	bool nofmt;   /* no thousands separators */
	bool escape; /* tsv: tabs and line breaks in names as \t, \n, \r; else they become blanks */
	struct {
		const char
			*text; /* in the text that ws_format_find was given; NULL when not given */
		size_t n;
	} title, css; /* of an HTML document: its title, the address of a style sheet */
	uint16_t widths[WS_WIDTHS]; /* column, table: of the first width_count columns;
				       WS_WIDTH_AUTO, or 0 for a column not shown */
	size_t width_count;
};

struct ws_printer; /* one table being written */

struct ws_format {
	const char *name, *alias, *extension, *about;
	bool titled; /* it shows the report's title */
	bool exact;  /* for programs: figures of our own tables with more digits than people read */
	const char *const *args; /* arguments it takes, ended by NULL: nohdr, title=... and so on,
				    "<width>" for widths */
	const char *details;	 /* what --help-formats says of it when asked for it by name */
	void (*begin)(struct ws_printer *printer);
	void (*row)(struct ws_printer *printer, const struct ws_cell *cells);
	void (*end)(struct ws_printer *printer);
};
extern const struct ws_format ws_formats[]; /* ended by an entry without a name */

/* `spec` is a format's name and arguments, such as csv:nohdr; *args points into it. Returns NULL
 * with a message. */
const struct ws_format *ws_format_find(const char *spec, struct ws_format_args *args,
				       struct ws_err *err);

struct ws_printer {
	const struct ws_format *format;
	struct ws_format_args args;
	const struct ws_timeunit *unit;
	FILE *file;
	const char *title, *name; /* NULL title: none is shown */
	const struct ws_column *columns;
	size_t column_count;
	uint64_t rows;
	unsigned sampled_digits; /* of WS_KIND_SAMPLED, how many of nanoseconds say nothing */
	struct ws_text line;	 /* scratch of the formats */
	size_t same; /* how many of the row's first cells are those of the row before, which is
			still in `line` */
	struct {
		size_t at, len,
			cells; /* in `line`: the first cells of the last row, up to a text */
	} lead;
	/* column and table: the text of all cells, one after the other */
	struct ws_text kept;
	size_t *ends, ends_cap, ends_count;
	size_t *widths; /* of each column: what the widest of its cells takes; NULL before the first
			 */
	uint64_t texts; /* columns of WS_KIND_VALUE that held a text: aligned as texts are */
	uint64_t doubled; /* json: columns, of the first 64, whose header an earlier one has */
};

/* sampled_digits of a table whose samples stand for `total` nanoseconds. */
unsigned ws_print_sampled_digits(uint64_t total);

void ws_print_begin(struct ws_printer *printer);
void ws_print_row(struct ws_printer *printer, const struct ws_cell *cells);
/*
 * Many rows, made on all cores: `make` gives the cells of row i, from several threads; texts may be
 * built in `text`, empty before. `cells` are those of some row before, or NULLs; what it returns is
 * how many of the first it left as they were.
 */
void ws_print_rows(struct ws_printer *printer, size_t count,
		   size_t (*make)(const void *ctx, size_t i, struct ws_cell *cells,
				  struct ws_text *text),
		   const void *ctx);
void ws_print_end(struct ws_printer *printer); /* frees what the table holds; the caller checks `f`
						  for errors */

/* For formats: the header of a column with its unit; a cell's number as text, digits grouped by
 * three where asked and suitable. */
void ws_print_header(const struct ws_printer *printer, size_t column, struct ws_text *text);
void ws_print_number(const struct ws_printer *printer, size_t column, const struct ws_cell *cell,
		     bool grouped, struct ws_text *text);

#endif
