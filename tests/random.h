/*
 * random.h - numbers that look random and are the same in every run, for tests, made-up reports and
 * made-up inputs.
 */
#ifndef WS_TESTS_RANDOM_H
#define WS_TESTS_RANDOM_H

#include <stdint.h>

#define RANDOM_SEED UINT64_C(88172645463325252)

/* The next number of a sequence (xorshift, G. Marsaglia 2003); *state begins as RANDOM_SEED, or any
 * other number but 0. */
static inline uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The next number of a sequence whose bits are spread (xorshift*, S. Vigna 2014). */
static inline uint64_t random_star(uint64_t *state)
{
	return random_next(state) * UINT64_C(2685821657736338717);
}

#endif
