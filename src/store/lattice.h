/*
 * lattice.h - times of a clock that advances in steps.
 *
 * Many processor counters are read at one resolution and advance at a coarser one: steps of about
 * 10 ns on several x86-64 processors, of 18 to 52 ns on most aarch64. Converted to nanoseconds,
 * differences look random in their low bits, but are really whole numbers of steps that are not
 * whole nanoseconds. Stored as such a number, with a correction that is nearly always 0, a duration
 * takes some three bits less.
 */
#ifndef WS_LATTICE_H
#define WS_LATTICE_H

#include <stdbool.h>
#include <stdint.h>

/* Step lengths are 32.32 fixed-point nanoseconds; 0 stands for none. */

/* The step that the times of these rows have in common, or 0. `guess`: a step to try first, or 0;
 * with `search` false nothing else is tried. */
uint64_t ws_find_clock_step(const uint64_t *start, const uint64_t *end, uint32_t rows,
			    uint64_t guess, bool search);

/* Arrays of one element per row. `end` and its two are NULL for a table without spans; `gaps`: a
 * start counts from the previous end. */
struct ws_lattice {
	uint64_t scale, better; /* `better`: set by ws_split_times: the step from all rows, far more
				   exact than from a sample */
	uint32_t corrections;	/* that are not zero */
	bool gaps;
	uint32_t rows;
	uint64_t *start_steps, *span_steps; /* since the time before; spans: + 1, 0 for null */
	uint8_t *start_rest, *span_rest;    /* corrections in ns, zigzag */
};

/* Times to steps. False when a correction does not fit, which means that these times have no such
 * step. */
bool ws_split_times(struct ws_lattice *lattice, const uint64_t *start, const uint64_t *end);
/* Steps to times: `start` and `end` may be the same arrays as the steps. */
void ws_join_times(const struct ws_lattice *lattice, uint64_t first, uint64_t *start,
		   uint64_t *end);

#endif
