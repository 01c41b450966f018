/*
 * reseal.c - see reseal.h. Walks from block to block as their headers say, as far as that leads,
 * and copies every header into the index entry that belongs to it by position.
 */
#include "reseal.h"

#include <string.h>
#include <xxhash.h>

#include "store/format.h"

static void seal_index(uint8_t *bytes, struct ws_block_header *header, const uint8_t *body,
		       size_t blocks, const uint64_t *at)
{
	size_t fit = header->head.body_bytes / sizeof(struct ws_index_entry);

	for (size_t i = 0; i < blocks && i < fit; i++) {
		struct ws_index_entry entry = {.offset = at[i]};

		memcpy(&entry.head, bytes + at[i] + offsetof(struct ws_block_header, head),
		       sizeof(entry.head));
		memcpy((uint8_t *)body + i * sizeof(entry), &entry, sizeof(entry));
	}
}

static void seal_trailer(uint8_t *bytes, size_t n, uint64_t index)
{
	struct ws_trailer trailer;

	memcpy(&trailer, bytes + n - sizeof(trailer), sizeof(trailer));
	if (index)
		trailer.index_offset = index;
	trailer.file_bytes = n;
	trailer.check = XXH3_64bits(&trailer, offsetof(struct ws_trailer, check));
	memcpy(trailer.magic, WS_TRAILER_MAGIC, 8);
	memcpy(bytes + n - sizeof(trailer), &trailer, sizeof(trailer));
}

void reseal(uint8_t *bytes, size_t n)
{
	enum { MOST = 1000 };
	uint64_t at[MOST], index = 0;
	size_t blocks = 0, pos = sizeof(struct ws_file_header);
	struct ws_file_header header;
	struct ws_block_header block_header;

	if (n < sizeof(header) + sizeof(struct ws_trailer))
		return;
	memcpy(&header, bytes, sizeof(header));
	memcpy(header.magic, WS_FILE_MAGIC, 8);
	header.check = XXH3_64bits(&header, offsetof(struct ws_file_header, check));
	memcpy(bytes, &header, sizeof(header));
	while (blocks < MOST && !index && pos + sizeof(block_header) <= n) {
		memcpy(&block_header, bytes + pos, sizeof(block_header));
		if (block_header.head.body_bytes > n - pos - sizeof(block_header))
			break;
		if (block_header.head.type == WS_BLOCK_INDEX) {
			seal_index(bytes, &block_header, bytes + pos + sizeof(block_header), blocks,
				   at);
			index = pos;
		}
		memcpy(block_header.magic, WS_BLOCK_MAGIC, 8);
		block_header.head.body_check = XXH3_64bits(bytes + pos + sizeof(block_header),
							   block_header.head.body_bytes);
		block_header.check = XXH3_64bits(&block_header.head, sizeof(block_header.head));
		memcpy(bytes + pos, &block_header, sizeof(block_header));
		at[blocks++] = pos;
		pos += sizeof(block_header) +
		       WS_ALIGN_UP(block_header.head.body_bytes, WS_BLOCK_ALIGN);
	}
	seal_trailer(bytes, n, index);
	if (index) { /* the index was sealed before its own header: once more, now that all headers
			are final */
		memcpy(&block_header, bytes + index, sizeof(block_header));
		seal_index(bytes, &block_header, bytes + index + sizeof(block_header), blocks - 1,
			   at);
		block_header.head.body_check = XXH3_64bits(bytes + index + sizeof(block_header),
							   block_header.head.body_bytes);
		block_header.check = XXH3_64bits(&block_header.head, sizeof(block_header.head));
		memcpy(bytes + index, &block_header, sizeof(block_header));
	}
}
