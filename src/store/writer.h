/*
 * writer.h - a report being written, as the parts of the writer share it. Private to store/.
 */
#ifndef WS_WRITER_H
#define WS_WRITER_H

#include "store/encode.h"
#include "store/intern.h"
#include "store/journal.h"
#include "store/overview.h"
#include "store/report.h"

#define WS_WRITER_FIRST_AHEAD (UINT64_C(1) << 20)

struct ws_writer {
	struct ws_stage stage[WS_TABLE_COUNT];
	char *base[WS_TABLE_COUNT];
	uint64_t written[WS_TABLE_COUNT]; /* rows in the report */
	int fd;
	char *path;
	int litter[2]; /* of cleanup.h: the report and its journal, while neither is to be kept */
	struct ws_journal journal;
	struct ws_encoder encoder;
	struct ws_overview overview;
	struct ws_intern intern;
	uint32_t generation;
	uint64_t next_string;
	uint32_t pending; /* strings not in the report yet */
	uint64_t pending_text;
	uint64_t end;		   /* of the last whole block */
	uint64_t allocated, ahead; /* space reserved in the file, and how much to reserve next;
				      ahead 0 where that is not supported */
	uint64_t sequence;
	uint64_t segment, segment_start, segment_opened, segment_ns;
	bool segment_open;
	struct ws_index_entry *index;
	size_t blocks, index_cap;
	struct ws_err error;
	bool failed, durable;
	uint64_t lost;
	char *replaces;	 /* the report that this copy with additions replaces; NULL: it is new */
	int replaces_fd; /* ...which is locked meanwhile */

	/* continue.c */
	bool unnamed;	       /* the rows are in a file without a name: no report is wanted now */
	uint64_t lost_lasting; /* of `lost`: rows that every later report misses as well */
	uint64_t lasting[WS_TABLE_COUNT]; /* of `written`: rows in blocks that are carried on */
	size_t *lasting_blocks;		  /* numbers in `index` of the blocks that are carried on */
	size_t lasting_n, lasting_cap;
	bool has_own;				/* see ws_writer_begin_own */
	uint32_t staged_before[WS_TABLE_COUNT]; /* rows of each stage from before that */

	struct ws_flight *flight; /* flight.c; NULL for writers of whole reports */
};

/* Fill in the header of a new report, with an identity of its own. */
void ws_writer_make_header(struct ws_file_header *header);
/* Append the block in encoder.out, for which the reserve may be used. Returns -1 if it could not be
 * written; the writer has then failed. */
int ws_writer_append_block(struct ws_writer *writer);
/* Carry the last appended block on into the next report. */
void ws_writer_mark_lasting(struct ws_writer *writer);
/* Open a segment unless one is open. */
int ws_writer_open_segment(struct ws_writer *writer);
/* Encode and append `count` rows at `rows`, sums included. */
int ws_writer_write_rows(struct ws_writer *writer, enum ws_table table, const void *rows,
			 uint32_t count);
/* Rows in the stage of a table. */
uint32_t ws_writer_count_staged(const struct ws_writer *writer, enum ws_table table);
/* Append the waiting strings as a block; they stay in the stage. */
int ws_writer_write_strings(struct ws_writer *writer);
/* Write the pending sums, the index and the trailer, and release the space that was allocated
 * ahead.
 */
void ws_writer_finish_file(struct ws_writer *writer);
/* Continue in the empty file `fd` after its header; `path` NULL: one without a name. */
void ws_writer_start_file(struct ws_writer *writer, const char *path, int fd);
/* Copy a block of another file, with new numbers. A damaged one is left out and counted as lost. -1
 * when the writer has failed. */
int ws_writer_copy_block(struct ws_writer *writer, int fd, const struct ws_index_entry *entry);
/* Write the pending sums, if there are many. */
void ws_writer_flush_overview(struct ws_writer *writer);
/* Create a file without a name, in `folder` or in memory. The descriptor, or -1 with errno. */
int ws_writer_create_unnamed(const char *folder, const struct ws_file_header *header);
/* Register the report and its journal for removal in case the program has to end early. */
void ws_writer_list_litter(struct ws_writer *writer);
void ws_writer_forget_litter(struct ws_writer *writer);

#endif
