/*
 * part.c - rows of a table by groups of equal values.
 *
 * SQLite groups by sorting rows, at about a microsecond each, and looks rows of a table up by
 * running through all of it. Here the columns that a query needs are decoded by all cores, each row
 * is numbered by the values of its key columns as they are stored, and a counting sort brings equal
 * ones together: some 20 ns a row. What the stored values mean (threads that share a number, texts
 * of equal bytes under several ids) is looked at once for each distinct one.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sql/table.h"

/* ---- reading ---- */

struct making {
	struct ws_sql_table *table;
	struct ws_sql_part *part;
	const struct ws_sql_keys *keys;
	uint64_t decode;
	uint8_t source[WS_MAX_COLUMNS]; /* columns of the tuples */
	uint32_t sources;
	struct ws_sql_tuples *tuples; /* by worker */
	size_t *place;		      /* of each block's rows in the columns */
	uint32_t *got, *worker;	      /* by block */
	uint32_t *number;	      /* of each row: of its tuple, then of its group */
};

static int take(void *ctx, const struct ws_batch *batch)
{
	struct making *making = ctx;
	struct ws_sql_tuples *tuples = &making->tuples[batch->worker];
	uint32_t *number = making->number + making->place[batch->block];
	const uint64_t *first = batch->col[making->source[0]];
	uint64_t v[WS_MAX_COLUMNS];

	if (making->table->of->sql->stop)
		return 1;
	for (uint64_t left = making->decode; left; left &= left - 1) {
		int c = __builtin_ctzll(left);

		memcpy(making->part->col[c] + making->place[batch->block], batch->col[c],
		       batch->rows * 8);
	}
	for (size_t i = 0; making->sources == 1 && i < batch->rows; i++)
		number[i] = i && first[i] == first[i - 1] ? number[i - 1]
							  : ws_sql_tuple(tuples, &first[i]);
	for (size_t i = 0; making->sources > 1 && i < batch->rows; i++) {
		for (uint32_t k = 0; k < making->sources; k++)
			v[k] = batch->col[making->source[k]][i];
		number[i] = ws_sql_tuple(tuples, v);
	}
	making->got[batch->block] = (uint32_t)batch->rows;
	making->worker[batch->block] = batch->worker;
	return 0;
}

static int read_rows(struct making *making, uint64_t time_min, uint64_t time_max)
{
	struct ws_scan sc = {.table = making->table->view->source,
			     .columns = making->decode,
			     .time_min = time_min,
			     .time_max = time_max};
	const struct ws_report *report = making->table->of->export.report;
	size_t blocks = ws_report_blocks(report, making->table->view->source), sum = 0;
	uint32_t workers = ws_scan_workers(&sc);
	uint64_t damaged = 0;
	int rc;

	making->place = ws_calloc(blocks + 1, sizeof(*making->place));
	making->got = ws_calloc(blocks + 1, sizeof(*making->got));
	making->worker = ws_calloc(blocks + 1, sizeof(*making->worker));
	for (size_t i = 0; i < blocks; i++) {
		making->place[i] = sum;
		sum += ws_report_block(report, making->table->view->source, i).rows;
	}
	making->number = ws_malloc((sum + 1) * sizeof(*making->number));
	for (uint64_t left = making->decode; left; left &= left - 1)
		making->part->col[__builtin_ctzll(left)] = ws_malloc((sum + 1) * 8);
	making->tuples = aligned_alloc(128, workers * sizeof(*making->tuples));
	memset(making->tuples, 0, workers * sizeof(*making->tuples));
	for (uint32_t i = 0; i < workers; i++)
		making->tuples[i].words = making->sources;
	rc = ws_scan_run(report, &sc, take, making, &damaged);
	making->table->of->sql->counts.damaged += damaged;
	for (size_t i = 0; i < blocks; i++) {
		struct ws_block_info info = ws_report_block(report, making->table->view->source, i);

		*(info.time_min <= time_max && info.time_max >= time_min
			  ? &making->table->of->sql->counts.blocks
			  : &making->table->of->sql->counts.skipped) += 1;
		making->part->rows += making->got[i];
	}
	return rc;
}

/* ---- groups: what values mean ---- */

struct group_cells {
	struct ws_xcell cell[WS_SQL_KEYS];
	uint32_t group;
};

struct groups { /* while they are being made */
	struct ws_sql_part *part;
	size_t cells_cap;
	struct ws_text key;
	struct group_cells *cells; /* when they are to be sorted */
};

/* Group of the values `cells`. */
static uint32_t group_of(struct groups *groups, const struct ws_xcell *cells, uint32_t count,
			 bool sorted)
{
	bool made;
	uint32_t group;

	groups->key.len = 0;
	for (uint32_t k = 0; k < count; k++)
		ws_sql_key_cell(&groups->key, &cells[k]);
	group = ws_sql_group(&groups->part->groups, &groups->key, &made);
	if (made && sorted) {
		ws_grow(groups->cells, groups->cells_cap, (size_t)group + 1);
		memcpy(groups->cells[group].cell, cells, count * sizeof(*cells));
		groups->cells[group].group = group;
	}
	return group;
}

/* By worker: tuple to group. */
static uint32_t **map_tuples(struct making *making, struct groups *groups, uint32_t workers)
{
	uint32_t **map = ws_calloc(workers, sizeof(*map));
	struct ws_xcell cells[WS_SQL_KEYS];
	uint64_t *col[WS_MAX_COLUMNS] = {NULL};

	for (uint32_t w = 0; w < workers; w++) {
		map[w] = ws_malloc((making->tuples[w].n + 1) * sizeof(**map));
		for (size_t i = 0; i < making->tuples[w].n; i++) {
			for (uint32_t k = 0; k < making->sources; k++)
				col[making->source[k]] =
					&making->tuples[w].values[i * making->sources + k];
			for (uint32_t k = 0; k < making->keys->count; k++)
				cells[k] =
					ws_sql_cell(making->table, making->keys->column[k], col, 0);
			map[w][i] =
				group_of(groups, cells, making->keys->count, making->keys->sorted);
		}
	}
	return map;
}

static int by_value(const void *first, const void *second, void *ctx)
{
	const struct group_cells *left = first, *right = second;
	const struct ws_sql_keys *keys = ctx;

	for (uint32_t k = 0; k < keys->count; k++) {
		int c = ws_sql_compare_cells(&left->cell[k], &right->cell[k]);

		if (c)
			return keys->descending[k] ? -c : c;
	}
	return 0;
}

/* Number groups by value: `renumber` gets the new number of each. Look-ups are not for such a
 * grouping. */
static uint32_t *sort_groups(struct making *making, struct groups *groups)
{
	uint32_t *renumber = ws_malloc((groups->part->groups.n + 1) * sizeof(*renumber));

	if (groups->part->groups.n)
		qsort_r(groups->cells, groups->part->groups.n, sizeof(*groups->cells), by_value,
			(void *)making->keys);
	for (size_t i = 0; i < groups->part->groups.n; i++)
		renumber[groups->cells[i].group] = (uint32_t)i;
	return renumber;
}

/* Counting sort of rows by group. */
static void arrange(struct making *making, uint32_t *const *map, const uint32_t *renumber)
{
	struct ws_sql_part *part = making->part;
	size_t blocks =
		ws_report_blocks(making->table->of->export.report, making->table->view->source);
	size_t *next = ws_calloc(part->groups.n + 2, sizeof(*next));

	for (size_t b = 0; b < blocks; b++) {
		uint32_t *number = making->number + making->place[b];
		const uint32_t *to = map[making->worker[b]];

		for (uint32_t i = 0; i < making->got[b]; i++) {
			number[i] = renumber ? renumber[to[number[i]]] : to[number[i]];
			next[number[i] + 1]++;
		}
	}
	for (size_t g = 0; g < part->groups.n; g++)
		next[g + 1] += next[g];
	part->first = ws_malloc((part->groups.n + 1) * sizeof(*part->first));
	memcpy(part->first, next, (part->groups.n + 1) * sizeof(*part->first));
	part->order = ws_malloc((part->rows + 1) * sizeof(*part->order));
	for (size_t b = 0; b < blocks; b++)
		for (uint32_t i = 0; i < making->got[b]; i++)
			part->order[next[making->number[making->place[b] + i]]++] =
				(uint32_t)(making->place[b] + i);
	free(next);
}

static void group_rows(struct making *making, uint32_t workers)
{
	struct groups groups = {.part = making->part};
	uint32_t **map, *renumber = NULL;

	map = map_tuples(making, &groups, workers);
	if (making->keys->sorted)
		renumber = sort_groups(making, &groups);
	arrange(making, map, renumber);
	for (uint32_t w = 0; w < workers; w++)
		free(map[w]);
	free(map);
	free(renumber);
	free(groups.cells);
	ws_text_free(&groups.key);
}

struct ws_sql_part *ws_sql_part_make(struct ws_sql_table *table, const struct ws_sql_keys *keys,
				     uint64_t decode, uint64_t time_min, uint64_t time_max)
{
	struct ws_sql_part *part = ws_calloc(1, sizeof(*part));
	struct making making = {.table = table, .part = part, .keys = keys};
	uint32_t workers = ws_scan_workers(&(struct ws_scan){.table = table->view->source});
	uint64_t sources = 0;
	int rc;

	for (uint32_t k = 0; k < keys->count; k++)
		sources |= ws_xcolumn_reads(&table->columns[keys->column[k]]);
	if (!sources) /* constants: one group, by whatever column there is */
		sources = 1;
	making.decode = decode | sources;
	for (; sources; sources &= sources - 1)
		making.source[making.sources++] = (uint8_t)__builtin_ctzll(sources);
	rc = read_rows(&making, time_min, time_max);
	if (!rc)
		group_rows(&making, workers);
	table->of->sql->counts.groupings++;
	for (uint32_t w = 0; w < workers; w++)
		ws_sql_tuples_free(&making.tuples[w]);
	free(making.tuples);
	free(making.place);
	free(making.got);
	free(making.worker);
	free(making.number);
	if (!rc)
		return part;
	ws_sql_part_free(part);
	return NULL;
}

void ws_sql_part_free(struct ws_sql_part *part)
{
	if (!part)
		return;
	for (int c = 0; c < WS_MAX_COLUMNS; c++)
		free(part->col[c]);
	ws_sql_groups_free(&part->groups);
	free(part->order);
	free(part->first);
	free(part);
}

bool ws_sql_part_find(const struct ws_sql_part *part, const struct ws_text *key, size_t *from,
		      size_t *to)
{
	uint32_t group = ws_sql_group_find(&part->groups, key);

	if (!group)
		return false;
	*from = part->first[group - 1];
	*to = part->first[group];
	return true;
}

bool ws_sql_part_fits(uint64_t rows, uint64_t columns)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	uint64_t most =
		pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / 4 : (uint64_t)1 << 30;

	return rows < UINT32_MAX / 2 &&
	       rows * (8 * (uint64_t)__builtin_popcountll(columns) + 8) <= most;
}
