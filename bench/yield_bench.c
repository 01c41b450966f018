/*
 * yield_bench.c - processes that hand a number to and fro and call sched_yield while they wait, as
 * ranks of MPI do that share cores: yield_bench SKIPPED MEASURED, in milliseconds; prints how many
 * nanoseconds one way takes.
 *
 * Two pairs on two cores, each pair on a core of its own, for where the kernel puts processes makes
 * more of a difference than recording them. The median of windows of 25 round trips, beginning when
 * SKIPPED is over.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 2, WINDOW = 25, TRIES = 10, MOST_WINDOWS = 200000 };

struct pair { /* shared by its two processes */
	_Alignas(128) atomic_long sent;
	_Alignas(128) atomic_long answered;
	double median;
};

static double read_clock(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Stay on the core of this number among those that the program may use. */
static void stay_on_core(int number)
{
	cpu_set_t usable, own;

	if (sched_getaffinity(0, sizeof(usable), &usable))
		return;
	number %= CPU_COUNT(&usable);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &usable) || number--)
			continue;
		CPU_ZERO(&own);
		CPU_SET(cpu, &own);
		sched_setaffinity(0, sizeof(own), &own);
		return;
	}
}

static long wait_for(atomic_long *word, long last)
{
	long value;

	for (int i = 0; (value = atomic_load_explicit(word, memory_order_acquire)) == last; i++)
		if (i % TRIES == TRIES - 1)
			sched_yield();
	return value;
}

static void answer(struct pair *pair)
{
	long value = 0;

	while ((value = wait_for(&pair->sent, value)) > 0)
		atomic_store_explicit(&pair->answered, value, memory_order_release);
}

static int compare_times(const void *first, const void *second)
{
	const double *left = first, *right = second;

	return (*left > *right) - (*left < *right);
}

static void send(struct pair *pair, double skipped, double measured)
{
	double *times = calloc(MOST_WINDOWS, sizeof(*times)), begin = read_clock() + skipped;
	double from = 0;
	long value = 0;
	int windows = 0;

	while (times && windows < MOST_WINDOWS && from < begin + measured) {
		from = read_clock();
		for (int i = 0; i < WINDOW; i++) {
			atomic_store_explicit(&pair->sent, ++value, memory_order_release);
			wait_for(&pair->answered, value - 1);
		}
		if (from >= begin)
			times[windows++] = (read_clock() - from) / WINDOW / 2;
	}
	atomic_store(&pair->sent, -1);
	if (windows)
		qsort(times, (size_t)windows, sizeof(*times), compare_times);
	pair->median = windows ? times[windows / 2] : 0;
	free(times);
}

int main(int argc, char **argv)
{
	struct pair *pairs = mmap(NULL, PAIRS * sizeof(*pairs), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double sum = 0;

	if (argc < 3 || pairs == MAP_FAILED)
		return 2;
	for (int i = 0; i < 2 * PAIRS; i++) {
		if (fork())
			continue;
		stay_on_core(i / 2);
		if (i % 2)
			answer(&pairs[i / 2]);
		else
			send(&pairs[i / 2], atof(argv[1]) * 1e6, atof(argv[2]) * 1e6);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	for (int i = 0; i < PAIRS; i++)
		sum += pairs[i].median;
	printf("%.1f\n", sum / PAIRS);
	return 0;
}
