/* source_line.h - the text of a source line that a finding is about, where its file is here. */
#ifndef WS_ANALYZE_SOURCE_LINE_H
#define WS_ANALYZE_SOURCE_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

/*
 * Append a line (from 1) of a file, without the blanks around it, cut at a length that fits a
 * terminal. False, with nothing appended, where the path is not absolute, the file cannot be read,
 * was changed after `until` (nanoseconds since 1970), or has no such line, and for an empty line.
 */
bool ws_put_source_line(const char *path, uint32_t line, uint64_t until, struct ws_text *text);

/* A whole file under the same conditions; NULL where it cannot be read or is empty. The caller
 * frees it. */
char *ws_read_source(const char *path, uint64_t until);

/* The line of a shell's script that runs a command: the first that has its program's name and most
 * of its arguments, under the same conditions; 0 for none. */
uint32_t ws_find_command_line(const char *path, const char *command, uint64_t until);

/* The lines of a script, at most `most`, that have one of `words` (NULL-terminated) outside of
 * other words and of comments that take whole lines, under the same conditions; returns how many.
 */
size_t ws_find_statements(const char *path, uint64_t until, const char *const *words,
			  uint32_t *lines, size_t most);

/* What a line of Python stands in, within its function. */
struct ws_line_around {
	bool loop;
	bool head;	/* it is the head of a loop itself */
	bool lock;	/* the block of an asynchronous lock, semaphore or limiter */
	bool single;	/* which lets in one task at a time */
	uint32_t made;	/* the line that makes it; 0: not found */
	uint32_t taken; /* the line that takes it: async with ... */
	bool plain;	/* the function is no coroutine */
	unsigned loops; /* how many nested loops; those of comprehensions are not told */
	bool compares;	/* it is a condition that compares the items of a loop with something, or
			 * the head of a loop that begins with one: if left.id == right.id: */
	bool searches;	/* the same, surely, and not by their places (row[k] == other[k]) */
	bool joins;	/* it searches for the items of a loop around it */
	bool property;	/* the function is a property, computed at each access */
	bool polls;	/* it pauses (sleep) in a loop that goes on while something holds */
	uint32_t def;	/* the line on which its function begins; 0: it is in none */
};
/* By the lines before it, under the same conditions; nothing where it cannot be told. */
struct ws_line_around ws_look_around_line(const char *path, uint32_t line, uint64_t until);
/* Whether a line of Python is of a loop that does nothing but to ask whether something has come:
 * while not done: pass; under the same conditions. */
bool ws_is_asking_loop(const char *path, uint32_t line, uint64_t until);
/* Whether a line of Python is in a loop that only lets other tasks go first: sleep(0). */
bool ws_is_yielding_loop(const char *path, uint32_t line, uint64_t until);
/* Whether the statement of Python that a line is in has one of `parts` (NULL-terminated) up to
 * there, under the same conditions. */
bool ws_has_statement_part(const char *path, uint32_t line, uint64_t until,
			   const char *const *parts);

#endif
