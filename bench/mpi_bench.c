/*
 * mpi_bench.c - times calls of MPI from inside the program: mpi_bench MODE N; prints nanoseconds.
 *
 *   send       processor time of MPI_Send, each (the build makes it with a stand-in, whose call
 * takes next to nothing) clocks     two readings of the processor's counter, which is the least
 * that a wrapper takes pingpong   one way of 8 bytes between two ranks, the median of windows of
 * 400, as OSU's benchmark has it; bench/run.py compiles it with mpicc where there is one
 */
#ifdef STANDIN
#include "../tests/libraries/standin_mpi.h"
#else
#include <mpi.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../src/base/ticks.h"

enum { BYTES = 8, WINDOW = 400, WARM_UP = 20 };

/* Nanoseconds of a clock. */
static double read_clock(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double time_sends(long n)
{
	char bytes[BYTES] = {0};
	double begin = read_clock(CLOCK_THREAD_CPUTIME_ID);

	for (long i = 0; i < n; i++)
		MPI_Send(bytes, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
	return (read_clock(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)n;
}

static double time_clocks(long n)
{
	double begin = read_clock(CLOCK_THREAD_CPUTIME_ID);
	uint64_t sum = 0;

	for (long i = 0; i < n; i++)
		sum += ws_read_counter() + ws_read_counter();
	if (sum == 1)
		puts("");
	return (read_clock(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)n;
}

#ifndef STANDIN
static int compare_times(const void *first, const void *second)
{
	const double *left = first, *right = second;

	return (*left > *right) - (*left < *right);
}

static double time_window(int rank)
{
	char bytes[BYTES] = {0};
	double begin;

	MPI_Barrier(MPI_COMM_WORLD);
	begin = read_clock(CLOCK_MONOTONIC);
	for (int i = 0; i < WINDOW; i++) {
		if (!rank)
			MPI_Send(bytes, BYTES, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(bytes, BYTES, MPI_CHAR, !rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank)
			MPI_Send(bytes, BYTES, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
	}
	return (read_clock(CLOCK_MONOTONIC) - begin) / WINDOW / 2;
}

static double time_messages(int rank, long n)
{
	double *times = calloc((size_t)n, sizeof(*times)), median;

	for (long i = -WARM_UP; times && i < n; i++)
		times[i < 0 ? 0 : i] = time_window(rank);
	if (times)
		qsort(times, (size_t)n, sizeof(*times), compare_times);
	median = times ? times[n / 2] : 0;
	free(times);
	return median;
}
#endif

int main(int argc, char **argv)
{
	long n = argc > 2 ? atol(argv[2]) : 1000;
	const char *mode = argc > 1 ? argv[1] : "";
	double ns = 0;
	int rank = 0;

	MPI_Init(&argc, &argv);
	if (!strcmp(mode, "send"))
		ns = time_sends(n);
	if (!strcmp(mode, "clocks"))
		ns = time_clocks(n);
#ifndef STANDIN
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (!strcmp(mode, "pingpong"))
		ns = time_messages(rank, n);
#endif
	if (!rank)
		printf("%.3f\n", ns);
	MPI_Finalize();
	return 0;
}
