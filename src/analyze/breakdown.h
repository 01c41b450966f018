/*
 * breakdown.h - where the time of a path went: its pieces by cause, and what ran or waited there.
 * All rows add up to exactly the length of the path.
 */
#ifndef WS_ANALYZE_BREAKDOWN_H
#define WS_ANALYZE_BREAKDOWN_H

#include "analyze/code.h"
#include "analyze/path.h"

enum ws_cause {
	WS_CAUSE_CPU,	    /* code of the program on a core */
	WS_CAUSE_CUDA_CALL, /* inside a call of CUDA that does not wait for work */
	WS_CAUSE_CORE,	    /* waiting for a core */
	WS_CAUSE_LOCK,	    /* locks, conditions, semaphores whose holder is not known */
	WS_CAUSE_GIL,
	WS_CAUSE_IO,
	WS_CAUSE_POLL,
	WS_CAUSE_SLEEP,
	WS_CAUSE_CHILD,
	WS_CAUSE_FAULT,
	WS_CAUSE_OTHER_WAIT,
	WS_CAUSE_GPU_COMPUTE,
	WS_CAUSE_GPU_COMM,
	WS_CAUSE_GPU_COPY,
	WS_CAUSE_LAUNCH,
	WS_CAUSE_GPU_DELAY,
	WS_CAUSE_UNKNOWN,
	WS_CAUSES
};
/* "computation on the GPU", "waiting for storage or the network"... */
const char *ws_name_cause(enum ws_cause cause);
enum ws_cause ws_classify_piece(const struct ws_model *model, const struct ws_piece *piece);

/* A cause with the code, call or kernel that it is about. */
struct ws_breakdown_row {
	uint8_t cause;
	uint32_t thread;	    /* 0 where there are several or none */
	struct ws_code_place place; /* of CPU, CUDA_CALL and waits with a stack */
	uint32_t name;		    /* string: the kernel, the call that waits or launches */
	uint32_t path;		    /* string: the file of a wait */
	uint64_t ns;
	uint64_t pieces;
	struct ws_span longest; /* an example */
};

/* Code that runs for so long without a call of CUDA does work of its own, rather than what goes
 * with launching. */
enum { WS_APART_NS = 500000 };

struct ws_breakdown {
	struct ws_breakdown_row *rows; /* by time, most first */
	size_t count, cap;
	uint64_t total;
	uint64_t apart; /* time in such stretches of code */
	uint64_t by_cause[WS_CAUSES];
};

/* Delays on a GPU between pieces of its work, each right before a piece: there may be millions that
 * say nothing else. */
struct ws_delays {
	const struct ws_work_op *ops;
	struct ws_delay {
		uint32_t op, ns;
	} * list;
	size_t count, cap;
};

/* Sum up a path, and delays between its pieces (NULL for none). Free with ws_breakdown_free. */
void ws_breakdown_sum(const struct ws_model *model, const struct ws_path *path,
		      const struct ws_delays *delays, struct ws_breakdown *breakdown);
void ws_breakdown_free(struct ws_breakdown *breakdown);
/* Append what a row is about: code, call, kernel. */
void ws_breakdown_put_row(const struct ws_model *model, const struct ws_breakdown_row *row,
			  struct ws_text *text);

#endif
