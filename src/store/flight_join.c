/* flight_join.c - a report of the data that a flight recorder keeps: unchanged blocks of its
 * segments with new numbers, and the lasting rows. See ws_writer_leave_flight in store.h. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/sort.h"
#include "store/file.h"
#include "store/flight.h"

/* ---- strings ---- */

/* Strings with ids one after the other: lasting ones, or a block of passing ones. */
struct piece {
	uint64_t first, count;
	const struct ws_flight_run *run;
	const struct ws_flight_segment *segment;
	const struct ws_index_entry *entry;
};

struct pieces {
	struct piece *piece;
	size_t count, cap;
};

static void add_piece(struct pieces *pieces, struct piece piece)
{
	ws_grow(pieces->piece, pieces->cap, pieces->count + 1);
	pieces->piece[pieces->count++] = piece;
}

static int compare_pieces(const void *a, const void *b)
{
	return ws_compare(((const struct piece *)a)->first, ((const struct piece *)b)->first);
}

static void find_pieces(const struct ws_flight *flight, struct pieces *pieces)
{
	for (size_t i = 0; i < flight->run_count; i++)
		add_piece(pieces, (struct piece){.first = flight->runs[i].first,
						 .count = flight->runs[i].count,
						 .run = &flight->runs[i]});
	for (size_t i = 0; i < flight->count; i++) {
		const struct ws_flight_segment *segment = &flight->segments[i];

		for (size_t k = 0; k < segment->blocks; k++)
			if (segment->index[k].head.type == WS_BLOCK_STRINGS)
				add_piece(pieces,
					  (struct piece){.first = segment->index[k].head.first,
							 .count = segment->index[k].head.rows,
							 .segment = segment,
							 .entry = &segment->index[k]});
	}
	if (pieces->count)
		qsort(pieces->piece, pieces->count, sizeof(struct piece), compare_pieces);
}

/* Fill ids that nothing uses: readers expect ids to count up. */
static int fill_gap(struct ws_writer *writer, uint64_t first, uint64_t end)
{
	int rc = 0;

	while (first < end && !rc) {
		uint32_t count = (uint32_t)ws_min(end - first, (uint64_t)WS_FLIGHT_CHUNK);
		uint32_t *lengths = ws_calloc(count, sizeof(*lengths));
		struct ws_string_run strings = {
			.first = first, .count = count, .lengths = lengths, .text = ""};

		ws_encode_strings(&writer->encoder, &strings, writer->sequence);
		rc = ws_writer_append_block(writer);
		free(lengths);
		first += count;
	}
	return rc;
}

static int write_run(struct ws_writer *writer, const struct ws_flight *flight,
		     const struct ws_flight_run *run)
{
	const uint32_t *lengths = (const void *)(flight->lengths.bytes + run->length_at);
	const uint8_t *text = flight->text.bytes + run->text_at;
	int rc = 0;

	for (uint32_t done = 0; done < run->count && !rc;) {
		struct ws_string_run strings = {.first = run->first + done,
						.generation = run->generation,
						.lengths = lengths + done,
						.text = text};

		do /* a block of one string may have any length */
			strings.bytes += lengths[done + strings.count++];
		while (done + strings.count < run->count &&
		       strings.bytes + lengths[done + strings.count] <= WS_MAX_TEXT);
		ws_encode_strings(&writer->encoder, &strings, writer->sequence);
		rc = ws_writer_append_block(writer);
		done += strings.count;
		text += strings.bytes;
	}
	return rc;
}

static int write_strings(struct ws_writer *writer, const struct ws_flight *flight)
{
	struct pieces pieces = {0};
	uint64_t next = 1;
	int rc = 0;

	find_pieces(flight, &pieces);
	for (size_t i = 0; i < pieces.count && !rc; i++) {
		const struct piece *piece = &pieces.piece[i];

		rc = fill_gap(writer, next, piece->first);
		if (!rc && piece->run)
			rc = write_run(writer, flight, piece->run);
		else if (!rc)
			rc = ws_writer_copy_block(writer, piece->segment->fd, piece->entry);
		next = piece->first + piece->count;
	}
	free(pieces.piece);
	writer->next_string = next;
	return rc;
}

/* ---- rows ---- */

static int write_lasting(struct ws_writer *writer, const struct ws_flight *flight)
{
	int rc = 0;

	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		size_t size = ws_tables[t].row_size, n = flight->rows[t].len / size;

		for (size_t done = 0; done < n && !rc;) {
			uint32_t part =
				(uint32_t)ws_min(n - done, (size_t)writer->encoder.max_rows);

			rc = ws_writer_write_rows(writer, (enum ws_table)t,
						  flight->rows[t].bytes + done * size, part);
			done += part;
		}
	}
	return rc;
}

/* How many rows of each table have been dropped before those that are kept. */
static void count_dropped(const struct ws_flight *flight, uint64_t dropped[WS_TABLE_COUNT])
{
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		dropped[t] = UINT64_MAX;
	for (size_t i = 0; i < flight->count; i++)
		for (size_t k = 0; k < flight->segments[i].blocks; k++) {
			const struct ws_block_head *head = &flight->segments[i].index[k].head;

			if (head->type == WS_BLOCK_ROWS)
				dropped[head->table] = ws_min(dropped[head->table], head->first);
		}
}

static int write_segment(struct ws_writer *writer, const struct ws_flight_segment *segment)
{
	int rc = 0;

	for (size_t i = 0; i < segment->blocks && !rc; i++)
		if (segment->index[i].head.type == WS_BLOCK_ROWS)
			rc = ws_writer_copy_block(writer, segment->fd, &segment->index[i]);
	return rc;
}

static int write_segments(struct ws_writer *writer, struct ws_flight *flight)
{
	uint64_t dropped[WS_TABLE_COUNT];
	int rc = 0;

	count_dropped(flight, dropped);
	for (size_t i = 0; i < flight->count && !rc; i++) {
		struct ws_flight_segment *segment = &flight->segments[i];

		rc = write_segment(writer, segment);
		ws_overview_renumber(&segment->sums, dropped);
		ws_bytes_add(&writer->overview.pending, segment->sums.bytes, segment->sums.len);
		writer->overview.summaries += segment->summaries;
		ws_writer_flush_overview(writer);
	}
	return rc;
}

/* ---- the whole report ---- */

/* The writer goes on with `fd` as with any report; the caller owns `flight` from now on. */
static struct ws_flight *change_file(struct ws_writer *writer, const char *path, int fd,
				     const struct ws_file_header *header)
{
	struct ws_flight *flight = writer->flight;

	writer->flight = NULL;
	close(writer->fd);
	free(writer->index);
	writer->index = NULL;
	writer->blocks = writer->index_cap = 0;
	memcpy(writer->journal.head->uuid, header->uuid, 16);
	ws_writer_start_file(writer, path, fd);
	return flight;
}

int ws_writer_leave_flight(struct ws_writer *writer, const char *path,
			   const struct ws_writer_opts *opts, struct ws_err *err)
{
	struct ws_writer holder = {0};
	struct ws_file_header header;
	int fd;

	ws_writer_make_header(&header);
	fd = ws_file_create(path, opts && opts->overwrite, &header, sizeof(header), err);
	if (fd < 0)
		return -1;
	if (ws_flight_leave_file(writer)) {
		ws_fail_errno(err, "cannot write %s", path);
		close(fd);
		unlink(path);
		return -1;
	}
	ws_flight_close_segment(writer);
	holder.flight = change_file(writer, path, fd, &header);
	writer->durable = opts && opts->durable;
	if (!ws_writer_open_segment(writer) && !write_strings(writer, holder.flight) &&
	    !write_segments(writer, holder.flight))
		write_lasting(writer, holder.flight);
	ws_flight_free(&holder);
	ws_writer_list_litter(writer);
	return ws_writer_error(writer, err);
}
