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

/* ---- clauses ---- */

static bool at_clause(const struct core *c, size_t i)
{
	static const char *const words[] = {"FROM",  "WHERE", "GROUP", "HAVING",
					    "ORDER", "LIMIT", NULL};

	return one_of(c, i, words);
}

/* Which clause begins at `i`; *i moves behind its words. */
static struct span *clause(struct core *c, size_t *i)
{
	if (is(c, *i, "GROUP") || is(c, *i, "ORDER")) {
		bool group = is(c, *i, "GROUP");

		if (!is(c, *i + 1, "BY"))
			return NULL;
		*i += 2;
		*(group ? &c->has_group : &c->has_order) = true;
		return group ? &c->group : &c->order;
	}
	++*i;
	if (is(c, *i - 1, "FROM"))
		return &c->from;
	if (is(c, *i - 1, "WHERE")) {
		c->has_where = true;
		return &c->where;
	}
	if (is(c, *i - 1, "HAVING")) {
		c->has_having = true;
		return &c->having;
	}
	c->has_limit = true;
	return &c->limit;
}

/* The clauses of the SELECT at token `select`. */
static bool find_clauses(struct core *c, size_t select)
{
	static const char *const others[] = {"UNION",  "INTERSECT", "EXCEPT", "WINDOW",
					     "SELECT", "VALUES",    NULL};
	size_t i = select + 1;
	struct span *open = &c->items;
	int depth = 0;

	c->whole.from = select;
	c->distinct = is(c, i, "DISTINCT");
	i += c->distinct || is(c, i, "ALL");
	open->from = i;
	for (; i < c->count && !(is(c, i, ")") && !depth) && !is(c, i, ";"); i++) {
		depth += depth_change(c, i);
		if (one_of(c, i, others))
			return false;
		if (depth || !at_clause(c, i) || (i && is(c, i - 1, ".")))
			continue;
		open->to = i;
		if (!(open = clause(c, &i)) || open->to)
			return false;
		open->from = i--;
	}
	open->to = c->whole.to = i;
	return c->from.to > c->from.from && c->items.to > c->items.from &&
	       (!c->has_having || c->has_group);
}

bool ws_core_next_part(const struct core *c, struct span list, struct span *part)
{
	int depth = 0;
	size_t i;

	if (part->to >= list.to)
		return false;
	part->from = part->to ? part->to + 1 : list.from;
	for (i = part->from; i < list.to && (depth || !is(c, i, ",")); i++)
		depth += depth_change(c, i);
	part->to = i;
	return part->from < i;
}

static bool ends_operand(const struct core *c, size_t i)
{
	const struct ws_sql_token *t = &c->t[i];

	if (t->kind == WS_T_NAME)
		return !ws_core_goes_on(c, i) && !is(c, i, "NOT") && !is(c, i, "CASE");
	return t->kind == WS_T_QUOTED || t->kind == WS_T_INT || t->kind == WS_T_REAL ||
	       t->kind == WS_T_STRING || is(c, i, ")");
}

static bool find_items(struct core *c)
{
	static const char *const no_alias[] = {"END", "NULL", "ISNULL", "NOTNULL", NULL};
	struct span part = {0, 0};

	while (ws_core_next_part(c, c->items, &part)) {
		struct item *it = &c->item[c->item_count];
		size_t last = part.to - 1;

		if (c->item_count++ == MOST_ITEMS)
			return false;
		*it = (struct item){.e = part};
		if (last < part.from + 1 || (!is_name(c, last) && c->t[last].kind != WS_T_STRING))
			continue;
		if (is(c, last - 1, "AS")) {
			it->alias = last - 1;
		} else if (ends_operand(c, last - 1) && !one_of(c, last, no_alias)) {
			it->alias = last;
		}
		if (!it->alias)
			continue;
		it->name = last;
		it->e.to = it->alias;
		if (it->e.to <= it->e.from || c->t[last].kind == WS_T_STRING)
			return false;
	}
	return part.to == c->items.to && c->item_count;
}

/* ---- FROM ---- */

static struct ws_sql_table *table_of(const struct core *c, size_t i, size_t *next)
{
	size_t report = 0, name = i;
	char schema[32];

	if (is(c, i + 1, ".")) {
		name = i + 2;
		if (!ws_sql_token_names(&c->t[i], "main")) {
			for (report = 0; report < c->s->report_count; report++) {
				snprintf(schema, sizeof(schema), "report%zu", report + 1);
				if (ws_sql_token_names(&c->t[i], schema))
					break;
			}
			if (report == c->s->report_count || c->s->report_count < 2)
				return NULL;
		}
	}
	*next = name + 1;
	for (size_t k = 0; is_name(c, name) && k < c->s->reports[report].table_count; k++)
		if (ws_sql_token_names(&c->t[name], c->s->reports[report].tables[k]->name))
			return c->s->reports[report].tables[k];
	return NULL;
}

/* A name that the statement gives to something of its own: WITH name AS (...). */
static bool defined_here(const struct core *c, const char *name)
{
	for (size_t i = 0; i + 1 < c->count; i++)
		if (ws_sql_token_names(&c->t[i], name) &&
		    (is(c, i + 1, "(") || is(c, i + 1, "AS")) && (i == 0 || !is(c, i - 1, ".")) &&
		    (is(c, i + 1, "(") || is(c, i + 2, "(") || is(c, i + 2, "NOT") ||
		     is(c, i + 2, "MATERIALIZED")))
			return true;
	return false;
}

static bool add_terms(struct core *c, struct span s);

struct from_table {
	struct ws_sql_table *t;
	const struct ws_sql_token *alias;
	bool left;
	struct span on;
};

static bool read_table(struct core *c, size_t *i, struct from_table *t)
{
	static const char *const after[] = {"JOIN",  "INNER", "LEFT", "CROSS", "NATURAL",
					    "RIGHT", "FULL",  "ON",   "USING", "INDEXED",
					    "NOT",   "OUTER", NULL};
	size_t at = *i;

	if (!is_name(c, at) || !(t->t = table_of(c, at, i)) || defined_here(c, t->t->name))
		return false;
	t->alias = &c->t[*i - 1];
	if (is(c, *i, "AS"))
		++*i;
	else if (*i >= c->from.to || !is_name(c, *i) || one_of(c, *i, after))
		return true;
	if (*i >= c->from.to || !is_name(c, *i))
		return false;
	t->alias = &c->t[(*i)++];
	return true;
}

static bool read_on(struct core *c, size_t *i, struct from_table *t)
{
	static const char *const ends[] = {",",	      "JOIN",  "INNER", "LEFT", "CROSS",
					   "NATURAL", "RIGHT", "FULL",	NULL};
	int depth = 0;

	if (!is(c, *i, "ON") || *i >= c->from.to)
		return *i >= c->from.to || one_of(c, *i, ends);
	t->on.from = ++*i;
	for (; *i < c->from.to && (depth || !one_of(c, *i, ends)); ++*i)
		depth += depth_change(c, *i);
	t->on.to = *i;
	return true;
}

/* s.id = column, either way round: the column, and the string's number in *which. */
static bool is_join(struct core *c, struct span s, uint32_t *which, uint8_t *column)
{
	for (int turn = 0; turn < 2; turn++)
		for (uint32_t k = 0; k < c->f->joins; k++) {
			struct ws_sql_atom a;
			size_t id = turn ? s.to - 3 : s.from, n;
			struct span other = turn ? (struct span){s.from, s.to - 4}
						 : (struct span){s.from + 4, s.to};

			if (s.to < s.from + 5 || c->string[k].joined ||
			    !ws_core_same_name(c->string[k].alias, &c->t[id]) ||
			    !is(c, id + 1, ".") || !ws_sql_token_names(&c->t[id + 2], "id") ||
			    !(is(c, turn ? id - 1 : id + 3, "=") ||
			      is(c, turn ? id - 1 : id + 3, "==")))
				continue;
			n = ws_core_resolve_in(c, 0, other.from, other.to,
					       &a); /* of the table, not of another join */
			if (!n || other.from + n != other.to ||
			    ws_xcolumn_shape(&c->f->t->columns[a.column]) != WS_SHAPE_STRING)
				return false;
			*which = k;
			*column = a.column;
			return true;
		}
	return false;
}

/* What a table of the list is to the fold: the one whose rows are grouped, or StringIds once more.
 */
static bool take_table(struct core *c, const struct from_table *t,
		       const struct from_table **strings)
{
	struct ws_sql_fold *f = c->f;

	if (t->t->kind == WS_SQL_BLOCKS && !f->t && !t->left) {
		f->t = t->t;
		f->x.t = t->t;
		c->alias = t->alias;
		return true;
	}
	if (t->t->kind != WS_SQL_STRINGS || f->joins == WS_SQL_JOINS)
		return false;
	c->string[f->joins].alias = t->alias;
	f->join[f->joins].left = t->left;
	strings[f->joins++] = t;
	return true;
}

/* The words between two tables; *left: of a left join. */
static bool read_joint(const struct core *c, size_t *i, bool *left)
{
	bool word = true;

	if (is(c, *i, "LEFT")) {
		*left = true;
		*i += is(c, *i + 1, "OUTER") ? 2 : 1;
	} else if (is(c, *i, "INNER")) {
		++*i;
	} else {
		word = false;
	}
	if (!is(c, *i, "JOIN") && (word || !is(c, *i, ",")))
		return false;
	++*i;
	return true;
}

/* Every StringIds is of the table's report, and a left join's condition is its own. */
static bool join_strings(struct core *c, const struct from_table *const *strings)
{
	for (uint32_t k = 0; k < c->f->joins; k++)
		if (strings[k]->t->of != c->f->t->of)
			return false;
	for (uint32_t k = 0; k < c->f->joins; k++) {
		uint32_t which = 0;

		if (!c->f->join[k].left)
			continue;
		if (!is_join(c, strings[k]->on, &which, &c->f->join[k].column) || which != k)
			return false;
		c->string[k].joined = true;
	}
	return true;
}

/* One table of the report, and StringIds any number of times. */
static bool read_from(struct core *c)
{
	struct from_table t[WS_SQL_JOINS + 1] = {0};
	const struct from_table *strings[WS_SQL_JOINS];
	size_t i = c->from.from, n = 0;

	do {
		if (n == WS_COUNT(t) || (n && !read_joint(c, &i, &t[n].left)) ||
		    !read_table(c, &i, &t[n]) || !read_on(c, &i, &t[n]) ||
		    !take_table(c, &t[n], strings))
			return false;
		n++;
	} while (i < c->from.to);
	if (!c->f->t || !join_strings(c, strings))
		return false;
	for (size_t k = 0; k < n; k++)
		if (!t[k].left && t[k].on.to && !add_terms(c, t[k].on))
			return false;
	return true;
}

/* ---- WHERE ---- */

/* Split at AND; what has an OR or a CASE in it stays together. */
static bool add_terms(struct core *c, struct span s)
{
	size_t from = s.from;
	bool within = false, whole = false;
	int depth = 0;

	for (size_t i = s.from; i < s.to; i++) {
		whole |= (!depth && is(c, i, "OR")) || is(c, i, "CASE");
		depth += depth_change(c, i);
	}
	for (size_t i = s.from; i <= s.to; i++) {
		depth += i < s.to ? depth_change(c, i) : 0;
		within |= i < s.to && !depth && is(c, i, "BETWEEN");
		if (i < s.to && (whole || depth || !is(c, i, "AND")))
			continue;
		if (i < s.to && within) {
			within = false;
			continue;
		}
		if (c->term_count == MOST_TERMS || i == from)
			return false;
		c->term[c->term_count++] = (struct span){from, i};
		from = i + 1;
	}
	return true;
}

static bool is_time(const struct core *c, const struct ws_sql_node *n)
{
	const struct ws_xcolumn *d = &c->f->t->columns[n->column];

	return n->op == WS_N_COLUMN && (d->from == WS_XF_TIME || d->from == WS_XF_NTIME) &&
	       (d->source == ws_table_start(c->f->t->view->source) ||
		d->source == ws_table_end(c->f->t->view->source));
}

/* The time on the session clock that a literal means, widened where it is no whole number. */
static bool moment(const struct core *c, const struct ws_sql_node *n, bool lower, uint64_t *t)
{
	__int128 x;

	if (n->op == WS_N_INT)
		x = n->i;
	else if (n->op == WS_N_REAL && n->r > -9e18 && n->r < 9e18)
		x = (__int128)n->r + (lower ? -1 : 1);
	else
		return false;
	x += c->f->t->of->x.base;
	*t = x < 0 ? 0 : x > (__int128)(UINT64_MAX - 1) ? UINT64_MAX - 1 : (uint64_t)x;
	return true;
}

/* What a condition says of times. */
static void bound(struct core *c, uint16_t number)
{
	struct ws_sql_fold *f = c->f;
	const struct ws_sql_node *n = &f->x.node[number], *a = &f->x.node[n->a],
				 *b = &f->x.node[n->b];
	uint64_t t;

	if (n->op == WS_N_AND) {
		bound(c, n->a);
		bound(c, n->b);
		return;
	}
	if (n->op != WS_N_LT && n->op != WS_N_LE && n->op != WS_N_EQ)
		return;
	if ((is_time(c, a) && moment(c, b, false, &t)) ||
	    (n->op == WS_N_EQ && is_time(c, b) && moment(c, a, false, &t)))
		f->upper = t < f->upper ? t : f->upper;
	if ((is_time(c, b) && moment(c, a, true, &t)) ||
	    (n->op == WS_N_EQ && is_time(c, a) && moment(c, b, true, &t)))
		f->lower = t > f->lower ? t : f->lower;
}

static bool read_conditions(struct core *c)
{
	struct ws_sql_fold *f = c->f;

	for (size_t i = 0; i < c->term_count; i++) {
		uint32_t which;
		uint8_t column;

		if (!is_join(c, c->term[i], &which, &column))
			continue;
		f->join[which].column = column;
		c->string[which].joined = true;
		c->term[i--] = c->term[--c->term_count];
	}
	for (uint32_t k = 0; k < f->joins; k++)
		if (!c->string[k].joined)
			return false;
	for (size_t i = 0; i < c->term_count; i++) {
		size_t nodes = f->x.n;
		uint64_t reads = f->x.reads;
		uint16_t n = ws_core_number(c, c->term[i]);
		struct put p = {.c = c, .s = c->term[i], .out = &c->conditions};

		if (n && f->filters < WS_SQL_FILTERS) {
			f->filter[f->filters++] = n;
			bound(c, n);
			continue;
		}
		f->x.n = nodes;
		f->x.reads = reads;
		for (size_t k = c->term[i].from; k < c->term[i].to; k++)
			c->unordered |= is(c, k, "OR") || is(c, k, "IN");
		if (f->hard_conditions++)
			ws_text_puts(&c->conditions, "AND ");
		ws_text_puts(&c->conditions, "(");
		if (!ws_core_put(&p))
			return false;
		ws_text_puts(&c->conditions, ") ");
	}
	return true;
}

/* ---- GROUP BY ---- */

/* What a term of GROUP BY is: an item by its number or alias, or itself. */
static struct span meant(const struct core *c, struct span term)
{
	struct ws_sql_atom a;
	const struct item *it;

	if (term.to != term.from + 1)
		return term;
	if (c->t[term.from].kind == WS_T_INT) {
		size_t n = strtoul(c->t[term.from].s, NULL, 10);

		return n >= 1 && n <= c->item_count ? c->item[n - 1].e : (struct span){0, 0};
	}
	if (ws_core_resolve(c, term.from, term.to, &a))
		return term;
	it = ws_core_aliased(c, term.from);
	return it ? it->e : term;
}

static bool add_hard(struct core *c, struct span s, struct ws_sql_group_by *by)
{
	struct put p = {.c = c, .s = s, .out = &c->f->hard};

	if (is(c, s.from, "CAST")) /* it has the affinity of a column */
		return false;
	if (c->f->hard_keys)
		ws_text_puts(&c->f->hard, ", ");
	by->how = WS_BY_HARD;
	by->number = (uint16_t)c->f->hard_keys++;
	return ws_core_put(&p);
}

static bool add_by(struct core *c, struct span s)
{
	struct ws_sql_fold *f = c->f;
	struct ws_sql_group_by *by = &f->by[f->bys];
	struct ws_sql_atom a;
	size_t n, nodes = f->x.n;
	uint64_t reads = f->x.reads;
	int number;

	if (s.to <= s.from || f->bys == WS_SQL_KEYS)
		return false;
	n = ws_core_resolve(c, s.from, s.to, &a);
	if (n && s.from + n == s.to) {
		number = ws_core_atom(c, &a);
		if (number < 0)
			return false;
		*by = (struct ws_sql_group_by){.how = WS_BY_ATOM, .number = (uint16_t)number};
	} else if ((by->number = ws_core_number(c, s))) {
		by->how = WS_BY_NODE;
		if (is(c, s.from, "CAST"))
			return false;
	} else {
		f->x.n = nodes;
		f->x.reads = reads;
		if (!add_hard(c, s, by))
			return false;
	}
	c->by[f->bys++] = s;
	return true;
}

/* With as many terms in ORDER BY as in GROUP BY, SQLite goes through groups the way that ORDER BY
 * says, whatever it is of. */
static void directions(struct core *c)
{
	struct span part = {0, 0};
	uint32_t n = 0;

	if (!c->has_order || (c->whole.from && !is(c, 0, "WITH") && !c->has_limit))
		return; /* of a sub-query it is left out, most often */
	while (ws_core_next_part(c, c->order, &part))
		n++;
	if (n != c->f->bys)
		return;
	part = (struct span){0, 0};
	for (uint32_t k = 0; k < n && ws_core_next_part(c, c->order, &part); k++)
		for (size_t i = part.from; i < part.to; i++)
			c->f->by[k].descending |= i > part.from && is(c, i, "DESC");
}

static bool read_group(struct core *c)
{
	struct span part = {0, 0};

	while (c->has_group && ws_core_next_part(c, c->group, &part))
		if (!add_by(c, meant(c, part)))
			return false;
	directions(c);
	return !c->has_group || (c->f->bys && part.to == c->group.to);
}

/* Where the plan might go through StringIds first, rows of a group come in another order. */
static bool is_ordered(const struct core *c)
{
	if (c->unordered)
		return false;
	for (uint32_t j = 0; j < c->f->joins; j++) {
		struct ws_sql_atom id = {c->f->join[j].column, WS_ATOM_COLUMN};

		if (!c->f->join[j].left && !ws_core_determined(c, &id))
			return false;
	}
	return true;
}

bool ws_core_read(struct core *c, size_t select)
{
	if (!find_clauses(c, select) || !find_items(c) || !read_from(c) ||
	    (c->has_where && !add_terms(c, c->where)) || !read_conditions(c) || !read_group(c))
		return false;
	c->f->ordered = is_ordered(c);
	return true;
}
