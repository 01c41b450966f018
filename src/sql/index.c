/*
 * index.c - the indices that all look-ups of a statement share.
 *
 * SQLite opens a cursor for each run of a subquery, so indices belong to the connection and last
 * until the statement ends. Within a group rows are in order of their start. The latest end so far
 * never falls from row to row, so that both a bound of the start and one of the end are found by
 * bisection, whether the query asks for what lies in a range or for the ranges around something.
 */
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/sort.h"
#include "sql/table.h"

static bool are_keys_equal(const struct ws_sql_keys *left, const struct ws_sql_keys *right)
{
	return left->count == right->count && left->timed == right->timed &&
	       !memcmp(left->columns, right->columns, left->count);
}

struct ws_sql_index *ws_sql_find_index(struct ws_sql_table *table, const struct ws_sql_keys *keys,
				       uint64_t decode)
{
	struct ws_sql *sql = table->report->sql;
	struct ws_sql_index *index;

	for (size_t i = 0; i < sql->index_count; i++) {
		index = sql->indices[i];
		if (index->table == table && are_keys_equal(&index->keys, keys) &&
		    !(decode & ~index->decode))
			return index;
	}
	index = ws_calloc(1, sizeof(*index));
	index->table = table;
	index->keys = *keys;
	index->decode = decode;
	ws_grow(sql->indices, sql->index_capacity, sql->index_count + 1);
	sql->indices[sql->index_count++] = index;
	return index;
}

bool ws_sql_fill_index(struct ws_sql_index *index)
{
	uint64_t rows = ws_sql_count_rows(index->table);
	int64_t row_bytes = 8 * (__builtin_popcountll(index->decode) + 4);

	if (!ws_sql_partition_fits(rows, index->decode))
		return false;
	index->bytes = (int64_t)rows * row_bytes;
	if (!ws_sql_reserve_memory(index->bytes)) {
		index->bytes = 0;
		return false;
	}
	index->partition =
		ws_sql_make_partition(index->table, &index->keys, index->decode, 0, UINT64_MAX);
	return index->partition != NULL;
}

void ws_sql_free_indices(struct ws_sql *sql)
{
	for (size_t i = 0; i < sql->index_count; i++) {
		ws_sql_free_partition(sql->indices[i]->partition);
		ws_sql_reserve_memory(-sql->indices[i]->bytes);
		free(sql->indices[i]);
	}
	free(sql->indices);
	sql->indices = NULL;
	sql->index_count = sql->index_capacity = 0;
}

void ws_sql_narrow_by_time(const struct ws_sql_partition *part,
			   const struct ws_sql_time_bounds *bounds, size_t *from, size_t *to)
{
	const uint64_t *starts = part->starts, *reach = part->reach;
	uint64_t latest_start = bounds->start_max;
	size_t first = *from;

	if (!starts || *from >= *to)
		return;
	if (part->ends_follow)
		latest_start = ws_min(latest_start, bounds->end_max);
	*to = first + ws_bisect(*to - first, i, starts[first + i] <= latest_start);
	*from = first + ws_bisect(*to - first, i, starts[first + i] < bounds->start_min);
	first = *from;
	*from = first + ws_bisect(*to - first, i, reach[first + i] < bounds->end_min);
}

/* ---- cells ---- */

struct ws_sql_cell_index *ws_sql_index_cells(struct ws_sql_table *table, size_t column)
{
	struct ws_sql_cell_index *index = table->cell_indices;
	size_t rows = table->cell_count / table->column_count, capacity = 0;
	struct ws_text key = {0};

	while (index && index->column != column)
		index = index->next_index;
	if (index)
		return index;
	index = ws_calloc(1, sizeof(*index));
	index->column = column;
	index->next_index = table->cell_indices;
	table->cell_indices = index;
	index->next = ws_calloc(rows + 1, sizeof(*index->next));
	for (size_t row = rows; row--;) { /* from the end, so that each chain ascends */
		uint32_t group;
		bool made;

		key.len = 0;
		ws_sql_put_key_cell(&key, &table->cells[row * table->column_count + column]);
		group = ws_sql_number_group(&index->groups, &key, &made);
		ws_grow(index->first, capacity, (size_t)group + 1);
		index->next[row] = 0;
		if (!made)
			index->next[row] = index->first[group];
		index->first[group] = (uint32_t)row + 1;
	}
	ws_text_free(&key);
	return index;
}

void ws_sql_free_cell_indices(struct ws_sql_table *table)
{
	while (table->cell_indices) {
		struct ws_sql_cell_index *index = table->cell_indices;

		table->cell_indices = index->next_index;
		ws_sql_free_groups(&index->groups);
		free(index->first);
		free(index->next);
		free(index);
	}
}
