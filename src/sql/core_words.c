/*
 * core_words.c - writing expressions of a SELECT anew, word by word, so that they are of the table
 * of groups.
 *
 * Aggregates, columns and what is grouped by become columns of that table; functions and operators
 * whose values depend on nothing but their operands stay as they are. Only a known order of
 * operands and operators passes, so that a word which would mean something else here (a sub-query,
 * a parameter, a function with side effects) stops it.
 */
#include "sql/core.h"

static const char *const functions[] = {"abs",	  "coalesce",  "format", "hex",	   "ifnull",
					"iif",	  "instr",     "length", "like",   "lower",
					"ltrim",  "max",       "min",	 "nullif", "printf",
					"quote",  "replace",   "round",	 "rtrim",  "sign",
					"substr", "substring", "trim",	 "typeof", "unicode",
					"upper",  "glob",      NULL};
static const char *const figures[] = {"count", "sum", "avg", "total", "min", "max", NULL};
static const char *const between_operands[] = {"AND", "OR",   "IS",   "LIKE", "GLOB",	"BETWEEN",
					       "IN",  "WHEN", "THEN", "ELSE", "ESCAPE", NULL};
static const char *const types[] = {"INT",   "INTEGER", "BIGINT", "REAL",
				    "FLOAT", "DOUBLE",	"TEXT",	  NULL};

static bool same_tokens(const struct core *core, size_t a, size_t b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!ws_sql_token_same(&core->token[a + i], &core->token[b + i]))
			return false;
	return true;
}

bool ws_core_goes_on(const struct core *core, size_t i)
{
	return one_of(core, i, between_operands);
}

static size_t closing(const struct core *core, size_t open, size_t to)
{
	int depth = 0;

	for (size_t i = open; i < to; i++) {
		depth += depth_change(core, i);
		if (!depth)
			return i;
	}
	return to;
}

static int number_of_arg(struct ws_sql_fold *fold, uint16_t n)
{
	for (uint32_t i = 0; i < fold->args; i++)
		if (fold->arg[i] == n)
			return (int)i;
	if (fold->args == WS_SQL_ARGS || !n)
		return -1;
	fold->arg[fold->args] = n;
	return (int)fold->args++;
}

static bool put_figure_of(struct put *put, struct ws_sql_figure figure)
{
	struct ws_sql_fold *fold = put->core->fold;
	uint32_t i = 0;

	while (i < fold->figures &&
	       (fold->figure[i].what != figure.what || fold->figure[i].arg != figure.arg))
		i++;
	if (i == WS_SQL_FIGURES)
		return false;
	if (i == fold->figures)
		fold->figure[fold->figures++] = figure;
	ws_text_printf(put->out, "(+\"ws$f%u\") ", i);
	return true;
}

/* An aggregate at `i`, with the parenthesis after it. 1, 0 when it is none, -1 when it is not one
 * of ours. */
static int put_figure(struct put *put, size_t *i)
{
	static const unsigned what[] = {WS_F_COUNT, WS_F_SUM, WS_F_AVG,
					WS_F_TOTAL, WS_F_MIN, WS_F_MAX};
	struct core *core = put->core;
	size_t end = closing(core, *i + 1, put->span.to), k = 0;
	int depth = 0, arg;

	while (figures[k] && !is(core, *i, figures[k]))
		k++;
	if (!figures[k] || end >= put->span.to)
		return 0;
	for (size_t n = *i + 2; n < end; n++) {
		if (what[k] >= WS_F_MIN && !depth && is(core, n, ","))
			return 0; /* the function of several arguments */
		depth += depth_change(core, n);
	}
	if (!put->aggregates || is(core, end + 1, "FILTER") || is(core, end + 1, "OVER"))
		return -1;
	if (what[k] == WS_F_COUNT && (end == *i + 2 || (end == *i + 3 && is(core, *i + 2, "*")))) {
		*i = end + 1;
		return put_figure_of(put, (struct ws_sql_figure){WS_F_ROWS, 0}) ? 1 : -1;
	}
	arg = number_of_arg(core->fold, ws_core_number(core, (struct span){*i + 2, end}));
	*i = end + 1;
	return arg >= 0 && put_figure_of(put, (struct ws_sql_figure){what[k], (uint8_t)arg}) ? 1
											     : -1;
}

/* Something that is grouped by, other than a column, standing by itself at `i`: its length in
 * tokens. */
static size_t put_grouped(struct put *put, size_t i)
{
	struct core *core = put->core;

	if (!put->aggregates ||
	    (i > put->span.from && !is(core, i - 1, "(") && !is(core, i - 1, ",")))
		return 0;
	for (uint32_t k = 0; k < core->fold->bys; k++) {
		size_t n = core->by[k].to - core->by[k].from, end = i + n;

		if (core->fold->by[k].how == WS_BY_ATOM || end > put->span.to ||
		    !same_tokens(core, i, core->by[k].from, n))
			continue;
		if (end < put->span.to && !is(core, end, ")") && !is(core, end, ","))
			continue;
		ws_text_printf(put->out, "(+\"ws$g%u\") ", k);
		return n;
	}
	return 0;
}

void ws_core_put_token(struct put *put, size_t i, bool operand)
{
	ws_text_add(put->out, put->core->token[i].text, put->core->token[i].n);
	ws_text_puts(put->out, " ");
	put->operand = operand;
}

/* A name where an operand is due. */
static bool put_named(struct put *put, size_t *i)
{
	struct core *core = put->core;
	struct ws_sql_atom atom;
	size_t n = ws_core_resolve(core, *i, put->span.to, &atom);
	int number;

	if (n) {
		if (put->aggregates && !ws_core_determined(core, &atom))
			return false;
		number = ws_core_atom(core, &atom);
		if (number < 0)
			return false;
		ws_text_printf(put->out, "\"ws$a%d\" ", number);
		put->operand = true;
		*i += n;
		return true;
	}
	if (is(core, *i + 1, "(") && one_of(core, *i, functions)) {
		ws_core_put_token(put, (*i)++, false);
		return true;
	}
	if (!put->aliases || is(core, *i + 1, "(") || is(core, *i + 1, ".") ||
	    !ws_core_aliased(core, *i))
		return false;
	ws_core_put_token(put, (*i)++, true);
	return true;
}

static bool put_at_operand(struct put *put, size_t *i, int *cases_open)
{
	struct core *core = put->core;
	int rc;

	if (core->token[*i].kind == WS_T_INT || core->token[*i].kind == WS_T_REAL ||
	    core->token[*i].kind == WS_T_STRING || is(core, *i, "NULL")) {
		ws_core_put_token(put, (*i)++, true);
		return true;
	}
	if (is(core, *i, "(") || is(core, *i, "-") || is(core, *i, "+") || is(core, *i, "NOT")) {
		ws_core_put_token(put, (*i)++, false);
		return true;
	}
	if (is(core, *i, "CASE")) {
		++*cases_open;
		ws_core_put_token(put, (*i)++, false);
		return true;
	}
	if (is(core, *i, "WHEN") && *i && is(core, *i - 1, "CASE")) {
		ws_core_put_token(put, (*i)++, false);
		return true;
	}
	if (is(core, *i, "CAST") && is(core, *i + 1, "(")) {
		ws_core_put_token(put, (*i)++, false);
		return true;
	}
	if (is(core, *i + 1, "(")) {
		rc = put_figure(put, i);
		put->operand = rc > 0;
		if (rc)
			return rc > 0;
	}
	return is_name(core, *i) && put_named(put, i);
}

static bool put_after_operand(struct put *put, size_t *i, int *cases_open)
{
	static const char *const signs[] = {"+",  "-",	"*",  "/",  "%",  "<",	">",
					    "<=", ">=", "=",  "==", "!=", "<>", "||",
					    "&",  "|",	"<<", ">>", ",",  NULL};
	struct core *core = put->core;

	if (is(core, *i, ")") || is(core, *i, "ISNULL") || is(core, *i, "NOTNULL")) {
		ws_core_put_token(put, (*i)++, true);
	} else if (is(core, *i, "END") && *cases_open) {
		--*cases_open;
		ws_core_put_token(put, (*i)++, true);
	} else if (is(core, *i, "AS") && one_of(core, *i + 1, types)) { /* of a CAST */
		ws_core_put_token(put, (*i)++, false);
		ws_core_put_token(put, (*i)++, true);
	} else if (one_of(core, *i, signs) || ws_core_goes_on(core, *i) || is(core, *i, "NOT")) {
		ws_core_put_token(put, (*i)++, false);
	} else {
		return false;
	}
	return true;
}

bool ws_core_put(struct put *put)
{
	int cases_open = 0;

	put->operand = false;
	for (size_t i = put->span.from; i < put->span.to;) {
		size_t n = put->operand ? 0 : put_grouped(put, i);

		if (n) {
			i += n;
			put->operand = true;
			continue;
		}
		if (!(put->operand ? put_after_operand(put, &i, &cases_open)
				   : put_at_operand(put, &i, &cases_open)))
			return false;
	}
	return put->operand && !cases_open;
}
