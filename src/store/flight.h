/* flight.h - a writer that keeps only the latest rows; private to store/. See struct ws_flight_opts
 * in store.h for what it promises. */
#ifndef WS_FLIGHT_H
#define WS_FLIGHT_H

#include "store/writer.h"

/* Ids of strings are given out in chunks, so that those of dropped segments are used again. */
enum { WS_FLIGHT_CHUNK = 1 << 11 };

enum ws_flight_chunk {
	WS_CHUNK_FREE,
	WS_CHUNK_LASTING,
	WS_CHUNK_PASSING,
	WS_CHUNK_HELD, /* passing, and something that is kept has one of its ids */
};

/* A span of the recording: blocks in a file in memory. */
struct ws_flight_segment {
	int fd;
	struct ws_index_entry *index;
	size_t blocks, index_cap;
	uint64_t bytes;	       /* of the file */
	uint64_t begun, ended; /* session ns */
	struct ws_bytes sums;  /* what overview blocks are made of */
	uint32_t summaries;
};

/* Lasting strings with ids one after the other. */
struct ws_flight_run {
	uint64_t first;
	uint32_t count, generation;
	size_t length_at, text_at; /* in the arrays for all */
};

struct ws_flight {
	struct ws_flight_opts opts;
	struct ws_flight_segment *segments; /* closed ones, oldest first */
	size_t count, cap;
	uint64_t begun;			      /* of the segment that is being written */
	struct ws_bytes rows[WS_TABLE_COUNT]; /* of tables that last */
	uint64_t compacted; /* rows of process_end when those of ended processes were last dropped
			     */
	struct ws_flight_run *runs;
	size_t run_count, run_cap;
	struct ws_bytes lengths, text; /* of lasting strings */
	struct ws_intern passing;
	uint32_t passing_generation;
	uint64_t passing_first; /* id of the first string that waits; 0: there is no chunk */
	uint32_t *passing_lengths, passing_count;
	struct ws_bytes passing_text;
	uint64_t lasting_next, lasting_end; /* ids left of the present chunk */
	struct ws_writer_watch watch;	    /* without functions when there is no watcher */
	uint32_t watched[WS_TABLE_COUNT];   /* rows of each stage that it has seen */
	uint8_t *chunks;		    /* enum ws_flight_chunk */
	size_t chunk_count, chunk_cap;
};

void ws_flight_begin(struct ws_writer *writer, const struct ws_flight_opts *opts);
void ws_flight_free(struct ws_writer *writer);
/* The rows go to all reports. */
void ws_flight_keep_rows(struct ws_writer *writer, enum ws_table table, const void *rows,
			 uint32_t count);
/* A string that is not known yet; its id, 0 when there are no more. */
uint32_t ws_flight_add_string(struct ws_writer *writer, const void *bytes, size_t len);
/* Close the present segment if it is full, and drop segments that are too old or exceed the memory
 * limit. */
void ws_flight_commit(struct ws_writer *writer);
/* Close the present segment; the next one begins. */
void ws_flight_close_segment(struct ws_writer *writer);
/* Begin a segment of our own: the file of the present one may be another process's too, which goes
 * on writing to it. -1 with errno. */
int ws_flight_leave_file(struct ws_writer *writer);
/* A chunk of ids, the lowest that is free; its first id, 0 when there are no more. */
uint64_t ws_flight_take_chunk(struct ws_flight *flight, enum ws_flight_chunk use);
/* Show the watch the rows of a stage that it has not seen. `emptied`: the stage starts empty again.
 * */
void ws_flight_show_rows(struct ws_writer *writer, enum ws_table table, bool emptied);
/* Drop the lasting rows of processes that had ended before `time`. */
void ws_flight_compact(struct ws_flight *flight, uint64_t time);

#endif
