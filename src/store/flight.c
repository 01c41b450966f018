/*
 * flight.c - the flight recorder's part of a writer: it keeps the latest rows in segments of a
 * sixteenth of the time or a thirty-second of the memory. The oldest segment is dropped as a whole.
 *
 * Segments are files in memory (memfd) that hold blocks as a report does; nothing goes to the disk.
 * Rows of lasting tables (WS_LASTS in tables.def) are not in segments but in arrays, from which
 * rows about processes that ended long ago are removed (flight_compact.c). flight_join.c makes a
 * report from all of these.
 *
 * Strings: strings whose ids callers remember last as long as the recording. Passing ones belong to
 * the segment in which they were defined, and their ids are used again when it has been dropped,
 * unless something that is kept refers to them; then their block moves on to the next segment.
 */
#include "store/flight.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/ticks.h"
#include "store/file.h"

/* Memory is filled up to its last part but one, so these parts are smaller. */
enum { TIME_PARTS = 16, MEMORY_PARTS = 32, PAGE = 4096, PASSING_TEXT = 4 << 20 };
#define PASSING_GENERATIONS UINT32_C(0x80000000) /* apart from those of lasting strings */

/* ---- ids ---- */

uint64_t ws_flight_take_chunk(struct ws_flight *flight, enum ws_flight_chunk use)
{
	size_t i = 0;

	while (i < flight->chunk_count && flight->chunks[i] != WS_CHUNK_FREE)
		i++;
	if ((i + 1) * WS_FLIGHT_CHUNK > UINT32_MAX)
		return 0;
	ws_grow(flight->chunks, flight->chunk_cap, i + 1);
	flight->chunk_count = ws_max(flight->chunk_count, i + 1);
	flight->chunks[i] = (uint8_t)use;
	return (uint64_t)i * WS_FLIGHT_CHUNK + 1;
}

static size_t get_chunk(uint64_t id)
{
	return (size_t)((id - 1) / WS_FLIGHT_CHUNK);
}

void ws_writer_hold_string(struct ws_writer *writer, uint32_t id)
{
	struct ws_flight *flight = writer->flight;

	if (flight && id && get_chunk(id) < flight->chunk_count &&
	    flight->chunks[get_chunk(id)] == WS_CHUNK_PASSING)
		flight->chunks[get_chunk(id)] = WS_CHUNK_HELD;
}

/* ---- the watch ---- */

void ws_writer_watch(struct ws_writer *writer, const struct ws_writer_watch *watch)
{
	writer->flight->watch = *watch;
}

static uint32_t show_string(struct ws_flight *flight, uint64_t id, const void *bytes, uint32_t len)
{
	if (flight->watch.string)
		flight->watch.string(flight->watch.ctx, (uint32_t)id, bytes, len);
	return (uint32_t)id;
}

void ws_flight_show_rows(struct ws_writer *writer, enum ws_table table, bool emptied)
{
	struct ws_flight *flight = writer->flight;
	uint32_t n = ws_writer_count_staged(writer, table), seen = flight->watched[table];

	if (!flight->watch.tables[table])
		return;
	if (n > seen)
		flight->watch.rows(flight->watch.ctx, table,
				   writer->base[table] + (size_t)seen * ws_tables[table].row_size,
				   n - seen);
	flight->watched[table] = emptied ? 0 : n;
}

/* ---- lasting strings ---- */

static bool continues_run(const struct ws_writer *writer, const struct ws_flight_run *run)
{
	return run->first + run->count == writer->flight->lasting_next &&
	       run->generation == writer->generation;
}

uint32_t ws_flight_add_string(struct ws_writer *writer, const void *bytes, size_t len)
{
	struct ws_flight *flight = writer->flight;
	struct ws_flight_run *run = NULL;
	uint32_t length = (uint32_t)ws_min(len, (size_t)WS_MAX_TEXT);

	writer->lost += len > WS_MAX_TEXT;
	if (flight->lasting_next == flight->lasting_end) {
		flight->lasting_next = ws_flight_take_chunk(flight, WS_CHUNK_LASTING);
		flight->lasting_end =
			flight->lasting_next ? flight->lasting_next + WS_FLIGHT_CHUNK : 0;
		if (!flight->lasting_next)
			return 0;
	}
	if (flight->run_count)
		run = &flight->runs[flight->run_count - 1];
	if (!run || !continues_run(writer, run)) {
		ws_grow(flight->runs, flight->run_cap, flight->run_count + 1);
		run = &flight->runs[flight->run_count++];
		*run = (struct ws_flight_run){.first = flight->lasting_next,
					      .generation = writer->generation,
					      .length_at = flight->lengths.len,
					      .text_at = flight->text.len};
	}
	ws_bytes_add(&flight->lengths, &length, sizeof(length));
	ws_bytes_add(&flight->text, bytes, length);
	run->count++;
	return show_string(flight, flight->lasting_next++, bytes, length);
}

/* ---- passing strings ---- */

static void start_passing(struct ws_flight *flight)
{
	ws_intern_clear(&flight->passing);
	flight->passing_generation++;
}

/* Write the waiting strings into a block of the present segment. Their chunk is finished. */
static void flush_passing(struct ws_writer *writer)
{
	struct ws_flight *flight = writer->flight;
	struct ws_string_run strings = {.first = flight->passing_first,
					.count = flight->passing_count,
					.generation = flight->passing_generation,
					.lengths = flight->passing_lengths,
					.text = flight->passing_text.bytes,
					.bytes = flight->passing_text.len};

	if (!flight->passing_first)
		return;
	ws_encode_strings(&writer->encoder, &strings, writer->sequence);
	if (ws_writer_append_block(writer))
		flight->chunks[get_chunk(flight->passing_first)] = WS_CHUNK_FREE;
	flight->passing_first = flight->passing_count = 0;
	flight->passing_text.len = 0;
}

static uint32_t add_passing(struct ws_writer *writer, const void *bytes, size_t len)
{
	struct ws_flight *flight = writer->flight;
	uint32_t length = (uint32_t)ws_min(len, (size_t)WS_MAX_TEXT);

	writer->lost += len > WS_MAX_TEXT;
	if (flight->passing_count == WS_FLIGHT_CHUNK ||
	    (flight->passing_count && flight->passing_text.len + length > PASSING_TEXT))
		flush_passing(writer);
	if (!flight->passing_first) {
		flight->passing_first = ws_flight_take_chunk(flight, WS_CHUNK_PASSING);
		if (!flight->passing_first)
			return 0;
	}
	flight->passing_lengths[flight->passing_count] = length;
	ws_bytes_add(&flight->passing_text, bytes, length);
	return show_string(flight, flight->passing_first + flight->passing_count++, bytes, length);
}

uint32_t ws_writer_passing_string(struct ws_writer *writer, const void *bytes, size_t len)
{
	struct ws_flight *flight = writer->flight;
	uint64_t hash;
	uint32_t id;

	if (!flight)
		return ws_writer_string(writer, bytes, len);
	if (len > WS_INTERN_LONGEST)
		return add_passing(writer, bytes, len);
	hash = ws_intern_hash(bytes, len);
	id = ws_intern_find(&writer->intern, hash, bytes, len);
	if (!id)
		id = ws_intern_find(&flight->passing, hash, bytes, len);
	if (id)
		return id;
	if (ws_intern_is_full(&flight->passing, len)) {
		flush_passing(writer); /* a block is of one generation */
		start_passing(flight);
	}
	id = add_passing(writer, bytes, len);
	if (id)
		ws_intern_add(&flight->passing, hash, bytes, len, id);
	return id;
}

/* ---- rows that last ---- */

void ws_flight_keep_rows(struct ws_writer *writer, enum ws_table table, const void *rows,
			 uint32_t count)
{
	ws_bytes_add(&writer->flight->rows[table], rows, (size_t)count * ws_tables[table].row_size);
}

/* ---- segments ---- */

static int open_file(void)
{
	return memfd_create("warpsight-flight", MFD_CLOEXEC);
}

static void begin_segment(struct ws_writer *writer, int fd)
{
	writer->fd = fd;
	writer->end = writer->allocated = 0;
	writer->ahead = 0; /* unused memory would count too */
	writer->index = NULL;
	writer->blocks = writer->index_cap = 0;
	writer->segment_open = true; /* of the file format: they are made at the join */
	writer->flight->begun = ws_read_raw_ns();
	start_passing(writer->flight);
}

void ws_flight_begin(struct ws_writer *writer, const struct ws_flight_opts *opts)
{
	struct ws_flight *flight = ws_calloc(1, sizeof(*flight));

	flight->opts = *opts;
	flight->passing_generation = PASSING_GENERATIONS;
	flight->passing_lengths = ws_malloc(WS_FLIGHT_CHUNK * sizeof(uint32_t));
	writer->flight = flight;
	close(writer->fd);
	free(writer->index);
	begin_segment(writer, open_file());
}

static void free_segment(struct ws_flight_segment *segment)
{
	close(segment->fd);
	free(segment->index);
	ws_bytes_free(&segment->sums);
}

void ws_flight_free(struct ws_writer *writer)
{
	struct ws_flight *flight = writer->flight;

	if (!flight)
		return;
	for (size_t i = 0; i < flight->count; i++)
		free_segment(&flight->segments[i]);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		ws_bytes_free(&flight->rows[t]);
	ws_bytes_free(&flight->lengths);
	ws_bytes_free(&flight->text);
	ws_bytes_free(&flight->passing_text);
	ws_intern_free(&flight->passing);
	free(flight->passing_lengths);
	free(flight->segments);
	free(flight->runs);
	free(flight->chunks);
	free(flight);
	writer->flight = NULL;
}

/* End the present segment with the content of its file; the next one is written into `fd`. */
static void start_next_segment(struct ws_writer *writer, int fd)
{
	struct ws_flight *flight = writer->flight;

	ws_grow(flight->segments, flight->cap, flight->count + 1);
	flight->segments[flight->count++] = (struct ws_flight_segment){
		.fd = writer->fd,
		.index = writer->index,
		.blocks = writer->blocks,
		.index_cap = writer->index_cap,
		.bytes = writer->end,
		.begun = flight->begun,
		.ended = ws_read_raw_ns(),
		.sums = writer->overview.pending,
		.summaries = writer->overview.summaries,
	};
	writer->overview.pending = (struct ws_bytes){0};
	writer->overview.summaries = 0;
	begin_segment(writer, fd);
}

int ws_flight_leave_file(struct ws_writer *writer)
{
	int fd = open_file();

	if (fd < 0)
		return -1;
	start_next_segment(writer, fd);
	return 0;
}

void ws_flight_close_segment(struct ws_writer *writer)
{
	int fd = open_file();

	if (fd < 0) /* no descriptors or no memory just now: the segment goes on */
		return;
	ws_writer_flush(writer);
	flush_passing(writer);
	start_next_segment(writer, fd);
}

/* ---- dropping segments ---- */

static bool is_text(enum ws_table table, uint32_t column)
{
	return ws_tables[table].columns[column].type == WS_T_STR;
}

static void hold_column(struct ws_writer *writer, enum ws_table table, uint32_t column)
{
	const struct ws_bytes *rows = &writer->flight->rows[table];
	size_t size = ws_tables[table].row_size, offset = ws_tables[table].columns[column].offset;

	for (size_t at = 0; at < rows->len; at += size) {
		uint32_t id;

		memcpy(&id, rows->bytes + at + offset, sizeof(id));
		ws_writer_hold_string(writer, id);
	}
}

/* Mark the chunks of passing strings that rows of later segments may refer to. */
static void hold_strings(struct ws_writer *writer)
{
	struct ws_flight *flight = writer->flight;

	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		for (uint32_t c = 0; flight->rows[t].len && c < ws_tables[t].column_count; c++)
			if (is_text((enum ws_table)t, c))
				hold_column(writer, (enum ws_table)t, c);
	if (flight->opts.hold)
		flight->opts.hold(flight->opts.ctx);
}

static void release_strings(struct ws_flight *flight)
{
	for (size_t i = 0; i < flight->chunk_count; i++)
		if (flight->chunks[i] == WS_CHUNK_HELD)
			flight->chunks[i] = WS_CHUNK_PASSING;
}

/* Append a block of the segment being dropped to the segment after it. */
static int carry_block(struct ws_writer *writer, const struct ws_flight_segment *from,
		       const struct ws_index_entry *entry)
{
	struct ws_flight_segment *to = &writer->flight->segments[1];
	size_t size = WS_ALIGN_UP(sizeof(struct ws_block_header) + entry->head.body_bytes,
				  WS_BLOCK_ALIGN);
	struct ws_bytes *block = &writer->encoder.out;

	block->len = 0;
	if (ws_pread_all(from->fd, ws_bytes_reserve(block, size), size, entry->offset) ||
	    ws_pwrite_all(to->fd, block->bytes, size, to->bytes))
		return -1;
	ws_grow(to->index, to->index_cap, to->blocks + 1);
	to->index[to->blocks++] = (struct ws_index_entry){.offset = to->bytes, .head = entry->head};
	to->bytes += size;
	return 0;
}

static void drop_strings(struct ws_writer *writer, const struct ws_flight_segment *segment)
{
	struct ws_flight *flight = writer->flight;

	for (size_t i = 0; i < segment->blocks; i++) {
		const struct ws_index_entry *entry = &segment->index[i];
		uint8_t *chunk;

		if (entry->head.type != WS_BLOCK_STRINGS)
			continue;
		chunk = &flight->chunks[get_chunk(entry->head.first)];
		if (*chunk != WS_CHUNK_HELD || carry_block(writer, segment, entry))
			*chunk = WS_CHUNK_FREE;
	}
}

/* There are two segments at least. */
static void drop_oldest(struct ws_writer *writer)
{
	struct ws_flight *flight = writer->flight;

	hold_strings(writer);
	drop_strings(writer, &flight->segments[0]);
	release_strings(flight);
	free_segment(&flight->segments[0]);
	flight->count--;
	memmove(flight->segments, flight->segments + 1,
		flight->count * sizeof(flight->segments[0]));
	ws_flight_compact(flight, flight->segments[0].begun);
}

static uint64_t round_up(uint64_t bytes)
{
	return WS_ALIGN_UP(bytes, PAGE);
}

static uint64_t count_lasting_bytes(const struct ws_flight *flight)
{
	uint64_t bytes = flight->lengths.cap + flight->text.cap +
			 flight->run_cap * sizeof(flight->runs[0]) + flight->chunk_cap;

	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		bytes += flight->rows[t].cap;
	return bytes;
}

static uint64_t count_bytes(const struct ws_writer *writer)
{
	const struct ws_flight *flight = writer->flight;
	uint64_t bytes = count_lasting_bytes(flight) + flight->passing_text.cap;

	for (size_t i = 0; i < flight->count; i++) {
		const struct ws_flight_segment *segment = &flight->segments[i];

		bytes += round_up(segment->bytes) + segment->sums.cap +
			 segment->index_cap * sizeof(segment->index[0]);
	}
	return bytes + round_up(writer->end) + writer->overview.pending.cap +
	       writer->index_cap * sizeof(writer->index[0]);
}

void ws_flight_commit(struct ws_writer *writer)
{
	struct ws_flight *flight = writer->flight;
	uint64_t now = ws_read_raw_ns();

	for (uint32_t t = 0; flight->watch.rows && t < WS_TABLE_COUNT; t++)
		ws_flight_show_rows(writer, (enum ws_table)t, false);
	if (now - flight->begun >= flight->opts.keep_ns / TIME_PARTS ||
	    writer->end >= flight->opts.keep_bytes / MEMORY_PARTS)
		ws_flight_close_segment(writer);
	while (flight->count > 1 && (flight->segments[0].ended + flight->opts.keep_ns < now ||
				     count_bytes(writer) > flight->opts.keep_bytes))
		drop_oldest(writer);
}

struct ws_flight_state ws_writer_flight_state(const struct ws_writer *writer)
{
	const struct ws_flight *flight = writer->flight;
	struct ws_flight_state state = {0};

	if (!flight)
		return state;
	state.bytes = count_bytes(writer);
	state.lasting_bytes = count_lasting_bytes(flight);
	state.from = flight->count ? flight->segments[0].begun : flight->begun;
	return state;
}
