/* formats.h - the writers behind ws_formats; private to stats/. */
#ifndef WS_PRINT_FORMATS_H
#define WS_PRINT_FORMATS_H

#include "print/table.h"

/*
 * Rows 0 to rows - 1 in slices, on all cores: `make` puts those from `from` to `to` into `one`, a
 * printer of the worker's own that has no file and is empty but for its count of rows, which is
 * that of `o`; `take` hands it over to `o`, slices in their order and never two at once.
 */
void ws_print_slices(struct ws_printer *printer, size_t rows,
		     void (*make)(struct ws_printer *one, size_t from, size_t to, const void *ctx),
		     void (*take)(struct ws_printer *printer, struct ws_printer *one),
		     const void *ctx);
/* Write what is in `line`; a printer of a slice keeps it. */
void ws_print_flush(struct ws_printer *printer);
/* For ws_print_slices: write the lines of a slice. */
void ws_lines_take(struct ws_printer *printer, struct ws_printer *one);

void ws_kept_begin(struct ws_printer *printer);
void ws_kept_row(struct ws_printer *printer, const struct ws_cell *cells);
void ws_kept_take(struct ws_printer *printer,
		  struct ws_printer *one); /* the kept cells of a slice, behind those of `o` */
void ws_column_begin(struct ws_printer *printer);
void ws_column_end(struct ws_printer *printer);
void ws_box_end(struct ws_printer *printer);

void ws_csv_begin(struct ws_printer *printer);
void ws_csv_row(struct ws_printer *printer, const struct ws_cell *cells);
void ws_lines_end(struct ws_printer *printer); /* of csv and tsv */
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
