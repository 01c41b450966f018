/* lex.h - a statement as tokens: as far as they must be told apart to find what fold.h can answer.
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
	size_t n;
};

/* The tokens of `sql`, an END last; *count without it. The caller frees them. */
struct ws_sql_token *ws_sql_tokens(const char *sql, size_t len, size_t *count);
/* Is it this word (in capitals), or this operator? */
bool ws_sql_token_is(const struct ws_sql_token *token, const char *word);
/* Do the two mean the same wherever they stand? Names in any case. */
bool ws_sql_token_same(const struct ws_sql_token *left, const struct ws_sql_token *right);
/* Is the token a name, quoted or not, that is `name` in any case? */
bool ws_sql_token_names(const struct ws_sql_token *token, const char *name);

#endif
