/* slow_steps.h - steps that take much longer than the median, and which part of their critical path
 * grew most compared with the median step. */
#ifndef WS_ANALYZE_SLOW_STEPS_H
#define WS_ANALYZE_SLOW_STEPS_H

#include "analyze/breakdown.h"

struct ws_analysis;

#define WS_SLOW_STEP 1.3 /* multiple of the median */
enum { WS_SLOW_STEPS_SHOWN = 3 };

struct ws_slow_step {
	size_t step; /* its number in model->steps */
	uint64_t ns;
	enum ws_cause cause; /* the cause that grew most compared with the median step */
	uint64_t more;	     /* ns by which it grew */
	uint32_t name;	     /* string: the kernel, call or function that grew most; 0 for none */
};

struct ws_slow_steps {
	struct ws_slow_step steps[WS_SLOW_STEPS_SHOWN]; /* slowest first */
	size_t shown, count;				/* number of all that count as slow */
	uint64_t median;				/* ns; 0 without steps */
};

void ws_slow_steps_find(const struct ws_analysis *analysis, struct ws_slow_steps *slow);

#endif
