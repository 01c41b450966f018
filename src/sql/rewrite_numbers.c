/*
 * rewrite_numbers.c - parses expressions of numbers in a SELECT into the nodes of expr.h: those
 * that are computed here for each row.
 *
 * Operators have SQLite's precedence: operators of a lower level take those of higher levels as
 * operands. Node 0 means failure: if any part is not understood, the whole expression is 0, and may
 * still be left to SQLite (rewrite_words.c).
 */
#include "sql/rewrite.h"

enum { DEEPEST_NESTING = 24 };

struct expression_parser {
	struct select_parts *select;
	size_t position, end;
};

static uint16_t parse_expression(struct expression_parser *parser, int least);

static uint16_t add_node(struct expression_parser *parser, unsigned op, uint16_t first,
			 uint16_t second)
{
	return ws_sql_add_node(&parser->select->grouping->exprs,
			       (struct ws_sql_node){.op = op, .first = first, .second = second});
}

/* The node, or 0 when the expression is not what was expected. */
static uint16_t require_node(bool expected, uint16_t number)
{
	if (!expected)
		return 0;
	return number;
}

/* Take the token if it is this word. */
static bool take_word(struct expression_parser *parser, const char *word)
{
	if (parser->position >= parser->end || !token_is(parser->select, parser->position, word))
		return false;
	parser->position++;
	return true;
}

/* A literal, whose value SQLite reads. */
static uint16_t parse_literal(struct expression_parser *parser, bool negative)
{
	const struct ws_sql_token *token = &parser->select->tokens[parser->position++];
	static const char *const signs[] = {"", "-"};
	char *sql = ws_format("SELECT %s%.*s", signs[negative], (int)token->length, token->text);
	struct ws_sql_node node = {.op = WS_N_INT};
	sqlite3_stmt *statement = NULL;
	bool found = sqlite3_prepare_v2(parser->select->sql->db, sql, -1, &statement, NULL) ==
			     SQLITE_OK &&
		     sqlite3_step(statement) == SQLITE_ROW;

	if (found && sqlite3_column_type(statement, 0) == SQLITE_FLOAT) {
		node.op = WS_N_REAL;
		node.real = true;
		node.r = sqlite3_column_double(statement, 0);
	} else if (found) {
		node.i = sqlite3_column_int64(statement, 0);
	}
	sqlite3_finalize(statement);
	free(sql);
	if (!found)
		return 0;
	return ws_sql_add_node(&parser->select->grouping->exprs, node);
}

static bool is_number_token(const struct select_parts *select, size_t position)
{
	return select->tokens[position].kind == WS_TOKEN_INT ||
	       select->tokens[position].kind == WS_TOKEN_REAL;
}

/* CASE [x] WHEN a THEN b ... [ELSE c] END */
static uint16_t parse_case(struct expression_parser *parser)
{
	uint16_t compared = 0, when[12], then[12], result = 0;
	bool simple = !token_is(parser->select, parser->position, "WHEN");
	size_t count = 0;

	if (simple && !(compared = parse_expression(parser, 0)))
		return 0;
	while (take_word(parser, "WHEN")) {
		if (count == WS_COUNT(when) || !(when[count] = parse_expression(parser, 0)) ||
		    !take_word(parser, "THEN") || !(then[count] = parse_expression(parser, 0)))
			return 0;
		if (simple)
			when[count] = add_node(parser, WS_N_EQ, compared, when[count]);
		count++;
	}
	if (take_word(parser, "ELSE") && !take_word(parser, "NULL") &&
	    !(result = parse_expression(parser, 0)))
		return 0;
	if (!take_word(parser, "END") || !count)
		return 0;
	while (count--) {
		result = ws_sql_add_node(&parser->select->grouping->exprs,
					 (struct ws_sql_node){.op = WS_N_IF,
							      .first = when[count],
							      .second = then[count],
							      .third = result});
		if (!result)
			return 0;
	}
	return result;
}

static uint16_t parse_cast(struct expression_parser *parser)
{
	static const char *const whole[] = {"INT", "INTEGER", "BIGINT", NULL};
	static const char *const reals[] = {"REAL", "FLOAT", "DOUBLE", NULL};
	uint16_t value;
	bool to_real;

	if (!take_word(parser, "(") || !(value = parse_expression(parser, 0)) ||
	    !take_word(parser, "AS"))
		return 0;
	to_real = token_is_one_of(parser->select, parser->position, reals);
	if (!to_real && !token_is_one_of(parser->select, parser->position, whole))
		return 0;
	parser->position++;
	if (!take_word(parser, ")"))
		return 0;
	if (to_real)
		return add_node(parser, WS_N_TO_REAL, value, 0);
	return add_node(parser, WS_N_TO_INT, value, 0);
}

static uint16_t parse_name(struct expression_parser *parser)
{
	struct ws_sql_field field;
	size_t length =
		ws_rewrite_resolve_name(parser->select, parser->position, parser->end, &field);
	const struct select_item *item;
	struct expression_parser inner;
	uint16_t result;

	if (length) {
		parser->position += length;
		if (field.kind == WS_FIELD_TEXT)
			return 0;
		for (uint32_t join = 0;
		     field.kind == WS_FIELD_ID && join < parser->select->grouping->join_count;
		     join++)
			if (parser->select->grouping->joins[join].column == field.column &&
			    parser->select->grouping->joins[join].left)
				return 0;
		return ws_sql_add_column_node(&parser->select->grouping->exprs, field.column);
	}
	item = ws_rewrite_find_aliased_item(parser->select, parser->position);
	if (!item || parser->select->depth == DEEPEST_NESTING)
		return 0;
	parser->position++;
	parser->select->depth++;
	inner = (struct expression_parser){parser->select, item->span.from, item->span.to};
	result = parse_expression(&inner, 0);
	parser->select->depth--;
	return require_node(inner.position == inner.end, result);
}

static uint16_t parse_operand(struct expression_parser *parser)
{
	struct select_parts *select = parser->select;
	uint16_t value;

	if (parser->position >= parser->end)
		return 0;
	if (is_number_token(select, parser->position))
		return parse_literal(parser, false);
	if (take_word(parser, "(")) {
		value = parse_expression(parser, 0);
		return require_node(value && take_word(parser, ")"), value);
	}
	if (take_word(parser, "+"))
		return parse_operand(parser);
	if (take_word(parser, "-")) {
		if (parser->position < parser->end && is_number_token(select, parser->position))
			return parse_literal(parser, true);
		value = parse_operand(parser);
		if (!value)
			return 0;
		return add_node(parser, WS_N_SUB,
				ws_sql_add_node(&select->grouping->exprs,
						(struct ws_sql_node){.op = WS_N_INT}),
				value);
	}
	if (token_is(select, parser->position, "CASE") &&
	    select->tokens[parser->position].kind == WS_TOKEN_NAME) {
		parser->position++;
		return parse_case(parser);
	}
	if (take_word(parser, "CAST"))
		return parse_cast(parser);
	return parse_name(parser);
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
static uint16_t parse_between(struct expression_parser *parser, uint16_t value)
{
	uint16_t low = parse_expression(parser, LEVEL_LESS), high;

	if (!low || !take_word(parser, "AND") || !(high = parse_expression(parser, LEVEL_LESS)))
		return 0;
	return add_node(parser, WS_N_AND, add_node(parser, WS_N_LE, low, value),
			add_node(parser, WS_N_LE, value, high));
}

/* x IN (literals) */
static uint16_t parse_in_list(struct expression_parser *parser, uint16_t value)
{
	uint16_t any = 0, equal;

	parser->select->unordered = true; /* SQLite may look the values up one after another */
	if (!take_word(parser, "("))
		return 0;
	do {
		bool negative = take_word(parser, "-");

		if (parser->position >= parser->end ||
		    !is_number_token(parser->select, parser->position) ||
		    !(equal = add_node(parser, WS_N_EQ, value, parse_literal(parser, negative))))
			return 0;
		if (any)
			equal = add_node(parser, WS_N_OR, any, equal);
		any = equal;
		if (!any)
			return 0;
	} while (take_word(parser, ","));
	return require_node(take_word(parser, ")"), any);
}

/* Parse the words after an operand that are not plain operators. *value becomes 0 when they are not
 * understood. False when there are none. */
static bool parse_predicate(struct expression_parser *parser, uint16_t *value)
{
	bool negated = false;

	if (take_word(parser, "ISNULL")) {
		*value = add_node(parser, WS_N_IS_NULL, *value, 0);
		return true;
	}
	if (take_word(parser, "NOTNULL")) {
		*value = add_node(parser, WS_N_NOT, add_node(parser, WS_N_IS_NULL, *value, 0), 0);
		return true;
	}
	if (take_word(parser, "IS")) {
		negated = take_word(parser, "NOT");
		if (take_word(parser, "NULL"))
			*value = add_node(parser, WS_N_IS_NULL, *value, 0);
		else
			*value = 0;
	} else {
		negated = take_word(parser, "NOT");
		if (take_word(parser, "BETWEEN"))
			*value = parse_between(parser, *value);
		else if (take_word(parser, "IN"))
			*value = parse_in_list(parser, *value);
		else if (negated && take_word(parser, "NULL")) {
			*value = add_node(parser, WS_N_IS_NULL, *value, 0);
		} else {
			if (negated)
				*value = 0;
			return negated;
		}
	}
	if (negated && *value)
		*value = add_node(parser, WS_N_NOT, *value, 0);
	return true;
}

static uint16_t parse_expression(struct expression_parser *parser, int least)
{
	uint16_t left, right;

	if (parser->select->depth == DEEPEST_NESTING)
		return 0;
	parser->select->depth++;
	if (least <= LEVEL_NOT && take_word(parser, "NOT")) {
		left = parse_expression(parser, LEVEL_NOT);
		if (left)
			left = add_node(parser, WS_N_NOT, left, 0);
	} else {
		left = parse_operand(parser);
	}
	while (left && parser->position < parser->end) {
		size_t index = 0;

		if (least <= LEVEL_EQUAL && parse_predicate(parser, &left))
			continue;
		while (index < WS_COUNT(operators) &&
		       !token_is(parser->select, parser->position, operators[index].word))
			index++;
		if (index == WS_COUNT(operators) || operators[index].level < least)
			break;
		parser->position++;
		right = parse_expression(parser, operators[index].level + 1);
		parser->select->unordered |= operators[index].op == WS_N_OR;
		if (!right)
			left = 0;
		else if (operators[index].swap)
			left = add_node(parser, operators[index].op, right, left);
		else
			left = add_node(parser, operators[index].op, left, right);
	}
	parser->select->depth--;
	return left;
}

uint16_t ws_rewrite_parse_number(struct select_parts *select, struct token_span span)
{
	struct expression_parser parser = {select, span.from, span.to};
	uint16_t node = parse_expression(&parser, 0);

	return require_node(parser.position == parser.end, node);
}
