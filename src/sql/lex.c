/* lex.c - see lex.h. What SQLite reads otherwise than this is refused later: nothing here decides
 * what a statement means. */
#include "sql/lex.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

static bool starts_name(char letter)
{
	return isalpha((unsigned char)letter) || letter == '_' || (unsigned char)letter >= 0x80;
}

static bool in_name(char letter)
{
	return starts_name(letter) || isdigit((unsigned char)letter) || letter == '$';
}

/* Length of what is passed over: blanks and comments. */
static size_t blank(const char *text, const char *end)
{
	const char *at = text;

	while (at < end) {
		if (isspace((unsigned char)*at)) {
			at++;
		} else if (end - at >= 2 && at[0] == '-' && at[1] == '-') {
			const char *line = memchr(at, '\n', (size_t)(end - at));

			at = line ? line + 1 : end;
		} else if (end - at >= 2 && at[0] == '/' && at[1] == '*') {
			for (at += 2; at < end && !(at[0] == '*' && at + 1 < end && at[1] == '/');)
				at++;
			at = at < end ? at + 2 : end;
		} else {
			break;
		}
	}
	return (size_t)(at - text);
}

/* A quoted text; `close` doubled stands for itself, which is for no one here to read. */
static size_t quoted(const char *text, const char *end, char close, bool *plain)
{
	const char *at = text + 1;

	*plain = true;
	while (at < end && (*at != close || (at + 1 < end && at[1] == close && close != ']'))) {
		*plain &= *at != close;
		at += *at == close ? 2 : 1;
	}
	if (at >= end)
		*plain = false;
	return at < end ? (size_t)(at - text) + 1 : (size_t)(end - text);
}

static size_t number(const char *text, const char *end, struct ws_sql_token *token)
{
	const char *at = text;

	token->kind = WS_T_INT;
	if (end - at > 2 && *at == '0' && (at[1] == 'x' || at[1] == 'X')) {
		for (at += 2; at < end && isxdigit((unsigned char)*at);)
			at++;
	} else {
		while (at < end && (isdigit((unsigned char)*at) || *at == '.')) {
			if (*at == '.' && token->kind == WS_T_REAL)
				break;
			token->kind = *at++ == '.' ? WS_T_REAL : token->kind;
		}
		if (end - at > 1 && (*at == 'e' || *at == 'E') &&
		    (isdigit((unsigned char)at[1]) ||
		     (end - at > 2 && strchr("+-", at[1]) && isdigit((unsigned char)at[2])))) {
			token->kind = WS_T_REAL;
			for (at += 2; at < end && isdigit((unsigned char)*at);)
				at++;
		}
	}
	if (at < end && in_name(*at))
		token->kind = WS_T_OTHER;
	while (at < end && in_name(*at))
		at++;
	return (size_t)(at - text);
}

static size_t operator(const char *text, const char *end)
{
	static const char two[][3] = {"<=", ">=", "==", "!=", "<>", "||", "<<", ">>", "->"};

	for (size_t i = 0; end - text > 1 && i < sizeof(two) / sizeof(*two); i++)
		if (!memcmp(text, two[i], 2))
			return 2;
	return 1;
}

static size_t read_token(const char *text, const char *end, struct ws_sql_token *token)
{
	bool plain;
	size_t n = 0;

	if (isdigit((unsigned char)*text) ||
	    (*text == '.' && end - text > 1 && isdigit((unsigned char)text[1])))
		return number(text, end, token);
	if (*text == '\'' || *text == '"' || *text == '`' || *text == '[') {
		n = quoted(text, end, *text == '[' ? ']' : *text, &plain);
		token->kind = !plain ? WS_T_OTHER : *text == '\'' ? WS_T_STRING : WS_T_QUOTED;
		return n;
	}
	if (starts_name(*text)) {
		while (text + n < end && in_name(text[n]))
			n++;
		token->kind = n == 1 && (*text == 'x' || *text == 'X') && text + 1 < end &&
					      text[1] == '\''
				      ? WS_T_OTHER
				      : WS_T_NAME;
		return n;
	}
	token->kind = strchr("+-*/%<>=!|&(),.;", *text) && *text ? WS_T_OP : WS_T_OTHER;
	return token->kind == WS_T_OP ? operator(text, end) : 1;
}

struct ws_sql_token *ws_sql_tokens(const char *sql, size_t len, size_t *count)
{
	struct ws_sql_token *token = NULL;
	const char *end = sql + len;
	size_t n = 0, cap = 0;

	for (;;) {
		sql += blank(sql, end);
		ws_grow(token, cap, n + 1);
		token[n] = (struct ws_sql_token){WS_T_END, sql, 0};
		if (sql >= end)
			break;
		token[n].n = read_token(sql, end, &token[n]);
		sql += token[n++].n;
	}
	*count = n;
	return token;
}

bool ws_sql_token_is(const struct ws_sql_token *token, const char *word)
{
	return (token->kind == WS_T_NAME || token->kind == WS_T_OP) && strlen(word) == token->n &&
	       !strncasecmp(token->text, word, token->n);
}

static void bare(const struct ws_sql_token *token, const char **s, size_t *n)
{
	*s = token->text + (token->kind == WS_T_QUOTED);
	*n = token->n - (token->kind == WS_T_QUOTED ? 2 : 0);
}

bool ws_sql_token_same(const struct ws_sql_token *left, const struct ws_sql_token *right)
{
	if (left->kind != right->kind || left->n != right->n)
		return false;
	return left->kind == WS_T_STRING ? !memcmp(left->text, right->text, left->n)
					 : !strncasecmp(left->text, right->text, left->n);
}

bool ws_sql_token_names(const struct ws_sql_token *token, const char *name)
{
	const char *text;
	size_t n;

	if (token->kind != WS_T_NAME && token->kind != WS_T_QUOTED)
		return false;
	bare(token, &text, &n);
	return strlen(name) == n && !strncasecmp(text, name, n);
}
