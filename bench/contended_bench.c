/*
 * contended_bench.c - threads that hand items through one queue with a mutex and two conditions:
 * contended_bench THREADS ITEMS; prints how many seconds that took.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROOM = 100, MOST_THREADS = 1000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static int filled;
static long each;

static void *put(void *arg)
{
	for (long i = 0; i < each; i++) {
		pthread_mutex_lock(&mutex);
		while (filled == ROOM)
			pthread_cond_wait(&not_full, &mutex);
		filled++;
		pthread_cond_signal(&not_empty);
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

static void *get(void *arg)
{
	for (long i = 0; i < each; i++) {
		pthread_mutex_lock(&mutex);
		while (!filled)
			pthread_cond_wait(&not_empty, &mutex);
		filled--;
		pthread_cond_signal(&not_full);
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

static double read_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static pthread_t threads[MOST_THREADS];
	int count = argc > 2 ? atoi(argv[1]) / 2 * 2 : 0;
	double began = read_seconds();

	if (count < 2 || count > MOST_THREADS)
		return 2;
	each = atol(argv[2]) / (count / 2);
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, i % 2 ? get : put, NULL))
			return 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("%.6f\n", read_seconds() - began);
	return 0;
}
