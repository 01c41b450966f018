/*
 * image.h - pieces of an interpreter's memory, as far as the reader has read them, and reading from
 * them: a real interpreter without the interpreter.
 *
 * A file is the word "WSPYIMG1", then numbers of 8 bytes: version, address of _PyRuntime, count of
 * pieces; then each piece: address, size, bytes.
 */
#ifndef WS_TEST_PYTHON_IMAGE_H
#define WS_TEST_PYTHON_IMAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/cpython.h"

struct piece {
	uint64_t at, bytes;
	uint8_t *data;
};

struct image {
	uint64_t version, runtime, n;
	struct piece *piece;
};

static inline struct piece *image_put(struct image *im, uint64_t at, uint64_t bytes)
{
	struct piece *piece;

	im->piece = realloc(im->piece, (im->n + 1) * sizeof(*im->piece));
	piece = &im->piece[im->n++];
	*piece = (struct piece){at, bytes, calloc(1, bytes + 1)};
	return piece;
}

/* Bytes that lie in several pieces that touch or overlap are found too, newest first. */
static inline bool image_bytes(const struct image *im, uint64_t at, uint8_t *to, size_t bytes)
{
	while (bytes) {
		uint64_t i = im->n, from, take;

		while (i-- > 0 &&
		       !(at >= im->piece[i].at && at - im->piece[i].at < im->piece[i].bytes))
			if (!i)
				return false;
		if (i == UINT64_MAX)
			return false;
		from = at - im->piece[i].at;
		take = im->piece[i].bytes - from < bytes ? im->piece[i].bytes - from : bytes;
		memcpy(to, im->piece[i].data + from, take);
		at += take;
		to += take;
		bytes -= take;
	}
	return true;
}

static inline size_t image_read(void *ctx, const struct ws_py_piece *piece, size_t n)
{
	size_t done = 0;

	if (n > WS_PY_PIECES)
		abort();
	while (done < n && image_bytes(ctx, piece[done].from, piece[done].to, piece[done].bytes))
		done++;
	return done;
}

static inline bool image_load(const char *path, struct image *im)
{
	FILE *file = fopen(path, "rb");
	uint64_t head[3], one[2];
	char word[8];
	bool ok = file && fread(word, 8, 1, file) == 1 && !memcmp(word, "WSPYIMG1", 8) &&
		  fread(head, sizeof(head), 1, file) == 1;

	memset(im, 0, sizeof(*im));
	if (ok) {
		im->version = head[0];
		im->runtime = head[1];
	}
	for (uint64_t i = 0; ok && i < head[2]; i++) {
		ok = fread(one, sizeof(one), 1, file) == 1 && one[1] < 1 << 20;
		ok = ok && fread(image_put(im, one[0], one[1])->data, 1, one[1], file) == one[1];
	}
	if (file)
		fclose(file);
	return ok;
}

static inline void image_free(struct image *im)
{
	for (uint64_t i = 0; i < im->n; i++)
		free(im->piece[i].data);
	free(im->piece);
}

static inline bool image_layout(const struct image *im, const struct ws_py_memory *memory,
				struct ws_py_layout *layout)
{
	return im->version >= 0x030d ? ws_py_read_layout(memory, im->runtime, layout)
				     : ws_py_get_layout((uint16_t)im->version, layout);
}

#endif
