/*
 * what_if.h - how long a step would take if something cost less.
 *
 * A change is written KIND [NAME] * FACTOR: `kernel gemm*0.5`, `launches*0`, `wait gpu*0`. Several
 * changes at once are joined by " + ". KIND is one of ws_what_if_kinds.
 */
#ifndef WS_ANALYZE_WHAT_IF_H
#define WS_ANALYZE_WHAT_IF_H

#include "analyze/graph.h"
#include "base/mem.h"

enum ws_change_kind {
	WS_CHANGE_KERNEL,   /* kernels whose name includes NAME */
	WS_CHANGE_COPIES,   /* copies and memsets */
	WS_CHANGE_GPU,	    /* all work on GPUs */
	WS_CHANGE_CALL,	    /* calls of CUDA or the OS whose name includes NAME */
	WS_CHANGE_LAUNCHES, /* calls that launch kernels and graphs, and the latency after them */
	WS_CHANGE_WAIT,	    /* waits: for what NAME says, or in a call whose name includes NAME */
	WS_CHANGE_RANGE,    /* code in ranges called NAME, and work launched there */
	WS_CHANGE_PHASE,    /* code in the phase NAME (phases.h), and work launched there */
	WS_CHANGE_CODE,	    /* code of functions whose name includes NAME, by samples */
	WS_CHANGE_CPU,	    /* all code and calls of CUDA on cores */
	WS_CHANGES
};

struct ws_change {
	enum ws_change_kind kind;
	char *name; /* NULL where the kind takes no name */
	double factor;
};

struct ws_changes {
	struct ws_change *changes;
	size_t count, cap;
};

/* One line for each kind: how it is written, and what it is. */
struct ws_what_if_kind {
	const char *word, *about;
	bool named; /* takes a NAME */
};
extern const struct ws_what_if_kind ws_what_if_kinds[WS_CHANGES];

/* Read what a user wrote. Returns 0, or -1 with a message. Free with ws_changes_free in any case.
 */
int ws_changes_parse(const char *text, struct ws_changes *changes, struct ws_err *err);
void ws_changes_free(struct ws_changes *changes);

struct ws_what_if {
	uint64_t now, then; /* ns of the part of the window that was scheduled again */
	uint64_t unchanged; /* the scheduled time without a change: equal to `now` if the schedule
			       is right */
	uint64_t changed;   /* ns that the changed things took before, on all threads and GPUs */
	size_t matches;	    /* how many things change */
	size_t steps;	    /* in the part, at least 1 */
};

/* Schedule again with the changes. Returns 0, or -1 with a message where a change applies to
 * nothing that was recorded. */
int ws_what_if_schedule(const struct ws_graph *graph, const struct ws_changes *changes,
			struct ws_what_if *result, struct ws_err *err);
/* A change as the user asked for it, and its result. */
struct ws_what_if_answer {
	const char *text; /* the user's */
	struct ws_what_if result;
	char *assumption; /* owned */
};

/* Append what the result assumes, as a sentence without its full stop. */
void ws_what_if_put_assumption(const struct ws_graph *graph, const struct ws_changes *changes,
			       struct ws_text *text);

#endif
