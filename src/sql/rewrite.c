/*
 * rewrite.c - finds what group_by.h can compute in a statement, and rewrites the statement to read
 * the result.
 *
 * A SELECT with aggregates over one table of the report, joined to nothing but StringIds, is
 * rewritten to read a table of groups: aggregates and what is grouped by become columns of that
 * table; everything else (arithmetic on sums, HAVING, ORDER BY, LIMIT, the statement around it)
 * stays as it is written and is left to SQLite. SQLite has parsed the statement before, so its
 * syntax is correct. The rewriting goes word by word and accepts only words that it understands for
 * certain: any other word leaves the statement unchanged.
 *
 * rewrite_clauses.c reads the SELECT, rewrite_names.c its names, rewrite_numbers.c and
 * rewrite_words.c its expressions; writing the new SELECT, and going through the statement, is
 * here.
 */
#include "sql/rewrite.h"

/* The name that SQLite would give the column of an item without an alias: the column's own if the
 * item is one, else the text of the expression. */
static void write_item_name(struct select_parts *select, struct token_span span,
			    struct ws_text *out)
{
	const struct ws_sql_token *last = &select->tokens[span.to - 1];
	const char *from = select->tokens[span.from].text, *to = last->text + last->length;
	struct ws_sql_field atom;

	if (ws_rewrite_resolve_name(select, span.from, span.to, &atom) == span.to - span.from) {
		if (atom.kind == WS_FIELD_TEXT)
			from = "value";
		else if (atom.kind == WS_FIELD_ID)
			from = "id";
		else
			from = select->grouping->table->columns[atom.column].name;
		to = from + strlen(from);
	}
	ws_text_puts(out, "\"");
	for (; from < to; from++) {
		ws_text_add(out, from, 1);
		if (*from == '"')
			ws_text_add(out, from, 1);
	}
	ws_text_puts(out, "\"");
}

static bool write_items(struct select_parts *select, struct ws_text *out)
{
	for (size_t i = 0; i < select->item_count; i++) {
		const struct select_item *item = &select->item_list[i];
		struct expression_writer writer = {
			.select = select, .span = item->span, .aggregates = true, .out = out};

		if (i)
			ws_text_puts(out, ", ");
		if (!ws_rewrite_put_expression(&writer))
			return false;
		ws_text_puts(out, "AS ");
		if (item->alias)
			ws_text_add(out, select->tokens[item->name].text,
				    select->tokens[item->name].length);
		else
			write_item_name(select, item->span, out);
	}
	return true;
}

/* Write a term of ORDER BY: its expression, then ASC or DESC and NULLS. */
static bool write_order_term(struct select_parts *select, struct token_span part,
			     struct ws_text *out)
{
	static const char *const words[] = {"ASC", "DESC", "NULLS", "FIRST", "LAST", NULL};
	struct expression_writer term_writer = {
		.select = select, .span = part, .aggregates = true, .aliases = true, .out = out};

	while (term_writer.span.to > term_writer.span.from + 1 &&
	       token_is_one_of(select, term_writer.span.to - 1, words))
		term_writer.span.to--;
	if (term_writer.span.to == term_writer.span.from + 1 &&
	    (select->tokens[term_writer.span.from].kind == WS_TOKEN_INT ||
	     ws_rewrite_find_aliased_item(select, term_writer.span.from)))
		ws_rewrite_put_token(&term_writer, term_writer.span.from, true);
	else if (!ws_rewrite_put_expression(&term_writer))
		return false;
	for (size_t i = term_writer.span.to; i < part.to; i++)
		ws_rewrite_put_token(&term_writer, i, true);
	return true;
}

static bool write_order_by(struct select_parts *select, struct ws_text *out)
{
	struct token_span part = {0, 0};

	ws_text_puts(out, " ORDER BY ");
	for (bool first = true; ws_rewrite_find_next_part(select, select->order, &part);
	     first = false) {
		if (!first)
			ws_text_puts(out, ", ");
		if (!write_order_term(select, part, out))
			return false;
	}
	return part.to == select->order.to;
}

static bool write_limit(struct select_parts *select, struct ws_text *out)
{
	ws_text_puts(out, " LIMIT");
	for (size_t i = select->limit.from; i < select->limit.to; i++) {
		if (select->tokens[i].kind != WS_TOKEN_INT && !token_is(select, i, "OFFSET") &&
		    !token_is(select, i, ",") && !token_is(select, i, "-"))
			return false;
		ws_text_puts(out, " ");
		ws_text_add(out, select->tokens[i].text, select->tokens[i].length);
	}
	return true;
}

static bool write_select(struct select_parts *select, struct ws_text *out)
{
	struct expression_writer having = {.select = select,
					   .span = select->having,
					   .aggregates = true,
					   .aliases = true,
					   .out = out};

	ws_text_puts(out, "SELECT ");
	if (select->distinct)
		ws_text_puts(out, "DISTINCT ");
	if (!write_items(select, out))
		return false;
	ws_text_printf(out, " FROM \"ws$%u\"", select->grouping->number);
	if (select->has_having) {
		ws_text_puts(out, " WHERE ");
		if (!ws_rewrite_put_expression(&having))
			return false;
	}
	if (select->has_order && !write_order_by(select, out))
		return false;
	return !select->has_limit || write_limit(select, out);
}

static bool read_and_write_select(struct select_parts *select, size_t select_token,
				  struct ws_text *out)
{
	struct ws_sql_grouping *grouping = select->grouping;

	grouping->upper_time = UINT64_MAX;
	if (!ws_rewrite_read_select(select, select_token))
		return false;
	if (grouping->sqlite_condition_count && grouping->sqlite_key_count)
		ws_text_puts(&grouping->sqlite_sql, ", ");
	if (grouping->sqlite_condition_count)
		ws_text_printf(&grouping->sqlite_sql, "1 FROM \"ws$%urow\" WHERE %s",
			       grouping->number, select->conditions.text);
	else if (grouping->sqlite_key_count)
		ws_text_printf(&grouping->sqlite_sql, " FROM \"ws$%urow\"", grouping->number);
	return write_select(select, out) && (grouping->aggregate_count || grouping->term_count);
}

/* Rewrite the SELECT at token `select_token` to read groups, which are made and added to
 * `groupings`. Returns the token after it, or 0 when it stays as it is. */
static size_t rewrite_select(struct ws_sql *sql, const struct ws_sql_token *tokens,
			     size_t token_count, size_t select_token,
			     struct ws_sql_groupings *groupings, struct ws_text *out)
{
	struct select_parts *select = ws_calloc(1, sizeof(*select));
	size_t end = 0, length = out->len;

	*select = (struct select_parts){.sql = sql,
					.tokens = tokens,
					.token_count = token_count,
					.grouping = ws_calloc(1, sizeof(*select->grouping))};
	select->grouping->number = groupings->count;
	if (read_and_write_select(select, select_token, out) &&
	    ws_sql_make_grouping(select->grouping)) {
		groupings->grouping[groupings->count++] = select->grouping;
		sql->counts.grouped++;
		end = select->whole.to;
	} else {
		out->len = length;
		if (select->grouping->table)
			ws_sql_free_grouping(select->grouping);
		else
			free(select->grouping);
	}
	ws_text_free(&select->conditions);
	free(select);
	return end;
}

char *ws_sql_rewrite_statement(struct ws_sql *connection, const char *sql, const char *end,
			       struct ws_sql_groupings *groupings)
{
	size_t count, position = 0, next;
	struct ws_sql_token *tokens = ws_sql_split_tokens(sql, (size_t)(end - sql), &count);
	struct ws_text out = {0};
	const char *copied = sql;

	groupings->count = 0;
	if (!count || (!ws_sql_is_token_word(&tokens[0], "SELECT") &&
		       !ws_sql_is_token_word(&tokens[0], "WITH"))) {
		free(tokens);
		return NULL;
	}
	for (; position < count && groupings->count < WS_COUNT(groupings->grouping);
	     position = next) {
		size_t length = out.len;

		next = position + 1;
		if (!ws_sql_is_token_word(&tokens[position], "SELECT") ||
		    (position && !ws_sql_is_token_word(&tokens[position - 1], "(") &&
		     !ws_sql_is_token_word(&tokens[position - 1], ")")))
			continue;
		ws_text_add(&out, copied, (size_t)(tokens[position].text - copied));
		next = rewrite_select(connection, tokens, count, position, groupings, &out);
		if (next) {
			copied = tokens[next].text;
		} else {
			out.len = length;
			next = position + 1;
		}
	}
	ws_text_add(&out, copied, (size_t)(end - copied));
	free(tokens);
	if (groupings->count)
		return out.text;
	ws_text_free(&out);
	return NULL;
}

void ws_sql_free_groupings(struct ws_sql *sql, struct ws_sql_groupings *groupings)
{
	(void)sql;
	for (uint32_t i = 0; i < groupings->count; i++)
		ws_sql_free_grouping(groupings->grouping[i]);
	groupings->count = 0;
}
