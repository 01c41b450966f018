/*
 * core.h - what the parts of core.c share: a SELECT taken apart, as spans of its tokens, and the
 * fold that comes of it.
 *
 * core_clauses.c reads a SELECT with core_names.c (what a name is of) and core_number.c
 * (expressions that are computed here); core.c writes what stays of it, with core_words.c
 * (expressions that are left to SQLite). Functions that may not understand what they read say so by
 * their result, and then the statement stays as it is. Private to these files.
 */
#ifndef WS_SQL_CORE_H
#define WS_SQL_CORE_H

#include <stdlib.h>
#include <string.h>

#include "sql/fold.h"

enum { MOST_ITEMS = 64, MOST_TERMS = 40 };

struct span {
	size_t from, to; /* tokens */
};

struct core {
	struct ws_sql *sql;
	const struct ws_sql_token *token;
	size_t count;
	struct ws_sql_fold *fold;
	struct span items, from, where, group, having, order, limit, whole;
	bool distinct, has_where, has_group, has_having, has_order, has_limit;
	struct item {
		struct span span;
		size_t alias, name; /* tokens of `AS name`, or of the name alone; 0 for none */
	} item[MOST_ITEMS];
	size_t item_count;
	const struct ws_sql_token *alias; /* what the table is called here */
	struct {
		const struct ws_sql_token *alias;
		bool joined;
	} string[WS_SQL_JOINS];	      /* by place in f->join */
	struct span term[MOST_TERMS]; /* conditions */
	size_t term_count;
	struct span by[WS_SQL_KEYS]; /* what f->by[] is of */
	struct ws_text conditions;   /* hard ones */
	bool unordered;
	int depth; /* of expressions within expressions */
};

static inline bool is(const struct core *core, size_t i, const char *word)
{
	return i < core->count && ws_sql_token_is(&core->token[i], word);
}

static inline bool is_name(const struct core *core, size_t i)
{
	return i < core->count &&
	       (core->token[i].kind == WS_T_NAME || core->token[i].kind == WS_T_QUOTED);
}

static inline bool one_of(const struct core *core, size_t i, const char *const *words)
{
	for (; *words; words++)
		if (is(core, i, *words))
			return true;
	return false;
}

static inline int depth_change(const struct core *core, size_t i)
{
	return is(core, i, "(") ? 1 : is(core, i, ")") ? -1 : 0;
}

/* ---- core_names.c ---- */

/* Does the token mean what `name`, quoted or not, does? NULL is no name. */
bool ws_core_same_name(const struct ws_sql_token *name, const struct ws_sql_token *token);

/* The column that tokens from `i` on name; its length in tokens, or 0 when they name none of ours.
 * `joins`: of so many. */
size_t ws_core_resolve_in(const struct core *core, uint32_t joins, size_t i, size_t to,
			  struct ws_sql_atom *atom);
size_t ws_core_resolve(const struct core *core, size_t i, size_t to,
		       struct ws_sql_atom *atom); /* of all joins */

/* Number of the atom among those of the fold, where it is put; -1 when there is no room. */
int ws_core_atom(struct core *core, const struct ws_sql_atom *atom);

/* The item whose alias the token is, or NULL. */
const struct item *ws_core_aliased(const struct core *core, size_t i);

/* Does the column have one value in each group? */
bool ws_core_determined(const struct core *core, const struct ws_sql_atom *atom);

/* ---- core_number.c ---- */

/* The node of a whole span, or 0. */
uint16_t ws_core_number(struct core *core, struct span span);

/* ---- core_words.c ---- */

struct put {
	struct core *core;
	struct span span;
	bool aggregates; /* of groups: columns only as far as they are the same in all rows of a
			    group */
	bool aliases;	 /* of items may be named */
	struct ws_text *out;
	bool operand; /* one has just been put */
};

/* Write a span as an expression of the table of groups (or, of the combination). False when
 * something is not understood. */
bool ws_core_put(struct put *put);

/* Write one token as it stands; `operand`: one is complete with it. */
void ws_core_put_token(struct put *put, size_t i, bool operand);

/* Is it a word behind which an expression goes on? */
bool ws_core_goes_on(const struct core *core, size_t i);

/* ---- core_clauses.c ---- */

/* The next part of a list; false at its end. `part` begins as {0, 0}. */
bool ws_core_next_part(const struct core *core, struct span list, struct span *part);

/* Read the SELECT at token `select`. False when something is not understood. */
bool ws_core_read(struct core *core, size_t select);

#endif
