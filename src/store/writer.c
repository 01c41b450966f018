/*
 * writer.c - a report being written; see store.h for what it promises and journal.c for how it
 * survives a kill.
 *
 * Blocks are appended with one pwrite each, and only when a block is complete does anything else
 * (stage, index, journal) move on: the file always ends with whole blocks, plus at most one torn
 * one that readers leave out.
 *
 * Space is allocated ahead of the end, a reserve beyond the next block included. When the disk is
 * full the reserve is what is left: the two wide tables stop there (their rows are counted as
 * lost), while the small tables, which record what happened and what was lost, and the index are
 * still written.
 */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/choose.h"
#include "base/cleanup.h"
#include "base/ticks.h"
#include "store/file.h"
#include "store/flight.h"
#include "store/writer.h"

#define DEFAULT_BLOCK_ROWS 65536u
#define RARE_BLOCK_ROWS 512u
/* Below so much address space (ulimit -v), stages are a part of what they are. */
#define LITTLE_SPACE (256u << 20)
#define LITTLE_PART 16u
#define LITTLE_ROWS 64u
#define DEFAULT_SEGMENT_NS UINT64_C(10000000000)
#define SEGMENT_BYTES (UINT64_C(64) << 20)
#define PENDING_STRINGS (128u << 10)
#define PENDING_TEXT (4u << 20)
#define RESERVE (UINT64_C(256) << 10)
#define PENDING_OVERVIEW (1u << 20)
#define MOST_AHEAD (UINT64_C(64) << 20)

/*
 * Tables with a row for each event say how many rows a recording stages (ws_staged_rows); the
 * others are small and stage RARE_BLOCK_ROWS. The stage of every table has its memory and its place
 * on the disk from the start: tables with large rows, or with seldom many rows, stage fewer, so
 * that a short recording needs little of either. Without a journal, all tables stage as many as a
 * block may have.
 */
static bool is_wide(enum ws_table table)
{
	return ws_staged_rows[table] != 0;
}

/* ---- the file ---- */

static uint64_t index_bytes(const struct ws_writer *writer)
{
	return sizeof(struct ws_block_header) +
	       (writer->blocks + 4) * sizeof(struct ws_index_entry) + sizeof(struct ws_trailer);
}

static int note_failure(struct ws_writer *writer)
{
	if (!writer->failed)
		ws_fail_errno(&writer->error, "cannot write %s", writer->path);
	writer->failed = true;
	return -1;
}

/* Space up to `need`, reserve included; grows ahead of it in ever larger steps. */
static int reserve_space(struct ws_writer *writer, uint64_t need)
{
	uint64_t step;

	if (need <= writer->allocated || !writer->ahead)
		return 0;
	step = need - writer->allocated;
	step = ws_max(step, writer->ahead);
	if (!ws_guarded_fallocate(writer->fd, FALLOC_FL_KEEP_SIZE, writer->allocated, step)) {
		writer->ahead = writer->ahead * 2 < MOST_AHEAD ? writer->ahead * 2 : MOST_AHEAD;
	} else if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) {
		writer->ahead = 0;
		return 0;
	} else {
		step = need - writer->allocated;
		if (ws_guarded_fallocate(writer->fd, FALLOC_FL_KEEP_SIZE, writer->allocated, step))
			return -1;
	}
	writer->allocated += step;
	return 0;
}

static int check_limit(uint64_t need)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    need > limit.rlim_cur) {
		errno = EFBIG;
		return -1;
	}
	return 0;
}

/* Append encoder.out. `keep`: bytes that must remain free after it. On failure the file still ends
 * with its last whole block. */
static int append_bytes(struct ws_writer *writer, uint64_t keep)
{
	uint64_t n = writer->encoder.out.len;

	if (check_limit(writer->end + n + keep) || reserve_space(writer, writer->end + n + keep))
		return -1;
	if (ws_pwrite_all(writer->fd, writer->encoder.out.bytes, n, writer->end)) {
		int saved = errno;

		if (ftruncate(writer->fd, (off_t)writer->end)) {
			/* the torn block stays, and readers leave it out */
		}
		writer->allocated = writer->end;
		errno = saved;
		return -1;
	}
	writer->end += n;
	return 0;
}

/* -1 with errno when there is no room. */
static int try_block(struct ws_writer *writer, bool wide)
{
	uint64_t at = writer->end;

	if (append_bytes(writer, index_bytes(writer) + (wide ? RESERVE : 0)))
		return -1;
	writer->sequence++;
	ws_grow(writer->index, writer->index_cap, writer->blocks + 1);
	writer->index[writer->blocks].offset = at;
	memcpy(&writer->index[writer->blocks].head,
	       writer->encoder.out.bytes + offsetof(struct ws_block_header, head),
	       sizeof(struct ws_block_head));
	writer->blocks++;
	writer->journal.head->report_bytes = writer->end;
	return 0;
}

static int append_block(struct ws_writer *writer, bool wide)
{
	return try_block(writer, wide) ? note_failure(writer) : 0;
}

int ws_writer_append_block(struct ws_writer *writer)
{
	return append_block(writer, false);
}

void ws_writer_mark_lasting(struct ws_writer *writer)
{
	ws_grow(writer->lasting_blocks, writer->lasting_cap, writer->lasting_n + 1);
	writer->lasting_blocks[writer->lasting_n++] = writer->blocks - 1;
}

static uint64_t realtime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int ws_writer_open_segment(struct ws_writer *writer)
{
	struct ws_block_head head = ws_make_block_head(WS_BLOCK_SEGMENT, writer->sequence);
	struct ws_segment_body body = {.fingerprint = writer->journal.head->fingerprint,
				       .raw = ws_read_raw_ns(),
				       .realtime = realtime_ns()};

	if (writer->segment_open)
		return 0;
	writer->segment_start = writer->end;
	writer->segment_opened = body.raw;
	memcpy(body.uuid, writer->journal.head->uuid, 16);
	head.first = writer->segment;
	ws_block_begin(&writer->encoder.out);
	ws_bytes_add(&writer->encoder.out, &body, sizeof(body));
	ws_block_end(&writer->encoder.out, &head);
	if (append_block(writer, false))
		return -1;
	ws_encode_schema(&writer->encoder, writer->sequence);
	if (append_block(writer, false))
		return -1;
	writer->segment++;
	writer->segment_open = true;
	return 0;
}

/* ---- stages ---- */

static void empty_strings(struct ws_writer *writer)
{
	ws_journal_empty_strings(&writer->journal, writer->next_string);
	writer->pending = 0;
	writer->pending_text = 0;
}

static int write_strings(struct ws_writer *writer, bool wide)
{
	struct ws_string_run strings = {.first = writer->next_string - writer->pending,
					.count = writer->pending,
					.generation = writer->generation,
					.bytes = writer->pending_text};

	/* With a full disk this is not tried again for every string: it is a waste of time to
	 * compress strings that cannot be written. */
	if ((wide && writer->failed) || ws_writer_open_segment(writer))
		return -1;
	strings.lengths = ws_journal_lengths(&writer->journal);
	strings.text = ws_journal_text(&writer->journal);
	ws_encode_strings(&writer->encoder, &strings, writer->sequence);
	return append_block(writer, wide);
}

int ws_writer_write_strings(struct ws_writer *writer)
{
	return writer->pending ? write_strings(writer, false) : 0;
}

static int flush_strings(struct ws_writer *writer, bool wide)
{
	if (!writer->pending)
		return 0;
	if (write_strings(writer, wide))
		return -1;
	ws_writer_mark_lasting(writer);
	empty_strings(writer);
	return 0;
}

uint32_t ws_writer_count_staged(const struct ws_writer *writer, enum ws_table table)
{
	return (uint32_t)((size_t)(writer->stage[table].next - writer->base[table]) /
			  writer->stage[table].row_size);
}

static void empty_stage(struct ws_writer *writer, enum ws_table table)
{
	ws_journal_empty_table(&writer->journal, table, writer->written[table]);
	writer->stage[table].next = writer->base[table];
}

int ws_writer_write_rows(struct ws_writer *writer, enum ws_table table, const void *rows,
			 uint32_t count)
{
	bool wide = is_wide(table);

	if ((wide && writer->failed) || flush_strings(writer, wide) ||
	    ws_writer_open_segment(writer))
		return -1;
	ws_encode_rows(&writer->encoder, table, rows, count, writer->written[table],
		       writer->sequence);
	if (append_block(writer, wide))
		return -1;
	ws_overview_add(&writer->overview, table, rows, count, writer->written[table]);
	writer->written[table] += count;
	return 0;
}

/* Write a part of a stage; `lasts`: its rows are carried on into the next report. */
static void write_part(struct ws_writer *writer, enum ws_table table, const char *rows, uint32_t n,
		       bool lasts)
{
	if (!n)
		return;
	if (ws_writer_write_rows(writer, table, rows, n)) {
		writer->lost += n;
		writer->lost_lasting += lasts ? n : 0;
	} else if (lasts) {
		writer->lasting[table] += n;
		ws_writer_mark_lasting(writer);
	}
}

/* Sums can be computed again from the rows, so they are left out if there is no room for them. */
static void flush_overview(struct ws_writer *writer)
{
	if (!writer->failed &&
	    ws_overview_encode(&writer->overview, &writer->encoder, writer->sequence))
		try_block(writer, true);
}

void ws_writer_flush_overview(struct ws_writer *writer)
{
	if (writer->overview.pending.len > PENDING_OVERVIEW)
		flush_overview(writer);
}

static void flush_flight_stage(struct ws_writer *writer, enum ws_table table, uint32_t n)
{
	ws_flight_show_rows(writer, table, true);
	if (ws_lasting_tables[table])
		ws_flight_keep_rows(writer, table, writer->base[table], n);
	else
		write_part(writer, table, writer->base[table], n, false);
	empty_stage(writer, table);
}

static void flush_stage(struct ws_writer *writer, enum ws_table table)
{
	uint32_t n = ws_writer_count_staged(writer, table), lasting = 0;

	if (!n)
		return;
	if (writer->flight) {
		flush_flight_stage(writer, table, n);
		return;
	}
	if (ws_lasting_tables[table])
		lasting = writer->has_own ? writer->staged_before[table] : n;
	write_part(writer, table, writer->base[table], lasting, true);
	write_part(writer, table,
		   writer->base[table] + (size_t)lasting * writer->stage[table].row_size,
		   n - lasting, false);
	writer->staged_before[table] = 0;
	empty_stage(writer, table);
	ws_writer_flush_overview(writer);
}

static void flush_all(struct ws_writer *writer)
{
	/* Small tables last: after a failure of the wide ones they have the reserve. */
	for (int small = 0; small < 2; small++)
		for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
			if (is_wide((enum ws_table)t) != (bool)small)
				flush_stage(writer, (enum ws_table)t);
}

/* ---- the interface ---- */

static void choose_sizes(struct ws_journal_sizes *sizes, const struct ws_writer_opts *options)
{
	uint32_t rows = options && options->block_rows ? options->block_rows : DEFAULT_BLOCK_ROWS;
	bool bulk = options && options->no_journal;
	bool little = !bulk && ws_address_space() < LITTLE_SPACE;

	if (rows > WS_MAX_BLOCK_ROWS)
		rows = WS_MAX_BLOCK_ROWS;
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		uint32_t most = ws_staged_rows[t];

		if (!most)
			most = RARE_BLOCK_ROWS;
		else if (bulk)
			most = rows;
		sizes->rows[t] = ws_min(rows, most);
		if (little)
			sizes->rows[t] = ws_max(sizes->rows[t] / LITTLE_PART, LITTLE_ROWS);
	}
	sizes->strings = PENDING_STRINGS;
	sizes->text = PENDING_TEXT;
}

static void make_uuid(uint8_t uuid[16])
{
	uint64_t fallback[2] = {ws_read_raw_ns(), realtime_ns() ^ (uint64_t)getpid() << 40};

	if (getrandom(uuid, 16, GRND_NONBLOCK) != 16)
		memcpy(uuid, fallback, 16);
}

void ws_writer_make_header(struct ws_file_header *header)
{
	*header = (struct ws_file_header){.major = WS_FORMAT_MAJOR,
					  .minor = WS_FORMAT_MINOR,
					  .bytes = sizeof(*header),
					  .created = realtime_ns(),
					  .fingerprint = ws_hash_schema()};
	memcpy(header->magic, WS_FILE_MAGIC, 8);
	make_uuid(header->uuid);
	header->check = XXH3_64bits(header, offsetof(struct ws_file_header, check));
}

static void make_stages(struct ws_writer *writer, const struct ws_writer_opts *opts,
			const uint8_t uuid[16])
{
	struct ws_journal_sizes sizes;
	char *path = NULL;
	uint32_t most = 0;

	if (!writer->unnamed && !(opts && opts->no_journal))
		path = ws_journal_path(writer->path);

	if (path)
		writer->litter[1] = ws_cleanup_add_output(path);
	choose_sizes(&sizes, opts);
	ws_journal_create(&writer->journal, path, uuid, &sizes);
	free(path);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		char *at = ws_journal_rows(&writer->journal, (enum ws_table)t);

		writer->base[t] = at;
		writer->stage[t] =
			(struct ws_stage){at, at + (size_t)sizes.rows[t] * ws_tables[t].row_size,
					  ws_tables[t].row_size};
		most = ws_max(sizes.rows[t], most);
	}
	ws_encoder_init(&writer->encoder, most);
	writer->next_string = 1;
	writer->journal.head->string_first = 1;
}

void ws_writer_list_litter(struct ws_writer *writer)
{
	if (!writer->unnamed)
		writer->litter[0] = ws_cleanup_add_output(writer->path);
	if (writer->journal.path)
		writer->litter[1] = ws_cleanup_add_output(writer->journal.path);
}

void ws_writer_forget_litter(struct ws_writer *writer)
{
	for (int i = 0; i < 2; i++) {
		ws_cleanup_forget(writer->litter[i]);
		writer->litter[i] = -1;
	}
}

static void free_writer(struct ws_writer *writer)
{
	ws_writer_forget_litter(writer);
	ws_flight_free(writer);
	close(writer->fd);
	if (writer->replaces)
		close(writer->replaces_fd);
	free(writer->replaces);
	ws_journal_remove(&writer->journal);
	ws_encoder_free(&writer->encoder);
	ws_overview_free(&writer->overview);
	ws_intern_free(&writer->intern);
	free(writer->index);
	free(writer->lasting_blocks);
	free(writer->path);
	free(writer);
}

static const char *get_folder(const struct ws_writer_opts *opts)
{
	return opts && opts->folder ? opts->folder : ".";
}

static int create_unnamed(const struct ws_writer_opts *opts, const struct ws_file_header *header,
			  struct ws_err *err)
{
	int fd = ws_writer_create_unnamed(get_folder(opts), header);

	if (fd < 0)
		ws_fail_errno(err, "cannot create a temporary file in %s", get_folder(opts));
	return fd;
}

struct ws_writer *ws_writer_create(const char *path, const struct ws_writer_opts *opts,
				   struct ws_err *err)
{
	struct ws_file_header header;
	struct ws_writer *writer;
	int fd;

	ws_writer_make_header(&header);
	if (path)
		fd = ws_file_create(path, opts && opts->overwrite, &header, sizeof(header), err);
	else
		fd = create_unnamed(opts, &header, err);
	if (fd < 0)
		return NULL;
	writer = ws_calloc(1, sizeof(*writer));
	writer->litter[0] = writer->litter[1] = -1;
	writer->fd = fd;
	writer->unnamed = !path;
	if (path)
		writer->path = ws_strdup(path);
	else
		writer->path = ws_format("%s/a report", get_folder(opts));
	if (path)
		writer->litter[0] = ws_cleanup_add_output(path);
	writer->end = writer->allocated = sizeof(header);
	writer->ahead = WS_WRITER_FIRST_AHEAD;
	writer->durable = opts && opts->durable;
	writer->segment_ns = opts && opts->segment_ns ? opts->segment_ns : DEFAULT_SEGMENT_NS;
	make_stages(writer, opts, header.uuid);
	writer->journal.head->report_bytes = writer->end;
	if (ws_writer_open_segment(writer)) {
		*err = writer->error;
		ws_writer_discard(writer);
		return NULL;
	}
	if (opts && opts->flight)
		ws_flight_begin(writer, opts->flight);
	return writer;
}

/* A string that is too long for the stage gets a block of its own. The part that does not even fit
 * a block is cut off and counted. */
static uint32_t add_long_string(struct ws_writer *writer, const void *bytes, size_t len)
{
	uint32_t length = (uint32_t)(ws_min(len, WS_MAX_TEXT));
	struct ws_string_run string = {.generation = writer->generation,
				       .count = 1,
				       .lengths = &length,
				       .text = bytes,
				       .bytes = length};

	writer->lost += len > WS_MAX_TEXT;
	if (flush_strings(writer, true) || ws_writer_open_segment(writer))
		return 0;
	string.first = writer->next_string;
	ws_encode_strings(&writer->encoder, &string, writer->sequence);
	if (append_block(writer, false))
		return 0;
	ws_writer_mark_lasting(writer);
	writer->next_string++;
	empty_strings(writer);
	return (uint32_t)(writer->next_string - 1);
}

static uint32_t add_string(struct ws_writer *writer, const void *bytes, size_t len)
{
	if (writer->flight)
		return ws_flight_add_string(writer, bytes, len);
	if (writer->next_string > UINT32_MAX)
		return 0;
	if (len > PENDING_TEXT)
		return add_long_string(writer, bytes, len);
	if ((writer->pending == PENDING_STRINGS || writer->pending_text + len > PENDING_TEXT) &&
	    flush_strings(writer, true))
		return 0;
	ws_journal_lengths(&writer->journal)[writer->pending++] = (uint32_t)len;
	if (len)
		memcpy(ws_journal_text(&writer->journal) + writer->pending_text, bytes, len);
	writer->pending_text += len;
	return (uint32_t)writer->next_string++;
}

uint32_t ws_writer_string(struct ws_writer *writer, const void *bytes, size_t len)
{
	uint64_t hash;
	uint32_t id;

	if (len > WS_INTERN_LONGEST)
		return add_string(writer, bytes, len);
	hash = ws_intern_hash(bytes, len);
	id = ws_intern_find(&writer->intern, hash, bytes, len);
	if (id)
		return id;
	if (ws_intern_is_full(&writer->intern, len)) {
		if (flush_strings(writer, true))
			return 0;
		ws_intern_clear(&writer->intern);
		writer->generation++;
	}
	id = add_string(writer, bytes, len);
	if (id) /* otherwise the disk is full: the row that needs the string is counted when it
		   finds no room itself */
		ws_intern_add(&writer->intern, hash, bytes, len, id);
	return id;
}

void ws_writer_string_from(struct ws_writer *writer, uint32_t id)
{
	while (writer->next_string < id && add_string(writer, "", 0))
		;
}

struct ws_stage *ws_writer_stage(struct ws_writer *writer, enum ws_table table)
{
	return &writer->stage[table];
}

void *ws_writer_row_slow(struct ws_writer *writer, enum ws_table table)
{
	char *at;

	flush_stage(writer, table);
	at = writer->stage[table].next;
	writer->stage[table].next += writer->stage[table].row_size;
	return at;
}

void ws_writer_add(struct ws_writer *writer, enum ws_table table, const void *row)
{
	memcpy(ws_writer_row(writer, table, &writer->stage[table]), row, ws_tables[table].row_size);
}

void ws_writer_commit(struct ws_writer *writer)
{
	struct ws_journal_head *head = writer->journal.head;

	if (writer->flight) {
		ws_flight_commit(writer);
		return;
	}
	if (writer->end - writer->segment_start > SEGMENT_BYTES ||
	    ws_read_raw_ns() - writer->segment_opened > writer->segment_ns) {
		flush_all(writer);
		flush_overview(writer);
		writer->segment_open = false; /* the next block opens one */
		writer->segment_start = writer->end;
		writer->segment_opened = ws_read_raw_ns();
	}
	ws_journal_save_emptied(&writer->journal);
	head->text_bytes = writer->pending_text;
	head->strings = writer->pending;
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		head->table[t].bytes = (uint64_t)(writer->stage[t].next - writer->base[t]);
	ws_journal_save(&writer->journal);
}

int ws_writer_error(struct ws_writer *writer, struct ws_err *err)
{
	if (writer->failed && err)
		*err = writer->error;
	return writer->failed ? -1 : 0;
}

bool ws_writer_journaled(const struct ws_writer *writer)
{
	return writer->journal.is_file;
}

uint64_t ws_writer_lost(struct ws_writer *writer)
{
	return writer->lost;
}

const char *ws_writer_path(struct ws_writer *writer)
{
	return writer->path;
}

static int write_index(struct ws_writer *writer)
{
	uint64_t rows = 0;

	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		rows += writer->written[t];
	ws_encode_index(&writer->encoder.out, writer->index, writer->blocks, writer->end, rows,
			writer->sequence);
	return append_bytes(writer, 0) ? note_failure(writer) : 0;
}

void ws_writer_flush(struct ws_writer *writer)
{
	flush_all(writer);
	flush_strings(writer, false);
}

const void *ws_writer_staged_rows(const struct ws_writer *writer, enum ws_table table,
				  uint32_t *count)
{
	*count = ws_writer_count_staged(writer, table);
	return writer->base[table];
}

void ws_writer_forget_staged(struct ws_writer *writer)
{
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		if (!ws_lasting_tables[t]) {
			empty_stage(writer, (enum ws_table)t);
			writer->flight->watched[t] = 0;
		}
}

/* The file, and its name in the folder. */
static void sync_file(struct ws_writer *writer)
{
	char *folder = ws_strdup(writer->path);
	int fd = open(dirname(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fdatasync(writer->fd))
		note_failure(writer);
	if (fd >= 0) {
		fsync(fd); /* if that is refused, the rows are still in the file */
		close(fd);
	}
	free(folder);
}

void ws_writer_sync(struct ws_writer *writer)
{
	uint64_t end = writer->end;

	if (writer->unnamed)
		return;
	ws_writer_flush(writer);
	if (writer->end != end)
		sync_file(writer);
}

/* ---- adding to a report ---- */

/* All numbering continues where the report ended. */
static void continue_report(struct ws_writer *writer, const struct ws_report *report, uint64_t end)
{
	writer->end = writer->allocated = end;
	for (size_t i = 0; i < report->all.count; i++) {
		const struct ws_block_head *head = &report->all.blocks[i].head;

		ws_grow(writer->index, writer->index_cap, writer->blocks + 1);
		writer->index[writer->blocks++] = (struct ws_index_entry){
			.offset = report->all.blocks[i].offset, .head = *head};
		writer->sequence =
			head->sequence >= writer->sequence ? head->sequence + 1 : writer->sequence;
		if (head->type == WS_BLOCK_SEGMENT && head->first >= writer->segment)
			writer->segment = head->first + 1;
		if (head->type == WS_BLOCK_STRINGS && head->table >= writer->generation)
			writer->generation = head->table + 1;
		if (head->type == WS_BLOCK_STRINGS &&
		    head->first + head->rows > writer->next_string)
			writer->next_string = head->first + head->rows;
	}
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		const struct ws_block_list *block_list = &report->table[t];

		writer->written[t] =
			block_list->count
				? block_list->blocks[block_list->count - 1].head.first +
					  block_list->blocks[block_list->count - 1].head.rows
				: 0;
		writer->journal.head->table[t].first = writer->written[t];
	}
	writer->journal.head->string_first = writer->next_string;
}

static struct ws_writer *append_to(const struct ws_report *report, const char *path, int lock,
				   struct ws_err *err)
{
	struct ws_writer_opts opts = {.no_journal = true};
	struct ws_writer *writer;
	uint64_t end;
	char *temp = ws_format("%s.%d.added.tmp", path, (int)getpid());
	int litter = ws_cleanup_add_output(temp),
	    fd = ws_report_copy_blocks(report, temp, &end, err);

	if (fd < 0) {
		ws_cleanup_forget(litter);
		free(temp);
		return NULL;
	}
	writer = ws_calloc(1, sizeof(*writer));
	writer->fd = fd;
	writer->litter[0] = litter;
	writer->litter[1] = -1;
	writer->path = temp;
	writer->replaces = ws_strdup(path);
	writer->replaces_fd = lock;
	writer->ahead = WS_WRITER_FIRST_AHEAD;
	writer->segment_ns = UINT64_MAX;
	make_stages(writer, &opts, report->header.uuid);
	continue_report(writer, report, end);
	return writer;
}

struct ws_writer *ws_writer_append(const char *path, struct ws_err *err)
{
	struct ws_writer *writer = NULL;
	struct ws_report *report = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), locked;

	if (fd < 0) {
		ws_fail_errno(err, "cannot open %s", path);
		return NULL;
	}
	locked = ws_lock_file(fd);
	if (locked < 0)
		ws_fail_errno(err, "cannot lock %s", path);
	else if (!locked)
		ws_fail(err, "%s is being written: nothing can be added before that ends", path);
	else if ((report = ws_report_open(path, err)))
		writer = append_to(report, path, fd, err);
	ws_report_close(report);
	if (!writer)
		close(fd);
	return writer;
}

/* The copy is complete and on the disk before it takes the report's name, so that a whole report
 * always exists under that name. */
static int replace_report(struct ws_writer *writer, struct ws_err *err)
{
	if (fsync(writer->fd) || rename(writer->path, writer->replaces))
		return ws_fail_errno(err, "cannot replace %s", writer->replaces);
	return 0;
}

void ws_writer_finish_file(struct ws_writer *writer)
{
	flush_overview(writer);
	write_index(writer);
	if (ftruncate(writer->fd, (off_t)writer->end) &&
	    !writer->failed) /* gives back what was allocated ahead */
		note_failure(writer);
	if (writer->durable)
		sync_file(writer);
}

int ws_writer_close(struct ws_writer *writer, struct ws_err *err)
{
	int rc;

	if (writer->unnamed) {
		free_writer(writer);
		return 0;
	}
	ws_writer_flush(writer);
	ws_writer_finish_file(writer);
	rc = ws_writer_error(writer, err);
	if (writer->replaces && (rc || (rc = replace_report(writer, err))))
		unlink(writer->path);
	free_writer(writer);
	return rc;
}

void ws_writer_discard(struct ws_writer *writer)
{
	if (!writer->unnamed)
		unlink(writer->path);
	free_writer(writer);
}
