/*
 * continue.c - several reports by one writer; see ws_writer_continue in store.h.
 *
 * The data that later rows may refer to is carried from report to report: the dictionary, and the
 * rows of lasting tables (ws_lasting_tables). Blocks are copied as they are, with new numbers in
 * their headers; nothing is decoded. Staged rows are written into the ending report and also stay
 * staged for the next one, so that short reports do not leave many small blocks.
 *
 * Between two reports a writer has an unnamed file, which disappears with the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "store/file.h"
#include "store/writer.h"

/* ---- the end of a report ---- */

static uint32_t count_lasting(const struct ws_writer *writer, enum ws_table table)
{
	if (!ws_lasting_tables[table])
		return 0;
	return writer->has_own ? writer->staged_before[table]
			       : ws_writer_count_staged(writer, table);
}

static void write_stage(struct ws_writer *writer, enum ws_table table)
{
	uint32_t n = ws_writer_count_staged(writer, table);

	if (n && ws_writer_write_rows(writer, table, writer->base[table], n))
		writer->lost += n;
}

static void write_stages(struct ws_writer *writer)
{
	uint32_t pending = writer->pending;

	ws_writer_write_strings(writer);
	writer->pending = 0; /* written already */
	for (int small = 0; small < 2; small++)
		for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
			if (!ws_staged_rows[t] == (bool)small)
				write_stage(writer, (enum ws_table)t);
	writer->pending = pending;
}

/* Keep the staged rows that belong to the next report too. */
static void keep_lasting_rows(struct ws_writer *writer)
{
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		writer->stage[t].next =
			writer->base[t] +
			(size_t)count_lasting(writer, (enum ws_table)t) * writer->stage[t].row_size;
	writer->has_own = false;
}

static int end_report(struct ws_writer *writer, struct ws_err *err)
{
	write_stages(writer);
	ws_writer_finish_file(writer);
	return ws_writer_error(writer, err);
}

/* ---- the next one ---- */

/* The part of a file that is carried on into the next report: `fd` stays open until all is
 * copied. */
struct source {
	int fd;
	struct ws_index_entry *index;
	size_t *blocks, count; /* numbers in `index` */
};

static bool goes_on(const struct ws_block_head *head)
{
	return head->type == WS_BLOCK_STRINGS || head->type == WS_BLOCK_ROWS;
}

/* From a report, the lasting blocks are carried on; from a file without a name, which begins the
 * next report, all are. */
static struct source take_source(struct ws_writer *writer)
{
	struct source source = {writer->fd, writer->index, writer->lasting_blocks,
				writer->lasting_n};

	if (writer->unnamed) {
		source.count = 0;
		source.blocks = ws_malloc((writer->blocks + 1) * sizeof(*source.blocks));
		for (size_t i = 0; i < writer->blocks; i++)
			if (goes_on(&writer->index[i].head))
				source.blocks[source.count++] = i;
		free(writer->lasting_blocks);
	}
	writer->index = NULL;
	writer->lasting_blocks = NULL;
	writer->blocks = writer->index_cap = writer->lasting_n = writer->lasting_cap = 0;
	return source;
}

static void free_source(struct source *source)
{
	close(source->fd);
	free(source->index);
	free(source->blocks);
}

/* Read a block into encoder.out and renumber it; -1 when it differs from what was written. */
static int renumber_block(struct ws_writer *writer, int fd, const struct ws_index_entry *entry)
{
	struct ws_bytes *out = &writer->encoder.out;
	struct ws_block_head head = entry->head;
	const struct ws_block_header *made;

	ws_block_begin(out);
	if (ws_pread_all(fd, ws_bytes_reserve(out, head.body_bytes), head.body_bytes,
			 entry->offset + sizeof(struct ws_block_header)))
		return -1;
	out->len += head.body_bytes;
	head.sequence = writer->sequence;
	if (head.type == WS_BLOCK_ROWS)
		head.first = writer->written[head.table];
	ws_block_end(out, &head);
	made = (const void *)out->bytes;
	return made->head.body_check == entry->head.body_check ? 0 : -1;
}

/* A block that has been damaged meanwhile is left out; what rows refer to in it is then unknown. */
int ws_writer_copy_block(struct ws_writer *writer, int fd, const struct ws_index_entry *entry)
{
	uint32_t table = entry->head.table, rows = entry->head.rows;
	bool has_rows = entry->head.type == WS_BLOCK_ROWS;

	if (renumber_block(writer, fd, entry)) {
		writer->lost += rows;
		writer->lost_lasting += rows;
		return 0;
	}
	if (ws_writer_append_block(writer))
		return -1;
	if (has_rows)
		writer->written[table] += rows;
	/* in blocks of strings, `table` is the generation */
	if (!has_rows || ws_lasting_tables[table])
		ws_writer_mark_lasting(writer);
	if (has_rows && ws_lasting_tables[table])
		writer->lasting[table] += rows;
	return 0;
}

static void copy_blocks(struct ws_writer *writer, const struct source *source)
{
	for (size_t i = 0; i < source->count; i++) {
		const struct ws_index_entry *entry = &source->index[source->blocks[i]];

		if (ws_writer_copy_block(writer, source->fd, entry))
			break;
	}
}

int ws_writer_create_unnamed(const char *folder, const struct ws_file_header *header)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		fd = memfd_create("warpsight-report", MFD_CLOEXEC);
	if (fd >= 0 && ws_pwrite_all(fd, header, sizeof(*header), 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* The folder of the current report, or of the previous one. */
static char *get_folder(const char *path)
{
	char *copy = ws_strdup(path), *folder = ws_strdup(dirname(copy));

	free(copy);
	return folder;
}

/* While there is no report, the journal keeps its space under a name that no reader looks for. */
static char *name_hidden_journal(const char *folder)
{
	static unsigned count;

	return ws_format("%s/.warpsight-%d-%u.journal", folder, (int)getpid(),
			 __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED));
}

void ws_writer_start_file(struct ws_writer *writer, const char *path, int fd)
{
	char *old = writer->path;

	writer->unnamed = !path;
	/* For an unnamed file: the path of the previous report, to find its folder. */
	writer->path = ws_strdup(path ? path : old);
	free(old);
	writer->fd = fd;
	writer->end = writer->allocated = sizeof(struct ws_file_header);
	writer->ahead = WS_WRITER_FIRST_AHEAD;
	writer->sequence = writer->segment = 0;
	writer->segment_open = false;
	writer->failed = false;
	writer->error = (struct ws_err){""};
	writer->lost = writer->lost_lasting;
	writer->overview.pending.len = 0;
	writer->overview.summaries = 0;
	memset(writer->written, 0, sizeof(writer->written));
	memset(writer->lasting, 0, sizeof(writer->lasting));
}

/* The journal begins anew: what is staged is saved by the next commit. */
static void restart_journal(struct ws_writer *writer, const uint8_t uuid[16])
{
	char *folder = get_folder(writer->path);
	char *path = writer->unnamed ? name_hidden_journal(folder) : ws_journal_path(writer->path);

	ws_writer_forget_litter(writer);
	ws_journal_restart(&writer->journal, path, uuid, writer->written,
			   writer->next_string - writer->pending);
	writer->journal.head->report_bytes = writer->end;
	ws_writer_list_litter(writer);
	free(path);
	free(folder);
}

/* Continue in the file `fd`, which already has its header. */
static int fill_file(struct ws_writer *writer, const struct source *source, const char *path,
		     int fd, const struct ws_file_header *header)
{
	ws_writer_start_file(writer, path, fd);
	memcpy(writer->journal.head->uuid, header->uuid, 16);
	if (!ws_writer_open_segment(writer))
		copy_blocks(writer, source);
	restart_journal(writer, header->uuid);
	ws_writer_commit(writer);
	return ws_writer_error(writer, NULL);
}

static int begin_report(struct ws_writer *writer, const char *path,
			const struct ws_writer_opts *opts, struct ws_err *err)
{
	struct source source = take_source(writer);
	struct ws_file_header header;
	char *folder = get_folder(writer->path);
	int fd = -1, rc = 0;

	ws_writer_make_header(&header);
	if (path)
		fd = ws_file_create(path, opts && opts->overwrite, &header, sizeof(header), err);
	if (fd < 0) {
		rc = path ? -1 : 0;
		path = NULL;
		fd = ws_writer_create_unnamed(folder, &header);
	}
	free(folder);
	/* Without any file, writes fail and are counted as lost; the next report tries again. */
	if (fill_file(writer, &source, path, fd, &header) && !rc)
		rc = ws_writer_error(writer, err);
	free_source(&source);
	return rc;
}

int ws_writer_continue(struct ws_writer *writer, const char *path,
		       const struct ws_writer_opts *opts, struct ws_err *err)
{
	struct ws_err ignored, *second = err ? err : &ignored;
	int rc = 0;

	if (!writer->unnamed) {
		rc = end_report(writer, err);
		flock(writer->fd, LOCK_UN);
		keep_lasting_rows(writer);
		if (rc)
			second = &ignored; /* the first failure is the one to report */
	}
	return begin_report(writer, path, opts, second) || rc ? -1 : 0;
}

void ws_writer_abandon(struct ws_writer *writer)
{
	struct ws_err err;

	if (!writer->unnamed)
		unlink(writer->path);
	keep_lasting_rows(writer);
	begin_report(writer, NULL, NULL, &err);
}

bool ws_writer_is_unnamed(const struct ws_writer *writer)
{
	return writer->unnamed;
}

void ws_writer_begin_own(struct ws_writer *writer)
{
	if (writer->has_own || writer->unnamed)
		return;
	writer->has_own = true;
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		writer->staged_before[t] = ws_writer_count_staged(writer, (enum ws_table)t);
}
