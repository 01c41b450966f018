/*
 * encode.h - from row structs to a ROWS block, ready to be appended.
 */
#ifndef WS_ENCODE_H
#define WS_ENCODE_H

#include "store/codec.h"
#include "store/sort.h"

struct ws_encoder {
	struct ws_packer packer;
	struct ws_sorter sorter;
	struct ws_bytes out; /* the finished block: header, body, padding */
	struct ws_bytes streams;
	uint64_t *value, *number, *track, *start, *end, *steps[2]; /* max_rows each */
	uint8_t *rest[2];
	uint32_t max_rows;
	uint64_t scale; /* the last step of the clock that was found, 0 for none */
	uint32_t scale_wait, scale_patience; /* blocks until the next search for one, and how many
						to wait after that */
};
void ws_encoder_init(struct ws_encoder *encoder, uint32_t max_rows);
void ws_encoder_free(struct ws_encoder *encoder);

/* Begin a block in encoder->out. The caller appends its body with ws_bytes_add and seals it with
 * ws_block_end. */
struct ws_block_head ws_make_block_head(uint32_t type, uint64_t sequence);
void ws_block_begin(struct ws_bytes *out);
/* Fills in the body's length and both checksums. */
void ws_block_end(struct ws_bytes *out, const struct ws_block_head *head);

/* Encode `count` rows (at least 1; row structs of `table`, not changed) into encoder->out. `first`:
 * rows of the table written before. */
void ws_encode_rows(struct ws_encoder *encoder, enum ws_table table, const void *rows,
		    uint32_t count, uint64_t first, uint64_t sequence);

/* Strings `first` to first + count - 1, whose bytes follow one another in `text`. */
struct ws_string_run {
	uint64_t first;
	uint32_t count, generation;
	const uint32_t *lengths;
	const void *text;
	uint64_t bytes;
};

/* Encode a dictionary block. */
void ws_encode_strings(struct ws_encoder *encoder, const struct ws_string_run *strings,
		       uint64_t sequence);

/* Encode the index block and the trailer, for a file whose blocks end at `at`. */
void ws_encode_index(struct ws_bytes *out, const struct ws_index_entry *index, size_t count,
		     uint64_t at, uint64_t total_rows, uint64_t sequence);

/* Encode the description of this build's tables; the fingerprint is a number that changes with it.
 */
void ws_encode_schema(struct ws_encoder *encoder, uint64_t sequence);
uint64_t ws_hash_schema(void);

#endif
