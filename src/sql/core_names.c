/*
 * core_names.c - what the names in a SELECT are of: columns of the table, of StringIds that is
 * joined to it, aliases of items.
 *
 * A name before a parenthesis is a function's, and one with a schema in front is not looked for:
 * both are none of these.
 */
#include "sql/core.h"

bool ws_core_same_name(const struct ws_sql_token *name, const struct ws_sql_token *token)
{
	char *text = name ? ws_strndup(name->text + (name->kind == WS_T_QUOTED),
				       name->n - (name->kind == WS_T_QUOTED ? 2 : 0))
			  : NULL;
	bool same = text && ws_sql_token_names(token, text);

	free(text);
	return same;
}

size_t ws_core_resolve_in(const struct core *core, uint32_t joins, size_t i, size_t to,
			  struct ws_sql_atom *atom)
{
	bool qualified = i + 2 < to && is_name(core, i) && is(core, i + 1, ".");
	size_t name = qualified ? i + 2 : i, n = qualified ? 3 : 1;

	if (i >= to || !is_name(core, name) ||
	    (name + 1 < to && (is(core, name + 1, "(") || is(core, name + 1, "."))))
		return 0;
	if (!qualified || ws_core_same_name(core->alias, &core->token[i]))
		for (size_t k = 0; k < core->fold->table->column_count && k <= UINT8_MAX; k++)
			if (ws_sql_token_names(&core->token[name],
					       core->fold->table->columns[k].name)) {
				*atom = (struct ws_sql_atom){(uint8_t)k, WS_ATOM_COLUMN};
				return n;
			}
	for (uint32_t k = 0; k < joins; k++) {
		if (qualified && !ws_core_same_name(core->string[k].alias, &core->token[i]))
			continue;
		if (!ws_sql_token_names(&core->token[name], "value") &&
		    !ws_sql_token_names(&core->token[name], "id"))
			continue;
		*atom = (struct ws_sql_atom){
			core->fold->join[k].column,
			ws_sql_token_names(&core->token[name], "id") ? WS_ATOM_ID : WS_ATOM_TEXT};
		return n;
	}
	return 0;
}

size_t ws_core_resolve(const struct core *core, size_t i, size_t to, struct ws_sql_atom *atom)
{
	return ws_core_resolve_in(core, core->fold->joins, i, to, atom);
}

static bool same_atom(const struct ws_sql_atom *left, const struct ws_sql_atom *right)
{
	return left->column == right->column && left->what == right->what;
}

int ws_core_atom(struct core *core, const struct ws_sql_atom *atom)
{
	struct ws_sql_fold *fold = core->fold;

	for (uint32_t i = 0; i < fold->atoms; i++)
		if (same_atom(&fold->atom[i], atom))
			return (int)i;
	if (fold->atoms == WS_SQL_ATOMS)
		return -1;
	fold->atom[fold->atoms] = *atom;
	return (int)fold->atoms++;
}

const struct item *ws_core_aliased(const struct core *core, size_t i)
{
	for (size_t k = 0; k < core->item_count; k++)
		if (core->item[k].alias && is_name(core, i) &&
		    ws_core_same_name(&core->token[core->item[k].name], &core->token[i]))
			return &core->item[k];
	return NULL;
}

bool ws_core_determined(const struct core *core, const struct ws_sql_atom *left)
{
	for (uint32_t k = 0; k < core->fold->bys; k++) {
		const struct ws_sql_group_by *by = &core->fold->by[k];
		const struct ws_sql_atom *right = &core->fold->atom[by->number];

		if (by->how != WS_BY_ATOM || right->column != left->column)
			continue;
		if (right->what == WS_ATOM_COLUMN || right->what == left->what)
			return true;
		for (uint32_t j = 0; j < core->fold->joins; j++)
			if (core->fold->join[j].column == left->column && !core->fold->join[j].left)
				return true; /* no two rows of StringIds have the same text */
	}
	return false;
}
