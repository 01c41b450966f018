/* code.c - code objects and texts; see cpython.h. */
#include "cpython/cpython.h"

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

int ws_py_text(const struct ws_py_layout *l, const struct ws_py_memory *m, uint64_t text, char *out,
	       size_t room)
{
	uint64_t length = 0, done = 0;
	uint32_t state = 0;
	struct ws_py_piece p[2] = {{text + l->text_length, &length, 8},
				   {text + l->text_state, &state, 4}};
	unsigned kind;
	size_t n = 0;
	bool ascii;

	if (!text || text & 7 || m->read(m->ctx, p, 2) != 2 || !text_state(state, &kind, &ascii) ||
	    length > MOST_TEXT)
		return -1;
	text += ascii ? l->text_ascii : l->text_compact;
	while (done < length && n < room) {
		uint8_t part[512];
		uint64_t take =
			length - done < sizeof(part) / kind ? length - done : sizeof(part) / kind;

		if (!ws_py_read(m, text + done * kind, part, (size_t)take * kind))
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
	return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* The fields that make a key lie close together: [from, from + bytes). */
static uint32_t key_span(const struct ws_py_layout *l, uint32_t *from)
{
	*from = least(least(l->code_first_line, l->code_name), least(l->code_file, l->code_table));
	return most(most(l->code_first_line + 4, l->code_name + 8),
		    most(l->code_file + 8, l->code_table + 8)) -
	       *from;
}

static struct ws_py_code_key key_from(const struct ws_py_layout *l, const uint8_t *raw,
				      uint32_t from)
{
	struct ws_py_code_key k;

	memset(&k, 0, sizeof(k));
	memcpy(&k.name, raw + l->code_name - from, 8);
	memcpy(&k.file, raw + l->code_file - from, 8);
	memcpy(&k.table, raw + l->code_table - from, 8);
	memcpy(&k.first_line, raw + l->code_first_line - from, 4);
	return k;
}

size_t ws_py_code_keys(const struct ws_py_layout *l, const struct ws_py_memory *m,
		       const uint64_t *code, size_t n, struct ws_py_code_key *out, void *raw)
{
	struct ws_py_piece p[WS_PY_PIECES];
	uint32_t from, bytes = key_span(l, &from);
	size_t got;

	if (n > WS_PY_PIECES || bytes > WS_PY_KEY_BYTES)
		return 0;
	for (size_t i = 0; i < n; i++)
		p[i] = (struct ws_py_piece){code[i] + from, (uint8_t *)raw + i * WS_PY_KEY_BYTES,
					    bytes};
	got = n ? m->read(m->ctx, p, n) : 0;
	for (size_t i = 0; i < got; i++) {
		out[i] = key_from(l, (uint8_t *)raw + i * WS_PY_KEY_BYTES, from);
		p[i] = (struct ws_py_piece){out[i].name + l->text_length, out[i].text,
					    sizeof(out[i].text)};
	}
	/* A name that cannot be read does not count. */
	for (size_t done = 0; done < got; done++) {
		done += m->read(m->ctx, p + done, got - done);
		if (done < got)
			memset(out[done].text, 0, sizeof(out[done].text));
	}
	return got;
}

bool ws_py_code_read(const struct ws_py_layout *l, const struct ws_py_memory *m, uint64_t code,
		     struct ws_py_code *out)
{
	uint8_t raw[WS_PY_KEY_BYTES];
	struct ws_py_code_key k;
	uint64_t qualname = 0, size = 0;
	int name = -1, file;

	if (!code || code & 7 || ws_py_code_keys(l, m, &code, 1, &k, raw) != 1)
		return false;
	if (l->code_qualname && ws_py_read(m, code + l->code_qualname, &qualname, 8))
		name = ws_py_text(l, m, qualname, out->name, sizeof(out->name));
	if (name < 0)
		name = ws_py_text(l, m, k.name, out->name, sizeof(out->name));
	file = ws_py_text(l, m, k.file, out->file, sizeof(out->file));
	if (name < 0 || file < 0)
		return false;
	out->name_len = (uint32_t)name;
	out->file_len = (uint32_t)file;
	out->first_line = k.first_line;
	out->shim = k.name == k.file;
	out->table = 0;
	out->table_bytes = 0;
	if (k.table && !(k.table & 7) && ws_py_read(m, k.table + l->bytes_size, &size, 8) &&
	    size <= WS_PY_TABLE_MOST) {
		out->table = k.table + l->bytes_data;
		out->table_bytes = (uint32_t)size;
	}
	return true;
}
