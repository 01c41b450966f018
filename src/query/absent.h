/* absent.h - explains why a report lacks some kind of data: "nothing was recorded" always comes
 * with the reason where one is known. */
#ifndef WS_QUERY_ABSENT_H
#define WS_QUERY_ABSENT_H

#include "query/query.h"

/*
 * Why there are no CPU samples, no context switches, or neither waits nor context switches: a
 * clause that follows "were recorded" and a colon, with the option or the refusal that caused it.
 * Never NULL; nothing to free.
 */
const char *ws_explain_no_samples(const struct ws_report *report);
const char *ws_explain_no_switches(const struct ws_report *report);
const char *ws_explain_no_waits(const struct ws_report *report);

/*
 * Why nothing recorded by hooks (calls of the OS runtime and of CUDA, NVTX ranges) is in the report
 * although it was asked for: no process loaded the hooks, as static programs do not. A sentence
 * without its full stop that says where to look instead; NULL when this is not the reason. Nothing
 * to free.
 */
const char *ws_explain_no_hooks(const struct ws_report *report);

/*
 * How much of what ran on the cores is unknown because records were lost (table sched_gap): a
 * sentence without its full stop. NULL when nothing was lost; owned by the caller.
 */
char *ws_describe_sched_gaps(const struct ws_report *report);

#endif
