/*
 * fold.c - see fold.h.
 *
 * Workers compute expressions, conditions and the number of each row's combination of stored values
 * for a block; then, in the order of blocks, one after the other adds its rows to the groups. So
 * sums of real numbers are added in the order in which SQLite would add them, and no tables need to
 * be merged. What a combination means is looked at once.
 */
#include "sql/fold.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "views/sqlite_value.h"

enum { DROPPED = UINT32_MAX, MOST_HARD = 1 << 17 };
static const uint64_t most_bytes = UINT64_C(768) << 20;
static const uint64_t exact = UINT64_C(1)
			      << 53; /* up to here sums of doubles are those of whole numbers */
static const int kahan =
	3043000; /* the version of SQLite from which on it sums real numbers otherwise */

struct sum { /* of one argument in one group */
	uint64_t n;
	union {
		int64_t i;
		double r;
	} min, max;
	int64_t whole;
	double real;	    /* summed as SQLite does, in order */
	uint64_t magnitude; /* sum of absolute values, UINT64_MAX and more as that */
};

struct worker {
	struct ws_sql_tuples tuples;
	uint32_t *group; /* by tuple, as far as known */
	size_t known, group_cap;
	struct ws_sql_values values;
	uint32_t *number;	    /* by row of the block */
	uint64_t *arg[WS_SQL_ARGS]; /* by row */
	uint8_t *null[WS_SQL_ARGS];
	size_t rows;
} __attribute__((aligned(128)));

struct ws_sql_result {
	size_t groups;
	uint32_t *order;
	uint64_t *rows;		/* by group */
	struct sum *sums;	/* by group, args of each */
	struct ws_xcell *cells; /* by group: atoms, then keys */
	size_t rows_cap, sums_cap, cells_cap;
	char **texts; /* of keys that SQLite made */
	size_t text_count, texts_cap;
	struct ws_xcell current[WS_SQL_ATOMS]; /* what expressions of atoms are computed of */
	struct side {
		struct ws_sql_fold *f;
		bool row; /* `current`, not the groups */
	} side[2];
};

struct folding {
	struct ws_sql_fold *f;
	struct ws_sql_result *r;
	uint8_t source[WS_MAX_COLUMNS]; /* first words of tuples */
	uint32_t sources;
	struct worker *workers;
	struct ws_sql_groups groups;
	struct ws_text key;
	sqlite3_stmt *hard;
	uint8_t *skip;
	size_t turn, tuples;
	bool abandoned;
	pthread_mutex_t lock;
	pthread_cond_t turned;
};

/* ---- what a combination means ---- */

static struct ws_xcell atom_cell(const struct ws_sql_fold *f, const struct ws_sql_atom *a,
				 uint64_t *const *col)
{
	struct ws_xcell cell = ws_sql_cell(f->t, a->column, col, 0);
	struct ws_export *x = &f->t->of->x;

	if (a->what == WS_ATOM_COLUMN)
		return cell;
	if (cell.kind != WS_X_STRING || !ws_sql_string_listed(x, cell.id))
		return ws_x_null();
	return a->what == WS_ATOM_TEXT ? ws_sql_string_cell(x, cell.id) : ws_x_int(cell.id);
}

static bool joins(const struct ws_sql_fold *f, uint64_t *const *col)
{
	for (uint32_t i = 0; i < f->joins; i++) {
		struct ws_sql_atom id = {f->join[i].column, WS_ATOM_ID};

		if (!f->join[i].left && atom_cell(f, &id, col).kind == WS_X_NULL)
			return false;
	}
	return true;
}

/* Ask SQLite for what it alone computes. 1, 0 when a condition is not met, -1 when it cannot be
 * used. */
static int compute_hard(struct folding *m, struct ws_xcell *keys)
{
	int rc = sqlite3_step(m->hard);

	if (rc != SQLITE_ROW)
		return rc == SQLITE_DONE ? 0 : -1;
	for (int i = 0; i < (int)m->f->hard_keys; i++) {
		switch (sqlite3_column_type(m->hard, i)) {
		case SQLITE_NULL:
			keys[i] = ws_x_null();
			break;
		case SQLITE_INTEGER:
			keys[i] = ws_x_int(sqlite3_column_int64(m->hard, i));
			break;
		case SQLITE_TEXT:
			keys[i] = (struct ws_xcell){.kind = WS_X_TEXT};
			keys[i].s = (const char *)sqlite3_column_text(m->hard, i);
			keys[i].n = (size_t)sqlite3_column_bytes(m->hard, i);
			break;
		default:
			return -1;
		}
	}
	return 1;
}

static void keep_text(struct ws_sql_result *r, struct ws_xcell *c)
{
	char *s = ws_malloc(c->n + 1);

	if (c->n)
		memcpy(s, c->s, c->n);
	c->s = s;
	ws_grow(r->texts, r->texts_cap, r->text_count + 1);
	r->texts[r->text_count++] = s;
}

/* Keep the values of a new group. False when there are too many. */
static bool new_group(struct folding *m, const struct ws_xcell *keys)
{
	struct ws_sql_fold *f = m->f;
	struct ws_sql_result *r = m->r;
	size_t g = r->groups++, cells = f->atoms + f->bys;

	if (r->groups * (cells * sizeof(*r->cells) + f->args * sizeof(*r->sums) + 128) > most_bytes)
		return false;
	ws_grow(r->rows, r->rows_cap, r->groups);
	ws_grow(r->sums, r->sums_cap, r->groups * f->args);
	ws_grow(r->cells, r->cells_cap, r->groups * cells);
	r->rows[g] = 0;
	if (f->args)
		memset(r->sums + g * f->args, 0, f->args * sizeof(*r->sums));
	if (f->atoms)
		memcpy(r->cells + g * cells, r->current, f->atoms * sizeof(*r->cells));
	for (uint32_t k = 0; k < f->bys; k++) {
		r->cells[g * cells + f->atoms + k] = keys[k];
		if (f->by[k].how == WS_BY_HARD && keys[k].kind == WS_X_TEXT)
			keep_text(r, &r->cells[g * cells + f->atoms + k]);
	}
	return true;
}

static uint32_t group_of(struct folding *m, const struct ws_xcell *keys)
{
	bool made;
	uint32_t g;

	m->key.len = 0;
	for (uint32_t k = 0; k < m->f->bys; k++)
		ws_sql_key_cell(&m->key, &keys[k]);
	g = ws_sql_group(&m->groups, &m->key, &made);
	if (made && !new_group(m, keys))
		m->abandoned = true;
	return g;
}

static uint32_t meaning(struct folding *m, const uint64_t *tuple)
{
	struct ws_sql_fold *f = m->f;
	struct ws_xcell keys[WS_SQL_KEYS], hard[WS_SQL_KEYS];
	uint64_t *col[WS_MAX_COLUMNS] = {NULL};
	const uint64_t *word = tuple + m->sources;
	uint32_t group;
	int rc;

	for (uint32_t i = 0; i < m->sources; i++)
		col[m->source[i]] = (uint64_t *)&tuple[i];
	if (!joins(f, col))
		return DROPPED;
	for (uint32_t i = 0; i < f->atoms; i++)
		m->r->current[i] = atom_cell(f, &f->atom[i], col);
	if (m->hard) {
		rc = ++m->tuples > MOST_HARD ? -1 : compute_hard(m, hard);
		m->abandoned |= rc < 0;
		if (rc <= 0) {
			sqlite3_reset(m->hard);
			return DROPPED;
		}
	}
	for (uint32_t k = 0; k < f->bys; k++) {
		const struct ws_sql_group_by *by = &f->by[k];

		keys[k] = by->how == WS_BY_ATOM	  ? m->r->current[by->number]
			  : by->how == WS_BY_HARD ? hard[by->number]
						  : ws_x_null();
		if (by->how == WS_BY_NODE) {
			keys[k] = word[1] ? ws_x_null() : ws_x_int((int64_t)word[0]);
			word += 2;
		}
		if (keys[k].kind == WS_X_REAL)
			m->abandoned = true;
	}
	group = group_of(m, keys);
	if (m->hard)
		sqlite3_reset(m->hard);
	return group;
}

/* ---- rows ---- */

static void make_room(struct folding *m, struct worker *w, size_t rows)
{
	if (rows <= w->rows)
		return;
	w->rows = rows;
	free(w->number);
	w->number = ws_malloc(rows * sizeof(*w->number));
	for (uint32_t a = 0; a < m->f->args; a++) {
		free(w->arg[a]);
		free(w->null[a]);
		w->arg[a] = ws_malloc(rows * 8);
		w->null[a] = ws_malloc(rows);
	}
}

static void number_rows(struct folding *m, struct worker *w, const uint64_t *const *col,
			size_t from, size_t n)
{
	const struct ws_sql_fold *f = m->f;
	const struct ws_sql_vector *word[WS_SQL_KEYS];
	uint32_t *number = w->number + from, words = 0;
	uint64_t v[WS_MAX_COLUMNS + 2 * WS_SQL_KEYS] = {0};

	for (uint32_t k = 0; k < f->bys; k++)
		if (f->by[k].how == WS_BY_NODE)
			word[words++] = &w->values.node[f->by[k].number];
	for (size_t i = 0; i < n; i++) {
		if (number[i] == DROPPED)
			continue;
		for (uint32_t k = 0; k < m->sources; k++)
			v[k] = col[m->source[k]][from + i];
		for (uint32_t k = 0; k < words; k++) {
			v[m->sources + 2 * k] = (uint64_t)word[k]->i[i];
			v[m->sources + 2 * k + 1] = word[k]->null[i];
		}
		number[i] = ws_sql_tuple(&w->tuples, v);
	}
}

static void filter_rows(struct folding *m, struct worker *w, const uint64_t *const *col,
			size_t from, size_t n)
{
	const struct ws_sql_fold *f = m->f;
	uint32_t *number = w->number + from;
	uint64_t *at[WS_MAX_COLUMNS];

	memset(number, 0, n * sizeof(*number));
	for (uint32_t k = 0; k < f->filters; k++) {
		const struct ws_sql_vector *v = &w->values.node[f->filter[k]];
		bool real = f->x.node[f->filter[k]].real;

		for (size_t i = 0; i < n; i++)
			if (v->null[i] || (real ? v->r[i] == 0 : !v->i[i]))
				number[i] = DROPPED;
	}
	if (!f->t->view->keep)
		return;
	memcpy(at, col, sizeof(at));
	for (size_t i = 0; i < n; i++)
		if (!ws_sql_keeps(f->t, at, from + i))
			number[i] = DROPPED;
}

static void prepare_block(struct folding *m, struct worker *w, const struct ws_batch *b)
{
	const struct ws_sql_fold *f = m->f;

	make_room(m, w, b->rows);
	for (size_t from = 0, n; from < b->rows; from += n) {
		n = b->rows - from < WS_SQL_CHUNK ? b->rows - from : WS_SQL_CHUNK;
		ws_sql_compute(&f->x, b->col, from, n, &w->values);
		filter_rows(m, w, b->col, from, n);
		number_rows(m, w, b->col, from, n);
		for (uint32_t a = 0; a < f->args; a++) {
			memcpy(w->arg[a] + from, w->values.node[f->arg[a]].i, n * 8);
			memcpy(w->null[a] + from, w->values.node[f->arg[a]].null, n);
		}
	}
}

/* ---- adding up, in the order of blocks ---- */

static void add_whole(struct sum *s, int64_t v)
{
	uint64_t size = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

	s->min.i = !s->n || v < s->min.i ? v : s->min.i;
	s->max.i = !s->n || v > s->max.i ? v : s->max.i;
	s->n++;
	s->whole = (int64_t)((uint64_t)s->whole + (uint64_t)v);
	s->real += (double)v;
	s->magnitude = s->magnitude + size < size ? UINT64_MAX : s->magnitude + size;
}

static void add_real(struct sum *s, double v)
{
	s->min.r = !s->n || v < s->min.r ? v : s->min.r;
	s->max.r = !s->n || v > s->max.r ? v : s->max.r;
	s->n++;
	s->real += v;
}

static void add_rows(struct folding *m, struct worker *w, size_t rows)
{
	const struct ws_sql_fold *f = m->f;
	uint32_t *number = w->number;

	ws_grow(w->group, w->group_cap, w->tuples.n);
	for (; w->known < w->tuples.n && !m->abandoned; w->known++)
		w->group[w->known] = meaning(m, w->tuples.v + w->known * w->tuples.words);
	if (m->abandoned)
		return;
	for (size_t i = 0; i < rows; i++) {
		number[i] = number[i] == DROPPED ? DROPPED : w->group[number[i]];
		if (number[i] != DROPPED)
			m->r->rows[number[i]]++;
	}
	for (uint32_t a = 0; a < f->args; a++) {
		struct sum *sums = m->r->sums + a;
		bool real = f->x.node[f->arg[a]].real;

		for (size_t i = 0; i < rows; i++) {
			struct sum *s = &sums[(size_t)number[i] * f->args];
			double r;

			if (number[i] == DROPPED || w->null[a][i])
				continue;
			if (real) {
				memcpy(&r, &w->arg[a][i], 8);
				add_real(s, r);
			} else {
				add_whole(s, (int64_t)w->arg[a][i]);
			}
		}
	}
}

static int take(void *ctx, const struct ws_batch *b)
{
	struct folding *m = ctx;
	struct worker *w = &m->workers[b->worker];
	size_t blocks = ws_report_blocks(m->f->t->of->x.r, m->f->t->view->source);
	bool abandoned;

	if (b->rows)
		prepare_block(m, w, b);
	pthread_mutex_lock(&m->lock);
	while (m->turn != b->block && !m->abandoned)
		pthread_cond_wait(&m->turned, &m->lock);
	m->abandoned |= m->f->t->of->sql->stop || w->values.overflow;
	abandoned = m->abandoned;
	if (!abandoned && b->rows) /* others compute meanwhile; who is done with that waits for the
				      turn, not for this */
		add_rows(m, w, b->rows);
	abandoned = m->abandoned;
	for (m->turn++; m->turn < blocks && m->skip[m->turn];)
		m->turn++;
	pthread_cond_broadcast(&m->turned);
	pthread_mutex_unlock(&m->lock);
	return abandoned;
}

/* ---- may the sums be told? ---- */

static bool can_be_told(const struct ws_sql_fold *f, const struct ws_sql_figure *g,
			const struct sum *s)
{
	bool as_summed = f->ordered && sqlite3_libversion_number() < kahan;

	switch (g->what) {
	case WS_F_SUM:
		return f->x.node[f->arg[g->arg]].real || s->magnitude <= INT64_MAX;
	case WS_F_AVG:
	case WS_F_TOTAL:
		return f->x.node[f->arg[g->arg]].real || as_summed || s->magnitude <= exact;
	default:
		return true;
	}
}

/* Figures of real numbers depend on the order of rows, and sums on the version of SQLite. */
static bool may_be_made(const struct ws_sql_fold *f)
{
	for (uint32_t i = 0; i < f->figures; i++) {
		const struct ws_sql_figure *g = &f->figure[i];

		if (g->what < WS_F_SUM || !f->x.node[f->arg[g->arg]].real)
			continue;
		if (!f->ordered || (g->what < WS_F_MIN && sqlite3_libversion_number() >= kahan))
			return false;
	}
	for (uint32_t i = 0; i < f->bys; i++)
		if (f->by[i].how == WS_BY_NODE && f->x.node[f->by[i].number].real)
			return false;
	return true;
}

static int by_keys(const void *a, const void *b, void *ctx)
{
	const struct ws_sql_fold *f = ctx;
	size_t cells = f->atoms + f->bys, x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	for (uint32_t k = 0; k < f->bys; k++) {
		int c = ws_sql_compare_cells(&f->result->cells[x * cells + f->atoms + k],
					     &f->result->cells[y * cells + f->atoms + k]);

		if (c)
			return f->by[k].descending ? -c : c;
	}
	return 0;
}

static bool finish(struct ws_sql_fold *f)
{
	struct ws_sql_result *r = f->result;

	for (size_t g = 0; g < r->groups; g++)
		for (uint32_t i = 0; i < f->figures; i++)
			if (f->figure[i].what != WS_F_ROWS &&
			    !can_be_told(f, &f->figure[i],
					 &r->sums[g * f->args + f->figure[i].arg]))
				return false;
	r->order = ws_malloc((r->groups + 1) * sizeof(*r->order));
	for (size_t g = 0; g < r->groups; g++)
		r->order[g] = (uint32_t)g;
	if (r->groups > 1)
		qsort_r(r->order, r->groups, sizeof(*r->order), by_keys, f);
	return true;
}

/* ---- the table of the answer ---- */

struct fold_vtab {
	sqlite3_vtab base;
	struct side *side;
};

struct fold_cursor {
	sqlite3_vtab_cursor base;
	struct ws_sql_fold *f;
	bool row;
	size_t at;
};

static const char *atom_type(const struct ws_sql_fold *f, const struct ws_sql_atom *a)
{
	return a->what == WS_ATOM_COLUMN ? f->t->columns[a->column].type
	       : a->what == WS_ATOM_TEXT ? "TEXT"
					 : "INTEGER";
}

static int fold_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
			sqlite3_vtab **out, char **err)
{
	struct side *side = aux;
	const struct ws_sql_fold *f = side->f;
	struct ws_text sql = {0};
	struct fold_vtab *v;
	int rc;

	(void)argc, (void)argv, (void)err;
	ws_text_puts(&sql, "CREATE TABLE x(");
	for (uint32_t i = 0; i < f->atoms; i++)
		ws_text_printf(&sql, "\"ws$a%u\" %s, ", i, atom_type(f, &f->atom[i]));
	for (uint32_t i = 0; i < f->bys; i++)
		ws_text_printf(&sql, "\"ws$g%u\", ", i);
	for (uint32_t i = 0; i < f->figures; i++)
		ws_text_printf(&sql, "\"ws$f%u\", ", i);
	ws_text_puts(&sql, "\"ws$\")");
	f->t->of->sql->declaring = true;
	rc = sqlite3_declare_vtab(db, sql.s);
	f->t->of->sql->declaring = false;
	ws_text_free(&sql);
	if (rc != SQLITE_OK)
		return rc;
	v = ws_calloc(1, sizeof(*v));
	v->side = side;
	*out = &v->base;
	return SQLITE_OK;
}

static int fold_disconnect(sqlite3_vtab *v)
{
	free(v);
	return SQLITE_OK;
}

static int fold_best_index(sqlite3_vtab *v, sqlite3_index_info *info)
{
	const struct side *side = ((struct fold_vtab *)v)->side;
	size_t rows = side->row ? 1 : side->f->result->groups;

	info->estimatedRows = (sqlite3_int64)rows;
	info->estimatedCost = (double)rows + 1;
	return SQLITE_OK;
}

static int fold_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
	struct fold_cursor *c = ws_calloc(1, sizeof(*c));

	c->f = ((struct fold_vtab *)v)->side->f;
	c->row = ((struct fold_vtab *)v)->side->row;
	*out = &c->base;
	return SQLITE_OK;
}

static int fold_close(sqlite3_vtab_cursor *c)
{
	free(c);
	return SQLITE_OK;
}

static int fold_filter(sqlite3_vtab_cursor *c, int number, const char *text, int argc,
		       sqlite3_value **argv)
{
	(void)number, (void)text, (void)argc, (void)argv;
	((struct fold_cursor *)c)->at = 0;
	return SQLITE_OK;
}

static int fold_next(sqlite3_vtab_cursor *c)
{
	((struct fold_cursor *)c)->at++;
	return SQLITE_OK;
}

static int fold_eof(sqlite3_vtab_cursor *base)
{
	const struct fold_cursor *c = (const struct fold_cursor *)base;

	return c->at >= (c->row ? 1 : c->f->result->groups);
}

static void give_figure(const struct ws_sql_fold *f, size_t g, const struct ws_sql_figure *d,
			sqlite3_context *out)
{
	const struct sum *s = d->what == WS_F_ROWS ? NULL : &f->result->sums[g * f->args + d->arg];
	bool real = d->what != WS_F_ROWS && f->x.node[f->arg[d->arg]].real;

	if (d->what == WS_F_ROWS)
		sqlite3_result_int64(out, (sqlite3_int64)f->result->rows[g]);
	else if (d->what == WS_F_COUNT)
		sqlite3_result_int64(out, (sqlite3_int64)s->n);
	else if (d->what == WS_F_TOTAL)
		sqlite3_result_double(out, s->real);
	else if (!s->n)
		sqlite3_result_null(out);
	else if (d->what == WS_F_AVG)
		sqlite3_result_double(out, s->real / (double)s->n);
	else if (d->what == WS_F_SUM && real)
		sqlite3_result_double(out, s->real);
	else if (d->what == WS_F_SUM)
		sqlite3_result_int64(out, s->whole);
	else if (real)
		sqlite3_result_double(out, d->what == WS_F_MIN ? s->min.r : s->max.r);
	else
		sqlite3_result_int64(out, d->what == WS_F_MIN ? s->min.i : s->max.i);
}

static int fold_column(sqlite3_vtab_cursor *base, sqlite3_context *out, int column)
{
	const struct fold_cursor *c = (const struct fold_cursor *)base;
	const struct ws_sql_fold *f = c->f;
	const struct ws_sql_result *r = f->result;
	size_t k = (size_t)column, g;

	if (c->row) {
		if (k < f->atoms)
			ws_sqlite_give(out, &r->current[k]);
		return SQLITE_OK;
	}
	g = r->order[c->at];
	if (k < f->atoms + f->bys)
		ws_sqlite_give(out, &r->cells[g * (f->atoms + f->bys) + k]);
	else if (k < f->atoms + f->bys + f->figures)
		give_figure(f, g, &f->figure[k - f->atoms - f->bys], out);
	return SQLITE_OK;
}

static int fold_rowid(sqlite3_vtab_cursor *c, sqlite3_int64 *out)
{
	*out = (sqlite3_int64)((struct fold_cursor *)c)->at;
	return SQLITE_OK;
}

/* Without xCreate: the table is there under the module's name as long as the module is. */
static const sqlite3_module fold_module = {
	.xConnect = fold_connect,
	.xBestIndex = fold_best_index,
	.xDisconnect = fold_disconnect,
	.xOpen = fold_open,
	.xClose = fold_close,
	.xFilter = fold_filter,
	.xNext = fold_next,
	.xEof = fold_eof,
	.xColumn = fold_column,
	.xRowid = fold_rowid,
};

/* ---- the interface ---- */

static bool begin(struct folding *m)
{
	struct ws_sql_fold *f = m->f;
	struct ws_sql_result *r = m->r;
	sqlite3 *db = f->t->of->sql->db;
	char name[2][32], *sql;
	int rc;

	r->side[0] = (struct side){f, false};
	r->side[1] = (struct side){f, true};
	snprintf(name[0], sizeof(name[0]), "ws$%u", f->number);
	snprintf(name[1], sizeof(name[1]), "ws$%urow", f->number);
	for (int i = 0; i < 2; i++)
		if (sqlite3_create_module(db, name[i], &fold_module, &r->side[i]) != SQLITE_OK)
			return false;
	if (!f->bys)
		group_of(m, NULL);
	if (!f->hard_keys && !f->hard_conditions)
		return true;
	sql = ws_format("SELECT %s", f->hard.s);
	rc = sqlite3_prepare_v2(db, sql, -1, &m->hard, NULL);
	free(sql);
	return rc == SQLITE_OK && m->hard;
}

/* Blocks whose times no row can have that passes. */
static void skip_blocks(struct folding *m)
{
	const struct ws_report *r = m->f->t->of->x.r;
	enum ws_table t = m->f->t->view->source;
	size_t blocks = ws_report_blocks(r, t);
	struct ws_sql_counts *counts = &m->f->t->of->sql->counts;

	m->skip = ws_calloc(blocks + 1, 1);
	for (size_t i = 0; i < blocks; i++) {
		struct ws_block_info info = ws_report_block(r, t, i);

		m->skip[i] = info.time_min > m->f->upper || info.time_max < m->f->lower;
		*(m->skip[i] ? &counts->skipped : &counts->blocks) += 1;
	}
	while (m->turn < blocks && m->skip[m->turn])
		m->turn++;
}

static bool scan(struct folding *m)
{
	struct ws_sql_fold *f = m->f;
	struct ws_scan sc = {.table = f->t->view->source,
			     .columns = f->x.reads,
			     .time_max = UINT64_MAX,
			     .empty = true};
	uint32_t workers = ws_scan_workers(&sc), words = 0;
	uint64_t sources = 0, damaged = 0;

	for (uint32_t i = 0; i < f->atoms; i++)
		sources |= ws_xcolumn_reads(&f->t->columns[f->atom[i].column]);
	for (uint32_t i = 0; i < f->joins; i++)
		sources |= ws_xcolumn_reads(&f->t->columns[f->join[i].column]);
	for (uint32_t k = 0; k < f->bys; k++)
		words += f->by[k].how == WS_BY_NODE ? 2 : 0;
	sc.columns |= sources | (f->t->view->keep ? f->t->view->keep_reads : 0);
	for (; sources; sources &= sources - 1)
		m->source[m->sources++] = (uint8_t)__builtin_ctzll(sources);
	skip_blocks(m);
	sc.skip = m->skip;
	m->workers = aligned_alloc(128, workers * sizeof(*m->workers));
	memset(m->workers, 0, workers * sizeof(*m->workers));
	for (uint32_t i = 0; i < workers; i++)
		m->workers[i].tuples.words = m->sources + words ? m->sources + words : 1;
	ws_scan_run(f->t->of->x.r, &sc, take, m, &damaged);
	f->t->of->sql->counts.damaged += m->abandoned ? 0 : damaged;
	for (uint32_t i = 0; i < workers; i++) {
		ws_sql_tuples_free(&m->workers[i].tuples);
		free(m->workers[i].group);
		free(m->workers[i].number);
		for (uint32_t a = 0; a < f->args; a++) {
			free(m->workers[i].arg[a]);
			free(m->workers[i].null[a]);
		}
	}
	free(m->workers);
	free(m->skip);
	return !m->abandoned;
}

bool ws_sql_fold_run(struct ws_sql_fold *f)
{
	struct folding m = {
		.f = f, .lock = PTHREAD_MUTEX_INITIALIZER, .turned = PTHREAD_COND_INITIALIZER};
	struct ws_sql_counts before = f->t->of->sql->counts;
	bool ok;

	if (!may_be_made(f))
		return false;
	m.r = f->result = ws_calloc(1, sizeof(*f->result));
	ok = begin(&m) && scan(&m) && finish(f);
	sqlite3_finalize(m.hard);
	ws_sql_groups_free(&m.groups);
	ws_text_free(&m.key);
	f->t->of->sql->counts.groupings++;
	if (!ok)
		f->t->of->sql->counts = before;
	return ok;
}

void ws_sql_fold_free(struct ws_sql_fold *f)
{
	struct ws_sql_result *r = f->result;
	char name[32];

	if (r) {
		snprintf(name, sizeof(name), "ws$%u", f->number);
		sqlite3_create_module(f->t->of->sql->db, name, NULL, NULL);
		snprintf(name, sizeof(name), "ws$%urow", f->number);
		sqlite3_create_module(f->t->of->sql->db, name, NULL, NULL);
		for (size_t i = 0; i < r->text_count; i++)
			free(r->texts[i]);
		free(r->texts);
		free(r->order);
		free(r->rows);
		free(r->sums);
		free(r->cells);
		free(r);
	}
	ws_text_free(&f->hard);
	free(f);
}
