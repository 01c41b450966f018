/* json.c - see json.h. */
#include "text/json.h"
#include "base/choose.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { WINDOW_BYTES = 4 << 20 };

static inline const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
		at++;
	return at;
}

/* The first quote or backslash at or after `at`, or `end`. Most bytes of a trace are in strings, so
 * 16 are compared at a time. */
static inline const char *find_special(const char *at, const char *end)
{
#ifdef __SSE2__
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');

	for (; at + 16 <= end; at += 16) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)at);
		unsigned hits = (unsigned)_mm_movemask_epi8(
			_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, slash)));

		if (hits)
			return at + __builtin_ctz(hits);
	}
#endif
	while (at < end && *at != '"' && *at != '\\')
		at++;
	return at;
}

/* `at` is just past the opening quote. */
static inline const char *take_string(const char *at, const char *end, struct ws_json_value *value,
				      bool *more)
{
	const char *text = at;

	value->type = WS_JSON_STRING;
	value->escaped = false;
	for (;;) {
		at = find_special(at, end);
		if (at >= end || (*at == '\\' && at + 1 >= end)) {
			*more = true;
			return NULL;
		}
		if (*at == '"')
			break;
		value->escaped = true;
		at += 2;
	}
	value->text = text;
	value->length = (uint32_t)(at - text);
	return at + 1;
}

static inline bool is_number_byte(char letter)
{
	return (letter >= '0' && letter <= '9') || letter == '.' || letter == '-' ||
	       letter == '+' || letter == 'e' || letter == 'E';
}

static const char *take_number(const char *at, const char *end, struct ws_json_value *value,
			       bool *more)
{
	value->type = WS_JSON_NUMBER;
	value->text = at;
	if (*at == '-' && at + 1 < end && at[1] == 'I')
		at++; /* -Infinity */
	else
		while (at < end && is_number_byte(*at))
			at++;
	if (at == end) {
		*more = true;
		return NULL;
	}
	value->length = (uint32_t)(at - value->text);
	return at;
}

static const struct {
	const char *text;
	uint8_t n;
	enum ws_json_type type;
} json_words[] = {{"true", 4, WS_JSON_TRUE},	 {"false", 5, WS_JSON_FALSE},
		  {"null", 4, WS_JSON_NULL},	 {"NaN", 3, WS_JSON_NULL},
		  {"Infinity", 8, WS_JSON_NULL}, {"nan", 3, WS_JSON_NULL},
		  {"inf", 3, WS_JSON_NULL}};

static const char *take_word(const char *at, const char *end, struct ws_json_value *value,
			     bool *more)
{
	size_t left = (size_t)(end - at);

	for (size_t i = 0; i < WS_COUNT(json_words); i++) {
		if (left < json_words[i].n && !memcmp(at, json_words[i].text, left)) {
			*more = true;
			return NULL;
		}
		if (left >= json_words[i].n && !memcmp(at, json_words[i].text, json_words[i].n)) {
			value->type = json_words[i].type;
			value->text = at;
			value->length = json_words[i].n;
			return at + json_words[i].n;
		}
	}
	return NULL;
}

/*
 * Find the end of an object or array: brackets are matched by kind and strings are stepped over;
 * what stands between them is checked when someone walks it. `object` says for each open level
 * whether it is an object.
 */
static const char *take_nested(const char *at, const char *end, struct ws_json_value *value,
			       bool *more)
{
	bool object[WS_JSON_MOST_DEPTH];
	struct ws_json_value inner;
	int depth = 0;

	value->type = WS_JSON_ARRAY;
	if (*at == '{')
		value->type = WS_JSON_OBJECT;
	value->text = at;
	while (at < end) {
		switch (*at) {
		case '"':
			at = take_string(at + 1, end, &inner, more);
			if (!at)
				return NULL;
			continue;
		case '{':
		case '[':
			if (depth == WS_JSON_MOST_DEPTH)
				return NULL;
			object[depth++] = *at == '{';
			break;
		case '}':
		case ']':
			if (object[--depth] != (*at == '}'))
				return NULL;
			if (!depth) {
				value->length = (uint32_t)(at + 1 - value->text);
				return at + 1;
			}
			break;
		}
		at++;
	}
	*more = true;
	return NULL;
}

const char *ws_read_json_value(const char *at, const char *end, struct ws_json_value *value,
			       bool *more)
{
	*more = false;
	at = skip_blanks(at, end);
	if (at == end) {
		*more = true;
		return NULL;
	}
	switch (*at) {
	case '"':
		return take_string(at + 1, end, value, more);
	case '{':
	case '[':
		return take_nested(at, end, value, more);
	case '-':
	case '0' ... '9':
		return take_number(at, end, value, more);
	default:
		return take_word(at, end, value, more);
	}
}

bool ws_next_json_member(struct ws_json_walk *walk, struct ws_json_value *key,
			 struct ws_json_value *value)
{
	bool more;

	for (;;) {
		walk->at = skip_blanks(walk->at, walk->end);
		if (walk->at >= walk->end || *walk->at == '}' || *walk->at == ']')
			return false;
		if (*walk->at != ',')
			break;
		walk->at++;
	}
	if (key) {
		if (*walk->at != '"')
			return false;
		walk->at = take_string(walk->at + 1, walk->end, key, &more);
		if (!walk->at)
			goto broken;
		walk->at = skip_blanks(walk->at, walk->end);
		if (walk->at >= walk->end || *walk->at != ':')
			goto broken;
		walk->at++;
	}
	walk->at = ws_read_json_value(walk->at, walk->end, value, &more);
	if (walk->at)
		return true;
broken:
	walk->at = walk->end;
	return false;
}

bool ws_is_json_string(const struct ws_json_value *value, const char *text)
{
	size_t n = strlen(text);

	return value->type == WS_JSON_STRING && value->length == n && !memcmp(value->text, text, n);
}

/* ---- strings ---- */

/* The value of a hexadecimal digit, or -1. */
static int read_hex_digit(char letter)
{
	if (letter >= '0' && letter <= '9')
		return letter - '0';
	letter |= 32; /* to lower case */
	if (letter >= 'a' && letter <= 'f')
		return letter - 'a' + 10;
	return -1;
}

static int read_hex_digits(const char *at, const char *end)
{
	int value = 0;

	if (end - at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = read_hex_digit(at[i]);

		if (digit < 0)
			return -1;
		value = value << 4 | digit;
	}
	return value;
}

static void put_utf8(struct ws_text *out, uint32_t code)
{
	char bytes[4];
	size_t count;

	if (code < 0x80) {
		bytes[0] = (char)code;
		count = 1;
	} else if (code < 0x800) {
		bytes[0] = (char)(0xc0 | code >> 6);
		bytes[1] = (char)(0x80 | (code & 63));
		count = 2;
	} else if (code < 0x10000) {
		bytes[0] = (char)(0xe0 | code >> 12);
		bytes[1] = (char)(0x80 | (code >> 6 & 63));
		bytes[2] = (char)(0x80 | (code & 63));
		count = 3;
	} else {
		bytes[0] = (char)(0xf0 | code >> 18);
		bytes[1] = (char)(0x80 | (code >> 12 & 63));
		bytes[2] = (char)(0x80 | (code >> 6 & 63));
		bytes[3] = (char)(0x80 | (code & 63));
		count = 4;
	}
	ws_text_add(out, bytes, count);
}

/* Append the character of a \uXXXX escape, with the second half of a surrogate pair; `at` is just
 * past the u. Returns what follows. */
static const char *take_unicode(const char *at, const char *end, struct ws_text *out)
{
	int high = read_hex_digits(at, end), low = -1;

	if (high < 0) {
		put_utf8(out, 0xfffd);
		return at;
	}
	at += 4;
	if (high < 0xd800 || high > 0xdfff) {
		put_utf8(out, (uint32_t)high);
		return at;
	}
	if (high < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u')
		low = read_hex_digits(at + 2, end);
	if (low < 0xdc00 || low > 0xdfff) {
		put_utf8(out, 0xfffd);
		return at;
	}
	put_utf8(out, 0x10000 + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
	return at + 6;
}

/* Append what an escape of one letter stands for; an unknown one stands for the letter itself. */
static void put_short_escape(struct ws_text *out, const char *letter)
{
	static const char letters[] = "nrtbf", meanings[] = "\n\r\t\b\f";
	const char *known = NULL;

	if (*letter)
		known = strchr(letters, *letter);
	if (known)
		letter = &meanings[known - letters];
	ws_text_add(out, letter, 1);
}

const char *ws_unescape_json_text(const struct ws_json_value *value, struct ws_text *scratch,
				  size_t *n)
{
	const char *at = value->text, *end;

	/* Only strings know whether they are escaped. */
	if (value->type != WS_JSON_STRING || !value->escaped) {
		*n = value->length;
		return value->text;
	}
	end = at + value->length;
	scratch->len = 0;
	ws_text_add(scratch, "", 0);
	while (at < end) {
		const char *slash = memchr(at, '\\', (size_t)(end - at));

		if (!slash || slash + 1 >= end) {
			ws_text_add(scratch, at, (size_t)(end - at));
			break;
		}
		ws_text_add(scratch, at, (size_t)(slash - at));
		at = slash + 2;
		if (slash[1] == 'u') {
			at = take_unicode(at, end, scratch);
			continue;
		}
		put_short_escape(scratch, &slash[1]);
	}
	*n = scratch->len;
	return scratch->text;
}

void ws_put_escaped_json(struct ws_text *out, const char *text, size_t n)
{
	size_t from = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char letter = (unsigned char)text[i];

		if (letter >= 0x20 && letter != '"' && letter != '\\')
			continue;
		ws_text_add(out, text + from, i - from);
		from = i + 1;
		if (letter == '"' || letter == '\\')
			ws_text_printf(out, "\\%c", letter);
		else
			ws_text_printf(out, "\\u%04x", letter);
	}
	ws_text_add(out, text + from, n - from);
}

void ws_put_compact_json(struct ws_text *out, const struct ws_json_value *value)
{
	const char *at = value->text, *end = value->text + value->length;

	ws_text_add(out, "", 0);
	while (at < end) {
		const char *line = memchr(at, '\n', (size_t)(end - at));
		bool comma;

		if (!line) {
			ws_text_add(out, at, (size_t)(end - at));
			break;
		}
		ws_text_add(out, at, (size_t)(line - at));
		comma = line > at && line[-1] == ',';
		at = skip_blanks(line, end);
		if (comma)
			ws_text_add(out, " ", 1);
	}
}

/* ---- numbers ---- */

/* `number` as int64_t: not a number is 0, and what is too large is clamped. */
static int64_t round_clamped(double number)
{
	if (isnan(number))
		return 0;
	if (number >= 9.2e18)
		return INT64_MAX;
	if (number <= -9.2e18)
		return INT64_MIN;
	return (int64_t)llround(number);
}

/* The slow path for hexadecimal numbers in strings, infinity, and text that is not a number. */
static int64_t parse_with_strtod(const char *word, size_t n, int digits, bool *ok)
{
	char text[64], *rest;
	double number;

	n = ws_min(n, sizeof(text) - 1);
	memcpy(text, word, n);
	text[n] = 0;
	number = strtod(text, &rest);
	if (ok)
		*ok = rest != text && isfinite(number);
	for (int i = 0; i < digits; i++)
		number *= 10;
	return round_clamped(number);
}

/* The number after an e or E, bounded. */
static int parse_exponent(const char *at, const char *end)
{
	bool negative = at < end && *at == '-';
	int exponent = 0;

	at += at < end && (*at == '-' || *at == '+');
	for (; at < end && *at >= '0' && *at <= '9' && exponent < 10000; at++)
		exponent = exponent * 10 + (*at - '0');
	if (negative)
		return -exponent;
	return exponent;
}

/* `number` times ten to the power of `exponent`, rounded half up, at most INT64_MAX. */
static uint64_t scale_by_ten(uint64_t number, int exponent)
{
	uint64_t divisor = 1;

	for (; exponent > 0 && number; exponent--) {
		if (number > INT64_MAX / 10)
			return INT64_MAX;
		number *= 10;
	}
	if (exponent < -19)
		return 0;
	for (; exponent < 0; exponent++)
		divisor *= 10;
	number = number / divisor + (number % divisor >= divisor - divisor / 2 && divisor > 1);
	return ws_min(number, INT64_MAX);
}

static int64_t apply_sign(uint64_t number, bool negative)
{
	if (negative)
		return -(int64_t)number;
	return (int64_t)number;
}

/* The slow path for numbers with an exponent or many digits: the first 19 significant digits are
 * used. */
static int64_t parse_long_number(const char *text, size_t n, int digits, bool *ok)
{
	const char *at = text, *end = text + n;
	bool negative = at < end && *at == '-', point = false, any = false;
	uint64_t number = 0;
	int exponent = 0;

	for (at += negative; at < end && ((*at >= '0' && *at <= '9') || (*at == '.' && !point));
	     at++) {
		bool keep = number < UINT64_C(1000000000000000000);

		point |= *at == '.';
		if (*at == '.')
			continue;
		any = true;
		if (keep)
			number = number * 10 + (uint64_t)(*at - '0');
		if (exponent > -10000 && exponent < 10000)
			exponent += !keep - point; /* a kept digit after the point, or a dropped one
						      before it */
	}
	if (!any || (at < end && (*at == 'x' || *at == 'X')))
		return parse_with_strtod(text, n, digits, ok);
	if (at < end && (*at == 'e' || *at == 'E'))
		exponent += parse_exponent(at + 1, end);
	if (ok)
		*ok = true;
	return apply_sign(scale_by_ten(number, exponent + digits), negative);
}

int64_t ws_parse_json_fixed(const struct ws_json_value *value, int digits, bool *ok)
{
	const char *at, *end, *first;
	bool negative = false;
	uint64_t number = 0;
	int decimals = 0;

	if (ok)
		*ok = false;
	if (value->type != WS_JSON_NUMBER && value->type != WS_JSON_STRING)
		return 0;
	at = value->text;
	end = at + value->length;
	if (at < end && *at == '-') {
		negative = true;
		at++;
	}
	first = at;
	for (; at < end && *at >= '0' && *at <= '9'; at++)
		number = number * 10 + (uint64_t)(*at - '0');
	if (at == first || at - first > 18)
		return parse_long_number(value->text, value->length, digits, ok);
	if (at < end && *at == '.') {
		for (at++; at < end && *at >= '0' && *at <= '9'; at++) {
			if (decimals < digits)
				number = number * 10 + (uint64_t)(*at - '0');
			else if (decimals == digits)
				number += *at >= '5';
			decimals++;
		}
		decimals = ws_min(decimals, digits);
	}
	if (at < end || at - first > 21)
		return parse_long_number(value->text, value->length, digits, ok);
	for (; decimals < digits; decimals++) {
		if (number > INT64_MAX / 10)
			return parse_long_number(value->text, value->length, digits, ok);
		number *= 10;
	}
	if (number > INT64_MAX)
		return parse_long_number(value->text, value->length, digits, ok);
	if (ok)
		*ok = true;
	return apply_sign(number, negative);
}

double ws_parse_json_double(const struct ws_json_value *value, bool *ok)
{
	char text[64], *rest;
	size_t length = ws_min(value->length, sizeof(text) - 1);
	double number;

	*ok = false;
	if (value->type != WS_JSON_NUMBER && value->type != WS_JSON_STRING)
		return 0;
	memcpy(text, value->text, length);
	text[length] = 0;
	number = strtod(text, &rest);
	*ok = rest != text && !*rest && isfinite(number);
	if (!*ok)
		return 0;
	return number;
}

/* ---- the window ---- */

void ws_open_json(struct ws_json *json, struct ws_input *source)
{
	*json = (struct ws_json){
		.source = source, .capacity = WINDOW_BYTES, .buffer = ws_malloc(WINDOW_BYTES)};
	if (ws_peek_json_byte(json) == 0xef && json->length >= 3 &&
	    !memcmp(json->buffer, "\xef\xbb\xbf", 3))
		json->at = 3;
}

void ws_close_json(struct ws_json *json)
{
	free(json->buffer);
}

/* Move what is left to the front of the window and read on. False when nothing more came. */
static bool refill_window(struct ws_json *json)
{
	size_t got;

	if (json->eof)
		return false;
	if (json->at) {
		memmove(json->buffer, json->buffer + json->at, json->length - json->at);
		json->offset += json->at;
		json->length -= json->at;
		json->at = 0;
	}
	if (json->length == json->capacity) {
		json->capacity *= 2;
		json->buffer = ws_realloc(json->buffer, json->capacity);
	}
	got = ws_read_input(json->source, json->buffer + json->length,
			    json->capacity - json->length);
	json->length += got;
	json->eof = !got;
	return got > 0;
}

int ws_peek_json_byte(struct ws_json *json)
{
	do {
		json->at =
			(size_t)(skip_blanks(json->buffer + json->at, json->buffer + json->length) -
				 json->buffer);
		if (json->at < json->length)
			return (unsigned char)json->buffer[json->at];
	} while (refill_window(json));
	return -1;
}

static int report_problem(struct ws_json *json, const char *why)
{
	const char *broken = ws_explain_broken_input(json->source);

	if (broken && json->eof)
		snprintf(json->problem, sizeof(json->problem), "%s", broken);
	else
		snprintf(json->problem, sizeof(json->problem), "%s at byte %" PRIu64, why,
			 ws_tell_json_offset(json));
	return -1;
}

int ws_take_json_value(struct ws_json *json, struct ws_json_value *value)
{
	const char *at;
	bool more;

	if (ws_peek_json_byte(json) < 0)
		return 0;
	for (;;) {
		at = ws_read_json_value(json->buffer + json->at, json->buffer + json->length, value,
					&more);
		if (at && value->length <= WS_JSON_MOST_BYTES) {
			json->at = (size_t)(at - json->buffer);
			return 1;
		}
		if (!more && !at)
			return report_problem(
				json, "there is something that is not JSON, or nested too deeply,");
		if (at || json->length - json->at > WS_JSON_MOST_BYTES)
			return report_problem(json, "there is a value of more than 64 MiB");
		if (!refill_window(json))
			break;
	}
	/* A number at the very end is whole. */
	if (json->at < json->length && is_number_byte(json->buffer[json->at])) {
		*value = (struct ws_json_value){.type = WS_JSON_NUMBER,
						.text = json->buffer + json->at,
						.length = (uint32_t)(json->length - json->at)};
		json->at = json->length;
		return 1;
	}
	return report_problem(json, "it ends in the middle of a value");
}
