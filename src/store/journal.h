/*
 * journal.h - the file beside a report that holds its open end: staged rows, and strings that wait
 * for their block.
 */
#ifndef WS_JOURNAL_H
#define WS_JOURNAL_H

#include "base/err.h"
#include "store/format.h"

/* ---- the writer's side ---- */

struct ws_journal {
	struct ws_journal_head *head; /* start of the mapping */
	size_t size;
	char *path; /* NULL when the stage is plain memory */
	int fd;
	bool is_file;
};

struct ws_journal_sizes {
	uint32_t rows[WS_TABLE_COUNT];
	uint32_t strings, text;
};

/*
 * Create the stage. With `path`, it is a file there (replacing any that exists), all of whose space
 * is allocated, so that writing to the mapping cannot fail; when that is not possible (disk full,
 * no permission), or `path` is NULL, it is plain memory: then nothing but the blocks written
 * survives a kill, and is_file is false. Never fails.
 */
void ws_journal_create(struct ws_journal *journal, const char *path, const uint8_t uuid[16],
		       const struct ws_journal_sizes *sizes);
/* Unmap, and remove the file. */
void ws_journal_remove(struct ws_journal *journal);

char *ws_journal_rows(const struct ws_journal *journal, enum ws_table table);
uint32_t *ws_journal_lengths(const struct ws_journal *journal);
char *ws_journal_text(const struct ws_journal *journal);

/* Path of the journal of a report; owned by the caller. */
char *ws_journal_path(const char *report);

/* ---- the reader's side ---- */

/* A consistent copy of what a journal has committed. */
struct ws_journal_copy {
	uint64_t report_bytes;
	struct {
		char *rows;
		uint64_t first;
		uint32_t n;
	} table[WS_TABLE_COUNT];
	uint64_t string_first;
	uint32_t strings;
	uint32_t *lengths;
	char *text;
	uint64_t text_bytes;
};

enum ws_journal_state {
	WS_JOURNAL_NONE,  /* no file there */
	WS_JOURNAL_OTHER, /* belongs to another report */
	WS_JOURNAL_BAD,	  /* damaged, or written by another build: *why says which */
	WS_JOURNAL_COPIED,
};
/* Copy the journal at `path` if it belongs to the report `uuid`. Free with ws_journal_copy_free,
 * whatever the result. */
enum ws_journal_state ws_journal_copy(const char *path, const uint8_t uuid[16],
				      struct ws_journal_copy *copy, struct ws_err *why);
void ws_journal_copy_free(struct ws_journal_copy *copy);

#endif
