/*
 * arrow_ipc.h - writing Arrow's interprocess format (metadata version 5), as far as flat tables
 * need it: how messages are laid out. arrow.c decides what goes into them.
 *
 * A stream is a schema, dictionaries and record batches, each a FlatBuffers message and a body of
 * buffers; a file is the same between two magic words, with an index at its end. Bodies and the
 * buffers in them begin at multiples of 64 bytes.
 */
#ifndef WS_EXPORT_ARROW_IPC_H
#define WS_EXPORT_ARROW_IPC_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "export/columns.h"
#include "export/flatbuffer.h"

enum ws_arrow_kind {
	WS_ARROW_NULL,
	WS_ARROW_INT,
	WS_ARROW_UINT,
	WS_ARROW_DOUBLE,
	WS_ARROW_UTF8,
	WS_ARROW_BINARY,
	WS_ARROW_DICTIONARY
};

struct ws_arrow_field {
	const char *name, *doc;
	const char *unit; /* NULL for none */
	enum ws_arrow_kind kind;
	unsigned bits; /* of INT and UINT */
	bool not_null;
};

struct ws_arrow_buffer {
	const void *bytes;
	size_t length;
};

/* A record batch, or the values of a dictionary: a node for each field, and the buffers in order.
 * The caller owns the bytes of buffers, which must live until the batch is written. */
struct ws_arrow_node {
	int64_t length, nulls;
};
struct ws_arrow_batch {
	int64_t rows;
	struct ws_arrow_node node[2 * WS_MAX_COLUMNS];
	struct ws_arrow_buffer buffer[6 * WS_MAX_COLUMNS];
	size_t node_count, buffer_count;
	struct ws_flatbuffer message_buffer; /* the message, made by ws_seal_arrow_batch */
	const uint8_t *message;
	size_t message_length;
	int64_t body_length;
};

void ws_clear_arrow_batch(struct ws_arrow_batch *batch, int64_t rows);
/* Add a field, which begins with its validity, a bit per row (NULL when no row is null); its other
 * buffers follow. */
void ws_add_arrow_field(struct ws_arrow_batch *batch, int64_t rows, int64_t nulls,
			const void *valid);
void ws_add_arrow_null_field(struct ws_arrow_batch *batch,
			     int64_t rows); /* of kind NULL: has no buffers */
void ws_add_arrow_buffer(struct ws_arrow_batch *batch, const void *bytes, size_t length);
/* Make the message. With `dictionary` -1 it is a record batch; otherwise it holds the values of
 * that dictionary, or with `delta` additional ones. */
void ws_seal_arrow_batch(struct ws_arrow_batch *batch, int64_t dictionary, bool delta);
void ws_free_arrow_batch(struct ws_arrow_batch *batch);

/* The destination of messages: one stream or file. */
struct ws_arrow_block {
	int64_t offset;
	int32_t message_length, padding;
	int64_t body_length;
};
struct ws_arrow_output {
	FILE *stream;
	bool is_file;	   /* with magic words and an index */
	uint64_t position; /* bytes written since the stream began */
	struct ws_flatbuffer meta;
	struct ws_arrow_block *batches, *dictionaries; /* of a file */
	size_t batch_count, batch_capacity, dictionary_count, dictionary_capacity;
};

/*
 * Begin the stream or file: magic word and schema. `pairs` are the schema's metadata: name, value,
 * name, value..., NULL. All dictionary fields share dictionary 0, with indices of 32 bits.
 * Functions return 0, or -1 with errno set.
 */
int ws_begin_arrow_stream(struct ws_arrow_output *out, FILE *stream, bool file,
			  const struct ws_arrow_field *fields, size_t field_count,
			  const char *const *pairs);
int ws_put_arrow_batch(struct ws_arrow_output *out, const struct ws_arrow_batch *batch,
		       bool dictionary);
/* Write the end of the stream, and the index of a file (for which the fields are needed again). */
int ws_end_arrow_stream(struct ws_arrow_output *out, const struct ws_arrow_field *fields,
			size_t field_count, const char *const *pairs);
/* Free what `out` holds; the stream stays open. */
void ws_free_arrow_output(struct ws_arrow_output *out);

#endif
