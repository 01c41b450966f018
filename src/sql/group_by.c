/*
 * group_by.c - see group_by.h.
 *
 * For each block, a worker computes expressions, conditions and the number of each row's tuple of
 * stored values; then the workers add their rows to the groups one after another, in the order of
 * blocks. So real numbers are added in the order in which SQLite would add them, and no tables need
 * to be merged. The group of a tuple is found only once.
 */
#include "sql/group_by.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "views/sqlite_value.h"

enum { DROPPED = UINT32_MAX, MOST_SQLITE_TUPLES = 1 << 17 };
static const uint64_t most_group_bytes = UINT64_C(768) << 20;
/* Up to here, sums of doubles are those of whole numbers. */
static const uint64_t most_exact = UINT64_C(1) << 53;
/* The version of SQLite since which it sums real numbers in another way (Kahan's). */
static const int kahan_version = 3043000;

struct argument_sum { /* of one argument in one group */
	uint64_t count;
	union {
		int64_t i;
		double r;
	} min, max;
	int64_t whole;
	double real;	    /* summed as SQLite does, in order */
	uint64_t magnitude; /* sum of absolute values, at most UINT64_MAX */
};

struct group_worker {
	struct ws_sql_tuples tuples;
	uint32_t *group; /* by tuple, for the first `known` */
	size_t known, group_cap;
	struct ws_sql_values values;
	uint32_t *numbers;		       /* by row of the block */
	uint64_t *arguments[WS_SQL_ARGUMENTS]; /* by row */
	uint8_t *nulls[WS_SQL_ARGUMENTS];
	size_t rows;
} __attribute__((aligned(128)));

struct ws_sql_result {
	size_t group_count;
	uint32_t *order;
	uint64_t *rows;		    /* by group */
	struct argument_sum *sums;  /* by group, args of each */
	struct ws_view_cell *cells; /* by group: fields, then keys */
	size_t rows_capacity, sums_capacity, cells_capacity;
	char **texts; /* of keys that SQLite made */
	size_t text_count, texts_capacity;
	struct ws_view_cell
		current[WS_SQL_FIELDS]; /* the fields of which SQLite computes expressions */
	struct group_table {
		struct ws_sql_grouping *grouping;
		bool of_current; /* the table of `current`, not of the groups */
	} tables[2];
};

struct grouper {
	struct ws_sql_grouping *grouping;
	struct ws_sql_result *result;
	uint8_t source_columns[WS_MAX_COLUMNS]; /* columns that are the first words of tuples */
	uint32_t source_count;
	struct group_worker *workers;
	struct ws_sql_groups groups;
	struct ws_text key;
	sqlite3_stmt *sqlite_terms;
	uint8_t *skip;
	size_t turn, tuples;
	bool abandoned;
	pthread_mutex_t lock;
	pthread_cond_t turn_changed;
};

/* ---- the group of a tuple ---- */

static struct ws_view_cell make_field_cell(const struct ws_sql_grouping *grouping,
					   const struct ws_sql_field *atom,
					   uint64_t *const *columns)
{
	struct ws_view_cell cell = ws_sql_make_cell(grouping->table, atom->column, columns, 0);
	struct ws_cell_context *export = &grouping->table->report->export;

	if (atom->kind == WS_FIELD_COLUMN)
		return cell;
	if (cell.kind != WS_VIEW_STRING || !ws_sql_is_string_listed(export, cell.id))
		return ws_make_null_cell();
	if (atom->kind == WS_FIELD_TEXT)
		return ws_sql_make_string_cell(export, cell.id);
	return ws_make_int_cell(cell.id);
}

static bool passes_joins(const struct ws_sql_grouping *grouping, uint64_t *const *columns)
{
	for (uint32_t i = 0; i < grouping->join_count; i++) {
		struct ws_sql_field id = {grouping->joins[i].column, WS_FIELD_ID};

		if (!grouping->joins[i].left &&
		    make_field_cell(grouping, &id, columns).kind == WS_VIEW_NULL)
			return false;
	}
	return true;
}

/* Let SQLite compute the keys and conditions that only it can. 1, 0 when a condition is not met, -1
 * when the result cannot be used. */
static int step_sqlite_terms(struct grouper *grouper, struct ws_view_cell *keys)
{
	int rc = sqlite3_step(grouper->sqlite_terms);

	if (rc != SQLITE_ROW)
		return -(rc != SQLITE_DONE);
	for (int i = 0; i < (int)grouper->grouping->sqlite_key_count; i++) {
		switch (sqlite3_column_type(grouper->sqlite_terms, i)) {
		case SQLITE_NULL:
			keys[i] = ws_make_null_cell();
			break;
		case SQLITE_INTEGER:
			keys[i] = ws_make_int_cell(sqlite3_column_int64(grouper->sqlite_terms, i));
			break;
		case SQLITE_TEXT:
			keys[i] = (struct ws_view_cell){.kind = WS_VIEW_TEXT};
			keys[i].text = (const char *)sqlite3_column_text(grouper->sqlite_terms, i);
			keys[i].n = (size_t)sqlite3_column_bytes(grouper->sqlite_terms, i);
			break;
		default:
			return -1;
		}
	}
	return 1;
}

static void keep_key_text(struct ws_sql_result *result, struct ws_view_cell *cell)
{
	char *text = ws_malloc(cell->n + 1);

	if (cell->n)
		memcpy(text, cell->text, cell->n);
	cell->text = text;
	ws_grow(result->texts, result->texts_capacity, result->text_count + 1);
	result->texts[result->text_count++] = text;
}

/* Keep the values of a new group. False when there are too many. */
static bool add_group(struct grouper *grouper, const struct ws_view_cell *keys)
{
	struct ws_sql_grouping *grouping = grouper->grouping;
	struct ws_sql_result *result = grouper->result;
	size_t group = result->group_count++, cells = grouping->field_count + grouping->term_count;

	if (result->group_count * (cells * sizeof(*result->cells) +
				   grouping->argument_count * sizeof(*result->sums) + 128) >
	    most_group_bytes)
		return false;
	ws_grow(result->rows, result->rows_capacity, result->group_count);
	ws_grow(result->sums, result->sums_capacity,
		result->group_count * grouping->argument_count);
	ws_grow(result->cells, result->cells_capacity, result->group_count * cells);
	result->rows[group] = 0;
	if (grouping->argument_count)
		memset(result->sums + group * grouping->argument_count, 0,
		       grouping->argument_count * sizeof(*result->sums));
	if (grouping->field_count)
		memcpy(result->cells + group * cells, result->current,
		       grouping->field_count * sizeof(*result->cells));
	for (uint32_t k = 0; k < grouping->term_count; k++) {
		result->cells[group * cells + grouping->field_count + k] = keys[k];
		if (grouping->terms[k].how == WS_BY_SQLITE && keys[k].kind == WS_VIEW_TEXT)
			keep_key_text(result,
				      &result->cells[group * cells + grouping->field_count + k]);
	}
	return true;
}

static uint32_t find_or_make_group(struct grouper *grouper, const struct ws_view_cell *keys)
{
	bool made;
	uint32_t group;

	grouper->key.len = 0;
	for (uint32_t k = 0; k < grouper->grouping->term_count; k++)
		ws_sql_put_key_cell(&grouper->key, &keys[k]);
	group = ws_sql_number_group(&grouper->groups, &grouper->key, &made);
	if (made && !add_group(grouper, keys))
		grouper->abandoned = true;
	return group;
}

/* Find the values of the terms of GROUP BY. `word` are the tuple's words after those of columns. */
static void find_key_values(struct grouper *grouper, const uint64_t *word,
			    const struct ws_view_cell *sqlite_keys, struct ws_view_cell *keys)
{
	const struct ws_sql_grouping *grouping = grouper->grouping;

	for (uint32_t k = 0; k < grouping->term_count; k++) {
		const struct ws_sql_group_term *term = &grouping->terms[k];

		keys[k] = ws_make_null_cell();
		if (term->how == WS_BY_FIELD)
			keys[k] = grouper->result->current[term->number];
		else if (term->how == WS_BY_SQLITE)
			keys[k] = sqlite_keys[term->number];
		else if (!word[1])
			keys[k] = ws_make_int_cell((int64_t)word[0]);
		word += 2 * (term->how == WS_BY_NODE);
		if (keys[k].kind == WS_VIEW_REAL)
			grouper->abandoned = true;
	}
}

/* Compute what is left to SQLite, for one more tuple; false when the tuple's rows are dropped. */
static bool compute_sqlite_terms(struct grouper *grouper, struct ws_view_cell *keys)
{
	int rc = -1;

	if (++grouper->tuples <= MOST_SQLITE_TUPLES)
		rc = step_sqlite_terms(grouper, keys);
	grouper->abandoned |= rc < 0;
	return rc > 0;
}

static uint32_t find_tuple_group(struct grouper *grouper, const uint64_t *tuple)
{
	struct ws_sql_grouping *grouping = grouper->grouping;
	struct ws_view_cell keys[WS_SQL_KEYS], sqlite_keys[WS_SQL_KEYS];
	uint64_t *columns[WS_MAX_COLUMNS] = {NULL};
	uint32_t group = DROPPED;

	for (uint32_t i = 0; i < grouper->source_count; i++)
		columns[grouper->source_columns[i]] = (uint64_t *)&tuple[i];
	if (!passes_joins(grouping, columns))
		return DROPPED;
	for (uint32_t i = 0; i < grouping->field_count; i++)
		grouper->result->current[i] =
			make_field_cell(grouping, &grouping->fields[i], columns);
	if (!grouper->sqlite_terms || compute_sqlite_terms(grouper, sqlite_keys)) {
		find_key_values(grouper, tuple + grouper->source_count, sqlite_keys, keys);
		group = find_or_make_group(grouper, keys);
	}
	if (grouper->sqlite_terms)
		sqlite3_reset(grouper->sqlite_terms);
	return group;
}

/* ---- rows ---- */

static void reserve_rows(struct grouper *grouper, struct group_worker *worker, size_t rows)
{
	if (rows <= worker->rows)
		return;
	worker->rows = rows;
	free(worker->numbers);
	worker->numbers = ws_malloc(rows * sizeof(*worker->numbers));
	for (uint32_t a = 0; a < grouper->grouping->argument_count; a++) {
		free(worker->arguments[a]);
		free(worker->nulls[a]);
		worker->arguments[a] = ws_malloc(rows * 8);
		worker->nulls[a] = ws_malloc(rows);
	}
}

static void number_rows(struct grouper *grouper, struct group_worker *worker,
			const uint64_t *const *columns, size_t from, size_t rows)
{
	const struct ws_sql_grouping *grouping = grouper->grouping;
	const struct ws_sql_vector *word[WS_SQL_KEYS];
	uint32_t *number = worker->numbers + from, words = 0;
	uint64_t values[WS_MAX_COLUMNS + 2 * WS_SQL_KEYS] = {0};

	for (uint32_t k = 0; k < grouping->term_count; k++)
		if (grouping->terms[k].how == WS_BY_NODE)
			word[words++] = &worker->values.nodes[grouping->terms[k].number];
	for (size_t i = 0; i < rows; i++) {
		if (number[i] == DROPPED)
			continue;
		for (uint32_t k = 0; k < grouper->source_count; k++)
			values[k] = columns[grouper->source_columns[k]][from + i];
		for (uint32_t k = 0; k < words; k++) {
			values[grouper->source_count + 2 * k] = (uint64_t)word[k]->integers[i];
			values[grouper->source_count + 2 * k + 1] = word[k]->nulls[i];
		}
		number[i] = ws_sql_number_tuple(&worker->tuples, values);
	}
}

static void filter_rows(struct grouper *grouper, struct group_worker *worker,
			const uint64_t *const *columns, size_t from, size_t rows)
{
	const struct ws_sql_grouping *grouping = grouper->grouping;
	uint32_t *number = worker->numbers + from;
	uint64_t *at[WS_MAX_COLUMNS];

	memset(number, 0, rows * sizeof(*number));
	for (uint32_t k = 0; k < grouping->filter_count; k++) {
		const struct ws_sql_vector *vector = &worker->values.nodes[grouping->filters[k]];
		bool real = grouping->exprs.nodes[grouping->filters[k]].real;

		for (size_t i = 0; i < rows; i++)
			if (vector->nulls[i] || (real && vector->reals[i] == 0) ||
			    (!real && !vector->integers[i]))
				number[i] = DROPPED;
	}
	if (!grouping->table->view->keeps_row)
		return;
	memcpy(at, columns, sizeof(at));
	for (size_t i = 0; i < rows; i++)
		if (!ws_sql_keeps_row(grouping->table, at, from + i))
			number[i] = DROPPED;
}

static void prepare_block(struct grouper *grouper, struct group_worker *worker,
			  const struct ws_batch *batch)
{
	const struct ws_sql_grouping *grouping = grouper->grouping;

	reserve_rows(grouper, worker, batch->rows);
	for (size_t from = 0, rows; from < batch->rows; from += rows) {
		rows = ws_min(batch->rows - from, (size_t)WS_SQL_CHUNK);
		ws_sql_compute_nodes(&grouping->exprs, batch->col, from, rows, &worker->values);
		filter_rows(grouper, worker, batch->col, from, rows);
		number_rows(grouper, worker, batch->col, from, rows);
		for (uint32_t a = 0; a < grouping->argument_count; a++) {
			memcpy(worker->arguments[a] + from,
			       worker->values.nodes[grouping->arguments[a]].integers, rows * 8);
			memcpy(worker->nulls[a] + from,
			       worker->values.nodes[grouping->arguments[a]].nulls, rows);
		}
	}
}

/* ---- adding up, in the order of blocks ---- */

static void add_whole(struct argument_sum *sum, int64_t value)
{
	uint64_t size = (uint64_t)value;

	if (value < 0)
		size = 0 - size;
	if (!sum->count || value < sum->min.i)
		sum->min.i = value;
	if (!sum->count || value > sum->max.i)
		sum->max.i = value;
	sum->count++;
	sum->whole = (int64_t)((uint64_t)sum->whole + (uint64_t)value);
	sum->real += (double)value;
	if (__builtin_add_overflow(sum->magnitude, size, &sum->magnitude))
		sum->magnitude = UINT64_MAX;
}

static void add_real(struct argument_sum *sum, double value)
{
	if (!sum->count || value < sum->min.r)
		sum->min.r = value;
	if (!sum->count || value > sum->max.r)
		sum->max.r = value;
	sum->count++;
	sum->real += value;
}

/* Add the values of one argument. */
static void add_argument(struct grouper *grouper, const struct group_worker *worker,
			 uint32_t argument, size_t rows)
{
	const struct ws_sql_grouping *grouping = grouper->grouping;
	struct argument_sum *sums = grouper->result->sums + argument;
	bool real = grouping->exprs.nodes[grouping->arguments[argument]].real;

	for (size_t i = 0; i < rows; i++) {
		struct argument_sum *sum =
			&sums[(size_t)worker->numbers[i] * grouping->argument_count];
		double value;

		if (worker->numbers[i] == DROPPED || worker->nulls[argument][i])
			continue;
		if (real) {
			memcpy(&value, &worker->arguments[argument][i], 8);
			add_real(sum, value);
		} else {
			add_whole(sum, (int64_t)worker->arguments[argument][i]);
		}
	}
}

static void add_rows(struct grouper *grouper, struct group_worker *worker, size_t rows)
{
	const struct ws_sql_grouping *grouping = grouper->grouping;
	uint32_t *number = worker->numbers;

	ws_grow(worker->group, worker->group_cap, worker->tuples.count);
	for (; worker->known < worker->tuples.count && !grouper->abandoned; worker->known++)
		worker->group[worker->known] = find_tuple_group(
			grouper, worker->tuples.values + worker->known * worker->tuples.words);
	if (grouper->abandoned)
		return;
	for (size_t i = 0; i < rows; i++) {
		if (number[i] != DROPPED)
			number[i] = worker->group[number[i]];
		if (number[i] != DROPPED)
			grouper->result->rows[number[i]]++;
	}
	for (uint32_t a = 0; a < grouping->argument_count; a++)
		add_argument(grouper, worker, a, rows);
}

static int group_block(void *context, const struct ws_batch *batch)
{
	struct grouper *grouper = context;
	struct group_worker *worker = &grouper->workers[batch->worker];
	size_t blocks = ws_report_count_blocks(grouper->grouping->table->report->export.report,
					       grouper->grouping->table->view->source);
	bool abandoned;

	if (batch->rows)
		prepare_block(grouper, worker, batch);
	pthread_mutex_lock(&grouper->lock);
	while (grouper->turn != batch->block && !grouper->abandoned)
		pthread_cond_wait(&grouper->turn_changed, &grouper->lock);
	grouper->abandoned |=
		ws_sql_must_stop(grouper->grouping->table->report->sql) || worker->values.overflow;
	abandoned = grouper->abandoned;
	if (!abandoned && batch->rows) /* the others compute their blocks meanwhile */
		add_rows(grouper, worker, batch->rows);
	abandoned = grouper->abandoned;
	for (grouper->turn++; grouper->turn < blocks && grouper->skip[grouper->turn];)
		grouper->turn++;
	pthread_cond_broadcast(&grouper->turn_changed);
	pthread_mutex_unlock(&grouper->lock);
	return abandoned;
}

/* ---- whether the results are those of SQLite ---- */

/* Whether a sum is exactly what SQLite would give. */
static bool is_exact(const struct ws_sql_grouping *grouping, const struct ws_sql_aggregate *figure,
		     const struct argument_sum *sum)
{
	bool as_summed = grouping->ordered && sqlite3_libversion_number() < kahan_version;

	switch (figure->kind) {
	case WS_AGGREGATE_SUM:
		return grouping->exprs.nodes[grouping->arguments[figure->argument]].real ||
		       sum->magnitude <= INT64_MAX;
	case WS_AGGREGATE_AVG:
	case WS_AGGREGATE_TOTAL:
		return grouping->exprs.nodes[grouping->arguments[figure->argument]].real ||
		       as_summed || sum->magnitude <= most_exact;
	default:
		return true;
	}
}

/* Whether groups can be made with SQLite's results. Aggregates of real numbers depend on the order
 * of rows, and their sums on the version of SQLite too. */
static bool can_match_sqlite(const struct ws_sql_grouping *grouping)
{
	for (uint32_t i = 0; i < grouping->aggregate_count; i++) {
		const struct ws_sql_aggregate *figure = &grouping->aggregates[i];

		if (figure->kind < WS_AGGREGATE_SUM ||
		    !grouping->exprs.nodes[grouping->arguments[figure->argument]].real)
			continue;
		if (!grouping->ordered || (figure->kind < WS_AGGREGATE_MIN &&
					   sqlite3_libversion_number() >= kahan_version))
			return false;
	}
	for (uint32_t i = 0; i < grouping->term_count; i++)
		if (grouping->terms[i].how == WS_BY_NODE &&
		    grouping->exprs.nodes[grouping->terms[i].number].real)
			return false;
	return true;
}

static int compare_groups(const void *first, const void *second, void *context)
{
	const struct ws_sql_grouping *grouping = context;
	size_t cells = grouping->field_count + grouping->term_count,
	       left = *(const uint32_t *)first, right = *(const uint32_t *)second;

	for (uint32_t k = 0; k < grouping->term_count; k++) {
		int order = ws_sql_compare_cells(
			&grouping->result->cells[left * cells + grouping->field_count + k],
			&grouping->result->cells[right * cells + grouping->field_count + k]);

		if (order && grouping->terms[k].descending)
			return -order;
		if (order)
			return order;
	}
	return 0;
}

static bool order_groups(struct ws_sql_grouping *grouping)
{
	struct ws_sql_result *result = grouping->result;

	for (size_t group = 0; group < result->group_count; group++)
		for (uint32_t i = 0; i < grouping->aggregate_count; i++)
			if (grouping->aggregates[i].kind != WS_AGGREGATE_ROWS &&
			    !is_exact(grouping, &grouping->aggregates[i],
				      &result->sums[group * grouping->argument_count +
						    grouping->aggregates[i].argument]))
				return false;
	result->order = ws_malloc((result->group_count + 1) * sizeof(*result->order));
	for (size_t g = 0; g < result->group_count; g++)
		result->order[g] = (uint32_t)g;
	if (result->group_count > 1)
		qsort_r(result->order, result->group_count, sizeof(*result->order), compare_groups,
			grouping);
	return true;
}

/* ---- the table of groups ---- */

struct group_vtab {
	sqlite3_vtab base;
	struct group_table *table;
};

struct group_cursor {
	sqlite3_vtab_cursor base;
	struct ws_sql_grouping *grouping;
	bool of_current;
	size_t position;
};

static const char *find_field_type(const struct ws_sql_grouping *grouping,
				   const struct ws_sql_field *atom)
{
	switch (atom->kind) {
	case WS_FIELD_COLUMN:
		return grouping->table->columns[atom->column].type;
	case WS_FIELD_TEXT:
		return "TEXT";
	default:
		return "INTEGER";
	}
}

/* The rows of one of the two tables. */
static size_t count_table_rows(const struct ws_sql_grouping *grouping, bool row)
{
	if (row)
		return 1;
	return grouping->result->group_count;
}

static int connect_group_table(sqlite3 *db, void *aux, int argc, const char *const *argv,
			       sqlite3_vtab **out, char **err)
{
	struct group_table *table = aux;
	const struct ws_sql_grouping *grouping = table->grouping;
	struct ws_text sql = {0};
	struct group_vtab *vtab;
	int rc;

	(void)argc, (void)argv, (void)err;
	ws_text_puts(&sql, "CREATE TABLE x(");
	for (uint32_t i = 0; i < grouping->field_count; i++)
		ws_text_printf(&sql, "\"ws$a%u\" %s, ", i,
			       find_field_type(grouping, &grouping->fields[i]));
	for (uint32_t i = 0; i < grouping->term_count; i++)
		ws_text_printf(&sql, "\"ws$g%u\", ", i);
	for (uint32_t i = 0; i < grouping->aggregate_count; i++)
		ws_text_printf(&sql, "\"ws$f%u\", ", i);
	ws_text_puts(&sql, "\"ws$\")");
	grouping->table->report->sql->declaring = true;
	rc = sqlite3_declare_vtab(db, sql.text);
	grouping->table->report->sql->declaring = false;
	ws_text_free(&sql);
	if (rc != SQLITE_OK)
		return rc;
	vtab = ws_calloc(1, sizeof(*vtab));
	vtab->table = table;
	*out = &vtab->base;
	return SQLITE_OK;
}

static int disconnect_group_table(sqlite3_vtab *table)
{
	free(table);
	return SQLITE_OK;
}

static int plan_group_scan(sqlite3_vtab *table, sqlite3_index_info *info)
{
	const struct group_table *group_table = ((struct group_vtab *)table)->table;
	size_t rows = count_table_rows(group_table->grouping, group_table->of_current);

	info->estimatedRows = (sqlite3_int64)rows;
	info->estimatedCost = (double)rows + 1;
	return SQLITE_OK;
}

static int open_group_cursor(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
	struct group_cursor *cursor = ws_calloc(1, sizeof(*cursor));

	cursor->grouping = ((struct group_vtab *)table)->table->grouping;
	cursor->of_current = ((struct group_vtab *)table)->table->of_current;
	*out = &cursor->base;
	return SQLITE_OK;
}

static int close_group_cursor(sqlite3_vtab_cursor *cursor)
{
	free(cursor);
	return SQLITE_OK;
}

static int rewind_group_cursor(sqlite3_vtab_cursor *cursor, int number, const char *text, int argc,
			       sqlite3_value **argv)
{
	(void)number, (void)text, (void)argc, (void)argv;
	((struct group_cursor *)cursor)->position = 0;
	return SQLITE_OK;
}

static int advance_group_cursor(sqlite3_vtab_cursor *cursor)
{
	((struct group_cursor *)cursor)->position++;
	return SQLITE_OK;
}

static int is_group_cursor_at_end(sqlite3_vtab_cursor *base)
{
	const struct group_cursor *cursor = (const struct group_cursor *)base;

	return cursor->position >= count_table_rows(cursor->grouping, cursor->of_current);
}

static void give_real_aggregate(const struct argument_sum *sum, unsigned what, sqlite3_context *out)
{
	switch (what) {
	case WS_AGGREGATE_SUM:
		sqlite3_result_double(out, sum->real);
		break;
	case WS_AGGREGATE_MIN:
		sqlite3_result_double(out, sum->min.r);
		break;
	default:
		sqlite3_result_double(out, sum->max.r);
	}
}

static void give_whole_aggregate(const struct argument_sum *sum, unsigned what,
				 sqlite3_context *out)
{
	switch (what) {
	case WS_AGGREGATE_SUM:
		sqlite3_result_int64(out, sum->whole);
		break;
	case WS_AGGREGATE_MIN:
		sqlite3_result_int64(out, sum->min.i);
		break;
	default:
		sqlite3_result_int64(out, sum->max.i);
	}
}

static void give_aggregate(const struct ws_sql_grouping *grouping, size_t group,
			   const struct ws_sql_aggregate *figure, sqlite3_context *out)
{
	const struct argument_sum *sum;

	if (figure->kind == WS_AGGREGATE_ROWS) {
		sqlite3_result_int64(out, (sqlite3_int64)grouping->result->rows[group]);
		return;
	}
	sum = &grouping->result->sums[group * grouping->argument_count + figure->argument];
	if (figure->kind == WS_AGGREGATE_COUNT)
		sqlite3_result_int64(out, (sqlite3_int64)sum->count);
	else if (figure->kind == WS_AGGREGATE_TOTAL)
		sqlite3_result_double(out, sum->real);
	else if (!sum->count)
		sqlite3_result_null(out);
	else if (figure->kind == WS_AGGREGATE_AVG)
		sqlite3_result_double(out, sum->real / (double)sum->count);
	else if (grouping->exprs.nodes[grouping->arguments[figure->argument]].real)
		give_real_aggregate(sum, figure->kind, out);
	else
		give_whole_aggregate(sum, figure->kind, out);
}

static int give_group_column(sqlite3_vtab_cursor *base, sqlite3_context *out, int column)
{
	const struct group_cursor *cursor = (const struct group_cursor *)base;
	const struct ws_sql_grouping *grouping = cursor->grouping;
	const struct ws_sql_result *result = grouping->result;
	size_t index = (size_t)column, group;

	if (cursor->of_current) {
		if (index < grouping->field_count)
			ws_give_sqlite_cell(out, &result->current[index]);
		return SQLITE_OK;
	}
	group = result->order[cursor->position];
	if (index < grouping->field_count + grouping->term_count)
		ws_give_sqlite_cell(
			out, &result->cells[group * (grouping->field_count + grouping->term_count) +
					    index]);
	else if (index < grouping->field_count + grouping->term_count + grouping->aggregate_count)
		give_aggregate(
			grouping, group,
			&grouping->aggregates[index - grouping->field_count - grouping->term_count],
			out);
	return SQLITE_OK;
}

static int give_group_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
	*out = (sqlite3_int64)((struct group_cursor *)cursor)->position;
	return SQLITE_OK;
}

/* Without xCreate, a table with the module's name exists as long as the module does. */
static const sqlite3_module group_table_module = {
	.xConnect = connect_group_table,
	.xBestIndex = plan_group_scan,
	.xDisconnect = disconnect_group_table,
	.xOpen = open_group_cursor,
	.xClose = close_group_cursor,
	.xFilter = rewind_group_cursor,
	.xNext = advance_group_cursor,
	.xEof = is_group_cursor_at_end,
	.xColumn = give_group_column,
	.xRowid = give_group_rowid,
};

/* ---- the interface ---- */

static bool create_group_tables(struct grouper *grouper)
{
	struct ws_sql_grouping *grouping = grouper->grouping;
	struct ws_sql_result *result = grouper->result;
	sqlite3 *db = grouping->table->report->sql->db;
	char name[2][32], *sql;
	int rc;

	result->tables[0] = (struct group_table){grouping, false};
	result->tables[1] = (struct group_table){grouping, true};
	snprintf(name[0], sizeof(name[0]), "ws$%u", grouping->number);
	snprintf(name[1], sizeof(name[1]), "ws$%urow", grouping->number);
	for (int i = 0; i < 2; i++)
		if (sqlite3_create_module(db, name[i], &group_table_module, &result->tables[i]) !=
		    SQLITE_OK)
			return false;
	if (!grouping->term_count)
		find_or_make_group(grouper, NULL);
	if (!grouping->sqlite_key_count && !grouping->sqlite_condition_count)
		return true;
	sql = ws_format("SELECT %s", grouping->sqlite_sql.text);
	rc = sqlite3_prepare_v2(db, sql, -1, &grouper->sqlite_terms, NULL);
	free(sql);
	return rc == SQLITE_OK && grouper->sqlite_terms;
}

/* Mark blocks in which no row can pass, because of their times. */
static void mark_skipped_blocks(struct grouper *grouper)
{
	const struct ws_report *report = grouper->grouping->table->report->export.report;
	enum ws_table table = grouper->grouping->table->view->source;
	size_t blocks = ws_report_count_blocks(report, table);
	struct ws_sql_counts *counts = &grouper->grouping->table->report->sql->counts;

	grouper->skip = ws_calloc(blocks + 1, 1);
	for (size_t i = 0; i < blocks; i++) {
		struct ws_block_info info = ws_report_block_info(report, table, i);

		grouper->skip[i] = info.time_min > grouper->grouping->upper_time ||
				   info.time_max < grouper->grouping->lower_time;
		counts->skipped += grouper->skip[i];
		counts->blocks += !grouper->skip[i];
	}
	while (grouper->turn < blocks && grouper->skip[grouper->turn])
		grouper->turn++;
}

/* The columns of the source from which groups are found. */
static uint64_t find_group_sources(const struct ws_sql_grouping *grouping)
{
	uint64_t sources = 0;

	for (uint32_t i = 0; i < grouping->field_count; i++)
		sources |=
			ws_find_column_reads(&grouping->table->columns[grouping->fields[i].column]);
	for (uint32_t i = 0; i < grouping->join_count; i++)
		sources |=
			ws_find_column_reads(&grouping->table->columns[grouping->joins[i].column]);
	return sources;
}

static void make_group_workers(struct grouper *grouper, uint32_t count)
{
	uint32_t words = grouper->source_count;

	for (uint32_t k = 0; k < grouper->grouping->term_count; k++)
		words += 2 * (grouper->grouping->terms[k].how == WS_BY_NODE);
	grouper->workers = ws_sql_calloc_aligned(count, sizeof(*grouper->workers));
	for (uint32_t i = 0; i < count; i++)
		grouper->workers[i].tuples.words = ws_max(words, 1u);
}

static void free_workers(struct grouper *grouper, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct group_worker *worker = &grouper->workers[i];

		ws_sql_free_tuples(&worker->tuples);
		free(worker->group);
		free(worker->numbers);
		for (uint32_t a = 0; a < grouper->grouping->argument_count; a++) {
			free(worker->arguments[a]);
			free(worker->nulls[a]);
		}
	}
	free(grouper->workers);
}

static bool scan_blocks(struct grouper *grouper)
{
	struct ws_sql_grouping *grouping = grouper->grouping;
	struct ws_scan blocks = {.table = grouping->table->view->source,
				 .columns = grouping->exprs.reads,
				 .time_max = UINT64_MAX,
				 .empty = true};
	uint64_t sources = find_group_sources(grouping), damaged = 0;
	uint32_t workers = ws_count_scan_workers(&blocks);

	blocks.columns |= sources;
	if (grouping->table->view->keeps_row)
		blocks.columns |= grouping->table->view->row_reads;
	for (; sources; sources &= sources - 1)
		grouper->source_columns[grouper->source_count++] =
			(uint8_t)__builtin_ctzll(sources);
	mark_skipped_blocks(grouper);
	blocks.skip = grouper->skip;
	make_group_workers(grouper, workers);
	ws_run_scan(grouping->table->report->export.report, &blocks, group_block, grouper,
		    &damaged);
	if (!grouper->abandoned)
		grouping->table->report->sql->counts.damaged += damaged;
	free_workers(grouper, workers);
	free(grouper->skip);
	return !grouper->abandoned;
}

bool ws_sql_make_grouping(struct ws_sql_grouping *grouping)
{
	struct grouper grouper = {.grouping = grouping,
				  .lock = PTHREAD_MUTEX_INITIALIZER,
				  .turn_changed = PTHREAD_COND_INITIALIZER};
	struct ws_sql_counts before = grouping->table->report->sql->counts;
	bool ok;

	if (!can_match_sqlite(grouping))
		return false;
	grouper.result = grouping->result = ws_calloc(1, sizeof(*grouping->result));
	ok = create_group_tables(&grouper) && scan_blocks(&grouper) && order_groups(grouping);
	sqlite3_finalize(grouper.sqlite_terms);
	ws_sql_free_groups(&grouper.groups);
	ws_text_free(&grouper.key);
	grouping->table->report->sql->counts.partitions++;
	if (!ok)
		grouping->table->report->sql->counts = before;
	return ok;
}

void ws_sql_free_grouping(struct ws_sql_grouping *grouping)
{
	struct ws_sql_result *result = grouping->result;
	char name[32];

	if (result) {
		snprintf(name, sizeof(name), "ws$%u", grouping->number);
		sqlite3_create_module(grouping->table->report->sql->db, name, NULL, NULL);
		snprintf(name, sizeof(name), "ws$%urow", grouping->number);
		sqlite3_create_module(grouping->table->report->sql->db, name, NULL, NULL);
		for (size_t i = 0; i < result->text_count; i++)
			free(result->texts[i]);
		free(result->texts);
		free(result->order);
		free(result->rows);
		free(result->sums);
		free(result->cells);
		free(result);
	}
	ws_text_free(&grouping->sqlite_sql);
	free(grouping);
}
