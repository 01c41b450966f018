/*
 * marks.c - marks that are numbered: marks THREADS [COUNT [PAUSE_US]].
 *
 * Each thread marks "T N", T its number and N from 1 on, inside a range "step" that is inside a
 * range "the whole thread"; COUNT marks, or with 0 until standard input ends. A report of any part
 * of the run must hold a stretch of numbers without a gap. Prints how many marks each thread made.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "warpsight/annotate.h"

static _Atomic int over;
static unsigned long most;
static long pause_us = 20;

struct task {
	int number;
	unsigned long marks;
	pthread_t thread;
};

static void make_mark(struct task *task)
{
	const struct timespec pause = {0, pause_us * 1000};
	char text[48];

	ws_range_push("step");
	snprintf(text, sizeof(text), "%d %lu", task->number, ++task->marks);
	ws_mark(text);
	ws_range_pop();
	if (pause_us)
		nanosleep(&pause, NULL);
}

static void *run_task(void *arg)
{
	struct task *task = arg;

	ws_range_push("the whole thread");
	while (!atomic_load(&over) && (!most || task->marks < most))
		make_mark(task);
	ws_range_pop();
	return NULL;
}

static void wait_for_end(void)
{
	char bytes[256];

	while (read(STDIN_FILENO, bytes, sizeof(bytes)) > 0)
		;
	atomic_store(&over, 1);
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	struct task *tasks = calloc((size_t)threads, sizeof(*tasks));

	most = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	if (argc > 3)
		pause_us = atol(argv[3]);
	if (!tasks)
		return 1;
	for (int i = 0; i < threads; i++) {
		tasks[i].number = i;
		if (pthread_create(&tasks[i].thread, NULL, run_task, &tasks[i]))
			return 1;
	}
	printf("marking\n");
	fflush(stdout);
	if (!most)
		wait_for_end();
	for (int i = 0; i < threads; i++) {
		pthread_join(tasks[i].thread, NULL);
		printf("%d %lu\n", i, tasks[i].marks);
	}
	free(tasks);
	return 7;
}
