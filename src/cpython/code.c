/* code.c - code objects and texts; see cpython.h. */
#include "cpython/cpython.h"
#include "base/choose.h"

#include <string.h>

#define MOST_TEXT 65536 /* no name or path is longer */

/* ---- texts ---- */

/* Where bit fields of a str's state begin: behind two bits, a byte or 16 bits of `interned`, by
 * version and build. The one that makes sense is taken. */
static bool text_state(uint32_t state, unsigned *kind, bool *ascii)
{
	static const unsigned shifts[] = {2, 8, 16};

	for (size_t i = 0; i < sizeof(shifts) / sizeof(*shifts); i++) {
		uint32_t s = state >> shifts[i];

		*kind = s & 7;
		*ascii = s >> 4 & 1;
		if ((*kind == 1 || *kind == 2 || *kind == 4) && s >> 3 & 1 &&
		    (!*ascii || *kind == 1))
			return true;
	}
	return false;
}

static size_t put_utf8(char *out, size_t room, uint32_t c)
{
	uint8_t b[4];
	size_t n;

	if (c >= 0xd800 && c < 0xe000)
		c = 0xfffd; /* half of a pair: how Python keeps bytes of file names that are not
			       UTF-8 */
	if (c < 0x80) {
		b[0] = (uint8_t)c;
		n = 1;
	} else if (c < 0x800) {
		b[0] = (uint8_t)(0xc0 | c >> 6);
		b[1] = (uint8_t)(0x80 | (c & 63));
		n = 2;
	} else if (c < 0x10000) {
		b[0] = (uint8_t)(0xe0 | c >> 12);
		b[1] = (uint8_t)(0x80 | (c >> 6 & 63));
		b[2] = (uint8_t)(0x80 | (c & 63));
		n = 3;
	} else {
		b[0] = (uint8_t)(0xf0 | (c >> 18 & 7));
		b[1] = (uint8_t)(0x80 | (c >> 12 & 63));
		b[2] = (uint8_t)(0x80 | (c >> 6 & 63));
		b[3] = (uint8_t)(0x80 | (c & 63));
		n = 4;
	}
	if (n > room)
		return 0;
	memcpy(out, b, n);
	return n;
}

int ws_py_text(const struct ws_py_layout *layout, const struct ws_py_memory *memory, uint64_t text,
	       char *out, size_t room)
{
	uint64_t length = 0, done = 0;
	uint32_t state = 0;
	struct ws_py_piece pieces[2] = {{text + layout->text_length, &length, 8},
					{text + layout->text_state, &state, 4}};
	unsigned kind;
	size_t n = 0;
	bool ascii;

	if (!text || text & 7 || memory->read(memory->ctx, pieces, 2) != 2 ||
	    !text_state(state, &kind, &ascii) || length > MOST_TEXT)
		return -1;
	text += ascii ? layout->text_ascii : layout->text_compact;
	while (done < length && n < room) {
		uint8_t part[512];
		uint64_t take =
			length - done < sizeof(part) / kind ? length - done : sizeof(part) / kind;

		if (!ws_py_read(memory, text + done * kind, part, (size_t)take * kind))
			return -1;
		for (uint64_t i = 0; i < take; i++) {
			uint32_t c = 0;
			size_t put;

			memcpy(&c, part + i * kind,
			       kind); /* little-endian, as the machines that are supported */
			put = put_utf8(out + n, room - n, c);
			if (!put)
				return (int)n;
			n += put;
		}
		done += take;
	}
	return (int)n;
}

/* ---- code objects ---- */

static uint32_t least(uint32_t a, uint32_t b)
{
	return ws_min(a, b);
}

static uint32_t most(uint32_t a, uint32_t b)
{
	return ws_max(a, b);
}

/* The fields that make a key lie close together: [from, from + bytes). */
static uint32_t key_span(const struct ws_py_layout *layout, uint32_t *from)
{
	*from = least(least(layout->code_first_line, layout->code_name),
		      least(layout->code_file, layout->code_table));
	return most(most(layout->code_first_line + 4, layout->code_name + 8),
		    most(layout->code_file + 8, layout->code_table + 8)) -
	       *from;
}

static struct ws_py_code_key key_from(const struct ws_py_layout *layout, const uint8_t *raw,
				      uint32_t from)
{
	struct ws_py_code_key code_key;

	memset(&code_key, 0, sizeof(code_key));
	memcpy(&code_key.name, raw + layout->code_name - from, 8);
	memcpy(&code_key.file, raw + layout->code_file - from, 8);
	memcpy(&code_key.table, raw + layout->code_table - from, 8);
	memcpy(&code_key.first_line, raw + layout->code_first_line - from, 4);
	return code_key;
}

size_t ws_py_code_keys(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		       const uint64_t *code, size_t n, struct ws_py_code_key *out, void *raw)
{
	struct ws_py_piece pieces[WS_PY_PIECES];
	uint32_t from, bytes = key_span(layout, &from);
	size_t got;

	if (n > WS_PY_PIECES || bytes > WS_PY_KEY_BYTES)
		return 0;
	for (size_t i = 0; i < n; i++)
		pieces[i] = (struct ws_py_piece){code[i] + from,
						 (uint8_t *)raw + i * WS_PY_KEY_BYTES, bytes};
	got = n ? memory->read(memory->ctx, pieces, n) : 0;
	for (size_t i = 0; i < got; i++) {
		out[i] = key_from(layout, (uint8_t *)raw + i * WS_PY_KEY_BYTES, from);
		pieces[i] = (struct ws_py_piece){out[i].name + layout->text_length, out[i].text,
						 sizeof(out[i].text)};
	}
	/* A name that cannot be read does not count. */
	for (size_t done = 0; done < got; done++) {
		done += memory->read(memory->ctx, pieces + done, got - done);
		if (done < got)
			memset(out[done].text, 0, sizeof(out[done].text));
	}
	return got;
}

bool ws_py_code_read(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		     uint64_t code, struct ws_py_code *out)
{
	uint8_t raw[WS_PY_KEY_BYTES];
	struct ws_py_code_key code_key;
	uint64_t qualname = 0, size = 0;
	int name = -1, file;

	if (!code || code & 7 || ws_py_code_keys(layout, memory, &code, 1, &code_key, raw) != 1)
		return false;
	if (layout->code_qualname && ws_py_read(memory, code + layout->code_qualname, &qualname, 8))
		name = ws_py_text(layout, memory, qualname, out->name, sizeof(out->name));
	if (name < 0)
		name = ws_py_text(layout, memory, code_key.name, out->name, sizeof(out->name));
	file = ws_py_text(layout, memory, code_key.file, out->file, sizeof(out->file));
	if (name < 0 || file < 0)
		return false;
	out->name_len = (uint32_t)name;
	out->file_len = (uint32_t)file;
	out->first_line = code_key.first_line;
	out->shim = code_key.name == code_key.file;
	out->table = 0;
	out->table_bytes = 0;
	if (code_key.table && !(code_key.table & 7) &&
	    ws_py_read(memory, code_key.table + layout->bytes_size, &size, 8) &&
	    size <= WS_PY_TABLE_MOST) {
		out->table = code_key.table + layout->bytes_data;
		out->table_bytes = (uint32_t)size;
	}
	return true;
}
