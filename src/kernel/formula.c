/* formula.c - see formula.h: a recursive descent over sums, products and atoms. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/formula.h"

struct parser {
	const char *at;
	ws_metric_getter get;
	void *context;
};

static double parse_sum(struct parser *parser);

static char peek(struct parser *parser)
{
	while (*parser->at == ' ')
		parser->at++;
	return *parser->at;
}

static double parse_name(struct parser *parser)
{
	const char *name = parser->at;

	while (isalnum((unsigned char)*parser->at) || *parser->at == '_' || *parser->at == '.' ||
	       *parser->at == ':')
		parser->at++;
	if (parser->at == name)
		return NAN;
	return parser->get(parser->context, name, (size_t)(parser->at - name));
}

static double parse_atom(struct parser *parser)
{
	double value;
	char *end;

	if (peek(parser) == '(') {
		parser->at++;
		value = parse_sum(parser);
		if (peek(parser) != ')')
			return NAN;
		parser->at++;
		return value;
	}
	if (!isdigit((unsigned char)*parser->at))
		return parse_name(parser);
	value = strtod(parser->at, &end);
	parser->at = end;
	return value;
}

static double parse_product(struct parser *parser)
{
	double value = parse_atom(parser), divisor;

	for (;;)
		switch (peek(parser)) {
		case '*':
			parser->at++;
			value *= parse_atom(parser);
			break;
		case '/':
			parser->at++;
			divisor = parse_atom(parser);
			if (divisor == 0)
				divisor = NAN;
			value /= divisor;
			break;
		default:
			return value;
		}
}

static double parse_sum(struct parser *parser)
{
	double value = parse_product(parser);

	for (;;)
		switch (peek(parser)) {
		case '+':
			parser->at++;
			value += parse_product(parser);
			break;
		case '-':
			parser->at++;
			value -= parse_product(parser);
			break;
		default:
			return value;
		}
}

double ws_evaluate_formula(const char *formula, ws_metric_getter get, void *context)
{
	struct parser parser = {formula, get, context};

	return parse_sum(&parser);
}
