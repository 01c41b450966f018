/* api_session.c - the reports that a page shows and their rows (lanes/row_tree.h). */
#include <inttypes.h>

#include "lanes/row_tree.h"
#include "serve/api.h"
#include "serve/upload.h"

static void put_report(struct ws_text *out, const struct ws_view_report *rep, size_t number)
{
	struct ws_shown_report shown = {rep->path, rep->lanes, rep->realtime};

	ws_put_report_facts(out, &shown, number);
}

int ws_api_tree(struct ws_api_call *call, struct ws_err *err)
{
	(void)err;
	ws_put_row_tree(call->out, call->lanes);
	return 0;
}

/* The rows of each report with the session: a page then waits for one answer, not for two. */
static void put_trees(const struct ws_api_call *call)
{
	struct ws_err err;

	ws_put_json_key(call->out, "trees");
	ws_text_puts(call->out, "[");
	for (size_t i = 0; i < ws_view_count(call->view); i++) {
		struct ws_view_report *rep = &call->view->reports[i];
		struct ws_api_call of = *call;

		ws_put_json_comma(call->out);
		pthread_rwlock_rdlock(&rep->use);
		of.rep = rep;
		of.lanes = rep->lanes;
		ws_lanes_wait_census(of.lanes);
		pthread_rwlock_rdlock(&of.lanes->shown);
		ws_api_tree(&of, &err);
		pthread_rwlock_unlock(&of.lanes->shown);
		pthread_rwlock_unlock(&rep->use);
	}
	ws_text_puts(call->out, "]");
}

int ws_api_session(struct ws_api_call *call, struct ws_err *err)
{
	int64_t trees;

	if (!ws_param_int(call, "trees", ws_make_range(0, 1, 0), &trees, err))
		return 400;
	ws_text_puts(call->out, "{");
	ws_put_json_string(call->out, "version", WS_VERSION);
	ws_put_json_key(call->out, "reports");
	ws_text_puts(call->out, "[");
	for (size_t i = 0; i < ws_view_count(call->view); i++) {
		pthread_rwlock_rdlock(&call->view->reports[i].use);
		put_report(call->out, &call->view->reports[i], i);
		pthread_rwlock_unlock(&call->view->reports[i].use);
	}
	ws_text_puts(call->out, "]");
	if (call->view->uploads)
		ws_put_json_int(call->out, "upload_most", (int64_t)WS_UPLOAD_MOST);
	ws_put_json_int(call->out, "record", call->view->rec != NULL);
	if (trees)
		put_trees(call);
	ws_text_puts(call->out, "}");
	return 0;
}
