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
	struct ws_sql_table *t;
	struct ws_sql_part *p;
	const struct ws_sql_keys *keys;
	uint64_t decode;
	uint8_t source[WS_MAX_COLUMNS]; /* columns of the tuples */
	uint32_t sources;
	struct ws_sql_tuples *tuples; /* by worker */
	size_t *place;		      /* of each block's rows in the columns */
	uint32_t *got, *worker;	      /* by block */
	uint32_t *number;	      /* of each row: of its tuple, then of its group */
};

static int take(void *ctx, const struct ws_batch *b)
{
	struct making *m = ctx;
	struct ws_sql_tuples *t = &m->tuples[b->worker];
	uint32_t *number = m->number + m->place[b->block];
	const uint64_t *first = b->col[m->source[0]];
	uint64_t v[WS_MAX_COLUMNS];

	if (m->t->of->sql->stop)
		return 1;
	for (uint64_t left = m->decode; left; left &= left - 1) {
		int c = __builtin_ctzll(left);

		memcpy(m->p->col[c] + m->place[b->block], b->col[c], b->rows * 8);
	}
	for (size_t i = 0; m->sources == 1 && i < b->rows; i++)
		number[i] =
			i && first[i] == first[i - 1] ? number[i - 1] : ws_sql_tuple(t, &first[i]);
	for (size_t i = 0; m->sources > 1 && i < b->rows; i++) {
		for (uint32_t k = 0; k < m->sources; k++)
			v[k] = b->col[m->source[k]][i];
		number[i] = ws_sql_tuple(t, v);
	}
	m->got[b->block] = (uint32_t)b->rows;
	m->worker[b->block] = b->worker;
	return 0;
}

static int read_rows(struct making *m, uint64_t time_min, uint64_t time_max)
{
	struct ws_scan sc = {.table = m->t->view->source,
			     .columns = m->decode,
			     .time_min = time_min,
			     .time_max = time_max};
	const struct ws_report *r = m->t->of->x.r;
	size_t blocks = ws_report_blocks(r, m->t->view->source), sum = 0;
	uint32_t workers = ws_scan_workers(&sc);
	uint64_t damaged = 0;
	int rc;

	m->place = ws_calloc(blocks + 1, sizeof(*m->place));
	m->got = ws_calloc(blocks + 1, sizeof(*m->got));
	m->worker = ws_calloc(blocks + 1, sizeof(*m->worker));
	for (size_t i = 0; i < blocks; i++) {
		m->place[i] = sum;
		sum += ws_report_block(r, m->t->view->source, i).rows;
	}
	m->number = ws_malloc((sum + 1) * sizeof(*m->number));
	for (uint64_t left = m->decode; left; left &= left - 1)
		m->p->col[__builtin_ctzll(left)] = ws_malloc((sum + 1) * 8);
	m->tuples = aligned_alloc(128, workers * sizeof(*m->tuples));
	memset(m->tuples, 0, workers * sizeof(*m->tuples));
	for (uint32_t i = 0; i < workers; i++)
		m->tuples[i].words = m->sources;
	rc = ws_scan_run(r, &sc, take, m, &damaged);
	m->t->of->sql->counts.damaged += damaged;
	for (size_t i = 0; i < blocks; i++) {
		struct ws_block_info info = ws_report_block(r, m->t->view->source, i);

		*(info.time_min <= time_max && info.time_max >= time_min
			  ? &m->t->of->sql->counts.blocks
			  : &m->t->of->sql->counts.skipped) += 1;
		m->p->rows += m->got[i];
	}
	return rc;
}

/* ---- groups: what values mean ---- */

struct group_cells {
	struct ws_xcell cell[WS_SQL_KEYS];
	uint32_t group;
};

struct groups { /* while they are being made */
	struct ws_sql_part *p;
	size_t cells_cap;
	struct ws_text key;
	struct group_cells *cells; /* when they are to be sorted */
};

/* Group of the values `cells`. */
static uint32_t group_of(struct groups *g, const struct ws_xcell *cells, uint32_t count,
			 bool sorted)
{
	bool made;
	uint32_t group;

	g->key.len = 0;
	for (uint32_t k = 0; k < count; k++)
		ws_sql_key_cell(&g->key, &cells[k]);
	group = ws_sql_group(&g->p->groups, &g->key, &made);
	if (made && sorted) {
		ws_grow(g->cells, g->cells_cap, (size_t)group + 1);
		memcpy(g->cells[group].cell, cells, count * sizeof(*cells));
		g->cells[group].group = group;
	}
	return group;
}

/* By worker: tuple to group. */
static uint32_t **map_tuples(struct making *m, struct groups *g, uint32_t workers)
{
	uint32_t **map = ws_calloc(workers, sizeof(*map));
	struct ws_xcell cells[WS_SQL_KEYS];
	uint64_t *col[WS_MAX_COLUMNS] = {NULL};

	for (uint32_t w = 0; w < workers; w++) {
		map[w] = ws_malloc((m->tuples[w].n + 1) * sizeof(**map));
		for (size_t i = 0; i < m->tuples[w].n; i++) {
			for (uint32_t k = 0; k < m->sources; k++)
				col[m->source[k]] = &m->tuples[w].v[i * m->sources + k];
			for (uint32_t k = 0; k < m->keys->count; k++)
				cells[k] = ws_sql_cell(m->t, m->keys->column[k], col, 0);
			map[w][i] = group_of(g, cells, m->keys->count, m->keys->sorted);
		}
	}
	return map;
}

static int by_value(const void *a, const void *b, void *ctx)
{
	const struct group_cells *x = a, *y = b;
	const struct ws_sql_keys *keys = ctx;

	for (uint32_t k = 0; k < keys->count; k++) {
		int c = ws_sql_compare_cells(&x->cell[k], &y->cell[k]);

		if (c)
			return keys->descending[k] ? -c : c;
	}
	return 0;
}

/* Number groups by value: `renumber` gets the new number of each. Look-ups are not for such a
 * grouping. */
static uint32_t *sort_groups(struct making *m, struct groups *g)
{
	uint32_t *renumber = ws_malloc((g->p->groups.n + 1) * sizeof(*renumber));

	if (g->p->groups.n)
		qsort_r(g->cells, g->p->groups.n, sizeof(*g->cells), by_value, (void *)m->keys);
	for (size_t i = 0; i < g->p->groups.n; i++)
		renumber[g->cells[i].group] = (uint32_t)i;
	return renumber;
}

/* Counting sort of rows by group. */
static void arrange(struct making *m, uint32_t *const *map, const uint32_t *renumber)
{
	struct ws_sql_part *p = m->p;
	size_t blocks = ws_report_blocks(m->t->of->x.r, m->t->view->source);
	size_t *next = ws_calloc(p->groups.n + 2, sizeof(*next));

	for (size_t b = 0; b < blocks; b++) {
		uint32_t *number = m->number + m->place[b];
		const uint32_t *to = map[m->worker[b]];

		for (uint32_t i = 0; i < m->got[b]; i++) {
			number[i] = renumber ? renumber[to[number[i]]] : to[number[i]];
			next[number[i] + 1]++;
		}
	}
	for (size_t g = 0; g < p->groups.n; g++)
		next[g + 1] += next[g];
	p->first = ws_malloc((p->groups.n + 1) * sizeof(*p->first));
	memcpy(p->first, next, (p->groups.n + 1) * sizeof(*p->first));
	p->order = ws_malloc((p->rows + 1) * sizeof(*p->order));
	for (size_t b = 0; b < blocks; b++)
		for (uint32_t i = 0; i < m->got[b]; i++)
			p->order[next[m->number[m->place[b] + i]]++] = (uint32_t)(m->place[b] + i);
	free(next);
}

static void group_rows(struct making *m, uint32_t workers)
{
	struct groups g = {.p = m->p};
	uint32_t **map, *renumber = NULL;

	map = map_tuples(m, &g, workers);
	if (m->keys->sorted)
		renumber = sort_groups(m, &g);
	arrange(m, map, renumber);
	for (uint32_t w = 0; w < workers; w++)
		free(map[w]);
	free(map);
	free(renumber);
	free(g.cells);
	ws_text_free(&g.key);
}

struct ws_sql_part *ws_sql_part_make(struct ws_sql_table *t, const struct ws_sql_keys *keys,
				     uint64_t decode, uint64_t time_min, uint64_t time_max)
{
	struct ws_sql_part *p = ws_calloc(1, sizeof(*p));
	struct making m = {.t = t, .p = p, .keys = keys};
	uint32_t workers = ws_scan_workers(&(struct ws_scan){.table = t->view->source});
	uint64_t sources = 0;
	int rc;

	for (uint32_t k = 0; k < keys->count; k++)
		sources |= ws_xcolumn_reads(&t->columns[keys->column[k]]);
	if (!sources) /* constants: one group, by whatever column there is */
		sources = 1;
	m.decode = decode | sources;
	for (; sources; sources &= sources - 1)
		m.source[m.sources++] = (uint8_t)__builtin_ctzll(sources);
	rc = read_rows(&m, time_min, time_max);
	if (!rc)
		group_rows(&m, workers);
	t->of->sql->counts.groupings++;
	for (uint32_t w = 0; w < workers; w++)
		ws_sql_tuples_free(&m.tuples[w]);
	free(m.tuples);
	free(m.place);
	free(m.got);
	free(m.worker);
	free(m.number);
	if (!rc)
		return p;
	ws_sql_part_free(p);
	return NULL;
}

void ws_sql_part_free(struct ws_sql_part *p)
{
	if (!p)
		return;
	for (int c = 0; c < WS_MAX_COLUMNS; c++)
		free(p->col[c]);
	ws_sql_groups_free(&p->groups);
	free(p->order);
	free(p->first);
	free(p);
}

bool ws_sql_part_find(const struct ws_sql_part *p, const struct ws_text *key, size_t *from,
		      size_t *to)
{
	uint32_t group = ws_sql_group_find(&p->groups, key);

	if (!group)
		return false;
	*from = p->first[group - 1];
	*to = p->first[group];
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
