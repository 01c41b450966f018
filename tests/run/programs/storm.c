/*
 * storm.c - ranges as fast as they go, counted by the program itself: storm MODE THREADS N
 * [COUNTERS].
 *
 *   plain       one name                          registered  one registered string
 *   names       64 names through a reused buffer  random      names that never repeat, with some
 * work of random length paced       a name in 8, about 2 us of work in each range; with N 0 it runs
 * until it is killed, or until the count begun of the last thread that could be, which nothing else
 * uses, is no longer 0 signals     pairs in the main program and in a handler that a timer runs
 * every 50 us, wherever it strikes calls       write and read of a byte through a pipe instead of
 * ranges; N pairs
 *
 * COUNTERS is a file that is mapped shared and holds, for each thread, how many pairs it has begun
 * and how many it has completed, written before the push and after the pop. It survives the death
 * of the program, so that a test can tell what a report must hold: at least the completed ones, at
 * most those begun. The same counts are printed at the end.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "warpsight/annotate.h"

enum { MAX_THREADS = 8192 };

struct counter {
	_Atomic uint64_t begun, done;
	uint64_t pad[6];
};

static struct counter *counters;
static uint64_t n;
static const char *mode;
static ws_string registered;

static uint64_t next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static void work(unsigned steps)
{
	for (unsigned i = 0; i < steps; i++)
		__asm__ volatile("" ::: "memory");
}

static void begin(struct counter *counter)
{
	atomic_store_explicit(&counter->begun,
			      atomic_load_explicit(&counter->begun, memory_order_relaxed) + 1,
			      memory_order_release);
}

static void done(struct counter *counter)
{
	atomic_store_explicit(&counter->done,
			      atomic_load_explicit(&counter->done, memory_order_relaxed) + 1,
			      memory_order_release);
}

static void pair(struct counter *counter, const char *name)
{
	begin(counter);
	ws_range_push(name);
	ws_range_pop();
	done(counter);
}

static void run_plain(struct counter *counter)
{
	for (uint64_t i = 0; i < n; i++)
		pair(counter, "storm");
}

static void run_registered(struct counter *counter)
{
	for (uint64_t i = 0; i < n; i++) {
		begin(counter);
		ws_range_push_in(NULL, registered);
		ws_range_pop();
		done(counter);
	}
}

static void run_names(struct counter *counter)
{
	char buf[32];

	for (uint64_t i = 0; i < n; i++) {
		memcpy(buf, "name 00", 8);
		buf[5] += (char)(i % 64 / 10);
		buf[6] += (char)(i % 64 % 10);
		pair(counter, buf);
	}
}

static void run_random(struct counter *counter)
{
	uint64_t seed = 88172645463325252u + (uint64_t)(counter - counters);
	char buf[64];

	for (uint64_t i = 0; i < n; i++) {
		snprintf(buf, sizeof(buf), "%llx", (unsigned long long)next_random(&seed));
		begin(counter);
		ws_range_push(buf);
		work((unsigned)(next_random(&seed) % 500));
		ws_range_pop();
		done(counter);
	}
}

static void run_paced(struct counter *counter)
{
	static const char *const names[8] = {"a", "b", "c", "d", "e", "f", "g", "h"};

	for (uint64_t i = 0;
	     n ? i < n
	       : !atomic_load_explicit(&counters[MAX_THREADS - 1].begun, memory_order_relaxed);
	     i++) {
		begin(counter);
		ws_range_push(names[i % 8]);
		work(3000);
		ws_range_pop();
		done(counter);
	}
}

static void on_timer(int sig)
{
	(void)sig;
	pair(&counters[MAX_THREADS - 1], "handler");
}

static void run_signals(struct counter *counter)
{
	struct sigaction sa = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
	struct itimerval it = {{0, 50}, {0, 50}};

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
	for (uint64_t i = 0; i < n; i++)
		pair(counter, "main");
	memset(&it, 0, sizeof(it));
	setitimer(ITIMER_REAL, &it, NULL);
}

static void run_calls(struct counter *counter)
{
	int fds[2];
	char b = 'x';

	if (pipe(fds))
		exit(99);
	for (uint64_t i = 0; i < n; i++) {
		begin(counter);
		if (write(fds[1], &b, 1) != 1 || read(fds[0], &b, 1) != 1)
			exit(99);
		done(counter);
	}
	close(fds[0]);
	close(fds[1]);
}

static const struct {
	const char *name;
	void (*run)(struct counter *counter);
} modes[] = {{"plain", run_plain},   {"registered", run_registered}, {"names", run_names},
	     {"random", run_random}, {"paced", run_paced},	     {"signals", run_signals},
	     {"calls", run_calls}};

static void *run(void *c)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(modes[i].name, mode))
			modes[i].run(c);
	return NULL;
}

static void map_counters(const char *path)
{
	size_t size = sizeof(struct counter) * MAX_THREADS;
	int fd = -1;

	if (path) {
		fd = open(path, O_RDWR | O_CREAT, 0600);
		if (fd < 0 || ftruncate(fd, (off_t)size))
			exit(99);
	}
	counters = mmap(NULL, size, PROT_READ | PROT_WRITE,
			path ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	if (counters == MAP_FAILED)
		exit(99);
	if (fd >= 0)
		close(fd);
}

static void run_threads(int threads)
{
	pthread_t *thread = calloc((size_t)threads, sizeof(*thread));
	pthread_attr_t a;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 65536);
	for (int i = 1; i < threads; i++)
		if (pthread_create(&thread[i], &a, run, &counters[i]))
			exit(97);
	run(&counters[0]);
	for (int i = 1; i < threads; i++)
		pthread_join(thread[i], NULL);
	free(thread);
}

int main(int argc, char **argv)
{
	uint64_t total = 0, in_handler;
	int threads;

	if (argc < 4)
		return 98;
	mode = argv[1];
	threads = atoi(argv[2]);
	n = strtoull(argv[3], NULL, 10);
	if (threads < 1 || threads >= MAX_THREADS)
		return 98;
	map_counters(argc > 4 ? argv[4] : NULL);
	registered = ws_string_register(NULL, "storm registered");
	run_threads(threads);
	for (int i = 0; i < MAX_THREADS - 1; i++)
		total += counters[i].done;
	in_handler = counters[MAX_THREADS - 1].done;
	if (!strcmp(mode, "signals"))
		printf("%llu %llu\n", (unsigned long long)total, (unsigned long long)in_handler);
	else
		puts("done");
	return 0;
}
