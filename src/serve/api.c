/* api.c - see api.h: opening, parameters, JSON, and the table of what can be asked. */
#include "serve/api.h"
#include "query/operand.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lanes/row_tree.h"
#include "text/text.h"
#include "serve/jobs.h"
#include "serve/live.h"

/* ---- reports ---- */

int ws_view_add(struct ws_view *view, struct ws_report *r, const char *path, struct ws_err *e)
{
	struct ws_view_report *v;
	size_t n;

	pthread_mutex_lock(&view->adding);
	n = view->n;
	if (n == view->room) {
		pthread_mutex_unlock(&view->adding);
		ws_report_close(r);
		return ws_fail(e, "the page shows %zu reports already; no more can be added to it",
			       n);
	}
	v = &view->v[n];
	v->path = ws_strdup(path);
	v->r = r;
	v->lanes = ws_lanes_open(r, view->opts);
	v->realtime = ws_lanes_realtime(r, v->lanes->zero);
	v->live = ws_report_live(r);
	pthread_rwlock_init(&v->use, NULL);
	__atomic_store_n(&view->n, n + 1, __ATOMIC_RELEASE);
	if (v->live && !view->live)
		view->live = ws_live_new(view);
	pthread_mutex_unlock(&view->adding);
	return (int)n;
}

int ws_view_open(struct ws_view *view, const char *const *files, size_t n,
		 const struct ws_lanes_opts *opts, struct ws_err *e)
{
	memset(view, 0, sizeof(*view));
	view->opts = opts;
	view->room = n + WS_VIEW_ADDED_MOST;
	view->v = ws_calloc(view->room, sizeof(*view->v));
	pthread_mutex_init(&view->adding, NULL);
	for (size_t i = 0; i < n; i++) {
		char *path = ws_report_operand(files[i]);
		struct ws_report *r = ws_report_open(path, e);

		if (r)
			ws_view_add(view, r, path, e);
		free(path);
		if (!r) {
			ws_view_close(view);
			return -1;
		}
	}
	return 0;
}

void ws_view_close(struct ws_view *view)
{
	ws_live_free(view->live);
	for (size_t i = 0; i < view->n; i++) {
		ws_lanes_close(view->v[i].lanes);
		if (view->v[i].r)
			ws_report_close(view->v[i].r);
		free(view->v[i].path);
		pthread_rwlock_destroy(&view->v[i].use);
	}
	free(view->v);
	pthread_mutex_destroy(&view->adding);
	memset(view, 0, sizeof(*view));
}

/* ---- parameters ---- */

const char *ws_param(const struct ws_call *c, const char *name)
{
	return c->p->get(c->p->ctx, name);
}

static bool read_int(const char *s, const char **end, int64_t *v)
{
	errno = 0;
	*v = strtoll(s, (char **)end, 10);
	return *end != s && !errno && ((*s >= '0' && *s <= '9') || *s == '-');
}

bool ws_param_int(const struct ws_call *c, const char *name, int64_t low, int64_t high,
		  int64_t fallback, int64_t *v, struct ws_err *e)
{
	const char *s = ws_param(c, name), *end;

	*v = fallback;
	if (!s)
		return true;
	if (read_int(s, &end, v) && !*end && *v >= low && *v <= high)
		return true;
	ws_fail(e, "parameter %s must be a whole number from %" PRId64 " to %" PRId64, name, low,
		high);
	return false;
}

bool ws_param_window(const struct ws_call *c, int64_t *t0, int64_t *t1, struct ws_err *e)
{
	int64_t most = INT64_MAX / 4, zero = (int64_t)c->l->zero;

	if (!ws_param_int(c, "t0", -most, most, -most, t0, e) ||
	    !ws_param_int(c, "t1", -most, most, most, t1, e))
		return false;
	*t0 += zero;
	*t1 += zero;
	return true;
}

static bool is_meant(uint8_t kind, enum ws_which_lanes which)
{
	if (kind == WS_LANE_STREAM || kind == WS_LANE_CPU)
		return which == WS_LANES_ALL;
	return kind != WS_LANE_PROJECTED || which != WS_LANES_ORIGINAL;
}

bool ws_param_lanes(const struct ws_call *c, enum ws_which_lanes which, uint32_t **lanes, size_t *n,
		    struct ws_err *e)
{
	const char *s = ws_param(c, "lanes");
	size_t cap = 0;
	int64_t v;

	*lanes = NULL;
	*n = 0;
	for (size_t i = 0; !s && i < c->l->n; i++) {
		if (!is_meant(c->l->lane[i]->kind, which))
			continue;
		ws_grow(*lanes, cap, *n + 1);
		(*lanes)[(*n)++] = (uint32_t)i;
	}
	while (s && *s) {
		if (!read_int(s, &s, &v) || v < 0 || v >= (int64_t)c->l->n || (*s && *s != ',')) {
			ws_fail(e, "parameter lanes must be numbers of rows, such as 1,2,3");
			free(*lanes);
			return false;
		}
		s += *s == ',';
		ws_grow(*lanes, cap, *n + 1);
		(*lanes)[(*n)++] = (uint32_t)v;
	}
	return true;
}

/* ---- what can be asked ---- */

int ws_api_progress(struct ws_call *c, struct ws_err *e)
{
	uint32_t reading, unread = ws_lanes_unread(c->l, &reading);

	(void)e;
	ws_text_puts(c->out, "{");
	ws_put_int(c->out, "events", (int64_t)c->l->events);
	ws_put_int(c->out, "built",
		   (int64_t)__atomic_load_n(&c->l->built_events, __ATOMIC_RELAXED));
	ws_put_int(c->out, "done", __atomic_load_n(&c->l->placed, __ATOMIC_ACQUIRE));
	ws_put_int(c->out, "all", __atomic_load_n(&c->l->built, __ATOMIC_ACQUIRE) && !reading);
	ws_put_int(c->out, "unread", unread);
	ws_put_int(c->out, "damaged", (int64_t)__atomic_load_n(&c->l->damaged, __ATOMIC_RELAXED));
	ws_text_puts(c->out, "}");
	return 0;
}

/* What a page asks again and again: whether there is something new. */
int ws_api_state(struct ws_call *c, struct ws_err *e)
{
	(void)e;
	ws_text_puts(c->out, "{");
	ws_put_key(c->out, "reports");
	ws_text_puts(c->out, "[");
	for (size_t i = 0; i < ws_view_count(c->view); i++) {
		const struct ws_view_report *rep = &c->view->v[i];

		ws_put_comma(c->out);
		ws_text_puts(c->out, "{");
		ws_put_int(c->out, "live", __atomic_load_n(&rep->live, __ATOMIC_RELAXED));
		ws_put_int(c->out, "version",
			   (int64_t)__atomic_load_n(&rep->version, __ATOMIC_RELAXED));
		ws_text_puts(c->out, "}");
	}
	ws_text_puts(c->out, "]");
	if (c->view->jobs)
		ws_jobs_put(c->view->jobs, c->out);
	ws_text_puts(c->out, "}");
	return 0;
}

static const struct entry {
	const char *path;
	ws_api_fn *fn;
	const char *type;
	bool of_page; /* it is about no single report */
} entries[] = {
	{"session", ws_api_session, "application/json", true},
	{"record", ws_api_record, "application/json", true},
	{"state", ws_api_state, "application/json", true},
	{"diff", ws_api_diff, "application/json", true},
	{"tree", ws_api_tree, "application/json"},
	{"tiles", ws_api_tiles, "application/octet-stream"},
	{"at", ws_api_at, "application/json"},
	{"event", ws_api_event, "application/json"},
	{"sum", ws_api_sum, "application/json"},
	{"events", ws_api_events, "application/json"},
	{"search", ws_api_search, "application/json"},
	{"step", ws_api_step, "application/json"},
	{"names", ws_api_names, "application/json"},
	{"sql", ws_api_sql, "application/json"},
	{"flame", ws_api_flame, "application/json"},
	{"progress", ws_api_progress, "application/json"},
};

static int fail(struct ws_answer *a, int status, const char *sentence)
{
	a->body.len = 0;
	ws_text_puts(&a->body, sentence);
	a->type = "text/plain; charset=utf-8";
	return status;
}

int ws_api(struct ws_view *view, const char *path, const struct ws_params *p, struct ws_answer *a)
{
	struct ws_call c = {.view = view, .p = p, .out = &a->body, .answer = a};
	struct ws_err e = {.msg = ""};
	int64_t report;
	int status;

	for (size_t i = 0; i < WS_COUNT(entries); i++) {
		if (strcmp(entries[i].path, path))
			continue;
		if (entries[i].of_page) {
			a->type = entries[i].type;
			return entries[i].fn(&c, &e) ? fail(a, 400, e.msg) : 200;
		}
		if (!ws_view_count(view))
			return fail(a, 400, "There is no report yet.");
		if (!ws_param_int(&c, "r", 0, (int64_t)ws_view_count(view) - 1, 0, &report, &e))
			return fail(a, 400, e.msg);
		c.rep = &view->v[report];
		a->type = entries[i].type;
		pthread_rwlock_rdlock(&view->v[report].use);
		c.l = c.rep->lanes;
		ws_lanes_wait_census(c.l);
		pthread_rwlock_rdlock(&c.l->shown);
		status = entries[i].fn(&c, &e);
		pthread_rwlock_unlock(&c.l->shown);
		pthread_rwlock_unlock(&view->v[report].use);
		if (status ==
		    WS_API_SAY) { /* what the user typed, not what the page did, was wrong */
			a->body.len = 0;
			ws_text_puts(&a->body, "{");
			ws_put_string(&a->body, "error", e.msg);
			ws_text_puts(&a->body, "}");
			return 200;
		}
		return status ? fail(a, status, e.msg) : 200;
	}
	return fail(a, 404, "There is nothing here.");
}
