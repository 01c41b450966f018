/* api.c - see api.h: opening, parameters, JSON, and the table of what can be asked. */
#include "serve/api.h"
#include "query/operand.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lanes/row_tree.h"
#include "text/text.h"
#include "serve/analyses.h"
#include "serve/jobs.h"
#include "serve/live.h"

/* ---- reports ---- */

static struct ws_file_mark mark_file(const char *path)
{
	struct stat status;

	if (stat(path, &status) || !S_ISREG(status.st_mode))
		return (struct ws_file_mark){0};
	return (struct ws_file_mark){
		.known = true,
		.device = status.st_dev,
		.inode = status.st_ino,
		.bytes = (uint64_t)status.st_size,
		.modified_ns = status.st_mtim.tv_sec * INT64_C(1000000000) + status.st_mtim.tv_nsec,
	};
}

void ws_view_mark_file(struct ws_view_report *report)
{
	report->mark = mark_file(report->path);
	if (__atomic_load_n(&report->live, __ATOMIC_RELAXED))
		report->mark.known = false; /* it grows */
}

/* The state of the file at the report's path: 0: it is the one that was opened; 1: it was replaced
 * or removed, and the events shown are those of the opened file; 2: it was written to. */
static int compare_file(struct ws_view_report *report)
{
	struct ws_file_mark was, is;

	pthread_rwlock_rdlock(&report->use);
	was = report->mark;
	pthread_rwlock_unlock(&report->use);
	if (!was.known)
		return 0;
	is = mark_file(report->path);
	if (!is.known || is.device != was.device || is.inode != was.inode)
		return 1;
	if (is.bytes != was.bytes || is.modified_ns != was.modified_ns)
		return 2;
	return 0;
}

int ws_view_add(struct ws_view *view, struct ws_report *report, const char *path,
		struct ws_err *err)
{
	struct ws_view_report *view_report;
	size_t n;

	pthread_mutex_lock(&view->adding);
	n = view->n;
	if (n == view->room) {
		pthread_mutex_unlock(&view->adding);
		ws_report_close(report);
		return ws_fail(err,
			       "the page shows %zu reports already; no more can be added to it", n);
	}
	view_report = &view->reports[n];
	view_report->path = ws_strdup(path);
	view_report->report = report;
	view_report->lanes = ws_lanes_open(report, view->opts);
	view_report->realtime = ws_lanes_realtime(report, view_report->lanes->zero);
	view_report->live = ws_report_is_live(report);
	pthread_rwlock_init(&view_report->use, NULL);
	ws_view_mark_file(view_report);
	__atomic_store_n(&view->n, n + 1, __ATOMIC_RELEASE);
	if (view_report->live && !view->live)
		view->live = ws_live_new(view);
	pthread_mutex_unlock(&view->adding);
	return (int)n;
}

int ws_view_open(struct ws_view *view, const char *const *files, size_t n,
		 const struct ws_lanes_opts *opts, struct ws_err *err)
{
	memset(view, 0, sizeof(*view));
	view->opts = opts;
	view->room = n + WS_VIEW_ADDED_MOST;
	view->reports = ws_calloc(view->room, sizeof(*view->reports));
	pthread_mutex_init(&view->adding, NULL);
	view->analyses = ws_analyses_new();
	for (size_t i = 0; i < n; i++) {
		char *path = ws_find_operand_report(files[i]);
		struct ws_report *report = ws_report_open(path, err);

		if (report)
			ws_view_add(view, report, path, err);
		free(path);
		if (!report) {
			ws_view_close(view);
			return -1;
		}
	}
	return 0;
}

void ws_view_close(struct ws_view *view)
{
	ws_live_free(view->live);
	ws_analyses_free(view->analyses);
	for (size_t i = 0; i < view->n; i++) {
		ws_lanes_close(view->reports[i].lanes);
		if (view->reports[i].report)
			ws_report_close(view->reports[i].report);
		free(view->reports[i].path);
		pthread_rwlock_destroy(&view->reports[i].use);
	}
	free(view->reports);
	pthread_mutex_destroy(&view->adding);
	memset(view, 0, sizeof(*view));
}

/* ---- parameters ---- */

const char *ws_param(const struct ws_api_call *call, const char *name)
{
	return call->params->get(call->params->ctx, name);
}

static bool read_int(const char *text, const char **end, int64_t *v)
{
	errno = 0;
	*v = strtoll(text, (char **)end, 10);
	return *end != text && !errno && ((*text >= '0' && *text <= '9') || *text == '-');
}

bool ws_param_int(const struct ws_api_call *call, const char *name, struct ws_param_range range,
		  int64_t *v, struct ws_err *err)
{
	const char *text = ws_param(call, name), *end;

	*v = range.fallback;
	if (!text)
		return true;
	if (read_int(text, &end, v) && !*end && *v >= range.low && *v <= range.high)
		return true;
	ws_fail(err, "parameter %s must be a whole number from %" PRId64 " to %" PRId64, name,
		range.low, range.high);
	return false;
}

bool ws_param_window(const struct ws_api_call *call, int64_t *t0, int64_t *t1, struct ws_err *err)
{
	int64_t most = INT64_MAX / 4, zero = (int64_t)call->lanes->zero;

	if (!ws_param_int(call, "t0", ws_make_range(-most, most, -most), t0, err) ||
	    !ws_param_int(call, "t1", ws_make_range(-most, most, most), t1, err))
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

bool ws_param_lanes(const struct ws_api_call *call, enum ws_which_lanes which, uint32_t **lanes,
		    size_t *n, struct ws_err *err)
{
	const char *text = ws_param(call, "lanes");
	size_t cap = 0;
	int64_t v;

	*lanes = NULL;
	*n = 0;
	for (size_t i = 0; !text && i < call->lanes->n; i++) {
		if (!is_meant(call->lanes->lane[i]->kind, which))
			continue;
		ws_grow(*lanes, cap, *n + 1);
		(*lanes)[(*n)++] = (uint32_t)i;
	}
	while (text && *text) {
		if (!read_int(text, &text, &v) || v < 0 || v >= (int64_t)call->lanes->n ||
		    (*text && *text != ',')) {
			ws_fail(err, "parameter lanes must be numbers of rows, such as 1,2,3");
			free(*lanes);
			*lanes = NULL;
			return false;
		}
		text += *text == ',';
		ws_grow(*lanes, cap, *n + 1);
		(*lanes)[(*n)++] = (uint32_t)v;
	}
	return true;
}

/* ---- what can be asked ---- */

int ws_api_progress(struct ws_api_call *call, struct ws_err *err)
{
	uint32_t reading, unread = ws_lanes_unread(call->lanes, &reading);

	(void)err;
	ws_text_puts(call->out, "{");
	ws_put_json_int(call->out, "events", (int64_t)call->lanes->events);
	ws_put_json_int(call->out, "built",
			(int64_t)__atomic_load_n(&call->lanes->built_events, __ATOMIC_RELAXED));
	ws_put_json_int(call->out, "done", __atomic_load_n(&call->lanes->placed, __ATOMIC_ACQUIRE));
	ws_put_json_int(call->out, "all",
			__atomic_load_n(&call->lanes->built, __ATOMIC_ACQUIRE) && !reading);
	ws_put_json_int(call->out, "unread", unread);
	ws_put_json_int(call->out, "damaged",
			(int64_t)__atomic_load_n(&call->lanes->damaged, __ATOMIC_RELAXED));
	ws_text_puts(call->out, "}");
	return 0;
}

/* The request by which a page polls for changes. */
int ws_api_state(struct ws_api_call *call, struct ws_err *err)
{
	(void)err;
	ws_text_puts(call->out, "{");
	ws_put_json_key(call->out, "reports");
	ws_text_puts(call->out, "[");
	for (size_t i = 0; i < ws_view_count(call->view); i++) {
		struct ws_view_report *rep = &call->view->reports[i];

		ws_put_json_comma(call->out);
		ws_text_puts(call->out, "{");
		ws_put_json_int(call->out, "live", __atomic_load_n(&rep->live, __ATOMIC_RELAXED));
		ws_put_json_int(call->out, "version",
				(int64_t)__atomic_load_n(&rep->version, __ATOMIC_RELAXED));
		ws_put_json_int(call->out, "changed", compare_file(rep));
		ws_text_puts(call->out, "}");
	}
	ws_text_puts(call->out, "]");
	if (call->view->jobs)
		ws_jobs_put(call->view->jobs, call->out);
	ws_text_puts(call->out, "}");
	return 0;
}

static const struct entry {
	const char *path;
	ws_api_fn *fn;
	const char *type;
	bool of_page; /* it is not about a single report */
	bool of_file; /* it uses the report but not its lanes, which may change meanwhile */
} entries[] = {
	{"session", ws_api_session, "application/json", true},
	{"record", ws_api_record, "application/json", true},
	{"state", ws_api_state, "application/json", true},
	{"diff", ws_api_diff, "application/json", true},
	{"changes", ws_api_changes, "application/json", true},
	{"tree", ws_api_tree, "application/json"},
	{"tiles", ws_api_tiles, "application/octet-stream"},
	{"at", ws_api_at, "application/json"},
	{"event", ws_api_event, "application/json"},
	{"sum", ws_api_sum, "application/json"},
	{"events", ws_api_events, "application/json"},
	{"counters", ws_api_counters, "application/json"},
	{"durations", ws_api_durations, "application/json"},
	{"search", ws_api_search, "application/json"},
	{"step", ws_api_step, "application/json"},
	{"names", ws_api_names, "application/json"},
	{"sql", ws_api_sql, "application/json"},
	{"query", ws_api_query, "application/json", .of_file = true},
	{"findings", ws_api_findings, "application/json", .of_file = true},
	{"path", ws_api_path, "application/json", .of_file = true},
	{"kernels", ws_api_kernels, "application/json", .of_file = true},
	{"kernel", ws_api_kernel, "application/json", .of_file = true},
	{"launch", ws_api_launch, "application/json", .of_file = true},
	{"flame", ws_api_flame, "application/json"},
	{"progress", ws_api_progress, "application/json"},
};

static int answer_error(struct ws_answer *answer, int status, const char *sentence)
{
	answer->body.len = 0;
	ws_text_puts(&answer->body, sentence);
	answer->type = "text/plain; charset=utf-8";
	return status;
}

/* Call the function that answers about one report, which does not change meanwhile. */
static int ask_report(const struct entry *entry, struct ws_view_report *report,
		      struct ws_api_call *call, struct ws_err *err)
{
	int status;

	pthread_rwlock_rdlock(&report->use);
	call->rep = report;
	call->lanes = report->lanes;
	if (entry->of_file) {
		status = entry->fn(call, err);
	} else {
		ws_lanes_wait_census(call->lanes);
		pthread_rwlock_rdlock(&call->lanes->shown);
		status = entry->fn(call, err);
		pthread_rwlock_unlock(&call->lanes->shown);
	}
	pthread_rwlock_unlock(&report->use);
	return status;
}

/* The user's input was wrong, not the page's request. */
static int say_error(struct ws_answer *answer, const char *sentence)
{
	answer->body.len = 0;
	ws_text_puts(&answer->body, "{");
	ws_put_json_string(&answer->body, "error", sentence);
	ws_text_puts(&answer->body, "}");
	return 200;
}

static const struct entry *find_entry(const char *path)
{
	for (size_t i = 0; i < WS_COUNT(entries); i++)
		if (!strcmp(entries[i].path, path))
			return &entries[i];
	return NULL;
}

int ws_api(struct ws_view *view, const char *path, const struct ws_params *params,
	   struct ws_answer *answer)
{
	struct ws_api_call call = {
		.view = view, .params = params, .out = &answer->body, .answer = answer};
	const struct entry *entry = find_entry(path);
	struct ws_err err = {.msg = ""};
	int64_t report;
	int status;

	if (!entry)
		return answer_error(answer, 404, "There is nothing here.");
	answer->type = entry->type;
	if (entry->of_page) {
		status = entry->fn(&call, &err);
		return status ? answer_error(answer, 400, err.msg) : 200;
	}
	if (!ws_view_count(view))
		return answer_error(answer, 400, "There is no report yet.");
	if (!ws_param_int(&call, "r", ws_make_range(0, (int64_t)ws_view_count(view) - 1, 0),
			  &report, &err))
		return answer_error(answer, 400, err.msg);
	status = ask_report(entry, &view->reports[report], &call, &err);
	if (status == WS_API_SAY)
		return say_error(answer, err.msg);
	return status ? answer_error(answer, status, err.msg) : 200;
}
