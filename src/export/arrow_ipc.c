/* arrow_ipc.c - see arrow_ipc.h. Numbers of fields, unions and enumerations are those of Arrow's
 * Schema.fbs, Message.fbs and File.fbs. */
#include "export/arrow_ipc.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, VERSION_5 = 4 };
enum { HEADER_SCHEMA = 1, HEADER_DICTIONARY = 2, HEADER_BATCH = 3 };
enum { TYPE_NULL = 1, TYPE_INT = 2, TYPE_FLOAT = 3, TYPE_BINARY = 4, TYPE_UTF8 = 5 };
enum { PRECISION_DOUBLE = 2 };

static const char magic[8] = "ARROW1\0";

/* ---- the schema ---- */

static ws_flat_ref pair(struct ws_flat *f, const char *key, const char *value)
{
	ws_flat_ref k = ws_flat_string(f, key, strlen(key)),
		    v = ws_flat_string(f, value, strlen(value));

	ws_flat_begin(f);
	ws_flat_child(f, 0, k);
	ws_flat_child(f, 1, v);
	return ws_flat_end(f);
}

static ws_flat_ref int_type(struct ws_flat *f, unsigned bits, bool is_signed)
{
	ws_flat_begin(f);
	ws_flat_number(f, 0, bits, 4);
	if (is_signed)
		ws_flat_number(f, 1, 1, 1);
	return ws_flat_end(f);
}

static ws_flat_ref type_of(struct ws_flat *f, const struct ws_arrow_field *d, int *number)
{
	switch (d->kind) {
	case WS_ARROW_INT:
	case WS_ARROW_UINT:
		*number = TYPE_INT;
		return int_type(f, d->bits, d->kind == WS_ARROW_INT);
	case WS_ARROW_DOUBLE:
		*number = TYPE_FLOAT;
		ws_flat_begin(f);
		ws_flat_number(f, 0, PRECISION_DOUBLE, 2);
		return ws_flat_end(f);
	default:
		*number = d->kind == WS_ARROW_NULL     ? TYPE_NULL
			  : d->kind == WS_ARROW_BINARY ? TYPE_BINARY
						       : TYPE_UTF8;
		ws_flat_begin(f);
		return ws_flat_end(f);
	}
}

static ws_flat_ref field(struct ws_flat *f, const struct ws_arrow_field *d)
{
	ws_flat_ref name = ws_flat_string(f, d->name, strlen(d->name)), pairs[2], meta, type, index,
		    dictionary = 0, children;
	size_t n = 0;
	int number;

	if (d->doc && *d->doc)
		pairs[n++] = pair(f, "description", d->doc);
	if (d->unit)
		pairs[n++] = pair(f, "unit", d->unit);
	meta = n ? ws_flat_refs(f, pairs, n) : 0;
	type = type_of(f, d, &number);
	children = ws_flat_refs(f, NULL, 0);
	if (d->kind == WS_ARROW_DICTIONARY) {
		index = int_type(f, 32, true);
		ws_flat_begin(f);
		ws_flat_number(f, 0, 0, 8);
		ws_flat_child(f, 1, index);
		dictionary = ws_flat_end(f);
	}
	ws_flat_begin(f);
	ws_flat_child(f, 0, name);
	ws_flat_child(f, 3, type);
	ws_flat_child(f, 4, dictionary);
	ws_flat_child(f, 5, children);
	ws_flat_child(f, 6, meta);
	ws_flat_number(f, 1, !d->not_null, 1);
	ws_flat_number(f, 2, number, 1);
	return ws_flat_end(f);
}

static ws_flat_ref schema(struct ws_flat *f, const struct ws_arrow_field *fields, size_t n,
			  const char *const *pairs)
{
	ws_flat_ref refs[2 * WS_MAX_COLUMNS], more[8], columns, meta;
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		refs[i] = field(f, &fields[i]);
	columns = ws_flat_refs(f, refs, n);
	for (; pairs[2 * count] && count < WS_COUNT(more); count++)
		more[count] = pair(f, pairs[2 * count], pairs[2 * count + 1]);
	meta = ws_flat_refs(f, more, count);
	ws_flat_begin(f);
	ws_flat_child(f, 1, columns);
	ws_flat_child(f, 2, meta);
	return ws_flat_end(f);
}

static ws_flat_ref message(struct ws_flat *f, int kind, ws_flat_ref header, int64_t body)
{
	ws_flat_begin(f);
	ws_flat_number(f, 3, body, 8);
	ws_flat_child(f, 2, header);
	ws_flat_number(f, 0, VERSION_5, 2);
	ws_flat_number(f, 1, kind, 1);
	return ws_flat_end(f);
}

/* ---- batches ---- */

void ws_arrow_batch_clear(struct ws_arrow_batch *b, int64_t rows)
{
	b->rows = rows;
	b->nodes = b->buffers = 0;
}

void ws_arrow_add_buffer(struct ws_arrow_batch *b, const void *bytes, size_t n)
{
	b->buffer[b->buffers++] = (struct ws_arrow_buffer){bytes, n};
}

void ws_arrow_add(struct ws_arrow_batch *b, int64_t rows, int64_t nulls, const void *valid)
{
	b->node[b->nodes++] = (struct ws_arrow_node){rows, valid ? nulls : 0};
	ws_arrow_add_buffer(b, valid, valid ? (size_t)(rows + 7) / 8 : 0);
}

void ws_arrow_add_null(struct ws_arrow_batch *b, int64_t rows)
{
	b->node[b->nodes++] = (struct ws_arrow_node){rows, rows};
}

void ws_arrow_batch_seal(struct ws_arrow_batch *b, int64_t dictionary, bool delta)
{
	struct {
		int64_t offset, length;
	} places[WS_COUNT(b->buffer)];
	ws_flat_ref nodes, buffers, header;

	b->body = 0;
	for (size_t i = 0; i < b->buffers; i++) {
		places[i].offset = b->body;
		places[i].length = (int64_t)b->buffer[i].n;
		b->body += (int64_t)WS_ALIGN_UP(b->buffer[i].n, ALIGN);
	}
	ws_flat_reset(&b->meta);
	buffers = ws_flat_structs(&b->meta, places, sizeof(places[0]), b->buffers);
	nodes = ws_flat_structs(&b->meta, b->node, sizeof(b->node[0]), b->nodes);
	ws_flat_begin(&b->meta);
	ws_flat_number(&b->meta, 0, b->rows, 8);
	ws_flat_child(&b->meta, 1, nodes);
	ws_flat_child(&b->meta, 2, buffers);
	header = ws_flat_end(&b->meta);
	if (dictionary >= 0) {
		ws_flat_begin(&b->meta);
		ws_flat_number(&b->meta, 0, dictionary, 8);
		ws_flat_child(&b->meta, 1, header);
		ws_flat_number(&b->meta, 2, delta, 1);
		header = ws_flat_end(&b->meta);
	}
	header = message(&b->meta, dictionary >= 0 ? HEADER_DICTIONARY : HEADER_BATCH, header,
			 b->body);
	b->message = ws_flat_finish(&b->meta, header, &b->message_len);
}

void ws_arrow_batch_free(struct ws_arrow_batch *b)
{
	ws_flat_free(&b->meta);
}

/* ---- writing ---- */

static const uint8_t zeros[ALIGN];

static int put_bytes(struct ws_arrow_out *o, const void *bytes, size_t n)
{
	if (n && fwrite(bytes, 1, n, o->f) != n)
		return -1;
	o->at += n;
	return 0;
}

static int pad_to(struct ws_arrow_out *o, size_t align)
{
	return put_bytes(o, zeros, (0 - o->at) & (align - 1));
}

/* A message's head, padded so that its body begins at a multiple of 64. Returns its length. */
static int put_head(struct ws_arrow_out *o, const uint8_t *message, size_t n,
		    struct ws_arrow_block *where)
{
	uint64_t begin = o->at, end = WS_ALIGN_UP(begin + 8 + n, (uint64_t)ALIGN);
	uint32_t head[2] = {UINT32_MAX, (uint32_t)(end - begin - 8)};

	if (where)
		*where = (struct ws_arrow_block){.offset = (int64_t)begin,
						 .meta = (int32_t)(end - begin)};
	return put_bytes(o, head, 8) < 0 || put_bytes(o, message, n) < 0 ? -1 : pad_to(o, ALIGN);
}

int ws_arrow_begin(struct ws_arrow_out *o, FILE *f, bool file, const struct ws_arrow_field *fields,
		   size_t n, const char *const *pairs)
{
	const uint8_t *bytes;
	size_t len;

	o->f = f;
	o->file = file;
	o->at = 0;
	o->batch_count = o->dictionary_count = 0;
	if (file && put_bytes(o, magic, 8) < 0)
		return -1;
	ws_flat_reset(&o->meta);
	bytes = ws_flat_finish(
		&o->meta, message(&o->meta, HEADER_SCHEMA, schema(&o->meta, fields, n, pairs), 0),
		&len);
	return put_head(o, bytes, len, NULL);
}

int ws_arrow_put(struct ws_arrow_out *o, const struct ws_arrow_batch *b, bool dictionary)
{
	struct ws_arrow_block where;

	if (put_head(o, b->message, b->message_len, &where) < 0)
		return -1;
	where.body = b->body;
	for (size_t i = 0; i < b->buffers; i++)
		if (put_bytes(o, b->buffer[i].bytes, b->buffer[i].n) < 0 || pad_to(o, ALIGN) < 0)
			return -1;
	if (o->file && dictionary) {
		ws_grow(o->dictionaries, o->dictionary_cap, o->dictionary_count + 1);
		o->dictionaries[o->dictionary_count++] = where;
	} else if (o->file) {
		ws_grow(o->batches, o->batch_cap, o->batch_count + 1);
		o->batches[o->batch_count++] = where;
	}
	return 0;
}

static int put_footer(struct ws_arrow_out *o, const struct ws_arrow_field *fields, size_t n,
		      const char *const *pairs)
{
	ws_flat_ref batches, dictionaries, head;
	const uint8_t *bytes;
	size_t len;
	uint32_t size;

	ws_flat_reset(&o->meta);
	head = schema(&o->meta, fields, n, pairs);
	batches = ws_flat_structs(&o->meta, o->batches, sizeof(*o->batches), o->batch_count);
	dictionaries = ws_flat_structs(&o->meta, o->dictionaries, sizeof(*o->dictionaries),
				       o->dictionary_count);
	ws_flat_begin(&o->meta);
	ws_flat_child(&o->meta, 1, head);
	ws_flat_child(&o->meta, 2, dictionaries);
	ws_flat_child(&o->meta, 3, batches);
	ws_flat_number(&o->meta, 0, VERSION_5, 2);
	bytes = ws_flat_finish(&o->meta, ws_flat_end(&o->meta), &len);
	size = (uint32_t)len;
	return put_bytes(o, bytes, len) < 0 || put_bytes(o, &size, 4) < 0 ? -1
									  : put_bytes(o, magic, 6);
}

int ws_arrow_end(struct ws_arrow_out *o, const struct ws_arrow_field *fields, size_t n,
		 const char *const *pairs)
{
	static const uint32_t end[2] = {UINT32_MAX, 0};
	int rc = put_bytes(o, end, 8);

	if (!rc && o->file)
		rc = put_footer(o, fields, n, pairs);
	return rc;
}

void ws_arrow_free(struct ws_arrow_out *o)
{
	ws_flat_free(&o->meta);
	free(o->batches);
	free(o->dictionaries);
	o->batches = o->dictionaries = NULL;
	o->batch_cap = o->dictionary_cap = 0;
}
