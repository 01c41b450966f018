/*
 * vtab.c - a table of a report as a virtual table of SQLite.
 *
 * The plan that xBestIndex makes travels in idxStr, a letter for each step with its number, in the
 * order of the arguments of xFilter:
 *
 *   m<hex>  columns of the schema's table to decode
 *   l<col>  a lower bound of time
 *   u<col>  an upper one
 *   e<col>  both
 *   k<col>  equal to
 *   i       StringIds.id equal to
 *   g<col>  rows grouped by this column
 *   d<col>  the same, in descending order
 *   s       groups, or texts, in order
 *   S       texts in descending order
 *   j       the values that are looked up differ from run to run
 *
 * The first look-up by equality reads through the blocks; if there is a second, as in a join, rows
 * are grouped by what is looked up (partition.c). SQLite checks every constraint again, so a plan
 * may give too many rows but never too few.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "views/sqlite_value.h"
#include "base/choose.h"
#include "sql/table.h"

struct report_vtab {
	sqlite3_vtab base;
	struct ws_sql_table *table;
};

struct scan_plan {
	const char *text; /* the idxStr that this was read from */
	uint64_t decode;
	struct {
		char op;
		uint8_t column;
	} steps[16];
	uint32_t step_count;
	struct ws_sql_keys group; /* count 0: none */
	struct ws_sql_keys equal;
	bool descending; /* texts in descending order */
	bool join;	 /* values that are looked up come from other rows, so there will be many */
};

/* Rows of a group lie apart in the columns, so they are fetched so many rows before they are
 * needed. */
enum { PREFETCH_DISTANCE = 24, PREFETCH_COLUMNS = 8 };

struct table_cursor {
	sqlite3_vtab_cursor base;
	struct ws_sql_table *table;
	struct scan_plan plan;
	uint64_t lookups; /* of this plan so far */
	uint64_t lower_time, upper_time;
	/* tests for equality while reading through the blocks */
	struct {
		uint8_t column;
		struct ws_text want;
		uint64_t last;
		bool known, same;
	} tests[WS_SQL_KEYS];
	uint32_t test_count;
	struct ws_text scratch;
	/* the position */
	enum { ENDED, IN_BLOCKS, IN_PARTITION, IN_CELLS, IN_STRINGS } mode;
	size_t position,
		end;  /* a row of the block or of the partition's order, a cell, a string id */
	size_t block; /* the next */
	uint64_t *buffer[WS_MAX_COLUMNS];
	uint32_t buffer_rows;
	struct ws_sql_partition *partition;
	const uint64_t
		*prefetched[PREFETCH_COLUMNS]; /* columns of the partition that the query reads */
	uint32_t prefetched_count;
	uint64_t *const *columns;
	size_t row;		 /* in col */
	size_t group, group_end; /* in a partition: the group after this one, and the end of this
				    one in its order */
	uint64_t known;		 /* keys, as bits, whose cell for the group is in group_cell */
	struct ws_view_cell group_cell[WS_SQL_KEYS];
	int64_t block_base, next_base; /* numbers of the first row of this block and of the next */
};

/* ---- planning ---- */

static bool is_block_time(const struct ws_sql_table *table, int c)
{
	const struct ws_view_column *column = &table->columns[c];

	return (column->from == WS_FROM_TIME || column->from == WS_FROM_TIME_OR_NULL) &&
	       (column->source == ws_table_start(table->view->source) ||
		column->source == ws_table_end(table->view->source));
}

/* Roughly how many values a column has: a look-up finds one row in so many. */
static double estimate_distinct(const struct ws_view_column *column, double rows)
{
	if (strstr(column->name, "orrelation"))
		return rows / 2;
	switch (column->from) {
	case WS_FROM_THREAD:
	case WS_FROM_PROCESS:
		return 8;
	case WS_FROM_STRING:
	case WS_FROM_STRING_OR_ZERO:
	case WS_FROM_TEXT:
	case WS_FROM_FUNCTION:
		return 500;
	case WS_FROM_TIME:
	case WS_FROM_TIME_OR_NULL:
		return rows / 2;
	default:
		return 32;
	}
}

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

static void plan_time_and_keys(struct scan_planner *planner)
{
	for (int i = 0; i < planner->info->nConstraint && planner->argument_count < 12; i++) {
		int column = planner->info->aConstraint[i].iColumn;
		char op = choose_bound_step(planner->info->aConstraint[i].op);

		if (!planner->info->aConstraint[i].usable || column < 0 || !op)
			continue;
		if (is_block_time(planner->table, column)) {
			use_constraint(planner, i, op, column);
			if (op == 'e')
				planner->rows /= 10000;
			else
				planner->rows /= 4;
		} else if (op == 'e' && planner->key_count < WS_SQL_KEYS &&
			   !ws_sql_is_null_column(planner->table, (size_t)column) &&
			   !planner->table->view->keeps_row && is_binary_collated(planner, i)) {
			sqlite3_value *constant;

			if (sqlite3_vtab_rhs_value(planner->info, i, &constant) != SQLITE_OK &&
			    !planner->joined) {
				ws_text_puts(&planner->text, "j");
				planner->joined = true;
			}
			use_constraint(planner, i, 'k', column);
			planner->key_count++;
			planner->rows /=
				estimate_distinct(&planner->table->columns[column],
						  (double)ws_sql_count_rows(planner->table));
		}
	}
}

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

/* Most texts that are put in order, rather than the rows that refer to them. */
enum { MOST_SORTED_STRINGS = 1 << 20 };

static void plan_strings(struct scan_planner *planner)
{
	sqlite3_index_info *info = planner->info;

	for (int i = 0; i < info->nConstraint; i++)
		if (info->aConstraint[i].usable && info->aConstraint[i].iColumn == 0 &&
		    info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ &&
		    !planner->argument_count) {
			use_constraint(planner, i, 'i', 0);
			info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
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

static int plan_table_scan(sqlite3_vtab *base, sqlite3_index_info *info)
{
	struct scan_planner planner = {.table = ((struct report_vtab *)base)->table, .info = info};

	planner.rows = (double)ws_sql_count_rows(planner.table);
	if (planner.table->kind == WS_SQL_BLOCKS) {
		ws_text_printf(&planner.text, "m%" PRIx64 ",",
			       ws_sql_find_sources(planner.table, info->colUsed));
		plan_time_and_keys(&planner);
		if (!planner.table->view->keeps_row) /* all rows of the source are the table's */
			plan_groups(&planner);
	} else if (planner.table->kind == WS_SQL_STRINGS) {
		plan_strings(&planner);
	}
	if (planner.rows < 1)
		planner.rows = 1;
	info->estimatedRows = (sqlite3_int64)planner.rows;
	info->estimatedCost = planner.rows + 5;
	if (planner.grouped)
		info->estimatedCost = planner.rows * 1.2 + 5;
	if (planner.text.text) {
		info->idxStr = sqlite3_mprintf("%s", planner.text.text);
		info->needToFreeIdxStr = 1;
		if (!info->idxStr)
			return SQLITE_NOMEM;
	}
	ws_text_free(&planner.text);
	return SQLITE_OK;
}

static void parse_plan(struct scan_plan *plan, const char *text)
{
	memset(plan, 0, sizeof(*plan));
	plan->text = text;
	while (text && *text) {
		char op = *text++, *end;
		unsigned long number = 0;

		if (op == 'm') {
			plan->decode = strtoull(text, &end, 16);
			text = end + 1;
			continue;
		}
		if (op == 's' || op == 'S' || op == 'j') {
			plan->join |= op == 'j';
			plan->group.sorted |= op != 'j';
			plan->descending = op == 'S';
			continue;
		}
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

/* ---- connecting ---- */

static int connect_report_table(sqlite3 *db, void *aux, int argc, const char *const *argv,
				sqlite3_vtab **out, char **err)
{
	struct ws_sql *connection = aux;
	size_t report = SIZE_MAX, table = SIZE_MAX;
	struct ws_text sql = {0};
	struct report_vtab *vtab;
	int rc;

	if (argc > 4) {
		report = strtoul(argv[3], NULL, 10);
		table = strtoul(argv[4], NULL, 10);
	}
	if (report >= connection->report_count ||
	    table >= connection->reports[report].table_count) {
		*err = sqlite3_mprintf("no such table of a report");
		return SQLITE_ERROR;
	}
	ws_sql_put_create(connection->reports[report].tables[table], false, &sql);
	rc = sqlite3_declare_vtab(db, sql.text);
	ws_text_free(&sql);
	if (rc != SQLITE_OK)
		return rc;
	vtab = ws_calloc(1, sizeof(*vtab));
	vtab->table = connection->reports[report].tables[table];
	*out = &vtab->base;
	return SQLITE_OK;
}

static int disconnect_report_table(sqlite3_vtab *table)
{
	free(table);
	return SQLITE_OK;
}

static int open_table_cursor(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
	struct table_cursor *cursor = ws_calloc(1, sizeof(*cursor));

	cursor->table = ((struct report_vtab *)table)->table;
	*out = &cursor->base;
	return SQLITE_OK;
}

static void free_cursor_partition(struct table_cursor *cursor)
{
	ws_sql_free_partition(cursor->partition);
	cursor->partition = NULL;
}

static int close_table_cursor(sqlite3_vtab_cursor *base)
{
	struct table_cursor *cursor = (struct table_cursor *)base;

	free_cursor_partition(cursor);
	for (int k = 0; k < WS_MAX_COLUMNS; k++)
		free(cursor->buffer[k]);
	for (int k = 0; k < WS_SQL_KEYS; k++)
		ws_text_free(&cursor->tests[k].want);
	ws_text_free(&cursor->scratch);
	free(cursor);
	return SQLITE_OK;
}

/* ---- reading through blocks ---- */

static bool does_row_pass(struct table_cursor *cursor)
{
	for (uint32_t i = 0; i < cursor->test_count; i++) {
		const struct ws_view_column *column =
			&cursor->table->columns[cursor->tests[i].column];
		uint64_t raw = cursor->columns[column->source][cursor->row];
		struct ws_view_cell cell;

		if (!cursor->tests[i].known || raw != cursor->tests[i].last) {
			cell = ws_sql_make_cell(cursor->table, cursor->tests[i].column,
						cursor->columns, cursor->row);
			cursor->scratch.len = 0;
			ws_sql_put_key_cell(&cursor->scratch, &cell);
			cursor->tests[i].last = raw;
			cursor->tests[i].known = true;
			cursor->tests[i].same =
				cursor->scratch.len == cursor->tests[i].want.len &&
				!memcmp(cursor->scratch.text, cursor->tests[i].want.text,
					cursor->scratch.len);
		}
		if (!cursor->tests[i].same)
			return false;
	}
	return ws_sql_keeps_row(cursor->table, cursor->columns, cursor->row);
}

static void reserve_buffers(struct table_cursor *cursor, uint32_t rows)
{
	if (rows <= cursor->buffer_rows)
		return;
	for (uint64_t left = cursor->plan.decode; left; left &= left - 1) {
		int column = __builtin_ctzll(left);

		free(cursor->buffer[column]);
		cursor->buffer[column] = ws_malloc((size_t)rows * 8);
	}
	cursor->buffer_rows = rows;
}

/* Go to the next block that the times allow and that can be read. */
static bool read_next_block(struct table_cursor *cursor)
{
	const struct ws_report *report = cursor->table->report->export.report;
	struct ws_sql_counts *counts = &cursor->table->report->sql->counts;
	size_t blocks = ws_report_count_blocks(report, cursor->table->view->source);

	while (cursor->block < blocks) {
		size_t block = cursor->block++;
		struct ws_block_info info =
			ws_report_block_info(report, cursor->table->view->source, block);

		cursor->block_base = cursor->next_base;
		cursor->next_base += info.rows;
		if (info.time_min > cursor->upper_time || info.time_max < cursor->lower_time) {
			counts->skipped++;
			continue;
		}
		reserve_buffers(cursor, info.rows);
		if (cursor->plan.decode &&
		    ws_report_decode_block(report, cursor->table->view->source, block,
					   cursor->plan.decode, cursor->buffer, NULL)) {
			counts->damaged++;
			continue;
		}
		counts->blocks++;
		cursor->position = 0;
		cursor->end = info.rows;
		return true;
	}
	return false;
}

/* Go to the first row from the position on that passes, in this block or a later one. */
static void find_passing_row(struct table_cursor *cursor)
{
	for (;; cursor->position++) {
		if (cursor->position >= cursor->end) {
			if (!read_next_block(cursor)) {
				cursor->mode = ENDED;
				return;
			}
			cursor->position--; /* the loop adds one */
			continue;
		}
		cursor->row = cursor->position;
		if ((!cursor->test_count && !cursor->table->view->keeps_row) ||
		    does_row_pass(cursor))
			return;
	}
}

static void begin_block_scan(struct table_cursor *cursor)
{
	cursor->mode = IN_BLOCKS;
	cursor->block = cursor->position = cursor->end = 0;
	cursor->next_base = 0;
	cursor->columns = cursor->buffer;
	find_passing_row(cursor);
}

/* ---- StringIds ---- */

/* The id of the text at the position, which counts from 1. */
static uint32_t find_string_id(const struct table_cursor *cursor)
{
	const struct ws_sql_report *report = cursor->table->report;

	if (!cursor->plan.group.sorted)
		return (uint32_t)cursor->position;
	if (cursor->plan.descending)
		return report->sorted[report->sorted_count - cursor->position];
	return report->sorted[cursor->position - 1];
}

bool ws_sql_is_string_listed(const struct ws_cell_context *export, uint32_t id)
{
	return id > export->string_count || ws_report_string_key(export->report, id) == id;
}

struct ws_view_cell ws_sql_make_string_cell(struct ws_cell_context *export, uint32_t id)
{
	struct ws_view_cell cell = {.kind = WS_VIEW_TEXT};

	if (id <= export->string_count)
		return ws_make_text_cell(export, id);
	cell.text = export->extra_texts[id - export->string_count - 1].text;
	cell.n = export->extra_texts[id - export->string_count - 1].len;
	return cell;
}

static int compare_strings(const void *first, const void *second, void *context)
{
	struct ws_view_cell left = ws_sql_make_string_cell(context, *(const uint32_t *)first),
			    right = ws_sql_make_string_cell(context, *(const uint32_t *)second);
	int order = memcmp(left.text, right.text, ws_min(left.n, right.n));

	if (order)
		return order;
	return ws_compare(left.n, right.n);
}

static void sort_strings(struct ws_sql_report *report, uint64_t most)
{
	if (report->sorted)
		return;
	report->sorted = ws_malloc((most + 1) * sizeof(*report->sorted));
	for (uint32_t id = 1; id <= most; id++)
		if (ws_sql_is_string_listed(&report->export, id))
			report->sorted[report->sorted_count++] = id;
	qsort_r(report->sorted, report->sorted_count, sizeof(*report->sorted), compare_strings,
		&report->export);
}

static void find_listed_string(struct table_cursor *cursor)
{
	while (!cursor->plan.group.sorted && cursor->position <= cursor->end &&
	       !ws_sql_is_string_listed(&cursor->table->report->export, (uint32_t)cursor->position))
		cursor->position++;
	if (cursor->position > cursor->end)
		cursor->mode = ENDED;
}

static void begin_string_scan(struct table_cursor *cursor, int argc, sqlite3_value **argv)
{
	uint64_t most = ws_sql_count_rows(cursor->table);

	cursor->mode = IN_STRINGS;
	cursor->position = 1;
	cursor->end = most;
	if (cursor->plan.step_count && argc) /* one id: there is nothing to order */
		cursor->plan.group.sorted = false;
	if (argc == 1 && cursor->plan.step_count == 1 &&
	    sqlite3_value_type(argv[0]) == SQLITE_INTEGER) {
		sqlite3_int64 id = sqlite3_value_int64(argv[0]);

		cursor->end = 0;
		if (id > 0 && (uint64_t)id <= most)
			cursor->position = cursor->end = (size_t)id;
	}
	if (cursor->plan.group.sorted) {
		sort_strings(cursor->table->report, most);
		cursor->end = cursor->table->report->sorted_count;
	}
	find_listed_string(cursor);
}

/* ---- constraints of one scan ---- */

/* Set *time to the time on the session clock that a value stands for when it is compared with a
 * column of times; false when it is not a number. */
static bool read_session_time(const struct table_cursor *cursor, sqlite3_value *value, bool lower,
			      uint64_t *time)
{
	__int128 wide;

	if (sqlite3_value_type(value) == SQLITE_INTEGER) {
		wide = sqlite3_value_int64(value);
	} else if (sqlite3_value_type(value) == SQLITE_FLOAT) {
		double number = sqlite3_value_double(value);

		if (!(number > -9e18 && number < 9e18))
			return false;
		wide = (__int128)number + 1 - 2 * lower;
	} else {
		return false;
	}
	*time = ws_sql_clamp_time(wide + cursor->table->report->export.base);
	return true;
}

static void read_time_bounds(struct table_cursor *cursor, sqlite3_value **argv)
{
	uint64_t time;

	cursor->lower_time = 0;
	cursor->upper_time = UINT64_MAX;
	for (uint32_t i = 0; i < cursor->plan.step_count; i++) {
		char op = cursor->plan.steps[i].op;

		if ((op == 'l' || op == 'e') && read_session_time(cursor, argv[i], true, &time) &&
		    time > cursor->lower_time)
			cursor->lower_time = time;
		if ((op == 'u' || op == 'e') && read_session_time(cursor, argv[i], false, &time) &&
		    time < cursor->upper_time)
			cursor->upper_time = time;
	}
}

enum lookup { LOOKUP, NO_ROWS, READ_THROUGH };

/* Append the bytes of a value that is looked up in a column; they are those of the column's values.
 */
static enum lookup put_lookup_key(const struct ws_view_column *column, sqlite3_value *value,
				  struct ws_text *key)
{
	struct ws_view_cell cell = ws_make_null_cell();
	bool text = !strcmp(column->type, "TEXT");

	switch (sqlite3_value_type(value)) {
	case SQLITE_NULL:
		return NO_ROWS;
	case SQLITE_INTEGER:
		if (text)
			return READ_THROUGH; /* the column's affinity would make it a text */
		cell = ws_make_int_cell(sqlite3_value_int64(value));
		break;
	case SQLITE_FLOAT:
		if (text)
			return READ_THROUGH;
		cell.kind = WS_VIEW_REAL;
		cell.r = sqlite3_value_double(value);
		break;
	case SQLITE_TEXT:
		if (!text)
			return READ_THROUGH;
		cell.kind = WS_VIEW_TEXT;
		cell.text = (const char *)sqlite3_value_text(value);
		cell.n = (size_t)sqlite3_value_bytes(value);
		break;
	default:
		return READ_THROUGH;
	}
	ws_sql_put_key_cell(key, &cell);
	return LOOKUP;
}

/* Note the test of a column for the value `key`, for reading through the blocks. */
static void add_equality_test(struct table_cursor *cursor, uint8_t column, const char *key,
			      size_t length)
{
	enum ws_cell_origin from = cursor->table->columns[column].from;

	if (from < WS_FROM_INT ||
	    from >= WS_FROM_FUNCTION) /* not made from one column: SQLite tests it */
		return;
	cursor->tests[cursor->test_count].column = column;
	cursor->tests[cursor->test_count].want.len = 0;
	cursor->tests[cursor->test_count].known = false;
	ws_text_add(&cursor->tests[cursor->test_count++].want, key, length);
}

/* Collect the bytes of all values that are looked up in `scratch`, and their tests. */
static enum lookup read_lookup_keys(struct table_cursor *cursor, sqlite3_value **argv)
{
	enum lookup all = LOOKUP;
	uint32_t count = 0;

	cursor->test_count = 0;
	cursor->scratch.len = 0;
	for (uint32_t i = 0; i < cursor->plan.step_count; i++) {
		uint8_t column = cursor->plan.steps[i].column;
		size_t from = cursor->scratch.len;
		enum lookup one;

		if (cursor->plan.steps[i].op != 'k')
			continue;
		one = put_lookup_key(&cursor->table->columns[column], argv[i], &cursor->scratch);
		if (one == NO_ROWS)
			return NO_ROWS;
		if (one == READ_THROUGH) {
			all = READ_THROUGH;
			continue;
		}
		count++;
		add_equality_test(cursor, column, cursor->scratch.text + from,
				  cursor->scratch.len - from);
	}
	if (count < cursor->plan.equal.count)
		return READ_THROUGH;
	return all;
}

/* Look the values up in a partition of the rows, which is made at the second time. */
static int begin_lookup_scan(struct table_cursor *cursor, sqlite3_value **argv)
{
	enum lookup lookup = read_lookup_keys(cursor, argv);

	if (lookup == NO_ROWS) {
		cursor->mode = ENDED;
		return SQLITE_OK;
	}
	if (lookup == READ_THROUGH ||
	    (!cursor->partition && !cursor->plan.join && ++cursor->lookups < 2) ||
	    !ws_sql_partition_fits(ws_sql_count_rows(cursor->table), cursor->plan.decode)) {
		begin_block_scan(cursor);
		return SQLITE_OK;
	}
	if (!cursor->partition)
		cursor->partition = ws_sql_make_partition(cursor->table, &cursor->plan.equal,
							  cursor->plan.decode, 0, UINT64_MAX);
	if (!cursor->partition)
		return SQLITE_INTERRUPT;
	cursor->mode = IN_PARTITION;
	cursor->columns = cursor->partition->columns;
	if (!ws_sql_find_in_partition(cursor->partition, &cursor->scratch, &cursor->position,
				      &cursor->end))
		cursor->mode = ENDED;
	return SQLITE_OK;
}

static int begin_group_scan(struct table_cursor *cursor)
{
	free_cursor_partition(cursor);
	cursor->partition =
		ws_sql_make_partition(cursor->table, &cursor->plan.group, cursor->plan.decode,
				      cursor->lower_time, cursor->upper_time);
	if (!cursor->partition)
		return SQLITE_INTERRUPT;
	cursor->mode = ENDED;
	if (cursor->partition->rows)
		cursor->mode = IN_PARTITION;
	cursor->columns = cursor->partition->columns;
	cursor->position = cursor->group = cursor->group_end = 0;
	cursor->end = cursor->partition->rows;
	cursor->prefetched_count = 0;
	for (uint64_t left = cursor->plan.decode;
	     left && cursor->prefetched_count < PREFETCH_COLUMNS; left &= left - 1)
		cursor->prefetched[cursor->prefetched_count++] =
			cursor->partition->columns[__builtin_ctzll(left)];
	return SQLITE_OK;
}

static void enter_partition_row(struct table_cursor *cursor)
{
	cursor->row = cursor->partition->order[cursor->position];
	if (cursor->plan.group.count && cursor->position + PREFETCH_DISTANCE < cursor->end)
		for (uint32_t i = 0; i < cursor->prefetched_count; i++)
			__builtin_prefetch(
				&cursor->prefetched[i]
						   [cursor->partition->order[cursor->position +
									     PREFETCH_DISTANCE]]);
	if (cursor->plan.group.count &&
	    cursor->position >= cursor->group_end) { /* another group: none is empty */
		cursor->group_end = cursor->partition->group_starts[++cursor->group];
		cursor->known = 0;
	}
}

/* The cell of a column that rows are grouped by, made once per group; NULL for other columns. */
static const struct ws_view_cell *find_group_cell(struct table_cursor *cursor, int column)
{
	for (uint32_t k = 0; k < cursor->plan.group.count; k++) {
		if (cursor->plan.group.columns[k] != column)
			continue;
		if (!(cursor->known >> k & 1)) {
			cursor->group_cell[k] = ws_sql_make_cell(cursor->table, (size_t)column,
								 cursor->columns, cursor->row);
			cursor->known |= UINT64_C(1) << k;
		}
		return &cursor->group_cell[k];
	}
	return NULL;
}

static int begin_cell_scan(struct table_cursor *cursor)
{
	struct ws_err err;

	if (ws_sql_make_cells(cursor->table, &err) < 0) {
		cursor->base.pVtab->zErrMsg = sqlite3_mprintf("%s", err.msg);
		if (cursor->table->report->sql->stop)
			return SQLITE_INTERRUPT;
		return SQLITE_ERROR;
	}
	cursor->mode = ENDED;
	if (cursor->table->cell_count)
		cursor->mode = IN_CELLS;
	cursor->position = 0;
	return SQLITE_OK;
}

static int begin_row_scan(struct table_cursor *cursor, sqlite3_value **argv)
{
	read_time_bounds(cursor, argv);
	if (cursor->plan.equal.count)
		return begin_lookup_scan(cursor, argv);
	if (cursor->plan.group.count)
		return begin_group_scan(cursor);
	begin_block_scan(cursor);
	return SQLITE_OK;
}

static int begin_table_scan(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
			    sqlite3_value **argv)
{
	struct table_cursor *cursor = (struct table_cursor *)base;
	int rc = SQLITE_OK;

	(void)number;
	if (text != cursor->plan.text) {
		free_cursor_partition(cursor);
		cursor->lookups = 0;
		cursor->buffer_rows = 0;
		parse_plan(&cursor->plan, text);
	}
	cursor->test_count = 0;
	if (cursor->table->kind == WS_SQL_CELLS) {
		rc = begin_cell_scan(cursor);
		if (rc != SQLITE_OK)
			return rc;
	} else if (cursor->table->kind == WS_SQL_STRINGS) {
		begin_string_scan(cursor, argc, argv);
	} else {
		rc = begin_row_scan(cursor, argv);
	}
	if (cursor->mode == IN_PARTITION)
		enter_partition_row(cursor);
	cursor->table->report->sql->counts.rows += cursor->mode != ENDED;
	return rc;
}

static int advance_table_cursor(sqlite3_vtab_cursor *base)
{
	struct table_cursor *cursor = (struct table_cursor *)base;

	cursor->position++;
	if (cursor->mode == IN_PARTITION) {
		if (cursor->position < cursor->end)
			enter_partition_row(cursor);
		else
			cursor->mode = ENDED;
	} else if (cursor->mode == IN_BLOCKS) {
		find_passing_row(cursor);
	} else if (cursor->mode == IN_CELLS) {
		if (cursor->position * cursor->table->column_count >= cursor->table->cell_count)
			cursor->mode = ENDED;
	} else if (cursor->mode == IN_STRINGS) {
		find_listed_string(cursor);
	}
	cursor->table->report->sql->counts.rows += cursor->mode != ENDED;
	return SQLITE_OK;
}

static int is_table_cursor_at_end(sqlite3_vtab_cursor *base)
{
	return ((struct table_cursor *)base)->mode == ENDED;
}

/* ---- values ---- */

static void give_string_column(struct table_cursor *cursor, sqlite3_context *out, int column)
{
	uint32_t id = find_string_id(cursor);
	struct ws_view_cell cell;

	if (!column) {
		sqlite3_result_int64(out, id);
		return;
	}
	cell = ws_sql_make_string_cell(&cursor->table->report->export, id);
	ws_give_sqlite_cell(out, &cell);
}

static int give_table_column(sqlite3_vtab_cursor *base, sqlite3_context *out, int column)
{
	struct table_cursor *cursor = (struct table_cursor *)base;
	const struct ws_view_column *description = &cursor->table->columns[column];
	const struct ws_view_cell *known;
	struct ws_view_cell cell;
	uint64_t time;

	if (cursor->mode == IN_CELLS) {
		ws_give_sqlite_cell(
			out, &cursor->table->cells[cursor->position * cursor->table->column_count +
						   (size_t)column]);
		return SQLITE_OK;
	}
	if (cursor->mode == IN_STRINGS) {
		give_string_column(cursor, out, column);
		return SQLITE_OK;
	}
	if (cursor->mode == IN_PARTITION && (known = find_group_cell(cursor, column))) {
		ws_give_sqlite_cell(out, known);
		return SQLITE_OK;
	}
	switch (description->from) { /* what most queries read, at the least cost */
	case WS_FROM_TIME:
		sqlite3_result_int64(
			out, (sqlite3_int64)(cursor->columns[description->source][cursor->row] -
					     cursor->table->report->export.base));
		return SQLITE_OK;
	case WS_FROM_TIME_OR_NULL:
		time = cursor->columns[description->source][cursor->row];
		if (time != WS_NO_TIME)
			sqlite3_result_int64(
				out, (sqlite3_int64)(time - cursor->table->report->export.base));
		return SQLITE_OK;
	case WS_FROM_INT:
	case WS_FROM_UINT:
		sqlite3_result_int64(
			out, (sqlite3_int64)cursor->columns[description->source][cursor->row]);
		return SQLITE_OK;
	default:
		break;
	}
	cell = ws_sql_make_cell(cursor->table, (size_t)column, cursor->columns, cursor->row);
	ws_give_sqlite_cell(out, &cell);
	return SQLITE_OK;
}

/*
 * A row has the same number in every scan, however it is found: SQLite computes `a OR b` by a scan
 * for each, and drops rows whose numbers it has seen before.
 */
static int give_table_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
	const struct table_cursor *cursor = (const struct table_cursor *)base;

	switch (cursor->mode) {
	case IN_BLOCKS:
		*out = cursor->block_base + (int64_t)cursor->row;
		break;
	case IN_PARTITION:
		*out = (int64_t)cursor->row;
		break;
	case IN_STRINGS:
		*out = (int64_t)find_string_id(cursor);
		break;
	default:
		*out = (int64_t)cursor->position;
	}
	return SQLITE_OK;
}

const sqlite3_module ws_sql_module = {
	.xCreate = connect_report_table,
	.xConnect = connect_report_table,
	.xBestIndex = plan_table_scan,
	.xDisconnect = disconnect_report_table,
	.xDestroy = disconnect_report_table,
	.xOpen = open_table_cursor,
	.xClose = close_table_cursor,
	.xFilter = begin_table_scan,
	.xNext = advance_table_cursor,
	.xEof = is_table_cursor_at_end,
	.xColumn = give_table_column,
	.xRowid = give_table_rowid,
};
