/* formats.h - the writers behind ws_formats; private to print/. */
#ifndef WS_PRINT_FORMATS_H
#define WS_PRINT_FORMATS_H

#include "print/table.h"

/*
 * Print rows 0 to rows - 1 in slices, on all cores. `make` puts the rows from `from` up to, not
 * including, `to` into `one`, an empty printer without a file whose count of rows is that of
 * `printer`. `take` moves what `one` holds to `printer`: one slice at a time, in their order.
 */
void ws_print_slices(struct ws_printer *printer, size_t rows,
		     void (*make)(struct ws_printer *one, size_t from, size_t to,
				  const void *context),
		     void (*take)(struct ws_printer *printer, struct ws_printer *one),
		     const void *context);
/* Write what is in `line`; the printer of a slice, which has no file, keeps it. */
void ws_print_flush(struct ws_printer *printer);
/* The `take` of ws_print_slices for formats that write at once: write the lines of a slice. */
void ws_take_line_slice(struct ws_printer *printer, struct ws_printer *one);

void ws_keep_header(struct ws_printer *printer);
void ws_keep_row(struct ws_printer *printer, const struct ws_cell *cells);
/* The `take` for formats that keep cells: append the cells of a slice. */
void ws_take_kept_slice(struct ws_printer *printer, struct ws_printer *one);
void ws_column_begin(struct ws_printer *printer);
void ws_column_end(struct ws_printer *printer);
void ws_box_end(struct ws_printer *printer);

void ws_csv_begin(struct ws_printer *printer);
void ws_csv_row(struct ws_printer *printer, const struct ws_cell *cells);
void ws_end_lines(struct ws_printer *printer); /* of csv and tsv */
void ws_tsv_begin(struct ws_printer *printer);
void ws_tsv_row(struct ws_printer *printer, const struct ws_cell *cells);

void ws_json_begin(struct ws_printer *printer);
void ws_json_row(struct ws_printer *printer, const struct ws_cell *cells);
void ws_json_end(struct ws_printer *printer);

void ws_html_begin(struct ws_printer *printer);
void ws_html_row(struct ws_printer *printer, const struct ws_cell *cells);
void ws_html_end(struct ws_printer *printer);
void ws_htable_begin(struct ws_printer *printer);
void ws_htable_end(struct ws_printer *printer);

void ws_markdown_begin(struct ws_printer *printer);
void ws_markdown_row(struct ws_printer *printer, const struct ws_cell *cells);
void ws_markdown_end(struct ws_printer *printer);

#endif
