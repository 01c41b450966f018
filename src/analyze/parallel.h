/*
 * parallel.h - how many of a program's threads worked at the same time, which of them worked alone
 * and where, how often they handed over to each other, and how many of them lived only briefly.
 *
 * A thread works while it runs or waits for a core. This covers the explained process and those
 * that it and its children started.
 */
#ifndef WS_ANALYZE_PARALLEL_H
#define WS_ANALYZE_PARALLEL_H

#include "analyze/code.h"
#include "analyze/model.h"

struct ws_parallel {
	uint64_t together_ns;	    /* time in which two threads or more worked */
	uint64_t alone_ns;	    /* time in which exactly one worked, and ran */
	uint32_t lone;		    /* the thread that worked alone longest; 0 for none */
	uint64_t lone_ns;	    /* how long it did */
	struct ws_span longest;	    /* of its stretches alone */
	struct ws_code_place place; /* where it was most of that time */
	uint64_t brief_threads; /* threads that ran for less than WS_BRIEF_RUN_NS and soon ended */
	uint64_t threads;	/* threads that existed in the window */
	uint64_t waits;		/* how often threads waited for other threads or processes */
	uint64_t running;	/* of all threads, ns */
	uint64_t lost;		/* of all threads, ns: unknown because records were lost */
	uint32_t wait_function; /* string: the call in which most of these waits were */
	uint64_t wait_function_waits;
	struct ws_code_place wait_place; /* the place of that call, as far as a stack shows it */
};
#define WS_BRIEF_RUN_NS 5000000

void ws_parallel_measure(const struct ws_model *model, struct ws_parallel *parallel);
/* Whether a process is the explained one, or one that it or its children started. */
bool ws_is_explained(const struct ws_model *model, uint32_t process);

#endif
