/*
 * numbers.c - ranges that are counted: each is called by its number, and when it began and ended is
 * kept in a file, so that a test knows what lay in a collection.
 *
 * numbers FILE THREADS MICROSECONDS: threads do ranges of some microseconds until the file says
 * stop, or the parent is gone.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "numbers.h"
#include "warpsight/annotate.h"

static struct numbers *numbers;
static long pause_us;

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void *do_ranges(void *arg)
{
	struct numbers_thread *thread = arg;
	struct timespec pause = {0, pause_us * 1000};
	char name[32];

	for (uint32_t n = 0; n < NUMBERS_MOST && !numbers->stop; n++) {
		uint64_t begin = now();

		snprintf(name, sizeof(name), "%d %u", (int)(thread - numbers->thread), n);
		thread->range[n].before_begin = begin;
		ws_range_push(name);
		thread->range[n].after_begin = now();
		if (n % 8 == 0)
			nanosleep(&pause, NULL);
		thread->range[n].before_end = now();
		ws_range_pop();
		thread->range[n].after_end = now();
		__atomic_store_n(&thread->count, n + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int fd = argc == 4 ? open(argv[1], O_RDWR) : -1, threads = atoi(argv[2]);
	pthread_t thread[NUMBERS_THREADS];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pause_us = atol(argv[3]);
	numbers = mmap(NULL, sizeof(*numbers), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || numbers == MAP_FAILED || threads > NUMBERS_THREADS)
		return 2;
	for (int i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, do_ranges, &numbers->thread[i]);
	numbers->ready = 1;
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	return 7;
}
