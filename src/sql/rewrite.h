/*
 * rewrite.h - what the parts of rewrite.c share: a SELECT taken apart into spans of tokens, and the
 * grouping that is made from it.
 *
 * rewrite_clauses.c reads a SELECT with rewrite_names.c (what names refer to) and rewrite_numbers.c
 * (expressions that are computed here); rewrite.c writes the new one with rewrite_words.c
 * (expressions that are left to SQLite). Functions report by their result when they do not
 * understand what they read, and then the statement stays as it is. Private to these files.
 */
#ifndef WS_SQL_REWRITE_H
#define WS_SQL_REWRITE_H

#include <stdlib.h>
#include <string.h>

#include "sql/group_by.h"

enum { MOST_ITEMS = 64, MOST_TERMS = 40 };

struct token_span {
	size_t from, to; /* tokens */
};

struct select_parts {
	struct ws_sql *sql;
	const struct ws_sql_token *tokens;
	size_t token_count;
	struct ws_sql_grouping *grouping;
	struct token_span items, from, where, group, having, order, limit, whole;
	bool distinct, has_where, has_group, has_having, has_order, has_limit;
	struct select_item {
		struct token_span span;
		size_t alias, name; /* tokens of `AS name`, or of the name alone; 0 for none */
	} item_list[MOST_ITEMS];
	size_t item_count;
	const struct ws_sql_token *alias; /* the statement's name for the table */
	struct {
		const struct ws_sql_token *alias;
		bool joined;
	} strings[WS_SQL_JOINS];	     /* by index in grouping->joins */
	struct token_span terms[MOST_TERMS]; /* conditions */
	size_t term_count;
	struct token_span group_terms[WS_SQL_KEYS]; /* the terms of grouping->terms */
	struct ws_text conditions;		    /* those that SQLite computes */
	bool unordered;				    /* SQLite may read rows in another order */
	int depth;				    /* of expressions within expressions */
};

static inline bool token_is(const struct select_parts *select, size_t position, const char *word)
{
	return position < select->token_count &&
	       ws_sql_is_token_word(&select->tokens[position], word);
}

static inline bool token_is_name(const struct select_parts *select, size_t position)
{
	return position < select->token_count && (select->tokens[position].kind == WS_TOKEN_NAME ||
						  select->tokens[position].kind == WS_TOKEN_QUOTED);
}

static inline bool token_is_one_of(const struct select_parts *select, size_t position,
				   const char *const *words)
{
	for (; *words; words++)
		if (token_is(select, position, *words))
			return true;
	return false;
}

/* By how much the depth of parentheses changes at the token. */
static inline int nesting_change(const struct select_parts *select, size_t position)
{
	return token_is(select, position, "(") - token_is(select, position, ")");
}

/* ---- rewrite_names.c ---- */

/* Whether the token is the same name as `name`, quoted or not. `name` may be NULL, which matches
 * none. */
bool ws_rewrite_is_same_name(const struct ws_sql_token *name, const struct ws_sql_token *token);

/* Find the column that the tokens from `position` on name, in the table and the first `joins`
 * joins. Returns the number of those tokens, or 0 when they name none of ours. */
size_t ws_rewrite_resolve_name_in(const struct select_parts *select, uint32_t joins,
				  size_t position, size_t to, struct ws_sql_field *field);
size_t ws_rewrite_resolve_name(const struct select_parts *select, size_t position, size_t to,
			       struct ws_sql_field *field); /* in all joins */

/* The number of the field in the grouping, to which it is added; -1 when there are too many. */
int ws_rewrite_add_field(struct select_parts *select, const struct ws_sql_field *field);

/* The item that has the token as its alias, or NULL. */
const struct select_item *ws_rewrite_find_aliased_item(const struct select_parts *select,
						       size_t position);

/* Whether the field has only one value in each group. */
bool ws_rewrite_is_determined(const struct select_parts *select, const struct ws_sql_field *field);

/* ---- rewrite_numbers.c ---- */

/* Make the node of an expression that takes the whole span; 0 when it is not understood. */
uint16_t ws_rewrite_parse_number(struct select_parts *select, struct token_span span);

/* ---- rewrite_words.c ---- */

struct expression_writer {
	struct select_parts *select;
	struct token_span span;
	bool aggregates; /* of groups: has aggregates, and only such columns as are the same in all
			    rows of a group */
	bool aliases;	 /* aliases of items may occur */
	struct ws_text *out;
	bool operand; /* one has just been written */
};

/* Write a span as an expression on the table of groups, or without `aggregates` on the table of the
 * current fields. False when something is not understood. */
bool ws_rewrite_put_expression(struct expression_writer *writer);

/* Write one token as it stands; `operand` says whether it ends an operand. */
void ws_rewrite_put_token(struct expression_writer *writer, size_t position, bool operand);

/* Whether an expression goes on after this word. */
bool ws_rewrite_expression_goes_on(const struct select_parts *select, size_t position);

/* ---- rewrite_clauses.c ---- */

/* Find the next part of a list separated by commas; false at its end. `part` begins as {0, 0}. */
bool ws_rewrite_find_next_part(const struct select_parts *select, struct token_span list,
			       struct token_span *part);

/* Read the SELECT at token `select_token`. False when something is not understood. */
bool ws_rewrite_read_select(struct select_parts *select, size_t select_token);

#endif
