/*
 * report.h - an open report, as the parts of the reader share it. Private to store/.
 */
#ifndef WS_REPORT_H
#define WS_REPORT_H

#include <pthread.h>

#include "store/codec.h"
#include "store/store.h"

/* Files up to this size are checked whole when they are opened: it costs milliseconds. */
#define WS_CHECK_AT_OPEN (UINT64_C(64) << 20)

/* A block that was found in the file; its body is checked each time it is read. */
struct ws_block {
	uint64_t offset;
	struct ws_block_head head;
	uint8_t *memory; /* the whole block, when it was made from the journal; NULL: in the file */
};

struct ws_block_list {
	struct ws_block *blocks;
	size_t count, cap;
};

/* What a thread needs for decoding; kept in a pool. */
struct ws_workspace {
	struct ws_unpacker unpacker;
	struct ws_bytes block;
	uint64_t *scratch[2]; /* values of columns that others refer to */
	uint8_t *bytes;
	uint32_t rows;
	struct ws_workspace *next;
};

/* A table of the file's schema and the matching columns of this build. */
struct ws_file_table {
	int table; /* enum ws_table, or -1: unknown to this build */
	uint32_t columns;
	int16_t column[WS_MAX_FILE_COLUMNS]; /* ours, or -1 */
};

/*
 * A dictionary block; decoded when first needed. The first byte of string i is text + at[i], and a
 * NUL precedes text + at[i + 1]. All blocks are in one array, since look-ups of names that never
 * repeat are spread over all of it.
 */
enum ws_text_state { WS_TEXT_UNREAD, WS_TEXT_LOADING, WS_TEXT_READY, WS_TEXT_DAMAGED };
struct ws_text_block {
	uint32_t first, count; /* ids */
	uint8_t state;	       /* enum ws_text_state */
	char *text;	       /* in the report's text memory, as is `at` */
	uint32_t *at;	       /* n + 1 */
};

struct ws_text_memory; /* strings.c */
struct ws_string_keys;
struct ws_summaries; /* overview.c */

struct ws_report {
	char *path;
	int fd;
	uint64_t size;
	struct ws_file_header header;
	struct ws_file_table *schema; /* by number in the file; NULL: not there */
	uint32_t schema_tables;
	struct ws_block_list all; /* SEGMENT, SCHEMA and every other block in file order: for verify
				     and recover */
	struct ws_block_list table[WS_TABLE_COUNT];
	uint64_t rows[WS_TABLE_COUNT], bytes[WS_TABLE_COUNT], columns[WS_TABLE_COUNT];
	struct ws_block_list strings;
	struct ws_text_block *text;	    /* by index in strings */
	size_t text_blocks;		    /* of `strings` that have an entry there */
	struct ws_text_memory *text_memory; /* memory that the texts are in; under text_lock */
	uint32_t *guide, guide_shift; /* by id >> guide_shift: index in strings of the first block
					 that ends behind such ids */
	struct ws_string_keys *keys;  /* computed when first asked for */
	char **damage;
	size_t damages, damage_cap, damages_unsaid;
	bool indexed, live;
	uint64_t rest;	      /* bytes at the end that belong to no block */
	pthread_mutex_t lock; /* of the pool */
	pthread_mutex_t key_lock;
	pthread_mutex_t text_lock;
	pthread_cond_t text_loaded;
	pthread_mutex_t group_lock;
	struct ws_summaries *summaries; /* read when first asked for */
	struct ws_workspace *pool;
	uint64_t decoded; /* blocks; counted by all threads */
};

/* Keeps a sentence about missing or damaged data (printf style) for ws_report_get_damage. */
void ws_report_add_damage(struct ws_report *report, const char *fmt, ...) WS_PRINTF(2, 3);

struct ws_workspace *ws_take_workspace(const struct ws_report *report);
void ws_give_back_workspace(const struct ws_report *report, struct ws_workspace *workspace);
void ws_workspace_free(struct ws_workspace *workspace);

/*
 * Reads the body of a block and checks it: in workspace->block or in memory. NULL with a message
 * when it is damaged.
 */
const uint8_t *ws_read_block_body(const struct ws_report *report, const struct ws_block *block,
				  struct ws_workspace *workspace, struct ws_err *err);

/*
 * append.c: a new file at `path` with the header and the blocks of `report`, byte for byte, without
 * its index; *end gets where they end. A descriptor, or -1 with a message.
 */
int ws_report_copy_blocks(const struct ws_report *report, const char *path, uint64_t *end,
			  struct ws_err *err);

/* find.c: fills `all` from the index, or by walking the file. */
void ws_report_find_all_blocks(struct ws_report *report);
/* Adds to `all` the consecutive blocks from `from` on that end by `end`; returns the end of the
 * last one. */
uint64_t ws_report_walk_blocks(struct ws_report *report, uint64_t from, uint64_t end);
/* open.c: the steps of opening, for a reader that follows a report: only the header is read; the
 * schema, once a block of `all` holds one; blocks behind `whole` that a kill has torn taken out of
 * `all`; a block entered into the list of its table. */
struct ws_report *ws_report_open_header(const char *path, struct ws_err *err);
void ws_report_read_schema(struct ws_report *report);
void ws_report_drop_torn_blocks(struct ws_report *report, uint64_t whole);
void ws_report_file_block(struct ws_report *report, const struct ws_block *block);
void ws_report_refresh_size(struct ws_report *report);
/* strings.c: call it when all blocks are known, and again when more are. */
void ws_report_prepare_strings(struct ws_report *report);
void ws_report_free_strings(struct ws_report *report);
/* Forget decoded texts when they take more than `most` bytes; only while no other thread reads. */
void ws_report_drop_texts(struct ws_report *report, size_t most);
/* The texts of strings.blocks[i], decoded when first asked for. */
const struct ws_text_block *ws_report_texts(const struct ws_report *report, size_t i);
/* The index in `strings` of the block that defines `id`, or -1. */
ptrdiff_t ws_find_string_block(const struct ws_report *report, uint32_t id);
/* keys.c */
void ws_free_string_keys(struct ws_report *report);
const char *ws_name_block_type(uint32_t type);

#endif
