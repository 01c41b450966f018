/*
 * trying.c - a thread that tries a lock and a semaphore again and again: trying CALLS. Prints how
 * often it got them.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	long calls = argc > 1 ? atol(argv[1]) : 1000, got = 0;
	sem_t sem;

	if (sem_init(&sem, 0, (unsigned)calls / 2))
		return 3;
	for (long i = 0; i < calls; i++) {
		got += !sem_trywait(&sem);
		if (!pthread_mutex_trylock(&mutex)) {
			got++;
			pthread_mutex_unlock(&mutex);
		}
	}
	printf("%ld\n", got);
	return 0;
}
