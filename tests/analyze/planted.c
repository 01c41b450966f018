/*
 * planted.c - programs with one fault each, for the tests of `analyze`: planted NAME.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static volatile double sink;

static void compute(long rounds)
{
	double sum = 0;

	for (long i = 0; i < rounds; i++)
		sum += (double)i * 0.5;
	sink = sum;
}

static void __attribute__((noinline)) update_total(void)
{
	pthread_mutex_lock(&lock);
	compute(1000000);
	pthread_mutex_unlock(&lock);
}

static void *take_turns(void *unused)
{
	for (int i = 0; i < 120; i++)
		update_total();
	return unused;
}

static void *share_unevenly(void *number)
{
	for (int i = 0; i < 10; i++) {
		compute(number ? 500000 : 10000000);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void run_threads(int count, void *(*work)(void *))
{
	pthread_t threads[4];

	for (intptr_t i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void __attribute__((noinline)) touch_pages(void)
{
	const size_t size = 32u << 20;

	for (int i = 0; i < 40; i++) {
		char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				    -1, 0);

		for (size_t at = 0; memory != MAP_FAILED && at < size; at += 4096)
			memory[at] = 1;
		munmap(memory, size);
	}
}

static void __attribute__((noinline)) wait_a_while(void)
{
	struct timespec pause = {0, 10000000};

	for (int i = 0; i < 30; i++) {
		compute(100000);
		nanosleep(&pause, NULL);
	}
}

int main(int argc, char **argv)
{
	const char *fault = argc > 1 ? argv[1] : "";

	pthread_barrier_init(&barrier, NULL, 2);
	if (!strcmp(fault, "lock"))
		run_threads(4, take_turns);
	else if (!strcmp(fault, "imbalance"))
		run_threads(2, share_unevenly);
	else if (!strcmp(fault, "pages"))
		touch_pages();
	else if (!strcmp(fault, "sleep"))
		wait_a_while();
	else if (!strcmp(fault, "healthy"))
		compute(200000000);
	else
		return 2;
	return 0;
}
