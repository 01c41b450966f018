/*
 * page_json.h - an analysis as the page shows it: findings with their places on the time line, the
 * critical path with the rows that it runs through, and where the time of a stretch went. The
 * page's server and the exported page both send it.
 *
 * Times are nanoseconds from time zero of the lanes. Functions append members to an object that the
 * caller has begun.
 */
#ifndef WS_ANALYZE_PAGE_JSON_H
#define WS_ANALYZE_PAGE_JSON_H

#include "analyze/print.h"
#include "lanes/lane_json.h"

/* Whether a report is so large that it is analysed only on request: more than 5 million rows, a
 * second's work. */
bool ws_page_is_large(const struct ws_report *report);
/* "window", "steps", "findings", "not_looked" and "rules". `view->path` is the report's name in
 * commands; lanes are those of the same report, after their census. */
void ws_put_page_findings(const struct ws_analysis_view *view, const struct ws_lanes *lanes,
			  struct ws_text *out);

/* A stretch of time, session clock. */
struct ws_page_stretch {
	uint64_t from, to;
	uint64_t least_ns; /* shorter pieces are joined to their neighbours */
};

/*
 * "window" and "pieces" of the path, as far as it is known. Each piece is [start, end, cause, lane,
 * how many pieces were joined, text]; lane is -1 where no row shows it; cause and text index
 * "causes" and "texts".
 */
void ws_put_page_path(const struct ws_analysis *analysis, const struct ws_lanes *lanes,
		      const struct ws_page_stretch *stretch, struct ws_text *out);
/* "spent": where the time went, for the path ("rows", "by_cause") and for each GPU ("gpus"). The
 * parts of each add up to "total". `least_ns` is ignored. */
void ws_put_page_times(const struct ws_analysis *analysis, const struct ws_lanes *lanes,
		       const struct ws_page_stretch *stretch, struct ws_text *out);

#endif
