/*
 * analyses.h - analyses of the reports that a page shows. Each is made when it is first asked for,
 * by the thread of that request, while others who ask for the same wait for it; and kept, the few
 * that were asked for last, because the page asks for the critical path again at every zoom.
 *
 * A report that grows is analysed as it is at that moment, and again only when someone wants that.
 * An analysis for which no connection is open any more is given up.
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
	uint64_t used; /* a count: those used last are kept */
	bool kept;
};

struct ws_analyses *ws_analyses_new(void);
void ws_analyses_free(struct ws_analyses *analyses); /* NULL is fine; nobody uses them any more */
/* Whether there is one of the report that a call is about. */
bool ws_analyses_have(struct ws_analyses *analyses, const struct ws_view_report *report);
/*
 * The analysis of call->rep, which stays as it is until ws_analyses_release. `again`: of the report
 * as it is now, if it has grown. NULL with a sentence when it cannot be made, or nobody waits.
 */
struct ws_shown_analysis *ws_analyses_hold(const struct ws_api_call *call, bool again,
					   struct ws_err *err);
void ws_analyses_release(struct ws_analyses *analyses, struct ws_shown_analysis *shown);

#endif
