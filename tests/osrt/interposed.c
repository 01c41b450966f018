/*
 * interposed.c - scenario: the user has a library of their own (interposer.c) that interposes what
 * we do. Preloaded (its path is in WS_TEST_INTERPOSER) it stands before ours; linked (built with
 * LINKED) behind.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "scenario.h"

static void counted(void)
{
	int *counts = dlsym(RTLD_DEFAULT, "interposer_counts");
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t c = PTHREAD_COND_INITIALIZER;
	int fds[2];
	char byte;

#ifndef LINKED
	printf("#env LD_PRELOAD=%s\n", getenv("WS_TEST_INTERPOSER"));
	if (!getenv("LD_PRELOAD")) /* the bare run only says what to preload */
		return;
#endif
	CHECK(counts && !pipe(fds));
	counts[0] = counts[1] = counts[2] = 0;
	for (int i = 0; i < 100; i++) {
		CHECK(write(fds[1], "x", 1) == 1 && read(fds[0], &byte, 1) == 1);
		CHECK(!pthread_mutex_lock(&mutex) && !pthread_cond_signal(&c) &&
		      !pthread_mutex_unlock(&mutex));
	}
	CHECK(counts[0] == 100 && counts[1] == 100 && counts[2] == 100);
	usleep(1500);
	want("name=usleep n=1");
}

static const struct scenario scenarios[] = {{"counted", counted}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return argc > 1 ? run_scenario(scenarios, argv[1]) : list_scenarios(scenarios);
}
