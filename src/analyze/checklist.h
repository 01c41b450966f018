/*
 * checklist.h - the questions to ask about a program, answered for one report: five points of a
 * program that uses its GPUs well, and eight questions that whoever recorded it should be able to
 * answer.
 */
#ifndef WS_ANALYZE_CHECKLIST_H
#define WS_ANALYZE_CHECKLIST_H

#include "analyze/analysis.h"
#include "analyze/finding.h"

enum ws_verdict { WS_VERDICT_OK, WS_VERDICT_LOOK, WS_VERDICT_UNKNOWN, WS_VERDICT_NONE };
const char *ws_name_verdict(enum ws_verdict verdict); /* "ok", "look", "cannot tell"... */

enum { WS_CHECK_POINTS = 5, WS_CHECKS = 13 };

struct ws_check {
	const char *question;
	enum ws_verdict verdict;
	char *answer;	  /* with its figures */
	const char *next; /* a command that shows more, with REPORT in it; or NULL */
};

/* The five points first, then the eight self-checks. Free with ws_checklist_free. */
struct ws_checklist {
	struct ws_check checks[WS_CHECKS];
};
/* `findings` are the findings of all rules. */
void ws_checklist_make(const struct ws_analysis *analysis, const struct ws_findings *findings,
		       struct ws_checklist *list);
void ws_checklist_free(struct ws_checklist *list);

#endif
