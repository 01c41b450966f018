/* formats.h - the writers behind ws_formats; private to stats/. */
#ifndef WS_STATS_FORMATS_H
#define WS_STATS_FORMATS_H

#include "stats/table.h"

void ws_kept_begin(struct ws_printer *o);
void ws_kept_row(struct ws_printer *o, const struct ws_cell *cells);
void ws_column_begin(struct ws_printer *o);
void ws_column_end(struct ws_printer *o);
void ws_box_end(struct ws_printer *o);

void ws_csv_begin(struct ws_printer *o);
void ws_csv_row(struct ws_printer *o, const struct ws_cell *cells);
void ws_lines_end(struct ws_printer *o); /* of csv and tsv */
void ws_tsv_begin(struct ws_printer *o);
void ws_tsv_row(struct ws_printer *o, const struct ws_cell *cells);

void ws_json_begin(struct ws_printer *o);
void ws_json_row(struct ws_printer *o, const struct ws_cell *cells);
void ws_json_end(struct ws_printer *o);

void ws_html_begin(struct ws_printer *o);
void ws_html_row(struct ws_printer *o, const struct ws_cell *cells);
void ws_html_end(struct ws_printer *o);
void ws_htable_begin(struct ws_printer *o);
void ws_htable_end(struct ws_printer *o);

void ws_markdown_begin(struct ws_printer *o);
void ws_markdown_row(struct ws_printer *o, const struct ws_cell *cells);
void ws_markdown_end(struct ws_printer *o);

#endif
