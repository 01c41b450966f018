/*
 * core_number.c - expressions of numbers in a SELECT, read into the nodes of expr.h: those that are
 * computed here for each row.
 *
 * By precedence, as SQLite reads them: operators of a lower level take those of higher levels as
 * operands. 0 is the node that could not be made: what is not understood here makes the whole
 * expression 0, and the words of it may still be SQLite's (core_words.c).
 */
#include "sql/core.h"

enum { DEEPEST = 24 };

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
	bool ok = sqlite3_prepare_v2(p->c->s->db, sql, -1, &st, NULL) == SQLITE_OK &&
		  sqlite3_step(st) == SQLITE_ROW;

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
		if (n == WS_COUNT(when) || !(when[n] = binary(p, 0)) || !next_is(p, "THEN") ||
		    !(then[n] = binary(p, 0)))
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
		result = ws_sql_node(&p->c->f->x, (struct ws_sql_node){.op = WS_N_IF,
								       .a = when[n],
								       .b = then[n],
								       .c = result});
		if (!result)
			return 0;
	}
	return result;
}

static uint16_t cast(struct parse *p)
{
	static const char *const whole[] = {"INT", "INTEGER", "BIGINT", NULL}, *const reals[] = {
										       "REAL",
										       "FLOAT",
										       "DOUBLE",
										       NULL};
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
	size_t n = ws_core_resolve(p->c, p->at, p->to, &a);
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
	item = ws_core_aliased(p->c, p->at);
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
		return a ? node(p, WS_N_SUB,
				ws_sql_node(&c->f->x, (struct ws_sql_node){.op = WS_N_INT}), a)
			 : 0;
	}
	if (is(c, p->at, "CASE") && c->t[p->at].kind == WS_T_NAME) {
		p->at++;
		return cases(p);
	}
	if (next_is(p, "CAST"))
		return cast(p);
	return named(p);
}

enum {
	LEVEL_OR,
	LEVEL_AND,
	LEVEL_NOT,
	LEVEL_EQUAL,
	LEVEL_LESS,
	LEVEL_BITS,
	LEVEL_SUM,
	LEVEL_PRODUCT,
	LEVEL_OPERAND
};

static const struct {
	const char *word;
	int level;
	unsigned op;
	bool swap; /* > and >= */
} operators[] = {
	{"OR", LEVEL_OR, WS_N_OR, false},	 {"AND", LEVEL_AND, WS_N_AND, false},
	{"=", LEVEL_EQUAL, WS_N_EQ, false},	 {"==", LEVEL_EQUAL, WS_N_EQ, false},
	{"!=", LEVEL_EQUAL, WS_N_NE, false},	 {"<>", LEVEL_EQUAL, WS_N_NE, false},
	{"<", LEVEL_LESS, WS_N_LT, false},	 {"<=", LEVEL_LESS, WS_N_LE, false},
	{">", LEVEL_LESS, WS_N_LT, true},	 {">=", LEVEL_LESS, WS_N_LE, true},
	{"&", LEVEL_BITS, WS_N_AND_BITS, false}, {"|", LEVEL_BITS, WS_N_OR_BITS, false},
	{"<<", LEVEL_BITS, WS_N_SHL, false},	 {">>", LEVEL_BITS, WS_N_SHR, false},
	{"+", LEVEL_SUM, WS_N_ADD, false},	 {"-", LEVEL_SUM, WS_N_SUB, false},
	{"*", LEVEL_PRODUCT, WS_N_MUL, false},	 {"/", LEVEL_PRODUCT, WS_N_DIV, false},
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

		if (p->at >= p->to || !is_number(p->c, p->at) ||
		    !(one = node(p, WS_N_EQ, x, literal(p, negative))))
			return 0;
		any = any ? node(p, WS_N_OR, any, one) : one;
		if (!any)
			return 0;
	} while (next_is(p, ","));
	return next_is(p, ")") ? any : 0;
}

/* The words after an operand that are no plain operators. *a becomes 0 when they are not
 * understood. False: there are none. */
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
		a = !b			? 0
		    : operators[k].swap ? node(p, operators[k].op, b, a)
					: node(p, operators[k].op, a, b);
	}
	p->c->depth--;
	return a;
}

uint16_t ws_core_number(struct core *c, struct span s)
{
	struct parse p = {c, s.from, s.to};
	uint16_t a = binary(&p, 0);

	return p.at == p.to ? a : 0;
}
