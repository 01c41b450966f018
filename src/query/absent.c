/*
 * absent.c - see absent.h. What was asked for and what became of it stands in the facts about the
 * session (record/perf.c).
 */
#include "query/absent.h"

#include <string.h>

static bool is(const struct ws_report *report, const char *name, const char *value)
{
	const char *v = ws_meta(report, name);

	return v && !strcmp(v, value);
}

/* Reports that were not recorded by us say nothing about sampling. */
static bool recorded(const struct ws_report *report)
{
	return ws_meta(report, "session.trace") != NULL;
}

static const char *nobody_says(const struct ws_report *report)
{
	return ws_report_complete(report) ? "the trace that was imported has none"
					  : "what there was is lost with the end of the report";
}

static const char *why(const struct ws_report *report, const char *fact, const char *off,
		       const char *refused)
{
	if (!recorded(report))
		return nobody_says(report);
	if (is(report, fact, "none") && !is(report, "perf.scope", "refused"))
		return off;
	if (is(report, "perf.scope", "refused"))
		return refused;
	return "nothing ran long enough while it was recorded";
}

const char *ws_why_no_samples(const struct ws_report *report)
{
	const char *scope = ws_meta(report, "perf.scope");

	if (scope && *scope && strcmp(scope, "refused") && !is(report, "session.sample", "none"))
		return "no thread ran until one was due; a higher --sampling-frequency takes them "
		       "earlier";
	return why(report, "session.sample", "sampling was off (--sample=none)",
		   is(report, "session.sample", "none")
			   ? "sampling was off (--sample=none)"
			   : "perf events were refused, as 'warpsight info' says, and the timer "
			     "signal that stands "
			     "in for them found nothing that ran long enough");
}

const char *ws_why_no_switches(const struct ws_report *report)
{
	return why(report, "session.cpuctxsw", "following them was off (--cpuctxsw=none)",
		   "perf events were refused, as 'warpsight info' says");
}

const char *ws_why_no_waits(const struct ws_report *report)
{
	const char *trace = ws_meta(report, "session.trace");
	bool osrt = trace && strstr(trace, "osrt");

	if (!recorded(report))
		return nobody_says(report);
	if (is(report, "session.cpuctxsw", "none"))
		return osrt ? "context switches were not followed, and no call of the OS runtime "
			      "waited long enough"
			    : "neither context switches (--cpuctxsw) nor calls of the OS runtime "
			      "(--trace=osrt) were";
	return "no thread waited long enough";
}
