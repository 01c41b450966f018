/*
 * recover.c - checking a whole report, and writing a closed copy of one that a crash left open.
 *
 * A copy holds the bodies of the intact blocks byte for byte, what the journal held as further
 * blocks, and a new index. The numbering of rows is kept, so that a gap that damage tore stays
 * visible to every reader of the copy.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mem.h"
#include "store/encode.h"
#include "store/file.h"
#include "store/journal.h"
#include "store/report.h"

/* ---- verify ---- */

static bool decodes(const struct ws_report *report, enum ws_table table, size_t i,
		    struct ws_err *err)
{
	uint32_t rows = report->table[table].blocks[i].head.rows,
		 columns = ws_tables[table].column_count;
	uint64_t *out[WS_MAX_COLUMNS], *values = ws_malloc((size_t)rows * 8 * columns);
	int rc;

	for (uint32_t c = 0; c < columns; c++)
		out[c] = values + (size_t)rows * c;
	rc = ws_report_decode(report, table, i, UINT64_MAX, out, err);
	free(values);
	return !rc;
}

/* All blocks but rows. */
static uint64_t verify_others(const struct ws_report *report, void (*fn)(void *, const char *),
			      void *ctx)
{
	struct ws_workspace *workspace = ws_workspace_take(report);
	uint64_t wrong = 0;
	struct ws_err err;

	for (size_t i = 0; i < report->all.n; i++) {
		const struct ws_block *block = &report->all.blocks[i];

		if (block->head.type == WS_BLOCK_ROWS ||
		    ws_block_body(report, block, workspace, &err))
			continue;
		wrong++;
		if (fn)
			fn(ctx, err.msg);
	}
	ws_workspace_give(report, workspace);
	return wrong;
}

uint64_t ws_report_verify(const struct ws_report *report,
			  void (*fn)(void *ctx, const char *sentence), void *ctx)
{
	uint64_t wrong = 0;
	struct ws_err err;

	for (size_t i = 0; i < report->damages; i++, wrong++)
		if (fn)
			fn(ctx, report->damage[i]);
	if (!report->damages ||
	    report->size > WS_CHECK_AT_OPEN) /* else these have been checked, and said */
		wrong += verify_others(report, fn, ctx);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		for (size_t i = 0; i < report->table[t].n; i++)
			if (!decodes(report, (enum ws_table)t, i, &err)) {
				wrong++;
				if (fn)
					fn(ctx, err.msg);
			}
	return wrong;
}

/* ---- recover ---- */

struct copy {
	const struct ws_report *report;
	const char *path;
	int fd;
	uint64_t end, sequence, rows;
	struct ws_index_entry *index;
	size_t blocks, cap;
};

static int put(struct copy *copy, const void *memory, size_t n, struct ws_err *err)
{
	if (ws_pwrite_all(copy->fd, memory, n, copy->end))
		return ws_fail_errno(err, "cannot write %s", copy->path);
	copy->end += n;
	return 0;
}

static void note(struct copy *copy, const struct ws_block_head *head)
{
	ws_grow(copy->index, copy->cap, copy->blocks + 1);
	copy->index[copy->blocks++] = (struct ws_index_entry){.offset = copy->end, .head = *head};
}

/* One block with its new number; damaged ones are left out. */
static int copy_block(struct copy *copy, const struct ws_block *block,
		      struct ws_workspace *workspace, struct ws_bytes *out, struct ws_err *err)
{
	struct ws_block_head head = block->head;
	const uint8_t *body;

	if (head.type == WS_BLOCK_INDEX ||
	    !(body = ws_block_body(copy->report, block, workspace, NULL)))
		return 0;
	head.sequence = copy->sequence++;
	ws_block_begin(out);
	ws_bytes_add(out, body, head.body_bytes);
	ws_block_end(out, &head);
	note(copy, &head);
	if (head.type == WS_BLOCK_ROWS)
		copy->rows += head.rows;
	return put(copy, out->bytes, out->len, err);
}

static int copy_index(struct copy *copy, struct ws_bytes *out, struct ws_err *err)
{
	ws_encode_index(out, copy->index, copy->blocks, copy->end, copy->rows, copy->sequence);
	return put(copy, out->bytes, out->len, err);
}

static int copy_blocks(struct copy *copy, struct ws_err *err)
{
	struct ws_workspace *workspace = ws_workspace_take(copy->report);
	struct ws_bytes out = {0};
	int rc = 0;

	for (size_t i = 0; i < copy->report->all.n && !rc; i++)
		rc = copy_block(copy, &copy->report->all.blocks[i], workspace, &out, err);
	if (!rc)
		rc = copy_index(copy, &out, err);
	ws_bytes_free(&out);
	ws_workspace_give(copy->report, workspace);
	free(copy->index);
	return rc;
}

static int make_copy(const struct ws_report *report, const char *to, bool overwrite, uint64_t *rows,
		     struct ws_err *err)
{
	struct ws_file_header header = report->header;
	struct copy copy = {.report = report, .path = to, .end = sizeof(header)};
	int rc;

	memcpy(header.magic, WS_FILE_MAGIC, 8);
	header.major = WS_FORMAT_MAJOR;
	header.bytes = sizeof(header);
	header.check = XXH3_64bits(&header, offsetof(struct ws_file_header, check));
	copy.fd = ws_file_create(to, overwrite, &header, sizeof(header), err);
	if (copy.fd < 0)
		return -1;
	rc = copy_blocks(&copy, err);
	if (close(copy.fd) && !rc)
		rc = ws_fail_errno(err, "cannot write %s", to);
	if (rc)
		unlink(to);
	else if (rows)
		*rows = copy.rows;
	return rc;
}

/* Beside the report, and over it only once it is whole. */
static int recover_in_place(const struct ws_report *report, uint64_t *rows, struct ws_err *err)
{
	char *temp = ws_format("%s.%d.recovered.tmp", report->path, (int)getpid()),
	     *journal = ws_journal_path(report->path);
	int rc = make_copy(report, temp, true, rows, err);

	if (!rc && rename(temp, report->path)) {
		rc = ws_fail_errno(err, "cannot replace %s", report->path);
		unlink(temp);
	}
	if (!rc)
		unlink(journal);
	free(temp);
	free(journal);
	return rc;
}

int ws_report_recover(const char *from, const char *to, uint64_t *rows, struct ws_err *err)
{
	struct ws_report *report;
	int fd = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK), locked, rc;

	if (fd < 0)
		return ws_fail_errno(err, "cannot open %s", from);
	locked = ws_file_lock(fd);
	if (locked != 1) {
		close(fd);
		return locked ? ws_fail_errno(err, "cannot lock %s", from)
			      : ws_fail(err,
					"%s is still being recorded: it cannot be recovered before "
					"that ends",
					from);
	}
	report = ws_report_open_plain(from, err);
	rc = !report ? -1
	     : to    ? make_copy(report, to, false, rows, err)
		     : recover_in_place(report, rows, err);
	ws_report_close(report);
	close(fd);
	return rc;
}
