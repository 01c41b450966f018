/* lex.c - see lex.h. SQLite parses the statement too, and anything that it reads differently is
 * refused later: nothing here decides what a statement means. */
#include "sql/lex.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

static bool starts_name(char letter)
{
	return isalpha((unsigned char)letter) || letter == '_' || (unsigned char)letter >= 0x80;
}

static bool continues_name(char letter)
{
	return starts_name(letter) || isdigit((unsigned char)letter) || letter == '$';
}

/* Length of the blanks and comments at `text`. */
static size_t count_blanks(const char *text, const char *end)
{
	const char *at = text;

	while (at < end) {
		if (isspace((unsigned char)*at)) {
			at++;
		} else if (end - at >= 2 && at[0] == '-' && at[1] == '-') {
			while (at < end && *at++ != '\n')
				;
		} else if (end - at >= 2 && at[0] == '/' && at[1] == '*') {
			for (at += 2; at < end && !(at[0] == '*' && at + 1 < end && at[1] == '/');)
				at++;
			if (at < end)
				at += 2;
		} else {
			break;
		}
	}
	return (size_t)(at - text);
}

/* Length of a quoted text. *plain is false when it does not end, or when `close` is in it doubled,
 * which stands for itself: nothing here needs to read that. */
static size_t read_quotes(const char *text, const char *end, char close, bool *plain)
{
	const char *at = text + 1;

	*plain = true;
	while (at < end && (*at != close || (at + 1 < end && at[1] == close && close != ']'))) {
		*plain &= *at != close;
		at += 1 + (*at == close);
	}
	if (at < end)
		return (size_t)(at - text) + 1;
	*plain = false;
	return (size_t)(end - text);
}

static size_t read_number(const char *text, const char *end, struct ws_sql_token *token)
{
	const char *at = text;

	token->kind = WS_TOKEN_INT;
	if (end - at > 2 && *at == '0' && (at[1] == 'x' || at[1] == 'X')) {
		for (at += 2; at < end && isxdigit((unsigned char)*at);)
			at++;
	} else {
		while (at < end && (isdigit((unsigned char)*at) || *at == '.')) {
			if (*at == '.' && token->kind == WS_TOKEN_REAL)
				break;
			if (*at++ == '.')
				token->kind = WS_TOKEN_REAL;
		}
		if (end - at > 1 && (*at == 'e' || *at == 'E') &&
		    (isdigit((unsigned char)at[1]) ||
		     (end - at > 2 && strchr("+-", at[1]) && isdigit((unsigned char)at[2])))) {
			token->kind = WS_TOKEN_REAL;
			for (at += 2; at < end && isdigit((unsigned char)*at);)
				at++;
		}
	}
	if (at < end && continues_name(*at))
		token->kind = WS_TOKEN_OTHER;
	while (at < end && continues_name(*at))
		at++;
	return (size_t)(at - text);
}

static size_t count_operator(const char *text, const char *end)
{
	static const char two[][3] = {"<=", ">=", "==", "!=", "<>", "||", "<<", ">>", "->"};

	for (size_t i = 0; end - text > 1 && i < sizeof(two) / sizeof(*two); i++)
		if (!memcmp(text, two[i], 2))
			return 2;
	return 1;
}

static size_t read_quoted(const char *text, const char *end, struct ws_sql_token *token)
{
	char close = *text;
	bool plain;
	size_t length;

	if (close == '[')
		close = ']';
	length = read_quotes(text, end, close, &plain);
	token->kind = WS_TOKEN_QUOTED;
	if (!plain)
		token->kind = WS_TOKEN_OTHER;
	else if (close == '\'')
		token->kind = WS_TOKEN_STRING;
	return length;
}

static size_t read_name(const char *text, const char *end, struct ws_sql_token *token)
{
	size_t length = 0;

	while (text + length < end && continues_name(text[length]))
		length++;
	token->kind = WS_TOKEN_NAME;
	if (length == 1 && (*text == 'x' || *text == 'X') && text + 1 < end && text[1] == '\'')
		token->kind = WS_TOKEN_OTHER; /* a blob */
	return length;
}

static size_t read_token(const char *text, const char *end, struct ws_sql_token *token)
{
	if (isdigit((unsigned char)*text) ||
	    (*text == '.' && end - text > 1 && isdigit((unsigned char)text[1])))
		return read_number(text, end, token);
	if (*text == '\'' || *text == '"' || *text == '`' || *text == '[')
		return read_quoted(text, end, token);
	if (starts_name(*text))
		return read_name(text, end, token);
	token->kind = WS_TOKEN_OTHER;
	if (!*text || !strchr("+-*/%<>=!|&(),.;", *text))
		return 1;
	token->kind = WS_TOKEN_OPERATOR;
	return count_operator(text, end);
}

struct ws_sql_token *ws_sql_split_tokens(const char *sql, size_t length, size_t *count)
{
	struct ws_sql_token *tokens = NULL;
	const char *end = sql + length;
	size_t token_count = 0, capacity = 0;

	for (;;) {
		sql += count_blanks(sql, end);
		ws_grow(tokens, capacity, token_count + 1);
		tokens[token_count] = (struct ws_sql_token){WS_TOKEN_END, sql, 0};
		if (sql >= end)
			break;
		tokens[token_count].length = read_token(sql, end, &tokens[token_count]);
		sql += tokens[token_count++].length;
	}
	*count = token_count;
	return tokens;
}

bool ws_sql_is_token_word(const struct ws_sql_token *token, const char *word)
{
	return (token->kind == WS_TOKEN_NAME || token->kind == WS_TOKEN_OPERATOR) &&
	       strlen(word) == token->length && !strncasecmp(token->text, word, token->length);
}

static void strip_quotes(const struct ws_sql_token *token, const char **text, size_t *length)
{
	*text = token->text + (token->kind == WS_TOKEN_QUOTED);
	*length = token->length - 2 * (token->kind == WS_TOKEN_QUOTED);
}

bool ws_sql_are_same_tokens(const struct ws_sql_token *left, const struct ws_sql_token *right)
{
	if (left->kind != right->kind || left->length != right->length)
		return false;
	if (left->kind == WS_TOKEN_STRING)
		return !memcmp(left->text, right->text, left->length);
	return !strncasecmp(left->text, right->text, left->length);
}

bool ws_sql_is_token_name(const struct ws_sql_token *token, const char *name)
{
	const char *text;
	size_t length;

	if (token->kind != WS_TOKEN_NAME && token->kind != WS_TOKEN_QUOTED)
		return false;
	strip_quotes(token, &text, &length);
	return strlen(name) == length && !strncasecmp(text, name, length);
}
