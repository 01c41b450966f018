/*
 * lock_convoy.c - threads that stand in line for one lock.
 *
 *   lock_convoy shared|split [THREADS]
 *
 * Threads score documents and count the scores in a table. shared: a thread holds the table's lock
 * while it scores a document, so that only one of them ever works. split: it scores without the
 * lock, into a table of its own, and adds that to the common one at the end. See
 * docs/tutorial/lock-convoy.md.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DOCUMENTS = 600, SCORES = 64, MOST_THREADS = 64, ROUNDS = 1000000 };

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t table[SCORES];
static int split, thread_count = 4;

static uint64_t score_document(uint64_t document)
{
	uint64_t hash = document + 1;

	for (int i = 0; i < ROUNDS; i++)
		hash = hash * 6364136223846793005ull + 1442695040888963407ull;
	return (hash >> 33) % SCORES;
}

static __attribute__((noinline)) void count_document(uint64_t document)
{
	pthread_mutex_lock(&table_lock);
	table[score_document(document)]++;
	pthread_mutex_unlock(&table_lock);
}

static void add_table(const uint64_t *own)
{
	pthread_mutex_lock(&table_lock);
	for (int i = 0; i < SCORES; i++)
		table[i] += own[i];
	pthread_mutex_unlock(&table_lock);
}

static void *score_share(void *number)
{
	uint64_t own[SCORES] = {0};

	for (int i = (int)(intptr_t)number; i < DOCUMENTS; i += thread_count) {
		if (split)
			own[score_document((uint64_t)i)]++;
		else
			count_document((uint64_t)i);
	}
	add_table(own);
	return NULL;
}

static double read_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	pthread_t threads[MOST_THREADS];
	double start = read_seconds();

	if (argc < 2 || (strcmp(argv[1], "shared") && strcmp(argv[1], "split"))) {
		fprintf(stderr, "usage: lock_convoy shared|split [THREADS]\n");
		return 2;
	}
	split = !strcmp(argv[1], "split");
	if (argc > 2)
		thread_count = atoi(argv[2]);
	if (thread_count < 1 || thread_count > MOST_THREADS) {
		fprintf(stderr, "lock_convoy: from 1 to %d threads\n", MOST_THREADS);
		return 2;
	}
	for (intptr_t i = 0; i < thread_count; i++)
		pthread_create(&threads[i], NULL, score_share, (void *)i);
	for (int i = 0; i < thread_count; i++)
		pthread_join(threads[i], NULL);
	printf("%s: %.2f s, %.2f ms a document\n", argv[1], read_seconds() - start,
	       1000 * (read_seconds() - start) / DOCUMENTS);
	return 0;
}
