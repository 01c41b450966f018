/*
 * launch_bench.c - times launches of a kernel that nobody chooses, on the tests' stand-in for the
 * driver: launch_bench THREADS N; prints the nanoseconds of processor time that one of the N
 * launches of each thread takes, which does not depend on what else runs.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../tests/kernel/standin.h"

enum { THREADS_MOST = 64, WARM = 1000 };

static uint64_t launches;

static void do_nothing(void **arguments)
{
	(void)arguments;
}

static const size_t one[] = {8, 0};
static struct standin_kernel kernel = {"nothing", do_nothing, one};

static void launch(uint64_t n)
{
	void *value = NULL, *arguments[] = {&value};

	for (uint64_t i = 0; i < n; i++)
		cuLaunchKernel(&kernel, 1, 1, 1, 32, 1, 1, 0, (void *)7, arguments, NULL);
}

static void *launch_all(void *argument)
{
	launch(launches);
	return argument;
}

static double read_clock(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
	size_t n = argc > 2 ? strtoull(argv[1], NULL, 10) : 0;
	pthread_t threads[THREADS_MOST];
	double begin;

	launches = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	if (!n || n > THREADS_MOST || !launches || cuInit(0))
		return 2;
	launch(WARM);
	begin = read_clock();
	for (size_t i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, launch_all, NULL))
			return 1;
	for (size_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("%.2f\n", (read_clock() - begin) / (double)launches / (double)n);
	return 0;
}
