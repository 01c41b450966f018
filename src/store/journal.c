/*
 * journal.c - the stage of a writer, in a file.
 *
 * The writer stages row structs in its own memory. ws_writer_commit writes the new rows, and then
 * the head that counts them: from then on they are in the page cache, which survives a kill of the
 * process. The file is not mapped, because anyone may truncate it; after that it is rewritten from
 * memory. A reader compares `first` with the rows that it found in the report, so that a kill
 * between writing a block and noting it here neither loses nor duplicates a row.
 *
 * Each stage has a checksum: only the intact stages of a cut or damaged journal are read. Readers
 * copy with pread instead of mapping: a journal may vanish or shrink while it is read.
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

/* The head is written as a whole: its pages hold nothing else. Strings come first for concurrent
 * readers: they are counted before the tables that refer to them. */
static int save_head(struct ws_journal *journal)
{
	const size_t strings = offsetof(struct ws_journal_head, table);

	if (ws_pwrite_all(journal->fd, journal->head, strings, 0))
		return -1;
	return ws_pwrite_all(journal->fd, journal->head->table, sizeof(journal->head->table),
			     strings);
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

/* Allocates real blocks for every byte, so that commits still succeed on a disk that has become
 * full. */
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

/* Rename it only when it is complete: a journal under the name that readers look for always has its
 * head. */
static bool create_file(struct ws_journal *journal, const char *path)
{
	char *temp = ws_format("%s.%d.tmp", path, (int)getpid());

	unlink(temp);
	journal->fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (journal->fd >= 0 && !allocate_file(journal->fd, journal->size) && !save_head(journal) &&
	    !rename(temp, path)) {
		journal->path = ws_strdup(path);
		free(temp);
		return true;
	}
	if (journal->fd >= 0) {
		close(journal->fd);
		unlink(temp);
	}
	journal->fd = -1;
	free(temp);
	return false;
}

static void start_saving(struct ws_journal_saved *saved, uint64_t seed)
{
	if (!saved->hash && !(saved->hash = XXH3_createState()))
		saved->hash = ws_calloc(1, SIZE_MAX / 2); /* end as ws_malloc would */
	XXH3_64bits_reset_withSeed(saved->hash, seed);
	saved->bytes = 0;
}

static void start_all(struct ws_journal *journal)
{
	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++)
		start_saving(&journal->table[table], table);
	start_saving(&journal->lengths, 0);
	start_saving(&journal->text, 0);
}

void ws_journal_create(struct ws_journal *journal, const char *path, const uint8_t uuid[16],
		       const struct ws_journal_sizes *sizes)
{
	struct ws_journal_head head = {0};

	*journal = (struct ws_journal){.fd = -1};
	lay_out_head(&head, uuid, sizes);
	journal->size = head.file_bytes;
	journal->head = mmap(NULL, journal->size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (journal->head == MAP_FAILED) /* end as ws_malloc would: this cannot succeed */
		journal->head = ws_calloc(1, SIZE_MAX / 2);
	*journal->head = head;
	start_all(journal);
	journal->is_file = path && create_file(journal, path);
}

/* If the journal has a file, keep it under another name, since its space is allocated. */
static bool rename_file(struct ws_journal *journal, const char *path)
{
	if (!journal->is_file || save_head(journal) || rename(journal->path, path))
		return false;
	free(journal->path);
	journal->path = ws_strdup(path);
	return true;
}

static void remove_file(struct ws_journal *journal)
{
	if (journal->path)
		unlink(journal->path);
	if (journal->fd >= 0)
		close(journal->fd);
	free(journal->path);
	journal->path = NULL;
	journal->fd = -1;
	journal->is_file = false;
}

void ws_journal_restart(struct ws_journal *journal, const char *path, const uint8_t uuid[16],
			const uint64_t first[WS_TABLE_COUNT], uint64_t string_first)
{
	struct ws_journal_head *head = journal->head;

	memcpy(head->uuid, uuid, 16);
	head->check = hash_head(head);
	head->change += 2;
	head->strings = head->text_bytes = 0;
	head->string_first = string_first;
	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++) {
		head->table[table].bytes = 0;
		head->table[table].first = first[table];
	}
	start_all(journal);
	journal->emptied = false;
	if (rename_file(journal, path))
		return;
	remove_file(journal);
	journal->is_file = create_file(journal, path);
}

void ws_journal_remove(struct ws_journal *journal)
{
	remove_file(journal);
	if (journal->head)
		munmap(journal->head, journal->size);
	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++)
		XXH3_freeState(journal->table[table].hash);
	XXH3_freeState(journal->lengths.hash);
	XXH3_freeState(journal->text.hash);
	*journal = (struct ws_journal){.fd = -1};
}

/* ---- saving ---- */

/* Write the new bytes of a range since it was saved; *check gets the checksum of the whole range.
 * */
static int save_range(struct ws_journal *journal, struct ws_journal_saved *saved, uint64_t offset,
		      uint64_t bytes, uint64_t *check)
{
	const char *from = (const char *)journal->head + offset + saved->bytes;
	size_t more = bytes - saved->bytes;

	if (!more)
		return 0;
	if (ws_pwrite_all(journal->fd, from, more, offset + saved->bytes))
		return -1;
	XXH3_64bits_update(saved->hash, from, more);
	*check = XXH3_64bits_digest(saved->hash);
	saved->bytes = bytes;
	return 0;
}

static int save_ranges(struct ws_journal *journal)
{
	struct ws_journal_head *head = journal->head;
	int rc = save_range(journal, &journal->lengths, head->lengths_offset, head->strings * 4,
			    &head->lengths_check);

	if (!rc)
		rc = save_range(journal, &journal->text, head->text_offset, head->text_bytes,
				&head->text_check);
	for (uint32_t number = 0; number < WS_TABLE_COUNT && !rc; number++) {
		struct ws_journal_table *table = &head->table[number];

		rc = save_range(journal, &journal->table[number], table->offset, table->bytes,
				&table->check);
	}
	return rc;
}

/* If the file has become shorter, none of it counts as written. */
static void check_length(struct ws_journal *journal)
{
	struct stat status;

	if (fstat(journal->fd, &status) || (uint64_t)status.st_size >= journal->size)
		return;
	allocate_file(journal->fd, journal->size);
	start_all(journal);
}

void ws_journal_save_emptied(struct ws_journal *journal)
{
	if (journal->is_file && journal->emptied && save_head(journal))
		remove_file(journal);
	journal->emptied = false;
}

void ws_journal_save(struct ws_journal *journal)
{
	if (!journal->is_file)
		return;
	check_length(journal);
	if (save_ranges(journal) || save_head(journal))
		remove_file(journal);
}

void ws_journal_empty_table(struct ws_journal *journal, enum ws_table table, uint64_t first)
{
	journal->head->table[table].bytes = 0;
	journal->head->table[table].first = first;
	journal->head->change += 2;
	journal->emptied = true;
	start_saving(&journal->table[table], table);
}

void ws_journal_empty_strings(struct ws_journal *journal, uint64_t first)
{
	journal->head->strings = 0;
	journal->head->text_bytes = 0;
	journal->head->string_first = first;
	journal->head->change += 2;
	journal->emptied = true;
	start_saving(&journal->lengths, 0);
	start_saving(&journal->text, 0);
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

/* Read up to `size` bytes; *got gets their number. The caller frees them. */
static void *read_range(int fd, uint64_t offset, uint64_t size, uint64_t *got)
{
	char *memory = ws_malloc(size + 1);
	ssize_t n = 1;

	for (*got = 0; *got < size && n > 0; *got += (uint64_t)ws_max(n, 0))
		do
			n = pread(fd, memory + *got, size - *got, (off_t)(offset + *got));
		while (n < 0 && errno == EINTR);
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

/* The rows of a table. Rows before a cut are intact; where the stage is as long as it should be and
 * its checksum is wrong, its intact rows cannot be distinguished from damaged ones. */
static void copy_journal_rows(int fd, const struct ws_journal_head *head, uint32_t number,
			      uint64_t have, struct ws_journal_copy *copy)
{
	const struct ws_journal_table *table = &head->table[number];
	uint64_t got,
		known = ws_min(ws_max(have, table->first) - table->first,
			       table->bytes / table->row_size),
		skip = known * table->row_size, bytes = table->bytes - skip;

	copy->table[number].first = table->first + known;
	if (!bytes)
		return;
	copy->table[number].rows = read_range(fd, table->offset + skip, bytes, &got);
	copy->table[number].n = (uint32_t)(got / table->row_size);
	if (got == bytes &&
	    (skip || XXH3_64bits_withSeed(copy->table[number].rows, got, number) == table->check))
		return;
	copy->missing++;
	if (got == bytes)
		copy->table[number].n = 0;
}

/* `all`: nothing was skipped, so that the checksums can be compared. */
static bool are_strings_whole(const struct ws_journal_head *head,
			      const struct ws_journal_copy *copy, bool all)
{
	uint64_t sum = 0;

	if (all &&
	    (XXH3_64bits(copy->lengths, (size_t)copy->strings * 4) != head->lengths_check ||
	     (head->text_bytes && XXH3_64bits(copy->text, head->text_bytes) != head->text_check)))
		return false;
	for (uint32_t i = 0; i < copy->strings; i++)
		sum += copy->lengths[i];
	return sum == copy->text_bytes;
}

static void copy_journal_strings(int fd, const struct ws_journal_head *head,
				 const struct ws_journal_have *have, struct ws_journal_copy *copy)
{
	uint64_t lengths, text, known = 0, known_text = 0;

	if (have && have->string_first == head->string_first && have->strings <= head->strings &&
	    have->text_bytes <= head->text_bytes) {
		known = have->strings;
		known_text = have->text_bytes;
	}
	copy->string_first = head->string_first;
	copy->strings = (uint32_t)(head->strings - known);
	copy->text_bytes = head->text_bytes - known_text;
	if (!copy->strings)
		return;
	copy->lengths = read_range(fd, head->lengths_offset + known * 4, (size_t)copy->strings * 4,
				   &lengths);
	copy->text = read_range(fd, head->text_offset + known_text, copy->text_bytes, &text);
	if (lengths == (uint64_t)copy->strings * 4 && text == copy->text_bytes &&
	    are_strings_whole(head, copy, !known))
		return;
	copy->missing++;
	copy->strings = 0;
	copy->text_bytes = 0;
}

/* Whether no stage was emptied between two readings of the head. The writer writes the head in two
 * parts, so each part carries this count. */
static bool are_same_stages(const struct ws_journal_head *before,
			    const struct ws_journal_head *after)
{
	if (before->change != after->change)
		return false;
	for (uint32_t number = 0; number < WS_TABLE_COUNT; number++)
		if (before->table[number].first != after->table[number].first)
			return false;
	return true;
}

/* 1 copied, 0 changed meanwhile (try again), -1 damaged. */
static int copy_journal_once(int fd, const struct ws_journal_have *have,
			     struct ws_journal_copy *copy)
{
	struct ws_journal_head head, strings, after;

	if (ws_pread_all(fd, &head, sizeof(head), 0) || head.check != hash_head(&head) ||
	    !head_fits(&head))
		return -1;
	copy->report_bytes = head.report_bytes;
	for (uint32_t number = 0; number < WS_TABLE_COUNT; number++)
		copy_journal_rows(fd, &head, number, have ? have->rows[number] : 0, copy);
	/* Strings by the current count: the strings of a row are committed before the row. */
	if (ws_pread_all(fd, &strings, sizeof(strings), 0) || !head_fits(&strings))
		return -1;
	copy_journal_strings(fd, &strings, have, copy);
	if (ws_pread_all(fd, &after, sizeof(after), 0))
		return -1;
	/* An incomplete part may simply be in the middle of being written. */
	if (are_same_stages(&head, &after) &&
	    (!copy->missing || !memcmp(&head, &after, sizeof(head))))
		return 1;
	ws_journal_copy_free(copy);
	return 0;
}

static enum ws_journal_state copy_open_journal(int fd, const uint8_t uuid[16],
					       const struct ws_journal_have *have,
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
	for (int attempt = 0; attempt < LIVE_ATTEMPTS && !(rc = copy_journal_once(fd, have, copy));
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
				      const struct ws_journal_have *have,
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
	state = copy_open_journal(fd, uuid, have, copy, why);
	close(fd);
	return state;
}
