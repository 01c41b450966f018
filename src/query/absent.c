/*
 * absent.c - see absent.h. The facts about the session say what was asked for and what came of it
 * (record/perf.c).
 */
#include "query/absent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"

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

static bool hooks_were_wanted(const struct ws_report *report)
{
	static const char *const hooked[] = {"osrt", "nvtx", "cuda"};
	const char *trace = ws_find_meta(report, "session.trace");

	for (size_t i = 0; trace && i < WS_COUNT(hooked); i++)
		if (strstr(trace, hooked[i]))
			return true;
	return false;
}

const char *ws_explain_no_hooks(const struct ws_report *report)
{
	if (!hooks_were_wanted(report) || !fact_is(report, "session.registered_processes", "0"))
		return NULL;
	if (ws_report_count_rows(report, WS_TABLE_sample))
		return "no process of the target loaded the hooks (a static program, as those of "
		       "Go are, or one that 'warpsight info' names a reason for): 'warpsight "
		       "report' shows its CPU samples, 'warpsight report --show=off-cpu' what it "
		       "waited for";
	if (ws_report_count_rows(report, WS_TABLE_sched))
		return "no process of the target loaded the hooks (a static program, as those of "
		       "Go are, or one that 'warpsight info' names a reason for): 'warpsight "
		       "report --show=off-cpu' shows what it waited for";
	return "no process of the target loaded the hooks, as 'warpsight info' says";
}

/* Nanoseconds of all collections together. */
static uint64_t sum_collections(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_collection, 0, UINT64_MAX);
	const uint64_t *values;
	uint64_t sum = 0;

	while (ws_cursor_next(cursor, &values))
		if (values[ws_collection_end] > values[ws_collection_start] &&
		    values[ws_collection_end] != WS_NO_TIME)
			sum += values[ws_collection_end] - values[ws_collection_start];
	ws_cursor_close(cursor);
	return sum;
}

char *ws_describe_sched_gaps(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_sched_gap, 0, UINT64_MAX);
	const char *cpus = ws_find_meta(report, "cpu.count");
	double whole = (double)sum_collections(report) * (cpus ? strtod(cpus, NULL) : 0);
	uint64_t gaps = 0, events = 0, unknown = 0;
	const uint64_t *values;
	char share[32] = "";

	while (ws_cursor_next(cursor, &values)) {
		gaps++;
		events += values[ws_sched_gap_events];
		unknown += values[ws_sched_gap_end] - values[ws_sched_gap_start];
	}
	ws_cursor_close(cursor);
	if (!gaps)
		return NULL;
	if (whole >= (double)unknown && whole > 0)
		snprintf(share, sizeof(share), " (%.1f %%)", 100 * (double)unknown / whole);
	if (!events) /* switches were paused, or were not counted */
		return ws_format(
			"some context switches were not recorded: what ran on the cores is "
			"unknown for %.3f s of core time%s, and what a thread did from a "
			"gap until its next record",
			(double)unknown / 1e9, share);
	return ws_format("%llu records of perf were lost: what ran on the cores is unknown for "
			 "%.3f s of core time%s, and what a thread did from a loss until its next "
			 "record",
			 (unsigned long long)events, (double)unknown / 1e9, share);
}
