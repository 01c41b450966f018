/*
 * vtab.c - a table of a report as a virtual table of SQLite.
 *
 * The plan that xBestIndex makes travels in idxStr, one letter a token with its numbers, in the
 * order of the arguments of xFilter:
 *
 *   m<hex>  columns of the schema's table to decode        l<col> a lower bound of time   u<col> an
 * upper one   e<col> both k<col>  equal to                                       i StringIds.id
 * equal to g<col>  rows grouped by this column, d<col>: by it, descending    s  and groups in order
 *   j       values that are looked up differ from run to run           S  texts in falling order
 *
 * A first look-up by equality reads through the blocks; when there is a second, as in a join, rows
 * are grouped by what is looked up (part.c). SQLite checks every constraint again, so a plan may
 * give too many rows but never too few.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "views/sqlite_value.h"
#include "base/choose.h"
#include "sql/table.h"

struct vtab {
	sqlite3_vtab base;
	struct ws_sql_table *table;
};

struct plan {
	const char *text; /* the idxStr that this is */
	uint64_t decode;
	struct {
		char op;
		uint8_t column;
	} arg[16];
	uint32_t args;
	struct ws_sql_keys group; /* count 0: none */
	struct ws_sql_keys equal;
	bool falling; /* texts in falling order */
	bool join;    /* values that are looked up come from other rows: there will be many */
};

/* Rows of a group lie apart in the columns: they are asked of the memory so many rows before they
 * are needed. */
enum { AHEAD = 24, AHEAD_COLUMNS = 8 };

struct cursor {
	sqlite3_vtab_cursor base;
	struct ws_sql_table *table;
	struct plan plan;
	uint64_t lookups; /* of this plan so far */
	uint64_t lower, upper;
	/* equality, while reading through */
	struct {
		uint8_t column;
		struct ws_text want;
		uint64_t last;
		bool known, same;
	} test[WS_SQL_KEYS];
	uint32_t tests;
	struct ws_text scratch;
	/* where we are */
	enum { ENDED, IN_BLOCKS, IN_PART, IN_CELLS, IN_STRINGS } mode;
	size_t at, end; /* row of the block or of the grouping's order, cell, string id */
	size_t block;	/* the next */
	uint64_t *buffer[WS_MAX_COLUMNS];
	uint32_t buffer_rows;
	struct ws_sql_part *part;
	const uint64_t *ahead[AHEAD_COLUMNS]; /* columns of the grouping that the query reads */
	uint32_t ahead_count;
	uint64_t *const *col;
	size_t row; /* in col */
	size_t group,
		group_end; /* of a grouping: where we are, and up to which place in its order */
	uint64_t known;	   /* columns whose cell is that of the whole group, in group_cell */
	struct ws_xcell group_cell[WS_SQL_KEYS];
	int64_t block_base, next_base; /* numbers of the first row of this block and of the next */
};

/* ---- planning ---- */

static bool is_time(const struct ws_sql_table *table, int c)
{
	const struct ws_xcolumn *column = &table->columns[c];

	return (column->from == WS_XF_TIME || column->from == WS_XF_NTIME) &&
	       (column->source == ws_table_start(table->view->source) ||
		column->source == ws_table_end(table->view->source));
}

/* How many rows of a table have one value of this column, about: one in... */
static double spread(const struct ws_xcolumn *column, double rows)
{
	if (strstr(column->name, "orrelation"))
		return rows / 2;
	switch (column->from) {
	case WS_XF_THREAD:
	case WS_XF_PROCESS:
		return 8;
	case WS_XF_STRING:
	case WS_XF_STRING0:
	case WS_XF_TEXT:
	case WS_XF_CALL:
		return 500;
	case WS_XF_TIME:
	case WS_XF_NTIME:
		return rows / 2;
	default:
		return 32;
	}
}

static char bound(int op)
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

struct planning {
	const struct ws_sql_table *table;
	sqlite3_index_info *info;
	struct ws_text text;
	int args;
	uint32_t keys;
	double rows;
	bool grouped, joined;
};

static void use(struct planning *planning, int i, char op, int column)
{
	ws_text_printf(&planning->text, "%c%d", op, column);
	planning->info->aConstraintUsage[i].argvIndex = ++planning->args;
}

static bool binary(struct planning *planning, int i)
{
	return !strcmp(sqlite3_vtab_collation(planning->info, i), "BINARY");
}

static void plan_constraints(struct planning *planning)
{
	for (int i = 0; i < planning->info->nConstraint && planning->args < 12; i++) {
		int c = planning->info->aConstraint[i].iColumn;
		char op = bound(planning->info->aConstraint[i].op);

		if (!planning->info->aConstraint[i].usable || c < 0 || !op)
			continue;
		if (is_time(planning->table, c)) {
			use(planning, i, op, c);
			planning->rows /= op == 'e' ? 10000 : 4;
		} else if (op == 'e' && planning->keys < WS_SQL_KEYS &&
			   !ws_sql_is_null(planning->table, (size_t)c) &&
			   !planning->table->view->keep && binary(planning, i)) {
			sqlite3_value *constant;

			if (sqlite3_vtab_rhs_value(planning->info, i, &constant) != SQLITE_OK &&
			    !planning->joined) {
				ws_text_puts(&planning->text, "j");
				planning->joined = true;
			}
			use(planning, i, 'k', c);
			planning->keys++;
			planning->rows /= spread(&planning->table->columns[c],
						 (double)ws_sql_rows(planning->table));
		}
	}
}

/* Values of which there are few, so that putting them in order costs less than SQLite's sorting of
 * all rows. */
static bool few(const struct ws_xcolumn *column)
{
	return column->from != WS_XF_TIME && column->from != WS_XF_NTIME &&
	       column->from != WS_XF_REAL && column->from != WS_XF_UINT &&
	       !strstr(column->name, "orrelation");
}

/*
 * Groups are always put in order too: SQLite says of a GROUP BY that rows need only be grouped, and
 * still takes them to be in order when an ORDER BY names the same columns.
 */
static void plan_order(struct planning *planning)
{
	const sqlite3_index_info *info = planning->info;
	bool whole = sqlite3_vtab_distinct(planning->info) !=
		     0; /* to be grouped or made distinct: a sort of all rows would be next */

	if (!info->nOrderBy || info->nOrderBy > WS_SQL_KEYS || planning->keys ||
	    !ws_sql_part_fits(ws_sql_rows(planning->table),
			      ws_sql_sources(planning->table, info->colUsed)))
		return;
	for (int i = 0; i < info->nOrderBy; i++)
		if (info->aOrderBy[i].iColumn < 0 ||
		    (!whole && !few(&planning->table->columns[info->aOrderBy[i].iColumn])))
			return;
	for (int i = 0; i < info->nOrderBy; i++)
		ws_text_printf(&planning->text, "%c%d", info->aOrderBy[i].desc ? 'd' : 'g',
			       info->aOrderBy[i].iColumn);
	ws_text_puts(&planning->text, "s");
	planning->info->orderByConsumed = 1;
	planning->grouped = true;
}

enum {
	MOST_SORTED = 1 << 20
}; /* texts that are put in order, rather than rows that point to them */

static void plan_strings(struct planning *planning)
{
	sqlite3_index_info *info = planning->info;

	for (int i = 0; i < info->nConstraint; i++)
		if (info->aConstraint[i].usable && info->aConstraint[i].iColumn == 0 &&
		    info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ && !planning->args) {
			use(planning, i, 'i', 0);
			info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
			planning->rows = 1;
		}
	if (info->nOrderBy != 1 || info->aOrderBy[0].iColumn < 0)
		return;
	if (info->aOrderBy[0].iColumn == 0) {
		info->orderByConsumed = !info->aOrderBy[0].desc; /* numbers rise */
	} else if (planning->rows <= MOST_SORTED) {
		ws_text_puts(&planning->text, info->aOrderBy[0].desc ? "S" : "s");
		info->orderByConsumed = 1;
	}
}

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	struct planning planning = {.table = ((struct vtab *)base)->table, .info = info};

	planning.rows = (double)ws_sql_rows(planning.table);
	if (planning.table->kind == WS_SQL_BLOCKS) {
		ws_text_printf(&planning.text, "m%" PRIx64 ",",
			       ws_sql_sources(planning.table, info->colUsed));
		plan_constraints(&planning);
		if (!planning.table->view->keep) /* all rows of the source are the table's */
			plan_order(&planning);
	} else if (planning.table->kind == WS_SQL_STRINGS) {
		plan_strings(&planning);
	}
	if (planning.rows < 1)
		planning.rows = 1;
	info->estimatedRows = (sqlite3_int64)planning.rows;
	info->estimatedCost = planning.rows * (planning.grouped ? 1.2 : 1) + 5;
	if (planning.text.text) {
		info->idxStr = sqlite3_mprintf("%s", planning.text.text);
		info->needToFreeIdxStr = 1;
		if (!info->idxStr)
			return SQLITE_NOMEM;
	}
	ws_text_free(&planning.text);
	return SQLITE_OK;
}

static void read_plan(struct plan *plan, const char *text)
{
	memset(plan, 0, sizeof(*plan));
	plan->text = text;
	while (text && *text) {
		char op = *text++, *end;
		unsigned long n = 0;

		if (op == 'm') {
			plan->decode = strtoull(text, &end, 16);
			text = end + 1;
			continue;
		}
		if (op == 's' || op == 'S' || op == 'j') {
			*(op == 'j' ? &plan->join : &plan->group.sorted) = true;
			plan->falling = op == 'S';
			continue;
		}
		n = strtoul(text, &end, 10);
		text = end;
		if (op == 'g' || op == 'd') {
			plan->group.descending[plan->group.count] = op == 'd';
			plan->group.column[plan->group.count++] = (uint8_t)n;
			continue;
		}
		plan->arg[plan->args].op = op;
		plan->arg[plan->args++].column = (uint8_t)n;
		if (op == 'k')
			plan->equal.column[plan->equal.count++] = (uint8_t)n;
	}
}

/* ---- connecting ---- */

static int vtab_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
			sqlite3_vtab **out, char **err)
{
	struct ws_sql *sql_s = aux;
	size_t report = argc > 3 ? strtoul(argv[3], NULL, 10) : SIZE_MAX,
	       table = argc > 4 ? strtoul(argv[4], NULL, 10) : SIZE_MAX;
	struct ws_text sql = {0};
	struct vtab *vtab;
	int rc;

	if (report >= sql_s->report_count || table >= sql_s->reports[report].table_count) {
		*err = sqlite3_mprintf("no such table of a report");
		return SQLITE_ERROR;
	}
	ws_sql_create(sql_s->reports[report].tables[table], false, &sql);
	rc = sqlite3_declare_vtab(db, sql.text);
	ws_text_free(&sql);
	if (rc != SQLITE_OK)
		return rc;
	vtab = ws_calloc(1, sizeof(*vtab));
	vtab->table = sql_s->reports[report].tables[table];
	*out = &vtab->base;
	return SQLITE_OK;
}

static int vtab_disconnect(sqlite3_vtab *v)
{
	free(v);
	return SQLITE_OK;
}

static int cursor_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
	struct cursor *cursor = ws_calloc(1, sizeof(*cursor));

	cursor->table = ((struct vtab *)v)->table;
	*out = &cursor->base;
	return SQLITE_OK;
}

static void drop_part(struct cursor *cursor)
{
	ws_sql_part_free(cursor->part);
	cursor->part = NULL;
}

static int cursor_close(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	drop_part(cursor);
	for (int k = 0; k < WS_MAX_COLUMNS; k++)
		free(cursor->buffer[k]);
	for (int k = 0; k < WS_SQL_KEYS; k++)
		ws_text_free(&cursor->test[k].want);
	ws_text_free(&cursor->scratch);
	free(cursor);
	return SQLITE_OK;
}

/* ---- reading through blocks ---- */

static bool row_passes(struct cursor *cursor)
{
	for (uint32_t i = 0; i < cursor->tests; i++) {
		const struct ws_xcolumn *column = &cursor->table->columns[cursor->test[i].column];
		uint64_t raw = cursor->col[column->source][cursor->row];
		struct ws_xcell cell;

		if (!cursor->test[i].known || raw != cursor->test[i].last) {
			cell = ws_sql_cell(cursor->table, cursor->test[i].column, cursor->col,
					   cursor->row);
			cursor->scratch.len = 0;
			ws_sql_key_cell(&cursor->scratch, &cell);
			cursor->test[i].last = raw;
			cursor->test[i].known = true;
			cursor->test[i].same =
				cursor->scratch.len == cursor->test[i].want.len &&
				!memcmp(cursor->scratch.text, cursor->test[i].want.text,
					cursor->scratch.len);
		}
		if (!cursor->test[i].same)
			return false;
	}
	return ws_sql_keeps(cursor->table, cursor->col, cursor->row);
}

static void make_room(struct cursor *cursor, uint32_t rows)
{
	if (rows <= cursor->buffer_rows)
		return;
	for (uint64_t left = cursor->plan.decode; left; left &= left - 1) {
		int k = __builtin_ctzll(left);

		free(cursor->buffer[k]);
		cursor->buffer[k] = ws_malloc((size_t)rows * 8);
	}
	cursor->buffer_rows = rows;
}

/* The next block that the times allow and that can be read. */
static bool next_block(struct cursor *cursor)
{
	const struct ws_report *report = cursor->table->of->export.report;
	struct ws_sql_counts *counts = &cursor->table->of->sql->counts;
	size_t blocks = ws_report_blocks(report, cursor->table->view->source);

	while (cursor->block < blocks) {
		size_t i = cursor->block++;
		struct ws_block_info info = ws_report_block(report, cursor->table->view->source, i);

		cursor->block_base = cursor->next_base;
		cursor->next_base += info.rows;
		if (info.time_min > cursor->upper || info.time_max < cursor->lower) {
			counts->skipped++;
			continue;
		}
		make_room(cursor, info.rows);
		if (cursor->plan.decode &&
		    ws_report_decode(report, cursor->table->view->source, i, cursor->plan.decode,
				     cursor->buffer, NULL)) {
			counts->damaged++;
			continue;
		}
		counts->blocks++;
		cursor->at = 0;
		cursor->end = info.rows;
		return true;
	}
	return false;
}

/* Go to the first row from `at` on that passes, in this block or a later one. */
static void settle_in_blocks(struct cursor *cursor)
{
	for (;; cursor->at++) {
		if (cursor->at >= cursor->end) {
			if (!next_block(cursor)) {
				cursor->mode = ENDED;
				return;
			}
			cursor->at--; /* the loop counts on */
			continue;
		}
		cursor->row = cursor->at;
		if ((!cursor->tests && !cursor->table->view->keep) || row_passes(cursor))
			return;
	}
}

static void begin_blocks(struct cursor *cursor)
{
	cursor->mode = IN_BLOCKS;
	cursor->block = cursor->at = cursor->end = 0;
	cursor->next_base = 0;
	cursor->col = cursor->buffer;
	settle_in_blocks(cursor);
}

/* ---- StringIds ---- */

/* The string that comes at place `at`, from 1. */
static uint32_t string_at(const struct cursor *cursor)
{
	if (!cursor->plan.group.sorted)
		return (uint32_t)cursor->at;
	return cursor->table->of
		->sorted[cursor->plan.falling ? cursor->table->of->sorted_count - cursor->at
					      : cursor->at - 1];
}

bool ws_sql_string_listed(const struct ws_export *export, uint32_t id)
{
	return id > export->string_count || ws_report_string_key(export->report, id) == id;
}

struct ws_xcell ws_sql_string_cell(struct ws_export *export, uint32_t id)
{
	struct ws_xcell cell = {.kind = WS_X_TEXT};

	if (id <= export->string_count)
		return ws_x_text(export, id);
	cell.text = export->extra[id - export->string_count - 1].text;
	cell.n = export->extra[id - export->string_count - 1].len;
	return cell;
}

static int by_text(const void *first, const void *second, void *ctx)
{
	struct ws_xcell left = ws_sql_string_cell(ctx, *(const uint32_t *)first),
			right = ws_sql_string_cell(ctx, *(const uint32_t *)second);
	int c = memcmp(left.text, right.text, ws_min(left.n, right.n));

	return c ? c : ws_compare(left.n, right.n);
}

static void sort_strings(struct ws_sql_report *report, uint64_t most)
{
	if (report->sorted)
		return;
	report->sorted = ws_malloc((most + 1) * sizeof(*report->sorted));
	for (uint32_t id = 1; id <= most; id++)
		if (ws_sql_string_listed(&report->export, id))
			report->sorted[report->sorted_count++] = id;
	qsort_r(report->sorted, report->sorted_count, sizeof(*report->sorted), by_text,
		&report->export);
}

static void settle_in_strings(struct cursor *cursor)
{
	while (!cursor->plan.group.sorted && cursor->at <= cursor->end &&
	       !ws_sql_string_listed(&cursor->table->of->export, (uint32_t)cursor->at))
		cursor->at++;
	if (cursor->at > cursor->end)
		cursor->mode = ENDED;
}

static void begin_strings(struct cursor *cursor, int argc, sqlite3_value **argv)
{
	uint64_t most = ws_sql_rows(cursor->table);

	cursor->mode = IN_STRINGS;
	cursor->at = 1;
	cursor->end = most;
	if (cursor->plan.args && argc) /* one number: then there is nothing to put in order */
		cursor->plan.group.sorted = false;
	if (argc == 1 && cursor->plan.args == 1 && sqlite3_value_type(argv[0]) == SQLITE_INTEGER) {
		sqlite3_int64 id = sqlite3_value_int64(argv[0]);

		cursor->at = id > 0 && (uint64_t)id <= most ? (size_t)id : 1;
		cursor->end = id > 0 && (uint64_t)id <= most ? (size_t)id : 0;
	}
	if (cursor->plan.group.sorted) {
		sort_strings(cursor->table->of, most);
		cursor->end = cursor->table->of->sorted_count;
	}
	settle_in_strings(cursor);
}

/* ---- constraints of one run ---- */

/* The time meant by a value that is compared with a column of times, on the session clock; false
 * when it is no number. */
static bool time_of(const struct cursor *cursor, sqlite3_value *v, bool lower, uint64_t *t)
{
	__int128 x;

	if (sqlite3_value_type(v) == SQLITE_INTEGER) {
		x = sqlite3_value_int64(v);
	} else if (sqlite3_value_type(v) == SQLITE_FLOAT) {
		double d = sqlite3_value_double(v);

		if (!(d > -9e18 && d < 9e18))
			return false;
		x = (__int128)d + (lower ? -1 : 1);
	} else {
		return false;
	}
	x += cursor->table->of->export.base;
	*t = x < 0 ? 0 : x > (__int128)(UINT64_MAX - 1) ? UINT64_MAX - 1 : (uint64_t)x;
	return true;
}

static void take_bounds(struct cursor *cursor, sqlite3_value **argv)
{
	uint64_t t;

	cursor->lower = 0;
	cursor->upper = UINT64_MAX;
	for (uint32_t i = 0; i < cursor->plan.args; i++) {
		char op = cursor->plan.arg[i].op;

		if ((op == 'l' || op == 'e') && time_of(cursor, argv[i], true, &t) &&
		    t > cursor->lower)
			cursor->lower = t;
		if ((op == 'u' || op == 'e') && time_of(cursor, argv[i], false, &t) &&
		    t < cursor->upper)
			cursor->upper = t;
	}
}

enum lookup { LOOKUP, NO_ROWS, READ_THROUGH };

/* Append the bytes of a value that is looked up in a column: as those of the column's own are. */
static enum lookup key_of(const struct ws_xcolumn *column, sqlite3_value *v, struct ws_text *key)
{
	struct ws_xcell cell = ws_x_null();
	bool text = !strcmp(column->type, "TEXT");

	switch (sqlite3_value_type(v)) {
	case SQLITE_NULL:
		return NO_ROWS;
	case SQLITE_INTEGER:
		if (text)
			return READ_THROUGH; /* affinity would make it a text */
		cell = ws_x_int(sqlite3_value_int64(v));
		break;
	case SQLITE_FLOAT:
		if (text)
			return READ_THROUGH;
		cell.kind = WS_X_REAL;
		cell.r = sqlite3_value_double(v);
		break;
	case SQLITE_TEXT:
		if (!text)
			return READ_THROUGH;
		cell.kind = WS_X_TEXT;
		cell.text = (const char *)sqlite3_value_text(v);
		cell.n = (size_t)sqlite3_value_bytes(v);
		break;
	default:
		return READ_THROUGH;
	}
	ws_sql_key_cell(key, &cell);
	return LOOKUP;
}

/* Look the values up in the rows grouped by them, which are made at the second time. */
static int begin_lookup(struct cursor *cursor, sqlite3_value **argv)
{
	uint32_t k = 0;
	enum lookup all = LOOKUP;

	cursor->tests = 0;
	cursor->scratch.len = 0;
	for (uint32_t i = 0; i < cursor->plan.args && all != NO_ROWS; i++) {
		const struct ws_xcolumn *column =
			&cursor->table->columns[cursor->plan.arg[i].column];
		size_t from = cursor->scratch.len;
		enum lookup one;

		if (cursor->plan.arg[i].op != 'k')
			continue;
		one = key_of(column, argv[i], &cursor->scratch);
		all = one > all || one == NO_ROWS ? one : all;
		if (one != LOOKUP)
			continue;
		k++;
		if (column->from < WS_XF_INT ||
		    column->from >= WS_XF_CALL) /* not of one column: SQLite tests it */
			continue;
		cursor->test[cursor->tests].column = cursor->plan.arg[i].column;
		cursor->test[cursor->tests].want.len = 0;
		cursor->test[cursor->tests].known = false;
		ws_text_add(&cursor->test[cursor->tests++].want, cursor->scratch.text + from,
			    cursor->scratch.len - from);
	}
	if (all == NO_ROWS) {
		cursor->mode = ENDED;
		return SQLITE_OK;
	}
	if (all == READ_THROUGH || k < cursor->plan.equal.count ||
	    (!cursor->part && !cursor->plan.join && ++cursor->lookups < 2) ||
	    !ws_sql_part_fits(ws_sql_rows(cursor->table), cursor->plan.decode)) {
		begin_blocks(cursor);
		return SQLITE_OK;
	}
	if (!cursor->part)
		cursor->part = ws_sql_part_make(cursor->table, &cursor->plan.equal,
						cursor->plan.decode, 0, UINT64_MAX);
	if (!cursor->part)
		return SQLITE_INTERRUPT;
	cursor->mode = IN_PART;
	cursor->col = cursor->part->col;
	if (!ws_sql_part_find(cursor->part, &cursor->scratch, &cursor->at, &cursor->end))
		cursor->mode = ENDED;
	return SQLITE_OK;
}

static int begin_groups(struct cursor *cursor)
{
	drop_part(cursor);
	cursor->part = ws_sql_part_make(cursor->table, &cursor->plan.group, cursor->plan.decode,
					cursor->lower, cursor->upper);
	if (!cursor->part)
		return SQLITE_INTERRUPT;
	cursor->mode = cursor->part->rows ? IN_PART : ENDED;
	cursor->col = cursor->part->col;
	cursor->at = cursor->group = cursor->group_end = 0;
	cursor->end = cursor->part->rows;
	cursor->ahead_count = 0;
	for (uint64_t left = cursor->plan.decode; left && cursor->ahead_count < AHEAD_COLUMNS;
	     left &= left - 1)
		cursor->ahead[cursor->ahead_count++] = cursor->part->col[__builtin_ctzll(left)];
	return SQLITE_OK;
}

static void enter_row(struct cursor *cursor)
{
	cursor->row = cursor->part->order[cursor->at];
	if (cursor->plan.group.count && cursor->at + AHEAD < cursor->end)
		for (uint32_t i = 0; i < cursor->ahead_count; i++)
			__builtin_prefetch(
				&cursor->ahead[i][cursor->part->order[cursor->at + AHEAD]]);
	if (cursor->plan.group.count &&
	    cursor->at >= cursor->group_end) { /* another group: none is empty */
		cursor->group_end = cursor->part->first[++cursor->group];
		cursor->known = 0;
	}
}

/* The cell of a column that rows are grouped by, made once for the group; NULL for other columns.
 */
static const struct ws_xcell *group_cell(struct cursor *cursor, int column)
{
	for (uint32_t k = 0; k < cursor->plan.group.count; k++) {
		if (cursor->plan.group.column[k] != column)
			continue;
		if (!(cursor->known >> k & 1)) {
			cursor->group_cell[k] = ws_sql_cell(cursor->table, (size_t)column,
							    cursor->col, cursor->row);
			cursor->known |= UINT64_C(1) << k;
		}
		return &cursor->group_cell[k];
	}
	return NULL;
}

static int cursor_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
			 sqlite3_value **argv)
{
	struct cursor *cursor = (struct cursor *)base;
	int rc = SQLITE_OK;

	(void)number;
	if (text != cursor->plan.text) {
		drop_part(cursor);
		cursor->lookups = 0;
		cursor->buffer_rows = 0;
		read_plan(&cursor->plan, text);
	}
	cursor->tests = 0;
	if (cursor->table->kind == WS_SQL_CELLS) {
		struct ws_err err;

		if (ws_sql_make(cursor->table, &err) < 0) {
			cursor->base.pVtab->zErrMsg = sqlite3_mprintf("%s", err.msg);
			return cursor->table->of->sql->stop ? SQLITE_INTERRUPT : SQLITE_ERROR;
		}
		cursor->mode = cursor->table->cell_count ? IN_CELLS : ENDED;
		cursor->at = 0;
	} else if (cursor->table->kind == WS_SQL_STRINGS) {
		begin_strings(cursor, argc, argv);
	} else {
		take_bounds(cursor, argv);
		if (cursor->plan.equal.count)
			rc = begin_lookup(cursor, argv);
		else if (cursor->plan.group.count)
			rc = begin_groups(cursor);
		else
			begin_blocks(cursor);
	}
	if (cursor->mode == IN_PART)
		enter_row(cursor);
	cursor->table->of->sql->counts.rows += cursor->mode != ENDED;
	return rc;
}

static int cursor_next(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	cursor->at++;
	if (cursor->mode == IN_PART) {
		if (cursor->at < cursor->end)
			enter_row(cursor);
		else
			cursor->mode = ENDED;
	} else if (cursor->mode == IN_BLOCKS) {
		settle_in_blocks(cursor);
	} else if (cursor->mode == IN_CELLS) {
		if (cursor->at * cursor->table->column_count >= cursor->table->cell_count)
			cursor->mode = ENDED;
	} else if (cursor->mode == IN_STRINGS) {
		settle_in_strings(cursor);
	}
	cursor->table->of->sql->counts.rows += cursor->mode != ENDED;
	return SQLITE_OK;
}

static int cursor_eof(sqlite3_vtab_cursor *base)
{
	return ((struct cursor *)base)->mode == ENDED;
}

/* ---- values ---- */

static void give_string(struct cursor *cursor, sqlite3_context *out, int column)
{
	uint32_t id = string_at(cursor);
	struct ws_xcell cell;

	if (!column) {
		sqlite3_result_int64(out, id);
		return;
	}
	cell = ws_sql_string_cell(&cursor->table->of->export, id);
	ws_sqlite_give(out, &cell);
}

static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *out, int column)
{
	struct cursor *cursor = (struct cursor *)base;
	const struct ws_xcolumn *xcolumn = &cursor->table->columns[column];
	const struct ws_xcell *known;
	struct ws_xcell cell;
	uint64_t v;

	if (cursor->mode == IN_CELLS) {
		ws_sqlite_give(out, &cursor->table->cells[cursor->at * cursor->table->column_count +
							  (size_t)column]);
		return SQLITE_OK;
	}
	if (cursor->mode == IN_STRINGS) {
		give_string(cursor, out, column);
		return SQLITE_OK;
	}
	if (cursor->mode == IN_PART && (known = group_cell(cursor, column))) {
		ws_sqlite_give(out, known);
		return SQLITE_OK;
	}
	switch (xcolumn->from) { /* what most queries read, at least cost */
	case WS_XF_TIME:
		sqlite3_result_int64(out,
				     (sqlite3_int64)(cursor->col[xcolumn->source][cursor->row] -
						     cursor->table->of->export.base));
		return SQLITE_OK;
	case WS_XF_NTIME:
		v = cursor->col[xcolumn->source][cursor->row];
		if (v != WS_NO_TIME)
			sqlite3_result_int64(out,
					     (sqlite3_int64)(v - cursor->table->of->export.base));
		return SQLITE_OK;
	case WS_XF_INT:
	case WS_XF_UINT:
		sqlite3_result_int64(out, (sqlite3_int64)cursor->col[xcolumn->source][cursor->row]);
		return SQLITE_OK;
	default:
		break;
	}
	cell = ws_sql_cell(cursor->table, (size_t)column, cursor->col, cursor->row);
	ws_sqlite_give(out, &cell);
	return SQLITE_OK;
}

/*
 * The same row has the same number in every run, by whatever way it was found: SQLite answers `a OR
 * b` by a run for each and leaves out, by number, what it has met before.
 */
static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
	const struct cursor *cursor = (const struct cursor *)base;

	*out = cursor->mode == IN_BLOCKS    ? cursor->block_base + (int64_t)cursor->row
	       : cursor->mode == IN_PART    ? (int64_t)cursor->row
	       : cursor->mode == IN_STRINGS ? (int64_t)string_at(cursor)
					    : (int64_t)cursor->at;
	return SQLITE_OK;
}

const sqlite3_module ws_sql_module = {
	.xCreate = vtab_connect,
	.xConnect = vtab_connect,
	.xBestIndex = best_index,
	.xDisconnect = vtab_disconnect,
	.xDestroy = vtab_disconnect,
	.xOpen = cursor_open,
	.xClose = cursor_close,
	.xFilter = cursor_filter,
	.xNext = cursor_next,
	.xEof = cursor_eof,
	.xColumn = cursor_column,
	.xRowid = cursor_rowid,
};
