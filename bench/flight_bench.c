/*
 * flight_bench.c - ranges at a steady rate: flight_bench RATE SECONDS. RATE ranges a second, of a
 * thousand names at random, with work of random length inside; one in a hundred has a name that
 * never repeats. Prints how many it made and the processor time of each, ns.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "warpsight/annotate.h"

static volatile unsigned sink;

static double read_clock(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void make_range(uint64_t number, uint64_t random)
{
	char name[32];

	if (number % 100)
		snprintf(name, sizeof(name), "part %u", (unsigned)(random % 1000));
	else
		snprintf(name, sizeof(name), "request %llu", (unsigned long long)number);
	ws_range_push(name);
	for (unsigned i = 0; i < random % 300; i++)
		sink += i;
	ws_range_pop();
}

int main(int argc, char **argv)
{
	const struct timespec pause = {0, 500000};
	double rate = argc > 1 ? atof(argv[1]) : 1e6, seconds = argc > 2 ? atof(argv[2]) : 10,
	       began = read_clock(CLOCK_MONOTONIC), used = read_clock(CLOCK_PROCESS_CPUTIME_ID),
	       passed;
	uint64_t made = 0, random = 1;

	while ((passed = read_clock(CLOCK_MONOTONIC) - began) < seconds) {
		while ((double)made < passed * rate)
			make_range(++made, next_random(&random));
		nanosleep(&pause, NULL);
	}
	used = read_clock(CLOCK_PROCESS_CPUTIME_ID) - used;
	printf("%llu %.2f\n", (unsigned long long)made, used * 1e9 / (double)made);
	return 0;
}
