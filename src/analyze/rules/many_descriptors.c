/*
 * many_descriptors.c - poll and select that go through many descriptors at each call.
 *
 * Which descriptors a call was given is not recorded. But to ask one takes some 0.15 us on a core,
 * and a call that finds nothing to do or few descriptors takes one or two.
 */
#include "analyze/rules/rules.h"

enum { MOST_TOTALS = 64, LEAST_CALL_NS = 15000, DESCRIPTOR_NS = 150, LEAST_CALLS = 100 };
#define LEAST_SHARE 0.1

static bool goes_through_descriptors(const char *call)
{
	static const char *const calls[] = {"poll", "ppoll", "select", "pselect*", NULL};

	return ws_is_name_among(call, strlen(call), calls);
}

/* Calls of that name by the explained processes. */
static uint64_t count_calls(const struct ws_model *model, const char *call)
{
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_osrt, model->from, model->to);
	const uint64_t *values;
	uint64_t count = 0;

	while (ws_cursor_next(cursor, &values)) {
		uint32_t process =
			ws_find_thread(model->who, (uint32_t)values[ws_osrt_thread])->process;

		count += ws_is_explained(model, process) &&
			 !strcmp(ws_report_string(model->report, (uint32_t)values[ws_osrt_name],
						  NULL),
				 call);
	}
	ws_cursor_close(cursor);
	return count;
}

static void report_calls(const struct ws_analysis *analysis, const struct ws_usage_row *row,
			 uint64_t call_ns, struct ws_findings *findings)
{
	uint64_t cost = row->path_ns;
	struct ws_finding *finding = ws_findings_add_fault(
		analysis, findings, &ws_rule_many_descriptors, cost, cost - cost / 10);
	struct ws_text place = {0};

	ws_put_at_place(analysis, &row->place, &place);
	ws_limit_to_asked(analysis, finding, &row->place);
	finding->title =
		ws_format("%.0f %% of the time goes into %s%s, which goes through many "
			  "descriptors at each call: about %llu, by the %.3g us that it "
			  "takes on a core",
			  100 * ws_analysis_share(analysis, cost), row->name,
			  ws_text_or(place.text, ""), (unsigned long long)(call_ns / DESCRIPTOR_NS),
			  (double)call_ns / 1e3);
	finding->advice =
		ws_strdup("The kernel asks every descriptor at each call, and the program looks "
			  "through all of them for those that are ready. Tell the kernel once "
			  "which to watch (epoll_ctl; selectors.DefaultSelector and asyncio in "
			  "Python, libevent, libuv): epoll_wait returns those that are ready.");
	finding->assumption = ws_strdup("a tenth remains where only those that are ready are "
					"looked at");
	ws_finding_add_evidence(finding, "from the first sample in it to the last", NULL,
				row->span.start, row->span.end);
	ws_text_free(&place);
}

bool ws_have_many_descriptors(const struct ws_findings *findings, const char *call)
{
	return goes_through_descriptors(call) &&
	       ws_findings_have(findings, &ws_rule_many_descriptors);
}

static void check_calls(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct ws_usage_total totals[MOST_TOTALS];
	size_t count = ws_total_usage(analysis, 1u << WS_USAGE_POLL, totals, MOST_TOTALS);

	for (size_t i = 0; i < count; i++) {
		const struct ws_usage_row *row = &totals[i].row;
		uint64_t calls;

		if (!goes_through_descriptors(row->name) ||
		    ws_analysis_share(analysis, row->path_ns) < LEAST_SHARE)
			continue;
		calls = count_calls(analysis->model, row->name);
		if (calls >= LEAST_CALLS && row->ns / calls >= LEAST_CALL_NS)
			report_calls(analysis, row, row->ns / calls, findings);
	}
}

static const char *find_obstacle(const struct ws_analysis *analysis)
{
	if (!ws_report_count_rows(analysis->model->report, WS_TABLE_osrt))
		return "calls of poll and select were not recorded (--trace=osrt)";
	return ws_need_samples(analysis);
}

const struct ws_rule ws_rule_many_descriptors = {
	.name = "many-descriptors",
	.title = "poll or select over many descriptors",
	.about = "Calls of poll or select run for 15 us each or more, which takes them about a "
		 "hundred descriptors, a hundred calls or more, and for 10 % of the time or more. "
		 "How many descriptors there are is estimated by 0.15 us for each.",
	.find_obstacle = find_obstacle,
	.query = ws_proof_code,
	.check = check_calls,
};
