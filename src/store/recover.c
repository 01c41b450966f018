/*
 * recover.c - checking a whole report, and writing a closed copy of one that a crash left open.
 *
 * A copy holds the bodies of the intact blocks byte for byte, the content of the journal as further
 * blocks, and a new index. The numbering of rows is kept, so that gaps from damage stay visible to
 * every reader of the copy.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "store/encode.h"
#include "store/file.h"
#include "store/journal.h"
#include "store/report.h"

/* ---- verify ---- */

static bool block_decodes(const struct ws_report *report, enum ws_table table, size_t i,
			  struct ws_err *err)
{
	uint32_t rows = report->table[table].blocks[i].head.rows,
		 columns = ws_tables[table].column_count;
	uint64_t *out[WS_MAX_COLUMNS], *values = ws_malloc((size_t)rows * 8 * columns);
	int rc;

	for (uint32_t column = 0; column < columns; column++)
		out[column] = values + (size_t)rows * column;
	rc = ws_report_decode_block(report, table, i, UINT64_MAX, out, err);
	free(values);
	return !rc;
}

/* Checks all blocks but those of rows; returns how many are damaged. */
static uint64_t verify_others(const struct ws_report *report, void (*fn)(void *, const char *),
			      void *ctx)
{
	struct ws_workspace *workspace = ws_take_workspace(report);
	uint64_t wrong = 0;
	struct ws_err err;

	for (size_t i = 0; i < report->all.count; i++) {
		const struct ws_block *block = &report->all.blocks[i];

		if (block->head.type == WS_BLOCK_ROWS ||
		    ws_read_block_body(report, block, workspace, &err))
			continue;
		wrong++;
		if (fn)
			fn(ctx, err.msg);
	}
	ws_give_back_workspace(report, workspace);
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
	    report->size >
		    WS_CHECK_AT_OPEN) /* otherwise they were checked, and reported, at opening */
		wrong += verify_others(report, fn, ctx);
	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++)
		for (size_t i = 0; i < report->table[table].count; i++)
			if (!block_decodes(report, (enum ws_table)table, i, &err)) {
				wrong++;
				if (fn)
					fn(ctx, err.msg);
			}
	return wrong;
}

/* ---- recover ---- */

struct report_copy {
	const struct ws_report *report;
	const char *path;
	int fd;
	uint64_t end, sequence, rows;
	struct ws_index_entry *index;
	size_t blocks, cap;
};

static int append_bytes(struct report_copy *copy, const void *memory, size_t size,
			struct ws_err *err)
{
	if (ws_pwrite_all(copy->fd, memory, size, copy->end))
		return ws_fail_errno(err, "cannot write %s", copy->path);
	copy->end += size;
	return 0;
}

static void note_block(struct report_copy *copy, const struct ws_block_head *head)
{
	ws_grow(copy->index, copy->cap, copy->blocks + 1);
	copy->index[copy->blocks++] = (struct ws_index_entry){.offset = copy->end, .head = *head};
}

/* Copies one block with its new number; damaged ones are left out. */
static int copy_block(struct report_copy *copy, const struct ws_block *block,
		      struct ws_workspace *workspace, struct ws_bytes *out, struct ws_err *err)
{
	struct ws_block_head head = block->head;
	const uint8_t *body;

	if (head.type == WS_BLOCK_INDEX ||
	    !(body = ws_read_block_body(copy->report, block, workspace, NULL)))
		return 0;
	head.sequence = copy->sequence++;
	ws_block_begin(out);
	ws_bytes_add(out, body, head.body_bytes);
	ws_block_end(out, &head);
	note_block(copy, &head);
	if (head.type == WS_BLOCK_ROWS)
		copy->rows += head.rows;
	return append_bytes(copy, out->bytes, out->len, err);
}

static int copy_index(struct report_copy *copy, struct ws_bytes *out, struct ws_err *err)
{
	ws_encode_index(out, copy->index, copy->blocks, copy->end, copy->rows, copy->sequence);
	return append_bytes(copy, out->bytes, out->len, err);
}

static int copy_blocks(struct report_copy *copy, struct ws_err *err)
{
	struct ws_workspace *workspace = ws_take_workspace(copy->report);
	struct ws_bytes out = {0};
	int rc = 0;

	for (size_t i = 0; i < copy->report->all.count && !rc; i++)
		rc = copy_block(copy, &copy->report->all.blocks[i], workspace, &out, err);
	if (!rc)
		rc = copy_index(copy, &out, err);
	ws_bytes_free(&out);
	ws_give_back_workspace(copy->report, workspace);
	free(copy->index);
	return rc;
}

static int make_copy(const struct ws_report *report, const char *to, bool overwrite, uint64_t *rows,
		     struct ws_err *err)
{
	struct ws_file_header header = report->header;
	struct report_copy copy = {.report = report, .path = to, .end = sizeof(header)};
	int rc;

	memcpy(header.magic, WS_FILE_MAGIC, 8);
	header.major = WS_FORMAT_MAJOR;
	header.bytes = sizeof(header);
	header.check = XXH3_64bits(&header, offsetof(struct ws_file_header, check));
	copy.fd = ws_file_create(to, overwrite, &header, sizeof(header), err);
	if (copy.fd < 0)
		return -1;
	rc = copy_blocks(&copy, err);
	if (!rc && !copy.rows)
		rc = ws_fail(err,
			     "nothing of %s can be recovered: no whole block of events is left",
			     report->path);
	if (close(copy.fd) && !rc)
		rc = ws_fail_errno(err, "cannot write %s", to);
	if (rc)
		unlink(to);
	else if (rows)
		*rows = copy.rows;
	return rc;
}

/* Writes the copy beside the report, and over it only once it is complete. */
static int recover_in_place(const struct ws_report *report, uint64_t *rows, struct ws_err *err)
{
	char *temp = ws_format("%s.%d.recovered.tmp", report->path, (int)getpid()),
	     *journal = ws_journal_path(report->path);
	int litter = ws_cleanup_add_output(temp), rc = make_copy(report, temp, true, rows, err);

	if (!rc && rename(temp, report->path)) {
		rc = ws_fail_errno(err, "cannot replace %s", report->path);
		unlink(temp);
	}
	if (!rc)
		unlink(journal);
	ws_cleanup_forget(litter);
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
	locked = ws_lock_file(fd);
	if (locked != 1) {
		if (locked)
			ws_fail_errno(err, "cannot lock %s", from);
		else
			ws_fail(err,
				"%s is still being recorded: it cannot be recovered before that "
				"ends",
				from);
		close(fd);
		return -1;
	}
	report = ws_report_open_plain(from, err);
	if (!report)
		rc = -1;
	else if (to)
		rc = make_copy(report, to, false, rows, err);
	else
		rc = recover_in_place(report, rows, err);
	ws_report_close(report);
	close(fd);
	return rc;
}
