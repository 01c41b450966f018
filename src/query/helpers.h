/*
 * helpers.h - threads that work for another thread while it waits for them: PyTorch's autograd
 * engine, workers of a pool, a thread that is joined. What a helper launches belongs to the ranges
 * of the waiting thread.
 *
 * Two rules decide which thread a helper works for:
 *
 * - Sequence numbers, of operators or in the texts of emit_nvtx ("MulBackward0, seq = 5"). An
 *   operator of the backward pass has the number of its forward operator. The thread that the
 * latter ran on asked for the backward pass, and waits for it. What a helper does between two such
 *   operators is for the thread of the earlier one.
 * - Waits, where there is no such number. A helper's piece of work is what it launches between two
 *   waits of its own. It is for the one other thread of its process that has a range open around
 *   the piece and is in one wait during the whole of it: for a condition, a semaphore, a futex or
 *   the end of a thread, or, where calls of the OS runtime were not recorded, off the cores. If two
 *   threads wait like this, the work is assigned to neither.
 */
#ifndef WS_QUERY_HELPERS_H
#define WS_QUERY_HELPERS_H

#include "query/query.h"

enum ws_helper_rule { WS_HELPS_NOBODY, WS_HELPS_BY_SEQUENCE, WS_HELPS_BY_WAIT };

/* The ranges that work may belong to. */
struct ws_helper_ranges {
	const uint32_t *threads; /* ids of those that have any */
	size_t count;
	/* Whether a thread has one range that is open from `start` to `end`, ns on the session
	 * clock. */
	bool (*has_range)(void *context, uint32_t thread, uint64_t start, uint64_t end);
	void *context;
};

struct ws_helpers;

/* Find out which threads with calls of CUDA work for others. Returns NULL with a message when there
 * is too much to keep; the caller closes it. `ranges` is used only during the call. */
struct ws_helpers *ws_helpers_open(const struct ws_report *report, const struct ws_names_by_id *who,
				   const struct ws_helper_ranges *ranges, struct ws_err *err);
/* Whether this thread sometimes works for others. */
bool ws_is_helper(const struct ws_helpers *helpers, uint32_t thread);
/* The thread that `thread` works for during a call from `start` to `end`; 0 for none. *rule is how
 * this is known. */
uint32_t ws_find_helped_thread(const struct ws_helpers *helpers, uint32_t thread, uint64_t start,
			       uint64_t end, enum ws_helper_rule *rule);
void ws_helpers_close(struct ws_helpers *helpers); /* NULL is fine */

#endif
