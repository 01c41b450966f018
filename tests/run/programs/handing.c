/*
 * handing.c - threads that hand one turn around, so that each waits for all others every time:
 * handing THREADS LAPS. Prints how often a thread waited.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 64 };
static sem_t turns[THREADS];
static long threads, laps;

static void *wait_for_turns(void *arg)
{
	long me = (sem_t *)arg - turns;

	for (long i = 0; i < laps; i++) {
		while (sem_wait(&turns[me]))
			;
		sem_post(&turns[(me + 1) % threads]);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS];

	threads = argc > 1 ? atol(argv[1]) : 32;
	laps = argc > 2 ? atol(argv[2]) : 1000;
	if (threads < 1 || threads > THREADS)
		return 2;
	for (long i = 0; i < threads; i++)
		sem_init(&turns[i], 0, i == 0);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, wait_for_turns, &turns[i]))
			return 3;
	for (long i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf("%ld\n", threads * laps);
	return 0;
}
