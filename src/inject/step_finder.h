/*
 * step_finder.h - which launches of a program begin its steps, found while it runs.
 *
 * A step is the outermost repetition of the sequence of launches. Layers inside a step repeat, too,
 * so that a repetition counts only after it has lasted without a break for long enough; how long
 * that is, step_finder.c says.
 */
#ifndef WS_STEP_FINDER_H
#define WS_STEP_FINDER_H

#include <stdbool.h>
#include <stdint.h>

enum { WS_FINDER_NAMES = 4096, WS_FINDER_WINDOW = 65536 };

enum ws_finder_state {
	WS_FINDER_SEARCHES,
	WS_FINDER_COUNTS, /* steps are seen, and the wanted one comes later than the next */
	WS_FINDER_KNOWS,  /* steps are known and stay so */
	WS_FINDER_UNSURE, /* the wanted step began when the repetition was too short to be sure */
	WS_FINDER_LATE,	  /* steps were recognised when the wanted one had begun */
};

struct ws_finder_kernel {
	uint64_t hash;	/* 0: free */
	uint64_t first; /* its first launch */
	uint32_t uses;
	uint32_t scratch; /* of one search */
};

/* Zeroed memory with `wanted` set is a finder of no launches. */
struct ws_step_finder {
	uint32_t wanted; /* number of the first step that is wanted, from 0 */
	enum ws_finder_state state;
	uint32_t number;  /* of the step that the last launch is in */
	uint32_t period;  /* launches of a step, 0: none is seen */
	bool final;	  /* it is too late, and nothing else is looked for */
	uint16_t anchor;  /* kernel that comes once in a step; 0: steps are counted by launches */
	uint32_t needed;  /* whole periods without a break by which steps are recognised */
	uint32_t certain; /* the same, for steps that stay known after a break */
	uint64_t launches, start, next_look;
	uint16_t sequence[WS_FINDER_WINDOW]; /* the last launches: 1 + index of the kernel */
	uint32_t match[WS_FINDER_WINDOW];
	struct ws_finder_kernel kernels[WS_FINDER_NAMES];
};

/* The next launch, by a hash of the kernel's name that is not 0. Returns whether it begins a step
 * as far as is known; this is certain when the state is WS_FINDER_KNOWS. */
bool ws_finder_add(struct ws_step_finder *finder, uint64_t hash);

#endif
