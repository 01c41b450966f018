/*
 * steps_bench.c - a program of marked steps without a GPU, for comparing runs of it.
 *
 *   steps_bench [SHARE [STEPS]]
 *
 * A step computes in three ranges of different lengths. With SHARE the range "score" works that
 * much longer: 0.05 for 5 %.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "warpsight/annotate.h"

enum { STEPS = 150, PARSE = 400000, SCORE = 1500000, STORE = 700000 };

static volatile uint64_t result;

static double read_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static __attribute__((noinline)) void compute(int rounds)
{
	uint64_t hash = result;

	for (int i = 0; i < rounds; i++)
		hash = hash * 6364136223846793005ull + 1442695040888963407ull;
	result = hash;
}

static void compute_in(const char *range, int rounds)
{
	ws_range_push(range);
	compute(rounds);
	ws_range_pop();
}

int main(int argc, char **argv)
{
	double share = argc > 1 ? atof(argv[1]) : 0, start = read_ms();
	int steps = argc > 2 ? atoi(argv[2]) : STEPS;
	char name[32];

	for (int i = 0; i < steps; i++) {
		snprintf(name, sizeof(name), "step %d", i);
		ws_range_push(name);
		compute_in("parse", PARSE);
		compute_in("score", (int)(SCORE * (1 + share)));
		compute_in("store", STORE);
		ws_range_pop();
	}
	printf("%.3f ms a step\n", (read_ms() - start) / steps);
	return 0;
}
