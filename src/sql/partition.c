/*
 * partition.c - divides the rows of a table into groups of equal values.
 *
 * SQLite groups by sorting rows, at about a microsecond each, and finds rows of a table by reading
 * all of it. Here all cores decode the columns that a query needs, each row is numbered by the
 * values of its key columns as they are stored, and a counting sort brings equal ones together:
 * some 20 ns a row. The values that the stored ones stand for (threads may share a number, texts of
 * equal bytes may have several ids) are made once for each distinct tuple.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/sort.h"
#include "sql/table.h"

/* ---- reading ---- */

struct partition_maker {
	struct ws_sql_table *table;
	struct ws_sql_partition *partition;
	const struct ws_sql_keys *keys;
	uint64_t decode;
	uint8_t source[WS_MAX_COLUMNS]; /* columns of the tuples */
	uint32_t sources;
	struct ws_sql_tuples *tuples;	/* by worker */
	size_t *places;			/* of each block's rows in the columns */
	uint32_t *row_counts, *workers; /* by block */
	uint32_t *numbers;		/* of each row: of its tuple, then of its group */
};

static int number_block_rows(void *context, const struct ws_batch *batch)
{
	struct partition_maker *maker = context;
	struct ws_sql_tuples *tuples = &maker->tuples[batch->worker];
	uint32_t *numbers = maker->numbers + maker->places[batch->block];
	const uint64_t *first = batch->col[maker->source[0]];
	uint64_t values[WS_MAX_COLUMNS];

	if (ws_sql_must_stop(maker->table->report->sql))
		return 1;
	for (uint64_t left = maker->decode; left; left &= left - 1) {
		int column = __builtin_ctzll(left);

		memcpy(maker->partition->columns[column] + maker->places[batch->block],
		       batch->col[column], batch->rows * 8);
	}
	for (size_t i = 0; maker->sources == 1 && i < batch->rows; i++) {
		if (i && first[i] == first[i - 1])
			numbers[i] = numbers[i - 1];
		else
			numbers[i] = ws_sql_number_tuple(tuples, &first[i]);
	}
	for (size_t i = 0; maker->sources > 1 && i < batch->rows; i++) {
		for (uint32_t k = 0; k < maker->sources; k++)
			values[k] = batch->col[maker->source[k]][i];
		numbers[i] = ws_sql_number_tuple(tuples, values);
	}
	maker->row_counts[batch->block] = (uint32_t)batch->rows;
	maker->workers[batch->block] = batch->worker;
	return 0;
}

static struct ws_sql_tuples *make_tuple_tables(uint32_t workers, uint32_t words)
{
	struct ws_sql_tuples *tuples = ws_sql_calloc_aligned(workers, sizeof(*tuples));

	for (uint32_t i = 0; i < workers; i++)
		tuples[i].words = words;
	return tuples;
}

/* Add up the rows that were read, and count the blocks. */
static void count_blocks_read(struct partition_maker *maker, size_t blocks, uint64_t time_min,
			      uint64_t time_max)
{
	const struct ws_report *report = maker->table->report->export.report;
	struct ws_sql_counts *counts = &maker->table->report->sql->counts;

	for (size_t i = 0; i < blocks; i++) {
		struct ws_block_info info =
			ws_report_block_info(report, maker->table->view->source, i);
		bool touched = info.time_min <= time_max && info.time_max >= time_min;

		counts->blocks += touched;
		counts->skipped += !touched;
		maker->partition->rows += maker->row_counts[i];
	}
}

static int read_rows(struct partition_maker *maker, uint64_t time_min, uint64_t time_max)
{
	struct ws_scan scan = {.table = maker->table->view->source,
			       .columns = maker->decode,
			       .time_min = time_min,
			       .time_max = time_max};
	const struct ws_report *report = maker->table->report->export.report;
	size_t blocks = ws_report_count_blocks(report, maker->table->view->source), total = 0;
	uint32_t workers = ws_count_scan_workers(&scan);
	uint64_t damaged = 0;
	int rc;

	maker->places = ws_calloc(blocks + 1, sizeof(*maker->places));
	maker->row_counts = ws_calloc(blocks + 1, sizeof(*maker->row_counts));
	maker->workers = ws_calloc(blocks + 1, sizeof(*maker->workers));
	for (size_t i = 0; i < blocks; i++) {
		maker->places[i] = total;
		total += ws_report_block_info(report, maker->table->view->source, i).rows;
	}
	maker->numbers = ws_malloc((total + 1) * sizeof(*maker->numbers));
	for (uint64_t left = maker->decode; left; left &= left - 1)
		maker->partition->columns[__builtin_ctzll(left)] = ws_malloc((total + 1) * 8);
	maker->tuples = make_tuple_tables(workers, maker->sources);
	rc = ws_run_scan(report, &scan, number_block_rows, maker, &damaged);
	maker->table->report->sql->counts.damaged += damaged;
	count_blocks_read(maker, blocks, time_min, time_max);
	return rc;
}

/* ---- groups of the values that stored ones stand for ---- */

struct group_cells {
	struct ws_view_cell cell[WS_SQL_KEYS];
	uint32_t group;
};

struct group_maker { /* while they are being made */
	struct ws_sql_partition *part;
	size_t cells_cap;
	struct ws_text key;
	struct group_cells *cells; /* when they are to be sorted */
};

/* The number of the group of the values `cells`. */
static uint32_t find_or_make_group(struct group_maker *groups, const struct ws_view_cell *cells,
				   uint32_t count, bool sorted)
{
	bool made;
	uint32_t group;

	groups->key.len = 0;
	for (uint32_t k = 0; k < count; k++)
		ws_sql_put_key_cell(&groups->key, &cells[k]);
	group = ws_sql_number_group(&groups->part->groups, &groups->key, &made);
	if (made && sorted) {
		ws_grow(groups->cells, groups->cells_cap, (size_t)group + 1);
		memcpy(groups->cells[group].cell, cells, count * sizeof(*cells));
		groups->cells[group].group = group;
	}
	return group;
}

/* For each worker, an array from its tuples to groups. */
static uint32_t **map_tuples_to_groups(struct partition_maker *maker, struct group_maker *groups,
				       uint32_t workers)
{
	uint32_t **tuple_groups = ws_calloc(workers, sizeof(*tuple_groups));
	struct ws_view_cell cells[WS_SQL_KEYS];
	uint64_t *columns[WS_MAX_COLUMNS] = {NULL};

	for (uint32_t worker = 0; worker < workers; worker++) {
		tuple_groups[worker] =
			ws_malloc((maker->tuples[worker].count + 1) * sizeof(**tuple_groups));
		for (size_t i = 0; i < maker->tuples[worker].count; i++) {
			for (uint32_t k = 0; k < maker->sources; k++)
				columns[maker->source[k]] =
					&maker->tuples[worker].values[i * maker->sources + k];
			for (uint32_t k = 0; k < maker->keys->count; k++)
				cells[k] = ws_sql_make_cell(maker->table, maker->keys->columns[k],
							    columns, 0);
			tuple_groups[worker][i] = find_or_make_group(
				groups, cells, maker->keys->count, maker->keys->sorted);
		}
	}
	return tuple_groups;
}

static int compare_groups(const void *first, const void *second, void *context)
{
	const struct group_cells *left = first, *right = second;
	const struct ws_sql_keys *keys = context;

	for (uint32_t k = 0; k < keys->count; k++) {
		int order = ws_sql_compare_cells(&left->cell[k], &right->cell[k]);

		if (order && keys->descending[k])
			return -order;
		if (order)
			return order;
	}
	return 0;
}

/* Number groups in order of their values. Returns the new number of each. Such a partition cannot
 * be used for look-ups. */
static uint32_t *sort_groups(struct partition_maker *maker, struct group_maker *groups)
{
	uint32_t *renumber = ws_malloc((groups->part->groups.count + 1) * sizeof(*renumber));

	if (groups->part->groups.count)
		qsort_r(groups->cells, groups->part->groups.count, sizeof(*groups->cells),
			compare_groups, (void *)maker->keys);
	for (size_t i = 0; i < groups->part->groups.count; i++)
		renumber[groups->cells[i].group] = (uint32_t)i;
	return renumber;
}

/* ---- groups in order of time ---- */

struct time_sorter {
	struct ws_sql_partition *part;
	const uint64_t *starts, *ends; /* by row */
	struct ws_keyed_value *keyed, *buffer;
};

static bool has_all_times(const struct ws_sql_partition *part, const uint64_t *times)
{
	for (size_t i = 0; i < part->rows; i++)
		if (times[part->order[i]] == WS_NO_TIME)
			return false;
	return true;
}

/* Whether a column of the table shows a missing end as a number rather than as null. */
static bool needs_ends(const struct ws_sql_table *table, int end)
{
	for (size_t i = 0; i < table->column_count; i++)
		if (table->columns[i].source == end && table->columns[i].from == WS_FROM_TIME)
			return true;
	return false;
}

static void sort_group(struct time_sorter *sorter, size_t from, size_t to)
{
	uint32_t *order = sorter->part->order;
	size_t i = from + 1;

	while (i < to && sorter->starts[order[i - 1]] <= sorter->starts[order[i]])
		i++;
	if (i >= to)
		return;
	for (i = from; i < to; i++)
		sorter->keyed[i - from] =
			(struct ws_keyed_value){sorter->starts[order[i]], order[i]};
	ws_sort_in_buffer(sorter->keyed, to - from, sorter->buffer);
	for (i = from; i < to; i++)
		order[i] = (uint32_t)sorter->keyed[i - from].value;
}

/* Note the times of a group's rows, in the order that they now have. */
static void note_group_times(struct time_sorter *sorter, size_t from, size_t to)
{
	struct ws_sql_partition *part = sorter->part;
	uint64_t latest = 0;

	for (size_t i = from; i < to; i++) {
		uint64_t end = sorter->ends[part->order[i]];

		part->starts[i] = sorter->starts[part->order[i]];
		if (end != WS_NO_TIME)
			latest = ws_max(latest, end);
		part->ends_follow &= end >= part->starts[i];
		part->reach[i] = latest;
	}
}

static void sort_groups_by_time(const struct ws_sql_table *table, struct ws_sql_partition *part)
{
	int start = ws_table_start(table->view->source), end = ws_table_end(table->view->source);
	struct time_sorter sorter = {.part = part, .starts = part->columns[start]};

	sorter.ends = sorter.starts;
	if (end >= 0)
		sorter.ends = part->columns[end];
	if (!has_all_times(part, sorter.starts) ||
	    (end >= 0 && needs_ends(table, end) && !has_all_times(part, sorter.ends)))
		return;
	sorter.keyed = ws_malloc((part->rows + 1) * sizeof(*sorter.keyed));
	sorter.buffer = ws_malloc((part->rows + 1) * sizeof(*sorter.buffer));
	part->starts = ws_malloc((part->rows + 1) * sizeof(*part->starts));
	part->reach = ws_malloc((part->rows + 1) * sizeof(*part->reach));
	part->ends_follow = true;
	for (size_t group = 0; group < part->groups.count; group++) {
		sort_group(&sorter, part->group_starts[group], part->group_starts[group + 1]);
		note_group_times(&sorter, part->group_starts[group], part->group_starts[group + 1]);
	}
	free(sorter.keyed);
	free(sorter.buffer);
}

/* ---- putting it together ---- */

/* Counting sort of rows by group. */
static void sort_rows(struct partition_maker *maker, uint32_t *const *tuple_groups,
		      const uint32_t *renumber)
{
	struct ws_sql_partition *part = maker->partition;
	size_t blocks = ws_report_count_blocks(maker->table->report->export.report,
					       maker->table->view->source);
	size_t *next = ws_calloc(part->groups.count + 2, sizeof(*next));

	for (size_t block = 0; block < blocks; block++) {
		uint32_t *numbers = maker->numbers + maker->places[block];
		const uint32_t *groups_of_tuples = tuple_groups[maker->workers[block]];

		for (uint32_t i = 0; i < maker->row_counts[block]; i++) {
			numbers[i] = groups_of_tuples[numbers[i]];
			if (renumber)
				numbers[i] = renumber[numbers[i]];
			next[numbers[i] + 1]++;
		}
	}
	for (size_t group = 0; group < part->groups.count; group++)
		next[group + 1] += next[group];
	part->group_starts = ws_malloc((part->groups.count + 1) * sizeof(*part->group_starts));
	memcpy(part->group_starts, next, (part->groups.count + 1) * sizeof(*part->group_starts));
	part->order = ws_malloc((part->rows + 1) * sizeof(*part->order));
	for (size_t b = 0; b < blocks; b++)
		for (uint32_t i = 0; i < maker->row_counts[b]; i++)
			part->order[next[maker->numbers[maker->places[b] + i]]++] =
				(uint32_t)(maker->places[b] + i);
	free(next);
}

static void group_rows(struct partition_maker *maker, uint32_t workers)
{
	struct group_maker groups = {.part = maker->partition};
	uint32_t **tuple_groups, *renumber = NULL;

	tuple_groups = map_tuples_to_groups(maker, &groups, workers);
	if (maker->keys->sorted)
		renumber = sort_groups(maker, &groups);
	sort_rows(maker, tuple_groups, renumber);
	for (uint32_t worker = 0; worker < workers; worker++)
		free(tuple_groups[worker]);
	free(tuple_groups);
	free(renumber);
	free(groups.cells);
	ws_text_free(&groups.key);
}

static uint64_t find_time_sources(const struct ws_sql_table *table)
{
	int start = ws_table_start(table->view->source), end = ws_table_end(table->view->source);
	uint64_t sources = UINT64_C(1) << start;

	if (end >= 0)
		sources |= UINT64_C(1) << end;
	return sources;
}

struct ws_sql_partition *ws_sql_make_partition(struct ws_sql_table *table,
					       const struct ws_sql_keys *keys, uint64_t decode,
					       uint64_t time_min, uint64_t time_max)
{
	struct ws_sql_partition *part = ws_calloc(1, sizeof(*part));
	struct partition_maker maker = {.table = table, .partition = part, .keys = keys};
	uint32_t workers = ws_count_scan_workers(&(struct ws_scan){.table = table->view->source});
	uint64_t sources = 0;
	int rc;

	for (uint32_t k = 0; k < keys->count; k++)
		sources |= ws_find_column_reads(&table->columns[keys->columns[k]]);
	if (!sources) /* constants: one group, by whatever column there is */
		sources = 1;
	maker.decode = decode | sources;
	if (keys->timed)
		maker.decode |= find_time_sources(table);
	for (; sources; sources &= sources - 1)
		maker.source[maker.sources++] = (uint8_t)__builtin_ctzll(sources);
	rc = read_rows(&maker, time_min, time_max);
	if (!rc)
		group_rows(&maker, workers);
	if (!rc && keys->timed)
		sort_groups_by_time(table, part);
	table->report->sql->counts.partitions++;
	for (uint32_t worker = 0; worker < workers; worker++)
		ws_sql_free_tuples(&maker.tuples[worker]);
	free(maker.tuples);
	free(maker.places);
	free(maker.row_counts);
	free(maker.workers);
	free(maker.numbers);
	if (!rc)
		return part;
	ws_sql_free_partition(part);
	return NULL;
}

void ws_sql_free_partition(struct ws_sql_partition *part)
{
	if (!part)
		return;
	for (int column = 0; column < WS_MAX_COLUMNS; column++)
		free(part->columns[column]);
	ws_sql_free_groups(&part->groups);
	free(part->order);
	free(part->group_starts);
	free(part->starts);
	free(part->reach);
	free(part);
}

bool ws_sql_find_in_partition(const struct ws_sql_partition *part, const struct ws_text *key,
			      size_t *from, size_t *to)
{
	uint32_t group = ws_sql_find_group(&part->groups, key);

	if (!group)
		return false;
	*from = part->group_starts[group - 1];
	*to = part->group_starts[group];
	return true;
}

bool ws_sql_partition_fits(uint64_t rows, uint64_t columns)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	uint64_t most = (uint64_t)1 << 30;

	if (pages > 0 && size > 0)
		most = (uint64_t)pages * (uint64_t)size / 4;
	if (ws_sql_get_memory_limit())
		most = ws_min(most, ws_sql_get_memory_limit() / 2);
	return rows < UINT32_MAX / 2 &&
	       rows * (8 * (uint64_t)__builtin_popcountll(columns) + 8) <= most;
}
