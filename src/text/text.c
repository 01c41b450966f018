/*
 * text.c - see text.h. One decoder walks the bytes; each writer says what becomes of a character.
 * Runs of plain ASCII, which nearly all names are, are copied whole.
 */
#include "text/text.h"

#include <string.h>

#include "base/compiler.h"

static const char replacement[] = "\xef\xbf\xbd";

static bool continues(const char *text, size_t n, size_t from, size_t to)
{
	if (n < to)
		return false;
	for (size_t i = from; i < to; i++)
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return false;
	return true;
}

size_t ws_utf8_next(const char *text, size_t n, uint32_t *cp)
{
	const unsigned char *bytes = (const unsigned char *)text;

	if (!n)
		return 0;
	if (bytes[0] < 0x80) {
		*cp = bytes[0];
		return 1;
	}
	if (bytes[0] >= 0xc2 && bytes[0] < 0xe0 && continues(text, n, 1, 2)) {
		*cp = (uint32_t)(bytes[0] & 0x1f) << 6 | (bytes[1] & 0x3f);
		return 2;
	}
	if (bytes[0] >= 0xe0 && bytes[0] < 0xf0 && continues(text, n, 1, 3)) {
		*cp = (uint32_t)(bytes[0] & 0x0f) << 12 | (uint32_t)(bytes[1] & 0x3f) << 6 |
		      (bytes[2] & 0x3f);
		return *cp >= 0x800 && (*cp < 0xd800 || *cp > 0xdfff) ? 3 : 0;
	}
	if (bytes[0] >= 0xf0 && bytes[0] < 0xf5 && continues(text, n, 1, 4)) {
		*cp = (uint32_t)(bytes[0] & 0x07) << 18 | (uint32_t)(bytes[1] & 0x3f) << 12 |
		      (uint32_t)(bytes[2] & 0x3f) << 6 | (bytes[3] & 0x3f);
		return *cp >= 0x10000 && *cp <= 0x10ffff ? 4 : 0;
	}
	return 0;
}

/* Bytes at the start of s that are printable ASCII. */
static size_t plain_run(const char *text, size_t n)
{
	size_t i = 0;

	while (i < n && (unsigned char)text[i] >= 0x20 && (unsigned char)text[i] < 0x7f)
		i++;
	return i;
}

bool ws_utf8_valid(const char *text, size_t n)
{
	while (n) {
		uint32_t cp;
		size_t k = plain_run(text, n);

		if (!k) {
			k = ws_utf8_next(text, n, &cp);
			if (!k || !cp)
				return false;
		}
		text += k;
		n -= k;
	}
	return true;
}

/* How a writer turns one character into text: `bytes` are its `len` bytes, or the replacement's; cp
 * is never invalid. */
typedef void put_fn(struct ws_text *text, uint32_t cp, const char *bytes, size_t len);

static void walk(struct ws_text *text, const char *word, size_t n, put_fn *put)
{
	while (n) {
		uint32_t cp;
		size_t k = ws_utf8_next(word, n, &cp);

		if (k)
			put(text, cp, word, k);
		else
			put(text, 0xfffd, replacement, 3);
		word += k ? k : 1;
		n -= k ? k : 1;
	}
}

static void put_utf8(struct ws_text *text, uint32_t cp, const char *bytes, size_t len)
{
	if (cp)
		ws_text_add(text, bytes, len);
	else
		ws_text_add(text, replacement, 3);
}

void ws_text_utf8(struct ws_text *text, const char *word, size_t n)
{
	if (ws_likely(ws_utf8_valid(word, n)))
		ws_text_add(text, word, n);
	else
		walk(text, word, n, put_utf8);
}

static void put_json(struct ws_text *text, uint32_t cp, const char *bytes, size_t len)
{
	static const char shorts[] = "btnvfr"; /* 8 to 13; JSON has no \v */

	if (cp == '"' || cp == '\\')
		ws_text_printf(text, "\\%c", (int)cp);
	else if (cp >= 8 && cp <= 13 && cp != 11)
		ws_text_printf(text, "\\%c", shorts[cp - 8]);
	else if (cp < 0x20 || cp == 0x7f || cp == 0x2028 || cp == 0x2029)
		ws_text_printf(text, "\\u%04x", (unsigned)cp);
	else
		ws_text_add(text, bytes, len);
}

void ws_text_json(struct ws_text *text, const char *word, size_t n)
{
	ws_text_add(text, "\"", 1);
	while (n) {
		size_t k = plain_run(word, n);
		const char *quote = k ? memchr(word, '"', k) : NULL;
		const char *slash = k ? memchr(word, '\\', k) : NULL;

		if (quote)
			k = (size_t)(quote - word);
		if (slash && (size_t)(slash - word) < k)
			k = (size_t)(slash - word);
		if (k) {
			ws_text_add(text, word, k);
		} else {
			uint32_t cp;

			k = ws_utf8_next(word, n, &cp);
			walk(text, word, k ? k : 1, put_json);
			k = k ? k : 1;
		}
		word += k;
		n -= k;
	}
	ws_text_add(text, "\"", 1);
}

/* Characters that move the cursor or reorder the line. */
static bool disturbs(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x61c ||
	       (cp >= 0x200b && cp <= 0x200f) || (cp >= 0x2028 && cp <= 0x202e) ||
	       (cp >= 0x2066 && cp <= 0x2069) || cp == 0xfeff;
}

static void put_escape(struct ws_text *text, uint32_t cp)
{
	if (cp == '\n' || cp == '\r' || cp == '\t')
		ws_text_puts(text, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t");
	else
		ws_text_printf(text, cp < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)cp);
}

static void put_html(struct ws_text *text, uint32_t cp, const char *bytes, size_t len)
{
	switch (cp) {
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
		if (disturbs(cp))
			put_escape(text, cp);
		else
			ws_text_add(text, bytes, len);
	}
}

void ws_text_html(struct ws_text *text, const char *word, size_t n)
{
	walk(text, word, n, put_html);
}

static void put_terminal(struct ws_text *text, uint32_t cp, const char *bytes, size_t len)
{
	if (disturbs(cp))
		put_escape(text, cp);
	else
		ws_text_add(text, bytes, len);
}

void ws_text_terminal(struct ws_text *text, const char *word, size_t n)
{
	if (ws_likely(plain_run(word, n) == n))
		ws_text_add(text, word, n);
	else
		walk(text, word, n, put_terminal);
}

static unsigned width_of(uint32_t cp)
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

	if (cp < 0x300)
		return 1;
	for (size_t i = 0; i < WS_COUNT(ranges) && cp >= ranges[i].first; i++)
		if (cp <= ranges[i].last)
			return ranges[i].width;
	return 1;
}

size_t ws_utf8_prefix(const char *text, size_t n, size_t width)
{
	size_t at = 0, used = 0;

	while (at < n) {
		uint32_t cp = 0;
		size_t k = ws_utf8_next(text + at, n - at, &cp);

		used += width_of(cp);
		if (used > width)
			break;
		at += k ? k : 1;
	}
	return at;
}

size_t ws_utf8_width(const char *text, size_t n)
{
	size_t used = 0;

	for (size_t at = 0; at < n;) {
		uint32_t cp = 0;
		size_t k = ws_utf8_next(text + at, n - at, &cp);

		used += width_of(cp);
		at += k ? k : 1;
	}
	return used;
}
