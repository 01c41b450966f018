/*
 * gl_bench.c - the processor time of a call of OpenGL, each: gl_bench MODE N; prints nanoseconds.
 * The build makes it with a stand-in, whose call takes next to nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void glBindBuffer(unsigned target, unsigned buffer);

static double read_clock(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
	long n = argc > 2 ? atol(argv[2]) : 1000;
	double begin = read_clock();

	for (long i = 0; i < n; i++)
		glBindBuffer(0x8892, 0);
	printf("%.3f\n", (read_clock() - begin) / (double)n);
	return 0;
}
