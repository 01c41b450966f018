/*
 * rewrite_words.c - rewrites expressions of a SELECT, word by word, into expressions on the table
 * of groups.
 *
 * Aggregates, columns and what is grouped by become columns of that table; functions and operators
 * whose values depend on nothing but their operands stay as they are. Only known sequences of
 * operands and operators are accepted, so a word that would change its meaning here (a sub-query, a
 * parameter, a function with side effects) ends the rewriting.
 */
#include "sql/rewrite.h"

static const char *const pure_functions[] = {"abs",    "coalesce",  "format", "hex",	"ifnull",
					     "iif",    "instr",	    "length", "like",	"lower",
					     "ltrim",  "max",	    "min",    "nullif", "printf",
					     "quote",  "replace",   "round",  "rtrim",	"sign",
					     "substr", "substring", "trim",   "typeof", "unicode",
					     "upper",  "glob",	    NULL};
static const char *const aggregates[] = {"count", "sum", "avg", "total", "min", "max", NULL};
static const char *const between_operands[] = {"AND", "OR",   "IS",   "LIKE", "GLOB",	"BETWEEN",
					       "IN",  "WHEN", "THEN", "ELSE", "ESCAPE", NULL};
static const char *const cast_types[] = {"INT",	  "INTEGER", "BIGINT", "REAL",
					 "FLOAT", "DOUBLE",  "TEXT",   NULL};

static bool are_same_tokens(const struct select_parts *select, size_t first, size_t second,
			    size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!ws_sql_are_same_tokens(&select->tokens[first + i],
					    &select->tokens[second + i]))
			return false;
	return true;
}

bool ws_rewrite_expression_goes_on(const struct select_parts *select, size_t position)
{
	return token_is_one_of(select, position, between_operands);
}

static size_t find_closing(const struct select_parts *select, size_t open, size_t to)
{
	int depth = 0;

	for (size_t position = open; position < to; position++) {
		depth += nesting_change(select, position);
		if (!depth)
			return position;
	}
	return to;
}

static int number_argument(struct ws_sql_grouping *grouping, uint16_t node)
{
	for (uint32_t i = 0; i < grouping->argument_count; i++)
		if (grouping->arguments[i] == node)
			return (int)i;
	if (grouping->argument_count == WS_SQL_ARGUMENTS || !node)
		return -1;
	grouping->arguments[grouping->argument_count] = node;
	return (int)grouping->argument_count++;
}

static bool write_aggregate_column(struct expression_writer *writer,
				   struct ws_sql_aggregate aggregate)
{
	struct ws_sql_grouping *grouping = writer->select->grouping;
	uint32_t i = 0;

	while (i < grouping->aggregate_count &&
	       (grouping->aggregates[i].kind != aggregate.kind ||
		grouping->aggregates[i].argument != aggregate.argument))
		i++;
	if (i == WS_SQL_AGGREGATES)
		return false;
	if (i == grouping->aggregate_count)
		grouping->aggregates[grouping->aggregate_count++] = aggregate;
	ws_text_printf(writer->out, "(+\"ws$f%u\") ", i);
	return true;
}

/* Write the aggregate whose arguments are the tokens of `span`; false when it is not one of ours.
 */
static bool write_aggregate_call(struct expression_writer *writer, unsigned kind,
				 struct token_span span)
{
	struct select_parts *select = writer->select;
	int argument;

	if (!writer->aggregates || token_is(select, span.to + 1, "FILTER") ||
	    token_is(select, span.to + 1, "OVER"))
		return false;
	if (kind == WS_AGGREGATE_COUNT &&
	    (span.to == span.from ||
	     (span.to == span.from + 1 && token_is(select, span.from, "*"))))
		return write_aggregate_column(writer,
					      (struct ws_sql_aggregate){WS_AGGREGATE_ROWS, 0});
	argument = number_argument(select->grouping, ws_rewrite_parse_number(select, span));
	return argument >= 0 &&
	       write_aggregate_column(writer, (struct ws_sql_aggregate){kind, (uint8_t)argument});
}

static bool has_comma(const struct select_parts *select, struct token_span span)
{
	int depth = 0;

	for (size_t position = span.from; position < span.to; position++) {
		if (!depth && token_is(select, position, ","))
			return true;
		depth += nesting_change(select, position);
	}
	return false;
}

/* Write an aggregate at `*position`, with the parentheses after it. 1, 0 when it is none, -1 when
 * it is not one of ours. */
static int write_aggregate(struct expression_writer *writer, size_t *position)
{
	static const unsigned kinds[] = {WS_AGGREGATE_COUNT, WS_AGGREGATE_SUM, WS_AGGREGATE_AVG,
					 WS_AGGREGATE_TOTAL, WS_AGGREGATE_MIN, WS_AGGREGATE_MAX};
	struct select_parts *select = writer->select;
	size_t end = find_closing(select, *position + 1, writer->span.to), kind = 0;
	struct token_span arguments = {*position + 2, end};

	while (aggregates[kind] && !token_is(select, *position, aggregates[kind]))
		kind++;
	if (!aggregates[kind] || end >= writer->span.to)
		return 0;
	if (kinds[kind] >= WS_AGGREGATE_MIN && has_comma(select, arguments))
		return 0; /* the function of several arguments */
	if (!write_aggregate_call(writer, kinds[kind], arguments))
		return -1;
	*position = end + 1;
	return 1;
}

/* Write a term of GROUP BY, other than a column, that stands by itself at `position`. Returns its
 * length in tokens, 0 when there is none. */
static size_t write_group_term(struct expression_writer *writer, size_t position)
{
	struct select_parts *select = writer->select;

	if (!writer->aggregates ||
	    (position > writer->span.from && !token_is(select, position - 1, "(") &&
	     !token_is(select, position - 1, ",")))
		return 0;
	for (uint32_t term = 0; term < select->grouping->term_count; term++) {
		size_t length = select->group_terms[term].to - select->group_terms[term].from,
		       end = position + length;

		if (select->grouping->terms[term].how == WS_BY_FIELD || end > writer->span.to ||
		    !are_same_tokens(select, position, select->group_terms[term].from, length))
			continue;
		if (end < writer->span.to && !token_is(select, end, ")") &&
		    !token_is(select, end, ","))
			continue;
		ws_text_printf(writer->out, "(+\"ws$g%u\") ", term);
		return length;
	}
	return 0;
}

void ws_rewrite_put_token(struct expression_writer *writer, size_t position, bool operand)
{
	ws_text_add(writer->out, writer->select->tokens[position].text,
		    writer->select->tokens[position].length);
	ws_text_puts(writer->out, " ");
	writer->operand = operand;
}

/* Write a name where an operand is expected. */
static bool write_name(struct expression_writer *writer, size_t *position)
{
	struct select_parts *select = writer->select;
	struct ws_sql_field field;
	size_t length = ws_rewrite_resolve_name(select, *position, writer->span.to, &field);
	int number;

	if (length) {
		if (writer->aggregates && !ws_rewrite_is_determined(select, &field))
			return false;
		number = ws_rewrite_add_field(select, &field);
		if (number < 0)
			return false;
		ws_text_printf(writer->out, "\"ws$a%d\" ", number);
		writer->operand = true;
		*position += length;
		return true;
	}
	if (token_is(select, *position + 1, "(") &&
	    token_is_one_of(select, *position, pure_functions)) {
		ws_rewrite_put_token(writer, (*position)++, false);
		return true;
	}
	if (!writer->aliases || token_is(select, *position + 1, "(") ||
	    token_is(select, *position + 1, ".") ||
	    !ws_rewrite_find_aliased_item(select, *position))
		return false;
	ws_rewrite_put_token(writer, (*position)++, true);
	return true;
}

static bool write_operand(struct expression_writer *writer, size_t *position, int *cases_open)
{
	struct select_parts *select = writer->select;
	int rc;

	if (select->tokens[*position].kind == WS_TOKEN_INT ||
	    select->tokens[*position].kind == WS_TOKEN_REAL ||
	    select->tokens[*position].kind == WS_TOKEN_STRING ||
	    token_is(select, *position, "NULL")) {
		ws_rewrite_put_token(writer, (*position)++, true);
		return true;
	}
	if (token_is(select, *position, "(") || token_is(select, *position, "-") ||
	    token_is(select, *position, "+") || token_is(select, *position, "NOT")) {
		ws_rewrite_put_token(writer, (*position)++, false);
		return true;
	}
	if (token_is(select, *position, "CASE")) {
		++*cases_open;
		ws_rewrite_put_token(writer, (*position)++, false);
		return true;
	}
	if (token_is(select, *position, "WHEN") && *position &&
	    token_is(select, *position - 1, "CASE")) {
		ws_rewrite_put_token(writer, (*position)++, false);
		return true;
	}
	if (token_is(select, *position, "CAST") && token_is(select, *position + 1, "(")) {
		ws_rewrite_put_token(writer, (*position)++, false);
		return true;
	}
	if (token_is(select, *position + 1, "(")) {
		rc = write_aggregate(writer, position);
		writer->operand = rc > 0;
		if (rc)
			return rc > 0;
	}
	return token_is_name(select, *position) && write_name(writer, position);
}

static bool write_operator(struct expression_writer *writer, size_t *position, int *cases_open)
{
	static const char *const signs[] = {"+",  "-",	"*",  "/",  "%",  "<",	">",
					    "<=", ">=", "=",  "==", "!=", "<>", "||",
					    "&",  "|",	"<<", ">>", ",",  NULL};
	struct select_parts *select = writer->select;

	if (token_is(select, *position, ")") || token_is(select, *position, "ISNULL") ||
	    token_is(select, *position, "NOTNULL")) {
		ws_rewrite_put_token(writer, (*position)++, true);
	} else if (token_is(select, *position, "END") && *cases_open) {
		--*cases_open;
		ws_rewrite_put_token(writer, (*position)++, true);
	} else if (token_is(select, *position, "AS") &&
		   token_is_one_of(select, *position + 1, cast_types)) { /* of a CAST */
		ws_rewrite_put_token(writer, (*position)++, false);
		ws_rewrite_put_token(writer, (*position)++, true);
	} else if (token_is_one_of(select, *position, signs) ||
		   ws_rewrite_expression_goes_on(select, *position) ||
		   token_is(select, *position, "NOT")) {
		ws_rewrite_put_token(writer, (*position)++, false);
	} else {
		return false;
	}
	return true;
}

bool ws_rewrite_put_expression(struct expression_writer *writer)
{
	int cases_open = 0;

	writer->operand = false;
	for (size_t position = writer->span.from; position < writer->span.to;) {
		size_t grouped = 0;
		bool understood;

		if (writer->operand) {
			understood = write_operator(writer, &position, &cases_open);
		} else {
			grouped = write_group_term(writer, position);
			position += grouped;
			writer->operand = grouped > 0;
			understood = grouped || write_operand(writer, &position, &cases_open);
		}
		if (!understood)
			return false;
	}
	return writer->operand && !cases_open;
}
