/*
 * append.c - the copy of a report to which rows are added; see ws_writer_append in store.h.
 *
 * A copy, not an addition in place: until the index stands again behind what was added, a file is
 * one that a crash left open. Where the file system can share blocks between files
 * (copy_file_range), the copy costs nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/file.h"
#include "store/report.h"

enum { PIECE = 1 << 20 };

static int copy_slowly(int from, int to, uint64_t at, uint64_t end)
{
	char *buffer = ws_malloc(PIECE);
	int rc = 0;

	while (!rc && at < end) {
		size_t n = end - at < PIECE ? (size_t)(end - at) : PIECE;

		rc = ws_pread_all(from, buffer, n, at);
		if (!rc)
			rc = ws_pwrite_all(to, buffer, n, at);
		at += n;
	}
	free(buffer);
	return rc;
}

static int copy_range(int from, int to, uint64_t at, uint64_t end)
{
	while (at < end) {
		off64_t in = (off64_t)at, out = (off64_t)at;
		ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(end - at), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return copy_slowly(from, to, at, end);
		at += (uint64_t)n;
	}
	return 0;
}

/* What is added is described by this build's schema; readers go by the first one in the file. */
static bool numbered_alike(const struct ws_report *report)
{
	for (uint32_t t = 0; t < WS_TABLE_COUNT && t < report->schema_tables; t++) {
		const struct ws_file_table *table = &report->schema[t];

		if (table->table != (int)t || table->columns != ws_tables[t].column_count)
			return false;
		for (uint32_t c = 0; c < table->columns; c++)
			if (table->column[c] != (int16_t)c)
				return false;
	}
	return report->schema_tables >= WS_TABLE_COUNT;
}

int ws_report_copy_blocks(const struct ws_report *report, const char *path, uint64_t *end,
			  struct ws_err *err)
{
	struct ws_file_header header = report->header;
	int fd;

	if (!ws_report_complete(report))
		return ws_fail(err,
			       "%s was not closed properly or is damaged: 'warpsight recover' "
			       "mends what can be mended; then add to it",
			       report->path);
	if (!numbered_alike(report))
		return ws_fail(err,
			       "%s was written by another version of warpsight, whose tables are "
			       "not quite this one's: use that version",
			       report->path);
	*end = sizeof(header);
	if (report->all.n) {
		const struct ws_block *last = &report->all.blocks[report->all.n - 1];

		*end = last->offset + sizeof(struct ws_block_header) +
		       WS_ALIGN_UP(last->head.body_bytes, WS_BLOCK_ALIGN);
	}
	fd = ws_file_create(path, true, &header, sizeof(header), err);
	if (fd < 0)
		return -1;
	if (copy_range(report->fd, fd, sizeof(header), *end)) {
		ws_fail_errno(err, "cannot write %s", path);
		close(fd);
		unlink(path);
		return -1;
	}
	return fd;
}
