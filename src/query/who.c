/* who.c - threads and processes by id, with their best names. Small tables: read once, kept in
 * arrays. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "query/query.h"

#define MOST_IDS (UINT32_C(1) << 26) /* no recording has more */

struct ws_who {
	struct ws_thread_info *threads;
	struct ws_process_info *processes;
	int32_t *priority; /* of the name that a thread has so far */
	uint64_t *named;   /* and since when */
	uint32_t thread_cap, process_cap, thread_count, process_count; /* counts: highest id */
};

static const struct ws_thread_info no_thread = {.name = "", .process_name = "unknown"};
static const struct ws_process_info no_process = {
	.name = "unknown", .exe = "", .cmdline = "", .end = WS_NO_TIME};

static void grow_threads(struct ws_who *w, uint32_t id)
{
	uint32_t old = w->thread_cap;

	ws_grow(w->threads, w->thread_cap, (size_t)id + 1);
	w->priority = ws_realloc(w->priority, (size_t)w->thread_cap * sizeof(*w->priority));
	w->named = ws_realloc(w->named, (size_t)w->thread_cap * sizeof(*w->named));
	for (uint32_t i = old; i < w->thread_cap; i++) {
		w->threads[i] = no_thread;
		w->priority[i] = INT32_MIN;
		w->named[i] = 0;
	}
}

static void grow_processes(struct ws_who *w, uint32_t id)
{
	uint32_t old = w->process_cap;

	ws_grow(w->processes, w->process_cap, (size_t)id + 1);
	for (uint32_t i = old; i < w->process_cap; i++)
		w->processes[i] = no_process;
}

/* Ids count up from 1, so they go little beyond the number of rows (some may be lost): a damaged
 * one must not cost gigabytes. */
static uint32_t most_ids(const struct ws_report *r, enum ws_table t)
{
	uint64_t most = (UINT64_C(1) << 17) + ws_report_rows(r, t) * 64;

	return most < MOST_IDS ? (uint32_t)most : MOST_IDS;
}

static void read_processes(struct ws_who *w, const struct ws_report *r)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_process, 0, UINT64_MAX);
	uint32_t most = most_ids(r, WS_TABLE_process);
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		uint32_t id = (uint32_t)v[ws_process_id];

		if (!id || id > most)
			continue;
		grow_processes(w, id);
		w->process_count = id > w->process_count ? id : w->process_count;
		w->processes[id] = (struct ws_process_info){
			.id = id,
			.pid = (uint32_t)v[ws_process_pid],
			.parent = (uint32_t)v[ws_process_parent],
			.name = ws_report_string(r, (uint32_t)v[ws_process_name], NULL),
			.exe = ws_report_string(r, (uint32_t)v[ws_process_exe], NULL),
			.cmdline = ws_report_string(r, (uint32_t)v[ws_process_cmdline], NULL),
			.start = v[ws_process_start],
			.end = WS_NO_TIME,
			.global_pid = (v[ws_process_vm] & 0xffff) << 48 | v[ws_process_pid] << 24,
		};
	}
	ws_cursor_close(c);
}

static void read_ends(struct ws_who *w, const struct ws_report *r)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_process_end, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(c, &v))
		if (v[ws_process_end_process] <= w->process_count && w->process_count)
			w->processes[v[ws_process_end_process]].end = v[ws_process_end_end];
	ws_cursor_close(c);
}

static void read_threads(struct ws_who *w, const struct ws_report *r)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_thread, 0, UINT64_MAX);
	uint32_t most = most_ids(r, WS_TABLE_thread);
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		uint32_t id = (uint32_t)v[ws_thread_id];
		const struct ws_process_info *p = ws_who_process(w, (uint32_t)v[ws_thread_process]);

		if (!id || id > most)
			continue;
		grow_threads(w, id);
		w->thread_count = id > w->thread_count ? id : w->thread_count;
		w->threads[id] = (struct ws_thread_info){
			.id = id,
			.tid = (uint32_t)v[ws_thread_tid],
			.process = (uint32_t)v[ws_thread_process],
			.pid = p->pid,
			.name = "",
			.process_name = p->name,
			.global_tid = p->global_pid | (v[ws_thread_tid] & 0xffffff),
		};
	}
	ws_cursor_close(c);
}

/* The name of highest priority; among equals the newest. */
static void read_names(struct ws_who *w, const struct ws_report *r)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_thread_name, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		uint32_t id = (uint32_t)v[ws_thread_name_thread];
		int32_t priority = (int32_t)v[ws_thread_name_priority];

		if (!id || id > w->thread_count || priority < w->priority[id] ||
		    (priority == w->priority[id] && v[ws_thread_name_start] < w->named[id]))
			continue;
		w->priority[id] = priority;
		w->named[id] = v[ws_thread_name_start];
		w->threads[id].priority = priority;
		w->threads[id].name = ws_report_string(r, (uint32_t)v[ws_thread_name_name], NULL);
	}
	ws_cursor_close(c);
}

struct ws_who *ws_who_open(const struct ws_report *r)
{
	struct ws_who *w = ws_calloc(1, sizeof(*w));

	read_processes(w, r);
	read_ends(w, r);
	read_threads(w, r);
	read_names(w, r);
	return w;
}

const struct ws_thread_info *ws_who_thread(const struct ws_who *w, uint32_t id)
{
	return id && id <= w->thread_count ? &w->threads[id] : &no_thread;
}

const struct ws_process_info *ws_who_process(const struct ws_who *w, uint32_t id)
{
	return id && id <= w->process_count ? &w->processes[id] : &no_process;
}

uint32_t ws_who_threads(const struct ws_who *w)
{
	return w->thread_count;
}

uint32_t ws_who_processes(const struct ws_who *w)
{
	return w->process_count;
}

void ws_who_close(struct ws_who *w)
{
	if (!w)
		return;
	free(w->threads);
	free(w->processes);
	free(w->priority);
	free(w->named);
	free(w);
}
