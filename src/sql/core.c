/*
 * core.c - finding what fold.h can answer in a statement, and putting its answer in its place.
 *
 * A SELECT with aggregates over one table of the report, joined to StringIds at most, is rewritten to read a table of groups:
 * aggregates and what is grouped by become columns of that table, everything else (arithmetic on sums, HAVING, ORDER BY, LIMIT,
 * whatever stands around it) stays as it is written and SQLite's. SQLite has parsed the statement before, so it is known to be
 * right; here only what is surely understood is taken, word by word, and any other word leaves the statement as it is.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sql/fold.h"

enum { MOST_ITEMS = 64, MOST_TERMS = 40, DEEPEST = 24 };

struct span {
	size_t from, to; /* tokens */
};

struct core {
	struct ws_sql *s;
	const struct ws_sql_token *t;
	size_t count;
	struct ws_sql_fold *f;
	struct span items, from, where, group, having, order, limit, whole;
	bool distinct, has_where, has_group, has_having, has_order, has_limit;
	struct item {
		struct span e;
		size_t alias, name; /* tokens of `AS name`, or of the name alone; 0 for none */
	} item[MOST_ITEMS];
	size_t item_count;
	const struct ws_sql_token *alias; /* what the table is called here */
	struct {
		const struct ws_sql_token *alias;
		bool joined;
	} string[WS_SQL_JOINS];	      /* by place in f->join */
	struct span term[MOST_TERMS]; /* conditions */
	size_t term_count;
	struct span by[WS_SQL_KEYS]; /* what f->by[] is of */
	struct ws_text conditions;   /* hard ones */
	bool unordered;
	int depth;
};

static bool is(const struct core *c, size_t i, const char *word)
{
	return i < c->count && ws_sql_token_is(&c->t[i], word);
}

static bool is_name(const struct core *c, size_t i)
{
	return i < c->count && (c->t[i].kind == WS_T_NAME || c->t[i].kind == WS_T_QUOTED);
}

static bool one_of(const struct core *c, size_t i, const char *const *words)
{
	for (; *words; words++)
		if (is(c, i, *words))
			return true;
	return false;
}

static bool same_tokens(const struct core *c, size_t a, size_t b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!ws_sql_token_same(&c->t[a + i], &c->t[b + i]))
			return false;
	return true;
}

static int depth_change(const struct core *c, size_t i)
{
	return is(c, i, "(") ? 1 : is(c, i, ")") ? -1 : 0;
}

static bool names_token(const struct ws_sql_token *name, const struct ws_sql_token *t)
{
	char *s = name ? ws_strndup(name->s + (name->kind == WS_T_QUOTED), name->n - (name->kind == WS_T_QUOTED ? 2 : 0)) : NULL;
	bool same = s && ws_sql_token_names(t, s);

	free(s);
	return same;
}

/* ---- names ---- */

/* The column that tokens from `i` on name; its length in tokens, or 0 when they name none of ours. */
static size_t resolve_in(const struct core *c, uint32_t joins, size_t i, size_t to, struct ws_sql_atom *a)
{
	bool qualified = i + 2 < to && is_name(c, i) && is(c, i + 1, ".");
	size_t name = qualified ? i + 2 : i, n = qualified ? 3 : 1;

	if (i >= to || !is_name(c, name) || (name + 1 < to && (is(c, name + 1, "(") || is(c, name + 1, "."))))
		return 0;
	if (!qualified || names_token(c->alias, &c->t[i]))
		for (size_t k = 0; k < c->f->t->column_count && k <= UINT8_MAX; k++)
			if (ws_sql_token_names(&c->t[name], c->f->t->columns[k].name)) {
				*a = (struct ws_sql_atom){(uint8_t)k, WS_ATOM_COLUMN};
				return n;
			}
	for (uint32_t k = 0; k < joins; k++) {
		if (qualified && !names_token(c->string[k].alias, &c->t[i]))
			continue;
		if (!ws_sql_token_names(&c->t[name], "value") && !ws_sql_token_names(&c->t[name], "id"))
			continue;
		*a = (struct ws_sql_atom){c->f->join[k].column, ws_sql_token_names(&c->t[name], "id") ? WS_ATOM_ID : WS_ATOM_TEXT};
		return n;
	}
	return 0;
}

static size_t resolve(const struct core *c, size_t i, size_t to, struct ws_sql_atom *a)
{
	return resolve_in(c, c->f->joins, i, to, a);
}

static bool same_atom(const struct ws_sql_atom *a, const struct ws_sql_atom *b)
{
	return a->column == b->column && a->what == b->what;
}

/* Number of the atom among those of the fold, or -1. */
static int atom(struct core *c, const struct ws_sql_atom *a)
{
	struct ws_sql_fold *f = c->f;

	for (uint32_t i = 0; i < f->atoms; i++)
		if (same_atom(&f->atom[i], a))
			return (int)i;
	if (f->atoms == WS_SQL_ATOMS)
		return -1;
	f->atom[f->atoms] = *a;
	return (int)f->atoms++;
}

/* The item whose alias the token is, or NULL. */
static const struct item *aliased(const struct core *c, size_t i)
{
	for (size_t k = 0; k < c->item_count; k++)
		if (c->item[k].alias && is_name(c, i) && names_token(&c->t[c->item[k].name], &c->t[i]))
			return &c->item[k];
	return NULL;
}

/* ---- numbers: expressions that are computed here ---- */

struct parse {
	struct core *c;
	size_t at, to;
};

static uint16_t binary(struct parse *p, int least);

static uint16_t node(struct parse *p, unsigned op, uint16_t a, uint16_t b)
{
	return ws_sql_node(&p->c->f->x, (struct ws_sql_node){.op = op, .a = a, .b = b});
}

static bool next_is(struct parse *p, const char *word)
{
	if (p->at >= p->to || !is(p->c, p->at, word))
		return false;
	p->at++;
	return true;
}

/* The value is SQLite's reading of it. */
static uint16_t literal(struct parse *p, bool negative)
{
	const struct ws_sql_token *t = &p->c->t[p->at++];
	char *sql = ws_format("SELECT %s%.*s", negative ? "-" : "", (int)t->n, t->s);
	struct ws_sql_node n = {.op = WS_N_INT};
	sqlite3_stmt *st = NULL;
	bool ok = sqlite3_prepare_v2(p->c->s->db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW;

	if (ok && sqlite3_column_type(st, 0) == SQLITE_FLOAT) {
		n.op = WS_N_REAL;
		n.real = true;
		n.r = sqlite3_column_double(st, 0);
	} else if (ok) {
		n.i = sqlite3_column_int64(st, 0);
	}
	sqlite3_finalize(st);
	free(sql);
	return ok ? ws_sql_node(&p->c->f->x, n) : 0;
}

static bool is_number(const struct core *c, size_t i)
{
	return c->t[i].kind == WS_T_INT || c->t[i].kind == WS_T_REAL;
}

/* CASE [x] WHEN a THEN b ... [ELSE c] END */
static uint16_t cases(struct parse *p)
{
	uint16_t of = 0, when[12], then[12], result = 0;
	bool simple = !is(p->c, p->at, "WHEN");
	size_t n = 0;

	if (simple && !(of = binary(p, 0)))
		return 0;
	while (next_is(p, "WHEN")) {
		if (n == WS_COUNT(when) || !(when[n] = binary(p, 0)) || !next_is(p, "THEN") || !(then[n] = binary(p, 0)))
			return 0;
		if (simple)
			when[n] = node(p, WS_N_EQ, of, when[n]);
		n++;
	}
	if (next_is(p, "ELSE") && !next_is(p, "NULL") && !(result = binary(p, 0)))
		return 0;
	if (!next_is(p, "END") || !n)
		return 0;
	while (n--) {
		result = ws_sql_node(&p->c->f->x, (struct ws_sql_node){.op = WS_N_IF, .a = when[n], .b = then[n], .c = result});
		if (!result)
			return 0;
	}
	return result;
}

static uint16_t cast(struct parse *p)
{
	static const char *const whole[] = {"INT", "INTEGER", "BIGINT", NULL}, *const reals[] = {"REAL", "FLOAT", "DOUBLE", NULL};
	uint16_t a;
	bool to_real;

	if (!next_is(p, "(") || !(a = binary(p, 0)) || !next_is(p, "AS"))
		return 0;
	to_real = one_of(p->c, p->at, reals);
	if (!to_real && !one_of(p->c, p->at, whole))
		return 0;
	p->at++;
	return next_is(p, ")") ? node(p, to_real ? WS_N_TO_REAL : WS_N_TO_INT, a, 0) : 0;
}

static uint16_t named(struct parse *p)
{
	struct ws_sql_atom a;
	size_t n = resolve(p->c, p->at, p->to, &a);
	const struct item *item;
	struct parse inner;
	uint16_t result;

	if (n) {
		p->at += n;
		if (a.what == WS_ATOM_TEXT)
			return 0;
		for (uint32_t k = 0; a.what == WS_ATOM_ID && k < p->c->f->joins; k++)
			if (p->c->f->join[k].column == a.column && p->c->f->join[k].left)
				return 0;
		return ws_sql_node_column(&p->c->f->x, a.column);
	}
	item = aliased(p->c, p->at);
	if (!item || p->c->depth == DEEPEST)
		return 0;
	p->at++;
	p->c->depth++;
	inner = (struct parse){p->c, item->e.from, item->e.to};
	result = binary(&inner, 0);
	p->c->depth--;
	return inner.at == inner.to ? result : 0;
}

static uint16_t operand(struct parse *p)
{
	struct core *c = p->c;
	uint16_t a;

	if (p->at >= p->to)
		return 0;
	if (is_number(c, p->at))
		return literal(p, false);
	if (next_is(p, "(")) {
		a = binary(p, 0);
		return a && next_is(p, ")") ? a : 0;
	}
	if (next_is(p, "+"))
		return operand(p);
	if (next_is(p, "-")) {
		if (p->at < p->to && is_number(c, p->at))
			return literal(p, true);
		a = operand(p);
		return a ? node(p, WS_N_SUB, ws_sql_node(&c->f->x, (struct ws_sql_node){.op = WS_N_INT}), a) : 0;
	}
	if (is(c, p->at, "CASE") && c->t[p->at].kind == WS_T_NAME) {
		p->at++;
		return cases(p);
	}
	if (next_is(p, "CAST"))
		return cast(p);
	return named(p);
}

enum { LEVEL_OR, LEVEL_AND, LEVEL_NOT, LEVEL_EQUAL, LEVEL_LESS, LEVEL_BITS, LEVEL_SUM, LEVEL_PRODUCT, LEVEL_OPERAND };

static const struct {
	const char *word;
	int level;
	unsigned op;
	bool swap; /* > and >= */
} operators[] = {
    {"OR", LEVEL_OR, WS_N_OR, false},	   {"AND", LEVEL_AND, WS_N_AND, false},	    {"=", LEVEL_EQUAL, WS_N_EQ, false},
    {"==", LEVEL_EQUAL, WS_N_EQ, false},   {"!=", LEVEL_EQUAL, WS_N_NE, false},	    {"<>", LEVEL_EQUAL, WS_N_NE, false},
    {"<", LEVEL_LESS, WS_N_LT, false},	   {"<=", LEVEL_LESS, WS_N_LE, false},	    {">", LEVEL_LESS, WS_N_LT, true},
    {">=", LEVEL_LESS, WS_N_LE, true},	   {"&", LEVEL_BITS, WS_N_AND_BITS, false}, {"|", LEVEL_BITS, WS_N_OR_BITS, false},
    {"<<", LEVEL_BITS, WS_N_SHL, false},   {">>", LEVEL_BITS, WS_N_SHR, false},	    {"+", LEVEL_SUM, WS_N_ADD, false},
    {"-", LEVEL_SUM, WS_N_SUB, false},	   {"*", LEVEL_PRODUCT, WS_N_MUL, false},   {"/", LEVEL_PRODUCT, WS_N_DIV, false},
    {"%", LEVEL_PRODUCT, WS_N_MOD, false},
};

/* x BETWEEN a AND b */
static uint16_t between(struct parse *p, uint16_t x)
{
	uint16_t a = binary(p, LEVEL_LESS), b;

	if (!a || !next_is(p, "AND") || !(b = binary(p, LEVEL_LESS)))
		return 0;
	return node(p, WS_N_AND, node(p, WS_N_LE, a, x), node(p, WS_N_LE, x, b));
}

/* x IN (literals) */
static uint16_t in_list(struct parse *p, uint16_t x)
{
	uint16_t any = 0, one;

	p->c->unordered = true; /* SQLite may look for one after the other */
	if (!next_is(p, "("))
		return 0;
	do {
		bool negative = next_is(p, "-");

		if (p->at >= p->to || !is_number(p->c, p->at) || !(one = node(p, WS_N_EQ, x, literal(p, negative))))
			return 0;
		any = any ? node(p, WS_N_OR, any, one) : one;
		if (!any)
			return 0;
	} while (next_is(p, ","));
	return next_is(p, ")") ? any : 0;
}

/* The words after an operand that are no plain operators. *a becomes 0 when they are not understood. False: there are none. */
static bool predicate(struct parse *p, uint16_t *a)
{
	bool no = false;

	if (next_is(p, "ISNULL")) {
		*a = node(p, WS_N_IS_NULL, *a, 0);
		return true;
	}
	if (next_is(p, "NOTNULL")) {
		*a = node(p, WS_N_NOT, node(p, WS_N_IS_NULL, *a, 0), 0);
		return true;
	}
	if (next_is(p, "IS")) {
		no = next_is(p, "NOT");
		*a = next_is(p, "NULL") ? node(p, WS_N_IS_NULL, *a, 0) : 0;
	} else {
		no = next_is(p, "NOT");
		if (next_is(p, "BETWEEN"))
			*a = between(p, *a);
		else if (next_is(p, "IN"))
			*a = in_list(p, *a);
		else if (no && next_is(p, "NULL")) {
			*a = node(p, WS_N_IS_NULL, *a, 0);
		} else {
			if (no)
				*a = 0;
			return no;
		}
	}
	if (no && *a)
		*a = node(p, WS_N_NOT, *a, 0);
	return true;
}

static uint16_t binary(struct parse *p, int least)
{
	uint16_t a, b;

	if (p->c->depth == DEEPEST)
		return 0;
	p->c->depth++;
	if (least <= LEVEL_NOT && next_is(p, "NOT")) {
		a = binary(p, LEVEL_NOT);
		a = a ? node(p, WS_N_NOT, a, 0) : 0;
	} else {
		a = operand(p);
	}
	while (a && p->at < p->to) {
		size_t k = 0;

		if (least <= LEVEL_EQUAL && predicate(p, &a))
			continue;
		while (k < WS_COUNT(operators) && !is(p->c, p->at, operators[k].word))
			k++;
		if (k == WS_COUNT(operators) || operators[k].level < least)
			break;
		p->at++;
		b = binary(p, operators[k].level + 1);
		p->c->unordered |= operators[k].op == WS_N_OR;
		a = !b ? 0 : operators[k].swap ? node(p, operators[k].op, b, a) : node(p, operators[k].op, a, b);
	}
	p->c->depth--;
	return a;
}

/* The node of a whole span, or 0. */
static uint16_t number_of(struct core *c, struct span s)
{
	struct parse p = {c, s.from, s.to};
	uint16_t a = binary(&p, 0);

	return p.at == p.to ? a : 0;
}

/* ---- words that stay ---- */

static const char *const functions[] = {"abs",	     "coalesce", "format",  "hex",     "ifnull", "iif",	 "instr",
					"length",    "like",	 "lower",   "ltrim",   "max",	 "min",	 "nullif",
					"printf",    "quote",	 "replace", "round",   "rtrim",	 "sign", "substr",
					"substring", "trim",	 "typeof",  "unicode", "upper",	 "glob", NULL};
static const char *const figures[] = {"count", "sum", "avg", "total", "min", "max", NULL};
static const char *const between_operands[] = {"AND", "OR",   "IS",   "LIKE", "GLOB",	"BETWEEN",
					       "IN",  "WHEN", "THEN", "ELSE", "ESCAPE", NULL};
static const char *const types[] = {"INT", "INTEGER", "BIGINT", "REAL", "FLOAT", "DOUBLE", "TEXT", NULL};

struct put {
	struct core *c;
	struct span s;
	bool aggregates; /* of groups: columns only as far as they are the same in all rows of a group */
	bool aliases;	 /* of items may be named */
	struct ws_text *out;
	bool operand; /* one has just been put */
};

static size_t closing(const struct core *c, size_t open, size_t to)
{
	int depth = 0;

	for (size_t i = open; i < to; i++) {
		depth += depth_change(c, i);
		if (!depth)
			return i;
	}
	return to;
}

static int number_of_arg(struct ws_sql_fold *f, uint16_t n)
{
	for (uint32_t i = 0; i < f->args; i++)
		if (f->arg[i] == n)
			return (int)i;
	if (f->args == WS_SQL_ARGS || !n)
		return -1;
	f->arg[f->args] = n;
	return (int)f->args++;
}

static bool put_figure_of(struct put *p, struct ws_sql_figure g)
{
	struct ws_sql_fold *f = p->c->f;
	uint32_t i = 0;

	while (i < f->figures && (f->figure[i].what != g.what || f->figure[i].arg != g.arg))
		i++;
	if (i == WS_SQL_FIGURES)
		return false;
	if (i == f->figures)
		f->figure[f->figures++] = g;
	ws_text_printf(p->out, "(+\"ws$f%u\") ", i);
	return true;
}

/* An aggregate at `i`, with the parenthesis after it. 1, 0 when it is none, -1 when it is not one of ours. */
static int put_figure(struct put *p, size_t *i)
{
	static const unsigned what[] = {WS_F_COUNT, WS_F_SUM, WS_F_AVG, WS_F_TOTAL, WS_F_MIN, WS_F_MAX};
	struct core *c = p->c;
	size_t end = closing(c, *i + 1, p->s.to), k = 0;
	int depth = 0, arg;

	while (figures[k] && !is(c, *i, figures[k]))
		k++;
	if (!figures[k] || end >= p->s.to)
		return 0;
	for (size_t n = *i + 2; n < end; n++) {
		if (what[k] >= WS_F_MIN && !depth && is(c, n, ","))
			return 0; /* the function of several arguments */
		depth += depth_change(c, n);
	}
	if (!p->aggregates || is(c, end + 1, "FILTER") || is(c, end + 1, "OVER"))
		return -1;
	if (what[k] == WS_F_COUNT && (end == *i + 2 || (end == *i + 3 && is(c, *i + 2, "*")))) {
		*i = end + 1;
		return put_figure_of(p, (struct ws_sql_figure){WS_F_ROWS, 0}) ? 1 : -1;
	}
	arg = number_of_arg(c->f, number_of(c, (struct span){*i + 2, end}));
	*i = end + 1;
	return arg >= 0 && put_figure_of(p, (struct ws_sql_figure){what[k], (uint8_t)arg}) ? 1 : -1;
}

/* Does the column have one value in each group? */
static bool determined(const struct core *c, const struct ws_sql_atom *a)
{
	for (uint32_t k = 0; k < c->f->bys; k++) {
		const struct ws_sql_group_by *by = &c->f->by[k];
		const struct ws_sql_atom *b = &c->f->atom[by->number];

		if (by->how != WS_BY_ATOM || b->column != a->column)
			continue;
		if (b->what == WS_ATOM_COLUMN || b->what == a->what)
			return true;
		for (uint32_t j = 0; j < c->f->joins; j++)
			if (c->f->join[j].column == a->column && !c->f->join[j].left)
				return true; /* no two rows of StringIds have the same text */
	}
	return false;
}

/* Something that is grouped by, other than a column, standing by itself at `i`: its length in tokens. */
static size_t put_grouped(struct put *p, size_t i)
{
	struct core *c = p->c;

	if (!p->aggregates || (i > p->s.from && !is(c, i - 1, "(") && !is(c, i - 1, ",")))
		return 0;
	for (uint32_t k = 0; k < c->f->bys; k++) {
		size_t n = c->by[k].to - c->by[k].from, end = i + n;

		if (c->f->by[k].how == WS_BY_ATOM || end > p->s.to || !same_tokens(c, i, c->by[k].from, n))
			continue;
		if (end < p->s.to && !is(c, end, ")") && !is(c, end, ","))
			continue;
		ws_text_printf(p->out, "(+\"ws$g%u\") ", k);
		return n;
	}
	return 0;
}

static void put_token(struct put *p, size_t i, bool operand)
{
	ws_text_add(p->out, p->c->t[i].s, p->c->t[i].n);
	ws_text_puts(p->out, " ");
	p->operand = operand;
}

/* A name where an operand is due. */
static bool put_named(struct put *p, size_t *i)
{
	struct core *c = p->c;
	struct ws_sql_atom a;
	size_t n = resolve(c, *i, p->s.to, &a);
	int number;

	if (n) {
		if (p->aggregates && !determined(c, &a))
			return false;
		number = atom(c, &a);
		if (number < 0)
			return false;
		ws_text_printf(p->out, "\"ws$a%d\" ", number);
		p->operand = true;
		*i += n;
		return true;
	}
	if (is(c, *i + 1, "(") && one_of(c, *i, functions)) {
		put_token(p, (*i)++, false);
		return true;
	}
	if (!p->aliases || is(c, *i + 1, "(") || is(c, *i + 1, ".") || !aliased(c, *i))
		return false;
	put_token(p, (*i)++, true);
	return true;
}

static bool put_at_operand(struct put *p, size_t *i, int *cases_open)
{
	struct core *c = p->c;
	int rc;

	if (c->t[*i].kind == WS_T_INT || c->t[*i].kind == WS_T_REAL || c->t[*i].kind == WS_T_STRING || is(c, *i, "NULL")) {
		put_token(p, (*i)++, true);
		return true;
	}
	if (is(c, *i, "(") || is(c, *i, "-") || is(c, *i, "+") || is(c, *i, "NOT")) {
		put_token(p, (*i)++, false);
		return true;
	}
	if (is(c, *i, "CASE")) {
		++*cases_open;
		put_token(p, (*i)++, false);
		return true;
	}
	if (is(c, *i, "WHEN") && *i && is(c, *i - 1, "CASE")) {
		put_token(p, (*i)++, false);
		return true;
	}
	if (is(c, *i, "CAST") && is(c, *i + 1, "(")) {
		put_token(p, (*i)++, false);
		return true;
	}
	if (is(c, *i + 1, "(")) {
		rc = put_figure(p, i);
		p->operand = rc > 0;
		if (rc)
			return rc > 0;
	}
	return is_name(c, *i) && put_named(p, i);
}

static bool put_after_operand(struct put *p, size_t *i, int *cases_open)
{
	static const char *const signs[] = {"+",  "-",	"*",  "/",  "%", "<", ">",  "<=", ">=", "=",
					    "==", "!=", "<>", "||", "&", "|", "<<", ">>", ",",	NULL};
	struct core *c = p->c;

	if (is(c, *i, ")") || is(c, *i, "ISNULL") || is(c, *i, "NOTNULL")) {
		put_token(p, (*i)++, true);
	} else if (is(c, *i, "END") && *cases_open) {
		--*cases_open;
		put_token(p, (*i)++, true);
	} else if (is(c, *i, "AS") && one_of(c, *i + 1, types)) { /* of a CAST */
		put_token(p, (*i)++, false);
		put_token(p, (*i)++, true);
	} else if (one_of(c, *i, signs) || one_of(c, *i, between_operands) || is(c, *i, "NOT")) {
		put_token(p, (*i)++, false);
	} else {
		return false;
	}
	return true;
}

/* Write a span as an expression of the table of groups (or, of the combination). False when something is not understood. */
static bool put_span(struct put *p)
{
	int cases_open = 0;

	p->operand = false;
	for (size_t i = p->s.from; i < p->s.to;) {
		size_t n = p->operand ? 0 : put_grouped(p, i);

		if (n) {
			i += n;
			p->operand = true;
			continue;
		}
		if (!(p->operand ? put_after_operand(p, &i, &cases_open) : put_at_operand(p, &i, &cases_open)))
			return false;
	}
	return p->operand && !cases_open;
}

/* ---- clauses ---- */

static bool at_clause(const struct core *c, size_t i)
{
	static const char *const words[] = {"FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", NULL};

	return one_of(c, i, words);
}

/* Which clause begins at `i`; *i moves behind its words. */
static struct span *clause(struct core *c, size_t *i)
{
	if (is(c, *i, "GROUP") || is(c, *i, "ORDER")) {
		bool group = is(c, *i, "GROUP");

		if (!is(c, *i + 1, "BY"))
			return NULL;
		*i += 2;
		*(group ? &c->has_group : &c->has_order) = true;
		return group ? &c->group : &c->order;
	}
	++*i;
	if (is(c, *i - 1, "FROM"))
		return &c->from;
	if (is(c, *i - 1, "WHERE")) {
		c->has_where = true;
		return &c->where;
	}
	if (is(c, *i - 1, "HAVING")) {
		c->has_having = true;
		return &c->having;
	}
	c->has_limit = true;
	return &c->limit;
}

/* The clauses of the SELECT at token `select`. */
static bool find_clauses(struct core *c, size_t select)
{
	static const char *const others[] = {"UNION", "INTERSECT", "EXCEPT", "WINDOW", "SELECT", "VALUES", NULL};
	size_t i = select + 1;
	struct span *open = &c->items;
	int depth = 0;

	c->whole.from = select;
	c->distinct = is(c, i, "DISTINCT");
	i += c->distinct || is(c, i, "ALL");
	open->from = i;
	for (; i < c->count && !(is(c, i, ")") && !depth) && !is(c, i, ";"); i++) {
		depth += depth_change(c, i);
		if (one_of(c, i, others))
			return false;
		if (depth || !at_clause(c, i) || (i && is(c, i - 1, ".")))
			continue;
		open->to = i;
		if (!(open = clause(c, &i)) || open->to)
			return false;
		open->from = i--;
	}
	open->to = c->whole.to = i;
	return c->from.to > c->from.from && c->items.to > c->items.from && (!c->has_having || c->has_group);
}

/* The next part of a list; false at its end. */
static bool next_part(const struct core *c, struct span list, struct span *part)
{
	int depth = 0;
	size_t i;

	if (part->to >= list.to)
		return false;
	part->from = part->to ? part->to + 1 : list.from;
	for (i = part->from; i < list.to && (depth || !is(c, i, ",")); i++)
		depth += depth_change(c, i);
	part->to = i;
	return part->from < i;
}

static bool ends_operand(const struct core *c, size_t i)
{
	const struct ws_sql_token *t = &c->t[i];

	if (t->kind == WS_T_NAME)
		return !one_of(c, i, between_operands) && !is(c, i, "NOT") && !is(c, i, "CASE");
	return t->kind == WS_T_QUOTED || t->kind == WS_T_INT || t->kind == WS_T_REAL || t->kind == WS_T_STRING || is(c, i, ")");
}

static bool find_items(struct core *c)
{
	static const char *const no_alias[] = {"END", "NULL", "ISNULL", "NOTNULL", NULL};
	struct span part = {0, 0};

	while (next_part(c, c->items, &part)) {
		struct item *it = &c->item[c->item_count];
		size_t last = part.to - 1;

		if (c->item_count++ == MOST_ITEMS)
			return false;
		*it = (struct item){.e = part};
		if (last < part.from + 1 || (!is_name(c, last) && c->t[last].kind != WS_T_STRING))
			continue;
		if (is(c, last - 1, "AS")) {
			it->alias = last - 1;
		} else if (ends_operand(c, last - 1) && !one_of(c, last, no_alias)) {
			it->alias = last;
		}
		if (!it->alias)
			continue;
		it->name = last;
		it->e.to = it->alias;
		if (it->e.to <= it->e.from || c->t[last].kind == WS_T_STRING)
			return false;
	}
	return part.to == c->items.to && c->item_count;
}

/* ---- FROM ---- */

static struct ws_sql_table *table_of(const struct core *c, size_t i, size_t *next)
{
	size_t report = 0, name = i;
	char schema[32];

	if (is(c, i + 1, ".")) {
		name = i + 2;
		if (!ws_sql_token_names(&c->t[i], "main")) {
			for (report = 0; report < c->s->report_count; report++) {
				snprintf(schema, sizeof(schema), "report%zu", report + 1);
				if (ws_sql_token_names(&c->t[i], schema))
					break;
			}
			if (report == c->s->report_count || c->s->report_count < 2)
				return NULL;
		}
	}
	*next = name + 1;
	for (size_t k = 0; is_name(c, name) && k < c->s->reports[report].table_count; k++)
		if (ws_sql_token_names(&c->t[name], c->s->reports[report].tables[k]->name))
			return c->s->reports[report].tables[k];
	return NULL;
}

/* A name that the statement gives to something of its own: WITH name AS (...). */
static bool defined_here(const struct core *c, const char *name)
{
	for (size_t i = 0; i + 1 < c->count; i++)
		if (ws_sql_token_names(&c->t[i], name) && (is(c, i + 1, "(") || is(c, i + 1, "AS")) &&
		    (i == 0 || !is(c, i - 1, ".")) &&
		    (is(c, i + 1, "(") || is(c, i + 2, "(") || is(c, i + 2, "NOT") || is(c, i + 2, "MATERIALIZED")))
			return true;
	return false;
}

static bool add_terms(struct core *c, struct span s);

struct from_table {
	struct ws_sql_table *t;
	const struct ws_sql_token *alias;
	bool left;
	struct span on;
};

static bool read_table(struct core *c, size_t *i, struct from_table *t)
{
	static const char *const after[] = {"JOIN", "INNER", "LEFT",	"CROSS", "NATURAL", "RIGHT", "FULL",
					    "ON",   "USING", "INDEXED", "NOT",	 "OUTER",   NULL};
	size_t at = *i;

	if (!is_name(c, at) || !(t->t = table_of(c, at, i)) || defined_here(c, t->t->name))
		return false;
	t->alias = &c->t[*i - 1];
	if (is(c, *i, "AS"))
		++*i;
	else if (*i >= c->from.to || !is_name(c, *i) || one_of(c, *i, after))
		return true;
	if (*i >= c->from.to || !is_name(c, *i))
		return false;
	t->alias = &c->t[(*i)++];
	return true;
}

static bool read_on(struct core *c, size_t *i, struct from_table *t)
{
	static const char *const ends[] = {",", "JOIN", "INNER", "LEFT", "CROSS", "NATURAL", "RIGHT", "FULL", NULL};
	int depth = 0;

	if (!is(c, *i, "ON") || *i >= c->from.to)
		return *i >= c->from.to || one_of(c, *i, ends);
	t->on.from = ++*i;
	for (; *i < c->from.to && (depth || !one_of(c, *i, ends)); ++*i)
		depth += depth_change(c, *i);
	t->on.to = *i;
	return true;
}

/* s.id = column, either way round: the column, and the string's number in *which. */
static bool is_join(struct core *c, struct span s, uint32_t *which, uint8_t *column)
{
	for (int turn = 0; turn < 2; turn++)
		for (uint32_t k = 0; k < c->f->joins; k++) {
			struct ws_sql_atom a;
			size_t id = turn ? s.to - 3 : s.from, n;
			struct span other = turn ? (struct span){s.from, s.to - 4} : (struct span){s.from + 4, s.to};

			if (s.to < s.from + 5 || c->string[k].joined || !names_token(c->string[k].alias, &c->t[id]) ||
			    !is(c, id + 1, ".") || !ws_sql_token_names(&c->t[id + 2], "id") ||
			    !(is(c, turn ? id - 1 : id + 3, "=") || is(c, turn ? id - 1 : id + 3, "==")))
				continue;
			n = resolve_in(c, 0, other.from, other.to, &a); /* of the table, not of another join */
			if (!n || other.from + n != other.to || ws_xcolumn_shape(&c->f->t->columns[a.column]) != WS_SHAPE_STRING)
				return false;
			*which = k;
			*column = a.column;
			return true;
		}
	return false;
}

/* One table of the report, and StringIds any number of times. */
static bool read_from(struct core *c)
{
	struct from_table t[WS_SQL_JOINS + 1] = {0}, *strings[WS_SQL_JOINS];
	size_t i = c->from.from, n = 0;

	for (;;) {
		if (n == WS_COUNT(t) || !read_table(c, &i, &t[n]) || !read_on(c, &i, &t[n]))
			return false;
		if (t[n].t->kind == WS_SQL_BLOCKS && !c->f->t) {
			if (t[n].left)
				return false;
			c->f->t = t[n].t;
			c->f->x.t = t[n].t;
			c->alias = t[n].alias;
		} else if (t[n].t->kind == WS_SQL_STRINGS && c->f->joins < WS_SQL_JOINS) {
			c->string[c->f->joins].alias = t[n].alias;
			c->f->join[c->f->joins].left = t[n].left;
			strings[c->f->joins++] = &t[n];
		} else {
			return false;
		}
		n++;
		if (i >= c->from.to)
			break;
		if (n < WS_COUNT(t) && is(c, i, "LEFT")) {
			t[n].left = true;
			i += is(c, i + 1, "OUTER") ? 2 : 1;
			if (!is(c, i, "JOIN"))
				return false;
		} else if (is(c, i, "INNER")) {
			i++;
			if (!is(c, i, "JOIN"))
				return false;
		}
		if (!is(c, i, ",") && !is(c, i, "JOIN"))
			return false;
		i++;
	}
	if (!c->f->t)
		return false;
	for (uint32_t k = 0; k < c->f->joins; k++)
		if (strings[k]->t->of != c->f->t->of)
			return false;
	for (uint32_t k = 0; k < c->f->joins; k++) { /* a left join's condition is its own */
		uint32_t which = 0;

		if (!c->f->join[k].left)
			continue;
		if (!is_join(c, strings[k]->on, &which, &c->f->join[k].column) || which != k)
			return false;
		c->string[k].joined = true;
	}
	for (size_t k = 0; k < n; k++)
		if (!t[k].left && t[k].on.to && !add_terms(c, t[k].on))
			return false;
	return true;
}

/* ---- WHERE ---- */

/* Split at AND; what has an OR or a CASE in it stays together. */
static bool add_terms(struct core *c, struct span s)
{
	size_t from = s.from;
	bool within = false, whole = false;
	int depth = 0;

	for (size_t i = s.from; i < s.to; i++) {
		whole |= (!depth && is(c, i, "OR")) || is(c, i, "CASE");
		depth += depth_change(c, i);
	}
	for (size_t i = s.from; i <= s.to; i++) {
		depth += i < s.to ? depth_change(c, i) : 0;
		within |= i < s.to && !depth && is(c, i, "BETWEEN");
		if (i < s.to && (whole || depth || !is(c, i, "AND")))
			continue;
		if (i < s.to && within) {
			within = false;
			continue;
		}
		if (c->term_count == MOST_TERMS || i == from)
			return false;
		c->term[c->term_count++] = (struct span){from, i};
		from = i + 1;
	}
	return true;
}

static bool is_time(const struct core *c, const struct ws_sql_node *n)
{
	const struct ws_xcolumn *d = &c->f->t->columns[n->column];

	return n->op == WS_N_COLUMN && (d->from == WS_XF_TIME || d->from == WS_XF_NTIME) &&
	       (d->source == ws_table_start(c->f->t->view->source) || d->source == ws_table_end(c->f->t->view->source));
}

/* The time on the session clock that a literal means, widened where it is no whole number. */
static bool moment(const struct core *c, const struct ws_sql_node *n, bool lower, uint64_t *t)
{
	__int128 x;

	if (n->op == WS_N_INT)
		x = n->i;
	else if (n->op == WS_N_REAL && n->r > -9e18 && n->r < 9e18)
		x = (__int128)n->r + (lower ? -1 : 1);
	else
		return false;
	x += c->f->t->of->x.base;
	*t = x < 0 ? 0 : x > (__int128)(UINT64_MAX - 1) ? UINT64_MAX - 1 : (uint64_t)x;
	return true;
}

/* What a condition says of times. */
static void bound(struct core *c, uint16_t number)
{
	struct ws_sql_fold *f = c->f;
	const struct ws_sql_node *n = &f->x.node[number], *a = &f->x.node[n->a], *b = &f->x.node[n->b];
	uint64_t t;

	if (n->op == WS_N_AND) {
		bound(c, n->a);
		bound(c, n->b);
		return;
	}
	if (n->op != WS_N_LT && n->op != WS_N_LE && n->op != WS_N_EQ)
		return;
	if ((is_time(c, a) && moment(c, b, false, &t)) || (n->op == WS_N_EQ && is_time(c, b) && moment(c, a, false, &t)))
		f->upper = t < f->upper ? t : f->upper;
	if ((is_time(c, b) && moment(c, a, true, &t)) || (n->op == WS_N_EQ && is_time(c, a) && moment(c, b, true, &t)))
		f->lower = t > f->lower ? t : f->lower;
}

static bool read_conditions(struct core *c)
{
	struct ws_sql_fold *f = c->f;

	for (size_t i = 0; i < c->term_count; i++) {
		uint32_t which;
		uint8_t column;

		if (!is_join(c, c->term[i], &which, &column))
			continue;
		f->join[which].column = column;
		c->string[which].joined = true;
		c->term[i--] = c->term[--c->term_count];
	}
	for (uint32_t k = 0; k < f->joins; k++)
		if (!c->string[k].joined)
			return false;
	for (size_t i = 0; i < c->term_count; i++) {
		size_t nodes = f->x.n;
		uint64_t reads = f->x.reads;
		uint16_t n = number_of(c, c->term[i]);
		struct put p = {.c = c, .s = c->term[i], .out = &c->conditions};

		if (n && f->filters < WS_SQL_FILTERS) {
			f->filter[f->filters++] = n;
			bound(c, n);
			continue;
		}
		f->x.n = nodes;
		f->x.reads = reads;
		for (size_t k = c->term[i].from; k < c->term[i].to; k++)
			c->unordered |= is(c, k, "OR") || is(c, k, "IN");
		if (f->hard_conditions++)
			ws_text_puts(&c->conditions, "AND ");
		ws_text_puts(&c->conditions, "(");
		if (!put_span(&p))
			return false;
		ws_text_puts(&c->conditions, ") ");
	}
	return true;
}

/* ---- GROUP BY ---- */

/* What a term of GROUP BY is: an item by its number or alias, or itself. */
static struct span meant(const struct core *c, struct span term)
{
	struct ws_sql_atom a;
	const struct item *it;

	if (term.to != term.from + 1)
		return term;
	if (c->t[term.from].kind == WS_T_INT) {
		size_t n = strtoul(c->t[term.from].s, NULL, 10);

		return n >= 1 && n <= c->item_count ? c->item[n - 1].e : (struct span){0, 0};
	}
	if (resolve(c, term.from, term.to, &a))
		return term;
	it = aliased(c, term.from);
	return it ? it->e : term;
}

static bool add_hard(struct core *c, struct span s, struct ws_sql_group_by *by)
{
	struct put p = {.c = c, .s = s, .out = &c->f->hard};

	if (is(c, s.from, "CAST")) /* it has the affinity of a column */
		return false;
	if (c->f->hard_keys)
		ws_text_puts(&c->f->hard, ", ");
	by->how = WS_BY_HARD;
	by->number = (uint16_t)c->f->hard_keys++;
	return put_span(&p);
}

static bool add_by(struct core *c, struct span s)
{
	struct ws_sql_fold *f = c->f;
	struct ws_sql_group_by *by = &f->by[f->bys];
	struct ws_sql_atom a;
	size_t n, nodes = f->x.n;
	uint64_t reads = f->x.reads;
	int number;

	if (s.to <= s.from || f->bys == WS_SQL_KEYS)
		return false;
	n = resolve(c, s.from, s.to, &a);
	if (n && s.from + n == s.to) {
		number = atom(c, &a);
		if (number < 0)
			return false;
		*by = (struct ws_sql_group_by){.how = WS_BY_ATOM, .number = (uint16_t)number};
	} else if ((by->number = number_of(c, s))) {
		by->how = WS_BY_NODE;
		if (is(c, s.from, "CAST"))
			return false;
	} else {
		f->x.n = nodes;
		f->x.reads = reads;
		if (!add_hard(c, s, by))
			return false;
	}
	c->by[f->bys++] = s;
	return true;
}

/* With as many terms in ORDER BY as in GROUP BY, SQLite goes through groups the way that ORDER BY says, whatever it is of. */
static void directions(struct core *c)
{
	struct span part = {0, 0};
	uint32_t n = 0;

	if (!c->has_order || (c->whole.from && !is(c, 0, "WITH") && !c->has_limit))
		return; /* of a sub-query it is left out, most often */
	while (next_part(c, c->order, &part))
		n++;
	if (n != c->f->bys)
		return;
	part = (struct span){0, 0};
	for (uint32_t k = 0; k < n && next_part(c, c->order, &part); k++)
		for (size_t i = part.from; i < part.to; i++)
			c->f->by[k].descending |= i > part.from && is(c, i, "DESC");
}

static bool read_group(struct core *c)
{
	struct span part = {0, 0};

	while (c->has_group && next_part(c, c->group, &part))
		if (!add_by(c, meant(c, part)))
			return false;
	directions(c);
	return !c->has_group || (c->f->bys && part.to == c->group.to);
}

/* Where the plan might go through StringIds first, rows of a group come in another order. */
static bool is_ordered(const struct core *c)
{
	if (c->unordered)
		return false;
	for (uint32_t j = 0; j < c->f->joins; j++) {
		struct ws_sql_atom id = {c->f->join[j].column, WS_ATOM_COLUMN};

		if (!c->f->join[j].left && !determined(c, &id))
			return false;
	}
	return true;
}

/* ---- writing ---- */

static bool put_items(struct core *c, struct ws_text *out)
{
	for (size_t i = 0; i < c->item_count; i++) {
		const struct item *it = &c->item[i];
		struct put p = {.c = c, .s = it->e, .aggregates = true, .out = out};
		const char *from = c->t[it->e.from].s, *to = c->t[it->e.to - 1].s + c->t[it->e.to - 1].n;
		struct ws_sql_atom a;

		ws_text_puts(out, i ? ", " : "");
		if (!put_span(&p))
			return false;
		ws_text_puts(out, "AS ");
		if (it->alias) {
			ws_text_add(out, c->t[it->name].s, c->t[it->name].n);
			continue;
		}
		if (resolve(c, it->e.from, it->e.to, &a) == it->e.to - it->e.from) {
			from = a.what == WS_ATOM_TEXT ? "value" : a.what == WS_ATOM_ID ? "id" : c->f->t->columns[a.column].name;
			to = from + strlen(from);
		}
		ws_text_puts(out, "\"");
		for (; from < to; from++)
			ws_text_add(out, *from == '"' ? "\"\"" : from, *from == '"' ? 2 : 1);
		ws_text_puts(out, "\"");
	}
	return true;
}

/* A term of ORDER BY: its expression, then ASC or DESC and NULLS. */
static bool put_order_term(struct core *c, struct span part, struct ws_text *out)
{
	static const char *const words[] = {"ASC", "DESC", "NULLS", "FIRST", "LAST", NULL};
	struct put p = {.c = c, .s = part, .aggregates = true, .aliases = true, .out = out};

	while (p.s.to > p.s.from + 1 && one_of(c, p.s.to - 1, words))
		p.s.to--;
	if (p.s.to == p.s.from + 1 && (c->t[p.s.from].kind == WS_T_INT || aliased(c, p.s.from)))
		put_token(&p, p.s.from, true);
	else if (!put_span(&p))
		return false;
	for (size_t i = p.s.to; i < part.to; i++)
		put_token(&p, i, true);
	return true;
}

static bool put_order(struct core *c, struct ws_text *out)
{
	struct span part = {0, 0};

	ws_text_puts(out, " ORDER BY ");
	for (bool first = true; next_part(c, c->order, &part); first = false) {
		ws_text_puts(out, first ? "" : ", ");
		if (!put_order_term(c, part, out))
			return false;
	}
	return part.to == c->order.to;
}

static bool put_limit(struct core *c, struct ws_text *out)
{
	ws_text_puts(out, " LIMIT");
	for (size_t i = c->limit.from; i < c->limit.to; i++) {
		if (c->t[i].kind != WS_T_INT && !is(c, i, "OFFSET") && !is(c, i, ",") && !is(c, i, "-"))
			return false;
		ws_text_puts(out, " ");
		ws_text_add(out, c->t[i].s, c->t[i].n);
	}
	return true;
}

static bool put_core(struct core *c, struct ws_text *out)
{
	struct put having = {.c = c, .s = c->having, .aggregates = true, .aliases = true, .out = out};

	ws_text_puts(out, c->distinct ? "SELECT DISTINCT " : "SELECT ");
	if (!put_items(c, out))
		return false;
	ws_text_printf(out, " FROM \"ws$%u\"", c->f->number);
	if (c->has_having) {
		ws_text_puts(out, " WHERE ");
		if (!put_span(&having))
			return false;
	}
	if (c->has_order && !put_order(c, out))
		return false;
	return !c->has_limit || put_limit(c, out);
}

static bool read_core(struct core *c, size_t select, struct ws_text *out)
{
	struct ws_sql_fold *f = c->f;

	f->upper = UINT64_MAX;
	if (!find_clauses(c, select) || !find_items(c) || !read_from(c) || (c->has_where && !add_terms(c, c->where)) ||
	    !read_conditions(c) || !read_group(c))
		return false;
	if (f->hard_conditions)
		ws_text_printf(&f->hard, "%s1 FROM \"ws$%urow\" WHERE %s", f->hard_keys ? ", " : "", f->number, c->conditions.s);
	else if (f->hard_keys)
		ws_text_printf(&f->hard, " FROM \"ws$%urow\"", f->number);
	f->ordered = is_ordered(c);
	return put_core(c, out) && (f->figures || f->bys);
}

/* The SELECT at token `select` as one of a fold, which is added to `folds`. Returns the token after it, or 0. */
static size_t fold_core(struct ws_sql *s, const struct ws_sql_token *t, size_t count, size_t select, struct ws_sql_folds *folds,
			struct ws_text *out)
{
	struct core *c = ws_calloc(1, sizeof(*c));
	size_t end = 0, len = out->len;

	*c = (struct core){.s = s, .t = t, .count = count, .f = ws_calloc(1, sizeof(*c->f))};
	c->f->number = folds->n;
	if (read_core(c, select, out) && ws_sql_fold_run(c->f)) {
		folds->fold[folds->n++] = c->f;
		s->counts.folded++;
		end = c->whole.to;
	} else {
		out->len = len;
		if (c->f->t)
			ws_sql_fold_free(c->f);
		else
			free(c->f);
	}
	ws_text_free(&c->conditions);
	free(c);
	return end;
}

char *ws_sql_fold_statement(struct ws_sql *s, const char *sql, const char *end, struct ws_sql_folds *folds)
{
	size_t count, from = 0, next;
	struct ws_sql_token *t = ws_sql_tokens(sql, (size_t)(end - sql), &count);
	struct ws_text out = {0};
	const char *copied = sql;

	folds->n = 0;
	if (!count || (!ws_sql_token_is(&t[0], "SELECT") && !ws_sql_token_is(&t[0], "WITH"))) {
		free(t);
		return NULL;
	}
	for (; from < count && folds->n < WS_COUNT(folds->fold); from = next) {
		size_t len = out.len;

		next = from + 1;
		if (!ws_sql_token_is(&t[from], "SELECT") ||
		    (from && !ws_sql_token_is(&t[from - 1], "(") && !ws_sql_token_is(&t[from - 1], ")")))
			continue;
		ws_text_add(&out, copied, (size_t)(t[from].s - copied));
		next = fold_core(s, t, count, from, folds, &out);
		if (next)
			copied = t[next].s;
		else
			out.len = len;
		next = next ? next : from + 1;
	}
	ws_text_add(&out, copied, (size_t)(end - copied));
	free(t);
	if (folds->n)
		return out.s;
	ws_text_free(&out);
	return NULL;
}

void ws_sql_folds_free(struct ws_sql *s, struct ws_sql_folds *folds)
{
	(void)s;
	for (uint32_t i = 0; i < folds->n; i++)
		ws_sql_fold_free(folds->fold[i]);
	folds->n = 0;
}
