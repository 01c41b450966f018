/*
 * journal.c - the stage of a writer, in a file.
 *
 * The writer puts row structs straight into a shared mapping of this file, so that they are in the
 * page cache, which survives a kill of the process, without any system call. Only what
 * ws_writer_commit has published in the head counts. A stage is emptied after its block is in the
 * report, in an order in which a kill between any two stores neither loses nor doubles a row: the
 * committed count becomes 0 first, then `first` advances. A reader compares `first` with the rows
 * that it found in the report, so that a kill between writing the block and emptying the stage is
 * no ambiguity either.
 *
 * The reader's side copies with pread instead of mapping: a journal may vanish or shrink while
 * being read.
 */
#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mem.h"
#include "store/encode.h"
#include "store/file.h"

enum { PAGE = 4096, LIVE_ATTEMPTS = 50 };

char *ws_journal_path(const char *report)
{
	return ws_format("%s.journal", report);
}

/* Over the fields that never change. */
static uint64_t head_check(const struct ws_journal_head *h)
{
	struct {
		uint64_t offset, capacity, row_size;
	} fixed[WS_TABLE_COUNT + 1];

	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		fixed[t].offset = h->table[t].offset;
		fixed[t].capacity = h->table[t].capacity;
		fixed[t].row_size = h->table[t].row_size;
	}
	fixed[WS_TABLE_COUNT].offset = XXH3_64bits(h, offsetof(struct ws_journal_head, check));
	fixed[WS_TABLE_COUNT].capacity = fixed[WS_TABLE_COUNT].row_size = 0;
	return XXH3_64bits(fixed, sizeof(fixed));
}

static void lay_out(struct ws_journal_head *h, const uint8_t uuid[16],
		    const struct ws_journal_sizes *sizes)
{
	uint64_t at = WS_ALIGN_UP(sizeof(*h), PAGE);

	memcpy(h->magic, WS_JOURNAL_MAGIC, 8);
	h->version = WS_JOURNAL_VERSION;
	h->tables = WS_TABLE_COUNT;
	memcpy(h->uuid, uuid, 16);
	h->fingerprint = ws_schema_fingerprint();
	h->lengths_offset = at;
	h->lengths_capacity = (uint64_t)sizes->strings * 4;
	at += WS_ALIGN_UP(h->lengths_capacity, PAGE);
	h->text_offset = at;
	h->text_capacity = sizes->text;
	at += WS_ALIGN_UP(h->text_capacity, PAGE);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		h->table[t].row_size = ws_tables[t].row_size;
		h->table[t].offset = at;
		h->table[t].capacity = (uint64_t)sizes->rows[t] * ws_tables[t].row_size;
		at += WS_ALIGN_UP(h->table[t].capacity, 64);
	}
	h->file_bytes = WS_ALIGN_UP(at, PAGE);
	h->check = head_check(h);
}

static int fill_with_zeros(int fd, uint64_t size)
{
	static const char zeros[1 << 16];

	for (uint64_t at = 0; at < size;) {
		size_t n = size - at < sizeof(zeros) ? size - at : sizeof(zeros);

		if (ws_pwrite_all(fd, zeros, n, at))
			return -1;
		at += n;
	}
	return 0;
}

/* Real blocks for every byte: a page fault on a mapping has no way to report a full disk but
 * SIGBUS. */
static int allocate(int fd, uint64_t size)
{
	int flags = 0, rc;

	/* Where writes go to new places (btrfs), space promised to the old ones is not enough. */
	if (!ioctl(fd, FS_IOC_GETFLAGS, &flags)) {
		flags |= FS_NOCOW_FL;
		ioctl(fd, FS_IOC_SETFLAGS, &flags);
	}
	rc = ws_guarded_fallocate(fd, 0, 0, size);
	if (rc && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL))
		rc = fill_with_zeros(fd, size);
	return rc;
}

static bool map_file(struct ws_journal *j, const char *path, uint64_t size)
{
	char *temp = ws_format("%s.%d.tmp", path, (int)getpid());
	void *map;

	unlink(temp);
	j->fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (j->fd < 0 || allocate(j->fd, size) ||
	    (map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, j->fd, 0)) == MAP_FAILED) {
		if (j->fd >= 0) {
			close(j->fd);
			unlink(temp);
		}
		j->fd = -1;
		free(temp);
		return false;
	}
	j->head = map;
	j->path = temp;
	return true;
}

void ws_journal_create(struct ws_journal *j, const char *path, const uint8_t uuid[16],
		       const struct ws_journal_sizes *sizes)
{
	struct ws_journal_head head = {0};

	*j = (struct ws_journal){.fd = -1};
	lay_out(&head, uuid, sizes);
	j->size = head.file_bytes;
	j->is_file = path && map_file(j, path, head.file_bytes);
	if (j->is_file) {
		*j->head = head;
		/* Only now under the name that readers look for: a journal there always has its
		 * head. */
		if (rename(j->path, path)) {
			unlink(j->path);
			j->is_file = false;
		}
		free(j->path);
		j->path = j->is_file ? ws_strdup(path) : NULL;
		return;
	}
	j->head = mmap(NULL, j->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (j->head == MAP_FAILED) /* like ws_malloc: nothing better to do; ws_calloc says it */
		j->head = ws_calloc(1, SIZE_MAX / 2);
	*j->head = head;
}

void ws_journal_remove(struct ws_journal *j)
{
	if (j->path)
		unlink(j->path);
	if (j->fd >= 0)
		close(j->fd);
	if (j->head)
		munmap(j->head, j->size);
	free(j->path);
	*j = (struct ws_journal){.fd = -1};
}

char *ws_journal_rows(const struct ws_journal *j, enum ws_table t)
{
	return (char *)j->head + j->head->table[t].offset;
}

uint32_t *ws_journal_lengths(const struct ws_journal *j)
{
	return (uint32_t *)((char *)j->head + j->head->lengths_offset);
}

char *ws_journal_text(const struct ws_journal *j)
{
	return (char *)j->head + j->head->text_offset;
}

/* ---- reading ---- */

static bool within(const struct ws_journal_head *h, uint64_t offset, uint64_t capacity)
{
	return offset >= sizeof(*h) && offset <= h->file_bytes &&
	       capacity <= h->file_bytes - offset;
}

static bool head_fits(const struct ws_journal_head *h)
{
	if (!within(h, h->lengths_offset, h->lengths_capacity) ||
	    !within(h, h->text_offset, h->text_capacity))
		return false;
	if (h->strings > h->lengths_capacity / 4 || h->text_bytes > h->text_capacity ||
	    h->text_capacity > WS_MAX_TEXT || h->lengths_capacity > WS_MAX_TEXT)
		return false;
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		const struct ws_journal_table *j = &h->table[t];

		if (!within(h, j->offset, j->capacity) || j->row_size != ws_tables[t].row_size ||
		    j->bytes > j->capacity || j->bytes % j->row_size ||
		    j->bytes / j->row_size > WS_MAX_BLOCK_ROWS)
			return false;
	}
	return true;
}

static void *copy_range(int fd, uint64_t offset, uint64_t n)
{
	void *p = ws_malloc(n + 1);

	if (ws_pread_all(fd, p, n, offset)) {
		free(p);
		return NULL;
	}
	return p;
}

void ws_journal_copy_free(struct ws_journal_copy *c)
{
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		free(c->table[t].rows);
	free(c->lengths);
	free(c->text);
	memset(c, 0, sizeof(*c));
}

/* Rows before strings: the strings of a row are committed before it, and perhaps in the report by
 * the time they are looked for. */
static bool copy_rows(int fd, const struct ws_journal_head *h, struct ws_journal_copy *c)
{
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		const struct ws_journal_table *j = &h->table[t];

		c->table[t].first = j->first;
		c->table[t].n = (uint32_t)(j->bytes / j->row_size);
		if (c->table[t].n && !(c->table[t].rows = copy_range(fd, j->offset, j->bytes)))
			return false;
	}
	return true;
}

static bool copy_strings(int fd, const struct ws_journal_head *h, struct ws_journal_copy *c)
{
	uint64_t sum = 0;

	c->string_first = h->string_first;
	c->strings = (uint32_t)h->strings;
	c->text_bytes = h->text_bytes;
	if (!c->strings)
		return true;
	c->lengths = copy_range(fd, h->lengths_offset, (uint64_t)c->strings * 4);
	c->text = copy_range(fd, h->text_offset, c->text_bytes);
	if (!c->lengths || !c->text)
		return false;
	for (uint32_t i = 0; i < c->strings; i++)
		sum += c->lengths[i];
	return sum == c->text_bytes;
}

/* 1 copied, 0 changed meanwhile (try again), -1 damaged. */
static int copy_once(int fd, struct ws_journal_copy *c)
{
	struct ws_journal_head h, after;
	bool ok;

	if (ws_pread_all(fd, &h, sizeof(h), 0) || h.check != head_check(&h) || !head_fits(&h))
		return -1;
	c->report_bytes = h.report_bytes;
	ok = copy_rows(fd, &h, c) && copy_strings(fd, &h, c);
	if (ws_pread_all(fd, &after, sizeof(after), 0))
		return -1;
	if (after.change == h.change)
		return ok ? 1 : -1;
	ws_journal_copy_free(c);
	return 0;
}

static enum ws_journal_state copy_open(int fd, const uint8_t uuid[16], struct ws_journal_copy *c,
				       struct ws_err *why)
{
	struct ws_journal_head h;
	int rc = 0;

	if (ws_pread_all(fd, &h, offsetof(struct ws_journal_head, table), 0) ||
	    memcmp(h.magic, WS_JOURNAL_MAGIC, 8)) {
		ws_fail(why, "it is damaged");
		return WS_JOURNAL_BAD;
	}
	if (memcmp(h.uuid, uuid, 16))
		return WS_JOURNAL_OTHER;
	if (h.version != WS_JOURNAL_VERSION || h.tables != WS_TABLE_COUNT ||
	    h.fingerprint != ws_schema_fingerprint()) {
		ws_fail(why,
			"another version of warpsight wrote it, and only that one can read it");
		return WS_JOURNAL_BAD;
	}
	for (int i = 0; i < LIVE_ATTEMPTS && !(rc = copy_once(fd, c)); i++)
		sched_yield();
	if (rc == 1)
		return WS_JOURNAL_COPIED;
	ws_journal_copy_free(c);
	ws_fail(why, rc ? "it is damaged" : "it changed faster than it could be read");
	return WS_JOURNAL_BAD;
}

enum ws_journal_state ws_journal_copy(const char *path, const uint8_t uuid[16],
				      struct ws_journal_copy *c, struct ws_err *why)
{
	enum ws_journal_state state;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	struct stat st;

	memset(c, 0, sizeof(*c));
	if (fd < 0) {
		if (errno == ENOENT)
			return WS_JOURNAL_NONE;
		ws_fail_errno(why, "it cannot be opened");
		return WS_JOURNAL_BAD;
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		ws_fail(why, "it is not a regular file");
		return WS_JOURNAL_BAD;
	}
	state = copy_open(fd, uuid, c, why);
	close(fd);
	return state;
}
