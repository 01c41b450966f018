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

enum { WINDOW = 4 << 20 };

static inline const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
		at++;
	return at;
}

/* The first quote or backslash at or after p, or end. Most bytes of a trace are in strings: 16 at a
 * time. */
static inline const char *find_special(const char *at, const char *end)
{
#ifdef __SSE2__
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');

	for (; at + 16 <= end; at += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)at);
		unsigned hits = (unsigned)_mm_movemask_epi8(
			_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)));

		if (hits)
			return at + __builtin_ctz(hits);
	}
#endif
	while (at < end && *at != '"' && *at != '\\')
		at++;
	return at;
}

/* p is behind the opening quote. */
static inline const char *take_string(const char *at, const char *end, struct ws_json_value *value,
				      bool *more)
{
	const char *text = at;

	value->type = WS_J_STRING;
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
	value->n = (uint32_t)(at - text);
	return at + 1;
}

static inline bool in_number(char letter)
{
	return (letter >= '0' && letter <= '9') || letter == '.' || letter == '-' ||
	       letter == '+' || letter == 'e' || letter == 'E';
}

static const char *take_number(const char *at, const char *end, struct ws_json_value *value,
			       bool *more)
{
	value->type = WS_J_NUMBER;
	value->text = at;
	if (*at == '-' && at + 1 < end && at[1] == 'I')
		at++; /* -Infinity */
	else
		while (at < end && in_number(*at))
			at++;
	if (at == end) {
		*more = true;
		return NULL;
	}
	value->n = (uint32_t)(at - value->text);
	return at;
}

static const struct {
	const char *text;
	uint8_t n;
	enum ws_json_type type;
} words[] = {{"true", 4, WS_J_TRUE}, {"false", 5, WS_J_FALSE},	 {"null", 4, WS_J_NULL},
	     {"NaN", 3, WS_J_NULL},  {"Infinity", 8, WS_J_NULL}, {"nan", 3, WS_J_NULL},
	     {"inf", 3, WS_J_NULL}};

static const char *take_word(const char *at, const char *end, struct ws_json_value *value,
			     bool *more)
{
	size_t left = (size_t)(end - at);

	for (size_t i = 0; i < WS_COUNT(words); i++) {
		if (left < words[i].n && !memcmp(at, words[i].text, left)) {
			*more = true;
			return NULL;
		}
		if (left >= words[i].n && !memcmp(at, words[i].text, words[i].n)) {
			value->type = words[i].type;
			value->text = at;
			value->n = words[i].n;
			return at + words[i].n;
		}
	}
	return NULL;
}

/*
 * The end of an object or array: brackets are matched by kind, strings stepped over; what stands
 * between is checked when someone walks it. A bit of `kinds` a level: set for an object.
 */
static const char *take_nest(const char *at, const char *end, struct ws_json_value *value,
			     bool *more)
{
	bool object[WS_JSON_DEPTH];
	struct ws_json_value inner;
	int depth = 0;

	value->type = *at == '{' ? WS_J_OBJECT : WS_J_ARRAY;
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
			if (depth == WS_JSON_DEPTH)
				return NULL;
			object[depth++] = *at == '{';
			break;
		case '}':
		case ']':
			if (object[--depth] != (*at == '}'))
				return NULL;
			if (!depth) {
				value->n = (uint32_t)(at + 1 - value->text);
				return at + 1;
			}
			break;
		}
		at++;
	}
	*more = true;
	return NULL;
}

const char *ws_json_value(const char *at, const char *end, struct ws_json_value *value, bool *more)
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
		return take_nest(at, end, value, more);
	case '-':
	case '0' ... '9':
		return take_number(at, end, value, more);
	default:
		return take_word(at, end, value, more);
	}
}

bool ws_json_next(struct ws_json_walk *walk, struct ws_json_value *key, struct ws_json_value *value)
{
	bool more;

	for (;;) {
		walk->p = skip_blanks(walk->p, walk->end);
		if (walk->p >= walk->end || *walk->p == '}' || *walk->p == ']')
			return false;
		if (*walk->p != ',')
			break;
		walk->p++;
	}
	if (key) {
		if (*walk->p != '"')
			return false;
		walk->p = take_string(walk->p + 1, walk->end, key, &more);
		if (!walk->p)
			goto broken;
		walk->p = skip_blanks(walk->p, walk->end);
		if (walk->p >= walk->end || *walk->p != ':')
			goto broken;
		walk->p++;
	}
	walk->p = ws_json_value(walk->p, walk->end, value, &more);
	if (walk->p)
		return true;
broken:
	walk->p = walk->end;
	return false;
}

bool ws_json_is(const struct ws_json_value *value, const char *text)
{
	size_t n = strlen(text);

	return value->type == WS_J_STRING && value->n == n && !memcmp(value->text, text, n);
}

/* ---- strings ---- */

static int hex4(const char *at, const char *end)
{
	int v = 0;

	if (end - at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char letter = at[i];
		int d = letter >= '0' && letter <= '9'		       ? letter - '0'
			: (letter | 32) >= 'a' && (letter | 32) <= 'f' ? (letter | 32) - 'a' + 10
								       : -1;

		if (d < 0)
			return -1;
		v = v << 4 | d;
	}
	return v;
}

static void put_utf8(struct ws_text *out, uint32_t c)
{
	char b[4];
	size_t n;

	if (c < 0x80) {
		b[0] = (char)c;
		n = 1;
	} else if (c < 0x800) {
		b[0] = (char)(0xc0 | c >> 6);
		b[1] = (char)(0x80 | (c & 63));
		n = 2;
	} else if (c < 0x10000) {
		b[0] = (char)(0xe0 | c >> 12);
		b[1] = (char)(0x80 | (c >> 6 & 63));
		b[2] = (char)(0x80 | (c & 63));
		n = 3;
	} else {
		b[0] = (char)(0xf0 | c >> 18);
		b[1] = (char)(0x80 | (c >> 12 & 63));
		b[2] = (char)(0x80 | (c >> 6 & 63));
		b[3] = (char)(0x80 | (c & 63));
		n = 4;
	}
	ws_text_add(out, b, n);
}

/* \uXXXX at p (behind the u), with the second half of a surrogate pair. Returns what follows. */
static const char *take_unicode(const char *at, const char *end, struct ws_text *out)
{
	int c = hex4(at, end), low;

	if (c < 0) {
		put_utf8(out, 0xfffd);
		return at;
	}
	at += 4;
	if (c < 0xd800 || c > 0xdfff) {
		put_utf8(out, (uint32_t)c);
		return at;
	}
	low = c < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u' ? hex4(at + 2, end) : -1;
	if (low < 0xdc00 || low > 0xdfff) {
		put_utf8(out, 0xfffd);
		return at;
	}
	put_utf8(out, 0x10000 + ((uint32_t)(c - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
	return at + 6;
}

const char *ws_json_text(const struct ws_json_value *value, struct ws_text *scratch, size_t *n)
{
	const char *at = value->text, *end;

	if (value->type != WS_J_STRING ||
	    !value->escaped) { /* only texts know whether they are escaped */
		*n = value->n;
		return value->text;
	}
	end = at + value->n;
	scratch->len = 0;
	ws_text_add(scratch, "", 0);
	while (at < end) {
		const char *slash = memchr(at, '\\', (size_t)(end - at));
		static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
		const char *which;

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
		which = slash[1] ? strchr(from, slash[1]) : NULL;
		ws_text_add(scratch, which ? &to[which - from] : &slash[1], 1);
	}
	*n = scratch->len;
	return scratch->text;
}

void ws_json_escape(struct ws_text *out, const char *text, size_t n)
{
	size_t from = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		ws_text_add(out, text + from, i - from);
		from = i + 1;
		if (c == '"' || c == '\\')
			ws_text_printf(out, "\\%c", c);
		else
			ws_text_printf(out, "\\u%04x", c);
	}
	ws_text_add(out, text + from, n - from);
}

void ws_json_compact(struct ws_text *out, const struct ws_json_value *value)
{
	const char *at = value->text, *end = value->text + value->n;

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

/* Hexadecimal numbers in strings, infinity, and what is no number. */
static int64_t by_double(const char *word, size_t n, int digits, bool *ok)
{
	char text[64], *rest;
	double d;

	n = n < sizeof(text) - 1 ? n : sizeof(text) - 1;
	memcpy(text, word, n);
	text[n] = 0;
	d = strtod(text, &rest);
	if (ok)
		*ok = rest != text && isfinite(d);
	for (int i = 0; i < digits; i++)
		d *= 10;
	return isnan(d)	      ? 0
	       : d >= 9.2e18  ? INT64_MAX
	       : d <= -9.2e18 ? INT64_MIN
			      : (int64_t)llround(d);
}

/* What stands after e or E, bounded. */
static int exponent_of(const char *at, const char *end)
{
	bool negative = at < end && *at == '-';
	int e = 0;

	at += at < end && (*at == '-' || *at == '+');
	for (; at < end && *at >= '0' && *at <= '9' && e < 10000; at++)
		e = e * 10 + (*at - '0');
	return negative ? -e : e;
}

/* u times ten to the power of e, rounded half up, at most INT64_MAX. */
static uint64_t times_ten(uint64_t u, int e)
{
	uint64_t by = 1;

	for (; e > 0 && u; e--) {
		if (u > INT64_MAX / 10)
			return INT64_MAX;
		u *= 10;
	}
	if (e < -19)
		return 0;
	for (; e < 0; e++)
		by *= 10;
	u = u / by + (u % by >= by - by / 2 && by > 1);
	return ws_min(u, INT64_MAX);
}

/* With an exponent, or many digits: the first 19 that count are taken. */
static int64_t slow_fixed(const char *text, size_t n, int digits, bool *ok)
{
	const char *at = text, *end = text + n;
	bool negative = at < end && *at == '-', point = false, any = false;
	uint64_t u = 0;
	int e = 0;

	for (at += negative; at < end && ((*at >= '0' && *at <= '9') || (*at == '.' && !point));
	     at++) {
		bool keep = u < UINT64_C(1000000000000000000);

		point |= *at == '.';
		if (*at == '.')
			continue;
		any = true;
		u = keep ? u * 10 + (uint64_t)(*at - '0') : u;
		if (e > -10000 && e < 10000)
			e += point ? -keep : !keep;
	}
	if (!any || (at < end && (*at == 'x' || *at == 'X')))
		return by_double(text, n, digits, ok);
	if (at < end && (*at == 'e' || *at == 'E'))
		e += exponent_of(at + 1, end);
	if (ok)
		*ok = true;
	u = times_ten(u, e + digits);
	return negative ? -(int64_t)u : (int64_t)u;
}

int64_t ws_json_fixed(const struct ws_json_value *value, int digits, bool *ok)
{
	const char *at, *end, *first;
	bool negative = false;
	uint64_t u = 0;
	int after = 0;

	if (ok)
		*ok = false;
	if (value->type != WS_J_NUMBER && value->type != WS_J_STRING)
		return 0;
	at = value->text;
	end = at + value->n;
	if (at < end && *at == '-') {
		negative = true;
		at++;
	}
	first = at;
	for (; at < end && *at >= '0' && *at <= '9'; at++)
		u = u * 10 + (uint64_t)(*at - '0');
	if (at == first || at - first > 18)
		return slow_fixed(value->text, value->n, digits, ok);
	if (at < end && *at == '.') {
		for (at++; at < end && *at >= '0' && *at <= '9'; at++) {
			if (after < digits)
				u = u * 10 + (uint64_t)(*at - '0');
			else if (after == digits)
				u += *at >= '5';
			after++;
		}
		after = ws_min(after, digits);
	}
	if (at < end || at - first > 21)
		return slow_fixed(value->text, value->n, digits, ok);
	for (; after < digits; after++) {
		if (u > INT64_MAX / 10)
			return slow_fixed(value->text, value->n, digits, ok);
		u *= 10;
	}
	if (u > INT64_MAX)
		return slow_fixed(value->text, value->n, digits, ok);
	if (ok)
		*ok = true;
	return negative ? -(int64_t)u : (int64_t)u;
}

double ws_json_double(const struct ws_json_value *value, bool *ok)
{
	char text[64], *rest;
	size_t n = value->n < sizeof(text) - 1 ? value->n : sizeof(text) - 1;
	double d;

	*ok = false;
	if (value->type != WS_J_NUMBER && value->type != WS_J_STRING)
		return 0;
	memcpy(text, value->text, n);
	text[n] = 0;
	d = strtod(text, &rest);
	*ok = rest != text && !*rest && isfinite(d);
	return *ok ? d : 0;
}

/* ---- the window ---- */

void ws_json_open(struct ws_json *json, struct ws_source *source)
{
	*json = (struct ws_json){.source = source, .cap = WINDOW, .buffer = ws_malloc(WINDOW)};
	if (ws_json_peek(json) == 0xef && json->len >= 3 &&
	    !memcmp(json->buffer, "\xef\xbb\xbf", 3))
		json->at = 3;
}

void ws_json_close(struct ws_json *json)
{
	free(json->buffer);
}

/* Move what is left to the front and read on. False when nothing more came. */
static bool refill(struct ws_json *json)
{
	size_t got;

	if (json->eof)
		return false;
	if (json->at) {
		memmove(json->buffer, json->buffer + json->at, json->len - json->at);
		json->offset += json->at;
		json->len -= json->at;
		json->at = 0;
	}
	if (json->len == json->cap) {
		json->cap *= 2;
		json->buffer = ws_realloc(json->buffer, json->cap);
	}
	got = ws_source_read(json->source, json->buffer + json->len, json->cap - json->len);
	json->len += got;
	json->eof = !got;
	return got > 0;
}

int ws_json_peek(struct ws_json *json)
{
	do {
		json->at = (size_t)(skip_blanks(json->buffer + json->at, json->buffer + json->len) -
				    json->buffer);
		if (json->at < json->len)
			return (unsigned char)json->buffer[json->at];
	} while (refill(json));
	return -1;
}

static int stop(struct ws_json *json, const char *why)
{
	const char *broken = ws_source_broken(json->source);

	if (broken && json->eof)
		snprintf(json->problem, sizeof(json->problem), "%s", broken);
	else
		snprintf(json->problem, sizeof(json->problem), "%s at byte %" PRIu64, why,
			 ws_json_offset(json));
	return -1;
}

int ws_json_take(struct ws_json *json, struct ws_json_value *value)
{
	const char *at;
	bool more;

	if (ws_json_peek(json) < 0)
		return 0;
	for (;;) {
		at = ws_json_value(json->buffer + json->at, json->buffer + json->len, value, &more);
		if (at && value->n <= WS_JSON_VALUE) {
			json->at = (size_t)(at - json->buffer);
			return 1;
		}
		if (!more && !at)
			return stop(json,
				    "there is something that is not JSON, or nested too deeply,");
		if (at || json->len - json->at > WS_JSON_VALUE)
			return stop(json, "there is a value of more than 64 MiB");
		if (!refill(json))
			break;
	}
	/* A number at the very end is whole. */
	if (json->at < json->len && in_number(json->buffer[json->at])) {
		*value = (struct ws_json_value){.type = WS_J_NUMBER,
						.text = json->buffer + json->at,
						.n = (uint32_t)(json->len - json->at)};
		json->at = json->len;
		return 1;
	}
	return stop(json, "it ends in the middle of a value");
}
