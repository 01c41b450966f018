/*
 * rewrite_names.c - finds what the names in a SELECT refer to: columns of the table or of a
 * StringIds that is joined to it, or aliases of items.
 *
 * A name before a parenthesis is a function's, and names with a schema in front are not resolved:
 * both are none of these.
 */
#include "sql/rewrite.h"

bool ws_rewrite_is_same_name(const struct ws_sql_token *name, const struct ws_sql_token *token)
{
	bool quoted, same;
	char *text;

	if (!name)
		return false;
	quoted = name->kind == WS_TOKEN_QUOTED;
	text = ws_strndup(name->text + quoted, name->length - 2 * quoted);
	same = ws_sql_is_token_name(token, text);
	free(text);
	return same;
}

size_t ws_rewrite_resolve_name_in(const struct select_parts *select, uint32_t joins,
				  size_t position, size_t to, struct ws_sql_field *field)
{
	bool qualified = position + 2 < to && token_is_name(select, position) &&
			 token_is(select, position + 1, ".");
	size_t name = position + 2 * qualified, length = 1 + 2 * qualified;

	if (position >= to || !token_is_name(select, name) ||
	    (name + 1 < to && (token_is(select, name + 1, "(") || token_is(select, name + 1, "."))))
		return 0;
	if (!qualified || ws_rewrite_is_same_name(select->alias, &select->tokens[position]))
		for (size_t k = 0; k < select->grouping->table->column_count && k <= UINT8_MAX; k++)
			if (ws_sql_is_token_name(&select->tokens[name],
						 select->grouping->table->columns[k].name)) {
				*field = (struct ws_sql_field){(uint8_t)k, WS_FIELD_COLUMN};
				return length;
			}
	for (uint32_t k = 0; k < joins; k++) {
		if (qualified &&
		    !ws_rewrite_is_same_name(select->strings[k].alias, &select->tokens[position]))
			continue;
		if (!ws_sql_is_token_name(&select->tokens[name], "value") &&
		    !ws_sql_is_token_name(&select->tokens[name], "id"))
			continue;
		*field = (struct ws_sql_field){select->grouping->joins[k].column, WS_FIELD_TEXT};
		if (ws_sql_is_token_name(&select->tokens[name], "id"))
			field->kind = WS_FIELD_ID;
		return length;
	}
	return 0;
}

size_t ws_rewrite_resolve_name(const struct select_parts *select, size_t position, size_t to,
			       struct ws_sql_field *field)
{
	return ws_rewrite_resolve_name_in(select, select->grouping->join_count, position, to,
					  field);
}

static bool is_same_field(const struct ws_sql_field *left, const struct ws_sql_field *right)
{
	return left->column == right->column && left->kind == right->kind;
}

int ws_rewrite_add_field(struct select_parts *select, const struct ws_sql_field *field)
{
	struct ws_sql_grouping *grouping = select->grouping;

	for (uint32_t i = 0; i < grouping->field_count; i++)
		if (is_same_field(&grouping->fields[i], field))
			return (int)i;
	if (grouping->field_count == WS_SQL_FIELDS)
		return -1;
	grouping->fields[grouping->field_count] = *field;
	return (int)grouping->field_count++;
}

const struct select_item *ws_rewrite_find_aliased_item(const struct select_parts *select,
						       size_t position)
{
	for (size_t item = 0; item < select->item_count; item++)
		if (select->item_list[item].alias && token_is_name(select, position) &&
		    ws_rewrite_is_same_name(&select->tokens[select->item_list[item].name],
					    &select->tokens[position]))
			return &select->item_list[item];
	return NULL;
}

bool ws_rewrite_is_determined(const struct select_parts *select, const struct ws_sql_field *field)
{
	for (uint32_t k = 0; k < select->grouping->term_count; k++) {
		const struct ws_sql_group_term *term = &select->grouping->terms[k];
		const struct ws_sql_field *grouped = &select->grouping->fields[term->number];

		if (term->how != WS_BY_FIELD || grouped->column != field->column)
			continue;
		if (grouped->kind == WS_FIELD_COLUMN || grouped->kind == field->kind)
			return true;
		for (uint32_t join = 0; join < select->grouping->join_count; join++)
			if (select->grouping->joins[join].column == field->column &&
			    !select->grouping->joins[join].left)
				return true; /* no two rows of StringIds have the same text */
	}
	return false;
}
