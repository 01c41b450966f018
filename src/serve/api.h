/*
 * api.h - what the page asks the server, without the network: a path, parameters, an answer. http.c
 * brings it to a socket, tests and the fuzzer call it directly. docs/viewer.md describes each path.
 */
#ifndef WS_SERVE_API_H
#define WS_SERVE_API_H

#include "lanes/lane_json.h"

struct ws_view_report {
	char *path;
	struct ws_report *report;
	struct ws_lanes *lanes;
	int64_t realtime;     /* CLOCK_REALTIME at time zero, ns; 0 when not known */
	pthread_rwlock_t use; /* held by users of the above: a report that grows is replaced by its
				 newer state (live.c) */
	bool live;	      /* atomic: it is being recorded */
	uint64_t version;     /* atomic: how often it was replaced */
	struct ws_file_mark {
		bool known; /* `path` is a file that is not being recorded */
		uint64_t device, inode, bytes;
		int64_t modified_ns;
	} mark; /* the file as it was when it was opened */
};

struct ws_recorder;
struct ws_live;
struct ws_jobs;
struct ws_analyses;

struct ws_view {
	struct ws_view_report *reports; /* with capacity for added reports: it does not move */
	size_t n, room; /* n is atomic: reports are added while others are shown, never removed */
	pthread_mutex_t adding;
	const struct ws_lanes_opts *opts; /* of its lanes; NULL for the usual ones */
	bool uploads;			  /* the page may send files */
	struct ws_live *live; /* keeps reports that are being recorded up to date; created when
				 there is one */
	struct ws_jobs *jobs; /* files that are being imported; NULL for none */
	struct ws_analyses *analyses; /* of its reports */
	struct ws_recorder *rec;      /* what the page may record; NULL for nothing */
};

/* How many reports the page can add to those it began with. */
enum { WS_VIEW_ADDED_MOST = 64 };

/* Opens the reports, which may be none; -1 with a message when one cannot be read. `opts` (NULL for
 * the usual) outlives the view.
 */
int ws_view_open(struct ws_view *view, const char *const *files, size_t n,
		 const struct ws_lanes_opts *opts, struct ws_err *err);
void ws_view_close(struct ws_view *view);
/* Remember which file is at the report's path, so that a replacement is noticed. Call it under
 * `use`, or before others see the report. */
void ws_view_mark_file(struct ws_view_report *report);
/* Add a report, which the view then owns, even on failure; `path` is shown for it. Returns its
 * number, or -1 with a sentence. */
int ws_view_add(struct ws_view *view, struct ws_report *report, const char *path,
		struct ws_err *err);
static inline size_t ws_view_count(const struct ws_view *view)
{
	return __atomic_load_n(&view->n, __ATOMIC_ACQUIRE);
}

struct ws_params {
	const char *(*get)(void *ctx, const char *name); /* NULL when it is not given */
	void *ctx;
	bool (*is_gone)(void *ctx); /* whether nobody waits for the answer any more; from any
				       thread while it is made. NULL: someone does */
};

struct ws_answer {
	struct ws_text body;
	const char *type;
};

/* Answer `path` ("session", "tree"...). Returns an HTTP status; unless it is 200, the body is one
 * sentence. Thread-safe. */
int ws_api(struct ws_view *view, const char *path, const struct ws_params *params,
	   struct ws_answer *answer);

/* ---- for the files that answer ---- */

struct ws_api_call {
	struct ws_view *view;
	const struct ws_view_report *rep; /* by parameter r; the first without */
	struct ws_lanes *lanes;		  /* its lanes; the census is taken */
	const struct ws_params *params;
	struct ws_text *out;
	struct ws_answer *answer;
};

/* 0, or a status with a sentence in `e`; WS_API_SAY for a sentence that is for the user:
 * {"error":"..."}. */
enum { WS_API_SAY = 1 };
typedef int ws_api_fn(struct ws_api_call *call, struct ws_err *err);
ws_api_fn ws_api_session, ws_api_tree, ws_api_tiles, ws_api_at, ws_api_event, ws_api_sum,
	ws_api_events, ws_api_search, ws_api_step, ws_api_names, ws_api_sql, ws_api_flame,
	ws_api_progress, ws_api_record, ws_api_state, ws_api_diff, ws_api_query, ws_api_durations,
	ws_api_findings, ws_api_path, ws_api_changes, ws_api_counters, ws_api_kernels,
	ws_api_kernel, ws_api_launch;

const char *ws_param(const struct ws_api_call *call, const char *name);
/* The limits of a number, and its default. */
struct ws_param_range {
	int64_t low, high, fallback;
};

static inline struct ws_param_range ws_make_range(int64_t low, int64_t high, int64_t fallback)
{
	return (struct ws_param_range){low, high, fallback};
}

/* Read a whole number. False, with a sentence in *err, when it is not a number or is out of
 * range. */
bool ws_param_int(const struct ws_api_call *call, const char *name, struct ws_param_range range,
		  int64_t *v, struct ws_err *err);
/* The window t0..t1, ns from time zero, as session times; all of it when not given. */
bool ws_param_window(const struct ws_api_call *call, int64_t *t0, int64_t *t1, struct ws_err *err);
/*
 * Lanes by number, "1,2,3". The default is all lanes; ONCE leaves out those that repeat what others
 * show, streams and cores, and ORIGINAL also ranges projected on GPUs. The caller frees.
 */
enum ws_which_lanes { WS_LANES_ALL, WS_LANES_ONCE, WS_LANES_ORIGINAL };
bool ws_param_lanes(const struct ws_api_call *call, enum ws_which_lanes which, uint32_t **lanes,
		    size_t *n, struct ws_err *err);

/* Whether a column's stored value means that there is none. */
bool ws_is_column_null(enum ws_type type, uint64_t v);
/* A column with its name, documentation, type and stored value, as members of a JSON object. */
void ws_put_column_value(struct ws_text *text, const struct ws_api_call *call,
			 const struct ws_column_desc *desc, uint64_t v);

/* Sums of a window by kind of lane and text. */
struct ws_sum_group {
	uint64_t count, total, min, max, self; /* self: of kinds whose events nest */
	uint32_t name, names;		       /* how many names are merged: those of a form */
	uint8_t kind;
	bool folded; /* the group is a form, not a name */
	struct ws_spot longest;
};
/* Whether the page wants names that differ only in numbers to be merged (parameter fold). */
bool ws_param_fold(const struct ws_api_call *call, bool *fold, struct ws_err *err);
/* The name of a group. */
const char *ws_sum_group_name(const struct ws_lanes *lanes, const struct ws_sum_group *group,
			      size_t *length);
struct ws_window_sums {
	struct ws_sum_group *groups; /* the caller frees them */
	size_t n;
	uint32_t unread; /* lanes that have not been read yet, whose events are missing */
};
/* Of events that touch t0..t1 (times of the session), cut to it. 0, or the status to answer with.
 */
int ws_sum_window(struct ws_api_call *call, int64_t t0, int64_t t1, struct ws_window_sums *sums,
		  struct ws_err *err);

/* Which names a search matches; asked once for each name. */
struct ws_matcher;
struct ws_matcher *ws_make_matcher(
	const struct ws_api_call *call,
	struct ws_err *err); /* by parameters q, re, case, exact; NULL with a sentence. */
bool ws_match_name(struct ws_matcher *matcher, uint32_t name);
/* Whether the regular expression took so long that names were left out; if so, with a sentence. */
bool ws_is_matcher_expired(const struct ws_matcher *matcher, struct ws_err *err);
void ws_matcher_free(struct ws_matcher *matcher);

#endif
