/*
 * plan.c - which constraints of a query a scan of a table uses, and the cost that is reported to
 * SQLite.
 *
 * The plan travels in idxStr, a letter for each step with its number, in the order of the arguments
 * of xFilter:
 *
 *   m<hex>  columns of the schema's table to decode
 *   l<col>  a lower bound of time
 *   u<col>  an upper one
 *   e<col>  both
 *   k<col>  equal to
 *   i       StringIds.id equal to
 *   v       StringIds.value equal to
 *   g<col>  rows grouped by this column
 *   d<col>  the same, in descending order
 *   s       groups, or texts, in order
 *   S       texts in descending order
 *   j       the values that are looked up differ from run to run
 *   t       so do the bounds of time
 *
 * SQLite orders joins by the rows and the costs that it is given. Both rest on what the report
 * holds: the time that its blocks cover, and how many values a column has in one of its blocks.
 * SQLite checks every constraint again, so a plan may give too many rows but never too few.
 */
#include "sql/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"

bool ws_sql_is_block_time(const struct ws_sql_table *table, size_t column)
{
	const struct ws_view_column *description = &table->columns[column];

	return (description->from == WS_FROM_TIME || description->from == WS_FROM_TIME_OR_NULL) &&
	       (description->source == ws_table_start(table->view->source) ||
		description->source == ws_table_end(table->view->source));
}

/* ---- estimates ---- */

/* How many different values the source columns `reads` (bits) have together in a block. */
static size_t count_block_values(const struct ws_report *report, enum ws_table source, size_t block,
				 uint64_t reads)
{
	uint32_t rows = ws_report_block_info(report, source, block).rows;
	uint64_t *columns[WS_MAX_COLUMNS] = {NULL}, values[WS_MAX_COLUMNS];
	struct ws_sql_tuples tuples = {.words = (uint32_t)__builtin_popcountll(reads)};
	size_t count;

	for (uint64_t left = reads; left; left &= left - 1)
		columns[__builtin_ctzll(left)] = ws_malloc(((size_t)rows + 1) * 8);
	if (ws_report_decode_block(report, source, block, reads, columns, NULL))
		rows = 0;
	for (uint32_t i = 0; i < rows; i++) {
		uint32_t k = 0;

		for (uint64_t left = reads; left; left &= left - 1)
			values[k++] = columns[__builtin_ctzll(left)][i];
		ws_sql_number_tuple(&tuples, values);
	}
	count = tuples.count;
	ws_sql_free_tuples(&tuples);
	for (uint64_t left = reads; left; left &= left - 1)
		free(columns[__builtin_ctzll(left)]);
	return count;
}

/*
 * Roughly how many values a column has, from one block in the middle: the more of its rows differ,
 * the more values other blocks are expected to add.
 */
static double sample_distinct(const struct ws_sql_table *table, size_t column)
{
	const struct ws_report *report = table->report->export.report;
	size_t blocks = ws_report_count_blocks(report, table->view->source);
	uint64_t reads = ws_find_column_reads(&table->columns[column]);
	double rows = (double)ws_sql_count_rows(table), block_rows, found;

	if (!blocks || !reads)
		return 1;
	block_rows = (double)ws_report_block_info(report, table->view->source, blocks / 2).rows;
	found = (double)count_block_values(report, table->view->source, blocks / 2, reads);
	if (found < 1)
		return 1;
	return found * (1 + found / block_rows * (rows / block_rows - 1));
}

static double estimate_distinct(const struct ws_sql_table *table, size_t column)
{
	if (!table->distinct[column])
		table->distinct[column] = sample_distinct(table, column);
	return table->distinct[column];
}

/* The share of the table's time that lies before the time that `value` stands for; -1 when unknown.
 */
static double find_time_share(const struct ws_sql_table *table, sqlite3_value *value)
{
	const struct ws_report *report = table->report->export.report;
	size_t blocks = ws_report_count_blocks(report, table->view->source);
	double from = 1e300, to = -1e300, at;

	if (sqlite3_value_type(value) != SQLITE_INTEGER &&
	    sqlite3_value_type(value) != SQLITE_FLOAT)
		return -1;
	at = sqlite3_value_double(value) + (double)table->report->export.base;
	for (size_t i = 0; i < blocks; i++) {
		struct ws_block_info info = ws_report_block_info(report, table->view->source, i);

		from = ws_min(from, (double)info.time_min);
		to = ws_max(to, (double)info.time_max);
	}
	if (!(from < to))
		return -1;
	return ws_min(ws_max((at - from) / (to - from), 0.0), 1.0);
}

/* ---- constraints ---- */

static char choose_bound_step(int op)
{
	switch (op) {
	case SQLITE_INDEX_CONSTRAINT_GT:
	case SQLITE_INDEX_CONSTRAINT_GE:
		return 'l';
	case SQLITE_INDEX_CONSTRAINT_LT:
	case SQLITE_INDEX_CONSTRAINT_LE:
		return 'u';
	case SQLITE_INDEX_CONSTRAINT_EQ:
		return 'e';
	default:
		return 0;
	}
}

struct scan_planner {
	const struct ws_sql_table *table;
	sqlite3_index_info *info;
	struct ws_text text;
	int argument_count;
	uint32_t key_count;
	double rows;
	double lower_share, upper_share; /* of the table's time that the bounds leave out */
	bool lower_joined, upper_joined; /* bounds that come from other rows */
	bool grouped, joined;
};

static void use_constraint(struct scan_planner *planner, int constraint, char op, int column)
{
	ws_text_printf(&planner->text, "%c%d", op, column);
	planner->info->aConstraintUsage[constraint].argvIndex = ++planner->argument_count;
}

static bool is_binary_collated(struct scan_planner *planner, int i)
{
	return !strcmp(sqlite3_vtab_collation(planner->info, i), "BINARY");
}

/* The value of the constraint's other side if it is a constant of the query, else NULL. */
static sqlite3_value *find_constant(const struct scan_planner *planner, int constraint)
{
	sqlite3_value *constant = NULL;

	if (sqlite3_vtab_rhs_value(planner->info, constraint, &constant) != SQLITE_OK)
		return NULL;
	return constant;
}

static void note_time_bound(struct scan_planner *planner, int constraint, char op)
{
	sqlite3_value *constant = find_constant(planner, constraint);
	double share = -1;

	if (constant)
		share = find_time_share(planner->table, constant);
	if (op == 'e') {
		planner->rows /= 10000;
	} else if (op == 'l') {
		planner->lower_joined |= !constant;
		if (constant && share >= 0)
			planner->lower_share = ws_max(planner->lower_share, share);
	} else {
		planner->upper_joined |= !constant;
		if (constant && share >= 0)
			planner->upper_share = ws_max(planner->upper_share, 1 - share);
	}
}

/* Bounds from other rows on both sides belong to a range in a join: few rows lie in it or contain
 * it. A single such bound leaves out an unknown part. */
static void estimate_bounded_rows(struct scan_planner *planner)
{
	double share = 1 - planner->lower_share - planner->upper_share;

	if (planner->lower_joined && planner->upper_joined)
		share /= 1000;
	else if (planner->lower_joined || planner->upper_joined)
		share /= 3;
	planner->rows *= ws_max(share, 1e-9);
	if (planner->lower_joined || planner->upper_joined)
		ws_text_puts(&planner->text, "t");
}

static void plan_key(struct scan_planner *planner, int constraint, int column)
{
	if (!find_constant(planner, constraint) && !planner->joined) {
		ws_text_puts(&planner->text, "j");
		planner->joined = true;
	}
	use_constraint(planner, constraint, 'k', column);
	planner->key_count++;
	planner->rows /= estimate_distinct(planner->table, (size_t)column);
}

static void plan_time_and_keys(struct scan_planner *planner)
{
	const struct ws_sql_table *table = planner->table;

	for (int i = 0; i < planner->info->nConstraint && planner->argument_count < 12; i++) {
		int column = planner->info->aConstraint[i].iColumn;
		char op = choose_bound_step(planner->info->aConstraint[i].op);

		if (!planner->info->aConstraint[i].usable || column < 0 || !op)
			continue;
		if (ws_sql_is_block_time(table, (size_t)column)) {
			use_constraint(planner, i, op, column);
			note_time_bound(planner, i, op);
		} else if (op == 'e' && planner->key_count < WS_SQL_KEYS &&
			   !ws_sql_is_null_column(table, (size_t)column) &&
			   !table->view->keeps_row && is_binary_collated(planner, i)) {
			plan_key(planner, i, column);
		}
	}
	estimate_bounded_rows(planner);
}

/* ---- groups ---- */

/* Whether a column has few values, so that ordering them costs less than SQLite's sorting of all
 * rows. */
static bool has_few_values(const struct ws_view_column *column)
{
	return column->from != WS_FROM_TIME && column->from != WS_FROM_TIME_OR_NULL &&
	       column->from != WS_FROM_REAL && column->from != WS_FROM_UINT &&
	       !strstr(column->name, "orrelation");
}

/*
 * Groups are always put in order too: SQLite reports for a GROUP BY that rows need only be grouped,
 * but relies on their order when an ORDER BY names the same columns.
 */
static void plan_groups(struct scan_planner *planner)
{
	const sqlite3_index_info *info = planner->info;
	/* If rows are to be grouped or made distinct, SQLite would sort all of them otherwise. */
	bool whole = sqlite3_vtab_distinct(planner->info) != 0;

	if (!info->nOrderBy || info->nOrderBy > WS_SQL_KEYS || planner->key_count ||
	    planner->lower_joined || planner->upper_joined ||
	    !ws_sql_partition_fits(ws_sql_count_rows(planner->table),
				   ws_sql_find_sources(planner->table, info->colUsed)))
		return;
	for (int i = 0; i < info->nOrderBy; i++)
		if (info->aOrderBy[i].iColumn < 0 ||
		    (!whole &&
		     !has_few_values(&planner->table->columns[info->aOrderBy[i].iColumn])))
			return;
	for (int i = 0; i < info->nOrderBy; i++)
		ws_text_printf(&planner->text, "%c%d", "gd"[info->aOrderBy[i].desc != 0],
			       info -> aOrderBy[i].iColumn);
	ws_text_puts(&planner->text, "s");
	planner->info->orderByConsumed = 1;
	planner->grouped = true;
}

/* ---- StringIds and tables of cells ---- */

/* Most texts that are put in order, rather than the rows that refer to them. */
enum { MOST_SORTED_STRINGS = 1 << 20 };

/* The first equality that SQLite can give for column `column`, or -1. */
static int find_equality(struct scan_planner *planner, int column)
{
	const sqlite3_index_info *info = planner->info;

	for (int i = 0; i < info->nConstraint; i++)
		if (info->aConstraint[i].usable && info->aConstraint[i].iColumn == column &&
		    info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ &&
		    is_binary_collated(planner, i))
			return i;
	return -1;
}

static void plan_strings(struct scan_planner *planner)
{
	sqlite3_index_info *info = planner->info;
	int id = find_equality(planner, 0), value = find_equality(planner, 1);

	if (id >= 0) {
		use_constraint(planner, id, 'i', 0);
		info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
		planner->rows = 1;
	} else if (value >= 0) {
		if (!find_constant(planner, value)) {
			ws_text_puts(&planner->text, "j");
			planner->joined = true;
		}
		use_constraint(planner, value, 'v', 1);
		planner->key_count = 1;
		planner->rows = 1;
	}
	if (info->nOrderBy != 1 || info->aOrderBy[0].iColumn < 0)
		return;
	if (info->aOrderBy[0].iColumn == 0) {
		info->orderByConsumed = !info->aOrderBy[0].desc; /* ids ascend */
	} else if (planner->rows <= MOST_SORTED_STRINGS) {
		ws_text_printf(&planner->text, "%c", "sS"[info->aOrderBy[0].desc != 0]);
		info->orderByConsumed = 1;
	}
}

static void plan_cells(struct scan_planner *planner)
{
	for (int i = 0; i < planner->info->nConstraint; i++) {
		int column = planner->info->aConstraint[i].iColumn;

		if (column < 0 || find_equality(planner, column) != i)
			continue;
		use_constraint(planner, i, 'k', column);
		planner->key_count = 1;
		planner->rows = ws_min(planner->rows, 2.0);
		return;
	}
}

/* ---- the plan ---- */

static double estimate_cost(const struct scan_planner *planner)
{
	/* A constant is looked up once, by reading all texts. */
	if (planner->table->kind == WS_SQL_STRINGS && planner->key_count && !planner->joined)
		return (double)ws_sql_count_rows(planner->table) + 5;
	if (planner->grouped)
		return planner->rows * 1.2 + 5;
	if (planner->key_count) /* rows that are found lie apart */
		return planner->rows * 1.5 + 5;
	return planner->rows + 5;
}

int ws_sql_plan_scan(const struct ws_sql_table *table, sqlite3_index_info *info)
{
	struct scan_planner planner = {.table = table, .info = info};

	planner.rows = (double)ws_sql_count_rows(planner.table);
	if (planner.table->kind == WS_SQL_BLOCKS) {
		ws_text_printf(&planner.text, "m%" PRIx64 ",",
			       ws_sql_find_sources(planner.table, info->colUsed));
		plan_time_and_keys(&planner);
		if (!planner.table->view->keeps_row) /* all rows of the source are the table's */
			plan_groups(&planner);
	} else if (planner.table->kind == WS_SQL_STRINGS) {
		plan_strings(&planner);
	} else {
		plan_cells(&planner);
	}
	planner.rows = ws_max(planner.rows, 1.0);
	info->estimatedRows = (sqlite3_int64)planner.rows;
	info->estimatedCost = estimate_cost(&planner);
	if (planner.text.text) {
		info->idxStr = sqlite3_mprintf("%s", planner.text.text);
		info->needToFreeIdxStr = 1;
	}
	ws_text_free(&planner.text);
	if (info->needToFreeIdxStr && !info->idxStr)
		return SQLITE_NOMEM;
	return SQLITE_OK;
}

/* Read a letter that stands alone. */
static bool parse_flag(struct ws_sql_plan *plan, char op)
{
	switch (op) {
	case 'j':
		plan->join = true;
		return true;
	case 't':
		plan->equal.timed = true;
		return true;
	case 'S':
		plan->descending = true; /* fall through */
	case 's':
		plan->group.sorted = true;
		return true;
	default:
		return false;
	}
}

void ws_sql_parse_plan(struct ws_sql_plan *plan, const char *text)
{
	memset(plan, 0, sizeof(*plan));
	plan->text = text;
	while (text && *text) {
		char op = *text++, *end;
		unsigned long number;

		if (op == 'm') {
			plan->decode = strtoull(text, &end, 16);
			text = end + 1;
			continue;
		}
		if (parse_flag(plan, op))
			continue;
		number = strtoul(text, &end, 10);
		text = end;
		if (op == 'g' || op == 'd') {
			plan->group.descending[plan->group.count] = op == 'd';
			plan->group.columns[plan->group.count++] = (uint8_t)number;
			continue;
		}
		plan->steps[plan->step_count].op = op;
		plan->steps[plan->step_count++].column = (uint8_t)number;
		if (op == 'k')
			plan->equal.columns[plan->equal.count++] = (uint8_t)number;
	}
}
