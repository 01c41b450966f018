/* analyses.c - see analyses.h. */
#include "serve/analyses.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ticks.h"

enum { MOST_KEPT = 4, LOOK_MS = 20, WAIT_MS = 50, MOST_SECONDS = 600 };

struct ws_analyses {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct ws_shown_analysis *kept[MOST_KEPT];
	const struct ws_view_report *making[WS_VIEW_ADDED_MOST];
	size_t making_count;
	atomic_uint waiting; /* for results that other threads make */
	uint64_t uses;
};

struct ws_analyses *ws_analyses_new(void)
{
	struct ws_analyses *analyses = ws_calloc(1, sizeof(*analyses));

	pthread_mutex_init(&analyses->lock, NULL);
	pthread_cond_init(&analyses->changed, NULL);
	return analyses;
}

static void free_shown(struct ws_shown_analysis *shown)
{
	ws_findings_free(&shown->findings);
	ws_analysis_close(shown->analysis);
	if (shown->own)
		ws_report_close(shown->own);
	free(shown);
}

void ws_analyses_free(struct ws_analyses *analyses)
{
	if (!analyses)
		return;
	for (size_t i = 0; i < MOST_KEPT; i++)
		if (analyses->kept[i])
			free_shown(analyses->kept[i]);
	pthread_mutex_destroy(&analyses->lock);
	pthread_cond_destroy(&analyses->changed);
	free(analyses);
}

/* ---- what is kept, under the lock ---- */

static struct ws_shown_analysis *find_kept(struct ws_analyses *analyses,
					   const struct ws_view_report *report)
{
	for (size_t i = 0; i < MOST_KEPT; i++)
		if (analyses->kept[i] && analyses->kept[i]->of == report)
			return analyses->kept[i];
	return NULL;
}

static void drop_kept(struct ws_analyses *analyses, size_t i)
{
	struct ws_shown_analysis *shown = analyses->kept[i];

	analyses->kept[i] = NULL;
	if (!shown)
		return;
	shown->kept = false;
	if (!shown->users)
		free_shown(shown);
}

/* Replaces the entry of the same report, a free one, or the least recently used one. */
static size_t choose_place(const struct ws_analyses *analyses, const struct ws_view_report *report)
{
	size_t place = 0;

	for (size_t i = 0; i < MOST_KEPT; i++)
		if (analyses->kept[i] && analyses->kept[i]->of == report)
			return i;
	for (size_t i = 0; i < MOST_KEPT; i++) {
		if (!analyses->kept[i])
			return i;
		if (analyses->kept[i]->used < analyses->kept[place]->used)
			place = i;
	}
	return place;
}

static void keep_analysis(struct ws_analyses *analyses, struct ws_shown_analysis *shown)
{
	size_t place = choose_place(analyses, shown->of);

	drop_kept(analyses, place);
	shown->kept = true;
	analyses->kept[place] = shown;
}

static bool is_being_made(const struct ws_analyses *analyses, const struct ws_view_report *report)
{
	for (size_t i = 0; i < analyses->making_count; i++)
		if (analyses->making[i] == report)
			return true;
	return false;
}

static void end_making(struct ws_analyses *analyses, const struct ws_view_report *report)
{
	size_t i = 0;

	while (analyses->making[i] != report)
		i++;
	analyses->making[i] = analyses->making[--analyses->making_count];
	pthread_cond_broadcast(&analyses->changed);
}

static void wait_changed(struct ws_analyses *analyses)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += WAIT_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&analyses->changed, &analyses->lock, &until);
}

/* ---- making one ---- */

struct making {
	const struct ws_api_call *call;
	uint64_t began_ms;
	_Atomic uint64_t looked_ms; /* the parts of an analysis run side by side, and each asks */
};

static bool is_gone(const struct ws_api_call *call)
{
	return call->params->is_gone && call->params->is_gone(call->params->ctx);
}

static bool is_cancelled(void *context)
{
	struct making *making = context;
	uint64_t now = ws_read_raw_ns() / 1000000, looked = atomic_load(&making->looked_ms);

	if (now > making->began_ms + MOST_SECONDS * 1000)
		return true;
	if (now < looked + LOOK_MS ||
	    !atomic_compare_exchange_strong(&making->looked_ms, &looked, now))
		return false;
	return !atomic_load(&making->call->view->analyses->waiting) && is_gone(making->call);
}

/* The caller keeps the report from changing; one that grows is reopened, so that the analysis can
 * be kept after it has grown. */
static struct ws_shown_analysis *make_analysis(const struct ws_api_call *call, struct ws_err *err)
{
	struct making making = {.call = call, .began_ms = ws_read_raw_ns() / 1000000};
	struct ws_model_options options = {
		.to = UINT64_MAX, .is_cancelled = is_cancelled, .context = &making};
	const struct ws_view_report *rep = call->rep;
	struct ws_shown_analysis *shown = ws_calloc(1, sizeof(*shown));
	const struct ws_report *report = rep->report;

	shown->of = rep;
	shown->version = __atomic_load_n(&rep->version, __ATOMIC_RELAXED);
	shown->last = rep->lanes->last;
	if (__atomic_load_n(&rep->live, __ATOMIC_RELAXED)) {
		report = shown->own = ws_report_open_plain(rep->path, err);
		if (!report) {
			free(shown);
			return NULL;
		}
	}
	shown->analysis = ws_analysis_open(report, &options, err);
	if (!shown->analysis) {
		free_shown(shown);
		return NULL;
	}
	ws_findings_make(shown->analysis, NULL, &shown->findings);
	if (ws_model_check_cancelled(shown->analysis->model, err)) {
		free_shown(shown);
		return NULL;
	}
	shown->analysis->model->is_cancelled = NULL;
	return shown;
}

/* ---- the interface ---- */

bool ws_analyses_have(struct ws_analyses *analyses, const struct ws_view_report *report)
{
	bool have;

	pthread_mutex_lock(&analyses->lock);
	have = find_kept(analyses, report) != NULL;
	pthread_mutex_unlock(&analyses->lock);
	return have;
}

static bool is_wanted(const struct ws_shown_analysis *shown, bool again)
{
	return shown &&
	       !(again && shown->version != __atomic_load_n(&shown->of->version, __ATOMIC_RELAXED));
}

/* Under the lock: get the analysis that is kept, or NULL when this thread is to make it. Returns -1
 * with a sentence when it cannot wait for the thread that is making it. */
static int wait_kept(const struct ws_api_call *call, bool again, struct ws_shown_analysis **kept,
		     struct ws_err *err)
{
	struct ws_analyses *analyses = call->view->analyses;
	int rc = 0;

	atomic_fetch_add(&analyses->waiting, 1);
	while (!rc && (is_being_made(analyses, call->rep) ||
		       analyses->making_count == WS_COUNT(analyses->making))) {
		wait_changed(analyses);
		if (is_gone(call))
			rc = ws_fail(err, "nobody waits for the analysis any more");
	}
	atomic_fetch_sub(&analyses->waiting, 1);
	*kept = find_kept(analyses, call->rep);
	if (!is_wanted(*kept, again))
		*kept = NULL;
	return rc;
}

struct ws_shown_analysis *ws_analyses_hold(const struct ws_api_call *call, bool again,
					   struct ws_err *err)
{
	struct ws_analyses *analyses = call->view->analyses;
	struct ws_shown_analysis *shown = NULL;

	pthread_mutex_lock(&analyses->lock);
	if (wait_kept(call, again, &shown, err)) {
		pthread_mutex_unlock(&analyses->lock);
		return NULL;
	}
	if (!shown) {
		analyses->making[analyses->making_count++] = call->rep;
		pthread_mutex_unlock(&analyses->lock);
		shown = make_analysis(call, err);
		pthread_mutex_lock(&analyses->lock);
		end_making(analyses, call->rep);
		if (shown)
			keep_analysis(analyses, shown);
	}
	if (shown) {
		shown->users++;
		shown->used = ++analyses->uses;
	}
	pthread_mutex_unlock(&analyses->lock);
	return shown;
}

void ws_analyses_release(struct ws_analyses *analyses, struct ws_shown_analysis *shown)
{
	bool last;

	pthread_mutex_lock(&analyses->lock);
	last = !--shown->users && !shown->kept;
	pthread_mutex_unlock(&analyses->lock);
	if (last)
		free_shown(shown);
}
