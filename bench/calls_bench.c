/*
 * calls_bench.c - times calls of the OS runtime from inside the program: calls_bench MODE N; prints
 * nanoseconds each.
 *
 *   mutex      lock and unlock without contention    pipe   a byte written and read
 *   untraced   getppid, a system call that no hook touches
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double read_clock(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void lock_mutexes(uint64_t n)
{
	static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

	for (uint64_t i = 0; i < n; i++) {
		pthread_mutex_lock(&m);
		pthread_mutex_unlock(&m);
	}
}

static void through_pipe(uint64_t n)
{
	int fds[2];
	char letter = 'x';

	if (pipe(fds))
		exit(1);
	for (uint64_t i = 0; i < n; i++)
		if (write(fds[1], &letter, 1) != 1 || read(fds[0], &letter, 1) != 1)
			exit(1);
}

static void call_untraced(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		getppid();
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
	void (*fn)(uint64_t) = !strcmp(mode, "mutex")	   ? lock_mutexes
			       : !strcmp(mode, "pipe")	   ? through_pipe
			       : !strcmp(mode, "untraced") ? call_untraced
							   : NULL;
	double begin;

	if (!fn || !n)
		return 2;
	fn(1000);
	begin = read_clock();
	fn(n);
	printf("%.2f\n", (read_clock() - begin) / (double)n);
	return 0;
}
