/* flatbuffer.c - see flatbuffer.h. */
#include "export/flatbuffer.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"

void ws_reset_flatbuffer(struct ws_flatbuffer *flat)
{
	flat->used = 0;
	flat->field_count = 0;
}

void ws_free_flatbuffer(struct ws_flatbuffer *flat)
{
	free(flat->buffer);
	memset(flat, 0, sizeof(*flat));
}

/* Make space for `length` more bytes at the front; returns where they begin. */
static uint8_t *reserve_front(struct ws_flatbuffer *flat, size_t length)
{
	if (flat->capacity - flat->used < length) {
		size_t capacity = ws_max(flat->capacity, (size_t)1024);
		uint8_t *buffer;

		while (capacity - flat->used < length)
			capacity *= 2;
		buffer = ws_malloc(capacity);
		if (flat->used)
			memcpy(buffer + capacity - flat->used,
			       flat->buffer + flat->capacity - flat->used, flat->used);
		free(flat->buffer);
		flat->buffer = buffer;
		flat->capacity = capacity;
	}
	flat->used += length;
	return flat->buffer + flat->capacity - flat->used;
}

/* Pad so that the data whose start is `after` bytes further to the front is at a multiple of
 * `align` from the end. */
static void pad_for_alignment(struct ws_flatbuffer *flat, size_t after, size_t align)
{
	size_t padding = (0 - (flat->used + after)) & (align - 1);

	if (padding)
		memset(reserve_front(flat, padding), 0, padding);
}

static void put_word(struct ws_flatbuffer *flat, uint32_t word)
{
	memcpy(reserve_front(flat, 4), &word, 4);
}

/* The value of a reference that is about to be written, to something written before. */
static uint32_t find_distance(const struct ws_flatbuffer *flat, ws_flatbuffer_ref target)
{
	return (uint32_t)(flat->used + 4 - target);
}

ws_flatbuffer_ref ws_put_flatbuffer_string(struct ws_flatbuffer *flat, const char *text,
					   size_t length)
{
	pad_for_alignment(flat, length + 1 + 4, 4);
	*reserve_front(flat, 1) = 0;
	if (length)
		memcpy(reserve_front(flat, length), text, length);
	put_word(flat, (uint32_t)length);
	return (ws_flatbuffer_ref)flat->used;
}

ws_flatbuffer_ref ws_put_flatbuffer_refs(struct ws_flatbuffer *flat, const ws_flatbuffer_ref *refs,
					 size_t count)
{
	pad_for_alignment(flat, 0, 4);
	for (size_t i = count; i-- > 0;)
		put_word(flat, find_distance(flat, refs[i]));
	put_word(flat, (uint32_t)count);
	return (ws_flatbuffer_ref)flat->used;
}

ws_flatbuffer_ref ws_put_flatbuffer_structs(struct ws_flatbuffer *flat, const void *structs,
					    size_t size, size_t count)
{
	pad_for_alignment(flat, size * count, 8);
	if (count)
		memcpy(reserve_front(flat, size * count), structs, size * count);
	put_word(flat, (uint32_t)count);
	return (ws_flatbuffer_ref)flat->used;
}

void ws_begin_flatbuffer_table(struct ws_flatbuffer *flat)
{
	memset(flat->field, 0, sizeof(flat->field));
	flat->field_count = 0;
	flat->table_end = flat->used;
}

static void note_field(struct ws_flatbuffer *flat, unsigned field)
{
	flat->field[field] = (ws_flatbuffer_ref)flat->used;
	if (field >= flat->field_count)
		flat->field_count = field + 1;
}

void ws_put_flatbuffer_number(struct ws_flatbuffer *flat, unsigned field, int64_t value,
			      unsigned bytes)
{
	pad_for_alignment(flat, bytes, bytes);
	/* Little-endian, like all machines that this runs on. */
	memcpy(reserve_front(flat, bytes), &value, bytes);
	note_field(flat, field);
}

void ws_put_flatbuffer_child(struct ws_flatbuffer *flat, unsigned field, ws_flatbuffer_ref ref)
{
	if (!ref)
		return;
	pad_for_alignment(flat, 4, 4);
	put_word(flat, find_distance(flat, ref));
	note_field(flat, field);
}

/* The vtable lies just before the table: its own size, the table's, and the place of each field. */
ws_flatbuffer_ref ws_end_flatbuffer_table(struct ws_flatbuffer *flat)
{
	ws_flatbuffer_ref table;
	uint16_t word;

	pad_for_alignment(flat, 4, 4);
	put_word(flat, 4 + 2 * flat->field_count); /* signed: from the table back to its vtable */
	table = (ws_flatbuffer_ref)flat->used;
	for (unsigned i = flat->field_count; i-- > 0;) {
		word = 0;
		if (flat->field[i])
			word = (uint16_t)(table - flat->field[i]);
		memcpy(reserve_front(flat, 2), &word, 2);
	}
	word = (uint16_t)(table - flat->table_end);
	memcpy(reserve_front(flat, 2), &word, 2);
	word = (uint16_t)(4 + 2 * flat->field_count);
	memcpy(reserve_front(flat, 2), &word, 2);
	return table;
}

const uint8_t *ws_finish_flatbuffer(struct ws_flatbuffer *flat, ws_flatbuffer_ref root,
				    size_t *length)
{
	pad_for_alignment(flat, 4, 8);
	put_word(flat, find_distance(flat, root));
	*length = flat->used;
	return flat->buffer + flat->capacity - flat->used;
}
