/*
 * json.h - reading JSON that may be large, broken or hostile, a piece at a time.
 *
 * A trace is one array of a million small objects. So no tree is built: a window slides over the
 * text, and each object is taken apart where it lies, into fields that point into the window. An
 * object that reaches beyond the window is started again once more has been read; with megabytes of
 * window and hundreds of bytes per object, that is rare. A library that builds or checks the whole
 * document first would refuse a gigabyte for one bad byte, and traces that were cut off are common.
 *
 * Beyond JSON, it accepts what tools write: NaN and Infinity, control characters in strings,
 * surplus commas, bytes that are not UTF-8. It bounds the depth of nesting (WS_JSON_MOST_DEPTH) and
 * the bytes of one value (WS_JSON_MOST_BYTES).
 */
#ifndef WS_TEXT_JSON_H
#define WS_TEXT_JSON_H

#include "base/mem.h"
#include "text/input.h"

enum { WS_JSON_MOST_DEPTH = 128, WS_JSON_MOST_BYTES = 64 << 20 };

enum ws_json_type {
	WS_JSON_NONE,
	WS_JSON_STRING,
	WS_JSON_NUMBER,
	WS_JSON_OBJECT,
	WS_JSON_ARRAY,
	WS_JSON_TRUE,
	WS_JSON_FALSE,
	WS_JSON_NULL
};

/* A value in the window: of a string what stands between the quotes, escapes and all; of others the
 * whole of it. */
struct ws_json_value {
	enum ws_json_type type;
	bool escaped; /* of a string: it holds a backslash */
	const char *text;
	uint32_t length;
};

/*
 * Take one value off [at, end). Returns where it ends, or NULL: with *more set when the text ended
 * inside the value, otherwise it is not JSON. A number that ends at `end` asks for more, because
 * another digit might follow.
 */
const char *ws_read_json_value(const char *at, const char *end, struct ws_json_value *value,
			       bool *more);

/* Walk an object or array that lies in the window whole, member by member: false at its end, or
 * where it is broken. `key` is NULL for an array. */
struct ws_json_walk {
	const char *at, *end;
};
bool ws_next_json_member(struct ws_json_walk *walk, struct ws_json_value *key,
			 struct ws_json_value *value);
static inline struct ws_json_walk ws_begin_json_walk(const struct ws_json_value *value)
{
	return (struct ws_json_walk){value->text + 1, value->text + value->length};
}

/* Whether the value is the string `text`, written without escapes. */
bool ws_is_json_string(const struct ws_json_value *value, const char *text);
/* A string's bytes, *n of them, with escapes undone: in `scratch` if it has any, else in the
 * window. */
const char *ws_unescape_json_text(const struct ws_json_value *value, struct ws_text *scratch,
				  size_t *n);
/*
 * The value of a number, or of a string that holds one, in units of 10^-`digits`, rounded and
 * clamped to int64_t. *ok (may be NULL) says whether it was a number.
 */
int64_t ws_parse_json_fixed(const struct ws_json_value *value, int digits, bool *ok);
double ws_parse_json_double(const struct ws_json_value *value, bool *ok);
/* Append the value, which must not be a string, without line ends and the blanks after them. */
void ws_put_compact_json(struct ws_text *out, const struct ws_json_value *value);
/* Append `n` bytes to `out` as they must be written between quotes; the quotes are not added. */
void ws_put_escaped_json(struct ws_text *out, const char *text, size_t n);

/* ---- the window ---- */

struct ws_json {
	struct ws_input *source;
	char *buffer;
	size_t capacity, length, at;
	uint64_t offset; /* of the buffer's first byte in the text */
	bool eof;
	char problem[256]; /* why reading failed, or "" */
};

void ws_open_json(struct ws_json *json, struct ws_input *source);
void ws_close_json(struct ws_json *json);
/* The next byte that is not blank, without taking it; -1 at the end. */
int ws_peek_json_byte(struct ws_json *json);
/*
 * Read the next whole value; it stays in the window until the next call. Returns 1, 0 at the end of
 * the text (before a value), or -1 when it is not JSON, nested too deeply or too large: `problem`
 * then says where.
 */
int ws_take_json_value(struct ws_json *json, struct ws_json_value *value);
/* How far reading has come, in bytes of the text. */
static inline uint64_t ws_tell_json_offset(const struct ws_json *json)
{
	return json->offset + json->at;
}

#endif
