/*
 * format.h - the layout of a report file and of its journal; docs/report-format.md says the same in
 * words.
 *
 * Both are read by memcpy into these structs: all fields are little endian and naturally aligned,
 * and both supported processors are little endian. Every struct that starts something carries a
 * checksum of itself, so that a reader can tell a header from bytes that look like one. Private to
 * store/.
 */
#ifndef WS_FORMAT_H
#define WS_FORMAT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "schema/schema.h"
#include "store/store.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the report format is little endian");

#define WS_FORMAT_MAJOR 1 /* a reader refuses a higher one */
#define WS_FORMAT_MINOR 1 /* a reader copes with a higher one */

/* The first byte is not ASCII and the last ones break when a transfer "corrects" line ends. */
#define WS_FILE_MAGIC WS_REPORT_MAGIC
#define WS_BLOCK_MAGIC "\x89WSBLK\r\n"
#define WS_TRAILER_MAGIC "\x89WSEND\r\n"
#define WS_JOURNAL_MAGIC "\x89WSJNL\r\n"

/* Limits that a reader enforces before it allocates anything. */
#define WS_MAX_BLOCK_ROWS (UINT32_C(1) << 20)
#define WS_MAX_BLOCK_STRINGS (UINT32_C(1) << 20)
#define WS_MAX_BODY (UINT64_C(1) << 29)
#define WS_MAX_TEXT (UINT64_C(64) << 20) /* bytes of strings in a dictionary block */
#define WS_MAX_FILE_TABLES 1024
#define WS_MAX_FILE_COLUMNS 256

struct ws_file_header {
	char magic[8];
	uint16_t major, minor;
	uint32_t bytes;	      /* of this header; the first block follows */
	uint8_t uuid[16];     /* ties the journal to the report */
	uint64_t created;     /* CLOCK_REALTIME */
	uint64_t fingerprint; /* of the writer's schema */
	uint64_t reserved;
	uint64_t check; /* XXH3-64 of the bytes before */
};
static_assert(sizeof(struct ws_file_header) == 64, "file header");

enum ws_block_type {
	WS_BLOCK_SEGMENT = 1, /* opens a segment */
	WS_BLOCK_SCHEMA =
		2, /* names of tables and columns; stands in every segment before its rows */
	WS_BLOCK_STRINGS = 3, /* dictionary */
	WS_BLOCK_ROWS = 4,
	WS_BLOCK_INDEX = 5,
	WS_BLOCK_OVERVIEW = 6, /* sums over blocks of rows, which can be read without them */
};

/* Everything of a block header that the index repeats. */
struct ws_block_head {
	uint64_t body_check; /* XXH3-64 of the body */
	uint64_t body_bytes; /* without the padding to 8 bytes */
	uint32_t type;
	uint32_t table;	  /* ROWS: number in this file's schema. STRINGS: generation */
	uint32_t rows;	  /* or strings, or index entries, or blocks that an OVERVIEW sums up */
	uint32_t columns; /* descriptors in a ROWS body */
	uint64_t first;	  /* ROWS: rows of the table before this block. STRINGS: first id. SEGMENT:
			     its number */
	uint64_t time_min, time_max;
	uint32_t track_min, track_max;
	uint64_t sequence; /* number of the block in the file */
	uint64_t raw; /* STRINGS: bytes of text. ROWS: bytes of the rows as structs. OVERVIEW: bytes
			 of its sums */
};

struct ws_block_header {
	char magic[8];
	uint64_t check; /* XXH3-64 of `head` */
	struct ws_block_head head;
};
static_assert(sizeof(struct ws_block_header) == 96, "block header");

#define WS_BLOCK_ALIGN 8u

struct ws_segment_body {
	uint8_t uuid[16];
	uint64_t fingerprint;
	uint64_t raw, realtime; /* both clocks when the segment was opened */
};

/* How the values of a column became the small numbers that are stored. */
enum ws_codec {
	WS_CODEC_CONST = 1, /* every row has the value `base`; nothing stored */
	WS_CODEC_PLAIN = 2, /* value - base */
	WS_CODEC_DELTA =
		3, /* value - value of the row before - base; the first row's value is `first` */
	WS_CODEC_DICT = 4, /* number in a table of at most 256 values that comes first */
	WS_CODEC_SPAN = 5, /* value - value of column `ref` in this row + 1 - base; 0 - base for
			      null (all ones) */
	WS_CODEC_GAP = 6,  /* value - end of the row before (column `ref`, a SPAN of this one; its
			      start where null) - base */
};

enum ws_codec_flags {
	WS_CODEC_ZIGZAG =
		1, /* the difference is signed: (d << 1) ^ (d >> 63), before base is taken off */
	WS_CODEC_SCALED = 2, /* DELTA, GAP and the SPAN that belongs to them: steps of the clock,
				then a plane of corrections */
};

struct ws_column_head {
	uint16_t column; /* number in this file's schema of the table */
	uint8_t codec, flags;
	uint8_t width; /* byte planes: 0 to 8 */
	uint8_t reserved;
	uint16_t ref;	  /* SPAN, GAP */
	uint32_t bytes;	  /* of the column's streams */
	uint32_t patches; /* rows whose number does not fit `width` bytes */
	uint32_t dict;	  /* DICT: values in the table */
	uint32_t spare2;
	uint64_t base, first;
	uint64_t scale;	   /* SCALED: length of a step, 32.32 fixed-point ns */
	uint64_t min, max; /* of the column's values in the block, as unsigned 64-bit numbers */
};
static_assert(sizeof(struct ws_column_head) == 64, "column head");

/* A stream starts with a word: its stored length and how it is stored. */
#define WS_STREAM_LENGTH UINT32_C(0x3fffffff)
enum ws_stream_kind {
	WS_STREAM_RAW = 0,
	WS_STREAM_ZSTD = 1,
	WS_STREAM_RUN = 2,    /* one byte, repeated */
	WS_STREAM_PACKED = 3, /* a byte b (1, 2 or 4), 1 << b symbols, and a stream of symbol
				 numbers of b bits, the first lowest */
};

struct ws_index_entry {
	uint64_t offset;
	struct ws_block_head head;
};

struct ws_trailer {
	uint64_t index_offset;
	uint64_t file_bytes; /* this trailer included */
	uint64_t total_rows;
	uint64_t check; /* XXH3-64 of the bytes before */
	char magic[8];
};

/* ---- the journal: same machine, same build, so that structs are stored as they are ---- */

#define WS_JOURNAL_VERSION 2

struct ws_journal_table {
	uint64_t offset, capacity; /* bytes, in the journal */
	uint64_t first;		   /* rows of the table that are in the report */
	uint64_t bytes;		   /* committed row structs, standing after those */
	uint64_t check;		   /* XXH3-64 of these bytes, with the table's number as seed */
	uint32_t row_size, reserved;
};

struct ws_journal_head {
	char magic[8];
	uint32_t version, tables;
	uint8_t uuid[16];
	uint64_t fingerprint;
	uint64_t file_bytes;
	uint64_t lengths_offset,
		lengths_capacity; /* uint32_t each, for strings waiting for their block */
	uint64_t text_offset, text_capacity;
	uint64_t check; /* XXH3-64 of the bytes before and of the fixed fields of the tables; what
			   follows changes */

	uint64_t change; /* grows before the place of rows that are in blocks now is reused: readers
			    of a live journal then read again */
	uint64_t report_bytes; /* the report is complete up to here */
	uint64_t string_first; /* id of the first waiting string */
	uint64_t strings;      /* committed */
	uint64_t text_bytes;
	uint64_t lengths_check, text_check; /* XXH3-64 of what is committed */
	struct ws_journal_table table[WS_TABLE_COUNT];
};

#endif
