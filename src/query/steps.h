/*
 * steps.h - the steps of a training loop (or of any loop), as spans of time of a process.
 *
 * A step is an annotation ProfilerStep#N of a framework's profiler or, where there is none, an NVTX
 * range that is called a step: step, iteration, iter, train step, training step, train_step or
 * training_step in any case, with or without a number after it. Another name may be asked for.
 * Where steps of a thread nest, only the outermost counts.
 */
#ifndef WS_QUERY_STEPS_H
#define WS_QUERY_STEPS_H

#include "query/query.h"
#include "schema/step_name.h"

struct ws_step {
	uint64_t start, end;
	uint32_t process, thread;
	uint32_t text;	 /* string id of its name */
	uint32_t number; /* in its process, from 0 by start */
};

struct ws_steps {
	struct ws_step *steps; /* by (process, start) */
	size_t count, cap;
	uint64_t damaged;
};

/* Read the steps described above when `name` is NULL, else ranges of this name, with or without a
 * number after it. Returns 0, or -1 with a message. Free with ws_steps_free in any case. */
int ws_steps_load(const struct ws_report *report, const struct ws_names_by_id *who,
		  const char *name, struct ws_steps *steps, struct ws_err *err);
void ws_steps_free(struct ws_steps *steps);

#endif
