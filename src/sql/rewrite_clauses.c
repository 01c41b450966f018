/*
 * rewrite_clauses.c - reads the clauses of a SELECT: its items, the tables it reads, its conditions
 * and what it groups by.
 *
 * Clauses are found by their words outside parentheses, and each is then read into the grouping:
 * tables and joins first, because names need them, then conditions, then groups. SQLite has parsed
 * the statement before, so its syntax need not be checked.
 */
#include <stdio.h>

#include "sql/rewrite.h"
#include "base/choose.h"

/* ---- clauses ---- */

static bool is_clause_word(const struct select_parts *select, size_t position)
{
	static const char *const words[] = {"FROM",  "WHERE", "GROUP", "HAVING",
					    "ORDER", "LIMIT", NULL};

	return token_is_one_of(select, position, words);
}

/* The clause that begins at *position, which moves past its words. NULL when it is not understood.
 */
static struct token_span *open_clause(struct select_parts *select, size_t *position)
{
	if (token_is(select, *position, "GROUP") || token_is(select, *position, "ORDER")) {
		bool group = token_is(select, *position, "GROUP");

		if (!token_is(select, *position + 1, "BY"))
			return NULL;
		*position += 2;
		if (group) {
			select->has_group = true;
			return &select->group;
		}
		select->has_order = true;
		return &select->order;
	}
	++*position;
	if (token_is(select, *position - 1, "FROM"))
		return &select->from;
	if (token_is(select, *position - 1, "WHERE")) {
		select->has_where = true;
		return &select->where;
	}
	if (token_is(select, *position - 1, "HAVING")) {
		select->has_having = true;
		return &select->having;
	}
	select->has_limit = true;
	return &select->limit;
}

/* Find the clauses of the SELECT at token `select_token`. */
static bool find_clauses(struct select_parts *select, size_t select_token)
{
	static const char *const others[] = {"UNION",  "INTERSECT", "EXCEPT", "WINDOW",
					     "SELECT", "VALUES",    NULL};
	size_t position = select_token + 1;
	struct token_span *open = &select->items;
	int depth = 0;

	select->whole.from = select_token;
	select->distinct = token_is(select, position, "DISTINCT");
	position += select->distinct || token_is(select, position, "ALL");
	open->from = position;
	for (; position < select->token_count && !(token_is(select, position, ")") && !depth) &&
	       !token_is(select, position, ";");
	     position++) {
		depth += nesting_change(select, position);
		if (token_is_one_of(select, position, others))
			return false;
		if (depth || !is_clause_word(select, position) ||
		    (position && token_is(select, position - 1, ".")))
			continue;
		open->to = position;
		if (!(open = open_clause(select, &position)) || open->to)
			return false;
		open->from = position--;
	}
	open->to = select->whole.to = position;
	return select->from.to > select->from.from && select->items.to > select->items.from &&
	       (!select->has_having || select->has_group);
}

bool ws_rewrite_find_next_part(const struct select_parts *select, struct token_span list,
			       struct token_span *part)
{
	int depth = 0;
	size_t position;

	if (part->to >= list.to)
		return false;
	part->from = list.from;
	if (part->to)
		part->from = part->to + 1;
	for (position = part->from;
	     position < list.to && (depth || !token_is(select, position, ",")); position++)
		depth += nesting_change(select, position);
	part->to = position;
	return part->from < position;
}

static bool is_operand_end(const struct select_parts *select, size_t position)
{
	const struct ws_sql_token *token = &select->tokens[position];

	if (token->kind == WS_TOKEN_NAME)
		return !ws_rewrite_expression_goes_on(select, position) &&
		       !token_is(select, position, "NOT") && !token_is(select, position, "CASE");
	return token->kind == WS_TOKEN_QUOTED || token->kind == WS_TOKEN_INT ||
	       token->kind == WS_TOKEN_REAL || token->kind == WS_TOKEN_STRING ||
	       token_is(select, position, ")");
}

static bool find_items(struct select_parts *select)
{
	static const char *const no_alias[] = {"END", "NULL", "ISNULL", "NOTNULL", NULL};
	struct token_span part = {0, 0};

	while (ws_rewrite_find_next_part(select, select->items, &part)) {
		struct select_item *item = &select->item_list[select->item_count];
		size_t last = part.to - 1;

		if (select->item_count++ == MOST_ITEMS)
			return false;
		*item = (struct select_item){.span = part};
		if (last < part.from + 1 ||
		    (!token_is_name(select, last) && select->tokens[last].kind != WS_TOKEN_STRING))
			continue;
		if (token_is(select, last - 1, "AS")) {
			item->alias = last - 1;
		} else if (is_operand_end(select, last - 1) &&
			   !token_is_one_of(select, last, no_alias)) {
			item->alias = last;
		}
		if (!item->alias)
			continue;
		item->name = last;
		item->span.to = item->alias;
		if (item->span.to <= item->span.from ||
		    select->tokens[last].kind == WS_TOKEN_STRING)
			return false;
	}
	return part.to == select->items.to && select->item_count;
}

/* ---- FROM ---- */

/* The report of a schema's name: "main", or "reportN" where there are several. report_count when
 * there is none. */
static size_t find_schema_report(const struct select_parts *select,
				 const struct ws_sql_token *token)
{
	char schema[32];

	if (ws_sql_is_token_name(token, "main"))
		return 0;
	for (size_t i = 0; select->sql->report_count > 1 && i < select->sql->report_count; i++) {
		snprintf(schema, sizeof(schema), "report%zu", i + 1);
		if (ws_sql_is_token_name(token, schema))
			return i;
	}
	return select->sql->report_count;
}

/* The table that the tokens from `position` on name, or NULL; *next is the token after the name. */
static struct ws_sql_table *find_table(const struct select_parts *select, size_t position,
				       size_t *next)
{
	const struct ws_sql_report *report;
	size_t number = 0, name = position;

	if (token_is(select, position + 1, ".")) {
		name = position + 2;
		number = find_schema_report(select, &select->tokens[position]);
		if (number == select->sql->report_count)
			return NULL;
	}
	*next = name + 1;
	report = &select->sql->reports[number];
	for (size_t k = 0; token_is_name(select, name) && k < report->table_count; k++)
		if (ws_sql_is_token_name(&select->tokens[name], report->tables[k]->name))
			return report->tables[k];
	return NULL;
}

/* Whether the statement itself defines the name: WITH name AS (...). */
static bool is_defined_in_statement(const struct select_parts *select, const char *name)
{
	for (size_t position = 0; position + 1 < select->token_count; position++)
		if (ws_sql_is_token_name(&select->tokens[position], name) &&
		    (token_is(select, position + 1, "(") || token_is(select, position + 1, "AS")) &&
		    (position == 0 || !token_is(select, position - 1, ".")) &&
		    (token_is(select, position + 1, "(") || token_is(select, position + 2, "(") ||
		     token_is(select, position + 2, "NOT") ||
		     token_is(select, position + 2, "MATERIALIZED")))
			return true;
	return false;
}

static bool split_conditions(struct select_parts *select, struct token_span span);

struct from_table {
	struct ws_sql_table *table;
	const struct ws_sql_token *alias;
	bool left;
	struct token_span on;
};

static bool read_from_table(struct select_parts *select, size_t *position, struct from_table *table)
{
	static const char *const after[] = {"JOIN",  "INNER", "LEFT", "CROSS", "NATURAL",
					    "RIGHT", "FULL",  "ON",   "USING", "INDEXED",
					    "NOT",   "OUTER", NULL};
	size_t name = *position;

	if (!token_is_name(select, name) || !(table->table = find_table(select, name, position)) ||
	    is_defined_in_statement(select, table->table->name))
		return false;
	table->alias = &select->tokens[*position - 1];
	if (token_is(select, *position, "AS"))
		++*position;
	else if (*position >= select->from.to || !token_is_name(select, *position) ||
		 token_is_one_of(select, *position, after))
		return true;
	if (*position >= select->from.to || !token_is_name(select, *position))
		return false;
	table->alias = &select->tokens[(*position)++];
	return true;
}

static bool read_join_condition(struct select_parts *select, size_t *position,
				struct from_table *table)
{
	static const char *const ends[] = {",",	      "JOIN",  "INNER", "LEFT", "CROSS",
					   "NATURAL", "RIGHT", "FULL",	NULL};
	int depth = 0;

	if (!token_is(select, *position, "ON") || *position >= select->from.to)
		return *position >= select->from.to || token_is_one_of(select, *position, ends);
	table->on.from = ++*position;
	for (; *position < select->from.to && (depth || !token_is_one_of(select, *position, ends));
	     ++*position)
		depth += nesting_change(select, *position);
	table->on.to = *position;
	return true;
}

/* Whether the tokens from `id` on are `s.id`, with the name of a StringIds that is not joined yet.
 */
static bool is_string_id(const struct select_parts *select, uint32_t number, size_t id)
{
	return !select->strings[number].joined &&
	       ws_rewrite_is_same_name(select->strings[number].alias, &select->tokens[id]) &&
	       token_is(select, id + 1, ".") && ws_sql_is_token_name(&select->tokens[id + 2], "id");
}

/* Whether a condition is `s.id = column`, either way round: then *which is the number of the join,
 * and *column the column. */
static bool is_join(struct select_parts *select, struct token_span span, uint32_t *which,
		    uint8_t *column)
{
	const struct {
		size_t id, sign;
		struct token_span other;
	} ways[] = {{span.from, span.from + 3, {span.from + 4, span.to}},
		    {span.to - 3, span.to - 4, {span.from, span.to - 4}}};

	if (span.to < span.from + 5)
		return false;
	for (size_t way = 0; way < WS_COUNT(ways); way++)
		for (uint32_t join = 0; join < select->grouping->join_count; join++) {
			struct token_span other = ways[way].other;
			struct ws_sql_field atom;
			size_t length;

			if (!is_string_id(select, join, ways[way].id) ||
			    (!token_is(select, ways[way].sign, "=") &&
			     !token_is(select, ways[way].sign, "==")))
				continue;
			/* The column must be one of the table, not of another join. */
			length = ws_rewrite_resolve_name_in(select, 0, other.from, other.to, &atom);
			if (!length || other.from + length != other.to)
				return false;
			*which = join;
			*column = atom.column;
			return ws_find_column_shape(
				       &select->grouping->table->columns[atom.column]) ==
			       WS_SHAPE_STRING;
		}
	return false;
}

/* Make a table of the list the one whose rows are grouped, or one more StringIds. */
static bool place_table(struct select_parts *select, const struct from_table *table,
			const struct from_table **strings)
{
	struct ws_sql_grouping *grouping = select->grouping;

	if (table->table->kind == WS_SQL_BLOCKS && !grouping->table && !table->left) {
		grouping->table = table->table;
		grouping->exprs.table = table->table;
		select->alias = table->alias;
		return true;
	}
	if (table->table->kind != WS_SQL_STRINGS || grouping->join_count == WS_SQL_JOINS)
		return false;
	select->strings[grouping->join_count].alias = table->alias;
	grouping->joins[grouping->join_count].left = table->left;
	strings[grouping->join_count++] = table;
	return true;
}

/* Read the words between two tables; sets *left for a left join. */
static bool read_join_words(const struct select_parts *select, size_t *position, bool *left)
{
	bool word = true;

	if (token_is(select, *position, "LEFT")) {
		*left = true;
		*position += 1 + token_is(select, *position + 1, "OUTER");
	} else if (token_is(select, *position, "INNER")) {
		++*position;
	} else {
		word = false;
	}
	if (!token_is(select, *position, "JOIN") && (word || !token_is(select, *position, ",")))
		return false;
	++*position;
	return true;
}

/* Check that every StringIds is of the table's report, and read the conditions of left joins. */
static bool join_strings(struct select_parts *select, const struct from_table *const *strings)
{
	for (uint32_t join = 0; join < select->grouping->join_count; join++)
		if (strings[join]->table->report != select->grouping->table->report)
			return false;
	for (uint32_t k = 0; k < select->grouping->join_count; k++) {
		uint32_t which = 0;

		if (!select->grouping->joins[k].left)
			continue;
		if (!is_join(select, strings[k]->on, &which, &select->grouping->joins[k].column) ||
		    which != k)
			return false;
		select->strings[k].joined = true;
	}
	return true;
}

/* Read FROM: one table of the report, and StringIds any number of times. */
static bool read_from(struct select_parts *select)
{
	struct from_table tables[WS_SQL_JOINS + 1] = {0};
	const struct from_table *strings[WS_SQL_JOINS];
	size_t position = select->from.from, count = 0;

	do {
		if (count == WS_COUNT(tables) ||
		    (count && !read_join_words(select, &position, &tables[count].left)) ||
		    !read_from_table(select, &position, &tables[count]) ||
		    !read_join_condition(select, &position, &tables[count]) ||
		    !place_table(select, &tables[count], strings))
			return false;
		count++;
	} while (position < select->from.to);
	if (!select->grouping->table || !join_strings(select, strings))
		return false;
	for (size_t k = 0; k < count; k++)
		if (!tables[k].left && tables[k].on.to && !split_conditions(select, tables[k].on))
			return false;
	return true;
}

/* ---- WHERE ---- */

/* Split a condition at AND; one with an OR or a CASE in it stays whole. */
static bool split_conditions(struct select_parts *select, struct token_span span)
{
	size_t from = span.from;
	bool within = false, whole = false;
	int depth = 0;

	for (size_t i = span.from; i < span.to; i++) {
		whole |= (!depth && token_is(select, i, "OR")) || token_is(select, i, "CASE");
		depth += nesting_change(select, i);
	}
	for (size_t i = span.from; i <= span.to; i++) {
		if (i < span.to)
			depth += nesting_change(select, i);
		within |= i < span.to && !depth && token_is(select, i, "BETWEEN");
		if (i < span.to && (whole || depth || !token_is(select, i, "AND")))
			continue;
		if (i < span.to && within) {
			within = false;
			continue;
		}
		if (select->term_count == MOST_TERMS || i == from)
			return false;
		select->terms[select->term_count++] = (struct token_span){from, i};
		from = i + 1;
	}
	return true;
}

static bool is_block_time(const struct select_parts *select, const struct ws_sql_node *node)
{
	const struct ws_view_column *column = &select->grouping->table->columns[node->column];

	return node->op == WS_N_COLUMN &&
	       (column->from == WS_FROM_TIME || column->from == WS_FROM_TIME_OR_NULL) &&
	       (column->source == ws_table_start(select->grouping->table->view->source) ||
		column->source == ws_table_end(select->grouping->table->view->source));
}

/* The time on the session clock (ns) that a literal stands for, widened if it is not whole. */
static bool read_moment(const struct select_parts *select, const struct ws_sql_node *node,
			bool lower, uint64_t *time)
{
	__int128 wide;

	if (node->op == WS_N_INT)
		wide = node->i;
	else if (node->op == WS_N_REAL && node->r > -9e18 && node->r < 9e18)
		wide = (__int128)node->r + 1 - 2 * lower;
	else
		return false;
	*time = ws_sql_clamp_time(wide + select->grouping->table->report->export.base);
	return true;
}

/* Narrow the range of times that rows must touch by a condition. */
static void narrow_times(struct select_parts *select, uint16_t number)
{
	struct ws_sql_grouping *grouping = select->grouping;
	const struct ws_sql_node *node = &grouping->exprs.nodes[number],
				 *left = &grouping->exprs.nodes[node->first],
				 *right = &grouping->exprs.nodes[node->second];
	uint64_t time;

	if (node->op == WS_N_AND) {
		narrow_times(select, node->first);
		narrow_times(select, node->second);
		return;
	}
	if (node->op != WS_N_LT && node->op != WS_N_LE && node->op != WS_N_EQ)
		return;
	if ((is_block_time(select, left) && read_moment(select, right, false, &time)) ||
	    (node->op == WS_N_EQ && is_block_time(select, right) &&
	     read_moment(select, left, false, &time)))
		grouping->upper_time = ws_min(time, grouping->upper_time);
	if ((is_block_time(select, right) && read_moment(select, left, true, &time)) ||
	    (node->op == WS_N_EQ && is_block_time(select, left) &&
	     read_moment(select, right, true, &time)))
		grouping->lower_time = ws_max(time, grouping->lower_time);
}

static bool read_conditions(struct select_parts *select)
{
	struct ws_sql_grouping *grouping = select->grouping;

	for (size_t i = 0; i < select->term_count; i++) {
		uint32_t which;
		uint8_t column;

		if (!is_join(select, select->terms[i], &which, &column))
			continue;
		grouping->joins[which].column = column;
		select->strings[which].joined = true;
		select->terms[i--] = select->terms[--select->term_count];
	}
	for (uint32_t k = 0; k < grouping->join_count; k++)
		if (!select->strings[k].joined)
			return false;
	for (size_t i = 0; i < select->term_count; i++) {
		size_t nodes = grouping->exprs.node_count;
		uint64_t reads = grouping->exprs.reads;
		uint16_t node = ws_rewrite_parse_number(select, select->terms[i]);
		struct expression_writer condition_writer = {
			.select = select, .span = select->terms[i], .out = &select->conditions};

		if (node && grouping->filter_count < WS_SQL_FILTERS) {
			grouping->filters[grouping->filter_count++] = node;
			narrow_times(select, node);
			continue;
		}
		grouping->exprs.node_count = nodes;
		grouping->exprs.reads = reads;
		for (size_t k = select->terms[i].from; k < select->terms[i].to; k++)
			select->unordered |= token_is(select, k, "OR") || token_is(select, k, "IN");
		if (grouping->sqlite_condition_count++)
			ws_text_puts(&select->conditions, "AND ");
		ws_text_puts(&select->conditions, "(");
		if (!ws_rewrite_put_expression(&condition_writer))
			return false;
		ws_text_puts(&select->conditions, ") ");
	}
	return true;
}

/* ---- GROUP BY ---- */

/* The expression that a term of GROUP BY stands for: an item by its number or alias, or itself. */
static struct token_span resolve_group_term(const struct select_parts *select,
					    struct token_span term)
{
	struct ws_sql_field atom;
	const struct select_item *item;

	if (term.to != term.from + 1)
		return term;
	if (select->tokens[term.from].kind == WS_TOKEN_INT) {
		size_t number = strtoul(select->tokens[term.from].text, NULL, 10);

		if (number < 1 || number > select->item_count)
			return (struct token_span){0, 0};
		return select->item_list[number - 1].span;
	}
	if (ws_rewrite_resolve_name(select, term.from, term.to, &atom))
		return term;
	item = ws_rewrite_find_aliased_item(select, term.from);
	if (item)
		return item->span;
	return term;
}

static bool add_sqlite_term(struct select_parts *select, struct token_span span,
			    struct ws_sql_group_term *by)
{
	struct expression_writer term_writer = {
		.select = select, .span = span, .out = &select->grouping->sqlite_sql};

	if (token_is(select, span.from, "CAST")) /* it has an affinity, as a column has */
		return false;
	if (select->grouping->sqlite_key_count)
		ws_text_puts(&select->grouping->sqlite_sql, ", ");
	by->how = WS_BY_SQLITE;
	by->number = (uint16_t)select->grouping->sqlite_key_count++;
	return ws_rewrite_put_expression(&term_writer);
}

static bool add_group_term(struct select_parts *select, struct token_span span)
{
	struct ws_sql_grouping *grouping = select->grouping;
	struct ws_sql_group_term *by = &grouping->terms[grouping->term_count];
	struct ws_sql_field atom;
	size_t length, nodes = grouping->exprs.node_count;
	uint64_t reads = grouping->exprs.reads;
	int number;

	if (span.to <= span.from || grouping->term_count == WS_SQL_KEYS)
		return false;
	length = ws_rewrite_resolve_name(select, span.from, span.to, &atom);
	if (length && span.from + length == span.to) {
		number = ws_rewrite_add_field(select, &atom);
		if (number < 0)
			return false;
		*by = (struct ws_sql_group_term){.how = WS_BY_FIELD, .number = (uint16_t)number};
	} else if ((by->number = ws_rewrite_parse_number(select, span))) {
		by->how = WS_BY_NODE;
		if (token_is(select, span.from, "CAST"))
			return false;
	} else {
		grouping->exprs.node_count = nodes;
		grouping->exprs.reads = reads;
		if (!add_sqlite_term(select, span, by))
			return false;
	}
	select->group_terms[grouping->term_count++] = span;
	return true;
}

/* Note the directions of ORDER BY's terms. Whether one of them is descending. */
static bool read_order_directions(struct select_parts *select)
{
	struct token_span part = {0, 0};
	bool any = false;

	for (uint32_t k = 0; k < select->grouping->term_count &&
			     ws_rewrite_find_next_part(select, select->order, &part);
	     k++)
		for (size_t i = part.from + 1; i < part.to; i++) {
			select->grouping->terms[k].descending |= token_is(select, i, "DESC");
			any |= token_is(select, i, "DESC");
		}
	return any;
}

/*
 * If ORDER BY has as many terms as GROUP BY, SQLite goes through groups in the directions of its
 * terms, whatever they are, and so gives groups that are equal in it in that order. But it drops
 * the ORDER BY of some sub-queries first, which depends on what is around them. False when the
 * order cannot be known for that reason.
 */
static bool read_directions(struct select_parts *select)
{
	struct token_span part = {0, 0};
	uint32_t count = 0;
	bool inside = select->whole.from && !token_is(select, 0, "WITH") && !select->has_limit;

	if (!select->has_order)
		return true;
	while (ws_rewrite_find_next_part(select, select->order, &part))
		count++;
	if (count != select->grouping->term_count)
		return true;
	return !read_order_directions(select) || !inside;
}

static bool read_group(struct select_parts *select)
{
	struct token_span part = {0, 0};

	while (select->has_group && ws_rewrite_find_next_part(select, select->group, &part))
		if (!add_group_term(select, resolve_group_term(select, part)))
			return false;
	if (!read_directions(select))
		return false;
	return !select->has_group || (select->grouping->term_count && part.to == select->group.to);
}

/* Whether SQLite would read the rows of a group in the file's order: not if its plan might go
 * through StringIds first. */
static bool keeps_row_order(const struct select_parts *select)
{
	if (select->unordered)
		return false;
	for (uint32_t join = 0; join < select->grouping->join_count; join++) {
		struct ws_sql_field id = {select->grouping->joins[join].column, WS_FIELD_COLUMN};

		if (!select->grouping->joins[join].left && !ws_rewrite_is_determined(select, &id))
			return false;
	}
	return true;
}

bool ws_rewrite_read_select(struct select_parts *select, size_t select_token)
{
	if (!find_clauses(select, select_token) || !find_items(select) || !read_from(select) ||
	    (select->has_where && !split_conditions(select, select->where)) ||
	    !read_conditions(select) || !read_group(select))
		return false;
	select->grouping->ordered = keeps_row_order(select);
	return true;
}
