/* top_text.h - one look at a recording (query/activity.h) as lines of text: what `top` shows. */
#ifndef WS_CLI_TOP_TEXT_H
#define WS_CLI_TOP_TEXT_H

#include "base/mem.h"
#include "query/activity.h"

struct ws_top_page {
	const char *report; /* path */
	int recorder;	    /* pid; 0 where not known */
	size_t number, of;  /* which of several recordings, from 1 */
	int width,
		height; /* of the page; height 0: as many lines as there are, a few of each kind */
	size_t scroll;	/* rows of each list that are passed over */
	bool keys;	/* say which keys there are */
};

/* Append the page: at most `height` lines, none wider than `width`, each ended by `line_end`. */
void ws_add_top_page(struct ws_text *out, const struct ws_top_page *page,
		     const struct ws_activity_look *look, const char *line_end);

#endif
