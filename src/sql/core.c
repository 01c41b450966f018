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

static bool put_items(struct core *core, struct ws_text *out)
{
	for (size_t i = 0; i < core->item_count; i++) {
		const struct item *it = &core->item[i];
		struct put put = {.core = core, .span = it->span, .aggregates = true, .out = out};
		const char *from = core->token[it->span.from].text,
			   *to = core->token[it->span.to - 1].text + core->token[it->span.to - 1].n;
		struct ws_sql_atom atom;

		ws_text_puts(out, i ? ", " : "");
		if (!ws_core_put(&put))
			return false;
		ws_text_puts(out, "AS ");
		if (it->alias) {
			ws_text_add(out, core->token[it->name].text, core->token[it->name].n);
			continue;
		}
		if (ws_core_resolve(core, it->span.from, it->span.to, &atom) ==
		    it->span.to - it->span.from) {
			from = atom.what == WS_ATOM_TEXT ? "value"
			       : atom.what == WS_ATOM_ID
				       ? "id"
				       : core->fold->table->columns[atom.column].name;
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
static bool put_order_term(struct core *core, struct span part, struct ws_text *out)
{
	static const char *const words[] = {"ASC", "DESC", "NULLS", "FIRST", "LAST", NULL};
	struct put put = {
		.core = core, .span = part, .aggregates = true, .aliases = true, .out = out};

	while (put.span.to > put.span.from + 1 && one_of(core, put.span.to - 1, words))
		put.span.to--;
	if (put.span.to == put.span.from + 1 &&
	    (core->token[put.span.from].kind == WS_T_INT || ws_core_aliased(core, put.span.from)))
		ws_core_put_token(&put, put.span.from, true);
	else if (!ws_core_put(&put))
		return false;
	for (size_t i = put.span.to; i < part.to; i++)
		ws_core_put_token(&put, i, true);
	return true;
}

static bool put_order(struct core *core, struct ws_text *out)
{
	struct span part = {0, 0};

	ws_text_puts(out, " ORDER BY ");
	for (bool first = true; ws_core_next_part(core, core->order, &part); first = false) {
		ws_text_puts(out, first ? "" : ", ");
		if (!put_order_term(core, part, out))
			return false;
	}
	return part.to == core->order.to;
}

static bool put_limit(struct core *core, struct ws_text *out)
{
	ws_text_puts(out, " LIMIT");
	for (size_t i = core->limit.from; i < core->limit.to; i++) {
		if (core->token[i].kind != WS_T_INT && !is(core, i, "OFFSET") &&
		    !is(core, i, ",") && !is(core, i, "-"))
			return false;
		ws_text_puts(out, " ");
		ws_text_add(out, core->token[i].text, core->token[i].n);
	}
	return true;
}

static bool put_core(struct core *core, struct ws_text *out)
{
	struct put having = {.core = core,
			     .span = core->having,
			     .aggregates = true,
			     .aliases = true,
			     .out = out};

	ws_text_puts(out, core->distinct ? "SELECT DISTINCT " : "SELECT ");
	if (!put_items(core, out))
		return false;
	ws_text_printf(out, " FROM \"ws$%u\"", core->fold->number);
	if (core->has_having) {
		ws_text_puts(out, " WHERE ");
		if (!ws_core_put(&having))
			return false;
	}
	if (core->has_order && !put_order(core, out))
		return false;
	return !core->has_limit || put_limit(core, out);
}

static bool read_core(struct core *core, size_t select, struct ws_text *out)
{
	struct ws_sql_fold *fold = core->fold;

	fold->upper = UINT64_MAX;
	if (!ws_core_read(core, select))
		return false;
	if (fold->hard_conditions)
		ws_text_printf(&fold->hard, "%s1 FROM \"ws$%urow\" WHERE %s",
			       fold->hard_keys ? ", " : "", fold->number, core->conditions.text);
	else if (fold->hard_keys)
		ws_text_printf(&fold->hard, " FROM \"ws$%urow\"", fold->number);
	return put_core(core, out) && (fold->figures || fold->bys);
}

/* The SELECT at token `select` as one of a fold, which is added to `folds`. Returns the token after
 * it, or 0. */
static size_t fold_core(struct ws_sql *sql, const struct ws_sql_token *token, size_t count,
			size_t select, struct ws_sql_folds *folds, struct ws_text *out)
{
	struct core *core = ws_calloc(1, sizeof(*core));
	size_t end = 0, len = out->len;

	*core = (struct core){.sql = sql,
			      .token = token,
			      .count = count,
			      .fold = ws_calloc(1, sizeof(*core->fold))};
	core->fold->number = folds->n;
	if (read_core(core, select, out) && ws_sql_fold_run(core->fold)) {
		folds->fold[folds->n++] = core->fold;
		sql->counts.folded++;
		end = core->whole.to;
	} else {
		out->len = len;
		if (core->fold->table)
			ws_sql_fold_free(core->fold);
		else
			free(core->fold);
	}
	ws_text_free(&core->conditions);
	free(core);
	return end;
}

char *ws_sql_fold_statement(struct ws_sql *sql_s, const char *sql, const char *end,
			    struct ws_sql_folds *folds)
{
	size_t count, from = 0, next;
	struct ws_sql_token *token = ws_sql_tokens(sql, (size_t)(end - sql), &count);
	struct ws_text out = {0};
	const char *copied = sql;

	folds->n = 0;
	if (!count ||
	    (!ws_sql_token_is(&token[0], "SELECT") && !ws_sql_token_is(&token[0], "WITH"))) {
		free(token);
		return NULL;
	}
	for (; from < count && folds->n < WS_COUNT(folds->fold); from = next) {
		size_t len = out.len;

		next = from + 1;
		if (!ws_sql_token_is(&token[from], "SELECT") ||
		    (from && !ws_sql_token_is(&token[from - 1], "(") &&
		     !ws_sql_token_is(&token[from - 1], ")")))
			continue;
		ws_text_add(&out, copied, (size_t)(token[from].text - copied));
		next = fold_core(sql_s, token, count, from, folds, &out);
		if (next)
			copied = token[next].text;
		else
			out.len = len;
		next = next ? next : from + 1;
	}
	ws_text_add(&out, copied, (size_t)(end - copied));
	free(token);
	if (folds->n)
		return out.text;
	ws_text_free(&out);
	return NULL;
}

void ws_sql_folds_free(struct ws_sql *sql, struct ws_sql_folds *folds)
{
	(void)sql;
	for (uint32_t i = 0; i < folds->n; i++)
		ws_sql_fold_free(folds->fold[i]);
	folds->n = 0;
}
