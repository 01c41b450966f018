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

static bool decodes(const struct ws_report *r, enum ws_table t, size_t i, struct ws_err *e)
{
	uint32_t rows = r->table[t].v[i].head.rows, columns = ws_tables[t].column_count;
	uint64_t *out[WS_MAX_COLUMNS], *values = ws_malloc((size_t)rows * 8 * columns);
	int rc;

	for (uint32_t c = 0; c < columns; c++)
		out[c] = values + (size_t)rows * c;
	rc = ws_report_decode(r, t, i, UINT64_MAX, out, e);
	free(values);
	return !rc;
}

/* All blocks but rows. */
static uint64_t verify_others(const struct ws_report *r, void (*fn)(void *, const char *),
			      void *ctx)
{
	struct ws_workspace *w = ws_workspace_take(r);
	uint64_t wrong = 0;
	struct ws_err e;

	for (size_t i = 0; i < r->all.n; i++) {
		const struct ws_block *b = &r->all.v[i];

		if (b->head.type == WS_BLOCK_ROWS || ws_block_body(r, b, w, &e))
			continue;
		wrong++;
		if (fn)
			fn(ctx, e.msg);
	}
	ws_workspace_give(r, w);
	return wrong;
}

uint64_t ws_report_verify(const struct ws_report *r, void (*fn)(void *ctx, const char *sentence),
			  void *ctx)
{
	uint64_t wrong = 0;
	struct ws_err e;

	for (size_t i = 0; i < r->damages; i++, wrong++)
		if (fn)
			fn(ctx, r->damage[i]);
	if (!r->damages || r->size > WS_CHECK_AT_OPEN) /* else these have been checked, and said */
		wrong += verify_others(r, fn, ctx);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		for (size_t i = 0; i < r->table[t].n; i++)
			if (!decodes(r, (enum ws_table)t, i, &e)) {
				wrong++;
				if (fn)
					fn(ctx, e.msg);
			}
	return wrong;
}

/* ---- recover ---- */

struct copy {
	const struct ws_report *r;
	const char *path;
	int fd;
	uint64_t end, sequence, rows;
	struct ws_index_entry *index;
	size_t blocks, cap;
};

static int put(struct copy *c, const void *p, size_t n, struct ws_err *e)
{
	if (ws_pwrite_all(c->fd, p, n, c->end))
		return ws_fail_errno(e, "cannot write %s", c->path);
	c->end += n;
	return 0;
}

static void note(struct copy *c, const struct ws_block_head *head)
{
	ws_grow(c->index, c->cap, c->blocks + 1);
	c->index[c->blocks++] = (struct ws_index_entry){.offset = c->end, .head = *head};
}

/* One block with its new number; damaged ones are left out. */
static int copy_block(struct copy *c, const struct ws_block *b, struct ws_workspace *w,
		      struct ws_bytes *out, struct ws_err *e)
{
	struct ws_block_head head = b->head;
	const uint8_t *body;

	if (head.type == WS_BLOCK_INDEX || !(body = ws_block_body(c->r, b, w, NULL)))
		return 0;
	head.sequence = c->sequence++;
	ws_block_begin(out);
	ws_bytes_add(out, body, head.body_bytes);
	ws_block_end(out, &head);
	note(c, &head);
	if (head.type == WS_BLOCK_ROWS)
		c->rows += head.rows;
	return put(c, out->p, out->len, e);
}

static int copy_index(struct copy *c, struct ws_bytes *out, struct ws_err *e)
{
	ws_encode_index(out, c->index, c->blocks, c->end, c->rows, c->sequence);
	return put(c, out->p, out->len, e);
}

static int copy_blocks(struct copy *c, struct ws_err *e)
{
	struct ws_workspace *w = ws_workspace_take(c->r);
	struct ws_bytes out = {0};
	int rc = 0;

	for (size_t i = 0; i < c->r->all.n && !rc; i++)
		rc = copy_block(c, &c->r->all.v[i], w, &out, e);
	if (!rc)
		rc = copy_index(c, &out, e);
	ws_bytes_free(&out);
	ws_workspace_give(c->r, w);
	free(c->index);
	return rc;
}

static int make_copy(const struct ws_report *r, const char *to, bool overwrite, uint64_t *rows,
		     struct ws_err *e)
{
	struct ws_file_header h = r->header;
	struct copy c = {.r = r, .path = to, .end = sizeof(h)};
	int rc;

	memcpy(h.magic, WS_FILE_MAGIC, 8);
	h.major = WS_FORMAT_MAJOR;
	h.bytes = sizeof(h);
	h.check = XXH3_64bits(&h, offsetof(struct ws_file_header, check));
	c.fd = ws_file_create(to, overwrite, &h, sizeof(h), e);
	if (c.fd < 0)
		return -1;
	rc = copy_blocks(&c, e);
	if (close(c.fd) && !rc)
		rc = ws_fail_errno(e, "cannot write %s", to);
	if (rc)
		unlink(to);
	else if (rows)
		*rows = c.rows;
	return rc;
}

/* Beside the report, and over it only once it is whole. */
static int recover_in_place(const struct ws_report *r, uint64_t *rows, struct ws_err *e)
{
	char *temp = ws_format("%s.%d.recovered.tmp", r->path, (int)getpid()),
	     *journal = ws_journal_path(r->path);
	int rc = make_copy(r, temp, true, rows, e);

	if (!rc && rename(temp, r->path)) {
		rc = ws_fail_errno(e, "cannot replace %s", r->path);
		unlink(temp);
	}
	if (!rc)
		unlink(journal);
	free(temp);
	free(journal);
	return rc;
}

int ws_report_recover(const char *from, const char *to, uint64_t *rows, struct ws_err *e)
{
	struct ws_report *r;
	int fd = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK), locked, rc;

	if (fd < 0)
		return ws_fail_errno(e, "cannot open %s", from);
	locked = ws_file_lock(fd);
	if (locked != 1) {
		close(fd);
		return locked ? ws_fail_errno(e, "cannot lock %s", from)
			      : ws_fail(e,
					"%s is still being recorded: it cannot be recovered before "
					"that ends",
					from);
	}
	r = ws_report_open_plain(from, e);
	rc = !r ? -1 : to ? make_copy(r, to, false, rows, e) : recover_in_place(r, rows, e);
	ws_report_close(r);
	close(fd);
	return rc;
}
