/*
 * absent.c - see absent.h. What was asked for and what became of it is in the facts about the
 * session (record/perf.c).
 */
#include "query/absent.h"

#include <string.h>

static bool fact_is(const struct ws_report *report, const char *name, const char *value)
{
	const char *known = ws_find_meta(report, name);

	return known && !strcmp(known, value);
}

/* Whether warpsight recorded the report: imported ones say nothing about sampling. */
static bool is_recorded(const struct ws_report *report)
{
	return ws_find_meta(report, "session.trace") != NULL;
}

static const char *explain_unrecorded(const struct ws_report *report)
{
	if (ws_report_is_complete(report))
		return "the trace that was imported has none";
	return "what there was is lost with the end of the report";
}

static const char *explain_absence(const struct ws_report *report, const char *fact,
				   const char *off, const char *refused)
{
	if (!is_recorded(report))
		return explain_unrecorded(report);
	if (fact_is(report, fact, "none") && !fact_is(report, "perf.scope", "refused"))
		return off;
	if (fact_is(report, "perf.scope", "refused"))
		return refused;
	return "nothing ran long enough while it was recorded";
}

const char *ws_explain_no_samples(const struct ws_report *report)
{
	static const char off[] = "sampling was off (--sample=none)";
	const char *refused = "perf events were refused, as 'warpsight info' says, and the timer "
			      "signal that stands in for them found nothing that ran long enough";
	const char *scope = ws_find_meta(report, "perf.scope");

	if (scope && *scope && strcmp(scope, "refused") &&
	    !fact_is(report, "session.sample", "none"))
		return "no thread ran until one was due; a higher --sampling-frequency takes them "
		       "earlier";
	if (fact_is(report, "session.sample", "none"))
		refused = off;
	return explain_absence(report, "session.sample", off, refused);
}

const char *ws_explain_no_switches(const struct ws_report *report)
{
	return explain_absence(report, "session.cpuctxsw",
			       "following them was off (--cpuctxsw=none)",
			       "perf events were refused, as 'warpsight info' says");
}

const char *ws_explain_no_waits(const struct ws_report *report)
{
	const char *trace = ws_find_meta(report, "session.trace");
	bool osrt = trace && strstr(trace, "osrt");

	if (!is_recorded(report))
		return explain_unrecorded(report);
	if (!fact_is(report, "session.cpuctxsw", "none"))
		return "no thread waited long enough";
	if (osrt)
		return "context switches were not followed, and no call of the OS runtime waited "
		       "long enough";
	return "neither context switches (--cpuctxsw) nor calls of the OS runtime (--trace=osrt) "
	       "were";
}
