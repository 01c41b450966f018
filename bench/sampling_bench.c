/*
 * sampling_bench.c - what samples and context switches cost the program: each case prints one
 * number, of processor time where it can be.
 *
 *   work MS        work that takes about so many milliseconds bare: milliseconds of CPU time that
 * it took switches N     two threads wake each other N times: nanoseconds of CPU time a switch
 *   threads N      microseconds of CPU time for creating and joining a thread
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double cpu_seconds(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static unsigned long mix_bits(unsigned long x, unsigned long rounds)
{
	while (rounds--)
		x = x * 6364136223846793005ul + 1442695040888963407ul;
	return x;
}

static double spin_for(double ms)
{
	const unsigned long piece =
		200000; /* the same number of steps in each run: 4 cycles each */
	double begin = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
	volatile unsigned long x = 1;

	for (unsigned long i = 0; i < (unsigned long)(ms * 3); i++)
		x = mix_bits(x, piece);
	return (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - begin) * 1e3;
}

static int ping[2], pong[2], rounds;

static void *answer_pings(void *arg)
{
	char letter;

	for (int i = 0; i < rounds; i++)
		if (read(ping[0], &letter, 1) != 1 || write(pong[1], &letter, 1) != 1)
			abort();
	return arg;
}

static double time_switches(int n)
{
	double begin = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
	pthread_t thread;
	char letter = 0;

	rounds = n / 2;
	if (pipe(ping) || pipe(pong) || pthread_create(&thread, NULL, answer_pings, NULL))
		exit(1);
	for (int i = 0; i < rounds; i++)
		if (write(ping[1], &letter, 1) != 1 || read(pong[0], &letter, 1) != 1)
			exit(1);
	pthread_join(thread, NULL);
	return (cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - begin) * 1e9 / n;
}

static void *do_nothing(void *arg)
{
	return arg;
}

static double time_threads(int n)
{
	double begin = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
	pthread_t thread;

	for (int i = 0; i < n; i++)
		if (pthread_create(&thread, NULL, do_nothing, NULL) || pthread_join(thread, NULL))
			exit(1);
	return (cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - begin) * 1e6 / n;
}

int main(int argc, char **argv)
{
	double n = argc > 2 ? atof(argv[2]) : 0;

	if (n > 0 && !strcmp(argv[1], "work"))
		printf("%.3f\n", spin_for(n));
	else if (n > 0 && !strcmp(argv[1], "switches"))
		printf("%.1f\n", time_switches((int)n));
	else if (n > 0 && !strcmp(argv[1], "threads"))
		printf("%.2f\n", time_threads((int)n));
	else
		return 2;
	return 0;
}
