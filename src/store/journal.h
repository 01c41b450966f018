/* journal.h - the file beside a report that holds what is not in blocks yet: staged rows, and
 * strings that wait for their block. */
#ifndef WS_JOURNAL_H
#define WS_JOURNAL_H

#include "base/err.h"
#include "store/format.h"

/* ---- the writer's side ---- */

/* The written part of a range that grows at its end. */
struct ws_journal_saved {
	uint64_t bytes;
	struct XXH3_state_s *hash;
};

struct ws_journal {
	struct ws_journal_head *head; /* start of the stage, in private memory */
	size_t size;
	char *path; /* NULL when there is no file */
	int fd;
	bool is_file;
	bool emptied; /* since the head was written */
	struct ws_journal_saved table[WS_TABLE_COUNT], lengths, text;
};

struct ws_journal_sizes {
	uint32_t rows[WS_TABLE_COUNT];
	uint32_t strings, text;
};

/*
 * Create the stage. With `path`, it gets a file (replacing any that exists), whose space is
 * allocated in full; when that is not possible (disk full, no permission), or `path` is NULL, it is
 * plain memory: then only written blocks survive a kill, and is_file is false. Never fails.
 */
void ws_journal_create(struct ws_journal *journal, const char *path, const uint8_t uuid[16],
		       const struct ws_journal_sizes *sizes);
/*
 * Append to the file the new data up to head->strings, text_bytes and the tables' `bytes`, and then
 * write the head. A file that was truncated is rewritten. If writing fails, the file is removed and
 * is_file becomes false.
 */
void ws_journal_save(struct ws_journal *journal);
/* Call this before setting these counts: if stages were emptied, the file must say so before their
 * place is reused. */
void ws_journal_save_emptied(struct ws_journal *journal);
/* The stage of a table, or of the strings, is in the report now. */
void ws_journal_empty_table(struct ws_journal *journal, enum ws_table table, uint64_t first);
void ws_journal_empty_strings(struct ws_journal *journal, uint64_t first);
/*
 * Staged rows belong to another report from now on, which already has `first` rows of each table,
 * and the strings below `string_first`, in blocks. The file gets the name `path`; if it cannot be
 * renamed, a new one is made.
 */
void ws_journal_restart(struct ws_journal *journal, const char *path, const uint8_t uuid[16],
			const uint64_t first[WS_TABLE_COUNT], uint64_t string_first);
/* Free the stage, and remove the file. */
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
	uint64_t string_first; /* id of the first waiting string, copied or not */
	uint32_t strings;      /* copied: the last of the waiting ones */
	uint32_t *lengths;
	char *text;
	uint64_t text_bytes;
	uint32_t missing; /* damaged or cut stages: left out, except for the rows before a cut */
};

enum ws_journal_state {
	WS_JOURNAL_NONE,  /* no file there */
	WS_JOURNAL_OTHER, /* belongs to another report */
	WS_JOURNAL_BAD,	  /* damaged, or written by another build: *why says which */
	WS_JOURNAL_COPIED,
};
/* The parts that a returning reader already has. Such parts are not copied; checksums, which cover
 * whole stages, are then not compared. */
struct ws_journal_have {
	uint64_t rows[WS_TABLE_COUNT];		    /* of each table, in the report and the journal;
						       UINT64_MAX where it wants none */
	uint64_t string_first, strings, text_bytes; /* of the copy it made last */
};
/* Copy the journal at `path` if it belongs to the report `uuid`, without what `have` names (NULL:
 * all of it). Free with ws_journal_copy_free, whatever the result. */
enum ws_journal_state ws_journal_copy(const char *path, const uint8_t uuid[16],
				      const struct ws_journal_have *have,
				      struct ws_journal_copy *copy, struct ws_err *why);
void ws_journal_copy_free(struct ws_journal_copy *copy);

#endif
