/*
 * dump.c - the osrt rows of a report with everything that is in them, for run.py: the exports keep
 * to the columns of the reference tool. A line each, fields separated by tabs: call, pid, tid,
 * function, start, end (or -), result, error, nesting, object, path; and name, pid, tid, priority,
 * name.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "query/query.h"

static struct ids {
	uint64_t pid, tid;
} * threads, *processes;

/* ids[n] of a table that is numbered from 1 without gaps. */
static struct ids *load(const struct ws_report *r, enum ws_table t)
{
	struct ids *ids = ws_calloc(ws_report_rows(r, t) + 2, sizeof(*ids));
	struct ws_cursor *c = ws_cursor_open(r, t, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		if (t == WS_TABLE_process)
			ids[v[ws_process_id]].pid = v[ws_process_pid];
		else
			ids[v[ws_thread_id]] =
				(struct ids){processes[v[ws_thread_process]].pid, v[ws_thread_tid]};
	}
	ws_cursor_close(c);
	return ids;
}

static void calls(const struct ws_report *r)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_osrt, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		struct ids t = threads[v[ws_osrt_thread]];

		printf("call\t%" PRIu64 "\t%" PRIu64 "\t%s\t%" PRIu64 "\t", t.pid, t.tid,
		       ws_report_string(r, (uint32_t)v[ws_osrt_name], NULL), v[ws_osrt_start]);
		if (v[ws_osrt_end] == WS_NO_TIME)
			printf("-");
		else
			printf("%" PRIu64, v[ws_osrt_end]);
		printf("\t%" PRId64 "\t%" PRId64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\n",
		       (int64_t)v[ws_osrt_result], (int64_t)v[ws_osrt_error], v[ws_osrt_nesting],
		       v[ws_osrt_object], ws_report_string(r, (uint32_t)v[ws_osrt_path], NULL));
	}
	ws_cursor_close(c);
}

static void names(const struct ws_report *r)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_thread_name, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		struct ids t = threads[v[ws_thread_name_thread]];

		printf("name\t%" PRIu64 "\t%" PRIu64 "\t%" PRId64 "\t%s\n", t.pid, t.tid,
		       (int64_t)v[ws_thread_name_priority],
		       ws_report_string(r, (uint32_t)v[ws_thread_name_name], NULL));
	}
	ws_cursor_close(c);
}

int main(int argc, char **argv)
{
	struct ws_err e;
	struct ws_report *r = argc == 2 ? ws_report_open(argv[1], &e) : NULL;

	if (!r) {
		fprintf(stderr, "dump: %s\n", argc == 2 ? e.msg : "give one report");
		return 1;
	}
	processes = load(r, WS_TABLE_process);
	threads = load(r, WS_TABLE_thread);
	calls(r);
	names(r);
	free(processes);
	free(threads);
	ws_report_close(r);
	return 0;
}
