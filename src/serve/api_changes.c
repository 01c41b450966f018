/*
 * api_changes.c - what changed between two reports, how certain that is and what explains it, like
 * `warpsight diff`. Reports whose steps do not match are compared as wholes.
 */
#include <stdlib.h>

#include "compare/print.h"
#include "serve/api.h"

enum { USUAL_ITEMS = 200, MOST_ITEMS = 50000 };

struct changes_request {
	const struct ws_view *view;
	int64_t reports[WS_SIDES];
	struct ws_comparison_options options;
};

static int add_reports(const struct changes_request *request, struct ws_comparison *comparison,
		       struct ws_err *err)
{
	for (size_t side = 0; side < WS_SIDES; side++) {
		struct ws_view_report *report = &request->view->reports[request->reports[side]];
		int rc;

		pthread_rwlock_rdlock(&report->use);
		rc = ws_comparison_add(comparison, side, report->report, report->path, err);
		pthread_rwlock_unlock(&report->use);
		if (rc)
			return -1;
	}
	return ws_comparison_finish(comparison, err);
}

static int put_changes(const struct changes_request *request, size_t most, struct ws_text *out,
		       struct ws_err *err)
{
	struct ws_comparison comparison;
	int rc;

	ws_comparison_begin(&comparison, &request->options);
	rc = add_reports(request, &comparison, err);
	if (!rc)
		ws_put_comparison_json(&(struct ws_comparison_view){.comparison = &comparison},
				       most, out);
	ws_comparison_free(&comparison);
	return rc;
}

int ws_api_changes(struct ws_api_call *call, struct ws_err *err)
{
	struct changes_request request = {.view = call->view, .options.other_gpu = true};
	int64_t last = (int64_t)ws_view_count(call->view) - 1, limit;

	if (last < 0) {
		ws_fail(err, "There is no report yet.");
		return 400;
	}
	if (!ws_param_int(call, "limit", ws_make_range(1, MOST_ITEMS, USUAL_ITEMS), &limit, err) ||
	    !ws_param_int(call, "a", ws_make_range(0, last, 0), &request.reports[0], err) ||
	    !ws_param_int(call, "b", ws_make_range(0, last, 0), &request.reports[1], err))
		return 400;
	if (!put_changes(&request, (size_t)limit, call->out, err))
		return 0;
	request.options.whole = true;
	if (!put_changes(&request, (size_t)limit, call->out, err))
		return 0;
	return WS_API_SAY;
}
