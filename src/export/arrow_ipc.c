/* arrow_ipc.c - see arrow_ipc.h. Numbers of fields, unions and enumerations are those of Arrow's
 * Schema.fbs, Message.fbs and File.fbs. */
#include "export/arrow_ipc.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, VERSION_5 = 4 };
enum { HEADER_SCHEMA = 1, HEADER_DICTIONARY = 2, HEADER_BATCH = 3 };
enum { TYPE_NULL = 1, TYPE_INT = 2, TYPE_FLOAT = 3, TYPE_BINARY = 4, TYPE_UTF8 = 5 };
enum { PRECISION_DOUBLE = 2 };

static const char magic_word[8] = "ARROW1\0";

/* ---- the schema ---- */

static ws_flatbuffer_ref put_pair(struct ws_flatbuffer *flat, const char *key, const char *value)
{
	ws_flatbuffer_ref key_ref = ws_put_flatbuffer_string(flat, key, strlen(key)),
			  value_ref = ws_put_flatbuffer_string(flat, value, strlen(value));

	ws_begin_flatbuffer_table(flat);
	ws_put_flatbuffer_child(flat, 0, key_ref);
	ws_put_flatbuffer_child(flat, 1, value_ref);
	return ws_end_flatbuffer_table(flat);
}

static ws_flatbuffer_ref put_int_type(struct ws_flatbuffer *flat, unsigned bits, bool is_signed)
{
	ws_begin_flatbuffer_table(flat);
	ws_put_flatbuffer_number(flat, 0, bits, 4);
	if (is_signed)
		ws_put_flatbuffer_number(flat, 1, 1, 1);
	return ws_end_flatbuffer_table(flat);
}

static ws_flatbuffer_ref put_type(struct ws_flatbuffer *flat, const struct ws_arrow_field *field,
				  int *number)
{
	switch (field->kind) {
	case WS_ARROW_INT:
	case WS_ARROW_UINT:
		*number = TYPE_INT;
		return put_int_type(flat, field->bits, field->kind == WS_ARROW_INT);
	case WS_ARROW_DOUBLE:
		*number = TYPE_FLOAT;
		ws_begin_flatbuffer_table(flat);
		ws_put_flatbuffer_number(flat, 0, PRECISION_DOUBLE, 2);
		return ws_end_flatbuffer_table(flat);
	default:
		*number = TYPE_UTF8;
		if (field->kind == WS_ARROW_NULL)
			*number = TYPE_NULL;
		else if (field->kind == WS_ARROW_BINARY)
			*number = TYPE_BINARY;
		ws_begin_flatbuffer_table(flat);
		return ws_end_flatbuffer_table(flat);
	}
}

static ws_flatbuffer_ref put_field(struct ws_flatbuffer *flat,
				   const struct ws_arrow_field *arrow_field)
{
	ws_flatbuffer_ref name = ws_put_flatbuffer_string(flat, arrow_field->name,
							  strlen(arrow_field->name)),
			  pairs[2], meta = 0, type, index, dictionary = 0, children;
	size_t pair_count = 0;
	int number;

	if (arrow_field->doc && *arrow_field->doc)
		pairs[pair_count++] = put_pair(flat, "description", arrow_field->doc);
	if (arrow_field->unit)
		pairs[pair_count++] = put_pair(flat, "unit", arrow_field->unit);
	if (pair_count)
		meta = ws_put_flatbuffer_refs(flat, pairs, pair_count);
	type = put_type(flat, arrow_field, &number);
	children = ws_put_flatbuffer_refs(flat, NULL, 0);
	if (arrow_field->kind == WS_ARROW_DICTIONARY) {
		index = put_int_type(flat, 32, true);
		ws_begin_flatbuffer_table(flat);
		ws_put_flatbuffer_number(flat, 0, 0, 8);
		ws_put_flatbuffer_child(flat, 1, index);
		dictionary = ws_end_flatbuffer_table(flat);
	}
	ws_begin_flatbuffer_table(flat);
	ws_put_flatbuffer_child(flat, 0, name);
	ws_put_flatbuffer_child(flat, 3, type);
	ws_put_flatbuffer_child(flat, 4, dictionary);
	ws_put_flatbuffer_child(flat, 5, children);
	ws_put_flatbuffer_child(flat, 6, meta);
	ws_put_flatbuffer_number(flat, 1, !arrow_field->not_null, 1);
	ws_put_flatbuffer_number(flat, 2, number, 1);
	return ws_end_flatbuffer_table(flat);
}

static ws_flatbuffer_ref put_schema(struct ws_flatbuffer *flat, const struct ws_arrow_field *fields,
				    size_t field_count, const char *const *pairs)
{
	ws_flatbuffer_ref refs[2 * WS_MAX_COLUMNS], pair_refs[8], columns, meta;
	size_t pair_count = 0;

	for (size_t i = 0; i < field_count; i++)
		refs[i] = put_field(flat, &fields[i]);
	columns = ws_put_flatbuffer_refs(flat, refs, field_count);
	for (; pairs[2 * pair_count] && pair_count < WS_COUNT(pair_refs); pair_count++)
		pair_refs[pair_count] =
			put_pair(flat, pairs[2 * pair_count], pairs[2 * pair_count + 1]);
	meta = ws_put_flatbuffer_refs(flat, pair_refs, pair_count);
	ws_begin_flatbuffer_table(flat);
	ws_put_flatbuffer_child(flat, 1, columns);
	ws_put_flatbuffer_child(flat, 2, meta);
	return ws_end_flatbuffer_table(flat);
}

static ws_flatbuffer_ref put_message(struct ws_flatbuffer *flat, int kind, ws_flatbuffer_ref header,
				     int64_t body)
{
	ws_begin_flatbuffer_table(flat);
	ws_put_flatbuffer_number(flat, 3, body, 8);
	ws_put_flatbuffer_child(flat, 2, header);
	ws_put_flatbuffer_number(flat, 0, VERSION_5, 2);
	ws_put_flatbuffer_number(flat, 1, kind, 1);
	return ws_end_flatbuffer_table(flat);
}

/* ---- batches ---- */

void ws_clear_arrow_batch(struct ws_arrow_batch *batch, int64_t rows)
{
	batch->rows = rows;
	batch->node_count = batch->buffer_count = 0;
}

void ws_add_arrow_buffer(struct ws_arrow_batch *batch, const void *bytes, size_t length)
{
	batch->buffer[batch->buffer_count++] = (struct ws_arrow_buffer){bytes, length};
}

void ws_add_arrow_field(struct ws_arrow_batch *batch, int64_t rows, int64_t nulls,
			const void *valid)
{
	size_t bytes = (size_t)(rows + 7) / 8;

	if (!valid)
		nulls = 0, bytes = 0;
	batch->node[batch->node_count++] = (struct ws_arrow_node){rows, nulls};
	ws_add_arrow_buffer(batch, valid, bytes);
}

void ws_add_arrow_null_field(struct ws_arrow_batch *batch, int64_t rows)
{
	batch->node[batch->node_count++] = (struct ws_arrow_node){rows, rows};
}

void ws_seal_arrow_batch(struct ws_arrow_batch *batch, int64_t dictionary, bool delta)
{
	struct {
		int64_t offset, length;
	} places[WS_COUNT(batch->buffer)];
	ws_flatbuffer_ref nodes, buffers, header;
	int kind = HEADER_BATCH;

	batch->body_length = 0;
	for (size_t i = 0; i < batch->buffer_count; i++) {
		places[i].offset = batch->body_length;
		places[i].length = (int64_t)batch->buffer[i].length;
		batch->body_length += (int64_t)WS_ALIGN_UP(batch->buffer[i].length, ALIGNMENT);
	}
	ws_reset_flatbuffer(&batch->message_buffer);
	buffers = ws_put_flatbuffer_structs(&batch->message_buffer, places, sizeof(places[0]),
					    batch->buffer_count);
	nodes = ws_put_flatbuffer_structs(&batch->message_buffer, batch->node,
					  sizeof(batch->node[0]), batch->node_count);
	ws_begin_flatbuffer_table(&batch->message_buffer);
	ws_put_flatbuffer_number(&batch->message_buffer, 0, batch->rows, 8);
	ws_put_flatbuffer_child(&batch->message_buffer, 1, nodes);
	ws_put_flatbuffer_child(&batch->message_buffer, 2, buffers);
	header = ws_end_flatbuffer_table(&batch->message_buffer);
	if (dictionary >= 0) {
		ws_begin_flatbuffer_table(&batch->message_buffer);
		ws_put_flatbuffer_number(&batch->message_buffer, 0, dictionary, 8);
		ws_put_flatbuffer_child(&batch->message_buffer, 1, header);
		ws_put_flatbuffer_number(&batch->message_buffer, 2, delta, 1);
		header = ws_end_flatbuffer_table(&batch->message_buffer);
		kind = HEADER_DICTIONARY;
	}
	header = put_message(&batch->message_buffer, kind, header, batch->body_length);
	batch->message =
		ws_finish_flatbuffer(&batch->message_buffer, header, &batch->message_length);
}

void ws_free_arrow_batch(struct ws_arrow_batch *batch)
{
	ws_free_flatbuffer(&batch->message_buffer);
}

/* ---- writing ---- */

static const uint8_t zeros[ALIGNMENT];

static int put_bytes(struct ws_arrow_output *out, const void *bytes, size_t length)
{
	if (length && fwrite(bytes, 1, length, out->stream) != length)
		return -1;
	out->position += length;
	return 0;
}

static int pad_output(struct ws_arrow_output *out, size_t align)
{
	return put_bytes(out, zeros, (0 - out->position) & (align - 1));
}

/* Write a message without its body, padded so that the body begins at a multiple of 64. *where (may
 * be NULL) gets its place. */
static int put_message_head(struct ws_arrow_output *out, const uint8_t *message, size_t length,
			    struct ws_arrow_block *where)
{
	uint64_t start = out->position, end = WS_ALIGN_UP(start + 8 + length, (uint64_t)ALIGNMENT);
	uint32_t head[2] = {UINT32_MAX, (uint32_t)(end - start - 8)};

	if (where)
		*where = (struct ws_arrow_block){.offset = (int64_t)start,
						 .message_length = (int32_t)(end - start)};
	if (put_bytes(out, head, 8) < 0 || put_bytes(out, message, length) < 0)
		return -1;
	return pad_output(out, ALIGNMENT);
}

int ws_begin_arrow_stream(struct ws_arrow_output *out, FILE *stream, bool file,
			  const struct ws_arrow_field *fields, size_t field_count,
			  const char *const *pairs)
{
	const uint8_t *bytes;
	size_t length;

	out->stream = stream;
	out->is_file = file;
	out->position = 0;
	out->batch_count = out->dictionary_count = 0;
	if (file && put_bytes(out, magic_word, 8) < 0)
		return -1;
	ws_reset_flatbuffer(&out->meta);
	bytes = ws_finish_flatbuffer(&out->meta,
				     put_message(&out->meta, HEADER_SCHEMA,
						 put_schema(&out->meta, fields, field_count, pairs),
						 0),
				     &length);
	return put_message_head(out, bytes, length, NULL);
}

int ws_put_arrow_batch(struct ws_arrow_output *out, const struct ws_arrow_batch *batch,
		       bool dictionary)
{
	struct ws_arrow_block where;

	if (put_message_head(out, batch->message, batch->message_length, &where) < 0)
		return -1;
	where.body_length = batch->body_length;
	for (size_t i = 0; i < batch->buffer_count; i++)
		if (put_bytes(out, batch->buffer[i].bytes, batch->buffer[i].length) < 0 ||
		    pad_output(out, ALIGNMENT) < 0)
			return -1;
	if (out->is_file && dictionary) {
		ws_grow(out->dictionaries, out->dictionary_capacity, out->dictionary_count + 1);
		out->dictionaries[out->dictionary_count++] = where;
	} else if (out->is_file) {
		ws_grow(out->batches, out->batch_capacity, out->batch_count + 1);
		out->batches[out->batch_count++] = where;
	}
	return 0;
}

static int put_footer(struct ws_arrow_output *out, const struct ws_arrow_field *fields,
		      size_t field_count, const char *const *pairs)
{
	ws_flatbuffer_ref batch_blocks, dictionary_blocks, head;
	const uint8_t *bytes;
	size_t length;
	uint32_t size;

	ws_reset_flatbuffer(&out->meta);
	head = put_schema(&out->meta, fields, field_count, pairs);
	batch_blocks = ws_put_flatbuffer_structs(&out->meta, out->batches, sizeof(*out->batches),
						 out->batch_count);
	dictionary_blocks = ws_put_flatbuffer_structs(
		&out->meta, out->dictionaries, sizeof(*out->dictionaries), out->dictionary_count);
	ws_begin_flatbuffer_table(&out->meta);
	ws_put_flatbuffer_child(&out->meta, 1, head);
	ws_put_flatbuffer_child(&out->meta, 2, dictionary_blocks);
	ws_put_flatbuffer_child(&out->meta, 3, batch_blocks);
	ws_put_flatbuffer_number(&out->meta, 0, VERSION_5, 2);
	bytes = ws_finish_flatbuffer(&out->meta, ws_end_flatbuffer_table(&out->meta), &length);
	size = (uint32_t)length;
	if (put_bytes(out, bytes, length) < 0 || put_bytes(out, &size, 4) < 0)
		return -1;
	return put_bytes(out, magic_word, 6);
}

int ws_end_arrow_stream(struct ws_arrow_output *out, const struct ws_arrow_field *fields,
			size_t field_count, const char *const *pairs)
{
	static const uint32_t end[2] = {UINT32_MAX, 0};
	int rc = put_bytes(out, end, 8);

	if (!rc && out->is_file)
		rc = put_footer(out, fields, field_count, pairs);
	return rc;
}

void ws_free_arrow_output(struct ws_arrow_output *out)
{
	ws_free_flatbuffer(&out->meta);
	free(out->batches);
	free(out->dictionaries);
	out->batches = out->dictionaries = NULL;
	out->batch_capacity = out->dictionary_capacity = 0;
}
