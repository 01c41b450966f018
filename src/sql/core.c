/*
 * core.c - finding what fold.h can answer in a statement, and putting its answer in its place.
 *
 * A SELECT with aggregates over one table of the report, joined to StringIds at most, is rewritten
 * to read a table of groups: aggregates and what is grouped by become columns of that table,
 * everything else (arithmetic on sums, HAVING, ORDER BY, LIMIT, whatever stands around it) stays as
 * it is written and SQLite's. SQLite has parsed the statement before, so it is known to be right;
 * here only what is surely understood is taken, word by word, and any other word leaves the
 * statement as it is.
 *
 * Its parts: core_clauses.c reads the SELECT, core_names.c its names, core_number.c and
 * core_words.c its expressions; writing it anew, and going through the statement, is here.
 */
#include "sql/core.h"

static bool put_items(struct core *c, struct ws_text *out)
{
	for (size_t i = 0; i < c->item_count; i++) {
		const struct item *it = &c->item[i];
		struct put p = {.c = c, .s = it->e, .aggregates = true, .out = out};
		const char *from = c->t[it->e.from].s,
			   *to = c->t[it->e.to - 1].s + c->t[it->e.to - 1].n;
		struct ws_sql_atom a;

		ws_text_puts(out, i ? ", " : "");
		if (!ws_core_put(&p))
			return false;
		ws_text_puts(out, "AS ");
		if (it->alias) {
			ws_text_add(out, c->t[it->name].s, c->t[it->name].n);
			continue;
		}
		if (ws_core_resolve(c, it->e.from, it->e.to, &a) == it->e.to - it->e.from) {
			from = a.what == WS_ATOM_TEXT ? "value"
			       : a.what == WS_ATOM_ID ? "id"
						      : c->f->t->columns[a.column].name;
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
	if (p.s.to == p.s.from + 1 &&
	    (c->t[p.s.from].kind == WS_T_INT || ws_core_aliased(c, p.s.from)))
		ws_core_put_token(&p, p.s.from, true);
	else if (!ws_core_put(&p))
		return false;
	for (size_t i = p.s.to; i < part.to; i++)
		ws_core_put_token(&p, i, true);
	return true;
}

static bool put_order(struct core *c, struct ws_text *out)
{
	struct span part = {0, 0};

	ws_text_puts(out, " ORDER BY ");
	for (bool first = true; ws_core_next_part(c, c->order, &part); first = false) {
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
		if (c->t[i].kind != WS_T_INT && !is(c, i, "OFFSET") && !is(c, i, ",") &&
		    !is(c, i, "-"))
			return false;
		ws_text_puts(out, " ");
		ws_text_add(out, c->t[i].s, c->t[i].n);
	}
	return true;
}

static bool put_core(struct core *c, struct ws_text *out)
{
	struct put having = {
		.c = c, .s = c->having, .aggregates = true, .aliases = true, .out = out};

	ws_text_puts(out, c->distinct ? "SELECT DISTINCT " : "SELECT ");
	if (!put_items(c, out))
		return false;
	ws_text_printf(out, " FROM \"ws$%u\"", c->f->number);
	if (c->has_having) {
		ws_text_puts(out, " WHERE ");
		if (!ws_core_put(&having))
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
	if (!ws_core_read(c, select))
		return false;
	if (f->hard_conditions)
		ws_text_printf(&f->hard, "%s1 FROM \"ws$%urow\" WHERE %s", f->hard_keys ? ", " : "",
			       f->number, c->conditions.s);
	else if (f->hard_keys)
		ws_text_printf(&f->hard, " FROM \"ws$%urow\"", f->number);
	return put_core(c, out) && (f->figures || f->bys);
}

/* The SELECT at token `select` as one of a fold, which is added to `folds`. Returns the token after
 * it, or 0. */
static size_t fold_core(struct ws_sql *s, const struct ws_sql_token *t, size_t count, size_t select,
			struct ws_sql_folds *folds, struct ws_text *out)
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

char *ws_sql_fold_statement(struct ws_sql *s, const char *sql, const char *end,
			    struct ws_sql_folds *folds)
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
		    (from && !ws_sql_token_is(&t[from - 1], "(") &&
		     !ws_sql_token_is(&t[from - 1], ")")))
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
