/* flat.c - see flat.h. */
#include "export/flat.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void ws_flat_reset(struct ws_flat *flat)
{
	flat->used = 0;
	flat->fields = 0;
}

void ws_flat_free(struct ws_flat *flat)
{
	free(flat->buf);
	memset(flat, 0, sizeof(*flat));
}

/* Room for n more bytes at the front; returns where they begin. */
static uint8_t *push(struct ws_flat *flat, size_t n)
{
	if (flat->cap - flat->used < n) {
		size_t cap = flat->cap ? flat->cap : 1024;
		uint8_t *buf;

		while (cap - flat->used < n)
			cap *= 2;
		buf = ws_malloc(cap);
		if (flat->used)
			memcpy(buf + cap - flat->used, flat->buf + flat->cap - flat->used,
			       flat->used);
		free(flat->buf);
		flat->buf = buf;
		flat->cap = cap;
	}
	flat->used += n;
	return flat->buf + flat->cap - flat->used;
}

/* Pad so that what ends `after` bytes further to the front begins at a multiple of `align` from the
 * end. */
static void align_for(struct ws_flat *flat, size_t after, size_t align)
{
	size_t pad = (0 - (flat->used + after)) & (align - 1);

	if (pad)
		memset(push(flat, pad), 0, pad);
}

static void put32(struct ws_flat *flat, uint32_t v)
{
	memcpy(push(flat, 4), &v, 4);
}

/* A reference from a word that is about to be written to something written before. */
static uint32_t distance(const struct ws_flat *flat, ws_flat_ref to)
{
	return (uint32_t)(flat->used + 4 - to);
}

ws_flat_ref ws_flat_string(struct ws_flat *flat, const char *text, size_t n)
{
	align_for(flat, n + 1 + 4, 4);
	*push(flat, 1) = 0;
	if (n)
		memcpy(push(flat, n), text, n);
	put32(flat, (uint32_t)n);
	return (ws_flat_ref)flat->used;
}

ws_flat_ref ws_flat_refs(struct ws_flat *flat, const ws_flat_ref *refs, size_t n)
{
	align_for(flat, 0, 4);
	for (size_t i = n; i-- > 0;)
		put32(flat, distance(flat, refs[i]));
	put32(flat, (uint32_t)n);
	return (ws_flat_ref)flat->used;
}

ws_flat_ref ws_flat_structs(struct ws_flat *flat, const void *structs, size_t size, size_t n)
{
	align_for(flat, size * n, 8);
	if (n)
		memcpy(push(flat, size * n), structs, size * n);
	put32(flat, (uint32_t)n);
	return (ws_flat_ref)flat->used;
}

void ws_flat_begin(struct ws_flat *flat)
{
	memset(flat->field, 0, sizeof(flat->field));
	flat->fields = 0;
	flat->table_end = flat->used;
}

static void note_field(struct ws_flat *flat, unsigned field)
{
	flat->field[field] = (ws_flat_ref)flat->used;
	if (field >= flat->fields)
		flat->fields = field + 1;
}

void ws_flat_number(struct ws_flat *flat, unsigned field, int64_t value, unsigned bytes)
{
	align_for(flat, bytes, bytes);
	memcpy(push(flat, bytes), &value,
	       bytes); /* little-endian: as all machines that this runs on */
	note_field(flat, field);
}

void ws_flat_child(struct ws_flat *flat, unsigned field, ws_flat_ref ref)
{
	if (!ref)
		return;
	align_for(flat, 4, 4);
	put32(flat, distance(flat, ref));
	note_field(flat, field);
}

/* The vtable lies right in front of the table: its own size, the table's, and where each field is
 * in it. */
ws_flat_ref ws_flat_end(struct ws_flat *flat)
{
	ws_flat_ref table;
	uint16_t word;

	align_for(flat, 4, 4);
	put32(flat, 4 + 2 * flat->fields); /* signed: from the table back to its vtable */
	table = (ws_flat_ref)flat->used;
	for (unsigned i = flat->fields; i-- > 0;) {
		word = flat->field[i] ? (uint16_t)(table - flat->field[i]) : 0;
		memcpy(push(flat, 2), &word, 2);
	}
	word = (uint16_t)(table - flat->table_end);
	memcpy(push(flat, 2), &word, 2);
	word = (uint16_t)(4 + 2 * flat->fields);
	memcpy(push(flat, 2), &word, 2);
	return table;
}

const uint8_t *ws_flat_finish(struct ws_flat *flat, ws_flat_ref root, size_t *n)
{
	align_for(flat, 4, 8);
	put32(flat, distance(flat, root));
	*n = flat->used;
	return flat->buf + flat->cap - flat->used;
}
