/* blocking_io.c - threads on the critical path that wait for files, disks or the network. */

#include "analyze/rules/rules.h"

static bool is_flush(const char *call)
{
	return strstr(call, "sync") != NULL;
}

static const char *choose_advice(const char *call)
{
	if (is_flush(call))
		return "Flush less often: gather several writes before each flush, or flush on a "
		       "thread of its own.";
	if (strstr(call, "write"))
		return "Write larger pieces, or write on a thread of its own so that the program "
		       "goes on meanwhile.";
	return "Read ahead on another thread (or with io_uring or readahead), read larger pieces, "
	       "or keep the data in memory.";
}

static void report_row(const struct ws_analysis *analysis, const struct ws_breakdown_row *row,
		       struct ws_findings *findings)
{
	struct ws_finding *finding = ws_findings_add(findings, &ws_rule_blocking_io);
	struct ws_text what = {0};
	const char *call = ws_report_string(analysis->model->report, row->name, NULL);

	ws_breakdown_put_row(analysis->model, row, &what);
	finding->title = ws_format("The program waits for %s", what.text);
	finding->advice = ws_strdup(choose_advice(call));
	finding->assumption = ws_strdup("the rest of the program does not wait for it");
	finding->cost_ns = finding->gain_ns = row->ns;
	finding->level = ws_rate_gain(analysis, row->ns);
	ws_finding_add_evidence(finding, "the longest of these waits", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&what);
}

static void check_io(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (row->cause == WS_CAUSE_IO && ws_analysis_share(analysis, row->ns) >= 0.02)
			report_row(analysis, row, findings);
	}
}

static const char *find_obstacle(const struct ws_analysis *analysis)
{
	if (!analysis->model->has_scheduling)
		return "context switches were not recorded (--cpuctxsw)";
	return NULL;
}

const struct ws_rule ws_rule_blocking_io = {
	.name = "blocking-io",
	.title = "Waiting for files, disks or the network",
	.about = "Threads on the critical path wait in calls that read, write or flush. Reported "
		 "from 2 % of the time on. What waits off the path costs nothing and is not "
		 "reported.",
	.find_obstacle = find_obstacle,
	.check = check_io,
};
