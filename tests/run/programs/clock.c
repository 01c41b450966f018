/*
 * clock.c - ranges between readings of CLOCK_MONOTONIC_RAW, for checking a recorder's conversion of
 * times: clock N FILE. Each line of FILE is the clock before the push, after it, before the pop and
 * after it, in nanoseconds.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "warpsight/annotate.h"

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC_RAW, &time);
	return (long long)time.tv_sec * 1000000000 + time.tv_nsec;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 0;
	FILE *file = argc > 2 ? fopen(argv[2], "w") : NULL;

	if (!file)
		return 98;
	for (int i = 0; i < n; i++) {
		long long a, b, c, d;

		a = now();
		ws_range_push("timed");
		b = now();
		usleep(200);
		c = now();
		ws_range_pop();
		d = now();
		fprintf(file, "%lld %lld %lld %lld\n", a, b, c, d);
		usleep(800);
	}
	return fclose(file) ? 99 : 0;
}
