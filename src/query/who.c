/* who.c - threads and processes by id, with their best names. These are small tables: they are read
 * once and kept in arrays. */
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "query/query.h"

#define MAX_IDS (UINT32_C(1) << 26) /* no recording has more */

struct ws_names_by_id {
	struct ws_thread_info *threads;
	struct ws_process_info *processes;
	int32_t *priority; /* priority of the name that a thread has so far */
	uint64_t *named;   /* start of that name */
	uint32_t thread_cap, process_cap, thread_count, process_count; /* counts: highest id */
};

static const struct ws_thread_info no_thread = {.name = "", .process_name = "unknown"};
static const struct ws_process_info no_process = {
	.name = "unknown", .exe = "", .cmdline = "", .end = WS_NO_TIME};

static void grow_threads(struct ws_names_by_id *who, uint32_t id)
{
	uint32_t old = who->thread_cap;

	if (id < old)
		return;
	ws_grow(who->threads, who->thread_cap, (size_t)id + 1);
	who->priority = ws_realloc(who->priority, (size_t)who->thread_cap * sizeof(*who->priority));
	who->named = ws_realloc(who->named, (size_t)who->thread_cap * sizeof(*who->named));
	for (uint32_t i = old; i < who->thread_cap; i++) {
		who->threads[i] = no_thread;
		who->priority[i] = INT32_MIN;
		who->named[i] = 0;
	}
}

static void grow_processes(struct ws_names_by_id *who, uint32_t id)
{
	uint32_t old = who->process_cap;

	ws_grow(who->processes, who->process_cap, (size_t)id + 1);
	for (uint32_t i = old; i < who->process_cap; i++)
		who->processes[i] = no_process;
}

/* The highest id to accept. Ids count up from 1, so they go little beyond the number of rows (some
 * may be lost). A damaged id must not cost gigabytes. */
static uint32_t highest_id_allowed(const struct ws_report *report, enum ws_table table)
{
	uint64_t most = (UINT64_C(1) << 17) + ws_report_count_rows(report, table) * 64;

	return (uint32_t)ws_min(most, (uint64_t)MAX_IDS);
}

static void read_processes(struct ws_names_by_id *who, const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_process, 0, UINT64_MAX);
	uint32_t most = highest_id_allowed(report, WS_TABLE_process);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint32_t id = (uint32_t)values[ws_process_id];

		if (!id || id > most)
			continue;
		grow_processes(who, id);
		who->process_count = ws_max(id, who->process_count);
		who->processes[id] = (struct ws_process_info){
			.id = id,
			.pid = (uint32_t)values[ws_process_pid],
			.parent = (uint32_t)values[ws_process_parent],
			.name = ws_report_string(report, (uint32_t)values[ws_process_name], NULL),
			.exe = ws_report_string(report, (uint32_t)values[ws_process_exe], NULL),
			.cmdline = ws_report_string(report, (uint32_t)values[ws_process_cmdline],
						    NULL),
			.start = values[ws_process_start],
			.end = WS_NO_TIME,
			.global_pid = (values[ws_process_vm] & 0xffff) << 48 |
				      values[ws_process_pid] << 24,
		};
	}
	ws_cursor_close(cursor);
}

static void read_ends(struct ws_names_by_id *who, const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_process_end, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values))
		if (values[ws_process_end_process] <= who->process_count && who->process_count)
			who->processes[values[ws_process_end_process]].end =
				values[ws_process_end_end];
	ws_cursor_close(cursor);
}

/* Who calls exec soon after a fork may be known before the fork is, and has no parent then: it is
 * what the same process was before. */
static void find_images_before(struct ws_names_by_id *who)
{
	uint32_t *others = ws_calloc(who->process_count + (size_t)1, sizeof(*others));
	struct ws_map latest = {0}; /* by global_pid: one of its images; `others` has the next */

	for (uint32_t id = 1; id <= who->process_count; id++) {
		others[id] = (uint32_t)ws_map_get(&latest, who->processes[id].global_pid, NULL);
		ws_map_set(&latest, who->processes[id].global_pid, id);
	}
	for (uint32_t id = 1; id <= who->process_count; id++) {
		struct ws_process_info *info = &who->processes[id];

		if (info->parent || !info->pid)
			continue;
		for (uint32_t other = (uint32_t)ws_map_get(&latest, info->global_pid, NULL); other;
		     other = others[other])
			if (who->processes[other].end <= info->start &&
			    (!info->parent ||
			     who->processes[other].start > who->processes[info->parent].start))
				info->parent = other;
	}
	ws_map_free(&latest);
	free(others);
}

static void read_threads(struct ws_names_by_id *who, const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_thread, 0, UINT64_MAX);
	uint32_t most = highest_id_allowed(report, WS_TABLE_thread);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint32_t id = (uint32_t)values[ws_thread_id];
		const struct ws_process_info *info =
			ws_find_process(who, (uint32_t)values[ws_thread_process]);

		if (!id || id > most)
			continue;
		grow_threads(who, id);
		who->thread_count = ws_max(id, who->thread_count);
		who->threads[id] = (struct ws_thread_info){
			.id = id,
			.tid = (uint32_t)values[ws_thread_tid],
			.process = (uint32_t)values[ws_thread_process],
			.pid = info->pid,
			.name = "",
			.process_name = info->name,
			.global_tid = info->global_pid | (values[ws_thread_tid] & 0xffffff),
		};
	}
	ws_cursor_close(cursor);
}

/* The name of highest priority; among equals the newest. */
static void read_names(struct ws_names_by_id *who, const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_thread_name, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint32_t id = (uint32_t)values[ws_thread_name_thread];
		int32_t priority = (int32_t)values[ws_thread_name_priority];

		if (!id || id > who->thread_count || priority < who->priority[id] ||
		    (priority == who->priority[id] &&
		     values[ws_thread_name_start] < who->named[id]))
			continue;
		who->priority[id] = priority;
		who->named[id] = values[ws_thread_name_start];
		who->threads[id].priority = priority;
		who->threads[id].name =
			ws_report_string(report, (uint32_t)values[ws_thread_name_name], NULL);
	}
	ws_cursor_close(cursor);
}

struct ws_names_by_id *ws_who_open(const struct ws_report *report)
{
	struct ws_names_by_id *who = ws_calloc(1, sizeof(*who));

	read_processes(who, report);
	read_ends(who, report);
	find_images_before(who);
	read_threads(who, report);
	read_names(who, report);
	return who;
}

const struct ws_thread_info *ws_find_thread(const struct ws_names_by_id *who, uint32_t id)
{
	if (!id || id > who->thread_count)
		return &no_thread;
	return &who->threads[id];
}

const struct ws_process_info *ws_find_process(const struct ws_names_by_id *who, uint32_t id)
{
	if (!id || id > who->process_count)
		return &no_process;
	return &who->processes[id];
}

const struct ws_process_info *ws_find_first_image(const struct ws_names_by_id *who,
						  const struct ws_process_info *process)
{
	enum { MOST_EXECS = 16 }; /* in a damaged report, a parent may be any number */

	for (unsigned i = 0; i < MOST_EXECS; i++) {
		const struct ws_process_info *before = ws_find_process(who, process->parent);

		if (!process->parent || before->pid != process->pid)
			break;
		process = before;
	}
	return process;
}

uint32_t ws_highest_thread_id(const struct ws_names_by_id *who)
{
	return who->thread_count;
}

uint32_t ws_highest_process_id(const struct ws_names_by_id *who)
{
	return who->process_count;
}

void ws_who_close(struct ws_names_by_id *who)
{
	if (!who)
		return;
	free(who->threads);
	free(who->processes);
	free(who->priority);
	free(who->named);
	free(who);
}
