/*
 * stack_faults.h - why call stacks of CPU samples are incomplete and functions have no names, and
 * what helps: by module or cause, ranked by share.
 */
#ifndef WS_QUERY_STACK_FAULTS_H
#define WS_QUERY_STACK_FAULTS_H

#include "query/profile.h"

struct ws_stack_faults {
	char **sentences; /* without full stop; the largest share first */
	size_t count, cap;
};

/*
 * The faults that affect a hundredth or more of the weight of CPU samples between two moments
 * (session ns): the time that they stand for, or what they have counted. `damaged` counts blocks
 * that could not be read; it may be NULL. Free with ws_stack_faults_free.
 */
void ws_find_stack_faults(const struct ws_report *report, struct ws_stacks *stacks,
			  uint64_t time_min, uint64_t time_max, struct ws_stack_faults *faults,
			  uint64_t *damaged);
void ws_stack_faults_free(struct ws_stack_faults *faults);

#endif
