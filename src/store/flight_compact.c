/*
 * flight_compact.c - removes lasting rows about processes that ended before all the data that is
 * kept. The declarations determine these rows: a row belongs to the processes and threads that its
 * columns name.
 */
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "store/flight.h"

enum { FEW_ENDS = 256 };

/* Processes and threads that are gone, by id. */
struct gone {
	bool *process, *thread;
	uint32_t processes, threads; /* ids below these */
};

static size_t count_rows(const struct ws_flight *flight, enum ws_table table)
{
	return flight->rows[table].len / ws_tables[table].row_size;
}

static void find_gone_processes(const struct ws_flight *flight, uint64_t time, struct gone *gone)
{
	const struct ws_row_process_end *row =
		(const void *)flight->rows[WS_TABLE_process_end].bytes;
	size_t n = count_rows(flight, WS_TABLE_process_end);

	for (size_t i = 0; i < n; i++)
		gone->processes = ws_max(gone->processes, row[i].process + 1);
	gone->process = ws_calloc(gone->processes + (size_t)1, sizeof(bool));
	for (size_t i = 0; i < n; i++)
		if (row[i].end < time && row[i].reason != WS_END_RUNNING)
			gone->process[row[i].process] = true;
}

static bool is_gone(const bool *set, uint32_t limit, uint32_t id)
{
	return id < limit && set[id];
}

static void find_gone_threads(const struct ws_flight *flight, struct gone *gone)
{
	const struct ws_row_thread *row = (const void *)flight->rows[WS_TABLE_thread].bytes;
	size_t n = count_rows(flight, WS_TABLE_thread);

	for (size_t i = 0; i < n; i++)
		gone->threads = ws_max(gone->threads, row[i].id + 1);
	gone->thread = ws_calloc(gone->threads + (size_t)1, sizeof(bool));
	for (size_t i = 0; i < n; i++)
		gone->thread[row[i].id] = is_gone(gone->process, gone->processes, row[i].process);
}

/* A column that names what the row is about. The parent of a process may have gone before the
 * process. */
static bool is_gone_in(const struct gone *gone, enum ws_table table, uint32_t column,
		       const void *row)
{
	uint32_t id;

	memcpy(&id, (const char *)row + ws_tables[table].columns[column].offset, sizeof(id));
	switch (ws_tables[table].columns[column].type) {
	case WS_T_PROCESS:
		return is_gone(gone->process, gone->processes, id);
	case WS_T_THREAD:
		return is_gone(gone->thread, gone->threads, id);
	default:
		return table == WS_TABLE_process && column == ws_process_id &&
		       is_gone(gone->process, gone->processes, id);
	}
}

/* diagnostics stay: they are few, and an early problem may explain later gaps */
static bool may_go(enum ws_table table, uint32_t column)
{
	enum ws_type type = ws_tables[table].columns[column].type;

	if (table == WS_TABLE_diagnostic)
		return false;
	return type == WS_T_PROCESS || type == WS_T_THREAD ||
	       (table == WS_TABLE_process && column == ws_process_id);
}

static void drop_rows(struct ws_flight *flight, const struct gone *gone, enum ws_table table,
		      uint32_t column)
{
	struct ws_bytes *rows = &flight->rows[table];
	size_t size = ws_tables[table].row_size, kept = 0;

	for (size_t at = 0; at < rows->len; at += size) {
		if (is_gone_in(gone, table, column, rows->bytes + at))
			continue;
		memmove(rows->bytes + kept, rows->bytes + at, size);
		kept += size;
	}
	rows->len = kept;
}

void ws_flight_compact(struct ws_flight *flight, uint64_t time)
{
	struct gone gone = {0};
	size_t ends = count_rows(flight, WS_TABLE_process_end);

	if (ends < flight->compacted * 2 + FEW_ENDS)
		return;
	find_gone_processes(flight, time, &gone);
	find_gone_threads(flight, &gone);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		for (uint32_t c = 0; flight->rows[t].len && c < ws_tables[t].column_count; c++)
			if (may_go((enum ws_table)t, c))
				drop_rows(flight, &gone, (enum ws_table)t, c);
	flight->compacted = count_rows(flight, WS_TABLE_process_end);
	free(gone.process);
	free(gone.thread);
}
