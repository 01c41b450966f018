/*
 * flatbuffer.h - writing FlatBuffers, as far as Arrow's metadata needs them: tables, vectors,
 * strings, inline structs.
 *
 * The buffer grows from its end to its front, children before parents, as the format requires. A
 * reference (ws_flatbuffer_ref) is the distance of something from the end. There is no schema
 * compiler, and vtables are not shared.
 */
#ifndef WS_EXPORT_FLATBUFFER_H
#define WS_EXPORT_FLATBUFFER_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t ws_flatbuffer_ref; /* 0 is none */

enum { WS_FLATBUFFER_FIELDS = 8 };

struct ws_flatbuffer {
	uint8_t *buffer;
	size_t capacity, used; /* the `used` last bytes of buf are written */
	/* The table being written. */
	ws_flatbuffer_ref field[WS_FLATBUFFER_FIELDS];
	unsigned field_count;
	size_t table_end;
};

void ws_reset_flatbuffer(struct ws_flatbuffer *flat);
void ws_free_flatbuffer(struct ws_flatbuffer *flat);

ws_flatbuffer_ref ws_put_flatbuffer_string(struct ws_flatbuffer *flat, const char *text,
					   size_t length);
/* A vector of tables or strings. */
ws_flatbuffer_ref ws_put_flatbuffer_refs(struct ws_flatbuffer *flat, const ws_flatbuffer_ref *refs,
					 size_t count);
/* A vector of structs of `size` bytes, which begin at multiples of 8. */
ws_flatbuffer_ref ws_put_flatbuffer_structs(struct ws_flatbuffer *flat, const void *structs,
					    size_t size, size_t count);

/* Write one table at a time: begin, its fields in any order (those left out have their default),
 * end. Write its children first. */
void ws_begin_flatbuffer_table(struct ws_flatbuffer *flat);
void ws_put_flatbuffer_number(struct ws_flatbuffer *flat, unsigned field, int64_t value,
			      unsigned bytes);
void ws_put_flatbuffer_child(struct ws_flatbuffer *flat, unsigned field,
			     ws_flatbuffer_ref ref); /* 0: left out */
ws_flatbuffer_ref ws_end_flatbuffer_table(struct ws_flatbuffer *flat);

/* Close the buffer with its root. The bytes, *length of them (a multiple of 8), are valid until the
 * next change. */
const uint8_t *ws_finish_flatbuffer(struct ws_flatbuffer *flat, ws_flatbuffer_ref root,
				    size_t *length);

#endif
