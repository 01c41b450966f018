/*
 * live.c - see live.h.
 *
 * What is in the file and its journal is opened anew, as any reader of a live report does, read
 * into lanes that keep their numbers, and takes the place of what was there: an answer is always
 * about one state. Lanes that someone looked at are read before, so that no picture gets worse. How
 * often follows from how long that takes: a tenth of the time, at most once a second.
 */
#include "lanes/row_tree.h"
#include "serve/live.h"

#include <stdlib.h>
#include <time.h>

#include "base/ticks.h"

enum { LEAST_MS = 1000, MOST_MS = 30000, SHARE = 10, PATIENCE_MS = 3000 };

struct ws_live {
	struct ws_view *view;
	pthread_t thread;
	bool there;
	pthread_mutex_t lock; /* of looking: one at a time */
	int stop;	      /* atomic */
};

static void pause_ms(int ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static uint64_t rows_of(const struct ws_report *report)
{
	uint64_t n = 0;

	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		n += ws_report_count_rows(report, (enum ws_table)t);
	return n;
}

/* Read the lanes again that were read before. This must not take long; lanes that are not done in
 * time are drawn from their blocks. */
static void warm_lanes(struct ws_lanes *lanes, const struct ws_lanes *old)
{
	uint32_t reading = 1;

	ws_lanes_wait_census(lanes);
	for (uint32_t i = 0; i < old->n; i++)
		if (ws_lane_ready(old->lane[i]) &&
		    __atomic_load_n(&old->lane[i]->asked, __ATOMIC_RELAXED))
			ws_lanes_want(lanes, i);
	for (int ms = 0; reading && ms < PATIENCE_MS; ms += 5) {
		ws_lanes_unread(lanes, &reading);
		pause_ms(5);
	}
}

/* False when it can no longer be opened. */
static bool look_for_growth(struct ws_view *view, size_t i)
{
	struct ws_view_report *report = &view->reports[i];
	struct ws_report *report_r = ws_report_open_plain(report->path, NULL),
			 *old_r = report->report;
	struct ws_lanes *old = report->lanes, *lanes;
	struct ws_lanes_opts opts;
	bool live;

	if (!report_r)
		return false;
	live = ws_report_is_live(report_r);
	if (live && rows_of(report_r) == rows_of(old_r)) {
		ws_report_close(report_r);
		return true;
	}
	ws_lanes_wait_census(old);
	opts = old->opts;
	opts.like = old;
	lanes = ws_lanes_open(report_r, &opts);
	warm_lanes(lanes, old);
	pthread_rwlock_wrlock(&report->use);
	report->report = report_r;
	report->lanes = lanes;
	lanes->opts.like = NULL;
	report->realtime = ws_lanes_realtime(report_r, lanes->zero);
	__atomic_add_fetch(&report->version, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&report->live, live, __ATOMIC_RELAXED);
	ws_view_mark_file(report);
	pthread_rwlock_unlock(&report->use);
	ws_lanes_close(old);
	ws_report_close(old_r);
	return true;
}

static void renew_report(struct ws_live *live, size_t i)
{
	pthread_mutex_lock(&live->lock);
	if (__atomic_load_n(&live->view->reports[i].live, __ATOMIC_RELAXED) &&
	    !look_for_growth(live->view, i))
		__atomic_store_n(&live->view->reports[i].live, false, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&live->lock);
}

static void *watch_reports(void *arg)
{
	struct ws_live *live = arg;

	while (!__atomic_load_n(&live->stop, __ATOMIC_RELAXED)) {
		uint64_t begin = ws_read_raw_ns(), took;
		int wait;

		for (size_t i = 0; i < ws_view_count(live->view) &&
				   !__atomic_load_n(&live->stop, __ATOMIC_RELAXED);
		     i++)
			renew_report(live, i);
		took = (ws_read_raw_ns() - begin) / 1000000 * SHARE;
		wait = took < LEAST_MS ? LEAST_MS : took > MOST_MS ? MOST_MS : (int)took;
		for (; wait > 0 && !__atomic_load_n(&live->stop, __ATOMIC_RELAXED); wait -= 50)
			pause_ms(50);
	}
	return NULL;
}

struct ws_live *ws_live_new(struct ws_view *view)
{
	struct ws_live *live = ws_calloc(1, sizeof(*live));

	live->view = view;
	pthread_mutex_init(&live->lock, NULL);
	live->there = !pthread_create(&live->thread, NULL, watch_reports, live);
	return live;
}

void ws_live_free(struct ws_live *live)
{
	if (!live)
		return;
	__atomic_store_n(&live->stop, 1, __ATOMIC_RELAXED);
	if (live->there)
		pthread_join(live->thread, NULL);
	pthread_mutex_destroy(&live->lock);
	free(live);
}

void ws_live_look(struct ws_view *view, size_t report)
{
	if (view->live)
		renew_report(view->live, report);
}
