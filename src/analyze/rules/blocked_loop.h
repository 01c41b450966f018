/* blocked_loop.h - what other rules ask of the rule blocked-loop. */
#ifndef WS_ANALYZE_BLOCKED_LOOP_H
#define WS_ANALYZE_BLOCKED_LOOP_H

#include "analyze/rules/rules.h"

/* Whether a wait on the path is what a task that blocks its event loop waits for, or that task's
 * wait itself, and the rule has reported it. */
bool ws_is_loop_blocked(const struct ws_analysis *analysis, const struct ws_findings *findings,
			const struct ws_breakdown_row *row);
/* Where that is so of what the last finding is about, the finding comes after that of the loop. */
void ws_rank_after_blocked_loop(const struct ws_analysis *analysis, struct ws_findings *findings,
				const struct ws_breakdown_row *row);

#endif
