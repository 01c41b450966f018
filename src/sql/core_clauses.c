/*
 * core_clauses.c - the clauses of a SELECT: its items, the tables it reads, its conditions and what
 * it groups by.
 *
 * They are found by their words outside of parentheses, and each is then read into the fold: tables
 * and joins first, since names need them, then conditions, then groups. SQLite has parsed the
 * statement before, so only meaning is looked for, not mistakes.
 */
#include <stdio.h>

#include "sql/core.h"
#include "base/choose.h"

/* ---- clauses ---- */

static bool at_clause(const struct core *core, size_t i)
{
	static const char *const words[] = {"FROM",  "WHERE", "GROUP", "HAVING",
					    "ORDER", "LIMIT", NULL};

	return one_of(core, i, words);
}

/* Which clause begins at `i`; *i moves behind its words. */
static struct span *clause(struct core *core, size_t *i)
{
	if (is(core, *i, "GROUP") || is(core, *i, "ORDER")) {
		bool group = is(core, *i, "GROUP");

		if (!is(core, *i + 1, "BY"))
			return NULL;
		*i += 2;
		*(group ? &core->has_group : &core->has_order) = true;
		return group ? &core->group : &core->order;
	}
	++*i;
	if (is(core, *i - 1, "FROM"))
		return &core->from;
	if (is(core, *i - 1, "WHERE")) {
		core->has_where = true;
		return &core->where;
	}
	if (is(core, *i - 1, "HAVING")) {
		core->has_having = true;
		return &core->having;
	}
	core->has_limit = true;
	return &core->limit;
}

/* The clauses of the SELECT at token `select`. */
static bool find_clauses(struct core *core, size_t select)
{
	static const char *const others[] = {"UNION",  "INTERSECT", "EXCEPT", "WINDOW",
					     "SELECT", "VALUES",    NULL};
	size_t i = select + 1;
	struct span *open = &core->items;
	int depth = 0;

	core->whole.from = select;
	core->distinct = is(core, i, "DISTINCT");
	i += core->distinct || is(core, i, "ALL");
	open->from = i;
	for (; i < core->count && !(is(core, i, ")") && !depth) && !is(core, i, ";"); i++) {
		depth += depth_change(core, i);
		if (one_of(core, i, others))
			return false;
		if (depth || !at_clause(core, i) || (i && is(core, i - 1, ".")))
			continue;
		open->to = i;
		if (!(open = clause(core, &i)) || open->to)
			return false;
		open->from = i--;
	}
	open->to = core->whole.to = i;
	return core->from.to > core->from.from && core->items.to > core->items.from &&
	       (!core->has_having || core->has_group);
}

bool ws_core_next_part(const struct core *core, struct span list, struct span *part)
{
	int depth = 0;
	size_t i;

	if (part->to >= list.to)
		return false;
	part->from = part->to ? part->to + 1 : list.from;
	for (i = part->from; i < list.to && (depth || !is(core, i, ",")); i++)
		depth += depth_change(core, i);
	part->to = i;
	return part->from < i;
}

static bool ends_operand(const struct core *core, size_t i)
{
	const struct ws_sql_token *token = &core->token[i];

	if (token->kind == WS_T_NAME)
		return !ws_core_goes_on(core, i) && !is(core, i, "NOT") && !is(core, i, "CASE");
	return token->kind == WS_T_QUOTED || token->kind == WS_T_INT || token->kind == WS_T_REAL ||
	       token->kind == WS_T_STRING || is(core, i, ")");
}

static bool find_items(struct core *core)
{
	static const char *const no_alias[] = {"END", "NULL", "ISNULL", "NOTNULL", NULL};
	struct span part = {0, 0};

	while (ws_core_next_part(core, core->items, &part)) {
		struct item *it = &core->item[core->item_count];
		size_t last = part.to - 1;

		if (core->item_count++ == MOST_ITEMS)
			return false;
		*it = (struct item){.span = part};
		if (last < part.from + 1 ||
		    (!is_name(core, last) && core->token[last].kind != WS_T_STRING))
			continue;
		if (is(core, last - 1, "AS")) {
			it->alias = last - 1;
		} else if (ends_operand(core, last - 1) && !one_of(core, last, no_alias)) {
			it->alias = last;
		}
		if (!it->alias)
			continue;
		it->name = last;
		it->span.to = it->alias;
		if (it->span.to <= it->span.from || core->token[last].kind == WS_T_STRING)
			return false;
	}
	return part.to == core->items.to && core->item_count;
}

/* ---- FROM ---- */

static struct ws_sql_table *table_of(const struct core *core, size_t i, size_t *next)
{
	size_t report = 0, name = i;
	char schema[32];

	if (is(core, i + 1, ".")) {
		name = i + 2;
		if (!ws_sql_token_names(&core->token[i], "main")) {
			for (report = 0; report < core->sql->report_count; report++) {
				snprintf(schema, sizeof(schema), "report%zu", report + 1);
				if (ws_sql_token_names(&core->token[i], schema))
					break;
			}
			if (report == core->sql->report_count || core->sql->report_count < 2)
				return NULL;
		}
	}
	*next = name + 1;
	for (size_t k = 0; is_name(core, name) && k < core->sql->reports[report].table_count; k++)
		if (ws_sql_token_names(&core->token[name],
				       core->sql->reports[report].tables[k]->name))
			return core->sql->reports[report].tables[k];
	return NULL;
}

/* A name that the statement gives to something of its own: WITH name AS (...). */
static bool defined_here(const struct core *core, const char *name)
{
	for (size_t i = 0; i + 1 < core->count; i++)
		if (ws_sql_token_names(&core->token[i], name) &&
		    (is(core, i + 1, "(") || is(core, i + 1, "AS")) &&
		    (i == 0 || !is(core, i - 1, ".")) &&
		    (is(core, i + 1, "(") || is(core, i + 2, "(") || is(core, i + 2, "NOT") ||
		     is(core, i + 2, "MATERIALIZED")))
			return true;
	return false;
}

static bool add_terms(struct core *core, struct span span);

struct from_table {
	struct ws_sql_table *table;
	const struct ws_sql_token *alias;
	bool left;
	struct span on;
};

static bool read_table(struct core *core, size_t *i, struct from_table *table)
{
	static const char *const after[] = {"JOIN",  "INNER", "LEFT", "CROSS", "NATURAL",
					    "RIGHT", "FULL",  "ON",   "USING", "INDEXED",
					    "NOT",   "OUTER", NULL};
	size_t at = *i;

	if (!is_name(core, at) || !(table->table = table_of(core, at, i)) ||
	    defined_here(core, table->table->name))
		return false;
	table->alias = &core->token[*i - 1];
	if (is(core, *i, "AS"))
		++*i;
	else if (*i >= core->from.to || !is_name(core, *i) || one_of(core, *i, after))
		return true;
	if (*i >= core->from.to || !is_name(core, *i))
		return false;
	table->alias = &core->token[(*i)++];
	return true;
}

static bool read_on(struct core *core, size_t *i, struct from_table *table)
{
	static const char *const ends[] = {",",	      "JOIN",  "INNER", "LEFT", "CROSS",
					   "NATURAL", "RIGHT", "FULL",	NULL};
	int depth = 0;

	if (!is(core, *i, "ON") || *i >= core->from.to)
		return *i >= core->from.to || one_of(core, *i, ends);
	table->on.from = ++*i;
	for (; *i < core->from.to && (depth || !one_of(core, *i, ends)); ++*i)
		depth += depth_change(core, *i);
	table->on.to = *i;
	return true;
}

/* s.id = column, either way round: the column, and the string's number in *which. */
static bool is_join(struct core *core, struct span span, uint32_t *which, uint8_t *column)
{
	for (int turn = 0; turn < 2; turn++)
		for (uint32_t k = 0; k < core->fold->joins; k++) {
			struct ws_sql_atom atom;
			size_t id = turn ? span.to - 3 : span.from, n;
			struct span other = turn ? (struct span){span.from, span.to - 4}
						 : (struct span){span.from + 4, span.to};

			if (span.to < span.from + 5 || core->string[k].joined ||
			    !ws_core_same_name(core->string[k].alias, &core->token[id]) ||
			    !is(core, id + 1, ".") ||
			    !ws_sql_token_names(&core->token[id + 2], "id") ||
			    !(is(core, turn ? id - 1 : id + 3, "=") ||
			      is(core, turn ? id - 1 : id + 3, "==")))
				continue;
			n = ws_core_resolve_in(core, 0, other.from, other.to,
					       &atom); /* of the table, not of another join */
			if (!n || other.from + n != other.to ||
			    ws_xcolumn_shape(&core->fold->table->columns[atom.column]) !=
				    WS_SHAPE_STRING)
				return false;
			*which = k;
			*column = atom.column;
			return true;
		}
	return false;
}

/* What a table of the list is to the fold: the one whose rows are grouped, or StringIds once more.
 */
static bool take_table(struct core *core, const struct from_table *table,
		       const struct from_table **strings)
{
	struct ws_sql_fold *fold = core->fold;

	if (table->table->kind == WS_SQL_BLOCKS && !fold->table && !table->left) {
		fold->table = table->table;
		fold->exprs.table = table->table;
		core->alias = table->alias;
		return true;
	}
	if (table->table->kind != WS_SQL_STRINGS || fold->joins == WS_SQL_JOINS)
		return false;
	core->string[fold->joins].alias = table->alias;
	fold->join[fold->joins].left = table->left;
	strings[fold->joins++] = table;
	return true;
}

/* The words between two tables; *left: of a left join. */
static bool read_joint(const struct core *core, size_t *i, bool *left)
{
	bool word = true;

	if (is(core, *i, "LEFT")) {
		*left = true;
		*i += is(core, *i + 1, "OUTER") ? 2 : 1;
	} else if (is(core, *i, "INNER")) {
		++*i;
	} else {
		word = false;
	}
	if (!is(core, *i, "JOIN") && (word || !is(core, *i, ",")))
		return false;
	++*i;
	return true;
}

/* Every StringIds is of the table's report, and a left join's condition is its own. */
static bool join_strings(struct core *core, const struct from_table *const *strings)
{
	for (uint32_t k = 0; k < core->fold->joins; k++)
		if (strings[k]->table->of != core->fold->table->of)
			return false;
	for (uint32_t k = 0; k < core->fold->joins; k++) {
		uint32_t which = 0;

		if (!core->fold->join[k].left)
			continue;
		if (!is_join(core, strings[k]->on, &which, &core->fold->join[k].column) ||
		    which != k)
			return false;
		core->string[k].joined = true;
	}
	return true;
}

/* One table of the report, and StringIds any number of times. */
static bool read_from(struct core *core)
{
	struct from_table tables[WS_SQL_JOINS + 1] = {0};
	const struct from_table *strings[WS_SQL_JOINS];
	size_t i = core->from.from, n = 0;

	do {
		if (n == WS_COUNT(tables) || (n && !read_joint(core, &i, &tables[n].left)) ||
		    !read_table(core, &i, &tables[n]) || !read_on(core, &i, &tables[n]) ||
		    !take_table(core, &tables[n], strings))
			return false;
		n++;
	} while (i < core->from.to);
	if (!core->fold->table || !join_strings(core, strings))
		return false;
	for (size_t k = 0; k < n; k++)
		if (!tables[k].left && tables[k].on.to && !add_terms(core, tables[k].on))
			return false;
	return true;
}

/* ---- WHERE ---- */

/* Split at AND; what has an OR or a CASE in it stays together. */
static bool add_terms(struct core *core, struct span span)
{
	size_t from = span.from;
	bool within = false, whole = false;
	int depth = 0;

	for (size_t i = span.from; i < span.to; i++) {
		whole |= (!depth && is(core, i, "OR")) || is(core, i, "CASE");
		depth += depth_change(core, i);
	}
	for (size_t i = span.from; i <= span.to; i++) {
		depth += i < span.to ? depth_change(core, i) : 0;
		within |= i < span.to && !depth && is(core, i, "BETWEEN");
		if (i < span.to && (whole || depth || !is(core, i, "AND")))
			continue;
		if (i < span.to && within) {
			within = false;
			continue;
		}
		if (core->term_count == MOST_TERMS || i == from)
			return false;
		core->term[core->term_count++] = (struct span){from, i};
		from = i + 1;
	}
	return true;
}

static bool is_time(const struct core *core, const struct ws_sql_node *node)
{
	const struct ws_xcolumn *column = &core->fold->table->columns[node->column];

	return node->op == WS_N_COLUMN &&
	       (column->from == WS_XF_TIME || column->from == WS_XF_NTIME) &&
	       (column->source == ws_table_start(core->fold->table->view->source) ||
		column->source == ws_table_end(core->fold->table->view->source));
}

/* The time on the session clock that a literal means, widened where it is no whole number. */
static bool moment(const struct core *core, const struct ws_sql_node *node, bool lower, uint64_t *t)
{
	__int128 x;

	if (node->op == WS_N_INT)
		x = node->i;
	else if (node->op == WS_N_REAL && node->r > -9e18 && node->r < 9e18)
		x = (__int128)node->r + (lower ? -1 : 1);
	else
		return false;
	x += core->fold->table->of->export.base;
	*t = x < 0 ? 0 : x > (__int128)(UINT64_MAX - 1) ? UINT64_MAX - 1 : (uint64_t)x;
	return true;
}

/* What a condition says of times. */
static void bound(struct core *core, uint16_t number)
{
	struct ws_sql_fold *fold = core->fold;
	const struct ws_sql_node *node = &fold->exprs.node[number],
				 *left = &fold->exprs.node[node->a],
				 *right = &fold->exprs.node[node->b];
	uint64_t t;

	if (node->op == WS_N_AND) {
		bound(core, node->a);
		bound(core, node->b);
		return;
	}
	if (node->op != WS_N_LT && node->op != WS_N_LE && node->op != WS_N_EQ)
		return;
	if ((is_time(core, left) && moment(core, right, false, &t)) ||
	    (node->op == WS_N_EQ && is_time(core, right) && moment(core, left, false, &t)))
		fold->upper = ws_min(t, fold->upper);
	if ((is_time(core, right) && moment(core, left, true, &t)) ||
	    (node->op == WS_N_EQ && is_time(core, left) && moment(core, right, true, &t)))
		fold->lower = ws_max(t, fold->lower);
}

static bool read_conditions(struct core *core)
{
	struct ws_sql_fold *fold = core->fold;

	for (size_t i = 0; i < core->term_count; i++) {
		uint32_t which;
		uint8_t column;

		if (!is_join(core, core->term[i], &which, &column))
			continue;
		fold->join[which].column = column;
		core->string[which].joined = true;
		core->term[i--] = core->term[--core->term_count];
	}
	for (uint32_t k = 0; k < fold->joins; k++)
		if (!core->string[k].joined)
			return false;
	for (size_t i = 0; i < core->term_count; i++) {
		size_t nodes = fold->exprs.n;
		uint64_t reads = fold->exprs.reads;
		uint16_t n = ws_core_number(core, core->term[i]);
		struct put put = {.core = core, .span = core->term[i], .out = &core->conditions};

		if (n && fold->filters < WS_SQL_FILTERS) {
			fold->filter[fold->filters++] = n;
			bound(core, n);
			continue;
		}
		fold->exprs.n = nodes;
		fold->exprs.reads = reads;
		for (size_t k = core->term[i].from; k < core->term[i].to; k++)
			core->unordered |= is(core, k, "OR") || is(core, k, "IN");
		if (fold->hard_conditions++)
			ws_text_puts(&core->conditions, "AND ");
		ws_text_puts(&core->conditions, "(");
		if (!ws_core_put(&put))
			return false;
		ws_text_puts(&core->conditions, ") ");
	}
	return true;
}

/* ---- GROUP BY ---- */

/* What a term of GROUP BY is: an item by its number or alias, or itself. */
static struct span meant(const struct core *core, struct span term)
{
	struct ws_sql_atom atom;
	const struct item *it;

	if (term.to != term.from + 1)
		return term;
	if (core->token[term.from].kind == WS_T_INT) {
		size_t n = strtoul(core->token[term.from].text, NULL, 10);

		return n >= 1 && n <= core->item_count ? core->item[n - 1].span
						       : (struct span){0, 0};
	}
	if (ws_core_resolve(core, term.from, term.to, &atom))
		return term;
	it = ws_core_aliased(core, term.from);
	return it ? it->span : term;
}

static bool add_hard(struct core *core, struct span span, struct ws_sql_group_by *by)
{
	struct put put = {.core = core, .span = span, .out = &core->fold->hard};

	if (is(core, span.from, "CAST")) /* it has the affinity of a column */
		return false;
	if (core->fold->hard_keys)
		ws_text_puts(&core->fold->hard, ", ");
	by->how = WS_BY_HARD;
	by->number = (uint16_t)core->fold->hard_keys++;
	return ws_core_put(&put);
}

static bool add_by(struct core *core, struct span span)
{
	struct ws_sql_fold *fold = core->fold;
	struct ws_sql_group_by *by = &fold->by[fold->bys];
	struct ws_sql_atom atom;
	size_t n, nodes = fold->exprs.n;
	uint64_t reads = fold->exprs.reads;
	int number;

	if (span.to <= span.from || fold->bys == WS_SQL_KEYS)
		return false;
	n = ws_core_resolve(core, span.from, span.to, &atom);
	if (n && span.from + n == span.to) {
		number = ws_core_atom(core, &atom);
		if (number < 0)
			return false;
		*by = (struct ws_sql_group_by){.how = WS_BY_ATOM, .number = (uint16_t)number};
	} else if ((by->number = ws_core_number(core, span))) {
		by->how = WS_BY_NODE;
		if (is(core, span.from, "CAST"))
			return false;
	} else {
		fold->exprs.n = nodes;
		fold->exprs.reads = reads;
		if (!add_hard(core, span, by))
			return false;
	}
	core->by[fold->bys++] = span;
	return true;
}

/* With as many terms in ORDER BY as in GROUP BY, SQLite goes through groups the way that ORDER BY
 * says, whatever it is of. */
static void directions(struct core *core)
{
	struct span part = {0, 0};
	uint32_t n = 0;

	if (!core->has_order || (core->whole.from && !is(core, 0, "WITH") && !core->has_limit))
		return; /* of a sub-query it is left out, most often */
	while (ws_core_next_part(core, core->order, &part))
		n++;
	if (n != core->fold->bys)
		return;
	part = (struct span){0, 0};
	for (uint32_t k = 0; k < n && ws_core_next_part(core, core->order, &part); k++)
		for (size_t i = part.from; i < part.to; i++)
			core->fold->by[k].descending |= i > part.from && is(core, i, "DESC");
}

static bool read_group(struct core *core)
{
	struct span part = {0, 0};

	while (core->has_group && ws_core_next_part(core, core->group, &part))
		if (!add_by(core, meant(core, part)))
			return false;
	directions(core);
	return !core->has_group || (core->fold->bys && part.to == core->group.to);
}

/* Where the plan might go through StringIds first, rows of a group come in another order. */
static bool is_ordered(const struct core *core)
{
	if (core->unordered)
		return false;
	for (uint32_t j = 0; j < core->fold->joins; j++) {
		struct ws_sql_atom id = {core->fold->join[j].column, WS_ATOM_COLUMN};

		if (!core->fold->join[j].left && !ws_core_determined(core, &id))
			return false;
	}
	return true;
}

bool ws_core_read(struct core *core, size_t select)
{
	if (!find_clauses(core, select) || !find_items(core) || !read_from(core) ||
	    (core->has_where && !add_terms(core, core->where)) || !read_conditions(core) ||
	    !read_group(core))
		return false;
	core->fold->ordered = is_ordered(core);
	return true;
}
