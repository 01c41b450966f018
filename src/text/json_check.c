/*
 * json_check.c - is a text that a report says is JSON really one? It came from a file that anyone
 * may have written, and is copied into JSON as it stands only when this says yes.
 */
#include <string.h>

#include "text/text.h"

enum { DEEPEST = 64 };

struct check {
	const char *s, *end;
	unsigned depth;
};

static void skip_space(struct check *c)
{
	while (c->s < c->end && (*c->s == ' ' || *c->s == '\t' || *c->s == '\n' || *c->s == '\r'))
		c->s++;
}

static bool take(struct check *c, char wanted)
{
	if (c->s == c->end || *c->s != wanted)
		return false;
	c->s++;
	return true;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool escape(struct check *c)
{
	if (c->s == c->end)
		return false;
	if (*c->s != 'u')
		return *c->s && strchr("\"\\/bfnrt", *c->s++) != NULL;
	if (c->end - c->s < 5)
		return false;
	for (int i = 1; i < 5; i++)
		if (!is_hex(c->s[i]))
			return false;
	c->s += 5;
	return true;
}

static bool string(struct check *c)
{
	if (!take(c, '"'))
		return false;
	while (c->s < c->end && *c->s != '"') {
		uint32_t cp;
		size_t k;

		if (*c->s == '\\') {
			c->s++;
			if (!escape(c))
				return false;
			continue;
		}
		k = ws_utf8_next(c->s, (size_t)(c->end - c->s), &cp);
		if (!k || cp < 0x20)
			return false;
		c->s += k;
	}
	return take(c, '"');
}

static bool digits(struct check *c)
{
	const char *from = c->s;

	while (c->s < c->end && *c->s >= '0' && *c->s <= '9')
		c->s++;
	return c->s > from;
}

static bool number(struct check *c)
{
	take(c, '-');
	if (!take(c, '0') && !digits(c))
		return false;
	if (take(c, '.') && !digits(c))
		return false;
	if (take(c, 'e') || take(c, 'E')) {
		if (!take(c, '+'))
			take(c, '-');
		return digits(c);
	}
	return true;
}

static bool word(struct check *c, const char *w)
{
	size_t n = strlen(w);

	if ((size_t)(c->end - c->s) < n || memcmp(c->s, w, n) != 0)
		return false;
	c->s += n;
	return true;
}

static bool value(struct check *c);

static bool members(struct check *c, char close)
{
	skip_space(c);
	if (take(c, close))
		return true;
	for (;;) {
		skip_space(c);
		if (close == '}') {
			if (!string(c))
				return false;
			skip_space(c);
			if (!take(c, ':'))
				return false;
		}
		if (!value(c))
			return false;
		if (take(c, close))
			return true;
		if (!take(c, ','))
			return false;
	}
}

static bool nested(struct check *c, char close)
{
	bool ok;

	if (++c->depth > DEEPEST)
		return false;
	c->s++;
	ok = members(c, close);
	c->depth--;
	return ok;
}

static bool value(struct check *c)
{
	bool ok = false;

	skip_space(c);
	if (c->s == c->end)
		return false;
	switch (*c->s) {
	case '{':
		ok = nested(c, '}');
		break;
	case '[':
		ok = nested(c, ']');
		break;
	case '"':
		ok = string(c);
		break;
	case 't':
		ok = word(c, "true");
		break;
	case 'f':
		ok = word(c, "false");
		break;
	case 'n':
		ok = word(c, "null");
		break;
	default:
		ok = number(c);
	}
	skip_space(c);
	return ok;
}

bool ws_json_valid(const char *s, size_t n)
{
	struct check c = {.s = s, .end = s + n};

	return value(&c) && c.s == c.end;
}
