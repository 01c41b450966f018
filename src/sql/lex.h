/* lex.h - splits a statement into tokens, as far as finding what group_by.h can compute needs them.
 */
#ifndef WS_SQL_LEX_H
#define WS_SQL_LEX_H

#include <stdbool.h>
#include <stddef.h>

struct ws_sql_token {
	enum {
		WS_TOKEN_END,
		WS_TOKEN_NAME,	 /* a word */
		WS_TOKEN_QUOTED, /* a name in quotes of any kind but '' */
		WS_TOKEN_INT,
		WS_TOKEN_REAL,
		WS_TOKEN_STRING,
		WS_TOKEN_OPERATOR, /* one character, or two that belong together */
		WS_TOKEN_OTHER,	   /* parameters, blobs, and what cannot be read */
	} kind;
	const char *text;
	size_t length;
};

/* The tokens of `sql`, an END last, which *count leaves out. The caller frees them. */
struct ws_sql_token *ws_sql_split_tokens(const char *sql, size_t length, size_t *count);
/* Whether it is this word, in any case, or this operator. */
bool ws_sql_is_token_word(const struct ws_sql_token *token, const char *word);
/* Whether the two are the same; names in any case. */
bool ws_sql_are_same_tokens(const struct ws_sql_token *left, const struct ws_sql_token *right);
/* Whether the token is the name `name`, quoted or not, in any case. */
bool ws_sql_is_token_name(const struct ws_sql_token *token, const char *name);

#endif
