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

int ws_api_tree(struct ws_call *c, struct ws_err *e)
{
	(void)e;
	ws_put_row_tree(c->out, c->l);
	return 0;
}

/* The rows of each report with the session: a page then waits for one answer, not for two. */
static void put_trees(const struct ws_call *c)
{
	struct ws_err e;

	ws_put_key(c->out, "trees");
	ws_text_puts(c->out, "[");
	for (size_t i = 0; i < ws_view_count(c->view); i++) {
		struct ws_view_report *rep = &c->view->v[i];
		struct ws_call of = *c;

		ws_put_comma(c->out);
		pthread_rwlock_rdlock(&rep->use);
		of.rep = rep;
		of.l = rep->lanes;
		ws_lanes_wait_census(of.l);
		pthread_rwlock_rdlock(&of.l->shown);
		ws_api_tree(&of, &e);
		pthread_rwlock_unlock(&of.l->shown);
		pthread_rwlock_unlock(&rep->use);
	}
	ws_text_puts(c->out, "]");
}

int ws_api_session(struct ws_call *c, struct ws_err *e)
{
	int64_t trees;

	if (!ws_param_int(c, "trees", 0, 1, 0, &trees, e))
		return 400;
	ws_text_puts(c->out, "{");
	ws_put_string(c->out, "version", WS_VERSION);
	ws_put_key(c->out, "reports");
	ws_text_puts(c->out, "[");
	for (size_t i = 0; i < ws_view_count(c->view); i++) {
		pthread_rwlock_rdlock(&c->view->v[i].use);
		put_report(c->out, &c->view->v[i], i);
		pthread_rwlock_unlock(&c->view->v[i].use);
	}
	ws_text_puts(c->out, "]");
	if (c->view->uploads)
		ws_put_int(c->out, "upload_most", (int64_t)WS_UPLOAD_MOST);
	ws_put_int(c->out, "record", c->view->rec != NULL);
	if (trees)
		put_trees(c);
	ws_text_puts(c->out, "}");
	return 0;
}
