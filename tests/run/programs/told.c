/*
 * told.c - does what it is told by lines of standard input, and says so by a line: for tests that
 * must know what has happened.
 *
 *   work N       N ranges "work 1", "work 2"..., numbered on from the last, on two threads in turn
 *   range T NAME a range of T microseconds
 *   mark TEXT    a mark
 *   push NAME    opens a range
 *   pop          closes it
 *   exit STATUS
 *   die          by SIGKILL
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "warpsight/annotate.h"

static unsigned long done;

static void work(unsigned long count)
{
	char name[32];

	while (count--) {
		snprintf(name, sizeof(name), "work %lu", ++done);
		ws_range_push(name);
		ws_range_pop();
	}
}

static void *work_apart(void *count)
{
	work(*(unsigned long *)count);
	return NULL;
}

static void work_on_two_threads(unsigned long count)
{
	unsigned long half = count / 2;
	pthread_t thread;

	work(count - half);
	if (half && !pthread_create(&thread, NULL, work_apart, &half))
		pthread_join(thread, NULL);
}

static void make_range(const char *text)
{
	char *name;
	unsigned long us = strtoul(text, &name, 10);

	ws_range_push(name + 1);
	usleep((useconds_t)us);
	ws_range_pop();
}

static void do_line(const char *word, const char *rest)
{
	if (!strcmp(word, "work"))
		work_on_two_threads(strtoul(rest, NULL, 10));
	else if (!strcmp(word, "range"))
		make_range(rest);
	else if (!strcmp(word, "mark"))
		ws_mark(rest);
	else if (!strcmp(word, "push"))
		ws_range_push(rest);
	else if (!strcmp(word, "pop"))
		ws_range_pop();
	else if (!strcmp(word, "die"))
		raise(SIGKILL);
	else
		exit(atoi(rest));
}

int main(void)
{
	char line[256];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		char *rest = line + strcspn(line, " \n");

		line[strcspn(line, "\n")] = 0;
		if (*rest)
			*rest++ = 0;
		do_line(line, rest);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
