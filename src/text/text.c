/*
 * text.c - see text.h. One decoder walks the bytes, and each writer says how to write a character.
 * Runs of plain ASCII, which nearly all names are, are copied whole.
 */
#include "text/text.h"

#include <string.h>

#include "base/choose.h"
#include "base/compiler.h"

static const char replacement_character[] = "\xef\xbf\xbd";

static bool are_continuations(const char *text, size_t n, size_t from, size_t to)
{
	if (n < to)
		return false;
	for (size_t i = from; i < to; i++)
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return false;
	return true;
}

size_t ws_decode_utf8(const char *text, size_t n, uint32_t *code)
{
	const unsigned char *bytes = (const unsigned char *)text;

	if (!n)
		return 0;
	if (bytes[0] < 0x80) {
		*code = bytes[0];
		return 1;
	}
	if (bytes[0] >= 0xc2 && bytes[0] < 0xe0 && are_continuations(text, n, 1, 2)) {
		*code = (uint32_t)(bytes[0] & 0x1f) << 6 | (bytes[1] & 0x3f);
		return 2;
	}
	if (bytes[0] >= 0xe0 && bytes[0] < 0xf0 && are_continuations(text, n, 1, 3)) {
		*code = (uint32_t)(bytes[0] & 0x0f) << 12 | (uint32_t)(bytes[1] & 0x3f) << 6 |
			(bytes[2] & 0x3f);
		return 3 * (*code >= 0x800 && (*code < 0xd800 || *code > 0xdfff));
	}
	if (bytes[0] >= 0xf0 && bytes[0] < 0xf5 && are_continuations(text, n, 1, 4)) {
		*code = (uint32_t)(bytes[0] & 0x07) << 18 | (uint32_t)(bytes[1] & 0x3f) << 12 |
			(uint32_t)(bytes[2] & 0x3f) << 6 | (bytes[3] & 0x3f);
		return 4 * (*code >= 0x10000 && *code <= 0x10ffff);
	}
	return 0;
}

/* How many bytes at the start of `text` are printable ASCII. */
static size_t count_plain_bytes(const char *text, size_t n)
{
	size_t i = 0;

	while (i < n && (unsigned char)text[i] >= 0x20 && (unsigned char)text[i] < 0x7f)
		i++;
	return i;
}

bool ws_is_valid_utf8(const char *text, size_t n)
{
	while (n) {
		uint32_t code;
		size_t length = count_plain_bytes(text, n);

		if (!length) {
			length = ws_decode_utf8(text, n, &code);
			if (!length || !code)
				return false;
		}
		text += length;
		n -= length;
	}
	return true;
}

/* How a writer appends one character: `bytes` are its `len` bytes, or those of the replacement
 * character; `cp` is never invalid. */
typedef void put_fn(struct ws_text *text, uint32_t cp, const char *bytes, size_t len);

static void put_characters(struct ws_text *text, const char *word, size_t n, put_fn *put)
{
	while (n) {
		uint32_t code;
		size_t length = ws_decode_utf8(word, n, &code);

		if (length)
			put(text, code, word, length);
		else
			put(text, 0xfffd, replacement_character, 3);
		length = ws_max(length, 1u);
		word += length;
		n -= length;
	}
}

static void put_utf8_character(struct ws_text *text, uint32_t code, const char *bytes,
			       size_t length)
{
	if (code)
		ws_text_add(text, bytes, length);
	else
		ws_text_add(text, replacement_character, 3);
}

void ws_put_valid_utf8(struct ws_text *text, const char *word, size_t n)
{
	if (ws_likely(ws_is_valid_utf8(word, n)))
		ws_text_add(text, word, n);
	else
		put_characters(text, word, n, put_utf8_character);
}

static void put_json_character(struct ws_text *text, uint32_t code, const char *bytes,
			       size_t length)
{
	static const char letters[] = "btnvfr"; /* 8 to 13; JSON has no \v */

	if (code == '"' || code == '\\')
		ws_text_printf(text, "\\%c", (int)code);
	else if (code >= 8 && code <= 13 && code != 11)
		ws_text_printf(text, "\\%c", letters[code - 8]);
	else if (code < 0x20 || code == 0x7f || code == 0x2028 || code == 0x2029)
		ws_text_printf(text, "\\u%04x", (unsigned)code);
	else
		ws_text_add(text, bytes, length);
}

/* How many bytes at the start of `word` stand in JSON as they are. */
static size_t count_plain_json_bytes(const char *word, size_t n)
{
	size_t length = count_plain_bytes(word, n);
	const char *special;

	if (!length)
		return 0;
	special = memchr(word, '"', length);
	if (special)
		length = (size_t)(special - word);
	special = memchr(word, '\\', length);
	if (special)
		length = (size_t)(special - word);
	return length;
}

void ws_put_quoted_json(struct ws_text *text, const char *word, size_t n)
{
	ws_text_add(text, "\"", 1);
	while (n) {
		size_t length = count_plain_json_bytes(word, n);
		uint32_t code;

		if (length) {
			ws_text_add(text, word, length);
		} else {
			length = ws_max(ws_decode_utf8(word, n, &code), 1u);
			put_characters(text, word, length, put_json_character);
		}
		word += length;
		n -= length;
	}
	ws_text_add(text, "\"", 1);
}

/* Whether a character moves the cursor or reorders the line. */
static bool is_disturbing(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c ||
	       (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

static void put_escape(struct ws_text *text, uint32_t code)
{
	switch (code) {
	case '\n':
		ws_text_puts(text, "\\n");
		break;
	case '\r':
		ws_text_puts(text, "\\r");
		break;
	case '\t':
		ws_text_puts(text, "\\t");
		break;
	default:
		if (code < 0x100)
			ws_text_printf(text, "\\x%02x", (unsigned)code);
		else
			ws_text_printf(text, "\\u%04x", (unsigned)code);
	}
}

static void put_html_character(struct ws_text *text, uint32_t code, const char *bytes,
			       size_t length)
{
	switch (code) {
	case '&':
		ws_text_puts(text, "&amp;");
		break;
	case '<':
		ws_text_puts(text, "&lt;");
		break;
	case '>':
		ws_text_puts(text, "&gt;");
		break;
	case '"':
		ws_text_puts(text, "&quot;");
		break;
	case '\'':
		ws_text_puts(text, "&#39;");
		break;
	default:
		if (is_disturbing(code))
			put_escape(text, code);
		else
			ws_text_add(text, bytes, length);
	}
}

void ws_put_html_text(struct ws_text *text, const char *word, size_t n)
{
	put_characters(text, word, n, put_html_character);
}

static void put_terminal_character(struct ws_text *text, uint32_t code, const char *bytes,
				   size_t length)
{
	if (is_disturbing(code))
		put_escape(text, code);
	else
		ws_text_add(text, bytes, length);
}

void ws_put_terminal_text(struct ws_text *text, const char *word, size_t n)
{
	if (ws_likely(count_plain_bytes(word, n) == n))
		ws_text_add(text, word, n);
	else
		put_characters(text, word, n, put_terminal_character);
}

static unsigned find_width(uint32_t code)
{
	static const struct {
		uint32_t first, last;
		unsigned width;
	} ranges[] = {
		{0x0300, 0x036f, 0},   {0x0483, 0x0489, 0},   {0x0591, 0x05bd, 0},
		{0x064b, 0x065f, 0},   {0x1100, 0x115f, 2},   {0x1ab0, 0x1aff, 0},
		{0x1dc0, 0x1dff, 0},   {0x20d0, 0x20ff, 0},   {0x2e80, 0x303e, 2},
		{0x3041, 0xa4cf, 2},   {0xa960, 0xa97f, 2},   {0xac00, 0xd7a3, 2},
		{0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, 0},   {0xfe20, 0xfe2f, 0},
		{0xfe30, 0xfe6f, 2},   {0xff00, 0xff60, 2},   {0xffe0, 0xffe6, 2},
		{0x1f300, 0x1f64f, 2}, {0x1f680, 0x1f6ff, 2}, {0x1f900, 0x1faff, 2},
		{0x20000, 0x3fffd, 2},
	};

	if (code < 0x300)
		return 1;
	for (size_t i = 0; i < WS_COUNT(ranges) && code >= ranges[i].first; i++)
		if (code <= ranges[i].last)
			return ranges[i].width;
	return 1;
}

size_t ws_find_utf8_prefix(const char *text, size_t n, size_t width)
{
	size_t at = 0, used = 0;

	while (at < n) {
		uint32_t code = 0;
		size_t length = ws_decode_utf8(text + at, n - at, &code);

		used += find_width(code);
		if (used > width)
			break;
		at += ws_max(length, 1u);
	}
	return at;
}

size_t ws_measure_utf8_width(const char *text, size_t n)
{
	size_t used = 0;

	for (size_t at = 0; at < n;) {
		uint32_t code = 0;
		size_t length = ws_decode_utf8(text + at, n - at, &code);

		used += find_width(code);
		at += ws_max(length, 1u);
	}
	return used;
}
