/* script_loops.h - the innermost loops of scripts, by their text: which line runs is not recorded
 * for most languages. */
#ifndef WS_ANALYZE_SCRIPT_LOOPS_H
#define WS_ANALYZE_SCRIPT_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ws_script_loop {
	uint32_t line;	/* from 1; 0: none was found */
	unsigned depth; /* how many loops deep, with those that call its function */
	bool compares;	/* it compares something with each item */
};

/* The loop of a script (a file unchanged since `until`, nanoseconds since 1970) that is deepest in
 * others, where its lines are indented as usual. */
struct ws_script_loop ws_find_deepest_loop(const char *path, uint64_t until);
/* The lines of a script of Perl, at most `most`, that copy a whole hash or array within a sub: my
 * ($key, %all) = @_; my @copy = @$list; returns how many. */
size_t ws_find_list_copies(const char *path, uint64_t until, uint32_t *lines, size_t most);

#endif
