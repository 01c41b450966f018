/* annotated.c - a program annotated with annotate.h, in the ways that test_rows.c looks for. The
 * argument says which. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "warpsight/annotate.h"

void annotated_one(void);
void annotated_two(void);

static void basic(void)
{
	ws_domain domain = ws_domain_create("my domain"), gone = ws_domain_create("gone");
	ws_string s = ws_string_register(domain, "registered");
	ws_event event = ws_event_text(domain, "everything");
	ws_range_id id;

	ws_name_thread("the main thread");
	ws_category_name(domain, 3, "third");
	ws_range_push("outer");
	ws_range_push("inner");
	ws_range_pop();
	ws_range_push_in(domain, s);
	ws_range_pop_in(domain);
	event.color = 0xff8800ff;
	event.has_color = 1;
	event.category = 3;
	ws_event_int(&event, -42);
	ws_range_push_event(&event);
	ws_range_pop_in(domain);
	ws_event_double(&event, 2.5);
	ws_mark_event(&event);
	ws_event_uint(&event, UINT64_MAX);
	id = ws_range_start_event(&event);
	ws_range_end_in(domain, id);
	ws_mark("a mark");
	ws_range_push(NULL);
	ws_range_pop();
	{
		WS_RANGE("scoped");
	}
	ws_range_pop();
	ws_domain_destroy(gone);
}

static ws_range_id handed[100];

static void *ends_them(void *arg)
{
	for (int i = 0; i < 100; i += 2)
		ws_range_end(handed[i]);
	return arg;
}

static void *eight(void *arg)
{
	char name[32];

	snprintf(name, sizeof(name), "worker %d", (int)(intptr_t)arg);
	ws_name_thread(name);
	for (int i = 0; i < 1000; i++) {
		ws_range_push(name);
		ws_range_pop();
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[8];

	for (int i = 0; i < 100; i++)
		handed[i] = ws_range_start(i & 1 ? "stays" : "crosses");
	pthread_create(&thread[0], NULL, ends_them, NULL);
	pthread_join(thread[0], NULL);
	for (int i = 1; i < 100; i += 2)
		ws_range_end(handed[i]);
	for (int i = 0; i < 8; i++)
		pthread_create(&thread[i], NULL, eight, (void *)(intptr_t)i);
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
}

static void forks(char *self)
{
	ws_domain domain = ws_domain_create("before the fork");
	ws_string s = ws_string_register(domain, "made before");
	pid_t pid;

	ws_range_push("parent");
	ws_range_push_in(domain, s);
	pid = fork();
	if (!pid) {
		ws_range_push("child");
		ws_range_push_in(domain, s);
		ws_mark("in the child");
		ws_range_pop_in(domain);
		ws_range_pop();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	pid = fork();
	if (!pid) {
		execl(self, self, "basic", (char *)NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	ws_range_pop_in(domain);
	ws_range_pop();
}

static void deep(void)
{
	for (int i = 0; i < 5000; i++)
		if (ws_range_push("deep") != i && getenv("NVTX_INJECTION64_PATH"))
			exit(3);
	for (int i = 5000; i-- > 0;)
		if (ws_range_pop() != i && getenv("NVTX_INJECTION64_PATH"))
			exit(4);
}

static void left_open(const char *how)
{
	ws_event event = ws_event_text(ws_domain_create("d"), "open with payload");

	ws_event_int(&event, 7);
	ws_range_start("started");
	ws_range_push("closed");
	ws_range_pop();
	ws_range_push("open");
	ws_range_push_event(&event);
	if (!strcmp(how, "kill"))
		kill(getpid(), SIGKILL);
	if (!strcmp(how, "abort"))
		abort();
	_exit(0);
}

static void texts(void)
{
	char *big = malloc((1 << 20) + 12346);
	char name[64];

	memset(big, 'x', (1 << 20) + 12345);
	big[(1 << 20) + 12345] = 0;
	ws_mark(big);
	big[9000] = 0;
	ws_range_push(big);
	ws_range_pop();
	ws_mark("\xe2\x82\xac \xf0\x9f\x9a\x80 unicode");
	ws_mark("");
	ws_mark("not \xff utf-8");
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "unique name number %d", i);
		ws_range_push(name);
		ws_range_pop();
	}
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "name %d", i % 64);
		ws_range_push(name);
		ws_range_pop();
	}
	free(big);
}

/* Begins before a collection that starts late, ends in it. Goes on until the file named by the
 * argument is there. */
static void across(void)
{
	ws_range_push("begins early");
	ws_mark("too early");
	usleep(1500000);
	ws_mark("in time");
	ws_range_pop();
	ws_range_push("never ends");
	usleep(1600000);
	ws_mark("too late");
	ws_range_pop();
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "basic"))
		basic();
	else if (!strcmp(what, "threads"))
		threads();
	else if (!strcmp(what, "forks"))
		forks(argv[0]);
	else if (!strcmp(what, "deep"))
		deep();
	else if (!strcmp(what, "open"))
		left_open(argc > 2 ? argv[2] : "exit");
	else if (!strcmp(what, "texts"))
		texts();
	else if (!strcmp(what, "across"))
		across();
	else if (!strcmp(what, "libraries")) {
		ws_range_push("in the program");
		annotated_one();
		annotated_two();
		ws_range_pop();
	} else {
		return 2;
	}
	return 0;
}
