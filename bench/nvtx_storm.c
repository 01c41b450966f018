/*
 * nvtx_storm.c - what an NVTX range costs the program that makes it: push+pop pairs as fast as they
 * go, in the ways programs make them.
 *
 *   nvtx_storm                     the storm: 3 M pairs plain and 3 M with a registered string in a
 * domain, three times (18 M ranges) nvtx_storm KIND [PAIRS [THREADS]]
 *
 * KIND is one of
 *   plain       one literal
 *   registered  one registered string in a domain, through attributes
 *   buffers     64 names, each written into one of 4 reused buffers just before, so that pointers
 * repeat with other contents unique      names that never repeat jitter      random work of 0 to
 * 400 ns inside, one of 1,000 names at random mark        marks, not ranges startend    start/end
 * ranges
 *
 * Prints nanoseconds a pair, per thread: elapsed, and of the thread's own processor time, which
 * other work on the machine does not touch. Making the names is measured without ranges beforehand
 * and taken off. Run it alone and under the recorder: the difference is what recording costs. It
 * uses annotate.h, so it needs no CUDA and runs under any NVTX tool.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "warpsight/annotate.h"

static ws_domain domain;
static ws_string registered;
static volatile unsigned sink;

static double read_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* "name" and a number, quicker than snprintf, so that the names do not drown what is measured. */
static void make_name(char *buf, uint64_t n)
{
	char digits[20];
	int i = 0, k = 5;

	memcpy(buf, "step ", 5);
	do {
		digits[i++] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	while (i)
		buf[k++] = digits[--i];
	buf[k] = 0;
}

static void do_work(uint64_t random)
{
	for (unsigned i = 0; i < random % 400; i++)
		sink += i;
}

static void loop_plain(long n, int on)
{
	for (long i = 0; i < n; i++)
		if (on) {
			ws_range_push("a plain range");
			ws_range_pop();
		}
}

static void loop_registered(long n, int on)
{
	for (long i = 0; i < n; i++)
		if (on) {
			ws_range_push_in(domain, registered);
			ws_range_pop_in(domain);
		}
}

static void push_named(long n, int on, uint64_t names)
{
	char buf[4][32];

	for (long i = 0; i < n; i++) {
		char *b = buf[i & 3];

		make_name(b, names ? (uint64_t)i * 7 % names : (uint64_t)i);
		__asm__ volatile("" ::"r"(b) : "memory");
		if (on) {
			ws_range_push(b);
			ws_range_pop();
		}
	}
}

static void loop_buffers(long n, int on)
{
	push_named(n, on, 64);
}

static void loop_unique(long n, int on)
{
	push_named(n, on, 0);
}

static void loop_jitter(long n, int on)
{
	uint64_t x = 88172645463325252u;
	char buf[32];

	for (long i = 0; i < n; i++) {
		uint64_t r = next_random(&x);

		make_name(buf, r % 1000);
		__asm__ volatile("" ::"r"(buf) : "memory");
		if (on)
			ws_range_push(buf);
		do_work(r >> 32);
		if (on)
			ws_range_pop();
	}
}

static void loop_mark(long n, int on)
{
	for (long i = 0; i < n; i++)
		if (on)
			ws_mark("a mark");
}

static void loop_startend(long n, int on)
{
	for (long i = 0; i < n; i++)
		if (on)
			ws_range_end(ws_range_start("a start/end range"));
}

static const struct kind {
	const char *name;
	void (*loop)(long n, int on);
} kinds[] = {
	{"plain", loop_plain},	     {"registered", loop_registered}, {"buffers", loop_buffers},
	{"unique", loop_unique},     {"jitter", loop_jitter},	      {"mark", loop_mark},
	{"startend", loop_startend},
};

struct task {
	const struct kind *kind;
	long pairs;
	double ns, cpu_ns; /* a pair */
	pthread_t thread;
};

/* Elapsed and processor time of a loop. */
static void time_loop(struct task *task, int on, double *wall, double *cpu)
{
	double w = read_clock(CLOCK_MONOTONIC), c = read_clock(CLOCK_THREAD_CPUTIME_ID);

	task->kind->loop(task->pairs, on);
	*cpu = read_clock(CLOCK_THREAD_CPUTIME_ID) - c;
	*wall = read_clock(CLOCK_MONOTONIC) - w;
}

static void *run_task(void *arg)
{
	struct task *task = arg;
	double wall[2], cpu[2];

	task->kind->loop(1000, 1); /* the thread's first event makes its ring */
	for (int on = 0; on < 2; on++)
		time_loop(task, on, &wall[on], &cpu[on]);
	task->ns = (wall[1] - wall[0]) / (double)task->pairs;
	task->cpu_ns = (cpu[1] - cpu[0]) / (double)task->pairs;
	return NULL;
}

static void run_kind(const struct kind *kind, long pairs, int threads)
{
	struct task *task = calloc((size_t)threads, sizeof(*task));
	double wall = 0, cpu = 0;

	if (!task)
		exit(1);
	for (int i = 0; i < threads; i++) {
		task[i] = (struct task){.kind = kind, .pairs = pairs};
		if (i && pthread_create(&task[i].thread, NULL, run_task, &task[i])) {
			fprintf(stderr, "nvtx_storm: cannot start thread %d\n", i);
			exit(1);
		}
	}
	run_task(&task[0]);
	for (int i = 0; i < threads; i++) {
		if (i)
			pthread_join(task[i].thread, NULL);
		wall += task[i].ns;
		cpu += task[i].cpu_ns;
	}
	free(task);
	printf("%-10s %d thread%s %10ld pairs %8.2f ns a pair, %8.2f ns of processor time\n",
	       kind->name, threads, threads == 1 ? " " : "s", pairs, wall / threads, cpu / threads);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	long pairs = argc > 2 ? strtol(argv[2], NULL, 10) : 3000000;
	int threads = argc > 3 ? atoi(argv[3]) : 1;

	domain = ws_domain_create("storm");
	registered = ws_string_register(domain, "a registered range");
	if (pairs < 1 || threads < 1 || threads > 10000) {
		fprintf(stderr, "nvtx_storm: PAIRS and THREADS must be numbers from 1\n");
		return 2;
	}
	if (argc < 2) {
		for (int i = 0; i < 3; i++) {
			run_kind(&kinds[0], pairs, threads);
			run_kind(&kinds[1], pairs, threads);
		}
		return 0;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, argv[1])) {
			run_kind(&kinds[i], pairs, threads);
			return 0;
		}
	fprintf(stderr,
		"nvtx_storm: unknown kind '%s'; one of plain, registered, buffers, unique, jitter, "
		"mark, startend\n",
		argv[1]);
	return 2;
}
