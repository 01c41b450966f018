/* flat.c - see flat.h. */
#include "export/flat.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void ws_flat_reset(struct ws_flat *f)
{
	f->used = 0;
	f->fields = 0;
}

void ws_flat_free(struct ws_flat *f)
{
	free(f->buf);
	memset(f, 0, sizeof(*f));
}

/* Room for n more bytes at the front; returns where they begin. */
static uint8_t *push(struct ws_flat *f, size_t n)
{
	if (f->cap - f->used < n) {
		size_t cap = f->cap ? f->cap : 1024;
		uint8_t *buf;

		while (cap - f->used < n)
			cap *= 2;
		buf = ws_malloc(cap);
		if (f->used)
			memcpy(buf + cap - f->used, f->buf + f->cap - f->used, f->used);
		free(f->buf);
		f->buf = buf;
		f->cap = cap;
	}
	f->used += n;
	return f->buf + f->cap - f->used;
}

/* Pad so that what ends `after` bytes further to the front begins at a multiple of `align` from the
 * end. */
static void align_for(struct ws_flat *f, size_t after, size_t align)
{
	size_t pad = (0 - (f->used + after)) & (align - 1);

	if (pad)
		memset(push(f, pad), 0, pad);
}

static void put32(struct ws_flat *f, uint32_t v)
{
	memcpy(push(f, 4), &v, 4);
}

/* A reference from a word that is about to be written to something written before. */
static uint32_t distance(const struct ws_flat *f, ws_flat_ref to)
{
	return (uint32_t)(f->used + 4 - to);
}

ws_flat_ref ws_flat_string(struct ws_flat *f, const char *s, size_t n)
{
	align_for(f, n + 1 + 4, 4);
	*push(f, 1) = 0;
	if (n)
		memcpy(push(f, n), s, n);
	put32(f, (uint32_t)n);
	return (ws_flat_ref)f->used;
}

ws_flat_ref ws_flat_refs(struct ws_flat *f, const ws_flat_ref *refs, size_t n)
{
	align_for(f, 0, 4);
	for (size_t i = n; i-- > 0;)
		put32(f, distance(f, refs[i]));
	put32(f, (uint32_t)n);
	return (ws_flat_ref)f->used;
}

ws_flat_ref ws_flat_structs(struct ws_flat *f, const void *structs, size_t size, size_t n)
{
	align_for(f, size * n, 8);
	if (n)
		memcpy(push(f, size * n), structs, size * n);
	put32(f, (uint32_t)n);
	return (ws_flat_ref)f->used;
}

void ws_flat_begin(struct ws_flat *f)
{
	memset(f->field, 0, sizeof(f->field));
	f->fields = 0;
	f->table_end = f->used;
}

static void note_field(struct ws_flat *f, unsigned field)
{
	f->field[field] = (ws_flat_ref)f->used;
	if (field >= f->fields)
		f->fields = field + 1;
}

void ws_flat_number(struct ws_flat *f, unsigned field, int64_t value, unsigned bytes)
{
	align_for(f, bytes, bytes);
	memcpy(push(f, bytes), &value,
	       bytes); /* little-endian: as all machines that this runs on */
	note_field(f, field);
}

void ws_flat_child(struct ws_flat *f, unsigned field, ws_flat_ref ref)
{
	if (!ref)
		return;
	align_for(f, 4, 4);
	put32(f, distance(f, ref));
	note_field(f, field);
}

/* The vtable lies right in front of the table: its own size, the table's, and where each field is
 * in it. */
ws_flat_ref ws_flat_end(struct ws_flat *f)
{
	ws_flat_ref table;
	uint16_t word;

	align_for(f, 4, 4);
	put32(f, 4 + 2 * f->fields); /* signed: from the table back to its vtable */
	table = (ws_flat_ref)f->used;
	for (unsigned i = f->fields; i-- > 0;) {
		word = f->field[i] ? (uint16_t)(table - f->field[i]) : 0;
		memcpy(push(f, 2), &word, 2);
	}
	word = (uint16_t)(table - f->table_end);
	memcpy(push(f, 2), &word, 2);
	word = (uint16_t)(4 + 2 * f->fields);
	memcpy(push(f, 2), &word, 2);
	return table;
}

const uint8_t *ws_flat_finish(struct ws_flat *f, ws_flat_ref root, size_t *n)
{
	align_for(f, 4, 8);
	put32(f, distance(f, root));
	*n = f->used;
	return f->buf + f->cap - f->used;
}
