/*
 * journal.c - the stage of a writer, in a file.
 *
 * The writer stores row structs straight into a shared mapping of this file, so that they are in
 * the page cache, which survives a kill of the process, without any system call. Only what
 * ws_writer_commit has published in the head counts. A stage is emptied after its block is in the
 * report, in an order in which a kill between any two stores neither loses nor doubles a row: the
 * committed count becomes 0 first, then `first` advances. A reader compares `first` with the rows
 * that it found in the report, so that a kill between writing the block and emptying the stage is
 * unambiguous too.
 *
 * Readers copy with pread instead of mapping: a journal may vanish or shrink while it is read.
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

#include "base/choose.h"
#include "base/mem.h"
#include "store/encode.h"
#include "store/file.h"

enum { PAGE = 4096, LIVE_ATTEMPTS = 50 };

char *ws_journal_path(const char *report)
{
	return ws_format("%s.journal", report);
}

/* The checksum of the fields that never change. */
static uint64_t hash_head(const struct ws_journal_head *head)
{
	struct {
		uint64_t offset, capacity, row_size;
	} fixed[WS_TABLE_COUNT + 1];

	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++) {
		fixed[table].offset = head->table[table].offset;
		fixed[table].capacity = head->table[table].capacity;
		fixed[table].row_size = head->table[table].row_size;
	}
	fixed[WS_TABLE_COUNT].offset = XXH3_64bits(head, offsetof(struct ws_journal_head, check));
	fixed[WS_TABLE_COUNT].capacity = fixed[WS_TABLE_COUNT].row_size = 0;
	return XXH3_64bits(fixed, sizeof(fixed));
}

static void lay_out_head(struct ws_journal_head *head, const uint8_t uuid[16],
			 const struct ws_journal_sizes *sizes)
{
	uint64_t at = WS_ALIGN_UP(sizeof(*head), PAGE);

	memcpy(head->magic, WS_JOURNAL_MAGIC, 8);
	head->version = WS_JOURNAL_VERSION;
	head->tables = WS_TABLE_COUNT;
	memcpy(head->uuid, uuid, 16);
	head->fingerprint = ws_hash_schema();
	head->lengths_offset = at;
	head->lengths_capacity = (uint64_t)sizes->strings * 4;
	at += WS_ALIGN_UP(head->lengths_capacity, PAGE);
	head->text_offset = at;
	head->text_capacity = sizes->text;
	at += WS_ALIGN_UP(head->text_capacity, PAGE);
	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++) {
		head->table[table].row_size = ws_tables[table].row_size;
		head->table[table].offset = at;
		head->table[table].capacity =
			(uint64_t)sizes->rows[table] * ws_tables[table].row_size;
		at += WS_ALIGN_UP(head->table[table].capacity, 64);
	}
	head->file_bytes = WS_ALIGN_UP(at, PAGE);
	head->check = hash_head(head);
}

static int fill_with_zeros(int fd, uint64_t size)
{
	static const char zeros[1 << 16];

	for (uint64_t at = 0; at < size;) {
		size_t part = ws_min(size - at, (uint64_t)sizeof(zeros));

		if (ws_pwrite_all(fd, zeros, part, at))
			return -1;
		at += part;
	}
	return 0;
}

/* Allocates real blocks for every byte: a page fault on a mapping has no way to report a full disk
 * but SIGBUS. */
static int allocate_file(int fd, uint64_t size)
{
	int flags = 0, rc;

	/* Where writes go to new places (btrfs), space reserved for the old ones is not enough. */
	if (!ioctl(fd, FS_IOC_GETFLAGS, &flags)) {
		flags |= FS_NOCOW_FL;
		ioctl(fd, FS_IOC_SETFLAGS, &flags);
	}
	rc = ws_guarded_fallocate(fd, 0, 0, size);
	if (rc && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL))
		rc = fill_with_zeros(fd, size);
	return rc;
}

static bool create_mapped_file(struct ws_journal *journal, const char *path, uint64_t size)
{
	char *temp = ws_format("%s.%d.tmp", path, (int)getpid());
	void *map;

	unlink(temp);
	journal->fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (journal->fd < 0 || allocate_file(journal->fd, size) ||
	    (map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, journal->fd, 0)) ==
		    MAP_FAILED) {
		if (journal->fd >= 0) {
			close(journal->fd);
			unlink(temp);
		}
		journal->fd = -1;
		free(temp);
		return false;
	}
	journal->head = map;
	journal->path = temp;
	return true;
}

void ws_journal_create(struct ws_journal *journal, const char *path, const uint8_t uuid[16],
		       const struct ws_journal_sizes *sizes)
{
	struct ws_journal_head head = {0};

	*journal = (struct ws_journal){.fd = -1};
	lay_out_head(&head, uuid, sizes);
	journal->size = head.file_bytes;
	journal->is_file = path && create_mapped_file(journal, path, head.file_bytes);
	if (journal->is_file) {
		*journal->head = head;
		/* Renamed only now: a journal under the name that readers look for always has its
		 * head. */
		if (rename(journal->path, path)) {
			unlink(journal->path);
			journal->is_file = false;
		}
		free(journal->path);
		journal->path = NULL;
		if (journal->is_file)
			journal->path = ws_strdup(path);
		return;
	}
	journal->head = mmap(NULL, journal->size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (journal->head == MAP_FAILED) /* end as ws_malloc would: this cannot succeed */
		journal->head = ws_calloc(1, SIZE_MAX / 2);
	*journal->head = head;
}

void ws_journal_remove(struct ws_journal *journal)
{
	if (journal->path)
		unlink(journal->path);
	if (journal->fd >= 0)
		close(journal->fd);
	if (journal->head)
		munmap(journal->head, journal->size);
	free(journal->path);
	*journal = (struct ws_journal){.fd = -1};
}

char *ws_journal_rows(const struct ws_journal *journal, enum ws_table table)
{
	return (char *)journal->head + journal->head->table[table].offset;
}

uint32_t *ws_journal_lengths(const struct ws_journal *journal)
{
	return (uint32_t *)((char *)journal->head + journal->head->lengths_offset);
}

char *ws_journal_text(const struct ws_journal *journal)
{
	return (char *)journal->head + journal->head->text_offset;
}

/* ---- reading ---- */

static bool lies_within(const struct ws_journal_head *head, uint64_t offset, uint64_t capacity)
{
	return offset >= sizeof(*head) && offset <= head->file_bytes &&
	       capacity <= head->file_bytes - offset;
}

static bool head_fits(const struct ws_journal_head *head)
{
	if (!lies_within(head, head->lengths_offset, head->lengths_capacity) ||
	    !lies_within(head, head->text_offset, head->text_capacity))
		return false;
	if (head->strings > head->lengths_capacity / 4 || head->text_bytes > head->text_capacity ||
	    head->text_capacity > WS_MAX_TEXT || head->lengths_capacity > WS_MAX_TEXT)
		return false;
	for (uint32_t number = 0; number < WS_TABLE_COUNT; number++) {
		const struct ws_journal_table *table = &head->table[number];

		if (!lies_within(head, table->offset, table->capacity) ||
		    table->row_size != ws_tables[number].row_size ||
		    table->bytes > table->capacity || table->bytes % table->row_size ||
		    table->bytes / table->row_size > WS_MAX_BLOCK_ROWS)
			return false;
	}
	return true;
}

static void *read_range(int fd, uint64_t offset, uint64_t size)
{
	void *memory = ws_malloc(size + 1);

	if (ws_pread_all(fd, memory, size, offset)) {
		free(memory);
		return NULL;
	}
	return memory;
}

void ws_journal_copy_free(struct ws_journal_copy *copy)
{
	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++)
		free(copy->table[table].rows);
	free(copy->lengths);
	free(copy->text);
	memset(copy, 0, sizeof(*copy));
}

/* Rows before strings: the strings of a row are committed before it, and may have reached the
 * report by the time they are searched for. */
static bool copy_journal_rows(int fd, const struct ws_journal_head *head,
			      struct ws_journal_copy *copy)
{
	for (uint32_t number = 0; number < WS_TABLE_COUNT; number++) {
		const struct ws_journal_table *table = &head->table[number];

		copy->table[number].first = table->first;
		copy->table[number].n = (uint32_t)(table->bytes / table->row_size);
		if (copy->table[number].n &&
		    !(copy->table[number].rows = read_range(fd, table->offset, table->bytes)))
			return false;
	}
	return true;
}

static bool copy_journal_strings(int fd, const struct ws_journal_head *head,
				 struct ws_journal_copy *copy)
{
	uint64_t sum = 0;

	copy->string_first = head->string_first;
	copy->strings = (uint32_t)head->strings;
	copy->text_bytes = head->text_bytes;
	if (!copy->strings)
		return true;
	copy->lengths = read_range(fd, head->lengths_offset, (uint64_t)copy->strings * 4);
	copy->text = read_range(fd, head->text_offset, copy->text_bytes);
	if (!copy->lengths || !copy->text)
		return false;
	for (uint32_t i = 0; i < copy->strings; i++)
		sum += copy->lengths[i];
	return sum == copy->text_bytes;
}

/* 1 copied, 0 changed meanwhile (try again), -1 damaged. */
static int copy_journal_once(int fd, struct ws_journal_copy *copy)
{
	struct ws_journal_head head, after;
	bool ok;

	if (ws_pread_all(fd, &head, sizeof(head), 0) || head.check != hash_head(&head) ||
	    !head_fits(&head))
		return -1;
	copy->report_bytes = head.report_bytes;
	ok = copy_journal_rows(fd, &head, copy) && copy_journal_strings(fd, &head, copy);
	if (ws_pread_all(fd, &after, sizeof(after), 0))
		return -1;
	if (after.change == head.change) {
		if (ok)
			return 1;
		return -1;
	}
	ws_journal_copy_free(copy);
	return 0;
}

static enum ws_journal_state copy_open_journal(int fd, const uint8_t uuid[16],
					       struct ws_journal_copy *copy, struct ws_err *why)
{
	struct ws_journal_head head;
	int rc = 0;

	if (ws_pread_all(fd, &head, offsetof(struct ws_journal_head, table), 0) ||
	    memcmp(head.magic, WS_JOURNAL_MAGIC, 8)) {
		ws_fail(why, "it is damaged");
		return WS_JOURNAL_BAD;
	}
	if (memcmp(head.uuid, uuid, 16))
		return WS_JOURNAL_OTHER;
	if (head.version != WS_JOURNAL_VERSION || head.tables != WS_TABLE_COUNT ||
	    head.fingerprint != ws_hash_schema()) {
		ws_fail(why,
			"another version of warpsight wrote it, and only that one can read it");
		return WS_JOURNAL_BAD;
	}
	for (int attempt = 0; attempt < LIVE_ATTEMPTS && !(rc = copy_journal_once(fd, copy));
	     attempt++)
		sched_yield();
	if (rc == 1)
		return WS_JOURNAL_COPIED;
	ws_journal_copy_free(copy);
	if (rc)
		ws_fail(why, "it is damaged");
	else
		ws_fail(why, "it changed faster than it could be read");
	return WS_JOURNAL_BAD;
}

enum ws_journal_state ws_journal_copy(const char *path, const uint8_t uuid[16],
				      struct ws_journal_copy *copy, struct ws_err *why)
{
	enum ws_journal_state state;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	struct stat status;

	memset(copy, 0, sizeof(*copy));
	if (fd < 0) {
		if (errno == ENOENT)
			return WS_JOURNAL_NONE;
		ws_fail_errno(why, "it cannot be opened");
		return WS_JOURNAL_BAD;
	}
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		close(fd);
		ws_fail(why, "it is not a regular file");
		return WS_JOURNAL_BAD;
	}
	state = copy_open_journal(fd, uuid, copy, why);
	close(fd);
	return state;
}
