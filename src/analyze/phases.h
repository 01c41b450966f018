/*
 * phases.h - what the steps of a training loop consist of: loading data, the forward and the
 * backward pass, the optimiser, communication.
 *
 * Ranges, annotations and operators of the steps' thread show this by their names. Where nothing is
 * marked, evidence shows it: code of a framework's data loader; launches by another thread while
 * the steps' thread waits, which is how autograd engines work; kernels of optimisers and
 * collectives by their names. Each moment belongs to one phase, so that they add up.
 */
#ifndef WS_ANALYZE_PHASES_H
#define WS_ANALYZE_PHASES_H

#include "analyze/model.h"

enum ws_phase {
	WS_PHASE_DATA,
	WS_PHASE_FORWARD,
	WS_PHASE_BACKWARD,
	WS_PHASE_OPTIMISER,
	WS_PHASE_COMMUNICATION,
	WS_PHASE_OTHER, /* waits for the GPU after all launches, and everything without evidence */
	WS_PHASES
};
const char *ws_name_phase(enum ws_phase phase); /* "data", "forward"... */

struct ws_phase_span {
	uint64_t start, end;
	enum ws_phase phase;
};

struct ws_phases {
	struct ws_phase_span *spans; /* touch each other; in order of time */
	size_t count, cap;
	size_t steps;		    /* steps that were examined: the first ones of many, else all */
	uint64_t total;		    /* their ns, to the end of the window if they are all steps */
	uint64_t ns[WS_PHASES];	    /* time in the phase, as the steps' thread goes through it */
	uint64_t gpu_ns[WS_PHASES]; /* GPU work that was launched in the phase, sum of its times */
	bool marked;		    /* ranges, annotations or operators indicate two or more */
	bool known; /* there are two phases or more besides WS_PHASE_OTHER; otherwise do not show
		       them */
};

/* The most pieces of GPU work in the steps that are examined. */
enum { WS_PHASES_WORK = 200000 };

/* Find the phases of a model with steps; of one without, none are known. Free with ws_phases_free.
 */
void ws_phases_find(const struct ws_model *model, struct ws_phases *phases);
void ws_phases_free(struct ws_phases *phases);
/* The phase at a moment within the steps. */
enum ws_phase ws_phases_at(const struct ws_phases *phases, uint64_t at);

#endif
