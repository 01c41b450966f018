/*
 * core_names.c - what the names in a SELECT are of: columns of the table, of StringIds that is
 * joined to it, aliases of items.
 *
 * A name before a parenthesis is a function's, and one with a schema in front is not looked for:
 * both are none of these.
 */
#include "sql/core.h"

bool ws_core_same_name(const struct ws_sql_token *name, const struct ws_sql_token *t)
{
	char *s = name ? ws_strndup(name->s + (name->kind == WS_T_QUOTED),
				    name->n - (name->kind == WS_T_QUOTED ? 2 : 0))
		       : NULL;
	bool same = s && ws_sql_token_names(t, s);

	free(s);
	return same;
}

size_t ws_core_resolve_in(const struct core *c, uint32_t joins, size_t i, size_t to,
			  struct ws_sql_atom *a)
{
	bool qualified = i + 2 < to && is_name(c, i) && is(c, i + 1, ".");
	size_t name = qualified ? i + 2 : i, n = qualified ? 3 : 1;

	if (i >= to || !is_name(c, name) ||
	    (name + 1 < to && (is(c, name + 1, "(") || is(c, name + 1, "."))))
		return 0;
	if (!qualified || ws_core_same_name(c->alias, &c->t[i]))
		for (size_t k = 0; k < c->f->t->column_count && k <= UINT8_MAX; k++)
			if (ws_sql_token_names(&c->t[name], c->f->t->columns[k].name)) {
				*a = (struct ws_sql_atom){(uint8_t)k, WS_ATOM_COLUMN};
				return n;
			}
	for (uint32_t k = 0; k < joins; k++) {
		if (qualified && !ws_core_same_name(c->string[k].alias, &c->t[i]))
			continue;
		if (!ws_sql_token_names(&c->t[name], "value") &&
		    !ws_sql_token_names(&c->t[name], "id"))
			continue;
		*a = (struct ws_sql_atom){c->f->join[k].column,
					  ws_sql_token_names(&c->t[name], "id") ? WS_ATOM_ID
										: WS_ATOM_TEXT};
		return n;
	}
	return 0;
}

size_t ws_core_resolve(const struct core *c, size_t i, size_t to, struct ws_sql_atom *a)
{
	return ws_core_resolve_in(c, c->f->joins, i, to, a);
}

static bool same_atom(const struct ws_sql_atom *a, const struct ws_sql_atom *b)
{
	return a->column == b->column && a->what == b->what;
}

int ws_core_atom(struct core *c, const struct ws_sql_atom *a)
{
	struct ws_sql_fold *f = c->f;

	for (uint32_t i = 0; i < f->atoms; i++)
		if (same_atom(&f->atom[i], a))
			return (int)i;
	if (f->atoms == WS_SQL_ATOMS)
		return -1;
	f->atom[f->atoms] = *a;
	return (int)f->atoms++;
}

const struct item *ws_core_aliased(const struct core *c, size_t i)
{
	for (size_t k = 0; k < c->item_count; k++)
		if (c->item[k].alias && is_name(c, i) &&
		    ws_core_same_name(&c->t[c->item[k].name], &c->t[i]))
			return &c->item[k];
	return NULL;
}

bool ws_core_determined(const struct core *c, const struct ws_sql_atom *a)
{
	for (uint32_t k = 0; k < c->f->bys; k++) {
		const struct ws_sql_group_by *by = &c->f->by[k];
		const struct ws_sql_atom *b = &c->f->atom[by->number];

		if (by->how != WS_BY_ATOM || b->column != a->column)
			continue;
		if (b->what == WS_ATOM_COLUMN || b->what == a->what)
			return true;
		for (uint32_t j = 0; j < c->f->joins; j++)
			if (c->f->join[j].column == a->column && !c->f->join[j].left)
				return true; /* no two rows of StringIds have the same text */
	}
	return false;
}
