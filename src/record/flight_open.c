/* flight_open.c - see flight_open.h. A range is known by its thread, its start and its name: where
 * clocks step by 10 ns, two ranges of a thread may begin at once. */
#include "record/flight_open.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/slots.h"

/* Whether the table holds spans of threads, which can be open. */
static bool may_be_open(enum ws_table table)
{
	int track = ws_table_track(table);

	return !ws_lasting_tables[table] && ws_table_end(table) >= 0 && track >= 0 &&
	       ws_tables[table].columns[track].type == WS_T_THREAD;
}

static void take_rows(struct ws_open_rows *open, enum ws_table table, uint64_t latest)
{
	size_t size = ws_tables[table].row_size;
	uint32_t n;
	const char *rows = ws_writer_staged_rows(open->writer, table, &n);

	if (!n)
		return;
	open->rows[table] = ws_malloc(n * size);
	for (uint32_t i = 0; i < n; i++)
		if (ws_row_get(table, rows + i * size, (uint32_t)ws_table_start(table)) <= latest)
			memcpy(open->rows[table] + open->count[table]++ * size, rows + i * size,
			       size);
}

void ws_open_rows_take(struct ws_open_rows *open, struct ws_writer *writer, uint64_t latest)
{
	*open = (struct ws_open_rows){.writer = writer};
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		if (may_be_open((enum ws_table)t))
			take_rows(open, (enum ws_table)t, latest);
	ws_writer_forget_staged(writer);
}

static uint64_t make_key(enum ws_table table, const void *row)
{
	uint64_t key = ws_row_get(table, row, (uint32_t)ws_table_start(table));
	uint32_t name = 0;

	while (name < ws_tables[table].column_count &&
	       ws_tables[table].columns[name].type != WS_T_STR)
		name++;
	if (name < ws_tables[table].column_count)
		key = ws_hash_word(key, ws_row_get(table, row, name));
	return ws_hash_word(key, ws_row_get(table, row, (uint32_t)ws_table_track(table)));
}

static bool has_ended(enum ws_table table, const void *row)
{
	return ws_row_get(table, row, (uint32_t)ws_table_end(table)) != WS_NO_TIME;
}

/* Forget the open rows of a table whose keys are in `ended`. */
static void drop_ended(struct ws_open_rows *open, enum ws_table table, const struct ws_map *ended)
{
	size_t size = ws_tables[table].row_size;
	uint32_t kept = 0;
	bool found;

	for (uint32_t i = 0; i < open->count[table]; i++) {
		const char *row = open->rows[table] + i * size;

		ws_map_get(ended, make_key(table, row), &found);
		if (!found)
			memmove(open->rows[table] + kept++ * size, row, size);
	}
	open->count[table] = kept;
}

static void close_rows(struct ws_open_rows *open, enum ws_table table)
{
	struct ws_map ended = {0};
	uint32_t n;
	const char *rows = ws_writer_staged_rows(open->writer, table, &n);

	for (uint32_t i = 0; i < n; i++) {
		const char *row = rows + (size_t)i * ws_tables[table].row_size;

		if (has_ended(table, row))
			ws_map_set(&ended, make_key(table, row), 1);
	}
	drop_ended(open, table, &ended);
	ws_map_free(&ended);
}

void ws_open_rows_close(struct ws_open_rows *open)
{
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		if (open->count[t])
			close_rows(open, (enum ws_table)t);
}

void ws_open_rows_give(struct ws_open_rows *open)
{
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		for (uint32_t i = 0; i < open->count[t]; i++)
			ws_writer_add(open->writer, (enum ws_table)t,
				      open->rows[t] + (size_t)i * ws_tables[t].row_size);
		free(open->rows[t]);
		open->rows[t] = NULL;
		open->count[t] = 0;
	}
}
