/* json.c - see json.h. */
#include "text/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { WINDOW = 4 << 20 };

static inline const char *skip_blanks(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
		p++;
	return p;
}

/* The first quote or backslash at or after p, or end. Most bytes of a trace are in strings: 16 at a
 * time. */
static inline const char *find_special(const char *p, const char *end)
{
#ifdef __SSE2__
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');

	for (; p + 16 <= end; p += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)p);
		unsigned hits = (unsigned)_mm_movemask_epi8(
			_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)));

		if (hits)
			return p + __builtin_ctz(hits);
	}
#endif
	while (p < end && *p != '"' && *p != '\\')
		p++;
	return p;
}

/* p is behind the opening quote. */
static inline const char *take_string(const char *p, const char *end, struct ws_json_value *v,
				      bool *more)
{
	const char *s = p;

	v->type = WS_J_STRING;
	v->escaped = false;
	for (;;) {
		p = find_special(p, end);
		if (p >= end || (*p == '\\' && p + 1 >= end)) {
			*more = true;
			return NULL;
		}
		if (*p == '"')
			break;
		v->escaped = true;
		p += 2;
	}
	v->s = s;
	v->n = (uint32_t)(p - s);
	return p + 1;
}

static inline bool in_number(char c)
{
	return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
}

static const char *take_number(const char *p, const char *end, struct ws_json_value *v, bool *more)
{
	v->type = WS_J_NUMBER;
	v->s = p;
	if (*p == '-' && p + 1 < end && p[1] == 'I')
		p++; /* -Infinity */
	else
		while (p < end && in_number(*p))
			p++;
	if (p == end) {
		*more = true;
		return NULL;
	}
	v->n = (uint32_t)(p - v->s);
	return p;
}

static const struct {
	const char *text;
	uint8_t n;
	enum ws_json_type type;
} words[] = {{"true", 4, WS_J_TRUE}, {"false", 5, WS_J_FALSE},	 {"null", 4, WS_J_NULL},
	     {"NaN", 3, WS_J_NULL},  {"Infinity", 8, WS_J_NULL}, {"nan", 3, WS_J_NULL},
	     {"inf", 3, WS_J_NULL}};

static const char *take_word(const char *p, const char *end, struct ws_json_value *v, bool *more)
{
	size_t left = (size_t)(end - p);

	for (size_t i = 0; i < WS_COUNT(words); i++) {
		if (left < words[i].n && !memcmp(p, words[i].text, left)) {
			*more = true;
			return NULL;
		}
		if (left >= words[i].n && !memcmp(p, words[i].text, words[i].n)) {
			v->type = words[i].type;
			v->s = p;
			v->n = words[i].n;
			return p + words[i].n;
		}
	}
	return NULL;
}

/*
 * The end of an object or array: brackets are matched by kind, strings stepped over; what stands
 * between is checked when someone walks it. A bit of `kinds` a level: set for an object.
 */
static const char *take_nest(const char *p, const char *end, struct ws_json_value *v, bool *more)
{
	bool object[WS_JSON_DEPTH];
	struct ws_json_value inner;
	int depth = 0;

	v->type = *p == '{' ? WS_J_OBJECT : WS_J_ARRAY;
	v->s = p;
	while (p < end) {
		switch (*p) {
		case '"':
			p = take_string(p + 1, end, &inner, more);
			if (!p)
				return NULL;
			continue;
		case '{':
		case '[':
			if (depth == WS_JSON_DEPTH)
				return NULL;
			object[depth++] = *p == '{';
			break;
		case '}':
		case ']':
			if (object[--depth] != (*p == '}'))
				return NULL;
			if (!depth) {
				v->n = (uint32_t)(p + 1 - v->s);
				return p + 1;
			}
			break;
		}
		p++;
	}
	*more = true;
	return NULL;
}

const char *ws_json_value(const char *p, const char *end, struct ws_json_value *v, bool *more)
{
	*more = false;
	p = skip_blanks(p, end);
	if (p == end) {
		*more = true;
		return NULL;
	}
	switch (*p) {
	case '"':
		return take_string(p + 1, end, v, more);
	case '{':
	case '[':
		return take_nest(p, end, v, more);
	case '-':
	case '0' ... '9':
		return take_number(p, end, v, more);
	default:
		return take_word(p, end, v, more);
	}
}

bool ws_json_next(struct ws_json_walk *w, struct ws_json_value *key, struct ws_json_value *value)
{
	bool more;

	for (;;) {
		w->p = skip_blanks(w->p, w->end);
		if (w->p >= w->end || *w->p == '}' || *w->p == ']')
			return false;
		if (*w->p != ',')
			break;
		w->p++;
	}
	if (key) {
		if (*w->p != '"')
			return false;
		w->p = take_string(w->p + 1, w->end, key, &more);
		if (!w->p)
			goto broken;
		w->p = skip_blanks(w->p, w->end);
		if (w->p >= w->end || *w->p != ':')
			goto broken;
		w->p++;
	}
	w->p = ws_json_value(w->p, w->end, value, &more);
	if (w->p)
		return true;
broken:
	w->p = w->end;
	return false;
}

bool ws_json_is(const struct ws_json_value *v, const char *text)
{
	size_t n = strlen(text);

	return v->type == WS_J_STRING && v->n == n && !memcmp(v->s, text, n);
}

/* ---- strings ---- */

static int hex4(const char *p, const char *end)
{
	int v = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = p[i];
		int d = c >= '0' && c <= '9'		     ? c - '0'
			: (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
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
static const char *take_unicode(const char *p, const char *end, struct ws_text *out)
{
	int c = hex4(p, end), low;

	if (c < 0) {
		put_utf8(out, 0xfffd);
		return p;
	}
	p += 4;
	if (c < 0xd800 || c > 0xdfff) {
		put_utf8(out, (uint32_t)c);
		return p;
	}
	low = c < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2, end) : -1;
	if (low < 0xdc00 || low > 0xdfff) {
		put_utf8(out, 0xfffd);
		return p;
	}
	put_utf8(out, 0x10000 + ((uint32_t)(c - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
	return p + 6;
}

const char *ws_json_text(const struct ws_json_value *v, struct ws_text *scratch, size_t *n)
{
	const char *p = v->s, *end;

	if (v->type != WS_J_STRING || !v->escaped) { /* only texts know whether they are escaped */
		*n = v->n;
		return v->s;
	}
	end = p + v->n;
	scratch->len = 0;
	ws_text_add(scratch, "", 0);
	while (p < end) {
		const char *slash = memchr(p, '\\', (size_t)(end - p));
		static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
		const char *which;

		if (!slash || slash + 1 >= end) {
			ws_text_add(scratch, p, (size_t)(end - p));
			break;
		}
		ws_text_add(scratch, p, (size_t)(slash - p));
		p = slash + 2;
		if (slash[1] == 'u') {
			p = take_unicode(p, end, scratch);
			continue;
		}
		which = slash[1] ? strchr(from, slash[1]) : NULL;
		ws_text_add(scratch, which ? &to[which - from] : &slash[1], 1);
	}
	*n = scratch->len;
	return scratch->s;
}

void ws_json_escape(struct ws_text *out, const char *s, size_t n)
{
	size_t from = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		ws_text_add(out, s + from, i - from);
		from = i + 1;
		if (c == '"' || c == '\\')
			ws_text_printf(out, "\\%c", c);
		else
			ws_text_printf(out, "\\u%04x", c);
	}
	ws_text_add(out, s + from, n - from);
}

void ws_json_compact(struct ws_text *out, const struct ws_json_value *v)
{
	const char *p = v->s, *end = v->s + v->n;

	ws_text_add(out, "", 0);
	while (p < end) {
		const char *line = memchr(p, '\n', (size_t)(end - p));
		bool comma;

		if (!line) {
			ws_text_add(out, p, (size_t)(end - p));
			break;
		}
		ws_text_add(out, p, (size_t)(line - p));
		comma = line > p && line[-1] == ',';
		p = skip_blanks(line, end);
		if (comma)
			ws_text_add(out, " ", 1);
	}
}

/* ---- numbers ---- */

/* Hexadecimal numbers in strings, infinity, and what is no number. */
static int64_t by_double(const char *s, size_t n, int digits, bool *ok)
{
	char text[64], *rest;
	double d;

	n = n < sizeof(text) - 1 ? n : sizeof(text) - 1;
	memcpy(text, s, n);
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
static int exponent_of(const char *p, const char *end)
{
	bool negative = p < end && *p == '-';
	int e = 0;

	p += p < end && (*p == '-' || *p == '+');
	for (; p < end && *p >= '0' && *p <= '9' && e < 10000; p++)
		e = e * 10 + (*p - '0');
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
	return u < INT64_MAX ? u : INT64_MAX;
}

/* With an exponent, or many digits: the first 19 that count are taken. */
static int64_t slow_fixed(const char *s, size_t n, int digits, bool *ok)
{
	const char *p = s, *end = s + n;
	bool negative = p < end && *p == '-', point = false, any = false;
	uint64_t u = 0;
	int e = 0;

	for (p += negative; p < end && ((*p >= '0' && *p <= '9') || (*p == '.' && !point)); p++) {
		bool keep = u < UINT64_C(1000000000000000000);

		point |= *p == '.';
		if (*p == '.')
			continue;
		any = true;
		u = keep ? u * 10 + (uint64_t)(*p - '0') : u;
		if (e > -10000 && e < 10000)
			e += point ? -keep : !keep;
	}
	if (!any || (p < end && (*p == 'x' || *p == 'X')))
		return by_double(s, n, digits, ok);
	if (p < end && (*p == 'e' || *p == 'E'))
		e += exponent_of(p + 1, end);
	if (ok)
		*ok = true;
	u = times_ten(u, e + digits);
	return negative ? -(int64_t)u : (int64_t)u;
}

int64_t ws_json_fixed(const struct ws_json_value *v, int digits, bool *ok)
{
	const char *p, *end, *first;
	bool negative = false;
	uint64_t u = 0;
	int after = 0;

	if (ok)
		*ok = false;
	if (v->type != WS_J_NUMBER && v->type != WS_J_STRING)
		return 0;
	p = v->s;
	end = p + v->n;
	if (p < end && *p == '-') {
		negative = true;
		p++;
	}
	first = p;
	for (; p < end && *p >= '0' && *p <= '9'; p++)
		u = u * 10 + (uint64_t)(*p - '0');
	if (p == first || p - first > 18)
		return slow_fixed(v->s, v->n, digits, ok);
	if (p < end && *p == '.') {
		for (p++; p < end && *p >= '0' && *p <= '9'; p++) {
			if (after < digits)
				u = u * 10 + (uint64_t)(*p - '0');
			else if (after == digits)
				u += *p >= '5';
			after++;
		}
		after = after < digits ? after : digits;
	}
	if (p < end || p - first > 21)
		return slow_fixed(v->s, v->n, digits, ok);
	for (; after < digits; after++) {
		if (u > INT64_MAX / 10)
			return slow_fixed(v->s, v->n, digits, ok);
		u *= 10;
	}
	if (u > INT64_MAX)
		return slow_fixed(v->s, v->n, digits, ok);
	if (ok)
		*ok = true;
	return negative ? -(int64_t)u : (int64_t)u;
}

double ws_json_double(const struct ws_json_value *v, bool *ok)
{
	char text[64], *rest;
	size_t n = v->n < sizeof(text) - 1 ? v->n : sizeof(text) - 1;
	double d;

	*ok = false;
	if (v->type != WS_J_NUMBER && v->type != WS_J_STRING)
		return 0;
	memcpy(text, v->s, n);
	text[n] = 0;
	d = strtod(text, &rest);
	*ok = rest != text && !*rest && isfinite(d);
	return *ok ? d : 0;
}

/* ---- the window ---- */

void ws_json_open(struct ws_json *j, struct ws_source *s)
{
	*j = (struct ws_json){.source = s, .cap = WINDOW, .buffer = ws_malloc(WINDOW)};
	if (ws_json_peek(j) == 0xef && j->len >= 3 && !memcmp(j->buffer, "\xef\xbb\xbf", 3))
		j->at = 3;
}

void ws_json_close(struct ws_json *j)
{
	free(j->buffer);
}

/* Move what is left to the front and read on. False when nothing more came. */
static bool refill(struct ws_json *j)
{
	size_t got;

	if (j->eof)
		return false;
	if (j->at) {
		memmove(j->buffer, j->buffer + j->at, j->len - j->at);
		j->offset += j->at;
		j->len -= j->at;
		j->at = 0;
	}
	if (j->len == j->cap) {
		j->cap *= 2;
		j->buffer = ws_realloc(j->buffer, j->cap);
	}
	got = ws_source_read(j->source, j->buffer + j->len, j->cap - j->len);
	j->len += got;
	j->eof = !got;
	return got > 0;
}

int ws_json_peek(struct ws_json *j)
{
	do {
		j->at = (size_t)(skip_blanks(j->buffer + j->at, j->buffer + j->len) - j->buffer);
		if (j->at < j->len)
			return (unsigned char)j->buffer[j->at];
	} while (refill(j));
	return -1;
}

static int stop(struct ws_json *j, const char *why)
{
	const char *broken = ws_source_broken(j->source);

	if (broken && j->eof)
		snprintf(j->problem, sizeof(j->problem), "%s", broken);
	else
		snprintf(j->problem, sizeof(j->problem), "%s at byte %" PRIu64, why,
			 ws_json_offset(j));
	return -1;
}

int ws_json_take(struct ws_json *j, struct ws_json_value *v)
{
	const char *p;
	bool more;

	if (ws_json_peek(j) < 0)
		return 0;
	for (;;) {
		p = ws_json_value(j->buffer + j->at, j->buffer + j->len, v, &more);
		if (p && v->n <= WS_JSON_VALUE) {
			j->at = (size_t)(p - j->buffer);
			return 1;
		}
		if (!more && !p)
			return stop(j,
				    "there is something that is not JSON, or nested too deeply,");
		if (p || j->len - j->at > WS_JSON_VALUE)
			return stop(j, "there is a value of more than 64 MiB");
		if (!refill(j))
			break;
	}
	/* A number at the very end is whole. */
	if (j->at < j->len && in_number(j->buffer[j->at])) {
		*v = (struct ws_json_value){.type = WS_J_NUMBER,
					    .s = j->buffer + j->at,
					    .n = (uint32_t)(j->len - j->at)};
		j->at = j->len;
		return 1;
	}
	return stop(j, "it ends in the middle of a value");
}
