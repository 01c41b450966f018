/*
 * what_if.h - how long a step would take if something cost less.
 *
 * A change is written KIND [NAME] * FACTOR: `kernel gemm*0.5`, `launches*0`, `wait gpu*0`. Several
 * that hold at once are joined by " + ". KIND is one of ws_what_if_kinds.
 */
#ifndef WS_ANALYZE_WHAT_IF_H
#define WS_ANALYZE_WHAT_IF_H

#include "analyze/graph.h"
#include "base/mem.h"

enum ws_change_kind {
	WS_CHANGE_KERNEL,   /* kernels whose name has NAME in it */
	WS_CHANGE_COPIES,   /* copies and memsets */
	WS_CHANGE_GPU,	    /* all work on GPUs */
	WS_CHANGE_CALL,	    /* calls of CUDA or the OS whose name has NAME in it */
	WS_CHANGE_LAUNCHES, /* calls that launch kernels and graphs, and the latency after them */
	WS_CHANGE_WAIT,	    /* waits: for what NAME says, or in a call that has NAME in it */
	WS_CHANGE_RANGE,    /* code in ranges called NAME, and work launched there */
	WS_CHANGE_PHASE,    /* code in the phase NAME (phases.h), and work launched there */
	WS_CHANGE_CODE,	    /* code of functions whose name has NAME in it, by samples */
	WS_CHANGE_CPU,	    /* all code and calls of CUDA on cores */
	WS_CHANGES
};

struct ws_change {
	enum ws_change_kind kind;
	char *name; /* NULL where the kind takes none */
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
	uint64_t unchanged; /* what the schedule says without a change: `now`, unless wrong */
	uint64_t changed;   /* ns that things which change took before, on all threads and GPUs */
	size_t matches;	    /* how many things they are */
	size_t steps;	    /* in the part, at least 1 */
};

/* Schedule again with the changes. Returns 0, or -1 with a message where a change concerns nothing
 * that was recorded. */
int ws_what_if_schedule(const struct ws_graph *graph, const struct ws_changes *changes,
			struct ws_what_if *result, struct ws_err *err);
/* A change as it was asked for, and what came of it. */
struct ws_what_if_answer {
	const char *text; /* the user's */
	struct ws_what_if result;
	char *assumption; /* owned */
};

/* What the result assumes, as a sentence without its full stop. Append. */
void ws_what_if_put_assumption(const struct ws_graph *graph, const struct ws_changes *changes,
			       struct ws_text *text);

#endif
