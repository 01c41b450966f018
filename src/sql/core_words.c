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

static bool same_tokens(const struct core *c, size_t a, size_t b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!ws_sql_token_same(&c->t[a + i], &c->t[b + i]))
			return false;
	return true;
}

bool ws_core_goes_on(const struct core *c, size_t i)
{
	return one_of(c, i, between_operands);
}

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

/* An aggregate at `i`, with the parenthesis after it. 1, 0 when it is none, -1 when it is not one
 * of ours. */
static int put_figure(struct put *p, size_t *i)
{
	static const unsigned what[] = {WS_F_COUNT, WS_F_SUM, WS_F_AVG,
					WS_F_TOTAL, WS_F_MIN, WS_F_MAX};
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
	arg = number_of_arg(c->f, ws_core_number(c, (struct span){*i + 2, end}));
	*i = end + 1;
	return arg >= 0 && put_figure_of(p, (struct ws_sql_figure){what[k], (uint8_t)arg}) ? 1 : -1;
}

/* Something that is grouped by, other than a column, standing by itself at `i`: its length in
 * tokens. */
static size_t put_grouped(struct put *p, size_t i)
{
	struct core *c = p->c;

	if (!p->aggregates || (i > p->s.from && !is(c, i - 1, "(") && !is(c, i - 1, ",")))
		return 0;
	for (uint32_t k = 0; k < c->f->bys; k++) {
		size_t n = c->by[k].to - c->by[k].from, end = i + n;

		if (c->f->by[k].how == WS_BY_ATOM || end > p->s.to ||
		    !same_tokens(c, i, c->by[k].from, n))
			continue;
		if (end < p->s.to && !is(c, end, ")") && !is(c, end, ","))
			continue;
		ws_text_printf(p->out, "(+\"ws$g%u\") ", k);
		return n;
	}
	return 0;
}

void ws_core_put_token(struct put *p, size_t i, bool operand)
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
	size_t n = ws_core_resolve(c, *i, p->s.to, &a);
	int number;

	if (n) {
		if (p->aggregates && !ws_core_determined(c, &a))
			return false;
		number = ws_core_atom(c, &a);
		if (number < 0)
			return false;
		ws_text_printf(p->out, "\"ws$a%d\" ", number);
		p->operand = true;
		*i += n;
		return true;
	}
	if (is(c, *i + 1, "(") && one_of(c, *i, functions)) {
		ws_core_put_token(p, (*i)++, false);
		return true;
	}
	if (!p->aliases || is(c, *i + 1, "(") || is(c, *i + 1, ".") || !ws_core_aliased(c, *i))
		return false;
	ws_core_put_token(p, (*i)++, true);
	return true;
}

static bool put_at_operand(struct put *p, size_t *i, int *cases_open)
{
	struct core *c = p->c;
	int rc;

	if (c->t[*i].kind == WS_T_INT || c->t[*i].kind == WS_T_REAL ||
	    c->t[*i].kind == WS_T_STRING || is(c, *i, "NULL")) {
		ws_core_put_token(p, (*i)++, true);
		return true;
	}
	if (is(c, *i, "(") || is(c, *i, "-") || is(c, *i, "+") || is(c, *i, "NOT")) {
		ws_core_put_token(p, (*i)++, false);
		return true;
	}
	if (is(c, *i, "CASE")) {
		++*cases_open;
		ws_core_put_token(p, (*i)++, false);
		return true;
	}
	if (is(c, *i, "WHEN") && *i && is(c, *i - 1, "CASE")) {
		ws_core_put_token(p, (*i)++, false);
		return true;
	}
	if (is(c, *i, "CAST") && is(c, *i + 1, "(")) {
		ws_core_put_token(p, (*i)++, false);
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
	static const char *const signs[] = {"+",  "-",	"*",  "/",  "%",  "<",	">",
					    "<=", ">=", "=",  "==", "!=", "<>", "||",
					    "&",  "|",	"<<", ">>", ",",  NULL};
	struct core *c = p->c;

	if (is(c, *i, ")") || is(c, *i, "ISNULL") || is(c, *i, "NOTNULL")) {
		ws_core_put_token(p, (*i)++, true);
	} else if (is(c, *i, "END") && *cases_open) {
		--*cases_open;
		ws_core_put_token(p, (*i)++, true);
	} else if (is(c, *i, "AS") && one_of(c, *i + 1, types)) { /* of a CAST */
		ws_core_put_token(p, (*i)++, false);
		ws_core_put_token(p, (*i)++, true);
	} else if (one_of(c, *i, signs) || ws_core_goes_on(c, *i) || is(c, *i, "NOT")) {
		ws_core_put_token(p, (*i)++, false);
	} else {
		return false;
	}
	return true;
}

bool ws_core_put(struct put *p)
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
		if (!(p->operand ? put_after_operand(p, &i, &cases_open)
				 : put_at_operand(p, &i, &cases_open)))
			return false;
	}
	return p->operand && !cases_open;
}
