/*
 * row_tree.h - the rows of a time line, and what else is shown of a report, as JSON: for the page,
 * which asks its server for it, and for the exported page, which includes it.
 */
#ifndef WS_LANES_ROW_TREE_H
#define WS_LANES_ROW_TREE_H

#include "lanes/lane_json.h"

/* {"rows":[...]}: parents first, in the order they are shown. The census must be complete. */
void ws_put_row_tree(struct ws_text *out, const struct ws_lanes *lanes);

struct ws_shown_report {
	const char *path; /* the name as it is shown */
	const struct ws_lanes *lanes;
	int64_t realtime; /* CLOCK_REALTIME at time zero, ns; 0 when not known */
};

/* An object with the facts of a report; `number` is its number in the session. */
void ws_put_report_facts(struct ws_text *text, const struct ws_shown_report *rep, size_t number);
/* CLOCK_REALTIME at time zero of a report, from the nearest reading of that clock; 0 when there is
 * none. */
int64_t ws_lanes_realtime(const struct ws_report *report, uint64_t zero);

#endif
