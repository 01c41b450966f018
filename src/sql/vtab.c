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
#include "sql/table.h"

struct vtab {
	sqlite3_vtab base;
	struct ws_sql_table *t;
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
	struct ws_sql_table *t;
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

static bool is_time(const struct ws_sql_table *t, int c)
{
	const struct ws_xcolumn *d = &t->columns[c];

	return (d->from == WS_XF_TIME || d->from == WS_XF_NTIME) &&
	       (d->source == ws_table_start(t->view->source) ||
		d->source == ws_table_end(t->view->source));
}

/* How many rows of a table have one value of this column, about: one in... */
static double spread(const struct ws_xcolumn *c, double rows)
{
	if (strstr(c->name, "orrelation"))
		return rows / 2;
	switch (c->from) {
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
	const struct ws_sql_table *t;
	sqlite3_index_info *info;
	struct ws_text text;
	int args;
	uint32_t keys;
	double rows;
	bool grouped, joined;
};

static void use(struct planning *p, int i, char op, int column)
{
	ws_text_printf(&p->text, "%c%d", op, column);
	p->info->aConstraintUsage[i].argvIndex = ++p->args;
}

static bool binary(struct planning *p, int i)
{
	return !strcmp(sqlite3_vtab_collation(p->info, i), "BINARY");
}

static void plan_constraints(struct planning *p)
{
	for (int i = 0; i < p->info->nConstraint && p->args < 12; i++) {
		int c = p->info->aConstraint[i].iColumn;
		char op = bound(p->info->aConstraint[i].op);

		if (!p->info->aConstraint[i].usable || c < 0 || !op)
			continue;
		if (is_time(p->t, c)) {
			use(p, i, op, c);
			p->rows /= op == 'e' ? 10000 : 4;
		} else if (op == 'e' && p->keys < WS_SQL_KEYS && !ws_sql_is_null(p->t, (size_t)c) &&
			   !p->t->view->keep && binary(p, i)) {
			sqlite3_value *constant;

			if (sqlite3_vtab_rhs_value(p->info, i, &constant) != SQLITE_OK &&
			    !p->joined) {
				ws_text_puts(&p->text, "j");
				p->joined = true;
			}
			use(p, i, 'k', c);
			p->keys++;
			p->rows /= spread(&p->t->columns[c], (double)ws_sql_rows(p->t));
		}
	}
}

/* Values of which there are few, so that putting them in order costs less than SQLite's sorting of
 * all rows. */
static bool few(const struct ws_xcolumn *c)
{
	return c->from != WS_XF_TIME && c->from != WS_XF_NTIME && c->from != WS_XF_REAL &&
	       c->from != WS_XF_UINT && !strstr(c->name, "orrelation");
}

/*
 * Groups are always put in order too: SQLite says of a GROUP BY that rows need only be grouped, and
 * still takes them to be in order when an ORDER BY names the same columns.
 */
static void plan_order(struct planning *p)
{
	const sqlite3_index_info *info = p->info;
	bool whole = sqlite3_vtab_distinct(p->info) !=
		     0; /* to be grouped or made distinct: a sort of all rows would be next */

	if (!info->nOrderBy || info->nOrderBy > WS_SQL_KEYS || p->keys ||
	    !ws_sql_part_fits(ws_sql_rows(p->t), ws_sql_sources(p->t, info->colUsed)))
		return;
	for (int i = 0; i < info->nOrderBy; i++)
		if (info->aOrderBy[i].iColumn < 0 ||
		    (!whole && !few(&p->t->columns[info->aOrderBy[i].iColumn])))
			return;
	for (int i = 0; i < info->nOrderBy; i++)
		ws_text_printf(&p->text, "%c%d", info->aOrderBy[i].desc ? 'd' : 'g',
			       info->aOrderBy[i].iColumn);
	ws_text_puts(&p->text, "s");
	p->info->orderByConsumed = 1;
	p->grouped = true;
}

enum {
	MOST_SORTED = 1 << 20
}; /* texts that are put in order, rather than rows that point to them */

static void plan_strings(struct planning *p)
{
	sqlite3_index_info *info = p->info;

	for (int i = 0; i < info->nConstraint; i++)
		if (info->aConstraint[i].usable && info->aConstraint[i].iColumn == 0 &&
		    info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ && !p->args) {
			use(p, i, 'i', 0);
			info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
			p->rows = 1;
		}
	if (info->nOrderBy != 1 || info->aOrderBy[0].iColumn < 0)
		return;
	if (info->aOrderBy[0].iColumn == 0) {
		info->orderByConsumed = !info->aOrderBy[0].desc; /* numbers rise */
	} else if (p->rows <= MOST_SORTED) {
		ws_text_puts(&p->text, info->aOrderBy[0].desc ? "S" : "s");
		info->orderByConsumed = 1;
	}
}

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	struct planning p = {.t = ((struct vtab *)base)->t, .info = info};

	p.rows = (double)ws_sql_rows(p.t);
	if (p.t->kind == WS_SQL_BLOCKS) {
		ws_text_printf(&p.text, "m%" PRIx64 ",", ws_sql_sources(p.t, info->colUsed));
		plan_constraints(&p);
		if (!p.t->view->keep) /* all rows of the source are the table's */
			plan_order(&p);
	} else if (p.t->kind == WS_SQL_STRINGS) {
		plan_strings(&p);
	}
	if (p.rows < 1)
		p.rows = 1;
	info->estimatedRows = (sqlite3_int64)p.rows;
	info->estimatedCost = p.rows * (p.grouped ? 1.2 : 1) + 5;
	if (p.text.s) {
		info->idxStr = sqlite3_mprintf("%s", p.text.s);
		info->needToFreeIdxStr = 1;
		if (!info->idxStr)
			return SQLITE_NOMEM;
	}
	ws_text_free(&p.text);
	return SQLITE_OK;
}

static void read_plan(struct plan *p, const char *s)
{
	memset(p, 0, sizeof(*p));
	p->text = s;
	while (s && *s) {
		char op = *s++, *end;
		unsigned long n = 0;

		if (op == 'm') {
			p->decode = strtoull(s, &end, 16);
			s = end + 1;
			continue;
		}
		if (op == 's' || op == 'S' || op == 'j') {
			*(op == 'j' ? &p->join : &p->group.sorted) = true;
			p->falling = op == 'S';
			continue;
		}
		n = strtoul(s, &end, 10);
		s = end;
		if (op == 'g' || op == 'd') {
			p->group.descending[p->group.count] = op == 'd';
			p->group.column[p->group.count++] = (uint8_t)n;
			continue;
		}
		p->arg[p->args].op = op;
		p->arg[p->args++].column = (uint8_t)n;
		if (op == 'k')
			p->equal.column[p->equal.count++] = (uint8_t)n;
	}
}

/* ---- connecting ---- */

static int vtab_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
			sqlite3_vtab **out, char **err)
{
	struct ws_sql *s = aux;
	size_t report = argc > 3 ? strtoul(argv[3], NULL, 10) : SIZE_MAX,
	       table = argc > 4 ? strtoul(argv[4], NULL, 10) : SIZE_MAX;
	struct ws_text sql = {0};
	struct vtab *v;
	int rc;

	if (report >= s->report_count || table >= s->reports[report].table_count) {
		*err = sqlite3_mprintf("no such table of a report");
		return SQLITE_ERROR;
	}
	ws_sql_create(s->reports[report].tables[table], false, &sql);
	rc = sqlite3_declare_vtab(db, sql.s);
	ws_text_free(&sql);
	if (rc != SQLITE_OK)
		return rc;
	v = ws_calloc(1, sizeof(*v));
	v->t = s->reports[report].tables[table];
	*out = &v->base;
	return SQLITE_OK;
}

static int vtab_disconnect(sqlite3_vtab *v)
{
	free(v);
	return SQLITE_OK;
}

static int cursor_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
	struct cursor *c = ws_calloc(1, sizeof(*c));

	c->t = ((struct vtab *)v)->t;
	*out = &c->base;
	return SQLITE_OK;
}

static void drop_part(struct cursor *c)
{
	ws_sql_part_free(c->part);
	c->part = NULL;
}

static int cursor_close(sqlite3_vtab_cursor *base)
{
	struct cursor *c = (struct cursor *)base;

	drop_part(c);
	for (int k = 0; k < WS_MAX_COLUMNS; k++)
		free(c->buffer[k]);
	for (int k = 0; k < WS_SQL_KEYS; k++)
		ws_text_free(&c->test[k].want);
	ws_text_free(&c->scratch);
	free(c);
	return SQLITE_OK;
}

/* ---- reading through blocks ---- */

static bool row_passes(struct cursor *c)
{
	for (uint32_t i = 0; i < c->tests; i++) {
		const struct ws_xcolumn *d = &c->t->columns[c->test[i].column];
		uint64_t raw = c->col[d->source][c->row];
		struct ws_xcell cell;

		if (!c->test[i].known || raw != c->test[i].last) {
			cell = ws_sql_cell(c->t, c->test[i].column, c->col, c->row);
			c->scratch.len = 0;
			ws_sql_key_cell(&c->scratch, &cell);
			c->test[i].last = raw;
			c->test[i].known = true;
			c->test[i].same = c->scratch.len == c->test[i].want.len &&
					  !memcmp(c->scratch.s, c->test[i].want.s, c->scratch.len);
		}
		if (!c->test[i].same)
			return false;
	}
	return ws_sql_keeps(c->t, c->col, c->row);
}

static void make_room(struct cursor *c, uint32_t rows)
{
	if (rows <= c->buffer_rows)
		return;
	for (uint64_t left = c->plan.decode; left; left &= left - 1) {
		int k = __builtin_ctzll(left);

		free(c->buffer[k]);
		c->buffer[k] = ws_malloc((size_t)rows * 8);
	}
	c->buffer_rows = rows;
}

/* The next block that the times allow and that can be read. */
static bool next_block(struct cursor *c)
{
	const struct ws_report *r = c->t->of->x.r;
	struct ws_sql_counts *counts = &c->t->of->sql->counts;
	size_t blocks = ws_report_blocks(r, c->t->view->source);

	while (c->block < blocks) {
		size_t i = c->block++;
		struct ws_block_info info = ws_report_block(r, c->t->view->source, i);

		c->block_base = c->next_base;
		c->next_base += info.rows;
		if (info.time_min > c->upper || info.time_max < c->lower) {
			counts->skipped++;
			continue;
		}
		make_room(c, info.rows);
		if (c->plan.decode &&
		    ws_report_decode(r, c->t->view->source, i, c->plan.decode, c->buffer, NULL)) {
			counts->damaged++;
			continue;
		}
		counts->blocks++;
		c->at = 0;
		c->end = info.rows;
		return true;
	}
	return false;
}

/* Go to the first row from `at` on that passes, in this block or a later one. */
static void settle_in_blocks(struct cursor *c)
{
	for (;; c->at++) {
		if (c->at >= c->end) {
			if (!next_block(c)) {
				c->mode = ENDED;
				return;
			}
			c->at--; /* the loop counts on */
			continue;
		}
		c->row = c->at;
		if ((!c->tests && !c->t->view->keep) || row_passes(c))
			return;
	}
}

static void begin_blocks(struct cursor *c)
{
	c->mode = IN_BLOCKS;
	c->block = c->at = c->end = 0;
	c->next_base = 0;
	c->col = c->buffer;
	settle_in_blocks(c);
}

/* ---- StringIds ---- */

/* The string that comes at place `at`, from 1. */
static uint32_t string_at(const struct cursor *c)
{
	if (!c->plan.group.sorted)
		return (uint32_t)c->at;
	return c->t->of->sorted[c->plan.falling ? c->t->of->sorted_count - c->at : c->at - 1];
}

bool ws_sql_string_listed(const struct ws_export *x, uint32_t id)
{
	return id > x->string_count || ws_report_string_key(x->r, id) == id;
}

struct ws_xcell ws_sql_string_cell(struct ws_export *x, uint32_t id)
{
	struct ws_xcell cell = {.kind = WS_X_TEXT};

	if (id <= x->string_count)
		return ws_x_text(x, id);
	cell.s = x->extra[id - x->string_count - 1].s;
	cell.n = x->extra[id - x->string_count - 1].len;
	return cell;
}

static int by_text(const void *a, const void *b, void *ctx)
{
	struct ws_xcell x = ws_sql_string_cell(ctx, *(const uint32_t *)a),
			y = ws_sql_string_cell(ctx, *(const uint32_t *)b);
	int c = memcmp(x.s, y.s, x.n < y.n ? x.n : y.n);

	return c ? c : x.n < y.n ? -1 : x.n > y.n;
}

static void sort_strings(struct ws_sql_report *r, uint64_t most)
{
	if (r->sorted)
		return;
	r->sorted = ws_malloc((most + 1) * sizeof(*r->sorted));
	for (uint32_t id = 1; id <= most; id++)
		if (ws_sql_string_listed(&r->x, id))
			r->sorted[r->sorted_count++] = id;
	qsort_r(r->sorted, r->sorted_count, sizeof(*r->sorted), by_text, &r->x);
}

static void settle_in_strings(struct cursor *c)
{
	while (!c->plan.group.sorted && c->at <= c->end &&
	       !ws_sql_string_listed(&c->t->of->x, (uint32_t)c->at))
		c->at++;
	if (c->at > c->end)
		c->mode = ENDED;
}

static void begin_strings(struct cursor *c, int argc, sqlite3_value **argv)
{
	uint64_t most = ws_sql_rows(c->t);

	c->mode = IN_STRINGS;
	c->at = 1;
	c->end = most;
	if (c->plan.args && argc) /* one number: then there is nothing to put in order */
		c->plan.group.sorted = false;
	if (argc == 1 && c->plan.args == 1 && sqlite3_value_type(argv[0]) == SQLITE_INTEGER) {
		sqlite3_int64 id = sqlite3_value_int64(argv[0]);

		c->at = id > 0 && (uint64_t)id <= most ? (size_t)id : 1;
		c->end = id > 0 && (uint64_t)id <= most ? (size_t)id : 0;
	}
	if (c->plan.group.sorted) {
		sort_strings(c->t->of, most);
		c->end = c->t->of->sorted_count;
	}
	settle_in_strings(c);
}

/* ---- constraints of one run ---- */

/* The time meant by a value that is compared with a column of times, on the session clock; false
 * when it is no number. */
static bool time_of(const struct cursor *c, sqlite3_value *v, bool lower, uint64_t *t)
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
	x += c->t->of->x.base;
	*t = x < 0 ? 0 : x > (__int128)(UINT64_MAX - 1) ? UINT64_MAX - 1 : (uint64_t)x;
	return true;
}

static void take_bounds(struct cursor *c, sqlite3_value **argv)
{
	uint64_t t;

	c->lower = 0;
	c->upper = UINT64_MAX;
	for (uint32_t i = 0; i < c->plan.args; i++) {
		char op = c->plan.arg[i].op;

		if ((op == 'l' || op == 'e') && time_of(c, argv[i], true, &t) && t > c->lower)
			c->lower = t;
		if ((op == 'u' || op == 'e') && time_of(c, argv[i], false, &t) && t < c->upper)
			c->upper = t;
	}
}

enum lookup { LOOKUP, NO_ROWS, READ_THROUGH };

/* Append the bytes of a value that is looked up in a column: as those of the column's own are. */
static enum lookup key_of(const struct ws_xcolumn *d, sqlite3_value *v, struct ws_text *key)
{
	struct ws_xcell cell = ws_x_null();
	bool text = !strcmp(d->type, "TEXT");

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
		cell.s = (const char *)sqlite3_value_text(v);
		cell.n = (size_t)sqlite3_value_bytes(v);
		break;
	default:
		return READ_THROUGH;
	}
	ws_sql_key_cell(key, &cell);
	return LOOKUP;
}

/* Look the values up in the rows grouped by them, which are made at the second time. */
static int begin_lookup(struct cursor *c, sqlite3_value **argv)
{
	uint32_t k = 0;
	enum lookup all = LOOKUP;

	c->tests = 0;
	c->scratch.len = 0;
	for (uint32_t i = 0; i < c->plan.args && all != NO_ROWS; i++) {
		const struct ws_xcolumn *d = &c->t->columns[c->plan.arg[i].column];
		size_t from = c->scratch.len;
		enum lookup one;

		if (c->plan.arg[i].op != 'k')
			continue;
		one = key_of(d, argv[i], &c->scratch);
		all = one > all || one == NO_ROWS ? one : all;
		if (one != LOOKUP)
			continue;
		k++;
		if (d->from < WS_XF_INT ||
		    d->from >= WS_XF_CALL) /* not of one column: SQLite tests it */
			continue;
		c->test[c->tests].column = c->plan.arg[i].column;
		c->test[c->tests].want.len = 0;
		c->test[c->tests].known = false;
		ws_text_add(&c->test[c->tests++].want, c->scratch.s + from, c->scratch.len - from);
	}
	if (all == NO_ROWS) {
		c->mode = ENDED;
		return SQLITE_OK;
	}
	if (all == READ_THROUGH || k < c->plan.equal.count ||
	    (!c->part && !c->plan.join && ++c->lookups < 2) ||
	    !ws_sql_part_fits(ws_sql_rows(c->t), c->plan.decode)) {
		begin_blocks(c);
		return SQLITE_OK;
	}
	if (!c->part)
		c->part = ws_sql_part_make(c->t, &c->plan.equal, c->plan.decode, 0, UINT64_MAX);
	if (!c->part)
		return SQLITE_INTERRUPT;
	c->mode = IN_PART;
	c->col = c->part->col;
	if (!ws_sql_part_find(c->part, &c->scratch, &c->at, &c->end))
		c->mode = ENDED;
	return SQLITE_OK;
}

static int begin_groups(struct cursor *c)
{
	drop_part(c);
	c->part = ws_sql_part_make(c->t, &c->plan.group, c->plan.decode, c->lower, c->upper);
	if (!c->part)
		return SQLITE_INTERRUPT;
	c->mode = c->part->rows ? IN_PART : ENDED;
	c->col = c->part->col;
	c->at = c->group = c->group_end = 0;
	c->end = c->part->rows;
	c->ahead_count = 0;
	for (uint64_t left = c->plan.decode; left && c->ahead_count < AHEAD_COLUMNS;
	     left &= left - 1)
		c->ahead[c->ahead_count++] = c->part->col[__builtin_ctzll(left)];
	return SQLITE_OK;
}

static void enter_row(struct cursor *c)
{
	c->row = c->part->order[c->at];
	if (c->plan.group.count && c->at + AHEAD < c->end)
		for (uint32_t i = 0; i < c->ahead_count; i++)
			__builtin_prefetch(&c->ahead[i][c->part->order[c->at + AHEAD]]);
	if (c->plan.group.count && c->at >= c->group_end) { /* another group: none is empty */
		c->group_end = c->part->first[++c->group];
		c->known = 0;
	}
}

/* The cell of a column that rows are grouped by, made once for the group; NULL for other columns.
 */
static const struct ws_xcell *group_cell(struct cursor *c, int column)
{
	for (uint32_t k = 0; k < c->plan.group.count; k++) {
		if (c->plan.group.column[k] != column)
			continue;
		if (!(c->known >> k & 1)) {
			c->group_cell[k] = ws_sql_cell(c->t, (size_t)column, c->col, c->row);
			c->known |= UINT64_C(1) << k;
		}
		return &c->group_cell[k];
	}
	return NULL;
}

static int cursor_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
			 sqlite3_value **argv)
{
	struct cursor *c = (struct cursor *)base;
	int rc = SQLITE_OK;

	(void)number;
	if (text != c->plan.text) {
		drop_part(c);
		c->lookups = 0;
		c->buffer_rows = 0;
		read_plan(&c->plan, text);
	}
	c->tests = 0;
	if (c->t->kind == WS_SQL_CELLS) {
		struct ws_err e;

		if (ws_sql_make(c->t, &e) < 0) {
			c->base.pVtab->zErrMsg = sqlite3_mprintf("%s", e.msg);
			return c->t->of->sql->stop ? SQLITE_INTERRUPT : SQLITE_ERROR;
		}
		c->mode = c->t->cell_count ? IN_CELLS : ENDED;
		c->at = 0;
	} else if (c->t->kind == WS_SQL_STRINGS) {
		begin_strings(c, argc, argv);
	} else {
		take_bounds(c, argv);
		if (c->plan.equal.count)
			rc = begin_lookup(c, argv);
		else if (c->plan.group.count)
			rc = begin_groups(c);
		else
			begin_blocks(c);
	}
	if (c->mode == IN_PART)
		enter_row(c);
	c->t->of->sql->counts.rows += c->mode != ENDED;
	return rc;
}

static int cursor_next(sqlite3_vtab_cursor *base)
{
	struct cursor *c = (struct cursor *)base;

	c->at++;
	if (c->mode == IN_PART) {
		if (c->at < c->end)
			enter_row(c);
		else
			c->mode = ENDED;
	} else if (c->mode == IN_BLOCKS) {
		settle_in_blocks(c);
	} else if (c->mode == IN_CELLS) {
		if (c->at * c->t->column_count >= c->t->cell_count)
			c->mode = ENDED;
	} else if (c->mode == IN_STRINGS) {
		settle_in_strings(c);
	}
	c->t->of->sql->counts.rows += c->mode != ENDED;
	return SQLITE_OK;
}

static int cursor_eof(sqlite3_vtab_cursor *base)
{
	return ((struct cursor *)base)->mode == ENDED;
}

/* ---- values ---- */

static void give_string(struct cursor *c, sqlite3_context *out, int column)
{
	uint32_t id = string_at(c);
	struct ws_xcell cell;

	if (!column) {
		sqlite3_result_int64(out, id);
		return;
	}
	cell = ws_sql_string_cell(&c->t->of->x, id);
	ws_sqlite_give(out, &cell);
}

static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *out, int column)
{
	struct cursor *c = (struct cursor *)base;
	const struct ws_xcolumn *d = &c->t->columns[column];
	const struct ws_xcell *known;
	struct ws_xcell cell;
	uint64_t v;

	if (c->mode == IN_CELLS) {
		ws_sqlite_give(out, &c->t->cells[c->at * c->t->column_count + (size_t)column]);
		return SQLITE_OK;
	}
	if (c->mode == IN_STRINGS) {
		give_string(c, out, column);
		return SQLITE_OK;
	}
	if (c->mode == IN_PART && (known = group_cell(c, column))) {
		ws_sqlite_give(out, known);
		return SQLITE_OK;
	}
	switch (d->from) { /* what most queries read, at least cost */
	case WS_XF_TIME:
		sqlite3_result_int64(out,
				     (sqlite3_int64)(c->col[d->source][c->row] - c->t->of->x.base));
		return SQLITE_OK;
	case WS_XF_NTIME:
		v = c->col[d->source][c->row];
		if (v != WS_NO_TIME)
			sqlite3_result_int64(out, (sqlite3_int64)(v - c->t->of->x.base));
		return SQLITE_OK;
	case WS_XF_INT:
	case WS_XF_UINT:
		sqlite3_result_int64(out, (sqlite3_int64)c->col[d->source][c->row]);
		return SQLITE_OK;
	default:
		break;
	}
	cell = ws_sql_cell(c->t, (size_t)column, c->col, c->row);
	ws_sqlite_give(out, &cell);
	return SQLITE_OK;
}

/*
 * The same row has the same number in every run, by whatever way it was found: SQLite answers `a OR
 * b` by a run for each and leaves out, by number, what it has met before.
 */
static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
	const struct cursor *c = (const struct cursor *)base;

	*out = c->mode == IN_BLOCKS    ? c->block_base + (int64_t)c->row
	       : c->mode == IN_PART    ? (int64_t)c->row
	       : c->mode == IN_STRINGS ? (int64_t)string_at(c)
				       : (int64_t)c->at;
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
