/* html_detail.h - writes the columns and stacks of the events that an exported page has. Private to
 * html.c and html_detail.c. */
#ifndef WS_EXPORT_HTML_DETAIL_H
#define WS_EXPORT_HTML_DETAIL_H

#include "text/text.h"
#include "lanes/lane.h"

enum { WS_PAGE_SOURCES = WS_EVENT_SOURCE + 1 };

/* Rows by source, as events refer to them. */
struct ws_page_rows {
	uint32_t *rows;
	size_t count, capacity;
};

/* States of threads, which are not rows: events refer to them by number. */
struct ws_page_states {
	struct ws_page_state {
		uint32_t thread, ref;
		uint64_t start, end;
		struct ws_state st;
	} * states;
	size_t count, capacity;
	uint8_t source;
};

/* Sort the rows and drop duplicates (a kernel is on two lanes). Returns the number of rows left. */
size_t ws_unify_page_rows(struct ws_page_rows rows[WS_PAGE_SOURCES]);
/* Append the member "details", as viewer/src/static.ts describes it. `rows` are sorted; the details
 * of `states` are filled in. */
void ws_put_page_details(struct ws_text *text, const struct ws_lanes *lanes,
			 const struct ws_page_rows rows[WS_PAGE_SOURCES],
			 struct ws_page_states *states);

#endif
