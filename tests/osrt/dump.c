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
static struct ids *load_ids(const struct ws_report *report, enum ws_table table)
{
	struct ids *ids = ws_calloc(ws_report_count_rows(report, table) + 2, sizeof(*ids));
	struct ws_cursor *cursor = ws_cursor_open(report, table, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		if (table == WS_TABLE_process)
			ids[values[ws_process_id]].pid = values[ws_process_pid];
		else
			ids[values[ws_thread_id]] = (struct ids){
				processes[values[ws_thread_process]].pid, values[ws_thread_tid]};
	}
	ws_cursor_close(cursor);
	return ids;
}

static void print_calls(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_osrt, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		struct ids ids = threads[values[ws_osrt_thread]];

		printf("call\t%" PRIu64 "\t%" PRIu64 "\t%s\t%" PRIu64 "\t", ids.pid, ids.tid,
		       ws_report_string(report, (uint32_t)values[ws_osrt_name], NULL),
		       values[ws_osrt_start]);
		if (values[ws_osrt_end] == WS_NO_TIME)
			printf("-");
		else
			printf("%" PRIu64, values[ws_osrt_end]);
		printf("\t%" PRId64 "\t%" PRId64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\n",
		       (int64_t)values[ws_osrt_result], (int64_t)values[ws_osrt_error],
		       values[ws_osrt_nesting], values[ws_osrt_object],
		       ws_report_string(report, (uint32_t)values[ws_osrt_path], NULL));
	}
	ws_cursor_close(cursor);
}

static void print_names(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_thread_name, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		struct ids ids = threads[values[ws_thread_name_thread]];

		printf("name\t%" PRIu64 "\t%" PRIu64 "\t%" PRId64 "\t%s\n", ids.pid, ids.tid,
		       (int64_t)values[ws_thread_name_priority],
		       ws_report_string(report, (uint32_t)values[ws_thread_name_name], NULL));
	}
	ws_cursor_close(cursor);
}

int main(int argc, char **argv)
{
	struct ws_err err;
	struct ws_report *report = argc == 2 ? ws_report_open(argv[1], &err) : NULL;

	if (!report) {
		fprintf(stderr, "dump: %s\n", argc == 2 ? err.msg : "give one report");
		return 1;
	}
	processes = load_ids(report, WS_TABLE_process);
	threads = load_ids(report, WS_TABLE_thread);
	print_calls(report);
	print_names(report);
	free(processes);
	free(threads);
	ws_report_close(report);
	return 0;
}
