/* lex.h - splits a statement into tokens, as far as finding what group_by.h can compute needs them.
 */
#ifndef WS_SQL_LEX_H
#define WS_SQL_LEX_H

#include <stdbool.h>
#include <stddef.h>

struct ws_sql_token {
	enum {
		WS_T_END,
		WS_T_NAME,   /* a word */
		WS_T_QUOTED, /* a name in quotes of any kind but '' */
		WS_T_INT,
		WS_T_REAL,
		WS_T_STRING,
		WS_T_OP,    /* one character, or two that belong together */
		WS_T_OTHER, /* parameters, blobs, and what cannot be read */
	} kind;
	const char *text;
	size_t length;
};

/* The tokens of `sql`, an END last, which *count leaves out. The caller frees them. */
struct ws_sql_token *ws_sql_tokens(const char *sql, size_t length, size_t *count);
/* Whether it is this word, in any case, or this operator. */
bool ws_sql_token_is(const struct ws_sql_token *token, const char *word);
/* Whether the two are the same; names in any case. */
bool ws_sql_token_same(const struct ws_sql_token *left, const struct ws_sql_token *right);
/* Whether the token is the name `name`, quoted or not, in any case. */
bool ws_sql_token_names(const struct ws_sql_token *token, const char *name);

#endif
