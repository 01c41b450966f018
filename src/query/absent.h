/* absent.h - why a report holds none of something: "nothing was recorded" never stands without a
 * reason where one is known. */
#ifndef WS_QUERY_ABSENT_H
#define WS_QUERY_ABSENT_H

#include "query/query.h"

/*
 * Why there are no CPU samples, no context switches, or neither waits nor context switches: a
 * clause that goes on after "were recorded" and a colon, with the option or the refusal that it
 * comes from. Never NULL.
 */
const char *ws_why_no_samples(const struct ws_report *report);
const char *ws_why_no_switches(const struct ws_report *report);
const char *ws_why_no_waits(const struct ws_report *report);

#endif
