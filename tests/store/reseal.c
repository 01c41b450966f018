/*
 * reseal.c - see reseal.h. Walks from block to block as their headers say, as far as that leads,
 * and copies every header into the index entry that belongs to it by position.
 */
#include "reseal.h"

#include <string.h>
#include <xxhash.h>

#include "store/format.h"

static void seal_index(uint8_t *p, struct ws_block_header *h, const uint8_t *body, size_t blocks,
		       const uint64_t *at)
{
	size_t fit = h->head.body_bytes / sizeof(struct ws_index_entry);

	for (size_t i = 0; i < blocks && i < fit; i++) {
		struct ws_index_entry x = {.offset = at[i]};

		memcpy(&x.head, p + at[i] + offsetof(struct ws_block_header, head), sizeof(x.head));
		memcpy((uint8_t *)body + i * sizeof(x), &x, sizeof(x));
	}
}

static void seal_trailer(uint8_t *p, size_t n, uint64_t index)
{
	struct ws_trailer t;

	memcpy(&t, p + n - sizeof(t), sizeof(t));
	if (index)
		t.index_offset = index;
	t.file_bytes = n;
	t.check = XXH3_64bits(&t, offsetof(struct ws_trailer, check));
	memcpy(t.magic, WS_TRAILER_MAGIC, 8);
	memcpy(p + n - sizeof(t), &t, sizeof(t));
}

void reseal(uint8_t *p, size_t n)
{
	enum { MOST = 1000 };
	uint64_t at[MOST], index = 0;
	size_t blocks = 0, pos = sizeof(struct ws_file_header);
	struct ws_file_header f;
	struct ws_block_header h;

	if (n < sizeof(f) + sizeof(struct ws_trailer))
		return;
	memcpy(&f, p, sizeof(f));
	memcpy(f.magic, WS_FILE_MAGIC, 8);
	f.check = XXH3_64bits(&f, offsetof(struct ws_file_header, check));
	memcpy(p, &f, sizeof(f));
	while (blocks < MOST && !index && pos + sizeof(h) <= n) {
		memcpy(&h, p + pos, sizeof(h));
		if (h.head.body_bytes > n - pos - sizeof(h))
			break;
		if (h.head.type == WS_BLOCK_INDEX) {
			seal_index(p, &h, p + pos + sizeof(h), blocks, at);
			index = pos;
		}
		memcpy(h.magic, WS_BLOCK_MAGIC, 8);
		h.head.body_check = XXH3_64bits(p + pos + sizeof(h), h.head.body_bytes);
		h.check = XXH3_64bits(&h.head, sizeof(h.head));
		memcpy(p + pos, &h, sizeof(h));
		at[blocks++] = pos;
		pos += sizeof(h) + WS_ALIGN_UP(h.head.body_bytes, WS_BLOCK_ALIGN);
	}
	seal_trailer(p, n, index);
	if (index) { /* the index was sealed before its own header: once more, now that all headers
			are final */
		memcpy(&h, p + index, sizeof(h));
		seal_index(p, &h, p + index + sizeof(h), blocks - 1, at);
		h.head.body_check = XXH3_64bits(p + index + sizeof(h), h.head.body_bytes);
		h.check = XXH3_64bits(&h.head, sizeof(h.head));
		memcpy(p + index, &h, sizeof(h));
	}
}
