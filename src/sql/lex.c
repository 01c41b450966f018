/* lex.c - see lex.h. What SQLite reads otherwise than this is refused later: nothing here decides
 * what a statement means. */
#include "sql/lex.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

static bool starts_name(char c)
{
	return isalpha((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool in_name(char c)
{
	return starts_name(c) || isdigit((unsigned char)c) || c == '$';
}

/* Length of what is passed over: blanks and comments. */
static size_t blank(const char *s, const char *end)
{
	const char *p = s;

	while (p < end) {
		if (isspace((unsigned char)*p)) {
			p++;
		} else if (end - p >= 2 && p[0] == '-' && p[1] == '-') {
			const char *line = memchr(p, '\n', (size_t)(end - p));

			p = line ? line + 1 : end;
		} else if (end - p >= 2 && p[0] == '/' && p[1] == '*') {
			for (p += 2; p < end && !(p[0] == '*' && p + 1 < end && p[1] == '/');)
				p++;
			p = p < end ? p + 2 : end;
		} else {
			break;
		}
	}
	return (size_t)(p - s);
}

/* A quoted text; `close` doubled stands for itself, which is for no one here to read. */
static size_t quoted(const char *s, const char *end, char close, bool *plain)
{
	const char *p = s + 1;

	*plain = true;
	while (p < end && (*p != close || (p + 1 < end && p[1] == close && close != ']'))) {
		*plain &= *p != close;
		p += *p == close ? 2 : 1;
	}
	if (p >= end)
		*plain = false;
	return p < end ? (size_t)(p - s) + 1 : (size_t)(end - s);
}

static size_t number(const char *s, const char *end, struct ws_sql_token *t)
{
	const char *p = s;

	t->kind = WS_T_INT;
	if (end - p > 2 && *p == '0' && (p[1] == 'x' || p[1] == 'X')) {
		for (p += 2; p < end && isxdigit((unsigned char)*p);)
			p++;
	} else {
		while (p < end && (isdigit((unsigned char)*p) || *p == '.')) {
			if (*p == '.' && t->kind == WS_T_REAL)
				break;
			t->kind = *p++ == '.' ? WS_T_REAL : t->kind;
		}
		if (end - p > 1 && (*p == 'e' || *p == 'E') &&
		    (isdigit((unsigned char)p[1]) ||
		     (end - p > 2 && strchr("+-", p[1]) && isdigit((unsigned char)p[2])))) {
			t->kind = WS_T_REAL;
			for (p += 2; p < end && isdigit((unsigned char)*p);)
				p++;
		}
	}
	if (p < end && in_name(*p))
		t->kind = WS_T_OTHER;
	while (p < end && in_name(*p))
		p++;
	return (size_t)(p - s);
}

static size_t operator(const char *s, const char *end)
{
	static const char two[][3] = {"<=", ">=", "==", "!=", "<>", "||", "<<", ">>", "->"};

	for (size_t i = 0; end - s > 1 && i < sizeof(two) / sizeof(*two); i++)
		if (!memcmp(s, two[i], 2))
			return 2;
	return 1;
}

static size_t read_token(const char *s, const char *end, struct ws_sql_token *t)
{
	bool plain;
	size_t n = 0;

	if (isdigit((unsigned char)*s) ||
	    (*s == '.' && end - s > 1 && isdigit((unsigned char)s[1])))
		return number(s, end, t);
	if (*s == '\'' || *s == '"' || *s == '`' || *s == '[') {
		n = quoted(s, end, *s == '[' ? ']' : *s, &plain);
		t->kind = !plain ? WS_T_OTHER : *s == '\'' ? WS_T_STRING : WS_T_QUOTED;
		return n;
	}
	if (starts_name(*s)) {
		while (s + n < end && in_name(s[n]))
			n++;
		t->kind = n == 1 && (*s == 'x' || *s == 'X') && s + 1 < end && s[1] == '\''
				  ? WS_T_OTHER
				  : WS_T_NAME;
		return n;
	}
	t->kind = strchr("+-*/%<>=!|&(),.;", *s) && *s ? WS_T_OP : WS_T_OTHER;
	return t->kind == WS_T_OP ? operator(s, end) : 1;
}

struct ws_sql_token *ws_sql_tokens(const char *sql, size_t len, size_t *count)
{
	struct ws_sql_token *v = NULL;
	const char *end = sql + len;
	size_t n = 0, cap = 0;

	for (;;) {
		sql += blank(sql, end);
		ws_grow(v, cap, n + 1);
		v[n] = (struct ws_sql_token){WS_T_END, sql, 0};
		if (sql >= end)
			break;
		v[n].n = read_token(sql, end, &v[n]);
		sql += v[n++].n;
	}
	*count = n;
	return v;
}

bool ws_sql_token_is(const struct ws_sql_token *t, const char *word)
{
	return (t->kind == WS_T_NAME || t->kind == WS_T_OP) && strlen(word) == t->n &&
	       !strncasecmp(t->s, word, t->n);
}

static void bare(const struct ws_sql_token *t, const char **s, size_t *n)
{
	*s = t->s + (t->kind == WS_T_QUOTED);
	*n = t->n - (t->kind == WS_T_QUOTED ? 2 : 0);
}

bool ws_sql_token_same(const struct ws_sql_token *a, const struct ws_sql_token *b)
{
	if (a->kind != b->kind || a->n != b->n)
		return false;
	return a->kind == WS_T_STRING ? !memcmp(a->s, b->s, a->n) : !strncasecmp(a->s, b->s, a->n);
}

bool ws_sql_token_names(const struct ws_sql_token *t, const char *name)
{
	const char *s;
	size_t n;

	if (t->kind != WS_T_NAME && t->kind != WS_T_QUOTED)
		return false;
	bare(t, &s, &n);
	return strlen(name) == n && !strncasecmp(s, name, n);
}
