/*
 * waking.c - a thread that wakes others again and again: waking CALLS. Each call finds one of them
 * waiting. Prints the number of calls.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { WAITERS = 3 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER, waits = PTHREAD_COND_INITIALIZER;
static int waiting, woken, over;

static void *wait_for_turns(void *arg)
{
	pthread_mutex_lock(&mutex);
	while (!over) {
		waiting++;
		pthread_cond_signal(&waits);
		while (!woken && !over)
			pthread_cond_wait(&turn, &mutex);
		woken = 0;
		waiting--;
	}
	pthread_mutex_unlock(&mutex);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread[WAITERS];
	long calls = argc > 1 ? atol(argv[1]) : 1000;

	for (int i = 0; i < WAITERS; i++)
		if (pthread_create(&thread[i], NULL, wait_for_turns, NULL))
			return 3;
	pthread_mutex_lock(&mutex);
	for (long i = 0; i < calls; i++) {
		while (woken || waiting < WAITERS)
			pthread_cond_wait(&waits, &mutex);
		woken = 1;
		pthread_cond_signal(&turn);
	}
	over = 1;
	pthread_cond_broadcast(&turn);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < WAITERS; i++)
		pthread_join(thread[i], NULL);
	printf("%ld\n", calls);
	return 0;
}
