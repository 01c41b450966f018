/*
 * json_check.c - is a text that a report says is JSON really one? It came from a file that anyone
 * may have written, and is copied into JSON as it stands only when this says yes.
 */
#include <string.h>

#include "text/text.h"

enum { DEEPEST = 64 };

struct check {
	const char *text, *end;
	unsigned depth;
};

static void skip_space(struct check *check)
{
	while (check->text < check->end && (*check->text == ' ' || *check->text == '\t' ||
					    *check->text == '\n' || *check->text == '\r'))
		check->text++;
}

static bool take(struct check *check, char wanted)
{
	if (check->text == check->end || *check->text != wanted)
		return false;
	check->text++;
	return true;
}

static bool is_hex(char letter)
{
	return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f') ||
	       (letter >= 'A' && letter <= 'F');
}

static bool escape(struct check *check)
{
	if (check->text == check->end)
		return false;
	if (*check->text != 'u')
		return *check->text && strchr("\"\\/bfnrt", *check->text++) != NULL;
	if (check->end - check->text < 5)
		return false;
	for (int i = 1; i < 5; i++)
		if (!is_hex(check->text[i]))
			return false;
	check->text += 5;
	return true;
}

static bool string(struct check *check)
{
	if (!take(check, '"'))
		return false;
	while (check->text < check->end && *check->text != '"') {
		uint32_t cp;
		size_t k;

		if (*check->text == '\\') {
			check->text++;
			if (!escape(check))
				return false;
			continue;
		}
		k = ws_utf8_next(check->text, (size_t)(check->end - check->text), &cp);
		if (!k || cp < 0x20)
			return false;
		check->text += k;
	}
	return take(check, '"');
}

static bool digits(struct check *check)
{
	const char *from = check->text;

	while (check->text < check->end && *check->text >= '0' && *check->text <= '9')
		check->text++;
	return check->text > from;
}

static bool number(struct check *check)
{
	take(check, '-');
	if (!take(check, '0') && !digits(check))
		return false;
	if (take(check, '.') && !digits(check))
		return false;
	if (take(check, 'e') || take(check, 'E')) {
		if (!take(check, '+'))
			take(check, '-');
		return digits(check);
	}
	return true;
}

static bool word(struct check *check, const char *w)
{
	size_t n = strlen(w);

	if ((size_t)(check->end - check->text) < n || memcmp(check->text, w, n) != 0)
		return false;
	check->text += n;
	return true;
}

static bool value(struct check *check);

static bool members(struct check *check, char close)
{
	skip_space(check);
	if (take(check, close))
		return true;
	for (;;) {
		skip_space(check);
		if (close == '}') {
			if (!string(check))
				return false;
			skip_space(check);
			if (!take(check, ':'))
				return false;
		}
		if (!value(check))
			return false;
		if (take(check, close))
			return true;
		if (!take(check, ','))
			return false;
	}
}

static bool nested(struct check *check, char close)
{
	bool ok;

	if (++check->depth > DEEPEST)
		return false;
	check->text++;
	ok = members(check, close);
	check->depth--;
	return ok;
}

static bool value(struct check *check)
{
	bool ok = false;

	skip_space(check);
	if (check->text == check->end)
		return false;
	switch (*check->text) {
	case '{':
		ok = nested(check, '}');
		break;
	case '[':
		ok = nested(check, ']');
		break;
	case '"':
		ok = string(check);
		break;
	case 't':
		ok = word(check, "true");
		break;
	case 'f':
		ok = word(check, "false");
		break;
	case 'n':
		ok = word(check, "null");
		break;
	default:
		ok = number(check);
	}
	skip_space(check);
	return ok;
}

bool ws_json_valid(const char *text, size_t n)
{
	struct check check = {.text = text, .end = text + n};

	return value(&check) && check.text == check.end;
}
