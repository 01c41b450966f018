/* code.c - code objects and texts; see cpython.h. */
#include "cpython/cpython.h"

#include <string.h>

#define MOST_TEXT 65536 /* in characters; no name or path is longer */

/* ---- texts ---- */

/* Decode a str's state. Its bit fields begin after two bits, a byte or 16 bits of `interned`,
 * depending on version and build: the first form that makes sense is used. */
static bool decode_text_state(uint32_t state, unsigned *kind, bool *ascii)
{
	static const unsigned shifts[] = {2, 8, 16};

	for (size_t i = 0; i < sizeof(shifts) / sizeof(*shifts); i++) {
		uint32_t fields = state >> shifts[i];

		*kind = fields & 7;
		*ascii = fields >> 4 & 1;
		if ((*kind == 1 || *kind == 2 || *kind == 4) && fields >> 3 & 1 &&
		    (!*ascii || *kind == 1))
			return true;
	}
	return false;
}

/* Write a character; returns its bytes, 0 when there is no space for it. */
static size_t put_utf8(char *out, size_t capacity, uint32_t character)
{
	uint8_t encoded[4];
	size_t length;

	/* Half of a pair, which is how Python keeps bytes of file names that are not UTF-8. */
	if (character >= 0xd800 && character < 0xe000)
		character = 0xfffd;
	if (character < 0x80) {
		encoded[0] = (uint8_t)character;
		length = 1;
	} else if (character < 0x800) {
		encoded[0] = (uint8_t)(0xc0 | character >> 6);
		encoded[1] = (uint8_t)(0x80 | (character & 63));
		length = 2;
	} else if (character < 0x10000) {
		encoded[0] = (uint8_t)(0xe0 | character >> 12);
		encoded[1] = (uint8_t)(0x80 | (character >> 6 & 63));
		encoded[2] = (uint8_t)(0x80 | (character & 63));
		length = 3;
	} else {
		encoded[0] = (uint8_t)(0xf0 | (character >> 18 & 7));
		encoded[1] = (uint8_t)(0x80 | (character >> 12 & 63));
		encoded[2] = (uint8_t)(0x80 | (character >> 6 & 63));
		encoded[3] = (uint8_t)(0x80 | (character & 63));
		length = 4;
	}
	if (length > capacity)
		return 0;
	memcpy(out, encoded, length);
	return length;
}

int ws_py_read_text(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		    uint64_t text, char *out, size_t capacity)
{
	uint64_t length = 0, done = 0;
	uint32_t state = 0;
	struct ws_py_piece pieces[2] = {{text + layout->text_length, &length, 8},
					{text + layout->text_state, &state, 4}};
	unsigned kind;
	size_t written = 0;
	bool ascii;

	if (!text || text & 7 || memory->read(memory->ctx, pieces, 2) != 2 ||
	    !decode_text_state(state, &kind, &ascii) || length > MOST_TEXT)
		return -1;
	if (ascii)
		text += layout->text_ascii;
	else
		text += layout->text_compact;
	while (done < length && written < capacity) {
		uint8_t part[512];
		uint64_t take = ws_py_min(length - done, sizeof(part) / kind);

		if (!ws_py_read(memory, text + done * kind, part, (size_t)take * kind))
			return -1;
		for (uint64_t i = 0; i < take; i++) {
			uint32_t character = 0;
			size_t added;

			memcpy(&character, part + i * kind,
			       kind); /* all supported machines are little-endian */
			added = put_utf8(out + written, capacity - written, character);
			if (!added)
				return (int)written;
			written += added;
		}
		done += take;
	}
	return (int)written;
}

/* ---- code objects ---- */

/* The fields of a key are close together: returns the number of bytes from the first, at *from, to
 * the end of the last.
 */
static uint32_t find_key_span(const struct ws_py_layout *layout, uint32_t *from)
{
	const uint32_t starts[] = {layout->code_first_line, layout->code_name, layout->code_file,
				   layout->code_table},
		       sizes[] = {4, 8, 8, 8};
	uint32_t end = 0;

	*from = UINT32_MAX;
	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
		*from = (uint32_t)ws_py_min(*from, starts[i]);
		end = (uint32_t)ws_py_max(end, starts[i] + sizes[i]);
	}
	return end - *from;
}

static struct ws_py_code_key extract_key(const struct ws_py_layout *layout, const uint8_t *raw,
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

size_t ws_py_read_code_keys(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			    const uint64_t *code, size_t count, struct ws_py_code_key *out,
			    void *raw)
{
	struct ws_py_piece pieces[WS_PY_PIECES];
	uint32_t from, bytes = find_key_span(layout, &from);
	size_t got;

	if (!count || count > WS_PY_PIECES || bytes > WS_PY_KEY_BYTES)
		return 0;
	for (size_t i = 0; i < count; i++)
		pieces[i] = (struct ws_py_piece){code[i] + from,
						 (uint8_t *)raw + i * WS_PY_KEY_BYTES, bytes};
	got = memory->read(memory->ctx, pieces, count);
	for (size_t i = 0; i < got; i++) {
		out[i] = extract_key(layout, (uint8_t *)raw + i * WS_PY_KEY_BYTES, from);
		pieces[i] = (struct ws_py_piece){out[i].name + layout->text_length, out[i].text,
						 sizeof(out[i].text)};
	}
	/* A name that cannot be read is ignored. */
	for (size_t done = 0; done < got; done++) {
		done += memory->read(memory->ctx, pieces + done, got - done);
		if (done < got)
			memset(out[done].text, 0, sizeof(out[done].text));
	}
	return got;
}

bool ws_py_read_code(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		     uint64_t code, struct ws_py_code *out)
{
	uint8_t raw[WS_PY_KEY_BYTES];
	struct ws_py_code_key code_key;
	uint64_t qualname = 0, size = 0;
	int name = -1, file;

	if (!code || code & 7 ||
	    ws_py_read_code_keys(layout, memory, &code, 1, &code_key, raw) != 1)
		return false;
	if (layout->code_qualname && ws_py_read(memory, code + layout->code_qualname, &qualname, 8))
		name = ws_py_read_text(layout, memory, qualname, out->name, sizeof(out->name));
	if (name < 0)
		name = ws_py_read_text(layout, memory, code_key.name, out->name, sizeof(out->name));
	file = ws_py_read_text(layout, memory, code_key.file, out->file, sizeof(out->file));
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
