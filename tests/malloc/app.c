/*
 * app.c - allocates memory in known ways. Blocks of 16 MiB are sampled for certain, so that their
 * sums are exact; they are not written to, and take no memory. Whatever the allocator is asked for
 * must be as it is without the hook.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 16 << 20, KEPT = 4, FORKS = 20 };

static void *kept[KEPT];

static void expect(int holds, int line)
{
	if (holds)
		return;
	fprintf(stderr, "line %d\n", line);
	exit(1);
}
#define EXPECT(holds) expect((holds) != 0, __LINE__)

__attribute__((noinline)) void keep_blocks(void)
{
	for (int i = 0; i < KEPT; i++)
		EXPECT(kept[i] = malloc(LARGE));
	free(kept[0]);
	free(kept[1]);
}

__attribute__((noinline)) void grow_block(void)
{
	char *block = malloc(LARGE / 2);

	EXPECT(block);
	strcpy(block, "kept");
	block = realloc(block, LARGE);
	EXPECT(block && !strcmp(block, "kept"));
	free(block);
}

static void check_answers(void)
{
	volatile size_t huge = SIZE_MAX;
	void *block = NULL;
	char *zeroes;

	errno = 0;
	EXPECT(!malloc(huge / 2) && errno == ENOMEM);
	EXPECT(!calloc(huge, 2) && !reallocarray(NULL, huge, 2));
	EXPECT(!posix_memalign(&block, 4096, 100) && (uintptr_t)block % 4096 == 0);
	free(block);
	EXPECT(posix_memalign(&block, 3, 100) == EINVAL);
	block = aligned_alloc(256, 512);
	EXPECT(block && (uintptr_t)block % 256 == 0);
	free(block);
	zeroes = calloc(1000, 10);
	for (int i = 0; i < 10000; i++)
		EXPECT(!zeroes[i]);
	errno = 7;
	free(zeroes);
	EXPECT(errno == 7);
	free(NULL);
}

static void *churn(void *arg)
{
	for (int i = 0; i < 100000; i++) {
		char *volatile block = malloc(1000);

		block = realloc(block, 2000);
		block[1999] = 1;
		free(block);
	}
	return arg;
}

/* Children of a process whose other threads allocate. */
static void fork_often(void)
{
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();
		int status;

		if (!child) {
			churn(NULL);
			_exit(3);
		}
		EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
	}
}

int main(void)
{
	pthread_t threads[3];

	check_answers();
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, churn, NULL);
	fork_often();
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	keep_blocks();
	grow_block();
	puts("done");
	return 0;
}
