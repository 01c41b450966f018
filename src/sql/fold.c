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
		struct ws_sql_fold *fold;
		bool row; /* `current`, not the groups */
	} side[2];
};

struct folding {
	struct ws_sql_fold *fold;
	struct ws_sql_result *result;
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

static struct ws_xcell atom_cell(const struct ws_sql_fold *fold, const struct ws_sql_atom *atom,
				 uint64_t *const *col)
{
	struct ws_xcell cell = ws_sql_cell(fold->table, atom->column, col, 0);
	struct ws_export *export = &fold->table->of->export;

	if (atom->what == WS_ATOM_COLUMN)
		return cell;
	if (cell.kind != WS_X_STRING || !ws_sql_string_listed(export, cell.id))
		return ws_x_null();
	return atom->what == WS_ATOM_TEXT ? ws_sql_string_cell(export, cell.id) : ws_x_int(cell.id);
}

static bool joins(const struct ws_sql_fold *fold, uint64_t *const *col)
{
	for (uint32_t i = 0; i < fold->joins; i++) {
		struct ws_sql_atom id = {fold->join[i].column, WS_ATOM_ID};

		if (!fold->join[i].left && atom_cell(fold, &id, col).kind == WS_X_NULL)
			return false;
	}
	return true;
}

/* Ask SQLite for what it alone computes. 1, 0 when a condition is not met, -1 when it cannot be
 * used. */
static int compute_hard(struct folding *folding, struct ws_xcell *keys)
{
	int rc = sqlite3_step(folding->hard);

	if (rc != SQLITE_ROW)
		return rc == SQLITE_DONE ? 0 : -1;
	for (int i = 0; i < (int)folding->fold->hard_keys; i++) {
		switch (sqlite3_column_type(folding->hard, i)) {
		case SQLITE_NULL:
			keys[i] = ws_x_null();
			break;
		case SQLITE_INTEGER:
			keys[i] = ws_x_int(sqlite3_column_int64(folding->hard, i));
			break;
		case SQLITE_TEXT:
			keys[i] = (struct ws_xcell){.kind = WS_X_TEXT};
			keys[i].text = (const char *)sqlite3_column_text(folding->hard, i);
			keys[i].n = (size_t)sqlite3_column_bytes(folding->hard, i);
			break;
		default:
			return -1;
		}
	}
	return 1;
}

static void keep_text(struct ws_sql_result *result, struct ws_xcell *cell)
{
	char *text = ws_malloc(cell->n + 1);

	if (cell->n)
		memcpy(text, cell->text, cell->n);
	cell->text = text;
	ws_grow(result->texts, result->texts_cap, result->text_count + 1);
	result->texts[result->text_count++] = text;
}

/* Keep the values of a new group. False when there are too many. */
static bool new_group(struct folding *folding, const struct ws_xcell *keys)
{
	struct ws_sql_fold *fold = folding->fold;
	struct ws_sql_result *result = folding->result;
	size_t g = result->groups++, cells = fold->atoms + fold->bys;

	if (result->groups *
		    (cells * sizeof(*result->cells) + fold->args * sizeof(*result->sums) + 128) >
	    most_bytes)
		return false;
	ws_grow(result->rows, result->rows_cap, result->groups);
	ws_grow(result->sums, result->sums_cap, result->groups * fold->args);
	ws_grow(result->cells, result->cells_cap, result->groups * cells);
	result->rows[g] = 0;
	if (fold->args)
		memset(result->sums + g * fold->args, 0, fold->args * sizeof(*result->sums));
	if (fold->atoms)
		memcpy(result->cells + g * cells, result->current,
		       fold->atoms * sizeof(*result->cells));
	for (uint32_t k = 0; k < fold->bys; k++) {
		result->cells[g * cells + fold->atoms + k] = keys[k];
		if (fold->by[k].how == WS_BY_HARD && keys[k].kind == WS_X_TEXT)
			keep_text(result, &result->cells[g * cells + fold->atoms + k]);
	}
	return true;
}

static uint32_t group_of(struct folding *folding, const struct ws_xcell *keys)
{
	bool made;
	uint32_t g;

	folding->key.len = 0;
	for (uint32_t k = 0; k < folding->fold->bys; k++)
		ws_sql_key_cell(&folding->key, &keys[k]);
	g = ws_sql_group(&folding->groups, &folding->key, &made);
	if (made && !new_group(folding, keys))
		folding->abandoned = true;
	return g;
}

static uint32_t meaning(struct folding *folding, const uint64_t *tuple)
{
	struct ws_sql_fold *fold = folding->fold;
	struct ws_xcell keys[WS_SQL_KEYS], hard[WS_SQL_KEYS];
	uint64_t *col[WS_MAX_COLUMNS] = {NULL};
	const uint64_t *word = tuple + folding->sources;
	uint32_t group;
	int rc;

	for (uint32_t i = 0; i < folding->sources; i++)
		col[folding->source[i]] = (uint64_t *)&tuple[i];
	if (!joins(fold, col))
		return DROPPED;
	for (uint32_t i = 0; i < fold->atoms; i++)
		folding->result->current[i] = atom_cell(fold, &fold->atom[i], col);
	if (folding->hard) {
		rc = ++folding->tuples > MOST_HARD ? -1 : compute_hard(folding, hard);
		folding->abandoned |= rc < 0;
		if (rc <= 0) {
			sqlite3_reset(folding->hard);
			return DROPPED;
		}
	}
	for (uint32_t k = 0; k < fold->bys; k++) {
		const struct ws_sql_group_by *by = &fold->by[k];

		keys[k] = by->how == WS_BY_ATOM	  ? folding->result->current[by->number]
			  : by->how == WS_BY_HARD ? hard[by->number]
						  : ws_x_null();
		if (by->how == WS_BY_NODE) {
			keys[k] = word[1] ? ws_x_null() : ws_x_int((int64_t)word[0]);
			word += 2;
		}
		if (keys[k].kind == WS_X_REAL)
			folding->abandoned = true;
	}
	group = group_of(folding, keys);
	if (folding->hard)
		sqlite3_reset(folding->hard);
	return group;
}

/* ---- rows ---- */

static void make_room(struct folding *folding, struct worker *worker, size_t rows)
{
	if (rows <= worker->rows)
		return;
	worker->rows = rows;
	free(worker->number);
	worker->number = ws_malloc(rows * sizeof(*worker->number));
	for (uint32_t a = 0; a < folding->fold->args; a++) {
		free(worker->arg[a]);
		free(worker->null[a]);
		worker->arg[a] = ws_malloc(rows * 8);
		worker->null[a] = ws_malloc(rows);
	}
}

static void number_rows(struct folding *folding, struct worker *worker, const uint64_t *const *col,
			size_t from, size_t n)
{
	const struct ws_sql_fold *fold = folding->fold;
	const struct ws_sql_vector *word[WS_SQL_KEYS];
	uint32_t *number = worker->number + from, words = 0;
	uint64_t v[WS_MAX_COLUMNS + 2 * WS_SQL_KEYS] = {0};

	for (uint32_t k = 0; k < fold->bys; k++)
		if (fold->by[k].how == WS_BY_NODE)
			word[words++] = &worker->values.node[fold->by[k].number];
	for (size_t i = 0; i < n; i++) {
		if (number[i] == DROPPED)
			continue;
		for (uint32_t k = 0; k < folding->sources; k++)
			v[k] = col[folding->source[k]][from + i];
		for (uint32_t k = 0; k < words; k++) {
			v[folding->sources + 2 * k] = (uint64_t)word[k]->i[i];
			v[folding->sources + 2 * k + 1] = word[k]->null[i];
		}
		number[i] = ws_sql_tuple(&worker->tuples, v);
	}
}

static void filter_rows(struct folding *folding, struct worker *worker, const uint64_t *const *col,
			size_t from, size_t n)
{
	const struct ws_sql_fold *fold = folding->fold;
	uint32_t *number = worker->number + from;
	uint64_t *at[WS_MAX_COLUMNS];

	memset(number, 0, n * sizeof(*number));
	for (uint32_t k = 0; k < fold->filters; k++) {
		const struct ws_sql_vector *vector = &worker->values.node[fold->filter[k]];
		bool real = fold->exprs.node[fold->filter[k]].real;

		for (size_t i = 0; i < n; i++)
			if (vector->null[i] || (real ? vector->r[i] == 0 : !vector->i[i]))
				number[i] = DROPPED;
	}
	if (!fold->table->view->keep)
		return;
	memcpy(at, col, sizeof(at));
	for (size_t i = 0; i < n; i++)
		if (!ws_sql_keeps(fold->table, at, from + i))
			number[i] = DROPPED;
}

static void prepare_block(struct folding *folding, struct worker *worker,
			  const struct ws_batch *batch)
{
	const struct ws_sql_fold *fold = folding->fold;

	make_room(folding, worker, batch->rows);
	for (size_t from = 0, n; from < batch->rows; from += n) {
		n = batch->rows - from < WS_SQL_CHUNK ? batch->rows - from : WS_SQL_CHUNK;
		ws_sql_compute(&fold->exprs, batch->col, from, n, &worker->values);
		filter_rows(folding, worker, batch->col, from, n);
		number_rows(folding, worker, batch->col, from, n);
		for (uint32_t a = 0; a < fold->args; a++) {
			memcpy(worker->arg[a] + from, worker->values.node[fold->arg[a]].i, n * 8);
			memcpy(worker->null[a] + from, worker->values.node[fold->arg[a]].null, n);
		}
	}
}

/* ---- adding up, in the order of blocks ---- */

static void add_whole(struct sum *sum, int64_t v)
{
	uint64_t size = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

	sum->min.i = !sum->n || v < sum->min.i ? v : sum->min.i;
	sum->max.i = !sum->n || v > sum->max.i ? v : sum->max.i;
	sum->n++;
	sum->whole = (int64_t)((uint64_t)sum->whole + (uint64_t)v);
	sum->real += (double)v;
	sum->magnitude = sum->magnitude + size < size ? UINT64_MAX : sum->magnitude + size;
}

static void add_real(struct sum *sum, double v)
{
	sum->min.r = !sum->n || v < sum->min.r ? v : sum->min.r;
	sum->max.r = !sum->n || v > sum->max.r ? v : sum->max.r;
	sum->n++;
	sum->real += v;
}

static void add_rows(struct folding *folding, struct worker *worker, size_t rows)
{
	const struct ws_sql_fold *fold = folding->fold;
	uint32_t *number = worker->number;

	ws_grow(worker->group, worker->group_cap, worker->tuples.n);
	for (; worker->known < worker->tuples.n && !folding->abandoned; worker->known++)
		worker->group[worker->known] = meaning(
			folding, worker->tuples.values + worker->known * worker->tuples.words);
	if (folding->abandoned)
		return;
	for (size_t i = 0; i < rows; i++) {
		number[i] = number[i] == DROPPED ? DROPPED : worker->group[number[i]];
		if (number[i] != DROPPED)
			folding->result->rows[number[i]]++;
	}
	for (uint32_t a = 0; a < fold->args; a++) {
		struct sum *sums = folding->result->sums + a;
		bool real = fold->exprs.node[fold->arg[a]].real;

		for (size_t i = 0; i < rows; i++) {
			struct sum *sum = &sums[(size_t)number[i] * fold->args];
			double r;

			if (number[i] == DROPPED || worker->null[a][i])
				continue;
			if (real) {
				memcpy(&r, &worker->arg[a][i], 8);
				add_real(sum, r);
			} else {
				add_whole(sum, (int64_t)worker->arg[a][i]);
			}
		}
	}
}

static int take(void *ctx, const struct ws_batch *batch)
{
	struct folding *folding = ctx;
	struct worker *worker = &folding->workers[batch->worker];
	size_t blocks = ws_report_blocks(folding->fold->table->of->export.report,
					 folding->fold->table->view->source);
	bool abandoned;

	if (batch->rows)
		prepare_block(folding, worker, batch);
	pthread_mutex_lock(&folding->lock);
	while (folding->turn != batch->block && !folding->abandoned)
		pthread_cond_wait(&folding->turned, &folding->lock);
	folding->abandoned |= folding->fold->table->of->sql->stop || worker->values.overflow;
	abandoned = folding->abandoned;
	if (!abandoned && batch->rows) /* others compute meanwhile; who is done with that waits for
				      the turn, not for this */
		add_rows(folding, worker, batch->rows);
	abandoned = folding->abandoned;
	for (folding->turn++; folding->turn < blocks && folding->skip[folding->turn];)
		folding->turn++;
	pthread_cond_broadcast(&folding->turned);
	pthread_mutex_unlock(&folding->lock);
	return abandoned;
}

/* ---- may the sums be told? ---- */

static bool can_be_told(const struct ws_sql_fold *fold, const struct ws_sql_figure *figure,
			const struct sum *sum)
{
	bool as_summed = fold->ordered && sqlite3_libversion_number() < kahan;

	switch (figure->what) {
	case WS_F_SUM:
		return fold->exprs.node[fold->arg[figure->arg]].real || sum->magnitude <= INT64_MAX;
	case WS_F_AVG:
	case WS_F_TOTAL:
		return fold->exprs.node[fold->arg[figure->arg]].real || as_summed ||
		       sum->magnitude <= exact;
	default:
		return true;
	}
}

/* Figures of real numbers depend on the order of rows, and sums on the version of SQLite. */
static bool may_be_made(const struct ws_sql_fold *fold)
{
	for (uint32_t i = 0; i < fold->figures; i++) {
		const struct ws_sql_figure *figure = &fold->figure[i];

		if (figure->what < WS_F_SUM || !fold->exprs.node[fold->arg[figure->arg]].real)
			continue;
		if (!fold->ordered ||
		    (figure->what < WS_F_MIN && sqlite3_libversion_number() >= kahan))
			return false;
	}
	for (uint32_t i = 0; i < fold->bys; i++)
		if (fold->by[i].how == WS_BY_NODE && fold->exprs.node[fold->by[i].number].real)
			return false;
	return true;
}

static int by_keys(const void *first, const void *second, void *ctx)
{
	const struct ws_sql_fold *fold = ctx;
	size_t cells = fold->atoms + fold->bys, x = *(const uint32_t *)first,
	       y = *(const uint32_t *)second;

	for (uint32_t k = 0; k < fold->bys; k++) {
		int c = ws_sql_compare_cells(&fold->result->cells[x * cells + fold->atoms + k],
					     &fold->result->cells[y * cells + fold->atoms + k]);

		if (c)
			return fold->by[k].descending ? -c : c;
	}
	return 0;
}

static bool finish(struct ws_sql_fold *fold)
{
	struct ws_sql_result *result = fold->result;

	for (size_t g = 0; g < result->groups; g++)
		for (uint32_t i = 0; i < fold->figures; i++)
			if (fold->figure[i].what != WS_F_ROWS &&
			    !can_be_told(fold, &fold->figure[i],
					 &result->sums[g * fold->args + fold->figure[i].arg]))
				return false;
	result->order = ws_malloc((result->groups + 1) * sizeof(*result->order));
	for (size_t g = 0; g < result->groups; g++)
		result->order[g] = (uint32_t)g;
	if (result->groups > 1)
		qsort_r(result->order, result->groups, sizeof(*result->order), by_keys, fold);
	return true;
}

/* ---- the table of the answer ---- */

struct fold_vtab {
	sqlite3_vtab base;
	struct side *side;
};

struct fold_cursor {
	sqlite3_vtab_cursor base;
	struct ws_sql_fold *fold;
	bool row;
	size_t at;
};

static const char *atom_type(const struct ws_sql_fold *fold, const struct ws_sql_atom *atom)
{
	return atom->what == WS_ATOM_COLUMN ? fold->table->columns[atom->column].type
	       : atom->what == WS_ATOM_TEXT ? "TEXT"
					    : "INTEGER";
}

static int fold_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
			sqlite3_vtab **out, char **err)
{
	struct side *side = aux;
	const struct ws_sql_fold *fold = side->fold;
	struct ws_text sql = {0};
	struct fold_vtab *vtab;
	int rc;

	(void)argc, (void)argv, (void)err;
	ws_text_puts(&sql, "CREATE TABLE x(");
	for (uint32_t i = 0; i < fold->atoms; i++)
		ws_text_printf(&sql, "\"ws$a%u\" %s, ", i, atom_type(fold, &fold->atom[i]));
	for (uint32_t i = 0; i < fold->bys; i++)
		ws_text_printf(&sql, "\"ws$g%u\", ", i);
	for (uint32_t i = 0; i < fold->figures; i++)
		ws_text_printf(&sql, "\"ws$f%u\", ", i);
	ws_text_puts(&sql, "\"ws$\")");
	fold->table->of->sql->declaring = true;
	rc = sqlite3_declare_vtab(db, sql.text);
	fold->table->of->sql->declaring = false;
	ws_text_free(&sql);
	if (rc != SQLITE_OK)
		return rc;
	vtab = ws_calloc(1, sizeof(*vtab));
	vtab->side = side;
	*out = &vtab->base;
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
	size_t rows = side->row ? 1 : side->fold->result->groups;

	info->estimatedRows = (sqlite3_int64)rows;
	info->estimatedCost = (double)rows + 1;
	return SQLITE_OK;
}

static int fold_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
	struct fold_cursor *cursor = ws_calloc(1, sizeof(*cursor));

	cursor->fold = ((struct fold_vtab *)v)->side->fold;
	cursor->row = ((struct fold_vtab *)v)->side->row;
	*out = &cursor->base;
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
	const struct fold_cursor *cursor = (const struct fold_cursor *)base;

	return cursor->at >= (cursor->row ? 1 : cursor->fold->result->groups);
}

static void give_figure(const struct ws_sql_fold *fold, size_t g,
			const struct ws_sql_figure *figure, sqlite3_context *out)
{
	const struct sum *sum = figure->what == WS_F_ROWS
					? NULL
					: &fold->result->sums[g * fold->args + figure->arg];
	bool real = figure->what != WS_F_ROWS && fold->exprs.node[fold->arg[figure->arg]].real;

	if (figure->what == WS_F_ROWS)
		sqlite3_result_int64(out, (sqlite3_int64)fold->result->rows[g]);
	else if (figure->what == WS_F_COUNT)
		sqlite3_result_int64(out, (sqlite3_int64)sum->n);
	else if (figure->what == WS_F_TOTAL)
		sqlite3_result_double(out, sum->real);
	else if (!sum->n)
		sqlite3_result_null(out);
	else if (figure->what == WS_F_AVG)
		sqlite3_result_double(out, sum->real / (double)sum->n);
	else if (figure->what == WS_F_SUM && real)
		sqlite3_result_double(out, sum->real);
	else if (figure->what == WS_F_SUM)
		sqlite3_result_int64(out, sum->whole);
	else if (real)
		sqlite3_result_double(out, figure->what == WS_F_MIN ? sum->min.r : sum->max.r);
	else
		sqlite3_result_int64(out, figure->what == WS_F_MIN ? sum->min.i : sum->max.i);
}

static int fold_column(sqlite3_vtab_cursor *base, sqlite3_context *out, int column)
{
	const struct fold_cursor *cursor = (const struct fold_cursor *)base;
	const struct ws_sql_fold *fold = cursor->fold;
	const struct ws_sql_result *result = fold->result;
	size_t k = (size_t)column, g;

	if (cursor->row) {
		if (k < fold->atoms)
			ws_sqlite_give(out, &result->current[k]);
		return SQLITE_OK;
	}
	g = result->order[cursor->at];
	if (k < fold->atoms + fold->bys)
		ws_sqlite_give(out, &result->cells[g * (fold->atoms + fold->bys) + k]);
	else if (k < fold->atoms + fold->bys + fold->figures)
		give_figure(fold, g, &fold->figure[k - fold->atoms - fold->bys], out);
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

static bool begin(struct folding *folding)
{
	struct ws_sql_fold *fold = folding->fold;
	struct ws_sql_result *result = folding->result;
	sqlite3 *db = fold->table->of->sql->db;
	char name[2][32], *sql;
	int rc;

	result->side[0] = (struct side){fold, false};
	result->side[1] = (struct side){fold, true};
	snprintf(name[0], sizeof(name[0]), "ws$%u", fold->number);
	snprintf(name[1], sizeof(name[1]), "ws$%urow", fold->number);
	for (int i = 0; i < 2; i++)
		if (sqlite3_create_module(db, name[i], &fold_module, &result->side[i]) != SQLITE_OK)
			return false;
	if (!fold->bys)
		group_of(folding, NULL);
	if (!fold->hard_keys && !fold->hard_conditions)
		return true;
	sql = ws_format("SELECT %s", fold->hard.text);
	rc = sqlite3_prepare_v2(db, sql, -1, &folding->hard, NULL);
	free(sql);
	return rc == SQLITE_OK && folding->hard;
}

/* Blocks whose times no row can have that passes. */
static void skip_blocks(struct folding *folding)
{
	const struct ws_report *report = folding->fold->table->of->export.report;
	enum ws_table table = folding->fold->table->view->source;
	size_t blocks = ws_report_blocks(report, table);
	struct ws_sql_counts *counts = &folding->fold->table->of->sql->counts;

	folding->skip = ws_calloc(blocks + 1, 1);
	for (size_t i = 0; i < blocks; i++) {
		struct ws_block_info info = ws_report_block(report, table, i);

		folding->skip[i] = info.time_min > folding->fold->upper ||
				   info.time_max < folding->fold->lower;
		*(folding->skip[i] ? &counts->skipped : &counts->blocks) += 1;
	}
	while (folding->turn < blocks && folding->skip[folding->turn])
		folding->turn++;
}

static bool scan(struct folding *folding)
{
	struct ws_sql_fold *fold = folding->fold;
	struct ws_scan sc = {.table = fold->table->view->source,
			     .columns = fold->exprs.reads,
			     .time_max = UINT64_MAX,
			     .empty = true};
	uint32_t workers = ws_scan_workers(&sc), words = 0;
	uint64_t sources = 0, damaged = 0;

	for (uint32_t i = 0; i < fold->atoms; i++)
		sources |= ws_xcolumn_reads(&fold->table->columns[fold->atom[i].column]);
	for (uint32_t i = 0; i < fold->joins; i++)
		sources |= ws_xcolumn_reads(&fold->table->columns[fold->join[i].column]);
	for (uint32_t k = 0; k < fold->bys; k++)
		words += fold->by[k].how == WS_BY_NODE ? 2 : 0;
	sc.columns |= sources | (fold->table->view->keep ? fold->table->view->keep_reads : 0);
	for (; sources; sources &= sources - 1)
		folding->source[folding->sources++] = (uint8_t)__builtin_ctzll(sources);
	skip_blocks(folding);
	sc.skip = folding->skip;
	folding->workers = aligned_alloc(128, workers * sizeof(*folding->workers));
	memset(folding->workers, 0, workers * sizeof(*folding->workers));
	for (uint32_t i = 0; i < workers; i++)
		folding->workers[i].tuples.words =
			folding->sources + words ? folding->sources + words : 1;
	ws_scan_run(fold->table->of->export.report, &sc, take, folding, &damaged);
	fold->table->of->sql->counts.damaged += folding->abandoned ? 0 : damaged;
	for (uint32_t i = 0; i < workers; i++) {
		ws_sql_tuples_free(&folding->workers[i].tuples);
		free(folding->workers[i].group);
		free(folding->workers[i].number);
		for (uint32_t a = 0; a < fold->args; a++) {
			free(folding->workers[i].arg[a]);
			free(folding->workers[i].null[a]);
		}
	}
	free(folding->workers);
	free(folding->skip);
	return !folding->abandoned;
}

bool ws_sql_fold_run(struct ws_sql_fold *fold)
{
	struct folding folding = {.fold = fold,
				  .lock = PTHREAD_MUTEX_INITIALIZER,
				  .turned = PTHREAD_COND_INITIALIZER};
	struct ws_sql_counts before = fold->table->of->sql->counts;
	bool ok;

	if (!may_be_made(fold))
		return false;
	folding.result = fold->result = ws_calloc(1, sizeof(*fold->result));
	ok = begin(&folding) && scan(&folding) && finish(fold);
	sqlite3_finalize(folding.hard);
	ws_sql_groups_free(&folding.groups);
	ws_text_free(&folding.key);
	fold->table->of->sql->counts.groupings++;
	if (!ok)
		fold->table->of->sql->counts = before;
	return ok;
}

void ws_sql_fold_free(struct ws_sql_fold *fold)
{
	struct ws_sql_result *result = fold->result;
	char name[32];

	if (result) {
		snprintf(name, sizeof(name), "ws$%u", fold->number);
		sqlite3_create_module(fold->table->of->sql->db, name, NULL, NULL);
		snprintf(name, sizeof(name), "ws$%urow", fold->number);
		sqlite3_create_module(fold->table->of->sql->db, name, NULL, NULL);
		for (size_t i = 0; i < result->text_count; i++)
			free(result->texts[i]);
		free(result->texts);
		free(result->order);
		free(result->rows);
		free(result->sums);
		free(result->cells);
		free(result);
	}
	ws_text_free(&fold->hard);
	free(fold);
}
