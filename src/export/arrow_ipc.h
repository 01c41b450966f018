/*
 * arrow_ipc.h - Arrow's interprocess format (metadata version 5), as far as flat tables need it:
 * what the messages are made of. arrow.c decides what goes into them.
 *
 * A stream is a schema, dictionaries and record batches, each a FlatBuffers message and a body of
 * buffers; a file is the same between two magic words with an index at its end. Bodies and the
 * buffers in them begin at multiples of 64 bytes.
 */
#ifndef WS_EXPORT_ARROW_IPC_H
#define WS_EXPORT_ARROW_IPC_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "export/columns.h"
#include "export/flat.h"

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
	size_t n;
};

/* A record batch, or the values of a dictionary: a node a field, and its buffers in order. */
struct ws_arrow_node {
	int64_t length, nulls;
};
struct ws_arrow_batch {
	int64_t rows;
	struct ws_arrow_node node[2 * WS_MAX_COLUMNS];
	struct ws_arrow_buffer buffer[6 * WS_MAX_COLUMNS];
	size_t nodes, buffers;
	struct ws_flat meta; /* the message, made by ws_arrow_batch_seal */
	const uint8_t *message;
	size_t message_len;
	int64_t body;
};

void ws_arrow_batch_clear(struct ws_arrow_batch *batch, int64_t rows);
/* Add a field: its validity (NULL when no row is null) and its other buffers. */
void ws_arrow_add(struct ws_arrow_batch *batch, int64_t rows, int64_t nulls, const void *valid);
void ws_arrow_add_null(struct ws_arrow_batch *batch,
		       int64_t rows); /* of kind NULL: has no buffers */
void ws_arrow_add_buffer(struct ws_arrow_batch *batch, const void *bytes, size_t n);
/* Make the message. `dictionary` -1: a record batch; else the values of that dictionary, or with
 * `delta` more of them. */
void ws_arrow_batch_seal(struct ws_arrow_batch *batch, int64_t dictionary, bool delta);
void ws_arrow_batch_free(struct ws_arrow_batch *batch);

/* Where messages go: one stream or file. */
struct ws_arrow_block {
	int64_t offset;
	int32_t meta, pad;
	int64_t body;
};
struct ws_arrow_out {
	FILE *FILE;
	bool file;   /* with magic words and an index */
	uint64_t at; /* bytes written since the stream began */
	struct ws_flat meta;
	struct ws_arrow_block *batches, *dictionaries; /* of a file */
	size_t batch_count, batch_cap, dictionary_count, dictionary_cap;
};

/*
 * Begin: magic word and schema. `pairs` are the schema's metadata: name, value, name, value...,
 * NULL. All dictionary fields share dictionary 0, with indices of 32 bits. Functions return 0, or
 * -1 with errno set.
 */
int ws_arrow_begin(struct ws_arrow_out *out, FILE *FILE, bool file,
		   const struct ws_arrow_field *fields, size_t n, const char *const *pairs);
int ws_arrow_put(struct ws_arrow_out *out, const struct ws_arrow_batch *batch, bool dictionary);
/* End of stream, and the index of a file (for which the fields are needed again). Frees what o
 * holds, not f. */
int ws_arrow_end(struct ws_arrow_out *out, const struct ws_arrow_field *fields, size_t n,
		 const char *const *pairs);
void ws_arrow_free(struct ws_arrow_out *out);

#endif
