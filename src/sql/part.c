/*
 * part.c - rows of a table by groups of equal values.
 *
 * SQLite groups by sorting rows, at about a microsecond each, and looks rows of a table up by running through all of it. Here the
 * columns that a query needs are decoded by all cores, each row is numbered by the values of its key columns as they are stored,
 * and a counting sort brings equal ones together: some 20 ns a row. What the stored values mean (threads that share a number, texts
 * of equal bytes under several ids) is looked at once for each distinct one.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sql/table.h"

/* ---- distinct stored values, numbered by each worker for itself ---- */

struct tuples {
	uint64_t *v; /* n * words */
	size_t n, cap;
	uint32_t *slots;
	size_t mask;
	uint32_t words, last;
} __attribute__((aligned(128)));

static uint64_t hash_words(const uint64_t *v, uint32_t words)
{
	uint64_t h = 0;

	for (uint32_t i = 0; i < words; i++) {
		h = (h ^ v[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return h;
}

static void grow_tuples(struct tuples *t)
{
	size_t size = t->mask ? (t->mask + 1) * 2 : 1024;

	free(t->slots);
	t->slots = ws_calloc(size, sizeof(*t->slots));
	t->mask = size - 1;
	for (size_t i = 0; i < t->n; i++) {
		size_t at = hash_words(t->v + i * t->words, t->words) & t->mask;

		while (t->slots[at])
			at = (at + 1) & t->mask;
		t->slots[at] = (uint32_t)i + 1;
	}
}

static uint32_t number_of(struct tuples *t, const uint64_t *v)
{
	size_t at;

	if (t->n && !memcmp(t->v + (size_t)t->last * t->words, v, t->words * 8))
		return t->last;
	if (t->n * 2 >= t->mask)
		grow_tuples(t);
	for (at = hash_words(v, t->words) & t->mask; t->slots[at]; at = (at + 1) & t->mask)
		if (!memcmp(t->v + (size_t)(t->slots[at] - 1) * t->words, v, t->words * 8))
			return t->last = t->slots[at] - 1;
	if ((t->n + 1) * t->words > t->cap) {
		t->cap = t->cap ? t->cap * 2 : 1024;
		t->v = ws_realloc(t->v, t->cap * 8);
	}
	memcpy(t->v + t->n * t->words, v, t->words * 8);
	t->slots[at] = (uint32_t)t->n + 1;
	return t->last = (uint32_t)t->n++;
}

/* ---- reading ---- */

struct making {
	struct ws_sql_table *t;
	struct ws_sql_part *p;
	const struct ws_sql_keys *keys;
	uint64_t decode;
	uint8_t source[WS_MAX_COLUMNS]; /* columns of the tuples */
	uint32_t sources;
	struct tuples *tuples;	/* by worker */
	size_t *place;		/* of each block's rows in the columns */
	uint32_t *got, *worker; /* by block */
	uint32_t *number;	/* of each row: of its tuple, then of its group */
};

static int take(void *ctx, const struct ws_batch *b)
{
	struct making *m = ctx;
	struct tuples *t = &m->tuples[b->worker];
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
		number[i] = i && first[i] == first[i - 1] ? number[i - 1] : number_of(t, &first[i]);
	for (size_t i = 0; m->sources > 1 && i < b->rows; i++) {
		for (uint32_t k = 0; k < m->sources; k++)
			v[k] = b->col[m->source[k]][i];
		number[i] = number_of(t, v);
	}
	m->got[b->block] = (uint32_t)b->rows;
	m->worker[b->block] = b->worker;
	return 0;
}

static int read_rows(struct making *m, uint64_t time_min, uint64_t time_max)
{
	struct ws_scan sc = {.table = m->t->view->source, .columns = m->decode, .time_min = time_min, .time_max = time_max};
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

		*(info.time_min <= time_max && info.time_max >= time_min ? &m->t->of->sql->counts.blocks
									 : &m->t->of->sql->counts.skipped) += 1;
		m->p->rows += m->got[i];
	}
	return rc;
}

/* ---- groups: what values mean ---- */

void ws_sql_key_cell(struct ws_text *t, const struct ws_xcell *c)
{
	struct {
		uint8_t tag;
		uint64_t v;
	} __attribute__((packed)) number = {'i', (uint64_t)c->i};

	switch (c->kind) {
	case WS_X_NULL:
		ws_text_add(t, "n", 1);
		return;
	case WS_X_STRING:
		number.v = c->id;
		break;
	case WS_X_REAL: /* 5.0 is 5 */
		if (c->r >= -9007199254740992.0 && c->r <= 9007199254740992.0 && c->r == (double)(int64_t)c->r)
			number.v = (uint64_t)(int64_t)c->r;
		else
			number.tag = 'r';
		break;
	case WS_X_TEXT:
	case WS_X_BLOB:
		number.tag = c->kind == WS_X_TEXT ? 't' : 'b';
		number.v = c->n;
		ws_text_add(t, &number, sizeof(number));
		ws_text_add(t, c->s, c->n);
		return;
	default:
		break;
	}
	ws_text_add(t, &number, sizeof(number));
}

static uint64_t hash_bytes(const char *s, size_t n)
{
	uint64_t h = n;

	for (; n >= 8; s += 8, n -= 8) {
		uint64_t v;

		memcpy(&v, s, 8);
		h = hash_words((uint64_t[]){h ^ v}, 1);
	}
	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)s[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 31;
}

static size_t slot_of(const struct ws_sql_part *p, const struct ws_text *key)
{
	size_t at = hash_bytes(key->s, key->len) & p->mask;

	for (; p->slots[at]; at = (at + 1) & p->mask) {
		const struct ws_text *k = &p->keys[p->slots[at] - 1];

		if (k->len == key->len && !memcmp(k->s, key->s, key->len))
			break;
	}
	return at;
}

struct group_cells {
	struct ws_xcell cell[WS_SQL_KEYS];
	uint32_t group;
};

struct groups { /* while they are being made */
	struct ws_sql_part *p;
	size_t keys_cap, cells_cap;
	struct group_cells *cells; /* when they are to be sorted */
};

static void grow_slots(struct ws_sql_part *p)
{
	size_t size = p->mask ? (p->mask + 1) * 2 : 1024;

	free(p->slots);
	p->slots = ws_calloc(size, sizeof(*p->slots));
	p->mask = size - 1;
	for (size_t i = 0; i < p->groups; i++)
		p->slots[slot_of(p, &p->keys[i])] = (uint32_t)i + 1;
}

/* Group of the values `cells`; takes over `key` when it is new. */
static uint32_t group_of(struct groups *g, const struct ws_xcell *cells, uint32_t count, bool sorted)
{
	struct ws_sql_part *p = g->p;
	struct ws_text key = {0};
	size_t at;

	for (uint32_t k = 0; k < count; k++)
		ws_sql_key_cell(&key, &cells[k]);
	if (p->groups * 2 >= p->mask)
		grow_slots(p);
	at = slot_of(p, &key);
	if (p->slots[at]) {
		ws_text_free(&key);
		return p->slots[at] - 1;
	}
	ws_grow(p->keys, g->keys_cap, p->groups + 1);
	p->keys[p->groups] = key;
	if (sorted) {
		ws_grow(g->cells, g->cells_cap, p->groups + 1);
		memcpy(g->cells[p->groups].cell, cells, count * sizeof(*cells));
		g->cells[p->groups].group = (uint32_t)p->groups;
	}
	p->slots[at] = (uint32_t)p->groups + 1;
	return (uint32_t)p->groups++;
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

/* SQLite's order: NULL, numbers, texts, blobs. */
static int rank(const struct ws_xcell *c)
{
	switch (c->kind) {
	case WS_X_NULL:
		return 0;
	case WS_X_TEXT:
		return 2;
	case WS_X_BLOB:
		return 3;
	default:
		return 1;
	}
}

static int compare_cells(const struct ws_xcell *a, const struct ws_xcell *b)
{
	int c = rank(a) - rank(b);

	if (c || a->kind == WS_X_NULL)
		return c;
	if (rank(a) >= 2) {
		c = memcmp(a->s, b->s, a->n < b->n ? a->n : b->n);
		return c ? c : a->n < b->n ? -1 : a->n > b->n;
	}
	if (a->kind == WS_X_REAL) /* a column holds one kind of number */
		return a->r < b->r ? -1 : a->r > b->r;
	if (a->kind == WS_X_STRING)
		return a->id < b->id ? -1 : a->id > b->id;
	return a->i < b->i ? -1 : a->i > b->i;
}

static int by_value(const void *a, const void *b, void *ctx)
{
	const struct group_cells *x = a, *y = b;
	const struct ws_sql_keys *keys = ctx;

	for (uint32_t k = 0; k < keys->count; k++) {
		int c = compare_cells(&x->cell[k], &y->cell[k]);

		if (c)
			return keys->descending[k] ? -c : c;
	}
	return 0;
}

/* Number groups by value: `renumber` gets the new number of each. Look-ups are not for such a grouping. */
static uint32_t *sort_groups(struct making *m, struct groups *g)
{
	uint32_t *renumber = ws_malloc((g->p->groups + 1) * sizeof(*renumber));

	if (g->p->groups)
		qsort_r(g->cells, g->p->groups, sizeof(*g->cells), by_value, (void *)m->keys);
	for (size_t i = 0; i < g->p->groups; i++)
		renumber[g->cells[i].group] = (uint32_t)i;
	return renumber;
}

/* Counting sort of rows by group. */
static void arrange(struct making *m, uint32_t *const *map, const uint32_t *renumber)
{
	struct ws_sql_part *p = m->p;
	size_t blocks = ws_report_blocks(m->t->of->x.r, m->t->view->source);
	size_t *next = ws_calloc(p->groups + 2, sizeof(*next));

	for (size_t b = 0; b < blocks; b++) {
		uint32_t *number = m->number + m->place[b];
		const uint32_t *to = map[m->worker[b]];

		for (uint32_t i = 0; i < m->got[b]; i++) {
			number[i] = renumber ? renumber[to[number[i]]] : to[number[i]];
			next[number[i] + 1]++;
		}
	}
	for (size_t g = 0; g < p->groups; g++)
		next[g + 1] += next[g];
	p->first = ws_malloc((p->groups + 1) * sizeof(*p->first));
	memcpy(p->first, next, (p->groups + 1) * sizeof(*p->first));
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

	grow_slots(m->p);
	map = map_tuples(m, &g, workers);
	if (m->keys->sorted)
		renumber = sort_groups(m, &g);
	arrange(m, map, renumber);
	for (uint32_t w = 0; w < workers; w++)
		free(map[w]);
	free(map);
	free(renumber);
	free(g.cells);
}

struct ws_sql_part *ws_sql_part_make(struct ws_sql_table *t, const struct ws_sql_keys *keys, uint64_t decode, uint64_t time_min,
				     uint64_t time_max)
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
	for (uint32_t w = 0; w < workers; w++) {
		free(m.tuples[w].v);
		free(m.tuples[w].slots);
	}
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
	for (size_t i = 0; i < p->groups; i++)
		ws_text_free(&p->keys[i]);
	free(p->keys);
	free(p->slots);
	free(p->order);
	free(p->first);
	free(p);
}

bool ws_sql_part_find(const struct ws_sql_part *p, const struct ws_text *key, size_t *from, size_t *to)
{
	uint32_t group = p->slots[slot_of(p, key)];

	if (!group)
		return false;
	*from = p->first[group - 1];
	*to = p->first[group];
	return true;
}

bool ws_sql_part_fits(uint64_t rows, uint64_t columns)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	uint64_t most = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / 4 : (uint64_t)1 << 30;

	return rows < UINT32_MAX / 2 && rows * (8 * (uint64_t)__builtin_popcountll(columns) + 8) <= most;
}
