/*
 * json_check.c - checks that a text which a report calls JSON really is JSON. It came from a file
 * that anyone may have written, and is copied into other JSON as it stands only if it passes.
 */
#include <string.h>

#include "text/text.h"

enum { DEEPEST_NESTING = 64 };

struct json_checker {
	const char *at, *end;
	unsigned depth;
};

static void skip_space(struct json_checker *checker)
{
	while (checker->at < checker->end && (*checker->at == ' ' || *checker->at == '\t' ||
					      *checker->at == '\n' || *checker->at == '\r'))
		checker->at++;
}

static bool accept_byte(struct json_checker *checker, char wanted)
{
	if (checker->at == checker->end || *checker->at != wanted)
		return false;
	checker->at++;
	return true;
}

static bool is_hex(char letter)
{
	return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f') ||
	       (letter >= 'A' && letter <= 'F');
}

static bool accept_escape(struct json_checker *checker)
{
	if (checker->at == checker->end)
		return false;
	if (*checker->at != 'u')
		return *checker->at && strchr("\"\\/bfnrt", *checker->at++) != NULL;
	if (checker->end - checker->at < 5)
		return false;
	for (int i = 1; i < 5; i++)
		if (!is_hex(checker->at[i]))
			return false;
	checker->at += 5;
	return true;
}

static bool accept_string(struct json_checker *checker)
{
	if (!accept_byte(checker, '"'))
		return false;
	while (checker->at < checker->end && *checker->at != '"') {
		uint32_t code;
		size_t length;

		if (*checker->at == '\\') {
			checker->at++;
			if (!accept_escape(checker))
				return false;
			continue;
		}
		length = ws_decode_utf8(checker->at, (size_t)(checker->end - checker->at), &code);
		if (!length || code < 0x20)
			return false;
		checker->at += length;
	}
	return accept_byte(checker, '"');
}

static bool accept_digits(struct json_checker *checker)
{
	const char *from = checker->at;

	while (checker->at < checker->end && *checker->at >= '0' && *checker->at <= '9')
		checker->at++;
	return checker->at > from;
}

static bool accept_number(struct json_checker *checker)
{
	accept_byte(checker, '-');
	if (!accept_byte(checker, '0') && !accept_digits(checker))
		return false;
	if (accept_byte(checker, '.') && !accept_digits(checker))
		return false;
	if (accept_byte(checker, 'e') || accept_byte(checker, 'E')) {
		if (!accept_byte(checker, '+'))
			accept_byte(checker, '-');
		return accept_digits(checker);
	}
	return true;
}

static bool accept_word(struct json_checker *checker, const char *expected)
{
	size_t length = strlen(expected);

	if ((size_t)(checker->end - checker->at) < length ||
	    memcmp(checker->at, expected, length) != 0)
		return false;
	checker->at += length;
	return true;
}

static bool accept_value(struct json_checker *checker);

static bool accept_members(struct json_checker *checker, char close)
{
	skip_space(checker);
	if (accept_byte(checker, close))
		return true;
	for (;;) {
		skip_space(checker);
		if (close == '}') {
			if (!accept_string(checker))
				return false;
			skip_space(checker);
			if (!accept_byte(checker, ':'))
				return false;
		}
		if (!accept_value(checker))
			return false;
		if (accept_byte(checker, close))
			return true;
		if (!accept_byte(checker, ','))
			return false;
	}
}

static bool accept_nested(struct json_checker *checker, char close)
{
	bool ok;

	if (++checker->depth > DEEPEST_NESTING)
		return false;
	checker->at++;
	ok = accept_members(checker, close);
	checker->depth--;
	return ok;
}

static bool accept_value(struct json_checker *checker)
{
	bool ok = false;

	skip_space(checker);
	if (checker->at == checker->end)
		return false;
	switch (*checker->at) {
	case '{':
		ok = accept_nested(checker, '}');
		break;
	case '[':
		ok = accept_nested(checker, ']');
		break;
	case '"':
		ok = accept_string(checker);
		break;
	case 't':
		ok = accept_word(checker, "true");
		break;
	case 'f':
		ok = accept_word(checker, "false");
		break;
	case 'n':
		ok = accept_word(checker, "null");
		break;
	default:
		ok = accept_number(checker);
	}
	skip_space(checker);
	return ok;
}

bool ws_is_valid_json(const char *text, size_t n)
{
	struct json_checker checker = {.at = text, .end = text + n};

	return accept_value(&checker) && checker.at == checker.end;
}
