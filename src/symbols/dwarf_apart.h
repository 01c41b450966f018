/*
 * dwarf_apart.h - debugging information read in a process of its own. libdw crashes where its own
 * allocations fail, and on some damaged files; that process then ends, and only lines and inlined
 * functions of one module are lost.
 */
#ifndef WS_SYMBOLS_DWARF_APART_H
#define WS_SYMBOLS_DWARF_APART_H

#include "symbols/dwarf.h"

struct ws_dwarf_reader {
	double limit_s; /* processor time after which it is ended, in seconds; 0: no limit */
	double spent_s; /* set: the processor time that it took */
	int signal;	/* set: what ended it early, 0 when it came to its end */
	bool starved;	/* set: it found no memory */
	bool cut;	/* set: it ended before it had read all, whatever the reason */
};

struct ws_dwarf_apart; /* a reader under way; several may be */

/*
 * Start a process that does what ws_dwarf_find does; `elf` is not needed any more then. Where the
 * system permits no further process, this one reads by itself before this returns. What `query`
 * refers to and `reader` must stay until the reader is finished.
 */
struct ws_dwarf_apart *ws_dwarf_start_apart(const struct ws_elf *elf,
					    const struct ws_dwarf_query *query,
					    struct ws_dwarf_reader *reader);
/*
 * Receive the results, for which `query->found` is called in this process, set `missing`, wait for
 * the reader's end and free it. If it ended early, its results so far have been passed on, and the
 * result is -1; otherwise that of ws_dwarf_find.
 */
int ws_dwarf_finish_apart(struct ws_dwarf_apart *apart, struct ws_dwarf_missing *missing);
/* What the forked process sends, read from `fd`, which is closed: anything may be in it. Sets
 * reader->cut. For tests. */
int ws_dwarf_receive(int fd, const struct ws_dwarf_query *query, struct ws_dwarf_missing *missing,
		     struct ws_dwarf_reader *reader);

#endif
