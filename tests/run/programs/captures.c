/*
 * captures.c - ranges that begin and end collections, around numbered work: captures CASE. Work W
 * is 200 NVTX ranges "W 0" to "W 199". What must be recorded is said beside each case.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "warpsight/annotate.h"

static void work(int number)
{
	char name[32];

	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "%d %d", number, i);
		ws_range_push(name);
		ws_range_pop();
	}
}

static int c_push(void) /* 2, 5, 8 */
{
	for (int i = 0; i < 10; i++) {
		if (i % 3 == 2)
			ws_range_push("capture");
		work(i);
		if (i % 3 == 2)
			ws_range_pop();
	}
	return 0;
}

static int c_lasts(void) /* the same; ends when it is killed */
{
	c_push();
	for (;;)
		pause();
	return 0;
}

static int c_nested(void) /* 1, 2, 3 */
{
	work(0);
	ws_range_push("outer");
	ws_range_push("capture");
	work(1);
	ws_range_push("capture");
	work(2);
	ws_range_pop();
	work(3);
	ws_range_pop();
	work(4);
	ws_range_pop();
	return 0;
}

static int c_domain(void) /* 1 */
{
	ws_domain domain = ws_domain_create("mine");
	ws_event event = ws_event_registered(domain, ws_string_register(domain, "capture"));

	ws_range_push("capture"); /* of another domain */
	work(0);
	ws_range_pop();
	ws_range_push_event(&event);
	work(1);
	ws_range_pop_in(domain);
	work(2);
	return 0;
}

static ws_range_id shared;

static void *end_shared(void *arg)
{
	(void)arg;
	work(2);
	ws_range_end(shared);
	work(3);
	return NULL;
}

static int c_startend(void) /* 1, 2 */
{
	pthread_t thread;

	work(0);
	shared = ws_range_start("capture");
	work(1);
	pthread_create(&thread, NULL, end_shared, NULL);
	pthread_join(thread, NULL);
	work(4);
	return 0;
}

static int c_program(void) /* 1, 2 and 4 */
{
	work(0);
	ws_start();
	work(1);
	ws_start();
	work(2);
	ws_stop();
	work(3);
	ws_stop();
	ws_start();
	work(4);
	ws_stop();
	work(5);
	return 0;
}

static pthread_barrier_t barrier;

static void *second(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&barrier); /* the first has opened */
	ws_range_push("capture");
	pthread_barrier_wait(&barrier); /* both have */
	pthread_barrier_wait(&barrier); /* the first has closed */
	work(3);
	ws_range_pop();
	work(4);
	return NULL;
}

static int c_threads(void) /* 1, 2, 3 */
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, second, NULL);
	work(0);
	ws_range_push("capture");
	work(1);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	work(2);
	ws_range_pop();
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	return 0;
}

/* The child opens, the parent works meanwhile: 1, 2. */
static int c_processes(void)
{
	int to[2], from[2];
	char c = 0;
	pid_t pid;

	if (pipe(to) || pipe(from))
		return 1;
	pid = fork();
	if (!pid) {
		ws_range_push("capture");
		work(1);
		if (write(from[1], &c, 1) != 1 || read(to[0], &c, 1) != 1)
			_exit(1);
		ws_range_pop();
		work(3);
		_exit(0);
	}
	if (read(from[0], &c, 1) != 1)
		return 1;
	work(2);
	if (write(to[1], &c, 1) != 1)
		return 1;
	waitpid(pid, NULL, 0);
	work(4);
	return 0;
}

static int c_dies(void) /* 1, and in the second range 4 */
{
	pid_t pid = fork();

	if (!pid) {
		ws_range_push("capture");
		work(1);
		kill(getpid(), SIGKILL);
	}
	waitpid(pid, NULL, 0);
	usleep(700000);
	work(3);
	ws_range_push("capture");
	work(4);
	ws_range_pop();
	work(5);
	return 0;
}

static int c_never(void)
{
	work(0);
	return 0;
}

static int c_often(void) /* all even ones up to 38, each a range of its own, one after the other */
{
	for (int i = 0; i < 40; i++) {
		if (i % 2 == 0)
			ws_range_push("capture");
		work(i);
		if (i % 2 == 0)
			ws_range_pop();
	}
	return 0;
}

/* Ten steps i with work i, and work 100 + i before each but the first. */
static int make_steps(const char *format, int first)
{
	char name[32];

	for (int i = 0; i < 10; i++) {
		if (i) {
			ws_range_push("prepare");
			work(100 + i);
			ws_range_pop();
		}
		snprintf(name, sizeof(name), format, first + i);
		ws_range_push(name);
		ws_range_push("step"); /* the outermost counts */
		work(i);
		ws_range_pop();
		ws_range_pop();
	}
	return 0;
}

static int c_steps(void)
{
	return make_steps("Iteration", 0);
}

static int c_numbered(void) /* from 7 on */
{
	return make_steps("train_step:%d", 7);
}

static int c_batches(void)
{
	return make_steps("batch_%d", 0);
}

static int c_phases(void) /* no range around all of a step, which has work i and 50 + i */
{
	for (int i = 0; i < 10; i++) {
		ws_range_push("load");
		work(i);
		ws_range_pop();
		ws_range_push("compute");
		work(50 + i);
		ws_range_pop();
	}
	return 0;
}

static int c_startsteps(void)
{
	for (int i = 0; i < 10; i++) {
		ws_range_id step = ws_range_start("step");

		work(i);
		ws_range_end(step);
	}
	return 0;
}

static const struct {
	const char *name;
	int (*fn)(void);
} cases[] = {
	{"push", c_push},	  {"lasts", c_lasts},
	{"nested", c_nested},	  {"domain", c_domain},
	{"startend", c_startend}, {"program", c_program},
	{"threads", c_threads},	  {"processes", c_processes},
	{"dies", c_dies},	  {"never", c_never},
	{"often", c_often},	  {"steps", c_steps},
	{"numbered", c_numbered}, {"batches", c_batches},
	{"phases", c_phases},	  {"startsteps", c_startsteps},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			int rc = cases[i].fn();

			printf("%s\n", cases[i].name);
			return rc;
		}
	return 2;
}
