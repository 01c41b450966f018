/*
 * api_findings.c - what the page shows of an analysis: findings and where each is on the time line,
 * the critical path, and where the time of a stretch went.
 */
#include "analyze/page_json.h"
#include "base/choose.h"
#include "serve/analyses.h"

static void put_findings(const struct ws_api_call *call, const struct ws_shown_analysis *shown)
{
	struct ws_analysis_view view = {
		.analysis = shown->analysis, .findings = &shown->findings, .path = call->rep->path};

	ws_put_json_string(call->out, "state", "made");
	ws_put_json_int(call->out, "as_of", (int64_t)(shown->last - call->lanes->zero));
	ws_put_page_findings(&view, call->lanes, call->out);
}

/*
 * Answers with the findings of a report. `unasked=1`: the user has not asked for them yet, so a
 * large report is not analysed ("state":"large"), nor one that is being recorded ("live").
 * `again=1`: of the report as it has grown.
 */
int ws_api_findings(struct ws_api_call *call, struct ws_err *err)
{
	struct ws_analyses *analyses = call->view->analyses;
	struct ws_shown_analysis *shown;
	const char *instead = NULL;
	int64_t unasked, again;

	if (!ws_param_int(call, "unasked", ws_make_range(0, 1, 0), &unasked, err) ||
	    !ws_param_int(call, "again", ws_make_range(0, 1, 0), &again, err))
		return 400;
	if (unasked && !ws_analyses_have(analyses, call->rep)) {
		if (__atomic_load_n(&call->rep->live, __ATOMIC_RELAXED))
			instead = "live";
		else if (ws_page_is_large(call->rep->report))
			instead = "large";
	}
	ws_text_puts(call->out, "{");
	if (instead) {
		ws_put_json_string(call->out, "state", instead);
		ws_text_puts(call->out, "}");
		return 0;
	}
	ws_lanes_wait_census(call->lanes);
	shown = ws_analyses_hold(call, again, err);
	if (!shown)
		return WS_API_SAY;
	put_findings(call, shown);
	ws_text_puts(call->out, "}");
	ws_analyses_release(analyses, shown);
	return 0;
}

/*
 * The critical path from t0 to t1, in pieces of which those shorter than `least` ns are joined;
 * with `times=1` also where the time went. The analysis is made if there is none.
 */
int ws_api_path(struct ws_api_call *call, struct ws_err *err)
{
	struct ws_page_stretch stretch;
	struct ws_shown_analysis *shown;
	int64_t t0, t1, least, times;

	if (!ws_param_window(call, &t0, &t1, err) ||
	    !ws_param_int(call, "least", ws_make_range(0, INT64_MAX, 0), &least, err) ||
	    !ws_param_int(call, "times", ws_make_range(0, 1, 0), &times, err))
		return 400;
	ws_lanes_wait_census(call->lanes);
	shown = ws_analyses_hold(call, false, err);
	if (!shown)
		return WS_API_SAY;
	stretch.from = (uint64_t)ws_max(t0, INT64_C(0));
	stretch.to = (uint64_t)ws_max(t1, INT64_C(0));
	stretch.least_ns = (uint64_t)least;
	ws_text_puts(call->out, "{");
	ws_put_page_path(shown->analysis, call->lanes, &stretch, call->out);
	if (times)
		ws_put_page_times(shown->analysis, call->lanes, &stretch, call->out);
	ws_text_puts(call->out, "}");
	ws_analyses_release(call->view->analyses, shown);
	return 0;
}
