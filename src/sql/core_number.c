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
	struct core *core;
	size_t at, to;
};

static uint16_t binary(struct parse *parse, int least);

static uint16_t node(struct parse *parse, unsigned op, uint16_t a, uint16_t b)
{
	return ws_sql_node(&parse->core->fold->exprs,
			   (struct ws_sql_node){.op = op, .a = a, .b = b});
}

static bool next_is(struct parse *parse, const char *word)
{
	if (parse->at >= parse->to || !is(parse->core, parse->at, word))
		return false;
	parse->at++;
	return true;
}

/* The value is SQLite's reading of it. */
static uint16_t literal(struct parse *parse, bool negative)
{
	const struct ws_sql_token *token = &parse->core->token[parse->at++];
	char *sql = ws_format("SELECT %s%.*s", negative ? "-" : "", (int)token->n, token->text);
	struct ws_sql_node node = {.op = WS_N_INT};
	sqlite3_stmt *st = NULL;
	bool ok = sqlite3_prepare_v2(parse->core->sql->db, sql, -1, &st, NULL) == SQLITE_OK &&
		  sqlite3_step(st) == SQLITE_ROW;

	if (ok && sqlite3_column_type(st, 0) == SQLITE_FLOAT) {
		node.op = WS_N_REAL;
		node.real = true;
		node.r = sqlite3_column_double(st, 0);
	} else if (ok) {
		node.i = sqlite3_column_int64(st, 0);
	}
	sqlite3_finalize(st);
	free(sql);
	return ok ? ws_sql_node(&parse->core->fold->exprs, node) : 0;
}

static bool is_number(const struct core *core, size_t i)
{
	return core->token[i].kind == WS_T_INT || core->token[i].kind == WS_T_REAL;
}

/* CASE [x] WHEN a THEN b ... [ELSE c] END */
static uint16_t cases(struct parse *parse)
{
	uint16_t of = 0, when[12], then[12], result = 0;
	bool simple = !is(parse->core, parse->at, "WHEN");
	size_t n = 0;

	if (simple && !(of = binary(parse, 0)))
		return 0;
	while (next_is(parse, "WHEN")) {
		if (n == WS_COUNT(when) || !(when[n] = binary(parse, 0)) ||
		    !next_is(parse, "THEN") || !(then[n] = binary(parse, 0)))
			return 0;
		if (simple)
			when[n] = node(parse, WS_N_EQ, of, when[n]);
		n++;
	}
	if (next_is(parse, "ELSE") && !next_is(parse, "NULL") && !(result = binary(parse, 0)))
		return 0;
	if (!next_is(parse, "END") || !n)
		return 0;
	while (n--) {
		result = ws_sql_node(&parse->core->fold->exprs, (struct ws_sql_node){.op = WS_N_IF,
										     .a = when[n],
										     .b = then[n],
										     .c = result});
		if (!result)
			return 0;
	}
	return result;
}

static uint16_t cast(struct parse *parse)
{
	static const char *const whole[] = {"INT", "INTEGER", "BIGINT", NULL}, *const reals[] = {
										       "REAL",
										       "FLOAT",
										       "DOUBLE",
										       NULL};
	uint16_t a;
	bool to_real;

	if (!next_is(parse, "(") || !(a = binary(parse, 0)) || !next_is(parse, "AS"))
		return 0;
	to_real = one_of(parse->core, parse->at, reals);
	if (!to_real && !one_of(parse->core, parse->at, whole))
		return 0;
	parse->at++;
	return next_is(parse, ")") ? node(parse, to_real ? WS_N_TO_REAL : WS_N_TO_INT, a, 0) : 0;
}

static uint16_t named(struct parse *parse)
{
	struct ws_sql_atom atom;
	size_t n = ws_core_resolve(parse->core, parse->at, parse->to, &atom);
	const struct item *item;
	struct parse inner;
	uint16_t result;

	if (n) {
		parse->at += n;
		if (atom.what == WS_ATOM_TEXT)
			return 0;
		for (uint32_t k = 0; atom.what == WS_ATOM_ID && k < parse->core->fold->joins; k++)
			if (parse->core->fold->join[k].column == atom.column &&
			    parse->core->fold->join[k].left)
				return 0;
		return ws_sql_node_column(&parse->core->fold->exprs, atom.column);
	}
	item = ws_core_aliased(parse->core, parse->at);
	if (!item || parse->core->depth == DEEPEST)
		return 0;
	parse->at++;
	parse->core->depth++;
	inner = (struct parse){parse->core, item->span.from, item->span.to};
	result = binary(&inner, 0);
	parse->core->depth--;
	return inner.at == inner.to ? result : 0;
}

static uint16_t operand(struct parse *parse)
{
	struct core *core = parse->core;
	uint16_t a;

	if (parse->at >= parse->to)
		return 0;
	if (is_number(core, parse->at))
		return literal(parse, false);
	if (next_is(parse, "(")) {
		a = binary(parse, 0);
		return a && next_is(parse, ")") ? a : 0;
	}
	if (next_is(parse, "+"))
		return operand(parse);
	if (next_is(parse, "-")) {
		if (parse->at < parse->to && is_number(core, parse->at))
			return literal(parse, true);
		a = operand(parse);
		return a ? node(parse, WS_N_SUB,
				ws_sql_node(&core->fold->exprs,
					    (struct ws_sql_node){.op = WS_N_INT}),
				a)
			 : 0;
	}
	if (is(core, parse->at, "CASE") && core->token[parse->at].kind == WS_T_NAME) {
		parse->at++;
		return cases(parse);
	}
	if (next_is(parse, "CAST"))
		return cast(parse);
	return named(parse);
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
static uint16_t between(struct parse *parse, uint16_t x)
{
	uint16_t a = binary(parse, LEVEL_LESS), b;

	if (!a || !next_is(parse, "AND") || !(b = binary(parse, LEVEL_LESS)))
		return 0;
	return node(parse, WS_N_AND, node(parse, WS_N_LE, a, x), node(parse, WS_N_LE, x, b));
}

/* x IN (literals) */
static uint16_t in_list(struct parse *parse, uint16_t x)
{
	uint16_t any = 0, one;

	parse->core->unordered = true; /* SQLite may look for one after the other */
	if (!next_is(parse, "("))
		return 0;
	do {
		bool negative = next_is(parse, "-");

		if (parse->at >= parse->to || !is_number(parse->core, parse->at) ||
		    !(one = node(parse, WS_N_EQ, x, literal(parse, negative))))
			return 0;
		any = any ? node(parse, WS_N_OR, any, one) : one;
		if (!any)
			return 0;
	} while (next_is(parse, ","));
	return next_is(parse, ")") ? any : 0;
}

/* The words after an operand that are no plain operators. *a becomes 0 when they are not
 * understood. False: there are none. */
static bool predicate(struct parse *parse, uint16_t *a)
{
	bool no = false;

	if (next_is(parse, "ISNULL")) {
		*a = node(parse, WS_N_IS_NULL, *a, 0);
		return true;
	}
	if (next_is(parse, "NOTNULL")) {
		*a = node(parse, WS_N_NOT, node(parse, WS_N_IS_NULL, *a, 0), 0);
		return true;
	}
	if (next_is(parse, "IS")) {
		no = next_is(parse, "NOT");
		*a = next_is(parse, "NULL") ? node(parse, WS_N_IS_NULL, *a, 0) : 0;
	} else {
		no = next_is(parse, "NOT");
		if (next_is(parse, "BETWEEN"))
			*a = between(parse, *a);
		else if (next_is(parse, "IN"))
			*a = in_list(parse, *a);
		else if (no && next_is(parse, "NULL")) {
			*a = node(parse, WS_N_IS_NULL, *a, 0);
		} else {
			if (no)
				*a = 0;
			return no;
		}
	}
	if (no && *a)
		*a = node(parse, WS_N_NOT, *a, 0);
	return true;
}

static uint16_t binary(struct parse *parse, int least)
{
	uint16_t a, b;

	if (parse->core->depth == DEEPEST)
		return 0;
	parse->core->depth++;
	if (least <= LEVEL_NOT && next_is(parse, "NOT")) {
		a = binary(parse, LEVEL_NOT);
		a = a ? node(parse, WS_N_NOT, a, 0) : 0;
	} else {
		a = operand(parse);
	}
	while (a && parse->at < parse->to) {
		size_t k = 0;

		if (least <= LEVEL_EQUAL && predicate(parse, &a))
			continue;
		while (k < WS_COUNT(operators) && !is(parse->core, parse->at, operators[k].word))
			k++;
		if (k == WS_COUNT(operators) || operators[k].level < least)
			break;
		parse->at++;
		b = binary(parse, operators[k].level + 1);
		parse->core->unordered |= operators[k].op == WS_N_OR;
		a = !b			? 0
		    : operators[k].swap ? node(parse, operators[k].op, b, a)
					: node(parse, operators[k].op, a, b);
	}
	parse->core->depth--;
	return a;
}

uint16_t ws_core_number(struct core *core, struct span span)
{
	struct parse parse = {core, span.from, span.to};
	uint16_t a = binary(&parse, 0);

	return parse.at == parse.to ? a : 0;
}
