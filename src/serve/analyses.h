/*
 * analyses.h - analyses of the reports that a page shows. Each is made when it is first requested,
 * by the thread of that request, while other requests for it wait. The few that were used last are
 * kept, because the page requests the critical path again at every zoom.
 *
 * A growing report is analysed as it is at that moment, and again only on request. An analysis is
 * cancelled once no connection waits for it.
 */
#ifndef WS_SERVE_ANALYSES_H
#define WS_SERVE_ANALYSES_H

#include "analyze/analysis.h"
#include "analyze/finding.h"
#include "serve/api.h"

struct ws_analyses;

struct ws_shown_analysis {
	struct ws_analysis *analysis;
	struct ws_findings findings;
	uint64_t version;      /* of the report then (ws_view_report) */
	uint64_t last;	       /* event of the report then, session clock */
	struct ws_report *own; /* of a report that grows: what was analysed; else NULL */
	const struct ws_view_report *of;
	unsigned users;
	uint64_t used; /* a counter that orders analyses by last use */
	bool kept;
};

struct ws_analyses *ws_analyses_new(void);
void ws_analyses_free(struct ws_analyses *analyses); /* NULL is allowed; no users may be left */
/* Whether there is an analysis of the report that a call is about. */
bool ws_analyses_have(struct ws_analyses *analyses, const struct ws_view_report *report);
/*
 * The analysis of call->rep, which stays as it is until ws_analyses_release. `again`: of the report
 * as it is now, if it has grown. NULL with a sentence when it cannot be made, or nobody waits for
 * it.
 */
struct ws_shown_analysis *ws_analyses_hold(const struct ws_api_call *call, bool again,
					   struct ws_err *err);
void ws_analyses_release(struct ws_analyses *analyses, struct ws_shown_analysis *shown);

#endif
