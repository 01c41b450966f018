/*
 * vtab.c - a table of a report as a virtual table of SQLite.
 *
 * plan.c decides how a table is scanned. The first look-up by equality reads through the blocks; if
 * there is a second, as in a join, rows are grouped by what is looked up (partition.c), within a
 * group in order of time when a join bounds the times. Rows that cannot match are left out here,
 * and SQLite checks the others again.
 */
#include <stdlib.h>
#include <string.h>

#include "views/sqlite_value.h"
#include "base/choose.h"
#include "base/sort.h"
#include "sql/plan.h"

struct report_vtab {
	sqlite3_vtab base;
	struct ws_sql_table *table;
};

/* Rows of a group lie apart in the columns, so they are prefetched this many rows before they are
 * needed. */
enum { PREFETCH_DISTANCE = 24, PREFETCH_COLUMNS = 8 };

struct table_cursor {
	sqlite3_vtab_cursor base;
	struct ws_sql_table *table;
	struct ws_sql_plan plan;
	struct ws_sql_time_bounds bounds;
	/* where the times that are bounded are in a row; NULL when none is */
	const struct ws_view_column *bounded_start, *bounded_end;
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
	const struct ws_sql_cell_index *cell_index; /* NULL: all cells are read */
	size_t position,
		end;  /* a row of the block or of the partition's order, a cell, a string id */
	size_t block; /* the next */
	uint64_t *buffer[WS_MAX_COLUMNS];
	uint32_t buffer_rows;
	struct ws_sql_partition *grouped;	  /* for a GROUP BY; the cursor's own */
	const struct ws_sql_partition *partition; /* `grouped`, or that of an index */
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

static int plan_table_scan(sqlite3_vtab *base, sqlite3_index_info *info)
{
	return ws_sql_plan_scan(((struct report_vtab *)base)->table, info);
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
	ws_sql_free_partition(cursor->grouped);
	cursor->partition = cursor->grouped = NULL;
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

/* Whether a time lies within the bounds. One that is missing is null, which does not, unless the
 * column shows it as a number: then SQLite tests it. */
static bool is_time_within(const struct table_cursor *cursor, const struct ws_view_column *column,
			   uint64_t min, uint64_t max)
{
	uint64_t time = cursor->columns[column->source][cursor->row];

	if (time == WS_NO_TIME)
		return column->from == WS_FROM_TIME;
	return time >= min && time <= max;
}

static bool are_times_within(const struct table_cursor *cursor)
{
	const struct ws_sql_time_bounds *bounds = &cursor->bounds;

	if (cursor->bounded_start &&
	    !is_time_within(cursor, cursor->bounded_start, bounds->start_min, bounds->start_max))
		return false;
	return !cursor->bounded_end ||
	       is_time_within(cursor, cursor->bounded_end, bounds->end_min, bounds->end_max);
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

	while (cursor->block < blocks && !ws_sql_must_stop(cursor->table->report->sql)) {
		size_t block = cursor->block++;
		struct ws_block_info info =
			ws_report_block_info(report, cursor->table->view->source, block);

		cursor->block_base = cursor->next_base;
		cursor->next_base += info.rows;
		if (info.time_min > ws_min(cursor->bounds.start_max, cursor->bounds.end_max) ||
		    info.time_max < ws_max(cursor->bounds.start_min, cursor->bounds.end_min)) {
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
		if (are_times_within(cursor) &&
		    ((!cursor->test_count && !cursor->table->view->keeps_row) ||
		     does_row_pass(cursor)))
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

static int compare_texts(struct ws_cell_context *export, uint32_t id,
			 const struct ws_view_cell *text)
{
	struct ws_view_cell cell = ws_sql_make_string_cell(export, id);
	int order = memcmp(cell.text, text->text, ws_min(cell.n, text->n));

	if (order)
		return order;
	return ws_compare(cell.n, text->n);
}

static int compare_strings(const void *first, const void *second, void *context)
{
	struct ws_view_cell right = ws_sql_make_string_cell(context, *(const uint32_t *)second);

	return compare_texts(context, *(const uint32_t *)first, &right);
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

/* Whether the text at the position, in order of ids, is a row and the one that is looked up. */
static bool is_string_wanted(struct table_cursor *cursor)
{
	struct ws_cell_context *export = &cursor->table->report->export;
	struct ws_view_cell cell;

	if (!ws_sql_is_string_listed(export, (uint32_t)cursor->position))
		return false;
	if (!cursor->test_count)
		return true;
	cell = ws_sql_make_string_cell(export, (uint32_t)cursor->position);
	return cell.n == cursor->tests[0].want.len &&
	       (!cell.n || !memcmp(cell.text, cursor->tests[0].want.text, cell.n));
}

static void find_listed_string(struct table_cursor *cursor)
{
	while (!cursor->plan.group.sorted && cursor->position <= cursor->end &&
	       !is_string_wanted(cursor))
		cursor->position++;
	if (cursor->position > cursor->end)
		cursor->mode = ENDED;
}

/* Read only the row whose id equals `value`. */
static void bound_string_id(struct table_cursor *cursor, sqlite3_value *value, uint64_t most)
{
	double number = sqlite3_value_double(value);

	switch (sqlite3_value_type(value)) {
	case SQLITE_TEXT:
		return; /* SQLite makes a number of it, if it reads as one, when it compares */
	case SQLITE_INTEGER:
	case SQLITE_FLOAT:
		if (number >= 1 && number <= (double)most && number == (double)(size_t)number) {
			cursor->position = cursor->end = (size_t)number;
			return;
		} /* fall through */
	default:  /* null and bytes equal no number */
		cursor->end = 0;
	}
}

/*
 * Read only the rows with the text `value`. In a join, texts are put in order to find each; a
 * constant is compared with all of them.
 */
static void look_up_string(struct table_cursor *cursor, sqlite3_value *value, uint64_t most)
{
	struct ws_sql_report *report = cursor->table->report;
	struct ws_view_cell want = {.kind = WS_VIEW_TEXT};
	struct ws_cell_context *export = &report->export;

	if (sqlite3_value_type(value) != SQLITE_TEXT) {
		if (sqlite3_value_type(value) == SQLITE_NULL)
			cursor->end = 0;
		return;
	}
	want.text = (const char *)sqlite3_value_text(value);
	want.n = (size_t)sqlite3_value_bytes(value);
	if (!cursor->plan.join && !report->sorted) {
		cursor->test_count = 1;
		cursor->tests[0].want.len = 0;
		ws_text_add(&cursor->tests[0].want, want.text, want.n);
		return;
	}
	sort_strings(report, most);
	cursor->plan.group.sorted = true;
	cursor->plan.descending = false;
	cursor->position = 1 + ws_bisect(report->sorted_count, i,
					 compare_texts(export, report->sorted[i], &want) < 0);
	cursor->end = ws_bisect(report->sorted_count, i,
				compare_texts(export, report->sorted[i], &want) <= 0);
}

static void begin_string_scan(struct table_cursor *cursor, int argc, sqlite3_value **argv)
{
	uint64_t most = ws_sql_count_rows(cursor->table);

	cursor->mode = IN_STRINGS;
	cursor->position = 1;
	cursor->end = most;
	cursor->test_count = 0;
	if (cursor->plan.step_count && argc) {
		/* one text: there is nothing to order */
		cursor->plan.group.sorted = false;
		if (cursor->plan.steps[0].op == 'i')
			bound_string_id(cursor, argv[0], most);
		else
			look_up_string(cursor, argv[0], most);
	}
	if (cursor->plan.group.sorted && cursor->plan.step_count == 0) {
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

/* Bound the start or the end, whichever the column of step `step` is, by the value `value`. */
static void bound_time(struct table_cursor *cursor, uint32_t step, sqlite3_value *value)
{
	uint8_t number = cursor->plan.steps[step].column;
	char op = cursor->plan.steps[step].op;
	const struct ws_view_column *column = &cursor->table->columns[number];
	uint64_t *min = &cursor->bounds.end_min, *max = &cursor->bounds.end_max, time;

	if (column->source == ws_table_start(cursor->table->view->source)) {
		min = &cursor->bounds.start_min;
		max = &cursor->bounds.start_max;
	}
	if ((op == 'l' || op == 'e') && read_session_time(cursor, value, true, &time))
		*min = ws_max(*min, time);
	if ((op == 'u' || op == 'e') && read_session_time(cursor, value, false, &time))
		*max = ws_min(*max, time);
	if (min == &cursor->bounds.start_min)
		cursor->bounded_start = column;
	else
		cursor->bounded_end = column;
}

/* Read the bounds of times. False when one of them is null, so that no row can match. */
static bool read_time_bounds(struct table_cursor *cursor, sqlite3_value **argv)
{
	cursor->bounds = (struct ws_sql_time_bounds){0, UINT64_MAX, 0, UINT64_MAX};
	cursor->bounded_start = cursor->bounded_end = NULL;
	for (uint32_t i = 0; i < cursor->plan.step_count; i++) {
		if (cursor->plan.steps[i].op == 'k')
			continue;
		if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
			return false;
		bound_time(cursor, i, argv[i]);
	}
	return true;
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

/* Begin at the rows of an index that have the values in `scratch` and can have the times. */
static void begin_index_scan(struct table_cursor *cursor)
{
	cursor->mode = IN_PARTITION;
	cursor->columns = cursor->partition->columns;
	cursor->position = 0;
	cursor->end = cursor->partition->rows;
	if (cursor->plan.equal.count &&
	    !ws_sql_find_in_partition(cursor->partition, &cursor->scratch, &cursor->position,
				      &cursor->end))
		cursor->end = cursor->position;
	ws_sql_narrow_by_time(cursor->partition, &cursor->bounds, &cursor->position, &cursor->end);
	if (cursor->position >= cursor->end)
		cursor->mode = ENDED;
}

/*
 * Look values or times up in an index. Unless a join will ask for many values, the first look-up
 * reads through the blocks, because there may be no second.
 */
static int begin_lookup_scan(struct table_cursor *cursor, sqlite3_value **argv)
{
	enum lookup lookup = read_lookup_keys(cursor, argv);
	struct ws_sql_index *index;

	if (lookup == NO_ROWS) {
		cursor->mode = ENDED;
		return SQLITE_OK;
	}
	index = ws_sql_find_index(cursor->table, &cursor->plan.equal, cursor->plan.decode);
	if (lookup == READ_THROUGH ||
	    (!index->partition && !cursor->plan.join && ++index->lookups < 2) ||
	    (!index->partition && !ws_sql_fill_index(index))) {
		if (ws_sql_must_stop(cursor->table->report->sql))
			return SQLITE_INTERRUPT;
		begin_block_scan(cursor);
		return SQLITE_OK;
	}
	cursor->partition = index->partition;
	begin_index_scan(cursor);
	return SQLITE_OK;
}

static int begin_group_scan(struct table_cursor *cursor)
{
	free_cursor_partition(cursor);
	cursor->partition = cursor->grouped =
		ws_sql_make_partition(cursor->table, &cursor->plan.group, cursor->plan.decode,
				      ws_max(cursor->bounds.start_min, cursor->bounds.end_min),
				      ws_min(cursor->bounds.start_max, cursor->bounds.end_max));
	if (!cursor->grouped)
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

/* Go to the first row of the partition from the position on that the times allow. */
static void enter_partition_row(struct table_cursor *cursor)
{
	for (; cursor->position < cursor->end; cursor->position++) {
		cursor->row = cursor->partition->order[cursor->position];
		if (cursor->plan.group.count || are_times_within(cursor))
			break;
	}
	if (cursor->position >= cursor->end) {
		cursor->mode = ENDED;
		return;
	}
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

/* Look a value up among the cells of its column. */
static int begin_cell_lookup(struct table_cursor *cursor, sqlite3_value **argv)
{
	uint8_t column = cursor->plan.equal.columns[0];
	uint32_t group;

	cursor->scratch.len = 0;
	switch (put_lookup_key(&cursor->table->columns[column], argv[0], &cursor->scratch)) {
	case NO_ROWS:
		return SQLITE_OK;
	case READ_THROUGH:
		cursor->mode = IN_CELLS;
		return SQLITE_OK;
	default:
		break;
	}
	cursor->cell_index = ws_sql_index_cells(cursor->table, column);
	group = ws_sql_find_group(&cursor->cell_index->groups, &cursor->scratch);
	if (!group)
		return SQLITE_OK;
	cursor->mode = IN_CELLS;
	cursor->position = cursor->cell_index->first[group - 1] - 1;
	return SQLITE_OK;
}

static void advance_in_cells(struct table_cursor *cursor)
{
	size_t rows = cursor->table->cell_count / cursor->table->column_count;

	if (cursor->cell_index) {
		uint32_t next = cursor->cell_index->next[cursor->position];

		cursor->position = rows;
		if (next)
			cursor->position = next - 1;
	} else {
		cursor->position++;
	}
	if (cursor->position >= rows)
		cursor->mode = ENDED;
}

static int begin_cell_scan(struct table_cursor *cursor, sqlite3_value **argv)
{
	struct ws_err err;

	if (ws_sql_make_cells(cursor->table, &err) < 0) {
		cursor->base.pVtab->zErrMsg = sqlite3_mprintf("%s", err.msg);
		if (cursor->table->report->sql->stop)
			return SQLITE_INTERRUPT;
		return SQLITE_ERROR;
	}
	cursor->mode = ENDED;
	cursor->cell_index = NULL;
	cursor->position = 0;
	if (!cursor->table->cell_count)
		return SQLITE_OK;
	if (cursor->plan.equal.count)
		return begin_cell_lookup(cursor, argv);
	cursor->mode = IN_CELLS;
	return SQLITE_OK;
}

static int begin_row_scan(struct table_cursor *cursor, sqlite3_value **argv)
{
	if (!read_time_bounds(cursor, argv)) {
		cursor->mode = ENDED;
		return SQLITE_OK;
	}
	if (cursor->plan.equal.count || cursor->plan.equal.timed)
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
		cursor->buffer_rows = 0;
		ws_sql_parse_plan(&cursor->plan, text);
	}
	cursor->test_count = 0;
	if (cursor->table->kind == WS_SQL_CELLS) {
		rc = begin_cell_scan(cursor, argv);
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

	switch (cursor->mode) {
	case IN_PARTITION:
		cursor->position++;
		enter_partition_row(cursor);
		break;
	case IN_BLOCKS:
		cursor->position++;
		find_passing_row(cursor);
		break;
	case IN_CELLS:
		advance_in_cells(cursor);
		break;
	case IN_STRINGS:
		cursor->position++;
		find_listed_string(cursor);
		break;
	default:
		break;
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
