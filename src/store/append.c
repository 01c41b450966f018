/*
 * append.c - the copy of a report to which rows are added; see ws_writer_append in store.h.
 *
 * Rows are added to a copy, not in place: until the index has been written again behind what was
 * added, a file looks like one that a crash left open. Where the file system can share blocks
 * between files (copy_file_range), the copy costs nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "store/file.h"
#include "store/report.h"

enum { PIECE_BYTES = 1 << 20 };

static int copy_by_buffer(int from, int to, uint64_t at, uint64_t end)
{
	char *buffer = ws_malloc(PIECE_BYTES);
	int rc = 0;

	while (!rc && at < end) {
		size_t size = ws_min(end - at, (uint64_t)PIECE_BYTES);

		rc = ws_pread_all(from, buffer, size, at);
		if (!rc)
			rc = ws_pwrite_all(to, buffer, size, at);
		at += size;
	}
	free(buffer);
	return rc;
}

static int copy_file_part(int from, int to, uint64_t at, uint64_t end)
{
	while (at < end) {
		off64_t in = (off64_t)at, out = (off64_t)at;
		ssize_t copied = copy_file_range(from, &in, to, &out, (size_t)(end - at), 0);

		if (copied < 0 && errno == EINTR)
			continue;
		if (copied <= 0)
			return copy_by_buffer(from, to, at, end);
		at += (uint64_t)copied;
	}
	return 0;
}

/* Whether the file numbers tables and columns as this build does: this build's schema describes the
 * added rows, while readers use the first schema in the file. */
static bool has_own_numbering(const struct ws_report *report)
{
	for (uint32_t number = 0; number < WS_TABLE_COUNT && number < report->schema_tables;
	     number++) {
		const struct ws_file_table *table = &report->schema[number];

		if (table->table != (int)number || table->columns != ws_tables[number].column_count)
			return false;
		for (uint32_t column = 0; column < table->columns; column++)
			if (table->column[column] != (int16_t)column)
				return false;
	}
	return report->schema_tables >= WS_TABLE_COUNT;
}

int ws_report_copy_blocks(const struct ws_report *report, const char *path, uint64_t *end,
			  struct ws_err *err)
{
	struct ws_file_header header = report->header;
	int fd;

	if (!ws_report_is_complete(report))
		return ws_fail(err,
			       "%s was not closed properly or is damaged: 'warpsight recover' "
			       "mends what can be mended; then add to it",
			       report->path);
	if (!has_own_numbering(report))
		return ws_fail(err,
			       "%s was written by another version of warpsight, whose tables are "
			       "not quite this one's: use that version",
			       report->path);
	*end = sizeof(header);
	if (report->all.count) {
		const struct ws_block *last = &report->all.blocks[report->all.count - 1];

		*end = last->offset + sizeof(struct ws_block_header) +
		       WS_ALIGN_UP(last->head.body_bytes, WS_BLOCK_ALIGN);
	}
	fd = ws_file_create(path, true, &header, sizeof(header), err);
	if (fd < 0)
		return -1;
	if (copy_file_part(report->fd, fd, sizeof(header), *end)) {
		ws_fail_errno(err, "cannot write %s", path);
		close(fd);
		unlink(path);
		return -1;
	}
	return fd;
}
